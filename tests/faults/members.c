/*
 * Members of latches and barriers are processes, on a server of the test's own. They are killed at
 * each step, and stopped for longer than their TTL; the server is restarted. After each fault: the
 * latch opens, or the others are told which member was lost; a barrier lets exactly its number in;
 * and the next generation is not affected.
 */
#include "faults/process.h"
#include "faults/restart.h"
#include "rowlock/rowlock_barrier.h"
#include "rowlock/rowlock_latch.h"

static const char *set_latch(const char *word, unsigned count)
{
    const char *name = ts_name(word);
    WANT(OK, rowlock_latch_set(patient, name, count, NULL, &ts_err));
    return name;
}

static rowlock_status wait_for(const char *name, int64_t wait_ms)
{
    const rowlock_latch_options options = {.wait_ms = wait_ms};
    return rowlock_latch_wait(patient, name, &options, NULL, &ts_err);
}

/* Sets the latch to 1: one count opens it. */
static void next_generation_is_new(const char *name)
{
    WANT(OK, rowlock_latch_set(patient, name, 1, NULL, &ts_err));
    WANT(BUSY, wait_for(name, 0));
    WANT(OK, rowlock_latch_down(patient, name, NULL, 0, &ts_err));
    WANT(OK, wait_for(name, 0));
}

/* Kills it there; the statement that it had sent reaches the server afterwards. */
static void kill_there(process *p)
{
    assert_true(POLL_UNTIL(ts_proxy_fired(proxy), 20000));
    process_bury(p);
    ts_proxy_flow(proxy);
}

TS_ONCE(test_a_latch_member_is_killed_at_each_step)
{
    static const char *const steps[] = {"latch_join", "latch_down", "shared_leave"};
    for (int i = 0; i < 6; i++) {
        const char *name = set_latch("step", 2);
        process p;
        ts_proxy_arm(proxy, moments[i % 2], steps[i / 2], 1, false);
        /* It must expire soon if it has not counted. */
        p = process_start_as("latch", name, i / 2 > 0 ? LONG : SHORT, ts_proxy_socket(proxy));
        if (i / 2 > 0) {
            process_expect(&p, "TOKEN", 10000);
            process_tell(&p, "done");
        }
        kill_there(&p);
        WANT(OK, rowlock_latch_down(patient, name, "other", 0, &ts_err));
        /* If it has only joined, it has not counted; else it has. */
        rowlock_status status = wait_for(name, SHORT + 10000);
        print_message("# %s, %s: %s %s\n", steps[i / 2], i % 2 ? "done" : "under way",
                      rowlock_status_name(status), status == ROWLOCK_OK ? "" : ts_err.message);
        assert_int_equal(status, i / 2 > 0 ? ROWLOCK_OK : ROWLOCK_LOST);
        next_generation_is_new(name);
    }
}

/* ------------------------------------------------------------------------------- barrier */

typedef struct entrant {
    const char *name;
    pthread_t thread;
    rowlock_status status;
    rowlock_hold *hold;
    rowlock_error err;
    atomic_bool ended;
    unsigned count;
} entrant;

static void *enter(void *data)
{
    const rowlock_barrier_options options = {.wait_ms = 60000, .ttl_ms = LONG};
    entrant *e = data;
    e->status = rowlock_barrier_enter(patient, e->name, e->count, &options, &e->hold, &e->err);
    atomic_store(&e->ended, true);
    return NULL;
}

static void start_of(entrant *e, const char *name, unsigned count)
{
    *e = (entrant){.name = name, .count = count};
    assert_int_equal(pthread_create(&e->thread, NULL, enter, e), 0);
}

static void start(entrant *e, const char *name)
{
    start_of(e, name, 2);
}

static void finish(entrant *e)
{
    assert_true(POLL_UNTIL(atomic_load(&e->ended), 60000));
    pthread_join(e->thread, NULL);
    ts_err = e->err;
    WANT(OK, e->status);
    assert_held(e->hold);
}

static uint64_t gathered(const char *name)
{
    return ts_rows_of(mysql, "lock_grant", name,
                      " AND x.version = r.version AND x.expires_at > UTC_TIMESTAMP(6)");
}

static rowlock_status look_whether_ready(const entrant *e)
{
    return rowlock_barrier_leave(e->hold, 0, NULL, &ts_err);
}

/* Both leave; they are of one generation. */
static void leave_together(entrant *a, entrant *b)
{
    assert_true(rowlock_hold_token(a->hold) == rowlock_hold_token(b->hold));
    assert_true(rowlock_hold_slot(a->hold) != rowlock_hold_slot(b->hold));
    WANT(BUSY, look_whether_ready(a));
    WANT(OK, rowlock_barrier_leave(b->hold, 10000, NULL, &ts_err));
    WANT(OK, rowlock_barrier_leave(a->hold, 10000, NULL, &ts_err));
    WANT(OK, rowlock_release(a->hold, &ts_err));
    WANT(OK, rowlock_release(b->hold, &ts_err));
}

