/* The members of a quorum: their list, and those that may have forgotten leases. */
#include "conformance/quorum_frame.h"

/* --------------------------------------------------------- rule 1: the list of members */

TS_ONCE(test_what_is_no_list)
{
    rowlock_client *none = NULL;
    rowlock_client_options options = options_of(NULL, 2);
    WANT(INVALID, rowlock_client_open(&options, &none, &ts_err));
    options = options_of((size_t[]){0, 1, 1}, N);
    WANT(INVALID, rowlock_client_open(&options, &none, &ts_err));
    WANT(INVALID, init(&options, TTL_MOST));
    WANT(INVALID, rowlock_quorum_rejoin(&options, ROWLOCK_ALL_MEMBERS, NULL, &ts_err));
    rowlock_quorum *quorum = NULL;
    WANT(OK, rowlock_quorum_get(&options, NULL, &quorum, &ts_err));
    assert_int_equal(rowlock_quorum_voting(quorum), 2); /* the server with two names is one */
    rowlock_quorum_free(quorum);
    options = options_of(NULL, N);
    options.url = urls[0];
    WANT(INVALID, rowlock_client_open(&options, &none, &ts_err));
    options.url = NULL;
    options.via = ROWLOCK_VIA_PROCEDURES;
    WANT(UNSUPPORTED, rowlock_client_open(&options, &none, &ts_err));
    options = options_of((size_t[]){2, 3, 4}, N);
    WANT(SCHEMA, rowlock_client_open(&options, &none, &ts_err));
    WANT(MODE, init(&options, TTL_MOST));
    assert_int_equal(ts_sql_u64(at[3], "SELECT COUNT(*) FROM quorum_member"), 0);
    options = options_of(NULL, N);
    WANT(MODE, init(&options, TTL_MOST + 1000));
    WANT(INVALID, init(&options, ROWLOCK_QUORUM_TTL_MAX_MS + 1));
    WANT(OK, init(&options, TTL_MOST));
    /* Five servers are named, but the quorum has three: its majority is none of five. */
    options = options_of(NULL, ALL);
    WANT(SCHEMA, rowlock_client_open(&options, &none, &ts_err));
}

/* A member that has another list, or is closed, has no vote: it neither gives one, nor renews. */
TS_ONCE(test_the_list_is_in_every_vote)
{
    rowlock_hold *hold = take_at_all(client, "listed");
    for (size_t i = 1; i < N; i++)
        ts_sql(at[i], "UPDATE quorum_member SET state = 'closed'");
    WANT(UNAVAILABLE, ts_try(other, "list", ROWLOCK_OPTIMISTIC));
    assert_true(POLL_UNTIL(rowlock_hold_check(hold) == ROWLOCK_LOST, SOON));
    for (size_t i = 1; i < N; i++)
        ts_sql(at[i], "UPDATE quorum_member SET state = 'voting'");
    WANT(LOST, rowlock_release(hold, &ts_err));
    char *list = ts_sql_text(at[0], "SELECT list FROM quorum_member");
    for (size_t i = 1; i < N; i++)
        ts_sql(at[i], "UPDATE quorum_member SET list = REPEAT('%zu', 32)", i);
    WANT(UNAVAILABLE, ts_try(other, "list", ROWLOCK_OPTIMISTIC));
    for (size_t i = 1; i < N; i++)
        ts_sql(at[i], "UPDATE quorum_member SET list = '%s'", list);
    free(list);
    use("list");
}

/* An init that ended at the second member, or at the last: nobody can tell whether the others had
 * the list, and have forgotten leases. */
TS_ONCE(test_init_that_ends_between_members)
{
    for (size_t last = 1; last < N; last++) {
        const rowlock_client_options options = options_of_second(NULL, N);
        ts_proxy_arm(ts_server_proxy(last), TS_LOSE_COMMAND, "member_add", 1, false);
        WANT(UNAVAILABLE, init(&options, ROWLOCK_QUORUM_TTL_MAX_MS));
        for (size_t i = 0; i < N; i++)
            assert_int_equal(ts_sql_u64(at[i], "SELECT COUNT(*) FROM second.quorum_member"),
                             i < last);
        WANT(OK, init(&options, ROWLOCK_QUORUM_TTL_MAX_MS));
        for (size_t i = 0; i < N; i++)
            assert_int_equal(
                ts_sql_u64(at[i], "SELECT votes_from > UTC_TIMESTAMP(6) FROM second.quorum_member"),
                i >= last);
    }
}

typedef struct writer {
    rowlock_client_options options;
    bool rejoins;
    pthread_t thread;
    rowlock_status status;
    atomic_bool ended;
} writer;

