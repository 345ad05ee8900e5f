/* admin/doctor/blocked.c - who waits for a metadata lock, who has it, and transactions that are
 * open for long. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "admin/doctor/parts.h"
#include "base/text.h"

#define MOST          60 /* connections of each sort that are looked at */
#define LONG_S        10
#define SHOWN         5 /* findings about waiters that are in front, and transactions */
#define UNKNOWN_MS    (-1)
#define UNKNOWN_TABLE 1109

/* A connection, with room for its texts. */
typedef struct person {
    uint64_t waiter; /* whom it holds up; else 0 */
    uint64_t id;
    int64_t age_ms;
    int64_t transaction_ms;
    char user[129];
    char host[256];
    char command[33];
    char state[129];
    char query[801];
    char object[601];
    char lock[65];
} person;

typedef struct crowd {
    size_t count;
    person all[MOST];
} crowd;

typedef struct looking {
    rl_doctor *d;
    crowd waiters;
    crowd holders;
    crowd open; /* transactions */
    uint64_t row_locks[MOST];
    size_t row_lock_count;
    /* Why holders are not known; "": they are. */
    const char *hidden;
    const char *show; /* how they can be */
} looking;

/* ------------------------------------------------------------------------- reading */

#define COPY(to, cell) rl_copy_label(to, sizeof(to), (cell).text)

/* The columns of the statements about connections. */
static void copy_person(person *to, const rl_cell *cells)
{
    *to = (person){.waiter = cells[0].u64,
                   .id = cells[1].u64,
                   .age_ms = cells[6].i64,
                   .transaction_ms = cells[8].null ? UNKNOWN_MS : cells[8].i64};
    COPY(to->user, cells[2]);
    COPY(to->host, cells[3]);
    COPY(to->command, cells[4]);
    COPY(to->state, cells[5]);
    COPY(to->query, cells[7]);
    COPY(to->object, cells[9]);
    COPY(to->lock, cells[10]);
}

/* At most MOST of them. */
static rowlock_status read_people(rl_doctor *d, rl_sql_id id, const rl_value *values, crowd *people,
                                  rowlock_error *err)
{
    rl_rows rows;
    people->count = 0;
    rowlock_status status;
    do
        status = rl_query(d->conn, id, values, &d->io, &rows, err);
    while (rl_doctor_again(d, status));
    RL_TRY(status);
    while (people->count < MOST && rl_next(&rows))
        copy_person(&people->all[people->count++], rows.cells);
    rl_end(&rows);
    return rows.status;
}

static const person *find_person(const crowd *people, uint64_t id)
{
    for (size_t i = 0; i < people->count; i++)
        if (people->all[i].id == id)
            return &people->all[i];
    return NULL;
}

/* ----------------------------------------------------------------- who holds the locks */

static void hide(looking *l, const char *why, const char *remedy)
{
    l->hidden = why;
    l->show = remedy;
}

/* What performance_schema knows: all of it on MySQL; on MariaDB it is off, where nobody asked. */
static void ask_performance_schema(looking *l)
{
    rowlock_error err = {0};
    l->hidden = "";
    rowlock_status status = read_people(l->d, RL_SQL_DOCTOR_HOLDERS, NULL, &l->holders, &err);
    if (status == ROWLOCK_DENIED)
        hide(l, "this user may not see who holds it",
             rl_doctor_text(
                 l->d, "GRANT PROCESS ON *.* TO %s; GRANT SELECT ON performance_schema.* TO %s;",
                 l->d->grantee, l->d->grantee));
    else if (status != ROWLOCK_OK || l->holders.count == 0)
        hide(l, "performance_schema does not show who holds it",
             "switch performance_schema on, with its instrument wait/lock/metadata/sql/mdl");
}

