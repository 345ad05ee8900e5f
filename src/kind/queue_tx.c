/* Queues in the caller's own transaction: an item is put, or done, when that commits. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "kind/queue.h"
#include "kind/transaction.h"

typedef struct tx_call {
    rowlock_client *client;
    rl_budget budget;
    rl_caller caller;
    const char *queue;
    uint64_t queue_id;
} tx_call;

static tx_call call_of(rowlock_client *client, MYSQL *mysql, const char *queue)
{
    return (tx_call){.client = client,
                     .budget = rl_budget_start(client->limit_ms, client->limit_ms, NULL),
                     .caller = rl_tx_caller(client, mysql),
                     .queue = queue};
}

/* One statement of several. `text` may be NULL. */
static rowlock_status run(const tx_call *call, rl_sql_id id, const rl_value *values, uint64_t *rows,
                          char *text, size_t size, rowlock_error *err)
{
    const rl_io io = rl_budget_lock_io(&call->budget);
    *rows = 0;
    return rl_caller_run(&call->caller, id, values, &io, rows, text, size, err);
}

static rowlock_status as_a_whole(const tx_call *call, rl_tx_steps steps, void *data,
                                 rowlock_error *err)
{
    const rl_io io = rl_budget_lock_io(&call->budget);
    return rl_tx_whole(&call->caller, &io, steps, data, err);
}

/* What the call says, now that its last statement has run. */
static rowlock_status outcome(const tx_call *call, rowlock_status status, rowlock_error *err)
{
    if (status == ROWLOCK_NOT_FOUND || status == ROWLOCK_LOST)
        return status;
    status = rl_tx_outcome(&call->caller, call->queue, status, err);
    /* BUSY without a number is not the server's answer: somebody has stopped the statement. */
    if (status == ROWLOCK_TIMEOUT || (status == ROWLOCK_BUSY && err->server_errno))
        return rl_fail(err, ROWLOCK_BUSY,
                       "'%s': another transaction has the same item, key or group", call->queue);
    return status == ROWLOCK_UNKNOWN ? rl_tx_gone(call->queue, err) : status;
}

/* The bytes as two digits each. */
static bool put_digits(rl_buffer *to, const char *bytes, size_t size)
{
    static const char digits[] = "0123456789ABCDEF";
    char pair[2];
    rl_buffer_puts(to, "");
    for (size_t i = 0; i < size && !to->failed; i++) {
        pair[0] = digits[(unsigned char)bytes[i] >> 4];
        pair[1] = digits[(unsigned char)bytes[i] & 15];
        rl_buffer_append(to, pair, 2);
    }
    return !to->failed;
}

/* ----------------------------------------------------------------------------------- put */

typedef struct putting {
    tx_call call;
    const rowlock_put_options *options;
    const char *item_key; /* this, payload, name and group: as hex digits */
    const char *payload;
    const char *name;
    const char *group;
    uint64_t item;
} putting;

static rowlock_status purged(const putting *p, rowlock_error *err)
{
    rl_resource_forget(p->call.client, p->call.queue);
    return rl_fail(err, ROWLOCK_NOT_FOUND, "'%s' was purged just now", p->call.queue);
}

/* The OK packet's id may be 0 (the table has a trigger for UPDATE, somebody's audit, and the item
 * was there), or another statement's (a KILL QUERY of ours came too late). */
static rowlock_status find_row(putting *p, rowlock_error *err)
{
    const rl_value values[] = {rl_u64(p->call.queue_id), rl_text(p->item_key)};
    char item[24] = "";
    uint64_t rows = 0;
    RL_TRY(run(&p->call, RL_SQL_CALLER_QUEUE_FIND, values, &rows, item, sizeof item, err));
    p->item = strtoull(item, NULL, 10);
    return p->item != 0 ? ROWLOCK_OK : purged(p, err);
}

static rowlock_status put_row(putting *p, rl_sql_id id, const char *where, rowlock_error *err)
{
    const rowlock_put_options *o = p->options;
    const rl_value values[] = {rl_u64(p->call.queue_id),
                               rl_text(where),
                               rl_u64(ROWLOCK_PRIORITY_MAX - o->priority),
                               rl_u64((uint64_t)o->at_us),
                               rl_u64((uint64_t)o->delay_ms * 1000),
                               rl_u64(o->attempts ? o->attempts : ROWLOCK_QUEUE_ATTEMPTS),
                               rl_text(p->item_key),
                               rl_text(p->payload)};
    uint64_t rows = 0;
    rowlock_status status = run(&p->call, id, values, &rows, NULL, 0, err);
    if (rl_resource_unread(status, err))
        return purged(p, err);
    if (status != ROWLOCK_OK)
        return status;
    /* The id also comes for an item that was there, although that counts as no changed row. */
    p->item = rl_caller_insert_id(&p->call.caller);
    return p->item != 0 ? ROWLOCK_OK : find_row(p, err);
}

static rowlock_status put_grouped(void *data, rowlock_error *err)
{
    putting *p = data;
    const uint64_t id = p->call.queue_id;
    const rl_value enter[] = {rl_text(p->group), rl_u64(id), rl_text(p->name)};
    const rl_value leave[] = {rl_u64(id), rl_text(p->group)};
    uint64_t rows = 0;
    RL_TRY(run(&p->call, RL_SQL_CALLER_GROUP_ENTER, enter, &rows, NULL, 0, err));
    if (rows == 0)
        return purged(p, err);
    RL_TRY(put_row(p, RL_SQL_CALLER_QUEUE_PUT_GROUPED, p->group, err));
    const rl_value head[] = {rl_u64(p->item), rl_u64(id), rl_text(p->group)};
    RL_TRY(run(&p->call, RL_SQL_CALLER_GROUP_HEAD, head, &rows, NULL, 0, err));
    if (rows > 0)
        return ROWLOCK_OK;
    return run(&p->call, RL_SQL_CALLER_GROUP_LEAVE, leave, &rows, NULL, 0, err);
}

