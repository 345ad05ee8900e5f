/* cli/run.h - what the files of `rowlock run` share: see cmd_run.c. */
#ifndef RL_CLI_RUN_H
#define RL_CLI_RUN_H

#include <pthread.h>
#include <stdatomic.h>

#include "cli.h"
#include "descendants.h"
#include "rowlock/rowlock_queue.h"
#include "run_signals.h"
#include "supervisor.h"

typedef struct run run;

/* What became of a run, for the process that it was started by (repeat.h). */
typedef struct run_report {
    bool began;            /* COMMAND was started */
    bool not_executed;     /* ... or would have been, but it cannot be run */
    rowlock_status status; /* of the lock: how it was got, then how it was released */
    int64_t held_us;       /* for how long it was held */
} run_report;

/* What is more than a lock: a member of a latch or of a barrier, a leader, what is done once. */
typedef struct run_role {
    /* In place of acquiring. OK without a hold: there is nothing to be done. */
    rowlock_status (*enter)(run *self, const rowlock_acquire_options *how);
    /* In place of the release, which it makes, too: COMMAND has ended. */
    rowlock_status (*leave)(run *self, const rowlock_release_options *how);
} run_role;

/* The arguments. */
typedef struct run_options {
    cli_context context;
    rowlock_acquire_options acquire; /* ttl_ms is never 0 */
    const char *label;               /* NULL: not given */
    const char *on_lost;             /* for sh -c; NULL: nothing */
    int log;                         /* of run_logs */
    bool pass_password;
    bool leave_children, wait_children; /* as given */
    supervisor_children children;       /* what they come to */
    int64_t kill_after_ms;
    int64_t alive_ms;                   /* COMMAND must show life so often; 0: need not */
    int on_ask;                         /* the signal for COMMAND; 0: none */
    unsigned not_got;                   /* exit status when somebody else has it */
    const char *names[ROWLOCK_SET_MAX]; /* the first is NAME, the others --also */
    bool share[ROWLOCK_SET_MAX];        /* which of them are shared */
    size_t also;                        /* how many others */
    const char *name;
    char **command;       /* ends with NULL */
    const run_role *role; /* NULL: none */
    const char *key;      /* latch: of the count; NULL: none */
    uint64_t generation;  /* latch: 0: the present one */
    uint64_t members;     /* barrier: how many */
    void *role_data;      /* of other roles: what is theirs */
    run_report *report;   /* NULL: nobody wants it */
    /* May be NULL. What it changes of this process COMMAND does not see, whose own is there
     * already; nor a thread, since there is none yet. */
    void (*begin)(const struct run_options *options);
} run_options;

enum {
    RUN_KILL_AFTER_MS = 10000, /* where it is not given */
    RUN_BECAUSE = 256,         /* room for a reason */
    RUN_ALIVE_MIN_MS = 100,
    RUN_SILENT = 124 /* the exit status of --alive, as of timeout(1) */
};
#define RUN_LOG_WANTS   "is text or json"
#define RUN_ALIVE_WANTS "is from 100ms to 24h"

/* The line on a terminal that says what is waited for. */
typedef struct run_waiting run_waiting;

struct run {
    run_options options;
    const char *name, *command; /* of them, for messages */
    bool verbose;
    run_signals signals;
    process_list before; /* see descendants.h */
    supervisor supervisor;
    char label[ROWLOCK_LABEL_MAX + 1];

    rowlock_client *client;
    rowlock_hold *hold;
    rowlock_item *item; /* in place of a hold: of a queue */
    /* In place of passing a signal on to COMMAND; NULL: it is passed on. */
    void (*hear)(run *self, int number);
    rowlock_cancel *cancel;
    _Atomic(run_waiting *) waiting;

    /* The second thread's work, ready to be looked at when `done` is readable. */
    pthread_t worker;
    int done;
    atomic_bool connected;
    atomic_bool hurried; /* the second thread is to come to an end: `cancel` was fired */
    rowlock_status status;
    rowlock_error err;

