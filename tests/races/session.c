/*
 * The commands of a step:
 *
 *   acquire NAME lease|pessimistic [wait=MS|forever] [ttl=MS] [at_least=MS] [unfenced] [shared]
 *           [slots=N|as_set [units=N]] [value=TEXT]
 *   set_value NAME TEXT                      observe NAME
 *   upgrade NAME [wait=...]                  downgrade NAME
 *   acquire_set NAME,NAME... [lease] [share=NAME] [wait=...]
 *   release NAME       check NAME
 *   which NAME         of a set or of slots: the locks, and their tokens
 *   slots_get NAME     slots_set NAME N      purge NAME
 *   told NAME          waits until the holder has been told of the loss
 *   freeze NAME        thaw NAME
 *   ask NAME           asked NAME: was the holder, who has renewed it since, asked to stop?
 *   tx_acquire NAME [wait=...]               fence NAME
 *   section NAME [gated]                     version_read NAME   version_bump NAME
 *   once_begin NAME [wait=...] [attempts=N] [again]     the period that begins in 1970
 *   once_done NAME     once_failed NAME      tx_once_done NAME
 *   open SESSION       lets the work of that session's gated section go on
 *   break NAME [now]   sweep [unused=MS]     show NAME           history NAME
 *   expire NAME        a lease's time into the past; the end of a row lock's connection
 *   forget NAME        as if unused for 100 days
 *   latch_set NAME N                         latch_wait NAME [wait=...] [generation=G]
 *   latch_down NAME [key=K] [generation=G]   tx_latch_down NAME [key=K] [generation=G]
 *   latch_join NAME [ttl=MS]                 latch_done NAME
 *   latch_show NAME    barrier_show NAME     how it stands, and how many have come
 *   barrier_enter NAME N [wait=...]          barrier_leave NAME [wait=...]
 *   run STATEMENT [VALUE...]                 one of sql/, by its name, on a connection as the
 *                      library's are. @x in a value is the id of x, '' an empty text
 *   enter NAME N OWNER on that connection: all that follows barrier_lock, but for the commit
 *   past SECONDS       on that connection: the time of what follows is so long ago
 *   sql STATEMENT      on the session's own connection
 *
 * Tokens and versions are as they are: the tables were empty.
 */
#include "session.h"
#include "rowlock/rowlock_leader.h"

#include <ctype.h>

#include "rowlock/rowlock_barrier.h"
#include "rowlock/rowlock_latch.h"
#include "stmt/stmt.h"

#include "rowlock/rowlock_once.h"

typedef struct words {
    char text[COMMAND_MAX];
    char *word[12];
    size_t count;
} words;

static void split(words *w, const char *command)
{
    char *save = NULL;
    snprintf(w->text, sizeof w->text, "%s", command);
    for (char *at = strtok_r(w->text, " \n", &save); at && w->count < 12;
         at = strtok_r(NULL, " \n", &save))
        w->word[w->count++] = at;
}

static const char *argument(const words *w, size_t i)
{
    return i < w->count ? w->word[i] : "";
}

/* The value of key=..., or NULL. */
static const char *option(const words *w, const char *key)
{
    size_t length = strlen(key);
    for (size_t i = 1; i < w->count; i++)
        if (strncmp(w->word[i], key, length) == 0 && w->word[i][length] == '=')
            return w->word[i] + length + 1;
    return NULL;
}

static bool flag(const words *w, const char *word)
{
    for (size_t i = 1; i < w->count; i++)
        if (strcmp(w->word[i], word) == 0)
            return true;
    return false;
}

static int64_t number(const words *w, const char *key, int64_t otherwise)
{
    const char *value = option(w, key);
    if (!value)
        return otherwise;
    return strcmp(value, "forever") == 0 ? ROWLOCK_WAIT_FOREVER : strtoll(value, NULL, 10);
}

static void say(char *out, rowlock_status status)
{
    snprintf(out, OUTCOME_MAX, "%s", rowlock_status_name(status));
}

static session_hold *find_hold(session *s, const char *name)
{
    for (size_t i = 0; i < HOLDS_MAX; i++)
        if (s->holds[i].hold && strcmp(s->holds[i].name, name) == 0)
            return &s->holds[i];
    return NULL;
}

static session_hold *free_slot(session *s)
{
    for (size_t i = 0; i < HOLDS_MAX; i++)
        if (!s->holds[i].hold)
            return &s->holds[i];
    abort();
}

