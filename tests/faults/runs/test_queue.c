/*
 * The checker on histories of a queue, as in test.c.
 */
/* Four at the queue, each with a TTL of one second. */
#define WHO                                                                                        \
    "1 1 begin name=q mode=queue ttl=1000000\n"                                                    \
    "1 2 begin name=q mode=queue ttl=1000000\n"                                                    \
    "1 3 begin name=q mode=queue ttl=1000000\n"                                                    \
    "1 4 begin name=q mode=queue ttl=1000000\n"

#include "faults/runs/test.h"

/* Each is called at a millisecond, and back half a millisecond later. */
#define PUT_AS(at, who, mark_, id_, more, status_)                                                 \
#at "000 " #who " put mark=" mark_ " " more "\n" #at "400 " #who " putid mark=" mark_          \
        " id=" #id_ "\n" #at "500 " #who " puts status=" status_ "\n"
#define PUT(at, who, mark_, id_) PUT_AS(at, who, mark_, id_, "", "OK")
#define TAKE_AS(at, who, mark_, id_, token_, attempt_)                                             \
#at "000 " #who " take wait=0\n" #at "400 " #who " took id=" #id_ " token=" #token_            \
        " attempt=" #attempt_ " mark=" mark_ "\n" #at "500 " #who " taken status=OK\n"
#define TAKE(at, who, mark_, id_, token_) TAKE_AS(at, who, mark_, id_, token_, token_)
#define STILL(at, who, id_, left)                                                                  \
#at "100 " #who " still id=" #id_ " from=" #at "000 status=OK remaining=" #left "000\n"
#define GIVE_AS(at, who, verb_, id_, delay_, status_)                                              \
#at "000 " #who " give verb=" verb_ " id=" #id_ " delay=" #delay_ "000\n" #at "500 " #who      \
        " gave id=" #id_ " status=" status_ "\n"
#define GIVE(at, who, verb_, id_, status_) GIVE_AS(at, who, verb_, id_, 0, status_)
#define DONE(at, who, id_)                 GIVE(at, who, "done", id_, "OK")
#define SEEN(at, id_, mark_, state_, token_, attempts_)                                            \
#at "400 0 item from=" #at "000 id=" #id_ " mark=" mark_ " state=" state_ " token=" #token_    \
        " attempts=" #attempts_ " remaining=100000\n"
#define ALL_SEEN(at)            #at "500 0 items from=" #at "000\n"
#define WORK(at, mark_, token_) #at "000 0 jobwork mark=" mark_ " token=" #token_ "\n"

TS_ONCE(test_an_item_is_had_by_one)
{
    keeps(PUT(100, 1, "a", 7) TAKE(110, 2, "a", 7, 1) STILL(120, 2, 7, 990) DONE(130, 2, 7));
    breaks("item-token", PUT(100, 1, "a", 7) TAKE(110, 2, "a", 7, 1) GIVE(120, 2, "retry", 7, "OK")
                             TAKE_AS(130, 3, "a", 7, 1, 1) DONE(140, 3, 7));
    breaks("item-token", PUT(100, 1, "a", 7) TAKE_AS(110, 2, "a", 7, 2, 1)
                             TAKE_AS(1130, 3, "a", 7, 1, 1) DONE(1140, 2, 7));
    /* Its time was over, or it was given up; or neither. */
    keeps(PUT(100, 1, "a", 7) TAKE(110, 2, "a", 7, 1) TAKE(1120, 3, "a", 7, 2) DONE(1130, 3, 7));
    breaks("item-early",
           PUT(100, 1, "a", 7) TAKE(110, 2, "a", 7, 1) TAKE(1100, 3, "a", 7, 2) DONE(1130, 3, 7));
    breaks("item-early", PUT(100, 1, "a", 7) TAKE(110, 2, "a", 7, 1) STILL(900, 2, 7, 800)
                             TAKE(1650, 3, "a", 7, 2) DONE(1660, 3, 7));
    keeps(PUT(100, 1, "a", 7) TAKE(110, 2, "a", 7, 1) GIVE(120, 2, "retry", 7, "OK")
              TAKE(130, 3, "a", 7, 2) DONE(140, 3, 7));
    breaks("item-two",
           PUT(100, 1, "a", 7) TAKE(110, 2, "a", 7, 1) STILL(120, 2, 7, 10) TAKE(1130, 3, "a", 7, 2)
               STILL(1140, 3, 7, 990) STILL(1150, 2, 7, 0) STILL(1160, 3, 7, 990) DONE(1170, 3, 7));
}

