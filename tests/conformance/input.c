/* Bad input: a clear INVALID, and nothing is changed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rowlock/rowlock_migrate.h"
#include "rowlock/rowlock_mysql.h"
#include "support/support.h"

static rowlock_client *client;
static MYSQL *mysql;
static rowlock_hold *const untouched = (rowlock_hold *)&ts_err;

static int open_client(void **state)
{
    ts_suite_begin(state);
    client = ts_open();
    mysql = ts_connect(ts_schema());
    return 0;
}

static int close_client(void **state)
{
    rowlock_client_close(client);
    mysql_close(mysql);
    return ts_suite_end(state);
}

static void repeat(char *out, const char *piece, size_t times)
{
    *out = 0;
    for (size_t i = 0; i < times; i++)
        out = stpcpy(out, piece);
}

/* ---------------------------------------------------------------------------- names */

static char long_name[1200];

static const char *const bad_names[] = {
    NULL,
    "",
    long_name, /* 256 characters; filled in main */
    "two\nlines",
    "tab\tinside",
    "bell\a",
    "delete\x7f",
    "c1\xc2\x85"
    "control",
    "c1 end\xc2\x9f",
    "line\xe2\x80\xa8separator",
    "\xff",
    "cut\xc3",
    "cut\xe2\x82",
    "cut\xf0\x9f\x94",
    "alone\x80",
    "overlong\xc0\xaf",
    "overlong\xe0\x80\xaf",
    "overlong\xf0\x80\x80\xaf",
    "surrogate\xed\xa0\x80",
    "beyond\xf4\x90\x80\x80",
    "five\xf8\x88\x80\x80\x80",
    " before",
    "after ",
    "\tbefore",
    "\xc2\xa0nbsp",
    "nbsp\xc2\xa0",
    "\xe3\x80\x80ideographic",
    "ideographic\xe3\x80\x80",
    "en quad\xe2\x80\x80",
    "\xe1\x9a\x80ogham",
    " ",
};

static rowlock_status never_called(void *data, const rowlock_section *section)
{
    (void)section;
    *(bool *)data = true;
    return ROWLOCK_OK;
}

static rowlock_status never_called_tx(void *data, const rowlock_section *section, MYSQL *conn)
{
    (void)section;
    (void)conn;
    *(bool *)data = true;
    return ROWLOCK_OK;
}

static void refuse_to_take(const char *name)
{
    for (int i = 0; i < 2; i++) {
        rowlock_hold *hold = untouched;
        rowlock_acquire_options options = {.mode = ts_modes[i], .wait_ms = 1000};
        WANT(INVALID, rowlock_acquire(client, name, &options, &hold, &ts_err));
        assert_ptr_equal(hold, untouched);
    }
    rowlock_hold *hold = untouched;
    const char *const names[] = {"fine", name};
    rowlock_acquire_options options = {.mode = ROWLOCK_PESSIMISTIC};
    WANT(INVALID, rowlock_acquire_set(client, names, 2, &options, &hold, &ts_err));
    assert_ptr_equal(hold, untouched);
}

static void refuse_versions(const char *name)
{
    uint64_t version = 77;
    bool called = false;
    WANT(INVALID, rowlock_version_read(client, name, &version, &ts_err));
    WANT(INVALID, rowlock_version_bump(client, name, 1, &version, &ts_err));
    WANT(INVALID, rowlock_section_run(client, name, NULL, never_called, &called, NULL, &ts_err));
    assert_true(version == 77);
    assert_false(called);
}

static void refuse_on_own_connection(const char *name)
{
    uint64_t version = 77;
    bool called = false;
    WANT(INVALID, rowlock_tx_section_run(client, mysql, name, NULL, never_called_tx, &called, NULL,
                                         &ts_err));
    ts_sql(mysql, "BEGIN");
    WANT(INVALID, rowlock_tx_acquire(client, mysql, name, NULL, &ts_err));
    WANT(INVALID, rowlock_tx_version_bump(client, mysql, name, 1, &version, &ts_err));
    ts_sql(mysql, "ROLLBACK");
    assert_true(version == 77);
    assert_false(called);
}

static void refuse_to_look(const char *name)
{
    rowlock_list *list = (rowlock_list *)untouched;
    WANT(INVALID, rowlock_list_one(client, name, &list, &ts_err));
    assert_ptr_equal(list, untouched);
    WANT(INVALID, rowlock_break(client, name, "reason", &ts_err));
}

