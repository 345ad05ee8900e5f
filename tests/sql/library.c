/*
 * sql_library - the library, for runner.py. Without arguments it is a session: runs the commands of
 * races/session.c, one on each line of stdin, and prints the result of each, in a new schema, whose
 * name it prints first.
 *
 * sql_library SCHEMA NAME shared|alone|SLOTS STATEMENT: two threads of one client take NAME in that
 * way, run the statement with @token and @slot, and release NAME, over and over, as long as the
 * view `goal` of that schema wants more.
 *
 * sql_library SCHEMA NAME latch GENERATIONS: two threads of one client are "c0" and "c1" of the six
 * that count the latch NAME down, and wait for it; see scripts/latch_contenders.sql.
 *
 * sql_library SCHEMA NAME once ROUNDS: two threads of one client are "c0" and "c1" of the six that
 * do a job once in each; see scripts/once_contenders.sql.
 *
 * sql_library SCHEMA NAME queue 0: two threads of one client are "c0" and "c1" of the six that put
 * into a queue and take from it; see scripts/queue_contenders.sql.
 *
 * sql_library SCHEMA NAME lead STATEMENT: as alone, and each leads. observe: one thread reads who
 * leads, and runs the statement with @token and @value; see scripts/leader_contenders.sql.
 */
#include "races/session.h"
#include "rowlock/rowlock_latch.h"
#include "rowlock/rowlock_leader.h"
#include "rowlock/rowlock_mysql.h"
#include "rowlock/rowlock_once.h"
#include "rowlock/rowlock_queue.h"

enum { WORDS = 5 /* of a command line with a name */, THREADS = 2, PARTS = 6 };

typedef struct contender {
    const char *schema;
    const char *name;
    const char *statement;
    rowlock_client *client;
    rowlock_acquire_options options; /* if it has a `value`, each turn leads */
} contender;

/* Ends the program at once, from any thread, unless the call succeeded. */
static void must(const char *call, rowlock_status status, const rowlock_error *err)
{
    if (status == ROWLOCK_OK)
        return;
    fprintf(stderr, "%s: %s: %s\n", call, rowlock_status_name(status), err->message);
    _exit(1);
}

/* Publishes the leader's token: until now its value was only "c". */
static void say_token(rowlock_hold *hold)
{
    char value[32];
    rowlock_error err = {0};
    snprintf(value, sizeof value, "c %" PRIu64, rowlock_hold_token(hold));
    must("set_value", rowlock_hold_set_value(hold, value, &err), &err);
}

static void take_turn(const contender *c, MYSQL *mysql)
{
    rowlock_hold *hold = NULL;
    rowlock_error err = {0};
    must("acquire", rowlock_acquire(c->client, c->name, &c->options, &hold, &err), &err);
    if (c->options.value)
        say_token(hold);
    ts_sql(mysql, "SET @token = %" PRIu64 ", @slot = %u", rowlock_hold_token(hold),
           rowlock_hold_slot(hold));
    ts_sql(mysql, "%s", c->statement);
    must("release", rowlock_release(hold, &err), &err);
}

static void *take_turns(void *arg)
{
    const contender *c = arg;
    MYSQL *mysql = ts_connect(c->schema);
    do {
        take_turn(c, mysql);
    } while (ts_sql_u64(mysql, "SELECT more FROM goal"));
    mysql_close(mysql);
    mysql_thread_end();
    return NULL;
}

/* Runs the statement for each leader that this thread sees while it waits for changes. */
static int look_on(const contender *c)
{
    MYSQL *mysql = ts_connect(c->schema);
    rowlock_leader leader = {.leads = false};
    rowlock_error err = {0};
    do {
        const rowlock_observe_options change = {.wait_ms = 5000, .after = &leader};
        rowlock_status status = rowlock_observe(c->client, c->name, &change, &leader, &err);
        if (status != ROWLOCK_TIMEOUT)
            must("observe", status, &err);
        if (status == ROWLOCK_TIMEOUT || !leader.leads)
            continue;
        ts_sql(mysql, "SET @token = %" PRIu64 ", @value = %s", leader.token,
               ts_quote(leader.value));
        ts_sql(mysql, "%s", c->statement);
    } while (ts_sql_u64(mysql, "SELECT more FROM goal"));
    mysql_close(mysql);
    rowlock_client_close(c->client);
    return 0;
}

/* ------------------------------------------------------------------------------ a latch */

typedef struct part {
    const contender *c;
    MYSQL *mysql;
    char who[4];
    bool in_one; /* it makes the call in its own transaction */
} part;

