#include "base/url.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Percent-decodes a piece where it is (NULL when empty). False: bad. */
static bool decode(char *text, const char **out)
{
    char *to = text;
    *out = *text ? text : NULL;
    for (; *text; text++) {
        if (*text != '%') {
            *to++ = *text;
            continue;
        }
        const char digits[] = {text[1], text[1] ? text[2] : '\0', '\0'};
        const long byte = strtol(digits, NULL, 16);
        if (strspn(digits, "0123456789abcdefABCDEF") != 2 || byte == 0)
            return false;
        *to++ = (char)byte;
        text += 2;
    }
    *to = '\0';
    return true;
}

/* Digits only, at least one, at most `most`. */
static bool number(const char *text, int64_t most, int64_t *value)
{
    char *end = NULL;
    unsigned long long n = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || n > (unsigned long long)most)
        return false;
    *value = (int64_t)n;
    return true;
}

/* Ends the text where `mark` stands; what is behind that, or NULL where it stands nowhere. */
static char *cut(char *text, char mark)
{
    char *found = strchr(text, mark);
    if (found)
        *found++ = '\0';
    return found;
}

static rowlock_status parse_login(char *user, rl_url *url, rowlock_error *err)
{
    char *password = cut(user, ':');
    if (!decode(user, &url->user))
        return rl_fail(err, ROWLOCK_INVALID,
                       "the URL's user is not percent-encoded as it should be");
    if (password && !decode(password, &url->password))
        return rl_fail(err, ROWLOCK_INVALID,
                       "the URL's password is not percent-encoded as it should be");
    return ROWLOCK_OK;
}

static rowlock_status parse_address(char *host, rl_url *url, rowlock_error *err)
{
    char *rest = host + strcspn(host, ":");
    if (*host == '[') {
        rest = cut(++host, ']');
        if (!rest)
            return rl_fail(err, ROWLOCK_INVALID, "the URL's [address] has no closing bracket");
    }
    const char mark = *rest;
    *rest = '\0';
    if (!decode(host, &url->host))
        return rl_fail(err, ROWLOCK_INVALID, "the URL's host is not valid");
    if (!mark)
        return ROWLOCK_OK;
    int64_t port = 0;
    if (mark != ':' || !number(rest + 1, 65535, &port) || port == 0)
        return rl_fail(err, ROWLOCK_INVALID, "the URL's port is not a number from 1 to 65535");
    url->port = (unsigned)port;
    return ROWLOCK_OK;
}

/* Where the text of an option goes; NULL: it is not one of these. */
static const char **text_member(rl_url *url, const char *key)
{
    const struct {
        const char *key;
        const char **member;
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
        if (strcmp(key, texts[i].key) == 0)
            return texts[i].member;
    return NULL;
}

/* Of the unit at `text`, of so many bytes; 0: it is none. */
static int64_t unit_ms(const char *text, size_t length)
{
    static const struct {
        const char *name;
        int64_t ms;
    } units[] = {{"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}, {"d", 86400000}};
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        if (strlen(units[i].name) == length && strncmp(text, units[i].name, length) == 0)
            return units[i].ms;
    return 0;
}

/* Milliseconds, or numbers with a unit each, the larger one first: 1h30m. */
static bool duration(char *text, int64_t most_ms, int64_t *ms)
{
    static const char digits[] = "0123456789";
    int64_t total = 0;
    if (!text[strspn(text, digits)])
        return number(text, most_ms, ms);
    for (int64_t before = INT64_MAX; *text;) {
        char *word = text + strspn(text, digits);
        char *next = word + strcspn(word, digits);
        const int64_t unit = unit_ms(word, (size_t)(next - word));
        int64_t count;
        if (unit == 0 || unit >= before)
            return false;
        *word = '\0';
        if (!number(text, (most_ms - total) / unit, &count))
            return false;
        total += count * unit;
        before = unit;
        /* (What follows begins with a digit, and the unit is read already.) */
        text = next;
    }
    *ms = total;
    return true;
}

/* `rest`: the options behind it; NULL: none are. */
static rowlock_status parse_option(char *key, const char *rest, rl_url *url, rowlock_error *err)
{
    char nothing[] = "";
    char *given = cut(key, '=');
    char *value = given ? given : nothing;
    const char **text = text_member(url, key);
    bool good = false;
    if (text)
        good = decode(value, text);
    else if (strcmp(key, "connect-timeout") == 0)
        good = duration(value, 3600000, &url->connect_timeout_ms);
    else if (strcmp(key, "retry") == 0)
        good = duration(value, 86400000, &url->retry_ms);
    else if (strchr(key, '@') || strchr(value, '@') || (rest && strchr(rest, '@')))
        /* It may be the end of a password: it is not shown. */
        return rl_fail(err, ROWLOCK_INVALID,
                       "the URL has an @ behind its ?; in the user and the password, write %%3F "
                       "for ? and %%40 for @");
    else
        return rl_fail(
            err, ROWLOCK_INVALID,
            "the URL has an unknown option '%s'; known: socket, connect-timeout, retry, "
            "waiting, via, protocol, tls, tls-ca, tls-cert, tls-key, tls-fingerprint, tls-crl",
            key);
    if (!good)
        return rl_fail(err, ROWLOCK_INVALID, "the URL's option '%s' has no valid value", key);
    return ROWLOCK_OK;
}

/* It may hold the rest of a password with a / in it, which goes on behind a ? even: what is no
 * name, with an @ somewhere behind it, goes no further (and into no message). */
static rowlock_status parse_schema(char *schema, const char *query, rl_url *url, rowlock_error *err)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_$";
    if (schema[strspn(schema, plain)] && (strchr(schema, '@') || (query && strchr(query, '@'))))
        return rl_fail(err, ROWLOCK_INVALID,
                       "the URL has an @ after its /; in the user and the password, write %%2F "
                       "for / and %%40 for @");
    if (!decode(schema, &url->schema))
        return rl_fail(err, ROWLOCK_INVALID, "the URL's schema is not valid");
    return ROWLOCK_OK;
}

static rowlock_status parse(char *address, rl_url *url, rowlock_error *err)
{
    char *query = cut(address, '?');
    char *schema = cut(address, '/');
    char *login_end = strrchr(address, '@');
    if (login_end) {
        *login_end = '\0';
        RL_TRY(parse_login(address, url, err));
        address = login_end + 1;
    }
    RL_TRY(parse_address(address, url, err));
    if (schema)
        RL_TRY(parse_schema(schema, query, url, err));
    for (char *rest; query && *query; query = rest) {
        rest = cut(query, '&');
        RL_TRY(parse_option(query, rest, url, err));
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
    url->size = strlen(at);
    url->copy = strdup(at);
    return url->copy ? parse(url->copy, url, err) : rl_fail(err, ROWLOCK_SYSTEM, "out of memory");
}

void rl_url_free(rl_url *url)
{
    if (url->copy)
        explicit_bzero(url->copy, url->size);
    free(url->copy);
    *url = (rl_url){0};
}
