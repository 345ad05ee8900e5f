/* support/unit.h - cmocka, and the system's headers that most tests use; tests that register
 * themselves. */
#ifndef TS_UNIT_H
#define TS_UNIT_H

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "rowlock/rowlock.h"

/* The unused argument of a test, a set-up or a tear-down. */
#define TS_NO_STATE void **state __attribute__((unused))

/* A test is TS_ONCE(name) { ... }, or, in both modes, TS_BOTH(name) { ... mode ... }. A program's
 * main() runs them in their order in the file: return ts_run("group", begin, end). TS_MAIN("group",
 * begin, end) is such a main(). */
#define TS_ONCE(name)                                                                              \
    static void name(void);                                                                        \
    __attribute__((constructor)) static void name##_is_a_test(void)                                \
    {                                                                                              \
        ts_add(#name, "", (ts_case){.once = name});                                                \
    }                                                                                              \
    static void name(void)
#define TS_BOTH(name)                                                                              \
    static void name(rowlock_mode mode);                                                           \
    __attribute__((constructor)) static void name##_is_a_test(void)                                \
    {                                                                                              \
        ts_add(#name, " (lease)", (ts_case){.in = name, .mode = ROWLOCK_OPTIMISTIC});              \
        ts_add(#name, " (pessimistic)", (ts_case){.in = name, .mode = ROWLOCK_PESSIMISTIC});       \
    }                                                                                              \
    static void name(rowlock_mode mode)

typedef struct ts_case {
    char name[120];
    void (*once)(void);
    void (*in)(rowlock_mode mode);
    rowlock_mode mode;
} ts_case;

static ts_case ts_cases[100];
static size_t ts_case_count;

static inline void ts_add(const char *name, const char *mode, ts_case of)
{
    ts_case *c = &ts_cases[ts_case_count++ % 100];
    *c = of;
    snprintf(c->name, sizeof c->name, "%s%s", name, mode);
}

static inline void ts_run_case(void **state)
{
    const ts_case *c = *state;
    if (c->once)
        c->once();
    else
        c->in(c->mode);
}

/* With a set-up and a tear-down for each test (NULL: none), and for all together. */
static inline int ts_run_each(const char *group, int (*before)(void **state),
                              int (*after)(void **state), int (*begin)(void **state),
                              int (*end)(void **state))
{
    static struct CMUnitTest tests[100];
    if (ts_case_count > 100)
        return 2;
    for (size_t i = 0; i < ts_case_count; i++)
        tests[i] = (struct CMUnitTest){ts_cases[i].name, ts_run_case, before, after, &ts_cases[i]};
    return _cmocka_run_group_tests(group, tests, ts_case_count, begin, end);
}

static inline int ts_run(const char *group, int (*begin)(void **state), int (*end)(void **state))
{
    return ts_run_each(group, NULL, NULL, begin, end);
}

#define TS_MAIN(group, begin, end)                                                                 \
    int main(void)                                                                                 \
    {                                                                                              \
        return ts_run(group, begin, end);                                                          \
    }

#endif
