/*
 * The lease and its bell, as a model for spin (Promela). What each piece stands for is said beside
 * it: a statement of sql/lease.sql or sql/bell.sql, a function of src/engine, src/kind/lease.c, src/bell
 * or src/keep. docs/model.md says how it is run and what it leaves out.
 *
 * One name. A statement runs on the server in one step (one row, one UPDATE), at any time after it
 * was sent; its reply is another step. A client that is stopped is one that makes no step.
 *
 * Sizes:   CLIENTS, ROUNDS (acquisitions of each), FAULTS (of all together), RENEWERS (clients
 *          that renew a lease, once, in a world without PROMPT)
 * Worlds:  PROMPT      time passes only when nobody can make a step: nobody is slow
 *          ENDLESS     rounds have no end, and versions go round: for gets_in (at the end)
 *          FAILOVER    once, the server forgets the last acquisition
 * Guards:  NO_... leaves one of the protocol's guards out; each must make a property fail.
 *
 * Each assertion is a property with a name: see HOLDS.
 */
#ifndef CLIENTS
#define CLIENTS 2
#endif
#ifndef ROUNDS
#define ROUNDS 2
#endif
#ifndef FAULTS
#define FAULTS 1
#endif
#ifndef RENEWERS
#define RENEWERS CLIENTS
#endif

/* In ticks. The margin is for two clocks that differ (rl_margin_us); RUNG is the second in
 * the clause `reserved`. With a
 * shorter lease, the first renewal would give no more time than the acquisition gave. */
#define TTL  4
#define RUNG 1
#ifdef NO_MARGIN
#define MARGIN 0
#else
#define MARGIN 1
#endif
#define OWN (TTL - MARGIN)

#define NOBODY CLIENTS

/* A property has a name, which spin says with the assertion that failed. These are never true. */
#define HOLDS(property, what) assert((what) || property)
hidden byte mutual_exclusion; /* nobody acquires while another client takes itself for the holder */
hidden byte tokens_rise;
hidden byte writes_in_order;  /* fenced writes: none is accepted after one with a later token */
hidden byte releases_its_own; /* a release frees its own hold, and only when given up */
hidden byte answers_are_true; /* "not got", "released", "still yours": so it is */
hidden byte in_turn;          /* PROMPT: no newcomer comes before who waits, nobody needs to go unrung */
#ifdef FAILOVER
#define UNLESS_FORGOTTEN(property, what) skip
#else
#define UNLESS_FORGOTTEN(property, what) HOLDS(property, what)
#endif

/* ENDLESS: three versions go round. So that no older one is taken for its successor, a grant forgets
 * the renewal of the version before, a renewal that its sender has given up is lost, and who has a
 * release under way waits for it before the next round. */
#ifdef ENDLESS
#define NEXT(v)       (((v) % 3) + 1)
#define AT_MOST(a, b) ((a) == 0 || (a) == (b))
#define RISES(a, b)   ((b) != (a))
#else
#define NEXT(v)       ((v) + 1)
#define AT_MOST(a, b) ((a) <= (b))
#define RISES(a, b)   ((b) > (a))
#endif

/* ------------------------------------------------------------------------------- the server */

/* The row of `resource`. `lease`: until lease_expires_at; `rings`: connection_id is not 0;
 * `rung`: until update_time is RUNG ago; `waived`: somebody keeps the waiver of this version. */
bool held;
byte version = 1;
byte previous_version;
byte owner = NOBODY;
bit owner_hold; /* which of the owner's holds: owner ids are made anew for each */
byte lease;
bool rings;
byte rung;
bool waived;

/* Its row of `lease_renewal`. */
byte renewed_version;
byte renewed;

/* The bell (GET_LOCK) and those who stand in its queue. */
byte bell = NOBODY;
chan queue = [CLIENTS] of {byte};

byte faults = FAULTS;
byte drift = 1; /* one client's clock may miss one tick */

