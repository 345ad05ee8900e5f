/* Rules for statements: nothing is prepared in a transaction, a failed one is not executed again on
 * its old handle, and what ends work in a caller's transaction locks its row, and no gap. */
#include "engine/client.h"
#include "rowlock/rowlock_mysql.h"
#include "rowlock/rowlock_once.h"
#include "rowlock/rowlock_queue.h"
#include "support/support.h"

static MYSQL *mysql;
static rowlock_client *client;
static rl_conn *conn;
static rl_io io;

static void begin(const char *suffix, rl_purpose purpose)
{
    const char *schema = ts_extra_schema(suffix, true);
    mysql = ts_connect(schema);
    client = ts_open_as((rowlock_client_options){.schema = schema});
    io = rl_io_until(RL_NEVER);
    const rl_request fresh = {.purpose = purpose, .fresh = true};
    WANT(OK, rl_pool_take(&client->pool, &fresh, &io, &conn, &ts_err));
}

static void end(void)
{
    rl_pool_give(&client->pool, conn);
    rowlock_client_close(client);
    mysql_close(mysql);
}

/* Of the connection; asking is not counted by the server as one. */
static uint64_t prepared_so_far(void)
{
    assert_int_equal(mysql_query(conn->mysql, "SHOW SESSION STATUS LIKE 'Com_stmt_prepare'"), 0);
    MYSQL_RES *result = mysql_store_result(conn->mysql);
    assert_non_null(result);
    MYSQL_ROW row = mysql_fetch_row(result);
    uint64_t count = strtoull(row[1], NULL, 10);
    mysql_free_result(result);
    return count;
}

static rowlock_status find(const char *name)
{
    const rl_value values[] = {rl_text(name)};
    rl_rows rows;
    bool found = false;
    return rl_query_one(conn, RL_SQL_RESOURCE_FIND, values, &io, &found, &rows, &ts_err);
}

static rowlock_status touch(uint64_t id)
{
    const rl_value values[] = {rl_u64(id)};
    return rl_run(conn, RL_SQL_RESOURCE_TOUCH, values, &io, NULL, &ts_err);
}

TS_ONCE(test_none_is_prepared_in_a_transaction)
{
    begin("begun", RL_WORK);
    WANT(OK, rl_run_text(conn, RL_SQL_BEGIN, NULL, &io, &ts_err));
    uint64_t before = prepared_so_far();
    WANT(SYSTEM, find("name"));
    assert_non_null(strstr(ts_err.message, "resource_find was not prepared"));
    assert_int_equal(prepared_so_far(), before);
    WANT(OK, rl_run_text(conn, RL_SQL_ROLLBACK, NULL, &io, &ts_err));
    WANT(OK, find("name"));
    assert_int_equal(prepared_so_far(), before + 1);
    WANT(OK, rl_run_text(conn, RL_SQL_BEGIN, NULL, &io, &ts_err));
    WANT(OK, find("name"));
    WANT(OK, rl_run_text(conn, RL_SQL_COMMIT, NULL, &io, &ts_err));
    end();
}

TS_ONCE(test_a_failed_one_is_prepared_anew)
{
    begin("failed", RL_WORK);
    ts_sql(mysql, "INSERT INTO resource (id, resource_name, kind, version, update_time)"
                  " VALUES (1, 'name', 'pessimistic', 1, '2020-01-01')");
    WANT(OK, touch(1));
    uint64_t before = prepared_so_far();
    WANT(OK, touch(1));
    assert_int_equal(prepared_so_far(), before);
    ts_sql(mysql, "CREATE TRIGGER refuse BEFORE UPDATE ON resource FOR EACH ROW"
                  " SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213");
    WANT(DEADLOCK, touch(1));
    ts_sql(mysql, "DROP TRIGGER refuse");
    before = prepared_so_far();
    WANT(OK, touch(1));
    assert_int_equal(prepared_so_far(), before + 1);
    end();
}

/* Its numbers are not the server's: none is registered, and nobody is ended by one. */
TS_ONCE(test_no_session_through_a_proxy)
{
    begin("proxied", RL_WORK);
    rowlock_client *direct = ts_open_as((rowlock_client_options){.schema = mysql->db});
    MYSQL *own = ts_connect(mysql->db);
    rowlock_hold *hold = ts_take(direct, "proxied", ROWLOCK_OPTIMISTIC, 60000);
    WANT(OK, rowlock_hold_guard(hold, own, &ts_err));
    ts_sql(mysql, "UPDATE resource SET lease_expires_at = UTC_TIMESTAMP(6)");
    rl_pool_give(&client->pool, conn);
    for (rl_conn *idle = client->pool.idle[RL_WORK]; idle; idle = idle->pooled.next)
        idle->server.proxied = true;
    WANT(BUSY, ts_try(client, "proxied", ROWLOCK_OPTIMISTIC));
    assert_non_null(strstr(ts_err.message, "a proxy hides"));
    assert_int_equal(ts_sql_u64(own, "SELECT 17"), 17);
    rowlock_hold *theirs = ts_take(client, "another", ROWLOCK_OPTIMISTIC, 30000);
    WANT(UNSUPPORTED, rowlock_hold_guard(theirs, own, &ts_err));
    WANT(OK, rowlock_release(theirs, &ts_err));
    (void)!rowlock_release(hold, &ts_err);
    mysql_close(own);
    rowlock_client_close(direct);
    WANT(OK, rl_pool_take(&client->pool, NULL, &io, &conn, &ts_err));
    end();
}

