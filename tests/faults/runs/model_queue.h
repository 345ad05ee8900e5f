/*
 * runs/model_queue.h - the events of the queue: which item was put, which process took it with
 * which token, and how it was ended.
 */
#ifndef RUNS_MODEL_QUEUE_H
#define RUNS_MODEL_QUEUE_H

#include "history.h"

typedef struct process process;

enum { ITEM_WORD = 24 };

/* An item that was put; several with one call have the same times and status. */
typedef struct item_put {
    const process *by;
    char mark[ITEM_WORD]; /* no other item's */
    char group[ITEM_WORD];
    char key[ITEM_WORD];
    int64_t delay;
    unsigned most; /* attempts; 0: any number */
    int64_t at;
    int64_t reply; /* TIME_NEVER: none */
    char status[16];
    uint64_t id; /* 0: it was not told. It may be that of another item, with the same key */
} item_put;

/* A call that takes. */
typedef struct take_call {
    const process *by;
    int64_t at;
    int64_t reply; /* TIME_NEVER: none */
    int64_t wait;
    char status[16];
    unsigned count; /* of items */
} take_call;

/* An item that somebody has taken. */
typedef struct item_take {
    const process *by;
    uint64_t id;
    uint64_t token;
    unsigned attempt;
    char mark[ITEM_WORD];
    int64_t at; /* of the call */
    int64_t reply;
    int64_t promised; /* it is the taker's until then, if it does not give it up */
    int64_t believed; /* its taker was told so, until then, by itself; INT64_MIN: it did not ask */
    int64_t first_sure; /* the first and the last moment for which it was told OK */
    int64_t last_sure;
    int64_t given_up; /* something of item_give was called, for the first time */
} item_take;

/* "Do I still have it?", and the answer. */
typedef struct item_still {
    const item_take *take;
    int64_t from;
    bool ok;
} item_still;

/* What the taker says of an item: done, job (done, in one transaction with its work), retry, dead,
 * release; or close (of its client). */
typedef struct item_give {
    const item_take *take;
    char verb[12];
    int64_t delay;
    int64_t at;
    int64_t reply; /* TIME_NEVER: none */
    char status[16];
} item_give;

/* An item, as the driver saw it. */
typedef struct item_look {
    int64_t from;
    int64_t to;
    uint64_t id;
    char mark[ITEM_WORD];
    char state[8]; /* waits, held, dead */
    uint64_t token;
    unsigned attempts;
    int64_t remaining; /* held: us until the lease ends */
} item_look;

/* A job's work, as it is there at the end. */
typedef struct item_work {
    char mark[ITEM_WORD];
    uint64_t token;
} item_work;

enum { QUEUE_WHO = 4096 };

typedef struct queue_model {
    item_put *puts; /* by the time of the call, as all of these */
    size_t put_count;
    take_call *calls;
    size_t call_count;
    item_take *takes;
    size_t take_count;
    item_still *stills;
    size_t still_count;
    item_give *gives;
    size_t give_count;
    item_look *looks;
    size_t look_count;
    item_work *work;
    size_t work_count;
    int64_t last_look; /* when the driver began to look for the last time */
    /* Of each process: what it is in the middle of. */
    take_call *open_take[QUEUE_WHO];
    size_t open_put[QUEUE_WHO]; /* the first of those without a reply, plus one; 0: there is none */
} queue_model;

#define QUEUE_MODEL_LISTS(X) X(puts) X(calls) X(takes) X(stills) X(gives) X(looks) X(work)

/* A line of the history; false: it is none of the queue's, or out of place. */
bool queue_model_take(queue_model *q, const process *by, const event *e);

#endif
