/*
 * rowlock/rowlock.h - distributed locks that live where your data lives.
 *
 * THE MODEL
 *   A lock has a name and lives as rows in a MariaDB or MySQL schema (default
 *   `rowlock`, made by `rowlock init`). There are two modes, and a name belongs
 *   to the one it was first used in:
 *
 *   ROWLOCK_OPTIMISTIC   A lease: a compare-and-swap takes the row and sets an
 *                        expiry by the server's clock. A keeper thread renews it
 *                        every TTL/3. It outlives a lost connection, not its TTL.
 *   ROWLOCK_PESSIMISTIC  A row lock: SELECT ... FOR UPDATE on a connection of its
 *                        own. It ends with that connection, which the server
 *                        itself closes when it hears nothing for the TTL.
 *
 *   A held lock is a `rowlock_hold`. Every change of hands gives a higher number,
 *   the fencing token; hand it to whatever you write to, and let it refuse a
 *   lower one.
 *
 * THE CAVEATS
 *   - A lease is time. If your process is stopped for longer than the TTL, it is
 *     no longer the holder when it wakes up; rowlock_hold_check() says so, but
 *     code that is between the check and a write cannot be stopped by any lock
 *     service. Use the token, rowlock_fence(), or rowlock_tx_acquire().
 *   - A lock is the word of the server that granted it. When another one answers (a
 *     failover), it is LOST; the new one may have lost it, and its token, before.
 *   - A step of the *server's* wall clock can end a lease early. The token still
 *     rises. No client's clock is ever compared with anything.
 *   - After fork() the child must not use the parent's client: its calls answer
 *     ROWLOCK_FORKED, and closing it there frees memory without ending the
 *     parent's sessions. exec() is safe: every descriptor is close-on-exec.
 *   - The library never prints, exits, or changes how a signal is handled.
 *
 * EXAMPLE
 *     rowlock_error err;
 *     rowlock_client *client = NULL;
 *     rowlock_hold *hold = NULL;
 *     if (rowlock_client_open(&(rowlock_client_options){
 *             .url = "mysql://batch@db1/rowlock"}, &client, &err) != ROWLOCK_OK ||
 *         rowlock_acquire(client, "nightly-close", &(rowlock_acquire_options){
 *             .wait_ms = 5000, .ttl_ms = 30000}, &hold, &err) != ROWLOCK_OK) {
 *         fprintf(stderr, "%s\n", err.message);
 *     } else {
 *         close_the_books(rowlock_hold_token(hold));
 *         if (rowlock_release(hold, &err) != ROWLOCK_OK)
 *             fprintf(stderr, "%s\n", err.message);
 *     }
 *     rowlock_client_close(client);
 *
 * CONVENTIONS
 *   Every fallible call returns a rowlock_status and must be looked at. Outputs
 *   come last and are written only on ROWLOCK_OK (unless said otherwise). The
 *   `err` argument may be NULL; it is filled on every status but ROWLOCK_OK.
 *   Option structs are valid when zeroed; NULL options mean all defaults. Set
 *   the `reserved` members to zero. Durations carry their unit in their name.
 *   Destructors take NULL. A client may be used by any number of threads at
 *   once; a hold may be read (token, check, remaining ...) by any thread, and
 *   is released once.
 */
#ifndef ROWLOCK_H
#define ROWLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rowlock/version.h"

#if defined(__GNUC__) || defined(__clang__)
#define ROWLOCK_API      __attribute__((visibility("default")))
#define ROWLOCK_MUST_USE __attribute__((warn_unused_result))
#else
#define ROWLOCK_API
#define ROWLOCK_MUST_USE
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------ limits */

#define ROWLOCK_NAME_MAX       255      /* characters (not bytes) in a lock's name */
#define ROWLOCK_OWNER_MAX      63       /* bytes in an owner id */
#define ROWLOCK_LABEL_MAX      255      /* bytes of an owner label that are kept */
#define ROWLOCK_TTL_DEFAULT_MS 30000    /* used where ttl_ms is 0 */
#define ROWLOCK_TTL_MIN_MS     500      /* lease; pessimistic rounds up to whole seconds */
#define ROWLOCK_TTL_MAX_MS     86400000 /* 24 hours */
#define ROWLOCK_WAIT_FOREVER   (-1)     /* for wait_ms */
#define ROWLOCK_SET_MAX        64       /* names in one rowlock_acquire_set() */

/* ---------------------------------------------------------------- statuses */

/*
 * X(NAME, number, exit status of the `rowlock` command, meaning). The numbers
 * never change. Switch over them without a default, so that the compiler tells
 * you what a later version adds.
 */
#define ROWLOCK_STATUS_MAP(X)                                                                      \
    X(OK, 0, 0, "done")                                                                            \
    X(BUSY, 1, 1, "somebody else holds the lock (and the call was not to wait)")                   \
    X(TIMEOUT, 2, 1, "the wait ended before the lock was free")                                    \
    X(CONFLICT, 3, 1, "the row was changed by somebody else at every attempt")                     \
    X(CANCELLED, 4, 1, "the call was cancelled from another thread")                               \
    X(DEADLOCK, 5, 72, "the server rolled the transaction back to end a deadlock")                 \
    X(LOST, 6, 75, "the lock is no longer held")                                                   \
    X(UNAVAILABLE, 7, 69, "the server cannot be reached; nothing was changed")                     \
    X(UNKNOWN, 8, 74, "the reply was lost; the change may have been made or not")                  \
    X(DENIED, 9, 77, "the server refuses the user, the password or a privilege")                   \
    X(INVALID, 10, 64, "an argument is not valid; nothing was changed")                            \
    X(MODE, 11, 65, "the name belongs to another kind of lock")                                    \
    X(SCHEMA, 12, 78, "the schema is missing, or older or newer than this program needs")          \
    X(DAMAGED, 13, 76, "a table is not as this program made it")                                   \
    X(READONLY, 14, 73, "the server is read-only or not the primary")                              \
    X(UNSUPPORTED, 15, 79, "this server cannot do that safely")                                    \
    X(NOT_FOUND, 16, 66, "there is no such lock")                                                  \
    X(FORKED, 17, 70, "the client belongs to the parent process")                                  \
    X(SYSTEM, 18, 71, "the operating system refused memory, a thread or a descriptor")             \
    X(SERVER, 19, 67, "the server answered with an error this program does not expect")            \
    X(REPAIR, 20, 68, "the migrations stopped in a state that needs a decision")

