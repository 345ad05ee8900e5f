/*
 * The checker on histories written by hand: each breaks one rule, and has a similar one that just
 * keeps it. And the schedule: every fault occurs.
 */
#include "faults/runs/schedule.h"

/* Two users of a lease with a TTL of one second, two of a row lock, three of a name with two slots.
 */
#define WHO                                                                                        \
    "1 1 begin name=l mode=lease ttl=1000000\n"                                                    \
    "1 2 begin name=l mode=lease ttl=1000000\n"                                                    \
    "1 3 begin name=r mode=row ttl=1000000\n"                                                      \
    "1 4 begin name=r mode=row ttl=1000000\n"                                                      \
    "1 5 begin name=s mode=lease ttl=1000000 slots=2\n"                                            \
    "1 6 begin name=s mode=lease ttl=1000000 slots=2\n"                                            \
    "1 7 begin name=s mode=lease ttl=1000000 slots=2\n"

#include "faults/runs/test.h"

#define GOT(at, who, wait, token)                                                                  \
#at "000 " #who " acquire wait=" #wait "\n" #at "500 " #who                                    \
        " acquired status=OK token=" #token " owner=o" #who " fenced=1\n"
#define GAVE(at, who) #at "000 " #who " release\n" #at "500 " #who " released status=OK\n"
#define READS(at, who, token)                                                                      \
#at "000 " #who " acquire wait=0 shared=1\n" #at "500 " #who                                   \
        " acquired status=OK token=" #token " owner=o" #who " fenced=1\n"
#define READS_ROW(at, who)                                                                         \
#at "000 " #who " acquire wait=0 shared=1\n" #at "500 " #who                                   \
        " acquired status=OK token=0 owner=o" #who " fenced=0\n"
#define UP(at, who, status, token)                                                                 \
#at "000 " #who " upgrade wait=0\n" #at "500 " #who " upgraded status=" #status                \
        " token=" #token " fenced=1\n"
#define DOWN(at, who, status, token)                                                               \
#at "000 " #who " downgrade\n" #at "500 " #who " downgraded status=" #status " token=" #token  \
        " fenced=1\n"
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

TS_ONCE(test_readers)
{
    /* Together, with one token, as often as they like. */
    keeps(GOT(100, 1, 0, 5) GAVE(110, 1) READS(120, 1, 5) READS(121, 2, 5) STILL(130, 1, 900000)
              STILL(131, 2, 900000) GAVE(140, 1) GAVE(141, 2) READS(150, 2, 5) GAVE(160, 2)
                  GOT(170, 1, 0, 6) STILL(180, 1, 900000) GAVE(190, 1));
    /* A writer beside a reader: by its token, by what the reader was promised, and counted. */
    breaks("two-holders", READS(100, 1, 1) GOT(2000, 2, 0, 2) STILL(2001, 1, 0));
    breaks("taken-early", READS(100, 1, 1) STILL(900, 1, 950000) GOT(1500, 2, 0, 2));
    keeps(READS(100, 1, 1) STILL(900, 1, 950000) "1400000 1 release\n" GOT(1500, 2, 0, 2));
    keeps(READS(100, 1, 1) GOT(2000, 2, 0, 2) STILL(2001, 2, 900000));
    /* A reader beside who has it alone: it has the same token. */
    breaks("two-holders", GOT(100, 1, 0, 5) READS(2000, 2, 5) STILL(2001, 1, 0));
    breaks("taken-early", GOT(100, 1, 0, 5) READS(200, 2, 5));
    keeps(GOT(100, 1, 0, 5) GAVE(190, 1) READS(200, 2, 5));
    /* Taken by force from a reader. */
    keeps(READS(100, 1, 1) "150000 0 fault kind=break\n150100 0 healed kind=break\n" GOT(
        200, 2, 0, 3) STILL(210, 1, 800000));
}

TS_ONCE(test_holders_are_counted)
{
    /* The tokens tell nothing here: none was asked for after the other one was had. */
    breaks("holders", "100000 1 acquire wait=0\n100001 2 acquire wait=0 shared=1\n"
                      "3000000 1 acquired status=OK token=5 owner=o1 fenced=0\n"
                      "3000001 2 acquired status=OK token=5 owner=o2 fenced=0\n" STILL(3100, 1, 0)
                          STILL(3101, 2, 0) STILL(3200, 1, 0));
    breaks("holders", "100000 1 acquire wait=0\n100001 2 acquire wait=0\n"
                      "3000000 1 acquired status=OK token=5 owner=o1 fenced=0\n"
                      "3000001 2 acquired status=OK token=5 owner=o2 fenced=0\n" STILL(3100, 1, 0)
                          STILL(3101, 2, 0) STILL(3200, 1, 0));
    keeps("100000 1 acquire wait=0 shared=1\n100001 2 acquire wait=0 shared=1\n"
          "3000000 1 acquired status=OK token=5 owner=o1 fenced=0\n"
          "3000001 2 acquired status=OK token=5 owner=o2 fenced=0\n" STILL(3100, 1, 0)
              STILL(3101, 2, 0) STILL(3200, 1, 0));
}

