/* admin/rights.h - the rights that sql/grants.sql gives each role. */
#ifndef RL_ADMIN_RIGHTS_H
#define RL_ADMIN_RIGHTS_H

typedef struct rl_right {
    const char *role;
    const char *table;  /* "*": every table of the schema, or the schema itself */
    const char *right;  /* "SELECT", "CREATE ROUTINE" */
    const char *column; /* "": all of them */
} rl_right;

/* Made by cmake/embed_grants.awk. Those of a role, and of a table, stand together. */
extern const rl_right rl_rights[];
extern const unsigned rl_right_count;

#endif
