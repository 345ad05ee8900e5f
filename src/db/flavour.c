#include "db/flavour.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"

/* ------------------------------------------------------------------- the differences */

/*
 * Numbers are written out: the two flavours' headers disagree about names. What both mean the
 * same by is in db/errors.c.
 */
static const rl_meaning mariadb_numbers[] = {
    {ROWLOCK_CANCELLED, {1969}},     /* max_statement_time */
    {ROWLOCK_DENIED, {4151}},        /* the account is locked */
    {ROWLOCK_DAMAGED, {1932, 4025}}, /* the table is not in the engine; a CHECK constraint */
    {0},
};

static const rl_meaning mysql_numbers[] = {
    {ROWLOCK_BUSY, {3572}}, /* NOWAIT; MariaDB says 1205, as for any wait that ended */
    /* among named locks (MariaDB says 1213); Group Replication rolled it back at commit */
    {ROWLOCK_DEADLOCK, {3058, 3101}},
    {ROWLOCK_CANCELLED, {3024}}, /* max_execution_time */
    {ROWLOCK_UNKNOWN, {4031}},   /* ended for being idle; MariaDB has another 4031 */
    {ROWLOCK_READONLY, {3100}},  /* a member that has left its group refuses at commit */
    /* the account is locked, also for a while, after wrong passwords; TLS is demanded */
    {ROWLOCK_DENIED, {3118, 3955, 3159}},
    {ROWLOCK_DAMAGED, {3819}}, /* a CHECK constraint */
    {0},
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const rl_traits flavours[RL_FLAVOURS] = {
    [RL_MARIADB] = {.name = "MariaDB",
                    .oldest_major = 10,
                    .oldest_minor = 6,
                    .own_numbers = mariadb_numbers,
                    .bell_name_max = 192,
                    .identity_is = "server_id, GTID domain, host name, port and data folder"},
    [RL_MYSQL] = {.name = "MySQL",
                  .oldest_major = 8,
                  .oldest_minor = 0,
                  .own_numbers = mysql_numbers,
                  .bell_name_max = 64,
                  .waiters_table = "performance_schema.data_locks",
                  .identity_is = "server_uuid"},
};

static const rl_cluster_traits clusters[RL_CLUSTERS] = {
    [RL_ALONE] = {.name = "not a member of a cluster"},
    [RL_GALERA] = {.name = "a Galera node",
                   .many_writers = true,
                   .says_cut_off = true,
                   .identity_is_whole = true},
    /* A new primary has every transaction that was acknowledged, and certifies against those it
     * has not applied yet (docs/notes/servers.md). */
    [RL_GROUP_PRIMARY] = {.name = "a Group Replication member, single-primary",
                          .identity_is_whole = true},
    [RL_GROUP_MULTI] = {.name = "a Group Replication member, multi-primary",
                        .many_writers = true,
                        .identity_is_whole = true},
};

const rl_traits *rl_traits_of(rl_flavour flavour)
{
    return &flavours[flavour];
}

const rl_cluster_traits *rl_cluster_traits_of(rl_cluster cluster)
{
    return &clusters[cluster];
}

/* -------------------------------------------------------------------- what it says */

typedef struct place {
    const char *variable;
    size_t offset; /* in the sketch */
    size_t size;
} place;

#define PLACE(variable, member)                                                                    \
    {                                                                                              \
        variable, offsetof(rl_sketch, member), sizeof(((rl_sketch *)0)->member)                    \
    }

static const place places[] = {
    PLACE("version", server.version),
    PLACE("version_comment", server.comment),
    PLACE("binlog_format", server.binlog_format),
    PLACE("pseudo_thread_id", connection_id),
    PLACE("lower_case_table_names", lower_case_table_names),
    PLACE("read_only", read_only),
    PLACE("super_read_only", super_read_only),
    PLACE("log_bin", log_bin),
    PLACE("wsrep_on", wsrep_on),
    PLACE("group_replication_single_primary_mode", single_primary),
    PLACE("server_id", server_id),
    PLACE("gtid_domain_id", domain),
    PLACE("server_uuid", uuid),
    PLACE("hostname", hostname),
    PLACE("port", port),
    PLACE("datadir", datadir),
    PLACE("wsrep_cluster_state_uuid", galera_uuid),
    PLACE("wsrep_cluster_status", galera_status),
    PLACE("group_replication_group_name", group_name),
    PLACE("member_state", member_state),
};

static bool is_on(const char *value)
{
    return strcasecmp(value, "OFF") != 0 && strcmp(value, "0") != 0 && *value;
}

void rl_sketch_begin(rl_sketch *sketch, rl_server *server, rl_flavour flavour)
{
    *sketch = (rl_sketch){.out = server, .server.flavour = flavour};
}

void rl_sketch_note(rl_sketch *sketch, const char *name, const char *value)
{
    for (size_t i = 0; i < COUNT(places); i++)
        if (strcasecmp(name, places[i].variable) == 0)
            snprintf((char *)sketch + places[i].offset, places[i].size, "%s", value);
}

rl_question rl_sketch_asks(const rl_sketch *sketch)
{
    if (is_on(sketch->wsrep_on))
        return RL_ASK_GALERA;
    return *sketch->group_name ? RL_ASK_GROUP : RL_ASK_NOTHING;
}

/* ------------------------------------------------------------------- what it follows */

/* Never 0. */
static uint64_t number_of(const char *text)
{
    uint64_t hash = rl_hash(text);
    return hash ? hash : 1;
}

/*
 * MySQL gives each data folder a UUID. MariaDB has none: replicas of one another must differ in
 * server_id, and where all are left at 1, host, port or data folder differ. (Not its server_uid:
 * that is the network card and the port, and a container that is started again elsewhere
 * has another card.) None of them changes when a server is restarted.
 */
static void name_node(rl_sketch *sketch)
{
    rl_server *server = &sketch->server;
    if (*sketch->uuid)
        snprintf(server->node_text, sizeof server->node_text, "%s", sketch->uuid);
    else
        snprintf(server->node_text, sizeof server->node_text, "%s-%s %s:%s%s", sketch->domain,
                 sketch->server_id, sketch->hostname, sketch->port, sketch->datadir);
    server->node = number_of(server->node_text);
}

static bool is_member(const rl_sketch *sketch, rl_cluster cluster)
{
    if (cluster == RL_GALERA)
        return strcasecmp(sketch->galera_status, "Primary") == 0;
    return strcasecmp(sketch->member_state, "ONLINE") == 0;
}

static rl_cluster cluster_of(const rl_sketch *sketch)
{
    if (is_on(sketch->wsrep_on))
        return RL_GALERA;
    if (!*sketch->group_name)
        return RL_ALONE;
    return is_on(sketch->single_primary) ? RL_GROUP_PRIMARY : RL_GROUP_MULTI;
}

/*
 * Only a working member speaks for its cluster. One that has left it, or whose state this user
 * may not see, speaks for itself: its leases end when another node is reached.
 */
static void name_whole(rl_sketch *sketch)
{
    rl_server *server = &sketch->server;
    const char *whole = server->cluster == RL_GALERA ? sketch->galera_uuid : sketch->group_name;
    bool one = clusters[server->cluster].identity_is_whole && !server->apart && *whole;
    snprintf(server->identity_text, sizeof server->identity_text, "%s",
             one ? whole : server->node_text);
    server->identity = number_of(server->identity_text);
}

static void read_version(rl_server *server)
{
    char *end = NULL;
    server->major = (unsigned)strtoul(server->version, &end, 10);
    server->minor = *end == '.' ? (unsigned)strtoul(end + 1, NULL, 10) : 0;
}

void rl_sketch_end(rl_sketch *sketch, uint64_t connection_id)
{
    rl_server *server = &sketch->server;
    read_version(server);
    server->read_only = is_on(sketch->read_only) || is_on(sketch->super_read_only);
    server->binlog = is_on(sketch->log_bin);
    server->lowers_names = strcmp(sketch->lower_case_table_names, "1") == 0;
    server->proxied = strtoull(sketch->connection_id, NULL, 10) != connection_id;
    server->cluster = cluster_of(sketch);
    server->apart = server->cluster != RL_ALONE && !is_member(sketch, server->cluster);
    server->outside = server->apart && !sketch->unseen;
    name_node(sketch);
    name_whole(sketch);
    *sketch->out = *server;
}

rowlock_status rl_server_join_check(const rl_server *server, rowlock_error *err)
{
    if (!server->outside)
        return ROWLOCK_OK;
    return rl_fail(err, ROWLOCK_READONLY,
                   "%s: it is configured for %s, and is no working member of it now",
                   rowlock_status_text(ROWLOCK_READONLY), clusters[server->cluster].name);
}

rowlock_status rl_server_write_check(const rl_server *server, rowlock_error *err)
{
    if (!server->read_only)
        return ROWLOCK_OK;
    return rl_fail(err, ROWLOCK_READONLY, "%s: nothing is changed here, by whatever user",
                   rowlock_status_text(ROWLOCK_READONLY));
}

rowlock_status rl_server_check(const rl_server *server, rowlock_error *err)
{
    const rl_traits *traits = rl_traits_of(server->flavour);
    if (server->major > traits->oldest_major ||
        (server->major == traits->oldest_major && server->minor >= traits->oldest_minor))
        return ROWLOCK_OK;
    return rl_fail(err, ROWLOCK_UNSUPPORTED,
                   "the server is %s %s, which lacks SKIP LOCKED or JSON_TABLE; rowlock needs %s "
                   "%u.%u or later",
                   traits->name, server->version, traits->name, traits->oldest_major,
                   traits->oldest_minor);
}

bool rl_many_writers(rl_cluster cluster, bool single_writer)
{
    return clusters[cluster].many_writers && !single_writer;
}

const char *rl_server_why_no_bell(const rl_server *server, bool single_writer)
{
    if (server->proxied)
        return "a proxy hides the server's connections";
    if (!rl_many_writers(server->cluster, single_writer))
        return NULL;
    return server->cluster == RL_GALERA ? "GET_LOCK is local to a Galera node"
                                        : "GET_LOCK is local to a member of the group";
}
