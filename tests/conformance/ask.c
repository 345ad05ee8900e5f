/* Asks: the holder of a lock is asked to stop, is told, and decides. */
#include "conformance/clients.h"

/* An ask is heard within a third of it. */
enum { TTL = TS_KEPT_TTL };

/* What on_ask was told. */
typedef struct heard {
    atomic_int times;
    rowlock_hold *hold;
    rowlock_asked what[8]; /* each time */
    bool release;
    rowlock_status released;
    atomic_bool *gate; /* the callback waits until it is open */
} heard;

static void on_ask(void *data, rowlock_hold *hold, const rowlock_asked *what)
{
    heard *h = data;
    h->hold = hold;
    h->what[atomic_load(&h->times)] = *what;
    atomic_fetch_add(&h->times, 1);
    while (h->gate && !atomic_load(h->gate))
        ts_pass_ms(1);
    if (h->release)
        h->released = rowlock_release(hold, NULL);
    if (h->release)
        atomic_fetch_add(&h->times, 1);
}

static const rowlock_asked *last(heard *h)
{
    static const rowlock_asked nothing;
    const int times = atomic_load(&h->times);
    return times > 0 ? &h->what[times - 1] : &nothing;
}

static rowlock_acquire_options listening(rowlock_mode mode, heard *h)
{
    return (rowlock_acquire_options){.mode = mode,
                                     .wait_ms = 10000,
                                     .ttl_ms = TTL,
                                     .on_ask = h ? on_ask : NULL,
                                     .on_ask_data = h};
}

static rowlock_hold *take(rowlock_client *from, const char *name, rowlock_mode mode, heard *h)
{
    return ts_take_with(from, name, listening(mode, h));
}

static void ask(const char *name, const char *reason)
{
    const rowlock_ask_options options = {.reason = reason};
    WANT(OK, rowlock_ask(other, name, &options, &ts_err));
}

static bool hears(heard *h, int times)
{
    return POLL_UNTIL(atomic_load(&h->times) >= times, 20000) && atomic_load(&h->times) == times;
}

/* Waits long enough for any ask to be heard: two looks. */
static void let_it_renew(rowlock_hold *hold)
{
    ASSERT_KEPT(hold, TTL * 3 / 4);
}

static uint64_t asks_in_table(const char *name)
{
    return ts_rows_of(watch, "lock_ask", name, "");
}

/* ------------------------------------------------------------------------ one holder */

/* A late ask, which comes after a later holder was asked. */
TS_ONCE(test_a_late_ask_changes_nothing)
{
    const char *name = ts_name("late");
    rowlock_hold *hold = take(client, name, ROWLOCK_OPTIMISTIC, NULL);
    ask(name, "first");
    ts_sql(
        watch,
        "UPDATE lock_ask a JOIN resource r ON r.id = a.resource_id"
        " SET a.version = r.version + 1, a.reason = 'of the next one' WHERE r.resource_name = %s",
        ts_quote(name));
    ask(name, "late");
    char *got = ts_sql_text(watch,
                            "SELECT CONCAT(a.version - r.version, ' ', a.number, ' ', a.reason)"
                            " FROM lock_ask a JOIN resource r ON r.id = a.resource_id"
                            " WHERE r.resource_name = %s",
                            ts_quote(name));
    assert_string_equal(got, "1 1 of the next one");
    free(got);
    WANT(OK, rowlock_release(hold, &ts_err));
}

/* The holder is told once, by whom and why, with the time that is left; and it keeps the lock. */
TS_BOTH(test_a_holder_hears_of_it)
{
    const char *name = ts_name("hears");
    heard h = {0};
    TS_HOLD *hold = take(client, name, mode, &h);
    const uint64_t token = rowlock_hold_token(hold);
    rowlock_asked asked = {.left_ms = -7};
    assert_false(rowlock_hold_asked(hold, &asked));
    assert_int_equal(asked.left_ms, -7);
    const rowlock_ask_options options = {.grace_ms = 90000, .reason = "a deploy"};
    WANT(OK, rowlock_ask(other, name, &options, &ts_err));
    assert_true(hears(&h, 1));
    assert_ptr_equal(h.hold, hold);
    assert_string_equal(last(&h)->name, name);
    assert_string_equal(last(&h)->reason, "a deploy");
    assert_true(*last(&h)->by);
    assert_between(60000, last(&h)->left_ms, 90000);
    assert_true(strcmp(last(&h)->asked_at, last(&h)->stop_by) < 0);
    assert_true(rowlock_hold_asked(hold, NULL));
    assert_true(rowlock_hold_asked(hold, &asked));
    assert_string_equal(asked.reason, "a deploy");
    assert_string_equal(asked.name, name);
    /* It is told once, however often it is renewed, and nothing else happens. */
    let_it_renew(hold);
    assert_int_equal(atomic_load(&h.times), 1);
    assert_true(rowlock_hold_token(hold) == token);
    WANT(BUSY, ts_try(other, name, mode));
}

