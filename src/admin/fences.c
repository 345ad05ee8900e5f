#include "admin/admin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "base/text.h"
#include "kind/fence.h"
#include "stmt/session.h"

/*
 * A fence is three triggers, and nothing else: they go with the table when it is renamed or
 * dropped, with a dump of it, and what is listed is what guards. Each has a marker in its text:
 *     version . r or w . schema . lock
 * (names in hex; w: it writes, for clusters). A later version that needs other triggers makes them
 * first, and then drops the old ones: the table is never without. (Other words of the message alone
 * need no new version.)
 */
#define MARKER_VERSION "1"

enum { EVENTS = 3, MARKER_MAX = RL_PRESENTED_MAX + 8, SHOWN_MAX = 4096 };

static const char *const events[EVENTS] = {"INSERT", "UPDATE", "DELETE"}; /* not run */

static int event_number(const char *event)
{
    for (int i = 0; i < EVENTS; i++)
        if (strcmp(events[i], event) == 0)
            return i;
    return EVENTS;
}

/* ------------------------------------------------------------------------- one table */

typedef struct trigger {
    char name[257];
    char marker[SHOWN_MAX + 1]; /* "": it is no fence's */
    char lock[4 * ROWLOCK_NAME_MAX + 1];
    bool ours; /* of this rowlock's schema */
    int event;
    bool before;
    bool made; /* by this call */
} trigger;

typedef struct fencing {
    rowlock_client *client;
    rl_budget budget;
    rl_conn *conn;
    const char *wanted_schema; /* as the caller wrote them */
    const char *wanted_table;
    char schema[257]; /* as the server has them */
    char table[257];
    char type[65];
    bool own; /* one of rowlock's */
    char shown[520];
    trigger *triggers; /* in the order in which they run */
    size_t count;
    size_t capacity;
} fencing;

/* NULL: no memory. */
static trigger *add_trigger(fencing *f, rowlock_error *err)
{
    if (!RL_GROW(f->triggers, f->count, f->capacity)) {
        rl_fail(err, ROWLOCK_SYSTEM, "out of memory");
        return NULL;
    }
    f->triggers[f->count] = (trigger){0};
    return &f->triggers[f->count++];
}

static rowlock_status read_trigger(fencing *f, const rl_cell *cells, rowlock_error *err)
{
    trigger *t = add_trigger(f, err);
    if (!t)
        return ROWLOCK_SYSTEM;
    t->event = event_number(cells[1].text);
    t->before = strcmp(cells[2].text, "BEFORE") == 0;
    snprintf(t->name, sizeof t->name, "%s", cells[0].text);
    snprintf(t->marker, sizeof t->marker, "%s", cells[3].text);
    snprintf(t->lock, sizeof t->lock, "%s", cells[5].text);
    t->ours = strcmp(cells[4].text, f->client->schema) == 0;
    return ROWLOCK_OK;
}

static rowlock_status find_table(fencing *f, rowlock_error *err)
{
    const rl_value values[] = {rl_text(f->wanted_schema), rl_text(f->wanted_table)};
    rl_io io = rl_budget_quick_io(&f->budget);
    bool found = false;
    rl_rows rows;
    RL_TRY(rl_query_one(f->conn, RL_SQL_FENCE_TABLE, values, &io, &found, &rows, err));
    if (!found)
        return rl_fail(err, ROWLOCK_NOT_FOUND,
                       "there is no table '%s.%s' (or this user may not see it)", f->wanted_schema,
                       f->wanted_table);
    snprintf(f->schema, sizeof f->schema, "%s", rows.cells[0].text);
    snprintf(f->table, sizeof f->table, "%s", rows.cells[1].text);
    snprintf(f->type, sizeof f->type, "%s", rows.cells[2].text);
    f->own = rows.cells[3].u64 != 0;
    snprintf(f->shown, sizeof f->shown, "%s.%s", f->schema, f->table);
    return ROWLOCK_OK;
}

static rowlock_status read_triggers(fencing *f, rowlock_error *err)
{
    const rl_value values[] = {rl_text(f->schema), rl_text(f->table)};
    rl_io io = rl_budget_quick_io(&f->budget);
    rl_rows rows;
    RL_TRY(rl_query(f->conn, RL_SQL_FENCE_TRIGGERS, values, &io, &rows, err));
    rowlock_status status = ROWLOCK_OK;
    while (status == ROWLOCK_OK && rl_next(&rows))
        status = read_trigger(f, rows.cells, err);
    return status;
}

