#include "base/text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool grow(rl_buffer *buffer, size_t need)
{
    if (buffer->failed)
        return false;
    if (need <= buffer->capacity)
        return true;
    size_t capacity = buffer->capacity ? buffer->capacity : 256;
    while (capacity < need)
        capacity *= 2;
    char *text = realloc(buffer->text, capacity);
    if (!text) {
        buffer->failed = true;
        return false;
    }
    buffer->text = text;
    buffer->capacity = capacity;
    return true;
}

void rl_buffer_append(rl_buffer *buffer, const char *text, size_t length)
{
    if (!grow(buffer, buffer->length + length + 1))
        return;
    memcpy(buffer->text + buffer->length, text, length);
    buffer->length += length;
    buffer->text[buffer->length] = '\0';
}

void rl_buffer_puts(rl_buffer *buffer, const char *text)
{
    rl_buffer_append(buffer, text, strlen(text));
}

void rl_buffer_printf(rl_buffer *buffer, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int size = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (size < 0 || !grow(buffer, buffer->length + (size_t)size + 1))
        return;
    va_start(args, format);
    vsnprintf(buffer->text + buffer->length, (size_t)size + 1, format, args);
    va_end(args);
    buffer->length += (size_t)size;
}

void rl_buffer_fill_in(rl_buffer *buffer, const char *text, const char *mark, const char *value)
{
    for (const char *found; (found = strstr(text, mark)); text = found + strlen(mark)) {
        rl_buffer_append(buffer, text, (size_t)(found - text));
        rl_buffer_puts(buffer, value);
    }
    rl_buffer_puts(buffer, text);
}

void rl_buffer_free(rl_buffer *buffer)
{
    free(buffer->text);
    *buffer = (rl_buffer){0};
}

char *rl_put_u64(char *to, uint64_t number)
{
    char digits[20];
    size_t count = 0;
    do
        digits[count++] = (char)('0' + number % 10);
    while ((number /= 10) > 0);
    while (count > 0)
        *to++ = digits[--count];
    *to = '\0';
    return to;
}

uint64_t rl_hash(const char *text)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * 0x100000001b3u;
    return hash;
}

char *rl_strdup(const char *text)
{
    return text ? strdup(text) : NULL;
}

void rl_free_text(const char *text)
{
    free((char *)(uintptr_t)text);
}

struct rl_kept_text {
    struct rl_kept_text *before;
    char text[];
};

const char *rl_texts_keep(rl_texts *texts, const char *text)
{
    const size_t size = strlen(text) + 1;
    struct rl_kept_text *kept = malloc(sizeof *kept + size);
    if (!kept) {
        texts->failed = true;
        return "";
    }
    kept->before = texts->last;
    texts->last = kept;
    return memcpy(kept->text, text, size);
}

void rl_texts_free(rl_texts *texts)
{
    for (struct rl_kept_text *kept; (kept = texts->last);) {
        texts->last = kept->before;
        free(kept);
    }
}

void rl_put_hex(char *to, const char *text)
{
    *to = '\0';
    for (; *text; text++, to += 2)
        snprintf(to, 3, "%02X", (unsigned char)*text);
}

/* `items` points to a pointer of any type: so it is copied. */
bool rl_array_grow(void *items, size_t count, size_t *capacity, size_t size)
{
    if (count < *capacity)
        return true;
    size_t more = *capacity ? *capacity * 2 : 32;
    void *grown = NULL;
    memcpy(&grown, items, sizeof grown);
    grown = reallocarray(grown, more, size);
    if (!grown)
        return false;
    memcpy(items, &grown, sizeof grown);
    *capacity = more;
    return true;
}

/* ------------------------------------------------------------------------------- JSON */

void rl_json_u64(rl_buffer *buffer, uint64_t value)
{
    char digits[24];
    rl_put_u64(digits, value);
    rl_buffer_puts(buffer, digits);
}

void rl_json_i64(rl_buffer *buffer, int64_t value)
{
    rl_buffer_printf(buffer, "%" PRId64, value);
}

void rl_json_string(rl_buffer *buffer, const char *text)
{
    rl_buffer_append(buffer, "\"", 1);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            rl_buffer_append(buffer, "\\", 1);
        if ((unsigned char)*text < 0x20)
            rl_buffer_printf(buffer, "\\u%04x", (unsigned)*text);
        else
            rl_buffer_append(buffer, text, 1);
    }
    rl_buffer_append(buffer, "\"", 1);
}
