/* Names, URLs, text, JSON, statuses, budgets: nothing here needs a server. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/budget.h"
#include "base/home.h"
#include "base/json.h"
#include "base/name.h"
#include "base/sha256.h"
#include "base/text.h"
#include "base/url.h"

/* ------------------------------------------------------------------------------ names */

static void assert_name(const char *name, rowlock_status expected)
{
    rowlock_error err = {0};
    rowlock_status status = rl_name_check(name, &err);
    if (status != expected)
        fail_msg("name '%s': %s (%s), expected %s", name ? name : "NULL",
                 rowlock_status_name(status), err.message, rowlock_status_name(expected));
    if (status != ROWLOCK_OK) {
        assert_int_equal(err.status, status);
        assert_null(strchr(err.message, '\n'));
        assert_true(err.message[0] != '\0');
    }
}

static void repeat(char *to, const char *what, size_t times)
{
    *to = '\0';
    while (times--)
        strcat(to, what);
}

static void good_names(void **state)
{
    (void)state;
    char name[1100];
    assert_name("a", ROWLOCK_OK);
    assert_name("nightly close/2026", ROWLOCK_OK);
    assert_name("q'\"\\`%_;--", ROWLOCK_OK);
    assert_name("夜间结账 🔒", ROWLOCK_OK);
    repeat(name, "x", 255);
    assert_name(name, ROWLOCK_OK);
    repeat(name, "🔒", 255);
    assert_name(name, ROWLOCK_OK);
}

static void bad_names(void **state)
{
    (void)state;
    static const char *const bad[] = {"",
                                      "a\nb",
                                      "a\tb",
                                      "\x7f",
                                      "a\x1b[31m",
                                      " a",
                                      "a ",
                                      "\xc2\xa0"
                                      "a",
                                      "a\xe3\x80\x80",
                                      "a\xe2\x80\xa8"
                                      "b",
                                      "a\xc2\x85"
                                      "b",
                                      "\xff",
                                      "a\xc3",
                                      "\xc0\xaf",
                                      "\xe0\x80\xaf",
                                      "\xed\xa0\x80",
                                      "\xf4\x90\x80\x80",
                                      "\xf8\x88\x80\x80\x80",
                                      "\x80",
                                      "\xef\xbb\xbf"
                                      "a"};
    char name[1100];
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_name(bad[i], ROWLOCK_INVALID);
    assert_name(NULL, ROWLOCK_INVALID);
    repeat(name, "x", 256);
    assert_name(name, ROWLOCK_INVALID);
    repeat(name, "🔒", 256);
    assert_name(name, ROWLOCK_INVALID);
}

/* ------------------------------------------------------------------------------- URLs */

static void full_url(void **state)
{
    (void)state;
    rl_url url;
    rowlock_error err;
    assert_int_equal(
        rl_url_parse("mysql://ba%40tch:p%3aw%2F@db1.example:3307/locks?socket=%2Frun%2Fs"
                     "&ssl-ca=/ca.pem&connect-timeout=1500",
                     &url, &err),
        ROWLOCK_OK);
    assert_string_equal(url.user, "ba@tch");
    assert_string_equal(url.password, "p:w/");
    assert_string_equal(url.host, "db1.example");
    assert_int_equal(url.port, 3307);
    assert_string_equal(url.schema, "locks");
    assert_string_equal(url.socket, "/run/s");
    assert_string_equal(url.tls.ca, "/ca.pem");
    assert_int_equal(url.connect_timeout_ms, 1500);
    rl_url_free(&url);
}

static void small_urls(void **state)
{
    (void)state;
    rl_url url;
    assert_int_equal(rl_url_parse("mariadb://", &url, NULL), ROWLOCK_OK);
    assert_null(url.host);
    assert_null(url.user);
    assert_null(url.schema);
    rl_url_free(&url);
    assert_int_equal(rl_url_parse("mysql://[::1]:3306/s", &url, NULL), ROWLOCK_OK);
    assert_string_equal(url.host, "::1");
    assert_string_equal(url.schema, "s");
    rl_url_free(&url);
    assert_int_equal(rl_url_parse("mysql://u:@h", &url, NULL), ROWLOCK_OK);
    assert_string_equal(url.user, "u");
    assert_null(url.password);
    rl_url_free(&url);
}

