/*
 * rowlock/rowlock_mysql.h - calls that work on the caller's own MYSQL *.
 *
 * The connection must be Connector/C's and reach the same server as the client's,
 * and its user needs the privileges of sql/grants.sql on rowlock's schema (where the client works
 * through procedures, EXECUTE is enough here, too). One
 * thread at a time may use it (Connector/C's rule). rowlock never changes its
 * session variables (but for @rowlock_presented), its default schema or its autocommit, and runs
 * nothing on it but the statements named here. With autocommit off it counts as in a transaction
 * for calls that want one: they begin it where there is none.
 *
 * Conventions, and the statuses that any call may answer, are those of rowlock.h. Of any call here:
 *
 *   INVALID  also: `mysql` is NULL, or has a result that was not read to its end
 */
#ifndef ROWLOCK_MYSQL_H
#define ROWLOCK_MYSQL_H

#include <mysql.h>

#include "rowlock/rowlock.h"
#include "rowlock/rowlock_queue.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rowlock_tx_options {
    int64_t wait_ms; /* 0: try once; < 0: forever; else at most this long */
    rowlock_cancel *cancel;
    uint64_t reserved[4];
} rowlock_tx_options;

/*
 * The row lock of `name` (ROWLOCK_PESSIMISTIC) joins the caller's open transaction
 * and ends with it: data and lock commit together, so no token is needed.
 *
 * Waiting ends on time when both connections have the same user (KILL QUERY), or the client works
 * through procedures; otherwise the lock is tried again and again, with a jittered backoff. A
 * caller that only tries is in no queue of the server's: a deadlock with another transaction then
 * lasts until one of the waits ends.
 *
 * After BUSY, TIMEOUT and CANCELLED the transaction is still open and has lost nothing. (It may
 * have gained the row's lock while a transaction that fenced a dead holder's token was in the way;
 * that ends with it.)
 *
 *   BUSY         wait_ms is 0, and somebody holds the lock; or the name was purged just now
 *   TIMEOUT      the wait ended before the lock was free
 *   CANCELLED    `cancel` was fired
 *   DEADLOCK     the server has rolled the whole transaction back
 *   UNAVAILABLE  the connection is gone, and the transaction with it; or the client's own
 *                connections do not reach the server, and the transaction is still open
 *   MODE         the name is of leases
 *   INVALID      also: the connection is not in a transaction
 *   UNSUPPORTED  a node of a cluster with many writers without single_writer
 */
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status rowlock_tx_acquire(rowlock_client *client, MYSQL *mysql,
                                                               const char *name,
                                                               const rowlock_tx_options *options,
                                                               rowlock_error *err);

/*
 * Inside the caller's open transaction: it can commit only while the lock is still
 * this hold's. From OK until the transaction ends nobody else gets the lock, and
 * renewals go on. A reader's fence keeps writers out until then; other readers come in. Of a set of
 * leases, or of slots, each is fenced. Commit or roll back before rowlock_release().
 *
 *   LOST         the lock is not this hold's any more; roll back
 *   BUSY         another transaction fences the lock and did not end within connect_timeout_ms (or
 *                the session's own limit), or somebody stopped the statement; the transaction is
 *                still open
 *   DEADLOCK     the server has rolled the transaction back
 *   UNAVAILABLE  the connection is gone, and the transaction with it
 *   INVALID      also: not in a transaction, an unfenced hold, or a set of row locks
 */
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status rowlock_fence(rowlock_hold *hold, MYSQL *mysql,
                                                          rowlock_error *err);

/*
 * Presents the hold's token to the session, so that it may write tables that its lock fences
 * (rowlock_fence_install()): with or without a transaction, until the connection ends or is reset.
 * Other locks' tokens that it has presented stay. The call does not ask the server whether the
 * token is good: the triggers see that at each write. A pool that hands the connection on hands the
 * token on as well; SET @rowlock_presented = NULL takes all of them back.
 *
 *   LOST         the lock is not this hold's any more, as far as this client knows
 *   INVALID      also: an unfenced hold, a reader (also as one of a set), or a set of row locks
 *   UNAVAILABLE  the connection is gone
 *   TIMEOUT      the server did not answer within connect_timeout_ms
 *   BUSY         somebody stopped the statement (KILL QUERY)
 */
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status rowlock_present(rowlock_hold *hold, MYSQL *mysql,
                                                            rowlock_error *err);

