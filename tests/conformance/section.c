/* The optimistic section, alone and with rows. */
#include "conformance/clients.h"

static int open_with_rows(void **state)
{
    open_clients(state);
    make_work();
    return 0;
}

/* What a section's function does. */
typedef struct script {
    unsigned undo; /* in so many attempts, another client changes the version */
    rowlock_status answer;
    rowlock_cancel *fire; /* in the first attempt */
    /* results */
    unsigned calls;
    uint64_t versions[64];
    char name[64];
} script;

static rowlock_status play(void *data, const rowlock_section *section)
{
    script *s = data;
    snprintf(s->name, sizeof s->name, "%s", section->name);
    assert_int_equal(section->attempt, s->calls + 1);
    s->versions[s->calls++ % 64] = section->version;
    if (s->fire && s->calls == 1)
        rowlock_cancel_fire(s->fire);
    if (s->calls <= s->undo) {
        uint64_t made = 0;
        WANT(OK, rowlock_version_bump(other, section->name, section->version, &made, &ts_err));
        assert_true(made == section->version + 1);
    }
    return s->answer;
}

static rowlock_section_options quick(unsigned attempts)
{
    return (rowlock_section_options){
        .max_attempts = attempts, .backoff_ms = 1, .backoff_max_ms = 5};
}

static rowlock_section_result result; /* the last run's */

static rowlock_status run(const char *name, script *s, rowlock_section_options options)
{
    result = (rowlock_section_result){0};
    return rowlock_section_run(client, name, &options, play, s, &result, &ts_err);
}

TS_ONCE(test_conflicts_are_counted)
{
    static const struct {
        const char *what;
        unsigned undo, max_attempts;
        rowlock_status status;
        unsigned calls, conflicts;
    } cases[] = {{"undisturbed", 0, 10, ROWLOCK_OK, 1, 0},
                 {"some", 3, 10, ROWLOCK_OK, 4, 3},
                 {"too many", 100, 4, ROWLOCK_CONFLICT, 4, 4},
                 {"ten by default", 100, 0, ROWLOCK_CONFLICT, 10, 10}};
    const char *name = ts_name("conflicts");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        script s = {.undo = cases[i].undo};
        rowlock_status status = run(name, &s, quick(cases[i].max_attempts));
        if (status != cases[i].status || s.calls != cases[i].calls ||
            result.conflicts != cases[i].conflicts)
            fail_msg("%s: %s, %u calls, %u conflicts", cases[i].what, rowlock_status_name(status),
                     s.calls, result.conflicts);
        assert_string_equal(s.name, name);
        assert_int_equal(result.attempts, s.calls);
        for (unsigned n = 1; n < s.calls; n++)
            assert_true(s.versions[n] > s.versions[n - 1]);
        if (status == ROWLOCK_OK) {
            assert_true(result.version > s.versions[0]);
            assert_true(result.version == ts_version_of(watch, name));
        } else {
            assert_null(ts_error_flaw(status, &ts_err));
            assert_non_null(strstr(ts_err.message, name));
        }
    }
    WANT(OK, rowlock_section_run(client, name, NULL, play, &(script){0}, NULL, &ts_err));
}

TS_ONCE(test_a_deadline)
{
    const char *name = ts_name("deadline");
    script s = {.undo = 1000000};
    rowlock_section_options options = {
        .max_attempts = 1000000, .wait_ms = 1000, .backoff_ms = 10, .backoff_max_ms = 50};
    const int64_t stood = ts_stood_ms();
    const int64_t strain = ts_strain_ms();
    int64_t start = ts_now_ms();
    const bool unknown = WANT_TIMEOUT(ROWLOCK_OPTIMISTIC, strain, run(name, &s, options));
    assert_between(950, ts_now_ms() - start, 1000 + ts_slack_ms());
    /* The last attempt may have been stopped itself, if the server's answer was late. */
    const int64_t stood_ms = ts_stood_ms() - stood;
    int64_t least = (int64_t)s.calls - (unknown || stood_ms >= 10);
    assert_true(result.attempts > 1 || stood_ms > 300);
    assert_between(least, result.attempts, s.calls);
    assert_between(least, result.conflicts, s.calls);
}

