/*
 * bench/etcd.c - etcd's own lock service (v3lock) over gRPC.
 *
 * A client has one lease. Lock makes a key under the lock's name that lives as long as the
 * lease, and answers when no older key is there; Unlock deletes the key. A call each, and the
 * server does the waiting: one waiter is woken by a release. The messages are small enough to
 * be written and read by hand here.
 *
 * A short queue is slow, and that is the server's doing: it watches the key before a waiter's
 * from a revision that is there already, and looks at such watches every 100 ms only. So who
 * comes back to a lock with 8 clients waits for the next look; with 128 the queue is longer
 * than that anyway.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "grpc.h"

enum {
    LEASE_S = 60,
    LEASE_NEW_AFTER_S = 20, /* a new one then; the old one ends by itself */
    ANSWER_WITHIN_S = 30,
    KEY_MAX = 256,
};

static const int64_t NS_PER_S = 1000000000, NS_PER_MS = 1000000;

typedef struct etcd_session {
    grpc_connection *connection;
    uint64_t lease;
    int64_t lease_ns;     /* when it was granted */
    uint8_t key[KEY_MAX]; /* of the lock that is held */
    size_t key_length;
    grpc_message request, answer;
} etcd_session;

/* -------------------------------------------------- protobuf, as far as it goes here */

enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };

static void put_varint(grpc_message *message, uint64_t value)
{
    while (value >= 0x80) {
        message->byte[message->length++] = (uint8_t)(value | 0x80);
        value >>= 7;
    }
    message->byte[message->length++] = (uint8_t)value;
}

static void put_number(grpc_message *message, unsigned field, uint64_t value)
{
    put_varint(message, field << 3 | VARINT);
    put_varint(message, value);
}

static void put_bytes(grpc_message *message, unsigned field, const void *bytes, size_t length)
{
    put_varint(message, field << 3 | BYTES);
    put_varint(message, length);
    memcpy(message->byte + message->length, bytes, length);
    message->length += length;
}

static bool get_varint(const grpc_message *message, size_t *at, uint64_t *value)
{
    *value = 0;
    for (unsigned shift = 0; shift < 64 && *at < message->length; shift += 7) {
        const uint8_t byte = message->byte[(*at)++];
        *value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return true;
    }
    return false;
}

/* The field of a message: a number's value, or the length of bytes that start at *start. */
static bool get_field(const grpc_message *message, unsigned wanted, uint64_t *value, size_t *start)
{
    uint64_t tag = 0;
    for (size_t at = 0; at < message->length;) {
        if (!get_varint(message, &at, &tag) || (tag & 7) == FIXED64 || (tag & 7) == FIXED32 ||
            !get_varint(message, &at, value))
            return false;
        *start = at;
        if ((tag & 7) == BYTES) {
            if (*value > message->length - at)
                return false;
            at += *value;
        }
        if (tag >> 3 == wanted)
            return true;
    }
    return false;
}

/* ------------------------------------------------------------------------- the lease */

static int64_t answer_end(void)
{
    return measure_now_ns() + ANSWER_WITHIN_S * NS_PER_S;
}

static bool grant_lease(etcd_session *session, measure_reason *why)
{
    size_t start = 0;
    session->request.length = 0;
    put_number(&session->request, 1, LEASE_S);
    if (!grpc_call(session->connection, "/etcdserverpb.Lease/LeaseGrant", &session->request,
                   &session->answer, answer_end(), why))
        return false;
    if (!get_field(&session->answer, 2, &session->lease, &start))
        return measure_because(why, "etcd granted a lease without an id");
    session->lease_ns = measure_now_ns();
    return true;
}

/* With it go the keys that hang on it. */
static bool revoke_lease(etcd_session *session, measure_reason *why)
{
    session->request.length = 0;
    put_number(&session->request, 1, session->lease);
    return grpc_call(session->connection, "/etcdserverpb.Lease/LeaseRevoke", &session->request,
                     &session->answer, answer_end(), why);
}

/* -------------------------------------------------------------------------- the lock */

static bool keep_key(etcd_session *session, measure_reason *why)
{
    size_t start = 0;
    uint64_t length = 0;
    if (!get_field(&session->answer, 2, &length, &start) || length > KEY_MAX)
        return measure_because(why, "etcd locked without a key, or a very long one");
    memcpy(session->key, session->answer.byte + start, length);
    session->key_length = length;
    return true;
}

static bool etcd_acquire(void *opened, const char *name, int64_t wait_ms, measure_reason *why)
{
    etcd_session *session = opened;
    const int64_t now = measure_now_ns();
    if (now - session->lease_ns > LEASE_NEW_AFTER_S * NS_PER_S && !grant_lease(session, why))
        return false;
    session->request.length = 0;
    put_bytes(&session->request, 1, name, strlen(name));
    put_number(&session->request, 2, session->lease);
    return grpc_call(session->connection, "/v3lockpb.Lock/Lock", &session->request,
                     &session->answer, now + wait_ms * NS_PER_MS, why) &&
           keep_key(session, why);
}

static bool etcd_release(void *opened, const char *name, measure_reason *why)
{
    etcd_session *session = opened;
    (void)name;
    session->request.length = 0;
    put_bytes(&session->request, 1, session->key, session->key_length);
    return grpc_call(session->connection, "/v3lockpb.Lock/Unlock", &session->request,
                     &session->answer, answer_end(), why);
}

static void etcd_close(void *opened)
{
    etcd_session *session = opened;
    measure_reason ignored;
    if (session == NULL)
        return;
    if (session->lease != 0)
        revoke_lease(session, &ignored);
    grpc_disconnect(session->connection);
    free(session);
}

static bool etcd_open(const measure_system *system, void **opened, measure_reason *why)
{
    etcd_session *session = calloc(1, sizeof *session);
    if (session == NULL)
        return measure_because(why, "no memory");
    session->connection = grpc_connect(system->at, why);
    if (session->connection == NULL || !grant_lease(session, why)) {
        etcd_close(session);
        return false;
    }
    *opened = session;
    return true;
}

const measure_system bench_etcd = {
    .id = "etcd",
    .name = "etcd, lock service",
    .keeps = "durable",
    .open = etcd_open,
    .acquire = etcd_acquire,
    .release = etcd_release,
    .close = etcd_close,
};
