/* Barriers: N members enter together, and leave together. */
#include "rowlock/rowlock_barrier.h"

#include "conformance/clients.h"

/* One member, in a thread of its own: enters, and leaves when it is told to. */
typedef struct member {
    rowlock_client *from;
    const char *name;
    unsigned count;
    rowlock_barrier_options options;
    pthread_t thread;
    atomic_bool entered, leave, left;
    rowlock_status status, leave_status;
    rowlock_error err;
    rowlock_hold *hold;
    int64_t leave_wait_ms;
} member;

static void *take_part(void *data)
{
    member *m = data;
    m->status = rowlock_barrier_enter(m->from, m->name, m->count, &m->options, &m->hold, &m->err);
    atomic_store(&m->entered, true);
    if (m->status != ROWLOCK_OK)
        return NULL;
    while (!atomic_load(&m->leave))
        ts_pass_ms(1);
    m->leave_status = rowlock_barrier_leave(m->hold, m->leave_wait_ms, NULL, &m->err);
    atomic_store(&m->left, true);
    return NULL;
}

static member *start(rowlock_client *from, const char *name, unsigned count, int64_t wait_ms)
{
    member *m = calloc(1, sizeof *m);
    assert_non_null(m);
    *m = (member){.from = from,
                  .name = name,
                  .count = count,
                  .options = {.wait_ms = wait_ms, .ttl_ms = 30000},
                  .leave_wait_ms = 60000};
    assert_int_equal(pthread_create(&m->thread, NULL, take_part, m), 0);
    return m;
}

static rowlock_status entered(member *m)
{
    assert_true(POLL_UNTIL(atomic_load(&m->entered), 20000));
    ts_err = m->err;
    return m->status;
}

static rowlock_status left(member *m)
{
    atomic_store(&m->leave, true);
    assert_true(POLL_UNTIL(atomic_load(&m->left), 20000));
    ts_err = m->err;
    return m->leave_status;
}

static void end(member *m)
{
    atomic_store(&m->leave, true);
    pthread_join(m->thread, NULL);
    if (m->hold)
        (void)!rowlock_release(m->hold, &ts_err);
    free(m);
}

static uint64_t gathered(const char *name)
{
    return ts_rows_of(mysql, "lock_grant", name,
                      " AND x.version = r.version AND x.expires_at > UTC_TIMESTAMP(6)");
}

/* Nobody has entered before the last one comes; all are members of one generation, with different
 * places. */
TS_ONCE(test_enter_and_leave_together)
{
    enum { MEMBERS = 4 };
    const char *name = ts_name("step");
    member *all[MEMBERS];
    bool seen[MEMBERS] = {false};
    for (unsigned i = 0; i < MEMBERS - 1; i++)
        all[i] = start(i % 2 ? client : other, name, MEMBERS, 60000);
    assert_true(POLL_UNTIL(gathered(name) == MEMBERS - 1, 10000));
    for (unsigned i = 0; i < MEMBERS - 1; i++)
        assert_false(atomic_load(&all[i]->entered));
    all[MEMBERS - 1] = start(client, name, MEMBERS, 60000);
    for (unsigned i = 0; i < MEMBERS; i++) {
        WANT(OK, entered(all[i]));
        assert_held(all[i]->hold);
        assert_true(rowlock_hold_token(all[i]->hold) == rowlock_hold_token(all[0]->hold));
        const unsigned slot = rowlock_hold_slot(all[i]->hold);
        assert_in_range(slot, 0, MEMBERS - 1);
        assert_false(seen[slot]);
        seen[slot] = true;
    }
    for (unsigned i = 0; i < MEMBERS - 1; i++)
        atomic_store(&all[i]->leave, true);
    ts_pass_ms(300);
    for (unsigned i = 0; i < MEMBERS; i++)
        assert_false(atomic_load(&all[i]->left));
    atomic_store(&all[MEMBERS - 1]->leave, true);
    for (unsigned i = 0; i < MEMBERS; i++)
        WANT(OK, left(all[i]));
    for (unsigned i = 0; i < MEMBERS; i++)
        end(all[i]);
    assert_int_equal(ts_sql_u64(mysql,
                                "SELECT COUNT(*) FROM lock_grant WHERE resource_id = %" PRIu64,
                                ts_id_of(mysql, name)),
                     0);
}

/*
 * A surplus member waits for the next generation, which does not wait for the first one to leave.
 */
