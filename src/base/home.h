/* base/home.h - the process in which something was made; a fork()'s child is another. */
#ifndef RL_HOME_H
#define RL_HOME_H

#include <stdbool.h>
#include <sys/types.h>

typedef struct rl_home {
    pid_t pid;
    const volatile unsigned char *mark; /* a page that the kernel empties in a child; or NULL */
} rl_home;

rl_home rl_home_make(void);
void rl_home_end(rl_home *home);

/* Is this that process? Cheap: it is asked at every call, and getpid() is a system call. */
bool rl_home_is_here(const rl_home *home);

#endif
