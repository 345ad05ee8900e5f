/*
 * Readers and writers of one name, as a model for spin (Promela). What each piece stands for is said
 * beside it: a statement of sql/shared.sql, a function of src/kind/shared.c. docs/model.md says how it is
 * run. The bell, its queue and the renewals of a writer are in lease.pml: here everybody may come at any time.
 *
 * A statement is one step on the server, at any time after what led to it; its reply is heard in the same
 * step, unless it is lost. A client that is stopped is one that makes no step.
 *
 * Time is not counted. Each deadline is a bit, which passes at any time, in the order that clocks keep
 * (lease.pml counts them): a client's own deadline counts from before its request, less a margin, so it is
 * over before the server's expiry is. What is upgraded or downgraded is not renewed meanwhile: its deadline
 * is from before that, and over before what the change has begun.
 *
 * Sizes:   WRITERS, READERS (1 or 2 of each), ROUNDS (acquisitions of each); and of all together: FAULTS
 *          (at most 2), GIVE_UPS, CHANGES (upgrades and downgrades), BREAKS
 * Worlds:  ENDLESS     rounds have no end, versions go round, and time passes only when nobody can make
 *                      a step: for gets_in (at the end)
 * Guards:  NO_... leaves one of the protocol's guards out, and so do the other names in `run`; each must
 *          make a property fail.
 * ONLY:    of the properties, this one alone is looked at.
 */
#ifndef WRITERS
#define WRITERS 2
#endif
#ifndef READERS
#define READERS 2
#endif
#ifndef ROUNDS
#define ROUNDS 1
#endif
#ifndef FAULTS
#define FAULTS 0
#endif
#ifndef GIVE_UPS
#define GIVE_UPS 0
#endif
#ifndef CHANGES
#define CHANGES 0
#endif
#ifndef BREAKS
#define BREAKS 0
#endif

/* The writers are 0 and 1, the readers 2 and 3. */
#define CLIENTS 4
#define NOBODY  CLIENTS
#define IS_WRITER(c) (c < 2)

#define MUTUAL_EXCLUSION 1
#define TOKENS_RISE      2
#define READERS_TOKEN    3
#define KEEPS_TOKEN      4
#define STAYS_CLOSED     5
#define NONE_BETWEEN     6
#ifdef ONLY
#define ASIDE(property) (ONLY != property)
#else
#define ASIDE(property) 0
#endif

/* A property has a name, which spin says with the assertion that failed. True: it is not looked at. */
#define HOLDS(property, what) assert((what) || property)
hidden byte mutual_exclusion; /* nobody believes to hold it beside a writer that does */
hidden byte tokens_rise;      /* a writer's is above all tokens given out before */
hidden byte readers_token;    /* a reader's is the last writer's, or what has taken its place without one */
hidden byte keeps_token;      /* a writer that waits, or gives up, costs no reader its token */
hidden byte stays_closed;     /* a next writer whose time is not over is put aside by no other client */
hidden byte none_between;     /* no writer came since what is upgraded was shared */

#ifdef ENDLESS
#define NEXT(v)      (((v) % 3) + 1)
#define RISES(v)     true
#define IS_LATEST(v) true
#define PASSES       timeout
#else
#define NEXT(v)      ((v) + 1)
#define RISES(v)     ((v) > highest)
#define IS_LATEST(v) ((v) >= last && (v) <= version)
#define PASSES       true
#endif

/* ------------------------------------------------------------------------------- the server */

#define FREE   0
#define HELD   1
#define SHARED 2

/* The row of `resource`. `lease`: its lease, of a holder alone, runs; `next_runs`: until next_expires_at. */
byte status = FREE;
byte version;
byte owner = NOBODY;
bool lease;
byte next_owner = NOBODY;
bool next_runs;

/* The rows of `lock_grant`, one for each owner: there is one, its time is not over, its version. */
bool row[CLIENTS];
bool row_runs[CLIENTS];
byte row_version[CLIENTS];

byte faults = FAULTS;
byte give_ups = GIVE_UPS;
byte changes = CHANGES;
byte breaks = BREAKS;

/* For the properties alone. */
byte highest; /* token given out, to whomever */
byte last;    /* token of the last writer */
byte broken;  /* version that was broken last */