/* For the properties alone. */
byte highest;      /* token given out */
byte last_written; /* token of the last fenced write that was accepted */

#ifdef NO_EXPIRY
#define RUNS false
#else
#define RUNS (lease > 0 || (renewed_version == version && renewed > 0))
#endif
#define OVER (held && !RUNS)

/* ------------------------------------------------------------------------------ the clients */

#define IDLE      0
#define ASKED     1  /* the statement that takes it is under way */
#define LOOKS     2  /* look_and_decide() */
#define QUEUED    3  /* in rl_bell_wait() */
#define POLLS     4  /* has the bell, but the lease still runs: pauses */
#define OPEN      5  /* the reply was lost: is to settle */
#define HELD      6
#define RELEASING 7  /* the statement that gives it up is under way */
#define AGAIN     8  /* its reply was lost: free_row() once more */
#define GONE      9  /* dead, or its host has vanished */

/* Statements. */
#define NONE      0
#define ACQUIRE   1  /* lease_acquire */
#define INHERIT   2  /* lease_inherit */
#define QUIET     3  /* lease_acquire_quiet */
#define TAKE_OVER 4  /* lease_take_over */
#define RELEASE   5  /* lease_release */
#define APART     6  /* lease_release_apart */
#define WAIVE     7  /* lease_waive */

/* Answers. */
#define UNANSWERED 0
#define YES 1
#define NO  2

byte at[CLIENTS];
byte rounds[CLIENTS] = ROUNDS;
bit hold[CLIENTS];      /* which of its holds */
byte asked[CLIENTS];    /* the statement under way */
byte answer[CLIENTS];
byte got[CLIENTS];      /* LAST_INSERT_ID of the answer */
byte seen[CLIENTS];     /* the version that was looked at */
bool from[CLIENTS];     /* ... and whether its holder had a bell to be seized, and who */
byte from_whom[CLIENTS];
bool second[CLIENTS];   /* asked after having looked: no again means wait */
bool open[CLIENTS];     /* lease_call.open */
bool unrung[CLIENTS];   /* rl_turn.take_without_bell */
bool waited[CLIENTS];   /* rl_bell.came_from_queue */
byte token[CLIENTS];    /* of the hold, or of the one being released */
byte own[CLIENTS];      /* until rl_held.deadline_us */
byte pending[CLIENTS];  /* the same, if the request under way is granted: counted from its sending */
byte renewal[CLIENTS];  /* the keeper's: 0, 1 sent, 2 reached, 3 not reached */
byte renewal_own[CLIENTS];
byte beats[CLIENTS];
byte work[CLIENTS];     /* PROMPT: how long it still has to do */
bool stood[CLIENTS];    /* PROMPT: in the queue while time passed: FIRST_LOOK_US is over */
bool writes[CLIENTS];   /* between its check and its write */
bool told[CLIENTS];     /* has found its deadline over */
byte late_renewal[CLIENTS]; /* of a version; its sender has given it up */
byte late_release[CLIENTS];
byte ghost[CLIENTS];    /* NO_SETTLE: an acquisition that its sender has given up */
bool forgotten[CLIENTS]; /* FAILOVER: the server has forgotten its acquisition */

/* rowlock_hold_check() says OK. */
#define BELIEVES(c) (at[c] == HELD && own[c] > 0)

hidden byte i;

inline no_other_believes(c)
{
    i = 0;
    do
    :: i < CLIENTS ->
        UNLESS_FORGOTTEN(mutual_exclusion, i == c || !BELIEVES(i));
        i++
    :: else -> break
    od;
    i = 0
}

/* --------------------------------------------------------- the server's part of the protocol */

/* RELEASE_LOCK, or the end of the connection that had it: the first who waits has it now. */
inline pass_bell()
{
    if
    :: nempty(queue) -> queue?bell
    :: empty(queue) -> bell = NOBODY
    fi
}

