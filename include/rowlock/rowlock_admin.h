/*
 * rowlock/rowlock_admin.h - what a DBA's tool needs; rowlock.h lists it. Conventions, the statuses
 * that any call may answer, and clients are those of rowlock.h.
 */
#ifndef ROWLOCK_ADMIN_H
#define ROWLOCK_ADMIN_H

#include "rowlock/rowlock.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ----------------------------------------------------------------- history */

typedef struct rowlock_event {
    uint64_t id;
    const char *name;
    rowlock_mode mode;
    const char
        *event;     /* acquired, released, expired, taken_over, broken, lost, refused, gave_up,
                       asked; frozen, thawed: `name` is the pattern;
                       ended: sessions that were registered with `token` (rowlock_hold_guard()) */
    uint64_t token; /* 0: refused, gave_up */
    const char *owner;
    const char *owner_label;
    const char *happened_at;
    int64_t waited_ms; /* -1: unknown */
    int64_t held_ms;   /* -1: unknown */
    bool has_exit_status;
    int exit_status;
    const char *detail;
} rowlock_event;

typedef struct rowlock_history rowlock_history;

typedef struct rowlock_history_options {
    const char *name;   /* NULL: every lock */
    const char *prefix; /* locks whose names begin with it (as in rowlock_list_options); NULL: every
                           lock. Not beside `name` */
    const char *event;  /* only these, as in rowlock_event, with commas between; NULL: all */
    int64_t since_ms;   /* of the last so many milliseconds, by the server's clock; 0: all; at most
                           10 years */
    size_t limit;       /* the newest so many; 0: 100; at most 100000 */
    bool failed;        /* only what did not end well: a release with an exit status that is not 0,
                           and expired, taken_over, broken, lost */
    uint64_t reserved[3];
} rowlock_history_options;

/*
 * Oldest first. Free with rowlock_history_free(), which frees the events too.
 *
 *   DENIED   also: the client works through procedures (ROWLOCK_VIA_PROCEDURES)
 *   INVALID  also: there is no such event (the message has all there are), or both `name` and
 *            `prefix` are set
 */
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status
rowlock_history_get(rowlock_client *client, const rowlock_history_options *options,
                    rowlock_history **history, rowlock_error *err);
ROWLOCK_API size_t rowlock_history_count(const rowlock_history *history);
ROWLOCK_API const rowlock_event *rowlock_history_at(const rowlock_history *history, size_t i);
ROWLOCK_API void rowlock_history_free(rowlock_history *history);

/* ------------------------------------------------------------ housekeeping */

typedef struct rowlock_sweep_options {
    int64_t history_ms;    /* forget events older than this; 0: 30 days; < 0: no limit of age */
    uint64_t history_rows; /* keep at most so many events; 0: 1000000 */
    int64_t unused_ms;     /* purge names unused for this long; 0: 90 days; < 0: never. The name of
                              a queue stays, and one with slots, whose unused slots go */
    int64_t dead_items_ms; /* delete items of queues that have been dead for this long; 0: none */
    uint64_t reserved[3];
} rowlock_sweep_options;

typedef struct rowlock_sweep_result {
    uint64_t expired;    /* locks of dead holders marked free */
    uint64_t events;     /* history rows forgotten */
    uint64_t purged;     /* names purged; their tokens never come back */
    uint64_t dead_items; /* deleted */
    uint64_t reserved[3];
} rowlock_sweep_result;

/*
 * Marks the locks of dead holders free, forgets old events, purges unused names. Correctness never
 * needs it. Any number may run at once: each leaves the rows that another one, or a transaction,
 * has locked to the next sweep. `result` may be NULL.
 *
 *   UNAVAILABLE  also: the connection was lost on the way. What was swept until then stays swept
 *   DENIED       also: the client works through procedures (ROWLOCK_VIA_PROCEDURES)
 */
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status rowlock_sweep(rowlock_client *client,
                                                          const rowlock_sweep_options *options,
                                                          rowlock_sweep_result *result,
                                                          rowlock_error *err);