/* Each ask is told once; the newest counts. */
TS_BOTH(test_asked_again)
{
    const char *name = ts_name("again");
    heard h = {0};
    TS_HOLD *hold = take(client, name, mode, &h);
    ask(name, "one");
    assert_true(hears(&h, 1));
    ask(name, "two");
    assert_true(hears(&h, 2));
    assert_string_equal(last(&h)->reason, "two");
    ask(name, NULL);
    assert_true(hears(&h, 3));
    assert_string_equal(last(&h)->reason, "");
    assert_int_equal(asks_in_table(name), 1);
    let_it_renew(hold);
    assert_int_equal(atomic_load(&h.times), 3);
}

/* Of two asks that come between renewals the last one is told. */
TS_ONCE(test_the_last_one_counts)
{
    const char *name = ts_name("last");
    heard h = {0};
    TS_HOLD *hold = take(client, name, ROWLOCK_OPTIMISTIC, &h);
    ask(name, "one");
    ask(name, "two");
    assert_true(POLL_UNTIL(strcmp(last(&h)->reason, "two") == 0, 20000));
    let_it_renew(hold);
    /* A renewal may have come in between. */
    assert_between(1, atomic_load(&h.times), 2);
}

/* The next holder was not asked, not even the same client again. */
TS_BOTH(test_the_next_one_is_not_asked)
{
    const char *name = ts_name("next");
    heard first = {0};
    heard second = {0};
    rowlock_hold *hold = take(client, name, mode, &first);
    ask(name, "go");
    assert_true(hears(&first, 1));
    WANT(OK, rowlock_release(hold, &ts_err));
    TS_HOLD *again = take(client, name, mode, &second);
    let_it_renew(again);
    assert_int_equal(atomic_load(&second.times), 0);
    assert_false(rowlock_hold_asked(again, NULL));
    /* The number continues after the earlier ask. */
    ask(name, "you, too");
    assert_true(hears(&second, 1));
    assert_string_equal(last(&second)->reason, "you, too");
}

/* The callback releases this lock; a release by another thread waits for the callback. */
TS_BOTH(test_it_is_released_in_the_callback)
{
    const char *name = ts_name("released");
    heard h = {.release = true, .released = ROWLOCK_SYSTEM};
    take(client, name, mode, &h);
    const rowlock_ask_options options = {.wait_ms = 20000};
    WANT(OK, rowlock_ask(other, name, &options, &ts_err));
    assert_true(hears(&h, 2));
    assert_int_equal(h.released, ROWLOCK_OK);
    WANT(OK, ts_try(other, name, mode));
}

static void *release_it(void *hold)
{
    return (void *)(uintptr_t)rowlock_release(hold, NULL);
}

TS_BOTH(test_a_release_waits_for_the_callback)
{
    const char *name = ts_name("waits");
    atomic_bool gate = false;
    heard h = {.gate = &gate};
    pthread_t thread;
    void *released = NULL;
    rowlock_hold *hold = take(client, name, mode, &h);
    ask(name, NULL);
    assert_true(POLL_UNTIL(atomic_load(&h.times) == 1, 20000));
    assert_int_equal(pthread_create(&thread, NULL, release_it, hold), 0);
    /* It is renewed meanwhile. */
    for (int64_t end = ts_now_ms() + TTL * 5 / 4; ts_now_ms() < end; ts_pass_ms(20))
        WANT(BUSY, ts_try(other, name, mode));
    atomic_store(&gate, true);
    pthread_join(thread, &released);
    assert_int_equal((uintptr_t)released, ROWLOCK_OK);
}

/* A lease can be asked without a callback, too: its holder polls. */
TS_ONCE(test_polled)
{
    const char *name = ts_name("polled");
    rowlock_asked asked;
    TS_HOLD *hold = take(client, name, ROWLOCK_OPTIMISTIC, NULL);
    ask(name, "please");
    assert_true(POLL_UNTIL(rowlock_hold_asked(hold, &asked), 20000));
    assert_string_equal(asked.reason, "please");
    assert_false(rowlock_hold_asked(NULL, &asked));
}

