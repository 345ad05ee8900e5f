/* Periods of the calendar: daylight saving, days that a zone has skipped, ends of months. */
#include <string.h>
#include <time.h>

#include "cli/period.h"
#include "support/unit.h"

#define SECOND INT64_C(1000000)

/* "2026-03-29T00:30:00Z", or "2026-03-29T00:30" */
static int64_t at(const char *text)
{
    struct tm tm = {.tm_isdst = 0};
    const char *end = strptime(text, "%Y-%m-%dT%H:%M", &tm);
    if (end && *end == ':')
        end = strptime(end, ":%SZ", &tm);
    if (!end || *end)
        fail_msg("'%s' is no time", text);
    return (int64_t)timegm(&tm) * SECOND;
}

static period_rule rule_of(const char *per, const char *when)
{
    period_rule rule;
    const char *why = NULL;
    if (!period_parse(per, when, &rule, &why))
        fail_msg("%s %s: %s", per, when ? when : "", why);
    return rule;
}

static void is_from_to(const period *p, const char *start, const char *end)
{
    char from[PERIOD_TEXT];
    char to[PERIOD_TEXT];
    period_text(p->start_us, from);
    period_text(p->end_us, to);
    if (strcmp(from, start) != 0 || strcmp(to, end) != 0)
        fail_msg("%s to %s, wanted %s to %s", from, to, start, end);
}

/* Checks the period that a moment is in: "ZONE PER MOMENT BEGIN END", and the time at which periods
 * begin if not at midnight. */
static void expect(const char *line)
{
    char zone[40], per[16], now[24], start[24], end[24], when[24];
    const int words =
        sscanf(line, "%39s %15s %23s %23s %23s %23[^\n]", zone, per, now, start, end, when);
    assert_true(words >= 5);
    period_zone_use(zone);
    const period_rule rule = rule_of(per, words == 6 ? when : NULL);
    const period p = period_around(&rule, at(now));
    if (p.start_us != at(start) || p.end_us != at(end))
        fail_msg("%s: another period", line);
}

TS_ONCE(parts_of_a_day)
{
    expect("UTC 15m 2026-11-23T10:29:59Z 2026-11-23T10:15 2026-11-23T10:30");
    expect("UTC 1440m 2026-11-23T10:29:59Z 2026-11-23T00:00 2026-11-24T00:00");
    expect("UTC 1h 2026-11-23T10:14:59Z 2026-11-23T09:15 2026-11-23T10:15 :15");
    expect("UTC 1h 2026-11-23T10:15 2026-11-23T10:15 2026-11-23T11:15 :15");
    expect("UTC 6h 2026-11-23T05:58 2026-11-22T23:59 2026-11-23T05:59 05:59");
    /* Periods of hours are in UTC, whatever the zone: no hour is left out, and none comes twice. */
    expect("Europe/Berlin 6h 2026-10-25T01:30 2026-10-25T00:00 2026-10-25T06:00");
}

TS_ONCE(days)
{
    expect("UTC 1d 2026-11-23T00:00 2026-11-23T00:00 2026-11-24T00:00");
    expect("UTC 1d 2026-11-23T01:59:59Z 2026-11-22T02:00 2026-11-23T02:00 02:00");
    expect("UTC 2d 1970-01-03T23:59:59Z 1970-01-03T00:00 1970-01-05T00:00");
    expect("Asia/Tokyo 1d 2026-11-22T17:00 2026-11-22T17:00 2026-11-23T17:00 02:00");
    expect("Pacific/Kiritimati 1d 2026-11-22T10:00 2026-11-22T10:00 2026-11-23T10:00");
    expect("Pacific/Pago_Pago 1d 2026-11-22T10:59:59Z 2026-11-21T11:00 2026-11-22T11:00");
}

/* 2026-03-29 01:00 UTC: 02:00 becomes 03:00. 2026-10-25 01:00 UTC: 03:00 becomes 02:00. */
TS_ONCE(daylight_saving_in_berlin)
{
    expect("Europe/Berlin 1d 2026-03-28T12:00 2026-03-28T01:30 2026-03-29T01:00 02:30");
    expect("Europe/Berlin 1d 2026-03-29T01:00 2026-03-29T01:00 2026-03-30T00:30 02:30");
    expect("Europe/Berlin 1d 2026-10-25T00:29:59Z 2026-10-24T00:30 2026-10-25T00:30 02:30");
    /* The second 02:00 is in the new period already, and the second 02:30 begins none. */
    expect("Europe/Berlin 1d 2026-10-25T01:10 2026-10-25T00:30 2026-10-26T01:30 02:30");
    expect("Europe/Berlin 1d 2026-10-25T01:30 2026-10-25T00:30 2026-10-26T01:30 02:30");
    expect("Europe/Berlin 1d 2026-03-29T12:00 2026-03-28T23:00 2026-03-29T22:00");
    expect("Europe/Berlin 1d 2026-10-25T12:00 2026-10-24T22:00 2026-10-25T23:00");
}

