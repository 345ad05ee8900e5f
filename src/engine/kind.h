/* engine/kind.h - the table of kinds: what a name can be. */
#ifndef RL_ENGINE_KIND_H
#define RL_ENGINE_KIND_H

#include <stdbool.h>

#include "base/error.h"
#include "stmt/stmt.h"

/* The words of the tables `resource` and `lock_event`; in SQL: the clause known_kind. */
#define RL_KIND_LEASE   "optimistic"
#define RL_KIND_ROW     "pessimistic"
#define RL_KIND_SLOTS   "slots" /* so many leases, NAME#0 ... : the name's own row is never held */
#define RL_KIND_LATCH   "latch"
#define RL_KIND_BARRIER "barrier"
#define RL_KIND_QUORUM  "quorum" /* this server has a vote on it (kind/quorum.h) */
#define RL_KIND_QUEUE   "queue"

typedef struct rl_kind {
    const char *word;
    const char *shown;   /* to people */
    rowlock_kind listed; /* in a rowlock_info */
    rowlock_mode mode;
    /* Its holder is a connection: a break ends that, and whether it is held only the row that it
     * has locked knows. Else it is held until its expiry, and a break raises its version. */
    bool of_connection;
    rl_sql_id companion; /* makes the row that goes with it; RL_SQL_COUNT: there is none */
} rl_kind;

/* NULL: there is none. */
const rl_kind *rl_kind_of(const char *word);

/* The kind of that name. DAMAGED: one that this program does not know; it leaves it alone. */
rowlock_status rl_kind_find(const char *word, const char *name, const rl_kind **kind,
                            rowlock_error *err) RL_MUST_USE;

#endif
