#include "base/random.h"

#include <sys/random.h>

#include "base/clock.h"

uint32_t rl_random_u32(void)
{
    uint32_t value;
    if (getrandom(&value, sizeof value, GRND_NONBLOCK) == (ssize_t)sizeof value)
        return value;
    return (uint32_t)rl_now_us() * 2654435761u;
}
