/*
 * rowlock/rowlock.h - distributed locks that live where your data lives.
 *
 * THE MODEL
 *   A lock has a name and lives as rows in a MariaDB or MySQL schema (default
 *   `rowlock`, made by `rowlock init`). There are two modes, and a name belongs
 *   to the mode in which it was first used:
 *
 *   ROWLOCK_OPTIMISTIC   A lease: a compare-and-swap takes the row and sets an
 *                        expiry by the server's clock. A keeper thread renews it
 *                        every TTL/3. It outlives a lost connection, not its TTL.
 *   ROWLOCK_PESSIMISTIC  A row lock: SELECT ... FOR UPDATE on a connection of its
 *                        own. It ends with that connection, which the server
 *                        itself closes when it hears nothing for the TTL.
 *
 *   Names of other kinds are not held themselves: a name with slots, each of which
 *   is a lock of its own (`slots` of rowlock_acquire_options); a latch, which opens
 *   when enough counts were made (rowlock_latch.h); a barrier (rowlock_barrier.h);
 *   and a queue (rowlock_queue.h).
 *
 *   A held lock is a `rowlock_hold`. Every change of hands gives a higher number,
 *   the fencing token: hand it to the store that you write to, and let the store
 *   refuse a lower one.
 *
 * THE CAVEATS
 *   - A lease is time. If your process is stopped for longer than the TTL, it is
 *     no longer the holder when it wakes up; rowlock_hold_check() says so, but
 *     code that is between the check and a write cannot be stopped by any lock
 *     service. Use the token, rowlock_fence(), or rowlock_tx_acquire().
 *   - A lock is valid on the server that granted it. When another server answers
 *     (a failover), the lock is LOST; before its holder hears of that, another
 *     client may get the lock there, with a lower token.
 *   - A step of the *server's* wall clock can end a lease early. The token still
 *     rises. No client's clock is ever compared with another's or with the server's.
 *   - After fork() the child must not use the parent's client: its calls answer
 *     ROWLOCK_FORKED, and closing it there frees memory without ending the
 *     parent's sessions. It must not use the parent's rowlock_cancel either.
 *     exec() is safe: every descriptor is close-on-exec.
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
 * IN C++
 *     rowlock_error err{};
 *     rowlock_client_options options{};
 *     options.url = "mysql://batch@db1/rowlock";
 *     rowlock_client *client = nullptr;
 *     rowlock_acquire_options how{};
 *     how.wait_ms = 5000;
 *     rowlock_hold *hold = nullptr;
 *     if (rowlock_client_open(&options, &client, &err) != ROWLOCK_OK ||
 *         rowlock_acquire(client, "nightly-close", &how, &hold, &err) != ROWLOCK_OK) {
 *         std::fprintf(stderr, "%s\n", err.message);
 *     } else {
 *         close_the_books(rowlock_hold_token(hold));
 *         if (rowlock_release(hold, &err) != ROWLOCK_OK)
 *             std::fprintf(stderr, "%s\n", err.message);
 *     }
 *     rowlock_client_close(client);
 *
 * THE HEADERS
 *   rowlock.h          clients, locks, sections, lists of locks and of waiters
 *   rowlock_mysql.h    calls on a connection of your own: row locks, fences, sessions, sections,
 *                      and counts, periods and items that end with your transaction
 *   rowlock_latch.h    latches
 *   rowlock_barrier.h  barriers
 *   rowlock_leader.h   leaders, and the values that they publish
 *   rowlock_once.h     what is done once in a period
 *   rowlock_queue.h    queues of work
 *   rowlock_quorum.h   locks that a majority of several servers agrees on
 *   rowlock_admin.h    history, sweep, break, ask, restored, freeze, purge, slots, fenced tables,
 *                      schema, procedures, the server's own sweep, doctor
 *   rowlock_migrate.h  migrations of your own schema
 *   rowlock_udf.h      for authors of functions that the server loads; needs nothing of the library
 *
 * CONVENTIONS
 *   Every fallible call returns a rowlock_status, which must be checked. Outputs
 *   come last and are written only on ROWLOCK_OK (unless said otherwise). The
 *   `err` argument may be NULL; it is filled on every status but ROWLOCK_OK.
 *   Option structs are valid when zeroed (`= {0}`, in C++ `{}`); NULL options mean all defaults.
 *   Set the `reserved` members of option structs to zero; those of results are room
 *   for later versions: do not read them. Durations carry their unit in their name.
 *   Destructors take NULL. Any number of threads may use a client at once; any
 *   thread may read a hold (token, check, remaining ...), which is released once.
 *
 * STATUSES THAT ANY CALL MAY ANSWER
 *   The comment of a call lists the statuses that are special to it, one on a
 *   line, without the ROWLOCK_ before them. Beside those, any call that returns a
 *   rowlock_status may answer
 *
 *   INVALID      an argument or an option is not valid; nothing was changed
 *   FORKED       the client belongs to the parent process; nothing was done
 *   SYSTEM       the operating system refused memory, a thread or a descriptor
 *
 *   and any call that asks a server (all but those whose comment says that they
 *   ask none) may answer
 *
 *   UNAVAILABLE  the server cannot be reached, did not answer in time, or somebody
 *                stopped the statement (KILL QUERY); nothing was changed, unless the
 *                comment of the call says otherwise
 *   UNKNOWN      the reply was lost: the change may have been made or not. A call
 *                that only reads answers UNAVAILABLE instead
 *   DENIED       the server refuses the user, the password or a privilege; the
 *                message names the missing GRANT where the server tells which
 *   SCHEMA       the schema, its tables or (via procedures) its procedures are
 *                missing, or older or newer than this program needs
 *   DAMAGED      a table is not as rowlock made it: a column, a key, a row or its
 *                engine is another one, or is missing
 *   READONLY     the server is read-only, not the primary, or cut off from its
 *                cluster; nothing was changed. The client's idle connections to
 *                that server are closed, so the next call goes to the server to
 *                which its name leads now
 *   UNSUPPORTED  this server cannot do that safely, or is too old
 *   DEADLOCK     the server undid the change to end a deadlock, or (in a cluster)
 *                because another node's change came first; nothing was changed
 *   SERVER       the server answered with an error that rowlock does not expect;
 *                see `server_errno`
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

#define ROWLOCK_NAME_MAX         255      /* characters (not bytes) in a lock's name */
#define ROWLOCK_INIT_COMMAND_MAX 2200     /* bytes of rowlock_hold_init_command() */
#define ROWLOCK_OWNER_MAX        63       /* bytes in an owner id */
#define ROWLOCK_LABEL_MAX        255      /* bytes of an owner label that are kept */
#define ROWLOCK_TTL_DEFAULT_MS   30000    /* used where ttl_ms is 0 */
#define ROWLOCK_TTL_MIN_MS       500      /* lease; pessimistic rounds up to whole seconds */
#define ROWLOCK_TTL_MAX_MS       86400000 /* 24 hours */
#define ROWLOCK_WAIT_FOREVER     (-1)     /* for wait_ms */
#define ROWLOCK_SET_MAX          64       /* names in one rowlock_acquire_set() */
#define ROWLOCK_SLOTS_MAX        1000     /* slots of a name */
#define ROWLOCK_UNITS_MAX        64       /* of them, in one acquire */
#define ROWLOCK_SLOTS_AS_SET     (~0U)    /* for `slots`: as many as the name has */
#define ROWLOCK_VALUE_MAX        1024     /* bytes of a leader's value */
#define ROWLOCK_NO_SLOT          (~0U)    /* rowlock_hold_slot() of what is not one */

