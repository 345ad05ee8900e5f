/*
 * The checker on histories written by hand: each breaks one rule, and has a neighbour that
 * just keeps it. And the schedule: the same seed, the same run.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "faults/runs/checker.h"
#include "faults/runs/schedule.h"

/* ------------------------------------------------------------------------------ the checker */

/* Two users of a lease with a TTL of one second, two of a row lock, a job. */
#define WHO                                                                                        \
    "1 1 begin name=l mode=lease ttl=1000000 job=0\n"                                              \
    "1 2 begin name=l mode=lease ttl=1000000 job=0\n"                                              \
    "1 3 begin name=r mode=row ttl=1000000 job=0\n"                                                \
    "1 4 begin name=r mode=row ttl=1000000 job=0\n"                                                \
    "1 5 begin name=l mode=lease ttl=1000000 job=1\n"

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

/* This rule, and no other. */
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

#define GOT(at, who, wait, token)                                                                  \
#at "000 " #who " acquire wait=" #wait "\n" #at "500 " #who                                    \
        " acquired status=OK token=" #token " owner=o" #who " fenced=1\n"
#define GAVE(at, who) #at "000 " #who " release\n" #at "500 " #who " released status=OK\n"
#define STILL(at, who, remaining)                                                                  \
#at "100 " #who " checked from=" #at "000 status=OK remaining=" #remaining "\n"

static void test_one_after_the_other(void **state)
{
    (void)state;
    keeps(GOT(100, 1, 0, 1) STILL(110, 1, 900000) GAVE(120, 1) GOT(130, 2, 0, 2) GAVE(140, 2));
}

static void test_tokens(void **state)
{
    (void)state;
    breaks("token-once", GOT(100, 1, 0, 7) GAVE(120, 1) GOT(130, 2, 0, 7) GAVE(140, 2));
    breaks("token-rises", GOT(100, 3, 0, 7) GAVE(120, 3) GOT(130, 4, 0, 6) GAVE(140, 4));
    /* Both asked before either had it: the order is theirs. */
    keeps("100000 3 acquire wait=0\n100001 4 acquire wait=0\n"
          "100002 3 acquired status=OK token=7 owner=o3 fenced=1\n"
          "100003 4 acquired status=OK token=6 owner=o4 fenced=1\n");
}

static void test_two_holders(void **state)
{
    (void)state;
    breaks("two-holders", GOT(100, 1, 0, 1) GOT(2000, 2, 0, 2) STILL(2001, 1, 0));
    /* It asked before the other had it, and was stopped before it heard the answer. */
    keeps(GOT(100, 1, 0, 1) "2000100 2 acquire wait=0\n"
                            "2000200 2 acquired status=OK token=2 owner=o2 fenced=1\n"
                            "2000300 1 checked from=2000150 status=OK remaining=0\n");
    /* A command lived on, longer than a signal takes. */
    breaks("two-holders", GOT(100, 5, 0, 1) GOT(2000, 2, 0, 2) STILL(2400, 5, 0));
    keeps(GOT(100, 5, 0, 1) GOT(2000, 2, 0, 2) STILL(2050, 5, 0));
}

static void test_what_is_excepted(void **state)
{
    (void)state;
    keeps(GOT(100, 1, 0, 1) "150000 0 fault kind=break\n150100 0 healed kind=break\n" GOT(
        200, 2, 0, 2) STILL(210, 1, 800000));
    keeps(GOT(100, 1, 0, 1) "150000 0 fault kind=clock\n150100 0 healed kind=clock\n" GOT(
        200, 2, 0, 2) STILL(210, 1, 800000));
}

static void test_taken_early(void **state)
{
    (void)state;
    /* It died: what was acknowledged is held until the TTL is over. */
    breaks("taken-early", GOT(100, 1, 0, 1) "200000 0 died target=1 status=0\n" GOT(900, 2, 0, 2));
    keeps(GOT(100, 1, 0, 1) "200000 0 died target=1 status=0\n" GOT(1100, 2, 0, 2));
    /* Renewed, and taken before what was left is over. */
    breaks("taken-early", GOT(100, 1, 0, 1) STILL(900, 1, 950000) GOT(1500, 2, 0, 2));
    /* It had given it up. */
    keeps(GOT(100, 1, 0, 1) STILL(900, 1, 950000) "1400000 1 release\n" GOT(1500, 2, 0, 2));
}

