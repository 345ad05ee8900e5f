/* The connection is cut after each byte of a conversation, in either direction. */
#include "faults/through.h"

/* Longer than any conversation here: reaching it means an endless loop. */
#define BYTES_MAX 20000

static const char *way_word(ts_way way)
{
    return way == TS_UP ? "to the server" : "to the client";
}

typedef struct cut {
    ts_way way;
    uint64_t byte;
    bool then_refuse; /* and the server cannot be asked any more */
    int64_t start_ms; /* begin of the acquire */
} cut;

/* The allowed statuses of a call whose connection was cut. */
static bool is_right(rowlock_status status, rowlock_mode mode, const cut *c)
{
    if (status == ROWLOCK_OK)
        return true;
    if (!c->then_refuse)
        return false;
    /* A lease is lost if the machine stood still for its whole TTL. */
    bool may_be_lost =
        mode == ROWLOCK_PESSIMISTIC || ts_now_ms() - c->start_ms > ts_short_ttl(mode) * 3 / 4;
    return status == ROWLOCK_UNKNOWN || status == ROWLOCK_UNAVAILABLE ||
           (status == ROWLOCK_LOST && may_be_lost);
}

/* Prints where it happened if the test fails. */
static void expect_at(bool good, rowlock_mode mode, const cut *c, const char *what)
{
    if (!good)
        fail_msg("%s, byte %" PRIu64 " %s: %s: %s", ts_mode_word(mode), c->byte, way_word(c->way),
                 what, ts_err.message);
}

/* Acquires and releases; false: it ended before the byte was reached. */
static bool cycle_with_cut(rowlock_client *client, const char *name, rowlock_mode mode, cut *c,
                           uint64_t *token)
{
    rowlock_hold *hold = NULL;
    WANT(OK, ts_try(client, name, mode)); /* now it is connected, and everything is prepared */
    ts_proxy_cut_after(proxy, c->way, c->byte, c->then_refuse);
    /* A lease that is left behind, although it could be looked up, would be in the way for longer
     * than anybody waits here. */
    rowlock_acquire_options how = {
        .mode = mode, .wait_ms = 10000, .ttl_ms = c->then_refuse ? ts_short_ttl(mode) : 60000};
    c->start_ms = ts_now_ms();
    rowlock_status status = rowlock_acquire(client, name, &how, &hold, &ts_err);
    const bool acquired = status == ROWLOCK_OK;
    expect_at(is_right(status, mode, c), mode, c, "acquire");
    if (acquired) {
        expect_at(rowlock_hold_token(hold) > *token, mode, c, "not the next token");
        expect_at(is_ours(hold), mode, c, "not in the table");
        *token = rowlock_hold_token(hold);
        status = rowlock_release(hold, &ts_err);
        expect_at(is_right(status, mode, c), mode, c, "release");
    }
    bool fired = ts_proxy_fired(proxy);
    ts_proxy_flow(proxy);
    /* Only a call that answered UNKNOWN, and a release that could not be sent, may have left a
     * lease behind, for its TTL. A row lock's request from before the cut may be granted late,
     * until the server sees that the connection has ended. */
    bool known = status == ROWLOCK_OK || (status == ROWLOCK_UNAVAILABLE && !acquired);
    if (known && mode == ROWLOCK_OPTIMISTIC)
        WANT(OK, ts_try(direct, name, mode));
    else
        next_one_gets_in(name, mode, token);
    return fired;
}

static void cut_all_bytes(rowlock_mode mode, ts_way way, uint64_t step, bool then_refuse)
{
    const char *name = ts_name("every-byte");
    TS_CLIENT *client = then_refuse ? through_open_hasty() : open_patient();
    cut c = {.way = way, .then_refuse = then_refuse};
    uint64_t token = 0;
    bool fired = true;
    next_one_gets_in(name, mode, &token);
    for (; fired && c.byte < BYTES_MAX; c.byte += step) {
        fired = cycle_with_cut(client, name, mode, &c, &token);
        /* ts_try() has released the last one. */
        token = ts_version_of(mysql, name);
    }
    print_message("# %s: a cycle has %" PRIu64 " bytes %s\n", ts_mode_word(mode), c.byte - step,
                  way_word(way));
    assert_between(50, (int64_t)c.byte, BYTES_MAX - 1);
}

/* Each byte (--long), or each eleventh, which hits every statement. */
static uint64_t every(void)
{
    return ts_long() ? 1 : 11;
}

TS_BOTH(test_cut_at_every_byte_of_a_cycle)
{
    cut_all_bytes(mode, TS_UP, every(), false);
    cut_all_bytes(mode, TS_DOWN, every(), false);
}

TS_BOTH(test_cut_at_some_bytes_and_nobody_to_ask)
{
    cut_all_bytes(mode, TS_UP, 41, true);
    cut_all_bytes(mode, TS_DOWN, 17, true);
}