/* ---------------------------------------------------------------- statuses */

/*
 * X(NAME, number, exit status of the `rowlock` command, meaning). The numbers
 * never change. Switch over them without a default, so that the compiler tells
 * you what a later version adds. (MODE is about the kind of the name, rowlock_kind:
 * a lease and a row lock are two kinds, too.)
 */
#define ROWLOCK_STATUS_MAP(X)                                                                      \
    X(OK, 0, 0, "done")                                                                            \
    X(BUSY, 1, 1, "somebody else holds the lock (and the call was not to wait)")                   \
    X(TIMEOUT, 2, 1, "the wait ended before the lock was free")                                    \
    X(CONFLICT, 3, 1, "the row was changed by somebody else at every attempt")                     \
    X(CANCELLED, 4, 1, "the call was cancelled from another thread")                               \
    X(DEADLOCK, 5, 72, "the server rolled the transaction back to end a deadlock")                 \
    X(LOST, 6, 75, "the lock is no longer held")                                                   \
    X(UNAVAILABLE, 7, 69, "the server cannot be reached")                                          \
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
    X(REPAIR, 20, 68, "the migrations stopped in a state that needs a decision")                   \
    X(FAILED, 21, 81, "a statement of a migration failed")                                         \
    X(FROZEN, 22, 80, "the name is frozen: nobody gets it before it is thawed")

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
 * What went wrong, for people and for logs. `message` is one line: the cause, the
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
    uint64_t reserved[4];
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
 * no newline and no secret, and is valid during the call only. The function may call the
 * library, but not rowlock_client_close().
 */
typedef void (*rowlock_log_fn)(void *data, rowlock_log_level level, const char *line);

/* How a waiting call learns that a lease is free. */
typedef enum rowlock_waiting {
    ROWLOCK_WAITING_DEFAULT = 0, /* what the URL says; else AUTO */
    /* Always by polling: jittered backoff of 5 to 250 ms, in no order. */
    ROWLOCK_WAITING_POLL = 1,
    /*
     * By the bell: waiters wait in GET_LOCK for a named lock of the server, the bell, and the
     * server wakes them one by one, first come first served. By polling where the server has no
     * bell: a node of a cluster with many writers (unless single_writer), a proxy that hides the
     * server's connections, or GET_LOCK refused.
     */
    ROWLOCK_WAITING_AUTO = 2
} rowlock_waiting;

