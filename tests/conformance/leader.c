/* Leaders: a lease's holder publishes a value, and others read it. */
#include "rowlock/rowlock_leader.h"

#include "conformance/clients.h"
#include "support/named.h"

static rowlock_leader leader;

static rowlock_hold *lead(rowlock_client *from, const char *name, const char *value)
{
    return ts_take_with(from, name,
                        (rowlock_acquire_options){.ttl_ms = TS_KEPT_TTL, .value = value});
}

static const rowlock_leader *look(const char *name)
{
    memset(&leader, 0xff, sizeof leader);
    WANT(OK, rowlock_observe(other, name, NULL, &leader, &ts_err));
    return &leader;
}

static bool is_led_with(const char *name, const char *value)
{
    return look(name)->leads && strcmp(leader.value, value) == 0;
}

static void nobody_leads(const char *name)
{
    assert_false(look(name)->leads);
    assert_int_equal(leader.token, 0);
    assert_string_equal(leader.value, "");
    assert_string_equal(leader.owner_label, "");
}

/* A leader from its acquire to its release, with a second value; then another leader. */
TS_ONCE(test_leads)
{
    const char *name = ts_name("leads");
    WANT(NOT_FOUND, rowlock_observe(other, name, NULL, &leader, &ts_err));
    rowlock_hold *hold = lead(client, name, "db1:3306");
    assert_true(is_led_with(name, "db1:3306"));
    assert_true(leader.token == rowlock_hold_token(hold));
    assert_true(strlen(leader.owner_label) > 0);
    assert_between(0, leader.held_ms, 2000);
    assert_between(1, leader.remaining_ms, TS_KEPT_TTL);
    WANT(OK, rowlock_hold_set_value(hold, "db2", &ts_err));
    assert_true(is_led_with(name, "db2"));
    assert_true(leader.token == rowlock_hold_token(hold));
    const uint64_t first = leader.token;
    WANT(OK, rowlock_release(hold, &ts_err));
    nobody_leads(name);
    hold = lead(other, name, "db3");
    assert_true(is_led_with(name, "db3"));
    assert_true(leader.token > first);
    WANT(OK, rowlock_release(hold, &ts_err));
}

/* A holder without a value does not lead; one that withdraws its value leads no more. */
TS_ONCE(test_without_a_value)
{
    const char *name = ts_name("plain");
    rowlock_hold *hold = lead(client, name, "was here");
    WANT(OK, rowlock_release(hold, &ts_err));
    hold = lead(client, name, NULL);
    nobody_leads(name);
    WANT(OK, rowlock_hold_set_value(hold, "late", &ts_err));
    assert_true(is_led_with(name, "late"));
    WANT(OK, rowlock_hold_set_value(hold, NULL, &ts_err));
    nobody_leads(name);
    WANT(OK, rowlock_hold_set_value(hold, "again", &ts_err));
    WANT(OK, rowlock_hold_set_value(hold, "", &ts_err));
    nobody_leads(name);
    WANT(OK, rowlock_release(hold, &ts_err));
    hold = lead(client, name, "");
    nobody_leads(name);
    WANT(OK, rowlock_release(hold, &ts_err));
}

/* It leads for longer than its TTL: the renewal counts. */
TS_ONCE(test_leads_on)
{
    const char *name = ts_name("on");
    rowlock_hold *hold = lead(client, name, "on");
    for (int64_t end = ts_now_ms() + TS_KEPT_FOR; ts_now_ms() < end; ts_pass_ms(50)) {
        assert_held(hold);
        assert_true(is_led_with(name, "on"));
    }
    WANT(OK, rowlock_release(hold, &ts_err));
}

/*
 * An expired holder does not lead, by the server's clock, before anybody has taken over; and it
 * publishes nothing.
 */
TS_ONCE(test_its_time_is_over)
{
    const char *name = ts_name("over");
    const rowlock_acquire_options unrenewed = {.ttl_ms = 300000, .value = "old"};
    rowlock_hold *hold = ts_take_with(client, name, unrenewed);
    ts_expire(mysql, name, ROWLOCK_OPTIMISTIC);
    nobody_leads(name);
    rowlock_hold *next = lead(other, name, "new");
    WANT(LOST, rowlock_hold_set_value(hold, "old again", &ts_err));
    assert_true(is_led_with(name, "new"));
    assert_true(leader.token == rowlock_hold_token(next));
    (void)!rowlock_release(hold, &ts_err);
    assert_true(is_led_with(name, "new"));
    WANT(OK, rowlock_release(next, &ts_err));
}

