/*
 * cli/queue.h - what the files of `rowlock queue` share: cmd_queue.c has the verbs, queue_put.c
 * puts items, queue_take.c takes and prints one, queue_list.c lists queues and items, queue_pool.c
 * and queue_worker.c run workers.
 */
#ifndef RL_CLI_QUEUE_H
#define RL_CLI_QUEUE_H

#include "rowlock/rowlock_queue.h"
#include "run.h"

enum {
    QUEUE_CANNOT_RUN = 126, /* exit status: COMMAND cannot be executed */
    QUEUE_NOT_FOUND = 127,  /* exit status: there is no such COMMAND */
    QUEUE_WORKERS_MAX = 1000
};

/* The arguments. cmd_queue.c says which verb takes which. */
typedef struct queue_job {
    run_options run; /* for `work`; other verbs use NAME, --json and --ttl */
    unsigned workers;
    unsigned batch;   /* how many items a worker takes at once */
    unsigned dead_on; /* the exit status of COMMAND that makes its item dead; 0: none */

    rowlock_put_options put;
    const char *at;
    bool lines; /* each line of stdin is an item */
    int64_t delay_ms, wait_ms;
    const char *reason;
    bool all, items;
    int64_t older_ms;
    const struct queue_action *action;
} queue_job;

/* queue_put.c. `text`: the payload as given; NULL only with --lines. */
rowlock_status queue_put(const queue_job *job, rowlock_client *client, const char *text,
                         rowlock_error *err);

/* queue_take.c */
rowlock_status queue_take(const queue_job *job, rowlock_client *client, rowlock_error *err);

/* queue_list.c: of one queue, or of all (NULL). */
rowlock_status queue_list(const queue_job *job, rowlock_client *client, const char *name,
                          rowlock_error *err);
rowlock_status queue_list_items(const queue_job *job, rowlock_client *client, const char *name,
                                bool dead, rowlock_error *err);

/* queue_pool.c: runs workers until a signal ends it. Returns the exit status. */
int queue_pool_run(const queue_job *job);
/* queue_worker.c: runs one worker. Returns its exit status. */
int queue_worker_run(const queue_job *job);

#endif
