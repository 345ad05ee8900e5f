#include "proxy.h"
#include "named.h"

#include <fcntl.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>

#define LINKS_MAX      300
#define STATEMENTS_MAX 64
#define NAMES_SIZE     512
#define CHUNK          65536
#define DRIBBLE_NS     20000 /* between two checks that a byte was read */

enum { WAYS = TS_DOWN + 1 };

typedef struct bytes {
    char *data;
    size_t length;
    size_t capacity;
} bytes;

typedef struct statement {
    uint32_t id;
    bytes text;
} statement;

/* Data on its way, or (length 0) the end of the connection. */
typedef struct piece {
    struct piece *next;
    int64_t due_ms;
    size_t length;
    size_t sent;
    char data[];
} piece;

typedef struct tunnel {
    int client; /* -1: this slot is free */
    int server;
    piece *first[WAYS];
    piece *last[WAYS];
    bool ended[WAYS]; /* that side has closed the connection */
    bytes up;         /* from the client, not yet a whole packet */
    bytes down;       /* held back from the client */
    bytes preparing;  /* a statement's text, whose id is in the next reply */
    statement statements[STATEMENTS_MAX];
    unsigned statement_count;
    bool swallow; /* the next reply is dropped, and the connection ends */
    bool hold;    /* replies are held back */
    bool delay;   /* data from the client is held back */
} tunnel;

struct ts_proxy {
    char path[108];
    char server[108];
    int listener;
    int wake;
    pthread_t thread;
    pthread_mutex_t mutex; /* guards the members below */
    bool stop;
    bool refuse;
    bool stall;
    bool cut;
    bool armed;
    bool fired;
    ts_fault fault;
    char names[NAMES_SIZE]; /* "": any */
    unsigned nth;
    bool then_refuse;
    unsigned commands;
    unsigned answers; /* so many commands get this error from us */
    unsigned answer;
    char answered[NAMES_SIZE];
    int64_t delay_ms[WAYS];
    bool dribble;
    uint64_t bytes[WAYS];
    bool cut_armed[WAYS];
    uint64_t cut_at[WAYS];
    tunnel links[LINKS_MAX];
};

/* ---------------------------------------------------------------------------- bytes */

static void append(bytes *b, const char *data, size_t length)
{
    if (b->length + length > b->capacity) {
        b->capacity = (b->length + length) * 2;
        b->data = realloc(b->data, b->capacity);
    }
    memcpy(b->data + b->length, data, length);
    b->length += length;
}

static void drop_front(bytes *b, size_t length)
{
    memmove(b->data, b->data + length, b->length - length);
    b->length -= length;
}

static bool send_all(int fd, const char *data, size_t length)
{
    while (length > 0) {
        ssize_t n = send(fd, data, length, MSG_NOSIGNAL);
        if (n <= 0)
            return false;
        data += n;
        length -= (size_t)n;
    }
    return true;
}

/* ---------------------------------------------------------------------- connections */

static void drop_piece(tunnel *link, int way)
{
    piece *gone = link->first[way];
    link->first[way] = gone->next;
    if (!gone->next)
        link->last[way] = NULL;
    free(gone);
}

static void end_link(ts_proxy *proxy, tunnel *link)
{
    if (link->client < 0)
        return;
    proxy->fired |= link->swallow; /* the reply has come, or the client has given up */
    close(link->client);
    close(link->server);
    free(link->up.data);
    free(link->down.data);
    free(link->preparing.data);
    for (unsigned i = 0; i < link->statement_count; i++)
        free(link->statements[i].text.data);
    for (int way = 0; way < WAYS; way++)
        while (link->first[way])
            drop_piece(link, way);
    *link = (tunnel){.client = -1, .server = -1};
}

