#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uuid/uuid.h>

#include "api/client.h"
#include "api/options.h"
#include "base/text.h"
#include "engine/client.h"
#include "engine/hold.h"
#include "kind/lease.h"
#include "kind/queue.h"
#include "kind/quorum.h"
#include "migrate/schema.h"
#include "stmt/session.h"
#include "wait/reach.h"

#define MAX_IDLE_DEFAULT  8
#define OUTAGE_DEFAULT_MS 60000

/* Closing: for releases that fail, in all, and then for the last history. */
#define GIVE_BACK_LIMIT_MS 3000
#define HISTORY_LIMIT_MS   2000
#define DEAD_LIMIT_MS      1000 /* the same, if releases got no answer */

/* How far opening came; closing undoes just that. */
typedef enum opened {
    OPENED_NOTHING,
    OPENED_POOL,
    OPENED_JOURNAL,
    OPENED_NAMES,
    OPENED_BELLS,
    OPENED_KEEPER
} opened;

static void close_members(rowlock_client *client, bool forked);

static void undo(rowlock_client *client, opened done, bool forked)
{
    if (done >= OPENED_KEEPER)
        rl_keeper_stop(&client->keeper, forked);
    if (done >= OPENED_BELLS)
        rl_bells_destroy(&client->bells, forked);
    if (done >= OPENED_NAMES)
        rl_names_destroy(&client->names, forked);
    if (done >= OPENED_JOURNAL)
        rl_journal_destroy(&client->journal, forked);
    if (done >= OPENED_POOL)
        rl_pool_destroy(&client->pool, forked);
    close_members(client, forked);
    if (!forked)
        pthread_mutex_destroy(&client->mutex);
    free(client);
}

/* A label that ends as those do which a procedure has written has the login behind it, too: `break`
 * ends no connection but one of the user that such a label names (connection_is_holders). */
static void sign_label(rowlock_client *client)
{
    size_t length = strlen(client->label);
    if (length == 0 || client->label[length - 1] != ']' || rl_client_via(client))
        return;
    char sign[sizeof client->user + sizeof " []"];
    int size = snprintf(sign, sizeof sign, " [%s]", client->user);
    char label[sizeof client->label];
    rl_copy_label(label, sizeof label - (size_t)size, client->label);
    length = strlen(label);
    memcpy(client->label, label, length);
    memcpy(client->label + length, sign, (size_t)size + 1);
}

/* No bell has been asked for yet. */
static rowlock_status name_schema(rowlock_client *client, rl_conn *conn, const rl_io *io,
                                  rowlock_error *err)
{
    rowlock_status status = rl_session_name_schema(conn, &client->pool.params, io, err);
    snprintf(client->schema, sizeof client->schema, "%s", client->pool.params.schema);
    rl_bell_prefix(client->schema, client->bells.prefix);
    return status;
}

/* What the first connection tells about this server and this user. */
static void settle_in(rowlock_client *client, const rl_conn *conn)
{
    snprintf(client->user, sizeof client->user, "%s", conn->mysql->user ? conn->mysql->user : "");
    sign_label(client);
    if (rl_server_why_no_bell(&conn->server, client->single_writer))
        atomic_store(&client->bells.polls, true);
}

/* Is this a server and a schema to work with? */
static rowlock_status look_at_server(rowlock_client *client, const rl_budget *budget,
                                     rowlock_error *err)
{
    rl_io io = rl_budget_quick_io(budget);
    RL_BORROWED conn = NULL;
    RL_TRY(rl_pool_take(&client->pool, NULL, &io, &conn, err));
    rowlock_status status = rl_server_check(&conn->server, err);
    /* Another attempt asks anew. */
    conn->demoted = conn->demoted || status == ROWLOCK_READONLY;
    RL_TRY(status);
    RL_TRY(name_schema(client, conn, &io, err));
    RL_TRY(rl_schema_check(conn, client->schema, &io, err));
    settle_in(client, conn);
    return ROWLOCK_OK;
}

/* Who has no right in a schema is not told whether it is there. `init` and `grants`: what stands
 * before these words in the commands. */
static rowlock_status hidden_schema(const rowlock_client *client, const char *init,
                                    const char *grants, rowlock_error *err)
{
    return rl_fail_again(err, ROWLOCK_DENIED,
                         "the schema '%s' is missing, or this user has no rights in it: an "
                         "administrator runs `rowlock%s init`, then the GRANTs that `rowlock%s "
                         "grants USER@HOST` prints",
                         client->schema, init, grants);
}