TS_ONCE(test_tokens_of_readers)
{
    /* The one of the last who had it alone. */
    breaks("token-reader", GOT(100, 1, 0, 5) GAVE(110, 1) READS(120, 2, 7) GAVE(130, 2));
    breaks("token-reader", READS(120, 2, 2) GAVE(130, 2));
    breaks("token-rises", GOT(100, 3, 0, 5) GAVE(110, 3) READS(120, 4, 4) GAVE(130, 4));
    breaks("token-rises", READS(100, 3, 1) GAVE(110, 3) READS(120, 4, 0) GAVE(130, 4));
    breaks("token-rises", READS(100, 2, 1) GAVE(110, 2) GOT(120, 1, 0, 1) GAVE(130, 1));
    /* Who got one and did not live to tell, who did not release, and a break. */
    keeps(GOT(100, 1, 0, 5) GAVE(110, 1) "111000 1 acquire wait=0\n112000 0 kill target=1\n"
                                         "113000 0 died target=1 status=137\n" READS(2000, 2, 7));
    keeps(GOT(100, 1, 0, 5) "112000 0 died target=1 status=0\n" READS(2000, 2, 6));
    keeps(GOT(100, 1, 0, 5) GAVE(
        110, 1) "150000 0 fault kind=break\n150100 0 healed kind=break\n" READS(200, 2, 6));
}

TS_ONCE(test_upgrade_and_downgrade)
{
    keeps(READS(100, 1, 1) STILL(110, 1, 900000) UP(120, 1, OK, 2) STILL(130, 1, 900000)
              DOWN(140, 1, OK, 2) STILL(150, 1, 900000) READS(151, 2, 2) STILL(160, 1, 900000)
                  STILL(161, 2, 900000) GAVE(170, 1) GAVE(171, 2));
    /* Beside another reader; to no avail it does no harm. */
    breaks("taken-early", READS(100, 1, 1) READS(101, 2, 1) UP(120, 1, OK, 2));
    keeps(READS(100, 1, 1) READS(101, 2, 1) UP(120, 1, BUSY, 1) UP(130, 2, DEADLOCK, 1)
              STILL(140, 1, 900000) STILL(141, 2, 900000) GAVE(150, 1) GAVE(151, 2));
    breaks("status", "100000 1 acquire wait=0\n100100 1 acquired status=DEADLOCK\n");
    /* A grant that comes when most of the TTL is over is given back. */
    keeps("100000 1 acquire wait=5000000\n1050000 1 acquired status=UNAVAILABLE\n");
    breaks("status", "100000 1 acquire wait=5000000\n950000 1 acquired status=UNAVAILABLE\n");
    breaks("status", "100000 1 acquire wait=5000000\n1050000 1 acquired status=UNKNOWN\n");
    /* It has let another one come between. */
    breaks("upgrade", READS(100, 1, 1) GOT(2000, 2, 0, 2) GAVE(2100, 2) UP(2200, 1, OK, 3));
    /* Nobody knows what became of it: a reader may be beside it, but no one who has it alone. */
    keeps("90000 0 fault kind=cut\n90001 0 healed kind=cut\n" GOT(100, 1, 0, 1)
              DOWN(110, 1, UNKNOWN, 1) READS(120, 2, 1) STILL(130, 1, 900000) STILL(131, 2, 900000)
                  STILL(140, 1, 900000));
    breaks("two-holders", "90000 0 fault kind=cut\n90001 0 healed kind=cut\n" GOT(100, 1, 0, 1)
                              DOWN(110, 1, UNKNOWN, 1) GOT(2000, 2, 0, 2) STILL(2100, 1, 0));
    /* Nor was it promised any more time; one that was downgraded has its TTL anew. */
    keeps("90000 0 fault kind=cut\n90001 0 healed kind=cut\n" GOT(100, 1, 0, 1)
              DOWN(500, 1, UNKNOWN, 1) GOT(1200, 2, 0, 2));
    breaks("taken-early", GOT(100, 1, 0, 1) DOWN(500, 1, OK, 1) GOT(1200, 2, 0, 2));
    /* A writer may not come in beside who goes on as a reader. */
    breaks("taken-early", GOT(100, 1, 0, 1) DOWN(110, 1, OK, 1) GOT(120, 2, 0, 2));
}