/*
 * Takes a lock from its holder by force.
 *
 * A lease: its token is void at once, and its holder is told at its next renewal (TTL/3). Nobody
 * gets the lease (it is ROWLOCK_COOLING) before the holder's time would have been over, or the
 * holder has called rowlock_release(): so the holder's work does not run beside that of the next
 * holder. Breaking the lease once more does not shorten that. With `now` it is free at once, also
 * where it was broken before, and until the old holder hears of it two may work under the lock:
 * only the token protects. A lease that nobody holds, and that only at_least_ms keeps closed, opens
 * at once.
 *
 * A lease with readers: all are broken. New readers may enter at once; a writer waits until each
 * broken reader has released it or its time is over (meanwhile it is held, not ROWLOCK_COOLING).
 * A name with slots: each slot that is held.
 *
 * A row lock: its connection is ended (needs the same user, or the right to end connections), and
 * it is free at once, with `now` and without.
 *
 * A latch that is closed: this generation will not open. Its waiters get LOST, with the reason, its
 * members when they count. It may be set again at once.
 *
 * A barrier: the members that have entered are lost (with `token` those of that generation), and
 * hear of it at their next renewal. Callers that wait for others stay. If nobody is in it, the next
 * one to enter sets its number.
 */
typedef struct rowlock_break_options {
    const char *reason;     /* for the history; its first 250 bytes; may be NULL */
    bool now;               /* a lease is free at once: accept that two may work under it */
    int64_t wait_ms;        /* returns when the lock can be acquired; 0: does not wait; < 0: however
                               long it is cooling (a TTL at most) */
    rowlock_cancel *cancel; /* of the wait; may be NULL */
    uint64_t token;         /* only if the lock has this one, else BUSY; 0: any. A break raises the
                               token (not a latch's generation) */
    uint64_t reserved[4];
} rowlock_break_options;

/*
 *   BUSY         nothing was broken: nobody holds the lock (a row lock's unfenced holder is not
 *                seen); it was broken already and is cooling (with wait_ms the call waits for that
 *                instead); the latch is not closed; the lock has not the token `token`, or that is
 *                given for a name with slots (break the slot, NAME#2); it changed hands just now; a
 *                transaction that fenced the lease, or counted the latch, is still open; or a row
 *                lock's connection cannot be shown to belong to its holder
 *   NOT_FOUND    there is no such lock
 *   TIMEOUT      the lease is broken (or was cooling before), and still cooling after wait_ms
 *   CANCELLED    the same, when `cancel` was fired
 *   DENIED       also: this user may not end the connection that holds the row lock
 *   UNSUPPORTED  a row lock, on a node of a cluster with many writers without single_writer; or a
 *                queue, which nobody holds: rowlock_queue_requeue()
 *   UNAVAILABLE  also: the lock is broken, but for reconnect_ms the server could not be asked
 *                whether it can be acquired
 */
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status rowlock_break_with(rowlock_client *client,
                                                               const char *name,
                                                               const rowlock_break_options *options,
                                                               rowlock_error *err);
/* The same with a reason alone, which may be NULL. */
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status rowlock_break(rowlock_client *client, const char *name,
                                                          const char *reason, rowlock_error *err);

/*
 * Asks the holder of a lock to end its work and release it. Nothing forces it to: a holder that
 * ignores the ask keeps the lock, and `rowlock ls` shows that it was asked.
 *
 * The holder of a lease hears of it with its next renewal (TTL/3): rowlock_ask_fn,
 * rowlock_hold_asked(), `rowlock run` (SIGTERM for its command), rowlock_asked() in SQL. The holder
 * of a row lock hears of it within TTL/3, 10 s at most, if it has set on_ask. Only those who hold
 * the lock now are asked, not later holders: of a lease with readers, all of them; of a name with
 * slots, the holder of each slot; for one name of a set, the holder of the set. Asking again
 * replaces time and reason, and the holder is told again.
 */
typedef struct rowlock_ask_options {
    int64_t grace_ms;   /* how long the holder is given, 1 to 86400000: it is told, and nothing
                           happens when the time is over. 0 counts as 60000 */
    const char *reason; /* for the holder and the history, its first 250 bytes; may be NULL */
    int64_t wait_ms;    /* waits until those who were asked no longer hold it, at most this long;
                           0: does not wait; < 0: forever */
    rowlock_cancel *cancel; /* of the wait; may be NULL */
    uint64_t reserved[4];
} rowlock_ask_options;