/* SET of lease_acquire, lease_inherit, lease_acquire_quiet, lease_take_over. */
inline grant(c, to_version, with_bell)
{
    /* "The holder knows first": whoever had it does not think so any more. */
    no_other_believes(c);
    UNLESS_FORGOTTEN(tokens_rise, RISES(highest, to_version));
    previous_version = version;
    version = to_version;
#ifdef ENDLESS
    renewed_version = 0;
    renewed = 0;
#endif
    highest = version;
    held = true;
    owner = c;
    owner_hold = hold[c];
    lease = TTL;
    rings = with_bell;
    rung = 0;
    waived = false
}

/* A version that the next holder gets. */
#ifdef NO_BUMP
#define BUMPED version
#else
#define BUMPED NEXT(version)
#endif

/* lease_renewal in lease_take_over and lease_expire: ends late renewals. */
inline raise_renewal(to_version)
{
#ifndef NO_RAISE
    renewed_version = to_version;
    renewed = 0;
#else
    skip
#endif
}

/* WHERE of lease_acquire: GET_LOCK(bell, 0), or nobody has rung for it, or long ago. */
#ifdef NO_WAITERS_FIRST
#define MAY_ACQUIRE(c) (!held)
#else
#define MAY_ACQUIRE(c) (!held && (bell == NOBODY || bell == c || !rings || rung == 0))
#endif

/* WHERE of lease_take_over, lease_expire. */
#ifdef NO_VERSION_IN_TAKE_OVER
#define MAY_TAKE_OVER(of_version) (OVER)
#elif defined(NO_EXPIRY_IN_TAKE_OVER)
#define MAY_TAKE_OVER(of_version) (held && version == of_version)
#else
#define MAY_TAKE_OVER(of_version) (held && version == of_version && !RUNS)
#endif

inline run_acquire(c)
{
    if
    :: MAY_ACQUIRE(c) ->
        if
        :: bell == NOBODY -> bell = c
        :: else
        fi;
#ifdef PROMPT
        /* Where the last holder rang nobody, all come at once. */
        HOLDS(in_turn, faults < FAULTS || !rings || (bell == c && empty(queue)));
#endif
        grant(c, BUMPED, bell == c);
        got[c] = version; answer[c] = YES
    :: else -> answer[c] = NO
    fi
}

inline run_quiet(c)
{
    if
    :: !held -> grant(c, BUMPED, false); got[c] = version; answer[c] = YES
    :: else -> answer[c] = NO
    fi
}

inline run_inherit(c)
{
    if
#ifdef NO_WAIVER_CHECK
    :: true ->
#else
    :: !held || waived ->
#endif
        grant(c, BUMPED, true); got[c] = version; answer[c] = YES
#ifndef NO_WAIVER_CHECK
    :: else -> answer[c] = NO
#endif
    fi
}

inline run_take_over(c)
{
    if
    :: MAY_TAKE_OVER(seen[c]) ->
        grant(c, NEXT(seen[c]), bell == c);
        raise_renewal(version);
        got[c] = version; answer[c] = YES
    :: else -> answer[c] = NO
    fi
}

/* WHERE of the releases. The owner is a second proof of the same. */
#ifdef NO_VERSION_IN_RELEASE
#define IS_HOLD_OF(c, of_version) (held && owner == c)
#else
#ifdef NO_OWNER_IN_RELEASE
#define IS_HOLD_OF(c, of_version) (held && version == of_version)
#else
#define IS_HOLD_OF(c, of_version) (held && version == of_version && owner == c)
#endif
#endif

inline free_row(c)
{
    HOLDS(releases_its_own, owner == c && !BELIEVES(owner));
    held = false;
    lease = 0;
    rung = RUNG;
    waived = false
}

inline run_release(c, of_version)
{
    if
    :: IS_HOLD_OF(c, of_version) ->
        free_row(c);
#ifndef NO_RING
        if
        :: bell == c -> pass_bell()
        :: else
        fi;
#endif
        answer[c] = YES
    :: else -> answer[c] = NO
    fi
}

