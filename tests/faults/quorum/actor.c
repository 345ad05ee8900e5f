/*
 * One process of a run on several servers. Everything it calls, and what came back, goes into the
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
#include <poll.h>
#include <time.h>

#include "faults/runs/history.h"
#include "faults/runs/schedule.h"
#include "rowlock/rowlock_admin.h"
#include "rowlock/rowlock_quorum.h"

typedef struct actor {
    history log;
    const char *members[ROWLOCK_MEMBERS_MAX];
    size_t member_count;
    int64_t ttl_ms;
    dice dice;
    bool patient; /* now and then it holds it for about its TTL */
    rowlock_client *client;
    rowlock_hold *hold;
} actor;

static void pass_ms(int64_t ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

static bool told_to_stop(void)
{
    struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
    return poll(&in, 1, 0) == 1;
}

static void on_lost(void *data, rowlock_hold *hold, const char *reason)
{
    const actor *a = data;
    (void)hold;
    (void)reason;
    history_log(&a->log, "lost");
}

static rowlock_client_options options_of(const actor *a)
{
    return (rowlock_client_options){.members = a->members,
                                    .member_count = a->member_count,
                                    .connect_timeout_ms = 2000,
                                    .reconnect_ms = 20000};
}

static bool open_client(actor *a)
{
    const rowlock_client_options options = options_of(a);
    rowlock_error err = {0};
    if (!a->client && rowlock_client_open(&options, &a->client, &err) != ROWLOCK_OK) {
        a->client = NULL;
        fprintf(stderr, "%u: open: %s\n", a->log.who, err.message);
    }
    return a->client != NULL;
}

static rowlock_status acquire(actor *a, int64_t wait_ms)
{
    const rowlock_acquire_options options = {
        .wait_ms = wait_ms, .ttl_ms = a->ttl_ms, .on_lost = on_lost, .on_lost_data = a};
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

static bool still_ours(const actor *a)
{
    int64_t from = history_now();
    /* In this order: what remains was promised at a moment at which it was still held. */
    int64_t remaining_ms = rowlock_hold_remaining_ms(a->hold);
    rowlock_status status = rowlock_hold_check(a->hold);
    history_log(&a->log, "checked from=%" PRId64 " status=%s remaining=%" PRId64, from,
                rowlock_status_name(status), remaining_ms * 1000);
    return status == ROWLOCK_OK;
}

static void release(actor *a)
{
    rowlock_error err = {0};
    history_log(&a->log, "release");
    rowlock_status status = rowlock_release(a->hold, &err);
    a->hold = NULL;
    history_log(&a->log, "released status=%s server=%u", rowlock_status_name(status),
                err.server_errno);
    if (status != ROWLOCK_OK)
        fprintf(stderr, "%u: release: %s\n", a->log.who, err.message);
}

/* Releases, too; but nobody says whether that worked. */
static void close_client(actor *a)
{
    if (a->hold)
        history_log(&a->log, "release");
    rowlock_client_close(a->client);
    if (a->hold)
        history_log(&a->log, "released status=UNKNOWN");
    a->client = NULL;
    a->hold = NULL;
}

static int64_t how_long_to_wait(actor *a)
{
    switch (dice_roll(&a->dice, 3)) {
    case 0:
        return 0;
    case 1:
        return dice_between(&a->dice, 50, 400);
    default:
        return dice_between(&a->dice, 1000, 4000);
    }
}

static int64_t how_long_to_hold(actor *a)
{
    if (a->patient && dice_roll(&a->dice, 4) == 0)
        return dice_between(&a->dice, a->ttl_ms / 2, a->ttl_ms * 3 / 2);
    const unsigned roll = dice_roll(&a->dice, 50);
    if (roll == 0)
        return dice_between(&a->dice, a->ttl_ms, 2 * a->ttl_ms);
    return roll < 12 ? dice_between(&a->dice, 60, 400) : dice_between(&a->dice, 1, 60);
}

static void hold_for(actor *a, int64_t ms)
{
    const int64_t end = history_now() + ms * 1000;
    while (still_ours(a) && history_now() < end && !told_to_stop())
        pass_ms(dice_between(&a->dice, 3, 20));
}

static void cycle(actor *a)
{
    if (!open_client(a)) {
        pass_ms(100);
        return;
    }
    if (acquire(a, how_long_to_wait(a)) != ROWLOCK_OK) {
        pass_ms(dice_between(&a->dice, 5, 100));
        return;
    }
    hold_for(a, how_long_to_hold(a));
    const unsigned roll = dice_roll(&a->dice, 100);
    if (roll < 3) {
        history_log(&a->log, "quit");
        _exit(0);
    }
    if (roll < 8)
        close_client(a);
    else
        release(a);
    pass_ms(dice_between(&a->dice, 0, 30));
}

static int work(actor *a)
{
    while (!told_to_stop())
        cycle(a);
    if (a->client)
        close_client(a);
    return 0;
}

static int probe(actor *a)
{
    while (!open_client(a))
        pass_ms(100);
    if (acquire(a, 20000) == ROWLOCK_OK)
        release(a);
    close_client(a);
    return 0;
}

/* Where it does not work yet, whoever has called tries again. */
static int rejoin(const actor *a, size_t member)
{
    const rowlock_client_options all = options_of(a);
    rowlock_client_options one = all;
    rowlock_error err = {0};
    one.url = a->members[member];
    one.members = NULL;
    one.member_count = 0;
    rowlock_status status = rowlock_migrate(&one, NULL, NULL, &err);
    if (status == ROWLOCK_OK)
        status = rowlock_quorum_rejoin(&all, member, NULL, &err);
    if (status == ROWLOCK_OK)
        return 0;
    fprintf(stderr, "rejoin %zu: %s: %s\n", member + 1, rowlock_status_name(status), err.message);
    pass_ms(100);
    return 1;
}

static void split(actor *a, char *urls)
{
    for (char *url; (url = strsep(&urls, " ")) != NULL && a->member_count < ROWLOCK_MEMBERS_MAX;)
        a->members[a->member_count++] = url;
}

int main(int argc, char **argv)
{
    actor a = {.ttl_ms = 1000};
    if (argc == 4 && strcmp(argv[1], "rejoin") == 0) {
        split(&a, argv[2]);
        return rejoin(&a, strtoul(argv[3], NULL, 10) - 1);
    }
    if (argc != 7)
        return 64;
    if (!history_open(&a.log, argv[2], (unsigned)strtoul(argv[3], NULL, 10)))
        return 74;
    const bool is_far = strstr(argv[4], "proxy") != NULL;
    const bool is_work = strcmp(argv[1], "work") == 0;
    split(&a, argv[4]);
    a.ttl_ms = strtoll(argv[5], NULL, 10);
    a.dice = dice_of(strtoull(argv[6], NULL, 10));
    a.patient = dice_roll(&a.dice, 3) == 0;
    /* Waiters of a quorum have no order that is promised: as those that poll. */
    history_log(&a.log, "begin name=lease mode=lease ttl=%" PRId64 " polls=1 far=%d probe=%d",
                a.ttl_ms * 1000, is_far, !is_work);
    return is_work ? work(&a) : probe(&a);
}