/* Statements that their sender has given up, and that the server runs yet: one for each fault. */
#define NONE   0
#define CLOSE  1
#define REOPEN 2
#define TAKE   3
#define LEAVE  4
#define JOIN   5
#define BEGIN  6
#define RENEW  7
byte late_what[2];
byte late_by[2];
byte late_version[2];

/* ------------------------------------------------------------------------------ the clients */

#define IDLE   0
#define ENTERS 1  /* shared_enter, or shared_open, is under way */
#define FINDS  2  /* the reply was lost, and is settled: shared_token */
#define READS  3  /* is a reader */
#define LOOKS  4  /* look_and_decide() */
#define CLOSES 5  /* shared_close is under way */
#define COUNTS 6  /* none_is_in() */
#define TAKES  7  /* shared_take is under way */
#define WRITES 8  /* holds it alone */
#define DROPS  9  /* has upgraded: the shared_leave of what it was is under way */
#define JOINS  10 /* downgrades: shared_join is under way */
#define BEGINS 11 /* ... and shared_begin */
#define GONE   12 /* dead */

byte at[CLIENTS];
byte rounds[CLIENTS] = ROUNDS;
byte token[CLIENTS];
bool own[CLIENTS];  /* rowlock_hold_check() says OK: its deadline is not over, and it has not heard of a loss */
byte seen[CLIENTS]; /* the version that was looked at; DROPS: its token as a reader */
bool up[CLIENTS];   /* rl_acquisition.upgrade: is a reader, and waits as a writer */

#define BELIEVES(c)   own[c]
#define IS_ALONE(c)   (own[c] && (at[c] == WRITES || at[c] == DROPS || at[c] == DOWNGRADES))
#define IS_READER(c)  (own[c] && (at[c] == READS || up[c]))
#ifdef RENEWED_BESIDE_BEGIN
#define LIVES_BY_ROW(c) IS_READER(c)
#else
#define LIVES_BY_ROW(c) (IS_READER(c) || (own[c] && at[c] == BEGINS))
#endif

/* Is it so of anybody but `c`? */
#define BESIDE(c, is) ((c != 0 && is(0)) || (c != 1 && is(1)) || (c != 2 && is(2)) || (c != 3 && is(3)))

/* --------------------------------------------------------- the server's part of the protocol */

#define IS_HELD_BY(c, of_version) (status == HELD && owner == c && version == (of_version))

/* {{drain_over}} */
#ifdef NO_NEXT_EXPIRY
#define DRAIN_OVER (next_owner == NOBODY)
#else
#define DRAIN_OVER (next_owner == NOBODY || !next_runs)
#endif

/* WHERE of shared_enter. */
#ifdef NO_STATUS_IN_ENTER
#define MAY_ENTER (next_owner == NOBODY)
#elif defined(NO_NEXT_IN_ENTER)
#define MAY_ENTER (status == SHARED)
#else
#define MAY_ENTER (status == SHARED && next_owner == NOBODY)
#endif

/* ... of shared_open, where that changes anything. */
#define MAY_OPEN (status == FREE || (status == SHARED && next_owner != NOBODY && DRAIN_OVER))

/* ... of shared_close. */
#ifdef NO_VERSION_IN_CLOSE
#define CLOSES_SAME(of_version) true
#else
#define CLOSES_SAME(of_version) (version == (of_version))
#endif
#ifdef NO_NEXT_IN_CLOSE
#define MAY_BE_NEXT(c) true
#else
#define MAY_BE_NEXT(c) (DRAIN_OVER || next_owner == c)
#endif
#define MAY_CLOSE(c, of_version) (status == SHARED && CLOSES_SAME(of_version) && MAY_BE_NEXT(c))

/* ... of shared_reopen. */
#ifdef NO_OWNER_IN_REOPEN
#define MAY_REOPEN(c) (status == SHARED && next_owner != NOBODY)
#else
#define MAY_REOPEN(c) (status == SHARED && next_owner == c)
#endif

/* A row keeps writers out until it is deleted, be its time over or not. */
#ifdef EXPIRED_IS_OUT
#define IS_IN(n) (row[n] && row_runs[n])
#else
#define IS_IN(n) row[n]
#endif
#define IS_EXPIRED(n) (row[n] && !row_runs[n])

/* ... of shared_take. */
#ifdef NO_VERSION_IN_TAKE
#define TAKES_SAME(of_version) true
#else
#define TAKES_SAME(of_version) (version == (of_version))
#endif
#ifdef NO_LOOK_IN_TAKE
#define TAKES_ALONE(c) true
#else
#define TAKES_ALONE(c) (!BESIDE(c, IS_IN))
#endif
#define MAY_TAKE(c, of_version) \
    (status == SHARED && next_owner == c && TAKES_SAME(of_version) && TAKES_ALONE(c))
