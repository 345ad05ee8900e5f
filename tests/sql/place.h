/* sql/place.h - where a script runs: its schema, its users, its sessions. */
#ifndef SQL_PLACE_H
#define SQL_PLACE_H

#include "races/session.h"
#include "script.h"
#include "support/support.h"

enum { PARTIES_MAX = 24, USERS_MAX = 8, STEP_MOST_MS = 90000 };

/* Who a line begins with: it has a connection, a client of the library or a shell, as it was used.
 */
typedef struct party {
    char name[NAME_MAX_BYTES];
    char user[64]; /* "": root */
    char charset[32];
    MYSQL *mysql;
    uint64_t connection_id;
    session *library;
    /* what it runs; `out` when it has ended */
    step_kind kind;
    char *command;
    char *out;
    bool running;
    pthread_t thread;
    atomic_bool ended;
} party;

void place_begin(void);
void place_end(void);
MYSQL *place_admin(void);
bool place_is_mysql(void);

void place_add_user(const char *name);
/* The one of this name; made when it is new. */
party *place_party(const char *name);
void place_login(const char *name, const char *words);
void place_close(const char *name);
/* The text with {...} filled in; free() it. `length`: of it, it may hold NULs. */
char *place_fill_in(const char *text, size_t *length);
/* A regular expression and what it becomes, "/.../.../". */
bool place_mask(const char *words);
/* What came out, without what differs from run to run; free() it. */
char *place_mask_text(const char *text);

/* Begins a command of `kind`; what comes out of it is to be fetched by party_end(). */
void party_begin(party *p, step_kind kind, const char *command);
/* Waits for it; what came out, free() it. NULL: it did not end. */
char *party_end(party *p);

/* Connections of this schema that wait; `id` 0: all of them, else that one alone. */
uint64_t place_waiting(uint64_t id);

#endif
