#include "support.h"
#include "bell/bell.h"
#include "engine/client.h"
#include "support/witness.h"

#define MANY 64

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

rowlock_mode ts_modes[2] = {ROWLOCK_OPTIMISTIC, ROWLOCK_PESSIMISTIC};
rowlock_error ts_err;
MYSQL *ts_mysql;

static char schema_name[64];
static char extra_schemas[MANY][80];
static unsigned extra_schema_count;
static char user_names[MANY][64];
static unsigned user_count;
static char role_user[64]; /* "": root */
static const char *secrets[MANY];
static unsigned secret_count;

/* --------------------------------------------------------------------- schema and users */

const char *ts_socket(void)
{
    const char *socket = getenv("ROWLOCK_TEST_SOCKET");
    if (!socket || !*socket) {
        fprintf(stderr, "set ROWLOCK_TEST_SOCKET to the socket of a private server\n");
        exit(2);
    }
    return socket;
}

const char *ts_schema(void)
{
    return schema_name;
}

int64_t ts_slack_ms(void)
{
    return (SANITIZED || getenv("ROWLOCK_TEST_URL") ? 600 : 250) + ts_stood_lately_ms();
}

bool ts_long(void)
{
    return getenv("ROWLOCK_TEST_LONG") != NULL;
}

unsigned ts_rounds(unsigned usual)
{
    return SANITIZED ? usual / 5 + 1 : usual;
}

/* Grants a role's rights in the schema `rowlock` to our user in our schema. */
static void grant_role(MYSQL *mysql, const char *role, const char *schema)
{
    char one_a_line[400];
    char text[4000];
    char to[100];
    unsigned given = 0;
    const char *tools = getenv("ROWLOCK_TOOLS");
    snprintf(one_a_line, sizeof one_a_line,
             "sed 's/--.*//' '%s/../sql/grants.sql' | tr '\\n;' ' \\n'", tools ? tools : "tools");
    snprintf(to, sizeof to, " TO '%s'@'localhost'", role);
    FILE *script = popen(one_a_line, "r");
    assert_non_null(script);
    while (fgets(text, sizeof text, script)) {
        char *grantee = strstr(text, to);
        char *where = strstr(text, " ON `rowlock`");
        if (!grantee || !where)
            continue;
        *grantee = *where = 0;
        ts_sql(mysql, "%s ON `%s`%s TO '%s'@'localhost'", text, schema,
               where + strlen(" ON `rowlock`"), role_user);
        given++;
    }
    assert_int_equal(pclose(script), 0);
    assert_true(given > 0);
}

static void grant_roles(const char *schema)
{
    char roles[100];
    char *rest = NULL;
    const char *wanted = getenv("ROWLOCK_TEST_ROLES");
    if (!wanted || !*wanted)
        return;
    MYSQL *mysql = ts_connect(NULL);
    if (!*role_user)
        snprintf(role_user, sizeof role_user, "%s", ts_user("role", "", NULL, NULL));
    snprintf(roles, sizeof roles, "%s", wanted);
    for (char *role = strtok_r(roles, " ", &rest); role; role = strtok_r(NULL, " ", &rest))
        grant_role(mysql, role, schema);
    mysql_close(mysql);
}

static void migrate(const char *schema)
{
    rowlock_client_options options = ts_options_on(schema);
    rowlock_migrate_result result;
    options.user = "root";
    WANT(OK, rowlock_migrate(&options, NULL, &result, &ts_err));
    if (ts_via())
        WANT(OK, rowlock_procedures_install(&options, NULL, NULL, &ts_err));
    grant_roles(schema);
}

bool ts_via(void)
{
    const char *roles = getenv("ROWLOCK_TEST_ROLES");
    return roles && strcmp(roles, "app") == 0;
}

int ts_suite_begin(void **state)
{
    (void)state;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    ts_witness();
    snprintf(schema_name, sizeof schema_name, "rl_test_%d_%ld", (int)getpid(), now.tv_nsec / 1000);
    migrate(schema_name);
    return 0;
}

