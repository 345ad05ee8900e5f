/* Sets of names, and row locks without a token. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "rowlock/rowlock_mysql.h"
#include "support/support.h"

static const rowlock_acquire_options try_once = {.mode = ROWLOCK_PESSIMISTIC};

static rowlock_hold *take_set(rowlock_client *client, const char *const names[], size_t count)
{
    rowlock_hold *hold = NULL;
    rowlock_acquire_options options = {.mode = ROWLOCK_PESSIMISTIC, .wait_ms = 5000};
    WANT(OK, rowlock_acquire_set(client, names, count, &options, &hold, &ts_err));
    return hold;
}

static void test_all_of_them(void **state)
{
    const char *names[] = {"set-c", "set-a", "set-b"};
    static const char *const sorted[] = {"set-a", "set-b", "set-c"};
    rowlock_client *client = ts_open();
    rowlock_client *other = ts_open();
    (void)state;
    rowlock_hold *hold = take_set(client, names, 3);
    assert_int_equal(rowlock_hold_count(hold), 3);
    for (size_t i = 0; i < 3; i++) {
        assert_string_equal(rowlock_hold_name_at(hold, i), sorted[i]);
        assert_true(rowlock_hold_token_at(hold, i) > 0);
        WANT(BUSY, ts_try(other, sorted[i], ROWLOCK_PESSIMISTIC));
    }
    assert_string_equal(rowlock_hold_name(hold), "set-a");
    assert_true(rowlock_hold_token(hold) == rowlock_hold_token_at(hold, 0));
    assert_null(rowlock_hold_name_at(hold, 3));
    uint64_t token = rowlock_hold_token_at(hold, 2);
    WANT(OK, rowlock_release(hold, &ts_err));
    for (size_t i = 0; i < 3; i++)
        WANT(OK, ts_try(other, sorted[i], ROWLOCK_PESSIMISTIC));
    hold = take_set(client, names, 3);
    assert_true(rowlock_hold_token_at(hold, 2) > token);
    WANT(OK, rowlock_release(hold, &ts_err));
    rowlock_client_close(client);
    rowlock_client_close(other);
}

static void test_doubles_count_once(void **state)
{
    const char *names[] = {"double-x", "double-y", "double-x", "double-x"};
    rowlock_client *client = ts_open();
    (void)state;
    rowlock_hold *hold = take_set(client, names, 4);
    assert_int_equal(rowlock_hold_count(hold), 2);
    assert_string_equal(rowlock_hold_name_at(hold, 1), "double-y");
    WANT(OK, rowlock_release(hold, &ts_err));
    WANT(OK, ts_try(client, "double-x", ROWLOCK_PESSIMISTIC));
    rowlock_client_close(client);
}

static void test_as_many_as_allowed(void **state)
{
    const char *names[ROWLOCK_SET_MAX];
    rowlock_client *client = ts_open();
    (void)state;
    for (size_t i = 0; i < ROWLOCK_SET_MAX; i++)
        names[i] = ts_name("most");
    rowlock_hold *hold = take_set(client, names, ROWLOCK_SET_MAX);
    assert_int_equal(rowlock_hold_count(hold), ROWLOCK_SET_MAX);
    for (size_t i = 1; i < ROWLOCK_SET_MAX; i++)
        assert_true(strcmp(rowlock_hold_name_at(hold, i - 1), rowlock_hold_name_at(hold, i)) < 0);
    WANT(OK, rowlock_release(hold, &ts_err));
    rowlock_client_close(client);
}

static void test_all_or_none(void **state)
{
    const char *names[] = {"none-a", "none-b", "none-c"};
    rowlock_client *client = ts_open();
    rowlock_client *other = ts_open();
    rowlock_hold *none = NULL;
    (void)state;
    rowlock_hold *hold = ts_take(client, "none-b", ROWLOCK_PESSIMISTIC, 30000);
    WANT(BUSY, rowlock_acquire_set(other, names, 3, &try_once, &none, &ts_err));
    WANT(OK, ts_try(client, "none-a", ROWLOCK_PESSIMISTIC));
    WANT(OK, ts_try(client, "none-c", ROWLOCK_PESSIMISTIC));
    rowlock_acquire_options wait = {.mode = ROWLOCK_PESSIMISTIC, .wait_ms = 300};
    int64_t start = ts_now_ms();
    WANT(TIMEOUT, rowlock_acquire_set(other, names, 3, &wait, &none, &ts_err));
    assert_between(299, ts_now_ms() - start, 300 + ts_slack_ms());
    WANT(OK, ts_try(client, "none-a", ROWLOCK_PESSIMISTIC));
    WANT(OK, ts_try(client, "none-c", ROWLOCK_PESSIMISTIC));
    assert_null(none);
    WANT(OK, rowlock_release(hold, &ts_err));
    hold = take_set(other, names, 3);
    WANT(OK, rowlock_release(hold, &ts_err));
    rowlock_client_close(client);
    rowlock_client_close(other);
}

static void test_a_set_with_a_name_of_the_other_mode(void **state)
{
    const char *names[] = {"mixed-a", "mixed-lease", "mixed-z"};
    rowlock_client *client = ts_open();
    rowlock_hold *none = NULL;
    (void)state;
    WANT(OK, ts_try(client, "mixed-lease", ROWLOCK_OPTIMISTIC));
    WANT(MODE, rowlock_acquire_set(client, names, 3, &try_once, &none, &ts_err));
    assert_non_null(strstr(ts_err.message, "mixed-lease"));
    assert_null(none);
    WANT(OK, ts_try(client, "mixed-a", ROWLOCK_PESSIMISTIC));
    rowlock_client_close(client);
}

/* ------------------------------------------------------------- both orders at once */

