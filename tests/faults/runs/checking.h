/* runs/checking.h - functions for the files of the checker. */
#ifndef RUNS_CHECKING_H
#define RUNS_CHECKING_H

#include "checker.h"

typedef struct checking {
    const model *m;
    FILE *out;
    verdict verdict;
} checking;

__attribute__((format(printf, 3, 4))) void complain(checking *c, const char *rule,
                                                    const char *format, ...);
/* How late events may be in this time because the machine was busy. */
int64_t check_lateness(const checking *c, int64_t from, int64_t to);
/* The server was killed in this time. */
bool check_crashed(const checking *c, int64_t from, int64_t to);
/* Its renewals may have failed or been late in this time. */
bool check_renewed_late(const checking *c, const process *p, int64_t from, int64_t to);
/* Checks the statuses and durations of calls at latches and barriers. */
void check_calls(checking *c);
/* Each probe must get this status for this call. */
void check_probes(checking *c, const char *rule, const char *verb, const char *status);

static inline bool call_is(const call *a, const char *verb, const char *status)
{
    return strcmp(a->verb, verb) == 0 && strcmp(a->status, status) == 0;
}

/* The run has a cause for this status of a call that took so long. */
bool check_explained(const checking *c, const char *status, int64_t took);

/* The call that had been told by then, with a higher token, that it has the lease; NULL: none. */
const hold *check_later_holder(const checking *c, const char *name, uint64_t token, int64_t before);

void check_latch(checking *c);
void check_once(checking *c);
void check_queue(checking *c);
void check_leaders(checking *c);
void check_barrier(checking *c);

#endif
