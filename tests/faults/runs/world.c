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
    /* `now`, so that the old holder still works, which the fences must stop. */
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

/* A query whose rows become lines of the history, with the columns' names; `$`: the schema. */
typedef struct query {
    const char *word;
    const char *text;
} query;

/* The present rows. (Of a latch: a line for each count, with the latch's state; one line without a
 * count if there is none.) */
static const query looks[] = {
    {"row", "SELECT r.resource_name AS name, r.version, r.status,"
            " IF(r.owner = '', '-', r.owner) AS owner,"
            " COALESCE(TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), GREATEST(r.lease_expires_at,"
            "   IF(l.version = r.version AND l.expires_at IS NOT NULL, l.expires_at,"
            "      r.lease_expires_at))), 0) AS remaining"
            " FROM $.resource r LEFT JOIN $.lease_renewal l ON l.id = r.id"},
    {"row", "SELECT r.resource_name AS name, g.version, 'reader' AS status, g.owner,"
            " TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), g.expires_at) AS remaining"
            " FROM $.lock_grant g JOIN $.resource r ON r.id = g.resource_id"},
    {"ledger", "SELECT r.resource_name AS name, TIMESTAMPDIFF(MICROSECOND, '1970-01-01',"
               "   o.period_start) DIV 150000 AS period, o.state, o.token, o.attempts"
               " FROM $.once_run o JOIN $.resource r ON r.id = o.resource_id"},
    {"counted", "SELECT r.resource_name AS name, r.version AS generation, r.status,"
                " r.slots AS count, r.broken, COALESCE(d.generation, 0) AS `of`,"
                " COALESCE(d.down_key, '') AS `key`"
                " FROM $.resource r LEFT JOIN $.latch_down d ON d.resource_id = r.id"
                " WHERE r.kind = 'latch'"},
    {"item", "SELECT id, SUBSTRING_INDEX(payload, ';', 1) AS mark, IF(state = 'dead', 'dead',"
             "   IF(taken = 1 AND ready_at > UTC_TIMESTAMP(6), 'held', 'waits')) AS state, token,"
             " attempts, TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), ready_at) AS remaining"
             " FROM $.queue_item"}};
_Static_assert(PLAN_PERIOD_MS == 150, "a period, in the ledger's query");

/* The written tables, at the end. */
static const query written[] = {
    {"written", "SELECT id, name, token, owner, writer, seq, kind FROM $.written ORDER BY id"},
    {"worked", "SELECT name, period, token, writer, joined FROM $.job ORDER BY id"},
    {"jobwork", "SELECT mark, token FROM $.queue_job ORDER BY id"}};

static void put_schema(const world *w, const char *text, char to[800])
{
    size_t used = 0;
    for (; *text && used < 700; text++)
        used += (size_t)(*text == '$' ? snprintf(to + used, 800 - used, "`%s`", w->schema)
                                      : snprintf(to + used, 800 - used, "%c", *text));
    assert_int_equal(*text, 0);
}

static void log_row(const world *w, const char *word, int64_t from, MYSQL_RES *result,
                    MYSQL_ROW row)
{
    const MYSQL_FIELD *fields = mysql_fetch_fields(result);
    char line[800];
    size_t used = (size_t)snprintf(line, sizeof line, "%s", word);
    if (from)
        used += (size_t)snprintf(line + used, sizeof line - used, " from=%" PRId64, from);
    for (unsigned i = 0; i < mysql_num_fields(result) && used < sizeof line; i++)
        used += (size_t)snprintf(line + used, sizeof line - used, " %s=%s", fields[i].name, row[i]);
    history_log(&w->log, "%s", line);
}

/* `from`: when the look began; 0: it is no look. */
static bool log_rows(const world *w, MYSQL **mysql, const query *q, int64_t from)
{
    char text[800];
    put_schema(w, q->text, text);
    if (!server_query(&w->server, mysql, text))
        return false;
    MYSQL_RES *result = mysql_store_result(*mysql);
    for (MYSQL_ROW row; result && (row = mysql_fetch_row(result)) != NULL;)
        log_row(w, q->word, from, result, row);
    mysql_free_result(result);
    return true;
}

static bool look_at_all(const world *w, MYSQL **mysql)
{
    for (size_t i = 0; i < sizeof looks / sizeof looks[0]; i++) {
        const int64_t from = history_now();
        const bool items = strcmp(looks[i].word, "item") == 0;
        if (items && !w->queue)
            continue;
        if (!log_rows(w, mysql, &looks[i], from))
            return false;
        if (items)
            history_log(&w->log, "items from=%" PRId64, from);
    }
    return true;
}

/* Looks do not overlap, so the lines of one stay together. */
static bool look(world *w, MYSQL **mysql)
{
    static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&one);
    bool good = look_at_all(w, mysql);
    pthread_mutex_unlock(&one);
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

static const char *const tables[] = {
    "CREATE TABLE $.guard (name VARCHAR(40) PRIMARY KEY, token BIGINT UNSIGNED NOT NULL,"
    " writes BIGINT UNSIGNED NOT NULL) ENGINE = InnoDB",
    "CREATE TABLE $.written (id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, name VARCHAR(40),"
    " token BIGINT UNSIGNED, owner VARCHAR(64), writer INT UNSIGNED, seq INT UNSIGNED,"
    " kind VARCHAR(8)) ENGINE = InnoDB",
    "CREATE TABLE $.job (id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, name VARCHAR(40),"
    " period BIGINT, token BIGINT UNSIGNED, writer INT UNSIGNED, joined INT) ENGINE = InnoDB",
    "CREATE TABLE $.queue_job (id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, mark VARCHAR(24),"
    " token BIGINT UNSIGNED) ENGINE = InnoDB",
    "CREATE TABLE $.beat (n INT) ENGINE = InnoDB",
    "INSERT INTO $.beat VALUES (0)"};

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
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
        char text[800];
        put_schema(w, tables[i], text);
        assert_true(server_sql(&w->server, "%s", text));
    }
    assert_true(server_sql(&w->server, "INSERT INTO `%s`.guard VALUES ('%s', 0, 0), ('%s', 0, 0)",
                           s, locks[PLAN_LEASE], locks[PLAN_ROW]));
    for (unsigned i = 0; i < w->slots; i++)
        assert_true(server_sql(&w->server, "INSERT INTO `%s`.guard VALUES ('%s#%u', 0, 0)", s,
                               locks[PLAN_SLOTS], i));
}

void world_begin_run(world *w, const plan *p, const char *folder)
{
    snprintf(w->schema, sizeof w->schema, "run_%" PRIu64, p->seed);
    snprintf(w->folder, sizeof w->folder, "%s", folder);
    w->slots = p->slots;
    w->queue = p->third == PLAN_QUEUE;
    assert_int_equal(server_number(&w->server, "SELECT @@global.read_only"), 0);
    make_schema(w);
    assert_true(mkdir(folder, 0777) == 0);
    assert_true(history_open(&w->log, folder, 0));
    watch_begin(&w->watch, &w->log, observe, w);
}

void world_end_run(world *w)
{
    watch_end(&w->watch);
    world_look(w);
    for (size_t i = 0; i < sizeof written / sizeof written[0]; i++)
        assert_true(log_rows(w, &w->server.admin, &written[i], 0));
    history_log(&w->log, "end");
    close(w->log.fd);
    assert_true(server_sql(&w->server, "DROP DATABASE `%s`", w->schema));
}

/* ---------------------------------------------------------------------- the processes */

static void put_mode(const plan *p, unsigned lock, char to[20])
{
    snprintf(to, 20, "%s", locks[lock]);
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
