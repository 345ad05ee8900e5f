/* URLs: an accepted one means the same when it is written again; a refusal tells no secret. */

#include "base/url.h"
#include "base/text.h"
#include "fuzz.h"

static void put_encoded(rl_buffer *out, const char *text)
{
    for (; text && *text; text++) {
        char escaped[4];
        snprintf(escaped, sizeof escaped, "%%%02x", (unsigned char)*text);
        rl_buffer_puts(out, escaped);
    }
}

static void put_part(rl_buffer *out, const char *before, const char *text)
{
    if (!text)
        return;
    rl_buffer_puts(out, before);
    put_encoded(out, text);
}

static void put_number(rl_buffer *out, const char *before, int64_t number)
{
    char text[64];
    snprintf(text, sizeof text, "%s%" PRId64, before, number);
    if (number)
        rl_buffer_puts(out, text);
}

/* The options after the question mark that are texts. */
static const struct {
    const char *before;
    size_t at;
} options[] = {
    {"&socket=", offsetof(rl_url, socket)},
    {"&tls=", offsetof(rl_url, tls_mode)},
    {"&tls-ca=", offsetof(rl_url, tls.ca)},
    {"&tls-cert=", offsetof(rl_url, tls.cert)},
    {"&tls-key=", offsetof(rl_url, tls.key)},
    {"&tls-fingerprint=", offsetof(rl_url, tls.fingerprint)},
    {"&tls-crl=", offsetof(rl_url, tls.crl)},
    {"&protocol=", offsetof(rl_url, protocol)},
    {"&waiting=", offsetof(rl_url, waiting)},
    {"&via=", offsetof(rl_url, via)},
};

static const char *option(const rl_url *url, size_t i)
{
    return *(const char *const *)(const void *)((const char *)url + options[i].at);
}

/* Encodes every character, so that none can be taken for a mark of the URL itself. */
static char *write_down(const rl_url *url)
{
    rl_buffer out = {0};
    rl_buffer_puts(&out, "mysql://");
    put_encoded(&out, url->user);
    put_part(&out, ":", url->password);
    if (url->user || url->password)
        rl_buffer_puts(&out, "@");
    put_encoded(&out, url->host);
    put_number(&out, ":", url->port);
    put_part(&out, "/", url->schema);
    rl_buffer_puts(&out, "?");
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++)
        put_part(&out, options[i].before, option(url, i));
    put_number(&out, "&connect-timeout=", url->connect_timeout_ms);
    put_number(&out, "&retry=", url->retry_ms);
    require(!out.failed);
    return out.text;
}

static bool is_same(const rl_url *a, const rl_url *b)
{
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++)
        if (!fuzz_same(option(a, i), option(b, i)))
            return false;
    return fuzz_same(a->user, b->user) && fuzz_same(a->password, b->password) &&
           fuzz_same(a->host, b->host) && fuzz_same(a->schema, b->schema) && a->port == b->port &&
           a->connect_timeout_ms == b->connect_timeout_ms && a->retry_ms == b->retry_ms;
}

static void check_understood(const rl_url *url)
{
    rl_url again;
    char *text = write_down(url);
    /* "?&" would be an option without a name. */
    char *twice = strstr(text, "?&");
    if (twice)
        memmove(twice + 1, twice + 2, strlen(twice + 2) + 1);
    require(url->port <= 65535);
    require(url->connect_timeout_ms >= 0 && url->connect_timeout_ms <= 3600000);
    require(url->retry_ms >= 0 && url->retry_ms <= 86400000);
    require(rl_url_parse(text, &again, NULL) == ROWLOCK_OK);
    require(is_same(url, &again));
    rl_url_free(&again);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_text(data, size);
    rl_url url;
    rowlock_error err = {0};
    rowlock_status status = rl_url_parse(text, &url, &err);
    if (status == ROWLOCK_OK) {
        check_understood(&url);
    } else {
        fuzz_check_refusal(status, &err);
        fuzz_check_discreet(text, err.message);
    }
    rl_url_free(&url);
    free(text);
    return 0;
}
