/* The error table, the statements' table, scripts, backoff, attempts: no server needed. */
#include "db/errors.h"
#include "keep/keeper.h"
#include "migrate/migrate.h"
#include "migrate/script.h"
#include "stmt/stmt.h"
#include "support/unit.h"
#include "wait/backoff.h"
#include "wait/reach.h"

/* The status of some error numbers on MariaDB and on MySQL; 0 ends them. */
typedef struct expectation {
    rowlock_status mariadb, mysql;
    unsigned numbers[8];
} expectation;

TS_ONCE(server_numbers)
{
    static const expectation expected[] = {
        {ROWLOCK_BUSY, ROWLOCK_BUSY, {1205}},
        {ROWLOCK_SERVER, ROWLOCK_BUSY, {3572}},
        {ROWLOCK_DEADLOCK, ROWLOCK_DEADLOCK, {1213, 1020, 1180}},
        {ROWLOCK_SERVER, ROWLOCK_DEADLOCK, {3101, 3058}},
        {ROWLOCK_SERVER, ROWLOCK_READONLY, {3100}},
        {ROWLOCK_CANCELLED, ROWLOCK_CANCELLED, {1317, 1467}},
        {ROWLOCK_CANCELLED, ROWLOCK_SERVER, {1969}},
        {ROWLOCK_SERVER, ROWLOCK_CANCELLED, {3024}},
        {ROWLOCK_UNKNOWN, ROWLOCK_UNKNOWN, {2006, 2013, 2055, 1053, 1927}},
        {ROWLOCK_SERVER, ROWLOCK_UNKNOWN, {4031}},
        {ROWLOCK_UNAVAILABLE, ROWLOCK_UNAVAILABLE, {2002, 1040}},
        {ROWLOCK_READONLY, ROWLOCK_READONLY, {1290, 1792, 1836, 1047}},
        {ROWLOCK_DENIED, ROWLOCK_DENIED, {1044, 1045, 1142, 1143, 1227, 1370}},
        {ROWLOCK_SCHEMA, ROWLOCK_SCHEMA, {1049, 1146, 1305}},
        {ROWLOCK_DAMAGED, ROWLOCK_DAMAGED, {1054, 1364}},
        {ROWLOCK_SERVER, ROWLOCK_SERVER, {1064}},
    };
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++)
        for (const unsigned *number = expected[i].numbers; *number; number++)
            if (rl_server_status(*number, RL_MARIADB) != expected[i].mariadb ||
                rl_server_status(*number, RL_MYSQL) != expected[i].mysql)
                fail_msg("error %u", *number);
    /* Connector/C had no memory. */
    assert_int_equal(rl_server_status(0, RL_MARIADB), ROWLOCK_SYSTEM);
    assert_int_equal(rl_server_status(0, RL_MYSQL), ROWLOCK_SYSTEM);
    /* The message of a Galera node that has just lost its quorum, and of a group at a conflict. */
    assert_int_equal(rl_server_status_said(1180,
                                           "Error while appending streaming replication fragment"
                                           "(provider status: Not connected to Primary Component)",
                                           RL_MARIADB),
                     ROWLOCK_READONLY);
    assert_int_equal(
        rl_server_status_said(1105, "An error occurred in multi-table update", RL_MYSQL),
        ROWLOCK_CANCELLED);
    assert_int_equal(rl_server_status_said(1105, "Unknown error", RL_MYSQL), ROWLOCK_SERVER);
    assert_int_equal(rl_server_status_said(1180, "Got error 149 during COMMIT", RL_MYSQL),
                     ROWLOCK_DEADLOCK);
    /* An error while connecting is never UNKNOWN: no statement was sent. */
    static const unsigned later[] = {2002, 2003, 2005, 2006, 2013, 1040, 1053, 1203};
    for (size_t i = 0; i < sizeof later / sizeof later[0]; i++) {
        assert_int_equal(rl_connect_status(later[i], RL_MARIADB), ROWLOCK_UNAVAILABLE);
        assert_int_equal(rl_connect_status(later[i], RL_MYSQL), ROWLOCK_UNAVAILABLE);
    }
    assert_int_equal(rl_connect_status(1045, RL_MARIADB), ROWLOCK_DENIED);
}