TS_ONCE(test_broken)
{
    const char *name = ts_name("broken");
    rowlock_hold *hold = lead(client, name, "x");
    WANT(OK, ts_break_now(client, name));
    nobody_leads(name);
    WANT(LOST, rowlock_hold_set_value(hold, "y", &ts_err));
    nobody_leads(name);
    (void)!rowlock_release(hold, &ts_err);
}

/* A reader does not lead; as a writer again, it publishes again. */
TS_ONCE(test_downgraded)
{
    const char *name = ts_name("down");
    rowlock_hold *hold = lead(client, name, "x");
    WANT(OK, rowlock_hold_downgrade(hold, &ts_err));
    nobody_leads(name);
    WANT(INVALID, rowlock_hold_set_value(hold, "y", &ts_err));
    WANT(OK, rowlock_hold_upgrade(hold, 20000, NULL, &ts_err));
    nobody_leads(name);
    WANT(OK, rowlock_hold_set_value(hold, "z", &ts_err));
    assert_true(is_led_with(name, "z"));
    WANT(OK, rowlock_release(hold, &ts_err));
}

/* A late value of an earlier lease does not replace a later one. */
TS_ONCE(test_a_late_value)
{
    const char *name = ts_name("late");
    rowlock_hold *hold = lead(client, name, "one");
    WANT(OK, rowlock_release(hold, &ts_err));
    hold = lead(client, name, "two");
    const uint64_t id = ts_id_of(mysql, name);
    ts_sql(mysql,
           "UPDATE lock_value SET version = %" PRIu64
           ", value = 'one' WHERE resource_id = %" PRIu64,
           rowlock_hold_token(hold) - 1, id);
    nobody_leads(name);
    ts_sql(mysql,
           "UPDATE lock_value SET version = %" PRIu64
           ", value = 'three' WHERE resource_id = %" PRIu64,
           rowlock_hold_token(hold) + 1, id);
    WANT(OK, rowlock_hold_set_value(hold, "two", &ts_err));
    char *value =
        ts_sql_text(mysql, "SELECT value FROM lock_value WHERE resource_id = %" PRIu64, id);
    assert_string_equal(value, "three");
    free(value);
    nobody_leads(name);
    WANT(OK, rowlock_release(hold, &ts_err));
}

/* --------------------------------------------------------------------------------- waiting */

/* One call, in a thread of its own. */
typedef struct observer {
    const char *name;
    rowlock_observe_options options;
    rowlock_leader before, now;
    pthread_t thread;
    rowlock_status status;
    rowlock_error err;
    atomic_bool ended;
} observer;

static void *observe(void *data)
{
    observer *o = data;
    o->status = rowlock_observe(other, o->name, &o->options, &o->now, &o->err);
    atomic_store(&o->ended, true);
    return NULL;
}

static observer *start(const char *name, const rowlock_leader *before)
{
    observer *o = calloc(1, sizeof *o);
    assert_non_null(o);
    *o = (observer){.name = name, .options = {.wait_ms = 30000}};
    if (before) {
        o->before = *before;
        o->options.after = &o->before;
    }
    assert_int_equal(pthread_create(&o->thread, NULL, observe, o), 0);
    return o;
}

static bool is_waiting(observer *o)
{
    ts_pass_ms(1200);
    return !atomic_load(&o->ended);
}

static rowlock_leader ended(observer *o)
{
    assert_true(POLL_UNTIL(atomic_load(&o->ended), 20000));
    pthread_join(o->thread, NULL);
    ts_err = o->err;
    WANT(OK, o->status);
    rowlock_leader now = o->now;
    free(o);
    return now;
}

/* Only changes end a wait: the first leader, another value, no leader, another leader with the same
 * value. */
