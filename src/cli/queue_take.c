/* cli/queue_take.c - queue take: an item on stdout. See queue.h. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "queue.h"
#include "table.h"

static bool is_text(const char *bytes, size_t size)
{
    uint32_t character;
    for (size_t at = 0, length; at < size; at += length)
        if (bytes[at] == '\0' || (length = cli_utf8(bytes + at, &character)) == 0)
            return false;
    return true;
}

static char *as_base64(const unsigned char *bytes, size_t size)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char *text = cli_need(malloc((size + 2) / 3 * 4 + 1));
    char *out = text;
    for (size_t at = 0; at < size; at += 3) {
        const size_t left = size - at;
        const uint32_t three = (uint32_t)bytes[at] << 16 |
                               (left > 1 ? (uint32_t)bytes[at + 1] << 8 : 0) |
                               (left > 2 ? bytes[at + 2] : 0);
        *out++ = digits[three >> 18];
        *out++ = digits[three >> 12 & 63];
        *out++ = '=';
        *out++ = '=';
        if (left > 1)
            out[-2] = digits[three >> 6 & 63];
        if (left > 2)
            out[-1] = digits[three & 63];
    }
    *out = '\0';
    return text;
}

/* Adds two members, as text and in base64; one of them is null. */
static void add_payload(json_object *object, const rowlock_item *item)
{
    const char *bytes = rowlock_item_payload(item);
    const size_t size = rowlock_item_size(item);
    if (is_text(bytes, size)) {
        cli_json_text(object, "payload", bytes);
        cli_json_number(object, "payload_base64", "");
        return;
    }
    char *base64 = as_base64((const unsigned char *)bytes, size);
    cli_json_number(object, "payload", "");
    cli_json_text(object, "payload_base64", base64);
    free(base64);
}

static json_object *item_json(const rowlock_item *item)
{
    json_object *object = cli_json_new();
    cli_json_text(object, "name", rowlock_item_queue(item));
    cli_json_count(object, "id", rowlock_item_id(item));
    cli_json_count(object, "token", rowlock_item_token(item));
    cli_json_count(object, "attempt", rowlock_item_attempt(item));
    cli_json_count(object, "attempts", rowlock_item_attempts(item));
    cli_json_count(object, "priority", rowlock_item_priority(item));
    cli_json_text(object, "key", rowlock_item_key(item));
    cli_json_text(object, "group", rowlock_item_group(item));
    add_payload(object, item);
    return object;
}

/* Prints a line with the id and token, which are needed to end the item, then the payload. */
static void print_item(const rowlock_item *item)
{
    printf("%" PRIu64 " %" PRIu64 " %u\n", rowlock_item_id(item), rowlock_item_token(item),
           rowlock_item_attempt(item));
    fwrite(rowlock_item_payload(item), 1, rowlock_item_size(item), stdout);
}

rowlock_status queue_take(const queue_job *job, rowlock_client *client, rowlock_error *err)
{
    const rowlock_take_options options = {.wait_ms = job->wait_ms,
                                          .ttl_ms = job->run.acquire.ttl_ms};
    rowlock_item *item = NULL;
    rowlock_status status = rowlock_queue_take(client, job->run.name, &options, &item, err);
    if (status != ROWLOCK_OK)
        return status;
    if (job->run.context.json)
        cli_json_print(item_json(item));
    else
        print_item(item);
    /* What could not be written as a whole is ready again at once. */
    if (cli_flush(0) == 0)
        rowlock_item_forget(item);
    else
        (void)!rowlock_item_release(item, NULL);
    return ROWLOCK_OK;
}