/* connection_id: 0 where nobody waits; else it stays, or becomes 1. */
inline run_apart(c)
{
    if
    :: IS_HOLD_OF(c, token[c]) ->
        free_row(c);
        rings = (bell != NOBODY && bell != c);
        answer[c] = YES
    :: else -> answer[c] = NO
    fi
}

inline run_waive(c)
{
    if
    :: IS_HOLD_OF(c, token[c]) ->
        waived = true;
        if
        :: bell == c -> pass_bell()
        :: else
        fi;
        answer[c] = YES
    :: else -> answer[c] = NO
    fi
}

/* lease_renew: the resource is not looked at. */
#ifdef NO_VERSION_IN_RENEWAL
#define MAY_RENEW(of_version) true
#else
#define MAY_RENEW(of_version) AT_MOST(renewed_version, of_version)
#endif

inline run_renew(of_version)
{
    if
    :: MAY_RENEW(of_version) -> renewed_version = of_version; renewed = TTL
    :: else
    fi
}

/* lease_renewed, on the same connection, right after it. */
#ifdef NO_OWNER_IN_RENEWED
#define IS_ROW_OF(c) (held && version == token[c])
#else
#define IS_ROW_OF(c) (held && version == token[c] && owner == c && owner_hold == hold[c])
#endif
#ifdef NO_RENEWED
#define REACHED(c) true
#else
#ifdef NO_ROW_IN_RENEWED
#define REACHED(c) (renewed_version == token[c])
#else
#define REACHED(c) (renewed_version == token[c] && IS_ROW_OF(c))
#endif
#endif

/* What the client `c` had sent is done. */
inline serve(c)
{
    if
    :: asked[c] == ACQUIRE   -> run_acquire(c)
    :: asked[c] == INHERIT   -> run_inherit(c)
    :: asked[c] == QUIET     -> run_quiet(c)
    :: asked[c] == TAKE_OVER -> run_take_over(c)
    :: asked[c] == RELEASE   -> run_release(c, token[c])
    :: asked[c] == APART     -> run_apart(c)
    :: asked[c] == WAIVE     -> run_waive(c)
    fi
}

/* The connection of `c` that has its bell, or waits for it, ends: its own fault, or KILL. What it
 * was running has run, or never will. */
inline end_connection(c)
{
    if
    :: owner == c -> waived = false
    :: else
    fi;
    if
    :: bell == c -> pass_bell()
    :: bell != c && queue??[eval(c)] -> queue??eval(c)
    :: else
    fi;
    if
    :: at[c] == QUEUED || at[c] == POLLS -> at[c] = LOOKS; waited[c] = false
    :: at[c] == ASKED && answer[c] == UNANSWERED -> at[c] = OPEN; open[c] = true; asked[c] = NONE
    :: at[c] == RELEASING && answer[c] == UNANSWERED -> at[c] = AGAIN; asked[c] = NONE
    :: else
    fi
}

/* ---------------------------------------------------------------------------- the client */

/* change_on(): the deadline counts from before the request is sent. */
inline ask(c, statement)
{
    asked[c] = statement;
    answer[c] = UNANSWERED;
    pending[c] = OWN;
    at[c] = ASKED
}

inline forget_call(c)
{
    asked[c] = NONE; answer[c] = UNANSWERED; got[c] = 0; seen[c] = 0; from[c] = false;
    from_whom[c] = 0; second[c] = false; open[c] = false; unrung[c] = false; pending[c] = 0
}

inline forget_hold(c)
{
    token[c] = 0; own[c] = 0; waited[c] = false; beats[c] = 0; work[c] = 0; writes[c] = false;
    told[c] = false; forgotten[c] = false
}

/* rl_bell_give_up(), rl_turn_end(not taken). */
inline give_up_bell(c)
{
#ifndef NO_RING
    if
    :: bell == c -> pass_bell()
    :: else
    fi
#else
    skip
#endif
}

