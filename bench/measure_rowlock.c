/* bench/measure_rowlock.c - see measure_rowlock.h */
#include "measure_rowlock.h"
#include "rowlock/rowlock_admin.h"

#include <stdlib.h>
#include <time.h>

enum {
    FREE_WITHIN_MS = 20000, /* the connections of clients that were killed are gone by then */
    LOOK_MS = 20,
};

const measure_rowlock_kind measure_rowlock_kinds[] = {
    {.id = "rowlock-unfenced",
     .name = "rowlock pessimistic, no fencing",
     .keeps = "memory",
     .mode = ROWLOCK_PESSIMISTIC,
     .unfenced = true},
    {.id = "rowlock-unfenced-quiet",
     .name = "rowlock pessimistic, no fencing, no history",
     .keeps = "memory",
     .mode = ROWLOCK_PESSIMISTIC,
     .unfenced = true,
     .no_history = true},
    {.id = "rowlock-unfenced-async",
     .name = "rowlock pessimistic, no fencing, async",
     .keeps = "memory",
     .mode = ROWLOCK_PESSIMISTIC,
     .unfenced = true,
     .no_reply = true},
    {.id = "rowlock-fenced",
     .name = "rowlock pessimistic, fencing",
     .keeps = "durable",
     .mode = ROWLOCK_PESSIMISTIC},
    {.id = "rowlock-lease", .name = "rowlock lease, bell", .keeps = "durable"},
    {.id = "rowlock-lease-quiet",
     .name = "rowlock lease, bell, no history",
     .keeps = "durable",
     .no_history = true},
    {.id = "rowlock-lease-poll",
     .name = "rowlock lease, poll",
     .keeps = "durable",
     .waiting = ROWLOCK_WAITING_POLL},
    {0},
};

typedef struct rowlock_session {
    const measure_rowlock_kind *kind;
    rowlock_client *client;
    rowlock_hold *hold;
} rowlock_session;

/* Always false. */
static bool failed(const rowlock_error *err, measure_reason *why)
{
    measure_because(why, "%.390s",
                    err->message[0] ? err->message : rowlock_status_text(err->status));
    why->exit_status = rowlock_status_exit(err->status);
    return false;
}

static bool open_session(const measure_system *system, void **session, measure_reason *why)
{
    const measure_rowlock *self = system->data;
    rowlock_error err;
    rowlock_session *made = calloc(1, sizeof *made);
    if (!made)
        return measure_because(why, "out of memory");
    made->kind = self->kind;
    if (rowlock_client_open(&self->options, &made->client, &err) != ROWLOCK_OK) {
        free(made);
        return failed(&err, why);
    }
    *session = made;
    return true;
}

static bool acquire(void *session, const char *name, int64_t wait_ms, measure_reason *why)
{
    rowlock_session *self = session;
    rowlock_error err;
    const rowlock_acquire_options options = {
        .mode = self->kind->mode, .unfenced = self->kind->unfenced, .wait_ms = wait_ms};
    if (rowlock_acquire(self->client, name, &options, &self->hold, &err) == ROWLOCK_OK)
        return true;
    return failed(&err, why);
}

static bool release(void *session, const char *name, measure_reason *why)
{
    (void)name;
    rowlock_session *self = session;
    rowlock_error err;
    const rowlock_release_options options = {.no_reply = self->kind->no_reply};
    if (rowlock_release_with(self->hold, &options, &err) == ROWLOCK_OK)
        return true;
    return failed(&err, why);
}

static void close_session(void *session)
{
    rowlock_session *self = session;
    rowlock_client_close(self->client);
    free(self);
}

/* ------------------------------------------------------------ tidying up */

static void pause_a_little(void)
{
    const struct timespec time = {.tv_nsec = LOOK_MS * 1000000L};
    nanosleep(&time, NULL);
}

/* A client that was killed left its lock behind: a lease is broken, a row lock ends with its
 * connection. */
static bool remove_name(rowlock_client *client, const char *name, rowlock_error *err)
{
    int64_t limit = measure_now_ns() + FREE_WITHIN_MS * 1000000LL;
    rowlock_status status;
    while ((status = rowlock_purge(client, name, err)) == ROWLOCK_BUSY &&
           measure_now_ns() < limit) {
        (void)!rowlock_break_with(
            client, name,
            &(rowlock_break_options){.reason = "left behind by a benchmark", .now = true}, NULL);
        pause_a_little();
    }
    return status == ROWLOCK_OK || status == ROWLOCK_NOT_FOUND;
}

rowlock_client_options measure_rowlock_remover(const rowlock_client_options *options)
{
    rowlock_client_options remover = *options;
    remover.via = ROWLOCK_VIA_TABLES;
    return remover;
}

static bool tidy(const measure_system *system, const char *const names[], size_t count,
                 measure_reason *why)
{
    const measure_rowlock *self = system->data;
    const rowlock_client_options options = measure_rowlock_remover(&self->options);
    rowlock_client *client;
    rowlock_error err;
    bool good = true;
    if (rowlock_client_open(&options, &client, &err) != ROWLOCK_OK)
        return failed(&err, why);
    for (size_t i = 0; i < count && good; i++)
        good = remove_name(client, names[i], &err);
    rowlock_client_close(client);
    return good || failed(&err, why);
}

measure_system measure_rowlock_system(measure_rowlock *self, const rowlock_client_options *options,
                                      const measure_rowlock_kind *kind)
{
    self->options = *options;
    self->options.no_history = options->no_history || kind->no_history;
    self->options.history_min_ms = 0; /* as a program has it */
    self->options.waiting = kind->waiting ? kind->waiting : ROWLOCK_WAITING_AUTO;
    self->kind = kind;
    return (measure_system){
        .id = kind->id,
        .name = kind->name,
        .keeps = kind->keeps,
        .data = self,
        .tidy = tidy,
        .open = open_session,
        .acquire = acquire,
        .release = release,
        .close = close_session,
    };
}
