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

/* X(NAME, word, does it last?, where). Those from MEMBER_KILL on are of runs on several servers. */
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
    FAULT_KINDS = FAULT_MEMBER_KILL /* those of one server */
} fault_kind;

/* STATEMENT: a server, when a statement is there. */
typedef enum fault_place { AT_NOWHERE, AT_ACTOR, AT_SERVER, AT_STATEMENT, AT_PROXY } fault_place;

const char *fault_word(fault_kind kind);
bool fault_lasts(fault_kind kind);
fault_place fault_where(fault_kind kind);
/* FAULT_NO_KIND: there is none of this name. */
fault_kind fault_of(const char *word);
/* For how long: shorter than the TTLs, about as long, or longer. 0: it is a moment. */
int64_t fault_lasting(dice *d, fault_kind kind);

typedef struct planned_fault {
    fault_kind kind;
    int64_t at_ms;
    int64_t last_ms;  /* for how long; 0 where the kind is a moment */
    bool holder;      /* those that hit a process: whoever holds the lock then ... */
    unsigned actor;   /* ... or this one, also where nobody can be seen to hold it */
    unsigned member;  /* which server; 0 is the first, and the only one */
    unsigned proxies; /* AT_PROXY: bit i: that of server i */
    bool up;          /* CUT_AFTER: to the server */
    unsigned lock;    /* whose holder; BREAK, ROW_LOCKED: which */
    unsigned text;    /* which statements (schedule_text_of()) */
    unsigned nth;     /* of them; or of the bytes, of the connections, of the slots */
    int64_t ms;       /* DELAY, LATENCY, CLOCK: by how much */
} planned_fault;

/* The locks of a run. */
enum {
    PLAN_LEASE,
    PLAN_ROW,
    PLAN_SLOTS, /* a name with slots, each a lease; from here on each run has one of them */
    PLAN_LATCH,
    PLAN_BARRIER,
    PLAN_ONCE,  /* a lease, whose holders do nothing but what is done once in a period */
    PLAN_QUEUE, /* a queue; only where it is asked for */
    PLAN_LOCKS,
    PLAN_NONE = PLAN_LOCKS /* as the third: there is none */
};

enum {
    PLAN_ACTORS_OF_TWO = 6,               /* at the lease and the row lock, the first ones */
    PLAN_ACTORS = PLAN_ACTORS_OF_TWO + 6, /* and at the third, at most */
    PLAN_FAULTS = 12,
    PLAN_SLOTS_MOST = 4, /* and members of the barrier */
};
/* What is done once in a period, under a lease. */
enum { PLAN_PERIOD_MS = 150, PLAN_ATTEMPTS = 3 };

/* For the third name: as the seed has it. */
#define PLAN_BY_SEED (~0U)

typedef struct planned_actor {
    unsigned lock;
    bool fenced;  /* row locks only; leases always are */
    bool proxied; /* else straight to the server */
    bool poll;    /* waiting=poll */
    int64_t ttl_ms;
    int64_t respawn_ms; /* when it has died, another takes its place so much later */
    uint64_t seed;
} planned_actor;

typedef struct plan {
    uint64_t seed;
    bool mixed;
    int64_t active_ms;
    unsigned readers;       /* of 100 acquires; 0 in one run of four */
    unsigned third;         /* PLAN_SLOTS ..., PLAN_NONE */
    unsigned slots;         /* of PLAN_SLOTS; else 0 */
    unsigned members;       /* of PLAN_BARRIER; else 0 */
    bool alone;             /* nobody is at the first two */
    bool lease[PLAN_LOCKS]; /* else a row lock */
    planned_actor actors[PLAN_ACTORS];
    unsigned actor_count;
    planned_fault faults[PLAN_FAULTS]; /* by time */
    unsigned fault_count;
} plan;

/* What is to be other than the seed has it. */
typedef struct schedule_choice {
    fault_kind fault; /* this kind alone; FAULT_KINDS: as the seed has it */
    unsigned third;   /* PLAN_BY_SEED */
    unsigned count;   /* of its slots, or members */
    bool alone;       /* nobody at the other names, and all faults for this one */
} schedule_choice;

plan schedule(uint64_t seed);
/* The same processes, but for that. */
plan schedule_with(uint64_t seed, const schedule_choice *w);
/* By time. */
void schedule_sort(planned_fault *faults, unsigned count);
void schedule_print_faults(const planned_fault *faults, unsigned count, FILE *out);
void schedule_print(const plan *p, FILE *out);
/* The statements (support/named.h) that the `text` of a fault means; NULL: any. */
const char *schedule_text_of(unsigned text);

#endif
