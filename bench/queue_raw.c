/*
 * bench/queue_raw.c - a queue in plain prepared statements, with nothing around them: the floor,
 * and several ways to take. See queue_client.h.
 */
#include <mysql.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "queue_client.h"

enum { TTL_US = 30000000, OWNER_BYTES = 24, SQL_BYTES = 4000, EMPTY_NS = 1000000 };

#define SCHEMA "rowlock_raw"
/* The jobs that are ready, oldest first; one range of the index. */
#define READY  "queue_id = 1 AND priority = 5 AND ready_at <= UTC_TIMESTAMP(6)"
#define TAKEN                                                                                      \
    "SET owner = ?, token = token + 1, attempts = attempts + 1,"                                   \
    " ready_at = UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND"

typedef struct raw_way {
    const char *id;
    const char *take;      /* finds, or finds and changes; %u: so many */
    const char *change;    /* then these: what was found, by id (and token); or NULL */
    const char *read;      /* or what was changed; or NULL */
    bool in_one;           /* both in a transaction */
    bool compares;         /* `change` compares the token of one job that was seen, unlocked */
    bool with_done;        /* what was done before is deleted in the same transaction */
    const char *more_keys; /* of the table */
} raw_way;

static const raw_way ways[] = {
    {.id = "raw",
     .take = "SELECT id, token, payload FROM item WHERE " READY
             " ORDER BY ready_at LIMIT %u FOR UPDATE SKIP LOCKED",
     .change = "UPDATE item " TAKEN " WHERE id IN (",
     .in_one = true,
     .more_keys = ""},
    /* With indexes as rowlock's: of keys, and of groups. */
    {.id = "raw-keys",
     .take = "SELECT id, token, payload FROM item WHERE " READY
             " ORDER BY ready_at LIMIT %u FOR UPDATE SKIP LOCKED",
     .change = "UPDATE item " TAKEN " WHERE id IN (",
     .in_one = true,
     .more_keys = ", item_key VARCHAR(256) NOT NULL DEFAULT (UUID()), group_key VARCHAR(255) NULL,"
                  " UNIQUE KEY (queue_id, item_key), KEY (queue_id, group_key, id)"},
    {.id = "raw-with-done",
     .take = "SELECT id, token, payload FROM item WHERE " READY
             " ORDER BY ready_at LIMIT %u FOR UPDATE SKIP LOCKED",
     .change = "UPDATE item " TAKEN " WHERE id IN (",
     .in_one = true,
     .with_done = true,
     .more_keys = ""},
    {.id = "raw-two",
     .take = "SELECT i.id, i.token, i.payload FROM (SELECT id FROM item WHERE " READY
             " ORDER BY ready_at LIMIT 32) c STRAIGHT_JOIN item i FORCE INDEX (PRIMARY)"
             " ON i.id = c.id WHERE i.ready_at <= UTC_TIMESTAMP(6) LIMIT %u FOR UPDATE SKIP LOCKED",
     .change = "UPDATE item " TAKEN " WHERE id IN (",
     .in_one = true,
     .more_keys = ""},
    {.id = "raw-two-with-done",
     .take = "SELECT i.id, i.token, i.payload FROM (SELECT id FROM item WHERE " READY
             " ORDER BY ready_at LIMIT 32) c STRAIGHT_JOIN item i FORCE INDEX (PRIMARY)"
             " ON i.id = c.id WHERE i.ready_at <= UTC_TIMESTAMP(6) LIMIT %u FOR UPDATE SKIP LOCKED",
     .change = "UPDATE item " TAKEN " WHERE id IN (",
     .in_one = true,
     .with_done = true,
     .more_keys = ""},
    {.id = "raw-update",
     .take = "UPDATE item " TAKEN " WHERE " READY " ORDER BY ready_at LIMIT %u",
     .read = "SELECT id, token, payload FROM item WHERE owner = ?",
     .more_keys = ", KEY (owner)"},
    {.id = "raw-swap",
     .take = "SELECT id, token, payload FROM item WHERE " READY " ORDER BY ready_at LIMIT 16",
     .change = "UPDATE item " TAKEN " WHERE id = ? AND token = ? AND ready_at <= UTC_TIMESTAMP(6)",
     .compares = true,
     .more_keys = ""},
};

typedef struct raw_job {
    uint64_t id;
    uint64_t token;
    char payload[QUEUE_PAYLOAD];
} raw_job;

typedef struct raw_queue {
    const raw_way *way;
    MYSQL *mysql;
    unsigned batch;
    MYSQL_STMT *put, *take, *change, *read, *end;
    char owner[OWNER_BYTES + 1];
    uint64_t taken_times;
    raw_job jobs[QUEUE_BATCH];
    unsigned count; /* of jobs that are taken */
    uint64_t ended[QUEUE_BATCH];
    unsigned ended_count; /* with_done: to be deleted with the next take */
} raw_queue;