static int connect_to(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static void accept_one(ts_proxy *proxy)
{
    int client = accept4(proxy->listener, NULL, NULL, SOCK_CLOEXEC);
    if (client < 0)
        return;
    int server = proxy->refuse ? -1 : connect_to(proxy->server);
    for (int i = 0; server >= 0 && i < LINKS_MAX; i++) {
        if (proxy->links[i].client < 0) {
            proxy->links[i] = (tunnel){.client = client, .server = server};
            return;
        }
    }
    close(client);
    if (server >= 0)
        close(server);
}

/* ------------------------------------------------------------------------- the flow */

/* The last step: counts the bytes, and cuts the connection if that was asked for. */
static bool deliver(ts_proxy *proxy, tunnel *link, ts_way way, const char *data, size_t length)
{
    int to = way == TS_UP ? link->server : link->client;
    bool cut = proxy->cut_armed[way] && proxy->bytes[way] + length >= proxy->cut_at[way];
    if (cut) {
        length = (size_t)(proxy->cut_at[way] - proxy->bytes[way]);
        proxy->cut_armed[way] = false;
        proxy->fired = true;
        proxy->refuse |= proxy->then_refuse;
        proxy->cut |= proxy->then_refuse;
    }
    proxy->bytes[way] += length;
    return send_all(to, data, length) && !cut;
}

/* The other side has read everything. */
static bool taken(const tunnel *link, int way)
{
    int unread = 0;
    return ioctl(way == TS_UP ? link->server : link->client, SIOCOUTQ, &unread) != 0 || unread == 0;
}

/* Sends the data that is due. False: the connection has ended. */
static bool pump(ts_proxy *proxy, tunnel *link, int way)
{
    for (piece *p; (p = link->first[way]) != NULL && p->due_ms <= ts_now_ms();) {
        if (p->length == 0)
            return false;
        if (proxy->dribble && !taken(link, way))
            break;
        size_t length = proxy->dribble ? 1 : p->length - p->sent;
        if (!deliver(proxy, link, (ts_way)way, p->data + p->sent, length))
            return false;
        p->sent += length;
        if (p->sent == p->length)
            drop_piece(link, way);
    }
    return true;
}

/* Queues data; length 0: the end. */
static bool forward(ts_proxy *proxy, tunnel *link, ts_way way, const char *data, size_t length)
{
    if (!link->first[way] && proxy->delay_ms[way] == 0 && !proxy->dribble)
        return length > 0 && deliver(proxy, link, way, data, length);
    piece *p = calloc(1, sizeof *p + length);
    if (!p)
        return false;
    if (length > 0)
        memcpy(p->data, data, length);
    p->length = length;
    p->due_ms = ts_now_ms() + proxy->delay_ms[way];
    if (link->last[way])
        link->last[way]->next = p;
    else
        link->first[way] = p;
    link->last[way] = p;
    return pump(proxy, link, way);
}

/* How long the thread may wait for events; < 0: for ever. */
static int64_t idle_ns(const ts_proxy *proxy)
{
    int64_t due_ms = INT64_MAX;
    for (int i = 0; i < LINKS_MAX && !proxy->stall; i++)
        for (int way = 0; way < WAYS && proxy->links[i].client >= 0; way++)
            if (proxy->links[i].first[way] && proxy->links[i].first[way]->due_ms < due_ms)
                due_ms = proxy->links[i].first[way]->due_ms;
    if (due_ms == INT64_MAX)
        return -1;
    int64_t left_ms = due_ms - ts_now_ms();
    return left_ms > 0 ? left_ms * 1000000 : DRIBBLE_NS;
}

/* ------------------------------------------------------------------------- commands */

static uint32_t u32(const unsigned char *p)
{
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* The text of the statement that a command runs; length 0: it runs none (a ping). */
static bytes text_of(tunnel *link, char *packet, size_t length)
{
    if (length < 1)
        return (bytes){0};
    if (packet[0] == COM_QUERY)
        return (bytes){.data = packet + 1, .length = length - 1};
    if (packet[0] == COM_STMT_PREPARE) {
        link->preparing.length = 0;
        append(&link->preparing, packet + 1, length - 1);
    }
    if (packet[0] == COM_STMT_EXECUTE && length >= 5)
        for (unsigned i = 0; i < link->statement_count; i++)
            if (link->statements[i].id == u32((const unsigned char *)packet + 1))
                return link->statements[i].text;
    return (bytes){0};
}

static bool is_one_of(const char *names, const bytes *text)
{
    return text->length > 0 && (!*names || ts_named_is(names, text->data, text->length));
}

static bool matches(ts_proxy *proxy, const bytes *text)
{
    if (!proxy->armed || (*proxy->names && !is_one_of(proxy->names, text)) || --proxy->nth > 0)
        return false;
    proxy->armed = false;
    proxy->fired = proxy->fault != TS_LOSE_REPLY;
    proxy->refuse |= proxy->then_refuse;
    return true;
}

static bool answer_nothing_done(ts_proxy *proxy, tunnel *link)
{
    /* OK, with 0 rows, no LAST_INSERT_ID, autocommit, no warnings */
    static const char packet[] = {7, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0};
    proxy->answers--;
    return forward(proxy, link, TS_DOWN, packet, sizeof packet);
}

/* With the words that tell a stopped UPDATE from others that MySQL gives the number 1105. */
static bool answer_error(ts_proxy *proxy, tunnel *link)
{
    static const char text[] = "\0\0\0\1\377\0\0#40001forced by the test's proxy: "
                               "An error occurred in multi-table update";
    char packet[sizeof text - 1];
    memcpy(packet, text, sizeof packet);
    packet[0] = sizeof packet - 4;
    packet[5] = (char)(proxy->answer & 255);
    packet[6] = (char)(proxy->answer >> 8);
    proxy->answers--;
    return forward(proxy, link, TS_DOWN, packet, sizeof packet);
}

/* Handles one command of the client; it stays in `up` if link->delay is set. False: the connection
 * has ended. */
static bool pass_command(ts_proxy *proxy, tunnel *link, char *packet, size_t length)
{
    bool command = packet[3] == 0; /* sequence 0: not a part of the login */
    bytes text = text_of(link, packet + 4, command ? length - 4 : 0);
    if (command && packet[4] != COM_QUIT) {
        proxy->commands++;
        if (proxy->answers > 0 && is_one_of(proxy->answered, &text))
            return proxy->answer ? answer_error(proxy, link) : answer_nothing_done(proxy, link);
        if (matches(proxy, &text)) {
            if (proxy->fault == TS_LOSE_COMMAND) {
                proxy->cut |= proxy->refuse;
                return false;
            }
            link->swallow = proxy->fault == TS_LOSE_REPLY;
            link->hold = proxy->fault == TS_STALL_REPLY;
            link->delay = proxy->fault == TS_DELAY_COMMAND;
            proxy->cut |= link->delay && proxy->refuse;
        }
    }
    return link->delay || forward(proxy, link, TS_UP, packet, length);
}

static bool pass_commands(ts_proxy *proxy, tunnel *link)
{
    while (link->up.length >= 4 && !link->delay) {
        const unsigned char *head = (const unsigned char *)link->up.data;
        size_t length = 4 + (head[0] | (size_t)head[1] << 8 | (size_t)head[2] << 16);
        if (link->up.length < length)
            break;
        if (!pass_command(proxy, link, link->up.data, length))
            return false;
        if (!link->delay)
            drop_front(&link->up, length);
    }
    return true;
}

static bool from_client(ts_proxy *proxy, tunnel *link)
{
    char chunk[CHUNK];
    ssize_t n = recv(link->client, chunk, sizeof chunk, 0);
    if (n <= 0) {
        link->ended[TS_UP] = true;
        return forward(proxy, link, TS_UP, NULL, 0);
    }
    append(&link->up, chunk, (size_t)n);
    return pass_commands(proxy, link);
}

/* Reads the statement's id from the reply to a PREPARE. */
static void learn(tunnel *link, const char *reply, size_t length)
{
    if (link->preparing.length == 0 || length < 9)
        return;
    if (reply[4] == 0 && link->statement_count < STATEMENTS_MAX) {
        statement *s = &link->statements[link->statement_count++];
        s->id = u32((const unsigned char *)reply + 5);
        append(&s->text, link->preparing.data, link->preparing.length);
    }
    link->preparing.length = 0;
}

static bool from_server(ts_proxy *proxy, tunnel *link)
{
    char chunk[CHUNK];
    ssize_t n = recv(link->server, chunk, sizeof chunk, 0);
    if (link->swallow) {
        proxy->cut |= proxy->refuse;
        return false;
    }
    if (n <= 0) {
        link->ended[TS_DOWN] = true;
        return forward(proxy, link, TS_DOWN, NULL, 0);
    }
    learn(link, chunk, (size_t)n);
    if (link->hold) {
        append(&link->down, chunk, (size_t)n);
        return true;
    }
    return forward(proxy, link, TS_DOWN, chunk, (size_t)n);
}

/* ---------------------------------------------------------------------- the thread */

static void serve_links(ts_proxy *proxy, const struct pollfd *fds)
{
    for (int i = 0; i < LINKS_MAX; i++) {
        tunnel *link = &proxy->links[i];
        bool good = !proxy->cut || link->delay;
        bool flows = link->client >= 0 && !proxy->stall; /* stalled since the poll? */
        if (good && flows && fds[2 * i].fd == link->client && fds[2 * i].revents)
            good = from_client(proxy, link);
        if (good && flows && fds[2 * i + 1].fd == link->server && fds[2 * i + 1].revents)
            good = from_server(proxy, link);
        if (!good)
            end_link(proxy, link);
    }
    for (int i = 0; proxy->cut && i < LINKS_MAX; i++)
        if (!proxy->links[i].delay)
            end_link(proxy, &proxy->links[i]);
    proxy->cut = false;
}

static void release_held(ts_proxy *proxy)
{
    for (int i = 0; i < LINKS_MAX; i++) {
        tunnel *link = &proxy->links[i];
        if (link->client < 0)
            continue;
        bool good = true;
        if (!link->hold && link->down.length > 0) {
            good = forward(proxy, link, TS_DOWN, link->down.data, link->down.length);
            link->down.length = 0;
        }
        if (!good || !pass_commands(proxy, link))
            end_link(proxy, link);
    }
}

static void pump_links(ts_proxy *proxy)
{
    for (int i = 0; i < LINKS_MAX && !proxy->stall; i++) {
        tunnel *link = &proxy->links[i];
        bool good = true;
        for (int way = 0; way < WAYS && good && link->client >= 0; way++)
            good = pump(proxy, link, way);
        if (!good)
            end_link(proxy, link);
    }
}

static void watch(const ts_proxy *proxy, struct pollfd *fds)
{
    for (int i = 0; i < LINKS_MAX; i++) {
        const tunnel *link = &proxy->links[i];
        bool deaf_up = proxy->stall || link->delay || link->ended[TS_UP];
        bool deaf_down = proxy->stall || link->ended[TS_DOWN];
        fds[2 * i] = (struct pollfd){.fd = deaf_up ? -1 : link->client, .events = POLLIN};
        fds[2 * i + 1] = (struct pollfd){.fd = deaf_down ? -1 : link->server, .events = POLLIN};
    }
    fds[2 * LINKS_MAX] =
        (struct pollfd){.fd = proxy->stall ? -1 : proxy->listener, .events = POLLIN};
    fds[2 * LINKS_MAX + 1] = (struct pollfd){.fd = proxy->wake, .events = POLLIN};
}

static void *run(void *arg)
{
    ts_proxy *proxy = arg;
    static _Thread_local struct pollfd fds[2 * LINKS_MAX + 2];
    pthread_mutex_lock(&proxy->mutex);
    while (!proxy->stop) {
        watch(proxy, fds);
        int64_t ns = idle_ns(proxy);
        struct timespec idle = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
        pthread_mutex_unlock(&proxy->mutex);
        /* If it was interrupted, it has filled in nothing. */
        while (ppoll(fds, 2 * LINKS_MAX + 2, ns < 0 ? NULL : &idle, NULL) < 0 && errno == EINTR)
            continue;
        pthread_mutex_lock(&proxy->mutex);
        eventfd_t ignored;
        if (fds[2 * LINKS_MAX + 1].revents)
            eventfd_read(proxy->wake, &ignored);
        release_held(proxy);
        pump_links(proxy);
        serve_links(proxy, fds); /* last, since it may close the others' connections */
        if (fds[2 * LINKS_MAX].revents)
            accept_one(proxy);
    }
    for (int i = 0; i < LINKS_MAX; i++)
        end_link(proxy, &proxy->links[i]);
    pthread_mutex_unlock(&proxy->mutex);
    return NULL;
}

ts_proxy *ts_proxy_start(const char *server)
{
    static unsigned count;
    ts_proxy *proxy = calloc(1, sizeof *proxy);
    assert_non_null(proxy);
    snprintf(proxy->server, sizeof proxy->server, "%s", server);
    snprintf(proxy->path, sizeof proxy->path, "/tmp/rl-proxy-%d-%u", (int)getpid(), count++);
    for (int i = 0; i < LINKS_MAX; i++)
        proxy->links[i].client = proxy->links[i].server = -1;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path, proxy->path, sizeof address.sun_path);
    unlink(proxy->path);
    proxy->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    proxy->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    assert_int_equal(bind(proxy->listener, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(proxy->listener, 100), 0);
    pthread_mutex_init(&proxy->mutex, NULL);
    assert_int_equal(pthread_create(&proxy->thread, NULL, run, proxy), 0);
    return proxy;
}

const char *ts_proxy_socket(const ts_proxy *proxy)
{
    return proxy->path;
}

MYSQL *ts_proxy_connect(const ts_proxy *proxy)
{
    MYSQL *mysql = mysql_init(NULL);
    assert_non_null(mysql_real_connect(mysql, NULL, "root", NULL, ts_schema(), 0, proxy->path, 0));
    return mysql;
}

unsigned ts_proxy_port(ts_proxy *proxy)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(listener, 100), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &size), 0);
    assert_int_equal(dup3(listener, proxy->listener, O_CLOEXEC), proxy->listener);
    close(listener);
    eventfd_write(proxy->wake, 1);
    return ntohs(address.sin_port);
}