/* How a client reaches rowlock's rows. */
typedef enum rowlock_via {
    ROWLOCK_VIA_DEFAULT = 0, /* what the URL says; else TABLES */
    /*
     * By the procedures that `rowlock init --procedures` (rowlock_procedures_install()) has put
     * into the schema, for a user who may EXECUTE and has no right on any table. Such a user takes,
     * renews and releases locks and lists them, and can do nothing to the locks of others. Such
     * clients and others exclude and wake each other. A cycle costs the server more, see
     * rowlock-sql(7). Labels end with the login, "[name]", which the server puts there. The owner
     * ids of others are shown as a hash.
     *
     * rowlock_break() is CALL rowlock_break: it does not end the connection that has the lease's
     * bell, so a waiter finds out when it looks, within some 5 s. rowlock_sweep(), rowlock_purge()
     * and rowlock_history_get() need rights on the tables. rowlock_fence() and
     * rowlock_tx_version_bump() roll the transaction back when they answer LOST, CONFLICT, or BUSY
     * under a lease.
     *
     *   SCHEMA  (of any call) there are no procedures, or another version's
     *   DENIED  of rowlock_sweep(), rowlock_purge() and rowlock_history_get(): always
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
 * How connections are encrypted. An option file never weakens these options; what it says about TLS
 * counts where they and the URL say nothing, and then means REQUIRED at least. (Connector/C does
 * not read MySQL's `ssl-mode` there.)
 *
 * Whatever the mode, a server that asks for the password in clear text (mysql_clear_password, PAM's
 * dialog) gets it only over a unix socket, or when the server has proven itself: VERIFY_CA,
 * VERIFY_IDENTITY or a fingerprint. Else the call answers DENIED.
 */
typedef enum rowlock_tls_mode {
    /* With a CA: VERIFY_IDENTITY. With a fingerprint or a certificate: REQUIRED. Else over TCP
     * PREFERRED, over a unix socket OFF. */
    ROWLOCK_TLS_DEFAULT = 0,
    ROWLOCK_TLS_OFF = 1,
    ROWLOCK_TLS_PREFERRED = 2,      /* where the server offers it: stops eavesdropping */
    ROWLOCK_TLS_REQUIRED = 3,       /* TLS or no connection; the server proves nothing */
    ROWLOCK_TLS_VERIFY_CA = 4,      /* also: its certificate is from `ca`, and in force */
    ROWLOCK_TLS_VERIFY_IDENTITY = 5 /* also: it is for the host connected to; without `ca`: from one
                                       of the system's CAs */
} rowlock_tls_mode;

/* Files are in PEM. They are read at every connect, so that a renewed certificate is seen. */
typedef struct rowlock_tls_options {
    rowlock_tls_mode mode;
    const char *ca;          /* file with the CAs that may sign the server's certificate */
    const char *cert;        /* the client's own certificate, with its chain */
    const char *key;         /* its key, without a passphrase; NULL: in the file `cert` */
    const char *fingerprint; /* SHA-1 of the server's certificate, 40 hexadecimal digits with or
                                without colons: no other certificate is accepted */
    const char *crl;         /* file with the CA's list of revoked certificates */
    uint64_t reserved[4];
} rowlock_tls_options;

typedef struct rowlock_client_options {
    /*
     * mysql://[user[:password]@][host][:port][/schema][?key=value&...], parts
     * percent-encoded; keys: socket, connect-timeout and retry (milliseconds, or with units:
     * 250ms, 5s, 1h30m), waiting (auto or poll), via (tables or procedures), protocol (tcp or
     * socket), tls (off, preferred, required, verify-ca or verify-identity), tls-ca, tls-cert,
     * tls-key, tls-fingerprint, tls-crl.
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
     * Option files as the mysql client reads them, groups [client] and [rowlock]. `defaults_file`
     * reads that file alone; `read_defaults` reads the usual ones. Their `reconnect` is ignored (a
     * silent reconnect would lose a lock). Where the host is the URL's, user and password are not
     * those of these groups, which mean another server, but those of the URL, or of a group that
     * has the host's name ([db1]; in a file that another one includes it is not read).
     */
    const char *defaults_file;
    bool read_defaults;
    /*
     * The limit of one attempt to connect, and of one exchange with the server. So it also limits
     * what does not wait for a lock: fences, a release, what a try asks after a lost reply. 0:
     * 10000; 100 .. 3600000.
     */
    int64_t connect_timeout_ms;
    /* For how long a waiting call of an open client bears that the server is away, within its own
     * wait. (retry_ms, below: opening a client.) 0: 60000; at most 86400000. */
    int64_t reconnect_ms;
    /* The holder, for people: shown by `rowlock ls`. NULL: user@host pid command. UTF-8. The login,
     * "[name]", is appended to one that ends with "]". */
    const char *label;
    bool single_writer; /* on Galera, or Group Replication in multi-primary mode: says that every
                           client of these locks uses this one node. Else row locks and shared
                           leases are refused there, UNSUPPORTED */
    bool no_history;    /* no events, and nothing is counted */
    unsigned max_idle;  /* idle connections kept; 0: 8 */
    rowlock_waiting waiting;
    rowlock_log_fn log; /* NULL: silence */
    void *log_data;
    const rowlock_tls_options *tls; /* NULL: as the URL and the option files say. Copied */
    rowlock_via via;
    /*
     * For how long a call that takes these options tries again to connect, with pauses of up to
     * 1 s: after UNAVAILABLE (the server restarts, has no connection left, cannot be found) and
     * after READONLY (its node is cut off from the cluster). Every other status is answered at
     * once. The first attempt has connect_timeout_ms, later ones end with this time. 0: as the URL
     * says, else not at all; < 0: not at all; at most 86400000.
     */
    int64_t retry_ms;
    rowlock_cancel *cancel;          /* ends rowlock_client_open(): CANCELLED; not used after it */
    const char *defaults_extra_file; /* read after those files, or alone; has precedence */
    rowlock_protocol protocol;
    /*
     * A hold that lasts less is only counted (rowlock_info.totals), and makes no events in the
     * history, unless it was lost, was taken over from a dead holder, or is released with an exit
     * status or a note. 0: 1000; < 0: every hold makes events; at most 3600000.
     */
    int64_t history_min_ms;
    /*
     * A quorum of independent servers (rowlock_quorum.h): the URL of each, `member_count` of them.
     * Leave `url`, `host`, `port` and `socket` unset then; the other members of this struct apply
     * to each server. Only leases, only through the tables. 0: one server.
     */
    const char *const *members;
    size_t member_count;
    bool require_all; /* a lock needs the vote of every member, and is lost when it loses one; else
                         of more than half of them */
    uint64_t reserved[5];
} rowlock_client_options;

/*
 * Connects, checks the server and the schema's version and tables, starts the keeper thread.
 * The options are copied. Free with rowlock_client_close().
 *
 *   UNAVAILABLE  the server could not be reached, within connect_timeout_ms or else for retry_ms
 *   DENIED       the login is refused, or this user has no rights in the schema (the server does
 *                not tell such a user whether the schema is there)
 *   SCHEMA       there is no such schema, or it has no tables of rowlock's, or other ones than this
 *                program needs
 *   DAMAGED      a table is missing, is not InnoDB, or has lost a key
 *   READONLY     the node is cut off from its cluster or has not joined it. (A client can be opened
 *                on another server that is read-only; taking a lock there answers READONLY.)
 *   UNSUPPORTED  the server is older than rowlock needs
 *   CANCELLED    `cancel` was fired
 */
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status rowlock_client_open(
    const rowlock_client_options *options, rowlock_client **client, rowlock_error *err);

/*
 * Releases the locks that are still held, writes the last history (for up to 2 s), ends the keeper,
 * closes every connection, frees the client and its holds. Waits for a callback that is
 * running, and about 4 s in all for a server that does not answer: a lock that could not be
 * released ends with its connection or its TTL. No other thread may be in a
 * call on this client. In a forked child it only frees, and the parent's
 * sessions live on.
 */
ROWLOCK_API void rowlock_client_close(rowlock_client *client);

/*
 * Waits until the history of everything done so far is in the tables. (The keeper writes it later:
 * the begin of a hold once that has lasted for history_min_ms.) wait_ms 0: does not wait; < 0:
 * waits forever. Asks no server itself.
 *
 *   TIMEOUT  the history was not written within wait_ms
 *   SERVER   some events were refused and are missing; the message says how many since the last
 *            flush that said so
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
 * signal blocked and no mutex held. A client makes one such call after the other: a slow
 * callback delays the next one, and nothing else; rowlock_hold_check() and
 * rowlock_hold_fd() report a loss at once; the loss of a lease, before anyone else can
 * acquire it. `reason` is one line, valid during the call. The callback may
 * call anything but rowlock_client_close(). It may release this very hold with
 * rowlock_release(), and another thread's release of it waits until the callback returns.
 * No call is made for a hold that is released before its turn, nor once
 * rowlock_client_close() has begun.
 */
typedef void (*rowlock_lost_fn)(void *data, rowlock_hold *hold, const char *reason);

/*
 * Somebody asks the holder to stop (rowlock_ask() in rowlock_admin.h). Nothing happens unless the
 * holder acts on it: one that ignores it keeps the lock.
 */
typedef struct rowlock_asked {
    const char *name;                   /* of a set or slots: which lock; valid until the release */
    char by[ROWLOCK_LABEL_MAX + 1];     /* the label of the one who asks */
    char reason[ROWLOCK_LABEL_MAX + 1]; /* "": none was given */
    char asked_at[32];                  /* by the server's clock, UTC */
    char stop_by[32];
    int64_t left_ms; /* until stop_by; 0: it is past */
    uint64_t reserved[4];
} rowlock_asked;

/*
 * Called once for each ask that the holder hears of, as rowlock_lost_fn is, on the same thread,
 * with the same rules. A lease's holder hears of an ask with its next renewal (TTL/3); of two asks
 * within that time, of the last one only. Of a set, or of slots: once for each name that is asked.
 * `what` is valid during the call.
 */
typedef void (*rowlock_ask_fn)(void *data, rowlock_hold *hold, const rowlock_asked *what);

typedef struct rowlock_acquire_options {
    rowlock_mode mode;
    int64_t wait_ms;     /* 0: try once (what 0 means in other structs, they say); < 0: forever;
                            else at most this long */
    int64_t ttl_ms;      /* 0: 30000. ROWLOCK_TTL_MIN_MS .. ROWLOCK_TTL_MAX_MS */
    int64_t at_least_ms; /* lease: nobody gets it until this long after it was acquired, even if it
                            is released sooner. 0 .. 24 h */
    int64_t max_hold_ms; /* lease: not renewed beyond this long after it was acquired; 0: no limit,
                            else ROWLOCK_TTL_MIN_MS at least */
    bool shared;         /* together with other readers: see rowlock_acquire_shared() */
    bool unfenced;       /* row lock: no token, and no holder is shown; two round trips a cycle */
    bool reentrant;      /* same thread, client, name and mode: the same hold again, counted */
    bool record_refused; /* BUSY makes an event in the history, `refused`; TIMEOUT and CANCELLED
                            make one, `gave_up` (not where `cancel` was fired before the call). Of a
                            set: one for each name */
    rowlock_cancel *cancel;
    rowlock_lost_fn on_lost;
    void *on_lost_data;
    const bool *share; /* rowlock_acquire_set(): which of the names are shared, one for each name;
                          NULL: all as `shared` says */
    unsigned slots;    /* at most so many hold the name at once, each has one of its slots: 1 ..
                          ROWLOCK_SLOTS_MAX, or ROWLOCK_SLOTS_AS_SET. 0: an ordinary lock */
    unsigned units;    /* how many slots to take, all or none; 0 counts as 1; at most
                          ROWLOCK_UNITS_MAX, and no more than the name has */
    const char *value; /* lease: published for others to read while it is held (rowlock_leader.h):
                          text that would be valid as a name, but of at most ROWLOCK_VALUE_MAX
                          bytes. Not with `shared`, `reentrant` or `slots`, nor for a set. NULL or
                          "": none */
    rowlock_ask_fn on_ask; /* a row lock, which must not be unfenced, looks for asks only where this
                              is set, every TTL/3, and at least every 10 s. Never called for a
                              member of a latch or of a barrier */
    void *on_ask_data;
    uint64_t reserved[3];
} rowlock_acquire_options;

/*
 * Takes the lock `name`: 1 to 255 characters of UTF-8 with no control character
 * and no white space at either end. On any other status than OK the lock is not held;
 * a re-entrant hold stays as it was.
 *
 * A wait ends within 100 ms of its deadline or of rowlock_cancel_fire(). Where the reply
 * was lost the call asks what became of the request: until its wait ends, and for at most
 * reconnect_ms; with wait_ms 0, for at most connect_timeout_ms. `value` is published after
 * the wait, for at most connect_timeout_ms.
 *
 *   BUSY         wait_ms is 0, and somebody holds the lock, it is cooling or is reserved for a
 *                waiter, or a transaction that fenced it is still open (or the server was late:
 *                docs/guarantees.md, 6)
 *   TIMEOUT      the wait ended before the lock was free
 *   FROZEN       in place of both: the name is frozen (rowlock_freeze()), whether it is held or not
 *   CANCELLED    `cancel` was fired, before the call or while it waited
 *   DEADLOCK     wait_ms is 0, and the server undid the attempt (a call that waits tries again)
 *   LOST         re-entrant: this thread holds the lock already, and has lost it; release it first.
 *                With `value`: the lease was lost before it was published
 *   MODE         the name is another kind of lock (lease, row lock, name with slots), or has
 *                another number of slots
 *   NOT_FOUND    slots is ROWLOCK_SLOTS_AS_SET, and the name has no slots yet
 *   UNAVAILABLE  no server could be reached until the wait ended, or for reconnect_ms (wait_ms 0:
 *                at the first attempt); or another server has replaced the one that granted the
 *                lock; or `value` could not be published. Nothing is held (a lease on the old
 *                server ends there with its TTL)
 *   UNKNOWN      the reply was lost and could not be looked up: the name may stay taken, though no
 *                program holds it, for up to the TTL
 *   DAMAGED      also: the token is not above the one that this client has had for the name, so the
 *                server has lost committed changes (a failover to a copy that lagged). The lock is
 *                released, and its next token is above both; if it could not be released the
 *                message says so, and the name stays taken until the lock's time is over
 *   UNSUPPORTED  a row lock, on a node of a cluster with many writers without single_writer;
 *                several slots as leases, through procedures
 *
 * With `slots`, at most so many hold the name at once (a semaphore whose permits expire). Each slot
 * is a lock of its own, `NAME#0`, `NAME#1`, ..., a lease or a row lock, with its own token
 * (rowlock_hold_token_at(), rowlock_hold_name_at()): it can be fenced, broken, listed as any other.
 * The first caller to use the name says how many it has; rowlock_slots_set() changes that. Waiters
 * get slots in the order in which they came, however many each wants; the first in line looks for
 * its slots at least every 100 ms.
 */
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status rowlock_acquire(rowlock_client *client,
                                                            const char *name,
                                                            const rowlock_acquire_options *options,
                                                            rowlock_hold **hold,
                                                            rowlock_error *err);

/*
 * Takes the lock as a reader, together with other readers; rowlock_acquire() takes it as a writer,
 * alone. The option `shared` does the same. Readers and writers get the lock in the order in which
 * they came: a reader that comes after a waiting writer waits until that one has had it. (For row
 * locks the server decides the order.)
 *
 * All readers have the lease's present token; each writer gets a higher one. Each reader renews
 * and loses a lease for itself. A shared row lock is unfenced, and its holders are not listed.
 * With `reentrant`, a writer that asks for the lock as a reader gets its own hold again, still
 * alone. A reader that asks for it as a writer gets BUSY, or waits for itself: use
 * rowlock_hold_upgrade().
 *
 * Statuses of rowlock_acquire(), and:
 *
 *   INVALID      also: at_least_ms is set
 *   UNSUPPORTED  also: a lease, on a node of a cluster with many writers without single_writer
 */
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status rowlock_acquire_shared(
    rowlock_client *client, const char *name, const rowlock_acquire_options *options,
    rowlock_hold **hold, rowlock_error *err);

/*
 * Makes the reader of a lease its writer, in the same hold, once the other readers have left. It
 * waits for them as rowlock_acquire() does (wait_ms; `cancel` may be NULL). On OK the hold has a
 * new, higher token, and no other writer held the lock in between: what the reader has read is
 * still true. On any other status rowlock_hold_check() says whether the hold is still a reader, or
 * lost.
 *
 *   BUSY         wait_ms is 0, and another reader has it, too, or a transaction in which a reader
 *                has fenced the lock is still open
 *   TIMEOUT      the wait ended before the others had left
 *   CANCELLED    `cancel` was fired
 *   DEADLOCK     another writer waits already (it may be another reader that upgrades), and waits
 *                for this reader: release the hold
 *   LOST         it is lost
 *   UNKNOWN      the reply was lost, and what became of the request could not be found out: the
 *                hold is lost
 *   INVALID      the hold is the writer already; this thread holds it more than once
 *                (`reentrant`); or it is a set, or has slots
 *   UNSUPPORTED  a row lock
 */
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status rowlock_hold_upgrade(rowlock_hold *hold,
                                                                 int64_t wait_ms,
                                                                 rowlock_cancel *cancel,
                                                                 rowlock_error *err);

/*
 * Makes the writer of a lease a reader, in the same hold, with the same token. Waiting readers get
 * it, too. Where it could not be done (BUSY, DEADLOCK, UNAVAILABLE) the hold is the writer still.
 *
 *   BUSY         a transaction that fenced this lock is still open
 *   DEADLOCK     the server has ended the statement to break a deadlock
 *   UNAVAILABLE  the server could not be asked, or somebody stopped the statement
 *   LOST         it is lost
 *   UNKNOWN      the reply was lost, and the hold is lost with it
 *   INVALID      the hold is a reader already; this thread holds it more than once (`reentrant`);
 *                or it is a set, or has slots
 *   UNSUPPORTED  a row lock
 */
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status rowlock_hold_downgrade(rowlock_hold *hold,
                                                                   rowlock_error *err);

/*
 * Takes several names at once: all or none, within one wait_ms. 1 to ROWLOCK_SET_MAX names; a name
 * that is given twice counts twice here, and is taken once (exclusively, unless both are shared).
 * One release frees all; it goes on after one that fails. Statuses of rowlock_acquire().
 *
 * Sets never deadlock with each other. Row locks are locked in byte order of the names, in one
 * transaction; if one of them is shared, none has a token. If all leases are free, one transaction
 * takes them. Else the call waits for one that is not free, holding no other, and tries all again;
 * after two such rounds it takes them in byte order, and keeps those that it has while it waits for
 * the next. Each lease has its own token and renewal; when one is lost the whole set is, and
 * `on_lost` is called once. Through procedures (`via`) leases are taken one after the other.
 *
 *   INVALID  also: `reentrant` or `slots` is set, or at_least_ms where one is shared
 */
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status rowlock_acquire_set(
    rowlock_client *client, const char *const names[], size_t count,
    const rowlock_acquire_options *options, rowlock_hold **hold, rowlock_error *err);

typedef struct rowlock_release_options {
    /* row lock: do not wait for the server's reply to COMMIT */
    bool no_reply;
    /* kept in the history with the release */
    bool has_exit_status;
    /* lease: the connections that are registered with it (rowlock_hold_guard()) stay so, and are
     * ended before somebody else gets it. Set it if you have killed the work and have not seen it
     * end */
    bool keep_sessions;
    int exit_status;
    const char *note; /* UTF-8, one line, at most 255 bytes are kept; NULL: none */
    uint64_t reserved[4];
} rowlock_release_options;

/*
 * Releases the lock. On OK it is free when the call returns, so that anyone who tries next gets it
 * (unless a waiter has it by then, at_least_ms is not over, or no_reply is set). The hold is freed
 * whatever the status (but for FORKED; a re-entrant one only by its last release), so never use it
 * again.
 *
 * Call it when the work under the lock has ended, also after a loss: only then can a lease that was
 * broken (rowlock_break(), not with `now`) be acquired before the old holder's time is over.
 *
 *   LOST         the lock was no longer this hold's; the present holder is not touched
 *   BUSY         a transaction that fenced this lock is still open. A lease ends when both its TTL
 *                and that transaction are over, a row lock with that transaction
 *   UNAVAILABLE  the server could not be asked at all; the lease ends with its TTL
 *   UNKNOWN      the reply was lost, and what became of the request could not be found out. A lease
 *                ends with its TTL at the latest, a row lock with its connection
 *   READONLY     the server has become read-only; the lease ends with its TTL
 *   INVALID      `hold` is NULL
 *   FORKED       nothing was done and nothing is freed; rowlock_client_close() in the child frees
 *                it
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
/* The owner id in the tables, unique to this hold; of several leases, the first one's. Valid until
 * the release. */
ROWLOCK_API const char *rowlock_hold_owner(const rowlock_hold *hold);
/*
 * A statement by which another session registers itself with the hold, for clients that run one
 * first (mysql --init-command): CALL rowlock_session(...), of rowlock-sql(7), which needs the
 * procedures; rowlock_hold_guard(), in rowlock_mysql.h, says what becomes of that session. It has
 * at most ROWLOCK_INIT_COMMAND_MAX bytes, and the name in hexadecimal digits. Asks no server.
 *
 *   UNSUPPORTED  as for rowlock_hold_guard(), and for a set
 */
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status rowlock_hold_init_command(
    rowlock_hold *hold, char text[ROWLOCK_INIT_COMMAND_MAX + 1], rowlock_error *err);
ROWLOCK_API rowlock_mode rowlock_hold_mode(const rowlock_hold *hold);
/* How many names the hold covers, and the i-th name and token in byte order of
 * the names (NULL and 0 beyond the end). Of slots: how many, and the names of their locks. */
ROWLOCK_API size_t rowlock_hold_count(const rowlock_hold *hold);
ROWLOCK_API const char *rowlock_hold_name_at(const rowlock_hold *hold, size_t i);
ROWLOCK_API uint64_t rowlock_hold_token_at(const rowlock_hold *hold, size_t i);
/* Which slot of the name the hold has: 0 .. slots - 1, the first one of several; of a barrier,
 * which member it is. ROWLOCK_NO_SLOT: it has none. */
ROWLOCK_API unsigned rowlock_hold_slot(const rowlock_hold *hold);
ROWLOCK_API unsigned rowlock_hold_slot_at(const rowlock_hold *hold, size_t i);
/* How often it was acquired re-entrantly and not yet released; at least 1. */
ROWLOCK_API unsigned rowlock_hold_depth(const rowlock_hold *hold);
/* How long the acquire waited. */
ROWLOCK_API int64_t rowlock_hold_waited_ms(const rowlock_hold *hold);
/*
 * For how long, at least, nobody else can have a lease: until the local deadline, which is the
 * time before the last good request was sent, plus the TTL, less a margin of a tenth of the TTL
 * (20 ms to 1 s; for TTLs over half an hour one part in 2000), by CLOCK_BOOTTIME, which goes on
 * while the machine is suspended. 0 once lost. It jumps up with every renewal. For a row lock it
 * says when its connection counts as dead; the server may end that sooner.
 */
ROWLOCK_API int64_t rowlock_hold_remaining_ms(const rowlock_hold *hold);
/*
 * Is the lock still held? Asks no server, and is cheap: call it in loops.
 *
 *   OK       the lock is held, as far as this client knows
 *   LOST     the lock is lost
 *   INVALID  `hold` is NULL
 */
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status rowlock_hold_check(const rowlock_hold *hold);
/*
 * A descriptor that becomes readable when the lock is lost; for poll(). Do not
 * read or close it; it ends with the hold. -1 when none can be had.
 */
ROWLOCK_API int rowlock_hold_fd(rowlock_hold *hold);
/*
 * Says whether the holder was asked to stop, without a round trip, and if so writes the last ask
 * that it heard of (rowlock_ask_fn says when). False: there was none, or `hold` is NULL; then
 * `asked`, which may be NULL, is not written.
 */
ROWLOCK_API bool rowlock_hold_asked(rowlock_hold *hold, rowlock_asked *asked);

/* ------------------------------------------------------------------ cancel */

/* Free it with rowlock_cancel_free(). Asks no server. */
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status rowlock_cancel_new(rowlock_cancel **cancel,
                                                               rowlock_error *err);
/* No call may be using it any more. */
ROWLOCK_API void rowlock_cancel_free(rowlock_cancel *cancel);
/* Ends every call that waits with it, now and later, with CANCELLED. From any thread;
 * async-signal-safe. In a child of the process that made it, neither this nor a reset does
 * anything: a child makes one of its own. */
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

/*
 * The work of one attempt.
 *
 *   OK        rowlock_section_run() tries to make the change final
 *   DEADLOCK  the attempt counts as a conflict, and is made again
 *
 * Any other status ends the section, which answers it.
 */
typedef rowlock_status (*rowlock_section_fn)(void *data, const rowlock_section *section);

typedef struct rowlock_section_options {
    unsigned max_attempts;  /* 0: 10 */
    int64_t wait_ms;        /* for all attempts; 0: no limit of time; < 0: INVALID */
    int64_t backoff_ms;     /* first delay, doubled each time, jittered; 0: 5 */
    int64_t backoff_max_ms; /* 0: 500 */
    rowlock_cancel *cancel;
    uint64_t reserved[8];
} rowlock_section_options;

/* Filled on every status, with the attempts until then. May be NULL. */
typedef struct rowlock_section_result {
    uint64_t version; /* on OK: the version this section made */
    unsigned attempts;
    unsigned conflicts; /* attempts undone by somebody else's change */
    uint64_t reserved[4];
} rowlock_section_result;

/*
 * Runs `fn` until its change is final. The name is made when it is new.
 *
 *   CONFLICT   other changes undid each of max_attempts attempts
 *   TIMEOUT    wait_ms was over between two attempts
 *   CANCELLED  `cancel` was fired
 *   BUSY       at the last attempt a lease on the name was held or cooling, or a transaction had
 *              its row locked
 *   MODE       the name is of row locks
 *   UNKNOWN    the reply to the final step was lost and could not be looked up
 *   INVALID    also: a member is negative, or a backoff is over 24 h
 *
 * Or the status that `fn` returned.
 */
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status rowlock_section_run(
    rowlock_client *client, const char *name, const rowlock_section_options *options,
    rowlock_section_fn fn, void *data, rowlock_section_result *result, rowlock_error *err);

/*
 * The two halves, for a loop of your own. rowlock_version_read() reads the version,
 * rowlock_version_bump() makes it one higher if it is still `expected`, and sets `version` to the
 * new one. The name is made when it is new.
 *
 *   BUSY      a lease on the name is held or cooling: its version is not for sections. The bump
 *             also: a transaction has the name's row locked
 *   CONFLICT  the bump: the version is not `expected` any more
 *   MODE      the name is of row locks
 *   UNKNOWN   the bump: the reply was lost and could not be looked up
 */
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status rowlock_version_read(rowlock_client *client,
                                                                 const char *name,
                                                                 uint64_t *version,
                                                                 rowlock_error *err);
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
    ROWLOCK_COOLING = 3  /* free, but closed until at_least_ms (after a break: the old holder's
                            time) is over */
} rowlock_state;