typedef enum rowlock_status {
#define ROWLOCK_STATUS_ENUM(name, number, exit_status, text) ROWLOCK_##name = number,
    ROWLOCK_STATUS_MAP(ROWLOCK_STATUS_ENUM)
#undef ROWLOCK_STATUS_ENUM
} rowlock_status;

/* "BUSY", "LOST", ...; "?" for a number that is no status. Static storage. */
ROWLOCK_API const char *rowlock_status_name(rowlock_status status);
/* One line of meaning, as in the table above. Static storage. */
ROWLOCK_API const char *rowlock_status_text(rowlock_status status);
/* The exit status the `rowlock` command gives for it (sysexits where one fits). */
ROWLOCK_API int rowlock_status_exit(rowlock_status status);

/*
 * What went wrong, for people and for logs. `message` is one line: what, which
 * lock, what to do. It never holds a password. `server_errno`, `sqlstate` and
 * `statement` (the name of the statement in sql/) are set where a server or the
 * client library answered, else 0 and "".
 */
typedef struct rowlock_error {
    rowlock_status status;
    unsigned server_errno;
    char sqlstate[6];
    char statement[48];
    char message[600];
} rowlock_error;

/* ------------------------------------------------------------------ client */

typedef struct rowlock_client rowlock_client; /* connections, keeper, owner identity */
typedef struct rowlock_hold rowlock_hold;     /* one held lock (or one set of them) */
typedef struct rowlock_cancel rowlock_cancel; /* stops a waiting call */

typedef enum rowlock_log_level {
    ROWLOCK_LOG_ERROR = 0,
    ROWLOCK_LOG_WARNING = 1,
    ROWLOCK_LOG_INFO = 2,
    ROWLOCK_LOG_DEBUG = 3,
} rowlock_log_level;

/*
 * Called with no mutex held, from the calling thread or one of the client's. `line` has
 * no newline and no secret, and is valid during the call only. It may call the
 * library, but not rowlock_client_close().
 */
typedef void (*rowlock_log_fn)(void *data, rowlock_log_level level, const char *line);

/* How a waiting call learns that a lease is free. */
typedef enum rowlock_waiting {
    ROWLOCK_WAITING_DEFAULT = 0, /* what the URL says; else AUTO */
    /* Always by polling: jittered backoff of 5 to 250 ms, in no order. */
    ROWLOCK_WAITING_POLL = 1,
    /*
     * Whatever the URL says. By the bell, where the server has one: waiters stand in the server's
     * queue for a named lock (GET_LOCK) and are woken one by one, first come first served. By
     * polling where it has none: a node of a cluster with many writers (unless single_writer), a
     * proxy that hides the server's connections, or GET_LOCK refused.
     */
    ROWLOCK_WAITING_AUTO = 2
} rowlock_waiting;

/* What a client works with. */
typedef enum rowlock_via {
    ROWLOCK_VIA_DEFAULT = 0, /* what the URL says; else TABLES */
    /*
     * The procedures that `rowlock init --procedures` (rowlock_procedures_install()) has put into
     * the schema, for a user who may EXECUTE and has no right on any table: it takes, renews and
     * releases locks, lists them, and can do nothing to those of others. Such clients and others
     * exclude and wake each other. A cycle costs the server more, see rowlock-sql(7). Labels end
     * with the login, "[name]", put there by the server. Owner ids of others are shown as a hash.
     * rowlock_break() is CALL rowlock_break: it ends no connection that keeps a lease's bell, so
     * that who waits finds out when it looks, within some 5 s. rowlock_sweep(), rowlock_purge()
     * and rowlock_history_get() take rights on the tables and answer DENIED. rowlock_fence() and
     * rowlock_tx_version_bump() roll the transaction back when they answer LOST, CONFLICT or BUSY
     * under a lease. SCHEMA: there are no procedures, or another version's.
     */
    ROWLOCK_VIA_PROCEDURES = 1,
    ROWLOCK_VIA_TABLES = 2 /* whatever the URL says */
} rowlock_via;

/* How a connection gets to NULL or "localhost". Any other host is reached over TCP. */
typedef enum rowlock_protocol {
    ROWLOCK_PROTOCOL_DEFAULT = 0, /* as the URL or an option file says, else the unix socket */
    ROWLOCK_PROTOCOL_TCP = 1,
    ROWLOCK_PROTOCOL_SOCKET = 2 /* with another host: INVALID */
} rowlock_protocol;

/*
 * How connections are encrypted. Nothing here is ever weakened by an option file; what it says
 * about TLS counts where these options and the URL say nothing, and then means REQUIRED at
 * least. (MySQL's `ssl-mode` is not among what Connector/C reads there.)
 *
 * Whatever the mode, the password itself is given to a server that wants it as it is
 * (mysql_clear_password, PAM's dialog) only over a unix socket, or when the server has proven
 * itself: VERIFY_CA, VERIFY_IDENTITY or a fingerprint. Else: DENIED.
 */
