/* bench/measure.c - see measure.h */
#include "measure.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    GRACE_MS = 10000,    /* a wait may go on so long after the window, */
    GRACE_EACH_MS = 200, /* and so much longer for each client that may be before us */
    START_MS = 120000,   /* for all sessions to open and the first cycle */
    STOP_MS = 5000,      /* for clients to end in order once stopped */
    SIDE_MS = 60000,     /* for prepare and tidy */
    LOOK_MS = 50,        /* how often the parent looks for clients that ended */
    SOON_MS = 2,         /* and how often when that is all it waits for */
    DOORS = 4,           /* so many open their sessions at once: that is not what is measured */
};

enum { NOBODY = 0 };

typedef enum client_state { STARTING = 0, READY, ENDED, FAILED } client_state;

/* One client's figures; nobody else writes them. */
typedef struct client_figures {
    _Alignas(64) _Atomic int state;
    pid_t pid; /* 0: reaped */
    uint64_t turns;
    int64_t longest_free_ns;
    measure_histogram acquire;
    measure_histogram hand_over;
    measure_histogram own;
    measure_reason why;
} client_figures;

/* Beside each lock, or each slot of one: who is inside, by our own account. */
typedef struct witness {
    _Alignas(64) _Atomic unsigned owner; /* number of the client, from 1; NOBODY */
    _Atomic unsigned last;               /* who released last */
    _Atomic int64_t released_ns;         /* taken just before that release was called */
} witness;

typedef struct board {
    _Atomic bool stop;
    int64_t begin_ns; /* the window; set before the clients are let go */
    int64_t end_ns;
    _Atomic uint64_t violations;
    _Atomic unsigned inside;       /* of the hot name, where its slots have no numbers */
    _Atomic unsigned first_failed; /* number of the client that failed first; NOBODY */
    measure_reason side_why;       /* of prepare or tidy */
    client_figures *clients;
    witness *witnesses;
    size_t witness_count;
    char (*names)[MEASURE_NAME_MAX];
    size_t name_count;
    size_t size; /* of the mapping, which begins here */
} board;

typedef struct run {
    const measure_system *system;
    const measure_load *load;
    board *board;
    int ready[2]; /* a byte comes from each client that is ready */
    int go[2];    /* ends when the clients are to start */
    int doors[2]; /* a client that has read a byte may open its session */
    int64_t cpu_ns;
} run;

/* A signal handler has to reach it. */
static _Atomic bool stop_wanted;
static board *_Atomic running;

bool measure_because(measure_reason *why, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(why->text, sizeof why->text, format, args);
    va_end(args);
    return false;
}

int64_t measure_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

void measure_stop(void)
{
    board *now = running;
    stop_wanted = true;
    if (now)
        now->stop = true;
}

bool measure_stopped(void)
{
    return stop_wanted;
}

static volatile sig_atomic_t ended_by;

static void on_end(int signo)
{
    ended_by = signo;
    measure_stop();
}

