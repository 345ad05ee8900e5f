#include "world.h"

#include <fcntl.h>

#include "rowlock/rowlock_queue.h"

enum {
    HEART_MS = 10,
    LATE_US = 20000, /* what is worth a line */
    LOOK_MS = 150,
    TIMEOUT_S = 30
};

static const char *const locks[PLAN_LOCKS] = {"lease",   "row",  "slots", "latch",
                                              "barrier", "once", "queue"};

const char *world_lock(unsigned lock)
{
    return locks[lock];
}

/* NULL: not now. */
static MYSQL *session(const world *w)
{
    unsigned seconds = TIMEOUT_S;
    MYSQL *mysql = mysql_init(NULL);
    assert_non_null(mysql);
    mysql_options(mysql, MYSQL_OPT_CONNECT_TIMEOUT, &seconds);
    mysql_options(mysql, MYSQL_OPT_READ_TIMEOUT, &seconds);
    if (mysql_real_connect(mysql, NULL, "root", NULL, NULL, 0, w->server, 0))
        return mysql;
    mysql_close(mysql);
    return NULL;
}

static void end_session(MYSQL **mysql)
{
    if (*mysql)
        mysql_close(*mysql);
    *mysql = NULL;
}

/* An error ends the session: the next one will be new. */
static bool query(const world *w, MYSQL **mysql, const char *text)
{
    if (!*mysql)
        *mysql = session(w);
    if (*mysql && mysql_query(*mysql, text) == 0)
        return true;
    end_session(mysql);
    return false;
}

static bool admin_query(world *w, const char *text)
{
    if (!world_server_up(w) || !query(w, &w->admin, text))
        return false;
    MYSQL_RES *result = mysql_store_result(w->admin);
    if (result)
        mysql_free_result(result);
    return true;
}

bool world_sql(world *w, const char *format, ...)
{
    char text[600];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return admin_query(w, text);
}

/* The first number in the first cell that a query finds; 0: there is none. */
static uint64_t number_of(world *w, const char *text)
{
    uint64_t number = 0;
    if (!world_server_up(w) || !query(w, &w->admin, text))
        return 0;
    MYSQL_RES *result = mysql_store_result(w->admin);
    MYSQL_ROW row = result ? mysql_fetch_row(result) : NULL;
    if (row && row[0])
        number = strtoull(row[0], NULL, 10);
    mysql_free_result(result);
    return number;
}

bool world_kill(world *w, const char *what, unsigned nth)
{
    char text[200];
    snprintf(text, sizeof text,
             "SELECT id FROM " TS_PROCESSLIST " WHERE user = 'actor'"
             " ORDER BY id LIMIT %u, 1",
             nth);
    uint64_t id = number_of(w, text);
    return id > 0 && world_sql(w, "KILL %s %" PRIu64, what, id);
}

/* A label is "user@host pid command". */
pid_t world_holder(world *w, unsigned lock)
{
    char text[600];
    if (lock == PLAN_QUEUE) {
        snprintf(text, sizeof text,
                 "SELECT SUBSTRING_INDEX(SUBSTRING_INDEX(owner_label, ' ', 2), ' ', -1)"
                 " FROM `%s`.queue_item WHERE taken = 1 AND ready_at > UTC_TIMESTAMP(6) LIMIT 1",
                 w->schema);
        return (pid_t)number_of(w, text);
    }
    snprintf(text, sizeof text,
             "SELECT SUBSTRING_INDEX(SUBSTRING_INDEX("
             "COALESCE(g.owner_label, r.owner_label), ' ', 2), ' ', -1)"
             " FROM `%s`.resource r LEFT JOIN `%s`.lock_grant g"
             "   ON g.resource_id = r.id AND g.expires_at > UTC_TIMESTAMP(6)"
             " WHERE (r.resource_name = '%s' OR r.resource_name LIKE '%s#%%')"
             " AND (r.status = 'held' OR g.owner IS NOT NULL) LIMIT 1",
             w->schema, w->schema, locks[lock], locks[lock]);
    return (pid_t)number_of(w, text);
}

