/* kind/section.h - the optimistic section: read a version, work, compare and swap. */
#ifndef RL_KIND_SECTION_H
#define RL_KIND_SECTION_H

#include "engine/client.h"
#include "rowlock/rowlock_mysql.h"
#include "stmt/caller.h"

/* What runs between the read and the swap. */
typedef struct rl_section_work {
    MYSQL *mysql; /* in a transaction on this connection, which is the caller's; NULL: in none */
    rowlock_section_fn fn; /* in none */
    rowlock_tx_section_fn tx_fn;
    void *data;
    /* It costs nothing: an attempt that no other change has undone (it was lost on the way, or met
     * a deadlock) does not count. */
    bool cheap;
} rl_section_work;

rowlock_status rl_section_run(rowlock_client *client, const char *name,
                              const rowlock_section_options *options, const rl_section_work *work,
                              rowlock_section_result *result, rowlock_error *err) RL_MUST_USE;

/* What rl_version_read() has read. Begins as {0}; the same one for all attempts of a call. */
typedef struct rl_section_read {
    uint64_t id;
    uint64_t version;
    bool has_sessions;       /* BUSY: sessions of a lease's last holder have not ended yet */
    uint64_t sessions_ended; /* see rl_guard_end() */
} rl_section_read;

/* The present version of a name that may be new. Frees an expired lease first.
 * BUSY with *hint_us: a lease runs, or sessions of its last holder have not ended yet. */
rowlock_status rl_version_read(rowlock_client *client, const rl_budget *budget, const char *name,
                               const char *owner, rl_section_read *read, int64_t *hint_us,
                               rowlock_error *err) RL_MUST_USE;

/* The swap, in the caller's transaction. CONFLICT, BUSY (a lease), UNKNOWN. */
rowlock_status rl_version_swap_in(const rl_caller *caller, rowlock_client *client,
                                  const rl_budget *budget, const char *name, uint64_t id,
                                  uint64_t expected, const char *owner,
                                  rowlock_error *err) RL_MUST_USE;

#endif
