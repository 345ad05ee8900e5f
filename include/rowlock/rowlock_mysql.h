/*
 * rowlock/rowlock_mysql.h - calls that work on the caller's own MYSQL *.
 *
 * The connection must be Connector/C's and reach the same server as the client's, and its user
 * needs the privileges of sql/grants.sql on rowlock's schema (where the client works through
 * procedures, EXECUTE is enough here, too). Only one thread at a time may use it (Connector/C's
 * rule). rowlock never changes its session variables (but for @rowlock_presented and
 * @rowlock_marker), its default schema or its autocommit, and runs nothing on it but the statements
 * named here. With autocommit off it counts as in a transaction for the calls that need one: where
 * none is open, they begin it.
 *
 * Conventions, and the statuses that any call may answer, are those of rowlock.h. Any call here may
 * answer
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
 * A wait ends on time where both connections have the same user (KILL QUERY), or the client works
 * through procedures. Else the call tries again and again, with a jittered backoff: it is in no
 * queue of the server's, and a deadlock with another transaction lasts until one of the waits ends.
 *
 * After BUSY, TIMEOUT and CANCELLED the transaction is still open and has lost nothing; do not work
 * under the lock. The transaction may have the row locked all the same, and keep others out (where
 * only a transaction that fenced a dead holder's token was in the way): roll back, or try again.
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
 * Makes the caller's open transaction one that can commit only while the lock is still this hold's.
 * From OK until the transaction ends nobody else gets the lock, and renewals go on. A reader's
 * fence keeps writers out until then; other readers get the lock. Of a set of leases, or of slots,
 * each is fenced. Commit or roll back before rowlock_release().
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
 * Presents the hold's token to the session, so that it may write tables that the lock fences
 * (rowlock_fence_install()). It begins no transaction. The session has the token until the
 * connection ends or is reset, so a pool that hands the connection on hands on the token, too;
 * SET @rowlock_presented = NULL removes it, with those of other locks, which stay otherwise. The
 * call does not ask the server whether the token is good: the triggers look at each write.
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
 * Registers `mysql`, another connection of the job that holds a lease alone, with the hold, since a
 * long statement on it may outlive the process. If this holder loses the lease, the acquire of the
 * next one (also of this process) ends the connection (KILL), and returns only when its transaction
 * has been undone. A release or a downgrade ends the registration, and the connection goes on. A
 * release with keep_sessions, or after a loss (also by a break), leaves it registered. Of a set of
 * leases it is registered with each. (Such connections are the *sessions* of the docs, of SQL and
 * of keep_sessions; they are guarded by the lease.)
 *
 * The call runs SELECT GET_LOCK() on `mysql`, and the first time SET @rowlock_marker. That named
 * lock, one for each connection, is the registration: RELEASE_ALL_LOCKS(), a reset and a change of
 * the user end it. The next holder can end connections of its own user. For those of other users it
 * needs CONNECTION ADMIN (on MySQL CONNECTION_ADMIN), and otherwise waits until they have ended;
 * through procedures their definer needs it, for connections of any user. From SQL:
 * rowlock_session() (rowlock-sql(7)).
 *
 *   LOST         the lock is not this hold's any more
 *   INVALID      also: the connection is in a transaction
 *   UNSUPPORTED  a row lock (it ends with its connection), readers, slots, a latch, a barrier, a
 *                quorum; a cluster with many writers, where a connection's number is one node's;
 *                the client connects through a proxy, which numbers connections differently
 *   UNAVAILABLE  a connection is gone, or `mysql` leads to another server than the client's
 */
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status rowlock_hold_guard(rowlock_hold *hold, MYSQL *mysql,
                                                               rowlock_error *err);

/* The work of one attempt, inside a transaction that rowlock_tx_section_run() has
 * started on `mysql`. It must not commit or roll back. */
typedef rowlock_status (*rowlock_tx_section_fn)(void *data, const rowlock_section *section,
                                                MYSQL *mysql);

/*
 * The optimistic section whose work is rows: START TRANSACTION, read the version, `fn`,
 * compare-and-swap, COMMIT, all on the caller's connection; after a conflict or a deadlock,
 * ROLLBACK and again. After any status but OK the transaction is rolled back (after UNKNOWN it may
 * be committed). Statuses of rowlock_section_run().
 *
 *   INVALID      also: the connection is in a transaction already
 *   UNAVAILABLE  also: the connection is gone, and the transaction with it
 */
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status rowlock_tx_section_run(
    rowlock_client *client, MYSQL *mysql, const char *name, const rowlock_section_options *options,
    rowlock_tx_section_fn fn, void *data, rowlock_section_result *result, rowlock_error *err);

/*
 * The compare-and-swap alone (as rowlock_version_bump()), inside the caller's open transaction. It
 * is final when the transaction commits. After BUSY, TIMEOUT and CONFLICT the transaction is still
 * open. (A client that works through procedures has rolled it back after CONFLICT, and after BUSY
 * under a lease.)
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
 * commits, and not at all when it is rolled back. `key` may be NULL. What is committed counts,
 * whatever the transaction's snapshot is. From OK until the transaction ends nobody sets or breaks
 * the latch. If that generation has opened already, the call answers OK and changes nothing.
 *
 * After BUSY, LOST and NOT_FOUND the transaction is still open.
 *
 *   NOT_FOUND    the latch, or that generation of it, was not set yet
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
 * procedures, which have rolled it back.
 *
 *   LOST         no period is running with this token: it is done already (also by an earlier
 *                call), has failed, or a later attempt has begun; roll back
 *   BUSY         somebody else has locked the period's row and did not release it within
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
 * when that commits, and not at all when it is rolled back (an outbox). Until then an item of a
 * group keeps other puts and ends of that group waiting, and one with a key keeps puts with the
 * same key waiting. Where that key was there already, puts with a key next to it, or without one,
 * may wait, too (for a gap of the index), and that item cannot be renewed: if its lease ends
 * meanwhile, it is delivered again. So put late in the transaction.
 * `id` may be NULL. (LAST_INSERT_ID() of the session is the item's id then.)
 *
 * After BUSY and NOT_FOUND the transaction is still open, and nothing was put.
 *
 *   BUSY         another transaction has locked the same key or group, and did not end within
 *                connect_timeout_ms (or the session's own limit); or somebody stopped the statement
 *   NOT_FOUND    the queue was purged just now
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
 * back: so the work of only one delivery is committed. The item is named by its id and token (under
 * `rowlock queue work`: ROWLOCK_ITEM_ID and ROWLOCK_ITEM_TOKEN), so any process can do this; a
 * worker of this process calls rowlock_item_forget() after the COMMIT. From OK until the
 * transaction ends nobody else can take the item, and it is not renewed: commit within its TTL, or
 * its worker hears LOST.
 *
 * Use READ COMMITTED: at REPEATABLE READ, MariaDB from 11.6 on answers DEADLOCK if the transaction
 * read anything before the item's last renewal (see innodb_snapshot_isolation).
 *
 * After LOST and BUSY the transaction is still open, and the call has changed nothing.
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