TS_ONCE(test_each_change)
{
    const char *name = ts_name("change");
    observer *o = start(name, NULL);
    assert_true(is_waiting(o));
    rowlock_hold *hold = lead(client, name, "a");
    rowlock_leader now = ended(o);
    assert_true(now.leads && now.token == rowlock_hold_token(hold));
    o = start(name, &now);
    assert_true(is_waiting(o));
    WANT(OK, rowlock_hold_set_value(hold, "b", &ts_err));
    now = ended(o);
    assert_string_equal(now.value, "b");
    o = start(name, &now);
    WANT(OK, rowlock_release(hold, &ts_err));
    now = ended(o);
    assert_false(now.leads);
    o = start(name, &now);
    assert_true(is_waiting(o));
    hold = lead(client, name, "b");
    now = ended(o);
    assert_string_equal(now.value, "b");
    WANT(OK, rowlock_release(hold, &ts_err));
    hold = lead(client, name, "b");
    o = start(name, &now);
    now = ended(o);
    assert_true(now.leads && now.token == rowlock_hold_token(hold));
    WANT(OK, rowlock_release(hold, &ts_err));
}

/* The result may replace the one that the wait began with. */
TS_ONCE(test_in_place)
{
    const char *name = ts_name("place");
    rowlock_leader seen = {.leads = false};
    const rowlock_observe_options change = {.wait_ms = 10000, .after = &seen};
    rowlock_hold *hold = lead(client, name, "a");
    WANT(OK, rowlock_observe(other, name, &change, &seen, &ts_err));
    assert_string_equal(seen.value, "a");
    WANT(OK, rowlock_release(hold, &ts_err));
    WANT(OK, rowlock_observe(other, name, &change, &seen, &ts_err));
    assert_false(seen.leads);
}

TS_ONCE(test_waits_that_end)
{
    const char *name = ts_name("ends");
    TS_CANCEL *cancel = ts_cancel();
    const rowlock_observe_options brief = {.wait_ms = 1000};
    const rowlock_observe_options cancelled = {.wait_ms = ROWLOCK_WAIT_FOREVER, .cancel = cancel};
    WANT_WITHIN(TIMEOUT, 1000, 1100, rowlock_observe(other, name, &brief, &leader, &ts_err));
    ASSERT_SAYS("nobody leads", rowlock_observe(other, name, &brief, &leader, &ts_err));
    rowlock_hold *hold = lead(client, name, "x");
    const rowlock_leader seen = *look(name);
    const rowlock_observe_options after = {.wait_ms = 1000, .after = &seen};
    WANT_WITHIN(TIMEOUT, 1000, 1100, rowlock_observe(other, name, &after, &leader, &ts_err));
    WANT(OK, rowlock_release(hold, &ts_err));
    rowlock_cancel_fire(cancel);
    WANT(CANCELLED, rowlock_observe(other, name, &cancelled, &leader, &ts_err));
}

/* ------------------------------------------------------------------------------- bad input */

static void refused(const char *name, const rowlock_acquire_options *options)
{
    rowlock_hold *hold = NULL;
    WANT(INVALID, rowlock_acquire(client, name, options, &hold, &ts_err));
    assert_null(hold);
}

