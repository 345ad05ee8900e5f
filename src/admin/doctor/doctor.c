#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "admin/doctor/parts.h"
#include "bell/bell.h"
#include "engine/kind.h"
#include "migrate/migrate.h"
#include "migrate/schema.h"
#include "stmt/session.h"
#include "wait/reach.h"

#define LOOK_US        60000000 /* the whole look */
#define NO_SUCH_TABLE  1146
#define OLD_SNAPSHOT_S 60 /* that keeps what workers of queues have done */

static rowlock_status check_settings(rl_doctor *d, rowlock_error *err)
{
    const rl_value values[] = {rl_u64(d->server->read_only),
                               rl_u64((uint64_t)(d->wants->ttl_ms + 999) / 1000),
                               rl_u64(d->server->binlog), rl_text(d->server->binlog_format)};
    unsigned told = 0;
    return rl_doctor_tell_rows(d, RL_SQL_DOCTOR_SETTINGS, values, &told, err);
}

static int64_t here_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static rowlock_status check_clock(rl_doctor *d, rowlock_error *err)
{
    const rl_value values[] = {rl_u64((uint64_t)here_us())};
    unsigned told = 0;
    return rl_doctor_tell_rows(d, RL_SQL_DOCTOR_CLOCK, values, &told, err);
}

static void check_version(const rl_doctor *d)
{
    const rl_traits *traits = rl_traits_of(d->server->flavour);
    const bool bare = *d->server->comment != '('; /* Debian's MySQL says "(Debian)" */
    if (rl_server_check(d->server, NULL) == ROWLOCK_OK)
        rl_doctor_fine(d, "server", "%s %s %s%s%s", traits->name, d->server->version,
                       bare ? "(" : "", d->server->comment, bare ? ")" : "");
    else
        rl_doctor_tell(d, "server", ROWLOCK_BROKEN, "it lacks SKIP LOCKED or JSON_TABLE",
                       "use MariaDB 10.6, MySQL 8.0, or later", "%s %s", traits->name,
                       d->server->version);
}

static void check_cluster(const rl_doctor *d)
{
    const rl_cluster_traits *traits = rl_cluster_traits_of(d->server->cluster);
    if (d->server->outside)
        rl_doctor_tell(d, "cluster", ROWLOCK_BROKEN,
                       "locks are refused here: the others would not know of what it grants",
                       "let it join, or connect to a working member",
                       "it is configured for %s, and is no working member of it now", traits->name);
    else if (d->server->apart)
        rl_doctor_tell(
            d, "cluster", ROWLOCK_CARE,
            "leases end when another node answers; and outside of its group it grants locks "
            "that "
            "that the group does not know of",
            "let this user look at performance_schema.replication_group_members (sql/grants.sql)",
            "%s; this user may not see whether it is a working one", traits->name);
    else if (rl_many_writers(d->server->cluster, d->wants->single_writer))
        rl_doctor_tell(
            d, "cluster", ROWLOCK_CARE,
            "pessimistic mode is refused: row locks are local to a node, and others write too",
            "use leases; or send every client to one node, and say so (--single-writer)", "%s",
            traits->name);
    else if (traits->many_writers)
        rl_doctor_tell(d, "cluster", ROWLOCK_CARE,
                       "row locks are safe only as long as every client uses this node", "",
                       "%s, %s", traits->name,
                       "said to be the only one that is used (single_writer)");
    else
        rl_doctor_fine(d, "cluster", "%s", traits->name);
}

static void check_identity(const rl_doctor *d)
{
    const rl_server *server = d->server;
    if (server->identity == server->node)
        rl_doctor_fine(d, "identity", "%s (%s); a lease is lost when another server answers",
                       server->node_text, rl_traits_of(server->flavour)->identity_is);
    else
        rl_doctor_fine(
            d, "identity",
            "%s (of the cluster, of which this is %s); a lease is lost when another answers",
            server->identity_text, server->node_text);
}

static void check_encrypted(const rl_doctor *d)
{
    char cipher[128];
    rl_conn_cipher(d->conn, cipher, sizeof cipher);
    if (d->conn->proven)
        rl_doctor_fine(d, "tls", "%s; the server's certificate is verified", cipher);
    else
        rl_doctor_tell(d, "tls", ROWLOCK_NOTE, "it stops eavesdropping, not impersonation",
                       "--tls=verify-identity, --tls=verify-ca or --tls-fingerprint",
                       "%s; the server's certificate is not verified", cipher);
}

