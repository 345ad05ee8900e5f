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
    rl_turn turn;
    rl_stage stage;   /* what the next try begins with */
    bool upgrade;     /* the hold is a reader that is to have it alone */
    bool left_alone;  /* ... and its keeper does not renew it: the last try may have changed it */
    bool draining;    /* we may have closed it for readers, and have to open it again */
    rl_trace request; /* the last one that was granted, or whose reply was lost ... */
    bool was_close;   /* ... which would not have taken it, but only closed it for readers */
    int64_t hint_us;  /* of this try: see rl_attempts */
    char taken_over[RL_DETAIL_MAX]; /* from whom; "": it was free */
} rl_acquisition;

/* May it be released already, by an earlier request? */
typedef enum rl_tried {
    RL_NOT_TRIED,
    RL_TRIED_TOGETHER,  /* with others, not all of which were ours any more */
    RL_TRIED_UNANSWERED /* its reply was lost, or the next holder has it by now */
} rl_tried;

/* One call that releases. */
typedef struct rl_departure {
    const rl_driver *driver;
    rowlock_hold *hold;
    const rl_budget *budget;
    rl_tried tried;
    bool waived; /* we have given up the version, and it was ours (sql/lease.sql, lease_waive) */
} rl_departure;

struct rl_driver {
    const char *kind; /* in the table `resource` */
    bool shared;      /* together with others: the token stays, and so does no bell */
    /* One try to take what is free, without waiting; not even for a transaction that has the row
     * locked, unless `patient`: the row is known to be free. BUSY: not granted. */
    rowlock_status (*take)(rl_acquisition *a, bool patient, rowlock_error *err);
    /* Likewise, from a holder whose time is over: only while the row is as it was seen. */
    rowlock_status (*take_over)(rl_acquisition *a, const rl_seen *seen, rowlock_error *err);
    /* Takes what readers have, or had: once none of them is in. Of a driver that is not shared. */
    rowlock_status (*drain)(rl_acquisition *a, const rl_seen *seen, rowlock_error *err);
    /* The call ends without it: what `drain` did is undone. Best effort. */
    void (*give_up)(rl_acquisition *a);
    /* After a lost reply: is it ours? OK, with the token, or BUSY. Of a driver that is shared. */
    rowlock_status (*find)(rl_acquisition *a, rowlock_error *err);
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

/* One that has not begun. */
rl_acquisition rl_acquisition_of(const rl_driver *driver, rowlock_hold *hold,
                                 const rl_budget *budget);

/* Its row has been taken by a.request, with the version that is in its lock: is that good, and in
 * time? Then it is held. */
rowlock_status rl_acquired(const rl_acquisition *a, const rowlock_acquire_options *options,
                           rowlock_error *err) RL_MUST_USE;

/* The hold is new; on OK it is held. Statuses of rowlock_acquire(). */
rowlock_status rl_acquire(const rl_driver *driver, rowlock_hold *hold,
                          const rowlock_acquire_options *options, const rl_budget *budget,
                          rowlock_error *err) RL_MUST_USE;

/*
 * The hold shares its name, and has closed it for others: it is to have it alone, in the keeper's
 * care as before. DEADLOCK: another one came in between. LOST: it was lost meanwhile; else statuses
 * of rowlock_acquire().
 */
rowlock_status rl_acquire_alone(const rl_driver *driver, rowlock_hold *hold,
                                const rl_budget *budget, rowlock_error *err) RL_MUST_USE;

/* The hold has ended (rl_hold_end); the row is freed. Statuses of rowlock_release(). */
rowlock_status rl_release(const rl_driver *driver, rowlock_hold *hold, rl_tried tried,
                          const rowlock_release_options *options, rowlock_error *err) RL_MUST_USE;

/* The row alone: no word to the history. */
rowlock_status rl_free_row(const rl_driver *driver, rowlock_hold *hold,
                           rowlock_error *err) RL_MUST_USE;

#endif
