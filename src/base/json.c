#include "base/json.h"

#include <inttypes.h>
#include <stdio.h>

void rl_json_u64(rl_buffer *buffer, uint64_t value)
{
    char digits[24];
    int n = snprintf(digits, sizeof digits, "%" PRIu64, value);
    rl_buffer_append(buffer, digits, (size_t)n);
}

void rl_json_i64(rl_buffer *buffer, int64_t value)
{
    char digits[24];
    int n = snprintf(digits, sizeof digits, "%" PRId64, value);
    rl_buffer_append(buffer, digits, (size_t)n);
}

void rl_json_string(rl_buffer *buffer, const char *text)
{
    rl_buffer_append(buffer, "\"", 1);
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        char escaped[8];
        if (c == '"' || c == '\\')
            snprintf(escaped, sizeof escaped, "\\%c", c);
        else if (c < 0x20)
            snprintf(escaped, sizeof escaped, "\\u%04x", c);
        else
            snprintf(escaped, sizeof escaped, "%c", c);
        rl_buffer_puts(buffer, escaped);
    }
    rl_buffer_append(buffer, "\"", 1);
}
