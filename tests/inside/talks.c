#include "inside/talks.h"

#include <sys/mman.h>

#define TTL_MS      20000 /* of the locks that are taken here */
#define AT_ONCE     8
#define PATIENCE_MS 30000

static rowlock_client *witness;
static MYSQL *mysql;

/* ------------------------------------------------------------------- the conversations */

static rowlock_client_options quick_options(void)
{
    rowlock_client_options options = ts_options();
    options.connect_timeout_ms = 20000;
    options.reconnect_ms = 1000;
    options.label = "inside";
    return options;
}

static rowlock_status open_with(talk_state *state, const rowlock_client_options *options)
{
    rowlock_client *client = NULL;
    rowlock_status status = rowlock_client_open(options, &client, &state->err);
    rowlock_client_close(client);
    return status;
}

static rowlock_status open_and_close(talk_state *state)
{
    rowlock_client_options options = quick_options();
    return open_with(state, &options);
}

/* With an option file, which may name a host, the library connects in a thread of its own. */
static rowlock_status open_elsewhere(talk_state *state)
{
    rowlock_client_options options = quick_options();
    options.defaults_file = "/dev/null";
    return open_with(state, &options);
}

static rowlock_status open_by_url(talk_state *state)
{
    char url[200];
    snprintf(url, sizeof url, "mysql://root@/%s?socket=%s&waiting=poll", ts_schema(), ts_socket());
    return open_with(state, &(rowlock_client_options){.url = url, .password = ""});
}

/* A call that may wait goes on waiting when its statement is answered with BUSY or DEADLOCK. */
static rowlock_status taken(const talk_state *state, rowlock_status status)
{
    bool told = status == ROWLOCK_BUSY || status == ROWLOCK_DEADLOCK;
    if (told && state->how.wait_ms == PATIENCE_MS)
        talk_complain("a wait ends with %s: %s", rowlock_status_name(status), state->err.message);
    return status;
}

rowlock_status talk_take(talk_state *state, rowlock_hold **hold)
{
    return taken(state,
                 rowlock_acquire(state->client, state->name, &state->how, hold, &state->err));
}

rowlock_status talk_give_back(talk_state *state, rowlock_hold *hold, rowlock_status so_far)
{
    rowlock_error err = {0};
    rowlock_status last = rowlock_release(hold, &err);
    if (so_far != ROWLOCK_OK)
        return so_far;
    state->err = err;
    return last;
}

static rowlock_status hold_it(talk_state *state)
{
    rowlock_hold *hold = NULL;
    rowlock_status status = talk_take(state, &hold);
    if (status != ROWLOCK_OK)
        return status;
    (void)rowlock_hold_fd(hold);
    if (state->how.ttl_ms < TTL_MS) /* long enough for a renewal, or a ping */
        ts_pass_ms(state->how.ttl_ms / 2);
    return talk_give_back(state, hold, status);
}

static rowlock_status no_reply(talk_state *state)
{
    const rowlock_release_options release = {.no_reply = true, .note = "in a hurry"};
    rowlock_hold *hold = NULL;
    rowlock_status status = talk_take(state, &hold);
    return status == ROWLOCK_OK ? rowlock_release_with(hold, &release, &state->err) : status;
}

static rowlock_status wait_in_vain(talk_state *state)
{
    rowlock_status status = hold_it(state);
    return status == ROWLOCK_TIMEOUT ? ROWLOCK_OK : status;
}

static rowlock_status reenter(talk_state *state)
{
    rowlock_hold *hold = NULL;
    rowlock_status status = talk_take(state, &hold);
    return status == ROWLOCK_OK ? talk_give_back(state, hold, hold_it(state)) : status;
}

/* Closing the client releases a lock that is still held. */
static rowlock_status close_while_held(talk_state *state)
{
    rowlock_hold *hold = NULL;
    rowlock_status status = talk_take(state, &hold);
    rowlock_client_close(state->client);
    state->client = NULL;
    return status;
}

