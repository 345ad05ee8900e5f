/* A process at the queue: puts items, takes them, and ends them; or dies at one of these steps. */
#include "actor.h"
#include "rowlock/rowlock_mysql.h"
#include "rowlock/rowlock_queue.h"

enum { BATCH = 4, MARK_BYTES = 24, PAYLOAD_MOST = 320 };
/* Limits of emptying the queue at the end: a time, and a number of takes in a row that get nothing,
 * over more than the longest lease; a failed end counts as half of them. */
enum { DRAIN_MS = 30000, DRAIN_TTL_MS = 5000, DRAIN_WAIT_MS = 500, DRAIN_VAIN = 12 };

static void maybe_die(actor *a)
{
    if (dice_roll(&a->dice, 60) == 0)
        actor_quit(a);
}

/* ----------------------------------------------------------------------------- to put */

typedef struct planned_put {
    char mark[MARK_BYTES];
    char payload[PAYLOAD_MOST];
    size_t size;
    char group[4];
    char key[4];
    rowlock_put_options options;
} planned_put;

/* The mark, and then bytes that follow from their number. */
static size_t make_payload(const char *mark, unsigned number, char to[PAYLOAD_MOST])
{
    const size_t size = MARK_BYTES + number * 37 % (PAYLOAD_MOST - MARK_BYTES);
    memset(to, (int)('a' + number % 26), size);
    const size_t length = strlen(mark);
    memcpy(to, mark, length);
    to[length] = ';';
    return size;
}

/* Now and then one of few names; "": none. */
static void choose_name(actor *a, char word, unsigned of, char to[4])
{
    to[0] = '\0';
    if (dice_roll(&a->dice, 4) == 0)
        snprintf(to, 4, "%c%u", word, dice_roll(&a->dice, of));
}

static void plan_put(actor *a, planned_put *p)
{
    const unsigned number = ++a->writes;
    snprintf(p->mark, sizeof p->mark, "%u-%u", a->log.who, number);
    p->size = make_payload(p->mark, number, p->payload);
    choose_name(a, 'g', 3, p->group);
    choose_name(a, 'k', 4, p->key);
    p->options = (rowlock_put_options){
        .delay_ms = dice_roll(&a->dice, 4) ? 0 : dice_between(&a->dice, 10, 400),
        .priority = dice_roll(&a->dice, 3) ? 0 : dice_roll(&a->dice, 10),
        .key = *p->key ? p->key : NULL,
        .group = *p->group ? p->group : NULL,
        .attempts = 1 + dice_roll(&a->dice, 5)};
    history_log(&a->log, "put mark=%s group=%s key=%s delay=%" PRId64 " most=%u", p->mark, p->group,
                p->key, p->options.delay_ms * 1000, p->options.attempts);
}

static void put_back(actor *a, const planned_put *puts, const uint64_t *ids, unsigned count,
                     const char *status)
{
    for (unsigned i = 0; i < count && ids[i] > 0; i++)
        history_log(&a->log, "putid mark=%s id=%" PRIu64, puts[i].mark, ids[i]);
    history_log(&a->log, "puts status=%s", status);
}

static rowlock_status put_alone(actor *a, const planned_put *p, uint64_t *id)
{
    return rowlock_queue_put(a->client, a->lock, p->payload, p->size, &p->options, id, NULL);
}

static rowlock_status put_batch(actor *a, const planned_put *puts, unsigned count, uint64_t *ids)
{
    rowlock_put_entry entries[BATCH] = {{0}};
    for (unsigned i = 0; i < count; i++)
        entries[i] = (rowlock_put_entry){
            .payload = puts[i].payload, .size = puts[i].size, .options = &puts[i].options};
    return rowlock_queue_put_batch(a->client, a->lock, entries, count, ids, NULL);
}

static void put_some(actor *a)
{
    planned_put puts[BATCH];
    uint64_t ids[BATCH] = {0};
    const unsigned count = dice_roll(&a->dice, 3) ? 1 : 2 + dice_roll(&a->dice, BATCH - 1);
    for (unsigned i = 0; i < count; i++)
        plan_put(a, &puts[i]);
    const rowlock_status status =
        count == 1 ? put_alone(a, puts, ids) : put_batch(a, puts, count, ids);
    if (status != ROWLOCK_OK)
        memset(ids, 0, sizeof ids);
    put_back(a, puts, ids, count, rowlock_status_name(status));
}

/* In the user's own transaction, which is now and then rolled back. */
static void put_in_transaction(actor *a)
{
    planned_put put;
    uint64_t id = 0;
    if (!actor_begin(a))
        return;
    plan_put(a, &put);
    const rowlock_status status = rowlock_tx_queue_put(a->client, a->table, a->lock, put.payload,
                                                       put.size, &put.options, &id, NULL);
    maybe_die(a);
    const char *ended = actor_end(a, status == ROWLOCK_OK && dice_roll(&a->dice, 3) > 0);
    if (strcmp(ended, "OK") != 0)
        id = 0;
    put_back(a, &put, &id, 1, status == ROWLOCK_OK ? ended : "NONE");
}

/* ---------------------------------------------------------------------------- to take */