/* A keeper's renewal of a hold that has ended is still under way, or has been lost. */
inline abandon_renewal(c)
{
#ifndef ENDLESS
    if
    :: renewal[c] == 1 && late_renewal[c] == 0 -> late_renewal[c] = token[c]
    :: true
    fi;
#endif
    renewal[c] = 0; renewal_own[c] = 0
}

/* rl_lease_acquire(), after the row is ours; `given` is our own deadline. */
inline have(c, of_token, given)
{
    token[c] = of_token;
    own[c] = given;
    forget_call(c);
    told[c] = (own[c] == 0);
    at[c] = HELD;
#ifdef PROMPT
    beats[c] = 3;
    if
    :: work[c] = 0
    :: work[c] = TTL
    fi;
#else
    beats[c] = (c < RENEWERS);
#endif
    if
    :: own[c] > 0 -> no_other_believes(c)
    :: else
    fi
}

hidden byte seized;

/* rl_bell_seize(): whoever has the bell and will not ring it loses its connection. */
inline seize(c, whose)
{
    if
    :: bell != NOBODY && bell != c && (whose == NOBODY || bell == whose) ->
        seized = bell;
        end_connection(seized);
        seized = 0
    :: else
    fi
}

/* rl_turn_await(): who finds nobody there has the bell at once. */
inline stand_in_queue(c)
{
    second[c] = false;
    unrung[c] = false;
    stood[c] = false;
    if
    :: bell == c -> at[c] = POLLS
    :: bell == NOBODY -> bell = c; at[c] = QUEUED; waited[c] = true
    :: else -> queue!c; at[c] = QUEUED; waited[c] = true
    fi
}

/* decide(), the row being free or not. */
inline decide_free(c)
{
    if
    :: unrung[c] -> seize(c, NOBODY); ask(c, QUIET)
    :: !unrung[c] && bell == c -> ask(c, INHERIT)
    :: else -> ask(c, ACQUIRE)
    fi;
    second[c] = true
}

/* Its owner id is in the row. */
#define IS_MINE(c) (held && owner == c && owner_hold == hold[c])

/* look_and_decide(). */
inline look(c)
{
    if
#ifndef NO_LOOK_UP
    :: IS_MINE(c) && open[c] -> have(c, version, pending[c])
    :: !(IS_MINE(c) && open[c]) ->
#else
    :: true ->
#endif
        open[c] = false;
        HOLDS(answers_are_true, !IS_MINE(c));
        if
        :: held && RUNS -> stand_in_queue(c)
        :: OVER ->
            seen[c] = version; from[c] = rings; from_whom[c] = owner;
            ask(c, TAKE_OVER);
            second[c] = true
        :: !held -> decide_free(c)
        fi
    fi
}

#ifdef PROMPT
#define MAY_LOOK(c) stood[c]
#else
#define MAY_LOOK(c) true
#endif

/* What look_from_queue() waits for; a second after a release that rang. */
#define MAY_GO_UNRUNG (OVER || (!held && (!rings || rung == 0)))

inline leave_queue(c)
{
    queue??eval(c);
    at[c] = LOOKS;
    unrung[c] = true;
    waited[c] = false
}

/* take_bell_too(): from who had it on the connection that the row named. */
inline take_bell_too(c)
{
    if
    :: bell != c && from[c] -> seize(c, from_whom[c])
    :: else
    fi;
    if
    :: bell == NOBODY -> bell = c
    :: else
    fi
}

/* The answer to a statement that takes it. */
inline hear(c)
{
    if
    :: answer[c] == YES ->
        if
        :: asked[c] == TAKE_OVER -> take_bell_too(c)
        :: else
        fi;
        have(c, got[c], pending[c])
    :: answer[c] == NO && !second[c] ->
        asked[c] = NONE; answer[c] = UNANSWERED; pending[c] = 0; seen[c] = 0;
        look(c)
    :: answer[c] == NO && second[c] ->
        asked[c] = NONE; answer[c] = UNANSWERED; pending[c] = 0; seen[c] = 0;
        stand_in_queue(c)
    fi
}

