/* Five servers, the first three of which are a quorum, and two clients of it. Each of its eight
 * rules has a test that fails without it: 1 and 7 are about its members (quorum_members.c). */
#ifndef QUORUM_FRAME_H
#define QUORUM_FRAME_H

#include "rowlock/rowlock_quorum.h"

#include "support/servers.h"

enum { N = 3, ALL = 5, TTL_MOST = 6000, SOON = 12000 };

static const char *urls[ALL];
static rowlock_client *client;
static rowlock_client *other;
static MYSQL *at[ALL];

static inline rowlock_client_options options_of(const size_t *which, size_t count)
{
    static const char *lists[16][ALL];
    static size_t last;
    const char **chosen = lists[last++ % 16];
    for (size_t i = 0; i < count; i++)
        chosen[i] = urls[which ? which[i] : i];
    return (rowlock_client_options){
        .members = chosen, .member_count = count, .connect_timeout_ms = 5000};
}

static inline rowlock_client *open_with(const rowlock_client_options *options)
{
    rowlock_client *opened = NULL;
    WANT(OK, rowlock_client_open(options, &opened, &ts_err));
    return opened;
}

static inline rowlock_client *open_quorum(void)
{
    const rowlock_client_options options = options_of(NULL, N);
    return open_with(&options);
}

static inline rowlock_status init(const rowlock_client_options *options, int64_t ttl_most_ms)
{
    return rowlock_quorum_init(options, &(rowlock_quorum_options){.ttl_most_ms = ttl_most_ms},
                               &ts_err);
}

/* The member's present state. */
static inline rowlock_member_state state_of(size_t i)
{
    const rowlock_client_options options = options_of(NULL, N);
    rowlock_quorum *quorum = NULL;
    WANT(OK, rowlock_quorum_get(&options, NULL, &quorum, &ts_err));
    rowlock_member_state state = rowlock_quorum_at(quorum, i)->state;
    rowlock_quorum_free(quorum);
    return state;
}

static inline void reconnect(size_t i)
{
    mysql_close(at[i]);
    at[i] = ts_server_connect(i);
}

/* Cuts it off, also for open connections. */
static inline void cut_off(size_t i)
{
    ts_proxy_refuse(ts_server_proxy(i), true);
    ts_proxy_cut(ts_server_proxy(i));
}

static inline void let_in(size_t i)
{
    ts_proxy_flow(ts_server_proxy(i));
}

static inline uint64_t version_at(size_t i, const char *name)
{
    return ts_sql_u64(at[i], "SELECT version FROM resource WHERE resource_name = %s",
                      ts_quote(name));
}

static inline bool free_at(size_t i, const char *name)
{
    return ts_sql_u64(at[i],
                      "SELECT COUNT(*) FROM resource WHERE resource_name = %s AND status = 'held'"
                      " AND lease_expires_at > UTC_TIMESTAMP(6)",
                      ts_quote(name)) == 0;
}

static inline void set_versions(const char *name, uint64_t one, uint64_t two, uint64_t three)
{
    const uint64_t versions[N] = {one, two, three};
    for (size_t i = 0; i < N; i++)
        ts_sql(at[i], "UPDATE resource SET version = %" PRIu64 " WHERE resource_name = %s",
               versions[i], ts_quote(name));
}

/* Somebody else has it there, for the whole test. */
static inline void occupy(size_t i, const char *name)
{
    ts_sql(at[i],
           "UPDATE resource SET status = 'held', owner = 'somebody', owner_label = 'somebody',"
           " lease_expires_at = UTC_TIMESTAMP(6) + INTERVAL 1 HOUR WHERE resource_name = %s",
           ts_quote(name));
}

/* A member that was away is asked again after some seconds. */
static inline rowlock_hold *take_at_all(rowlock_client *from, const char *name)
{
    rowlock_hold *hold = ts_take(from, name, ROWLOCK_OPTIMISTIC, TS_KEPT_TTL);
    assert_true(POLL_UNTIL(rowlock_hold_members(hold) == N, SOON));
    return hold;
}

/* On a strained machine two members may answer too late. */
static inline void give_back(rowlock_hold *hold)
{
    const int64_t strain_ms = ts_strain_ms();
    const rowlock_status status = rowlock_release(hold, &ts_err);
    if (status != ROWLOCK_UNKNOWN || ts_strain_ms() - strain_ms < 10)
        WANT(OK, status);
}

/* Makes the name at every member. */
static inline void use(const char *name)
{
    give_back(take_at_all(client, name));
}

static inline rowlock_status try_it(rowlock_client *from, const char *name)
{
    const int64_t strain_ms = ts_strain_ms();
    const rowlock_status status = ts_try(from, name, ROWLOCK_OPTIMISTIC);
    if (status != ROWLOCK_UNAVAILABLE || ts_strain_ms() - strain_ms < 10)
        return status;
    return ts_try(from, name, ROWLOCK_OPTIMISTIC);
}

/* Options with another schema, in which they are no quorum yet. */
static inline rowlock_client_options options_of_second(const size_t *which, size_t count)
{
    static bool made;
    rowlock_client_options options = options_of(which, count);
    options.schema = "second";
    for (size_t i = 0; i < ALL; i++) {
        const rowlock_client_options one = {.url = urls[i], .schema = "second"};
        if (!made)
            WANT(OK, rowlock_migrate(&one, NULL, &(rowlock_migrate_result){0}, &ts_err));
        ts_sql(at[i], "DELETE FROM second.quorum_member");
    }
    made = true;
    return options;
}

/* The member of the first `count` with the lowest identity. */
static inline size_t first_of(size_t count)
{
    size_t first = 0;
    char *servers[N];
    for (size_t i = 0; i < count; i++) {
        servers[i] = ts_sql_text(at[i], "SELECT server FROM quorum_member");
        if (strcmp(servers[i], servers[first]) < 0)
            first = i;
    }
    for (size_t i = 0; i < count; i++)
        free(servers[i]);
    return first;
}

static inline int begin(TS_NO_STATE)
{
    ts_servers_start(ALL);
    for (size_t i = 0; i < ALL; i++) {
        urls[i] = ts_server_url(i);
        at[i] = ts_server_connect(i);
    }
    const rowlock_client_options options = options_of(NULL, N);
    WANT(OK, init(&options, TTL_MOST));
    client = open_quorum();
    other = open_quorum();
    return 0;
}

static inline int end(TS_NO_STATE)
{
    rowlock_client_close(client);
    rowlock_client_close(other);
    for (size_t i = 0; i < ALL; i++)
        mysql_close(at[i]);
    ts_servers_remove();
    return 0;
}

#endif
