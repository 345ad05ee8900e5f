/*
 * migrate/routines.h - the routines that are in rowlock's schema. A routine's comment says which
 * program made it and from which text, so that what is up to date can be told.
 */
#ifndef RL_MIGRATE_ROUTINES_H
#define RL_MIGRATE_ROUTINES_H

#include "base/text.h"
#include "db/conn.h"
#include "rowlock/rowlock.h"

#define RL_ROUTINES_MAX 256
#define RL_COMMENT_SIZE 64

typedef struct rl_routine {
    char name[65];
    char comment[RL_COMMENT_SIZE];
    char drop[128];
    bool wanted; /* for who installs */
} rl_routine;

typedef struct rl_routines {
    rl_routine rows[RL_ROUTINES_MAX];
    size_t count;
} rl_routines;

rowlock_status rl_routines_read(rl_conn *conn, const rl_io *io, rl_routines *there,
                                rowlock_error *err) RL_MUST_USE;
/* NULL: not there. */
rl_routine *rl_routine_find(rl_routines *there, const char *name);

/* The comment of a procedure of that text, which has its bell already. */
void rl_procedure_comment(const char *text, char comment[RL_COMMENT_SIZE]);
/* A template with the prefix of the schema's bells put in. */
void rl_procedure_fill_bell(rl_buffer *text, const char *template, const char *schema);

/* What of them a connection's user sees in its schema, for the doctor. */
typedef struct rl_procedures_seen {
    unsigned there;
    unsigned same;       /* as this program would make them */
    unsigned all;        /* that it would make */
    char other[65];      /* the comment of one that is not, "rowlock 0.1.0 ..."; or "" */
    const char *missing; /* one that is not there; "": none, or this user may just not see it */
} rl_procedures_seen;

rowlock_status rl_procedures_look(rl_conn *conn, const char *schema, const rl_io *io,
                                  rl_procedures_seen *seen, rowlock_error *err) RL_MUST_USE;

#endif