static void check_tls(const rl_doctor *d)
{
    if (d->conn->tls)
        check_encrypted(d);
    else if (d->conn->local || rl_conn_loopback(d->conn))
        rl_doctor_fine(d, "tls", "no TLS, and no network: %s",
                       d->conn->local ? "a unix socket" : "the server is on this host");
    else
        rl_doctor_tell(d, "tls", ROWLOCK_CARE,
                       "anyone on the network path can read and change the traffic",
                       "--tls=verify-identity, with --tls-ca where the system does not know the "
                       "server's CA",
                       "the connection is not encrypted");
}

/* Tries a bell of a schema name that cannot exist: no client has it. */
static bool has_bell(rl_doctor *d)
{
    static const char nobodys[] = "rowlock.?doctor.";
    rowlock_status status;
    do {
        status = rl_bell_take(d->conn, nobodys, d->conn->id, &d->io);
        if (status == ROWLOCK_OK)
            status = rl_bell_ring(d->conn, nobodys, d->conn->id, &d->io);
    } while (rl_doctor_again(d, status));
    return status == ROWLOCK_OK;
}

/* Why waiters of leases poll; NULL: they are woken. */
static const char *why_polling(rl_doctor *d)
{
    if (d->wants->polls)
        return "asked for (waiting=poll)";
    const char *why = rl_server_why_no_bell(d->server, d->wants->single_writer);
    if (why)
        return why;
    return has_bell(d) ? NULL : "the server refuses GET_LOCK";
}

static void check_waiting(rl_doctor *d)
{
    const char *why = why_polling(d);
    if (why)
        rl_doctor_tell(d, "waiting", ROWLOCK_NOTE,
                       "waiters of a lease look every 5 to 250 ms, in no order", "",
                       "waiters of leases poll: %s", why);
    else
        rl_doctor_fine(d, "waiting",
                       "the server wakes waiters of leases, first come first served (GET_LOCK)");
}

/* ------------------------------------------------------------------ schema and rights */

static bool check_schema(rl_doctor *d)
{
    rowlock_error err = {0};
    unsigned version = 0;
    rowlock_status status;
    do {
        status = rl_schema_version(d->conn, d->params->schema, &d->io, &version, &err);
        /* It knows whether this user may work through the procedures. */
        if (status == ROWLOCK_DENIED)
            status = rl_schema_check(d->conn, d->params->schema, &d->io, &err);
    } while (rl_doctor_again(d, status));
    if (status != ROWLOCK_OK) {
        rl_doctor_tell(d, "schema", ROWLOCK_BROKEN, "nothing works until this is repaired",
                       "do what it says", "%s", err.message);
        return status != ROWLOCK_SCHEMA;
    }
    rl_doctor_fine(d, "schema", "'%s' has version %u", d->params->schema, version);
    RL_UNTIL_HEARD(d, status, rl_schema_check(d->conn, d->params->schema, &d->io, &err));
    if (status == ROWLOCK_OK)
        rl_doctor_fine(d, "engine", "every table is InnoDB and has its keys");
    else if (status == ROWLOCK_DENIED)
        rl_doctor_tell(d, "engine", ROWLOCK_BROKEN, "calls will answer DENIED",
                       "the statements under privileges", "this user may not see every table");
    else
        rl_doctor_tell(
            d, "engine", ROWLOCK_BROKEN, "a lock could be taken twice",
            "restore the table as rowlock's migrations/ has it (installed in share/rowlock)", "%s",
            err.message);
    return true;
}

/* No finding if there is no unknown kind: only a newer program, or an INSERT by hand, makes one. */
static void check_kinds(rl_doctor *d)
{
    rl_rows rows;
    bool found = false;
    rowlock_error err = {0};
    const rl_kind *kind = NULL;
    rowlock_status status;
    RL_UNTIL_HEARD(d, status,
                   rl_query_one(d->conn, RL_SQL_DOCTOR_KINDS, NULL, &d->io, &found, &rows, NULL));
    if (status == ROWLOCK_OK && found &&
        rl_kind_find(rows.cells[1].text, rows.cells[0].text, &kind, &err) != ROWLOCK_OK)
        rl_doctor_tell(d, "kinds", ROWLOCK_BROKEN,
                       "this program leaves such a name alone, and lists nothing beside it",
                       "use the program that made it", "%s", err.message);
}