/* From the greeting on: login, settings, preparing statements. */
TS_ONCE(test_cut_while_opening)
{
    rowlock_client_options options = through_options();
    const uint64_t step = every();
    for (int way = TS_UP; way <= TS_DOWN; way++) {
        uint64_t byte = 0;
        bool fired = true;
        for (; fired && byte < BYTES_MAX; byte += step) {
            rowlock_client *client = NULL;
            ts_proxy_flow(proxy);
            ts_proxy_cut_after(proxy, (ts_way)way, byte, false);
            rowlock_status status = rowlock_client_open(&options, &client, &ts_err);
            fired = ts_proxy_fired(proxy);
            if (status == ROWLOCK_OK)
                rowlock_client_close(client);
            else
                WANT(UNAVAILABLE, status);
        }
        print_message("# opening has %" PRIu64 " bytes %s\n", byte, way_word((ts_way)way));
        assert_false(fired);
    }
}

/* Many at once: each has a connection of its own, which is cut at another byte. */
enum { LINES = 64 };
/* All connect again within a third of it, in the time that is left then. */
enum { RENEWED_TTL = 12000 };

typedef struct line {
    ts_proxy *proxy;
    rowlock_client *client;
    rowlock_hold *hold;
    const char *name;
    int64_t lowest_ms; /* the least time left since the last renewal was seen */
    bool was;          /* the condition that is asked of all was true */
} line;

static void open_line(line *l, const char *name, rowlock_mode mode)
{
    rowlock_client_options options = through_options();
    *l = (line){.name = name, .proxy = ts_proxy_start(ts_socket()), .lowest_ms = INT64_MAX};
    options.socket = ts_proxy_socket(l->proxy);
    l->client = ts_open_with(options);
    l->hold = ts_take(l->client, name, mode, RENEWED_TTL);
}

/* It was renewed since the last call. */
static bool is_renewed(line *l)
{
    int64_t left = rowlock_hold_remaining_ms(l->hold);
    bool renewed = left > l->lowest_ms;
    l->lowest_ms = renewed || left < l->lowest_ms ? left : l->lowest_ms;
    return renewed;
}

static bool is_cut(line *l)
{
    return ts_proxy_fired(l->proxy);
}

static bool is_settled(line *l)
{
    return rowlock_hold_check(l->hold) == ROWLOCK_LOST || is_renewed(l);
}

/* Each was so at some time since the last time that all were. */
static bool are_all(line *lines, int count, bool (*is)(line *))
{
    int were = 0;
    for (int i = 0; i < count; i++) {
        lines[i].was = lines[i].was || is(&lines[i]);
        were += lines[i].was;
    }
    for (int i = 0; were == count && i < count; i++) {
        lines[i].was = false;
        lines[i].lowest_ms = INT64_MAX;
    }
    return were == count;
}

static void close_line(line *l, rowlock_mode mode, bool may_be_lost)
{
    uint64_t token = rowlock_hold_token(l->hold);
    rowlock_status kept = rowlock_hold_check(l->hold);
    if (!may_be_lost || kept != ROWLOCK_LOST)
        WANT(OK, kept);
    rowlock_status status = rowlock_release(l->hold, &ts_err);
    assert_int_equal(status, kept);
    rowlock_hold *next = ts_take(direct, l->name, mode, TS_KEPT_TTL);
    assert_true(rowlock_hold_token(next) > token);
    WANT(OK, rowlock_release(next, &ts_err));
    rowlock_client_close(l->client);
    ts_proxy_stop(l->proxy);
}

/* The number of bytes of a renewal. */
static uint64_t renewal_bytes(rowlock_mode mode, ts_way way)
{
    line l;
    open_line(&l, ts_name("measured"), mode);
    assert_true(POLL_UNTIL(is_renewed(&l), 10000));
    uint64_t before = ts_proxy_bytes(l.proxy, way);
    assert_true(POLL_UNTIL(is_renewed(&l), 10000));
    uint64_t bytes = ts_proxy_bytes(l.proxy, way) - before;
    close_line(&l, mode, false);
    print_message("# %s: a renewal has %" PRIu64 " bytes %s\n", ts_mode_word(mode), bytes,
                  way_word(way));
    assert_between(5, (int64_t)bytes, 2000);
    return bytes;
}

/* `from` and each `step`th byte after it. A lease outlives its connection; a row lock does not. */
static void renew_with_cuts(rowlock_mode mode, ts_way way, uint64_t from, uint64_t step, int count)
{
    line lines[LINES];
    for (int i = 0; i < count; i++)
        open_line(&lines[i], ts_name("renewed"), mode);
    assert_true(POLL_UNTIL(are_all(lines, count, is_renewed), 10000));
    for (int i = 0; i < count; i++)
        ts_proxy_cut_after(lines[i].proxy, way, from + step * (uint64_t)i, false);
    assert_true(POLL_UNTIL(are_all(lines, count, is_cut), 10000));
    assert_true(POLL_UNTIL(are_all(lines, count, is_settled), 10000));
    for (int i = 0; i < count; i++)
        close_line(&lines[i], mode, mode == ROWLOCK_PESSIMISTIC);
}

TS_BOTH(test_cut_at_every_byte_of_a_renewal)
{
    const uint64_t step = ts_long() ? 1 : 5;
    for (int way = TS_UP; way <= TS_DOWN; way++) {
        uint64_t bytes = renewal_bytes(mode, (ts_way)way);
        for (uint64_t from = 0; from <= bytes; from += LINES * step) {
            uint64_t left = (bytes - from) / step + 1;
            renew_with_cuts(mode, (ts_way)way, from, step, left < LINES ? (int)left : LINES);
        }
    }
}

TS_MAIN("bytes", through_begin, through_end)
