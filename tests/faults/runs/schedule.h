/*
 * runs/schedule.h - the plan of a run, made from its seed alone: the locks, the processes that use
 * them, how many of these are readers, and which fault comes when. Three runs of four have one kind
 * of fault, the fourth has several. Beside a lease and a row lock there is a third name: in turn
 * one with slots, a latch, a barrier, or one whose holders work once in a period; in separate runs,
 * a queue.
 */
#ifndef RUNS_SCHEDULE_H
#define RUNS_SCHEDULE_H

#include "faults/runs/history.h"

typedef struct dice {
    uint64_t state;
} dice;

dice dice_of(uint64_t seed);
/* 0 .. below - 1 */
unsigned dice_roll(dice *d, unsigned below);
int64_t dice_between(dice *d, int64_t low, int64_t high);

/* X(NAME, word, has a duration, where). Those from MEMBER_KILL on are for runs on several
 * servers. */
#define RUNS_FAULTS(X)                                                                             \
    X(NONE, "none", false, NOWHERE)                                                                \
    X(KILL, "kill", false, ACTOR)                      /* SIGKILL of an actor */                   \
    X(TERM, "term", false, ACTOR)                      /* SIGTERM */                               \
    X(STOP, "stop", true, ACTOR)                       /* SIGSTOP, then SIGCONT */                 \
    X(SERVER_KILL, "server-kill", true, SERVER)        /* SIGKILL, down for a while */             \
    X(SERVER_BEFORE, "server-before", true, STATEMENT) /* ... before a statement reaches it */     \
    X(SERVER_IN, "server-in", true, STATEMENT)         /* ... while it carries one out */          \
    X(SERVER_AFTER, "server-after", true, STATEMENT)   /* ... it is done, the reply is not read */ \
    X(SERVER_STOP, "server-stop", true, SERVER)        /* SIGSTOP of the server, then SIGCONT */   \
    X(KILL_CONNECTION, "kill-connection", false, SERVER)                                           \
    X(KILL_QUERY, "kill-query", false, SERVER)                                                     \
    X(CUT, "cut", false, PROXY)                  /* every connection through the proxy */          \
    X(CUT_AFTER, "cut-after", true, PROXY)       /* at a byte */                                   \
    X(REFUSE, "refuse", true, PROXY)             /* cut, and no new connections */                 \
    X(STALL, "stall", true, PROXY)               /* nothing flows; no FIN, no RST */               \
    X(DELAY, "delay", true, PROXY)               /* everything arrives later */                    \
    X(LATENCY, "latency", true, PROXY)           /* ... by nearly the TTL */                       \
    X(DRIBBLE, "dribble", true, PROXY)           /* one byte at a time */                          \
    X(LOSE_COMMAND, "lose-command", true, PROXY) /* a statement never arrives */                   \
    X(LOSE_REPLY, "lose-reply", true, PROXY)     /* carried out, the reply is lost */              \
    X(STALL_REPLY, "stall-reply", true, PROXY)   /* carried out, the reply is late */              \
    X(LATE_COMMAND, "late-command", true, PROXY) /* late, whatever became of the sender */         \
    X(READ_ONLY, "read-only", true, SERVER)                                                        \
    X(CONNECTIONS, "connections", true, SERVER) /* max_connections is reached */                   \
    X(ROW_LOCKED, "row-locked", true, SERVER)   /* a transaction has the row of the lock */        \
    X(BREAK, "break", false, SERVER)            /* rowlock_break(): taken by force */              \
    X(MEMBER_KILL, "member-kill", true, SERVER) /* as SERVER_KILL, of one of several */            \
    X(MEMBER_STOP, "member-stop", true, SERVER) /* as SERVER_STOP */                               \
    X(MEMBER_WIPE, "member-wipe", true, SERVER) /* killed, its data gone; it rejoins later */      \
    X(MEMBER_LOSE, "member-lose", true, SERVER) /* killed, one that does not flush its commits */  \
    X(CLOCK, "clock", true, SERVER)             /* a member's clock jumps, later it jumps back */

typedef enum fault_kind {
#define RUNS_FAULT_ENUM(name, word, lasts, where) FAULT_##name,
    RUNS_FAULTS(RUNS_FAULT_ENUM)
#undef RUNS_FAULT_ENUM
        FAULT_NO_KIND,
    FAULT_KINDS = FAULT_MEMBER_KILL /* faults of runs on one server */
} fault_kind;