/*
 * Registers `mysql`, another connection of the job that holds a lease alone, with the hold: a long
 * statement on it may outlive its process. Whoever gets the lease after this holder has lost it
 * ends the connection (KILL), and waits until its transaction is undone, before its own acquire
 * returns. A release ends the registration, and the connection goes on, as it does after a
 * downgrade; but not one that says keep_sessions, or that comes after a loss (a break, too). Of a
 * set of leases it is registered with each.
 *
 * On `mysql` it runs SELECT GET_LOCK(), and the first time SET @rowlock_marker: the named lock, one
 * for a connection, is how that is known, and RELEASE_ALL_LOCKS(), a reset and a change of the user
 * take the registration back. The same holds where this process gets the lease anew. Who takes over
 * needs no right to end connections of its own user; of others, CONNECTION ADMIN (on MySQL
 * CONNECTION_ADMIN): without it, it waits until they have ended. Through procedures that right is
 * their definer's, for whoever's connections. From SQL: rowlock_session() (rowlock-sql(7)).
 *
 *   LOST         the lock is not this hold's any more
 *   INVALID      also: the connection is in a transaction
 *   UNSUPPORTED  a row lock (it ends with its connection), readers, slots, a latch, a barrier, a
 *                quorum; a cluster with many writers: the number of a connection is one node's; the
 *                client's way to the server is a proxy, which has other numbers
 *   UNAVAILABLE  a connection is gone; or `mysql` leads to another server than the client's
 */
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status rowlock_hold_guard(rowlock_hold *hold, MYSQL *mysql,
                                                               rowlock_error *err);

/* The work of one attempt, inside a transaction that rowlock_tx_section_run() has
 * started on `mysql`. It must not commit or roll back. */
typedef rowlock_status (*rowlock_tx_section_fn)(void *data, const rowlock_section *section,
                                                MYSQL *mysql);

/*
 * The optimistic section with rows: START TRANSACTION, read the version, `fn`,
 * compare-and-swap, COMMIT, all on the caller's connection; on a conflict or a
 * deadlock ROLLBACK and again. After any status but OK the transaction is rolled back (UNKNOWN: its
 * COMMIT may have been made). Statuses as rowlock_section_run().
 *
 *   INVALID      also: the connection is in a transaction already
 *   UNAVAILABLE  also: the connection is gone, and the transaction with it
 */
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status rowlock_tx_section_run(
    rowlock_client *client, MYSQL *mysql, const char *name, const rowlock_section_options *options,
    rowlock_tx_section_fn fn, void *data, rowlock_section_result *result, rowlock_error *err);

/*
 * The compare-and-swap alone, inside the caller's open transaction; as
 * rowlock_version_bump(). It is final when the transaction commits. After BUSY, TIMEOUT and
 * CONFLICT the transaction is still open. (A client that works through procedures has rolled it
 * back after CONFLICT, and after BUSY under a lease.)
 *
 *   CONFLICT     the version is not `expected` any more
 *   BUSY         a lease on the name is held or cooling, or a transaction has its row locked
 *   TIMEOUT      a transaction had the row locked for connect_timeout_ms
 *   DEADLOCK     the server has rolled the transaction back
 *   UNAVAILABLE  the connection is gone, and the transaction with it; or the client's own
 *                connections do not reach the server, and the transaction is still open
 *   MODE         the name is of row locks
 *   INVALID      also: the connection is not in a transaction
 */
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status rowlock_tx_version_bump(rowlock_client *client,
                                                                    MYSQL *mysql, const char *name,
                                                                    uint64_t expected,
                                                                    uint64_t *version,
                                                                    rowlock_error *err);

/*
 * rowlock_latch_down() (rowlock_latch.h) inside the caller's open transaction: it counts when that
 * commits, and not at all when it is rolled back. `key` may be NULL. What was committed counts,
 * whatever the transaction's snapshot is. From OK until the transaction ends nobody sets or breaks
 * the latch. A generation that has opened already answers OK, and nothing is changed.
 *
 * After BUSY, LOST and NOT_FOUND the transaction is still open.
 *
 *   NOT_FOUND    the latch was not set yet, or not that often
 *   LOST         that generation was broken
 *   BUSY         another transaction is about to set or to break it, or counts with the same key,
 *                and did not end within connect_timeout_ms (or the session's own limit); or
 *                somebody stopped the statement
 *   DEADLOCK     the server has rolled the transaction back
 *   UNAVAILABLE  the connection is gone, and the transaction with it; or the client's own
 *                connections do not reach the server, and the transaction is still open
 *   MODE         the name is another kind of lock
 *   INVALID      also: the connection is not in a transaction
 */
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status rowlock_tx_latch_down(rowlock_client *client,
                                                                  MYSQL *mysql, const char *name,
                                                                  const char *key,
                                                                  uint64_t generation,
                                                                  rowlock_error *err);