TS_ONCE(test_bad_input)
{
    const char *name = ts_name("bad");
    const bool share[] = {false, true};
    const char *const names[] = {name, "bad other"};
    char most[ROWLOCK_VALUE_MAX + 2];
    memset(most, 'v', sizeof most);
    most[ROWLOCK_VALUE_MAX + 1] = '\0';
    const char *const values[] = {most, "a\nb", "\x7f", "\xff", " a", "a ", "\xc2\xa0"};
    rowlock_hold *hold = NULL;
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++)
        refused(name, &(rowlock_acquire_options){.value = values[i]});
    refused(name, &(rowlock_acquire_options){.value = "v", .shared = true});
    refused(name, &(rowlock_acquire_options){.value = "v", .reentrant = true});
    refused(name, &(rowlock_acquire_options){.value = "v", .slots = 2});
    refused(name, &(rowlock_acquire_options){.value = "v", .mode = ROWLOCK_PESSIMISTIC});
    WANT(INVALID, rowlock_acquire_set(client, names, 2, &(rowlock_acquire_options){.value = "v"},
                                      &hold, &ts_err));
    WANT(INVALID, rowlock_acquire_set(client, names, 2,
                                      &(rowlock_acquire_options){.value = "v", .share = share},
                                      &hold, &ts_err));
    assert_int_equal(
        ts_sql_u64(mysql, "SELECT COUNT(*) FROM resource WHERE resource_name = %s", ts_quote(name)),
        0);
    WANT(INVALID, rowlock_observe(NULL, name, NULL, &leader, &ts_err));
    WANT(INVALID, rowlock_observe(client, NULL, NULL, &leader, &ts_err));
    WANT(INVALID, rowlock_observe(client, "", NULL, &leader, &ts_err));
    WANT(INVALID, rowlock_observe(client, name, NULL, NULL, &ts_err));
    WANT(INVALID, rowlock_hold_set_value(NULL, "v", &ts_err));
    most[ROWLOCK_VALUE_MAX] = '\0';
    hold = lead(client, name, most);
    assert_true(is_led_with(name, most));
    for (size_t i = 1; i < sizeof values / sizeof values[0]; i++)
        WANT(INVALID, rowlock_hold_set_value(hold, values[i], &ts_err));
    assert_true(is_led_with(name, most));
    static const char hostile[] = "it's \"\\ %_ $(x) \xf0\x9f\x94\x92";
    WANT(OK, rowlock_hold_set_value(hold, hostile, &ts_err));
    assert_true(is_led_with(name, hostile));
    WANT(OK, rowlock_release(hold, &ts_err));
}

/* A value that was written into the table by hand steers no terminal. */
TS_ONCE(test_a_value_by_hand)
{
    const char *name = ts_name("hand");
    rowlock_hold *hold = lead(client, name, "x");
    ts_sql(mysql, "UPDATE lock_value SET value = X'610A1B5B62' WHERE resource_id = %" PRIu64,
           ts_id_of(mysql, name));
    assert_true(is_led_with(name, "a??[b"));
    WANT(OK, rowlock_release(hold, &ts_err));
}

TS_ONCE(test_other_kinds)
{
    const char *row = ts_name("row");
    const char *slots = ts_name("slots");
    rowlock_hold *hold = ts_take(client, row, ROWLOCK_PESSIMISTIC, 30000);
    WANT(UNSUPPORTED, rowlock_hold_set_value(hold, "v", &ts_err));
    WANT(MODE, rowlock_observe(other, row, NULL, &leader, &ts_err));
    WANT(OK, rowlock_release(hold, &ts_err));
    hold = ts_take_with(client, slots, (rowlock_acquire_options){.slots = 2, .wait_ms = 20000});
    WANT(INVALID, rowlock_hold_set_value(hold, "v", &ts_err));
    WANT(MODE, rowlock_observe(other, slots, NULL, &leader, &ts_err));
    WANT(OK, rowlock_release(hold, &ts_err));
}

/* Lists show the value, as long as it counts. */
TS_ONCE(test_listed)
{
    const char *name = ts_name("listed");
    rowlock_hold *hold = lead(client, name, "here");
    rowlock_list *list = NULL;
    WANT(OK, rowlock_list_one(other, name, &list, &ts_err));
    assert_string_equal(rowlock_list_at(list, 0)->value, "here");
    rowlock_list_free(list);
    list = NULL;
    WANT(OK, rowlock_release(hold, &ts_err));
    WANT(OK, rowlock_list_one(other, name, &list, &ts_err));
    assert_string_equal(rowlock_list_at(list, 0)->value, "");
    rowlock_list_free(list);
}

/* A purged name's value is deleted with it. */
TS_ONCE(test_purged)
{
    if (ts_via())
        return;
    const char *name = ts_name("purged");
    rowlock_hold *hold = lead(client, name, "x");
    const uint64_t id = ts_id_of(mysql, name);
    WANT(OK, rowlock_release(hold, &ts_err));
    WANT(OK, rowlock_purge(client, name, &ts_err));
    assert_int_equal(
        ts_sql_u64(mysql, "SELECT COUNT(*) FROM lock_value WHERE resource_id = %" PRIu64, id), 0);
    WANT(NOT_FOUND, rowlock_observe(other, name, NULL, &leader, &ts_err));
}

TS_MAIN("leader", open_clients, close_clients)
