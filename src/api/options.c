#include "api/options.h"

#include <errno.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/text.h"
#include "base/url.h"
#include "db/login.h"
#include "kind/leader.h"
#include "kind/row.h"

#define SCHEMA_DEFAULT             "rowlock"
#define CONNECT_TIMEOUT_DEFAULT_MS 10000
#define CONNECT_TIMEOUT_MIN_MS     100
#define CONNECT_TIMEOUT_MAX_MS     3600000
#define RECONNECT_MAX_MS           86400000
#define RETRY_MAX_MS               86400000
#define HISTORY_MIN_DEFAULT_MS     1000
#define HISTORY_MIN_MAX_MS         3600000

rowlock_status rl_place_check(const void *place, const char *what, rowlock_error *err)
{
    return place ? ROWLOCK_OK
                 : rl_fail(err, ROWLOCK_INVALID, "no place for %s was given (NULL)", what);
}

rowlock_status rl_range_check(const char *what, int64_t ms, int64_t least, int64_t most,
                              rowlock_error *err)
{
    if (ms >= least && ms <= most)
        return ROWLOCK_OK;
    return rl_fail(err, ROWLOCK_INVALID,
                   "%s of %" PRId64 " ms is not %" PRId64 " to %" PRId64 " ms", what, ms, least,
                   most);
}

rowlock_status rl_plain_check(const char *what, const char *name, rowlock_error *err)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_$";
    size_t length = strlen(name);
    if (length >= 1 && length <= 64 && strspn(name, allowed) == length)
        return ROWLOCK_OK;
    return rl_fail(err, ROWLOCK_INVALID, "%s's name '%s' is not 1 to 64 letters, digits, _ or $",
                   what, name);
}

rowlock_status rl_schema_is_ours(const char *name, rowlock_error *err)
{
    static const char *const servers[] = {"mysql", "information_schema", "performance_schema",
                                          "sys", "ndbinfo"};
    for (size_t i = 0; i < sizeof servers / sizeof servers[0]; i++)
        if (strcasecmp(name, servers[i]) == 0)
            return rl_fail(err, ROWLOCK_INVALID,
                           "the schema '%s' is the server's own; use one of yours", name);
    return ROWLOCK_OK;
}

/* The member where it is set, else the URL's part. */
static bool choose(char **to, const char *member, const char *part)
{
    const char *from = member ? member : part;
    *to = rl_strdup(from);
    return !from || *to;
}

static rowlock_status merge_times(const rowlock_client_options *options, const rl_url *url,
                                  rl_params *params, rowlock_error *err)
{
    params->connect_timeout_ms = options->connect_timeout_ms ? options->connect_timeout_ms
                                 : url->connect_timeout_ms   ? url->connect_timeout_ms
                                                             : CONNECT_TIMEOUT_DEFAULT_MS;
    RL_TRY(rl_range_check("the connect timeout", params->connect_timeout_ms, CONNECT_TIMEOUT_MIN_MS,
                          CONNECT_TIMEOUT_MAX_MS, err));
    params->retry_ms = options->retry_ms ? options->retry_ms : url->retry_ms;
    if (params->retry_ms < 0)
        params->retry_ms = 0;
    if (params->retry_ms > RETRY_MAX_MS)
        return rl_fail(err, ROWLOCK_INVALID, "retry_ms of %" PRId64 " is more than %d",
                       params->retry_ms, RETRY_MAX_MS);
    return ROWLOCK_OK;
}