static unsigned slots_of(const words *w)
{
    const char *value = option(w, "slots");
    if (value && strcmp(value, "as_set") == 0)
        return ROWLOCK_SLOTS_AS_SET;
    return (unsigned)number(w, "slots", 0);
}

static rowlock_acquire_options options_of(const words *w)
{
    return (rowlock_acquire_options){.mode = flag(w, "lease") ? ROWLOCK_OPTIMISTIC
                                                              : ROWLOCK_PESSIMISTIC,
                                     .wait_ms = number(w, "wait", ROWLOCK_WAIT_FOREVER),
                                     .ttl_ms = number(w, "ttl", 60000),
                                     .at_least_ms = number(w, "at_least", 0),
                                     .shared = flag(w, "shared"),
                                     .unfenced = flag(w, "unfenced"),
                                     .slots = slots_of(w),
                                     .value = option(w, "value"),
                                     .units = (unsigned)number(w, "units", 0)};
}

static void keep(session *s, const char *name, rowlock_hold *hold)
{
    session_hold *slot = free_slot(s);
    snprintf(slot->name, sizeof slot->name, "%s", name);
    slot->hold = hold;
}

static void do_acquire(session *s, const words *w, char *out)
{
    rowlock_hold *hold = NULL;
    rowlock_acquire_options options = options_of(w);
    rowlock_status status = rowlock_acquire(s->client, argument(w, 1), &options, &hold, NULL);
    say(out, status);
    if (status != ROWLOCK_OK)
        return;
    keep(s, argument(w, 1), hold);
    /* The slot is not printed here: it may be any that is free. `which` prints it. */
    if (options.slots == 0)
        snprintf(out, OUTCOME_MAX, "OK, token %" PRIu64, rowlock_hold_token(hold));
}

static void do_acquire_set(session *s, const words *w, char *out)
{
    const char *names[8];
    bool share[8] = {false};
    const char *shared = option(w, "share");
    size_t count = 0;
    char list[200];
    char *save = NULL;
    snprintf(list, sizeof list, "%s", argument(w, 1));
    for (char *at = strtok_r(list, ",", &save); at && count < 8; at = strtok_r(NULL, ",", &save)) {
        share[count] = shared && strcmp(at, shared) == 0;
        names[count++] = at;
    }
    rowlock_hold *hold = NULL;
    rowlock_acquire_options options = options_of(w);
    options.share = shared ? share : NULL;
    rowlock_status status = rowlock_acquire_set(s->client, names, count, &options, &hold, NULL);
    say(out, status);
    if (status == ROWLOCK_OK)
        keep(s, argument(w, 1), hold);
}

static void do_which(session *s, const words *w, char *out)
{
    const session_hold *slot = find_hold(s, argument(w, 1));
    const char *end = out + OUTCOME_MAX;
    for (size_t i = 0; slot && i < rowlock_hold_count(slot->hold) && end - out > 100; i++)
        out += snprintf(out, (size_t)(end - out), "%s%s token %" PRIu64, i ? ", " : "",
                        rowlock_hold_name_at(slot->hold, i), rowlock_hold_token_at(slot->hold, i));
}

static void do_release(session *s, const words *w, char *out)
{
    session_hold *slot = find_hold(s, argument(w, 1));
    if (!slot)
        return;
    say(out, rowlock_release(slot->hold, NULL));
    slot->hold = NULL;
}

static void do_check(session *s, const words *w, char *out)
{
    session_hold *slot = find_hold(s, argument(w, 1));
    if (slot)
        say(out, rowlock_hold_check(slot->hold));
}

static void do_told(session *s, const words *w, char *out)
{
    session_hold *slot = find_hold(s, argument(w, 1));
    if (slot && POLL_UNTIL(rowlock_hold_check(slot->hold) == ROWLOCK_LOST, 10000))
        snprintf(out, OUTCOME_MAX, "done");
}

static void do_ask(session *s, const words *w, char *out)
{
    say(out, rowlock_ask(s->client, argument(w, 1), NULL, NULL));
}

/* True if the remaining time has grown since the last call: the lease was renewed. */
static bool renewed(const rowlock_hold *hold, int64_t *left)
{
    const int64_t before = *left;
    *left = rowlock_hold_remaining_ms(hold);
    return *left > before;
}