/* A connection to a server that takes writes, the table, its triggers. End it with fencing_end(),
 * whatever came of it. */
static rowlock_status fencing_begin(fencing *f, rowlock_client *client, const char *table_schema,
                                    const char *table_name, rowlock_error *err)
{
    *f = (fencing){.client = client,
                   .budget = rl_budget_start(client->limit_ms, client->limit_ms, NULL),
                   .wanted_schema = table_schema,
                   .wanted_table = table_name};
    static const rl_request quiet = {.pins = RL_PINS_NONE};
    rl_io io = rl_budget_quick_io(&f->budget);
    RL_TRY(rl_pool_take(&client->pool, &quiet, &io, &f->conn, err));
    RL_TRY(find_table(f, err));
    RL_TRY(read_triggers(f, err));
    return rl_server_write_check(&f->conn->server, err);
}

static rowlock_status fencing_end(fencing *f, rowlock_status status, rowlock_error *err)
{
    free(f->triggers);
    rl_pool_give(&f->client->pool, f->conn);
    if (status == ROWLOCK_UNKNOWN)
        return rl_fail(err, status,
                       "'%s.%s': the connection was lost; do it again, which harms nothing",
                       f->wanted_schema, f->wanted_table);
    return status;
}

/* ------------------------------------------------------------------------ what failed */

static void tell_missing_right(const fencing *f, rowlock_error *err)
{
    char who[RL_GRANTEE_SIZE];
    rl_session_grantee(f->conn, ROWLOCK_DENIED, who, sizeof who);
    rl_fail(err, ROWLOCK_DENIED,
            "'%s': this user may not make or drop its triggers; let an administrator run "
            /* not run */
            "GRANT TRIGGER ON `%s`.`%s` TO %s;",
            f->shown, f->schema, f->table, who);
}

/* What a CREATE or DROP TRIGGER fails by, in words that say what to do. `err` is not NULL. */
static rowlock_status explain(const fencing *f, rowlock_status status, rowlock_error *err)
{
    rowlock_error was = *err;
    /* Also where the server did not answer that we had stopped it. */
    if (status == ROWLOCK_TIMEOUT || (status == ROWLOCK_UNKNOWN && f->conn->interrupted))
        return rl_fail(err, ROWLOCK_TIMEOUT,
                       "'%s' is in use: an open transaction or a running statement on it kept its "
                       "triggers from being changed",
                       f->shown);
    if (status != ROWLOCK_DENIED)
        return status;
    if (was.server_errno == 1419)
        rl_fail(err, status,
                "'%s': with the binary log on, this user may not make triggers; let an "
                "administrator do it, or run SET GLOBAL log_bin_trust_function_creators = 1",
                f->shown);
    else
        tell_missing_right(f, err);
    err->server_errno = was.server_errno;
    memcpy(err->sqlstate, was.sqlstate, sizeof err->sqlstate);
    memcpy(err->statement, was.statement, sizeof err->statement);
    return status;
}

static rowlock_status drop(fencing *f, const trigger *t, rowlock_error *err)
{
    static const rl_sql_id id[] = {RL_SQL_FENCE_DROP};
    const rl_value values[] = {rl_quoted(f->schema), rl_quoted(t->name)};
    rl_io io = rl_budget_lock_io(&f->budget);
    rowlock_status status = rl_run_parts(f->conn, id, 1, f->client->schema, values, &io, err);
    return explain(f, status, err);
}

/* ----------------------------------------------------------------------------- install */

typedef struct guard {
    const char *name; /* the lock's */
    char marker[MARKER_MAX + 1];
    char presented_as[RL_PRESENTED_MAX + 1];
    char lock[8 * ROWLOCK_NAME_MAX + 1]; /* in hex */
    char shown[2 * 257];                 /* the table's, in hex */
    char schema[2 * 65];                 /* of the lock, in hex */
    bool writes;
} guard;

static void describe(guard *g, const fencing *f, const char *name)
{
    g->name = name;
    g->writes = f->conn->server.cluster != RL_ALONE; /* its nodes certify writes alone */
    rl_put_hex(g->lock, name);
    rl_put_hex(g->shown, f->table);
    rl_put_hex(g->schema, f->client->schema);
    rl_presented_as(f->client->schema, name, g->presented_as);
    snprintf(g->marker, sizeof g->marker, MARKER_VERSION ".%c.%s", g->writes ? 'w' : 'r',
             g->presented_as);
}