static rowlock_status hidden_procedures(const rowlock_client *client, const char *init,
                                        rowlock_error *err)
{
    return rl_fail_again(err, ROWLOCK_DENIED,
                         "the schema '%s' is missing, or this user may not EXECUTE rowlock's "
                         "procedures in it: an administrator runs `rowlock%s init --procedures`, "
                         "then GRANT EXECUTE",
                         client->schema, init);
}

static rowlock_status explain(const rowlock_client *client, rowlock_status status,
                              rowlock_error *err)
{
    char where[RL_DASH_D_SIZE];
    rl_schema_dash_d(client->schema, where);
    if (status == ROWLOCK_SCHEMA && err && err->server_errno == 1049)
        return rl_fail_again(err, status,
                             "there is no schema '%s' on the server; an administrator runs "
                             "`rowlock%s init` once",
                             client->schema, where);
    if (status == ROWLOCK_DENIED && err && err->server_errno == 1044)
        return rl_client_via(client) ? hidden_procedures(client, where, err)
                                     : hidden_schema(client, where, where, err);
    if (status == ROWLOCK_UNKNOWN || status == ROWLOCK_TIMEOUT)
        return rl_fail(err, ROWLOCK_UNAVAILABLE, "the connection to the server was lost");
    return status;
}

static rowlock_status reach_one(rowlock_client *client, const rl_budget *budget, rowlock_error *err)
{
    return explain(client, look_at_server(client, budget, err), err);
}

/* What `rowlock init` makes, quorum init and rejoin make there, and let it vote. */
static rowlock_status reach_member(rowlock_client *client, const rl_budget *budget,
                                   rowlock_error *err)
{
    rowlock_status status = reach_one(client, budget, err);
    char *advice = status == ROWLOCK_SCHEMA && err
                       ? strstr(err->message, "; an administrator runs `rowlock")
                       : NULL;
    if (advice)
        snprintf(advice, sizeof err->message - (size_t)(advice - err->message),
                 "; run `rowlock quorum init`, or of a member that was rebuilt `rowlock quorum "
                 "rejoin`");
    if (status == ROWLOCK_DENIED && err && err->server_errno == 1044)
        return hidden_schema(client, " quorum", "", err);
    return status;
}

typedef struct first_look {
    rowlock_client *client;
    rowlock_cancel *cancel;
} first_look;

static rowlock_status try_to_look(void *data, int64_t limit_ms, rowlock_error *err)
{
    const first_look *first = data;
    rl_budget budget = rl_budget_start(0, limit_ms, first->cancel);
    if (first->client->quorum)
        return rl_members_reach(first->client->quorum, &budget, err);
    return reach_one(first->client, &budget, err);
}

static rowlock_status reach_server(rowlock_client *client, rowlock_cancel *cancel,
                                   rowlock_error *err)
{
    first_look first = {client, cancel};
    const rl_reach how = {.retry_ms = client->pool.params.retry_ms,
                          .limit_ms = client->limit_ms,
                          .cancel = cancel,
                          .log = &client->log};
    return rl_reach_server(&how, try_to_look, &first, err);
}

/* All that needs no server. */
static rowlock_status prepare(rowlock_client *client, const rowlock_client_options *options,
                              rl_params *params, opened *done, rowlock_error *err)
{
    unsigned max_idle = options->max_idle ? options->max_idle : MAX_IDLE_DEFAULT;
    rl_pool_init(&client->pool, params, &rl_stmt_pool_hooks, max_idle);
    *done = OPENED_POOL;
    RL_TRY(rl_journal_init(&client->journal, options->no_history,
                           rl_options_history_min_us(options), err));
    *done = OPENED_JOURNAL;
    RL_TRY(rl_names_init(&client->names, err));
    *done = OPENED_NAMES;
    RL_TRY(rl_bells_init(&client->bells, &client->pool, &client->log, err));
    *done = OPENED_BELLS;
    return ROWLOCK_OK;
}

static rowlock_status keep(rowlock_client *client, rl_renew renew, opened *done, rowlock_error *err)
{
    const rl_keeping keeping = {renew, rl_asks_look_at, rl_ask_read_one};
    RL_TRY(rl_keeper_start(&client->keeper, &client->pool, &client->journal, &keeping, client->log,
                           err));
    *done = OPENED_KEEPER;
    return ROWLOCK_OK;
}

