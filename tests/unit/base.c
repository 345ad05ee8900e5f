/* Names, URLs, text, JSON, statuses, budgets: nothing here needs a server. */
#include <sys/eventfd.h>

#include "base/budget.h"
#include "base/name.h"
#include "base/sha256.h"
#include "base/text.h"
#include "base/tls.h"
#include "base/url.h"
#include "support/unit.h"

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

TS_ONCE(names)
{
    static const char *const good[] = {"a", "nightly close/2026", "q'\"\\`%_;--", "夜间结账 🔒"};
    /* Empty, with control characters, with blanks around it, not UTF-8. */
    static const char *const bad[] = {"",
                                      "a\nb",
                                      "a\tb",
                                      "\177",
                                      "a\033[31m",
                                      " a",
                                      "a ",
                                      "\302\240a",
                                      "a\343\200\200",
                                      "a\342\200\250b",
                                      "a\302\205b",
                                      "\377",
                                      "a\303",
                                      "a\303bc",
                                      "\300\257",
                                      "\340\200\257",
                                      "\355\240\200",
                                      "\364\220\200\200",
                                      "\370\210\200\200\200",
                                      "\200",
                                      "\357\273\277a",
                                      "\341\232\200ogham",
                                      "en quad\342\200\200",
                                      "\343\200\200ideographic",
                                      "nbsp\302\240",
                                      "c1 end\302\237",
                                      "bell\a",
                                      "cut\342\202",
                                      "cut\360\237\224",
                                      "overlong\360\200\200\257",
                                      " ",
                                      "\tbefore",
                                      NULL};
    static const char *const pieces[] = {"x", "🔒"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        assert_name(good[i], ROWLOCK_OK);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_name(bad[i], ROWLOCK_INVALID);
    for (size_t i = 0; i < 2; i++) {
        char name[1100];
        repeat(name, pieces[i], 255);
        assert_name(name, ROWLOCK_OK);
        repeat(name, pieces[i], 256);
        assert_name(name, ROWLOCK_INVALID);
    }
}

static void assert_name_message(const char *name, const char *wanted)
{
    rowlock_error err = {0};
    assert_int_equal(rl_name_check(name, &err), ROWLOCK_INVALID);
    assert_string_equal(err.message, wanted);
}

/* As the procedures do it: the name, cut where it is long. */
TS_ONCE(names_shown)
{
    char name[300];
    assert_name_message("two\nlines",
                        "the lock's name 'two?lines' has a control character (U+000A, "
                        "character 4; shown as ?); take it out");
    memset(name, 'x', sizeof name);
    name[40] = '\0';
    name[3] = '\t';
    assert_name_message(name, "the lock's name 'xxx?xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx' has a "
                              "control character (U+0009, character 4; shown as ?); take it out");
    name[3] = name[40] = 'x';
    name[256] = '\0';
    assert_name_message(name,
                        "the lock's name 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...' is longer "
                        "than 255 characters; give a shorter one");
}

/* The rules of names, except at the end. */
TS_ONCE(prefixes)
{
    static const char *const good[] = {"a", "two ", "nbsp\302\240", "夜间结账 🔒"};
    static const char *const bad[] = {"", " ", " a", "a\nb", "\302\240a", "cut\342\202", NULL};
    char longest[300];
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        assert_int_equal(rl_prefix_check(good[i], NULL), ROWLOCK_OK);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(rl_prefix_check(bad[i], NULL), ROWLOCK_INVALID);
    repeat(longest, "x", 255);
    assert_int_equal(rl_prefix_check(longest, NULL), ROWLOCK_OK);
    repeat(longest, "x", 256);
    assert_int_equal(rl_prefix_check(longest, NULL), ROWLOCK_INVALID);
}

static void assert_text(const char *text, const char *wanted)
{
    assert_int_equal(text != NULL, wanted != NULL);
    if (wanted)
        assert_string_equal(text, wanted);
}

TS_ONCE(good_urls)
{
    static const struct {
        const char *url, *user, *password, *host, *schema, *socket, *ca, *protocol;
        unsigned port;
        int64_t connect_timeout_ms, retry_ms;
    } good[] = {
        {.url = "mysql://ba%40tch:p%3aw%2F@db1.example:3307/locks?socket=%2Frun%2Fs"
                "&ssl-ca=/ca.pem&connect-timeout=1500&retry=5m&protocol=tcp",
         .user = "ba@tch",
         .password = "p:w/",
         .host = "db1.example",
         .schema = "locks",
         .socket = "/run/s",
         .ca = "/ca.pem",
         .protocol = "tcp",
         .port = 3307,
         .connect_timeout_ms = 1500,
         .retry_ms = 300000},
        {.url = "mariadb://"},
        {.url = "mysql://[::1]:3306/s", .host = "::1", .port = 3306, .schema = "s"},
        {.url = "mysql://u:@h", .user = "u", .host = "h"},
        {.url = "mysql://h?retry=250", .host = "h", .retry_ms = 250},
        {.url = "mysql://h?retry=250ms", .host = "h", .retry_ms = 250},
        {.url = "mysql://h?retry=30s", .host = "h", .retry_ms = 30000},
        {.url = "mysql://h?retry=2h", .host = "h", .retry_ms = 7200000},
        {.url = "mysql://h?retry=1h30m5s7ms", .host = "h", .retry_ms = 5405007},
        {.url = "mysql://h?retry=1d", .host = "h", .retry_ms = 86400000},
        {.url = "mysql://h?retry=0", .host = "h"},
    };
    rl_url url;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        print_message("# %s\n", good[i].url);
        assert_int_equal(rl_url_parse(good[i].url, &url, NULL), ROWLOCK_OK);
        assert_text(url.user, good[i].user);
        assert_text(url.password, good[i].password);
        assert_text(url.host, good[i].host);
        assert_int_equal(url.port, good[i].port);
        assert_text(url.schema, good[i].schema);
        assert_text(url.socket, good[i].socket);
        assert_text(url.tls.ca, good[i].ca);
        assert_int_equal(url.connect_timeout_ms, good[i].connect_timeout_ms);
        assert_int_equal(url.retry_ms, good[i].retry_ms);
        assert_text(url.protocol, good[i].protocol);
        rl_url_free(&url);
    }
}

