/* kind/set.h - several leases at once: all or none. */
#ifndef RL_KIND_SET_H
#define RL_KIND_SET_H

#include "engine/acquire.h"

/* A hold of several names, as leases; or of several slots of one. Statuses of
 * rowlock_acquire_set().
 */
rowlock_status rl_set_acquire(rowlock_hold *whole, const rowlock_acquire_options *options,
                              const rl_budget *budget, rowlock_error *err) RL_MUST_USE;

/* One transaction that takes parts of a hold (rl_part_new), as many as are not held yet. */
typedef struct rl_taking {
    rowlock_hold *whole;
    const rowlock_acquire_options *options;
    const rl_budget *budget;
    /* In the transaction, before the parts: may they be taken? May be NULL. */
    rowlock_status (*may)(void *data, rl_conn *conn, rowlock_error *err);
    rl_sql_id may_runs; /* its statement */
    void *data;
    bool quiet;       /* without bells */
    rl_trace request; /* the last COMMIT */
    bool open;        /* whose reply was lost */
} rl_taking;

/* OK: all are held. BUSY: none was taken. UNAVAILABLE: again, to find out what became of it. */
rowlock_status rl_take_parts(rl_taking *t, rowlock_error *err) RL_MUST_USE;

/* What has been taken, by t->request, is held from now on: each part is a hold of its own. Those of
 * them that turn out not to be good are given back. */
rowlock_status rl_parts_begin(const rl_taking *t, rowlock_error *err) RL_MUST_USE;

/* Is the part held in the server by its owner? Then with its token; else *ours is false. */
rowlock_status rl_part_find(const rl_taking *t, rowlock_hold *part, bool *ours,
                            rowlock_error *err) RL_MUST_USE;

/* What became of a COMMIT whose reply was lost: *ours: all were taken. OK also where none was. */
rowlock_status rl_taking_settle(rl_taking *t, bool *ours, rowlock_error *err) RL_MUST_USE;

/* The last try's outcome is not known: it is to be settled. */
bool rl_taking_unsettled(const void *data);

/* The status of a call whose tries have ended so: UNKNOWN if it could not be settled. */
rowlock_status rl_taking_ended(const rl_taking *t, rowlock_status status,
                               rowlock_error *err) RL_MUST_USE;

#endif
