#include "clusters/writers.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rowlock/rowlock_mysql.h"

#define SOON_MS 30000 /* for what must happen in the end */

/* --------------------------------------------------------------------------- exclusion */

void test_turns_from_every_node(void **state)
{
    (void)state;
    cluster_needed();
    turns_finish(turns_start(&(turns_plan){.nodes = {1, 2, 3},
                                           .clients = 4,
                                           .names = 2,
                                           .turns = 30,
                                           .ttl_ms = 30000,
                                           .within_ms = 120000}));
}

/* Rows of new names are made, and tokens given to them, at three nodes in the same moment. */
void test_new_names_from_every_node(void **state)
{
    (void)state;
    cluster_needed();
    for (int i = 0; i < 5; i++)
        turns_finish(turns_start(&(turns_plan){.nodes = {1, 2, 3},
                                               .clients = 2,
                                               .names = 3,
                                               .turns = 2,
                                               .ttl_ms = 30000,
                                               .within_ms = 60000}));
}

static rowlock_hold *hold_at(rowlock_client *client, const char *name, int64_t ttl_ms)
{
    const rowlock_acquire_options options = {.wait_ms = SOON_MS, .ttl_ms = ttl_ms};
    rowlock_hold *hold = NULL;
    WANT(OK, rowlock_acquire(client, name, &options, &hold, &ts_err));
    return hold;
}

/* There is no bell that rings at another node: it looks again and again. */
void test_a_waiter_at_another_node_gets_in(void **state)
{
    (void)state;
    cluster_needed();
    const char *name = ts_name("waiter");
    rowlock_client *first = cluster_open(1);
    rowlock_client *second = cluster_open(2);
    rowlock_hold *hold = hold_at(first, name, 30000);
    ts_waiter waiter = {.client = second, .name = name, .options = {.wait_ms = SOON_MS}};
    ts_waiter_start(&waiter);
    ts_pass_ms(700); /* it should be able to get in now, if it can at all */
    assert_false(ts_waiter_ended(&waiter));
    ts_hand_over(hold, &waiter, SOON_MS);
    rowlock_client_close(first);
    rowlock_client_close(second);
}

typedef struct corpse {
    const char *name;
    int out;
} corpse;

/* Takes the lease, says so, and hangs until it is killed. */
static int die_holding(void *arg)
{
    const corpse *c = arg;
    rowlock_client_options options = cluster_options(1);
    const rowlock_acquire_options how = {.wait_ms = SOON_MS, .ttl_ms = 3000};
    rowlock_client *client = NULL;
    rowlock_hold *hold = NULL;
    rowlock_error err = {0};
    if (rowlock_client_open(&options, &client, &err) != ROWLOCK_OK ||
        rowlock_acquire(client, c->name, &how, &hold, &err) != ROWLOCK_OK)
        return 1;
    uint64_t token = rowlock_hold_token(hold);
    if (write(c->out, &token, sizeof token) != sizeof token)
        return 2;
    for (;;)
        pause();
}

void test_the_dead_are_replaced_from_another_node(void **state)
{
    (void)state;
    cluster_needed();
    int fds[2];
    uint64_t token = 0;
    assert_int_equal(pipe(fds), 0);
    corpse c = {.name = ts_name("dead"), .out = fds[1]};
    pid_t pid = ts_fork(die_holding, &c);
    assert_int_equal(read(fds[0], &token, sizeof token), sizeof token);
    rowlock_client *client = cluster_open(3);
    kill(pid, SIGKILL);
    assert_int_equal(ts_reap(pid, SOON_MS), 128 + SIGKILL);
    rowlock_hold *hold = hold_at(client, c.name, 30000);
    assert_true(rowlock_hold_token(hold) > token);
    WANT(OK, rowlock_release(hold, &ts_err));
    rowlock_client_close(client);
    close(fds[0]);
    close(fds[1]);
}

/* ----------------------------------------------------------------------------- looking */

static bool shown_at(rowlock_client *client, const char *name, uint64_t token)
{
    rowlock_list *list = NULL;
    if (rowlock_list_one(client, name, &list, &ts_err) != ROWLOCK_OK)
        return false;
    const rowlock_info *info = rowlock_list_at(list, 0);
    bool good = info->state == ROWLOCK_HELD && info->token == token;
    rowlock_list_free(list);
    return good;
}

