/*
 * keep/keeper.h - the thread that keeps what a client holds: renews all leases in one
 * statement, pings held connections and watches their sockets, tells of every loss in
 * time, writes the history.
 *
 * It never trusts a reply for longer than its own deadline: the time before the request
 * was sent, plus the TTL, less a margin.
 */
#ifndef RL_KEEP_KEEPER_H
#define RL_KEEP_KEEPER_H

#include <pthread.h>
#include <stdatomic.h>

#include "db/pool.h"
#include "keep/journal.h"

typedef struct rl_held rl_held;

/* What the keeper keeps; a part of a hold. */
struct rl_held {
    rl_held *next; /* the keeper's list */
    rl_held *previous;
    uint64_t key; /* unique in this keeper; 0: not in its care */
    /* lease */
    uint64_t resource_id;
    uint64_t version;
    const char *owner; /* the hold's */
    int64_t end_us;    /* of max_hold; RL_NEVER */
    /* row lock: the connection that holds it, else NULL */
    rl_conn *conn;
    int64_t ping_sent_us;
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
    int64_t ttl_us;
    char owner[ROWLOCK_OWNER_MAX + 1];
    bool reached; /* out: still ours, and renewed */
} rl_renewal;

/* The lease protocol's part: one statement for all; sets `reached`. */
typedef rowlock_status (*rl_renew)(rl_pool *pool, rl_renewal *renewals, size_t count,
                                   const rl_io *io, rowlock_error *err);

typedef struct rl_keeper {
    pthread_t thread;
    bool running;
    pthread_mutex_t mutex; /* guards the list and what is in it but the atomics */
    pthread_cond_t told;
    rl_held *telling; /* whose callback is running now */
    rl_held *first;
    uint64_t last_key;
    int wake_fd;
    int64_t asleep_until_us; /* RL_NEVER while awake: then whoever adds must wake it */
    atomic_bool stop;
    rl_pool *pool;
    rl_journal *journal;
    rl_renew renew;
    rl_log log;
    /* the thread's own */
    int64_t renew_again_us; /* after a failed renewal: not before */
    unsigned renew_failures;
    bool writing;        /* the history is being written */
    int64_t write_at_us; /* when the history is written next */
} rl_keeper;

rowlock_status rl_keeper_start(rl_keeper *keeper, rl_pool *pool, rl_journal *journal,
                               rl_renew renew, rl_log log, rowlock_error *err) RL_MUST_USE;
/* `forked`: the thread is not in this process. */
void rl_keeper_stop(rl_keeper *keeper, bool forked);

/* From now on it is kept. `held` is filled by the caller; stays the caller's memory. */
void rl_keeper_add(rl_keeper *keeper, rl_held *held);

/*
 * From now on it is the caller's alone. Waits for its callback to end (unless called from
 * it). Its connection may have a ping under way, which the next command finishes.
 */
void rl_keeper_remove(rl_keeper *keeper, rl_held *held);

void rl_keeper_wake(rl_keeper *keeper);

/* How far ahead of the server's deadline the holder is told. */
int64_t rl_margin_us(int64_t ttl_us);

/* A good reply to a request sent at `sent_us`. */
void rl_held_extend(rl_held *held, int64_t sent_us, int64_t ttl_us);

#endif
