/*
 * What each operation costs on the wire, against the table of docs/performance.md: round trips
 * that the caller waits for, statements, commits that write, and round trips of the keeper.
 *
 * Connector/C's send(), recv() and connect() are those of this program, which counts for each
 * thread; so a reply that nobody waits for, and what the keeper does, are told apart without a
 * clock. What was counted must be in the server's general log, command for command. Commits that
 * write are InnoDB's own count, on a server that has nobody else.
 */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "mode/hold.h"
#include "rowlock/rowlock_mysql.h"
#include "support/own_server.h"
#include "support/support.h"

enum {
    FDS = 1024,
    MANY = 1000,
    SET = 3,
    EVENTS = 100,
    ROWS_MAX = 100,
    NO_GATE = -1,
    NOWHERE = -1,
    NOTHING = -1
};
enum { LONG_TTL = 300000, IN_TIME = 10000 };

/* ---------------------------------------------------------------------------- the wire */

typedef struct traffic {
    unsigned commands;   /* sent, the login among them */
    unsigned statements; /* of those: run, not only prepared */
    unsigned unlogged;   /* pings, which the log has not; goodbyes, which it has some time later;
                          * preparations, which MySQL may repeat when it first knows the types */
    unsigned answers;    /* commands that were answered, and a server's greeting */
} traffic;

/* What a thread has sent and received. */
typedef struct wire {
    traffic now;
    traffic queued; /* as it was when it had just begun to stand in a bell's queue */
    traffic rung;   /* as it was when that had just been answered */
    int queue_fd;
    int gate; /* commands that may still go out before it stops; NO_GATE: all */
    bool at_gate;
    unsigned measuring; /* the how manieth */
} wire;

/* Who has sent something on a descriptor that nothing has come back on, and in which measuring:
 * what comes later is not its answer any more. */
typedef struct question {
    const wire *by;
    unsigned measuring;
} question;

static pthread_mutex_t wires = PTHREAD_MUTEX_INITIALIZER; /* guards all of these */
static pthread_cond_t gates = PTHREAD_COND_INITIALIZER;
static question questions[FDS];
static wire of_keepers; /* of every thread that has none of its own */
static wire of_test;    /* of the test itself */
static _Thread_local wire *mine;
static bool prepares_again; /* the server may log a Prepare that nobody sent */

/* What a packet commands; NOTHING: it is of the login, whose sequence goes on from the server's. */
static int command_of(const unsigned char *packet, size_t length)
{
    return length > 4 && packet[3] == 0 ? packet[4] : NOTHING;
}

static bool has_asked(const wire *w, int fd)
{
    return questions[fd].by == w && questions[fd].measuring == w->measuring;
}

static void note_command(wire *w, int fd, const void *packet, size_t length)
{
    if (has_asked(w, fd)) /* the rest of a long one */
        return;
    questions[fd] = (question){.by = w, .measuring = w->measuring};
    w->now.commands++;
    int command = command_of(packet, length);
    w->now.statements += command == COM_QUERY || command == COM_STMT_EXECUTE;
    w->now.unlogged += command == COM_PING || command == COM_QUIT ||
                       (prepares_again && command == COM_STMT_PREPARE);
    if (memmem(packet, length, "'rowlock-waiter'", 16)) {
        w->queued = w->now;
        w->queue_fd = fd;
    }
}

static void note_answer(wire *w, int fd)
{
    if (!has_asked(w, fd)) /* the rest of a long one, or nobody waited for it */
        return;
    questions[fd] = (question){0};
    w->now.answers++;
    if (fd != w->queue_fd)
        return;
    w->rung = w->now;
    w->queue_fd = NOWHERE;
}

static void pass_gate(wire *w)
{
    while (w->gate == 0) {
        w->at_gate = true;
        pthread_cond_wait(&gates, &wires);
    }
    w->at_gate = false;
    if (w->gate > 0)
        w->gate--;
}

/* Connector/C is to find them. */
#define VISIBLE __attribute__((visibility("default")))

VISIBLE ssize_t send(int fd, const void *data, size_t length, int flags)
{
    wire *w = mine ? mine : &of_keepers;
    pthread_mutex_lock(&wires);
    pass_gate(w);
    note_command(w, fd, data, length);
    pthread_mutex_unlock(&wires);
    return sendto(fd, data, length, flags, NULL, 0);
}

VISIBLE ssize_t recv(int fd, void *data, size_t length, int flags)
{
    ssize_t got = recvfrom(fd, data, length, flags, NULL, NULL);
    if (got <= 0 || (flags & MSG_PEEK))
        return got;
    pthread_mutex_lock(&wires);
    note_answer(mine ? mine : &of_keepers, fd);
    pthread_mutex_unlock(&wires);
    return got;
}

