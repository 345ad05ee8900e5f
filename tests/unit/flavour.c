/* The tables of flavours and clusters, and what follows from a server's answers: no server
 * needed. */

#include "db/flavour.h"
#include "bell/bell.h"
#include "support/unit.h"

typedef struct answer {
    const char *name;
    const char *value;
} answer;

/* A server's answers unless a test says otherwise. */
static const answer mariadb[] = {
    {"version", "10.11.6-MariaDB-0+deb12u1"},
    {"version_comment", "Debian 12"},
    {"pseudo_thread_id", "7"},
    {"hostname", "db1"},
    {"port", "3306"},
    {"datadir", "/var/lib/mysql/"},
    {"server_id", "1"},
    {"gtid_domain_id", "0"},
    {"wsrep_on", "OFF"},
    {"read_only", "OFF"},
    {"log_bin", "ON"},
    {"binlog_format", "MIXED"},
};

static const answer mysql[] = {
    {"version", "8.4.3"},
    {"pseudo_thread_id", "7"},
    {"hostname", "db1"},
    {"port", "3306"},
    {"datadir", "/var/lib/mysql/"},
    {"server_id", "1"},
    {"server_uuid", "11111111-e5b4-11f1-be3b-02fc00000001"},
    {"read_only", "OFF"},
    {"super_read_only", "OFF"},
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static rl_question asked;

/* `said`: further answers, or other ones; a NULL name ends them. */
static rl_server sketch(rl_flavour flavour, const answer *said)
{
    rl_server server;
    rl_sketch s;
    const answer *usual = flavour == RL_MARIADB ? mariadb : mysql;
    size_t count = flavour == RL_MARIADB ? COUNT(mariadb) : COUNT(mysql);
    rl_sketch_begin(&s, &server, flavour);
    for (size_t i = 0; i < count; i++)
        rl_sketch_note(&s, usual[i].name, usual[i].value);
    for (; said && said->name; said++)
        rl_sketch_note(&s, said->name, said->value);
    asked = rl_sketch_asks(&s);
    rl_sketch_end(&s, 7);
    return server;
}

#define SKETCH(flavour, ...) sketch(flavour, (const answer[]){__VA_ARGS__, {NULL, NULL}})

TS_ONCE(what_it_is)
{
    rl_server server = sketch(RL_MARIADB, NULL);
    assert_int_equal(server.major, 10);
    assert_int_equal(server.minor, 11);
    assert_int_equal(server.cluster, RL_ALONE);
    assert_int_equal(asked, RL_ASK_NOTHING);
    assert_string_equal(server.comment, "Debian 12");
    assert_string_equal(server.binlog_format, "MIXED");
    assert_true(server.binlog);
    assert_false(server.read_only || server.proxied || server.apart);
    assert_true(SKETCH(RL_MARIADB, {"pseudo_thread_id", "8"}).proxied);
    assert_true(SKETCH(RL_MARIADB, {"read_only", "ON"}).read_only);
    /* Later MariaDBs have more than two values. */
    assert_true(SKETCH(RL_MARIADB, {"read_only", "NO_LOCK"}).read_only);
    assert_true(SKETCH(RL_MYSQL, {"super_read_only", "1"}).read_only);
    assert_int_equal(SKETCH(RL_MARIADB, {"version", "11"}).minor, 0);
}

/* Only a server that is known to be outside of its group is refused. */
TS_ONCE(outside_its_group)
{
    static const answer group = {"group_replication_group_name", "g"};
    rowlock_error err = {0};
    rl_server none = SKETCH(RL_MYSQL, group);
    rl_server joining = SKETCH(RL_MYSQL, group, {"member_state", "RECOVERING"});
    rl_server member = SKETCH(RL_MYSQL, group, {"member_state", "ONLINE"});
    rl_server node =
        SKETCH(RL_MARIADB, {"wsrep_on", "ON"}, {"wsrep_cluster_status", "non-Primary"});
    assert_int_equal(rl_server_join_check(&none, &err), ROWLOCK_READONLY);
    assert_int_equal(rl_server_join_check(&joining, &err), ROWLOCK_READONLY);
    assert_int_equal(rl_server_join_check(&member, &err), ROWLOCK_OK);
    assert_int_equal(rl_server_join_check(&node, &err), ROWLOCK_READONLY);
    rl_sketch s;
    rl_server unseen;
    rl_sketch_begin(&s, &unseen, RL_MYSQL);
    rl_sketch_note(&s, group.name, group.value);
    s.unseen = true;
    rl_sketch_end(&s, 7);
    assert_true(unseen.apart);
    assert_int_equal(rl_server_join_check(&unseen, &err), ROWLOCK_OK);
}

TS_ONCE(too_old)
{
    static const struct {
        rl_flavour flavour;
        const char *version;
        rowlock_status status;
    } expected[] = {
        {RL_MARIADB, "10.5.29-MariaDB", ROWLOCK_UNSUPPORTED},
        {RL_MARIADB, "5.5.68-MariaDB", ROWLOCK_UNSUPPORTED},
        {RL_MARIADB, "10.6.0-MariaDB", ROWLOCK_OK},
        {RL_MARIADB, "11.8.3-MariaDB", ROWLOCK_OK},
        {RL_MYSQL, "5.7.44", ROWLOCK_UNSUPPORTED},
        {RL_MYSQL, "8.0.11", ROWLOCK_OK},
        {RL_MYSQL, "9.7.4-2", ROWLOCK_OK},
        {RL_MYSQL, "", ROWLOCK_UNSUPPORTED},
    };
    for (size_t i = 0; i < COUNT(expected); i++) {
        rowlock_error err = {0};
        rl_server server = SKETCH(expected[i].flavour, {"version", expected[i].version});
        if (rl_server_check(&server, &err) != expected[i].status)
            fail_msg("%s: %s", expected[i].version, err.message);
    }
}

TS_ONCE(a_restart_is_no_change)
{
    for (int flavour = 0; flavour < RL_FLAVOURS; flavour++) {
        rl_server before = sketch((rl_flavour)flavour, NULL);
        rl_server after = SKETCH((rl_flavour)flavour, {"pseudo_thread_id", "1"},
                                 {"version", "11.9"}, {"read_only", "ON"}, {"log_bin", "OFF"});
        assert_true(before.identity != 0 && before.identity == after.identity);
        assert_true(before.node == after.node && before.node == before.identity);
    }
}

/* A copy of a server has the same rows; it is told apart by these answers, which it cannot
 * share. */
TS_ONCE(another_server)
{
    static const answer differs[] = {
        {"server_id", "2"}, {"gtid_domain_id", "1"},         {"hostname", "db2"},
        {"port", "3307"},   {"datadir", "/var/lib/mysql2/"},
    };
    rl_server primary = sketch(RL_MARIADB, NULL);
    for (size_t i = 0; i < COUNT(differs); i++) {
        rl_server copy = SKETCH(RL_MARIADB, differs[i]);
        assert_true(primary.identity != copy.identity && primary.node != copy.node);
    }
    rl_server other = SKETCH(RL_MYSQL, {"server_uuid", "22222222-e5b4-11f1-be3b-02fc00000001"});
    assert_true(sketch(RL_MYSQL, NULL).identity != other.identity);
    /* A data folder that was moved is the same server. */
    other = SKETCH(RL_MYSQL, {"datadir", "/elsewhere/"}, {"hostname", "db2"});
    assert_true(sketch(RL_MYSQL, NULL).identity == other.identity);
}

TS_ONCE(nodes_of_galera)
{
    rl_server one = SKETCH(RL_MARIADB, {"wsrep_on", "ON"}, {"wsrep_cluster_status", "Primary"},
                           {"wsrep_cluster_state_uuid", "aaaa"});
    rl_server other = SKETCH(RL_MARIADB, {"wsrep_on", "ON"}, {"wsrep_cluster_status", "Primary"},
                             {"wsrep_cluster_state_uuid", "aaaa"}, {"hostname", "db2"});
    assert_int_equal(asked, RL_ASK_GALERA);
    assert_int_equal(one.cluster, RL_GALERA);
    assert_true(one.identity == other.identity && one.node != other.node);
    assert_true(one.identity != one.node && !one.apart);
    /* A node that is cut off from the others does not count as one server with them. */
    other = SKETCH(RL_MARIADB, {"wsrep_on", "ON"}, {"wsrep_cluster_status", "non-Primary"},
                   {"wsrep_cluster_state_uuid", "aaaa"});
    assert_true(other.apart && other.identity == other.node && other.identity != one.identity);
    /* A node of another cluster is another server. */
    other = SKETCH(RL_MARIADB, {"wsrep_on", "ON"}, {"wsrep_cluster_status", "Primary"},
                   {"wsrep_cluster_state_uuid", "bbbb"});
    assert_true(other.identity != one.identity);
}

TS_ONCE(members_of_a_group)
{
    const answer group = {"group_replication_group_name", "cccc"};
    const answer single = {"group_replication_single_primary_mode", "ON"};
    const answer online = {"member_state", "ONLINE"};
    const answer uuid = {"server_uuid", "22222222-e5b4-11f1-be3b-02fc00000001"};
    rl_server one = SKETCH(RL_MYSQL, group, single, online);
    assert_int_equal(asked, RL_ASK_GROUP);
    rl_server other = SKETCH(RL_MYSQL, group, single, online, uuid);
    assert_int_equal(one.cluster, RL_GROUP_PRIMARY);
    assert_true(one.identity == other.identity && one.node != other.node && !one.apart);
    other = SKETCH(RL_MYSQL, group, online, uuid);
    assert_int_equal(other.cluster, RL_GROUP_MULTI);
    assert_true(one.identity == other.identity);
    /* Out of the group, or this user may not see whether it is in one. */
    other = SKETCH(RL_MYSQL, group, single, {"member_state", "OFFLINE"});
    assert_true(other.apart && other.identity == other.node);
    other = SKETCH(RL_MYSQL, group, single);
    assert_true(other.apart && other.identity == other.node);
    /* The plugin alone is no group. */
    other = SKETCH(RL_MYSQL, {"group_replication_group_name", ""}, single);
    assert_int_equal(asked, RL_ASK_NOTHING);
    assert_int_equal(other.cluster, RL_ALONE);
    assert_false(other.apart);
}

TS_ONCE(what_follows)
{
    static const struct {
        rl_cluster cluster;
        bool many;
    } expected[] = {
        {RL_ALONE, false}, {RL_GALERA, true}, {RL_GROUP_PRIMARY, false}, {RL_GROUP_MULTI, true}};
    assert_int_equal(COUNT(expected), RL_CLUSTERS);
    for (size_t i = 0; i < COUNT(expected); i++) {
        rl_server server = {.cluster = expected[i].cluster};
        assert_int_equal(rl_many_writers(server.cluster, false), expected[i].many);
        assert_false(rl_many_writers(server.cluster, true));
        assert_int_equal(rl_server_why_no_bell(&server, false) != NULL, expected[i].many);
        assert_null(rl_server_why_no_bell(&server, true));
        server.proxied = true;
        assert_non_null(rl_server_why_no_bell(&server, true));
        assert_non_null(rl_cluster_traits_of(server.cluster)->name);
    }
}

TS_MAIN("unit_flavour", NULL, NULL)
