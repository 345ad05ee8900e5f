/* cli/run.h - what the files of `rowlock run` share: see cmd_run.c. */
#ifndef RL_CLI_RUN_H
#define RL_CLI_RUN_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>

#include "cli.h"
#include "descendants.h"
#include "rowlock/rowlock_queue.h"
#include "run_signals.h"
#include "supervisor.h"

typedef struct run run;

/* The result of a run, for the process that started it (repeat.h). */
typedef struct run_report {
    bool began;            /* COMMAND was started */
    bool not_executed;     /* COMMAND could not be executed, and could not be another time */
    rowlock_status status; /* of the acquire, then of the release */
    int64_t held_us;       /* how long the lock was held */
} run_report;

/* What a run does in place of acquiring and releasing a plain lock: it is a member of a latch or a
 * barrier, leads, or works on a period (`once`). */
typedef struct run_role {
    /* Acquires. OK without a hold: COMMAND is not run. */
    rowlock_status (*enter)(run *self, const rowlock_acquire_options *how);
    /* Called when COMMAND has ended; it also releases. */
    rowlock_status (*leave)(run *self, const rowlock_release_options *how);
} run_role;

/* The arguments. */
typedef struct run_options {
    cli_context context;
    rowlock_acquire_options acquire; /* ttl_ms is never 0 */
    const char *label;               /* NULL: not given */
    const char *on_lost;             /* for sh -c; NULL: nothing */
    int log;                         /* a value of run_logs */
    bool pass_password;
    bool leave_children, wait_children; /* as given */
    supervisor_children children;       /* follows from these two and --kill-after */
    int64_t kill_after_ms;
    int64_t alive_ms;                   /* COMMAND must show life this often; 0: need not */
    int on_ask;                         /* the signal for COMMAND; 0: none */
    unsigned not_got;                   /* exit status when somebody else has the lock */
    const char *names[ROWLOCK_SET_MAX]; /* the first is NAME, the others --also */
    bool share[ROWLOCK_SET_MAX];        /* which names are shared */
    size_t also;                        /* the number of others */
    const char *name;
    char **command;       /* ends with NULL */
    const run_role *role; /* NULL: none */
    const char *key;      /* latch: the key to count; NULL: none */
    uint64_t generation;  /* latch: 0: the present one */
    uint64_t members;     /* barrier: how many */
    void *role_data;      /* other roles: their own data */
    run_report *report;   /* may be NULL */
    /* Called before the first connection or thread; may be NULL. What it changes in this process
     * does not reach COMMAND: the supervisor, which starts COMMAND, was forked before. */
    void (*begin)(const struct run_options *options);
} run_options;

enum {
    RUN_KILL_AFTER_MS = 10000, /* if the option is not given */
    RUN_BECAUSE = 256,         /* room for a reason */
    RUN_ALIVE_MIN_MS = 100,
    RUN_SILENT = 124 /* the exit status of --alive, as of timeout(1) */
};
#define RUN_LOG_WANTS   "is text or json"
#define RUN_ALIVE_WANTS "is from 100ms to 24h"

/* The line on a terminal that says why we wait. */
typedef struct run_waiting run_waiting;

struct run {
    run_options options;
    const char *name, *command; /* the first of each, for messages */
    bool verbose;
    run_signals signals;
    process_list before; /* our descendants at the start: see descendants.h */
    supervisor supervisor;
    char label[ROWLOCK_LABEL_MAX + 1];

    rowlock_client *client;
    rowlock_hold *hold;
    rowlock_item *item; /* the item of a queue's worker, which has no hold */
    /* Called for each signal, in place of passing it on to COMMAND; may be NULL. */
    void (*hear)(run *self, int number);
    rowlock_cancel *cancel;
    _Atomic(run_waiting *) waiting;

    /* The second thread. The results below are ready when `done` is readable. */
    pthread_t worker;
    int done;
    atomic_bool connected;
    atomic_bool hurried; /* the second thread is to come to an end: `cancel` was fired */
    rowlock_status status;
    rowlock_error err;

    pthread_mutex_t mutex;
    atomic_uint asks;               /* how many asks this process was told of ... */
    char lost_because[RUN_BECAUSE]; /* guarded by the mutex: the keeper's thread writes */

