/* List, history, break, sweep. */
#include "conformance/clients.h"

static rowlock_client *admin; /* reads the history and sweeps, which no procedure does */

static int open_admin(void **state)
{
    open_clients(state);
    admin = ts_via() ? ts_open_as_root() : other;
    return 0;
}

static int close_admin(void **state)
{
    if (admin != other)
        rowlock_client_close(admin);
    return close_clients(state);
}

/* Its entry in the list; free the list. */
static const rowlock_info *listed(const char *name, rowlock_list **list)
{
    WANT(OK, rowlock_list_one(other, name, list, &ts_err));
    assert_int_equal(rowlock_list_count(*list), 1);
    return rowlock_list_at(*list, 0);
}

static rowlock_state state_of(const char *name)
{
    rowlock_list *list = NULL;
    rowlock_state state = listed(name, &list)->state;
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

TS_BOTH(test_a_held_and_a_free_one)
{
    const char *name = ts_name("held");
    rowlock_hold *hold = ts_take(client, name, mode, 20000);
    rowlock_list *list = NULL;
    const rowlock_info *info = listed(name, &list);
    assert_string_equal(info->name, name);
    assert_int_equal(info->mode, mode);
    assert_int_equal(info->state, ROWLOCK_HELD);
    assert_true(info->token == rowlock_hold_token(hold));
    /* Whoever knows the owner id could release the lock: through procedures only a hash is
     * shown. */
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
                                    "SELECT COUNT(*) FROM " TS_PROCESSLIST " WHERE id = %llu",
                                    (unsigned long long)info->connection_id),
                         1);
    }
    rowlock_list_free(list);
    uint64_t token = rowlock_hold_token(hold);
    WANT(OK, rowlock_release(hold, &ts_err));
    info = listed(name, &list);
    assert_int_equal(info->state, ROWLOCK_FREE);
    assert_true(info->token == token);
    assert_int_equal(info->held_ms, -1);
    assert_int_equal(info->remaining_ms, -1);
    assert_true(info->connection_id == 0);
    rowlock_list_free(list);
}

