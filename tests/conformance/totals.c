/*
 * What the history records of a hold: a short one is counted, a long or eventful one gets lines,
 * too.
 */
#include <string.h>

#include "conformance/clients.h"

static rowlock_client *admin; /* reads the history and purges, which no procedure does */

static int open_admin(void **state)
{
    open_clients(state);
    admin = ts_open_as_root();
    return 0;
}

static int close_admin(void **state)
{
    rowlock_client_close(admin);
    return close_clients(state);
}

/* A client whose holds are only counted if they last less than `min_ms`; 0: the default. */
static rowlock_client *open_counting(int64_t min_ms)
{
    rowlock_client_options options = ts_options();
    options.history_min_ms = min_ms;
    return ts_open_with(options);
}

static rowlock_totals totals_of(rowlock_client *its, const char *name)
{
    rowlock_list *list = NULL;
    WANT(OK, rowlock_client_flush(its, 20000, &ts_err));
    WANT(OK, rowlock_list_one(other, name, &list, &ts_err));
    rowlock_totals totals = rowlock_list_at(list, 0)->totals;
    assert_int_equal(*totals.first_at != '\0', totals.holds > 0);
    rowlock_list_free(list);
    totals.first_at = totals.last_at = "";
    return totals;
}

/* "acquired released " of all events of a name. */
static const char *story_of(rowlock_client *its, const char *name)
{
    static char story[200];
    rowlock_history *history = NULL;
    const rowlock_history_options options = {.name = name};
    WANT(OK, rowlock_client_flush(its, 20000, &ts_err));
    WANT(OK, rowlock_history_get(admin, &options, &history, &ts_err));
    *story = '\0';
    for (size_t i = 0; i < rowlock_history_count(history); i++) {
        strcat(story, rowlock_history_at(history, i)->event);
        strcat(story, " ");
    }
    rowlock_history_free(history);
    return story;
}

TS_BOTH(test_short_holds_are_counted)
{
    const char *name = ts_name("short");
    TS_CLIENT *counting = open_counting(0);
    int64_t start = ts_now_ms();
    for (int i = 0; i < 3; i++)
        WANT(OK, ts_try(counting, name, mode));
    /* With the default; on a machine that stood still a hold may have been long. */
    bool all_short = ts_now_ms() - start < 1000;
    rowlock_totals totals = totals_of(counting, name);
    assert_int_equal(totals.holds, 3);
    assert_int_equal(totals.lost, 0);
    assert_int_equal(totals.taken_over, 0);
    assert_between(1, totals.held_most_us, totals.held_us);
    assert_between(1, totals.waited_most_us, totals.waited_us);
    if (all_short)
        assert_string_equal(story_of(counting, name), "");
    /* Another client's holds are added. */
    TS_CLIENT *second = open_counting(0);
    WANT(OK, ts_try(second, name, mode));
    rowlock_totals more = totals_of(second, name);
    assert_int_equal(more.holds, 4);
    assert_true(more.held_us > totals.held_us && more.held_most_us >= totals.held_most_us);
}

TS_BOTH(test_a_long_hold_is_told_while_it_lasts)
{
    const char *name = ts_name("long");
    TS_CLIENT *counting = open_counting(200);
    rowlock_hold *hold = ts_take(counting, name, mode, 30000);
    assert_true(POLL_UNTIL(strcmp(story_of(counting, name), "acquired ") == 0, 10000));
    WANT(OK, rowlock_release(hold, &ts_err));
    assert_string_equal(story_of(counting, name), "acquired released ");
    assert_int_equal(totals_of(counting, name).holds, 1);
    assert_true(totals_of(counting, name).held_most_us >= 200000);
}

