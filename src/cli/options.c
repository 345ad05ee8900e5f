/* cli/options.c - the connection options, as the mysql client has them. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "args.h"
#include "say.h"

enum {
    ID_DEFAULTS_FILE = CLI_ID_CONNECTION,
    ID_NO_DEFAULTS,
    ID_URL,
    ID_CONNECT_TIMEOUT,
    ID_WAITING
};

const cli_option cli_connection_options[] = {
    {'h', "host", CLI_VALUE},
    {'P', "port", CLI_VALUE},
    {'u', "user", CLI_VALUE},
    {'p', "password", CLI_ATTACHED},
    {'S', "socket", CLI_VALUE},
    {'D', "database", CLI_VALUE},
    {'v', "verbose", CLI_NOTHING},
    {ID_DEFAULTS_FILE, "defaults-file", CLI_VALUE},
    {ID_NO_DEFAULTS, "no-defaults", CLI_NOTHING},
    {ID_URL, "url", CLI_VALUE},
    {ID_CONNECT_TIMEOUT, "connect-timeout", CLI_VALUE},
    {ID_WAITING, "waiting", CLI_VALUE},
    {0},
};

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

/* A file named on purpose must be there; the usual ones need not. */
static bool take_defaults_file(cli_context *context, const char *value)
{
    if (access(value, R_OK) != 0) {
        cli_usage("cannot read the option file '%s': %s", value, strerror(errno));
        return false;
    }
    context->client.defaults_file = value;
    context->client.read_defaults = false;
    return true;
}

static bool take_no_defaults(cli_context *context)
{
    context->client.defaults_file = NULL;
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

bool cli_connection_take(cli_context *context, int id, const char *value)
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
    case ID_NO_DEFAULTS:
        return take_no_defaults(context);
    case ID_URL:
        return take_text(&context->client.url, value);
    case ID_CONNECT_TIMEOUT:
        return take_connect_timeout(context, value);
    case ID_WAITING:
        return take_waiting(context, value);
    }
    return false;
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
