/*
 * bench/measure.h - what a lock system costs: cycles, waits, hand-overs, fairness.
 *
 * Used by `rowlock bench` and by bench.c, which puts other lock systems beside it. A lock
 * system is a few functions and a load says how they are used. Every client is a process
 * of its own, as users are; the figures are in memory that they share.
 */
#ifndef ROWLOCK_MEASURE_H
#define ROWLOCK_MEASURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum {
    MEASURE_CLIENTS_MAX = 1024,
    MEASURE_NAME_MAX = 128, /* bytes of a lock's name, with the end */
    MEASURE_PIDS_MAX = 8,   /* processes of a server */
    MEASURE_SLOTS = 4,      /* of a name, in the systems that have slots */
};

/* Why a call failed: one line, and the exit status the program may end with (0: 1). */
typedef struct measure_reason {
    char text[400];
    int exit_status;
} measure_reason;

/* Fills it in; returns false, so that a driver can say `return measure_because(...)`. */
bool measure_because(measure_reason *why, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* ------------------------------------------------------------ a lock system */

typedef struct measure_system measure_system;

struct measure_system {
    const char *id;    /* for options and files: "redis-memory" */
    const char *name;  /* for people: "Redis pub/sub, memory" */
    const char *keeps; /* "memory": lost with the server; "durable": on disk when acquired */
    const char *at; /* where the server is: a socket's path or HOST:PORT; as set by the program */
    pid_t pids[MEASURE_PIDS_MAX]; /* of the server, for its CPU time; ends with 0 */
    const void *data;             /* the driver's own */
    unsigned holders;             /* so many may hold a name at the same time; 0: one */

    /*
     * Once before and once after a load, in a process of its own: make and remove what the
     * names need (rows, nodes). May be NULL. `tidy` is also called after a load that failed
     * or was interrupted, and must bear whatever it finds.
     */
    bool (*prepare)(const measure_system *system, const char *const names[], size_t count,
                    measure_reason *why);
    bool (*tidy)(const measure_system *system, const char *const names[], size_t count,
                 measure_reason *why);

    /* A session of one client, opened after the fork. At most one lock is held in it. It is
     * used by one thread; what it allocates and looks up once it does here or in the first
     * cycle, which is not measured. SIGINT and SIGHUP are ignored in it. */
    bool (*open)(const measure_system *system, void **session, measure_reason *why);
    /* Blocks until the lock is held, or fails; after wait_ms at the latest. A wait that ends
     * without the lock is a failure ("not within ... ms"). The name is the same string in
     * every call of a session. */
    bool (*acquire)(void *session, const char *name, int64_t wait_ms, measure_reason *why);
    /* Returns when the lock is free for others, unless the system's name says otherwise. */
    bool (*release)(void *session, const char *name, measure_reason *why);
    /* Which of the `holders` slots this session has now: each has a number of its own, such as 1 to
     * `holders`. NULL: slots have no numbers, and it is counted how many hold the name. */
    unsigned (*slot)(const void *session);
    /* Also after a call that failed. */
    void (*close)(void *session);
};

/* ------------------------------------------------------------------- a load */

typedef struct measure_load {
    const char *prefix; /* names are PREFIX/ID/hot, PREFIX/ID/1, ...; at most 60 bytes */
    unsigned clients;   /* 1 .. MEASURE_CLIENTS_MAX */
    bool hot;           /* all on one name; else each on a name of its own */
    int64_t window_ms;  /* measured so long */
    int64_t warm_up_ms; /* and so long before, not measured */
    int64_t work_us;    /* spent (busy) between acquire and release */
} measure_load;

/* Microseconds; -1 where nothing was seen. */
typedef struct measure_spread {
    double p50, p99, p999;
} measure_spread;

typedef struct measure_figures {
    uint64_t cycles;          /* in the window */
    double seconds;           /* the window as it was */
    double cycles_per_second; /* of all clients together */
    measure_spread acquire;   /* from the call to its return */
    measure_spread hand_over; /* hot: from a release's call to the return of another's acquire */
    measure_spread own;       /* acquire + release: the caller's own time of a cycle */
    uint64_t most_turns;      /* of one client */
    uint64_t least_turns;
    double fairness;            /* most / least; -1 when the least is 0 */
    double longest_free_us;     /* hot, more clients than `holders`: from the call of a release to
                                   the return of the acquire that got that name, or that slot, next;
                                   the longest. -1: slots without numbers, or no such load */
    double server_us_per_cycle; /* CPU time of the server's processes; -1: not known */
    double server_percent;      /* of one core; -1: not known */
    uint64_t violations;        /* times that more held a name, or a slot, than may */
    unsigned failed;            /* clients that failed; `why` of measure_run() has the first */
} measure_figures;

/*
 * Runs the load and waits for its end: every client opens its session and goes through one
 * cycle; when all have done so they start together. What is counted are the turns whose
 * acquire returned in the window. At its end every client finishes the cycle it is in.
 * The caller must have no other threads. False: it could not be measured as asked; `why` says
 * what failed, with how many clients. The figures are filled in anyway, as far as they go.
 * Violations of mutual exclusion are a failure too.
 * SIGINT and SIGTERM while it runs: see measure_stop().
 */
bool measure_run(const measure_system *system, const measure_load *load, measure_figures *figures,
                 measure_reason *why);

/* Ends the load that runs, in order (locks are released, `tidy` is called); measure_run()
 * then fails. Async-signal-safe. Once stopped, later loads fail at once. */
void measure_stop(void);
bool measure_stopped(void);

/* Lets SIGINT, SIGTERM and SIGHUP (unless they are ignored) call measure_stop(): the first one
 * lets it clean up, the second one does not wait. */
void measure_catch_end(void);
/* The signal that came; 0: none. */
int measure_ended_by(void);

/* Monotonic, the same clock in all processes. */
int64_t measure_now_ns(void);

/* ---------------------------------------------------------------- histogram */

/*
 * Counts durations in buckets that are 1/128 of their value wide (below 128 ns: 1 ns), so a
 * percentile is wrong by less than 1 %. Zeroed memory is an empty one. Up to 9 minutes;
 * what is longer counts as that.
 */
enum { MEASURE_SUB = 128, MEASURE_OCTAVES = 33, MEASURE_BUCKETS = MEASURE_SUB * MEASURE_OCTAVES };

typedef struct measure_histogram {
    uint64_t count;
    uint32_t bucket[MEASURE_BUCKETS];
} measure_histogram;

void measure_histogram_add(measure_histogram *histogram, int64_t ns);
void measure_histogram_merge(measure_histogram *into, const measure_histogram *from);
/* The least duration (ns, the middle of its bucket) that so great a part (0 to 1) of all does
 * not exceed; -1 when it is empty. */
double measure_histogram_at(const measure_histogram *histogram, double part);

#endif