void test_every_node_shows_the_holder(void **state)
{
    (void)state;
    cluster_needed();
    const char *name = ts_name("shown");
    rowlock_client *holder = cluster_open(1);
    rowlock_hold *hold = hold_at(holder, name, 30000);
    for (int n = 1; n <= CLUSTER_NODES; n++) {
        rowlock_client *client = cluster_open(n);
        rowlock_waiters *waiters = NULL;
        assert_true(POLL_UNTIL(shown_at(client, name, rowlock_hold_token(hold)), SOON_MS));
        WANT(BUSY, ts_try(client, name, ROWLOCK_OPTIMISTIC));
        WANT(OK, rowlock_waiters_get(client, NULL, &waiters, &ts_err));
        rowlock_waiters_free(waiters);
        rowlock_client_close(client);
    }
    WANT(OK, rowlock_release(hold, &ts_err));
    rowlock_client_close(holder);
}

/* ------------------------------------------------------------------------ housekeeping */

/* Names are purged and made again, at one node and another, while they are wanted: what
 * turns_finish() asserts holds all the same. */
void test_a_sweep_beside_turns(void **state)
{
    (void)state;
    cluster_needed();
    turns *all = turns_start(&(turns_plan){.nodes = {1, 2, 3},
                                           .clients = 1,
                                           .names = 3,
                                           .turns = 40,
                                           .ttl_ms = 30000,
                                           .within_ms = 120000});
    rowlock_client *sweepers[CLUSTER_NODES];
    const rowlock_sweep_options options = {.unused_ms = 1, .history_rows = 50};
    uint64_t purged = 0;
    for (int i = 0; i < CLUSTER_NODES; i++)
        sweepers[i] = cluster_open(i + 1);
    while (!turns_over(all))
        for (int i = 0; i < CLUSTER_NODES; i++) {
            rowlock_sweep_result result = {0};
            rowlock_status status = rowlock_sweep(sweepers[i], &options, &result, &ts_err);
            if (status != ROWLOCK_DEADLOCK && status != ROWLOCK_BUSY)
                WANT(OK, status);
            purged += result.purged;
        }
    turns_finish(all);
    print_message("# %d names purged\n", (int)purged);
    for (int i = 0; i < CLUSTER_NODES; i++)
        rowlock_client_close(sweepers[i]);
}

/* -------------------------------------------------------------------------- the fence */

/* A holder and who takes its lock away, and sessions that write, one of them at a third node. */
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
    cluster_use(3);
    f.far = ts_connect(ts_schema());
    cluster_use(1);
    f.mysql = ts_connect(ts_schema());
    return f;
}

/* Somebody else, at a node that has heard of the holder, takes the lock: then what `late` wrote
 * cannot be committed. */
static void want_no_commit(fenced *f, const char *name, const rowlock_hold *hold, MYSQL *late)
{
    assert_true(POLL_UNTIL(shown_at(f->taker, name, rowlock_hold_token(hold)), SOON_MS));
    WANT(OK, rowlock_break(f->taker, name, "test", &ts_err));
    rowlock_hold *taken = hold_at(f->taker, name, 30000);
    assert_int_not_equal(ts_sql_try(late, "COMMIT"), 0);
    assert_held(taken);
    WANT(OK, rowlock_release(taken, &ts_err));
}

static void fenced_close(fenced *f)
{
    mysql_close(f->mysql);
    mysql_close(f->far);
    rowlock_client_close(f->holder);
    rowlock_client_close(f->taker);
    rowlock_client_close(f->third);
}

/* A fence at one node, the lease taken at another: when it has been broken and taken anew, the
 * transaction cannot commit, wherever the two happened. */
