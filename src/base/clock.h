/* base/clock.h - the one local clock. */
#ifndef RL_CLOCK_H
#define RL_CLOCK_H

#include <stdint.h>

#define RL_NEVER INT64_MAX

/*
 * Microseconds, never going back. It counts the time the machine was suspended
 * (CLOCK_BOOTTIME): the server's clock went on meanwhile, and so did the TTL.
 */
int64_t rl_now_us(void);

/* base + add without overflow; RL_NEVER stays. */
int64_t rl_time_add(int64_t base_us, int64_t add_us);

#endif