/*
 * A member has died. `a` enters with it, is told of its death, and enters again; or `a` enters with
 * `b`. True: with the dead one.
 */
static bool others_go_on(entrant *a, entrant *b)
{
    const char *name = a->name;
    start(b, name);
    assert_true(POLL_UNTIL(atomic_load(&a->ended) || atomic_load(&b->ended), 60000));
    entrant *first = atomic_load(&a->ended) ? a : b;
    entrant *other = first == a ? b : a;
    finish(first);
    const bool with_dead =
        POLL_UNTIL(atomic_load(&other->ended) || look_whether_ready(first) == ROWLOCK_LOST,
                   20000) &&
        !atomic_load(&other->ended);
    if (!with_dead) {
        finish(other);
        leave_together(first, other);
        return false;
    }
    assert_non_null(strstr(ts_err.message, "was lost before it left"));
    WANT(OK, rowlock_release(first->hold, &ts_err));
    start(first, name);
    finish(first);
    finish(other);
    leave_together(first, other);
    return true;
}

TS_ONCE(test_who_enters_is_killed_at_each_step)
{
    static const char *const steps[] = {
        "begin",         "barrier_lock",     "barrier_drop", "barrier_gathered",
        "barrier_enter", "barrier_complete", "row_commit",   "barrier_look"};
    static entrant a;
    static entrant b;
    for (size_t i = 0; i < 4 * sizeof steps / sizeof steps[0]; i++) {
        const char *step = steps[i / 4];
        const bool last = i % 4 >= 2;
        if (!last && strcmp(step, "barrier_complete") == 0)
            continue;
        const char *name = ts_name("enter");
        if (last) {
            start(&a, name);
            assert_true(POLL_UNTIL(gathered(name) == 1, 20000));
        }
        ts_proxy_arm(proxy, moments[i % 2], step, 1, false);
        process p = process_start_as("barrier2", name, SHORT, ts_proxy_socket(proxy));
        kill_there(&p);
        if (!last)
            start(&a, name);
        const bool with_dead = others_go_on(&a, &b);
        print_message("# %s, %s, %s: %s\n", step, i % 2 ? "done" : "under way",
                      last ? "last" : "first", with_dead ? "with the dead" : "without it");
        /* The last one has entered when its COMMIT takes effect, which may be late. */
        if (last && i / 4 >= 6)
            assert_true(with_dead);
        else if (i / 4 < 6)
            assert_false(with_dead);
    }
}

/* The other member leaves, or is told, depending on whether the killed one was ready. */
TS_ONCE(test_who_leaves_is_killed_at_each_step)
{
    static const char *const steps[] = {"barrier_leave", "barrier_leaving", "shared_leave",
                                        "barrier_quit"};
    static entrant a;
    for (int i = 0; i < 8; i++) {
        const char *name = ts_name("leave");
        start(&a, name);
        assert_true(POLL_UNTIL(gathered(name) == 1, 20000));
        const int64_t ttl_ms = i / 2 < 3 ? LONG : TS_KEPT_TTL; /* in the last step it must expire */
        process p = process_start_as("barrier2", name, ttl_ms, ts_proxy_socket(proxy));
        process_expect(&p, "TOKEN", 10000);
        finish(&a);
        if (i / 2 == 2) {
            WANT(BUSY, look_whether_ready(&a));
            process_ask(&p, "leave", "LEAVE OK");
        }
        ts_proxy_arm(proxy, moments[i % 2], steps[i / 2], 1, false);
        process_tell(&p, i / 2 < 2 ? "leave" : "release");
        kill_there(&p);
        rowlock_status status = rowlock_barrier_leave(a.hold, TS_KEPT_TTL + 10000, NULL, &ts_err);
        print_message("# %s, %s: %s\n", steps[i / 2], i % 2 ? "done" : "under way",
                      rowlock_status_name(status));
        assert_int_equal(status, i / 2 < 3 ? ROWLOCK_OK : ROWLOCK_LOST);
        WANT(OK, rowlock_release(a.hold, &ts_err));
    }
}

/* ------------------------------------------------------------------------------- stopped */

TS_ONCE(test_a_latch_member_is_stopped)
{
    const char *name = set_latch("stopped", 2);
    process p = process_start_as("latch", name, SHORT, ts_socket());
    process_expect(&p, "TOKEN", 10000);
    kill(p.pid, SIGSTOP);
    WANT(LOST, wait_for(name, SHORT + 10000));
    kill(p.pid, SIGCONT);
    process_expect(&p, "LOST", 10000);
    process_ask(&p, "done", "DONE LOST");
    process_finish(&p);
    next_generation_is_new(name);
}