static void test_row_locks(void **state)
{
    (void)state;
    breaks("row-two", GOT(100, 3, 0, 1) STILL(110, 3, 1) GOT(120, 4, 0, 2) STILL(130, 4, 1)
                          STILL(140, 3, 1) STILL(150, 4, 1));
    keeps(GOT(100, 3, 0, 1) STILL(110, 3, 1) GOT(120, 4, 0, 2) STILL(130, 4, 1) STILL(140, 4, 1));
    /* Its connection was killed: it may hear of it a little later, but not so late. */
    keeps(GOT(100, 3, 0, 1)
              STILL(110, 3, 1) "115000 0 fault kind=kill-connection\n"
                               "115001 0 healed kind=kill-connection\n" GOT(120, 4, 0, 2)
                                   STILL(130, 4, 1) STILL(140, 3, 1) STILL(150, 4, 1));
    breaks("row-two",
           GOT(100, 3, 0, 1)
               STILL(110, 3, 1) "115000 0 fault kind=kill-connection\n"
                                "115001 0 healed kind=kill-connection\n" GOT(120, 4, 0, 2)
                                    STILL(130, 4, 1) STILL(1940, 3, 1) STILL(1950, 4, 1));
}

#define ROW(at, version, status, owner, remaining)                                                 \
#at "100 0 row from=" #at "000 name=l version=" #version " status=" #status " owner=" #owner   \
        " remaining=" #remaining "\n"

static void test_rows(void **state)
{
    (void)state;
    keeps(GOT(100, 1, 0, 4) ROW(110, 4, held, o1, 990000) GAVE(120, 1) ROW(130, 4, free, o1, 0));
    breaks("row-back", ROW(100, 4, free, x, 0) ROW(110, 3, free, x, 0));
    /* A crash has forgotten an acquire that was acknowledged. */
    breaks("row-back", GOT(100, 1, 0, 4) ROW(110, 3, free, x, 0));
    breaks("row-back",
           GOT(100, 1, 0, 4) "105000 0 fault kind=server-kill\n"
                             "106000 0 healed kind=server-kill\n" ROW(110, 3, free, x, 0));
    keeps(ROW(100, 4, free, x, 0) "105000 0 fault kind=server-kill\n"
                                  "106000 0 healed kind=server-kill\n" ROW(110, 3, free, x, 0));
    breaks("row-ahead", ROW(100, 4, free, x, 0) GOT(110, 1, 0, 4));
    breaks("row-released", GOT(100, 1, 0, 4) GAVE(110, 1) ROW(120, 4, held, o1, 900000));
    breaks("row-dead",
           GOT(100, 1, 0, 4) "110000 0 died target=1 status=0\n" ROW(120, 4, held, o1, 2500000));
    keeps(GOT(100, 1, 0, 4) "110000 0 died target=1 status=0\n" ROW(120, 4, held, o1, 980000));
}

#define WRITE(at, who, seq, kind, status)                                                          \
#at "000 " #who " write kind=" #kind " seq=" #seq "\n" #at "500 " #who " wrote seq=" #seq      \
        " status=" #status "\n"
#define WRITTEN(id, token, owner, who, seq)                                                        \
    "9000000 0 written id=" #id " name=l token=" #token " owner=" #owner " writer=" #who           \
    " seq=" #seq " kind=fence\n"

