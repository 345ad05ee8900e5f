/* base/json.h - writing the JSON that carries many rows in one bound parameter. */
#ifndef RL_JSON_H
#define RL_JSON_H

#include <stdint.h>

#include "base/text.h"

void rl_json_u64(rl_buffer *buffer, uint64_t value);
void rl_json_i64(rl_buffer *buffer, int64_t value);
/* A quoted, escaped string; `text` is valid UTF-8. */
void rl_json_string(rl_buffer *buffer, const char *text);

#endif
