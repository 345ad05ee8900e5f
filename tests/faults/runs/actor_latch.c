/* A process at a latch: sets it, counts, joins as a member, waits. */
#include <sys/wait.h>

#include "actor.h"
#include "rowlock/rowlock_admin.h"
#include "rowlock/rowlock_latch.h"
#include "rowlock/rowlock_mysql.h"

enum { PROBE_MS = 10000 };

static const char *state_name(rowlock_latch_state state)
{
    static const char *const names[] = {"unset", "armed", "open", "broken"};
    return names[state];
}

static rowlock_latch_info how_it_stands(actor *a)
{
    rowlock_latch_info info = {.state = ROWLOCK_LATCH_UNSET};
    history_log(&a->log, "call verb=get");
    rowlock_status status = rowlock_latch_get(a->client, a->lock, &info, NULL);
    history_log(&a->log, "back status=%s generation=%" PRIu64 " state=%s",
                rowlock_status_name(status), info.generation, state_name(info.state));
    return info;
}

static rowlock_status set(actor *a, unsigned count, uint64_t *generation)
{
    *generation = 0;
    history_log(&a->log, "call verb=set count=%u", count);
    rowlock_status status = rowlock_latch_set(a->client, a->lock, count, generation, NULL);
    actor_back(a, status, *generation);
    return status;
}

/* One of few keys, so that several count with the same one; NULL: without a key. */
static const char *choose_key(actor *a)
{
    static const char *const keys[] = {"k0", "k1", "k2", "k3", "k4"};
    return dice_roll(&a->dice, 3) ? keys[dice_roll(&a->dice, sizeof keys / sizeof keys[0])] : NULL;
}

static void down(actor *a, uint64_t generation, const char *key)
{
    history_log(&a->log, "call verb=down asked=%" PRIu64 " key=%s", generation, key ? key : "");
    actor_back(a, rowlock_latch_down(a->client, a->lock, key, generation, NULL), 0);
}

/* Counts in a transaction, which is sometimes rolled back. */
static void down_in_transaction(actor *a, uint64_t generation, const char *key)
{
    if (!actor_begin(a))
        return;
    history_log(&a->log, "call verb=down asked=%" PRIu64 " key=%s", generation, key ? key : "");
    rowlock_status status =
        rowlock_tx_latch_down(a->client, a->table, a->lock, key, generation, NULL);
    const char *ended = actor_end(a, status == ROWLOCK_OK && dice_roll(&a->dice, 3) > 0);
    history_log(&a->log, "back status=%s", status == ROWLOCK_OK ? ended : "NONE");
}

static rowlock_status wait_for(actor *a, uint64_t generation, int64_t wait_ms)
{
    const rowlock_latch_options options = {.wait_ms = wait_ms, .generation = generation};
    uint64_t opened = 0;
    history_log(&a->log, "call verb=wait asked=%" PRIu64 " wait=%" PRId64, generation,
                wait_ms * 1000);
    rowlock_status status = rowlock_latch_wait(a->client, a->lock, &options, &opened, NULL);
    actor_back(a, status, opened);
    return status;
}

static void leave(actor *a, rowlock_hold *hold)
{
    history_log(&a->log, "call verb=leave asked=%" PRIu64, rowlock_hold_token(hold));
    actor_back(a, rowlock_release(hold, NULL), 0);
}

static void done(actor *a, rowlock_hold *hold, const char *key)
{
    history_log(&a->log, "call verb=done asked=%" PRIu64 " key=%s", rowlock_hold_token(hold),
                key ? key : rowlock_hold_owner(hold));
    actor_back(a, rowlock_latch_done(hold, NULL), 0);
}

static void close_client(actor *a, const rowlock_hold *hold)
{
    history_log(&a->log, "call verb=leave asked=%" PRIu64, rowlock_hold_token(hold));
    rowlock_client_close(a->client);
    a->client = NULL;
    actor_back(a, ROWLOCK_UNKNOWN, 0);
}

