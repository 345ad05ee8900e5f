/* bench/rows.h - what `rowlock bench` measures: each kind of lock of rowlock's, row after row. */
#ifndef ROWLOCK_BENCH_ROWS_H
#define ROWLOCK_BENCH_ROWS_H

#include "measure.h"
#include "measure_rowlock.h"

enum { ROWS_COUNTS_MAX = 8, ROWS_KINDS_MAX = 8, ROWS_MAX = ROWS_KINDS_MAX * ROWS_COUNTS_MAX * 2 };

typedef struct rows_row {
    measure_rowlock_kind kind;
    bool no_history;
    unsigned clients;
    const char *names; /* "distinct", or "hot": all want the same one */
    int64_t window_ms;
    measure_figures figures;
} rows_row;

typedef struct rows {
    /* As asked. */
    const rowlock_client_options *client;
    unsigned counts[ROWS_COUNTS_MAX]; /* of clients */
    size_t count_count;
    int64_t window_ms; /* measured so long for each row */
    bool only_mode;    /* the kinds of this mode alone */
    rowlock_mode mode;
    bool distinct;
    bool hot;
    /* Before a row; and after it, with why it failed (NULL where it did not). */
    void (*begin)(const struct rows *self, const rows_row *row, int64_t left_ms);
    void (*end)(const struct rows *self, const rows_row *row, const measure_reason *why);

    /* Out. */
    size_t planned;
    size_t measured;
    rows_row row[ROWS_MAX];
    char prefix[64]; /* of the names: nobody else's */
} rows;

/* Makes the prefix, and looks whether this user may remove names when all is done. */
rowlock_status rows_prepare(rows *self, rowlock_error *err);

/* False: a row failed, or SIGINT, SIGTERM or SIGHUP came (measure_ended_by()). */
bool rows_measure(rows *self, measure_reason *why);

#endif
