/*
 * One process of a run. It records all its calls and their results in the history.
 *
 *   faults_actor work  FOLDER WHO SOCKET SCHEMA LOCK MODE TTL_MS SEED FENCED POLL READERS
 *   faults_actor probe FOLDER WHO SOCKET SCHEMA LOCK MODE
 *
 * MODE:  lease, row, or a number: the name has so many slots, each a lease; latch, barrierN (of N
 *        members), once, queue: see actor_latch.c, actor_barrier.c, actor_once.c, actor_queue.c.
 * work:  acquires the lock, checks that it still has it, writes, and releases or does not; again
 *        and again until stdin ends. FENCED, POLL: 0 or 1. READERS: how many of 100 acquires are
 *        shared; now and then it upgrades or downgrades a lease. 0: neither. Of a name with slots
 *        it takes one or several, and shares none.
 * probe: acquires the lock once, waiting for up to 20 s, and releases it; with slots all of them.
 *        It sets a latch and counts it down, enters and leaves a barrier with the other probes,
 *        empties a queue.
 *
 * The guarded table takes two kinds of writes. `token`: refused by the table's own condition if a
 * higher token was there (what users build without rowlock's help). `fence`: guarded by
 * rowlock_fence() alone.
 */
#include <errmsg.h>
#include <stdarg.h>

#include "actor.h"
#include "engine/client.h"
#include "kind/shared.h"
#include "rowlock/rowlock_leader.h"
#include "rowlock/rowlock_mysql.h"

static void disconnect(actor *a)
{
    if (a->table)
        mysql_close(a->table);
    a->table = NULL;
}

static bool connected(actor *a)
{
    unsigned seconds = 3;
    if (a->table)
        return true;
    a->table = mysql_init(NULL);
    mysql_options(a->table, MYSQL_OPT_CONNECT_TIMEOUT, &seconds);
    mysql_options(a->table, MYSQL_OPT_READ_TIMEOUT, &seconds);
    mysql_options(a->table, MYSQL_OPT_WRITE_TIMEOUT, &seconds);
    if (mysql_real_connect(a->table, NULL, "actor", NULL, a->schema, 0, a->socket, 0))
        return true;
    disconnect(a);
    return false;
}

bool actor_sql(actor *a, const char *format, ...)
{
    char text[600];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return mysql_query(a->table, text) == 0;
}

/* Both lock the guard's row until the end of the transaction, so that the table's ids are in the
 * order of the commits. */
static const char *guard_by_token(actor *a)
{
    if (!actor_sql(a,
                   "UPDATE guard SET writes = writes + 1, token = %" PRIu64
                   " WHERE name = '%s' AND token <= %" PRIu64,
                   a->token, a->name, a->token))
        return "failed";
    return mysql_affected_rows(a->table) == 1 ? "ok" : "refused";
}

static const char *guard_by_fence(actor *a)
{
    rowlock_error err = {0};
    rowlock_status status = rowlock_fence(a->hold, a->table, &err);
    if (status != ROWLOCK_OK)
        return status == ROWLOCK_LOST ? "refused" : "failed";
    return actor_sql(a,
                     "UPDATE guard SET writes = writes + 1, token = GREATEST(token, %" PRIu64
                     ") WHERE name = '%s'",
                     a->token, a->name)
               ? "ok"
               : "failed";
}

/* Without a reply to the COMMIT the outcome is unknown. */
static const char *commit(actor *a)
{
    if (actor_sql(a, "COMMIT"))
        return "ok";
    unsigned number = mysql_errno(a->table);
    return number >= CR_MIN_ERROR && number <= CR_MAX_ERROR ? "unknown" : "failed";
}

static const char *write_guarded(actor *a, const char *kind, int64_t open_ms)
{
    if (!connected(a) || !actor_sql(a, "START TRANSACTION"))
        return "failed";
    bool fence = strcmp(kind, "fence") == 0;
    const char *guarded = fence ? guard_by_fence(a) : guard_by_token(a);
    if (strcmp(guarded, "ok") != 0)
        return guarded;
    if (!actor_sql(a,
                   "INSERT INTO written (name, token, owner, writer, seq, kind)"
                   " VALUES ('%s', %" PRIu64 ", '%s', %u, %u, '%s')",
                   a->name, a->token, a->owner, a->log.who, a->writes, kind))
        return "failed";
    if (open_ms > 0)
        actor_pass_ms(open_ms);
    return commit(a);
}

bool actor_begin(actor *a)
{
    if (connected(a) && actor_sql(a, "START TRANSACTION"))
        return true;
    disconnect(a);
    return false;
}

const char *actor_end(actor *a, bool commit_it)
{
    const char *status = commit_it ? commit(a) : "failed";
    if (strcmp(status, "ok") == 0)
        return "OK";
    disconnect(a); /* which rolls back */
    return strcmp(status, "unknown") == 0 ? "UNKNOWN" : "NONE";
}