#ifdef NO_BUMP
#define TAKEN(of_version) (of_version)
#else
#define TAKEN(of_version) NEXT(of_version)
#endif

/* What shared_reader says: is it closed for this owner; is a reader in? */
#ifdef LOOK_BEFORE_CLOSE
#define SEES_CLOSED(c) (status == SHARED && version == seen[c])
#elif defined(NO_VERSION_IN_LOOK)
#define SEES_CLOSED(c) (status == SHARED && next_owner == c)
#else
#define SEES_CLOSED(c) (status == SHARED && version == seen[c] && next_owner == c)
#endif
#ifdef NO_LOOK
#define SEES_NONE(c) true
#else
#define SEES_NONE(c) (!BESIDE(c, IS_IN))
#endif

/* decide(): an upgrade goes on only from the version that it shared. */
#ifdef NO_VERSION_IN_UPGRADE
#define IS_SAME(c) true
#else
#define IS_SAME(c) (!up[c] || version == token[c])
#endif

/* The order of a writer's steps, and of a downgrade's. */
#ifdef LOOK_BEFORE_CLOSE
#define FIRST       COUNTS
#define AFTER_LOOK  CLOSES
#define AFTER_CLOSE TAKES
#else
#define FIRST       CLOSES
#define AFTER_LOOK  TAKES
#define AFTER_CLOSE COUNTS
#endif
#ifdef BEGIN_BEFORE_JOIN
#define DOWNGRADES  BEGINS
#define AFTER_BEGIN JOINS
#define AFTER_JOIN  READS
#define MAY_JOIN(c, of_version) (owner == c && version == (of_version))
#else
#define DOWNGRADES  JOINS
#define AFTER_JOIN  BEGINS
#define AFTER_BEGIN READS
#define MAY_JOIN(c, of_version) IS_HELD_BY(c, of_version)
#endif

inline delete_row(n)
{
    row[n] = false; row_runs[n] = false; row_version[n] = 0
}

inline note_token(of_version)
{
    if
    :: of_version > highest -> highest = of_version
    :: else
    fi
}

/* SET of lease_acquire, shared_take. */
inline grant(c, to_version)
{
    HOLDS(mutual_exclusion, !BESIDE(c, BELIEVES));
    HOLDS(tokens_rise, RISES(to_version));
    version = to_version;
    last = version;
    note_token(version);
    status = HELD;
    owner = c;
    lease = true;
    next_owner = NOBODY;
    next_runs = false
}

/* lease_expire, or lease_release. */
inline free_row()
{
    status = FREE;
    owner = NOBODY;
    lease = false
}

/* Once more with the same owner, it finds its own row. */
inline run_enter(c)
{
    row[c] = true; row_runs[c] = true; row_version[c] = version;
    note_token(version)
}

inline run_open()
{
    if
    :: version == 0 -> version = 1
    :: else
    fi;
    status = SHARED;
    next_owner = NOBODY;
    next_runs = false
}

#define HAS_ITS_TOKEN(n) \
    (!IS_READER(n) || (row[n] && (token[n] == version || token[n] <= broken)))

inline all_have_theirs()
{
    HOLDS(keeps_token, HAS_ITS_TOKEN(0));
    HOLDS(keeps_token, HAS_ITS_TOKEN(1));
    HOLDS(keeps_token, HAS_ITS_TOKEN(2));
    HOLDS(keeps_token, HAS_ITS_TOKEN(3))
}

inline run_close(c)
{
    HOLDS(stays_closed, next_owner == NOBODY || next_owner == c || !next_runs);
    next_owner = c;
    next_runs = true;
#ifdef BUMP_AT_CLOSE
    version = NEXT(version);
#endif
    all_have_theirs()
}

inline run_reopen(c)
{
    HOLDS(stays_closed, next_owner == c || !next_runs);
    next_owner = NOBODY;
    next_runs = false;
    all_have_theirs()
}

inline expire_row(n)
{
    if
#ifdef NO_EXPIRY_IN_EXPIRE
    :: row[n] -> delete_row(n)
#else
    :: IS_EXPIRED(n) -> delete_row(n)
#endif
    :: else
    fi
}