    /* Why a wait for the second thread has ended. */
    int deadly; /* by this signal */
    bool unsupervised;

    bool again; /* another COMMAND may follow this one */
    supervisor_period period;
    supervisor_go go; /* COMMAND was started with it */
    int64_t margin_us;
    int64_t grace_us;
    int64_t acquired_us;
    int64_t kill_at_us;
    unsigned asks_told; /* ... and how many it has passed on to COMMAND */
    bool own_group;
    bool tells_loss;        /* --on-lost has begun */
    bool lost;              /* seen while the command ran */
    bool killed_here;       /* we ended the command, since the supervisor did not */
    bool ended;             /* the command was ended, since the lock was being lost */
    int refused;            /* the exit status with which its role's `enter` failed; 0: by `err` */
    bool left_badly;        /* its role's `leave` failed: err says why */
    int supervisor_status;  /* if it ended too early: how */
    supervisor_report stop; /* the last report that COMMAND was stopped */
    supervisor_report report;
    int exit_status;
    const char *note;
};

static inline int64_t between(int64_t least, int64_t value, int64_t most)
{
    return value < least ? least : value > most ? most : value;
}

/* A status of waitpid() as a shell shows it: 128 + N for a signal. */
static inline int run_exit_status(int status)
{
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* Milliseconds for poll(), rounded up: never awake too early. */
static inline int run_until(int64_t at_us)
{
    int64_t ms = (at_us - supervisor_now_us() + 999) / 1000;
    return (int)between(0, ms, 60000);
}

/* cmd_run.c: runs cli_run after the options (a run_options) were read. */
int run_options_run(void *into);

/* cmd_run.c: makes everything that must exist before the first connection or thread. `again`: one
 * COMMAND may follow another. False: it has reported an error. */
bool run_prepare(run *self, bool again);

/* run_options.c: the words of --log. */
extern const cli_word run_logs[];

/* run_options.c: fills in the defaults. False: some options exclude each other. */
bool run_options_settle(run_options *out);

/* run_options.c: takes "-- COMMAND" after the first `before` operands. `how`, for an error message:
 * what COMMAND does with the name ("while leading"). */
bool run_take_command(run_options *out, const run_role *role, int before, const char *how);

/*
 * run_waiting.c. Starts a thread that shows the line after a moment and refreshes it each second,
 * on `client`, which was opened with `options`. If stderr is no terminal, it prints a line for each
 * holder, if `verbose`. NULL, which all calls below take: the terminal is too narrow, there is
 * nothing to print, or the thread could not be made, which is no reason to fail.
 */
run_waiting *run_waiting_start(rowlock_client *client, const rowlock_client_options *options,
                               const char *name, int64_t wait_ms, bool verbose);
/* Erases the line for other output on stderr. The next second draws it again. */
void run_waiting_hide(run_waiting *waiting);
/* Erases the line for good. */
void run_waiting_stop(run_waiting *waiting);
/* Waits a short time for its thread. False: the thread is in a call that does not end, so do not
 * close the client or free this. */
bool run_waiting_finish(run_waiting *waiting);
void run_waiting_free(run_waiting *waiting);

/* run_watch.c. Starts COMMAND. False: too late, since this process was stopped after the lock was
 * acquired. The supervisor checks that again. */
bool run_begin_command(run *self);
/* The same with a `go` of the caller's, for a run without a hold. */
bool run_begin(run *self, const supervisor_go *go);
/* Watches the command until it has ended, or its supervisor is gone. */
void run_watch_command(run *self);
/* Begins --on-lost, when the command has ended. It runs beside the release, and run_await_on_lost()
 * waits for it. */
void run_begin_on_lost(run *self);
void run_await_on_lost(run *self);

/* run_judge.c: messages about what happened, and the exit status. */
void run_say_acquired(const run *self);
void run_judge(run *self);
/* Why the lock was lost, as far as is known. */
void run_lost_because(run *self, char because[RUN_BECAUSE]);
/* The command was ended because the lock was being lost. */
bool run_was_lost(const run *self);
/* Reports processes that the command started and that outlived it. */
void run_say_children(const run *self);
/* Reports a failed release, which may make the exit status 75. */
void run_judge_release(run *self, int64_t held_us);

#endif
