/*
 * db/tls.c - see tls.h. Of Connector/C 3.3 (libmariadb/secure/openssl.c, plugins/auth/my_auth.c):
 *
 *   - MYSQL_OPT_SSL_ENFORCE enforces nothing: a server without TLS gets the login in the clear.
 *     Only with a verified name or a fingerprint (even an empty one, which is then not looked at)
 *     does it stop before it sends that.
 *   - With a CA the chain is checked; the name only with MYSQL_OPT_SSL_VERIFY_SERVER_CERT. With
 *     that and without a CA, against the system's CAs.
 *   - It hands the password as it is to any server that asks for it (mysql_clear_password,
 *     dialog), encrypted or not, without proof of its identity.
 *
 * 3.4 verifies where nothing is said; so everything is said here.
 */
#include "db/tls.h"

#include <dlfcn.h>
#include <errmsg.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Ways to log in that do not show the password to a listener. Whole names: Connector/C looks for
 * the server's wish in this text. */
#define NO_BARE_PASSWORD                                                                           \
    "mysql_native_password,caching_sha2_password,sha256_password,client_ed25519,"                  \
    "auth_gssapi_client,parsec"

static const char *text_option(MYSQL *mysql, enum mysql_option option)
{
    const char *text = NULL;
    mysql_get_optionv(mysql, option, &text);
    return text && *text ? text : NULL;
}

static bool flag_option(MYSQL *mysql, enum mysql_option option)
{
    my_bool flag = 0;
    mysql_get_optionv(mysql, option, &flag);
    return flag;
}

static void set_flag(MYSQL *mysql, enum mysql_option option, bool value)
{
    my_bool flag = value;
    mysql_optionsv(mysql, option, &flag);
}

void rl_tls_begin(MYSQL *mysql)
{
    set_flag(mysql, MYSQL_OPT_SSL_VERIFY_SERVER_CERT, false);
    set_flag(mysql, MYSQL_OPT_SSL_ENFORCE, false);
}

static const char *host_of(MYSQL *mysql, const rl_params *params)
{
    /* mysql_get_optionv() does not tell it (3.3). */
    const char *host = params->host && *params->host ? params->host : mysql->options.host;
    return host && *host ? host : "localhost";
}

/* As mysql_real_connect() decides it. */
static bool over_unix_socket(MYSQL *mysql, const char *host)
{
    unsigned protocol = 0;
    mysql_get_optionv(mysql, MYSQL_OPT_PROTOCOL, &protocol);
    return strcmp(host, "localhost") == 0 && protocol != MYSQL_PROTOCOL_TCP;
}

static bool has_fingerprint(MYSQL *mysql)
{
    return text_option(mysql, MARIADB_OPT_TLS_PEER_FP) ||
           text_option(mysql, MARIADB_OPT_TLS_PEER_FP_LIST);
}

static bool has_ca(MYSQL *mysql)
{
    return text_option(mysql, MYSQL_OPT_SSL_CA) || text_option(mysql, MYSQL_OPT_SSL_CAPATH);
}

static const enum mysql_option texts[] = {
    MYSQL_OPT_SSL_CA,      MYSQL_OPT_SSL_CAPATH,    MYSQL_OPT_SSL_CERT,
    MYSQL_OPT_SSL_KEY,     MYSQL_OPT_SSL_CIPHER,    MYSQL_OPT_SSL_CRL,
    MYSQL_OPT_SSL_CRLPATH, MARIADB_OPT_TLS_PEER_FP, MARIADB_OPT_TLS_PEER_FP_LIST};
#define TEXTS (sizeof texts / sizeof texts[0])

/* Who named any of these in an option file wants TLS, not TLS perhaps. */
static bool files_ask(MYSQL *mysql)
{
    for (size_t i = 0; i < TEXTS; i++)
        if (text_option(mysql, texts[i]))
            return true;
    return flag_option(mysql, MYSQL_OPT_SSL_ENFORCE) ||
           flag_option(mysql, MYSQL_OPT_SSL_VERIFY_SERVER_CERT);
}

static void set_off(MYSQL *mysql)
{
    for (size_t i = 0; i < TEXTS; i++)
        mysql_optionsv(mysql, texts[i], NULL);
    rl_tls_begin(mysql); /* last: a fingerprint sets the flag */
}

static void set_text(MYSQL *mysql, enum mysql_option option, const char *text)
{
    if (text)
        mysql_optionsv(mysql, option, text);
}