/* The server speaks first. */
VISIBLE int connect(int fd, __CONST_SOCKADDR_ARG address, socklen_t length)
{
    const wire *w = mine ? mine : &of_keepers;
    if (fd >= FDS)
        abort();
    pthread_mutex_lock(&wires);
    questions[fd] = (question){.by = w, .measuring = w->measuring};
    pthread_mutex_unlock(&wires);
    return (int)syscall(SYS_connect, fd, address.__sockaddr__, length);
}

static traffic sum(traffic one, traffic other)
{
    return (traffic){.commands = one.commands + other.commands,
                     .statements = one.statements + other.statements,
                     .unlogged = one.unlogged + other.unlogged,
                     .answers = one.answers + other.answers};
}

static traffic between(traffic from, traffic to)
{
    return (traffic){.commands = to.commands - from.commands,
                     .statements = to.statements - from.statements,
                     .unlogged = to.unlogged - from.unlogged,
                     .answers = to.answers - from.answers};
}

static void set_gate(wire *w, int commands)
{
    pthread_mutex_lock(&wires);
    w->gate = commands;
    pthread_cond_broadcast(&gates);
    pthread_mutex_unlock(&wires);
}

static bool stands_at_gate(wire *w)
{
    pthread_mutex_lock(&wires);
    bool stands = w->at_gate;
    pthread_mutex_unlock(&wires);
    return stands;
}

/* -------------------------------------------------------------------- who is measured */

typedef struct cost {
    unsigned trips; /* that the caller waits for */
    unsigned statements;
    unsigned writes; /* commits that write */
    unsigned keeper; /* round trips of the keeper */
} cost;

/* A client with a user of its own, by which the server's log knows it. */
typedef struct party {
    const char *user;
    rowlock_client *client;
    wire wire;
    /* when the measuring began */
    traffic keeper;
    uint64_t logged;
    uint64_t logged_statements;
    uint64_t writes;
} party;

static MYSQL *mysql;
static party holder;
static party waiter;
static char password[] = "wire";

static rowlock_client *open_client(const party *p, rowlock_waiting way, bool history)
{
    rowlock_client_options options = ts_options();
    rowlock_client *client = NULL;
    options.user = p->user;
    options.password = password;
    options.waiting = way;
    options.no_history = !history;
    WANT(OK, rowlock_client_open(&options, &client, &ts_err));
    return client;
}

static uint64_t logged(const party *p, const char *condition)
{
    return ts_sql_u64(mysql,
                      "SELECT COUNT(*) FROM mysql.general_log"
                      " WHERE (user_host LIKE '%s[%%' OR user_host LIKE '[%s]%%') AND %s",
                      p->user, p->user, condition);
}

static uint64_t logged_commands(const party *p)
{
    return logged(p, prepares_again ? "command_type NOT IN ('Quit', 'Prepare')"
                                    : "command_type <> 'Quit'");
}

static uint64_t logged_statements(const party *p)
{
    return logged(p, "command_type IN ('Query', 'Execute')");
}

/* Transactions that changed a row: each is written to the disk before its COMMIT is answered. */
static uint64_t writes_so_far(void)
{
    return ts_sql_u64(mysql, "SELECT `count` FROM information_schema.innodb_metrics"
                             " WHERE name = 'trx_commits_insert_update'");
}

static void begin_count(party *p)
{
    p->logged = logged_commands(p);
    p->logged_statements = logged_statements(p);
    p->writes = writes_so_far();
    pthread_mutex_lock(&wires);
    p->wire = (wire){.gate = NO_GATE, .queue_fd = NOWHERE, .measuring = p->wire.measuring + 1};
    p->keeper = of_keepers.now;
    pthread_mutex_unlock(&wires);
}

/* The server has written every command into its log, and no other. */
static void check_log(const party *p, traffic all)
{
    unsigned commands = all.commands - all.unlogged;
    (void)POLL_UNTIL(logged_commands(p) - p->logged >= commands, IN_TIME);
    assert_int_equal(logged_commands(p) - p->logged, commands);
    assert_int_equal(logged_statements(p) - p->logged_statements, all.statements);
}

static traffic so_far(const wire *w)
{
    pthread_mutex_lock(&wires);
    traffic now = w->now;
    pthread_mutex_unlock(&wires);
    return now;
}

static cost end_count(const party *p)
{
    traffic caller = so_far(&p->wire);
    traffic keeper = between(p->keeper, so_far(&of_keepers));
    traffic all = sum(caller, keeper);
    check_log(p, all);
    return (cost){.trips = caller.answers,
                  .statements = all.statements,
                  .writes = (unsigned)(writes_so_far() - p->writes),
                  .keeper = keeper.answers};
}

/* The calls in between are the holder's, in this thread. */
static void begin_calls(void)
{
    begin_count(&holder);
    mine = &holder.wire;
}

static cost end_calls(void)
{
    mine = &of_test;
    return end_count(&holder);
}

