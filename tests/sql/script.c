#include "script.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool begins(const char *line, const char *word)
{
    return strncmp(line, word, strlen(word)) == 0;
}

static void name_it(script_step *step, const char *name, size_t length)
{
    snprintf(step->who, sizeof step->who, "%.*s", (int)length, name);
}

/* ------------------------------------------------------------------- one line, one step */

/* What follows the session's name tells what it does. */
static step_kind kind_of(const char **at, bool *background)
{
    const char *sign = *at;
    step_kind kind = STEP_NOTHING;
    switch (*sign) {
    case '>':
    case '&':
        kind = STEP_SQL;
        break;
    case '$':
        kind = STEP_SHELL;
        break;
    case '!':
        kind = STEP_LIBRARY;
        break;
    case '<':
        kind = STEP_AWAIT;
        break;
    default:
        return STEP_NOTHING;
    }
    *background = *sign == '&' || sign[1] == '&';
    *at = sign + 1 + (*sign != '&' && *background);
    return kind;
}

static bool read_until(script_step *step, const char *rest)
{
    size_t word = strcspn(rest, " >");
    name_it(step, rest, word);
    step->body = strdup(rest + word + 1);
    if (rest[word] == '>')
        step->kind = STEP_UNTIL_SQL;
    else if (strcmp(rest + word, " waits") == 0)
        step->kind = STEP_UNTIL_WAITS;
    else if (strcmp(rest + word, " wait") == 0)
        step->kind = STEP_UNTIL_COUNT;
    return step->kind != STEP_NOTHING;
}

static bool read_directive(script_step *step, const char *line)
{
    static const struct {
        const char *word;
        step_kind kind;
    } directives[] = {
        {"user ", STEP_USER}, {"login ", STEP_LOGIN},     {"close ", STEP_CLOSE},
        {"mask ", STEP_MASK}, {"without ", STEP_WITHOUT},
    };
    if (begins(line, "until "))
        return read_until(step, line + strlen("until "));
    for (size_t i = 0; i < sizeof directives / sizeof directives[0]; i++) {
        if (!begins(line, directives[i].word))
            continue;
        const char *rest = line + strlen(directives[i].word);
        size_t word = strcspn(rest, " ");
        step->kind = directives[i].kind;
        name_it(step, rest, word);
        step->body = strdup(step->kind == STEP_LOGIN ? rest + word : rest);
        return true;
    }
    return false;
}

static bool read_step(script_step *step, const char *line)
{
    const char *at = line;
    if (*line == 0 || *line == '#')
        return true;
    while (isalnum((unsigned char)*at))
        at++;
    size_t length = (size_t)(at - line);
    step->kind = length < sizeof step->who ? kind_of(&at, &step->background) : STEP_NOTHING;
    if (step->kind == STEP_NOTHING)
        return read_directive(step, line);
    name_it(step, line, length);
    step->body = strdup(*at == ' ' ? at + 1 : at);
    return length > 0 || (step->kind == STEP_SHELL && !step->background);
}

/* -------------------------------------------------------------------------- the script */

static char *appended(char *text, const char *line)
{
    char *longer = NULL;
    if (asprintf(&longer, "%s\n%s", text, line) < 0)
        abort();
    free(text);
    return longer;
}

static void end_statement(script_step *step)
{
    size_t length = step->body ? strlen(step->body) : 0;
    if (step->kind != STEP_SHELL && length > 0 && step->body[length - 1] == ';')
        step->body[length - 1] = 0;
}

static bool add_line(sql_script *script, const char *line, unsigned number)
{
    script_step *last = script->count > 0 ? &script->steps[script->count - 1] : NULL;
    if (*line == ' ') {
        if (!last || !last->body)
            return false;
        last->text = appended(last->text, line);
        last->body = appended(last->body, line);
        return true;
    }
    if (script->count == STEPS_IN_SCRIPT)
        return false;
    script_step *step = &script->steps[script->count++];
    step->line = number;
    step->text = strdup(line);
    return read_step(step, line);
}

bool script_read(const char *path, sql_script *script)
{
    char *line = NULL;
    size_t size = 0;
    bool good = true;
    FILE *in = fopen(path, "r");
    memset(script, 0, sizeof *script);
    if (!in) {
        perror(path);
        return false;
    }
    for (unsigned number = 1; good && getline(&line, &size, in) >= 0; number++) {
        line[strcspn(line, "\n")] = 0;
        good = add_line(script, line, number);
        if (!good)
            fprintf(stderr, "%s:%u: not understood: %s\n", path, number, line);
    }
    for (size_t i = 0; i < script->count; i++)
        end_statement(&script->steps[i]);
    free(line);
    fclose(in);
    return good;
}

void script_free(sql_script *script)
{
    for (size_t i = 0; i < script->count; i++) {
        free(script->steps[i].text);
        free(script->steps[i].body);
    }
    script->count = 0;
}
