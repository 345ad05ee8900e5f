/* cli/descendants.c - see descendants.h */
#include "descendants.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    PAUSE_FIRST_US = 500,
    PAUSE_MAX_US = 10000,
    GIVE_UP_US = 2000000 /* how long nothing but what cannot be ended may be left */
};

typedef enum kinship { UNKNOWN_KIN, OURS, FOREIGN } kinship;

typedef struct process {
    pid_t pid, parent, group, session;
    unsigned long long started; /* clock ticks since boot: tells a pid's users apart */
    bool alive;
    bool stopped;
    kinship kin;
} process;

typedef struct snapshot {
    process *processes; /* by pid */
    size_t count;
    size_t capacity;
} snapshot;

/* ------------------------------------------------------------------ looking */

/* The fields of a line of /proc/PID/stat; proc(5) counts them from 1, `state` is the 3rd. */
static bool parse_stat(const char *line, process *out)
{
    int pid, parent, group, session;
    long threads;
    char state;
    /* The command's name may hold blanks and parentheses: the last one ends it. */
    const char *rest = strrchr(line, ')');
    if (!rest || sscanf(line, "%d", &pid) != 1 ||
        sscanf(rest + 1,
               " %c %d %d %d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %ld %*d %llu",
               &state, &parent, &group, &session, &threads, &out->started) != 6)
        return false;
    out->pid = pid;
    out->parent = parent;
    out->group = group;
    out->session = session;
    out->kin = UNKNOWN_KIN;
    out->stopped = state == 'T';
    /* A process whose first thread has ended shows as a zombie while others run. */
    out->alive = threads > 1 || (state != 'Z' && state != 'X' && state != 'x');
    return true;
}