TS_ONCE(test_row_locks_that_are_shared)
{
    keeps(READS_ROW(100, 3) STILL(110, 3, 1) READS_ROW(120, 4) STILL(130, 4, 1) STILL(140, 3, 1)
              STILL(150, 4, 1));
    breaks("row-two", READS_ROW(100, 3) STILL(110, 3, 1) GOT(120, 4, 0, 2) STILL(130, 4, 1)
                          STILL(140, 3, 1) STILL(150, 4, 1));
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

#define LEADS(at, who, token, value)                                                               \
#at "000 " #who " acquire wait=0 value=" #value "\n" #at "500 " #who                           \
        " acquired status=OK token=" #token " owner=o" #who " fenced=1\n"
#define SEES(at, who, token, value)                                                                \
#at "000 " #who " observe\n" #at "500 " #who " observed status=OK leads=1 token=" #token       \
        " value=" #value "\n"

#define CHANGES(at, who, status, value)                                                            \
#at "000 " #who " publish value=" #value "\n" #at "500 " #who " published status=" #status "\n"
#define SEES_NOBODY(at, who)                                                                       \
#at "000 " #who " observe\n" #at "500 " #who " observed status=OK leads=0 token=0 value=\n"

TS_ONCE(test_values_of_a_leader)
{
    keeps(LEADS(100, 1, 5, a) CHANGES(110, 1, OK, b) SEES(120, 2, 5, b) CHANGES(130, 1, OK, )
              SEES_NOBODY(140, 2) STILL(150, 1, 900000) GAVE(160, 1));
    keeps(GOT(100, 1, 0, 5) CHANGES(110, 1, OK, b) SEES(120, 2, 5, b) GAVE(130, 1));
    breaks("leader-value", LEADS(100, 1, 5, a) SEES(105, 2, 5, b) CHANGES(110, 1, OK, b));
    /* After another one, or none, has taken its place; before that was acknowledged it may be. */
    breaks("leader-late", LEADS(100, 1, 5, a) CHANGES(110, 1, OK, b) SEES(120, 2, 5, a));
    breaks("leader-late", LEADS(100, 1, 5, a) CHANGES(110, 1, OK, ) SEES(120, 2, 5, a));
    keeps(LEADS(100, 1, 5, a) "110000 1 publish value=b\n" SEES(120, 2, 5, a)
              SEES(130, 2, 5, b) "140000 1 published status=OK\n");
    /* Nobody knows whether it came there, so it may come late; or it did not. */
    keeps("90000 0 fault kind=cut\n90001 0 healed kind=cut\n" LEADS(100, 1, 5, a)
              CHANGES(110, 1, UNKNOWN, b) SEES(120, 2, 5, a) SEES(130, 2, 5, b));
    breaks("leader-value", "90000 0 fault kind=cut\n90001 0 healed kind=cut\n" LEADS(100, 1, 5, a)
                               CHANGES(110, 1, UNAVAILABLE, b) SEES(120, 2, 5, b));
    /* It led for sure, by what it was told afterwards. */
    breaks("leader-missed", LEADS(100, 1, 5, a) SEES_NOBODY(110, 2) STILL(120, 1, 900000));
    keeps(LEADS(100, 1, 5, a) SEES_NOBODY(110, 2));
    keeps(LEADS(100, 1, 5, a) "105000 1 publish value=\n" SEES_NOBODY(
        110, 2) "112000 1 published status=OK\n" STILL(120, 1, 900000));
}

TS_ONCE(test_leaders)
{
    keeps(LEADS(100, 1, 5, a) SEES(110, 2, 5, a) GAVE(120, 1) LEADS(130, 2, 6, b) SEES(140, 1, 6, b)
              GAVE(150, 2));
    /* A value that is another one's, nobody's, or asked for later. */
    breaks("leader-value",
           LEADS(100, 1, 5, a) GAVE(120, 1) GOT(130, 2, 0, 6) SEES(140, 1, 6, a) GAVE(150, 2));
    breaks("leader-value", GOT(100, 1, 0, 5) SEES(110, 2, 5, x) GAVE(120, 1));
    breaks("leader-value", SEES(90, 2, 5, a) LEADS(100, 1, 5, a) GAVE(120, 1));
    /* After its release, and beside a later one. */
    breaks("leader-two", LEADS(100, 1, 5, a) GAVE(110, 1) SEES(120, 2, 5, a));
    breaks("leader-two", LEADS(100, 1, 5, a) "200000 0 died target=1 status=0\n" GOT(2000, 2, 0, 6)
                             SEES(2010, 2, 5, a));
    /* Whose acquire got no answer may lead; but not when a later one was seen to. */
    keeps("100000 1 acquire wait=0 value=a\n" SEES(110, 2, 5, a));
    breaks("leader-back",
           "100000 1 acquire wait=0 value=a\n"
           "100001 2 acquire wait=0 value=b\n" SEES(110, 2, 6, b) SEES(120, 2, 5, a));
}

#define BEGINS(at, who, token, attempt)                                                            \
#at "000 " #who " call verb=begin asked=8 token=" #token " count=2 wait=0\n" #at "500 " #who   \
        " back status=OK place=" #attempt " state=begun\n"
#define IS_ANSWERED(at, who, token, state_)                                                        \
#at "000 " #who " call verb=begin asked=8 token=" #token " count=2 wait=0\n" #at "500 " #who   \
        " back status=OK place=0 state=" state_ "\n"
#define SAYS(at, who, token, verb_, status)                                                        \
#at "000 " #who " call verb=" verb_ " asked=8 token=" #token " wait=0\n" #at "500 " #who       \
        " back status=" #status "\n"
#define PERIOD(at, state_, token, attempts_)                                                       \
#at "100 0 ledger from=" #at "000 name=l period=8 state=" state_ " token=" #token              \
        " attempts=" #attempts_ "\n"
#define WORK(token, joined_)                                                                       \
    "9000000 0 worked name=l period=8 token=" #token " writer=1 joined=" #joined_ "\n"
/* Two holders, of whom the first has begun with 5, and the second may with 6. */
#define FIRST GOT(100, 1, 0, 5) BEGINS(110, 1, 5, 1)
#define NEXT  GAVE(200, 1) GOT(210, 2, 0, 6)

TS_ONCE(test_once_in_a_period)
{
    keeps(FIRST SAYS(120, 1, 5, "job", OK) NEXT IS_ANSWERED(220, 2, 6, "done")
              PERIOD(300, "done", 5, 1) WORK(5, 1));
    keeps(FIRST SAYS(120, 1, 5, "failed", OK) NEXT BEGINS(220, 2, 6, 2) SAYS(230, 2, 6, "work", OK)
              SAYS(240, 2, 6, "done", OK) PERIOD(300, "done", 6, 2) WORK(6, 0));
    /* It died at its work, before or after the COMMIT; or before it had said that it is done. */
    keeps(FIRST "120000 1 call verb=job asked=8 token=5 wait=0\n" PERIOD(300, "running", 5, 1));
    keeps(FIRST "120000 1 call verb=job asked=8 token=5 wait=0\n" PERIOD(300, "done", 5, 1)
              WORK(5, 1));
    keeps(FIRST SAYS(120, 1, 5, "work", OK) PERIOD(300, "running", 5, 1) WORK(5, 0));
    /* After the release: before the next one begins, or too late. */
    keeps(FIRST NEXT SAYS(215, 1, 5, "job", OK) PERIOD(300, "done", 5, 1) WORK(5, 1));
    keeps(FIRST NEXT BEGINS(220, 2, 6, 2) SAYS(230, 1, 5, "job", LOST)
              PERIOD(300, "running", 6, 2));
    breaks("once-refused", FIRST SAYS(120, 1, 5, "job", LOST) PERIOD(300, "running", 5, 1));
}

TS_ONCE(test_what_is_done_twice)
{
    breaks("once-lost once-again once-two",
           FIRST SAYS(120, 1, 5, "job", OK) NEXT BEGINS(220, 2, 6, 2) SAYS(230, 2, 6, "job", OK)
               PERIOD(300, "done", 6, 2) WORK(5, 1) WORK(6, 1));
    breaks("once-two",
           FIRST SAYS(120, 1, 5, "job", OK) PERIOD(300, "done", 5, 1) WORK(5, 1) WORK(5, 1));
    breaks("once-again",
           FIRST "120000 1 call verb=job asked=8 token=5 wait=0\n" PERIOD(130, "done", 5, 1)
               NEXT BEGINS(220, 2, 6, 2) PERIOD(300, "running", 6, 2));
    breaks("once-late",
           FIRST NEXT BEGINS(220, 2, 6, 2) BEGINS(230, 1, 5, 1) PERIOD(300, "running", 6, 2));
}

TS_ONCE(test_work_and_the_ledger)
{
    breaks("once-work", FIRST SAYS(120, 1, 5, "job", OK) PERIOD(300, "done", 5, 1));
    breaks("once-work", FIRST PERIOD(300, "done", 5, 1) WORK(5, 0));
    breaks("once-work", FIRST PERIOD(300, "failed", 5, 1));
    breaks("once-work", FIRST "120000 1 call verb=job asked=8 token=5 wait=0\n" PERIOD(
                            300, "running", 5, 1) WORK(5, 1));
    breaks("once-lost", FIRST SAYS(120, 1, 5, "failed", OK) PERIOD(300, "running", 5, 1));
    breaks("once-lost", FIRST);
    breaks("once-lost", FIRST SAYS(120, 1, 5, "work", OK) SAYS(130, 1, 5, "done", OK)
                            PERIOD(300, "running", 5, 1) WORK(5, 0));
}

TS_ONCE(test_attempts)
{
    breaks("once-attempts", FIRST NEXT BEGINS(220, 2, 6, 1) PERIOD(300, "running", 6, 2));
    breaks("once-attempts", FIRST NEXT BEGINS(220, 2, 6, 3) PERIOD(300, "running", 6, 2));
    breaks("once-attempts", FIRST NEXT BEGINS(220, 2, 6, 2) PERIOD(300, "running", 6, 1));
    breaks("once-attempts", FIRST PERIOD(300, "running", 5, 2));
    breaks("once-token", FIRST NEXT BEGINS(220, 2, 6, 2) PERIOD(230, "running", 7, 2)
                             PERIOD(300, "running", 6, 2));
    breaks("once-answer",
           FIRST NEXT IS_ANSWERED(220, 2, 6, "used-up") PERIOD(300, "running", 5, 1));
    breaks("once-answer", FIRST NEXT IS_ANSWERED(220, 2, 6, "done") PERIOD(300, "running", 5, 1));
    keeps(FIRST NEXT BEGINS(220, 2, 6, 2) IS_ANSWERED(230, 1, 5, "used-up")
              PERIOD(300, "running", 6, 2));
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
    /* Of a reader: its own row; the lock's row has the token, and another owner. */
    keeps(GOT(100, 1, 0, 4) GAVE(105, 1) READS(110, 1, 4) ROW(120, 4, shared, o9, 0)
              ROW(121, 4, reader, o1, 990000) GAVE(130, 1) ROW(140, 4, shared, o9, 0));
    keeps(ROW(100, 4, free, x, 0) GOT(110, 1, 0, 5) GAVE(111, 1) READS(120, 2, 5));
    breaks("row-released", READS(100, 1, 1) GAVE(110, 1) ROW(120, 1, reader, o1, 900000));
    breaks("row-ahead", ROW(100, 5, shared, x, 0) GOT(105, 1, 0, 6) GAVE(106, 1)
                            ROW(107, 7, shared, x, 0) READS(110, 2, 6));
    breaks("row-dead",
           READS(100, 1, 1) "110000 0 died target=1 status=0\n" ROW(120, 1, reader, o1, 2500000));
    keeps(READS(100, 1, 1) "110000 0 died target=1 status=0\n" ROW(120, 1, reader, o1, 980000));
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
    /* Readers have one token. */
    keeps(READS(100, 1, 1) READS(101, 2, 1) WRITE(110, 1, 1, fence, ok) WRITE(111, 2, 1, fence, ok)
              WRITTEN(1, 1, o1, 1, 1) WRITTEN(2, 1, o2, 2, 1) GAVE(120, 1) GAVE(121, 2));
    breaks("write-late", READS(100, 1, 1) GOT(2000, 2, 0, 2) WRITE(2010, 1, 1, fence, ok)
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

#define SLOT_IS(at, who, slot, token)                                                              \
#at "500 " #who " slot name=s#" #slot " token=" #token " owner=o" #who "\n"
#define SLOTS_ARE(at, who, token)                                                                  \
#at "500 " #who " acquired status=OK token=" #token " owner=o" #who " fenced=1\n"
#define SLOT(at, who, slot, token)                                                                 \
#at "000 " #who " acquire wait=0 units=1\n" SLOT_IS(at, who, slot, token)                      \
        SLOTS_ARE(at, who, token)
#define BOTH_SLOTS(at, who, token)                                                                 \
#at "000 " #who " acquire wait=0 units=2\n" SLOT_IS(at, who, 0, token)                         \
        SLOT_IS(at, who, 1, token) SLOTS_ARE(at, who, token)
#define SLOT_ROW(at, name_, version, status_, owner_)                                              \
#at "100 0 row from=" #at "000 name=" name_ " version=" #version " status=" #status_           \
        " owner=" owner_ " remaining=900000\n"

TS_ONCE(test_slots)
{
    keeps(SLOT(100, 5, 0, 1) SLOT(101, 6, 1, 1) STILL(110, 5, 900000) STILL(111, 6, 900000)
              STILL(120, 5, 900000) GAVE(130, 5) GAVE(131, 6) SLOT(140, 7, 0, 2) GAVE(150, 7));
    keeps(BOTH_SLOTS(100, 5, 1) STILL(110, 5, 900000) GAVE(120, 5) BOTH_SLOTS(130, 6, 2)
              STILL(140, 6, 900000) GAVE(150, 6));
    /* Each slot is a lease. */
    breaks("taken-early", SLOT(100, 5, 0, 1) SLOT(200, 6, 0, 2));
    breaks("taken-early", BOTH_SLOTS(100, 5, 1) SLOT(200, 6, 1, 2));
    breaks("two-holders", SLOT(100, 5, 0, 1) SLOT(2000, 6, 0, 2) STILL(2001, 5, 0));
    breaks("two-holders", BOTH_SLOTS(100, 5, 1) SLOT(2000, 6, 1, 2) STILL(2001, 5, 0));
    breaks("token-once", SLOT(100, 5, 0, 2) GAVE(110, 5) SLOT(120, 6, 0, 2));
    breaks("token-rises taken-early", BOTH_SLOTS(100, 5, 2) GAVE(110, 5) SLOT(120, 6, 1, 1));
    /* More than there are, though no two have the same one. */
    breaks("slots", SLOT(100, 5, 0, 1) SLOT(101, 6, 1, 1) SLOT(102, 7, 2, 1) STILL(110, 5, 900000)
                        STILL(111, 6, 900000) STILL(112, 7, 900000) STILL(120, 5, 900000)
                            STILL(121, 6, 900000) STILL(122, 7, 900000));
    /* It got its slot, and did not live to write more. */
    static const char gone[] = "100000 5 acquire wait=0 units=1\n"
                               "100400 5 slot name=s#0 token=1 owner=o5\n"
                               "100450 0 kill target=5\n100500 0 died target=5 status=137\n";
    char lines[1000];
    snprintf(lines, sizeof lines, "%s%s", gone, SLOT(1300, 6, 0, 2));
    keeps(lines);
    snprintf(lines, sizeof lines, "%s%s", gone, SLOT(500, 6, 0, 2));
    breaks("taken-early", lines);
}

TS_ONCE(test_rows_of_slots)
{
    keeps(SLOT(100, 5, 0, 1) SLOT_ROW(110, "s", 0, free, "-") SLOT_ROW(111, "s#0", 1, held, "o5"));
    breaks("row-slots", SLOT(100, 5, 0, 1) SLOT_ROW(110, "s", 0, held, "o5"));
    breaks("row-slots", SLOT(100, 5, 0, 1) SLOT_ROW(110, "s", 0, free, "o5"));
    breaks("row-released", SLOT(100, 5, 0, 1) GAVE(105, 5) SLOT_ROW(110, "s#0", 1, held, "o5"));
    breaks("row-back", SLOT(100, 5, 0, 4) SLOT_ROW(110, "s#0", 3, free, "-"));
    keeps(SLOT(100, 5, 0, 4) SLOT_ROW(110, "s#1", 3, free, "-"));
    keeps(SLOT(100, 5, 0, 1) "110000 5 write kind=fence seq=1\n110500 5 wrote seq=1 status=ok\n"
                             "9000000 0 written id=1 name=s#0 token=1 owner=o5 writer=5 seq=1"
                             " kind=fence\n");
}

TS_ONCE(test_the_queue_for_slots)
{
    static const char waits[] =
        "2000000 7 acquire wait=9000000 units=2\n2001000 7 place is=queue\n";
    static const char gets[] = "4010000 7 slot name=s#0 token=3 owner=o7\n"
                               "4010001 7 slot name=s#1 token=3 owner=o7\n"
                               "4010002 7 acquired status=OK token=3 owner=o7 fenced=1\n";
    char lines[2000];
    /* Who wants one passes who wants both. */
    snprintf(lines, sizeof lines, "%s%s%s%s", SLOT(100, 5, 0, 1) SLOT(101, 6, 1, 1), waits,
             GAVE(3000, 5) SLOT(3010, 5, 0, 2) GAVE(3900, 5) GAVE(4000, 6), gets);
    breaks("wait-order", lines);
    /* It had asked hardly later. */
    snprintf(lines, sizeof lines, "%s%s%s%s", SLOT(100, 5, 0, 1) SLOT(101, 6, 1, 1), waits,
             GAVE(2100, 5) SLOT(2110, 5, 0, 2) GAVE(3900, 5) GAVE(4000, 6), gets);
    keeps(lines);
    /* It may have been out of the queue by then: the answer was late. */
    snprintf(lines, sizeof lines, "%s%s%s%s", SLOT(100, 5, 0, 1) SLOT(101, 6, 1, 1), waits,
             GAVE(3600, 5) SLOT(3610, 5, 0, 2) GAVE(3900, 5) GAVE(4000, 6), gets);
    keeps(lines);
}

#define ASKS(at, who, wait, units) #at "000 " #who " acquire wait=" #wait " units=" #units "\n"
#define IS_TOLD(at, who, status)   #at "000 " #who " acquired status=" #status "\n"

TS_ONCE(test_slots_are_served)
{
    breaks("wait-served", SLOT(100, 5, 0, 1) SLOT(101, 6, 1, 1) GAVE(200, 5)
                              ASKS(1000, 7, 4000000, 1) IS_TOLD(5000, 7, TIMEOUT));
    keeps(SLOT(100, 5, 0, 1) SLOT(101, 6, 1, 1) ASKS(1000, 7, 4000000, 1) GAVE(3000, 5)
              IS_TOLD(5000, 7, TIMEOUT));
    /* One is not enough. */
    keeps(SLOT(100, 5, 0, 1) SLOT(101, 6, 1, 1) GAVE(200, 5) ASKS(1000, 7, 4000000, 2)
              IS_TOLD(5000, 7, TIMEOUT));
    /* Behind somebody who waits for both; or before. */
    keeps(SLOT(100, 5, 0, 1) ASKS(500, 6, 9000000, 2) ASKS(1000, 7, 4000000, 1)
              IS_TOLD(5000, 7, TIMEOUT) IS_TOLD(9500, 6, TIMEOUT));
    breaks("wait-served", SLOT(100, 5, 0, 1) ASKS(1000, 7, 4000000, 1) ASKS(1500, 6, 9000000, 2)
                              IS_TOLD(5000, 7, TIMEOUT) IS_TOLD(10500, 6, TIMEOUT));
    /* A try; and one that lost its slot to another who asked just then. */
    breaks("wait-served", SLOT(100, 5, 0, 1) SLOT(101, 6, 1, 1) GAVE(200, 5) ASKS(5000, 7, 0, 1)
                              IS_TOLD(5002, 7, BUSY));
    keeps(SLOT(100, 5, 0, 1) SLOT(101, 6, 1, 1) GAVE(200, 5) ASKS(5000, 7, 0, 1) SLOT(5001, 5, 0, 2)
              IS_TOLD(5002, 7, BUSY));
    /* The dead hold theirs no longer than the TTL. */
    breaks("wait-served",
           SLOT(100, 5, 0, 1)
               SLOT(101, 6, 1, 1) "200000 0 died target=5 status=0\n" ASKS(300, 7, 9000000, 1)
                   IS_TOLD(9300, 7, TIMEOUT));
}

#define WAITS         "110000 1 acquire wait=9000000\n"
#define WAITS_TO_READ "110000 1 acquire wait=9000000 shared=1\n"
#define QUEUES(at)    #at "000 1 place is=queue\n"
#define CLOSES(at)    #at "000 1 place is=first\n"
#define GETS          "2910000 1 acquired status=OK token=3 owner=o1 fenced=1\n"
/* The same, behind a reader; and as one. */
#define GETS_ALONE    "2910000 1 acquired status=OK token=2 owner=o1 fenced=1\n"
#define GETS_TO_READ  "2910000 1 acquired status=OK token=1 owner=o1 fenced=1\n"
/* Another one comes, and has it before; alone, or as a reader. */
#define IS_PASSED     GAVE(1500, 2) GOT(1510, 2, 0, 2) GAVE(2900, 2)
#define READER_PASSES GAVE(1500, 2) READS(1510, 2, 1) GAVE(2900, 2)

TS_ONCE(test_the_queue)
{
    breaks("wait-order", GOT(100, 2, 0, 1) WAITS QUEUES(120) IS_PASSED GETS);
    breaks("wait-order", GOT(100, 2, 0, 1) WAITS_TO_READ QUEUES(120) IS_PASSED
           "2910000 1 acquired status=OK token=2 owner=o1 fenced=1\n");
    /* It had hardly come to the queue then; it came there late, or never; or it came again. */
    keeps(GOT(100, 2, 0, 1) WAITS QUEUES(120) GAVE(300, 2) GOT(310, 2, 0, 2) GAVE(2900, 2) GETS);
    keeps(GOT(100, 2, 0, 1) WAITS QUEUES(1400) IS_PASSED GETS);
    keeps(GOT(100, 2, 0, 1) WAITS IS_PASSED GETS);
    keeps(GOT(100, 2, 0, 1) WAITS QUEUES(120) QUEUES(1600) IS_PASSED GETS);
    /* The server was slow to begin with that statement. */
    keeps(GOT(100, 2, 0, 1) WAITS QUEUES(1000) "1110000 0 late from=1000000\n" IS_PASSED GETS);
    breaks("wait-order",
           GOT(100, 2, 0, 1) WAITS QUEUES(1000) "1030000 0 late from=1000000\n" IS_PASSED GETS);
    /* The time of who had it was over: that one came just then. */
    keeps(GOT(100, 2, 0, 1) WAITS QUEUES(
        120) "1500000 2 release\n1500500 2 released status=LOST\n" GOT(1510, 2, 0, 2) GAVE(2900, 2)
              GETS);
    /* To no avail; but nobody knows when it gave up. */
    breaks("wait-order",
           GOT(100, 2, 0, 1) WAITS QUEUES(120) IS_PASSED "3000000 1 acquired status=TIMEOUT\n");
    keeps(GOT(100, 2, 0, 1) WAITS QUEUES(120) IS_PASSED "1600000 1 acquired status=TIMEOUT\n");
    keeps(GOT(100, 2, 0, 1) WAITS QUEUES(120) IS_PASSED "1860000 0 late from=1760000\n"
                                                        "1900000 1 acquired status=TIMEOUT\n");
}

/* Readers pass one that waits to have it alone, as long as that has not closed it. */
TS_ONCE(test_the_queue_of_readers)
{
    breaks("wait-order", READS(100, 2, 1) WAITS CLOSES(120) READER_PASSES GETS_ALONE);
    keeps(READS(100, 2, 1) WAITS QUEUES(120) READER_PASSES GETS_ALONE);
    keeps(READS(100, 2, 1) WAITS CLOSES(1520) READER_PASSES GETS_ALONE);
    keeps(READS(100, 2, 1) WAITS CLOSES(120) CLOSES(1520) READER_PASSES GETS_ALONE);
    /* Nobody else may have it then. */
    breaks("wait-order", READS(100, 2, 1) WAITS CLOSES(120) IS_PASSED GETS);
    /* Readers pass readers. */
    keeps(GOT(100, 2, 0, 1) WAITS_TO_READ QUEUES(120) READER_PASSES GETS_TO_READ);
    /* An upgrade or downgrade has no place in the queue. */
    keeps(READS(100, 1, 1) "110000 1 upgrade wait=9000000\n" QUEUES(120) CLOSES(130)
              READS(1510, 2, 1) GAVE(2900, 2) "2910000 1 upgraded status=OK token=2 fenced=1\n");
}

/* A writer that vanished may have left it closed. */
TS_ONCE(test_left_closed)
{
    static const char gone[] = "200000 2 acquire wait=9000000\n210000 0 kill target=2\n"
                               "211000 0 died target=2 status=137\n"
                               "6000000 1 acquire wait=5000000\n";
    char lines[1000];
    snprintf(lines, sizeof lines, "%s%s%s", READS(100, 1, 1) GAVE(150, 1), gone,
             "10100000 1 acquired status=OK token=2 owner=o1 fenced=1\n");
    keeps(lines);
    /* Who gives up opens it again; not as long as a reader's transaction has the row. */
    static const char gives_up[] =
        "200000 2 acquire wait=300000\n500000 2 acquired status=TIMEOUT\n";
    static const char gets[] = "6000000 1 acquire wait=5000000\n"
                               "10100000 1 acquired status=OK token=2 owner=o1 fenced=1\n";
    snprintf(lines, sizeof lines, "%s%s%s", READS(100, 1, 1) GAVE(700, 1), gives_up, gets);
    breaks("wait-served", lines);
    snprintf(lines, sizeof lines, "%s%s%s",
             READS(100, 1, 1) WRITE(110, 1, 1, fence, unknown) GAVE(700, 1), gives_up, gets);
    breaks("wait-served", lines);
    snprintf(lines, sizeof lines, "%s%s%s%s%s", READS(100, 1, 1),
             "110000 1 write kind=fence seq=1\n",
             "600000 1 wrote seq=1 status=unknown\n" GAVE(700, 1), gives_up, gets);
    keeps(lines);
    /* Where there were no readers it had nothing to close. */
    snprintf(lines, sizeof lines, "%s%s%s", GOT(100, 1, 0, 1) GAVE(150, 1), gone,
             "10100000 1 acquired status=OK token=2 owner=o1 fenced=1\n");
    breaks("wait-served", lines);
}

TS_ONCE(test_statuses)
{
    keeps("100000 1 acquire wait=0\n100100 1 acquired status=BUSY\n");
    breaks("status", "100000 1 acquire wait=0\n100100 1 acquired status=SERVER\n");
    breaks("status", ASKS(100, 5, 0, 2) IS_TOLD(101, 5, DEADLOCK));
    breaks("status", ASKS(100, 5, 0, 2) IS_TOLD(101, 5, MODE));
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
    assert_true(history_parse(&all, strdup(WHO GOT(100, 1, 0, 1) UP(110, 1, OK, 2))));
    assert_false(model_build(&m, &all)); /* it has it alone already */
    model_free(&m);
    history_free(&all);
    assert_true(history_parse(&all, strdup(WHO ASKS(100, 5, 0, 2) SLOTS_ARE(101, 5, 1))));
    assert_false(model_build(&m, &all)); /* which slots? */
    model_free(&m);
    history_free(&all);
    assert_true(history_parse(&all, strdup(WHO SLOT_IS(101, 5, 0, 1))));
    assert_false(model_build(&m, &all)); /* without its call */
    model_free(&m);
    history_free(&all);
}

TS_ONCE(test_every_fault_comes)
{
    unsigned alone[FAULT_KINDS] = {0};
    unsigned mixed[FAULT_KINDS] = {0};
    bool in_share[FAULT_KINDS] = {0}; /* of tools/test --all */
    unsigned shares = 0;
    unsigned alone_only = 0;
    for (uint64_t seed = 1; seed <= 400; seed++) {
        plan p = schedule(seed);
        assert_true(p.fault_count <= PLAN_FAULTS);
        assert_true(p.readers <= 100);
        *(p.readers ? &shares : &alone_only) += 1;
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
    assert_true(shares > 200 && alone_only > 50);
}

/* In some runs, and some of the faults; and nothing else that a seed means depends on it. */
TS_ONCE(test_the_third_name_is_in_the_schedule)
{
    static const schedule_choice none = {.fault = FAULT_KINDS, .third = PLAN_NONE};
    static const schedule_choice slots = {
        .fault = FAULT_KINDS, .third = PLAN_SLOTS, .count = PLAN_SLOTS_MOST};
    unsigned runs[PLAN_LOCKS] = {0};
    bool hit[FAULT_KINDS] = {0};
    for (uint64_t seed = 1; seed <= 400; seed++) {
        const plan p = schedule(seed);
        const plan without = schedule_with(seed, &none);
        const plan with = schedule_with(seed, &slots);
        runs[p.third]++;
        assert_true(p.slots <= PLAN_SLOTS_MOST && (p.slots > 1) == (p.third == PLAN_SLOTS));
        assert_true(p.members <= PLAN_SLOTS_MOST && (p.members > 1) == (p.third == PLAN_BARRIER));
        assert_true(p.actor_count <= PLAN_ACTORS && p.actors[p.actor_count - 1].lock == p.third);
        assert_true(without.actor_count == PLAN_ACTORS_OF_TWO && with.slots == PLAN_SLOTS_MOST);
        assert_true(with.fault_count == without.fault_count);
        for (unsigned i = 0; i < without.actor_count; i++)
            assert_true(with.actors[i].seed == without.actors[i].seed);
        for (unsigned i = 0; i < with.fault_count; i++) {
            assert_true(with.faults[i].kind == without.faults[i].kind);
            assert_true(with.faults[i].at_ms == without.faults[i].at_ms);
            assert_true(without.faults[i].lock != PLAN_SLOTS);
            assert_true(with.faults[i].actor < with.actor_count);
            hit[with.faults[i].kind] |= with.faults[i].lock == PLAN_SLOTS;
        }
    }
    for (unsigned third = PLAN_SLOTS; third < PLAN_QUEUE; third++)
        assert_true(runs[third] > 75);
    for (int kind = FAULT_NONE + 1; kind < FAULT_KINDS; kind++)
        assert_true(hit[kind]);
}

TS_MAIN("runs", NULL, NULL)