static void put_name(const world *w, unsigned lock, unsigned nth, char to[40])
{
    const unsigned slot = nth % (w->slots + 1);
    if (lock == PLAN_SLOTS && slot < w->slots)
        snprintf(to, 40, "%s#%u", locks[lock], slot);
    else
        snprintf(to, 40, "%s", locks[lock]);
}

bool world_break(world *w, unsigned lock, unsigned nth)
{
    char name[40];
    const rowlock_client_options options = {
        .socket = w->server, .user = "root", .schema = w->schema, .connect_timeout_ms = 1000};
    /* At once, beside its holder: what else would a fence be for? */
    const rowlock_break_options how = {.reason = "a fault", .now = true};
    rowlock_client *client = NULL;
    rowlock_error err;
    put_name(w, lock, nth, name);
    bool broken = world_server_up(w) &&
                  rowlock_client_open(&options, &client, &err) == ROWLOCK_OK &&
                  (lock == PLAN_QUEUE ? rowlock_queue_requeue(client, name, 0, NULL, &err)
                                      : rowlock_break_with(client, name, &how, &err)) == ROWLOCK_OK;
    rowlock_client_close(client);
    return broken;
}

bool world_lock_row(world *w, unsigned lock, unsigned nth)
{
    char name[40];
    char text[200];
    put_name(w, lock, nth, name);
    if (lock == PLAN_QUEUE && nth > 1)
        snprintf(text, sizeof text,
                 "SELECT id FROM `%s`.queue_item ORDER BY id LIMIT %u FOR UPDATE"
                 " SKIP LOCKED",
                 w->schema, nth);
    else
        snprintf(text, sizeof text,
                 "SELECT id FROM `%s`.resource WHERE resource_name = '%s' FOR UPDATE NOWAIT",
                 w->schema, name);
    if (w->locker || !world_server_up(w) || !query(w, &w->locker, "START TRANSACTION") ||
        !query(w, &w->locker, text))
        return false;
    mysql_free_result(mysql_store_result(w->locker));
    return true;
}

void world_unlock_row(world *w)
{
    end_session(&w->locker);
}

static void server_changes(world *w, int by)
{
    atomic_fetch_add(&w->server_changes, 1);
    if (by > 0)
        atomic_fetch_add(&w->server_faults, 1);
    else
        atomic_fetch_sub(&w->server_faults, 1);
}

bool world_server_up(const world *w)
{
    return atomic_load(&w->server_faults) == 0;
}

bool world_server_down(world *w, int signal)
{
    if (!world_server_up(w))
        return false;
    server_changes(w, 1);
    kill(ts_own_pid(), signal);
    return true;
}

void world_server_restart(world *w)
{
    char tool[500];
    snprintf(tool, sizeof tool, "%s/server", getenv("ROWLOCK_TOOLS"));
    end_session(&w->admin);
    fflush(NULL);
    w->restarting = fork();
    assert_true(w->restarting >= 0);
    if (w->restarting == 0) {
        /* The path that it prints is not ours to tell. */
        int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
        dup2(nowhere, STDOUT_FILENO);
        execl(tool, tool, "restart", ts_own_folder(), (char *)NULL);
        _exit(127);
    }
}

bool world_server_restarted(world *w)
{
    int status = 0;
    if (waitpid(w->restarting, &status, WNOHANG) != w->restarting)
        return false;
    assert_int_equal(status, 0);
    w->restarting = 0;
    server_changes(w, -1);
    return true;
}

void world_server_continue(world *w)
{
    kill(ts_own_pid(), SIGCONT);
    server_changes(w, -1);
}

/* How late does a thread run that wants to run? */
static void *beat(void *arg)
{
    world *w = arg;
    while (!atomic_load(&w->stop_watching)) {
        int64_t due = history_now() + HEART_MS * 1000;
        ts_pass_ms(HEART_MS);
        if (history_now() - due > LATE_US)
            history_log(&w->log, "late from=%" PRId64, due);
    }
    return NULL;
}

