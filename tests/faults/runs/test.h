/*
 * runs/test.h - runs the checker on a history written by hand, after WHO, the lines with which each
 * history begins.
 */
#ifndef RUNS_TEST_H
#define RUNS_TEST_H

#include "faults/runs/checker.h"
#include "support/unit.h"

static verdict judge(const char *lines)
{
    events all;
    model m;
    char *said = NULL;
    size_t size = 0;
    char *text = NULL;
    assert_true(asprintf(&text, "%s%s", WHO, lines) > 0);
    assert_true(history_parse(&all, text));
    assert_true(model_build(&m, &all));
    FILE *out = open_memstream(&said, &size);
    verdict v = check(&m, out);
    fclose(out);
    if (v.violations)
        print_message("# %s", said);
    free(said);
    model_free(&m);
    history_free(&all);
    return v;
}

/* The history breaks this rule, and no other. */
static void breaks(const char *rule, const char *lines)
{
    char wanted[40];
    verdict v = judge(lines);
    snprintf(wanted, sizeof wanted, " %s ", rule);
    assert_string_equal(v.rules, wanted);
    assert_true(v.violations > 0);
}

static void keeps(const char *lines)
{
    verdict v = judge(lines);
    assert_string_equal(v.rules, "");
    assert_int_equal(v.violations, 0);
}

#endif
