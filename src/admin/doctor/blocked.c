/* admin/doctor/blocked.c - sessions that wait for a metadata lock, the ones that have it, and
 * transactions that are open for long. */
#include <inttypes.h>
#include <string.h>

#include "admin/doctor/parts.h"
#include "base/text.h"

#define MOST          60 /* connections of each sort that are looked at */
#define LONG_S        10
#define SHOWN         5 /* findings about transactions */
#define UNKNOWN_MS    (-1)
#define UNKNOWN_TABLE 1109

typedef struct person {
    uint64_t waiter; /* the connection that waits for it; else 0 */
    bool row_lock;   /* it is one of rowlock's own */
    rowlock_finding_session session;
} person;

typedef struct crowd {
    size_t count;
    person all[MOST];
} crowd;

typedef struct looking {
    rl_doctor *d;
    rl_texts texts; /* of all these people */
    crowd waiters;
    crowd holders;
    crowd open; /* transactions */
    /* Why holders are not known; "": they are. */
    const char *hidden;
    const char *show; /* how they can be */
} looking;

/* ------------------------------------------------------------------------- reading */

/* The server knows any bytes: what gets out is clean, as labels are. */
static const char *keep(looking *l, const rl_cell *cell)
{
    char clean[802];
    rl_copy_label(clean, sizeof clean, cell->text);
    return rl_texts_keep(&l->texts, clean);
}

/* The columns of the statements about connections. */
static void keep_person(looking *l, person *to, const rl_cell *cells)
{
    *to = (person){.waiter = cells[0].u64,
                   .session = {.connection_id = cells[1].u64,
                               .user = keep(l, &cells[2]),
                               .host = keep(l, &cells[3]),
                               .command = keep(l, &cells[4]),
                               .state = keep(l, &cells[5]),
                               .age_ms = cells[6].i64,
                               .query = keep(l, &cells[7]),
                               .transaction_ms = cells[8].null ? UNKNOWN_MS : cells[8].i64,
                               .object = keep(l, &cells[9]),
                               .lock = keep(l, &cells[10])}};
}

/* At most MOST of them. */
static rowlock_status read_people(looking *l, rl_sql_id id, const rl_value *values, crowd *people,
                                  rowlock_error *err)
{
    rl_rows rows;
    people->count = 0;
    rowlock_status status;
    RL_UNTIL_HEARD(l->d, status, rl_query(l->d->conn, id, values, &l->d->io, &rows, err));
    RL_TRY(status);
    while (people->count < MOST && rl_next(&rows))
        keep_person(l, &people->all[people->count++], rows.cells);
    return ROWLOCK_OK;
}

static person *find_person(crowd *people, uint64_t id)
{
    for (size_t i = 0; i < people->count; i++)
        if (people->all[i].session.connection_id == id)
            return &people->all[i];
    return NULL;
}

/* ----------------------------------------------------------------- who holds the locks */

static void hide(looking *l, const char *why, const char *remedy)
{
    l->hidden = why;
    l->show = remedy;
}

/* performance_schema knows it all on MySQL; on MariaDB it is off by default. */
static void ask_performance_schema(looking *l)
{
    rowlock_status status = read_people(l, RL_SQL_DOCTOR_HOLDERS, NULL, &l->holders, NULL);
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
        read_people(l, RL_SQL_DOCTOR_HOLDERS_PLUGIN, NULL, &l->holders, &err) == ROWLOCK_OK &&
        l->holders.count > 0)
        return;
    ask_performance_schema(l);
    if (*l->hidden && err.server_errno == UNKNOWN_TABLE)
        hide(l, "this server does not show who holds it",
             "INSTALL SONAME 'metadata_lock_info'; and ask again");
}

/* A holder that waits itself is not the cause. */
static bool is_root(looking *l, const person *holder, const person *waiter)
{
    return holder->waiter == waiter->session.connection_id &&
           !find_person(&l->waiters, holder->session.connection_id);
}

static bool in_front(looking *l, const person *waiter)
{
    for (size_t i = 0; i < l->holders.count; i++)
        if (is_root(l, &l->holders.all[i], waiter))
            return true;
    return false;
}

/* --------------------------------------------------------------------------- telling */

