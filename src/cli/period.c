/* cli/period.c - see period.h. Time zones are the C library's. */
#include "period.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

enum {
    MINUTE_S = 60,
    DAY_S = 86400,
    DAY_MINUTES = 1440,
    /* No zone is further ahead of UTC, or further behind, even with what a zone has skipped at once
     * (a day, when the date line was moved). */
    AHEAD_MOST_S = 15 * 3600,
    BEHIND_MOST_S = 40 * 3600,
    FIRST_MONDAY = 4 /* 1970-01-05 */
};

/* ------------------------------------------------------------------------------- reading */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Reads one to `most` digits, and moves *p behind them. */
static bool take_number(const char **p, unsigned most, unsigned *number)
{
    unsigned digits = 0;
    *number = 0;
    for (; is_digit(**p) && digits <= most; (*p)++, digits++)
        *number = *number * 10 + (unsigned)(**p - '0');
    return digits > 0 && digits <= most;
}

/* "02:00", ":15" */
static bool take_time(const char *text, unsigned *minute)
{
    unsigned hours = 0;
    if (*text != ':' && (!take_number(&text, 2, &hours) || hours > 23))
        return false;
    if (*text != ':' || !is_digit(text[1]) || !is_digit(text[2]) || text[3] || text[1] > '5')
        return false;
    *minute = hours * 60 + (unsigned)(text[1] - '0') * 10 + (unsigned)(text[2] - '0');
    return true;
}

static bool take_weekday(const char **p, unsigned *day)
{
    static const char *const days[] = {"Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"};
    for (unsigned i = 0; i < sizeof days / sizeof days[0]; i++)
        if (strncasecmp(*p, days[i], 3) == 0) {
            *day = i;
            *p += 3;
            return true;
        }
    return false;
}

static bool take_month_day(const char **p, unsigned *day)
{
    return take_number(p, 2, day) && *day >= 1 && *day <= 31;
}

/* "Mon 02:00", "31", "02:00" */
static bool take_day_and_time(const char *at, period_rule *rule)
{
    if (strchr(at, ':') && !strchr(at, ' '))
        return take_time(at, &rule->minute);
    bool good =
        rule->unit == PERIOD_WEEK ? take_weekday(&at, &rule->day) : take_month_day(&at, &rule->day);
    if (!good || !*at)
        return good;
    return *at == ' ' && take_time(at + 1, &rule->minute);
}

static bool take_at(const char *at, period_rule *rule, const char **why)
{
    bool good = false;
    switch (rule->unit) {
    case PERIOD_MINUTE:
        *why = "does not go with a period of minutes";
        return false;
    case PERIOD_HOUR:
        *why = "is not within the period: :15, or 01:15 for one of several hours";
        good = take_time(at, &rule->minute) && rule->minute < rule->count * 60;
        break;
    case PERIOD_DAY:
        *why = "is not a time of the day, 00:00 to 23:59";
        good = take_time(at, &rule->minute);
        break;
    case PERIOD_WEEK:
        *why = "is not a day and a time: 'Mon 02:00' (Mon Tue Wed Thu Fri Sat Sun)";
        good = take_day_and_time(at, rule);
        break;
    case PERIOD_MONTH:
        *why = "is not a day of the month and a time: '31 02:00'";
        good = take_day_and_time(at, rule);
        break;
    }
    return good;
}

/* The count is allowed: minutes and hours must divide the day, months the year. */
static bool fits(period_unit unit, unsigned count)
{
    static const unsigned all[] = {[PERIOD_MINUTE] = DAY_MINUTES,
                                   [PERIOD_HOUR] = 24,
                                   [PERIOD_DAY] = 366,
                                   [PERIOD_WEEK] = 52,
                                   [PERIOD_MONTH] = 12};
    if (count < 1 || count > all[unit])
        return false;
    return unit == PERIOD_DAY || unit == PERIOD_WEEK || all[unit] % count == 0;
}

static bool take_per(const char *per, period_rule *rule)
{
    static const char *const words[] = {[PERIOD_MINUTE] = "m",
                                        [PERIOD_HOUR] = "h",
                                        [PERIOD_DAY] = "d",
                                        [PERIOD_WEEK] = "w",
                                        [PERIOD_MONTH] = "month"};
    if (!take_number(&per, 4, &rule->count))
        return false;
    for (unsigned i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcmp(per, words[i]) == 0) {
            rule->unit = (period_unit)i;
            return fits(rule->unit, rule->count);
        }
    return false;
}

bool period_parse(const char *per, const char *at, period_rule *rule, const char **why)
{
    *rule = (period_rule){.count = 0};
    *why = "is not a number of m or h that divides the day, of d, of w, or of month that divides "
           "the year: 15m, 6h, 1d, 1w, 1month";
    if (!take_per(per, rule))
        return false;
    rule->day = rule->unit == PERIOD_MONTH ? 1 : 0;
    return !at || take_at(at, rule, why);
}

/* --------------------------------------------------------------------------------- zones */

static bool is_zone_file(const char *path)
{
    char magic[4] = "";
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0)
        return false;
    const ssize_t got = read(fd, magic, sizeof magic);
    close(fd);
    return got == sizeof magic && memcmp(magic, "TZif", sizeof magic) == 0;
}