static void set_files(MYSQL *mysql, const rl_tls *tls)
{
    set_text(mysql, MYSQL_OPT_SSL_CA, tls->ca);
    set_text(mysql, MYSQL_OPT_SSL_CERT, tls->cert);
    /* The key of another certificate, out of an option file, would not do. */
    if (tls->cert)
        mysql_optionsv(mysql, MYSQL_OPT_SSL_KEY, tls->key ? tls->key : tls->cert);
    set_text(mysql, MYSQL_OPT_SSL_CRL, tls->crl);
    set_text(mysql, MARIADB_OPT_TLS_PEER_FP, tls->fingerprint);
    /* OpenSSL would ask for it on the terminal. */
    if (!text_option(mysql, MARIADB_OPT_TLS_PASSPHRASE))
        mysql_optionsv(mysql, MARIADB_OPT_TLS_PASSPHRASE, "");
}

static rowlock_status check_possible(MYSQL *mysql, const rl_tls_plan *plan, rowlock_error *err)
{
    if (plan->mode == ROWLOCK_TLS_VERIFY_CA && !has_ca(mysql))
        return rl_fail(err, ROWLOCK_INVALID, "the TLS mode verify-ca needs a CA file");
    if (plan->mode == ROWLOCK_TLS_VERIFY_IDENTITY && plan->local)
        return rl_fail(err, ROWLOCK_INVALID,
                       "the TLS mode verify-identity checks a host's name, and a unix socket has "
                       "none: give the host (127.0.0.1 is not the socket), or leave TLS out: "
                       "nobody can listen on the socket");
    return ROWLOCK_OK;
}

/* What the program said, else what the option files ask for, else what suits the way there. */
static rowlock_tls_mode choose_mode(MYSQL *mysql, const rl_params *params, bool local)
{
    if (params->tls.mode != ROWLOCK_TLS_DEFAULT)
        return params->tls.mode;
    if (files_ask(mysql))
        return ROWLOCK_TLS_REQUIRED;
    return local ? ROWLOCK_TLS_OFF : ROWLOCK_TLS_PREFERRED;
}

static void set_mode(MYSQL *mysql, rowlock_tls_mode mode)
{
    if (mode == ROWLOCK_TLS_VERIFY_CA)
        set_flag(mysql, MYSQL_OPT_SSL_VERIFY_SERVER_CERT, false);
    if (mode == ROWLOCK_TLS_VERIFY_IDENTITY)
        set_flag(mysql, MYSQL_OPT_SSL_VERIFY_SERVER_CERT, true);
    if (mode >= ROWLOCK_TLS_REQUIRED && !has_fingerprint(mysql))
        mysql_optionsv(mysql, MARIADB_OPT_TLS_PEER_FP, "");
    set_flag(mysql, MYSQL_OPT_SSL_ENFORCE, true);
}

static bool server_must_prove_itself(MYSQL *mysql, rowlock_tls_mode mode)
{
    return mode >= ROWLOCK_TLS_REQUIRED && (has_ca(mysql) || has_fingerprint(mysql) ||
                                            flag_option(mysql, MYSQL_OPT_SSL_VERIFY_SERVER_CERT));
}

rowlock_status rl_tls_settle(MYSQL *mysql, const rl_params *params, rl_tls_plan *plan,
                             rowlock_error *err)
{
    snprintf(plan->host, sizeof plan->host, "%s", host_of(mysql, params));
    plan->local = over_unix_socket(mysql, plan->host);
    plan->mode = choose_mode(mysql, params, plan->local);
    if (plan->mode == ROWLOCK_TLS_OFF)
        set_off(mysql);
    set_files(mysql, &params->tls);
    plan->cert = text_option(mysql, MYSQL_OPT_SSL_CERT);
    /* Connector/C has forgotten it by the time that it fails. */
    const char *ca = text_option(mysql, MYSQL_OPT_SSL_CA);
    snprintf(plan->ca, sizeof plan->ca, "%s", ca ? ca : "");
    RL_TRY(check_possible(mysql, plan, err));
    if (plan->mode != ROWLOCK_TLS_OFF)
        set_mode(mysql, plan->mode);
    plan->proven = server_must_prove_itself(mysql, plan->mode);
    if (!plan->local && !plan->proven)
        mysql_optionsv(mysql, MARIADB_OPT_RESTRICTED_AUTH, NO_BARE_PASSWORD);
    return ROWLOCK_OK;
}

