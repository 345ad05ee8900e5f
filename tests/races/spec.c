#include "spec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* These functions return what is wrong with the line, or NULL. */

static const char *add_step(race_spec *spec, const char *line)
{
    size_t session = 0;
    const char *colon = strstr(line, ": ");
    race_step *step = &spec->steps[spec->step_count];
    if (!colon || (size_t)(colon - line) >= sizeof step->name)
        return "neither a step, a race nor a line of one";
    while (session < spec->session_count && spec->sessions[session][0] != *line)
        session++;
    if (spec->step_count == STEPS_MAX || session == SESSIONS_MAX || strlen(colon) > COMMAND_MAX)
        return "too much";
    if (session == spec->session_count)
        spec->sessions[spec->session_count++][0] = *line;
    snprintf(step->name, sizeof step->name, "%.*s", (int)(colon - line), line);
    snprintf(step->command, sizeof step->command, "%s", colon + 2);
    step->session = session;
    spec->step_count++;
    return NULL;
}

static const race_step *find_step(const race_spec *spec, const char *name)
{
    for (size_t i = 0; i < spec->step_count; i++)
        if (strcmp(spec->steps[i].name, name) == 0)
            return &spec->steps[i];
    return NULL;
}

static const char *add_order(const race_spec *spec, race *r, const char *line)
{
    char words[COMMAND_MAX];
    char *save = NULL;
    const char *end = strstr(line, " -> ");
    snprintf(words, sizeof words, "%.*s", (int)(end ? end - line : (long)strlen(line)), line);
    for (char *at = strtok_r(words, " ", &save); at; at = strtok_r(NULL, " ", &save)) {
        if (r->count == ORDER_MAX)
            return "too many steps";
        r->order[r->count] = find_step(spec, at);
        if (!r->order[r->count++])
            return "there is no such step";
    }
    return NULL;
}

static const char *add_wanted(const race_spec *spec, race *r, const char *line)
{
    char *wanted = r->wanted[r->ways - 1];
    size_t length = strlen(wanted);
    if (length + strlen(line) + 6 > WANTED_MAX)
        return "too much comes out";
    snprintf(wanted + length, WANTED_MAX - length, "    %s\n", line);
    return r->ways == 1 ? add_order(spec, r, line) : NULL;
}

/* A line of a race, or several. */
static const char *add_lines(race_spec *spec, const char *lines)
{
    const char *wrong = NULL;
    race *r = spec->in_begins ? &spec->begins : &spec->races[spec->race_count - 1];
    if (!spec->in_begins && spec->race_count == 0)
        return "there is no race yet";
    while (!wrong && lines) {
        char line[COMMAND_MAX];
        const char *end = strstr(lines, " / ");
        int length = snprintf(line, sizeof line, "%.*s",
                              (int)(end ? end - lines : (long)strlen(lines)), lines);
        wrong = length < COMMAND_MAX ? add_wanted(spec, r, line) : "too much";
        lines = end ? end + 3 : NULL;
    }
    return wrong;
}

static const char *add_race(race_spec *spec, const char *lines, unsigned number)
{
    if (spec->race_count == RACES_MAX)
        return "too many races";
    race *r = &spec->races[spec->race_count++];
    *r = spec->begins;
    r->ways = 1;
    r->line = number;
    spec->in_begins = false;
    return *lines ? add_lines(spec, lines + 1) : NULL;
}

static const char *add_way(race_spec *spec)
{
    if (spec->race_count == 0)
        return "there is no race yet";
    race *r = &spec->races[spec->race_count - 1];
    if (r->ways == WAYS_MAX)
        return "too many ways";
    memcpy(r->wanted[r->ways++], spec->begins.wanted[0], WANTED_MAX);
    return NULL;
}

static void set_begins(race_spec *spec, bool in_begins)
{
    spec->begins = (race){.ways = 1};
    spec->in_begins = in_begins;
}

/* ----------------------------------------------------------------------------- orders */

static bool is_among(const race_orders *orders, const race_step *step)
{
    for (size_t i = 0; i < orders->count; i++)
        if (orders->steps[i] == step)
            return true;
    return false;
}

/* The race's steps that `orders` names, in the race's order; returns how many. */
static size_t order_of(const race_orders *orders, const race *r, const race_step **order)
{
    size_t count = 0;
    for (size_t i = 0; i < r->count; i++)
        if (count < ORDERS_MAX && is_among(orders, r->order[i]))
            order[count++] = r->order[i];
    return count;
}

