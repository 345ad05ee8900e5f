/* kind/section.h - the optimistic section: read a version, work, compare and swap. */
#ifndef RL_KIND_SECTION_H
#define RL_KIND_SECTION_H

#include "engine/client.h"

/* What differs between a section of its own and one in the caller's transaction. */
typedef struct rl_section_ways {
    void *data;
    /* The work costs nothing: an attempt that no other change has undone (it was lost on the way,
     * or met a deadlock) does not count. */
    bool cheap;
    /* Before the work: begin a transaction. */
    rowlock_status (*begin)(void *data, rowlock_error *err);
    rowlock_status (*work)(void *data, const rowlock_section *section);
    /* Compare and swap (and commit). CONFLICT: somebody was faster. UNKNOWN: the reply was
     * lost; `owner` was to be the row's owner, and the trace says where the request went out
     * (connection 0: where we cannot end it). */
    rowlock_status (*swap)(void *data, uint64_t id, uint64_t expected, const char *owner,
                           rl_trace *trace, rowlock_error *err);
    /* Undo what the attempt did. */
    void (*undo)(void *data);
} rl_section_ways;

rowlock_status rl_section_run(rowlock_client *client, const char *name,
                              const rowlock_section_options *options, const rl_section_ways *ways,
                              rowlock_section_result *result, rowlock_error *err) RL_MUST_USE;

/* The version now, of a name that may be new. A lease whose time is over is freed first.
 * BUSY with *hint_us: a lease on it runs. */
rowlock_status rl_version_read(rowlock_client *client, const rl_budget *budget, const char *name,
                               uint64_t *id, uint64_t *version, int64_t *hint_us,
                               rowlock_error *err) RL_MUST_USE;

/* On a connection of the client's. CONFLICT, BUSY (a lease), UNKNOWN. */
rowlock_status rl_version_swap(rowlock_client *client, const rl_budget *budget, const char *name,
                               uint64_t id, uint64_t expected, const char *owner, rl_trace *trace,
                               rowlock_error *err) RL_MUST_USE;

/* After a swap that matched nothing: BUSY (a lease), else CONFLICT. */
rowlock_status rl_version_why_not(rowlock_client *client, const rl_budget *budget, const char *name,
                                  uint64_t id, uint64_t expected, rowlock_error *err) RL_MUST_USE;

#endif
