/*
 * engine/acquire.h - how a row of `resource` is acquired and released, whatever the kind of lock.
 *
 * A kind of lock is a driver, which knows the statements that take and free its row. The engine
 * does the rest: it attempts, looks, decides, waits, and finds out what became of a request whose
 * reply was lost.
 */
#ifndef RL_ENGINE_ACQUIRE_H
#define RL_ENGINE_ACQUIRE_H

#include "bell/turn.h"
#include "engine/hold.h"
#include "engine/look.h"

/* What the next attempt begins with. */
typedef enum rl_stage {
    RL_STAGE_TAKE,
    RL_STAGE_LOOK,  /* read the row first: it may be taken although the bell did not ring; or we
                       are its next writer (`draining`), and an UPDATE of a free row is in vain */
    RL_STAGE_SETTLE /* unsettled: the last request may have been granted, its reply was lost */
} rl_stage;

typedef struct rl_driver rl_driver;

/* One call that acquires. */
typedef struct rl_acquisition {
    const rl_driver *driver;
    rowlock_hold *hold;
    const rl_budget *budget;
    rl_lock *lock;
    rl_turn turn;
    rl_stage stage; /* what the next attempt begins with */
    bool upgrade;   /* the hold is a reader that becomes the writer */
    /* The keeper does not renew the reader's hold: the last attempt may have made it a writer's. */
    bool left_alone;
    /* We may have closed the name for new readers, and wait for those that are in to leave. If the
     * call fails the name must be opened again. */
    bool draining;
    rl_trace request;        /* the last one that was granted, or whose reply was lost */
    bool met_transaction;    /* the last change found the row locked */
    bool was_close;          /* `request` only closed the name for readers: it takes no lease */
    int64_t hint_us;         /* of this attempt: see rl_attempts */
    uint64_t sessions_ended; /* of the last holder, by this call */
    char taken_over[RL_DETAIL_MAX]; /* the former holder; "": it was free */
} rl_acquisition;

/* Whether an earlier request may have released it already. */
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
    bool waived; /* we have waived the version, and it was ours (bell/bell.h) */
} rl_departure;

struct rl_driver {
    const char *kind; /* in the table `resource` */
    bool shared;      /* a reader's: it gets the present token, and keeps no bell */
    /* Takes the row if it is free. Where a transaction has it locked, a try (wait/backoff.h) waits
     * as rl_budget_change_io() says, unless `known_free`: the row is known to be free. BUSY: not
     * granted.
     */
    rowlock_status (*take)(rl_acquisition *a, bool known_free, rowlock_error *err);
    /* Takes it over from a holder whose time is over, only if the row is still as it was read. */
    rowlock_status (*take_over)(rl_acquisition *a, const rl_seen *seen, rowlock_error *err);
    /* Closes the name for readers, and takes it once none is left. Not of a shared driver. */
    rowlock_status (*drain)(rl_acquisition *a, const rl_seen *seen, rowlock_error *err);
    /* The call failed: undoes what `drain` did. Best effort. */
    void (*give_up)(rl_acquisition *a);
    /* After a lost reply, of a shared driver: OK, with the token, if the lock is ours; else BUSY.
     */
    rowlock_status (*find)(rl_acquisition *a, rowlock_error *err);
    /* Frees the row and wakes the next waiter, on a connection to the server that granted it.
     * done->rows is 0 when nothing matched. */
    rowlock_status (*leave)(rl_departure *d, rl_conn *conn, bool has_bell, rl_done *done,
                            rowlock_error *err);
    /* After a break: opens the lock before its time is over, since our work has ended. Best effort.
     */
    void (*reopen)(const rl_departure *d);
};

/* Sends a driver's statement that takes the row: the OK packet carries the token. Statuses of
 * `take`; UNAVAILABLE with the stage RL_STAGE_SETTLE: the request was sent and may have been
 * granted, which the next attempt finds out. */
rowlock_status rl_acquire_with(rl_acquisition *a, rl_conn *conn, bool known_free, rl_sql_id id,
                               const rl_value *values, rowlock_error *err) RL_MUST_USE;

/* An acquisition that has not begun. */
rl_acquisition rl_acquisition_of(const rl_driver *driver, rowlock_hold *hold,
                                 const rl_budget *budget);

/* a->request has taken the row, with the version in a->lock. Checks server, token and time, and
 * begins the hold. */
rowlock_status rl_acquired(const rl_acquisition *a, const rowlock_acquire_options *options,
                           rowlock_error *err) RL_MUST_USE;

/* The hold is new; on OK it is held. Statuses of rowlock_acquire(). */
rowlock_status rl_acquire(const rl_driver *driver, rowlock_hold *hold,
                          const rowlock_acquire_options *options, const rl_budget *budget,
                          rowlock_error *err) RL_MUST_USE;

/*
 * Makes the hold of a reader, which has closed its name for others, the writer's; the keeper goes
 * on renewing it. DEADLOCK: another writer came in between. LOST: it was lost meanwhile; else
 * statuses of rowlock_acquire().
 */
rowlock_status rl_acquire_alone(const rl_driver *driver, rowlock_hold *hold,
                                const rl_budget *budget, rowlock_error *err) RL_MUST_USE;

/* The hold has ended (rl_hold_end); the row is freed. Statuses of rowlock_release(). */
rowlock_status rl_release(const rl_driver *driver, rowlock_hold *hold, rl_tried tried,
                          const rowlock_release_options *options, rowlock_error *err) RL_MUST_USE;

/* Frees the row, and writes no history. */
rowlock_status rl_free_row(const rl_driver *driver, rowlock_hold *hold,
                           rowlock_error *err) RL_MUST_USE;

#endif
