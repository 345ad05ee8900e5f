/*
 * bench/bench.h - the lock systems that are measured side by side.
 *
 * Each driver defines its systems as constants; bench.c takes those whose server is there.
 * Where: the environment has BENCH_<ID>_AT, a socket's path or HOST:PORT, and BENCH_<ID>_PIDS,
 * the server's processes (blanks between them), with <ID> the system's id in capitals and "_"
 * for "-" (BENCH_REDIS_MEMORY_AT); rowlock's and the raw ones' have BENCH_MARIADB_AT and _PIDS.
 * tools/bench sets them from what `bench/rivals start DIR` prints; bench.c puts them into `at` and
 * `pids` of its copy of the system, which is what the driver's functions get.
 */
#ifndef ROWLOCK_BENCH_H
#define ROWLOCK_BENCH_H

#include "measure.h"

/* raw.c: what rowlock is built on, through Connector/C. At the same server as rowlock's. */
extern const measure_system bench_raw_row;   /* id "raw-row": FOR UPDATE, COMMIT */
extern const measure_system bench_raw_named; /* id "raw-named": GET_LOCK, RELEASE_LOCK */
extern const measure_system bench_raw_swap;  /* id "raw-swap": two compare-and-swaps */
extern const measure_system bench_raw_bell;  /* id "raw-bell": GET_LOCK, a compare-and-swap, one
                                                with RELEASE_LOCK in it */

/* redis.c (hiredis): SET NX PX, compare-and-delete, pub/sub wake-up; AOF off, and `always`. */
extern const measure_system bench_redis_memory; /* id "redis-memory" */
extern const measure_system bench_redis_always; /* id "redis-always" */
/* A semaphore of MEASURE_SLOTS permits that expire, waiters woken as above. At the same servers. */
extern const measure_system bench_redis_semaphore_memory; /* id "redis-semaphore-memory" */
extern const measure_system bench_redis_semaphore_always; /* id "redis-semaphore-always" */

/* redlock.c (node): Redlock over 5 Redis servers, which BENCH_REDLOCK_..._AT has with commas
 * between them. Ends with one without an id. And what asking the process costs: at those of memory.
 */
extern const measure_system bench_redlocks[]; /* ids "redlock-memory", "redlock-memory-dead" ... */
extern const measure_system bench_node_nothing; /* id "node-nothing" */

/* zookeeper.c (its C client): the recipe of sequential nodes; that of a semaphore with
 * MEASURE_SLOTS leases, at the same server. */
extern const measure_system bench_zookeeper;           /* id "zookeeper" */
extern const measure_system bench_zookeeper_semaphore; /* id "zookeeper-semaphore" */

/* etcd.c: its lock service. */
extern const measure_system bench_etcd; /* id "etcd" */

#endif