TS_ONCE(render)
{
    rl_buffer text = {0};
    const rl_value good[] = {rl_u64(7), rl_u64(UINT64_MAX), rl_text("0a-b.12"), rl_text("")};
    assert_true(rl_render(false, RL_SQL_CALLER_FENCE, "locks$1", good, &text));
    assert_non_null(strstr(text.text, "`locks$1`.resource"));
    assert_non_null(strstr(text.text, "id = 7"));
    assert_non_null(strstr(text.text, "version = 18446744073709551615"));
    assert_non_null(strstr(text.text, "owner = '0a-b.12'"));
    rl_buffer_free(&text);
    static const char *const foreign[] = {"a'b", "a b", "a\\", "a;b", "é", "`"};
    for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++) {
        const rl_value bad[] = {rl_u64(7), rl_u64(8), rl_text(foreign[i]), rl_text("")};
        assert_false(rl_render(false, RL_SQL_CALLER_FENCE, "s", bad, &text));
        rl_buffer_free(&text);
    }
}

TS_ONCE(render_names)
{
    rl_buffer text = {0};
    const rl_value names[] = {rl_quoted("a`b"), rl_quoted("?:x'")};
    assert_true(rl_render(false, RL_SQL_FENCE_DROP, "s", names, &text));
    assert_non_null(strstr(text.text, " `a``b`.`?:x'`"));
    rl_buffer_free(&text);
    const rl_value none[] = {rl_quoted(""), rl_word("PRECEDES")};
    assert_true(rl_render(false, RL_SQL_FENCE_DROP, "s", none, &text));
    assert_non_null(strstr(text.text, " .PRECEDES"));
    rl_buffer_free(&text);
    const rl_value bad[] = {rl_quoted("a"), rl_word("x`")};
    assert_false(rl_render(false, RL_SQL_FENCE_DROP, "s", bad, &text));
    rl_buffer_free(&text);
}

/* The statements that a text is split into, with a | between them, and the line of a problem. */
TS_ONCE(script_forms)
{
    static const struct {
        const char *text;
        const char *statements;
        unsigned problem_line;
        bool no_backslashes;
        bool ansi_quotes;
    } forms[] = {
        {"-- one; comment\n/* two; */ SELECT 'a;''b;\\';c' ; ;\n"
         "# three;\nSELECT \"x;\", `y;z` -- four;\n FROM t;\n"
         "/*!50000 SELECT 1; */;  INSERT (\n  x)",
         "SELECT 'a;''b;\\';c'|SELECT \"x;\", `y;z` -- four;\n FROM t|/*!50000 SELECT 1; */|"
         "INSERT (\n  x)",
         0, false, false},
        {"DELIMITER //\nCREATE PROCEDURE p()\nBEGIN\n SELECT 1;\nEND //\nDELIMITER ;\nCALL p();",
         "CREATE PROCEDURE p()\nBEGIN\n SELECT 1;\nEND|CALL p()", 0, false, false},
        {"delimiter $$\nSELECT 1$$ SELECT 2; $$\n", "SELECT 1|SELECT 2;", 0, false, false},
        {"DELIMITER go\nSELECT category FROM t\ngo\n", "SELECT category FROM t", 0, false, false},
        {"DELIMITER ;;\n/*!50003 CREATE TRIGGER a BEFORE INSERT ON t FOR EACH ROW BEGIN SET "
         "NEW.b = 1; END */;;\nDELIMITER ;\nSELECT 1",
         "/*!50003 CREATE TRIGGER a BEFORE INSERT ON t FOR EACH ROW BEGIN SET NEW.b = 1; END "
         "*/|SELECT 1",
         0, false, false},
        {"CREATE TABLE t (\ndelimiter INT,\n delimiters INT);\r\nSELECT 2;",
         "CREATE TABLE t (\ndelimiter INT,\n delimiters INT)|SELECT 2", 0, false, false},
        {"SELECT 'a\\';SELECT 2;'", "SELECT 'a\\'|SELECT 2|'", 1, true, false},
        {"SELECT \"a\\\";SELECT 2", "SELECT \"a\\\"|SELECT 2", 0, false, true},
        {"SELECT /*+ MAX_EXECUTION_TIME(1) ; */ 1;/*M!100100 SET a = '*/;' */;",
         "SELECT /*+ MAX_EXECUTION_TIME(1) ; */ 1|/*M!100100 SET a = '*/;' */", 0, false, false},
        {"SELECT \\N, `a``;b`;\nSELECT 1\\G", "SELECT \\N, `a``;b`|SELECT 1\\G", 2, false, false},
        {"SELECT 1;\n\nsource other.sql;", "SELECT 1|source other.sql", 3, false, false},
        {"USE other;\nCREATE EVENT e ON SCHEDULE EVERY 1 DAY DO BEGIN DELETE FROM t; END;",
         "USE other|CREATE EVENT e ON SCHEDULE EVERY 1 DAY DO BEGIN DELETE FROM t|END", 2, false,
         false},
        {"CREATE DEFINER=a@b PROCEDURE p() BEGIN SET @x = CASE 1 WHEN 1 THEN 2 END; END;",
         "CREATE DEFINER=a@b PROCEDURE p() BEGIN SET @x = CASE 1 WHEN 1 THEN 2 END|END", 1, false,
         false},
        {"CREATE TRIGGER t BEFORE INSERT ON x FOR EACH ROW SET NEW.begin = 1;",
         "CREATE TRIGGER t BEFORE INSERT ON x FOR EACH ROW SET NEW.begin = 1", 0, false, false},
        {"CREATE PROCEDURE p() BEGIN END;BEGIN;", "CREATE PROCEDURE p() BEGIN END|BEGIN", 0, false,
         false},
        {"CREATE TABLE event (begin INT);", "CREATE TABLE event (begin INT)", 0, false, false},
        {"DELIMITER\nSELECT 1;", "SELECT 1", 1, false, false},
        {"DELIMITER \\\\\nSELECT 1;", "SELECT 1", 1, false, false},
        {"\n\nSELECT 'a\nb", "SELECT 'a\nb", 3, false, false},
        {"SELECT 1; /* x", "SELECT 1", 1, false, false},
        {"/*! SELECT 1;", "/*! SELECT 1;", 1, false, false},
    };
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        rl_script at = rl_script_begin(forms[i].text, strlen(forms[i].text));
        rl_buffer all = {0};
        rl_statement statement;
        at.no_backslashes = forms[i].no_backslashes;
        at.ansi_quotes = forms[i].ansi_quotes;
        while (rl_script_next(&at, &statement)) {
            rl_buffer_puts(&all, all.length ? "|" : "");
            rl_buffer_append(&all, statement.text, statement.length);
        }
        assert_string_equal(all.text, forms[i].statements);
        assert_int_equal(at.problem ? at.problem_line : 0, forms[i].problem_line);
        rl_buffer_free(&all);
    }
}

