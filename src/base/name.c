#include "base/name.h"

#include <string.h>

static bool continuation(unsigned char byte)
{
    return (byte & 0xc0) == 0x80;
}

size_t rl_utf8_decode(const char *text, unsigned *code_point)
{
    const unsigned char *s = (const unsigned char *)text;
    if (s[0] < 0x80) {
        *code_point = s[0];
        return s[0] ? 1 : 0;
    }
    size_t length = s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2;
    static const unsigned smallest[] = {0, 0, 0x80, 0x800, 0x10000};
    if (s[0] < 0xc2 || s[0] > 0xf4)
        return 0;
    unsigned value = s[0] & (0xffu >> (length + 1));
    for (size_t i = 1; i < length; i++) {
        if (!continuation(s[i]))
            return 0;
        value = value << 6 | (s[i] & 0x3fu);
    }
    if (value < smallest[length] || value > 0x10ffff || (value >= 0xd800 && value <= 0xdfff))
        return 0;
    *code_point = value;
    return length;
}

bool rl_is_control(unsigned c)
{
    return c < 0x20 || (c >= 0x7f && c <= 0x9f) || c == 0x2028 || c == 0x2029;
}

/* Unicode's White_Space, and the zero-width no-break space. */
static bool is_space(unsigned c)
{
    return c == 0x20 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x202f ||
           c == 0x205f || c == 0x3000 || c == 0xfeff;
}

rowlock_status rl_name_check(const char *name, rowlock_error *err)
{
    if (!name || !*name)
        return rl_fail(err, ROWLOCK_INVALID,
                       "the lock's name is empty; give one of 1 to %d characters",
                       ROWLOCK_NAME_MAX);
    unsigned c = 0;
    size_t count = 0;
    for (const char *at = name; *at;) {
        size_t length = rl_utf8_decode(at, &c);
        if (length == 0)
            return rl_fail(err, ROWLOCK_INVALID, "the lock's name is not valid UTF-8 (byte %zu)",
                           (size_t)(at - name) + 1);
        if (rl_is_control(c))
            return rl_fail(err, ROWLOCK_INVALID,
                           "the lock's name has a control character (U+%04X, character %zu)", c,
                           count + 1);
        if (count == 0 && is_space(c))
            return rl_fail(err, ROWLOCK_INVALID, "the lock's name '%s' begins with white space",
                           name);
        if (++count > ROWLOCK_NAME_MAX)
            return rl_fail(err, ROWLOCK_INVALID, "the lock's name is longer than %d characters",
                           ROWLOCK_NAME_MAX);
        at += length;
    }
    if (is_space(c))
        return rl_fail(err, ROWLOCK_INVALID, "the lock's name '%s' ends with white space", name);
    return ROWLOCK_OK;
}

void rl_copy_label(char *to, size_t size, const char *from)
{
    size_t used = 0;
    while (from && *from) {
        unsigned c = 0;
        size_t length = rl_utf8_decode(from, &c);
        bool plain = length > 0 && !rl_is_control(c);
        size_t width = plain ? length : 1;
        if (used + width + 1 > size)
            break;
        if (plain)
            memcpy(to + used, from, length);
        else
            to[used] = '?';
        used += width;
        from += length ? length : 1;
    }
    to[used] = '\0';
}
