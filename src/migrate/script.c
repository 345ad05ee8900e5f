#include "migrate/script.h"

#include <ctype.h>
#include <string.h>

/* Behind the quoted text or comment that begins at `at`, or `at` when none does. */
static const char *skip_quoted(const char *at)
{
    char quote = *at;
    for (at++; *at; at++) {
        if (*at == '\\' && quote != '`' && at[1])
            at++;
        else if (*at == quote && at[1] == quote)
            at++;
        else if (*at == quote)
            return at + 1;
    }
    return at;
}

static const char *skip_line(const char *at)
{
    const char *end = strchr(at, '\n');
    return end ? end + 1 : at + strlen(at);
}

static const char *skip_block(const char *at)
{
    const char *end = strstr(at + 2, "*/");
    return end ? end + 2 : at + strlen(at);
}

static bool line_comment(const char *at)
{
    return *at == '#' ||
           (at[0] == '-' && at[1] == '-' && (at[2] == '\0' || isspace((unsigned char)at[2])));
}

/* A comment that the server executes is no comment. */
static bool block_comment(const char *at)
{
    return at[0] == '/' && at[1] == '*' && at[2] != '!' && !(at[2] == 'M' && at[3] == '!');
}

static const char *skip_blank(const char *at)
{
    for (;;) {
        if (*at && isspace((unsigned char)*at))
            at++;
        else if (line_comment(at))
            at = skip_line(at);
        else if (block_comment(at))
            at = skip_block(at);
        else
            return at;
    }
}

static const char *statement_end(const char *at)
{
    while (*at && *at != ';') {
        if (*at == '\'' || *at == '"' || *at == '`')
            at = skip_quoted(at);
        else if (line_comment(at))
            at = skip_line(at);
        else if (at[0] == '/' && at[1] == '*')
            at = skip_block(at);
        else
            at++;
    }
    return at;
}

bool rl_script_next(const char **at, rl_statement *statement)
{
    const char *from = skip_blank(*at);
    while (*from == ';')
        from = skip_blank(from + 1);
    if (!*from) {
        *at = from;
        return false;
    }
    const char *end = statement_end(from);
    *at = *end ? end + 1 : end;
    while (end > from && isspace((unsigned char)end[-1]))
        end--;
    *statement = (rl_statement){.text = from, .length = (size_t)(end - from)};
    return true;
}

unsigned rl_script_count(const char *script)
{
    unsigned count = 0;
    rl_statement statement;
    while (rl_script_next(&script, &statement))
        count++;
    return count;
}

void rl_statement_title(const rl_statement *statement, char *title, size_t size)
{
    size_t n = 0;
    while (n < statement->length && n + 1 < size && statement->text[n] != '\n') {
        title[n] = statement->text[n];
        n++;
    }
    while (n > 0 && (title[n - 1] == '(' || title[n - 1] == ' '))
        n--;
    title[n] = '\0';
}
