/* admin/doctor/rights.c - may this user do what its role is for? Rights on columns are read from
 * information_schema.columns, which counts those that came by way of a role of the server's, of the
 * schema or of all schemas; what it does not have is tried, and nothing is changed by that. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "admin/doctor/parts.h"
#include "base/text.h"
#include "stmt/session.h"

typedef enum right_state { UNSEEN, THERE, LACKING } right_state;

typedef struct sight {
    rl_doctor *d;
    bool nothing;         /* the schema is hidden: there is no right in it */
    right_state rights[]; /* as rl_rights: those on columns, and on the schema */
} sight;

/* ------------------------------------------------------------------------ what there is */

static bool is_of_role(unsigned right, const char *role)
{
    return strcmp(rl_rights[right].role, role) == 0;
}

/* Is it one of those in [list, end), with a comma between? */
static bool list_has(const char *list, const char *end, const char *right)
{
    const size_t length = strlen(right);
    for (const char *at = list; at < end; at += strcspn(at, ",")) {
        at += strspn(at, ", ");
        if (strncasecmp(at, right, length) == 0 && (at[length] == ',' || at + length == end))
            return true;
    }
    return false;
}

/* A right on no column by name is one on each that is seen. */
static void note_column(sight *s, const rl_cell *cells)
{
    const char *rights = cells[2].text;
    for (unsigned i = 0; i < rl_right_count; i++) {
        const rl_right *wanted = &rl_rights[i];
        if (strcmp(wanted->table, cells[0].text) == 0 && s->rights[i] != LACKING &&
            (!*wanted->column || strcmp(wanted->column, cells[1].text) == 0))
            s->rights[i] =
                list_has(rights, rights + strlen(rights), wanted->right) ? THERE : LACKING;
    }
}

static rowlock_status read_columns(sight *s)
{
    rl_rows rows;
    memset(s->rights, 0, rl_right_count * sizeof *s->rights);
    RL_TRY(rl_query(s->d->conn, RL_SQL_DOCTOR_COLUMNS, NULL, &s->d->io, &rows, NULL));
    while (rl_next(&rows))
        note_column(s, rows.cells);
    return ROWLOCK_OK;
}

/* The statement is prepared alone. Anything else than "denied" says nothing of rights. */
static bool may(sight *s, rl_sql_id id, const char *table)
{
    const rl_value values[] = {rl_quoted(table)};
    rowlock_status status;
    RL_UNTIL_HEARD(s->d, status, rl_run_text(s->d->conn, id, values, &s->d->io, NULL));
    return status != ROWLOCK_DENIED;
}

static bool may_execute(sight *s)
{
    rl_rows rows;
    bool found = false;
    rowlock_status status;
    RL_UNTIL_HEARD(
        s->d, status,
        rl_query_one(s->d->conn, RL_SQL_VIA_STAMP, NULL, &s->d->io, &found, &rows, NULL));
    return status != ROWLOCK_DENIED;
}

/* A name of a schema as GRANT has it: % and _ stand for others, unless behind a backslash. */
static bool matches(const char *pattern, const char *end, const char *name)
{
    for (; pattern < end; pattern++, name++) {
        if (*pattern == '%') {
            while (*name && !matches(pattern + 1, end, name))
                name++;
            return matches(pattern + 1, end, name);
        }
        const bool any = *pattern == '_';
        if (*pattern == '\\' && pattern + 1 < end)
            pattern++;
        if (!*name || (!any && *pattern != *name))
            return false;
    }
    return !*name;
}

/* `GRANT SELECT, INSERT ON `schema`.* TO ...`: of that schema, or of all? */
static bool is_of_schema(const char *line, const char *schema)
{
    const char *at = strstr(line, " ON ");
    if (!at || strncmp(at, " ON *.* ", 8) == 0)
        return at != NULL;
    const char *from = at[4] == '`' ? at + 5 : NULL;
    const char *end = from ? strstr(from, "`.* ") : NULL;
    return end && matches(from, end, schema);
}

static bool line_has(const char *line, const char *right)
{
    const char *list = line + strlen("GRANT "); /* not run */
    const char *end = strstr(line, " ON ");
    return list_has(list, end, "ALL PRIVILEGES") || list_has(list, end, right);
}

static void note_grant(void *data, const char *const *cells)
{
    sight *s = data;
    const char *line = cells[0] ? cells[0] : "";
    /* not run */
    if (strncmp(line, "GRANT ", 6) != 0 || !is_of_schema(line, s->d->params->schema))
        return;
    for (unsigned i = 0; i < rl_right_count; i++)
        if (strcmp(rl_rights[i].table, "*") == 0 && line_has(line, rl_rights[i].right))
            s->rights[i] = THERE;
}

