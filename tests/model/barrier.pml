/*
 * A barrier, as a model for spin (Promela). What each piece stands for is said beside it: a statement of
 * sql/barrier.sql, a function of src/kind/barrier.c. docs/model.md says how it is run. The line in which
 * members wait is left out: everybody may look at any time.
 *
 * The transaction that enters is two steps on the server (lock and count; commit), which the row's lock makes
 * one for all others; every other statement is one step. A reply that is lost is a fault. Time is not
 * counted: a member's own deadline passes at any time, whether it notices or not, and the server's expiry of
 * its row some time after that. A client that has died makes no step any more.
 *
 * Sizes:   CLIENTS, WANTED (members of a generation); of all: FAULTS, GIVE_UPS, DEATHS, DELAYS (deadlines
 *          that pass)
 * Guards:  NO_... leaves one of the protocol's guards out; each must make a property fail.
 * ONLY:    of the properties, this one alone is looked at.
 */
#ifndef CLIENTS
#define CLIENTS 3
#endif
#ifndef WANTED
#define WANTED 2
#endif
#ifndef FAULTS
#define FAULTS 0
#endif
#ifndef GIVE_UPS
#define GIVE_UPS 0
#endif
#ifndef DEATHS
#define DEATHS 0
#endif
#ifndef DELAYS
#define DELAYS 0
#endif

#define EXACTLY_SO_MANY 1
#define ALL_OR_NONE     2
#define LEAVE_TOGETHER  3
#ifdef ONLY
#define ASIDE(property) (ONLY != property)
#else
#define ASIDE(property) 0
#endif
#define HOLDS(property, what) assert((what) || property)
hidden byte exactly_so_many; /* so many clients make a generation, and whoever goes on is one of them */
hidden byte all_or_none;     /* who is one of a generation that is complete is not told that it did not enter */
hidden byte leave_together;  /* who leaves in peace does so when all have been ready */

/* ------------------------------------------------------------------------------- the server */

#define NOBODY CLIENTS

byte version;         /* of the row of `resource`: the generation that gathers */
byte locked = NOBODY; /* whose transaction has that locked */

/* The rows of `lock_grant`: each time that a client enters it has another one. */
#define ROWS_OF 2
#define ROWS    (CLIENTS * ROWS_OF)
#define NONE    ROWS
bool there[ROWS];
bool over[ROWS];   /* its client's own deadline has passed ... */
bool ended[ROWS];  /* ... and its time on the server */
bool ready[ROWS];  /* left_at */
byte row_of[ROWS]; /* its version */
#define LIVES(r) (there[r] && !ended[r])

byte faults = FAULTS;
byte give_ups = GIVE_UPS;
byte deaths = DEATHS;
byte delays = DELAYS;

/* For the properties: it was one of those that made a generation. */
bool counted[ROWS];

/* barrier_drop */
#ifdef NO_EXPIRY_IN_DROP
#define GOES(r) (r == last)
#else
#ifdef NO_OWN_ROW_IN_DROP
#define GOES(r) (ended[r])
#else
#define GOES(r) (ended[r] || r == last)
#endif
#endif
inline drop()
{
    r = 0;
    do
    :: r < ROWS ->
        if
        :: there[r] && row_of[r] == version && GOES(r) -> there[r] = false
        :: else
        fi;
        r++
    :: else -> break
    od
}

/* barrier_gathered */
inline count()
{
    n = 0;
    r = 0;
    do
    :: r < ROWS ->
        if
        :: there[r] && row_of[r] == version ->
            n++;
            /* Not one that was not heard of again. */
            HOLDS(exactly_so_many, !ended[r])
        :: else
        fi;
        r++
    :: else -> break
    od
}

/* barrier_enter, and barrier_complete if it is the last one: all of it at once. */
inline commit()
{
    there[row] = true;
    row_of[row] = generation;
    if
    :: completes ->
        n = 0;
        r = 0;
        do
        :: r < ROWS ->
            if
            :: there[r] && row_of[r] == generation ->
                counted[r] = true;
                n++;
                /* One client is one of them only once. */
                HOLDS(exactly_so_many,
                      r % ROWS_OF == 0 || !(there[r - 1] && row_of[r - 1] == generation))
            :: else
            fi;
            r++
        :: else -> break
        od;
        HOLDS(exactly_so_many, n == WANTED);
        version = generation + 1
    :: else
    fi;
    locked = NOBODY
}

/* ------------------------------------------------------------------------------- a client */

