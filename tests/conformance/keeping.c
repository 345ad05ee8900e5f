/* While a lock is held: renewal, loss, limits. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/support.h"

typedef struct told {
    atomic_int times;
    _Atomic int64_t at_ms;
    rowlock_hold *hold;
    char reason[256];
    bool release;
    rowlock_status released;
} told;

static void on_lost(void *data, rowlock_hold *hold, const char *reason)
{
    told *t = data;
    t->hold = hold;
    snprintf(t->reason, sizeof t->reason, "%s", reason);
    if (t->release)
        t->released = rowlock_release(hold, NULL);
    atomic_store(&t->at_ms, ts_now_ms());
    atomic_fetch_add(&t->times, 1);
}

static rowlock_hold *take_for(rowlock_client *client, const char *name, rowlock_mode mode,
                              int64_t ttl_ms, told *t)
{
    rowlock_hold *hold = NULL;
    rowlock_acquire_options options = {
        .mode = mode, .wait_ms = 10000, .ttl_ms = ttl_ms, .on_lost = on_lost, .on_lost_data = t};
    WANT(OK, rowlock_acquire(client, name, &options, &hold, &ts_err));
    return hold;
}

static rowlock_hold *take_telling(rowlock_client *client, const char *name, rowlock_mode mode,
                                  told *t)
{
    return take_for(client, name, mode, ts_short_ttl(mode), t);
}

static bool readable(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, 0) == 1;
}

static void test_it_is_kept_beyond_its_ttl(void **state)
{
    rowlock_mode mode = ts_mode(state);
    const char *name = ts_name("kept");
    rowlock_client *client = ts_open();
    rowlock_client *other = ts_open();
    told t = {0};
    rowlock_hold *hold = take_for(client, name, mode, TS_KEPT_TTL, &t);
    int64_t end = ts_now_ms() + TS_KEPT_FOR;
    while (ts_now_ms() < end) {
        assert_held(hold);
        assert_between(1, rowlock_hold_remaining_ms(hold), TS_KEPT_TTL);
        WANT(BUSY, ts_try(other, name, mode));
        ts_pass_ms(20);
    }
    assert_false(readable(rowlock_hold_fd(hold)));
    WANT(OK, rowlock_release(hold, &ts_err));
    assert_int_equal(atomic_load(&t.times), 0);
    WANT(OK, ts_try(other, name, mode));
    rowlock_client_close(client);
    rowlock_client_close(other);
}

/* Many at once: all leases of a client in one statement, all connections pinged. */
static void test_many_are_kept(void **state)
{
    enum { MANY = 40 };
    rowlock_mode mode = ts_mode(state);
    rowlock_client *client = ts_open();
    rowlock_hold *holds[MANY];
    for (int i = 0; i < MANY; i++)
        holds[i] = ts_take(client, ts_name("many"), mode, i % 2 ? TS_KEPT_TTL : TS_KEPT_TTL + 500);
    ts_pass_ms(TS_KEPT_FOR);
    for (int i = 0; i < MANY; i++)
        assert_held(holds[i]);
    for (int i = 0; i < MANY; i++)
        WANT(OK, rowlock_release(holds[i], &ts_err));
    rowlock_client_close(client);
}

static void test_a_loss_is_told(void **state)
{
    rowlock_mode mode = ts_mode(state);
    const char *name = ts_name("told");
    rowlock_client *client = ts_open();
    rowlock_client *other = ts_open();
    told t = {0};
    rowlock_hold *hold = take_telling(client, name, mode, &t);
    int fd = rowlock_hold_fd(hold);
    assert_true(fd >= 0);
    assert_int_equal(rowlock_hold_fd(hold), fd);
    WANT(OK, rowlock_break(other, name, "for the test", &ts_err));
    assert_true(POLL_UNTIL(atomic_load(&t.times) == 1, 10000));
    assert_ptr_equal(t.hold, hold);
    assert_between(1, (int64_t)strlen(t.reason), 255);
    assert_null(strchr(t.reason, '\n'));
    WANT(LOST, rowlock_hold_check(hold));
    assert_true(readable(fd));
    assert_int_equal(rowlock_hold_remaining_ms(hold), 0);
    WANT(LOST, rowlock_release(hold, &ts_err));
    assert_non_null(strstr(ts_err.message, name));
    assert_int_equal(atomic_load(&t.times), 1);
    WANT(OK, ts_try(other, name, mode));
    rowlock_client_close(client);
    rowlock_client_close(other);
}

