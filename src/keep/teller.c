#include "keep/inside.h"

#include <signal.h>
#include <stdio.h>
#include <sys/eventfd.h>

void rl_mark_lost(rl_keeper *keeper, rl_held *held, const char *reason)
{
    snprintf(held->reason, sizeof held->reason, "%s", reason);
    atomic_store(&held->deadline_us, 0);
    atomic_store(&held->lost, true);
    int fd = atomic_load(&held->event_fd);
    if (fd >= 0)
        eventfd_write(fd, 1);
    rl_held_take_out(held);
    rl_held_put_last(&keeper->teller.losses, held);
}

void rl_mark_expired(rl_keeper *keeper, rl_held *held, int64_t now)
{
    bool at_end = now >= held->end_us - rl_margin_us(held->ttl_us);
    rl_mark_lost(keeper, held,
                 held->conn ? "the server did not answer a ping in time"
                 : at_end   ? "it was held for as long as max_hold allows"
                            : "it could not be renewed in time");
}

/* LOST is final: a caller may have been told LOST since the deadline, so a good answer that is read
 * too late (the process was stopped) does not count. */
void rl_extend_in_time(rl_keeper *keeper, rl_held *held, int64_t sent_us, int64_t ttl_us)
{
    if (!rl_held_prolong(held, sent_us, ttl_us))
        rl_mark_expired(keeper, held, rl_now_us());
}

/* With the mutex, which is released while the callback runs. The hold may be gone by then;
 * rl_keeper_remove() waits for `telling`. */
void rl_teller_begin(rl_keeper *keeper, const rl_held *held)
{
    keeper->teller.telling = held->key;
    keeper->teller.telling_thread = pthread_self();
    pthread_mutex_unlock(&keeper->mutex);
}

void rl_teller_end(rl_keeper *keeper)
{
    pthread_mutex_lock(&keeper->mutex);
    keeper->teller.telling = 0;
    pthread_cond_broadcast(&keeper->teller.told);
}

static void tell_loss(rl_keeper *keeper, rl_held *held)
{
    rl_held_take_out(held);
    char reason[sizeof held->reason];
    snprintf(reason, sizeof reason, "%s", held->reason);
    rl_teller_begin(keeper, held);
    held->on_lost(held, reason);
    rl_teller_end(keeper);
}

/* Losses first. False: there is nothing to tell. */
static bool tell_one(rl_keeper *keeper)
{
    if (!keeper->teller.losses.first)
        return keeper->teller.asks && rl_ask_tell(keeper);
    tell_loss(keeper, keeper->teller.losses.first);
    return true;
}

static void *tell_all(void *arg)
{
    rl_keeper *keeper = arg;
    pthread_mutex_lock(&keeper->mutex);
    while (!keeper->teller.silent && tell_one(keeper))
        ;
    keeper->teller.busy = false;
    pthread_mutex_unlock(&keeper->mutex);
    return NULL;
}

static void *run(void *keeper)
{
    pthread_setname_np(pthread_self(), "rowlock-teller");
    return tell_all(keeper);
}

int rl_thread_make(pthread_t *thread, void *(*function)(void *), void *arg)
{
    sigset_t all;
    sigset_t was;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &was);
    int failed = pthread_create(thread, NULL, function, arg);
    pthread_sigmask(SIG_SETMASK, &was, NULL);
    return failed;
}

bool rl_teller_missing(rl_keeper *keeper)
{
    rl_teller *teller = &keeper->teller;
    bool missing = (teller->losses.first || teller->asks) && !teller->silent && !teller->busy;
    if (missing)
        teller->busy = true;
    return missing;
}

/* An earlier teller has nothing left to do. */
void rl_teller_join(rl_keeper *keeper)
{
    if (keeper->teller.made)
        pthread_join(keeper->teller.thread, NULL);
    keeper->teller.made = false;
}

/* There is no thread for it: it is told later. */
void rl_teller_send(rl_keeper *keeper)
{
    rl_teller_join(keeper);
    keeper->teller.made = rl_thread_make(&keeper->teller.thread, run, keeper) == 0;
    if (!keeper->teller.made)
        tell_all(keeper);
}

void rl_keeper_silence(rl_keeper *keeper)
{
    pthread_mutex_lock(&keeper->mutex);
    keeper->teller.silent = true;
    while (keeper->teller.telling)
        pthread_cond_wait(&keeper->teller.told, &keeper->mutex);
    pthread_mutex_unlock(&keeper->mutex);
}

/* With the mutex: from another thread, that is. The callback itself may remove its hold. */
static bool is_being_told(const rl_teller *teller, const rl_held *held)
{
    return teller->telling && teller->telling == held->key &&
           !pthread_equal(pthread_self(), teller->telling_thread);
}

bool rl_keeper_remove(rl_keeper *keeper, rl_held *held)
{
    pthread_mutex_lock(&keeper->mutex);
    while (is_being_told(&keeper->teller, held))
        pthread_cond_wait(&keeper->teller.told, &keeper->mutex);
    /* Its holder has found it over before the keeper's thread did: that is as final. */
    if (held->list && !atomic_load(&held->lost) && atomic_load(&held->deadline_us) == 0)
        rl_mark_expired(keeper, held, rl_now_us());
    bool untold = held->list == &keeper->teller.losses;
    if (held->list)
        rl_held_take_out(held);
    pthread_mutex_unlock(&keeper->mutex);
    return untold;
}