/* What a name is. */
typedef enum rowlock_kind {
    ROWLOCK_KIND_LEASE = 0,
    ROWLOCK_KIND_ROW = 1,   /* a row lock */
    ROWLOCK_KIND_SLOTS = 2, /* a name with slots, each of which is a lease or a row lock */
    ROWLOCK_KIND_LATCH = 3,
    ROWLOCK_KIND_BARRIER = 4,
    ROWLOCK_KIND_QUORUM = 5, /* a lease that this server has a vote on (rowlock_quorum.h) */
    ROWLOCK_KIND_QUEUE = 6   /* its items are nobody's locks: rowlock_queue.h */
} rowlock_kind;

/* In this part strings are "" where there is nothing to say; times are UTC, "YYYY-MM-DD
 * HH:MM:SS.ffffff". */

/*
 * The holds of a name that have ended. The client of each hold counts it, and writes that some 10 s
 * later; calls of the SQL procedures, and holds that a failover to another server cut short, are
 * not counted. The totals stay as long as the name.
 *
 * A hold failed if it was lost, or released with an exit status other than 0 (`rowlock run` gives
 * its command's; see rowlock_release_options), or if rowlock_once_failed() ended it. It counts
 * neither as a failure nor as a success if rowlock_once_begin() found nothing to do, or if
 * rowlock_client_close() released it. Any other release is a success, and so is a period of the
 * ledger (rowlock_once.h) that is done.
 */
