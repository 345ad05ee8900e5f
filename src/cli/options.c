/* cli/options.c - the connection options, as the mysql client has them. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "args.h"
#include "say.h"
#include "secret.h"

enum {
    ID_DEFAULTS_FILE = CLI_ID_CONNECTION,
    ID_DEFAULTS_EXTRA_FILE,
    ID_NO_DEFAULTS,
    ID_PROTOCOL,
    ID_URL,
    ID_CONNECT_TIMEOUT,
    ID_RETRY,
    ID_WAITING,
    ID_VIA,
    ID_SINGLE_WRITER,
    ID_TLS,
    ID_TLS_CA,
    ID_TLS_CERT,
    ID_TLS_KEY,
    ID_TLS_FINGERPRINT,
    ID_TLS_CRL,
    ID_SSL_MODE,
    ID_SSL,
    ID_SKIP_SSL,
    ID_SSL_VERIFY,
    ID_SKIP_SSL_VERIFY
};

enum { RETRY_MOST_MS = 86400000 };

const cli_option cli_connection_options[] = {
    {'h', "host", CLI_VALUE},
    {'P', "port", CLI_VALUE},
    {'u', "user", CLI_VALUE},
    {'p', "password", CLI_ATTACHED},
    {'S', "socket", CLI_VALUE},
    {'D', "database", CLI_VALUE},
    {'v', "verbose", CLI_NOTHING},
    {ID_DEFAULTS_FILE, "defaults-file", CLI_VALUE},
    {ID_DEFAULTS_EXTRA_FILE, "defaults-extra-file", CLI_VALUE},
    {ID_NO_DEFAULTS, "no-defaults", CLI_NOTHING},
    {ID_PROTOCOL, "protocol", CLI_VALUE},
    {ID_URL, "url", CLI_VALUE},
    {ID_CONNECT_TIMEOUT, "connect-timeout", CLI_VALUE},
    {ID_RETRY, "retry", CLI_VALUE},
    {ID_WAITING, "waiting", CLI_VALUE},
    {ID_VIA, "via", CLI_VALUE},
    {ID_SINGLE_WRITER, "single-writer", CLI_NOTHING},
    {ID_TLS, "tls", CLI_VALUE},
    {ID_TLS_CA, "tls-ca", CLI_VALUE},
    {ID_TLS_CERT, "tls-cert", CLI_VALUE},
    {ID_TLS_KEY, "tls-key", CLI_VALUE},
    {ID_TLS_FINGERPRINT, "tls-fingerprint", CLI_VALUE},
    {ID_TLS_CRL, "tls-crl", CLI_VALUE},
    /* The mysql client's names. */
    {ID_SSL_MODE, "ssl-mode", CLI_VALUE},
    {ID_SSL, "ssl", CLI_ATTACHED},
    {ID_SKIP_SSL, "skip-ssl", CLI_NOTHING},
    {ID_SKIP_SSL, "disable-ssl", CLI_NOTHING},
    {ID_SSL_VERIFY, "ssl-verify-server-cert", CLI_ATTACHED},
    {ID_SKIP_SSL_VERIFY, "skip-ssl-verify-server-cert", CLI_NOTHING},
    {ID_SKIP_SSL_VERIFY, "disable-ssl-verify-server-cert", CLI_NOTHING},
    {ID_TLS_CA, "ssl-ca", CLI_VALUE},
    {ID_TLS_CERT, "ssl-cert", CLI_VALUE},
    {ID_TLS_KEY, "ssl-key", CLI_VALUE},
    {ID_TLS_CRL, "ssl-crl", CLI_VALUE},
    {ID_TLS_FINGERPRINT, "ssl-fp", CLI_VALUE},
    {0},
};

/* Options of the mysql client that mean nothing here, or cannot be had with Connector/C (3.3). */
static const struct {
    const char *name;
    const char *instead;
} not_ours[] = {
    {"login-path", "Connector/C cannot read .mylogin.cnf; put the login into an option file "
                   "(--defaults-extra-file) or a URL (--url)"},
    {"no-login-paths", "rowlock reads no login paths; leave it out"},
    {"defaults-group-suffix", "Connector/C reads the groups [client] and [rowlock] alone; give "
                              "these settings a file of their own (--defaults-extra-file)"},
    {"ssl-capath", "name one file of CAs with --ssl-ca, or put ssl-capath=... into an option file"},
    {"ssl-crlpath", "name one file with --ssl-crl, or put ssl-crlpath=... into an option file"},
    {"ssl-cipher", "put ssl-cipher=... into an option file"},
    {"ssl-fplist", "name one certificate with --ssl-fp, or put ssl-fplist=... into an option file"},
    {"tls-version", "put tls-version=... into an option file"},
    {"tls-ciphersuites", "put ssl-cipher=... into an option file"},
    {"ssl-fips-mode", "it is a setting of the system's OpenSSL; leave it out"},
    {"ssl-session-data", "rowlock keeps its connections; leave it out"},
    {"ssl-session-data-continue-on-failed-reuse", "rowlock keeps its connections; leave it out"},
    {"get-server-public-key", "use TLS (--ssl-mode=REQUIRED) or a socket"},
    {"server-public-key-path", "use TLS (--ssl-mode=REQUIRED) or a socket"},
    {"plugin-dir", "put plugin-dir=... into an option file"},
    {"default-auth", "the server names the way to log in; leave it out"},
    {"bind-address", "put bind-address=... into an option file"},
    {"init-command", "rowlock sets its sessions up by itself; leave it out"},
    {"print-defaults", "my_print_defaults client rowlock prints what the option files say"},
    {"compress", "what rowlock exchanges with the server is short; leave it out"},
    {"default-character-set", "rowlock always uses utf8mb4; leave it out"},
};