inline run_expire()
{
    expire_row(0);
    expire_row(1);
    expire_row(2);
    expire_row(3)
}

inline run_take(c, of_version)
{
    HOLDS(none_between, !own[c] || last <= token[c]);
    grant(c, TAKEN(of_version))
}

inline run_leave(c, of_version)
{
    if
    :: row[c] && row_version[c] == of_version -> delete_row(c)
    :: else
    fi
}

/* An earlier row of this owner, which its upgrade has not deleted, gets the version that is its token now:
 * else a shared_leave that comes late would delete it. */
inline run_join(c)
{
#ifdef NO_VERSION_IN_JOIN
    if
    :: !row[c] -> row_version[c] = version
    :: else
    fi;
#else
    row_version[c] = version;
#endif
    row[c] = true;
    row_runs[c] = true
}

inline run_begin()
{
    status = SHARED;
    lease = false;
    next_owner = NOBODY;
    next_runs = false
}

#ifdef NO_EXPIRY_IN_RENEWAL
#define MAY_RENEW(c, of_version) (row[c] && row_version[c] == (of_version))
#else
#define MAY_RENEW(c, of_version) (row[c] && row_version[c] == (of_version) && row_runs[c])
#endif

/* The keeper hears of it late: a loss is final (rl_extend_in_time()). */
inline run_renew(c)
{
    row_runs[c] = true;
#ifdef NO_FINAL_LOSS
    if
    :: at[c] == READS ->
        own[c] = true;
        HOLDS(mutual_exclusion, !BESIDE(c, IS_ALONE))
    :: else
    fi
#endif
}

/* ---------------------------------------------------------------------------- the client */

inline finish(c)
{
    own[c] = false; token[c] = 0; seen[c] = 0; up[c] = false;
    at[c] = IDLE
}

/* By the reply, or by a look for its row after that was lost. */
inline have_entered(c)
{
    token[c] = row_version[c];
    own[c] = true;
    at[c] = READS;
    HOLDS(mutual_exclusion, !BESIDE(c, IS_ALONE));
    HOLDS(readers_token, IS_LATEST(token[c]))
}

/* It is held alone: by the reply, or by a look after that was lost. What was lost as a reader is lost. */
inline have_alone(c)
{
    if
    :: up[c] && own[c] && lease -> seen[c] = token[c]; at[c] = DROPS
    :: up[c] && !(own[c] && lease) -> own[c] = false; seen[c] = 0; at[c] = WRITES
    :: else -> own[c] = lease; seen[c] = 0; at[c] = WRITES
    fi;
    up[c] = false;
    token[c] = version;
    HOLDS(mutual_exclusion, !own[c] || !BESIDE(c, BELIEVES))
}

inline look_again(c)
{
    seen[c] = 0;
    at[c] = LOOKS
}

/* The wait for the readers ends: a reader goes on as one. */
inline end_wait(c)
{
    if
    :: up[c] -> up[c] = false; seen[c] = 0; at[c] = READS
    :: else -> finish(c)
    fi
}

/* It ends without knowing whether it is held alone: UNKNOWN. A reader counts as lost. */
inline end_unknown(c)
{
#ifndef NO_LOSS_AFTER_UPGRADE
    own[c] = false;
#endif
    end_wait(c)
}

/* The call is over, and has little time for it. */
inline reopen_or_not(c)
{
    if
    :: MAY_REOPEN(c) -> run_reopen(c)
    :: true
    fi
}

inline send_late(what, c, of_version)
{
    faults--;
    late_what[faults] = what;
    late_by[faults] = c;
    late_version[faults] = of_version
}

/* Owner ids are made anew for each acquisition. So that one may do here, nothing is left of the last. */
#define NOT_LATE(c, s) (late_what[s] == NONE || late_by[s] != c)
#define IS_CLEAN(c) \
    (!row[c] && next_owner != c && !(status == HELD && owner == c) && NOT_LATE(c, 0) && NOT_LATE(c, 1))

#ifdef ENDLESS
#define MAY_BEGIN(c) IS_CLEAN(c)
#define IS_OVER(c)   false
#else
#define MAY_BEGIN(c) (rounds[c] > 0 && IS_CLEAN(c))
#define IS_OVER(c)   (rounds[c] == 0 || !IS_CLEAN(c))
#endif

