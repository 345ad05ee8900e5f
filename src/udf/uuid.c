#include "udf/uuid.h"

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