static void look(sight *s)
{
    rowlock_status status;
    RL_UNTIL_HEARD(s->d, status, read_columns(s));
    RL_UNTIL_HEARD(
        s->d, status,
        rl_query_text(s->d->conn, RL_SQL_DOCTOR_GRANTS, NULL, &s->d->io, note_grant, s, NULL));
}

static bool has(sight *s, unsigned right)
{
    const rl_right *wanted = &rl_rights[right];
    const bool on_schema = strcmp(wanted->table, "*") == 0;
    if (on_schema && !s->d->conn->session.via)
        return s->rights[right] == THERE;
    if (s->nothing)
        return false;
    if (on_schema)
        return may_execute(s);
    if (strcmp(wanted->right, "DELETE") == 0)
        return may(s, RL_SQL_DOCTOR_MAY_DELETE, wanted->table);
    /* not run */
    if (strcmp(wanted->right, "SELECT") == 0 && !*wanted->column)
        return may(s, RL_SQL_DOCTOR_MAY_READ, wanted->table);
    /* A table that is not there is no matter of rights: no GRANT on it could be run. */
    return s->rights[right] == THERE ||
           (s->rights[right] == UNSEEN && may(s, RL_SQL_DOCTOR_MAY_READ, wanted->table));
}

/* ------------------------------------------------------------------------ what is missing */

typedef struct missing {
    rl_buffer grants; /* statements, each on a line */
    const rl_doctor *d;
    const rl_right *last; /* of the statement that is being written; NULL: none is */
    unsigned count;
} missing;

static void end_statement(missing *m)
{
    if (!m->last)
        return;
    const char *quote = strcmp(m->last->table, "*") == 0 ? "" : "`";
    rl_buffer_printf(&m->grants, "%s ON `%s`.%s%s%s TO %s;", *m->last->column ? ")" : "",
                     m->d->params->schema, quote, m->last->table, quote, m->d->grantee);
    m->last = NULL;
}

/* What stands before it: "GRANT ", ", ", "), ". */
static const char *before(const missing *m)
{
    if (!m->last)
        return m->grants.length ? "\nGRANT " : "GRANT "; /* not run */
    return *m->last->column ? "), " : ", ";
}

static void add(missing *m, const rl_right *right)
{
    if (m->last && strcmp(m->last->table, right->table) != 0)
        end_statement(m);
    const bool goes_on =
        m->last && *m->last->column && *right->column && strcmp(m->last->right, right->right) == 0;
    if (goes_on)
        rl_buffer_printf(&m->grants, ", %s", right->column);
    else
        rl_buffer_printf(&m->grants, "%s%s%s%s", before(m), right->right,
                         *right->column ? " (" : "", right->column);
    m->last = right;
    m->count++;
}

static void find_missing(sight *s, const char *role, missing *m)
{
    look(s);
    for (unsigned i = 0; i < rl_right_count; i++)
        if (is_of_role(i, role) && !has(s, i))
            add(m, &rl_rights[i]);
    end_statement(m);
}

rowlock_status rl_role_check(const char *role, rowlock_error *err)
{
    for (unsigned i = 0; i < rl_right_count; i++)
        if (is_of_role(i, role))
            return ROWLOCK_OK;
    return rl_fail(err, ROWLOCK_INVALID, "there is no role '%s'; there are %s", role, rl_roles);
}

bool rl_role_is_of_schema(const char *role)
{
    for (unsigned i = 0; i < rl_right_count; i++)
        if (is_of_role(i, role) && strcmp(rl_rights[i].table, "*") != 0)
            return false;
    return true;
}

/* ------------------------------------------------------------------ statements, prepared */

/* What every user of locks runs; the migrator's statements are not among them. */
static bool everyday(rl_sql_id id)
{
    static const char *const others[] = {"migration_", "schema_",  "migrate_", "ledger_",
                                         "via_",       "routine_", "doctor_",  "session_",
                                         "waiters_",   "member_",  "restored_"};
    if (rl_sql_table[id].as_text)
        return false;
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (strncmp(rl_sql_table[id].name, others[i], strlen(others[i])) == 0)
            return false;
    return true;
}

