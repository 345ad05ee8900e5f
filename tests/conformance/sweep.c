/* The sweep of many names, in short, complete batches that wait for nobody; also the break and the
 * purge of src/admin/sweeper.c. On a server of its own, since it counts waits. */
#include "admin/admin.h"
#include "rowlock/rowlock_barrier.h"
#include "rowlock/rowlock_latch.h"
#include "support/named.h"
#include "support/support.h"

#define FIRST_BATCH 8
#define SLOW_ROWS   60

static MYSQL *mysql;
static rowlock_client *client;
static const char *here; /* the schema */

/* Each test has a schema of its own, since it counts rows. */
static void begin(const char *suffix, bool no_history)
{
    here = ts_extra_schema(suffix, true);
    mysql = ts_connect(here);
    client = ts_open_as((rowlock_client_options){.schema = here, .no_history = no_history});
}

static void end(void)
{
    rowlock_client_close(client);
    mysql_close(mysql);
}

/* `count` (at most 1,000) expired leases with the version 7. */
static void add_expired(unsigned count)
{
    ts_sql(mysql,
           "INSERT INTO resource (resource_name, kind, status, version, owner, owner_label,"
           " acquired_at, lease_expires_at, update_time)"
           " WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < %u)"
           " SELECT CONCAT('name-', i), 'optimistic', 'held', 7, CONCAT('owner-', i), 'label',"
           " UTC_TIMESTAMP(6) - INTERVAL 90 SECOND, UTC_TIMESTAMP(6) - INTERVAL 60 SECOND,"
           " UTC_TIMESTAMP(6) FROM n",
           count);
    ts_sql(mysql, "INSERT INTO lease_renewal (id, version, expires_at)"
                  " SELECT id, version, lease_expires_at FROM resource");
}

/* `count` (at most 1,000) names that were not used for long, half of them row locks. */
static void add_unused(unsigned count)
{
    ts_sql(mysql,
           "INSERT INTO resource (resource_name, kind, version, update_time)"
           " WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < %u)"
           " SELECT CONCAT('name-', i), IF(i %% 2, 'optimistic', 'pessimistic'), i,"
           " UTC_TIMESTAMP(6) - INTERVAL 100 DAY FROM n",
           count);
    ts_sql(mysql, "INSERT INTO lease_renewal (id) SELECT id FROM resource"
                  " WHERE kind = 'optimistic'");
    ts_sql(mysql,
           "INSERT INTO resource_lock (id, resource_name, update_time)"
           " SELECT id, resource_name, update_time FROM resource WHERE kind = 'pessimistic'");
}

static void add_events(unsigned count)
{
    ts_sql(mysql,
           "INSERT INTO lock_event (resource_name, kind, event, version, owner, owner_label,"
           " happened_at)"
           " WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < %u)"
           " SELECT 'name', 'optimistic', 'acquired', i, '', '',"
           " UTC_TIMESTAMP(6) - INTERVAL 40 DAY FROM n",
           count);
}

/* The rows of the statement that changed most; a batch has one time in the history. */
static uint64_t largest(const char *column, const char *table)
{
    return ts_sql_u64(mysql, "SELECT MAX(c) FROM (SELECT COUNT(*) AS c FROM %s GROUP BY %s) s",
                      table, column);
}

static rowlock_sweep_result sweep(void)
{
    rowlock_sweep_result result = {0};
    WANT(OK, rowlock_sweep(client, NULL, &result, &ts_err));
    return result;
}

static uint64_t count(const char *what)
{
    return ts_sql_u64(mysql, "SELECT COUNT(*) FROM %s", what);
}

TS_ONCE(test_all_are_freed_and_told)
{
    begin("many", false);
    add_expired(1000);
    int64_t start = ts_now_ms();
    assert_int_equal(sweep().expired, 1000);
    int64_t took = ts_now_ms() - start;
    assert_int_equal(count("resource WHERE status = 'free' AND version = 8"
                           " AND owner LIKE 'owner-%'"),
                     1000);
    assert_int_equal(count("lease_renewal WHERE version = 8 AND expires_at IS NULL"), 1000);
    assert_int_equal(count("lock_event e JOIN resource r USING (resource_name)"
                           " WHERE e.event = 'expired' AND e.kind = 'optimistic'"
                           " AND e.version = 7 AND e.owner = r.owner AND e.owner_label = 'label'"
                           " AND e.held_ms >= 90000 AND e.detail <> ''"),
                     1000);
    assert_int_equal(count("lock_event"), 1000);
    /* A batch has one time in the history. Batches grew, or eight names took 10 ms on this
     * machine. */
    assert_true(largest("happened_at", "lock_event") > FIRST_BATCH ||
                took >= 1000 * 10 / (FIRST_BATCH + 1));
    assert_int_equal(sweep().expired, 0);
    rowlock_hold *hold = ts_take(client, "name-1", ROWLOCK_OPTIMISTIC, 30000);
    assert_int_equal(rowlock_hold_token(hold), 9);
    WANT(OK, rowlock_release(hold, &ts_err));
    end();
}