static void test_bad_names(void **state)
{
    char *before = ts_dump(mysql, ts_schema());
    (void)state;
    for (size_t i = 0; i < sizeof bad_names / sizeof bad_names[0]; i++) {
        refuse_to_take(bad_names[i]);
        refuse_versions(bad_names[i]);
        refuse_on_own_connection(bad_names[i]);
        refuse_to_look(bad_names[i]);
    }
    char *after = ts_dump(mysql, ts_schema());
    assert_string_equal(before, after);
    free(before);
    free(after);
}

static void take_and_release(const char *name, rowlock_mode mode)
{
    rowlock_hold *hold = ts_take(client, name, mode, 30000);
    assert_string_equal(rowlock_hold_name(hold), name);
    WANT(OK, rowlock_release(hold, &ts_err));
}

/* One name has one mode: the last character tells them apart. */
static void test_good_names(void **state)
{
    static const char *const names[] = {
        "a",
        "two words",
        "semi;colon'quote\"back\\slash`",
        "in\xc2\xa0side",
        "%_",
        "\xc3\xa9",
        "e\xcc\x81",
        "\xd0\xb7\xd0\xb0\xd0\xbc\xd0\xbe\xd0\xba",
        "{schema}",
        ":id",
        "?",
        "--",
        "NULL",
    };
    rowlock_mode mode = ts_mode(state);
    const char *ends[] = {"\xf0\x9f\x94\x92", "\xf0\x9f\x94\x93"};
    char name[1200];
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        snprintf(name, sizeof name, "%s%s", names[i], ends[mode]);
        take_and_release(name, mode);
    }
    repeat(name, "\xf0\x9f\x94\x92", ROWLOCK_NAME_MAX - 1);
    strcat(name, ends[mode]);
    take_and_release(name, mode);
    repeat(name, mode ? "y" : "x", ROWLOCK_NAME_MAX);
    take_and_release(name, mode);
}

/* Case, accents, normal forms: other bytes are another lock. */
static void test_names_that_look_alike(void **state)
{
    static const char *const names[] = {"alike",
                                        "Alike",
                                        "al\xc3\xadke",
                                        "ali\xcc\x81ke",
                                        "\xef\xbd\x81like",
                                        "alike\xe2\x80\x8b."};
    enum { COUNT = sizeof names / sizeof names[0] };
    rowlock_hold *holds[COUNT];
    rowlock_mode mode = ts_mode(state);
    char name[64];
    for (int i = 0; i < COUNT; i++) {
        snprintf(name, sizeof name, "%s/%d", names[i], mode);
        holds[i] = ts_take(client, name, mode, 30000);
    }
    for (int i = 0; i < COUNT; i++)
        WANT(OK, rowlock_release(holds[i], &ts_err));
}

/* -------------------------------------------------------------------------- options */

static void refuse_options(rowlock_acquire_options options)
{
    rowlock_hold *hold = untouched;
    WANT(INVALID, rowlock_acquire(client, "options", &options, &hold, &ts_err));
    assert_ptr_equal(hold, untouched);
}

static void test_bad_acquire_options(void **state)
{
    static const int64_t ttls[] = {INT64_MIN, -1, 1, 499, ROWLOCK_TTL_MAX_MS + 1, INT64_MAX};
    static const int64_t spans[] = {INT64_MIN, -1, ROWLOCK_TTL_MAX_MS + 1LL, INT64_MAX};
    char *before = ts_dump(mysql, ts_schema());
    (void)state;
    for (int mode = 0; mode < 2; mode++)
        for (size_t i = 0; i < sizeof ttls / sizeof ttls[0]; i++)
            refuse_options((rowlock_acquire_options){.mode = ts_modes[mode], .ttl_ms = ttls[i]});
    for (size_t i = 0; i < sizeof spans / sizeof spans[0]; i++)
        refuse_options((rowlock_acquire_options){.at_least_ms = spans[i]});
    refuse_options((rowlock_acquire_options){.max_hold_ms = -1});
    refuse_options((rowlock_acquire_options){.max_hold_ms = INT64_MIN});
    refuse_options((rowlock_acquire_options){.max_hold_ms = INT64_MAX});
    refuse_options((rowlock_acquire_options){.mode = (rowlock_mode)7});
    refuse_options((rowlock_acquire_options){.mode = (rowlock_mode)2});
    /* What a mode cannot do is not silently left out. */
    refuse_options((rowlock_acquire_options){.unfenced = true});
    refuse_options((rowlock_acquire_options){.mode = ROWLOCK_PESSIMISTIC, .at_least_ms = 10});
    refuse_options((rowlock_acquire_options){.mode = ROWLOCK_PESSIMISTIC, .max_hold_ms = 1000});
    char *after = ts_dump(mysql, ts_schema());
    assert_string_equal(before, after);
    free(before);
    free(after);
}

