/* stmt/sql.h - the shape of the table that is made from sql/ at build time. */
#ifndef RL_STMT_SQL_H
#define RL_STMT_SQL_H

#include <stdbool.h>
#include <stddef.h>

#include "stmt/statements.h"

#define RL_SQL_MAX_VALUES 16 /* columns, or placeholders, of one statement */

/* In statements that are sent as text alone: a name of the user's, which is quoted; a word of the
 * language, which is not. */
typedef enum rl_type { RL_TYPE_U64, RL_TYPE_I64, RL_TYPE_TEXT, RL_TYPE_NAME, RL_TYPE_WORD } rl_type;

typedef struct rl_sql_param {
    const char *name;
    rl_type type;
} rl_sql_param;

typedef struct rl_sql_column {
    const char *name;
    rl_type type;
    unsigned size; /* bytes, for text */
} rl_sql_column;

typedef struct rl_sql {
    const char *name;
    const char *text; /* one ? for each use of a parameter */
    const char *call; /* of its procedure, one ? for each parameter; NULL: it has none */
    bool as_text;     /* sent as text, values filled in */
    unsigned param_count;
    const rl_sql_param *params;
    unsigned use_count;
    const unsigned char *uses; /* which parameter each ? stands for */
    unsigned column_count;
    const rl_sql_column *columns;
} rl_sql;

extern const rl_sql rl_sql_table[RL_SQL_COUNT];

#endif