/* A set of the name and two more. */
static rowlock_status take_set(talk_state *state)
{
    char more[2][80];
    snprintf(more[0], sizeof more[0], "%s-b", state->name);
    snprintf(more[1], sizeof more[1], "%s-a", state->name);
    const char *const names[] = {more[0], state->name, more[1]};
    rowlock_hold *hold = NULL;
    rowlock_status status =
        taken(state, rowlock_acquire_set(state->client, names, 3, &state->how, &hold, &state->err));
    return status == ROWLOCK_OK ? talk_give_back(state, hold, status) : status;
}

static rowlock_status flush_history(talk_state *state)
{
    rowlock_status status = hold_it(state);
    return status == ROWLOCK_OK ? rowlock_client_flush(state->client, PATIENCE_MS, &state->err)
                                : status;
}

/* ------------------------------------------------------ on the caller's own connection */

void talk_own_sql(talk_state *state, const char *text)
{
    inject_pause();
    (void)mysql_query(state->own, text);
    inject_resume();
}

static rowlock_status end_own(talk_state *state, rowlock_status status)
{
    talk_own_sql(state, status == ROWLOCK_OK ? "COMMIT" : "ROLLBACK");
    return status;
}

static rowlock_status in_transaction(talk_state *state)
{
    const rowlock_tx_options options = {.wait_ms = PATIENCE_MS};
    talk_own_sql(state, "START TRANSACTION");
    return end_own(
        state, rowlock_tx_acquire(state->client, state->own, state->name, &options, &state->err));
}

static rowlock_status fence(talk_state *state)
{
    rowlock_hold *hold = NULL;
    rowlock_status status = talk_take(state, &hold);
    if (status != ROWLOCK_OK)
        return status;
    talk_own_sql(state, "START TRANSACTION");
    status = end_own(state, rowlock_fence(hold, state->own, &state->err));
    return talk_give_back(state, hold, status);
}

static rowlock_status section(talk_state *state)
{
    rowlock_section_result result;
    return rowlock_section_run(state->client, state->name, NULL, ts_no_work, NULL, &result,
                               &state->err);
}

static rowlock_status section_in_transaction(talk_state *state)
{
    rowlock_section_result result;
    return rowlock_tx_section_run(state->client, state->own, state->name, NULL, ts_no_work_tx, NULL,
                                  &result, &state->err);
}

/* The bump is on the caller's connection in a transaction, if it has one, else by itself. */
static rowlock_status versions(talk_state *state)
{
    uint64_t version = 0;
    rowlock_status status = rowlock_version_read(state->client, state->name, &version, &state->err);
    if (status != ROWLOCK_OK)
        return status;
    if (!state->own)
        return rowlock_version_bump(state->client, state->name, version, &version, &state->err);
    talk_own_sql(state, "START TRANSACTION");
    return end_own(state, rowlock_tx_version_bump(state->client, state->own, state->name, version,
                                                  &version, &state->err));
}

/* ------------------------------------------------------------ looking and looking after */

static rowlock_status look(talk_state *state)
{
    rowlock_list *all = NULL;
    rowlock_list *one = NULL;
    rowlock_history *history = NULL;
    rowlock_waiters *waiters = NULL;
    rowlock_status status = rowlock_list_get(
        state->client, &(rowlock_list_options){.all = true, .limit = 4}, &all, &state->err);
    if (status == ROWLOCK_OK)
        status = rowlock_list_one(state->client, state->name, &one, &state->err);
    if (status == ROWLOCK_OK || status == ROWLOCK_NOT_FOUND)
        status = rowlock_history_get(state->client, &(rowlock_history_options){.limit = 4},
                                     &history, &state->err);
    if (status == ROWLOCK_OK)
        status = rowlock_waiters_get(state->client, &(rowlock_waiters_options){.name = state->name},
                                     &waiters, &state->err);
    rowlock_list_free(all);
    rowlock_list_free(one);
    rowlock_history_free(history);
    rowlock_waiters_free(waiters);
    return status;
}