void measure_catch_end(void)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        struct sigaction action = {.sa_handler = on_end, .sa_flags = (int)SA_RESETHAND};
        struct sigaction old;
        sigemptyset(&action.sa_mask);
        if (sigaction(signals[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
            sigaction(signals[i], &action, NULL);
    }
}

int measure_ended_by(void)
{
    return ended_by;
}

/* ---------------------------------------------------------------- histogram */

/* 0 .. 127 have a bucket each; every octave above is cut into MEASURE_SUB. */
static unsigned bucket_of(uint64_t value)
{
    if (value < MEASURE_SUB)
        return (unsigned)value;
    unsigned shift = 63U - (unsigned)__builtin_clzll(value) - 7;
    unsigned bucket = shift * MEASURE_SUB + (unsigned)(value >> shift);
    return bucket < MEASURE_BUCKETS ? bucket : MEASURE_BUCKETS - 1;
}

static double middle_of(unsigned bucket)
{
    if (bucket < 2 * MEASURE_SUB)
        return bucket;
    unsigned shift = bucket / MEASURE_SUB - 1;
    uint64_t least = (uint64_t)(bucket - shift * MEASURE_SUB) << shift;
    return (double)least + (double)(1ULL << shift) / 2;
}

void measure_histogram_add(measure_histogram *histogram, int64_t ns)
{
    histogram->bucket[bucket_of(ns > 0 ? (uint64_t)ns : 0)]++;
    histogram->count++;
}

void measure_histogram_merge(measure_histogram *into, const measure_histogram *from)
{
    into->count += from->count;
    for (unsigned i = 0; i < MEASURE_BUCKETS; i++)
        into->bucket[i] += from->bucket[i];
}

double measure_histogram_at(const measure_histogram *histogram, double part)
{
    double exact = part * (double)histogram->count;
    uint64_t rank = (uint64_t)exact + ((double)(uint64_t)exact < exact);
    uint64_t seen = 0;
    if (histogram->count == 0)
        return -1;
    for (unsigned i = 0; i < MEASURE_BUCKETS; i++) {
        seen += histogram->bucket[i];
        if (seen > 0 && seen >= rank)
            return middle_of(i);
    }
    return middle_of(MEASURE_BUCKETS - 1);
}

static measure_spread spread_of(const measure_histogram *histogram)
{
    measure_spread spread = {-1, -1, -1};
    if (histogram->count == 0)
        return spread;
    spread.p50 = measure_histogram_at(histogram, 0.5) / 1000;
    spread.p99 = measure_histogram_at(histogram, 0.99) / 1000;
    spread.p999 = measure_histogram_at(histogram, 0.999) / 1000;
    return spread;
}

/* ------------------------------------------------------------------ a client */

static unsigned holders_of(const measure_system *system)
{
    return system->holders > 0 ? system->holders : 1;
}

/* The witness of what this client holds. NULL: slots without numbers. */
static witness *witness_of(const run *self, unsigned number, const void *session)
{
    const measure_system *system = self->system;
    witness *all = self->board->witnesses;
    if (!self->load->hot)
        return &all[number - 1];
    if (system->slot)
        return &all[system->slot(session) % holders_of(system)];
    return holders_of(system) == 1 ? &all[0] : NULL;
}

/* In the lock: are we alone, or no more than may be? */
static void enter(const run *self, witness *lock, unsigned number)
{
    bool good = lock ? atomic_exchange(&lock->owner, number) == NOBODY
                     : atomic_fetch_add(&self->board->inside, 1) < holders_of(self->system);
    if (!good)
        self->board->violations++;
}

/* How long nobody had it. -1: nobody ever did, or it is not known. */
static int64_t free_for(const witness *lock, int64_t now)
{
    return lock && lock->last != NOBODY ? now - lock->released_ns : -1;
}

/* While somebody wants it: that is certain until the window's end. */
static void note_free(const run *self, client_figures *mine, int64_t free_ns, int64_t got)
{
    int64_t late = got > self->board->end_ns ? got - self->board->end_ns : 0;
    if (got >= self->board->begin_ns && free_ns - late > mine->longest_free_ns)
        mine->longest_free_ns = free_ns - late;
}

static void leave(const run *self, witness *lock, unsigned number)
{
    if (!lock) {
        self->board->inside--;
        return;
    }
    if (atomic_exchange(&lock->owner, NOBODY) != number)
        self->board->violations++;
    lock->last = number;
    lock->released_ns = measure_now_ns();
}

static void work(int64_t us)
{
    if (us <= 0)
        return;
    int64_t end = measure_now_ns() + us * 1000;
    while (measure_now_ns() < end)
        ;
}

static int64_t grace_ms(const run *self)
{
    return GRACE_MS + (int64_t)self->load->clients * GRACE_EACH_MS;
}

static bool cycle(const run *self, unsigned number, void *session)
{
    board *shared = self->board;
    client_figures *mine = &shared->clients[number - 1];
    const char *name = shared->names[self->load->hot ? 0 : number - 1];
    int64_t called = measure_now_ns();
    int64_t left_ms = shared->end_ns > called ? (shared->end_ns - called) / 1000000 : 0;
    if (!self->system->acquire(session, name, left_ms + grace_ms(self), &mine->why))
        return false;
    int64_t got = measure_now_ns();
    witness *lock = witness_of(self, number, session);
    enter(self, lock, number);
    int64_t free_ns = free_for(lock, got);
    bool handed_over = free_ns >= 0 && lock->last != number;
    work(self->load->work_us);
    leave(self, lock, number);
    int64_t releasing = measure_now_ns();
    if (!self->system->release(session, name, &mine->why))
        return false;
    int64_t done = measure_now_ns();
    note_free(self, mine, free_ns, got);
    if (got < shared->begin_ns || got >= shared->end_ns)
        return true;
    mine->turns++;
    measure_histogram_add(&mine->acquire, got - called);
    measure_histogram_add(&mine->own, got - called + done - releasing);
    if (handed_over)
        measure_histogram_add(&mine->hand_over, free_ns);
    return true;
}

/* Tells the parent, and waits for the start. False: it is not to be. */
static bool wait_for_start(const run *self, client_figures *mine)
{
    char byte = 0;
    mine->state = READY;
    if (write(self->ready[1], &byte, 1) != 1)
        return false;
    while (read(self->go[0], &byte, 1) < 0 && errno == EINTR)
        ;
    return !self->board->stop;
}

static bool cycles(const run *self, unsigned number, void *session)
{
    if (!cycle(self, number, session))
        return false;
    if (!wait_for_start(self, &self->board->clients[number - 1]))
        return true;
    while (!self->board->stop && measure_now_ns() < self->board->end_ns) {
        if (!cycle(self, number, session))
            return false;
    }
    return true;
}

/* Its turn to open a session? In turns, so that a crowd at the server's door is no reason to
 * fail. False: it was stopped. */
static bool enter_door(const run *self)
{
    char byte;
    struct pollfd door = {.fd = self->doors[0], .events = POLLIN};
    while (!self->board->stop) {
        if (poll(&door, 1, LOOK_MS) > 0 && read(self->doors[0], &byte, 1) == 1)
            return true;
    }
    return false;
}

static void leave_door(const run *self)
{
    /* It fits: we have taken it out. */
    ssize_t ignored = write(self->doors[1], "", 1);
    (void)ignored;
}

static bool be_client(const run *self, unsigned number)
{
    void *session = NULL;
    client_figures *mine = &self->board->clients[number - 1];
    if (!enter_door(self))
        return true;
    bool good = self->system->open(self->system, &session, &mine->why);
    leave_door(self);
    if (!good)
        return false;
    good = cycles(self, number, session);
    self->system->close(session);
    return good;
}

/* A process of our own that does not outlive its parent. 0 in the child. */
static pid_t fork_child(void)
{
    pid_t parent = getpid();
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    signal(SIGINT, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    signal(SIGTERM, SIG_DFL);
    signal(SIGPIPE, SIG_IGN);
    return 0;
}

static void end_client(board *self, unsigned number, bool good)
{
    unsigned nobody = NOBODY;
    if (!good)
        atomic_compare_exchange_strong(&self->first_failed, &nobody, number);
    self->clients[number - 1].state = good ? ENDED : FAILED;
}

static bool start_client(const run *self, unsigned number, measure_reason *why)
{
    client_figures *client = &self->board->clients[number - 1];
    pid_t pid = fork_child();
    if (pid < 0)
        return measure_because(why, "cannot start client %u: %s", number, strerror(errno));
    if (pid == 0) {
        close(self->ready[0]);
        close(self->go[1]);
        bool good = be_client(self, number);
        end_client(self->board, number, good);
        _exit(good ? 0 : 1);
    }
    client->pid = pid;
    return true;
}

/* ------------------------------------------------------- the clients' parent */

static unsigned alive(const run *self)
{
    unsigned count = 0;
    for (unsigned i = 0; i < self->load->clients; i++)
        count += self->board->clients[i].pid != 0;
    return count;
}

static void note_end(board *self, unsigned number, int status)
{
    client_figures *client = &self->clients[number - 1];
    client->pid = 0;
    if (client->state == ENDED || client->state == FAILED)
        return;
    end_client(self, number, false);
    if (WIFSIGNALED(status))
        measure_because(&client->why, "ended by signal %d", WTERMSIG(status));
    else
        measure_because(&client->why, "ended with status %d", WEXITSTATUS(status));
}

/* Takes note of those that ended. False: one of them failed. */
static bool reap(const run *self)
{
    bool good = true;
    for (unsigned i = 0; i < self->load->clients; i++) {
        client_figures *client = &self->board->clients[i];
        int status;
        if (client->pid != 0 && waitpid(client->pid, &status, WNOHANG) == client->pid)
            note_end(self->board, i + 1, status);
        good = good && client->state != FAILED;
    }
    return good;
}

static void sleep_until(int64_t ns)
{
    struct timespec at = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
}

/* CPU time of the server's processes; -1 where it cannot be had. */
static int64_t server_cpu_ns(const measure_system *system)
{
    int64_t sum = 0;
    if (system->pids[0] == 0)
        return -1;
    for (int i = 0; i < MEASURE_PIDS_MAX && system->pids[i] != 0; i++) {
        clockid_t clock;
        struct timespec used;
        if (clock_getcpuclockid(system->pids[i], &clock) != 0 || clock_gettime(clock, &used) != 0)
            return -1;
        sum += (int64_t)used.tv_sec * 1000000000 + used.tv_nsec;
    }
    return sum;
}

/* Until all clients have been through their first cycle. */
static bool wait_until_ready(run *self)
{
    int64_t limit = measure_now_ns() + START_MS * 1000000LL;
    unsigned ready = 0;
    char bytes[256];
    while (ready < self->load->clients) {
        struct pollfd fd = {.fd = self->ready[0], .events = POLLIN};
        if (poll(&fd, 1, LOOK_MS) > 0) {
            ssize_t got = read(self->ready[0], bytes, sizeof bytes);
            ready += got > 0 ? (unsigned)got : 0;
        }
        if (!reap(self) || self->board->stop || measure_now_ns() > limit)
            return false;
    }
    return true;
}

/* The window, from its beginning to its end. False: somebody failed, or it was stopped. */
static bool watch_window(run *self)
{
    board *shared = self->board;
    sleep_until(shared->begin_ns);
    int64_t before = server_cpu_ns(self->system);
    for (int64_t now; (now = measure_now_ns()) < shared->end_ns;) {
        int64_t next = now + LOOK_MS * 1000000LL;
        sleep_until(next < shared->end_ns ? next : shared->end_ns);
        if (!reap(self) || shared->stop)
            return false;
    }
    int64_t after = server_cpu_ns(self->system);
    self->cpu_ns = before >= 0 && after >= 0 ? after - before : -1;
    return true;
}

static bool start_all(run *self, measure_reason *why)
{
    for (unsigned number = 1; number <= self->load->clients; number++) {
        if (!start_client(self, number, why))
            return false;
    }
    close(self->ready[1]);
    self->ready[1] = -1;
    return true;
}

static void let_go(run *self)
{
    int64_t now = measure_now_ns();
    self->board->begin_ns = now + self->load->warm_up_ms * 1000000;
    self->board->end_ns = self->board->begin_ns + self->load->window_ms * 1000000;
    close(self->go[1]);
    self->go[1] = -1;
}

/* Waits for the clients' end; who does not come to it is killed. */
static void end_all(run *self, int64_t wait_ms)
{
    int64_t limit = measure_now_ns() + wait_ms * 1000000;
    reap(self);
    while (alive(self) > 0 && measure_now_ns() < limit) {
        sleep_until(measure_now_ns() + SOON_MS * 1000000LL);
        bool good = reap(self);
        /* Whoever waits for one that failed may wait for long. */
        int64_t soon = measure_now_ns() + STOP_MS * 1000000LL;
        if ((!good || self->board->stop) && limit > soon)
            limit = soon;
    }
    for (unsigned i = 0; i < self->load->clients; i++) {
        client_figures *client = &self->board->clients[i];
        if (client->pid == 0)
            continue;
        kill(client->pid, SIGKILL);
        waitpid(client->pid, NULL, 0);
        client->pid = 0;
        end_client(self->board, i + 1, false);
        measure_because(&client->why, "did not come to its end");
    }
}

static bool run_clients(run *self, measure_reason *why)
{
    bool good = start_all(self, why) && wait_until_ready(self);
    if (!good)
        self->board->stop = true;
    let_go(self);
    good = good && watch_window(self);
    if (!good)
        self->board->stop = true;
    end_all(self, good ? grace_ms(self) + STOP_MS : STOP_MS);
    return good && reap(self);
}

/* ---------------------------------------------------------- prepare and tidy */

typedef bool (*side_fn)(const measure_system *system, const char *const names[], size_t count,
                        measure_reason *why);

static void be_side(const run *self, side_fn function)
{
    const char *names[MEASURE_CLIENTS_MAX];
    for (size_t i = 0; i < self->board->name_count; i++)
        names[i] = self->board->names[i];
    _exit(function(self->system, names, self->board->name_count, &self->board->side_why) ? 0 : 1);
}

static bool run_side(const run *self, side_fn function, measure_reason *why)
{
    int64_t limit = measure_now_ns() + SIDE_MS * 1000000LL;
    int status = 0;
    if (!function)
        return true;
    self->board->side_why = (measure_reason){0};
    pid_t pid = fork_child();
    if (pid < 0)
        return measure_because(why, "cannot start a process: %s", strerror(errno));
    if (pid == 0)
        be_side(self, function);
    while (waitpid(pid, &status, WNOHANG) == 0) {
        if (measure_now_ns() > limit)
            kill(pid, SIGKILL);
        sleep_until(measure_now_ns() + SOON_MS * 1000000LL);
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return true;
    *why = self->board->side_why;
    if (!why->text[0])
        measure_because(why, "ended by signal %d", WIFSIGNALED(status) ? WTERMSIG(status) : 0);
    return false;
}

/* -------------------------------------------------------------- the figures */

/* Also what was free when the window ended, or was never taken. */
static double longest_free_us(const run *self)
{
    const board *shared = self->board;
    int64_t longest = 0;
    if (!self->load->hot || self->load->clients <= holders_of(self->system) ||
        (holders_of(self->system) > 1 && !self->system->slot))
        return -1;
    for (unsigned i = 0; i < self->load->clients; i++)
        if (shared->clients[i].longest_free_ns > longest)
            longest = shared->clients[i].longest_free_ns;
    for (size_t i = 0; i < shared->witness_count; i++) {
        const witness *lock = &shared->witnesses[i];
        int64_t from = lock->last != NOBODY ? lock->released_ns : shared->begin_ns;
        if (shared->end_ns - from > longest)
            longest = shared->end_ns - from;
    }
    return (double)longest / 1000;
}

static void sum_up(const run *self, measure_figures *figures)
{
    measure_histogram acquire = {0};
    measure_histogram hand_over = {0};
    measure_histogram own = {0};
    figures->least_turns = UINT64_MAX;
    for (unsigned i = 0; i < self->load->clients; i++) {
        const client_figures *client = &self->board->clients[i];
        figures->cycles += client->turns;
        if (client->turns > figures->most_turns)
            figures->most_turns = client->turns;
        if (client->turns < figures->least_turns)
            figures->least_turns = client->turns;
        figures->failed += client->state == FAILED;
        measure_histogram_merge(&acquire, &client->acquire);
        measure_histogram_merge(&hand_over, &client->hand_over);
        measure_histogram_merge(&own, &client->own);
    }
    figures->acquire = spread_of(&acquire);
    figures->hand_over = spread_of(&hand_over);
    figures->own = spread_of(&own);
    figures->violations = self->board->violations;
    figures->longest_free_us = longest_free_us(self);
}

static void work_out(const run *self, measure_figures *figures)
{
    double cycles = (double)figures->cycles;
    figures->seconds = (double)self->load->window_ms / 1000;
    figures->cycles_per_second = cycles / figures->seconds;
    figures->fairness = -1;
    if (figures->least_turns > 0)
        figures->fairness = (double)figures->most_turns / (double)figures->least_turns;
    figures->server_us_per_cycle = -1;
    figures->server_percent = -1;
    if (self->cpu_ns < 0)
        return;
    figures->server_percent = (double)self->cpu_ns / (figures->seconds * 1e9) * 100;
    if (figures->cycles > 0)
        figures->server_us_per_cycle = (double)self->cpu_ns / 1000 / cycles;
}

/* Whatever else went wrong, two in one lock is what has to be told. */
static bool judge(const run *self, bool good, const measure_figures *figures, measure_reason *why)
{
    unsigned first = self->board->first_failed;
    if (figures->violations > 0)
        return measure_because(why, "MUTUAL EXCLUSION WAS VIOLATED, %llu times",
                               (unsigned long long)figures->violations);
    if (measure_stopped())
        return measure_because(why, "interrupted");
    if (first != NOBODY) {
        const measure_reason *its = &self->board->clients[first - 1].why;
        why->exit_status = its->exit_status;
        return measure_because(why, "%u of %u clients failed: %.300s", figures->failed,
                               self->load->clients, its->text);
    }
    if (good || why->text[0])
        return good;
    return measure_because(why, "not all clients were ready within %d s", START_MS / 1000);
}

/* ----------------------------------------------------------------- the board */

static size_t round_up(size_t size)
{
    return (size + 63) / 64 * 64;
}

/* Shared with the clients, all of it made before they are. */
static board *board_new(const measure_system *system, const measure_load *load)
{
    size_t names = load->hot ? 1 : load->clients;
    size_t witnesses = load->hot && system->slot ? holders_of(system) : names;
    size_t clients_at = round_up(sizeof(board));
    size_t witnesses_at = clients_at + load->clients * sizeof(client_figures);
    size_t names_at = witnesses_at + witnesses * sizeof(witness);
    size_t size = names_at + names * MEASURE_NAME_MAX;
    char *memory =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (memory == MAP_FAILED)
        return NULL;
    board *self = (board *)(void *)memory;
    self->clients = (client_figures *)(void *)(memory + clients_at);
    self->witnesses = (witness *)(void *)(memory + witnesses_at);
    self->names = (char(*)[MEASURE_NAME_MAX])(void *)(memory + names_at);
    self->witness_count = witnesses;
    self->name_count = names;
    self->size = size;
    for (size_t i = 0; i < names && !load->hot; i++)
        snprintf(self->names[i], MEASURE_NAME_MAX, "%s/%s/%zu", load->prefix, system->id, i + 1);
    if (load->hot)
        snprintf(self->names[0], MEASURE_NAME_MAX, "%s/%s/hot", load->prefix, system->id);
    return self;
}

static void close_pipe(int pipe[2])
{
    for (int i = 0; i < 2; i++) {
        if (pipe[i] >= 0)
            close(pipe[i]);
    }
}

static bool run_load(run *self, measure_figures *figures, measure_reason *why)
{
    measure_reason untidy = {0};
    bool good = run_side(self, self->system->prepare, why);
    if (good) {
        good = !self->board->stop && run_clients(self, why);
        sum_up(self, figures);
        work_out(self, figures);
        good = judge(self, good, figures, why);
    }
    if (run_side(self, self->system->tidy, &untidy))
        return good;
    size_t used = strlen(why->text);
    snprintf(why->text + used, sizeof why->text - used, "%snot cleaned up: %s", used ? "; " : "",
             untidy.text);
    if (why->exit_status == 0)
        why->exit_status = untidy.exit_status;
    return false;
}

static bool run_with_pipes(run *self, measure_figures *figures, measure_reason *why)
{
    static const char doors[DOORS];
    bool good = pipe(self->ready) == 0 && pipe(self->go) == 0 &&
                pipe2(self->doors, O_NONBLOCK) == 0 && write(self->doors[1], doors, DOORS) == DOORS;
    if (good)
        good = run_load(self, figures, why);
    else
        measure_because(why, "no pipe: %s", strerror(errno));
    close_pipe(self->ready);
    close_pipe(self->go);
    close_pipe(self->doors);
    return good;
}

bool measure_run(const measure_system *system, const measure_load *load, measure_figures *figures,
                 measure_reason *why)
{
    run self = {.system = system, .load = load, .ready = {-1, -1}, .go = {-1, -1}, .cpu_ns = -1};
    *figures = (measure_figures){0};
    *why = (measure_reason){0};
    if (measure_stopped())
        return measure_because(why, "interrupted");
    if (load->clients < 1 || load->clients > MEASURE_CLIENTS_MAX || load->window_ms < 1)
        return measure_because(why, "a load of %u clients for %lld ms cannot be run", load->clients,
                               (long long)load->window_ms);
    self.board = board_new(system, load);
    if (!self.board)
        return measure_because(why, "no memory: %s", strerror(errno));
    running = self.board;
    /* It may have come before there was a board to stop. */
    if (measure_stopped())
        self.board->stop = true;
    bool good = run_with_pipes(&self, figures, why);
    running = NULL;
    munmap(self.board, self.board->size);
    return good;
}
