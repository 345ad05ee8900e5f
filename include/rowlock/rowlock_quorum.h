/*
 * rowlock/rowlock_quorum.h - locks that a majority of independent servers agrees on.
 *
 * A quorum is a fixed list of 3, 5, 7 or 9 independent servers, its members. A holder has its lock
 * at more than half of them, so that it survives the loss of the others. rowlock_quorum_init()
 * writes the list to its members, once. A client that is opened with `members`
 * (rowlock_client_options) then takes, renews and releases leases as any other does, and lists,
 * shows and breaks them. A list shows what a majority of the members says; waiters and history are
 * those of the first member that can be reached. The calls that rest on one server answer
 * UNSUPPORTED, with the reason: row locks, shared leases, slots, sets, latches, barriers, leaders,
 * periods, queues, sections, fences, asks, freezes, sweeps.
 *
 *     const char *members[] = {"mysql://app@db1", "mysql://app@db2", "mysql://app@db3"};
 *     const rowlock_client_options options = {.members = members, .member_count = 3};
 *     rowlock_quorum_init(&options, NULL, &err)          once, by an administrator
 *     rowlock_client_open(&options, &client, &err)
 *     rowlock_acquire(client, "nightly-close", NULL, &hold, &err)
 *
 * THE CAVEATS
 *   - It is no consensus, and no replicated data. It keeps one holder, and tokens that rise, while
 *     no member that two majorities share loses what it has committed, or has its clock put ahead.
 *   - Where your data is on one server, lock there: the lock can be no better than the data, and
 *     rowlock_fence() ties both together. Where Group Replication or Galera fits, prefer it.
 *   - A member that was restored from a backup must rejoin (rowlock_quorum_rejoin()). Nobody can
 *     see that it was restored, and until then its old versions can let a token come back. (A
 *     client that has had a higher one of that name answers DAMAGED.)
 *
 * A name that a quorum locks is of a kind of its own on each member: a client of that one server
 * cannot take it, nor a quorum a name that is of another kind there (MODE).
 */
#ifndef ROWLOCK_QUORUM_H
#define ROWLOCK_QUORUM_H

#include "rowlock/rowlock.h"