static void write_once(actor *a, const char *kind, int64_t open_ms)
{
    history_log(&a->log, "write kind=%s seq=%u", kind, ++a->writes);
    const char *status = write_guarded(a, kind, open_ms);
    if (strcmp(status, "ok") != 0)
        disconnect(a); /* which rolls back */
    history_log(&a->log, "wrote seq=%u status=%s", a->writes, status);
}

bool actor_open_client(actor *a)
{
    const rowlock_client_options options = {.socket = a->socket,
                                            .user = "actor",
                                            .schema = a->schema,
                                            .connect_timeout_ms = 2000,
                                            .reconnect_ms = a->queue ? 8000 : 20000,
                                            .waiting = a->poll ? ROWLOCK_WAITING_POLL
                                                               : ROWLOCK_WAITING_AUTO};
    return actor_open(a, &options);
}

/* Half of the processes hand a lease over as on a slow disk, whatever the disk is. */
static void take_disk_for_slow(actor *a)
{
    if (a->slow_disk)
        atomic_store(&a->client->bells.commit_us, INT64_MAX / 2);
}

/* This process's waiter. Only the library knows when it asks for its place in the queue, and when
 * it has closed a lease for readers: two of its functions are wrapped here (CMakeLists.txt). */
static const actor *waiter;

rowlock_status __real_rl_bell_wait(rl_conn *conn, const rl_bells *bells, const rl_waiter *w,
                                   uint64_t seconds, const rl_io *io, bool *got,
                                   rowlock_error *err);
rowlock_status __wrap_rl_bell_wait(rl_conn *conn, const rl_bells *bells, const rl_waiter *w,
                                   uint64_t seconds, const rl_io *io, bool *got,
                                   rowlock_error *err);
rowlock_status __real_rl_shared_drain(rl_acquisition *a, const rl_seen *seen, rowlock_error *err);
rowlock_status __wrap_rl_shared_drain(rl_acquisition *a, const rl_seen *seen, rowlock_error *err);

rowlock_status __wrap_rl_bell_wait(rl_conn *conn, const rl_bells *bells, const rl_waiter *w,
                                   uint64_t seconds, const rl_io *io, bool *got, rowlock_error *err)
{
    if (waiter->lease)
        history_log(&waiter->log, "place is=queue");
    return __real_rl_bell_wait(conn, bells, w, seconds, io, got, err);
}

rowlock_status __wrap_rl_shared_drain(rl_acquisition *a, const rl_seen *seen, rowlock_error *err)
{
    const bool was_closed = a->draining;
    rowlock_status status = __real_rl_shared_drain(a, seen, err);
    if (!was_closed && a->draining && a->stage != RL_STAGE_SETTLE)
        history_log(&waiter->log, "place is=first");
    return status;
}

static bool is_fenced(const actor *a)
{
    return a->lease || (a->fenced && !a->shared);
}

/* Slots that are acquired together have one owner. */
static void log_slots(const actor *a)
{
    for (size_t i = 0; a->slots > 0 && i < rowlock_hold_count(a->hold); i++)
        history_log(&a->log, "slot name=%s token=%" PRIu64 " owner=%s",
                    rowlock_hold_name_at(a->hold, i), rowlock_hold_token_at(a->hold, i), a->owner);
}

/* Chooses a unique value to publish; "": none. */
static void choose_value(actor *a, bool shared, char value[40])
{
    value[0] = '\0';
    if (a->lease && a->slots == 0 && !shared && dice_roll(&a->leading, 2) == 0)
        snprintf(value, 40, "v%u.%u", a->log.who, ++a->values);
}

static void observe(actor *a)
{
    rowlock_leader leader = {.leads = false};
    rowlock_error err = {0};
    history_log(&a->log, "observe");
    rowlock_status status = rowlock_observe(a->client, a->lock, NULL, &leader, &err);
    history_log(&a->log, "observed status=%s leads=%d token=%" PRIu64 " value=%s",
                rowlock_status_name(status), leader.leads, leader.token, leader.value);
}

static rowlock_status publish(actor *a, const char *value)
{
    rowlock_error err = {0};
    history_log(&a->log, "publish value=%s", value);
    rowlock_status status = rowlock_hold_set_value(a->hold, value, &err);
    history_log(&a->log, "published status=%s", rowlock_status_name(status));
    return status;
}

/* Publishes another value, or none. After an unknown outcome it publishes a further one, since the
 * first may still arrive. */
