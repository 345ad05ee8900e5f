/* base/name.h - what a lock may be called; characters. */
#ifndef RL_NAME_H
#define RL_NAME_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

/*
 * 1 to ROWLOCK_NAME_MAX characters of valid UTF-8, no control characters, no white
 * space at either end (utf8mb4_bin pads: 'a' and 'a ' would be one name).
 */
rowlock_status rl_name_check(const char *name, rowlock_error *err) RL_MUST_USE;

/* The same for what names begin with, which may end with white space: 'two ' of 'two words'. */
rowlock_status rl_prefix_check(const char *prefix, rowlock_error *err) RL_MUST_USE;

/* The same for a text of 1 to `most` bytes; `what` it is. */
rowlock_status rl_text_check(const char *what, const char *text, size_t most,
                             rowlock_error *err) RL_MUST_USE;

/*
 * Decodes one character of strict UTF-8 (no overlong forms, no surrogates). Returns its
 * length in bytes, 0 when there is none.
 */
size_t rl_utf8_decode(const char *text, unsigned *code_point);

/* C0, DEL, C1, and the separators that break a line (U+2028, U+2029). */
bool rl_is_control(unsigned code_point);

/*
 * Copies UTF-8 for people: at most size - 1 bytes, cut between characters, control
 * characters and what is not UTF-8 as '?'.
 */
void rl_copy_label(char *to, size_t size, const char *from);

#endif
