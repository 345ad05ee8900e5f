/*
 * bench/redis.c - Redis as a lock server, the way Redisson and its kin use it.
 *
 * To take a lock that is free is one SET NX PX, to release it one script that deletes it
 * only while it is still ours and tells the lock's channel: a round trip each. Who finds the
 * lock taken subscribes to that channel on a second connection and tries again at every
 * message, and when the remaining time of the key is over. Redis wakes all who wait; which of
 * them is first has the lock.
 *
 * A semaphore is a number of free permits, and a sorted set of those that are out, by the time at
 * which each expires. One script gives back one that has expired and takes one, or says when the
 * next one expires; one gives it back and tells the channel. The waiting is the same.
 */
#include <errno.h>
#include <hiredis/hiredis.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"

#define TTL_MS "30000"

enum { ANSWER_WITHIN_S = 30, NS_PER_MS = 1000000, PERMIT_MS = 30000 };

typedef struct redis_scripts {
    const char *take; /* NULL: SET takes it */
    const char *release;
} redis_scripts;

/* KEYS[1] the lock; ARGV[1] our token, ARGV[2] the channel. */
static const redis_scripts lock_scripts = {
    .release = "if redis.call('get', KEYS[1]) == ARGV[1] then\n"
               "  redis.call('del', KEYS[1])\n"
               "  redis.call('publish', ARGV[2], '0')\n"
               "  return 1\n"
               "end\n"
               "return 0\n",
};

/* KEYS: how many are free, those that are out, the channel; ARGV[1] our token. To take one, ARGV[2]
 * is the time and ARGV[3] when ours expires: -1, or for how long none will expire. */
static const redis_scripts semaphore_scripts = {
    .take = "local expired = redis.call('zrangebyscore', KEYS[2], 0, ARGV[2], 'limit', 0, 1)\n"
            "if expired[1] then\n"
            "  redis.call('zrem', KEYS[2], expired[1])\n"
            "  redis.call('publish', KEYS[3], redis.call('incr', KEYS[1]))\n"
            "end\n"
            "if tonumber(redis.call('get', KEYS[1])) > 0 then\n"
            "  redis.call('decr', KEYS[1])\n"
            "  redis.call('zadd', KEYS[2], ARGV[3], ARGV[1])\n"
            "  return -1\n"
            "end\n"
            "local first = redis.call('zrange', KEYS[2], 0, 0, 'withscores')\n"
            "return tonumber(first[2]) - tonumber(ARGV[2])\n",
    .release = "if redis.call('zrem', KEYS[2], ARGV[1]) == 0 then\n"
               "  return 0\n"
               "end\n"
               "redis.call('publish', KEYS[3], redis.call('incr', KEYS[1]))\n"
               "return 1\n",
};

typedef struct redis_session {
    const char *at;
    redisContext *commands;
    redisContext *listener; /* NULL until it has to wait for the first time */
    char take[41];          /* the script's hash; "" where SET takes it */
    char release[41];       /* the script's hash */
    char owner[40];         /* of this session */
    uint64_t turn;
    char token[64]; /* of this turn */
    char channel[MEASURE_NAME_MAX + 32];
    char permits[MEASURE_NAME_MAX + 32]; /* the sorted set */
} redis_session;

/* ------------------------------------------------------------------- talking */

static redisContext *connect_to(const char *at, measure_reason *why)
{
    const struct timeval limit = {.tv_sec = ANSWER_WITHIN_S};
    redisContext *context = redisConnectUnixWithTimeout(at, limit);
    if (context == NULL || context->err != 0) {
        measure_because(why, "Redis at %s: %s", at, context ? context->errstr : "no memory");
        redisFree(context);
        return NULL;
    }
    redisSetTimeout(context, limit);
    return context;
}

/* The next reply that is no error; the caller frees it. NULL: `why` says it. */
static redisReply *next_reply(redisContext *context, measure_reason *why)
{
    void *answer = NULL;
    if (redisGetReply(context, &answer) != REDIS_OK) {
        measure_because(why, "Redis: %s", context->errstr);
        return NULL;
    }
    redisReply *reply = answer;
    if (reply->type == REDIS_REPLY_ERROR) {
        measure_because(why, "Redis: %s", reply->str);
        freeReplyObject(reply);
        return NULL;
    }
    return reply;
}

