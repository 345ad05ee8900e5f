/*
 * One process of a run on several servers. It records all its calls and their results in the
 * history (faults/runs/history.h).
 *
 *   faults_quorum_actor work   FOLDER WHO URLS TTL_MS SEED
 *   faults_quorum_actor probe  FOLDER WHO URLS TTL_MS SEED
 *   faults_quorum_actor rejoin URLS MEMBER
 *
 * URLS:   of the members, with blanks between them.
 * work:   takes the lease, looks whether it still has it, and gives it back or does not; again and
 *         again until stdin ends.
 * probe:  takes it once, waiting for up to 20 s, and gives it back.
 * rejoin: an administrator: makes the schema at that member (1 is the first), and lets it rejoin.
 */
#include "faults/runs/actor.h"
#include "rowlock/rowlock_admin.h"
#include "rowlock/rowlock_quorum.h"

static const char *members[ROWLOCK_MEMBERS_MAX];
static size_t member_count;
static bool is_patient; /* now and then it holds the lease for about its TTL */

static rowlock_client_options options_of_all(void)
{
    return (rowlock_client_options){.members = members,
                                    .member_count = member_count,
                                    .connect_timeout_ms = 2000,
                                    .reconnect_ms = 20000};
}

static bool open_client(actor *a)
{
    const rowlock_client_options options = options_of_all();
    return actor_open(a, &options);
}

static rowlock_status acquire(actor *a, int64_t wait_ms)
{
    const rowlock_acquire_options options = {
        .wait_ms = wait_ms, .ttl_ms = a->ttl_ms, .on_lost = actor_on_lost, .on_lost_data = a};
    rowlock_error err = {0};
    history_log(&a->log, "acquire wait=%" PRId64, wait_ms * 1000);
    rowlock_status status = rowlock_acquire(a->client, "lease", &options, &a->hold, &err);
    if (status == ROWLOCK_OK) {
        history_log(&a->log, "acquired status=OK token=%" PRIu64 " owner=%s fenced=1 members=%zu",
                    rowlock_hold_token(a->hold), rowlock_hold_owner(a->hold),
                    rowlock_hold_members(a->hold));
        return status;
    }
    history_log(&a->log, "acquired status=%s server=%u", rowlock_status_name(status),
                err.server_errno);
    if (status != ROWLOCK_BUSY && status != ROWLOCK_TIMEOUT)
        fprintf(stderr, "%u: acquire: %s: %s\n", a->log.who, rowlock_status_name(status),
                err.message);
    a->hold = NULL;
    return status;
}

static int64_t how_long_to_hold(actor *a)
{
    if (is_patient && dice_roll(&a->dice, 4) == 0)
        return dice_between(&a->dice, a->ttl_ms / 2, a->ttl_ms * 3 / 2);
    const unsigned roll = dice_roll(&a->dice, 50);
    if (roll == 0)
        return dice_between(&a->dice, a->ttl_ms, 2 * a->ttl_ms);
    return roll < 12 ? dice_between(&a->dice, 60, 400) : dice_between(&a->dice, 1, 60);
}

static void hold_for(actor *a, int64_t ms)
{
    const int64_t end = history_now() + ms * 1000;
    while (actor_still_ours(a) && history_now() < end && !actor_told_to_stop())
        actor_pass_ms(dice_between(&a->dice, 3, 20));
}

static void cycle(actor *a)
{
    if (!open_client(a)) {
        actor_pass_ms(100);
        return;
    }
    if (acquire(a, actor_wait_ms(a)) != ROWLOCK_OK) {
        actor_pass_ms(dice_between(&a->dice, 5, 100));
        return;
    }
    hold_for(a, how_long_to_hold(a));
    const unsigned roll = dice_roll(&a->dice, 100);
    if (roll < 3)
        actor_quit(a);
    else if (roll < 8)
        actor_close(a);
    else
        actor_release(a);
    actor_pass_ms(dice_between(&a->dice, 0, 30));
}

static int work(actor *a)
{
    while (!actor_told_to_stop())
        cycle(a);
    if (a->client)
        actor_close(a);
    return 0;
}

static int probe(actor *a)
{
    while (!open_client(a))
        actor_pass_ms(100);
    if (acquire(a, 20000) == ROWLOCK_OK)
        actor_release(a);
    actor_close(a);
    return 0;
}

/* On failure the caller tries again. */
static int rejoin(size_t member)
{
    const rowlock_client_options all = options_of_all();
    rowlock_client_options one = all;
    rowlock_error err = {0};
    one.url = members[member];
    one.members = NULL;
    one.member_count = 0;
    rowlock_status status = rowlock_migrate(&one, NULL, NULL, &err);
    if (status == ROWLOCK_OK)
        status = rowlock_quorum_rejoin(&all, member, NULL, &err);
    if (status == ROWLOCK_OK)
        return 0;
    fprintf(stderr, "rejoin %zu: %s: %s\n", member + 1, rowlock_status_name(status), err.message);
    actor_pass_ms(100);
    return 1;
}

static void split(char *urls)
{
    for (char *url; (url = strsep(&urls, " ")) != NULL && member_count < ROWLOCK_MEMBERS_MAX;)
        members[member_count++] = url;
}

int main(int argc, char **argv)
{
    actor a = {.ttl_ms = 1000};
    if (argc == 4 && strcmp(argv[1], "rejoin") == 0) {
        split(argv[2]);
        return rejoin(strtoul(argv[3], NULL, 10) - 1);
    }
    if (argc != 7)
        return 64;
    if (!history_open(&a.log, argv[2], (unsigned)strtoul(argv[3], NULL, 10)))
        return 74;
    const bool is_far = strstr(argv[4], "proxy") != NULL;
    const bool is_work = strcmp(argv[1], "work") == 0;
    split(argv[4]);
    a.ttl_ms = strtoll(argv[5], NULL, 10);
    a.dice = dice_of(strtoull(argv[6], NULL, 10));
    is_patient = dice_roll(&a.dice, 3) == 0;
    /* No order is promised to waiters of a quorum, so they count as polling. */
    history_log(&a.log, "begin name=lease mode=lease ttl=%" PRId64 " polls=1 far=%d probe=%d",
                a.ttl_ms * 1000, is_far, !is_work);
    return is_work ? work(&a) : probe(&a);
}
