/*
 * bench/raw.c - the primitives that rowlock is built on, through Connector/C and prepared
 * statements, with nothing around them: the floor.
 *
 * They keep no token, no history and no watch over the connection. What rowlock costs beyond
 * them is what it adds.
 */
#include <mysql.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench.h"

enum { OWNER_MAX = 40, TTL_US = 30000000 };

#define SCHEMA "rowlock_raw"

#define SWAP                                                                                       \
    "UPDATE raw_lock SET version = LAST_INSERT_ID(version + 1), status = 'held', owner = ?, "      \
    "expires_at = UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND WHERE id = ? AND status = 'free'"

typedef struct raw_session {
    MYSQL *mysql;
    MYSQL_STMT *take;
    MYSQL_STMT *give;
    MYSQL_STMT *bell; /* GET_LOCK, where it comes first; else NULL */
    uint64_t id;      /* of the name's row; 0: not looked up yet */
    uint64_t version;
    char owner[OWNER_MAX];
    unsigned random; /* its state */
} raw_session;

/* ------------------------------------------------------------------ statements */

static bool broken(MYSQL *mysql, const char *what, measure_reason *why)
{
    return measure_because(why, "%s: %s", what, mysql_error(mysql));
}

static bool failed(MYSQL_STMT *statement, const char *what, measure_reason *why)
{
    return measure_because(why, "%s: %s", what, mysql_stmt_error(statement));
}

static bool run(MYSQL *mysql, const char *sql, measure_reason *why)
{
    if (mysql_query(mysql, sql) != 0)
        return broken(mysql, sql, why);
    return true;
}

static MYSQL *connect_to(const char *at, const char *schema, measure_reason *why)
{
    MYSQL *mysql = mysql_init(NULL);
    if (!mysql) {
        measure_because(why, "out of memory");
        return NULL;
    }
    if (mysql_real_connect(mysql, NULL, "root", NULL, schema, 0, at, 0))
        return mysql;
    broken(mysql, "connecting", why);
    mysql_close(mysql);
    return NULL;
}

static bool prepare_statement(MYSQL *mysql, const char *sql, MYSQL_STMT **statement,
                              measure_reason *why)
{
    *statement = mysql_stmt_init(mysql);
    if (!*statement || mysql_stmt_prepare(*statement, sql, strlen(sql)) != 0)
        return broken(mysql, sql, why);
    return true;
}

static bool execute(MYSQL_STMT *statement, MYSQL_BIND *params, measure_reason *why)
{
    if ((params && mysql_stmt_bind_param(statement, params) != 0) ||
        mysql_stmt_execute(statement) != 0)
        return failed(statement, "executing", why);
    return true;
}

/* The one number in the one row. */
static bool fetch_number(MYSQL_STMT *statement, int64_t *number, measure_reason *why)
{
    my_bool is_null = 0;
    MYSQL_BIND column = {.buffer_type = MYSQL_TYPE_LONGLONG, .buffer = number, .is_null = &is_null};
    if (mysql_stmt_bind_result(statement, &column) != 0 || mysql_stmt_fetch(statement) != 0)
        return failed(statement, "fetching", why);
    if (is_null)
        *number = -1;
    if (mysql_stmt_free_result(statement) != 0)
        return failed(statement, "fetching", why);
    return true;
}

static MYSQL_BIND number_bind(uint64_t *number)
{
    return (MYSQL_BIND){.buffer_type = MYSQL_TYPE_LONGLONG, .buffer = number, .is_unsigned = 1};
}

static MYSQL_BIND text_bind(const char *text)
{
    return (MYSQL_BIND){.buffer_type = MYSQL_TYPE_STRING,
                        .buffer = (void *)(uintptr_t)text,
                        .buffer_length = strlen(text)};
}

/* ------------------------------------------------------------------- sessions */

static void close_session(void *session)
{
    raw_session *self = session;
    if (self->take)
        mysql_stmt_close(self->take);
    if (self->give)
        mysql_stmt_close(self->give);
    if (self->bell)
        mysql_stmt_close(self->bell);
    mysql_close(self->mysql);
    free(self);
}

typedef struct raw_statements {
    const char *set_up; /* of the session; NULL: nothing */
    const char *take;
    const char *give;
    const char *bell;
} raw_statements;

static bool set_up(raw_session *self, const raw_statements *statements, measure_reason *why)
{
    if (statements->set_up && !run(self->mysql, statements->set_up, why))
        return false;
    return prepare_statement(self->mysql, statements->take, &self->take, why) &&
           prepare_statement(self->mysql, statements->give, &self->give, why) &&
           (!statements->bell ||
            prepare_statement(self->mysql, statements->bell, &self->bell, why));
}