TS_ONCE(test_attempts_are_counted)
{
    breaks("item-attempts",
           PUT(100, 1, "a", 7) TAKE(110, 2, "a", 7, 1) GIVE(120, 2, "retry", 7, "OK")
               TAKE_AS(130, 3, "a", 7, 2, 1) DONE(140, 3, 7));
    keeps(PUT(100, 1, "a", 7) TAKE(110, 2, "a", 7, 1) GIVE(120, 2, "release", 7, "OK")
              TAKE_AS(130, 3, "a", 7, 2, 1) DONE(140, 3, 7));
    breaks("item-attempts", PUT(100, 1, "a", 7) TAKE_AS(110, 2, "a", 7, 1, 2) DONE(140, 2, 7));
    /* One that died meanwhile may have had it. */
    keeps(PUT(100, 1, "a", 7) "104000 4 take wait=0\n" TAKE_AS(1110, 2, "a", 7, 2, 2)
              DONE(1140, 2, 7));
    /* So may one that was held up for longer than it may keep an item (its TTL of 1 s less a
     * tenth); and not for less. */
    keeps(PUT(100, 1, "a", 7) "104000 4 take wait=0\n" TAKE_AS(1000, 2, "a", 7, 2, 2)
              DONE(1005, 2, 7) "1010000 4 taken status=BUSY\n");
    keeps(PUT(100, 1, "a", 7) "104000 4 take wait=0\n" TAKE_AS(1110, 2, "a", 7, 2, 2)
              DONE(1140, 2, 7) "1150000 4 taken status=BUSY\n");
    keeps(PUT(100, 1, "a", 7) "104000 4 take wait=0\n" TAKE_AS(2210, 2, "a", 7, 3, 3)
              DONE(2240, 2, 7) "2250000 4 taken status=TIMEOUT\n");
    breaks("item-attempts",
           PUT(100, 1, "a", 7) "104000 4 take wait=0\n" TAKE_AS(910, 2, "a", 7, 2, 2)
               DONE(940, 2, 7) "1000000 4 taken status=BUSY\n");
    /* Nor one that has only waited; but it may have been stopped meanwhile. */
    breaks("item-attempts",
           PUT(100, 1, "a", 7) "104000 4 take wait=4000000\n" TAKE_AS(1110, 2, "a", 7, 2, 2)
               DONE(1140, 2, 7) "4104500 4 taken status=TIMEOUT\n");
    keeps(PUT(100, 1, "a", 7) "104000 4 take wait=4000000\n"
                              "105000 0 stop target=4\n" TAKE_AS(1110, 2, "a", 7, 2, 2)
                                  DONE(1140, 2, 7) "1150000 0 continued target=4\n"
                                                   "4104500 4 taken status=TIMEOUT\n");
    breaks("item-attempts", PUT_AS(100, 1, "a", 7, "most=1", "OK") TAKE(110, 2, "a", 7, 1) GIVE(
                                120, 2, "retry", 7, "OK") TAKE(130, 3, "a", 7, 2) DONE(140, 3, 7));
    keeps(PUT_AS(100, 1, "a", 7, "most=1", "OK") TAKE(110, 2, "a", 7, 1)
              GIVE(120, 2, "retry", 7, "OK") SEEN(130, 7, "a", "dead", 1, 1) ALL_SEEN(130));
    breaks("item-dead",
           PUT_AS(100, 1, "a", 7, "most=2", "OK") TAKE(110, 2, "a", 7, 1)
               GIVE(120, 2, "retry", 7, "OK") SEEN(130, 7, "a", "dead", 1, 1) ALL_SEEN(130));
    keeps(PUT_AS(100, 1, "a", 7, "most=2", "OK") TAKE(110, 2, "a", 7, 1)
              GIVE(120, 2, "dead", 7, "OK") SEEN(130, 7, "a", "dead", 1, 1) ALL_SEEN(130));
}

