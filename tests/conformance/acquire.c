/* Acquire, wait, cancel, release: the same for both modes. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/support.h"

static void test_acquire_and_release(void **state)
{
    rowlock_mode mode = ts_mode(state);
    const char *name = ts_name("cycle");
    rowlock_client *client = ts_open();
    rowlock_client *other = ts_open();
    rowlock_hold *hold = ts_take(client, name, mode, 30000);
    WANT(BUSY, ts_try(other, name, mode));
    WANT(OK, rowlock_release(hold, &ts_err));
    WANT(OK, ts_try(other, name, mode));
    WANT(OK, ts_try(client, name, mode));
    rowlock_client_close(client);
    rowlock_client_close(other);
}

static void test_defaults(void **state)
{
    rowlock_client *client = ts_open();
    rowlock_hold *hold = NULL;
    (void)state;
    WANT(OK, rowlock_acquire(client, ts_name("default"), NULL, &hold, &ts_err));
    assert_int_equal(rowlock_hold_mode(hold), ROWLOCK_OPTIMISTIC);
    assert_between(ROWLOCK_TTL_DEFAULT_MS / 2, rowlock_hold_remaining_ms(hold),
                   ROWLOCK_TTL_DEFAULT_MS);
    WANT(OK, rowlock_release(hold, NULL));
    rowlock_client_close(client);
}

static void test_what_a_hold_says(void **state)
{
    rowlock_mode mode = ts_mode(state);
    const char *name = ts_name("says");
    rowlock_client *client = ts_open();
    rowlock_hold *hold = ts_take(client, name, mode, 20000);
    assert_true(rowlock_hold_token(hold) > 0);
    assert_string_equal(rowlock_hold_name(hold), name);
    assert_int_equal(rowlock_hold_mode(hold), mode);
    assert_int_equal(rowlock_hold_count(hold), 1);
    assert_string_equal(rowlock_hold_name_at(hold, 0), name);
    assert_true(rowlock_hold_token_at(hold, 0) == rowlock_hold_token(hold));
    assert_null(rowlock_hold_name_at(hold, 1));
    assert_true(rowlock_hold_token_at(hold, 1) == 0);
    assert_int_equal(rowlock_hold_depth(hold), 1);
    assert_between(0, rowlock_hold_waited_ms(hold), 1000 + ts_slack_ms());
    assert_between(15000, rowlock_hold_remaining_ms(hold), 20000);
    assert_held(hold);
    assert_between(1, (int64_t)strlen(rowlock_hold_owner(hold)), ROWLOCK_OWNER_MAX);
    MYSQL *mysql = ts_connect(ts_schema());
    char *owner =
        ts_sql_text(mysql, "SELECT owner FROM resource WHERE resource_name = %s", ts_quote(name));
    assert_string_equal(owner, rowlock_hold_owner(hold));
    free(owner);
    mysql_close(mysql);
    WANT(OK, rowlock_release(hold, &ts_err));
    rowlock_client_close(client);
}

static void test_owners_are_unique(void **state)
{
    rowlock_mode mode = ts_mode(state);
    rowlock_client *client = ts_open();
    rowlock_hold *a = ts_take(client, ts_name("owner-a"), mode, 30000);
    rowlock_hold *b = ts_take(client, ts_name("owner-b"), mode, 30000);
    assert_string_not_equal(rowlock_hold_owner(a), rowlock_hold_owner(b));
    WANT(OK, rowlock_release(a, &ts_err));
    WANT(OK, rowlock_release(b, &ts_err));
    rowlock_client_close(client);
}

/* ------------------------------------------------------------------------- waiting */

static void test_a_try_is_busy_at_once(void **state)
{
    rowlock_mode mode = ts_mode(state);
    const char *name = ts_name("try");
    rowlock_client *client = ts_open();
    rowlock_client *other = ts_open();
    rowlock_hold *hold = ts_take(client, name, mode, 30000);
    for (int i = 0; i < 3; i++) {
        int64_t start = ts_now_ms();
        WANT(BUSY, ts_try(other, name, mode));
        assert_between(0, ts_now_ms() - start, ts_slack_ms());
    }
    assert_non_null(strstr(ts_err.message, name));
    WANT(OK, rowlock_release(hold, &ts_err));
    rowlock_client_close(client);
    rowlock_client_close(other);
}