void test_a_fence_at_another_node(void **state)
{
    (void)state;
    cluster_needed();
    const char *name = ts_name("fence");
    fenced f = fenced_open();
    rowlock_hold *hold = hold_at(f.holder, name, 30000);
    /* While it is held: at its own node, and at another as soon as that knows of it. */
    ts_sql(f.mysql, "BEGIN");
    WANT(OK, rowlock_fence(hold, f.mysql, &ts_err));
    ts_sql(f.mysql, "COMMIT");
    /* Both write the row: two that do not know of each other cannot commit both. */
    assert_true(POLL_UNTIL(ts_sql_u64(f.far,
                                      "SELECT COALESCE(MAX(fence_count), 0) FROM resource"
                                      " WHERE resource_name = %s",
                                      ts_quote(name)) == 1,
                           SOON_MS));
    ts_sql(f.far, "BEGIN");
    WANT(OK, rowlock_fence(hold, f.far, &ts_err));
    ts_sql(f.far, "COMMIT");
    /* Fenced and not committed, while somebody else takes it at another node. */
    ts_sql(f.mysql, "BEGIN");
    WANT(OK, rowlock_fence(hold, f.mysql, &ts_err));
    want_no_commit(&f, name, hold, f.mysql);
    (void)rowlock_release(hold, &ts_err);
    fenced_close(&f);
}

static bool guarded_at(MYSQL *mysql)
{
    return ts_sql_u64(mysql, "SELECT COUNT(*) FROM information_schema.triggers"
                             " WHERE event_object_schema = DATABASE()"
                             " AND event_object_table = 'guarded'") == 3;
}

/* The same of a table's triggers, which know nothing of transactions at other nodes. */
void test_a_fenced_table_at_another_node(void **state)
{
    (void)state;
    cluster_needed();
    const char *name = ts_name("table");
    fenced f = fenced_open();
    ts_sql(f.far, "CREATE TABLE guarded (id INT PRIMARY KEY, n INT NOT NULL) ENGINE = InnoDB");
    ts_sql(f.far, "INSERT INTO guarded VALUES (1, 0)");
    WANT(OK, rowlock_fence_install(f.third, NULL, "guarded", name, &ts_err));
    assert_true(POLL_UNTIL(guarded_at(f.mysql), SOON_MS));
    assert_int_equal(ts_sql_try(f.mysql, "UPDATE guarded SET n = 1"), 1644);
    rowlock_hold *hold = hold_at(f.holder, name, 30000);
    WANT(OK, rowlock_present(hold, f.mysql, &ts_err));
    WANT(OK, rowlock_present(hold, f.far, &ts_err));
    ts_sql(f.mysql, "UPDATE guarded SET n = 2");
    assert_true(POLL_UNTIL(shown_at(f.third, name, rowlock_hold_token(hold)) &&
                               ts_sql_u64(f.far, "SELECT n FROM guarded") == 2,
                           SOON_MS));
    ts_sql(f.far, "BEGIN");
    ts_sql(f.far, "UPDATE guarded SET n = 3");
    want_no_commit(&f, name, hold, f.far);
    assert_int_equal(ts_sql_u64(f.mysql, "SELECT n FROM guarded"), 2);
    (void)rowlock_release(hold, &ts_err);
    fenced_close(&f);
}

/* ------------------------------------------------------------------------- sections */

enum { SECTIONS = 20, SECTION_THREADS = 2 * CLUSTER_NODES };

typedef struct adder {
    const char *name;
    int node;
    rowlock_client *client;
    MYSQL *mysql;
    pthread_t thread;
    rowlock_error err; /* of the first that failed */
    rowlock_error work;
    unsigned conflicts;
} adder;

/* What the cluster rolls back because of another node's change: the work is to be done again. */
static rowlock_status refused(MYSQL *mysql, rowlock_error *err)
{
    unsigned number = mysql_errno(mysql);
    if (number == 1213 || number == 1180 || number == 3101)
        return ROWLOCK_DEADLOCK;
    snprintf(err->message, sizeof err->message, "%u %s", number, mysql_error(mysql));
    return ROWLOCK_SERVER;
}

/* Reads, and writes one more: nothing but the section makes it right. */
static rowlock_status add_one(void *data, const rowlock_section *section, MYSQL *mysql)
{
    char text[200];
    snprintf(text, sizeof text, "SELECT value FROM counter WHERE name = '%s'", section->name);
    if (mysql_query(mysql, text) != 0)
        return refused(mysql, data);
    MYSQL_RES *result = mysql_store_result(mysql);
    MYSQL_ROW row = mysql_fetch_row(result);
    unsigned long value = strtoul(row[0], NULL, 10);
    mysql_free_result(result);
    snprintf(text, sizeof text, "UPDATE counter SET value = %lu WHERE name = '%s'", value + 1,
             section->name);
    if (mysql_query(mysql, text) != 0)
        return refused(mysql, data);
    return ROWLOCK_OK;
}

