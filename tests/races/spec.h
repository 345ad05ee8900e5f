/*
 * races/spec.h - the form of a race:
 *
 *     # what it is about
 *     session a {
 *         step "a1" { acquire x lease }
 *         step "a2" { release x }
 *     }
 *     permutation "a1" "b1" "a2"
 *
 * A step has one command (see session.c). Each permutation runs on empty tables.
 */
#ifndef RACE_SPEC_H
#define RACE_SPEC_H

#include <stdbool.h>
#include <stddef.h>

enum { SESSIONS_MAX = 5, STEPS_MAX = 60, ORDER_MAX = 30, PERMUTATIONS_MAX = 20, COMMAND_MAX = 400 };

typedef struct race_step {
    char name[32];
    char command[COMMAND_MAX];
    size_t session;
} race_step;

typedef struct race_permutation {
    const race_step *order[ORDER_MAX];
    size_t count;
} race_permutation;

typedef struct race_spec {
    char sessions[SESSIONS_MAX][16];
    size_t session_count;
    race_step steps[STEPS_MAX];
    size_t step_count;
    race_permutation permutations[PERMUTATIONS_MAX];
    size_t permutation_count;
} race_spec;

/* Complains on stderr with the line. */
bool race_spec_read(const char *path, race_spec *spec);

#endif