/*
 * `options` may be NULL.
 *
 *   NOT_FOUND  nobody holds the lock (a row lock's unfenced holder is not seen, and cannot be
 *              asked), or there is no such lock. Nothing was written
 *   MODE       nobody holds it alone (latch, barrier, queue, quorum lease): see rowlock_break()
 *   BUSY       it kept changing hands just now, and nobody who still holds it was asked
 *   TIMEOUT    the holder was asked, and still held the lock after wait_ms
 *   CANCELLED  the holder was asked, and `cancel` was fired before the release
 *   UNKNOWN    the reply was lost: the holder may have been asked or not. Asking again does no harm
 */
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status rowlock_ask(rowlock_client *client, const char *name,
                                                        const rowlock_ask_options *options,
                                                        rowlock_error *err);

/* ---------------------------------------------------------------- restored */

typedef struct rowlock_restored_result {
    uint64_t names;  /* whose tokens are higher now ... */
    uint64_t held;   /* ... of these: said to be held, and free now */
    uint64_t items;  /* of queues */
    bool was_member; /* of a quorum: this server has no vote until it has rejoined */
    uint64_t reserved[4];
} rowlock_restored_result;

/*
 * Prepares a schema that was restored from a backup for use. Call it before anybody uses the
 * schema, when all that held locks before has ended or the longest TTL has passed. It frees all
 * locks, breaks latches, and lets tokens, and the ids of new items, go on 2^32 higher, above all
 * that were given after the backup. Periods and items that were done after the backup will be done
 * again, and items that were put after it are missing. `result` may be NULL.
 *
 *   BUSY     a lease or an item is not over by the server's clock, a session has a row lock, or a
 *            transaction has fenced a lock: somebody may be at work. Nothing was changed
 *   DENIED   also: the client works through procedures
 *   UNKNOWN  the reply was lost; calling it again does no harm
 */
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status rowlock_restored(rowlock_client *client,
                                                             rowlock_restored_result *result,
                                                             rowlock_error *err);

/* ------------------------------------------------------------------ freeze */

/*
 * Freezes names: nobody gets them until they are thawed, or the time is over. Holders keep, renew
 * and release their locks, and waiters go on waiting. A call with wait_ms 0, and one whose wait is
 * over, answer FROZEN, whether the lock is held or not. Names that are made later, and that the
 * freeze matches, are frozen from the beginning. While the call waits for a transaction that fenced
 * one of the locks, it tries again and again, each time for at most 1 s; between its tries other
 * programs can make names and release the other locks.
 *
 * It holds for leases, shared or not, for sets, slots, leaders and periods, and for row locks with
 * a token. An optimistic section finds the name BUSY. Not frozen: latches and barriers, which have
 * no holder; queues; row locks without a token (`unfenced`, shared ones, rowlock_tx_acquire()),
 * which InnoDB alone gives out.
 */
typedef struct rowlock_freeze_options {
    const char *name;   /* one lock (of a name with slots: all slots); or ... */
    const char *prefix; /* ... all whose names begin with it; "": all locks */
    const char *reason; /* kept with it and in the history, its first 250 bytes; may be NULL */
    int64_t for_ms;     /* how long, at most 10 years; or ... */
    int64_t until_us;   /* ... until when, in microseconds since 1970, UTC. Both 0: until it is
                           thawed */
    uint64_t reserved[4];
} rowlock_freeze_options;

typedef struct rowlock_freeze_result {
    uint64_t names; /* how many existing names it freezes ... */
    uint64_t held;  /* ... of these: still held */
    uint64_t reserved[4];
} rowlock_freeze_result;

/*
 * Once it has returned, no later caller gets such a name. Freezing again replaces time and reason.
 * Of several freezes of a name the one that ends last counts. `result` may be NULL.
 *
 *   INVALID  also: neither name nor prefix is given, or both; or both for_ms and until_us; or
 *            until_us is past by the server's clock
 *   BUSY     a transaction that fenced one of the locks is still open; nothing was changed
 *   DENIED   also: the client works through procedures (CALL rowlock_freeze)
 *   UNKNOWN  the reply was lost; calling it again does no harm
 */
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status rowlock_freeze(rowlock_client *client,
                                                           const rowlock_freeze_options *options,
                                                           rowlock_freeze_result *result,
                                                           rowlock_error *err);
