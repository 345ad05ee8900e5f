/* cli/text.c - text for people: escaping, and widths in columns of the terminal. See cli.h */
#include "cli.h"

#include <inttypes.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

enum {
    ESCAPE_MAX = 12 /* "\U0010ffff" and its NUL */
};

static bool widths_known;

void cli_text_start(void)
{
    /* Names are UTF-8 whatever the user's locale is, and cron sets none. So wcwidth() uses a UTF-8
     * locale that always exists; other categories stay as they are. */
    widths_known = setlocale(LC_CTYPE, "C.UTF-8") != NULL;
}

size_t cli_utf8(const char *text, uint32_t *character)
{
    const unsigned char *s = (const unsigned char *)text;
    if (s[0] < 0x80) {
        *character = s[0];
        return s[0] ? 1 : 0;
    }
    size_t length = s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2;
    static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
    if (s[0] < 0xc2 || s[0] > 0xf4)
        return 0;
    uint32_t c = s[0] & (0x7fu >> length);
    for (size_t i = 1; i < length; i++) {
        if ((s[i] & 0xc0) != 0x80)
            return 0;
        c = c << 6 | (s[i] & 0x3f);
    }
    if (c < smallest[length] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
        return 0;
    *character = c;
    return length;
}

bool cli_is_risky(uint32_t c)
{
    static const struct {
        uint32_t first, last;
    } risky[] = {
        {0x0000, 0x001f},   /* C0 */
        {0x007f, 0x009f},   /* DEL, C1: some terminals obey these too */
        {0x00ad, 0x00ad},   /* soft hyphen */
        {0x061c, 0x061c},   /* Arabic letter mark */
        {0x180e, 0x180e},   /* Mongolian vowel separator: invisible */
        {0x200b, 0x200b},   /* zero width space */
        {0x200e, 0x200f},   /* direction marks */
        {0x2028, 0x202e},   /* line and paragraph separator, embedding, override */
        {0x2060, 0x206f},   /* word joiner, isolates, invisible operators */
        {0xfeff, 0xfeff},   /* byte order mark */
        {0xfff9, 0xfffb},   /* interlinear annotation */
        {0xe0000, 0xe007f}, /* tags: text that is not shown */
    };
    for (size_t i = 0; i < sizeof risky / sizeof risky[0]; i++) {
        if (c >= risky[i].first && c <= risky[i].last)
            return true;
    }
    return false;
}

static int character_width(uint32_t c)
{
    return widths_known ? wcwidth((wchar_t)c) : 1;
}

/* Writes the next character, as it is shown, to `out`. Returns its bytes in `text`. */
static size_t show_next(const char *text, char out[ESCAPE_MAX])
{
    uint32_t c;
    size_t length = cli_utf8(text, &c);
    if (length == 0) {
        snprintf(out, ESCAPE_MAX, "\\x%02x", (unsigned char)*text);
        return 1;
    }
    if (c == '\n' || c == '\t' || c == '\r')
        snprintf(out, ESCAPE_MAX, "\\%c", c == '\n' ? 'n' : c == '\t' ? 't' : 'r');
    else if (!cli_is_risky(c) && character_width(c) >= 0)
        snprintf(out, ESCAPE_MAX, "%.*s", (int)length, text);
    else if (c < 0x80)
        snprintf(out, ESCAPE_MAX, "\\x%02" PRIx32, c);
    else
        snprintf(out, ESCAPE_MAX, c > 0xffff ? "\\U%08" PRIx32 : "\\u%04" PRIx32, c);
    return length;
}

char *cli_printable_into(char *out, size_t size, const char *text)
{
    size_t used = 0;
    char shown[ESCAPE_MAX];
    while (*text) {
        text += show_next(text, shown);
        size_t length = strlen(shown);
        if (used + length >= size)
            break;
        memcpy(out + used, shown, length);
        used += length;
    }
    out[used] = '\0';
    return out;
}

char *cli_printable(const char *text)
{
    /* No byte becomes longer than the longest escape. */
    size_t size = strlen(text) * (ESCAPE_MAX - 1) + 1;
    char *wide = malloc(size);
    if (!wide)
        return NULL;
    cli_printable_into(wide, size, text);
    char *fitting = realloc(wide, strlen(wide) + 1);
    return fitting ? fitting : wide;
}

size_t cli_fit(const char *text, size_t columns, size_t *used)
{
    const char *p = text;
    uint32_t c;
    *used = 0;
    for (size_t length; (length = cli_utf8(p, &c)) > 0; p += length) {
        int width = character_width(c);
        size_t wanted = width > 0 ? (size_t)width : 0;
        if (*used + wanted > columns)
            break;
        *used += wanted;
    }
    return (size_t)(p - text);
}

size_t cli_width(const char *text)
{
    size_t columns;
    cli_fit(text, SIZE_MAX, &columns);
    return columns;
}

/* The longest end of a text that fits into `columns`. */
static const char *fitting_end(const char *text, size_t columns)
{
    for (size_t width; (width = cli_width(text)) > columns;) {
        uint32_t wide;
        size_t skipped;
        const size_t bytes = cli_fit(text, width - columns, &skipped);
        text += bytes > 0 ? bytes : cli_utf8(text, &wide);
    }
    return text;
}

char *cli_cut(const char *text, size_t columns, bool middle)
{
    const size_t at_end = middle ? (columns - 1) / 2 : 0;
    size_t used;
    char *cut = NULL;
    const size_t bytes = cli_fit(text, columns - 1 - at_end, &used);
    const char *end = at_end > 0 ? fitting_end(text, at_end) : "";
    return asprintf(&cut, "%.*s\xe2\x80\xa6%s", (int)bytes, text, end) < 0 ? NULL : cut;
}

const char *cli_humane(int64_t ms, char *buffer, size_t size)
{
    int64_t s = ms / 1000;
    int64_t minutes = s / 60;
    int64_t hours = minutes / 60;
    if (ms < 0)
        snprintf(buffer, size, "-");
    else if (ms < 1000)
        snprintf(buffer, size, "%" PRId64 "ms", ms);
    else if (ms < 10000)
        snprintf(buffer, size, "%" PRId64 ".%" PRId64 "s", s, ms % 1000 / 100);
    else if (s < 60)
        snprintf(buffer, size, "%" PRId64 "s", s);
    else if (minutes < 60)
        snprintf(buffer, size, "%" PRId64 "m%02" PRId64 "s", minutes, s % 60);
    else if (hours < 24)
        snprintf(buffer, size, "%" PRId64 "h%02" PRId64 "m", hours, minutes % 60);
    else
        snprintf(buffer, size, "%" PRId64 "d%02" PRId64 "h", hours / 24, hours % 24);
    return buffer;
}