/* tzset() silently takes an unknown zone for UTC, so this looks for the zone's file. */
bool period_zone_exists(const char *zone)
{
    char path[512];
    const char *folder = getenv("TZDIR");
    if (strcmp(zone, "local") == 0 || strcmp(zone, "UTC") == 0)
        return true;
    if (!*zone || *zone == '/' || *zone == ':' || strstr(zone, ".."))
        return false;
    const int length = snprintf(path, sizeof path, "%s/%s",
                                folder && *folder ? folder : "/usr/share/zoneinfo", zone);
    return length < (int)sizeof path && is_zone_file(path);
}

void period_zone_use(const char *zone)
{
    char value[512] = ":";
    if (strcmp(zone, "local") != 0) {
        strncat(value, zone, sizeof value - 2);
        setenv("TZ", strcmp(zone, "UTC") == 0 ? "UTC0" : value, 1);
    }
    tzset();
}

/* ---------------------------------------------------------------------------- the calendar */

static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

/* The wall time in the zone, as seconds as if it were UTC. */
static int64_t wall_at(int64_t at_s)
{
    const time_t t = (time_t)at_s;
    struct tm tm;
    if (!localtime_r(&t, &tm))
        return at_s;
    return (int64_t)timegm(&tm);
}

/* The first moment at which the wall time is at or past `wall_s`. */
static int64_t first_at(int64_t wall_s)
{
    int64_t at_s = wall_s - AHEAD_MOST_S;
    while (wall_at(at_s) < wall_s && at_s < wall_s + BEHIND_MOST_S)
        at_s += MINUTE_S;
    return at_s;
}

/* The day of a month, or its last day if it is shorter. Months count from January 1970. */
static int64_t day_of_month(int64_t month, unsigned day)
{
    const int64_t year = floor_div(month, 12);
    struct tm first = {.tm_year = 70 + (int)year, .tm_mon = (int)(month - year * 12), .tm_mday = 1};
    struct tm next = first;
    next.tm_mon++;
    const int64_t begin = (int64_t)timegm(&first) / DAY_S;
    const int64_t end = (int64_t)timegm(&next) / DAY_S;
    return begin + day - 1 < end ? begin + day - 1 : end - 1;
}

static int64_t day_of(const period_rule *rule, int64_t index)
{
    if (rule->unit == PERIOD_MONTH)
        return day_of_month(index * rule->count, rule->day);
    if (rule->unit == PERIOD_WEEK)
        return index * rule->count * 7 + FIRST_MONDAY + rule->day;
    return index * rule->count;
}

/* Minutes and hours are counted in UTC; days, weeks and months follow the zone's calendar. */
static bool is_plain(const period_rule *rule)
{
    return rule->unit == PERIOD_MINUTE || rule->unit == PERIOD_HOUR;
}

static int64_t length_s(const period_rule *rule)
{
    return (int64_t)rule->count * (rule->unit == PERIOD_HOUR ? 3600 : MINUTE_S);
}

static int64_t start_of(const period_rule *rule, int64_t index)
{
    const int64_t minutes_s = (int64_t)rule->minute * MINUTE_S;
    if (is_plain(rule))
        return index * length_s(rule) + minutes_s;
    return first_at(day_of(rule, index) * DAY_S + minutes_s);
}

/* The index of the period around `now_s`, or one more. */
static int64_t index_near(const period_rule *rule, int64_t now_s)
{
    if (is_plain(rule))
        return floor_div(now_s, length_s(rule));
    const int64_t wall_s = wall_at(now_s);
    if (rule->unit == PERIOD_DAY)
        return floor_div(wall_s, (int64_t)DAY_S * rule->count);
    if (rule->unit == PERIOD_WEEK)
        return floor_div(wall_s - FIRST_MONDAY * DAY_S, (int64_t)DAY_S * 7 * rule->count);
    const time_t wall = (time_t)wall_s;
    struct tm tm;
    gmtime_r(&wall, &tm);
    return floor_div((int64_t)(tm.tm_year - 70) * 12 + tm.tm_mon, rule->count);
}

static period period_of(const period_rule *rule, int64_t index)
{
    return (period){.index = index,
                    .start_us = start_of(rule, index) * 1000000,
                    .end_us = start_of(rule, index + 1) * 1000000};
}

/* When the clocks go back, a moment may already belong to the period after the one that its wall
 * time suggests: begins one later, and goes back. */
period period_around(const period_rule *rule, int64_t now_us)
{
    int64_t index = index_near(rule, floor_div(now_us, 1000000)) + 1;
    while (start_of(rule, index) * 1000000 > now_us)
        index--;
    return period_of(rule, index);
}

/* A day that the zone has skipped begins with the next one, and is no period. */
period period_before(const period_rule *rule, const period *p)
{
    int64_t index = p->index - 1;
    while (start_of(rule, index) * 1000000 == p->start_us)
        index--;
    return period_of(rule, index);
}

void period_text(int64_t us, char text[PERIOD_TEXT])
{
    const time_t t = (time_t)floor_div(us, 1000000);
    struct tm tm = {.tm_year = 0};
    gmtime_r(&t, &tm);
    strftime(text, PERIOD_TEXT, "%Y-%m-%dT%H:%M:%SZ", &tm);
}
