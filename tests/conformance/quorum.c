/* Leases at a majority of independent servers. Each of the eight rules has a test that fails
 * without it. */
#include "rowlock/rowlock_quorum.h"

#include "support/servers.h"

enum { N = 3, ALL = 5, TTL_MOST = 6000, SOON = 12000 };

static const char *urls[ALL];
static rowlock_client *client;
static rowlock_client *other;
static MYSQL *at[ALL];

/* ------------------------------------------------------------------------ who votes */

static rowlock_client_options options_of(const size_t *which, size_t count)
{
    static const char *lists[16][ALL];
    static size_t last;
    const char **chosen = lists[last++ % 16];
    for (size_t i = 0; i < count; i++)
        chosen[i] = urls[which ? which[i] : i];
    return (rowlock_client_options){
        .members = chosen, .member_count = count, .connect_timeout_ms = 5000};
}

static rowlock_client *open_with(const rowlock_client_options *options)
{
    rowlock_client *opened = NULL;
    WANT(OK, rowlock_client_open(options, &opened, &ts_err));
    return opened;
}

static rowlock_client *open_quorum(void)
{
    const rowlock_client_options options = options_of(NULL, N);
    return open_with(&options);
}

static rowlock_status init(const rowlock_client_options *options, int64_t ttl_most_ms)
{
    return rowlock_quorum_init(options, &(rowlock_quorum_options){.ttl_most_ms = ttl_most_ms},
                               &ts_err);
}

/* As the members say now. */
static rowlock_member_state state_of(size_t i)
{
    const rowlock_client_options options = options_of(NULL, N);
    rowlock_quorum *quorum = NULL;
    WANT(OK, rowlock_quorum_get(&options, NULL, &quorum, &ts_err));
    rowlock_member_state state = rowlock_quorum_at(quorum, i)->state;
    rowlock_quorum_free(quorum);
    return state;
}

static void reconnect(size_t i)
{
    mysql_close(at[i]);
    at[i] = ts_server_connect(i);
}

/* Nobody reaches it; for those that are open already, too. */
static void cut_off(size_t i)
{
    ts_proxy_refuse(ts_server_proxy(i), true);
    ts_proxy_cut(ts_server_proxy(i));
}

static void let_in(size_t i)
{
    ts_proxy_flow(ts_server_proxy(i));
}

static uint64_t version_at(size_t i, const char *name)
{
    return ts_sql_u64(at[i], "SELECT version FROM resource WHERE resource_name = %s",
                      ts_quote(name));
}

static bool free_at(size_t i, const char *name)
{
    return ts_sql_u64(at[i],
                      "SELECT COUNT(*) FROM resource WHERE resource_name = %s AND status = 'held'"
                      " AND lease_expires_at > UTC_TIMESTAMP(6)",
                      ts_quote(name)) == 0;
}

/* The name is made at every member. */
static void use(const char *name)
{
    rowlock_hold *hold = ts_take(client, name, ROWLOCK_OPTIMISTIC, TS_KEPT_TTL);
    assert_true(POLL_UNTIL(rowlock_hold_members(hold) == N, SOON));
    WANT(OK, rowlock_release(hold, &ts_err));
}

static void set_versions(const char *name, uint64_t one, uint64_t two, uint64_t three)
{
    const uint64_t versions[N] = {one, two, three};
    for (size_t i = 0; i < N; i++)
        ts_sql(at[i], "UPDATE resource SET version = %" PRIu64 " WHERE resource_name = %s",
               versions[i], ts_quote(name));
}

/* Somebody else has it there, for as long as the test is. */
static void occupy(size_t i, const char *name)
{
    ts_sql(at[i],
           "UPDATE resource SET status = 'held', owner = 'somebody', owner_label = 'somebody',"
           " lease_expires_at = UTC_TIMESTAMP(6) + INTERVAL 1 HOUR WHERE resource_name = %s",
           ts_quote(name));
}

/* One that was away is asked again after some seconds. */
static rowlock_hold *take_at_all(rowlock_client *from, const char *name)
{
    rowlock_hold *hold = ts_take(from, name, ROWLOCK_OPTIMISTIC, TS_KEPT_TTL);
    assert_true(POLL_UNTIL(rowlock_hold_members(hold) == N, SOON));
    return hold;
}

static void give_back(rowlock_hold *hold)
{
    WANT(OK, rowlock_release(hold, &ts_err));
}

/* Of another schema, in which they are no quorum yet. */
static rowlock_client_options options_of_second(const size_t *which, size_t count)
{
    static bool made;
    rowlock_client_options options = options_of(which, count);
    options.schema = "second";
    for (size_t i = 0; i < ALL; i++) {
        const rowlock_client_options one = {.url = urls[i], .schema = "second"};
        if (!made)
            WANT(OK, rowlock_migrate(&one, NULL, &(rowlock_migrate_result){0}, &ts_err));
        ts_sql(at[i], "DELETE FROM second.quorum_member");
    }
    made = true;
    return options;
}

/* The member of the first `count` whose name for itself is the lowest. */
static size_t first_of(size_t count)
{
    size_t first = 0;
    char *servers[N];
    for (size_t i = 0; i < count; i++) {
        servers[i] = ts_sql_text(at[i], "SELECT server FROM quorum_member");
        if (strcmp(servers[i], servers[first]) < 0)
            first = i;
    }
    for (size_t i = 0; i < count; i++)
        free(servers[i]);
    return first;
}