/* free_row(): which way. A loss has been told before (tell_holder()), and its bell rung. */
inline give_back(c)
{
    abandon_renewal(c);
    if
    :: own[c] == 0 -> give_up_bell(c); asked[c] = APART
    :: own[c] > 0 && bell == c && waited[c] -> asked[c] = WAIVE
    :: own[c] > 0 && bell == c && !waited[c] -> asked[c] = RELEASE
    :: own[c] > 0 && bell != c -> asked[c] = APART
    fi;
    own[c] = 0; work[c] = 0; beats[c] = 0; told[c] = false; forgotten[c] = false;
    answer[c] = UNANSWERED;
    at[c] = RELEASING
}

inline released(c)
{
    HOLDS(answers_are_true, !(IS_MINE(c) && version == token[c]));
    give_up_bell(c);
    forget_call(c);
    forget_hold(c);
    at[c] = IDLE
}

inline hear_release(c)
{
    if
    :: asked[c] == WAIVE && answer[c] == YES -> asked[c] = APART; answer[c] = UNANSWERED
    :: else -> released(c)
    fi
}

/* It knows no more of what it was doing; what it sent is under way, or lost. */
inline stop_for_ever(c)
{
    abandon_renewal(c);
    if
    :: answer[c] != UNANSWERED -> asked[c] = NONE
    :: else
    fi;
    answer[c] = UNANSWERED;
    own[c] = 0; pending[c] = 0; waited[c] = false; beats[c] = 0; work[c] = 0; writes[c] = false;
    told[c] = false; forgotten[c] = false; open[c] = false; unrung[c] = false; second[c] = false;
    at[c] = GONE
}

#define MAY_STOP(c) (at[c] != GONE && (at[c] != IDLE || bell == c))
#define HEARS(c) (answer[c] != UNANSWERED)
#define NOTHING_UNDER_WAY(c) (asked[c] == NONE && late_renewal[c] == 0 && late_release[c] == 0)

