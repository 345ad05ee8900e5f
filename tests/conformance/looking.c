/* Looking: list, history, break, sweep. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/support.h"

static rowlock_client *client;
static rowlock_client *other;
static rowlock_client *admin; /* reads the history and sweeps: no procedure does */
static MYSQL *mysql;

static int open_clients(void **state)
{
    ts_suite_begin(state);
    client = ts_open();
    other = ts_open();
    admin = ts_via() ? ts_open_as_root() : other;
    mysql = ts_connect(ts_schema());
    return 0;
}

static int close_clients(void **state)
{
    if (admin != other)
        rowlock_client_close(admin);
    return ts_suite_end_with(state, client, other, mysql, NULL);
}

static rowlock_state state_of(const char *name)
{
    rowlock_list *list = NULL;
    WANT(OK, rowlock_list_one(other, name, &list, &ts_err));
    assert_int_equal(rowlock_list_count(list), 1);
    rowlock_state state = rowlock_list_at(list, 0)->state;
    rowlock_list_free(list);
    return state;
}

static bool is_time(const char *text)
{
    int n = 0;
    unsigned y, mo, d, h, mi, s, us;
    return sscanf(text, "%4u-%2u-%2u %2u:%2u:%2u.%6u%n", &y, &mo, &d, &h, &mi, &s, &us, &n) == 7 &&
           (size_t)n == strlen(text) && n == 26;
}

/* ----------------------------------------------------------------------------- list */

static void test_a_held_one(void **state)
{
    rowlock_mode mode = ts_mode(state);
    const char *name = ts_name("held");
    rowlock_hold *hold = ts_take(client, name, mode, 20000);
    rowlock_list *list = NULL;
    WANT(OK, rowlock_list_one(other, name, &list, &ts_err));
    const rowlock_info *info = rowlock_list_at(list, 0);
    assert_string_equal(info->name, name);
    assert_int_equal(info->mode, mode);
    assert_int_equal(info->state, ROWLOCK_HELD);
    assert_true(info->token == rowlock_hold_token(hold));
    /* Who knows it could release it: through procedures only a hash is shown. */
    if (ts_via())
        assert_true(info->owner[0] == '#' && !strstr(info->owner, rowlock_hold_owner(hold)));
    else
        assert_string_equal(info->owner, rowlock_hold_owner(hold));
    assert_non_null(strchr(info->owner_label, '@'));
    assert_true(is_time(info->acquired_at));
    assert_between(0, info->held_ms, 2000 + ts_slack_ms());
    if (mode == ROWLOCK_OPTIMISTIC) {
        assert_true(is_time(info->expires_at));
        assert_between(15000, info->remaining_ms, 20000);
        assert_true(info->connection_id == 0);
    } else {
        assert_string_equal(info->expires_at, "");
        assert_int_equal(info->remaining_ms, -1);
        assert_int_equal(ts_sql_u64(mysql,
                                    "SELECT COUNT(*) FROM information_schema.processlist"
                                    " WHERE id = %llu",
                                    (unsigned long long)info->connection_id),
                         1);
    }
    rowlock_list_free(list);
    WANT(OK, rowlock_release(hold, &ts_err));
    assert_int_equal(state_of(name), ROWLOCK_FREE);
}

static void test_a_free_one(void **state)
{
    rowlock_mode mode = ts_mode(state);
    const char *name = ts_name("free");
    rowlock_hold *hold = ts_take(client, name, mode, 20000);
    uint64_t token = rowlock_hold_token(hold);
    WANT(OK, rowlock_release(hold, &ts_err));
    rowlock_list *list = NULL;
    WANT(OK, rowlock_list_one(other, name, &list, &ts_err));
    const rowlock_info *info = rowlock_list_at(list, 0);
    assert_int_equal(info->state, ROWLOCK_FREE);
    assert_true(info->token == token);
    assert_int_equal(info->held_ms, -1);
    assert_int_equal(info->remaining_ms, -1);
    assert_true(info->connection_id == 0);
    rowlock_list_free(list);
}

static void test_an_expired_one(void **state)
{
    rowlock_mode mode = ts_mode(state);
    const char *name = ts_name("expired");
    rowlock_hold *hold = ts_take(client, name, mode, 20000);
    ts_expire(mysql, name, mode);
    assert_int_equal(state_of(name), ROWLOCK_EXPIRED);
    WANT(OK, ts_try(other, name, mode));
    WANT(LOST, rowlock_release(hold, &ts_err));
    assert_int_equal(state_of(name), ROWLOCK_FREE);
}