static void *write_list(void *data)
{
    writer *w = data;
    w->status = w->rejoins ? rowlock_quorum_rejoin(&w->options, 0, NULL, NULL)
                           : rowlock_quorum_replace(&w->options, NULL, NULL);
    atomic_store(&w->ended, true);
    return NULL;
}

static void start_writer(writer *w)
{
    w->options.connect_timeout_ms = 60000;
    assert_int_equal(pthread_create(&w->thread, NULL, write_list, w), 0);
}

/* Late writes of a rejoin, and of one of two replaces, change nothing, since another list was
 * written meanwhile. */
TS_ONCE(test_lists_are_written_in_turn)
{
    const size_t first = first_of(2);
    const rowlock_client_options old = options_of_second(NULL, N);
    WANT(OK, init(&old, ROWLOCK_TTL_MIN_MS));
    writer rejoin = {.options = old, .rejoins = true};
    writer replaces[] = {{.options = options_of((size_t[]){0, 1, 3}, N)},
                         {.options = options_of((size_t[]){0, 1, 4}, N)}};
    ts_proxy_arm(ts_server_proxy(0), TS_DELAY_COMMAND, "member_change", 1, false);
    start_writer(&rejoin);
    assert_true(POLL_UNTIL(ts_proxy_fired(ts_server_proxy(0)), SOON));
    ts_proxy_arm(ts_server_proxy(first), TS_DELAY_COMMAND, "member_change", 1, false);
    for (int i = 0; i < 2; i++) {
        replaces[i].options.schema = "second";
        start_writer(&replaces[i]);
    }
    assert_true(
        POLL_UNTIL(atomic_load(&replaces[0].ended) || atomic_load(&replaces[1].ended), SOON));
    ts_proxy_flow(ts_server_proxy(0));
    ts_proxy_flow(ts_server_proxy(first));
    for (int i = 0; i < 2; i++)
        pthread_join(replaces[i].thread, NULL);
    pthread_join(rejoin.thread, NULL);
    WANT(MODE, rejoin.status);
    const size_t won = replaces[1].status == ROWLOCK_OK;
    WANT(OK, replaces[won].status);
    WANT(MODE, replaces[!won].status);
    char *list = ts_sql_text(at[3 + won], "SELECT list FROM second.quorum_member");
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(ts_sql_u64(at[i],
                                    "SELECT COUNT(*) FROM second.quorum_member WHERE list = '%s'"
                                    " AND state = 'voting'",
                                    list),
                         1);
    free(list);
    assert_int_equal(ts_sql_u64(at[3 + !won], "SELECT COUNT(*) FROM second.quorum_member"), 0);
}

/* A quicker call writes its list, when both have closed the old one. */
static void *give_another_list(void *unused)
{
    (void)unused;
    for (size_t i = 0; i < 2; i++) {
        MYSQL *mysql = ts_server_connect(i);
        (void)POLL_UNTIL(
            ts_sql_u64(mysql, "SELECT state = 'closed' FROM second.quorum_member") == 1, SOON);
        ts_sql(mysql, "UPDATE second.quorum_member SET list = REPEAT('a', 32), state = 'voting'");
        mysql_close(mysql);
    }
    return NULL;
}

/* Each call continues where the last one ended. */
TS_ONCE(test_a_replace_that_ends_half_way)
{
    const size_t first = first_of(2);
    pthread_t quicker;
    const rowlock_client_options old = options_of_second(NULL, N);
    WANT(OK, init(&old, ROWLOCK_TTL_MIN_MS));
    rowlock_client_options options = options_of((size_t[]){0, 1, 3}, N);
    options.schema = "second";
    char *list = ts_sql_text(at[0], "SELECT list FROM second.quorum_member");
    assert_int_equal(pthread_create(&quicker, NULL, give_another_list, NULL), 0);
    WANT(UNAVAILABLE, rowlock_quorum_replace(&options, NULL, &ts_err));
    pthread_join(quicker, NULL);
    assert_int_equal(ts_sql_u64(at[3], "SELECT COUNT(*) FROM second.quorum_member"), 0);
    for (size_t i = 0; i < 2; i++)
        ts_sql(at[i], "UPDATE second.quorum_member SET list = '%s', state = 'closed'", list);
    free(list);
    /* One of two old members has the new list; then both have, but not the new member. */
    ts_proxy_arm(ts_server_proxy(!first), TS_LOSE_COMMAND, "member_change", 1, false);
    WANT(UNAVAILABLE, rowlock_quorum_replace(&options, NULL, &ts_err));
    assert_int_equal(ts_sql_u64(at[first], "SELECT number FROM second.quorum_member"), 2);
    assert_int_equal(ts_sql_u64(at[!first], "SELECT number FROM second.quorum_member"), 1);
    ts_proxy_arm(ts_server_proxy(3), TS_LOSE_COMMAND, "member_add", 1, false);
    WANT(UNAVAILABLE, rowlock_quorum_replace(&options, NULL, &ts_err));
    assert_int_equal(ts_sql_u64(at[!first], "SELECT number FROM second.quorum_member"), 2);
    WANT(OK, rowlock_quorum_replace(&options, NULL, &ts_err));
    assert_int_equal(ts_sql_u64(at[3], "SELECT number FROM second.quorum_member"), 2);
    assert_int_equal(ts_sql_u64(at[2], "SELECT number FROM second.quorum_member"), 1);
}