static rowlock_status sweep(talk_state *state)
{
    rowlock_sweep_result result;
    return rowlock_sweep(state->client, NULL, &result, &state->err);
}

static rowlock_status break_it(talk_state *state)
{
    rowlock_status status = rowlock_break(state->client, state->name, "in the way", &state->err);
    return status == ROWLOCK_BUSY || status == ROWLOCK_NOT_FOUND ? ROWLOCK_OK : status;
}

static rowlock_status purge(talk_state *state)
{
    rowlock_status status = rowlock_purge(state->client, state->name, &state->err);
    return status == ROWLOCK_NOT_FOUND ? ROWLOCK_OK : status;
}

static void count_finding(void *data, const rowlock_finding *finding)
{
    if (finding->level == ROWLOCK_BROKEN && strstr(finding->found, "stopped by somebody"))
        talk_complain("what was stopped is taken for broken: %s: %s", finding->check,
                      finding->found);
    ++*(unsigned *)data;
}

static rowlock_status diagnose(talk_state *state)
{
    rowlock_client_options options = quick_options();
    unsigned findings = 0;
    return rowlock_diagnose(&options, 0, count_finding, &findings, &state->err);
}

static rowlock_status migrate(talk_state *state)
{
    rowlock_client_options options = quick_options();
    rowlock_migrate_result result;
    return rowlock_migrate(&options, NULL, &result, &state->err);
}

static rowlock_status cancel(talk_state *state)
{
    rowlock_cancel *made = NULL;
    rowlock_status status = rowlock_cancel_new(&made, &state->err);
    rowlock_cancel_fire(made);
    rowlock_cancel_free(made);
    return status;
}

enum {
    LEASE = 1,
    ROW = 2,
    BOTH = LEASE | ROW,
    OPENS = 4,    /* the talk opens and closes the client itself */
    FRESH = 8,    /* a new name each time */
    OWN = 16,     /* the talk needs a connection of the caller's */
    HELD = 32,    /* another client holds the lock during the talk, ... */
    BREAKS = 64,  /* ... and may have lost it afterwards */
    BEHIND = 128, /* the library's threads send requests of their own during the talk */
    VIA = 256,    /* the client works through the procedures */
    SOON = 512,   /* a short TTL: the lock is renewed during the talk */
    ALIKE = 1024, /* many of its commands are alike */
};

typedef struct talk {
    const char *name;
    rowlock_status (*run)(talk_state *state);
    unsigned flags;
    unsigned also;               /* further statuses that it may end with: a set of MAY() */
    rowlock_acquire_options how; /* the mode and the TTL are filled in */
    unsigned every; /* of memory, or if ALIKE: tries one of so many only; ts_long(): all */
} talk;

#define UNKNOWN_WAIT (MAY(UNKNOWN) | MAY(UNAVAILABLE))
#define LATE_RENEWAL (MAY(LOST) | MAY(UNAVAILABLE))