static void test_a_wait_ends_on_time(void **state)
{
    static const int64_t waits[] = {1, 40, 250, 1300};
    rowlock_mode mode = ts_mode(state);
    const char *name = ts_name("timeout");
    rowlock_client *client = ts_open();
    rowlock_client *other = ts_open();
    int64_t stood = ts_stood_ms();
    rowlock_hold *hold = ts_take(client, name, mode, 30000);
    WANT(BUSY, ts_try(other, name, mode));
    for (size_t i = 0; i < sizeof waits / sizeof waits[0]; i++) {
        rowlock_acquire_options options = {.mode = mode, .wait_ms = waits[i]};
        rowlock_hold *none = NULL;
        int64_t start = ts_now_ms();
        WANT_TIMEOUT(mode, stood, rowlock_acquire(other, name, &options, &none, &ts_err));
        assert_between(waits[i] - 1, ts_now_ms() - start, waits[i] + ts_slack_ms());
        assert_null(none);
        assert_non_null(strstr(ts_err.message, name));
    }
    WANT(OK, rowlock_release(hold, &ts_err));
    /* Nothing of the broken-off waits is left in the way. (On a machine that stood still, one that
     * could not be stopped in time may be, until the server sees that its connection has ended.) */
    assert_true(POLL_UNTIL(ts_try(client, name, mode) == ROWLOCK_OK, ts_stood_ms() - stood));
    WANT(OK, ts_try(client, name, mode));
    WANT(OK, ts_try(other, name, mode));
    rowlock_client_close(client);
    rowlock_client_close(other);
}

static void test_a_waiter_gets_it_when_it_is_released(void **state)
{
    static const int64_t waits[] = {ROWLOCK_WAIT_FOREVER, 20000};
    rowlock_mode mode = ts_mode(state);
    rowlock_client *client = ts_open();
    rowlock_client *other = ts_open();
    for (size_t i = 0; i < 2; i++) {
        const char *name = ts_name("handover");
        rowlock_hold *hold = ts_take(client, name, mode, 30000);
        uint64_t token = rowlock_hold_token(hold);
        ts_waiter waiter = {.client = other, .name = name};
        waiter.options = (rowlock_acquire_options){.mode = mode, .wait_ms = waits[i]};
        ts_waiter_start(&waiter);
        ts_pass_ms(600);
        assert_false(ts_waiter_ended(&waiter));
        WANT(OK, rowlock_release(hold, &ts_err));
        WANT(OK, ts_waiter_join(&waiter, 10000));
        assert_true(rowlock_hold_token(waiter.hold) > token);
        /* Its thread may have begun a little later than it was started. */
        assert_between(600 - ts_slack_ms(), rowlock_hold_waited_ms(waiter.hold),
                       waiter.ended_ms - waiter.started_ms + 1);
        WANT(OK, rowlock_release(waiter.hold, &ts_err));
    }
    rowlock_client_close(client);
    rowlock_client_close(other);
}

/* Two of one client: the second waits for the first like any other. */
static void test_threads_of_one_client_exclude_each_other(void **state)
{
    rowlock_mode mode = ts_mode(state);
    const char *name = ts_name("threads");
    rowlock_client *client = ts_open();
    rowlock_hold *hold = ts_take(client, name, mode, 30000);
    WANT(BUSY, ts_try(client, name, mode));
    ts_waiter waiter = {.client = client, .name = name};
    waiter.options = (rowlock_acquire_options){.mode = mode, .wait_ms = 20000};
    ts_waiter_start(&waiter);
    WANT(OK, rowlock_release(hold, &ts_err));
    WANT(OK, ts_waiter_join(&waiter, 10000));
    WANT(OK, rowlock_release(waiter.hold, &ts_err));
    rowlock_client_close(client);
}

