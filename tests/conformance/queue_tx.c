/* Queues in the caller's own transaction: an item is put, or done, when that commits. */
#include "rowlock/rowlock_queue.h"

#include "conformance/clients.h"

static MYSQL *own;

static int begin(void **state)
{
    open_clients(state);
    make_work();
    own = ts_connect(ts_schema());
    return 0;
}

static int end(void **state)
{
    mysql_close(own);
    return close_clients(state);
}

static rowlock_item *take(rowlock_client *from, const char *queue)
{
    rowlock_item *item = NULL;
    WANT(OK, rowlock_queue_take(from, queue, NULL, &item, &ts_err));
    return item;
}

static rowlock_status try_take(const char *queue)
{
    rowlock_item *item = NULL;
    rowlock_status status = rowlock_queue_take(other, queue, NULL, &item, &ts_err);
    if (status == ROWLOCK_OK)
        WANT(OK, rowlock_item_release(item, &ts_err));
    return status;
}

static uint64_t put_in_transaction(const char *queue, const rowlock_put_options *options)
{
    uint64_t id = 0;
    WANT(OK, rowlock_tx_queue_put(client, own, queue, "p\0q", 3, options, &id, &ts_err));
    assert_true(id > 0);
    assert_true(in_transaction(own));
    return id;
}

static void isolate(const char *level)
{
    ts_sql(own, "SET SESSION TRANSACTION ISOLATION LEVEL %s", level);
}

static const char *const levels[] = {"READ COMMITTED", "REPEATABLE READ"};

TS_ONCE(test_an_item_is_put_with_the_commit)
{
    for (int i = 0; i < 4; i++) {
        const char *name = ts_name("outbox");
        const rowlock_put_options options = {.group = i % 2 ? "g" : NULL, .key = "k"};
        isolate(levels[i / 2]);
        ts_sql(own, "BEGIN");
        ts_sql(own, "INSERT INTO work (who) VALUES (%s)", ts_quote(name));
        put_in_transaction(name, &options);
        WANT(BUSY, try_take(name));
        ts_sql(own, "ROLLBACK");
        WANT(BUSY, try_take(name));
        ts_sql(own, "BEGIN");
        const uint64_t id = put_in_transaction(name, &options);
        assert_int_equal(put_in_transaction(name, &options), id);
        ts_sql(own, "COMMIT");
        rowlock_item *item = take(client, name);
        assert_int_equal(rowlock_item_id(item), id);
        assert_int_equal(rowlock_item_size(item), 3);
        assert_memory_equal(rowlock_item_payload(item), "p\0q", 3);
        assert_string_equal(rowlock_item_key(item), "k");
        WANT(OK, rowlock_item_done(item, &ts_err));
        WANT(BUSY, try_take(name));
    }
}

TS_ONCE(test_an_item_is_done_with_the_commit)
{
    for (int i = 0; i < 4; i++) {
        const char *name = ts_name("done");
        const rowlock_put_options options = {.group = i % 2 ? "g" : NULL};
        isolate(levels[i / 2]);
        WANT(OK, rowlock_queue_put(client, name, "1", 1, &options, NULL, &ts_err));
        WANT(OK, rowlock_queue_put(client, name, "2", 1, &options, NULL, &ts_err));
        rowlock_item *item = take(client, name);
        const uint64_t id = rowlock_item_id(item);
        const uint64_t token = rowlock_item_token(item);
        ts_sql(own, "BEGIN");
        ts_sql(own, "INSERT INTO work (who) VALUES (%s)", ts_quote(name));
        WANT(OK, rowlock_tx_queue_done(client, own, name, id, token, &ts_err));
        ts_sql(own, "ROLLBACK");
        WANT(OK, rowlock_item_check(item, &ts_err));
        assert_int_equal(rows_of(name), 0);
        ts_sql(own, "BEGIN");
        ts_sql(own, "INSERT INTO work (who) VALUES (%s)", ts_quote(name));
        WANT(OK, rowlock_tx_queue_done(client, own, name, id, token, &ts_err));
        assert_true(in_transaction(own));
        /* A second done fails. */
        WANT(LOST, rowlock_tx_queue_done(client, own, name, id, token, &ts_err));
        assert_true(in_transaction(own));
        ts_sql(own, "COMMIT");
        rowlock_item_forget(item);
        assert_int_equal(rows_of(name), 1);
        item = take(client, name);
        assert_true(rowlock_item_id(item) > id);
        WANT(OK, rowlock_item_done(item, &ts_err));
        WANT(BUSY, try_take(name));
    }
    assert_int_equal(ts_sql_u64(mysql, "SELECT COUNT(*) FROM queue_group"), 0);
}

