/* The parts of the loadable functions, without a server: tokens as text, and UUIDs. */

#include "support/unit.h"
#include "udf/values.h"

/* The text is refused, and the output is not touched. */
static void refuses(const char *text, size_t length)
{
    uint64_t got = 4711;
    assert_false(rl_token_read(text, length, &got));
    assert_true(got == 4711);
}

TS_ONCE(test_token_numbers)
{
    static const struct {
        const char *text;
        uint64_t number;
    } good[] = {{"0", 0},
                {"1", 1},
                {"10", 10},
                {"9007199254740993", UINT64_C(9007199254740993)},
                {"9223372036854775808", UINT64_C(9223372036854775808)},
                {"18446744073709551615", UINT64_MAX}};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        uint64_t got = ~good[i].number;
        assert_true(rl_token_read(good[i].text, strlen(good[i].text), &got));
        assert_true(got == good[i].number);
    }
}

TS_ONCE(test_token_refusals)
{
    static const char *const wrong[] = {"",
                                        "-1",
                                        "+1",
                                        " 1",
                                        "1 ",
                                        "01",
                                        "00",
                                        "1.0",
                                        "1e3",
                                        "0x10",
                                        "abc",
                                        "7abc",
                                        "1\n",
                                        "\xd9\xa1",
                                        "18446744073709551616",
                                        "18446744073709551620",
                                        "28446744073709551615",
                                        "99999999999999999999",
                                        "100000000000000000000"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        refuses(wrong[i], strlen(wrong[i]));
    refuses(NULL, 0);
    refuses(NULL, 5);
    refuses("1\0"
            "2",
            3);
    /* Only the given length is read: an argument has no NUL at its end. */
    uint64_t got = 0;
    assert_true(rl_token_read("123456", 3, &got) && got == 123);
}

TS_ONCE(test_uuid_fields)
{
    char text[RL_UUID_TEXT + 1] = {0};
    /* The example of RFC 9562, A.6: 2022-02-22 19:22:22 UTC. */
    rl_uuid7(1645557742, 0, UINT64_C(0x18C4DC0C0C07398F) << 2, text);
    assert_string_equal(text, "017f22e2-79b0-7000-98c4-dc0c0c07398f");
    rl_uuid7(1645557742, 999999999, UINT64_MAX, text);
    assert_string_equal(text, "017f22e2-7d97-7fff-bfff-ffffffffffff");
    rl_uuid7(0, 0, 0, text);
    assert_string_equal(text, "00000000-0000-7000-8000-000000000000");
    /* 48 bits of milliseconds last until the year 10889. */
    rl_uuid7(281474976710, 655000000, 0, text);
    assert_string_equal(text, "ffffffff-ffff-7000-8000-000000000000");
}

TS_ONCE(test_uuids_sort_by_time)
{
    char last[RL_UUID_TEXT] = {0};
    char text[RL_UUID_TEXT];
    for (uint32_t ns = 0; ns < 1000000000; ns += 245000 + 245) {
        /* UUIDs are in the order of time, whatever the random part. */
        rl_uuid7(1645557742, ns, ns % 2 ? 0 : UINT64_MAX, text);
        assert_true(memcmp(last, text, RL_UUID_TEXT) < 0);
        memcpy(last, text, RL_UUID_TEXT);
    }
}

TS_MAIN("udf", NULL, NULL)
