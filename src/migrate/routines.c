#include "migrate/routines.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "bell/bell.h"
#include "migrate/procedures.h"
#include "stmt/stmt.h"

rowlock_status rl_routines_read(rl_conn *conn, const rl_io *io, rl_routines *there,
                                rowlock_error *err)
{
    rl_rows rows;
    there->count = 0;
    rowlock_status status = rl_query(conn, RL_SQL_ROUTINE_LIST, NULL, io, &rows, err);
    if (status != ROWLOCK_OK)
        return status;
    while (there->count < RL_ROUTINES_MAX && rl_next(&rows)) {
        rl_routine *row = &there->rows[there->count++];
        *row = (rl_routine){.wanted = false};
        snprintf(row->name, sizeof row->name, "%s", rows.cells[0].text);
        snprintf(row->comment, sizeof row->comment, "%s", rows.cells[1].text);
        snprintf(row->drop, sizeof row->drop, "%s", rows.cells[2].text);
    }
    rl_end(&rows);
    return rows.status;
}

rl_routine *rl_routine_find(rl_routines *there, const char *name)
{
    for (size_t i = 0; i < there->count; i++)
        if (strcmp(there->rows[i].name, name) == 0)
            return &there->rows[i];
    return NULL;
}

void rl_procedure_comment(const char *text, char comment[RL_COMMENT_SIZE])
{
    snprintf(comment, RL_COMMENT_SIZE, "rowlock %s %016" PRIx64, ROWLOCK_VERSION_STRING,
             rl_hash(text));
}

void rl_procedure_fill_bell(rl_buffer *text, const char *template, const char *schema)
{
    char bell[RL_BELL_PREFIX_MAX + 1];
    rl_bell_prefix(schema, bell);
    rl_buffer_fill_in(text, template, "{bell}", bell);
}

/* ------------------------------------------------------------------------- looking */

static bool is_ours(const rl_routine *row, const char *schema)
{
    char comment[RL_COMMENT_SIZE];
    for (unsigned i = 0; i < rl_procedure_count; i++) {
        if (strcmp(rl_procedures[i].name, row->name) != 0)
            continue;
        rl_buffer text = {0};
        rl_procedure_fill_bell(&text, rl_procedures[i].text, schema);
        rl_procedure_comment(text.failed ? "" : text.text, comment);
        rl_buffer_free(&text);
        return strcmp(comment, row->comment) == 0;
    }
    return false;
}

/* Who sees a helper sees all: nobody is granted one by itself. */
static bool shows_all(const rl_routines *there)
{
    for (size_t i = 0; i < there->count; i++)
        if (strncmp(there->rows[i].name, "rl_", 3) == 0)
            return true;
    return false;
}

static const char *a_missing_one(rl_routines *there)
{
    if (!shows_all(there))
        return "";
    for (unsigned i = 0; i < rl_procedure_count; i++)
        if (!rl_routine_find(there, rl_procedures[i].name))
            return rl_procedures[i].name;
    return "";
}

rowlock_status rl_procedures_look(rl_conn *conn, const char *schema, const rl_io *io,
                                  rl_procedures_seen *seen, rowlock_error *err)
{
    rl_routines routines;
    rowlock_status status = rl_routines_read(conn, io, &routines, err);
    *seen = (rl_procedures_seen){.there = (unsigned)routines.count, .all = rl_procedure_count};
    for (size_t i = 0; i < routines.count; i++)
        if (is_ours(&routines.rows[i], schema))
            seen->same++;
        else
            snprintf(seen->other, sizeof seen->other, "%s", routines.rows[i].comment);
    seen->missing = status == ROWLOCK_OK ? a_missing_one(&routines) : "";
    return status;
}