/* Each changed row takes 3 ms, by a trigger that also notes the statement's time in the table
 * `seen`. */
TS_ONCE(test_batches_are_small_where_the_server_is_slow)
{
    static const struct {
        const char *suffix;
        void (*add)(unsigned count);
        const char *change;
        size_t told; /* offset in the result */
    } slow[] = {
        {"slow", add_expired, "UPDATE ON resource", offsetof(rowlock_sweep_result, expired)},
        {"slowpurge", add_unused, "DELETE ON resource", offsetof(rowlock_sweep_result, purged)},
        {"slowpast", add_events, "DELETE ON lock_event", offsetof(rowlock_sweep_result, events)}};
    for (size_t i = 0; i < sizeof slow / sizeof slow[0]; i++) {
        begin(slow[i].suffix, false);
        slow[i].add(SLOW_ROWS);
        ts_sql(mysql,
               "CREATE TABLE seen (id INT AUTO_INCREMENT PRIMARY KEY, at DATETIME(6) NOT NULL)");
        ts_sql(mysql,
               "CREATE TRIGGER slow BEFORE %s FOR EACH ROW"
               " BEGIN DO SLEEP(0.003); INSERT INTO seen (at) VALUES (UTC_TIMESTAMP(6)); END",
               slow[i].change);
        rowlock_sweep_result result = sweep();
        uint64_t told = 0;
        memcpy(&told, (const char *)&result + slow[i].told, sizeof told);
        print_message("# %s: %" PRIu64 "\n", slow[i].change, told);
        assert_int_equal(told, SLOW_ROWS);
        assert_int_equal(count("seen"), SLOW_ROWS);
        assert_true(largest("at", "seen") <= FIRST_BATCH);
        if (slow[i].add == add_expired)
            assert_true(largest("happened_at", "lock_event") <= FIRST_BATCH);
        end();
    }
}

/* How often the server had to wait for a row. */
static uint64_t row_waits(void)
{
    return ts_sql_u64(mysql,
                      "SELECT variable_value FROM %s.global_status"
                      " WHERE variable_name = 'Innodb_row_lock_waits'",
                      ts_is_mysql(mysql) ? "performance_schema" : "information_schema");
}

/* A transaction that has fenced a lease delays neither the sweep nor other leases. */
TS_ONCE(test_a_locked_one_is_left_out)
{
    static const char *const tables[] = {"resource", "lease_renewal"};
    begin("fenced", false);
    add_expired(40);
    TS_MYSQL *fencer = ts_connect(here);
    for (size_t i = 0; i < 2; i++) {
        uint64_t id = ts_sql_u64(mysql, "SELECT MIN(id) + 20 FROM resource");
        ts_sql(mysql, "UPDATE resource SET status = 'held'");
        ts_sql(fencer, "BEGIN");
        ts_sql(fencer, "SELECT id FROM %s WHERE id = %" PRIu64 " FOR UPDATE", tables[i], id);
        uint64_t before = row_waits();
        assert_int_equal(sweep().expired, 39);
        assert_int_equal(row_waits(), before);
        assert_int_equal(ts_sql_u64(mysql, "SELECT id FROM resource WHERE status = 'held'"), id);
        ts_sql(fencer, "COMMIT");
        assert_int_equal(sweep().expired, 1);
    }
    end();
}

