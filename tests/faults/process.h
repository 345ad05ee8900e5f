/* faults/process.h - holders as processes of their own (holder.c), and the tables that check
 * them. */
#ifndef FAULTS_PROCESS_H
#define FAULTS_PROCESS_H

#include "support/support.h"

typedef struct process {
    const char *name; /* of its lock */
    pid_t pid;
    int in;
    int out;
    char line[900]; /* the last one read */
    char rest[2000];
    size_t rest_length;
} process;

/* The folder of this program is where the holder's program is, too. */
void process_begin(const char *program);

/* Connected, and about to wait for the lock. */
process process_start(const char *name, rowlock_mode mode, int64_t ttl_ms);
/* The same of "latch", or "barrier2" (of two), through this socket. */
process process_start_as(const char *kind, const char *name, int64_t ttl_ms, const char *socket);
void process_tell(const process *p, const char *word);
/* The next line, within so long; false: none. */
bool process_hear(process *p, int64_t within_ms);
/* It must say this next. */
void process_expect(process *p, const char *begins, int64_t within_ms);
/* Told this, it says that, within 10 s. */
void process_ask(process *p, const char *word, const char *answer);
/* It beats no more, and then sleeps; it wakes up, and beats again. */
void process_sleep(process *p);
void process_wake(process *p);
uint64_t process_expect_token(process *p, int64_t within_ms);
/* SIGKILL. */
void process_bury(process *p);
/* It ends by itself, and well. */
void process_finish(process *p);

#endif
