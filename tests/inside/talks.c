#include "inside/talks.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rowlock/rowlock_mysql.h"

#define TTL_MS      20000 /* of the locks that are taken here */
#define RENEWED_MS  2400  /* ... and of those that are to be renewed soon */
#define AT_ONCE     4
#define GIVE_UP     5000 /* no talk has so much in it */
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

static rowlock_status open_and_close(talk_state *state)
{
    rowlock_client_options options = quick_options();
    rowlock_client *client = NULL;
    rowlock_status status = rowlock_client_open(&options, &client, &state->err);
    rowlock_client_close(client);
    return status;
}

/* Through a thread of the library's, since an option file may name a host. */
static rowlock_status open_elsewhere(talk_state *state)
{
    rowlock_client_options options = quick_options();
    rowlock_client *client = NULL;
    options.defaults_file = "/dev/null";
    rowlock_status status = rowlock_client_open(&options, &client, &state->err);
    rowlock_client_close(client);
    return status;
}

static rowlock_status open_by_url(talk_state *state)
{
    char url[200];
    snprintf(url, sizeof url, "mysql://root@/%s?socket=%s&waiting=poll", ts_schema(), ts_socket());
    const rowlock_client_options options = {.url = url, .password = ""};
    rowlock_client *client = NULL;
    rowlock_status status = rowlock_client_open(&options, &client, &state->err);
    rowlock_client_close(client);
    return status;
}

static rowlock_status hold_for(talk_state *state, const rowlock_acquire_options *options,
                               int64_t hold_ms)
{
    rowlock_hold *hold = NULL;
    rowlock_status status =
        rowlock_acquire(state->client, state->name, options, &hold, &state->err);
    if (status != ROWLOCK_OK)
        return status;
    (void)rowlock_hold_fd(hold);
    if (hold_ms)
        ts_pass_ms(hold_ms);
    return rowlock_release(hold, &state->err);
}

static rowlock_status try_once(talk_state *state)
{
    const rowlock_acquire_options options = {.mode = state->mode, .ttl_ms = TTL_MS};
    return hold_for(state, &options, 0);
}

static rowlock_status wait_free(talk_state *state)
{
    const rowlock_acquire_options options = {
        .mode = state->mode, .ttl_ms = TTL_MS, .wait_ms = PATIENCE_MS};
    return hold_for(state, &options, 0);
}

static rowlock_status unfenced(talk_state *state)
{
    const rowlock_acquire_options options = {
        .mode = state->mode, .ttl_ms = TTL_MS, .wait_ms = PATIENCE_MS, .unfenced = true};
    return hold_for(state, &options, 0);
}

static rowlock_status no_reply(talk_state *state)
{
    const rowlock_acquire_options options = {
        .mode = state->mode, .ttl_ms = TTL_MS, .wait_ms = PATIENCE_MS};
    const rowlock_release_options release = {.no_reply = true, .note = "in a hurry"};
    rowlock_hold *hold = NULL;
    rowlock_status status =
        rowlock_acquire(state->client, state->name, &options, &hold, &state->err);
    return status == ROWLOCK_OK ? rowlock_release_with(hold, &release, &state->err) : status;
}

/* Long enough for a renewal, or a ping. */
static rowlock_status renew(talk_state *state)
{
    const rowlock_acquire_options options = {.mode = state->mode, .ttl_ms = RENEWED_MS};
    return hold_for(state, &options, RENEWED_MS / 2);
}

static rowlock_status wait_in_vain(talk_state *state)
{
    const rowlock_acquire_options options = {.mode = state->mode, .ttl_ms = TTL_MS, .wait_ms = 60};
    rowlock_hold *hold = NULL;
    rowlock_status status =
        rowlock_acquire(state->client, state->name, &options, &hold, &state->err);
    if (status == ROWLOCK_OK)
        (void)rowlock_release(hold, NULL);
    return status == ROWLOCK_TIMEOUT ? ROWLOCK_OK : status;
}