/*
 * rowlock_once_done() (rowlock_once.h) inside the caller's open transaction, by the token of the
 * attempt (under `rowlock once`: ROWLOCK_TOKEN). The period is done when the transaction commits,
 * and not at all when it is rolled back. From OK until the transaction ends nobody begins another
 * attempt; so the work of only one attempt is committed, whatever has become of its lease. Call it
 * once.
 *
 * After BUSY the transaction is still open. After LOST it is, too, unless the client works through
 * procedures: they have rolled it back.
 *
 *   LOST         no period is running with this token: it is done already (by an earlier call,
 *                too), has failed, or a later attempt has begun; roll back
 *   BUSY         somebody else has locked the period's row and did not let it go within
 *                connect_timeout_ms (or the session's own limit), or somebody stopped the
 *                statement
 *   DEADLOCK     the server has rolled the transaction back
 *   UNAVAILABLE  the connection is gone, and the transaction with it; or the client's own
 *                connections do not reach the server, and the transaction is still open
 *   NOT_FOUND    there is no such name
 *   MODE         the name is another kind of lock
 *   INVALID      also: the connection is not in a transaction
 */
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status rowlock_tx_once_done(rowlock_client *client,
                                                                 MYSQL *mysql, const char *name,
                                                                 uint64_t token,
                                                                 rowlock_error *err);

/*
 * rowlock_queue_put() (rowlock_queue.h) inside the caller's open transaction: the item is there
 * when that commits, and not at all when it is rolled back (an outbox). An item of a group keeps
 * other puts and ends of that group waiting until then; one with a key keeps puts with the same key
 * waiting. `id` may be NULL. (LAST_INSERT_ID() of the session is the item's id then.)
 *
 * After BUSY and NOT_FOUND the transaction is still open.
 *
 *   BUSY         another transaction has locked the same key or group, and did not end within
 *                connect_timeout_ms (or the session's own limit); or somebody stopped the statement
 *   NOT_FOUND    the queue was purged just now; nothing was put
 *   DEADLOCK     the server has rolled the transaction back
 *   UNAVAILABLE  the connection is gone, and the transaction with it; or the client's own
 *                connections do not reach the server, and the transaction is still open
 *   MODE         the name is another kind of lock
 *   INVALID      also: the connection is not in a transaction; or as for rowlock_queue_put()
 *   UNSUPPORTED  the client works through procedures: CALL rowlock_queue_put
 */
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status rowlock_tx_queue_put(rowlock_client *client,
                                                                 MYSQL *mysql, const char *queue,
                                                                 const void *payload, size_t size,
                                                                 const rowlock_put_options *options,
                                                                 uint64_t *id, rowlock_error *err);

/*
 * The item is done when the caller's open transaction commits, and not at all when it is rolled
 * back: so the work of only one delivery is committed. By the item's id and token (under
 * `rowlock queue work`: ROWLOCK_ITEM_ID and ROWLOCK_ITEM_TOKEN), from any process. From OK until
 * the transaction ends nobody else can take the item, and it is not renewed: commit within its TTL,
 * or its worker hears LOST. A worker of this process calls rowlock_item_forget() after the COMMIT.
 *
 * At READ COMMITTED. (At REPEATABLE READ, MariaDB from 11.6 on answers DEADLOCK where the
 * transaction has read anything before the item was renewed last: see innodb_snapshot_isolation.)
 *
 *   LOST         the item is not held with this token any more; roll back
 *   BUSY         another transaction has locked the item, or its group, and did not end within
 *                connect_timeout_ms (or the session's own limit); or somebody stopped the statement
 *   DEADLOCK     the server has rolled the transaction back
 *   UNAVAILABLE  the connection is gone, and the transaction with it; or the client's own
 *                connections do not reach the server, and the transaction is still open
 *   NOT_FOUND    there is no such queue
 *   MODE         the name is another kind of lock
 *   INVALID      also: the connection is not in a transaction
 *   UNSUPPORTED  the client works through procedures: CALL rowlock_queue_done
 */
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status rowlock_tx_queue_done(rowlock_client *client,
                                                                  MYSQL *mysql, const char *queue,
                                                                  uint64_t id, uint64_t token,
                                                                  rowlock_error *err);

#ifdef __cplusplus
}
#endif

#endif