/* Waits for two renewals: the asks have been read after the first one. */
static void do_asked(session *s, const words *w, char *out)
{
    session_hold *slot = find_hold(s, argument(w, 1));
    for (int times = 0; slot && times < 2; times++) {
        int64_t left = rowlock_hold_remaining_ms(slot->hold);
        if (!POLL_UNTIL(renewed(slot->hold, &left), 10000))
            return;
    }
    if (slot)
        snprintf(out, OUTCOME_MAX, "%s",
                 rowlock_hold_asked(slot->hold, NULL) ? "asked" : "not asked");
}

static void do_freeze(session *s, const words *w, char *out)
{
    const rowlock_freeze_options options = {.name = argument(w, 1)};
    say(out, rowlock_freeze(s->client, &options, NULL, NULL));
}

static void do_thaw(session *s, const words *w, char *out)
{
    const rowlock_freeze_options options = {.name = argument(w, 1)};
    say(out, rowlock_thaw(s->client, &options, NULL));
}

static void do_fence(session *s, const words *w, char *out)
{
    session_hold *slot = find_hold(s, argument(w, 1));
    if (slot)
        say(out, rowlock_fence(slot->hold, s->mysql, NULL));
}

static void do_upgrade(session *s, const words *w, char *out)
{
    session_hold *slot = find_hold(s, argument(w, 1));
    if (!slot)
        return;
    rowlock_status status =
        rowlock_hold_upgrade(slot->hold, number(w, "wait", ROWLOCK_WAIT_FOREVER), NULL, NULL);
    say(out, status);
    if (status == ROWLOCK_OK)
        snprintf(out, OUTCOME_MAX, "OK, token %" PRIu64, rowlock_hold_token(slot->hold));
}

static void do_downgrade(session *s, const words *w, char *out)
{
    session_hold *slot = find_hold(s, argument(w, 1));
    if (slot)
        say(out, rowlock_hold_downgrade(slot->hold, NULL));
}

static void do_set_value(session *s, const words *w, char *out)
{
    session_hold *slot = find_hold(s, argument(w, 1));
    if (slot)
        say(out, rowlock_hold_set_value(slot->hold, argument(w, 2), NULL));
}

static void do_observe(session *s, const words *w, char *out)
{
    rowlock_leader leader = {.leads = false};
    rowlock_status status = rowlock_observe(s->client, argument(w, 1), NULL, &leader, NULL);
    say(out, status);
    if (status == ROWLOCK_OK && leader.leads)
        snprintf(out, OUTCOME_MAX, "%.100s leads, token %" PRIu64, leader.value, leader.token);
    else if (status == ROWLOCK_OK)
        snprintf(out, OUTCOME_MAX, "nobody leads");
}

static void do_tx_acquire(session *s, const words *w, char *out)
{
    rowlock_tx_options options = {.wait_ms = number(w, "wait", ROWLOCK_WAIT_FOREVER)};
    say(out, rowlock_tx_acquire(s->client, s->mysql, argument(w, 1), &options, NULL));
}

typedef struct work {
    session *s;
    bool gated;
} work;

static rowlock_status do_work(void *data, const rowlock_section *section)
{
    work *this = data;
    session *s = this->s;
    if (!this->gated || section->attempt > 1)
        return ROWLOCK_OK;
    pthread_mutex_lock(&s->mutex);
    while (!s->gate)
        pthread_cond_wait(&s->changed, &s->mutex);
    s->gate = false;
    pthread_mutex_unlock(&s->mutex);
    return ROWLOCK_OK;
}

static void do_section(session *s, const words *w, char *out)
{
    work this = {.s = s, .gated = flag(w, "gated")};
    rowlock_section_result result = {0};
    rowlock_section_options options = {.max_attempts = 3};
    rowlock_status status =
        rowlock_section_run(s->client, argument(w, 1), &options, do_work, &this, &result, NULL);
    say(out, status);
    if (status == ROWLOCK_OK)
        snprintf(out, OUTCOME_MAX, "OK, version %" PRIu64 ", %u conflicts", result.version,
                 result.conflicts);
}

static void do_open(session *s, const words *w, char *out)
{
    for (size_t i = 0; i < s->count; i++) {
        session *other = &s->all[i];
        if (strcmp(other->name, argument(w, 1)) != 0)
            continue;
        pthread_mutex_lock(&other->mutex);
        other->gate = true;
        pthread_cond_broadcast(&other->changed);
        pthread_mutex_unlock(&other->mutex);
        snprintf(out, OUTCOME_MAX, "done");
    }
}