/* The holder is gone without a word: the next one is in when its time is over. */
static void test_a_waiter_gets_it_when_the_holder_is_gone(void **state)
{
    rowlock_mode mode = ts_mode(state);
    const char *name = ts_name("gone");
    rowlock_client *client = ts_open();
    rowlock_client *other = ts_open();
    MYSQL *mysql = ts_connect(ts_schema());
    rowlock_hold *hold = ts_take(client, name, mode, 30000);
    uint64_t token = rowlock_hold_token(hold);
    ts_waiter waiter = {.client = other, .name = name};
    waiter.options = (rowlock_acquire_options){.mode = mode, .wait_ms = 20000};
    ts_waiter_start(&waiter);
    ts_expire(mysql, name, mode);
    WANT(OK, ts_waiter_join(&waiter, 10000));
    assert_true(rowlock_hold_token(waiter.hold) > token);
    WANT(OK, rowlock_release(waiter.hold, &ts_err));
    WANT(LOST, rowlock_release(hold, &ts_err));
    mysql_close(mysql);
    rowlock_client_close(client);
    rowlock_client_close(other);
}

/* -------------------------------------------------------------------------- cancel */

static void check_cancelled(ts_waiter *waiter, int64_t fired_ms)
{
    WANT(CANCELLED, ts_waiter_join(waiter, 10000));
    assert_between(-1, waiter->ended_ms - fired_ms, ts_slack_ms());
    assert_null(waiter->hold);
}

static void test_cancel_from_another_thread(void **state)
{
    rowlock_mode mode = ts_mode(state);
    const char *name = ts_name("cancel");
    rowlock_client *client = ts_open();
    rowlock_client *other = ts_open();
    rowlock_cancel *cancel = NULL;
    WANT(OK, rowlock_cancel_new(&cancel, &ts_err));
    rowlock_hold *hold = ts_take(client, name, mode, 30000);
    rowlock_acquire_options options = {.mode = mode, .wait_ms = -1, .cancel = cancel};
    ts_waiter first = {.client = other, .name = name, .options = options};
    ts_waiter second = {.client = client, .name = name, .options = options};
    ts_waiter_start(&first);
    ts_waiter_start(&second);
    ts_pass_ms(400);
    int64_t fired = ts_now_ms();
    rowlock_cancel_fire(cancel);
    check_cancelled(&first, fired);
    check_cancelled(&second, fired);
    /* "now and later" */
    ts_waiter late = {.client = other, .name = name, .options = options};
    fired = ts_now_ms();
    ts_waiter_start(&late);
    check_cancelled(&late, fired);
    rowlock_cancel_reset(cancel);
    WANT(OK, rowlock_release(hold, &ts_err));
    ts_waiter again = {.client = other, .name = name, .options = options};
    ts_waiter_start(&again);
    WANT(OK, ts_waiter_join(&again, 10000));
    WANT(OK, rowlock_release(again.hold, &ts_err));
    rowlock_client_close(client);
    rowlock_client_close(other);
    rowlock_cancel_free(cancel);
}

static rowlock_cancel *signal_cancel;

static void on_signal(int number)
{
    (void)number;
    rowlock_cancel_fire(signal_cancel);
}

static void test_cancel_from_a_signal_handler(void **state)
{
    rowlock_mode mode = ts_mode(state);
    const char *name = ts_name("signal");
    rowlock_client *client = ts_open();
    rowlock_client *other = ts_open();
    WANT(OK, rowlock_cancel_new(&signal_cancel, &ts_err));
    struct sigaction action = {.sa_handler = on_signal};
    struct sigaction before;
    sigaction(SIGUSR1, &action, &before);
    rowlock_hold *hold = ts_take(client, name, mode, 30000);
    ts_waiter waiter = {.client = other, .name = name};
    waiter.options =
        (rowlock_acquire_options){.mode = mode, .wait_ms = -1, .cancel = signal_cancel};
    ts_waiter_start(&waiter);
    ts_pass_ms(200);
    int64_t fired = ts_now_ms();
    pthread_kill(waiter.thread, SIGUSR1);
    check_cancelled(&waiter, fired);
    sigaction(SIGUSR1, &before, NULL);
    WANT(OK, rowlock_release(hold, &ts_err));
    rowlock_client_close(client);
    rowlock_client_close(other);
    rowlock_cancel_free(signal_cancel);
}

