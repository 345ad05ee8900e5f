/* How connections are made, and how statements on them are stopped. */
#include <dlfcn.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "conformance/clients.h"
#include "stmt/session.h"
#include "support/proxy.h"

#define NAME "server.rowlock.test"

static atomic_int resolver_ms;      /* how long it takes */
static atomic_int resolver_started; /* how often it was asked */
static atomic_int resolver_ended;

/* This symbol overrides the C library's, also for Connector/C. */
__attribute__((visibility("default"))) int getaddrinfo(const char *restrict node,
                                                       const char *restrict service,
                                                       const struct addrinfo *restrict hints,
                                                       struct addrinfo **restrict result)
{
    typedef int resolve(const char *, const char *, const struct addrinfo *, struct addrinfo **);
    bool ours = node && strcmp(node, NAME) == 0;
    resolve *real;
    *(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
    if (!ours)
        return real(node, service, hints, result);
    atomic_fetch_add(&resolver_started, 1);
    poll(NULL, 0, atomic_load(&resolver_ms));
    int failed = real("127.0.0.1", service, hints, result);
    atomic_fetch_add(&resolver_ended, 1);
    return failed;
}

#define SLOW_MS 2500

static rowlock_client *open_at(unsigned port, const char *host)
{
    static const rowlock_tls_options none = {.mode = ROWLOCK_TLS_OFF}; /* the proxy reads it */
    rowlock_client_options options = ts_options();
    options.socket = NULL;
    options.host = host;
    options.port = port;
    options.tls = &none;
    return ts_open_with(options);
}

static bool nobody_resolves(void)
{
    return atomic_load(&resolver_started) == atomic_load(&resolver_ended);
}

static void end_slowness(ts_proxy *proxy)
{
    assert_true(POLL_UNTIL(nobody_resolves(), 2 * SLOW_MS));
    atomic_store(&resolver_ms, 0);
    ts_pass_ms(100);
    ts_proxy_stop(proxy);
}

/* Nor a cancelled wait. */
TS_ONCE(test_a_slow_resolver_does_not_outlast_a_wait)
{
    const char *name = ts_name("resolver");
    ts_proxy *proxy = ts_proxy_start(ts_socket());
    rowlock_client *far = open_at(ts_proxy_port(proxy), NAME);
    rowlock_hold *hold = ts_take(other, name, ROWLOCK_PESSIMISTIC, 30000);
    rowlock_hold *got = NULL;
    rowlock_acquire_options options = {.mode = ROWLOCK_PESSIMISTIC, .wait_ms = 200};
    int asked = atomic_load(&resolver_started);
    atomic_store(&resolver_ms, SLOW_MS);
    WANT_WITHIN(UNAVAILABLE, 199, 200, rowlock_acquire(far, name, &options, &got, &ts_err));
    assert_true(atomic_load(&resolver_started) > asked);
    ts_waiter w = {.client = far, .name = name, .options = options};
    w.options.wait_ms = 20000;
    w.options.cancel = ts_cancel();
    asked = atomic_load(&resolver_started);
    ts_waiter_start(&w);
    assert_true(POLL_UNTIL(atomic_load(&resolver_started) > asked, 10000));
    int64_t start = ts_now_ms();
    rowlock_cancel_fire(w.options.cancel);
    WANT(CANCELLED, ts_waiter_join(&w, SLOW_MS));
    assert_between(0, w.ended_ms - start, ts_slack_ms());
    rowlock_cancel_free(w.options.cancel);
    /* Nothing is left of it: closing does not wait, and there is no connection. */
    start = ts_now_ms();
    rowlock_client_close(far);
    assert_between(0, ts_now_ms() - start, 1000 + ts_slack_ms());
    WANT(OK, rowlock_release(hold, &ts_err));
    end_slowness(proxy);
}

/* The keeper has to connect again, and still reports the loss. */
TS_ONCE(test_a_slow_resolver_does_not_hide_a_loss)
{
    int64_t ttl = ts_short_ttl(ROWLOCK_OPTIMISTIC);
    ts_proxy *proxy = ts_proxy_start(ts_socket());
    rowlock_client *far = open_at(ts_proxy_port(proxy), NAME);
    rowlock_hold *hold = ts_take(far, ts_name("resolver-loss"), ROWLOCK_OPTIMISTIC, ttl);
    struct pollfd told = {.fd = rowlock_hold_fd(hold), .events = POLLIN};
    atomic_store(&resolver_ms, SLOW_MS);
    ts_proxy_cut(proxy);
    int64_t start = ts_now_ms();
    assert_int_equal(poll(&told, 1, 2 * SLOW_MS), 1);
    assert_between(0, ts_now_ms() - start, ttl + ts_slack_ms());
    assert_int_equal(rowlock_hold_check(hold), ROWLOCK_LOST);
    atomic_store(&resolver_ms, 0);
    (void)rowlock_release(hold, NULL);
    rowlock_client_close(far);
    end_slowness(proxy);
}

/* -1: no descriptor leads there; else whether it is closed by exec(). */
static int closed_by_exec(unsigned port)
{
    for (int fd = 3; fd < 256; fd++) {
        struct sockaddr_in peer = {0};
        socklen_t size = sizeof peer;
        if (getpeername(fd, (struct sockaddr *)&peer, &size) == 0 && peer.sin_family == AF_INET &&
            ntohs(peer.sin_port) == port)
            return (fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0;
    }
    return -1;
}

typedef struct firing {
    rowlock_cancel *cancel;
    ts_proxy *login; /* the login during which it is fired, and which ends then; NULL: none */
    unsigned port;
    bool closed;
} firing;

static void *fire(void *arg)
{
    firing *f = arg;
    ts_pass_ms(200);
    f->closed = f->login && POLL_UNTIL(closed_by_exec(f->port) == 1, 5000);
    rowlock_cancel_fire(f->cancel);
    if (f->login)
        ts_proxy_cut(f->login);
    return NULL;
}

static void want_cancelled(rowlock_client_options *options, firing *f, int64_t within_ms)
{
    pthread_t thread;
    rowlock_client *none = NULL;
    f->cancel = ts_cancel();
    options->cancel = f->cancel;
    options->retry_ms = 120000;
    assert_int_equal(pthread_create(&thread, NULL, fire, f), 0);
    /* Not before it was fired, whenever that thread ran. */
    WANT_WITHIN(CANCELLED, 0, within_ms, rowlock_client_open(options, &none, &ts_err));
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_null(none);
}

/* Also during the login: a child that is started then must not keep the socket. */
TS_ONCE(test_a_cancelled_opening)
{
    rowlock_client_options options = ts_options();
    rowlock_client *none = NULL;
    firing f = {0};
    options.socket = "/nonexistent/socket";
    want_cancelled(&options, &f, 300);
    /* If it was fired before, nothing is tried. */
    options.socket = ts_socket();
    WANT(CANCELLED, rowlock_client_open(&options, &none, &ts_err));
    rowlock_cancel_free(f.cancel);
    f.login = ts_proxy_start(ts_socket());
    options.port = f.port = ts_proxy_port(f.login);
    options.socket = NULL;
    options.host = "127.0.0.1";
    options.connect_timeout_ms = 60000;
    ts_proxy_stall(f.login, true);
    want_cancelled(&options, &f, 5000);
    assert_true(f.closed);
    rowlock_cancel_free(f.cancel);
    ts_proxy_stop(f.login);
}

/* It was used a moment ago, so it is not checked before it is used again. */
TS_ONCE(test_a_connection_dies_in_the_pool)
{
    const char *name = ts_name("pooled");
    TS_CLIENT *fresh = ts_open();
    for (int i = 0; i < 10; i++) {
        rowlock_hold *hold = ts_take(fresh, name, ROWLOCK_PESSIMISTIC, 30000);
        uint64_t id = ts_sql_u64(
            mysql, "SELECT connection_id FROM resource WHERE resource_name = '%s'", name);
        WANT(OK, rowlock_release(hold, &ts_err));
        ts_sql(mysql, "KILL CONNECTION %" PRIu64, id);
        WANT(OK, ts_try(fresh, name, ROWLOCK_PESSIMISTIC));
    }
}

static rl_peer peer_of_loopback(unsigned port)
{
    rl_peer peer = {.size = sizeof(struct sockaddr_in)};
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    memcpy(&peer.address, &address, sizeof address);
    return peer;
}

/* Each server numbers its own connections: none is killed at another server. */
TS_ONCE(test_nothing_is_killed_at_another_server)
{
    TS_PROXY *here = ts_proxy_start(ts_socket());
    TS_PROXY *there = ts_proxy_start(ts_socket());
    rl_params params = {.host = strdup("127.0.0.1"),
                        .user = strdup("root"),
                        .schema = strdup(ts_schema()),
                        .port = ts_proxy_port(here),
                        .tls.mode = ROWLOCK_TLS_OFF,
                        .connect_timeout_ms = 20000};
    rl_peer to[2] = {peer_of_loopback(params.port), peer_of_loopback(ts_proxy_port(there))};
    rl_peer unknown = {0};
    TS_MYSQL *victim = ts_connect(ts_schema());
    rl_pool pool;
    rl_pool_init(&pool, &params, &rl_stmt_pool_hooks, 2);
    uint64_t id = mysql_thread_id(victim);
    for (int i = 0; i < 2; i++) {
        assert_false(rl_pool_kill_query(&pool, &to[1], id, "", 1000000));
        assert_false(rl_pool_kill_query(&pool, &unknown, id, "", 1000000));
        assert_true(rl_pool_kill_query(&pool, &to[0], id, "", 20000000));
    }
    assert_true(rl_pool_reaches(&pool, &to[0]));
    assert_false(rl_pool_reaches(&pool, &to[1]));
    rl_pool_destroy(&pool, false);
}

/* A client that reaches the server another way than its caller's connection cannot stop that one's
 * statement: still in time. */
TS_ONCE(test_a_caller_by_another_way)
{
    const char *name = ts_name("way");
    TS_PROXY *proxy = ts_proxy_start(ts_socket());
    TS_CLIENT *far = open_at(ts_proxy_port(proxy), "127.0.0.1");
    rowlock_hold *hold = ts_take(other, name, ROWLOCK_PESSIMISTIC, 30000);
    rowlock_tx_options wait = {.wait_ms = 300};
    TS_MYSQL *own = ts_connect(ts_schema());
    ts_sql(own, "BEGIN");
    WANT_WITHIN(TIMEOUT, 299, 300, rowlock_tx_acquire(far, own, name, &wait, &ts_err));
    WANT(OK, rowlock_release(hold, &ts_err));
    wait.wait_ms = 20000;
    WANT(OK, rowlock_tx_acquire(far, own, name, &wait, &ts_err));
    WANT(BUSY, ts_try(other, name, ROWLOCK_PESSIMISTIC));
    ts_sql(own, "ROLLBACK");
}

static const char *option_file(const char *lines)
{
    static char path[300];
    const char *folder = getenv("TMPDIR");
    snprintf(path, sizeof path, "%s/rowlock-connection.%d.cnf", folder && *folder ? folder : "/tmp",
             (int)getpid());
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    fprintf(out, "[rowlock]\n%s", lines);
    fclose(out);
    return path;
}

/* A server may answer any statement with a request for a file, if the client has declared that it
 * sends files. */
TS_ONCE(test_no_file_is_sent)
{
    const char *file = option_file("local-infile=1\n");
    rl_params params = {.socket = strdup(ts_socket()),
                        .user = strdup("root"),
                        .schema = strdup(ts_schema()),
                        .defaults_file = strdup(file),
                        .connect_timeout_ms = 5000};
    rl_io io = rl_io_until(rl_now_us() + 5000000);
    rl_conn *conn = NULL;
    char load[400];
    ts_sql(watch, "CREATE TABLE `lines` (line VARCHAR(200))");
    snprintf(load, sizeof load, "LOAD DATA LOCAL INFILE '%s' INTO TABLE `lines`", file);
    WANT(OK, rl_conn_open(&params, &io, &conn, &ts_err));
    assert_int_not_equal(rl_conn_command(conn, "load", load, &io, NULL), ROWLOCK_OK);
    rl_conn_close(conn);
    assert_int_equal(ts_sql_u64(watch, "SELECT COUNT(*) FROM `lines`"), 0);
    ts_sql(watch, "DROP TABLE `lines`");
    rl_params_free(&params);
    unlink(file);
}

TS_MAIN("connection", open_clients, close_clients)