static void do_version_read(session *s, const words *w, char *out)
{
    rowlock_status status = rowlock_version_read(s->client, argument(w, 1), &s->version, NULL);
    say(out, status);
    if (status == ROWLOCK_OK)
        snprintf(out, OUTCOME_MAX, "version %" PRIu64, s->version);
}

static void do_version_bump(session *s, const words *w, char *out)
{
    rowlock_status status =
        rowlock_version_bump(s->client, argument(w, 1), s->version, &s->version, NULL);
    say(out, status);
    if (status == ROWLOCK_OK)
        snprintf(out, OUTCOME_MAX, "OK, version %" PRIu64, s->version);
}

static void do_once_begin(session *s, const words *w, char *out)
{
    static const char *const states[] = {[ROWLOCK_ONCE_BEGUN] = "begun",
                                         [ROWLOCK_ONCE_DONE] = "done",
                                         [ROWLOCK_ONCE_USED_UP] = "used up"};
    const rowlock_once_options options = {.attempts = (unsigned)number(w, "attempts", 0),
                                          .again = flag(w, "again"),
                                          .wait_ms = number(w, "wait", 0)};
    rowlock_once_result result = {.attempt = 0};
    session_hold *slot = find_hold(s, argument(w, 1));
    rowlock_status status = rowlock_once_begin(slot ? slot->hold : NULL, 0, INT64_C(3600000000),
                                               &options, &result, NULL);
    say(out, status);
    if (status == ROWLOCK_OK)
        snprintf(out, OUTCOME_MAX, "%s, attempt %u", states[result.state], result.attempt);
}

static void do_once_done(session *s, const words *w, char *out)
{
    session_hold *slot = find_hold(s, argument(w, 1));
    say(out, rowlock_once_done(slot ? slot->hold : NULL, NULL));
}

static void do_once_failed(session *s, const words *w, char *out)
{
    session_hold *slot = find_hold(s, argument(w, 1));
    say(out, rowlock_once_failed(slot ? slot->hold : NULL, 1, NULL));
}

static void do_tx_once_done(session *s, const words *w, char *out)
{
    session_hold *slot = find_hold(s, argument(w, 1));
    say(out, rowlock_tx_once_done(s->client, s->mysql, argument(w, 1),
                                  slot ? rowlock_hold_token(slot->hold) : 0, NULL));
}

static void do_slots_get(session *s, const words *w, char *out)
{
    unsigned slots = 0;
    rowlock_status status = rowlock_slots_get(s->client, argument(w, 1), &slots, NULL);
    say(out, status);
    if (status == ROWLOCK_OK)
        snprintf(out, OUTCOME_MAX, "%u slots", slots);
}

static void do_slots_set(session *s, const words *w, char *out)
{
    const unsigned slots = (unsigned)strtoul(argument(w, 2), NULL, 10);
    say(out, rowlock_slots_set(s->client, argument(w, 1), slots, NULL));
}

static void do_purge(session *s, const words *w, char *out)
{
    say(out, rowlock_purge(s->client, argument(w, 1), NULL));
}

static void do_break(session *s, const words *w, char *out)
{
    const rowlock_break_options options = {.reason = "a race",
                                           .now = strcmp(argument(w, 2), "now") == 0};
    say(out, rowlock_break_with(s->client, argument(w, 1), &options, NULL));
}

static void do_sweep(session *s, const words *w, char *out)
{
    rowlock_sweep_result result = {0};
    rowlock_sweep_options options = {.unused_ms = number(w, "unused", 0)};
    rowlock_status status = rowlock_sweep(s->client, &options, &result, NULL);
    say(out, status);
    if (status == ROWLOCK_OK)
        snprintf(out, OUTCOME_MAX, "OK, %" PRIu64 " expired, %" PRIu64 " purged", result.expired,
                 result.purged);
}

static void do_expire(session *s, const words *w, char *out)
{
    char *kind = ts_sql_text(s->admin, "SELECT kind FROM resource WHERE resource_name = %s",
                             ts_quote(argument(w, 1)));
    ts_expire(s->admin, argument(w, 1),
              strcmp(kind, "optimistic") == 0 ? ROWLOCK_OPTIMISTIC : ROWLOCK_PESSIMISTIC);
    free(kind);
    snprintf(out, OUTCOME_MAX, "done");
}

