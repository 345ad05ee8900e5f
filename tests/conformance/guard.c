/* Sessions of a dead holder: the client that takes the lease over ends the connections that the
 * holder has registered, and gets the lease after their work is undone. */
#include "conformance/clients.h"
#include "rowlock/rowlock_mysql.h"

#define LONG_MS 20000   /* a limit that nothing should reach */
#define HOUR_MS 3600000 /* the TTL of holders that count as dead, so that none is renewed */

static int open_all(void **state)
{
    open_clients(state);
    make_work();
    ts_grant_role(watch, "work");
    ts_sql(watch,
           "INSERT INTO work (who) SELECT 'all' FROM JSON_TABLE(CONCAT('[0',"
           " REPEAT(',0', 19999), ']'), '$[*]' COLUMNS (i INT PATH '$')) AS j"); /* a long undo */
    return 0;
}

/* A registered connection of the job, in a long transaction. */
static MYSQL *begin_work(rowlock_hold *hold)
{
    MYSQL *own = ts_connect_beside();
    static const char at_work[] = "DO SLEEP(600)";
    WANT(OK, rowlock_hold_guard(hold, own, &ts_err));
    ts_sql(own, "START TRANSACTION");
    ts_sql(own, "UPDATE work SET n = n + 1");
    assert_int_equal(mysql_send_query(own, at_work, sizeof at_work - 1), 0);
    return own;
}

/* The work is undone: no row is locked, or changed. */
static void is_undone(MYSQL *own)
{
    assert_int_equal(ts_sql_try(watch, "SELECT n FROM work FOR UPDATE NOWAIT"), 0);
    mysql_free_result(mysql_store_result(watch));
    assert_int_equal(ts_sql_u64(watch, "SELECT SUM(n) FROM work"), 0);
    assert_true(mysql_read_query_result(own) != 0);
    mysql_close(own);
}

/* The session goes on as before. */
static void goes_on(MYSQL *own)
{
    assert_int_equal(ts_sql_u64(own, "SELECT 17"), 17);
    mysql_close(own);
}

static void gets_it(rowlock_client *from, const char *name)
{
    const rowlock_acquire_options options = {.ttl_ms = TS_KEPT_TTL, .wait_ms = LONG_MS};
    rowlock_hold *next = NULL;
    WANT(OK, rowlock_acquire(from, name, &options, &next, &ts_err));
    WANT(OK, rowlock_release(next, &ts_err));
}

static void forget(rowlock_hold *hold)
{
    (void)!rowlock_release(hold, &ts_err);
}

static uint64_t ended_in_history(const char *name)
{
    return ts_sql_u64(
        watch, "SELECT COUNT(*) FROM lock_event WHERE resource_name = %s AND event = 'ended'",
        ts_quote(name));
}

/* By an acquire, after a holder has died, a break, or after the sweeper has freed the lease. */
TS_ONCE(test_work_is_undone_before_another_has_the_lease)
{
    for (int how = 0; how < 3; how++) {
        const char *name = ts_name("undone");
        rowlock_hold *hold = ts_take(client, name, ROWLOCK_OPTIMISTIC, HOUR_MS);
        MYSQL *own = begin_work(hold);
        if (how == 1)
            WANT(OK, ts_break_now(client, name));
        else
            ts_expire(mysql, name, ROWLOCK_OPTIMISTIC);
        if (how == 2 && !ts_via())
            WANT(OK, rowlock_sweep(client, NULL, NULL, &ts_err));
        gets_it(other, name);
        is_undone(own);
        POLL_UNTIL(ended_in_history(name) == 1, LONG_MS);
        forget(hold);
    }
}

