/*
 * What the client sends while it connects to a false server: to one that offers no TLS though it is
 * required, to one that asks for the plain password, to one that never ends the handshake. And that
 * OpenSSL neither blocks the program nor sends it SIGPIPE.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "db/conn.h"
#include "support/own_server.h"

#define PASSWORD    "Geheim-0815"
#define FINGERPRINT "0123456789012345678901234567890123456789"

static struct {
    int listener;
    unsigned port;
    bool offers_tls;
    const char *wants; /* the login plugin that it asks for; NULL: it says nothing more */
    const char *file;  /* every client is let in, and each statement answered by asking for it */
    pthread_t thread;
    int stop[2];
    /* what the client sent */
    char got[4096];
    size_t size;
} impostor;

static size_t put(char *to, const char *bytes, size_t size)
{
    memcpy(to, bytes, size);
    return size;
}

static void send_packet(int fd, unsigned char sequence, const char *payload, size_t size)
{
    char packet[300] = {(char)size, (char)(size >> 8), 0, (char)sequence};
    memcpy(packet + 4, payload, size);
    ssize_t ignored = send(fd, packet, size + 4, MSG_NOSIGNAL);
    (void)ignored;
}

static void greet(int fd)
{
    unsigned can = 0x1 | 0x2 | 0x8 | 0x200 | 0x2000 | 0x8000 | 0x80000;
    can |= impostor.offers_tls ? CLIENT_SSL : 0;
    const char low[2] = {(char)can, (char)(can >> 8)};
    const char high[2] = {(char)(can >> 16), (char)(can >> 24)};
    char hello[200];
    size_t at = put(hello,
                    "\x0a"
                    "5.5.5-10.11.0-MariaDB\0"
                    "\1\0\0\0"
                    "abcdefgh\0",
                    1 + 22 + 4 + 9);
    at += put(hello + at, low, 2);
    at += put(hello + at, "\x2d\2\0", 3);
    at += put(hello + at, high, 2);
    at += put(hello + at, "\x15\0\0\0\0\0\0\0\0\0\0", 11);
    at += put(hello + at, "ijklmnopqrst\0mysql_native_password\0", 13 + 22);
    send_packet(fd, 0, hello, at);
}

static void ask(int fd)
{
    char wish[100] = "\xfe";
    size_t at = 1;
    at += put(wish + at, impostor.wants, strlen(impostor.wants) + 1);
    at += put(wish + at, "abcdefghijklmnopqrst", 21);
    send_packet(fd, 2, wish, at);
}

static void ask_for_file(int fd, bool let_in)
{
    char wish[200] = "\xfb";
    size_t size = 1 + put(wish + 1, impostor.file, strlen(impostor.file));
    if (let_in)
        send_packet(fd, 1, wish, size);
    else
        send_packet(fd, 2, "\0\0\0\2\0\0", 7);
}

/* Waits for input; false: the impostor is to end. */
static bool readable(int fd)
{
    struct pollfd fds[] = {{.fd = fd, .events = POLLIN},
                           {.fd = impostor.stop[0], .events = POLLIN}};
    return poll(fds, 2, -1) > 0 && !fds[1].revents;
}

static void serve(int fd)
{
    int asked = 0;
    greet(fd);
    while (readable(fd) && impostor.size < sizeof impostor.got) {
        ssize_t n = recv(fd, impostor.got + impostor.size, sizeof impostor.got - impostor.size, 0);
        if (n <= 0)
            break;
        impostor.size += (size_t)n;
        if (impostor.file)
            ask_for_file(fd, asked > 0);
        else if (impostor.wants && !asked)
            ask(fd);
        asked++;
    }
    close(fd);
}

static void *stand(void *arg)
{
    (void)arg;
    while (readable(impostor.listener))
        serve(accept(impostor.listener, NULL, NULL));
    return NULL;
}

static void impostor_start(bool offers_tls, const char *wants)
{
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof here;
    impostor.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(impostor.listener, (struct sockaddr *)&here, size), 0);
    assert_int_equal(listen(impostor.listener, 8), 0);
    assert_int_equal(getsockname(impostor.listener, (struct sockaddr *)&here, &size), 0);
    assert_int_equal(pipe(impostor.stop), 0);
    impostor.port = ntohs(here.sin_port);
    impostor.offers_tls = offers_tls;
    impostor.wants = wants;
    impostor.size = 0;
    memset(impostor.got, 0, sizeof impostor.got);
    assert_int_equal(pthread_create(&impostor.thread, NULL, stand, NULL), 0);
}