/* A freed lease is in the history, or it is not freed. */
TS_ONCE(test_not_freed_without_its_history)
{
    begin("untold", false);
    add_expired(20);
    ts_sql(mysql, "CREATE TRIGGER refuse BEFORE INSERT ON lock_event FOR EACH ROW"
                  " IF NEW.owner = 'owner-5' THEN SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 1999;"
                  " END IF");
    rowlock_sweep_result result = {0};
    WANT(SERVER, rowlock_sweep(client, NULL, &result, &ts_err));
    assert_int_equal(count("lock_event"), 0);
    assert_int_equal(count("resource WHERE status = 'held' AND version = 7"), 20);
    assert_int_equal(count("lease_renewal WHERE version = 7"), 20);
    ts_sql(mysql, "DROP TRIGGER refuse");
    assert_int_equal(sweep().expired, 20);
    end();
}

/* A lease that was renewed, or taken again, is not freed. */
TS_ONCE(test_a_live_one_is_left_alone)
{
    begin("live", true);
    add_expired(20);
    ts_sql(mysql, "UPDATE lease_renewal SET expires_at = UTC_TIMESTAMP(6) + INTERVAL 1 HOUR"
                  " ORDER BY id LIMIT 5");
    ts_sql(mysql, "UPDATE resource SET lease_expires_at = UTC_TIMESTAMP(6) + INTERVAL 1 HOUR"
                  " ORDER BY id DESC LIMIT 5");
    assert_int_equal(sweep().expired, 10);
    assert_int_equal(count("resource WHERE status = 'held' AND version = 7"), 10);
    assert_int_equal(count("lock_event"), 0); /* the client writes no history */
    end();
}

TS_ONCE(test_many_are_purged)
{
    begin("purge", false);
    add_unused(1000);
    assert_int_equal(sweep().purged, 1000);
    assert_int_equal(count("resource") + count("resource_lock") + count("lease_renewal"), 0);
    assert_int_equal(ts_sql_u64(mysql, "SELECT version FROM version_floor"), 1000);
    rowlock_hold *hold = ts_take(client, "name-1", ROWLOCK_OPTIMISTIC, 30000);
    assert_int_equal(rowlock_hold_token(hold), 1001);
    WANT(OK, rowlock_release(hold, &ts_err));
    end();
}

/* A young name has low versions; names that were purged before had higher ones. */
TS_ONCE(test_the_floor_does_not_sink)
{
    begin("floor", false);
    ts_sql(mysql, "UPDATE version_floor SET version = 50");
    add_unused(3);
    assert_int_equal(sweep().purged, 3);
    assert_int_equal(ts_sql_u64(mysql, "SELECT version FROM version_floor"), 50);
    end();
}

/* A row lock's name without its row, since its maker died. */
static void add_half(const char *name)
{
    ts_sql(mysql,
           "INSERT INTO resource (resource_name, kind, version, update_time)"
           " VALUES ('%s', 'pessimistic', 3, UTC_TIMESTAMP(6) - INTERVAL 100 DAY)",
           name);
}

/* Beside one that is in use, which only its row's lock shows. */
TS_ONCE(test_a_half_made_name_is_purged)
{
    begin("half", false);
    TS_CLIENT *user = ts_open_as((rowlock_client_options){.schema = here});
    rowlock_hold *hold = ts_take_with(
        user, "used", (rowlock_acquire_options){.mode = ROWLOCK_PESSIMISTIC, .unfenced = true});
    ts_sql(mysql, "UPDATE resource SET update_time = UTC_TIMESTAMP(6) - INTERVAL 100 DAY");
    add_half("one");
    add_half("two");
    add_half("three");
    WANT(OK, rowlock_purge(client, "one", &ts_err));
    WANT(BUSY, rowlock_purge(client, "used", &ts_err));
    assert_int_equal(sweep().purged, 2);
    assert_int_equal(count("resource"), 1);
    assert_int_equal(count("resource_lock"), 1);
    WANT(OK, rowlock_hold_check(hold));
    WANT(OK, rowlock_release(hold, &ts_err));
    WANT(OK, rowlock_purge(client, "used", &ts_err));
    end();
}

