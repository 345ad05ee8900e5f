/*
 * quorum/plan.h - what a run on several servers will do, made from its seed alone: how many members
 * the quorum has, the processes that use its one lease, and which fault comes when. Three runs of
 * four have one kind of fault, the fourth has a mixture.
 */
#ifndef QUORUM_PLAN_H
#define QUORUM_PLAN_H

#include "faults/runs/schedule.h" /* dice */

/* X(NAME, word, does it last?, where) */
#define QUORUM_FAULTS(X)                                                                           \
    X(NONE, "none", false, NOWHERE)                                                                \
    X(KILL, "kill", false, ACTOR)               /* SIGKILL of a process */                         \
    X(TERM, "term", false, ACTOR)               /* SIGTERM */                                      \
    X(STOP, "stop", true, ACTOR)                /* SIGSTOP, then SIGCONT */                        \
    X(MEMBER_KILL, "member-kill", true, SERVER) /* SIGKILL, down for a while */                    \
    X(MEMBER_STOP, "member-stop", true, SERVER) /* SIGSTOP of a member, then SIGCONT */            \
    X(MEMBER_WIPE, "member-wipe", true, SERVER) /* killed, its data gone; it rejoins later */      \
    X(MEMBER_LOSE, "member-lose", true, SERVER) /* killed, one that does not flush its commits */  \
    X(CLOCK, "clock", true, SERVER)             /* a member's clock jumps, later it jumps back */  \
    X(READ_ONLY, "read-only", true, SERVER)                                                        \
    X(KILL_CONNECTION, "kill-connection", false, SERVER)                                           \
    X(KILL_QUERY, "kill-query", false, SERVER)                                                     \
    X(CUT, "cut", false, PROXY)                  /* every connection through a member's proxy */   \
    X(CUT_AFTER, "cut-after", true, PROXY)       /* at a byte */                                   \
    X(REFUSE, "refuse", true, PROXY)             /* cut, and no new connections */                 \
    X(STALL, "stall", true, PROXY)               /* nothing flows; no FIN, no RST */               \
    X(DELAY, "delay", true, PROXY)               /* everything arrives later */                    \
    X(LATENCY, "latency", true, PROXY)           /* ... by nearly the TTL */                       \
    X(DRIBBLE, "dribble", true, PROXY)           /* one byte at a time */                          \
    X(LOSE_COMMAND, "lose-command", true, PROXY) /* a statement never arrives */                   \
    X(LOSE_REPLY, "lose-reply", true, PROXY)     /* carried out, the reply is lost */              \
    X(STALL_REPLY, "stall-reply", true, PROXY)   /* carried out, the reply is late */              \
    X(LATE_COMMAND, "late-command", true,                                                          \
      PROXY) /* it arrives late, whatever became of its sender */

typedef enum quorum_fault_kind {
#define QUORUM_FAULT_ENUM(name, word, lasts, where) QUORUM_##name,
    QUORUM_FAULTS(QUORUM_FAULT_ENUM)
#undef QUORUM_FAULT_ENUM
        QUORUM_KINDS
} quorum_fault_kind;

typedef enum quorum_place { AT_NOWHERE, AT_ACTOR, AT_SERVER, AT_PROXY } quorum_place;

const char *quorum_word(quorum_fault_kind kind);
bool quorum_lasts(quorum_fault_kind kind);
quorum_place quorum_where(quorum_fault_kind kind);
/* QUORUM_KINDS: there is none of this name. */
quorum_fault_kind quorum_kind_of(const char *word);

enum { QUORUM_MEMBERS = 5, QUORUM_ACTORS = 6, QUORUM_FAULTS_MOST = 10, QUORUM_NOBODY = 99 };

typedef struct quorum_actor {
    unsigned proxied; /* bit i: it reaches member i through the proxy, else straight */
    int64_t ttl_ms;
    int64_t respawn_ms; /* when it has died, another takes its place so much later */
    uint64_t seed;
} quorum_actor;

typedef struct quorum_fault {
    quorum_fault_kind kind;
    int64_t at_ms;
    int64_t last_ms;  /* for how long; 0 where the kind is a moment */
    unsigned member;  /* AT_SERVER ... */
    unsigned proxies; /* AT_PROXY: bit i: that of member i */
    unsigned actor;
    bool up;       /* CUT_AFTER: to the server */
    unsigned nth;  /* of the statements, of the bytes, of the connections */
    int64_t ms;    /* DELAY, LATENCY, CLOCK: by how much */
    unsigned text; /* which statements (quorum_text_of()) */
} quorum_fault;

typedef struct quorum_plan {
    uint64_t seed;
    bool mixed;
    unsigned members;
    unsigned loose; /* the member that does not flush its commits; QUORUM_NOBODY: all do */
    int64_t ttl_most_ms;
    int64_t active_ms;
    quorum_actor actors[QUORUM_ACTORS];
    unsigned actor_count;
    quorum_fault faults[QUORUM_FAULTS_MOST]; /* by time */
    unsigned fault_count;
} quorum_plan;

/* `alone`: with this kind of fault alone, whatever the seed would have; QUORUM_KINDS: as it has.
 * `members`: 0: as it has. */
quorum_plan quorum_schedule(uint64_t seed, quorum_fault_kind alone, unsigned members);
/* The statements (support/named.h) that the `text` of a fault means; NULL: any. */
const char *quorum_text_of(unsigned text);
void quorum_print(const quorum_plan *p, FILE *out);

#endif