static void test_the_ends_of_the_ranges(void **state)
{
    static const int64_t ttls[] = {ROWLOCK_TTL_MIN_MS, ROWLOCK_TTL_MAX_MS};
    rowlock_mode mode = ts_mode(state);
    const char *name = ts_name("range");
    for (int i = 0; i < 2; i++) {
        rowlock_hold *hold = ts_take(client, name, mode, ttls[i]);
        WANT(OK, rowlock_release(hold, &ts_err));
    }
    rowlock_hold *hold = NULL;
    rowlock_acquire_options options = {.mode = mode, .wait_ms = INT64_MAX};
    WANT(OK, rowlock_acquire(client, name, &options, &hold, &ts_err));
    WANT(OK, rowlock_release(hold, &ts_err));
    options.wait_ms = INT64_MIN;
    WANT(OK, rowlock_acquire(client, name, &options, &hold, &ts_err));
    WANT(OK, rowlock_release(hold, &ts_err));
}

static void test_bad_sets(void **state)
{
    static const char *names[ROWLOCK_SET_MAX + 1];
    rowlock_hold *hold = untouched;
    rowlock_acquire_options options = {.mode = ROWLOCK_PESSIMISTIC};
    rowlock_acquire_options lease = {.mode = ROWLOCK_OPTIMISTIC};
    rowlock_acquire_options again = {.mode = ROWLOCK_PESSIMISTIC, .reentrant = true};
    char *before = ts_dump(mysql, ts_schema());
    (void)state;
    for (size_t i = 0; i <= ROWLOCK_SET_MAX; i++)
        names[i] = ts_name("too-many");
    WANT(INVALID,
         rowlock_acquire_set(client, names, ROWLOCK_SET_MAX + 1, &options, &hold, &ts_err));
    WANT(INVALID, rowlock_acquire_set(client, names, SIZE_MAX, &options, &hold, &ts_err));
    WANT(INVALID, rowlock_acquire_set(client, names, 0, &options, &hold, &ts_err));
    WANT(INVALID, rowlock_acquire_set(client, NULL, 1, &options, &hold, &ts_err));
    WANT(INVALID, rowlock_acquire_set(client, names, 2, &lease, &hold, &ts_err));
    WANT(INVALID, rowlock_acquire_set(client, names, 2, NULL, &hold, &ts_err));
    WANT(INVALID, rowlock_acquire_set(client, names, 2, &again, &hold, &ts_err));
    assert_ptr_equal(hold, untouched);
    char *after = ts_dump(mysql, ts_schema());
    assert_string_equal(before, after);
    free(before);
    free(after);
}

static void test_bad_section_options(void **state)
{
    static const rowlock_section_options bad[] = {
        {.wait_ms = -1},
        {.backoff_ms = -1},
        {.backoff_max_ms = -1},
        {.wait_ms = INT64_MIN},
        {.backoff_ms = ROWLOCK_TTL_MAX_MS + 1LL},
        {.backoff_max_ms = INT64_MAX},
    };
    bool called = false;
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        WANT(INVALID,
             rowlock_section_run(client, "section", &bad[i], never_called, &called, NULL, &ts_err));
    WANT(INVALID, rowlock_section_run(client, "section", NULL, NULL, NULL, NULL, &ts_err));
    assert_false(called);
}

static void test_bad_release_and_sweep_options(void **state)
{
    (void)state;
    rowlock_hold *hold = ts_take(client, ts_name("note"), ROWLOCK_OPTIMISTIC, 30000);
    /* The hold is freed whatever the status; a note too long is cut, not refused. */
    char note[600];
    memset(note, 'n', sizeof note - 1);
    note[sizeof note - 1] = 0;
    rowlock_release_options options = {.note = note};
    WANT(OK, rowlock_release_with(hold, &options, &ts_err));
    WANT(OK, rowlock_client_flush(client, 20000, &ts_err));
    const rowlock_sweep_options too_old[] = {{.history_ms = INT64_MAX}, {.unused_ms = INT64_MAX}};
    for (size_t i = 0; i < 2; i++)
        WANT(INVALID, rowlock_sweep(client, &too_old[i], NULL, &ts_err));
}

/* ---------------------------------------------------------------------------- NULLs */

