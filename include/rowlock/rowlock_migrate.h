/*
 * rowlock/rowlock_migrate.h - migrations of your own schema, under a lock.
 *
 * A folder has numbered files of SQL (0001_what.sql, 0002_more.sql, ...); a table in the schema,
 * the history, lists the files that were applied. rowlock_migrations_apply() runs the others, in
 * the order of their numbers, while it holds a lease, so that of any number of processes on any
 * number of hosts one does it.
 *
 * WHAT KEEPS TWO FROM RUNNING
 *   - The lease, renewed on connections of its own: neither the implicit COMMIT of a DDL statement
 *     nor anything that a file does to its session can drop it.
 *   - When it is lost, the statement that runs is killed and the call ends.
 *   - The next migrator has a higher fencing token and writes it into the history, with which each
 *     migrator compares its own at every write. Before its first statement it ends the connection
 *     of the last migrator and waits until the server has undone that one's statement.
 *
 * WHAT IS KNOWN AFTERWARDS
 *   DDL commits by itself, so a file is no transaction. Before each statement the call writes into
 *   the history which one it is, so that the history says how far a file came that was stopped
 *   (killed, an error, a lost connection). Where the server has answered, the next call goes on
 *   there, also if the rest of the file was changed meanwhile. Where it is not known whether a
 *   statement took effect, the next call refuses (ROWLOCK_REPAIR) and says what to look at; give
 *   your decision by rowlock_migrations_repair().
 *
 * THE FILES
 *   Named NUMBER_what.sql or VNUMBER__what.sql; UTF-8. Those named R__what.sql are repeatable
 *   (views, procedures): they are run after the numbered ones, by name, and again whenever their
 *   text, or the value of one of its placeholders, has changed. Statements end as for the mysql
 *   client: with a semicolon, or with the mark that a line "DELIMITER //" sets. Each file is run on
 *   a connection of its own, with the server's defaults for its session. Lines at its top may say
 *     -- rowlock: transaction        all of it in one transaction (no DDL, no CALL then)
 *     -- rowlock: resumable          each statement may be run again after an interruption
 *     -- rowlock: sql_mode=A,B       the session's sql_mode, by which quotes are read, too
 *
 * Conventions, and the statuses that any call may answer, are those of rowlock.h.
 */
#ifndef ROWLOCK_MIGRATE_H
#define ROWLOCK_MIGRATE_H

#include "rowlock/rowlock.h"

