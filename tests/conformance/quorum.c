/* Leases at a majority of independent servers. */
#include "admin/admin.h"
#include "conformance/quorum_frame.h"
#include "kind/members.h"

/* ------------------------------------------------------------------------ a lease */

TS_ONCE(test_one_holder)
{
    rowlock_hold *hold = take_at_all(client, "one");
    WANT(BUSY, try_it(other, "one"));
    ASSERT_KEPT(hold, TS_KEPT_FOR);
    assert_int_equal(rowlock_hold_members(hold), N);
    assert_between(1, rowlock_hold_remaining_ms(hold), TS_KEPT_TTL);
    const uint64_t token = rowlock_hold_token(hold);
    give_back(hold);
    for (size_t i = 0; i < N; i++)
        assert_true(POLL_UNTIL(free_at(i, "one"), 1000));
    hold = ts_take(other, "one", ROWLOCK_OPTIMISTIC, TS_KEPT_TTL);
    assert_true(rowlock_hold_token(hold) > token);
    give_back(hold);
}

TS_ONCE(test_a_waiter_comes_in)
{
    rowlock_hold *hold = take_at_all(client, "waits");
    ts_waiter waiter = {
        .client = other, .name = "waits", .options = {.wait_ms = SOON, .ttl_ms = TS_KEPT_TTL}};
    ts_waiter_start(&waiter);
    ts_pass_ms(300);
    give_back(hold);
    WANT(OK, ts_waiter_join(&waiter, SOON));
    assert_held(waiter.hold);
    give_back(waiter.hold);
    WANT(OK, rowlock_acquire(client, "waits",
                             &(rowlock_acquire_options){.wait_ms = SOON, .max_hold_ms = 6000},
                             &hold, &ts_err));
    const int64_t strain_ms = ts_strain_ms();
    const rowlock_acquire_options brief = {.wait_ms = 100};
    WANT_TIMEOUT(ROWLOCK_OPTIMISTIC, strain_ms,
                 rowlock_acquire(other, "waits", &brief, &waiter.hold, &ts_err));
    assert_true(POLL_UNTIL(rowlock_hold_check(hold) == ROWLOCK_LOST, SOON));
    WANT(LOST, rowlock_release(hold, &ts_err));
}

TS_ONCE(test_a_name_is_of_one_kind)
{
    rowlock_client *alone = NULL;
    rowlock_hold *hold = NULL;
    const rowlock_client_options options = {.url = urls[0]};
    WANT(OK, rowlock_client_open(&options, &alone, &ts_err));
    use("theirs");
    WANT(MODE, ts_try(alone, "theirs", ROWLOCK_OPTIMISTIC));
    rowlock_hold *own = ts_take(alone, "mine", ROWLOCK_OPTIMISTIC, TS_KEPT_TTL);
    /* One member cannot vote; two others can. */
    hold = ts_take(client, "mine", ROWLOCK_OPTIMISTIC, TS_KEPT_TTL);
    assert_int_equal(rowlock_hold_members(hold), N - 1);
    /* Nor does that break it. */
    WANT(OK, rowlock_break(other, "mine", NULL, &ts_err));
    assert_false(free_at(0, "mine"));
    WANT(OK, rowlock_release(own, &ts_err));
    assert_true(POLL_UNTIL(rowlock_hold_check(hold) == ROWLOCK_LOST, SOON));
    WANT(LOST, rowlock_release(hold, &ts_err));
    ts_sql(at[1], "UPDATE resource SET kind = 'optimistic' WHERE resource_name = 'mine'");
    WANT(MODE, ts_try(client, "mine", ROWLOCK_OPTIMISTIC));
    rowlock_client_close(alone);
}

/* A member that was late once is left out until it is asked again. */
static bool is_noted(void)
{
    static unsigned round;
    char name[32];
    bool noted = true;
    snprintf(name, sizeof name, "history %u", round++);
    rowlock_hold *hold = take_at_all(client, name);
    (void)!rowlock_release_with(hold, &(rowlock_release_options){.note = "done"}, &ts_err);
    WANT(OK, rowlock_client_flush(client, SOON, &ts_err));
    for (size_t i = 0; i < N; i++)
        noted &= ts_sql_u64(at[i],
                            "SELECT COUNT(*) FROM lock_event WHERE kind = 'quorum' AND"
                            " resource_name = '%s' AND event = 'released'",
                            name) == 1;
    return noted;
}

TS_ONCE(test_the_history_is_at_every_member)
{
    assert_true(POLL_UNTIL(is_noted(), SOON));
}