typedef struct rowlock_totals {
    uint64_t holds;
    uint64_t lost;          /* of these: lost before their release */
    uint64_t taken_over;    /* of these: begun by taking over from a holder whose time was over */
    int64_t waited_us;      /* all their waits */
    int64_t waited_most_us; /* the longest */
    int64_t held_us;
    int64_t held_most_us;
    const char *first_at; /* when holds were added to these totals first, and last; "": never */
    const char *last_at;
    uint64_t failed;           /* of the holds */
    uint64_t refused;          /* tries that did not get the lock, of those with record_refused */
    const char *succeeded_at;  /* the last success; "": none is known ... */
    int64_t succeeded_ms;      /* ... since then, by the server's clock; -1: none is known */
    int64_t succeeded_held_us; /* for how long the last success held it; -1: unknown */
    const char *failed_at;     /* the last failure; "": none is known ... */
    int64_t failed_ms;         /* ... since then; -1: none is known */
    bool failed_has_exit_status;
    int failed_exit_status;
    int64_t gap_us;    /* lease: the longest time from one renewal to the next on the last day
                          (UTC) of its use; 0: none was seen */
    unsigned gap_part; /* lease: the largest gap as a share of its hold's TTL, in thousandths */
    uint64_t reserved[4];
} rowlock_totals;