static void describe(rowlock_client *client, const rowlock_client_options *options,
                     const rl_params *params, rowlock_waiting waiting)
{
    uuid_t uuid;
    uuid_generate(uuid);
    uuid_unparse_lower(uuid, client->uuid);
    client->pid = getpid();
    client->log = (rl_log){.fn = options->log, .data = options->log_data};
    client->single_writer = options->single_writer;
    client->limit_ms = params->connect_timeout_ms;
    client->outage_us = (options->reconnect_ms ? options->reconnect_ms : OUTAGE_DEFAULT_MS) * 1000;
    snprintf(client->schema, sizeof client->schema, "%s", params->schema);
    atomic_init(&client->bells.polls, waiting == ROWLOCK_WAITING_POLL);
    rl_options_label(options->label, client->label, sizeof client->label);
    pthread_mutex_init(&client->mutex, NULL);
}

/* Of that server; `reaches`: it must be there now. Takes the params over. */
static rowlock_status make_client(const rowlock_client_options *options, rl_params *params,
                                  rowlock_waiting waiting, bool reaches, rowlock_client **out,
                                  rowlock_error *err)
{
    rowlock_client *client = calloc(1, sizeof *client);
    if (!client) {
        rl_params_free(params);
        return rl_fail(err, ROWLOCK_SYSTEM, "out of memory");
    }
    describe(client, options, params, waiting);
    opened done = OPENED_NOTHING;
    rowlock_status status = prepare(client, options, params, &done, err);
    if (status == ROWLOCK_OK && reaches)
        status = reach_server(client, options->cancel, err);
    if (status == ROWLOCK_OK)
        status = keep(client, rl_lease_renew, &done, err);
    if (status == ROWLOCK_OK)
        *out = client;
    else
        undo(client, done, false);
    return status;
}

/* ---------------------------------------------------------------------------- a quorum */

static rowlock_status check_members(const rowlock_client_options *options, rowlock_error *err)
{
    const size_t count = options->member_count;
    if (!options->members || count < ROWLOCK_MEMBERS_MIN || count > ROWLOCK_MEMBERS_MAX ||
        count % 2 == 0)
        return rl_fail(err, ROWLOCK_INVALID, "a quorum has %d, 5, 7 or %d members, not %zu",
                       ROWLOCK_MEMBERS_MIN, ROWLOCK_MEMBERS_MAX, options->members ? count : 0);
    for (size_t i = 0; i < count; i++)
        if (!options->members[i])
            return rl_fail(err, ROWLOCK_INVALID, "member %zu has no URL (NULL)", i + 1);
    if (options->url || options->host || options->port || options->socket)
        return rl_fail(err, ROWLOCK_INVALID,
                       "a client has either members or one server (url, host, port, socket)");
    return ROWLOCK_OK;
}

/* For people: without user and password. */
static void name_member(const rl_params *params, char *where, size_t size)
{
    const char *host = params->host ? params->host : "localhost";
    if (params->socket)
        snprintf(where, size, "%s", params->socket);
    else if (params->port)
        snprintf(where, size, "%s:%u", host, params->port);
    else
        snprintf(where, size, "%s", host);
}

#define WHERE_MAX 300

static rowlock_status make_member(const rowlock_client_options *options, size_t i,
                                  char where[WHERE_MAX], rowlock_client **out, rowlock_error *err)
{
    rowlock_client_options own = *options;
    rl_params params;
    rowlock_waiting waiting;
    own.url = options->members[i];
    own.members = NULL;
    own.member_count = 0;
    rowlock_status status = rl_options_params(&own, &params, &waiting, err);
    if (status != ROWLOCK_OK) {
        rl_error_prefix(err, "member %zu: ", i + 1);
        return status;
    }
    name_member(&params, where, WHERE_MAX);
    if (params.via) {
        rl_params_free(&params);
        return rl_fail(err, ROWLOCK_UNSUPPORTED,
                       "a quorum works on the tables; there are no procedures for it (via)");
    }
    RL_TRY(make_client(&own, &params, waiting, false, out, err));
    atomic_store(&(*out)->away, true);
    return ROWLOCK_OK;
}

