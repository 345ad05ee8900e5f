/* udf/values.h - what the functions in the server read and make. */
#ifndef RL_UDF_VALUES_H
#define RL_UDF_VALUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * A fencing token, a number of 0 to 2^64-1, as rowlock writes it: digits alone, no sign, no blank,
 * no leading zero. False for anything else, and for NULL.
 */
bool rl_token_read(const char *text, size_t length, uint64_t *number);

#define RL_UUID_TEXT 36

/*
 * A UUID of version 7 (RFC 9562): 48 bits of milliseconds since 1970, 12 bits of the fraction of
 * one, 62 bits of `random`: so the texts sort by time, to a quarter of a microsecond. Writes
 * RL_UUID_TEXT characters, no end.
 */
void rl_uuid7(int64_t seconds, uint32_t nanoseconds, uint64_t random, char text[RL_UUID_TEXT]);

#endif
