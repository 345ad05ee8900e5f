/*
 * Once in a period, leaders and asks during a storm of KILL QUERY. Nothing is lost, and nothing
 * happens twice: what a call has reported is true, and a failed call can be repeated.
 */
#include "faults/crew.h"
#include "faults/through.h"
#include "rowlock/rowlock_leader.h"
#include "rowlock/rowlock_once.h"

#define HOUR INT64_C(3600000000)

enum { TTL = 20000, WAIT = 60000 };

/* After a lost reply it may stay held, by nobody, for its TTL: so this waits. */
static rowlock_hold *take(rowlock_client *client, const char *name,
                          const rowlock_acquire_options *options)
{
    rowlock_hold *hold = NULL;
    rowlock_status status;
    rowlock_error err = {0};
    do
        status = rowlock_acquire(client, name, options, &hold, &err);
    while (crew_was_stopped(status, &err));
    return hold;
}

static void let_go(rowlock_hold *hold)
{
    rowlock_error err = {0};
    rowlock_status status = rowlock_release(hold, &err);
    (void)crew_was_stopped(status, &err);
}

/* ------------------------------------------------------------------------------------ once */

/* The first attempt of every third period fails. */
enum { PERIODS = 60 };

static const int64_t first = 400000 * HOUR;

typedef struct ledger {
    atomic_uint begun[PERIODS];
    atomic_uint ending[PERIODS]; /* a worker reports that it is done */
    atomic_uint done[PERIODS];   /* ... and got OK */
    atomic_uint inside[PERIODS];
} ledger;

static ledger seen;

static void end_period(rowlock_hold *hold, unsigned number, bool fails)
{
    rowlock_status status;
    rowlock_error err = {0};
    atomic_fetch_or(&seen.ending[number], !fails);
    atomic_fetch_sub(&seen.inside[number], 1);
    do
        status = fails ? rowlock_once_failed(hold, 1, &err) : rowlock_once_done(hold, &err);
    while (crew_was_stopped(status, &err));
    atomic_fetch_add(&seen.done[number], !fails);
}

static void once_round(rowlock_client *client, const char *name, unsigned who, unsigned number)
{
    const rowlock_acquire_options how = {.wait_ms = WAIT, .ttl_ms = TTL};
    const rowlock_once_options options = {.attempts = 2, .wait_ms = WAIT};
    const int64_t start_us = first + number * HOUR;
    rowlock_once_result result = {.attempt = 0};
    rowlock_status status;
    rowlock_error err = {0};
    (void)who;
    rowlock_hold *hold = take(client, name, &how);
    if (!hold)
        return;
    do
        status = rowlock_once_begin(hold, start_us, start_us + HOUR, &options, &result, &err);
    while (crew_was_stopped(status, &err));
    if (result.state == ROWLOCK_ONCE_BEGUN) {
        crew_expect(atomic_fetch_add(&seen.inside[number], 1) == 0, "two are at it");
        crew_expect(atomic_fetch_add(&seen.begun[number], 1) + 1 == result.attempt,
                    "it is another attempt");
        end_period(hold, number, number % 3 == 0 && result.attempt == 1);
    } else {
        crew_expect(result.state == ROWLOCK_ONCE_DONE, "its attempts are used up");
        crew_expect(atomic_load(&seen.ending[number]), "it is done, and nobody has done it");
    }
    let_go(hold);
}

/* Each period was begun and done as the ledger says. */
static void periods_are_done(const char *name)
{
    for (unsigned i = 0; i < PERIODS; i++) {
        assert_int_equal(atomic_load(&seen.begun[i]), i % 3 == 0 ? 2 : 1);
        assert_int_equal(atomic_load(&seen.done[i]), 1);
    }
    assert_int_equal(
        ts_sql_u64(mysql,
                   "SELECT COUNT(*) FROM once_run o JOIN resource r"
                   " ON r.id = o.resource_id WHERE r.resource_name = %s"
                   " AND state = 'done' AND exit_status = 0 AND attempts ="
                   " IF(TIMESTAMPDIFF(HOUR, '1970-01-01', period_start) %% 3 = %d, 2, 1)",
                   ts_quote(name), 400000 % 3),
        PERIODS);
}

TS_ONCE(test_once_beside_kill_query)
{
    periods_are_done(crew_run("stopped-once", "once_run", PERIODS, once_round));
}

/* --------------------------------------------------------------------------------- leaders */

/* A leader publishes "new", and then its token. */
enum { TERMS = 25 };

static atomic_uint leading;

/* A leader sees its own value as long as it leads. */
static void sees(rowlock_client *client, const char *name, const rowlock_hold *hold,
                 const char *value)
{
    rowlock_leader leader = {.leads = false};
    rowlock_status status;
    rowlock_error err = {0};
    do
        status = rowlock_observe(client, name, NULL, &leader, &err);
    while (crew_was_stopped(status, &err));
    crew_expect(leader.leads && leader.token == rowlock_hold_token(hold), "another one leads");
    crew_expect(strcmp(leader.value, value) == 0, "another value");
}