static void test_no_such_name(void **state)
{
    rowlock_list *list = NULL;
    (void)state;
    WANT(NOT_FOUND, rowlock_list_one(client, "never used", &list, &ts_err));
    assert_null(list);
    WANT(NOT_FOUND, rowlock_break(client, "never used", "why not", &ts_err));
}

static size_t count_named(const rowlock_list *list, const char *prefix)
{
    size_t count = 0;
    for (size_t i = 0; i < rowlock_list_count(list); i++)
        count += strncmp(rowlock_list_at(list, i)->name, prefix, strlen(prefix)) == 0;
    return count;
}

static void test_what_is_listed(void **state)
{
    static const char *const names[] = {"zz-list-d", "zz-list-a", "zz-list-c", "zz-list-b"};
    rowlock_list *list = NULL;
    (void)state;
    rowlock_hold *holds[2];
    for (int i = 0; i < 4; i++)
        WANT(OK, ts_try(client, names[i], ts_modes[i % 2]));
    holds[0] = ts_take(client, names[0], ts_modes[0], 30000);
    holds[1] = ts_take(client, names[1], ts_modes[1], 30000);
    WANT(OK, rowlock_list_get(other, NULL, &list, &ts_err));
    assert_int_equal(count_named(list, "zz-list-"), 2);
    rowlock_list_free(list);
    rowlock_list_options all = {.all = true, .after = "zz-list-a", .limit = 2};
    WANT(OK, rowlock_list_get(other, &all, &list, &ts_err));
    assert_int_equal(rowlock_list_count(list), 2);
    assert_string_equal(rowlock_list_at(list, 0)->name, "zz-list-b");
    assert_string_equal(rowlock_list_at(list, 1)->name, "zz-list-c");
    rowlock_list_free(list);
    all = (rowlock_list_options){.all = true};
    WANT(OK, rowlock_list_get(other, &all, &list, &ts_err));
    assert_int_equal(count_named(list, "zz-list-"), 4);
    for (size_t i = 1; i < rowlock_list_count(list); i++)
        assert_true(strcmp(rowlock_list_at(list, i - 1)->name, rowlock_list_at(list, i)->name) < 0);
    rowlock_list_free(list);
    WANT(OK, rowlock_release(holds[0], &ts_err));
    WANT(OK, rowlock_release(holds[1], &ts_err));
}

/* -------------------------------------------------------------------------- history */

static void flush(void)
{
    WANT(OK, rowlock_client_flush(client, 20000, &ts_err));
    WANT(OK, rowlock_client_flush(other, 20000, &ts_err));
    WANT(OK, rowlock_client_flush(admin, 20000, &ts_err));
}

static rowlock_history *history_of(const char *name)
{
    rowlock_history *history = NULL;
    rowlock_history_options options = {.name = name};
    flush();
    WANT(OK, rowlock_history_get(admin, &options, &history, &ts_err));
    return history;
}

static const rowlock_event *find_event(const rowlock_history *history, const char *event)
{
    for (size_t i = 0; i < rowlock_history_count(history); i++)
        if (strcmp(rowlock_history_at(history, i)->event, event) == 0)
            return rowlock_history_at(history, i);
    print_error("no event '%s' among %zu\n", event, rowlock_history_count(history));
    fail();
    return NULL;
}

