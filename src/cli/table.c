/* cli/table.c - see table.h */
#include "table.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

const char *cli_holder(const rowlock_info *info, char text[CELL_TEXT_MAX])
{
    if (info->kind == ROWLOCK_KIND_QUEUE)
        return ""; /* its items have holders of their own */
    if (info->kind == ROWLOCK_KIND_BARRIER && info->down == 0)
        snprintf(text, CELL_TEXT_MAX, "%" PRIu64 " together", info->readers);
    else if (info->kind == ROWLOCK_KIND_LATCH || info->kind == ROWLOCK_KIND_BARRIER)
        snprintf(text, CELL_TEXT_MAX, "%" PRIu64 " of %" PRIu64, info->down, info->count);
    else if (info->slots > 0)
        snprintf(text, CELL_TEXT_MAX, "%" PRIu64 " of %" PRIu64 " slots", info->slots_held,
                 info->slots);
    else if (info->readers > 0)
        snprintf(text, CELL_TEXT_MAX, "%" PRIu64 " together", info->readers);
    else if (*info->owner_label)
        return info->owner_label;
    else
        return *info->owner ? info->owner : "an unnamed holder";
    return text;
}

const cli_named cli_modes[] = {
    [ROWLOCK_OPTIMISTIC] = {"lease", CLI_PLAIN},
    [ROWLOCK_PESSIMISTIC] = {"pessimistic", CLI_PLAIN},
};

enum {
    GAP = 2,       /* blanks between two columns */
    NARROWEST = 8, /* no column is cut below this */
    DEFAULT_WIDTH = 80,
    COLUMNS_MAX = 16
};

typedef struct table_cell {
    char *text;
    cli_colour colour;
} table_cell;

typedef struct cli_table {
    const cli_column *columns[COLUMNS_MAX]; /* in the order of the table */
    size_t column_count;
    table_cell *cells; /* the titles, then the rows */
    size_t count;
    size_t room;
} cli_table;

