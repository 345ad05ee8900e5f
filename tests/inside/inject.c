/* The interposed functions hold no lock while they call the real ones, and allocate nothing. */
#include "inside/inject.h"

#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <unistd.h>

#define NOISE  24 /* frames of a failure's place that are kept for the report */
#define DEEP   60 /* frames by which two places are told apart */
#define FDS    4096
#define BLOCKS (1u << 18) /* a power of two, far above what is ever live */
#define THE_REAL(name)                                                                             \
    __typeof__(name) *real = (__typeof__(name) *)(uintptr_t)dlsym(RTLD_NEXT, #name)

typedef enum whose { NOT_OURS, CALLER, BEHIND } whose;

static _Thread_local whose this_thread;

/* ------------------------------------------------------------------------ what fails */

static atomic_bool armed;
static atomic_bool fired;
static atomic_uint left; /* this request fails, counted down from `nth` */
static inject_kind kind_now;
static whose side_now;
static unsigned error_number;
static char error_state[6];
static void *place[NOISE];
static int place_depth;
static char *place_text;
static size_t place_size;
/* Hashes of the thread's last command to the server, and of the one before. */
static _Thread_local uint64_t said_now;
static _Thread_local uint64_t said_before;
static inject_places *places;
static bool only_looks; /* nothing fails: the places that could are recorded */
static bool all_places;
static _Thread_local int below; /* the depth of the stack where a talk begins, ... */
static void *ground;            /* ... and the frame at its bottom */
static atomic_flag places_busy = ATOMIC_FLAG_INIT;

/* "module+offset" of a code address: addr2line(1) does the rest. */
static size_t describe(void *address, char *text, size_t size)
{
    Dl_info info = {0};
    if (!dladdr(address, &info) || !info.dli_fname)
        return (size_t)snprintf(text, size, " %p", address);
    const char *slash = strrchr(info.dli_fname, '/');
    return (size_t)snprintf(text, size, " %s+0x%lx%s%s", slash ? slash + 1 : info.dli_fname,
                            (unsigned long)((char *)address - (char *)info.dli_fbase),
                            info.dli_sname ? ":" : "", info.dli_sname ? info.dli_sname : "");
}

static void tell_place(const char *what)
{
    size_t at = (size_t)snprintf(place_text, place_size, "%s, from", what);
    for (int i = 2; i < place_depth && at + 200 < place_size; i++)
        at += describe(place[i], place_text + at, place_size - at);
}

/* FNV-1a, of numbers. */
static uint64_t and_then(uint64_t hash, uint64_t more)
{
    return (hash ^ more) * 1099511628211u;
}

/* True the first time that this place asks. A place is the calls inside the library, without the
 * talk's own. Connector/C runs on a stack of its own, without those calls: there the last two
 * commands to the server count, too; for memory, which is asked for very often, only which of four
 * classes the last command is in. */
static bool is_new_place(void)
{
    void *frames[DEEP];
    uint64_t hash = and_then(said_before, said_now);
    int depth = backtrace(frames, DEEP);
    bool shows = below && frames[depth - 1] == ground;
    if (shows)
        depth -= below;
    if (kind_now == INJECT_MEMORY)
        hash = shows ? 0 : said_now % 4;
    for (int i = 2; i < depth; i++)
        hash = and_then(hash, (uintptr_t)frames[i]);
    size_t at = hash % INJECT_PLACES;
    while (places->seen[at] && places->seen[at] != hash)
        at = (at + 1) % INJECT_PLACES;
    return !places->seen[at] && (places->seen[at] = hash);
}

static void look_at_place(void)
{
    while (atomic_flag_test_and_set(&places_busy))
        sched_yield();
    places->passed++;
    if ((is_new_place() || all_places) && places->count < INJECT_MANY)
        places->chosen[places->count++] = places->passed;
    atomic_flag_clear(&places_busy);
}

/* True if this request is the one that is to fail. */
static bool fails(inject_kind kind, const char *what)
{
    if (!atomic_load(&armed) || kind != kind_now || this_thread != side_now)
        return false;
    if (!only_looks && atomic_fetch_sub(&left, 1) != 1)
        return false;
    whose was = this_thread;
    this_thread = NOT_OURS;
    if (only_looks) {
        look_at_place();
    } else {
        atomic_store(&armed, false);
        place_depth = backtrace(place, NOISE);
        if (place_text)
            tell_place(what);
        atomic_store(&fired, true);
    }
    this_thread = was;
    return !only_looks;
}

static bool fails_with(inject_kind kind, const char *what, int error)
{
    if (!fails(kind, what))
        return false;
    errno = error;
    return true;
}

void inject_arm(inject_kind kind, inject_side side, unsigned nth)
{
    kind_now = kind;
    side_now = side == INJECT_CALLER ? CALLER : BEHIND;
    place_depth = 0;
    atomic_store(&fired, false);
    atomic_store(&left, nth);
    void *frames[DEEP];
    below = backtrace(frames, DEEP);
    ground = frames[below - 1];
    only_looks = nth == 0;
    if (only_looks)
        places->passed = places->count = 0;
    atomic_store(&armed, true);
}

void inject_look_at(inject_places *shared, bool all)
{
    places = shared;
    all_places = all;
}

void inject_server_error(unsigned number, const char *sqlstate)
{
    error_number = number;
    snprintf(error_state, sizeof error_state, "%s", sqlstate);
}

void inject_tell_place(char *text, size_t size)
{
    place_text = text;
    place_size = size;
}

void inject_disarm(void)
{
    atomic_store(&armed, false);
}

bool inject_fired(void)
{
    return atomic_load(&fired);
}

static bool is_in(void *address, const char *module)
{
    Dl_info info = {0};
    return dladdr(address, &info) && info.dli_fname && strstr(info.dli_fname, module);
}

bool inject_in_connector(void)
{
    for (int i = 0; i < place_depth; i++)
        if (is_in(place[i], "/libmariadb.so"))
            return true;
    return false;
}

/* The C library's frames do not count: its functions crash over the arguments that they are
 * given. */
bool inject_crash_place(char *text, size_t size)
{
    void *frames[NOISE];
    int depth = backtrace(frames, NOISE);
    int i = 2; /* this function and the handler */
    size_t at = (size_t)snprintf(text, size, "it crashed:");
    for (int frame = i; frame < depth && at + 200 < size; frame++)
        at += describe(frames[frame], text + at, size - at);
    while (i < depth && is_in(frames[i], "/libc.so"))
        i++;
    return i < depth && is_in(frames[i], "/libmariadb.so");
}

/* ---------------------------------------------------------------------------- memory */

typedef struct block {
    void *at; /* NULL: never used; &gone: free again */
    size_t size;
    void *from;
} block;

static block blocks[BLOCKS];
static atomic_size_t block_count;
static atomic_flag blocks_busy = ATOMIC_FLAG_INIT;
static char gone;
static uintptr_t loader_begin;
static uintptr_t loader_end;

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *block, size_t size);
extern void __libc_free(void *block);