/* Without the privilege PROCESS transactions are not seen, which check_waiters() tells. */
static void check_queues(rl_doctor *d)
{
    const rl_value older[] = {rl_u64(OLD_SNAPSHOT_S)};
    unsigned told = 0;
    (void)!rl_doctor_tell_rows(d, RL_SQL_DOCTOR_QUEUES, NULL, &told, NULL);
    (void)!rl_doctor_tell_rows(d, RL_SQL_DOCTOR_QUEUE_SNAPSHOTS, older, &told, NULL);
    (void)!rl_doctor_tell_rows(d, RL_SQL_DOCTOR_SESSIONS, NULL, &told, NULL);
}

/* Who may not see them gets an empty or a partial list, or is refused: that is no failure. */
static void check_waiters(rl_doctor *d)
{
    const rl_value nobodys[] = {rl_text("?")};
    const char *table = rl_traits_of(d->server->flavour)->waiters_table;
    char also[RL_GRANTEE_SIZE + 100] = "";
    rl_rows rows;
    bool found = false;
    rowlock_status status;
    RL_UNTIL_HEARD(
        d, status,
        rl_query_one(d->conn, RL_SQL_WAITERS_OF_ROWS, nobodys, &d->io, &found, &rows, NULL));
    if (table)
        snprintf(also, sizeof also, " GRANT SELECT ON %s TO %s;", table, d->grantee);
    if (status == ROWLOCK_OK)
        rl_doctor_fine(d, "waiters", "this user sees who waits");
    else
        rl_doctor_tell(
            d, "waiters", ROWLOCK_NOTE,
            "`rowlock ls` and `rowlock_waiters_get()` show this user's own waiters of leases, and "
            "none of row locks",
            /* not run */
            rl_doctor_text(d, "GRANT PROCESS ON *.* TO %s;%s", d->grantee, also),
            "who waits is hidden from this user");
}

/* Who may not read the totals is not told. */
static void check_gaps(rl_doctor *d)
{
    unsigned told = 0;
    rowlock_status ignored = rl_doctor_tell_rows(d, RL_SQL_DOCTOR_GAPS, NULL, &told, NULL);
    (void)ignored;
}

/* ------------------------------------------- procedures, and the event that sweeps */

static void check_procedures(rl_doctor *d)
{
    rl_procedures_seen seen;
    rowlock_status status;
    RL_UNTIL_HEARD(d, status, rl_procedures_look(d->conn, d->params->schema, &d->io, &seen, NULL));
    if (status != ROWLOCK_OK)
        return;
    if (seen.there == 0)
        rl_doctor_fine(d, "procedures",
                       "none that this user sees; `rowlock init --procedures` installs them");
    else if (seen.same < seen.there)
        rl_doctor_tell(d, "procedures", ROWLOCK_CARE,
                       "SQL programs get what that program did, with its bugs",
                       "`rowlock init` with the newest program in use brings them up to date",
                       "%u of %u are not this program's, but of %s", seen.there - seen.same,
                       seen.there, seen.other);
    else if (*seen.missing)
        rl_doctor_tell(d, "procedures", ROWLOCK_CARE, "calls of them fail",
                       "`rowlock init` makes them again; what was granted on each by itself may "
                       "have to be granted again",
                       "%u of %u are missing, %s for one", seen.all - seen.there, seen.all,
                       seen.missing);
    else if (seen.there < seen.all)
        rl_doctor_tell(d, "procedures", ROWLOCK_NOTE,
                       "a CALL of one of the others fails, with error 1305 or 1370",
                       "`rowlock init` makes what is missing; what is there and not seen takes the "
                       "privilege EXECUTE",
                       "%u of %u are there and this user's to see, as of this program (%s)",
                       seen.there, seen.all, rowlock_version());
    else
        rl_doctor_fine(d, "procedures",
                       "all %u, the internal ones counted, as of this program (%s)", seen.there,
                       rowlock_version());
}

