/*
 * migrate/statement.h - what a statement does to its transaction and its session, as far as its
 * words say.
 */
#ifndef RL_MIGRATE_STATEMENT_H
#define RL_MIGRATE_STATEMENT_H

#include "migrate/script.h"

/* Does it end the transaction that it is in, on one of the servers at least? */
bool rl_ends_transaction(const rl_statement *statement);

/* May a part of it stay when it fails, since it may commit in its midst? CALL and the like. */
bool rl_commits_in_parts(const rl_statement *statement);

/* Does it change nothing but its session, and can be run again there? SET, USE. */
bool rl_is_of_session(const rl_statement *statement);

/* Does it leave something in its session that cannot be had again by running it again? */
bool rl_leaves_something(const rl_statement *statement);

/* Does it need what the statement before it left in the session? */
bool rl_needs_something(const rl_statement *statement);

#endif
