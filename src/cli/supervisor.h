/*
 * cli/supervisor.h - the process between `rowlock run` and its command.
 *
 * It has no threads and no connection. It starts the command, knows all its descendants, and ends
 * them when its parent has not moved the deadline in time, or is gone. So the command dies in time
 * even while `rowlock` is stopped, hangs, or was killed.
 */
#ifndef RL_CLI_SUPERVISOR_H
#define RL_CLI_SUPERVISOR_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "rowlock/rowlock.h"
#include "run_signals.h"

/* The deadline must be read in one piece. */
_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "64-bit atomics between processes are needed");

/* Shared memory, for the one value that must be seen even when nobody reads messages. */
typedef struct supervisor_page {
    _Atomic int64_t kill_at_us;
} supervisor_page;

typedef struct supervisor {
    pid_t pid;
    int socket; /* readable: a report, or its end */
    supervisor_page *page;
} supervisor;

/* What happens to the command's descendants when the command has ended. */
typedef enum supervisor_children {
    CHILDREN_END,  /* SIGTERM, and SIGKILL later */
    CHILDREN_WAIT, /* wait until they have ended by themselves */
    CHILDREN_LEAVE /* they live on, and SIGTERM goes to the command alone */
} supervisor_children;

/* What is known before the lock is held. */
typedef struct supervisor_job {
    const char *name; /* the lock's */
    char **command;
    char **on_lost; /* a second command, begun with a reason after a loss; NULL: none */
    const run_signals *signals;
    bool pass_password; /* in the command's environment */
    supervisor_children children;
    int64_t kill_after_us; /* from SIGTERM to SIGKILL, except after a loss */
    int64_t alive_us;      /* the command must show life so often; 0: need not */
    const char *value;     /* a leader's; NULL or "": none */
    bool again; /* once a command has ended, with all that it started, another may begin */
} supervisor_job;

/* Of `rowlock once`; "": there is none. */
typedef struct supervisor_period {
    char start[28];
    char end[28];
    char attempt[12];
} supervisor_period;

/* Of `rowlock queue work`; an empty id: there is none. */
typedef struct supervisor_item {
    char id[24];
    char key[4 * ROWLOCK_NAME_MAX + 1];
    char attempt[12];
    char token[24];
} supervisor_item;

/* What is known once the lock is held. */
typedef struct supervisor_go {
    /* The command gets a process group of its own; else it is in its grandparent's, where the
     * terminal and a shell's job control reach both. */
    bool own_group;
    bool is_job;      /* its grandparent stops when the command does: a shell waits to see that */
    int64_t grace_us; /* from SIGTERM to SIGKILL */
    char token[24];   /* "": none */
    char slots[5 * ROWLOCK_UNITS_MAX]; /* their numbers; "": it has none */
    char owner[ROWLOCK_OWNER_MAX + 1];
    char init_command[ROWLOCK_INIT_COMMAND_MAX + 1]; /* "": there is none */
    supervisor_period period;
    supervisor_item item;
    int input; /* the command's stdin; 0: ours */
    /* Why the lock was lost, and then it is the job's on_lost that begins; "": its command. */
    char lost_because[256]; /* RUN_BECAUSE */
} supervisor_go;

enum { SUPERVISOR_SOCKETS = 253 }; /* what the kernel passes in one message */

typedef enum order_kind { ORDER_BEGIN, ORDER_SIGNAL, ORDER_ASK, ORDER_KILL } order_kind;

typedef struct supervisor_order {
    order_kind kind;
    supervisor_go go; /* ORDER_BEGIN; sockets may come beside it */
    int number;       /* ORDER_SIGNAL, ORDER_ASK; `heard`: the command has had it already */
    bool heard;
} supervisor_order;

typedef enum supervisor_news {
    NEWS_STOPPED, /* the command was, and its grandparent is a job: by the signal `status` */
    NEWS_BEHIND,  /* the command has ended, and what it started is waited for */
    NEWS_END      /* the last one */
} supervisor_news;

typedef struct supervisor_report {
    supervisor_news news;
    pid_t command;
    int status;     /* the command's, as of waitpid() */
    int exec_error; /* why it could not be run, an errno; 0: it was */
    bool told;      /* it was sent SIGTERM, the deadline being near */
    bool too_late;  /* it was not even started: the deadline had passed */
    bool silent;    /* ... because it has shown no life for too long */
    bool killed;    /* all were sent SIGKILL */
    int left;       /* killed: how many could not be ended; else: live on */
    int behind;     /* alive when the command had ended */
    int forced;     /* were alive when --kill-after was over, and were sent SIGKILL */
} supervisor_report;

/* The clock of deadlines. It goes on while the machine is suspended, as the server's does. */
int64_t supervisor_now_us(void);

/* Forks it: before there is a second thread or a connection. False: see errno. */
bool supervisor_start(supervisor *self, const supervisor_job *job);

/* Starts the command. The first deadline must have been set. `keep`: our connections are not to end
 * before the command and the supervisor have. */
void supervisor_begin(supervisor *self, const supervisor_go *go, bool keep);

/* When all must be killed. Seen even by a supervisor that its parent no longer talks to. */
void supervisor_set_deadline(supervisor *self, int64_t kill_at_us);

/* Passes a signal to the command, SIGTERM to all; `heard`: the command has had it already. */
void supervisor_signal(supervisor *self, int number, bool heard);

/* A signal for the command alone, without further consequences. */
void supervisor_ask(supervisor *self, int number);

/* Ends the command and all that descends from it; a report follows. */
void supervisor_kill(supervisor *self);

/* After its socket became readable, once. False: it is gone without its last report. */
bool supervisor_receive(supervisor *self, supervisor_report *report);

/*
 * Ends the supervisor itself, whatever state it is in, and waits for it, once. A command that
 * runs is killed with it (not what descends from the command: that falls to us).
 * Returns its status as of waitpid(), or -1 when it had been waited for.
 */
int supervisor_finish(supervisor *self);

/* supervise.c: the process, from its birth to its end. `group` is its parent's. */
_Noreturn void supervise(const supervisor_job *job, int socket, supervisor_page *page, pid_t group);

#endif