/* -------------------------------------------------------------------------- tokens */

static void test_tokens_rise(void **state)
{
    rowlock_mode mode = ts_mode(state);
    const char *name = ts_name("tokens");
    rowlock_client *clients[2] = {ts_open(), ts_open()};
    uint64_t last = 0;
    for (unsigned i = 0; i < 20; i++) {
        rowlock_hold *hold = ts_take(clients[i % 2], name, mode, 30000);
        assert_true(rowlock_hold_token(hold) > last);
        last = rowlock_hold_token(hold);
        WANT(OK, rowlock_release(hold, &ts_err));
    }
    rowlock_client_close(clients[0]);
    rowlock_client_close(clients[1]);
}

typedef struct token_child {
    const char *name;
    rowlock_mode mode;
    int out;
} token_child;

static int take_and_tell(void *arg)
{
    token_child *child = arg;
    rowlock_client_options options = ts_options();
    rowlock_client *client = NULL;
    rowlock_hold *hold = NULL;
    rowlock_acquire_options how = {.mode = child->mode, .wait_ms = 10000};
    if (rowlock_client_open(&options, &client, NULL) != ROWLOCK_OK)
        return 1;
    for (int i = 0; i < 5; i++) {
        if (rowlock_acquire(client, child->name, &how, &hold, NULL) != ROWLOCK_OK)
            return 2;
        uint64_t token = rowlock_hold_token(hold);
        if (write(child->out, &token, sizeof token) != sizeof token)
            return 3;
        if (rowlock_release(hold, NULL) != ROWLOCK_OK)
            return 4;
    }
    rowlock_client_close(client);
    return 0;
}

/* Written while holding: the order in the pipe is the order of the holds. */
static void test_tokens_rise_across_processes(void **state)
{
    token_child child = {.name = ts_name("processes"), .mode = ts_mode(state)};
    int pipes[2];
    assert_int_equal(pipe(pipes), 0);
    child.out = pipes[1];
    pid_t pids[4];
    for (int i = 0; i < 4; i++)
        pids[i] = ts_fork(take_and_tell, &child);
    close(pipes[1]);
    uint64_t last = 0;
    uint64_t token = 0;
    for (int i = 0; i < 20; i++) {
        assert_int_equal(read(pipes[0], &token, sizeof token), (ssize_t)sizeof token);
        assert_true(token > last);
        last = token;
    }
    for (int i = 0; i < 4; i++)
        assert_int_equal(ts_reap(pids[i], 20000), 0);
    close(pipes[0]);
}

/* ---------------------------------------------------------------------------- kinds */

static rowlock_status section_of_nothing(void *data, const rowlock_section *section)
{
    (void)section;
    ++*(int *)data;
    return ROWLOCK_OK;
}

static void test_a_name_keeps_its_kind(void **state)
{
    rowlock_mode mode = ts_mode(state);
    rowlock_mode wrong = mode == ROWLOCK_OPTIMISTIC ? ROWLOCK_PESSIMISTIC : ROWLOCK_OPTIMISTIC;
    const char *name = ts_name("kind");
    rowlock_client *client = ts_open();
    rowlock_client *other = ts_open();
    rowlock_hold *hold = ts_take(client, name, mode, 30000);
    MYSQL *mysql = ts_connect(ts_schema());
    char *before = ts_dump(mysql, ts_schema());
    WANT(MODE, ts_try(client, name, wrong));
    WANT(MODE, ts_try(other, name, wrong));
    assert_non_null(strstr(ts_err.message, name));
    if (mode == ROWLOCK_PESSIMISTIC) {
        uint64_t version = 0;
        int calls = 0;
        WANT(MODE, rowlock_version_read(other, name, &version, &ts_err));
        WANT(MODE, rowlock_version_bump(other, name, 1, &version, &ts_err));
        WANT(MODE,
             rowlock_section_run(other, name, NULL, section_of_nothing, &calls, NULL, &ts_err));
        assert_int_equal(calls, 0);
    }
    char *after = ts_dump(mysql, ts_schema());
    assert_string_equal(before, after);
    free(before);
    free(after);
    WANT(OK, rowlock_release(hold, &ts_err));
    WANT(MODE, ts_try(other, name, wrong));
    mysql_close(mysql);
    rowlock_client_close(client);
    rowlock_client_close(other);
}

