/* cli/supervisor.c - see supervisor.h. The parent's side; the process is supervise.c. */
#include "supervisor.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

int64_t supervisor_now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

bool supervisor_error_may_pass(int exec_error)
{
    return exec_error == EAGAIN || exec_error == ENOMEM || exec_error == EMFILE ||
           exec_error == ENFILE || exec_error == ETXTBSY;
}

bool supervisor_start(supervisor *self, const supervisor_job *job)
{
    int ends[2];
    supervisor_page *page =
        mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    /* SOCK_SEQPACKET keeps messages whole, and shows the end of the other side. */
    if (page == MAP_FAILED || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        return false;
    atomic_init(&page->kill_at_us, INT64_MAX);
    pid_t group = getpgrp();
    pid_t pid = fork();
    if (pid == 0) {
        close(ends[0]);
        supervise(job, ends[1], page, group);
    }
    close(ends[1]);
    *self = (supervisor){.pid = pid, .socket = ends[0], .page = page};
    return pid > 0;
}

/* Does not wait: a stopped supervisor must not stop us. */
static void send_order(supervisor *self, supervisor_order order, const int *sockets, size_t count)
{
    union {
        struct cmsghdr header; /* aligns `space` */
        char space[CMSG_SPACE(sizeof(int) * SUPERVISOR_SOCKETS)];
    } beside = {0};
    struct iovec part = {.iov_base = &order, .iov_len = sizeof order};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (count > 0) {
        message.msg_control = beside.space;
        message.msg_controllen = CMSG_SPACE(sizeof(int) * count);
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(int) * count);
        memcpy(CMSG_DATA(header), sockets, sizeof(int) * count);
    }
    sendmsg(self->socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static bool is_connection(int fd)
{
    int type;
    struct sockaddr_storage peer;
    socklen_t type_size = sizeof type;
    socklen_t peer_size = sizeof peer;
    return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &type_size) == 0 && type == SOCK_STREAM &&
           getpeername(fd, (struct sockaddr *)&peer, &peer_size) == 0;
}

/*
 * Lists the connected stream sockets of this process, the newest if there are too many. Some of
 * them the supervisor may have inherited; a second copy does no harm. Returns their number.
 */
static size_t find_connections(int *fds, size_t size)
{
    size_t count = 0;
    DIR *open_fds = opendir("/proc/self/fd");
    if (!open_fds)
        return 0;
    for (struct dirent *entry; (entry = readdir(open_fds));) {
        /* 0 for "." and ".."; stdin is no connection of ours */
        int fd = (int)strtol(entry->d_name, NULL, 10);
        if (fd > 0 && is_connection(fd))
            fds[count++ % size] = fd;
    }
    closedir(open_fds);
    return count < size ? count : size;
}

void supervisor_begin(supervisor *self, const supervisor_go *go, bool keep)
{
    int fds[SUPERVISOR_SOCKETS];
    size_t count = keep ? find_connections(fds, SUPERVISOR_SOCKETS) : 0;
    if (go->input > 0) {
        fds[0] = go->input;
        count = 1;
    }
    send_order(self, (supervisor_order){.kind = ORDER_BEGIN, .go = *go}, fds, count);
}

void supervisor_set_deadline(supervisor *self, int64_t kill_at_us)
{
    atomic_store(&self->page->kill_at_us, kill_at_us);
}

void supervisor_signal(supervisor *self, int number, bool heard)
{
    const supervisor_order order = {.kind = ORDER_SIGNAL, .number = number, .heard = heard};
    send_order(self, order, NULL, 0);
}

void supervisor_ask(supervisor *self, int number)
{
    send_order(self, (supervisor_order){.kind = ORDER_ASK, .number = number}, NULL, 0);
}

void supervisor_kill(supervisor *self)
{
    send_order(self, (supervisor_order){.kind = ORDER_KILL}, NULL, 0);
}

bool supervisor_receive(supervisor *self, supervisor_report *report)
{
    ssize_t length;
    do {
        length = recv(self->socket, report, sizeof *report, 0);
        /* ECONNRESET comes once, if it ended before it had read our last order. Its report can
         * still be read. */
    } while (length < 0 && (errno == EINTR || errno == ECONNRESET));
    return length == (ssize_t)sizeof *report;
}

int supervisor_finish(supervisor *self)
{
    int status;
    pid_t pid;
    if (self->pid <= 0)
        return -1;
    kill(self->pid, SIGKILL); /* it was not reaped, so the pid is still its own */
    /* Closed only now: before, it would have taken that for our death. */
    if (self->socket >= 0)
        close(self->socket);
    self->socket = -1;
    do {
        pid = waitpid(self->pid, &status, 0);
    } while (pid < 0 && errno == EINTR);
    bool found = pid == self->pid;
    self->pid = 0;
    return found ? status : -1;
}
