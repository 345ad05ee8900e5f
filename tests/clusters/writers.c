#include "clusters/writers.h"

#include "rowlock/rowlock_barrier.h"
#include "rowlock/rowlock_latch.h"
#include "rowlock/rowlock_leader.h"
#include "rowlock/rowlock_once.h"

void test_turns_from_every_node(void)
{
    turns_finish(turns_start(&(turns_plan){.nodes = {1, 2, 3},
                                           .clients = 4,
                                           .names = 2,
                                           .turns = 30,
                                           .ttl_ms = 30000,
                                           .within_ms = 600000}));
}

static rowlock_hold *hold_at(rowlock_client *client, const char *name)
{
    return cluster_take(client, name, ROWLOCK_OPTIMISTIC, 30000);
}

/* The longest that a sweep may take, beside the time for which threads wait for a processor: the
 * sessions that need its rows wait for so long. */
enum { SWEEP_MOST_MS = 3000 };

typedef struct sweeper {
    int node;
    turns *turns;
    pthread_t thread;
    int64_t longest_ms;
    rowlock_status status; /* the first one that is not OK */
    rowlock_error err;
} sweeper;

static void *keep_sweeping(void *arg)
{
    const rowlock_sweep_options options = {.unused_ms = 1, .history_rows = 50};
    rowlock_sweep_result result;
    sweeper *s = arg;
    rowlock_client *client = cluster_open(s->node);
    while (s->status == ROWLOCK_OK && !turns_over(s->turns)) {
        int64_t start_ms = ts_now_ms();
        s->status = rowlock_sweep(client, &options, &result, &s->err);
        int64_t took_ms = ts_now_ms() - start_ms;
        s->longest_ms = took_ms > s->longest_ms ? took_ms : s->longest_ms;
    }
    rowlock_client_close(client);
    mysql_thread_end();
    return NULL;
}

/* Unused names are purged at every node while clients take turns at them: what turns_finish()
 * asserts holds all the same, and each sweep succeeds. */
void test_sweeps_at_every_node_beside_turns(void)
{
    sweeper sweepers[CLUSTER_NODES] = {{0}};
    const int64_t strain_ms = ts_strain_ms();
    turns *all = turns_start(&(turns_plan){.nodes = {1, 2, 3},
                                           .clients = 2,
                                           .names = 6,
                                           .turns = 250,
                                           .ttl_ms = 30000,
                                           .within_ms = 600000});
    for (int i = 0; i < CLUSTER_NODES; i++) {
        sweepers[i] = (sweeper){.node = i + 1, .turns = all};
        assert_int_equal(pthread_create(&sweepers[i].thread, NULL, keep_sweeping, &sweepers[i]), 0);
    }
    for (int i = 0; i < CLUSTER_NODES; i++)
        assert_int_equal(pthread_join(sweepers[i].thread, NULL), 0);
    turns_finish(all);
    const int64_t most_ms = SWEEP_MOST_MS + ts_slack_ms() + ts_strain_ms() - strain_ms;
    for (int i = 0; i < CLUSTER_NODES; i++) {
        ts_err = sweepers[i].err;
        WANT(OK, sweepers[i].status);
        assert_between(0, sweepers[i].longest_ms, most_ms);
    }
}

/* A holder, a client that takes its lock away, and sessions that write, one of them at a third
 * node. */
typedef struct fenced {
    rowlock_client *holder; /* node 1 */
    rowlock_client *taker;  /* node 2 */
    rowlock_client *third;  /* node 3 */
    MYSQL *mysql;           /* node 1 */
    MYSQL *far;             /* node 3 */
} fenced;

static fenced fenced_open(void)
{
    fenced f = {.holder = cluster_open(1), .taker = cluster_open(2), .third = cluster_open(3)};
    f.far = sql_at(3);
    f.mysql = sql_at(1);
    return f;
}

/* The taker, at a node that has heard of the holder, takes the lock away: then what `late` wrote
 * cannot be committed. */
static void want_no_commit(fenced *f, const char *name, const rowlock_hold *hold, MYSQL *late)
{
    SOON(cluster_shows(f->taker, name, rowlock_hold_token(hold)));
    WANT(OK, ts_break_now(f->taker, name));
    TS_HOLD *taken = hold_at(f->taker, name);
    assert_int_not_equal(ts_sql_try(late, "COMMIT"), 0);
    assert_held(taken);
}

static void fenced_close(fenced *f)
{
    mysql_close(f->mysql);
    mysql_close(f->far);
    rowlock_client_close(f->holder);
    rowlock_client_close(f->taker);
    rowlock_client_close(f->third);
}