static void do_forget(session *s, const words *w, char *out)
{
    ts_sql(s->admin,
           "UPDATE resource SET update_time = UTC_TIMESTAMP(6) - INTERVAL 100 DAY"
           " WHERE resource_name = %s",
           ts_quote(argument(w, 1)));
    snprintf(out, OUTCOME_MAX, "done");
}

static void do_show(session *s, const words *w, char *out)
{
    char *text = ts_sql_text(s->admin,
                             "SELECT CONCAT(status, ', token ', version, IF(status = 'held',"
                             " CONCAT(', by ', owner_label), '')) FROM resource"
                             " WHERE resource_name = %s",
                             ts_quote(argument(w, 1)));
    snprintf(out, OUTCOME_MAX, "%s", *text ? text : "no such name");
    free(text);
}

/* Sorted by token: each holder writes its events itself, and later. */
static void do_history(session *s, const words *w, char *out)
{
    for (size_t i = 0; i < s->count; i++)
        if (rowlock_client_flush(s->all[i].client, 30000, NULL) != ROWLOCK_OK)
            snprintf(out, OUTCOME_MAX, "not written");
    char *text = ts_sql_text(s->admin,
                             "SELECT GROUP_CONCAT(event, ' ', version ORDER BY version, event"
                             " SEPARATOR ', ') FROM lock_event WHERE resource_name = %s",
                             ts_quote(argument(w, 1)));
    snprintf(out, OUTCOME_MAX, "%s", text);
    free(text);
}

static void tell_rows(MYSQL_RES *result, char *out)
{
    char *end = out + OUTCOME_MAX;
    char *at = out + snprintf(out, OUTCOME_MAX, "rows:");
    for (MYSQL_ROW row; (row = mysql_fetch_row(result)) && at < end - 60;)
        at += snprintf(at, (size_t)(end - at), " %.50s", row[0] ? row[0] : "NULL");
}

static void do_sql(session *s, const char *text, char *out)
{
    if (mysql_query(s->mysql, text)) {
        snprintf(out, OUTCOME_MAX, "error %u", mysql_errno(s->mysql));
        return;
    }
    MYSQL_RES *result = mysql_store_result(s->mysql);
    snprintf(out, OUTCOME_MAX, "done");
    if (result)
        tell_rows(result, out);
    mysql_free_result(result);
}

/* --------------------------------------------------------------------- latches and barriers */

static uint64_t generation_of(const words *w)
{
    return (uint64_t)number(w, "generation", 0);
}

static unsigned count_of(const words *w)
{
    return (unsigned)strtoul(argument(w, 2), NULL, 10);
}

static void do_latch_set(session *s, const words *w, char *out)
{
    uint64_t generation = 0;
    rowlock_status status =
        rowlock_latch_set(s->client, argument(w, 1), count_of(w), &generation, NULL);
    say(out, status);
    if (status == ROWLOCK_OK)
        snprintf(out, OUTCOME_MAX, "OK, generation %" PRIu64, generation);
}

static void do_latch_down(session *s, const words *w, char *out)
{
    say(out,
        rowlock_latch_down(s->client, argument(w, 1), option(w, "key"), generation_of(w), NULL));
}

static void do_tx_latch_down(session *s, const words *w, char *out)
{
    say(out, rowlock_tx_latch_down(s->client, s->mysql, argument(w, 1), option(w, "key"),
                                   generation_of(w), NULL));
}

static void do_latch_wait(session *s, const words *w, char *out)
{
    const rowlock_latch_options options = {.wait_ms = number(w, "wait", ROWLOCK_WAIT_FOREVER),
                                           .generation = generation_of(w)};
    uint64_t generation = 0;
    rowlock_status status =
        rowlock_latch_wait(s->client, argument(w, 1), &options, &generation, NULL);
    say(out, status);
    if (status == ROWLOCK_OK)
        snprintf(out, OUTCOME_MAX, "OK, generation %" PRIu64, generation);
}

static void do_latch_show(session *s, const words *w, char *out)
{
    static const char *const states[] = {"unset", "closed", "open", "broken"};
    rowlock_latch_info info = {.count = 0};
    rowlock_status status = rowlock_latch_get(s->client, argument(w, 1), &info, NULL);
    say(out, status);
    if (status != ROWLOCK_OK)
        return;
    int length = snprintf(out, OUTCOME_MAX, "%s, generation %" PRIu64 ", %u of %u",
                          states[info.state], info.generation, info.down, info.count);
    if (info.members)
        snprintf(out + length, OUTCOME_MAX - (size_t)length, ", %u to come", info.members);
}