inline begin_round(c)
{
#ifndef ENDLESS
    rounds[c]--;
#endif
    if
    :: IS_WRITER(c) -> at[c] = LOOKS
    :: else -> at[c] = ENTERS
    fi
}

proctype Client(byte c)
{
#ifdef ONLY
end:
#endif
    do
    :: atomic { at[c] == IDLE && MAY_BEGIN(c) -> begin_round(c) }

    /* ------------------------------------------------------------------------- a reader */
    :: atomic { at[c] == ENTERS && MAY_ENTER -> run_enter(c); have_entered(c) }
    :: atomic { at[c] == ENTERS && MAY_OPEN -> run_open() }
    :: atomic {
            at[c] == FINDS ->
            if
            :: row[c] && row_version[c] != 0 && row_runs[c] -> have_entered(c)
            :: else -> at[c] = ENTERS
            fi
        }
    /* shared_leave, or shared_ended of what was broken. It believes so until then. */
    :: atomic {
            at[c] == READS ->
            run_leave(c, token[c]);
            run_leave(c, 0);
            finish(c)
        }
    /* The keeper: a renewal finds that it was broken. */
    :: atomic { IS_READER(c) && !(row[c] && row_version[c] == token[c]) -> own[c] = false }
    /* rl_shared_upgrade() */
    :: atomic {
            at[c] == READS && own[c] && changes > 0 ->
            changes--;
            up[c] = true; seen[c] = token[c];
            at[c] = FIRST
        }

    /* ------------------------------------------------------------------------- a writer */
    /* take(): nobody has it. */
    :: atomic { at[c] == LOOKS && !up[c] && status == FREE -> grant(c, NEXT(version)); have_alone(c) }
    /* take_over(), of a writer by whomever. */
    :: atomic {
            (at[c] == LOOKS || at[c] == ENTERS) && status == HELD && owner != c && !lease ->
            version = NEXT(version);
            free_row()
        }
    /* After a lost reply. */
    :: atomic { at[c] == LOOKS && status == HELD && owner == c -> have_alone(c) }
    /* rl_shared_drain() */
    :: atomic {
            at[c] == LOOKS && status == SHARED && DRAIN_OVER && IS_SAME(c) -> seen[c] = version;
            at[c] = FIRST
        }
    :: atomic {
            at[c] == LOOKS && status == SHARED && next_owner == c && !DRAIN_OVER && IS_SAME(c) ->
            seen[c] = version;
            at[c] = COUNTS
        }
    /* An upgrade does not wait for another writer: DEADLOCK. And it was broken, if the version is not its
     * token: LOST, of which the keeper hears, too. */
    :: atomic {
            at[c] == LOOKS && up[c] &&
            (status == FREE || (status == HELD && owner != c) ||
             (status == SHARED && ((next_owner != c && !DRAIN_OVER) || !IS_SAME(c)))) ->
            end_wait(c)
        }
    :: atomic {
            at[c] == CLOSES ->
            if
            :: MAY_CLOSE(c, seen[c]) -> run_close(c); at[c] = AFTER_CLOSE
            :: else -> look_again(c)
            fi
        }
    /* none_is_in(): the look is one statement, which sees what was there when it began. */
    :: atomic { at[c] == COUNTS && SEES_CLOSED(c) && SEES_NONE(c) -> at[c] = AFTER_LOOK }
    :: atomic { at[c] == COUNTS && !SEES_CLOSED(c) -> look_again(c) }
#ifndef NO_EXPIRE
    :: atomic { at[c] == COUNTS && BESIDE(c, IS_EXPIRED) -> run_expire() }
#endif
    :: atomic {
            at[c] == TAKES ->
            if
            :: MAY_TAKE(c, seen[c]) -> run_take(c, seen[c]); have_alone(c)
            :: else -> look_again(c)
            fi
        }
    /* rl_shared_reopen(), or the end of an upgrade in vain. */
    :: atomic {
            (at[c] == COUNTS || at[c] == TAKES) && give_ups > 0 ->
            give_ups--;
            if
            :: MAY_REOPEN(c) -> run_reopen(c)
            :: else
            fi;
            end_wait(c)
        }
    :: atomic {
            at[c] == LOOKS && give_ups > 0 ->
            give_ups--;
            if
            /* Its take was lost, and it has not looked yet. */
            :: status == HELD && owner == c -> end_unknown(c)
            :: else -> end_wait(c)
            fi
        }
    :: atomic { at[c] == DROPS -> run_leave(c, seen[c]); seen[c] = 0; at[c] = WRITES }

    /* ---------------------------------------------------------------------- has it alone */
    :: atomic {
            at[c] == WRITES ->
            if
            :: IS_HELD_BY(c, token[c]) -> free_row()
            :: else
            fi;
            finish(c)
        }
    /* rl_shared_downgrade() */
    :: atomic { at[c] == WRITES && own[c] && changes > 0 -> changes--; at[c] = DOWNGRADES }
    :: atomic {
            at[c] == JOINS ->
            if
            :: MAY_JOIN(c, token[c]) -> run_join(c); at[c] = AFTER_JOIN
            :: else -> own[c] = false; at[c] = WRITES
            fi
        }
    :: atomic {
            at[c] == BEGINS ->
            if
            :: IS_HELD_BY(c, token[c]) -> run_begin(); at[c] = AFTER_BEGIN
            :: else -> own[c] = false; at[c] = WRITES
            fi
        }

    /* ---------------------------------------------------------------------------- faults */
    /* The statement has run, or runs late, or never: a late one may be the last of all steps. */
#if FAULTS > 0
    :: atomic { faults > 0 && at[c] == ENTERS && MAY_ENTER -> faults--; run_enter(c); at[c] = FINDS }
    :: atomic {
            faults > 0 && at[c] == CLOSES ->
            if
            /* rl_settle(), and a look. That it has not run is as if it had not been sent. */
            :: MAY_CLOSE(c, seen[c]) -> faults--; run_close(c); look_again(c)
#ifdef NO_SETTLE
            :: true -> send_late(CLOSE, c, seen[c]); look_again(c)
#endif
            /* The call ends before that. */
            :: true -> send_late(CLOSE, c, seen[c]); reopen_or_not(c); end_wait(c)
            fi
        }
    :: atomic {
            faults > 0 && at[c] == TAKES ->
            if
            /* rl_settle(), and a look. */
            :: MAY_TAKE(c, seen[c]) -> faults--; run_take(c, seen[c]); look_again(c)
            /* The call ends without knowing: UNKNOWN. */
            :: MAY_TAKE(c, seen[c]) -> faults--; run_take(c, seen[c]); end_unknown(c)
            :: true -> send_late(TAKE, c, seen[c]); reopen_or_not(c); end_unknown(c)
            fi
        }
    :: atomic {
            faults > 0 && (at[c] == COUNTS || at[c] == TAKES) && give_ups > 0 ->
            give_ups--;
            send_late(REOPEN, c, 0);
            end_wait(c)
        }
    :: atomic { faults > 0 && at[c] == DROPS -> send_late(LEAVE, c, seen[c]); seen[c] = 0; at[c] = WRITES }
    /* The downgrade says UNKNOWN, and counts as lost. */
    :: atomic {
            faults > 0 && at[c] == JOINS ->
            if
            :: MAY_JOIN(c, token[c]) -> faults--; run_join(c)
            :: true -> send_late(JOIN, c, token[c])
            fi;
#ifndef NO_LOSS_AFTER_DOWNGRADE
            own[c] = false;
#endif
            at[c] = WRITES
        }
    /* shared_begin was not sent, or has failed: it is held alone, as before, and its row is left. */
    :: atomic { faults > 0 && at[c] == BEGINS -> faults--; at[c] = WRITES }
    :: atomic {
            faults > 0 && at[c] == BEGINS ->
            if
            :: IS_HELD_BY(c, token[c]) -> faults--; run_begin()
            :: true -> send_late(BEGIN, c, token[c])
            fi;
#ifndef NO_LOSS_AFTER_DOWNGRADE
            own[c] = false;
#endif
            at[c] = WRITES
        }
    :: atomic { faults > 0 && at[c] == READS && own[c] -> send_late(RENEW, c, token[c]) }
#ifdef EMPTY_IS_NONE
    /* KILL QUERY meets the look, which answers without a row. */
    :: atomic { faults > 0 && at[c] == COUNTS && SEES_CLOSED(c) -> faults--; at[c] = AFTER_LOOK }
#endif
    :: atomic { faults > 0 && at[c] != IDLE && at[c] != GONE -> faults--; finish(c); at[c] = GONE }
#endif

    :: (at[c] == IDLE && IS_OVER(c)) || at[c] == GONE -> break
    od
}

