/*
 * The checker on histories of a latch and of a barrier, as in test.c.
 */
/* Four at a latch, four at a barrier of two; each with a TTL of one second. */
#define WHO                                                                                        \
    "1 1 begin name=l mode=latch ttl=1000000\n"                                                    \
    "1 2 begin name=l mode=latch ttl=1000000\n"                                                    \
    "1 3 begin name=l mode=latch ttl=1000000\n"                                                    \
    "1 4 begin name=l mode=latch ttl=1000000\n"                                                    \
    "1 5 begin name=b mode=barrier ttl=1000000 members=2\n"                                        \
    "1 6 begin name=b mode=barrier ttl=1000000 members=2\n"                                        \
    "1 7 begin name=b mode=barrier ttl=1000000 members=2\n"                                        \
    "1 8 begin name=b mode=barrier ttl=1000000 members=2\n"

#include "faults/runs/test.h"

#define CALL(at, who, words) #at "000 " #who " call " words "\n"
#define BACK(at, who, words) #at "000 " #who " back status=" words "\n"
/* Called, and back half a millisecond later. */
#define DOES(at, who, words, status)                                                               \
#at "000 " #who " call " words "\n" #at "500 " #who " back status=" status "\n"
#define SET(at, who, count, to)        DOES(at, who, "verb=set count=" #count, "OK generation=" #to)
#define DOWN(at, who, g, key_, status) DOES(at, who, "verb=down asked=" #g " key=" key_, status)
#define JOIN(at, who, g)               DOES(at, who, "verb=join asked=" #g, "OK generation=" #g)
#define DONE(at, who, g, status)       DOES(at, who, "verb=done asked=" #g " key=o" #who, status)
#define WAIT(at, who, g, status)       DOES(at, who, "verb=wait asked=" #g " wait=0", status)
#define OPENS(at, who, g)              WAIT(at, who, g, "OK generation=" #g)
#define BOTH_DOWN(g)                   DOWN(110, 1, g, "a", "OK") DOWN(111, 2, g, "", "OK")

TS_ONCE(test_a_latch_opens)
{
    keeps(SET(100, 1, 2, 1) BOTH_DOWN(1) OPENS(120, 3, 1) SET(130, 2, 3, 2));
    breaks("latch-early", SET(100, 1, 2, 1) DOWN(110, 1, 1, "a", "OK") OPENS(120, 3, 1));
    /* A key counts once; a refused one does not, nor one for another generation. */
    breaks("latch-early", SET(100, 1, 2, 1) DOWN(110, 1, 1, "a", "OK") DOWN(111, 2, 1, "a", "OK")
                              OPENS(120, 3, 1));
    breaks("latch-early", SET(100, 1, 1, 1) DOWN(110, 1, 1, "a", "BUSY") OPENS(120, 3, 1));
    breaks("latch-early", SET(100, 1, 1, 1) DOWN(105, 1, 1, "a", "OK") SET(106, 1, 1, 2)
                              DOWN(110, 1, 1, "b", "OK") OPENS(120, 3, 2));
    /* It came after. One that is not answered may have been in time; one for any generation, too.
     */
    breaks("latch-early", SET(100, 1, 1, 1) OPENS(120, 3, 1) DOWN(130, 1, 1, "a", "OK"));
    keeps(SET(100, 1, 1, 1) CALL(110, 1, "verb=down asked=1 key=a") OPENS(120, 3, 1));
    keeps(SET(100, 1, 1, 1) DOWN(110, 1, 0, "a", "OK") OPENS(120, 3, 1));
    /* As it is told, and as the row says. */
    breaks("latch-early", SET(100, 1, 1, 1) DOES(120, 3, "verb=get", "OK generation=1 state=open"));
    breaks("latch-early", SET(100, 1, 1, 1) "120000 0 counted from=119000 name=l generation=1 "
                                            "status=free count=1 broken=0 of=0 key=\n");
}

