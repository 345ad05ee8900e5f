/*
 * C, shell and SQL on one name: threads of two programs with the library, sessions that call the
 * procedures (of a user who may do nothing else) and loops of `rowlock run` add to one unprotected
 * counter. Not one update is lost, the tokens rise in the order of the sections and none comes
 * twice, each kind has its turns. Without the lock some must be lost, or it proves nothing.
 *
 *   test_sql_mixed [SECTIONS]      400 where not said
 *   test_sql_mixed --section       one section of a shell: the command of `rowlock run`
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/counter.h"

enum {
    THREADS = 3,
    PROGRAMS = 2,
    SHELLS = 2,
    PROCESSES = PROGRAMS + SHELLS + 1,
    MOMENT_US = 300,
    SHELL_PAUSE_MS = 100
};

#define ROWLOCK_COMMAND                                                                            \
    "\"$ROWLOCK\" --no-defaults -S \"$ROWLOCK_TEST_SOCKET\" -u root -D \"$MIXED_SCHEMA\" "

typedef struct run {
    const char *name;
    bool locked;
    uint64_t sections; /* of all together */
    const char *user;  /* of the SQL sessions */
    int gate;          /* readable when all may begin */
    _Atomic uint64_t *begun;
} run;

typedef struct worker {
    const run *run;
    rowlock_client *client; /* NULL: it calls the procedures */
    MYSQL *mysql;
    unsigned seed;
    bool failed; /* a line was said */
    pthread_t thread;
} worker;

static unsigned wanted_sections = 400;
static char own_path[500];

/* ------------------------------------------------------------------------- a section */

static bool query(MYSQL *mysql, const char *text)
{
    if (mysql_query(mysql, text) == 0)
        return true;
    fprintf(stderr, "%.60s: %s %s\n", text, mysql_sqlstate(mysql), mysql_error(mysql));
    return false;
}

/* The order of the sections is the counter's; `token` is the table's key. */
static bool add_one(MYSQL *mysql, const char *name, const char *kind, uint64_t token,
                    unsigned *seed)
{
    char text[200];
    uint64_t before = 0;
    if (!ts_counter_add(mysql, name, token, (unsigned)rand_r(seed) % MOMENT_US, &before))
        return false;
    snprintf(text, sizeof text, "INSERT INTO sections VALUES (%" PRIu64 ", %" PRIu64 ", '%s')",
             token, before, kind);
    return token == 0 || query(mysql, text);
}

static bool section_in_c(worker *w)
{
    rowlock_error err = {0};
    rowlock_hold *hold = NULL;
    const rowlock_acquire_options options = {.wait_ms = ROWLOCK_WAIT_FOREVER, .ttl_ms = 30000};
    rowlock_status status = rowlock_acquire(w->client, w->run->name, &options, &hold, &err);
    bool good = status == ROWLOCK_OK &&
                add_one(w->mysql, w->run->name, "c", rowlock_hold_token(hold), &w->seed);
    if (status == ROWLOCK_OK)
        status = rowlock_release(hold, &err);
    if (status != ROWLOCK_OK)
        fprintf(stderr, "%s: %s\n", rowlock_status_name(status), err.message);
    return good && status == ROWLOCK_OK;
}

static uint64_t token_of(MYSQL *mysql)
{
    if (!query(mysql, "SELECT @token"))
        return 0;
    MYSQL_RES *result = mysql_store_result(mysql);
    MYSQL_ROW row = result ? mysql_fetch_row(result) : NULL;
    uint64_t token = row && row[0] ? strtoull(row[0], NULL, 10) : 0;
    mysql_free_result(result);
    return token;
}

static bool section_in_sql(worker *w)
{
    char text[200];
    snprintf(text, sizeof text, "CALL rowlock_acquire('%s', 30, NULL, @token)", w->run->name);
    if (!query(w->mysql, text))
        return false;
    uint64_t token = token_of(w->mysql);
    bool good = token > 0 && add_one(w->mysql, w->run->name, "sql", token, &w->seed);
    snprintf(text, sizeof text, "CALL rowlock_release('%s', @token)", w->run->name);
    return query(w->mysql, text) && good;
}

static bool one_more(const run *r)
{
    return atomic_fetch_add(r->begun, 1) < r->sections;
}