static void change(ts_proxy *proxy)
{
    eventfd_write(proxy->wake, 1);
    pthread_mutex_unlock(&proxy->mutex);
}

void ts_proxy_stop(ts_proxy *proxy)
{
    pthread_mutex_lock(&proxy->mutex);
    proxy->stop = true;
    change(proxy);
    pthread_join(proxy->thread, NULL);
    close(proxy->listener);
    close(proxy->wake);
    unlink(proxy->path);
    pthread_mutex_destroy(&proxy->mutex);
    free(proxy);
}

/* Checks the names before the mutex is locked, since a failing check leaves the function. */
static const char *checked(const char *names)
{
    if (!names)
        return "";
    ts_named_check(names);
    assert_in_range(strlen(names), 0, NAMES_SIZE - 1);
    return names;
}

void ts_proxy_arm(ts_proxy *proxy, ts_fault fault, const char *names, unsigned nth,
                  bool then_refuse)
{
    names = checked(names);
    pthread_mutex_lock(&proxy->mutex);
    proxy->armed = true;
    proxy->fired = false;
    proxy->fault = fault;
    snprintf(proxy->names, NAMES_SIZE, "%s", names);
    proxy->nth = nth;
    proxy->then_refuse = then_refuse;
    change(proxy);
}

void ts_proxy_answer(ts_proxy *proxy, unsigned number, const char *names, unsigned times)
{
    names = checked(names);
    pthread_mutex_lock(&proxy->mutex);
    proxy->answers = times;
    proxy->answer = number;
    snprintf(proxy->answered, NAMES_SIZE, "%s", names);
    change(proxy);
}

