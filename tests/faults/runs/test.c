/*
 * The checker on histories written by hand: each breaks one rule, and has a neighbour that
 * just keeps it. And the schedule: every fault comes.
 */
#include "faults/runs/checker.h"
#include "faults/runs/schedule.h"
#include "support/unit.h"

/* Two users of a lease with a TTL of one second, two of a row lock. */
#define WHO                                                                                        \
    "1 1 begin name=l mode=lease ttl=1000000\n"                                                    \
    "1 2 begin name=l mode=lease ttl=1000000\n"                                                    \
    "1 3 begin name=r mode=row ttl=1000000\n"                                                      \
    "1 4 begin name=r mode=row ttl=1000000\n"

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

TS_ONCE(test_one_after_the_other)
{
    keeps(GOT(100, 1, 0, 1) STILL(110, 1, 900000) GAVE(120, 1) GOT(130, 2, 0, 2) GAVE(140, 2));
}

TS_ONCE(test_tokens)
{
    breaks("token-once", GOT(100, 1, 0, 7) GAVE(120, 1) GOT(130, 2, 0, 7) GAVE(140, 2));
    breaks("token-rises", GOT(100, 3, 0, 7) GAVE(120, 3) GOT(130, 4, 0, 6) GAVE(140, 4));
    /* Both asked before either had it: the order is theirs. */
    keeps("100000 3 acquire wait=0\n100001 4 acquire wait=0\n"
          "100002 3 acquired status=OK token=7 owner=o3 fenced=1\n"
          "100003 4 acquired status=OK token=6 owner=o4 fenced=1\n");
}

TS_ONCE(test_two_holders)
{
    breaks("two-holders", GOT(100, 1, 0, 1) GOT(2000, 2, 0, 2) STILL(2001, 1, 0));
    /* It asked before the other had it, and was stopped before it heard the answer. */
    keeps(GOT(100, 1, 0, 1) "2000100 2 acquire wait=0\n"
                            "2000200 2 acquired status=OK token=2 owner=o2 fenced=1\n"
                            "2000300 1 checked from=2000150 status=OK remaining=0\n");
}

TS_ONCE(test_what_is_excepted)
{
    keeps(GOT(100, 1, 0, 1) "150000 0 fault kind=break\n150100 0 healed kind=break\n" GOT(
        200, 2, 0, 2) STILL(210, 1, 800000));
    keeps(GOT(100, 1, 0, 1) "150000 0 fault kind=clock\n150100 0 healed kind=clock\n" GOT(
        200, 2, 0, 2) STILL(210, 1, 800000));
}

TS_ONCE(test_taken_early)
{
    /* It died: what was acknowledged is held until the TTL is over. */
    breaks("taken-early", GOT(100, 1, 0, 1) "200000 0 died target=1 status=0\n" GOT(900, 2, 0, 2));
    keeps(GOT(100, 1, 0, 1) "200000 0 died target=1 status=0\n" GOT(1100, 2, 0, 2));
    /* Renewed, and taken before what was left is over. */
    breaks("taken-early", GOT(100, 1, 0, 1) STILL(900, 1, 950000) GOT(1500, 2, 0, 2));
    /* It had given it up. */
    keeps(GOT(100, 1, 0, 1) STILL(900, 1, 950000) "1400000 1 release\n" GOT(1500, 2, 0, 2));
}

TS_ONCE(test_row_locks)
{
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

TS_ONCE(test_rows)
{
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

TS_ONCE(test_writes)
{
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

TS_ONCE(test_waits)
{
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

#define WAITS "110000 1 acquire wait=9000000\n"
#define GETS  "2910000 1 acquired status=OK token=3 owner=o1 fenced=1\n"

TS_ONCE(test_the_queue)
{
    breaks("wait-order",
           GOT(100, 2, 0, 1) WAITS GAVE(1500, 2) GOT(1510, 2, 0, 2) GAVE(2900, 2) GETS);
    /* It had asked hardly later. */
    keeps(GOT(100, 2, 0, 1) WAITS GAVE(300, 2) GOT(310, 2, 0, 2) GAVE(2900, 2) GETS);
}

TS_ONCE(test_statuses)
{
    keeps("100000 1 acquire wait=0\n100100 1 acquired status=BUSY\n");
    breaks("status", "100000 1 acquire wait=0\n100100 1 acquired status=SERVER\n");
    breaks("status", "100000 1 acquire wait=0\n100100 1 acquired status=UNAVAILABLE\n");
    keeps("100000 1 acquire wait=300000\n450000 1 acquired status=UNAVAILABLE\n");
    keeps("50000 0 fault kind=cut\n50001 0 healed kind=cut\n"
          "100000 1 acquire wait=0\n100100 1 acquired status=UNAVAILABLE\n");
    breaks("status", "50000 0 fault kind=cut\n50001 0 healed kind=cut\n"
                     "100000 1 acquire wait=0\n100100 1 acquired status=READONLY\n");
}

TS_ONCE(test_ends)
{
    breaks("hung", "100 0 hung target=1\n101 0 died target=1 status=137\n");
    breaks("exit", "100 0 died target=1 status=139\n");
    breaks("exit", "100 0 died target=1 status=137\n"); /* not by us */
    keeps("99 0 kill target=1\n100 0 died target=1 status=137\n101 0 died target=2 status=0\n");
    breaks("exit", "99 0 kill target=1\n100 0 died target=1 status=99\n");
}

TS_ONCE(test_history_is_strict)
{
    events all;
    model m;
    assert_false(history_parse(&all, strdup("one two three\n")));
    history_free(&all);
    assert_true(history_parse(&all, strdup("5 1 acquired status=OK\n")));
    assert_false(model_build(&m, &all)); /* without its call */
    model_free(&m);
    history_free(&all);
}

TS_ONCE(test_every_fault_comes)
{
    unsigned alone[FAULT_KINDS] = {0};
    unsigned mixed[FAULT_KINDS] = {0};
    bool in_share[FAULT_KINDS] = {0}; /* of tools/test --all */
    for (uint64_t seed = 1; seed <= 400; seed++) {
        plan p = schedule(seed);
        assert_true(p.fault_count <= PLAN_FAULTS);
        for (unsigned i = 0; i < p.fault_count; i++) {
            const planned_fault *f = &p.faults[i];
            (p.mixed ? mixed : alone)[f->kind]++;
            in_share[f->kind] |= !p.mixed && seed <= RUNS_SHARE;
            assert_true(f->at_ms > 0 && f->at_ms < p.active_ms);
            assert_true(i == 0 || p.faults[i - 1].at_ms <= f->at_ms);
            assert_true((f->last_ms > 0) == fault_lasts(f->kind));
        }
    }
    for (int kind = FAULT_NONE + 1; kind < FAULT_KINDS; kind++)
        assert_true(alone[kind] > 10 && mixed[kind] > 10 && in_share[kind]);
}

TS_MAIN("runs", NULL, NULL)
