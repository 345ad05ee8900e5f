#include "fuzz.h"

#include "base/url.h"

_Noreturn void fuzz_fail(const char *file, int line, const char *what)
{
    fprintf(stderr, "%s:%d: not so: %s\n", file, line, what);
    abort();
}

char *fuzz_text(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    require(text);
    if (size)
        memcpy(text, data, size);
    text[size] = '\0';
    return text;
}

/* RFC 3629, section 4: which second bytes each first byte allows. */
size_t fuzz_utf8(const char *text, uint32_t *character)
{
    static const struct {
        unsigned char first, last, second_least, second_most;
        size_t length;
    } forms[] = {
        {0x01, 0x7f, 0, 0, 1},       {0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3},
        {0xe1, 0xec, 0x80, 0xbf, 3}, {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3},
        {0xf0, 0xf0, 0x90, 0xbf, 4}, {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4},
    };
    const unsigned char *s = (const unsigned char *)text;
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        if (s[0] < forms[i].first || s[0] > forms[i].last)
            continue;
        size_t length = forms[i].length;
        if (length == 1) {
            *character = s[0];
            return 1;
        }
        if (s[1] < forms[i].second_least || s[1] > forms[i].second_most)
            return 0;
        uint32_t c = s[0] & (0x7fU >> length);
        for (size_t at = 1; at < length; at++) {
            if (s[at] < 0x80 || s[at] > 0xbf)
                return 0;
            c = c << 6 | (s[at] & 0x3fU);
        }
        *character = c;
        return length;
    }
    return 0;
}

void fuzz_check_decoder(const char *text, size_t (*decode)(const char *, uint32_t *))
{
    for (; *text; text++) {
        uint32_t c = 0;
        uint32_t expected = 0;
        size_t length = decode(text, &c);
        require(length == fuzz_utf8(text, &expected));
        require(length == 0 || c == expected);
    }
}

bool fuzz_is_utf8(const char *text)
{
    uint32_t c;
    while (*text) {
        size_t length = fuzz_utf8(text, &c);
        if (length == 0)
            return false;
        text += length;
    }
    return true;
}

static bool is_control(uint32_t c)
{
    return c < 0x20 || (c >= 0x7f && c <= 0x9f) || c == 0x2028 || c == 0x2029;
}

bool fuzz_is_clean(const char *text)
{
    uint32_t c;
    while (*text) {
        size_t length = fuzz_utf8(text, &c);
        if (length == 0 || is_control(c))
            return false;
        text += length;
    }
    return true;
}

bool fuzz_same(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

void fuzz_check_refusal(rowlock_status status, const rowlock_error *err)
{
    require(status == ROWLOCK_INVALID);
    require(err->status == status);
    require(memchr(err->message, '\0', sizeof err->message));
    require(err->message[0]);
    require(fuzz_is_clean(err->message));
}

/* Asks the parser itself, as it may get more options. */
static bool is_option_of_url(const char *word)
{
    char text[64];
    rl_url url;
    rowlock_error err = {0};
    snprintf(text, sizeof text, "mysql://h/s?%s=%%", word);
    rowlock_status status = rl_url_parse(text, &url, &err);
    rl_url_free(&url);
    return status != ROWLOCK_OK && !strstr(err.message, "unknown");
}

/* The text in quotes in a message; NULL if there is none. */
static char *quotation(const char *message)
{
    const char *from = strstr(message, " '");
    const char *to = strrchr(message, '\'');
    return from && to > from + 1 ? strndup(from + 2, (size_t)(to - from) - 2) : NULL;
}

void fuzz_check_discreet(const char *url, const char *message)
{
    const char *authority = strstr(url, "://");
    const char *colon = authority ? strchr(authority + 3, ':') : NULL;
    const char *at = strrchr(url, '@');
    /* With a second @ the end of the password is not clear. */
    if (!colon || !at || at < colon || strchr(url, '@') != at)
        return;
    /* The message names a file that does not exist. */
    if (strstr(message, "cannot be read"))
        return;
    char *quoted = quotation(message);
    /* A ? may stand for a text that is not shown. */
    if (quoted && *quoted && !strchr(quoted, '?') && !is_option_of_url(quoted))
        require(!strstr(colon, quoted) || strstr(at, quoted));
    free(quoted);
}