static void must(bool good, MYSQL *mysql, const char *what)
{
    if (!good)
        queue_die("%s: %s", what, mysql_error(mysql));
}

static void run(MYSQL *mysql, const char *sql)
{
    must(mysql_query(mysql, sql) == 0, mysql, sql);
}

static MYSQL *connect_to(const char *at, const char *schema)
{
    MYSQL *mysql = mysql_init(NULL);
    must(mysql_real_connect(mysql, NULL, "root", NULL, schema, 0, at, 0) != NULL, mysql, at);
    return mysql;
}

static MYSQL_STMT *prepare(MYSQL *mysql, const char *sql)
{
    MYSQL_STMT *statement = mysql_stmt_init(mysql);
    must(mysql_stmt_prepare(statement, sql, strlen(sql)) == 0, mysql, sql);
    return statement;
}

/* "?, ?, ?)" */
static const char *marks(unsigned count, const char *each)
{
    static char text[SQL_BYTES];
    *text = '\0';
    for (unsigned i = 0; i < count; i++)
        strcat(strcat(text, i ? ", " : ""), each);
    return text;
}

static MYSQL_BIND number(uint64_t *value)
{
    return (MYSQL_BIND){.buffer_type = MYSQL_TYPE_LONGLONG, .buffer = value, .is_unsigned = 1};
}

static MYSQL_BIND text(char *bytes, size_t length)
{
    return (MYSQL_BIND){.buffer_type = MYSQL_TYPE_BLOB, .buffer = bytes, .buffer_length = length};
}

static uint64_t execute(const raw_queue *self, MYSQL_STMT *statement, MYSQL_BIND *params)
{
    if ((params && mysql_stmt_bind_param(statement, params) != 0) ||
        mysql_stmt_execute(statement) != 0)
        queue_die("%s: %s", self->way->id, mysql_stmt_error(statement));
    return mysql_stmt_affected_rows(statement);
}

static void raw_prepare(const char *at, const void *data)
{
    const raw_way *way = data;
    char sql[SQL_BYTES];
    MYSQL *mysql = connect_to(at, NULL);
    run(mysql, "CREATE DATABASE IF NOT EXISTS " SCHEMA);
    run(mysql, "DROP TABLE IF EXISTS " SCHEMA ".item");
    snprintf(sql, sizeof sql,
             "CREATE TABLE " SCHEMA ".item (id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,"
             " queue_id INT UNSIGNED NOT NULL, priority TINYINT NOT NULL,"
             " ready_at DATETIME(6) NOT NULL, owner VARBINARY(36) NOT NULL DEFAULT '',"
             " token BIGINT UNSIGNED NOT NULL DEFAULT 0, attempts INT NOT NULL DEFAULT 0,"
             " payload VARBINARY(1024) NOT NULL,"
             " KEY (queue_id, priority, ready_at)%s) ENGINE = InnoDB",
             way->more_keys);
    run(mysql, sql);
    mysql_close(mysql);
}

