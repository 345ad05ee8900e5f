/*
 * support/support.h - for tests on a real server: a fresh schema for each test binary, small SQL
 * helpers, clocks, threads, and assertions on statuses.
 *
 * Environment: ROWLOCK_TEST_SOCKET, the socket of a running private server whose root has no
 * password. ROWLOCK_TEST_ROLES, if set, users of sql/grants.sql ("batch sweeper"): the clients
 * under test then log in as a user with their rights ("app" alone: through procedures).
 * ROWLOCK_TEST_URL, if set, a URL for the clients under test (for its options, tls=...).
 */
#ifndef TS_SUPPORT_H
#define TS_SUPPORT_H

#include "support/unit.h"

#include <mysql.h>

#include "rowlock/rowlock_admin.h"
#include "rowlock/rowlock_migrate.h"
#include "rowlock/rowlock_mysql.h"

/* --------------------------------------------------------------------- schema and users */

const char *ts_socket(void);
/* This binary's schema; made by ts_suite_begin(). */
const char *ts_schema(void);
/* cmocka group set-up and tear-down: makes and drops the schema. */
int ts_suite_begin(void **state);
int ts_suite_end(void **state);
/* Closes two clients and two sessions (NULL: none), and ends the suite. */
int ts_suite_end_with(void **state, rowlock_client *client, rowlock_client *other, MYSQL *mysql,
                      MYSQL *watch);
/* A suite with ts_mysql, root's session on its schema. */
extern MYSQL *ts_mysql;
int ts_suite_begin_sql(void **state);
int ts_suite_end_sql(void **state);

/* The clients under test have the right EXECUTE alone. */
bool ts_via(void);

/* A client of root, not through procedures: for actions that clients under test may not do then. */
rowlock_client *ts_open_as_root(void);

/* Another schema ("<ts_schema()>_<suffix>"), empty or migrated; dropped by ts_suite_end(). */
const char *ts_extra_schema(const char *suffix, bool migrated);

/* A lock's name that no other test uses: static storage, good until the binary ends. */
const char *ts_name(const char *word);

/* How late an event may be that has just happened: the promised 100 ms, and more for sanitizers,
 * for TLS, and for the measured time for which the machine stood still (below). */
int64_t ts_slack_ms(void);
/* tools/test --long: tests try everything, not a part. */
bool ts_long(void);
/* A number of rounds, fewer under a sanitizer. */
unsigned ts_rounds(unsigned usual);

/* ----------------------------------------------------------------------- both modes */

const char *ts_mode_word(rowlock_mode mode);
/* The shortest TTL that makes sense in a mode, and how often its holder shows life. */
int64_t ts_short_ttl(rowlock_mode mode);
/* A TTL for locks that must be kept. They are renewed every third of it, so a machine that stands
 * still for two seconds does not end them. And for how long tests look at them, in which they are
 * renewed at least once. */
enum { TS_KEPT_TTL = 4000, TS_KEPT_FOR = TS_KEPT_TTL * 5 / 4 };
extern rowlock_mode ts_modes[2];

/* ------------------------------------------------------------------------ statuses */

/* The error of the test's main thread: pass &ts_err to the calls inside WANT(). */
extern rowlock_error ts_err;

/* The call's status must be ROWLOCK_<name>. Checks the form of any error, too. */
#define WANT(name, call) ts_want(ROWLOCK_##name, (call), #call, __FILE__, __LINE__)
void ts_want(rowlock_status wanted, rowlock_status got, const char *call, const char *file,
             int line);
/* The hold is held, as far as its holder knows. If not, releases it to print why. */
#define assert_held(hold) ts_held((hold), #hold, __FILE__, __LINE__)
void ts_held(rowlock_hold *hold, const char *what, const char *file, int line);
/* It stays held for so long. */
#define ASSERT_KEPT(hold, ms)                                                                      \
    do {                                                                                           \
        for (int64_t ts_until_ = ts_now_ms() + (ms); ts_now_ms() < ts_until_; ts_pass_ms(20))      \
            assert_held(hold);                                                                     \
    } while (0)
/* A flaw of an error that came with `status`; NULL: none. */
const char *ts_error_flaw(rowlock_status status, const rowlock_error *err);
/* A text that no error may contain (a password). */
void ts_secret(const char *text);

/* --------------------------------------------------------------- clients and acquiring */