static void change_value(actor *a)
{
    char value[40];
    rowlock_status status;
    do {
        value[0] = '\0';
        if (dice_roll(&a->leading, 5) > 0)
            snprintf(value, sizeof value, "v%u.%u", a->log.who, ++a->values);
        status = publish(a, value);
    } while (status == ROWLOCK_UNKNOWN && rowlock_hold_check(a->hold) == ROWLOCK_OK);
}

static void maybe_lead(actor *a)
{
    /* After a failed change it may be a reader. */
    const bool alone = a->hold && !a->shared && (a->changes || a->readers == 0);
    if (!a->lease || a->slots > 0)
        return;
    if (alone && dice_roll(&a->leading, 8) == 0)
        change_value(a);
    if (dice_roll(&a->leading, 2) == 0)
        observe(a);
}

/* `units`: how many slots; 0: the name has none. */
static rowlock_status acquire(actor *a, int64_t wait_ms, bool shared, unsigned units)
{
    char value[40];
    choose_value(a, shared, value);
    const rowlock_acquire_options options = {.mode = a->lease ? ROWLOCK_OPTIMISTIC
                                                              : ROWLOCK_PESSIMISTIC,
                                             .value = value,
                                             .wait_ms = wait_ms,
                                             .ttl_ms = a->ttl_ms,
                                             .shared = shared,
                                             .slots = a->slots,
                                             .units = units,
                                             .unfenced = !a->lease && !a->fenced,
                                             .on_lost = actor_on_lost,
                                             .on_lost_data = a};
    rowlock_error err = {0};
    take_disk_for_slow(a);
    history_log(&a->log, "acquire wait=%" PRId64 " shared=%d units=%u value=%s", wait_ms * 1000,
                shared, units, value);
    rowlock_status status = rowlock_acquire(a->client, a->lock, &options, &a->hold, &err);
    if (status != ROWLOCK_OK) {
        history_log(&a->log, "acquired status=%s server=%u", rowlock_status_name(status),
                    err.server_errno);
        a->hold = NULL;
        return status;
    }
    a->shared = shared;
    a->changes = a->lease && a->slots == 0 && a->readers > 0;
    a->token = rowlock_hold_token(a->hold);
    snprintf(a->name, sizeof a->name, "%s", rowlock_hold_name_at(a->hold, 0));
    snprintf(a->owner, sizeof a->owner, "%s", rowlock_hold_owner(a->hold));
    log_slots(a);
    history_log(&a->log, "acquired status=OK token=%" PRIu64 " owner=%s fenced=%d", a->token,
                a->owner, is_fenced(a));
    return status;
}

/* Upgrades or downgrades. After a failed change none follows, since its state may be unknown. */
static void change(actor *a, int64_t wait_ms)
{
    rowlock_error err = {0};
    rowlock_status status;
    const bool up = a->shared;
    if (up) {
        history_log(&a->log, "upgrade wait=%" PRId64, wait_ms * 1000);
        status = rowlock_hold_upgrade(a->hold, wait_ms, NULL, &err);
    } else {
        history_log(&a->log, "downgrade");
        status = rowlock_hold_downgrade(a->hold, &err);
    }
    a->changes = status == ROWLOCK_OK;
    if (status == ROWLOCK_OK) {
        a->shared = !up;
        a->token = rowlock_hold_token(a->hold);
    }
    history_log(&a->log, "%s status=%s server=%u token=%" PRIu64 " fenced=1",
                up ? "upgraded" : "downgraded", rowlock_status_name(status), err.server_errno,
                a->token);
}

void actor_back(actor *a, rowlock_status status, uint64_t generation)
{
    history_log(&a->log, "back status=%s generation=%" PRIu64, rowlock_status_name(status),
                generation);
}

static int64_t how_long_to_hold(actor *a)
{
    unsigned roll = dice_roll(&a->dice, 20);
    if (roll == 0)
        return dice_between(&a->dice, a->ttl_ms, 2 * a->ttl_ms);
    if (roll < 9)
        return dice_between(&a->dice, 60, 400);
    return dice_between(&a->dice, 1, 60);
}

/* Writes; now and then the transaction is open for longer than the TTL. */
static void maybe_write(actor *a)
{
    unsigned roll = dice_roll(&a->dice, 100);
    if (a->token == 0)
        return;
    if (roll < 12)
        write_once(a, "token", 0);
    else if (roll < 24)
        write_once(a, "fence", dice_roll(&a->dice, 40) == 0 ? a->ttl_ms * 3 / 2 : 0);
}

static void maybe_change(actor *a)
{
    if (a->changes && dice_roll(&a->dice, 100) < 3)
        change(a, actor_wait_ms(a));
}

static void hold_for(actor *a, int64_t ms)
{
    int64_t end = history_now() + ms * 1000;
    while (actor_still_ours(a) && history_now() < end && !actor_told_to_stop()) {
        maybe_write(a);
        maybe_change(a);
        maybe_lead(a);
        actor_pass_ms(dice_between(&a->dice, 3, 20));
    }
}

