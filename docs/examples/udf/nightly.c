/*
 * A C function inside the server that takes a lock with librowlock, on a connection of its own:
 *
 *     SELECT nightly_work('nightly-close', 30, 5, 100);
 *     SELECT nightly_count();
 *
 * The first: the lock's name, its TTL and the longest wait in seconds, and how many steps of work
 * are to be done under it. The second: how many were done since the file was loaded.
 *
 * nightly_work() answers the token under which it did the work, in digits, or what went wrong:
 * "TIMEOUT: ...". A wrong call, or no connection, is an error of the statement.
 *
 * THREADS MUST END BEFORE THE SERVER LETS GO OF THIS FILE. An open client has a keeper thread,
 * whose code is in this file. So the client is opened by the first statement that uses the
 * function, shared by all that come while it is open, and closed by the last one: the server
 * unloads a file only when no statement is using it, and by then no thread of ours is left. (A
 * destructor would be too late: it runs in dlclose(), with the loader's lock and the server's
 * lock over functions held, and what it waits for may need either.)
 *
 * How it is built: `build` beside this file. How it is installed, and what else to think of:
 * docs/udf.md.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <rowlock/rowlock.h>
#include <rowlock/rowlock_udf.h>

/* Where the server is, for a client in it: from the server's environment. */
#define URL_VARIABLE "NIGHTLY_URL"
#define URL_DEFAULT  "mysql://rowlock@localhost/rowlock?socket=/run/mysqld/mysqld.sock"

#define EXPORT      __attribute__((visibility("default")))
/* KILL cannot end what is done in here, so there is an end to it. */
#define WAIT_MOST_S 60
#define STEPS_MOST  60000

/* ------------------------------------------------------------- the client, while it is wanted */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static rowlock_client *shared;
static unsigned users; /* statements that are between _init and _deinit */

static rowlock_status open_client(rowlock_error *err)
{
    const char *url = getenv(URL_VARIABLE);
    const rowlock_client_options options = {
        .url = url && *url ? url : URL_DEFAULT,
        .label = "nightly_work()",
        .connect_timeout_ms = 5000,
        .reconnect_ms = 5000,
    };
    return rowlock_client_open(&options, &shared, err);
}

static rowlock_status join(rowlock_client **client, rowlock_error *err)
{
    rowlock_status status = ROWLOCK_OK;
    pthread_mutex_lock(&mutex);
    if (users == 0)
        status = open_client(err);
    if (status == ROWLOCK_OK) {
        users++;
        *client = shared;
    }
    pthread_mutex_unlock(&mutex);
    return status;
}

/* The next one waits here until the threads of this client have ended. */
static void leave(void)
{
    pthread_mutex_lock(&mutex);
    if (--users == 0) {
        rowlock_client_close(shared);
        shared = NULL;
    }
    pthread_mutex_unlock(&mutex);
}

/* ------------------------------------------------------------------------------- the work */

/* What the lock is for. Here a counter that would lose counts without it. */
static atomic_ulong count;

static void step(void)
{
    const struct timespec while_working = {.tv_nsec = 1000000};
    unsigned long seen = atomic_load(&count);
    nanosleep(&while_working, NULL);
    atomic_store(&count, seen + 1);
}

/* False when the lock was lost: nothing more is done then. */
static bool work(const rowlock_hold *hold, int64_t steps)
{
    for (int64_t i = 0; i < steps; i++) {
        if (rowlock_hold_check(hold) != ROWLOCK_OK)
            return false;
        step();
    }
    return true;
}

/* --------------------------------------------------------------------------- nightly_work */

/* One statement's use of the function. */
typedef struct use {
    rowlock_client *client;
    char text[sizeof(((rowlock_error *)0)->message) + 32];
} use;

static char refuse(char *message, const char *words)
{
    /* MariaDB shows 80 characters of it. */
    snprintf(message, ROWLOCK_UDF_MESSAGE_MAX, "%.*s", ROWLOCK_UDF_MESSAGE_MAX - 1, words);
    return 1;
}

