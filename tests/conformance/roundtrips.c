/*
 * The cost of each operation on the wire, compared with the table of docs/performance.md: round
 * trips that the caller waits for, statements, commits that write, and round trips of the keeper.
 *
 * This program replaces Connector/C's send(), recv() and connect(), and counts them for each
 * thread; so it can tell replies that nobody waits for, and the keeper's, without a clock. InnoDB
 * counts the commits that write, on a server without other clients.
 */
#include <ctype.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "engine/hold.h"
#include "rowlock/rowlock_barrier.h"
#include "rowlock/rowlock_latch.h"
#include "rowlock/rowlock_leader.h"
#include "rowlock/rowlock_once.h"
#include "support/own_server.h"

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
    unsigned statements; /* sent to be run, not prepared */
    unsigned answers;    /* replies to commands, and a server's greeting */
} traffic;

/* What a thread has sent and received. */
typedef struct wire {
    traffic now;
    traffic queued; /* when it had just begun to wait for a bell */
    traffic rung;   /* when it had just got the bell */
    int queue_fd;
    int gate; /* commands that it may send before it stops; NO_GATE: all */
    bool at_gate;
    unsigned measuring; /* the number of the measuring */
} wire;

/* A request without a reply yet: by which thread, on which descriptor, in which measuring. A reply
 * that comes later than that does not count. */
typedef struct question {
    const wire *by;
    unsigned measuring;
} question;

static pthread_mutex_t wires = PTHREAD_MUTEX_INITIALIZER; /* guards all of these */
static pthread_cond_t gates = PTHREAD_COND_INITIALIZER;
static question questions[FDS];
static wire of_keepers; /* of threads without one of their own */
static wire of_test;    /* of the test itself */
static _Thread_local wire *mine;

/* The command of a packet; NOTHING: it belongs to the login, whose sequence numbers continue the
 * server's. */
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
    int command = command_of(packet, length);
    w->now.statements += command == COM_QUERY || command == COM_STMT_EXECUTE;
    if (memmem(packet, length, "'rowlock-waiter'", 16)) {
        w->queued = w->now;
        w->queue_fd = fd;
    }
}