/* Waits for a change; the new value is one that a leader has published, and not an old one. */
static void look_for_change(rowlock_client *client, const char *name)
{
    const rowlock_observe_options options = {.wait_ms = 500,
                                             .after = &(rowlock_leader){.leads = false}};
    rowlock_leader leader = {.leads = false};
    rowlock_error err = {0};
    rowlock_status status = rowlock_observe(client, name, &options, &leader, &err);
    if (status == ROWLOCK_TIMEOUT || crew_was_stopped(status, &err))
        return;
    crew_expect(leader.leads, "nobody leads, and that is no change");
    crew_expect(strcmp(leader.value, "new") == 0 ||
                    strtoull(leader.value, NULL, 10) == leader.token,
                "the value of another leader");
}

static void leader_round(rowlock_client *client, const char *name, unsigned who, unsigned number)
{
    const rowlock_acquire_options how = {.wait_ms = WAIT, .ttl_ms = TTL, .value = "new"};
    char value[30];
    rowlock_status status;
    rowlock_error err = {0};
    if (who == 0) {
        look_for_change(client, name);
        return;
    }
    (void)number;
    rowlock_hold *hold = take(client, name, &how);
    if (!hold)
        return;
    crew_expect(atomic_fetch_add(&leading, 1) == 0, "two lead");
    sees(client, name, hold, "new");
    snprintf(value, sizeof value, "%" PRIu64, rowlock_hold_token(hold));
    do
        status = rowlock_hold_set_value(hold, value, &err);
    while (crew_was_stopped(status, &err));
    sees(client, name, hold, value);
    atomic_fetch_sub(&leading, 1);
    let_go(hold);
}

TS_ONCE(test_leaders_beside_kill_query)
{
    (void)crew_run("stopped-leader", "lock_value", TERMS, leader_round);
    assert_int_equal(atomic_load(&leading), 0);
}

/* ------------------------------------------------------------------------------------ asks */

/* Two pairs, one with a lease and one with a row lock: one of each pair holds, the other one asks,
 * and in every second round waits for the end, too. */
enum { ASKS = 12, ASKED_TTL = 6000 };

typedef struct pair {
    atomic_uint held; /* the round in which it is held */
    atomic_int asked; /* how many asks of this round may have been put */
    atomic_uint over; /* the round that the asker has ended */
    atomic_int heard; /* asks heard in all rounds */
    atomic_uint let_go;
} pair;

static pair pairs[CREW / 2];

static void hold_until_asked(rowlock_client *client, const char *name, pair *p, bool row,
                             unsigned number)
{
    const rowlock_acquire_options how = {.mode = row ? ROWLOCK_PESSIMISTIC : ROWLOCK_OPTIMISTIC,
                                         .wait_ms = WAIT,
                                         .ttl_ms = ASKED_TTL,
                                         .on_ask = ts_count_ask,
                                         .on_ask_data = &p->heard};
    atomic_store(&p->heard, 0);
    rowlock_hold *hold = take(client, name, &how);
    if (!hold)
        return;
    atomic_store(&p->asked, 0);
    atomic_store(&p->held, number + 1);
    crew_expect(POLL_UNTIL(atomic_load(&p->heard) > 0, 30000), "the ask is not heard");
    /* It is not heard again with the next look. */
    if (number % 2 == 0)
        for (int64_t end = ts_now_ms() + ASKED_TTL / 2; ts_now_ms() < end;)
            ts_pass_ms(10);
    crew_expect(atomic_load(&p->heard) <= atomic_load(&p->asked), "one ask is heard twice");
    crew_expect(rowlock_hold_check(hold) == ROWLOCK_OK, "the lock is lost");
    atomic_store(&p->let_go, number + 1);
    let_go(hold);
    crew_expect(POLL_UNTIL(atomic_load(&p->over) == number + 1, 30000), "who asked goes not on");
}

/* An asker that has waited, and could not see the end, asks again, and finds that nobody holds
 * it. */
static void ask_it(rowlock_client *client, const char *name, pair *p, unsigned number)
{
    const rowlock_ask_options options = {.wait_ms = number % 2 ? WAIT : 0};
    rowlock_status status;
    rowlock_error err = {0};
    crew_expect(POLL_UNTIL(atomic_load(&p->held) == number + 1, WAIT), "nobody takes it");
    do {
        atomic_fetch_add(&p->asked, 1);
        status = rowlock_ask(client, name, &options, &err);
        crew_expect(status != ROWLOCK_NOT_FOUND || atomic_load(&p->let_go) == number + 1,
                    "nobody is said to hold it");
        if (status == ROWLOCK_NOT_FOUND && atomic_load(&p->let_go) == number + 1)
            status = ROWLOCK_OK;
    } while (crew_was_stopped(status, &err));
    crew_expect(!options.wait_ms || atomic_load(&p->let_go) == number + 1, "the end is seen early");
    atomic_store(&p->over, number + 1);
}

static void ask_round(rowlock_client *client, const char *name, unsigned who, unsigned number)
{
    char own[80];
    pair *p = &pairs[who / 2];
    snprintf(own, sizeof own, "%s %u", name, who / 2);
    if (who % 2)
        ask_it(client, own, p, number);
    else
        hold_until_asked(client, own, p, who / 2, number);
}

TS_ONCE(test_asks_beside_kill_query)
{
    (void)crew_run("stopped-ask", "lock_ask", ASKS, ask_round);
}

TS_MAIN("stopped", through_begin, through_end)