TS_ONCE(statement_lines_and_titles)
{
    const char *text = "-- a\n\nSELECT 1;\n/*\n*/ SELECT\n'\xc3\xa9\xc3\xa9\xc3\xa9\n';\nUSE x";
    static const unsigned lines[] = {3, 5, 8};
    rl_script at = rl_script_begin(text, strlen(text));
    rl_statement statement;
    for (size_t i = 0; i < 3; i++) {
        assert_true(rl_script_next(&at, &statement));
        assert_int_equal(statement.line, lines[i]);
    }
    assert_true(rl_statement_is(&statement, "USE"));
    assert_false(rl_statement_is(&statement, "US"));
    const rl_statement long_name = {.text = "SELECT '\xc3\xa9\xc3\xa9'", .length = 13};
    char title[12];
    rl_statement_title(&long_name, title, sizeof title);
    assert_string_equal(title, "SELECT '\xc3\xa9");
    static const char *const secrets[][2] = {
        {"CREATE USER 'a'@'%' identified by 'pw'", "CREATE USER 'a'@'%' identified by"},
        {"SET PASSWORD FOR a = PASSWORD(\"pw\")", "SET PASSWORD FOR a = PASSWORD"},
        {"ALTER TABLE t ADD password CHAR(80)", "ALTER TABLE t ADD password CHAR(80)"},
    };
    for (size_t i = 0; i < sizeof secrets / sizeof secrets[0]; i++) {
        char whole[80];
        const rl_statement of = {.text = secrets[i][0], .length = strlen(secrets[i][0])};
        rl_statement_title(&of, whole, sizeof whole);
        assert_string_equal(whole, secrets[i][1]);
    }
}

TS_ONCE(backoff_grows_and_stays_bounded)
{
    rl_backoff low = {.first_us = 1000, .most_us = 8000};
    rl_backoff high = low;
    static const int64_t ceilings[] = {1000, 2000, 4000, 8000, 8000, 8000};
    for (size_t i = 0; i < sizeof ceilings / sizeof ceilings[0]; i++) {
        assert_int_equal(rl_backoff_next_us(&low, 0), ceilings[i] / 2);
        int64_t most = rl_backoff_next_us(&high, UINT32_MAX);
        assert_true(most > ceilings[i] * 99 / 100 && most <= ceilings[i]);
    }
    for (int i = 0; i < 1000; i++)
        assert_true(rl_backoff_next_us(&high, UINT32_MAX) <= 8000);
}

/* guarantees.md, 4: a tenth of the TTL, from 20 ms to 1 s, or more if the clocks may differ by
 * more. */
