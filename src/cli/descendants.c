/* cli/descendants.c - see descendants.h */
#include "descendants.h"

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
    GIVE_UP_US = 2000000 /* for how long only unkillable ones may be left */
};

typedef struct process {
    pid_t pid, parent, group, session;
    unsigned long long started; /* clock ticks since boot: the pid may be used again */
    bool alive;
    bool stopped;
    bool ours;
} process;

/* ------------------------------------------------------------------ looking */

/* Parses a line of /proc/PID/stat. proc(5) counts the fields from 1; `state` is the 3rd. */
static bool parse_stat(const char *line, process *out)
{
    long threads;
    char state;
    /* The command's name may contain blanks and parentheses: the last parenthesis ends it. */
    const char *rest = strrchr(line, ')');
    if (!rest ||
        sscanf(rest + 1,
               " %c %d %d %d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %ld %*d %llu",
               &state, &out->parent, &out->group, &out->session, &threads, &out->started) != 6)
        return false;
    out->stopped = state == 'T';
    /* A process whose first thread has ended shows as a zombie while others run. */
    out->alive = threads > 1 || (state != 'Z' && state != 'X' && state != 'x');
    return true;
}

static bool read_process(pid_t pid, process *out)
{
    char path[32];
    char line[1024]; /* enough: the name is short, and all other fields are numbers */
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t length = read(fd, line, sizeof line - 1);
    close(fd);
    if (length <= 0)
        return false;
    line[length] = '\0';
    *out = (process){.pid = pid};
    return parse_stat(line, out);
}

bool descendants_is_stopped(pid_t pid, pid_t group)
{
    process one;
    return read_process(pid, &one) && one.stopped && (!group || one.group == group);
}