TS_ONCE(daylight_saving_in_new_york)
{
    expect("America/New_York 1d 2026-03-08T08:00 2026-03-08T07:00 2026-03-09T06:30 02:30");
    expect("America/New_York 1d 2026-11-01T06:10 2026-11-01T05:30 2026-11-02T06:30 01:30");
}

/* The clock goes back at one minute past midnight, to the day before: that day's period has ended
 * all the same. */
TS_ONCE(daylight_saving_in_newfoundland)
{
    expect("America/St_Johns 1d 2010-11-07T02:29 2010-11-06T02:30 2010-11-07T02:30");
    expect("America/St_Johns 1d 2010-11-07T02:40 2010-11-07T02:30 2010-11-08T03:30");
}

/* Changes by half an hour. 2026-04-04 15:00 UTC: 02:00 becomes 01:30. 2026-10-03 15:30 UTC: 02:00
 * becomes 02:30. */
TS_ONCE(daylight_saving_on_lord_howe)
{
    expect("Australia/Lord_Howe 1d 2026-04-04T15:10 2026-04-04T14:45 2026-04-05T15:15 01:45");
    expect("Australia/Lord_Howe 1d 2026-10-03T16:00 2026-10-03T15:30 2026-10-04T15:15 02:15");
}

/* Samoa had no 2011-12-30: the midnight that ends the 29th begins the 31st. */
TS_ONCE(the_day_that_apia_skipped)
{
    period_zone_use("Pacific/Apia");
    for (int hour = 0; hour < 24; hour += 2) {
        char when[8];
        snprintf(when, sizeof when, "%02d:00", hour);
        const period_rule rule = rule_of("1d", when);
        period p = period_around(&rule, at("2012-01-02T12:00:00Z"));
        /* The 30th and the 31st begin at the same midnight: there is one period for both. */
        for (int i = 0; i < 6; i++) {
            const period q = period_before(&rule, &p);
            assert_true(q.end_us == p.start_us);
            assert_true(q.start_us < q.end_us);
            p = q;
        }
    }
    expect("Pacific/Apia 1d 2011-12-30T12:00 2011-12-30T10:00 2011-12-31T10:00");
    expect("Pacific/Apia 1d 2011-12-30T11:00 2011-12-30T10:00 2011-12-30T12:00 02:00");
    const period_rule rule = rule_of("1d", NULL);
    const period p = period_around(&rule, at("2011-12-30T12:00:00Z"));
    const period q = period_before(&rule, &p);
    is_from_to(&q, "2011-12-29T10:00:00Z", "2011-12-30T10:00:00Z");
}

TS_ONCE(weeks)
{
    expect("UTC 1w 2026-11-23T00:00 2026-11-23T00:00 2026-11-30T00:00");
    expect("UTC 1w 2026-11-22T23:59:59Z 2026-11-16T00:00 2026-11-23T00:00");
    /* A week over new year: 2026-12-28 is a Monday. */
    expect("UTC 1w 2027-01-01T00:00 2026-12-28T00:00 2027-01-04T00:00");
    expect("UTC 1w 2027-01-03T23:29:59Z 2026-12-27T23:30 2027-01-03T23:30 Sun 23:30");
    expect("Europe/Berlin 1w 2026-10-26T00:30 2026-10-19T00:00 2026-10-26T01:00 mon 02:00");
    expect("UTC 2w 1970-01-20T00:00 1970-01-20T00:00 1970-02-03T00:00 Tue");
    expect("UTC 1w 2026-11-23T01:00 2026-11-16T02:00 2026-11-23T02:00 02:00");
}

TS_ONCE(months)
{
    expect("UTC 1month 2026-11-23T00:00 2026-11-01T00:00 2026-12-01T00:00");
    expect("UTC 1month 2026-12-31T23:59:59Z 2026-12-01T00:00 2027-01-01T00:00");
    /* A day that a month does not have means its last day. */
    expect("UTC 1month 2026-02-28T02:00 2026-02-28T02:00 2026-03-31T02:00 31 02:00");
    expect("UTC 1month 2026-04-30T01:59:59Z 2026-03-31T02:00 2026-04-30T02:00 31 02:00");
    expect("UTC 1month 2028-02-29T00:00 2028-02-29T00:00 2028-03-30T00:00 30");
    expect("UTC 1month 2026-02-28T00:00 2026-02-28T00:00 2026-03-29T00:00 29");
    expect("UTC 1month 2100-02-28T12:00 2100-02-28T00:00 2100-03-29T00:00 29");
    expect("UTC 1month 2000-02-29T00:00 2000-02-28T00:00 2000-03-28T00:00 28");
    expect("UTC 3month 2026-11-23T00:00 2026-10-01T00:00 2027-01-01T00:00");
    expect("UTC 12month 2026-01-15T11:59:59Z 2025-01-15T12:00 2026-01-15T12:00 15 12:00");
    expect("Europe/Berlin 1month 2026-10-31T23:00 2026-10-31T23:00 2026-11-30T23:00");
}