static rowlock_status make_members(rowlock_client *client, const rowlock_client_options *options,
                                   rowlock_error *err)
{
    char where[ROWLOCK_MEMBERS_MAX][WHERE_MAX];
    const char *places[ROWLOCK_MEMBERS_MAX];
    client->members = calloc(options->member_count, sizeof(rowlock_client *));
    if (!client->members)
        return rl_fail(err, ROWLOCK_SYSTEM, "out of memory");
    for (size_t i = 0; i < options->member_count; i++) {
        RL_TRY(make_member(options, i, where[i], &client->members[i], err));
        client->member_count++;
        places[i] = where[i];
        rowlock_client *member = client->members[i];
        if (member->limit_ms > client->limit_ms)
            client->limit_ms = member->limit_ms;
        if (member->pool.params.retry_ms > client->pool.params.retry_ms)
            client->pool.params.retry_ms = member->pool.params.retry_ms;
    }
    client->quorum = rl_members_new(client->members, places, client->member_count,
                                    options->require_all, reach_member);
    return client->quorum ? ROWLOCK_OK
                          : rl_fail(err, ROWLOCK_SYSTEM, "out of memory or descriptors");
}

static void close_members(rowlock_client *client, bool forked)
{
    if (client->quorum)
        rl_members_stop(client->quorum, forked);
    for (size_t i = 0; i < client->member_count; i++)
        rowlock_client_close(client->members[i]);
    rl_members_free(client->quorum, forked);
    free(client->members);
}

rowlock_status rl_client_of_members(const rowlock_client_options *options, rowlock_client **out,
                                    rowlock_error *err)
{
    opened done = OPENED_NOTHING;
    RL_TRY(check_members(options, err));
    rowlock_client *client = calloc(1, sizeof *client);
    rl_params params = {.schema = rl_strdup("")};
    if (!client || !params.schema) {
        free(client);
        rl_params_free(&params);
        return rl_fail(err, ROWLOCK_SYSTEM, "out of memory");
    }
    describe(client, options, &params, ROWLOCK_WAITING_POLL);
    rowlock_status status = prepare(client, options, &params, &done, err);
    if (status == ROWLOCK_OK)
        status = make_members(client, options, err);
    if (status == ROWLOCK_OK)
        status = keep(client, rl_quorum_renew, &done, err);
    if (status == ROWLOCK_OK)
        *out = client;
    else
        undo(client, done, false);
    return status;
}

static rowlock_status open_quorum(const rowlock_client_options *options, rowlock_client **out,
                                  rowlock_error *err)
{
    rowlock_client *client = NULL;
    RL_TRY(rl_client_of_members(options, &client, err));
    rowlock_status status = reach_server(client, options->cancel, err);
    if (status == ROWLOCK_OK)
        *out = client;
    else
        rowlock_client_close(client);
    return status;
}

static rowlock_status open_one(const rowlock_client_options *options, rowlock_client **out,
                               rowlock_error *err)
{
    rl_params params;
    rowlock_waiting waiting;
    RL_TRY(rl_options_params(options, &params, &waiting, err));
    return make_client(options, &params, waiting, true, out, err);
}

rowlock_status rowlock_client_open(const rowlock_client_options *given, rowlock_client **out,
                                   rowlock_error *err)
{
    static const rowlock_client_options defaults = {0};
    const rowlock_client_options *options = given ? given : &defaults;
    rowlock_client *client = NULL;
    RL_TRY(rl_place_check(out, "the client", err));
    RL_TRY(options->members || options->member_count ? open_quorum(options, &client, err)
                                                     : open_one(options, &client, err));
    rl_log_line(&client->log, ROWLOCK_LOG_DEBUG, "client %s (%s) is open", client->uuid,
                client->label);
    *out = client;
    return ROWLOCK_OK;
}

/* In the child: nothing may reach the server, no mutex may be taken. */
static void forget_holds(rowlock_client *client)
{
    while (client->items) {
        rowlock_item *item = client->items;
        client->items = item->next;
        rl_item_free(item);
    }
    while (client->holds) {
        rowlock_hold *hold = client->holds;
        client->holds = hold->next;
        rl_conn_forget(hold->held.conn);
        rl_grant_forget(hold->grant);
        /* With the last of its parts the whole goes. */
        if (hold->whole && --hold->whole->parts->count == 0)
            rl_hold_free(hold->whole);
        rl_hold_free(hold);
    }
}

/* Without a word to the server. A row lock ends with its connection, a lease with its TTL. */
static void abandon(rowlock_hold *hold)
{
    for (size_t i = 0; hold->parts && i < hold->parts->count; i++)
        abandon(hold->parts->list[i]);
    if (hold->parts) {
        rl_hold_free(hold);
        return;
    }
    rl_hold_end(hold);
    rl_hold_was_left(hold);
    rl_quorum_abandon(hold);
    rl_conn_drop(hold->held.conn);
    rl_hold_free(hold);
}

