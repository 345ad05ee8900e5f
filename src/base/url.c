#include "base/url.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static int hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)tolower((unsigned char)c);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Percent-decodes [from, end) into *out, one of the URL's (NULL when empty). False: bad, or no
 * memory. */
static bool decode(rl_url *url, const char *from, const char *end, char **out)
{
    free(*out);
    *out = NULL;
    if (from == end)
        return true;
    char *text = malloc((size_t)(end - from) + 1);
    if (!text) {
        url->no_memory = true;
        return false;
    }
    size_t n = 0;
    while (from < end) {
        if (*from != '%') {
            text[n++] = *from++;
            continue;
        }
        int high = end - from >= 3 ? hex(from[1]) : -1;
        int low = end - from >= 3 ? hex(from[2]) : -1;
        if (high < 0 || low < 0 || (high == 0 && low == 0)) {
            free(text);
            return false;
        }
        text[n++] = (char)(high << 4 | low);
        from += 3;
    }
    text[n] = '\0';
    *out = text;
    return true;
}

/* Digits only, at least one, at most `most`. */
static bool number(const char *from, const char *end, int64_t most, int64_t *value)
{
    int64_t n = 0;
    if (from == end)
        return false;
    for (; from < end; from++) {
        if (*from < '0' || *from > '9')
            return false;
        n = n * 10 + (*from - '0');
        if (n > most)
            return false;
    }
    *value = n;
    return true;
}

static const char *find(const char *from, const char *end, char c)
{
    while (from < end && *from != c)
        from++;
    return from;
}

static const char *find_last(const char *from, const char *end, char c)
{
    for (const char *at = end; at > from; at--)
        if (at[-1] == c)
            return at - 1;
    return NULL;
}

static rowlock_status parse_login(const char *from, const char *end, rl_url *url,
                                  rowlock_error *err)
{
    const char *colon = find(from, end, ':');
    if (!decode(url, from, colon, &url->user))
        return rl_fail(err, ROWLOCK_INVALID,
                       "the URL's user is not percent-encoded as it should be");
    if (colon < end && !decode(url, colon + 1, end, &url->password))
        return rl_fail(err, ROWLOCK_INVALID,
                       "the URL's password is not percent-encoded as it should be");
    return ROWLOCK_OK;
}

static rowlock_status parse_address(const char *from, const char *end, rl_url *url,
                                    rowlock_error *err)
{
    const char *host = from;
    const char *host_end = find(from, end, ':');
    const char *rest = host_end;
    if (from < end && *from == '[') {
        host = from + 1;
        host_end = find(from, end, ']');
        if (host_end == end)
            return rl_fail(err, ROWLOCK_INVALID, "the URL's [address] has no closing bracket");
        rest = host_end + 1;
    }
    if (!decode(url, host, host_end, &url->host))
        return rl_fail(err, ROWLOCK_INVALID, "the URL's host is not valid");
    if (rest == end)
        return ROWLOCK_OK;
    int64_t port = 0;
    if (*rest != ':' || !number(rest + 1, end, 65535, &port) || port == 0)
        return rl_fail(err, ROWLOCK_INVALID, "the URL's port is not a number from 1 to 65535");
    url->port = (unsigned)port;
    return ROWLOCK_OK;
}

static bool key_is(const char *from, const char *end, const char *key)
{
    return (size_t)(end - from) == strlen(key) && memcmp(from, key, strlen(key)) == 0;
}

