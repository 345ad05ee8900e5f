/* migrate/migrations.h - the table that is made from migrations/ at build time. */
#ifndef RL_MIGRATE_MIGRATIONS_H
#define RL_MIGRATE_MIGRATIONS_H

#include <stdbool.h>

typedef struct rl_migration {
    unsigned version;
    const char *name;
    const char *content; /* each of its statements may be run again */
    bool breaking; /* a program that does not know it must not use the schema */
} rl_migration;

extern const rl_migration rl_migrations[];
extern const unsigned rl_migration_count;

#endif
