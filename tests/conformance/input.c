/* Bad input: a clear INVALID, and nothing is changed. */
#include "conformance/clients.h"

static rowlock_hold *const untouched = (rowlock_hold *)&ts_err;

static void repeat(char *out, const char *piece, size_t times)
{
    *out = 0;
    for (size_t i = 0; i < times; i++)
        out = stpcpy(out, piece);
}

static char long_name[1200];

/* All of them are in tests/unit/base.c. */
static const char *const bad_names[] = {
    NULL,
    "",
    long_name, /* 256 characters; filled in main */
    "two\nlines",
    "c1\302\205control",
    "line\342\200\250separator",
    "cut\360\237\224",
    " before",
    "after ",
    "nbsp\302\240",
};

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
    unsigned called = 0;
    WANT(INVALID, rowlock_version_read(client, name, &version, &ts_err));
    WANT(INVALID, rowlock_version_bump(client, name, 1, &version, &ts_err));
    WANT(INVALID, rowlock_section_run(client, name, NULL, ts_no_work, &called, NULL, &ts_err));
    assert_true(version == 77);
    assert_int_equal(called, 0);
}

static void refuse_on_own_connection(const char *name)
{
    uint64_t version = 77;
    unsigned called = 0;
    WANT(INVALID,
         rowlock_tx_section_run(client, mysql, name, NULL, ts_no_work_tx, &called, NULL, &ts_err));
    ts_sql(mysql, "BEGIN");
    WANT(INVALID, rowlock_tx_acquire(client, mysql, name, NULL, &ts_err));
    WANT(INVALID, rowlock_tx_version_bump(client, mysql, name, 1, &version, &ts_err));
    ts_sql(mysql, "ROLLBACK");
    assert_true(version == 77);
    assert_int_equal(called, 0);
}

static void refuse_to_look(const char *name)
{
    rowlock_list *list = (rowlock_list *)untouched;
    WANT(INVALID, rowlock_list_one(client, name, &list, &ts_err));
    assert_ptr_equal(list, untouched);
    WANT(INVALID, rowlock_break(client, name, "reason", &ts_err));
}

TS_ONCE(test_bad_names)
{
    char *before = ts_dump(mysql, ts_schema());
    for (size_t i = 0; i < sizeof bad_names / sizeof bad_names[0]; i++) {
        refuse_to_take(bad_names[i]);
        refuse_versions(bad_names[i]);
        refuse_on_own_connection(bad_names[i]);
        refuse_to_look(bad_names[i]);
    }
    ts_same(before, ts_dump(mysql, ts_schema()));
}

static void take_and_release(const char *name, rowlock_mode mode)
{
    TS_HOLD *hold = ts_take(client, name, mode, 30000);
    assert_string_equal(rowlock_hold_name(hold), name);
}