TS_ONCE(test_the_next_generation)
{
    const char *name = ts_name("next");
    member *one = start(client, name, 2, 60000);
    member *two = start(other, name, 2, 60000);
    WANT(OK, entered(one));
    WANT(OK, entered(two));
    atomic_store(&one->leave, true);
    member *three = start(client, name, 2, 60000);
    assert_true(POLL_UNTIL(gathered(name) == 1, 10000));
    assert_false(atomic_load(&three->entered));
    member *four = start(other, name, 2, 60000);
    WANT(OK, entered(three));
    WANT(OK, entered(four));
    assert_true(rowlock_hold_token(three->hold) == rowlock_hold_token(one->hold) + 1);
    assert_false(atomic_load(&one->left));
    atomic_store(&three->leave, true);
    WANT(OK, left(four));
    WANT(OK, left(three));
    WANT(OK, left(two));
    WANT(OK, left(one));
    end(one);
    end(two);
    end(three);
    end(four);
}

static uint64_t events_of(const char *name, const char *event)
{
    return ts_sql_u64(mysql,
                      "SELECT COUNT(*) FROM lock_event WHERE resource_name = %s AND event = '%s'",
                      ts_quote(name), event);
}

/* The hold counts from the moment when all have come, as that of any lease. */
TS_ONCE(test_the_history)
{
    const char *name = ts_name("history");
    member *one = start(client, name, 2, 60000);
    assert_true(POLL_UNTIL(gathered(name) == 1, 10000));
    ts_pass_ms(1500); /* long enough for a long hold */
    assert_int_equal(events_of(name, "acquired"), 0);
    member *two = start(other, name, 2, 60000);
    WANT(OK, entered(one));
    WANT(OK, entered(two));
    assert_true(POLL_UNTIL(events_of(name, "acquired") == 2, 10000));
    assert_held(one->hold);
    atomic_store(&one->leave, true);
    WANT(OK, left(two));
    WANT(OK, left(one));
    end(one);
    end(two);
    WANT(OK, rowlock_client_flush(client, 10000, &ts_err));
    WANT(OK, rowlock_client_flush(other, 10000, &ts_err));
    assert_int_equal(events_of(name, "acquired"), 2);
    assert_int_equal(events_of(name, "released"), 2);
    /* The first member has waited for the other one, which does not count as held. */
    assert_int_equal(ts_sql_u64(mysql,
                                "SELECT COUNT(*) FROM lock_event a JOIN lock_event r"
                                " ON r.owner = a.owner AND r.event = 'released'"
                                " WHERE a.resource_name = %s AND a.event = 'acquired'"
                                " AND r.happened_at >= a.happened_at"
                                " AND ABS(TIMESTAMPDIFF(MICROSECOND, a.happened_at, r.happened_at)"
                                "         - r.held_ms * 1000) < 1000000",
                                ts_quote(name)),
                     2);
    assert_true(ts_sql_u64(mysql,
                           "SELECT MAX(waited_ms) >= 1500 FROM lock_event"
                           " WHERE resource_name = %s AND event = 'acquired'",
                           ts_quote(name)));
}

/* A member that stops waiting removes only its own place. */
TS_ONCE(test_a_wait_that_ends)
{
    const char *name = ts_name("ends");
    member *patient = start(client, name, 3, 60000);
    rowlock_hold *none = NULL;
    assert_true(POLL_UNTIL(gathered(name) == 1, 10000));
    const rowlock_barrier_options once = {.wait_ms = 0};
    const rowlock_barrier_options brief = {.wait_ms = 200};
    WANT(BUSY, rowlock_barrier_enter(other, name, 3, &once, &none, &ts_err));
    assert_non_null(strstr(ts_err.message, "2 of 3"));
    WANT_WITHIN(TIMEOUT, 200, 3000, rowlock_barrier_enter(other, name, 3, &brief, &none, &ts_err));
    assert_int_equal(gathered(name), 1);
    assert_false(atomic_load(&patient->entered));
    member *two = start(other, name, 3, 60000);
    assert_true(POLL_UNTIL(gathered(name) == 2, 10000));
    /* A try of the last member enters. (It waits for the row for a moment only.) */
    const int64_t strain_ms = ts_strain_ms();
    rowlock_status status = rowlock_barrier_enter(other, name, 3, &once, &none, &ts_err);
    if (status == ROWLOCK_BUSY && ts_strain_ms() - strain_ms >= 10)
        status = rowlock_barrier_enter(other, name, 3, &once, &none, &ts_err);
    WANT(OK, status);
    WANT(OK, entered(patient));
    WANT(OK, entered(two));
    WANT(BUSY, rowlock_barrier_leave(none, 0, NULL, &ts_err));
    WANT_WITHIN(TIMEOUT, 100, 400, rowlock_barrier_leave(none, 100, NULL, &ts_err));
    assert_held(none);
    atomic_store(&patient->leave, true);
    atomic_store(&two->leave, true);
    WANT(OK, rowlock_barrier_leave(none, 20000, NULL, &ts_err));
    WANT(OK, rowlock_release(none, &ts_err));
    WANT(OK, left(patient));
    WANT(OK, left(two));
    end(patient);
    end(two);
}

