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
    bool fenced;                    /* row lock: somebody may be published, or have been */
    char ticket[RL_TICKET_MAX + 1]; /* row lock, through procedures: sql/pessimistic.sql */
} rl_lock;

struct rowlock_hold {
    rl_held held; /* first: the keeper hands it back to us */
    rowlock_client *client;
    rowlock_hold *next; /* the client's list */
    rowlock_hold *previous;
    rowlock_mode mode;
    bool unfenced;
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
    bool taken_over;        /* from a holder whose lease had run out */
    atomic_bool begin_told; /* the history says that it began */
    rowlock_lost_fn on_lost;
    void *on_lost_data;
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

/* Out of the keeper's care and the client's list. Before the release proper. */
void rl_hold_end(rowlock_hold *hold);

/* Takes NULL. */
void rl_hold_free(rowlock_hold *hold);

bool rl_hold_lost(const rowlock_hold *hold);

/* What became of it, into the history and the totals. */
void rl_hold_was_released(rowlock_hold *hold, const rowlock_release_options *options);
/* It was not got; `detail`: why. */
void rl_hold_was_refused(rowlock_hold *hold, const rl_budget *budget, rowlock_status status,
                         const char *detail);
/* Its release failed, or it was left to end by itself. */
void rl_hold_was_left(rowlock_hold *hold);
/* `options` may be NULL. */
void rl_hold_was_lost(rowlock_hold *hold, const rowlock_release_options *options,
                      const char *reason);

/* A number for this thread that no later one gets; a pthread_t is used again. */
uint64_t rl_this_thread(void);

#endif
