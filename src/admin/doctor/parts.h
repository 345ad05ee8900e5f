/* admin/doctor/parts.h - what the parts of the doctor share. */
#ifndef RL_ADMIN_DOCTOR_PARTS_H
#define RL_ADMIN_DOCTOR_PARTS_H

#include "admin/admin.h"
#include "rowlock/rowlock_admin.h"
#include "stmt/stmt.h"

/* A member of a quorum: what is compared with the others. */
typedef struct rl_doctor_member {
    char where[300]; /* for people */
    bool seen;
    char identity[RL_SERVER_ID_MAX];
    char list[64];    /* "": none */
    int64_t ahead_us; /* of this host */
} rl_doctor_member;

typedef struct rl_doctor {
    rl_params *params;
    const rl_wants *wants;
    rowlock_finding_fn fn;
    void *data;
    rl_conn *conn;
    rl_io io;
    const rl_server *server;
    char grantee[RL_GRANTEE_SIZE]; /* this user as 'user'@'host' */
    rl_doctor_member *member;      /* NULL: a server by itself */
    unsigned stops;                /* statements that were stopped by KILL QUERY */
    char text[2 * RL_GRANTEE_SIZE + 500];
} rl_doctor;

/* The statement was stopped (KILL QUERY): it is to be asked again, unless that goes on and on. */
bool rl_doctor_again(rl_doctor *d, rowlock_status status);
#define RL_UNTIL_HEARD(d, status, call)                                                            \
    do                                                                                             \
        (status) = (call);                                                                         \
    while (rl_doctor_again(d, status))
/* False: that went on, or the connection is lost. What follows from it says nothing of the server.
 */
bool rl_doctor_could_look(const rl_doctor *d);

/* A finding without sessions. Nothing is found out on a connection that is lost. */
void rl_doctor_tell(const rl_doctor *d, const char *check, rowlock_level level, const char *follows,
                    const char *remedy, const char *found, ...) RL_PRINTF(6, 7);

/* What is well, and nothing follows from it. */
#define rl_doctor_fine(d, check, ...) rl_doctor_tell(d, check, ROWLOCK_FINE, "", "", __VA_ARGS__)

/* Tells the findings that the statement's rows are (sql/doctor.sql); *told: how many. */
rowlock_status rl_doctor_tell_rows(rl_doctor *d, rl_sql_id id, const rl_value *values,
                                   unsigned *told, rowlock_error *err) RL_MUST_USE;

/* A remedy in words, which stays until the next one. */
const char *rl_doctor_text(rl_doctor *d, const char *format, ...) RL_PRINTF(2, 3);

/* Are there all rights of the role that was asked for? The GRANT statements of those that are not.
 * True: some are missing. `hidden`: no right in the schema at all. */
bool rl_doctor_check_rights(rl_doctor *d, bool hidden);
/* Do the statements fit the tables? `lacks`: a right that is missing was told of. */
void rl_doctor_try_statements(rl_doctor *d, bool lacks);
/* INVALID: there is none of that name. */
rowlock_status rl_role_check(const char *role, rowlock_error *err) RL_MUST_USE;
/* All its rights are on the schema, and can be granted before it is there. */
bool rl_role_is_of_schema(const char *role);

/* `member`: of a quorum, and gets what was seen; NULL: a server by itself. */
rowlock_status rl_doctor_diagnose(rl_params *params, const rl_wants *wants,
                                  rl_doctor_member *member, rowlock_finding_fn fn, void *data,
                                  rowlock_error *err) RL_MUST_USE;

/* Statements that wait for a metadata lock and the session that has it; transactions that are open
 * for long. */
void rl_doctor_check_blocked(rl_doctor *d);

#endif