static void impostor_end(void)
{
    close(impostor.stop[1]);
    pthread_join(impostor.thread, NULL);
    close(impostor.stop[0]);
    close(impostor.listener);
}

static bool was_sent(const char *text)
{
    return memmem(impostor.got, impostor.size, text, strlen(text)) != NULL;
}

static rowlock_status knock(const rowlock_tls_options *tls, const char *defaults_file,
                            int64_t within_ms)
{
    rowlock_client *none = NULL;
    const rowlock_client_options options = {.host = "127.0.0.1",
                                            .port = impostor.port,
                                            .user = "batch",
                                            .password = PASSWORD,
                                            .defaults_file = defaults_file,
                                            .connect_timeout_ms = within_ms,
                                            .tls = tls};
    return rowlock_client_open(&options, &none, &ts_err);
}

/* A server without TLS is not told a byte. */
static void want_silence(const rowlock_tls_options *tls, const char *defaults_file)
{
    impostor_start(false, NULL);
    WANT(UNAVAILABLE, knock(tls, defaults_file, 10000));
    impostor_end();
    assert_non_null(strstr(ts_err.message, "the server offers no TLS"));
    assert_int_equal(impostor.size, 0);
}

static const char *file_with(const char *text)
{
    static char path[200];
    const char *base = getenv("TMPDIR");
    snprintf(path, sizeof path, "%s/rowlock-impostor.XXXXXX", base && *base ? base : "/tmp");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
    return path;
}

TS_ONCE(test_no_tls_gets_nothing)
{
    const char *ca = file_with(""); /* any file will do: the handshake never gets so far */
    const rowlock_tls_options strict[] = {
        {.mode = ROWLOCK_TLS_REQUIRED},        {.mode = ROWLOCK_TLS_VERIFY_CA, .ca = ca},
        {.mode = ROWLOCK_TLS_VERIFY_IDENTITY}, {.ca = ca},
        {.fingerprint = FINGERPRINT},
    };
    for (size_t i = 0; i < sizeof strict / sizeof strict[0]; i++)
        want_silence(&strict[i], NULL);
    unlink(ca);
}

/* Connector/C alone would treat the TLS settings of an option file as optional. */
TS_ONCE(test_an_option_file_means_it)
{
    static const char *const lines[] = {"ssl-ca=/dev/null", "ssl-verify-server-cert=1",
                                        "ssl-enforce=1", ("tls-fp=" FINGERPRINT)};
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        char text[100];
        snprintf(text, sizeof text, "[client]\n%s\n", lines[i]);
        const char *file = file_with(text);
        want_silence(NULL, file);
        unlink(file);
    }
}

TS_ONCE(test_no_bare_password)
{
    static const char *const ways[] = {"mysql_clear_password", "dialog", "mysql_old_password", ""};
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        impostor_start(false, ways[i]);
        rowlock_status status = knock(NULL, NULL, 10000);
        impostor_end();
        assert_true(was_sent("batch")); /* the login began */
        assert_false(was_sent(PASSWORD));
        if (*ways[i]) {
            assert_int_equal(status, ROWLOCK_DENIED);
            assert_non_null(strstr(ts_err.message, "password as it is"));
            assert_null(ts_error_flaw(status, &ts_err));
        }
    }
}

/* A server may answer any statement by asking for a file (LOAD DATA LOCAL), whatever the client has
 * said that it can; here the option file allows it. */
TS_ONCE(test_no_file_is_sent)
{
    const char *file = file_with("[client]\nlocal-infile=1\n# the-secret-of-a-file\n");
    impostor.file = file;
    impostor_start(false, NULL);
    assert_int_not_equal(knock(NULL, file, 10000), ROWLOCK_OK);
    impostor_end();
    impostor.file = NULL;
    assert_true(was_sent("SET SESSION")); /* the client was let in */
    assert_false(was_sent("the-secret-of-a-file"));
    unlink(file);
}

/* By default TLS is used where it is offered: before it, the client sends only the request for
 * TLS. */
