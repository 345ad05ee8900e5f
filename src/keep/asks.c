/* Holders that are asked to stop (sql/ask.sql). The renewal says that a lease was asked, and which
 * ask it is; the asker and the reason are read only then, by the teller, which has time. */
#include "keep/inside.h"

#define AT_ONCE       64 /* row locks in one look */
#define LOOK_LIMIT_US 2000000
#define READ_LIMIT_US 5000000
#define READ_SLICE_US 20000 /* how soon a read is given up for a loss, or the client's end */

void rl_ask_note(rl_keeper *keeper, rl_askable *name, uint64_t number)
{
    if (number == 0 || number == name->heard)
        return;
    name->due = true;
    keeper->teller.asks = true;
}

/* NULL: it has gone, or was lost; or it has changed, and its next renewal says what is asked. */
static rl_held *find_again(const rl_held_list *list, uint64_t key)
{
    rl_held *held = list->first;
    while (held && held->key != key)
        held = held->next;
    return held;
}

/* ------------------------------------------------------------------------- the teller's */

/* The i-th name of a hold. */
typedef struct name_of {
    const rl_held_list *list;
    uint64_t key;
    size_t i;
} name_of;

static bool find_due(const rl_held_list *list, name_of *due)
{
    for (const rl_held *held = list->first; held; held = held->next)
        for (size_t i = 0; i < held->ask_count; i++)
            if (held->asks[i].due) {
                *due = (name_of){.list = list, .key = held->key, .i = i};
                return true;
            }
    return false;
}

static bool is_wanted_elsewhere(rl_keeper *keeper)
{
    pthread_mutex_lock(&keeper->mutex);
    bool wanted = keeper->teller.losses.first != NULL;
    pthread_mutex_unlock(&keeper->mutex);
    return wanted || atomic_load(&keeper->stop);
}

/* A loss is told at once: others may acquire the lock soon. */
static rl_waited wait_unless_wanted(void *self, int fd, short events, short *revents,
                                    int64_t until_us)
{
    rl_keeper *keeper = self;
    struct pollfd look = {.fd = fd, .events = events};
    while (!is_wanted_elsewhere(keeper)) {
        const int64_t now = rl_now_us();
        if (poll(&look, 1, rl_poll_ms(rl_earlier(until_us, now + READ_SLICE_US))) > 0) {
            *revents = look.revents;
            return RL_READY;
        }
        if (rl_now_us() >= until_us)
            return RL_EXPIRED;
    }
    return RL_CANCELLED;
}

/* With the mutex, which it gives up meanwhile. */
static bool read_ask(rl_keeper *keeper, const rl_askable *name, rl_ask *ask)
{
    const rl_io io = {.wait = wait_unless_wanted,
                      .self = keeper,
                      .deadline_us = rl_now_us() + READ_LIMIT_US,
                      .abrupt = true};
    pthread_mutex_unlock(&keeper->mutex);
    rowlock_status status =
        keeper->keeping.read_ask(keeper->pool, name->id, name->version, &io, ask, NULL);
    pthread_mutex_lock(&keeper->mutex);
    return status == ROWLOCK_OK;
}

static void tell(rl_keeper *keeper, const name_of *due, rl_held *held, const rl_ask *ask)
{
    const uint64_t before = held->asks[due->i].heard;
    held->asks[due->i].heard = ask->number;
    rl_teller_begin(keeper, held);
    bool told = held->on_ask(held, due->i, ask);
    rl_teller_end(keeper);
    held = told ? NULL : find_again(due->list, due->key);
    if (held)
        held->asks[due->i].heard = before;
}

/* What could not be read, or told, is not heard: the next renewal says it again. */
bool rl_ask_tell(rl_keeper *keeper)
{
    name_of due;
    rl_ask ask;
    keeper->teller.asks = find_due(&keeper->leases, &due) || find_due(&keeper->rows, &due);
    if (!keeper->teller.asks)
        return false;
    rl_askable *name = &find_again(due.list, due.key)->asks[due.i];
    const rl_askable asked = *name;
    name->due = false;
    if (!read_ask(keeper, &asked, &ask) || keeper->teller.silent)
        return true;
    rl_held *held = find_again(due.list, due.key);
    if (held && held->asks[due.i].heard != ask.number)
        tell(keeper, &due, held, &ask);
    return true;
}

/* --------------------------------------------------------------------------- row locks */

typedef struct look {
    rl_renewal names[AT_ONCE];
    name_of of[AT_ONCE];
    size_t count;
} look;

/* With the mutex. What there is no room for is still due. */
static void collect(rl_keeper *keeper, look *all)
{
    const int64_t now = rl_now_us();
    for (rl_held *held = keeper->rows.first; held; held = held->next) {
        if (now < held->look_at_us || held->ask_count > AT_ONCE - all->count)
            continue;
        held->look_at_us = rl_held_next_look(held, now);
        for (size_t i = 0; i < held->ask_count; i++, all->count++) {
            all->of[all->count] = (name_of){.list = &keeper->rows, .key = held->key, .i = i};
            all->names[all->count] = (rl_renewal){.resource_id = held->asks[i].id,
                                                  .version = held->asks[i].version,
                                                  .identity = held->identity};
        }
    }
    keeper->due_us = 0;
}

static void note_all(rl_keeper *keeper, const look *all)
{
    pthread_mutex_lock(&keeper->mutex);
    for (size_t i = 0; i < all->count; i++) {
        const name_of *of = &all->of[i];
        rl_held *held = all->names[i].ask_number ? find_again(of->list, of->key) : NULL;
        if (held)
            rl_ask_note(keeper, &held->asks[of->i], all->names[i].ask_number);
    }
    pthread_mutex_unlock(&keeper->mutex);
}

void rl_asks_look(rl_keeper *keeper, const rl_io *how)
{
    look all;
    rl_io io = *how;
    all.count = 0;
    pthread_mutex_lock(&keeper->mutex);
    collect(keeper, &all);
    pthread_mutex_unlock(&keeper->mutex);
    keeper->look_at_us = RL_NEVER;
    if (all.count == 0)
        return;
    io.deadline_us = rl_now_us() + LOOK_LIMIT_US;
    keeper->aside = true;
    rowlock_status status = keeper->keeping.look(keeper->pool, all.names, all.count, &io, NULL);
    keeper->aside = false;
    if (status == ROWLOCK_OK)
        note_all(keeper, &all);
}
