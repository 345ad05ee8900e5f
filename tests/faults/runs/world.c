#include "world.h"

#include <sys/wait.h>

#include "rowlock/rowlock_queue.h"

enum { LOOK_MS = 150 };

static const char *const locks[PLAN_LOCKS] = {"lease",   "row",  "slots", "latch",
                                              "barrier", "once", "queue"};

/* A label is "user@host pid command". */
static pid_t holder(void *of, unsigned lock)
{
    world *w = of;
    char text[600];
    if (lock == PLAN_QUEUE) {
        snprintf(text, sizeof text,
                 "SELECT SUBSTRING_INDEX(SUBSTRING_INDEX(owner_label, ' ', 2), ' ', -1)"
                 " FROM `%s`.queue_item WHERE taken = 1 AND ready_at > UTC_TIMESTAMP(6) LIMIT 1",
                 w->schema);
        return (pid_t)server_number(&w->server, text);
    }
    snprintf(text, sizeof text,
             "SELECT SUBSTRING_INDEX(SUBSTRING_INDEX("
             "COALESCE(g.owner_label, r.owner_label), ' ', 2), ' ', -1)"
             " FROM `%s`.resource r LEFT JOIN `%s`.lock_grant g"
             "   ON g.resource_id = r.id AND g.expires_at > UTC_TIMESTAMP(6)"
             " WHERE (r.resource_name = '%s' OR r.resource_name LIKE '%s#%%')"
             " AND (r.status = 'held' OR g.owner IS NOT NULL) LIMIT 1",
             w->schema, w->schema, locks[lock], locks[lock]);
    return (pid_t)server_number(&w->server, text);
}

static void put_name(const world *w, unsigned lock, unsigned nth, char to[40])
{
    const unsigned slot = nth % (w->slots + 1);
    if (lock == PLAN_SLOTS && slot < w->slots)
        snprintf(to, 40, "%s#%u", locks[lock], slot);
    else
        snprintf(to, 40, "%s", locks[lock]);
}

static bool break_lock(world *w, unsigned lock, unsigned nth)
{
    char name[40];
    const rowlock_client_options options = {.socket = w->server.socket,
                                            .user = "root",
                                            .schema = w->schema,
                                            .connect_timeout_ms = 1000};
    /* At once, beside its holder: what else would a fence be for? */
    const rowlock_break_options how = {.reason = "a fault", .now = true};
    rowlock_client *client = NULL;
    rowlock_error err;
    put_name(w, lock, nth, name);
    bool broken = server_up(&w->server) &&
                  rowlock_client_open(&options, &client, &err) == ROWLOCK_OK &&
                  (lock == PLAN_QUEUE ? rowlock_queue_requeue(client, name, 0, NULL, &err)
                                      : rowlock_break_with(client, name, &how, &err)) == ROWLOCK_OK;
    rowlock_client_close(client);
    return broken;
}

static bool lock_row(world *w, unsigned lock, unsigned nth)
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
    if (w->locker || !server_up(&w->server) ||
        !server_query(&w->server, &w->locker, "START TRANSACTION") ||
        !server_query(&w->server, &w->locker, text))
        return false;
    mysql_free_result(mysql_store_result(w->locker));
    return true;
}

static bool begin_fault(void *of, const planned_fault *p)
{
    if (p->kind == FAULT_BREAK)
        return break_lock(of, p->lock, p->nth);
    return lock_row(of, p->lock, p->nth);
}

static void end_fault(void *of, const planned_fault *p)
{
    world *w = of;
    (void)p;
    server_end_session(&w->locker);
}

static void restart(void *of, const planned_fault *p)
{
    world *w = of;
    char path[400];
    (void)p;
    w->server.job = server_begin(
        (const char *const[]){server_tool_path("server", path), "restart", w->server.folder, NULL});
}

static bool restarted(void *of, const planned_fault *p)
{
    world *w = of;
    int status = 0;
    (void)p;
    if (waitpid(w->server.job, &status, WNOHANG) != w->server.job)
        return false;
    assert_int_equal(status, 0);
    w->server.job = 0;
    server_back(&w->server);
    return true;
}

void world_faults(world *w, faults *f)
{
    static const fault_ways ways = {.holder = holder,
                                    .begin = begin_fault,
                                    .end = end_fault,
                                    .restart = restart,
                                    .restarted = restarted};
    *f = (faults){.ways = &ways, .world = w, .servers = {&w->server}, .server_count = 1};
}