static void test_writes(void **state)
{
    (void)state;
    keeps(GOT(100, 1, 0, 1) WRITE(110, 1, 1, fence, ok) GAVE(120, 1) GOT(130, 2, 0, 2)
              WRITE(140, 2, 1, token, ok) WRITTEN(1, 1, o1, 1, 1) WRITTEN(2, 2, o2, 2, 1));
    breaks("write-order",
           GOT(100, 1, 0, 1) WRITE(110, 1, 1, fence, ok) GAVE(120, 1) GOT(130, 2, 0, 2)
               WRITE(140, 2, 1, token, ok) WRITTEN(1, 2, o2, 2, 1) WRITTEN(2, 1, o1, 1, 1));
    breaks("write-owner", GOT(100, 1, 0, 1) WRITTEN(1, 1, o1, 1, 1) WRITTEN(2, 1, o2, 2, 1));
    breaks("write-lost", GOT(100, 1, 0, 1) WRITE(110, 1, 1, fence, ok));
    keeps(GOT(100, 1, 0, 1) WRITE(110, 1, 1, fence, unknown));
    breaks("write-refused",
           GOT(100, 1, 0, 1) WRITE(110, 1, 1, fence, refused) WRITTEN(1, 1, o1, 1, 1));
    breaks("write-late", GOT(100, 1, 0, 1) GOT(2000, 2, 0, 2) WRITE(2010, 1, 1, fence, ok)
                             WRITTEN(1, 1, o1, 1, 1));
    /* The table's own condition may accept it as long as nobody with a higher one wrote. */
    keeps(GOT(100, 1, 0, 1) GOT(2000, 2, 0, 2) WRITE(2010, 1, 1, token, ok)
              WRITTEN(1, 1, o1, 1, 1));
}

static void test_waits(void **state)
{
    (void)state;
    breaks("wait-bound", "100000 1 acquire wait=500000\n2800000 1 acquired status=TIMEOUT\n");
    /* The machine had no time for anybody; the process was stopped. */
    keeps("100000 1 acquire wait=500000\n2800000 1 acquired status=TIMEOUT\n"
          "1500000 0 late from=1000000\n");
    keeps("100000 1 acquire wait=500000\n200000 0 stop target=1\n2200000 0 continued target=1\n"
          "2800000 1 acquired status=TIMEOUT\n");
    breaks("wait-served", GOT(100, 2, 0, 1) GAVE(200, 2) "300000 1 acquire wait=4000000\n"
                                                         "4300000 1 acquired status=TIMEOUT\n");
    keeps(GOT(100, 2, 0, 1) "300000 1 acquire wait=4000000\n" GAVE(
        2000, 2) "4300000 1 acquired status=TIMEOUT\n");
    /* The dead hold nothing for longer than the TTL. */
    breaks("wait-served", GOT(100, 2, 0, 1) "200000 0 died target=2 status=0\n"
                                            "300000 1 acquire wait=9000000\n"
                                            "9300000 1 acquired status=OK token=2 owner=o1"
                                            " fenced=1\n");
    breaks("wait-served", GOT(100, 2, 0, 1) GAVE(200, 2) "4000000 1 acquire wait=0\n"
                                                         "4000100 1 acquired status=BUSY\n");
}

static void test_statuses(void **state)
{
    (void)state;
    keeps("100000 1 acquire wait=0\n100100 1 acquired status=BUSY\n");
    breaks("status", "100000 1 acquire wait=0\n100100 1 acquired status=SERVER\n");
    breaks("status", "100000 1 acquire wait=0\n100100 1 acquired status=UNAVAILABLE\n");
    keeps("100000 1 acquire wait=300000\n450000 1 acquired status=UNAVAILABLE\n");
    keeps("50000 0 fault kind=cut\n50001 0 healed kind=cut\n"
          "100000 1 acquire wait=0\n100100 1 acquired status=UNAVAILABLE\n");
    breaks("status", "50000 0 fault kind=cut\n50001 0 healed kind=cut\n"
                     "100000 1 acquire wait=0\n100100 1 acquired status=READONLY\n");
}