TS_ONCE(test_a_latch_is_broken)
{
    static const char lost[] = WAIT(900, 3, 1, "LOST");
    char lines[2000];
    /* By a member that leaves, or dies before it has counted; by one of another generation not. */
    breaks("latch-broken", SET(100, 1, 2, 1) WAIT(900, 3, 1, "LOST"));
    keeps(SET(100, 1, 2, 1) JOIN(110, 2, 1) DOES(120, 2, "verb=leave asked=1", "OK")
              WAIT(900, 3, 1, "LOST"));
    keeps(SET(100, 1, 2, 1) JOIN(110, 2, 1) DONE(120, 2, 1, "UNAVAILABLE")
              WAIT(900, 3, 1, "LOST") "50000 0 fault kind=cut\n50001 0 healed kind=cut\n");
    breaks("latch-broken",
           SET(100, 1, 2, 1) JOIN(110, 2, 1) DONE(120, 2, 1, "OK") WAIT(900, 3, 1, "LOST"));
    snprintf(lines, sizeof lines, "%s%s%s", SET(100, 1, 2, 1) JOIN(110, 2, 1),
             "200000 0 died target=2 status=0\n", lost);
    keeps(lines);
    breaks("latch-broken",
           SET(100, 1, 1, 1) JOIN(101, 2, 1) DOWN(102, 1, 1, "a", "OK") SET(103, 1, 2, 2)
               DOES(120, 2, "verb=leave asked=1", "OK") WAIT(900, 3, 2, "LOST"));
    /* Somebody has counted with its key, before it went, or afterwards. */
    breaks("latch-broken", SET(100, 1, 2, 1) DOES(110, 2, "verb=join asked=1 key=a",
                                                  "OK generation=1") DOWN(115, 1, 1, "a", "OK")
                               DOES(120, 2, "verb=leave asked=1", "OK") WAIT(900, 3, 1, "LOST"));
    keeps(SET(100, 1, 2, 1) DOES(110, 2, "verb=join asked=1 key=a", "OK generation=1") DOES(
        120, 2, "verb=leave asked=1", "OK") DOWN(125, 1, 1, "a", "OK") WAIT(900, 3, 1, "LOST"));
    /* All had counted before it left. */
    breaks("latch-broken", SET(100, 1, 2, 1) JOIN(105, 4, 1) BOTH_DOWN(1)
                               DOES(120, 4, "verb=leave asked=1", "OK") WAIT(900, 3, 1, "LOST"));
    /* By force; by what kept it from being renewed. */
    snprintf(lines, sizeof lines, "%s%s%s", SET(100, 1, 2, 1),
             "200000 0 fault kind=break\n200100 0 healed kind=break\n", lost);
    keeps(lines);
    snprintf(lines, sizeof lines, "%s%s%s", SET(100, 1, 2, 1) JOIN(110, 2, 1),
             "200000 0 stop target=2\n800000 0 continued target=2\n", lost);
    keeps(lines);
    snprintf(lines, sizeof lines, "%s%s%s", SET(100, 1, 2, 1) JOIN(110, 2, 1),
             "200000 0 stop target=3\n800000 0 continued target=3\n", lost);
    breaks("latch-broken", lines);
}

TS_ONCE(test_a_latch_has_one_fate)
{
    static const char forced[] = "105000 0 fault kind=break\n105100 0 healed kind=break\n";
    char lines[2000];
    snprintf(lines, sizeof lines, "%s%s%s", SET(100, 1, 2, 1), forced,
             BOTH_DOWN(1) OPENS(120, 3, 1) WAIT(130, 4, 1, "LOST"));
    breaks("latch-fate", lines);
    snprintf(lines, sizeof lines, "%s%s%s", SET(100, 1, 2, 1), forced,
             WAIT(130, 4, 1, "LOST") DOWN(140, 1, 1, "a", "OK"));
    breaks("latch-fate", lines);
    snprintf(lines, sizeof lines, "%s%s%s", SET(100, 1, 2, 1), forced,
             WAIT(130, 4, 1, "LOST") JOIN(140, 1, 1));
    breaks("latch-fate", lines);
    snprintf(lines, sizeof lines, "%s%s%s", SET(100, 1, 2, 1), forced,
             DOWN(110, 1, 1, "a", "OK") WAIT(130, 4, 1, "LOST") DOWN(140, 1, 1, "a", "LOST"));
    keeps(lines);
}

TS_ONCE(test_a_latch_is_set)
{
    breaks("latch-set",
           SET(100, 1, 1, 1) DOWN(110, 1, 1, "a", "OK") SET(120, 1, 1, 2) SET(130, 2, 1, 2));
    breaks("latch-set",
           SET(100, 1, 1, 1) DOWN(110, 1, 1, "a", "OK") SET(120, 1, 1, 3) SET(130, 2, 1, 2));
    breaks("latch-set", SET(100, 1, 2, 1) DOWN(110, 1, 1, "a", "OK") SET(120, 1, 1, 2));
    keeps(SET(100, 1, 2, 1) JOIN(110, 2, 1) DOES(120, 2, "verb=leave asked=1", "OK")
              SET(130, 1, 1, 2));
}

