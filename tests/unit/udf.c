/* What the loadable functions are made of, without a server: tokens as text, and UUIDs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "udf/token.h"
#include "udf/uuid.h"

static void reads(const char *text, uint64_t number)
{
    uint64_t got = ~number;
    assert_true(rl_token_read(text, strlen(text), &got));
    assert_true(got == number);
}

/* And the output is not touched. */
static void refuses(const char *text, size_t length)
{
    uint64_t got = 4711;
    assert_false(rl_token_read(text, length, &got));
    assert_true(got == 4711);
}

static void test_token_numbers(void **state)
{
    (void)state;
    reads("0", 0);
    reads("1", 1);
    reads("10", 10);
    reads("9007199254740993", UINT64_C(9007199254740993));
    reads("9223372036854775808", UINT64_C(9223372036854775808));
    reads("18446744073709551615", UINT64_MAX);
}

static void test_token_refusals(void **state)
{
    (void)state;
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
    /* As long as it says and no longer: there is no NUL at the end of an argument. */
    uint64_t got = 0;
    assert_true(rl_token_read("123456", 3, &got) && got == 123);
}

static void test_token_of_any_length(void **state)
{
    (void)state;
    size_t length = (size_t)1 << 20;
    char *text = malloc(length);
    assert_non_null(text);
    memset(text, '9', length);
    refuses(text, length);
    free(text);
}

static void test_uuid_fields(void **state)
{
    (void)state;
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

static void test_uuids_sort_by_time(void **state)
{
    (void)state;
    char last[RL_UUID_TEXT] = {0};
    char text[RL_UUID_TEXT];
    for (uint32_t ns = 0; ns < 1000000000; ns += 245000 + 245) {
        /* Whatever the random part is. */
        rl_uuid7(1645557742, ns, ns % 2 ? 0 : UINT64_MAX, text);
        assert_true(memcmp(last, text, RL_UUID_TEXT) < 0);
        memcpy(last, text, RL_UUID_TEXT);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_token_numbers),       cmocka_unit_test(test_token_refusals),
        cmocka_unit_test(test_token_of_any_length), cmocka_unit_test(test_uuid_fields),
        cmocka_unit_test(test_uuids_sort_by_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