static void test_calls_with_null(void **state)
{
    rowlock_hold *hold = untouched;
    rowlock_list *list = (rowlock_list *)untouched;
    rowlock_history *history = (rowlock_history *)untouched;
    rowlock_client *none = (rowlock_client *)untouched;
    rowlock_fences *fences = NULL;
    uint64_t version = 77;
    (void)state;
    WANT(INVALID, rowlock_acquire(NULL, "x", NULL, &hold, &ts_err));
    WANT(INVALID, rowlock_acquire(client, "x", NULL, NULL, &ts_err));
    WANT(INVALID, rowlock_acquire(client, NULL, NULL, &hold, NULL));
    WANT(INVALID, rowlock_list_get(NULL, NULL, &list, &ts_err));
    WANT(INVALID, rowlock_list_get(client, NULL, NULL, &ts_err));
    WANT(INVALID, rowlock_list_one(client, "x", NULL, &ts_err));
    WANT(INVALID, rowlock_history_get(NULL, NULL, &history, &ts_err));
    WANT(INVALID, rowlock_history_get(client, NULL, NULL, &ts_err));
    WANT(INVALID, rowlock_sweep(NULL, NULL, NULL, &ts_err));
    WANT(INVALID, rowlock_break(NULL, "x", NULL, &ts_err));
    WANT(INVALID, rowlock_version_read(NULL, "x", &version, &ts_err));
    WANT(INVALID, rowlock_version_bump(NULL, "x", 0, &version, &ts_err));
    WANT(INVALID, rowlock_client_flush(NULL, 0, &ts_err));
    WANT(INVALID, rowlock_client_open(NULL, NULL, &ts_err));
    WANT(INVALID, rowlock_cancel_new(NULL, &ts_err));
    WANT(INVALID, rowlock_fence(NULL, mysql, &ts_err));
    WANT(INVALID, rowlock_tx_acquire(client, NULL, "x", NULL, &ts_err));
    WANT(INVALID, rowlock_tx_acquire(NULL, mysql, "x", NULL, &ts_err));
    WANT(INVALID, rowlock_present(NULL, mysql, &ts_err));
    WANT(INVALID, rowlock_version_read(client, "x", NULL, &ts_err));
    WANT(INVALID, rowlock_version_bump(client, "x", 0, NULL, &ts_err));
    WANT(INVALID, rowlock_tx_version_bump(client, mysql, "x", 0, NULL, &ts_err));
    WANT(INVALID, rowlock_fences_get(NULL, &fences, &ts_err));
    WANT(INVALID, rowlock_fences_get(client, NULL, &ts_err));
    WANT(INVALID, rowlock_migrations_get(client, NULL, NULL, &ts_err));
    WANT(INVALID, rowlock_diagnose(NULL, 0, NULL, NULL, &ts_err));
    assert_int_equal(rowlock_hold_check(NULL), ROWLOCK_INVALID);
    assert_int_equal(rowlock_hold_fd(NULL), -1);
    rowlock_cancel_reset(NULL);
    assert_null(fences);
    assert_ptr_equal(hold, untouched);
    assert_ptr_equal(list, untouched);
    assert_ptr_equal(history, untouched);
    assert_ptr_equal(none, untouched);
    assert_true(version == 77);
}

static void test_looking_beyond_the_end(void **state)
{
    rowlock_list *list = NULL;
    rowlock_history *history = NULL;
    rowlock_history_options no_such = {.name = "no such name"};
    (void)state;
    WANT(OK, rowlock_list_get(client, NULL, &list, &ts_err));
    assert_null(rowlock_list_at(list, rowlock_list_count(list)));
    assert_null(rowlock_list_at(list, SIZE_MAX));
    rowlock_list_free(list);
    WANT(OK, rowlock_history_get(client, &no_such, &history, &ts_err));
    assert_int_equal(rowlock_history_count(history), 0);
    assert_null(rowlock_history_at(history, 0));
    rowlock_history_free(history);
}

static void test_bad_looking_options(void **state)
{
    rowlock_list *list = NULL;
    rowlock_history *history = NULL;
    rowlock_list_options too_many = {.limit = 100001};
    rowlock_history_options too_long = {.limit = 100001};
    rowlock_history_options bad_name = {.name = "bad\nname"};
    (void)state;
    WANT(INVALID, rowlock_list_get(client, &too_many, &list, &ts_err));
    WANT(INVALID, rowlock_history_get(client, &too_long, &history, &ts_err));
    WANT(INVALID, rowlock_history_get(client, &bad_name, &history, &ts_err));
    assert_null(list);
    assert_null(history);
}

