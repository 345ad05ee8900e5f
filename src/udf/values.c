#include "udf/values.h"

bool rl_token_read(const char *text, size_t length, uint64_t *number)
{
    uint64_t value = 0;
    if (!text || length == 0 || (text[0] == '0' && length > 1))
        return false;
    for (size_t i = 0; i < length; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        if (__builtin_mul_overflow(value, UINT64_C(10), &value) ||
            __builtin_add_overflow(value, (uint64_t)(text[i] - '0'), &value))
            return false;
    }
    *number = value;
    return true;
}

static char *put_hex(char *to, uint64_t number, unsigned digits)
{
    while (digits-- > 0)
        *to++ = "0123456789abcdef"[number >> (4 * digits) & 0xf];
    return to;
}

void rl_uuid7(int64_t seconds, uint32_t nanoseconds, uint64_t random, char text[RL_UUID_TEXT])
{
    uint64_t ms = (uint64_t)seconds * 1000 + nanoseconds / 1000000;
    uint64_t fraction = (uint64_t)(nanoseconds % 1000000) * 4096 / 1000000;
    uint64_t variant = UINT64_C(2) << 62 | random >> 2;
    char *to = put_hex(text, ms >> 16, 8);
    *to++ = '-';
    to = put_hex(to, ms, 4);
    *to++ = '-';
    to = put_hex(to, UINT64_C(7) << 12 | fraction, 4);
    *to++ = '-';
    to = put_hex(to, variant >> 48, 4);
    *to++ = '-';
    put_hex(to, variant, 12);
}
