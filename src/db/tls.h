/*
 * db/tls.h - what Connector/C is told about TLS, and what it did. Around it:
 *
 *   rl_tls_begin()   before the option files are read
 *   rl_tls_settle()  when they were: what they say, and what the program said, made firm
 *   mysql_real_connect()
 *   rl_tls_proven()  or, where it failed, rl_tls_explain()
 */
#ifndef RL_DB_TLS_H
#define RL_DB_TLS_H

#include <mysql.h>

#include "db/conn.h"

/* What it has come to. */
typedef struct rl_tls_plan {
    rowlock_tls_mode mode; /* never DEFAULT */
    bool local;            /* over a unix socket */
    bool proven;           /* only to a server that is proven by its certificate */
    bool cert;             /* with a certificate of the client's */
    char host[256];        /* as given, here or in an option file */
    char ca[256];          /* likewise its file, "" where none is named */
} rl_tls_plan;

void rl_tls_begin(MYSQL *mysql);

/* INVALID: it cannot be done; nothing was sent. */
rowlock_status rl_tls_settle(MYSQL *mysql, const rl_params *params, rl_tls_plan *plan,
                             rowlock_error *err) RL_MUST_USE;

/* Empties this thread's queue of OpenSSL's errors, where Connector/C is built with that. */
void rl_tls_forget_errors(void);

/* UNAVAILABLE when a connection that was to be encrypted is not. */
rowlock_status rl_tls_proven(MYSQL *mysql, const rl_tls_plan *plan, rowlock_error *err) RL_MUST_USE;

/* In words of its own where TLS, or its absence, is the reason. Else false. */
bool rl_tls_explain(MYSQL *mysql, const rl_tls_plan *plan, rowlock_status *status,
                    rowlock_error *err);

/* Also after a login that failed: the version is forgotten then. */
bool rl_says_mysql(const MYSQL *mysql);

/* What else may be missing when the login was refused: "" or a half sentence, after a comma. */
const char *rl_tls_hint(MYSQL *mysql, const rl_tls_plan *plan);

#endif