static void bad_urls(void **state)
{
    (void)state;
    static const char *const bad[] = {"",
                                      "http://h/",
                                      "mysql:/h",
                                      "h:3306",
                                      "mysql://h:0/",
                                      "mysql://h:65536/",
                                      "mysql://h:x/",
                                      "mysql://h:/",
                                      "mysql://[::1/s",
                                      "mysql://[::1]x/s",
                                      "mysql://%zz@h/",
                                      "mysql://%0@h/",
                                      "mysql://a%00b@h/",
                                      "mysql://h/s?nothing=1",
                                      "mysql://h/s?connect-timeout=",
                                      "mysql://h/s?connect-timeout=-1",
                                      "mysql://h/s?connect-timeout=99999999999999999999"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        rl_url url;
        rowlock_error err = {0};
        if (rl_url_parse(bad[i], &url, &err) != ROWLOCK_INVALID)
            fail_msg("'%s' was taken for a URL", bad[i]);
        rl_url_free(&url);
    }
}

static void url_errors_keep_the_password(void **state)
{
    (void)state;
    rl_url url;
    rowlock_error err = {0};
    assert_int_equal(rl_url_parse("mysql://u:geheim%zz@h:x/?y=1", &url, &err), ROWLOCK_INVALID);
    assert_null(strstr(err.message, "geheim"));
    rl_url_free(&url);
}

/* ------------------------------------------------------------------------------- text */

static void labels(void **state)
{
    (void)state;
    char label[8];
    rl_copy_label(label, sizeof label, "a\x1b[1m");
    assert_string_equal(label, "a?[1m");
    rl_copy_label(label, sizeof label, "12345🔒");
    assert_string_equal(label, "12345");
    rl_copy_label(label, sizeof label,
                  "x\xff"
                  "y");
    assert_string_equal(label, "x?y");
    rl_copy_label(label, sizeof label, NULL);
    assert_string_equal(label, "");
}

static void json(void **state)
{
    (void)state;
    rl_buffer buffer = {0};
    rl_json_string(&buffer, "a\"b\\c\n\x01 é");
    rl_json_u64(&buffer, UINT64_MAX);
    rl_json_i64(&buffer, INT64_MIN);
    assert_string_equal(buffer.text,
                        "\"a\\\"b\\\\c\\u000a\\u0001 é\"18446744073709551615-9223372036854775808");
    rl_buffer_free(&buffer);
}

static void errors_are_one_line(void **state)
{
    (void)state;
    rowlock_error err;
    char long_text[2000];
    repeat(long_text, "é", sizeof long_text / 2 - 1);
    assert_int_equal(rl_fail(&err, ROWLOCK_BUSY, "two\nlines %s", long_text), ROWLOCK_BUSY);
    assert_null(strchr(err.message, '\n'));
    for (const char *at = err.message; *at;) {
        unsigned c;
        size_t length = rl_utf8_decode(at, &c);
        assert_true(length > 0);
        at += length;
    }
    assert_int_equal(rl_fail(NULL, ROWLOCK_LOST, "x"), ROWLOCK_LOST);
}

/* --------------------------------------------------------------------------- statuses */

static void status_table(void **state)
{
    (void)state;
    static const int numbers[] = {
#define NUMBER(name, number, exit_status, text) number,
        ROWLOCK_STATUS_MAP(NUMBER)
#undef NUMBER
    };
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        rowlock_status status = (rowlock_status)numbers[i];
        assert_int_equal(numbers[i], i);
        assert_string_not_equal(rowlock_status_name(status), "?");
        assert_string_not_equal(rowlock_status_text(status), "?");
        int code = rowlock_status_exit(status);
        assert_true(i == 0 ? code == 0 : code > 0 && code < 126);
        for (size_t j = 0; j < i; j++)
            if (code != 1)
                assert_int_not_equal(code, rowlock_status_exit((rowlock_status)numbers[j]));
    }
    assert_string_equal(rowlock_status_name((rowlock_status)999), "?");
    assert_string_equal(rowlock_status_text((rowlock_status)999), "?");
    assert_int_equal(rowlock_status_exit((rowlock_status)999), 70);
}

