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

/* The clocks of server and client differ by at most 1 in so many. */
enum { MODEL_CLOCK_RATE = 2000 };

typedef struct span {
    int64_t from;
    int64_t to;
} span;

/* A process. */
struct process {
    unsigned who;
    char name[40];  /* its lock */
    unsigned slots; /* the lock's slots; 0: none */
    bool lease;
    bool latch;
    bool queue;
    unsigned members; /* the barrier's number; 0: no barrier */
    bool probe;
    bool polls;
    bool far; /* behind the proxy, which delays each reply */
    int64_t ttl;
    int64_t died; /* when it was reaped; TIME_NEVER: it was not */
    int status;   /* its exit status, 128+n for a signal */
    bool killed;  /* the driver sent it a deadly signal */
    bool hung;
};

/* How a process holds a lock, and beside which others: see together() in checker.c. */
typedef enum holder_kind {
    HOLDER_ALONE,  /* alone */
    HOLDER_READER, /* beside other readers */
    HOLDER_SLOTS,  /* holds slots of the name, beside others */
    HOLDER_KINDS
} holder_kind;

enum { HOLD_PARTS = 8 };

/*
 * An acquire and its hold. A successful upgrade or downgrade ends a hold and begins another one of
 * the same owner. For a name with slots there is a hold of the name, which waits, is acquired and
 * ends, and has no token; and its parts, an exclusive hold of each slot, with a token.
 */
typedef struct hold {
    const process *by;
    char name[40]; /* the lock's name, or the slot's */
    holder_kind kind;
    unsigned units;           /* how many slots; 1: the name has none */
    const struct hold *whole; /* the hold that this is a part of; NULL: none */
    struct hold *parts[HOLD_PARTS];
    unsigned part_count;
    const struct hold *before; /* the hold that it was upgraded or downgraded from; NULL: none */
    bool got;
    int64_t call;
    int64_t reply; /* TIME_NEVER: none */
    int64_t wait;
    int64_t queues;  /* when it asked for its last place in the queue; TIME_NEVER: never ... */
    int64_t closed;  /* ... when it had last closed the name for readers; TIME_NEVER: never */
    char status[16]; /* "" without a reply */
    bool fenced;
    uint64_t token;
    char owner[64];
    char value[40];     /* published with the acquire; "": none */
    int64_t first_sure; /* the first and the last time for which it was told OK */
    int64_t last_sure;
    int64_t given_up; /* when the release, or another call that may release it, began */
    int64_t released; /* when the release returned ... */
    char release_status[16];
    bool changed; /* ... or it has certainly become another hold */
} hold;

/* A check, and its result. */
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

/* The lock's row, or a reader's, that the driver saw. */
typedef struct row {
    int64_t from;
    int64_t to;
    char name[40];
    uint64_t version;
    bool held;
    bool reader; /* the row of a reader */
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

/* A value that a holder published, with the acquire or later; "": it withdrew its value. */
typedef struct publication {
    const hold *hold;
    bool apart; /* in a separate call */
    int64_t at;
    int64_t reply;   /* TIME_NEVER: none; with the acquire: the acquire's */
    char status[16]; /* with the acquire: the acquire's */
    char value[40];
} publication;

/* An observation of the leader, and its result. */
typedef struct observation {
    const process *by;
    int64_t at;
    int64_t reply; /* TIME_NEVER: none */
    char status[16];
    bool leads;
    uint64_t token;
    char value[40];
} observation;

/* A call at a latch or a barrier, or for work once in a period, and its result. */
typedef struct call {
    const process *by;
    char verb[12];
    int64_t at;
    int64_t reply; /* TIME_NEVER: none */
    int64_t wait;
    uint64_t asked;      /* the generation (0: the present one), or the period */
    uint64_t token;      /* the lease's token with which the period is or was begun */
    uint64_t generation; /* the returned generation; 0: none */
    unsigned count;      /* set: the number of counts; begin: most attempts */
    unsigned place;      /* begin: the attempt */
    char key[64];        /* down, done; "": no key */
    char state[12];
    char status[16]; /* "" without a reply */
} call;

/* The latch and one of its counts, as the driver saw them. */
typedef struct counted {
    int64_t from;
    int64_t to;
    uint64_t generation;
    bool armed;
    unsigned count;  /* the number of counts */
    uint64_t broken; /* bit k: generation - k was broken */
    uint64_t of;     /* the count's generation; 0: there is no count */
    char key[64];
} counted;

/* A period, as the driver saw it; and a piece of work at the end. */
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
    bool joined; /* done in the same transaction */
} worked;

typedef struct fault {
    char kind[20];
    unsigned target; /* 0: no process */
    span when;
} fault;

typedef struct model {
    process *processes;
    size_t process_count;
    hold *holds; /* sorted by the time of the call */
    size_t hold_count;
    look *looks;
    size_t look_count;
    guarded_write *writes;
    size_t write_count;
    row *rows;
    size_t row_count;
    written *table;
    size_t table_count;
    publication *published; /* sorted by the time of the call */
    size_t published_count;
    observation *seen; /* sorted by the time of the call */
    size_t seen_count;
    call *calls; /* sorted by the time of the call */
    size_t call_count;
    counted *counts; /* grouped by look */
    size_t counted_count;
    ledger *ledger; /* grouped by look */
    size_t ledger_count;
    worked *worked;
    size_t worked_count;
    queue_model queue;
    fault *faults;
    size_t fault_count;
    span *lates; /* times for which a thread was ready to run, but did not */
    size_t late_count;
    bool complete; /* the run was recorded to its end */
} model;

/* False: the history contradicts itself (a reply without a call); prints where. */
bool model_build(model *m, const events *all);
void model_free(model *m);

bool hold_ok(const hold *h);

/* A fault of this kind (NULL: any) overlaps the time; it counts for `after` longer. */
bool model_disturbed(const model *m, const char *kind, span when, int64_t after);
/* The same for faults other than signals to other processes. */
bool model_troubled(const model *m, unsigned who, span when, int64_t after);
/* The latest end of the faults before `at` (with `stops`: stopped processes, too); `at`: one is not
 * over; INT64_MIN: there was none. */
int64_t model_calm_since(const model *m, int64_t at, bool stops);
/* The total time for which the process was stopped within this time. */
int64_t model_stopped(const model *m, unsigned who, span when);
/* The longest time that a thread was late within this time. */
int64_t model_lateness(const model *m, span when);

#endif