#ifdef __cplusplus
extern "C" {
#endif

#define ROWLOCK_MIGRATIONS_TABLE      "rowlock_migration"
/* The number of a repeatable file, which has none in its name, is at least this. */
#define ROWLOCK_MIGRATIONS_REPEATABLE (UINT64_C(1) << 63)

typedef enum rowlock_migrations_event {
    ROWLOCK_MIGRATIONS_LOCKING = 0,   /* about to take the lock, which may mean to wait */
    ROWLOCK_MIGRATIONS_ENDING = 1,    /* waits for the end of a dead migrator's connection */
    ROWLOCK_MIGRATIONS_STATEMENT = 2, /* about to run one */
    ROWLOCK_MIGRATIONS_APPLIED = 3,   /* a file is done */
    ROWLOCK_MIGRATIONS_REPAIRED = 4   /* a file's row in the history was corrected */
} rowlock_migrations_event;

/* Strings are "" where there is nothing to say, and valid during the call only. */
typedef struct rowlock_migrations_progress {
    rowlock_migrations_event event;
    const char *name;       /* the lock's, or the file's */
    const char *statement;  /* its first line; the next ones, too, where that is one word. REPAIRED:
                               what was corrected */
    unsigned step;          /* 1 .. steps */
    unsigned steps;         /* of the file */
    unsigned file;          /* 1 .. files */
    unsigned files;         /* that this call is to apply */
    uint64_t connection_id; /* ENDING: of the dead migrator */
    int64_t elapsed_ms;     /* APPLIED: of the file */
    uint64_t version;       /* the file's number */
} rowlock_migrations_progress;

/* Called from the thread that applies, with no mutex held. */
typedef void (*rowlock_migrations_fn)(void *data, const rowlock_migrations_progress *progress);

typedef struct rowlock_migrations_options {
    const char *folder;    /* where the files are; needed */
    const char *schema;    /* that is migrated, on the client's server; needed, and must be there */
    const char *table;     /* the history, [A-Za-z0-9_$]{1,64}; NULL: ROWLOCK_MIGRATIONS_TABLE */
    const char *lock;      /* the lease's name; NULL: "migrate:" and the schema */
    int64_t wait_ms;       /* for other migrators; 0: 600000 (10 minutes); < 0: forever */
    int64_t ttl_ms;        /* of the lease; 0: 30000 */
    uint64_t target;       /* the number up to which to apply; 0: all */
    int64_t table_wait_ms; /* how long a statement may wait for a table that a transaction uses
                              (lock_wait_timeout); in whole seconds, 0: 30000 */
    bool out_of_order;     /* apply a file whose number is below one that is applied */
    rowlock_cancel *cancel; /* the library fires it, too, when the lock is lost */
    rowlock_migrations_fn progress;
    void *progress_data;
    /* "name=value", a NULL after the last: put in place of ${name} in each file, where any other
     * name is INVALID. NULL: ${ is text like any other. A value is no secret: it may be in
     * messages, and in the history's `statement`. */
    const char *const *placeholders;
    uint64_t reserved[7];
} rowlock_migrations_options;

typedef struct rowlock_migrations_result {
    unsigned applied; /* files, by this call */
    uint64_t version; /* the highest number that is applied now; 0: none, or, on an error, it is not
                         known */
    uint64_t reserved[4];
} rowlock_migrations_result;

/*
 * Applies the files that are not applied yet, as `rowlock migrate` does. (rowlock_migrate(), in
 * rowlock_admin.h, makes rowlock's own schema.) OK also when there was nothing to do. The result is
 * filled on every status: the files that were applied until then. It may be NULL. A message about a
 * statement has its file, its number and its line.
 *
 *   REPAIR       the history and the folder do not fit together, and somebody has to decide (the
 *                message says what to look at); nothing was run
 *   TIMEOUT      another migrator is at work, or the connection of the last one has not ended yet;
 *                nothing was run
 *   FROZEN       in place of TIMEOUT: the lock's name is frozen; nothing was run
 *   LOST         the lock was lost: stopped, and the history says where
 *   CANCELLED    `cancel` was fired: stopped, and the history says where
 *   UNKNOWN      the connection was lost: stopped, and the history says where
 *   UNAVAILABLE  the server cannot be reached, or another one answers (a failover); a file that was
 *                begun is stopped before a statement, and the history says where
 *   BUSY         a connection of another migrator still marks this history and does not end
 *   INVALID      an argument, or a file is not as it should be; nothing was run. A file that ends
 *                the transaction for which it asks, that ends in an open transaction, or that
 *                changes how quotes are read, is found while it runs: stopped, and the history says
 *                where
 *   FAILED       the server answered a statement with an error (also: this user lacks a privilege),
 *                whose number and SQLSTATE are in `err`: stopped, and the history says where
 *   DENIED       this user may not use the history
 *   SCHEMA       there is no such schema
 *   DAMAGED      the table is no history of rowlock's
 *   SYSTEM       also: the folder or a file cannot be read
 *   MODE         the lock's name is of row locks
 *   UNSUPPORTED  a node of a cluster with many writers without single_writer, or a proxy that hides
 *                connections: a migrator on another node could not be ended
 */
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status
rowlock_migrations_apply(rowlock_client *client, const rowlock_migrations_options *options,
                         rowlock_migrations_result *result, rowlock_error *err);

/* ------------------------------------------------------------------ looking */

typedef enum rowlock_migrations_state {
    ROWLOCK_MIGRATIONS_PENDING = 0, /* not applied */
    ROWLOCK_MIGRATIONS_DONE = 1,    /* applied */
    ROWLOCK_MIGRATIONS_STOPPED = 2, /* not run to its end; the next call goes on */
    ROWLOCK_MIGRATIONS_UNKNOWN = 3, /* whether a statement took effect is not known, or it cannot
                                       go on by itself */
    ROWLOCK_MIGRATIONS_CHANGED = 4, /* the file was changed after it was applied */
    ROWLOCK_MIGRATIONS_MISSING = 5, /* applied, and the file is not in the folder */
    ROWLOCK_MIGRATIONS_LATE = 6,    /* not applied, and one with a higher number is */
    ROWLOCK_MIGRATIONS_RUNNING = 7  /* somebody is at work on it, or died less than the TTL ago */
} rowlock_migrations_state;

/* Strings are "" where there is nothing to say; times are UTC, "YYYY-MM-DD HH:MM:SS.ffffff". */
typedef struct rowlock_migrations_file {
    uint64_t version;
    const char *name;
    rowlock_migrations_state state;
    bool wanted;            /* rowlock_migrations_apply() would run it, or the rest of it */
    const char *problem;    /* why that call refuses, and what to do */
    unsigned steps;         /* statements in the file (or that were in it) */
    unsigned steps_done;    /* of those, that have taken effect for good */
    unsigned running;       /* the one that was begun after them; 0: none, or all
                               of it is one transaction */
    const char *statement;  /* the first line of the one begun last */
    const char *error;      /* what the server answered to it */
    const char *checksum;   /* SHA-256, as applied; CR LF counts as LF */
    const char *started_at; /* when it was begun last */
    const char *applied_at;
    const char *applied_by; /* the client's label */
    uint64_t token;         /* the fencing token under which it was run */
    int64_t duration_ms;    /* -1: not applied */
} rowlock_migrations_file;

typedef struct rowlock_migrations_list rowlock_migrations_list;

/*
 * Compares the folder with the history, by number. Changes nothing and takes no lock. Free with
 * rowlock_migrations_free(), which frees the files too.
 *
 *   INVALID      an argument, or a file is not as it should be
 *   REPAIR       the history is kept under another lock
 *   SCHEMA       there is no such schema
 *   DAMAGED      the table is no history of rowlock's
 *   SYSTEM       also: the folder or a file cannot be read
 *   UNSUPPORTED  as rowlock_migrations_apply()
 */
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status
rowlock_migrations_get(rowlock_client *client, const rowlock_migrations_options *options,
                       rowlock_migrations_list **list, rowlock_error *err);
ROWLOCK_API size_t rowlock_migrations_count(const rowlock_migrations_list *list);
ROWLOCK_API const rowlock_migrations_file *
rowlock_migrations_at(const rowlock_migrations_list *list, size_t i);

/* One statement of a file: not NUL-terminated, valid as long as the list. */
typedef struct rowlock_migrations_statement {
    unsigned step;
    unsigned line; /* of the file, in which it begins */
    const char *text;
    size_t length;
} rowlock_migrations_statement;
typedef void (*rowlock_migrations_statement_fn)(void *data,
                                                const rowlock_migrations_statement *statement);
/* Each statement of the i-th file, as it would be sent; none when there is no file. */
ROWLOCK_API void rowlock_migrations_statements(const rowlock_migrations_list *list, size_t i,
                                               rowlock_migrations_statement_fn fn, void *data);
ROWLOCK_API void rowlock_migrations_free(rowlock_migrations_list *list);

/* ---------------------------------------------------------------- repairing */

/* What to correct; members that are zero leave the history as it is. */
typedef struct rowlock_migrations_repair_options {
    uint64_t version;  /* of `done`; 0: the one file that was stopped */
    bool has_done;     /* `done` statements of it have taken effect: the next call goes on after */
    unsigned done;     /* these; all of them: the file is applied */
    bool checksums;    /* the files as they are now are what was applied (CHANGED) */
    uint64_t forget;   /* remove this number from the history */
    uint64_t baseline; /* all files up to this number are applied, without running them */
    bool gone;         /* the last migrator's connection to another server has ended, for sure */
    uint64_t reserved[8];
} rowlock_migrations_repair_options;

/*
 * Corrects the history, under the lock, and changes nothing else in the schema. It can also hand
 * the history over to another lock. `repaired`, written on every status, may be NULL: how many
 * files were corrected. The other statuses are those of rowlock_migrations_apply().
 *
 *   NOT_FOUND  no file was stopped (has_done), or the history has no such number (forget)
 *   INVALID    also: two files were stopped and `version` does not say which one, or the file has
 *              fewer statements than `done`
 *   REPAIR     the last migrator worked on another server, and `gone` is not set
 */
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status rowlock_migrations_repair(
    rowlock_client *client, const rowlock_migrations_options *options,
    const rowlock_migrations_repair_options *repair, unsigned *repaired, rowlock_error *err);

#ifdef __cplusplus
}
#endif

#endif