proctype Client(byte c)
{
    do
    /* ------------------------------------------------- what it has sent, at the server */
    :: atomic {
            asked[c] != NONE && !HEARS(c) ->
            serve(c);
            if
            :: at[c] == GONE -> asked[c] = NONE; answer[c] = UNANSWERED; got[c] = 0
            :: else
            fi
        }
    :: atomic { late_renewal[c] != 0 -> run_renew(late_renewal[c]); late_renewal[c] = 0 }
    :: atomic {
            late_release[c] != 0 ->
            if
            :: IS_HOLD_OF(c, late_release[c]) -> free_row(c)
            :: else
            fi;
            late_release[c] = 0
        }
#ifdef NO_SETTLE
    :: ghost[c] == ACQUIRE -> HOLDS(answers_are_true, !MAY_ACQUIRE(c)); ghost[c] = NONE
#endif

    /* ------------------------------------------------------------ attempt() and waiting */
    :: atomic {
#ifdef ENDLESS
            at[c] == IDLE && late_release[c] == 0 ->
#else
            at[c] == IDLE && rounds[c] > 0 ->
            rounds[c]--;
#endif
#if ROUNDS > 1
            hold[c] = 1 - hold[c];
#endif
            if
            :: ask(c, ACQUIRE)
            :: stand_in_queue(c) /* rl_turn_waits_first() */
            fi
        }
    :: atomic { at[c] == ASKED && HEARS(c) -> hear(c) }
    :: atomic { at[c] == LOOKS -> look(c) }
#ifdef NO_SWAP_AFTER_BELL
    :: atomic { at[c] == QUEUED && bell == c -> have(c, version, OWN) }
#else
    :: atomic { at[c] == QUEUED && bell == c -> ask(c, INHERIT) }
#endif
#ifndef NO_LOOK_FROM_QUEUE
    :: atomic {
            at[c] == QUEUED && bell != c && MAY_GO_UNRUNG && MAY_LOOK(c) ->
#ifdef PROMPT
            HOLDS(in_turn, faults < FAULTS);
#endif
            leave_queue(c)
        }
#endif
    :: atomic { at[c] == POLLS && bell == c && (!held || OVER || waived) -> ask(c, INHERIT) }
    :: atomic {
            at[c] == OPEN ->
            /* rl_settle(): the connection is killed, and with it what it was working on. */
#ifdef NO_SETTLE
            if
            :: !HEARS(c) -> ghost[c] = asked[c]
            :: else
            fi;
#endif
            asked[c] = NONE; answer[c] = UNANSWERED; got[c] = 0; seen[c] = 0;
            end_connection(c);
            at[c] = LOOKS
        }

    /* --------------------------------------------------------------------------- the hold */
    :: atomic { at[c] == HELD && own[c] > 0 && !writes[c] && work[c] == 0 -> give_back(c) }
    :: atomic { at[c] == HELD && own[c] == 0 && !writes[c] -> give_back(c) }
#ifdef WRITES
    /* rowlock_hold_check(), and some time later the write, fenced: caller_fence. */
    :: at[c] == HELD && own[c] > 0 && !writes[c] -> writes[c] = true
    :: atomic {
            at[c] == HELD && writes[c] ->
            if
#ifdef NO_FENCE
            :: true ->
#else
            :: held && version == token[c] && owner == c ->
#endif
                HOLDS(writes_in_order, token[c] >= last_written);
                last_written = token[c]
#ifndef NO_FENCE
            :: else
#endif
            fi;
            writes[c] = false
        }
#endif
    :: atomic { at[c] == RELEASING && HEARS(c) -> hear_release(c) }
    :: atomic { at[c] == AGAIN -> asked[c] = APART; at[c] = RELEASING }

    /* ------------------------------------------------------------------------- the keeper */
    :: atomic {
            at[c] == HELD && renewal[c] == 0 && beats[c] > 0 && own[c] > 0 && own[c] < OWN ->
            renewal[c] = 1; renewal_own[c] = OWN; beats[c]--
        }
    :: atomic {
            renewal[c] == 1 ->
            run_renew(token[c]);
            if
            :: REACHED(c) ->
                HOLDS(answers_are_true, !forgotten[c]);
                renewal[c] = 2
            :: else -> renewal[c] = 3
            fi
        }
    :: atomic {
            at[c] == HELD && renewal[c] == 2 ->
            /* apply_renewals() */
#ifdef DEADLINE_FROM_REPLY
            own[c] = OWN;
#else
            own[c] = renewal_own[c];
#endif
            renewal[c] = 0; renewal_own[c] = 0;
            if
            :: own[c] > 0 -> no_other_believes(c)
            :: else
            fi
        }
    :: atomic { at[c] == HELD && renewal[c] == 3 -> own[c] = 0; renewal[c] = 0; renewal_own[c] = 0 }

    /* -------------------------------------------------------------------------- its faults */
    /* A reply is lost, or not waited for any longer. */
    :: atomic { faults > 0 && at[c] == ASKED && !open[c] -> faults--; open[c] = true; at[c] = OPEN }
    :: atomic {
            faults > 0 && at[c] == RELEASING ->
            faults--;
            if
            :: !HEARS(c) && asked[c] != WAIVE -> late_release[c] = token[c]
            :: true
            fi;
            asked[c] = APART; answer[c] = UNANSWERED;
            at[c] = HELD; /* not the release's connection again */
            end_connection(c);
            at[c] = RELEASING
        }
    :: atomic { faults > 0 && renewal[c] > 0 && at[c] == HELD -> faults--; abandon_renewal(c) }
    /* Its connection is lost. */
    :: atomic {
            faults > 0 && (bell == c || at[c] == QUEUED || at[c] == ASKED) && at[c] != GONE ->
            faults--; end_connection(c)
        }
    /* It dies; or its host vanishes, and the server keeps its connection, bell and place. */
    :: atomic { faults > 0 && MAY_STOP(c) -> faults--; end_connection(c); stop_for_ever(c) }
    :: atomic { faults > 0 && MAY_STOP(c) -> faults--; stop_for_ever(c) }

    :: ((at[c] == IDLE && rounds[c] == 0) || at[c] == GONE) && NOTHING_UNDER_WAY(c) -> break
    od
}