static rowlock_status check_table(const fencing *f, rowlock_error *err)
{
    if (strcmp(f->type, "BASE TABLE") != 0 && strcmp(f->type, "SYSTEM VERSIONED") != 0)
        return rl_fail(
            err, ROWLOCK_INVALID, "'%s' is a %s: only tables can be fenced%s", f->shown, f->type,
            strcmp(f->type, "VIEW") == 0 ? ", and a view through the tables under it" : "");
    if (f->own)
        return rl_fail(err, ROWLOCK_INVALID, "'%s' is one of rowlock's own tables", f->shown);
    return ROWLOCK_OK;
}

/* One table, one lock. */
static rowlock_status check_others(const fencing *f, const guard *g, rowlock_error *err)
{
    for (size_t i = 0; i < f->count; i++) {
        const trigger *t = &f->triggers[i];
        if (*t->marker && (!t->ours || strcmp(t->lock, g->name) != 0))
            return rl_fail(err, ROWLOCK_INVALID,
                           "'%s' is fenced by the lock '%s'%s already; remove that fence first",
                           f->shown, *t->lock ? t->lock : "?", t->ours ? "" : " of another schema");
    }
    return ROWLOCK_OK;
}

/* The trigger runs with this user's rights. */
static rowlock_status check_rights(fencing *f, const guard *g, rowlock_error *err)
{
    rl_io io = rl_budget_quick_io(&f->budget);
    RL_TRY(rl_prepare(f->conn, RL_SQL_FENCE_MAY_READ, &io, err));
    return g->writes ? rl_prepare(f->conn, RL_SQL_FENCE_MAY_WRITE, &io, err) : ROWLOCK_OK;
}

static const trigger *first_before(const fencing *f, int event)
{
    for (size_t i = 0; i < f->count; i++)
        if (f->triggers[i].before && f->triggers[i].event == event && !f->triggers[i].made)
            return &f->triggers[i];
    return NULL;
}

static bool is_guarded(const fencing *f, const guard *g, int event)
{
    for (size_t i = 0; i < f->count; i++)
        if (f->triggers[i].event == event && strcmp(f->triggers[i].marker, g->marker) == 0)
            return true;
    return false;
}

/* Not made of the table's name: a renamed table keeps its triggers' names, and the next table of
 * the old name would want the same. */
static void name_trigger(char name[64], int event)
{
    snprintf(name, 64, "rowlock_fence_%s_%08x%08x%08x", events[event], rl_random_u32(),
             rl_random_u32(), rl_random_u32());
}

static rowlock_status create(fencing *f, const guard *g, int event, rowlock_error *err)
{
    /* Before it is there: where memory for that is missing, it could not be dropped again. */
    trigger *t = add_trigger(f, err);
    if (!t)
        return ROWLOCK_SYSTEM;
    name_trigger(t->name, event);
    t->event = event;
    t->made = true;
    const trigger *first = first_before(f, event);
    const rl_value values[] = {
        rl_quoted(f->schema),
        rl_quoted(t->name),
        rl_word(events[event]),
        rl_quoted(f->table),
        rl_word(first ? "PRECEDES" : ""),
        rl_quoted(first ? first->name : ""),
        rl_text(g->marker),
        rl_text(g->lock),
        rl_text(g->shown),
        rl_text(g->schema),
        rl_text(g->presented_as),
    };
    const rl_sql_id parts[] = {RL_SQL_FENCE_GUARD,
                               g->writes ? RL_SQL_FENCE_GUARD_WRITING : RL_SQL_FENCE_GUARD_READING,
                               RL_SQL_FENCE_GUARD_END};
    rl_io io = rl_budget_lock_io(&f->budget);
    rowlock_status status = rl_run_parts(f->conn, parts, 3, f->client->schema, values, &io, err);
    if (status != ROWLOCK_OK)
        f->count--;
    return explain(f, status, err);
}

/* After a failure: those that this call has made. What stays guards the table, and is told of. */
static void drop_made(fencing *f, rowlock_error *err)
{
    rowlock_error why = {0};
    f->budget = rl_budget_start(f->client->limit_ms, f->client->limit_ms, NULL);
    for (size_t i = 0; i < f->count; i++)
        if (f->triggers[i].made && drop(f, &f->triggers[i], &why) != ROWLOCK_OK)
            rl_error_prefix(err,
                            "'%s': the trigger %s was made and could not be dropped again "
                            "(%.150s); let the fence be removed. First: ",
                            f->shown, f->triggers[i].name, why.message);
}

