/* cli/locks.h - all locks, read page after page, and all who wait. */
#ifndef RL_CLI_LOCKS_H
#define RL_CLI_LOCKS_H

#include "cli.h"

typedef struct cli_locks {
    const rowlock_info **at; /* in byte order of the names */
    size_t count;
    rowlock_list **pages; /* which have them */
    size_t page_count;
    rowlock_waiters *waiters;
} cli_locks;

/* `all`: those that nobody holds, too. `prefix`: as in rowlock_list_options. Free it in any case.
 */
rowlock_status cli_locks_read(rowlock_client *client, const char *prefix, bool all,
                              cli_locks *locks, rowlock_error *err);
/* The same of one name, without its waiters. */
rowlock_status cli_locks_read_one(rowlock_client *client, const char *name, cli_locks *locks,
                                  rowlock_error *err);
void cli_locks_free(cli_locks *locks);

/* Somebody has it, alive or not; of a queue: an item. */
bool cli_is_held(const rowlock_info *info);
/* Somebody holds it when it is held: not so a latch, a barrier, a queue. */
bool cli_has_holders(const rowlock_info *info);

/* Of a name's waiters, which come in byte order of the names: the first one, and the one behind
 * the last, looked for from `from` on. */
typedef struct cli_waiting {
    size_t first, end;
} cli_waiting;
cli_waiting cli_waiting_for(const rowlock_waiters *waiters, const char *name, size_t from);

#endif