typedef struct taker {
    rowlock_client *client;
    const char *names[3];
    unsigned rounds;
    rowlock_status status;
    atomic_int *inside;
    bool overlapped;
    pthread_t thread;
} taker;

static void *take_again_and_again(void *arg)
{
    taker *t = arg;
    rowlock_acquire_options options = {.mode = ROWLOCK_PESSIMISTIC, .wait_ms = 20000};
    for (unsigned i = 0; i < t->rounds && t->status == ROWLOCK_OK; i++) {
        rowlock_hold *hold = NULL;
        t->status = rowlock_acquire_set(t->client, t->names, 3, &options, &hold, NULL);
        if (t->status != ROWLOCK_OK)
            break;
        if (atomic_fetch_add(t->inside, 1) != 0)
            t->overlapped = true;
        atomic_fetch_sub(t->inside, 1);
        t->status = rowlock_release(hold, NULL);
    }
    return NULL;
}

static void test_opposite_orders_never_deadlock(void **state)
{
    atomic_int inside = 0;
    rowlock_client *clients[2] = {ts_open(), ts_open()};
    taker takers[4] = {
        {.names = {"order-1", "order-2", "order-3"}},
        {.names = {"order-3", "order-2", "order-1"}},
        {.names = {"order-2", "order-3", "order-4"}},
        {.names = {"order-4", "order-1", "order-2"}},
    };
    (void)state;
    for (int i = 0; i < 4; i++) {
        takers[i].client = clients[i % 2];
        takers[i].rounds = ts_rounds(100);
        takers[i].inside = &inside;
        assert_int_equal(pthread_create(&takers[i].thread, NULL, take_again_and_again, &takers[i]),
                         0);
    }
    for (int i = 0; i < 4; i++)
        pthread_join(takers[i].thread, NULL);
    for (int i = 0; i < 4; i++) {
        assert_string_equal(rowlock_status_name(takers[i].status), "OK");
        /* All of them hold "order-2". */
        assert_false(takers[i].overlapped);
    }
    rowlock_client_close(clients[0]);
    rowlock_client_close(clients[1]);
}

static void test_a_set_can_be_lost(void **state)
{
    const char *names[] = {"lost-a", "lost-b"};
    rowlock_client *client = ts_open();
    rowlock_client *other = ts_open();
    MYSQL *mysql = ts_connect(ts_schema());
    (void)state;
    rowlock_hold *hold = take_set(client, names, 2);
    ts_expire(mysql, "lost-b", ROWLOCK_PESSIMISTIC);
    assert_true(POLL_UNTIL(rowlock_hold_check(hold) == ROWLOCK_LOST, 10000));
    rowlock_hold *next = take_set(other, names, 2);
    assert_true(rowlock_hold_token_at(next, 0) > rowlock_hold_token_at(hold, 0));
    WANT(LOST, rowlock_release(hold, &ts_err));
    WANT(OK, rowlock_release(next, &ts_err));
    mysql_close(mysql);
    rowlock_client_close(client);
    rowlock_client_close(other);
}

