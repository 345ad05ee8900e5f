/* conformance/clients.h - two clients and two sessions that all tests of a program have. */
#ifndef CONFORMANCE_CLIENTS_H
#define CONFORMANCE_CLIENTS_H

#include "support/support.h"

static rowlock_client *client;
static rowlock_client *other;
static MYSQL *mysql;
static MYSQL *watch;

static inline int open_clients(void **state)
{
    ts_suite_begin(state);
    client = ts_open();
    other = ts_open();
    mysql = ts_connect(ts_schema());
    watch = ts_connect(ts_schema());
    return 0;
}

static inline int close_clients(void **state)
{
    return ts_suite_end_with(state, client, other, mysql, watch);
}

/* A table for tests with rows of their own, and the rows that they wrote under a name. */
static inline void make_work(void)
{
    ts_sql(watch, "CREATE TABLE work (id INT PRIMARY KEY AUTO_INCREMENT, who VARCHAR(60),"
                  " n BIGINT NOT NULL DEFAULT 0) ENGINE = InnoDB");
}

static inline uint64_t rows_of(const char *name)
{
    return ts_sql_u64(watch, "SELECT COUNT(*) FROM work WHERE who = %s", ts_quote(name));
}

/* The session's transaction is open. */
static inline bool in_transaction(MYSQL *own)
{
    ts_sql(own, "DO 0");
    return (own->server_status & SERVER_STATUS_IN_TRANS) != 0;
}

static inline bool readable(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, 0) == 1;
}

/* The client keeps it for longer than its TTL. */
static inline void stays_held(rowlock_hold *hold)
{
    for (int64_t end = ts_now_ms() + TS_KEPT_FOR; ts_now_ms() < end; ts_pass_ms(20)) {
        assert_held(hold);
        assert_between(1, rowlock_hold_remaining_ms(hold), TS_KEPT_TTL);
        WANT(BUSY, ts_try(other, rowlock_hold_name(hold), rowlock_hold_mode(hold)));
    }
}

#endif
