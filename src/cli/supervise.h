/* cli/supervise.h - what supervisor.c (the parent's side) and supervise.c (the process
 * itself) agree on. */
#ifndef RL_CLI_SUPERVISE_H
#define RL_CLI_SUPERVISE_H

#include <stdatomic.h>

#include "rowlock/rowlock.h"
#include "supervisor.h"

/* A deadline read by halves would be none. */
_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "64-bit atomics between processes are needed");

/* Shared memory: the one word that must be seen even when nobody reads messages. */
typedef struct supervisor_page {
    _Atomic int64_t kill_at_us;
} supervisor_page;

typedef enum order_kind { ORDER_BEGIN, ORDER_SIGNAL, ORDER_KILL } order_kind;

typedef struct supervisor_order {
    order_kind kind;
    /* ORDER_SIGNAL */
    int number;
    bool heard;
    /* ORDER_BEGIN; the sockets come beside it */
    bool own_group;
    bool is_job;
    int64_t grace_us;
    char token[24]; /* "": none */
    char owner[ROWLOCK_OWNER_MAX + 1];
} supervisor_order;

/* The process, from its birth to its end. `group` is its parent's. */
_Noreturn void supervise(const supervisor_job *job, int socket, supervisor_page *page, pid_t group);

#endif
