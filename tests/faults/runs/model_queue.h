/*
 * runs/model_queue.h - the events of the queue: which item was put, which process took it with
 * which token, and how it was ended.
 */
#ifndef RUNS_MODEL_QUEUE_H
#define RUNS_MODEL_QUEUE_H

#include "history.h"

typedef struct process process;

enum { ITEM_WORD = 24 };

/* An item that was put; items of one call have the same times and status. */
typedef struct item_put {
    const process *by;
    char mark[ITEM_WORD]; /* unique */
    char group[ITEM_WORD];
    char key[ITEM_WORD];
    int64_t delay;
    unsigned most; /* attempts; 0: any number */
    int64_t at;
    int64_t reply; /* TIME_NEVER: none */
    char status[16];
    uint64_t id; /* 0: unknown. It may be the id of another item with the same key */
} item_put;

/* A call that takes. */
typedef struct take_call {
    const process *by;
    int64_t at;
    int64_t reply; /* TIME_NEVER: none */
    int64_t wait;
    char status[16];
    unsigned count; /* the number of items */
} take_call;

/* An item that somebody has taken. */
typedef struct item_take {
    const process *by;
    uint64_t id;
    uint64_t token;
    unsigned attempt;
    char mark[ITEM_WORD];
    int64_t at; /* time of the call */
    int64_t reply;
    int64_t promised;   /* the taker was promised the item until then */
    int64_t believed;   /* the taker's own deadline, as told last; INT64_MIN: it did not ask */
    int64_t first_sure; /* the first and the last time for which it was told OK */
    int64_t last_sure;
    int64_t given_up; /* the first call that ends it (item_give) */
} item_take;

/* A check, and its result. */
typedef struct item_still {
    const item_take *take;
    int64_t from;
    bool ok;
} item_still;

/* A call that ends an item: done, job (done in one transaction with its work), retry, dead,
 * release; or close (of the client). */
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
    int64_t remaining; /* held: microseconds until the lease expires */
} item_look;

/* A job's work at the end. */
typedef struct item_work {
    char mark[ITEM_WORD];
    uint64_t token;
} item_work;

enum { QUEUE_WHO = 4096 };

typedef struct queue_model {
    item_put *puts; /* sorted by the time of the call, as all of these */
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
    int64_t last_look; /* when the driver's last look began */
    /* The open calls of each process. */
    take_call *open_take[QUEUE_WHO];
    size_t open_put[QUEUE_WHO]; /* index of the first put without a reply, plus one; 0: none */
} queue_model;

#define QUEUE_MODEL_LISTS(X) X(puts) X(calls) X(takes) X(stills) X(gives) X(looks) X(work)

/* Takes a line of the history; false: it is not the queue's, or out of place. */
bool queue_model_take(queue_model *q, const process *by, const event *e);

#endif
