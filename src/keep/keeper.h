/*
 * keep/keeper.h - the thread that keeps what a client holds: renews all leases in one
 * statement, pings held connections and watches their sockets, marks every loss in time,
 * writes the history.
 *
 * It never trusts a reply for longer than its own deadline: the time before the request
 * was sent, plus the TTL, less a margin.
 *
 * The callbacks of losses run in a second thread, the teller, which is there only while
 * there are losses to tell: a host's slow callback delays the callbacks after it, and
 * nothing else.
 */
#ifndef RL_KEEP_KEEPER_H
#define RL_KEEP_KEEPER_H

#include <pthread.h>
#include <stdatomic.h>

#include "db/pool.h"
#include "keep/journal.h"

typedef struct rl_held rl_held;

typedef struct rl_held_list {
    rl_held *first;
    rl_held *last;
} rl_held_list;

/* What the keeper keeps; a part of a hold. */
struct rl_held {
    rl_held_list *list; /* of the keeper's, the one it is in; NULL: none */
    rl_held *next;
    rl_held *previous;
    uint64_t key; /* unique in this keeper, also after it has left its care; 0: never in it */
    /* lease */
    uint64_t resource_id;
    uint64_t version;
    const char *owner; /* the hold's */
    uint64_t identity; /* of the server that granted it (rl_server) */
    int64_t end_us;    /* of max_hold; RL_NEVER */
    uint64_t attempt;  /* the last renewal it was a part of */
    /* row lock: the connection that holds it, else NULL */
    rl_conn *conn;
    int64_t ping_sent_us;
    int64_t watch_from_us; /* before, its socket is not looked at */
    /* both */
    int64_t ttl_us;
    int64_t next_beat_us;        /* of the next renewal or ping */
    _Atomic int64_t deadline_us; /* nobody else can have it before */
    atomic_bool lost;
    char reason[200];
    _Atomic int event_fd; /* -1 until somebody asked for it */
    void (*on_lost)(rl_held *held, const char *reason);
};

/* One lease in a renewal. */
typedef struct rl_renewal {
    uint64_t key;
    uint64_t resource_id;
    uint64_t version;
    uint64_t identity; /* of the server that granted it */
    int64_t ttl_us;
    char owner[ROWLOCK_OWNER_MAX + 1];
    bool held;    /* out: still ours */
    bool renewed; /* out: and renewed for sure */
    bool moved;   /* out: not asked for, since another server answers */
} rl_renewal;

/* Why a lock is lost when the server that granted it is not the one that answers. */
#define RL_MOVED "the server was replaced by another one (a failover), which did not grant it"

/* The lease protocol's part: one statement for all; sets `held`, `renewed` and `moved`. */
typedef rowlock_status (*rl_renew)(rl_pool *pool, rl_renewal *renewals, size_t count,
                                   const rl_io *io, rowlock_error *err);

/* What one poll() looks at: [0] the statement's descriptor, [1] the wake-up, then held ones. */
typedef struct rl_watch {
    struct pollfd *fds;
    uint64_t *keys;
    size_t count;
    size_t capacity;
    size_t wanted;  /* room for so many would have been needed */
    uint64_t below; /* keys from here on had their turn; UINT64_MAX: from the first */
} rl_watch;

typedef struct rl_keeper {
    pthread_t thread;
    bool running;
    pthread_mutex_t mutex; /* guards what follows, and what is in the lists but the atomics */
    pthread_cond_t told;
    rl_held_list leases; /* from the highest key to the lowest */
    rl_held_list rows;   /* likewise: those with a connection */
    rl_held_list losses; /* not yet told, the first one first */
    int64_t due_us;      /* no deadline and no ping is due before */
    int64_t watch_us;    /* no row lock comes to be watched before; its hold may be gone by then */
    int64_t renewal_us;  /* no renewal is due before */
    uint64_t identity;   /* of the server that the pool led to when last looked */
    uint64_t node;
    uint64_t telling; /* key of the hold whose callback is running now; 0: none */
    pthread_t telling_thread;
    bool teller_busy; /* it will look at the losses again before it ends */
    bool silent;      /* no callback begins any more */
    uint64_t last_key;
    int64_t asleep_until_us; /* 0 while awake */
    /* set before the thread begins */
    int wake_fd;
    atomic_bool stop;
    rl_pool *pool;
    rl_journal *journal;
    rl_renew renew;
    rl_log log;
    /* the thread's own */
    rl_watch watch;
    rl_renewal *renewals;
    size_t renewals_capacity;
    pthread_t teller;
    bool teller_made;       /* it is to be joined */
    uint64_t attempts;      /* renewals begun */
    int64_t renew_again_us; /* what was in a failed renewal: not before */
    unsigned renew_failures;
    bool crowded;        /* the last renewal had no room for all that were due */
    bool renewing;       /* a renewal is under way */
    bool writing;        /* the history is being written */
    int64_t write_at_us; /* when the history is written next */
} rl_keeper;

rowlock_status rl_keeper_start(rl_keeper *keeper, rl_pool *pool, rl_journal *journal,
                               rl_renew renew, rl_log log, rowlock_error *err) RL_MUST_USE;
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
 * From now on it is the caller's alone. Waits for its callback to end (unless called from
 * it). Its connection may have a ping under way, which the next command finishes.
 * True: it is lost, and nobody was told of it nor will be.
 */
bool rl_keeper_remove(rl_keeper *keeper, rl_held *held);

void rl_keeper_wake(rl_keeper *keeper);

/* How far ahead of the server's deadline the holder is told. */
int64_t rl_margin_us(int64_t ttl_us);

/* A good reply to a request sent at `sent_us`. */
void rl_held_extend(rl_held *held, int64_t sent_us, int64_t ttl_us);

/* Is its deadline past? Then for good: whoever has been told so is not told otherwise later. */
bool rl_held_over(rl_held *held);

#endif