const char *cli_connection_instead(const char *name, size_t length)
{
    for (size_t i = 0; i < sizeof not_ours / sizeof not_ours[0]; i++)
        if (strlen(not_ours[i].name) == length && strncmp(not_ours[i].name, name, length) == 0)
            return not_ours[i].instead;
    return NULL;
}

static bool take_port(cli_context *context, const char *value)
{
    uint64_t port;
    if (!cli_number(value, 1, 65535, &port)) {
        cli_usage("--port wants a number from 1 to 65535, not '%s'", value);
        return false;
    }
    context->client.port = (unsigned)port;
    return true;
}

static bool take_connect_timeout(cli_context *context, const char *value)
{
    int64_t ms;
    if (!cli_duration(value, &ms) || ms == 0) {
        cli_usage("--connect-timeout wants a duration such as 5s or 500ms, not '%s'", value);
        return false;
    }
    context->client.connect_timeout_ms = ms;
    return true;
}

/* 0, where the library would take the URL's word. */
static bool take_retry(cli_context *context, const char *value)
{
    int64_t ms;
    if (!cli_duration(value, &ms) || ms > RETRY_MOST_MS) {
        cli_usage("--retry wants a duration of at most 1d such as 30s or 5m, not '%s'", value);
        return false;
    }
    context->client.retry_ms = ms > 0 ? ms : -1;
    return true;
}

static bool take_waiting(cli_context *context, const char *value)
{
    bool poll = strcmp(value, "poll") == 0;
    if (!poll && strcmp(value, "auto") != 0) {
        cli_usage("--waiting wants auto or poll, not '%s'", value);
        return false;
    }
    context->client.waiting = poll ? ROWLOCK_WAITING_POLL : ROWLOCK_WAITING_AUTO;
    return true;
}

static bool take_via(cli_context *context, const char *value)
{
    bool procedures = strcmp(value, "procedures") == 0;
    if (!procedures && strcmp(value, "tables") != 0) {
        cli_usage("--via wants tables or procedures, not '%s'", value);
        return false;
    }
    context->client.via = procedures ? ROWLOCK_VIA_PROCEDURES : ROWLOCK_VIA_TABLES;
    return true;
}

/* Contexts are copied; this lives as long as they. */
static rowlock_tls_options *tls_of(cli_context *context)
{
    static rowlock_tls_options tls;
    context->client.tls = &tls;
    return &tls;
}

/* What the options given so far come to: --tls and --ssl-mode win over the switches. */
static rowlock_tls_mode tls_mode_of(const cli_context *context)
{
    const bool has_ca = context->client.tls->ca;
    if (context->tls_mode != ROWLOCK_TLS_DEFAULT)
        return context->tls_mode;
    if (context->ssl == CLI_OFF)
        return ROWLOCK_TLS_OFF;
    if (context->verify == CLI_ON)
        return ROWLOCK_TLS_VERIFY_IDENTITY;
    if (has_ca && context->verify == CLI_OFF)
        return ROWLOCK_TLS_VERIFY_CA;
    return context->ssl == CLI_ON && !has_ca ? ROWLOCK_TLS_REQUIRED : ROWLOCK_TLS_DEFAULT;
}

static bool settle_tls(cli_context *context)
{
    rowlock_tls_options *tls = tls_of(context);
    tls->mode = tls_mode_of(context);
    return true;
}

static bool take_tls_ca(cli_context *context, const char *value)
{
    tls_of(context)->ca = value;
    return settle_tls(context);
}

static bool take_ssl(cli_context *context, cli_switch value)
{
    context->ssl = value;
    return settle_tls(context);
}

static bool take_verify(cli_context *context, cli_switch value)
{
    context->verify = value;
    return settle_tls(context);
}

