#include "base/tls.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"

#define SHA1_BYTES 20

static bool override(char **to, const char *with)
{
    if (!with)
        return true;
    free(*to);
    *to = rl_strdup(with);
    return *to;
}

bool rl_tls_override(rl_tls *tls, const rowlock_tls_options *members)
{
    if (members->mode != ROWLOCK_TLS_DEFAULT)
        tls->mode = members->mode;
    return override(&tls->ca, members->ca) && override(&tls->cert, members->cert) &&
           override(&tls->key, members->key) && override(&tls->fingerprint, members->fingerprint) &&
           override(&tls->crl, members->crl);
}

static const char *const words[] = {
    [ROWLOCK_TLS_DEFAULT] = "default",     [ROWLOCK_TLS_OFF] = "off",
    [ROWLOCK_TLS_PREFERRED] = "preferred", [ROWLOCK_TLS_REQUIRED] = "required",
    [ROWLOCK_TLS_VERIFY_CA] = "verify-ca", [ROWLOCK_TLS_VERIFY_IDENTITY] = "verify-identity",
};

bool rl_tls_mode_of(const char *word, rowlock_tls_mode *mode)
{
    int i = ROWLOCK_TLS_VERIFY_IDENTITY;
    while (i > ROWLOCK_TLS_DEFAULT && strcmp(word, words[i]) != 0)
        i--;
    *mode = (rowlock_tls_mode)i;
    return i > ROWLOCK_TLS_DEFAULT;
}

const char *rl_tls_mode_word(rowlock_tls_mode mode)
{
    return words[mode];
}

/* 40 hexadecimal digits, or 20 pairs of them with colons between. */
static bool is_sha1(const char *text)
{
    const bool colons = strchr(text, ':');
    for (int i = 0; i < SHA1_BYTES; i++) {
        if (i > 0 && colons && *text++ != ':')
            return false;
        if (!isxdigit((unsigned char)text[0]) || !isxdigit((unsigned char)text[1]))
            return false;
        text += 2;
    }
    return !*text;
}

static rowlock_status check_file(const char *what, const char *path, rowlock_error *err)
{
    if (path && access(path, R_OK) != 0)
        return rl_fail(err, ROWLOCK_INVALID, "the TLS %s '%s' cannot be read (%s)", what, path,
                       strerrordesc_np(errno));
    return ROWLOCK_OK;
}

static rowlock_status check_files(const rl_tls *tls, rowlock_error *err)
{
    RL_TRY(check_file("CA file", tls->ca, err));
    RL_TRY(check_file("certificate", tls->cert, err));
    RL_TRY(check_file("key", tls->key, err));
    return check_file("list of revoked certificates", tls->crl, err);
}

static rowlock_status check_mode(const rl_tls *tls, rowlock_error *err)
{
    bool checks = tls->ca || tls->crl || tls->fingerprint;
    if (tls->mode < ROWLOCK_TLS_DEFAULT || tls->mode > ROWLOCK_TLS_VERIFY_IDENTITY)
        return rl_fail(err, ROWLOCK_INVALID, "there is no TLS mode %d", (int)tls->mode);
    if (tls->mode == ROWLOCK_TLS_OFF && (checks || tls->cert || tls->key))
        return rl_fail(err, ROWLOCK_INVALID,
                       "TLS is off, but a CA, a certificate, a key, a CRL or a fingerprint is "
                       "given: leave those out, or choose required or verify-identity");
    if (tls->mode == ROWLOCK_TLS_PREFERRED && (checks || tls->cert || tls->key))
        return rl_fail(err, ROWLOCK_INVALID,
                       "TLS is only preferred, which goes on without it: what a CA, a "
                       "certificate, a CRL or a fingerprint is for needs required or more");
    if (tls->mode == ROWLOCK_TLS_REQUIRED && (tls->ca || tls->crl))
        return rl_fail(err, ROWLOCK_INVALID,
                       "the TLS mode required looks at no certificate, but a CA is given: "
                       "choose verify-identity, or verify-ca");
    return ROWLOCK_OK;
}

static rowlock_status check_parts(const rl_tls *tls, rowlock_error *err)
{
    if (tls->key && !tls->cert)
        return rl_fail(err, ROWLOCK_INVALID, "a TLS key is given, but no certificate for it");
    if (tls->crl && !tls->ca)
        return rl_fail(err, ROWLOCK_INVALID,
                       "a list of revoked certificates is given, but not the CA that made it");
    if (tls->fingerprint && !is_sha1(tls->fingerprint))
        return rl_fail(err, ROWLOCK_INVALID,
                       "the TLS fingerprint is not the SHA-1 of a certificate, 40 hexadecimal "
                       "digits with or without colons (openssl x509 -noout -fingerprint -sha1)");
    return check_files(tls, err);
}

rowlock_status rl_tls_check(rl_tls *tls, rowlock_error *err)
{
    if (tls->mode == ROWLOCK_TLS_DEFAULT && tls->ca)
        tls->mode = ROWLOCK_TLS_VERIFY_IDENTITY;
    else if (tls->mode == ROWLOCK_TLS_DEFAULT && (tls->fingerprint || tls->cert))
        tls->mode = ROWLOCK_TLS_REQUIRED;
    RL_TRY(check_mode(tls, err));
    return check_parts(tls, err);
}