proctype client(byte c)
{
    byte tries = ROWS_OF;
    byte row = NONE;
    byte last = NONE; /* a row of ours that may still be there */
    byte generation;
    byte n;
    byte r;
    bool completes;
    bool lost;

enters:
    if
    :: tries == 0 -> goto out
    :: else
    fi;
    last = row;
    tries--;
    row = c * ROWS_OF + tries;

    /* barrier_lock, _drop, _gathered */
    atomic {
#ifndef NO_LOCK
        locked == NOBODY;
        locked = c;
#endif
        generation = version;
        drop();
        count();
        completes = (n + 1 >= WANTED);
        r = 0;
        n = 0
    }
    /* row_commit: its reply is heard, or not, and then it was done, or not */
    if
    :: atomic { commit(); r = 0; n = 0 }
    :: atomic { faults > 0; faults--; lost = true; commit(); r = 0; n = 0 }
    :: atomic { faults > 0; faults--; lost = true; locked = NOBODY }
    fi;
    /* settle() */
    if
    :: atomic {
        lost ->
        lost = false;
#ifdef NO_SETTLE
        row = NONE;
        goto enters
#else
        if
        :: LIVES(row)
        :: else -> row = NONE; goto enters
        fi
#endif
    }
    :: else
    fi;

end_waits:
    if
    /* barrier_look */
    :: atomic {
#ifdef NO_ROW_IN_LOOK
        version > generation ->
#else
        version > generation && LIVES(row) ->
#endif
        HOLDS(exactly_so_many, counted[row]);
        goto works
    }
    :: atomic { !LIVES(row); goto enters }
    /* The keeper says that it is lost. */
    :: atomic { over[row]; goto enters }
    /* barrier_withdraw: the wait has ended */
    :: atomic {
        give_ups > 0 && locked == NOBODY ->
        give_ups--;
        if
#ifdef NO_VERSION_IN_WITHDRAW
        :: LIVES(row) ->
#else
        :: LIVES(row) && row_of[row] == version ->
#endif
            ended[row] = true;
            HOLDS(all_or_none, !counted[row]);
            goto out
        :: else ->
            /* All have come in the last moment, or it was lost. */
#ifdef NO_LOOK_AFTER_WITHDRAW
            HOLDS(all_or_none, !counted[row] || over[row]);
            goto out
#else
            if
            :: LIVES(row) && !over[row] -> goto works
            :: else -> goto out
            fi
#endif
        fi
    }
    :: atomic { deaths > 0; deaths--; over[row] = true; goto out }
    fi;

works:
    if
    /* barrier_leave */
    :: atomic { LIVES(row); ready[row] = true }
    :: atomic { !LIVES(row); goto out } /* LOST */
    /* barrier_quit: released without */
    :: atomic {
        give_ups > 0 ->
        give_ups--;
#ifdef NO_ROW_AFTER_QUIT
        there[row] = false;
#else
        ended[row] = true;
#endif
        goto out
    }
    :: atomic { deaths > 0; deaths--; over[row] = true; goto out }
    fi;

leaves:
    /* barrier_leaving */
    atomic {
        n = 0;
        r = 0;
        do
        :: r < ROWS ->
            if
            :: LIVES(r) && row_of[r] == generation && !ready[r] -> n = 1
#ifndef NO_DEAD_IN_LEAVING
            :: there[r] && ended[r] && row_of[r] == generation && !ready[r] -> n = 2; break
#endif
            :: else
            fi;
            r++
        :: else -> break
        od;
        if
        :: n == 0 ->
            /* In peace: all of the generation have been ready. */
            r = 0;
            do
            :: r < ROWS ->
                HOLDS(leave_together, !counted[r] || row_of[r] != generation || ready[r]);
                r++
            :: else -> break
            od
        :: else
        fi;
        r = 0
    }
    if
    :: n == 1 -> goto end_looks_again
    :: else
    fi;
    /* shared_leave; LOST, if somebody was lost before it left */
    atomic { there[row] = false; goto out }
end_looks_again:
    goto leaves;
out:
    skip
}

/* Deadlines pass; and then, some time, the server's expiry does. */
proctype time()
{
    byte r = 0;
    do
    :: atomic {
        delays > 0 ->
        delays--;
        select (r : 0 .. ROWS - 1);
        over[r] = there[r]
    }
    :: atomic {
        select (r : 0 .. ROWS - 1);
        ended[r] = (ended[r] || over[r])
    }
    :: timeout -> break
    od
}

init
{
    byte i = 0;
    atomic {
        exactly_so_many = ASIDE(EXACTLY_SO_MANY);
        all_or_none = ASIDE(ALL_OR_NONE);
        leave_together = ASIDE(LEAVE_TOGETHER);
        run time();
        do
        :: i < CLIENTS -> run client(i); i++
        :: else -> break
        od
    }
}