static void test_history_of_a_cycle(void **state)
{
    rowlock_mode mode = ts_mode(state);
    const char *name = ts_name("history");
    rowlock_hold *first = ts_take(other, name, mode, 30000);
    ts_waiter waiter = {.client = client, .name = name};
    waiter.options = (rowlock_acquire_options){.mode = mode, .wait_ms = 10000};
    ts_waiter_start(&waiter);
    ts_pass_ms(600);
    WANT(OK, rowlock_release(first, &ts_err));
    WANT(OK, ts_waiter_join(&waiter, 10000));
    uint64_t token = rowlock_hold_token(waiter.hold);
    char owner[64];
    snprintf(owner, sizeof owner, "%s", rowlock_hold_owner(waiter.hold));
    ts_pass_ms(150);
    rowlock_release_options how = {
        .has_exit_status = true, .exit_status = 42, .note = "it's over \xe2\x9c\x93 \"\\"};
    WANT(OK, rowlock_release_with(waiter.hold, &how, &ts_err));
    rowlock_history *history = history_of(name);
    size_t count = rowlock_history_count(history);
    assert_int_equal(count, 4);
    const char *last = "";
    const rowlock_event *acquired = NULL;
    const rowlock_event *released = NULL;
    for (size_t i = 0; i < count; i++) {
        const rowlock_event *event = rowlock_history_at(history, i);
        /* In the order of time; two clients wrote them, each when it came to it. */
        assert_true(strcmp(event->happened_at, last) >= 0);
        last = event->happened_at;
        assert_string_equal(event->name, name);
        assert_int_equal(event->mode, mode);
        assert_true(is_time(event->happened_at));
        if (event->token == token && strcmp(event->event, "acquired") == 0)
            acquired = event;
        if (event->token == token && strcmp(event->event, "released") == 0)
            released = event;
    }
    assert_non_null(acquired);
    assert_non_null(released);
    /* Its thread may have begun a little later than it was started. */
    assert_between(600 - ts_slack_ms(), acquired->waited_ms,
                   waiter.ended_ms - waiter.started_ms + 1);
    assert_string_equal(acquired->owner, owner);
    assert_false(acquired->has_exit_status);
    assert_between(149, released->held_ms, 3000 + ts_slack_ms());
    assert_true(released->has_exit_status);
    assert_int_equal(released->exit_status, 42);
    assert_string_equal(released->detail, "it's over \xe2\x9c\x93 \"\\");
    assert_true(strcmp(acquired->happened_at, released->happened_at) < 0);
    rowlock_history_free(history);
}

static void test_history_of_a_take_over(void **state)
{
    rowlock_mode mode = ts_mode(state);
    const char *name = ts_name("history-over");
    rowlock_hold *old = ts_take(client, name, mode, 30000);
    uint64_t old_token = rowlock_hold_token(old);
    ts_expire(mysql, name, mode);
    rowlock_hold *hold = ts_take(other, name, mode, 30000);
    WANT(LOST, rowlock_release(old, &ts_err));
    WANT(OK, rowlock_release(hold, &ts_err));
    rowlock_history *history = history_of(name);
    /* Whose end it was: the token of the one who died, told by the one who found out. */
    const rowlock_event *over = find_event(history, "taken_over");
    assert_true(over->token == old_token || over->token == old_token + 1);
    find_event(history, "lost");
    find_event(history, "released");
    rowlock_history_free(history);
}

static void test_history_of_a_break(void **state)
{
    rowlock_mode mode = ts_mode(state);
    const char *name = ts_name("history-break");
    rowlock_hold *hold = ts_take(client, name, mode, ts_short_ttl(mode));
    WANT(OK, rowlock_break(other, name, "the operator said so", &ts_err));
    assert_true(POLL_UNTIL(rowlock_hold_check(hold) == ROWLOCK_LOST, 10000));
    WANT(LOST, rowlock_release(hold, &ts_err));
    rowlock_history *history = history_of(name);
    const rowlock_event *broken = find_event(history, "broken");
    assert_non_null(strstr(broken->detail, "the operator said so"));
    find_event(history, "lost");
    rowlock_history_free(history);
}

static void test_history_can_be_limited(void **state)
{
    const char *name = ts_name("history-limit");
    rowlock_history *history = NULL;
    rowlock_history_options options = {.name = name, .limit = 3};
    (void)state;
    for (int i = 0; i < 5; i++)
        WANT(OK, ts_try(client, name, ROWLOCK_OPTIMISTIC));
    WANT(OK, rowlock_client_flush(client, 20000, &ts_err));
    WANT(OK, rowlock_history_get(admin, &options, &history, &ts_err));
    assert_int_equal(rowlock_history_count(history), 3);
    /* The newest three, oldest first: the end of the fourth cycle, and the fifth. Both of that may
     * be in the other order: each batch is dated by how long ago it was when the server got to it,
     * and the two may be in two batches. */
    const rowlock_event *first = rowlock_history_at(history, 0);
    const rowlock_event *last = find_event(history, "acquired");
    unsigned of_last = 0;
    for (size_t i = 0; i < 3; i++) {
        const rowlock_event *event = rowlock_history_at(history, i);
        assert_true(strcmp(event->happened_at, first->happened_at) >= 0);
        assert_true(event == last || strcmp(event->event, "released") == 0);
        assert_between((int64_t)last->token - 1, (int64_t)event->token, (int64_t)last->token);
        of_last += event->token == last->token;
    }
    assert_int_equal(of_last, 2);
    rowlock_history_free(history);
}