static void check_event(rl_doctor *d)
{
    /* information_schema has no row of it for a user without the privilege EVENT; this is refused
     * then.
     */
    const rowlock_status shown =
        rl_query_text(d->conn, RL_SQL_DOCTOR_EVENT_RIGHT, NULL, &d->io, NULL, NULL, NULL);
    const rl_value values[] = {rl_u64(d->server->read_only),
                               rl_u64(rl_many_writers(d->server->cluster, false)),
                               rl_u64(shown != ROWLOCK_OK)};
    unsigned told = 0;
    rowlock_error err = {0};
    rowlock_status status = rl_doctor_tell_rows(d, RL_SQL_DOCTOR_EVENT, values, &told, &err);
    if (told > 0)
        return;
    if (status == ROWLOCK_OK || err.server_errno == NO_SUCH_TABLE)
        rl_doctor_fine(d, "event", "the server does not sweep by itself (`rowlock init --event`)");
    else if (status == ROWLOCK_DENIED)
        /* No statement: it would fail where the table is not there, and that is hidden, too. */
        rl_doctor_tell(
            d, "event", ROWLOCK_NOTE, "the table is there once the event was installed",
            rl_doctor_text(
                d, "where `rowlock init --event` was run, the right SELECT on `%s`.sweep_event",
                d->params->schema),
            "whether the server sweeps by itself is hidden from this user");
    else
        rl_doctor_tell(d, "event", ROWLOCK_NOTE, "", "",
                       "whether the server sweeps by itself cannot be read: %s", err.message);
}

/* --------------------------------------------------- as a member of a quorum */

/* Where the schema is an older one, that was told. */
static void check_quorum(rl_doctor *d)
{
    const rl_value values[] = {rl_text(d->server->identity_text)};
    unsigned told = 0;
    rowlock_error err = {0};
    rowlock_status status = rl_doctor_tell_rows(d, RL_SQL_DOCTOR_QUORUM, values, &told, &err);
    if (status == ROWLOCK_DENIED)
        rl_doctor_tell(d, "quorum", ROWLOCK_NOTE, "", "",
                       "whether the server is a member of a quorum is hidden from this user");
}

static void check_replica(rl_doctor *d)
{
    rl_rows rows;
    bool found = false;
    rowlock_status status;
    RL_UNTIL_HEARD(d, status,
                   rl_query_one(d->conn, RL_SQL_DOCTOR_REPLICA, NULL, &d->io, &found, &rows, NULL));
    if (status != ROWLOCK_OK || !found)
        rl_doctor_tell(
            d, "replica", ROWLOCK_NOTE,
            "a member that replicates another one has no vote of its own",
            /* not run */
            rl_doctor_text(
                d, "GRANT SELECT ON performance_schema.replication_connection_status TO %s;",
                d->grantee),
            "this user may not see whether the server replicates another one");
    else if (rows.cells[0].u64 > 0)
        rl_doctor_tell(d, "replica", ROWLOCK_BROKEN,
                       "what it replicates may overwrite its votes: two holders",
                       "let it replicate nobody, or take another server for a member",
                       "it replicates another server");
    else
        rl_doctor_fine(d, "replica", "it replicates nobody");
}

static void look_at_member(rl_doctor *d)
{
    rl_rows rows;
    bool found = false;
    rowlock_status status;
    if (!d->member)
        return;
    check_replica(d);
    RL_UNTIL_HEARD(d, status,
                   rl_query_one(d->conn, RL_SQL_DOCTOR_MEMBER, NULL, &d->io, &found, &rows, NULL));
    if (status != ROWLOCK_OK || !found)
        return;
    d->member->seen = true;
    d->member->ahead_us = (int64_t)rows.cells[1].u64 - here_us();
    snprintf(d->member->identity, sizeof d->member->identity, "%s", d->server->identity_text);
    snprintf(d->member->list, sizeof d->member->list, "%s", rows.cells[0].text);
}

/* ------------------------------------------------------------------------- the whole */

static rowlock_status open_conn(rl_doctor *d, bool with_schema, int64_t limit_ms,
                                rowlock_error *err)
{
    rl_params to = *d->params;
    to.connect_timeout_ms = limit_ms;
    if (!with_schema)
        to.schema = NULL;
    RL_TRY(rl_conn_open(&to, &d->io, &d->conn, err));
    RL_TRY(rl_session_setup(d->conn, RL_WORK, &d->io, err));
    return with_schema ? rl_session_name_schema(d->conn, d->params, &d->io, err) : ROWLOCK_OK;
}