/* AT_STATEMENT: at a server, when a statement comes. */
typedef enum fault_place { AT_NOWHERE, AT_ACTOR, AT_SERVER, AT_STATEMENT, AT_PROXY } fault_place;

const char *fault_word(fault_kind kind);
bool fault_lasts(fault_kind kind);
fault_place fault_where(fault_kind kind);
/* FAULT_NO_KIND: there is no fault of this name. */
fault_kind fault_of(const char *word);
/* A duration: shorter than the TTLs, about as long, or longer. 0: the kind has none. */
int64_t fault_lasting(dice *d, fault_kind kind);

typedef struct planned_fault {
    fault_kind kind;
    int64_t at_ms;
    int64_t last_ms;  /* duration; 0: the kind has none */
    bool holder;      /* faults of a process: hits the present holder of `lock` ... */
    unsigned actor;   /* ... or this process, also if there is no known holder */
    unsigned member;  /* which server, from 0 */
    unsigned proxies; /* AT_PROXY: bit i: the proxy of server i */
    bool up;          /* CUT_AFTER: towards the server */
    unsigned lock;    /* the lock whose holder is hit; BREAK, ROW_LOCKED: the lock itself */
    unsigned text;    /* which statements (schedule_text_of()) */
    unsigned nth;     /* the nth of them; or of the bytes, connections or slots */
    int64_t ms;       /* DELAY, LATENCY, CLOCK: by how much */
} planned_fault;

/* The names of a run. */
enum {
    PLAN_LEASE,
    PLAN_ROW,
    PLAN_SLOTS, /* a name with slots, each a lease; each run has one of the kinds from here on */
    PLAN_LATCH,
    PLAN_BARRIER,
    PLAN_ONCE,  /* a lease, whose holders only work once in a period */
    PLAN_QUEUE, /* a queue, only if it is asked for */
    PLAN_LOCKS,
    PLAN_NONE = PLAN_LOCKS /* there is no third name */
};

enum {
    PLAN_ACTORS_OF_TWO = 6,               /* the first processes use the lease and the row lock */
    PLAN_ACTORS = PLAN_ACTORS_OF_TWO + 6, /* and at most so many the third name */
    PLAN_FAULTS = 12,
    PLAN_SLOTS_MOST = 4, /* also of the barrier's members */
};
/* Work once in a period, under a lease. */
enum { PLAN_PERIOD_MS = 150, PLAN_ATTEMPTS = 3 };

/* For the third name: as the seed says. */
#define PLAN_BY_SEED (~0U)

typedef struct planned_actor {
    unsigned lock;
    bool fenced;  /* for row locks; leases always are */
    bool proxied; /* false: it connects to the server directly */
    bool poll;    /* waiting=poll */
    int64_t ttl_ms;
    int64_t respawn_ms; /* after its death another process starts so much later */
    uint64_t seed;
} planned_actor;

typedef struct plan {
    uint64_t seed;
    bool mixed;
    int64_t active_ms;
    unsigned readers;       /* how many of 100 acquires are shared; 0 in one run of four */
    unsigned third;         /* PLAN_SLOTS ..., PLAN_NONE */
    unsigned slots;         /* for PLAN_SLOTS; else 0 */
    unsigned members;       /* for PLAN_BARRIER; else 0 */
    bool alone;             /* no process uses the first two */
    bool lease[PLAN_LOCKS]; /* false: a row lock */
    planned_actor actors[PLAN_ACTORS];
    unsigned actor_count;
    planned_fault faults[PLAN_FAULTS]; /* sorted by time */
    unsigned fault_count;
} plan;

/* Choices that override the seed's. */
typedef struct schedule_choice {
    fault_kind fault; /* only this kind; FAULT_KINDS: as the seed says */
    unsigned third;   /* PLAN_BY_SEED */
    unsigned count;   /* its slots or members */
    bool alone;       /* no process uses the other names, and all faults are for this one */
} schedule_choice;

plan schedule(uint64_t seed);
/* The seed's plan with these choices. */
plan schedule_with(uint64_t seed, const schedule_choice *w);
/* Sorts by time. */
void schedule_sort(planned_fault *faults, unsigned count);
void schedule_print_faults(const planned_fault *faults, unsigned count, FILE *out);
void schedule_print(const plan *p, FILE *out);
/* The statements (support/named.h) for the `text` of a fault; NULL: any. */
const char *schedule_text_of(unsigned text);

#endif