/* --------------------------------------------------------------------- re-entrance */

static rowlock_hold *reenter(rowlock_client *client, const char *name, rowlock_mode mode)
{
    rowlock_hold *hold = NULL;
    rowlock_acquire_options options = {.mode = mode, .wait_ms = 1000, .reentrant = true};
    WANT(OK, rowlock_acquire(client, name, &options, &hold, &ts_err));
    return hold;
}

static void test_reentrance_counts(void **state)
{
    rowlock_mode mode = ts_mode(state);
    const char *name = ts_name("reenter");
    rowlock_client *client = ts_open();
    rowlock_client *other = ts_open();
    rowlock_hold *hold = reenter(client, name, mode);
    uint64_t token = rowlock_hold_token(hold);
    assert_ptr_equal(reenter(client, name, mode), hold);
    assert_ptr_equal(reenter(client, name, mode), hold);
    assert_int_equal(rowlock_hold_depth(hold), 3);
    assert_true(rowlock_hold_token(hold) == token);
    WANT(OK, rowlock_release(hold, &ts_err));
    WANT(OK, rowlock_release(hold, &ts_err));
    assert_int_equal(rowlock_hold_depth(hold), 1);
    assert_held(hold);
    WANT(BUSY, ts_try(other, name, mode));
    WANT(OK, rowlock_release(hold, &ts_err));
    WANT(OK, ts_try(other, name, mode));
    /* Gone for good: the next one is a new hold. */
    hold = reenter(client, name, mode);
    assert_int_equal(rowlock_hold_depth(hold), 1);
    assert_true(rowlock_hold_token(hold) > token);
    WANT(OK, rowlock_release(hold, &ts_err));
    rowlock_client_close(client);
    rowlock_client_close(other);
}

static void test_reentrance_is_for_one_thread(void **state)
{
    rowlock_mode mode = ts_mode(state);
    const char *name = ts_name("reenter-thread");
    rowlock_client *client = ts_open();
    rowlock_hold *hold = reenter(client, name, mode);
    ts_waiter waiter = {.client = client, .name = name};
    waiter.options = (rowlock_acquire_options){.mode = mode, .wait_ms = 10000, .reentrant = true};
    ts_waiter_start(&waiter);
    /* Once more by the first thread must not let the other one in either. */
    assert_ptr_equal(reenter(client, name, mode), hold);
    WANT(OK, rowlock_release(hold, &ts_err));
    ts_pass_ms(100);
    assert_false(ts_waiter_ended(&waiter));
    WANT(OK, rowlock_release(hold, &ts_err));
    WANT(OK, ts_waiter_join(&waiter, 10000));
    assert_int_equal(rowlock_hold_depth(waiter.hold), 1);
    WANT(OK, rowlock_release(waiter.hold, &ts_err));
    rowlock_client_close(client);
}

static void test_without_asking_nothing_is_reentrant(void **state)
{
    rowlock_mode mode = ts_mode(state);
    const char *name = ts_name("not-reentrant");
    rowlock_client *client = ts_open();
    rowlock_hold *hold = reenter(client, name, mode);
    WANT(BUSY, ts_try(client, name, mode));
    WANT(OK, rowlock_release(hold, &ts_err));
    rowlock_client_close(client);
}

