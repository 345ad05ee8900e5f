#include "keep/inside.h"

#include <stdlib.h>

#define PROBE_AGAIN_US 50000
#define TURN_US        10000 /* no room for all: those without are looked at so often */

static void ping_over(rl_keeper *keeper, rl_held *held)
{
    switch (held->conn->ping.pong) {
    case RL_PONG_NONE:
        rl_mark_lost(keeper, held, "the connection that holds it has ended");
        return;
    case RL_PONG_DEMOTED:
        rl_mark_lost(keeper, held, "the server has become read-only: another is the primary");
        return;
    case RL_PONG_STOPPED:
    case RL_PONG_GOOD:
        break;
    }
    /* The server was replaced before this hold came to the keeper. */
    if (!rl_pool_is_current(keeper->pool, &held->conn->server, true))
        rl_mark_lost(keeper, held, RL_MOVED);
    /* The connection lives, but its server may no longer be the primary: ask again. */
    else if (held->conn->ping.pong == RL_PONG_STOPPED)
        held->next_beat_us = rl_now_us() + PROBE_AGAIN_US;
    else
        rl_extend_in_time(keeper, held, held->ping_sent_us, held->ttl_us);
    keeper->due_us = rl_earlier(keeper->due_us, held->next_beat_us);
}

int64_t rl_watch_due(rl_keeper *keeper, rl_held *held, int64_t now)
{
    if (!held->conn->ping.pending && now >= held->next_beat_us) {
        held->ping_sent_us = now;
        held->next_beat_us = RL_NEVER;
        if (rl_conn_probe_begin(held->conn))
            ping_over(keeper, held);
    }
    return now < held->watch_from_us ? rl_earlier(held->next_beat_us, held->watch_from_us)
                                     : held->next_beat_us;
}

static void serve(rl_keeper *keeper, rl_held *held, short revents)
{
    if (held->conn->ping.pending) {
        if (rl_conn_ping_resume(held->conn, revents))
            ping_over(keeper, held);
    } else if (!rl_conn_looks_alive(held->conn)) {
        /* An idle connection is readable: the server has ended it. */
        held->conn->broken = true;
        rl_mark_lost(keeper, held, "the server ended the connection that holds it");
    }
}

/*
 * Short holds are not watched, so that neither they nor their replies wake the keeper. A hold for
 * which there is no memory in the watch is looked at here.
 */
void rl_watch_fill(rl_keeper *keeper, int64_t now)
{
    rl_watch *w = &keeper->watch;
    w->count = w->wanted = RL_WATCH_FIXED;
    for (rl_held *next, *held = keeper->rows.first; held; held = next) {
        next = held->next;
        held->slot = 0;
        if (now < held->watch_from_us && !held->conn->ping.pending)
            continue;
        struct pollfd look = {.fd = rl_conn_fd(held->conn), .events = POLLIN};
        if (held->conn->ping.pending)
            look.events = rl_conn_ping_events(held->conn);
        w->wanted++;
        if (w->count < w->capacity) {
            held->slot = w->count++;
            w->fds[held->slot] = look;
        } else {
            keeper->due_us = rl_earlier(keeper->due_us, now + TURN_US);
            if (poll(&look, 1, 0) > 0)
                serve(keeper, held, look.revents);
        }
    }
}

bool rl_watch_grow(rl_watch *w)
{
    if (w->wanted <= w->capacity)
        return false;
    struct pollfd *few = w->fds;
    struct pollfd *more = malloc(2 * w->wanted * sizeof *more);
    if (!more)
        return false;
    for (size_t i = 0; i < w->count; i++)
        more[i] = few[i];
    w->fds = more;
    w->capacity = 2 * w->wanted;
    free(few);
    return true;
}

/* A hold may have come or gone since. */
void rl_watch_serve(rl_keeper *keeper)
{
    for (rl_held *next, *held = keeper->rows.first; held; held = next) {
        next = held->next;
        if (held->slot && keeper->watch.fds[held->slot].revents)
            serve(keeper, held, keeper->watch.fds[held->slot].revents);
    }
}