/* Ours and the mysql client's (DISABLED, VERIFY_CA ...) words. */
static bool take_tls(cli_context *context, int id, const char *value)
{
    static const struct {
        const char *word, *mysqls;
        rowlock_tls_mode mode;
    } modes[] = {{"off", "DISABLED", ROWLOCK_TLS_OFF},
                 {"preferred", "PREFERRED", ROWLOCK_TLS_PREFERRED},
                 {"required", "REQUIRED", ROWLOCK_TLS_REQUIRED},
                 {"verify-ca", "VERIFY_CA", ROWLOCK_TLS_VERIFY_CA},
                 {"verify-identity", "VERIFY_IDENTITY", ROWLOCK_TLS_VERIFY_IDENTITY}};
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        if (strcmp(value, modes[i].word) == 0 || strcasecmp(value, modes[i].mysqls) == 0) {
            context->tls_mode = modes[i].mode;
            return settle_tls(context);
        }
    }
    if (id == ID_SSL_MODE)
        cli_usage("--ssl-mode wants DISABLED, PREFERRED, REQUIRED, VERIFY_CA or VERIFY_IDENTITY, "
                  "not '%s'",
                  value);
    else
        cli_usage("--tls wants off, preferred, required, verify-ca or verify-identity, not '%s'",
                  value);
    return false;
}

static bool take_protocol(cli_context *context, const char *value)
{
    bool tcp = strcasecmp(value, "tcp") == 0;
    if (!tcp && strcasecmp(value, "socket") != 0) {
        cli_usage("--protocol wants tcp or socket, not '%s'", value);
        return false;
    }
    context->client.protocol = tcp ? ROWLOCK_PROTOCOL_TCP : ROWLOCK_PROTOCOL_SOCKET;
    return true;
}

/* A file named on purpose must be there; the usual ones need not. */
static bool is_option_file(const char *file)
{
    if (access(file, R_OK) == 0)
        return true;
    cli_usage("cannot read the option file '%s': %s", file, strerror(errno));
    return false;
}

static bool take_defaults_extra_file(cli_context *context, const char *value)
{
    context->client.defaults_extra_file = value;
    return is_option_file(value);
}

static bool take_defaults_file(cli_context *context, const char *value)
{
    if (!is_option_file(value))
        return false;
    context->client.defaults_file = value;
    context->client.read_defaults = false;
    return true;
}

static bool take_no_defaults(cli_context *context)
{
    context->client.defaults_file = NULL;
    context->client.defaults_extra_file = NULL;
    context->client.read_defaults = false;
    return true;
}

static bool take_password(cli_context *context, const char *value)
{
    context->client.password = value;
    context->ask_password = value == NULL;
    return true;
}

static bool take_verbose(cli_context *context)
{
    rowlock_log_level level = ++context->verbose > 1 ? ROWLOCK_LOG_DEBUG : ROWLOCK_LOG_INFO;
    context->client.log = cli_log;
    context->client.log_data = (void *)(uintptr_t)level;
    return true;
}

static bool take_text(const char **member, const char *value)
{
    *member = value;
    return true;
}

/* Each is noted once, so that there is room for all. */
static_assert(sizeof cli_connection_options / sizeof cli_connection_options[0] <= CLI_GIVEN_MAX,
              "more options than cli_called() can name");

static void forget_given(cli_context *context, const char *name)
{
    unsigned kept = 0;
    for (unsigned i = 0; i < context->given_count; i++)
        if (context->given[i].name != name)
            context->given[kept++] = context->given[i];
    context->given_count = kept;
}

/* For cli_called(). Of an option that is given again the last one counts, behind what was said
 * before it: --no-defaults and --defaults-file override each other. */
static void note_option(cli_context *context, int id, const char *value)
{
    const cli_option *option = cli_connection_options;
    while (option->id != id)
        option++;
    if (id == 'v')
        return;
    forget_given(context, option->name);
    context->given[context->given_count++] =
        (cli_given){.name = option->name, .value = id == 'p' ? NULL : value};
}

