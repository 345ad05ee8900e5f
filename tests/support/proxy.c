#include "proxy.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define LINKS_MAX      300
#define STATEMENTS_MAX 64
#define CHUNK          65536

typedef struct bytes {
    char *data;
    size_t length;
    size_t capacity;
} bytes;

typedef struct statement {
    uint32_t id;
    char text[512];
} statement;

typedef struct tunnel {
    int client; /* -1: this slot is free */
    int server;
    bytes up;            /* from the client, not yet a whole packet */
    bytes down;          /* held back from the client */
    char preparing[512]; /* text whose id the next reply tells */
    statement statements[STATEMENTS_MAX];
    unsigned statement_count;
    bool swallow; /* the next reply is lost, then the connection */
    bool hold;    /* the replies are held back */
    bool delay;   /* what came from the client is held back */
} tunnel;

struct ts_proxy {
    char path[108];
    char server[108];
    int listener;
    int wake;
    pthread_t thread;
    pthread_mutex_t mutex; /* guards what follows */
    bool stop;
    bool refuse;
    bool stall;
    bool cut;
    bool armed;
    bool fired;
    ts_fault fault;
    char text[128];
    bool any;
    unsigned nth;
    bool then_refuse;
    unsigned commands;
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

static void end_link(tunnel *link)
{
    if (link->client < 0)
        return;
    close(link->client);
    close(link->server);
    free(link->up.data);
    free(link->down.data);
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

/* ------------------------------------------------------------------------- commands */

static uint32_t u32(const unsigned char *p)
{
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static void copy_text(char *to, size_t size, const char *from, size_t length)
{
    snprintf(to, size, "%.*s", (int)(length < size ? length : size - 1), from);
}

/* The statement that a command runs; "" for a ping and the like. */
static void text_of(tunnel *link, const unsigned char *packet, size_t length, char *text,
                    size_t size)
{
    *text = 0;
    if (length < 1)
        return;
    const char *rest = (const char *)packet + 1;
    if (packet[0] == COM_QUERY)
        copy_text(text, size, rest, length - 1);
    if (packet[0] == COM_STMT_PREPARE)
        copy_text(link->preparing, sizeof link->preparing, rest, length - 1);
    if (packet[0] == COM_STMT_EXECUTE && length >= 5)
        for (unsigned i = 0; i < link->statement_count; i++)
            if (link->statements[i].id == u32(packet + 1))
                copy_text(text, size, link->statements[i].text, sizeof link->statements[i].text);
}

static bool matches(ts_proxy *proxy, const char *text)
{
    if (!proxy->armed || (!proxy->any && !strstr(text, proxy->text)) || --proxy->nth > 0)
        return false;
    proxy->armed = false;
    proxy->fired = true;
    proxy->refuse |= proxy->then_refuse;
    return true;
}

/* One command of the client; it stays in `up` where link->delay is set. False: the
 * connection is over. */
static bool pass_command(ts_proxy *proxy, tunnel *link, const char *packet, size_t length)
{
    char text[512];
    bool command = packet[3] == 0; /* sequence 0: not a part of the login */
    text_of(link, (const unsigned char *)packet + 4, command ? length - 4 : 0, text, sizeof text);
    if (command && packet[4] != COM_QUIT) {
        proxy->commands++;
        if (matches(proxy, text)) {
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
    return link->delay || send_all(link->server, packet, length);
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
    if (n <= 0)
        return false;
    append(&link->up, chunk, (size_t)n);
    return pass_commands(proxy, link);
}

/* The reply to a PREPARE: which id stands for the text. */
static void learn(tunnel *link, const char *reply, size_t length)
{
    if (!*link->preparing || length < 9)
        return;
    if (reply[4] == 0 && link->statement_count < STATEMENTS_MAX) {
        statement *s = &link->statements[link->statement_count++];
        s->id = u32((const unsigned char *)reply + 5);
        memcpy(s->text, link->preparing, sizeof s->text);
    }
    *link->preparing = 0;
}

static bool from_server(ts_proxy *proxy, tunnel *link)
{
    char chunk[CHUNK];
    ssize_t n = recv(link->server, chunk, sizeof chunk, 0);
    if (link->swallow)
        proxy->cut |= proxy->refuse;
    if (n <= 0 || link->swallow)
        return false;
    learn(link, chunk, (size_t)n);
    if (link->hold) {
        append(&link->down, chunk, (size_t)n);
        return true;
    }
    return send_all(link->client, chunk, (size_t)n);
}

/* ---------------------------------------------------------------------- the thread */

static void serve_links(ts_proxy *proxy, const struct pollfd *fds)
{
    for (int i = 0; i < LINKS_MAX; i++) {
        tunnel *link = &proxy->links[i];
        bool good = !proxy->cut || link->delay;
        if (good && link->client >= 0 && fds[2 * i].fd == link->client && fds[2 * i].revents)
            good = from_client(proxy, link);
        if (good && link->client >= 0 && fds[2 * i + 1].fd == link->server &&
            fds[2 * i + 1].revents)
            good = from_server(proxy, link);
        if (!good)
            end_link(link);
    }
    for (int i = 0; proxy->cut && i < LINKS_MAX; i++)
        if (!proxy->links[i].delay)
            end_link(&proxy->links[i]);
    proxy->cut = false;
}

static void release_held(ts_proxy *proxy)
{
    for (int i = 0; i < LINKS_MAX; i++) {
        tunnel *link = &proxy->links[i];
        if (link->client < 0)
            continue;
        if (!link->hold && link->down.length > 0) {
            send_all(link->client, link->down.data, link->down.length);
            link->down.length = 0;
        }
        if (!pass_commands(proxy, link))
            end_link(link);
    }
}

static void watch(const ts_proxy *proxy, struct pollfd *fds)
{
    for (int i = 0; i < LINKS_MAX; i++) {
        int shown = proxy->stall ? -1 : 0;
        bool deaf = shown || proxy->links[i].delay;
        fds[2 * i] = (struct pollfd){.fd = deaf ? -1 : proxy->links[i].client, .events = POLLIN};
        fds[2 * i + 1] =
            (struct pollfd){.fd = shown ? -1 : proxy->links[i].server, .events = POLLIN};
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
        pthread_mutex_unlock(&proxy->mutex);
        poll(fds, 2 * LINKS_MAX + 2, -1);
        pthread_mutex_lock(&proxy->mutex);
        eventfd_t ignored;
        if (fds[2 * LINKS_MAX + 1].revents)
            eventfd_read(proxy->wake, &ignored);
        serve_links(proxy, fds);
        release_held(proxy);
        if (fds[2 * LINKS_MAX].revents)
            accept_one(proxy);
    }
    for (int i = 0; i < LINKS_MAX; i++)
        end_link(&proxy->links[i]);
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

void ts_proxy_arm(ts_proxy *proxy, ts_fault fault, const char *text, unsigned nth, bool then_refuse)
{
    pthread_mutex_lock(&proxy->mutex);
    proxy->armed = true;
    proxy->fired = false;
    proxy->fault = fault;
    proxy->any = text == NULL;
    snprintf(proxy->text, sizeof proxy->text, "%s", text ? text : "");
    proxy->nth = nth;
    proxy->then_refuse = then_refuse;
    change(proxy);
}

bool ts_proxy_fired(ts_proxy *proxy)
{
    pthread_mutex_lock(&proxy->mutex);
    bool fired = proxy->fired;
    pthread_mutex_unlock(&proxy->mutex);
    return fired;
}

unsigned ts_proxy_commands(ts_proxy *proxy)
{
    pthread_mutex_lock(&proxy->mutex);
    unsigned commands = proxy->commands;
    pthread_mutex_unlock(&proxy->mutex);
    return commands;
}

/* Until the thread has done it: what comes after sees no connection of before. */
void ts_proxy_cut(ts_proxy *proxy)
{
    pthread_mutex_lock(&proxy->mutex);
    proxy->cut = true;
    change(proxy);
    bool pending = true;
    while (pending) {
        pthread_mutex_lock(&proxy->mutex);
        pending = proxy->cut;
        pthread_mutex_unlock(&proxy->mutex);
        ts_pass_ms(1);
    }
}

void ts_proxy_refuse(ts_proxy *proxy, bool refuse)
{
    pthread_mutex_lock(&proxy->mutex);
    proxy->refuse = refuse;
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
    proxy->armed = proxy->refuse = proxy->stall = false;
    for (int i = 0; i < LINKS_MAX; i++)
        proxy->links[i].hold = proxy->links[i].delay = false;
    change(proxy);
}