/* ------------------------------------------------- rule 7: members that may have forgotten */

TS_ONCE(test_a_long_ttl)
{
    rowlock_hold *hold = NULL;
    WANT(INVALID, rowlock_acquire(client, "long", &(rowlock_acquire_options){.ttl_ms = 300001},
                                  &hold, &ts_err));
    WANT(INVALID,
         rowlock_acquire(client, "long", &(rowlock_acquire_options){.ttl_ms = TTL_MOST + 1}, &hold,
                         &ts_err));
    assert_int_equal(
        ts_sql_u64(at[0], "SELECT COUNT(*) FROM resource WHERE resource_name = 'long'"), 0);
}

TS_ONCE(test_a_member_abstains_after_its_start)
{
    rowlock_hold *hold = take_at_all(client, "abstains");
    ts_server_kill(1);
    int64_t start_ms = ts_now_ms();
    ts_server_start(1, "--innodb-flush-log-at-trx-commit=2");
    reconnect(1);
    const rowlock_member_state state = state_of(1);
    cut_off(2);
    const rowlock_status status = ts_try(other, "while it does", ROWLOCK_OPTIMISTIC);
    let_in(2);
    if (ts_now_ms() - start_ms < TTL_MOST) { /* otherwise it may vote again */
        assert_int_equal(state, ROWLOCK_MEMBER_ABSTAINING);
        WANT(UNAVAILABLE, status);
    }
    assert_true(POLL_UNTIL(state_of(1) == ROWLOCK_MEMBER_VOTING, SOON));
    assert_true(ts_now_ms() - start_ms > TTL_MOST - 1000);
    assert_held(hold);
    assert_true(POLL_UNTIL(rowlock_hold_members(hold) == N, SOON));
    give_back(hold);
    /* With a binary log, recovery undoes transactions that the log has lost. */
    ts_server_kill(1);
    start_ms = ts_now_ms();
    ts_server_start(1, "--log-bin=binlog");
    reconnect(1);
    ts_sql(at[1], "SET GLOBAL innodb_flush_log_at_trx_commit = 1");
    ts_sql(at[1], "SET GLOBAL sync_binlog = 0");
    const rowlock_member_state unsynced = state_of(1);
    if (ts_now_ms() - start_ms < TTL_MOST)
        assert_int_equal(unsynced, ROWLOCK_MEMBER_ABSTAINING);
    ts_sql(at[1], "SET GLOBAL sync_binlog = 1");
    assert_int_equal(state_of(1), ROWLOCK_MEMBER_VOTING);
    ts_server_kill(1);
    ts_server_start(1, "");
    reconnect(1);
}