/* Of two deliveries only one's work is committed. */
TS_ONCE(test_the_later_delivery_counts)
{
    const char *name = ts_name("later");
    isolate(levels[0]);
    WANT(OK, rowlock_queue_put(client, name, "x", 1, NULL, NULL, &ts_err));
    rowlock_item *first = take(client, name);
    const uint64_t id = rowlock_item_id(first);
    ts_sql(mysql, "UPDATE queue_item SET ready_at = UTC_TIMESTAMP(6) WHERE id = %" PRIu64, id);
    rowlock_item *second = take(other, name);
    ts_sql(own, "BEGIN");
    WANT(LOST, rowlock_tx_queue_done(client, own, name, id, rowlock_item_token(first), &ts_err));
    WANT(OK, rowlock_tx_queue_done(client, own, name, id, rowlock_item_token(second), &ts_err));
    ts_sql(own, "COMMIT");
    WANT(LOST, rowlock_item_done(first, &ts_err));
    rowlock_item_forget(second);
}

/* An item that was retried or given back is not held any more, though nobody has taken it. */
TS_ONCE(test_what_was_given_back_cannot_be_done)
{
    const char *name = ts_name("given-back");
    WANT(OK, rowlock_queue_put(client, name, "x", 1, NULL, NULL, &ts_err));
    for (int i = 0; i < 2; i++) {
        rowlock_item *item = take(client, name);
        const uint64_t id = rowlock_item_id(item);
        const uint64_t token = rowlock_item_token(item);
        const rowlock_retry_options at_once = {.delay_ms = 1};
        if (i)
            WANT(OK, rowlock_item_retry(item, &at_once, &ts_err));
        else
            WANT(OK, rowlock_item_release(item, &ts_err));
        ts_sql(own, "BEGIN");
        WANT(LOST, rowlock_tx_queue_done(client, own, name, id, token, &ts_err));
        ts_sql(own, "ROLLBACK");
    }
}

/* The server does not return the id of an item that was there already, since the trigger's
 * statement was the last. */
TS_ONCE(test_a_table_with_somebodys_trigger)
{
    const char *name = ts_name("audit");
    const rowlock_put_options options[] = {{.key = NULL}, {.key = "k"}, {.group = "g"}};
    uint64_t ids[3];
    ts_sql(own, "ROLLBACK"); /* of a test that failed: the triggers would wait for it */
    isolate(levels[1]);
    ts_sql(mysql, "CREATE TABLE audit (id INT PRIMARY KEY AUTO_INCREMENT, item BIGINT UNSIGNED)");
    ts_sql(mysql, "CREATE TRIGGER audit_put AFTER INSERT ON queue_item FOR EACH ROW"
                  " INSERT INTO audit (item) VALUES (NEW.id)");
    ts_sql(mysql, "CREATE TRIGGER audit_update AFTER UPDATE ON queue_item FOR EACH ROW DO 1");
    for (int i = 0; i < 3; i++) {
        ts_sql(own, "BEGIN");
        ids[i] = put_in_transaction(name, &options[i]);
        ts_sql(own, "COMMIT");
        assert_int_equal(ts_sql_u64(mysql, "SELECT MAX(item) FROM audit"), ids[i]);
    }
    ts_sql(own, "BEGIN");
    assert_int_equal(put_in_transaction(name, &options[1]), ids[1]);
    assert_true(put_in_transaction(name, &options[2]) > ids[2]);
    ts_sql(own, "COMMIT");
    const rowlock_put_entry twice[2] = {{.options = &options[1]}, {.options = &options[1]}};
    uint64_t again[3] = {0};
    WANT(OK, rowlock_queue_put(client, name, "x", 1, &options[1], &again[0], &ts_err));
    WANT(OK, rowlock_queue_put_batch(client, name, twice, 2, &again[1], &ts_err));
    for (int i = 0; i < 3; i++)
        assert_int_equal(again[i], ids[1]);
    /* The group has one item. */
    for (int i = 0; i < 3; i++)
        rowlock_item_forget(take(client, name));
    WANT(BUSY, try_take(name));
    rowlock_put_entry entries[10] = {{.size = 0}};
    uint64_t all[10] = {0};
    WANT(OK, rowlock_queue_put_batch(client, name, entries, 10, all, &ts_err));
    WANT(OK, rowlock_queue_put(client, name, "x", 1, NULL, &ids[0], &ts_err));
    for (int i = 0; i < 10; i++)
        assert_int_equal(ts_sql_u64(mysql,
                                    "SELECT COUNT(*) FROM audit JOIN queue_item i ON i.id = item"
                                    " WHERE item = %" PRIu64 " AND LENGTH(i.payload) = 0",
                                    all[i]),
                         1);
    assert_int_equal(ids[0], ts_sql_u64(mysql, "SELECT MAX(item) FROM audit"));
    ts_sql(mysql, "DROP TRIGGER audit_put");
    ts_sql(mysql, "DROP TRIGGER audit_update");
    ts_sql(mysql, "DROP TABLE audit");
}