static rowlock_status try_to_open(void *data, int64_t limit_ms, rowlock_error *err)
{
    rl_doctor *d = data;
    rl_conn_close(d->conn);
    d->conn = NULL;
    d->io = rl_io_until(rl_time_add(rl_now_us(), LOOK_US));
    return open_conn(d, true, limit_ms, err);
}

static rowlock_status reach_server(rl_doctor *d, rowlock_error *err)
{
    const rl_reach how = {.retry_ms = d->params->retry_ms,
                          .limit_ms = d->params->connect_timeout_ms};
    return rl_reach_server(&how, try_to_open, d, err);
}

static rowlock_status check_all(rl_doctor *d, bool with_schema, rowlock_error *err)
{
    check_version(d);
    RL_TRY(check_settings(d, err));
    check_cluster(d);
    check_tls(d);
    check_identity(d);
    check_waiting(d);
    RL_TRY(check_clock(d, err));
    rl_doctor_check_blocked(d);
    if (with_schema && check_schema(d)) {
        check_kinds(d);
        rl_doctor_try_statements(d, rl_doctor_check_rights(d, false));
        check_queues(d);
        check_waiters(d);
        check_gaps(d);
        check_procedures(d);
        check_event(d);
        check_quorum(d);
        look_at_member(d);
    }
    return ROWLOCK_OK;
}

static void tell_no_schema(rl_doctor *d)
{
    char where[RL_DASH_D_SIZE];
    rl_doctor_tell(d, "schema", ROWLOCK_BROKEN, "nothing works until it is there",
                   rl_doctor_text(d,
                                  "run `rowlock%s init`, once, as a user who may make it: "
                                  "sql/grants.sql (share/rowlock/grants.sql)",
                                  rl_schema_dash_d(d->params->schema, where)),
                   "there is no schema '%s' on the server", d->params->schema);
}

/* Who has no right in a schema is not told whether it is there. */
static void tell_hidden_schema(rl_doctor *d)
{
    const char *schema = d->params->schema;
    char where[RL_DASH_D_SIZE];
    rl_schema_dash_d(schema, where);
    const char *remedy =
        d->params->via
            ? rl_doctor_text(d,
                             "let an administrator run `rowlock%s init --procedures`, if "
                             "nobody has, and then GRANT EXECUTE ON `%s`.* TO %s;",
                             where, schema, d->grantee)
            : rl_doctor_text(
                  d,
                  "let an administrator run `rowlock%s init`, if nobody has, and "
                  "then give what sql/grants.sql (share/rowlock/grants.sql) has for this "
                  "user's work",
                  where);
    rl_doctor_tell(d, "schema", ROWLOCK_BROKEN, "nothing works until it has some", remedy,
                   "%s has no rights in the schema '%s', if there is one", d->grantee, schema);
}

typedef enum schema_sight { SCHEMA_SEEN, SCHEMA_HIDDEN, SCHEMA_NONE } schema_sight;

/* No such schema, or not for this user: the server can still be looked at. */
static rowlock_status open_somehow(rl_doctor *d, schema_sight *seen, rowlock_error *err)
{
    rowlock_error first = {0};
    rowlock_status status = reach_server(d, &first);
    if (status == ROWLOCK_DENIED && first.server_errno == 1044)
        *seen = SCHEMA_HIDDEN;
    else if (status == ROWLOCK_SCHEMA)
        *seen = SCHEMA_NONE;
    else
        *err = first;
    if (*seen == SCHEMA_SEEN)
        return status;
    rl_conn_close(d->conn);
    d->conn = NULL;
    return open_conn(d, false, d->params->connect_timeout_ms, err);
}

static void check_unseen(rl_doctor *d, schema_sight seen)
{
    if (seen == SCHEMA_HIDDEN)
        tell_hidden_schema(d);
    else
        tell_no_schema(d);
    /* Rights on tables cannot be granted before the tables are there. */
    if (seen == SCHEMA_HIDDEN || rl_role_is_of_schema(d->wants->role))
        (void)rl_doctor_check_rights(d, true);
}