int ts_suite_end(void **state)
{
    (void)state;
    MYSQL *mysql = ts_connect(NULL);
    /* A failed test may have left locks: does not wait for them. */
    ts_sql_try(mysql, "SET SESSION lock_wait_timeout = 2");
    ts_sql_try(mysql, "DROP DATABASE IF EXISTS `%s`", schema_name);
    for (unsigned i = 0; i < extra_schema_count; i++)
        ts_sql_try(mysql, "DROP DATABASE IF EXISTS `%s`", extra_schemas[i]);
    for (unsigned i = 0; i < user_count; i++)
        ts_sql_try(mysql, "DROP USER IF EXISTS '%s'@'localhost'", user_names[i]);
    mysql_close(mysql);
    return 0;
}

int ts_suite_end_with(void **state, rowlock_client *client, rowlock_client *other, MYSQL *mysql,
                      MYSQL *watch)
{
    rowlock_client_close(client);
    rowlock_client_close(other);
    mysql_close(mysql);
    mysql_close(watch);
    return ts_suite_end(state);
}

int ts_suite_begin_sql(void **state)
{
    ts_suite_begin(state);
    ts_mysql = ts_connect(schema_name);
    return 0;
}

int ts_suite_end_sql(void **state)
{
    mysql_close(ts_mysql);
    return ts_suite_end(state);
}

const char *ts_extra_schema(const char *suffix, bool migrated)
{
    assert_true(extra_schema_count < MANY);
    char *name = extra_schemas[extra_schema_count++];
    snprintf(name, sizeof extra_schemas[0], "%s_%s", schema_name, suffix);
    if (migrated) {
        migrate(name);
    } else {
        MYSQL *mysql = ts_connect(NULL);
        ts_sql(mysql, "CREATE DATABASE `%s`", name);
        mysql_close(mysql);
    }
    return name;
}

const char *ts_name(const char *word)
{
    static char names[4096][48];
    static unsigned count;
    assert_true(count < 4096);
    snprintf(names[count], sizeof names[0], "%.32s-%u", word, count);
    return names[count++];
}

/* ROWLOCK_TEST_FILTER="test_a_*" runs only these tests. */
__attribute__((constructor)) static void filter_tests(void)
{
    const char *pattern = getenv("ROWLOCK_TEST_FILTER");
    if (pattern && *pattern)
        cmocka_set_test_filter(pattern);
}

/* ----------------------------------------------------------------------- both modes */

const char *ts_mode_word(rowlock_mode mode)
{
    return mode == ROWLOCK_OPTIMISTIC ? "lease" : "pessimistic";
}

int64_t ts_short_ttl(rowlock_mode mode)
{
    return mode == ROWLOCK_OPTIMISTIC ? 1200 : 2000;
}

/* ------------------------------------------------------------------------ statuses */

void ts_secret(const char *text)
{
    assert_true(secret_count < MANY);
    secrets[secret_count++] = text;
}

const char *ts_error_flaw(rowlock_status status, const rowlock_error *err)
{
    if (err->status != status)
        return "err.status is not the status";
    if (!memchr(err->message, 0, sizeof err->message) || !*err->message)
        return "err.message is empty or has no end";
    for (const unsigned char *c = (const unsigned char *)err->message; *c; c++)
        if (*c < 0x20 || *c == 0x7f)
            return "err.message is not one line";
    for (unsigned i = 0; i < secret_count; i++)
        if (strstr(err->message, secrets[i]))
            return "err.message holds a secret";
    if (!memchr(err->sqlstate, 0, sizeof err->sqlstate) ||
        !memchr(err->statement, 0, sizeof err->statement))
        return "a text of the error has no end";
    return NULL;
}

void ts_want(rowlock_status wanted, rowlock_status got, const char *call, const char *file,
             int line)
{
    if (got != wanted) {
        /* The error of an earlier call does not belong to this one. */
        const rowlock_error *err = ts_err.status == got ? &ts_err : &(rowlock_error){0};
        print_error("%s\n  answered %s, wanted %s: %s (server %u, statement %s)\n", call,
                    rowlock_status_name(got), rowlock_status_name(wanted), err->message,
                    err->server_errno, err->statement);
        _fail(file, line);
    }
    const char *flaw =
        got == ROWLOCK_OK || !strstr(call, "&ts_err") ? NULL : ts_error_flaw(got, &ts_err);
    if (flaw) {
        print_error("%s\n  %s: '%s'\n", call, flaw, ts_err.message);
        _fail(file, line);
    }
}

