/* base/random.h - for jitter, and for names that cannot be guessed. */
#ifndef RL_RANDOM_H
#define RL_RANDOM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Not for secrets: without entropy it is made of the time. */
uint32_t rl_random_u32(void);

/* `bytes` random ones, in hexadecimal digits with an end. False: the system has none to give. */
bool rl_random_hex(char *hex, size_t bytes);

#endif
