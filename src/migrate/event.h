/* migrate/event.h - the event that sweeps. */
#ifndef RL_MIGRATE_EVENT_H
#define RL_MIGRATE_EVENT_H

#include "db/pool.h"
#include "rowlock/rowlock.h"

/* 0 us: for ever. */
typedef struct rl_event_plan {
    uint64_t every_s;
    uint64_t history_us;
    uint64_t history_rows;
    uint64_t unused_us;
} rl_event_plan;

/* See rowlock_sweep_event_install(); without a plan, _remove(). `params` names the schema. */
rowlock_status rl_event_change(rl_params *params, const rl_event_plan *plan, int64_t wait_ms,
                               rowlock_sweep_event_result *result, rowlock_error *err) RL_MUST_USE;

/* Is it there, as far as this connection's user may see? */
rowlock_status rl_event_there(rl_conn *conn, const rl_io *io, bool *there,
                              rowlock_error *err) RL_MUST_USE;

#endif
