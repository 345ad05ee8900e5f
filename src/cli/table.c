/* cli/table.c - see table.h */
#include "table.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "say.h"
#include "text.h"

enum {
    GAP = 2,       /* blanks between columns */
    NARROWEST = 8, /* no column is cut below this */
    DEFAULT_WIDTH = 80
};

typedef struct table_cell {
    char *text;
    cli_colour colour;
} table_cell;

struct cli_table {
    const cli_column *columns;
    size_t column_count;
    table_cell *cells; /* the titles, then row after row */
    size_t count;
    size_t room;
};

size_t cli_terminal_width(void)
{
    struct winsize size;
    if (!isatty(STDOUT_FILENO))
        return 0;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        return size.ws_col;
    const char *columns = getenv("COLUMNS");
    long width = columns ? strtol(columns, NULL, 10) : 0;
    return width > 0 && width < 10000 ? (size_t)width : DEFAULT_WIDTH;
}

static bool colours_wanted(void)
{
    const char *no_color = getenv("NO_COLOR");
    const char *term = getenv("TERM");
    return isatty(STDOUT_FILENO) && !(no_color && *no_color) &&
           !(term && strcmp(term, "dumb") == 0);
}

static const char *colour_code(cli_colour colour)
{
    switch (colour) {
    case CLI_PLAIN:
        return "";
    case CLI_GREEN:
        return "\033[32m";
    case CLI_YELLOW:
        return "\033[33m";
    case CLI_RED:
        return "\033[31m";
    case CLI_BOLD:
        return "\033[1m";
    }
    return "";
}

static void print_coloured(const char *text, size_t length, cli_colour colour, bool colours)
{
    bool coloured = colours && colour != CLI_PLAIN;
    printf("%s%.*s%s", coloured ? colour_code(colour) : "", (int)length, text,
           coloured ? "\033[0m" : "");
}

void cli_print_coloured(const char *text, cli_colour colour)
{
    print_coloured(text, strlen(text), colour, colours_wanted());
}

cli_table *cli_table_new(const cli_column *columns, size_t count)
{
    cli_table *table = cli_need(calloc(1, sizeof *table));
    table->columns = columns;
    table->column_count = count;
    for (size_t i = 0; i < count; i++)
        cli_table_add(table, columns[i].title, CLI_BOLD);
    return table;
}

static void make_room(cli_table *table)
{
    if (table->count < table->room)
        return;
    table->room = table->room ? table->room * 2 : 64;
    table->cells = cli_need(reallocarray(table->cells, table->room, sizeof *table->cells));
}

void cli_table_add(cli_table *table, const char *text, cli_colour colour)
{
    char *printable = cli_need(cli_printable(*text ? text : "-"));
    make_room(table);
    table->cells[table->count++] = (table_cell){.text = printable, .colour = colour};
}

void cli_table_add_number(cli_table *table, uint64_t number)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, number);
    cli_table_add(table, text, CLI_PLAIN);
}

void cli_table_add_duration(cli_table *table, int64_t ms)
{
    char text[CLI_HUMANE];
    cli_table_add(table, cli_humane(ms, text, sizeof text), CLI_PLAIN);
}

void cli_table_add_time(cli_table *table, const char *time)
{
    char text[sizeof "2026-11-21 07:56:44"];
    snprintf(text, sizeof text, "%.19s", time);
    cli_table_add(table, text, CLI_PLAIN);
}

/* How wide each column would like to be. */
static void natural_widths(const cli_table *table, size_t *widths)
{
    for (size_t i = 0; i < table->count; i++) {
        size_t *width = &widths[i % table->column_count];
        size_t cell_width = cli_width(table->cells[i].text);
        if (cell_width > *width)
            *width = cell_width;
    }
}

/* The column that can best spare some of its width, or column_count. */
static size_t most_to_spare(const cli_table *table, const size_t *widths)
{
    size_t best = table->column_count;
    size_t most = 0;
    for (size_t i = 0; i < table->column_count; i++) {
        size_t spare = widths[i] * table->columns[i].cut;
        if (widths[i] > NARROWEST && spare > most) {
            best = i;
            most = spare;
        }
    }
    return best;
}

/* Takes one column of the terminal after the other from what is widest, so that one long
 * label does not cost the short names beside it. */
static void fit_widths(const cli_table *table, size_t *widths, size_t terminal)
{
    size_t total = GAP * (table->column_count - 1);
    for (size_t i = 0; i < table->column_count; i++)
        total += widths[i];
    for (; total > terminal; total--) {
        size_t widest = most_to_spare(table, widths);
        if (widest == table->column_count)
            return;
        widths[widest]--;
    }
}

static void print_blanks(size_t count)
{
    printf("%*s", (int)count, "");
}

static void print_cut(const table_cell *cell, size_t width, bool last, bool colours)
{
    size_t used;
    size_t bytes = cli_fit(cell->text, width - 1, &used);
    print_coloured(cell->text, bytes, cell->colour, colours);
    fputs("\xe2\x80\xa6", stdout);
    /* A wide character that just did not fit leaves a column over. */
    if (!last)
        print_blanks(width - 1 - used);
}

static void print_cell(const table_cell *cell, size_t width, const cli_column *column, bool last,
                       bool colours)
{
    size_t natural = cli_width(cell->text);
    if (natural > width) {
        print_cut(cell, width, last, colours);
        return;
    }
    if (column->right)
        print_blanks(width - natural);
    print_coloured(cell->text, strlen(cell->text), cell->colour, colours);
    if (!column->right && !last)
        print_blanks(width - natural);
}

void cli_table_print(const cli_table *table)
{
    size_t columns = table->column_count;
    size_t terminal = cli_terminal_width();
    bool colours = colours_wanted();
    if (table->count == columns)
        return; /* titles alone */
    size_t *widths = cli_need(calloc(columns, sizeof *widths));
    natural_widths(table, widths);
    if (terminal > 0)
        fit_widths(table, widths, terminal);
    for (size_t i = 0; i < table->count; i++) {
        size_t column = i % columns;
        bool last = column == columns - 1;
        print_cell(&table->cells[i], widths[column], &table->columns[column], last, colours);
        if (last)
            putchar('\n');
        else
            print_blanks(GAP);
    }
    free(widths);
}

void cli_table_free(cli_table *table)
{
    if (!table)
        return;
    for (size_t i = 0; i < table->count; i++)
        free(table->cells[i].text);
    free(table->cells);
    free(table);
}
