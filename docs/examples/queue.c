/*
 * A queue: mail that is to be sent. Items are put, also as a part of the program's own transaction;
 * a worker takes them, and ends each in one of several ways.
 *
 *     cc queue.c -o queue $(pkg-config --cflags --libs rowlock libmariadb)
 *     ROWLOCK_URL='mysql://user@host/rowlock' ./queue
 */
#include "example_mysql.h"
#include <rowlock/rowlock_mysql.h>
#include <rowlock/rowlock_queue.h>
#include <string.h>

static rowlock_error err;

#define QUEUE "example mail"

static void sql(MYSQL *mysql, const char *statement)
{
    if (mysql_query(mysql, statement) != 0) {
        fprintf(stderr, "%s: %s\n", statement, mysql_error(mysql));
        exit(1);
    }
}

static void put(rowlock_client *client, const char *text, const rowlock_put_options *options)
{
    uint64_t id = 0;
    must(rowlock_queue_put(client, QUEUE, text, strlen(text), options, &id, &err), &err);
    printf("put %" PRIu64 ": %s\n", id, text);
}

/* Waits for the next one for up to 5 s; it is this worker's until it is ended, or lost. */
static rowlock_item *take(rowlock_client *client)
{
    rowlock_item *item = NULL;
    const rowlock_take_options options = {.wait_ms = 5000, .ttl_ms = 10000};
    must(rowlock_queue_take(client, QUEUE, &options, &item, &err), &err);
    printf("took %" PRIu64 " of '%s', attempt %u of %u, token %" PRIu64 ": %.*s%s%s%s%s\n",
           rowlock_item_id(item), rowlock_item_queue(item), rowlock_item_attempt(item),
           rowlock_item_attempts(item), rowlock_item_token(item), (int)rowlock_item_size(item),
           (const char *)rowlock_item_payload(item), *rowlock_item_key(item) ? ", key " : "",
           rowlock_item_key(item), *rowlock_item_group(item) ? ", group " : "",
           rowlock_item_group(item));
    return item;
}

/* The order and the mail about it are there together, or neither is. */
static void take_an_order(rowlock_client *client, MYSQL *mysql)
{
    uint64_t id = 0;
    sql(mysql, "START TRANSACTION");
    sql(mysql, "INSERT INTO rowlock_example.shop_order (what) VALUES ('a book')");
    must(rowlock_tx_queue_put(client, mysql, QUEUE, "thanks", 6, NULL, &id, &err), &err);
    sql(mysql, "COMMIT");
}

/* The note that it was sent and "done" are committed together: it is noted once. */
static void send_exactly_once(rowlock_client *client, MYSQL *mysql)
{
    rowlock_item *item = take(client);
    sql(mysql, "START TRANSACTION");
    sql(mysql, "INSERT INTO rowlock_example.sent (at) VALUES (NOW())");
    must(rowlock_tx_queue_done(client, mysql, QUEUE, rowlock_item_id(item),
                               rowlock_item_token(item), &err),
         &err);
    sql(mysql, "COMMIT");
    rowlock_item_forget(item);
}

/* A worker that has much to do says so, and looks whether the item is still its own. */
static void work_long(rowlock_client *client)
{
    rowlock_item *item = take(client);
    must(rowlock_item_extend(item, 60000, &err), &err);
    must(rowlock_item_check(item, &err), &err);
    printf("still ours for %" PRId64 " ms; descriptor %s, priority %u\n",
           rowlock_item_remaining_ms(item), rowlock_item_fd(item) >= 0 ? "made" : "refused",
           rowlock_item_priority(item));
    must(rowlock_item_done(item, &err), &err);
}

static void fail_and_try_again(rowlock_client *client)
{
    const rowlock_retry_options soon = {.reason = "no route to host", .delay_ms = 200};
    must(rowlock_item_retry(take(client), &soon, &err), &err);
    must(rowlock_item_release(take(client), &err), &err); /* it was not worked on */
    must(rowlock_item_dead(take(client), "no such address", &err), &err);
}

static void look(rowlock_client *client)
{
    rowlock_queue_info info;
    rowlock_items *items = NULL;
    const rowlock_items_options dead = {.dead = true};
    must(rowlock_queue_get(client, QUEUE, &info, &err), &err);
    printf("%" PRIu64 " items, %" PRIu64 " of them ready; %" PRIu64 " dead\n", info.depth,
           info.ready, info.dead);
    must(rowlock_items_get(client, QUEUE, &dead, &items, &err), &err);
    for (size_t i = 0; i < rowlock_items_count(items); i++)
        printf("dead: %" PRIu64 ", %s\n", rowlock_items_at(items, i)->id,
               rowlock_items_at(items, i)->error);
    rowlock_items_free(items);
}

/* Many with one commit each time. */
static void many(rowlock_client *client)
{
    rowlock_item *items[16];
    size_t count = 0;
    const rowlock_put_entry entries[] = {{.payload = "a", .size = 1}, {.payload = "b", .size = 1}};
    must(rowlock_queue_put_batch(client, QUEUE, entries, 2, NULL, &err), &err);
    must(rowlock_queue_take_batch(client, QUEUE, 16, NULL, items, &count, &err), &err);
    expect(count == 2, "both are taken");
    /* By id and token, another process could end it as well. */
    const uint64_t id = rowlock_item_id(items[1]);
    const uint64_t token = rowlock_item_token(items[1]);
    rowlock_item_forget(items[1]);
    must(rowlock_queue_held(client, QUEUE, id, token, &items[1], &err), &err);
    must(rowlock_item_done_batch(items, count, NULL, &err), &err);
}

int main(int argc, char **argv)
{
    rowlock_client *client = NULL;
    uint64_t count = 0;
    const rowlock_client_options options = example_options(argc, argv);
    must(rowlock_client_open(&options, &client, &err), &err);
    MYSQL *mysql = example_connect(&options);
    sql(mysql, "CREATE DATABASE IF NOT EXISTS rowlock_example");
    sql(mysql, "CREATE TABLE rowlock_example.shop_order (what VARCHAR(40))");
    sql(mysql, "CREATE TABLE rowlock_example.sent (at DATETIME)");

    put(client, "news", &(rowlock_put_options){.delay_ms = 100, .key = "news of today"});
    put(client, "news", &(rowlock_put_options){.delay_ms = 100, .key = "news of today"});
    work_long(client); /* (it was put once) */
    take_an_order(client, mysql);
    send_exactly_once(client, mysql);
    put(client, "an alarm", &(rowlock_put_options){.priority = 9, .group = "alarms"});
    fail_and_try_again(client);
    look(client);
    must(rowlock_queue_requeue(client, QUEUE, 0, &count, &err), &err);
    expect(count == 1, "the dead one is ready again");
    work_long(client);
    many(client);
    must(rowlock_queue_purge(client, QUEUE, NULL, &count, &err), &err);
    expect(count == 0, "nothing dead is left");

    sql(mysql, "DROP DATABASE rowlock_example");
    mysql_close(mysql);
    rowlock_client_close(client);
    return 0;
}