typedef enum rowlock_tls_mode {
    /* With a CA: VERIFY_IDENTITY. With a fingerprint or a certificate: REQUIRED. Else over TCP
     * PREFERRED, over a unix socket OFF. */
    ROWLOCK_TLS_DEFAULT = 0,
    ROWLOCK_TLS_OFF = 1,
    ROWLOCK_TLS_PREFERRED = 2, /* where the server offers it: against listeners, not impostors */
    ROWLOCK_TLS_REQUIRED = 3,  /* or no connection; whoever the server is */
    ROWLOCK_TLS_VERIFY_CA = 4, /* and its certificate is from `ca`, and in force */
    ROWLOCK_TLS_VERIFY_IDENTITY = 5 /* and is for the host connected to; without `ca`: from one of
                                       the system's CAs */
} rowlock_tls_mode;

/* Files are in PEM. They are read at every connect, so that a renewed certificate is seen. */
typedef struct rowlock_tls_options {
    rowlock_tls_mode mode;
    const char *ca;          /* file with the CAs that may sign the server's certificate */
    const char *cert;        /* the client's own certificate, with its chain */
    const char *key;         /* its key, without a passphrase; NULL: in the file `cert` */
    const char *fingerprint; /* SHA-1 of the server's certificate, 40 hexadecimal digits with or
                                without colons: that very certificate, or no connection */
    const char *crl;         /* file with the CA's list of revoked certificates */
    uint64_t reserved[4];
} rowlock_tls_options;

typedef struct rowlock_client_options {
    /*
     * mysql://[user[:password]@][host][:port][/schema][?key=value&...], parts
     * percent-encoded; keys: socket, connect-timeout and retry (milliseconds, or with a unit:
     * 250ms, 5s, 5m, 2h), waiting (auto or poll), via (tables or procedures), protocol (tcp or
     * socket);
     * tls (off, preferred, required, verify-ca or verify-identity), tls-ca, tls-cert, tls-key,
     * tls-fingerprint, tls-crl.
     * Members below override parts of the URL where they are set.
     */
    const char *url;
    const char *host;     /* NULL or "localhost": the unix socket, as the mysql client does */
    unsigned port;        /* 0: 3306 */
    const char *socket;   /* unix socket; NULL: the client library's default */
    const char *user;     /* NULL: option file, else the login name */
    const char *password; /* copied, never logged */
    const char *schema;   /* [A-Za-z0-9_$]{1,64}; NULL: "rowlock" */
    /*
     * Option files as the mysql client reads them, groups [client] and
     * [rowlock]. `defaults_file` reads that file alone; `read_defaults` reads
     * the usual ones. Their `reconnect` is ignored (a silent reconnect would
     * lose a lock).
     */
    const char *defaults_file;
    bool read_defaults;
    int64_t connect_timeout_ms; /* for one attempt to connect; 0: 10000; at least 100 */
    int64_t reconnect_ms;       /* how long a waiting call bears an outage; 0: 60000 */
    /* Who holds: shown by `rowlock ls`. NULL: user@host pid command. UTF-8. One that ends with "]"
     * has the login behind it, "[name]". */
    const char *label;
    bool single_writer; /* on Galera, or Group Replication in multi-primary mode: every client of
                           these locks uses this one node, or pessimistic mode is refused there,
                           UNSUPPORTED */
    bool no_history;    /* no events, and nothing is counted */
    unsigned max_idle;  /* idle connections kept; 0: 8 */
    rowlock_waiting waiting;
    rowlock_log_fn log; /* NULL: silence */
    void *log_data;
    const rowlock_tls_options *tls; /* NULL: as the URL and the option files say. Copied */
    rowlock_via via;
    /*
     * For how long a call that takes these options tries again to connect, with pauses of up to
     * 1 s: while the server restarts, has no connection left, cannot be found, or is cut off from
     * its cluster (UNAVAILABLE, READONLY). DENIED, SCHEMA, ... are answered at once. The first
     * attempt has connect_timeout_ms, later ones end with this. 0: as the URL says, else not at
     * all; < 0: not at all; at most 86400000.
     */
    int64_t retry_ms;
    rowlock_cancel *cancel;          /* ends rowlock_client_open(): CANCELLED; not used after it */
    const char *defaults_extra_file; /* read after those files, or alone: what it says wins */
    rowlock_protocol protocol;
    /*
     * A hold that lasts less makes no events in the history, unless it was lost, had been taken
     * over, or is released with an exit status or a note: it is only counted
     * (rowlock_info.totals). 0: 1000; < 0: every hold makes events; at most 3600000.
     */
    int64_t history_min_ms;
    uint64_t reserved[1];
} rowlock_client_options;

/*
 * Connects, checks the schema's version, starts the keeper thread.
 * UNAVAILABLE, DENIED, SCHEMA, DAMAGED, UNSUPPORTED, INVALID, SYSTEM, CANCELLED; READONLY for a
 * node that is cut off from its cluster or has not joined it. (Another server that is read-only
 * may be looked at; taking a lock there answers READONLY.)
 * The options are copied. Free with rowlock_client_close().
 */
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status rowlock_client_open(
    const rowlock_client_options *options, rowlock_client **client, rowlock_error *err);

/*
 * Releases what is still held, writes the last history, ends the keeper, closes
 * every connection, frees the client and its holds. Waits for a callback that is
 * running, and about 4 s in all for a server that does not answer: what could not be
 * released ends with its connection or its TTL. No other thread may be in a
 * call on this client. In a forked child it only frees, and the parent's
 * sessions live on.
 */
ROWLOCK_API void rowlock_client_close(rowlock_client *client);

/*
 * Waits until the history of everything done so far is in the tables (it is
 * written behind, by the keeper; that a hold began, when it has lasted for history_min_ms). TIMEOUT
 * when it is not within wait_ms. SERVER: some events were refused and are missing (the message says
 * how many since the last flush that said so).
 */
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status rowlock_client_flush(rowlock_client *client,
                                                                 int64_t wait_ms,
                                                                 rowlock_error *err);

