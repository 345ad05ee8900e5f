/* Freezes: nobody can acquire a frozen name; its holder keeps it. */
#include "conformance/clients.h"
#include "rowlock/rowlock_latch.h"
#include "support/proxy.h"

static rowlock_freeze_options of_name(const char *name)
{
    return (rowlock_freeze_options){.name = name, .reason = "a test"};
}

static void freeze(const char *name)
{
    const rowlock_freeze_options options = of_name(name);
    WANT(OK, rowlock_freeze(other, &options, NULL, &ts_err));
}

static void thaw(const char *name)
{
    const rowlock_freeze_options options = of_name(name);
    WANT(OK, rowlock_thaw(other, &options, &ts_err));
}

/* A call is made again where threads waited for a processor, unless it ended as it should: a server
 * that answers some 25 ms late leaves a wait's outcome open (UNKNOWN), and is asked no longer than
 * that whether the name is frozen (else BUSY, TIMEOUT). */
static rowlock_status acquire(rowlock_client *its, const char *name,
                              const rowlock_acquire_options *options, rowlock_hold **hold,
                              rowlock_error *err)
{
    const int64_t strain_ms = ts_strain_ms();
    const rowlock_status status = rowlock_acquire(its, name, options, hold, err);
    if (status == ROWLOCK_OK || status == ROWLOCK_FROZEN || ts_strain_ms() - strain_ms < 10)
        return status;
    return rowlock_acquire(its, name, options, hold, err);
}

static rowlock_status try_it(rowlock_client *its, const char *name,
                             const rowlock_acquire_options *options)
{
    rowlock_hold *hold = NULL;
    rowlock_status status = acquire(its, name, options, &hold, &ts_err);
    if (status == ROWLOCK_OK)
        WANT(OK, rowlock_release(hold, NULL));
    return status;
}

/* The same with and without a place for the error. */
static rowlock_status refused(rowlock_client *its, const char *name,
                              const rowlock_acquire_options *options)
{
    rowlock_hold *hold = NULL;
    rowlock_status status = acquire(its, name, options, &hold, NULL);
    assert_int_equal(try_it(its, name, options), status);
    return status;
}

TS_BOTH(test_a_holder_goes_on_and_nobody_else_gets_it)
{
    const char *name = ts_name("held");
    const rowlock_acquire_options once = {.mode = mode, .ttl_ms = TS_KEPT_TTL};
    const rowlock_acquire_options soon = {.mode = mode, .ttl_ms = TS_KEPT_TTL, .wait_ms = 300};
    rowlock_freeze_result result;
    rowlock_hold *hold = ts_take(client, name, mode, TS_KEPT_TTL);
    const rowlock_freeze_options options = of_name(name);
    WANT(OK, rowlock_freeze(other, &options, &result, &ts_err));
    assert_int_equal(result.names, 1);
    assert_int_equal(result.held, 1);
    WANT(OK, rowlock_hold_check(hold));
    WANT(FROZEN, refused(other, name, &once));
    WANT(FROZEN, refused(other, name, &soon));
    WANT(OK, rowlock_release(hold, &ts_err));
    WANT(FROZEN, refused(other, name, &once));
    WANT(FROZEN, refused(client, name, &soon));
    thaw(name);
    WANT(OK, try_it(other, name, &once));
}

TS_BOTH(test_the_token_goes_on_rising)
{
    const char *name = ts_name("token");
    rowlock_hold *hold = ts_take(client, name, mode, TS_KEPT_TTL);
    const uint64_t before = rowlock_hold_token(hold);
    WANT(OK, rowlock_release(hold, &ts_err));
    freeze(name);
    const rowlock_acquire_options once = {.mode = mode};
    WANT(FROZEN, try_it(client, name, &once));
    thaw(name);
    hold = ts_take(client, name, mode, TS_KEPT_TTL);
    assert_true(rowlock_hold_token(hold) > before);
    WANT(OK, rowlock_release(hold, &ts_err));
}