/* Its row is being made: in an open transaction, and by a client that comes during the purge. */
TS_ONCE(test_a_half_made_name_that_is_being_completed)
{
    begin("whole", false);
    TS_MYSQL *maker = ts_connect(here);
    add_half("name");
    ts_sql(maker, "BEGIN");
    ts_sql(maker, "INSERT INTO resource_lock (id, resource_name, update_time) SELECT id,"
                  " resource_name, update_time FROM resource LOCK IN SHARE MODE");
    WANT(BUSY, rowlock_purge(client, "name", &ts_err));
    ts_sql(maker, "ROLLBACK");
    ts_sql(maker, "BEGIN");
    ts_sql(maker, "DELETE FROM resource");
    ts_waiter waiter = {.client = client, .name = "name"};
    waiter.options = (rowlock_acquire_options){.mode = ROWLOCK_PESSIMISTIC, .wait_ms = 20000};
    ts_waiter_start(&waiter);
    assert_true(POLL_UNTIL(ts_sql_u64(mysql, "SELECT COUNT(*) FROM " TS_PROCESSLIST " WHERE %s",
                                      ts_named_info("resource_create_lock")) == 1,
                           10000));
    ts_sql(maker, "COMMIT");
    WANT(OK, ts_waiter_join(&waiter, 10000));
    assert_int_equal(count("resource_lock q JOIN resource r ON r.id = q.id"), 1);
    assert_int_equal(count("resource_lock"), 1);
    WANT(OK, rowlock_release(waiter.hold, &ts_err));
    end();
}

/* A locked row of another lease delays no renewal. (Without FORCE INDEX, MariaDB reads more rows
 * from the second execution on.) */
TS_ONCE(test_renewals_wait_for_no_other_lease)
{
    begin("apart", false);
    rowlock_hold *other = ts_take(client, "other", ROWLOCK_OPTIMISTIC, TS_KEPT_TTL);
    WANT(OK, rowlock_release(other, &ts_err));
    rowlock_hold *one = ts_take(client, "one", ROWLOCK_OPTIMISTIC, TS_KEPT_TTL);
    rowlock_hold *two = ts_take(client, "two", ROWLOCK_OPTIMISTIC, TS_KEPT_TTL);
    TS_MYSQL *locker = ts_connect(here);
    ts_sql(locker, "BEGIN");
    ts_sql(locker, "SELECT id FROM lease_renewal WHERE id = 1 FOR UPDATE");
    uint64_t before = row_waits();
    ts_pass_ms(TS_KEPT_FOR);
    WANT(OK, rowlock_hold_check(one));
    WANT(OK, rowlock_hold_check(two));
    assert_int_equal(row_waits(), before);
    ts_sql(locker, "ROLLBACK");
    WANT(OK, rowlock_release(one, &ts_err));
    WANT(OK, rowlock_release(two, &ts_err));
    end();
}

/* As on a cluster, where another node's renewal was committed first: the server has changed
 * nothing, and the break is repeated. */
TS_ONCE(test_a_break_that_is_rolled_back_is_tried_again)
{
    begin("again", false);
    rowlock_hold *hold = ts_take(client, "name", ROWLOCK_OPTIMISTIC, 60000);
    ts_sql(mysql, "CREATE TABLE refused (id INT) ENGINE = MyISAM"); /* not rolled back */
    ts_sql(mysql, "CREATE TRIGGER refuse BEFORE UPDATE ON resource FOR EACH ROW"
                  " IF (SELECT COUNT(*) FROM refused) < 3 THEN"
                  " INSERT INTO refused VALUES (1);"
                  " SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213; END IF");
    WANT(OK, rowlock_break(client, "name", "test", &ts_err));
    assert_int_equal(count("refused"), 3);
    assert_int_equal(count("resource WHERE status = 'free' AND version > 1"), 1);
    ts_sql(mysql, "DROP TRIGGER refuse");
    WANT(LOST, rowlock_release(hold, &ts_err));
    end();
}

/* --------------------------------------------------------------------------- latches */

static uint64_t set_latch(const char *name, unsigned count)
{
    uint64_t generation = 0;
    WANT(OK, rowlock_latch_set(client, name, count, &generation, &ts_err));
    return generation;
}

static uint64_t open_latch(const char *name)
{
    uint64_t generation = set_latch(name, 1);
    WANT(OK, rowlock_latch_down(client, name, NULL, 0, &ts_err));
    WANT(OK, rowlock_latch_wait(client, name, NULL, NULL, &ts_err));
    return generation;
}

/* A member that has not counted, of the present generation, or of an earlier one (`before`). */
static void add_member(const char *name, const char *owner, unsigned before, int seconds_left)
{
    ts_sql(mysql,
           "INSERT INTO lock_grant (resource_id, owner, owner_label, version, acquired_at,"
           " expires_at) SELECT id, '%s', 'label of %s', version - %u, UTC_TIMESTAMP(6),"
           " UTC_TIMESTAMP(6) + INTERVAL %d SECOND FROM resource WHERE resource_name = '%s'",
           owner, owner, before, seconds_left, name);
}

