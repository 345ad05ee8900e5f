/* kind/transaction.h - locks in the caller's own transaction. */
#ifndef RL_KIND_TRANSACTION_H
#define RL_KIND_TRANSACTION_H

#include "engine/client.h"
#include "rowlock/rowlock_mysql.h"
#include "stmt/caller.h"

rl_caller rl_tx_caller(rowlock_client *client, MYSQL *mysql);

/* INVALID for NULL, or when it is (`wanted` false) or is not (true) in a transaction. */
rowlock_status rl_tx_check(MYSQL *mysql, bool wanted, rowlock_error *err) RL_MUST_USE;

/*
 * After a statement in the caller's transaction that is meant to have survived it: DEADLOCK when
 * it has not. innodb_rollback_on_timeout rolls everything back at a lock wait's time-out, and a
 * connection with reconnect on starts anew; the next lock would end with its statement.
 */
rowlock_status rl_tx_outcome(const rl_caller *caller, const char *name, rowlock_status status,
                             rowlock_error *err) RL_MUST_USE;

/* Statements in the caller's transaction that take effect as a whole, or, with any status but OK,
 * not at all. */
typedef rowlock_status (*rl_tx_steps)(void *data, rowlock_error *err);
rowlock_status rl_tx_whole(const rl_caller *caller, const rl_io *io, rl_tx_steps steps, void *data,
                           rowlock_error *err) RL_MUST_USE;

rowlock_status rl_tx_acquire(rowlock_client *client, MYSQL *mysql, const char *name,
                             const rowlock_tx_options *options, rowlock_error *err) RL_MUST_USE;

rowlock_status rl_tx_latch_down(rowlock_client *client, MYSQL *mysql, const char *name,
                                const char *key, uint64_t generation,
                                rowlock_error *err) RL_MUST_USE;

rowlock_status rl_tx_once_done(rowlock_client *client, MYSQL *mysql, const char *name,
                               uint64_t token, rowlock_error *err) RL_MUST_USE;

rowlock_status rl_tx_queue_put(rowlock_client *client, MYSQL *mysql, const char *queue,
                               const rowlock_put_entry *entry, uint64_t *id,
                               rowlock_error *err) RL_MUST_USE;
rowlock_status rl_tx_queue_done(rowlock_client *client, MYSQL *mysql, const char *queue,
                                uint64_t item, uint64_t token, rowlock_error *err) RL_MUST_USE;

/* UNAVAILABLE: the caller's connection was lost. */
rowlock_status rl_tx_gone(const char *name, rowlock_error *err);

#endif