/*
 * Ends the freeze of that name or prefix, the only members of `options` that count. Waiters get the
 * lock within 250 ms (within 1 s, or 4 s behind others, where they cannot be woken).
 *
 *   NOT_FOUND  there is no such freeze, or its time is over
 *   BUSY       a transaction that fenced one of the locks is still open; nothing was changed
 *   DENIED     also: the client works through procedures (CALL rowlock_thaw)
 *   UNKNOWN    the reply was lost; calling it again does no harm
 */
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status rowlock_thaw(rowlock_client *client,
                                                         const rowlock_freeze_options *options,
                                                         rowlock_error *err);

typedef struct rowlock_frozen {
    const char *text; /* the name, or what the names begin with */
    bool is_prefix;
    const char *by; /* the label of the one who froze it */
    const char *reason;
    const char *frozen_at;
    const char *until_at; /* "": until it is thawed */
    int64_t since_ms;     /* by the server's clock */
    int64_t left_ms;      /* -1: until it is thawed */
    uint64_t reserved[4];
} rowlock_frozen;

typedef struct rowlock_freezes rowlock_freezes;

/*
 * What is frozen now, in byte order. Free with rowlock_freezes_free(), which frees the items too;
 * rowlock_freezes_at() is NULL after the last one.
 *
 *   DENIED  also: the client works through procedures
 */
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status rowlock_freezes_get(rowlock_client *client,
                                                                rowlock_freezes **freezes,
                                                                rowlock_error *err);
ROWLOCK_API size_t rowlock_freezes_count(const rowlock_freezes *freezes);
ROWLOCK_API const rowlock_frozen *rowlock_freezes_at(const rowlock_freezes *freezes, size_t i);
ROWLOCK_API void rowlock_freezes_free(rowlock_freezes *freezes);

/* ------------------------------------------------------------------- purge */

/*
 * Removes the rows of a name that nobody holds, as the sweep does with names that were unused for
 * long. The name's history stays, and its tokens go on rising if it is used again; it may then be
 * of another kind. Of a name with slots it purges the slots, too (the sweep never purges the name).
 *
 *   BUSY         the name is held or cooling, or a queue that has items, or somebody else is at
 *                work on its rows
 *   NOT_FOUND    there is no such lock
 *   DENIED       the user may not delete, also where there is no such name; or the client works
 *                through procedures
 *   UNSUPPORTED  a queue, on a node of a cluster with many writers without single_writer
 */
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status rowlock_purge(rowlock_client *client, const char *name,
                                                          rowlock_error *err);

/* ------------------------------------------------------------------- slots */

/*
 * How many may hold the name at once (`slots` of rowlock_acquire_options).
 *
 *   NOT_FOUND  there is no such name, or nobody has said yet how many it has
 *   MODE       the name is a lock of another kind
 */
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status rowlock_slots_get(rowlock_client *client,
                                                              const char *name, unsigned *slots,
                                                              rowlock_error *err);

/*
 * Sets the number, also while slots are held; a new name is made. If it rises, waiters get the new
 * slots. If it falls, a holder of a slot with too high a number, or one that is just taking it,
 * keeps the slot until its release; nobody gets that slot after it. Until then more than `slots`
 * may hold the name.
 *
 *   INVALID  slots is not 1 to ROWLOCK_SLOTS_MAX
 *   MODE     the name is a lock of another kind
 *   DENIED   also: the client works through procedures
 */
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status rowlock_slots_set(rowlock_client *client,
                                                              const char *name, unsigned slots,
                                                              rowlock_error *err);

/* ------------------------------------------------------------------ fences */