static void note_answer(wire *w, int fd)
{
    if (!has_asked(w, fd)) /* the rest of a long one, or a reply that nobody waits for */
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

/* So that Connector/C uses these functions. */
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

static traffic between(traffic from, traffic to)
{
    return (traffic){.statements = to.statements - from.statements,
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

typedef struct party {
    rowlock_client *client;
    wire wire;
    /* when the measuring began */
    traffic keeper;
    uint64_t writes;
} party;

static MYSQL *mysql;
static party holder;
static party waiter;

static rowlock_client *open_client(rowlock_waiting way, bool history)
{
    return ts_open_as((rowlock_client_options){.waiting = way, .no_history = !history});
}

/* Transactions that changed a row: each is written to the disk before its COMMIT is answered. */
static uint64_t writes_so_far(void)
{
    return ts_sql_u64(mysql, "SELECT `count` FROM information_schema.innodb_metrics"
                             " WHERE name = 'trx_commits_insert_update'");
}

static void begin_count(party *p)
{
    p->writes = writes_so_far();
    pthread_mutex_lock(&wires);
    p->wire = (wire){.gate = NO_GATE, .queue_fd = NOWHERE, .measuring = p->wire.measuring + 1};
    p->keeper = of_keepers.now;
    pthread_mutex_unlock(&wires);
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
    return (cost){.trips = caller.answers,
                  .statements = caller.statements + keeper.statements,
                  .writes = (unsigned)(writes_so_far() - p->writes),
                  .keeper = keeper.answers};
}

/* The cost of the holder's calls in this thread. */
#define COST_OF(calls)                                                                             \
    __extension__({                                                                                \
        begin_count(&holder);                                                                      \
        mine = &holder.wire;                                                                       \
        calls;                                                                                     \
        mine = &of_test;                                                                           \
        end_count(&holder);                                                                        \
    })

/* ------------------------------------------------------------------------- the calls */

/* A call that may wait, though it need not: a slow try would take another path. */
static const rowlock_acquire_options lease = {.ttl_ms = LONG_TTL, .wait_ms = IN_TIME};
static const rowlock_acquire_options shared = {
    .ttl_ms = LONG_TTL, .wait_ms = IN_TIME, .shared = true};
static const rowlock_acquire_options slots = {.ttl_ms = LONG_TTL, .wait_ms = IN_TIME, .slots = 4};
static const rowlock_acquire_options fenced = {
    .mode = ROWLOCK_PESSIMISTIC, .ttl_ms = LONG_TTL, .wait_ms = IN_TIME};
static const rowlock_acquire_options unfenced = {
    .mode = ROWLOCK_PESSIMISTIC, .ttl_ms = LONG_TTL, .wait_ms = IN_TIME, .unfenced = true};

typedef struct row {
    const char *operation; /* as in the document */
    cost (*measure)(void);
    const rowlock_acquire_options *how;
    bool waited; /* the client has just had to wait for the name */
    bool twice;  /* the first call prepares the statements; the second one is measured */
    bool history;
    bool second; /* the second of the two measured calls */
    rowlock_waiting waiting;
} row;

static const row *now; /* the row that is being measured */

static rowlock_hold *take_as(rowlock_client *client, const char *name,
                             const rowlock_acquire_options *how)
{
    return ts_take_with(client, name, *how);
}

static rowlock_hold *take(const char *name)
{
    return take_as(holder.client, name, now->how);
}

static void let_go(rowlock_hold *hold)
{
    WANT(OK, rowlock_release(hold, &ts_err));
}

/* A name that the client knows, with its statements prepared. */
static const char *warm_name_as(const rowlock_acquire_options *how)
{
    const char *name = ts_name("wire");
    for (unsigned i = 0; i < 2; i++)
        let_go(take_as(holder.client, name, how));
    return name;
}

static const char *warm_name(void)
{
    return warm_name_as(now->how);
}

/* Sets whether the client has just had to wait for the name. */
static void note_wait(const party *p, const char *name, bool waited)
{
    rl_line_note(&p->client->bells.lines, ts_id_of(mysql, name), waited);
}

static cost acquire_this(const char *name)
{
    rowlock_hold *hold;
    cost c = COST_OF(hold = take(name));
    let_go(hold);
    return c;
}

static cost acquire(void)
{
    const char *name = warm_name();
    if (now->waited)
        note_wait(&holder, name, true);
    return acquire_this(name);
}

static cost acquire_new_name(void)
{
    (void)warm_name();
    return acquire_this(ts_name("new"));
}

static cost release(void)
{
    rowlock_hold *hold = take(warm_name());
    return COST_OF(let_go(hold));
}

static cost cycle(void)
{
    const char *name = warm_name();
    return COST_OF(let_go(take(name)));
}

/* False: it took so long that it may have taken another path (the look for the message is stopped
 * after half of RL_GRACE_US), and left connections without prepared statements. */
static bool quick_try(const char *name)
{
    rowlock_hold *none = NULL;
    rowlock_acquire_options options = *now->how;
    options.wait_ms = 0;
    int64_t start_us = rl_now_us();
    WANT(BUSY, rowlock_acquire(holder.client, name, &options, &none, &ts_err));
    return rl_now_us() - start_us < RL_GRACE_US / 3;
}

/* A try while the waiter holds. */
static cost busy(void)
{
    const char *name = warm_name();
    rowlock_hold *hold = take_as(waiter.client, name, now->how);
    cost c = {0};
    bool quick = false;
    for (int64_t end_ms = ts_now_ms() + 2 * IN_TIME; !quick && ts_now_ms() < end_ms;) {
        quick = quick_try(name);
        c = COST_OF(quick = quick_try(name) && quick);
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
    rowlock_hold *hold; /* the hold to release; NULL: acquire */
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

static void queue_up(task *t, bool waited)
{
    note_wait(t->party, t->name, waited);
    start_task(t);
    assert_true(POLL_UNTIL(ts_in_queue(mysql, t->name), IN_TIME));
}

/* The two hand the lease to each other until all statements are prepared on both sides. Afterwards
 * the holder has it, and has waited for it. */
static rowlock_hold *pass_to_and_fro(const char *name)
{
    rowlock_hold *hold = take_as(holder.client, name, &lease);
    for (unsigned i = 0; i < 4; i++) {
        task next = {.party = i % 2 ? &holder : &waiter, .name = name};
        queue_up(&next, false);
        let_go(hold);
        hold = end_task(&next);
    }
    return hold;
}

/* ------------------------------------------------------------------------ leases */

/* As if the waiter's process had died. */
static cost take_over(void)
{
    const char *name = warm_name();
    rowlock_hold *dead = take_as(waiter.client, name, &lease);
    ts_expire(mysql, name, ROWLOCK_OPTIMISTIC);
    cost c = acquire_this(name);
    WANT(LOST, rowlock_release(dead, &ts_err));
    return c;
}

/* From the call until it waits; the reply to its last statement is the ring. */
static cost begin_to_wait(void)
{
    const char *name = warm_name();
    rowlock_hold *hold = pass_to_and_fro(name);
    task next = {.party = &waiter, .name = name};
    begin_count(&waiter);
    queue_up(&next, now->waited);
    uint64_t writes = writes_so_far() - waiter.writes;
    let_go(hold);
    hold = end_task(&next);
    (void)end_count(&waiter);
    let_go(hold);
    return (cost){.trips = waiter.wire.queued.answers,
                  .statements = waiter.wire.queued.statements,
                  .writes = (unsigned)writes};
}

/* A holder that did not wait releases, and the waiter acquires after that. */
static cost hand_over_plainly(void)
{
    const char *name = warm_name();
    let_go(pass_to_and_fro(name));
    note_wait(&holder, name, false);
    rowlock_hold *hold = take(name);
    task next = {.party = &waiter, .name = name};
    begin_count(&waiter);
    queue_up(&next, false);
    set_gate(&waiter.wire, 0);
    cost releasing = COST_OF(let_go(hold));
    assert_true(POLL_UNTIL(stands_at_gate(&waiter.wire), IN_TIME));
    uint64_t writes = writes_so_far();
    set_gate(&waiter.wire, NO_GATE);
    hold = end_task(&next);
    traffic after = between(waiter.wire.rung, waiter.wire.now);
    cost inheriting = {.trips = after.answers,
                       .statements = after.statements,
                       .writes = (unsigned)(writes_so_far() - writes)};
    (void)end_count(&waiter);
    let_go(hold);
    return now->second ? inheriting : releasing;
}

/* The holder has waited, and its disk is slow: it gives the lease up by a waiver, the waiter takes
 * it, and the holder's later release finds nothing to free. The commits of each are counted while
 * the other one is stopped. */
static cost hand_over(void)
{
    const char *name = warm_name();
    ts_commits_slowly(holder.client);
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
    atomic_store(&holder.client->bells.commit_us, 0);
    return c;
}

static cost release_alone(void)
{
    ts_commits_slowly(holder.client);
    rowlock_hold *hold = pass_to_and_fro(warm_name());
    cost c = COST_OF(let_go(hold));
    atomic_store(&holder.client->bells.commit_us, 0);
    return c;
}

static bool is_renewed(const rowlock_hold *hold)
{
    rl_keeper *keeper = &hold->client->keeper;
    pthread_mutex_lock(&keeper->mutex);
    bool renewed = hold->held.next_beat_us != 0 && hold->held.next_beat_us != RL_NEVER;
    pthread_mutex_unlock(&keeper->mutex);
    return renewed;
}

/* Makes all renewals of the holder due now, and waits until the keeper has done them. */
static void beat_now(const rowlock_hold *last)
{
    rl_keeper *keeper = &last->client->keeper;
    pthread_mutex_lock(&keeper->mutex);
    for (rl_held *held = keeper->leases.first; held; held = held->next)
        held->next_beat_us = 0;
    for (rl_held *held = keeper->rows.first; held; held = held->next)
        held->next_beat_us = 0;
    keeper->due_us = 0;
    pthread_mutex_unlock(&keeper->mutex);
    rl_keeper_wake(keeper);
    assert_true(POLL_UNTIL(is_renewed(last), IN_TIME));
}

static cost cost_of_beat(const rowlock_hold *hold)
{
    beat_now(hold);
    return COST_OF(beat_now(hold));
}

static cost beat(void)
{
    rowlock_hold *hold = take(warm_name());
    cost c = cost_of_beat(hold);
    let_go(hold);
    return c;
}

/* For speed: commits are not flushed at once. */
static void be_careless(bool yes)
{
    ts_sql(mysql, "SET GLOBAL innodb_flush_log_at_trx_commit = %d", !yes);
}

static cost renewal_of_many(void)
{
    static rowlock_hold *holds[MANY];
    be_careless(true);
    for (unsigned i = 0; i < MANY; i++)
        holds[i] = take(ts_name("many"));
    be_careless(false);
    cost c = cost_of_beat(holds[MANY - 1]);
    be_careless(true);
    for (unsigned i = 0; i < MANY; i++)
        let_go(holds[i]);
    be_careless(false);
    return c;
}

static cost fresh_client(void)
{
    const char *name = warm_name();
    begin_count(&waiter);
    mine = &waiter.wire;
    rowlock_hold *hold = take_as(waiter.client, name, now->how);
    mine = &of_test;
    cost c = end_count(&waiter);
    let_go(hold);
    return c;
}

/* ------------------------------------------------------------------------ row locks */

static const rowlock_release_options no_reply = {.no_reply = true};

static cost release_no_reply(void)
{
    rowlock_hold *hold = take(warm_name());
    return COST_OF(WANT(OK, rowlock_release_with(hold, &no_reply, &ts_err)));
}

static cost acquire_after_no_reply(void)
{
    const char *name = warm_name();
    rowlock_hold *hold = take(name);
    (void)COST_OF(WANT(OK, rowlock_release_with(hold, &no_reply, &ts_err)));
    return acquire_this(name);
}

static cost acquire_once_fenced(void)
{
    const char *name = warm_name_as(&fenced);
    let_go(take(name));
    return acquire_this(name);
}

static cost acquire_first_fenced(void)
{
    return acquire_this(warm_name_as(&unfenced));
}

static cost set_of_names(void)
{
    const char *names[SET];
    rowlock_hold *hold = NULL;
    for (unsigned i = 0; i < SET; i++)
        names[i] = warm_name();
    cost acquiring =
        COST_OF(WANT(OK, rowlock_acquire_set(holder.client, names, SET, now->how, &hold, &ts_err)));
    cost releasing = COST_OF(let_go(hold));
    return now->second ? releasing : acquiring;
}

/* -------------------------------------------------- sections, the caller's connection */

static void run_section(const char *name)
{
    WANT(OK, rowlock_section_run(holder.client, name, NULL, ts_no_work, NULL, NULL, &ts_err));
}

static const char *warm_section(void)
{
    const char *name = ts_name("section");
    run_section(name);
    return name;
}

static cost section_run(void)
{
    const char *name = warm_section();
    return COST_OF(run_section(name));
}

static cost version_read(void)
{
    const char *name = warm_section();
    uint64_t version = 0;
    return COST_OF(WANT(OK, rowlock_version_read(holder.client, name, &version, &ts_err)));
}

static cost version_bump(void)
{
    const char *name = warm_section();
    uint64_t version = 0;
    WANT(OK, rowlock_version_read(holder.client, name, &version, &ts_err));
    return COST_OF(WANT(OK, rowlock_version_bump(holder.client, name, version, &version, &ts_err)));
}

/* A latch that lacks one count; the client has prepared the statements. */
static const char *warm_latch(void)
{
    const char *name = ts_name("latch");
    rowlock_client *client = holder.client;
    WANT(OK, rowlock_latch_set(client, name, 2, NULL, &ts_err));
    WANT(OK, rowlock_latch_down(client, name, NULL, 0, &ts_err));
    WANT(BUSY, rowlock_latch_wait(client, name, NULL, NULL, &ts_err));
    return name;
}

static cost latch_down(void)
{
    const char *name = warm_latch();
    return COST_OF(WANT(OK, rowlock_latch_down(holder.client, name, NULL, 0, &ts_err)));
}

static cost latch_pass(void)
{
    const char *name = warm_latch();
    WANT(OK, rowlock_latch_down(holder.client, name, NULL, 0, &ts_err));
    WANT(OK, rowlock_latch_wait(holder.client, name, NULL, NULL, &ts_err));
    return COST_OF(WANT(OK, rowlock_latch_wait(holder.client, name, NULL, NULL, &ts_err)));
}

static cost barrier_enter(void)
{
    const char *name = ts_name("barrier");
    rowlock_hold *hold = NULL;
    WANT(OK, rowlock_barrier_enter(holder.client, name, 1, NULL, &hold, &ts_err));
    let_go(hold);
    cost c = COST_OF(WANT(OK, rowlock_barrier_enter(holder.client, name, 1, NULL, &hold, &ts_err)));
    let_go(hold);
    return c;
}

/* The client has prepared the statements. */
static rowlock_hold *warm_once(void)
{
    const char *name = ts_name("once");
    rowlock_once_result result;
    rowlock_hold *hold = ts_take(holder.client, name, ROWLOCK_OPTIMISTIC, 30000);
    WANT(OK, rowlock_once_begin(hold, 0, 1, NULL, &result, &ts_err));
    WANT(OK, rowlock_once_done(hold, &ts_err));
    let_go(hold);
    return ts_take(holder.client, name, ROWLOCK_OPTIMISTIC, 30000);
}

static cost once_begin(void)
{
    rowlock_once_result result;
    rowlock_hold *hold = warm_once();
    cost c = COST_OF(WANT(OK, rowlock_once_begin(hold, 1, 2, NULL, &result, &ts_err)));
    let_go(hold);
    return c;
}

static cost once_done(void)
{
    rowlock_once_result result;
    rowlock_hold *hold = warm_once();
    WANT(OK, rowlock_once_begin(hold, 1, 2, NULL, &result, &ts_err));
    cost c = COST_OF(WANT(OK, rowlock_once_done(hold, &ts_err)));
    let_go(hold);
    return c;
}

/* A leader's hold, whose value was published before. */
static rowlock_hold *lead(const char *name)
{
    return ts_take_with(holder.client, name,
                        (rowlock_acquire_options){.value = "warm", .wait_ms = IN_TIME});
}

static cost set_value(void)
{
    let_go(lead(ts_name("lead")));
    rowlock_hold *hold = lead(ts_name("lead"));
    cost c = COST_OF(WANT(OK, rowlock_hold_set_value(hold, "value", &ts_err)));
    let_go(hold);
    return c;
}

static cost observe(void)
{
    const char *name = ts_name("lead");
    rowlock_leader leader;
    rowlock_hold *hold = lead(name);
    WANT(OK, rowlock_observe(holder.client, name, NULL, &leader, &ts_err));
    cost c = COST_OF(WANT(OK, rowlock_observe(holder.client, name, NULL, &leader, &ts_err)));
    let_go(hold);
    return c;
}

static cost tx_section_run(void)
{
    const char *name = warm_section();
    TS_MYSQL *own = ts_connect(ts_schema());
    return COST_OF(WANT(OK, rowlock_tx_section_run(holder.client, own, name, NULL, ts_no_work_tx,
                                                   NULL, NULL, &ts_err)));
}

static cost tx_acquire(void)
{
    const rowlock_tx_options options = {.wait_ms = IN_TIME};
    const char *name = warm_name();
    TS_MYSQL *own = ts_connect(ts_schema());
    cost c = {0};
    for (unsigned i = 0; i < 2; i++) {
        ts_sql(own, "START TRANSACTION");
        c = COST_OF(WANT(OK, rowlock_tx_acquire(holder.client, own, name, &options, &ts_err)));
        ts_sql(own, "COMMIT");
    }
    return c;
}

static cost fence(void)
{
    rowlock_hold *hold = take(warm_name());
    TS_MYSQL *own = ts_connect(ts_schema());
    ts_sql(own, "START TRANSACTION");
    cost c = COST_OF(WANT(OK, rowlock_fence(hold, own, &ts_err)));
    ts_sql(own, "COMMIT");
    let_go(hold);
    return c;
}

/* ------------------------------------------------------------------------- the client */

static cost looking_at_hold(void)
{
    rowlock_hold *hold = take(warm_name());
    cost c = COST_OF({
        assert_held(hold);
        assert_true(rowlock_hold_remaining_ms(hold) > 0);
        assert_true(rowlock_hold_token(hold) > 0);
    });
    let_go(hold);
    return c;
}

/* The keeper does not begin to write before all are recorded. */
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
    record_many(holder.client);
    return COST_OF(record_many(holder.client));
}

static cost client_open(void)
{
    rowlock_client *client;
    cost c = COST_OF(client = open_client(ROWLOCK_WAITING_AUTO, true));
    rowlock_client_close(client);
    return c;
}

static cost client_close(void)
{
    rowlock_client *client = open_client(ROWLOCK_WAITING_AUTO, true);
    return COST_OF(rowlock_client_close(client));
}

/* -------------------------------------------------------------------------- the table */

static const row rows[] = {
    {"acquire, free", acquire, .how = &lease},
    {"acquire, free, but this client has just had to wait for it", acquire, .how = &lease,
     .waited = true, .twice = true},
    {"release", release, .how = &lease},
    {"acquire + release", cycle, .how = &lease},
    {"a try, held by another", busy, .how = &lease},
    {"acquire, the holder dead and its time over", take_over, .how = &lease, .twice = true},
    {"a waiter, from its call until it waits", begin_to_wait, .how = &lease},
    {"the same, where this client has just had to wait for it", begin_to_wait, .how = &lease,
     .waited = true},
    {"a waiter, from the ring until it holds", hand_over_plainly, .how = &lease, .second = true},
    {"release, somebody waits", hand_over_plainly, .how = &lease},
    {"release by one who had waited, the disk slow, somebody waits", hand_over, .how = &lease},
    {"release by one who had waited, the disk slow, nobody waits", release_alone, .how = &lease,
     .twice = true},
    {"acquire, `waiting = poll`", acquire, .how = &lease, .waiting = ROWLOCK_WAITING_POLL},
    {"release, `waiting = poll`", release, .how = &lease, .waiting = ROWLOCK_WAITING_POLL},
    {"acquire, the name is new", acquire_new_name, .how = &lease},
    {"acquire, the client is new", fresh_client, .how = &lease},
    {"renewal of 1 lease", beat, .how = &lease},
    {"renewal of 1,000 leases", renewal_of_many, .how = &lease},
    {"acquire, shared, nobody had it alone since", acquire, .how = &shared},
    {"release, shared", release, .how = &shared},
    {"acquire of a set of 3 leases", set_of_names, .how = &lease, .twice = true},
    {"release of a set of 3 leases", set_of_names, .how = &lease, .twice = true, .second = true},
    {"acquire of one of 4 slots", acquire, .how = &slots},
    {"release of one of 4 slots", release, .how = &slots},
    {"acquire, unfenced", acquire, .how = &unfenced},
    {"release, unfenced", release, .how = &unfenced},
    {"release, unfenced, `no_reply`", release_no_reply, .how = &unfenced},
    {"acquire, unfenced, after that", acquire_after_no_reply, .how = &unfenced},
    {"acquire, unfenced, of a name that was ever fenced", acquire_once_fenced, .how = &unfenced},
    {"acquire, fenced", acquire, .how = &fenced},
    {"release, fenced", release, .how = &fenced},
    {"acquire, fenced, of a name that never was", acquire_first_fenced, .how = &fenced,
     .twice = true},
    {"acquire, fenced, the name is new", acquire_new_name, .how = &fenced},
    {"a try, locked by another", busy, .how = &fenced},
    {"acquire of a set of 3, unfenced", set_of_names, .how = &unfenced},
    {"release of a set of 3, unfenced", set_of_names, .how = &unfenced, .second = true},
    {"acquire of a set of 3, fenced", set_of_names, .how = &fenced},
    {"release of a set of 3, fenced", set_of_names, .how = &fenced, .second = true},
    {"ping, every TTL/3", beat, .how = &unfenced},
    {"`rowlock_section_run()`: read and commit", .measure = section_run},
    {"`rowlock_version_read()`", .measure = version_read},
    {"`rowlock_version_bump()`", .measure = version_bump},
    {"`rowlock_tx_section_run()`", .measure = tx_section_run},
    {"`rowlock_latch_down()`", .measure = latch_down},
    {"`rowlock_latch_wait()`, it is open", .measure = latch_pass},
    {"`rowlock_barrier_enter()`, the last one to come", .measure = barrier_enter},
    {"`rowlock_once_begin()`", .measure = once_begin},
    {"`rowlock_once_done()`", .measure = once_done},
    {"`rowlock_hold_set_value()`", .measure = set_value},
    {"`rowlock_observe()`", .measure = observe},
    {"`rowlock_tx_acquire()`", tx_acquire, .how = &unfenced},
    {"`rowlock_fence()`", fence, .how = &lease},
    {"`rowlock_hold_check()`, `_remaining_ms()`, `_token()`", looking_at_hold, .how = &lease},
    {"`rowlock_client_flush()`, 100 events", .measure = history, .history = true},
    {"`rowlock_client_open()`", .measure = client_open},
    {"`rowlock_client_close()`, nothing held", .measure = client_close},
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

/* Reads all rows of all tables in the section, without their heads. */
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

static void test_every_row_is_measured(TS_NO_STATE)
{
    for (unsigned i = 0; i < paper_rows; i++) {
        size_t at = 0;
        while (at < ROWS && strcmp(rows[at].operation, paper[i].operation) != 0)
            at++;
        if (at == ROWS)
            fail_msg("in docs/performance.md, but not measured: %s", paper[i].operation);
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
    if (r->twice)
        c = r->measure();
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
    now = *state;
    mine = &of_test;
    holder.client = open_client(now->waiting, now->history);
    waiter.client = open_client(ROWLOCK_WAITING_AUTO, false);
    return 0;
}

static int close_both(TS_NO_STATE)
{
    rowlock_client_close(holder.client);
    rowlock_client_close(waiter.client);
    return 0;
}

static int begin(void **state)
{
    of_test.gate = of_keepers.gate = holder.wire.gate = waiter.wire.gate = NO_GATE;
    mine = &of_test;
    ts_own_start_with("--innodb-stats-auto-recalc=OFF"
                      " --innodb-monitor-enable=trx_commits_insert_update");
    ts_suite_begin(state);
    mysql = ts_connect(ts_schema());
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
    struct CMUnitTest tests[ROWS + 1] = {cmocka_unit_test(test_every_row_is_measured)};
    for (size_t i = 0; i < ROWS; i++)
        tests[i + 1] = (struct CMUnitTest){.name = rows[i].operation,
                                           .test_func = test_row,
                                           .setup_func = open_both,
                                           .teardown_func = close_both,
                                           .initial_state = (void *)(uintptr_t)&rows[i]};
    return cmocka_run_group_tests_name("what operations cost on the wire", tests, begin, end);
}
