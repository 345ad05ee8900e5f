/*
 * bench/grpc.h - one gRPC call after another over one connection without TLS: just enough for
 * bench/etcd.c. The messages are bytes here; who calls knows what is in them.
 */
#ifndef ROWLOCK_BENCH_GRPC_H
#define ROWLOCK_BENCH_GRPC_H

#include "measure.h"

enum { GRPC_MESSAGE_MAX = 1024 };

typedef struct grpc_message {
    size_t length;
    uint8_t byte[GRPC_MESSAGE_MAX];
} grpc_message;

typedef struct grpc_connection grpc_connection;

/* `at` is HOST:PORT. NULL: `why` says why not. */
grpc_connection *grpc_connect(const char *at, measure_reason *why);
/* NULL is fine. */
void grpc_disconnect(grpc_connection *connection);

/*
 * Calls the method ("/package.Service/Method") and waits for the answer, until end_ns
 * (measure_now_ns()) at the latest; then the call is cancelled. False: no answer, or one that
 * is an error.
 */
bool grpc_call(grpc_connection *connection, const char *method, const grpc_message *request,
               grpc_message *answer, int64_t end_ns, measure_reason *why);

#endif
