/*
 * support/witness.h - two threads that measure for how long a machine stands still: one is woken
 * every few milliseconds, one writes a byte to the disk. A test may be as late as they are.
 */
#ifndef TS_WITNESS_H
#define TS_WITNESS_H

#include <stdint.h>

/* The name of its threads. */
#define TS_WITNESS "rowlock witness"

/* Begins, unless it has begun. (A forked child has no witness.) */
void ts_witness(void);
/* Around a fork whose child starts threads: ThreadSanitizer allows that only if the parent has
 * none. */
void ts_witness_pause(void);
void ts_witness_resume(void);
/* For how long it stood still in the last ten seconds. ts_stood_ms(), in support.h, has the whole
 * time. */
int64_t ts_stood_lately_ms(void);

#endif