static void install_event(void)
{
    rowlock_client_options options = ts_options_on(here);
    options.user = "root"; /* not the role of the tests */
    WANT(OK, rowlock_procedures_install(&options, NULL, NULL, &ts_err));
    WANT(OK, rowlock_sweep_event_install(&options, NULL, NULL, &ts_err));
}

static uint64_t count_after_call(const char *what)
{
    ts_sql(mysql, "CALL rl_sweep(2592000000000, 1000000, 7776000000000)");
    return count(what);
}

/* Sweeps until only so many rows are left, with the event's procedure if that is installed.
 * (Repeated, since a call does nothing while the event itself runs, which may have passed these
 * rows already.) */
static void sweep_until(bool event, const char *what, uint64_t left)
{
    if (!event)
        (void)sweep();
    assert_true(
        POLL_UNTIL((event ? count_after_call(what) : count(what)) == left, event ? 10000 : 1));
}

/* Their expiry breaks the latch, at the next look. */
TS_ONCE(test_dead_members_of_a_closed_latch_stay)
{
    for (unsigned event = 0; event < 2; event++) {
        begin(event ? "members2" : "members1", false);
        if (event)
            install_event();
        (void)open_latch("closed");
        uint64_t generation = set_latch("closed", 2);
        (void)open_latch("open");
        add_member("closed", "dead", 0, -120);
        add_member("closed", "dead before", 1, -120);
        add_member("closed", "alive before", 1, 120);
        add_member("open", "dead and late", 0, -120);
        sweep_until(event, "lock_grant", 2);
        assert_int_equal(count("lock_grant WHERE owner IN ('dead', 'alive before')"), 2);
        const rowlock_latch_options its = {.generation = generation, .wait_ms = 20000};
        WANT(LOST, rowlock_latch_wait(client, "closed", &its, NULL, &ts_err));
        assert_non_null(strstr(ts_err.message, "label of dead"));
        sweep_until(event, "lock_grant", 1);
        assert_int_equal(count("lock_grant WHERE owner = 'alive before'"), 1);
        end();
    }
}