/* Ten thousand attempts at 60 s each would never end: the delay is cancelled. */
TS_ONCE(test_cancel_between_attempts)
{
    const char *name = ts_name("section-cancel");
    TS_CANCEL *cancel = ts_cancel();
    script s = {.undo = 1000, .fire = cancel};
    rowlock_section_options options = {
        .max_attempts = 1000, .backoff_ms = 60000, .backoff_max_ms = 60000, .cancel = cancel};
    int64_t start = ts_now_ms();
    WANT(CANCELLED, run(name, &s, options));
    assert_between(0, ts_now_ms() - start, 10000);
}

TS_ONCE(test_the_works_own_status)
{
    static const rowlock_status answers[] = {ROWLOCK_NOT_FOUND, ROWLOCK_CONFLICT, ROWLOCK_BUSY,
                                             ROWLOCK_SYSTEM, ROWLOCK_CANCELLED};
    const char *name = ts_name("own-status");
    uint64_t version = 0;
    WANT(OK, rowlock_version_read(client, name, &version, &ts_err));
    for (size_t i = 0; i < sizeof answers / sizeof answers[0]; i++) {
        script s = {.answer = answers[i]};
        rowlock_error err = {0};
        result = (rowlock_section_result){0};
        assert_int_equal(rowlock_section_run(client, name, NULL, play, &s, &result, &err),
                         answers[i]);
        assert_null(ts_error_flaw(answers[i], &err));
        assert_int_equal(s.calls, 1);
        assert_int_equal(result.attempts, 1);
    }
    assert_true(ts_version_of(watch, name) == version);
}

TS_ONCE(test_read_and_bump)
{
    const char *name = ts_name("bump");
    uint64_t version = 0;
    uint64_t made = 0;
    WANT(OK, rowlock_version_read(client, name, &version, &ts_err));
    WANT(OK, rowlock_version_bump(client, name, version, &made, &ts_err));
    assert_true(made == version + 1);
    uint64_t again = 77;
    WANT(CONFLICT, rowlock_version_bump(other, name, version, &again, &ts_err));
    assert_true(again == 77);
    WANT(OK, rowlock_version_read(other, name, &again, &ts_err));
    assert_true(again == made);
    WANT(CONFLICT, rowlock_version_bump(other, name, made + 1, &again, &ts_err));
    WANT(CONFLICT, rowlock_version_bump(other, name, UINT64_MAX, &again, &ts_err));
    /* A later lease's token continues from there. */
    TS_HOLD *hold = ts_take(client, name, ROWLOCK_OPTIMISTIC, 30000);
    assert_true(rowlock_hold_token(hold) > made);
}

static rowlock_status play_rows(void *data, const rowlock_section *section, MYSQL *conn)
{
    assert_ptr_equal(conn, mysql);
    ts_sql(conn, "INSERT INTO work (who) VALUES (%s)", ts_quote(section->name));
    return play(data, section);
}

static rowlock_status run_tx(const char *name, script *s, unsigned max_attempts)
{
    rowlock_section_options options = quick(max_attempts);
    result = (rowlock_section_result){0};
    return rowlock_tx_section_run(client, mysql, name, &options, play_rows, s, &result, &ts_err);
}

TS_ONCE(test_rows_commit_with_the_version)
{
    const char *name = ts_name("rows");
    script s = {.undo = 2};
    WANT(OK, run_tx(name, &s, 10));
    assert_int_equal(result.attempts, 3);
    assert_int_equal(result.conflicts, 2);
    assert_true(result.version == ts_version_of(watch, name));
    /* The two undone attempts left nothing. */
    assert_int_equal(rows_of(name), 1);
    assert_false(in_transaction(mysql));
}

TS_ONCE(test_rows_are_rolled_back)
{
    const char *name = ts_name("rows-back");
    uint64_t version = 0;
    WANT(OK, rowlock_version_read(client, name, &version, &ts_err));
    script s = {.answer = ROWLOCK_NOT_FOUND};
    WANT(NOT_FOUND, run_tx(name, &s, 3));
    assert_false(in_transaction(mysql));
    assert_true(ts_version_of(watch, name) == version);
    s = (script){.undo = 100};
    WANT(CONFLICT, run_tx(name, &s, 3));
    assert_false(in_transaction(mysql));
    rowlock_hold *hold = ts_take(other, name, ROWLOCK_OPTIMISTIC, 30000);
    s = (script){0};
    WANT(BUSY, run_tx(name, &s, 3));
    assert_false(in_transaction(mysql));
    WANT(OK, rowlock_release(hold, &ts_err));
    assert_int_equal(rows_of(name), 0);
}

