#include "wait/line.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

rowlock_status rl_lines_init(rl_lines *lines, rowlock_error *err)
{
    memset(lines, 0, sizeof *lines);
    if (pthread_mutex_init(&lines->mutex, NULL) != 0)
        return rl_fail(err, ROWLOCK_SYSTEM, "cannot make a mutex");
    return ROWLOCK_OK;
}

void rl_lines_destroy(rl_lines *lines, bool forked)
{
    if (!forked)
        pthread_mutex_destroy(&lines->mutex);
}

/* With the mutex. The first of this key in the list that begins at `place`. */
static rl_place *first_of(rl_place *place, uint64_t key)
{
    while (place && place->key != key)
        place = place->next;
    return place;
}

/* With the mutex. */
static void append(rl_lines *lines, unsigned bucket, rl_place *place)
{
    place->previous = lines->buckets[bucket].last;
    if (place->previous)
        place->previous->next = place;
    else
        lines->buckets[bucket].first = place;
    lines->buckets[bucket].last = place;
    atomic_store(&lines->buckets[bucket].sought, place->key);
    place->in_line = true;
}

/* What the one before us tells us by must be there before it can see us. */
static bool join_line(rl_lines *lines, rl_place *place)
{
    unsigned bucket = place->key % RL_LINE_BUCKETS;
    pthread_mutex_lock(&lines->mutex);
    bool first = !first_of(lines->buckets[bucket].first, place->key);
    if (!first)
        place->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (first || place->fd >= 0)
        append(lines, bucket, place);
    pthread_mutex_unlock(&lines->mutex);
    return place->in_line;
}

static rowlock_status await_turn(rl_lines *lines, const rl_budget *budget, int64_t until_us,
                                 rl_place *place, rowlock_error *err)
{
    rl_io io = rl_budget_lock_io(budget);
    const bool brief = until_us < io.deadline_us;
    rl_waited waited = io.wait(io.self, place->fd, POLLIN, NULL, brief ? until_us : io.deadline_us);
    if (waited == RL_READY)
        return ROWLOCK_OK;
    if (waited == RL_EXPIRED && brief)
        return ROWLOCK_BUSY;
    rowlock_status status = waited == RL_CANCELLED ? ROWLOCK_CANCELLED : ROWLOCK_TIMEOUT;
    rl_line_leave(lines, place);
    return rl_fail(err, status, "%s", rowlock_status_text(status));
}

rowlock_status rl_line_stand(rl_lines *lines, uint64_t key, const rl_budget *budget,
                             int64_t until_us, rl_place *place, rowlock_error *err)
{
    if (!place->in_line)
        *place = (rl_place){.key = key, .fd = -1};
    if (!place->in_line && !join_line(lines, place))
        return rl_fail(err, ROWLOCK_SYSTEM, "cannot make a descriptor to wait with (error %d)",
                       errno);
    return place->fd < 0 ? ROWLOCK_OK : await_turn(lines, budget, until_us, place, err);
}

bool rl_line_likely(rl_lines *lines, uint64_t key)
{
    return atomic_load_explicit(&lines->buckets[key % RL_LINE_BUCKETS].sought,
                                memory_order_relaxed) == key;
}

void rl_line_note(rl_lines *lines, uint64_t key, bool waited)
{
    uint_fast64_t seen = key;
    if (waited)
        atomic_store(&lines->buckets[key % RL_LINE_BUCKETS].sought, key);
    else
        (void)atomic_compare_exchange_strong(&lines->buckets[key % RL_LINE_BUCKETS].sought, &seen,
                                             0);
}

void rl_line_leave(rl_lines *lines, rl_place *place)
{
    if (!place->in_line)
        return;
    unsigned bucket = place->key % RL_LINE_BUCKETS;
    pthread_mutex_lock(&lines->mutex);
    bool was_first = first_of(lines->buckets[bucket].first, place->key) == place;
    rl_place *next = first_of(place->next, place->key);
    if (place->previous)
        place->previous->next = place->next;
    else
        lines->buckets[bucket].first = place->next;
    if (place->next)
        place->next->previous = place->previous;
    else
        lines->buckets[bucket].last = place->previous;
    /* With the mutex: afterwards the next one may be gone, and its descriptor with it. */
    if (was_first && next)
        eventfd_write(next->fd, 1);
    pthread_mutex_unlock(&lines->mutex);
    place->in_line = false;
    if (place->fd >= 0)
        close(place->fd);
}