static void test_no_history(void **state)
{
    rowlock_mode mode = ts_mode(state);
    const char *name = ts_name("no-history");
    rowlock_client_options options = ts_options();
    options.no_history = true;
    rowlock_client *quiet = NULL;
    WANT(OK, rowlock_client_open(&options, &quiet, &ts_err));
    WANT(OK, ts_try(quiet, name, mode));
    rowlock_client_close(quiet);
    rowlock_history *history = history_of(name);
    assert_int_equal(rowlock_history_count(history), 0);
    rowlock_history_free(history);
}

/* A client that is closed has written everything. */
static void test_close_writes_the_history(void **state)
{
    rowlock_mode mode = ts_mode(state);
    const char *name = ts_name("history-close");
    rowlock_client *short_lived = ts_open();
    WANT(OK, ts_try(short_lived, name, mode));
    (void)ts_take(short_lived, name, mode, 30000);
    rowlock_client_close(short_lived);
    rowlock_history *history = history_of(name);
    assert_int_equal(rowlock_history_count(history), 4);
    rowlock_history_free(history);
}

/* ---------------------------------------------------------------------------- break */

static void test_break(void **state)
{
    rowlock_mode mode = ts_mode(state);
    const char *name = ts_name("break");
    rowlock_hold *hold = ts_take(client, name, mode, ts_short_ttl(mode));
    uint64_t token = rowlock_hold_token(hold);
    WANT(OK, rowlock_break(other, name, NULL, &ts_err));
    rowlock_hold *next = ts_take(other, name, mode, 30000);
    assert_true(rowlock_hold_token(next) > token);
    assert_true(POLL_UNTIL(rowlock_hold_check(hold) == ROWLOCK_LOST, 10000));
    WANT(LOST, rowlock_release(hold, &ts_err));
    assert_held(next);
    WANT(OK, rowlock_release(next, &ts_err));
    WANT(BUSY, rowlock_break(other, name, NULL, &ts_err));
}

/* A label may look as if a procedure had put a login behind it. */
static void test_break_in_spite_of_the_label(void **state)
{
    rowlock_mode mode = ts_mode(state);
    char whole[ROWLOCK_LABEL_MAX + 1];
    snprintf(whole, sizeof whole, "%0*d]", ROWLOCK_LABEL_MAX - 1, 0);
    const char *labels[] = {"deploy [prod]", "]", whole};
    for (size_t i = 0; i < sizeof labels / sizeof labels[0]; i++) {
        const char *name = ts_name("break-label");
        rowlock_client_options options = ts_options();
        options.label = labels[i];
        rowlock_client *labelled = NULL;
        WANT(OK, rowlock_client_open(&options, &labelled, &ts_err));
        rowlock_hold *hold = ts_take(labelled, name, mode, ts_short_ttl(mode));
        WANT(OK, rowlock_break(other, name, NULL, &ts_err));
        assert_true(POLL_UNTIL(rowlock_hold_check(hold) == ROWLOCK_LOST, 10000));
        WANT(LOST, rowlock_release(hold, &ts_err));
        rowlock_client_close(labelled);
    }
}

static void test_break_with_a_waiter(void **state)
{
    rowlock_mode mode = ts_mode(state);
    const char *name = ts_name("break-waiter");
    rowlock_hold *hold = ts_take(client, name, mode, 30000);
    ts_waiter waiter = {.client = other, .name = name};
    waiter.options = (rowlock_acquire_options){.mode = mode, .wait_ms = 20000};
    ts_waiter_start(&waiter);
    WANT(OK, rowlock_break(other, name, "go", &ts_err));
    /* A procedure ends nobody's connection for the bell: the waiter finds out when it looks, every
     * 4 s and a second later. */
    WANT(OK, ts_waiter_join(&waiter, ts_via() ? 20000 : 10000));
    WANT(LOST, rowlock_release(hold, &ts_err));
    assert_held(waiter.hold);
    WANT(OK, rowlock_release(waiter.hold, &ts_err));
}