/* Where the text of an option goes; NULL: it is not one of these. */
static char **text_member(rl_url *url, const char *key, const char *end)
{
    const struct {
        const char *key;
        char **member;
    } texts[] = {
        {"socket", &url->socket},
        {"waiting", &url->waiting},
        {"via", &url->via},
        {"protocol", &url->protocol},
        {"tls", &url->tls_mode},
        {"tls-ca", &url->tls.ca},
        {"ssl-ca", &url->tls.ca}, /* its name until 0.1 */
        {"tls-cert", &url->tls.cert},
        {"tls-key", &url->tls.key},
        {"tls-fingerprint", &url->tls.fingerprint},
        {"tls-crl", &url->tls.crl},
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (key_is(key, end, texts[i].key))
            return texts[i].member;
    return NULL;
}

/* Milliseconds, or a number with a unit. */
static bool duration(const char *from, const char *end, int64_t most_ms, int64_t *ms)
{
    static const struct {
        const char *name;
        int64_t ms;
    } units[] = {{"", 1}, {"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}, {"d", 86400000}};
    const char *unit = from;
    while (unit < end && *unit >= '0' && *unit <= '9')
        unit++;
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (!key_is(unit, end, units[i].name))
            continue;
        int64_t count;
        if (!number(from, unit, most_ms / units[i].ms, &count))
            return false;
        *ms = count * units[i].ms;
        return true;
    }
    return false;
}

static rowlock_status parse_option(const char *from, const char *end, rl_url *url,
                                   rowlock_error *err)
{
    const char *equals = find(from, end, '=');
    const char *value = equals < end ? equals + 1 : end;
    char **text = text_member(url, from, equals);
    bool good = false;
    if (text)
        good = decode(url, value, end, text);
    else if (key_is(from, equals, "connect-timeout"))
        good = duration(value, end, 3600000, &url->connect_timeout_ms);
    else if (key_is(from, equals, "retry"))
        good = duration(value, end, 86400000, &url->retry_ms);
    else if (strchr(from, '@'))
        /* It may be the end of a password: it is not shown. */
        return rl_fail(err, ROWLOCK_INVALID,
                       "the URL has an @ behind its ?; in the user and the password, write %%3F "
                       "for ? and %%40 for @");
    else
        return rl_fail(
            err, ROWLOCK_INVALID,
            "the URL has an unknown option '%.*s'; known: socket, connect-timeout, retry, "
            "waiting, via, protocol, tls, tls-ca, tls-cert, tls-key, tls-fingerprint, tls-crl",
            (int)(equals - from), from);
    if (!good)
        return rl_fail(err, ROWLOCK_INVALID, "the URL's option '%.*s' has no valid value",
                       (int)(equals - from), from);
    return ROWLOCK_OK;
}

/* [from, end) may hold the rest of a password with a / in it, which goes on behind a ? even: what
 * is no name, with an @ somewhere behind it, goes no further (and into no message). */
static rowlock_status parse_schema(const char *from, const char *end, rl_url *url,
                                   rowlock_error *err)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_$";
    if (from + strspn(from, plain) < end && strchr(from, '@'))
        return rl_fail(err, ROWLOCK_INVALID,
                       "the URL has an @ behind its /; in the user and the password, write %%2F "
                       "for / and %%40 for @");
    if (!decode(url, from, end, &url->schema))
        return rl_fail(err, ROWLOCK_INVALID, "the URL's schema is not valid");
    return ROWLOCK_OK;
}

static rowlock_status parse_options(const char *from, const char *end, rl_url *url,
                                    rowlock_error *err)
{
    while (from < end) {
        const char *stop = find(from, end, '&');
        RL_TRY(parse_option(from, stop, url, err));
        from = stop < end ? stop + 1 : end;
    }
    return ROWLOCK_OK;
}

rowlock_status rl_url_parse(const char *text, rl_url *url, rowlock_error *err)
{
    static const char *const schemes[] = {"mysql://", "mariadb://"};
    *url = (rl_url){0};
    const char *at = NULL;
    for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++)
        if (strncmp(text, schemes[i], strlen(schemes[i])) == 0)
            at = text + strlen(schemes[i]);
    if (!at)
        return rl_fail(err, ROWLOCK_INVALID,
                       "the URL does not begin with mysql://; write mysql://user@host/schema");
    const char *end = at + strlen(at);
    const char *query = find(at, end, '?');
    const char *path = find(at, query, '/');
    const char *login_end = find_last(at, path, '@');
    rowlock_status status = ROWLOCK_OK;
    if (login_end)
        status = parse_login(at, login_end, url, err);
    if (status == ROWLOCK_OK)
        status = parse_address(login_end ? login_end + 1 : at, path, url, err);
    if (status == ROWLOCK_OK && path < query)
        status = parse_schema(path + 1, query, url, err);
    if (status == ROWLOCK_OK && query < end)
        status = parse_options(query + 1, end, url, err);
    return url->no_memory ? rl_fail(err, ROWLOCK_SYSTEM, "out of memory") : status;
}

void rl_url_free(rl_url *url)
{
    if (url->password)
        explicit_bzero(url->password, strlen(url->password));
    free(url->user);
    free(url->password);
    free(url->host);
    free(url->schema);
    free(url->socket);
    free(url->waiting);
    free(url->via);
    free(url->protocol);
    free(url->tls_mode);
    rl_tls_free(&url->tls);
    *url = (rl_url){0};
}