static const talk talks[] = {
    {"open", open_and_close, LEASE | OPENS, 0, {0}, 0},
    {"open in a thread", open_elsewhere, LEASE | OPENS | BEHIND, 0, {0}, 0},
    {"open by URL", open_by_url, LEASE | OPENS, 0, {0}, 0},
    {"cancel", cancel, LEASE, 0, {0}, 0},
    {"first use", hold_it, BOTH | FRESH, 0, {0}, 0},
    {"try", hold_it, BOTH, 0, {0}, 0},
    {"wait", hold_it, BOTH, 0, {.wait_ms = PATIENCE_MS}, 0},
    {"wait in vain", wait_in_vain, BOTH | HELD, UNKNOWN_WAIT, {.wait_ms = 60}, 0},
    {"renew", hold_it, BOTH | BEHIND | SOON, LATE_RENEWAL, {0}, 0},
    {"re-enter", reenter, BOTH, 0, {.wait_ms = PATIENCE_MS, .reentrant = true}, 0},
    {"flush", flush_history, BOTH | BEHIND, MAY(SERVER), {0}, 0},
    {"close while held", close_while_held, BOTH, 0, {0}, 0},
    {"unfenced", hold_it, ROW, MAY(UNKNOWN), {.wait_ms = PATIENCE_MS, .unfenced = true}, 0},
    {"release without reply", no_reply, ROW, 0, {.wait_ms = PATIENCE_MS}, 0},
    {"set", take_set, ROW, 0, {.wait_ms = PATIENCE_MS}, 0},
    {"in the caller's transaction", in_transaction, ROW | OWN, 0, {0}, 0},
    {"fence", fence, BOTH | OWN, 0, {.wait_ms = PATIENCE_MS}, 0},
    {"section", section, LEASE, 0, {0}, 0},
    {"versions", versions, LEASE, 0, {0}, 0},
    {"bump in the caller's transaction", versions, LEASE | OWN, 0, {0}, 0},
    {"section in a transaction", section_in_transaction, LEASE | OWN, 0, {0}, 0},
    {"look", look, LEASE, 0, {0}, 0},
    {"sweep", sweep, LEASE, 0, {0}, 0},
    {"break", break_it, BOTH, MAY(UNKNOWN), {0}, 0},
    {"break what is held", break_it, LEASE | HELD | BREAKS, MAY(UNKNOWN), {0}, 0},
    {"purge", purge, BOTH, MAY(UNKNOWN), {0}, 0},
    {"diagnose", diagnose, LEASE | ALIKE | OPENS, 0, {0}, 4},
    {"migrate", migrate, LEASE | OPENS, MAY(UNKNOWN), {0}, 0},
    {"migrations", talk_migrations, LEASE | OWN, MAY(UNKNOWN) | MAY(SERVER) | MAY(FAILED), {0}, 8},
    {"repair of migrations", talk_migrations_repair, LEASE | OWN, MAY(UNKNOWN), {0}, 8},
    {"fence on a table", talk_table_fence, LEASE | OWN, MAY(UNKNOWN), {.wait_ms = PATIENCE_MS}, 4},
    {"latch", talk_latch, LEASE | FRESH, 0, {.wait_ms = PATIENCE_MS}, 0},
    {"latch that stays closed", talk_latch_in_vain, LEASE | FRESH, UNKNOWN_WAIT, {0}, 0},
    {"member of a latch", talk_latch_member, LEASE | FRESH, 0, {0}, 0},
    {"latch in the caller's transaction",
     talk_latch_in_transaction,
     LEASE | OWN | FRESH,
     0,
     {0},
     0},
    {"barrier", talk_barrier, LEASE | FRESH, 0, {.wait_ms = PATIENCE_MS}, 0},
    {"barrier in vain", talk_barrier_in_vain, LEASE | FRESH, UNKNOWN_WAIT, {0}, 0},
    {"queue", talk_queue, LEASE | FRESH, MAY(UNKNOWN), {.wait_ms = PATIENCE_MS}, 0},
    {"queue in the caller's transaction",
     talk_queue_in_transaction,
     LEASE | OWN | FRESH,
     MAY(UNKNOWN),
     {.wait_ms = PATIENCE_MS},
     0},
    {"leader", talk_leader, LEASE, MAY(UNKNOWN), {.wait_ms = PATIENCE_MS}, 0},
    {"once", talk_once, LEASE, MAY(UNKNOWN), {.wait_ms = PATIENCE_MS}, 0},
    {"once in the caller's transaction",
     talk_once_in_transaction,
     LEASE | OWN,
     MAY(UNKNOWN),
     {.wait_ms = PATIENCE_MS},
     0},
    {"ask", talk_ask, BOTH, MAY(UNKNOWN), {.wait_ms = PATIENCE_MS}, 0},
    /* (NOT_FOUND: the lease has ended before its first renewal.) */
    {"asked",
     talk_asked,
     BOTH | BEHIND | SOON,
     LATE_RENEWAL | MAY(UNKNOWN) | MAY(NOT_FOUND),
     {0},
     0},
    /* Connector/C reports a lost connection when it has no memory for the reply. */
    {"first use, via procedures", hold_it, LEASE | FRESH | VIA, MAY(UNAVAILABLE), {0}, 0},
    {"try, via procedures", hold_it, LEASE | VIA, 0, {0}, 0},
    {"wait, via procedures", hold_it, LEASE | VIA, 0, {.wait_ms = PATIENCE_MS}, 0},
    {"vain wait, via procedures",
     wait_in_vain,
     LEASE | HELD | VIA,
     UNKNOWN_WAIT,
     {.wait_ms = 60},
     0},
    {"latch, via procedures",
     talk_latch,
     LEASE | FRESH | VIA,
     MAY(UNAVAILABLE),
     {.wait_ms = PATIENCE_MS},
     0},
    {"leader, via procedures",
     talk_leader,
     LEASE | VIA,
     MAY(UNAVAILABLE) | MAY(UNKNOWN),
     {.wait_ms = PATIENCE_MS},
     0},
    {"once, via procedures",
     talk_once,
     LEASE | VIA,
     MAY(UNAVAILABLE) | MAY(UNKNOWN),
     {.wait_ms = PATIENCE_MS},
     0},
    {"renew, via procedures", hold_it, LEASE | BEHIND | VIA | SOON, LATE_RENEWAL, {0}, 0},
    {"fence, via procedures", fence, LEASE | OWN | VIA, 0, {.wait_ms = PATIENCE_MS}, 0},
    {"section, via procedures", section, LEASE | VIA, 0, {0}, 0},
    {"procedures", talk_procedures, LEASE | ALIKE | OPENS, MAY(UNKNOWN), {0}, 80},
    {"sweep event", talk_sweep_event, LEASE | ALIKE | OPENS, MAY(UNKNOWN), {0}, 8},
};

