/*
 * The server's plan for each statement of sql/queue.sql, with a million items of which ten are
 * ready: the output of EXPLAIN, and how many rows it reads. Not sweep_used_up: it sorts all items
 * of a queue that workers have abandoned, which are few.
 */
#include "stmt/stmt.h"
#include "support/own_server.h"

enum { MOST_VALUES = 49, READS_MOST = 200, TEXT_BYTES = 8000 };

/* The items of fill(), by their ids. */
#define READY     "1"
#define IN_FLIGHT "11"
#define HEAD      "21" /* in flight, of a group ... */
#define BEHIND    "31" /* ... and the next one of that */
#define DEAD      "41"
#define DEAD_OF_G "42"
#define LEASES    "'[[11, 5, 30000000, \"o\"], [12, 5, 30000000, \"o\"], [13, 5, 30000000, \"o\"]]'"

typedef struct planned {
    const char *name;
    const char *values[MOST_VALUES]; /* in the order of its params */
    bool people;                     /* for people: it may read all there is, in order */
} planned;

static const planned statements[] = {
    {"queue_put", {"7", "'queue'", "5", "0", "0", "20", "'.new'", "'payload'"}, false},
    {"queue_share", {"7", "'queue'"}, false},
    {"queue_put_8",
     {"7",   "0",     "0",   "0",     "20",  "'.n0'", "'p'", "0",     "0",   "0",
      "20",  "'.n1'", "'p'", "0",     "0",   "0",     "20",  "'.n2'", "'p'", "0",
      "0",   "0",     "20",  "'.n3'", "'p'", "0",     "0",   "0",     "20",  "'.n4'",
      "'p'", "0",     "0",   "0",     "20",  "'.n5'", "'p'", "0",     "0",   "0",
      "20",  "'.n6'", "'p'", "0",     "0",   "0",     "20",  "'.n7'", "'p'"},
     false},
    {"queue_find", {"'.k500'", "7"}, false},
    {"queue_group_enter", {"'g21'", "7", "'queue'"}, false},
    {"queue_put_grouped", {"7", "'g21'", "5", "0", "0", "20", "'.new'", "'payload'"}, false},
    {"queue_group_head", {HEAD, "7", "'g21'"}, false},
    {"queue_group_leave", {"7", "'g21'"}, false},
    {"queue_peek", {"7"}, false},
    {"queue_ready", {"7", "16"}, false},
    {"queue_ready_from", {"7", "5", "0", "16"}, false},
    {"queue_take", {"30000000", "'o'", "'label'", READY, "0"}, false},
    {"queue_take_batch", {"'[[1, 0], [2, 0], [3, 0]]'", "30000000", "'o'", "'label'"}, false},
    {"queue_look", {"7", "'queue'"}, false},
    {"queue_watch", {"7", "2", "1", "480000"}, false},
    {"queue_calm", {"7", "'queue'"}, false},
    {"queue_renew", {LEASES}, false},
    {"queue_renewed", {LEASES}, false},
    {"queue_extend", {"30000000", IN_FLIGHT, "5", "'o'"}, false},
    {"queue_state", {"5", "'o'", IN_FLIGHT}, false},
    {"queue_held", {IN_FLIGHT, "5", "'queue'"}, false},
    {"queue_done", {IN_FLIGHT, "5", "'o'"}, false},
    {"queue_done_batch", {LEASES}, false},
    {"queue_retry", {"1000000", "'why'", IN_FLIGHT, "5", "'o'"}, false},
    {"queue_release", {IN_FLIGHT, "5", "'o'"}, false},
    {"queue_bury", {"'why'", IN_FLIGHT, "5", "'o'"}, false},
    {"queue_group_lock", {"7", "'g21'"}, false},
    {"queue_group_next", {"7", "'g21'"}, false},
    {"queue_group_try", {"7", "'g21'"}, false},
    {"queue_group_promote", {BEHIND, "7", "'g21'", HEAD}, false},
    {"queue_group_end", {"7", "'g21'", HEAD}, false},
    {"queue_count", {"7", "'queue'"}, true},
    {"queue_items", {"7", "1", "0", "100"}, true},
    {"queue_item_look", {READY, "7"}, false},
    {"queue_item_ids", {"7", "0", "0", "0", "100"}, true},
    {"queue_requeue", {DEAD, "7", "0"}, false},
    {"queue_requeue_grouped", {DEAD_OF_G, "7", "0"}, false},
    {"queue_delete", {DEAD, "7", "0", "1"}, false},
    {"queue_lock", {"7", "'queue'"}, false},
    {"queue_any", {"7"}, false},
    {"queue_drop", {"8"}, false},
    {"sweep_next_queue", {"0"}, false},
    {"sweep_dead_items", {"7", "0", "20"}, false},
    {"sweep_used_up_delete", {"'[[11, 5], [12, 5]]'"}, false},
};

