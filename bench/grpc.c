/* bench/grpc.c - see grpc.h. HTTP/2 is libnghttp2's; a call is one write and, when it does not
 * have to wait, one read. */
#include "grpc.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <nghttp2/nghttp2.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    PREFIX = 5,        /* bytes before a message: is it compressed, and its length */
    WINDOW = 16 << 20, /* so that flow control has nothing to say */
    OUTPUT_MAX = 8192, /* of one call, with what HTTP/2 has to say besides */
    NS_PER_MS = 1000000,
};

struct grpc_connection {
    int socket;
    char at[256];
    nghttp2_session *http;
    /* Of the call that is under way. */
    int32_t stream;
    const grpc_message *request;
    uint8_t answer[PREFIX + GRPC_MESSAGE_MAX];
    size_t answered;
    bool too_long;
    bool closed;
    char status[12]; /* "" until the server has said it; "0" is good */
    char text[200];
};

/* ----------------------------------------------------------- what nghttp2 asks for */

static ssize_t send_request(nghttp2_session *http, int32_t stream, uint8_t *to, size_t space,
                            uint32_t *flags, nghttp2_data_source *source, void *user)
{
    const grpc_message *request = ((grpc_connection *)user)->request;
    (void)http;
    (void)stream;
    (void)source;
    if (space < PREFIX + request->length)
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    to[0] = 0;
    for (int i = 1; i < PREFIX; i++)
        to[i] = (uint8_t)(request->length >> (8 * (PREFIX - 1 - i)));
    memcpy(to + PREFIX, request->byte, request->length);
    *flags |= NGHTTP2_DATA_FLAG_EOF;
    return (ssize_t)(PREFIX + request->length);
}

static int on_data(nghttp2_session *http, uint8_t flags, int32_t stream, const uint8_t *data,
                   size_t length, void *user)
{
    grpc_connection *connection = user;
    (void)http;
    (void)flags;
    if (stream != connection->stream)
        return 0; /* of a call that was cancelled */
    if (length > sizeof connection->answer - connection->answered) {
        connection->too_long = true;
        return 0;
    }
    memcpy(connection->answer + connection->answered, data, length);
    connection->answered += length;
    return 0;
}

static void keep(char *to, size_t size, const uint8_t *value, size_t length)
{
    snprintf(to, size, "%.*s", (int)length, (const char *)value);
}

static int on_header(nghttp2_session *http, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_length, const uint8_t *value, size_t length, uint8_t flags,
                     void *user)
{
    static const char STATUS[] = "grpc-status", TEXT[] = "grpc-message";
    grpc_connection *connection = user;
    (void)http;
    (void)flags;
    if (frame->hd.stream_id != connection->stream)
        return 0;
    if (name_length == sizeof STATUS - 1 && memcmp(name, STATUS, name_length) == 0)
        keep(connection->status, sizeof connection->status, value, length);
    if (name_length == sizeof TEXT - 1 && memcmp(name, TEXT, name_length) == 0)
        keep(connection->text, sizeof connection->text, value, length);
    return 0;
}

static int on_close(nghttp2_session *http, int32_t stream, uint32_t error, void *user)
{
    grpc_connection *connection = user;
    (void)http;
    (void)error; /* a call without its grpc-status has failed anyway */
    if (stream == connection->stream)
        connection->closed = true;
    return 0;
}

/* ------------------------------------------------------------------- the connection */