static void (*forget_errors)(void);

/* OpenSSL is Connector/C's own affair: it is not linked for this one call, but the very library
 * that Connector/C uses is asked. */
static void find_forget_errors(void)
{
    Dl_info connector;
    if (dladdr((void *)(uintptr_t)mysql_init, &connector) == 0 || !connector.dli_fname)
        return;
    void *library = dlopen(connector.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    void *found = library ? dlsym(library, "ERR_clear_error") : NULL;
    memcpy(&forget_errors, &found, sizeof forget_errors);
    if (library)
        dlclose(library);
}

void rl_tls_forget_errors(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find_forget_errors);
    if (forget_errors)
        forget_errors();
}

rowlock_status rl_tls_proven(MYSQL *mysql, const rl_tls_plan *plan, rowlock_error *err)
{
    if (plan->mode < ROWLOCK_TLS_REQUIRED || mysql_get_ssl_cipher(mysql))
        return ROWLOCK_OK;
    return rl_fail(err, ROWLOCK_UNAVAILABLE,
                   "the connection is not encrypted, and the TLS mode is %s",
                   rl_tls_mode_word(plan->mode));
}

static bool server_offers(const MYSQL *mysql)
{
    return mysql->server_capabilities & CLIENT_SSL;
}

static rowlock_status fail_tls(MYSQL *mysql, const rl_tls_plan *plan, rowlock_error *err)
{
    const char *text = mysql_error(mysql);
    static const char prefix[] = "TLS/SSL error: ";
    if (strncmp(text, prefix, strlen(prefix)) == 0)
        text += strlen(prefix);
    if (!server_offers(mysql))
        return rl_fail(err, ROWLOCK_UNAVAILABLE,
                       "the server offers no TLS, and the TLS mode is %s: no login was sent",
                       rl_tls_mode_word(plan->mode));
    if (strstr(text, "Validation of SSL server certificate failed"))
        return rl_fail(err, ROWLOCK_UNAVAILABLE,
                       "the server's TLS certificate is not for the host '%s': no login was sent "
                       "(the TLS mode verify-ca does not look at the name)",
                       plan->host);
    if (strstr(text, "Fingerprint"))
        return rl_fail(err, ROWLOCK_UNAVAILABLE,
                       "the server's TLS certificate has another fingerprint than the one that is "
                       "asked for: no login was sent");
    if (*plan->ca)
        return rl_fail(err, ROWLOCK_UNAVAILABLE,
                       "no TLS connection to the server could be made: %s (the CA file is '%s')",
                       text, plan->ca);
    return rl_fail(
        err, ROWLOCK_UNAVAILABLE, "no TLS connection to the server could be made: %s%s", text,
        plan->mode >= ROWLOCK_TLS_VERIFY_CA ? " (no CA file is given: the system's count)" : "");
}

bool rl_tls_explain(MYSQL *mysql, const rl_tls_plan *plan, rowlock_status *status,
                    rowlock_error *err)
{
    unsigned number = mysql_errno(mysql);
    if (number == CR_SSL_CONNECTION_ERROR)
        *status = fail_tls(mysql, plan, err);
    else if (number == CR_PLUGIN_NOT_ALLOWED)
        *status = rl_fail(err, ROWLOCK_DENIED,
                          "the server wants a login that shows it the password as it is, or one "
                          "that is not known here; a password is shown over a unix socket only, "
                          "or to a server that has proven itself (TLS mode verify-ca or "
                          "verify-identity, or a fingerprint)");
    else
        return false;
    return true;
}

/* MariaDB does not set this bit (since 10.2). */
bool rl_says_mysql(const MYSQL *mysql)
{
    return mysql->server_capabilities & CLIENT_MYSQL;
}

const char *rl_tls_hint(MYSQL *mysql, const rl_tls_plan *plan)
{
    if (plan->local)
        return "";
    if (plan->mode == ROWLOCK_TLS_OFF || !server_offers(mysql))
        return rl_says_mysql(mysql)
                   ? ", or the account requires TLS, which this connection has not, "
                     "or the login is "
                     "not in MySQL's cache yet, which takes TLS or the unix socket"
                   : ", or the account requires TLS, which this connection has not";
    return plan->cert ? "" : ", or the account requires a client's certificate: none was given";
}