/* A dead holder's lease is not taken over either. */
TS_BOTH(test_a_dead_holder_is_not_followed)
{
    const char *name = ts_name("dead");
    const rowlock_acquire_options once = {.mode = mode};
    rowlock_hold *hold = ts_take(client, name, mode, 300000);
    ts_expire(mysql, name, mode);
    freeze(name);
    WANT(FROZEN, try_it(other, name, &once));
    thaw(name);
    WANT(OK, try_it(other, name, &once));
    assert_int_not_equal(rowlock_release(hold, &ts_err), ROWLOCK_OK);
}

TS_ONCE(test_readers)
{
    const char *name = ts_name("readers");
    const rowlock_acquire_options reader = {.shared = true, .ttl_ms = TS_KEPT_TTL};
    const rowlock_acquire_options writer = {.ttl_ms = TS_KEPT_TTL};
    rowlock_hold *hold = NULL;
    WANT(OK, rowlock_acquire(client, name, &reader, &hold, &ts_err));
    freeze(name);
    WANT(FROZEN, try_it(other, name, &reader));
    WANT(FROZEN, try_it(other, name, &writer));
    /* The present reader may become the writer, and a reader again. */
    WANT(OK, rowlock_hold_upgrade(hold, 20000, NULL, &ts_err));
    WANT(OK, rowlock_hold_downgrade(hold, &ts_err));
    WANT(FROZEN, try_it(other, name, &reader));
    WANT(OK, rowlock_release(hold, &ts_err));
    WANT(FROZEN, try_it(other, name, &reader));
    WANT(FROZEN, try_it(other, name, &writer));
    thaw(name);
    WANT(OK, try_it(other, name, &reader));
    WANT(OK, try_it(other, name, &writer));
}

TS_BOTH(test_sets)
{
    const char *names[] = {ts_name("set a"), ts_name("set b")};
    const rowlock_acquire_options options = {.mode = mode, .wait_ms = 20000, .ttl_ms = 30000};
    rowlock_hold *hold = NULL;
    freeze(names[1]);
    WANT(FROZEN, rowlock_acquire_set(client, names, 2, &options, &hold, &ts_err));
    thaw(names[1]);
    WANT(OK, rowlock_acquire_set(client, names, 2, &options, &hold, &ts_err));
    WANT(OK, rowlock_release(hold, &ts_err));
}

TS_BOTH(test_slots)
{
    const char *name = ts_name("slots");
    const rowlock_acquire_options one = {.mode = mode, .slots = 2, .ttl_ms = TS_KEPT_TTL};
    rowlock_acquire_options patient = one;
    patient.wait_ms = 20000;
    rowlock_hold *hold = ts_take_with(client, name, patient);
    freeze(name);
    WANT(FROZEN, try_it(other, name, &one));
    WANT(FROZEN, try_it(client, name, &one));
    WANT(OK, rowlock_release(hold, &ts_err));
    WANT(FROZEN, try_it(client, name, &one));
    thaw(name);
    WANT(OK, try_it(client, name, &one));
}

TS_BOTH(test_a_name_that_is_made_later)
{
    char prefix[ROWLOCK_NAME_MAX];
    const char *name = ts_name("later/x");
    const rowlock_acquire_options once = {.mode = mode};
    snprintf(prefix, sizeof prefix, "%s", name);
    *strrchr(prefix, 'x') = '\0';
    const rowlock_freeze_options options = {.prefix = prefix};
    WANT(OK, rowlock_freeze(other, &options, NULL, &ts_err));
    WANT(FROZEN, try_it(client, name, &once));
    WANT(OK, rowlock_thaw(other, &options, &ts_err));
    WANT(OK, try_it(client, name, &once));
    WANT(NOT_FOUND, rowlock_thaw(other, &options, &ts_err));
}

typedef struct waiting {
    rowlock_client *client;
    const char *name;
    rowlock_mode mode;
    rowlock_status status;
} waiting;

static void *wait_for_it(void *data)
{
    waiting *w = data;
    const rowlock_acquire_options options = {
        .mode = w->mode, .wait_ms = 60000, .ttl_ms = TS_KEPT_TTL};
    w->status = try_it(w->client, w->name, &options);
    return NULL;
}