static bool look_for(world *w, MYSQL **mysql, const char *text)
{
    int64_t from = history_now();
    if (!query(w, mysql, text))
        return false;
    MYSQL_RES *result = mysql_store_result(*mysql);
    for (MYSQL_ROW row; result && (row = mysql_fetch_row(result)) != NULL;)
        history_log(&w->log,
                    "row from=%" PRId64 " name=%s version=%s status=%s owner=%s remaining=%s", from,
                    row[0], row[1], row[2], row[3], row[4]);
    mysql_free_result(result);
    return true;
}

static bool look_for_readers(world *w, MYSQL **mysql)
{
    char text[400];
    snprintf(text, sizeof text,
             "SELECT r.resource_name, g.version, 'reader', g.owner,"
             " TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), g.expires_at)"
             " FROM `%s`.lock_grant g JOIN `%s`.resource r ON r.id = g.resource_id",
             w->schema, w->schema);
    return look_for(w, mysql, text);
}

/* Each count of the latch, and how that stands at the same moment; one line without a count, where
 * there is none. */
static bool look_for_counts(world *w, MYSQL **mysql)
{
    char text[500];
    int64_t from = history_now();
    snprintf(text, sizeof text,
             "SELECT r.resource_name, r.version, r.status, r.slots, r.broken,"
             " COALESCE(d.generation, 0), COALESCE(d.down_key, '')"
             " FROM `%s`.resource r LEFT JOIN `%s`.latch_down d ON d.resource_id = r.id"
             " WHERE r.kind = 'latch'",
             w->schema, w->schema);
    if (!query(w, mysql, text))
        return false;
    MYSQL_RES *result = mysql_store_result(*mysql);
    for (MYSQL_ROW row; result && (row = mysql_fetch_row(result)) != NULL;)
        history_log(&w->log,
                    "counted from=%" PRId64
                    " name=%s generation=%s status=%s count=%s broken=%s of=%s key=%s",
                    from, row[0], row[1], row[2], row[3], row[4], row[5], row[6]);
    mysql_free_result(result);
    return true;
}

static bool look_for_periods(world *w, MYSQL **mysql)
{
    char text[400];
    int64_t from = history_now();
    snprintf(text, sizeof text,
             "SELECT r.resource_name,"
             " TIMESTAMPDIFF(MICROSECOND, '1970-01-01', o.period_start) DIV %d, o.state, o.token,"
             " o.attempts FROM `%s`.once_run o JOIN `%s`.resource r ON r.id = o.resource_id",
             PLAN_PERIOD_MS * 1000, w->schema, w->schema);
    if (!query(w, mysql, text))
        return false;
    MYSQL_RES *result = mysql_store_result(*mysql);
    for (MYSQL_ROW row; result && (row = mysql_fetch_row(result)) != NULL;)
        history_log(&w->log,
                    "ledger from=%" PRId64 " name=%s period=%s state=%s token=%s attempts=%s", from,
                    row[0], row[1], row[2], row[3], row[4]);
    mysql_free_result(result);
    return true;
}

static bool look_for_items(world *w, MYSQL **mysql)
{
    char text[500];
    int64_t from = history_now();
    snprintf(text, sizeof text,
             "SELECT id, SUBSTRING_INDEX(payload, ';', 1), IF(state = 'dead', 'dead', IF(taken = 1"
             " AND ready_at > UTC_TIMESTAMP(6), 'held', 'waits')), token, attempts,"
             " TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), ready_at) FROM `%s`.queue_item",
             w->schema);
    if (!query(w, mysql, text))
        return false;
    MYSQL_RES *result = mysql_store_result(*mysql);
    for (MYSQL_ROW row; result && (row = mysql_fetch_row(result)) != NULL;)
        history_log(&w->log,
                    "item from=%" PRId64
                    " id=%s mark=%s state=%s token=%s attempts=%s remaining=%s",
                    from, row[0], row[1], row[2], row[3], row[4], row[5]);
    mysql_free_result(result);
    history_log(&w->log, "items from=%" PRId64, from);
    return true;
}