static void lock_members(MYSQL *blocker, const char *name)
{
    ts_sql(blocker, "BEGIN");
    ts_sql(blocker,
           "SELECT g.owner FROM resource r JOIN lock_grant g ON g.resource_id = r.id"
           " WHERE r.resource_name = %s FOR UPDATE",
           ts_quote(name));
}

/* One of two members leaves, with a wait that is over before the server can hear that it is ready.
 * False: the machine stood still, so that the server gave up waiting for the row (1 s). */
static bool left_and_was_heard(const char *name)
{
    const int64_t strain_ms = ts_strain_ms();
    member *brief = start(client, name, 2, 60000);
    member *patient = start(other, name, 2, 60000);
    WANT(OK, entered(brief));
    WANT(OK, entered(patient));
    TS_MYSQL *blocker = ts_connect(ts_schema());
    lock_members(blocker, name);
    brief->leave_wait_ms = 1;
    atomic_store(&brief->leave, true);
    assert_true(
        POLL_UNTIL(ts_row_waiters(mysql, "lock_grant") == 1 || atomic_load(&brief->left), 10000));
    ts_pass_ms(60);
    const bool too_early = atomic_load(&brief->left);
    ts_sql(blocker, "ROLLBACK");
    const rowlock_status status = left(brief);
    const bool stood = status == ROWLOCK_UNAVAILABLE && ts_strain_ms() - strain_ms >= 300;
    assert_true(stood || !too_early);
    if (!stood)
        WANT(TIMEOUT, status);
    WANT(OK, rowlock_release(brief->hold, &ts_err));
    brief->hold = NULL;
    if (!stood)
        WANT(OK, left(patient));
    end(brief);
    end(patient);
    return !stood;
}

/* The other one does not miss it. */
TS_ONCE(test_a_wait_that_ends_before_it_is_ready)
{
    char word[20] = "ready";
    for (int tries = 1; !left_and_was_heard(ts_name(word)); tries++) {
        assert_true(tries < 10);
        snprintf(word, sizeof word, "ready %d", tries);
    }
}

/* The server waits for the row for a second only; a call whose time is not over then goes on. */
TS_ONCE(test_a_leave_that_is_not_heard)
{
    const char *name = ts_name("unheard");
    member *m = start(client, name, 1, 60000);
    WANT(OK, entered(m));
    TS_MYSQL *blocker = ts_connect(ts_schema());
    lock_members(blocker, name);
    WANT(UNAVAILABLE, rowlock_barrier_leave(m->hold, 1, NULL, &ts_err));
    assert_non_null(strstr(ts_err.message, name));
    atomic_store(&m->leave, true);
    ts_pass_ms(1500);
    assert_false(atomic_load(&m->left));
    ts_sql(blocker, "ROLLBACK");
    WANT(OK, left(m));
    end(m);
}

/* Somebody has its row locked. */
TS_ONCE(test_a_try_of_one_that_is_locked)
{
    const char *name = ts_name("locked");
    const rowlock_barrier_options once = {.wait_ms = 0};
    TS_MYSQL *blocker = ts_connect(ts_schema());
    TS_CLIENT *hasty = ts_open_as((rowlock_client_options){.connect_timeout_ms = 3000});
    rowlock_hold *none = NULL;
    WANT(BUSY, rowlock_barrier_enter(hasty, name, 2, &once, &none, &ts_err));
    ts_sql(blocker, "BEGIN");
    ts_sql(blocker, "SELECT id FROM resource WHERE resource_name = %s FOR UPDATE", ts_quote(name));
    WANT(BUSY, rowlock_barrier_enter(hasty, name, 2, &once, &none, &ts_err));
    WANT_WITHIN(BUSY, 0, 600, rowlock_barrier_enter(client, name, 2, &once, &none, &ts_err));
    ts_sql(blocker, "ROLLBACK");
}

