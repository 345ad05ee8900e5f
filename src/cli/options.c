/* cli/options.c - the connection options, named as the mysql client's. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

enum { RETRY_MOST_MS = 86400000, LOOK_MOST_MS = 1000 };

static bool take_connect_timeout(void *into, const char *value)
{
    cli_context *context = into;
    int64_t ms;
    if (!cli_duration(value, &ms) || ms == 0)
        return !cli_usage("--connect-timeout wants a duration such as 5s or 500ms, not '%s'",
                          value);
    context->client.connect_timeout_ms = ms;
    return true;
}

/* --retry=0 must win over the URL; in the library's options, 0 means the URL's value. */
static bool take_retry(void *into, const char *value)
{
    cli_context *context = into;
    int64_t ms;
    if (!cli_duration(value, &ms) || ms > RETRY_MOST_MS)
        return !cli_usage("--retry wants a duration of at most 1d such as 30s or 5m, not '%s'",
                          value);
    context->client.retry_ms = ms > 0 ? ms : -1;
    return true;
}

static bool add_url(cli_context *context, const char *url)
{
    if (context->url_count == ROWLOCK_MEMBERS_MAX)
        return !cli_usage("a quorum has at most %d servers (--url, ROWLOCK_URLS)",
                          ROWLOCK_MEMBERS_MAX);
    context->urls[context->url_count++] = url;
    return true;
}

static bool take_url(void *into, const char *value)
{
    return add_url(into, value);
}

static bool take_require(void *into, const char *value)
{
    cli_context *context = into;
    context->client.require_all = strcmp(value, "all") == 0;
    return context->client.require_all || strcmp(value, "most") == 0 ||
           !cli_usage("--require wants most or all, not '%s'", value);
}

/* An option file that was named must exist; the default ones need not. */
static bool is_option_file(const char *file)
{
    return access(file, R_OK) == 0 ||
           !cli_usage("cannot read the option file '%s': %s", file, strerror(errno));
}

static bool take_defaults_extra_file(void *into, const char *value)
{
    cli_context *context = into;
    context->client.defaults_extra_file = value;
    return is_option_file(value);
}

static bool take_defaults_file(void *into, const char *value)
{
    cli_context *context = into;
    context->client.defaults_file = value;
    context->client.read_defaults = false;
    return is_option_file(value);
}

static bool take_no_defaults(void *into, const char *value)
{
    cli_context *context = into;
    context->client.defaults_file = value; /* NULL */
    context->client.defaults_extra_file = NULL;
    context->client.read_defaults = false;
    return true;
}

static bool take_password(void *into, const char *value)
{
    cli_context *context = into;
    context->client.password = value;
    context->ask_password = value == NULL;
    return true;
}

static bool take_verbose(void *into, const char *value)
{
    cli_context *context = into;
    rowlock_log_level level = ++context->verbose > 1 ? ROWLOCK_LOG_DEBUG : ROWLOCK_LOG_INFO;
    (void)value;
    context->client.log = cli_log;
    context->client.log_data = (void *)(uintptr_t)level;
    return true;
}

static const cli_word waiting_words[] = {
    {"auto", ROWLOCK_WAITING_AUTO, false},
    {"poll", ROWLOCK_WAITING_POLL, false},
    {0},
};
static const cli_word via_words[] = {
    {"tables", ROWLOCK_VIA_TABLES, false},
    {"procedures", ROWLOCK_VIA_PROCEDURES, false},
    {0},
};
static const cli_word protocol_words[] = {
    {"tcp", ROWLOCK_PROTOCOL_TCP, true},
    {"socket", ROWLOCK_PROTOCOL_SOCKET, true},
    {0},
};
/* Our words and the mysql client's. */
static const cli_word tls_words[] = {
    {"off", ROWLOCK_TLS_OFF, false},
    {"verify-ca", ROWLOCK_TLS_VERIFY_CA, false},
    {"verify-identity", ROWLOCK_TLS_VERIFY_IDENTITY, false},
    {"DISABLED", ROWLOCK_TLS_OFF, true},
    {"PREFERRED", ROWLOCK_TLS_PREFERRED, true},
    {"REQUIRED", ROWLOCK_TLS_REQUIRED, true},
    {"VERIFY_CA", ROWLOCK_TLS_VERIFY_CA, true},
    {"VERIFY_IDENTITY", ROWLOCK_TLS_VERIFY_IDENTITY, true},
    {0},
};
static const cli_word switch_words[] = {
    {"1", CLI_ON, true},
    {"on", CLI_ON, true},
    {"true", CLI_ON, true},
    {"0", CLI_OFF, true},
    {"off", CLI_OFF, true},
    {"false", CLI_OFF, true},
    {0},
};

#define AT(member) CLI_AT(cli_context, member)
#define MODES      .words = tls_words, .wants = "wants "
#define SWITCH     .words = switch_words, .wants = "takes no value, or 0 or 1"