static void be_member(actor *a, uint64_t generation)
{
    const char *key = choose_key(a);
    const rowlock_latch_join_options options = {.ttl_ms = a->ttl_ms,
                                                .generation = generation,
                                                .key = key,
                                                .on_lost = actor_on_lost,
                                                .on_lost_data = a};
    rowlock_hold *hold = NULL;
    history_log(&a->log, "call verb=join asked=%" PRIu64 " key=%s", generation, key ? key : "");
    rowlock_status status = rowlock_latch_join(a->client, a->lock, &options, &hold, NULL);
    actor_back(a, status, status == ROWLOCK_OK ? rowlock_hold_token(hold) : 0);
    if (status != ROWLOCK_OK)
        return;
    actor_pass_ms(dice_between(&a->dice, 0, dice_roll(&a->dice, 6) ? 40 : 2 * a->ttl_ms));
    unsigned roll = dice_roll(&a->dice, 100);
    if (roll < 4)
        actor_quit(a);
    else if (roll < 8)
        close_client(a, hold);
    else if (roll < 20)
        leave(a, hold);
    else
        done(a, hold, key);
}

static int64_t how_long(actor *a)
{
    switch (dice_roll(&a->dice, 4)) {
    case 0:
        return 0;
    case 1:
        return dice_between(&a->dice, 1000, 5000);
    default:
        return dice_between(&a->dice, 50, 400);
    }
}

/* The present generation; now and then 0, an earlier, or a later one. */
static uint64_t choose_generation(actor *a, uint64_t present)
{
    switch (dice_roll(&a->dice, 12)) {
    case 0:
    case 1:
        return 0;
    case 2:
        return present > 1 ? present - 1 : present;
    case 3:
        return present + 1;
    default:
        return present;
    }
}

static void act(actor *a, const rowlock_latch_info *info)
{
    const uint64_t generation = choose_generation(a, info->generation);
    uint64_t set_to;
    if (info->state != ROWLOCK_LATCH_ARMED && dice_roll(&a->dice, 100) < 45) {
        (void)!set(a, 1 + dice_roll(&a->dice, 5), &set_to);
        return;
    }
    unsigned roll = dice_roll(&a->dice, 100);
    if (roll < 30)
        down(a, generation, choose_key(a));
    else if (roll < 40)
        down_in_transaction(a, generation, choose_key(a));
    else if (roll < 70)
        be_member(a, generation);
    else
        (void)!wait_for(a, generation, how_long(a));
}

void latch_cycle(actor *a)
{
    if (!actor_open_client(a)) {
        actor_pass_ms(100);
        return;
    }
    const rowlock_latch_info info = how_it_stands(a);
    act(a, &info);
    actor_pass_ms(dice_between(&a->dice, 0, 20));
}

static rowlock_status break_it(actor *a)
{
    const rowlock_break_options how = {.reason = "the probe", .now = true};
    history_log(&a->log, "call verb=break");
    rowlock_status status = rowlock_break_with(a->client, a->lock, &how, NULL);
    actor_back(a, status, 0);
    return status;
}

/* Joins in a process of its own, which dies. */
static void die_as_member(actor *a, uint64_t generation)
{
    const rowlock_latch_join_options options = {.ttl_ms = 4000, .generation = generation};
    rowlock_hold *hold = NULL;
    history_log(&a->log, "call verb=join asked=%" PRIu64, generation);
    pid_t pid = fork();
    if (pid == 0) {
        a->client = NULL;
        bool joined = actor_open_client(a) &&
                      rowlock_latch_join(a->client, a->lock, &options, &hold, NULL) == ROWLOCK_OK;
        _exit(joined ? 0 : 1);
    }
    int status = 1;
    waitpid(pid, &status, 0);
    actor_back(a, status == 0 ? ROWLOCK_OK : ROWLOCK_UNAVAILABLE, generation);
    history_log(&a->log, "call verb=leave asked=%" PRIu64, generation);
    actor_back(a, ROWLOCK_UNKNOWN, 0);
}

/* Whatever the run has left, the latch can be broken, set, counted down, and waited for; and a
 * member that dies breaks it. */
void latch_probe(actor *a)
{
    uint64_t generation = 0;
    const int64_t end = history_now() + PROBE_MS * 1000;
    (void)!break_it(a);
    while (set(a, 2, &generation) != ROWLOCK_OK && history_now() < end)
        (void)!break_it(a);
    down(a, generation, "k0");
    down(a, generation, NULL);
    (void)!wait_for(a, generation, PROBE_MS);
    if (set(a, 1, &generation) != ROWLOCK_OK)
        return;
    die_as_member(a, generation);
    (void)!wait_for(a, generation, PROBE_MS);
}