/* A hold that is lost is not handed out again as if it were good. */
static void test_a_lost_hold_is_not_reentered(void **state)
{
    rowlock_mode mode = ts_mode(state);
    const char *name = ts_name("reenter-lost");
    rowlock_client *client = ts_open();
    rowlock_client *breaker = ts_open();
    rowlock_hold *hold = NULL;
    rowlock_acquire_options options = {
        .mode = mode, .wait_ms = 1000, .ttl_ms = ts_short_ttl(mode), .reentrant = true};
    WANT(OK, rowlock_acquire(client, name, &options, &hold, &ts_err));
    WANT(OK, rowlock_break(breaker, name, "test", &ts_err));
    assert_true(POLL_UNTIL(rowlock_hold_check(hold) == ROWLOCK_LOST, 10000));
    rowlock_hold *again = NULL;
    rowlock_status status = rowlock_acquire(client, name, &options, &again, &ts_err);
    if (status == ROWLOCK_OK) {
        assert_ptr_not_equal(again, hold);
        assert_held(again);
        WANT(OK, rowlock_release(again, &ts_err));
    } else {
        assert_int_equal(status, ROWLOCK_LOST);
    }
    WANT(LOST, rowlock_release(hold, &ts_err));
    rowlock_client_close(client);
    rowlock_client_close(breaker);
}

/* -------------------------------------------------------------------------- release */

static void test_release_without_a_reply(void **state)
{
    const char *name = ts_name("no-reply");
    rowlock_client *client = ts_open();
    rowlock_client *other = ts_open();
    (void)state;
    for (int i = 0; i < 10; i++) {
        rowlock_hold *hold = ts_take(i % 2 ? client : other, name, ROWLOCK_PESSIMISTIC, 30000);
        rowlock_release_options options = {.no_reply = true};
        WANT(OK, rowlock_release_with(hold, &options, &ts_err));
    }
    rowlock_client_close(client);
    WANT(OK, rowlock_release(ts_take(other, name, ROWLOCK_PESSIMISTIC, 30000), &ts_err));
    rowlock_client_close(other);
}

static void test_close_releases_what_is_held(void **state)
{
    rowlock_mode mode = ts_mode(state);
    const char *names[2] = {ts_name("close-a"), ts_name("close-b")};
    rowlock_client *client = ts_open();
    rowlock_client *other = ts_open();
    for (int i = 0; i < 2; i++)
        (void)ts_take(client, names[i], mode, 30000);
    rowlock_client_close(client);
    for (int i = 0; i < 2; i++)
        WANT(OK, ts_try(other, names[i], mode));
    rowlock_client_close(other);
}

static void test_nothing_to_destroy(void **state)
{
    (void)state;
    rowlock_client_close(NULL);
    rowlock_cancel_free(NULL);
    rowlock_list_free(NULL);
    rowlock_history_free(NULL);
    WANT(INVALID, rowlock_release(NULL, &ts_err));
    WANT(INVALID, rowlock_release_with(NULL, NULL, &ts_err));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(test_acquire_and_release),
        ONCE(test_defaults),
        BOTH(test_what_a_hold_says),
        BOTH(test_owners_are_unique),
        BOTH(test_a_try_is_busy_at_once),
        BOTH(test_a_wait_ends_on_time),
        BOTH(test_a_waiter_gets_it_when_it_is_released),
        BOTH(test_threads_of_one_client_exclude_each_other),
        BOTH(test_a_waiter_gets_it_when_the_holder_is_gone),
        BOTH(test_cancel_from_another_thread),
        BOTH(test_cancel_from_a_signal_handler),
        BOTH(test_tokens_rise),
        BOTH(test_tokens_rise_across_processes),
        BOTH(test_a_name_keeps_its_kind),
        BOTH(test_reentrance_counts),
        BOTH(test_reentrance_is_for_one_thread),
        BOTH(test_without_asking_nothing_is_reentrant),
        BOTH(test_a_lost_hold_is_not_reentered),
        ONCE(test_release_without_a_reply),
        BOTH(test_close_releases_what_is_held),
        ONCE(test_nothing_to_destroy),
    };
    return cmocka_run_group_tests_name("acquire", tests, ts_suite_begin, ts_suite_end);
}