TS_ONCE(test_who_waits_for_a_latch_hears_of_it)
{
    keeps(SET(100, 1, 2, 1) BOTH_DOWN(1) CALL(120, 3, "verb=wait asked=1 wait=1000000")
              BACK(1120, 3, "TIMEOUT"));
    breaks("latch-stuck", SET(100, 1, 2, 1) BOTH_DOWN(1) CALL(
                              120, 3, "verb=wait asked=1 wait=4000000") BACK(4120, 3, "TIMEOUT"));
    breaks("latch-stuck", SET(100, 1, 2, 1) BOTH_DOWN(1) WAIT(4120, 3, 1, "BUSY"));
    keeps(SET(100, 1, 2, 1) DOWN(110, 1, 1, "a", "OK")
              CALL(120, 3, "verb=wait asked=1 wait=4000000") BACK(4120, 3, "TIMEOUT"));
    breaks("wait-bound", SET(100, 1, 2, 1) CALL(120, 3, "verb=wait asked=1 wait=1000000")
                             BACK(6120, 3, "TIMEOUT"));
    /* The probe has to come through. */
    breaks("latch-stuck", "1 9 begin name=l mode=latch ttl=1000000 probe=1\n" SET(100, 9, 1, 1)
                              DOWN(110, 9, 1, "a", "OK") OPENS(120, 9, 1));
    keeps("1 9 begin name=l mode=latch ttl=1000000 probe=1\n" SET(100, 9, 1, 1)
              DOWN(110, 9, 1, "a", "OK") OPENS(120, 9, 1) SET(130, 9, 1, 2) JOIN(140, 9, 2)
                  DOES(150, 9, "verb=leave asked=2", "UNKNOWN") WAIT(160, 9, 2, "LOST"));
}

#define SEES(at, g, of, key_)                                                                      \
#at "100 0 counted from=" #at "000 name=l generation=" #g                                      \
        " status=held count=3 broken=0 of=" #of " key=" key_ "\n"

TS_ONCE(test_counts_are_there)
{
    keeps(SET(100, 1, 3, 1) BOTH_DOWN(1) SEES(120, 1, 1, "a") SEES(120, 1, 1, "x-1"));
    breaks("count-lost", SET(100, 1, 3, 1) BOTH_DOWN(1) SEES(120, 1, 1, "x-1"));
    breaks("count-lost",
           SET(100, 1, 3, 1) BOTH_DOWN(1) DOWN(112, 3, 1, "", "OK") SEES(120, 1, 1, "a"));
    breaks("count-lost", SET(100, 1, 3, 1) DOWN(110, 1, 0, "a", "OK") SEES(120, 1, 0, ""));
    breaks("count-more", SET(100, 1, 3, 1) BOTH_DOWN(1) SEES(120, 1, 1, "a") SEES(120, 1, 1, "x-1")
                             SEES(120, 1, 1, "x-2"));
    /* Rolled back, and refused. */
    breaks("count-more", SET(100, 1, 3, 1) DOWN(110, 1, 1, "a", "NONE") SEES(120, 1, 1, "a"));
    breaks("count-more", SET(100, 1, 3, 1) DOWN(110, 1, 1, "a", "BUSY") SEES(120, 1, 1, "a"));
    keeps(SET(100, 1, 3, 1) CALL(110, 1, "verb=down asked=1 key=a") SEES(120, 1, 1, "a"));
    /* Counted, and its reply was lost; it heard when the latch was broken. */
    keeps(SET(100, 1, 3, 1) JOIN(102, 2, 1) CALL(110, 1, "verb=down asked=1 key=a") SEES(
        120, 1, 1, "a") DOES(125, 2, "verb=leave asked=1", "OK") BACK(130, 1, "LOST generation=0"));
    /* Of the one before it nothing is said. */
    keeps(SET(90, 1, 1, 1) DOWN(95, 1, 1, "a", "OK") SET(100, 1, 3, 2) SEES(120, 2, 1, "a"));
}

#define CALLS_IN(at, who)          CALL(at, who, "verb=enter wait=1000000")
#define IS_IN(at, who, g, place_)  BACK(at, who, "OK generation=" #g " place=" #place_)
#define TWO_IN(g)                  CALLS_IN(100, 5) CALLS_IN(101, 6) IS_IN(102, 5, g, 0) IS_IN(103, 6, g, 1)
/* The same generation, by others. */
#define TWO_AGAIN                  CALLS_IN(300, 7) CALLS_IN(301, 8) IS_IN(302, 7, 1, 0) IS_IN(303, 8, 1, 1)
#define LEAVES(at, who, g, status) DOES(at, who, "verb=leave asked=" #g " wait=0", status)
#define GOES(at, who, g)           DOES(at, who, "verb=release asked=" #g, "OK")

