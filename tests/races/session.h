/* races/session.h - one session of a race: a thread with its own client and connection. */
#ifndef RACE_SESSION_H
#define RACE_SESSION_H

#include "spec.h"
#include "support/support.h"

enum { HOLDS_MAX = 10, OUTCOME_MAX = 500 };

typedef struct session_hold {
    char name[64];
    rowlock_hold *hold;
} session_hold;

typedef struct session {
    char name[16];
    char user[64]; /* its own: the server's list then shows which connections are this session's */
    rowlock_client *client;
    MYSQL *mysql; /* for sql, tx_acquire, fence */
    MYSQL *own;   /* for statements of sql/; NULL: none was run */
    MYSQL *admin; /* root, root's, for `expire` and `forget` */
    session_hold holds[HOLDS_MAX];
    uint64_t version; /* the last one read */
    pthread_t thread;
    pthread_mutex_t mutex; /* guards what follows */
    pthread_cond_t changed;
    const race_step *step; /* to be run, or running */
    bool end;
    bool gate; /* a section's work may go on */
    char outcome[OUTCOME_MAX];
    struct session *all; /* all sessions of the race */
    size_t count;
} session;

/* Makes the session's user, which may break the locks of the others. Called once. */
void session_prepare(session *s, const char *name, session *all, size_t count);
/* Starts the session with new connections and no lock. */
void session_start(session *s);
void session_end(session *s);
/* Starts a step; session_done() tells how it ended. */
void session_begin(session *s, const race_step *step);
/* False if the step still runs; else `outcome` gets its result. */
bool session_done(session *s, char *outcome);

#endif
