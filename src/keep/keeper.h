/*
 * keep/keeper.h - the thread that keeps what a client holds: renews all leases in one
 * statement (keep/renew.c), pings held connections and watches their sockets (keep/watch.c), marks
 * every loss in time and has it told (keep/teller.c), and what is asked of a holder (keep/asks.c);
 * writes the history (keep/journal.c).
 *
 * It never trusts a reply for longer than its own deadline: the time before the request
 * was sent, plus the TTL, less a margin.
 */
#ifndef RL_KEEP_KEEPER_H
#define RL_KEEP_KEEPER_H

#include <poll.h>

#include "keep/held.h"
#include "keep/journal.h"

/* One lease in a renewal. */
typedef struct rl_renewal {
    uint64_t resource_id;
    uint64_t version;
    uint64_t identity; /* of the server that granted it */
    int64_t ttl_us;
    char owner[ROWLOCK_OWNER_MAX + 1];
    rl_kept kept;
    bool held;           /* out: still ours */
    bool renewed;        /* out: and renewed for sure */
    uint64_t ask_number; /* out: of the last ask for it; 0: none */
    bool moved;          /* out: not asked for, since another server answers */
    int64_t sent_us;     /* out: when it was asked for; 0: with the others, just now */
    int64_t again_us;    /* out: when to ask again; 0: as usual */
} rl_renewal;

/* Why a lock is lost when the server that granted it is not the one that answers. */
#define RL_MOVED "the server was replaced by another one (a failover), which did not grant it"

/* Renews; sets `held`, `renewed` and `moved`. rl_lease_renew() (kind/renewal.c), of a quorum
 * rl_quorum_renew(); given by api/client.c. */
typedef rowlock_status (*rl_renew)(rl_pool *pool, rl_renewal *renewals, size_t count,
                                   const rl_io *io, rowlock_error *err);

/* What it is that is asked; DAMAGED, NOT_FOUND ...: nothing is known. */
typedef rowlock_status (*rl_ask_read)(rl_pool *pool, uint64_t id, uint64_t version, const rl_io *io,
                                      rl_ask *ask, rowlock_error *err);

/* The lock protocol's part. */
typedef struct rl_keeping {
    rl_renew renew;
    rl_renew look; /* of row locks: sets `ask_number` alone */
    rl_ask_read read_ask;
} rl_keeping;

/*
 * The callbacks of losses and asks run in a second thread, the teller, which is there only while
 * there is something to tell: a host's slow callback delays the callbacks after it, and
 * nothing else.
 */
typedef struct rl_teller {
    rl_held_list losses; /* not yet told, the first one first */
    bool asks;           /* there may be some that are due */
    pthread_cond_t told;
    uint64_t telling; /* key of the hold whose callback is running now; 0: none */
    pthread_t telling_thread;
    bool busy;   /* it will look at the losses again before it ends */
    bool silent; /* no callback begins any more */
    /* the keeper's thread's */
    pthread_t thread;
    bool made; /* it is to be joined */
} rl_teller;

/* What one poll() looks at: [0] the statement's descriptor, [1] the wake-up, then held ones. */
#define RL_WATCH_FIXED 2
typedef struct rl_watch {
    struct pollfd *fds;
    size_t count;
    size_t capacity;
    size_t wanted; /* room for so many is needed */
} rl_watch;

typedef struct rl_renewing {
    rl_renewal *list;
    size_t capacity;
    uint64_t attempts; /* renewals begun */
    int64_t again_us;  /* what was in a failed renewal: not before */
    unsigned failures;
    bool crowded;   /* the last renewal had no room for all that were due */
    bool under_way; /* a renewal is */
} rl_renewing;

typedef struct rl_keeper {
    pthread_t thread;
    bool running;
    pthread_mutex_t mutex; /* guards what follows, and what is in the lists but the atomics */
    rl_held_list leases;
    rl_held_list rows; /* those with a connection */
    /* Never later than the next thing due (a deadline, renewal or ping, a row lock to be watched):
     * the thread sleeps until then, and a caller that makes it earlier wakes it. May be too early,
     * after a hold has gone: one needless wake-up is cheaper than one for each hold. */
    int64_t due_us;
    uint64_t identity; /* of the server that the pool led to when last looked */
    uint64_t node;
    uint64_t last_key;
    rl_teller teller;
    /* set before the thread begins */
    int wake_fd;
    atomic_bool stop;
    rl_pool *pool;
    rl_journal *journal;
    rl_keeping keeping;
    rl_log log;
    /* the thread's own */
    rl_watch watch;
    rl_renewing renewing;
    int64_t renew_at_us;    /* as found when last something was due */
    int64_t look_at_us;     /* the same of row locks that are to be looked at for asks */
    bool aside;             /* what runs now gives way to a renewal */
    int64_t write_again_us; /* it could not be: not before */
} rl_keeper;

rowlock_status rl_keeper_start(rl_keeper *keeper, rl_pool *pool, rl_journal *journal,
                               const rl_keeping *keeping, rl_log log,
                               rowlock_error *err) RL_MUST_USE;
/* `forked`: the threads are not in this process. */
void rl_keeper_stop(rl_keeper *keeper, bool forked);

/*
 * From now on losses are marked, but no callback begins; waits for the one that is
 * running. Not from within a callback.
 */
void rl_keeper_silence(rl_keeper *keeper);

/*
 * From now on it is kept. `held` is filled by the caller; stays the caller's memory. The socket of
 * a row lock is watched from 50 ms later on: a lock that is held for less costs the keeper nothing.
 */
void rl_keeper_add(rl_keeper *keeper, rl_held *held);

/*
 * It is held for `ttl_us` from a request at `sent_us` on, and renewed for as long each time; one
 * that was not kept is from now on. False: it is lost.
 */
bool rl_keeper_extend(rl_keeper *keeper, rl_held *held, int64_t sent_us, int64_t ttl_us);

/* The server says that it is lost. */
void rl_keeper_lose(rl_keeper *keeper, rl_held *held);

/*
 * From now on it is the caller's alone. Waits for its callback to end (unless called from it). Its
 * connection may have a ping under way, which the next command finishes. True: it is lost, and its
 * callback was not called and will not be.
 */
bool rl_keeper_remove(rl_keeper *keeper, rl_held *held);

void rl_keeper_wake(rl_keeper *keeper);

#endif