/* ------------------------------------------------------------- migrations, fences, doctor */

static void never_told(void *data, const rowlock_finding *finding)
{
    (void)data;
    (void)finding;
    fail();
}

static void test_bad_ttls_for_the_doctor(void **state)
{
    static const int64_t ttls[] = {-1, 499, ROWLOCK_TTL_MAX_MS + 1LL, INT64_MAX};
    rowlock_client_options options = ts_options();
    (void)state;
    for (size_t i = 0; i < sizeof ttls / sizeof ttls[0]; i++)
        WANT(INVALID, rowlock_diagnose(&options, ttls[i], never_told, NULL, &ts_err));
    options.port = 65536;
    WANT(INVALID, rowlock_diagnose(&options, 0, never_told, NULL, &ts_err));
}

static void test_bad_tables_to_fence(void **state)
{
    /* 65 characters; an identifier has no character beyond U+FFFF, and is UTF-8. */
    static char too_long[66];
    const char *const tables[] = {NULL, "", too_long, "lock \xf0\x9f\x94\x92", "cut \xc3"};
    (void)state;
    repeat(too_long, "t", 65);
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
        WANT(INVALID, rowlock_fence_install(client, NULL, tables[i], "x", &ts_err));
        WANT(INVALID, rowlock_fence_remove(client, NULL, tables[i], &ts_err));
    }
    WANT(INVALID, rowlock_fence_install(client, too_long, "t", "x", &ts_err));
}

static void test_bad_migrations_options(void **state)
{
    static char too_long[300];
    static char long_for_a_lock[252]; /* "migrate:" comes before it */
    const char *const schema = ts_schema();
    const rowlock_migrations_options bad[] = {
        {.schema = schema},
        {.folder = "", .schema = schema},
        {.folder = "."},
        {.folder = ".", .schema = ""},
        {.folder = ".", .schema = too_long},
        {.folder = ".", .schema = long_for_a_lock},
        {.folder = ".", .schema = schema, .lock = "bad\nname"},
        {.folder = ".", .schema = schema, .lock = too_long},
        {.folder = ".", .schema = schema, .table = "bad-name"},
        {.folder = ".", .schema = schema, .table_wait_ms = -1},
        {.folder = ".", .schema = schema, .table_wait_ms = INT64_MAX},
        {.folder = "no such folder", .schema = schema},
    };
    const rowlock_migrations_repair_options adopt = {.baseline = 1};
    rowlock_migrations_list *list = NULL;
    (void)state;
    repeat(too_long, "s", sizeof too_long - 1);
    repeat(long_for_a_lock, "s", sizeof long_for_a_lock - 1);
    char *before = ts_dump(mysql, schema);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        WANT(INVALID, rowlock_migrations_apply(client, &bad[i], NULL, &ts_err));
        WANT(INVALID, rowlock_migrations_get(client, &bad[i], &list, &ts_err));
        WANT(INVALID, rowlock_migrations_repair(client, &bad[i], &adopt, NULL, &ts_err));
        assert_null(list);
    }
    char *after = ts_dump(mysql, schema);
    assert_string_equal(before, after);
    free(before);
    free(after);
}

/* --------------------------------------------------------------------------- opening */

static void refuse_to_open(rowlock_client_options options)
{
    rowlock_client *none = (rowlock_client *)untouched;
    WANT(INVALID, rowlock_client_open(&options, &none, &ts_err));
    assert_ptr_equal(none, untouched);
    rowlock_migrate_result result = {.from = 99};
    WANT(INVALID, rowlock_migrate(&options, NULL, &result, &ts_err));
    assert_int_equal(result.from, 99);
}