/* Asked for after the loss, the descriptor is readable as well. */
static void test_the_descriptor_after_the_loss(void **state)
{
    rowlock_mode mode = ts_mode(state);
    const char *name = ts_name("late-fd");
    rowlock_client *client = ts_open();
    told t = {0};
    rowlock_hold *hold = take_telling(client, name, mode, &t);
    WANT(OK, rowlock_break(client, name, NULL, &ts_err));
    assert_true(POLL_UNTIL(rowlock_hold_check(hold) == ROWLOCK_LOST, 10000));
    assert_true(readable(rowlock_hold_fd(hold)));
    WANT(LOST, rowlock_release(hold, &ts_err));
    rowlock_client_close(client);
}

static void test_release_inside_the_callback(void **state)
{
    rowlock_mode mode = ts_mode(state);
    const char *name = ts_name("release-told");
    rowlock_client *client = ts_open();
    rowlock_client *other = ts_open();
    told t = {.release = true, .released = ROWLOCK_OK};
    (void)take_telling(client, name, mode, &t);
    WANT(OK, rowlock_break(other, name, "for the test", &ts_err));
    assert_true(POLL_UNTIL(atomic_load(&t.times) == 1, 10000));
    assert_int_equal(t.released, ROWLOCK_LOST);
    WANT(OK, ts_try(client, name, mode));
    rowlock_client_close(client);
    rowlock_client_close(other);
}

/* The connection is all that a row lock has: its end is seen on the socket at once. */
static void test_a_cut_row_lock_is_known_at_once(void **state)
{
    const char *name = ts_name("cut");
    rowlock_client *client = ts_open();
    MYSQL *mysql = ts_connect(ts_schema());
    (void)state;
    rowlock_hold *hold = ts_take(client, name, ROWLOCK_PESSIMISTIC, 60000);
    ts_expire(mysql, name, ROWLOCK_PESSIMISTIC);
    /* Not by its next ping, twenty seconds later. */
    assert_true(POLL_UNTIL(rowlock_hold_check(hold) == ROWLOCK_LOST, 10000));
    WANT(LOST, rowlock_release(hold, &ts_err));
    mysql_close(mysql);
    rowlock_client_close(client);
}

static void test_taken_over(void **state)
{
    rowlock_mode mode = ts_mode(state);
    const char *name = ts_name("taken-over");
    rowlock_client *client = ts_open();
    rowlock_client *other = ts_open();
    MYSQL *mysql = ts_connect(ts_schema());
    rowlock_hold *old = ts_take(client, name, mode, 30000);
    ts_expire(mysql, name, mode);
    rowlock_hold *hold = ts_take(other, name, mode, 30000);
    assert_true(rowlock_hold_token(hold) > rowlock_hold_token(old));
    char *before = ts_dump(mysql, ts_schema());
    WANT(LOST, rowlock_release(old, &ts_err));
    char *after = ts_dump(mysql, ts_schema());
    assert_string_equal(before, after);
    free(before);
    free(after);
    assert_held(hold);
    WANT(BUSY, ts_try(client, name, mode));
    WANT(OK, rowlock_release(hold, &ts_err));
    mysql_close(mysql);
    rowlock_client_close(client);
    rowlock_client_close(other);
}

/* The old holder's keeper goes on renewing what it believes is its own: to no effect. */
static void test_a_late_renewal_changes_nothing(void **state)
{
    const char *name = ts_name("late-renewal");
    rowlock_client *client = ts_open();
    rowlock_client *other = ts_open();
    MYSQL *mysql = ts_connect(ts_schema());
    told t = {0};
    (void)state;
    rowlock_hold *old = take_telling(client, name, ROWLOCK_OPTIMISTIC, &t);
    ts_expire(mysql, name, ROWLOCK_OPTIMISTIC);
    rowlock_hold *hold = ts_take(other, name, ROWLOCK_OPTIMISTIC, 30000);
    assert_true(POLL_UNTIL(atomic_load(&t.times) == 1, 10000));
    assert_held(hold);
    WANT(LOST, rowlock_release(old, &ts_err));
    WANT(OK, rowlock_release(hold, &ts_err));
    mysql_close(mysql);
    rowlock_client_close(client);
    rowlock_client_close(other);
}

static void test_max_hold(void **state)
{
    const char *name = ts_name("max-hold");
    rowlock_client *client = ts_open();
    rowlock_client *other = ts_open();
    told t = {0};
    (void)state;
    rowlock_hold *hold = NULL;
    rowlock_acquire_options options = {
        .wait_ms = 0, .ttl_ms = 1000, .max_hold_ms = 1500, .on_lost = on_lost, .on_lost_data = &t};
    int64_t start = ts_now_ms();
    int64_t stood = ts_stood_ms();
    WANT(OK, rowlock_acquire(client, name, &options, &hold, &ts_err));
    ts_waiter waiter = {.client = other, .name = name, .options = {.wait_ms = 10000}};
    ts_waiter_start(&waiter);
    WANT(OK, ts_waiter_join(&waiter, 10000));
    int64_t in = waiter.ended_ms - start;
    WANT(LOST, rowlock_hold_check(hold));
    assert_true(POLL_UNTIL(atomic_load(&t.times) == 1, 10000));
    assert_between(0, atomic_load(&t.at_ms), waiter.ended_ms + ts_stood_ms() - stood);
    assert_between(900, in, 1500 + 1000 + ts_slack_ms());
    assert_between(800, atomic_load(&t.at_ms) - start, 1500 + ts_stood_ms() - stood);
    WANT(LOST, rowlock_release(hold, &ts_err));
    WANT(OK, rowlock_release(waiter.hold, &ts_err));
    rowlock_client_close(client);
    rowlock_client_close(other);
}

