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

/* What became of a run, for the process that started it (repeat.h). */
typedef struct run_report {
    bool began;            /* COMMAND was started */
    bool not_executed;     /* ... or would have been, but it cannot be run */
    rowlock_status status; /* of the lock: how it was got, then how it was released */
    int64_t held_us;       /* for how long it was held */
} run_report;

/* How a command enters and leaves what is not just a lock: a latch or a barrier as a member, the
 * lead, a period (`once`). */
typedef struct run_role {
    /* In place of acquiring. OK without a hold: COMMAND is not to run. */
    rowlock_status (*enter)(run *self, const rowlock_acquire_options *how);
    /* Called when COMMAND has ended, in place of the release; it releases, too. */
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
    supervisor_children children;       /* what follows from these two and --kill-after */
    int64_t kill_after_ms;
    int64_t alive_ms;                   /* COMMAND must show life this often; 0: need not */
    int on_ask;                         /* the signal for COMMAND; 0: none */
    unsigned not_got;                   /* exit status when somebody else has it */
    const char *names[ROWLOCK_SET_MAX]; /* the first is NAME, the others --also */
    bool share[ROWLOCK_SET_MAX];        /* which of them are shared */
    size_t also;                        /* how many others */
    const char *name;
    char **command;       /* ends with NULL */
    const run_role *role; /* NULL: none */
    const char *key;      /* latch: the count's key; NULL: none */
    uint64_t generation;  /* latch: 0: the present one */
    uint64_t members;     /* barrier: how many */
    void *role_data;      /* other roles: their own data */
    run_report *report;   /* NULL: nobody wants it */
    /* Called before the first connection or thread; may be NULL. COMMAND does not see what it
     * changes in this process: the process that runs COMMAND is there already. */
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
    const char *name, *command; /* the first of each, for messages */
    bool verbose;
    run_signals signals;
    process_list before; /* see descendants.h */
    supervisor supervisor;
    char label[ROWLOCK_LABEL_MAX + 1];

    rowlock_client *client;
    rowlock_hold *hold;
    rowlock_item *item; /* a queue's, in place of a hold */
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
    atomic_uint asks;               /* that this process was told of ... */
    char lost_because[RUN_BECAUSE]; /* guarded by the mutex: the keeper's thread writes */

    /* What ended a wait for the second thread. */
    int deadly; /* a signal */
    bool unsupervised;

    bool again; /* another COMMAND may follow this one */
    supervisor_period period;
    supervisor_go go; /* with which COMMAND was started */
    int64_t margin_us;
    int64_t grace_us;
    int64_t acquired_us;
    int64_t kill_at_us;
    unsigned asks_told; /* ... and has passed on to COMMAND */
    bool own_group;
    bool tells_loss;        /* --on-lost has begun */
    bool lost;              /* seen while the command ran */
    bool killed_here;       /* by us, in place of the supervisor */
    bool ended;             /* the command did not end by itself: the lock was being lost */
    int refused;            /* the exit status with which its role's `enter` failed; 0: by `err` */
    bool left_badly;        /* its role's `leave` failed: err says why */
    int supervisor_status;  /* how it ended, if it ended too early */
    supervisor_report stop; /* the last report that COMMAND was stopped */
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

/* run_options.c: fills in the defaults. False: some options exclude each other. */
bool run_options_settle(run_options *out);

/* run_options.c: takes -- COMMAND behind the `before` first operands, of which out->name is one.
 * `how` for the message: what COMMAND does with that name ("while leading"). */
bool run_take_command(run_options *out, const run_role *role, int before, const char *how);

/*
 * run_waiting.c. Starts a thread that shows the line after a moment and refreshes it each second,
 * on `client`, which was opened with `options`; if stderr is no terminal, and `verbose`, it says
 * once of each holder that we wait for it. NULL, which every call below takes, if the terminal is
 * too narrow, nothing is to be said, or no thread could be made: not worth failing for.
 */
run_waiting *run_waiting_start(rowlock_client *client, const rowlock_client_options *options,
                               const char *name, int64_t wait_ms, bool verbose);
/* Takes the line away for something else on stderr; it comes back with the next second. */
void run_waiting_hide(run_waiting *waiting);
/* Takes it away for good. After that nothing is written any more. */
void run_waiting_stop(run_waiting *waiting);
/* Waits for its thread, not long. False: the thread is in a call that does not end; then the
 * client must not be closed, nor this be freed. */
bool run_waiting_finish(run_waiting *waiting);
void run_waiting_free(run_waiting *waiting);

/* run_watch.c. Starts COMMAND. False: too late, since we were stopped after the lock was acquired.
 * (The supervisor looks again.) */
bool run_begin_command(run *self);
/* The same for what is not a lock; `go` has nothing of a lock then. */
bool run_begin(run *self, const supervisor_go *go);
/* Watches the command until it has ended, or nothing more can be heard of it. */
void run_watch_command(run *self);
/* --on-lost begins once the command has ended, beside the release, and is waited for at the end. */
void run_begin_on_lost(run *self);
void run_await_on_lost(run *self);

/* run_judge.c: what happened, in words and as the exit status. */
void run_say_acquired(const run *self);
void run_judge(run *self);
/* Why the lock was lost, as far as is known. */
void run_lost_because(run *self, char because[RUN_BECAUSE]);
/* Was the command ended because the lock was being lost? */
bool run_was_lost(const run *self);
/* Says what became of the processes that the command started. */
void run_say_children(const run *self);
/* Says how the release ended, which may make the exit status 75. */
void run_judge_release(run *self, int64_t held_us);

#endif