TS_ONCE(test_rows_in_a_transaction_already)
{
    const char *name = ts_name("rows-in");
    script s = {0};
    ts_sql(mysql, "BEGIN");
    ts_sql(mysql, "INSERT INTO work (who) VALUES (%s)", ts_quote(name));
    WANT(INVALID, rowlock_tx_section_run(client, mysql, name, NULL, play_rows, &s, NULL, &ts_err));
    assert_int_equal(s.calls, 0);
    assert_true(in_transaction(mysql));
    ts_sql(mysql, "COMMIT");
    assert_int_equal(rows_of(name), 1);
}

/* The caller's session is not changed, whatever the outcome. */
TS_ONCE(test_the_session_stays_as_it_was)
{
    const char *name = ts_name("session");
    TS_MYSQL *own = ts_connect(NULL);
    ts_sql(own, "SET SESSION innodb_lock_wait_timeout = 17, time_zone = '+03:00'");
    char *before = ts_session(own);
    uint64_t version = 0;
    uint64_t made = 0;
    WANT(OK, rowlock_version_read(client, name, &version, &ts_err));
    ts_sql(own, "BEGIN");
    WANT(OK, rowlock_tx_version_bump(client, own, name, version, &made, &ts_err));
    ts_sql(own, "COMMIT");
    ts_same(before, ts_session(own));
}

TS_ONCE(test_bump_in_a_transaction)
{
    const char *name = ts_name("tx-bump");
    uint64_t version = 0;
    uint64_t made = 0;
    WANT(OK, rowlock_version_read(client, name, &version, &ts_err));
    WANT(INVALID, rowlock_tx_version_bump(client, mysql, name, version, &made, &ts_err));
    ts_sql(mysql, "BEGIN");
    WANT(OK, rowlock_tx_version_bump(client, mysql, name, version, &made, &ts_err));
    assert_true(made == version + 1);
    assert_true(ts_version_of(watch, name) == version);
    ts_sql(mysql, "ROLLBACK");
    assert_true(ts_version_of(watch, name) == version);
    ts_sql(mysql, "BEGIN");
    WANT(OK, rowlock_tx_version_bump(client, mysql, name, version, &made, &ts_err));
    ts_sql(mysql, "COMMIT");
    assert_true(ts_version_of(watch, name) == made);
    ts_sql(mysql, "BEGIN");
    WANT(CONFLICT, rowlock_tx_version_bump(client, mysql, name, version, &made, &ts_err));
    /* The caller has to end the transaction (through procedures it has ended). */
    assert_true(in_transaction(mysql) != ts_via());
    ts_sql(mysql, "ROLLBACK");
    TS_HOLD *hold = ts_take(other, name, ROWLOCK_OPTIMISTIC, 30000);
    ts_sql(mysql, "BEGIN");
    WANT(BUSY,
         rowlock_tx_version_bump(client, mysql, name, rowlock_hold_token(hold), &made, &ts_err));
    assert_true(in_transaction(mysql) != ts_via());
    ts_sql(mysql, "ROLLBACK");
}

/* With innodb_snapshot_isolation (MariaDB's default from 11.6 on), a change by somebody else is
 * error 1020, which counts as a conflict. On MySQL the swap reads past the snapshot and finds
 * another version. */
TS_ONCE(test_a_changed_snapshot_is_retried)
{
    const char *name = ts_name("snapshot");
    script s = {.undo = 2};
    ts_sql(mysql, "ROLLBACK");
    if (!ts_is_mysql(mysql) && ts_sql_try(mysql, "SET SESSION innodb_snapshot_isolation = ON") != 0)
        skip();
    ts_sql(mysql, "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ");
    WANT(OK, run_tx(name, &s, 10));
    assert_int_equal(result.attempts, 3);
    assert_int_equal(rows_of(name), 1);
    ts_sql_try(mysql, "SET SESSION innodb_snapshot_isolation = OFF");
}

TS_MAIN("section", open_with_rows, close_clients)