static rowlock_status merge(const rowlock_client_options *options, const rl_url *url,
                            rl_params *params, rowlock_error *err)
{
    const char *schema = url->schema ? url->schema : SCHEMA_DEFAULT;
    bool good = choose(&params->host, options->host, url->host) &&
                choose(&params->socket, options->socket, url->socket) &&
                choose(&params->user, options->user, url->user) &&
                choose(&params->password, options->password, url->password) &&
                choose(&params->schema, options->schema, schema) &&
                choose(&params->defaults_file, options->defaults_file, NULL) &&
                choose(&params->defaults_extra_file, options->defaults_extra_file, NULL);
    if (!good)
        return rl_fail(err, ROWLOCK_SYSTEM, "out of memory");
    params->port = options->port ? options->port : url->port;
    params->read_defaults = options->read_defaults;
    if (params->port > 65535)
        return rl_fail(err, ROWLOCK_INVALID, "the port %u is not 1 to 65535", params->port);
    RL_TRY(merge_times(options, url, params, err));
    RL_TRY(rl_plain_check("the schema", params->schema, err));
    return rl_schema_is_ours(params->schema, err);
}

/* Two ways, of the numbers 1 and 2; 0: neither the caller nor the URL says which. */
typedef struct ways {
    const char *what;
    const char *of_what;
    const char *words[2]; /* in a URL */
    const char *refusal;
} ways;

static rowlock_status choose_way(int given, const char *in_url, const ways *of, int *chosen,
                                 rowlock_error *err)
{
    *chosen = given;
    if (given < 0 || given > 2)
        return rl_fail(err, ROWLOCK_INVALID, "there is no %s %d%s", of->what, given, of->of_what);
    for (int i = 0; given == 0 && in_url && i < 2; i++)
        if (strcmp(in_url, of->words[i]) == 0)
            *chosen = i + 1;
    if (*chosen == 0 && in_url)
        /* What it is is not shown: it may be the end of a password. */
        return rl_fail(err, ROWLOCK_INVALID, "the URL's %s", of->refusal);
    return ROWLOCK_OK;
}

static rowlock_status choose_ways(const rowlock_client_options *options, const rl_url *url,
                                  rl_params *params, rowlock_waiting *waiting, rowlock_error *err)
{
    static const ways waitings = {
        "way of waiting", "", {"poll", "auto"}, "waiting is neither auto nor poll"};
    static const ways vias = {"way",
                              " to the tables (via)",
                              {"procedures", "tables"},
                              "via is neither tables nor procedures"};
    static const ways protocols = {
        "protocol", "", {"tcp", "socket"}, "protocol is neither tcp nor socket"};
    int way = 0;
    RL_TRY(choose_way((int)options->waiting, url->waiting, &waitings, &way, err));
    *waiting = way == ROWLOCK_WAITING_POLL ? ROWLOCK_WAITING_POLL : ROWLOCK_WAITING_AUTO;
    RL_TRY(choose_way((int)options->via, url->via, &vias, &way, err));
    params->via = way == ROWLOCK_VIA_PROCEDURES;
    RL_TRY(choose_way((int)options->protocol, url->protocol, &protocols, &way, err));
    params->protocol = (rowlock_protocol)way;
    return ROWLOCK_OK;
}

static rowlock_status merge_tls(const rowlock_client_options *options, const rl_url *url,
                                rl_tls *tls, rowlock_error *err)
{
    rowlock_tls_options of_url = url->tls;
    if (url->tls_mode && !rl_tls_mode_of(url->tls_mode, &of_url.mode))
        return rl_fail(err, ROWLOCK_INVALID,
                       "the URL's tls is neither off, preferred, required, verify-ca nor "
                       "verify-identity");
    if (!rl_tls_override(tls, &of_url) || (options->tls && !rl_tls_override(tls, options->tls)))
        return rl_fail(err, ROWLOCK_SYSTEM, "out of memory");
    return rl_tls_check(tls, err);
}

/* Connector/C ignores an option file that it cannot read. */
static rowlock_status check_option_file(const char *file, rowlock_error *err)
{
    if (file && access(file, R_OK) != 0)
        return rl_fail(err, ROWLOCK_INVALID, "the option file %s cannot be read (%s)", file,
                       strerrordesc_np(errno));
    return ROWLOCK_OK;
}

/* An option file's password is for the server that the file means, not for one that a URL names:
 * that has its login in the URL, or in a group of the host's name. */
