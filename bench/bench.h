/*
 * bench/bench.h - the lock systems that are measured side by side.
 *
 * Each driver defines its systems as constants; bench.c takes those whose server is there.
 * Where: the environment has BENCH_<ID>_AT, a socket's path or HOST:PORT, and BENCH_<ID>_PIDS,
 * the server's processes (blanks between them), with <ID> the system's id in capitals and "_"
 * for "-" (BENCH_REDIS_MEMORY_AT). tools/bench sets them from what `bench/servers.sh start DIR`
 * prints, lines of KEY=VALUE; bench.c puts them into `at` and `pids` of its copy of the system,
 * which is what the driver's functions get.
 */
#ifndef ROWLOCK_BENCH_H
#define ROWLOCK_BENCH_H

#include "measure.h"

/* redis.c (hiredis): SET NX PX, compare-and-delete, pub/sub wake-up; AOF off, and `always`. */
extern const measure_system bench_redis_memory; /* id "redis-memory" */
extern const measure_system bench_redis_always; /* id "redis-always" */

/* zookeeper.c (its C client): the recipe of sequential nodes. */
extern const measure_system bench_zookeeper; /* id "zookeeper" */

/* etcd.c: its lock service. */
extern const measure_system bench_etcd; /* id "etcd" */

#endif
