/* faults/crew.h - working threads, while somebody stops any statement of theirs. */
#ifndef FAULTS_CREW_H
#define FAULTS_CREW_H

#include "support/support.h"

enum { CREW = 4 };

/* One round of one thread, with a client of its own; the name is the same for all. */
typedef void (*crew_round)(rowlock_client *client, const char *name, unsigned who, unsigned number);

/* Runs all threads through so many rounds, during a storm of KILL QUERY. Statements that change
 * this table have to wait now and then, so that KILL QUERY hits them (may be NULL). Returns the
 * name. */
const char *crew_run(const char *word, const char *table, unsigned rounds, crew_round round);

/* Called in a round: if it is not good, prints that, lets the test fail, and ends all threads. */
void crew_expect(bool good, const char *what);
/* True: somebody has stopped it, so try again. A status other than OK and those of a stop fails the
 * test. */
bool crew_was_stopped(rowlock_status status, const rowlock_error *err);

#endif