/* A name has one mode, so the last character differs between them. */
TS_BOTH(test_good_names)
{
    static const char *const names[] = {"a",
                                        "two words",
                                        "semi;colon'quote\"back\\slash`",
                                        "in\xc2\xa0side",
                                        "%_ {schema} :id ? --",
                                        "NULL"};
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

/* Names that differ in case, accents or normal form are different locks. */
TS_BOTH(test_names_that_look_alike)
{
    static const char *const names[] = {"alike",
                                        "Alike",
                                        "al\xc3\xadke",
                                        "ali\xcc\x81ke",
                                        "\xef\xbd\x81like",
                                        "alike\xe2\x80\x8b."};
    enum { COUNT = sizeof names / sizeof names[0] };
    rowlock_hold *holds[COUNT];
    char name[64];
    for (int i = 0; i < COUNT; i++) {
        snprintf(name, sizeof name, "%s/%d", names[i], mode);
        holds[i] = ts_take(client, name, mode, 30000);
    }
    for (int i = 0; i < COUNT; i++)
        WANT(OK, rowlock_release(holds[i], &ts_err));
}

TS_ONCE(test_bad_acquire_options)
{
    static const int64_t ttls[] = {INT64_MIN, -1, 1, 499, ROWLOCK_TTL_MAX_MS + 1, INT64_MAX};
    enum { TTLS = sizeof ttls / sizeof ttls[0] };
    static const rowlock_acquire_options bad[] = {
        {.at_least_ms = INT64_MIN},
        {.at_least_ms = -1},
        {.at_least_ms = ROWLOCK_TTL_MAX_MS + 1LL},
        {.at_least_ms = INT64_MAX},
        {.max_hold_ms = -1},
        {.max_hold_ms = INT64_MIN},
        {.max_hold_ms = INT64_MAX},
        {.mode = (rowlock_mode)7},
        {.mode = (rowlock_mode)2},
        /* An option that a mode does not support is not silently ignored. */
        {.unfenced = true},
        {.mode = ROWLOCK_PESSIMISTIC, .at_least_ms = 10},
        {.mode = ROWLOCK_PESSIMISTIC, .max_hold_ms = 1000},
    };
    enum { BAD = sizeof bad / sizeof bad[0] };
    char *before = ts_dump(mysql, ts_schema());
    for (size_t i = 0; i < BAD + 2 * TTLS; i++) {
        rowlock_acquire_options options = {0};
        if (i < BAD) {
            options = bad[i];
        } else {
            options.mode = ts_modes[i % 2];
            options.ttl_ms = ttls[(i - BAD) / 2];
        }
        rowlock_hold *hold = untouched;
        rowlock_status status = rowlock_acquire(client, "options", &options, &hold, &ts_err);
        if (status != ROWLOCK_INVALID)
            print_error("of the bad options, number %zu: ", i);
        WANT(INVALID, status);
        assert_ptr_equal(hold, untouched);
    }
    ts_same(before, ts_dump(mysql, ts_schema()));
}

TS_BOTH(test_the_ends_of_the_ranges)
{
    static const rowlock_acquire_options ends[] = {{.ttl_ms = ROWLOCK_TTL_MIN_MS},
                                                   {.ttl_ms = ROWLOCK_TTL_MAX_MS},
                                                   {.wait_ms = INT64_MAX},
                                                   {.wait_ms = INT64_MIN}};
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        rowlock_acquire_options options = ends[i];
        options.mode = mode;
        int64_t stood = ts_stood_ms();
        rowlock_hold *hold = ts_take_with(client, ts_name("range"), options);
        rowlock_status status = rowlock_release(hold, &ts_err);
        /* On a machine that stood still, the shortest may have expired. */
        if (i > 0 || status != ROWLOCK_LOST || ts_stood_ms() - stood < 300)
            WANT(OK, status);
    }
}

TS_ONCE(test_bad_sets)
{
    static const char *names[ROWLOCK_SET_MAX + 1];
    rowlock_hold *hold = untouched;
    TS_HOLD *most = NULL;
    rowlock_acquire_options options = {.mode = ROWLOCK_PESSIMISTIC};
    rowlock_acquire_options again = {.mode = ROWLOCK_PESSIMISTIC, .reentrant = true};
    char *before = ts_dump(mysql, ts_schema());
    for (size_t i = 0; i <= ROWLOCK_SET_MAX; i++)
        names[i] = ts_name("too-many");
    WANT(INVALID,
         rowlock_acquire_set(client, names, ROWLOCK_SET_MAX + 1, &options, &hold, &ts_err));
    WANT(INVALID, rowlock_acquire_set(client, names, SIZE_MAX, &options, &hold, &ts_err));
    WANT(INVALID, rowlock_acquire_set(client, names, 0, &options, &hold, &ts_err));
    WANT(INVALID, rowlock_acquire_set(client, NULL, 1, &options, &hold, &ts_err));
    WANT(INVALID, rowlock_acquire_set(client, names, 2, &again, &hold, &ts_err));
    assert_ptr_equal(hold, untouched);
    ts_same(before, ts_dump(mysql, ts_schema()));
    WANT(OK, rowlock_acquire_set(client, names, ROWLOCK_SET_MAX, &options, &most, &ts_err));
    assert_int_equal(rowlock_hold_count(most), ROWLOCK_SET_MAX);
}

