#include "spec.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct reader {
    const char *path;
    char *text;
    const char *at;
    unsigned line;
} reader;

static bool complain(const reader *r, const char *what)
{
    fprintf(stderr, "%s:%u: %s\n", r->path, r->line, what);
    return false;
}

static void skip_space(reader *r)
{
    for (; *r->at; r->at++) {
        if (*r->at == '#')
            while (r->at[1] && r->at[1] != '\n')
                r->at++;
        else if (!isspace((unsigned char)*r->at))
            return;
        r->line += *r->at == '\n';
    }
}

static bool take(reader *r, const char *word)
{
    skip_space(r);
    size_t length = strlen(word);
    if (strncmp(r->at, word, length) != 0)
        return false;
    if (isalnum((unsigned char)word[length - 1]) && isalnum((unsigned char)r->at[length]))
        return false;
    r->at += length;
    return true;
}

/* What stands between the place and `end`, without white space around it. */
static bool until(reader *r, char end, char *out, size_t size)
{
    const char *stop = strchr(r->at, end);
    if (!stop)
        return complain(r, "it does not end");
    const char *from = r->at;
    r->at = stop + 1;
    while (from < stop && isspace((unsigned char)*from))
        from++;
    while (stop > from && isspace((unsigned char)stop[-1]))
        stop--;
    if ((size_t)(stop - from) >= size)
        return complain(r, "it is too long");
    memcpy(out, from, (size_t)(stop - from));
    out[stop - from] = 0;
    return true;
}

static bool quoted(reader *r, char *out, size_t size)
{
    if (!take(r, "\""))
        return complain(r, "a name in quotes is missing");
    return until(r, '"', out, size);
}

static bool read_step(reader *r, race_spec *spec)
{
    if (spec->step_count == STEPS_MAX)
        return complain(r, "too many steps");
    race_step *step = &spec->steps[spec->step_count++];
    step->session = spec->session_count - 1;
    if (!quoted(r, step->name, sizeof step->name))
        return false;
    if (!take(r, "{"))
        return complain(r, "{ is missing");
    return until(r, '}', step->command, sizeof step->command);
}

static bool read_session(reader *r, race_spec *spec)
{
    if (spec->session_count == SESSIONS_MAX)
        return complain(r, "too many sessions");
    char *name = spec->sessions[spec->session_count++];
    skip_space(r);
    if (!until(r, '{', name, sizeof spec->sessions[0]))
        return false;
    while (take(r, "step"))
        if (!read_step(r, spec))
            return false;
    return take(r, "}") || complain(r, "} or step is missing");
}

static const race_step *find_step(const race_spec *spec, const char *name)
{
    for (size_t i = 0; i < spec->step_count; i++)
        if (strcmp(spec->steps[i].name, name) == 0)
            return &spec->steps[i];
    return NULL;
}

static bool read_permutation(reader *r, race_spec *spec)
{
    char name[32];
    if (spec->permutation_count == PERMUTATIONS_MAX)
        return complain(r, "too many permutations");
    race_permutation *p = &spec->permutations[spec->permutation_count++];
    while (skip_space(r), *r->at == '"') {
        if (p->count == ORDER_MAX || !quoted(r, name, sizeof name))
            return complain(r, "too many steps");
        p->order[p->count] = find_step(spec, name);
        if (!p->order[p->count++])
            return complain(r, "there is no such step");
    }
    return true;
}

static bool read_all(reader *r, race_spec *spec)
{
    for (;;) {
        skip_space(r);
        if (!*r->at)
            return spec->permutation_count > 0 || complain(r, "no permutation");
        bool good = take(r, "session")       ? read_session(r, spec)
                    : take(r, "permutation") ? read_permutation(r, spec)
                                             : complain(r, "neither session nor permutation");
        if (!good)
            return false;
    }
}

static char *read_file(const char *path)
{
    char *text = NULL;
    size_t size = 0;
    FILE *in = fopen(path, "r");
    if (!in)
        return NULL;
    if (getdelim(&text, &size, 0, in) < 0) {
        free(text);
        text = NULL;
    }
    fclose(in);
    return text;
}

bool race_spec_read(const char *path, race_spec *spec)
{
    reader r = {.path = path, .line = 1, .text = read_file(path)};
    *spec = (race_spec){.session_count = 0};
    if (!r.text)
        return complain(&r, "cannot be read");
    r.at = r.text;
    bool good = read_all(&r, spec);
    free(r.text);
    return good;
}