/* A queue is HELD while it has items in flight; it has no token (0) and no owner.
 * A latch is HELD while it is closed, else FREE (rowlock_latch_get() tells an open one from a
 * broken one). Its token is its generation, 0 where it was not set yet; owner, owner_label and
 * acquired_at say who set it and when, owner_label of a broken one who broke it.
 * A row lock that is held unfenced or shared publishes no holder. rowlock_list_one() says that it
 * is HELD, with the token 0 and nothing of the holder, where this user may lock its row (on MySQL,
 * not one with SELECT alone); rowlock_list_get() does not see it. */
typedef struct rowlock_info {
    const char *name;
    rowlock_mode mode;
    rowlock_state state;
    uint64_t token;    /* of the present or last holder */
    const char *owner; /* of the present or last holder */
    const char *owner_label;
    const char *acquired_at;
    const char *expires_at; /* lease: its end without a renewal; cooling: until when */
    int64_t held_ms;        /* since acquired_at, by the server's clock; -1: not held, or a latch */
    int64_t remaining_ms;   /* until expires_at, by the server's clock; -1: no expiry */
    uint64_t connection_id; /* pessimistic: the holder's connection on the server; else 0 */
    const char *description;
    rowlock_totals totals;
    uint64_t readers;    /* lease: how many readers it has, barrier: how many members; then owner,
                            owner_label, acquired_at and expires_at are "". 0: a writer has it, or
                            nobody. (Readers of row locks are not seen.) */
    uint64_t slots;      /* how many the name has, whose token is 0; 0: it is another lock ... */
    uint64_t slots_held; /* ... and how many of them are held; may be more after a change */
    rowlock_kind kind;
    uint64_t count; /* latch, barrier: so many open it; else 0 */
    uint64_t down;  /* latch: so many have counted, 0 if it is broken; barrier: so many gather now,
                       of its members (`readers`), some of whom may be in; else 0 */
    const char *value;    /* lease: what its holder has published (rowlock_leader.h) */
    const char *asked_at; /* when its holder, or one of its readers, was asked to stop
                             (rowlock_ask()), last ... */
    const char *asked_by; /* ... by whom, by the label, ... */
    const char *asked_why;
    const char *stop_by;      /* ... and by when */
    int64_t asked_ms;         /* since asked_at, by the server's clock; -1: nobody was asked */
    const char *period_start; /* lease: the last period of the name in the ledger (rowlock_once.h);
                                 "" if there is none ... */
    const char *period_end;   /* ... and its end, when the next one begins */
    const char
        *period_state;  /* "running", "done", "failed", or "died": its attempt lost the lease */
    uint64_t depth;     /* queue: how many items it has that are not dead, ... */
    uint64_t ready;     /* ... of these: to be taken now, ... */
    uint64_t in_flight; /* ... held by workers; ... */
    uint64_t dead;      /* ... and how many dead ones it has */
    int64_t oldest_ms;  /* for how long the oldest ready item has been ready; -1: none is */
    const char *frozen_until; /* nobody gets it before this time (rowlock_freeze()), the year 9999:
                                 before it is thawed; "": it is not frozen ... */
    const char *frozen_by;    /* ... by whom, by the label, and why */
    const char *frozen_why;
    const char *sessions; /* lease: "17, 23", the numbers of the connections that its holder has
                             registered (rowlock_hold_guard()); if it is not held they are its last
                             holder's, and keep everybody out until they have ended */
} rowlock_info;