static bool open_session(const measure_system *system, void **session, measure_reason *why)
{
    raw_session *self = calloc(1, sizeof *self);
    if (!self)
        return measure_because(why, "out of memory");
    self->mysql = connect_to(system->at, SCHEMA, why);
    if (!self->mysql) {
        free(self);
        return false;
    }
    if (!set_up(self, system->data, why)) {
        close_session(self);
        return false;
    }
    self->random = (unsigned)mysql_thread_id(self->mysql);
    snprintf(self->owner, sizeof self->owner, "00000000-0000-0000-0000-%012u", self->random);
    *session = self;
    return true;
}

/* Once for each session, as rowlock does it. */
static bool look_up(raw_session *self, const char *name, measure_reason *why)
{
    MYSQL_STMT *statement = NULL;
    MYSQL_BIND param = text_bind(name);
    int64_t id = 0;
    bool good =
        prepare_statement(self->mysql, "SELECT id FROM raw_lock WHERE name = ?", &statement, why) &&
        execute(statement, &param, why) && fetch_number(statement, &id, why);
    if (statement)
        mysql_stmt_close(statement);
    self->id = (uint64_t)id;
    return good && run(self->mysql, "COMMIT", why);
}

/* ------------------------------------------------------- FOR UPDATE and COMMIT */

static bool row_acquire(void *session, const char *name, int64_t wait_ms, measure_reason *why)
{
    (void)wait_ms; /* whole seconds for the session: see its set-up */
    raw_session *self = session;
    int64_t found;
    if (self->id == 0 && !look_up(self, name, why))
        return false;
    MYSQL_BIND param = number_bind(&self->id);
    return execute(self->take, &param, why) && fetch_number(self->take, &found, why);
}

static bool row_release(void *session, const char *name, measure_reason *why)
{
    (void)name;
    return execute(((raw_session *)session)->give, NULL, why);
}

/* ------------------------------------------------- GET_LOCK and RELEASE_LOCK */

static bool ask_for_one(MYSQL_STMT *statement, MYSQL_BIND *params, const char *what,
                        measure_reason *why)
{
    int64_t got = 0;
    if (!execute(statement, params, why) || !fetch_number(statement, &got, why))
        return false;
    return got == 1 || measure_because(why, "%s answered %lld", what, (long long)got);
}

static bool get_lock(MYSQL_STMT *statement, const char *name, int64_t wait_ms, measure_reason *why)
{
    uint64_t seconds = (uint64_t)wait_ms / 1000 + 1;
    MYSQL_BIND params[] = {text_bind(name), number_bind(&seconds)};
    return ask_for_one(statement, params, "GET_LOCK", why);
}

static bool named_acquire(void *session, const char *name, int64_t wait_ms, measure_reason *why)
{
    return get_lock(((raw_session *)session)->take, name, wait_ms, why);
}

static bool named_release(void *session, const char *name, measure_reason *why)
{
    MYSQL_BIND param = text_bind(name);
    return ask_for_one(((raw_session *)session)->give, &param, "RELEASE_LOCK", why);
}

/* ---------------------------------------------------------- compare and swap */

/* 0.5 to 1.5 ms: nobody tells who waits that the row is free. */
static void pause_a_little(raw_session *self)
{
    self->random = self->random * 1103515245U + 12345U;
    const struct timespec time = {.tv_nsec = 500000 + (long)(self->random >> 12) % 1000000};
    nanosleep(&time, NULL);
}

static bool swap_try(raw_session *self, bool *got, measure_reason *why)
{
    uint64_t ttl_us = TTL_US;
    MYSQL_BIND params[] = {text_bind(self->owner), number_bind(&ttl_us), number_bind(&self->id)};
    if (!execute(self->take, params, why))
        return false;
    *got = mysql_stmt_affected_rows(self->take) == 1;
    if (*got)
        self->version = mysql_stmt_insert_id(self->take);
    return true;
}

static bool swap_acquire(void *session, const char *name, int64_t wait_ms, measure_reason *why)
{
    raw_session *self = session;
    int64_t limit = measure_now_ns() + wait_ms * 1000000;
    bool got = false;
    if (self->id == 0 && !look_up(self, name, why))
        return false;
    while (swap_try(self, &got, why)) {
        if (got)
            return true;
        if (measure_now_ns() > limit)
            return measure_because(why, "not within %lld ms", (long long)wait_ms);
        pause_a_little(self);
    }
    return false;
}

static bool give_back(raw_session *self, MYSQL_BIND *params, measure_reason *why)
{
    if (!execute(self->give, params, why))
        return false;
    if (mysql_stmt_affected_rows(self->give) != 1)
        return measure_because(why, "it was not ours to release");
    return true;
}

static bool swap_release(void *session, const char *name, measure_reason *why)
{
    (void)name;
    raw_session *self = session;
    MYSQL_BIND params[] = {number_bind(&self->id), number_bind(&self->version),
                           text_bind(self->owner)};
    return give_back(self, params, why);
}

/* ---------------------------------------- compare and swap, in the order of GET_LOCK */