static rowlock_status count_part(const part *p, uint64_t generation)
{
    const contender *c = p->c;
    rowlock_error err = {0};
    ts_sql(p->mysql, "%s", p->in_one ? "BEGIN" : "DO 0");
    ts_sql(p->mysql, "REPLACE INTO parts VALUES (%" PRIu64 ", '%s')", generation, p->who);
    rowlock_status status =
        p->in_one ? rowlock_tx_latch_down(c->client, p->mysql, c->name, NULL, generation, &err)
                  : rowlock_latch_down(c->client, c->name, NULL, generation, &err);
    if (status != ROWLOCK_NOT_FOUND)
        must("latch_down", status, &err);
    ts_sql(p->mysql, "%s", status == ROWLOCK_OK ? "COMMIT" : "ROLLBACK");
    return status;
}

/* Counts down; the first one to come sets the latch. */
static void set_and_count(const part *p, uint64_t generation)
{
    rowlock_status status = ROWLOCK_NOT_FOUND;
    while (status == ROWLOCK_NOT_FOUND) {
        rowlock_error err = {0};
        uint64_t set = 0;
        status = rowlock_latch_set(p->c->client, p->c->name, PARTS, &set, &err);
        if (status == ROWLOCK_OK)
            ts_sql(p->mysql, "INSERT INTO sets VALUES (%" PRIu64 ", '%s')", set, p->who);
        else if (status != ROWLOCK_BUSY)
            must("latch_set", status, &err);
        status = count_part(p, generation);
    }
}

static void *take_part(void *arg)
{
    part *p = arg;
    rowlock_error err = {0};
    const uint64_t generations = strtoul(p->c->statement, NULL, 10);
    p->mysql = ts_connect(p->c->schema);
    for (uint64_t generation = 1; generation <= generations; generation++) {
        const rowlock_latch_options options = {.wait_ms = 60000, .generation = generation};
        set_and_count(p, generation);
        must("latch_wait", rowlock_latch_wait(p->c->client, p->c->name, &options, NULL, &err),
             &err);
        ts_sql(p->mysql, "CALL pass('%s', %" PRIu64 ")", p->who, generation);
    }
    mysql_close(p->mysql);
    mysql_thread_end();
    return NULL;
}

/* --------------------------------------------------------------------- once in a period */

static int64_t microseconds_of(const part *p, const char *when)
{
    return (int64_t)ts_sql_u64(
        p->mysql, "SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', %s) FROM periods", when);
}

/* Does the job, or lets it fail; says "done" in the work's transaction, or after it. */
static void do_job(const part *p, rowlock_hold *hold, unsigned number, unsigned attempt)
{
    char name[32];
    const uint64_t token = rowlock_hold_token(hold);
    rowlock_error err = {0};
    snprintf(name, sizeof name, "job %u", number);
    ts_sql(p->mysql, "CALL begin_it('%s', %u, %" PRIu64 ", %u, @fails)", p->who, number, token,
           attempt);
    if (ts_sql_u64(p->mysql, "SELECT @fails")) {
        must("once_failed", rowlock_once_failed(hold, 1, &err), &err);
        return;
    }
    ts_sql(p->mysql, "%s", p->in_one ? "BEGIN" : "DO 0");
    ts_sql(p->mysql, "CALL do_it('%s', %u, %" PRIu64 ")", p->who, number, token);
    must("once_done",
         p->in_one ? rowlock_tx_once_done(p->c->client, p->mysql, name, token, &err)
                   : rowlock_once_done(hold, &err),
         &err);
    ts_sql(p->mysql, "COMMIT");
}

/* True if the job is done, by this thread or another. */
static bool attempt_job(const part *p, unsigned number)
{
    const rowlock_acquire_options how = {.wait_ms = 60000, .ttl_ms = 60000};
    const rowlock_once_options options = {.wait_ms = 60000};
    char name[32];
    rowlock_once_result result = {.attempt = 0};
    rowlock_hold *hold = NULL;
    rowlock_error err = {0};
    snprintf(name, sizeof name, "job %u", number);
    must("acquire", rowlock_acquire(p->c->client, name, &how, &hold, &err), &err);
    must("once_begin",
         rowlock_once_begin(hold, microseconds_of(p, "start"), microseconds_of(p, "end"), &options,
                            &result, &err),
         &err);
    if (result.state == ROWLOCK_ONCE_BEGUN)
        do_job(p, hold, number, result.attempt);
    must("release", rowlock_release(hold, &err), &err);
    return result.state == ROWLOCK_ONCE_DONE;
}

static void *do_jobs(void *arg)
{
    part *p = arg;
    const unsigned rounds = (unsigned)strtoul(p->c->statement, NULL, 10);
    p->mysql = ts_connect(p->c->schema);
    for (unsigned number = 1; number <= rounds; number++) {
        ts_sql(p->mysql, "CALL come('c', '%s', %u)", p->who, number);
        while (!attempt_job(p, number))
            continue;
        ts_sql(p->mysql, "CALL find_it('%s', %u)", p->who, number);
    }
    mysql_close(p->mysql);
    mysql_thread_end();
    return NULL;
}

/* -------------------------------------------------------------------------- a queue */

