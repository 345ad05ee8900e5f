#include "base/clock.h"

#include <time.h>

int64_t rl_now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

int64_t rl_time_add(int64_t base_us, int64_t add_us)
{
    int64_t sum;
    if (base_us == RL_NEVER || __builtin_add_overflow(base_us, add_us, &sum))
        return RL_NEVER;
    return sum;
}
