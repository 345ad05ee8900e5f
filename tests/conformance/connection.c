/* How connections are made, and how statements on them are stopped. */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "rowlock/rowlock_mysql.h"
#include "stmt/session.h"
#include "support/support.h"

static rowlock_client *other; /* through the socket */
static MYSQL *watch;

/* --------------------------------------------------------------------- a resolver of ours */

#define NAME "server.rowlock.test"

static atomic_int resolver_ms;      /* how long it takes */
static atomic_int resolver_started; /* how often it was asked */
static atomic_int resolver_ended;

/* The program's symbol wins over the C library's, for Connector/C too. */
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

/* ------------------------------------------------------------- TCP to the server's socket */

#define PAIRS 128

typedef struct forwarder {
    int listener;
    unsigned port;
    int ends[PAIRS][2]; /* a client's and the server's; 0: no pair */
    atomic_bool cut;    /* end all of them once */
    atomic_bool stop;
    pthread_t thread;
} forwarder;

static void end_pair(int pair[2])
{
    close(pair[0]);
    close(pair[1]);
    pair[0] = 0;
    pair[1] = 0;
}

static void add_pair(forwarder *f)
{
    struct sockaddr_un server = {.sun_family = AF_UNIX};
    snprintf(server.sun_path, sizeof server.sun_path, "%s", ts_socket());
    int client = accept4(f->listener, NULL, NULL, SOCK_CLOEXEC);
    int to = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool good = connect(to, (struct sockaddr *)&server, sizeof server) == 0;
    for (int i = 0; good && i < PAIRS; i++) {
        if (f->ends[i][0] == 0) {
            f->ends[i][0] = client;
            f->ends[i][1] = to;
            return;
        }
    }
    close(client);
    close(to);
}

static void forward_pair(int pair[2], const struct pollfd fds[2])
{
    char bytes[65536];
    for (int from = 0; from < 2; from++) {
        if (!fds[from].revents)
            continue;
        ssize_t n = recv(pair[from], bytes, sizeof bytes, 0);
        if (n <= 0 || send(pair[1 - from], bytes, (size_t)n, MSG_NOSIGNAL) != n) {
            end_pair(pair);
            return;
        }
    }
}

static void *forward(void *arg)
{
    forwarder *f = arg;
    while (!atomic_load(&f->stop)) {
        struct pollfd fds[1 + 2 * PAIRS];
        bool cut = atomic_exchange(&f->cut, false);
        fds[0] = (struct pollfd){.fd = f->listener, .events = POLLIN};
        for (int i = 0; i < PAIRS; i++) {
            if (cut && f->ends[i][0])
                end_pair(f->ends[i]);
            for (int end = 0; end < 2; end++)
                fds[1 + 2 * i + end] =
                    (struct pollfd){.fd = f->ends[i][end] ? f->ends[i][end] : -1, .events = POLLIN};
        }
        poll(fds, 1 + 2 * PAIRS, 5);
        for (int i = 0; i < PAIRS; i++)
            if (f->ends[i][0])
                forward_pair(f->ends[i], &fds[1 + 2 * i]);
        if (fds[0].revents)
            add_pair(f);
    }
    return NULL;
}

static int listen_on_loopback(unsigned *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(listener, 64), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &size), 0);
    *port = ntohs(address.sin_port);
    return listener;
}

static forwarder *forwarder_start(void)
{
    forwarder *f = calloc(1, sizeof *f);
    assert_non_null(f);
    f->listener = listen_on_loopback(&f->port);
    assert_int_equal(pthread_create(&f->thread, NULL, forward, f), 0);
    return f;
}

static void forwarder_stop(forwarder *f)
{
    atomic_store(&f->stop, true);
    pthread_join(f->thread, NULL);
    for (int i = 0; i < PAIRS; i++)
        if (f->ends[i][0])
            end_pair(f->ends[i]);
    close(f->listener);
    free(f);
}

static rowlock_client *open_through(const forwarder *f, const char *host)
{
    rowlock_client_options options = ts_options();
    rowlock_client *client = NULL;
    options.socket = NULL;
    options.host = host;
    options.port = f->port;
    WANT(OK, rowlock_client_open(&options, &client, &ts_err));
    return client;
}