/* A client of root (see ROWLOCK_TEST_ROLES) on this binary's schema. */
rowlock_client *ts_open(void);
rowlock_client_options ts_options(void);
/* The same on another schema; `schema` must stay. */
rowlock_client_options ts_options_on(const char *schema);
/* Acquires or fails the test. */
rowlock_hold *ts_take(rowlock_client *client, const char *name, rowlock_mode mode, int64_t ttl_ms);
/* One try; releases the lock at once if it succeeds. */
rowlock_status ts_try(rowlock_client *client, const char *name, rowlock_mode mode);
/* Breaks the lock, which is free at once, whatever its holder does. */
rowlock_status ts_break_now(rowlock_client *client, const char *name);

/* What ts_on_lost() was told (set on_lost_data to one of these). */
typedef struct ts_loss {
    atomic_int times;
    _Atomic int64_t at_ms;
    rowlock_hold *hold;
    char reason[256];
} ts_loss;
void ts_on_lost(void *data, rowlock_hold *hold, const char *reason);

/* An on_ask that only counts the asks in *data, an atomic_int. */
void ts_count_ask(void *data, rowlock_hold *hold, const rowlock_asked *what);

/* A section's work that only counts its runs in *data (an unsigned; may be NULL). */
rowlock_status ts_no_work(void *data, const rowlock_section *section);
rowlock_status ts_no_work_tx(void *data, const rowlock_section *section, MYSQL *own);

/* ------------------------------------------------------------------------------ SQL */

MYSQL *ts_connect(const char *schema);
/* Opens a session on this binary's schema again, after the server has ended it (NULL: there was
 * none). */
void ts_reconnect(MYSQL **mysql);
/* A session of ts_open()'s user on this binary's schema. The second one makes a table of the test's
 * own that this user may use (granted by `mysql`, root's). */
