/*
 * db/conn.h - one connection of rowlock's own. Only src/db and src/stmt (and the calls
 * on the caller's connection) know MYSQL.
 *
 * Every exchange (but rl_conn_send_only(), which waits for no reply) goes through Connector/C's
 * non-blocking calls (connecting: through its function to wait) and waits in the rl_io it is given,
 * so that deadlines and cancelling are exact and the keeper can serve its other connections
 * meanwhile.
 */
#ifndef RL_DB_CONN_H
#define RL_DB_CONN_H

#include <mysql.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "base/budget.h"
#include "base/error.h"
#include "base/tls.h"
#include "db/errors.h"

/* Owned strings, NULL where not given. */
typedef struct rl_params {
    char *host;
    char *socket;
    char *user;
    char *password;
    char *schema; /* NULL for a connection without a default schema (the migrator) */
    char *defaults_file;
    char *defaults_extra_file;
    rowlock_protocol protocol;
    rl_tls tls;
    unsigned port;
    bool read_defaults;
    bool own_login;             /* user and password of option files are meant for another server */
    bool via;                   /* statements are run through the procedures, where there is one */
    bool counts_changed;        /* of an UPDATE the rows that changed; else those that matched */
    int64_t connect_timeout_ms; /* of one attempt */
    int64_t retry_ms;           /* of a first connection: see wait/reach.h */
} rl_params;

void rl_params_free(rl_params *params);

/* Both own what they have then; free the copy on false, too: no memory. */
bool rl_params_copy(rl_params *to, const rl_params *from) RL_MUST_USE;

/*
 * The server's end of a socket, byte for byte: an address and a port, or a path. Behind one name
 * there may be many servers, and each counts its connections from 1.
 */
typedef struct rl_peer {
    socklen_t size; /* 0: not known, and the same as no other */
    struct sockaddr_storage address;
    uint64_t node; /* rl_server's: behind one address, too, there may be many; 0: not known */
} rl_peer;

rl_peer rl_peer_of(int fd);
bool rl_peer_same(const rl_peer *one, const rl_peer *other);

/* What a ping, or the probe, was answered. */
typedef enum rl_pong {
    RL_PONG_GOOD,
    RL_PONG_STOPPED, /* answered, but not asked: KILL QUERY met it, a time limit, a quota */
    RL_PONG_DEMOTED, /* the server is not to be written to any more */
    RL_PONG_NONE     /* the connection is gone */
} rl_pong;

typedef struct rl_conn rl_conn;

#define RL_KEY_SIZE 45

/* The pool's part. */
typedef struct rl_pooled {
    struct rl_pool *pool;
    rl_conn *next;   /* in the list of idle or of busy ones */
    int purpose;     /* an rl_purpose */
    uint64_t serial; /* its own number for it; the server's may be another connection's tomorrow */
    int64_t used_us; /* when it was given back last; 0: never */
    /* How many things the server keeps for a layer above as long as the connection lives (bells:
     * bell/bell.h), and that layer's note. With pins it is kept open when it is idle. */
    unsigned pins;
    char pin_note[65];
} rl_pooled;

/* A ping of what is held, or the probe. */
typedef struct rl_ping {
    int pending; /* it is under way: what it waits for */
    int result;
    rl_pong pong; /* what the last one was answered */
    /* Asked instead of a ping: fails where the server is not to be written to any more. Set by the
     * pool's set-up; NULL: a ping. */
    const char *probe;
    bool probing; /* it is a probe that is under way */
} rl_ping;

/* The stmt layer's part. */
typedef struct rl_session {
    int64_t answer_us;     /* in which the server answered at the set-up: far away it is long */
    uint64_t idle_limit_s; /* wait_timeout, as set last; 0: not set */
    bool via;              /* works through procedures: see stmt/stmt.h */
    bool calling;          /* what runs, or ran last, is a procedure */
    char key[RL_KEY_SIZE]; /* then: the secret to stop it by (sql/session.sql, session_key) */
    char *account;         /* what CURRENT_USER() says, for refusals; NULL: not asked yet */
    void (*ask_account)(rl_conn *conn); /* fills `account`, if it can; NULL: cannot */
    const char *table; /* what {table} is in its statements; NULL: none of them has it */
    void **statements; /* one slot for each named statement */
    void (*free_statements)(rl_conn *conn);
} rl_session;

struct rl_conn {
    MYSQL *mysql;
    rl_pooled pooled;
    rl_session session;
    rl_ping ping;
    uint64_t id;  /* the server's number for it */
    rl_peer peer; /* which server that is */
    rl_flavour flavour;
    rl_server server;  /* found by the pool's set-up */
    int64_t opened_us; /* before the server was asked for it */
    pid_t pid;         /* of the process that opened it */
    bool tls;          /* encrypted: see db/exchange.h */
    bool local;        /* over a unix socket */
    bool proven;       /* the server is proven by its certificate */
    bool broken;       /* no statement may follow */
    bool demoted;      /* it said that it is read-only, or not the primary (any more) */
    bool interrupted;  /* KILL QUERY went out; it might hit a later statement */
    bool reply_due;    /* a COMMIT was sent, and its reply not read */
    /* Sends KILL QUERY for this connection on another one; NULL: cannot. */
    void (*interrupt)(void *data, const rl_conn *conn);
    void *interrupt_data;
};

