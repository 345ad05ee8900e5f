/*
 * cli/period.h - periods of the calendar: which one a moment is in, and which one was before it.
 *
 * A period begins at the first moment whose wall time is at or past the wanted one. If the clocks
 * skip that time, it begins when they go on; if it comes twice, it begins the first time. A period
 * ends when the next one begins.
 */
#ifndef RL_CLI_PERIOD_H
#define RL_CLI_PERIOD_H

#include <stdbool.h>
#include <stdint.h>

typedef enum period_unit {
    PERIOD_MINUTE, /* minutes and hours divide the day, and are counted in UTC */
    PERIOD_HOUR,
    PERIOD_DAY, /* days and longer units follow the zone's calendar */
    PERIOD_WEEK,
    PERIOD_MONTH
} period_unit;

typedef struct period_rule {
    period_unit unit;
    unsigned count;  /* how many units */
    unsigned day;    /* --at: day of the week, 0 is Monday; of the month, from 1 ... */
    unsigned minute; /* ... and the minute of the day, or of an hour's period */
} period_rule;

typedef struct period {
    int64_t index; /* counted from 1970 in periods of its rule */
    int64_t start_us;
    int64_t end_us;
} period;

/* "1d", "15m", "month"; `at` NULL: its begin. False: *why says what `at` is not, or `per` without.
 */
bool period_parse(const char *per, const char *at, period_rule *rule, const char **why);

/* True: the system knows that zone. "UTC" and "local" always exist. */
bool period_zone_exists(const char *zone);

/* Sets the zone of this process and of those that it starts. "local" keeps the present one. Call it
 * before there is a second thread. */
void period_zone_use(const char *zone);

period period_around(const period_rule *rule, int64_t now_us);
period period_before(const period_rule *rule, const period *p);

enum { PERIOD_TEXT = 28 };

/* "2026-11-23T02:00:00Z" */
void period_text(int64_t us, char text[PERIOD_TEXT]);

#endif
