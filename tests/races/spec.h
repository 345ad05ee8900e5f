/*
 * races/spec.h - the form of a spec: the steps, and races of them, with the expected results.
 *
 *     # what it is about
 *     a1: acquire x lease
 *     a2: release x
 *     b1: acquire x lease wait=30000
 *     race
 *         a1 -> OK, token 1
 *         b1 -> waits
 *         a2 -> b1: OK, token 2
 *     or
 *         ...
 *
 * Several lines of a race may be written as one, apart by ` / `, and the first may stand behind
 * `race`:
 *
 *     race a1 -> OK, token 1 / b1 -> waits / a2 -> b1: OK, token 2
 *
 * A step's first letter is its session; it has one command (see session.c). Each race runs its
 * steps in their order, on empty tables. After `->` come the result of the last step of the line,
 * and those of waiting steps that it lets end; the other steps of the line are OK, or done. After
 * `or` comes the same race with other allowed results.
 *
 *     orders a1 a2 | b1
 *
 * The races below must have each order of these steps once in which a session's own steps are
 * ordered as here (other steps may stand between). `orders` alone ends that.
 *
 *     begins
 *         a1 -> OK, token 1
 *
 * Each race below begins so, until the next `begins` or `orders`.
 */
#ifndef RACE_SPEC_H
#define RACE_SPEC_H

#include <stdbool.h>
#include <stddef.h>

enum {
    SESSIONS_MAX = 5,
    STEPS_MAX = 60,
    ORDER_MAX = 30,
    RACES_MAX = 100,
    ORDERS_MAX = 8,
    WAYS_MAX = 2,
    COMMAND_MAX = 400,
    WANTED_MAX = 2000
};

typedef struct race_step {
    char name[32];
    char command[COMMAND_MAX];
    size_t session;
} race_step;

typedef struct race {
    const race_step *order[ORDER_MAX];
    size_t count;
    char wanted[WAYS_MAX][WANTED_MAX]; /* lines of the spec */
    size_t ways;
    unsigned line;
} race;

/* The steps of an `orders`, and its first race. */
typedef struct race_orders {
    const race_step *steps[ORDERS_MAX];
    size_t count;
    size_t begin;
} race_orders;

typedef struct race_spec {
    char sessions[SESSIONS_MAX][2];
    size_t session_count;
    race_step steps[STEPS_MAX];
    size_t step_count;
    race races[RACES_MAX];
    size_t race_count;
    race begins;
    bool in_begins;     /* the lines are those of `begins` */
    race_orders orders; /* the current one */
} race_spec;

/* Reads a spec; false if it is wrong, with a message on stderr that names the line. */
bool race_spec_read(const char *path, race_spec *spec);

#endif
