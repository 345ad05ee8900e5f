/* Migrations: again, at the same time, interrupted, and of a newer program. */
#include "support/support.h"

static unsigned newest; /* the version that this library makes: its migrations are 1 to this one */

static int look_at_newest(void **state)
{
    ts_suite_begin_sql(state);
    newest = (unsigned)ts_sql_u64(ts_mysql, "SELECT MAX(version) FROM rowlock_schema_version");
    return 0;
}

static rowlock_migrate_result migrate(const char *schema)
{
    rowlock_client_options options = ts_options_on(schema);
    rowlock_migrate_result result = {0};
    WANT(OK, rowlock_migrate(&options, NULL, &result, &ts_err));
    return result;
}

static rowlock_status try_migrate(const char *schema, const rowlock_migrate_options *how)
{
    rowlock_client_options options = ts_options_on(schema);
    rowlock_migrate_result result = {.from = 99};
    rowlock_status status = rowlock_migrate(&options, how, &result, &ts_err);
    if (status != ROWLOCK_OK)
        assert_int_equal(result.from, 99);
    return status;
}

static rowlock_status try_open(const char *schema)
{
    rowlock_client_options options = ts_options_on(schema);
    rowlock_client *client = NULL;
    rowlock_status status = rowlock_client_open(&options, &client, &ts_err);
    if (status == ROWLOCK_OK)
        rowlock_client_close(client);
    else
        assert_null(client);
    return status;
}

/* The schema's definition, without the times of the migrations and the tables' default collation
 * (which is that of a schema that somebody else made; each column has its own). */
static char *shape(const char *schema)
{
    static const char *const parts[] = {
        "SELECT GROUP_CONCAT(table_name, '.', column_name, ' ', column_type, ' ', is_nullable,"
        " ' ', COALESCE(column_default, '-'), ' ', COALESCE(collation_name, '-'), ' ', column_key"
        " ORDER BY table_name, ordinal_position SEPARATOR '\\n')"
        " FROM information_schema.columns WHERE table_schema = DATABASE()",
        "SELECT GROUP_CONCAT(table_name, ' ', engine, ' ', row_format ORDER BY table_name"
        " SEPARATOR '\\n') FROM information_schema.tables WHERE table_schema = DATABASE()",
        "SELECT GROUP_CONCAT(version, ' ', name, ' ', checksum, ' ', breaking, ' ', steps, ' ',"
        " steps_done, ' ', running, ' ', applied_at IS NOT NULL ORDER BY version SEPARATOR '\\n')"
        " FROM rowlock_schema_version",
        "SELECT CONCAT(COUNT(*), '/', MAX(version)) FROM version_floor"};
    TS_MYSQL *there = ts_connect(schema);
    char *all = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&all, &size);
    assert_non_null(out);
    ts_sql(there, "SET SESSION group_concat_max_len = 1000000");
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        char *part = ts_sql_text(there, "%s", parts[i]);
        fprintf(out, "%s\n", part);
        free(part);
    }
    fclose(out);
    return all;
}

static void assert_same_shape(const char *schema)
{
    char *good = shape(ts_schema());
    char *this = shape(schema);
    size_t same = 0;
    while (good[same] && good[same] == this[same])
        same++;
    if (good[same] != this[same])
        print_error("good: ...%.200s\nthis: ...%.200s\n", good + (same < 60 ? 0 : same - 60),
                    this + (same < 60 ? 0 : same - 60));
    assert_true(good[same] == this[same]);
    free(good);
    free(this);
}

static unsigned steps_of_all(void)
{
    return (unsigned)ts_sql_u64(ts_mysql, "SELECT SUM(steps) FROM rowlock_schema_version");
}

typedef struct progress {
    unsigned calls, ended, step;
    bool in_order;
} progress;

static void note_progress(void *data, const rowlock_migration *m)
{
    progress *p = data;
    bool ends = !*m->statement;
    p->step += !ends;
    p->in_order &= m->version == p->ended + 1 && strchr(m->statement, '\n') == NULL;
    p->in_order &= ends ? p->step == m->steps : p->step == m->step;
    p->calls++;
    p->ended += ends;
    p->step = ends ? 0 : p->step;
}

