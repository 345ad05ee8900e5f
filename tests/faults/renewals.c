/*
 * Renewals of many leases that KILL QUERY stops half-way. MariaDB then ends a scan of JSON_TABLE
 * and answers OK, for an UPDATE and for a SELECT: a lease that was not renewed must not count as
 * renewed, nor one that was not listed as lost.
 */
#include "faults/through.h"
#include "support/named.h"

#define PASSWORD "renewals"

/* Long enough for a storm of a sixth of it, and a machine that stands still for some seconds. */
enum { TTL = TS_KEPT_TTL * 3, LEASES = 600, ROUNDS = 4 };

/* The time that is left for a renewal. */
enum { DUE_MS = TTL * 9 / 10 - TTL / 3 };

static const char *user;
static rowlock_hold *holds[LEASES];
static atomic_int asks_heard[LEASES];

static rowlock_client *open_holder(void)
{
    user = ts_user("renewals", PASSWORD, "SELECT, INSERT, UPDATE, DELETE", ts_schema());
    return ts_open_as(
        (rowlock_client_options){.user = user, .password = PASSWORD, .no_history = true});
}

static void take_all(rowlock_client *client)
{
    char name[32];
    for (int i = 0; i < LEASES; i++) {
        snprintf(name, sizeof name, "many-%04d", i);
        holds[i] = ts_take_with(client, name,
                                (rowlock_acquire_options){.wait_ms = 10000,
                                                          .ttl_ms = TTL,
                                                          .on_ask = ts_count_ask,
                                                          .on_ask_data = &asks_heard[i]});
    }
}

/* A connection that runs a renewal, or the look behind it. (MySQL's performance_schema does not
 * show it.) */
static uint64_t at_work(void)
{
    return ts_sql_u64(mysql,
                      "SELECT COALESCE(MAX(id), 0) FROM information_schema.processlist"
                      " WHERE user = '%s' AND %s",
                      user, ts_named_info("lease_renew lease_renewed"));
}

/* Looks without a pause, since a statement takes some milliseconds. It lasts for less than the time
 * that is left for a renewal. */
static unsigned storm(void)
{
    unsigned stopped = 0;
    for (int64_t over = ts_now_ms() + TTL / 6; ts_now_ms() < over;) {
        uint64_t id = at_work();
        if (id)
            stopped += ts_sql_try(mysql, "KILL QUERY %" PRIu64, id) == 0;
    }
    return stopped;
}

/* No holder's deadline is later than the server's. */
static void expect_no_more_than_granted(void)
{
    int64_t left[LEASES];
    int64_t start = ts_now_ms();
    for (int i = 0; i < LEASES; i++)
        left[i] = rowlock_hold_remaining_ms(holds[i]);
    assert_int_equal(
        0, mysql_query(mysql,
                       "SELECT r.resource_name, TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6),"
                       " GREATEST(r.lease_expires_at, COALESCE(l.expires_at, r.lease_expires_at)))"
                       " DIV 1000 FROM resource r JOIN lease_renewal l ON l.id = r.id"
                       " WHERE r.resource_name LIKE 'many-%' ORDER BY r.resource_name"));
    MYSQL_RES *rows = mysql_store_result(mysql);
    assert_non_null(rows);
    assert_int_equal(mysql_num_rows(rows), LEASES);
    for (int i = 0; i < LEASES; i++) {
        MYSQL_ROW row = mysql_fetch_row(rows);
        int64_t granted = strtoll(row[1], NULL, 10) + (ts_now_ms() - start);
        if (left[i] > granted)
            print_error("%s: believed for %d ms, granted for %d\n", row[0], (int)left[i],
                        (int)granted);
        assert_true(left[i] <= granted);
    }
    mysql_free_result(rows);
}

static bool all_have(int64_t least_ms)
{
    for (int i = 0; i < LEASES; i++)
        if (rowlock_hold_remaining_ms(holds[i]) < least_ms)
            return false;
    return true;
}

/* Asks every third holder, in one statement, since there is no time for many. */
static void ask_some(int round)
{
    ts_sql(mysql,
           "INSERT INTO lock_ask SELECT id, version, %d, 'them', 'them', '', UTC_TIMESTAMP(6),"
           " UTC_TIMESTAMP(6) FROM resource WHERE resource_name LIKE 'many-%%'"
           " AND SUBSTRING(resource_name, 6) %% 3 = 0"
           " ON DUPLICATE KEY UPDATE number = number + 1",
           round + 1);
}

/* Each holder that was asked was told as often as it was asked; no other was. */
static bool all_heard(int times)
{
    for (int i = 0; i < LEASES; i++)
        assert_true(atomic_load(&asks_heard[i]) <= (i % 3 ? 0 : times));
    for (int i = 0; i < LEASES; i += 3)
        if (atomic_load(&asks_heard[i]) < times)
            return false;
    return true;
}

TS_ONCE(test_renewals_are_stopped)
{
    TS_CLIENT *client = open_holder();
    unsigned stopped = 0;
    take_all(client);
    for (int round = 0; round < ROUNDS; round++) {
        assert_true(POLL_UNTIL(!all_have(DUE_MS + 300), 60000));
        ask_some(round);
        stopped += storm();
        expect_no_more_than_granted();
        for (int i = 0; i < LEASES; i++)
            assert_held(holds[i]);
        assert_true(POLL_UNTIL(all_have(DUE_MS + 400), 10000));
        expect_no_more_than_granted();
        assert_true(POLL_UNTIL(all_heard(round + 1), 20000));
    }
    print_message("# %u statements were stopped\n", stopped);
    assert_true(stopped > 0);
    for (int i = 0; i < LEASES; i++)
        WANT(OK, rowlock_release(holds[i], &ts_err));
}

/* A renewal that was stopped gets this answer: the lease would expire at the server, unless it is
 * renewed at once. */
TS_ONCE(test_a_renewal_that_did_nothing)
{
    TS_CLIENT *client = through_open();
    TS_HOLD *hold = ts_take(client, ts_name("did-nothing"), ROWLOCK_OPTIMISTIC, TTL);
    ts_proxy_answer(proxy, 0, "lease_renew", 1000000);
    /* No renewal has an effect, and none fails. */
    assert_true(POLL_UNTIL(rowlock_hold_remaining_ms(hold) < TTL / 3, 2 * TTL));
    ts_proxy_answer(proxy, 0, NULL, 0);
    assert_true(POLL_UNTIL(rowlock_hold_remaining_ms(hold) > DUE_MS, 10000));
    assert_held(hold);
}

TS_MAIN("renewals", through_begin, through_end)