bool ts_want_timeout(rowlock_mode mode, int64_t strain_ms, int64_t start_ms, rowlock_status got,
                     const char *call, const char *file, int line)
{
    bool unknown = mode == ROWLOCK_OPTIMISTIC && got == ROWLOCK_UNKNOWN;
    /* A server that was silent for a second (OUTAGE_US of wait/backoff.c) counts as away. */
    bool unreached = got == ROWLOCK_UNAVAILABLE &&
                     (strcmp(ts_err.statement, "connect") == 0 || ts_now_ms() - start_ms >= 1000);
    if ((unknown || unreached) && ts_strain_ms() - strain_ms >= 10)
        return true;
    ts_want(ROWLOCK_TIMEOUT, got, call, file, line);
    return false;
}

void ts_held(rowlock_hold *hold, const char *what, const char *file, int line)
{
    rowlock_error err = {0};
    rowlock_status status = rowlock_hold_check(hold);
    if (status == ROWLOCK_OK)
        return;
    (void)!rowlock_release(hold, &err);
    print_error("%s is not held: %s, and its release says: %s\n", what, rowlock_status_name(status),
                err.message);
    _fail(file, line);
}

void ts_between(int64_t low, int64_t value, int64_t high, const char *what, const char *file,
                int line)
{
    if (value >= low && value <= high)
        return;
    print_error("%s is %" PRId64 ", not between %" PRId64 " and %" PRId64 "\n", what, value, low,
                high);
    _fail(file, line);
}

/* --------------------------------------------------------------- clients and acquiring */

static const char *role(void)
{
    return *role_user ? role_user : "root";
}

rowlock_client_options ts_options(void)
{
    const char *url = getenv("ROWLOCK_TEST_URL");
    return (rowlock_client_options){.url = url && *url ? url : NULL,
                                    .socket = ts_socket(),
                                    .user = role(),
                                    .schema = schema_name,
                                    .via = ts_via() ? ROWLOCK_VIA_PROCEDURES : ROWLOCK_VIA_TABLES,
                                    .connect_timeout_ms = 20000,
                                    .history_min_ms = -1}; /* tests are short */
}

rowlock_client_options ts_options_on(const char *schema)
{
    rowlock_client_options options = ts_options();
    options.schema = schema;
    return options;
}

rowlock_client *ts_open(void)
{
    return ts_open_with(ts_options());
}

rowlock_client *ts_open_as_root(void)
{
    rowlock_client_options options = ts_options();
    options.user = "root";
    options.via = ROWLOCK_VIA_TABLES;
    return ts_open_with(options);
}

rowlock_hold *ts_take(rowlock_client *client, const char *name, rowlock_mode mode, int64_t ttl_ms)
{
    return ts_take_with(
        client, name, (rowlock_acquire_options){.mode = mode, .wait_ms = 20000, .ttl_ms = ttl_ms});
}

rowlock_status ts_try(rowlock_client *client, const char *name, rowlock_mode mode)
{
    rowlock_hold *hold = NULL;
    rowlock_acquire_options options = {.mode = mode};
    rowlock_status status = rowlock_acquire(client, name, &options, &hold, &ts_err);
    if (status == ROWLOCK_OK)
        WANT(OK, rowlock_release(hold, &ts_err));
    return status;
}

rowlock_status ts_break_now(rowlock_client *client, const char *name)
{
    const rowlock_break_options options = {.reason = "a test", .now = true};
    return rowlock_break_with(client, name, &options, &ts_err);
}

void ts_on_lost(void *data, rowlock_hold *hold, const char *reason)
{
    ts_loss *loss = data;
    loss->hold = hold;
    snprintf(loss->reason, sizeof loss->reason, "%s", reason);
    atomic_store(&loss->at_ms, ts_now_ms());
    atomic_fetch_add(&loss->times, 1);
}

void ts_count_ask(void *data, rowlock_hold *hold, const rowlock_asked *what)
{
    (void)hold;
    (void)what;
    atomic_fetch_add((atomic_int *)data, 1);
}

rowlock_status ts_no_work(void *data, const rowlock_section *section)
{
    (void)section;
    if (data)
        ++*(unsigned *)data;
    return ROWLOCK_OK;
}