/* ----------------------------------------------------------------- acquire */

typedef enum rowlock_mode {
    ROWLOCK_OPTIMISTIC = 0, /* a lease */
    ROWLOCK_PESSIMISTIC = 1 /* a row lock */
} rowlock_mode;

/*
 * Called at most once, when the lock is lost, on a thread of the client's with every
 * signal blocked and no mutex held. A client makes one such call after the other: a
 * callback that takes its time delays the next one, and nothing else;
 * rowlock_hold_check() and rowlock_hold_fd() tell of a loss at once, a lease's before
 * anyone else can have it. `reason` is one line, valid during the call. It may call
 * anything but rowlock_client_close(); rowlock_release() of this very hold is allowed,
 * and another thread's release of it waits until the callback returns. None is made for
 * a hold that is released before its turn, nor once rowlock_client_close() has begun.
 */
typedef void (*rowlock_lost_fn)(void *data, rowlock_hold *hold, const char *reason);

typedef struct rowlock_acquire_options {
    rowlock_mode mode;
    int64_t wait_ms;     /* 0: try once; < 0: for ever; else at most this long */
    int64_t ttl_ms;      /* 0: 30000. ROWLOCK_TTL_MIN_MS .. ROWLOCK_TTL_MAX_MS */
    int64_t at_least_ms; /* lease: once released, stays shut until acquired + this; 0 .. 24 h */
    int64_t max_hold_ms; /* lease: never renewed beyond acquired + this; 0: no limit */
    bool unfenced;       /* pessimistic: no token, no owner shown; two round trips a cycle */
    bool reentrant;      /* same thread, client, name and mode: the same hold again, counted */
    rowlock_cancel *cancel;
    rowlock_lost_fn on_lost;
    void *on_lost_data;
    uint64_t reserved[8];
} rowlock_acquire_options;

/*
 * Takes the lock `name`: 1 to 255 characters of UTF-8 with no control character
 * and no white space at either end.
 *
 * BUSY (wait_ms 0), TIMEOUT, CANCELLED, DEADLOCK; MODE (the name is of the other
 * mode); UNAVAILABLE (nothing taken); UNKNOWN (the reply was lost and could not be
 * looked up: a lease may be held for up to the TTL by nobody); DENIED, INVALID,
 * SCHEMA, DAMAGED, READONLY, FORKED, SYSTEM, SERVER. LOST: re-entrant, and this
 * thread's hold of it is lost. Not (newly) held on any but OK.
 *
 * DAMAGED also when the token is not above what this client has had for the name: the
 * server has lost committed changes (a failover to a copy that lagged). The lock is not
 * held then, and its next token is above both. READONLY: the client's idle connections
 * to that server are closed, so the next call goes where the name leads now.
 *
 * A wait ends within 100 ms of its deadline or of rowlock_cancel_fire(). A try whose
 * reply was lost asks what became of it, for at most connect_timeout_ms.
 */
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status rowlock_acquire(rowlock_client *client,
                                                            const char *name,
                                                            const rowlock_acquire_options *options,
                                                            rowlock_hold **hold,
                                                            rowlock_error *err);

/*
 * Takes several names at once in one transaction (ROWLOCK_PESSIMISTIC only), in
 * an order that is the same for everybody, so that sets never deadlock with each
 * other. All or none. 1 to ROWLOCK_SET_MAX names; doubles count once. One
 * release frees all. A set cannot be re-entrant. Otherwise as rowlock_acquire().
 */
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status rowlock_acquire_set(
    rowlock_client *client, const char *const names[], size_t count,
    const rowlock_acquire_options *options, rowlock_hold **hold, rowlock_error *err);

typedef struct rowlock_release_options {
    /* pessimistic: do not wait for the server's reply to COMMIT */
    bool no_reply;
    /* kept in the history with the release */
    bool has_exit_status;
    int exit_status;
    const char *note; /* UTF-8, one line, at most 255 bytes are kept; NULL: none */
    uint64_t reserved[4];
} rowlock_release_options;

/*
 * Gives the lock back; on OK a try by anyone right after it succeeds. The hold
 * is freed whatever the status (a re-entrant one only by its last release), so
 * never use it again. NULL answers INVALID.
 *
 * Call it when the work under the lock has ended, also after a loss: a lease that was broken
 * (rowlock_break()) is opened for the next one by it.
 *
 * LOST: it was no longer ours; whoever has it is not touched. UNKNOWN: the reply
 * was lost and could not be looked up; UNAVAILABLE: the server could not be asked at
 * all; a lease then ends by its TTL. FORKED: nothing was done and nothing is freed;
 * rowlock_client_close() in the child frees it. BUSY: a
 * transaction that fenced this lock is still open; the lock ends with its TTL and
 * that transaction.
 */
ROWLOCK_API rowlock_status rowlock_release(rowlock_hold *hold, rowlock_error *err);
ROWLOCK_API rowlock_status rowlock_release_with(rowlock_hold *hold,
                                                const rowlock_release_options *options,
                                                rowlock_error *err);

/* -------------------------------------------------------------------- hold */

/* The fencing token; 0 for an unfenced row lock. In a set: of the first name in byte order. */
ROWLOCK_API uint64_t rowlock_hold_token(const rowlock_hold *hold);
/* Valid until the release. */
ROWLOCK_API const char *rowlock_hold_name(const rowlock_hold *hold);
/* The owner id in the tables, unique to this hold. Valid until the release. */
ROWLOCK_API const char *rowlock_hold_owner(const rowlock_hold *hold);
ROWLOCK_API rowlock_mode rowlock_hold_mode(const rowlock_hold *hold);
/* How many names the hold covers, and the i-th name and token in byte order of
 * the names (NULL and 0 beyond the end). */
