/* bench/measure_rowlock.c - see measure_rowlock.h */
#include "measure_rowlock.h"
#include "rowlock/rowlock_admin.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum {
    SET = 8,
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
    {.id = "rowlock-shared", .name = "rowlock lease, shared", .keeps = "durable", .shared = true},
    {.id = "rowlock-slots",
     .name = "rowlock lease, one of 4 slots",
     .keeps = "durable",
     .slots = MEASURE_SLOTS},
    {.id = "rowlock-set", .name = "rowlock lease, set of 8", .keeps = "durable", .set = SET},
    {.id = "rowlock-quorum", .name = "rowlock quorum of 5", .keeps = "durable", .quorum = true},
    {.id = "rowlock-quorum-dead",
     .name = "rowlock quorum of 5, 2 dead",
     .keeps = "durable",
     .quorum = true},
    {0},
};

typedef struct rowlock_session {
    const measure_rowlock_kind *kind;
    rowlock_client *client;
    rowlock_hold *hold;
    char names[SET][MEASURE_NAME_MAX]; /* of the set; empty until its first acquire */
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

static void name_in_set(char made[MEASURE_NAME_MAX], const char *name, unsigned number)
{
    snprintf(made, MEASURE_NAME_MAX, "%s/%u", name, number);
}

static rowlock_status acquire_set(rowlock_session *self, const char *name,
                                  const rowlock_acquire_options *options, rowlock_error *err)
{
    const char *names[SET];
    for (unsigned i = 0; i < self->kind->set; i++) {
        if (!self->names[i][0])
            name_in_set(self->names[i], name, i + 1);
        names[i] = self->names[i];
    }
    return rowlock_acquire_set(self->client, names, self->kind->set, options, &self->hold, err);
}

static bool acquire(void *session, const char *name, int64_t wait_ms, measure_reason *why)
{
    rowlock_session *self = session;
    rowlock_error err;
    const rowlock_acquire_options options = {.mode = self->kind->mode,
                                             .unfenced = self->kind->unfenced,
                                             .shared = self->kind->shared,
                                             .slots = self->kind->slots,
                                             .wait_ms = wait_ms};
    rowlock_status status = self->kind->set
                                ? acquire_set(self, name, &options, &err)
                                : rowlock_acquire(self->client, name, &options, &self->hold, &err);
    return status == ROWLOCK_OK || failed(&err, why);
}

static unsigned slot(const void *session)
{
    const rowlock_session *self = session;
    return rowlock_hold_slot(self->hold);
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

static bool remove_lock(rowlock_client *client, const measure_rowlock_kind *kind, const char *name,
                        rowlock_error *err)
{
    char in_set[MEASURE_NAME_MAX];
    if (kind->set == 0)
        return remove_name(client, name, err);
    for (unsigned i = 1; i <= kind->set; i++) {
        name_in_set(in_set, name, i);
        if (!remove_name(client, in_set, err))
            return false;
    }
    return true;
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
        good = remove_lock(client, self->kind, names[i], &err);
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
        .holders = kind->shared ? MEASURE_CLIENTS_MAX : kind->slots,
        .tidy = kind->quorum ? NULL : tidy, /* its servers are for this alone */
        .open = open_session,
        .acquire = acquire,
        .release = release,
        .slot = kind->slots > 0 ? slot : NULL,
        .close = close_session,
    };
}