/*
 * No other thread is in a call on this client, and nothing is told of any more: the list is
 * ours alone. A dead server keeps us waiting once, not for every hold; one that answers, however
 * slowly, is given all of them. False: it was dead.
 */
static bool release_holds(rowlock_client *client)
{
    const int64_t limit_ms = client->limit_ms;
    int64_t left_ms = GIVE_BACK_LIMIT_MS;
    unsigned abandoned = 0;
    for (rowlock_hold *hold; (hold = client->holds);) {
        hold = hold->whole ? hold->whole : hold;
        if (left_ms <= 0) {
            abandon(hold);
            abandoned++;
            continue;
        }
        int64_t start_us = rl_now_us();
        client->limit_ms = left_ms < limit_ms ? left_ms : limit_ms;
        hold->depth = 1;
        rl_hold_no_work(hold);
        if (rowlock_release(hold, NULL) != ROWLOCK_OK)
            left_ms -= (rl_now_us() - start_us) / 1000 + 1;
    }
    client->limit_ms = limit_ms;
    if (abandoned)
        rl_log_line(&client->log, ROWLOCK_LOG_WARNING,
                    "closing: the server does not answer; locks left to end by themselves: %u",
                    abandoned);
    return left_ms > 0;
}

static rowlock_status flush(rowlock_client *client, int64_t wait_ms, rowlock_error *err);

/* Those that are away have missed it. */
static rowlock_status flush_members(rowlock_client *client, const rl_budget *budget,
                                    rowlock_error *err)
{
    rowlock_status first = ROWLOCK_OK;
    for (size_t i = 0; i < client->member_count; i++) {
        const int64_t left_ms =
            budget->deadline_us == RL_NEVER ? ROWLOCK_WAIT_FOREVER : rl_budget_left_ms(budget);
        rowlock_status status = ROWLOCK_OK;
        if (!atomic_load(&client->members[i]->away))
            status = flush(client->members[i], left_ms, first == ROWLOCK_OK ? err : NULL);
        if (first == ROWLOCK_OK)
            first = status;
    }
    return first;
}

/* Gives items that were not ended back to other workers: at once if the server answers. */
static void release_items(rowlock_client *client, bool alive)
{
    for (rowlock_item *item; (item = client->items);) {
        const rl_budget budget =
            rl_budget_start(0, rl_earlier(client->limit_ms, GIVE_BACK_LIMIT_MS), NULL);
        rl_item_leave(item);
        if (alive && !rl_item_lost(item)) {
            rowlock_status status = rl_item_end(item, &budget, RL_END_RELEASE, 0, "", NULL);
            alive = status == ROWLOCK_OK || status == ROWLOCK_LOST;
        }
        rl_item_free(item);
    }
}

static rowlock_status flush(rowlock_client *client, int64_t wait_ms, rowlock_error *err)
{
    rl_budget budget = rl_budget_start(wait_ms, client->limit_ms, NULL);
    uint64_t dropped = 0;
    if (client->quorum)
        return flush_members(client, &budget, err);
    rl_journal_hurry(&client->journal);
    rl_keeper_wake(&client->keeper);
    bool settled = rl_journal_wait(&client->journal, budget.deadline_us, &dropped);
    rl_journal_log_dropped(&client->journal, &client->log);
    if (dropped)
        return rl_fail(err, ROWLOCK_SERVER,
                       "events, or counted holds, that could not be written and are missing in the "
                       "history: %" PRIu64 " (the log has the reason)",
                       dropped);
    return settled ? ROWLOCK_OK
                   : rl_fail(err, ROWLOCK_TIMEOUT, "the history could not be written in time");
}

void rowlock_client_close(rowlock_client *client)
{
    if (!client)
        return;
    bool forked = client->pid != getpid();
    if (forked) {
        forget_holds(client);
    } else {
        /* A callback may be releasing the very hold that is to be released here. */
        rl_keeper_silence(&client->keeper);
        bool alive = release_holds(client) && !atomic_load(&client->away);
        release_items(client, alive);
        (void)flush(client, alive ? HISTORY_LIMIT_MS : DEAD_LIMIT_MS, NULL);
    }
    undo(client, OPENED_KEEPER, forked);
}

rowlock_status rowlock_client_flush(rowlock_client *client, int64_t wait_ms, rowlock_error *err)
{
    RL_TRY(rl_client_check_any(client, err));
    return flush(client, wait_ms, err);
}