static void lock_blocks(void)
{
    while (atomic_flag_test_and_set(&blocks_busy))
        sched_yield();
}

static size_t slot_of(const void *at)
{
    return (size_t)((uintptr_t)at * 0x9e3779b97f4a7c15u >> 46) & (BLOCKS - 1);
}

/* The loader asks for a thread's static memory (its TLS), which the C library keeps for the next
 * thread. */
static bool is_loaders(const void *from)
{
    return (uintptr_t)from >= loader_begin && (uintptr_t)from < loader_end;
}

static void note(void *at, size_t size, void *from)
{
    if (!at || this_thread == NOT_OURS || is_loaders(from))
        return;
    lock_blocks();
    size_t i = slot_of(at);
    while (blocks[i].at && blocks[i].at != &gone)
        i = (i + 1) & (BLOCKS - 1);
    blocks[i] = (block){.at = at, .size = size, .from = from};
    block_count++;
    atomic_flag_clear(&blocks_busy);
}

/* Called before the block is freed: afterwards another thread may get it. */
static bool unnote(const void *at, block *was)
{
    bool found = false;
    if (!at || atomic_load(&block_count) == 0)
        return false;
    lock_blocks();
    for (size_t i = slot_of(at); blocks[i].at && !found; i = (i + 1) & (BLOCKS - 1))
        if (blocks[i].at == at) {
            *was = blocks[i];
            blocks[i].at = &gone;
            block_count--;
            found = true;
        }
    atomic_flag_clear(&blocks_busy);
    return found;
}