static bool add(process_list *all, const process *one)
{
    if (all->count == all->room) {
        size_t room = all->room ? all->room * 2 : 512;
        process *grown = realloc(all->processes, room * sizeof *grown);
        if (!grown)
            return false;
        all->processes = grown;
        all->room = room;
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

/* Lists all processes. False: /proc cannot be read, or out of memory. */
static bool look(process_list *all)
{
    all->count = 0;
    DIR *proc = opendir("/proc");
    if (!proc)
        return false;
    bool fine = true;
    process one;
    for (struct dirent *entry; fine && (entry = readdir(proc));) {
        const pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10); /* 0: not a pid */
        if (pid > 0 && read_process(pid, &one))
            fine = add(all, &one);
    }
    closedir(proc);
    if (!fine || all->count == 0)
        return false;
    qsort(all->processes, all->count, sizeof *all->processes, by_pid);
    return true;
}

static process *find(const process_list *all, pid_t pid)
{
    process key = {.pid = pid};
    return bsearch(&key, all->processes, all->count, sizeof key, by_pid);
}

static bool is_among(const process_list *some, const process *one)
{
    for (size_t i = 0; i < some->count; i++) {
        const process *other = &some->processes[i];
        if (other->pid == one->pid && other->started == one->started)
            return true;
    }
    return false;
}

/* Marks our children, and the children of marked processes. False: there was none left to mark. */
static bool mark_more(const process_list *before, const process_list *all)
{
    const pid_t us = getpid();
    bool more = false;
    for (size_t i = 0; i < all->count; i++) {
        process *one = &all->processes[i];
        const process *parent = find(all, one->parent);
        if (one->ours || (one->parent != us && !(parent && parent->ours)) || is_among(before, one))
            continue;
        one->ours = more = true;
    }
    return more;
}

/* Removes all but our descendants. */
static void keep_ours(const process_list *before, process_list *all)
{
    size_t kept = 0;
    /* Most children have a higher pid than their parent, so one round finds nearly all. */
    while (mark_more(before, all))
        continue;
    for (size_t i = 0; i < all->count; i++) {
        if (all->processes[i].ours)
            all->processes[kept++] = all->processes[i];
    }
    all->count = kept;
}

static bool look_for_ours(const process_list *before, process_list *ours)
{
    if (!look(ours))
        return false;
    keep_ours(before, ours);
    return true;
}

/* ---------------------------------------------------------------- signalling */

/* Sends through a pidfd, after a check of the start time, since another process may have the pid by
 * now. On a kernel without pidfds it sends by pid. */
static int signal_process(const process *one, int signo)
{
#if defined(SYS_pidfd_open) && defined(SYS_pidfd_send_signal)
    int fd = (int)syscall(SYS_pidfd_open, one->pid, 0);
    if (fd >= 0) {
        process now;
        int result = 0;
        if (read_process(one->pid, &now) && now.started == one->started)
            result = (int)syscall(SYS_pidfd_send_signal, fd, signo, NULL, 0);
        int error = errno;
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
 * The whole process group of this descendant is ours if a descendant leads it, or if it is in
 * another session than we are: processes enter a session only by birth, so one of ours began it.
 */
static bool owns_group(const process *one)
{
    if (one->group <= 1 || one->group == getpgrp() || one->group == getpgid(getppid()))
        return false;
    return one->group == one->pid || one->session != getsid(0);
}

/* Sends SIGKILL. Returns how many are alive; *refused: how many of them we may not signal. */
static int kill_all(const process_list *ours, int *refused)
{
    int alive = 0;
    pid_t last_group = 0;
    *refused = 0;
    for (size_t i = 0; i < ours->count; i++) {
        const process *one = &ours->processes[i];
        if (!one->alive)
            continue;
        alive++;
        /* Kills a whole group at once: a process that forks faster than we look cannot escape
         * that. */
        if (one->group != last_group && owns_group(one)) {
            last_group = one->group;
            kill(-one->group, SIGKILL);
        }
        if (signal_process(one, SIGKILL) != 0 && errno == EPERM)
            ++*refused;
    }
    return alive;
}

/* -------------------------------------------------------------------- public */

void descendants_forget(process_list *list)
{
    free(list->processes);
    *list = (process_list){0};
}

bool descendants_start(process_list *before)
{
    static const process_list none;
    *before = none;
    if (look_for_ours(&none, before))
        return true;
    descendants_forget(before);
    return false;
}

int descendants_count(const process_list *before)
{
    process_list ours = {0};
    int alive = 0;
    if (!look_for_ours(before, &ours))
        ours.count = 0;
    for (size_t i = 0; i < ours.count; i++)
        alive += ours.processes[i].alive;
    descendants_forget(&ours);
    return alive;
}

bool descendants_group_is_orphaned(pid_t group)
{
    process_list all = {0};
    bool orphaned = look(&all);
    for (size_t i = 0; orphaned && i < all.count; i++) {
        const process *one = &all.processes[i];
        const process *parent = find(&all, one->parent);
        if (one->group != group || !parent || parent->pid == 1 || parent->pid == getpid())
            continue;
        orphaned = parent->group == group || parent->session != one->session;
    }
    descendants_forget(&all);
    return orphaned;
}

static void tell_new(const process_list *ours, const process_list *told)
{
    for (size_t i = 0; i < ours->count; i++) {
        const process *one = &ours->processes[i];
        if (!one->alive || is_among(told, one))
            continue;
        signal_process(one, SIGTERM);
        /* A stopped process would not handle SIGTERM, and others may be stopped at any moment. */
        signal_process(one, SIGCONT);
    }
}

void descendants_tell(const process_list *before, process_list *told)
{
    process_list ours = {0};
    if (!look_for_ours(before, &ours)) {
        descendants_forget(&ours);
        return;
    }
    tell_new(&ours, told);
    /* Processes that have ended need not be remembered: this list replaces the last one. */
    descendants_forget(told);
    *told = ours;
}

static void pause_us(long us)
{
    nanosleep(&(struct timespec){.tv_nsec = us * 1000}, NULL);
}

/*
 * None is left when the kernel says that we have no child: orphans become our children, so a living
 * descendant always has an ancestor among these. If we had children before, none is left when /proc
 * has shown none several times.
 */
int descendants_end(const process_list *before, descendants_reap reap, void *data)
{
    const bool alone = before->count == 0;
    const long enough_us = alone ? GIVE_UP_US : 3 * PAUSE_MAX_US;
    process_list ours = {0};
    int refused = 0;
    bool ended;
    long idle_us = 0; /* how long there was no process that we may signal */
    long pause = PAUSE_FIRST_US;
    while (!(ended = reap(data)) && idle_us < enough_us) {
        int alive = look_for_ours(before, &ours) ? kill_all(&ours, &refused) : 0;
        idle_us = alive == refused ? idle_us + pause : 0;
        pause_us(pause);
        pause = pause * 2 < PAUSE_MAX_US ? pause * 2 : PAUSE_MAX_US;
    }
    descendants_forget(&ours);
    if (ended)
        return 0;
    /* A child that /proc does not show (hidepid) belongs to another user. */
    return refused == 0 && alone ? 1 : refused;
}