/* A member that dies before all have come is forgotten, and another one gets its place. */
TS_ONCE(test_dead_before)
{
    const char *name = ts_name("before");
    member *one = start(client, name, 3, 60000);
    assert_true(POLL_UNTIL(gathered(name) == 1, 10000));
    ts_sql(mysql,
           "INSERT INTO lock_grant (resource_id, owner, owner_label, version, place, acquired_at,"
           " expires_at) SELECT id, 'dead', 'the dead', version, 1, UTC_TIMESTAMP(6),"
           " UTC_TIMESTAMP(6) FROM resource WHERE resource_name = %s",
           ts_quote(name));
    member *two = start(other, name, 3, 60000);
    assert_true(POLL_UNTIL(
        ts_sql_u64(mysql, "SELECT COUNT(*) FROM lock_grant WHERE owner = 'dead'") == 0, 10000));
    assert_true(POLL_UNTIL(gathered(name) == 2, 10000));
    assert_false(atomic_load(&one->entered));
    assert_false(atomic_load(&two->entered));
    member *three = start(client, name, 3, 60000);
    WANT(OK, entered(one));
    WANT(OK, entered(two));
    WANT(OK, entered(three));
    atomic_store(&one->leave, true);
    atomic_store(&two->leave, true);
    WANT(OK, left(three));
    end(one);
    end(two);
    end(three);
}

/* A waiter that has expired, and whose row was deleted, enters again; also if others have come in
 * its place before it looks, or the name was purged. */
TS_ONCE(test_enters_again)
{
    enum { DELETED, OTHERS_CAME, PURGED };
    for (int what = DELETED; what <= PURGED; what++) {
        const char *name = ts_name("again");
        member *one = start(client, name, 2, 60000);
        assert_true(POLL_UNTIL(gathered(name) == 1, 10000));
        const uint64_t id = ts_id_of(mysql, name);
        const uint64_t generation = ts_version_of(mysql, name);
        char *owner =
            ts_sql_text(mysql, "SELECT owner FROM lock_grant WHERE resource_id = %" PRIu64, id);
        ts_sql(mysql, "BEGIN");
        if (what == OTHERS_CAME)
            ts_sql(mysql, "UPDATE resource SET version = version + 1 WHERE id = %" PRIu64, id);
        if (what == PURGED)
            ts_sql(mysql, "DELETE FROM resource WHERE id = %" PRIu64, id);
        ts_sql(mysql, "DELETE FROM lock_grant WHERE resource_id = %" PRIu64, id);
        ts_sql(mysql, "COMMIT");
        assert_true(POLL_UNTIL(gathered(name) == 1, 20000));
        assert_false(atomic_load(&one->entered));
        member *two = start(other, name, 2, 60000);
        WANT(OK, entered(one));
        WANT(OK, entered(two));
        assert_string_not_equal(rowlock_hold_owner(one->hold), owner);
        if (what == OTHERS_CAME)
            assert_int_equal(rowlock_hold_token(one->hold), generation + 1);
        free(owner);
        atomic_store(&one->leave, true);
        WANT(OK, left(two));
        end(one);
        end(two);
    }
}

/* A member is lost after all have come, or goes without leaving: the others are told which. */
TS_ONCE(test_lost_after)
{
    const char *name = ts_name("after");
    for (int by_itself = 0; by_itself < 2; by_itself++) {
        member *one = start(client, name, 2, 60000);
        rowlock_hold *hold = NULL;
        assert_true(POLL_UNTIL(gathered(name) == 1, 10000));
        const rowlock_barrier_options options = {.wait_ms = 20000, .ttl_ms = 30000};
        WANT(OK, rowlock_barrier_enter(other, name, 2, &options, &hold, &ts_err));
        WANT(OK, entered(one));
        if (by_itself)
            WANT(OK, rowlock_release(hold, &ts_err));
        else
            ts_sql(mysql, "UPDATE lock_grant SET expires_at = UTC_TIMESTAMP(6) WHERE owner = %s",
                   ts_quote(rowlock_hold_owner(hold)));
        WANT(LOST, left(one));
        assert_non_null(strstr(ts_err.message, "was lost before it left"));
        if (!by_itself) {
            WANT(LOST, rowlock_barrier_leave(hold, 0, NULL, &ts_err));
            (void)!rowlock_release(hold, &ts_err);
        }
        end(one);
    }
}

