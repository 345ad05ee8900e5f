#include "base/name.h"
#include "kind/queue.h"

rowlock_status rowlock_queue_held(rowlock_client *client, const char *queue, uint64_t id,
                                  uint64_t token, rowlock_item **item, rowlock_error *err)
{
    RL_TRY(rl_client_check(client, err));
    RL_TRY(rl_name_check(queue, err));
    if (!item)
        return rl_fail(err, ROWLOCK_INVALID, "no place was given for the item (NULL)");
    return rl_queue_held(client, queue, id, token, item, err);
}