static int begin(TS_NO_STATE)
{
    ts_servers_start(ALL);
    for (size_t i = 0; i < ALL; i++) {
        urls[i] = ts_server_url(i);
        at[i] = ts_server_connect(i);
    }
    const rowlock_client_options options = options_of(NULL, N);
    WANT(OK, init(&options, TTL_MOST));
    client = open_quorum();
    other = open_quorum();
    return 0;
}

static int end(TS_NO_STATE)
{
    rowlock_client_close(client);
    rowlock_client_close(other);
    for (size_t i = 0; i < ALL; i++)
        mysql_close(at[i]);
    ts_servers_remove();
    return 0;
}

/* ------------------------------------------------------------------------ a lease */

TS_ONCE(test_one_holder)
{
    rowlock_hold *hold = take_at_all(client, "one");
    WANT(BUSY, ts_try(other, "one", ROWLOCK_OPTIMISTIC));
    ASSERT_KEPT(hold, TS_KEPT_FOR);
    assert_int_equal(rowlock_hold_members(hold), N);
    assert_between(1, rowlock_hold_remaining_ms(hold), TS_KEPT_TTL);
    const uint64_t token = rowlock_hold_token(hold);
    give_back(hold);
    for (size_t i = 0; i < N; i++)
        assert_true(POLL_UNTIL(free_at(i, "one"), 1000));
    hold = ts_take(other, "one", ROWLOCK_OPTIMISTIC, TS_KEPT_TTL);
    assert_int_equal(rowlock_hold_token(hold), token + 1);
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
    WANT(OK, rowlock_acquire(client, "waits", &(rowlock_acquire_options){.max_hold_ms = 1000},
                             &hold, &ts_err));
    WANT(TIMEOUT, rowlock_acquire(other, "waits", &(rowlock_acquire_options){.wait_ms = 100},
                                  &waiter.hold, &ts_err));
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
    /* One member cannot say yes; two others can. */
    hold = ts_take(client, "mine", ROWLOCK_OPTIMISTIC, TS_KEPT_TTL);
    assert_int_equal(rowlock_hold_members(hold), N - 1);
    /* Nor is it broken with them. */
    WANT(OK, rowlock_break(other, "mine", NULL, &ts_err));
    assert_false(free_at(0, "mine"));
    WANT(OK, rowlock_release(own, &ts_err));
    assert_true(POLL_UNTIL(rowlock_hold_check(hold) == ROWLOCK_LOST, SOON));
    WANT(LOST, rowlock_release(hold, &ts_err));
    ts_sql(at[1], "UPDATE resource SET kind = 'optimistic' WHERE resource_name = 'mine'");
    WANT(MODE, ts_try(client, "mine", ROWLOCK_OPTIMISTIC));
    rowlock_client_close(alone);
}

TS_ONCE(test_the_history_is_at_every_member)
{
    rowlock_hold *hold = take_at_all(client, "history");
    WANT(OK, rowlock_release_with(hold, &(rowlock_release_options){.note = "done"}, &ts_err));
    WANT(OK, rowlock_client_flush(client, SOON, &ts_err));
    for (size_t i = 0; i < N; i++)
        assert_int_equal(ts_sql_u64(at[i],
                                    "SELECT COUNT(*) FROM lock_event WHERE kind = 'quorum' AND"
                                    " resource_name = 'history' AND event = 'released'"),
                         1);
}

/* Somebody who died had it. (A busy machine may want a second try, which then takes it from
 * nobody.) */
static bool is_taken_over(const char *name)
{
    bool noted = true;
    for (size_t i = 0; i < N; i++)
        ts_sql(at[i],
               "UPDATE resource SET status = 'held', owner = 'dead', owner_label = 'who died',"
               " version = version + %d, lease_expires_at = UTC_TIMESTAMP(6)"
               " WHERE resource_name = %s",
               i == 0, ts_quote(name)); /* so that the others confirm the token */
    give_back(take_at_all(other, name));
    WANT(OK, rowlock_client_flush(other, SOON, &ts_err));
    for (size_t i = 0; i < N; i++)
        noted &= ts_sql_u64(at[i],
                            "SELECT COUNT(*) FROM lock_event WHERE event = 'taken_over' AND"
                            " resource_name = %s AND detail = 'from who died, whose lease ran out'",
                            ts_quote(name)) > 0;
    return noted;
}