const cli_option cli_connection_options[] = {
    {'h', "host", CLI_TEXT, AT(client.host)},
    {'P', "port", CLI_UNSIGNED, AT(client.port), .least = 1, .most = 65535},
    {'u', "user", CLI_TEXT, AT(client.user)},
    {'p', "password", CLI_OWN_ATTACHED, .take = take_password},
    {'S', "socket", CLI_TEXT, AT(client.socket)},
    {'D', "database", CLI_TEXT, AT(client.schema)},
    {'v', "verbose", CLI_OWN_FLAG, .take = take_verbose},
    {0, "defaults-file", CLI_OWN, .take = take_defaults_file},
    {0, "defaults-extra-file", CLI_OWN, .take = take_defaults_extra_file},
    {0, "no-defaults", CLI_OWN_FLAG, .take = take_no_defaults},
    {0, "protocol", CLI_WORD, AT(client.protocol), .words = protocol_words,
     .wants = "wants tcp or socket"},
    {0, "url", CLI_OWN, .take = take_url},
    {0, "require", CLI_OWN, .take = take_require},
    {0, "connect-timeout", CLI_OWN, .take = take_connect_timeout},
    {0, "retry", CLI_OWN, .take = take_retry},
    {0, "waiting", CLI_WORD, AT(client.waiting), .words = waiting_words,
     .wants = "wants auto or poll"},
    {0, "via", CLI_WORD, AT(client.via), .words = via_words, .wants = "wants tables or procedures"},
    {0, "single-writer", CLI_FLAG, AT(client.single_writer)},
    {0, "tls", CLI_WORD, AT(tls_mode),
     MODES "off, preferred, required, verify-ca or verify-identity"},
    {0, "tls-ca", CLI_TEXT, AT(tls.ca)},
    {0, "tls-cert", CLI_TEXT, AT(tls.cert)},
    {0, "tls-key", CLI_TEXT, AT(tls.key)},
    {0, "tls-fingerprint", CLI_TEXT, AT(tls.fingerprint)},
    {0, "tls-crl", CLI_TEXT, AT(tls.crl)},
    /* The mysql client's names. */
    {0, "ssl-mode", CLI_WORD, AT(tls_mode),
     MODES "DISABLED, PREFERRED, REQUIRED, VERIFY_CA or VERIFY_IDENTITY"},
    {0, "ssl", CLI_SWITCH, AT(ssl), SWITCH},
    {0, "skip-ssl", CLI_UNSWITCH, AT(ssl)},
    {0, "disable-ssl", CLI_UNSWITCH, AT(ssl)},
    {0, "ssl-verify-server-cert", CLI_SWITCH, AT(verify), SWITCH},
    {0, "skip-ssl-verify-server-cert", CLI_UNSWITCH, AT(verify)},
    {0, "disable-ssl-verify-server-cert", CLI_UNSWITCH, AT(verify)},
    {0, "ssl-ca", CLI_TEXT, AT(tls.ca)},
    {0, "ssl-cert", CLI_TEXT, AT(tls.cert)},
    {0, "ssl-key", CLI_TEXT, AT(tls.key)},
    {0, "ssl-crl", CLI_TEXT, AT(tls.crl)},
    {0, "ssl-fp", CLI_TEXT, AT(tls.fingerprint)},
    {0},
};

/* Options of the mysql client that mean nothing here, or that Connector/C (3.3) does not
 * support. */
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

/* The mode that follows from the options: --tls and --ssl-mode win over the switches. */
static rowlock_tls_mode tls_mode_of(const cli_context *context)
{
    const bool has_ca = context->tls.ca;
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

void cli_connection_settle(cli_context *context)
{
    context->tls.mode = tls_mode_of(context);
    context->client.tls = &context->tls;
}

/* Splits the list at blanks, line ends and commas. The pieces live as long as the process. */
static bool split_urls(cli_context *context, const char *list)
{
    char *rest = cli_need(strdup(list));
    for (char *url; (url = strsep(&rest, " \t\r\n,")) != NULL;)
        if (*url && !add_url(context, url))
            return false;
    return true;
}

/* --url wins over both of the variables. */
static bool urls_of_environment(cli_context *context)
{
    const char *one = getenv("ROWLOCK_URL");
    const char *several = getenv("ROWLOCK_URLS");
    const bool has_one = one && *one;
    if (has_one && several && *several)
        return !cli_usage("ROWLOCK_URL and ROWLOCK_URLS are both set; unset one of them");
    if (has_one)
        return add_url(context, one);
    return !several || split_urls(context, several);
}

static bool settle_members(cli_context *context)
{
    rowlock_client_options *client = &context->client;
    if (client->host || client->port || client->socket)
        return !cli_usage("--host, --port and --socket do not go with several servers: each --url "
                          "says where its server is");
    client->members = context->urls;
    client->member_count = context->url_count;
    return true;
}

bool cli_connection_servers(cli_context *context)
{
    if (context->url_count == 0 && !urls_of_environment(context))
        return false;
    context->client.members = NULL;
    context->client.member_count = 0;
    if (context->url_count > 1)
        return settle_members(context);
    context->client.url = context->url_count ? context->urls[0] : NULL;
    return !context->client.require_all ||
           !cli_usage("--require is for several servers (--url, ROWLOCK_URLS)");
}

rowlock_client_options cli_member_options(const cli_context *context, size_t i)
{
    rowlock_client_options options = context->client;
    options.members = NULL;
    options.member_count = 0;
    options.require_all = false;
    options.url = context->urls[i];
    return options;
}

rowlock_status cli_quorum_look(const rowlock_client_options *options, rowlock_quorum **out,
                               rowlock_error *err)
{
    rowlock_client_options how = *options;
    if (how.connect_timeout_ms == 0 || how.connect_timeout_ms > LOOK_MOST_MS)
        how.connect_timeout_ms = LOOK_MOST_MS;
    how.retry_ms = -1;
    how.log = NULL;
    return rowlock_quorum_get(&how, NULL, out, err);
}

const cli_word cli_mode_words[] = {
    {"lease", ROWLOCK_OPTIMISTIC, false},
    {"optimistic", ROWLOCK_OPTIMISTIC, false},
    {"pessimistic", ROWLOCK_PESSIMISTIC, false},
    {0},
};

rowlock_client *cli_open(const cli_context *context, int *exit_status)
{
    rowlock_client *client;
    rowlock_error err;
    if (rowlock_client_open(&context->client, &client, &err) == ROWLOCK_OK)
        return client;
    *exit_status = cli_fail(&err);
    return NULL;
}