/* Goes back through some months: each period ends where the next one begins and has the moment that
 * was asked for, and a day has never more than 25 hours. */
TS_ONCE(neighbours_touch)
{
    static const char *const zones[] = {
        "UTC",          "Europe/Berlin",    "America/New_York", "Australia/Lord_Howe",
        "Pacific/Apia", "Africa/Casablanca"};
    static const char *const rules[][2] = {
        {"1d", "02:30"}, {"1w", "Sun 02:30"}, {"1month", "31"}, {"2d", NULL}};
    for (size_t z = 0; z < sizeof zones / sizeof zones[0]; z++) {
        period_zone_use(zones[z]);
        for (size_t r = 0; r < sizeof rules / sizeof rules[0]; r++) {
            const period_rule rule = rule_of(rules[r][0], rules[r][1]);
            period p = period_around(&rule, at("2012-02-01T00:00:00Z"));
            while (p.start_us > at("2011-09-01T00:00:00Z")) {
                const period q = period_before(&rule, &p);
                assert_true(q.end_us == p.start_us && q.start_us < q.end_us);
                assert_true(rule.unit != PERIOD_DAY || rule.count > 1 ||
                            q.end_us - q.start_us <= 25 * 3600 * SECOND);
                const period begin = period_around(&rule, q.start_us);
                const period last = period_around(&rule, q.end_us - 1);
                assert_true(begin.start_us == q.start_us && last.start_us == q.start_us);
                p = q;
            }
        }
    }
}

TS_ONCE(bad_input)
{
    static const char *const bad[][2] = {{"", NULL},          {"d", NULL},
                                         {"0d", NULL},        {"367d", NULL},
                                         {"-1d", NULL},       {"1.5d", NULL},
                                         {"1 d", NULL},       {"1d ", NULL},
                                         {"1y", NULL},        {"1D", NULL},
                                         {"7m", NULL},        {"1441m", NULL},
                                         {"99999999m", NULL}, {"5h", NULL},
                                         {"25h", NULL},       {"53w", NULL},
                                         {"5month", NULL},    {"13month", NULL},
                                         {"1months", NULL},   {"1s", NULL},
                                         {"15m", ":05"},      {"1h", ":60"},
                                         {"1h", "01:00"},     {"6h", "06:00"},
                                         {"1d", ""},          {"1d", "24:00"},
                                         {"1d", "2"},         {"1d", "02:0"},
                                         {"1d", "02:000"},    {"1d", "Mon 02:00"},
                                         {"1d", "-1:00"},     {"1d", " 02:00"},
                                         {"1d", "002:00"},    {"1w", "1 02:00"},
                                         {"1w", "Mo 02:00"},  {"1w", "Mon  02:00"},
                                         {"1w", "Mon 25:00"}, {"1w", "Monday"},
                                         {"1w", "Mon "},      {"1w", ""},
                                         {"1month", "0"},     {"1month", "32"},
                                         {"1month", "31."},   {"1month", "31 2"},
                                         {"1month", "-1"},    {"1month", "Mon 02:00"}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        period_rule rule;
        const char *why = NULL;
        if (period_parse(bad[i][0], bad[i][1], &rule, &why))
            fail_msg("'%s' at '%s' was taken", bad[i][0], bad[i][1] ? bad[i][1] : "");
        assert_non_null(why);
    }
}

TS_ONCE(zones)
{
    static const char *const good[] = {"UTC", "local", "Europe/Berlin", "America/Argentina/Ushuaia",
                                       "Etc/GMT+5"};
    static const char *const bad[] = {"",
                                      "Europe",
                                      "Europe/Atlantis",
                                      "../zoneinfo/UTC",
                                      "/usr/share/zoneinfo/Europe/Berlin",
                                      ":Europe/Berlin",
                                      "CET-1CEST",
                                      "zone.tab",
                                      "Europe/../Europe/Berlin",
                                      "Europe/Berlin/",
                                      "."};
    char longest[1000];
    memset(longest, 'a', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        assert_true(period_zone_exists(good[i]));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (period_zone_exists(bad[i]))
            fail_msg("'%s' was taken", bad[i]);
    assert_false(period_zone_exists(longest));
}

TS_MAIN("unit_period", NULL, NULL)