/* Its data is gone: without a floor it would give an old token again. */
TS_ONCE(test_a_member_rejoins)
{
    const rowlock_client_options options = options_of(NULL, N);
    use("rejoins");
    set_versions("rejoins", 10, 10, 10);
    cut_off(2);
    rowlock_hold *hold = ts_take(client, "rejoins", ROWLOCK_OPTIMISTIC, TS_KEPT_TTL);
    const uint64_t token = rowlock_hold_token(hold);
    give_back(hold);
    let_in(2);
    use("rejoins too");
    ts_sql(at[0], "DROP SCHEMA rowlock");
    assert_int_equal(state_of(0), ROWLOCK_MEMBER_NONE);
    /* Other members that could rejoin would be brought back, too. */
    WANT(OK, rowlock_quorum_rejoin(&options, ROWLOCK_ALL_MEMBERS, NULL, &ts_err));
    WANT(SCHEMA, rowlock_quorum_rejoin(&options, 0, NULL, &ts_err));
    ts_server_schema(0);
    reconnect(0);
    assert_int_equal(state_of(0), ROWLOCK_MEMBER_NONE);
    /* A newer program's data there is unknown. */
    ts_sql(at[0], "INSERT INTO rowlock_schema_version "
                  "(version, name, checksum, breaking, steps, applied_by, started_at, applied_at) "
                  "SELECT 1000000, 'newer', '', 1, 0, '', UTC_TIMESTAMP(6), UTC_TIMESTAMP(6)");
    assert_int_equal(state_of(0), ROWLOCK_MEMBER_AWAY);
    ts_sql(at[0], "DELETE FROM rowlock_schema_version WHERE version = 1000000");
    /* Its vote would be the second one. */
    cut_off(2);
    WANT(UNAVAILABLE, ts_try(client, "rejoins", ROWLOCK_OPTIMISTIC));
    /* Too few members could tell what it has forgotten. */
    WANT(UNAVAILABLE, rowlock_quorum_rejoin(&options, ROWLOCK_ALL_MEMBERS, NULL, &ts_err));
    let_in(2);
    WANT(INVALID, rowlock_quorum_rejoin(&options, N, NULL, &ts_err));
    WANT(OK, rowlock_quorum_rejoin(&options, ROWLOCK_ALL_MEMBERS, NULL, &ts_err));
    assert_int_equal(state_of(0), ROWLOCK_MEMBER_ABSTAINING);
    assert_true(ts_sql_u64(at[0], "SELECT version FROM version_floor") >= token);
    assert_true(POLL_UNTIL(state_of(0) == ROWLOCK_MEMBER_VOTING, SOON));
    cut_off(1);
    assert_true(POLL_UNTIL(ts_try(client, "rejoins", ROWLOCK_OPTIMISTIC) == ROWLOCK_OK, SOON));
    hold = ts_take(client, "rejoins", ROWLOCK_OPTIMISTIC, TS_KEPT_TTL);
    assert_true(rowlock_hold_token(hold) > token);
    give_back(hold);
    let_in(1);
    give_back(take_at_all(client, "rejoins"));
}

/* Half of an init, or a majority that has lost its data: nobody can tell which. */
TS_ONCE(test_init_where_some_have_forgotten)
{
    const rowlock_client_options options = options_of(NULL, N);
    rowlock_hold *hold = take_at_all(client, "forgotten");
    const uint64_t token = rowlock_hold_token(hold);
    for (size_t i = 1; i < N; i++) {
        ts_sql(at[i], "DELETE FROM quorum_member");
        ts_sql(at[i], "DELETE FROM resource WHERE kind = 'quorum'");
    }
    WANT(NOT_FOUND, rowlock_quorum_rejoin(&options, ROWLOCK_ALL_MEMBERS, NULL, &ts_err));
    WANT(OK, init(&options, TTL_MOST));
    /* BUSY if the member that has it answers first. */
    const rowlock_status early = ts_try(other, "forgotten", ROWLOCK_OPTIMISTIC);
    assert_true(early == ROWLOCK_UNAVAILABLE || early == ROWLOCK_BUSY);
    assert_true(POLL_UNTIL(rowlock_hold_check(hold) == ROWLOCK_LOST, SOON));
    WANT(LOST, rowlock_release(hold, &ts_err));
    for (size_t i = 1; i < N; i++) {
        assert_true(ts_sql_u64(at[i], "SELECT version FROM version_floor") >= token);
        assert_true(POLL_UNTIL(state_of(i) == ROWLOCK_MEMBER_VOTING, SOON));
    }
    hold = take_at_all(other, "forgotten");
    assert_true(rowlock_hold_token(hold) > token);
    give_back(hold);
    WANT(OK, init(&options, TTL_MOST));
    assert_int_equal(state_of(1), ROWLOCK_MEMBER_VOTING);
}

/* A name that is being made has read the floor before it was raised. */
static void *rejoin_second(void *unused)
{
    const rowlock_client_options options = options_of(NULL, N);
    static rowlock_status status;
    const int64_t end_ms = ts_now_ms() + 30000;
    (void)unused;
    do /* the server waits for a row for a second; the test may stand still for longer */
        status = rowlock_quorum_rejoin(&options, 1, NULL, NULL);
    while (status == ROWLOCK_BUSY && ts_now_ms() < end_ms);
    return &status;
}