/* ----------------------------------------------------------------------- many holders */

/* An ask is for the present readers, not for later ones. */
TS_ONCE(test_readers)
{
    const char *name = ts_name("readers");
    heard h[3] = {0};
    rowlock_acquire_options options = {
        .shared = true, .ttl_ms = TTL, .wait_ms = 5000, .on_ask = on_ask};
    rowlock_hold *holds[3];
    for (int i = 0; i < 2; i++) {
        options.on_ask_data = &h[i];
        holds[i] = ts_take_with(i ? other : client, name, options);
    }
    ask(name, "all out");
    options.on_ask_data = &h[2];
    holds[2] = ts_take_with(client, name, options);
    assert_true(hears(&h[0], 1));
    assert_true(hears(&h[1], 1));
    let_it_renew(holds[2]);
    assert_int_equal(atomic_load(&h[2].times), 0);
    const rowlock_ask_options wait = {.wait_ms = 2000};
    WANT(OK, rowlock_release(holds[0], &ts_err));
    WANT(TIMEOUT, rowlock_ask(other, name, &wait, &ts_err));
    assert_true(hears(&h[2], 1));
    WANT(OK, rowlock_release(holds[1], &ts_err));
    WANT(OK, rowlock_release(holds[2], &ts_err));
}

/* A writer that was asked and becomes a reader is told once. */
TS_ONCE(test_downgraded)
{
    const char *name = ts_name("downgraded");
    heard h = {0};
    TS_HOLD *hold = take(client, name, ROWLOCK_OPTIMISTIC, &h);
    ask(name, "before");
    WANT(OK, rowlock_hold_downgrade(hold, &ts_err));
    assert_true(hears(&h, 1));
    let_it_renew(hold);
    assert_int_equal(atomic_load(&h.times), 1);
    /* As a writer again, with another token, it was not asked, and may be. */
    WANT(OK, rowlock_hold_upgrade(hold, 20000, NULL, &ts_err));
    ask(name, "after");
    assert_true(hears(&h, 2));
    assert_string_equal(last(&h)->reason, "after");
}

/* The holders of all slots are asked; and of a single one. */
TS_BOTH(test_slots)
{
    const char *name = ts_name("slots");
    heard h[2] = {0};
    char slot[300];
    rowlock_acquire_options options = {
        .mode = mode, .slots = 3, .wait_ms = 20000, .ttl_ms = TTL, .on_ask = on_ask};
    rowlock_hold *holds[2];
    for (int i = 0; i < 2; i++) {
        options.on_ask_data = &h[i];
        holds[i] = ts_take_with(client, name, options);
    }
    ask(name, "every slot");
    assert_true(hears(&h[0], 1));
    assert_true(hears(&h[1], 1));
    assert_ptr_equal(h[0].hold, holds[0]);
    assert_string_equal(last(&h[0])->name, rowlock_hold_name_at(holds[0], 0));
    snprintf(slot, sizeof slot, "%s", rowlock_hold_name_at(holds[1], 0));
    ask(slot, "this one");
    assert_true(hears(&h[1], 2));
    let_it_renew(holds[0]);
    assert_int_equal(atomic_load(&h[0].times), 1);
    assert_true(rowlock_hold_asked(holds[1], NULL));
    for (int i = 0; i < 2; i++)
        WANT(OK, rowlock_release(holds[i], &ts_err));
    WANT(NOT_FOUND, rowlock_ask(other, name, NULL, &ts_err));
    WANT(NOT_FOUND, rowlock_ask(other, slot, NULL, &ts_err));
}

/* Each name of a set is asked separately; the set's holder is told which. */
TS_BOTH(test_sets)
{
    const char *names[] = {ts_name("set-a"), ts_name("set-b")};
    heard h = {0};
    rowlock_acquire_options options = listening(mode, &h);
    rowlock_hold *hold = NULL;
    WANT(OK, rowlock_acquire_set(client, names, 2, &options, &hold, &ts_err));
    ask(names[1], "b");
    assert_true(hears(&h, 1));
    assert_ptr_equal(h.hold, hold);
    assert_string_equal(last(&h)->name, names[1]);
    ask(names[0], "a");
    assert_true(hears(&h, 2));
    assert_string_equal(last(&h)->name, names[0]);
    let_it_renew(hold);
    assert_int_equal(atomic_load(&h.times), 2);
    WANT(OK, rowlock_release(hold, &ts_err));
}

/* ---------------------------------------------------------------------------- the wait */