/* Nobody else can take an item that an open transaction has ended, however long that takes. */
TS_ONCE(test_a_done_under_way_keeps_others_out)
{
    const char *name = ts_name("under-way");
    WANT(OK, rowlock_queue_put(client, name, "x", 1, NULL, NULL, &ts_err));
    rowlock_item *item = take(client, name);
    const uint64_t id = rowlock_item_id(item);
    const uint64_t token = rowlock_item_token(item);
    rowlock_item_forget(item);
    ts_sql(mysql, "UPDATE queue_item SET ready_at = UTC_TIMESTAMP(6) WHERE id = %" PRIu64, id);
    ts_sql(own, "BEGIN");
    WANT(OK, rowlock_tx_queue_done(client, own, name, id, token, &ts_err));
    WANT(BUSY, try_take(name));
    ts_sql(own, "COMMIT");
    WANT(BUSY, try_take(name));
}

TS_ONCE(test_bad_input)
{
    const char *name = ts_name("bad");
    const char *lease = ts_name("lease");
    const rowlock_put_options bad = {.priority = 10};
    WANT(OK, ts_try(client, lease, ROWLOCK_OPTIMISTIC));
    WANT(INVALID, rowlock_tx_queue_put(client, own, name, "x", 1, NULL, NULL, &ts_err));
    WANT(INVALID, rowlock_tx_queue_done(client, own, name, 1, 1, &ts_err));
    WANT(INVALID, rowlock_tx_queue_put(client, NULL, name, "x", 1, NULL, NULL, &ts_err));
    ts_sql(own, "BEGIN");
    WANT(INVALID, rowlock_tx_queue_put(client, own, name, "x", 1, &bad, NULL, &ts_err));
    WANT(INVALID, rowlock_tx_queue_put(client, own, "", "x", 1, NULL, NULL, &ts_err));
    WANT(INVALID, rowlock_tx_queue_put(client, own, name, NULL, 1, NULL, NULL, &ts_err));
    WANT(MODE, rowlock_tx_queue_put(client, own, lease, "x", 1, NULL, NULL, &ts_err));
    WANT(MODE, rowlock_tx_queue_done(client, own, lease, 1, 1, &ts_err));
    WANT(NOT_FOUND, rowlock_tx_queue_done(client, own, name, 1, 1, &ts_err));
    WANT(OK, rowlock_queue_put(client, name, "x", 1, NULL, NULL, &ts_err));
    WANT(LOST, rowlock_tx_queue_done(client, own, name, UINT64_MAX, 1, &ts_err));
    assert_true(in_transaction(own));
    ts_sql(own, "ROLLBACK");
}