TS_ONCE(test_a_name_that_is_made_while_its_member_rejoins)
{
    pthread_t rejoiner;
    void *status = NULL;
    use("made before");
    set_versions("made before", 70, 70, 70);
    MYSQL *maker = ts_server_connect(1);
    ts_sql(maker, "BEGIN");
    ts_sql(maker, "INSERT INTO resource (resource_name, kind, version, update_time)"
                  " SELECT 'being made', 'quorum', 0, UTC_TIMESTAMP(6) FROM lock_freeze"
                  " WHERE id = 1 LOCK IN SHARE MODE");
    assert_int_equal(pthread_create(&rejoiner, NULL, rejoin_second, NULL), 0);
    assert_true(POLL_UNTIL(ts_sql_u64(at[1], "SELECT version FROM version_floor") >= 70, SOON));
    ts_pass_ms(200);
    ts_sql(maker, "COMMIT");
    mysql_close(maker);
    assert_int_equal(pthread_join(rejoiner, &status), 0);
    assert_int_equal(*(rowlock_status *)status, ROWLOCK_OK);
    assert_true(version_at(1, "being made") >= 70);
    /* Others see that it abstains. */
    ts_sql(at[1], "UPDATE quorum_member SET votes_from = UTC_TIMESTAMP(6)");
    assert_int_equal(state_of(1), ROWLOCK_MEMBER_VOTING);
}

/* ------------------------------------------ rule 1 again: another member. The last test */

static void *fire_when_closed(void *cancel)
{
    MYSQL *mysql = ts_server_connect(1);
    (void)POLL_UNTIL(ts_sql_u64(mysql, "SELECT state = 'closed' FROM quorum_member") == 1, SOON);
    mysql_close(mysql);
    rowlock_cancel_fire(cancel);
    return NULL;
}

TS_ONCE(test_a_member_is_replaced)
{
    rowlock_hold *hold = take_at_all(client, "replaced");
    const uint64_t token = rowlock_hold_token(hold);
    const rowlock_client_options none = options_of((size_t[]){0, 3, 4}, N);
    WANT(NOT_FOUND, rowlock_quorum_replace(&none, NULL, &ts_err));
    const rowlock_client_options options = options_of((size_t[]){0, 1, 3}, N);
    TS_CANCEL *cancel = NULL;
    WANT(OK, rowlock_cancel_new(&cancel, &ts_err));
    rowlock_cancel_fire(cancel);
    WANT(CANCELLED,
         rowlock_quorum_replace(&options, &(rowlock_quorum_options){.cancel = cancel}, &ts_err));
    assert_held(hold);
    /* If it is interrupted, the list stays closed, and the next call finishes. */
    pthread_t interrupter;
    rowlock_cancel_reset(cancel);
    assert_int_equal(pthread_create(&interrupter, NULL, fire_when_closed, cancel), 0);
    WANT(CANCELLED,
         rowlock_quorum_replace(&options, &(rowlock_quorum_options){.cancel = cancel}, &ts_err));
    pthread_join(interrupter, NULL);
    assert_int_equal(state_of(0), ROWLOCK_MEMBER_CLOSED);
    WANT(UNAVAILABLE, ts_try(other, "while it is closed", ROWLOCK_OPTIMISTIC));
    /* Nor does the old list get its majority back: members with the next list may have one. */
    const rowlock_client_options before = options_of(NULL, N);
    WANT(UNAVAILABLE, rowlock_quorum_rejoin(&before, 1, NULL, &ts_err));
    assert_int_equal(state_of(1), ROWLOCK_MEMBER_CLOSED);
    int64_t start_ms = ts_now_ms();
    WANT(OK, rowlock_quorum_replace(&options, NULL, &ts_err));
    assert_true(ts_now_ms() - start_ms >= TTL_MOST);
    WANT(LOST, rowlock_release(hold, &ts_err));
    /* The old list has no majority any more: only its third member has it. */
    const rowlock_client_options old = options_of((size_t[]){2, 1, 0}, N);
    rowlock_client *changed = open_with(&old);
    rowlock_client *now = open_with(&options);
    hold = ts_take(now, "replaced", ROWLOCK_OPTIMISTIC, TS_KEPT_TTL);
    assert_true(rowlock_hold_token(hold) > token);
    assert_true(POLL_UNTIL(rowlock_hold_members(hold) == N, SOON));
    WANT(BUSY, try_it(changed, "replaced"));
    give_back(hold);
    assert_int_equal(ts_sql_u64(at[3], "SELECT version FROM version_floor") >= token, 1);
    hold = ts_take(changed, "replaced", ROWLOCK_OPTIMISTIC, TS_KEPT_TTL);
    assert_int_equal(rowlock_hold_members(hold), N - 1);
    give_back(hold);
    WANT(OK, rowlock_quorum_replace(&options, NULL, &ts_err));
    rowlock_client_close(changed);
    rowlock_client_close(now);
}

int main(void)
{
    return ts_run_each("quorum_members", NULL, ts_servers_flow, begin, end);
}
