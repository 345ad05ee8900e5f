/* cli/run_sockets.c - see run_sockets.h */
#include "run_sockets.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static bool is_connection(int fd)
{
    int type;
    struct sockaddr_storage peer;
    socklen_t type_size = sizeof type;
    socklen_t peer_size = sizeof peer;
    return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &type_size) == 0 && type == SOCK_STREAM &&
           getpeername(fd, (struct sockaddr *)&peer, &peer_size) == 0;
}

static bool is_among(const int *fds, size_t count, int fd)
{
    for (size_t i = 0; i < count; i++) {
        if (fds[i] == fd)
            return true;
    }
    return false;
}

size_t run_sockets(const int *known, size_t known_count, int *fds, size_t size)
{
    size_t count = 0;
    DIR *open_fds = opendir("/proc/self/fd");
    if (!open_fds)
        return 0;
    for (struct dirent *entry; count < size && (entry = readdir(open_fds));) {
        int fd = (int)strtol(entry->d_name, NULL,
                             10); /* "." and ".." give 0: never a connection of ours */
        if (fd > 0 && !is_among(known, known_count, fd) && is_connection(fd))
            fds[count++] = fd;
    }
    closedir(open_fds);
    return count;
}

bool run_sockets_guard_standard(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF && open("/dev/null", O_RDWR | O_CLOEXEC) != fd)
            return false;
    }
    return true;
}