TS_ONCE(test_nothing_is_lost)
{
    breaks("item-lost", PUT(100, 1, "a", 7) ALL_SEEN(200));
    breaks("item-lost", PUT(100, 1, "a", 7) TAKE(110, 2, "a", 7, 1) ALL_SEEN(200));
    breaks("item-lost", PUT(100, 1, "a", 7) TAKE(110, 2, "a", 7, 1) GIVE(120, 2, "retry", 7, "OK")
                            ALL_SEEN(200));
    breaks("item-stuck", PUT(100, 1, "a", 7) SEEN(200, 7, "a", "waits", 0, 0) ALL_SEEN(200));
    keeps(PUT(100, 1, "a", 7)
              TAKE(110, 2, "a", 7, 1) "120000 2 give verb=done id=7\n" ALL_SEEN(200));
    keeps(PUT_AS(100, 1, "a", 0, "", "NONE") ALL_SEEN(200));
    breaks("item-ghost",
           PUT_AS(100, 1, "a", 0, "", "NONE") TAKE(110, 2, "a", 7, 1) DONE(120, 2, 7));
    breaks("item-ghost", TAKE(110, 2, "a", 7, 1) DONE(120, 2, 7));
    keeps("100000 1 put mark=a\n" TAKE(110, 2, "a", 7, 1) DONE(120, 2, 7));
    breaks("item-twice", "100000 1 put mark=a\n" TAKE(110, 2, "a", 7, 1) DONE(120, 2, 7)
                             TAKE(130, 2, "a", 8, 1) DONE(140, 2, 8));
}

TS_ONCE(test_what_is_over_is_over)
{
    breaks("item-again", PUT(100, 1, "a", 7) TAKE(110, 2, "a", 7, 1) DONE(120, 2, 7)
                             TAKE(130, 3, "a", 7, 2) GIVE(140, 3, "retry", 7, "OK"));
    breaks("item-again",
           PUT(100, 1, "a", 7) TAKE(110, 2, "a", 7, 1) "1119000 2 give verb=done id=7\n" TAKE(
               1120, 3, "a", 7, 2) "1125000 2 gave id=7 status=OK\n" DONE(1130, 3, 7));
    breaks("item-kept", PUT(100, 1, "a", 7) TAKE(110, 2, "a", 7, 1) DONE(120, 2, 7)
                            SEEN(130, 7, "a", "held", 1, 1));
    breaks("item-back", PUT(100, 1, "a", 7) TAKE_AS(110, 2, "a", 7, 3, 1)
                            SEEN(130, 7, "a", "held", 2, 1) DONE(140, 2, 7) ALL_SEEN(150));
    breaks("item-refused",
           PUT(100, 1, "a", 7) TAKE(110, 2, "a", 7, 1) STILL(115, 2, 7, 990)
               GIVE(120, 2, "done", 7, "LOST") TAKE(1130, 2, "a", 7, 2) DONE(1140, 2, 7));
}

TS_ONCE(test_who_is_late_changes_nothing)
{
    breaks("item-late", PUT(100, 1, "a", 7) TAKE(110, 2, "a", 7, 1) TAKE(1120, 3, "a", 7, 2)
                            GIVE(1130, 2, "retry", 7, "OK") DONE(1140, 3, 7));
    keeps(PUT(100, 1, "a", 7) TAKE(110, 2, "a", 7, 1) TAKE(1120, 3, "a", 7, 2)
              GIVE_AS(1130, 2, "retry", 7, 50, "LOST") DONE(1140, 3, 7));
}

TS_ONCE(test_an_item_is_ready_at_its_time)
{
    keeps(PUT_AS(100, 1, "a", 7, "delay=50000", "OK") TAKE(150, 2, "a", 7, 1) DONE(160, 2, 7));
    breaks("item-ready",
           PUT_AS(100, 1, "a", 7, "delay=50000", "OK") TAKE(140, 2, "a", 7, 1) DONE(160, 2, 7));
    breaks("item-ready", PUT(100, 1, "a", 7) TAKE(110, 2, "a", 7, 1) GIVE_AS(
                             120, 2, "retry", 7, 50, "OK") TAKE(150, 2, "a", 7, 2) DONE(160, 2, 7));
    /* It was there, and nobody else can have had it. */
    breaks("item-stuck",
           PUT(100, 1, "a", 7) "200000 2 take wait=4000000\n"
                               "4200000 2 taken status=TIMEOUT\n" TAKE(4300, 3, "a", 7, 1)
                                   DONE(4310, 3, 7));
    keeps(PUT(100, 1, "a", 7) "200000 2 take wait=1000000\n"
                              "1200000 2 taken status=TIMEOUT\n" TAKE(4300, 3, "a", 7, 1)
                                  DONE(4310, 3, 7));
}

