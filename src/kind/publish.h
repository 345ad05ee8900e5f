/*
 * kind/publish.h - the holder of a row lock, and its token, in the table `resource`: written while
 * the row's lock is held, on a second connection in autocommit (the first could not commit it and
 * keep the lock).
 */
#ifndef RL_KIND_PUBLISH_H
#define RL_KIND_PUBLISH_H

#include "engine/hold.h"
#include "engine/look.h"

/* One call that acquires row locks. */
typedef struct rl_row_call {
    rowlock_hold *hold;
    const rl_budget *budget;
    rl_conn *conn;      /* that has the rows' locks */
    const rl_lock *at;  /* the one that is being locked, or published */
    int64_t sent_us;    /* before the last request on conn that was answered */
    int64_t reached_us; /* when the server was there for sure, last */
    bool patient; /* no holder is published, or we are: a wait is due to a slow server alone */
    bool fresh;   /* a new connection is wanted */
    bool locked;  /* we have the rows: a failure now does not mean that they are held */
    char taken_over[RL_DETAIL_MAX]; /* from whom; "": no holder was published */
} rl_row_call;

/*
 * Publishes the holder of each name, and its token. Unfenced, nothing is written, unless a dead
 * holder's token has to be ended. BUSY: a transaction has fenced the last holder's token and is
 * still open.
 */
rowlock_status rl_row_publish(rl_row_call *call, rowlock_error *err) RL_MUST_USE;

/* Who is published. */
rowlock_status rl_row_look(const rowlock_hold *hold, const rl_budget *budget, const rl_lock *lock,
                           rl_seen *seen, rowlock_error *err) RL_MUST_USE;

/* A statement on the connection with the locks failed, or was ended by our KILL QUERY: what that
 * means for the call. The lock cannot have been kept, whatever the server answered. */
rowlock_status rl_row_stopped(const rl_row_call *call, rowlock_status status, rowlock_error *err);

/* The caller's transaction has its row lock, and publishes nothing: ends the publication of a dead
 * holder. BUSY: fenced. */
rowlock_status rl_row_end_stale(rowlock_client *client, const rl_budget *budget, uint64_t id,
                                rowlock_error *err) RL_MUST_USE;

#endif