/*
 * UNAVAILABLE (also when the io's deadline passes), DENIED, SCHEMA, SYSTEM, CANCELLED. Ends
 * with its io, however slow the resolver of names is.
 */
rowlock_status rl_conn_open(const rl_params *params, const rl_io *io, rl_conn **conn,
                            rowlock_error *err) RL_MUST_USE;

/* Says good-bye to the server where that is safe. Takes NULL. */
void rl_conn_close(rl_conn *conn);

/* Ends it without a word to the server: broken, or the parent's after a fork. */
void rl_conn_drop(rl_conn *conn);

/* Nothing more is read or written: all that would wait for the server ends. */
void rl_conn_break(rl_conn *conn);

/* In a forked child: of the parent's, which its keeper may have been pinging. Connector/C may have
 * been in the middle of that, so its memory is left as it is, and stays. Takes NULL. */
void rl_conn_forget(const rl_conn *conn);

/* A statement as text, without parameters or result (SET, COMMIT, KILL, DDL). */
rowlock_status rl_conn_command(rl_conn *conn, const char *name, const char *text, const rl_io *io,
                               rowlock_error *err) RL_MUST_USE;

/*
 * Runs a statement of the user's: all its results are read and forgotten. The first error ends it.
 * TIMEOUT, CANCELLED: it was stopped, and the connection is of no more use; the server has answered
 * that it is, where err->server_errno says so.
 */
rowlock_status rl_conn_run_foreign(rl_conn *conn, const char *name, const char *text, size_t length,
                                   const rl_io *io, rowlock_error *err) RL_MUST_USE;

/* Is a connection, ours or the caller's, in a transaction, as far as the last reply said? */
bool rl_in_transaction(MYSQL *mysql);

/* Is autocommit on there? Else any statement begins a transaction where there is none. */
bool rl_commits_by_itself(MYSQL *mysql);

/* Sends a text and leaves its reply for the next command on this connection. */
rowlock_status rl_conn_send_only(rl_conn *conn, const char *text) RL_MUST_USE;

/* Reads what is still due (a reply, a ping) so that the next command can go out. */
rowlock_status rl_conn_read_due(rl_conn *conn, const rl_io *io, rowlock_error *err) RL_MUST_USE;

rowlock_status rl_conn_ping(rl_conn *conn, const rl_io *io, rowlock_error *err) RL_MUST_USE;

/* The keeper's half-steps: begin a ping (or the probe), go on with it when poll() says so. Never
 * block. Return true when it is over: conn->pong is its answer then. */
bool rl_conn_ping_begin(rl_conn *conn);
bool rl_conn_probe_begin(rl_conn *conn);
bool rl_conn_ping_resume(rl_conn *conn, short revents);
short rl_conn_ping_events(const rl_conn *conn);

int rl_conn_fd(const rl_conn *conn);

/* Of one with TLS: "TLSv1.3 TLS_AES_256_GCM_SHA384". */
void rl_conn_cipher(const rl_conn *conn, char *text, size_t size);

/* The server's end is an address of this host alone. */
bool rl_conn_loopback(const rl_conn *conn);

/* An idle connection has nothing to read: data or an end means that the server closed it. */
bool rl_conn_looks_alive(const rl_conn *conn);

/*
 * Fills err from the connection's last error and returns its status; marks the connection
 * broken when it is. `name` is the statement's. UNAVAILABLE for one that was stopped, since
 * it was not by us (the caller knows): nothing was changed, and it may be tried again.
 */
rowlock_status rl_conn_failed(rl_conn *conn, const char *name, unsigned number,
                              const char *sqlstate, const char *text, rowlock_error *err);

/* The same, from what the connection said last to a text. */
rowlock_status rl_conn_command_failed(rl_conn *conn, const char *name, rowlock_error *err);

/* What CURRENT_USER() says, for a message: asked at the first time. NULL: not known. */
const char *rl_conn_account(rl_conn *conn);

/* What was interrupted (`ended`) by us. UNKNOWN in place of TIMEOUT: there was no answer at all. */
rowlock_status rl_conn_stopped(const rl_conn *conn, rowlock_status ended, const char *name,
                               rowlock_error *err);

/* ------------------------------------------------ the two ways of rl_conn_open(), for src/db alone
 */

/* In this thread: blocks in the resolver where the host is a name. */
rowlock_status rl_connect_here(const rl_params *params, const rl_io *io, rl_conn **out,
                               rowlock_error *err) RL_MUST_USE;

/* In a thread of its own, which is left behind when the io's time is over. */
rowlock_status rl_connect_aside(const rl_params *params, const rl_io *io, rl_conn **out,
                                rowlock_error *err) RL_MUST_USE;

/* A child process has none of its parent's threads. */
void rl_connect_forget_helpers(void);

/* What it means that a connect was ended (TIMEOUT, CANCELLED), which began at `since_us`. */
/* `place`: as rl_place_say() says it. */
rowlock_status rl_connect_gave_up(rowlock_status ended, int64_t since_us, const char *place,
                                  rowlock_error *err);

#endif
