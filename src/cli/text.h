/* cli/text.h - text for people: harmless, measured in columns of the terminal. */
#ifndef RL_CLI_TEXT_H
#define RL_CLI_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Once at the start: lets the C library know how wide characters are. */
void cli_text_start(void);

/*
 * A copy (free() it) in which nothing can steer a terminal or break a line: control
 * characters, what turns the direction of writing, invisible characters and bytes that
 * are not UTF-8 stand as \n, \x1b, \u202e. NULL when there is no memory.
 */
char *cli_printable(const char *text);

/* The same into a buffer, cut where it is full. Returns `out`. */
char *cli_printable_into(char *out, size_t size, const char *text);

/* Columns that a printable text takes. */
size_t cli_width(const char *text);

/* Bytes of the longest beginning of a printable text that takes at most so many columns,
 * and how many it does take. */
size_t cli_fit(const char *text, size_t columns, size_t *used);

/* Bytes of valid UTF-8 at `text` (1 to 4) and the character, or 0. */
size_t cli_utf8(const char *text, uint32_t *character);

/* A character that must not reach a terminal (or hides in it). */
bool cli_is_risky(uint32_t character);

/* "850ms", "3.2s", "45s", "3m12s", "2h05m", "3d04h"; "-" for a negative one. */
const char *cli_humane(int64_t ms, char *buffer, size_t size);

enum {
    CLI_HUMANE = 32 /* a buffer's size that is enough */
};

#endif
