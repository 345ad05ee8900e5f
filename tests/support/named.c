#include "named.h"

#include <ctype.h>

#include "stmt/stmt.h"
#include "support.h"

enum { NAME_MAX_LENGTH = 47, INFO_SIZE = 16384, SHOWN = 500 };

static bool next_name(const char **names, char name[NAME_MAX_LENGTH + 1])
{
    const char *at = *names + strspn(*names, " ");
    size_t length = strcspn(at, " ");
    assert_true(length <= NAME_MAX_LENGTH);
    memcpy(name, at, length);
    name[length] = 0;
    *names = at + length;
    return length > 0;
}

static const rl_sql *find(const char *name)
{
    for (int i = 0; i < RL_SQL_COUNT; i++)
        if (strcmp(rl_sql_table[i].name, name) == 0)
            return &rl_sql_table[i];
    return NULL;
}

void ts_named_check(const char *names)
{
    char name[NAME_MAX_LENGTH + 1];
    bool piece = *names == '~';
    for (int i = 0; i < RL_SQL_COUNT && piece; i++)
        piece = !strstr(rl_sql_table[i].text, names + 1);
    if (piece)
        fail_msg("no statement of sql/ has '%s' in it", names + 1);
    if (*names == '=' || *names == '~')
        return;
    while (next_name(&names, name))
        if (!find(name))
            fail_msg("no statement of sql/ has the name '%s'", name);
}

/* The length of the text in a parameter's place: the placeholder, a quoted text or name, or a
 * word. */
static size_t value_length(const char *text, const char *end)
{
    const char *at = text;
    if (at < end && *at == '?')
        return 1;
    if (at < end && (*at == '\'' || *at == '`')) {
        const char *close = memchr(at + 1, *at, (size_t)(end - at - 1));
        return close ? (size_t)(close + 1 - text) : 0;
    }
    while (at < end && (isalnum((unsigned char)*at) || strchr("_.-", *at)))
        at++;
    return (size_t)(at - text);
}

/* The length of the placeholder that begins here; 0: none does. */
static size_t place_length(const char *pattern)
{
    if (strncmp(pattern, "{schema}", 8) == 0)
        return 8;
    if (strncmp(pattern, "{table}", 7) == 0)
        return 7;
    return *pattern == '?';
}

static bool is_text(const char *pattern, const char *text, size_t length)
{
    const char *end = text + length;
    while (pattern && *pattern) {
        size_t place = place_length(pattern);
        if (place == 0 && (text == end || *text != *pattern))
            return false;
        text += place ? value_length(text, end) : 1;
        pattern += place ? place : 1;
    }
    return pattern && text == end;
}

bool ts_named_is(const char *names, const char *text, size_t length)
{
    char name[NAME_MAX_LENGTH + 1];
    if (*names == '=')
        return strlen(names + 1) == length && memcmp(names + 1, text, length) == 0;
    if (*names == '~')
        return memmem(text, length, names + 1, strlen(names + 1)) != NULL;
    while (next_name(&names, name)) {
        const rl_sql *sql = find(name);
        if (sql && (is_text(sql->text, text, length) || is_text(sql->call, text, length)))
            return true;
    }
    return false;
}

/* MySQL's performance_schema shows the first 1024 bytes of a statement. */
static void put_like(FILE *out, const char *before, const char *pattern)
{
    fprintf(out, "%sinfo LIKE '", before);
    for (unsigned i = 0; *pattern && i < SHOWN; i++) {
        size_t place = place_length(pattern);
        if (place)
            fputc('%', out);
        else
            fprintf(out, *pattern == '\'' ? "''" : "%c", *pattern);
        pattern += place ? place : 1;
    }
    fprintf(out, *pattern ? "%%'" : "'");
}

const char *ts_named_info(const char *names)
{
    static char info[INFO_SIZE];
    char name[NAME_MAX_LENGTH + 1];
    FILE *out = fmemopen(info, sizeof info, "w");
    ts_named_check(names);
    assert_non_null(out);
    const char *before = "(";
    while (next_name(&names, name)) {
        const rl_sql *sql = find(name);
        put_like(out, before, sql->text);
        if (sql->call)
            put_like(out, " OR ", sql->call);
        before = " OR ";
    }
    fputc(')', out);
    fputc(0, out);
    assert_int_equal(fclose(out), 0);
    return info;
}
