/*
 * clusters/sql.h - the SQL side on several servers: procedures, and the event that sweeps.
 */
#ifndef CLUSTERS_SQL_H
#define CLUSTERS_SQL_H

#include "clusters/cluster.h"

/* Installs the procedures in this binary's schema, and waits until every node has them. */
void sql_install(int node);
void want_sqlstate(MYSQL *mysql, const char *statement, const char *state);

/* Makes the event at a node, to run each second; that server runs events from then on. */
void event_install(int node);
/* Adds leases whose time is over; whether each of them has been freed, and recorded, once. */
void event_add_dead(MYSQL *mysql, const char *prefix, unsigned count);
bool event_freed_all(MYSQL *mysql, const char *prefix, unsigned count);
/* cluster_finds() of the check of the event. */
bool event_is(int node, rowlock_level level, const char *found);

/* For clusters on which every node takes writes. */
#define SQL_WRITERS_TESTS(X)                                                                       \
    X(test_sql_sessions_from_every_node)                                                           \
    X(test_a_fenced_sql_transaction_is_overtaken)                                                  \
    X(test_the_event_at_several_nodes) X(test_migrations_on_many_writers)
SQL_WRITERS_TESTS(DECLARED)

#endif
