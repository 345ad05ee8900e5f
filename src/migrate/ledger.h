/*
 * migrate/ledger.h - the history of a user's migrations, and the guard that decides who may write
 * it (sql/ledger.sql).
 *
 * Every write compares the writer's token with the guard row's, so that a migrator that was
 * taken over writes nothing more. The connection on which files are run keeps a named lock, the
 * marker: its end can be seen, and waited for.
 */
#ifndef RL_MIGRATE_LEDGER_H
#define RL_MIGRATE_LEDGER_H

#include "db/pool.h"
#include "rowlock/rowlock_admin.h"
#include "rowlock/rowlock_migrate.h"
#include "stmt/stmt.h"

/* The command that messages tell people to run. */
#define RL_REPAIR(how) "`rowlock migrate repair " how "` with this run's options and folder"

/* A file's row. Its texts are as long as the table's columns. */
typedef struct rl_record {
    uint64_t version;
    char name[1281];
    char checksum[65];
    char done_checksum[65]; /* of the statements that are done */
    unsigned steps;
    unsigned done; /* statements that have taken effect for good */
    unsigned running;
    bool whole;
    bool decided;
    bool applied;
    char statement[1021];
    char error[2401];
    char who[1021];
    uint64_t token;
    char started_at[27];
    char applied_at[27];
    uint64_t duration_ms;
} rl_record;

typedef struct rl_ledger {
    rl_record *records; /* by version */
    size_t count;
    size_t capacity;
    char lock_name[1281]; /* of row 0; "": not known yet */
} rl_ledger;

/* Row 0. */
typedef struct rl_guard {
    uint64_t token;
    char lock_name[1281];
    char who[1021];
    uint64_t connection_id; /* the connection that runs files; 0: none */
    uint64_t server;        /* the server that gave the number */
    uint64_t age_s;         /* time since that was registered */
} rl_guard;

/* A schema that is migrated, as one call sees it. The strings are the caller's. */
typedef struct rl_site {
    const rowlock_migrations_options *options; /* with the defaults filled in */
    const char *schema;
    const char *table;
    const char *who;
    char lock_name[1281]; /* with its schema */
    const char *lock;     /* without its schema */
    rowlock_hold *hold;
    rowlock_status (*check)(const rowlock_hold *hold); /* OK: the lock is ours. No round trip */
    uint64_t token;                                    /* ours */
    rl_budget budget; /* of the wait for a dead migrator's connection; its cancel ends everything */
    unsigned file;    /* the number of the file at work, among those to be run */
    unsigned files;
    rl_pool pool; /* leads to the schema */
    bool open;
    char marker[65];
    uint64_t packet;     /* bytes that a statement may have */
    bool no_backslashes; /* the server's sql_mode */
    bool ansi_quotes;
    rl_server server; /* as it was when the site was opened */
} rl_site;

/* The time limit for a change of the history: enough for an outage and for a wait for its rows. */
rl_io rl_ledger_io(void);

/*
 * Connects. `params` are copied, except the schema. SCHEMA: there is no such schema. UNSUPPORTED:
 * connections cannot be ended by number here. Close it on every status. `err` must not be NULL,
 * here and for rl_ledger_read(), _make() and _begin().
 */
rowlock_status rl_site_open(rl_site *site, const rl_params *params, bool single_writer,
                            rowlock_error *err) RL_MUST_USE;
void rl_site_close(rl_site *site);

/* Reads the history; it is empty if there is no table yet. REPAIR: it belongs to another lock. Free
 * it on every status. */
rowlock_status rl_ledger_read(rl_site *site, rl_ledger *ledger, rowlock_error *err) RL_MUST_USE;
void rl_ledger_free(rl_ledger *ledger);

/* Makes the table and row 0, if they are missing. */
rowlock_status rl_ledger_make(rl_site *site, rowlock_error *err) RL_MUST_USE;

rowlock_status rl_guard_read(rl_site *site, rl_guard *guard, rowlock_error *err) RL_MUST_USE;

/* Writes our token into the guard. REPAIR: the history belongs to another lock, or the lock's
 * tokens have begun anew; with `anyhow` our token is written in any case. */
rowlock_status rl_guard_enter(rl_site *site, bool anyhow, rowlock_error *err) RL_MUST_USE;

/* UNAVAILABLE: the connection leads to another server than the site's first one did. */
rowlock_status rl_site_same(const rl_site *site, const rl_conn *conn,
                            rowlock_error *err) RL_MUST_USE;

/* Registers the connection on which files are run; 0: none. LOST: the guard has another token. */
rowlock_status rl_guard_register(rl_site *site, uint64_t connection_id, rowlock_error *err);

/* Makes a file's row. LOST, here and below: the guard has another token. */
rowlock_status rl_ledger_begin(rl_site *site, uint64_t version, const char *name,
                               rowlock_error *err) RL_MUST_USE;
/* Writes a file's row. `on`: one attempt on that connection, on which the statement is prepared;
 * NULL: on a connection of the site's. */
rowlock_status rl_ledger_note(rl_site *site, rl_conn *on, const rl_record *record,
                              rowlock_error *err);
/* Writes an applied file's name, checksums and number of statements; the rest of its row stays. */
rowlock_status rl_ledger_adopt(rl_site *site, const char *name, const rl_record *record,
                               rowlock_error *err) RL_MUST_USE;
rowlock_status rl_ledger_forget(rl_site *site, uint64_t version, rowlock_error *err) RL_MUST_USE;

/* Returns LOST, with a message for a lost lock. */
rowlock_status rl_site_lost(const rl_site *site, rowlock_error *err);

/* The connection that has the marker; 0: none. */
rowlock_status rl_marker_holder(rl_site *site, uint64_t *connection_id,
                                rowlock_error *err) RL_MUST_USE;

/*
 * Ends a connection by its number, which it got at most `age_s` ago: if the server was started
 * since, another connection may have the number. *ended: there is no such connection any more, and
 * it does not have the marker, so its statement is undone, too. (The marker alone does not prove
 * it: a file may have released all its locks.)
 */
rowlock_status rl_site_end(rl_site *site, uint64_t connection_id, uint64_t age_s, bool *ended,
                           rowlock_error *err);

#endif