static void test_ends(void **state)
{
    (void)state;
    breaks("hung", "100 0 hung target=1\n101 0 died target=1 status=137\n");
    breaks("exit", "100 0 died target=1 status=139\n");
    breaks("exit", "100 0 died target=1 status=137\n"); /* not by us */
    keeps("99 0 kill target=1\n100 0 died target=1 status=137\n101 0 died target=2 status=0\n");
    keeps("100 0 died target=5 status=75\n");
    breaks("exit", "100 0 died target=5 status=99\n");
}

/* ------------------------------------------------------------------------------ the history */

static void test_history_is_strict(void **state)
{
    events all;
    model m;
    (void)state;
    assert_false(history_parse(&all, strdup("one two three\n")));
    history_free(&all);
    assert_true(history_parse(&all, strdup("5 1 acquired status=OK\n")));
    assert_false(model_build(&m, &all)); /* without its call */
    model_free(&m);
    history_free(&all);
}

static void test_values(void **state)
{
    events all;
    char text[10];
    (void)state;
    assert_true(history_parse(&all, strdup("7 1 b x=1\n5 2 a no=12 n=3 word=abc\n6 2 end\n")));
    assert_int_equal(all.count, 3);
    const event *e = &all.list[0];
    assert_true(event_is(e, "a") && e->at == 5 && e->who == 2);
    assert_int_equal(event_number(e, "n"), 3);
    assert_int_equal(event_number(e, "none"), 0);
    assert_true(event_has(e, "word", "abc"));
    assert_false(event_has(e, "word", "ab"));
    event_copy(e, "word", text, sizeof text);
    assert_string_equal(text, "abc");
    assert_true(event_is(&all.list[1], "end"));
    history_free(&all);
}

/* ----------------------------------------------------------------------------- the schedule */

static char *print(uint64_t seed)
{
    char *text = NULL;
    size_t size = 0;
    plan p = schedule(seed);
    FILE *out = open_memstream(&text, &size);
    schedule_print(&p, out);
    fclose(out);
    return text;
}

static void test_same_seed_same_schedule(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 200; seed++) {
        char *one = print(seed);
        char *again = print(seed);
        char *other = print(seed + 1);
        assert_string_equal(one, again);
        assert_string_not_equal(one, other);
        free(one);
        free(again);
        free(other);
    }
}

/* Else a seed in a report would mean another run after a change that nobody meant. */
static void test_a_seed_means_the_same_for_ever(void **state)
{
    (void)state;
    dice d = dice_of(42);
    assert_int_equal(dice_roll(&d, 1000000), 321849);
}

static void test_every_fault_comes(void **state)
{
    unsigned alone[FAULT_KINDS] = {0};
    unsigned mixed[FAULT_KINDS] = {0};
    (void)state;
    for (uint64_t seed = 1; seed <= 400; seed++) {
        plan p = schedule(seed);
        assert_true(p.fault_count <= PLAN_FAULTS);
        for (unsigned i = 0; i < p.fault_count; i++) {
            const planned_fault *f = &p.faults[i];
            (p.mixed ? mixed : alone)[f->kind]++;
            assert_true(f->at_ms > 0 && f->at_ms < p.active_ms);
            assert_true(i == 0 || p.faults[i - 1].at_ms <= f->at_ms);
            assert_true((f->last_ms > 0) == fault_lasts(f->kind));
        }
    }
    for (int kind = FAULT_NONE + 1; kind < FAULT_KINDS; kind++)
        assert_true(alone[kind] > 10 && mixed[kind] > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_after_the_other),
        cmocka_unit_test(test_tokens),
        cmocka_unit_test(test_two_holders),
        cmocka_unit_test(test_what_is_excepted),
        cmocka_unit_test(test_taken_early),
        cmocka_unit_test(test_row_locks),
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_writes),
        cmocka_unit_test(test_waits),
        cmocka_unit_test(test_statuses),
        cmocka_unit_test(test_ends),
        cmocka_unit_test(test_history_is_strict),
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_same_seed_same_schedule),
        cmocka_unit_test(test_a_seed_means_the_same_for_ever),
        cmocka_unit_test(test_every_fault_comes),
    };
    return cmocka_run_group_tests_name("runs", tests, NULL, NULL);
}
