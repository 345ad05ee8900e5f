/*
 * support/support.h - what the tests on a real server share: a fresh schema for each test
 * binary, small SQL helpers, clocks, threads, and assertions on statuses.
 *
 * From outside: ROWLOCK_TEST_SOCKET, the socket of a running private server whose root
 * has no password; ROWLOCK_TEST_ROLES, where set, users of sql/grants.sql ("batch sweeper"): the
 * clients under test then are of one that has their rights (of "app" alone: through procedures);
 * ROWLOCK_TEST_URL, where set, a URL for
 * the clients under test (its options count: tls=...).
 */
#ifndef TS_SUPPORT_H
#define TS_SUPPORT_H

#include "support/unit.h"

#include <mysql.h>

#include "rowlock/rowlock_admin.h"
#include "rowlock/rowlock_migrate.h"
#include "rowlock/rowlock_mysql.h"

/* --------------------------------------------------------------------- where we are */

const char *ts_socket(void);
/* This binary's schema; made by ts_suite_begin(). */
const char *ts_schema(void);
/* cmocka group set-up and tear-down: makes and drops the schema. */
int ts_suite_begin(void **state);
int ts_suite_end(void **state);
/* Closes two clients and two sessions (NULL: none), and ends the suite. */
int ts_suite_end_with(void **state, rowlock_client *client, rowlock_client *other, MYSQL *mysql,
                      MYSQL *watch);
/* A suite with a session of root on its schema. */
extern MYSQL *ts_mysql;
int ts_suite_begin_sql(void **state);
int ts_suite_end_sql(void **state);

/* The clients under test may EXECUTE, and nothing else. */
bool ts_via(void);

/* A client of root's, by the tables: for what clients under test may not do then. */
rowlock_client *ts_open_as_root(void);

/* Another schema ("<ts_schema()>_<suffix>"), empty or migrated; dropped by ts_suite_end(). */
const char *ts_extra_schema(const char *suffix, bool migrated);

/* A lock's name that no other test uses: static storage, good until the binary ends. */
const char *ts_name(const char *word);

/* How late what has just ended may be. 100 ms are promised; the rest is for sanitizers, for TLS,
 * and for a machine that stood still, as far as that was measured (below). */
int64_t ts_slack_ms(void);
/* tools/test --long: everything is tried, where else it is a part. */
bool ts_long(void);
/* A count of rounds, less under a sanitizer. */
unsigned ts_rounds(unsigned usual);

/* ----------------------------------------------------------------------- both modes */

const char *ts_mode_word(rowlock_mode mode);
/* The shortest TTL that makes sense in a mode, and how soon its holder beats. */
int64_t ts_short_ttl(rowlock_mode mode);
/* A TTL for what is to be kept, renewed every third of it: a machine that stands still for two
 * seconds does not end it. And for how long it is looked at: once renewed, at least. */
enum { TS_KEPT_TTL = 4000, TS_KEPT_FOR = TS_KEPT_TTL * 5 / 4 };
extern rowlock_mode ts_modes[2];

/* ------------------------------------------------------------------------ statuses */

/* The error of the test's main thread: hand &ts_err to the calls inside WANT(). */
extern rowlock_error ts_err;

/* The call's status must be ROWLOCK_<name>; any other error must be well made too. */
#define WANT(name, call) ts_want(ROWLOCK_##name, (call), #call, __FILE__, __LINE__)
void ts_want(rowlock_status wanted, rowlock_status got, const char *call, const char *file,
             int line);
/* It is held, as far as its holder knows; if not, why (by releasing it: the test has failed). */
#define assert_held(hold) ts_held((hold), #hold, __FILE__, __LINE__)
void ts_held(rowlock_hold *hold, const char *what, const char *file, int line);
/* It stays so for so long. */
#define ASSERT_KEPT(hold, ms)                                                                      \
    do {                                                                                           \
        for (int64_t ts_until_ = ts_now_ms() + (ms); ts_now_ms() < ts_until_; ts_pass_ms(20))      \
            assert_held(hold);                                                                     \
    } while (0)
/* NULL, or what is wrong with an error that came with `status`. */
const char *ts_error_flaw(rowlock_status status, const rowlock_error *err);
/* A text that no error may ever hold (a password). */
void ts_secret(const char *text);

/* --------------------------------------------------------------- clients and acquiring */

/* A client of root (see ROWLOCK_TEST_ROLES) on this binary's schema. */
rowlock_client *ts_open(void);
rowlock_client_options ts_options(void);
/* The same on another schema; `schema` must stay. */
rowlock_client_options ts_options_on(const char *schema);
/* Acquires or fails the test. */
rowlock_hold *ts_take(rowlock_client *client, const char *name, rowlock_mode mode, int64_t ttl_ms);
/* One try, put back at once if it succeeds. */
rowlock_status ts_try(rowlock_client *client, const char *name, rowlock_mode mode);
/* Taken by force, and free at once, whatever its holder does. */
rowlock_status ts_break_now(rowlock_client *client, const char *name);