static rowlock_status examine(rl_doctor *d, schema_sight seen, rowlock_error *err)
{
    if (!d->wants->rights_only)
        RL_TRY(check_all(d, seen == SCHEMA_SEEN, err));
    else if (seen == SCHEMA_SEEN)
        (void)rl_doctor_check_rights(d, false);
    if (seen != SCHEMA_SEEN)
        check_unseen(d, seen);
    return ROWLOCK_OK;
}

/* The role `procedures` means via=procedures, and the other way round, also for a user that only
 * looks. */
static rowlock_status settle_role(rl_params *params, rl_wants *wants, rowlock_error *err)
{
    if (!wants->role || (params->via && strcmp(wants->role, "looker") == 0))
        wants->role = params->via ? "procedures" : "batch";
    RL_TRY(rl_role_check(wants->role, err));
    params->via = strcmp(wants->role, "procedures") == 0;
    return ROWLOCK_OK;
}

/* True if this user may execute the procedures, and not read the tables: then its role is
 * `procedures`, though no option says so. */
static bool has_execute_alone(rl_doctor *d)
{
    const rl_value resource[] = {rl_quoted("resource")};
    rl_rows rows;
    bool found = false;
    rowlock_status status;
    RL_UNTIL_HEARD(d, status, rl_run_text(d->conn, RL_SQL_DOCTOR_MAY_READ, resource, &d->io, NULL));
    if (status != ROWLOCK_DENIED)
        return false;
    d->conn->session.via = true;
    RL_UNTIL_HEARD(d, status,
                   rl_query_one(d->conn, RL_SQL_VIA_STAMP, NULL, &d->io, &found, &rows, NULL));
    d->conn->session.via = status == ROWLOCK_OK && found;
    return d->conn->session.via;
}

static void choose_procedures(rl_doctor *d, rl_wants *wants)
{
    wants->role = "procedures";
    d->params->via = true;
    rl_doctor_tell(d, "via", ROWLOCK_NOTE,
                   "without via=procedures its calls answer DENIED; what follows is as with it",
                   "--via=procedures, or via=procedures in the URL",
                   "this user has EXECUTE alone, and works through the procedures");
}

/* `wants`: a copy, which is settled here; `free_to_choose`: no option names the user's role. */
static rowlock_status diagnose(rl_doctor *d, rl_wants *wants, bool free_to_choose,
                               rowlock_error *err)
{
    schema_sight seen = SCHEMA_SEEN;
    RL_TRY(open_somehow(d, &seen, err));
    d->server = &d->conn->server;
    rowlock_status status;
    if (free_to_choose && seen == SCHEMA_SEEN && has_execute_alone(d))
        choose_procedures(d, wants);
    RL_UNTIL_HEARD(d, status, rl_session_ask_account(d->conn, &d->io, err));
    RL_TRY(status);
    rl_session_grantee(d->conn, ROWLOCK_DENIED, d->grantee, sizeof d->grantee);
    status = examine(d, seen, err);
    if (rl_doctor_could_look(d))
        return status;
    return rl_fail(err, ROWLOCK_UNAVAILABLE, "not all could be looked at: %s",
                   d->conn->broken ? "the connection to the server was lost"
                                   : "statements are stopped again and again (KILL QUERY)");
}

rowlock_status rl_doctor_diagnose(rl_params *params, const rl_wants *given,
                                  rl_doctor_member *member, rowlock_finding_fn fn, void *data,
                                  rowlock_error *err)
{
    rl_wants wants = *given;
    rl_doctor d = {.params = params, .wants = &wants, .fn = fn, .data = data, .member = member};
    rowlock_error first = {0};
    const bool free_to_choose = !wants.role && !params->via;
    RL_TRY(settle_role(params, &wants, err));
    rowlock_status status = diagnose(&d, &wants, free_to_choose, &first);
    rl_conn_close(d.conn);
    if (status != ROWLOCK_OK && err)
        *err = first;
    return status;
}

rowlock_status rl_diagnose(rl_params *params, const rl_wants *wants, rowlock_finding_fn fn,
                           void *data, rowlock_error *err)
{
    return rl_doctor_diagnose(params, wants, NULL, fn, data, err);
}
