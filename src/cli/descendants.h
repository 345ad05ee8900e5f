/* cli/descendants.h - every process that descends from this one, and how to end them. */
#ifndef RL_CLI_DESCENDANTS_H
#define RL_CLI_DESCENDANTS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/*
 * For a process that is a child subreaper: whatever its descendants do (setsid, double
 * fork), those whose parents died become its own children, and /proc leads to all.
 *
 * A program that did exec() may have children from before, which are not its business.
 */
typedef struct descendants {
    struct process *before; /* NULL: it had none */
    size_t before_count;
} descendants;

/* Remembers what there is already. False: /proc cannot be read. */
bool descendants_start(descendants *self);
void descendants_finish(descendants *self);

/* How many are alive; -1: /proc cannot be read. */
int descendants_count(const descendants *self);

/* Sends each one the signal. Returns how many it found alive, -1 when it cannot look. */
int descendants_signal(const descendants *self, int signo);

/* Waits for every child that has died; true when no child is left at all. */
typedef bool (*descendants_reap)(void *data);

/*
 * SIGKILL, until none is left: what is born meanwhile is found by the next look. Returns
 * how many could not be ended (set-user-id programs of somebody else), else 0.
 */
int descendants_end(const descendants *self, descendants_reap reap, void *data);

#endif