static const planned *find_planned(const char *name)
{
    for (size_t i = 0; i < sizeof statements / sizeof statements[0]; i++)
        if (strcmp(statements[i].name, name) == 0)
            return &statements[i];
    fail_msg("%s has no values here", name);
    return NULL;
}

/* Its text, with these values in it. */
static void render(const rl_sql *sql, const planned *p, char text[TEXT_BYTES])
{
    size_t length = 0;
    unsigned use = 0;
    for (const char *at = sql->text; *at; at++) {
        const char *value = *at == '?' ? p->values[sql->uses[use++]] : NULL;
        assert_true(*at != '?' || value != NULL);
        length += (size_t)snprintf(text + length, TEXT_BYTES - length, "%.*s",
                                   value ? (int)strlen(value) : 1, value ? value : at);
        assert_true(length < TEXT_BYTES);
    }
    assert_int_equal(use, sql->use_count);
}

/* --------------------------------------------------------------------------- what EXPLAIN says */

typedef struct step {
    const char *table;
    const char *type;
    const char *key;
    const char *extra;
} step;

static const char *cell(const MYSQL_RES *result, MYSQL_ROW row, const char *name)
{
    MYSQL_RES *fields = (MYSQL_RES *)(uintptr_t)result;
    for (unsigned i = 0; i < mysql_num_fields(fields); i++)
        if (strcmp(mysql_fetch_field_direct(fields, i)->name, name) == 0)
            return row[i] ? row[i] : "";
    return "";
}

/* Tables of ours; not what is made of the statement's own JSON, or of another part of it. */
static bool is_ours(const step *s)
{
    static const char *const tables[] = {"i", "g", "r", "queue_item", "queue_group", "resource"};
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++)
        if (strcmp(s->table, tables[i]) == 0)
            return true;
    return false;
}

static bool is_good(const step *s)
{
    if (strstr(s->extra, "filesort"))
        return false;
    const bool scans = strcmp(s->type, "ALL") == 0 || strcmp(s->type, "index") == 0;
    return !is_ours(s) || !scans;
}

/* True: each step of it is a range, or less. */
static bool explained(const char *name, const char *text)
{
    bool good = true;
    char *query = NULL;
    assert_true(asprintf(&query, "EXPLAIN %s", text) > 0);
    if (mysql_query(ts_mysql, query) != 0)
        fail_msg("%s: %s", name, mysql_error(ts_mysql));
    free(query);
    MYSQL_RES *result = mysql_store_result(ts_mysql);
    for (MYSQL_ROW row; (row = mysql_fetch_row(result)) != NULL;) {
        const step s = {cell(result, row, "table"), cell(result, row, "type"),
                        cell(result, row, "key"), cell(result, row, "Extra")};
        /* (What only gets new rows is not read, whatever stands there.) */
        if (is_good(&s) || strcmp(cell(result, row, "select_type"), "INSERT") == 0)
            continue;
        print_message("# %s: %s is read by %s %s, %s\n", name, s.table, s.type, s.key, s.extra);
        good = false;
    }
    mysql_free_result(result);
    return good;
}

/* ------------------------------------------------------------------------- what it reads */

static uint64_t reads(void)
{
    uint64_t sum = 0;
    assert_int_equal(mysql_query(ts_mysql, "SHOW SESSION STATUS LIKE 'Handler\\_read\\_%'"), 0);
    MYSQL_RES *result = mysql_store_result(ts_mysql);
    for (MYSQL_ROW row; (row = mysql_fetch_row(result)) != NULL;)
        sum += strtoull(row[1], NULL, 10);
    mysql_free_result(result);
    return sum;
}

/* What asking for it reads itself does not count. */
static uint64_t read_by(const char *name, const char *text)
{
    const uint64_t empty = reads();
    const uint64_t before = reads();
    ts_sql(ts_mysql, "BEGIN");
    if (mysql_query(ts_mysql, text) != 0)
        fail_msg("%s: %s", name, mysql_error(ts_mysql));
    mysql_free_result(mysql_store_result(ts_mysql));
    ts_sql(ts_mysql, "ROLLBACK");
    return reads() - before - (before - empty);
}

/* --------------------------------------------------------------------------- a million */

#define DIGIT                                                                                      \
    "(SELECT 0 AS d UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL"            \
    " SELECT 4 UNION ALL SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8"        \
    " UNION ALL SELECT 9)"

static void empty(void)
{
    ts_sql(ts_mysql, "TRUNCATE TABLE queue_item");
    ts_sql(ts_mysql, "DELETE FROM queue_group");
    ts_sql(ts_mysql, "DELETE FROM resource");
}

