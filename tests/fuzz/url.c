/* URLs: what is understood says the same when it is written down again; a refusal tells no secret.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "base/url.h"
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

/* Every character encoded, so that none can be taken for a mark of the URL's own. */
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
    put_part(&out, "&socket=", url->socket);
    put_part(&out, "&tls=", url->tls_mode);
    put_part(&out, "&tls-ca=", url->tls.ca);
    put_part(&out, "&tls-cert=", url->tls.cert);
    put_part(&out, "&tls-key=", url->tls.key);
    put_part(&out, "&tls-fingerprint=", url->tls.fingerprint);
    put_part(&out, "&tls-crl=", url->tls.crl);
    put_number(&out, "&connect-timeout=", url->connect_timeout_ms);
    put_part(&out, "&waiting=", url->waiting);
    require(!out.failed);
    return out.text;
}

static bool is_same(const rl_url *a, const rl_url *b)
{
    return fuzz_same(a->user, b->user) && fuzz_same(a->password, b->password) &&
           fuzz_same(a->host, b->host) && fuzz_same(a->schema, b->schema) &&
           fuzz_same(a->socket, b->socket) && fuzz_same(a->tls_mode, b->tls_mode) &&
           fuzz_same(a->tls.ca, b->tls.ca) && fuzz_same(a->tls.cert, b->tls.cert) &&
           fuzz_same(a->tls.key, b->tls.key) && fuzz_same(a->tls.fingerprint, b->tls.fingerprint) &&
           fuzz_same(a->tls.crl, b->tls.crl) && fuzz_same(a->waiting, b->waiting) &&
           a->port == b->port && a->connect_timeout_ms == b->connect_timeout_ms;
}

static void check_understood(const rl_url *url)
{
    rl_url again;
    char *text = write_down(url);
    /* "&&" stands for an option without a name. */
    char *twice = strstr(text, "?&");
    if (twice)
        memmove(twice + 1, twice + 2, strlen(twice + 2) + 1);
    require(url->port <= 65535);
    require(url->connect_timeout_ms >= 0 && url->connect_timeout_ms <= 3600000);
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