TS_ONCE(test_a_listener_hears_no_login)
{
    impostor_start(true, NULL);
    int64_t start = ts_now_ms();
    WANT(UNAVAILABLE, knock(NULL, NULL, 3000));
    assert_between(2950, ts_now_ms() - start, 13000); /* the client gave up by itself */
    impostor_end();
    assert_true(impostor.size > 32);
    assert_false(was_sent("batch"));
}

static char certificates[64];

static int begin_tls_server(TS_NO_STATE)
{
    char command[500];
    char options[400];
    snprintf(certificates, sizeof certificates, "/tmp/rowlock-certificates.XXXXXX");
    if (!mkdtemp(certificates) || chmod(certificates, 0755) != 0)
        return 1;
    snprintf(command, sizeof command, "'%s' '%s'", ROWLOCK_CERTIFICATES, certificates);
    if (system(command) != 0)
        return 1;
    snprintf(options, sizeof options,
             "--ssl-ca=%s/right.pem --ssl-cert=%s/server.pem --ssl-key=%s/server.key", certificates,
             certificates, certificates);
    ts_own_start_with(options);
    return 0;
}

static int end_tls_server(TS_NO_STATE)
{
    char command[100];
    ts_own_remove();
    snprintf(command, sizeof command, "rm -rf '%s'", certificates);
    return system(command);
}

static rl_io within_ms(int64_t ms)
{
    return rl_io_until(rl_time_add(rl_now_us(), ms * 1000));
}

static rl_conn *encrypted(void)
{
    char socket[200];
    char user[] = "root";
    snprintf(socket, sizeof socket, "%s", ts_socket());
    const rl_params params = {.socket = socket,
                              .user = user,
                              .connect_timeout_ms = 10000,
                              .tls = {.mode = ROWLOCK_TLS_REQUIRED}};
    const rl_io io = within_ms(10000);
    rl_conn *conn = NULL;
    WANT(OK, rl_conn_open(&params, &io, &conn, &ts_err));
    assert_true(conn->tls);
    return conn;
}

TS_ONCE(test_no_sigpipe)
{
    sigset_t before, after, pending;
    signal(SIGPIPE, SIG_DFL);
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    rl_conn *conn = encrypted();
    const rl_io io = within_ms(10000);
    WANT(OK, rl_conn_ping(conn, &io, &ts_err));
    shutdown(rl_conn_fd(conn), SHUT_RDWR);
    assert_int_not_equal(rl_conn_command(conn, "test", "DO 1", &io, &ts_err), ROWLOCK_OK);
    rl_conn_close(conn);
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    sigpending(&pending);
    assert_int_equal(sigismember(&after, SIGPIPE), sigismember(&before, SIGPIPE));
    assert_int_equal(sigismember(&pending, SIGPIPE), 0);
}

/* A SIGPIPE that was pending before the call stays pending: it is the program's. */
TS_ONCE(test_anothers_sigpipe)
{
    sigset_t sigpipe, was, pending;
    sigemptyset(&sigpipe);
    sigaddset(&sigpipe, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &sigpipe, &was);
    pthread_kill(pthread_self(), SIGPIPE);
    rl_conn *conn = encrypted();
    const rl_io io = within_ms(10000);
    WANT(OK, rl_conn_ping(conn, &io, &ts_err));
    rl_conn_close(conn);
    sigpending(&pending);
    assert_int_equal(sigismember(&pending, SIGPIPE), 1);
    const struct timespec now = {0};
    assert_int_equal(sigtimedwait(&sigpipe, NULL, &now), SIGPIPE);
    pthread_sigmask(SIG_SETMASK, &was, NULL);
}

/* A connection that ended badly leaves errors in this thread's OpenSSL queue: another connection
 * must not take them for its own. */
TS_ONCE(test_one_end_is_not_everyones)
{
    rl_conn *good = encrypted();
    for (int i = 0; i < 3; i++) {
        rl_conn *bad = encrypted();
        const rl_io io = within_ms(10000);
        shutdown(rl_conn_fd(bad), SHUT_RD);
        assert_int_not_equal(rl_conn_command(bad, "test", "DO 1", &io, &ts_err), ROWLOCK_OK);
        WANT(OK, rl_conn_command(good, "test", "DO 1", &io, &ts_err));
        rl_conn_close(bad);
        WANT(OK, rl_conn_command(good, "test", "DO 1", &io, &ts_err));
    }
    rl_conn_close(good);
}

int main(void)
{
    ts_secret(PASSWORD);
    return ts_run("impostor", begin_tls_server, end_tls_server);
}