static bool wants_to_share(actor *a)
{
    return a->slots == 0 && !a->once && a->readers > 0 && dice_roll(&a->dice, 100) < a->readers;
}

/* One, now and then two or three. */
static unsigned how_many_slots(actor *a)
{
    const unsigned most = a->slots < 3 ? a->slots : 3;
    if (most < 2)
        return most;
    return dice_roll(&a->dice, 3) > 0 ? 1 : 2 + dice_roll(&a->dice, most - 1);
}

static void cycle(actor *a)
{
    if (!actor_open_client(a)) {
        actor_pass_ms(100);
        return;
    }
    maybe_lead(a);
    const bool shared = wants_to_share(a);
    const unsigned units = how_many_slots(a);
    if (acquire(a, actor_wait_ms(a), shared, units) != ROWLOCK_OK) {
        actor_pass_ms(dice_between(&a->dice, 5, 100));
        return;
    }
    if (a->lease && a->slots == 0 && !shared)
        once_cycle(a);
    if (!a->once)
        hold_for(a, how_long_to_hold(a));
    unsigned roll = dice_roll(&a->dice, 100);
    if (roll < 6 && !a->once)
        actor_quit(a);
    else if (roll < 16)
        actor_close(a);
    else
        actor_release(a);
    if (a->client)
        once_after(a);
    actor_pass_ms(dice_between(&a->dice, 0, 30));
}

static int work(actor *a)
{
    while (!actor_told_to_stop()) {
        if (a->latch)
            latch_cycle(a);
        else if (a->queue)
            queue_cycle(a);
        else if (a->members)
            barrier_cycle(a);
        else
            cycle(a);
    }
    if (a->client)
        actor_close(a);
    disconnect(a);
    return 0;
}

static void probe_lock(actor *a)
{
    if (acquire(a, 20000, false, a->slots) == ROWLOCK_OK)
        actor_release(a);
}

static int probe(actor *a)
{
    while (!actor_open_client(a))
        actor_pass_ms(100);
    if (a->latch)
        latch_probe(a);
    else if (a->queue)
        queue_probe(a);
    else if (a->members)
        barrier_probe(a);
    else
        probe_lock(a);
    actor_close(a);
    return 0;
}

/* Reads MODE: "lease", "row", a number of slots, "latch", "barrier" and a number, "once", or
 * "queue". */
static const char *take_mode(actor *a, const char *mode)
{
    static const char barrier[] = "barrier";
    a->slots = (unsigned)strtoul(mode, NULL, 10);
    a->once = strcmp(mode, "once") == 0;
    a->lease = a->slots > 0 || a->once || strcmp(mode, "lease") == 0;
    a->latch = strcmp(mode, "latch") == 0;
    a->queue = strcmp(mode, "queue") == 0;
    if (strncmp(mode, barrier, sizeof barrier - 1) == 0)
        a->members = (unsigned)strtoul(mode + sizeof barrier - 1, NULL, 10);
    if (a->latch || a->queue)
        return mode;
    return a->members ? barrier : a->lease ? "lease" : "row";
}

int main(int argc, char **argv)
{
    /* A probe's: no probe dies, and a machine that stands still is to take nothing from it. */
    actor a = {.ttl_ms = 10000, .fenced = true};
    if (argc != 8 && argc != 13)
        return 64;
    if (!history_open(&a.log, argv[2], (unsigned)strtoul(argv[3], NULL, 10)))
        return 74;
    a.socket = argv[4];
    a.schema = argv[5];
    waiter = &a;
    bool is_work = strcmp(argv[1], "work") == 0;
    a.lock = argv[6];
    const char *mode = take_mode(&a, argv[7]);
    if (is_work && argc == 13) {
        /* Workers die at each step so often that the others should wait for a shorter TTL. */
        a.ttl_ms = a.once ? 500 : strtoll(argv[8], NULL, 10);
        a.dice = dice_of(strtoull(argv[9], NULL, 10));
        a.leading = dice_of(strtoull(argv[9], NULL, 10) + 1);
        a.jobs = dice_of(strtoull(argv[9], NULL, 10) + 2);
        a.fenced = *argv[10] == '1';
        a.poll = *argv[11] == '1';
        a.readers = (unsigned)strtoul(argv[12], NULL, 10);
        a.slow_disk = dice_roll(&a.dice, 2);
    }
    history_log(&a.log,
                "begin name=%s mode=%s ttl=%" PRId64
                " polls=%d far=%d slots=%u members=%u probe=%d",
                a.lock, mode, a.ttl_ms * 1000, a.poll, strstr(a.socket, "proxy") != NULL, a.slots,
                a.members, !is_work);
    return is_work ? work(&a) : probe(&a);
}