static int connect_socket(const char *at, measure_reason *why)
{
    char host[256];
    const char *colon = strrchr(at, ':');
    struct addrinfo *list = NULL;
    const struct addrinfo wanted = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    if (colon == NULL || (size_t)(colon - at) >= sizeof host) {
        measure_because(why, "'%s' is not HOST:PORT", at);
        return -1;
    }
    keep(host, sizeof host, (const uint8_t *)at, (size_t)(colon - at));
    const int failed = getaddrinfo(host, colon + 1, &wanted, &list);
    if (failed != 0) {
        measure_because(why, "%s: %s", at, gai_strerror(failed));
        return -1;
    }
    const int one = 1;
    const int fd = socket(list->ai_family, list->ai_socktype | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, list->ai_addr, list->ai_addrlen) != 0 ||
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) != 0) {
        measure_because(why, "%s: %s", at, strerror(errno));
        if (fd >= 0)
            close(fd);
        freeaddrinfo(list);
        return -1;
    }
    freeaddrinfo(list);
    return fd;
}

static bool start_http(grpc_connection *connection)
{
    const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, WINDOW},
    };
    nghttp2_session_callbacks *callbacks = NULL;
    if (nghttp2_session_callbacks_new(&callbacks) != 0)
        return false;
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
    const int failed = nghttp2_session_client_new(&connection->http, callbacks, connection);
    nghttp2_session_callbacks_del(callbacks);
    return failed == 0 &&
           nghttp2_submit_settings(connection->http, NGHTTP2_FLAG_NONE, settings,
                                   sizeof settings / sizeof *settings) == 0 &&
           nghttp2_session_set_local_window_size(connection->http, NGHTTP2_FLAG_NONE, 0, WINDOW) ==
               0;
}

grpc_connection *grpc_connect(const char *at, measure_reason *why)
{
    grpc_connection *connection = calloc(1, sizeof *connection);
    if (connection == NULL) {
        measure_because(why, "no memory");
        return NULL;
    }
    snprintf(connection->at, sizeof connection->at, "%s", at);
    connection->socket = connect_socket(at, why);
    if (connection->socket >= 0 && start_http(connection))
        return connection;
    if (connection->socket >= 0)
        measure_because(why, "no memory");
    grpc_disconnect(connection);
    return NULL;
}

void grpc_disconnect(grpc_connection *connection)
{
    if (connection == NULL)
        return;
    nghttp2_session_del(connection->http);
    if (connection->socket >= 0)
        close(connection->socket);
    free(connection);
}

/* ------------------------------------------------------------------ bytes out and in */

static bool write_all(grpc_connection *connection, const uint8_t *bytes, size_t length,
                      measure_reason *why)
{
    while (length > 0) {
        const ssize_t written = send(connection->socket, bytes, length, MSG_NOSIGNAL);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return measure_because(why, "%s: %s", connection->at, strerror(errno));
        bytes += written;
        length -= (size_t)written;
    }
    return true;
}

/* All that HTTP/2 has to say, frames of one call together in one write. */
static bool flush(grpc_connection *connection, measure_reason *why)
{
    uint8_t output[OUTPUT_MAX];
    size_t filled = 0;
    const uint8_t *frame = NULL;
    ssize_t length = 0;
    while ((length = nghttp2_session_mem_send(connection->http, &frame)) > 0) {
        if ((size_t)length > sizeof output - filled) {
            if (!write_all(connection, output, filled, why))
                return false;
            filled = 0;
        }
        if ((size_t)length > sizeof output)
            return measure_because(why, "%s: an HTTP/2 frame of %zd bytes", connection->at, length);
        memcpy(output + filled, frame, (size_t)length);
        filled += (size_t)length;
    }
    if (length < 0)
        return measure_because(why, "%s: %s", connection->at, nghttp2_strerror((int)length));
    return write_all(connection, output, filled, why);
}

/* 1: something can be read; 0: not in time; -1: failed. */
static int readable(const grpc_connection *connection, int64_t end_ns, measure_reason *why)
{
    for (;;) {
        const int64_t left_ms = (end_ns - measure_now_ns() + NS_PER_MS - 1) / NS_PER_MS;
        struct pollfd socket = {.fd = connection->socket, .events = POLLIN};
        const int ready =
            left_ms > 0 ? poll(&socket, 1, left_ms > 60000 ? 60000 : (int)left_ms) : 0;
        if (ready > 0)
            return 1;
        if (ready < 0 && errno != EINTR) {
            measure_because(why, "%s: poll: %s", connection->at, strerror(errno));
            return -1;
        }
        if (left_ms <= 0)
            return 0;
    }
}