static rowlock_status merge_login(const rowlock_client_options *options, const rl_url *url,
                                  rl_params *params, rowlock_error *err)
{
    params->own_login = url->host && !options->host;
    if (params->own_login && !rl_login_of_group(params, url->host))
        return rl_fail(err, ROWLOCK_SYSTEM, "out of memory");
    return ROWLOCK_OK;
}

static rowlock_status resolve(const rowlock_client_options *options, rl_params *params,
                              rowlock_waiting *waiting, rowlock_error *err)
{
    RL_CLEANUP(rl_url_free) rl_url url = {0};
    if (options->url)
        RL_TRY(rl_url_parse(options->url, &url, err));
    RL_TRY(merge(options, &url, params, err));
    RL_TRY(choose_ways(options, &url, params, waiting, err));
    RL_TRY(merge_tls(options, &url, &params->tls, err));
    RL_TRY(check_option_file(params->defaults_file, err));
    RL_TRY(check_option_file(params->defaults_extra_file, err));
    RL_TRY(merge_login(options, &url, params, err));
    if (options->reconnect_ms < 0 || options->reconnect_ms > RECONNECT_MAX_MS)
        return rl_fail(err, ROWLOCK_INVALID, "reconnect_ms of %" PRId64 " is not 0 to %d",
                       options->reconnect_ms, RECONNECT_MAX_MS);
    if (options->history_min_ms > HISTORY_MIN_MAX_MS)
        return rl_fail(err, ROWLOCK_INVALID, "history_min_ms of %" PRId64 " is more than %d",
                       options->history_min_ms, HISTORY_MIN_MAX_MS);
    return ROWLOCK_OK;
}

rowlock_status rl_options_params(const rowlock_client_options *options, rl_params *params,
                                 rowlock_waiting *waiting, rowlock_error *err)
{
    static const rowlock_client_options none = {0};
    *params = (rl_params){0};
    if (options && (options->members || options->member_count))
        return rl_fail(err, ROWLOCK_INVALID,
                       "that is done to one server (url); with members it would be done to none");
    rowlock_status status = resolve(options ? options : &none, params, waiting, err);
    if (status != ROWLOCK_OK)
        rl_params_free(params);
    return status;
}

static void login_name(char *name, size_t size)
{
    struct passwd entry;
    struct passwd *found = NULL;
    char buffer[1024];
    if (getpwuid_r(geteuid(), &entry, buffer, sizeof buffer, &found) == 0 && found)
        snprintf(name, size, "%s", found->pw_name);
    else
        snprintf(name, size, "uid%u", (unsigned)geteuid());
}

void rl_options_label(const char *given, char *label, size_t size)
{
    if (given && *given) {
        rl_copy_label(label, size, given);
        return;
    }
    char user[64];
    char host[128] = "localhost";
    char text[300];
    login_name(user, sizeof user);
    gethostname(host, sizeof host - 1);
    snprintf(text, sizeof text, "%s@%s %d %s", user, host, (int)getpid(),
             program_invocation_short_name);
    rl_copy_label(label, size, text);
}

int64_t rl_options_history_min_us(const rowlock_client_options *options)
{
    int64_t ms = options->history_min_ms ? options->history_min_ms : HISTORY_MIN_DEFAULT_MS;
    return ms < 0 ? 0 : ms * 1000;
}