static void find_holders(looking *l)
{
    rowlock_error err = {0};
    if (l->d->server->flavour == RL_MARIADB &&
        read_people(l->d, RL_SQL_DOCTOR_HOLDERS_PLUGIN, NULL, &l->holders, &err) == ROWLOCK_OK &&
        l->holders.count > 0)
        return;
    ask_performance_schema(l);
    if (*l->hidden && err.server_errno == UNKNOWN_TABLE)
        hide(l, "this server does not show who holds it",
             "INSTALL SONAME 'metadata_lock_info'; and ask again");
}

/* --------------------------------------------------------------------------- telling */

static rowlock_finding_session session_of(const person *p, const char *role)
{
    return (rowlock_finding_session){.role = role,
                                     .connection_id = p->id,
                                     .user = p->user,
                                     .host = p->host,
                                     .command = p->command,
                                     .state = p->state,
                                     .age_ms = p->age_ms,
                                     .transaction_ms = p->transaction_ms,
                                     .object = p->object,
                                     .lock = p->lock,
                                     .query = p->query};
}

static bool is_idle(const person *p)
{
    return strcmp(p->command, "Sleep") == 0;
}

static void put(rl_buffer *text, const char *format, ...) RL_PRINTF(2, 3);

static void put(rl_buffer *text, const char *format, ...)
{
    char part[1200];
    va_list args;
    va_start(args, format);
    vsnprintf(part, sizeof part, format, args);
    va_end(args);
    rl_buffer_puts(text, part);
}

/* "connection 7 (batch@app1, idle for 12 s in a transaction of 20 s, last: SELECT ...)" */
static void put_person(rl_buffer *text, const person *p)
{
    put(text, "connection %" PRIu64 " (%s@%s, %s for %" PRId64 " s", p->id, p->user, p->host,
        is_idle(p) ? "idle" : "running", p->age_ms / 1000);
    if (p->transaction_ms != UNKNOWN_MS)
        put(text, " in a transaction of %" PRId64 " s", p->transaction_ms / 1000);
    if (*p->query)
        put(text, "%s%s", is_idle(p) ? ", last: " : ": ", p->query);
    rl_buffer_puts(text, ")");
}

/* A finding that grows. */
typedef struct report {
    rl_buffer found;
    rl_buffer remedy;
    rowlock_finding_session sessions[2 * MOST];
    size_t count;
} report;

static void tell(const looking *l, report *r, const char *check, rowlock_level level,
                 const char *follows)
{
    const rowlock_finding finding = {.check = check,
                                     .level = level,
                                     .found = r->found.failed ? "out of memory" : r->found.text,
                                     .follows = follows,
                                     .remedy = r->remedy.failed ? "" : r->remedy.text,
                                     .sessions = r->sessions,
                                     .session_count = r->count};
    l->d->fn(l->d->data, &finding);
    rl_buffer_free(&r->found);
    rl_buffer_free(&r->remedy);
}

static const char waiting_is[] =
    "everybody who wants the same table waits behind it, to read it, too";

static void put_waiter(rl_buffer *text, const person *w)
{
    put(text, "connection %" PRIu64 " (%s@%s) waits for a metadata lock, for %" PRId64 " s: %s",
        w->id, w->user, w->host, w->age_ms / 1000, w->query);
}

/* Holders who wait themselves are not the reason. */
static bool is_root(const looking *l, const person *holder, uint64_t waiter)
{
    return holder->waiter == waiter && !find_person(&l->waiters, holder->id);
}

static bool in_front(const looking *l, const person *waiter)
{
    for (size_t i = 0; i < l->holders.count; i++)
        if (is_root(l, &l->holders.all[i], waiter->id))
            return true;
    return false;
}

static void tell_front(const looking *l, const person *waiter)
{
    report r = {.sessions = {session_of(waiter, "waits")}, .count = 1};
    put_waiter(&r.found, waiter);
    rl_buffer_puts(&r.remedy, "let it end its transaction, or end it:");
    for (size_t i = 0; i < l->holders.count; i++) {
        const person *holder = &l->holders.all[i];
        if (!is_root(l, holder, waiter->id))
            continue;
        put(&r.found, "%s %s is held by ", r.count == 1 ? ";" : ",", holder->object);
        put_person(&r.found, holder);
        put(&r.remedy, " KILL %" PRIu64 ";", holder->id); /* not run */
        r.sessions[r.count++] = session_of(holder, "holds");
    }
    tell(l, &r, "blocked", ROWLOCK_CARE, waiting_is);
}