static void *add_all(void *arg)
{
    adder *a = arg;
    const rowlock_section_options options = {.max_attempts = 10000, .wait_ms = 2L * SOON_MS};
    for (int i = 0; i < SECTIONS && a->err.status == ROWLOCK_OK; i++) {
        rowlock_section_result result = {0};
        rowlock_status status = ROWLOCK_DEADLOCK;
        /* A deadlock of the work itself is the work's to do again. */
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

static bool counter_arrived(MYSQL *mysql, const char *name)
{
    return ts_sql_try(mysql, "DO (SELECT 1 FROM counter)") == 0 &&
           ts_sql_u64(mysql, "SELECT COUNT(*) FROM counter WHERE name = '%s'", name) == 1;
}

static void adder_start(adder *a)
{
    cluster_use(a->node);
    a->client = cluster_open(a->node);
    a->mysql = ts_connect(ts_schema());
    ts_sql(a->mysql, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED");
    assert_true(POLL_UNTIL(counter_arrived(a->mysql, a->name), SOON_MS));
}

void test_sections_from_every_node(void **state)
{
    (void)state;
    cluster_needed();
    adder adders[SECTION_THREADS] = {0};
    const char *name = ts_name("section");
    cluster_use(1);
    MYSQL *mysql = ts_connect(ts_schema());
    ts_sql(mysql, "CREATE TABLE counter (name VARCHAR(80) PRIMARY KEY, value BIGINT NOT NULL)");
    ts_sql(mysql, "INSERT INTO counter VALUES ('%s', 0)", name);
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
    uint64_t expected = SECTIONS * SECTION_THREADS;
    assert_true(POLL_UNTIL(ts_sql_u64(mysql, "SELECT value FROM counter WHERE name = '%s'", name) ==
                               expected,
                           SOON_MS));
    mysql_close(mysql);
}

/* ------------------------------------------------------------------------- row locks */

/* Not even looked at: a name that was refused may still become a lease. */
void test_row_locks_are_refused(void **state)
{
    (void)state;
    cluster_needed();
    for (int n = 1; n <= CLUSTER_NODES; n++) {
        const char *name = ts_name("row");
        rowlock_client *client = cluster_open(n);
        rowlock_hold *hold = NULL;
        const rowlock_acquire_options options = {.mode = ROWLOCK_PESSIMISTIC};
        WANT(UNSUPPORTED, rowlock_acquire(client, name, &options, &hold, &ts_err));
        assert_non_null(strstr(ts_err.message, "single_writer"));
        WANT(UNSUPPORTED, rowlock_acquire_set(client, &name, 1, &options, &hold, &ts_err));
        cluster_use(n);
        MYSQL *mysql = ts_connect(ts_schema());
        ts_sql(mysql, "BEGIN");
        WANT(UNSUPPORTED, rowlock_tx_acquire(client, mysql, name, NULL, &ts_err));
        ts_sql(mysql, "ROLLBACK");
        mysql_close(mysql);
        WANT(OK, ts_try(client, name, ROWLOCK_OPTIMISTIC));
        rowlock_client_close(client);
    }
}

void test_row_locks_of_a_single_writer(void **state)
{
    (void)state;
    cluster_needed();
    const char *name = ts_name("single");
    rowlock_client_options options = cluster_options(2);
    rowlock_client *client = NULL;
    rowlock_client *other = NULL;
    options.single_writer = true;
    WANT(OK, rowlock_client_open(&options, &client, &ts_err));
    WANT(OK, rowlock_client_open(&options, &other, &ts_err));
    rowlock_hold *hold = ts_take(client, name, ROWLOCK_PESSIMISTIC, 30000);
    WANT(BUSY, ts_try(other, name, ROWLOCK_PESSIMISTIC));
    WANT(OK, rowlock_release(hold, &ts_err));
    WANT(OK, ts_try(other, name, ROWLOCK_PESSIMISTIC));
    rowlock_client_close(client);
    rowlock_client_close(other);
}

/* -------------------------------------------------------------------------- the doctor */

typedef struct findings {
    int broken;
    int care; /* about row locks */
    int polls;
} findings;

/* With EXECUTE alone, beside those that work by the tables. What is installed at one node arrives
 * at the others in its time. */
static rowlock_client *open_via(const char *user, int node)
{
    rowlock_client_options options = cluster_options(node);
    rowlock_client *client = NULL;
    options.user = user;
    options.via = ROWLOCK_VIA_PROCEDURES;
    assert_true(POLL_UNTIL(rowlock_client_open(&options, &client, &ts_err) == ROWLOCK_OK, SOON_MS));
    return client;
}

void test_through_procedures(void **state)
{
    (void)state;
    cluster_needed();
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
        rowlock_hold *hold = hold_at(clients[i % (CLUSTER_NODES + 1)], name, 30000);
        assert_true(rowlock_hold_token(hold) > token);
        token = rowlock_hold_token(hold);
        WANT(OK, rowlock_release(hold, &ts_err));
    }
    rowlock_hold *hold = hold_at(clients[0], name, 30000);
    ts_waiter waiter = {.client = clients[1], .name = name, .options = {.wait_ms = SOON_MS}};
    ts_waiter_start(&waiter);
    WANT(OK, rowlock_release(hold, &ts_err));
    WANT(OK, ts_waiter_join(&waiter, SOON_MS));
    assert_true(rowlock_hold_token(waiter.hold) > token + 1);
    WANT(OK, rowlock_release(waiter.hold, &ts_err));
    /* Row locks are a node's: none is taken, and none is broken, whose connection may be elsewhere.
     */
    WANT(UNSUPPORTED, ts_try(clients[2], row, ROWLOCK_PESSIMISTIC));
    options.single_writer = true;
    rowlock_client *alone = NULL;
    WANT(OK, rowlock_client_open(&options, &alone, &ts_err));
    hold = ts_take(alone, row, ROWLOCK_PESSIMISTIC, 30000);
    assert_true(POLL_UNTIL(shown_at(clients[1], row, rowlock_hold_token(hold)), SOON_MS));
    WANT(UNSUPPORTED, rowlock_break(clients[1], row, NULL, &ts_err));
    assert_non_null(strstr(ts_err.message, "KILL its connection there"));
    assert_held(hold);
    WANT(OK, rowlock_release(hold, &ts_err));
    rowlock_client_close(alone);
    for (int i = 0; i <= CLUSTER_NODES; i++)
        rowlock_client_close(clients[i]);
}

static void note_finding(void *data, const rowlock_finding *finding)
{
    findings *all = data;
    all->broken += finding->level == ROWLOCK_BROKEN;
    all->care += finding->level == ROWLOCK_CARE && strstr(finding->follows, "row locks") != NULL;
    all->polls += strcmp(finding->check, "waiting") == 0 && finding->level == ROWLOCK_NOTE;
    if (finding->level == ROWLOCK_BROKEN)
        print_message("# %s: %s\n", finding->check, finding->found);
}

void test_the_doctor_at_a_node(void **state)
{
    (void)state;
    cluster_needed();
    rowlock_client_options options = cluster_options(3);
    findings all = {0};
    WANT(OK, rowlock_diagnose(&options, 0, note_finding, &all, &ts_err));
    assert_int_equal(all.broken, 0);
    assert_int_equal(all.care, 1);
    assert_int_equal(all.polls, 1);
}

/* ------------------------------------------------------------------------------ a node */

/* Node 3 dies while turns are taken at all three, and comes back. Whoever held at it has lost
 * his lock, or keeps it if he can renew it in time; nobody else had it meanwhile. */
void test_a_node_is_killed_and_comes_back(void **state)
{
    (void)state;
    cluster_needed();
    enum { CLIENTS = 2, TURNS = 60 };
    turns *all = turns_start(&(turns_plan){.nodes = {1, 2, 3},
                                           .clients = CLIENTS,
                                           .names = 2,
                                           .turns = TURNS,
                                           .ttl_ms = 5000,
                                           .within_ms = 240000,
                                           .troubled = true});
    /* In the middle of them, at each node. */
    assert_true(POLL_UNTIL(turns_done(all, 3) >= TURNS / 10, 60000));
    cluster_node("kill-node", 3);
    int before = turns_done(all, 0) - turns_done(all, 3);
    assert_true(
        POLL_UNTIL(turns_done(all, 0) - turns_done(all, 3) > before || turns_over(all), 60000));
    cluster_node("start-node", 3);
    turns_finish(all);
}