/* Rows that a transaction has locked are left to the next sweep, and not waited for. */
TS_ONCE(test_members_that_are_locked_are_left_out)
{
    static const char *const tables[] = {"resource WHERE resource_name = 'one'",
                                         "lock_grant WHERE owner = 'of one'"};
    begin("locked", false);
    TS_MYSQL *locker = ts_connect(here);
    ts_sql(locker, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED");
    (void)open_latch("one");
    (void)open_latch("two");
    for (size_t i = 0; i < 2; i++) {
        add_member("one", "of one", 0, -120);
        add_member("two", "of two", 0, -120);
        ts_sql(locker, "BEGIN");
        ts_sql(locker, "SELECT * FROM %s FOR UPDATE", tables[i]);
        uint64_t before = row_waits();
        assert_int_equal(sweep().expired, 1);
        assert_int_equal(row_waits(), before);
        assert_int_equal(count("lock_grant WHERE owner = 'of one'"), 1);
        ts_sql(locker, "COMMIT");
        assert_int_equal(sweep().expired, 1);
        assert_int_equal(count("lock_grant"), 0);
    }
    end();
}

/* A latch is purged with its counts and members; a closed one is in use. */
TS_ONCE(test_a_latch_is_purged)
{
    for (unsigned event = 0; event < 2; event++) {
        begin(event ? "latches2" : "latches1", false);
        if (event)
            install_event();
        uint64_t generation = open_latch("open");
        (void)open_latch("alone");
        (void)set_latch("closed", 2);
        WANT(OK, rowlock_latch_down(client, "closed", NULL, 0, &ts_err));
        WANT(BUSY, rowlock_latch_wait(client, "unset", NULL, NULL, &ts_err));
        add_member("open", "late", 0, 120);
        add_member("alone", "late", 0, 120);
        add_member("closed", "member", 0, 120);
        WANT(BUSY, rowlock_purge(client, "closed", &ts_err));
        WANT(OK, rowlock_purge(client, "alone", &ts_err));
        assert_int_equal(count("resource"), 3);
        assert_int_equal(count("latch_down") + count("lock_grant"), 4);
        ts_sql(mysql, "UPDATE resource SET update_time = UTC_TIMESTAMP(6) - INTERVAL 100 DAY");
        sweep_until(event, "resource", 1);
        assert_int_equal(count("resource WHERE resource_name = 'closed' AND status = 'held'"), 1);
        assert_int_equal(count("latch_down d JOIN resource r ON r.id = d.resource_id"), 1);
        assert_int_equal(count("lock_grant g JOIN resource r ON r.id = g.resource_id"), 1);
        assert_int_equal(count("latch_down") + count("lock_grant"), 2);
        assert_true(set_latch("open", 1) > generation);
        end();
    }
}

/* --------------------------------------------------------------------------- barriers */

/* Others miss a lost member when they leave; a member that gathers is not missed. */
TS_ONCE(test_a_barrier)
{
    for (unsigned event = 0; event < 2; event++) {
        rowlock_hold *hold = NULL;
        begin(event ? "barriers2" : "barriers1", false);
        if (event)
            install_event();
        WANT(OK,
             rowlock_barrier_enter(client, "round", 1, &(rowlock_barrier_options){.wait_ms = 20000},
                                   &hold, &ts_err));
        add_member("round", "missed", 1, -120);
        add_member("round", "long ago", 1, -31 * 86400);
        add_member("round", "gathered", 0, -120);
        sweep_until(event, "lock_grant", 2);
        assert_int_equal(count("lock_grant WHERE owner = 'missed'"), 1);
        WANT(LOST, rowlock_barrier_leave(hold, 0, NULL, &ts_err));
        assert_non_null(strstr(ts_err.message, "label of missed was lost before it left"));
        WANT(OK, rowlock_release(hold, &ts_err));
        /* It is in use while a member gathers. */
        add_member("round", "alive", 0, 120);
        ts_sql(mysql, "UPDATE resource SET update_time = UTC_TIMESTAMP(6) - INTERVAL 100 DAY");
        sweep_until(event, "resource", 1);
        WANT(BUSY, rowlock_purge(client, "round", &ts_err));
        assert_int_equal(count("lock_grant"), 2);
        ts_sql(mysql, "DELETE FROM lock_grant WHERE owner = 'alive'");
        sweep_until(event, "resource", 0);
        assert_int_equal(count("lock_grant"), 0);
        end();
    }
}

/* ------------------------------------------------------------------------------ asks */

/* The last ask for a name goes with the name. */
TS_ONCE(test_asks_are_purged)
{
    for (unsigned event = 0; event < 2; event++) {
        begin(event ? "asks2" : "asks1", false);
        if (event)
            install_event();
        static const char *const names[] = {"lease", "row", "held", "purged"};
        rowlock_hold *holds[4];
        for (size_t i = 0; i < 4; i++) {
            holds[i] =
                ts_take(client, names[i], i == 1 ? ROWLOCK_PESSIMISTIC : ROWLOCK_OPTIMISTIC, 0);
            WANT(OK, rowlock_ask(client, names[i], NULL, &ts_err));
        }
        assert_int_equal(count("lock_ask"), 4);
        for (size_t i = 0; i < 4; i++)
            if (i != 2)
                WANT(OK, rowlock_release(holds[i], &ts_err));
        WANT(OK, rowlock_purge(client, "purged", &ts_err));
        assert_int_equal(count("lock_ask"), 3);
        ts_sql(mysql, "UPDATE resource SET update_time = UTC_TIMESTAMP(6) - INTERVAL 100 DAY");
        sweep_until(event, "resource", 1);
        assert_int_equal(count("lock_ask"), 1);
        assert_int_equal(count("lock_ask a JOIN resource r ON r.id = a.resource_id"), 1);
        WANT(OK, rowlock_release(holds[2], &ts_err));
        end();
    }
}

/* Two names of a newer program: one that was not used for long, and one that has expired and whose
 * connection is ours. Each has rows of both modes. */
static void add_unknown(void)
{
    ts_sql(mysql, "INSERT INTO resource (resource_name, kind, status, version, owner, owner_label,"
                  " connection_id, acquired_at, lease_expires_at, update_time) VALUES"
                  " ('unused', 'semaphore', 'free', 5, '', '', 0, NULL, NULL,"
                  "  UTC_TIMESTAMP(6) - INTERVAL 100 DAY),"
                  " ('held', 'semaphore', 'held', 7, 'o.1', 'label', CONNECTION_ID(),"
                  "  UTC_TIMESTAMP(6) - INTERVAL 90 SECOND,"
                  "  UTC_TIMESTAMP(6) - INTERVAL 60 SECOND, UTC_TIMESTAMP(6))");
    ts_sql(mysql, "INSERT INTO lease_renewal (id) SELECT id FROM resource");
}

static char *all_of_them(void)
{
    return ts_sql_text(mysql,
                       "SELECT GROUP_CONCAT(CONCAT_WS('/', r.id, resource_name, kind, status,"
                       " r.version, owner, connection_id, lease_expires_at, fence_count,"
                       " update_time, l.version, l.expires_at) ORDER BY r.id)"
                       " FROM resource r JOIN lease_renewal l ON l.id = r.id");
}

#define WANT_UNKNOWN(call)                                                                         \
    do {                                                                                           \
        WANT(DAMAGED, call);                                                                       \
        assert_non_null(strstr(ts_err.message, "a kind that this program does not know"));         \
        assert_non_null(strstr(ts_err.message, "semaphore"));                                      \
    } while (0)

static rowlock_status in_section(void *data, const rowlock_section *section)
{
    (void)data;
    (void)section;
    fail_msg("a section of an unknown kind");
    return ROWLOCK_OK;
}

static void refused_by_each_call(const char *name)
{
    rowlock_hold *hold = NULL;
    rowlock_list *list = NULL;
    uint64_t version = 0;
    const rowlock_acquire_options row = {.mode = ROWLOCK_PESSIMISTIC};
    const rowlock_acquire_options unfenced = {.mode = ROWLOCK_PESSIMISTIC, .unfenced = true};
    const rowlock_break_options now = {.now = true};
    WANT_UNKNOWN(rowlock_acquire(client, name, NULL, &hold, &ts_err));
    WANT_UNKNOWN(rowlock_acquire(client, name, &row, &hold, &ts_err));
    WANT_UNKNOWN(rowlock_acquire(client, name, &unfenced, &hold, &ts_err));
    WANT_UNKNOWN(rowlock_section_run(client, name, NULL, in_section, NULL, NULL, &ts_err));
    WANT_UNKNOWN(rowlock_version_read(client, name, &version, &ts_err));
    WANT_UNKNOWN(rowlock_list_one(client, name, &list, &ts_err));
    WANT_UNKNOWN(rowlock_break(client, name, NULL, &ts_err));
    WANT_UNKNOWN(rowlock_break_with(client, name, &now, &ts_err));
    WANT_UNKNOWN(rowlock_purge(client, name, &ts_err));
}

static void refused_by_procedures(const char *const calls[], bool inside)
{
    for (size_t i = 0; calls[i]; i++) {
        ts_sql(mysql, inside ? "START TRANSACTION" : "DO 0");
        if (ts_sql_try(mysql, "CALL rowlock_%s", calls[i]) == 0 ||
            strcmp(mysql_sqlstate(mysql), "RLDMG") != 0 ||
            !strstr(mysql_error(mysql), "a kind that this program does not know: semaphore"))
            fail_msg("%s: %s %s", calls[i], mysql_sqlstate(mysql), mysql_error(mysql));
        ts_sql(mysql, "ROLLBACK");
    }
}

static void refused_by_each_procedure(const char *name, unsigned token)
{
    static const char *const alone[] = {
        "try(@n, 30, @t)", "acquire(@n, 30, 0, @t)", "row_make(@n)",
        "version(@n, @t)", "bump(@n, @v)",           "check(@n, @v)",
        "release(@n, @v)", "renew(@n, @v, 30)",      "present(@n, @v)",
        "break(@n)",       "break_now(@n)",          NULL};
    static const char *const inside[] = {
        "row_lock(@n, 0)", "version(@n, @t)", "bump(@n, @v)",    "check(@n, @v)",
        "release(@n, @v)", "fence(@n, @v)",   "present(@n, @v)", NULL};
    ts_sql(mysql, "SET @n = '%s', @v = %u", name, token);
    refused_by_procedures(alone, false);
    refused_by_procedures(inside, true);
}

/* A period that began `began` days ago, and ended `ended` days ago. */
static void add_period(unsigned id, double began, double ended, const char *state)
{
    ts_sql(mysql,
           "INSERT INTO once_run VALUES (%u, UTC_TIMESTAMP(6) - INTERVAL %.0f HOUR,"
           " UTC_TIMESTAMP(6) - INTERVAL %.0f HOUR, '%s', %.0f, 'me', 'me', 1,"
           " UTC_TIMESTAMP(6) - INTERVAL %.0f HOUR, NULL, NULL)",
           id, began * 24, ended * 24, state, 10000 - began, began * 24);
}

static void periods_are(const char *wanted)
{
    char *got = ts_sql_text(
        mysql, "SELECT COALESCE(GROUP_CONCAT(CONCAT(r.resource_name, ':', 10000 - o.token)"
               " ORDER BY r.id, o.period_start SEPARATOR ' '), '')"
               " FROM once_run o JOIN resource r ON r.id = o.resource_id");
    assert_string_equal(got, wanted);
    free(got);
}

/* A ledger for the sweep: old periods are deleted, except a name's newest; a name whose period is
 * not over stays, or its work would be done again. */
static void make_ledger(void)
{
    add_unused(6);
    ts_sql(mysql, "UPDATE resource SET resource_name = CONCAT('n', id), kind = 'optimistic'");
    ts_sql(mysql, "DELETE FROM resource_lock");
    ts_sql(mysql, "INSERT IGNORE INTO lease_renewal (id) SELECT id FROM resource");
    ts_sql(mysql, "UPDATE resource SET update_time = UTC_TIMESTAMP(6) WHERE id IN (2, 4)");
    add_period(1, 400, -1, "done"); /* not over */
    for (unsigned old = 60; old >= 20; old -= 10)
        add_period(2, old, old - 1, "failed"); /* its name is in use */
    add_period(3, 300, 200, "running");        /* long over, and unused */
    add_period(3, 400, 300, "done");
    add_period(4, 300, 200, "done"); /* the only one of a name that is in use */
}

TS_ONCE(test_the_ledger)
{
    for (int event = 0; event < 2; event++) {
        begin(event ? "ledger2" : "ledger1", false);
        make_ledger();
        if (event)
            install_event();
        sweep_until(event, "resource", 3);
        sweep_until(event, "once_run", 4);
        periods_are("n1:400 n2:30 n2:20 n4:300");
        WANT(BUSY, rowlock_purge(client, "n1", &ts_err));
        assert_non_null(strstr(ts_err.message, "a period that is not over"));
        ts_sql(mysql, "UPDATE once_run SET period_end = UTC_TIMESTAMP(6)");
        WANT(OK, rowlock_purge(client, "n1", &ts_err));
        periods_are("n2:30 n2:20 n4:300");
        end();
    }
}

static void keep_kinds(void *data, const rowlock_finding *finding)
{
    if (strcmp(finding->check, "kinds") == 0 && finding->level == ROWLOCK_BROKEN &&
        strstr(finding->found, "semaphore"))
        ++*(unsigned *)data;
}

TS_ONCE(test_a_kind_that_this_program_does_not_know)
{
    begin("kinds", false);
    rowlock_client_options options = ts_options_on(here);
    const rowlock_list_options every = {.all = true};
    rowlock_list *list = NULL;
    unsigned found = 0;
    options.user = "root"; /* not the role of the tests */
    WANT(OK, rowlock_procedures_install(&options, NULL, NULL, &ts_err));
    add_unknown();
    char *before = all_of_them();
    refused_by_each_call("unused");
    refused_by_each_call("held");
    refused_by_each_procedure("unused", 5);
    refused_by_each_procedure("held", 7);
    WANT_UNKNOWN(rowlock_list_get(client, &every, &list, &ts_err));
    /* Other rows are swept. */
    add_half("half");
    rowlock_sweep_result swept = sweep();
    assert_int_equal(swept.expired, 0);
    assert_int_equal(swept.purged, 1);
    add_half("half");
    WANT(OK, rowlock_sweep_event_install(&options, NULL, NULL, &ts_err));
    ts_sql(mysql, "CALL rl_sweep(0, 1000000, 86400000000)"); /* does nothing while the event runs */
    assert_true(POLL_UNTIL(count("resource") == 2, 10000));
    WANT(OK, rowlock_diagnose(&options, 0, keep_kinds, &found, &ts_err));
    assert_int_equal(found, 1);
    ts_same(before, all_of_them());
    assert_int_equal(count("lock_event"), 0);
    end();
}

TS_MAIN("sweep", ts_suite_begin, ts_suite_end)
