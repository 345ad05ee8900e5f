/* engine/client.h - what a client is below the API. */
#ifndef RL_ENGINE_CLIENT_H
#define RL_ENGINE_CLIENT_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/budget.h"
#include "bell/bell.h"
#include "db/pool.h"
#include "engine/resource.h"
#include "keep/journal.h"
#include "keep/keeper.h"
#include "rowlock/rowlock.h"
#include "stmt/stmt.h"

/* From where on a queue is searched for the next item. */
typedef struct rl_cursor {
    uint64_t queue_id;
    uint64_t lane;
    int64_t from_us;     /* by the server's clock */
    int64_t whole_at_us; /* by ours: when all of it is searched again */
} rl_cursor;
enum { RL_CURSORS = 8 };

struct rowlock_client {
    pid_t pid; /* of the process that opened it */
    rl_log log;
    rl_pool pool;
    rl_journal journal;
    rl_keeper keeper;
    rl_names names;
    char uuid[37];
    char label[ROWLOCK_LABEL_MAX + 1];
    char schema[65];
    char user[129];     /* as the server's connection knows it */
    bool single_writer; /* the user has said so */
    rl_bells bells;
    int64_t limit_ms;
    int64_t outage_us;
    atomic_uint_fast64_t owners; /* owner ids given out */
    pthread_mutex_t mutex;       /* guards the lists of holds, and their depths, and of items */
    rowlock_hold *holds;
    /* Of a quorum: it has no server itself, but so many members, each with a client of its own. */
    struct rl_members *quorum; /* kind/members.h; NULL: one server */
    rowlock_client **members;
    size_t member_count;
    atomic_bool away;              /* a member: it did not answer the last time */
    struct rowlock_item *items;    /* held (kind/queue.h) */
    rl_cursor cursors[RL_CURSORS]; /* of queues (kind/queue_cursor.c); guarded by the mutex, too */
};

/* Works through procedures, and its user may have no right on any table. */
static inline bool rl_client_via(const rowlock_client *client)
{
    return client->pool.params.via;
}

/* A fresh owner id: the client's UUID and a number. */
void rl_client_owner(rowlock_client *client, char owner[ROWLOCK_OWNER_MAX + 1]);

/* FORKED in a child process, INVALID for NULL, UNSUPPORTED for a quorum's client, which `_any`
 * accepts. */
rowlock_status rl_client_check(const rowlock_client *client, rowlock_error *err) RL_MUST_USE;
rowlock_status rl_client_check_any(const rowlock_client *client, rowlock_error *err) RL_MUST_USE;

/* Hands an event to the journal, which writes it to the history later (keep/journal.h). */
void rl_client_record(rowlock_client *client, const rl_event *event);

/* Adds to the totals of `name`, which the journal writes later; `identity`: of the server that
 * granted the lock. */
void rl_client_count(rowlock_client *client, const char *name, uint64_t identity,
                     const rl_total *total);

/*
 * One statement on a connection borrowed from the pool. UNAVAILABLE: it was not sent. UNKNOWN: it
 * was, and the reply was lost.
 */
rowlock_status rl_client_run(rowlock_client *client, const rl_budget *budget, rl_sql_id id,
                             const rl_value *values, rl_done *done, rowlock_error *err) RL_MUST_USE;

/* As rl_run_match(): one that matched no row runs once more. */
rowlock_status rl_client_run_match(rowlock_client *client, const rl_budget *budget, rl_sql_id id,
                                   const rl_value *values, rl_done *done,
                                   rowlock_error *err) RL_MUST_USE;

/* Where and when a request went out whose reply may be lost. */
typedef struct rl_trace {
    uint64_t connection_id;
    rl_peer peer;      /* the server that gave the number */
    uint64_t identity; /* the server or cluster that knows the outcome (rl_server) */
    uint64_t node;     /* `callers`: the node that the client's connections led to */
    bool callers; /* on the caller's connection, which reaches the client's server by its own way */
    int64_t sent_us;
    bool stopped;          /* broken off by us, for the time was over */
    char key[RL_KEY_SIZE]; /* the connection's, if it works through procedures */
} rl_trace;

/*
 * One change of a row that a fenced transaction may have locked, on a connection of the pool.
 * `patient`: rl_budget_change_io(). `beside`: a connection that must lead to the same server (one
 * of the two may have been made before a failover, the other after it); NULL: any server.
 * UNAVAILABLE: nothing was sent. TIMEOUT: a try that was not patient met a lock. UNKNOWN: the reply
 * was lost. `trace` is filled as soon as there is a connection.
 */
rowlock_status rl_client_change(rowlock_client *client, const rl_budget *budget,
                                const rl_conn *beside, bool patient, rl_sql_id id,
                                const rl_value *values, rl_trace *trace, rl_done *done,
                                rowlock_error *err) RL_MUST_USE;

/* We have stopped the change of a try, also where the server answered that too late, and the
 * connection had to be closed. In a transaction it is undone; else a look tells. */
bool rl_try_was_stopped(const rl_budget *budget, rowlock_status status, const rl_trace *trace);

/* rl_client_change() on a connection that the caller has taken. */
rowlock_status rl_client_change_on(rl_conn *conn, const rl_budget *budget, bool patient,
                                   rl_sql_id id, const rl_value *values, rl_trace *trace,
                                   rl_done *done, rowlock_error *err) RL_MUST_USE;

/*
 * A read of at most one row. `keep` copies what it needs out of the cells. A lost
 * connection is UNAVAILABLE: reading again does no harm.
 */
typedef void (*rl_keep_row)(void *data, const rl_cell *cells);
rowlock_status rl_client_read(rowlock_client *client, const rl_budget *budget, rl_sql_id id,
                              const rl_value *values, rl_keep_row keep, void *data, bool *found,
                              rowlock_error *err) RL_MUST_USE;

/* A read of many rows, each handed to `each`, which ends it by any status but OK. */
typedef rowlock_status (*rl_each_row)(void *data, const rl_cell *cells, rowlock_error *err);
rowlock_status rl_client_read_all(rowlock_client *client, const rl_budget *budget, rl_sql_id id,
                                  const rl_value *values, rl_each_row each, void *data,
                                  rowlock_error *err) RL_MUST_USE;

#endif