/*
 * A *fenced table* has three triggers, its fence, that refuse INSERT, UPDATE and DELETE (SQLSTATE
 * RLLST, error 1644) in a session that has not presented the token of the lock's present holder
 * (rowlock_present() in rowlock_mysql.h, or CALL rowlock_present). So not even a program that
 * knows nothing of the lock writes the table without it. From a transaction's first write to its
 * end nobody else gets the lock; renewals go on. The token of a lease whose time is over is good
 * until somebody else takes the lease, as it is for rowlock_fence().
 *
 * Triggers do not see TRUNCATE, DDL, a foreign key's cascades, or the changes that a replica
 * applies; and a user who wants to can put a token into the session's variable. A fence keeps
 * mistakes out, not attackers.
 *
 * The user that installs it is the triggers' definer: it needs TRIGGER on the table and SELECT on
 * rowlock's `resource` (in a cluster also UPDATE of its fence_count), for as long as the fence is
 * there. `table_schema` NULL: the client's own schema. Names are as the server has them, without
 * quotes.
 */
typedef struct rowlock_fenced {
    const char *table_schema;
    const char *table_name;
    const char *name;    /* of the lock */
    const char *definer; /* user@host, whose rights the triggers have */
    bool on_insert;      /* all three, unless somebody has dropped a trigger */
    bool on_update;
    bool on_delete;
} rowlock_fenced;

typedef struct rowlock_fences rowlock_fences;

/*
 * Fences the table with the lock `name`, which need not exist yet. Called again with the same lock,
 * it makes the triggers that are missing.
 *
 *   NOT_FOUND  there is no such table, or this user may not see it
 *   INVALID    it is no table (a view), one of rowlock's own, or fenced by another lock
 *   DENIED     the message names the missing privilege
 *   TIMEOUT    somebody used the table for as long as the client's connect_timeout_ms. Triggers
 *              that this call had made are dropped again
 *   UNKNOWN    the connection was lost; call it again, which harms nothing
 */
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status rowlock_fence_install(rowlock_client *client,
                                                                  const char *table_schema,
                                                                  const char *table_name,
                                                                  const char *name,
                                                                  rowlock_error *err);

/*
 * Drops the triggers of the table's fence.
 *
 *   NOT_FOUND  there is no such table, or no fence that this user may see (TRIGGER on the table)
 *   DENIED     this user may not drop the triggers
 *   TIMEOUT    somebody used the table for as long as the client's connect_timeout_ms; triggers
 *              that were dropped before that stay dropped
 *   UNKNOWN    the connection was lost; call it again, which harms nothing
 */
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status rowlock_fence_remove(rowlock_client *client,
                                                                 const char *table_schema,
                                                                 const char *table_name,
                                                                 rowlock_error *err);

/* The fences of this client's locks on tables on which this user has TRIGGER, by table (byte
 * order). They are read from the triggers themselves. Free with rowlock_fences_free(), which frees
 * the items too; rowlock_fences_at() is NULL beyond the last one. */
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status rowlock_fences_get(rowlock_client *client,
                                                               rowlock_fences **fences,
                                                               rowlock_error *err);
ROWLOCK_API size_t rowlock_fences_count(const rowlock_fences *fences);
ROWLOCK_API const rowlock_fenced *rowlock_fences_at(const rowlock_fences *fences, size_t i);
ROWLOCK_API void rowlock_fences_free(rowlock_fences *fences);

/* ------------------------------------------------------------------ schema */

typedef struct rowlock_migration {
    unsigned version;
    const char *name;
    const char *statement; /* the first line of the statement now being run; "" when done */
    unsigned step;         /* 1 .. steps */
    unsigned steps;
} rowlock_migration;

/* Progress; called before every statement and once, with statement "", after each file. */
typedef void (*rowlock_migrate_fn)(void *data, const rowlock_migration *migration);

typedef struct rowlock_migrate_options {
    int64_t wait_ms; /* for another init that is running; 0: 60000; < 0: forever */
    rowlock_migrate_fn progress;
    void *progress_data;
    uint64_t reserved[5];
} rowlock_migrate_options;

typedef struct rowlock_migrate_result {
    unsigned from; /* schema version found (0: none) and left */
    unsigned to;
    unsigned applied; /* files */
    uint64_t reserved[4];
} rowlock_migrate_result;

