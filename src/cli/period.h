/*
 * cli/period.h - periods of the calendar: which one a moment is in, and which one was before it.
 *
 * A period begins at the first moment whose wall time is at or past the one that is wanted: what
 * the clocks skip begins when they go on, what comes twice begins the first time. Each ends where
 * the next one begins.
 */
#ifndef RL_CLI_PERIOD_H
#define RL_CLI_PERIOD_H

#include <stdbool.h>
#include <stdint.h>

typedef enum period_unit {
    PERIOD_MINUTE, /* these two divide the day, and are counted in UTC */
    PERIOD_HOUR,
    PERIOD_DAY, /* these by the calendar, in the zone */
    PERIOD_WEEK,
    PERIOD_MONTH
} period_unit;

typedef struct period_rule {
    period_unit unit;
    unsigned count;  /* of them */
    unsigned day;    /* --at: of the week, 0 is Monday; of the month, 1 ... */
    unsigned minute; /* ... and of the day, or of an hour's period */
} period_rule;

typedef struct period {
    int64_t index; /* among all of its rule */
    int64_t start_us;
    int64_t end_us;
} period;

/* "1d", "15m", "month"; `at` NULL: at its begin. False: *why says what is wrong with which. */
bool period_parse(const char *per, const char *at, period_rule *rule, const char **why);

/* True: the system knows that zone; "UTC" and "local" are there in any case. */
bool period_zone_exists(const char *zone);

/* From now on this process is in that zone: what it starts, too. "local": it stays where it is. No
 * other thread may be there yet. */
void period_zone_use(const char *zone);

period period_around(const period_rule *rule, int64_t now_us);
period period_before(const period_rule *rule, const period *p);

enum { PERIOD_TEXT = 28 };

/* "2026-11-23T02:00:00Z" */
void period_text(int64_t us, char text[PERIOD_TEXT]);

#endif
