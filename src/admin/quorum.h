/* admin/quorum.h - makes a quorum of servers, changes it, and reads the state of its members. */
#ifndef RL_ADMIN_QUORUM_H
#define RL_ADMIN_QUORUM_H

#include "admin/admin.h"
#include "rowlock/rowlock_quorum.h"

/* What one member says of itself. */
typedef struct rl_standing {
    rowlock_member shown;
    const char *members; /* of its list: see migrations/0011_quorum.sql */
    rl_cluster cluster;
    bool listed;     /* it has a list, which was written there */
    bool closed;     /* ... and is being replaced */
    bool replicates; /* another server, as far as this user may see */
    bool stopped;    /* the look at its versions */
    rl_texts texts;
    rowlock_error why;
} rl_standing;

struct rowlock_quorum {
    size_t count;
    size_t needed;
    size_t voting;
    const rl_standing *best; /* one of those with the list that most have; NULL: none */
    rl_standing all[];
};

/* Of all members at the same time. */
rowlock_status rl_quorum_read(rowlock_client *client, rowlock_quorum **out,
                              rowlock_error *err) RL_MUST_USE;
void rl_quorum_free(rowlock_quorum *quorum);

/* Statuses of the calls of rowlock_quorum.h. */
rowlock_status rl_quorum_make(rowlock_client *client, int64_t ttl_most_us,
                              rowlock_error *err) RL_MUST_USE;
rowlock_status rl_quorum_rejoin(rowlock_client *client, size_t member,
                                rowlock_error *err) RL_MUST_USE;
rowlock_status rl_quorum_replace(rowlock_client *client, rowlock_cancel *cancel,
                                 rowlock_error *err) RL_MUST_USE;

/* The calls that look, at all members together. */
rowlock_status rl_quorum_list(rowlock_client *client, const char *name,
                              const rowlock_list_options *options, rowlock_list **out,
                              rowlock_error *err) RL_MUST_USE;
rowlock_status rl_quorum_break(rowlock_client *client, const char *name,
                               const rowlock_break_options *options,
                               rowlock_error *err) RL_MUST_USE;
/* The first member that is there; of one server, its client. */
rowlock_client *rl_quorum_spokesman(rowlock_client *client);

#endif