/* ------------------------------------------------------------------------- the calls */

/* They wait, though for nothing: a try that the server keeps for long goes another way. */
static const rowlock_acquire_options lease = {.ttl_ms = LONG_TTL, .wait_ms = IN_TIME};
static const rowlock_acquire_options fenced = {
    .mode = ROWLOCK_PESSIMISTIC, .ttl_ms = LONG_TTL, .wait_ms = IN_TIME};
static const rowlock_acquire_options unfenced = {
    .mode = ROWLOCK_PESSIMISTIC, .ttl_ms = LONG_TTL, .wait_ms = IN_TIME, .unfenced = true};

static rowlock_hold *take(rowlock_client *client, const char *name,
                          const rowlock_acquire_options *options)
{
    rowlock_hold *hold = NULL;
    WANT(OK, rowlock_acquire(client, name, options, &hold, &ts_err));
    return hold;
}

static void let_go(rowlock_hold *hold)
{
    WANT(OK, rowlock_release(hold, &ts_err));
}

/* A name that this client knows, with statements that it has prepared. */
static const char *warm_name(const rowlock_acquire_options *options)
{
    const char *name = ts_name("wire");
    for (unsigned i = 0; i < 2; i++)
        let_go(take(holder.client, name, options));
    return name;
}

static cost cost_of_acquire(const rowlock_acquire_options *options)
{
    const char *name = warm_name(options);
    begin_calls();
    rowlock_hold *hold = take(holder.client, name, options);
    cost c = end_calls();
    let_go(hold);
    return c;
}

static cost cost_of_release(const rowlock_acquire_options *options)
{
    rowlock_hold *hold = take(holder.client, warm_name(options), options);
    begin_calls();
    let_go(hold);
    return end_calls();
}

/* False: it took so long that it may have gone another way (the look for the message alone is
 * stopped after half of RL_GRACE_US), and left connections that have prepared nothing. */
static bool quick_try(const char *name, const rowlock_acquire_options *options)
{
    rowlock_hold *none = NULL;
    int64_t start_us = rl_now_us();
    WANT(BUSY, rowlock_acquire(holder.client, name, options, &none, &ts_err));
    return rl_now_us() - start_us < RL_GRACE_US / 3;
}

/* A try of what the waiter holds. */
static cost cost_of_busy(const rowlock_acquire_options *waiting)
{
    const char *name = warm_name(waiting);
    rowlock_hold *hold = take(waiter.client, name, waiting);
    rowlock_acquire_options options = *waiting;
    options.wait_ms = 0;
    cost c = {0};
    bool quick = false;
    for (int64_t end_ms = ts_now_ms() + 2 * IN_TIME; !quick && ts_now_ms() < end_ms;) {
        quick = quick_try(name, &options);
        begin_calls();
        quick = quick_try(name, &options) && quick;
        c = end_calls();
    }
    if (!quick)
        print_error("the server is too slow for a try\n");
    let_go(hold);
    return c;
}

/* A call in a thread of its own. */
typedef struct task {
    party *party;
    const char *name;
    rowlock_hold *hold; /* to be released; NULL: to be acquired */
    pthread_t thread;
    rowlock_status status;
    rowlock_error err;
    atomic_bool ended;
} task;

static void *run_task(void *arg)
{
    task *t = arg;
    mine = &t->party->wire;
    if (t->hold) {
        t->status = rowlock_release(t->hold, &t->err);
    } else {
        rowlock_acquire_options options = lease;
        options.wait_ms = 3 * IN_TIME;
        t->status = rowlock_acquire(t->party->client, t->name, &options, &t->hold, &t->err);
    }
    atomic_store(&t->ended, true);
    return NULL;
}

static void start_task(task *t)
{
    assert_int_equal(pthread_create(&t->thread, NULL, run_task, t), 0);
}

static rowlock_hold *end_task(task *t)
{
    assert_true(POLL_UNTIL(atomic_load(&t->ended), IN_TIME));
    pthread_join(t->thread, NULL);
    ts_err = t->err;
    WANT(OK, t->status);
    return t->hold;
}

/* Has this client just had to wait for it? */
static void note_wait(const party *p, const char *name, bool waited)
{
    rl_line_note(&p->client->lines, ts_id_of(mysql, name), waited);
}

static void queue_up(task *t, bool waited)
{
    note_wait(t->party, t->name, waited);
    start_task(t);
    assert_true(POLL_UNTIL(ts_in_queue(mysql, t->name), IN_TIME));
}

/* One of the two holds it, the other waits, and gets it: now and then, until every statement
 * of this is prepared on both sides. The holder has it then, and has waited for it. */