static rowlock_status check_lease_only(const rowlock_acquire_options *options, rowlock_error *err)
{
    if (options->mode == ROWLOCK_PESSIMISTIC && (options->at_least_ms || options->max_hold_ms))
        return rl_fail(err, ROWLOCK_INVALID,
                       "at_least and max_hold are for leases; a row lock has neither");
    if (options->mode == ROWLOCK_OPTIMISTIC && options->unfenced)
        return rl_fail(err, ROWLOCK_INVALID,
                       "a lease always has its token; unfenced is for pessimistic mode");
    if ((options->shared || options->share) && options->at_least_ms)
        return rl_fail(err, ROWLOCK_INVALID, "at_least does not go with shared");
    RL_TRY(rl_range_check("at_least", options->at_least_ms, 0, ROWLOCK_TTL_MAX_MS, err));
    if (options->max_hold_ms != 0 && options->max_hold_ms < ROWLOCK_TTL_MIN_MS)
        return rl_fail(err, ROWLOCK_INVALID, "max_hold of %" PRId64 " ms is below %d ms",
                       options->max_hold_ms, ROWLOCK_TTL_MIN_MS);
    if (options->max_hold_ms > INT64_MAX / 2000)
        return rl_fail(err, ROWLOCK_INVALID, "max_hold of %" PRId64 " ms is too long",
                       options->max_hold_ms);
    return ROWLOCK_OK;
}

static rowlock_status check_slots(const rowlock_acquire_options *options, rowlock_error *err)
{
    const bool as_set = options->slots == ROWLOCK_SLOTS_AS_SET;
    if (options->slots == 0 && options->units == 0)
        return ROWLOCK_OK;
    if (options->slots > ROWLOCK_SLOTS_MAX && !as_set)
        return rl_fail(err, ROWLOCK_INVALID, "%u slots are more than %d", options->slots,
                       ROWLOCK_SLOTS_MAX);
    if (options->slots == 0)
        return rl_fail(err, ROWLOCK_INVALID, "units needs slots: how many the name has");
    if (options->units > ROWLOCK_UNITS_MAX)
        return rl_fail(err, ROWLOCK_INVALID, "%u units are more than %d", options->units,
                       ROWLOCK_UNITS_MAX);
    if (!as_set && options->units > options->slots)
        return rl_fail(err, ROWLOCK_INVALID, "the name has %u slot%s, and %u are asked for",
                       options->slots, options->slots == 1 ? "" : "s", options->units);
    if (options->shared || options->share || options->reentrant)
        return rl_fail(err, ROWLOCK_INVALID, "a slot can neither be shared nor re-entrant");
    return ROWLOCK_OK;
}

/* One owner publishes it, under one version. */
static rowlock_status check_value(const rowlock_acquire_options *options, rowlock_error *err)
{
    if (!options->value || !*options->value)
        return ROWLOCK_OK;
    if (options->mode == ROWLOCK_PESSIMISTIC)
        return rl_fail(err, ROWLOCK_INVALID, "a row lock has no value; only a lease has");
    if (options->shared || options->share || options->slots || options->reentrant)
        return rl_fail(err, ROWLOCK_INVALID, "a value does not go with %s",
                       options->slots       ? "slots"
                       : options->reentrant ? "reentrant"
                                            : "shared");
    return rl_value_check(options->value, err);
}

rowlock_status rl_options_acquire(const rowlock_acquire_options *options,
                                  rowlock_acquire_options *checked, rowlock_error *err)
{
    *checked = options ? *options : (rowlock_acquire_options){0};
    if (checked->mode != ROWLOCK_OPTIMISTIC && checked->mode != ROWLOCK_PESSIMISTIC)
        return rl_fail(err, ROWLOCK_INVALID, "there is no mode %d", (int)checked->mode);
    if (checked->ttl_ms == 0)
        checked->ttl_ms = ROWLOCK_TTL_DEFAULT_MS;
    RL_TRY(rl_range_check("a TTL", checked->ttl_ms, ROWLOCK_TTL_MIN_MS, ROWLOCK_TTL_MAX_MS, err));
    if (checked->mode == ROWLOCK_PESSIMISTIC)
        checked->ttl_ms = rl_row_ttl_ms(checked->ttl_ms);
    /* Many have it: there is no one holder to publish. */
    checked->unfenced |=
        checked->mode == ROWLOCK_PESSIMISTIC && (checked->shared || checked->share);
    RL_TRY(check_slots(checked, err));
    RL_TRY(check_value(checked, err));
    return check_lease_only(checked, err);
}