/* Somebody else has the item's row locked: the call waits, and the transaction loses nothing. */
TS_ONCE(test_a_row_that_is_locked)
{
    const char *name = ts_name("locked");
    TS_MYSQL *blocker = ts_connect(ts_schema());
    TS_CLIENT *hasty = ts_open_as((rowlock_client_options){.connect_timeout_ms = 2000});
    WANT(OK, rowlock_queue_put(client, name, "x", 1, NULL, NULL, &ts_err));
    rowlock_item *item = take(hasty, name);
    ts_sql(blocker, "BEGIN");
    ts_sql(blocker, "SELECT * FROM queue_item WHERE id = %" PRIu64 " FOR UPDATE",
           rowlock_item_id(item));
    ts_sql(own, "BEGIN");
    ts_sql(own, "INSERT INTO work (who) VALUES (%s)", ts_quote(name));
    WANT(BUSY, rowlock_tx_queue_done(hasty, own, name, rowlock_item_id(item),
                                     rowlock_item_token(item), &ts_err));
    assert_true(in_transaction(own));
    ts_sql(blocker, "ROLLBACK");
    WANT(OK, rowlock_tx_queue_done(hasty, own, name, rowlock_item_id(item),
                                   rowlock_item_token(item), &ts_err));
    ts_sql(own, "COMMIT");
    rowlock_item_forget(item);
    assert_int_equal(rows_of(name), 1);
}

/* The row of the item's group is locked, by somebody who puts: what is refused has changed nothing,
 * also where the transaction is committed after that. */
TS_ONCE(test_a_group_that_is_locked)
{
    const char *name = ts_name("group-locked");
    const rowlock_put_options in_group = {.group = "g"};
    TS_MYSQL *blocker = ts_connect(ts_schema());
    TS_CLIENT *hasty = ts_open_as((rowlock_client_options){.connect_timeout_ms = 2000});
    for (int i = 0; i < 2; i++)
        WANT(OK, rowlock_queue_put(client, name, "x", 1, &in_group, NULL, &ts_err));
    rowlock_item *item = take(hasty, name);
    const uint64_t id = rowlock_item_id(item);
    const uint64_t token = rowlock_item_token(item);
    for (int i = 0; i < 2; i++) {
        ts_sql(blocker, "BEGIN");
        ts_sql(blocker, "SELECT * FROM queue_group FOR UPDATE");
        ts_sql(own, "BEGIN");
        WANT(BUSY, rowlock_tx_queue_done(hasty, own, name, id, token, &ts_err));
        assert_true(in_transaction(own));
        ts_sql(blocker, "ROLLBACK");
        if (i)
            WANT(OK, rowlock_tx_queue_done(hasty, own, name, id, token, &ts_err));
        ts_sql(own, "COMMIT");
    }
    rowlock_item_forget(item);
    item = take(client, name);
    assert_true(rowlock_item_id(item) > id);
    WANT(OK, rowlock_item_done(item, &ts_err));
}

/* At REPEATABLE READ the end of a group's last item keeps no put into another one waiting: whether
 * it was the only one, or has come after others. */
TS_ONCE(test_the_end_of_a_group)
{
    for (int others = 0; others < 3; others++) {
        const char *name = ts_name("stage");
        const rowlock_put_options first = {.group = "g"};
        const rowlock_put_options second = {.group = "h"};
        for (int i = 0; i <= others; i++)
            WANT(OK, rowlock_queue_put(client, name, "x", 1, &first, NULL, &ts_err));
        for (int i = 0; i < others; i++)
            WANT(OK, rowlock_item_done(take(client, name), &ts_err));
        rowlock_item *item = take(client, name);
        isolate(levels[1]);
        ts_sql(own, "BEGIN");
        WANT(OK, rowlock_tx_queue_done(client, own, name, rowlock_item_id(item),
                                       rowlock_item_token(item), &ts_err));
        WANT(OK, rowlock_queue_put(client, name, "y", 1, &second, NULL, &ts_err));
        ts_sql(own, "COMMIT");
        rowlock_item_forget(item);
    }
}