/* Who was refused, and whose lease ran out. */
TS_ONCE(test_the_totals_are_at_every_member)
{
    rowlock_list *list = NULL;
    /* (Each member's client knows the name.) */
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

/* Whatever its threads are doing. The parent's hold lives on, and is given back. */
TS_ONCE(test_a_client_that_forks)
{
    rowlock_hold *hold = take_at_all(client, "forked");
    for (int64_t end_ms = ts_now_ms() + TS_KEPT_TTL / 2; ts_now_ms() < end_ms; ts_pass_ms(50))
        assert_int_equal(ts_reap(ts_fork(use_it_in_the_child, hold), SOON), 0);
    assert_held(hold);
    WANT(BUSY, ts_try(other, "forked", ROWLOCK_OPTIMISTIC));
    give_back(hold);
}

/* Where a majority says so; who is broken hears of it at a renewal, and nobody is in before. */
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
    WANT(BUSY, ts_try(other, "seen", ROWLOCK_OPTIMISTIC));
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

/* A member that was away has given more votes: its version is above the token. */
TS_ONCE(test_a_token_is_what_the_holder_has)
{
    rowlock_list *list = NULL;
    use("token");
    set_versions("token", 10, 10, 50);
    cut_off(2);
    rowlock_hold *hold = ts_take(client, "token", ROWLOCK_OPTIMISTIC, TS_KEPT_TTL);
    let_in(2);
    /* 11; more where a busy machine wanted more than one try. */
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
    /* It returns when a majority is open: of one that was broken already, too. */
    WANT(OK, rowlock_break_with(other, "token", &(rowlock_break_options){.token = token}, &ts_err));
    for (size_t i = 0; i < N; i++)
        assert_true(free_at(i, "token"));
    WANT(OK,
         rowlock_break_with(other, "token", &(rowlock_break_options){.wait_ms = SOON}, &ts_err));
    give_back(ts_take(other, "token", ROWLOCK_OPTIMISTIC, TS_KEPT_TTL));
    assert_true(POLL_UNTIL(rowlock_hold_check(hold) == ROWLOCK_LOST, SOON));
    WANT(LOST, rowlock_release(hold, &ts_err));
}

/* What is left at one member alone fills that member's list. */
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
    /* Nor is a name that was behind its end said twice. */
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

/* It may be another's at once: its holder does not take it again, though nobody has it. */
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

/* --------------------------------------------------------- rule 1: the list of members */

TS_ONCE(test_what_is_no_list)
{
    rowlock_client *none = NULL;
    rowlock_client_options options = options_of(NULL, 2);
    WANT(INVALID, rowlock_client_open(&options, &none, &ts_err));
    options = options_of((size_t[]){0, 1, 1}, N);
    WANT(INVALID, rowlock_client_open(&options, &none, &ts_err));
    WANT(INVALID, init(&options, TTL_MOST));
    WANT(INVALID, rowlock_quorum_rejoin(&options, ROWLOCK_ALL_MEMBERS, NULL, &ts_err));
    rowlock_quorum *quorum = NULL;
    WANT(OK, rowlock_quorum_get(&options, NULL, &quorum, &ts_err));
    assert_int_equal(rowlock_quorum_voting(quorum), 2); /* the server with two names is one */
    rowlock_quorum_free(quorum);
    options = options_of(NULL, N);
    options.url = urls[0];
    WANT(INVALID, rowlock_client_open(&options, &none, &ts_err));
    options.url = NULL;
    options.via = ROWLOCK_VIA_PROCEDURES;
    WANT(UNSUPPORTED, rowlock_client_open(&options, &none, &ts_err));
    options = options_of((size_t[]){2, 3, 4}, N);
    WANT(SCHEMA, rowlock_client_open(&options, &none, &ts_err));
    WANT(MODE, init(&options, TTL_MOST));
    assert_int_equal(ts_sql_u64(at[3], "SELECT COUNT(*) FROM quorum_member"), 0);
    options = options_of(NULL, N);
    WANT(MODE, init(&options, TTL_MOST + 1000));
    WANT(INVALID, init(&options, ROWLOCK_QUORUM_TTL_MAX_MS + 1));
    WANT(OK, init(&options, TTL_MOST));
    /* Five that are named, and a quorum of three: its majority is none of theirs. */
    options = options_of(NULL, ALL);
    WANT(SCHEMA, rowlock_client_open(&options, &none, &ts_err));
}

/* A member that has another list, or is closed, has no vote: it neither gives one, nor renews. */
TS_ONCE(test_the_list_is_in_every_vote)
{
    rowlock_hold *hold = take_at_all(client, "listed");
    for (size_t i = 1; i < N; i++)
        ts_sql(at[i], "UPDATE quorum_member SET state = 'closed'");
    WANT(UNAVAILABLE, ts_try(other, "list", ROWLOCK_OPTIMISTIC));
    assert_true(POLL_UNTIL(rowlock_hold_check(hold) == ROWLOCK_LOST, SOON));
    for (size_t i = 1; i < N; i++)
        ts_sql(at[i], "UPDATE quorum_member SET state = 'voting'");
    WANT(LOST, rowlock_release(hold, &ts_err));
    char *list = ts_sql_text(at[0], "SELECT list FROM quorum_member");
    for (size_t i = 1; i < N; i++)
        ts_sql(at[i], "UPDATE quorum_member SET list = REPEAT('%zu', 32)", i);
    WANT(UNAVAILABLE, ts_try(other, "list", ROWLOCK_OPTIMISTIC));
    for (size_t i = 1; i < N; i++)
        ts_sql(at[i], "UPDATE quorum_member SET list = '%s'", list);
    free(list);
    use("list");
}

/* It ended at the second member, or at the last: nobody can say whether the others had the list,
 * and have forgotten leases. */
TS_ONCE(test_init_that_ends_between_members)
{
    for (size_t last = 1; last < N; last++) {
        const rowlock_client_options options = options_of_second(NULL, N);
        ts_proxy_arm(ts_server_proxy(last), TS_LOSE_COMMAND, "member_add", 1, false);
        WANT(UNAVAILABLE, init(&options, ROWLOCK_QUORUM_TTL_MAX_MS));
        for (size_t i = 0; i < N; i++)
            assert_int_equal(ts_sql_u64(at[i], "SELECT COUNT(*) FROM second.quorum_member"),
                             i < last);
        WANT(OK, init(&options, ROWLOCK_QUORUM_TTL_MAX_MS));
        for (size_t i = 0; i < N; i++)
            assert_int_equal(
                ts_sql_u64(at[i], "SELECT votes_from > UTC_TIMESTAMP(6) FROM second.quorum_member"),
                i >= last);
    }
}

typedef struct writer {
    rowlock_client_options options;
    bool rejoins;
    pthread_t thread;
    rowlock_status status;
    atomic_bool ended;
} writer;

static void *write_list(void *data)
{
    writer *w = data;
    w->status = w->rejoins ? rowlock_quorum_rejoin(&w->options, 0, NULL, NULL)
                           : rowlock_quorum_replace(&w->options, NULL, NULL);
    atomic_store(&w->ended, true);
    return NULL;
}

static void start_writer(writer *w)
{
    w->options.connect_timeout_ms = 60000;
    assert_int_equal(pthread_create(&w->thread, NULL, write_list, w), 0);
}

/* A rejoin, and one of two calls that replace members, are late with what they write: it changes
 * nothing, as another list has been written since. */
TS_ONCE(test_lists_are_written_in_turn)
{
    const size_t first = first_of(2);
    const rowlock_client_options old = options_of_second(NULL, N);
    WANT(OK, init(&old, ROWLOCK_TTL_MIN_MS));
    writer rejoin = {.options = old, .rejoins = true};
    writer replaces[] = {{.options = options_of((size_t[]){0, 1, 3}, N)},
                         {.options = options_of((size_t[]){0, 1, 4}, N)}};
    ts_proxy_arm(ts_server_proxy(0), TS_DELAY_COMMAND, "member_change", 1, false);
    start_writer(&rejoin);
    assert_true(POLL_UNTIL(ts_proxy_fired(ts_server_proxy(0)), SOON));
    ts_proxy_arm(ts_server_proxy(first), TS_DELAY_COMMAND, "member_change", 1, false);
    for (int i = 0; i < 2; i++) {
        replaces[i].options.schema = "second";
        start_writer(&replaces[i]);
    }
    assert_true(
        POLL_UNTIL(atomic_load(&replaces[0].ended) || atomic_load(&replaces[1].ended), SOON));
    ts_proxy_flow(ts_server_proxy(0));
    ts_proxy_flow(ts_server_proxy(first));
    for (int i = 0; i < 2; i++)
        pthread_join(replaces[i].thread, NULL);
    pthread_join(rejoin.thread, NULL);
    WANT(MODE, rejoin.status);
    const size_t won = replaces[1].status == ROWLOCK_OK;
    WANT(OK, replaces[won].status);
    WANT(MODE, replaces[!won].status);
    char *list = ts_sql_text(at[3 + won], "SELECT list FROM second.quorum_member");
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(ts_sql_u64(at[i],
                                    "SELECT COUNT(*) FROM second.quorum_member WHERE list = '%s'"
                                    " AND state = 'voting'",
                                    list),
                         1);
    free(list);
    assert_int_equal(ts_sql_u64(at[3 + !won], "SELECT COUNT(*) FROM second.quorum_member"), 0);
}

/* As another call does, which was quicker: when both have closed the list. */
static void *give_another_list(void *unused)
{
    (void)unused;
    for (size_t i = 0; i < 2; i++) {
        MYSQL *mysql = ts_server_connect(i);
        (void)POLL_UNTIL(
            ts_sql_u64(mysql, "SELECT state = 'closed' FROM second.quorum_member") == 1, SOON);
        ts_sql(mysql, "UPDATE second.quorum_member SET list = REPEAT('a', 32), state = 'voting'");
        mysql_close(mysql);
    }
    return NULL;
}

/* Each of its calls goes on where the one before it ended. */
TS_ONCE(test_a_replace_that_ends_half_way)
{
    const size_t first = first_of(2);
    pthread_t quicker;
    const rowlock_client_options old = options_of_second(NULL, N);
    WANT(OK, init(&old, ROWLOCK_TTL_MIN_MS));
    rowlock_client_options options = options_of((size_t[]){0, 1, 3}, N);
    options.schema = "second";
    char *list = ts_sql_text(at[0], "SELECT list FROM second.quorum_member");
    assert_int_equal(pthread_create(&quicker, NULL, give_another_list, NULL), 0);
    WANT(UNAVAILABLE, rowlock_quorum_replace(&options, NULL, &ts_err));
    pthread_join(quicker, NULL);
    assert_int_equal(ts_sql_u64(at[3], "SELECT COUNT(*) FROM second.quorum_member"), 0);
    for (size_t i = 0; i < 2; i++)
        ts_sql(at[i], "UPDATE second.quorum_member SET list = '%s', state = 'closed'", list);
    free(list);
    /* One of two old members has the new list; then both, and not the new member. */
    ts_proxy_arm(ts_server_proxy(!first), TS_LOSE_COMMAND, "member_change", 1, false);
    WANT(UNAVAILABLE, rowlock_quorum_replace(&options, NULL, &ts_err));
    assert_int_equal(ts_sql_u64(at[first], "SELECT number FROM second.quorum_member"), 2);
    assert_int_equal(ts_sql_u64(at[!first], "SELECT number FROM second.quorum_member"), 1);
    ts_proxy_arm(ts_server_proxy(3), TS_LOSE_COMMAND, "member_add", 1, false);
    WANT(UNAVAILABLE, rowlock_quorum_replace(&options, NULL, &ts_err));
    assert_int_equal(ts_sql_u64(at[!first], "SELECT number FROM second.quorum_member"), 2);
    WANT(OK, rowlock_quorum_replace(&options, NULL, &ts_err));
    assert_int_equal(ts_sql_u64(at[3], "SELECT number FROM second.quorum_member"), 2);
    assert_int_equal(ts_sql_u64(at[2], "SELECT number FROM second.quorum_member"), 1);
}

/* ----------------------------------------------- rule 2: all at the same time, and one line */

/* Each of them answers late: the call takes as long as one of them. */
TS_ONCE(test_members_are_asked_at_the_same_time)
{
    enum { LATE = 300 };
    use("together");
    for (size_t i = 0; i < N; i++)
        ts_proxy_delay(ts_server_proxy(i), LATE, 0);
    int64_t start_ms = ts_now_ms();
    rowlock_hold *hold = ts_take(client, "together", ROWLOCK_OPTIMISTIC, TS_KEPT_TTL);
    assert_between(LATE, ts_now_ms() - start_ms, 2 * LATE - 50 + ts_slack_ms());
    for (size_t i = 0; i < N; i++)
        ts_proxy_flow(ts_server_proxy(i));
    give_back(hold);
}

/* Stopped, its host vanished: the others are enough, and it is not waited for. */
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
    /* Who waits in its line goes on without it. */
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

/* Its requests do not keep the threads from the other members'. (Some 900 renewals a second, which
 * a busy machine may not bear: with --long.) */
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

/* Where all know the name, and have the same version: one request to take it, one to give it back;
 * one more where the versions differ. */
static bool cycle_takes(rowlock_client *from, bool differ, const unsigned wanted[N])
{
    static uint64_t version = 200;
    unsigned before[N];
    bool exactly = true;
    if (differ)
        set_versions("requests", ++version * 10, 100, 100);
    for (size_t i = 0; i < N; i++)
        before[i] = ts_proxy_commands(ts_server_proxy(i));
    give_back(take_at_all(from, "requests"));
    for (size_t i = 0; i < N; i++)
        exactly &= ts_proxy_commands(ts_server_proxy(i)) - before[i] == wanted[i];
    return exactly;
}

/* (A statement is prepared when a connection runs it first.) */
TS_ONCE(test_requests_of_a_cycle)
{
    rowlock_client_options options = options_of(NULL, N);
    options.no_history = true;
    rowlock_client *quiet = open_with(&options);
    assert_true(POLL_UNTIL(cycle_takes(quiet, false, (unsigned[]){2, 2, 2}), SOON));
    assert_true(POLL_UNTIL(cycle_takes(quiet, true, (unsigned[]){2, 3, 3}), SOON));
    rowlock_client_close(quiet);
}

/* Of 20 cycles, the quickest. */
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

/* The line is at the first member in the order of their names for themselves: for all clients. */
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
#define WAITING(i)                                                                                 \
    ts_sql_u64(at[i], "SELECT COUNT(*) FROM " TS_PROCESSLIST " WHERE info LIKE '%%GET_LOCK%%'"     \
                      " AND id <> CONNECTION_ID()")
    ts_waiter_start(&two);
    assert_true(POLL_UNTIL(WAITING(first) == 1, SOON));
    for (size_t i = 0; i < N; i++)
        assert_int_equal(WAITING(i), i == first);
    give_back(hold);
    /* Whichever came first. */
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

/* One renews on and on; that is no majority. */
TS_ONCE(test_the_deadline_is_a_majoritys)
{
    rowlock_hold *hold = take_at_all(client, "deadline");
    ts_loss loss = {0};
    WANT(OK, rowlock_release(hold, &ts_err));
    WANT(OK,
         rowlock_acquire(client, "deadline",
                         &(rowlock_acquire_options){
                             .ttl_ms = TS_KEPT_TTL, .on_lost = ts_on_lost, .on_lost_data = &loss},
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

/* Two have renewed it; one of them abstains when it is renewed again, and one went before. What the
 * two have said stays. */
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

/* A process of its own, which can be stopped: it says on stdout what became of its acquire. */
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

/* A process that was stopped has too little left when it goes on. */
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
    /* At once, not when their time is over. */
    assert_true(
        POLL_UNTIL(free_at(0, "half") + free_at(1, "half") + free_at(2, "half") >= 2, 2000));
}

/* --------------------------------------------------------------------- rule 4: tokens rise */

/* With the versions 10, 1, 1: from the first two somebody gets 11, and then the first one goes. */
TS_ONCE(test_tokens_rise_across_majorities)
{
    use("rises");
    set_versions("rises", 10, 1, 1);
    cut_off(2);
    rowlock_hold *hold = ts_take(client, "rises", ROWLOCK_OPTIMISTIC, TS_KEPT_TTL);
    const uint64_t token = rowlock_hold_token(hold);
    assert_int_equal(token, 11);
    assert_int_equal(version_at(1, "rises"), 11);
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

/* All have lost what they had committed: who has had a higher token sees it. */
TS_ONCE(test_a_token_that_goes_back)
{
    use("goes back");
    set_versions("goes back", 70, 70, 70);
    rowlock_hold *hold = take_at_all(client, "goes back");
    const uint64_t token = rowlock_hold_token(hold);
    give_back(hold);
    set_versions("goes back", 1, 1, 1);
    WANT(DAMAGED, ts_try(client, "goes back", ROWLOCK_OPTIMISTIC));
    /* (Where it could not raise them, it says so once more.) */
    assert_true(POLL_UNTIL(ts_try(client, "goes back", ROWLOCK_OPTIMISTIC) == ROWLOCK_OK, SOON));
    hold = take_at_all(client, "goes back");
    assert_true(rowlock_hold_token(hold) > token);
    give_back(hold);
}

/* What is not confirmed does not count. */
TS_ONCE(test_an_unconfirmed_token_is_none)
{
    use("confirmed");
    /* Whichever two are the first, one of them has to confirm the other's. */
    set_versions("confirmed", 10, 5, 1);
    for (size_t i = 0; i < N; i++)
        ts_proxy_answer(ts_server_proxy(i), 1205, "quorum_renew", 100);
    WANT(UNAVAILABLE, ts_try(client, "confirmed", ROWLOCK_OPTIMISTIC));
    for (size_t i = 0; i < N; i++) {
        ts_proxy_answer(ts_server_proxy(i), 0, NULL, 0);
        /* The call does not wait for the last one, once two are free. */
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
    /* Nobody has had it: it does not stay closed either. */
    rowlock_hold *hold = NULL;
    WANT(BUSY, rowlock_acquire(client, "nothing", &(rowlock_acquire_options){.at_least_ms = 5000},
                               &hold, &ts_err));
    assert_true(free_at(2, "nothing"));
    assert_int_equal(ts_sql_u64(at[2], "SELECT COUNT(*) FROM resource WHERE resource_name = "
                                       "'nothing' AND not_before > UTC_TIMESTAMP(6)"),
                     0);
    /* Nor where the reply was lost. */
    ts_proxy_arm(ts_server_proxy(2), TS_LOSE_REPLY, "quorum_take", 1, false);
    WANT(BUSY, ts_try(client, "nothing", ROWLOCK_OPTIMISTIC));
    assert_true(ts_proxy_fired(ts_server_proxy(2)));
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
    /* With it the hold outlives another one. */
    ts_server_kill(0);
    ASSERT_KEPT(hold, 2 * TS_KEPT_TTL);
    assert_int_equal(rowlock_hold_members(hold), N - 1);
    WANT(BUSY, ts_try(other, "back", ROWLOCK_OPTIMISTIC));
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
    /* Told of the one that does not vote, and not of one that was not waited for. */
    ts_sql(at[1], "UPDATE quorum_member SET state = 'closed'");
    ts_server_freeze(0, true);
    assert_true(POLL_UNTIL(ts_try(all, "all of them", ROWLOCK_OPTIMISTIC) == ROWLOCK_UNAVAILABLE &&
                               strstr(ts_err.message, "only 2 of 3 members vote") &&
                               strstr(ts_err.message, "it does not vote (closed;"),
                           SOON));
    ts_server_freeze(0, false);
    ts_sql(at[1], "UPDATE quorum_member SET state = 'voting'");
    /* What its holder could not give back at one that was away. */
    occupy(2, "all of them");
    assert_true(POLL_UNTIL(ts_try(all, "all of them", ROWLOCK_OPTIMISTIC) == ROWLOCK_BUSY &&
                               strstr(ts_err.message, "no majority has it"),
                           SOON));
    rowlock_client_close(all);
}

/* ------------------------------------------------- rule 7: members that may have forgotten */

TS_ONCE(test_a_long_ttl)
{
    rowlock_hold *hold = NULL;
    WANT(INVALID, rowlock_acquire(client, "long", &(rowlock_acquire_options){.ttl_ms = 300001},
                                  &hold, &ts_err));
    WANT(INVALID,
         rowlock_acquire(client, "long", &(rowlock_acquire_options){.ttl_ms = TTL_MOST + 1}, &hold,
                         &ts_err));
    assert_int_equal(
        ts_sql_u64(at[0], "SELECT COUNT(*) FROM resource WHERE resource_name = 'long'"), 0);
}

TS_ONCE(test_a_member_abstains_after_its_start)
{
    rowlock_hold *hold = take_at_all(client, "abstains");
    ts_server_kill(1);
    int64_t start_ms = ts_now_ms();
    ts_server_start(1, "--innodb-flush-log-at-trx-commit=2");
    reconnect(1);
    assert_int_equal(state_of(1), ROWLOCK_MEMBER_ABSTAINING);
    cut_off(2);
    WANT(UNAVAILABLE, ts_try(other, "while it does", ROWLOCK_OPTIMISTIC));
    let_in(2);
    assert_true(POLL_UNTIL(state_of(1) == ROWLOCK_MEMBER_VOTING, SOON));
    assert_true(ts_now_ms() - start_ms > TTL_MOST - 1000);
    assert_held(hold);
    assert_true(POLL_UNTIL(rowlock_hold_members(hold) == N, SOON));
    give_back(hold);
    /* With a binary log, recovery undoes what that has lost. */
    ts_server_kill(1);
    ts_server_start(1, "--log-bin=binlog");
    reconnect(1);
    ts_sql(at[1], "SET GLOBAL innodb_flush_log_at_trx_commit = 1");
    ts_sql(at[1], "SET GLOBAL sync_binlog = 0");
    assert_int_equal(state_of(1), ROWLOCK_MEMBER_ABSTAINING);
    ts_sql(at[1], "SET GLOBAL sync_binlog = 1");
    assert_int_equal(state_of(1), ROWLOCK_MEMBER_VOTING);
    ts_server_kill(1);
    ts_server_start(1, "");
    reconnect(1);
}

/* Its data is gone: without a floor it would give a token that there was already. */
TS_ONCE(test_a_member_rejoins)
{
    const rowlock_client_options options = options_of(NULL, N);
    use("rejoins");
    set_versions("rejoins", 10, 10, 10);
    cut_off(2);
    rowlock_hold *hold = ts_take(client, "rejoins", ROWLOCK_OPTIMISTIC, TS_KEPT_TTL);
    const uint64_t token = rowlock_hold_token(hold);
    give_back(hold);
    let_in(2);
    use("rejoins too");
    ts_sql(at[0], "DROP SCHEMA rowlock");
    ts_server_schema(0);
    reconnect(0);
    assert_int_equal(state_of(0), ROWLOCK_MEMBER_NONE);
    /* Its vote would be the second one. */
    cut_off(2);
    WANT(UNAVAILABLE, ts_try(client, "rejoins", ROWLOCK_OPTIMISTIC));
    /* Those that could say what it has forgotten are too few. */
    WANT(UNAVAILABLE, rowlock_quorum_rejoin(&options, ROWLOCK_ALL_MEMBERS, NULL, &ts_err));
    let_in(2);
    WANT(INVALID, rowlock_quorum_rejoin(&options, N, NULL, &ts_err));
    WANT(OK, rowlock_quorum_rejoin(&options, ROWLOCK_ALL_MEMBERS, NULL, &ts_err));
    assert_int_equal(state_of(0), ROWLOCK_MEMBER_ABSTAINING);
    assert_true(ts_sql_u64(at[0], "SELECT version FROM version_floor") >= token);
    assert_true(POLL_UNTIL(state_of(0) == ROWLOCK_MEMBER_VOTING, SOON));
    cut_off(1);
    assert_true(POLL_UNTIL(ts_try(client, "rejoins", ROWLOCK_OPTIMISTIC) == ROWLOCK_OK, SOON));
    hold = ts_take(client, "rejoins", ROWLOCK_OPTIMISTIC, TS_KEPT_TTL);
    assert_true(rowlock_hold_token(hold) > token);
    give_back(hold);
    let_in(1);
    give_back(take_at_all(client, "rejoins"));
}

/* Half of an init, or a majority that has lost what it had: nobody can say which. */
TS_ONCE(test_init_where_some_have_forgotten)
{
    const rowlock_client_options options = options_of(NULL, N);
    rowlock_hold *hold = take_at_all(client, "forgotten");
    const uint64_t token = rowlock_hold_token(hold);
    for (size_t i = 1; i < N; i++) {
        ts_sql(at[i], "DELETE FROM quorum_member");
        ts_sql(at[i], "DELETE FROM resource WHERE kind = 'quorum'");
    }
    WANT(NOT_FOUND, rowlock_quorum_rejoin(&options, ROWLOCK_ALL_MEMBERS, NULL, &ts_err));
    WANT(OK, init(&options, TTL_MOST));
    /* BUSY where the one that has it answers first. */
    const rowlock_status early = ts_try(other, "forgotten", ROWLOCK_OPTIMISTIC);
    assert_true(early == ROWLOCK_UNAVAILABLE || early == ROWLOCK_BUSY);
    assert_true(POLL_UNTIL(rowlock_hold_check(hold) == ROWLOCK_LOST, SOON));
    WANT(LOST, rowlock_release(hold, &ts_err));
    for (size_t i = 1; i < N; i++) {
        assert_true(ts_sql_u64(at[i], "SELECT version FROM version_floor") >= token);
        assert_true(POLL_UNTIL(state_of(i) == ROWLOCK_MEMBER_VOTING, SOON));
    }
    hold = take_at_all(other, "forgotten");
    assert_true(rowlock_hold_token(hold) > token);
    give_back(hold);
    WANT(OK, init(&options, TTL_MOST));
    assert_int_equal(state_of(1), ROWLOCK_MEMBER_VOTING);
}

/* A name that is being made has read the floor before it was raised. */
static void *rejoin_second(void *unused)
{
    const rowlock_client_options options = options_of(NULL, N);
    static rowlock_status status;
    (void)unused;
    status = rowlock_quorum_rejoin(&options, 1, NULL, NULL);
    return &status;
}

TS_ONCE(test_a_name_that_is_made_while_its_member_rejoins)
{
    pthread_t rejoiner;
    void *status = NULL;
    use("made before");
    set_versions("made before", 70, 70, 70);
    MYSQL *maker = ts_server_connect(1);
    ts_sql(maker, "BEGIN");
    ts_sql(maker, "INSERT INTO resource (resource_name, kind, version, update_time)"
                  " SELECT 'being made', 'quorum', 0, UTC_TIMESTAMP(6) FROM lock_freeze"
                  " WHERE id = 1 LOCK IN SHARE MODE");
    assert_int_equal(pthread_create(&rejoiner, NULL, rejoin_second, NULL), 0);
    assert_true(POLL_UNTIL(ts_sql_u64(at[1], "SELECT version FROM version_floor") >= 70, SOON));
    ts_pass_ms(200);
    ts_sql(maker, "COMMIT");
    mysql_close(maker);
    assert_int_equal(pthread_join(rejoiner, &status), 0);
    assert_int_equal(*(rowlock_status *)status, ROWLOCK_OK);
    assert_true(version_at(1, "being made") >= 70);
    /* (Others see that it abstains.) */
    ts_sql(at[1], "UPDATE quorum_member SET votes_from = UTC_TIMESTAMP(6)");
    assert_int_equal(state_of(1), ROWLOCK_MEMBER_VOTING);
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

/* --------------------------------------------------- rule 1 again: another member. The last test
 */

static void *fire_when_closed(void *cancel)
{
    MYSQL *mysql = ts_server_connect(1);
    (void)POLL_UNTIL(ts_sql_u64(mysql, "SELECT state = 'closed' FROM quorum_member") == 1, SOON);
    mysql_close(mysql);
    rowlock_cancel_fire(cancel);
    return NULL;
}

TS_ONCE(test_a_member_is_replaced)
{
    rowlock_hold *hold = take_at_all(client, "replaced");
    const uint64_t token = rowlock_hold_token(hold);
    const rowlock_client_options none = options_of((size_t[]){0, 3, 4}, N);
    WANT(NOT_FOUND, rowlock_quorum_replace(&none, NULL, &ts_err));
    const rowlock_client_options options = options_of((size_t[]){0, 1, 3}, N);
    TS_CANCEL *cancel = NULL;
    WANT(OK, rowlock_cancel_new(&cancel, &ts_err));
    rowlock_cancel_fire(cancel);
    WANT(CANCELLED,
         rowlock_quorum_replace(&options, &(rowlock_quorum_options){.cancel = cancel}, &ts_err));
    assert_held(hold);
    /* Interrupted: it stays closed, and the next call does it all. */
    pthread_t interrupter;
    rowlock_cancel_reset(cancel);
    assert_int_equal(pthread_create(&interrupter, NULL, fire_when_closed, cancel), 0);
    WANT(CANCELLED,
         rowlock_quorum_replace(&options, &(rowlock_quorum_options){.cancel = cancel}, &ts_err));
    pthread_join(interrupter, NULL);
    assert_int_equal(state_of(0), ROWLOCK_MEMBER_CLOSED);
    WANT(UNAVAILABLE, ts_try(other, "while it is closed", ROWLOCK_OPTIMISTIC));
    /* Nor does it get its majority back: members with the next list may have one. */
    const rowlock_client_options before = options_of(NULL, N);
    WANT(UNAVAILABLE, rowlock_quorum_rejoin(&before, 1, NULL, &ts_err));
    assert_int_equal(state_of(1), ROWLOCK_MEMBER_CLOSED);
    int64_t start_ms = ts_now_ms();
    WANT(OK, rowlock_quorum_replace(&options, NULL, &ts_err));
    assert_true(ts_now_ms() - start_ms >= TTL_MOST);
    WANT(LOST, rowlock_release(hold, &ts_err));
    /* The old list has no majority any more: its third member is alone with it. */
    const rowlock_client_options old = options_of((size_t[]){2, 1, 0}, N);
    rowlock_client *changed = open_with(&old);
    rowlock_client *now = open_with(&options);
    hold = ts_take(now, "replaced", ROWLOCK_OPTIMISTIC, TS_KEPT_TTL);
    assert_true(rowlock_hold_token(hold) > token);
    assert_true(POLL_UNTIL(rowlock_hold_members(hold) == N, SOON));
    WANT(BUSY, ts_try(changed, "replaced", ROWLOCK_OPTIMISTIC));
    give_back(hold);
    assert_int_equal(ts_sql_u64(at[3], "SELECT version FROM version_floor") >= token, 1);
    hold = ts_take(changed, "replaced", ROWLOCK_OPTIMISTIC, TS_KEPT_TTL);
    assert_int_equal(rowlock_hold_members(hold), N - 1);
    give_back(hold);
    WANT(OK, rowlock_quorum_replace(&options, NULL, &ts_err));
    rowlock_client_close(changed);
    rowlock_client_close(now);
}

int main(int argc, char **argv)
{
    if (argc == 2 + N && strcmp(argv[1], "half") == 0)
        return acquire_half(argv + 2);
    return ts_run_each("quorum", NULL, ts_servers_flow, begin, end);
}