/* False if the node rolled the transaction back (1213): it shows another node's change already, but
 * may still be applying it. The caller begins again. */
static bool commits_fenced(MYSQL *mysql, rowlock_hold *hold)
{
    ts_sql(mysql, "BEGIN");
    WANT(OK, rowlock_fence(hold, mysql, &ts_err));
    unsigned number = ts_sql_try(mysql, "COMMIT");
    assert_true(number == 0 || number == 1213);
    return number == 0;
}

/* A transaction with a fence at one node cannot commit after the lease has been broken and taken at
 * another node. */
void test_a_fence_at_another_node(void)
{
    const char *name = ts_name("fence");
    fenced f = fenced_open();
    rowlock_hold *hold = hold_at(f.holder, name);
    /* While the lease is held, the fence passes at its own node, and at another as soon as that
     * knows of the lease. */
    SOON(commits_fenced(f.mysql, hold));
    /* Both write the row: two that do not know of each other cannot commit both. */
    SOON(cluster_so(f.far, "1 = (SELECT MAX(fence_count) FROM resource WHERE resource_name = %s)",
                    ts_quote(name)));
    SOON(commits_fenced(f.far, hold));
    /* Fenced and not committed yet, while the lease is taken at another node. */
    ts_sql(f.mysql, "BEGIN");
    WANT(OK, rowlock_fence(hold, f.mysql, &ts_err));
    want_no_commit(&f, name, hold, f.mysql);
    (void)rowlock_release(hold, &ts_err);
    fenced_close(&f);
}

/* The same for a fenced table, whose triggers know nothing of transactions at other nodes. */
void test_a_fenced_table_at_another_node(void)
{
    const char *name = ts_name("table");
    fenced f = fenced_open();
    ts_sql(f.far, "CREATE TABLE guarded (id INT PRIMARY KEY, n INT NOT NULL) ENGINE = InnoDB");
    ts_sql(f.far, "INSERT INTO guarded VALUES (1, 0)");
    WANT(OK, rowlock_fence_install(f.third, NULL, "guarded", name, &ts_err));
    SOON(cluster_so(f.mysql, "3 = (SELECT COUNT(*) FROM information_schema.triggers"
                             " WHERE event_object_schema = DATABASE()"
                             " AND event_object_table = 'guarded')"));
    assert_int_equal(ts_sql_try(f.mysql, "UPDATE guarded SET n = 1"), 1644);
    rowlock_hold *hold = hold_at(f.holder, name);
    WANT(OK, rowlock_present(hold, f.mysql, &ts_err));
    WANT(OK, rowlock_present(hold, f.far, &ts_err));
    ts_sql(f.mysql, "UPDATE guarded SET n = 2");
    SOON(cluster_shows(f.third, name, rowlock_hold_token(hold)) &&
         cluster_so(f.far, "(SELECT n FROM guarded) = 2"));
    ts_sql(f.far, "BEGIN");
    ts_sql(f.far, "UPDATE guarded SET n = 3");
    want_no_commit(&f, name, hold, f.far);
    assert_int_equal(ts_sql_u64(f.mysql, "SELECT n FROM guarded"), 2);
    (void)rowlock_release(hold, &ts_err);
    fenced_close(&f);
}

enum { SECTIONS = 20, SECTION_THREADS = 2 * CLUSTER_NODES };

typedef struct adder {
    const char *name;
    int node;
    rowlock_client *client;
    MYSQL *mysql;
    pthread_t thread;
    rowlock_error err; /* of the first failure */
    rowlock_error work;
    unsigned conflicts;
} adder;

/* Adds one to a number, by a read and a write: only the section keeps the count right. A
 * transaction that the cluster rolls back because of another node's change is done again. */
static rowlock_status add_one(void *data, const rowlock_section *section, MYSQL *mysql)
{
    static const char *const statements[] = {"SET @value = (SELECT value FROM counter)",
                                             "UPDATE counter SET value = @value + 1"};
    rowlock_error *err = data;
    (void)section;
    for (int i = 0; i < 2; i++) {
        unsigned number = ts_sql_try(mysql, "%s", statements[i]);
        if (number == 1213 || number == 1180 || number == 3101)
            return ROWLOCK_DEADLOCK;
        snprintf(err->message, sizeof err->message, "%u %s", number, mysql_error(mysql));
        if (number != 0)
            return ROWLOCK_SERVER;
    }
    return ROWLOCK_OK;
}

