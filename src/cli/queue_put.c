/* cli/queue_put.c - queue put: one item, or each line of stdin. See queue.h. */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "queue.h"
#include "table.h"

/* The input, read up to one byte more than is allowed. */
typedef struct input {
    char *bytes;
    size_t size;
} input;

static rowlock_status refuse(rowlock_error *err, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static rowlock_status refuse(rowlock_error *err, const char *format, ...)
{
    va_list list;
    *err = (rowlock_error){.status = ROWLOCK_INVALID};
    va_start(list, format);
    vsnprintf(err->message, sizeof err->message, format, list);
    va_end(list);
    return ROWLOCK_INVALID;
}

static rowlock_status read_stdin(input *in, size_t most, rowlock_error *err)
{
    size_t room = 0;
    ssize_t got = 1;
    *in = (input){NULL, 0};
    while (got > 0 && in->size <= most) {
        if (in->size == room) {
            room = room ? 2 * room : 65536;
            in->bytes = cli_need(realloc(in->bytes, room));
        }
        do {
            got = read(STDIN_FILENO, in->bytes + in->size, room - in->size);
        } while (got < 0 && errno == EINTR);
        in->size += got > 0 ? (size_t)got : 0;
    }
    return got < 0 ? refuse(err, "cannot read stdin: %s", strerror(errno)) : ROWLOCK_OK;
}

static void print_ids(const queue_job *job, const uint64_t *ids, size_t count)
{
    json_object *object;
    json_object *array;
    if (!job->run.context.json) {
        for (size_t i = 0; i < count; i++)
            printf("%" PRIu64 "\n", ids[i]);
        return;
    }
    object = cli_json_new();
    cli_json_text(object, "name", job->run.name);
    array = cli_json_array(object, "ids");
    for (size_t i = 0; i < count; i++)
        cli_json_append(array, cli_need(json_object_new_uint64(ids[i])));
    cli_json_print(object);
}

/* Makes an entry of each line, without its end. Empty lines are left out. */
static rowlock_status split(const queue_job *job, const input *in, rowlock_put_entry *entries,
                            size_t *count, rowlock_error *err)
{
    const char *end = in->bytes + in->size;
    for (const char *line = in->bytes; line < end;) {
        const char *stop = memchr(line, '\n', (size_t)(end - line));
        const size_t size = (size_t)((stop ? stop : end) - line);
        if (size > 0 && *count == ROWLOCK_QUEUE_BATCH_MAX)
            return refuse(err,
                          "stdin has more than %d lines, which are put all or none; give fewer",
                          ROWLOCK_QUEUE_BATCH_MAX);
        if (size > 0)
            entries[(*count)++] =
                (rowlock_put_entry){.payload = line, .size = size, .options = &job->put};
        line += size + 1;
    }
    return ROWLOCK_OK;
}

/* Puts all lines or none. */
static rowlock_status put_lines(const queue_job *job, rowlock_client *client, const input *in,
                                rowlock_error *err)
{
    static rowlock_put_entry entries[ROWLOCK_QUEUE_BATCH_MAX];
    static uint64_t ids[ROWLOCK_QUEUE_BATCH_MAX];
    size_t count = 0;
    rowlock_status status = split(job, in, entries, &count, err);
    if (status == ROWLOCK_OK && count > 0)
        status = rowlock_queue_put_batch(client, job->run.name, entries, count, ids, err);
    if (status == ROWLOCK_OK)
        print_ids(job, ids, count);
    return status;
}

static rowlock_status put_one(const queue_job *job, rowlock_client *client, const void *payload,
                              size_t size, rowlock_error *err)
{
    uint64_t id = 0;
    if (size > ROWLOCK_PAYLOAD_MAX)
        return refuse(err, "the payload for '%s' is longer than %d bytes; put a reference to it",
                      job->run.name, ROWLOCK_PAYLOAD_MAX);
    rowlock_status status =
        rowlock_queue_put(client, job->run.name, payload, size, &job->put, &id, err);
    if (status == ROWLOCK_OK)
        print_ids(job, &id, 1);
    return status;
}

rowlock_status queue_put(const queue_job *job, rowlock_client *client, const char *text,
                         rowlock_error *err)
{
    input in = {NULL, 0};
    if (!job->lines && strcmp(text, "-") != 0)
        return put_one(job, client, text, strlen(text), err);
    rowlock_status status = read_stdin(&in, job->lines ? SIZE_MAX / 4 : ROWLOCK_PAYLOAD_MAX, err);
    if (status == ROWLOCK_OK)
        status = job->lines ? put_lines(job, client, &in, err)
                            : put_one(job, client, in.bytes, in.size, err);
    free(in.bytes);
    return status;
}