/* ------------------------------------------------------------------ one round, in a child */

/*
 * A round is a process of its own, since Connector/C may crash in it: it does not check every
 * result of malloc(). Such crashes are counted, and fail no test. The report is in shared memory.
 */
typedef struct report {
    bool fired;
    bool ended;        /* the round ended by itself, with success or not */
    bool in_connector; /* Connector/C made the request that failed */
    bool connector;    /* it crashed in Connector/C */
    bool leaked;       /* Connector/C has not freed something of its own */
    rowlock_status status;
    rowlock_error err;
    char place[4000];
    char complaint[4000];
} report;

typedef struct round_of {
    const talk *talk;
    const way *way;
    inject_side side;
    rowlock_mode mode;
    unsigned nth; /* the request that fails; 0: none, they are recorded */
    const char *name;
    report *report;
    rowlock_hold *others; /* the witness's hold, if HELD */
    pid_t pid;
    int64_t stood_ms; /* ts_stood_ms() at its begin */
} round_of;

static report *report_now; /* in the child */

#ifdef ROWLOCK_COVERAGE
extern void __gcov_dump(void);
#define dump_counters() __gcov_dump()
#else
#define dump_counters() (void)0
#endif

static _Noreturn void end_child(void)
{
    inject_end();
    report_now->ended = true;
    dump_counters(); /* _exit() does not */
    _exit(0);
}

void talk_complain(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(report_now->complaint, sizeof report_now->complaint, format, args);
    va_end(args);
    end_child();
}

static void crashed(int signal)
{
    int saved = signal;
    inject_end();
    report_now->connector = inject_crash_place(report_now->complaint, sizeof report_now->complaint);
    _exit(128 + saved);
}

static void catch_crashes(void)
{
    static char stack[64 * 1024];
    const stack_t other = {.ss_sp = stack, .ss_size = sizeof stack};
    struct sigaction action = {.sa_handler = crashed, .sa_flags = SA_ONSTACK};
    sigaltstack(&other, NULL);
    sigaction(SIGSEGV, &action, NULL);
    sigaction(SIGBUS, &action, NULL);
    sigaction(SIGABRT, &action, NULL);
}

