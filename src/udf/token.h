/* udf/token.h - fencing tokens as text. */
#ifndef RL_UDF_TOKEN_H
#define RL_UDF_TOKEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * A number of 0 to 2^64-1 as rowlock writes it: digits alone, no sign, no blank, no leading
 * zero. False for anything else, and for NULL.
 */
bool rl_token_read(const char *text, size_t length, uint64_t *number);

#endif
