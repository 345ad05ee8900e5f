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
    char user[64]; /* its own, so that the server's list shows whose connection one is */
    rowlock_client *client;
    MYSQL *mysql; /* for sql, tx_acquire, fence */
    MYSQL *own;   /* for statements of sql/; NULL: none was run */
    MYSQL *admin; /* root, for what is done behind the holders' backs */
    session_hold holds[HOLDS_MAX];
    uint64_t version; /* last read */
    pthread_t thread;
    pthread_mutex_t mutex; /* guards what follows */
    pthread_cond_t changed;
    const race_step *step; /* to be run, or running */
    bool end;
    bool gate; /* a section's work may go on */
    char outcome[OUTCOME_MAX];
    struct session *all; /* of the race */
    size_t count;
} session;

/* Makes its user, who may break the locks of the others; once. */
void session_prepare(session *s, const char *name, session *all, size_t count);
/* With new connections, and nothing held. */
void session_start(session *s);
void session_end(session *s);
/* Begins a step; its outcome comes later. */
void session_begin(session *s, const race_step *step);
/* False: it still runs. Else what came out. */
bool session_done(session *s, char *outcome);

#endif
