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

bool rl_random_hex(char *hex, size_t bytes)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < bytes; i++) {
        unsigned char byte;
        if (getrandom(&byte, 1, 0) != 1)
            return false;
        *hex++ = digits[byte >> 4];
        *hex++ = digits[byte & 15];
    }
    *hex = '\0';
    return true;
}
