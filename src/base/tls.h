/* base/tls.h - what is asked of the encryption of a connection; see rowlock_tls_options. */
#ifndef RL_TLS_H
#define RL_TLS_H

#include <stdbool.h>

#include "base/error.h"

/* Owned strings; NULL where nothing is said. */
typedef struct rl_tls {
    rowlock_tls_mode mode;
    char *ca;
    char *cert;
    char *key;
    char *fingerprint;
    char *crl;
} rl_tls;

/* A copy of the member where it is set, for each member; the mode too. False: no memory. */
bool rl_tls_override(rl_tls *tls, const rowlock_tls_options *members);

/* "off", "preferred", "required", "verify-ca", "verify-identity". False: none of them. */
bool rl_tls_mode_of(const char *word, rowlock_tls_mode *mode);
const char *rl_tls_mode_word(rowlock_tls_mode mode);

/*
 * INVALID, and why: what contradicts itself, is not what it should be, or cannot be read. Turns
 * DEFAULT into what a CA or a fingerprint alone mean.
 */
rowlock_status rl_tls_check(rl_tls *tls, rowlock_error *err) RL_MUST_USE;

#endif