/* --------------------------------------------------------------------- a slow resolver */

#define SLOW_MS 2500

static bool nobody_resolves(void)
{
    return atomic_load(&resolver_started) == atomic_load(&resolver_ended);
}

static void test_a_slow_resolver_does_not_outlast_a_wait(void **state)
{
    const char *name = ts_name("resolver");
    forwarder *f = forwarder_start();
    (void)state;
    rowlock_client *client = open_through(f, NAME);
    rowlock_hold *hold = ts_take(other, name, ROWLOCK_PESSIMISTIC, 30000);
    rowlock_hold *got = NULL;
    rowlock_acquire_options options = {.mode = ROWLOCK_PESSIMISTIC, .wait_ms = 200};
    int asked = atomic_load(&resolver_started);
    atomic_store(&resolver_ms, SLOW_MS);
    int64_t start = ts_now_ms();
    WANT(UNAVAILABLE, rowlock_acquire(client, name, &options, &got, &ts_err));
    assert_between(199, ts_now_ms() - start, 200 + ts_slack_ms());
    assert_true(atomic_load(&resolver_started) > asked);
    /* Nothing is left of it: neither a wait for the one who closes, nor a connection. */
    start = ts_now_ms();
    rowlock_client_close(client);
    assert_between(0, ts_now_ms() - start, 1000 + ts_slack_ms());
    WANT(OK, rowlock_release(hold, &ts_err));
    assert_true(POLL_UNTIL(nobody_resolves(), 2 * SLOW_MS));
    atomic_store(&resolver_ms, 0);
    ts_pass_ms(100);
    forwarder_stop(f);
}

static void test_a_slow_resolver_and_a_cancel(void **state)
{
    forwarder *f = forwarder_start();
    (void)state;
    rowlock_client *client = open_through(f, NAME);
    ts_waiter w = {.client = client,
                   .name = ts_name("resolver-cancel"),
                   .options = {.mode = ROWLOCK_PESSIMISTIC, .wait_ms = 20000}};
    WANT(OK, rowlock_cancel_new(&w.options.cancel, &ts_err));
    int asked = atomic_load(&resolver_started);
    atomic_store(&resolver_ms, SLOW_MS);
    ts_waiter_start(&w);
    assert_true(POLL_UNTIL(atomic_load(&resolver_started) > asked, 10000));
    int64_t start = ts_now_ms();
    rowlock_cancel_fire(w.options.cancel);
    WANT(CANCELLED, ts_waiter_join(&w, SLOW_MS));
    assert_between(0, w.ended_ms - start, ts_slack_ms());
    rowlock_cancel_free(w.options.cancel);
    rowlock_client_close(client);
    assert_true(POLL_UNTIL(nobody_resolves(), 2 * SLOW_MS));
    atomic_store(&resolver_ms, 0);
    ts_pass_ms(100);
    forwarder_stop(f);
}

/* The keeper has to connect again, and tells of the loss all the same. */
static void test_a_slow_resolver_does_not_hide_a_loss(void **state)
{
    int64_t ttl = ts_short_ttl(ROWLOCK_OPTIMISTIC);
    forwarder *f = forwarder_start();
    (void)state;
    rowlock_client *client = open_through(f, NAME);
    rowlock_hold *hold = ts_take(client, ts_name("resolver-loss"), ROWLOCK_OPTIMISTIC, ttl);
    struct pollfd told = {.fd = rowlock_hold_fd(hold), .events = POLLIN};
    atomic_store(&resolver_ms, SLOW_MS);
    atomic_store(&f->cut, true);
    int64_t start = ts_now_ms();
    assert_int_equal(poll(&told, 1, 2 * SLOW_MS), 1);
    assert_between(0, ts_now_ms() - start, ttl + ts_slack_ms());
    assert_int_equal(rowlock_hold_check(hold), ROWLOCK_LOST);
    atomic_store(&resolver_ms, 0);
    (void)rowlock_release(hold, NULL);
    rowlock_client_close(client);
    assert_true(POLL_UNTIL(nobody_resolves(), 2 * SLOW_MS));
    ts_pass_ms(100);
    forwarder_stop(f);
}