TS_BOTH(test_a_waiter_gets_it_when_it_is_thawed)
{
    const char *name = ts_name("waits");
    const rowlock_acquire_options raw = {.mode = mode, .unfenced = true};
    pthread_t thread;
    waiting w = {.client = client, .name = name, .mode = mode, .status = ROWLOCK_SERVER};
    rowlock_hold *hold = ts_take(other, name, mode, TS_KEPT_TTL);
    assert_int_equal(pthread_create(&thread, NULL, wait_for_it, &w), 0);
    freeze(name);
    WANT(OK, rowlock_release(hold, &ts_err));
    /* The waiter does not acquire meanwhile, and holds nothing that others need. */
    if (mode == ROWLOCK_PESSIMISTIC)
        assert_true(POLL_UNTIL(try_it(other, name, &raw) == ROWLOCK_OK, 10000));
    ts_pass_ms(300);
    assert_int_equal(
        ts_sql_u64(watch,
                   "SELECT COUNT(*) FROM resource WHERE resource_name = %s AND status = 'held'",
                   ts_quote(name)),
        0);
    thaw(name);
    pthread_join(thread, NULL);
    WANT(OK, w.status);
}

TS_ONCE(test_its_time_is_over_by_the_servers_clock)
{
    const char *name = ts_name("time");
    const rowlock_acquire_options patient = {.wait_ms = 60000};
    const rowlock_freeze_options options = {.name = name, .for_ms = 400};
    WANT(OK, rowlock_freeze(other, &options, NULL, &ts_err));
    WANT(OK, try_it(client, name, &patient));
    WANT(NOT_FOUND, rowlock_thaw(other, &options, &ts_err));
}

TS_ONCE(test_what_is_listed)
{
    const char *name = ts_name("listed");
    const rowlock_freeze_options options = {
        .name = name, .reason = "why", .until_us = INT64_C(4102444800000000)};
    rowlock_freezes *freezes = NULL;
    rowlock_list *list = NULL;
    WANT(OK, ts_try(client, name, ROWLOCK_OPTIMISTIC));
    WANT(OK, rowlock_freeze(other, &options, NULL, &ts_err));
    WANT(OK, rowlock_freezes_get(client, &freezes, &ts_err));
    const rowlock_frozen *found = NULL;
    for (size_t i = 0; i < rowlock_freezes_count(freezes); i++)
        if (strcmp(rowlock_freezes_at(freezes, i)->text, name) == 0)
            found = rowlock_freezes_at(freezes, i);
    assert_non_null(found);
    assert_false(found->is_prefix);
    assert_string_equal(found->reason, "why");
    assert_memory_equal(found->until_at, "2100-01-01 00:00:00", 19);
    assert_true(found->left_ms > 0);
    rowlock_freezes_free(freezes);
    WANT(OK, rowlock_list_one(client, name, &list, &ts_err));
    assert_memory_equal(rowlock_list_at(list, 0)->frozen_until, "2100-01-01", 10);
    assert_string_equal(rowlock_list_at(list, 0)->frozen_why, "why");
    rowlock_list_free(list);
    thaw(name);
    WANT(INVALID, rowlock_freeze(other, NULL, NULL, &ts_err));
    WANT(INVALID, rowlock_freeze(other, &(rowlock_freeze_options){.name = name, .prefix = name},
                                 NULL, &ts_err));
    WANT(INVALID, rowlock_freeze(other, &(rowlock_freeze_options){.name = name, .for_ms = -1}, NULL,
                                 &ts_err));
    WANT(INVALID,
         rowlock_freeze(other, &(rowlock_freeze_options){.name = name, .for_ms = 1, .until_us = 1},
                        NULL, &ts_err));
    assert_null(rowlock_freezes_at(NULL, 0));
}

static void open_fence(const char *name)
{
    ts_sql(watch,
           "SET TRANSACTION ISOLATION LEVEL READ COMMITTED"); /* no gap locked for new names */
    ts_sql(watch, "BEGIN");
    ts_sql(watch, "UPDATE resource SET fence_count = fence_count + 1 WHERE resource_name = %s",
           ts_quote(name));
}

static void *freeze_it(void *data)
{
    waiting *w = data;
    const rowlock_freeze_options options = of_name(w->name);
    w->status = rowlock_freeze(other, &options, NULL, NULL);
    return NULL;
}