/* What a hold's on_lost was told, by ts_on_lost() (on_lost_data: one of these). */
typedef struct ts_loss {
    atomic_int times;
    _Atomic int64_t at_ms;
    rowlock_hold *hold;
    char reason[256];
} ts_loss;
void ts_on_lost(void *data, rowlock_hold *hold, const char *reason);

/* A section's work: nothing; how often is counted in *data (an unsigned; NULL: it is not). */
rowlock_status ts_no_work(void *data, const rowlock_section *section);
rowlock_status ts_no_work_tx(void *data, const rowlock_section *section, MYSQL *own);

/* ------------------------------------------------------------------------------ SQL */

MYSQL *ts_connect(const char *schema);
/* Anew to this binary's schema, where the server has ended a session (NULL: there was none). */
void ts_reconnect(MYSQL **mysql);
/* One of the user that ts_open() has, on this binary's schema; a table of the test's own that it
 * may use (granted on `mysql`, of root). */
MYSQL *ts_connect_beside(void);
void ts_grant_role(MYSQL *mysql, const char *table);
MYSQL *ts_connect_as(const char *user, const char *password, const char *schema);
/* These fail the test on an error. */
void ts_sql(MYSQL *mysql, const char *format, ...) __attribute__((format(printf, 2, 3)));
uint64_t ts_sql_u64(MYSQL *mysql, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The first column of the first row, "" when there is none; free() it. */
char *ts_sql_text(MYSQL *mysql, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* This one does not: mysql_errno(), 0 when good. */
unsigned ts_sql_try(MYSQL *mysql, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Of MySQL's own, not of MariaDB's kind. */
bool ts_is_mysql(MYSQL *mysql);
/* What a session is set to, and where it stands, as text; free() it. */
char *ts_session(MYSQL *mysql);
/* Rows into `work` (who): a transaction that InnoDB would rather not end for a deadlock. */
void ts_make_heavy(MYSQL *mysql);
/* A text as an SQL literal with quotes; the pieces of a ring of static buffers. */
const char *ts_quote(const char *text);

/* Every row of rowlock's tables but the history, as text; free() it. */
char *ts_dump(MYSQL *mysql, const char *schema);

/* Ends a lock behind its holder's back, as if the holder were gone: a lease's time is moved into
 * the past, and the connection on which it was taken is killed. */
void ts_expire(MYSQL *mysql, const char *name, rowlock_mode mode);
/* Kills the connection that has a lock's row or a lease's bell, if there is one. */
void ts_cut(MYSQL *mysql, const char *name);

/* A user of rowlock's schema with these privileges ("SELECT, UPDATE") on it; dropped by
 * ts_suite_end(). Returns its name, static storage. */
const char *ts_user(const char *word, const char *password, const char *privileges,
                    const char *schema);

/* The connections that wait for a row lock now, "0,17,23"; free() it. */
char *ts_lock_waits(MYSQL *mysql);
/* MySQL (9.7) cannot read its information_schema's where somebody's statement has a character of
 * four bytes in its text. */
#define TS_PROCESSLIST                                                                             \
    "/*M! information_schema.processlist */ /*!80000 performance_schema.processlist */"
/* Waits until a connection waits for a row of this table, of this binary's schema; its id, or 0. */
uint64_t ts_row_waits(MYSQL *mysql, const char *table, int64_t within_ms);
/* How many do now. */
unsigned ts_row_waiters(MYSQL *mysql, const char *table);

/* ---------------------------------------------------------------------------- waiting */

int64_t ts_now_ms(void);
/* Lets time itself pass; never to wait for something to happen. */
void ts_pass_ms(int64_t ms);

/* How long this machine has stood still since the program began: threads that do nothing else note
 * how late they are woken, and how late a small write to the disk is done. What the library is late
 * for beside that is its own fault; a slow machine is not. */
int64_t ts_stood_ms(void);

/* TIMEOUT is wanted. A server that answers some 25 ms late leaves it unknown whether a change came
 * to pass that was under way when a wait for a lease was over, or a call without a connection; that
 * is excused by what the machine stood still since (ts_stood_ms()) `stood_ms`. True: one of these,
 * and it may be held by nobody. */
#define WANT_TIMEOUT(mode, stood_ms, call)                                                         \
    ts_want_timeout((mode), (stood_ms), (call), #call, __FILE__, __LINE__)
bool ts_want_timeout(rowlock_mode mode, int64_t stood_ms, rowlock_status got, const char *call,
                     const char *file, int line);

/* Until the expression holds, at most so long (and as long as the machine stood still meanwhile);
 * its last value. */
#define POLL_UNTIL(expression, within_ms)                                                          \
    __extension__({                                                                                \
        int64_t ts_end_ = ts_now_ms() + (within_ms)-ts_stood_ms();                                 \
        bool ts_good_;                                                                             \
        while (!(ts_good_ = (expression)) && ts_now_ms() < ts_end_ + ts_stood_ms())                \
            ts_pass_ms(2);                                                                         \
        ts_good_;                                                                                  \
    })

/* The value is looked at first: what it takes to get it may be part of the bound (ts_slack_ms()).
 */
#define assert_between(low, value, high)                                                           \
    __extension__({                                                                                \
        int64_t ts_value_ = (value);                                                               \
        ts_between((low), ts_value_, (high), #value, __FILE__, __LINE__);                          \
    })
void ts_between(int64_t low, int64_t value, int64_t high, const char *what, const char *file,
                int line);

/* ---------------------------------------------------------------------------- threads */

/* An acquire in a thread of its own. Set the first part, then ts_waiter_start(). The thread has
 * nothing of the test's frame: it may outlive a test that fails. */
typedef struct ts_waiter {
    rowlock_client *client;
    const char *name;
    rowlock_acquire_options options;
    pthread_t thread;
    int64_t started_ms;
    struct ts_waiting *at_work; /* what the thread has; NULL: joined, or not started */
    /* filled when ts_waiter_ended() says so, and by ts_waiter_join() */
    rowlock_status status;
    rowlock_hold *hold;
    rowlock_error err;
    int64_t ended_ms;
    bool ended;
} ts_waiter;

void ts_waiter_start(ts_waiter *waiter);
bool ts_waiter_ended(ts_waiter *waiter);
/* Its status; fails the test when it has not ended within so long. */
rowlock_status ts_waiter_join(ts_waiter *waiter, int64_t within_ms);
/* One that has been started; no TTL: the default. */
ts_waiter ts_wait(rowlock_client *client, const char *name, rowlock_mode mode, int64_t wait_ms,
                  int64_t ttl_ms);
/* It gets in within so long, with a higher token than this. */
#define ASSERT_GETS_IN(waiter, above, within_ms)                                                   \
    ts_gets_in((waiter), (above), (within_ms), __FILE__, __LINE__)
void ts_gets_in(ts_waiter *waiter, uint64_t above, int64_t within_ms, const char *file, int line);
/* `hold` is given back; the waiter gets in within so long, with a higher token, and gives it back.
 */
void ts_hand_over(rowlock_hold *hold, ts_waiter *waiter, int64_t within_ms);

/* As on a slow disk: from now on a lease goes from a holder of this client's that had to wait to
 * the next with one write. */
void ts_commits_slowly(rowlock_client *client);

/* A new folder of this test's under TMPDIR, rowlock-WORD.XXXXXX; its path. */
void ts_make_folder(const char *word, char *path, size_t size);

/* What the processes of tests/faults write to: `guard`, which a later holder's token shuts, and
 * `late`, where those are noted who came after it. */
void ts_guard_tables(MYSQL *mysql);
/* A name (ts_name()) with a row in `guard`. */
const char *ts_guarded(MYSQL *mysql, const char *word);
/* There was no beat of somebody who was not the holder any more. */
void ts_nobody_was_late(MYSQL *mysql, const char *name);

/* By the tables: the id of a name; its version, which is the token while it is held; how many
 * connections stand in the queue for its bell. */
uint64_t ts_id_of(MYSQL *mysql, const char *name);
uint64_t ts_version_of(MYSQL *mysql, const char *name);
uint64_t ts_in_queue(MYSQL *mysql, const char *name);
/* The connection that has the bell; 0: nobody. */
uint64_t ts_bell_holder(MYSQL *mysql, const char *name);
/* This connection has it from now on: a waiter that does nothing, when its turn has come. */
void ts_take_bell(MYSQL *mysql, const char *name);
/* A free lease that nobody waits for has none. The server may still have to notice that the
 * connection of a wait that was broken off has ended. */
void ts_no_bell(MYSQL *mysql, const char *name);

/* A child process that runs fn(arg) and ends with what it returns. */
pid_t ts_fork(int (*fn)(void *arg), void *arg);
/* Its exit status, 128+n for a signal; fails the test when it has not ended in time. */
int ts_reap(pid_t pid, int64_t within_ms);

/* ------------------------------------------------------------------ what a block ends with */

/* TS_CLIENT *client = ts_open(); TS_MYSQL *own = ts_connect(...): closed at the end of its block.
 * TS_HOLD *hold = ts_take(...); TS_WAITER waiter = ts_wait(...): it is held at the end of its
 * block, and given back there. What was declared last goes first. */
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

/* Opens, acquires, makes one, or fails the test. */
rowlock_cancel *ts_cancel(void);
rowlock_client *ts_open_with(rowlock_client_options options);
/* One of ts_options(), but for what is set in these (what ts_open_as() knows of). */
rowlock_client *ts_open_as(rowlock_client_options changes);
rowlock_hold *ts_take_with(rowlock_client *client, const char *name,
                           rowlock_acquire_options options);
/* These are equal; frees both. */
void ts_same(char *before, char *after);

/* It is WANTed, and takes so long: at least low_ms; at most high_ms, and ts_slack_ms(). */
#define WANT_WITHIN(name, low_ms, high_ms, call)                                                   \
    __extension__({                                                                                \
        int64_t ts_start_ = ts_now_ms();                                                           \
        WANT(name, call);                                                                          \
        assert_between((low_ms), ts_now_ms() - ts_start_, (high_ms) + ts_slack_ms());              \
    })

#endif