TS_ONCE(test_from_nothing)
{
    char name[80];
    snprintf(name, sizeof name, "%s_new", ts_schema());
    progress p = {.in_order = true};
    rowlock_client_options options = ts_options_on(name);
    const rowlock_migrate_options how = {.progress = note_progress, .progress_data = &p};
    rowlock_migrate_result result = {0};
    WANT(OK, rowlock_migrate(&options, &how, &result, &ts_err));
    assert_true(p.in_order);
    assert_int_equal(p.ended, newest);
    assert_int_equal(p.calls, steps_of_all() + newest);
    assert_int_equal(result.from, 0);
    assert_int_equal(result.to, newest);
    assert_int_equal(result.applied, newest);
    assert_same_shape(name);
    WANT(OK, try_open(name));
    ts_sql(ts_mysql, "DROP DATABASE `%s`", name);
}

TS_ONCE(test_again)
{
    const char *schema = ts_extra_schema("again", true);
    ts_sql(ts_mysql, "UPDATE `%s`.version_floor SET version = 41", schema);
    rowlock_migrate_result result = migrate(schema);
    assert_int_equal(result.from, newest);
    assert_int_equal(result.to, newest);
    assert_int_equal(result.applied, 0);
    assert_int_equal(ts_sql_u64(ts_mysql, "SELECT version FROM `%s`.version_floor", schema), 41);
    ts_sql(ts_mysql, "UPDATE `%s`.version_floor SET version = 0", schema);
    assert_same_shape(schema);
}

typedef struct migrator {
    const char *schema;
    int64_t wait_ms;
    int started; /* pipes; -1: none */
    int go;
    unsigned die_at; /* it is killed before this step; 0: never */
    unsigned calls;
} migrator;

static void act(void *data, const rowlock_migration *m)
{
    migrator *this = data;
    (void)m;
    this->calls++;
    if (this->die_at == this->calls)
        raise(SIGKILL);
    char c = 's';
    if (this->calls == 2 && this->started >= 0 &&
        (write(this->started, &c, 1) != 1 || read(this->go, &c, 1) != 1))
        _exit(98);
}

static int migrate_in_child(void *arg)
{
    migrator *this = arg;
    rowlock_client_options options = ts_options_on(this->schema);
    rowlock_migrate_options how = {
        .wait_ms = this->wait_ms, .progress = act, .progress_data = this};
    rowlock_migrate_result result = {0};
    rowlock_error err = {0};
    rowlock_status status = rowlock_migrate(&options, &how, &result, &err);
    if (status != ROWLOCK_OK)
        return 100 + (int)status;
    return (int)result.applied;
}

TS_ONCE(test_one_works_the_others_wait)
{
    const char *schema = ts_extra_schema("at_once", false);
    int started[2];
    int go[2];
    char c;
    assert_int_equal(pipe(started), 0);
    assert_int_equal(pipe(go), 0);
    migrator first = {.schema = schema, .started = started[1], .go = go[0]};
    migrator second = {.schema = schema, .started = -1, .wait_ms = 20000};
    pid_t one = ts_fork(migrate_in_child, &first);
    assert_int_equal(read(started[0], &c, 1), 1);
    /* During a migration others wait, and only as long as their limit. */
    rowlock_migrate_options impatient = {.wait_ms = 1000};
    int64_t start = ts_now_ms();
    WANT(TIMEOUT, try_migrate(schema, &impatient));
    assert_between(900, ts_now_ms() - start, 1000 + ts_slack_ms() + 900);
    pid_t two = ts_fork(migrate_in_child, &second);
    ts_pass_ms(300);
    /* The schema does not count as ready. */
    WANT(SCHEMA, try_open(schema));
    assert_int_equal(write(go[1], "g", 1), 1);
    assert_int_equal(ts_reap(one, 20000), (int)newest);
    assert_int_equal(ts_reap(two, 20000), 0);
    assert_same_shape(schema);
    close(started[0]);
    close(started[1]);
    close(go[0]);
    close(go[1]);
}

static void mend(const char *schema)
{
    migrate(schema);
    assert_same_shape(schema);
    WANT(OK, try_open(schema));
}

/* Killed before each of its statements in turn, and started again. */
TS_ONCE(test_killed_at_any_step)
{
    unsigned steps = steps_of_all() + newest;
    for (unsigned step = 1; step <= steps; step++) {
        char suffix[32];
        snprintf(suffix, sizeof suffix, "kill%u", step);
        const char *schema = ts_extra_schema(suffix, false);
        migrator victim = {.schema = schema, .started = -1, .die_at = step};
        assert_int_equal(ts_reap(ts_fork(migrate_in_child, &victim), 20000), 128 + SIGKILL);
        if (step < steps)
            WANT(SCHEMA, try_open(schema));
        mend(schema);
    }
}