static bool is_live(const block *b)
{
    return b->at && b->at != &gone;
}

bool inject_blocks_of_connector(void)
{
    for (size_t i = 0; i < BLOCKS; i++)
        if (is_live(&blocks[i]) && !is_in(blocks[i].from, "/libmariadb.so"))
            return false;
    return true;
}

void inject_list_blocks(char *text, size_t size)
{
    size_t at = 0;
    *text = '\0';
    for (size_t i = 0; i < BLOCKS && at + 300 < size; i++) {
        if (!is_live(&blocks[i]))
            continue;
        at += (size_t)snprintf(text + at, size - at, " %zu bytes from", blocks[i].size);
        at += describe(blocks[i].from, text + at, size - at);
    }
}

void *malloc(size_t size)
{
    if (fails_with(INJECT_MEMORY, "malloc", ENOMEM))
        return NULL;
    void *at = __libc_malloc(size);
    note(at, size, __builtin_return_address(0));
    return at;
}

void *calloc(size_t count, size_t size)
{
    if (fails_with(INJECT_MEMORY, "calloc", ENOMEM))
        return NULL;
    void *at = __libc_calloc(count, size);
    note(at, count * size, __builtin_return_address(0));
    return at;
}

static void *again(void *at, size_t size, void *from)
{
    block was;
    bool noted = unnote(at, &was);
    void *now = __libc_realloc(at, size);
    if (now)
        note(now, size, from);
    else if (noted && size)
        note(at, was.size, was.from);
    return now;
}

void *realloc(void *at, size_t size)
{
    if (fails_with(INJECT_MEMORY, "realloc", ENOMEM))
        return NULL;
    return again(at, size, __builtin_return_address(0));
}

void *reallocarray(void *at, size_t count, size_t size)
{
    size_t all;
    if (__builtin_mul_overflow(count, size, &all) ||
        fails_with(INJECT_MEMORY, "reallocarray", ENOMEM)) {
        errno = ENOMEM;
        return NULL;
    }
    return again(at, all, __builtin_return_address(0));
}

void free(void *at)
{
    block was;
    (void)unnote(at, &was);
    __libc_free(at);
}

/* ----------------------------------------------------------------------- descriptors */

typedef struct descriptor {
    atomic_bool ours;
    atomic_bool server;    /* connected to a server */
    bool replied;          /* its reply is to be lost */
    bool swallows;         /* drop the rest of the packet: another command was sent */
    uint64_t prepared[64]; /* hash of each prepared statement, by the server's number (from 1) */
    unsigned prepared_count;
    size_t remaining; /* bytes of the present packet that are not sent yet */
} descriptor;

static descriptor descriptors[FDS];
static atomic_size_t descriptor_count;

static int opened(int fd)
{
    if (fd < 0 || fd >= FDS || this_thread == NOT_OURS)
        return fd;
    descriptors[fd].server = descriptors[fd].replied = descriptors[fd].swallows = false;
    descriptors[fd].remaining = 0;
    descriptors[fd].prepared_count = 0;
    if (!atomic_exchange(&descriptors[fd].ours, true))
        atomic_fetch_add(&descriptor_count, 1);
    return fd;
}

