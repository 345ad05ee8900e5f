/*
 * From where on a queue is searched.
 *
 * An item that is taken, or done, leaves its entry in the index until the server purges that: a
 * moment later, or once the last old snapshot has ended. A search from the start goes over all of
 * them, and so does the search of a lane that is empty, which ends at the next lane's first item.
 * So a client searches from the item on that it has taken last, and all of the queue only now and
 * then: for what has a higher priority, and what became ready earlier and was not to be seen then
 * (its transaction was committed late, or another worker had it locked).
 */
#include "kind/queue.h"

#define WHOLE_LEAST_US 50000    /* between two searches of the whole queue ... */
#define WHOLE_MOST_US  10000000 /* ... and at most */
#define WHOLE_PART     20       /* one part in so many of the time is for such searches */

/* With the mutex. Drops another queue's that has the same place. */
static rl_cursor *cursor_of(rowlock_client *client, uint64_t queue_id)
{
    rl_cursor *cursor = &client->cursors[queue_id % RL_CURSORS];
    if (cursor->queue_id != queue_id)
        *cursor = (rl_cursor){.queue_id = queue_id};
    return cursor;
}

bool rl_cursor_get(rowlock_client *client, uint64_t queue_id, rl_cursor *cursor)
{
    pthread_mutex_lock(&client->mutex);
    *cursor = *cursor_of(client, queue_id);
    pthread_mutex_unlock(&client->mutex);
    return cursor->from_us != 0 && rl_now_us() < cursor->whole_at_us;
}

void rl_cursor_was_whole(rowlock_client *client, uint64_t queue_id, int64_t took_us)
{
    int64_t pause_us = took_us * WHOLE_PART;
    if (pause_us < WHOLE_LEAST_US)
        pause_us = WHOLE_LEAST_US;
    if (pause_us > WHOLE_MOST_US)
        pause_us = WHOLE_MOST_US;
    pthread_mutex_lock(&client->mutex);
    cursor_of(client, queue_id)->whole_at_us = rl_now_us() + pause_us;
    pthread_mutex_unlock(&client->mutex);
}

void rl_cursor_move(rowlock_client *client, uint64_t queue_id, uint64_t lane, int64_t ready_us)
{
    pthread_mutex_lock(&client->mutex);
    rl_cursor *cursor = cursor_of(client, queue_id);
    cursor->lane = lane;
    cursor->from_us = ready_us;
    pthread_mutex_unlock(&client->mutex);
}
