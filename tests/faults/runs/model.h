/*
 * runs/model.h - a history as data: which process asked for which lock, what it was told, how long
 * it held the lock, when it died; and when which fault was made.
 */
#ifndef RUNS_MODEL_H
#define RUNS_MODEL_H

#include "history.h"
#include "model_queue.h"

/* Times are microseconds of the history's clock. */
#define TIME_NEVER INT64_MAX

/* The clocks of server and client agree to 1 in so many. */
enum { MODEL_CLOCK_RATE = 2000 };

typedef struct span {
    int64_t from;
    int64_t to;
} span;

/* A process. */
struct process {
    unsigned who;
    char name[40];  /* of its lock */
    unsigned slots; /* of that name; 0: it has none */
    bool lease;
    bool latch;
    bool queue;
    unsigned members; /* of the barrier; 0: it is none */
    bool probe;
    bool polls;
    bool far; /* behind the proxy, where each answer takes its time */
    int64_t ttl;
    int64_t died; /* after it was reaped; TIME_NEVER: it was not */
    int status;   /* its exit status then, 128+n for a signal */
    bool killed;  /* the driver sent it a signal that ends it */
    bool hung;
};

/* How somebody holds a lock, beside whom else: see together() in checker.c. */
typedef enum holder_kind {
    HOLDER_ALONE,  /* beside nobody */
    HOLDER_READER, /* beside other readers */
    HOLDER_SLOTS,  /* of slots of the name, beside others, as many as there are */
    HOLDER_KINDS
} holder_kind;

enum { HOLD_PARTS = 8 };

/* One acquire, and what came of it. An upgrade or a downgrade that works ends one hold, and begins
 * another one of the same owner. Of a name with slots it is one hold of the name, which waits,
 * comes back and ends, and has no token; and a hold of each slot, alone, which has one: its parts.
 */
typedef struct hold {
    const process *by;
    char name[40]; /* of the lock, or of the slot */
    holder_kind kind;
    unsigned units;           /* so many slots; 1 where the name has none */
    const struct hold *whole; /* it is a part of that one; NULL: of none */
    struct hold *parts[HOLD_PARTS];
    unsigned part_count;
    const struct hold *before; /* it was to be made of that one; NULL: of none */
    bool got;
    int64_t call;
    int64_t reply; /* TIME_NEVER: none */
    int64_t wait;
    int64_t queues;  /* it asked for its last place in the queue; TIME_NEVER: for none ... */
    int64_t closed;  /* ... it had closed it for readers, the last time; TIME_NEVER: it had not */
    char status[16]; /* "" without a reply */
    bool fenced;
    uint64_t token;
    char owner[64];
    char value[40];     /* that it published with the acquire; "": none */
    int64_t first_sure; /* the first and the last moment for which it was told OK */
    int64_t last_sure;
    int64_t given_up; /* the release was called, or whatever may release it began */
    int64_t released; /* the release came back ... */
    char release_status[16];
    bool changed; /* ... or it has become another hold, for sure */
} hold;

/* "Do I still have it?", and the answer. */
typedef struct look {
    const hold *hold;
    int64_t from;
    bool ok;
    int64_t remaining;
} look;

typedef struct guarded_write {
    const hold *hold;
    unsigned seq;
    bool fence;
    int64_t call;
    int64_t reply;
    char status[12];
} guarded_write;

/* The lock's row, or a reader's, as the driver saw it. */
typedef struct row {
    int64_t from;
    int64_t to;
    char name[40];
    uint64_t version;
    bool held;
    bool reader; /* not the lock's row, but one of its readers' */
    char owner[64];
    int64_t remaining;
} row;

/* The guarded table at the end, in the order of the commits. */
typedef struct written {
    char name[40];
    uint64_t token;
    char owner[64];
    unsigned writer;
    unsigned seq;
} written;

/* A value that a holder published, with the acquire or later; "": that it leads no more. */
typedef struct publication {
    const hold *hold;
    bool apart; /* in a call of its own */
    int64_t at;
    int64_t reply;   /* TIME_NEVER: none; with the acquire: that one's */
    char status[16]; /* likewise */
    char value[40];
} publication;

/* "Who leads?", and the answer. */
typedef struct observation {
    const process *by;
    int64_t at;
    int64_t reply; /* TIME_NEVER: none */
    char status[16];
    bool leads;
    uint64_t token;
    char value[40];
} observation;

/* One call at a latch or a barrier, or of what is done once in a period, and what came back. */
typedef struct call {
    const process *by;
    char verb[12];
    int64_t at;
    int64_t reply; /* TIME_NEVER: none */
    int64_t wait;
    uint64_t asked;      /* the generation, 0: whichever is; or the period */
    uint64_t token;      /* of who begins or has begun the period */
    uint64_t generation; /* that came back; 0: none */
    unsigned count;      /* set: so many are to count; begin: attempts at most */
    unsigned place;      /* begin: the attempt */
    char key[64];        /* down, done; "": one of its own */
    char state[12];
    char status[16]; /* "" without a reply */
} call;

/* The latch, as the driver saw it, and one of its counts. */
typedef struct counted {
    int64_t from;
    int64_t to;
    uint64_t generation;
    bool armed;
    unsigned count;  /* so many are to count */
    uint64_t broken; /* bit k: generation - k was */
    uint64_t of;     /* the count is of that one; 0: there is none */
    char key[64];
} counted;

/* A period, as the driver saw it; and a piece of work that is there at the end. */
typedef struct ledger {
    int64_t from;
    int64_t to;
    char name[40];
    uint64_t period;
    char state[12];
    uint64_t token;
    unsigned attempts;
} ledger;

typedef struct worked {
    char name[40];
    uint64_t period;
    uint64_t token;
    bool joined; /* in one transaction with done */
} worked;

typedef struct fault {
    char kind[20];
    unsigned target; /* 0: not a process */
    span when;
} fault;

typedef struct model {
    process *processes;
    size_t process_count;
    hold *holds; /* by the time of the call */
    size_t hold_count;
    look *looks;
    size_t look_count;
    guarded_write *writes;
    size_t write_count;
    row *rows;
    size_t row_count;
    written *table;
    size_t table_count;
    publication *published; /* by the time of the call */
    size_t published_count;
    observation *seen; /* by the time of the call */
    size_t seen_count;
    call *calls; /* by the time of the call */
    size_t call_count;
    counted *counts; /* those of one look follow each other */
    size_t counted_count;
    ledger *ledger; /* those of one look follow each other */
    size_t ledger_count;
    worked *worked;
    size_t worked_count;
    queue_model queue;
    fault *faults;
    size_t fault_count;
    span *lates; /* a thread that wanted to run from .. ran only at .. */
    size_t late_count;
    bool complete; /* recorded to its end */
} model;

/* False: the history contradicts itself (a reply without its call); says where. */
bool model_build(model *m, const events *all);
void model_free(model *m);

bool hold_ok(const hold *h);

/* Did anything of this kind (NULL: of any) touch the time? It counts for `after` longer. */
bool model_disturbed(const model *m, const char *kind, span when, int64_t after);
/* Did anything else than a signal to another process? */
bool model_troubled(const model *m, unsigned who, span when, int64_t after);
/* The latest end of what was broken before `at` (with `stops`: stopped processes, too); `at` where
 * it goes on then; INT64_MIN: nothing was. */
int64_t model_calm_since(const model *m, int64_t at, bool stops);
/* For how long in all the process was stopped within this time. */
int64_t model_stopped(const model *m, unsigned who, span when);
/* The longest time that a thread was late within this time. */
int64_t model_lateness(const model *m, span when);

#endif