#define LOCKED(proxy, what)                                                                        \
    __extension__({                                                                                \
        pthread_mutex_lock(&(proxy)->mutex);                                                       \
        __typeof__((proxy)->what) what_ = (proxy)->what;                                           \
        pthread_mutex_unlock(&(proxy)->mutex);                                                     \
        what_;                                                                                     \
    })

unsigned ts_proxy_answers_left(ts_proxy *proxy)
{
    return LOCKED(proxy, answers);
}

bool ts_proxy_fired(ts_proxy *proxy)
{
    return LOCKED(proxy, fired);
}

unsigned ts_proxy_commands(ts_proxy *proxy)
{
    return LOCKED(proxy, commands);
}

uint64_t ts_proxy_bytes(ts_proxy *proxy, ts_way way)
{
    return LOCKED(proxy, bytes[way]);
}

void ts_proxy_cut_after(ts_proxy *proxy, ts_way way, uint64_t after, bool then_refuse)
{
    pthread_mutex_lock(&proxy->mutex);
    proxy->fired = false;
    proxy->then_refuse = then_refuse;
    proxy->cut_armed[way] = true;
    proxy->cut_at[way] = proxy->bytes[way] + after;
    change(proxy);
}

void ts_proxy_delay(ts_proxy *proxy, int64_t up_ms, int64_t down_ms)
{
    pthread_mutex_lock(&proxy->mutex);
    proxy->delay_ms[TS_UP] = up_ms;
    proxy->delay_ms[TS_DOWN] = down_ms;
    change(proxy);
}