TS_BOTH(test_a_job_is_told_however_short)
{
    const char *name = ts_name("job");
    TS_CLIENT *counting = open_counting(0);
    const rowlock_release_options how = {.has_exit_status = true, .exit_status = 3};
    rowlock_hold *hold = ts_take(counting, name, mode, 30000);
    WANT(OK, rowlock_release_with(hold, &how, &ts_err));
    const rowlock_release_options noted = {.note = "done"};
    hold = ts_take(counting, name, mode, 30000);
    WANT(OK, rowlock_release_with(hold, &noted, &ts_err));
    assert_string_equal(story_of(counting, name), "acquired released acquired released ");
    assert_int_equal(totals_of(counting, name).holds, 2);
}

TS_ONCE(test_a_loss_and_a_take_over_are_told)
{
    const char *name = ts_name("lost");
    /* None is long enough for a line, however slow the machine is. */
    TS_CLIENT *counting = open_counting(3600000);
    TS_CLIENT *next = open_counting(3600000);
    rowlock_hold *hold = ts_take(counting, name, ROWLOCK_OPTIMISTIC, 30000);
    ts_expire(mysql, name, ROWLOCK_OPTIMISTIC);
    rowlock_hold *taken = ts_take(next, name, ROWLOCK_OPTIMISTIC, 30000);
    assert_string_equal(story_of(next, name), "taken_over ");
    WANT(LOST, rowlock_release(hold, &ts_err));
    WANT(OK, rowlock_release(taken, &ts_err));
    rowlock_totals totals = totals_of(counting, name);
    totals = totals_of(next, name);
    assert_int_equal(totals.holds, 2);
    assert_int_equal(totals.lost, 1);
    assert_int_equal(totals.taken_over, 1);
    const char *story = story_of(counting, name);
    assert_non_null(strstr(story, "acquired "));
    assert_non_null(strstr(story, "lost "));
    assert_non_null(strstr(story, "released "));
}

TS_BOTH(test_totals_end_with_their_name)
{
    const char *name = ts_name("purged");
    TS_CLIENT *counting = open_counting(0);
    WANT(OK, ts_try(counting, name, mode));
    assert_int_equal(totals_of(counting, name).holds, 1);
    ts_sql(mysql,
           "UPDATE resource SET update_time = UTC_TIMESTAMP(6) - INTERVAL 2 DAY"
           " WHERE resource_name = '%s'",
           name);
    const rowlock_sweep_options forget = {.history_ms = 1, .unused_ms = 3600000};
    WANT(OK, rowlock_sweep(admin, &forget, NULL, &ts_err));
    assert_int_equal(
        ts_sql_u64(mysql, "SELECT COUNT(*) FROM resource WHERE resource_name = '%s'", name), 0);
    WANT(OK, ts_try(counting, name, mode));
    assert_int_equal(totals_of(counting, name).holds, 1);
    assert_int_equal(
        ts_sql_u64(mysql, "SELECT COUNT(*) FROM lock_total t LEFT JOIN resource r ON r.id = t.id"
                          " WHERE r.id IS NULL"),
        0);
}

TS_ONCE(test_none_without_history)
{
    const char *name = ts_name("off");
    rowlock_client_options options = ts_options();
    options.no_history = true;
    TS_CLIENT *quiet = ts_open_with(options);
    WANT(OK, ts_try(quiet, name, ROWLOCK_OPTIMISTIC));
    assert_int_equal(totals_of(quiet, name).holds, 0);
}

TS_ONCE(test_many_names_are_counted)
{
    enum { NAMES = 1100 };
    TS_CLIENT *counting = open_counting(0);
    char name[40];
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < NAMES; i++) {
            snprintf(name, sizeof name, "many-totals-%d", i);
            WANT(OK, ts_try(counting, name, ROWLOCK_OPTIMISTIC));
        }
    WANT(OK, rowlock_client_flush(counting, 20000, &ts_err));
    assert_int_equal(
        ts_sql_u64(mysql, "SELECT SUM(t.holds) FROM lock_total t JOIN resource r ON r.id = t.id"
                          " WHERE r.resource_name LIKE 'many-totals-%%'"),
        2 * NAMES);
}

int main(void)
{
    return ts_run("totals", open_admin, close_admin);
}