static rowlock_hold *pass_to_and_fro(const char *name)
{
    rowlock_hold *hold = take(holder.client, name, &lease);
    for (unsigned i = 0; i < 4; i++) {
        task next = {.party = i % 2 ? &holder : &waiter, .name = name};
        queue_up(&next, false);
        let_go(hold);
        hold = end_task(&next);
    }
    return hold;
}

/* ------------------------------------------------------------------------ leases */

static cost lease_acquire(void)
{
    return cost_of_acquire(&lease);
}

static cost lease_release(void)
{
    return cost_of_release(&lease);
}

static cost lease_cycle(void)
{
    const char *name = warm_name(&lease);
    begin_calls();
    let_go(take(holder.client, name, &lease));
    return end_calls();
}

static cost lease_busy(void)
{
    return cost_of_busy(&lease);
}

/* The waiter's process has died, as far as the server knows. */
static cost lease_take_over(void)
{
    cost c = {0};
    for (unsigned i = 0; i < 2; i++) {
        const char *name = warm_name(&lease);
        rowlock_hold *dead = take(waiter.client, name, &lease);
        ts_expire(mysql, name, ROWLOCK_OPTIMISTIC);
        begin_calls();
        rowlock_hold *hold = take(holder.client, name, &lease);
        c = end_calls();
        let_go(hold);
        WANT(LOST, rowlock_release(dead, &ts_err));
    }
    return c;
}

static cost lease_acquire_again(void)
{
    cost c = {0};
    for (unsigned i = 0; i < 2; i++) {
        const char *name = warm_name(&lease);
        note_wait(&holder, name, true);
        begin_calls();
        rowlock_hold *hold = take(holder.client, name, &lease);
        c = end_calls();
        let_go(hold);
    }
    return c;
}

/* From the call until it waits; the answer to its last statement is the ring. */
static cost lease_wait(bool waited)
{
    const char *name = warm_name(&lease);
    rowlock_hold *hold = pass_to_and_fro(name);
    task next = {.party = &waiter, .name = name};
    begin_count(&waiter);
    queue_up(&next, waited);
    uint64_t writes = writes_so_far() - waiter.writes;
    let_go(hold);
    hold = end_task(&next);
    (void)end_count(&waiter);
    let_go(hold);
    return (cost){.trips = waiter.wire.queued.answers,
                  .statements = waiter.wire.queued.statements,
                  .writes = (unsigned)writes};
}

static cost lease_wait_first(void)
{
    return lease_wait(false);
}

static cost lease_wait_again(void)
{
    return lease_wait(true);
}

/* A holder that did not wait lets go, and the waiter comes when that is done. */
static void hand_over_plainly(cost *releasing, cost *inheriting)
{
    const char *name = warm_name(&lease);
    let_go(pass_to_and_fro(name));
    note_wait(&holder, name, false);
    rowlock_hold *hold = take(holder.client, name, &lease);
    task next = {.party = &waiter, .name = name};
    begin_count(&waiter);
    queue_up(&next, false);
    set_gate(&waiter.wire, 0);
    begin_calls();
    let_go(hold);
    *releasing = end_calls();
    assert_true(POLL_UNTIL(stands_at_gate(&waiter.wire), IN_TIME));
    uint64_t writes = writes_so_far();
    set_gate(&waiter.wire, NO_GATE);
    hold = end_task(&next);
    traffic after = between(waiter.wire.rung, waiter.wire.now);
    *inheriting = (cost){.trips = after.answers,
                         .statements = after.statements,
                         .writes = (unsigned)(writes_so_far() - writes)};
    (void)end_count(&waiter);
    let_go(hold);
}

static cost lease_release_awaited(void)
{
    cost releasing;
    cost inheriting;
    hand_over_plainly(&releasing, &inheriting);
    return releasing;
}

static cost lease_after_ring(void)
{
    cost releasing;
    cost inheriting;
    hand_over_plainly(&releasing, &inheriting);
    return inheriting;
}

/* The holder has waited: it gives its word, the waiter takes the lease by it, and then the holder
 * frees what nobody has taken: nothing. What each of them wrote is read while the other stands. */
static cost lease_hand_over(void)
{
    const char *name = warm_name(&lease);
    rowlock_hold *hold = pass_to_and_fro(name);
    task next = {.party = &waiter, .name = name};
    begin_count(&waiter);
    queue_up(&next, false);
    set_gate(&waiter.wire, 0);
    begin_count(&holder);
    set_gate(&holder.wire, 1);
    task last = {.party = &holder, .name = name, .hold = hold};
    start_task(&last);
    assert_true(POLL_UNTIL(stands_at_gate(&holder.wire), IN_TIME));
    assert_true(POLL_UNTIL(stands_at_gate(&waiter.wire), IN_TIME));
    uint64_t word = writes_so_far();
    set_gate(&waiter.wire, NO_GATE);
    hold = end_task(&next);
    uint64_t inherited = writes_so_far();
    assert_int_equal(inherited - word, 1);
    set_gate(&holder.wire, NO_GATE);
    (void)end_task(&last);
    cost c = end_count(&holder);
    c.writes -= (unsigned)(inherited - word);
    let_go(hold);
    return c;
}

