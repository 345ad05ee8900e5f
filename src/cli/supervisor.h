/*
 * cli/supervisor.h - the process between `rowlock run` and its command.
 *
 * It has no threads and no connection. It starts the command, knows all its descendants, and ends
 * them when its parent has not moved the deadline in time, or is gone. So the command is ended in
 * time even if `rowlock` is stopped, hangs, or was killed.
 */
#ifndef RL_CLI_SUPERVISOR_H
#define RL_CLI_SUPERVISOR_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "rowlock/rowlock.h"
#include "run_signals.h"

/* The deadline is read while the other process writes it. */
_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "64-bit atomics between processes are needed");

/* Shared memory, for the deadline, which must reach the supervisor even if one side is stopped. */
typedef struct supervisor_page {
    _Atomic int64_t kill_at_us;
} supervisor_page;

typedef struct supervisor {
    pid_t pid;
    int socket; /* readable: a report, or the supervisor has ended */
    supervisor_page *page;
} supervisor;

/* What happens to descendants when the command has ended. */
typedef enum supervisor_children {
    CHILDREN_END,  /* SIGTERM, and SIGKILL later */
    CHILDREN_WAIT, /* the supervisor waits until they have ended */
    CHILDREN_LEAVE /* they live on; SIGTERM goes to the command alone */
} supervisor_children;

/* Set before the lock is acquired. */
typedef struct supervisor_job {
    const char *name; /* the lock's */
    char **command;
    char **on_lost; /* the command to begin after a loss; NULL: none */
    const run_signals *signals;
    bool pass_password; /* in the command's environment */
    supervisor_children children;
    int64_t kill_after_us; /* from SIGTERM to SIGKILL, except after a loss */
    int64_t alive_us;      /* how often the command must show life; 0: never */
    const char *value;     /* a leader's; NULL or "": none */
    bool again; /* another command may begin after one has ended, with all its descendants */
} supervisor_job;

/* The period of `rowlock once`; "": none. */
typedef struct supervisor_period {
    char start[28];
    char end[28];
    char attempt[12];
} supervisor_period;

/* The item of `rowlock queue work`; an empty id: none. */
typedef struct supervisor_item {
    char id[24];
    char key[4 * ROWLOCK_NAME_MAX + 1];
    char attempt[12];
    char token[24];
} supervisor_item;

/* Set when the lock is held. */
typedef struct supervisor_go {
    /* The command gets a process group of its own. Otherwise it is in our parent's, where the
     * terminal and a shell's job control reach both. */
    bool own_group;
    bool is_job;      /* `rowlock` stops when the command does, for a shell that waits for it */
    int64_t grace_us; /* from SIGTERM to SIGKILL */
    char token[24];   /* "": none */
    char slots[5 * ROWLOCK_UNITS_MAX]; /* numbers of slots; "": none */
    char owner[ROWLOCK_OWNER_MAX + 1];
    char init_command[ROWLOCK_INIT_COMMAND_MAX + 1]; /* "": none */
    supervisor_period period;
    supervisor_item item;
    int input; /* the command's stdin; 0: ours */
    /* "": begin the job's command. Else why the lock was lost: begin on_lost. */
    char lost_because[256]; /* RUN_BECAUSE */
} supervisor_go;

enum { SUPERVISOR_SOCKETS = 253 }; /* the most that the kernel passes in one message */

typedef enum order_kind { ORDER_BEGIN, ORDER_SIGNAL, ORDER_ASK, ORDER_KILL } order_kind;

typedef struct supervisor_order {
    order_kind kind;
    supervisor_go go; /* ORDER_BEGIN; sockets may come with it */
    int number;       /* ORDER_SIGNAL, ORDER_ASK */
    bool heard;
} supervisor_order;

typedef enum supervisor_news {
    NEWS_STOPPED, /* the command was stopped by the signal `status`, and `rowlock` is a job */
    NEWS_BEHIND,  /* the command has ended; its children are waited for */
    NEWS_END      /* the last report */
} supervisor_news;

typedef struct supervisor_report {
    supervisor_news news;
    pid_t command;
    int status;     /* the command's, as of waitpid() */
    int exec_error; /* why it could not be run, an errno; 0: it was */
    bool told;      /* it was sent SIGTERM, since the deadline was near */
    bool too_late;  /* it was not started, since the deadline had passed */
    bool silent;    /* it was sent SIGTERM, since it had shown no life for too long */
    bool killed;    /* all descendants were sent SIGKILL */
    int left;       /* processes that could not be ended (`killed`), or that live on */
    int behind;     /* processes that were alive when the command had ended */
    int forced;     /* processes that got SIGKILL when --kill-after was over */
} supervisor_report;

/* An exec_error that may pass by itself: too many processes, no memory, a COMMAND that is being
 * written. */
bool supervisor_error_may_pass(int exec_error);

/* The deadlines' clock. Like the server's, it goes on while the machine is suspended. */
int64_t supervisor_now_us(void);

/* Forks the supervisor. Call it before there is a second thread or a connection. False: see
 * errno. */
bool supervisor_start(supervisor *self, const supervisor_job *job);

/* Starts the command. Set the first deadline before. `keep`: our connections stay open until the
 * command and the supervisor have ended. */
void supervisor_begin(supervisor *self, const supervisor_go *go, bool keep);

/* Sets when all descendants must be killed. */
void supervisor_set_deadline(supervisor *self, int64_t kill_at_us);

/* Passes a signal on to the command, SIGTERM to all descendants. `heard`: the command got it
 * already. */
void supervisor_signal(supervisor *self, int number, bool heard);

/* Sends the command alone a signal, without further consequences. */
void supervisor_ask(supervisor *self, int number);

/* Ends the command and all its descendants; a report follows. */
void supervisor_kill(supervisor *self);

/* Call it once each time the socket is readable. False: the supervisor is gone without a last
 * report. */
bool supervisor_receive(supervisor *self, supervisor_report *report);

/*
 * Ends the supervisor, whatever state it is in, and waits for it, once. A running command is killed
 * with it; the command's descendants become our children. Returns the status of waitpid(), or -1 if
 * it was waited for before.
 */
int supervisor_finish(supervisor *self);

/* supervise.c: the supervisor's process. `group` is its parent's process group. */
_Noreturn void supervise(const supervisor_job *job, int socket, supervisor_page *page, pid_t group);

#endif