/* ------------------------------------------------------------------------- everything else */

#if FAULTS > 0
inline run_late(s)
{
    if
    :: late_what[s] == CLOSE && MAY_CLOSE(late_by[s], late_version[s]) -> run_close(late_by[s])
    :: late_what[s] == REOPEN && MAY_REOPEN(late_by[s]) -> run_reopen(late_by[s])
    :: late_what[s] == TAKE && MAY_TAKE(late_by[s], late_version[s]) -> run_take(late_by[s], late_version[s])
    :: late_what[s] == LEAVE -> run_leave(late_by[s], late_version[s])
    :: late_what[s] == JOIN && MAY_JOIN(late_by[s], late_version[s]) -> run_join(late_by[s])
    :: late_what[s] == BEGIN && IS_HELD_BY(late_by[s], late_version[s]) -> run_begin()
    :: late_what[s] == RENEW && MAY_RENEW(late_by[s], late_version[s]) -> run_renew(late_by[s])
    :: else
    fi;
    late_what[s] = NONE; late_by[s] = 0; late_version[s] = 0
}

active proctype Late()
{
end:
    do
    :: atomic { late_what[0] != NONE -> run_late(0) }
    :: atomic { late_what[1] != NONE -> run_late(1) }
    od
}
#endif

#if BREAKS > 0
/* break_readers(): reads, and then two statements. */
inline break_row(n, of_version)
{
    if
    :: row[n] && row_version[n] <= of_version ->
#ifdef DROP_AT_BREAK
        delete_row(n)
#else
        row_version[n] = 0
#endif
    :: else
    fi
}

