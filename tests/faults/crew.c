/* faults/crew.c - see crew.h. */
#include "faults/crew.h"

#include "faults/through.h"

enum { WITHIN_MS = 300000, LOCK_WAIT_TIMEOUT = 1205 };

typedef struct crew {
    const char *name;
    const char *user;
    unsigned rounds;
    crew_round round;
    rowlock_client *clients[CREW];
    atomic_uint done;
    atomic_uint wrong;
} crew;

static crew the;

void crew_expect(bool good, const char *what)
{
    if (good)
        return;
    fprintf(stderr, "%s: %s\n", the.name, what);
    atomic_fetch_add(&the.wrong, 1);
}

bool crew_was_stopped(rowlock_status status, const rowlock_error *err)
{
    /* The table was locked (below) for too long, since the machine stood still. */
    const bool locked = status == ROWLOCK_BUSY && err->server_errno == LOCK_WAIT_TIMEOUT;
    crew_expect(locked || status == ROWLOCK_OK || status == ROWLOCK_UNAVAILABLE ||
                    status == ROWLOCK_UNKNOWN,
                err->message);
    return status != ROWLOCK_OK && atomic_load(&the.wrong) == 0;
}

static void *go_through(void *data)
{
    const unsigned who = (unsigned)(uintptr_t)data;
    for (unsigned number = 0; number < the.rounds && atomic_load(&the.wrong) == 0; number++)
        the.round(the.clients[who], the.name, who, number);
    atomic_fetch_add(&the.done, 1);
    return NULL;
}

/* Returns how many statements were stopped, or may have been. */
static unsigned stop_all(const char *user)
{
    unsigned count = 0;
    char *ids = ts_sql_text(mysql,
                            "SELECT COALESCE(GROUP_CONCAT(id), '') FROM " TS_PROCESSLIST
                            " WHERE user = '%s' AND command <> 'Sleep'",
                            user);
    for (char *at = ids; *at; at += *at == ',')
        count += ts_sql_try(mysql, "KILL QUERY %lu", strtoul(at, &at, 10)) == 0;
    free(ids);
    return count;
}

/* Stops statements that wait for the table, which we have locked. */
static unsigned stop_at(const char *table, MYSQL *blocker, const char *user)
{
    ts_sql(blocker, "BEGIN");
    (void)!ts_sql_try(blocker, "SELECT * FROM %s FOR UPDATE", table);
    mysql_free_result(mysql_store_result(blocker));
    ts_pass_ms(10);
    const unsigned count = stop_all(user);
    ts_sql(blocker, "ROLLBACK");
    return count;
}

static void open_clients(const char *word)
{
    the.user = ts_user(word, "stopped", "ALL", ts_schema());
    for (int i = 0; i < CREW; i++)
        the.clients[i] = ts_open_as(
            (rowlock_client_options){.user = the.user, .password = "stopped", .no_history = true});
}

const char *crew_run(const char *word, const char *table, unsigned rounds, crew_round round)
{
    pthread_t threads[CREW];
    unsigned stopped = 0;
    TS_MYSQL *blocker = ts_connect(ts_schema());
    ts_sql(blocker, "SET SESSION innodb_lock_wait_timeout = 1");
    the = (crew){.name = ts_name(word), .rounds = rounds, .round = round};
    open_clients(word);
    for (uintptr_t i = 0; i < CREW; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, go_through, (void *)i), 0);
    for (int64_t end = ts_now_ms() + WITHIN_MS; atomic_load(&the.done) < CREW && ts_now_ms() < end;
         ts_pass_ms(10))
        stopped += table ? stop_at(table, blocker, the.user) : stop_all(the.user);
    assert_int_equal(atomic_load(&the.done), CREW);
    for (int i = 0; i < CREW; i++) {
        pthread_join(threads[i], NULL);
        rowlock_client_close(the.clients[i]);
    }
    assert_int_equal(atomic_load(&the.wrong), 0);
    print_message("# %u statements were stopped\n", stopped);
    assert_true(stopped > 0);
    return the.name;
}