static void append(redisContext *context, int words, const char *word[])
{
    redisAppendCommandArgv(context, words, word, NULL);
}

static redisReply *ask(redisContext *context, int words, const char *word[], measure_reason *why)
{
    append(context, words, word);
    return next_reply(context, why);
}

/* ------------------------------------------------------------ listening to a lock */

static bool is_message(const redisReply *reply, const char *kind)
{
    return reply->type == REDIS_REPLY_ARRAY && reply->elements > 0 &&
           reply->element[0]->type == REDIS_REPLY_STRING &&
           strcmp(reply->element[0]->str, kind) == 0;
}

/* From its return on, no release is missed. */
static bool subscribe(redis_session *session, measure_reason *why)
{
    if (session->listener == NULL) {
        session->listener = connect_to(session->at, why);
        if (session->listener == NULL)
            return false;
    }
    append(session->listener, 2, (const char *[]){"SUBSCRIBE", session->channel});
    bool subscribed = false;
    while (!subscribed) { /* messages of an earlier wait may come first */
        redisReply *reply = next_reply(session->listener, why);
        if (reply == NULL)
            return false;
        subscribed = is_message(reply, "subscribe");
        freeReplyObject(reply);
    }
    return true;
}

/* Sent and not waited for; the next subscribe() reads past its reply. */
static bool unsubscribe(redis_session *session, measure_reason *why)
{
    int all_sent = 0;
    append(session->listener, 2, (const char *[]){"UNSUBSCRIBE", session->channel});
    while (!all_sent) {
        if (redisBufferWrite(session->listener, &all_sent) != REDIS_OK)
            return measure_because(why, "Redis: %s", session->listener->errstr);
    }
    return true;
}

/* Takes everything that has arrived; how many of it were messages. -1: failed. */
static int take_messages(redisContext *listener, measure_reason *why)
{
    int messages = 0;
    void *answer = NULL;
    do {
        if (redisGetReplyFromReader(listener, &answer) != REDIS_OK) {
            measure_because(why, "Redis: %s", listener->errstr);
            return -1;
        }
        if (answer != NULL) {
            messages += is_message(answer, "message");
            freeReplyObject(answer);
        }
    } while (answer != NULL);
    return messages;
}

/* Until somebody has released, or for limit_ms. */
static bool hear_release(redis_session *session, int64_t limit_ms, measure_reason *why)
{
    const int64_t end = measure_now_ns() + limit_ms * NS_PER_MS;
    int messages = take_messages(session->listener, why);
    while (messages == 0) {
        const int64_t left = (end - measure_now_ns() + NS_PER_MS - 1) / NS_PER_MS;
        struct pollfd socket = {.fd = session->listener->fd, .events = POLLIN};
        const int ready = left > 0 ? poll(&socket, 1, (int)left) : 0;
        if (ready == 0)
            return true;
        if (ready < 0) {
            if (errno == EINTR)
                continue;
            return measure_because(why, "Redis: poll: %s", strerror(errno));
        }
        if (redisBufferRead(session->listener) != REDIS_OK)
            return measure_because(why, "Redis: %s", session->listener->errstr);
        messages = take_messages(session->listener, why);
    }
    return messages > 0;
}

/* ------------------------------------------------------------------- the lock */

static void append_set(redis_session *session, const char *name)
{
    append(session->commands, 6, (const char *[]){"SET", name, session->token, "NX", "PX", TTL_MS});
}

static bool read_set(redis_session *session, bool *taken, measure_reason *why)
{
    redisReply *reply = next_reply(session->commands, why);
    if (reply == NULL)
        return false;
    *taken = reply->type == REDIS_REPLY_STATUS;
    freeReplyObject(reply);
    return true;
}