#define OF_G(at, who, mark_, id_) PUT_AS(at, who, mark_, id_, "group=g", "OK")

TS_ONCE(test_a_group_goes_in_order)
{
    keeps(OF_G(100, 1, "a", 7) OF_G(101, 1, "b", 8) TAKE(110, 2, "a", 7, 1) DONE(120, 2, 7)
              TAKE(130, 3, "b", 8, 1) DONE(140, 3, 8));
    breaks("item-order", OF_G(100, 1, "a", 7) OF_G(101, 1, "b", 8) TAKE(110, 3, "b", 8, 1)
                             DONE(120, 3, 8) TAKE(130, 2, "a", 7, 1) DONE(140, 2, 7));
    /* It waits to be tried again: the one behind it waits, too. */
    breaks("item-order", OF_G(100, 1, "a", 7) OF_G(101, 1, "b", 8) TAKE(110, 2, "a", 7, 1)
                             GIVE(120, 2, "retry", 7, "OK") TAKE(130, 3, "b", 8, 1) DONE(140, 3, 8)
                                 TAKE(150, 2, "a", 7, 2) DONE(160, 2, 7));
    /* Of two that were put at the same time nobody knows. */
    keeps(OF_G(100, 1, "a", 7) OF_G(100, 2, "b", 8) TAKE(110, 3, "b", 8, 1) DONE(120, 3, 8)
              TAKE(130, 2, "a", 7, 1) DONE(140, 2, 7));
    breaks("item-group", OF_G(100, 1, "a", 7) OF_G(100, 2, "b", 8) TAKE(110, 3, "b", 8, 1)
                             TAKE(130, 2, "a", 7, 1) DONE(140, 2, 7) DONE(150, 3, 8));
}

#define OF_K(at, who, mark_, id_) PUT_AS(at, who, mark_, id_, "key=k", "OK")

TS_ONCE(test_a_key_is_there_once)
{
    keeps(OF_K(100, 1, "a", 7) OF_K(101, 1, "b", 7) TAKE(110, 2, "a", 7, 1) DONE(120, 2, 7)
              OF_K(130, 1, "c", 8) TAKE(140, 3, "c", 8, 1) DONE(150, 3, 8) ALL_SEEN(200));
    breaks("item-key", OF_K(100, 1, "a", 7) OF_K(101, 1, "b", 8) TAKE(110, 2, "a", 7, 1)
                           DONE(120, 2, 7) TAKE(140, 3, "b", 8, 1) DONE(150, 3, 8));
    breaks("item-key",
           OF_K(100, 1, "a", 7) TAKE(110, 2, "a", 7, 1) DONE(120, 2, 7) OF_K(130, 1, "b", 7));
    breaks("item-key",
           PUT(100, 1, "a", 7) PUT(101, 1, "b", 7) TAKE(110, 2, "a", 7, 1) DONE(120, 2, 7));
}

TS_ONCE(test_a_job_is_done_once)
{
    keeps(PUT(100, 1, "a", 7) TAKE(110, 2, "a", 7, 1) GIVE(120, 2, "job", 7, "OK")
              WORK(200, "a", 1));
    breaks("item-work", PUT(100, 1, "a", 7) TAKE(110, 2, "a", 7, 1) GIVE(120, 2, "job", 7, "OK"));
    breaks("item-work", PUT(100, 1, "a", 7) TAKE(110, 2, "a", 7, 1) GIVE(120, 2, "job", 7, "NONE")
                            WORK(200, "a", 1) TAKE(1130, 3, "a", 7, 2) DONE(1140, 3, 7));
    breaks("item-work", "100000 1 put mark=a\n" WORK(200, "a", 1) WORK(201, "a", 2));
    breaks("item-again",
           PUT(100, 1, "a", 7)
               TAKE(110, 2, "a", 7, 1) "120000 2 give verb=job id=7\n" TAKE(1130, 3, "a", 7, 2)
                   GIVE(1140, 3, "retry", 7, "OK") WORK(2000, "a", 1));
}

TS_MAIN("runs_queue", NULL, NULL)
