/* udf/uuid.h - a UUID of version 7 (RFC 9562). */
#ifndef RL_UDF_UUID_H
#define RL_UDF_UUID_H

#include <stdint.h>

#define RL_UUID_TEXT 36

/*
 * 48 bits of milliseconds since 1970, 12 bits of the fraction of one, 62 bits of `random`: so
 * the texts sort by time, to a quarter of a microsecond. Writes RL_UUID_TEXT characters, no end.
 */
void rl_uuid7(int64_t seconds, uint32_t nanoseconds, uint64_t random, char text[RL_UUID_TEXT]);

#endif
