/* cli/descendants.h - every process that descends from this one, and how to end them. */
#ifndef RL_CLI_DESCENDANTS_H
#define RL_CLI_DESCENDANTS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Some processes, by pid. Begins as {0}; descendants_forget() ends it. */
typedef struct process_list {
    struct process *processes;
    size_t count, room;
} process_list;

void descendants_forget(process_list *list);

/*
 * For a process that is a child subreaper: whatever its descendants do (setsid, double
 * fork), those whose parents died become its own children, and /proc leads to all.
 *
 * A program that did exec() may have children from before, which are not its business: the calls
 * below leave out those that are in `before`, and theirs.
 */

/* Remembers what there is already. False: /proc cannot be read. */
bool descendants_start(process_list *before);

/* How many are alive, as far as can be seen. */
int descendants_count(const process_list *before);

/*
 * Is there nobody who could continue this process group of our session if it is stopped? That is
 * the kernel's "orphaned process group" (setpgid(2)), but for ourselves: it counts a parent that
 * is in another group of the session, and so are we to the command.
 */
bool descendants_group_is_orphaned(pid_t group);

/* Is this process stopped? `group`: and in that one; 0: in any. */
bool descendants_is_stopped(pid_t pid, pid_t group);

/*
 * SIGTERM to each one there is that was not told yet (and SIGCONT, for those that are stopped).
 * What is born later is left alone till the next call: it may be what cleans up on that SIGTERM.
 */
void descendants_tell(const process_list *before, process_list *told);

/* Waits for every child that has died; true when no child is left at all. */
typedef bool (*descendants_reap)(void *data);

/*
 * SIGKILL, until none is left: what is born meanwhile is found by the next look. Returns
 * how many could not be ended (set-user-id programs of somebody else), else 0.
 */
int descendants_end(const process_list *before, descendants_reap reap, void *data);

#endif