rowlock_status ts_no_work_tx(void *data, const rowlock_section *section, MYSQL *own)
{
    (void)own;
    return ts_no_work(data, section);
}

/* ------------------------------------------------------------------------------ SQL */

MYSQL *ts_connect_as(const char *user, const char *password, const char *schema)
{
    MYSQL *mysql = mysql_init(NULL);
    assert_non_null(mysql);
    mysql_options(mysql, MYSQL_SET_CHARSET_NAME, "utf8mb4");
    if (!mysql_real_connect(mysql, NULL, user, password, schema, 0, ts_socket(), 0))
        fail_msg("connect: %s", mysql_error(mysql));
    return mysql;
}

MYSQL *ts_connect(const char *schema)
{
    return ts_connect_as("root", NULL, schema);
}

void ts_reconnect(MYSQL **mysql)
{
    mysql_close(*mysql);
    *mysql = ts_connect(schema_name);
}

MYSQL *ts_connect_beside(void)
{
    return ts_connect_as(role(), NULL, schema_name);
}

void ts_grant_role(MYSQL *mysql, const char *table)
{
    if (*role_user)
        ts_sql(mysql, "GRANT SELECT, INSERT, UPDATE, DELETE ON %s TO '%s'@'localhost'", table,
               role_user);
}

/* The first cell of the result, or "". An error sets *failed to its number; if that is NULL, it
 * fails the test. */
__attribute__((format(printf, 3, 0))) static char *ask(MYSQL *mysql, unsigned *failed,
                                                       const char *format, va_list args)
{
    char *text = NULL;
    assert_true(vasprintf(&text, format, args) > 0);
    unsigned error = mysql_query(mysql, text) ? mysql_errno(mysql) : 0;
    free(text);
    if (error)
        ts_err.server_errno = error;
    if (error && !failed)
        fail_msg("%s\n  %u %s", format, error, mysql_error(mysql));
    if (failed)
        *failed = error;
    MYSQL_RES *result = mysql_store_result(mysql);
    MYSQL_ROW row = result ? mysql_fetch_row(result) : NULL;
    text = strdup(row && row[0] ? row[0] : "");
    mysql_free_result(result);
    return text;
}

unsigned ts_sql_try(MYSQL *mysql, const char *format, ...)
{
    unsigned failed;
    va_list args;
    va_start(args, format);
    free(ask(mysql, &failed, format, args));
    va_end(args);
    return failed;
}

void ts_sql(MYSQL *mysql, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    free(ask(mysql, NULL, format, args));
    va_end(args);
}

/* The first value of the result; the caller frees it. */
__attribute__((format(printf, 2, 0))) static char *value_of(MYSQL *mysql, const char *format,
                                                            va_list args)
{
    char *text = ask(mysql, NULL, format, args);
    if (mysql_errno(mysql) != 0) /* while its rows were read */
        fail_msg("%s\n  %u %s", format, mysql_errno(mysql), mysql_error(mysql));
    assert_true(mysql_field_count(mysql) > 0);
    return text;
}

char *ts_sql_text(MYSQL *mysql, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *text = value_of(mysql, format, args);
    va_end(args);
    return text;
}

uint64_t ts_sql_u64(MYSQL *mysql, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *text = value_of(mysql, format, args);
    va_end(args);
    uint64_t number = strtoull(text, NULL, 10);
    free(text);
    return number;
}

bool ts_is_mysql(MYSQL *mysql)
{
    return !strstr(mysql_get_server_info(mysql), "MariaDB");
}

char *ts_session(MYSQL *mysql)
{
    return ts_sql_text(mysql,
                       "SELECT CONCAT_WS('|', @@autocommit, @@innodb_lock_wait_timeout, @@sql_mode,"
                       " /*M! @@tx_isolation */ /*!80000 @@transaction_isolation */,"
                       " @@time_zone, @@wait_timeout, COALESCE(DATABASE(), 'none'))");
}

void ts_make_heavy(MYSQL *mysql)
{
    ts_sql(mysql, "INSERT INTO work (who)"
                  " WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000)"
                  " SELECT 'heavy' FROM n");
}