/* ------------------------------------------------------------------------- unfenced */

static void test_unfenced(void **state)
{
    const char *name = ts_name("unfenced");
    rowlock_client *client = ts_open();
    rowlock_client *other = ts_open();
    MYSQL *mysql = ts_connect(ts_schema());
    rowlock_acquire_options options = {.mode = ROWLOCK_PESSIMISTIC, .unfenced = true};
    rowlock_hold *hold = NULL;
    rowlock_hold *none = NULL;
    (void)state;
    WANT(OK, ts_try(client, name, ROWLOCK_PESSIMISTIC));
    char *before = ts_dump(mysql, ts_schema());
    WANT(OK, rowlock_acquire(client, name, &options, &hold, &ts_err));
    assert_true(rowlock_hold_token(hold) == 0);
    assert_held(hold);
    WANT(BUSY, ts_try(other, name, ROWLOCK_PESSIMISTIC));
    WANT(BUSY, rowlock_acquire(other, name, &options, &none, &ts_err));
    char *after = ts_dump(mysql, ts_schema());
    assert_string_equal(before, after);
    free(before);
    free(after);
    ts_sql(mysql, "BEGIN");
    WANT(INVALID, rowlock_fence(hold, mysql, &ts_err));
    ts_sql(mysql, "ROLLBACK");
    WANT(OK, rowlock_release(hold, &ts_err));
    WANT(OK, ts_try(other, name, ROWLOCK_PESSIMISTIC));
    mysql_close(mysql);
    rowlock_client_close(client);
    rowlock_client_close(other);
}

static uint64_t marked_fenced(MYSQL *mysql, const char *name)
{
    return ts_sql_u64(mysql, "SELECT fenced FROM resource_lock WHERE resource_name = '%s'", name);
}

/* A name is used without fencing, then with it by one that dies: who locks it next without
 * fencing ends that token. */
static void test_unfenced_ends_the_token_of_the_dead(void **state)
{
    const char *name = ts_name("mixed");
    rowlock_client *client = ts_open();
    rowlock_client *other = ts_open();
    MYSQL *mysql = ts_connect(ts_schema());
    const rowlock_acquire_options unfenced = {
        .mode = ROWLOCK_PESSIMISTIC, .unfenced = true, .wait_ms = 5000};
    const rowlock_acquire_options fenced = {.mode = ROWLOCK_PESSIMISTIC, .wait_ms = 5000};
    rowlock_hold *hold = NULL;
    rowlock_hold *dead = NULL;
    (void)state;
    WANT(OK, rowlock_acquire(client, name, &unfenced, &hold, &ts_err));
    WANT(OK, rowlock_release(hold, &ts_err));
    assert_int_equal(marked_fenced(mysql, name), 0);
    WANT(OK, rowlock_acquire(other, name, &fenced, &dead, &ts_err));
    assert_int_equal(marked_fenced(mysql, name), 1);
    uint64_t token = rowlock_hold_token(dead);
    ts_sql(
        mysql, "KILL CONNECTION %" PRIu64,
        ts_sql_u64(mysql, "SELECT connection_id FROM resource WHERE resource_name = '%s'", name));
    WANT(OK, rowlock_acquire(client, name, &unfenced, &hold, &ts_err));
    assert_int_equal(ts_sql_u64(mysql,
                                "SELECT COUNT(*) FROM resource WHERE resource_name = '%s'"
                                " AND status = 'free' AND version > %" PRIu64,
                                name, token),
                     1);
    WANT(LOST, rowlock_release(dead, &ts_err));
    WANT(OK, rowlock_release(hold, &ts_err));
    mysql_close(mysql);
    rowlock_client_close(client);
    rowlock_client_close(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ONCE(test_all_of_them),
        ONCE(test_doubles_count_once),
        ONCE(test_as_many_as_allowed),
        ONCE(test_all_or_none),
        ONCE(test_a_set_with_a_name_of_the_other_mode),
        ONCE(test_opposite_orders_never_deadlock),
        ONCE(test_a_set_can_be_lost),
        ONCE(test_unfenced),
        ONCE(test_unfenced_ends_the_token_of_the_dead),
    };
    return cmocka_run_group_tests_name("sets", tests, ts_suite_begin, ts_suite_end);
}
