/*
 * bench/zookeeper.c - ZooKeeper as a lock server: the recipe of sequential nodes, as in Curator and
 * ZooKeeper's documentation.
 *
 * A client that wants the lock makes an ephemeral, sequential node below the lock's node and lists
 * its siblings. The lowest has the lock. The others watch the node right before their own, and list
 * again when that is gone. A release deletes the client's node, which wakes one client. A free lock
 * costs a write and a read to acquire and a write to release.
 *
 * A semaphore, as in Curator: below its node are such a lock and the leases. The client with the
 * lock makes an ephemeral node among the leases, lists and watches them until there are no more
 * than slots, and releases the lock. A release deletes the client's lease.
 */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define THREADED /* asks the header for the synchronous calls */
#include <zookeeper/zookeeper.h>

#include "bench.h"

#define ROOT "/rowlock-bench"

enum {
    SESSION_MS = 30000,
    CONNECT_WITHIN_MS = 10000,
    NS_PER_MS = 1000000,
    NS_PER_S = 1000000000,
    PATH_SIZE = sizeof ROOT + 2 * MEASURE_NAME_MAX + 32,
};

typedef struct zk_session zk_session;

typedef struct zk_watch {
    zk_session *session;
    bool fired; /* what is watched has changed */
} zk_watch;

struct zk_session {
    zhandle_t *handle;
    pthread_mutex_t mutex; /* for what follows; the library's thread calls back */
    pthread_cond_t changed;
    bool connected;
    bool lost;
    zk_watch node;   /* the one before ours */
    zk_watch leases; /* all of a semaphore's */
    char parent[PATH_SIZE];
    char mine[PATH_SIZE]; /* our node, "" when there is none */
    char lease[PATH_SIZE];
};

static bool zk_because(measure_reason *why, const char *what, const char *path, int status)
{
    return measure_because(why, "ZooKeeper: %s %s: %s", what, path, zerror(status));
}

/* A lock's node, or one below it. Names may have a "/", which would be a level of nodes here. */
static void lock_path(char path[PATH_SIZE], const char *name, const char *below)
{
    const size_t end = sizeof ROOT + strlen(name);
    snprintf(path, PATH_SIZE, ROOT "/%s%s", name, below);
    for (size_t i = sizeof ROOT; i < end && i < PATH_SIZE; i++) {
        if (path[i] == '/')
            path[i] = '_';
    }
}

/* ------------------------------------------------------- what the library tells */

static void session_event(zk_session *session, int state)
{
    session->connected = state == ZOO_CONNECTED_STATE;
    if (state == ZOO_EXPIRED_SESSION_STATE || state == ZOO_AUTH_FAILED_STATE)
        session->lost = true;
}

static void on_session(zhandle_t *handle, int type, int state, const char *path, void *context)
{
    zk_session *session = context;
    (void)handle;
    (void)path;
    if (type != ZOO_SESSION_EVENT)
        return;
    pthread_mutex_lock(&session->mutex);
    session_event(session, state);
    pthread_cond_broadcast(&session->changed);
    pthread_mutex_unlock(&session->mutex);
}

static void on_change(zhandle_t *handle, int type, int state, const char *path, void *context)
{
    zk_watch *watch = context;
    (void)handle;
    (void)state;
    (void)path;
    if (type == ZOO_SESSION_EVENT) /* on_session() hears of it too */
        return;
    pthread_mutex_lock(&watch->session->mutex);
    watch->fired = true;
    pthread_cond_broadcast(&watch->session->changed);
    pthread_mutex_unlock(&watch->session->mutex);
}

/* Before what it watches is looked at. */
static void set_watch(zk_session *session, zk_watch *watch)
{
    pthread_mutex_lock(&session->mutex);
    watch->session = session;
    watch->fired = false;
    pthread_mutex_unlock(&session->mutex);
}