/* ---------------------------------------------------------------------------- budgets */

static void budget_deadlines(void **state)
{
    (void)state;
    rl_budget try_once = rl_budget_start(0, 10000, NULL);
    assert_true(try_once.try_once);
    rl_io io = rl_budget_quick_io(&try_once);
    assert_true(io.deadline_us >= try_once.start_us + 9000000);
    rl_budget forever = rl_budget_start(-1, 10000, NULL);
    assert_true(forever.deadline_us == RL_NEVER);
    assert_true(rl_budget_lock_io(&forever).deadline_us == RL_NEVER);
    rl_budget huge = rl_budget_start(INT64_MAX, 10000, NULL);
    assert_true(huge.deadline_us == RL_NEVER);
    rl_budget some = rl_budget_start(50, 10000, NULL);
    assert_true(rl_budget_lock_io(&some).deadline_us == some.start_us + 50000);
    assert_true(rl_budget_quick_io(&some).deadline_us <= some.start_us + 50000 + RL_GRACE_US);
}

static void sleep_ends_at_the_deadline(void **state)
{
    (void)state;
    rl_budget budget = rl_budget_start(30, 10000, NULL);
    int64_t before = rl_now_us();
    assert_int_equal(rl_budget_sleep(&budget, 10000000), RL_EXPIRED);
    int64_t took = rl_now_us() - before;
    assert_true(took >= 29000);
    assert_true(took < 5000000);
    assert_true(rl_budget_spent(&budget));
}

/* Waits so often that the alarm is made, for a descriptor that is always ready. */
static void make_alarm(rl_alarm *alarm)
{
    int ready = eventfd(1, EFD_CLOEXEC);
    rl_io io = rl_io_until(rl_now_us() + 20000000);
    for (int i = 0; i < 1000 && !alarm->made; i++) {
        short revents = 0;
        assert_int_equal(rl_alarm_wait(alarm, &io, ready, POLLIN, &revents), RL_READY);
        assert_int_equal(revents, POLLIN);
    }
    close(ready);
    assert_true(alarm->made);
}

static void expires_after_ms(rl_alarm *alarm, int64_t ms)
{
    int silent = eventfd(0, EFD_CLOEXEC);
    short revents = 0;
    int64_t before = rl_now_us();
    rl_io io = rl_io_until(before + ms * 1000);
    assert_int_equal(rl_alarm_wait(alarm, &io, silent, POLLIN, &revents), RL_EXPIRED);
    int64_t took = rl_now_us() - before;
    close(silent);
    assert_true(took >= ms * 1000);
    assert_true(took < 5000000);
}

/* Whatever it was set to before: later, earlier, or a time that is over. */
static void an_alarm_goes_off_in_time(void **state)
{
    (void)state;
    rl_alarm alarm = {0};
    make_alarm(&alarm);
    expires_after_ms(&alarm, 30);
    expires_after_ms(&alarm, 60);
    expires_after_ms(&alarm, 0);
    make_alarm(&alarm);
    expires_after_ms(&alarm, 20);
    rl_alarm_end(&alarm);
    assert_false(alarm.made);
}

