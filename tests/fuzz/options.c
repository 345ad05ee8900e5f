/*
 * The library's options, given as lines of "member=value": accepted options are within their
 * bounds, and stay so when they are checked again; a refusal says why, and tells no password.
 */
#include "api/options.h"

#include "fuzz.h"

typedef struct given {
    rowlock_client_options client;
    rowlock_acquire_options acquire;
} given;

static void take_text(given *g, const char *key, const char *value)
{
    const struct {
        const char *key;
        const char **member;
    } texts[] = {
        {"url", &g->client.url},   {"host", &g->client.host},         {"socket", &g->client.socket},
        {"user", &g->client.user}, {"password", &g->client.password}, {"schema", &g->client.schema},
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (strcmp(key, texts[i].key) == 0)
            *texts[i].member = value;
}

static void take_number(given *g, const char *key, int64_t value)
{
    const struct {
        const char *key;
        int64_t *member;
    } numbers[] = {
        {"connect_timeout_ms", &g->client.connect_timeout_ms},
        {"reconnect_ms", &g->client.reconnect_ms},
        {"retry_ms", &g->client.retry_ms},
        {"wait_ms", &g->acquire.wait_ms},
        {"ttl_ms", &g->acquire.ttl_ms},
        {"at_least_ms", &g->acquire.at_least_ms},
        {"max_hold_ms", &g->acquire.max_hold_ms},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        if (strcmp(key, numbers[i].key) == 0)
            *numbers[i].member = value;
    if (strcmp(key, "port") == 0)
        g->client.port = (unsigned)value;
    if (strcmp(key, "waiting") == 0)
        g->client.waiting = (rowlock_waiting)(value & 3);
    if (strcmp(key, "protocol") == 0)
        g->client.protocol = (rowlock_protocol)(value & 3);
    if (strcmp(key, "mode") == 0)
        g->acquire.mode = (rowlock_mode)(value & 3);
    if (strcmp(key, "unfenced") == 0)
        g->acquire.unfenced = value != 0;
}

/* The values point into `text`. */
static given read_lines(char *text)
{
    given g = {{0}, {0}};
    while (text && *text) {
        char *line = strsep(&text, "\n");
        char *value = line;
        const char *key = strsep(&value, "=");
        if (!value)
            continue;
        take_text(&g, key, value);
        take_number(&g, key, strtoll(value, NULL, 10));
    }
    return g;
}

static bool is_schema_name(const char *schema)
{
    size_t length = strlen(schema);
    for (const char *at = schema; *at; at++)
        if (!((*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z') ||
              (*at >= '0' && *at <= '9') || *at == '_' || *at == '$'))
            return false;
    return length >= 1 && length <= 64;
}

static void check_client(const rowlock_client_options *options)
{
    rl_params params;
    rowlock_waiting waiting = ROWLOCK_WAITING_AUTO;
    rowlock_error err = {0};
    rowlock_status status = rl_options_params(options, &params, &waiting, &err);
    if (status != ROWLOCK_OK) {
        fuzz_check_refusal(status, &err);
        if (options->url && !options->schema)
            fuzz_check_discreet(options->url, err.message);
        return;
    }
    require(is_schema_name(params.schema));
    require(params.port <= 65535);
    require(params.connect_timeout_ms >= 100 && params.connect_timeout_ms <= 3600000);
    require(params.retry_ms >= 0 && params.retry_ms <= 86400000);
    require(waiting == ROWLOCK_WAITING_AUTO || waiting == ROWLOCK_WAITING_POLL);
    require(params.protocol >= ROWLOCK_PROTOCOL_DEFAULT &&
            params.protocol <= ROWLOCK_PROTOCOL_SOCKET);
    require(!options->host || fuzz_same(params.host, options->host));
    require(!options->user || fuzz_same(params.user, options->user));
    require(!options->password || fuzz_same(params.password, options->password));
    require(!options->socket || fuzz_same(params.socket, options->socket));
    rl_params_free(&params);
}

static void check_bounds(const rowlock_acquire_options *o)
{
    bool lease = o->mode == ROWLOCK_OPTIMISTIC;
    require(lease || o->mode == ROWLOCK_PESSIMISTIC);
    require(o->ttl_ms >= ROWLOCK_TTL_MIN_MS && o->ttl_ms <= ROWLOCK_TTL_MAX_MS);
    require(lease || o->ttl_ms % 1000 == 0);
    require(o->at_least_ms >= 0 && o->at_least_ms <= ROWLOCK_TTL_MAX_MS);
    require(o->max_hold_ms == 0 || o->max_hold_ms >= ROWLOCK_TTL_MIN_MS);
    /* As microseconds, added to a clock, it does not overflow. */
    require(o->max_hold_ms <= INT64_MAX / 2000);
    require(lease ? !o->unfenced : !o->at_least_ms && !o->max_hold_ms);
}

static void check_acquire(const rowlock_acquire_options *options)
{
    rowlock_acquire_options checked;
    rowlock_acquire_options again;
    rowlock_error err = {0};
    rowlock_status status = rl_options_acquire(options, &checked, &err);
    if (status != ROWLOCK_OK) {
        fuzz_check_refusal(status, &err);
        return;
    }
    check_bounds(&checked);
    require(rl_options_acquire(&checked, &again, NULL) == ROWLOCK_OK);
    require(again.ttl_ms == checked.ttl_ms && again.wait_ms == checked.wait_ms);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char label[ROWLOCK_LABEL_MAX + 1];
    char *text = fuzz_text(data, size);
    rl_options_label(text, label, sizeof label);
    require(label[0] && memchr(label, '\0', sizeof label) && fuzz_is_clean(label));
    given g = read_lines(text);
    check_client(&g.client);
    check_acquire(&g.acquire);
    free(text);
    return 0;
}
