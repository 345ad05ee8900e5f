/* faults/process.h - holders as processes of their own (holder.c), and the tables that check
 * them. */
#ifndef FAULTS_PROCESS_H
#define FAULTS_PROCESS_H

#include "support/support.h"

typedef struct process {
    const char *name; /* the lock's name */
    pid_t pid;
    int in;
    int out;
    char line[900]; /* the last line read */
    char rest[2000];
    size_t rest_length;
} process;

/* The holder's program is in the folder of this program. */
void process_begin(const char *program);
#define PROCESS_MAIN(group, begin, end)                                                            \
    int main(int argc, char **argv)                                                                \
    {                                                                                              \
        (void)argc;                                                                                \
        signal(SIGPIPE, SIG_IGN);                                                                  \
        process_begin(argv[0]);                                                                    \
        return ts_run(group, begin, end);                                                          \
    }

/* Starts one, and waits until it is connected and about to wait for the lock. */
process process_start(const char *name, rowlock_mode mode, int64_t ttl_ms);
/* The same for "latch", or "barrier2" (of two), through this socket. */
process process_start_as(const char *kind, const char *name, int64_t ttl_ms, const char *socket);
void process_tell(const process *p, const char *word);
/* Reads the next line, within so long; false: none. */
bool process_hear(process *p, int64_t within_ms);
/* The next line must begin so. */
void process_expect(process *p, const char *begins, int64_t within_ms);
/* Sends `word`; the answer must come within 10 s. */
void process_ask(process *p, const char *word, const char *answer);
/* The first one pauses the beats and stops the process (SIGSTOP); the second one continues both. */
void process_sleep(process *p);
void process_wake(process *p);
uint64_t process_expect_token(process *p, int64_t within_ms);
/* SIGKILL. */
void process_bury(process *p);
/* Ends it in order. */
void process_finish(process *p);

#endif