/* All three, or none. */
static rowlock_status create_missing(fencing *f, const guard *g, rowlock_error *err)
{
    rowlock_status status = ROWLOCK_OK;
    for (int event = 0; event < EVENTS && status == ROWLOCK_OK; event++)
        if (!is_guarded(f, g, event))
            status = create(f, g, event, err);
    if (status != ROWLOCK_OK)
        drop_made(f, err);
    return status;
}

/* Those of another version, or of another kind. */
static rowlock_status drop_outdated(fencing *f, const guard *g, rowlock_error *err)
{
    for (size_t i = 0; i < f->count; i++) {
        const trigger *t = &f->triggers[i];
        if (*t->marker && strcmp(t->marker, g->marker) != 0)
            RL_TRY(drop(f, t, err));
    }
    return ROWLOCK_OK;
}

static rowlock_status install(fencing *f, const char *name, rowlock_error *err)
{
    guard g;
    describe(&g, f, name);
    RL_TRY(check_table(f, err));
    RL_TRY(check_others(f, &g, err));
    RL_TRY(check_rights(f, &g, err));
    RL_TRY(create_missing(f, &g, err));
    return drop_outdated(f, &g, err);
}

rowlock_status rl_fence_install(rowlock_client *client, const char *table_schema,
                                const char *table_name, const char *name, rowlock_error *given)
{
    rowlock_error spare;
    rowlock_error *err = rl_error_or(given, &spare);
    fencing f;
    rowlock_status status = fencing_begin(&f, client, table_schema, table_name, err);
    if (status == ROWLOCK_OK)
        status = install(&f, name, err);
    return fencing_end(&f, status, err);
}

/* ------------------------------------------------------------------------------ remove */

rowlock_status rl_fence_remove(rowlock_client *client, const char *table_schema,
                               const char *table_name, rowlock_error *given)
{
    rowlock_error spare;
    rowlock_error *err = rl_error_or(given, &spare);
    fencing f;
    size_t dropped = 0;
    rowlock_status status = fencing_begin(&f, client, table_schema, table_name, err);
    for (size_t i = 0; i < f.count && status == ROWLOCK_OK; i++) {
        if (!f.triggers[i].ours)
            continue;
        status = drop(&f, &f.triggers[i], err);
        dropped++;
    }
    if (status == ROWLOCK_OK && dropped == 0)
        status = rl_fail(
            err, ROWLOCK_NOT_FOUND,
            "'%s' has no fence (or this user lacks TRIGGER on it, and does not see it)", f.shown);
    return fencing_end(&f, status, err);
}

/* -------------------------------------------------------------------------------- list */

/* The last, where it is of the same table and lock: a fence's triggers come one after the other. */
static rowlock_fenced *find_item(rl_list *list, const rl_cell *cells, rowlock_error *err)
{
    rowlock_fenced *items = list->items;
    rowlock_fenced *last = list->count ? &items[list->count - 1] : NULL;
    if (last && strcmp(last->table_schema, cells[0].text) == 0 &&
        strcmp(last->table_name, cells[1].text) == 0 && strcmp(last->name, cells[5].text) == 0)
        return last;
    rowlock_fenced *item = rl_list_add(list, err);
    if (item)
        *item = (rowlock_fenced){.table_schema = rl_list_keep(list, &cells[0]),
                                 .table_name = rl_list_keep(list, &cells[1]),
                                 .name = rl_list_keep(list, &cells[5]),
                                 .definer = rl_list_keep(list, &cells[3])};
    return item;
}

static rowlock_status add_item(void *data, const rl_cell *cells, rowlock_error *err)
{
    rl_list *list = data;
    if (!*cells[5].text || strcmp(cells[4].text, list->client->schema) != 0)
        return ROWLOCK_OK;
    rowlock_fenced *item = find_item(list, cells, err);
    if (!item)
        return ROWLOCK_SYSTEM;
    int event = event_number(cells[2].text);
    item->on_insert = item->on_insert || event == 0;
    item->on_update = item->on_update || event == 1;
    item->on_delete = item->on_delete || event == 2;
    return ROWLOCK_OK;
}

rowlock_status rl_fences_get(rowlock_client *client, rowlock_fences **out, rowlock_error *err)
{
    rowlock_fences *fences = rl_list_new(client, sizeof *fences, sizeof(rowlock_fenced), err);
    if (!fences)
        return ROWLOCK_SYSTEM;
    rowlock_status status = rl_list_read(&fences->all, RL_SQL_FENCE_LIST, NULL, add_item, err);
    if (status == ROWLOCK_OK)
        *out = fences;
    else
        rl_list_free(fences);
    return status;
}