typedef struct rowlock_list rowlock_list;

typedef struct rowlock_list_options {
    bool all;           /* free ones too */
    const char *after;  /* names after this one (byte order), for paging; NULL: from the start */
    size_t limit;       /* 0: 1000; at most 100000 */
    const char *prefix; /* names that begin with it: text that would be valid as a name, but may end
                           with a blank. NULL: all */
    uint64_t reserved[4];
} rowlock_list_options;

/* The locks that are held or cooling (`all`: the free ones too), names in byte order. Free with
 * rowlock_list_free(), which frees the infos too. */
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status rowlock_list_get(rowlock_client *client,
                                                             const rowlock_list_options *options,
                                                             rowlock_list **list,
                                                             rowlock_error *err);
/*
 * One name, as rowlock_list_get().
 *
 *   NOT_FOUND  the name was never used, or is purged
 */
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
    uint64_t connection_id; /* on which it waits; 0: a barrier's, which is not known */
    int64_t waited_ms;      /* until now; on MySQL to the second */
} rowlock_waiter;

typedef struct rowlock_waiters rowlock_waiters;

typedef struct rowlock_waiters_options {
    const char *name; /* NULL: every lock */
    uint64_t reserved[4];
} rowlock_waiters_options;

/*
 * The waiters of this moment, by name (byte order), the longest wait first. They are read from the
 * server's process list and from InnoDB, those that gather at a barrier from its rows. Free with
 * rowlock_waiters_free(). Missing, except at a barrier, are
 *
 *   - a waiter that polls
 *   - all but one of the threads of a process that wait for the same name
 *   - the first waiter for a lease whose holder's connection is gone, while it waits for the expiry
 *   - the first waiter for a slot, a latch, an item or a lease of a quorum, while it looks
 *
 * The server shows the waiters of other users, and all that wait for row locks, only to a
 * user with the privilege PROCESS (on MySQL also SELECT on performance_schema.data_locks).
 * The call answers OK all the same; rowlock_waiters_hidden() says what is missing.
 */
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status
rowlock_waiters_get(rowlock_client *client, const rowlock_waiters_options *options,
                    rowlock_waiters **waiters, rowlock_error *err);
ROWLOCK_API size_t rowlock_waiters_count(const rowlock_waiters *waiters);
ROWLOCK_API const rowlock_waiter *rowlock_waiters_at(const rowlock_waiters *waiters, size_t i);
/* One line: which waiters are missing, and which privilege would show them; "" when none is
 * missing. Valid forever. */
ROWLOCK_API const char *rowlock_waiters_hidden(const rowlock_waiters *waiters);
ROWLOCK_API void rowlock_waiters_free(rowlock_waiters *waiters);

/* "0.1.0" of the library that is linked, not of the header. */
ROWLOCK_API const char *rowlock_version(void);

#ifdef __cplusplus
}
#endif

#endif
