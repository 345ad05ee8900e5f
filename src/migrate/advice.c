#include "migrate/advice.h"

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

static char *words_of(rl_buffer *words)
{
    if (!words->failed)
        return words->text;
    rl_buffer_free(words);
    return NULL;
}

static char *program_of(const char *const *words)
{
    rl_buffer program = {0};
    for (; *words; words++)
        put_word(&program, "", *words);
    return words_of(&program);
}

bool rl_advice_make(rl_advice *advice, const char *const *words, const char *lock_name,
                    const char *into, const char *lock, const char *table, const char *folder)
{
    rl_buffer name = {0};
    rl_buffer where = {0};
    put_word(&name, *lock_name == '-' ? "-- " : "", lock_name);
    put_word(&where, "--into=", into);
    if (lock)
        put_word(&where, "--lock=", lock);
    if (table)
        put_word(&where, "--history-table=", table);
    put_word(&where, *folder == '-' ? "./" : "", folder);
    advice->program = program_of(words);
    advice->lock = words_of(&name);
    advice->where = words_of(&where);
    return advice->program && advice->lock && advice->where;
}

void rl_advice_free(rl_advice *advice)
{
    free(advice->program);
    free(advice->lock);
    free(advice->where);
    *advice = (rl_advice){0};
}

const char *rl_advise(const rl_advice *advice, char *to, size_t size, const char *what)
{
    int length = (int)size;
    if (advice)
        length = snprintf(to, size, "`%s migrate %s %s`", advice->program, what, advice->where);
    if (length < 0 || (size_t)length >= size)
        snprintf(to, size, "`rowlock migrate %s` with the options and the folder of this run",
                 what);
    return to;
}

const char *rl_advise_lock(const rl_advice *advice, char *to, size_t size, const char *verb)
{
    int length = snprintf(to, size, "`%s %s %s`", advice->program, verb, advice->lock);
    if (length < 0 || (size_t)length >= size)
        snprintf(to, size, "`rowlock %s` with the name of the lock", verb);
    return to;
}

const char *rl_advise_verb(const rl_advice *advice, char *to, size_t size, const char *verb)
{
    int length = snprintf(to, size, "`%s %s`", advice->program, verb);
    if (length < 0 || (size_t)length >= size)
        snprintf(to, size, "`rowlock %s`", verb);
    return to;
}
