/*
 * Migrations: the list of statements covers the script in order; put together again, they are
 * the same statements; and a statement holds its quotes together.
 */
#include "migrate/script.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "fuzz.h"

static bool is_blank(char c)
{
    return isspace((unsigned char)c);
}

static void check_title(const rl_statement *statement, size_t size)
{
    char *title = malloc(size);
    require(title);
    rl_statement_title(statement, title, size);
    size_t length = strnlen(title, size);
    require(length < size && length <= statement->length);
    require(memcmp(title, statement->text, length) == 0);
    require(!strchr(title, '\n'));
    free(title);
}

static void check_statement(const char *from, const char *to, const rl_statement *statement)
{
    const char *end = statement->text + statement->length;
    require(statement->length > 0);
    require(statement->text >= from && end <= to);
    require(!is_blank(statement->text[0]) && !is_blank(end[-1]));
    require(statement->text[0] != ';');
    check_title(statement, 1);
    check_title(statement, 80);
}

/* Back into a script, each with its end, without what was between them. */
static char *put_together(const char *script, unsigned *count)
{
    rl_buffer out = {0};
    rl_statement statement;
    const char *end = script + strlen(script);
    const char *before = script;
    rl_buffer_puts(&out, "-- a script;\n");
    for (const char *at = script; rl_script_next(&at, &statement); before = at) {
        require(at > before && at <= end);
        check_statement(before, at, &statement);
        rl_buffer_append(&out, statement.text, (size_t)(at - statement.text));
        rl_buffer_puts(&out, at[-1] == ';' ? "\n" : "");
        ++*count;
    }
    require(!out.failed);
    return out.text;
}

static void check_same_statements(const char *script, const char *other)
{
    rl_statement a;
    rl_statement b;
    while (rl_script_next(&script, &a)) {
        require(rl_script_next(&other, &b));
        require(a.length == b.length && memcmp(a.text, b.text, a.length) == 0);
    }
    require(!rl_script_next(&other, &b));
}

/* Whatever a quoted text holds, it ends no statement. */
static void check_quoted(const char *text)
{
    rl_buffer out = {0};
    rl_statement statement;
    rl_buffer_puts(&out, "INSERT INTO t VALUES ('");
    for (; *text; text++) {
        if (*text == '\'' || *text == '\\')
            rl_buffer_append(&out, *text == '\'' ? "'" : "\\", 1);
        rl_buffer_append(&out, text, 1);
    }
    rl_buffer_puts(&out, "'); COMMIT;");
    require(!out.failed);
    const char *at = out.text;
    require(rl_script_count(at) == 2);
    require(rl_script_next(&at, &statement) && statement.length == out.length - 9);
    rl_buffer_free(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_text(data, size);
    unsigned count = 0;
    char *again = put_together(text, &count);
    require(rl_script_count(text) == count);
    check_same_statements(text, again);
    check_quoted(text);
    free(again);
    free(text);
    return 0;
}
