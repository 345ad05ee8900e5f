/* cli/table.h - tables for people. */
#ifndef RL_CLI_TABLE_H
#define RL_CLI_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct cli_column {
    const char *title;
    bool right;   /* set to the right */
    unsigned cut; /* where the terminal is too narrow: 0 never, 2 sooner than 1 */
} cli_column;

typedef enum cli_colour { CLI_PLAIN = 0, CLI_GREEN, CLI_YELLOW, CLI_RED, CLI_BOLD } cli_colour;

typedef struct cli_table cli_table;

/* `columns` must stay. Out of memory ends the program, in one line. */
cli_table *cli_table_new(const cli_column *columns, size_t count);
/* The next cell, from left to right, row after row. Any text: it is made harmless, and
 * "" stands as "-". */
void cli_table_add(cli_table *table, const char *text, cli_colour colour);
/* Cells that are plain: a number; "3m12s", "-" for a negative duration; of a time in UTC
 * what stands before its fraction of a second. */
void cli_table_add_number(cli_table *table, uint64_t number);
void cli_table_add_duration(cli_table *table, int64_t ms);
void cli_table_add_time(cli_table *table, const char *time);
/* In the width of the terminal where stdout is one, else as wide as it is. Nothing when
 * there is no row. */
void cli_table_print(const cli_table *table);
void cli_table_free(cli_table *table);

/* Columns of the terminal that stdout is; 0: it is none. */
size_t cli_terminal_width(void);
/* `text` in the colour, where stdout is a terminal that is to have colours. */
void cli_print_coloured(const char *text, cli_colour colour);

#endif
