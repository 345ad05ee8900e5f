/* engine/hold.h - one held lock, or one set of them. */
#ifndef RL_ENGINE_HOLD_H
#define RL_ENGINE_HOLD_H

#include "engine/client.h"
#include "keep/keeper.h"

#define RL_TICKET_MAX      40
/* Of an event in the history, their ends included. */
#define RL_DETAIL_MAX      400
#define RL_LABEL_IN_DETAIL 251

typedef struct rl_lock {
    const char *name;
    uint64_t id;
    uint64_t version;               /* the fencing token; 0: unfenced */
    bool fenced;                    /* row lock: a holder may be published, or have been */
    bool shared;                    /* together with others that ask for it so */
    unsigned slot;                  /* of a name with slots, or of a barrier's members */
    char ticket[RL_TICKET_MAX + 1]; /* row lock, through procedures: sql/pessimistic.sql */
} rl_lock;

typedef enum rl_parts_state {
    RL_PARTS_TAKING,  /* the caller does not have the whole yet */
    RL_PARTS_SPOILED, /* ... nor will it: one was lost meanwhile */
    RL_PARTS_HELD,
    RL_PARTS_TOLD /* the caller has heard of its loss */
} rl_parts_state;

/* A hold may be a member of a latch (kind/latch.h) or of a barrier (kind/barrier.h). */
typedef enum rl_member {
    RL_NO_MEMBER,
    RL_LATCH_MEMBER,
    RL_LATCH_COUNTED,     /* its release breaks nothing */
    RL_BARRIER_GATHERING, /* the others are still to come */
    RL_BARRIER_MEMBER,
    RL_BARRIER_READY /* to leave */
} rl_member;

/* What came of the work under it, where its release does not say it. */
typedef enum rl_outcome { RL_SUCCESS, RL_FAILURE, RL_NO_WORK } rl_outcome;

/* Of a hold that is a set of leases, or slots of one name (kind/parts.h). */
typedef struct rl_parts {
    atomic_int state; /* an rl_parts_state */
    size_t count;
    rowlock_hold *list[]; /* in the order of the whole's locks; NULL: not there yet */
} rl_parts;

struct rowlock_hold {
    rl_held held; /* first: the keeper hands it back to us */
    rowlock_client *client;
    rowlock_hold *next; /* the client's list */
    rowlock_hold *previous;
    rowlock_mode mode;
    bool unfenced;
    bool shared; /* together with others that ask for it so */
    bool slots;  /* its parts are slots of its name */
    _Atomic(rl_member) member;
    char *key;                      /* with which a member of a latch counts; NULL: its owner id */
    atomic_uint_fast64_t published; /* how many values (kind/leader.h) */
    bool reentrant;
    uint64_t thread; /* that acquired it, by rl_this_thread() */
    unsigned depth;
    char owner[ROWLOCK_OWNER_MAX + 1];
    size_t count;
    rl_lock *locks; /* in byte order of the names, each once; in the hold's block of memory */
    rl_bell bell;   /* lease */
    int64_t acquired_us;
    int64_t ended_us; /* when its release began; 0: it has not */
    int64_t waited_us;
    int64_t at_least_us;
    rl_outcome outcome;
    bool frozen;            /* its acquire has seen that the name is */
    bool taken_over;        /* from a holder whose lease had run out */
    bool told;              /* that it is lost */
    bool keep_sessions;     /* says its release: see rl_hold_keeps_sessions() */
    atomic_bool begin_told; /* the history says that it began */
    rowlock_lost_fn on_lost;
    void *on_lost_data;
    rowlock_ask_fn on_ask;
    void *on_ask_data;
    /* The last ask that was heard, and of which name; guarded by the client's mutex. */
    rl_ask *asked;
    const char *asked_name;
    struct rl_grant *grant; /* of a quorum: what its members have said (kind/quorum.h); or NULL */
    rl_parts *parts; /* several leases that are held as one: each is a hold of its own; or NULL */
    rowlock_hold *whole; /* this one is a part of that; or NULL */
};

/* A hold of these names (sorted, each once), not yet held. */
rowlock_status rl_hold_new(rowlock_client *client, const char *const names[], size_t count,
                           const rowlock_acquire_options *options, rowlock_hold **hold,
                           rowlock_error *err) RL_MUST_USE;

/*
 * It is held now: into the client's list and the keeper's care. The history hears of it when it has
 * been held for long, or ends in another way than most: a short hold is counted, no more.
 * `taken_over`: from whom, in words; NULL: it was free.
 */
void rl_hold_begin(rowlock_hold *hold, const rl_budget *budget, const char *taken_over);

/* All members of its barrier have come: what it has waited for begins now. */
void rl_hold_entered(rowlock_hold *hold, const rl_budget *budget);

/* The hold has become a reader's, or a writer's, by a request that was sent at `sent_us`; the
 * keeper goes on with that. A hold that was reported as lost stays lost. */
void rl_hold_changed(rowlock_hold *hold, int64_t sent_us);

/* The keeper leaves it alone until it is changed, or kept again: what a request is about to change
 * is not to be renewed as it was. */
void rl_hold_leave_alone(rowlock_hold *hold);
void rl_hold_keep_again(rowlock_hold *hold);

/* It is lost from now on. */
void rl_hold_give_up(rowlock_hold *hold);

/* Out of the keeper's care and the client's list. Before the release proper. */
void rl_hold_end(rowlock_hold *hold);

/* Takes NULL. */
void rl_hold_free(rowlock_hold *hold);

bool rl_hold_lost(const rowlock_hold *hold);

/* Are its sessions (kind/guard.h) to be ended even after its release? Also of a hold that is lost:
 * they may be what was not ended in time. */
bool rl_hold_keeps_sessions(const rowlock_hold *hold);

/* The last ask for it, or for what it is a part of. False: it was not asked. */
bool rl_hold_asked(rowlock_hold *hold, rowlock_asked *asked);

/* What became of it, into the history and the totals. */
void rl_hold_was_released(rowlock_hold *hold, const rowlock_release_options *options);
/* It was not got; `detail`: why. */
void rl_hold_was_refused(rowlock_hold *hold, const rl_budget *budget, rowlock_status status,
                         const char *detail);
/* What an acquire has seen last of its name, into the hold that the caller is to get. */
void rl_hold_saw_frozen(rowlock_hold *hold, bool frozen);
/* Its release tells of no success: nothing was done under it, as far as is known. */
void rl_hold_no_work(rowlock_hold *hold);
/* Its release failed, or it was left to end by itself. */
void rl_hold_was_left(rowlock_hold *hold);
/* `options` may be NULL. */
void rl_hold_was_lost(rowlock_hold *hold, const rowlock_release_options *options,
                      const char *reason);

/* A number for this thread that no later one gets; a pthread_t is used again. */
uint64_t rl_this_thread(void);

#endif