/* What 80 at once may take on a busy machine. */
#define PATIENCE_MS INT64_C(120000)

static rl_params params_through(const forwarder *f, const char *host)
{
    return (rl_params){.host = strdup(host),
                       .user = strdup("root"),
                       .schema = strdup(ts_schema()),
                       .port = f->port,
                       .connect_timeout_ms = PATIENCE_MS};
}

static void *open_one(void *arg)
{
    rl_io io = rl_io_until(rl_now_us() + PATIENCE_MS * 1000);
    rl_conn *conn = NULL;
    rowlock_error err = {0};
    if (rl_conn_open(arg, &io, &conn, &err) != ROWLOCK_OK) {
        print_message("# %s\n", err.message);
        return arg;
    }
    rl_conn_close(conn);
    return NULL;
}

/* More than the threads that may look names up at a time: none is turned away. */
static void test_many_at_once(void **state)
{
    enum { MANY = 80 };
    pthread_t threads[MANY];
    forwarder *f = forwarder_start();
    rl_params params = params_through(f, NAME);
    int failed = 0;
    (void)state;
    atomic_store(&resolver_ms, 50);
    /* The server gives each ten seconds to log in, which is little for so many on a busy machine.
     */
    ts_sql(watch, "SET GLOBAL connect_timeout = %d", (int)(PATIENCE_MS / 1000));
    for (int i = 0; i < MANY; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, open_one, &params), 0);
    for (int i = 0; i < MANY; i++) {
        void *wrong = NULL;
        pthread_join(threads[i], &wrong);
        failed += wrong != NULL;
    }
    atomic_store(&resolver_ms, 0);
    ts_sql(watch, "SET GLOBAL connect_timeout = DEFAULT");
    assert_int_equal(failed, 0);
    rl_params_free(&params);
    forwarder_stop(f);
}

static void test_a_name_that_is_nobodys(void **state)
{
    rowlock_client_options options = ts_options();
    rowlock_client *client = NULL;
    (void)state;
    options.socket = NULL;
    options.host = "nobody.invalid";
    options.connect_timeout_ms = 1000;
    WANT(UNAVAILABLE, rowlock_client_open(&options, &client, &ts_err));
    assert_null(client);
}

/* ------------------------------------------------------------------------ descriptors */

/* -1: none leads there; else whether it is closed by exec(). */
static int closed_by_exec(unsigned port)
{
    for (int fd = 3; fd < 256; fd++) {
        struct sockaddr_in peer = {0};
        socklen_t size = sizeof peer;
        if (getpeername(fd, (struct sockaddr *)&peer, &size) == 0 && peer.sin_family == AF_INET &&
            ntohs(peer.sin_port) == port)
            return fcntl(fd, F_GETFD) & FD_CLOEXEC ? 1 : 0;
    }
    return -1;
}

static void *open_in_vain(void *arg)
{
    rowlock_client *client = NULL;
    return rowlock_client_open(arg, &client, NULL) == ROWLOCK_UNAVAILABLE ? NULL : arg;
}

/* Also in the middle of the login: a child that is started then must not keep it. */
static void test_a_new_socket_is_closed_by_exec(void **state)
{
    rowlock_client_options options = ts_options();
    pthread_t thread;
    void *wrong = NULL;
    (void)state;
    int silent = listen_on_loopback(&options.port);
    options.socket = NULL;
    options.host = "127.0.0.1";
    options.connect_timeout_ms = 3000;
    assert_int_equal(pthread_create(&thread, NULL, open_in_vain, &options), 0);
    assert_true(POLL_UNTIL(closed_by_exec(options.port) >= 0, 2500));
    bool closed = POLL_UNTIL(closed_by_exec(options.port) == 1, 400);
    pthread_join(thread, &wrong);
    close(silent);
    assert_null(wrong);
    assert_true(closed);
}