static void closed(int fd)
{
    if (fd < 0 || fd >= FDS)
        return;
    atomic_store(&descriptors[fd].server, false);
    if (atomic_exchange(&descriptors[fd].ours, false))
        atomic_fetch_sub(&descriptor_count, 1);
}

/* Replaces a system function by one that may be refused; else `then` is called with its result. */
#define MAY_BE_REFUSED(name, parameters, arguments, error, refused, then)                          \
    int name parameters                                                                            \
    {                                                                                              \
        THE_REAL(name);                                                                            \
        return fails_with(INJECT_SYSTEM, #name, error) ? (refused) : then(real arguments);         \
    }

MAY_BE_REFUSED(eventfd, (unsigned value, int flags), (value, flags), EMFILE, -1, opened)
MAY_BE_REFUSED(timerfd_create, (clockid_t clock, int flags), (clock, flags), EMFILE, -1, opened)
MAY_BE_REFUSED(socket, (int domain, int type, int protocol), (domain, type, protocol), EMFILE, -1,
               opened)
MAY_BE_REFUSED(madvise, (void *at, size_t size, int advice), (at, size, advice), EINVAL, -1, )
MAY_BE_REFUSED(pthread_mutex_init, (pthread_mutex_t * mutex, const pthread_mutexattr_t *attributes),
               (mutex, attributes), ENOMEM, ENOMEM, )
MAY_BE_REFUSED(pthread_cond_init,
               (pthread_cond_t * condition, const pthread_condattr_t *attributes),
               (condition, attributes), ENOMEM, ENOMEM, )

int open(const char *path, int flags, ...)
{
    THE_REAL(open);
    va_list args;
    va_start(args, flags);
    int mode = flags & O_CREAT ? va_arg(args, int) : 0;
    va_end(args);
    return fails_with(INJECT_SYSTEM, "open", EMFILE) ? -1 : opened(real(path, flags, mode));
}

int close(int fd)
{
    THE_REAL(close);
    closed(fd);
    return real(fd);
}

int dup3(int fd, int as, int flags)
{
    THE_REAL(dup3);
    int now = real(fd, as, flags);
    if (now >= 0 && now < FDS)
        atomic_store(&descriptors[now].server, false);
    return now;
}

void *mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset)
{
    THE_REAL(mmap);
    if (fails_with(INJECT_SYSTEM, "mmap", ENOMEM))
        return MAP_FAILED;
    return real(at, size, protection, flags, fd, offset);
}

/* --------------------------------------------------------------------------- threads */

typedef struct start {
    void *(*function)(void *);
    void *arg;
} start;

static atomic_size_t thread_count;

static void thread_over(void *unused)
{
    (void)unused;
    this_thread = NOT_OURS;
    atomic_fetch_sub(&thread_count, 1);
}

/* The library's threads block every signal: a crash there would not be reported. */
static void let_crashes_through(void)
{
    sigset_t crashes;
    sigemptyset(&crashes);
    sigaddset(&crashes, SIGSEGV);
    sigaddset(&crashes, SIGBUS);
    sigaddset(&crashes, SIGABRT);
    pthread_sigmask(SIG_UNBLOCK, &crashes, NULL);
}

static void *run_ours(void *arg)
{
    const start s = *(start *)arg;
    void *result;
    __libc_free(arg);
    this_thread = BEHIND;
    let_crashes_through();
    pthread_cleanup_push(thread_over, NULL);
    result = s.function(s.arg);
    pthread_cleanup_pop(1);
    return result;
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*function)(void *),
                   void *arg)
{
    THE_REAL(pthread_create);
    if (this_thread == NOT_OURS)
        return real(thread, attributes, function, arg);
    if (fails(INJECT_SYSTEM, "pthread_create"))
        return EAGAIN;
    start *s = __libc_malloc(sizeof *s);
    *s = (start){function, arg};
    atomic_fetch_add(&thread_count, 1);
    int failed = real(thread, attributes, run_ours, s);
    if (failed) {
        __libc_free(s);
        atomic_fetch_sub(&thread_count, 1);
    }
    return failed;
}