/* A finding that grows. */
typedef struct report {
    rl_buffer found;
    rl_buffer remedy;
    rowlock_finding_session sessions[2 * MOST];
    size_t count;
} report;

static void add_session(report *r, const person *p, const char *role)
{
    r->sessions[r->count] = p->session;
    r->sessions[r->count++].role = role;
}

/* "connection 7 (batch@app1, idle for 12 s in a transaction of 20 s, last: SELECT ...)" */
static void add_person(report *r, const person *p, const char *role)
{
    const rowlock_finding_session *s = &p->session;
    const bool idle = strcmp(s->command, "Sleep") == 0;
    add_session(r, p, role);
    rl_buffer_printf(&r->found, "connection %" PRIu64 " (%s@%s, %s for %" PRId64 " s",
                     s->connection_id, s->user, s->host, idle ? "idle" : "running",
                     s->age_ms / 1000);
    if (s->transaction_ms != UNKNOWN_MS)
        rl_buffer_printf(&r->found, " in a transaction of %" PRId64 " s", s->transaction_ms / 1000);
    if (*s->query)
        rl_buffer_printf(&r->found, "%s%s", idle ? ", last: " : ": ", s->query);
    rl_buffer_puts(&r->found, ")");
}

static void add_waiter(report *r, const person *waiter)
{
    const rowlock_finding_session *s = &waiter->session;
    add_session(r, waiter, "waits");
    rl_buffer_printf(&r->found,
                     "connection %" PRIu64 " (%s@%s) waits for a metadata lock, for %" PRId64
                     " s: %s",
                     s->connection_id, s->user, s->host, s->age_ms / 1000, s->query);
}

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

static void add_holders(looking *l, report *r, const person *waiter)
{
    rl_buffer_puts(&r->remedy, "let it end its transaction, or end it:");
    for (size_t i = 0; i < l->holders.count; i++) {
        const person *holder = &l->holders.all[i];
        if (!is_root(l, holder, waiter))
            continue;
        rl_buffer_printf(&r->found, "%s %s is held by ", r->count == 1 ? ";" : ",",
                         holder->session.object);
        add_person(r, holder, "holds");
        rl_buffer_printf(&r->remedy, " KILL %" PRIu64 ";", /* not run */
                         holder->session.connection_id);
    }
}

/* Of every transaction that is open: it may be the one. */
static void add_suspects(looking *l, report *r)
{
    rl_buffer_printf(&r->found, "; %s", l->hidden);
    rl_buffer_puts(&r->remedy, l->show);
    for (size_t i = 0; i < l->open.count; i++) {
        const person *p = &l->open.all[i];
        if (find_person(&l->waiters, p->session.connection_id))
            continue;
        rl_buffer_puts(&r->found, "; it may be ");
        add_person(r, p, "may hold");
    }
    if (r->count == 1)
        rl_buffer_puts(
            &r->found,
            "; no transaction is open that this user sees: it may be one of LOCK TABLES or FLUSH "
            "TABLES, or have ended just now");
}

static void tell_waiter(looking *l, const person *waiter, bool known)
{
    report r = {0};
    add_waiter(&r, waiter);
    if (known)
        add_holders(l, &r, waiter);
    else
        add_suspects(l, &r);
    tell(l, &r, "blocked", ROWLOCK_CARE,
         "all others that use the same table wait behind it, even to read it");
}

/* One finding for each waiter whose holder is known (if none is, for the one that has waited
 * longest), then one for all others, which wait for a waiter. */
static void tell_waiters(looking *l)
{
    report behind = {0};
    bool known = false;
    for (size_t i = 0; i < l->waiters.count; i++)
        known = known || in_front(l, &l->waiters.all[i]);
    if (!known && !*l->hidden)
        hide(l, "who holds it has changed meanwhile", "ask again");
    for (size_t i = 0; i < l->waiters.count; i++) {
        const person *waiter = &l->waiters.all[i];
        if (known ? in_front(l, waiter) : i == 0)
            tell_waiter(l, waiter, known);
        else
            add_session(&behind, waiter, "waits");
    }
    if (behind.count == 0)
        return;
    rl_buffer_printf(&behind.found, "%zu more wait for metadata locks, behind these", behind.count);
    rl_buffer_puts(&behind.remedy, "as for those before them");
    tell(l, &behind, "blocked", ROWLOCK_CARE, "they go on when those before them do");
}

