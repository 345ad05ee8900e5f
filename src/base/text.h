/* base/text.h - strings of bounded or growing size, arrays that grow, JSON. */
#ifndef RL_TEXT_H
#define RL_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/name.h"

/* A growing string. After an allocation failed, `failed` stays true and appends do nothing. */
typedef struct rl_buffer {
    char *text; /* NUL-terminated once anything was appended */
    size_t length;
    size_t capacity;
    bool failed;
} rl_buffer;

void rl_buffer_append(rl_buffer *buffer, const char *text, size_t length);
void rl_buffer_puts(rl_buffer *buffer, const char *text);
void rl_buffer_printf(rl_buffer *buffer, const char *format, ...) RL_PRINTF(2, 3);
/* The text with `value` for each `mark`. */
void rl_buffer_fill_in(rl_buffer *buffer, const char *text, const char *mark, const char *value);
void rl_buffer_free(rl_buffer *buffer);

/* The digits of a number, and an end; returns where that is. At most 21 bytes. */
char *rl_put_u64(char *to, uint64_t number);

/* FNV-1a. Not against people who look for collisions. */
uint64_t rl_hash(const char *text);

/* strdup that takes NULL. */
char *rl_strdup(const char *text);

/* free() for an owned text that is declared const. */
void rl_free_text(const char *text);

/* Texts that end together. After an allocation failed, `failed` stays true, and a text is "". */
typedef struct rl_texts {
    struct rl_kept_text *last;
    bool failed;
} rl_texts;

const char *rl_texts_keep(rl_texts *texts, const char *text);
void rl_texts_free(rl_texts *texts);

/* The bytes of `text` as two digits each; `to` has room for 2 * strlen(text) + 1. */
void rl_put_hex(char *to, const char *text);

/* Room behind the first `count` of `items`, a pointer that may change, for one more. False: no
 * memory, and all is as it was. */
#define RL_GROW(items, count, capacity) rl_array_grow(&(items), count, &(capacity), sizeof *(items))
bool rl_array_grow(void *items, size_t count, size_t *capacity, size_t size);

/* The JSON that carries many rows in one bound parameter. */
void rl_json_u64(rl_buffer *buffer, uint64_t value);
void rl_json_i64(rl_buffer *buffer, int64_t value);
/* A quoted, escaped string; `text` is valid UTF-8. */
void rl_json_string(rl_buffer *buffer, const char *text);

#endif