static bool look_for(world *w, MYSQL **mysql, const char *text)
{
    int64_t from = history_now();
    if (!server_query(&w->server, mysql, text))
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
    if (!server_query(&w->server, mysql, text))
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
    if (!server_query(&w->server, mysql, text))
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
    if (!server_query(&w->server, mysql, text))
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
    assert_true(look(w, &w->server.admin));
}

static void *observe(void *arg)
{
    world *w = arg;
    MYSQL *mysql = NULL;
    while (!atomic_load(&w->watch.stop)) {
        if (server_up(&w->server)) {
            look(w, &mysql);
            watch_commit(&w->watch, &w->server, &mysql, w->schema);
        }
        ts_pass_ms(LOOK_MS);
    }
    server_end_session(&mysql);
    mysql_thread_end();
    return NULL;
}

void world_start(world *w, const char *actor)
{
    *w = (world){.actor = actor};
    ts_own_start_on_disk();
    snprintf(w->server.folder, sizeof w->server.folder, "%s", ts_own_folder());
    snprintf(w->server.socket, sizeof w->server.socket, "%s", ts_socket());
    w->server.proxy = ts_proxy_start(w->server.socket);
    assert_true(server_sql(&w->server, "CREATE USER actor@localhost"));
}

void world_end(world *w)
{
    server_end_session(&w->server.admin);
    ts_proxy_stop(w->server.proxy);
    ts_own_remove();
}

static void make_schema(world *w)
{
    const rowlock_client_options options = {.socket = w->server.socket,
                                            .user = "root",
                                            .schema = w->schema,
                                            .connect_timeout_ms = 30000};
    rowlock_migrate_result result;
    const char *s = w->schema;
    WANT(OK, rowlock_migrate(&options, NULL, &result, &ts_err));
    assert_true(server_sql(&w->server, "GRANT ALL ON `%s`.* TO actor@localhost", s));
    assert_true(server_sql(&w->server,
                           "CREATE TABLE `%s`.guard (name VARCHAR(40) PRIMARY KEY, token BIGINT"
                           " UNSIGNED NOT NULL, writes BIGINT UNSIGNED NOT NULL) ENGINE = InnoDB",
                           s));
    assert_true(server_sql(&w->server, "INSERT INTO `%s`.guard VALUES ('%s', 0, 0), ('%s', 0, 0)",
                           s, locks[PLAN_LEASE], locks[PLAN_ROW]));
    for (unsigned i = 0; i < w->slots; i++)
        assert_true(server_sql(&w->server, "INSERT INTO `%s`.guard VALUES ('%s#%u', 0, 0)", s,
                               locks[PLAN_SLOTS], i));
    assert_true(
        server_sql(&w->server,
                   "CREATE TABLE `%s`.written (id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY"
                   " KEY, name VARCHAR(40), token BIGINT UNSIGNED, owner VARCHAR(64),"
                   " writer INT UNSIGNED, seq INT UNSIGNED, kind VARCHAR(8)) ENGINE = InnoDB",
                   s));
    assert_true(
        server_sql(&w->server,
                   "CREATE TABLE `%s`.job (id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY,"
                   " name VARCHAR(40), period BIGINT, token BIGINT UNSIGNED, writer INT UNSIGNED,"
                   " joined INT) ENGINE = InnoDB",
                   s));
    assert_true(server_sql(&w->server,
                           "CREATE TABLE `%s`.queue_job (id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY"
                           " KEY, mark VARCHAR(24), token BIGINT UNSIGNED) ENGINE = InnoDB",
                           s));
    assert_true(server_sql(&w->server, "CREATE TABLE `%s`.beat (n INT) ENGINE = InnoDB", s));
    assert_true(server_sql(&w->server, "INSERT INTO `%s`.beat VALUES (0)", s));
}

void world_begin_run(world *w, const plan *p, const char *folder)
{
    snprintf(w->schema, sizeof w->schema, "run_%" PRIu64, p->seed);
    snprintf(w->folder, sizeof w->folder, "%s", folder);
    w->slots = p->slots;
    w->latch = p->third == PLAN_LATCH;
    w->queue = p->third == PLAN_QUEUE;
    assert_int_equal(server_number(&w->server, "SELECT @@global.read_only"), 0);
    make_schema(w);
    assert_true(mkdir(folder, 0777) == 0);
    assert_true(history_open(&w->log, folder, 0));
    watch_begin(&w->watch, &w->log, observe, w);
}

