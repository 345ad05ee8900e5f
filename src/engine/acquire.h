/*
 * engine/acquire.h - how a row of `resource` is acquired and released, whatever the kind of lock.
 *
 * A kind is a driver: it says by which statements its row is taken and freed. The engine does the
 * rest: it tries, looks, decides, waits, and finds out what became of a request whose reply was
 * lost.
 */
#ifndef RL_ENGINE_ACQUIRE_H
#define RL_ENGINE_ACQUIRE_H

#include "bell/turn.h"
#include "engine/hold.h"
#include "engine/look.h"

/* What the next try begins with. */
typedef enum rl_stage {
    RL_STAGE_TAKE,
    RL_STAGE_LOOK,  /* it seems that it can be taken, although nobody rang the bell */
    RL_STAGE_SETTLE /* the last request may have been granted: its reply was lost */
} rl_stage;

typedef struct rl_driver rl_driver;

/* One call that acquires. */
typedef struct rl_acquisition {
    const rl_driver *driver;
    rowlock_hold *hold;
    const rl_budget *budget;
    rl_lock *lock;
    int64_t ttl_us; /* of this acquisition: the TTL, or a shorter max_hold */
    rl_turn turn;
    rl_stage stage;                 /* what the next try begins with */
    rl_trace request;               /* the last one that was granted, or whose reply was lost */
    int64_t hint_us;                /* of this try: see rl_attempts */
    char taken_over[RL_DETAIL_MAX]; /* from whom; "": it was free */
} rl_acquisition;

/* One call that releases. */
typedef struct rl_departure {
    const rl_driver *driver;
    rowlock_hold *hold;
    const rl_budget *budget;
    bool open;   /* it may be released already: a reply was lost, or the next holder has it */
    bool waived; /* we have given up the version, and it was ours (sql/lease.sql, lease_waive) */
} rl_departure;

struct rl_driver {
    const char *kind; /* in the table `resource` */
    /* One try to take what is free, without waiting; not even for a transaction that has the row
     * locked, unless `patient`: the row is known to be free. BUSY: not granted. */
    rowlock_status (*take)(rl_acquisition *a, bool patient, rowlock_error *err);
    /* Likewise, from a holder whose time is over: only while the row is as it was seen. */
    rowlock_status (*take_over)(rl_acquisition *a, const rl_seen *seen, rowlock_error *err);
    /* Frees the row and wakes the next waiter, on a connection to the server that granted it.
     * done->rows is 0 when nothing matched. */
    rowlock_status (*leave)(rl_departure *d, rl_conn *conn, bool has_bell, rl_done *done,
                            rowlock_error *err);
    /* It was broken and is cooling for our sake; our work has ended. Best effort. */
    void (*reopen)(const rl_departure *d);
};

/* Sends a driver's statement that takes the row: the OK packet carries the token. Statuses of
 * `take`; with UNAVAILABLE the request may have been granted, which the next try finds out. */
rowlock_status rl_acquire_with(rl_acquisition *a, rl_conn *conn, bool patient, rl_sql_id id,
                               const rl_value *values, rowlock_error *err) RL_MUST_USE;

/* The hold is new; on OK it is held. Statuses of rowlock_acquire(). */
rowlock_status rl_acquire(const rl_driver *driver, rowlock_hold *hold,
                          const rowlock_acquire_options *options, const rl_budget *budget,
                          rowlock_error *err) RL_MUST_USE;

/* The hold has ended (rl_hold_end); the row is freed. Statuses of rowlock_release(). */
rowlock_status rl_release(const rl_driver *driver, rowlock_hold *hold,
                          const rowlock_release_options *options, rowlock_error *err) RL_MUST_USE;

/* The row alone: no word to the history. */
rowlock_status rl_free_row(const rl_driver *driver, rowlock_hold *hold,
                           rowlock_error *err) RL_MUST_USE;

#endif
