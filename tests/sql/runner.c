/*
 * sql_script - runs a script (script.h tells its form) on a fresh schema with rowlock's procedures,
 * and compares what came out.
 *
 *   sql_script SCRIPT EXPECTED       on MySQL EXPECTED's sister .mysql.expected, where there is one
 *   sql_script SCRIPT                prints what comes out
 *
 * It needs what the other tests on a server do (support.h), and ROWLOCK, the command.
 */
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "place.h"
#include "script.h"

enum { LOOKS = 3, LOOK_APART_MS = 30, UNTIL_MOST_MS = 60000 };

static FILE *out;

static bool complain(const script_step *step, const char *what)
{
    fprintf(out, "line %u: %s\n", step->line, what);
    return false;
}

/* ------------------------------------------------------------------------------- steps */

static bool tell_end(const script_step *step)
{
    party *p = place_party(step->who);
    if (!p->running)
        return complain(step, "it runs nothing");
    char *text = party_end(p);
    if (!text)
        return complain(step, "it does not end");
    fputs(text, out);
    free(text);
    return true;
}

static bool begin(const script_step *step)
{
    party *p = place_party(*step->who ? step->who : "shell");
    if (p->running)
        return complain(step, "it still runs what it began before");
    party_begin(p, step->kind, step->body);
    if (step->background)
        return true;
    script_step end = *step;
    snprintf(end.who, sizeof end.who, "%s", p->name);
    return tell_end(&end);
}

/* Some looks must agree: on its way to where it is to wait it may wait for a moment elsewhere. */
static bool waits(uint64_t id, uint64_t wanted)
{
    for (unsigned look = 0; look < LOOKS; look++) {
        ts_pass_ms(LOOK_APART_MS);
        if (place_waiting(id) != wanted)
            return false;
    }
    return true;
}

static bool is_true(const char *statement)
{
    size_t length = 0;
    char *filled = place_fill_in(statement, &length);
    char *value = ts_sql_text(place_admin(), "%s", filled);
    bool yes = *value && strcmp(value, "0") != 0;
    free(filled);
    free(value);
    return yes;
}

static bool until(const script_step *step)
{
    bool good = false;
    if (step->kind == STEP_UNTIL_WAITS)
        good = POLL_UNTIL(waits(place_party(step->who)->connection_id, 1), UNTIL_MOST_MS);
    else if (step->kind == STEP_UNTIL_COUNT)
        good = POLL_UNTIL(waits(0, strtoull(step->who, NULL, 10)), UNTIL_MOST_MS);
    else
        good = POLL_UNTIL(is_true(step->body), UNTIL_MOST_MS);
    return good || complain(step, "that does not come");
}

static bool run_step(const script_step *step)
{
    fprintf(out, "%s\n", step->text);
    fflush(out);
    switch (step->kind) {
    case STEP_NOTHING:
    case STEP_WITHOUT:
        return true;
    case STEP_SQL:
    case STEP_SHELL:
    case STEP_LIBRARY:
        return begin(step);
    case STEP_AWAIT:
        return tell_end(step);
    case STEP_UNTIL_WAITS:
    case STEP_UNTIL_COUNT:
    case STEP_UNTIL_SQL:
        return until(step);
    case STEP_USER:
        place_add_user(step->who);
        return true;
    case STEP_LOGIN:
        place_login(step->who, step->body);
        return true;
    case STEP_CLOSE:
        place_close(step->who);
        return true;
    case STEP_MASK:
        return place_mask(step->body) || complain(step, "no mask");
    }
    return false;
}

/* What is left running would hold the schema when it is to be dropped. */
static bool all_ended(const sql_script *script)
{
    for (size_t i = 0; i < script->count; i++)
        if (*script->steps[i].who && place_party(script->steps[i].who)->running)
            return complain(&script->steps[i], "what was begun here is never waited for");
    return true;
}

static bool run_script(const sql_script *script)
{
    bool good = true;
    for (size_t i = 0; good && i < script->count; i++) {
        const script_step *step = &script->steps[i];
        good = run_step(step);
        if (step->kind == STEP_WITHOUT && place_is_mysql() == (strcmp(step->who, "mysql") == 0))
            break;
    }
    return good && all_ended(script);
}

/* ------------------------------------------------------------------------------ main */

static void install_procedures(const sql_script *script)
{
    for (size_t i = 0; i < script->count; i++)
        if (strcmp(script->steps[i].text, "# no procedures") == 0)
            return;
    if (system("rowlock init --procedures -q") != 0) {
        fprintf(stderr, "rowlock init --procedures failed\n");
        exit(1);
    }
}

/* The same, or shows how it differs. */
static bool compare(const char *text, const char *expected)
{
    char command[2000];
    char path[1000];
    snprintf(path, sizeof path, "%.*s.mysql.expected",
             (int)(strlen(expected) - strlen(".expected")), expected);
    if (!place_is_mysql() || access(path, R_OK) != 0)
        snprintf(path, sizeof path, "%s", expected);
    snprintf(command, sizeof command, "diff -u '%s' -", path);
    FILE *diff = popen(command, "w");
    if (!diff)
        return false;
    fputs(text, diff);
    return pclose(diff) == 0;
}

int main(int argc, char **argv)
{
    static sql_script script;
    char *text = NULL;
    size_t size = 0;
    if (argc < 2 || argc > 3 || !script_read(argv[1], &script))
        return 64;
    setlocale(LC_ALL, "C.UTF-8");
    out = argc > 2 ? open_memstream(&text, &size) : stdout;
    place_begin();
    install_procedures(&script);
    bool good = run_script(&script);
    if (argc == 2)
        fflush(out);
    else {
        fclose(out);
        good = compare(text, argv[2]) && good;
    }
    if (!good)
        _exit(1); /* what hangs, hangs; the schema is left to the server's end */
    place_end();
    script_free(&script);
    free(text);
    return 0;
}
