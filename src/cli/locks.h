/* cli/locks.h - all locks, read page after page, and all waiters. */
#ifndef RL_CLI_LOCKS_H
#define RL_CLI_LOCKS_H

#include "cli.h"

typedef struct cli_locks {
    const rowlock_info **at; /* in byte order of the names */
    size_t count;
    rowlock_list **pages; /* own the locks */
    size_t page_count;
    rowlock_waiters *waiters;
} cli_locks;

/*
 * `all`: also locks that nobody holds. `prefix`: as in rowlock_list_options. Free `locks` in any
 * case.
 */
rowlock_status cli_locks_read(rowlock_client *client, const char *prefix, bool all,
                              cli_locks *locks, rowlock_error *err);
/* The same for one name, without its waiters. */
rowlock_status cli_locks_read_one(rowlock_client *client, const char *name, cli_locks *locks,
                                  rowlock_error *err);
void cli_locks_free(cli_locks *locks);

/* It has a holder, whose lease may have expired; of a queue: an item is held. */
bool cli_is_held(const rowlock_info *info);
/* A kind that has a holder when it is held: not a latch, a barrier or a queue. */
bool cli_has_holders(const rowlock_info *info);

/* A name's waiters: from the index `first` to before `end`. Waiters are in byte order of the names,
 * so the search begins at `from`. */
typedef struct cli_waiting {
    size_t first, end;
} cli_waiting;
cli_waiting cli_waiting_for(const rowlock_waiters *waiters, const char *name, size_t from);

#endif