/* Another transaction has the key of the item that is put: so the group is not made either. */
TS_ONCE(test_a_key_that_is_locked)
{
    const char *name = ts_name("key-locked");
    const rowlock_put_options plain = {.key = "k"};
    const rowlock_put_options in_group = {.group = "g", .key = "k"};
    TS_MYSQL *blocker = ts_connect(ts_schema());
    TS_CLIENT *hasty = ts_open_as((rowlock_client_options){.connect_timeout_ms = 2000});
    ts_sql(blocker, "BEGIN");
    WANT(OK, rowlock_tx_queue_put(client, blocker, name, "x", 1, &plain, NULL, &ts_err));
    const uint64_t groups = ts_sql_u64(mysql, "SELECT COUNT(*) FROM queue_group");
    ts_sql(own, "BEGIN");
    WANT(BUSY, rowlock_tx_queue_put(hasty, own, name, "x", 1, &in_group, NULL, &ts_err));
    ts_sql(own, "COMMIT");
    assert_int_equal(ts_sql_u64(mysql, "SELECT COUNT(*) FROM queue_group"), groups);
    ts_sql(blocker, "ROLLBACK");
}

/* A client that does not know yet that the queue was purged hears it, and the transaction goes on.
 */
TS_ONCE(test_a_queue_that_was_purged)
{
    static const rowlock_put_options ways[] = {{.key = "k"}, {.group = "g"}};
    for (int i = 0; i < 2; i++) {
        const char *name = ts_name("purged");
        WANT(OK, rowlock_queue_put(client, name, "x", 1, NULL, NULL, &ts_err));
        WANT(OK, rowlock_item_done(take(other, name), &ts_err));
        WANT(OK, rowlock_purge(other, name, &ts_err));
        isolate(levels[0]); /* else it may keep the name from being made again */
        ts_sql(own, "BEGIN");
        WANT(NOT_FOUND, rowlock_tx_queue_put(client, own, name, "x", 1, &ways[i], NULL, &ts_err));
        put_in_transaction(name, &ways[i]);
        ts_sql(own, "COMMIT");
        WANT(OK, rowlock_item_done(take(other, name), &ts_err));
    }
}

/* One put, by a thread of its own. */
typedef struct late_put {
    rowlock_client *by;
    const char *queue;
    rowlock_put_options options;
    bool in_transaction;
    atomic_bool ended;
    rowlock_status status;
} late_put;

static void *put_late(void *arg)
{
    late_put *p = arg;
    p->status = p->in_transaction
                    ? rowlock_tx_queue_put(p->by, own, p->queue, "y", 1, &p->options, NULL, NULL)
                    : rowlock_queue_put(p->by, p->queue, "y", 1, &p->options, NULL, NULL);
    p->ended = true;
    mysql_thread_end();
    return NULL;
}

/* A put waits for a transaction that has its key: other items are put meanwhile. (MariaDB: while an
 * INSERT ... SELECT runs, nobody else gets an id of its table; innodb_autoinc_lock_mode=1.) */
TS_ONCE(test_others_put_while_one_waits_for_a_key)
{
    const rowlock_put_options plain = {.key = "k"};
    TS_MYSQL *blocker = ts_connect(ts_schema());
    TS_CLIENT *patient = ts_open_as((rowlock_client_options){.connect_timeout_ms = 60000});
    for (int way = 0; way < 4; way++) {
        late_put late = {.by = patient,
                         .queue = ts_name("waited-for"),
                         .options = {.key = "k", .group = way & 1 ? "g" : NULL},
                         .in_transaction = way & 2};
        pthread_t thread;
        ts_sql(blocker, "BEGIN");
        WANT(OK, rowlock_tx_queue_put(client, blocker, late.queue, "x", 1, &plain, NULL, &ts_err));
        ts_sql(own, "BEGIN");
        assert_int_equal(pthread_create(&thread, NULL, put_late, &late), 0);
        assert_true(ts_row_waits(mysql, "queue_item", 10000) > 0);
        WANT(OK, rowlock_queue_put(client, ts_name("elsewhere"), "z", 1, NULL, NULL, &ts_err));
        assert_false(late.ended);
        ts_sql(blocker, "ROLLBACK");
        pthread_join(thread, NULL);
        assert_int_equal(late.status, ROWLOCK_OK);
        ts_sql(own, "COMMIT");
    }
}

TS_MAIN("queue_tx", begin, end)