static void open_all(const round_of *now, talk_state *state)
{
    rowlock_client_options options = quick_options();
    if (now->talk->flags & VIA)
        options.via = ROWLOCK_VIA_PROCEDURES;
    if (!(now->talk->flags & OPENS) &&
        rowlock_client_open(&options, &state->client, &state->err) != ROWLOCK_OK)
        talk_complain("the client cannot be opened: %s", state->err.message);
    if (!(now->talk->flags & OWN))
        return;
    state->own = mysql_init(NULL);
    if (!state->own ||
        !mysql_real_connect(state->own, NULL, "root", NULL, ts_schema(), 0, ts_socket(), 0))
        talk_complain("no connection of the caller's");
}

/* The same client can take another lock at once. */
static void check_later_call(const talk_state *state)
{
    const rowlock_acquire_options options = {.mode = state->how.mode, .wait_ms = PATIENCE_MS};
    rowlock_error err = {0};
    rowlock_hold *hold = NULL;
    if (!state->client)
        return;
    const char *name = options.mode == ROWLOCK_OPTIMISTIC ? "later-lease" : "later-row";
    rowlock_status status = rowlock_acquire(state->client, name, &options, &hold, &err);
    if (status == ROWLOCK_OK)
        status = rowlock_release(hold, &err);
    if (status != ROWLOCK_OK)
        talk_complain("a later call does not work: %s: %s", rowlock_status_name(status),
                      err.message);
}

static void check_nothing_left(void)
{
    bool ended = POLL_UNTIL(inject_left().threads == 0, PATIENCE_MS);
    const inject_rest rest = inject_left();
    char text[3000];
    if (!ended || rest.descriptors != 0)
        talk_complain("threads are left: %zu; descriptors: %zu", rest.threads, rest.descriptors);
    if (inject_in_connector() && inject_blocks_of_connector()) {
        report_now->leaked = rest.blocks != 0;
    } else if (rest.blocks != 0) {
        inject_list_blocks(text, sizeof text);
        talk_complain("blocks of memory are left: %zu:%s", rest.blocks, text);
    }
}

static void note_outcome(const talk_state *state, rowlock_status status)
{
    report_now->status = status;
    report_now->err = state->err;
    report_now->fired = inject_fired();
    report_now->in_connector = inject_in_connector();
}

static int run_round(void *arg)
{
    const round_of *now = arg;
    talk_state state = {.name = now->name, .how = now->talk->how};
    state.how.mode = now->mode;
    state.how.ttl_ms = now->talk->flags & SOON ? ts_short_ttl(now->mode) : TTL_MS;
    report_now = now->report;
    inject_tell_place(report_now->place, sizeof report_now->place);
    catch_crashes();
    inject_begin();
    open_all(now, &state);
    if (now->way->error)
        inject_server_error(now->way->error, now->way->sqlstate);
    inject_arm(now->way->kind, now->side, now->nth);
    rowlock_status status = now->talk->run(&state);
    /* The library's threads may send their last request as late as at the close. */
    if (now->side == INJECT_CALLER) {
        inject_disarm();
        check_later_call(&state);
    }
    rowlock_client_close(state.client);
    inject_disarm();
    mysql_close(state.own);
    note_outcome(&state, status);
    check_nothing_left();
    end_child();
}

/* ------------------------------------------------------------------ what must hold after it */

static void found(const round_of *now, const char *what)
{
    const report *r = now->report;
    fail_msg("%s: %s\n  number %u (kind %d, error %u): %s\n"
             "  it ended with %s: %s (server %u, statement %s)",
             now->talk->name, what, now->nth, (int)now->way->kind, now->way->error,
             *r->place ? r->place : "nothing failed", rowlock_status_name(r->status),
             r->err.message, r->err.server_errno, r->err.statement);
}