static bool read_process(int proc, const char *pid, process *out)
{
    char path[32];
    char line[1024]; /* a name is short, and all the rest are numbers */
    snprintf(path, sizeof path, "%.20s/stat", pid);
    int fd = openat(proc, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t length = read(fd, line, sizeof line - 1);
    close(fd);
    if (length <= 0)
        return false;
    line[length] = '\0';
    return parse_stat(line, out);
}

bool descendants_is_stopped(pid_t pid, pid_t group)
{
    char path[32];
    process one;
    snprintf(path, sizeof path, "/proc/%d", (int)pid);
    return read_process(AT_FDCWD, path, &one) && one.stopped && (!group || one.group == group);
}

static bool add(snapshot *all, const process *one)
{
    if (all->count == all->capacity) {
        size_t capacity = all->capacity ? all->capacity * 2 : 512;
        process *grown = realloc(all->processes, capacity * sizeof *grown);
        if (!grown)
            return false;
        all->processes = grown;
        all->capacity = capacity;
    }
    all->processes[all->count++] = *one;
    return true;
}

static int by_pid(const void *a, const void *b)
{
    const process *left = a;
    const process *right = b;
    return (left->pid > right->pid) - (left->pid < right->pid);
}

/* Every process there is. False: /proc cannot be read, or no memory. */
static bool look(snapshot *all)
{
    all->count = 0;
    DIR *proc = opendir("/proc");
    if (!proc)
        return false;
    bool fine = true;
    process one;
    for (struct dirent *entry; fine && (entry = readdir(proc));) {
        if (isdigit((unsigned char)entry->d_name[0]) &&
            read_process(dirfd(proc), entry->d_name, &one))
            fine = add(all, &one);
    }
    closedir(proc);
    if (!fine || all->count == 0)
        return false;
    qsort(all->processes, all->count, sizeof *all->processes, by_pid);
    return true;
}

static process *find(const snapshot *all, pid_t pid)
{
    process key = {.pid = pid};
    return bsearch(&key, all->processes, all->count, sizeof key, by_pid);
}

static bool is_among(const process *some, size_t count, const process *one)
{
    for (size_t i = 0; i < count; i++) {
        if (some[i].pid == one->pid && some[i].started == one->started)
            return true;
    }
    return false;
}

static bool was_before(const descendants *self, const process *one)
{
    return is_among(self->before, self->before_count, one);
}

/* What a process is, if that can be said without asking its parent. */
static kinship known_kin(const descendants *self, process *one)
{
    if (one->kin == UNKNOWN_KIN && was_before(self, one))
        one->kin = FOREIGN;
    else if (one->kin == UNKNOWN_KIN && one->parent == getpid())
        one->kin = OURS;
    return one->kin;
}

/* Goes up to an ancestor that is known, and tells all on the way. */
static void settle_kin(const descendants *self, const snapshot *all, process *one)
{
    kinship kin = UNKNOWN_KIN;
    process *p = one;
    for (size_t steps = 0; p && steps <= all->count; steps++, p = find(all, p->parent)) {
        kin = known_kin(self, p);
        if (kin != UNKNOWN_KIN)
            break;
    }
    if (kin == UNKNOWN_KIN)
        kin = FOREIGN; /* the top was reached */
    for (p = one; p && p->kin == UNKNOWN_KIN; p = find(all, p->parent))
        p->kin = kin;
}

/* Leaves only the descendants. */
static void keep_ours(const descendants *self, snapshot *all)
{
    size_t kept = 0;
    for (size_t i = 0; i < all->count; i++)
        settle_kin(self, all, &all->processes[i]);
    for (size_t i = 0; i < all->count; i++) {
        if (all->processes[i].kin == OURS)
            all->processes[kept++] = all->processes[i];
    }
    all->count = kept;
}

static bool look_for_ours(const descendants *self, snapshot *ours)
{
    if (!look(ours))
        return false;
    keep_ours(self, ours);
    return true;
}

static int count_alive(const snapshot *ours)
{
    int alive = 0;
    for (size_t i = 0; i < ours->count; i++)
        alive += ours->processes[i].alive;
    return alive;
}

/* ---------------------------------------------------------------- signalling */

/* Through a pidfd, checked against the start time: by now the pid may be somebody else's.
 * Where the kernel has no pidfds, by pid. */
static int signal_process(const process *one, int signo)
{
#if defined(SYS_pidfd_open) && defined(SYS_pidfd_send_signal)
    int fd = (int)syscall(SYS_pidfd_open, one->pid, 0);
    if (fd >= 0) {
        int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        char pid[16];
        process now;
        snprintf(pid, sizeof pid, "%d", (int)one->pid);
        int result = 0;
        if (read_process(proc, pid, &now) && now.started == one->started)
            result = (int)syscall(SYS_pidfd_send_signal, fd, signo, NULL, 0);
        int error = errno;
        close(proc);
        close(fd);
        errno = error;
        return result;
    }
    if (errno == ESRCH)
        return 0;
#endif
    return kill(one->pid, signo);
}

/*
 * Is the whole group of this descendant ours? Yes, if a descendant leads it; and if it is
 * in another session than we are: a session is only ever entered by being born in it, so
 * one of ours began it.
 */
static bool owns_group(const process *one)
{
    if (one->group <= 1 || one->group == getpgrp() || one->group == getpgid(getppid()))
        return false;
    return one->group == one->pid || one->session != getsid(0);
}

/* Returns how many are alive; *refused: how many of them may not be signalled. */
static int signal_all(const snapshot *ours, int signo, int *refused)
{
    int alive = 0;
    pid_t last_group = 0;
    *refused = 0;
    for (size_t i = 0; i < ours->count; i++) {
        const process *one = &ours->processes[i];
        if (!one->alive)
            continue;
        alive++;
        /* A group at once: what forks faster than we look cannot slip out of it. */
        if (signo == SIGKILL && one->group != last_group && owns_group(one)) {
            last_group = one->group;
            kill(-one->group, SIGKILL);
        }
        if (signal_process(one, signo) != 0 && errno == EPERM)
            ++*refused;
    }
    return alive;
}

/* -------------------------------------------------------------------- public */

bool descendants_start(descendants *self)
{
    *self = (descendants){0};
    snapshot ours = {0};
    if (!look_for_ours(self, &ours)) {
        free(ours.processes);
        return false;
    }
    self->before = ours.processes;
    self->before_count = ours.count;
    return true;
}

void descendants_finish(descendants *self)
{
    free(self->before);
    *self = (descendants){0};
}

int descendants_count(const descendants *self)
{
    snapshot ours = {0};
    int alive = look_for_ours(self, &ours) ? count_alive(&ours) : -1;
    free(ours.processes);
    return alive;
}

bool descendants_group_is_orphaned(pid_t group)
{
    snapshot all = {0};
    bool orphaned = look(&all);
    for (size_t i = 0; orphaned && i < all.count; i++) {
        const process *one = &all.processes[i];
        const process *parent = find(&all, one->parent);
        if (one->group != group || !parent || parent->pid == 1 || parent->pid == getpid())
            continue;
        orphaned = parent->group == group || parent->session != one->session;
    }
    free(all.processes);
    return orphaned;
}

int descendants_signal(const descendants *self, int signo)
{
    snapshot ours = {0};
    int refused;
    int alive = look_for_ours(self, &ours) ? signal_all(&ours, signo, &refused) : -1;
    free(ours.processes);
    return alive;
}

static void tell_new(const snapshot *ours, const descendants_told *told)
{
    for (size_t i = 0; i < ours->count; i++) {
        const process *one = &ours->processes[i];
        if (!one->alive || is_among(told->told, told->count, one))
            continue;
        signal_process(one, SIGTERM);
        if (one->stopped)
            signal_process(one, SIGCONT); /* else it would not hear it */
    }
}

void descendants_tell(const descendants *self, descendants_told *told)
{
    snapshot ours = {0};
    if (!look_for_ours(self, &ours)) {
        free(ours.processes);
        return;
    }
    tell_new(&ours, told);
    /* Who is gone needs no remembering: this look replaces the one before. */
    free(told->told);
    *told = (descendants_told){ours.processes, ours.count};
}

void descendants_forget(descendants_told *told)
{
    free(told->told);
    *told = (descendants_told){0};
}

static void pause_us(long us)
{
    nanosleep(&(struct timespec){.tv_nsec = us * 1000}, NULL);
}

/*
 * The proof that none is left is the kernel's word that we have no child: orphans become
 * our children, so any descendant alive hangs on a child of ours. Where there are
 * children from before, it is that /proc shows none, again and again.
 */
int descendants_end(const descendants *self, descendants_reap reap, void *data)
{
    const bool alone = self->before_count == 0;
    const long enough_us = alone ? GIVE_UP_US : 3 * PAUSE_MAX_US;
    snapshot ours = {0};
    int refused = 0;
    bool ended;
    long idle_us = 0; /* for so long there was nothing that could be signalled */
    long pause = PAUSE_FIRST_US;
    while (!(ended = reap(data)) && idle_us < enough_us) {
        int alive = look_for_ours(self, &ours) ? signal_all(&ours, SIGKILL, &refused) : 0;
        idle_us = alive == refused ? idle_us + pause : 0;
        pause_us(pause);
        pause = pause * 2 < PAUSE_MAX_US ? pause * 2 : PAUSE_MAX_US;
    }
    free(ours.processes);
    if (ended)
        return 0;
    /* A child that /proc does not show (hidepid) is somebody else's too. */
    return refused == 0 && alone ? 1 : refused;
}