/* While members gather, a stopped one is forgotten, and enters again; afterwards it is missed. */
TS_ONCE(test_a_barrier_member_is_stopped)
{
    static entrant a;
    static entrant b;
    const char *name = ts_name("stopped");
    process p = process_start_as("barrier2", name, SHORT, ts_socket());
    assert_true(POLL_UNTIL(gathered(name) == 1, 20000));
    kill(p.pid, SIGSTOP);
    assert_true(POLL_UNTIL(gathered(name) == 0, SHORT + 10000));
    start(&a, name);
    start(&b, name);
    finish(&a);
    finish(&b);
    leave_together(&a, &b);
    kill(p.pid, SIGCONT);
    assert_true(POLL_UNTIL(gathered(name) == 1, 20000));
    start(&a, name);
    finish(&a);
    process_expect(&p, "TOKEN", 10000);
    kill(p.pid, SIGSTOP);
    WANT(LOST, rowlock_barrier_leave(a.hold, SHORT + 10000, NULL, &ts_err));
    kill(p.pid, SIGCONT);
    process_expect(&p, "LOST", 10000);
    process_ask(&p, "leave", "LEAVE LOST");
    process_ask(&p, "release", "RELEASE LOST");
    process_finish(&p);
    WANT(OK, rowlock_release(a.hold, &ts_err));
}

/* The first in line has entered, is stopped, and does not see that all have come: the next in line
 * does. */
TS_ONCE(test_the_first_in_line_is_stopped)
{
    static entrant a;
    static entrant b;
    const char *name = ts_name("line");
    process p = process_start_as("barrier3", name, LONG, ts_socket());
    assert_true(POLL_UNTIL(ts_bell_holder(mysql, name) != 0, 20000));
    start_of(&a, name, 3);
    assert_true(POLL_UNTIL(ts_in_queue(mysql, name) > 0, 20000));
    kill(p.pid, SIGSTOP);
    start_of(&b, name, 3);
    finish(&b);
    bool goes_on = POLL_UNTIL(atomic_load(&a.ended), 20000);
    kill(p.pid, SIGCONT); /* before any assertion can fail */
    assert_true(goes_on);
    finish(&a);
    process_expect(&p, "TOKEN", 10000);
    WANT(BUSY, look_whether_ready(&a));
    WANT(BUSY, look_whether_ready(&b));
    process_ask(&p, "leave", "LEAVE OK");
    WANT(OK, rowlock_barrier_leave(a.hold, 10000, NULL, &ts_err));
    WANT(OK, rowlock_barrier_leave(b.hold, 10000, NULL, &ts_err));
    WANT(OK, rowlock_release(a.hold, &ts_err));
    WANT(OK, rowlock_release(b.hold, &ts_err));
    process_ask(&p, "release", "RELEASE OK");
    process_finish(&p);
}

/* ------------------------------------------------------------------------------ a restart */

/* A member with a TTL longer than the outage stays a member, and counts stay. */
TS_ONCE(test_server_killed_beside_latch_members)
{
    const char *name = set_latch("server", 3);
    process one = process_start_as("latch", name, LONG, ts_socket());
    process two = process_start_as("latch", name, LONG, ts_socket());
    process_expect(&one, "TOKEN", 10000);
    process_expect(&two, "TOKEN", 10000);
    process_ask(&one, "done", "DONE OK");
    WANT(OK, rowlock_latch_down(patient, name, "key", 0, &ts_err));
    restart_server();
    WANT(BUSY, wait_for(name, 0));
    assert_non_null(strstr(ts_err.message, "2 of 3"));
    WANT(OK, rowlock_latch_down(patient, name, "key", 0, &ts_err));
    WANT(BUSY, wait_for(name, 0));
    process_ask(&two, "done", "DONE OK");
    WANT(OK, wait_for(name, 0));
    process_finish(&one);
    process_finish(&two);
    restart_server();
    WANT(OK, wait_for(name, 0));
    next_generation_is_new(name);
}

TS_ONCE(test_server_away_for_longer_than_a_members_ttl)
{
    const char *name = set_latch("away", 1);
    process p = process_start_as("latch", name, SHORT, ts_socket());
    process_expect(&p, "TOKEN", 10000);
    ts_own_kill();
    process_expect(&p, "LOST", SHORT + 5000);
    ts_own_restart();
    ts_reconnect(&mysql);
    process_ask(&p, "done", "DONE LOST");
    WANT(LOST, wait_for(name, SHORT + 10000));
    process_finish(&p);
    next_generation_is_new(name);
}

/* While members gather, and after they have entered. */
TS_ONCE(test_server_killed_beside_barrier_members)
{
    const char *name = ts_name("server");
    process one = process_start_as("barrier2", name, LONG, ts_socket());
    assert_true(POLL_UNTIL(gathered(name) == 1, 20000));
    restart_server();
    assert_int_equal(gathered(name), 1);
    process two = process_start_as("barrier2", name, LONG, ts_socket());
    uint64_t token = process_expect_token(&one, 20000);
    assert_true(process_expect_token(&two, 20000) == token);
    process_tell(&one, "leave");
    restart_server();
    assert_false(process_hear(&one, 500));
    process_ask(&two, "leave", "LEAVE OK");
    process_expect(&one, "LEAVE OK", 20000);
    process_ask(&one, "release", "RELEASE OK");
    process_ask(&two, "release", "RELEASE OK");
    process_finish(&one);
    process_finish(&two);
}

PROCESS_MAIN("members", restart_begin, restart_end)