static int close_without_descriptors(void *arg)
{
    const struct rlimit none = {0, 0};
    if (setrlimit(RLIMIT_NOFILE, &none) != 0)
        return 1;
    rowlock_client_close(arg);
    return 0;
}

/* The child cannot open anything to put in place of the parent's sockets. */
static void test_a_child_without_descriptors(void **state)
{
    rowlock_mode mode = ts_mode(state);
    const char *name = ts_name("no-fd");
    rowlock_client *client = ts_open();
    rowlock_hold *hold = ts_take(client, name, mode, 30000);
    assert_int_equal(ts_reap(ts_fork(close_without_descriptors, client), 10000), 0);
    ts_pass_ms(200);
    assert_held(hold);
    WANT(BUSY, ts_try(other, name, mode));
    WANT(OK, rowlock_release(hold, &ts_err));
    rowlock_client_close(client);
}

/* It was used a moment ago, and so nobody looks at it before it is used again. */
static void test_a_connection_dies_in_the_pool(void **state)
{
    const char *name = ts_name("pooled");
    rowlock_client *client = ts_open();
    MYSQL *mysql = ts_connect(ts_schema());
    (void)state;
    for (int i = 0; i < 10; i++) {
        rowlock_hold *hold = ts_take(client, name, ROWLOCK_PESSIMISTIC, 30000);
        uint64_t id = ts_sql_u64(
            mysql, "SELECT connection_id FROM resource WHERE resource_name = '%s'", name);
        WANT(OK, rowlock_release(hold, &ts_err));
        ts_sql(mysql, "KILL CONNECTION %" PRIu64, id);
        WANT(OK, ts_try(client, name, ROWLOCK_PESSIMISTIC));
    }
    mysql_close(mysql);
    rowlock_client_close(client);
}

/* ------------------------------------------------------------------------- KILL QUERY */

#define OUR_WAIT                                                                                   \
    "FROM information_schema.processlist WHERE db = DATABASE() AND id <> CONNECTION_ID()"          \
    " AND info LIKE '%%resource_lock%%FOR UPDATE%%'"