TS_ONCE(bad_urls)
{
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
                                      "mysql://h/s?connect-timeout=99999999999999999999",
                                      "mysql://h?retry=",
                                      "mysql://h?retry=m",
                                      "mysql://h?retry=2d",
                                      "mysql://h?retry=86400001",
                                      "mysql://h?retry=-1",
                                      "mysql://h?retry=5min",
                                      "mysql://h?retry=1h5",
                                      "mysql://h?retry=5m1h",
                                      "mysql://h?retry=23h61m",
                                      "mysql://h?retry=1h-5m",
                                      "mysql://h?connect-timeout=2h"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        rl_url url;
        rowlock_error err = {0};
        if (rl_url_parse(bad[i], &url, &err) != ROWLOCK_INVALID)
            fail_msg("'%s' was taken for a URL", bad[i]);
        rl_url_free(&url);
    }
}

TS_ONCE(url_errors_keep_the_password)
{
    rl_url url;
    rowlock_error err = {0};
    assert_int_equal(rl_url_parse("mysql://u:geheim%zz@h:x/?y=1", &url, &err), ROWLOCK_INVALID);
    assert_null(strstr(err.message, "geheim"));
    rl_url_free(&url);
}

TS_ONCE(labels)
{
    static const char *const shown[][2] = {
        {"a\033[1m", "a?[1m"}, {"12345🔒", "12345"}, {"x\377y", "x?y"}, {NULL, ""}};
    for (size_t i = 0; i < sizeof shown / sizeof shown[0]; i++) {
        char label[8];
        rl_copy_label(label, sizeof label, shown[i][0]);
        assert_string_equal(label, shown[i][1]);
    }
}