TS_ONCE(test_a_freeze_that_waits_lets_names_be_made)
{
    const char *name = ts_name("waits for a fence");
    const rowlock_acquire_options soon = {.wait_ms = 5000};
    pthread_t thread;
    waiting w = {.name = name, .status = ROWLOCK_SERVER};
    WANT(OK, ts_try(client, name, ROWLOCK_OPTIMISTIC));
    open_fence(name);
    assert_int_equal(pthread_create(&thread, NULL, freeze_it, &w), 0);
    assert_int_not_equal(ts_row_waits(mysql, "resource", 5000), 0);
    WANT(OK, try_it(client, ts_name("new meanwhile"), &soon));
    ts_sql(watch, "ROLLBACK");
    pthread_join(thread, NULL);
    WANT(OK, w.status);
    thaw(name);
}

/* Nor does a freeze wait for a fence of an unrelated name. */
TS_ONCE(test_a_fence_of_a_frozen_name_does_not_stop_other_freezes)
{
    char prefix[ROWLOCK_NAME_MAX];
    const char *name = ts_name("fenced/x");
    const char *elsewhere = ts_name("elsewhere");
    snprintf(prefix, sizeof prefix, "%s", name);
    *strrchr(prefix, 'x') = '\0';
    const rowlock_freeze_options all = {.prefix = prefix};
    WANT(OK, ts_try(client, name, ROWLOCK_OPTIMISTIC));
    WANT(OK, ts_try(client, elsewhere, ROWLOCK_OPTIMISTIC));
    WANT(OK, rowlock_freeze(other, &all, NULL, &ts_err));
    open_fence(name);
    freeze(elsewhere);
    thaw(elsewhere);
    ts_sql(watch, "ROLLBACK");
    WANT(OK, rowlock_thaw(other, &all, &ts_err));
}

/* The server works on them longer than a try may wait. */
TS_ONCE(test_fifty_thousand_names)
{
    const rowlock_freeze_options all = {.prefix = ""};
    const rowlock_acquire_options once = {.mode = ROWLOCK_OPTIMISTIC};
    rowlock_freeze_result result;
    ts_sql(mysql, "INSERT INTO resource (resource_name, kind, version, update_time) "
                  "WITH RECURSIVE d AS (SELECT 0 AS n UNION ALL SELECT n + 1 FROM d WHERE n < 249) "
                  "SELECT CONCAT('many/', a.n, '-', b.n), 'optimistic', 0, UTC_TIMESTAMP(6) "
                  "FROM d a JOIN d b ON b.n < 200");
    WANT(OK, rowlock_freeze(other, &all, &result, &ts_err));
    assert_true(result.names >= 50000);
    WANT(FROZEN, try_it(client, "many/249-199", &once));
    WANT(OK, rowlock_thaw(other, &all, &ts_err));
    WANT(OK, try_it(client, "many/249-199", &once));
    ts_sql(mysql, "DELETE FROM resource WHERE resource_name LIKE 'many/%%'");
}

/* It is frozen between the look and the swap. */
TS_ONCE(test_a_dead_holder_is_not_followed_by_one_who_has_looked)
{
    const char *name = ts_name("looked");
    pthread_t thread;
    TS_PROXY *proxy = ts_proxy_start(ts_socket());
    TS_CLIENT *through = ts_open_as((rowlock_client_options){.socket = ts_proxy_socket(proxy)});
    waiting w = {
        .client = through, .name = name, .mode = ROWLOCK_OPTIMISTIC, .status = ROWLOCK_SERVER};
    rowlock_hold *hold = ts_take(other, name, ROWLOCK_OPTIMISTIC, 300000);
    const uint64_t token = rowlock_hold_token(hold);
    ts_expire(mysql, name, ROWLOCK_OPTIMISTIC);
    ts_proxy_arm(proxy, TS_DELAY_COMMAND, "lease_take_over", 1, false);
    assert_int_equal(pthread_create(&thread, NULL, wait_for_it, &w), 0);
    assert_true(POLL_UNTIL(ts_proxy_fired(proxy), 20000));
    ts_sql(watch, "UPDATE resource SET frozen_until = '9999-12-31' WHERE resource_name = %s",
           ts_quote(name));
    ts_proxy_flow(proxy);
    ts_pass_ms(300);
    assert_int_equal(
        ts_sql_u64(mysql, "SELECT version FROM resource WHERE resource_name = %s", ts_quote(name)),
        token);
    ts_sql(mysql, "UPDATE resource SET frozen_until = NULL WHERE resource_name = %s",
           ts_quote(name));
    /* The waiter may have it by now. */
    const rowlock_status released = rowlock_release(hold, NULL);
    assert_true(released == ROWLOCK_OK || released == ROWLOCK_LOST);
    pthread_join(thread, NULL);
    WANT(OK, w.status);
}