static void *add_all(void *arg)
{
    adder *a = arg;
    const rowlock_section_options options = {.max_attempts = 10000, .wait_ms = 2L * SOON_MS};
    for (int i = 0; i < SECTIONS && a->err.status == ROWLOCK_OK; i++) {
        rowlock_section_result result = {0};
        rowlock_status status = ROWLOCK_DEADLOCK;
        /* A deadlock in the work itself: the caller has to run it again. */
        while (status == ROWLOCK_DEADLOCK)
            status = rowlock_tx_section_run(a->client, a->mysql, a->name, &options, add_one,
                                            &a->work, &result, &a->err);
        if (status == ROWLOCK_OK)
            a->err.status = ROWLOCK_OK;
        a->conflicts += result.conflicts;
    }
    mysql_thread_end();
    return NULL;
}

static void adder_start(adder *a)
{
    a->client = cluster_open(a->node);
    a->mysql = sql_at(a->node);
    ts_sql(a->mysql, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED");
    SOON(cluster_so(a->mysql, "1 = (SELECT COUNT(*) FROM counter)"));
}

void test_sections_from_every_node(void)
{
    adder adders[SECTION_THREADS] = {0};
    const char *name = ts_name("section");
    TS_MYSQL *mysql = sql_at(1);
    ts_sql(mysql, "CREATE TABLE counter (id INT PRIMARY KEY, value BIGINT NOT NULL)");
    ts_sql(mysql, "INSERT INTO counter VALUES (1, 0)");
    for (int i = 0; i < SECTION_THREADS; i++) {
        adders[i] = (adder){.name = name, .node = i % CLUSTER_NODES + 1};
        adder_start(&adders[i]);
    }
    for (int i = 0; i < SECTION_THREADS; i++)
        assert_int_equal(pthread_create(&adders[i].thread, NULL, add_all, &adders[i]), 0);
    unsigned conflicts = 0;
    const adder *failed = NULL;
    for (int i = 0; i < SECTION_THREADS; i++) {
        pthread_join(adders[i].thread, NULL);
        conflicts += adders[i].conflicts;
        failed = adders[i].err.status != ROWLOCK_OK ? &adders[i] : failed;
        mysql_close(adders[i].mysql);
        rowlock_client_close(adders[i].client);
    }
    if (failed)
        print_error("%s (%s)\n", failed->err.message, failed->work.message);
    assert_null(failed);
    print_message("# %d sections, %u conflicts\n", SECTIONS * SECTION_THREADS, conflicts);
    SOON(cluster_so(mysql, "(SELECT value FROM counter) = %d", SECTIONS * SECTION_THREADS));
}

/* Row locks are refused before the name is made, so that it may still become a lease. A client that
 * promises that all write at one node gets them. */
void test_row_locks_are_refused(void)
{
    for (int n = 1; n <= CLUSTER_NODES; n++) {
        const char *name = ts_name("row");
        TS_CLIENT *client = cluster_open(n);
        rowlock_hold *hold = NULL;
        const rowlock_acquire_options options = {.mode = ROWLOCK_PESSIMISTIC};
        WANT(UNSUPPORTED, rowlock_acquire(client, name, &options, &hold, &ts_err));
        assert_non_null(strstr(ts_err.message, "single_writer"));
        WANT(UNSUPPORTED, rowlock_acquire_set(client, &name, 1, &options, &hold, &ts_err));
        MYSQL *mysql = sql_at(n);
        ts_sql(mysql, "BEGIN");
        WANT(UNSUPPORTED, rowlock_tx_acquire(client, mysql, name, NULL, &ts_err));
        ts_sql(mysql, "ROLLBACK");
        mysql_close(mysql);
        /* A guard ends a connection by its number, which only its own node knows. */
        WANT(OK, rowlock_acquire(client, name, NULL, &hold, &ts_err));
        mysql = sql_at(n);
        WANT(UNSUPPORTED, rowlock_hold_guard(hold, mysql, &ts_err));
        mysql_close(mysql);
        WANT(OK, rowlock_release(hold, &ts_err));
    }
    rowlock_client_options alone = cluster_options(2);
    alone.single_writer = true;
    TS_CLIENT *one = ts_open_with(alone);
    TS_CLIENT *other = ts_open_with(alone);
    const char *name = ts_name("single");
    rowlock_hold *hold = ts_take(one, name, ROWLOCK_PESSIMISTIC, 30000);
    WANT(BUSY, ts_try(other, name, ROWLOCK_PESSIMISTIC));
    WANT(OK, rowlock_release(hold, &ts_err));
    WANT(OK, ts_try(other, name, ROWLOCK_PESSIMISTIC));
}

/* A reader at one node is not seen by a writer at another. */
void test_shared_leases_are_refused(void)
{
    const bool share[] = {false, true};
    const rowlock_acquire_options in_part = {.share = share};
    for (int n = 1; n <= CLUSTER_NODES; n++) {
        const char *names[] = {ts_name("shared-a"), ts_name("shared-b")};
        TS_CLIENT *client = cluster_open(n);
        rowlock_hold *hold = NULL;
        WANT(UNSUPPORTED, rowlock_acquire_shared(client, names[0], NULL, &hold, &ts_err));
        assert_non_null(strstr(ts_err.message, "single_writer"));
        WANT(UNSUPPORTED, rowlock_acquire_set(client, names, 2, &in_part, &hold, &ts_err));
        for (int i = 0; i < 2; i++)
            WANT(OK, ts_try(client, names[i], ROWLOCK_OPTIMISTIC));
    }
    rowlock_client_options alone = cluster_options(2);
    alone.single_writer = true;
    TS_CLIENT *one = ts_open_with(alone);
    rowlock_hold *reader = NULL;
    const char *name = ts_name("single-shared");
    WANT(OK, rowlock_acquire_shared(one, name, NULL, &reader, &ts_err));
    WANT(BUSY, ts_try(one, name, ROWLOCK_OPTIMISTIC));
    WANT(OK, rowlock_release(reader, &ts_err));
}

/* Slots and sets of leases that all workers take, and how many have each now. */
enum { TAKERS = 2 * CLUSTER_NODES, TAKER_TURNS = 12, POOL = 2 };

typedef struct taken {
    const char *pool; /* POOL slots */
    const char *set[2];
    atomic_int in_pool;
    atomic_int in_set;
} taken;

static const char *take_a_turn(const cluster_worker *self, bool slot)
{
    taken *what = self->what;
    rowlock_error err;
    rowlock_hold *hold = NULL;
    const rowlock_acquire_options options = {
        .wait_ms = 120000, .ttl_ms = 60000, .slots = slot ? POOL : 0};
    rowlock_status status =
        slot ? rowlock_acquire(self->client, what->pool, &options, &hold, &err)
             : rowlock_acquire_set(self->client, what->set, 2, &options, &hold, &err);
    if (status != ROWLOCK_OK)
        return strdup(err.message);
    atomic_int *inside = slot ? &what->in_pool : &what->in_set;
    if (atomic_fetch_add(inside, 1) >= (slot ? POOL : 1))
        return slot ? "more have a slot than there are" : "two have the set";
    ts_pass_ms(1);
    atomic_fetch_sub(inside, 1);
    return rowlock_release(hold, &err) == ROWLOCK_OK ? NULL : strdup(err.message);
}

static const char *take_turns(cluster_worker *self)
{
    const char *why = NULL;
    for (int i = 0; i < TAKER_TURNS && !why; i++)
        why = take_a_turn(self, i % 2 == 0);
    return why;
}

void test_slots_and_sets_from_every_node(void)
{
    taken what = {.pool = ts_name("pool"), .set = {ts_name("set-a"), ts_name("set-b")}};
    cluster_all_work(TAKERS, &what, take_turns);
}

/* Each member counts a latch down, waits for it, and meets the others at a barrier: GENERATIONS
 * times. */
enum { GENERATIONS = 6 };

typedef struct gathered {
    const char *barrier;
    const char *latches[GENERATIONS];
    atomic_int inside;
} gathered;

static rowlock_status count_and_wait(rowlock_client *client, const char *latch, rowlock_error *err)
{
    const rowlock_latch_options options = {.wait_ms = 120000};
    rowlock_status status = rowlock_latch_down(client, latch, NULL, 0, err);
    /* A node may not have heard of the latch yet, or its change may conflict with another node's:
     * again. */
    for (int64_t end = ts_now_ms() + SOON_MS; status != ROWLOCK_OK && ts_now_ms() < end;) {
        ts_pass_ms(10);
        status = rowlock_latch_down(client, latch, NULL, 0, err);
    }
    return status == ROWLOCK_OK ? rowlock_latch_wait(client, latch, &options, NULL, err) : status;
}

static const char *meet(const cluster_worker *self, int i)
{
    gathered *where = self->what;
    const rowlock_barrier_options options = {.wait_ms = 120000, .ttl_ms = 60000};
    rowlock_hold *hold = NULL;
    rowlock_error err;
    if (count_and_wait(self->client, where->latches[i], &err) != ROWLOCK_OK ||
        rowlock_barrier_enter(self->client, where->barrier, TAKERS, &options, &hold, &err) !=
            ROWLOCK_OK)
        return strdup(err.message);
    if (atomic_fetch_add(&where->inside, 1) >= (i + 1) * TAKERS)
        return "more are in than a generation takes";
    rowlock_status status = rowlock_barrier_leave(hold, 120000, NULL, &err);
    if (status == ROWLOCK_OK && atomic_load(&where->inside) < (i + 1) * TAKERS)
        return "one leaves before all have come";
    rowlock_error ignored;
    if (rowlock_release(hold, status == ROWLOCK_OK ? &err : &ignored) != ROWLOCK_OK ||
        status != ROWLOCK_OK)
        return strdup(err.message);
    return NULL;
}

static const char *gather(cluster_worker *self)
{
    const char *why = NULL;
    for (int i = 0; i < GENERATIONS && !why; i++)
        why = meet(self, i);
    return why;
}

void test_latches_and_barriers_from_every_node(void)
{
    gathered where = {.barrier = ts_name("barrier")};
    TS_CLIENT *setter = cluster_open(1);
    for (int i = 0; i < GENERATIONS; i++) {
        where.latches[i] = ts_name("latch");
        WANT(OK, rowlock_latch_set(setter, where.latches[i], TAKERS, NULL, &ts_err));
    }
    cluster_all_work(TAKERS, &where, gather);
}

/* The first attempt at every third period fails; the next worker does it. */
enum { PERIODS = 15 };

typedef struct once_workers {
    const char *name;
    atomic_uint begun[PERIODS];
} once_workers;

static rowlock_status work_in_period(once_workers *all, rowlock_hold *hold, int i,
                                     rowlock_error *err)
{
    const rowlock_once_options options = {.attempts = 2, .wait_ms = 60000};
    rowlock_once_result result = {.attempt = 0};
    rowlock_status status =
        rowlock_once_begin(hold, i * 1000, i * 1000 + 1000, &options, &result, err);
    if (status != ROWLOCK_OK || result.state != ROWLOCK_ONCE_BEGUN)
        return status;
    atomic_fetch_add(&all->begun[i], 1);
    if (i % 3 == 0 && result.attempt == 1)
        return rowlock_once_failed(hold, 1, err);
    return rowlock_once_done(hold, err);
}

static const char *work_once(cluster_worker *self)
{
    const rowlock_acquire_options options = {.wait_ms = 120000, .ttl_ms = 60000};
    once_workers *all = self->what;
    rowlock_error err;
    for (int i = 0; i < PERIODS; i++) {
        rowlock_hold *hold = NULL;
        if (rowlock_acquire(self->client, all->name, &options, &hold, &err) != ROWLOCK_OK ||
            work_in_period(all, hold, i, &err) != ROWLOCK_OK ||
            rowlock_release(hold, &err) != ROWLOCK_OK)
            return strdup(err.message);
    }
    return NULL;
}

static bool all_are_done(rowlock_client *client, const char *name)
{
    const rowlock_once_get_options options = {.name = name};
    rowlock_once_runs *runs = NULL;
    WANT(OK, rowlock_once_get(client, &options, &runs, &ts_err));
    bool all = rowlock_once_count(runs) == PERIODS;
    for (size_t i = 0; i < rowlock_once_count(runs); i++)
        all = all && rowlock_once_at(runs, i)->state == ROWLOCK_ONCE_RUN_DONE;
    rowlock_once_free(runs);
    return all;
}

void test_once_from_every_node(void)
{
    once_workers where = {.name = ts_name("once")};
    cluster_all_work(TAKERS, &where, work_once);
    for (int i = 0; i < PERIODS; i++)
        assert_int_equal(atomic_load(&where.begun[i]), i % 3 == 0 ? 2 : 1);
    for (int n = 1; n <= CLUSTER_NODES; n++) {
        TS_CLIENT *client = cluster_open(n);
        SOON(all_are_done(client, where.name));
    }
}

static unsigned begins_at(rowlock_hold *hold)
{
    const rowlock_once_options options = {.wait_ms = SOON_MS};
    rowlock_once_result result = {.attempt = 0};
    WANT(OK, rowlock_once_begin(hold, 0, 1000, &options, &result, &ts_err));
    assert_int_equal(result.state, ROWLOCK_ONCE_BEGUN);
    return result.attempt;
}

/* The first attempt's transaction is open at its node when another node begins the next attempt:
 * they do not wait for each other, and the first one cannot commit. */
void test_a_period_is_begun_anew_at_another_node(void)
{
    const char *name = ts_name("anew");
    fenced f = fenced_open();
    rowlock_hold *hold = hold_at(f.holder, name);
    assert_int_equal(begins_at(hold), 1);
    SOON(cluster_shows(f.taker, name, rowlock_hold_token(hold)));
    ts_sql(f.mysql, "BEGIN");
    WANT(OK, rowlock_tx_once_done(f.holder, f.mysql, name, rowlock_hold_token(hold), &ts_err));
    WANT(OK, ts_break_now(f.taker, name));
    rowlock_hold *next = hold_at(f.taker, name);
    assert_int_equal(begins_at(next), 2);
    assert_int_not_equal(ts_sql_try(f.mysql, "COMMIT"), 0);
    WANT(LOST, rowlock_once_done(hold, &ts_err));
    WANT(OK, rowlock_once_done(next, &ts_err));
    SOON(cluster_so(f.far,
                    "1 = (SELECT COUNT(*) FROM once_run o JOIN resource r ON r.id = o.resource_id"
                    " WHERE r.resource_name = %s AND o.state = 'done' AND o.attempts = 2)",
                    ts_quote(name)));
    (void)rowlock_release(hold, &ts_err);
    WANT(OK, rowlock_release(next, &ts_err));
    fenced_close(&f);
}

static void lead_at(rowlock_client *client, const char *name, const char *value,
                    rowlock_hold **hold)
{
    const rowlock_acquire_options options = {.wait_ms = SOON_MS, .ttl_ms = 60000, .value = value};
    WANT(OK, rowlock_acquire(client, name, &options, hold, &ts_err));
}

/* Observes until the leader's value is `value`; "": until there is no leader. */
static void seen_at(rowlock_client *client, const char *name, const char *value,
                    rowlock_leader *seen)
{
    const rowlock_observe_options change = {.wait_ms = SOON_MS, .after = seen};
    do
        WANT(OK, rowlock_observe(client, name, &change, seen, &ts_err));
    while (strcmp(seen->value, value) != 0);
    assert_int_equal(seen->leads, *value != 0);
}

/* A value published at one node is seen at the others, and is gone there when the lease ends. */
void test_a_leader_seen_from_every_node(void)
{
    rowlock_client *clients[CLUSTER_NODES];
    const char *name = ts_name("leader");
    rowlock_leader seen[CLUSTER_NODES] = {{0}};
    for (int i = 0; i < CLUSTER_NODES; i++)
        clients[i] = cluster_open(1 + i);
    for (int i = 0; i < CLUSTER_NODES; i++) {
        char first[20];
        char later[20];
        rowlock_hold *hold = NULL;
        snprintf(first, sizeof first, "first at %d", i + 1);
        snprintf(later, sizeof later, "later at %d", i + 1);
        lead_at(clients[i], name, first, &hold);
        for (int n = 0; n < CLUSTER_NODES; n++) {
            seen_at(clients[n], name, first, &seen[n]);
            assert_true(seen[n].token == rowlock_hold_token(hold));
        }
        WANT(OK, rowlock_hold_set_value(hold, later, &ts_err));
        for (int n = 0; n < CLUSTER_NODES; n++)
            seen_at(clients[n], name, later, &seen[n]);
        WANT(OK, rowlock_release(hold, &ts_err));
        for (int n = 0; n < CLUSTER_NODES; n++)
            seen_at(clients[n], name, "", &seen[n]);
    }
    for (int i = 0; i < CLUSTER_NODES; i++)
        rowlock_client_close(clients[i]);
}

/* Workers lead one after the other, and each publishes its token; at each node an observer looks
 * all the time. */
enum { LEADS = 8 };

typedef struct led {
    const char *name;
    atomic_int inside;
    atomic_bool over;
} led;

static const char *lead_a_turn(const cluster_worker *self)
{
    led *what = self->what;
    const rowlock_acquire_options options = {.wait_ms = 120000, .ttl_ms = 60000, .value = "new"};
    char value[30];
    rowlock_hold *hold = NULL;
    rowlock_error err;
    if (rowlock_acquire(self->client, what->name, &options, &hold, &err) != ROWLOCK_OK)
        return strdup(err.message);
    if (atomic_fetch_add(&what->inside, 1) > 0)
        return "two lead";
    snprintf(value, sizeof value, "%" PRIu64, rowlock_hold_token(hold));
    if (rowlock_hold_set_value(hold, value, &err) != ROWLOCK_OK)
        return strdup(err.message);
    ts_pass_ms(20);
    atomic_fetch_sub(&what->inside, 1);
    return rowlock_release(hold, &err) == ROWLOCK_OK ? NULL : strdup(err.message);
}

static const char *lead_turns(cluster_worker *self)
{
    const char *why = NULL;
    for (int i = 0; i < LEADS && !why; i++)
        why = lead_a_turn(self);
    return why;
}

/* Each value seen is the one of its token, and a leader that has been followed by another is not
 * seen again. */
static const char *look_once(cluster_worker *self, uint64_t *last)
{
    const led *what = self->what;
    rowlock_leader leader = {.leads = false};
    rowlock_error err;
    rowlock_status status = rowlock_observe(self->client, what->name, NULL, &leader, &err);
    if (status != ROWLOCK_OK && status != ROWLOCK_NOT_FOUND)
        return strdup(err.message);
    if (!leader.leads)
        return NULL;
    if (leader.token < *last)
        return "a leader of before is seen again";
    *last = leader.token;
    if (strcmp(leader.value, "new") == 0)
        return NULL;
    self->told++;
    return strtoull(leader.value, NULL, 10) == leader.token ? NULL : "a value of another leader";
}

static const char *look_on(cluster_worker *self)
{
    const led *what = self->what;
    const char *why = NULL;
    for (uint64_t last = 0; !why && !atomic_load(&what->over);)
        why = look_once(self, &last);
    return why;
}

void test_leaders_from_every_node(void)
{
    led what = {.name = ts_name("lead")};
    cluster_worker lookers[CLUSTER_NODES]; /* `told`: how many values it saw */
    cluster_start(lookers, CLUSTER_NODES, &what, look_on);
    cluster_all_work(TAKERS, &what, lead_turns);
    atomic_store(&what.over, true);
    cluster_join(lookers, CLUSTER_NODES);
    for (int i = 0; i < CLUSTER_NODES; i++) {
        print_message("# node %d: %" PRIu64 " looks saw a value\n", i + 1, lookers[i].told);
        assert_true(lookers[i].told > 0);
    }
}

/* An ask, repeated until the hold has arrived at this node. */
static rowlock_status ask_soon(rowlock_client *client, const char *name,
                               const rowlock_ask_options *options)
{
    rowlock_status status = rowlock_ask(client, name, options, &ts_err);
    for (int64_t end = ts_now_ms() + SOON_MS; status == ROWLOCK_NOT_FOUND && ts_now_ms() < end;) {
        ts_pass_ms(10);
        status = rowlock_ask(client, name, options, &ts_err);
    }
    return status;
}

static void release_asked(void *data, rowlock_hold *hold, const rowlock_asked *what)
{
    (void)what;
    atomic_store((atomic_int *)data, (int)rowlock_release(hold, NULL));
}

void test_an_ask_from_another_node(void)
{
    TS_CLIENT *holder = cluster_open(1);
    TS_CLIENT *asker = cluster_open(2);
    const char *name = ts_name("asked");
    atomic_int released = -1;
    const rowlock_ask_options options = {.wait_ms = 60000};
    (void)ts_take_with(holder, name,
                       (rowlock_acquire_options){
                           .ttl_ms = 30000, .on_ask = release_asked, .on_ask_data = &released});
    WANT(OK, ask_soon(asker, name, &options));
    assert_true(POLL_UNTIL(atomic_load(&released) == ROWLOCK_OK, SOON_MS));
}

/* A freeze holds at every node, also for names that are made there later; a holder goes on. */
void test_a_freeze_at_another_node(void)
{
    enum { NAME_SIZE = 300 };
    rowlock_client *clients[CLUSTER_NODES];
    char later[CLUSTER_NODES][NAME_SIZE];
    const char *name = ts_name("frozen");
    const rowlock_freeze_options all = {.prefix = name};
    for (int i = 0; i < CLUSTER_NODES; i++) {
        clients[i] = cluster_open(1 + i);
        snprintf(later[i], NAME_SIZE, "%s, made later at %d", name, i);
    }
    rowlock_hold *hold = hold_at(clients[0], name);
    /* A freeze covers the names that its node knows. */
    SOON(cluster_shows(clients[1], name, rowlock_hold_token(hold)));
    WANT(OK, rowlock_freeze(clients[1], &all, NULL, &ts_err));
    for (int i = 0; i < CLUSTER_NODES; i++) {
        SOON(ts_try(clients[i], name, ROWLOCK_OPTIMISTIC) == ROWLOCK_FROZEN);
        WANT(FROZEN, ts_try(clients[i], later[i], ROWLOCK_OPTIMISTIC));
    }
    WANT(OK, rowlock_hold_check(hold));
    WANT(OK, rowlock_release(hold, &ts_err));
    for (int i = 0; i < CLUSTER_NODES; i++)
        WANT(FROZEN, ts_try(clients[i], name, ROWLOCK_OPTIMISTIC));
    WANT(OK, rowlock_thaw(clients[2], &all, &ts_err));
    for (int i = 0; i < CLUSTER_NODES; i++) {
        SOON(ts_try(clients[i], name, ROWLOCK_OPTIMISTIC) == ROWLOCK_OK);
        SOON(ts_try(clients[i], later[i], ROWLOCK_OPTIMISTIC) == ROWLOCK_OK);
        rowlock_client_close(clients[i]);
    }
}

/* A client with EXECUTE alone; opened again until the procedures have arrived at its node. */
static rowlock_client *open_via(const char *user, int node)
{
    rowlock_client_options options = cluster_options(node);
    rowlock_client *client = NULL;
    options.user = user;
    options.via = ROWLOCK_VIA_PROCEDURES;
    SOON(rowlock_client_open(&options, &client, &ts_err) == ROWLOCK_OK);
    return client;
}

void test_through_procedures(void)
{
    const char *name = ts_name("via");
    const char *row = ts_name("via-row");
    rowlock_client_options options = cluster_options(1);
    rowlock_client *clients[CLUSTER_NODES + 1];
    uint64_t token = 0;
    WANT(OK, rowlock_procedures_install(&options, NULL, NULL, &ts_err));
    cluster_use(1);
    const char *user = ts_user("app", "", "EXECUTE", ts_schema());
    for (int i = 0; i < CLUSTER_NODES; i++)
        clients[i] = open_via(user, i + 1);
    clients[CLUSTER_NODES] = cluster_open(2);
    for (int i = 0; i < 12; i++) {
        TS_HOLD *hold = hold_at(clients[i % (CLUSTER_NODES + 1)], name);
        assert_true(rowlock_hold_token(hold) > token);
        token = rowlock_hold_token(hold);
    }
    rowlock_hold *hold = hold_at(clients[0], name);
    assert_true(rowlock_hold_token(hold) > token);
    ts_waiter waiter = {.client = clients[1], .name = name, .options = {.wait_ms = SOON_MS}};
    ts_waiter_start(&waiter);
    ts_hand_over(hold, &waiter, SOON_MS);
    /*
     * Row locks are local to a node: none is taken, and none is broken, as its connection may be at
     * another node.
     */
    WANT(UNSUPPORTED, ts_try(clients[2], row, ROWLOCK_PESSIMISTIC));
    options.single_writer = true;
    rowlock_client *alone = ts_open_with(options);
    hold = ts_take(alone, row, ROWLOCK_PESSIMISTIC, 30000);
    SOON(cluster_shows(clients[1], row, rowlock_hold_token(hold)));
    WANT(UNSUPPORTED, rowlock_break(clients[1], row, NULL, &ts_err));
    assert_non_null(strstr(ts_err.message, "KILL its connection there"));
    assert_held(hold);
    WANT(OK, rowlock_release(hold, &ts_err));
    rowlock_client_close(alone);
    for (int i = 0; i <= CLUSTER_NODES; i++)
        rowlock_client_close(clients[i]);
}

/* Counts the findings of each level, and those about row locks that ask for care. */
static void count_findings(void *data, const rowlock_finding *finding)
{
    unsigned *of = data;
    of[finding->level] +=
        finding->level != ROWLOCK_CARE || strstr(finding->follows, "row locks") != NULL;
}

void test_the_doctor_at_a_node(void)
{
    const rowlock_client_options options = cluster_options(3);
    unsigned of[ROWLOCK_BROKEN + 1] = {0};
    WANT(OK, rowlock_diagnose(&options, 0, count_findings, of, &ts_err));
    assert_int_equal(of[ROWLOCK_BROKEN], 0);
    assert_int_equal(of[ROWLOCK_CARE], 1);
    assert_true(cluster_finds(3, "cluster", ROWLOCK_CARE, "")); /* row locks are refused */
    assert_true(cluster_finds(3, "waiting", ROWLOCK_NOTE, "")); /* by looking again and again */
}

/* Node 3 dies while turns are taken at all three, and comes back. A holder at that node has lost
 * its lock, or keeps it if it can renew it in time; no other client had it meanwhile. */
void test_a_node_is_killed_and_comes_back(void)
{
    enum { CLIENTS = 2, TURNS = 60 };
    turns *all = turns_start(&(turns_plan){.nodes = {1, 2, 3},
                                           .clients = CLIENTS,
                                           .names = 2,
                                           .turns = TURNS,
                                           .ttl_ms = 5000,
                                           .within_ms = 600000,
                                           .troubled = true});
    /* In the middle of the turns of each node. */
    assert_true(POLL_UNTIL(turns_done(all, 3) >= TURNS / 10, 60000));
    cluster_node("kill-node", 3);
    int before = turns_done(all, 0) - turns_done(all, 3);
    assert_true(
        POLL_UNTIL(turns_done(all, 0) - turns_done(all, 3) > before || turns_over(all), 60000));
    cluster_node("start-node", 3);
    turns_finish(all);
}