/* A dead holder had it. (A busy machine may need a second try, which then finds it free.) */
static bool is_taken_over(const char *name)
{
    bool noted = true;
    for (size_t i = 0; i < N; i++)
        ts_sql(at[i],
               "UPDATE resource SET status = 'held', owner = 'dead', owner_label = 'who died',"
               " version = version + %d, lease_expires_at = UTC_TIMESTAMP(6)"
               " WHERE resource_name = %s",
               i == 0, ts_quote(name)); /* so that the others must confirm the token */
    give_back(take_at_all(other, name));
    WANT(OK, rowlock_client_flush(other, SOON, &ts_err));
    for (size_t i = 0; i < N; i++)
        noted &= ts_sql_u64(at[i],
                            "SELECT COUNT(*) FROM lock_event WHERE event = 'taken_over' AND"
                            " resource_name = %s AND detail = 'from who died, whose lease ran out'",
                            ts_quote(name)) > 0;
    return noted;
}

/* A refused client, and a holder whose lease has expired. */
TS_ONCE(test_the_totals_are_at_every_member)
{
    rowlock_list *list = NULL;
    /* Each member's client knows the name. */
    give_back(take_at_all(other, "totals"));
    rowlock_hold *hold = take_at_all(client, "totals");
    WANT(BUSY, rowlock_acquire(other, "totals", &(rowlock_acquire_options){.record_refused = true},
                               &hold, &ts_err));
    give_back(hold);
    assert_true(POLL_UNTIL(is_taken_over("totals"), SOON));
    WANT(OK, rowlock_list_one(client, "totals", &list, &ts_err));
    const rowlock_totals *totals = &rowlock_list_at(list, 0)->totals;
    assert_int_equal(totals->refused, 1);
    assert_true(totals->taken_over > 0);
    rowlock_list_free(list);
}

static int use_it_in_the_child(void *data)
{
    rowlock_hold *hold = data;
    rowlock_hold *own = NULL;
    const bool good = rowlock_hold_check(hold) == ROWLOCK_FORKED &&
                      rowlock_hold_members(hold) == 0 &&
                      ts_try(client, "forked too", ROWLOCK_OPTIMISTIC) == ROWLOCK_FORKED &&
                      rowlock_acquire(client, "forked", NULL, &own, NULL) == ROWLOCK_FORKED &&
                      rowlock_break(client, "forked", NULL, NULL) == ROWLOCK_FORKED &&
                      rowlock_release(hold, NULL) == ROWLOCK_FORKED;
    rowlock_client_close(client);
    return good ? 0 : 1;
}

/* While its threads work. The parent's hold lives on, and is released. */
TS_ONCE(test_a_client_that_forks)
{
    rowlock_hold *hold = take_at_all(client, "forked");
    for (int64_t end_ms = ts_now_ms() + TS_KEPT_TTL / 2; ts_now_ms() < end_ms; ts_pass_ms(50))
        assert_int_equal(ts_reap(ts_fork(use_it_in_the_child, hold), SOON), 0);
    assert_held(hold);
    WANT(BUSY, try_it(other, "forked"));
    give_back(hold);
}

/* What a majority says counts; a broken holder is told at a renewal, and nobody acquires before. */
TS_ONCE(test_what_is_seen_and_broken)
{
    rowlock_list *list = NULL;
    rowlock_hold *hold = take_at_all(client, "seen");
    occupy(0, "one");
    WANT(OK, rowlock_list_get(other, NULL, &list, &ts_err));
    assert_int_equal(rowlock_list_count(list), 1);
    const rowlock_info *info = rowlock_list_at(list, 0);
    assert_string_equal(info->name, "seen");
    assert_int_equal(info->state, ROWLOCK_HELD);
    assert_int_equal(info->kind, ROWLOCK_KIND_QUORUM);
    assert_int_equal(info->token, rowlock_hold_token(hold));
    assert_string_equal(info->owner, rowlock_hold_owner(hold));
    assert_between(1, info->remaining_ms, TS_KEPT_TTL);
    rowlock_list_free(list);
    WANT(NOT_FOUND, rowlock_list_one(other, "never", &list, &ts_err));
    WANT(OK, rowlock_break(other, "seen", "a test", &ts_err));
    WANT(BUSY, try_it(other, "seen"));
    assert_true(POLL_UNTIL(rowlock_hold_check(hold) == ROWLOCK_LOST, SOON));
    WANT(LOST, rowlock_release(hold, &ts_err));
    hold = ts_take(other, "seen", ROWLOCK_OPTIMISTIC, TS_KEPT_TTL);
    give_back(hold);
    WANT(OK, rowlock_list_one(client, "seen", &list, &ts_err));
    assert_int_equal(rowlock_list_at(list, 0)->state, ROWLOCK_FREE);
    rowlock_list_free(list);
    WANT(BUSY, rowlock_break(other, "seen", NULL, &ts_err));
    ts_sql(at[0], "UPDATE resource SET status = 'free' WHERE resource_name = 'one'");
}