static void *raw_open(const char *at, const void *data, unsigned batch)
{
    char sql[SQL_BYTES];
    raw_queue *self = calloc(1, sizeof *self);
    if (!self)
        queue_die("out of memory");
    self->way = data;
    self->batch = batch;
    self->mysql = connect_to(at, SCHEMA);
    run(self->mysql, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED");
    snprintf(sql, sizeof sql, "INSERT INTO item (queue_id, priority, ready_at, payload) VALUES %s",
             marks(batch, "(1, 5, UTC_TIMESTAMP(6), ?)"));
    self->put = prepare(self->mysql, sql);
    snprintf(sql, sizeof sql, self->way->take, batch);
    self->take = prepare(self->mysql, sql);
    if (self->way->change) {
        snprintf(sql, sizeof sql, "%s%s", self->way->change,
                 self->way->compares ? "" : marks(batch, "?"));
        if (!self->way->compares)
            strcat(sql, ")");
        self->change = prepare(self->mysql, sql);
    }
    if (self->way->read)
        self->read = prepare(self->mysql, self->way->read);
    snprintf(sql, sizeof sql, "DELETE FROM item WHERE id IN (%s) AND owner = ?", marks(batch, "?"));
    self->end = prepare(self->mysql, sql);
    if (self->way->in_one)
        run(self->mysql, "SET autocommit = 0");
    return self;
}

static void raw_put(void *session, char payloads[][QUEUE_PAYLOAD])
{
    raw_queue *self = session;
    MYSQL_BIND params[QUEUE_BATCH];
    for (unsigned i = 0; i < self->batch; i++)
        params[i] = text(payloads[i], QUEUE_PAYLOAD);
    execute(self, self->put, params);
    if (self->way->in_one)
        mysql_commit(self->mysql);
}

/* A name of its own for each take, so that owner and id say which. */
static void name_owner(raw_queue *self)
{
    snprintf(self->owner, sizeof self->owner, "%08x%016llx", (unsigned)getpid(),
             (unsigned long long)++self->taken_times);
}

static void fetch(raw_queue *self, MYSQL_STMT *statement)
{
    raw_job job;
    MYSQL_BIND columns[] = {number(&job.id), number(&job.token),
                            text(job.payload, sizeof job.payload)};
    self->count = 0;
    if (mysql_stmt_bind_result(statement, columns) != 0 || mysql_stmt_store_result(statement) != 0)
        queue_die("%s: %s", self->way->id, mysql_stmt_error(statement));
    while (self->count < QUEUE_BATCH && mysql_stmt_fetch(statement) == 0)
        self->jobs[self->count++] = job;
    mysql_stmt_free_result(statement);
}

static uint64_t ttl_us = TTL_US;

/* Where there are fewer than it has marks, the last one stands in for the others. */
static void put_ids(MYSQL_BIND *params, uint64_t ids[], unsigned count, unsigned batch)
{
    for (unsigned i = 0; i < batch; i++)
        params[i] = number(&ids[i < count ? i : count - 1]);
}

static void change_all(raw_queue *self)
{
    uint64_t ids[QUEUE_BATCH];
    MYSQL_BIND params[QUEUE_BATCH + 2] = {text(self->owner, OWNER_BYTES), number(&ttl_us)};
    for (unsigned i = 0; i < self->count; i++)
        ids[i] = self->jobs[i].id;
    put_ids(params + 2, ids, self->count, self->batch);
    if (execute(self, self->change, params) != self->count)
        queue_die("%s: not all were changed", self->way->id);
}

/* One of those that were seen, by chance, so that several takers seldom want the same one. */
static void change_one(raw_queue *self)
{
    while (self->count > 0) {
        raw_job *job = &self->jobs[(unsigned)rand() % self->count];
        MYSQL_BIND params[] = {text(self->owner, OWNER_BYTES), number(&ttl_us), number(&job->id),
                               number(&job->token)};
        if (execute(self, self->change, params) == 1) {
            self->jobs[0] = *job;
            self->count = 1;
            return;
        }
        *job = self->jobs[--self->count];
    }
}

static void delete_ended(raw_queue *self)
{
    MYSQL_BIND params[QUEUE_BATCH + 1];
    if (self->ended_count == 0)
        return;
    put_ids(params, self->ended, self->ended_count, self->batch);
    params[self->batch] = text(self->owner, OWNER_BYTES);
    if (execute(self, self->end, params) != self->ended_count)
        queue_die("%s: not all were there", self->way->id);
    self->ended_count = 0;
}

static unsigned raw_take(void *session, queue_job jobs[])
{
    raw_queue *self = session;
    if (self->way->with_done)
        delete_ended(self);
    name_owner(self);
    if (self->way->read) {
        MYSQL_BIND params[] = {text(self->owner, OWNER_BYTES), number(&ttl_us)};
        if (execute(self, self->take, params) == 0)
            return 0;
        execute(self, self->read, params);
        fetch(self, self->read);
    } else {
        execute(self, self->take, NULL);
        fetch(self, self->take);
        if (self->count > 0 && self->way->compares)
            change_one(self);
        else if (self->count > 0)
            change_all(self);
        if (self->way->in_one)
            mysql_commit(self->mysql);
    }
    if (self->count == 0)
        nanosleep(&(struct timespec){.tv_nsec = EMPTY_NS}, NULL);
    for (unsigned i = 0; i < self->count; i++)
        jobs[i] = (queue_job){.payload = self->jobs[i].payload};
    return self->count;
}

static void raw_done(void *session)
{
    raw_queue *self = session;
    for (unsigned i = 0; i < self->count; i++)
        self->ended[self->ended_count++] = self->jobs[i].id;
    if (self->way->with_done)
        return;
    delete_ended(self);
    if (self->way->in_one)
        mysql_commit(self->mysql);
}

static void raw_close(void *session)
{
    raw_queue *self = session;
    MYSQL_STMT *const all[] = {self->put, self->take, self->change, self->read, self->end};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (all[i])
            mysql_stmt_close(all[i]);
    mysql_close(self->mysql);
    free(self);
}

bool queue_raw_find(const char *id, queue_system *system)
{
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        if (strcmp(ways[i].id, id) != 0)
            continue;
        *system = (queue_system){.data = &ways[i],
                                 .prepare = raw_prepare,
                                 .open = raw_open,
                                 .put = raw_put,
                                 .take = raw_take,
                                 .done = raw_done,
                                 .close = raw_close};
        return true;
    }
    return false;
}