/* Those with a holder first; then who waits for somebody who waits, and for whom there was no room.
 */
static void tell_fronts(const looking *l)
{
    report behind = {0};
    size_t told = 0;
    for (size_t i = 0; i < l->waiters.count; i++) {
        const person *waiter = &l->waiters.all[i];
        if (told < SHOWN && in_front(l, waiter)) {
            tell_front(l, waiter);
            told++;
        } else {
            behind.sessions[behind.count++] = session_of(waiter, "waits");
        }
    }
    if (behind.count == 0)
        return;
    put(&behind.found, "%zu more wait for metadata locks, behind these", behind.count);
    rl_buffer_puts(&behind.remedy, "as for those before them");
    tell(l, &behind, "blocked", ROWLOCK_CARE, "they go on when those before them do");
}

/* Of every transaction that is open: it may be the one. */
static void tell_guesses(const looking *l)
{
    report r = {0};
    for (size_t i = 0; i < l->waiters.count; i++)
        r.sessions[r.count++] = session_of(&l->waiters.all[i], "waits");
    put_waiter(&r.found, &l->waiters.all[0]);
    if (r.count > 1)
        put(&r.found, "; and %zu more wait", r.count - 1);
    put(&r.found, "; %s", l->hidden);
    rl_buffer_puts(&r.remedy, l->show);
    for (size_t i = 0; i < l->open.count; i++) {
        const person *p = &l->open.all[i];
        if (find_person(&l->waiters, p->id))
            continue;
        r.sessions[r.count++] = session_of(p, "may hold");
        rl_buffer_puts(&r.found, "; it may be ");
        put_person(&r.found, p);
    }
    if (r.count == l->waiters.count)
        rl_buffer_puts(
            &r.found,
            "; no transaction is open that this user sees: it may be one of LOCK TABLES or FLUSH "
            "TABLES, or have ended just now");
    tell(l, &r, "blocked", ROWLOCK_CARE, waiting_is);
}

static void tell_waiters(looking *l)
{
    if (l->waiters.count == 0) {
        rl_doctor_fine(l->d, "blocked",
                       "nobody waits for a metadata lock, as far as this user sees");
        return;
    }
    find_holders(l);
    for (size_t i = 0; i < l->waiters.count; i++)
        if (in_front(l, &l->waiters.all[i])) {
            tell_fronts(l);
            return;
        }
    if (!*l->hidden)
        hide(l, "who holds it has changed meanwhile", "ask again");
    tell_guesses(l);
}

/* ---------------------------------------------------------------------- transactions */

static void find_row_locks(looking *l)
{
    rl_rows rows;
    if (rl_query(l->d->conn, RL_SQL_DOCTOR_ROW_LOCKS, NULL, &l->d->io, &rows, NULL) != ROWLOCK_OK)
        return;
    while (l->row_lock_count < MOST && rl_next(&rows))
        l->row_locks[l->row_lock_count++] = rows.cells[0].u64;
    rl_end(&rows);
}

static bool is_row_lock(const looking *l, uint64_t id)
{
    for (size_t i = 0; i < l->row_lock_count; i++)
        if (l->row_locks[i] == id)
            return true;
    return false;
}

/* Where the server tells: the tables it has used, its last statement. */
static void add_used(rl_doctor *d, person *p)
{
    static const rl_sql_id sources[] = {RL_SQL_DOCTOR_USED, RL_SQL_DOCTOR_USED_PLUGIN};
    const rl_value values[] = {rl_u64(p->id)};
    size_t first = d->server->flavour == RL_MARIADB ? 1 : 0;
    rl_rows rows;
    bool found = false;
    if (rl_query_one(d->conn, sources[first], values, &d->io, &found, &rows, NULL) != ROWLOCK_OK ||
        !found)
        return;
    COPY(p->object, rows.cells[0]);
    if (!*p->query)
        COPY(p->query, rows.cells[1]);
}