ROWLOCK_API size_t rowlock_hold_count(const rowlock_hold *hold);
ROWLOCK_API const char *rowlock_hold_name_at(const rowlock_hold *hold, size_t i);
ROWLOCK_API uint64_t rowlock_hold_token_at(const rowlock_hold *hold, size_t i);
/* How often it was acquired re-entrantly and not yet released; at least 1. */
ROWLOCK_API unsigned rowlock_hold_depth(const rowlock_hold *hold);
/* How long the acquire waited. */
ROWLOCK_API int64_t rowlock_hold_waited_ms(const rowlock_hold *hold);
/*
 * For how long, at least, nobody else can have it: the local deadline (monotonic
 * clock, from before the last good request was sent, less a margin). 0 once lost.
 * It jumps up with every renewal.
 */
ROWLOCK_API int64_t rowlock_hold_remaining_ms(const rowlock_hold *hold);
/* OK or LOST (or FORKED), without a round trip. Cheap: call it in loops. */
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status rowlock_hold_check(const rowlock_hold *hold);
/*
 * A descriptor that becomes readable when the lock is lost; for poll(). Do not
 * read or close it; it ends with the hold. -1 when none can be had.
 */
ROWLOCK_API int rowlock_hold_fd(rowlock_hold *hold);

/* ------------------------------------------------------------------ cancel */

ROWLOCK_API ROWLOCK_MUST_USE rowlock_status rowlock_cancel_new(rowlock_cancel **cancel,
                                                               rowlock_error *err);
/* No call may be using it any more. */
ROWLOCK_API void rowlock_cancel_free(rowlock_cancel *cancel);
/* Ends every call that waits with it, now and later, with CANCELLED. Any thread;
 * async-signal-safe. */
ROWLOCK_API void rowlock_cancel_fire(rowlock_cancel *cancel);
/* Makes it usable again. */
ROWLOCK_API void rowlock_cancel_reset(rowlock_cancel *cancel);

/* ------------------------------------------------------- optimistic section */

/*
 * Read a version, work, and make the change final only if nobody changed the
 * version meanwhile; else do it again. Nothing is held while working. See
 * rowlock_tx_section_run() in rowlock_mysql.h for work that is itself rows.
 */
typedef struct rowlock_section {
    const char *name;
    uint64_t version; /* the version this attempt is built on */
    unsigned attempt; /* 1 for the first */
} rowlock_section;

/* ROWLOCK_OK: try to make it final. Anything else ends the section with that status. */
typedef rowlock_status (*rowlock_section_fn)(void *data, const rowlock_section *section);

typedef struct rowlock_section_options {
    unsigned max_attempts;  /* 0: 10 */
    int64_t wait_ms;        /* deadline for all attempts; 0: none; else > 0 */
    int64_t backoff_ms;     /* first delay, doubled each time, jittered; 0: 5 */
    int64_t backoff_max_ms; /* 0: 500 */
    rowlock_cancel *cancel;
    uint64_t reserved[8];
} rowlock_section_options;

/* Filled on every status: what happened until then. */
typedef struct rowlock_section_result {
    uint64_t version; /* on OK: the version this section made */
    unsigned attempts;
    unsigned conflicts; /* attempts undone by somebody else's change */
} rowlock_section_result;

/*
 * CONFLICT: max_attempts were all undone. TIMEOUT: the deadline passed between
 * attempts. BUSY: a lease on the name is held (and stayed so). UNKNOWN: the reply
 * to the final step was lost and could not be looked up. Or what `fn` returned.
 */
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status rowlock_section_run(
    rowlock_client *client, const char *name, const rowlock_section_options *options,
    rowlock_section_fn fn, void *data, rowlock_section_result *result, rowlock_error *err);

/* The two halves, for a loop of your own. The name is made when it is new. BUSY: a
 * lease on it is held, and its version is not for sections. */
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status rowlock_version_read(rowlock_client *client,
                                                                 const char *name,
                                                                 uint64_t *version,
                                                                 rowlock_error *err);
/* CONFLICT when the version is not `expected` any more; BUSY under a lease. */
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status rowlock_version_bump(rowlock_client *client,
                                                                 const char *name,
                                                                 uint64_t expected,
                                                                 uint64_t *version,
                                                                 rowlock_error *err);

/* ----------------------------------------------------------------- looking */

typedef enum rowlock_state {
    ROWLOCK_FREE = 0,
    ROWLOCK_HELD = 1,
    ROWLOCK_EXPIRED = 2, /* its holder is gone: the lease ended, or the row lock's connection did */
    ROWLOCK_SHUT = 3     /* free, but closed until at_least is over */
} rowlock_state;

/* Strings are "" where there is nothing to say; times are UTC, "YYYY-MM-DD HH:MM:SS.ffffff". */
/*
 * The holds of a name that have ended, counted by the clients that held it (calls of the SQL
 * procedures are not among them) and written some 10 s later. They stay as long as the name.
 */
typedef struct rowlock_totals {
    uint64_t holds;
    uint64_t lost;          /* of these: lost before their release */
    uint64_t taken_over;    /* of these: begun by taking over from a holder whose time was over */
    int64_t waited_us;      /* all their waits */
    int64_t waited_most_us; /* the longest */
    int64_t held_us;
    int64_t held_most_us;
    const char *first_at; /* when the first, and the last, were written; "" where there are none */
    const char *last_at;
} rowlock_totals;

typedef struct rowlock_info {
    const char *name;
    rowlock_mode mode;
    rowlock_state state;
    uint64_t token;    /* of the present or last holder */
    const char *owner; /* of the present or last holder */
    const char *owner_label;
    const char *acquired_at;
    const char *expires_at; /* lease: until when without a renewal; shut: until when */
    int64_t held_ms;        /* since acquired_at, by the server's clock; -1: not held */
    int64_t remaining_ms;   /* until expires_at, by the server's clock; -1: no expiry */
    uint64_t connection_id; /* pessimistic: the holder's connection on the server; else 0 */
    const char *description;
    rowlock_totals totals;
} rowlock_info;