/* One round trip: takes it, or learns for how long the holder may still keep it. */
static bool try_or_ask(redis_session *session, const char *name, bool *taken, int64_t *remaining_ms,
                       measure_reason *why)
{
    append_set(session, name);
    append(session->commands, 2, (const char *[]){"PTTL", name});
    if (!read_set(session, taken, why))
        return false;
    redisReply *reply = next_reply(session->commands, why);
    if (reply == NULL)
        return false;
    *remaining_ms = reply->integer;
    freeReplyObject(reply);
    return true;
}

static int64_t clock_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / NS_PER_MS;
}

/* As try_or_ask(), for a permit. */
static bool try_permit(redis_session *session, const char *name, bool *taken, int64_t *remaining_ms,
                       measure_reason *why)
{
    char now[24];
    char end[24];
    const int64_t now_ms = clock_ms();
    snprintf(now, sizeof now, "%" PRId64, now_ms);
    snprintf(end, sizeof end, "%" PRId64, now_ms + PERMIT_MS);
    redisReply *reply = ask(session->commands, 9,
                            (const char *[]){"EVALSHA", session->take, "3", name, session->permits,
                                             session->channel, session->token, now, end},
                            why);
    if (reply == NULL)
        return false;
    *taken = reply->integer < 0;
    *remaining_ms = reply->integer;
    freeReplyObject(reply);
    return true;
}

static bool try_again(redis_session *session, const char *name, bool *taken, int64_t *remaining_ms,
                      measure_reason *why)
{
    return session->take[0] ? try_permit(session, name, taken, remaining_ms, why)
                            : try_or_ask(session, name, taken, remaining_ms, why);
}

/* Mostly it is free. */
static bool try_first(redis_session *session, const char *name, bool *taken, measure_reason *why)
{
    int64_t ignored;
    if (session->take[0])
        return try_permit(session, name, taken, &ignored, why);
    append_set(session, name);
    return read_set(session, taken, why);
}

static bool wait_and_take(redis_session *session, const char *name, int64_t wait_ms,
                          measure_reason *why)
{
    const int64_t end = measure_now_ns() + wait_ms * NS_PER_MS;
    bool taken = false;
    int64_t remaining_ms = 0;
    while (try_again(session, name, &taken, &remaining_ms, why)) {
        if (taken)
            return true;
        const int64_t left_ms = (end - measure_now_ns()) / NS_PER_MS;
        if (left_ms <= 0)
            return measure_because(why, "Redis: '%s' not within %" PRId64 " ms", name, wait_ms);
        if (!hear_release(session, remaining_ms < left_ms ? remaining_ms : left_ms, why))
            return false;
    }
    return false;
}

static bool redis_acquire(void *opened, const char *name, int64_t wait_ms, measure_reason *why)
{
    redis_session *session = opened;
    bool taken = false;
    snprintf(session->token, sizeof session->token, "%s:%" PRIu64, session->owner, ++session->turn);
    snprintf(session->channel, sizeof session->channel, "released:%s", name);
    snprintf(session->permits, sizeof session->permits, "%s:permits", name);
    if (!try_first(session, name, &taken, why))
        return false;
    if (taken)
        return true;
    if (!subscribe(session, why))
        return false;
    taken = wait_and_take(session, name, wait_ms, why);
    return unsubscribe(session, why) && taken;
}

static bool redis_release(void *opened, const char *name, measure_reason *why)
{
    redis_session *session = opened;
    if (session->take[0])
        append(session->commands, 7,
               (const char *[]){"EVALSHA", session->release, "3", name, session->permits,
                                session->channel, session->token});
    else
        append(session->commands, 6,
               (const char *[]){"EVALSHA", session->release, "1", name, session->token,
                                session->channel});
    redisReply *reply = next_reply(session->commands, why);
    if (reply == NULL)
        return false;
    const bool was_ours = reply->integer == 1;
    freeReplyObject(reply);
    return was_ours || measure_because(why, "Redis: '%s' was no longer ours", name);
}

/* ---------------------------------------------------------------- the session */

static void redis_close(void *opened)
{
    redis_session *session = opened;
    if (session == NULL)
        return;
    redisFree(session->commands);
    redisFree(session->listener);
    free(session);
}