static bool look_at_all(world *w, MYSQL **mysql)
{
    char text[800];
    snprintf(text, sizeof text,
             "SELECT r.resource_name, r.version, r.status, IF(r.owner = '', '-', r.owner),"
             " COALESCE(TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), GREATEST(r.lease_expires_at,"
             "   IF(l.version = r.version AND l.expires_at IS NOT NULL, l.expires_at,"
             "      r.lease_expires_at))), 0)"
             " FROM `%s`.resource r LEFT JOIN `%s`.lease_renewal l ON l.id = r.id",
             w->schema, w->schema);
    return look_for(w, mysql, text) && look_for_readers(w, mysql) && look_for_periods(w, mysql) &&
           (!w->latch || look_for_counts(w, mysql)) && (!w->queue || look_for_items(w, mysql));
}

/* One look after the other: the lines of one stay together. */
static bool look(world *w, MYSQL **mysql)
{
    static pthread_mutex_t looks = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&looks);
    bool good = look_at_all(w, mysql);
    pthread_mutex_unlock(&looks);
    return good;
}

void world_look(world *w)
{
    assert_true(look(w, &w->admin));
}

/* A small commit; slow only because the machine is, or because we broke the server. */
static void commit_something(world *w, MYSQL **mysql)
{
    char text[100];
    unsigned changes = atomic_load(&w->server_changes);
    bool up = world_server_up(w);
    int64_t from = history_now();
    snprintf(text, sizeof text, "UPDATE `%s`.beat SET n = n + 1", w->schema);
    bool done = query(w, mysql, text);
    if (done && up && changes == atomic_load(&w->server_changes) && history_now() - from > LATE_US)
        history_log(&w->log, "late from=%" PRId64, from);
}

static void *observe(void *arg)
{
    world *w = arg;
    MYSQL *mysql = NULL;
    while (!atomic_load(&w->stop_watching)) {
        if (world_server_up(w)) {
            look(w, &mysql);
            commit_something(w, &mysql);
        }
        ts_pass_ms(LOOK_MS);
    }
    end_session(&mysql);
    mysql_thread_end();
    return NULL;
}

void world_start(world *w)
{
    *w = (world){0};
    ts_own_start_on_disk();
    snprintf(w->server, sizeof w->server, "%s", ts_socket());
    w->proxy = ts_proxy_start(w->server);
    assert_true(world_sql(w, "CREATE USER actor@localhost"));
}

void world_end(world *w)
{
    end_session(&w->admin);
    ts_proxy_stop(w->proxy);
    ts_own_remove();
}

static void make_schema(world *w)
{
    const rowlock_client_options options = {
        .socket = w->server, .user = "root", .schema = w->schema, .connect_timeout_ms = 30000};
    rowlock_migrate_result result;
    const char *s = w->schema;
    WANT(OK, rowlock_migrate(&options, NULL, &result, &ts_err));
    assert_true(world_sql(w, "GRANT ALL ON `%s`.* TO actor@localhost", s));
    assert_true(world_sql(w,
                          "CREATE TABLE `%s`.guard (name VARCHAR(40) PRIMARY KEY, token BIGINT"
                          " UNSIGNED NOT NULL, writes BIGINT UNSIGNED NOT NULL) ENGINE = InnoDB",
                          s));
    assert_true(world_sql(w, "INSERT INTO `%s`.guard VALUES ('%s', 0, 0), ('%s', 0, 0)", s,
                          locks[PLAN_LEASE], locks[PLAN_ROW]));
    for (unsigned i = 0; i < w->slots; i++)
        assert_true(
            world_sql(w, "INSERT INTO `%s`.guard VALUES ('%s#%u', 0, 0)", s, locks[PLAN_SLOTS], i));
    assert_true(
        world_sql(w,
                  "CREATE TABLE `%s`.written (id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY"
                  " KEY, name VARCHAR(40), token BIGINT UNSIGNED, owner VARCHAR(64),"
                  " writer INT UNSIGNED, seq INT UNSIGNED, kind VARCHAR(8)) ENGINE = InnoDB",
                  s));
    assert_true(
        world_sql(w,
                  "CREATE TABLE `%s`.job (id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY,"
                  " name VARCHAR(40), period BIGINT, token BIGINT UNSIGNED, writer INT UNSIGNED,"
                  " joined INT) ENGINE = InnoDB",
                  s));
    assert_true(world_sql(w,
                          "CREATE TABLE `%s`.queue_job (id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY"
                          " KEY, mark VARCHAR(24), token BIGINT UNSIGNED) ENGINE = InnoDB",
                          s));
    assert_true(world_sql(w, "CREATE TABLE `%s`.beat (n INT) ENGINE = InnoDB", s));
    assert_true(world_sql(w, "INSERT INTO `%s`.beat VALUES (0)", s));
}

