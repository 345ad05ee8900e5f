/* base/url.h - mysql://user:password@host:port/schema?socket=... */
#ifndef RL_URL_H
#define RL_URL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/tls.h"

/* Owned strings; NULL where the URL says nothing. */
typedef struct rl_url {
    char *user;
    char *password;
    char *host;
    char *schema;
    char *socket;
    char *waiting;
    char *via;
    char *protocol;
    char *tls_mode;             /* the word */
    rl_tls tls;                 /* without the mode */
    unsigned port;              /* 0: not given */
    int64_t connect_timeout_ms; /* 0: not given */
    int64_t retry_ms;           /* 0: not given */
    bool no_memory;             /* why it could not be parsed */
} rl_url;

/* INVALID with the part that is wrong (never the password), SYSTEM. Free in either case. */
rowlock_status rl_url_parse(const char *text, rl_url *url, rowlock_error *err) RL_MUST_USE;
void rl_url_free(rl_url *url);

#endif