MYSQL *ts_connect_beside(void);
void ts_grant_role(MYSQL *mysql, const char *table);
MYSQL *ts_connect_as(const char *user, const char *password, const char *schema);
/* ts_sql() and ts_sql_text() fail the test on an error. */
void ts_sql(MYSQL *mysql, const char *format, ...) __attribute__((format(printf, 2, 3)));
uint64_t ts_sql_u64(MYSQL *mysql, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The first column of the first row, or ""; free() it. */
char *ts_sql_text(MYSQL *mysql, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Does not fail the test: returns mysql_errno(), 0: OK. */
unsigned ts_sql_try(MYSQL *mysql, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The server is MySQL, not MariaDB. */
bool ts_is_mysql(MYSQL *mysql);
/* A session's settings and state, as text; free() it. */
char *ts_session(MYSQL *mysql);
/* Inserts rows into `work` (who), so that InnoDB prefers to end another transaction for a
 * deadlock. */
void ts_make_heavy(MYSQL *mysql);
/* A text as an SQL literal with quotes, in one of a ring of static buffers. */
const char *ts_quote(const char *text);

/* All rows of rowlock's tables except the history, as text; free() it. */
char *ts_dump(MYSQL *mysql, const char *schema);

/* Ends a lock as if its holder had died: moves a lease's expiry into the past, and kills the
 * connection on which it was taken. */
void ts_expire(MYSQL *mysql, const char *name, rowlock_mode mode);
/* Kills the connection that has a lock's row or a lease's bell, if there is one. */
void ts_cut(MYSQL *mysql, const char *name);

/* A user of rowlock's schema with these privileges ("SELECT, UPDATE") on it; dropped by
 * ts_suite_end(). Returns its name, static storage. */
const char *ts_user(const char *word, const char *password, const char *privileges,
                    const char *schema);

/* The connections that wait for a row lock now, "0,17,23"; free() it. */
char *ts_lock_waits(MYSQL *mysql);
/* MySQL (9.7) cannot read its information_schema's process list while a statement has a four-byte
 * character in its text. */
#define TS_PROCESSLIST                                                                             \
    "/*M! information_schema.processlist */ /*!80000 performance_schema.processlist */"
/* Waits until a connection waits for a row of this table of this binary's schema. Returns its id,
 * or 0. */
uint64_t ts_row_waits(MYSQL *mysql, const char *table, int64_t within_ms);
/* How many connections wait for one now. */
unsigned ts_row_waiters(MYSQL *mysql, const char *table);

/* ---------------------------------------------------------------------------- waiting */

int64_t ts_now_ms(void);
/* Lets time pass. Not for waiting until something happens. */
void ts_pass_ms(int64_t ms);

/* How long this machine has stood still since the program began: threads measure how late they are
 * woken, and how late a small write to the disk is done. A further delay is the library's fault. */
int64_t ts_stood_ms(void);

/* The same, and how long threads that could run have waited for a processor, by the kernel's count
 * (0 where it keeps none): the server's threads do, while ours are woken in time. */
int64_t ts_strain_ms(void);

/* Wants TIMEOUT. If the machine was strained since `strain_ms` (of ts_strain_ms()), it also
 * accepts UNKNOWN (a server that answers some 25 ms late leaves the outcome of the last change
 * open), and UNAVAILABLE, if the call could not connect, or took a second. True: one of these, and
 * nobody may hold the lock until it expires. */
#define WANT_TIMEOUT(mode, strain_ms, call)                                                        \
    __extension__({                                                                                \
        int64_t ts_start_ = ts_now_ms();                                                           \
        ts_want_timeout((mode), (strain_ms), ts_start_, (call), #call, __FILE__, __LINE__);        \
    })
bool ts_want_timeout(rowlock_mode mode, int64_t strain_ms, int64_t start_ms, rowlock_status got,
                     const char *call, const char *file, int line);

/* The message of the last call has these words. (If a wait ends while a look is under way, the
 * message cannot say what that would have seen: the call is made again, five times at most.) */
#define ASSERT_SAYS(words, call)                                                                   \
    __extension__({                                                                                \
        for (int ts_left_ = 5; !strstr(ts_err.message, (words)) && ts_left_ > 0; ts_left_--)       \
            (void)!(call);                                                                         \
        assert_non_null(strstr(ts_err.message, (words)));                                          \
    })

/* Waits until the expression is true, at most so long (and as long as the machine stood still
 * meanwhile). Its last value. */
#define POLL_UNTIL(expression, within_ms)                                                          \
    __extension__({                                                                                \
        int64_t ts_end_ = ts_now_ms() + (within_ms)-ts_stood_ms();                                 \
        bool ts_good_;                                                                             \
        while (!(ts_good_ = (expression)) && ts_now_ms() < ts_end_ + ts_stood_ms())                \
            ts_pass_ms(2);                                                                         \
        ts_good_;                                                                                  \
    })

/* Evaluates the value first, since the time that takes may be part of the bound (ts_slack_ms()). */
#define assert_between(low, value, high)                                                           \
    __extension__({                                                                                \
        int64_t ts_value_ = (value);                                                               \
        ts_between((low), ts_value_, (high), #value, __FILE__, __LINE__);                          \
    })
void ts_between(int64_t low, int64_t value, int64_t high, const char *what, const char *file,
                int line);

/* ---------------------------------------------------------------------------- threads */

/* An acquire in a thread of its own. Set the first part, then ts_waiter_start(). The thread uses
 * nothing of the test's stack frame, since it may outlive a failed test. */
typedef struct ts_waiter {
    rowlock_client *client;
    const char *name;
    rowlock_acquire_options options;
    pthread_t thread;
    int64_t started_ms;
    struct ts_waiting *at_work; /* the thread's data; NULL: joined, or not started */
    /* filled when ts_waiter_ended() says so, and by ts_waiter_join() */
    rowlock_status status;
    rowlock_hold *hold;
    rowlock_error err;
    int64_t ended_ms;
    bool ended;
} ts_waiter;

void ts_waiter_start(ts_waiter *waiter);
bool ts_waiter_ended(ts_waiter *waiter);
/* Its status. Fails the test if it has not ended within so long. */
rowlock_status ts_waiter_join(ts_waiter *waiter, int64_t within_ms);
/* Starts one; TTL 0: the default. */
ts_waiter ts_wait(rowlock_client *client, const char *name, rowlock_mode mode, int64_t wait_ms,
                  int64_t ttl_ms);
/* It acquires within so long, with a higher token than `above`. */
#define ASSERT_GETS_IN(waiter, above, within_ms)                                                   \
    ts_gets_in((waiter), (above), (within_ms), __FILE__, __LINE__)
void ts_gets_in(ts_waiter *waiter, uint64_t above, int64_t within_ms, const char *file, int line);
/* Releases `hold`; the waiter acquires within so long, with a higher token, and releases, too. */
void ts_hand_over(rowlock_hold *hold, ts_waiter *waiter, int64_t within_ms);

/* As on a slow disk: from now on a holder of this client that had to wait hands a lease over with
 * one write. */
void ts_commits_slowly(rowlock_client *client);

/* Runs `TOOL VERB FOLDER REST` of the folder tools; its exit status. `line` gets the last line of
 * its output, or "". */
enum { TS_LINE = 300 };
int ts_tool(const char *tool, const char *verb, const char *folder, const char *rest,
            char line[TS_LINE]);

/* A new folder of this test's under TMPDIR, rowlock-WORD.XXXXXX; its path. */
void ts_make_folder(const char *word, char *path, size_t size);

/* The tables of the processes of tests/faults: `guard`, which a later holder's token closes to
 * earlier ones, and `late`, which records writes of earlier ones. */
void ts_guard_tables(MYSQL *mysql);
/* A name (ts_name()) with a row in `guard`. */
const char *ts_guarded(MYSQL *mysql, const char *word);
/* No process has written after it had lost the lock. */
void ts_nobody_was_late(MYSQL *mysql, const char *name);

/* From the tables: a name's id; its version, which is the token while it is held; how many
 * connections wait for its bell. */
uint64_t ts_id_of(MYSQL *mysql, const char *name);
uint64_t ts_version_of(MYSQL *mysql, const char *name);
uint64_t ts_in_queue(MYSQL *mysql, const char *name);
/* How many rows of this table (`x`) a name (`r`) has; `also`: a further condition, or "". */
uint64_t ts_rows_of(MYSQL *mysql, const char *table, const char *name, const char *also);
/* A writer waits for the readers of a lease, and no reader enters. */
bool ts_is_closed(MYSQL *mysql, const char *name);
/* The connection that has the bell; 0: none. */
uint64_t ts_bell_holder(MYSQL *mysql, const char *name);
/* Gives this connection the bell: a waiter that does nothing when its turn comes. */
void ts_take_bell(MYSQL *mysql, const char *name);
/* Nobody has the bell of a free lease without waiters. Waits, since the server may have to notice
 * that the connection of an ended wait has ended. */
void ts_no_bell(MYSQL *mysql, const char *name);

/* A child process that runs fn(arg) and ends with what it returns. */
pid_t ts_fork(int (*fn)(void *arg), void *arg);
/* Its exit status, 128+n for a signal. Fails the test if it has not ended in time. */
int ts_reap(pid_t pid, int64_t within_ms);

/* ------------------------------------------------------------------ cleaned up at the end of a
 * block */

/* TS_CLIENT *client = ts_open(); TS_MYSQL *own = ts_connect(...): closed at the end of its block.
 * TS_HOLD *hold = ts_take(...); TS_WAITER waiter = ts_wait(...): it must be held at the end of its
 * block, and is released there. The last declared goes first. */
#define TS_AT_END(name, type, end)                                                                 \
    static inline void ts_end_##name(type *it)                                                     \
    {                                                                                              \
        end;                                                                                       \
    }
TS_AT_END(client, rowlock_client *, rowlock_client_close(*it))
TS_AT_END(mysql, MYSQL *, mysql_close(*it))
TS_AT_END(cancel, rowlock_cancel *, rowlock_cancel_free(*it))
TS_AT_END(hold, rowlock_hold *, WANT(OK, rowlock_release(*it, &ts_err)))
TS_AT_END(waiter, ts_waiter, WANT(OK, rowlock_release(it->hold, &ts_err)))
#define TS_CLIENT __attribute__((unused, cleanup(ts_end_client))) rowlock_client
#define TS_MYSQL  __attribute__((unused, cleanup(ts_end_mysql))) MYSQL
#define TS_CANCEL __attribute__((unused, cleanup(ts_end_cancel))) rowlock_cancel
#define TS_HOLD   __attribute__((unused, cleanup(ts_end_hold))) rowlock_hold
#define TS_WAITER __attribute__((unused, cleanup(ts_end_waiter))) ts_waiter

/* Makes one, or fails the test. */
rowlock_cancel *ts_cancel(void);
rowlock_client *ts_open_with(rowlock_client_options options);
/* A client with ts_options() and these changes (of members that ts_open_as() knows). */
rowlock_client *ts_open_as(rowlock_client_options changes);
rowlock_hold *ts_take_with(rowlock_client *client, const char *name,
                           rowlock_acquire_options options);
/* Both texts are equal; frees them. */
void ts_same(char *before, char *after);

/* WANT(), and the call takes at least low_ms and at most high_ms + ts_slack_ms(). */
#define WANT_WITHIN(name, low_ms, high_ms, call)                                                   \
    __extension__({                                                                                \
        int64_t ts_start_ = ts_now_ms();                                                           \
        WANT(name, call);                                                                          \
        assert_between((low_ms), ts_now_ms() - ts_start_, (high_ms) + ts_slack_ms());              \
    })

#endif