TS_ONCE(a_holder_gives_up_before_the_server_does)
{
    assert_int_equal(rl_margin_us(100000), 20000);
    assert_int_equal(rl_margin_us(500000), 50000);
    assert_int_equal(rl_margin_us(30000000), 1000000);
    assert_int_equal(rl_margin_us(86400000000), 43200000);
    rl_held held = {.ttl_us = 500000};
    rl_held_start(&held, 7, 500000);
    assert_int_equal(atomic_load(&held.deadline_us), 450007);
    /* A check after that time says LOST, and does so from then on, whether or not the keeper has
     * run. */
    assert_true(rl_held_over(&held));
    assert_int_equal(atomic_load(&held.deadline_us), 0);
    assert_true(rl_held_over(&held));
    rl_held_start(&held, rl_now_us(), 60000000);
    assert_false(rl_held_over(&held));
}

typedef struct script_of_answers {
    const rowlock_status *answers;
    unsigned asked;
    bool unsettled;
} script_of_answers;

static rowlock_status answer(void *data, int64_t *hint_us, rowlock_error *err)
{
    script_of_answers *s = data;
    *hint_us = 100;
    rowlock_status status = s->answers[s->asked++];
    return status == ROWLOCK_OK ? status : rl_fail(err, status, "answer %u", s->asked);
}

static bool is_unsettled(const void *data)
{
    return ((const script_of_answers *)data)->unsettled;
}

static rowlock_status attempt_all(script_of_answers *s, int64_t wait_ms, int64_t outage_us,
                                  bool busy_is_final)
{
    rl_budget budget = rl_budget_start(wait_ms, 60000, NULL);
    const rl_attempts how = {.budget = &budget,
                             .outage_us = outage_us,
                             .backoff = {.first_us = 200, .most_us = 400},
                             .busy_is_final = busy_is_final,
                             .unsettled = is_unsettled};
    return rl_attempt_until(&how, answer, s, NULL);
}