/* A max_hold shorter than the TTL ends the very first term. */
static void test_max_hold_shorter_than_the_ttl(void **state)
{
    const char *name = ts_name("max-hold-short");
    rowlock_client *client = ts_open();
    rowlock_client *other = ts_open();
    (void)state;
    rowlock_hold *hold = NULL;
    rowlock_acquire_options options = {.ttl_ms = 30000, .max_hold_ms = 800};
    WANT(OK, rowlock_acquire(client, name, &options, &hold, &ts_err));
    assert_between(1, rowlock_hold_remaining_ms(hold), 800);
    ts_waiter waiter = {.client = other, .name = name, .options = {.wait_ms = 10000}};
    ts_waiter_start(&waiter);
    WANT(OK, ts_waiter_join(&waiter, 10000));
    WANT(LOST, rowlock_hold_check(hold));
    WANT(LOST, rowlock_release(hold, &ts_err));
    WANT(OK, rowlock_release(waiter.hold, &ts_err));
    rowlock_client_close(client);
    rowlock_client_close(other);
}

static void test_at_least(void **state)
{
    enum { AT_LEAST = 4000 }; /* there is time to look at it */
    const char *name = ts_name("at-least");
    rowlock_client *client = ts_open();
    rowlock_client *other = ts_open();
    rowlock_list *list = NULL;
    (void)state;
    rowlock_hold *hold = NULL;
    rowlock_acquire_options options = {.at_least_ms = AT_LEAST};
    int64_t start = ts_now_ms();
    WANT(OK, rowlock_acquire(client, name, &options, &hold, &ts_err));
    int64_t got = ts_now_ms();
    WANT(OK, rowlock_release(hold, &ts_err));
    WANT(BUSY, ts_try(other, name, ROWLOCK_OPTIMISTIC));
    WANT(BUSY, ts_try(client, name, ROWLOCK_OPTIMISTIC));
    WANT(OK, rowlock_list_one(other, name, &list, &ts_err));
    assert_int_equal(rowlock_list_at(list, 0)->state, ROWLOCK_SHUT);
    assert_between(1, rowlock_list_at(list, 0)->remaining_ms, AT_LEAST);
    assert_between(19, (int64_t)strlen(rowlock_list_at(list, 0)->expires_at), 26);
    rowlock_list_free(list);
    rowlock_acquire_options wait = {.wait_ms = 20000};
    WANT(OK, rowlock_acquire(other, name, &wait, &hold, &ts_err));
    assert_between(AT_LEAST - 5, ts_now_ms() - start,
                   AT_LEAST + (got - start) + 350 + ts_slack_ms());
    WANT(OK, rowlock_release(hold, &ts_err));
    rowlock_client_close(client);
    rowlock_client_close(other);
}

/* at_least that is over when the lock is released shuts nothing. */
static void test_at_least_that_is_over(void **state)
{
    const char *name = ts_name("at-least-over");
    rowlock_client *client = ts_open();
    (void)state;
    rowlock_hold *hold = NULL;
    rowlock_acquire_options options = {.at_least_ms = 100};
    WANT(OK, rowlock_acquire(client, name, &options, &hold, &ts_err));
    ts_pass_ms(150);
    WANT(OK, rowlock_release(hold, &ts_err));
    WANT(OK, ts_try(client, name, ROWLOCK_OPTIMISTIC));
    rowlock_client_close(client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(test_it_is_kept_beyond_its_ttl),
        BOTH(test_many_are_kept),
        BOTH(test_a_loss_is_told),
        BOTH(test_the_descriptor_after_the_loss),
        BOTH(test_release_inside_the_callback),
        ONCE(test_a_cut_row_lock_is_known_at_once),
        BOTH(test_taken_over),
        ONCE(test_a_late_renewal_changes_nothing),
        ONCE(test_max_hold),
        ONCE(test_max_hold_shorter_than_the_ttl),
        ONCE(test_at_least),
        ONCE(test_at_least_that_is_over),
    };
    return cmocka_run_group_tests_name("keeping", tests, ts_suite_begin, ts_suite_end);
}