/* A member that was away had given more votes: its version is above the token. */
TS_ONCE(test_a_token_is_what_the_holder_has)
{
    rowlock_list *list = NULL;
    use("token");
    set_versions("token", 10, 10, 50);
    cut_off(2);
    rowlock_hold *hold = ts_take(client, "token", ROWLOCK_OPTIMISTIC, TS_KEPT_TTL);
    let_in(2);
    /* 11; more if a busy machine needed more than one try. */
    const uint64_t token = rowlock_hold_token(hold);
    assert_between(11, token, 49);
    assert_true(POLL_UNTIL(rowlock_hold_members(hold) == N, SOON));
    assert_int_equal(version_at(2, "token"), 51);
    WANT(OK, rowlock_list_one(other, "token", &list, &ts_err));
    assert_int_equal(rowlock_list_at(list, 0)->token, token);
    rowlock_list_free(list);
    WANT(BUSY, rowlock_break_with(other, "token", &(rowlock_break_options){.token = 51}, &ts_err));
    for (size_t i = 0; i < N; i++)
        assert_false(free_at(i, "token"));
    /* It returns when a majority is free, also if it was broken already. */
    WANT(OK, rowlock_break_with(other, "token", &(rowlock_break_options){.token = token}, &ts_err));
    for (size_t i = 0; i < N; i++)
        assert_true(free_at(i, "token"));
    WANT(OK,
         rowlock_break_with(other, "token", &(rowlock_break_options){.wait_ms = SOON}, &ts_err));
    give_back(ts_take(other, "token", ROWLOCK_OPTIMISTIC, TS_KEPT_TTL));
    assert_true(POLL_UNTIL(rowlock_hold_check(hold) == ROWLOCK_LOST, SOON));
    WANT(LOST, rowlock_release(hold, &ts_err));
}

/* Where nobody had the token's lease when it was looked for, a holder that comes then keeps its
 * votes. */
TS_ONCE(test_a_later_vote_is_not_broken)
{
    rowlock_client *member = client->quorum->all[0].client;
    rowlock_break_options options = {.token = 6};
    use("later");
    set_versions("later", 7, 7, 7);
    occupy(0, "later");
    WANT(BUSY, rl_break_vote(member, "later", NULL, &options, &ts_err));
    assert_false(free_at(0, "later"));
    options.token = 8;
    WANT(OK, rl_break_vote(member, "later", NULL, &options, &ts_err));
    assert_true(free_at(0, "later"));
}

/* Names that are left at a single member fill that member's list. */
TS_ONCE(test_a_short_list_is_of_all_members)
{
    rowlock_list *list = NULL;
    use("page 1");
    use("page 2");
    rowlock_hold *hold = take_at_all(client, "page 3");
    occupy(0, "page 1");
    occupy(1, "page 2");
    rowlock_list_options options = {.prefix = "page", .limit = 1};
    WANT(OK, rowlock_list_get(other, &options, &list, &ts_err));
    assert_int_equal(rowlock_list_count(list), 1);
    assert_string_equal(rowlock_list_at(list, 0)->name, "page 3");
    rowlock_list_free(list);
    /* Nor is a name behind its end listed twice. */
    ts_sql(at[1], "UPDATE resource SET status = 'free' WHERE resource_name = 'page 2'");
    occupy(0, "page 2");
    options.limit = 2;
    WANT(OK, rowlock_list_get(other, &options, &list, &ts_err));
    assert_int_equal(rowlock_list_count(list), 1);
    rowlock_list_free(list);
    give_back(hold);
    for (size_t i = 0; i < N; i++)
        ts_sql(at[i], "UPDATE resource SET status = 'free' WHERE resource_name LIKE 'page%%'");
}

/* Another client may have it at once: its old holder does not take it again, though nobody has
 * it. */
TS_ONCE(test_what_is_broken_at_once)
{
    const rowlock_break_options now = {.now = true};
    rowlock_hold *hold = take_at_all(client, "at once");
    WANT(OK, rowlock_break_with(other, "at once", &now, &ts_err));
    assert_true(POLL_UNTIL(rowlock_hold_check(hold) == ROWLOCK_LOST, SOON));
    WANT(LOST, rowlock_release(hold, &ts_err));
    for (size_t i = 0; i < N; i++)
        assert_true(free_at(i, "at once"));
}

/* ----------------------------------------------- rule 2: all at the same time, and one line */