TS_ONCE(test_blanks_at_the_end_of_a_pattern_count)
{
    char one[ROWLOCK_NAME_MAX];
    char other_one[ROWLOCK_NAME_MAX + 1];
    snprintf(one, sizeof one, "%s", ts_name("blanks"));
    snprintf(other_one, sizeof other_one, "%s ", one);
    const rowlock_freeze_options short_one = {.prefix = one};
    const rowlock_freeze_options long_one = {.prefix = other_one, .for_ms = 3600000};
    const rowlock_acquire_options once = {.mode = ROWLOCK_OPTIMISTIC};
    WANT(OK, rowlock_freeze(other, &short_one, NULL, &ts_err));
    WANT(OK, rowlock_freeze(other, &long_one, NULL, &ts_err));
    WANT(OK, rowlock_thaw(other, &long_one, &ts_err));
    WANT(FROZEN, try_it(client, one, &once));
    WANT(OK, rowlock_thaw(other, &short_one, &ts_err));
    WANT(OK, try_it(client, one, &once));
}

TS_ONCE(test_a_time_that_is_past)
{
    const char *name = ts_name("past");
    const rowlock_freeze_options options = {.name = name, .until_us = INT64_C(978307200000000)};
    freeze(name);
    WANT(INVALID, rowlock_freeze(other, &options, NULL, &ts_err));
    assert_non_null(strstr(ts_err.message, "past"));
    WANT(FROZEN, ts_try(client, name, ROWLOCK_OPTIMISTIC));
    thaw(name);
}

/* A freeze has it locked until the pattern and the rows are written. */
TS_ONCE(test_a_name_that_is_made_waits_for_a_freeze_in_the_middle)
{
    const char *name = ts_name("in the middle");
    ts_sql(watch, "BEGIN");
    ts_sql(watch, "SELECT id FROM lock_freeze WHERE id = 1 FOR UPDATE");
    const rowlock_acquire_options soon = {.wait_ms = 1000};
    WANT(TIMEOUT, try_it(client, name, &soon));
    ts_sql(watch, "ROLLBACK");
    WANT(OK, ts_try(client, name, ROWLOCK_OPTIMISTIC));
    ts_sql(watch, "BEGIN");
    ts_sql(watch, "UPDATE lock_freeze SET id = 1000000 WHERE id = 1");
    ts_sql(watch, "COMMIT");
    assert_int_not_equal(ts_try(client, ts_name("without the row"), ROWLOCK_OPTIMISTIC),
                         ROWLOCK_OK);
    WANT(DAMAGED, rowlock_freeze(other, &(rowlock_freeze_options){.name = name}, NULL, &ts_err));
    ts_sql(watch, "UPDATE lock_freeze SET id = 1 WHERE id = 1000000");
}

/* Nobody holds it; in a list it is not shown as frozen. */
TS_ONCE(test_a_latch_that_is_made_later_is_not_frozen)
{
    const char *name = ts_name("latch");
    rowlock_list *list = NULL;
    freeze(name);
    WANT(OK, rowlock_latch_set(client, name, 1, NULL, &ts_err));
    WANT(OK, rowlock_list_one(client, name, &list, &ts_err));
    assert_string_equal(rowlock_list_at(list, 0)->frozen_until, "");
    rowlock_list_free(list);
    thaw(name);
}

TS_ONCE(test_a_section_finds_it_busy)
{
    const char *name = ts_name("section");
    uint64_t version = 0;
    freeze(name);
    WANT(BUSY, rowlock_version_read(client, name, &version, &ts_err));
    assert_non_null(strstr(ts_err.message, "frozen"));
    thaw(name);
    WANT(OK, rowlock_version_read(client, name, &version, &ts_err));
}

TS_MAIN("freeze", open_clients, close_clients)