/* Somebody stops what takes long: the wait goes on, and gets the lock. */
static void test_a_foreign_kill_is_survived(void **state)
{
    const char *name = ts_name("killed");
    rowlock_client *client = ts_open();
    rowlock_hold *hold = ts_take(other, name, ROWLOCK_PESSIMISTIC, 30000);
    ts_waiter w = {
        .client = client, .name = name, .options = {.mode = ROWLOCK_PESSIMISTIC, .wait_ms = 20000}};
    (void)state;
    ts_waiter_start(&w);
    for (int i = 0; i < 3; i++) {
        assert_true(ts_server_waits(watch, "%resource_lock%FOR UPDATE%", 10000));
        ts_sql(watch, "KILL QUERY %" PRIu64, ts_sql_u64(watch, "SELECT id " OUR_WAIT));
        ts_pass_ms(100);
        assert_false(ts_waiter_ended(&w));
    }
    WANT(OK, rowlock_release(hold, &ts_err));
    WANT(OK, ts_waiter_join(&w, 10000));
    WANT(OK, rowlock_release(w.hold, &ts_err));
    rowlock_client_close(client);
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

/* The numbers of connections are each server's own: none is killed at another one. */
static void test_nothing_is_killed_at_another_server(void **state)
{
    forwarder *here = forwarder_start();
    forwarder *there = forwarder_start();
    rl_params params = params_through(here, "127.0.0.1");
    rl_peer to[2] = {peer_of_loopback(here->port), peer_of_loopback(there->port)};
    rl_peer unknown = {0};
    MYSQL *victim = ts_connect(ts_schema());
    rl_pool pool;
    (void)state;
    WANT(OK, rl_pool_init(&pool, &params, &rl_stmt_pool_hooks, "rowlock.", 2, &ts_err));
    uint64_t id = mysql_thread_id(victim);
    for (int i = 0; i < 2; i++) {
        assert_false(rl_pool_kill_query(&pool, &to[1], id, "", 1000000));
        assert_false(rl_pool_kill_query(&pool, &unknown, id, "", 1000000));
        assert_true(rl_pool_kill_query(&pool, &to[0], id, "", 1000000));
    }
    assert_true(rl_pool_reaches(&pool, &to[0]));
    assert_false(rl_pool_reaches(&pool, &to[1]));
    rl_pool_destroy(&pool, false);
    mysql_close(victim);
    forwarder_stop(here);
    forwarder_stop(there);
}

/* A client that comes another way than its caller's connection cannot stop it: still on time. */
static void test_a_caller_by_another_way(void **state)
{
    const char *name = ts_name("way");
    forwarder *f = forwarder_start();
    rowlock_client *client = open_through(f, "127.0.0.1");
    rowlock_hold *hold = ts_take(other, name, ROWLOCK_PESSIMISTIC, 30000);
    rowlock_tx_options wait = {.wait_ms = 300};
    MYSQL *own = ts_connect(ts_schema());
    (void)state;
    ts_sql(own, "BEGIN");
    int64_t start = ts_now_ms();
    WANT(TIMEOUT, rowlock_tx_acquire(client, own, name, &wait, &ts_err));
    assert_between(299, ts_now_ms() - start, 300 + ts_slack_ms());
    WANT(OK, rowlock_release(hold, &ts_err));
    WANT(OK, rowlock_tx_acquire(client, own, name, &wait, &ts_err));
    WANT(BUSY, ts_try(other, name, ROWLOCK_PESSIMISTIC));
    ts_sql(own, "ROLLBACK");
    mysql_close(own);
    rowlock_client_close(client);
    forwarder_stop(f);
}

/* ------------------------------------------------------------------------ option files */

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

/* A server may answer anything by asking for a file, if the client has said that it sends some. */
static void test_no_file_is_sent(void **state)
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
    (void)state;
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

/* A value that does not fit is damage, whatever an option file says about reporting it. */
static void test_a_widened_column(void **state)
{
    const char *schema = ts_extra_schema("widened", true);
    MYSQL *mysql = ts_connect(schema);
    rowlock_client_options options = ts_options();
    rowlock_client *client = NULL;
    rowlock_list *list = NULL;
    (void)state;
    options.schema = schema;
    options.defaults_file = option_file("report-data-truncation=0\n");
    WANT(OK, rowlock_client_open(&options, &client, &ts_err));
    rowlock_hold *hold = ts_take(client, "wide", ROWLOCK_OPTIMISTIC, 30000);
    ts_sql(mysql, "ALTER TABLE resource MODIFY owner_label VARCHAR(9000) NOT NULL");
    ts_sql(mysql, "UPDATE resource SET owner_label = REPEAT('x', 9000)");
    WANT(DAMAGED, rowlock_list_one(client, "wide", &list, &ts_err));
    assert_null(list);
    (void)rowlock_release(hold, NULL);
    rowlock_client_close(client);
    mysql_close(mysql);
    unlink(options.defaults_file);
}

/* ------------------------------------------------------------------------------- main */

static int begin(void **state)
{
    ts_suite_begin(state);
    other = ts_open();
    watch = ts_connect(ts_schema());
    return 0;
}

static int end(void **state)
{
    mysql_close(watch);
    rowlock_client_close(other);
    return ts_suite_end(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ONCE(test_a_slow_resolver_does_not_outlast_a_wait),
        ONCE(test_a_slow_resolver_and_a_cancel),
        ONCE(test_a_slow_resolver_does_not_hide_a_loss),
        ONCE(test_many_at_once),
        ONCE(test_a_name_that_is_nobodys),
        ONCE(test_a_new_socket_is_closed_by_exec),
        BOTH(test_a_child_without_descriptors),
        ONCE(test_a_connection_dies_in_the_pool),
        ONCE(test_a_foreign_kill_is_survived),
        ONCE(test_nothing_is_killed_at_another_server),
        ONCE(test_a_caller_by_another_way),
        ONCE(test_no_file_is_sent),
        ONCE(test_a_widened_column),
    };
    return cmocka_run_group_tests_name("connection", tests, begin, end);
}
