/* bench/queue_rowlock.c - rowlock's queue. See queue_client.h. */
#include <stdlib.h>
#include <string.h>

#include "queue_client.h"
#include "rowlock/rowlock_queue.h"

/* Of those that are idle: until they are ended. */
enum { WAIT_MS = 1000, IDLE_MS = 600000 };

static const char name[] = "bench";

typedef struct rowlock_queue {
    rowlock_client *client;
    unsigned batch;
    rowlock_item *items[QUEUE_BATCH];
    size_t count;
} rowlock_queue;

static void must(rowlock_status status, const rowlock_error *err)
{
    if (status != ROWLOCK_OK)
        queue_die("rowlock: %s", err->message);
}

static rowlock_client *open_client(const char *at)
{
    const rowlock_client_options options = {.socket = at, .user = "root"};
    rowlock_client *client = NULL;
    rowlock_error err = {0};
    must(rowlock_client_open(&options, &client, &err), &err);
    return client;
}

static void prepare(const char *at, const void *data)
{
    const rowlock_queue_purge_options all = {.all = true};
    rowlock_client *client = open_client(at);
    rowlock_error err = {0};
    (void)data;
    const rowlock_status status = rowlock_queue_purge(client, name, &all, NULL, &err);
    if (status != ROWLOCK_NOT_FOUND)
        must(status, &err);
    rowlock_client_close(client);
}

static void *open_queue(const char *at, const void *data, unsigned batch)
{
    rowlock_queue *self = calloc(1, sizeof *self);
    (void)data;
    if (!self)
        queue_die("out of memory");
    self->client = open_client(at);
    self->batch = batch;
    return self;
}

static void put(void *session, char payloads[][QUEUE_PAYLOAD])
{
    const rowlock_queue *self = session;
    rowlock_put_entry entries[QUEUE_BATCH] = {{0}};
    rowlock_error err = {0};
    for (unsigned i = 0; i < self->batch; i++)
        entries[i] = (rowlock_put_entry){.payload = payloads[i], .size = QUEUE_PAYLOAD};
    if (self->batch == 1)
        must(rowlock_queue_put(self->client, name, payloads[0], QUEUE_PAYLOAD, NULL, NULL, &err),
             &err);
    else
        must(rowlock_queue_put_batch(self->client, name, entries, self->batch, NULL, &err), &err);
}

static void put_later(void *session, char payload[QUEUE_PAYLOAD], int64_t delay_ms)
{
    const rowlock_queue *self = session;
    const rowlock_put_options options = {.delay_ms = delay_ms};
    rowlock_error err = {0};
    must(rowlock_queue_put(self->client, name, payload, QUEUE_PAYLOAD, &options, NULL, &err), &err);
}

static unsigned take(void *session, queue_job jobs[])
{
    rowlock_queue *self = session;
    const rowlock_take_options options = {.wait_ms = getenv("QUEUE_IDLE") ? IDLE_MS : WAIT_MS};
    rowlock_error err = {0};
    rowlock_status status;
    if (self->batch == 1) {
        status = rowlock_queue_take(self->client, name, &options, self->items, &err);
        self->count = 1;
    } else {
        status = rowlock_queue_take_batch(self->client, name, self->batch, &options, self->items,
                                          &self->count, &err);
    }
    if (status == ROWLOCK_TIMEOUT)
        return 0;
    must(status, &err);
    for (size_t i = 0; i < self->count; i++)
        jobs[i] = (queue_job){.payload = rowlock_item_payload(self->items[i])};
    return (unsigned)self->count;
}

static void done(void *session)
{
    const rowlock_queue *self = session;
    rowlock_error err = {0};
    if (self->count == 1)
        must(rowlock_item_done(self->items[0], &err), &err);
    else
        must(rowlock_item_done_batch(self->items, self->count, NULL, &err), &err);
}

static void close_queue(void *session)
{
    rowlock_queue *self = session;
    rowlock_client_close(self->client);
    free(self);
}

bool queue_rowlock_find(const char *id, queue_system *system)
{
    if (strcmp(id, "rowlock") != 0)
        return false;
    *system = (queue_system){.prepare = prepare,
                             .open = open_queue,
                             .put = put,
                             .put_later = put_later,
                             .take = take,
                             .done = done,
                             .close = close_queue};
    return true;
}