static void do_latch_join(session *s, const words *w, char *out)
{
    const rowlock_latch_join_options options = {.ttl_ms = number(w, "ttl", 60000)};
    rowlock_hold *hold = NULL;
    rowlock_status status = rowlock_latch_join(s->client, argument(w, 1), &options, &hold, NULL);
    say(out, status);
    if (status == ROWLOCK_OK)
        keep(s, argument(w, 1), hold);
}

static void do_latch_done(session *s, const words *w, char *out)
{
    session_hold *slot = find_hold(s, argument(w, 1));
    if (!slot)
        return;
    say(out, rowlock_latch_done(slot->hold, NULL));
    slot->hold = NULL;
}

static void do_barrier_enter(session *s, const words *w, char *out)
{
    const rowlock_barrier_options options = {.wait_ms = number(w, "wait", ROWLOCK_WAIT_FOREVER),
                                             .ttl_ms = 60000};
    rowlock_hold *hold = NULL;
    rowlock_status status =
        rowlock_barrier_enter(s->client, argument(w, 1), count_of(w), &options, &hold, NULL);
    say(out, status);
    if (status != ROWLOCK_OK)
        return;
    keep(s, argument(w, 1), hold);
    snprintf(out, OUTCOME_MAX, "OK, generation %" PRIu64 ", place %u", rowlock_hold_token(hold),
             rowlock_hold_slot(hold));
}

static void do_barrier_leave(session *s, const words *w, char *out)
{
    const session_hold *slot = find_hold(s, argument(w, 1));
    if (slot)
        say(out,
            rowlock_barrier_leave(slot->hold, number(w, "wait", ROWLOCK_WAIT_FOREVER), NULL, NULL));
}

static void do_barrier_show(session *s, const words *w, char *out)
{
    char *text = ts_sql_text(s->admin,
                             "SELECT CONCAT('generation ', r.version, ', ', COUNT(g.owner), ' of ',"
                             " r.slots) FROM resource r LEFT JOIN lock_grant g ON"
                             " g.resource_id = r.id AND g.version = r.version"
                             " AND g.expires_at > UTC_TIMESTAMP(6) WHERE r.resource_name = %s"
                             " GROUP BY r.version, r.slots",
                             ts_quote(argument(w, 1)));
    snprintf(out, OUTCOME_MAX, "%s", *text ? text : "no such name");
    free(text);
}

/* ------------------------------------------------------------ statements of sql/, one by one */