/* Its holder is dead already: breaking tidies up. */
static void test_break_an_expired_one(void **state)
{
    rowlock_mode mode = ts_mode(state);
    const char *name = ts_name("break-expired");
    rowlock_hold *hold = ts_take(client, name, mode, 30000);
    ts_expire(mysql, name, mode);
    rowlock_status status = rowlock_break(other, name, NULL, &ts_err);
    assert_true(status == ROWLOCK_OK || status == ROWLOCK_BUSY);
    if (status == ROWLOCK_OK)
        assert_int_equal(state_of(name), ROWLOCK_FREE);
    WANT(OK, ts_try(other, name, mode));
    WANT(LOST, rowlock_release(hold, &ts_err));
}

/* ---------------------------------------------------------------------------- sweep */

static rowlock_sweep_result sweep(rowlock_sweep_options options)
{
    rowlock_sweep_result result;
    memset(&result, 0xee, sizeof result);
    WANT(OK, rowlock_sweep(admin, &options, &result, &ts_err));
    return result;
}

static void test_sweep_frees_the_dead(void **state)
{
    rowlock_mode mode = ts_mode(state);
    const char *dead_name = ts_name("sweep-dead");
    const char *live_name = ts_name("sweep-live");
    rowlock_hold *dead = ts_take(client, dead_name, mode, 30000);
    rowlock_hold *live = ts_take(client, live_name, mode, 30000);
    uint64_t token = rowlock_hold_token(dead);
    ts_expire(mysql, dead_name, mode);
    assert_true(sweep((rowlock_sweep_options){0}).expired == 1);
    assert_int_equal(state_of(dead_name), ROWLOCK_FREE);
    assert_int_equal(state_of(live_name), ROWLOCK_HELD);
    assert_held(live);
    WANT(BUSY, ts_try(other, live_name, mode));
    assert_true(sweep((rowlock_sweep_options){0}).expired == 0);
    rowlock_history *history = history_of(dead_name);
    const rowlock_event *event = find_event(history, "expired");
    assert_true(event->token == token);
    assert_string_equal(event->owner, rowlock_hold_owner(dead));
    rowlock_history_free(history);
    WANT(LOST, rowlock_release(dead, &ts_err));
    WANT(OK, rowlock_release(live, &ts_err));
    rowlock_hold *next = ts_take(other, dead_name, mode, 30000);
    assert_true(rowlock_hold_token(next) > token);
    WANT(OK, rowlock_release(next, &ts_err));
}

static uint64_t events(void)
{
    return ts_sql_u64(mysql, "SELECT COUNT(*) FROM lock_event");
}

static void test_history_is_bounded_by_rows(void **state)
{
    const char *name = ts_name("bound-rows");
    (void)state;
    for (int i = 0; i < 20; i++)
        WANT(OK, ts_try(client, name, ROWLOCK_OPTIMISTIC));
    flush();
    uint64_t newest = ts_sql_u64(mysql, "SELECT MAX(id) FROM lock_event");
    uint64_t before = events();
    rowlock_sweep_result result = sweep((rowlock_sweep_options){.history_rows = 7});
    assert_true(result.events == before - 7);
    assert_int_equal(events(), 7);
    assert_int_equal(ts_sql_u64(mysql, "SELECT MAX(id) FROM lock_event"), newest);
    result = sweep((rowlock_sweep_options){.history_rows = 7});
    assert_true(result.events == 0);
}

static void test_history_is_bounded_by_age(void **state)
{
    const char *name = ts_name("bound-age");
    (void)state;
    for (int i = 0; i < 10; i++)
        WANT(OK, ts_try(client, name, ROWLOCK_OPTIMISTIC));
    flush();
    uint64_t before = events();
    ts_sql(mysql, "UPDATE lock_event SET happened_at = UTC_TIMESTAMP(6) - INTERVAL 2 HOUR"
                  " ORDER BY id LIMIT 5");
    assert_true(sweep((rowlock_sweep_options){.history_ms = -1}).events == 0);
    assert_true(sweep((rowlock_sweep_options){0}).events == 0);
    assert_true(sweep((rowlock_sweep_options){.history_ms = 3600000}).events == 5);
    assert_int_equal(events(), before - 5);
}

static void forget(const char *name)
{
    ts_sql(mysql,
           "UPDATE resource SET update_time = UTC_TIMESTAMP(6) - INTERVAL 100 DAY"
           " WHERE resource_name = %s",
           ts_quote(name));
}

static uint64_t rows_of(const char *table, uint64_t id)
{
    return ts_sql_u64(mysql, "SELECT COUNT(*) FROM %s WHERE id = %llu", table,
                      (unsigned long long)id);
}