typedef struct rowlock_list rowlock_list;

typedef struct rowlock_list_options {
    bool all;          /* free ones too */
    const char *after; /* names after this one (byte order), for paging; NULL: from the start */
    size_t limit;      /* 0: 1000; at most 100000 */
    uint64_t reserved[4];
} rowlock_list_options;

/* Names in byte order. Free with rowlock_list_free(), which ends the infos too. */
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status rowlock_list_get(rowlock_client *client,
                                                             const rowlock_list_options *options,
                                                             rowlock_list **list,
                                                             rowlock_error *err);
/* One name; NOT_FOUND when it was never used (or is purged). */
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status rowlock_list_one(rowlock_client *client,
                                                             const char *name, rowlock_list **list,
                                                             rowlock_error *err);
ROWLOCK_API size_t rowlock_list_count(const rowlock_list *list);
ROWLOCK_API const rowlock_info *rowlock_list_at(const rowlock_list *list, size_t i);
ROWLOCK_API void rowlock_list_free(rowlock_list *list);

/* ----------------------------------------------------------------- waiters */

/* Strings are "" where there is nothing to say. */
typedef struct rowlock_waiter {
    const char *name; /* of the lock */
    rowlock_mode mode;
    const char *who;        /* lease: the waiter's label; row lock: user@host of its connection */
    const char *owner;      /* lease: the owner id it will have; row lock: "" */
    uint64_t connection_id; /* on which it waits */
    int64_t waited_ms;      /* until now; on MySQL to the second */
} rowlock_waiter;

typedef struct rowlock_waiters rowlock_waiters;

typedef struct rowlock_waiters_options {
    const char *name; /* NULL: every lock */
    uint64_t reserved[4];
} rowlock_waiters_options;

/*
 * Who waits now, by name (byte order), the longest wait first. They are read from the
 * server's process list and from InnoDB: whoever polls, or waits in a thread of a process
 * in which another thread waits already, is not there; nor, for that time, is the first
 * in the queue of a lease whose holder's connection is gone, which waits for its expiry.
 *
 * The server shows the waiters of other users, and all that wait for row locks, only to a
 * user with the privilege PROCESS (on MySQL also SELECT on performance_schema.data_locks).
 * That they are missing is no error: rowlock_waiters_hidden() says so.
 */
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status
rowlock_waiters_get(rowlock_client *client, const rowlock_waiters_options *options,
                    rowlock_waiters **waiters, rowlock_error *err);
ROWLOCK_API size_t rowlock_waiters_count(const rowlock_waiters *waiters);
ROWLOCK_API const rowlock_waiter *rowlock_waiters_at(const rowlock_waiters *waiters, size_t i);
/* One line: who is missing and which privilege would show them; "" when nobody is. Valid for
 * ever. */
ROWLOCK_API const char *rowlock_waiters_hidden(const rowlock_waiters *waiters);
ROWLOCK_API void rowlock_waiters_free(rowlock_waiters *waiters);

/* ----------------------------------------------------------------- history */

typedef struct rowlock_event {
    uint64_t id;
    const char *name;
    rowlock_mode mode;
    const char *event; /* acquired, released, expired, taken_over, broken, lost */
    uint64_t token;
    const char *owner;
    const char *owner_label;
    const char *happened_at;
    int64_t waited_ms; /* -1: unknown */
    int64_t held_ms;   /* -1: unknown */
    bool has_exit_status;
    int exit_status;
    const char *detail;
} rowlock_event;

typedef struct rowlock_history rowlock_history;

typedef struct rowlock_history_options {
    const char *name; /* NULL: every lock */
    size_t limit;     /* the newest so many; 0: 100; at most 100000 */
    uint64_t reserved[4];
} rowlock_history_options;

/* Oldest first. */
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status
rowlock_history_get(rowlock_client *client, const rowlock_history_options *options,
                    rowlock_history **history, rowlock_error *err);
ROWLOCK_API size_t rowlock_history_count(const rowlock_history *history);
ROWLOCK_API const rowlock_event *rowlock_history_at(const rowlock_history *history, size_t i);
ROWLOCK_API void rowlock_history_free(rowlock_history *history);

/* ------------------------------------------------------------ housekeeping */

typedef struct rowlock_sweep_options {
    int64_t history_ms;    /* forget events older than this; 0: 30 days; < 0: keep all */
    uint64_t history_rows; /* keep at most so many events; 0: 1000000 */
    int64_t unused_ms;     /* purge names unused for this long; 0: 90 days; < 0: never */
    uint64_t reserved[4];
} rowlock_sweep_options;

typedef struct rowlock_sweep_result {
    uint64_t expired; /* locks of dead holders marked free */
    uint64_t events;  /* history rows forgotten */
    uint64_t purged;  /* names purged; their tokens never come back */
} rowlock_sweep_result;

/* Correctness never needs it. Any number may run at once. */
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status rowlock_sweep(rowlock_client *client,
                                                          const rowlock_sweep_options *options,
                                                          rowlock_sweep_result *result,
                                                          rowlock_error *err);

/*
 * Takes a lock from its holder by force.
 *
 * A lease: its token is void at once, and its holder is told at its next renewal (TTL/3). Nobody
 * gets the lease (it is ROWLOCK_SHUT) before the holder's time would have been over, or the holder
 * has called rowlock_release(): so its work is not beside that of the next holder. Breaking it once
 * more does not shorten that. With `now` it is free at once, and until the old holder hears of
 * it two may work under the lock: only the token protects. It also opens a lease that is shut.
 *
 * A row lock: its connection is ended (needs the same user, or the right to end connections), and
 * it is free at once, in either way.
 *
 * BUSY: nobody holds it (where it is shut, with wait_ms that is waited for). NOT_FOUND. TIMEOUT,
 * CANCELLED: it is broken, and still shut.
 */