static bool take(cli_context *context, int id, const char *value)
{
    switch (id) {
    case 'h':
        return take_text(&context->client.host, value);
    case 'P':
        return take_port(context, value);
    case 'u':
        return take_text(&context->client.user, value);
    case 'p':
        return take_password(context, value);
    case 'S':
        return take_text(&context->client.socket, value);
    case 'D':
        return take_text(&context->client.schema, value);
    case 'v':
        return take_verbose(context);
    case ID_DEFAULTS_FILE:
        return take_defaults_file(context, value);
    case ID_DEFAULTS_EXTRA_FILE:
        return take_defaults_extra_file(context, value);
    case ID_NO_DEFAULTS:
        return take_no_defaults(context);
    case ID_PROTOCOL:
        return take_protocol(context, value);
    case ID_URL:
        return take_text(&context->client.url, value);
    case ID_CONNECT_TIMEOUT:
        return take_connect_timeout(context, value);
    case ID_RETRY:
        return take_retry(context, value);
    case ID_WAITING:
        return take_waiting(context, value);
    case ID_VIA:
        return take_via(context, value);
    case ID_SINGLE_WRITER:
        context->client.single_writer = true;
        return true;
    case ID_TLS:
    case ID_SSL_MODE:
        return take_tls(context, id, value);
    case ID_SSL:
    case ID_SKIP_SSL:
        return take_ssl(context, id == ID_SSL ? CLI_ON : CLI_OFF);
    case ID_SSL_VERIFY:
    case ID_SKIP_SSL_VERIFY:
        return take_verify(context, id == ID_SSL_VERIFY ? CLI_ON : CLI_OFF);
    case ID_TLS_CA:
        return take_tls_ca(context, value);
    case ID_TLS_CERT:
        return take_text(&tls_of(context)->cert, value);
    case ID_TLS_KEY:
        return take_text(&tls_of(context)->key, value);
    case ID_TLS_FINGERPRINT:
        return take_text(&tls_of(context)->fingerprint, value);
    case ID_TLS_CRL:
        return take_text(&tls_of(context)->crl, value);
    }
    return false;
}

/* --ssl, --ssl=1, --ssl=0: a switch, and the one that is its opposite. */
static bool flip(int *id, int opposite, const char **value)
{
    static const char *const yes[] = {"1", "on", "true"};
    static const char *const no[] = {"0", "off", "false"};
    bool known = !*value;
    for (size_t i = 0; *value && i < sizeof yes / sizeof yes[0]; i++) {
        bool off = strcasecmp(*value, no[i]) == 0;
        known = known || off || strcasecmp(*value, yes[i]) == 0;
        if (off)
            *id = opposite;
    }
    *value = NULL;
    return known;
}

static bool resolve_switch(int *id, const char **value)
{
    const char *given = *value;
    if (*id == ID_SSL && !flip(id, ID_SKIP_SSL, value))
        cli_usage("--ssl takes no value, or 0 or 1, not '%s'", given);
    else if (*id == ID_SSL_VERIFY && !flip(id, ID_SKIP_SSL_VERIFY, value))
        cli_usage("--ssl-verify-server-cert takes no value, or 0 or 1, not '%s'", given);
    else
        return true;
    return false;
}

bool cli_connection_take(cli_context *context, int id, const char *value)
{
    if (!resolve_switch(&id, &value))
        return false;
    note_option(context, id, value);
    return take(context, id, value);
}

/* ------------------------------------------------------------------ calling again */

static char **add_word(char **end, const char *before, const char *word)
{
    char *text = cli_need(malloc(strlen(before) + strlen(word) + 1));
    stpcpy(stpcpy(text, before), word);
    *end = text;
    return end + 1;
}

/* The option's words; *asks: the URL had a password. */
static char **add_given(char **end, const cli_given *given, bool *asks)
{
    bool url = strcmp(given->name, "url") == 0;
    char *without = url ? cli_url_without_password(given->value) : NULL;
    *asks = *asks || without;
    end = add_word(end, "--", given->name);
    if (given->value)
        end = add_word(end, "", without ? without : given->value);
    free(without);
    return end;
}

char **cli_called(const cli_context *context)
{
    bool asks = false;
    char **words = cli_need(calloc(2 * (size_t)context->given_count + 3, sizeof *words));
    char **end = add_word(words, "", context->program);
    for (unsigned i = 0; i < context->given_count; i++)
        if (strcmp(context->given[i].name, "password") == 0)
            asks = true;
        else
            end = add_given(end, &context->given[i], &asks);
    if (asks)
        add_word(end, "--", "password");
    return words;
}

void cli_words_free(char **words)
{
    for (char **word = words; *word; word++)
        free(*word);
    free(words);
}

bool cli_mode(const char *text, rowlock_mode *mode)
{
    if (strcmp(text, "lease") == 0 || strcmp(text, "optimistic") == 0)
        *mode = ROWLOCK_OPTIMISTIC;
    else if (strcmp(text, "pessimistic") == 0)
        *mode = ROWLOCK_PESSIMISTIC;
    else
        return false;
    return true;
}

const char *cli_mode_word(rowlock_mode mode)
{
    switch (mode) {
    case ROWLOCK_OPTIMISTIC:
        return "lease";
    case ROWLOCK_PESSIMISTIC:
        return "pessimistic";
    }
    return "?";
}

bool cli_open(cli_context *context, rowlock_client **client, int *exit_status)
{
    rowlock_error err;
    *exit_status = CLI_EXIT_USAGE;
    if (!cli_password(context))
        return false;
    if (rowlock_client_open(&context->client, client, &err) == ROWLOCK_OK)
        return true;
    *exit_status = cli_fail(&err);
    return false;
}