/* Other calls that want the lease end the session, too. */
TS_ONCE(test_work_is_undone_before_readers_sets_and_sections)
{
    const rowlock_acquire_options shared = {
        .ttl_ms = TS_KEPT_TTL, .wait_ms = LONG_MS, .shared = true};
    const rowlock_acquire_options alone = {.ttl_ms = TS_KEPT_TTL, .wait_ms = LONG_MS};
    const rowlock_acquire_options slot = {.ttl_ms = TS_KEPT_TTL, .wait_ms = LONG_MS, .slots = 1};
    for (int how = 0; how < 4; how++) {
        const char *parent = ts_name("ways");
        char name[300];
        snprintf(name, sizeof name, "%s%s", parent, how == 3 ? "#0" : "");
        const char *names[] = {name, ts_name("beside")};
        rowlock_hold *hold = ts_take(client, name, ROWLOCK_OPTIMISTIC, HOUR_MS);
        rowlock_hold *next = NULL;
        MYSQL *own = begin_work(hold);
        ts_expire(mysql, name, ROWLOCK_OPTIMISTIC);
        if (how == 0)
            WANT(OK, rowlock_acquire(other, name, &shared, &next, &ts_err));
        else if (how == 1)
            WANT(OK, rowlock_acquire_set(other, names, 2, &alone, &next, &ts_err));
        else if (how == 3) /* the name had no slots yet */
            WANT(OK, rowlock_acquire(other, parent, &slot, &next, &ts_err));
        else
            WANT(OK, rowlock_section_run(other, name, NULL, ts_no_work, NULL, NULL, &ts_err));
        is_undone(own);
        if (next)
            WANT(OK, rowlock_release(next, &ts_err));
        forget(hold);
    }
}

TS_ONCE(test_a_release_lets_it_go_on)
{
    const char *name = ts_name("released");
    rowlock_hold *hold = ts_take(client, name, ROWLOCK_OPTIMISTIC, HOUR_MS);
    MYSQL *own = ts_connect_beside();
    WANT(OK, rowlock_hold_guard(hold, own, &ts_err));
    WANT(OK, rowlock_hold_guard(hold, own, &ts_err)); /* again */
    WANT(OK, rowlock_release(hold, &ts_err));
    hold = ts_take(other, name, ROWLOCK_OPTIMISTIC, HOUR_MS);
    ts_expire(mysql, name, ROWLOCK_OPTIMISTIC); /* it was not registered with this lease */
    gets_it(client, name);
    goes_on(own);
    forget(hold);
    assert_int_equal(ended_in_history(name), 0);
}

/* A release after a break does not, since the break may have come before the work has ended. */
TS_ONCE(test_a_release_after_a_break_does_not)
{
    const char *name = ts_name("broken");
    rowlock_hold *hold = ts_take(client, name, ROWLOCK_OPTIMISTIC, HOUR_MS);
    MYSQL *own = begin_work(hold);
    WANT(OK, rowlock_break(other, name, NULL, &ts_err));
    WANT(LOST, rowlock_release(hold, &ts_err));
    gets_it(other, name);
    is_undone(own);
}

/* Nor does a release with keep_sessions, of any lease. */
TS_ONCE(test_a_release_keeps_sessions)
{
    const rowlock_release_options keep = {.keep_sessions = true};
    const char *names[] = {ts_name("kept"), ts_name("kept too")};
    rowlock_hold *hold = NULL;
    for (size_t count = 1; count <= 2; count++) {
        WANT(OK, rowlock_acquire_set(client, names, count, NULL, &hold, &ts_err));
        MYSQL *own = begin_work(hold);
        WANT(OK, rowlock_release_with(hold, &keep, &ts_err));
        gets_it(other, names[count - 1]);
        is_undone(own);
        gets_it(other, names[0]);
    }
}

