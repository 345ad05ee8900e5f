/*
 * kind/members.h - the servers of a quorum, and how all of them are asked at the same time.
 *
 * A client of a quorum has for each member a client of that server alone, which can be opened
 * while the server is away. A round asks all members in parallel, each in a thread of its own. The
 * caller goes on when enough have answered and the others have had as long again: it does not wait
 * for a member that hangs. What such a member answers later is noted all the same.
 */
#ifndef RL_KIND_MEMBERS_H
#define RL_KIND_MEMBERS_H

#include "engine/client.h"
#include "keep/workers.h"
#include "rowlock/rowlock_quorum.h"

#define RL_LIST_SIZE 33 /* of the hash of a list of members */

typedef struct rl_grant rl_grant; /* kind/quorum.h */

typedef struct rl_voter {
    rowlock_client *client;   /* of this server alone */
    const char *where;        /* as it was given, without user and password */
    pthread_mutex_t reaching; /* its first connection is being looked at */
    bool reached;             /* its schema is good; guarded by `reaching` */
    /* guarded by the members' mutex */
    bool down;               /* it did not answer the last time ... */
    int64_t retry_us;        /* ... and is asked again after this, if the others are enough */
    unsigned failures;       /* in succession */
    unsigned asked;          /* requests that are to be answered, ... */
    unsigned running;        /* ... and those of them that are under way */
    int64_t silent_us;       /* its last answer, or when the first request after that was made */
    rowlock_error why;       /* why it is down */
    char list[RL_LIST_SIZE]; /* as it said last; "": it has none that fits these members */
    char server[RL_SERVER_ID_MAX]; /* which server it is; "": not known yet */
    int64_t ttl_most_us;
} rl_voter;

/* Is it a server and a schema to work with? The client's first look. */
typedef rowlock_status (*rl_reach_member)(rowlock_client *client, const rl_budget *budget,
                                          rowlock_error *err);

typedef struct rl_members {
    pthread_mutex_t mutex;
    rl_workers workers;
    rowlock_cancel *stop; /* ends what is under way */
    rl_reach_member reach;
    size_t count;
    size_t needed;           /* so many votes make a quorum */
    char list[RL_LIST_SIZE]; /* that most of them have; "": none */
    int64_t ttl_most_us;     /* of that list */
    rl_grant *grants;        /* that are held; guarded by the mutex */
    uint64_t last_grant;     /* their numbers */
    rl_voter all[];
} rl_members;

/* Takes the clients over; `where` are copied. NULL: no memory, or no descriptor. */
rl_members *rl_members_new(rowlock_client *const clients[], const char *const where[], size_t count,
                           bool require_all, rl_reach_member reach);
/* Ends what is under way, and waits for it. The clients are the caller's to close, before
 * rl_members_free(). */
void rl_members_stop(rl_members *members, bool forked);
/* Takes NULL. */
void rl_members_free(rl_members *members, bool forked);

/* --------------------------------------------------------------------------- a round */

/*
 * What one member is asked, in a thread of its own, within the budget. `reached`: whether it can be
 * asked at all. Answers OK where the server has answered, whatever that is. Results go to `data`,
 * which is kept until `done`.
 */
typedef struct rl_asking {
    rl_members *members;
    size_t member;
    const rl_budget *budget;
    void *data;
} rl_asking;
typedef rowlock_status (*rl_ask_member)(const rl_asking *asking, rowlock_status reached,
                                        rowlock_error *err);

typedef struct rl_inquiry {
    rl_ask_member ask;
    void *data;
    void (*keep)(void *data); /* one more user; NULL: the caller waits for all */
    void (*done)(void *data); /* one fewer */
    bool all;                 /* also those that are down, and are not due */
    int64_t patience_us;      /* with the others, at least, when enough have answered */
    int64_t limit_us;         /* for each of them */
} rl_inquiry;

typedef struct rl_round rl_round;

/* Asks those members whose bit is set in `which`; *asked: the bits of those that it has asked.
 * NULL: no memory. */
rl_round *rl_round_begin(rl_members *members, unsigned which, const rl_inquiry *question,
                         unsigned *asked);

/* Waits until all have answered, or until `enough`, and as long again. `enough` NULL: all. TIMEOUT,
 * CANCELLED: as `io` says. */
rowlock_status rl_round_wait(rl_round *round, bool (*enough)(void *data), const rl_io *io);

/* Nobody waits for it any more. */
void rl_round_end(rl_round *round);

/* ------------------------------------------------------------------- what is known of them */

#define RL_ALL_MEMBERS (~0U)

/* What a look at a member finds, of itself and of a name there (sql/quorum.sql, quorum_look). */
typedef struct rl_ballot {
    char kind[17]; /* of the name; "": it is not there */
    enum {
        RL_BALLOT_GONE,
        RL_BALLOT_WRONG_KIND,
        RL_BALLOT_HELD,
        RL_BALLOT_COOLING,
        RL_BALLOT_EXPIRED,
        RL_BALLOT_FREE
    } verdict;
    int64_t left_us;
    bool ours;
    uint64_t version;
    char label[ROWLOCK_LABEL_MAX * 4 + 1];
    char state[17]; /* of the member: "voting", ... */
    int64_t abstains_us;
    bool same_list; /* as most of them have */
} rl_ballot;

/* What the member says of its list is noted. `name` "": of the member alone. */
rowlock_status rl_member_look(rl_members *members, size_t i, const rl_budget *budget, uint64_t id,
                              const char *name, const char *owner, rl_ballot *seen,
                              rowlock_error *err) RL_MUST_USE;

/* The first that is there, in an order that is the same for all clients; members->count: none. */
size_t rl_members_first(rl_members *members);

/* Asks all members which server and list they are. UNAVAILABLE ...: fewer than a quorum are there;
 * SCHEMA: they are no quorum. */
rowlock_status rl_members_reach(rl_members *members, const rl_budget *budget,
                                rowlock_error *err) RL_MUST_USE;

#endif