static void *work(void *arg)
{
    worker *w = arg;
    while (!w->failed && one_more(w->run)) {
        if (!w->run->locked)
            w->failed = !add_one(w->mysql, w->run->name, "", 0, &w->seed);
        else
            w->failed = w->client ? !section_in_c(w) : !section_in_sql(w);
    }
    mysql_thread_end();
    return NULL;
}

/* ----------------------------------------------------------------------- the processes */

static MYSQL *connect_as(const char *user)
{
    MYSQL *mysql = mysql_init(NULL);
    if (!mysql_real_connect(mysql, NULL, user, NULL, ts_schema(), 0, ts_socket(), 0))
        fprintf(stderr, "connect: %s\n", mysql_error(mysql));
    return mysql;
}

/* Fails it when nobody lets it begin. */
static bool may_begin(const run *r)
{
    char c;
    return read(r->gate, &c, 1) == 1;
}

static int run_threads(const run *r, rowlock_client *client)
{
    worker workers[THREADS];
    int failed = 0;
    for (int i = 0; i < THREADS; i++)
        workers[i] = (worker){.run = r,
                              .client = client,
                              .mysql = connect_as(client ? "root" : r->user),
                              .seed = (unsigned)getpid() * THREADS + (unsigned)i};
    if (!may_begin(r))
        return 1;
    for (int i = 0; i < THREADS; i++)
        pthread_create(&workers[i].thread, NULL, work, &workers[i]);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(workers[i].thread, NULL);
        failed |= workers[i].failed;
        mysql_close(workers[i].mysql);
    }
    return failed;
}

static int program(void *arg)
{
    rowlock_client_options options = ts_options();
    rowlock_error err = {0};
    rowlock_client *client = NULL;
    options.connect_timeout_ms = 30000;
    if (rowlock_client_open(&options, &client, &err) != ROWLOCK_OK) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    int failed = run_threads(arg, client);
    rowlock_client_close(client);
    return failed;
}

static int sql_sessions(void *arg)
{
    return run_threads(arg, NULL);
}

static int shell(void *arg)
{
    const run *r = arg;
    char command[1200];
    int failed = 0;
    setenv("MIXED_NAME", r->name, 1);
    snprintf(command, sizeof command, "%s'%s' --section",
             r->locked ? ROWLOCK_COMMAND "run \"$MIXED_NAME\" -- " : "", own_path);
    if (!may_begin(r))
        return 1;
    while (failed == 0 && one_more(r)) {
        failed = system(command);
        ts_pass_ms(SHELL_PAUSE_MS); /* a process for each section: the others shall go on, too */
    }
    if (failed != 0)
        fprintf(stderr, "shell: status %d\n", failed);
    return failed != 0;
}

static int section_in_shell(void)
{
    const char *token = getenv("ROWLOCK_TOKEN");
    unsigned seed = (unsigned)getpid();
    MYSQL *mysql = mysql_init(NULL);
    if (!mysql_real_connect(mysql, NULL, "root", NULL, getenv("MIXED_SCHEMA"), 0, ts_socket(), 0))
        return 1;
    bool good =
        add_one(mysql, getenv("MIXED_NAME"), "shell", token ? strtoull(token, NULL, 10) : 0, &seed);
    mysql_close(mysql);
    return good ? 0 : 1;
}

/* ---------------------------------------------------------------------------- the runs */

static void make_tables(MYSQL *mysql, const run *r)
{
    ts_counter_make(mysql, r->name);
    ts_sql(mysql, "CREATE TABLE IF NOT EXISTS sections (token BIGINT UNSIGNED PRIMARY KEY,"
                  " place BIGINT UNSIGNED NOT NULL, kind VARCHAR(10) NOT NULL) ENGINE = InnoDB");
    for (const char *const *table = (const char *const[]){"counter", "sections", NULL}; *table;
         table++)
        ts_sql(mysql, "GRANT SELECT, INSERT, UPDATE ON `%s`.%s TO '%s'@'localhost'", ts_schema(),
               *table, r->user);
}