static void test_unused_names_are_purged(void **state)
{
    rowlock_mode mode = ts_mode(state);
    const char *name = ts_name("purge");
    const char *fresh = ts_name("purge-fresh");
    const char *held_name = ts_name("purge-held");
    uint64_t token = 0;
    for (int i = 0; i < 5; i++) {
        rowlock_hold *hold = ts_take(client, name, mode, 30000);
        token = rowlock_hold_token(hold);
        WANT(OK, rowlock_release(hold, &ts_err));
    }
    WANT(OK, ts_try(client, fresh, mode));
    rowlock_hold *held = ts_take(client, held_name, mode, 30000);
    uint64_t id =
        ts_sql_u64(mysql, "SELECT id FROM resource WHERE resource_name = %s", ts_quote(name));
    forget(name);
    forget(held_name);
    assert_true(sweep((rowlock_sweep_options){.unused_ms = -1}).purged == 0);
    assert_true(sweep((rowlock_sweep_options){0}).purged == 1);
    rowlock_list *list = NULL;
    WANT(NOT_FOUND, rowlock_list_one(client, name, &list, &ts_err));
    assert_int_equal(
        rows_of("resource", id) + rows_of("resource_lock", id) + rows_of("lease_renewal", id), 0);
    assert_int_equal(state_of(fresh), ROWLOCK_FREE);
    assert_int_equal(state_of(held_name), ROWLOCK_HELD);
    WANT(OK, rowlock_release(held, &ts_err));
    /* The client that knew its old row by heart, and one that never saw it. */
    rowlock_hold *again = ts_take(client, name, mode, 30000);
    assert_true(rowlock_hold_token(again) > token);
    token = rowlock_hold_token(again);
    WANT(BUSY, ts_try(other, name, mode));
    WANT(OK, rowlock_release(again, &ts_err));
    again = ts_take(other, name, mode, 30000);
    assert_true(rowlock_hold_token(again) > token);
    WANT(OK, rowlock_release(again, &ts_err));
}

/* A purged name may come back as the other kind; its tokens do not. */
static void test_a_purged_name_may_change_its_kind(void **state)
{
    rowlock_mode mode = ts_mode(state);
    rowlock_mode wrong = mode == ROWLOCK_OPTIMISTIC ? ROWLOCK_PESSIMISTIC : ROWLOCK_OPTIMISTIC;
    const char *name = ts_name("purge-kind");
    uint64_t token = 0;
    for (int i = 0; i < 9; i++) {
        rowlock_hold *hold = ts_take(client, name, mode, 30000);
        token = rowlock_hold_token(hold);
        WANT(OK, rowlock_release(hold, &ts_err));
    }
    forget(name);
    assert_true(sweep((rowlock_sweep_options){0}).purged == 1);
    rowlock_hold *hold = ts_take(other, name, wrong, 30000);
    assert_true(rowlock_hold_token(hold) > token);
    WANT(MODE, ts_try(client, name, mode));
    WANT(OK, rowlock_release(hold, &ts_err));
}

static void test_sweep_with_defaults(void **state)
{
    rowlock_sweep_result result;
    (void)state;
    WANT(OK, rowlock_sweep(admin, NULL, &result, &ts_err));
    WANT(OK, rowlock_sweep(admin, NULL, NULL, &ts_err));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(test_a_held_one),
        BOTH(test_a_free_one),
        BOTH(test_an_expired_one),
        ONCE(test_no_such_name),
        ONCE(test_what_is_listed),
        BOTH(test_history_of_a_cycle),
        BOTH(test_history_of_a_take_over),
        BOTH(test_history_of_a_break),
        ONCE(test_history_can_be_limited),
        BOTH(test_no_history),
        BOTH(test_close_writes_the_history),
        BOTH(test_break),
        BOTH(test_break_in_spite_of_the_label),
        BOTH(test_break_with_a_waiter),
        BOTH(test_break_an_expired_one),
        BOTH(test_sweep_frees_the_dead),
        ONCE(test_history_is_bounded_by_rows),
        ONCE(test_history_is_bounded_by_age),
        BOTH(test_unused_names_are_purged),
        BOTH(test_a_purged_name_may_change_its_kind),
        ONCE(test_sweep_with_defaults),
    };
    return cmocka_run_group_tests_name("looking", tests, open_clients, close_clients);
}