static cost lease_release_alone(void)
{
    cost c = {0};
    for (unsigned i = 0; i < 2; i++) {
        rowlock_hold *hold = pass_to_and_fro(warm_name(&lease));
        begin_calls();
        let_go(hold);
        c = end_calls();
    }
    return c;
}

/* Every lease of the holder's is due now; until the keeper has done it. */
static bool is_renewed(const rowlock_hold *hold)
{
    rl_keeper *keeper = &hold->client->keeper;
    pthread_mutex_lock(&keeper->mutex);
    bool renewed = hold->held.next_beat_us != 0 && hold->held.next_beat_us != RL_NEVER;
    pthread_mutex_unlock(&keeper->mutex);
    return renewed;
}

static void beat_now(const rowlock_hold *last)
{
    rl_keeper *keeper = &last->client->keeper;
    pthread_mutex_lock(&keeper->mutex);
    for (rl_held *held = keeper->leases.first; held; held = held->next)
        held->next_beat_us = 0;
    for (rl_held *held = keeper->rows.first; held; held = held->next)
        held->next_beat_us = 0;
    keeper->renewal_us = keeper->due_us = 0;
    pthread_mutex_unlock(&keeper->mutex);
    rl_keeper_wake(keeper);
    assert_true(POLL_UNTIL(is_renewed(last), IN_TIME));
}

static cost cost_of_beat(const rowlock_hold *hold)
{
    beat_now(hold);
    begin_calls();
    beat_now(hold);
    return end_calls();
}

static cost lease_renewal(void)
{
    rowlock_hold *hold = take(holder.client, warm_name(&lease), &lease);
    cost c = cost_of_beat(hold);
    let_go(hold);
    return c;
}

/* Quickly: neither logged nor written at once. */
static void be_careless(bool yes)
{
    ts_sql(mysql, "SET GLOBAL general_log = %d", !yes);
    ts_sql(mysql, "SET GLOBAL innodb_flush_log_at_trx_commit = %d", !yes);
}

static cost lease_renewal_of_many(void)
{
    static rowlock_hold *holds[MANY];
    be_careless(true);
    for (unsigned i = 0; i < MANY; i++)
        holds[i] = take(holder.client, ts_name("many"), &lease);
    be_careless(false);
    cost c = cost_of_beat(holds[MANY - 1]);
    be_careless(true);
    for (unsigned i = 0; i < MANY; i++)
        let_go(holds[i]);
    be_careless(false);
    return c;
}

static void poll_instead(void)
{
    rowlock_client_close(holder.client);
    holder.client = open_client(&holder, ROWLOCK_WAITING_POLL, false);
}

static cost lease_acquire_polling(void)
{
    poll_instead();
    return cost_of_acquire(&lease);
}

static cost lease_release_polling(void)
{
    poll_instead();
    return cost_of_release(&lease);
}

static cost cost_of_new_name(const rowlock_acquire_options *options)
{
    warm_name(options);
    begin_calls();
    rowlock_hold *hold = take(holder.client, ts_name("new"), options);
    cost c = end_calls();
    let_go(hold);
    return c;
}

static cost lease_new_name(void)
{
    return cost_of_new_name(&lease);
}

static cost lease_fresh_client(void)
{
    const char *name = warm_name(&lease);
    begin_count(&waiter);
    mine = &waiter.wire;
    rowlock_hold *hold = take(waiter.client, name, &lease);
    mine = &of_test;
    cost c = end_count(&waiter);
    let_go(hold);
    return c;
}

/* ------------------------------------------------------------------------ row locks */

static cost row_acquire_unfenced(void)
{
    return cost_of_acquire(&unfenced);
}

static cost row_release_unfenced(void)
{
    return cost_of_release(&unfenced);
}

static cost row_acquire_fenced(void)
{
    return cost_of_acquire(&fenced);
}

static cost row_release_fenced(void)
{
    return cost_of_release(&fenced);
}

static const rowlock_release_options no_reply = {.no_reply = true};

static cost row_release_no_reply(void)
{
    rowlock_hold *hold = take(holder.client, warm_name(&unfenced), &unfenced);
    begin_calls();
    WANT(OK, rowlock_release_with(hold, &no_reply, &ts_err));
    return end_calls();
}

static cost row_acquire_after_no_reply(void)
{
    const char *name = warm_name(&unfenced);
    rowlock_hold *hold = take(holder.client, name, &unfenced);
    begin_count(&holder);
    mine = &holder.wire;
    WANT(OK, rowlock_release_with(hold, &no_reply, &ts_err));
    (void)end_calls();
    begin_calls();
    hold = take(holder.client, name, &unfenced);
    cost c = end_calls();
    let_go(hold);
    return c;
}