/* Does the item, or retries it; says "done" in the work's transaction, or after it. */
static void do_item(const part *p, rowlock_item *item)
{
    const char *payload = rowlock_item_payload(item);
    rowlock_error err = {0};
    ts_sql(p->mysql, "CALL begin_it('%s', '%s', %u, @fails)", p->who, payload,
           rowlock_item_attempt(item));
    if (ts_sql_u64(p->mysql, "SELECT @fails")) {
        const rowlock_retry_options soon = {.delay_ms = 1};
        must("item_retry", rowlock_item_retry(item, &soon, &err), &err);
        return;
    }
    ts_sql(p->mysql, "%s", p->in_one ? "BEGIN" : "DO 0");
    ts_sql(p->mysql, "CALL do_it('%s', '%s')", p->who, payload);
    must("queue_done",
         p->in_one ? rowlock_tx_queue_done(p->c->client, p->mysql, p->c->name,
                                           rowlock_item_id(item), rowlock_item_token(item), &err)
                   : rowlock_item_done(item, &err),
         &err);
    ts_sql(p->mysql, "COMMIT");
    if (p->in_one)
        rowlock_item_forget(item);
}

static void put_items(const part *p)
{
    char payload[20];
    rowlock_error err = {0};
    for (unsigned n = 1; n <= 30; n++) {
        const int size = snprintf(payload, sizeof payload, "%s %u", p->who, n);
        ts_sql(p->mysql, "%s", p->in_one ? "BEGIN" : "DO 0");
        must("queue_put",
             p->in_one ? rowlock_tx_queue_put(p->c->client, p->mysql, p->c->name, payload,
                                              (size_t)size, NULL, NULL, &err)
                       : rowlock_queue_put(p->c->client, p->c->name, payload, (size_t)size, NULL,
                                           NULL, &err),
             &err);
        ts_sql(p->mysql, "COMMIT");
    }
}

static void *do_items(void *arg)
{
    part *p = arg;
    p->mysql = ts_connect(p->c->schema);
    put_items(p);
    while (ts_sql_u64(p->mysql, "SELECT more FROM goal")) {
        const rowlock_take_options how = {.wait_ms = 5000, .ttl_ms = 60000};
        rowlock_item *item = NULL;
        rowlock_error err = {0};
        rowlock_status status = rowlock_queue_take(p->c->client, p->c->name, &how, &item, &err);
        if (status == ROWLOCK_TIMEOUT)
            continue;
        must("queue_take", status, &err);
        do_item(p, item);
    }
    mysql_close(p->mysql);
    mysql_thread_end();
    return NULL;
}

static int take_parts(contender *c, void *(*take)(void *))
{
    pthread_t threads[THREADS];
    part parts[THREADS];
    for (int i = 0; i < THREADS; i++) {
        parts[i] = (part){.c = c, .in_one = i == 1};
        snprintf(parts[i].who, sizeof parts[i].who, "c%d", i % 10);
        if (pthread_create(&threads[i], NULL, take, &parts[i]))
            return 1;
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    rowlock_client_close(c->client);
    return 0;
}

/* ------------------------------------------------------------------------------- which */

static int contend(char **words)
{
    pthread_t threads[THREADS];
    contender c = {.schema = words[0], .name = words[1], .statement = words[3]};
    c.client = ts_open_with(ts_options_on(c.schema));
    if (strcmp(words[2], "latch") == 0)
        return take_parts(&c, take_part);
    if (strcmp(words[2], "once") == 0)
        return take_parts(&c, do_jobs);
    if (strcmp(words[2], "queue") == 0)
        return take_parts(&c, do_items);
    if (strcmp(words[2], "observe") == 0)
        return look_on(&c);
    c.options.wait_ms = 60000;
    c.options.value = strcmp(words[2], "lead") == 0 ? "c" : NULL;
    c.options.shared = strcmp(words[2], "shared") == 0;
    c.options.slots = (unsigned)strtoul(words[2], NULL, 10); /* 0 if it is a word */
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, take_turns, &c))
            return 1;
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    rowlock_client_close(c.client);
    return 0;
}

static int obey(void)
{
    static session s;
    race_step step = {.session = 0};
    char outcome[OUTCOME_MAX];
    ts_suite_begin(NULL);
    setvbuf(stdout, NULL, _IOLBF, 0);
    puts(ts_schema());
    while (fgets(step.command, sizeof step.command, stdin)) {
        step.command[strcspn(step.command, "\n")] = 0;
        if (!s.client) {
            session_prepare(&s, "c", &s, 1);
            session_start(&s);
        }
        session_begin(&s, &step);
        if (!POLL_UNTIL(session_done(&s, outcome), 90000))
            return 1;
        puts(outcome);
    }
    if (s.client)
        session_end(&s);
    return ts_suite_end(NULL);
}

int main(int argc, char **argv)
{
    return argc == WORDS ? contend(argv + 1) : obey();
}
