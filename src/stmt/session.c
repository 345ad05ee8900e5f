#include "stmt/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "base/text.h"

/* How long a statement may wait for a row that is locked (InnoDB's lock): a holder's without a
 * limit (its io ends it), any other one a second, in case a fenced transaction has the row. */
#define WORK_LOCK_WAIT_S 1
#define HOLD_LOCK_WAIT_S 1000000
#define WORK_IDLE_S      600
#define ASK_ACCOUNT_US   1000000
#define ANSWER_MOST_US   500000 /* one that took longer stood still */

/* --------------------------------------------------------------------- which server it leads to */

static void note(void *data, const char *const *cells)
{
    rl_sketch_note(data, cells[0] ? cells[0] : "", cells[1] ? cells[1] : "");
}

/* Asks a cluster's node further questions. Not every user gets an answer; without one, rowlock is
 * more careful there. */
static rowlock_status ask_cluster(rl_conn *conn, const rl_io *io, rl_sketch *sketch,
                                  rowlock_error *err)
{
    rl_question question = rl_sketch_asks(sketch);
    if (question == RL_ASK_NOTHING)
        return ROWLOCK_OK;
    rl_sql_id id = question == RL_ASK_GALERA ? RL_SQL_SESSION_GALERA : RL_SQL_SESSION_GROUP;
    rowlock_status status = rl_query_text(conn, id, NULL, io, note, sketch, err);
    if (status != ROWLOCK_DENIED)
        return status;
    sketch->unseen = true;
    return ROWLOCK_OK;
}

static rowlock_status find_server(rl_conn *conn, const rl_io *io, rowlock_error *err)
{
    rl_sketch sketch;
    rl_sketch_begin(&sketch, &conn->server, conn->flavour);
    RL_TRY(rl_query_text(conn, RL_SQL_SESSION_SERVER, NULL, io, note, &sketch, err));
    RL_TRY(ask_cluster(conn, io, &sketch, err));
    rl_sketch_end(&sketch, conn->id);
    conn->peer.node = conn->server.node;
    bool may_be_cut_off = rl_cluster_traits_of(conn->server.cluster)->says_cut_off;
    conn->ping.probe =
        rl_sql_table[may_be_cut_off ? RL_SQL_SESSION_PROBE_NODE : RL_SQL_SESSION_PROBE].text;
    return ROWLOCK_OK;
}

/* -------------------------------------------------------------------------- set-up */

bool rl_key_make(char key[RL_KEY_SIZE])
{
    char *random = stpcpy(key, "rowlock.key.");
    return rl_random_hex(random, (RL_KEY_SIZE - sizeof "rowlock.key.") / 2);
}

static rowlock_status give_key(rl_conn *conn, const rl_io *io, rowlock_error *err)
{
    if (!rl_key_make(conn->session.key))
        return rl_fail(err, ROWLOCK_SYSTEM, "the system gives no random number");
    const rl_value values[] = {rl_text(conn->session.key)};
    return rl_run_text(conn, RL_SQL_SESSION_KEY, values, io, err);
}

/* The cell of the only row. */
static void keep_text(void *data, const char *const *cells)
{
    char **text = data;
    if (cells[0] && !*text)
        *text = rl_strdup(cells[0]);
}

rowlock_status rl_session_ask_account(rl_conn *conn, const rl_io *io, rowlock_error *err)
{
    return rl_query_text(conn, RL_SQL_SESSION_ACCOUNT, NULL, io, keep_text, &conn->session.account,
                         err);
}

/* Called only to explain a refusal, so that it costs other calls no round trip. */
static void ask_account(rl_conn *conn)
{
    const rl_io io = rl_io_until(rl_time_add(rl_now_us(), ASK_ACCOUNT_US));
    /* Without the account, the message has the server's text. */
    (void)!rl_session_ask_account(conn, &io, NULL);
}

void rl_session_grantee(rl_conn *conn, rowlock_status status, char *text, size_t size)
{
    const char *account = status == ROWLOCK_DENIED && conn ? rl_conn_account(conn) : NULL;
    if (account)
        rl_grantee(account, text, size);
    else
        snprintf(text, size, "this user");
}

rowlock_status rl_session_setup(rl_conn *conn, rl_purpose purpose, const rl_io *io,
                                rowlock_error *err)
{
    bool hold = purpose == RL_HOLD;
    conn->session.ask_account = ask_account;
    const rl_value values[] = {rl_u64(hold ? 0 : 1),
                               rl_u64(hold ? HOLD_LOCK_WAIT_S : WORK_LOCK_WAIT_S),
                               rl_u64(WORK_IDLE_S)};
    const int64_t sent_us = rl_now_us();
    RL_TRY(rl_run_text(conn, RL_SQL_SESSION_SETUP, values, io, err));
    const int64_t answer_us = rl_now_us() - sent_us;
    conn->session.answer_us = answer_us < ANSWER_MOST_US ? answer_us : ANSWER_MOST_US;
    conn->session.idle_limit_s = WORK_IDLE_S;
    if (conn->session.via)
        RL_TRY(give_key(conn, io, err));
    return find_server(conn, io, err);
}