static rowlock_status reenter(talk_state *state)
{
    const rowlock_acquire_options options = {
        .mode = state->mode, .ttl_ms = TTL_MS, .wait_ms = PATIENCE_MS, .reentrant = true};
    rowlock_hold *hold = NULL;
    rowlock_hold *same = NULL;
    rowlock_status status =
        rowlock_acquire(state->client, state->name, &options, &hold, &state->err);
    if (status != ROWLOCK_OK)
        return status;
    status = rowlock_acquire(state->client, state->name, &options, &same, &state->err);
    rowlock_status last = rowlock_release(hold, &state->err);
    return status == ROWLOCK_OK ? rowlock_release(same, &state->err) : last;
}

/* What nobody gave back is given back by the close. */
static rowlock_status close_while_held(talk_state *state)
{
    const rowlock_acquire_options options = {.mode = state->mode, .ttl_ms = TTL_MS};
    rowlock_hold *hold = NULL;
    rowlock_status status =
        rowlock_acquire(state->client, state->name, &options, &hold, &state->err);
    rowlock_client_close(state->client);
    state->client = NULL;
    return status;
}

/* The name itself and two that go with it. */
static rowlock_status take_set(talk_state *state)
{
    char more[2][80];
    snprintf(more[0], sizeof more[0], "%s-b", state->name);
    snprintf(more[1], sizeof more[1], "%s-a", state->name);
    const char *const names[] = {more[0], state->name, more[1]};
    const rowlock_acquire_options options = {
        .mode = ROWLOCK_PESSIMISTIC, .ttl_ms = TTL_MS, .wait_ms = PATIENCE_MS};
    rowlock_hold *hold = NULL;
    rowlock_status status =
        rowlock_acquire_set(state->client, names, 3, &options, &hold, &state->err);
    return status == ROWLOCK_OK ? rowlock_release(hold, &state->err) : status;
}

static rowlock_status flush_history(talk_state *state)
{
    const rowlock_acquire_options options = {.mode = state->mode, .ttl_ms = TTL_MS};
    rowlock_status status = hold_for(state, &options, 0);
    return status == ROWLOCK_OK ? rowlock_client_flush(state->client, PATIENCE_MS, &state->err)
                                : status;
}

/* ------------------------------------------------------ on the caller's own connection */

/* The test's own statements are not what is to fail. */
static unsigned own_sql(talk_state *state, const char *text)
{
    inject_pause();
    unsigned failed = mysql_query(state->own, text) ? mysql_errno(state->own) : 0;
    inject_resume();
    return failed;
}

static rowlock_status in_transaction(talk_state *state)
{
    const rowlock_tx_options options = {.wait_ms = PATIENCE_MS};
    if (own_sql(state, "START TRANSACTION"))
        return rowlock_tx_acquire(NULL, state->own, state->name, &options, &state->err);
    rowlock_status status =
        rowlock_tx_acquire(state->client, state->own, state->name, &options, &state->err);
    (void)own_sql(state, status == ROWLOCK_OK ? "COMMIT" : "ROLLBACK");
    return status;
}

static rowlock_status fence(talk_state *state)
{
    const rowlock_acquire_options options = {
        .mode = state->mode, .ttl_ms = TTL_MS, .wait_ms = PATIENCE_MS};
    rowlock_hold *hold = NULL;
    rowlock_status status =
        rowlock_acquire(state->client, state->name, &options, &hold, &state->err);
    if (status != ROWLOCK_OK)
        return status;
    (void)own_sql(state, "START TRANSACTION");
    status = rowlock_fence(hold, state->own, &state->err);
    (void)own_sql(state, status == ROWLOCK_OK ? "COMMIT" : "ROLLBACK");
    rowlock_error err;
    rowlock_status last = rowlock_release(hold, &err);
    if (status == ROWLOCK_OK && last != ROWLOCK_OK)
        state->err = err;
    return status == ROWLOCK_OK ? last : status;
}

static rowlock_status nothing(void *data, const rowlock_section *section)
{
    (void)data;
    (void)section;
    return ROWLOCK_OK;
}

static rowlock_status nothing_there(void *data, const rowlock_section *section, MYSQL *own)
{
    (void)own;
    return nothing(data, section);
}

static rowlock_status section(talk_state *state)
{
    rowlock_section_result result;
    return rowlock_section_run(state->client, state->name, NULL, nothing, NULL, &result,
                               &state->err);
}

