/* cli/grants.h - the roles of sql/grants.sql, with what an administrator runs for each. */
#ifndef RL_CLI_GRANTS_H
#define RL_CLI_GRANTS_H

typedef struct cli_role {
    const char *name;
    /* Lines. # stands for the schema, $ for the account, % for all tables of the schema to migrate;
     * ! becomes the beginning of a comment if that schema is not known. */
    const char *text;
} cli_role;

/* Made by cmake/embed_grants.awk. */
extern const cli_role cli_roles[];
extern const unsigned cli_role_count;

#endif
