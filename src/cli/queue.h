/*
 * cli/queue.h - what the files of `rowlock queue` share: cmd_queue.c has the verbs, queue_put.c
 * what is put, queue_take.c the printing of what is taken, queue_list.c what is in a queue,
 * queue_pool.c and queue_worker.c its workers.
 */
#ifndef RL_CLI_QUEUE_H
#define RL_CLI_QUEUE_H

#include "rowlock/rowlock_queue.h"
#include "run.h"

enum {
    QUEUE_CANNOT_RUN = 126, /* exit statuses: of a COMMAND that cannot be run, */
    QUEUE_NOT_FOUND = 127,  /* and that is not there */
    QUEUE_WORKERS_MAX = 1000
};

/* The arguments. Which of them a verb takes: cmd_queue.c. */
typedef struct queue_job {
    run_options run; /* of `work`; NAME, --json and --ttl are others', too */
    unsigned workers;
    unsigned batch;   /* how many items are taken at once */
    unsigned dead_on; /* the exit status of COMMAND that makes an item a dead one; 0: none does */

    rowlock_put_options put;
    const char *at;
    bool lines; /* each line of stdin is an item */
    int64_t delay_ms, wait_ms;
    const char *reason;
    bool all, items;
    int64_t older_ms;
    const struct queue_action *action;
} queue_job;

/* queue_put.c. `text`: as given; NULL: nothing, or stdin with --lines. */
rowlock_status queue_put(const queue_job *job, rowlock_client *client, const char *text,
                         rowlock_error *err);
/* --at: "2026-11-25T02:00:00Z", "2026-11-25 02:00" (UTC) or "@1764035200". False: it is none. */
bool queue_at(const char *text, int64_t *at_us);

/* queue_take.c */
rowlock_status queue_take(const queue_job *job, rowlock_client *client, rowlock_error *err);

/* queue_list.c: of one queue, or of all (NULL). */
rowlock_status queue_list(const queue_job *job, rowlock_client *client, const char *name,
                          rowlock_error *err);
rowlock_status queue_list_items(const queue_job *job, rowlock_client *client, const char *name,
                                bool dead, rowlock_error *err);

/* queue_pool.c: until a signal ends it. Returns the exit status. */
int queue_pool_run(const queue_job *job);
/* queue_worker.c: one of them. The same. */
int queue_worker_run(const queue_job *job);

#endif
