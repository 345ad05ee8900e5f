/*
 * quorum/plan.h - the plan of a run on several servers, made from its seed alone: how many members
 * the quorum has, the processes that use its one lease, and which fault comes when. Three runs of
 * four have one kind of fault, the fourth has several.
 */
#ifndef QUORUM_PLAN_H
#define QUORUM_PLAN_H

#include "faults/runs/schedule.h"

enum { QUORUM_MEMBERS = 5, QUORUM_ACTORS = 6, QUORUM_FAULTS_MOST = 10, QUORUM_NOBODY = 99 };

typedef struct quorum_actor {
    unsigned proxied; /* bit i: it reaches member i through the proxy */
    int64_t ttl_ms;
    int64_t respawn_ms; /* after its death another process starts so much later */
    uint64_t seed;
} quorum_actor;

typedef struct quorum_plan {
    uint64_t seed;
    bool mixed;
    unsigned members;
    unsigned loose; /* the member that does not flush its commits; QUORUM_NOBODY: all do */
    int64_t ttl_most_ms;
    int64_t active_ms;
    quorum_actor actors[QUORUM_ACTORS];
    unsigned actor_count;
    planned_fault faults[QUORUM_FAULTS_MOST]; /* sorted by time */
    unsigned fault_count;
} quorum_plan;

/* `alone`: only this kind of fault, whatever the seed says; FAULT_NO_KIND: as the seed says. */
quorum_plan quorum_schedule(uint64_t seed, fault_kind alone);
/* The fault is one of these runs'. */
bool quorum_knows(fault_kind kind);
void quorum_print(const quorum_plan *p, FILE *out);

#endif