/* A holder that has lost the lease cannot register late. */
TS_ONCE(test_who_has_lost_the_lease_registers_nothing)
{
    const char *name = ts_name("late");
    rowlock_hold *hold = ts_take(client, name, ROWLOCK_OPTIMISTIC, HOUR_MS);
    MYSQL *own = ts_connect_beside();
    ts_expire(mysql, name, ROWLOCK_OPTIMISTIC);
    WANT(LOST, rowlock_hold_guard(hold, own, &ts_err));
    rowlock_hold *next = ts_take(other, name, ROWLOCK_OPTIMISTIC, TS_KEPT_TTL);
    (void)!rowlock_hold_guard(hold, own, &ts_err);
    assert_int_not_equal(rowlock_hold_guard(hold, own, &ts_err), ROWLOCK_OK);
    assert_int_equal(
        ts_sql_u64(watch, "SELECT COUNT(*) FROM resource WHERE resource_name = %s AND guarded > 0",
                   ts_quote(name)),
        0);
    WANT(OK, rowlock_release(next, &ts_err));
    goes_on(own);
    forget(hold);
}

/* Another connection has got its number, but does not have the named lock of that holder's
 * session. */
TS_ONCE(test_a_number_that_was_given_again_is_a_strangers)
{
    const char *name = ts_name("again");
    rowlock_hold *hold = ts_take(client, name, ROWLOCK_OPTIMISTIC, HOUR_MS);
    MYSQL *own = ts_connect_beside();
    MYSQL *stranger = ts_connect_beside();
    WANT(OK, rowlock_hold_guard(hold, own, &ts_err));
    ts_sql(watch, "UPDATE lock_session SET connection_id = %lu WHERE connection_id = %lu",
           mysql_thread_id(stranger), mysql_thread_id(own));
    mysql_close(own);
    ts_expire(mysql, name, ROWLOCK_OPTIMISTIC);
    gets_it(other, name);
    goes_on(stranger);
    forget(hold);
}

/* Another user's session: a client without the right to end it waits, does not get the lease, and
 * says why; and the next one waits, too. */
TS_ONCE(test_who_may_not_end_it_waits_until_it_has_ended)
{
    if (ts_via())
        return;
    const char *name = ts_name("denied");
    const char *user = ts_user("taker", "secret", "SELECT, INSERT, UPDATE, DELETE", ts_schema());
    TS_CLIENT *taker = ts_open_as((rowlock_client_options){.user = user, .password = "secret"});
    rowlock_hold *hold = ts_take(client, name, ROWLOCK_OPTIMISTIC, HOUR_MS);
    rowlock_hold *next = NULL;
    MYSQL *own = ts_connect(ts_schema());
    rowlock_list *list = NULL;
    char sessions[32];
    const rowlock_acquire_options wait = {.ttl_ms = TS_KEPT_TTL, .wait_ms = 1000};
    WANT(OK, rowlock_hold_guard(hold, own, &ts_err));
    snprintf(sessions, sizeof sessions, "%lu", mysql_thread_id(own));
    ts_expire(mysql, name, ROWLOCK_OPTIMISTIC);
    WANT(BUSY, ts_try(taker, name, ROWLOCK_OPTIMISTIC));
    const int64_t strain_ms = ts_strain_ms();
    WANT_TIMEOUT(ROWLOCK_OPTIMISTIC, strain_ms,
                 rowlock_acquire(taker, name, &wait, &next, &ts_err));
    ASSERT_SAYS(sessions, rowlock_acquire(taker, name, &wait, &next, &ts_err));
    WANT(OK, rowlock_list_one(other, name, &list, &ts_err));
    assert_string_equal(rowlock_list_at(list, 0)->sessions, sessions);
    assert_true(rowlock_list_at(list, 0)->token == rowlock_hold_token(hold));
    rowlock_list_free(list);
    TS_WAITER waiter = ts_wait(taker, name, ROWLOCK_OPTIMISTIC, LONG_MS, TS_KEPT_TTL);
    assert_false(ts_waiter_ended(&waiter));
    goes_on(own);
    ts_gets_in(&waiter, rowlock_hold_token(hold), LONG_MS, __FILE__, __LINE__);
    forget(hold);
}

/* A client has told the session to end, and died before it had ended: the next one still waits for
 * it. */
