/*
 * rowlock/rowlock_once.h - work that is done once in a period, by whichever host comes first.
 *
 * A ledger has a row for each name and period: running, done or failed. The holder of an exclusive
 * lease on the name (rowlock_acquire()) begins the period, works, and says how it ended, before the
 * release. A later holder finds the period done; after an attempt that failed or died it makes the
 * next one.
 *
 *     rowlock_acquire(client, "report", NULL, &hold, &err)
 *     rowlock_once_begin(hold, start_us, end_us, NULL, &result, &err)
 *     if (result.state == ROWLOCK_ONCE_BEGUN)
 *         ... work ..., then rowlock_once_done(hold, &err)
 *     rowlock_release(hold, &err)
 *
 * The ledger's row decides, not the lease: an attempt is known by its token, and of two that
 * overlap (because the first one lost its lease) only the later one can be done. "Done" may be part
 * of the work's own transaction (rowlock_tx_once_done() in rowlock_mysql.h): then the work is done
 * exactly once.
 *
 * Times are microseconds since 1970-01-01 00:00 UTC. The caller says when a period begins and ends.
 * It should ask the server which time it is (rowlock_once_now_us()), once it has the lease, so that
 * hosts whose clocks differ mean the same period: `rowlock once` does that.
 */
#ifndef ROWLOCK_ONCE_H
#define ROWLOCK_ONCE_H

#include "rowlock/rowlock.h"

#ifdef __cplusplus
extern "C" {
#endif

#define ROWLOCK_ONCE_ATTEMPTS        3                           /* in a period, by default ... */
#define ROWLOCK_ONCE_ATTEMPTS_MAX    1000000                     /* ... and at most */
#define ROWLOCK_ONCE_TIME_MAX        INT64_C(253402300799999999) /* the end of the year 9999 */
#define ROWLOCK_ONCE_EXIT_STATUS_MAX 255

/* What rowlock_once_begin() found. (rowlock_once_state, below, is the state of a row of the ledger:
 * ROWLOCK_ONCE_RUN_DONE and others.) */
typedef enum rowlock_once_begun {
    ROWLOCK_ONCE_BEGUN = 1,   /* it is this hold's to do */
    ROWLOCK_ONCE_DONE = 2,    /* it has been done */
    ROWLOCK_ONCE_USED_UP = 3, /* there were as many attempts as there may be */
} rowlock_once_begun;

typedef struct rowlock_once_options {
    unsigned attempts; /* at most so many in a period; 0: ROWLOCK_ONCE_ATTEMPTS */
    bool again;        /* also when the period is done or its attempts are used up; they are counted
                          anew */
    int64_t wait_ms;   /* for the end of a transaction that has locked the period's row (see
                          rowlock_tx_once_done()): 0: does not wait; < 0: forever */
    rowlock_cancel *cancel;
    uint64_t reserved[8];
} rowlock_once_options;

typedef struct rowlock_once_result {
    rowlock_once_begun state;
    unsigned attempt; /* BEGUN: the first, second, ...; else how many were made */
    char owner_label[ROWLOCK_LABEL_MAX + 1]; /* who began the last attempt */
    uint64_t reserved[4];
} rowlock_once_result;

/*
 * Begins the period from `start_us` to before `end_us`, up to ROWLOCK_ONCE_TIME_MAX, under this
 * hold, which is an exclusive lease. A hold begins one period at most: for another one, or another
 * attempt, acquire the lease again. A second call for the same period gives the same answer.
 *
 *   LOST       the lease is not this hold's any more; nothing was begun
 *   BUSY       wait_ms is 0, and a transaction that has done the period is still open
 *   TIMEOUT    such a transaction did not end within wait_ms
 *   CANCELLED  `cancel` was fired
 *   UNKNOWN    the reply was lost and could not be looked up: the period may have begun
 *   INVALID    also: the hold is shared, a set, slots, a row lock, or a member of a latch or of a
 *              barrier; it has begun another period, or has ended this one
 */
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status rowlock_once_begin(rowlock_hold *hold, int64_t start_us,
                                                               int64_t end_us,
                                                               const rowlock_once_options *options,
                                                               rowlock_once_result *result,
                                                               rowlock_error *err);

/*
 * Says that the period that this hold has begun is done, or that its attempt has failed:
 * `exit_status`, 0 to 255, is kept for people to read. Call it before rowlock_release(). It is
 * committed when the call returns. OK also if the period is done already, by rowlock_tx_once_done()
 * or an earlier call; what is done stays done. An attempt that is never ended counts as failed when
 * the next one begins. A server that cannot be reached is tried again for reconnect_ms.
 *
 *   LOST     a later attempt has begun, or this hold has begun nothing
 *   TIMEOUT  a transaction that has done the period is still open after the client's reconnect_ms
 *   UNKNOWN  the reply was lost and could not be looked up
 *   INVALID  as for rowlock_once_begin()
 */
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status rowlock_once_done(rowlock_hold *hold,
                                                              rowlock_error *err);
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status rowlock_once_failed(rowlock_hold *hold, int exit_status,
                                                                rowlock_error *err);

/* ----------------------------------------------------------------- the ledger */

typedef enum rowlock_once_state {
    ROWLOCK_ONCE_RUN_RUNNING = 1,
    ROWLOCK_ONCE_RUN_DONE = 2,
    ROWLOCK_ONCE_RUN_FAILED = 3,
    ROWLOCK_ONCE_RUN_DIED = 4 /* running, but its lease is lost: the next attempt may begin */
} rowlock_once_state;

/* A period of a name, as its last attempt left it. */
typedef struct rowlock_once_run {
    const char *name;
    int64_t start_us;
    int64_t end_us;
    rowlock_once_state state;
    unsigned attempts;
    uint64_t token;
    const char *owner_label;
    const char *started_at; /* UTC, as in rowlock_info */
    const char *ended_at;   /* "" until it has ended */
    int64_t took_ms;        /* until now, if it has not ended */
    bool has_exit_status;
    int exit_status;
    uint64_t reserved[4];
} rowlock_once_run;

typedef struct rowlock_once_runs rowlock_once_runs;

typedef struct rowlock_once_get_options {
    const char *name;      /* its periods, the newest first; NULL: the newest one of each name */
    int64_t ends_after_us; /* with a name: only what ends later */
    const char *after;     /* without a name: only names after this one, in byte order; NULL: all */
    size_t limit;          /* 0: 100; at most 100000 */
    int64_t starts_before_us; /* with a name: only what begins earlier; 0: all */
    uint64_t reserved[3];
} rowlock_once_get_options;

/* Free with rowlock_once_free(), which frees the items too; rowlock_once_at() is NULL beyond the
 * last one. The list is empty for a name that has no period, or that was never used. */
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status
rowlock_once_get(rowlock_client *client, const rowlock_once_get_options *options,
                 rowlock_once_runs **runs, rowlock_error *err);
ROWLOCK_API size_t rowlock_once_count(const rowlock_once_runs *runs);
ROWLOCK_API const rowlock_once_run *rowlock_once_at(const rowlock_once_runs *runs, size_t i);
/* The server's time when it read the ledger. */
ROWLOCK_API int64_t rowlock_once_now_us(const rowlock_once_runs *runs);
ROWLOCK_API void rowlock_once_free(rowlock_once_runs *runs);

#ifdef __cplusplus
}
#endif

#endif
