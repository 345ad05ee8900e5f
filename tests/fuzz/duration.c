/* Durations: held against sums with numbers of any size; and how they are shown to people. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/text.h"
#include "fuzz.h"

__extension__ typedef __int128 big; /* too large for any of these sums to overflow */

enum { PLACES = 9 }; /* behind the point; from the next on, a duration may come out a bit longer */

typedef struct parts {
    size_t whole;    /* digits before the point, ... */
    size_t fraction; /* ... behind it (with a point there is at least one) ... */
    int64_t unit_ms; /* ... and the unit; 0: this is no duration */
} parts;

static int64_t unit_of(const char *unit)
{
    return strcmp(unit, "ms") == 0                           ? 1
           : strcmp(unit, "") == 0 || strcmp(unit, "s") == 0 ? 1000
           : strcmp(unit, "m") == 0                          ? 60 * 1000
           : strcmp(unit, "h") == 0                          ? 3600 * 1000
           : strcmp(unit, "d") == 0                          ? 86400 * 1000
                                                             : 0;
}

static parts take_apart(const char *text)
{
    static const char digits[] = "0123456789";
    parts p = {.whole = strspn(text, digits)};
    const char *rest = text + p.whole;
    if (p.whole > 0 && *rest == '.')
        p.fraction = strspn(rest + 1, digits);
    if (p.whole > 0 && (*rest != '.' || p.fraction > 0))
        p.unit_ms = unit_of(rest + (*rest == '.') + p.fraction);
    return p;
}

/* Milliseconds, rounded up, of the first PLACES digits behind the point; -1: they do not fit. */
static big exactly(const char *text, const parts *p)
{
    big whole = 0;
    big billionths = 0;
    for (size_t i = 0; i < p->whole; i++) {
        whole = whole * 10 + (text[i] - '0');
        if (whole > INT64_MAX)
            return -1;
    }
    for (size_t i = 0; i < PLACES; i++)
        billionths = billionths * 10 + (i < p->fraction ? text[p->whole + 1 + i] - '0' : 0);
    big ms = whole * p->unit_ms + (billionths * p->unit_ms + 999999999) / 1000000000;
    return ms > INT64_MAX ? -1 : ms;
}

static void check_shown(int64_t ms)
{
    char shown[CLI_HUMANE];
    require(cli_humane(ms, shown, sizeof shown) == shown);
    require(strlen(shown) < sizeof shown - 1);
    require(fuzz_is_clean(shown));
}

static void check_round_trip(int64_t ms)
{
    char text[32];
    int64_t again = -1;
    snprintf(text, sizeof text, "%" PRId64 "ms", ms);
    require(cli_duration(text, &again) && again == ms);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_text(data, size);
    parts p = take_apart(text);
    big exact = p.unit_ms ? exactly(text, &p) : -1;
    int64_t ms = -42;
    if (cli_duration(text, &ms)) {
        require(exact >= 0 && ms >= exact);
        require(ms <= exact + (p.fraction > PLACES));
        check_round_trip(ms);
        check_shown(ms);
    } else {
        require(exact < 0 || (p.fraction > PLACES && exact == INT64_MAX));
        require(ms == -42);
    }
    if (size >= sizeof ms) {
        memcpy(&ms, data, sizeof ms);
        check_shown(ms);
    }
    free(text);
    return 0;
}