size_t cli_terminal_width(int fd)
{
    struct winsize size;
    if (!isatty(fd))
        return 0;
    if (ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
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

static void print_coloured(const char *text, size_t length, cli_colour colour, bool colours)
{
    static const char *const codes[] = {[CLI_GREEN] = "\033[32m",
                                        [CLI_YELLOW] = "\033[33m",
                                        [CLI_RED] = "\033[31m",
                                        [CLI_BOLD] = "\033[1m"};
    bool coloured = colours && colour != CLI_PLAIN;
    printf("%s%.*s%s", coloured ? codes[colour] : "", (int)length, text, coloured ? "\033[0m" : "");
}

void cli_print_coloured(const char *text, cli_colour colour)
{
    print_coloured(text, strlen(text), colour, colours_wanted());
}

/* ---------------------------------------------------------------------- cells */

static void add_cell(cli_table *table, const char *text, cli_colour colour)
{
    char *printable = cli_need(cli_printable(*text ? text : "-"));
    if (table->count == table->room) {
        table->room = table->room ? table->room * 2 : 64;
        table->cells = cli_need(reallocarray(table->cells, table->room, sizeof *table->cells));
    }
    table->cells[table->count++] = (table_cell){.text = printable, .colour = colour};
}

/* A cell as programs read it; "": unknown. The result is in `text`, or in the row. */
static const char *plain_text(const cli_column *column, const void *row, char *text)
{
    const void *member = (const char *)row + column->at;
    double real = 0;
    int64_t number = 0;
    text[0] = '\0';
    switch (column->kind) {
    case CELL_TEXT:
    case CELL_TIME:
    case CELL_LITERAL:
        return column->text ? column->text(row, text) : *(const char *const *)member;
    case CELL_NAMED:
        return column->names[*(const unsigned *)member].word;
    case CELL_UNSIGNED:
        snprintf(text, CELL_TEXT_MAX, "%u", *(const unsigned *)member);
        break;
    case CELL_COUNT:
        snprintf(text, CELL_TEXT_MAX, "%" PRIu64, *(const uint64_t *)member);
        break;
    case CELL_MS:
        number = *(const int64_t *)member;
        if (number >= 0)
            snprintf(text, CELL_TEXT_MAX, "%" PRId64, number);
        break;
    case CELL_US:
    case CELL_REAL: /* with the digits that are of interest */
        real = *(const double *)member;
        if (real >= 0)
            snprintf(text, CELL_TEXT_MAX, "%.*f", real < 1000 ? 2 : 0, real);
        break;
    case CELL_JSON:
        break;
    }
    return text;
}

/* Three digits: measurements are not more precise. */
static void write_us(double us, char *text)
{
    if (us >= 999500)
        snprintf(text, CELL_TEXT_MAX, "%.2f s", us / 1e6);
    else if (us >= 999.5)
        snprintf(text, CELL_TEXT_MAX, "%.*f ms", us < 9995 ? 2 : us < 99950 ? 1 : 0, us / 1e3);
    else
        snprintf(text, CELL_TEXT_MAX, "%.0f us", us);
}

/* A cell as people read it. */
static const char *table_text(const cli_column *column, const void *row, char *text)
{
    const char *plain = plain_text(column, row, text);
    if (column->text) {
        text[0] = '\0';
        return column->text(row, text);
    }
    if (!*plain)
        return plain;
    if (column->kind == CELL_MS)
        cli_humane(strtoll(plain, NULL, 10), text, CELL_TEXT_MAX);
    else if (column->kind == CELL_US)
        write_us(*(const double *)(const void *)((const char *)row + column->at), text);
    else if (column->kind == CELL_TIME) /* without the fraction of a second */
        snprintf(text, CELL_TEXT_MAX, "%.19s", plain);
    else
        return plain;
    return text;
}

static cli_colour colour_of(const cli_column *column, const void *row)
{
    const void *member = (const char *)row + column->at;
    if (column->names)
        return column->names[*(const unsigned *)member].colour;
    return column->colour_of ? column->colour_of(row) : column->colour;
}

static void add_json(json_object *object, const cli_column *column, const void *row)
{
    char buffer[CELL_TEXT_MAX];
    const char *text = plain_text(column, row, buffer);
    if (column->kind == CELL_JSON)
        column->json(object, column->key, row);
    else if (column->kind == CELL_TEXT || column->kind == CELL_NAMED)
        cli_json_text(object, column->key, text);
    else if (column->kind == CELL_TIME)
        cli_json_time(object, column->key, text);
    else
        cli_json_number(object, column->key, text);
}

json_object *cli_row_json(const cli_column *columns, const void *row)
{
    json_object *object = cli_json_new();
    for (; columns->kind; columns++) {
        if (columns->key)
            add_json(object, columns, row);
    }
    return object;
}

/* ----------------------------------------------------------------------- rows */

static bool is_right(const cli_column *column)
{
    return column->kind != CELL_TEXT && column->kind != CELL_NAMED && column->kind != CELL_TIME;
}

static cli_table *new_table(const cli_column *columns)
{
    cli_table *table = cli_need(calloc(1, sizeof *table));
    for (; columns->kind; columns++) {
        if (!columns->title)
            continue;
        table->columns[columns->place - 1] = columns;
        table->column_count++;
    }
    for (size_t i = 0; i < table->column_count; i++)
        add_cell(table, table->columns[i]->title, CLI_BOLD);
    return table;
}

/* The widths at which nothing is cut. */
static void natural_widths(const cli_table *table, size_t *widths)
{
    for (size_t i = 0; i < table->count; i++) {
        size_t *width = &widths[i % table->column_count];
        size_t cell_width = cli_width(table->cells[i].text);
        if (cell_width > *width)
            *width = cell_width;
    }
}

/* The least width that a column may be cut to; `readable`: at which it is still readable. */
static size_t least_width(const cli_column *column, size_t width, bool readable)
{
    const size_t least = readable && column->least > NARROWEST ? column->least : NARROWEST;
    return column->cut > 0 && width > least ? least : width;
}

/* The column to narrow next, or column_count; `readable`: only one that stays readable. */
static size_t most_to_spare(const cli_table *table, const size_t *widths, bool readable)
{
    size_t best = table->column_count;
    size_t most = 0;
    for (size_t i = 0; i < table->column_count; i++) {
        size_t spare = widths[i] * table->columns[i]->cut;
        if (widths[i] > least_width(table->columns[i], widths[i], readable) && spare > most) {
            best = i;
            most = spare;
        }
    }
    return best;
}

static size_t columns_taken(const cli_table *table, const size_t *widths)
{
    size_t total = 0;
    for (size_t i = 0; i < table->column_count; i++)
        if (widths[i] > 0)
            total += widths[i] + (total > 0 ? GAP : 0);
    return total;
}

static bool is_empty(const cli_table *table, size_t column)
{
    for (size_t i = column + table->column_count; i < table->count; i += table->column_count)
        if (strcmp(table->cells[i].text, "-") != 0)
            return false;
    return true;
}

/* The column to leave out next, or column_count: an empty one, else the one with the highest
 * `spare` that is `lowest` or more. */
static size_t least_wanted(const cli_table *table, const size_t *widths, unsigned lowest)
{
    size_t best = table->column_count;
    unsigned most = lowest - 1;
    for (size_t i = 0; i < table->column_count; i++) {
        const unsigned spare = table->columns[i]->spare;
        const unsigned rank = spare > 0 && is_empty(table, i) ? UINT_MAX : spare;
        if (widths[i] > 0 && rank > most) {
            best = i;
            most = rank;
        }
    }
    return best;
}

/* Leaves out columns (width 0) until the others fit at their least widths; `readable`: at readable
 * ones. */
static void leave_out(const cli_table *table, size_t *widths, size_t terminal, bool readable)
{
    for (;;) {
        size_t least[COLUMNS_MAX] = {0};
        for (size_t i = 0; i < table->column_count; i++)
            least[i] = least_width(table->columns[i], widths[i], readable);
        const size_t unwanted = least_wanted(table, widths, readable ? 2 : 1);
        if (columns_taken(table, least) <= terminal || unwanted == table->column_count)
            return;
        widths[unwanted] = 0;
    }
}

/* Takes one character after the other from the widest column, so that a long label does not shorten
 * the short names beside it. */
static void fit_widths(const cli_table *table, size_t *widths, size_t terminal)
{
    leave_out(table, widths, terminal, true);
    leave_out(table, widths, terminal, false);
    for (size_t total = columns_taken(table, widths); total > terminal; total--) {
        size_t widest = most_to_spare(table, widths, true);
        if (widest == table->column_count)
            widest = most_to_spare(table, widths, false);
        if (widest == table->column_count)
            return;
        widths[widest]--;
    }
}

static void print_blanks(size_t count)
{
    printf("%*s", (int)count, "");
}

static void print_cut(const table_cell *cell, size_t width, const cli_column *column, bool last,
                      bool colours)
{
    char *text = cli_need(cli_cut(cell->text, width, column->cut_middle));
    print_coloured(text, strlen(text), cell->colour, colours);
    /* Pads: a wide character that did not fit leaves a blank. */
    if (!last)
        print_blanks(width - cli_width(text));
    free(text);
}

static void print_cell(const table_cell *cell, size_t width, const cli_column *column, bool last,
                       bool colours)
{
    size_t natural = cli_width(cell->text);
    if (natural > width) {
        print_cut(cell, width, column, last, colours);
        return;
    }
    if (is_right(column))
        print_blanks(width - natural);
    print_coloured(cell->text, strlen(cell->text), cell->colour, colours);
    if (!is_right(column) && !last)
        print_blanks(width - natural);
}

static void print_table(const cli_table *table, bool titled)
{
    size_t columns = table->column_count;
    size_t terminal = cli_terminal_width(STDOUT_FILENO);
    bool colours = colours_wanted();
    size_t widths[COLUMNS_MAX] = {0};
    if (table->count == columns && (terminal > 0 || !titled))
        return; /* there are only titles */
    natural_widths(table, widths);
    if (terminal > 0)
        fit_widths(table, widths, terminal);
    size_t end = columns;
    while (end > 1 && widths[end - 1] == 0)
        end--;
    for (size_t i = 0; i < table->count; i++) {
        size_t column = i % columns;
        bool last = column == end - 1;
        if (widths[column] == 0)
            continue;
        print_cell(&table->cells[i], widths[column], table->columns[column], last, colours);
        if (last)
            putchar('\n');
        else
            print_blanks(GAP);
    }
}

/* -------------------------------------------------------------------- chosen columns */

static cli_column *find_column(cli_column *columns, const char *word, size_t length)
{
    for (; columns->kind; columns++) {
        const char *names[] = {columns->title, columns->key};
        for (size_t i = 0; i < 2 && columns->title; i++)
            if (names[i] && strlen(names[i]) == length && strncasecmp(names[i], word, length) == 0)
                return columns;
    }
    return NULL;
}

static void complain_of_column(const cli_column *columns, const char *word, size_t length)
{
    char all[512] = "";
    size_t used = 0;
    for (; columns->kind; columns++) {
        if (!columns->title || used >= sizeof all)
            continue;
        const char *name = columns->key ? columns->key : columns->title;
        used += (size_t)snprintf(all + used, sizeof all - used, "%s%s", used ? ", " : "", name);
    }
    cli_usage("-o: there is no column '%.*s'; there are %s", (int)length, word, all);
}

const cli_column *cli_columns_of(const cli_column *columns, const char *list)
{
    size_t count = 0;
    unsigned place = 0;
    while (columns[count].kind)
        count++;
    cli_column *copy = cli_need(calloc(count + 1, sizeof *copy));
    memcpy(copy, columns, count * sizeof *copy);
    for (size_t i = 0; i < count; i++)
        copy[i].place = copy[i].spare = 0;
    for (const char *word = list;; word++) {
        const size_t length = strcspn(word, ",");
        cli_column *found = find_column(copy, word, length);
        if (!found) {
            complain_of_column(columns, word, length);
            free(copy);
            return NULL;
        }
        if (found->place == 0)
            found->place = ++place;
        word += length;
        if (!*word)
            break;
    }
    for (size_t i = 0; i < count; i++)
        if (copy[i].place == 0)
            copy[i].title = NULL;
    return copy;
}

const char *cli_local_time(const char *utc, char text[CELL_TEXT_MAX])
{
    struct tm moment = {.tm_isdst = 0};
    struct tm here;
    const char *end = strptime(utc, "%Y-%m-%d %H:%M:%S", &moment);
    const time_t when = end ? timegm(&moment) : 0;
    if (!end || !localtime_r(&when, &here) ||
        strftime(text, CELL_TEXT_MAX, "%Y-%m-%d %H:%M:%S", &here) == 0)
        snprintf(text, CELL_TEXT_MAX, "%.19s", utc);
    return text;
}

cli_rows cli_rows_begin(const cli_column *columns, bool json)
{
    return (cli_rows){.columns = columns, .json = json, .table = json ? NULL : new_table(columns)};
}

static void add_row(cli_table *table, const void *row)
{
    char text[CELL_TEXT_MAX];
    for (size_t i = 0; i < table->column_count; i++)
        add_cell(table, table_text(table->columns[i], row, text),
                 colour_of(table->columns[i], row));
}

void cli_rows_add(cli_rows *rows, const void *row)
{
    if (rows->json)
        cli_json_item(cli_row_json(rows->columns, row), rows->count);
    else
        add_row(rows->table, row);
    rows->count++;
}

void cli_rows_drop(cli_rows *rows)
{
    cli_table *table = rows->table;
    for (size_t i = 0; table && i < table->count; i++)
        free(table->cells[i].text);
    if (table)
        free(table->cells);
    free(table);
    rows->table = NULL;
}

void cli_rows_end(cli_rows *rows, const char *none)
{
    cli_table *table = rows->table;
    if (rows->json) {
        cli_json_end(rows->count);
        return;
    }
    print_table(table, rows->titled);
    cli_rows_drop(rows);
    if (rows->count == 0 && none && cli_terminal_width(STDOUT_FILENO) > 0)
        cli_say("%s", none);
}