    pthread_mutex_t mutex;
    atomic_uint asks;               /* heard of */
    char lost_because[RUN_BECAUSE]; /* guarded by it: the keeper's thread writes */

    /* What ended a wait for the second thread. */
    int deadly; /* a signal */
    bool unsupervised;

    bool again; /* another COMMAND may follow this one */
    supervisor_period period;
    supervisor_go go; /* as COMMAND was begun */
    int64_t margin_us;
    int64_t grace_us;
    int64_t acquired_us;
    int64_t kill_at_us;
    unsigned asks_told; /* to COMMAND */
    bool own_group;
    bool tells_loss;        /* --on-lost has begun */
    bool lost;              /* seen while the command ran */
    bool killed_here;       /* the supervisor did not, we did */
    bool ended;             /* the command did not end by itself: the lock was being lost */
    int refused;            /* the exit status with which its role's `enter` failed; 0: by `err` */
    bool left_badly;        /* its role's `leave` failed: err says why */
    int supervisor_status;  /* how it ended where it should not have */
    supervisor_report stop; /* the last that was told of */
    supervisor_report report;
    int exit_status;
    const char *note;
};

static inline int64_t between(int64_t least, int64_t value, int64_t most)
{
    return value < least ? least : value > most ? most : value;
}

/* Milliseconds for poll(), rounded up: never awake too early. */
static inline int run_until(int64_t at_us)
{
    int64_t ms = (at_us - supervisor_now_us() + 999) / 1000;
    return (int)between(0, ms, 60000);
}

/* cmd_run.c: what cli_run does when the options (a run_options) are read. */
int run_options_run(void *into);

/* cmd_run.c: everything that must be there before the first connection or thread. `again`: one
 * COMMAND may follow another. False: it has complained. */
bool run_prepare(run *self, bool again);

/* run_options.c: of --log. */
extern const cli_word run_logs[];

/* run_options.c: how the job is run: what excludes each other, and the defaults. */
bool run_options_settle(run_options *out);

/* run_options.c: so many operands, of which out->name is one, and then -- COMMAND, which runs
 * `how` ("while leading") that name. */
bool run_take_command(run_options *out, const run_role *role, int before, const char *how);

/*
 * run_waiting.c. A thread that shows the line after a moment and refreshes it each second, on
 * `client`, which was opened with `options`; where stderr is no terminal, and `verbose`, it says
 * whom it waits for, each once. NULL, which every call below takes, where the terminal is too
 * narrow, nothing is to be said, or there is no thread to be had: it is not worth failing for.
 */
run_waiting *run_waiting_start(rowlock_client *client, const rowlock_client_options *options,
                               const char *name, int64_t wait_ms, bool verbose);
/* Takes the line away for something else on stderr; it comes back with the next second. */
void run_waiting_hide(run_waiting *waiting);
/* Takes it away for good. After that nothing is written any more. */
void run_waiting_stop(run_waiting *waiting);
/* Waits for its thread, not long. False: that is in a call that does not end; then the
 * client must not be closed, and this not freed. */
bool run_waiting_finish(run_waiting *waiting);
void run_waiting_free(run_waiting *waiting);

/* run_watch.c. False: too late, we were stopped since we got the lock. (The supervisor looks
 * again.) */
bool run_begin_command(run *self);
/* The same of what is not a lock; what `go` says of one is left out. */
bool run_begin(run *self, const supervisor_go *go);
/* Until nothing more is heard of the command. */
void run_watch_command(run *self);
/* --on-lost: once the command has ended, beside the release. It is waited for at the end. */
void run_begin_on_lost(run *self);
void run_await_on_lost(run *self);

/* run_judge.c: what happened, in words and as the exit status. */
void run_say_acquired(const run *self);
void run_judge(run *self);
/* Why the lock was lost, as far as is known. */
void run_lost_because(run *self, char because[RUN_BECAUSE]);
/* The command was ended, for the lock was being lost. */
bool run_was_lost(const run *self);
/* What became of what the command started. */
void run_say_children(const run *self);
/* How the release ended; it may make the exit status 75. */
void run_judge_release(run *self, int64_t held_us);

#endif
