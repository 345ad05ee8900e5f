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

/* A text that is too long or unclean, for a message: the first characters of it. The procedures
 * show a name so, too. */
enum { SHOWN_MOST = 40, SHOWN_CUT = 37, SHOWN_SIZE = 4 * (SHOWN_MOST + 1) + 1 };

static const char *show(const char *text, char shown[SHOWN_SIZE])
{
    char *cut = NULL;
    unsigned count = 0;
    unsigned c;
    rl_copy_label(shown, SHOWN_SIZE, text);
    for (char *at = shown; *at; at += rl_utf8_decode(at, &c), count++)
        if (count == SHOWN_CUT)
            cut = at;
    if (count > SHOWN_MOST)
        memcpy(cut, "...", sizeof "...");
    return shown;
}

/* What a name and the beginning of one have in common. `what` it is; `last`: its last character. */
static rowlock_status check_characters(const char *what, const char *text, size_t most,
                                       unsigned *last, rowlock_error *err)
{
    char shown[SHOWN_SIZE];
    size_t count = 0;
    if (!text || !*text)
        return rl_fail(err, ROWLOCK_INVALID, "%s is empty; give one of 1 to %zu characters", what,
                       most);
    for (const char *at = text; *at;) {
        size_t length = rl_utf8_decode(at, last);
        if (length == 0)
            return rl_fail(err, ROWLOCK_INVALID, "%s is not valid UTF-8 (byte %zu)", what,
                           (size_t)(at - text) + 1);
        if (rl_is_control(*last))
            return rl_fail(err, ROWLOCK_INVALID,
                           "%s '%s' has a control character (U+%04X, character %zu; shown as ?); "
                           "take it out",
                           what, show(text, shown), *last, count + 1);
        if (count == 0 && is_space(*last))
            return rl_fail(err, ROWLOCK_INVALID, "%s '%s' begins with white space", what, text);
        if (++count > most)
            return rl_fail(err, ROWLOCK_INVALID,
                           "%s '%s' is longer than %zu characters; give a shorter one", what,
                           show(text, shown), most);
        at += length;
    }
    return ROWLOCK_OK;
}

rowlock_status rl_name_check(const char *name, rowlock_error *err)
{
    unsigned last = 0;
    RL_TRY(check_characters("the lock's name", name, ROWLOCK_NAME_MAX, &last, err));
    if (is_space(last))
        return rl_fail(err, ROWLOCK_INVALID, "the lock's name '%s' ends with white space", name);
    return ROWLOCK_OK;
}

rowlock_status rl_prefix_check(const char *prefix, rowlock_error *err)
{
    unsigned last = 0;
    return check_characters("the prefix", prefix, ROWLOCK_NAME_MAX, &last, err);
}

rowlock_status rl_text_check(const char *what, const char *text, size_t most, rowlock_error *err)
{
    unsigned last = 0;
    if (strlen(text) > most)
        return rl_fail(err, ROWLOCK_INVALID, "%s is longer than %zu bytes", what, most);
    RL_TRY(check_characters(what, text, most, &last, err));
    if (is_space(last))
        return rl_fail(err, ROWLOCK_INVALID, "%s '%s' ends with white space", what, text);
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