/* A break: members that have entered are lost; those that gather are not. */
TS_ONCE(test_broken)
{
    const char *name = ts_name("broken");
    WANT(NOT_FOUND, rowlock_break(client, name, NULL, &ts_err));
    member *one = start(client, name, 2, 60000);
    assert_true(POLL_UNTIL(gathered(name) == 1, 10000));
    WANT(BUSY, rowlock_break(client, name, NULL, &ts_err));
    member *two = start(other, name, 2, 60000);
    WANT(OK, entered(one));
    WANT(OK, entered(two));
    const rowlock_break_options next = {.token = rowlock_hold_token(one->hold) + 1};
    const rowlock_break_options theirs = {.token = rowlock_hold_token(one->hold)};
    WANT(BUSY, rowlock_break_with(client, name, &next, &ts_err));
    assert_int_equal(ts_sql_u64(mysql,
                                "SELECT COUNT(*) FROM lock_grant WHERE resource_id = %" PRIu64
                                " AND expires_at > UTC_TIMESTAMP(6)",
                                ts_id_of(mysql, name)),
                     2);
    WANT(OK, rowlock_break_with(client, name, &theirs, &ts_err));
    WANT(LOST, left(one));
    WANT(LOST, left(two));
    end(one);
    end(two);
}

/* A wrong number: without members, a break forgets it. */
TS_ONCE(test_another_number)
{
    const rowlock_barrier_options at_once = {.wait_ms = 0};
    const rowlock_barrier_options patient = {.wait_ms = 20000};
    const char *name = ts_name("number");
    rowlock_hold *hold = NULL;
    rowlock_hold *none = NULL;
    WANT(BUSY, rowlock_barrier_enter(client, name, 20, &at_once, &hold, &ts_err));
    WANT(MODE, rowlock_barrier_enter(client, name, 1, &at_once, &hold, &ts_err));
    WANT(OK, rowlock_break(client, name, NULL, &ts_err));
    WANT(BUSY, rowlock_break(client, name, NULL, &ts_err));
    WANT(OK, rowlock_barrier_enter(client, name, 1, &patient, &hold, &ts_err));
    WANT(MODE, rowlock_barrier_enter(other, name, 20, &at_once, &none, &ts_err));
    WANT(OK, rowlock_release(hold, &ts_err));
}

TS_ONCE(test_bad_input)
{
    const char *name = ts_name("input");
    const char *lease = ts_name("lease");
    rowlock_hold *hold = NULL;
    WANT(INVALID, rowlock_barrier_enter(client, name, 0, NULL, &hold, &ts_err));
    WANT(INVALID,
         rowlock_barrier_enter(client, name, ROWLOCK_BARRIER_MAX + 1, NULL, &hold, &ts_err));
    WANT(INVALID, rowlock_barrier_enter(client, "", 1, NULL, &hold, &ts_err));
    WANT(INVALID, rowlock_barrier_enter(client, NULL, 1, NULL, &hold, &ts_err));
    WANT(INVALID, rowlock_barrier_enter(NULL, name, 1, NULL, &hold, &ts_err));
    WANT(INVALID, rowlock_barrier_enter(client, name, 1, NULL, NULL, &ts_err));
    const rowlock_barrier_options brief = {.ttl_ms = ROWLOCK_TTL_MIN_MS - 1};
    const rowlock_barrier_options negative = {.ttl_ms = -1};
    const rowlock_barrier_options patient = {.wait_ms = 20000};
    WANT(INVALID, rowlock_barrier_enter(client, name, 1, &brief, &hold, &ts_err));
    WANT(INVALID, rowlock_barrier_enter(client, name, 1, &negative, &hold, &ts_err));
    assert_int_equal(
        ts_sql_u64(mysql, "SELECT COUNT(*) FROM resource WHERE resource_name = %s", ts_quote(name)),
        0);
    WANT(INVALID, rowlock_barrier_leave(NULL, 0, NULL, &ts_err));
    WANT(OK, rowlock_barrier_enter(client, name, 1, &patient, &hold, &ts_err));
    assert_int_equal(rowlock_hold_slot(hold), 0);
    WANT(OK, rowlock_barrier_leave(hold, 0, NULL, &ts_err));
    WANT(OK, rowlock_release(hold, &ts_err));
    hold = NULL;
    WANT(MODE, rowlock_barrier_enter(client, name, 2, NULL, &hold, &ts_err));
    assert_non_null(strstr(ts_err.message, "a barrier of 1, not of 2"));
    WANT(MODE, ts_try(client, name, ROWLOCK_OPTIMISTIC));
    hold = ts_take(client, lease, ROWLOCK_OPTIMISTIC, 30000);
    rowlock_hold *none = NULL;
    WANT(MODE, rowlock_barrier_enter(client, lease, 1, NULL, &none, &ts_err));
    WANT(INVALID, rowlock_barrier_leave(hold, 0, NULL, &ts_err));
    WANT(OK, rowlock_release(hold, &ts_err));
}

TS_MAIN("barrier", open_clients, close_clients)
