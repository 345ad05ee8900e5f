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
 * For a process that is a child subreaper: whatever its descendants do (setsid, double fork),
 * orphans become its own children, so that /proc leads to all of them.
 *
 * A process may have had children before it executed this program. The calls below ignore those
 * that are in `before`, and their descendants.
 */

/* Lists the descendants that there are already. False: /proc cannot be read. */
bool descendants_start(process_list *before);

/* How many descendants are alive, as far as /proc shows them. */
int descendants_count(const process_list *before);

/*
 * True if nobody could continue this process group of our session once it is stopped: the kernel's
 * "orphaned process group" (setpgid(2)). Unlike the kernel, it does not count ourselves as a parent
 * that could.
 */
bool descendants_group_is_orphaned(pid_t group);

/* True if the process is stopped and in that process group; 0: in any. */
bool descendants_is_stopped(pid_t pid, pid_t group);

/*
 * Sends SIGTERM (and SIGCONT, in case it is stopped) to each descendant that is not in `told` yet.
 * One that is started later is left alone until the next call: it may clean up because of that
 * SIGTERM.
 */
void descendants_tell(const process_list *before, process_list *told);

/* Reaps all children that have died. True: no child is left. */
typedef bool (*descendants_reap)(void *data);

/*
 * Sends SIGKILL until no descendant is left, with a new look after each round. Returns how many
 * could not be ended (set-user-id programs of another user), else 0.
 */
int descendants_end(const process_list *before, descendants_reap reap, void *data);

#endif
