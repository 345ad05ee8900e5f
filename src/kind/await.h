/*
 * kind/await.h - waiting for something that has no owner: any one of several slots, a latch.
 *
 * The caller that frees a slot or opens a latch has no bell, so it cannot ring. The waiters stand
 * in the line of the name's bell (bell/turn.h); the first of them looks again and again, and when
 * it leaves, the next one is the first.
 */
#ifndef RL_KIND_AWAIT_H
#define RL_KIND_AWAIT_H

#include "bell/turn.h"
#include "engine/client.h"
#include "wait/backoff.h"

/* One waiting call. It stays where it is from rl_await_init() on. */
typedef struct rl_await {
    rl_turn turn;
    rowlock_client *client;
    rl_attempt attempt;
    bool (*unsettled)(const void *data); /* see rl_attempts */
    /*
     * Asked in line, every few seconds: has it come, although those in front do not go? (They may
     * wait for what follows it.) NULL: those in front would have gone.
     */
    bool (*has_come)(void *data, const rl_budget *budget);
    /*
     * Asked in line before it looks whether the first one is stopped, which makes the server go
     * through all its connections: does that one keep anything from the others? NULL: it may.
     */
    bool (*keeps_back)(void *data, const rl_budget *budget);
    void *data; /* of these */
    bool many;  /* as like as not many wait, for long: each looks seldom whether the first one is
                 * stopped
                 */
    int64_t look_us; /* how long it waits for that, and up to as much again */
    bool apart;      /* it waits for something else than those in line: it looks by itself */
} rl_await;

/* `owner`: the owner id of the waiter. */
void rl_await_init(rl_await *a, rowlock_client *client, const rl_budget *budget, const char *owner,
                   int64_t ttl_us);

/* The name's row; it may be another one, when the name was purged. To be said before each attempt.
 */
void rl_await_at(rl_await *a, uint64_t resource_id);

/* Nobody passes the first in line: is it us, or is there no line to stand in? */
bool rl_await_is_first(const rl_await *a);

/* Until the attempt does not answer BUSY; `pauses`: of the first in line. Statuses of
 * rl_attempt_until(). */
rowlock_status rl_await_until(rl_await *a, rl_backoff pauses, rowlock_error *err) RL_MUST_USE;

#endif