static cost row_acquire_once_fenced(void)
{
    const char *name = warm_name(&fenced);
    let_go(take(holder.client, name, &unfenced));
    begin_calls();
    rowlock_hold *hold = take(holder.client, name, &unfenced);
    cost c = end_calls();
    let_go(hold);
    return c;
}

static cost row_acquire_first_fenced(void)
{
    cost c = {0};
    for (unsigned i = 0; i < 2; i++) {
        const char *name = warm_name(&unfenced);
        begin_calls();
        rowlock_hold *hold = take(holder.client, name, &fenced);
        c = end_calls();
        let_go(hold);
    }
    return c;
}

static cost row_busy(void)
{
    return cost_of_busy(&fenced);
}

static cost row_new_name(void)
{
    return cost_of_new_name(&fenced);
}

static rowlock_hold *take_set(const char *const *names, const rowlock_acquire_options *options)
{
    rowlock_hold *hold = NULL;
    WANT(OK, rowlock_acquire_set(holder.client, names, SET, options, &hold, &ts_err));
    return hold;
}

static void cost_of_set(const rowlock_acquire_options *options, cost *acquire, cost *release)
{
    const char *names[SET];
    for (unsigned i = 0; i < SET; i++)
        names[i] = warm_name(options);
    begin_calls();
    rowlock_hold *hold = take_set(names, options);
    *acquire = end_calls();
    begin_calls();
    let_go(hold);
    *release = end_calls();
}

static cost set_acquire_unfenced(void)
{
    cost acquire;
    cost release;
    cost_of_set(&unfenced, &acquire, &release);
    return acquire;
}

static cost set_release_unfenced(void)
{
    cost acquire;
    cost release;
    cost_of_set(&unfenced, &acquire, &release);
    return release;
}

static cost set_acquire_fenced(void)
{
    cost acquire;
    cost release;
    cost_of_set(&fenced, &acquire, &release);
    return acquire;
}

static cost set_release_fenced(void)
{
    cost acquire;
    cost release;
    cost_of_set(&fenced, &acquire, &release);
    return release;
}

static cost row_ping(void)
{
    rowlock_hold *hold = take(holder.client, warm_name(&unfenced), &unfenced);
    cost c = cost_of_beat(hold);
    let_go(hold);
    return c;
}

/* -------------------------------------------------- sections, the caller's connection */

static rowlock_status do_nothing(void *data, const rowlock_section *section)
{
    (void)data;
    (void)section;
    return ROWLOCK_OK;
}

static rowlock_status do_nothing_tx(void *data, const rowlock_section *section, MYSQL *own)
{
    (void)own;
    return do_nothing(data, section);
}

static const char *warm_section(void)
{
    const char *name = ts_name("section");
    WANT(OK, rowlock_section_run(holder.client, name, NULL, do_nothing, NULL, NULL, &ts_err));
    return name;
}

static cost section_run(void)
{
    const char *name = warm_section();
    begin_calls();
    WANT(OK, rowlock_section_run(holder.client, name, NULL, do_nothing, NULL, NULL, &ts_err));
    return end_calls();
}

static cost version_read(void)
{
    const char *name = warm_section();
    uint64_t version = 0;
    begin_calls();
    WANT(OK, rowlock_version_read(holder.client, name, &version, &ts_err));
    return end_calls();
}

static cost version_bump(void)
{
    const char *name = warm_section();
    uint64_t version = 0;
    WANT(OK, rowlock_version_read(holder.client, name, &version, &ts_err));
    begin_calls();
    WANT(OK, rowlock_version_bump(holder.client, name, version, &version, &ts_err));
    return end_calls();
}

static MYSQL *own_connection(void)
{
    return ts_connect_as(holder.user, password, ts_schema());
}

static cost tx_section_run(void)
{
    const char *name = warm_section();
    MYSQL *own = own_connection();
    begin_calls();
    WANT(OK, rowlock_tx_section_run(holder.client, own, name, NULL, do_nothing_tx, NULL, NULL,
                                    &ts_err));
    cost c = end_calls();
    mysql_close(own);
    return c;
}

static cost tx_acquire(void)
{
    const rowlock_tx_options options = {.wait_ms = IN_TIME};
    const char *name = warm_name(&unfenced);
    MYSQL *own = own_connection();
    cost c = {0};
    for (unsigned i = 0; i < 2; i++) {
        ts_sql(own, "START TRANSACTION");
        begin_calls();
        WANT(OK, rowlock_tx_acquire(holder.client, own, name, &options, &ts_err));
        c = end_calls();
        ts_sql(own, "COMMIT");
    }
    mysql_close(own);
    return c;
}