/* Reads the mark from the payload; "?": it is not the payload that was put. */
static void read_mark(const rowlock_item *item, char mark[MARK_BYTES])
{
    char wanted[PAYLOAD_MOST];
    const char *payload = rowlock_item_payload(item);
    const size_t size = rowlock_item_size(item);
    const size_t length = strcspn(payload, ";");
    snprintf(mark, MARK_BYTES, "%.*s", (int)length, payload);
    const char *dash = strchr(mark, '-');
    const unsigned number = dash ? (unsigned)strtoul(dash + 1, NULL, 10) : 0;
    if (!dash || make_payload(mark, number, wanted) != size || memcmp(wanted, payload, size) != 0)
        snprintf(mark, MARK_BYTES, "?");
}

static void item_lost(void *data, rowlock_item *item, const char *reason)
{
    (void)item;
    actor_on_lost(data, NULL, reason);
}

static int64_t how_long_to_wait(actor *a)
{
    const unsigned roll = dice_roll(&a->dice, 8);
    return roll < 3 ? 0 : roll < 7 ? dice_between(&a->dice, 50, 300) : 4000;
}

static unsigned take_some(actor *a, unsigned most, int64_t wait_ms, int64_t ttl_ms,
                          rowlock_item **items)
{
    const rowlock_take_options options = {
        .wait_ms = wait_ms, .ttl_ms = ttl_ms, .on_lost = item_lost, .on_lost_data = a};
    size_t count = 0;
    history_log(&a->log, "take wait=%" PRId64, wait_ms * 1000);
    rowlock_status status;
    if (most == 1) {
        status = rowlock_queue_take(a->client, a->lock, &options, items, NULL);
        count = 1;
    } else {
        status = rowlock_queue_take_batch(a->client, a->lock, most, &options, items, &count, NULL);
    }
    if (status != ROWLOCK_OK)
        count = 0;
    for (size_t i = 0; i < count; i++) {
        char mark[MARK_BYTES];
        read_mark(items[i], mark);
        history_log(&a->log, "took id=%" PRIu64 " token=%" PRIu64 " attempt=%u mark=%s",
                    rowlock_item_id(items[i]), rowlock_item_token(items[i]),
                    rowlock_item_attempt(items[i]), mark);
    }
    history_log(&a->log, "taken status=%s", rowlock_status_name(status));
    return (unsigned)count;
}

static bool still_ours(actor *a, const rowlock_item *item)
{
    const int64_t from = history_now();
    /* In this order, so that the remaining time was promised while it was still held. */
    const int64_t remaining_ms = rowlock_item_remaining_ms(item);
    const rowlock_status status = rowlock_item_check(item, NULL);
    history_log(&a->log, "still id=%" PRIu64 " from=%" PRId64 " status=%s remaining=%" PRId64,
                rowlock_item_id(item), from, rowlock_status_name(status), remaining_ms * 1000);
    return status == ROWLOCK_OK;
}

/* Works; now and then for longer than a lease lasts without a renewal. */
static void work_on(actor *a, rowlock_item *const items[], unsigned count)
{
    const int64_t ms = dice_roll(&a->dice, 15) ? dice_between(&a->dice, 0, 60)
                                               : dice_between(&a->dice, a->ttl_ms, 2 * a->ttl_ms);
    const int64_t end = history_now() + ms * 1000;
    do {
        for (unsigned i = 0; i < count; i++)
            (void)still_ours(a, items[i]);
        actor_pass_ms(dice_between(&a->dice, 3, 20));
    } while (history_now() < end && !actor_told_to_stop());
}

/* --------------------------------------------------------------------- how it has ended */

static void log_give(actor *a, const char *verb, uint64_t id, int64_t delay_ms)
{
    history_log(&a->log, "give verb=%s id=%" PRIu64 " delay=%" PRId64, verb, id, delay_ms * 1000);
}

static void log_gave(actor *a, uint64_t id, const char *status)
{
    history_log(&a->log, "gave id=%" PRIu64 " status=%s", id, status);
}

static rowlock_status end_alone(actor *a, rowlock_item *item, const char *verb)
{
    const uint64_t id = rowlock_item_id(item);
    const bool retries = strcmp(verb, "retry") == 0;
    const rowlock_retry_options options = {.delay_ms = retries ? dice_between(&a->dice, 1, 200) : 0,
                                           .reason = "a run"};
    rowlock_status status;
    log_give(a, verb, id, options.delay_ms);
    if (retries)
        status = rowlock_item_retry(item, &options, NULL);
    else if (strcmp(verb, "dead") == 0)
        status = rowlock_item_dead(item, "a run", NULL);
    else if (strcmp(verb, "release") == 0)
        status = rowlock_item_release(item, NULL);
    else
        status = rowlock_item_done(item, NULL);
    log_gave(a, id, rowlock_status_name(status));
    return status;
}