static rowlock_status versions(talk_state *state)
{
    uint64_t version = 0;
    rowlock_status status = rowlock_version_read(state->client, state->name, &version, &state->err);
    if (status == ROWLOCK_OK)
        status = rowlock_version_bump(state->client, state->name, version, &version, &state->err);
    return status;
}

static rowlock_status bump_in_transaction(talk_state *state)
{
    uint64_t version = 0;
    rowlock_status status = rowlock_version_read(state->client, state->name, &version, &state->err);
    if (status != ROWLOCK_OK)
        return status;
    (void)own_sql(state, "START TRANSACTION");
    status = rowlock_tx_version_bump(state->client, state->own, state->name, version, &version,
                                     &state->err);
    (void)own_sql(state, status == ROWLOCK_OK ? "COMMIT" : "ROLLBACK");
    return status;
}

static rowlock_status section_in_transaction(talk_state *state)
{
    rowlock_section_result result;
    return rowlock_tx_section_run(state->client, state->own, state->name, NULL, nothing_there, NULL,
                                  &result, &state->err);
}

/* ------------------------------------------------------------ looking and looking after */

static rowlock_status list_all(talk_state *state)
{
    const rowlock_list_options options = {.all = true, .limit = 4};
    rowlock_list *list = NULL;
    rowlock_status status = rowlock_list_get(state->client, &options, &list, &state->err);
    rowlock_list_free(list);
    return status;
}

static rowlock_status list_one(talk_state *state)
{
    rowlock_list *list = NULL;
    rowlock_status status = rowlock_list_one(state->client, state->name, &list, &state->err);
    rowlock_list_free(list);
    return status == ROWLOCK_NOT_FOUND ? ROWLOCK_OK : status;
}

static rowlock_status read_history(talk_state *state)
{
    const rowlock_history_options options = {.limit = 4};
    rowlock_history *history = NULL;
    rowlock_status status = rowlock_history_get(state->client, &options, &history, &state->err);
    rowlock_history_free(history);
    return status;
}