static uint64_t number_of_asks(const char *name)
{
    return ts_sql_u64(watch,
                      "SELECT COALESCE(MAX(a.number), 0) FROM lock_ask a"
                      " JOIN resource r ON r.id = a.resource_id WHERE r.resource_name = %s",
                      ts_quote(name));
}

typedef struct asked_holder {
    rowlock_hold *hold;
    uint64_t asks; /* number of earlier asks */
    rowlock_status released;
} asked_holder;

/* Not before the ask, or the next holder would be asked, and waited for. */
static void *release_when_asked(void *data)
{
    asked_holder *of = data;
    (void)POLL_UNTIL(number_of_asks(rowlock_hold_name(of->hold)) > of->asks, 20000);
    of->released = rowlock_release(of->hold, NULL);
    return NULL;
}

/* Waits until the asked hold has ended, and not for the next holder. */
TS_BOTH(test_the_end_is_waited_for)
{
    const char *name = ts_name("end");
    rowlock_hold *hold = take(client, name, mode, NULL);
    rowlock_ask_options options = {.wait_ms = 2000};
    const int64_t begun = ts_now_ms();
    WANT(TIMEOUT, rowlock_ask(other, name, &options, &ts_err));
    assert_between(2000, ts_now_ms() - begun, 2000 + ts_slack_ms());
    assert_non_null(strstr(ts_err.message, "still holds"));
    assert_held(hold);
    rowlock_cancel *cancel = NULL;
    WANT(OK, rowlock_cancel_new(&cancel, &ts_err));
    rowlock_cancel_fire(cancel);
    options = (rowlock_ask_options){.wait_ms = ROWLOCK_WAIT_FOREVER, .cancel = cancel};
    WANT(CANCELLED, rowlock_ask(other, name, &options, &ts_err));
    rowlock_cancel_free(cancel);
    ts_waiter next = {.client = client, .name = name, .options = {.mode = mode, .wait_ms = 20000}};
    ts_waiter_start(&next);
    pthread_t thread;
    asked_holder of = {.hold = hold, .asks = number_of_asks(name)};
    assert_int_equal(pthread_create(&thread, NULL, release_when_asked, &of), 0);
    options = (rowlock_ask_options){.wait_ms = 20000};
    WANT(OK, rowlock_ask(other, name, &options, &ts_err));
    pthread_join(thread, NULL);
    WANT(OK, of.released);
    WANT(OK, ts_waiter_join(&next, 20000));
    WANT(OK, rowlock_release(next.hold, &ts_err));
}

typedef struct asking {
    const char *name;
    rowlock_status status;
} asking;

static void *ask_and_wait(void *data)
{
    asking *a = data;
    const rowlock_ask_options options = {.wait_ms = 20000};
    a->status = rowlock_ask(other, a->name, &options, NULL);
    return NULL;
}

/* Waits for readers that were asked, not for later ones. */
TS_ONCE(test_the_end_of_those_who_were_in)
{
    const rowlock_acquire_options options = {.shared = true, .ttl_ms = TTL, .wait_ms = 5000};
    static asking a;
    pthread_t thread;
    a = (asking){.name = ts_name("were-in"), .status = ROWLOCK_SYSTEM};
    rowlock_hold *first = ts_take_with(client, a.name, options);
    assert_int_equal(pthread_create(&thread, NULL, ask_and_wait, &a), 0);
    assert_true(POLL_UNTIL(asks_in_table(a.name) == 1, 10000));
    TS_HOLD *second = ts_take_with(client, a.name, options);
    WANT(OK, rowlock_release(first, &ts_err));
    pthread_join(thread, NULL);
    assert_int_equal(a.status, ROWLOCK_OK);
    assert_held(second);
}

/* A dead holder does not release: its lease expires, and the wait ends. */
TS_BOTH(test_a_dead_holder)
{
    const char *name = ts_name("dead");
    rowlock_hold *hold = ts_take(client, name, mode, 300000); /* it is not renewed meanwhile */
    ts_expire(watch, name, mode);
    const rowlock_ask_options options = {.wait_ms = 10000};
    rowlock_status status = rowlock_ask(other, name, &options, &ts_err);
    assert_true(status == ROWLOCK_OK || status == ROWLOCK_NOT_FOUND);
    (void)!rowlock_release(hold, NULL);
    WANT(NOT_FOUND, rowlock_ask(other, name, NULL, &ts_err));
}

/* --------------------------------------------------------------------------- bad input */

