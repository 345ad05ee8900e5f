/* bench/measure_rowlock.h - rowlock itself as lock systems to measure. */
#ifndef ROWLOCK_MEASURE_ROWLOCK_H
#define ROWLOCK_MEASURE_ROWLOCK_H

#include "measure.h"
#include "rowlock/rowlock.h"

typedef struct measure_rowlock_kind {
    const char *id;
    const char *name;
    const char *keeps;
    rowlock_mode mode;
    bool unfenced;
    bool no_reply;           /* the release does not wait for the server's reply */
    bool no_history;         /* else as it is by default */
    rowlock_waiting waiting; /* 0: auto */
    /* The rest is for bench.c alone. */
    bool shared;
    unsigned slots; /* of the name; 0: it has none */
    bool quorum;    /* of the members that `options` has */
    unsigned set;   /* so many names, made of the one, are taken as a set; 0: the name itself */
} measure_rowlock_kind;

/* Ends with one whose id is NULL. */
extern const measure_rowlock_kind measure_rowlock_kinds[];

/* A kind and where its server is: what `data` of the system points to. */
typedef struct measure_rowlock {
    rowlock_client_options options;
    const measure_rowlock_kind *kind;
} measure_rowlock;

/* For a client that removes names, which takes rights on the tables: no procedure does it. */
rowlock_client_options measure_rowlock_remover(const rowlock_client_options *options);

/* The system; `self` must stay. */
measure_system measure_rowlock_system(measure_rowlock *self, const rowlock_client_options *options,
                                      const measure_rowlock_kind *kind);

#endif