rowlock_status rl_session_name_schema(rl_conn *conn, rl_params *params, const rl_io *io,
                                      rowlock_error *err)
{
    char *name = NULL;
    if (!conn->server.lowers_names)
        return ROWLOCK_OK;
    rowlock_status status =
        rl_query_text(conn, RL_SQL_SESSION_SCHEMA, NULL, io, keep_text, &name, err);
    if (status == ROWLOCK_OK && !name)
        return rl_fail(err, ROWLOCK_SYSTEM, "out of memory");
    if (status != ROWLOCK_OK) {
        free(name);
        return status;
    }
    free(params->schema);
    params->schema = name;
    return ROWLOCK_OK;
}

static rowlock_status setup_joined(rl_conn *conn, rl_purpose purpose, const rl_io *io,
                                   rowlock_error *err)
{
    RL_TRY(rl_session_setup(conn, purpose, io, err));
    /* A connection that fails here is not kept, so the next call asks again: the node may have
     * joined. */
    return rl_server_join_check(&conn->server, err);
}

static rowlock_status kill_query(rl_conn *conn, uint64_t connection_id, const char *key,
                                 const rl_io *io)
{
    const rl_value values[] = {rl_u64(connection_id)};
    const rl_value by_key[] = {rl_text(key)};
    if (*key)
        return rl_run_text(conn, RL_SQL_VIA_KILL_QUERY, by_key, io, NULL);
    return rl_run_text(conn, RL_SQL_KILL_QUERY, values, io, NULL);
}

rowlock_status rl_session_kill(rl_conn *conn, const rl_io *io, uint64_t connection_id,
                               rowlock_error *err)
{
    const rl_value values[] = {rl_u64(connection_id)};
    return rl_run_text(conn, RL_SQL_KILL_CONNECTION, values, io, err);
}

rowlock_status rl_session_end(rl_conn *conn, const rl_io *io, uint64_t connection_id,
                              const char *marker, bool *ended, rowlock_error *err)
{
    const rl_value values[] = {rl_text(marker)};
    uint64_t holder = 0;
    rowlock_error spare;
    err = rl_error_or(err, &spare);
    *ended = false;
    rowlock_status status = rl_session_kill(conn, io, connection_id, err);
    if (status == ROWLOCK_OK || err->server_errno != RL_NO_SUCH_THREAD)
        return status;
    RL_TRY(rl_query_number(conn, RL_SQL_SESSION_MARKED, values, io, &holder, err));
    *ended = holder != connection_id;
    return ROWLOCK_OK;
}

const rl_pool_hooks rl_stmt_pool_hooks = {.setup = setup_joined, .kill_query = kill_query};

rowlock_status rl_set_idle_limit(rl_conn *conn, uint64_t seconds, const rl_io *io,
                                 rowlock_error *err)
{
    if (conn->session.idle_limit_s == seconds)
        return ROWLOCK_OK;
    const rl_value values[] = {rl_u64(seconds)};
    RL_TRY(rl_run_text(conn, RL_SQL_SESSION_IDLE_LIMIT, values, io, err));
    conn->session.idle_limit_s = seconds;
    return ROWLOCK_OK;
}

/*
 * Uptime is the difference of two wall clock times in whole seconds, so it may be wrong by a
 * second. If the clock was put back behind the start, it is a negative number without its sign, and
 * proves nothing. Within the second in doubt the connections' numbers decide: they rise while a
 * server is up (for four thousand million connections).
 */
rowlock_status rl_session_restarted(rl_conn *conn, const rl_io *io, int64_t age_us,
                                    uint64_t older_id, bool *restarted, rowlock_error *err)
{
    const uint64_t age_s = (uint64_t)age_us / 1000000;
    const bool is_later = conn->opened_us > rl_now_us() - age_us;
    rl_rows rows;
    bool found = false;
    rowlock_status status = rl_query_one(conn, RL_SQL_SESSION_UPTIME, NULL, io, &found, &rows, err);
    *restarted = false;
    if (status != ROWLOCK_OK || !found)
        return status;
    const uint64_t uptime_s = strtoull(rows.cells[1].text, NULL, 10);
    const bool in_doubt = uptime_s >= age_s && uptime_s < age_s + 2;
    *restarted = uptime_s < age_s || (in_doubt && is_later && conn->id <= older_id);
    return ROWLOCK_OK;
}
