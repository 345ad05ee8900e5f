#include "base/random.h"

#include <stdio.h>
#include <sys/random.h>

#include "base/clock.h"

uint32_t rl_random_u32(void)
{
    uint32_t value;
    if (getrandom(&value, sizeof value, GRND_NONBLOCK) == (ssize_t)sizeof value)
        return value;
    return (uint32_t)rl_now_us() * 2654435761u;
}

bool rl_random_hex(char *hex, size_t bytes)
{
    unsigned char byte;
    for (; bytes > 0; bytes--, hex += 2) {
        if (getrandom(&byte, 1, 0) != 1)
            return false;
        snprintf(hex, 3, "%02x", byte);
    }
    return true;
}
