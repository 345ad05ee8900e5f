/*
 * bench/queue_client.h - a process that puts jobs or works through them, for bench/queue.py, which
 * starts it and says when. Each way to have a queue is a queue_system.
 */
#ifndef ROWLOCK_QUEUE_CLIENT_H
#define ROWLOCK_QUEUE_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

enum {
    QUEUE_PAYLOAD =
        200, /* bytes of a job; it begins with when it was to start (CLOCK_MONOTONIC, ns) */
    QUEUE_BATCH = 16, /* at most */
};

typedef struct queue_job {
    const char *payload; /* until the next take */
} queue_job;

typedef struct queue_system {
    const void *data;
    /* Makes the queue anew, empty. */
    void (*prepare)(const char *at, const void *data);
    /* Puts and takes in batches of so many. What fails ends the program. */
    void *(*open)(const char *at, const void *data, unsigned batch);
    /* A whole batch. */
    void (*put)(void *session, char payloads[][QUEUE_PAYLOAD]);
    /* One job that is ready delay_ms later. NULL: it cannot. */
    void (*put_later)(void *session, char payload[QUEUE_PAYLOAD], int64_t delay_ms);
    /* How many; waits for a while where there is none. */
    unsigned (*take)(void *session, queue_job jobs[]);
    /* All that were taken. */
    void (*done)(void *session);
    void (*close)(void *session);
} queue_system;

_Noreturn void queue_die(const char *format, ...) __attribute__((format(printf, 1, 2)));

bool queue_raw_find(const char *id, queue_system *system);
bool queue_rowlock_find(const char *id, queue_system *system);

#endif