/* A queue with one item, a queue with one group of one, and a name with one period, all under way:
 * where there is so little of each, a server may find its row by any index. (Not made by calls:
 * what these leave in an index counts until the server has purged it.) */
static void make_one_of_each(void)
{
    rowlock_client_options options = ts_options();
    options.schema = mysql->db;
    WANT(OK, rowlock_procedures_install(&options, NULL, NULL, &ts_err));
    ts_sql(mysql, "INSERT INTO resource (id, resource_name, kind, version, update_time) VALUES"
                  " (7, 'plain', 'queue', 1, '2020-01-01'),"
                  " (8, 'grouped', 'queue', 1, '2020-01-01'),"
                  " (9, 'once', 'optimistic', 5, '2020-01-01')");
    ts_sql(mysql,
           "INSERT INTO queue_item (id, queue_id, state, lane, ready_at, taken, token,"
           " owner, attempts, attempts_most, item_key, group_key, created_at, payload) VALUES"
           " (11, 7, 'alive', 5, '2040-01-01', 1, 5, CONCAT(REPEAT('o', 36), '.'),"
           " 1, 20, '.a', NULL, '2020-01-01', 'x'),"
           " (12, 8, 'alive', 5, '2040-01-01', 1, 5, CONCAT(REPEAT('o', 36), '.'),"
           " 1, 20, '.b', 'g', '2020-01-01', 'x')");
    ts_sql(mysql, "INSERT INTO queue_group (queue_id, group_key, head) VALUES (8, 'g', 12)");
    ts_sql(mysql, "INSERT INTO once_run VALUES (9, '2020-01-01', '2020-01-02', 'running', 5,"
                  " CONCAT(REPEAT('o', 36), '.'), 'label', 1, '2020-01-01', NULL, NULL)");
}

/* Another period of the name, and one of another name. (MariaDB locks the gap before a row that it
 * finds by a secondary index: docs/notes/procedures.md, "Neighbours".) */
static void begin_other_periods(void)
{
    ts_sql(mysql, "BEGIN");
    ts_sql(mysql, "INSERT INTO once_run VALUES (9, '2020-01-02', '2020-01-03', 'running', 6,"
                  " 'owner', 'label', 1, '2020-01-01', NULL, NULL),"
                  " (10, '2020-01-01', '2020-01-02', 'running', 1,"
                  " 'owner', 'label', 1, '2020-01-01', NULL, NULL)");
    ts_sql(mysql, "ROLLBACK");
}

/* While the transaction that ends the item is open. */
static void put_beside_done(MYSQL *own, const char *queue, uint64_t item, bool by_call,
                            const rowlock_put_options *options)
{
    ts_sql(own, "BEGIN");
    if (by_call)
        ts_sql(own, "CALL rowlock_queue_done('%s', %" PRIu64 ", 5)", queue, item);
    else
        WANT(OK, rowlock_tx_queue_done(client, own, queue, item, 5, &ts_err));
    WANT(OK, rowlock_queue_put(client, queue, "y", 1, options, NULL, &ts_err));
    ts_sql(own, "ROLLBACK");
}

TS_ONCE(test_what_is_done_in_a_transaction_locks_no_gap)
{
    begin("gaps", RL_WORK);
    TS_MYSQL *own = ts_connect(mysql->db);
    make_one_of_each();
    ts_sql(mysql, "SET SESSION innodb_lock_wait_timeout = 1");
    ts_sql(own, "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ");
    for (int by_call = 0; by_call < 2; by_call++) {
        put_beside_done(own, "plain", 11, by_call, NULL);
        put_beside_done(own, "grouped", 12, by_call, &(rowlock_put_options){.group = "h"});
    }
    ts_sql(own, "BEGIN");
    WANT(OK, rowlock_tx_once_done(client, own, "once", 5, &ts_err));
    begin_other_periods();
    ts_sql(own, "ROLLBACK");
    ts_sql(own, "BEGIN");
    ts_sql(own, "CALL rowlock_once_done('once', 5)");
    begin_other_periods();
    ts_sql(own, "ROLLBACK");
    end();
}

TS_MAIN("statements", ts_suite_begin, ts_suite_end)