static rowlock_status list_waiters(talk_state *state)
{
    const rowlock_waiters_options options = {.name = state->name};
    rowlock_waiters *waiters = NULL;
    rowlock_status status = rowlock_waiters_get(state->client, &options, &waiters, &state->err);
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

#define A_LEASE(word, function, flags, also)                                                       \
    {                                                                                              \
        word, function, ROWLOCK_OPTIMISTIC, flags, also, 0                                         \
    }
#define A_ROW_LOCK(word, function, flags, also)                                                    \
    {                                                                                              \
        word, function, ROWLOCK_PESSIMISTIC, flags, also, 0                                        \
    }
#define SAMPLED(word, function, flags, also, every)                                                \
    {                                                                                              \
        word, function, ROWLOCK_OPTIMISTIC, flags, also, every                                     \
    }
#define ALIKE(word, function, flags, also)                                                         \
    A_LEASE(word ", lease", function, flags, also),                                                \
        A_ROW_LOCK(word ", row lock", function, flags, also)

const talk talks[] = {
    A_LEASE("open", open_and_close, TALK_OPENS, 0),
    A_LEASE("open in a thread", open_elsewhere, TALK_OPENS | TALK_BEHIND, 0),
    A_LEASE("open by URL", open_by_url, TALK_OPENS | TALK_ALIKE, 0),
    A_LEASE("cancel", cancel, 0, 0),
    ALIKE("first use", try_once, TALK_FRESH, 0),
    ALIKE("try", try_once, 0, 0),
    ALIKE("wait", wait_free, TALK_ALIKE, 0),
    ALIKE("wait in vain", wait_in_vain, TALK_HELD, MAY(UNKNOWN) | MAY(UNAVAILABLE)),
    A_LEASE("renew, lease", renew, TALK_BEHIND | TALK_ALIKE, MAY(LOST)),
    A_ROW_LOCK("renew, row lock", renew, TALK_BEHIND | TALK_ALIKE, MAY(LOST)),
    ALIKE("re-enter", reenter, TALK_ALIKE, 0),
    ALIKE("flush", flush_history, TALK_BEHIND | TALK_ALIKE, MAY(SERVER)),
    ALIKE("close while held", close_while_held, TALK_ALIKE, 0),
    A_ROW_LOCK("unfenced", unfenced, 0, MAY(UNKNOWN)),
    A_ROW_LOCK("release without reply", no_reply, 0, 0),
    A_ROW_LOCK("set", take_set, 0, 0),
    A_ROW_LOCK("in the caller's transaction", in_transaction, TALK_OWN, 0),
    ALIKE("fence", fence, TALK_OWN, 0),
    A_LEASE("section", section, 0, 0),
    A_LEASE("versions", versions, 0, 0),
    A_LEASE("bump in the caller's transaction", bump_in_transaction, TALK_OWN, 0),
    A_LEASE("section in a transaction", section_in_transaction, TALK_OWN, 0),
    A_LEASE("list", list_all, 0, 0),
    A_LEASE("list one", list_one, 0, 0),
    A_LEASE("history", read_history, 0, 0),
    A_LEASE("waiters", list_waiters, 0, 0),
    A_LEASE("sweep", sweep, 0, 0),
    ALIKE("break", break_it, TALK_ALIKE, MAY(UNKNOWN)),
    A_LEASE("break what is held", break_it, TALK_HELD | TALK_BREAKS, MAY(UNKNOWN)),
    ALIKE("purge", purge, 0, MAY(UNKNOWN)),
    A_LEASE("diagnose", diagnose, TALK_OPENS | TALK_ALIKE, 0),
    SAMPLED("diagnose, some of it", diagnose, TALK_OPENS, 0, 13),
    A_LEASE("migrate", migrate, TALK_OPENS, MAY(UNKNOWN)),
    SAMPLED("migrations", talk_migrations, TALK_OWN, MAY(UNKNOWN) | MAY(SERVER), 3),
    SAMPLED("repair of migrations", talk_migrations_repair, TALK_OWN, MAY(UNKNOWN), 5),
    SAMPLED("fence on a table", talk_table_fence, TALK_OWN, MAY(UNKNOWN), 2),
    /* Without memory for the reply, it is told of as of a connection that was lost. */
    SAMPLED("first use, via procedures", try_once, TALK_FRESH | TALK_VIA, MAY(UNAVAILABLE), 3),
    SAMPLED("try, via procedures", try_once, TALK_VIA, 0, 1),
    SAMPLED("wait, via procedures", wait_free, TALK_VIA | TALK_ALIKE, 0, 1),
    SAMPLED("wait in vain, via procedures", wait_in_vain, TALK_HELD | TALK_VIA,
            MAY(UNKNOWN) | MAY(UNAVAILABLE), 2),
    SAMPLED("renew, via procedures", renew, TALK_BEHIND | TALK_ALIKE | TALK_VIA, MAY(LOST), 7),
    SAMPLED("fence, via procedures", fence, TALK_OWN | TALK_VIA, 0, 2),
    SAMPLED("section, via procedures", section, TALK_VIA, 0, 2),
    SAMPLED("procedures", talk_procedures, TALK_OPENS, MAY(UNKNOWN), 41),
    SAMPLED("sweep event", talk_sweep_event, TALK_OPENS, MAY(UNKNOWN), 5),
};
const size_t talk_count = sizeof talks / sizeof talks[0];

/* ------------------------------------------------------------------------- beside them */

int talks_begin(void **state)
{
    ts_suite_begin(state);
    rowlock_client_options options = ts_options();
    options.no_history = true;
    WANT(OK, rowlock_client_open(&options, &witness, &ts_err));
    mysql = ts_connect(ts_schema());
    sql_talks_begin();
    return 0;
}

int talks_end(void **state)
{
    sql_talks_end();
    rowlock_client_close(witness);
    mysql_close(mysql);
    return ts_suite_end(state);
}

/* ------------------------------------------------------------------ one round, in a child */

/*
 * A round is a process of its own, since it may crash: in Connector/C, which does not look at all
 * that malloc() answers. That is counted, and is no fault of ours. The page is shared with it.
 */
typedef struct report {
    bool fired;
    bool ended;        /* it came to its end, good or bad */
    bool in_connector; /* what failed was asked for by it */
    bool connector;    /* it crashed, in Connector/C */
    bool leaked;       /* Connector/C has not freed something of its own */
    rowlock_status status;
    rowlock_error err;
    char place[4000];
    char complaint[4000];
} report;

typedef struct round_of {
    const talk *talk;
    const trial *how;
    unsigned nth;
    const char *name;
    report *report;       /* the shared page */
    rowlock_hold *others; /* the witness's, where the lock is to be held */
    pid_t pid;
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

static void open_client(const round_of *now, talk_state *state)
{
    rowlock_client_options options = quick_options();
    if (now->talk->flags & TALK_OPENS)
        return;
    if (now->talk->flags & TALK_VIA)
        options.via = ROWLOCK_VIA_PROCEDURES;
    if (rowlock_client_open(&options, &state->client, &state->err) != ROWLOCK_OK)
        talk_complain("the client cannot be opened: %s", state->err.message);
}

static void open_own(const round_of *now, talk_state *state)
{
    if (!(now->talk->flags & TALK_OWN))
        return;
    state->own = mysql_init(NULL);
    if (!state->own ||
        !mysql_real_connect(state->own, NULL, "root", NULL, ts_schema(), 0, ts_socket(), 0))
        talk_complain("no connection of the caller's");
}

/* The client goes on as if nothing had been: another lock, at once. */
static void check_later_call(const talk_state *state)
{
    const rowlock_acquire_options options = {.mode = state->mode, .wait_ms = PATIENCE_MS};
    rowlock_error err = {0};
    rowlock_hold *hold = NULL;
    if (!state->client)
        return;
    const char *name = state->mode == ROWLOCK_OPTIMISTIC ? "later-lease" : "later-row";
    rowlock_status status = rowlock_acquire(state->client, name, &options, &hold, &err);
    if (status == ROWLOCK_OK)
        status = rowlock_release(hold, &err);
    if (status != ROWLOCK_OK)
        talk_complain("a later call does not work: %s: %s", rowlock_status_name(status),
                      err.message);
}

static void check_nothing_left(void)
{
    if (!POLL_UNTIL(inject_threads() == 0, PATIENCE_MS))
        talk_complain("threads are left: %zu", inject_threads());
    if (inject_descriptors() != 0)
        talk_complain("descriptors are left: %zu", inject_descriptors());
    if (inject_in_connector() && inject_blocks_of_connector()) {
        report_now->leaked = inject_blocks() != 0;
    } else if (inject_blocks() != 0) {
        char text[3000];
        inject_list_blocks(text, sizeof text);
        talk_complain("blocks of memory are left: %zu:%s", inject_blocks(), text);
    }
}

static void note_outcome(const talk_state *state, rowlock_status status)
{
    report_now->status = status;
    report_now->err = state->err;
    report_now->fired = inject_fired();
    report_now->in_connector = inject_in_connector();
}

static void run_round(const round_of *now)
{
    talk_state state = {.mode = now->talk->mode, .name = now->name};
    const trial *how = now->how;
    report_now = now->report;
    inject_tell_place(report_now->place, sizeof report_now->place);
    catch_crashes();
    inject_begin();
    open_client(now, &state);
    open_own(now, &state);
    inject_arm(how->kind, how->side, now->nth);
    rowlock_status status = now->talk->run(&state);
    /* What the library's threads do may come late: the last of it at the close. */
    if (how->side == INJECT_CALLER) {
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
    print_error("%s: %s\n  number %u: %s\n  it ended with %s: %s (server %u, statement %s)\n",
                now->talk->name, what, now->nth, *r->place ? r->place : "nothing failed",
                rowlock_status_name(r->status), r->err.message, r->err.server_errno,
                r->err.statement);
    fail();
}

/* Connector/C tells of much that failed inside it as of a connection that was lost, or could not be
 * made. */
static bool is_allowed(const round_of *now)
{
    const report *r = now->report;
    bool lost = r->in_connector && r->status == ROWLOCK_UNAVAILABLE;
    return lost || ((now->how->allowed | now->talk->also) & 1u << r->status);
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
    /* A wait or a renewal may be late by itself, on a busy machine. */
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

/* What is left of the lock ends within its TTL, and then another has it. */
static void check_lock(const round_of *now)
{
    const rowlock_acquire_options options = {.mode = now->talk->mode, .wait_ms = PATIENCE_MS};
    rowlock_hold *hold = NULL;
    if (now->talk->flags & (TALK_OPENS | TALK_HELD))
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

static int run_in_child(void *arg)
{
    run_round(arg);
    return 0;
}

static void begin_round(round_of *now)
{
    memset(now->report, 0, sizeof *now->report);
    if ((now->talk->flags & TALK_HELD) && !now->others)
        now->others = ts_take(witness, now->name, now->talk->mode, 60000);
    now->pid = ts_fork(run_in_child, now);
}

static void check_others(round_of *now)
{
    if (!now->others)
        return;
    if (!(now->talk->flags & TALK_BREAKS)) {
        assert_held(now->others);
        return;
    }
    rowlock_status status = rowlock_release(now->others, &ts_err);
    now->others = NULL;
    assert_true(status == ROWLOCK_OK || status == ROWLOCK_LOST);
}

/* False: nothing was left to fail. */
static bool end_round(round_of *now, talk_result *result)
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
    result->connector += r->connector;
    result->leaks += r->leaked;
    result->failed += r->fired;
    return r->fired || r->connector;
}

/* Of memory there are very many, and much of it is asked for at the same places. */
static unsigned step_of(const talk *t, const trial *how)
{
    if (t->every == 0 || ts_long())
        return 1;
    return how->kind == INJECT_MEMORY ? t->every * 4 : t->every;
}

talk_result talk_through(const talk *t, const trial *how)
{
    talk_result result = {0};
    round_of rounds[AT_ONCE] = {{0}};
    const unsigned every = step_of(t, how);
    unsigned nth = 1;
    bool more = true;
    for (unsigned i = 0; i < AT_ONCE; i++) {
        report *shared =
            mmap(NULL, sizeof(report), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        assert_ptr_not_equal(shared, MAP_FAILED);
        rounds[i] = (round_of){.talk = t, .how = how, .name = ts_name("talk"), .report = shared};
    }
    while (more) {
        for (unsigned i = 0; i < AT_ONCE; i++) {
            rounds[i].nth = nth;
            nth += nth == 1 ? 1 + ((unsigned)how->kind + how->shift) % every : every;
            if (t->flags & TALK_FRESH)
                rounds[i].name = ts_name("fresh");
            begin_round(&rounds[i]);
        }
        for (unsigned i = 0; i < AT_ONCE; i++)
            more = end_round(&rounds[i], &result) && more;
        assert_true(nth < GIVE_UP);
    }
    for (unsigned i = 0; i < AT_ONCE; i++) {
        munmap(rounds[i].report, sizeof(report));
        if (rounds[i].others)
            WANT(OK, rowlock_release(rounds[i].others, &ts_err));
    }
    return result;
}

static bool is_meant(const talk *t, const trial *how)
{
    const char *only = getenv("ROWLOCK_TALK");
    if (how->side == INJECT_BEHIND && !(t->flags & TALK_BEHIND))
        return false;
    if ((how->brief || (t->every && how->shift % 3)) && (t->flags & TALK_ALIKE))
        return false;
    return !only || strstr(t->name, only);
}

void talk_through_all(const trial *how)
{
    talk_result all = {0};
    int64_t start = ts_now_ms();
    for (size_t i = 0; i < talk_count; i++) {
        if (!is_meant(&talks[i], how))
            continue;
        int64_t begun = ts_now_ms();
        talk_result result = talk_through(&talks[i], how);
        all.failed += result.failed;
        all.connector += result.connector;
        all.leaks += result.leaks;
        print_message("# %s: %u failed, in %" PRId64 " ms\n", talks[i].name, result.failed,
                      ts_now_ms() - begun);
    }
    print_message("# in all: %u failed, one at a time; in Connector/C: %u crashes, %u leaks; "
                  "%" PRId64 " ms\n",
                  all.failed, all.connector, all.leaks, ts_now_ms() - start);
}