/* The counter at the end. */
static uint64_t run_all(MYSQL *mysql, run *r)
{
    int gate[2];
    pid_t pids[PROCESSES];
    char all[PROCESSES] = {0};
    int failed = 0;
    make_tables(mysql, r);
    void *shared =
        mmap(NULL, sizeof *r->begun, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(shared != MAP_FAILED);
    r->begun = shared;
    assert_int_equal(pipe(gate), 0);
    r->gate = gate[0];
    for (int i = 0; i < PROCESSES; i++)
        pids[i] = ts_fork(i < PROGRAMS ? program : i < PROGRAMS + SHELLS ? shell : sql_sessions, r);
    int64_t start = ts_now_ms();
    assert_int_equal(write(gate[1], all, PROCESSES), PROCESSES);
    for (int i = 0; i < PROCESSES; i++)
        failed |= ts_reap(pids[i], 400000);
    assert_int_equal(failed, 0);
    print_message("# %s: %" PRIu64 " sections in %" PRId64 " ms\n", r->locked ? "mixed" : "no lock",
                  r->sections, ts_now_ms() - start);
    close(gate[0]);
    close(gate[1]);
    munmap(shared, sizeof *r->begun);
    return ts_counter_value(mysql, r->name);
}

static uint64_t turns_of(MYSQL *mysql, const char *kind)
{
    uint64_t turns = ts_sql_u64(mysql, "SELECT COUNT(*) FROM sections WHERE kind = '%s'", kind);
    print_message("#   %s: %" PRIu64 "\n", kind, turns);
    return turns;
}

static void test_not_one_is_lost(void **state)
{
    run r = {.name = ts_name("mixed"), .locked = true, .sections = wanted_sections};
    MYSQL *mysql = ts_connect(ts_schema());
    (void)state;
    r.user = ts_user("mixed", "", "EXECUTE", ts_schema());
    uint64_t value = run_all(mysql, &r);
    assert_int_equal(value, r.sections);
    assert_int_equal(ts_sql_u64(mysql, "SELECT COUNT(*) FROM sections"), r.sections);
    /* By their tokens they come in the order in which they were. */
    assert_int_equal(ts_sql_u64(mysql, "SELECT COUNT(*) FROM (SELECT place,"
                                       "   ROW_NUMBER() OVER (ORDER BY token) - 1 AS nth"
                                       "   FROM sections) s WHERE place <> nth"),
                     0);
    uint64_t changes = ts_sql_u64(mysql, "SELECT COUNT(*) FROM (SELECT kind, LAG(kind) OVER"
                                         " (ORDER BY token) AS last FROM sections) s"
                                         " WHERE kind <> last");
    print_message("#   from one kind to another: %" PRIu64 "\n", changes);
    assert_true(changes >= r.sections / 50);
    assert_true(turns_of(mysql, "c") >= r.sections / 50);
    assert_true(turns_of(mysql, "sql") >= r.sections / 50);
    assert_true(turns_of(mysql, "shell") >= r.sections / 200);
    mysql_close(mysql);
}

static void test_without_the_lock_some_are_lost(void **state)
{
    run r = {.name = ts_name("control"), .locked = false, .sections = wanted_sections};
    MYSQL *mysql = ts_connect(ts_schema());
    (void)state;
    r.user = ts_user("control", "", "EXECUTE", ts_schema());
    assert_true(run_all(mysql, &r) < r.sections);
    mysql_close(mysql);
}

/* Each section would wait for the disk some five times over; what it keeps is not in question. */
static void flush_at_commit(unsigned how)
{
    MYSQL *mysql = ts_connect(NULL);
    ts_sql(mysql, "SET GLOBAL innodb_flush_log_at_trx_commit = %u", how);
    mysql_close(mysql);
}

static int begin(void **state)
{
    int failed = ts_suite_begin(state);
    setenv("MIXED_SCHEMA", ts_schema(), 1);
    flush_at_commit(2);
    return failed || system(ROWLOCK_COMMAND "init -q --procedures") != 0;
}

static int end(void **state)
{
    flush_at_commit(1);
    return ts_suite_end(state);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--section") == 0)
        return section_in_shell();
    if (argc > 1)
        wanted_sections = (unsigned)strtoul(argv[1], NULL, 10);
    if (readlink("/proc/self/exe", own_path, sizeof own_path - 1) <= 0)
        return 1;
    const struct CMUnitTest tests[] = {
        ONCE(test_without_the_lock_some_are_lost),
        ONCE(test_not_one_is_lost),
    };
    return cmocka_run_group_tests_name("mixed", tests, begin, end);
}