const char *ts_quote(const char *text)
{
    static char ring[8][4400];
    static unsigned next;
    char *out = ring[next++ % 8];
    size_t length = strnlen(text, sizeof ring[0] / 2 - 2);
    out[0] = '\'';
    length = mysql_escape_string(out + 1, text, length);
    strcpy(out + 1 + length, "'");
    return out;
}

static void dump_table(MYSQL *mysql, FILE *out, const char *schema, const char *table)
{
    char text[200];
    snprintf(text, sizeof text, "SELECT * FROM `%s`.`%s` ORDER BY 1", schema, table);
    if (mysql_query(mysql, text)) {
        fprintf(out, "%s: error %u\n", table, mysql_errno(mysql));
        return;
    }
    MYSQL_RES *result = mysql_store_result(mysql);
    unsigned columns = mysql_num_fields(result);
    for (MYSQL_ROW row; (row = mysql_fetch_row(result));) {
        fprintf(out, "%s", table);
        for (unsigned i = 0; i < columns; i++)
            fprintf(out, "|%s", row[i] ? row[i] : "NULL");
        fputc('\n', out);
    }
    mysql_free_result(result);
}

char *ts_dump(MYSQL *mysql, const char *schema)
{
    static const char *const tables[] = {
        "resource",   "resource_lock", "lease_renewal",         "version_floor",
        "lock_value", "once_run",      "rowlock_schema_version"};
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++)
        dump_table(mysql, out, schema, tables[i]);
    fclose(out);
    return text;
}

static void expire_lease(MYSQL *mysql, const char *name)
{
    ts_sql(mysql,
           "UPDATE `%s`.resource r LEFT JOIN `%s`.lease_renewal l ON l.id = r.id"
           "   SET r.lease_expires_at = UTC_TIMESTAMP(6) - INTERVAL 1 SECOND,"
           "       l.expires_at = IF(l.expires_at IS NULL, NULL,"
           "                         UTC_TIMESTAMP(6) - INTERVAL 1 SECOND)"
           " WHERE r.resource_name = %s",
           schema_name, schema_name, ts_quote(name));
}

void ts_expire(MYSQL *mysql, const char *name, rowlock_mode mode)
{
    if (mode == ROWLOCK_OPTIMISTIC)
        expire_lease(mysql, name);
    ts_cut(mysql, name);
}

void ts_cut(MYSQL *mysql, const char *name)
{
    uint64_t id =
        ts_sql_u64(mysql, "SELECT connection_id FROM `%s`.resource WHERE resource_name = %s",
                   schema_name, ts_quote(name));
    if (id == 0)
        return;
    (void)ts_sql_try(mysql, "KILL CONNECTION %" PRIu64, id);
    assert_true(POLL_UNTIL(
        ts_sql_u64(mysql, "SELECT COUNT(*) FROM " TS_PROCESSLIST " WHERE id = %" PRIu64, id) == 0,
        10000));
}

const char *ts_user(const char *word, const char *password, const char *privileges,
                    const char *schema)
{
    assert_true(user_count < MANY);
    char *name = user_names[user_count++];
    snprintf(name, sizeof user_names[0], "rl_%d_%.20s", (int)getpid(), word);
    MYSQL *mysql = ts_connect(NULL);
    ts_sql(mysql, "CREATE USER '%s'@'localhost' IDENTIFIED BY %s", name, ts_quote(password));
    if (privileges)
        ts_sql(mysql, "GRANT %s ON `%s`.* TO '%s'@'localhost'", privileges, schema, name);
    mysql_close(mysql);
    return name;
}

/* The connections that wait for a row of this table of this binary's schema (NULL: of any table),
 * by InnoDB's status. */
static char *lock_waits_of_status(MYSQL *mysql, const char *table)
{
    char *ids = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&ids, &size);
    char of[200];
    assert_non_null(out);
    snprintf(of, sizeof of, " of table `%s`.`%s` ", schema_name, table ? table : "");
    assert_int_equal(mysql_query(mysql, "SHOW ENGINE INNODB STATUS"), 0);
    MYSQL_RES *result = mysql_store_result(mysql);
    MYSQL_ROW row = mysql_fetch_row(result);
    fputs("0", out);
    for (const char *at = row[2]; (at = strstr(at, "\nLOCK WAIT ")) != NULL; at++) {
        const char *thread = strstr(at, " thread id ");
        const char *wants = strstr(at, of);
        const char *next = strstr(at, "\n---TRANSACTION");
        if (thread && (!table || (wants && (!next || wants < next))))
            fprintf(out, ",%lu", strtoul(thread + strlen(" thread id "), NULL, 10));
    }
    mysql_free_result(result);
    fclose(out);
    return ids;
}