static bool take_input(grpc_connection *connection, measure_reason *why)
{
    uint8_t input[OUTPUT_MAX];
    const ssize_t length = recv(connection->socket, input, sizeof input, 0);
    if (length < 0)
        return errno == EINTR || measure_because(why, "%s: %s", connection->at, strerror(errno));
    if (length == 0)
        return measure_because(why, "%s: the server has closed the connection", connection->at);
    const ssize_t taken = nghttp2_session_mem_recv(connection->http, input, (size_t)length);
    return taken == length ||
           measure_because(why, "%s: %s", connection->at, nghttp2_strerror((int)taken));
}

/* ---------------------------------------------------------------------------- a call */

static nghttp2_nv header(const char *name, const char *value)
{
    /* nghttp2 takes pointers to what is not const and copies it. */
    union {
        const char *given;
        uint8_t *wanted;
    } n = {.given = name}, v = {.given = value};
    return (nghttp2_nv){n.wanted, v.wanted, strlen(name), strlen(value), NGHTTP2_NV_FLAG_NONE};
}

static bool submit(grpc_connection *connection, const char *method, const grpc_message *request,
                   measure_reason *why)
{
    const nghttp2_nv headers[] = {
        header(":method", "POST"),
        header(":scheme", "http"),
        header(":path", method),
        header(":authority", connection->at),
        header("te", "trailers"),
        header("content-type", "application/grpc"),
        header("user-agent", "rowlock-bench"),
    };
    const nghttp2_data_provider provider = {.read_callback = send_request};
    connection->request = request;
    connection->answered = 0;
    connection->too_long = false;
    connection->closed = false;
    connection->status[0] = '\0';
    connection->text[0] = '\0';
    connection->stream = nghttp2_submit_request(connection->http, NULL, headers,
                                                sizeof headers / sizeof *headers, &provider, NULL);
    return connection->stream >= 0 ||
           measure_because(why, "%s: %s", connection->at, nghttp2_strerror(connection->stream));
}

/* Not in time: the server learns that nobody waits any more. */
static bool cancel(grpc_connection *connection, const char *method, measure_reason *why)
{
    nghttp2_submit_rst_stream(connection->http, NGHTTP2_FLAG_NONE, connection->stream,
                              NGHTTP2_CANCEL);
    return flush(connection, why) &&
           measure_because(why, "%s: %s: no answer in time", connection->at, method);
}

static bool take_answer(const grpc_connection *connection, const char *method, grpc_message *answer,
                        measure_reason *why)
{
    if (strcmp(connection->status, "0") != 0)
        return measure_because(why, "%s: %s: gRPC status '%s' %s", connection->at, method,
                               connection->status, connection->text);
    if (connection->too_long || connection->answered < PREFIX || connection->answer[0] != 0)
        return measure_because(why, "%s: %s: an answer of another form", connection->at, method);
    answer->length = connection->answered - PREFIX;
    memcpy(answer->byte, connection->answer + PREFIX, answer->length);
    return true;
}

bool grpc_call(grpc_connection *connection, const char *method, const grpc_message *request,
               grpc_message *answer, int64_t end_ns, measure_reason *why)
{
    if (!submit(connection, method, request, why))
        return false;
    while (!connection->closed) {
        if (!flush(connection, why))
            return false;
        const int ready = readable(connection, end_ns, why);
        if (ready < 0)
            return false;
        if (ready == 0)
            return cancel(connection, method, why);
        if (!take_input(connection, why))
            return false;
    }
    /* What HTTP/2 has to acknowledge goes out with the next call. */
    return take_answer(connection, method, answer, why);
}