static void fill(unsigned count)
{
    empty();
    ts_sql(ts_mysql, "INSERT INTO resource (id, resource_name, kind, version, update_time)"
                     " VALUES (7, 'queue', 'queue', 1, '2020-01-01')");
    ts_sql(
        ts_mysql,
        "INSERT INTO queue_item (id, queue_id, state, lane, ready_at, taken, token, attempts, "
        "owner,"
        " attempts_most, item_key, grave, group_key, created_at, payload)"
        "SELECT n, 7, CASE WHEN n BETWEEN 31 AND 40 THEN 'behind' WHEN n BETWEEN 41 AND 1000 THEN"
        "       'dead' ELSE 'alive' END, n %% 10,"
        "       UTC_TIMESTAMP(6) + INTERVAL CASE WHEN n <= 10 THEN -60 WHEN n <= 30 THEN 3600"
        "       WHEN n <= 1000 THEN -86400 ELSE 86400 + n END SECOND,"
        "       n BETWEEN 11 AND 30, IF(n BETWEEN 11 AND 30, 5, 0), IF(n BETWEEN 11 AND 30, 1, 0), "
        "IF(n BETWEEN 11 AND 30, 'o', "
        "''),"
        "       20, CONCAT('.k', n), IF(n BETWEEN 41 AND 1000, n, 0), CASE WHEN n BETWEEN 21 AND 30"
        "       THEN CONCAT('g', n) WHEN n BETWEEN 31 AND 40 THEN CONCAT('g', n - 10) WHEN n = 42 "
        "THEN"
        "       'g21' END, UTC_TIMESTAMP(6), 'payload'"
        "  FROM (SELECT 1 + a.d + 10 * b.d + 100 * c.d + 1000 * e.d + 10000 * f.d + 100000 * g.d "
        "AS n"
        "          FROM " DIGIT " a, " DIGIT " b, " DIGIT " c, " DIGIT " e, " DIGIT " f, " DIGIT
        "               g) numbers WHERE n <= %u",
        count);
    ts_sql(ts_mysql,
           "INSERT INTO queue_group (queue_id, group_key, head) SELECT queue_id, group_key, id"
           " FROM queue_item WHERE id BETWEEN 21 AND 30");
    ts_sql(ts_mysql, "ANALYZE TABLE queue_item, queue_group, resource");
}

/* Of all statements that are there. */
static void look_at_all(unsigned most_reads)
{
    unsigned bad = 0;
    unsigned seen = 0;
    for (int id = 0; id < RL_SQL_COUNT; id++) {
        const rl_sql *sql = &rl_sql_table[id];
        char text[TEXT_BYTES];
        if (strncmp(sql->name, "queue_", 6) != 0 && id != RL_SQL_SWEEP_DEAD_ITEMS &&
            id != RL_SQL_SWEEP_NEXT_QUEUE && id != RL_SQL_SWEEP_USED_UP_DELETE)
            continue;
        const planned *p = find_planned(sql->name);
        render(sql, p, text);
        bad += !explained(sql->name, text);
        const uint64_t count = read_by(sql->name, text);
        print_message("# %s: %" PRIu64 " reads\n", sql->name, count);
        bad += !p->people && count > most_reads;
        seen++;
    }
    assert_int_equal(seen, sizeof statements / sizeof statements[0]);
    assert_int_equal(bad, 0);
}

/* Few items, for which a server would rather read all. */
TS_ONCE(test_with_some_items)
{
    fill(100);
    look_at_all(READS_MOST);
}

TS_ONCE(test_with_a_million_items)
{
    fill(1000000);
    look_at_all(READS_MOST);
}

/* So many rows has what the doctor's statement finds; of transactions that are that old. */
static uint64_t snapshots_told(const char *older_s)
{
    const planned p = {.values = {older_s}};
    char text[TEXT_BYTES];
    render(&rl_sql_table[RL_SQL_DOCTOR_QUEUE_SNAPSHOTS], &p, text);
    if (mysql_query(ts_mysql, text) != 0)
        fail_msg("%s", mysql_error(ts_mysql));
    MYSQL_RES *result = mysql_store_result(ts_mysql);
    const uint64_t count = mysql_num_rows(result);
    mysql_free_result(result);
    ts_pass_ms(200); /* InnoDB makes its list anew only when nobody has looked for 100 ms */
    return count;
}

/* What is taken and done stays in the index as long as it is open. The doctor tells of one, where
 * there are queues. */
TS_ONCE(test_the_doctor_tells_of_a_snapshot)
{
    TS_MYSQL *old = ts_connect(ts_schema());
    fill(100);
    assert_true(POLL_UNTIL(snapshots_told("0") == 0, 20000));
    ts_sql(old, "START TRANSACTION");
    assert_int_equal(ts_sql_u64(old, "SELECT COUNT(*) FROM queue_item"), 100);
    assert_true(POLL_UNTIL(snapshots_told("0") == 1, 20000));
    assert_int_equal(snapshots_told("3600"), 0);
    ts_sql(ts_mysql, "DELETE FROM resource");
    assert_int_equal(snapshots_told("0"), 0);
    ts_sql(old, "COMMIT");
}

static int begin(void **state)
{
    ts_own_start();
    return ts_suite_begin_sql(state);
}

static int end(void **state)
{
    const int result = ts_suite_end_sql(state);
    ts_own_remove();
    return result;
}

TS_MAIN("plans", begin, end)