active proctype Administrator()
{
    byte found;
end:
    do
    :: atomic { breaks > 0 && status == SHARED -> breaks--; found = version };
        atomic {
            if
            :: status == SHARED && version == found ->
                version = NEXT(version);
                broken = found;
                next_owner = NOBODY;
                next_runs = false
            :: else -> found = 0
            fi
        };
        atomic {
            if
            :: found != 0 ->
                break_row(0, found);
                break_row(1, found);
                break_row(2, found);
                break_row(3, found)
            :: else
            fi;
            found = 0
        }
    od
}
#endif

/* While its holder believes that it has it, a lease runs. The upgrade's reader is not renewed from before its
 * take is sent until it is settled (rl_hold_leave_alone()): so its deadline is over before the lease that the
 * take has begun, though it may not know of that one. */
#ifdef RENEWED_BESIDE_TAKE
#define LEFT_ALONE(c) false
#else
#define LEFT_ALONE(c) up[c]
#endif
#define KEEPS_LEASE(c) \
    (own[c] && (at[c] == WRITES || at[c] == DROPS || at[c] == JOINS || at[c] == BEGINS || LEFT_ALONE(c)))

/* Each is one step: what it asks for is still so when the time passes. */
#define OWN_PASSES(n) atomic { PASSES && own[n] -> own[n] = false }
#define ROW_PASSES(n) atomic { PASSES && row[n] && row_runs[n] && !LIVES_BY_ROW(n) -> row_runs[n] = false }

active proctype Time()
{
end:
    do
    :: OWN_PASSES(0)
    :: OWN_PASSES(1)
    :: OWN_PASSES(2)
    :: OWN_PASSES(3)
    :: ROW_PASSES(0)
    :: ROW_PASSES(1)
    :: ROW_PASSES(2)
    :: ROW_PASSES(3)
    :: atomic { PASSES && status == HELD && lease && !KEEPS_LEASE(owner) -> lease = false }
    :: atomic { PASSES && next_owner != NOBODY && next_runs -> next_runs = false }
    od
}

init {
    atomic {
        mutual_exclusion = ASIDE(MUTUAL_EXCLUSION);
        tokens_rise = ASIDE(TOKENS_RISE);
        readers_token = ASIDE(READERS_TOKEN);
        keeps_token = ASIDE(KEEPS_TOKEN);
        stays_closed = ASIDE(STAYS_CLOSED);
        none_between = ASIDE(NONE_BETWEEN);
        run Client(0);
#if WRITERS > 1
        run Client(1);
#endif
        run Client(2);
#if READERS > 1
        run Client(3);
#endif
    }
}

/* Once a writer is the next, readers leave and none enters: it gets in. Fairness is of processes. */
#ifdef ENDLESS
ltl gets_in { [] ((next_owner == 0) -> <> (status == HELD && owner == 0)) }
#endif