/* The role that needs a statement, if only some users do; NULL: every user that takes locks. */
static const char *role_of(rl_sql_id id)
{
    const char *name = rl_sql_table[id].name;
    if (strncmp(name, "sweep_", 6) == 0 || strncmp(name, "purge_", 6) == 0 ||
        strcmp(name, "queue_drop") == 0)
        return "sweeper";
    return strncmp(name, "event_list", 10) == 0 ? "looker" : NULL;
}

typedef struct trial {
    unsigned denied;
    unsigned failed;
    rowlock_error first_denied;
    rowlock_error first_failed;
    const char *others; /* a role whose statements this user may not run */
} trial;

static void note_trial(trial *t, rl_sql_id id, rowlock_status status, const rowlock_error *err)
{
    if (status == ROWLOCK_DENIED && role_of(id))
        t->others = role_of(id);
    else if (status == ROWLOCK_DENIED && t->denied++ == 0)
        t->first_denied = *err;
    else if (status != ROWLOCK_OK && status != ROWLOCK_DENIED && t->failed++ == 0)
        t->first_failed = *err;
}

/* The server checks columns and rights when it prepares: no statement needs to run. */
static void try_statements(rl_doctor *d, trial *t)
{
    for (int id = 0; id < RL_SQL_COUNT; id++) {
        rowlock_error err = {0};
        rowlock_status status = ROWLOCK_OK;
        if (!everyday((rl_sql_id)id) || (d->conn->session.via && !rl_sql_table[id].call))
            continue;
        RL_UNTIL_HEARD(d, status, rl_prepare(d->conn, (rl_sql_id)id, &d->io, &err));
        note_trial(t, (rl_sql_id)id, status, &err);
    }
}

/* ------------------------------------------------------------------------------ telling */

static bool takes_locks(const char *role)
{
    return strcmp(role, "batch") == 0 || strcmp(role, "procedures") == 0;
}

static void tell_missing(const rl_doctor *d, const missing *m)
{
    rl_doctor_tell(d, "privileges", ROWLOCK_BROKEN,
                   takes_locks(d->wants->role) ? "taking locks will answer DENIED"
                                               : "what the role is for will answer DENIED",
                   m->grants.failed ? "" : m->grants.text, "%s lacks rights of the role %s: %u",
                   d->grantee, d->wants->role, m->count);
}

static void tell_enough(const rl_doctor *d)
{
    if (takes_locks(d->wants->role))
        rl_doctor_fine(d, "privileges", "%s may do what locks need", d->grantee);
    else
        rl_doctor_fine(d, "privileges", "%s has the rights of the role %s", d->grantee,
                       d->wants->role);
}

static void tell_others(rl_doctor *d, const char *role)
{
    const char *command = strcmp(role, "sweeper") == 0 ? "sweep" : "history";
    rl_doctor_tell(d, "privileges", ROWLOCK_NOTE, "fine, where another user does that",
                   rl_doctor_text(d, "`rowlock doctor --role=%s` prints what that takes", role),
                   "this user may take locks, but not `rowlock %s`", command);
}

static void tell_trial(rl_doctor *d, const trial *t, bool lacks)
{
    const bool batch = strcmp(d->wants->role, "batch") == 0;
    if (batch && !lacks && t->denied)
        rl_doctor_tell(d, "privileges", ROWLOCK_BROKEN, "taking locks will answer DENIED",
                       "do what it says", "a statement is refused: %s", t->first_denied.message);
    if (batch && !lacks && !t->denied && t->others)
        tell_others(d, t->others);
    if (t->failed)
        rl_doctor_tell(
            d, "columns", ROWLOCK_BROKEN, "calls will answer DAMAGED",
            "restore the table as rowlock's migrations/ has it (installed in share/rowlock)",
            "%u statements do not fit the tables: %s", t->failed, t->first_failed.message);
    else if (!t->denied)
        rl_doctor_fine(d, "columns", "every statement fits the tables");
}

bool rl_doctor_check_rights(rl_doctor *d, bool hidden)
{
    sight *s = calloc(1, sizeof *s + rl_right_count * sizeof *s->rights);
    missing m = {.d = d};
    if (!s)
        return false;
    s->d = d;
    s->nothing = hidden;
    find_missing(s, d->wants->role, &m);
    const bool lacks = m.count > 0;
    if (lacks)
        tell_missing(d, &m);
    else
        tell_enough(d);
    rl_buffer_free(&m.grants);
    free(s);
    return lacks;
}

void rl_doctor_try_statements(rl_doctor *d, bool lacks)
{
    trial t = {0};
    try_statements(d, &t);
    tell_trial(d, &t, lacks);
}