/* The row is free for who has the named lock, but for the moment that its commit takes. */
static bool bell_acquire(void *session, const char *name, int64_t wait_ms, measure_reason *why)
{
    raw_session *self = session;
    bool got = false;
    if (self->id == 0 && !look_up(self, name, why))
        return false;
    if (!get_lock(self->bell, name, wait_ms, why))
        return false;
    while (swap_try(self, &got, why))
        if (got)
            return true;
    return false;
}

static bool bell_release(void *session, const char *name, measure_reason *why)
{
    raw_session *self = session;
    MYSQL_BIND params[] = {text_bind(name), number_bind(&self->id), number_bind(&self->version),
                           text_bind(self->owner)};
    return give_back(self, params, why);
}

/* --------------------------------------------------------------------- tables */

static bool add_names(MYSQL *mysql, const char *const names[], size_t count, measure_reason *why)
{
    MYSQL_STMT *statement = NULL;
    bool good = prepare_statement(mysql, "INSERT INTO raw_lock (name) VALUES (?)", &statement, why);
    for (size_t i = 0; i < count && good; i++) {
        MYSQL_BIND param = text_bind(names[i]);
        good = execute(statement, &param, why);
    }
    if (statement)
        mysql_stmt_close(statement);
    return good;
}

static bool prepare_rows(const measure_system *system, const char *const names[], size_t count,
                         measure_reason *why)
{
    MYSQL *mysql = connect_to(system->at, NULL, why);
    if (!mysql)
        return false;
    bool good = run(mysql, "CREATE DATABASE IF NOT EXISTS " SCHEMA, why) &&
                run(mysql, "USE " SCHEMA, why) &&
                run(mysql,
                    "CREATE OR REPLACE TABLE raw_lock ("
                    "id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, "
                    "name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL UNIQUE, "
                    "status ENUM('free', 'held') NOT NULL DEFAULT 'free', "
                    "version BIGINT UNSIGNED NOT NULL DEFAULT 0, "
                    "owner VARCHAR(63) CHARACTER SET ascii NOT NULL DEFAULT '', "
                    "expires_at DATETIME(6) NULL) ENGINE = InnoDB",
                    why) &&
                add_names(mysql, names, count, why);
    mysql_close(mysql);
    return good;
}

static bool tidy_rows(const measure_system *system, const char *const names[], size_t count,
                      measure_reason *why)
{
    (void)names;
    (void)count;
    MYSQL *mysql = connect_to(system->at, NULL, why);
    if (!mysql)
        return false;
    bool good = run(mysql, "DROP DATABASE IF EXISTS " SCHEMA, why);
    mysql_close(mysql);
    return good;
}

static const raw_statements row_statements = {
    .set_up = "SET autocommit = 0, innodb_lock_wait_timeout = 120, tx_isolation = 'READ-COMMITTED'",
    .take = "SELECT id FROM raw_lock WHERE id = ? FOR UPDATE",
    .give = "COMMIT",
};
static const raw_statements named_statements = {
    .take = "SELECT GET_LOCK(?, ?)",
    .give = "SELECT RELEASE_LOCK(?)",
};
static const raw_statements swap_statements = {
    .take = SWAP,
    .give = "UPDATE raw_lock SET status = 'free' "
            "WHERE id = ? AND version = ? AND owner = ? AND status = 'held'",
};

static const raw_statements bell_statements = {
    .take = SWAP,
    .give = "UPDATE raw_lock SET status = IF(RELEASE_LOCK(?) IS NULL, 'free', 'free') "
            "WHERE id = ? AND version = ? AND owner = ? AND status = 'held'",
    .bell = "SELECT GET_LOCK(?, ?)",
};

const measure_system bench_raw_row = {
    .id = "raw-row",
    .name = "raw FOR UPDATE, COMMIT",
    .keeps = "memory",
    .data = &row_statements,
    .prepare = prepare_rows,
    .tidy = tidy_rows,
    .open = open_session,
    .acquire = row_acquire,
    .release = row_release,
    .close = close_session,
};

const measure_system bench_raw_named = {
    .id = "raw-named",
    .name = "raw GET_LOCK, RELEASE_LOCK",
    .keeps = "memory",
    .data = &named_statements,
    .prepare = prepare_rows,
    .tidy = tidy_rows,
    .open = open_session,
    .acquire = named_acquire,
    .release = named_release,
    .close = close_session,
};

const measure_system bench_raw_swap = {
    .id = "raw-swap",
    .name = "raw compare-and-swap, twice",
    .keeps = "durable",
    .data = &swap_statements,
    .prepare = prepare_rows,
    .tidy = tidy_rows,
    .open = open_session,
    .acquire = swap_acquire,
    .release = swap_release,
    .close = close_session,
};

const measure_system bench_raw_bell = {
    .id = "raw-bell",
    .name = "raw GET_LOCK, compare-and-swap, swap with RELEASE_LOCK",
    .keeps = "durable",
    .data = &bell_statements,
    .prepare = prepare_rows,
    .tidy = tidy_rows,
    .open = open_session,
    .acquire = bell_acquire,
    .release = bell_release,
    .close = close_session,
};