/* Connector/C reports most failures inside it as a lost connection, or one that cannot be made. */
static bool is_allowed(const round_of *now)
{
    const report *r = now->report;
    bool lost = r->in_connector && r->status == ROWLOCK_UNAVAILABLE;
    /* A release has little time: it may end so on a machine that stood still meanwhile. */
    bool late = now->talk->flags & SOON && r->status == ROWLOCK_UNKNOWN &&
                ts_stood_ms() - now->stood_ms >= 10;
    return lost || late || ((now->way->allowed | now->talk->also) & 1u << r->status);
}

static void check_report(const round_of *now)
{
    const report *r = now->report;
    if (*r->complaint)
        found(now, r->complaint);
    if (!r->ended)
        found(now, "it has not come to its end");
    if (r->status == ROWLOCK_OK)
        return;
    const char *flaw = ts_error_flaw(r->status, &r->err);
    if (flaw)
        found(now, flaw);
    /* Without a failure, a status in `also` is allowed: a wait or a release may be late on a busy
     * machine. */
    if (!r->fired && !(now->talk->also & 1u << r->status))
        found(now, "nothing failed, and yet");
    if (!is_allowed(now))
        found(now, "a status that it should not have");
}

static int64_t remaining_ms(const char *name)
{
    return (int64_t)ts_sql_u64(
        mysql,
        "SELECT COALESCE(MAX(TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), GREATEST("
        "  r.lease_expires_at, IF(l.version = r.version, l.expires_at, r.lease_expires_at)))"
        "  DIV 1000), 0)"
        "  FROM resource r LEFT JOIN lease_renewal l ON l.id = r.id"
        " WHERE r.resource_name = %s AND r.status = 'held' AND r.kind = 'optimistic'"
        "   AND r.lease_expires_at > UTC_TIMESTAMP(6)",
        ts_quote(name));
}

/* A lease that was left ends within its TTL, and then another client gets the lock. */
static void check_lock(const round_of *now)
{
    const rowlock_acquire_options options = {.mode = now->mode, .wait_ms = PATIENCE_MS};
    rowlock_hold *hold = NULL;
    if (now->talk->flags & (OPENS | HELD))
        return;
    int64_t left_ms = remaining_ms(now->name);
    if (left_ms > TTL_MS)
        found(now, "a lease is left that outlives its TTL");
    if (left_ms > 0)
        ts_expire(mysql, now->name, ROWLOCK_OPTIMISTIC);
    if (rowlock_acquire(witness, now->name, &options, &hold, &ts_err) != ROWLOCK_OK) {
        print_error("another: %s\n", ts_err.message);
        found(now, "nobody else can have the lock");
    }
    WANT(OK, rowlock_release(hold, &ts_err));
}

/* ------------------------------------------------------------------------- all the rounds */

/* In memory that the rounds share. */
static struct shared {
    inject_places places;
    report reports[AT_ONCE];
} * shared;

static struct {
    unsigned failed;    /* rounds in which a request failed */
    unsigned connector; /* rounds in which Connector/C crashed ... */
    unsigned leaks;     /* ... and in which it left memory of its own */
} result;

static void begin_round(round_of *now)
{
    memset(now->report, 0, sizeof *now->report);
    if (now->talk->flags & FRESH)
        now->name = ts_name("fresh");
    if ((now->talk->flags & HELD) && !now->others)
        now->others = ts_take(witness, now->name, now->mode, 60000);
    now->stood_ms = ts_stood_ms();
    now->pid = ts_fork(run_round, now);
}

static void check_others(round_of *now)
{
    if (!now->others)
        return;
    if (!(now->talk->flags & BREAKS)) {
        assert_held(now->others);
        return;
    }
    rowlock_status status = rowlock_release(now->others, &ts_err);
    now->others = NULL;
    assert_true(status == ROWLOCK_OK || status == ROWLOCK_LOST);
}

static void end_round(round_of *now)
{
    const report *r = now->report;
    if (!POLL_UNTIL(waitpid(now->pid, NULL, WNOHANG) == now->pid, PATIENCE_MS * 3)) {
        kill(now->pid, SIGKILL);
        waitpid(now->pid, NULL, 0);
    }
    check_others(now);
    if (!r->connector)
        check_report(now);
    check_lock(now);
    result.connector += r->connector;
    result.leaks += r->leaked;
    result.failed += r->fired || r->connector;
}