TS_ONCE(test_the_next_one_waits_for_what_another_has_ended)
{
    const char *name = ts_name("killed");
    rowlock_hold *hold = ts_take(client, name, ROWLOCK_OPTIMISTIC, HOUR_MS);
    MYSQL *own = begin_work(hold);
    ts_expire(mysql, name, ROWLOCK_OPTIMISTIC);
    ts_sql(mysql, "KILL %lu", mysql_thread_id(own));
    gets_it(other, name);
    is_undone(own);
    forget(hold);
}

TS_ONCE(test_other_kinds)
{
    const char *names[] = {ts_name("one"), ts_name("two")};
    const rowlock_acquire_options kinds[] = {{.mode = ROWLOCK_PESSIMISTIC, .wait_ms = LONG_MS},
                                             {.shared = true, .wait_ms = LONG_MS},
                                             {.slots = 2, .wait_ms = LONG_MS}};
    MYSQL *own = ts_connect_beside();
    rowlock_hold *hold = NULL;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        hold = ts_take_with(client, ts_name("kind"), kinds[i]);
        WANT(UNSUPPORTED, rowlock_hold_guard(hold, own, &ts_err));
        WANT(OK, rowlock_release(hold, &ts_err));
    }
    WANT(OK, rowlock_acquire_set(client, names, 2, NULL, &hold, &ts_err));
    WANT(OK, rowlock_hold_guard(hold, own, &ts_err));
    WANT(OK, rowlock_release(hold, &ts_err));
    hold = ts_take(client, names[0], ROWLOCK_OPTIMISTIC, HOUR_MS);
    WANT(INVALID, rowlock_hold_guard(hold, NULL, &ts_err));
    WANT(INVALID, rowlock_hold_guard(NULL, own, &ts_err));
    ts_sql(own, "START TRANSACTION");
    WANT(INVALID, rowlock_hold_guard(hold, own, &ts_err));
    ts_sql(own, "ROLLBACK");
    WANT(OK, rowlock_hold_guard(hold, own, &ts_err));
    WANT(OK, rowlock_hold_downgrade(hold, &ts_err));
    WANT(OK, rowlock_release(hold, &ts_err));
    WANT(OK, rowlock_section_run(other, names[0], NULL, ts_no_work, NULL, NULL, &ts_err));
    goes_on(own);
}

/* A name is in use while such a session exists. */
TS_ONCE(test_not_purged_beside_a_session)
{
    if (ts_via())
        return;
    const char *name = ts_name("purged");
    rowlock_hold *hold = ts_take(client, name, ROWLOCK_OPTIMISTIC, HOUR_MS);
    MYSQL *own = ts_connect_beside();
    WANT(OK, rowlock_hold_guard(hold, own, &ts_err));
    WANT(OK, ts_break_now(client, name));
    WANT(BUSY, rowlock_purge(other, name, &ts_err));
    goes_on(own);
    POLL_UNTIL(rowlock_purge(other, name, &ts_err) == ROWLOCK_OK, LONG_MS);
    forget(hold);
}

/* A row of an old holder does not count, and is swept. */
TS_ONCE(test_swept)
{
    if (ts_via())
        return;
    const char *name = ts_name("swept");
    rowlock_hold *hold = ts_take(client, name, ROWLOCK_OPTIMISTIC, HOUR_MS);
    MYSQL *own = ts_connect_beside();
    const uint64_t id = ts_id_of(mysql, name);
    static const char count[] = "SELECT COUNT(*) FROM lock_session WHERE resource_id = %" PRIu64;
    WANT(OK, rowlock_hold_guard(hold, own, &ts_err));
    ts_sql(watch, "UPDATE lock_session SET registered_at = registered_at - INTERVAL 1 DAY");
    WANT(OK, rowlock_sweep(client, NULL, NULL, &ts_err));
    assert_int_equal(ts_sql_u64(watch, count, id), 1);
    WANT(OK, rowlock_release(hold, &ts_err));
    WANT(OK, rowlock_sweep(client, NULL, NULL, &ts_err));
    assert_int_equal(ts_sql_u64(watch, count, id), 0);
    goes_on(own);
}

TS_MAIN("guard", open_all, close_clients)
