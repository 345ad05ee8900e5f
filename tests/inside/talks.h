/*
 * inside/talks.h - the conversations with the library in which something is made to fail, and the
 * checks after each of them.
 */
#ifndef RL_TALKS_H
#define RL_TALKS_H

#include "inside/inject.h"
#include "support/support.h"

/* A set of statuses. */
#define MAY(status) (1u << ROWLOCK_##status)

typedef struct talk_state {
    rowlock_client *client; /* open, unless the talk opens it itself */
    MYSQL *own;             /* the caller's own connection, in no transaction; only where wanted */
    const char *name;       /* of the lock, not used before where the talk is `fresh` */
    rowlock_acquire_options how; /* of talk_take() */
    rowlock_error err;           /* of the call that ended it */
} talk_state;

/* A talk gives back what it took, and ends with the status of the first call that did not go as
 * when nothing fails, else OK. */
rowlock_status talk_take(talk_state *state, rowlock_hold **hold);
rowlock_status talk_give_back(talk_state *state, rowlock_hold *hold, rowlock_status so_far);

/* On the caller's own connection: the test's own statements are not what is to fail. */
void talk_own_sql(talk_state *state, const char *text);

/* In gather_talks.c. */
rowlock_status talk_latch(talk_state *state);
rowlock_status talk_latch_in_vain(talk_state *state);
rowlock_status talk_latch_member(talk_state *state);
rowlock_status talk_latch_in_transaction(talk_state *state);
rowlock_status talk_barrier(talk_state *state);
rowlock_status talk_barrier_in_vain(talk_state *state);
rowlock_status talk_queue(talk_state *state);
rowlock_status talk_queue_in_transaction(talk_state *state);

/* In lease_talks.c. */
rowlock_status talk_leader(talk_state *state);
rowlock_status talk_once(talk_state *state);
rowlock_status talk_once_in_transaction(talk_state *state);
rowlock_status talk_ask(talk_state *state);
rowlock_status talk_asked(talk_state *state);

/* In sql_talks.c. */
void sql_talks_begin(void);
rowlock_status talk_migrations(talk_state *state);
rowlock_status talk_migrations_repair(talk_state *state);
rowlock_status talk_table_fence(talk_state *state);
rowlock_status talk_procedures(talk_state *state);
rowlock_status talk_sweep_event(talk_state *state);

/* In a talk: what must not be. It ends there. */
void talk_complain(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

/* A way to fail, and what a talk may end with then. */
typedef struct way {
    inject_kind kind;
    unsigned allowed;
    unsigned error; /* of INJECT_SERVER_ERROR */
    const char *sqlstate;
} way;

/* What stands beside: the witness, another client that nothing fails for. */
int talks_begin(void **state);
int talks_end(void **state);

/*
 * The test of some ways in which the same things fail: all talks, one after the other, and each
 * again and again; each time another thing fails of those that the caller's thread asks for, in
 * each of the ways, and then of those that the library's threads ask for. Each place once, whatever
 * talk came by first, or with ts_long() each thing. After each: the status is an allowed one with a
 * proper error, the same client works, and when it is closed nothing of it is left: no block, no
 * descriptor, no thread; and another client gets the lock, at once or when its TTL is over.
 *
 * ROWLOCK_TALK="renew" has only the talks with this in their names.
 */
void test_talks(void **state);
/* `ways` ends with one that allows nothing. */
#define FAIL_IN(name, ways)                                                                        \
    {                                                                                              \
        name, test_talks, NULL, NULL, (void *)(uintptr_t)(ways)                                    \
    }

#endif