/* The statement had taken effect when the machine died, but that was not recorded. */
TS_ONCE(test_a_step_that_was_not_noted)
{
    unsigned steps = (unsigned)ts_sql_u64(
        ts_mysql, "SELECT steps FROM rowlock_schema_version WHERE version = 1");
    for (unsigned step = 1; step <= steps; step++) {
        char suffix[32];
        snprintf(suffix, sizeof suffix, "note%u", step);
        const char *schema = ts_extra_schema(suffix, true);
        ts_sql(ts_mysql, "DELETE FROM `%s`.rowlock_schema_version WHERE version > 1", schema);
        ts_sql(ts_mysql,
               "UPDATE `%s`.rowlock_schema_version SET steps_done = %u, running = %u,"
               " applied_at = NULL WHERE version = 1",
               schema, step - 1, step);
        WANT(SCHEMA, try_open(schema));
        mend(schema);
    }
}

TS_ONCE(test_killed_before_its_first_note)
{
    static const char *const none[] = {"DELETE FROM", "DROP TABLE"};
    for (size_t i = 0; i < 2; i++) {
        const char *schema = ts_extra_schema(i ? "no_notes" : "first_note", true);
        ts_sql(ts_mysql, "%s `%s`.rowlock_schema_version", none[i], schema);
        WANT(SCHEMA, try_open(schema));
        mend(schema);
    }
}

static void add_version(const char *schema, unsigned version, bool breaking)
{
    ts_sql(ts_mysql,
           "INSERT INTO `%s`.rowlock_schema_version (version, name, checksum, breaking, steps,"
           " steps_done, running, applied_by, started_at, applied_at) VALUES (%u,"
           " '%04u_of_tomorrow', REPEAT('a', 64), %d, 3, 3, 0, 'tomorrow', UTC_TIMESTAMP(6),"
           " UTC_TIMESTAMP(6))",
           schema, version, version, breaking);
}

/* A newer, breaking schema, or one whose migration is another file, is not changed. */
TS_ONCE(test_what_is_not_migrated)
{
    const char *schema = ts_extra_schema("newer", true);
    add_version(schema, newest + 1, false);
    WANT(OK, try_open(schema));
    assert_int_equal(migrate(schema).applied, 0);
    add_version(schema, newest + 2, true);
    char *before = ts_dump(ts_mysql, schema);
    WANT(SCHEMA, try_open(schema));
    assert_non_null(strstr(ts_err.message, "newer"));
    WANT(SCHEMA, try_migrate(schema, NULL));
    ts_same(before, ts_dump(ts_mysql, schema));
    schema = ts_extra_schema("changed", true);
    ts_sql(ts_mysql,
           "UPDATE `%s`.rowlock_schema_version SET checksum = REPEAT('b', 64)"
           " WHERE version = 1",
           schema);
    before = ts_dump(ts_mysql, schema);
    WANT(SCHEMA, try_migrate(schema, NULL));
    ts_same(before, ts_dump(ts_mysql, schema));
}

/* A table of somebody else's with a name of ours: at the beginning, or of a later migration. */
TS_ONCE(test_a_table_of_somebody_elses)
{
    static const char *const names[] = {"resource", "lock_event"};
    for (size_t i = 0; i < 3; i++) {
        const char *schema = ts_extra_schema(i == 0   ? "their1"
                                             : i == 1 ? "their2"
                                                      : "their3",
                                             i == 2);
        if (i == 2) {
            ts_sql(ts_mysql, "DELETE FROM `%s`.rowlock_schema_version WHERE version >= 3", schema);
            ts_sql(ts_mysql, "DROP TABLE `%s`.lock_total", schema);
        }
        ts_sql(ts_mysql, "CREATE TABLE `%s`.%s (a INT) COMMENT 'of a shop'", schema,
               i == 2 ? "lock_total" : names[i]);
        char *before = ts_dump(ts_mysql, schema);
        WANT(SCHEMA, try_migrate(schema, NULL));
        assert_non_null(strstr(ts_err.message, "is not rowlock's; nothing was changed"));
        WANT(SCHEMA, try_open(schema));
        ts_same(before, ts_dump(ts_mysql, schema));
    }
}

TS_MAIN("schema", look_at_newest, ts_suite_end_sql)