/* All members answer late: the call takes as long as one of them. */
TS_ONCE(test_members_are_asked_at_the_same_time)
{
    enum { LATE = 300 };
    use("together");
    for (size_t i = 0; i < N; i++)
        ts_proxy_delay(ts_server_proxy(i), LATE, 0);
    int64_t start_ms = ts_now_ms();
    rowlock_hold *hold = ts_take(client, "together", ROWLOCK_OPTIMISTIC, TTL_MOST);
    assert_between(LATE, ts_now_ms() - start_ms, 2 * LATE - 50 + ts_slack_ms());
    for (size_t i = 0; i < N; i++)
        ts_proxy_flow(ts_server_proxy(i));
    give_back(hold);
}

/* A member that is stopped, or whose host vanished, is not waited for: the others are enough. */
TS_ONCE(test_a_frozen_member_is_not_waited_for)
{
    use("frozen");
    ts_server_freeze(0, true);
    for (int i = 0; i < 5; i++) {
        int64_t start_ms = ts_now_ms();
        rowlock_hold *hold = ts_take(client, "frozen", ROWLOCK_OPTIMISTIC, TS_KEPT_TTL);
        assert_int_equal(rowlock_hold_members(hold), N - 1);
        give_back(hold);
        assert_between(0, ts_now_ms() - start_ms, TS_KEPT_TTL / 10 - 50 + ts_slack_ms());
    }
    /* A waiter in its line goes on without it. */
    rowlock_hold *hold = ts_take(client, "frozen", ROWLOCK_OPTIMISTIC, TS_KEPT_TTL);
    ts_waiter waiter = {
        .client = other, .name = "frozen", .options = {.wait_ms = SOON, .ttl_ms = TS_KEPT_TTL}};
    ts_waiter_start(&waiter);
    ts_pass_ms(200);
    give_back(hold);
    WANT(OK, ts_waiter_join(&waiter, SOON));
    ts_server_freeze(0, false);
    assert_true(POLL_UNTIL(rowlock_hold_members(waiter.hold) == N, SOON));
    give_back(waiter.hold);
}

/* Requests to it do not keep the threads from those to the other members. (Some 900 renewals a
 * second, too many for a busy machine: with --long.) */
TS_ONCE(test_a_frozen_member_and_many_holds)
{
    enum { MANY = 600 };
    static rowlock_hold *holds[MANY];
    char name[32];
    if (!ts_long())
        skip();
    for (size_t i = 0; i < N; i++)
        ts_sql(at[i], "SET GLOBAL innodb_flush_log_at_trx_commit = 2");
    for (size_t i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "many %zu", i);
        holds[i] = ts_take(client, name, ROWLOCK_OPTIMISTIC, TTL_MOST);
    }
    ts_server_freeze(0, true);
    ts_pass_ms(TTL_MOST);
    ts_server_freeze(0, false);
    for (size_t i = 0; i < MANY; i++)
        assert_held(holds[i]);
    for (size_t i = 0; i < MANY; i++)
        give_back(holds[i]);
    for (size_t i = 0; i < N; i++)
        ts_sql(at[i], "SET GLOBAL innodb_flush_log_at_trx_commit = 1");
}

/* If all members know the name with the same version, an acquire is one request, and a release,
 * too; one more if the versions differ. */
static bool cycle_takes(rowlock_client *from, bool differ, const unsigned wanted[N])
{
    static uint64_t version = 200;
    unsigned before[N];
    bool exactly = true;
    if (differ) { /* all rise, since a version that goes back would be reported as damage */
        version += 10;
        set_versions("requests", version, version - 5, version - 5);
    }
    for (size_t i = 0; i < N; i++)
        before[i] = ts_proxy_commands(ts_server_proxy(i));
    give_back(take_at_all(from, "requests"));
    for (size_t i = 0; i < N; i++)
        exactly &= ts_proxy_commands(ts_server_proxy(i)) - before[i] == wanted[i];
    return exactly;
}

/* A connection prepares a statement when it runs it for the first time. */
TS_ONCE(test_requests_of_a_cycle)
{
    rowlock_client_options options = options_of(NULL, N);
    options.no_history = true;
    rowlock_client *quiet = open_with(&options);
    assert_true(POLL_UNTIL(cycle_takes(quiet, false, (unsigned[]){2, 2, 2}), SOON));
    assert_true(POLL_UNTIL(cycle_takes(quiet, true, (unsigned[]){2, 3, 3}), SOON));
    rowlock_client_close(quiet);
}

