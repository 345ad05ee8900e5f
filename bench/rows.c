/* bench/rows.c - see rows.h */
#include "rows.h"
#include "rowlock/rowlock_admin.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/random.h>
#include <unistd.h>

enum { WARM_UP_MS = 500, WARM_UP_EACH_MS = 10 };

/* A random prefix, which no other program's names have, on any host. */
static bool make_prefix(rows *self)
{
    uint32_t random;
    if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random)
        return false;
    snprintf(self->prefix, sizeof self->prefix, "rowlock-bench/%ld-%08" PRIx32, (long)getpid(),
             random);
    return true;
}

rowlock_status rows_prepare(rows *self, rowlock_error *err)
{
    const rowlock_client_options options = measure_rowlock_remover(self->client);
    rowlock_client *client;
    rowlock_error why;
    if (!make_prefix(self)) {
        *err = (rowlock_error){.status = ROWLOCK_SYSTEM, .message = "no random numbers"};
        return ROWLOCK_SYSTEM;
    }
    rowlock_status status = rowlock_client_open(&options, &client, &why);
    if (status == ROWLOCK_OK) {
        status = rowlock_purge(client, self->prefix, &why);
        rowlock_client_close(client);
    }
    /* Who may not remove names is told before there are any. */
    if (status != ROWLOCK_DENIED)
        return ROWLOCK_OK;
    *err = why;
    snprintf(err->message, sizeof err->message,
             "bench removes its names when it is done, and this user may not: %.500s", why.message);
    return status;
}

/* The server opens its tables once for each that works at the same time. */
static int64_t warm_up_ms(const rows *self, unsigned clients)
{
    int64_t part = self->window_ms / 4;
    return (part < WARM_UP_MS ? part : WARM_UP_MS) + clients * WARM_UP_EACH_MS;
}

static bool measure_row(rows *self, const measure_rowlock_kind *kind, unsigned clients, bool hot,
                        measure_reason *why)
{
    rows_row *row = &self->row[self->measured];
    measure_rowlock rowlock;
    measure_system system = measure_rowlock_system(&rowlock, self->client, kind);
    const measure_load load = {
        .prefix = self->prefix,
        .clients = clients,
        .hot = hot,
        .window_ms = self->window_ms,
        .warm_up_ms = warm_up_ms(self, clients),
    };
    *row = (rows_row){.kind = *kind,
                      .no_history = self->client->no_history,
                      .clients = clients,
                      .names = hot ? "hot" : "distinct",
                      .window_ms = self->window_ms};
    int64_t left = (int64_t)(self->planned - self->measured);
    self->begin(self, row, left * (load.window_ms + load.warm_up_ms));
    bool good = measure_run(&system, &load, &row->figures, why);
    self->end(self, row, good ? NULL : why);
    self->measured += good;
    return good;
}

static bool measure_kind(rows *self, const measure_rowlock_kind *kind, measure_reason *why)
{
    for (int hot = 0; hot <= 1; hot++) {
        for (size_t i = 0; i < self->count_count; i++) {
            if ((hot ? self->hot : self->distinct) &&
                !measure_row(self, kind, self->counts[i], hot, why))
                return false;
        }
    }
    return true;
}

/* Is it one of the rows that are asked for? */
static bool wanted(const rows *self, const measure_rowlock_kind *kind)
{
    if (kind->no_reply || kind->no_history || kind->shared || kind->slots > 0 || kind->set > 0 ||
        kind->quorum || (self->only_mode && kind->mode != self->mode))
        return false;
    /* Who says that this server has no bell is not to be shown one. */
    return kind->mode != ROWLOCK_OPTIMISTIC || kind->waiting == ROWLOCK_WAITING_POLL ||
           self->client->waiting != ROWLOCK_WAITING_POLL;
}

bool rows_measure(rows *self, measure_reason *why)
{
    measure_catch_end();
    for (const measure_rowlock_kind *kind = measure_rowlock_kinds; kind->id; kind++) {
        if (wanted(self, kind))
            self->planned += self->count_count * (self->distinct + self->hot);
    }
    for (const measure_rowlock_kind *kind = measure_rowlock_kinds; kind->id; kind++) {
        if (wanted(self, kind) && !measure_kind(self, kind, why))
            return false;
    }
    return true;
}
