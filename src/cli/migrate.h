/* cli/migrate.h - what the files of `rowlock migrate` share. */
#ifndef RL_CLI_MIGRATE_H
#define RL_CLI_MIGRATE_H

#include "rowlock/rowlock_admin.h"
#include "rowlock/rowlock_migrate.h"
#include "table.h"

#define NOT_DONE UINT64_MAX

enum {
    MIGRATE_PENDING = 1, /* exit status of `migrate status` */
    PLACEHOLDERS_MOST = 65
};

typedef struct migrating {
    cli_context context;
    rowlock_migrations_options options;
    rowlock_migrations_repair_options repair;
    uint64_t done; /* NOT_DONE: not given */
    bool relock;
    const char *placeholders[PLACEHOLDERS_MOST]; /* a NULL after the last */
    int placeholder_count;
    int (*verb)(struct migrating *m, rowlock_client *client);
    bool dry_run;
    bool quiet;
    bool shown;           /* a line of progress is on the terminal */
    json_object *applied; /* with --json: the files, as they are done */
} migrating;

/* migrate_show.c: what a run would apply, and what was applied. Each returns the exit status. */
int migrate_dry_run(migrating *m, rowlock_client *client);
int migrate_status(migrating *m, rowlock_client *client);
/* A file's number as digits, in `text`, which is "" on entry; a repeatable file has none. */
const char *migrate_number(uint64_t version, char text[CELL_TEXT_MAX]);

#endif