/* The quickest of 20 cycles. */
static int64_t cycle_us(rowlock_client *from)
{
    int64_t least = INT64_MAX;
    for (int i = 0; i < 20; i++) {
        struct timespec begin_at, end_at;
        clock_gettime(CLOCK_MONOTONIC, &begin_at);
        rowlock_hold *hold = ts_take(from, "cycle", ROWLOCK_OPTIMISTIC, TS_KEPT_TTL);
        give_back(hold);
        clock_gettime(CLOCK_MONOTONIC, &end_at);
        int64_t us = (end_at.tv_sec - begin_at.tv_sec) * 1000000 +
                     (end_at.tv_nsec - begin_at.tv_nsec) / 1000;
        least = us < least ? us : least;
    }
    return least;
}

/* Five members in a schema of their own. */
TS_ONCE(test_two_of_five_are_dead)
{
    const rowlock_client_options options = options_of_second(NULL, ALL);
    WANT(OK, init(&options, TTL_MOST));
    rowlock_client *five = open_with(&options);
    (void)cycle_us(five);
    const int64_t healthy_us = cycle_us(five);
    ts_server_freeze(3, true);
    cut_off(4);
    rowlock_hold *hold = ts_take(five, "first", ROWLOCK_OPTIMISTIC, TS_KEPT_TTL);
    assert_true(rowlock_hold_members(hold) >= 3);
    give_back(hold);
    const int64_t dead_us = cycle_us(five);
    print_message("# a cycle of five: %d us; with two of them dead: %d us\n", (int)healthy_us,
                  (int)dead_us);
    assert_true(dead_us <= 2 * healthy_us + ts_slack_ms() * 10);
    ts_server_freeze(3, false);
    let_in(4);
    hold = ts_take(five, "first", ROWLOCK_OPTIMISTIC, TS_KEPT_TTL);
    assert_true(POLL_UNTIL(rowlock_hold_members(hold) == ALL, SOON));
    give_back(hold);
    rowlock_client_close(five);
}

/* So many wait in the line at that member, and nobody at another one. */
static bool stands_at(size_t member, unsigned count)
{
    for (size_t i = 0; i < N; i++)
        if (ts_sql_u64(at[i], "SELECT COUNT(*) FROM " TS_PROCESSLIST
                              " WHERE info LIKE '%%GET_LOCK%%' AND id <> CONNECTION_ID()") !=
            (i == member ? count : 0))
            return false;
    return true;
}

/* As the first member lists them: the first in line looks meanwhile. */
static size_t count_waiters(const char *name)
{
    const rowlock_waiters_options options = {.name = name};
    rowlock_waiters *waiters = NULL;
    WANT(OK, rowlock_waiters_get(client, &options, &waiters, &ts_err));
    const size_t count = rowlock_waiters_count(waiters);
    rowlock_waiters_free(waiters);
    return count;
}

/* The line is at the same member for all clients: the first one in the order of the servers'
 * identities. */
TS_ONCE(test_waiters_stand_in_one_line)
{
    const size_t first = first_of(N);
    rowlock_hold *hold = take_at_all(client, "line");
    rowlock_client *third = open_quorum();
    ts_waiter one = {
        .client = other, .name = "line", .options = {.wait_ms = SOON, .ttl_ms = TS_KEPT_TTL}};
    ts_waiter two = one;
    two.client = third;
    ts_waiter_start(&one);
    for (size_t i = 0; i < N; i++)
        reconnect(i);
    ts_waiter_start(&two);
    assert_true(POLL_UNTIL(stands_at(first, 1), SOON));
    assert_true(POLL_UNTIL(count_waiters("line") == 1, SOON));
    give_back(hold);
    /* Either may have come first. */
    assert_true(POLL_UNTIL(ts_waiter_ended(&one) || ts_waiter_ended(&two), SOON));
    ts_waiter *next = ts_waiter_ended(&one) ? &one : &two;
    ts_waiter *last = next == &one ? &two : &one;
    WANT(OK, ts_waiter_join(next, SOON));
    assert_false(ts_waiter_ended(last));
    give_back(next->hold);
    WANT(OK, ts_waiter_join(last, SOON));
    give_back(last->hold);
    rowlock_client_close(third);
}

/* ------------------------------------------------------------ rule 3: for how long it is held */

/* One member renews on and on, which is no majority. */
TS_ONCE(test_the_deadline_is_a_majoritys)
{
    rowlock_hold *hold = NULL;
    ts_loss loss = {0};
    give_back(take_at_all(client, "deadline"));
    WANT(OK, rowlock_acquire(client, "deadline",
                             &(rowlock_acquire_options){.wait_ms = SOON,
                                                        .ttl_ms = TS_KEPT_TTL,
                                                        .on_lost = ts_on_lost,
                                                        .on_lost_data = &loss},
                             &hold, &ts_err));
    cut_off(1);
    cut_off(2);
    int64_t start_ms = ts_now_ms();
    assert_true(POLL_UNTIL(rowlock_hold_check(hold) == ROWLOCK_LOST, SOON));
    assert_between(0, ts_now_ms() - start_ms, TS_KEPT_TTL + ts_slack_ms());
    assert_false(free_at(0, "deadline"));
    assert_true(POLL_UNTIL(atomic_load(&loss.times) == 1, SOON));
    assert_int_equal(rowlock_hold_members(hold), 0);
    WANT(LOST, rowlock_release(hold, &ts_err));
    WANT(UNAVAILABLE, ts_try(client, "deadline", ROWLOCK_OPTIMISTIC));
    let_in(1);
    let_in(2);
    give_back(take_at_all(client, "deadline"));
}