TS_ONCE(test_bad_section_options)
{
    static const rowlock_section_options bad[] = {
        {.wait_ms = -1},
        {.backoff_ms = -1},
        {.backoff_max_ms = -1},
        {.wait_ms = INT64_MIN},
        {.backoff_ms = ROWLOCK_TTL_MAX_MS + 1LL},
        {.backoff_max_ms = INT64_MAX},
    };
    unsigned called = 0;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        WANT(INVALID,
             rowlock_section_run(client, "section", &bad[i], ts_no_work, &called, NULL, &ts_err));
    WANT(INVALID, rowlock_section_run(client, "section", NULL, NULL, NULL, NULL, &ts_err));
    assert_int_equal(called, 0);
}

TS_ONCE(test_bad_release_and_sweep_options)
{
    rowlock_hold *hold = ts_take(client, ts_name("note"), ROWLOCK_OPTIMISTIC, 30000);
    /* The hold is freed on any status; a long note is cut, not refused. */
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

TS_ONCE(test_calls_with_null)
{
    rowlock_hold *hold = untouched;
    rowlock_list *list = (rowlock_list *)untouched;
    rowlock_history *history = (rowlock_history *)untouched;
    rowlock_client *none = (rowlock_client *)untouched;
    rowlock_fences *fences = NULL;
    uint64_t version = 77;
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
    rowlock_client_close(NULL);
    rowlock_cancel_free(NULL);
    rowlock_list_free(NULL);
    rowlock_history_free(NULL);
    WANT(INVALID, rowlock_release(NULL, &ts_err));
    WANT(INVALID, rowlock_release_with(NULL, NULL, &ts_err));
    assert_null(fences);
    assert_ptr_equal(hold, untouched);
    assert_ptr_equal(list, untouched);
    assert_ptr_equal(history, untouched);
    assert_ptr_equal(none, untouched);
    assert_true(version == 77);
}

TS_ONCE(test_bad_looking_options)
{
    rowlock_list *list = NULL;
    rowlock_history *history = NULL;
    rowlock_list_options too_many = {.limit = 100001};
    rowlock_history_options too_long = {.limit = 100001};
    rowlock_history_options bad_name = {.name = "bad\nname"};
    WANT(INVALID, rowlock_list_get(client, &too_many, &list, &ts_err));
    WANT(INVALID, rowlock_history_get(client, &too_long, &history, &ts_err));
    WANT(INVALID, rowlock_history_get(client, &bad_name, &history, &ts_err));
    assert_null(list);
    assert_null(history);
    /* Also beyond the end. */
    WANT(OK, rowlock_list_get(client, NULL, &list, &ts_err));
    assert_null(rowlock_list_at(list, rowlock_list_count(list)));
    assert_null(rowlock_list_at(list, SIZE_MAX));
    rowlock_list_free(list);
}

static void never_told(void *data, const rowlock_finding *finding)
{
    (void)data;
    (void)finding;
    fail();
}

TS_ONCE(test_bad_ttls_for_the_doctor)
{
    static const int64_t ttls[] = {-1, 499, ROWLOCK_TTL_MAX_MS + 1LL, INT64_MAX};
    rowlock_client_options options = ts_options();
    for (size_t i = 0; i < sizeof ttls / sizeof ttls[0]; i++)
        WANT(INVALID, rowlock_diagnose(&options, ttls[i], never_told, NULL, &ts_err));
    options.port = 65536;
    WANT(INVALID, rowlock_diagnose(&options, 0, never_told, NULL, &ts_err));
}

TS_ONCE(test_bad_migrations_options)
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
    repeat(too_long, "s", sizeof too_long - 1);
    repeat(long_for_a_lock, "s", sizeof long_for_a_lock - 1);
    char *before = ts_dump(mysql, schema);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        WANT(INVALID, rowlock_migrations_apply(client, &bad[i], NULL, &ts_err));
        WANT(INVALID, rowlock_migrations_get(client, &bad[i], &list, &ts_err));
        WANT(INVALID, rowlock_migrations_repair(client, &bad[i], &adopt, NULL, &ts_err));
        assert_null(list);
    }
    ts_same(before, ts_dump(mysql, schema));
}

