/*
 * support/witness.h - two threads that see a machine that stands still: one is woken every few
 * milliseconds, one writes a byte to the disk. How late they are is what a test may be late.
 */
#ifndef TS_WITNESS_H
#define TS_WITNESS_H

#include <stdint.h>

/* Begins, where it has not. (A forked child has no witness, and knows nothing of its own.) */
void ts_witness(void);
/* Around a fork whose child starts threads: ThreadSanitizer bears that only where the parent had
 * none. */
void ts_witness_pause(void);
void ts_witness_resume(void);
/* What was seen of the last ten seconds. ts_stood_ms(), all of it, is in support.h. */
int64_t ts_stood_lately_ms(void);

#endif