/* Until *what, the loss of the session or the end; says whether it was *what. */
static bool wait_until(zk_session *session, const bool *what, int64_t end_ns)
{
    const struct timespec end = {.tv_sec = end_ns / NS_PER_S, .tv_nsec = end_ns % NS_PER_S};
    int status = 0;
    pthread_mutex_lock(&session->mutex);
    while (!*what && !session->lost && status != ETIMEDOUT)
        status = pthread_cond_clockwait(&session->changed, &session->mutex, CLOCK_MONOTONIC, &end);
    const bool is_so = *what;
    pthread_mutex_unlock(&session->mutex);
    return is_so;
}

/* --------------------------------------------------------------------- the lock */

/* The sequence is all that tells two nodes of a lock apart, and always ten digits. */
static bool make_own(zk_session *session, const char *prefix, char made[PATH_SIZE],
                     measure_reason *why)
{
    const int status = zoo_create(session->handle, prefix, NULL, -1, &ZOO_OPEN_ACL_UNSAFE,
                                  ZOO_EPHEMERAL_SEQUENTIAL, made, PATH_SIZE);
    if (status == ZOK)
        return true;
    made[0] = '\0';
    return zk_because(why, "make", prefix, status);
}

static bool make_mine(zk_session *session, measure_reason *why)
{
    char prefix[PATH_SIZE + 8];
    snprintf(prefix, sizeof prefix, "%s/lock-", session->parent);
    return make_own(session, prefix, session->mine, why);
}

static bool delete_own(zk_session *session, char made[PATH_SIZE], measure_reason *why)
{
    const int status = zoo_delete(session->handle, made, -1);
    if (status != ZOK)
        return zk_because(why, "delete", made, status);
    made[0] = '\0';
    return true;
}

/* The path of the node right before ours; "" when there is none: then the lock is ours. */
static bool find_before(zk_session *session, char before[PATH_SIZE + 32], measure_reason *why)
{
    struct String_vector siblings = {0};
    const char *nearest = NULL;
    const char *own = session->mine + strlen(session->parent) + 1;
    const int status = zoo_get_children(session->handle, session->parent, 0, &siblings);
    if (status != ZOK)
        return zk_because(why, "list", session->parent, status);
    for (int32_t i = 0; i < siblings.count; i++) {
        const char *sibling = siblings.data[i];
        if (strcmp(sibling, own) < 0 && (nearest == NULL || strcmp(sibling, nearest) > 0))
            nearest = sibling;
    }
    before[0] = '\0';
    if (nearest != NULL)
        snprintf(before, PATH_SIZE + 32, "%s/%s", session->parent, nearest);
    deallocate_String_vector(&siblings);
    return true;
}

/* Until that node is gone. */
static bool wait_for(zk_session *session, const char *before, int64_t end_ns, measure_reason *why)
{
    char nothing[1];
    int length = sizeof nothing;
    set_watch(session, &session->node);
    /* Not zoo_wexists(): on a node that is gone already it would leave a watch behind. */
    const int status =
        zoo_wget(session->handle, before, on_change, &session->node, nothing, &length, NULL);
    if (status == ZNONODE)
        return true;
    if (status != ZOK)
        return zk_because(why, "watch", before, status);
    if (wait_until(session, &session->node.fired, end_ns))
        return true;
    return measure_because(why, "ZooKeeper: %s was still there at the end, or the session was lost",
                           before);
}

static bool wait_until_first(zk_session *session, int64_t end_ns, measure_reason *why)
{
    char before[PATH_SIZE + 32];
    while (find_before(session, before, why)) {
        if (before[0] == '\0')
            return true;
        if (!wait_for(session, before, end_ns, why))
            return false;
    }
    return false;
}

/* The lock with the nodes below `parent`. */
static bool take_lock(zk_session *session, int64_t end_ns, measure_reason *why)
{
    if (!make_mine(session, why))
        return false;
    if (wait_until_first(session, end_ns, why))
        return true;
    measure_reason ignored;
    delete_own(session, session->mine, &ignored);
    return false;
}