/* ------------------------------------------------------------------------- the server */

enum {
    COMMAND_QUIT = 1,
    COMMAND_QUERY = 3,
    COMMAND_PING = 14,
    COMMAND_STMT_PREPARE = 22,
    COMMAND_STMT_EXECUTE = 23,
    COMMAND_STMT_CLOSE = 25
};

static ssize_t really_send(int fd, const void *data, size_t size, int flags)
{
    THE_REAL(send);
    return real(fd, data, size, flags);
}

static ssize_t really_recv(int fd, void *data, size_t size, int flags)
{
    THE_REAL(recv);
    return real(fd, data, size, flags);
}

int connect(int fd, __CONST_SOCKADDR_ARG address, socklen_t size)
{
    THE_REAL(connect);
    if (fails_with(INJECT_NO_CONNECTION, "connect", ECONNREFUSED))
        return -1;
    int failed = real(fd, address, size);
    if (fd >= 0 && fd < FDS && this_thread != NOT_OURS && (!failed || errno == EINPROGRESS))
        atomic_store(&descriptors[fd].server, true);
    return failed;
}

static void put_header(unsigned char *packet, size_t length)
{
    packet[0] = (unsigned char)length;
    packet[1] = (unsigned char)(length >> 8);
    packet[2] = (unsigned char)(length >> 16);
    packet[3] = 0;
}

static void send_query(int fd, const char *text)
{
    unsigned char packet[300];
    size_t length = strlen(text);
    put_header(packet, length + 1);
    packet[4] = COMMAND_QUERY;
    memcpy(packet + 5, text, length);
    (void)really_send(fd, packet, length + 5, MSG_NOSIGNAL);
}

/* A server that reports a deadlock has rolled the transaction back already. */
static void roll_back(int fd)
{
    char reply[300];
    struct pollfd alone = {.fd = fd, .events = POLLIN};
    send_query(fd, "ROLLBACK");
    if (poll(&alone, 1, 10000) == 1)
        (void)really_recv(fd, reply, sizeof reply, 0);
}

/* Sends, in place of the command, a statement that the server answers with that error. A ping meets
 * no deadlock. */
static void ask_for_error(int fd, unsigned char command)
{
    char text[200];
    if (command != COMMAND_PING && (error_number == 1213 || error_number == 1020))
        roll_back(fd);
    snprintf(text, sizeof text,
             "SIGNAL SQLSTATE '%s' SET MYSQL_ERRNO = %u, MESSAGE_TEXT = 'injected'", error_state,
             error_number);
    send_query(fd, text);
}

/* Describes a command, for the report. */
static void name_command(const unsigned char *packet, size_t size, char *text, size_t room)
{
    if (packet[4] == COMMAND_QUERY || packet[4] == COMMAND_STMT_PREPARE)
        snprintf(text, room, "command %u '%.*s'", packet[4], (int)(size - 5 < 90 ? size - 5 : 90),
                 (const char *)packet + 5);
    else
        snprintf(text, room, "command %u", packet[4]);
}

/* A hash of the statement's text without numbers and quoted text. */
static uint64_t statement_of(const unsigned char *packet, size_t size)
{
    uint64_t hash = 14695981039346656037u;
    bool quoted = false;
    for (size_t i = 5; i < size; i++) {
        quoted ^= packet[i] == '\'';
        if (!quoted && (packet[i] < '0' || packet[i] > '9'))
            hash = and_then(hash, packet[i]);
    }
    return hash;
}

