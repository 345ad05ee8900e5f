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

/* Reports what is wrong in a talk, and ends its process. */
void talk_complain(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

/* A way to fail, and the statuses that a talk may end with then. */
typedef struct way {
    inject_kind kind;
    unsigned allowed;
    unsigned error; /* for INJECT_SERVER_ERROR */
    const char *sqlstate;
} way;

/* Opens the witness, another client, whose requests do not fail. */
int talks_begin(void **state);
int talks_end(void **state);

/*
 * Tests some ways in which the same requests fail. Runs each talk again and again; each time
 * another request fails, in each of the ways: first of the caller's thread, then of the library's
 * threads. Each place fails once, in the first talk that comes there; with ts_long(), each request.
 * After each run: the status is an allowed one with a proper error, the same client works, and when
 * it is closed nothing of it is left: no block, no descriptor, no thread; and another client gets
 * the lock, at once or when its TTL is over.
 *
 * ROWLOCK_TALK="renew" has only the talks with this in their names.
 */
void test_talks(void **state);
/* `ways` ends with an entry that allows no status. */
#define FAIL_IN(name, ways)                                                                        \
    {                                                                                              \
        name, test_talks, NULL, NULL, (void *)(uintptr_t)(ways)                                    \
    }

#endif
