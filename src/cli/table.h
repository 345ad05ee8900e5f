/*
 * cli/table.h - rows, as tables for people and as JSON for programs; and JSON objects. Out of
 * memory ends the program with a message.
 */
#ifndef RL_CLI_TABLE_H
#define RL_CLI_TABLE_H

#include <json-c/json.h>

#include "cli.h"
#include "rowlock/rowlock_latch.h"

typedef enum cli_colour { CLI_PLAIN = 0, CLI_GREEN, CLI_YELLOW, CLI_RED, CLI_BOLD } cli_colour;

/* The word for a value of an enum; an array of them has the value as its index. */
typedef struct cli_named {
    const char *word;
    cli_colour colour;
} cli_named;

extern const cli_named cli_modes[]; /* for rowlock_mode */

/* The type of a cell. */
typedef enum cli_cell {
    CELL_TEXT = 1, /* const char *; a table shows "" as "-" */
    CELL_NAMED,    /* an enum, by `names` */
    CELL_UNSIGNED,
    CELL_COUNT,  /* uint64_t */
    CELL_MS,     /* int64_t, a duration: "3m12s"; negative: unknown, which is null and "-" */
    CELL_US,     /* double, microseconds; negative: unknown */
    CELL_REAL,   /* double; negative: unknown */
    CELL_TIME,   /* const char *, in UTC; "": unknown */
    CELL_JSON,   /* no member of the row: `json` adds it */
    CELL_LITERAL /* no member of the row: `text` gives its JSON; "": unknown */
} cli_cell;

enum { CELL_TEXT_MAX = 1100 };

/*
 * The holder's label, or else its owner id; for readers, slots or members their number, in `text`;
 * "" for a queue.
 */
const char *cli_holder(const rowlock_info *info, char text[CELL_TEXT_MAX]);

/* cmd_latch.c: prints the state of a latch for people. */
void cli_latch_print(const char *name, const rowlock_latch_info *info);

/* The columns of a table, in the order of the JSON; the last one is empty. */
typedef struct cli_column {
    const char *key; /* in JSON; NULL: not in JSON */
    cli_cell kind;
    size_t at;         /* offset of the member in the row */
    const char *title; /* in the table; NULL: not in the table */
    unsigned place;    /* position in the table, from 1 */
    unsigned cut;      /* if the terminal is too narrow: 0 is never cut, 2 sooner than 1 */
    bool cut_middle;   /* cut in the middle: a name's end tells as much as its beginning */
    unsigned least;    /* the least readable width: columns with `spare` are left out first */
    unsigned spare;    /* 0: never left out; 1: when the others do not fit even at their least
                          widths; 2 or more (3 before 2): when they do not fit at their readable
                          widths */
    const cli_named *names;
    /* Gives the text in place of the member: for CELL_TEXT, CELL_TIME and CELL_LITERAL in table and
     * JSON, for other types in the table alone. `buffer` is "" on entry. */
    const char *(*text)(const void *row, char buffer[CELL_TEXT_MAX]);
    cli_colour colour;
    cli_colour (*colour_of)(const void *row);
    void (*json)(json_object *object, const char *key, const void *row);
} cli_column;

#define CELL_AT(type, member) .at = offsetof(type, member)

/* Rows that are being printed. */
typedef struct cli_rows {
    const cli_column *columns;
    bool json;
    size_t count;
    struct cli_table *table;
    bool titled; /* without rows, the titles are printed, unless stdout is a terminal */
} cli_rows;

/* `columns` must stay. */
cli_rows cli_rows_begin(const cli_column *columns, bool json);
/* JSON is printed at once, a table at the end: as wide as the terminal if stdout is one, else
 * uncut. Control characters are escaped. */
void cli_rows_add(cli_rows *rows, const void *row);
/* `none`: printed on a terminal if there was no row; may be NULL. */
void cli_rows_end(cli_rows *rows, const char *none);
/* In place of cli_rows_end() after a failure: prints nothing. */
void cli_rows_drop(cli_rows *rows);

/* For -o: the columns of a list of titles (in upper or lower case), in its order; JSON stays as it
 * was. NULL: it has reported an error. The result is never freed. */
const cli_column *cli_columns_of(const cli_column *columns, const char *list);

/* Turns "2026-11-21 07:56:44.123456", in UTC, into local time, without the fraction. */
const char *cli_local_time(const char *utc, char text[CELL_TEXT_MAX]);

/* One row as a JSON object. */
json_object *cli_row_json(const cli_column *columns, const void *row);

/* The width of a terminal in columns; 0: it is no terminal. */
size_t cli_terminal_width(int fd);
/* Prints `text`, in the colour if stdout is a terminal and colours are wanted. */
void cli_print_coloured(const char *text, cli_colour colour);

/* ------------------------------------------------------------- JSON: json.c */

json_object *cli_json_new(void);

/* Add members. Bytes that are not UTF-8 become U+FFFD, so that the output is always valid. */
void cli_json_text(json_object *object, const char *key, const char *value);
/* "2026-11-21 07:56:44.123456" as 2026-11-21T07:56:44.123456Z; "" as null. */
void cli_json_time(json_object *object, const char *key, const char *value);
/* Adds the digits (or "true") unquoted; "" as null. */
void cli_json_number(json_object *object, const char *key, const char *digits);
void cli_json_count(json_object *object, const char *key, uint64_t value);

/* cli_json_array() adds an empty array, which the object owns; cli_json_append() adds an item to
 * it. */
json_object *cli_json_array(json_object *object, const char *key);
void cli_json_append(json_object *array, json_object *item);

/* Prints the object on a line of its own, and frees it. */
void cli_json_print(json_object *object);
/* The same into memory (free() it), with the end of line. */
char *cli_json_line(json_object *object, size_t *length);
/* Prints the object as the index-th item of an array, and frees it. The second one ends an array of
 * `count` items. */
void cli_json_item(json_object *object, size_t index);
void cli_json_end(size_t count);

#endif