static void note_said(descriptor *d, const unsigned char *packet, size_t size)
{
    uint64_t said = packet[4];
    if (packet[4] == COMMAND_QUERY || packet[4] == COMMAND_STMT_PREPARE)
        said = statement_of(packet, size);
    if (packet[4] == COMMAND_STMT_PREPARE)
        d->prepared[++d->prepared_count % 64] = said;
    if (packet[4] == COMMAND_STMT_EXECUTE && size > 5)
        said = d->prepared[packet[5] % 64] + 1;
    said_before = said_now;
    said_now = said;
}

/* Sends a command or its beginning, unless it is to fail. (The caller has seen sequence number 0,
 * which no packet of a login has.) */
static ssize_t send_command(int fd, const unsigned char *packet, size_t size, int flags)
{
    char what[130];
    if (packet[4] == COMMAND_QUIT || packet[4] == COMMAND_STMT_CLOSE)
        return really_send(fd, packet, size, flags);
    name_command(packet, size, what, sizeof what);
    note_said(&descriptors[fd], packet, size);
    if (fails(INJECT_CALL_LOST, what))
        shutdown(fd, SHUT_RDWR);
    descriptors[fd].replied = fails(INJECT_REPLY_LOST, what);
    if (fails(INJECT_SERVER_ERROR, what)) {
        descriptors[fd].swallows = true;
        ask_for_error(fd, packet[4]);
        return (ssize_t)size;
    }
    return really_send(fd, packet, size, flags);
}

static ssize_t send_to_server(int fd, const void *data, size_t size, int flags)
{
    descriptor *d = &descriptors[fd];
    const unsigned char *packet = data;
    ssize_t sent;
    if (d->remaining == 0 && size >= 5) {
        d->swallows = false;
        d->remaining = 4 + (packet[0] | (size_t)packet[1] << 8 | (size_t)packet[2] << 16);
        sent = packet[3] == 0 ? send_command(fd, packet, size, flags)
                              : really_send(fd, data, size, flags);
        if (sent < 0)
            d->remaining = 0;
    } else {
        sent = d->swallows ? (ssize_t)size : really_send(fd, data, size, flags);
    }
    if (sent > 0)
        d->remaining -= (size_t)sent < d->remaining ? (size_t)sent : d->remaining;
    return sent;
}

static bool is_servers(int fd)
{
    return fd >= 0 && fd < FDS && this_thread != NOT_OURS && atomic_load(&descriptors[fd].server);
}

ssize_t send(int fd, const void *data, size_t size, int flags)
{
    return is_servers(fd) ? send_to_server(fd, data, size, flags)
                          : really_send(fd, data, size, flags);
}

ssize_t recv(int fd, void *data, size_t size, int flags)
{
    ssize_t got = really_recv(fd, data, size, flags);
    if (got <= 0 || !is_servers(fd) || !descriptors[fd].replied)
        return got;
    descriptors[fd].replied = false;
    shutdown(fd, SHUT_RDWR);
    return 0;
}

/* ----------------------------------------------------------------------- begin and end */

inject_rest inject_left(void)
{
    return (inject_rest){
        .blocks = block_count, .descriptors = descriptor_count, .threads = thread_count};
}

static void find_loader(void)
{
    loader_begin = loader_end = getauxval(AT_BASE);
    const ElfW(Ehdr) *file = (const ElfW(Ehdr) *)loader_begin;
    const ElfW(Phdr) *parts = (const ElfW(Phdr) *)(loader_begin + file->e_phoff);
    for (unsigned i = 0; i < file->e_phnum; i++)
        if (parts[i].p_type == PT_LOAD)
            loader_end = loader_begin + parts[i].p_vaddr + parts[i].p_memsz;
}

void inject_begin(void)
{
    void *frames[NOISE];
    find_loader();
    (void)backtrace(frames, NOISE); /* its first call allocates */
    this_thread = CALLER;
}

void inject_end(void)
{
    inject_disarm();
    this_thread = NOT_OURS;
}

void inject_pause(void)
{
    this_thread = NOT_OURS;
}

void inject_resume(void)
{
    this_thread = CALLER;
}