static cost fence(void)
{
    rowlock_hold *hold = take(holder.client, warm_name(&lease), &lease);
    MYSQL *own = own_connection();
    ts_sql(own, "START TRANSACTION");
    begin_calls();
    WANT(OK, rowlock_fence(hold, own, &ts_err));
    cost c = end_calls();
    ts_sql(own, "COMMIT");
    mysql_close(own);
    let_go(hold);
    return c;
}

/* ------------------------------------------------------------------------- the client */

static cost looking_at_hold(void)
{
    rowlock_hold *hold = take(holder.client, warm_name(&lease), &lease);
    begin_calls();
    assert_held(hold);
    assert_true(rowlock_hold_remaining_ms(hold) > 0);
    assert_true(rowlock_hold_token(hold) > 0);
    cost c = end_calls();
    let_go(hold);
    return c;
}

/* The keeper does not begin to write before all of them are there. */
static void record_many(rowlock_client *client)
{
    const rl_event event = {.name = "wire",
                            .kind = "optimistic",
                            .event = "acquired",
                            .owner = "nobody",
                            .label = "nobody"};
    pthread_mutex_lock(&client->keeper.mutex);
    for (unsigned i = 0; i < EVENTS; i++)
        rl_client_record(client, &event);
    pthread_mutex_unlock(&client->keeper.mutex);
    WANT(OK, rowlock_client_flush(client, IN_TIME, &ts_err));
}

static cost history(void)
{
    rowlock_client_close(holder.client);
    holder.client = open_client(&holder, ROWLOCK_WAITING_AUTO, true);
    record_many(holder.client);
    begin_calls();
    record_many(holder.client);
    return end_calls();
}

static cost client_open(void)
{
    begin_calls();
    rowlock_client *client = open_client(&holder, ROWLOCK_WAITING_AUTO, true);
    cost c = end_calls();
    rowlock_client_close(client);
    return c;
}

static cost client_close(void)
{
    rowlock_client *client = open_client(&holder, ROWLOCK_WAITING_AUTO, true);
    begin_calls();
    rowlock_client_close(client);
    return end_calls();
}

/* -------------------------------------------------------------------------- the table */

typedef struct row {
    const char *operation; /* as in the document */
    cost (*measure)(void);
} row;

static const row rows[] = {
    {"acquire, free", lease_acquire},
    {"acquire, free, but this client has just had to wait for it", lease_acquire_again},
    {"release", lease_release},
    {"acquire + release", lease_cycle},
    {"a try, held by another", lease_busy},
    {"acquire, the holder dead and its time over", lease_take_over},
    {"a waiter, from its call until it waits", lease_wait_first},
    {"the same, where this client has just had to wait for it", lease_wait_again},
    {"a waiter, from the ring until it holds", lease_after_ring},
    {"release, somebody waits", lease_release_awaited},
    {"release by one who had waited, somebody waits", lease_hand_over},
    {"release by one who had waited, nobody waits", lease_release_alone},
    {"acquire, `waiting = poll`", lease_acquire_polling},
    {"release, `waiting = poll`", lease_release_polling},
    {"acquire, the name is new", lease_new_name},
    {"acquire, the client is new", lease_fresh_client},
    {"renewal of 1 lease", lease_renewal},
    {"renewal of 1,000 leases", lease_renewal_of_many},
    {"acquire, unfenced", row_acquire_unfenced},
    {"release, unfenced", row_release_unfenced},
    {"release, unfenced, `no_reply`", row_release_no_reply},
    {"acquire, unfenced, after that", row_acquire_after_no_reply},
    {"acquire, unfenced, of a name that was ever fenced", row_acquire_once_fenced},
    {"acquire, fenced", row_acquire_fenced},
    {"release, fenced", row_release_fenced},
    {"acquire, fenced, of a name that never was", row_acquire_first_fenced},
    {"acquire, fenced, the name is new", row_new_name},
    {"a try, locked by another", row_busy},
    {"acquire of a set of 3, unfenced", set_acquire_unfenced},
    {"release of a set of 3, unfenced", set_release_unfenced},
    {"acquire of a set of 3, fenced", set_acquire_fenced},
    {"release of a set of 3, fenced", set_release_fenced},
    {"ping, every TTL/3", row_ping},
    {"`rowlock_section_run()`: read and commit", section_run},
    {"`rowlock_version_read()`", version_read},
    {"`rowlock_version_bump()`", version_bump},
    {"`rowlock_tx_section_run()`", tx_section_run},
    {"`rowlock_tx_acquire()`", tx_acquire},
    {"`rowlock_fence()`", fence},
    {"`rowlock_hold_check()`, `_remaining_ms()`, `_token()`", looking_at_hold},
    {"`rowlock_client_flush()`, 100 events", history},
    {"`rowlock_client_open()`", client_open},
    {"`rowlock_client_close()`, nothing held", client_close},
};

#define ROWS (sizeof rows / sizeof rows[0])