typedef struct rowlock_break_options {
    const char *reason;     /* kept in the history; may be NULL */
    bool now;               /* a lease is not shut: accept that two may work under it */
    int64_t wait_ms;        /* returns when it can be had: 0: does not wait; < 0: however long it is
                               shut (a TTL at most) */
    rowlock_cancel *cancel; /* of the wait; may be NULL */
    uint64_t reserved[4];
} rowlock_break_options;

ROWLOCK_API ROWLOCK_MUST_USE rowlock_status rowlock_break_with(rowlock_client *client,
                                                               const char *name,
                                                               const rowlock_break_options *options,
                                                               rowlock_error *err);
/* The same with nothing but a reason; may be NULL. */
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status rowlock_break(rowlock_client *client, const char *name,
                                                          const char *reason, rowlock_error *err);

/*
 * Removes the rows of a name that nobody holds, as the sweep does with what was unused for
 * long. Its history stays, and its tokens go on rising should it be used again; it may then be of
 * another kind. BUSY: it is held, shut, or being looked at. NOT_FOUND. Needs the
 * privilege to delete: DENIED without it, also of a name that is not there.
 */
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status rowlock_purge(rowlock_client *client, const char *name,
                                                          rowlock_error *err);

/* ------------------------------------------------------------------ fences */

/*
 * A fence on a table: triggers that refuse INSERT, UPDATE and DELETE (SQLSTATE RLLST, error
 * 1644) in a session that has not presented the token of the lock's present holder
 * (rowlock_present() in rowlock_mysql.h, or CALL rowlock_present). So not even a program that
 * knows nothing of the lock writes the table without it. From a transaction's first write to its
 * end nobody else gets the lock; renewals go on. A lease whose time is over and that nobody has
 * taken yet is still good, as it is for rowlock_fence().
 *
 * Triggers do not see TRUNCATE, DDL, a foreign key's cascades, or what a replica applies; and who
 * means to can put a token into the session's variable. It keeps mistakes out, not attackers.
 *
 * The user who installs it is the triggers' definer: it needs TRIGGER on the table and SELECT on
 * rowlock's `resource` (in a cluster also UPDATE of its fence_count), for as long as the fence is
 * there. `table_schema` NULL: the client's own schema. Names are as the server has them, without
 * quotes.
 */
typedef struct rowlock_fenced {
    const char *table_schema;
    const char *table_name;
    const char *name;    /* of the lock */
    const char *definer; /* user@host, whose rights the triggers have */
    bool on_insert;      /* all three, unless somebody has dropped a trigger */
    bool on_update;
    bool on_delete;
} rowlock_fenced;

typedef struct rowlock_fences rowlock_fences;

/*
 * Again with the same lock: makes what is missing, else does nothing. The lock need not exist yet.
 * NOT_FOUND: no such table, or this user may not see it. INVALID: no table (a view), one of
 * rowlock's own, or fenced by another lock. DENIED: the message has the privilege. TIMEOUT:
 * somebody used the table for as long as the client's connect_timeout_ms; nothing was changed.
 * UNKNOWN: the connection was lost; do it again.
 */
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status rowlock_fence_install(rowlock_client *client,
                                                                  const char *table_schema,
                                                                  const char *table_name,
                                                                  const char *name,
                                                                  rowlock_error *err);

/* NOT_FOUND: there is no such table, or no fence that this user may see (TRIGGER on the table). */
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status rowlock_fence_remove(rowlock_client *client,
                                                                 const char *table_schema,
                                                                 const char *table_name,
                                                                 rowlock_error *err);

/* The fences of this client's locks, by table (byte order): of the tables on which this user has
 * TRIGGER. They are read from the triggers themselves. Free with rowlock_fences_free(), which ends
 * the items too; rowlock_fences_at() is NULL behind the last one. */
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status rowlock_fences_get(rowlock_client *client,
                                                               rowlock_fences **fences,
                                                               rowlock_error *err);
ROWLOCK_API size_t rowlock_fences_count(const rowlock_fences *fences);
ROWLOCK_API const rowlock_fenced *rowlock_fences_at(const rowlock_fences *fences, size_t i);
ROWLOCK_API void rowlock_fences_free(rowlock_fences *fences);

/* ------------------------------------------------------------------ schema */

typedef struct rowlock_migration {
    unsigned version;
    const char *name;
    const char *statement; /* the first line of the statement now being run; "" when done */
    unsigned step;         /* 1 .. steps */
    unsigned steps;
} rowlock_migration;

/* Progress; called before every statement and once, with statement "", after each file. */
typedef void (*rowlock_migrate_fn)(void *data, const rowlock_migration *migration);

typedef struct rowlock_migrate_options {
    int64_t wait_ms; /* for another init that is running; 0: 60000; < 0: for ever */
    rowlock_migrate_fn progress;
    void *progress_data;
    uint64_t reserved[5];
} rowlock_migrate_options;

typedef struct rowlock_migrate_result {
    unsigned from; /* schema version found (0: none) and left */
    unsigned to;
    unsigned applied; /* files */
} rowlock_migrate_result;

/*
 * Makes the schema and its tables, or brings them up to date. Safe to run again
 * and by many at once (one works, the others wait), also after one that was interrupted.
 * SCHEMA: a newer program made a change this one cannot live with, or a file was changed
 * after it was applied. DENIED names the missing privilege.
 */
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status rowlock_migrate(
    const rowlock_client_options *client_options, const rowlock_migrate_options *options,
    rowlock_migrate_result *result, rowlock_error *err);

typedef struct rowlock_procedures_options {
    int64_t wait_ms;  /* for another init that is running; 0: 60000; < 0: for ever */
    bool update_only; /* install: nothing where there are none yet */
    uint64_t reserved[4];
} rowlock_procedures_options;

