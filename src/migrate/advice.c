#include "migrate/advice.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

/* A word behind a blank, quoted where a shell would take it apart. */
static void put_word(rl_buffer *to, const char *option, const char *word)
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:@%+=,";
    bool quote = !*word || word[strspn(word, plain)] != '\0';
    rl_buffer_puts(to, to->length ? " " : "");
    rl_buffer_puts(to, option);
    rl_buffer_puts(to, quote ? "'" : "");
    rl_buffer_fill_in(to, word, "'", "'\\''");
    rl_buffer_puts(to, quote ? "'" : "");
}

bool rl_advice_make(rl_advice *advice, const char *const *words, const char *lock_name,
                    const char *into, const char *lock, const char *table, const char *folder)
{
    rl_buffer program = {0};
    rl_buffer name = {0};
    rl_buffer where = {0};
    for (; *words; words++)
        put_word(&program, "", *words);
    put_word(&name, *lock_name == '-' ? "-- " : "", lock_name);
    put_word(&where, "--into=", into);
    if (lock)
        put_word(&where, "--lock=", lock);
    if (table)
        put_word(&where, "--history-table=", table);
    put_word(&where, *folder == '-' ? "./" : "", folder);
    *advice = (rl_advice){.program = program.text, .lock = name.text, .where = where.text};
    return program.text && !program.failed && !name.failed && !where.failed;
}

void rl_advice_free(rl_advice *advice)
{
    free(advice->program);
    free(advice->lock);
    free(advice->where);
    *advice = (rl_advice){0};
}

const char *rl_advise(const rl_advice *advice, char *to, size_t size, const char *format, ...)
{
    char what[80];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    int length = (int)size;
    if (advice)
        length = snprintf(to, size, "`%s migrate %s %s`", advice->program, what, advice->where);
    if (length < 0 || (size_t)length >= size)
        snprintf(to, size, "`rowlock migrate %s` with the options and the folder of this run",
                 what);
    return to;
}

const char *rl_advise_verb(const rl_advice *advice, char *to, size_t size, const char *verb,
                           bool of_lock)
{
    int length = snprintf(to, size, "`%s %s%s%s`", advice->program, verb, of_lock ? " " : "",
                          of_lock ? advice->lock : "");
    if (length < 0 || (size_t)length >= size)
        snprintf(to, size, "`rowlock %s`%s", verb, of_lock ? " with the name of the lock" : "");
    return to;
}