static bool zk_acquire(void *opened, const char *name, int64_t wait_ms, measure_reason *why)
{
    zk_session *session = opened;
    const int64_t end_ns = measure_now_ns() + wait_ms * NS_PER_MS;
    lock_path(session->parent, name, "");
    return take_lock(session, end_ns, why);
}

static bool zk_release(void *opened, const char *name, measure_reason *why)
{
    (void)name;
    zk_session *session = opened;
    return delete_own(session, session->mine, why);
}

/* ---------------------------------------------------------------- the semaphore */

#define LOCK_BELOW   "/locks"
#define LEASES_BELOW "/leases"

static bool count_leases(zk_session *session, const char *parent, int32_t *count,
                         measure_reason *why)
{
    struct String_vector leases = {0};
    set_watch(session, &session->leases);
    const int status =
        zoo_wget_children(session->handle, parent, on_change, &session->leases, &leases);
    if (status != ZOK)
        return zk_because(why, "list", parent, status);
    *count = leases.count;
    deallocate_String_vector(&leases);
    return true;
}

static bool wait_for_slot(zk_session *session, const char *parent, int64_t end_ns,
                          measure_reason *why)
{
    int32_t count = 0;
    while (count_leases(session, parent, &count, why)) {
        if (count <= MEASURE_SLOTS)
            return true;
        if (!wait_until(session, &session->leases.fired, end_ns))
            return measure_because(
                why, "ZooKeeper: no slot of %s at the end, or the session was lost", parent);
    }
    return false;
}

/* A lease that is left here ends with the session. */
static bool take_lease(zk_session *session, const char *name, int64_t end_ns, measure_reason *why)
{
    char parent[PATH_SIZE];
    char prefix[PATH_SIZE];
    lock_path(parent, name, LEASES_BELOW);
    lock_path(prefix, name, LEASES_BELOW "/lease-");
    return make_own(session, prefix, session->lease, why) &&
           wait_for_slot(session, parent, end_ns, why);
}

static bool semaphore_acquire(void *opened, const char *name, int64_t wait_ms, measure_reason *why)
{
    zk_session *session = opened;
    measure_reason ignored;
    const int64_t end_ns = measure_now_ns() + wait_ms * NS_PER_MS;
    lock_path(session->parent, name, LOCK_BELOW);
    if (!take_lock(session, end_ns, why))
        return false;
    const bool taken = take_lease(session, name, end_ns, why);
    return delete_own(session, session->mine, taken ? why : &ignored) && taken;
}

static bool semaphore_release(void *opened, const char *name, measure_reason *why)
{
    (void)name;
    zk_session *session = opened;
    return delete_own(session, session->lease, why);
}

/* ------------------------------------------------------------------ the session */

static void zk_close(void *opened)
{
    zk_session *session = opened;
    if (session == NULL)
        return;
    if (session->handle != NULL)
        zookeeper_close(session->handle);
    pthread_cond_destroy(&session->changed);
    pthread_mutex_destroy(&session->mutex);
    free(session);
}

static bool zk_open(const measure_system *system, void **opened, measure_reason *why)
{
    zk_session *session = calloc(1, sizeof *session);
    if (session == NULL)
        return measure_because(why, "no memory");
    pthread_mutex_init(&session->mutex, NULL);
    pthread_cond_init(&session->changed, NULL);
    zoo_set_debug_level((ZooLogLevel)0); /* it would print */
    const int64_t end_ns = measure_now_ns() + (int64_t)CONNECT_WITHIN_MS * NS_PER_MS;
    session->handle = zookeeper_init(system->at, on_session, SESSION_MS, NULL, session, 0);
    if (session->handle == NULL || !wait_until(session, &session->connected, end_ns)) {
        measure_because(why, "ZooKeeper at %s does not answer", system->at);
        zk_close(session);
        return false;
    }
    *opened = session;
    return true;
}

/* --------------------------------------------------------- the nodes of the locks */