/* `which`: reported if the options are not refused. */
static void refuse_to_open(rowlock_client_options options, const char *what, size_t which)
{
    rowlock_client *none = (rowlock_client *)untouched;
    rowlock_status status = rowlock_client_open(&options, &none, &ts_err);
    if (status != ROWLOCK_INVALID)
        print_error("of the bad %s, number %zu: ", what, which);
    WANT(INVALID, status);
    assert_ptr_equal(none, untouched);
    rowlock_migrate_result result = {.from = 99};
    WANT(INVALID, rowlock_migrate(&options, NULL, &result, &ts_err));
    assert_int_equal(result.from, 99);
}

TS_ONCE(test_bad_client_options)
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
        "mysql://h/rowlock?retry=soon",
        "mysql://h/rowlock?protocol=pipe",
        "mysql://h/rowlock?waiting=never",
        "mysql://h/rowlock?via=hand",
        "mysql://h/rowlock?tls=perhaps",
    };
    static const char *const schemas[] = {"",       "back`tick", "semi;colon",
                                          "sp ace", "dot.ted",   "caf\xc3\xa9"};
    static char long_schema[66];
    ts_secret("sEcr3t-url");
    for (size_t i = 0; i < sizeof urls / sizeof urls[0]; i++)
        refuse_to_open((rowlock_client_options){.url = urls[i]}, "urls", i);
    for (size_t i = 0; i < sizeof schemas / sizeof schemas[0]; i++)
        refuse_to_open(ts_options_on(schemas[i]), "schemas", i);
    repeat(long_schema, "s", 65);
    refuse_to_open(ts_options_on(long_schema), "schemas", 99);
    rowlock_client_options bad[13];
    enum { BAD = sizeof bad / sizeof bad[0] };
    for (size_t i = 0; i < BAD; i++)
        bad[i] = ts_options();
    bad[0].port = 65536;
    bad[1].connect_timeout_ms = -1;
    bad[2].connect_timeout_ms = 1;
    bad[3].connect_timeout_ms = 99;
    bad[4].connect_timeout_ms = INT64_MIN;
    bad[5].reconnect_ms = -1;
    bad[6].retry_ms = 86400001;
    bad[7].waiting = (rowlock_waiting)7;
    bad[8].via = (rowlock_via)7;
    bad[9].protocol = (rowlock_protocol)7;
    bad[10].host = "127.0.0.1";
    bad[10].protocol = ROWLOCK_PROTOCOL_SOCKET;
    bad[11].defaults_extra_file = "/no/such/option.cnf";
    bad[12].defaults_file = "/no/such/option.cnf";
    for (size_t i = 0; i < BAD; i++)
        refuse_to_open(bad[i], "options", i);
}

static void is_labelled(const char *name, const char *label, const char *shown)
{
    rowlock_list *list = NULL;
    TS_CLIENT *labelled = ts_open_as((rowlock_client_options){.label = label});
    TS_HOLD *hold = ts_take(labelled, name, ROWLOCK_OPTIMISTIC, 30000);
    WANT(OK, rowlock_list_one(client, name, &list, &ts_err));
    const char *kept = rowlock_list_at(list, 0)->owner_label;
    if (shown) {
        assert_string_equal(kept, shown);
    } else {
        assert_between(200, (int64_t)strlen(kept), ROWLOCK_LABEL_MAX);
        assert_int_equal(strlen(kept) % 2, 0);
        assert_memory_equal(kept, label, strlen(kept));
    }
    rowlock_list_free(list);
}

TS_ONCE(test_labels)
{
    char label[400];
    /* 400 bytes of two-byte characters: at most 255 are kept, and no half one. */
    repeat(label, "\xc3\xa9", 199);
    is_labelled(ts_name("label"), label, NULL);
    /* Bytes that could not be stored, or would break a line, are replaced. */
    is_labelled(ts_name("label"), "not \xff UTF-8,\ntwo lines", "not ? UTF-8,?two lines");
}

int main(void)
{
    repeat(long_name, "x", ROWLOCK_NAME_MAX + 1);
    return ts_run("input", open_clients, close_clients);
}