/* Two members have renewed it; at the next renewal one of them abstains, and one has gone. The
 * earlier deadline stays. */
TS_ONCE(test_the_deadline_is_not_put_back)
{
    rowlock_hold *hold = ts_take(client, "not back", ROWLOCK_OPTIMISTIC, TTL_MOST);
    assert_true(POLL_UNTIL(rowlock_hold_members(hold) == N, SOON));
    cut_off(2);
    ts_pass_ms(TTL_MOST * 7 / 10);
    ts_sql(at[1], "UPDATE quorum_member SET state = 'closed'");
    ts_pass_ms(TTL_MOST * 4 / 10);
    assert_held(hold);
    ts_sql(at[1], "UPDATE quorum_member SET state = 'voting'");
    let_in(2);
    assert_true(POLL_UNTIL(rowlock_hold_members(hold) == N, SOON));
    give_back(hold);
}

/* A process that can be stopped: it prints the result of its acquire. */
static int acquire_half(char **members)
{
    rowlock_hold *hold = NULL;
    rowlock_client *own = NULL;
    const rowlock_client_options options = {.members = (const char *const *)members,
                                            .member_count = N};
    rowlock_status status = rowlock_client_open(&options, &own, NULL);
    if (status == ROWLOCK_OK)
        status = rowlock_acquire(own, "half", &(rowlock_acquire_options){.ttl_ms = TTL_MOST}, &hold,
                                 NULL);
    bool told = write(STDOUT_FILENO, &status, sizeof status) == sizeof status;
    rowlock_client_close(own);
    return told ? 0 : 1;
}

/* A process that was stopped has too little time left when it goes on. */
TS_ONCE(test_half_of_the_ttl_is_left)
{
    int tell[2];
    use("half");
    for (size_t i = 0; i < N; i++)
        ts_proxy_arm(ts_server_proxy(i), TS_STALL_REPLY, "quorum_take", 1, false);
    assert_int_equal(pipe(tell), 0);
    pid_t child = fork();
    if (child == 0) {
        dup2(tell[1], STDOUT_FILENO);
        execl("/proc/self/exe", "quorum", "half", urls[0], urls[1], urls[2], (char *)NULL);
        _exit(1);
    }
    for (size_t i = 0; i < N; i++)
        assert_true(POLL_UNTIL(ts_proxy_fired(ts_server_proxy(i)), SOON));
    assert_int_equal(kill(child, SIGSTOP), 0);
    for (size_t i = 0; i < N; i++)
        ts_proxy_flow(ts_server_proxy(i));
    ts_pass_ms(TTL_MOST / 2);
    assert_int_equal(kill(child, SIGCONT), 0);
    rowlock_status status = ROWLOCK_OK;
    assert_int_equal(read(tell[0], &status, sizeof status), sizeof status);
    assert_int_equal(status, ROWLOCK_UNAVAILABLE);
    assert_int_equal(waitpid(child, NULL, 0), child);
    close(tell[0]);
    close(tell[1]);
    /* At once, not when the votes expire. */
    assert_true(
        POLL_UNTIL(free_at(0, "half") + free_at(1, "half") + free_at(2, "half") >= 2, 2000));
}

/* --------------------------------------------------------------------- rule 4: tokens rise */

/* With the versions 10, 1, 1: a client gets 11 from the first two, and then the first one goes. */
TS_ONCE(test_tokens_rise_across_majorities)
{
    use("rises");
    set_versions("rises", 10, 1, 1);
    cut_off(2);
    rowlock_hold *hold = ts_take(client, "rises", ROWLOCK_OPTIMISTIC, TS_KEPT_TTL);
    const uint64_t token = rowlock_hold_token(hold);
    /* 11; more if a busy machine made a second attempt necessary. */
    assert_between(11, token, 99);
    assert_true(version_at(1, "rises") >= token);
    give_back(hold);
    let_in(2);
    cut_off(0);
    assert_true(POLL_UNTIL(ts_try(client, "rises", ROWLOCK_OPTIMISTIC) == ROWLOCK_OK, SOON));
    hold = ts_take(other, "rises", ROWLOCK_OPTIMISTIC, TS_KEPT_TTL);
    assert_true(rowlock_hold_token(hold) > token);
    give_back(hold);
    let_in(0);
    give_back(take_at_all(client, "rises"));
}