static bool make_node(zk_session *session, const char *path, measure_reason *why)
{
    const int status =
        zoo_create(session->handle, path, NULL, -1, &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT, NULL, 0);
    return status == ZOK || status == ZNODEEXISTS || zk_because(why, "make", path, status);
}

static bool delete_node(zk_session *session, const char *path, measure_reason *why)
{
    const int status = zoo_delete(session->handle, path, -1);
    return status == ZOK || status == ZNONODE || zk_because(why, "delete", path, status);
}

static bool zk_prepare(const measure_system *system, const char *const names[], size_t count,
                       measure_reason *why)
{
    void *opened = NULL;
    char path[PATH_SIZE];
    if (!zk_open(system, &opened, why))
        return false;
    bool done = make_node(opened, ROOT, why);
    for (size_t i = 0; done && i < count; i++) {
        lock_path(path, names[i], "");
        done = make_node(opened, path, why);
    }
    zk_close(opened);
    return done;
}

static bool semaphore_prepare(const measure_system *system, const char *const names[], size_t count,
                              measure_reason *why)
{
    void *opened = NULL;
    char lock[PATH_SIZE];
    char leases[PATH_SIZE];
    if (!zk_prepare(system, names, count, why) || !zk_open(system, &opened, why))
        return false;
    bool done = true;
    for (size_t i = 0; done && i < count; i++) {
        lock_path(lock, names[i], LOCK_BELOW);
        lock_path(leases, names[i], LEASES_BELOW);
        done = make_node(opened, lock, why) && make_node(opened, leases, why);
    }
    zk_close(opened);
    return done;
}

/* With what dead clients left: their nodes would stay until their sessions expire. */
static bool delete_lock(zk_session *session, const char *path, measure_reason *why)
{
    struct String_vector nodes = {0};
    char node[PATH_SIZE + 32];
    const int status = zoo_get_children(session->handle, path, 0, &nodes);
    if (status == ZNONODE)
        return true;
    if (status != ZOK)
        return zk_because(why, "list", path, status);
    bool done = true;
    for (int32_t i = 0; done && i < nodes.count; i++) {
        snprintf(node, sizeof node, "%s/%s", path, nodes.data[i]);
        done = delete_node(session, node, why);
    }
    deallocate_String_vector(&nodes);
    return done && delete_node(session, path, why);
}

/* A semaphore's has nodes that have nodes. */
static bool delete_all(zk_session *session, const char *name, measure_reason *why)
{
    static const char *const below[] = {LOCK_BELOW, LEASES_BELOW, ""};
    char path[PATH_SIZE];
    bool done = true;
    for (size_t i = 0; done && i < sizeof below / sizeof below[0]; i++) {
        lock_path(path, name, below[i]);
        done = delete_lock(session, path, why);
    }
    return done;
}

static bool zk_tidy(const measure_system *system, const char *const names[], size_t count,
                    measure_reason *why)
{
    void *opened = NULL;
    if (!zk_open(system, &opened, why))
        return false;
    bool done = true;
    for (size_t i = 0; done && i < count; i++)
        done = delete_all(opened, names[i], why);
    zk_close(opened);
    return done;
}

const measure_system bench_zookeeper = {
    .id = "zookeeper",
    .name = "ZooKeeper, sequential nodes",
    .keeps = "durable",
    .prepare = zk_prepare,
    .tidy = zk_tidy,
    .open = zk_open,
    .acquire = zk_acquire,
    .release = zk_release,
    .close = zk_close,
};

const measure_system bench_zookeeper_semaphore = {
    .id = "zookeeper-semaphore",
    .name = "ZooKeeper, Curator's semaphore of 4",
    .keeps = "durable",
    .holders = MEASURE_SLOTS,
    .prepare = semaphore_prepare,
    .tidy = zk_tidy,
    .open = zk_open,
    .acquire = semaphore_acquire,
    .release = semaphore_release,
    .close = zk_close,
};