void world_begin_run(world *w, const plan *p, const char *folder)
{
    snprintf(w->schema, sizeof w->schema, "run_%" PRIu64, p->seed);
    snprintf(w->folder, sizeof w->folder, "%s", folder);
    w->slots = p->slots;
    w->latch = p->third == PLAN_LATCH;
    w->queue = p->third == PLAN_QUEUE;
    assert_int_equal(number_of(w, "SELECT @@global.read_only"), 0);
    make_schema(w);
    assert_true(mkdir(folder, 0777) == 0);
    assert_true(history_open(&w->log, folder, 0));
    atomic_store(&w->stop_watching, false);
    assert_int_equal(pthread_create(&w->heart, NULL, beat, w), 0);
    assert_int_equal(pthread_create(&w->observer, NULL, observe, w), 0);
}

static void write_table(world *w)
{
    char text[200];
    snprintf(text, sizeof text,
             "SELECT id, name, token, owner, writer, seq, kind FROM `%s`.written ORDER BY id",
             w->schema);
    assert_true(query(w, &w->admin, text));
    MYSQL_RES *result = mysql_store_result(w->admin);
    for (MYSQL_ROW row; (row = mysql_fetch_row(result)) != NULL;)
        history_log(&w->log, "written id=%s name=%s token=%s owner=%s writer=%s seq=%s kind=%s",
                    row[0], row[1], row[2], row[3], row[4], row[5], row[6]);
    mysql_free_result(result);
}

static void write_jobs(world *w)
{
    char text[200];
    snprintf(text, sizeof text,
             "SELECT name, period, token, writer, joined FROM `%s`.job ORDER BY id", w->schema);
    assert_true(query(w, &w->admin, text));
    MYSQL_RES *result = mysql_store_result(w->admin);
    for (MYSQL_ROW row; (row = mysql_fetch_row(result)) != NULL;)
        history_log(&w->log, "worked name=%s period=%s token=%s writer=%s joined=%s", row[0],
                    row[1], row[2], row[3], row[4]);
    mysql_free_result(result);
}

static void write_queue_jobs(world *w)
{
    char text[200];
    snprintf(text, sizeof text, "SELECT mark, token FROM `%s`.queue_job ORDER BY id", w->schema);
    assert_true(query(w, &w->admin, text));
    MYSQL_RES *result = mysql_store_result(w->admin);
    for (MYSQL_ROW row; (row = mysql_fetch_row(result)) != NULL;)
        history_log(&w->log, "jobwork mark=%s token=%s", row[0], row[1]);
    mysql_free_result(result);
}

void world_end_run(world *w)
{
    atomic_store(&w->stop_watching, true);
    pthread_join(w->heart, NULL);
    pthread_join(w->observer, NULL);
    world_look(w);
    write_table(w);
    write_jobs(w);
    write_queue_jobs(w);
    history_log(&w->log, "end");
    close(w->log.fd);
    assert_true(world_sql(w, "DROP DATABASE `%s`", w->schema));
}