static void tell_transaction(const looking *l, const person *p)
{
    report r = {.sessions = {session_of(p, "open")}, .count = 1};
    put_person(&r.found, p);
    if (*p->object)
        put(&r.found, " has used %s", p->object);
    put(&r.remedy, "where nobody needs it: KILL %" PRIu64 "; (what it has changed is undone)",
        p->id);
    tell(l, &r, "transactions", ROWLOCK_NOTE,
         "a change of a table that it has used waits until it ends, and old versions of rows are "
         "kept for it");
}

static void tell_transactions(looking *l)
{
    size_t told = 0;
    size_t more = 0;
    find_row_locks(l);
    for (size_t i = 0; i < l->open.count; i++) {
        person *p = &l->open.all[i];
        if (p->transaction_ms < 1000LL * LONG_S || is_row_lock(l, p->id))
            continue;
        if (told == SHOWN) {
            more++;
            continue;
        }
        add_used(l->d, p);
        tell_transaction(l, p);
        told++;
    }
    if (told == 0)
        rl_doctor_fine(l->d, "transactions",
                       "none is open for %d s or more, but row locks of rowlock's own", LONG_S);
    if (more > 0)
        rl_doctor_tell(l->d, "transactions", ROWLOCK_NOTE, "", "",
                       "%zu more are open for %d s or more", more, LONG_S);
}

/* They have no connection that could be shown, or ended. */
static void tell_prepared(rl_doctor *d)
{
    const rl_value age[] = {rl_u64(LONG_S)};
    const char *remedy =
        d->server->flavour == RL_MARIADB
            ? "XA RECOVER FORMAT='SQL'; lists them; those that their coordinator has forgotten, "
              "end "
              "with XA COMMIT or XA ROLLBACK and that text"
            : "XA RECOVER CONVERT XID; lists them (it takes XA_RECOVER_ADMIN); those that their "
              "coordinator has forgotten, end with XA COMMIT or XA ROLLBACK";
    rl_rows rows;
    bool found = false;
    rowlock_status status = rl_doctor_ask(d, RL_SQL_DOCTOR_PREPARED, age, &found, &rows, NULL);
    if (status != ROWLOCK_OK || !found || rows.cells[0].u64 == 0)
        return;
    rl_doctor_tell(d, "prepared", ROWLOCK_CARE,
                   "what they have locked stays locked, over a restart of the server, too: where "
                   "that is a lock's row (rowlock_fence), nobody takes, gives back or breaks it",
                   remedy,
                   "%" PRIu64 " prepared (XA) transactions have no connection; the oldest began "
                   "%" PRId64 " s ago",
                   rows.cells[0].u64, rows.cells[1].i64);
}

static void tell_unseen(const looking *l)
{
    rl_doctor_tell(l->d, "transactions", ROWLOCK_NOTE,
                   "what blocks a change of a table, and transactions of other users that are open "
                   "for long, are not told here",
                   rl_doctor_text(l->d, "GRANT PROCESS ON *.* TO %s;", l->d->grantee),
                   "other connections are hidden from this user (PROCESS)");
}

void rl_doctor_check_blocked(rl_doctor *d)
{
    const rl_value limit[] = {rl_u64(MOST)};
    const rl_value any_age[] = {rl_u64(0), rl_u64(MOST)};
    looking *l = calloc(1, sizeof *l);
    if (!l)
        return;
    l->d = d;
    l->hidden = "";
    rowlock_status seen = read_people(d, RL_SQL_DOCTOR_TRANSACTIONS, any_age, &l->open, NULL);
    if (read_people(d, RL_SQL_DOCTOR_BLOCKED, limit, &l->waiters, NULL) == ROWLOCK_OK)
        tell_waiters(l);
    if (seen == ROWLOCK_OK)
        tell_transactions(l);
    else
        tell_unseen(l);
    tell_prepared(d);
    free(l);
}
