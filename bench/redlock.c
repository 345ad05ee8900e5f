/*
 * bench/redlock.c - Redlock over five Redis servers, by the Node package of that name, as its users
 * run it (redlock.js). Each client has a node process of its own, which is told by a line what to
 * do, and answers with one. What that takes by itself is measured beside it ("node-nothing").
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

typedef struct redlock_session {
    pid_t pid;
    FILE *to;
    FILE *from;
    bool nothing; /* it is only asked */
} redlock_session;

/* Sends a line; "ok" is the answer that is wanted. */
static bool ask(redlock_session *session, const char *verb, const char *name, measure_reason *why)
{
    char answer[300];
    fprintf(session->to, "%s %s\n", verb, name);
    if (fflush(session->to) != 0 || fgets(answer, sizeof answer, session->from) == NULL)
        return measure_because(why, "Redlock: node has ended");
    answer[strcspn(answer, "\n")] = '\0';
    return strcmp(answer, "ok") == 0 || measure_because(why, "Redlock: %s", answer);
}

static void become_node(const char *at, int in, int out)
{
    dup2(in, STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getenv("BENCH_NODE_PATH"))
        setenv("NODE_PATH", getenv("BENCH_NODE_PATH"), 1);
    execlp("node", "node", BENCH_FOLDER "/redlock.js", at, (char *)NULL);
    _exit(127);
}

static void redlock_close(void *opened)
{
    redlock_session *session = opened;
    if (session == NULL)
        return;
    fclose(session->to); /* it ends with its stdin */
    fclose(session->from);
    waitpid(session->pid, NULL, 0);
    free(session);
}

static bool start_node(redlock_session *session, const char *at, measure_reason *why)
{
    int to[2];
    int from[2];
    if (pipe(to) != 0 || pipe(from) != 0)
        return measure_because(why, "pipe: %s", strerror(errno));
    session->pid = fork();
    if (session->pid < 0)
        return measure_because(why, "fork: %s", strerror(errno));
    if (session->pid == 0) {
        close(to[1]);
        close(from[0]);
        become_node(at, to[0], from[1]);
    }
    close(to[0]);
    close(from[1]);
    session->to = fdopen(to[1], "w");
    session->from = fdopen(from[0], "r");
    return true;
}

static bool redlock_open(const measure_system *system, void **opened, measure_reason *why)
{
    redlock_session *session = calloc(1, sizeof *session);
    if (session == NULL)
        return measure_because(why, "no memory");
    session->nothing = system->data != NULL;
    if (!start_node(session, system->at, why)) {
        free(session);
        return false;
    }
    *opened = session;
    return ask(session, "nothing", "", why);
}

static bool redlock_acquire(void *opened, const char *name, int64_t wait_ms, measure_reason *why)
{
    redlock_session *session = opened;
    (void)wait_ms; /* as often as it tries by itself */
    return ask(session, session->nothing ? "nothing" : "lock", name, why);
}

static bool redlock_release(void *opened, const char *name, measure_reason *why)
{
    redlock_session *session = opened;
    return ask(session, session->nothing ? "nothing" : "unlock", name, why);
}

#define REDLOCK(ID, NAME, KEEPS, NOTHING)                                                          \
    {                                                                                              \
        .id = (ID), .name = (NAME), .keeps = (KEEPS), .data = (NOTHING), .open = redlock_open,     \
        .acquire = redlock_acquire, .release = redlock_release, .close = redlock_close             \
    }

const measure_system bench_redlocks[] = {
    REDLOCK("redlock-memory", "Redlock (Node), 5 Redis, no AOF", "memory", NULL),
    REDLOCK("redlock-memory-dead", "Redlock (Node), 5 Redis, 2 dead, no AOF", "memory", NULL),
    REDLOCK("redlock-always", "Redlock (Node), 5 Redis, AOF always", "durable", NULL),
    REDLOCK("redlock-always-dead", "Redlock (Node), 5 Redis, 2 dead, AOF always", "durable", NULL),
    {.id = NULL},
};

const measure_system bench_node_nothing =
    REDLOCK("node-nothing", "asking a node process, and no more", "memory", "");