static bool load_script(redis_session *session, const char *script, char hash[41],
                        measure_reason *why)
{
    redisReply *reply = ask(session->commands, 3, (const char *[]){"SCRIPT", "LOAD", script}, why);
    if (reply == NULL)
        return false;
    snprintf(hash, 41, "%s", reply->str);
    freeReplyObject(reply);
    return true;
}

static bool load_scripts(redis_session *session, const redis_scripts *scripts, measure_reason *why)
{
    return (scripts->take == NULL || load_script(session, scripts->take, session->take, why)) &&
           load_script(session, scripts->release, session->release, why);
}

static bool redis_open(const measure_system *system, void **opened, measure_reason *why)
{
    redis_session *session = calloc(1, sizeof *session);
    if (session == NULL)
        return measure_because(why, "no memory");
    session->at = system->at;
    snprintf(session->owner, sizeof session->owner, "%ld-%" PRId64, (long)getpid(),
             measure_now_ns());
    session->commands = connect_to(system->at, why);
    if (session->commands == NULL || !load_scripts(session, system->data, why)) {
        redis_close(session);
        return false;
    }
    *opened = session;
    return true;
}

/* What a client that died left behind would stay until its time is over. */
static bool delete_name(redisContext *context, const char *name, measure_reason *why)
{
    char permits[MEASURE_NAME_MAX + 32];
    snprintf(permits, sizeof permits, "%s:permits", name);
    redisReply *reply = ask(context, 3, (const char *[]){"DEL", name, permits}, why);
    const bool done = reply != NULL;
    freeReplyObject(reply);
    return done;
}

static bool free_all_permits(redisContext *context, const char *name, measure_reason *why)
{
    char permits[12];
    snprintf(permits, sizeof permits, "%d", MEASURE_SLOTS);
    redisReply *reply = ask(context, 3, (const char *[]){"SET", name, permits}, why);
    const bool done = reply != NULL;
    freeReplyObject(reply);
    return done;
}

typedef bool name_fn(redisContext *context, const char *name, measure_reason *why);

static bool for_each_name(const measure_system *system, const char *const names[], size_t count,
                          name_fn *function, measure_reason *why)
{
    redisContext *context = connect_to(system->at, why);
    if (context == NULL)
        return false;
    bool done = true;
    for (size_t i = 0; done && i < count; i++)
        done = function(context, names[i], why);
    redisFree(context);
    return done;
}

static bool redis_tidy(const measure_system *system, const char *const names[], size_t count,
                       measure_reason *why)
{
    return for_each_name(system, names, count, delete_name, why);
}

static bool semaphore_prepare(const measure_system *system, const char *const names[], size_t count,
                              measure_reason *why)
{
    return for_each_name(system, names, count, free_all_permits, why);
}

const measure_system bench_redis_memory = {
    .id = "redis-memory",
    .name = "Redis pub/sub, no AOF",
    .keeps = "memory",
    .data = &lock_scripts,
    .tidy = redis_tidy,
    .open = redis_open,
    .acquire = redis_acquire,
    .release = redis_release,
    .close = redis_close,
};

const measure_system bench_redis_always = {
    .id = "redis-always",
    .name = "Redis pub/sub, AOF always",
    .keeps = "durable",
    .data = &lock_scripts,
    .tidy = redis_tidy,
    .open = redis_open,
    .acquire = redis_acquire,
    .release = redis_release,
    .close = redis_close,
};

const measure_system bench_redis_semaphore_memory = {
    .id = "redis-semaphore-memory",
    .name = "Redis semaphore of 4, no AOF",
    .keeps = "memory",
    .data = &semaphore_scripts,
    .holders = MEASURE_SLOTS,
    .prepare = semaphore_prepare,
    .tidy = redis_tidy,
    .open = redis_open,
    .acquire = redis_acquire,
    .release = redis_release,
    .close = redis_close,
};

const measure_system bench_redis_semaphore_always = {
    .id = "redis-semaphore-always",
    .name = "Redis semaphore of 4, AOF always",
    .keeps = "durable",
    .data = &semaphore_scripts,
    .holders = MEASURE_SLOTS,
    .prepare = semaphore_prepare,
    .tidy = redis_tidy,
    .open = redis_open,
    .acquire = redis_acquire,
    .release = redis_release,
    .close = redis_close,
};