TS_ONCE(json)
{
    rl_buffer buffer = {0};
    rl_json_string(&buffer, "a\"b\\c\n\x01 é");
    rl_json_u64(&buffer, UINT64_MAX);
    rl_json_i64(&buffer, INT64_MIN);
    assert_string_equal(buffer.text,
                        "\"a\\\"b\\\\c\\u000a\\u0001 é\"18446744073709551615-9223372036854775808");
    rl_buffer_free(&buffer);
}

TS_ONCE(errors_are_one_line)
{
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

TS_ONCE(status_table)
{
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

static rl_waited wait_for(const rl_io *io, int fd, short *revents)
{
    return io->wait(io->self, fd, POLLIN, revents, io->deadline_us);
}

static void expires_after_ms(int64_t ms)
{
    int silent = eventfd(0, EFD_CLOEXEC);
    short revents = 0;
    int64_t before = rl_now_us();
    rl_io io = rl_io_until(before + ms * 1000);
    assert_int_equal(wait_for(&io, silent, &revents), RL_EXPIRED);
    int64_t took = rl_now_us() - before;
    close(silent);
    assert_true(took >= ms * 1000);
    assert_true(took < 5000000);
}

TS_ONCE(a_wait_ends_in_time)
{
    int ready = eventfd(1, EFD_CLOEXEC);
    rl_io soon = rl_io_until(rl_now_us() + 20000000);
    short revents = 0;
    assert_int_equal(wait_for(&soon, ready, &revents), RL_READY);
    assert_int_equal(revents, POLLIN);
    close(ready);
    expires_after_ms(30);
    expires_after_ms(60);
    expires_after_ms(0);
    rowlock_cancel *cancel = NULL;
    int silent = eventfd(0, EFD_CLOEXEC);
    assert_int_equal(rowlock_cancel_new(&cancel, NULL), ROWLOCK_OK);
    rowlock_cancel_fire(cancel);
    rl_budget budget = rl_budget_start(20000, 20000, cancel);
    rl_io io = rl_budget_lock_io(&budget);
    assert_int_equal(wait_for(&io, silent, &revents), RL_CANCELLED);
    rowlock_cancel_free(cancel);
    close(silent);
}

/* poll()'s clock stands still while the machine is suspended: a wait looks at ours each second. */
TS_ONCE(a_poll_is_short)
{
    assert_int_equal(rl_poll_ms(RL_NEVER), -1);
    assert_int_equal(rl_poll_ms(rl_now_us() - 1), 0);
    assert_int_equal(rl_poll_ms(rl_now_us() + INT64_C(3600000000)), 1000);
    assert_int_equal(rl_poll_ms(INT64_MAX - 1), 1000);
}

/* The examples of FIPS 180-4, in pieces of every size. */
TS_ONCE(sha256_sums)
{
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

/* Options that name a CA, a certificate or a fingerprint, and allow to go without TLS, are
 * refused. */
TS_ONCE(tls_that_contradicts_itself)
{
    char text[] = "/dev/null";
    rl_tls bad[] = {{.mode = ROWLOCK_TLS_OFF, .ca = text},
                    {.mode = ROWLOCK_TLS_OFF, .cert = text},
                    {.mode = ROWLOCK_TLS_PREFERRED, .fingerprint = text},
                    {.mode = ROWLOCK_TLS_REQUIRED, .ca = text},
                    {.mode = ROWLOCK_TLS_VERIFY_CA, .key = text}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(rl_tls_check(&bad[i], NULL), ROWLOCK_INVALID);
    rl_tls good = {.mode = ROWLOCK_TLS_VERIFY_CA, .ca = text};
    assert_int_equal(rl_tls_check(&good, NULL), ROWLOCK_OK);
}

TS_MAIN("unit_base", NULL, NULL)