/*
 * Makes rowlock's own schema and its tables, or brings them up to date: what `rowlock init` does.
 * (Migrations of your schema, `rowlock migrate`, are rowlock_migrations_apply() in
 * rowlock_migrate.h.) It is safe to run again, also after a
 * run that was interrupted, and by many at once: one works, the others wait. `result` may be NULL.
 *
 *   SCHEMA   a newer program made a change that this one cannot live with, a file was changed after
 *            it was applied, or a table of that name is not rowlock's
 *   DENIED   the message names the missing privilege
 *   TIMEOUT  another init did not finish within wait_ms
 *   BUSY     a transaction uses a table that is to be changed; try again when it has ended
 *   UNKNOWN  the connection was lost; run it again
 *   DAMAGED  the tables are up to date, and one of them is not as it should be; the result is
 *            written
 */
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status rowlock_migrate(
    const rowlock_client_options *client_options, const rowlock_migrate_options *options,
    rowlock_migrate_result *result, rowlock_error *err);

typedef struct rowlock_procedures_options {
    int64_t wait_ms;  /* for another init that is running; 0: 60000; < 0: forever */
    bool update_only; /* install: does nothing where there are none yet */
    uint64_t reserved[4];
} rowlock_procedures_options;

typedef struct rowlock_procedures_result {
    unsigned changed; /* routines that were made, replaced or dropped */
    unsigned total;   /* routines of rowlock's that are there now */
    uint64_t reserved[4];
} rowlock_procedures_result;

/*
 * Puts the stored procedures (rowlock-sql(7)) into the schema, which has its tables already
 * (rowlock_migrate()), or brings them up to date. They run with the rights of the user that
 * installs them. Safe to run again, and by many at once. `result` may be NULL.
 *
 *   SCHEMA       there are no tables, or they are of another version
 *   DENIED       the message names the missing privilege
 *   TIMEOUT      another init did not finish within wait_ms
 *   UNAVAILABLE  also: the connection was lost on the way, and part of it is done; run it again
 */
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status rowlock_procedures_install(
    const rowlock_client_options *client_options, const rowlock_procedures_options *options,
    rowlock_procedures_result *result, rowlock_error *err);
/*
 * Drops them; locks that were taken through them stay held. OK when there are none.
 *
 *   INVALID      also: the event that sweeps calls them; call rowlock_sweep_event_remove() first
 *   DENIED       the message names the missing privilege
 *   TIMEOUT      another init did not finish within wait_ms
 *   UNAVAILABLE  also: the connection was lost on the way, and part of it is done; run it again
 */
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status rowlock_procedures_remove(
    const rowlock_client_options *client_options, const rowlock_procedures_options *options,
    rowlock_procedures_result *result, rowlock_error *err);

typedef struct rowlock_sweep_event_options {
    int64_t every_ms; /* whole seconds, 1000 to 86400000; 0: 60000 */
    rowlock_sweep_options sweep;
    int64_t wait_ms; /* for another init that is running; 0: 60000; < 0: forever */
    uint64_t reserved[4];
} rowlock_sweep_event_options;

typedef struct rowlock_sweep_event_result {
    bool there;        /* install: true; remove: there was one */
    bool scheduler_on; /* the server runs events; else: SET GLOBAL event_scheduler = ON */
    uint64_t reserved[4];
} rowlock_sweep_event_result;

/*
 * Makes, or changes, an EVENT in the schema by which the server sweeps by itself. It runs with the
 * rights of the user that installs it. Needs the procedures and the privilege EVENT. It does not
 * switch the server's event scheduler on. Beside other sweepers it does no harm. `result` may be
 * NULL.
 *
 *   SCHEMA       the procedures are not there (rowlock_procedures_install())
 *   DENIED       the message names the missing privilege
 *   INVALID      every_ms is not whole seconds from 1 s to 24 h, or an age is too large
 *   TIMEOUT      another init did not finish within wait_ms
 *   UNAVAILABLE  also: the connection was lost on the way, and part of it is done; run it again
 */
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status rowlock_sweep_event_install(
    const rowlock_client_options *client_options, const rowlock_sweep_event_options *options,
    rowlock_sweep_event_result *result, rowlock_error *err);