void ts_proxy_dribble(ts_proxy *proxy, bool dribble)
{
    pthread_mutex_lock(&proxy->mutex);
    proxy->dribble = dribble;
    change(proxy);
}

/* Returns when the thread has closed all connections. */
void ts_proxy_cut(ts_proxy *proxy)
{
    pthread_mutex_lock(&proxy->mutex);
    proxy->cut = true;
    change(proxy);
    while (LOCKED(proxy, cut))
        ts_pass_ms(1);
}

void ts_proxy_refuse(ts_proxy *proxy, bool refuse)
{
    pthread_mutex_lock(&proxy->mutex);
    proxy->refuse = refuse;
    change(proxy);
}

void ts_proxy_lead(ts_proxy *proxy, const char *server)
{
    pthread_mutex_lock(&proxy->mutex);
    snprintf(proxy->server, sizeof proxy->server, "%s", server);
    change(proxy);
}

void ts_proxy_stall(ts_proxy *proxy, bool stall)
{
    pthread_mutex_lock(&proxy->mutex);
    proxy->stall = stall;
    change(proxy);
}

void ts_proxy_flow(ts_proxy *proxy)
{
    pthread_mutex_lock(&proxy->mutex);
    proxy->answers = 0;
    proxy->armed = proxy->refuse = proxy->stall = proxy->dribble = false;
    for (int way = 0; way < WAYS; way++) {
        proxy->cut_armed[way] = false;
        proxy->delay_ms[way] = 0;
    }
    for (int i = 0; i < LINKS_MAX; i++)
        proxy->links[i].hold = proxy->links[i].delay = false;
    /* Releases held data here, not in the thread: a delayed command could otherwise meet the next
     * fault, if the test arms that first. */
    release_held(proxy);
    change(proxy);
}