/* A connection with those settings of the library's own on which its statements depend. */
static MYSQL *own_of(session *s)
{
    if (s->own)
        return s->own;
    s->own = mysql_init(NULL);
    mysql_options(s->own, MYSQL_SET_CHARSET_NAME, "utf8mb4");
    if (!mysql_real_connect(s->own, NULL, s->user, "race", ts_schema(), 0, ts_socket(),
                            CLIENT_FOUND_ROWS) ||
        mysql_query(s->own, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"))
        abort();
    return s->own;
}

static const rl_sql *statement_of(const char *name)
{
    for (int i = 0; i < RL_SQL_COUNT; i++)
        if (strcmp(rl_sql_table[i].name, name) == 0)
            return &rl_sql_table[i];
    return NULL;
}

/* Writes a value of the spec as a number or as a quoted text, with a lock's id in place of @x. */
static void put_value(const session *s, FILE *out, const char *word)
{
    char text[COMMAND_MAX] = "";
    char name[2] = "";
    for (const char *at = strcmp(word, "''") == 0 ? "" : word; *at; at++) {
        size_t length = strlen(text);
        name[0] = at[1];
        if (*at != '@')
            snprintf(text + length, sizeof text - length, "%c", *at);
        else
            snprintf(text + length, sizeof text - length, "%" PRIu64, ts_id_of(s->admin, name));
        at += *at == '@';
    }
    fprintf(out, *text && strspn(text, "0123456789") == strlen(text) ? "%s" : "'%s'", text);
}

/* The statement's text with these values; free() it. */
static char *text_of(const session *s, const rl_sql *sql, const char *const *values)
{
    unsigned use = 0;
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    for (const char *at = sql->text; *at; at++) {
        if (*at == '?')
            put_value(s, out, values[sql->uses ? sql->uses[use] : use]);
        else
            fputc(*at, out);
        use += *at == '?';
    }
    fclose(out);
    return text;
}

/* Runs a statement; 0 or the server's error. *rows gets the number of rows, and the result their
 * first columns. */
static unsigned run_named(session *s, const char *name, const char *const *values,
                          MYSQL_RES **result, uint64_t *rows)
{
    MYSQL *own = own_of(s);
    char *text = text_of(s, statement_of(name), values);
    unsigned failed = mysql_query(own, text) ? mysql_errno(own) : 0;
    free(text);
    *result = failed ? NULL : mysql_store_result(own);
    *rows = failed ? 0 : mysql_affected_rows(own);
    return failed;
}

static void tell_cells(MYSQL_RES *result, char *out)
{
    MYSQL_ROW row = mysql_fetch_row(result);
    char *end = out + OUTCOME_MAX;
    char *at = out + snprintf(out, OUTCOME_MAX, row ? "row:" : "no row");
    for (unsigned i = 0; row && i < mysql_num_fields(result) && at < end - 60; i++)
        at += snprintf(at, (size_t)(end - at), " %.50s", row[i] && *row[i] ? row[i] : "''");
}

/* Prints the number of rows, or "done" for statements that have none (BEGIN). */
static void do_run(session *s, const words *w, char *out)
{
    MYSQL_RES *result = NULL;
    uint64_t rows = 0;
    const rl_sql *sql = statement_of(argument(w, 1));
    if (!sql || w->count != 2 + sql->param_count)
        return;
    unsigned failed = run_named(s, sql->name, (const char *const *)w->word + 2, &result, &rows);
    if (failed)
        snprintf(out, OUTCOME_MAX, "error %u", failed);
    else if (result)
        tell_cells(result, out);
    else
        snprintf(out, OUTCOME_MAX, rows || sql->param_count == 0 ? "done" : "nothing");
    mysql_free_result(result);
}

/* Statements on that connection run so long ago from now on. */
static void do_past(session *s, const words *w, char *out)
{
    char text[100];
    snprintf(text, sizeof text, "SET timestamp = UNIX_TIMESTAMP(SYSDATE(6)) - %u",
             (unsigned)strtoul(argument(w, 1), NULL, 10));
    snprintf(out, OUTCOME_MAX, "%s", mysql_query(own_of(s), text) ? mysql_error(s->own) : "done");
}

/* Notes who gathers, as src/kind/barrier.c reads it. */
static unsigned note_gathered(MYSQL_RES *result, char *generation, size_t size)
{
    unsigned count = 0;
    for (MYSQL_ROW row; (row = mysql_fetch_row(result));) {
        snprintf(generation, size, "%s", row[0]);
        count += strcmp(row[1], "-1") != 0;
    }
    mysql_free_result(result);
    return count;
}

/* The statements that src/kind/barrier.c runs after barrier_lock. */
static void do_enter(session *s, const words *w, char *out)
{
    char id[8];
    char generation[24] = "";
    char place[12];
    MYSQL_RES *result = NULL;
    uint64_t rows = 0;
    snprintf(id, sizeof id, "@%s", argument(w, 1));
    const char *const drop[] = {id, argument(w, 3)};
    unsigned failed = run_named(s, "barrier_drop", drop, &result, &rows);
    const char *const own[] = {argument(w, 3), id};
    failed = failed ? failed : run_named(s, "barrier_gathered", own, &result, &rows);
    const unsigned count = failed ? 0 : note_gathered(result, generation, sizeof generation);
    snprintf(place, sizeof place, "%u", count);
    const char *const member[] = {id,         argument(w, 3), argument(w, 3),
                                  generation, place,          "60000000"};
    failed = failed ? failed : run_named(s, "barrier_enter", member, &result, &rows);
    const char *const complete[] = {id, generation};
    if (!failed && count + 1 == count_of(w))
        failed = run_named(s, "barrier_complete", complete, &result, &rows);
    snprintf(out, OUTCOME_MAX, "generation %s, %u of %u", generation, count + 1, count_of(w));
    if (failed)
        snprintf(out, OUTCOME_MAX, "error %u", failed);
}

static void run_command(session *s, const char *command, char *out)
{
    static const struct {
        const char *word;
        void (*run)(session *s, const words *w, char *out);
    } commands[] = {
        {"acquire", do_acquire},
        {"acquire_set", do_acquire_set},
        {"which", do_which},
        {"release", do_release},
        {"check", do_check},
        {"told", do_told},
        {"ask", do_ask},
        {"asked", do_asked},
        {"freeze", do_freeze},
        {"thaw", do_thaw},
        {"tx_acquire", do_tx_acquire},
        {"fence", do_fence},
        {"upgrade", do_upgrade},
        {"downgrade", do_downgrade},
        {"set_value", do_set_value},
        {"observe", do_observe},
        {"section", do_section},
        {"open", do_open},
        {"version_read", do_version_read},
        {"version_bump", do_version_bump},
        {"once_begin", do_once_begin},
        {"once_done", do_once_done},
        {"once_failed", do_once_failed},
        {"tx_once_done", do_tx_once_done},
        {"slots_get", do_slots_get},
        {"slots_set", do_slots_set},
        {"purge", do_purge},
        {"break", do_break},
        {"sweep", do_sweep},
        {"show", do_show},
        {"history", do_history},
        {"expire", do_expire},
        {"forget", do_forget},
        {"latch_set", do_latch_set},
        {"latch_down", do_latch_down},
        {"tx_latch_down", do_tx_latch_down},
        {"latch_wait", do_latch_wait},
        {"latch_show", do_latch_show},
        {"latch_join", do_latch_join},
        {"latch_done", do_latch_done},
        {"barrier_enter", do_barrier_enter},
        {"barrier_leave", do_barrier_leave},
        {"barrier_show", do_barrier_show},
        {"run", do_run},
        {"enter", do_enter},
        {"past", do_past},
    };
    words w = {.count = 0};
    snprintf(out, OUTCOME_MAX, "?");
    if (strncmp(command, "sql ", 4) == 0) {
        do_sql(s, command + 4, out);
        return;
    }
    split(&w, command);
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        if (strcmp(argument(&w, 0), commands[i].word) == 0)
            commands[i].run(s, &w, out);
}

static void *run_steps(void *arg)
{
    session *s = arg;
    char outcome[OUTCOME_MAX];
    pthread_mutex_lock(&s->mutex);
    while (!s->end) {
        if (!s->step || *s->outcome) {
            pthread_cond_wait(&s->changed, &s->mutex);
            continue;
        }
        const char *command = s->step->command;
        pthread_mutex_unlock(&s->mutex);
        run_command(s, command, outcome);
        pthread_mutex_lock(&s->mutex);
        memcpy(s->outcome, outcome, sizeof s->outcome);
    }
    pthread_mutex_unlock(&s->mutex);
    mysql_thread_end();
    return NULL;
}

void session_prepare(session *s, const char *name, session *all, size_t count)
{
    *s = (session){.all = all, .count = count};
    snprintf(s->name, sizeof s->name, "%s", name);
    snprintf(s->user, sizeof s->user, "%s", ts_user(name, "race", "ALL", ts_schema()));
    MYSQL *root = ts_connect(NULL);
    ts_sql(root, "GRANT %s ON *.* TO '%s'@'localhost'",
           ts_is_mysql(root) ? "CONNECTION_ADMIN" : "CONNECTION ADMIN", s->user);
    mysql_close(root);
}

void session_start(session *s)
{
    s->end = false;
    s->step = NULL;
    s->gate = false;
    s->version = 0;
    s->own = NULL;
    memset(s->holds, 0, sizeof s->holds);
    s->client =
        ts_open_as((rowlock_client_options){.user = s->user, .password = "race", .label = s->name});
    s->mysql = ts_connect_as(s->user, "race", ts_schema());
    s->admin = ts_connect(ts_schema());
    pthread_mutex_init(&s->mutex, NULL);
    pthread_cond_init(&s->changed, NULL);
    pthread_create(&s->thread, NULL, run_steps, s);
}

void session_end(session *s)
{
    pthread_mutex_lock(&s->mutex);
    s->end = true;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->mutex);
    pthread_join(s->thread, NULL);
    mysql_close(s->mysql);
    mysql_close(s->own);
    mysql_close(s->admin);
    rowlock_client_close(s->client);
    pthread_mutex_destroy(&s->mutex);
    pthread_cond_destroy(&s->changed);
}

void session_begin(session *s, const race_step *step)
{
    pthread_mutex_lock(&s->mutex);
    s->step = step;
    *s->outcome = 0;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->mutex);
}

bool session_done(session *s, char *outcome)
{
    pthread_mutex_lock(&s->mutex);
    bool done = s->step && *s->outcome;
    if (done) {
        memcpy(outcome, s->outcome, OUTCOME_MAX);
        s->step = NULL;
    }
    pthread_mutex_unlock(&s->mutex);
    return done;
}