static void test_bad_client_options(void **state)
{
    static const char *const urls[] = {
        "",
        "http://h/rowlock",
        "mysql:/h",
        "mysql://h:port/rowlock",
        "mysql://h:99999/rowlock",
        "mysql://u:sEcr3t-url%zz@h/rowlock",
        "mysql://h/rowlock?no-such-key=1",
        "mysql://h/row%00lock",
        "mysql://h/rowlock?connect-timeout=soon",
        "mysql://h/rowlock?waiting=never",
        "mysql://h/rowlock?via=hand",
        "mysql://h/rowlock?tls=perhaps",
    };
    static const char *const schemas[] = {"",       "back`tick", "semi;colon",
                                          "sp ace", "dot.ted",   "caf\xc3\xa9"};
    static char long_schema[66];
    (void)state;
    ts_secret("sEcr3t-url");
    for (size_t i = 0; i < sizeof urls / sizeof urls[0]; i++)
        refuse_to_open((rowlock_client_options){.url = urls[i]});
    for (size_t i = 0; i < sizeof schemas / sizeof schemas[0]; i++)
        refuse_to_open(ts_options_on(schemas[i]));
    repeat(long_schema, "s", 65);
    refuse_to_open(ts_options_on(long_schema));
    rowlock_client_options options = ts_options();
    options.port = 65536;
    refuse_to_open(options);
    static const int64_t timeouts[] = {-1, 1, 99, INT64_MIN};
    for (size_t i = 0; i < sizeof timeouts / sizeof timeouts[0]; i++) {
        options = ts_options();
        options.connect_timeout_ms = timeouts[i];
        refuse_to_open(options);
    }
    options = ts_options();
    options.reconnect_ms = -1;
    refuse_to_open(options);
    options = ts_options();
    options.waiting = (rowlock_waiting)7;
    refuse_to_open(options);
    options = ts_options();
    options.via = (rowlock_via)7;
    refuse_to_open(options);
    options = ts_options();
    options.defaults_file = "/no/such/option.cnf";
    refuse_to_open(options);
}

static void test_a_url(void **state)
{
    char url[512];
    char *at = url + sprintf(url, "mysql://root@localhost/%s?socket=", ts_schema());
    (void)state;
    for (const char *c = ts_socket(); *c; c++)
        at += sprintf(at, "%%%02X", (unsigned char)*c);
    rowlock_client_options options = {.url = url};
    rowlock_client *other = NULL;
    WANT(OK, rowlock_client_open(&options, &other, &ts_err));
    WANT(OK, ts_try(other, ts_name("url"), ROWLOCK_OPTIMISTIC));
    rowlock_client_close(other);
}

static void test_labels(void **state)
{
    char label[400];
    (void)state;
    /* 400 bytes of two-byte characters: at most 255 are kept, and no half one. */
    repeat(label, "\xc3\xa9", 199);
    rowlock_client_options options = ts_options();
    options.label = label;
    rowlock_client *other = NULL;
    rowlock_list *list = NULL;
    const char *name = ts_name("label");
    WANT(OK, rowlock_client_open(&options, &other, &ts_err));
    rowlock_hold *hold = ts_take(other, name, ROWLOCK_OPTIMISTIC, 30000);
    WANT(OK, rowlock_list_one(client, name, &list, &ts_err));
    const char *kept = rowlock_list_at(list, 0)->owner_label;
    assert_between(200, (int64_t)strlen(kept), ROWLOCK_LABEL_MAX);
    assert_int_equal(strlen(kept) % 2, 0);
    assert_memory_equal(kept, label, strlen(kept));
    rowlock_list_free(list);
    WANT(OK, rowlock_release(hold, &ts_err));
    rowlock_client_close(other);
    /* What could not be stored, or would break a line, is made harmless. */
    options.label = "not \xff UTF-8,\ntwo lines";
    WANT(OK, rowlock_client_open(&options, &other, &ts_err));
    hold = ts_take(other, name, ROWLOCK_OPTIMISTIC, 30000);
    WANT(OK, rowlock_list_one(client, name, &list, &ts_err));
    assert_string_equal(rowlock_list_at(list, 0)->owner_label, "not ? UTF-8,?two lines");
    rowlock_list_free(list);
    WANT(OK, rowlock_release(hold, &ts_err));
    rowlock_client_close(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ONCE(test_bad_names),
        BOTH(test_good_names),
        BOTH(test_names_that_look_alike),
        ONCE(test_bad_acquire_options),
        BOTH(test_the_ends_of_the_ranges),
        ONCE(test_bad_sets),
        ONCE(test_bad_section_options),
        ONCE(test_bad_release_and_sweep_options),
        ONCE(test_calls_with_null),
        ONCE(test_looking_beyond_the_end),
        ONCE(test_bad_looking_options),
        ONCE(test_bad_ttls_for_the_doctor),
        ONCE(test_bad_tables_to_fence),
        ONCE(test_bad_migrations_options),
        ONCE(test_bad_client_options),
        ONCE(test_a_url),
        ONCE(test_labels),
    };
    repeat(long_name, "x", ROWLOCK_NAME_MAX + 1);
    return cmocka_run_group_tests_name("input", tests, open_client, close_client);
}
