/* stmt/text.c - values, and statements that are sent as text. */
#include <string.h>

#include "db/exchange.h"
#include "stmt/prepared.h"

rl_value rl_u64(uint64_t number)
{
    return (rl_value){.type = RL_TYPE_U64, .number = number};
}

rl_value rl_text(const char *text)
{
    return rl_text_n(text, strlen(text));
}

rl_value rl_quoted(const char *name)
{
    return (rl_value){.type = RL_TYPE_NAME, .text = name, .length = strlen(name)};
}

rl_value rl_word(const char *word)
{
    return (rl_value){.type = RL_TYPE_WORD, .text = word, .length = strlen(word)};
}

rl_value rl_text_n(const char *text, size_t length)
{
    return (rl_value){.type = RL_TYPE_TEXT, .text = text, .length = length};
}

rl_value rl_bytes(const void *bytes, size_t length)
{
    return (rl_value){.type = RL_TYPE_BYTES, .text = bytes, .length = length};
}

static bool harmless(const char *text, size_t length)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
    return strspn(text, allowed) == length;
}

/* Doubles quotes in a name; the server refuses other characters that a name may not have. */
static void render_name(const rl_value *name, rl_buffer *text)
{
    if (name->length == 0)
        return;
    rl_buffer_puts(text, "`");
    for (size_t i = 0; i < name->length; i++) {
        if (name->text[i] == '`')
            rl_buffer_puts(text, "`");
        rl_buffer_append(text, &name->text[i], 1);
    }
    rl_buffer_puts(text, "`");
}

static bool render_value(const rl_value *value, rl_buffer *text)
{
    if (value->type == RL_TYPE_TEXT) {
        if (!harmless(value->text, value->length))
            return false;
        rl_buffer_puts(text, "'");
        rl_buffer_append(text, value->text, value->length);
        rl_buffer_puts(text, "'");
        return true;
    }
    if (value->type == RL_TYPE_NAME) {
        render_name(value, text);
        return true;
    }
    if (value->type == RL_TYPE_WORD) {
        rl_buffer_append(text, value->text, value->length);
        return harmless(value->text, value->length);
    }
    rl_json_u64(text, value->number);
    return true;
}

bool rl_render(bool via, rl_sql_id id, const char *schema, const rl_value *values, rl_buffer *text)
{
    static const char placeholder[] = "{schema}";
    const rl_shape sql = rl_shape_of(via, id);
    unsigned use = 0;
    for (const char *at = sql.text; *at;) {
        if (strncmp(at, placeholder, sizeof placeholder - 1) == 0) {
            const rl_value name = rl_quoted(schema);
            render_name(&name, text);
            at += sizeof placeholder - 1;
        } else if (*at == '?') {
            if (!render_value(&values[rl_shape_used(&sql, use++)], text))
                return false;
            at++;
        } else {
            rl_buffer_append(text, at++, 1);
        }
    }
    return !text->failed;
}

rowlock_status rl_run_text(rl_conn *conn, rl_sql_id id, const rl_value *values, const rl_io *io,
                           rowlock_error *err)
{
    const rl_sql *sql = &rl_sql_table[id];
    if (sql->use_count == 0)
        return rl_conn_command(conn, sql->name, sql->text, io, err);
    RL_CLEANUP(rl_buffer_free) rl_buffer text = {0};
    if (!rl_render(conn->session.via, id, "", values, &text))
        return rl_fail(err, ROWLOCK_SYSTEM, "out of memory");
    return rl_conn_command(conn, sql->name, text.text, io, err);
}

rowlock_status rl_run_parts(rl_conn *conn, const rl_sql_id *ids, size_t count, const char *schema,
                            const rl_value *values, const rl_io *io, rowlock_error *err)
{
    RL_CLEANUP(rl_buffer_free) rl_buffer text = {0};
    bool whole = true;
    for (size_t i = 0; i < count && whole; i++) {
        whole = rl_render(false, ids[i], schema, values, &text);
        rl_buffer_puts(&text, "\n");
    }
    if (!whole || text.failed)
        return rl_fail(err, ROWLOCK_SYSTEM, "out of memory");
    return rl_conn_command(conn, rl_sql_table[ids[0]].name, text.text, io, err);
}

/* ------------------------------------------------------ the result of a text statement */

rowlock_status rl_query_text(rl_conn *conn, rl_sql_id id, const rl_value *values, const rl_io *io,
                             rl_text_row each, void *data, rowlock_error *err)
{
    rowlock_status ended;
    MYSQL_RES *result = NULL;
    RL_TRY(rl_run_text(conn, id, values, io, err));
    RL_EXCHANGE(ended, conn, io, mysql_store_result_start(&result, conn->mysql),
                mysql_store_result_cont(&result, conn->mysql, ready));
    if (!result && ended == ROWLOCK_OK)
        return rl_conn_command_failed(conn, rl_sql_table[id].name, err);
    for (MYSQL_ROW row; each && result && (row = mysql_fetch_row(result));)
        each(data, (const char *const *)row);
    mysql_free_result(result);
    return ended == ROWLOCK_OK ? ROWLOCK_OK
                               : rl_conn_stopped(conn, ended, rl_sql_table[id].name, err);
}
