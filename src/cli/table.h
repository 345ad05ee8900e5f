/*
 * cli/table.h - what is listed: rows, as tables for people and as JSON for programs; and JSON by
 * itself. Out of memory ends the program, in one line.
 */
#ifndef RL_CLI_TABLE_H
#define RL_CLI_TABLE_H

#include <json-c/json.h>

#include "cli.h"
#include "rowlock/rowlock_latch.h"

typedef enum cli_colour { CLI_PLAIN = 0, CLI_GREEN, CLI_YELLOW, CLI_RED, CLI_BOLD } cli_colour;

/* The word for a value of an enum, by the value. */
typedef struct cli_named {
    const char *word;
    cli_colour colour;
} cli_named;

extern const cli_named cli_modes[]; /* of rowlock_mode */

/* What a member of a row is. */
typedef enum cli_cell {
    CELL_TEXT = 1, /* const char *; "" stands as "-" in a table */
    CELL_NAMED,    /* an enum, by `names` */
    CELL_UNSIGNED,
    CELL_COUNT,  /* uint64_t */
    CELL_MS,     /* int64_t, a duration: "3m12s"; a negative one is not known: null, and "-" */
    CELL_US,     /* double, microseconds; negative: not known */
    CELL_REAL,   /* double; the same */
    CELL_TIME,   /* const char *, in UTC: "" is not known */
    CELL_JSON,   /* no member: `json` adds it */
    CELL_LITERAL /* no member: `text` gives it as JSON has it; "" is not known */
} cli_cell;

enum { CELL_TEXT_MAX = 1100 };

/* Who holds it: the label people know, else the owner id; or how many do. `text` is for the latter.
 */
const char *cli_holder(const rowlock_info *info, char text[CELL_TEXT_MAX]);

/* cmd_latch.c: how a latch stands, for people. */
void cli_latch_print(const char *name, const rowlock_latch_info *info);

/* A table of columns ends with an empty one. They are in the order of the JSON. */
typedef struct cli_column {
    const char *key; /* in JSON; NULL: not there */
    cli_cell kind;
    size_t at;         /* of the member in the row */
    const char *title; /* in the table; NULL: not there */
    unsigned place;    /* in the table, from 1 */
    unsigned cut;      /* where the terminal is too narrow: 0 never, 2 sooner than 1 */
    bool cut_middle;   /* ... in the middle: a name's end tells as much as its beginning */
    unsigned least;    /* cut below this it says little: rather what may be spared is left out */
    unsigned spare;    /* left out: 0 never; 1 where all are cut to the least there is and do not
                          fit; from 2 on sooner (3 before 2), where others would be cut below theirs */
    const cli_named *names;
    /* Gives the text instead of the member: of CELL_TEXT, CELL_TIME and CELL_LITERAL in table and
     * JSON, of other kinds in the table alone. `buffer` is "" on entry. */
    const char *(*text)(const void *row, char buffer[CELL_TEXT_MAX]);
    cli_colour colour;
    cli_colour (*colour_of)(const void *row);
    void (*json)(json_object *object, const char *key, const void *row);
} cli_column;

#define CELL_AT(type, member) .at = offsetof(type, member)

/* Rows on their way out. */
typedef struct cli_rows {
    const cli_column *columns;
    bool json;
    size_t count;
    struct cli_table *table;
    bool titled; /* its titles are printed without a row, too, but on a terminal */
} cli_rows;

/* `columns` must stay. */
cli_rows cli_rows_begin(const cli_column *columns, bool json);
/* JSON is printed as it comes, a table at the end: in the width of the terminal where stdout is
 * one, else as wide as it is. Text that a terminal might obey is made harmless. */
void cli_rows_add(cli_rows *rows, const void *row);
/* `none` is said on a terminal where there was no row; NULL: nothing is. */
void cli_rows_end(cli_rows *rows, const char *none);
/* In its place, where the call has failed: nothing is printed. */
void cli_rows_drop(cli_rows *rows);

/* Some of the columns, in the order of a list of their titles, in any case, and what is for JSON as
 * it was: for -o. NULL: it has complained. It stays. */
const cli_column *cli_columns_of(const cli_column *columns, const char *list);

/* "2026-11-21 07:56:44.123456", of UTC, as this host's local time, without the fraction. */
const char *cli_local_time(const char *utc, char text[CELL_TEXT_MAX]);

/* One row as an object. */
json_object *cli_row_json(const cli_column *columns, const void *row);

/* Columns of the terminal that it is; 0: it is none. */
size_t cli_terminal_width(int fd);
/* `text` in the colour, where stdout is a terminal that is to have colours. */
void cli_print_coloured(const char *text, cli_colour colour);

/* ------------------------------------------------------------- JSON: json.c */

json_object *cli_json_new(void);

/* Members. Bytes that are not UTF-8 become U+FFFD, so that the output is always valid. */
void cli_json_text(json_object *object, const char *key, const char *value);
/* "2026-11-21 07:56:44.123456" as 2026-11-21T07:56:44.123456Z; "" as null. */
void cli_json_time(json_object *object, const char *key, const char *value);
/* The digits as they are (or "true"); "" as null. */
void cli_json_number(json_object *object, const char *key, const char *digits);
void cli_json_count(json_object *object, const char *key, uint64_t value);

/* A member that is an empty array (it belongs to the object), and a further item of one. */
json_object *cli_json_array(json_object *object, const char *key);
void cli_json_append(json_object *array, json_object *item);

/* Prints it on a line of its own, and frees it. */
void cli_json_print(json_object *object);
/* In its place: for free(), with its end of line. */
char *cli_json_line(json_object *object, size_t *length);
/* The same as the index-th of an array, then the end of an array of so many. */
void cli_json_item(json_object *object, size_t index);
void cli_json_end(size_t count);

#endif
