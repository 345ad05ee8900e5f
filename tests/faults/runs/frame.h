/*
 * runs/frame.h - the frame of seeded runs on one server or several: which seeds, how many at a
 * time, the history of each, the checker's verdict, and a line of TAP.
 *
 *   PROGRAM [--seed S] [--runs N] [--jobs J] [--folder DIR] [--actor PROGRAM --expect RULE,...] ...
 *   PROGRAM --check DIR     a history that was kept
 *
 * Seeds S (1) to S + N - 1 (N: 1), J (1) at a time, each beside private servers of its own. The
 * history of a failed run is kept in DIR (a new one under TMPDIR), with its plan and the checker's
 * output. --expect: the actor is built on a broken lock; a run has passed if one of these rules was
 * found broken, and all the runs together pass if one did.
 *
 * Environment: ROWLOCK_TOOLS.
 */
#ifndef RUNS_FRAME_H
#define RUNS_FRAME_H

#include <getopt.h>

#include "faults/runs/checker.h"
#include "support/support.h"

typedef struct run_options {
    uint64_t seed;
    unsigned runs;
    unsigned jobs;
    char folder[300];
    char actor[400];
    const char *expect; /* NULL: no violation is expected */
} run_options;

typedef struct frame {
    const char *test;             /* the test's name in ctest */
    const char *actor;            /* the program of a run's processes, beside this one */
    const struct option *options; /* FRAME_OPTIONS and its own */
    bool (*take)(int option, const char *argument);
    /* Begins and ends a world for the seeds of one job, which run one after the other. */
    void *(*begin)(const run_options *o, unsigned job);
    void (*end)(void *world);
    /* Runs: makes the folder with the history and the plan. */
    void (*live)(void *world, uint64_t seed, const char *folder);
    /* Describes what was checked, and after "; " what has happened. */
    void (*tell)(uint64_t seed, const model *m, char line[300]);
} frame;

#define FRAME_OPTIONS                                                                              \
    {"seed", required_argument, NULL, 's'}, {"runs", required_argument, NULL, 'n'},                \
        {"jobs", required_argument, NULL, 'j'}, {"folder", required_argument, NULL, 'f'},          \
        {"actor", required_argument, NULL, 'a'}, {"expect", required_argument, NULL, 'e'},         \
    {                                                                                              \
        "check", required_argument, NULL, 'c'                                                      \
    }

int frame_run(const frame *f, int argc, char **argv);
/* Opens a file in the folder for writing. */
FILE *frame_file(const char *folder, const char *name);
/* How many acquires succeeded. */
size_t frame_acquired(const model *m);

#endif