static rowlock_status put(putting *p, const rowlock_put_entry *entry, rowlock_error *err)
{
    RL_CLEANUP(rl_buffer_free) rl_buffer payload = {0};
    char item_key[RL_ITEM_KEY_MAX + 1];
    char key_digits[RL_ITEM_KEY_MAX * 2 + 1];
    char name_digits[ROWLOCK_NAME_MAX * 8 + 1];
    char group_digits[ROWLOCK_NAME_MAX * 8 + 1];
    if (!put_digits(&payload, entry->payload, entry->size))
        return rl_fail(err, ROWLOCK_SYSTEM, "out of memory");
    rl_item_key(p->call.client, p->options->key, item_key);
    rl_put_hex(key_digits, item_key);
    rl_put_hex(name_digits, p->call.queue);
    rl_put_hex(group_digits, p->options->group ? p->options->group : "");
    p->item_key = key_digits;
    p->payload = payload.text;
    p->name = name_digits;
    p->group = group_digits;
    rowlock_status status = p->options->group
                                ? as_a_whole(&p->call, put_grouped, p, err)
                                : put_row(p, RL_SQL_CALLER_QUEUE_PUT, name_digits, err);
    return outcome(&p->call, status, err);
}

rowlock_status rl_tx_queue_put(rowlock_client *client, MYSQL *mysql, const char *queue,
                               const rowlock_put_entry *entry, uint64_t *id, rowlock_error *err)
{
    static const rowlock_put_options defaults = {0};
    putting p = {.options = entry->options ? entry->options : &defaults};
    rowlock_error spare = {0};
    err = rl_error_or(err, &spare);
    RL_TRY(rl_queue_check(client, err));
    p.call = call_of(client, mysql, queue);
    RL_TRY(rl_resource_id(client, &p.call.budget, queue, RL_KIND_QUEUE, &p.call.queue_id, err));
    RL_TRY(put(&p, entry, err));
    *id = p.item;
    return ROWLOCK_OK;
}

/* ---------------------------------------------------------------------------------- done */

typedef struct ending {
    tx_call call;
    uint64_t item;
    uint64_t token;
} ending;

static rowlock_status lost(const ending *e, rowlock_error *err)
{
    return rl_fail(err, ROWLOCK_LOST,
                   "item %" PRIu64 " of '%s' is not held with token %" PRIu64
                   " any more; roll back (it was done already, or delivered again)",
                   e->item, e->call.queue, e->token);
}

/* No look is needed after these: a KILL QUERY ends each of them with an error. */
static rowlock_status leave_group(const ending *e, const char *group, rowlock_error *err)
{
    const tx_call *call = &e->call;
    const rl_value which[] = {rl_u64(call->queue_id), rl_text(group), rl_u64(e->item)};
    char followed[2] = "";
    char next[24] = "";
    uint64_t rows = 0;
    RL_TRY(run(call, RL_SQL_CALLER_GROUP_LOCK, which, &rows, followed, sizeof followed, err));
    if (*followed == '1')
        RL_TRY(run(call, RL_SQL_CALLER_GROUP_NEXT, which, &rows, next, sizeof next, err));
    const rl_value promote[] = {rl_u64(strtoull(next, NULL, 10)), rl_u64(call->queue_id),
                                rl_text(group), rl_u64(e->item)};
    if (*next)
        RL_TRY(run(call, RL_SQL_CALLER_GROUP_PROMOTE, promote, &rows, NULL, 0, err));
    else
        RL_TRY(run(call, RL_SQL_CALLER_GROUP_END, which, &rows, NULL, 0, err));
    if (rows > 0)
        return ROWLOCK_OK;
    return rl_fail(err, ROWLOCK_BUSY, "the group of item %" PRIu64 " of '%s' could not be read",
                   e->item, call->queue);
}

static rowlock_status done_grouped(void *data, rowlock_error *err)
{
    const ending *e = data;
    const rl_value values[] = {rl_u64(e->item), rl_u64(e->call.queue_id), rl_u64(e->token)};
    char group[ROWLOCK_NAME_MAX * 8 + 1] = "";
    uint64_t rows = 0;
    RL_TRY(run(&e->call, RL_SQL_CALLER_QUEUE_GROUP, values, &rows, group, sizeof group, err));
    if (rows > 0)
        RL_TRY(run(&e->call, RL_SQL_CALLER_QUEUE_DONE_GROUPED, values, &rows, NULL, 0, err));
    if (rows == 0)
        return lost(e, err);
    return leave_group(e, group, err);
}

static rowlock_status done(ending *e, rowlock_error *err)
{
    const rl_value values[] = {rl_u64(e->item), rl_u64(e->call.queue_id), rl_u64(e->token)};
    uint64_t rows = 0;
    RL_TRY(run(&e->call, RL_SQL_CALLER_QUEUE_DONE, values, &rows, NULL, 0, err));
    return rows > 0 ? ROWLOCK_OK : as_a_whole(&e->call, done_grouped, e, err);
}

rowlock_status rl_tx_queue_done(rowlock_client *client, MYSQL *mysql, const char *queue,
                                uint64_t item, uint64_t token, rowlock_error *err)
{
    ending e = {.call = call_of(client, mysql, queue), .item = item, .token = token};
    rowlock_error spare = {0};
    err = rl_error_or(err, &spare);
    RL_TRY(rl_queue_check(client, err));
    RL_TRY(rl_resource_known(client, &e.call.budget, queue, RL_KIND_QUEUE, &e.call.queue_id, err));
    return outcome(&e.call, done(&e, err), err);
}
