/*
 * bench/flush_delay.c - a slower disk: preloaded into a server, it makes each flush take
 * ROWLOCK_FLUSH_DELAY_US longer. A flush that waits lets others of its group go along, as on a disk
 * that is slow by itself.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

typedef int flush(int fd);

static void take_longer(void)
{
    const char *text = getenv("ROWLOCK_FLUSH_DELAY_US");
    const long us = text ? strtol(text, NULL, 10) : 0;
    const struct timespec time = {.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};
    nanosleep(&time, NULL);
}

int fdatasync(int fd)
{
    take_longer();
    flush *real = (flush *)dlsym(RTLD_NEXT, "fdatasync");
    return real(fd);
}

int fsync(int fd)
{
    take_longer();
    flush *real = (flush *)dlsym(RTLD_NEXT, "fsync");
    return real(fd);
}
