/* base/url.h - mysql://user:password@host:port/schema?socket=... */
#ifndef RL_URL_H
#define RL_URL_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* Pieces of `copy`; NULL where the URL says nothing. */
typedef struct rl_url {
    char *copy;
    size_t size;
    const char *user;
    const char *password;
    const char *host;
    const char *schema;
    const char *socket;
    const char *waiting;
    const char *via;
    const char *protocol;
    const char *tls_mode;       /* the word */
    rowlock_tls_options tls;    /* without the mode */
    unsigned port;              /* 0: not given */
    int64_t connect_timeout_ms; /* 0: not given */
    int64_t retry_ms;           /* 0: not given */
} rl_url;

/* INVALID with the part that is wrong (never the password), SYSTEM. Free in either case. */
rowlock_status rl_url_parse(const char *text, rl_url *url, rowlock_error *err) RL_MUST_USE;
void rl_url_free(rl_url *url);

#endif