TS_ONCE(test_a_barrier_is_entered_together)
{
    keeps(TWO_IN(1) CALL(110, 5, "verb=leave asked=1 wait=1000000") LEAVES(111, 6, 1, "OK")
              BACK(112, 5, "OK") GOES(120, 5, 1) GOES(121, 6, 1));
    breaks("barrier-torn", TWO_IN(1) TWO_AGAIN);
    keeps(
        TWO_IN(1) "110000 0 fault kind=server-kill\n200000 0 healed kind=server-kill\n" TWO_AGAIN);
    breaks("barrier-torn",
           "90000 0 fault kind=server-kill\n99000 0 healed kind=server-kill\n" TWO_IN(1) TWO_AGAIN);
    breaks("barrier-torn", CALLS_IN(100, 5) IS_IN(102, 5, 1, 0));
    breaks("barrier-torn",
           CALLS_IN(100, 5) IS_IN(102, 5, 1, 0) CALLS_IN(103, 6) IS_IN(104, 6, 1, 1));
    breaks("barrier-torn",
           CALLS_IN(100, 5) CALLS_IN(101, 6) IS_IN(102, 5, 1, 0) BACK(103, 6, "TIMEOUT"));
    keeps(CALLS_IN(100, 5) CALLS_IN(101, 6)
              IS_IN(102, 5, 1, 0) "103000 0 kill target=6\n"
                                  "104000 0 died target=6 status=137\n");
    breaks("barrier-torn",
           CALLS_IN(100, 5) CALLS_IN(101, 6) IS_IN(102, 5, 1, 0) IS_IN(103, 6, 1, 0));
    breaks("barrier-torn",
           CALLS_IN(100, 5) CALLS_IN(101, 6) IS_IN(102, 5, 1, 0) IS_IN(103, 6, 1, 2));
    breaks("barrier-torn", CALLS_IN(99, 7) TWO_IN(1) IS_IN(104, 7, 1, 1));
    breaks("barrier-twice", TWO_IN(2) GOES(120, 5, 2) GOES(121, 6, 2) CALLS_IN(130, 5)
                                CALLS_IN(131, 7) IS_IN(132, 5, 1, 0) IS_IN(133, 7, 1, 1));
    /* It was stopped until its time was over, and came into the next one. */
    keeps(CALLS_IN(100, 5) "110000 0 stop target=5\n" CALLS_IN(120, 6) IS_IN(121, 6, 1, 1)
              CALLS_IN(130, 7) "2000000 0 continued target=5\n" IS_IN(2001, 5, 2, 0)
                  BACK(2002, 7, "OK generation=2 place=1"));
}

TS_ONCE(test_a_barrier_is_left_together)
{
    breaks("barrier-early", TWO_IN(1) LEAVES(110, 5, 1, "OK"));
    breaks("barrier-early", TWO_IN(1) LEAVES(110, 5, 1, "OK") LEAVES(120, 6, 1, "OK"));
    breaks("barrier-lost", TWO_IN(1) LEAVES(110, 5, 1, "LOST"));
    keeps(TWO_IN(1) GOES(105, 6, 1) LEAVES(110, 5, 1, "LOST"));
    breaks("barrier-early", TWO_IN(1) GOES(105, 6, 1) LEAVES(110, 5, 1, "OK"));
    keeps(TWO_IN(1) "105000 0 died target=6 status=0\n" LEAVES(1110, 5, 1, "LOST"));
    /* It was ready to leave when it went. */
    breaks("barrier-lost",
           TWO_IN(1) LEAVES(104, 6, 1, "BUSY") GOES(105, 6, 1) LEAVES(110, 5, 1, "LOST"));
    keeps(TWO_IN(1) "104000 0 fault kind=break\n104100 0 healed kind=break\n" LEAVES(110, 5, 1,
                                                                                     "LOST"));
    breaks("barrier-lost", TWO_IN(1) "104000 0 stop target=8\n104100 0 continued target=8\n" LEAVES(
                               110, 5, 1, "LOST"));
    keeps(TWO_IN(1) "104000 0 stop target=6\n1304100 0 continued target=6\n" LEAVES(1310, 5, 1,
                                                                                    "LOST"));
    /* The probes have to come out again. */
    breaks("barrier-stuck", "1 9 begin name=b mode=barrier ttl=1000000 members=2 probe=1\n");
}

TS_MAIN("runs_gather", NULL, NULL)
