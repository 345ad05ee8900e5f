#include "faults/through.h"

ts_proxy *proxy;
rowlock_client *direct;
MYSQL *mysql;

int through_begin(void **state)
{
    ts_suite_begin(state);
    proxy = ts_proxy_start(ts_socket());
    direct = ts_open();
    mysql = ts_connect(ts_schema());
    return 0;
}

int through_end(void **state)
{
    rowlock_client_close(direct);
    ts_proxy_stop(proxy);
    mysql_close(mysql);
    return ts_suite_end(state);
}

rowlock_client_options through_options(void)
{
    rowlock_client_options options = ts_options();
    options.socket = ts_proxy_socket(proxy);
    options.connect_timeout_ms = 3000;
    options.reconnect_ms = 10000;
    options.no_history = true;
    return options;
}

rowlock_client *through_open(void)
{
    ts_proxy_flow(proxy);
    return ts_open_with(through_options());
}

rowlock_client *through_open_hasty(void)
{
    rowlock_client_options options = through_options();
    options.reconnect_ms = 120;
    ts_proxy_flow(proxy);
    return ts_open_with(options);
}

rowlock_client *open_patient(void)
{
    rowlock_client_options options = through_options();
    options.connect_timeout_ms = 10000;
    ts_proxy_flow(proxy);
    return ts_open_with(options);
}

const ts_fault lost[2] = {TS_LOSE_REPLY, TS_LOSE_COMMAND};

void happened(void)
{
    assert_true(ts_proxy_fired(proxy));
    ts_proxy_flow(proxy);
}

const char *taking(rowlock_mode mode)
{
    return mode == ROWLOCK_OPTIMISTIC
               ? "lease_acquire lease_inherit lease_acquire_quiet lease_take_over"
               : "row_publish";
}

const char *giving(rowlock_mode mode)
{
    return mode == ROWLOCK_OPTIMISTIC ? "lease_release lease_release_quiet" : "row_commit";
}

static rowlock_status acquire_for(rowlock_client *client, const char *name, rowlock_mode mode,
                                  int64_t wait_ms, int64_t ttl_ms, rowlock_hold **hold)
{
    rowlock_acquire_options options = {.mode = mode, .wait_ms = wait_ms, .ttl_ms = ttl_ms};
    *hold = NULL;
    return rowlock_acquire(client, name, &options, hold, &ts_err);
}

rowlock_status acquire(rowlock_client *client, const char *name, rowlock_mode mode, int64_t wait_ms,
                       rowlock_hold **hold)
{
    return acquire_for(client, name, mode, wait_ms, ts_short_ttl(mode), hold);
}

rowlock_status acquire_kept(rowlock_client *client, const char *name, rowlock_mode mode,
                            int64_t wait_ms, rowlock_hold **hold)
{
    return acquire_for(client, name, mode, wait_ms, TS_KEPT_TTL, hold);
}

void next_one_gets_in_after(int64_t ttl_ms, const char *name, rowlock_mode mode, uint64_t *token)
{
    TS_HOLD *hold = NULL;
    int64_t start = ts_now_ms();
    WANT(OK, acquire_kept(direct, name, mode, 30000, &hold));
    assert_between(0, ts_now_ms() - start, ttl_ms + 5000 + ts_slack_ms());
    if (rowlock_hold_token(hold) <= *token)
        fail_msg("token %" PRIu64 " after %" PRIu64, rowlock_hold_token(hold), *token);
    *token = rowlock_hold_token(hold);
}

void next_one_gets_in(const char *name, rowlock_mode mode, uint64_t *token)
{
    next_one_gets_in_after(ts_short_ttl(mode), name, mode, token);
}

void kept_from_others(rowlock_hold *hold, int64_t ms)
{
    for (int64_t until = ts_now_ms() + ms; ts_now_ms() < until; ts_pass_ms(10)) {
        assert_held(hold);
        WANT(BUSY, ts_try(direct, rowlock_hold_name(hold), rowlock_hold_mode(hold)));
    }
}

bool is_ours(const rowlock_hold *hold)
{
    return ts_sql_u64(mysql,
                      "SELECT COUNT(*) FROM resource WHERE resource_name = %s AND owner = '%s'"
                      " AND version = %" PRIu64 " AND status = 'held'",
                      ts_quote(rowlock_hold_name(hold)), rowlock_hold_owner(hold),
                      rowlock_hold_token(hold)) == 1;
}

unsigned kill_all_of(const char *user, const char *what)
{
    unsigned count = 0;
    char *ids = ts_sql_text(
        mysql, "SELECT GROUP_CONCAT(id) FROM " TS_PROCESSLIST " WHERE user = '%s'", user);
    for (char *at = ids; *at; at += *at == ',') {
        unsigned long id = strtoul(at, &at, 10);
        count += ts_sql_try(mysql, "KILL %s %lu", what, id) == 0;
    }
    free(ids);
    return count;
}

void ledger_is(const char *name, const char *wanted)
{
    char *got = ts_sql_text(mysql,
                            "SELECT GROUP_CONCAT(CONCAT(o.state, ' ', o.attempts)) FROM once_run o"
                            " JOIN resource r ON r.id = o.resource_id WHERE r.resource_name = %s",
                            ts_quote(name));
    assert_string_equal(got, wanted);
    free(got);
}