/* ------------------------------------------------------------------------ the document */

typedef struct paper_row {
    char operation[120];
    cost cost;
} paper_row;

static paper_row paper[ROWS_MAX];
static unsigned paper_rows;

static const paper_row *in_paper(const char *operation)
{
    for (unsigned i = 0; i < paper_rows; i++)
        if (strcmp(paper[i].operation, operation) == 0)
            return &paper[i];
    return NULL;
}

/* "| operation | 1 | 1 | 1 | 0 |" */
static void read_row(const char *line)
{
    paper_row said = {0};
    char end = 0;
    int read = sscanf(line, "| %119[^|]| %u | %u | %u | %u %c", said.operation, &said.cost.trips,
                      &said.cost.statements, &said.cost.writes, &said.cost.keeper, &end);
    if (read != 6 || end != '|') {
        print_error("not a row of five cells: %s", line);
        fail();
    }
    for (size_t n = strlen(said.operation); n > 0 && isspace((unsigned char)said.operation[n - 1]);)
        said.operation[--n] = 0;
    assert_null(in_paper(said.operation));
    assert_true(paper_rows < ROWS_MAX);
    paper[paper_rows++] = said;
}

/* Every line of every table in the section, but the head of each. */
static void read_paper(void)
{
    char line[1000];
    bool ours = false;
    unsigned of_table = 0;
    FILE *file = fopen(ROWLOCK_PERFORMANCE_MD, "re");
    assert_non_null(file);
    while (fgets(line, sizeof line, file)) {
        if (strncmp(line, "## ", 3) == 0)
            ours = strcmp(line, "## Round trips\n") == 0;
        of_table = *line == '|' ? of_table + 1 : 0;
        if (ours && of_table > 2)
            read_row(line);
    }
    fclose(file);
}

static void test_every_row_is_measured(void **state)
{
    (void)state;
    for (unsigned i = 0; i < paper_rows; i++) {
        size_t at = 0;
        while (at < ROWS && strcmp(rows[at].operation, paper[i].operation) != 0)
            at++;
        if (at == ROWS) {
            print_error("in docs/performance.md, but not measured: %s\n", paper[i].operation);
            fail();
        }
    }
    assert_int_equal(paper_rows, ROWS);
}

static void print_cost(const char *who, cost c)
{
    print_error("  %-8s %u round trips, %u statements, %u writes, %u round trips of the keeper\n",
                who, c.trips, c.statements, c.writes, c.keeper);
}

static void test_row(void **state)
{
    const row *r = *state;
    cost c = r->measure();
    const paper_row *said = in_paper(r->operation);
    if (said && memcmp(&said->cost, &c, sizeof c) == 0)
        return;
    print_error("%s\n", r->operation);
    print_cost("measured", c);
    if (said)
        print_cost("document", said->cost);
    else
        print_error("  is not in docs/performance.md\n");
    fail();
}

/* ------------------------------------------------------------------------- set-up */

static int open_both(void **state)
{
    (void)state;
    mine = &of_test;
    holder.client = open_client(&holder, ROWLOCK_WAITING_AUTO, false);
    waiter.client = open_client(&waiter, ROWLOCK_WAITING_AUTO, false);
    return 0;
}

static int close_both(void **state)
{
    (void)state;
    rowlock_client_close(holder.client);
    rowlock_client_close(waiter.client);
    return 0;
}

static void make_user(party *p, const char *word)
{
    p->user = ts_user(word, password, "SELECT, INSERT, UPDATE, DELETE", ts_schema());
    p->wire.gate = NO_GATE;
}

static int begin(void **state)
{
    of_test.gate = of_keepers.gate = NO_GATE;
    mine = &of_test;
    ts_own_start_with("--log-output=TABLE --innodb-stats-auto-recalc=OFF"
                      " --innodb-monitor-enable=trx_commits_insert_update");
    ts_suite_begin(state);
    mysql = ts_connect(ts_schema());
    make_user(&holder, "holder");
    make_user(&waiter, "waiter");
    prepares_again = ts_is_mysql(mysql);
    ts_sql(mysql, "SET GLOBAL general_log = ON");
    read_paper();
    return 0;
}

static int end(void **state)
{
    mysql_close(mysql);
    ts_suite_end(state);
    ts_own_remove();
    return 0;
}

int main(void)
{
    struct CMUnitTest tests[ROWS + 1] = {ONCE(test_every_row_is_measured)};
    for (size_t i = 0; i < ROWS; i++)
        tests[i + 1] = (struct CMUnitTest){.name = rows[i].operation,
                                           .test_func = test_row,
                                           .setup_func = open_both,
                                           .teardown_func = close_both,
                                           .initial_state = (void *)(uintptr_t)&rows[i]};
    return cmocka_run_group_tests_name("what operations cost on the wire", tests, begin, end);
}