/* All members have lost commits: a client that has had a higher token notices. */
TS_ONCE(test_a_token_that_goes_back)
{
    use("goes back");
    set_versions("goes back", 70, 70, 70);
    rowlock_hold *hold = take_at_all(client, "goes back");
    const uint64_t token = rowlock_hold_token(hold);
    give_back(hold);
    set_versions("goes back", 1, 1, 1);
    WANT(DAMAGED, try_it(client, "goes back"));
    /* If it could not raise the versions, it reports that once more. */
    assert_true(POLL_UNTIL(ts_try(client, "goes back", ROWLOCK_OPTIMISTIC) == ROWLOCK_OK, SOON));
    hold = take_at_all(client, "goes back");
    assert_true(rowlock_hold_token(hold) > token);
    give_back(hold);
}

/* An unconfirmed vote does not count. */
TS_ONCE(test_an_unconfirmed_token_is_none)
{
    use("confirmed");
    /* Of any two members, one has to confirm the other's token. */
    set_versions("confirmed", 10, 5, 1);
    for (size_t i = 0; i < N; i++)
        ts_proxy_answer(ts_server_proxy(i), 1205, "quorum_renew", 100);
    const int64_t strain_ms = ts_strain_ms();
    const rowlock_status status = ts_try(client, "confirmed", ROWLOCK_OPTIMISTIC);
    /* A member that is reached late gets the token with its take, which confirms it. */
    if (status != ROWLOCK_OK || ts_strain_ms() - strain_ms < 10)
        WANT(UNAVAILABLE, status);
    for (size_t i = 0; i < N; i++) {
        ts_proxy_answer(ts_server_proxy(i), 0, NULL, 0);
        /* The call does not wait for the last member, once two are free. */
        assert_true(POLL_UNTIL(free_at(i, "confirmed"), 1000));
    }
    give_back(take_at_all(client, "confirmed"));
}

/* ---------------------------------------------------------- rule 5: released everywhere */

TS_ONCE(test_a_failure_leaves_nothing_behind)
{
    use("nothing");
    occupy(0, "nothing");
    occupy(1, "nothing");
    /* Nobody has had it, so it is free at once. */
    rowlock_hold *hold = NULL;
    WANT(BUSY, rowlock_acquire(client, "nothing", &(rowlock_acquire_options){.at_least_ms = 5000},
                               &hold, &ts_err));
    assert_true(POLL_UNTIL(free_at(2, "nothing"), 1000));
    assert_int_equal(ts_sql_u64(at[2], "SELECT COUNT(*) FROM resource WHERE resource_name = "
                                       "'nothing' AND not_before > UTC_TIMESTAMP(6)"),
                     0);
    /* Also if the reply was lost. */
    ts_proxy_arm(ts_server_proxy(2), TS_LOSE_REPLY, "quorum_take", 1, false);
    WANT(BUSY, try_it(client, "nothing"));
    /* The call waits for two members: the third may answer later, or not have been asked at all. */
    if (!POLL_UNTIL(ts_proxy_fired(ts_server_proxy(2)), 1000)) {
        WANT(BUSY, try_it(client, "nothing"));
        assert_true(POLL_UNTIL(ts_proxy_fired(ts_server_proxy(2)), 1000));
    }
    assert_true(POLL_UNTIL(free_at(2, "nothing"), 1000));
}

TS_ONCE(test_a_lost_reply_is_looked_for)
{
    use("looked");
    for (size_t i = 0; i < N; i++)
        ts_proxy_arm(ts_server_proxy(i), TS_LOSE_REPLY, "quorum_take", 1, false);
    rowlock_hold *hold = take_at_all(client, "looked");
    for (size_t i = 0; i < N; i++)
        ts_proxy_arm(ts_server_proxy(i), TS_LOSE_REPLY, "quorum_release", 1, false);
    give_back(hold);
    for (size_t i = 0; i < N; i++)
        assert_true(POLL_UNTIL(free_at(i, "looked"), 1000));
}

TS_ONCE(test_a_release_goes_on_past_errors)
{
    rowlock_hold *hold = take_at_all(client, "past");
    cut_off(0);
    give_back(hold);
    assert_true(free_at(1, "past"));
    assert_true(free_at(2, "past"));
    let_in(0);
    hold = ts_take(client, "past", ROWLOCK_OPTIMISTIC, TS_KEPT_TTL);
    cut_off(1);
    cut_off(2);
    rowlock_status status = rowlock_release(hold, &ts_err);
    assert_true(status == ROWLOCK_UNKNOWN || status == ROWLOCK_LOST);
    let_in(1);
    let_in(2);
    give_back(take_at_all(client, "past"));
}