/* ------------------------------------------------------------------------- everything else */

inline one_less(timer)
{
    if
    :: timer > 0 -> timer--
    :: else
    fi
}

inline tick(misses)
{
    one_less(lease);
    one_less(renewed);
    one_less(rung);
    i = 0;
    do
    :: i < CLIENTS ->
        if
        :: i != misses -> one_less(own[i]); one_less(pending[i]); one_less(renewal_own[i])
        :: else
        fi;
        one_less(work[i]);
#ifdef PROMPT
        stood[i] = (at[i] == QUEUED);
#endif
        i++
    :: else -> break
    od;
    i = 0
}

#ifdef PROMPT
#define LOOK_IS_DUE(c) (at[c] == QUEUED && !stood[c])
#else
#define LOOK_IS_DUE(c) false
#endif
#define RUNNING(c) (LOOK_IS_DUE(c) || own[c] > 0 || pending[c] > 0 || renewal_own[c] > 0 || work[c] > 0)
#if CLIENTS == 2
#define ANY_RUNNING (RUNNING(0) || RUNNING(1))
#elif CLIENTS == 3
#define ANY_RUNNING (RUNNING(0) || RUNNING(1) || RUNNING(2))
#else
#define ANY_RUNNING (RUNNING(0) || RUNNING(1) || RUNNING(2) || RUNNING(3))
#endif
#define TIMERS (lease > 0 || renewed > 0 || rung > 0 || ANY_RUNNING)

active proctype Time()
{
end:
    do
#ifdef PROMPT
    :: timeout && TIMERS -> d_step { tick(NOBODY) }
#else
    :: TIMERS -> d_step { tick(NOBODY) }
    /* By so much the margin is larger than what two clocks may differ: the first client's is slow. */
#ifdef DRIFT
    :: TIMERS && drift > 0 -> d_step { drift--; tick(0) }
#endif
#endif
    od
}

#ifdef SWEEPER
/* The sweeper, or anybody's section: reads, and later lease_expire. */
active proctype Sweeper()
{
    byte found;
end:
    atomic { OVER -> found = version };
    atomic {
        if
        :: MAY_TAKE_OVER(found) ->
            no_other_believes(NOBODY);
            UNLESS_FORGOTTEN(tokens_rise, RISES(highest, NEXT(found)));
            version = NEXT(found);
            highest = version;
            held = false;
            lease = 0;
            rings = false;
            waived = false;
            raise_renewal(version)
        :: else
        fi
    }
}
#endif

#ifdef FAILOVER
/* The server's place is taken by a copy that lacks the last acquisition. */
active proctype Failover()
{
end:
    atomic {
        held && version == highest && previous_version != version ->
        forgotten[owner] = (at[owner] == HELD);
        held = false;
        version = previous_version;
        owner = NOBODY;
        lease = 0; rung = 0; rings = false; waived = false;
        if
        :: renewed_version > version -> renewed_version = version; renewed = 0
        :: else
        fi
    }
}
#endif

init {
    atomic {
        i = 0;
        do
        :: i < CLIENTS -> run Client(i); i++
        :: else -> break
        od;
        i = 0
    }
}

/* Who wants it has it some time (or is dead), whatever the others do: fairness is of processes. */
#ifdef ENDLESS
#define WAITS (at[0] == ASKED || at[0] == LOOKS || at[0] == QUEUED || at[0] == POLLS || at[0] == OPEN)
ltl gets_in { [] (WAITS -> <> !WAITS) }
#endif