EXPORT char nightly_work_init(rowlock_udf_init *init, rowlock_udf_args *args, char *message)
{
    rowlock_error err;
    if (args->arg_count != 4)
        return refuse(message, "use nightly_work(name, ttl_seconds, wait_seconds, steps)");
    args->arg_type[0] = ROWLOCK_UDF_STRING; /* the server converts */
    for (unsigned i = 1; i < 4; i++)
        args->arg_type[i] = ROWLOCK_UDF_INTEGER;
    use *self = calloc(1, sizeof *self);
    if (!self)
        return refuse(message, "out of memory");
    if (join(&self->client, &err) != ROWLOCK_OK) {
        free(self);
        return refuse(message, err.message);
    }
    init->ptr = (char *)self;
    init->max_length = sizeof self->text;
    init->maybe_null = 0;
    init->const_item = 0; /* it does something: each row anew */
    return 0;
}

EXPORT void nightly_work_deinit(rowlock_udf_init *init)
{
    free(init->ptr);
    leave();
}

/* The arguments of one row. */
typedef struct job {
    char name[4 * ROWLOCK_NAME_MAX + 1];
    int64_t ttl_s, wait_s, steps;
} job;

/* The text has no NUL at its end, and could have one inside. */
static bool get_name(char *to, size_t size, const rowlock_udf_args *args, unsigned i)
{
    if (!args->args[i] || args->lengths[i] >= size || memchr(args->args[i], '\0', args->lengths[i]))
        return false;
    memcpy(to, args->args[i], args->lengths[i]);
    to[args->lengths[i]] = '\0';
    return true;
}

static bool get_number(int64_t *to, int64_t least, int64_t most, const rowlock_udf_args *args,
                       unsigned i)
{
    long long value;
    if (!args->args[i])
        return false; /* NULL */
    memcpy(&value, args->args[i], sizeof value);
    *to = value;
    return value >= least && value <= most;
}

static rowlock_status get_job(job *to, const rowlock_udf_args *args, rowlock_error *err)
{
    if (get_name(to->name, sizeof to->name, args, 0) &&
        get_number(&to->ttl_s, 1, ROWLOCK_TTL_MAX_MS / 1000, args, 1) &&
        get_number(&to->wait_s, 0, WAIT_MOST_S, args, 2) &&
        get_number(&to->steps, 0, STEPS_MOST, args, 3))
        return ROWLOCK_OK;
    snprintf(err->message, sizeof err->message,
             "wanted are a name, a TTL of 1 to %d s, a wait of 0 to %d s and 0 to %d steps",
             ROWLOCK_TTL_MAX_MS / 1000, WAIT_MOST_S, STEPS_MOST);
    return ROWLOCK_INVALID;
}

/* Takes the lock, works, gives it back. */
static rowlock_status locked_work(rowlock_client *client, const job *job, uint64_t *token,
                                  rowlock_error *err)
{
    rowlock_hold *hold = NULL;
    const rowlock_acquire_options options = {.wait_ms = job->wait_s * 1000,
                                             .ttl_ms = job->ttl_s * 1000};
    rowlock_status status = rowlock_acquire(client, job->name, &options, &hold, err);
    if (status != ROWLOCK_OK)
        return status;
    *token = rowlock_hold_token(hold);
    bool done = work(hold, job->steps);
    status = rowlock_release(hold, err);
    if (done || status != ROWLOCK_OK)
        return status;
    snprintf(err->message, sizeof err->message, "the lock was lost at work");
    return ROWLOCK_LOST;
}

EXPORT char *nightly_work(rowlock_udf_init *init, rowlock_udf_args *args, char *result,
                          unsigned long *length, char *is_null, char *error)
{
    use *self = (use *)(void *)init->ptr;
    job job;
    rowlock_error err;
    uint64_t token = 0;
    (void)result;
    (void)is_null;
    (void)error;
    rowlock_status status = get_job(&job, args, &err);
    if (status == ROWLOCK_OK)
        status = locked_work(self->client, &job, &token, &err);
    if (status == ROWLOCK_OK)
        snprintf(self->text, sizeof self->text, "%" PRIu64, token);
    else
        snprintf(self->text, sizeof self->text, "%s: %s", rowlock_status_name(status), err.message);
    *length = strlen(self->text);
    return self->text;
}

/* -------------------------------------------------------------------------- nightly_count */

EXPORT char nightly_count_init(rowlock_udf_init *init, rowlock_udf_args *args, char *message)
{
    if (args->arg_count != 0)
        return refuse(message, "nightly_count() takes no argument");
    init->maybe_null = 0;
    init->const_item = 0;
    return 0;
}

EXPORT long long nightly_count(rowlock_udf_init *init, rowlock_udf_args *args, char *is_null,
                               char *error)
{
    (void)init;
    (void)args;
    (void)is_null;
    (void)error;
    return (long long)atomic_load(&count);
}