/* information_schema.innodb_trx is a cache that is not refreshed while somebody reads it more often
 * than every 0.1 s. MySQL's InnoDB status leaves out transactions that have locked nothing for a
 * change yet. */
static char *lock_waits(MYSQL *mysql, const char *table)
{
    if (!ts_is_mysql(mysql))
        return lock_waits_of_status(mysql, table);
    return ts_sql_text(mysql,
                       "SELECT CONCAT_WS(',', 0, GROUP_CONCAT(t.processlist_id))"
                       "  FROM performance_schema.data_locks l"
                       "  JOIN performance_schema.threads t USING (thread_id)"
                       " WHERE l.lock_status = 'WAITING'"
                       "   AND (%d OR (l.object_schema = '%s' AND l.object_name = '%s'))",
                       !table, schema_name, table ? table : "");
}

char *ts_lock_waits(MYSQL *mysql)
{
    return lock_waits(mysql, NULL);
}

static uint64_t waits_now(MYSQL *mysql, const char *table)
{
    char *ids = lock_waits(mysql, table);
    const char *last = strrchr(ids, ',');
    uint64_t id = last ? strtoull(last + 1, NULL, 10) : 0;
    free(ids);
    return id;
}

unsigned ts_row_waiters(MYSQL *mysql, const char *table)
{
    char *ids = lock_waits(mysql, table);
    unsigned count = 0;
    for (const char *at = ids; (at = strchr(at, ',')) != NULL; at++)
        count++;
    free(ids);
    return count;
}

uint64_t ts_row_waits(MYSQL *mysql, const char *table, int64_t within_ms)
{
    uint64_t id = 0;
    (void)POLL_UNTIL((id = waits_now(mysql, table)) != 0, within_ms);
    return id;
}

/* ---------------------------------------------------------------------------- waiting */

int64_t ts_now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void ts_pass_ms(int64_t ms)
{
    struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = (ms % 1000) * 1000000};
    while (nanosleep(&time, &time) && errno == EINTR)
        continue;
}

/* ---------------------------------------------------------------------------- threads */

struct ts_waiting {
    rowlock_client *client;
    char *name;
    rowlock_acquire_options options;
    rowlock_status status;
    rowlock_hold *hold;
    rowlock_error err;
    int64_t ended_ms;
    atomic_bool running;
    atomic_bool ended;
};

static void *wait_for_lock(void *arg)
{
    struct ts_waiting *w = arg;
    atomic_store(&w->running, true);
    w->status = rowlock_acquire(w->client, w->name, &w->options, &w->hold, &w->err);
    w->ended_ms = ts_now_ms();
    atomic_store(&w->ended, true);
    return NULL;
}

void ts_waiter_start(ts_waiter *waiter)
{
    struct ts_waiting *w = calloc(1, sizeof *w);
    assert_non_null(w);
    w->client = waiter->client;
    w->name = strdup(waiter->name);
    w->options = waiter->options;
    waiter->at_work = w;
    waiter->ended = false;
    waiter->started_ms = ts_now_ms();
    assert_int_equal(pthread_create(&waiter->thread, NULL, wait_for_lock, w), 0);
    assert_true(POLL_UNTIL(atomic_load(&w->running), 10000));
}

bool ts_waiter_ended(ts_waiter *waiter)
{
    const struct ts_waiting *w = waiter->at_work;
    if (waiter->ended || !w || !atomic_load(&w->ended))
        return waiter->ended;
    waiter->status = w->status;
    waiter->hold = w->hold;
    waiter->err = w->err;
    waiter->ended_ms = w->ended_ms;
    waiter->ended = true;
    return true;
}

