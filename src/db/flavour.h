/*
 * db/flavour.h - which server is this? What differs between servers is in the two tables of
 * flavour.c; nothing else in rowlock decides by a flavour or a cluster. Where the text of a
 * statement differs, the statement has it in the comments that one of them executes, in sql/. It is
 * found when a connection is made.
 */
#ifndef RL_DB_FLAVOUR_H
#define RL_DB_FLAVOUR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

typedef enum rl_flavour { RL_MARIADB, RL_MYSQL, RL_FLAVOURS } rl_flavour;

/* The server's numbers that mean a status. */
typedef struct rl_meaning {
    rowlock_status status;
    unsigned short numbers[20]; /* 0 behind the last */
} rl_meaning;

typedef struct rl_traits {
    const char *name;
    unsigned oldest_major; /* that rowlock works with */
    unsigned oldest_minor;
    /* That the other flavour does not have, or means something else by; one without any is the end.
     */
    const rl_meaning *own_numbers;
    unsigned bell_name_max; /* characters in a name of GET_LOCK */
    const char
        *waiters_table;      /* shows waiters for a row lock to a user that may read it; or NULL */
    const char *identity_is; /* what tells one server from another, for people */
} rl_traits;

const rl_traits *rl_traits_of(rl_flavour flavour);

typedef enum rl_cluster {
    RL_ALONE, /* or replicated asynchronously: it does not matter to us until it fails over */
    RL_GALERA,
    RL_GROUP_PRIMARY, /* Group Replication in single-primary mode */
    RL_GROUP_MULTI,   /* ... in multi-primary mode */
    RL_CLUSTERS
} rl_cluster;

typedef struct rl_cluster_traits {
    const char *name;
    bool many_writers; /* row locks and GET_LOCK are local to a node, and others write too */
    bool says_cut_off; /* a node without a quorum is not read-only, but says that it is cut off */
    bool identity_is_whole; /* what one node has committed, every node has: nodes are one server */
} rl_cluster_traits;

const rl_cluster_traits *rl_cluster_traits_of(rl_cluster cluster);

#define RL_SERVER_ID_MAX 400 /* bytes of the text that tells a server from others */

typedef struct rl_server {
    rl_flavour flavour;
    rl_cluster cluster;
    unsigned major;
    unsigned minor;
    bool read_only;
    bool proxied; /* the number of the connection is another at the server */
    bool binlog;
    bool lowers_names; /* of schemas and tables: what DATABASE() says is not what was asked for */
    bool apart;        /* configured for a cluster, and not known to be a working member */
    bool outside;      /* certainly no member */
    char binlog_format[33];
    char version[129];
    char comment[257];
    /*
     * Whose word a lease is: the server's, or the cluster's where its nodes are one. `node` is the
     * server's own. The numbers are hashes of the texts; 0: not known.
     */
    uint64_t identity;
    uint64_t node;
    char identity_text[RL_SERVER_ID_MAX];
    char node_text[RL_SERVER_ID_MAX];
} rl_server;

/*
 * What a server says of itself, put together: begin, a note for each variable (in any
 * order; those that are not known are ignored), end. A cluster needs a second question
 * (rl_sketch_asks) whose answers are notes too.
 */
typedef struct rl_sketch {
    rl_server *out;         /* where it is to be in the end */
    rl_server server;       /* so far */
    bool unseen;            /* this user may not see what the cluster says of the node */
    char connection_id[24]; /* as the server knows it */
    char wsrep_on[17];
    char single_primary[17];
    char read_only[17];
    char super_read_only[17];
    char log_bin[17];
    char lower_case_table_names[17];
    char server_id[33];
    char domain[33];
    char uuid[65];
    char hostname[129];
    char port[17];
    char datadir[129];
    char galera_uuid[65];
    char galera_status[33];
    char group_name[65];
    char member_state[33];
} rl_sketch;

void rl_sketch_begin(rl_sketch *sketch, rl_server *server, rl_flavour flavour);
void rl_sketch_note(rl_sketch *sketch, const char *name, const char *value);

typedef enum rl_question { RL_ASK_NOTHING, RL_ASK_GALERA, RL_ASK_GROUP } rl_question;
rl_question rl_sketch_asks(const rl_sketch *sketch);

/* `connection_id`: as the client knows it. */
void rl_sketch_end(rl_sketch *sketch, uint64_t connection_id);

/*
 * READONLY for a node that has left its cluster, is cut off from it, or was started and has not
 * joined. A member of a group would take writes then (unless it is kept read-only), and a lease
 * taken there, in old data, would have a second holder. Its answers do not mean that the server was
 * replaced by another one.
 */
rowlock_status rl_server_join_check(const rl_server *server, rowlock_error *err) RL_MUST_USE;

/*
 * READONLY, for what changes the schema. A user with the rights of an administrator is not stopped
 * by MariaDB's read_only; what it changed on a replica would be that one's alone, and stop its
 * replication.
 */
rowlock_status rl_server_write_check(const rl_server *server, rowlock_error *err) RL_MUST_USE;

/* UNSUPPORTED when it lacks what rowlock is built on. */
rowlock_status rl_server_check(const rl_server *server, rowlock_error *err) RL_MUST_USE;

/* True if other nodes that take writes do not see this one's row locks: no pessimistic mode. */
bool rl_many_writers(rl_cluster cluster, bool single_writer);

/* Why waiters of leases cannot be woken here; NULL: they can. */
const char *rl_server_why_no_bell(const rl_server *server, bool single_writer);

#endif