typedef struct rowlock_procedures_result {
    unsigned changed; /* routines that were made, replaced or dropped */
    unsigned total;   /* routines of rowlock's that are there now */
} rowlock_procedures_result;

/*
 * Puts the stored procedures (rowlock-sql(7)) into the schema, which has its tables already
 * (rowlock_migrate()), or brings them up to date. They run with the rights of the user that
 * installs them. Safe to run again, and by many at once. SCHEMA: there are no tables. DENIED names
 * the missing privilege. TIMEOUT. `result` may be NULL.
 */
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status rowlock_procedures_install(
    const rowlock_client_options *client_options, const rowlock_procedures_options *options,
    rowlock_procedures_result *result, rowlock_error *err);
/* Takes them away again; what they hold stays held. OK when there are none. */
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status rowlock_procedures_remove(
    const rowlock_client_options *client_options, const rowlock_procedures_options *options,
    rowlock_procedures_result *result, rowlock_error *err);

typedef struct rowlock_sweep_event_options {
    int64_t every_ms; /* whole seconds, 1000 to 86400000; 0: 60000 */
    rowlock_sweep_options sweep;
    int64_t wait_ms; /* for another init that is running; 0: 60000; < 0: for ever */
    uint64_t reserved[4];
} rowlock_sweep_event_options;

typedef struct rowlock_sweep_event_result {
    bool there;        /* install: true; remove: there was one */
    bool scheduler_on; /* the server runs events; else: SET GLOBAL event_scheduler = ON */
} rowlock_sweep_event_result;

/*
 * Makes the server sweep by itself: an EVENT in the schema, which runs with the rights of the user
 * that installs it. Again: changes it. Needs the procedures (rowlock_procedures_install(): SCHEMA
 * where they are not there) and the privilege EVENT. Whether the server runs events is the
 * administrator's affair: nothing is switched on. Beside other sweepers it does no harm. DENIED,
 * INVALID, TIMEOUT. `result` may be NULL.
 */
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status rowlock_sweep_event_install(
    const rowlock_client_options *client_options, const rowlock_sweep_event_options *options,
    rowlock_sweep_event_result *result, rowlock_error *err);
/* Takes it away again; `options`: wait_ms alone. OK when there is none. */
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status rowlock_sweep_event_remove(
    const rowlock_client_options *client_options, const rowlock_sweep_event_options *options,
    rowlock_sweep_event_result *result, rowlock_error *err);

/* ------------------------------------------------------------------ doctor */

typedef enum rowlock_level {
    ROWLOCK_FINE = 0,
    ROWLOCK_NOTE = 1,  /* for information */
    ROWLOCK_CARE = 2,  /* works, with care */
    ROWLOCK_BROKEN = 3 /* will not work, or not safely */
} rowlock_level;

/* A connection of the server's that a finding is about. Texts are "" where nothing is known. */
typedef struct rowlock_finding_session {
    const char
        *role; /* "waits"; "holds" what another waits for; "may hold" it; "open" transaction */
    uint64_t connection_id; /* for KILL */
    const char *user;
    const char *host;
    const char *command;    /* the server's word for what it does: "Query", "Sleep" ... */
    const char *state;      /* ... and for how far it is */
    int64_t age_ms;         /* for how long it has been doing that */
    int64_t transaction_ms; /* for how long its transaction has been open; -1: none, or unknown */
    const char *object;     /* "schema.table", or some with ", " between them */
    const char *lock;       /* the server's word for the lock that it holds */
    const char *query;      /* its statement, or its last one; at most 200 characters */
} rowlock_finding_session;

typedef struct rowlock_finding {
    const char *check; /* "isolation", "privileges", ... */
    rowlock_level level;
    const char *found;                       /* what is */
    const char *follows;                     /* what follows from it; "" when fine */
    const char *remedy;                      /* what to do, often a statement; "" when fine */
    const rowlock_finding_session *sessions; /* the connections that it is about */
    size_t session_count;                    /* 0 but for "blocked" and "transactions" */
} rowlock_finding;

typedef void (*rowlock_finding_fn)(void *data, const rowlock_finding *finding);

/*
 * Looks at the server, the schema and this user, and reports each check through
 * `fn`. It changes nothing. `ttl_ms` (0: the default) is what wait_timeout is held
 * against. OK when it could look, whatever it found; else why it could not. A finding
 * and its texts are valid during the call of `fn` only.
 */
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status rowlock_diagnose(const rowlock_client_options *options,
                                                             int64_t ttl_ms, rowlock_finding_fn fn,
                                                             void *data, rowlock_error *err);

typedef struct rowlock_diagnose_options {
    int64_t ttl_ms; /* what wait_timeout is held against; 0: the default */
    /*
     * What the user is for: "batch" takes locks, "procedures" takes them with EXECUTE alone (and is
     * looked at so), "looker", "sweeper", "migrator", "fencer", "admin"; see sql/grants.sql. NULL:
     * "procedures" with via=procedures, else "batch".
     */
    const char *role;
    bool rights_only; /* no other check than "privileges" (and "schema", where that cannot be used)
                       */
    uint64_t reserved[4];
} rowlock_diagnose_options;

/*
 * The same for a user of that role. Where it lacks a right, the remedy of the finding "privileges"
 * is every GRANT that is missing and no other: statements as they can be run, each on a line.
 * INVALID: there is no such role. `how` may be NULL.
 */
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status
rowlock_diagnose_with(const rowlock_client_options *options, const rowlock_diagnose_options *how,
                      rowlock_finding_fn fn, void *data, rowlock_error *err);

/* "0.1.0" of the library that is linked, not of the header. */
ROWLOCK_API const char *rowlock_version(void);

#ifdef __cplusplus
}
#endif

#endif
