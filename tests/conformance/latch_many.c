/* Many processes that wait for one latch: how soon they go on, and how many statements they send
 * meanwhile. */
#include "rowlock/rowlock_latch.h"

#include "conformance/clients.h"

/* Each looks once a second by itself: without being woken, the last would go on after nearly that
 * time. (That 128 processes go on costs two processors up to half of it where all is slow.) */
enum { WAITERS = 128, IDLE_MS = 2000, MOST_A_SECOND = 200, SOON_MS = 450 };

typedef struct waiter {
    const char *name;
    int to;
} waiter;

/* Reports when it went on: all processes have the same clock. */
static int wait_for_it(void *arg)
{
    const waiter *w = arg;
    const rowlock_latch_options options = {.wait_ms = 60000};
    rowlock_client *own = ts_open();
    rowlock_status status = rowlock_latch_wait(own, w->name, &options, NULL, &ts_err);
    const int64_t at_ms = ts_now_ms();
    rowlock_client_close(own);
    return status == ROWLOCK_OK && write(w->to, &at_ms, sizeof at_ms) == sizeof at_ms ? 0 : 1;
}

static uint64_t questions(void)
{
    MYSQL_RES *result = NULL;
    uint64_t count = 0;
    assert_int_equal(mysql_query(mysql, "SHOW GLOBAL STATUS LIKE 'Questions'"), 0);
    result = mysql_store_result(mysql);
    assert_non_null(result);
    count = strtoull(mysql_fetch_row(result)[1], NULL, 10);
    mysql_free_result(result);
    return count;
}

TS_ONCE(test_many_wait)
{
    const char *name = ts_name("many");
    int ends[2];
    pid_t pids[WAITERS];
    int64_t last_ms = 0;
    assert_int_equal(pipe(ends), 0);
    waiter w = {.name = name, .to = ends[1]};
    WANT(OK, rowlock_latch_set(client, name, 2, NULL, &ts_err));
    for (int i = 0; i < WAITERS; i++)
        pids[i] = ts_fork(wait_for_it, &w);
    close(ends[1]);
    assert_true(POLL_UNTIL(ts_in_queue(mysql, name) == WAITERS - 1, 60000));
    ts_pass_ms(1000); /* each has its first look soon after it has come */
    WANT(OK, rowlock_latch_down(client, name, NULL, 0, &ts_err));
    const uint64_t before = questions();
    ts_pass_ms(IDLE_MS);
    const uint64_t idle = questions() - before;
    const uint64_t waking = questions();
    const int64_t down_ms = ts_now_ms();
    WANT(OK, rowlock_latch_down(client, name, NULL, 0, &ts_err));
    for (int i = 0; i < WAITERS; i++) {
        int64_t at_ms = 0;
        assert_int_equal(read(ends[0], &at_ms, sizeof at_ms), sizeof at_ms);
        last_ms = at_ms > last_ms ? at_ms : last_ms;
    }
    const uint64_t asked = questions() - waking;
    for (int i = 0; i < WAITERS; i++)
        assert_int_equal(ts_reap(pids[i], 20000), 0);
    close(ends[0]);
    print_message("# the last of %d went on after %" PRId64 " ms; %" PRIu64
                  " statements a second while they waited, %" PRIu64 " to go on\n",
                  WAITERS, last_ms - down_ms, idle * 1000 / IDLE_MS, asked);
    assert_between(0, (int64_t)(idle * 1000 / IDLE_MS), MOST_A_SECOND);
    assert_between(0, (int64_t)asked, (int64_t)WAITERS * 12);
    assert_between(0, last_ms - down_ms, SOON_MS + ts_slack_ms());
}

TS_MAIN("latch with many waiters", open_clients, close_clients)
