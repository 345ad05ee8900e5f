/*
 * support/counter.h - a counter that nothing protects but the lock under test: it is read, and some
 * moment later what was read plus one is written. Where two are at it at once, an update is lost.
 */
#ifndef TS_COUNTER_H
#define TS_COUNTER_H

#include "support.h"

/* In the table `counter` (name, value, token), which is made where it is missing. */
void ts_counter_make(MYSQL *mysql, const char *name);
uint64_t ts_counter_value(MYSQL *mysql, const char *name);
/*
 * Adds one; what it was is in *before. `token`: must be above that of the one before; 0: there is
 * no lock. False, and a line on stderr, when it is not, or when a statement fails.
 */
bool ts_counter_add(MYSQL *mysql, const char *name, uint64_t token, unsigned moment_us,
                    uint64_t *before);

#endif
