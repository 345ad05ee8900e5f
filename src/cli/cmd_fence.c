/* cli/cmd_fence.c - fence install, list, remove: triggers that refuse a write without the lock's
 * token. */
#include <stdio.h>
#include <string.h>

#include "rowlock/rowlock_admin.h"
#include "table.h"

enum { IDENTIFIER_BYTES = 256 };

typedef struct fencing {
    cli_context context;
    const struct action *action;
    const char *table; /* as given */
    const char *lock;
    char schema[IDENTIFIER_BYTES]; /* "": rowlock's own */
    char name[IDENTIFIER_BYTES];
} fencing;

/* ------------------------------------------------------------------------ the table's name */

/* Reads one identifier, in backquotes or not, up to a dot or the end. NULL: there is none. */
static const char *take_identifier(const char *at, char *out)
{
    bool quoted = *at == '`';
    size_t n = 0;
    at += quoted;
    for (; *at && (quoted || *at != '.'); at++) {
        if (quoted && *at == '`' && *++at != '`')
            return n > 0 ? at : NULL;
        if (n + 1 == IDENTIFIER_BYTES)
            return NULL;
        out[n++] = *at;
        out[n] = '\0';
    }
    return n > 0 && !quoted ? at : NULL;
}

static bool take_table(fencing *f)
{
    const char *at = take_identifier(f->table, f->name);
    if (at && *at == '.') {
        memcpy(f->schema, f->name, sizeof f->schema);
        at = take_identifier(at + 1, f->name);
    }
    return (at && !*at) || !cli_usage("--table: '%s' is neither TABLE nor SCHEMA.TABLE", f->table);
}

static const char *schema_of(const fencing *f)
{
    return *f->schema ? f->schema : NULL;
}

/* --------------------------------------------------------------------------------- install */

static rowlock_status install(rowlock_client *client, const fencing *f, rowlock_error *err)
{
    rowlock_status status = rowlock_fence_install(client, schema_of(f), f->name, f->lock, err);
    if (status == ROWLOCK_OK)
        cli_line("%s is fenced: writing it takes the token of '%s'", f->table, f->lock);
    return status;
}

static rowlock_status take_away(rowlock_client *client, const fencing *f, rowlock_error *err)
{
    rowlock_status status = rowlock_fence_remove(client, schema_of(f), f->name, err);
    if (status == ROWLOCK_OK)
        cli_line("%s is not fenced any more", f->table);
    return status;
}

/* ------------------------------------------------------------------------------------ list */

/* The statements that are not fenced since somebody has dropped their trigger: "insert delete". */
static const char *missing(const void *row, char *text)
{
    const rowlock_fenced *fence = row;
    int n = snprintf(text, 32, "%s%s%s", fence->on_insert ? "" : "insert ",
                     fence->on_update ? "" : "update ", fence->on_delete ? "" : "delete ");
    if (n > 0)
        text[n - 1] = '\0';
    return text;
}

static const char *whole(const void *row, char *text)
{
    const rowlock_fenced *fence = row;
    (void)text;
    return fence->on_insert && fence->on_update && fence->on_delete ? "true" : "false";
}

/* Writes the identifier as --table takes it. Returns where to go on. */
static char *put_identifier(char *to, const char *name)
{
    bool quoted = strpbrk(name, ".`") != NULL;
    if (quoted)
        *to++ = '`';
    for (; *name; name++) {
        if (*name == '`')
            *to++ = '`';
        *to++ = *name;
    }
    if (quoted)
        *to++ = '`';
    *to = '\0';
    return to;
}

static const char *whole_name(const void *row, char *text)
{
    const rowlock_fenced *fence = row;
    char *end = put_identifier(text, fence->table_schema);
    *end++ = '.';
    put_identifier(end, fence->table_name);
    return text;
}

/* Two identifiers, each character of which may be doubled. */
_Static_assert(CELL_TEXT_MAX >= 4 * IDENTIFIER_BYTES + 8, "a table's name has room");

#define AT(member) CELL_AT(rowlock_fenced, member)
static const cli_column columns[] = {
    {"schema", CELL_TEXT, AT(table_schema)},
    {"table", CELL_TEXT, AT(table_name)},
    {NULL, CELL_TEXT, .text = whole_name, .title = "TABLE", .place = 1, .cut = 1},
    {"lock", CELL_TEXT, AT(name), .title = "LOCK", .place = 2, .cut = 1},
    {"definer", CELL_TEXT, AT(definer), .title = "DEFINER", .place = 4, .cut = 2},
    {"whole", CELL_LITERAL, .text = whole},
    {"unguarded", CELL_TEXT, .text = missing, .title = "UNGUARDED", .place = 3, .colour = CLI_RED},
    {0},
};

static rowlock_status list(rowlock_client *client, const fencing *f, rowlock_error *err)
{
    rowlock_fences *fences;
    rowlock_status status = rowlock_fences_get(client, &fences, err);
    if (status != ROWLOCK_OK)
        return status;
    cli_rows rows = cli_rows_begin(columns, f->context.json);
    for (size_t i = 0; i < rowlock_fences_count(fences); i++)
        cli_rows_add(&rows, rowlock_fences_at(fences, i));
    cli_rows_end(&rows, "no table is fenced, of those on which this user has TRIGGER");
    rowlock_fences_free(fences);
    return ROWLOCK_OK;
}

/* ----------------------------------------------------------------------------------- which */

typedef struct action {
    const char *word;
    rowlock_status (*run)(rowlock_client *client, const fencing *f, rowlock_error *err);
    bool takes_table;
    bool takes_lock;
} action;

static const action actions[] = {
    {"install", install, true, true},
    {"list", list, false, false},
    {"remove", take_away, true, false},
};

static bool check(void *into)
{
    fencing *f = into;
    const char *word = f->context.operands[0];
    for (size_t i = 0; i < sizeof actions / sizeof actions[0]; i++)
        if (strcmp(actions[i].word, word) == 0)
            f->action = &actions[i];
    if (!f->action)
        return !cli_usage("there is no 'fence %s'; install, list or remove", word);
    if (f->action->takes_table != (f->table != NULL))
        return !cli_usage(f->table ? "fence %s takes no --table" : "'fence %s' needs --table",
                          word);
    if (f->action->takes_lock != (f->lock != NULL))
        return !cli_usage(f->lock ? "fence %s takes no --lock" : "'fence %s' needs --lock", word);
    return !f->table || take_table(f);
}

static rowlock_status run_action(void *into, rowlock_client *client, rowlock_error *err)
{
    const fencing *f = into;
    return f->action->run(client, f, err);
}

static const cli_option options[] = {
    {0, "table", CLI_TEXT, CLI_AT(fencing, table)},
    {0, "lock", CLI_TEXT, CLI_AT(fencing, lock)},
    {0, "json", CLI_FLAG, CLI_AT(cli_context, json)},
    {0},
};

const cli_command cli_fence = {
    .help = cli_help_fence,
    .options = options,
    .into = CLI_INTO(fencing),
    .least = 1,
    .most = 1,
    .operands = "install, list or remove",
    .check = check,
    .work = run_action,
};
