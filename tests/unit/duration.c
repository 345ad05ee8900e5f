/* The command's durations. */

#include "cli/cli.h"
#include "support/unit.h"

TS_ONCE(good_durations)
{
    static const struct {
        const char *text;
        int64_t ms;
    } good[] = {{"0", 0},
                {"30", 30000},
                {"5m", 300000},
                {"2h", 7200000},
                {"1d", 86400000},
                {"250ms", 250},
                {"1.5", 1500},
                {"0.5s", 500},
                {"1.5m", 90000},
                {"0.0001", 1},
                {"1.0000000001d", 86400001},
                {"0.000000011d", 1},
                {"000000000000000000000000000001s", 1000},
                {"9223372036854775807ms", INT64_MAX},
                {"1h30m", 5400000},
                {"1d2h3m4s5ms", 93784005},
                {"1.5h30m", 7200000},
                {"0h0m", 0}};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        int64_t ms = -1;
        if (!cli_duration(good[i].text, &ms) || ms != good[i].ms)
            fail_msg("'%s' became %lld", good[i].text, (long long)ms);
    }
}

TS_ONCE(bad_durations)
{
    static const char *const bad[] = {
        "",
        "-1",
        "s",
        "1x",
        "1 s",
        "1s ",
        " 1",
        "1..5",
        "1.5.",
        "1.",
        ".5",
        "0x1",
        "1e3",
        "inf",
        "nan",
        "+1",
        "1sm",
        ".",
        "1,5",
        "99999999999999999999",
        "9223372036854775807h",
        "9223372036854775808ms",
        "9223372036854775807ms1ms",
        "9223372036854775s9223372036854775807ms",
        "1h30",
        "30m1h",
        "1h1h",
        "1h 30m",
        "1hm",
        "h30m",
        "1h30m-1s",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        int64_t ms = 42;
        if (cli_duration(bad[i], &ms))
            fail_msg("'%s' was taken for %lld ms", bad[i], (long long)ms);
        assert_int_equal(ms, 42);
    }
}

TS_MAIN("unit_duration", NULL, NULL)
