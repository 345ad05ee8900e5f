/*
 * Scripts of migrations: the list of statements covers the script in order; joined again, each
 * between DELIMITER lines of its own, they are the same statements; and no statement ends within a
 * quote, as the sql_mode has them.
 */
#include "migrate/script.h"

#include <ctype.h>

#include "base/text.h"
#include "fuzz.h"

static bool is_blank(char c)
{
    return isspace((unsigned char)c);
}

static rl_script begin(const char *text, size_t length, unsigned mode)
{
    rl_script script = rl_script_begin(text, length);
    script.no_backslashes = mode & 1;
    script.ansi_quotes = mode & 2;
    return script;
}

/* Ignores blanks, which may have been ends of lines. */
static bool begins_with(const rl_statement *statement, const char *title)
{
    const char *at = statement->text;
    const char *end = at + statement->length;
    for (; *title; title++) {
        if (is_blank(*title))
            continue;
        while (at < end && is_blank(*at))
            at++;
        if (at == end || *at++ != *title)
            return false;
    }
    return true;
}

static void check_title(const rl_statement *statement, size_t size)
{
    char *title = malloc(size);
    require(title);
    rl_statement_title(statement, title, size);
    size_t length = strnlen(title, size);
    require(length < size && length <= statement->length);
    require(begins_with(statement, title));
    require(!memchr(title, '\n', length));
    free(title);
}

/* The title of a statement in UTF-8 is UTF-8, too. */
static void check_cut(const rl_statement *statement)
{
    char title[8];
    char *text = fuzz_text((const uint8_t *)statement->text, statement->length);
    rl_statement_title(statement, title, sizeof title);
    require(!fuzz_is_utf8(text) || fuzz_is_utf8(title));
    free(text);
}

static void check_statement(const char *from, const rl_script *after, const rl_statement *statement)
{
    const char *end = statement->text + statement->length;
    require(statement->length > 0);
    require(statement->text >= from && end <= after->at);
    require(!is_blank(statement->text[0]) && !is_blank(end[-1]));
    require(statement->text[0] != ';');
    require(statement->line >= 1 && statement->line <= after->line);
    check_title(statement, 1);
    check_title(statement, 80);
    check_cut(statement);
}

static unsigned newlines(const char *text, size_t length)
{
    unsigned count = 0;
    for (size_t i = 0; i < length; i++)
        count += text[i] == '\n';
    return count;
}

/* Writes the statements as a script again, each with its delimiter. */
static rl_buffer put_together(const char *text, size_t length, unsigned mode, unsigned *count)
{
    rl_buffer out = {0};
    rl_statement statement;
    rl_script script = begin(text, length, mode);
    rl_buffer_puts(&out, "-- a script;\n");
    for (const char *before = text; rl_script_next(&script, &statement); before = script.at) {
        require(script.at > before && script.at <= text + length);
        check_statement(before, &script, &statement);
        require(script.line == 1 + newlines(text, (size_t)(script.at - text)));
        rl_buffer_puts(&out, "DELIMITER ");
        rl_buffer_puts(&out, script.delimiter);
        rl_buffer_puts(&out, "\n");
        /* With the text after it, up to its delimiter, which may be a comment. */
        rl_buffer_append(&out, statement.text, (size_t)(script.at - statement.text));
        rl_buffer_puts(&out, script.at == text + length ? "" : "\n");
        ++*count;
    }
    require(!script.problem || (script.problem_line >= 1 && script.problem_line <= script.line));
    require(!out.failed);
    return out;
}

static void check_same_statements(rl_script script, rl_script other)
{
    rl_statement a;
    rl_statement b;
    while (rl_script_next(&script, &a)) {
        require(rl_script_next(&other, &b));
        require(a.length == b.length && memcmp(a.text, b.text, a.length) == 0);
    }
    require(!rl_script_next(&other, &b));
}

/* A quoted text never ends a statement. */
static void check_quoted(const char *text, char quote, unsigned mode)
{
    rl_buffer out = {0};
    rl_statement statement;
    bool backslashes = !(mode & 1) && quote != '`' && !(quote == '"' && mode & 2);
    rl_buffer_puts(&out, "DELIMITER //\nINSERT INTO t VALUES (");
    rl_buffer_append(&out, &quote, 1);
    for (; *text; text++) {
        if (*text == quote || (*text == '\\' && backslashes))
            rl_buffer_append(&out, text, 1);
        rl_buffer_append(&out, text, 1);
    }
    rl_buffer_append(&out, &quote, 1);
    rl_buffer_puts(&out, ")// COMMIT//");
    require(!out.failed);
    rl_script script = begin(out.text, out.length, mode);
    require(rl_script_next(&script, &statement) && statement.length == out.length - 13 - 11);
    require(rl_script_next(&script, &statement) && statement.length == 6);
    require(!rl_script_next(&script, &statement) && !script.problem);
    rl_buffer_free(&out);
}

static void check(const char *text, size_t size, unsigned mode)
{
    unsigned count = 0;
    rl_buffer again = put_together(text, size, mode, &count);
    check_same_statements(begin(text, size, mode), begin(again.text, again.length, mode));
    if (mode == 0 && strlen(text) == size)
        require(rl_script_count(text) == count);
    rl_buffer_free(&again);
    check_quoted(text, '\'', mode);
    check_quoted(text, '"', mode);
    check_quoted(text, '`', mode);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_text(data, size);
    for (unsigned mode = 0; mode < 4; mode++)
        check(text, size, mode);
    free(text);
    return 0;
}
