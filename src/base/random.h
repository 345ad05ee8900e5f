/* base/random.h - for jitter; not for secrets. */
#ifndef RL_RANDOM_H
#define RL_RANDOM_H

#include <stdint.h>

uint32_t rl_random_u32(void);

#endif