/* Without a holder nothing is written. */
TS_BOTH(test_nobody_holds_it)
{
    const char *name = ts_name("nobody");
    WANT(NOT_FOUND, rowlock_ask(other, name, NULL, &ts_err));
    assert_non_null(strstr(ts_err.message, name));
    WANT(OK, ts_try(client, name, mode));
    WANT(NOT_FOUND, rowlock_ask(other, name, NULL, &ts_err));
    assert_non_null(strstr(ts_err.message, "nobody holds"));
    assert_int_equal(asks_in_table(name), 0);
}

TS_ONCE(test_unfenced)
{
    const char *name = ts_name("unfenced");
    heard h = {0};
    rowlock_acquire_options options = listening(ROWLOCK_PESSIMISTIC, &h);
    options.unfenced = true;
    TS_HOLD *hold = ts_take_with(client, name, options);
    WANT(NOT_FOUND, rowlock_ask(other, name, NULL, &ts_err));
    assert_non_null(strstr(ts_err.message, "unfenced"));
    assert_held(hold);
}

TS_ONCE(test_what_may_not_be)
{
    const char *name = ts_name("bad");
    rowlock_ask_options options = {0};
    TS_HOLD *hold = take(client, name, ROWLOCK_OPTIMISTIC, NULL);
    WANT(INVALID, rowlock_ask(NULL, name, NULL, &ts_err));
    WANT(INVALID, rowlock_ask(other, NULL, NULL, &ts_err));
    WANT(INVALID, rowlock_ask(other, "", NULL, &ts_err));
    options.grace_ms = -1;
    WANT(INVALID, rowlock_ask(other, name, &options, &ts_err));
    options.grace_ms = 86400001;
    WANT(INVALID, rowlock_ask(other, name, &options, &ts_err));
    assert_int_equal(asks_in_table(name), 0);
    options = (rowlock_ask_options){.grace_ms = 86400000};
    WANT(OK, rowlock_ask(other, name, &options, NULL));
}

/* Any text arrives as it is, or cut, and breaks nothing. */
TS_ONCE(test_hostile_text)
{
    static const char evil[] = "'; DROP TABLE lock_ask; -- \" \\ \x1b[31m\n\r\t %s \xff \xc3\xa9";
    const char *name = ts_name("ho'st\"ile\\");
    char longer[2000];
    heard h = {0};
    TS_HOLD *hold = take(client, name, ROWLOCK_OPTIMISTIC, &h);
    ask(name, evil);
    assert_true(hears(&h, 1));
    assert_non_null(strstr(last(&h)->reason, "DROP TABLE lock_ask"));
    assert_null(strchr(last(&h)->reason, '\n'));
    memset(longer, 0, sizeof longer);
    for (size_t i = 0; i + 3 < sizeof longer; i += 3)
        memcpy(longer + i, "\xe2\x82\xac", 3);
    ask(name, longer);
    assert_true(hears(&h, 2));
    assert_between(240, (int64_t)strlen(last(&h)->reason), 250);
    assert_int_equal(strlen(last(&h)->reason) % 3, 0);
}

/* ------------------------------------------------------------------------ lists */

/* The ask is in the list while the lock is held, and in the history. */
TS_BOTH(test_it_is_listed)
{
    const char *name = ts_name("listed");
    rowlock_list *list = NULL;
    rowlock_hold *hold = take(client, name, mode, NULL);
    WANT(OK, rowlock_list_one(other, name, &list, &ts_err));
    assert_string_equal(rowlock_list_at(list, 0)->asked_at, "");
    rowlock_list_free(list);
    ask(name, "look");
    WANT(OK, rowlock_list_one(other, name, &list, &ts_err));
    const rowlock_info *info = rowlock_list_at(list, 0);
    assert_string_equal(info->asked_why, "look");
    assert_true(*info->asked_by);
    assert_true(strcmp(info->asked_at, info->stop_by) < 0);
    rowlock_list_free(list);
    WANT(OK, rowlock_release(hold, &ts_err));
    TS_HOLD *next = take(client, name, mode, NULL);
    WANT(OK, rowlock_list_one(other, name, &list, &ts_err));
    assert_string_equal(rowlock_list_at(list, 0)->asked_at, "");
    rowlock_list_free(list);
    assert_held(next);
    WANT(OK, rowlock_client_flush(other, 10000, &ts_err));
    char *detail = ts_sql_text(watch,
                               "SELECT detail FROM lock_event WHERE resource_name = %s AND event ="
                               " 'asked'",
                               ts_quote(name));
    assert_non_null(strstr(detail, "within 1m: look"));
    free(detail);
}

TS_MAIN("ask", open_clients, close_clients)