rowlock_status ts_waiter_join(ts_waiter *waiter, int64_t within_ms)
{
    if (!POLL_UNTIL(ts_waiter_ended(waiter), within_ms))
        fail_msg("the wait for '%s' has not ended within %" PRId64 " ms", waiter->name, within_ms);
    pthread_join(waiter->thread, NULL);
    free(waiter->at_work->name);
    free(waiter->at_work);
    waiter->at_work = NULL;
    if (waiter->status != ROWLOCK_OK)
        ts_err = waiter->err;
    ts_want(waiter->status, waiter->status, "a wait (&ts_err)", __FILE__, __LINE__);
    return waiter->status;
}

ts_waiter ts_wait(rowlock_client *client, const char *name, rowlock_mode mode, int64_t wait_ms,
                  int64_t ttl_ms)
{
    ts_waiter waiter = {.client = client, .name = name};
    waiter.options = (rowlock_acquire_options){.mode = mode, .wait_ms = wait_ms, .ttl_ms = ttl_ms};
    ts_waiter_start(&waiter);
    return waiter;
}

void ts_gets_in(ts_waiter *waiter, uint64_t above, int64_t within_ms, const char *file, int line)
{
    ts_want(ROWLOCK_OK, ts_waiter_join(waiter, within_ms), "the waiter's acquire", file, line);
    ts_between((int64_t)above + 1, (int64_t)rowlock_hold_token(waiter->hold), INT64_MAX,
               "the waiter's token", file, line);
}

void ts_hand_over(rowlock_hold *hold, ts_waiter *waiter, int64_t within_ms)
{
    uint64_t token = rowlock_hold_token(hold);
    WANT(OK, rowlock_release(hold, &ts_err));
    WANT(OK, ts_waiter_join(waiter, within_ms));
    assert_true(rowlock_hold_token(waiter->hold) > token);
    WANT(OK, rowlock_release(waiter->hold, &ts_err));
}

void ts_commits_slowly(rowlock_client *client)
{
    atomic_store(&client->bells.commit_us, INT64_MAX / 2);
}

