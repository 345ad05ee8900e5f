#include "base/home.h"

#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

/* Whole pages: the kernel rounds up. */
#define MARK_SIZE 1

/* NULL where the kernel cannot do that (before 4.14), or has no memory. */
static unsigned char *make_mark(void)
{
    unsigned char *mark =
        mmap(NULL, MARK_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mark == MAP_FAILED)
        return NULL;
    if (madvise(mark, MARK_SIZE, MADV_WIPEONFORK) != 0) {
        munmap(mark, MARK_SIZE);
        return NULL;
    }
    *mark = 1;
    return mark;
}

rl_home rl_home_make(void)
{
    return (rl_home){.pid = getpid(), .mark = make_mark()};
}

void rl_home_end(rl_home *home)
{
    if (home->mark)
        munmap((void *)(uintptr_t)home->mark, MARK_SIZE);
    home->mark = NULL;
}

bool rl_home_is_here(const rl_home *home)
{
    return home->mark ? *home->mark == 1 : home->pid == getpid();
}