static void done_together(actor *a, rowlock_item *const items[], unsigned count)
{
    uint64_t ids[BATCH];
    rowlock_status statuses[BATCH];
    for (unsigned i = 0; i < count; i++) {
        ids[i] = rowlock_item_id(items[i]);
        log_give(a, "done", ids[i], 0);
    }
    (void)!rowlock_item_done_batch(items, count, statuses, NULL);
    for (unsigned i = 0; i < count; i++)
        log_gave(a, ids[i], rowlock_status_name(statuses[i]));
}

/* The work and its done, in one transaction, which is now and then open for longer than a lease
 * lasts without a renewal, or is rolled back. */
static void do_job(actor *a, rowlock_item *item)
{
    const uint64_t id = rowlock_item_id(item);
    char mark[MARK_BYTES];
    read_mark(item, mark);
    if (!actor_begin(a)) {
        rowlock_item_forget(item);
        return;
    }
    log_give(a, "job", id, 0);
    rowlock_status status = ROWLOCK_UNAVAILABLE;
    if (actor_sql(a, "INSERT INTO queue_job (mark, token) VALUES ('%s', %" PRIu64 ")", mark,
                  rowlock_item_token(item)))
        status =
            rowlock_tx_queue_done(a->client, a->table, a->lock, id, rowlock_item_token(item), NULL);
    maybe_die(a);
    if (status == ROWLOCK_OK && dice_roll(&a->dice, 5) == 0)
        actor_pass_ms(dice_between(&a->dice, 20, a->ttl_ms * 3 / 2));
    const char *ended = actor_end(a, status == ROWLOCK_OK && dice_roll(&a->dice, 4) > 0);
    const bool refused = status != ROWLOCK_OK && status != ROWLOCK_UNKNOWN;
    log_gave(a, id, refused ? rowlock_status_name(status) : ended);
    if (strcmp(ended, "NONE") == 0 && dice_roll(&a->dice, 2))
        end_alone(a, item, "done");
    else
        rowlock_item_forget(item);
}

/* Closes the client: whether that reaches the server is unknown. */
static void close_client(actor *a, rowlock_item *const items[], unsigned count)
{
    uint64_t ids[BATCH];
    for (unsigned i = 0; i < count; i++) {
        ids[i] = rowlock_item_id(items[i]);
        log_give(a, "close", ids[i], 0);
    }
    rowlock_client_close(a->client);
    a->client = NULL;
    for (unsigned i = 0; i < count; i++)
        log_gave(a, ids[i], "UNKNOWN");
}

static void end_one(actor *a, rowlock_item *item)
{
    const unsigned roll = dice_roll(&a->dice, 100);
    if (roll < 25)
        (void)end_alone(a, item, "done");
    else if (roll < 65)
        do_job(a, item);
    else if (roll < 83)
        (void)end_alone(a, item, "retry");
    else if (roll < 88)
        (void)end_alone(a, item, "dead");
    else if (roll < 95)
        (void)end_alone(a, item, "release");
    else
        rowlock_item_forget(item);
    maybe_die(a);
}

static void work_through(actor *a, rowlock_item *const items[], unsigned count)
{
    maybe_die(a);
    work_on(a, items, count);
    const unsigned roll = dice_roll(&a->dice, 100);
    if (roll < 4) {
        actor_quit(a);
    } else if (roll < 8) {
        close_client(a, items, count);
    } else if (roll < 40) {
        done_together(a, items, count);
    } else {
        for (unsigned i = 0; i < count; i++)
            end_one(a, items[i]);
    }
}

void queue_cycle(actor *a)
{
    rowlock_item *items[BATCH];
    if (!actor_open_client(a)) {
        actor_pass_ms(100);
        return;
    }
    const unsigned roll = dice_roll(&a->dice, 100);
    if (roll < 25) {
        put_some(a);
    } else if (roll < 40) {
        put_in_transaction(a);
    } else {
        const unsigned most = dice_roll(&a->dice, 2) ? 1 : 1 + dice_roll(&a->dice, BATCH);
        const unsigned count = take_some(a, most, how_long_to_wait(a), a->ttl_ms, items);
        if (count > 0)
            work_through(a, items, count);
    }
    maybe_die(a);
    actor_pass_ms(dice_between(&a->dice, 0, 20));
}

static bool more_comes(const actor *a)
{
    rowlock_queue_info info;
    const rowlock_status status = rowlock_queue_get(a->client, a->lock, &info, NULL);
    return status == ROWLOCK_OK ? info.next_ms >= 0 : status != ROWLOCK_NOT_FOUND;
}

/* Each item that is left can be taken, in its time, and done. (One by one: in a run whose groups
 * are broken, a batch with two of one group would wait for itself.) If none is to come, one more
 * take makes used-up items dead. */
void queue_probe(actor *a)
{
    const int64_t end = history_now() + DRAIN_MS * 1000;
    for (unsigned vain = 0; vain < DRAIN_VAIN && history_now() < end;) {
        rowlock_item *item;
        const bool more = more_comes(a);
        if (take_some(a, 1, more ? DRAIN_WAIT_MS : 0, DRAIN_TTL_MS, &item) > 0)
            vain = end_alone(a, item, "done") == ROWLOCK_OK ? 0 : vain + DRAIN_VAIN / 2;
        else if (more || more_comes(a))
            vain++;
        else
            return;
    }
}