static void write_table(world *w)
{
    char text[200];
    snprintf(text, sizeof text,
             "SELECT id, name, token, owner, writer, seq, kind FROM `%s`.written ORDER BY id",
             w->schema);
    assert_true(server_query(&w->server, &w->server.admin, text));
    MYSQL_RES *result = mysql_store_result(w->server.admin);
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
    assert_true(server_query(&w->server, &w->server.admin, text));
    MYSQL_RES *result = mysql_store_result(w->server.admin);
    for (MYSQL_ROW row; (row = mysql_fetch_row(result)) != NULL;)
        history_log(&w->log, "worked name=%s period=%s token=%s writer=%s joined=%s", row[0],
                    row[1], row[2], row[3], row[4]);
    mysql_free_result(result);
}

static void write_queue_jobs(world *w)
{
    char text[200];
    snprintf(text, sizeof text, "SELECT mark, token FROM `%s`.queue_job ORDER BY id", w->schema);
    assert_true(server_query(&w->server, &w->server.admin, text));
    MYSQL_RES *result = mysql_store_result(w->server.admin);
    for (MYSQL_ROW row; (row = mysql_fetch_row(result)) != NULL;)
        history_log(&w->log, "jobwork mark=%s token=%s", row[0], row[1]);
    mysql_free_result(result);
}

void world_end_run(world *w)
{
    watch_end(&w->watch);
    world_look(w);
    write_table(w);
    write_jobs(w);
    write_queue_jobs(w);
    history_log(&w->log, "end");
    close(w->log.fd);
    assert_true(server_sql(&w->server, "DROP DATABASE `%s`", w->schema));
}

/* ---------------------------------------------------------------------- the processes */

static void put_mode(const plan *p, unsigned lock, char to[20])
{
    static const char *const words[PLAN_LOCKS] = {"lease",   "row",  "",     "latch",
                                                  "barrier", "once", "queue"};
    snprintf(to, 20, "%s", words[lock]);
    if (lock == PLAN_SLOTS)
        snprintf(to, 20, "%u", p->slots);
    if (lock == PLAN_BARRIER)
        snprintf(to, 20, "barrier%u", p->members);
}

static void put_words(const crew *c, const life *l, bool probes, const char *words[CREW_WORDS + 1])
{
    static char who[20], ttl[24], seed[24], readers[20], mode[20];
    const world *w = c->world;
    const plan *p = c->plan;
    const planned_actor *a = l->plan;
    snprintf(who, sizeof who, "%u", l->who);
    snprintf(ttl, sizeof ttl, "%" PRId64, a->ttl_ms);
    snprintf(seed, sizeof seed, "%" PRIu64, a->seed + l->lives);
    snprintf(readers, sizeof readers, "%u", p->readers);
    put_mode(p, a->lock, mode);
    const char *const all[CREW_WORDS] = {w->actor,
                                         probes ? "probe" : "work",
                                         w->folder,
                                         who,
                                         a->proxied ? ts_proxy_socket(w->server.proxy)
                                                    : w->server.socket,
                                         w->schema,
                                         locks[a->lock],
                                         mode,
                                         probes ? NULL : ttl,
                                         seed,
                                         a->fenced ? "1" : "0",
                                         a->poll ? "1" : "0",
                                         readers};
    memcpy(words, all, sizeof all);
}

void world_crew(world *w, const plan *p, crew *c)
{
    *c = (crew){.log = &w->log, .folder = w->folder, .put_words = put_words, .world = w, .plan = p};
    for (unsigned i = p->alone ? PLAN_ACTORS_OF_TWO : 0; i < p->actor_count; i++)
        crew_add(c, i, &p->actors[i], p->actors[i].respawn_ms);
}

void world_probe(const plan *p, crew *c)
{
    static const planned_actor probes[PLAN_LOCKS] = {
        {.lock = PLAN_LEASE},   {.lock = PLAN_ROW},  {.lock = PLAN_SLOTS}, {.lock = PLAN_LATCH},
        {.lock = PLAN_BARRIER}, {.lock = PLAN_ONCE}, {.lock = PLAN_QUEUE}};
    for (unsigned lock = 0; lock < PLAN_LOCKS; lock++) {
        const bool is_there = lock < PLAN_SLOTS ? !p->alone : lock == p->third;
        unsigned count = lock == PLAN_BARRIER ? p->members : 1;
        for (; is_there && count > 0; count--)
            crew_add_probe(c, &probes[lock]);
    }
    crew_end_probes(c);
}