int ts_tool(const char *tool, const char *verb, const char *folder, const char *rest,
            char line[TS_LINE])
{
    char command[700];
    const char *tools = getenv("ROWLOCK_TOOLS");
    if (!tools) {
        fprintf(stderr, "set ROWLOCK_TOOLS to the folder with the script `%s`\n", tool);
        exit(2);
    }
    snprintf(command, sizeof command, "exec '%s/%s' %s '%s' %s", tools, tool, verb, folder, rest);
    FILE *out = popen(command, "re");
    assert_non_null(out);
    *line = 0;
    while (fgets(line, TS_LINE, out))
        line[strcspn(line, "\n")] = 0;
    const int status = pclose(out);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

void ts_make_folder(const char *word, char *path, size_t size)
{
    const char *base = getenv("TMPDIR");
    snprintf(path, size, "%s/rowlock-%s.XXXXXX", base && *base ? base : "/tmp", word);
    assert_non_null(mkdtemp(path));
}

void ts_guard_tables(MYSQL *mysql)
{
    ts_sql(mysql, "CREATE TABLE guard (name VARCHAR(80) PRIMARY KEY, token BIGINT UNSIGNED"
                  " NOT NULL DEFAULT 0, owner VARCHAR(80) NOT NULL DEFAULT '', beats BIGINT"
                  " NOT NULL DEFAULT 0) ENGINE = InnoDB");
    ts_sql(mysql, "CREATE TABLE late (id INT PRIMARY KEY AUTO_INCREMENT, name VARCHAR(80), token"
                  " BIGINT UNSIGNED, owner VARCHAR(80), against BIGINT UNSIGNED)"
                  " ENGINE = InnoDB");
}

const char *ts_guarded(MYSQL *mysql, const char *word)
{
    const char *name = ts_name(word);
    ts_sql(mysql, "INSERT INTO guard (name) VALUES (%s)", ts_quote(name));
    return name;
}

void ts_nobody_was_late(MYSQL *mysql, const char *name)
{
    assert_int_equal(ts_sql_u64(mysql, "SELECT COUNT(*) FROM late WHERE name = %s", ts_quote(name)),
                     0);
}

uint64_t ts_id_of(MYSQL *mysql, const char *name)
{
    return ts_sql_u64(mysql, "SELECT id FROM resource WHERE resource_name = %s", ts_quote(name));
}

uint64_t ts_version_of(MYSQL *mysql, const char *name)
{
    return ts_sql_u64(mysql, "SELECT version FROM resource WHERE resource_name = %s",
                      ts_quote(name));
}

uint64_t ts_in_queue(MYSQL *mysql, const char *name)
{
    return ts_sql_u64(mysql,
                      "SELECT COUNT(*) FROM " TS_PROCESSLIST " WHERE db = '%s'"
                      " AND state = 'User lock' AND info LIKE '%%\\'rowlock-waiter\\', %" PRIu64
                      ",%%'",
                      ts_schema(), ts_id_of(mysql, name));
}

uint64_t ts_rows_of(MYSQL *mysql, const char *table, const char *name, const char *also)
{
    return ts_sql_u64(mysql,
                      "SELECT COUNT(*) FROM %s x JOIN resource r ON r.id = x.resource_id"
                      " WHERE r.resource_name = %s%s",
                      table, ts_quote(name), also);
}

bool ts_is_closed(MYSQL *mysql, const char *name)
{
    return ts_sql_u64(mysql,
                      "SELECT COUNT(*) FROM resource WHERE resource_name = %s AND next_owner <> ''",
                      ts_quote(name)) == 1;
}

uint64_t ts_bell_holder(MYSQL *mysql, const char *name)
{
    char prefix[RL_BELL_PREFIX_MAX + 1];
    rl_bell_prefix(ts_schema(), prefix);
    return ts_sql_u64(mysql, "SELECT COALESCE(IS_USED_LOCK('%s%" PRIu64 "'), 0)", prefix,
                      ts_id_of(mysql, name));
}

void ts_take_bell(MYSQL *mysql, const char *name)
{
    char prefix[RL_BELL_PREFIX_MAX + 1];
    rl_bell_prefix(ts_schema(), prefix);
    assert_int_equal(
        ts_sql_u64(mysql, "SELECT GET_LOCK('%s%" PRIu64 "', 10)", prefix, ts_id_of(mysql, name)),
        1);
}

void ts_no_bell(MYSQL *mysql, const char *name)
{
    assert_true(
        POLL_UNTIL(ts_in_queue(mysql, name) == 0 && ts_bell_holder(mysql, name) == 0, 10000));
}

pid_t ts_fork(int (*fn)(void *arg), void *arg)
{
    fflush(NULL);
    ts_witness_pause();
    pid_t pid = fork();
    if (pid == 0)
        _exit(fn(arg));
    ts_witness_resume();
    assert_true(pid >= 0);
    return pid;
}

int ts_reap(pid_t pid, int64_t within_ms)
{
    int status = 0;
    pid_t got = 0;
    if (!POLL_UNTIL((got = waitpid(pid, &status, WNOHANG)) != 0, within_ms)) {
        kill(pid, SIGKILL);
        waitpid(pid, &status, 0);
        fail_msg("the child has not ended within %" PRId64 " ms", within_ms);
    }
    assert_int_equal(got, pid);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

rowlock_cancel *ts_cancel(void)
{
    rowlock_cancel *cancel = NULL;
    WANT(OK, rowlock_cancel_new(&cancel, &ts_err));
    return cancel;
}

rowlock_client *ts_open_with(rowlock_client_options options)
{
    rowlock_client *client = NULL;
    WANT(OK, rowlock_client_open(&options, &client, &ts_err));
    return client;
}

rowlock_client *ts_open_as(rowlock_client_options changes)
{
    rowlock_client_options options = ts_options();
#define CHANGE(what) options.what = changes.what ? changes.what : options.what
    CHANGE(socket);
    CHANGE(user);
    CHANGE(password);
    CHANGE(schema);
    CHANGE(connect_timeout_ms);
    CHANGE(reconnect_ms);
    CHANGE(label);
    CHANGE(no_history);
    CHANGE(waiting);
    CHANGE(log);
    CHANGE(log_data);
    CHANGE(via);
#undef CHANGE
    return ts_open_with(options);
}

rowlock_hold *ts_take_with(rowlock_client *client, const char *name,
                           rowlock_acquire_options options)
{
    rowlock_hold *hold = NULL;
    WANT(OK, rowlock_acquire(client, name, &options, &hold, &ts_err));
    assert_non_null(hold);
    return hold;
}

void ts_same(char *before, char *after)
{
    assert_string_equal(before, after);
    free(before);
    free(after);
}