/* ------------------------------------------- rule 6: members that come back, and that go */

TS_ONCE(test_members_that_came_back)
{
    rowlock_hold *hold = take_at_all(client, "back");
    const uint64_t token = rowlock_hold_token(hold);
    ts_server_kill(2);
    assert_true(POLL_UNTIL(rowlock_hold_members(hold) == N - 1, SOON));
    ts_server_start(2, "");
    reconnect(2);
    assert_true(POLL_UNTIL(rowlock_hold_members(hold) == N, SOON));
    assert_true(version_at(2, "back") >= token);
    /* With it, the hold survives the loss of another one. */
    ts_server_kill(0);
    ASSERT_KEPT(hold, 2 * TS_KEPT_TTL);
    assert_int_equal(rowlock_hold_members(hold), N - 1);
    WANT(BUSY, try_it(other, "back"));
    give_back(hold);
    ts_server_start(0, "");
    reconnect(0);
    give_back(take_at_all(client, "back"));
}

TS_ONCE(test_require_all)
{
    rowlock_client_options options = options_of(NULL, N);
    options.require_all = true;
    rowlock_client *all = open_with(&options);
    rowlock_hold *hold = ts_take(all, "all", ROWLOCK_OPTIMISTIC, TS_KEPT_TTL);
    assert_int_equal(rowlock_hold_members(hold), N);
    cut_off(1);
    assert_true(POLL_UNTIL(rowlock_hold_check(hold) == ROWLOCK_LOST, SOON));
    WANT(LOST, rowlock_release(hold, &ts_err));
    let_in(1);
    assert_true(POLL_UNTIL(ts_try(all, "all of them", ROWLOCK_OPTIMISTIC) == ROWLOCK_OK, SOON));
    /* The message names the member that does not vote, not one that was not waited for. */
    ts_sql(at[1], "UPDATE quorum_member SET state = 'closed'");
    ts_server_freeze(0, true);
    assert_true(POLL_UNTIL(ts_try(all, "all of them", ROWLOCK_OPTIMISTIC) == ROWLOCK_UNAVAILABLE &&
                               strstr(ts_err.message, "only 2 of 3 members vote") &&
                               strstr(ts_err.message, "it does not vote (closed;"),
                           SOON));
    ts_server_freeze(0, false);
    ts_sql(at[1], "UPDATE quorum_member SET state = 'voting'");
    /* A lease that its holder could not release at a member that was away. */
    occupy(2, "all of them");
    assert_true(POLL_UNTIL(ts_try(all, "all of them", ROWLOCK_OPTIMISTIC) == ROWLOCK_BUSY &&
                               strstr(ts_err.message, "no majority has it"),
                           SOON));
    rowlock_client_close(all);
}

/* ---------------------------------------------------- rule 8: what one server alone can say */

TS_ONCE(test_what_a_quorum_cannot)
{
    static const bool share[] = {true};
    const char *names[] = {"cannot"};
    rowlock_hold *hold = NULL;
    uint64_t version = 0;
    rowlock_acquire_options wanted[] = {
        {.mode = ROWLOCK_PESSIMISTIC}, {.shared = true}, {.slots = 2}, {.value = "10.0.0.1"}};
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++)
        WANT(UNSUPPORTED, rowlock_acquire(client, "cannot", &wanted[i], &hold, &ts_err));
    WANT(UNSUPPORTED,
         rowlock_acquire_set(client, names, 1, &(rowlock_acquire_options){.share = share}, &hold,
                             &ts_err));
    WANT(UNSUPPORTED, rowlock_version_read(client, "cannot", &version, &ts_err));
    WANT(UNSUPPORTED, rowlock_section_run(client, "cannot", NULL, ts_no_work, NULL, NULL, &ts_err));
    hold = take_at_all(client, "can");
    WANT(UNSUPPORTED, rowlock_fence(hold, at[0], &ts_err));
    WANT(UNSUPPORTED, rowlock_hold_downgrade(hold, &ts_err));
    WANT(UNSUPPORTED, rowlock_tx_acquire(client, at[0], "cannot", NULL, &ts_err));
    give_back(hold);
    for (size_t i = 0; i < N; i++)
        assert_int_equal(
            ts_sql_u64(at[i], "SELECT COUNT(*) FROM resource WHERE resource_name = 'cannot'"), 0);
}

int main(int argc, char **argv)
{
    if (argc == 2 + N && strcmp(argv[1], "half") == 0)
        return acquire_half(argv + 2);
    return ts_run_each("quorum", NULL, ts_servers_flow, begin, end);
}