/* True if each step is there once, and a session's steps are in their order. */
static bool is_order(const race_orders *orders, const race_step *const *order, size_t count)
{
    size_t next[SESSIONS_MAX] = {0};
    bool good = count == orders->count;
    for (size_t i = 0; good && i < count; i++) {
        size_t *at = &next[order[i]->session];
        while (*at < count && orders->steps[*at]->session != order[i]->session)
            ++*at;
        good = *at < count && orders->steps[(*at)++] == order[i];
    }
    return good;
}

/* The number of possible orders. */
static size_t orders_in_all(const race_orders *orders)
{
    size_t of[SESSIONS_MAX] = {0};
    size_t all = 1;
    for (size_t i = 0; i < orders->count; i++) {
        all *= i + 1;
        all /= ++of[orders->steps[i]->session];
    }
    return all;
}

/* Checks a race's order, and that no earlier race has the same. */
static const char *check_order(const race_spec *spec, size_t i)
{
    const race_step *order[ORDERS_MAX];
    const race_step *other[ORDERS_MAX];
    size_t count = order_of(&spec->orders, &spec->races[i], order);
    if (!is_order(&spec->orders, order, count))
        return "a race before this has not the steps of its `orders`";
    for (size_t j = spec->orders.begin; j < i; j++) {
        order_of(&spec->orders, &spec->races[j], other);
        if (memcmp(order, other, count * sizeof order[0]) == 0)
            return "two races before this have the same order";
    }
    return NULL;
}

static const char *end_orders(race_spec *spec)
{
    const char *wrong = NULL;
    race_orders *orders = &spec->orders;
    if (orders->count == 0)
        return NULL;
    for (size_t i = orders->begin; !wrong && i < spec->race_count; i++)
        wrong = check_order(spec, i);
    if (!wrong && spec->race_count - orders->begin != orders_in_all(orders))
        wrong = "not all orders of the `orders` before this are there";
    orders->count = 0;
    return wrong;
}

static const char *begin_orders(race_spec *spec, const char *line)
{
    char words[COMMAND_MAX];
    char *save = NULL;
    const char *wrong = end_orders(spec);
    race_orders *orders = &spec->orders;
    set_begins(spec, false);
    snprintf(words, sizeof words, "%s", line);
    orders->begin = spec->race_count;
    for (char *at = strtok_r(words, " |", &save); !wrong && at; at = strtok_r(NULL, " |", &save)) {
        if (orders->count == ORDERS_MAX)
            return "too many steps";
        orders->steps[orders->count] = find_step(spec, at);
        wrong = orders->steps[orders->count++] ? NULL : "there is no such step";
    }
    return wrong;
}

/* ------------------------------------------------------------------------------ lines */

static const char *add_line(race_spec *spec, const char *line, unsigned number)
{
    if (*line == 0 || *line == '#')
        return NULL;
    if (*line == ' ')
        return add_lines(spec, line + strspn(line, " "));
    if (strcmp(line, "orders") == 0 || strncmp(line, "orders ", 7) == 0)
        return begin_orders(spec, line + 6);
    if (strcmp(line, "race") == 0 || strncmp(line, "race ", 5) == 0)
        return add_race(spec, line + 4, number);
    if (strcmp(line, "or") == 0)
        return add_way(spec);
    if (strcmp(line, "begins") != 0)
        return add_step(spec, line);
    set_begins(spec, true);
    return NULL;
}

bool race_spec_read(const char *path, race_spec *spec)
{
    char *line = NULL;
    size_t size = 0;
    const char *wrong = "it cannot be read";
    unsigned number = 0;
    memset(spec, 0, sizeof *spec);
    FILE *in = fopen(path, "r");
    if (in)
        for (wrong = NULL; !wrong && getline(&line, &size, in) >= 0;) {
            line[strcspn(line, "\n")] = 0;
            wrong = add_line(spec, line, ++number);
        }
    if (!wrong)
        wrong = end_orders(spec);
    if (!wrong && spec->race_count == 0)
        wrong = "no race";
    if (wrong)
        fprintf(stderr, "%s:%u: %s\n", path, number, wrong);
    if (in)
        fclose(in);
    free(line);
    return !wrong;
}