static void check_waiters(looking *l)
{
    const rl_value limit[] = {rl_u64(MOST)};
    if (read_people(l, RL_SQL_DOCTOR_BLOCKED, limit, &l->waiters, NULL) != ROWLOCK_OK)
        return;
    if (l->waiters.count == 0) {
        rl_doctor_fine(l->d, "blocked",
                       "nobody waits for a metadata lock, as far as this user sees");
        return;
    }
    find_holders(l);
    tell_waiters(l);
}

/* ---------------------------------------------------------------------- transactions */

static void find_row_locks(looking *l)
{
    rl_rows rows;
    if (rl_query(l->d->conn, RL_SQL_DOCTOR_ROW_LOCKS, NULL, &l->d->io, &rows, NULL) != ROWLOCK_OK)
        return;
    while (rl_next(&rows)) {
        person *holder = find_person(&l->open, rows.cells[0].u64);
        if (holder)
            holder->row_lock = true;
    }
}

/* Where the server tells: the tables it has used, its last statement. */
static void add_used(looking *l, person *p)
{
    const rl_value values[] = {rl_u64(p->session.connection_id)};
    const rl_sql_id id =
        l->d->server->flavour == RL_MARIADB ? RL_SQL_DOCTOR_USED_PLUGIN : RL_SQL_DOCTOR_USED;
    rl_rows rows;
    bool found = false;
    if (rl_query_one(l->d->conn, id, values, &l->d->io, &found, &rows, NULL) != ROWLOCK_OK ||
        !found)
        return;
    p->session.object = keep(l, &rows.cells[0]);
    if (!*p->session.query)
        p->session.query = keep(l, &rows.cells[1]);
}

static void tell_transaction(looking *l, person *p)
{
    report r = {0};
    add_used(l, p);
    add_person(&r, p, "open");
    if (*p->session.object)
        rl_buffer_printf(&r.found, " has used %s", p->session.object);
    rl_buffer_printf(&r.remedy,
                     "where nobody needs it: KILL %" PRIu64 "; (what it has changed is undone)",
                     p->session.connection_id);
    tell(l, &r, "transactions", ROWLOCK_NOTE,
         "a change of a table that it has used waits until it ends, and old versions of rows are "
         "kept for it");
}

static void tell_transactions(looking *l)
{
    size_t count = 0;
    find_row_locks(l);
    for (size_t i = 0; i < l->open.count; i++) {
        person *p = &l->open.all[i];
        if (p->session.transaction_ms >= 1000LL * LONG_S && !p->row_lock && ++count <= SHOWN)
            tell_transaction(l, p);
    }
    if (count == 0)
        rl_doctor_fine(l->d, "transactions",
                       "none is open for %d s or more, except row locks of rowlock's own", LONG_S);
    if (count > SHOWN)
        rl_doctor_tell(l->d, "transactions", ROWLOCK_NOTE, "", "",
                       "%zu more are open for %d s or more", count - SHOWN, LONG_S);
}

static void tell_unseen(const looking *l)
{
    rl_doctor_tell(l->d, "transactions", ROWLOCK_NOTE,
                   "this check cannot show what blocks a change of a table, nor which transactions "
                   "of other users are open for long",
                   rl_doctor_text(l->d, "GRANT PROCESS ON *.* TO %s;", l->d->grantee),
                   "other connections are hidden from this user (PROCESS)");
}

void rl_doctor_check_blocked(rl_doctor *d)
{
    const rl_value any_age[] = {rl_u64(0), rl_u64(MOST)};
    const rl_value long_ago[] = {rl_u64(LONG_S)};
    unsigned prepared = 0;
    looking l = {.d = d, .hidden = ""};
    rowlock_status seen = read_people(&l, RL_SQL_DOCTOR_TRANSACTIONS, any_age, &l.open, NULL);
    check_waiters(&l);
    if (seen == ROWLOCK_OK)
        tell_transactions(&l);
    else
        tell_unseen(&l);
    rl_texts_free(&l.texts);
    /* Prepared transactions have no connection that could be shown or ended. A user that may not
     * see them gets no finding. */
    seen = rl_doctor_tell_rows(d, RL_SQL_DOCTOR_PREPARED, long_ago, &prepared, NULL);
    (void)seen;
}
