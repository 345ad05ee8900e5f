/*
 * clusters/sql.h - the SQL side on several servers: procedures, and the event that sweeps.
 */
#ifndef CLUSTERS_SQL_H
#define CLUSTERS_SQL_H

#include "clusters/cluster.h"

/* The procedures of this binary's schema, at every node. */
void sql_install(int node);
void want_sqlstate(MYSQL *mysql, const char *statement, const char *state);

/* The event, made at a node, each second; the node's server runs events from then on. */
void event_install(int node);
/* Leases whose time is over; and whether each of them has been freed, and recorded, once. */
void event_add_dead(MYSQL *mysql, const char *prefix, unsigned count);
bool event_freed_all(MYSQL *mysql, const char *prefix, unsigned count);
/* What the doctor says of the event at a node. */
bool event_is(int node, rowlock_level level, const char *found);

/* Where every node takes writes. */
#define SQL_WRITERS_TESTS(X)                                                                       \
    X(test_sql_sessions_from_every_node)                                                           \
    X(test_a_fenced_sql_transaction_is_overtaken)                                                  \
    X(test_the_event_at_several_nodes) X(test_migrations_on_many_writers)
SQL_WRITERS_TESTS(DECLARED)

#endif
