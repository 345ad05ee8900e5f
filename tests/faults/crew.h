/* faults/crew.h - working threads, while somebody stops any statement of theirs. */
#ifndef FAULTS_CREW_H
#define FAULTS_CREW_H

#include "support/support.h"

enum { CREW = 4 };

/* One round of one of them, with a client of its own; the name is the same for all. */
typedef void (*crew_round)(rowlock_client *client, const char *name, unsigned who, unsigned number);

/* All of them go through so many rounds, beside as many KILL QUERY as go. Whatever changes this
 * table is kept waiting now and then, so that they meet it (NULL: none is). Returns the name. */
const char *crew_run(const char *word, const char *table, unsigned rounds, crew_round round);

/* In a round: else it is told, the test has failed, and all come to an end. */
void crew_expect(bool good, const char *what);
/* True: somebody has stopped it, and it is to be tried again. OK, or one of the statuses that say
 * so, or the test has failed. */
bool crew_was_stopped(rowlock_status status, const rowlock_error *err);

#endif