#ifdef __cplusplus
extern "C" {
#endif

#define ROWLOCK_MEMBERS_MIN 3 /* of a quorum; their number is odd */
#define ROWLOCK_MEMBERS_MAX 9
#define ROWLOCK_QUORUM_TTL_DEFAULT_MS                                                              \
    60000                                /* the longest TTL of a quorum's leases, by default ... */
#define ROWLOCK_QUORUM_TTL_MAX_MS 300000 /* ... and at most */

typedef struct rowlock_quorum_options {
    int64_t ttl_most_ms; /* rowlock_quorum_init(): no lease may have a longer TTL. For as long, a
                            member that may have forgotten leases does not vote, and
                            rowlock_quorum_replace() stops the quorum. 0:
                            ROWLOCK_QUORUM_TTL_DEFAULT_MS; ROWLOCK_TTL_MIN_MS ..
                            ROWLOCK_QUORUM_TTL_MAX_MS */
    rowlock_cancel *cancel;
    uint64_t reserved[8];
} rowlock_quorum_options;

/*
 * The calls of this part take the options of a client, with its members (`members`). Each needs the
 * schema there (rowlock_migrate(), `rowlock init`), and connects anew. The user needs the rights of
 * the role admin.
 */

/*
 * Makes these servers a quorum. All must be reachable. Calling it again with the same servers
 * changes nothing and is OK.
 *
 *   INVALID      also: two of the members are one server
 *   MODE         one of them belongs to another quorum, or has another ttl_most_ms
 *   UNSUPPORTED  one of them is a node of a cluster (Galera, Group Replication), or replicates
 *                another server (as far as the user may see that: rowlock_diagnose_with())
 *   UNAVAILABLE  one of them cannot be reached; some may have the list by now: call it again. (Then
 *                those that have no list yet do not vote before ttl_most_ms is over, since they may
 *                have granted leases and forgotten them.)
 */
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status
rowlock_quorum_init(const rowlock_client_options *options, const rowlock_quorum_options *quorum,
                    rowlock_error *err);

/*
 * Brings back members that lost their data. `member` ROWLOCK_ALL_MEMBERS: each that has no list or
 * another server's (it was rebuilt or copied), and has a schema of this version; else the one at
 * that place of the list, whatever its state (it was restored from a backup, which nobody can see).
 * Such a member gives no token up to the highest version of a majority of the others, and does not
 * vote before ttl_most_ms is over, since it may have granted leases and forgotten them.
 *
 *   NOT_FOUND    none of the members knows of a quorum: rowlock_quorum_init()
 *   MODE         a member is a server that the list does not have, or belongs to another list
 *                (MySQL gives a rebuilt server a new identity): rowlock_quorum_replace()
 *   UNSUPPORTED  it replicates another server
 *   UNAVAILABLE  that member, or a majority of the *other* ones, could not be read; or their list
 *                is being replaced
 *   INVALID      also: there is no such place
 */
#define ROWLOCK_ALL_MEMBERS (~(size_t)0)
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status
rowlock_quorum_rejoin(const rowlock_client_options *options, size_t member,
                      const rowlock_quorum_options *quorum, rowlock_error *err);

/*
 * Changes the list to these members: as many as before, a majority of which were in the old list.
 * It closes the old list, so that nobody acquires or renews a lease any more, waits for
 * ttl_most_ms, prepares the new members as rowlock_quorum_rejoin() does, and writes the new list:
 * there is never a majority of each. If it is interrupted, or cannot reach a member, the quorum
 * stays closed: call it again. Clients that are open with the old members go on if a majority of
 * these is in the new list; open them anew, with the new members.
 *
 *   NOT_FOUND    fewer than a majority of these members belong to one list
 *   INVALID      also: two of the members are one server; or the list had another number of members
 *   MODE         a member belongs to another quorum; or another call changed the list meanwhile
 *   UNSUPPORTED  as for rowlock_quorum_init()
 *   UNAVAILABLE  a majority of the old list, or a new member, could not be reached; or another
 *                call changed the list meanwhile
 *   CANCELLED    `cancel` was fired; the quorum may be closed
 */
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status
rowlock_quorum_replace(const rowlock_client_options *options, const rowlock_quorum_options *quorum,
                       rowlock_error *err);

/* ----------------------------------------------------------------------------- looking */

typedef enum rowlock_member_state {
    ROWLOCK_MEMBER_AWAY = 0,    /* it cannot be asked, or its schema is of another version:
                                   `status` and `message` say why */
    ROWLOCK_MEMBER_NONE = 1,    /* it has no list: rowlock_quorum_init(), _rejoin(), _replace(); or
                                   no schema to keep one in: `status` is SCHEMA */
    ROWLOCK_MEMBER_STRANGE = 2, /* its list was written on another server, of which it is a copy,
                                   a replica, or the new build: rowlock_quorum_rejoin() */
    ROWLOCK_MEMBER_OTHER = 3,   /* it has another list than most of these members */
    ROWLOCK_MEMBER_CLOSED = 4,  /* its list is being replaced: rowlock_quorum_replace() goes on */
    ROWLOCK_MEMBER_ABSTAINING = 5, /* it does not vote for another left_ms: it has started, and its
                                      commits are not durable; or it has rejoined */
    ROWLOCK_MEMBER_VOTING = 6
} rowlock_member_state;

/* Strings are "" where there is nothing to say. */
typedef struct rowlock_member {
    const char *where; /* as it was given, without user and password */
    rowlock_member_state state;
    int64_t left_ms;       /* ABSTAINING: for how long; else 0 */
    const char *server;    /* its identity, which no other server has */
    const char *list;      /* the hash of its list */
    unsigned list_number;  /* 1; one more with each rowlock_quorum_replace() */
    unsigned list_count;   /* how many members that has */
    int64_t ttl_most_ms;   /* of its list */
    uint64_t version;      /* no token that it has given to a quorum is higher */
    bool durable;          /* its commits are: innodb_flush_log_at_trx_commit = 1, and sync_binlog
                              = 1 where it has a binary log */
    rowlock_status status; /* AWAY: why; NONE: SCHEMA, or OK; else OK */
    const char *message;
    uint64_t reserved[4];
} rowlock_member;

typedef struct rowlock_quorum rowlock_quorum;

/*
 * Reads the state of each member, in the order in which they were given. OK also when none could be
 * asked. Free with rowlock_quorum_free(). The rights of the role looker are enough.
 */
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status
rowlock_quorum_get(const rowlock_client_options *options, const rowlock_quorum_options *quorum,
                   rowlock_quorum **out, rowlock_error *err);
ROWLOCK_API size_t rowlock_quorum_count(const rowlock_quorum *quorum);
ROWLOCK_API const rowlock_member *rowlock_quorum_at(const rowlock_quorum *quorum, size_t i);
/* How many members must vote for a holder: more than half, or all with `require_all`. */
ROWLOCK_API size_t rowlock_quorum_needed(const rowlock_quorum *quorum);
/* How many can vote now, under one list. */
ROWLOCK_API size_t rowlock_quorum_voting(const rowlock_quorum *quorum);
ROWLOCK_API void rowlock_quorum_free(rowlock_quorum *quorum);

/* At how many members the hold counts at this moment; 0: it is lost, not a quorum's, or (in a
 * forked child) the parent's. Without a round trip. */
ROWLOCK_API size_t rowlock_hold_members(const rowlock_hold *hold);

#ifdef __cplusplus
}
#endif

#endif
