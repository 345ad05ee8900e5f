#include "udf/token.h"

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