/* Unless ts_long(), a place is not tried in all nine ways of a command: the command is lost, its
 * reply is lost, and two of the server's errors. */
static bool is_tried(const round_of *now, const way *ways, unsigned at, unsigned by)
{
    const talk *t = now->talk;
    if (ts_long())
        return true;
    if (t->every && (ways->kind == INJECT_MEMORY || t->flags & ALIKE))
        return (at + by) % t->every == 0;
    if (ways->kind != INJECT_CALL_LOST)
        return true;
    return by < 2 || (at + by) % 7 < 2;
}

/* Sets the next place and way, counted by *done; false if none is left. */
static bool next_of(round_of *now, const way *ways, unsigned *done)
{
    unsigned count = 0;
    while (ways[count].allowed)
        count++;
    while (*done < shared->places.count * count &&
           !is_tried(now, ways, *done / count, *done % count))
        ++*done;
    if (*done >= shared->places.count * count)
        return false;
    now->nth = shared->places.chosen[*done / count];
    now->way = &ways[(*done)++ % count];
    return true;
}

static void talk_through(const round_of *what, const way *ways)
{
    round_of rounds[AT_ONCE];
    unsigned done = 0;
    unsigned begun;
    for (unsigned i = 0; i < AT_ONCE; i++) {
        rounds[i] = *what;
        rounds[i].name = ts_name("talk");
        rounds[i].report = &shared->reports[i];
    }
    begin_round(&rounds[0]);
    end_round(&rounds[0]);
    assert_true(shared->places.count < INJECT_MANY);
    do {
        for (begun = 0; begun < AT_ONCE && next_of(&rounds[begun], ways, &done); begun++)
            begin_round(&rounds[begun]);
        for (unsigned i = 0; i < begun; i++)
            end_round(&rounds[i]);
    } while (begun == AT_ONCE);
    for (unsigned i = 0; i < AT_ONCE; i++)
        if (rounds[i].others)
            WANT(OK, rowlock_release(rounds[i].others, &ts_err));
}

static void talk_on_side(const talk *t, const way *ways, inject_side side)
{
    const char *only = getenv("ROWLOCK_TALK");
    if (!(t->flags & (side == INJECT_BEHIND ? BEHIND : BOTH)) || (only && !strstr(t->name, only)))
        return;
    for (unsigned i = 0; i < 2; i++) {
        const round_of what = {.talk = t, .way = ways, .side = side, .mode = ts_modes[i]};
        const unsigned failed = result.failed;
        const int64_t begun = ts_now_ms();
        if (!(t->flags & (i ? ROW : LEASE)))
            continue;
        talk_through(&what, ways);
        print_message("# %s (%s): %u failed, in %" PRId64 " ms\n", t->name, ts_mode_word(what.mode),
                      result.failed - failed, ts_now_ms() - begun);
    }
}

void test_talks(void **state)
{
    memset(&result, 0, sizeof result);
    memset(shared, 0, sizeof *shared);
    inject_look_at(&shared->places, ts_long());
    for (inject_side side = INJECT_CALLER; side <= INJECT_BEHIND; side++)
        for (size_t i = 0; i < sizeof talks / sizeof talks[0]; i++)
            talk_on_side(&talks[i], *state, side);
    print_message("# in all: %u failed, one at a time; in Connector/C: %u crashes, %u leaks\n",
                  result.failed, result.connector, result.leaks);
    assert_true(result.failed > 0);
}

int talks_begin(void **state)
{
    ts_suite_begin(state);
    witness = ts_open_as((rowlock_client_options){.no_history = true});
    mysql = ts_connect(ts_schema());
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(shared, MAP_FAILED);
    sql_talks_begin();
    return 0;
}

int talks_end(void **state)
{
    return ts_suite_end_with(state, witness, NULL, mysql, NULL);
}