/*
 * Drops it; the table sweep_event stays, empty. Of `options` only wait_ms counts. OK when there is
 * none.
 *
 *   DENIED       the message names the missing privilege
 *   TIMEOUT      another init did not finish within wait_ms
 *   UNAVAILABLE  also: the connection was lost on the way, and part of it is done; run it again
 */
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status rowlock_sweep_event_remove(
    const rowlock_client_options *client_options, const rowlock_sweep_event_options *options,
    rowlock_sweep_event_result *result, rowlock_error *err);

/* ------------------------------------------------------------------ doctor */

typedef enum rowlock_level {
    ROWLOCK_FINE = 0,
    ROWLOCK_NOTE = 1,  /* for information */
    ROWLOCK_CARE = 2,  /* works, with care */
    ROWLOCK_BROKEN = 3 /* will not work, or not safely */
} rowlock_level;

/* A connection of the server's that a finding is about. Texts are "" where nothing is known. */
typedef struct rowlock_finding_session {
    const char
        *role; /* "waits"; "holds" what another waits for; "may hold" it; "open" transaction */
    uint64_t connection_id; /* for KILL */
    const char *user;
    const char *host;
    const char *command;    /* the server's word for what it does: "Query", "Sleep" ... */
    const char *state;      /* ... and for the stage it is at */
    int64_t age_ms;         /* for how long it has been doing that */
    int64_t transaction_ms; /* for how long its transaction has been open; -1: none, or unknown */
    const char *object;     /* "schema.table", or some with ", " between them */
    const char *lock;       /* the server's word for the lock that it holds */
    const char *query;      /* its statement, or its last one; at most 200 characters */
    uint64_t reserved[4];
} rowlock_finding_session;

typedef struct rowlock_finding {
    const char *check; /* "isolation", "privileges", ... */
    rowlock_level level;
    const char *found;                       /* the state that was found */
    const char *follows;                     /* what follows from it; "" when fine */
    const char *remedy;                      /* what to do, often a statement; "" when fine */
    const rowlock_finding_session *sessions; /* the connections that it is about */
    size_t session_count;                    /* 0 but for "blocked" and "transactions" */
} rowlock_finding;

typedef void (*rowlock_finding_fn)(void *data, const rowlock_finding *finding);

/*
 * Looks at the server, the schema and this user, and reports each check through `fn`. It changes
 * nothing. `ttl_ms` (0: the default) is the TTL that wait_timeout is compared with. OK when it
 * could look, whatever it found; else the status says why it could not. A finding and its texts are
 * valid during the call of `fn` only.
 *
 *   INVALID      `fn` is NULL, or ttl_ms is not ROWLOCK_TTL_MIN_MS to ROWLOCK_TTL_MAX_MS
 *   DENIED       the login is refused. (A missing privilege is a finding.)
 *   UNAVAILABLE  the server cannot be reached, or the connection was lost on the way; checks that
 *                were made before were reported
 */
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status rowlock_diagnose(const rowlock_client_options *options,
                                                             int64_t ttl_ms, rowlock_finding_fn fn,
                                                             void *data, rowlock_error *err);

typedef struct rowlock_diagnose_options {
    int64_t ttl_ms; /* the TTL that wait_timeout is compared with; 0: the default */
    /*
     * What the user is for: "batch" takes locks, "procedures" takes them with EXECUTE alone,
     * "looker", "sweeper", "migrator", "fencer", "admin"; see sql/grants.sql. NULL: "procedures"
     * with via=procedures, else "batch". "looker" with via=procedures counts as "procedures".
     */
    const char *role;
    bool rights_only; /* only the check "privileges", and "schema" where that cannot be used */
    uint64_t reserved[4];
} rowlock_diagnose_options;

/*
 * The same for a user of that role. Where it lacks a right, the remedy of the finding "privileges"
 * is every GRANT that is missing and no other: statements that can be run, each on a line. `how`
 * may be NULL. Statuses of rowlock_diagnose().
 *
 *   INVALID  also: there is no such role
 */
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status
rowlock_diagnose_with(const rowlock_client_options *options, const rowlock_diagnose_options *how,
                      rowlock_finding_fn fn, void *data, rowlock_error *err);

#ifdef __cplusplus
}
#endif

#endif
