/* cli/grants.h - the roles of sql/grants.sql, with what an administrator runs for each. */
#ifndef RL_CLI_GRANTS_H
#define RL_CLI_GRANTS_H

typedef struct cli_role {
    const char *name;
    const char *with; /* another role, whose block belongs to this one, too; "": none */
    const char *text; /* lines; `rowlock` is the schema, 'word'@'localhost' the account */
} cli_role;

/* Made by cmake/embed_grants.awk. */
extern const cli_role cli_roles[];
extern const unsigned cli_role_count;

#endif
