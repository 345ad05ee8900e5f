/* cli/duration.c - durations as people write them. Pure functions. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

enum { UNIT_SIZE = 4 /* longer than the longest, "ms" */ };

/* Milliseconds of a unit; 0: it is none. No unit means seconds. */
static int64_t unit_ms(const char *unit)
{
    static const struct {
        const char *word;
        int64_t ms;
    } units[] = {
        {"", 1000}, {"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}, {"d", 86400000},
    };
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (strcmp(unit, units[i].word) == 0)
            return units[i].ms;
    }
    return 0;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* The digits behind the point, in billionths, rounded up. */
static int64_t fraction_part(const char **p)
{
    int64_t billionths = 0;
    int64_t scale = 100000000;
    bool more = false;
    for (; is_digit(**p); (*p)++) {
        if (scale == 0)
            more = more || **p != '0';
        billionths += (**p - '0') * scale;
        scale /= 10;
    }
    return billionths + more;
}

/* Reads "1.5h" at *text into *ms and *unit, and moves *text behind it. */
static bool take_part(const char **text, int64_t *ms, int64_t *unit)
{
    char *end;
    int64_t billionths = 0;
    errno = 0;
    const int64_t whole = strtoll(*text, &end, 10);
    if (!is_digit(**text) || errno != 0)
        return false;
    const char *p = end;
    if (*p == '.') {
        p++;
        if (!is_digit(*p))
            return false;
        billionths = fraction_part(&p);
    }
    char word[UNIT_SIZE] = "";
    const size_t length = strcspn(p, "0123456789");
    if (length >= UNIT_SIZE)
        return false;
    memcpy(word, p, length);
    *unit = unit_ms(word);
    if (*unit == 0 || __builtin_mul_overflow(whole, *unit, ms))
        return false;
    *text = p + length;
    /* At most 10^9 * 86,400,000 and a bit: it fits. */
    const int64_t part = (billionths * *unit + 999999999) / 1000000000;
    return !__builtin_add_overflow(*ms, part, ms);
}

/* Several parts have a unit each, the larger one first: "1h30m". */
bool cli_duration(const char *text, int64_t *ms)
{
    int64_t total = 0;
    int64_t before = INT64_MAX;
    do {
        int64_t part = 0;
        int64_t unit = 0;
        if (!take_part(&text, &part, &unit) || unit >= before ||
            __builtin_add_overflow(total, part, &total))
            return false;
        /* A number without a unit stands alone. */
        if (is_digit(text[-1]) && before != INT64_MAX)
            return false;
        before = unit;
    } while (*text);
    *ms = total;
    return true;
}