TS_ONCE(attempts)
{
    static const rowlock_status comes_free[] = {ROWLOCK_BUSY, ROWLOCK_DEADLOCK, ROWLOCK_UNAVAILABLE,
                                                ROWLOCK_OK};
    static const rowlock_status down[] = {ROWLOCK_UNAVAILABLE, ROWLOCK_UNAVAILABLE};
    static const rowlock_status denied[] = {ROWLOCK_BUSY, ROWLOCK_DENIED};
    static const struct {
        const char *what;
        const rowlock_status *answers;
        int64_t wait_ms, outage_us;
        bool busy_is_final, unsettled;
        rowlock_status status;
        unsigned asked;
    } cases[] = {
        {"until it is free", comes_free, -1, 60000000, false, false, ROWLOCK_OK, 4},
        {"once", comes_free, 0, 1000000, false, false, ROWLOCK_BUSY, 1},
        {"until it is known", comes_free, 0, 60000000, false, true, ROWLOCK_OK, 4},
        {"until it is busy", comes_free, -1, 1000000, true, false, ROWLOCK_BUSY, 1},
        {"without patience for an outage", down, -1, 0, false, false, ROWLOCK_UNAVAILABLE, 1},
        {"until it is denied", denied, -1, 1000000, false, false, ROWLOCK_DENIED, 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        script_of_answers s = {.answers = cases[i].answers, .unsettled = cases[i].unsettled};
        rowlock_status status =
            attempt_all(&s, cases[i].wait_ms, cases[i].outage_us, cases[i].busy_is_final);
        if (status != cases[i].status || s.asked != cases[i].asked)
            fail_msg("%s: %s, asked %u times", cases[i].what, rowlock_status_name(status), s.asked);
    }
}

static rowlock_status always_busy(void *data, int64_t *hint_us, rowlock_error *err)
{
    (void)hint_us;
    ++*(unsigned *)data;
    return rl_fail(err, ROWLOCK_BUSY, "busy");
}

TS_ONCE(attempts_end_in_time)
{
    unsigned most = 0; /* the best of five: the machine may stand still */
    for (int i = 0; i < 5; i++) {
        rl_budget budget = rl_budget_start(60, 1000, NULL);
        const rl_attempts how = {.budget = &budget, .backoff = {.first_us = 5000, .most_us = 9000}};
        unsigned asked = 0;
        rowlock_error err;
        assert_int_equal(rl_attempt_until(&how, always_busy, &asked, &err), ROWLOCK_TIMEOUT);
        assert_int_equal(err.status, ROWLOCK_TIMEOUT);
        assert_true(rl_now_us() >= budget.deadline_us);
        most = asked > most ? asked : most;
    }
    assert_true(most > 1);
}

typedef struct late_answer {
    const rl_budget *budget;
    unsigned early; /* attempts that fail before the time is over */
    rowlock_error says;
} late_answer;

static rowlock_status late(void *data, int64_t *hint_us, rowlock_error *err)
{
    late_answer *l = data;
    *hint_us = 100;
    if (l->early == 0)
        (void)rl_budget_sleep(l->budget, 1000000);
    else
        l->early--;
    *err = l->says;
    return err->status;
}

/* A wait that ends before the server has answered is a TIMEOUT; UNAVAILABLE only if an attempt
 * failed. */
TS_ONCE(the_end_of_a_wait_is_no_outage)
{
    static const struct {
        late_answer answer;
        rowlock_status status;
    } cases[] = {
        {{.early = 0}, ROWLOCK_TIMEOUT},
        {{.says = {.server_errno = 2013}}, ROWLOCK_UNAVAILABLE},
        {{.says = {.statement = "connect"}}, ROWLOCK_UNAVAILABLE},
        {{.early = 1}, ROWLOCK_UNAVAILABLE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        rl_budget budget = rl_budget_start(200, 1000, NULL);
        const rl_attempts how = {
            .budget = &budget, .outage_us = 60000000, .backoff = {.first_us = 200, .most_us = 400}};
        late_answer l = cases[i].answer;
        l.budget = &budget;
        l.says.status = ROWLOCK_UNAVAILABLE;
        assert_int_equal(rl_attempt_until(&how, late, &l, NULL), cases[i].status);
    }
}

typedef struct server {
    rowlock_status answers[4]; /* the last one is repeated */
    unsigned asked;
    int64_t limits[4];
} server;

static rowlock_status connect_to(void *data, int64_t limit_ms, rowlock_error *err)
{
    server *s = data;
    unsigned i = s->asked < 3 ? s->asked : 3;
    s->asked++;
    s->limits[i] = limit_ms;
    return s->answers[i] == ROWLOCK_OK ? ROWLOCK_OK : rl_fail(err, s->answers[i], "no server");
}

static rowlock_status reach(server *s, int64_t retry_ms, rowlock_error *err)
{
    const rl_reach how = {.retry_ms = retry_ms, .limit_ms = 10000};
    return rl_reach_server(&how, connect_to, s, err);
}

TS_ONCE(connecting_is_tried_again)
{
    rowlock_error err = {0};
    server s = {.answers = {ROWLOCK_UNAVAILABLE, ROWLOCK_READONLY, ROWLOCK_OK}};
    assert_int_equal(reach(&s, 60000, &err), ROWLOCK_OK);
    assert_int_equal(s.asked, 3);
    assert_int_equal(s.limits[0], 10000);
    /* No second attempt, unless asked for. */
    s = (server){.answers = {ROWLOCK_UNAVAILABLE, ROWLOCK_OK}};
    assert_int_equal(reach(&s, 0, &err), ROWLOCK_UNAVAILABLE);
    assert_int_equal(s.asked, 1);
    assert_string_equal(err.message, "no server");
}

TS_ONCE(connecting_is_given_up)
{
    rowlock_error err = {0};
    server s = {
        .answers = {ROWLOCK_UNAVAILABLE, ROWLOCK_READONLY, ROWLOCK_READONLY, ROWLOCK_READONLY}};
    int64_t start_us = rl_now_us();
    assert_int_equal(reach(&s, 2000, &err), ROWLOCK_READONLY);
    assert_int_equal(err.status, ROWLOCK_READONLY);
    assert_true(rl_now_us() - start_us >= 2000000);
    assert_true(s.asked > 1);
    assert_int_equal(s.limits[0], 10000);
    assert_true(s.limits[1] >= 100 && s.limits[1] <= 2000);
    assert_ptr_equal(strstr(err.message, "gave up after "), err.message);
    assert_non_null(strstr(err.message, "): no server"));
    assert_int_equal(reach(&s, 1, NULL), ROWLOCK_READONLY);
}

TS_ONCE(what_no_waiting_mends_is_final)
{
    static const rowlock_status final[] = {ROWLOCK_DENIED,      ROWLOCK_INVALID, ROWLOCK_SCHEMA,
                                           ROWLOCK_UNSUPPORTED, ROWLOCK_DAMAGED, ROWLOCK_SYSTEM,
                                           ROWLOCK_CANCELLED};
    for (size_t i = 0; i < sizeof final / sizeof final[0]; i++) {
        rowlock_error err = {0};
        server s = {.answers = {final[i], ROWLOCK_OK}};
        assert_int_equal(reach(&s, 3600000, &err), final[i]);
        assert_int_equal(s.asked, 1);
        assert_string_equal(err.message, "no server");
    }
}

TS_MAIN("unit_layers", NULL, NULL)