TS_ONCE(test_no_such_name)
{
    rowlock_list *list = NULL;
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

TS_ONCE(test_what_is_listed)
{
    static const char *const names[] = {"zz-list-d", "zz-list-a", "zz-list-c", "zz-list-b"};
    rowlock_list *list = NULL;
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
    fail_msg("no event '%s' among %zu", event, rowlock_history_count(history));
    return NULL;
}

TS_BOTH(test_history_of_a_cycle)
{
    const char *name = ts_name("history");
    rowlock_hold *first = ts_take(other, name, mode, 30000);
    ts_waiter waiter = ts_wait(client, name, mode, 10000, 0);
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
    assert_int_equal(rowlock_history_count(history), 4);
    /* In the order of time, though two clients wrote them at their own times. */
    const rowlock_event *of_waiter[2] = {NULL, NULL};
    for (size_t i = 0, n = 0; i < 4; i++) {
        const rowlock_event *event = rowlock_history_at(history, i);
        if (i > 0)
            assert_true(
                strcmp(rowlock_history_at(history, i - 1)->happened_at, event->happened_at) <= 0);
        assert_string_equal(event->name, name);
        assert_int_equal(event->mode, mode);
        assert_true(is_time(event->happened_at));
        if (event->token == token && n < 2)
            of_waiter[n++] = event;
    }
    const rowlock_event *acquired = of_waiter[0];
    const rowlock_event *released = of_waiter[1];
    assert_non_null(released);
    assert_string_equal(acquired->event, "acquired");
    assert_string_equal(released->event, "released");
    /* The thread may begin a little later than it was started. */
    assert_between(600 - ts_slack_ms(), acquired->waited_ms,
                   waiter.ended_ms - waiter.started_ms + 1);
    assert_string_equal(acquired->owner, owner);
    assert_false(acquired->has_exit_status);
    assert_between(149, released->held_ms, 3000 + ts_slack_ms());
    assert_true(released->has_exit_status);
    assert_int_equal(released->exit_status, 42);
    assert_string_equal(released->detail, how.note);
    rowlock_history_free(history);
}

/* A closed client has written all its history, unless it writes none. */
TS_BOTH(test_close_writes_the_history)
{
    for (unsigned quiet = 0; quiet < 2; quiet++) {
        const char *name = ts_name("history-close");
        rowlock_client *short_lived = ts_open_as((rowlock_client_options){.no_history = quiet});
        WANT(OK, ts_try(short_lived, name, mode));
        (void)ts_take(short_lived, name, mode, 30000);
        rowlock_client_close(short_lived);
        rowlock_history *history = history_of(name);
        assert_int_equal(rowlock_history_count(history), quiet ? 0 : 4);
        rowlock_history_free(history);
    }
}

TS_BOTH(test_break)
{
    const char *name = ts_name("break");
    rowlock_hold *hold = ts_take(client, name, mode, TS_KEPT_TTL);
    uint64_t token = rowlock_hold_token(hold);
    WANT(OK, rowlock_break(other, name, "the operator said so", &ts_err));
    rowlock_hold *next = ts_take(other, name, mode, 30000);
    assert_true(rowlock_hold_token(next) > token);
    assert_true(POLL_UNTIL(rowlock_hold_check(hold) == ROWLOCK_LOST, 10000));
    WANT(LOST, rowlock_release(hold, &ts_err));
    assert_held(next);
    WANT(OK, rowlock_release(next, &ts_err));
    WANT(BUSY, rowlock_break(other, name, NULL, &ts_err));
    rowlock_history *history = history_of(name);
    assert_non_null(strstr(find_event(history, "broken")->detail, "the operator said so"));
    find_event(history, "lost");
    rowlock_history_free(history);
}

static int64_t cooling_for_ms(const char *name)
{
    rowlock_list *list = NULL;
    const rowlock_info *info = listed(name, &list);
    int64_t left_ms = info->state == ROWLOCK_COOLING ? info->remaining_ms : -1;
    rowlock_list_free(list);
    return left_ms;
}

TS_BOTH(test_break_of_a_token)
{
    const char *name = ts_name("break-token");
    rowlock_hold *hold = ts_take(client, name, mode, TS_KEPT_TTL);
    rowlock_break_options options = {.token = rowlock_hold_token(hold) + 1};
    WANT(BUSY, rowlock_break_with(other, name, &options, &ts_err));
    assert_non_null(strstr(ts_err.message, "' has the token "));
    assert_non_null(strstr(ts_err.message, "nothing was broken"));
    assert_held(hold);
    options.token--;
    WANT(OK, rowlock_break_with(other, name, &options, &ts_err));
    assert_true(POLL_UNTIL(rowlock_hold_check(hold) == ROWLOCK_LOST, 10000));
    WANT(LOST, rowlock_release(hold, &ts_err));
}

/* `count` names have the prefix; `last` is the last of them. */
static void assert_begin_so(const char *prefix, const char *after, size_t count, const char *last)
{
    const rowlock_list_options options = {.all = true, .prefix = prefix, .after = after};
    rowlock_list *list = NULL;
    WANT(OK, rowlock_list_get(other, &options, &list, &ts_err));
    assert_int_equal(rowlock_list_count(list), count);
    if (count > 0)
        assert_string_equal(rowlock_list_at(list, count - 1)->name, last);
    rowlock_list_free(list);
}

/* No character of a prefix is special, and any character may follow it. */
TS_ONCE(test_a_prefix)
{
    static const char *const names[] = {"pre|fix_%1", "pre|fix_%2", "pre|fixx%3", "pre",
                                        "Pre|fix_%4", "zz-p/z",     "zz-p/😀",     "zz-two words"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        WANT(OK, ts_try(client, names[i], ts_modes[i % 2]));
    assert_begin_so("pre|fix_%", NULL, 2, names[1]);
    assert_begin_so("pre|fix_%", names[0], 1, names[1]);
    assert_begin_so("pre|fix_%", names[1], 0, NULL);
    assert_begin_so("zz-p/", NULL, 2, names[6]);
    assert_begin_so("zz-p/😀", NULL, 1, names[6]);
    assert_begin_so("zz-two ", NULL, 1, names[7]);
    static const char *const wrong[] = {" padded", "", "two\nlines", "\xff"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        rowlock_list *list = NULL;
        const rowlock_list_options options = {.prefix = wrong[i]};
        WANT(INVALID, rowlock_list_get(other, &options, &list, &ts_err));
        assert_non_null(strstr(ts_err.message, "the prefix"));
    }
}

/* How many events the history has with these options. */
static size_t count_events(rowlock_history_options options)
{
    rowlock_history *history = NULL;
    WANT(OK, rowlock_history_get(admin, &options, &history, &ts_err));
    size_t count = rowlock_history_count(history);
    rowlock_history_free(history);
    return count;
}

TS_BOTH(test_what_was_refused)
{
    const char *name = ts_name("refused");
    TS_HOLD *hold = ts_take(client, name, mode, 30000);
    rowlock_hold *none = NULL;
    rowlock_acquire_options options = {.mode = mode};
    WANT(BUSY, rowlock_acquire(other, name, &options, &none, &ts_err));
    options.record_refused = true;
    WANT(BUSY, rowlock_acquire(other, name, &options, &none, &ts_err));
    options.wait_ms = 1000;
    const int64_t strain_ms = ts_strain_ms();
    if (WANT_TIMEOUT(mode, strain_ms, rowlock_acquire(other, name, &options, &none, &ts_err)))
        return; /* it did not give up, it could not */
    /* If the wait ends while a look is under way, nobody can say who held it. */
    const bool says = strstr(ts_err.message, "held by");
    WANT(OK, rowlock_client_flush(other, 10000, &ts_err));
    const rowlock_history_options refused = {.name = name, .event = "refused"};
    const rowlock_history_options gave_up = {.prefix = name, .event = "gave_up", .since_ms = 60000};
    assert_int_equal(count_events(refused), 1);
    assert_int_equal(count_events(gave_up), 1);
    rowlock_history *history = NULL;
    WANT(OK, rowlock_history_get(admin, &gave_up, &history, &ts_err));
    const rowlock_event *event = rowlock_history_at(history, 0);
    assert_true(event->token == 0 && event->held_ms == -1 && event->waited_ms >= 1000);
    assert_true(strstr(event->detail, "held by") || !says);
    rowlock_history_free(history);
}

/* One event for each name, none with a token, also for a name that was held for a moment; and each
 * name counts it. */
TS_BOTH(test_what_was_refused_of_a_set)
{
    static const char *const prefixes[] = {"zz-row-", "zz-lease-"};
    static const char *const all[][2] = {{"zz-row-a", "zz-row-b"}, {"zz-lease-a", "zz-lease-b"}};
    const size_t which = mode == ROWLOCK_OPTIMISTIC;
    const char *const *names = all[which];
    const rowlock_history_options refused = {.prefix = prefixes[which], .event = "refused"};
    const rowlock_acquire_options options = {.mode = mode, .record_refused = true};
    rowlock_hold *none = NULL;
    WANT(OK, ts_try(other, names[0], mode));
    TS_HOLD *hold = ts_take(client, names[1], mode, 30000);
    WANT(BUSY, rowlock_acquire_set(other, names, 2, &options, &none, &ts_err));
    flush();
    rowlock_history *history = NULL;
    WANT(OK, rowlock_history_get(admin, &refused, &history, &ts_err));
    assert_int_equal(rowlock_history_count(history), 2);
    for (size_t i = 0; i < 2; i++) {
        const rowlock_history_options of = {.name = names[i], .event = "refused"};
        rowlock_list *list = NULL;
        assert_true(rowlock_history_at(history, i)->token == 0);
        assert_int_equal(count_events(of), 1);
        assert_int_equal(listed(names[i], &list)->totals.refused, 1);
        rowlock_list_free(list);
    }
    rowlock_history_free(history);
}

TS_BOTH(test_what_was_refused_of_slots)
{
    const char *name = ts_name("refused-slots");
    rowlock_acquire_options options = {.mode = mode, .slots = 1, .wait_ms = 20000};
    rowlock_hold *none = NULL;
    rowlock_list *list = NULL;
    TS_HOLD *hold = ts_take_with(client, name, options);
    options = (rowlock_acquire_options){.mode = mode, .slots = 1, .record_refused = true};
    WANT(BUSY, rowlock_acquire(other, name, &options, &none, &ts_err));
    flush();
    assert_int_equal(listed(name, &list)->totals.refused, 1);
    rowlock_list_free(list);
}

TS_BOTH(test_a_wait_that_is_cancelled_gave_up)
{
    const char *name = ts_name("cancelled");
    const rowlock_history_options gave_up = {.name = name, .event = "gave_up"};
    TS_CANCEL *cancel = ts_cancel();
    TS_HOLD *hold = ts_take(client, name, mode, 30000);
    ts_waiter waiter = {.client = other, .name = name};
    waiter.options = (rowlock_acquire_options){
        .mode = mode, .wait_ms = -1, .cancel = cancel, .record_refused = true};
    ts_waiter_start(&waiter);
    assert_true(mode == ROWLOCK_OPTIMISTIC ? POLL_UNTIL(ts_in_queue(mysql, name) > 0, 10000)
                                           : ts_row_waits(watch, "resource_lock", 10000) != 0);
    rowlock_cancel_fire(cancel);
    WANT(CANCELLED, ts_waiter_join(&waiter, 10000));
    flush();
    assert_int_equal(count_events(gave_up), 1);
}

TS_ONCE(test_which_events)
{
    const char *name = ts_name("events");
    rowlock_history *history = NULL;
    WANT(OK, ts_try(client, name, ROWLOCK_OPTIMISTIC));
    flush();
    ts_sql(mysql,
           "UPDATE lock_event SET happened_at = happened_at - INTERVAL 2 HOUR"
           " WHERE resource_name = %s AND event = 'acquired'",
           ts_quote(name));
    assert_int_equal(count_events((rowlock_history_options){.name = name}), 2);
    assert_int_equal(count_events((rowlock_history_options){.name = name, .event = "acquired"}), 1);
    assert_int_equal(count_events((rowlock_history_options){.name = name, .since_ms = 3600000}), 1);
    assert_int_equal(
        count_events((rowlock_history_options){.prefix = name, .since_ms = 3 * 3600000}), 2);
    const rowlock_history_options wrong[] = {{.event = "got"},
                                             {.since_ms = -1},
                                             {.since_ms = INT64_MAX},
                                             {.name = name, .prefix = name},
                                             {.prefix = "\n"}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        WANT(INVALID, rowlock_history_get(other, &wrong[i], &history, &ts_err));
}

/* The holder may still work: nobody gets the lease before it has ended, and a second break does not
 * change that. */
TS_ONCE(test_a_broken_lease_is_cooling)
{
    const char *name = ts_name("break-cooling");
    uint64_t version = 0;
    TS_HOLD *hold = ts_take(client, name, ROWLOCK_OPTIMISTIC, 60000);
    uint64_t token = rowlock_hold_token(hold);
    WANT(OK, rowlock_break(other, name, NULL, &ts_err));
    int64_t left_ms = cooling_for_ms(name);
    assert_true(left_ms > 30000 && left_ms <= 60000);
    WANT(BUSY, ts_try(other, name, ROWLOCK_OPTIMISTIC));
    WANT(BUSY, rowlock_version_read(other, name, &version, &ts_err));
    WANT(BUSY, rowlock_version_bump(other, name, token + 1, &version, &ts_err));
    WANT(BUSY, rowlock_break(other, name, NULL, &ts_err));
    assert_true(cooling_for_ms(name) > left_ms - 30000);
    WANT(LOST, rowlock_release(hold, &ts_err));
    assert_int_equal(cooling_for_ms(name), -1);
    hold = ts_take(other, name, ROWLOCK_OPTIMISTIC, 30000);
    assert_true(rowlock_hold_token(hold) > token);
}

/* Also for a renewed lease, whose expiry is in another row. */
TS_ONCE(test_a_broken_lease_opens_by_itself)
{
    const char *name = ts_name("break-opens");
    TS_CLIENT *stuck = ts_open();
    /* Its renewal is not due before it is broken. */
    rowlock_hold *hold = ts_take(stuck, name, ROWLOCK_OPTIMISTIC, 30000);
    int64_t start_ms = ts_now_ms();
    ts_sql(mysql,
           "UPDATE lease_renewal l JOIN resource r ON r.id = l.id SET l.version = r.version,"
           " r.lease_expires_at = UTC_TIMESTAMP(6),"
           " l.expires_at = UTC_TIMESTAMP(6) + INTERVAL 5 SECOND WHERE r.resource_name = %s",
           ts_quote(name));
    const rowlock_break_options options = {.wait_ms = ROWLOCK_WAIT_FOREVER};
    WANT(OK, rowlock_break_with(other, name, &options, &ts_err));
    assert_true(ts_now_ms() - start_ms > 4000);
    WANT(OK, ts_try(other, name, ROWLOCK_OPTIMISTIC));
    WANT(LOST, rowlock_release(hold, &ts_err));
    WANT(OK, ts_try(other, name, ROWLOCK_OPTIMISTIC));
}

/* A label that looks as if a procedure had put a login behind it. */
TS_BOTH(test_break_in_spite_of_the_label)
{
    char whole[ROWLOCK_LABEL_MAX + 1];
    snprintf(whole, sizeof whole, "%0*d]", ROWLOCK_LABEL_MAX - 1, 0);
    const char *labels[] = {"deploy [prod]", "]", whole};
    for (size_t i = 0; i < sizeof labels / sizeof labels[0]; i++) {
        const char *name = ts_name("break-label");
        TS_CLIENT *labelled = ts_open_as((rowlock_client_options){.label = labels[i]});
        rowlock_hold *hold = ts_take(labelled, name, mode, TS_KEPT_TTL);
        WANT(OK, rowlock_break(other, name, NULL, &ts_err));
        assert_true(POLL_UNTIL(rowlock_hold_check(hold) == ROWLOCK_LOST, 10000));
        WANT(LOST, rowlock_release(hold, &ts_err));
    }
}

static rowlock_sweep_result sweep(rowlock_sweep_options options)
{
    rowlock_sweep_result result;
    memset(&result, 0xee, sizeof result);
    WANT(OK, rowlock_sweep(admin, &options, &result, &ts_err));
    return result;
}

static uint64_t events(void)
{
    return ts_sql_u64(mysql, "SELECT COUNT(*) FROM lock_event");
}

TS_ONCE(test_history_is_bounded)
{
    const char *name = ts_name("bound");
    sweep((rowlock_sweep_options){.history_ms = 3600000}); /* old events of other tests */
    for (int i = 0; i < 20; i++)
        WANT(OK, ts_try(client, name, ROWLOCK_OPTIMISTIC));
    flush();
    uint64_t newest = ts_sql_u64(mysql, "SELECT MAX(id) FROM lock_event");
    uint64_t before = events();
    ts_sql(mysql, "UPDATE lock_event SET happened_at = UTC_TIMESTAMP(6) - INTERVAL 2 HOUR"
                  " ORDER BY id LIMIT 5");
    assert_true(sweep((rowlock_sweep_options){.history_ms = -1}).events == 0);
    assert_true(sweep((rowlock_sweep_options){0}).events == 0);
    assert_true(sweep((rowlock_sweep_options){.history_ms = 3600000}).events == 5);
    assert_int_equal(events(), before - 5);
    assert_true(sweep((rowlock_sweep_options){.history_rows = 7}).events == before - 12);
    assert_int_equal(events(), 7);
    assert_int_equal(ts_sql_u64(mysql, "SELECT MAX(id) FROM lock_event"), newest);
    assert_true(sweep((rowlock_sweep_options){.history_rows = 7}).events == 0);
}

static void forget(const char *name)
{
    ts_sql(mysql,
           "UPDATE resource SET update_time = UTC_TIMESTAMP(6) - INTERVAL 100 DAY"
           " WHERE resource_name = %s",
           ts_quote(name));
}

static uint64_t rows_in(const char *table, uint64_t id)
{
    return ts_sql_u64(mysql, "SELECT COUNT(*) FROM %s WHERE id = %llu", table,
                      (unsigned long long)id);
}

/* Uses the name so often. Returns the last token. */
static uint64_t use(rowlock_client *from, const char *name, rowlock_mode mode, unsigned times)
{
    uint64_t token = 0;
    for (unsigned i = 0; i < times; i++) {
        TS_HOLD *hold = ts_take(from, name, mode, 30000);
        assert_true(rowlock_hold_token(hold) > token);
        token = rowlock_hold_token(hold);
    }
    return token;
}

TS_BOTH(test_unused_names_are_purged)
{
    const char *name = ts_name("purge");
    const char *fresh = ts_name("purge-fresh");
    const char *held_name = ts_name("purge-held");
    uint64_t token = use(client, name, mode, 5);
    WANT(OK, ts_try(client, fresh, mode));
    rowlock_hold *held = ts_take(client, held_name, mode, 30000);
    uint64_t id = ts_id_of(mysql, name);
    forget(name);
    forget(held_name);
    assert_true(sweep((rowlock_sweep_options){.unused_ms = -1}).purged == 0);
    assert_true(sweep((rowlock_sweep_options){0}).purged == 1);
    rowlock_list *list = NULL;
    WANT(NOT_FOUND, rowlock_list_one(client, name, &list, &ts_err));
    assert_int_equal(
        rows_in("resource", id) + rows_in("resource_lock", id) + rows_in("lease_renewal", id), 0);
    assert_int_equal(state_of(fresh), ROWLOCK_FREE);
    assert_int_equal(state_of(held_name), ROWLOCK_HELD);
    WANT(OK, rowlock_release(held, &ts_err));
    /* A client that remembers the old row, and one that never saw it. */
    rowlock_hold *again = ts_take(client, name, mode, 30000);
    assert_true(rowlock_hold_token(again) > token);
    token = rowlock_hold_token(again);
    WANT(BUSY, ts_try(other, name, mode));
    WANT(OK, rowlock_release(again, &ts_err));
    token = use(other, name, mode, 1);
    /* The name may come back as another kind; its tokens do not come back. */
    forget(name);
    assert_true(sweep((rowlock_sweep_options){0}).purged == 1);
    assert_true(use(other, name, ts_modes[mode == ts_modes[0]], 1) > token);
    WANT(MODE, ts_try(client, name, mode));
}

TS_MAIN("looking", open_admin, close_admin)