static void an_alarm_leaves_cancelling_alone(void **state)
{
    (void)state;
    rl_alarm alarm = {0};
    rowlock_cancel *cancel = NULL;
    int silent = eventfd(0, EFD_CLOEXEC);
    short revents = 0;
    make_alarm(&alarm);
    assert_int_equal(rowlock_cancel_new(&cancel, NULL), ROWLOCK_OK);
    rowlock_cancel_fire(cancel);
    rl_budget budget = rl_budget_start(20000, 20000, cancel);
    rl_io io = rl_budget_lock_io(&budget);
    assert_int_equal(rl_alarm_wait(&alarm, &io, silent, POLLIN, &revents), RL_CANCELLED);
    rl_alarm_end(&alarm);
    rowlock_cancel_free(cancel);
    close(silent);
}

static void a_child_is_elsewhere(void **state)
{
    (void)state;
    rl_home home = rl_home_make();
    rl_home unmarked = {.pid = home.pid};
    assert_true(rl_home_is_here(&home));
    assert_true(rl_home_is_here(&unmarked));
    pid_t child = fork();
    if (child == 0)
        _exit(rl_home_is_here(&home) || rl_home_is_here(&unmarked));
    int status = 1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_true(rl_home_is_here(&home));
    rl_home_end(&home);
}

static void digits(void **state)
{
    (void)state;
    char text[21];
    assert_ptr_equal(rl_put_u64(text, 0), text + 1);
    assert_string_equal(text, "0");
    assert_ptr_equal(rl_put_u64(text, UINT64_MAX), text + 20);
    assert_string_equal(text, "18446744073709551615");
}

static void *fire(void *cancel)
{
    rowlock_cancel_fire(cancel);
    return NULL;
}

static void sleep_ends_when_cancelled(void **state)
{
    (void)state;
    rowlock_cancel *cancel = NULL;
    assert_int_equal(rowlock_cancel_new(&cancel, NULL), ROWLOCK_OK);
    rl_budget budget = rl_budget_start(-1, 10000, cancel);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, fire, cancel), 0);
    assert_int_equal(rl_budget_sleep(&budget, RL_NEVER), RL_CANCELLED);
    pthread_join(thread, NULL);
    assert_int_equal(rl_budget_sleep(&budget, 1000000), RL_CANCELLED);
    rowlock_cancel_reset(cancel);
    assert_false(rl_budget_cancelled(&budget));
    assert_int_equal(rl_budget_sleep(&budget, 1000), RL_READY);
    rowlock_cancel_free(cancel);
    rowlock_cancel_free(NULL);
    assert_int_equal(rowlock_cancel_new(NULL, NULL), ROWLOCK_INVALID);
}

/* The examples of FIPS 180-4, in pieces of every size. */
static void sha256_sums(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *sum;
    } known[] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
        {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrl"
         "mno"
         "pqrsmnopqrstnopqrstu",
         "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        for (size_t piece = 1; piece < 130; piece++) {
            rl_sha256 sum = rl_sha256_begin();
            char hex[65];
            const char *at = known[i].text;
            for (size_t left = strlen(at); left > 0;) {
                size_t part = left < piece ? left : piece;
                rl_sha256_add(&sum, at, part);
                at += part;
                left -= part;
            }
            rl_sha256_hex(&sum, hex);
            assert_string_equal(hex, known[i].sum);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sha256_sums),
        cmocka_unit_test(good_names),
        cmocka_unit_test(bad_names),
        cmocka_unit_test(full_url),
        cmocka_unit_test(small_urls),
        cmocka_unit_test(bad_urls),
        cmocka_unit_test(url_errors_keep_the_password),
        cmocka_unit_test(labels),
        cmocka_unit_test(json),
        cmocka_unit_test(errors_are_one_line),
        cmocka_unit_test(status_table),
        cmocka_unit_test(budget_deadlines),
        cmocka_unit_test(sleep_ends_at_the_deadline),
        cmocka_unit_test(sleep_ends_when_cancelled),
        cmocka_unit_test(an_alarm_goes_off_in_time),
        cmocka_unit_test(an_alarm_leaves_cancelling_alone),
        cmocka_unit_test(a_child_is_elsewhere),
        cmocka_unit_test(digits),
    };
    return cmocka_run_group_tests_name("unit_base", tests, NULL, NULL);
}
