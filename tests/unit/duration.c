/* The command's durations. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "cli/cli.h"

static void good_durations(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t ms;
    } good[] = {{"0", 0},        {"30", 30000},    {"30s", 30000}, {"5m", 300000},
                {"2h", 7200000}, {"1d", 86400000}, {"250ms", 250}, {"1.5", 1500},
                {"0.5s", 500},   {"0.001", 1},     {"1.5m", 90000}};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        int64_t ms = -1;
        if (!cli_duration(good[i].text, &ms) || ms != good[i].ms)
            fail_msg("'%s' became %lld", good[i].text, (long long)ms);
    }
}

static void bad_durations(void **state)
{
    (void)state;
    static const char *const bad[] = {"",
                                      "-1",
                                      "s",
                                      "1x",
                                      "1 s",
                                      "1s ",
                                      " 1",
                                      "1..5",
                                      "1.5.",
                                      "0x1",
                                      "1e3",
                                      "inf",
                                      "nan",
                                      "+1",
                                      "99999999999999999999",
                                      "9223372036854775807h",
                                      "1sm",
                                      ".",
                                      "1,5"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        int64_t ms = 42;
        if (cli_duration(bad[i], &ms))
            fail_msg("'%s' was taken for %lld ms", bad[i], (long long)ms);
        assert_int_equal(ms, 42);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_durations),
        cmocka_unit_test(bad_durations),
    };
    return cmocka_run_group_tests_name("unit_duration", tests, NULL, NULL);
}
