/* cli/args.c - a command's options and operands, and how they are read: see cli.h */
#include "cli.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

typedef struct args {
    const cli_command *command;
    cli_context *context;
    int argc;
    char **argv;
    int i;               /* the next argument */
    const char *cluster; /* where to go on in "-vq"; NULL: at argv[i] */
    /* The option that is being read. */
    const cli_option *option;
    const char *value; /* NULL: the option has none */
} args;

/* "-x" or "--xx"; "-" is an operand. */
static bool is_option(const char *argument)
{
    return argument[0] == '-' && argument[1] != '\0';
}

/* Compares the letter, or `length` bytes of the name. An abbreviated name does not match: one that
 * is unique today may become ambiguous when an option is added. */
static bool is_called(const cli_option *option, char letter, const char *name, size_t length)
{
    if (!name)
        return option->letter == letter;
    return option->name && strlen(option->name) == length &&
           strncmp(option->name, name, length) == 0;
}

const cli_option *cli_option_at(const cli_command *command, size_t i)
{
    static const cli_option help[] = {{'?', "help", CLI_HELP, .at = 0}, {0}};
    const cli_option *const tables[] = {command->options, cli_connection_options, help};
    for (size_t table = 0; table < sizeof tables / sizeof tables[0]; table++)
        for (const cli_option *option = tables[table]; option->kind; option++)
            if (i-- == 0)
                return option;
    return NULL;
}

const cli_option *cli_find_option(const cli_command *command, char letter, const char *name,
                                  size_t length)
{
    const cli_option *option;
    for (size_t i = 0; (option = cli_option_at(command, i)) != NULL; i++)
        if (is_called(option, letter, name, length))
            return option;
    return NULL;
}

bool cli_is_connection(const cli_option *option)
{
    const cli_option *at = cli_connection_options;
    while (at->kind && at != option)
        at++;
    return at->kind != 0;
}

static bool find(args *self, char letter, const char *name, size_t length)
{
    self->option = cli_find_option(self->command, letter, name, length);
    return self->option != NULL;
}

static bool takes_nothing(const cli_option *option)
{
    return option->kind == CLI_FLAG || option->kind == CLI_UNSWITCH ||
           option->kind == CLI_OWN_FLAG || option->kind == CLI_HELP;
}

bool cli_wants_value(const cli_option *option)
{
    return !takes_nothing(option) && option->kind != CLI_SWITCH && option->kind != CLI_OWN_ATTACHED;
}

/* Takes the next argument as the value of an option that needs one and has none yet. */
static bool find_value(args *self)
{
    if (self->value || !cli_wants_value(self->option))
        return true;
    if (self->i >= self->argc)
        return false;
    self->value = self->argv[self->i++];
    return true;
}

static bool next_letter(args *self)
{
    const char letter = *self->cluster++;
    const char *rest = *self->cluster ? self->cluster : NULL;
    /* The message leaves out the rest of the argument, which may be a mistyped password. */
    if (!find(self, letter, NULL, 0))
        return !cli_usage("unknown option -%c", letter);
    bool goes_on = takes_nothing(self->option);
    self->cluster = goes_on ? rest : NULL;
    self->value = goes_on ? NULL : rest;
    return find_value(self) || !cli_usage("option -%c needs a value", letter);
}

/* The message leaves out the text after "=", which may be a secret. */
static bool unknown_name(const char *name, size_t length)
{
    const char *instead = cli_connection_instead(name, length);
    if (instead)
        cli_usage("--%.*s is not supported: %s", (int)length, name, instead);
    else
        cli_usage("unknown option --%.*s", (int)length, name);
    return false;
}

static bool next_name(args *self, const char *name)
{
    size_t length = strcspn(name, "=");
    if (!find(self, 0, name, length))
        return unknown_name(name, length);
    self->value = name[length] ? name + length + 1 : NULL;
    if (self->value && takes_nothing(self->option))
        return !cli_usage("option --%s takes no value", self->option->name);
    return find_value(self) || !cli_usage("option --%s needs a value", self->option->name);
}

/* Reads the option at argv[i], or the next letter of a cluster. False: it has reported an error. */
static bool next_option(args *self)
{
    if (self->cluster)
        return next_letter(self);
    const char *argument = self->argv[self->i++];
    if (argument[1] == '-')
        return next_name(self, argument + 2);
    self->cluster = argument + 1;
    return next_letter(self);
}

/* Moves the operand at argv[i] before the options that were read already. */
static void put_aside(args *self)
{
    char **place = &self->context->operands[self->context->operand_count++];
    char *read = *place;
    *place = self->argv[self->i];
    self->argv[self->i++] = read;
}

/* Puts operands aside until an option comes. False: there is none. */
static bool skip_operands(args *self)
{
    while (!self->cluster && self->i < self->argc) {
        char *argument = self->argv[self->i];
        bool only_operands = strcmp(argument, "--") == 0;
        if (is_option(argument) && !only_operands)
            return true;
        if (self->command->first_ends)
            return false;
        if (!only_operands) {
            put_aside(self);
            continue;
        }
        self->i++;
        self->context->has_end = true;
        while (self->i < self->argc)
            put_aside(self);
    }
    return self->cluster != NULL;
}

/* ---------------------------------------------------------------------- values */

void cli_pattern_of(const char *operand, cli_pattern *pattern)
{
    const size_t length = strlen(operand);
    *pattern = (cli_pattern){.name = operand};
    /* A pattern that is too long is taken for a name, and refused as such. */
    if (length == 0 || operand[length - 1] != '*' || length >= sizeof pattern->text)
        return;
    size_t before = length - 1;
    while (before > 0 && operand[before - 1] == '\\')
        before--;
    const size_t backslashes = length - 1 - before;
    char *end = pattern->text + before + backslashes / 2;
    memcpy(pattern->text, operand, length);
    if (backslashes % 2 != 0) {
        memcpy(end, "*", 2);
        pattern->name = pattern->text;
        return;
    }
    *end = '\0';
    pattern->name = NULL;
    pattern->prefix = *pattern->text ? pattern->text : NULL;
}

bool cli_number(const char *text, uint64_t least, uint64_t most, uint64_t *number)
{
    char *end;
    if (!text || *text < '0' || *text > '9')
        return false;
    errno = 0;
    uint64_t value = strtoull(text, &end, 10);
    if (errno != 0 || *end || value < least || value > most)
        return false;
    *number = value;
    return true;
}

bool cli_moment(const char *text, int64_t *us)
{
    static const char *const forms[] = {"%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M",
                                        "%Y-%m-%dT%H:%M", "%Y-%m-%d"};
    const uint64_t most_s = INT64_C(253402300799); /* the end of the year 9999 */
    uint64_t seconds;
    if (*text == '@' && cli_number(text + 1, 1, most_s, &seconds)) {
        *us = (int64_t)seconds * 1000000;
        return true;
    }
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        struct tm tm = {0};
        const char *rest = strptime(text, forms[i], &tm);
        if (!rest || (strcmp(rest, "") != 0 && strcmp(rest, "Z") != 0))
            continue;
        /* timegm() turns 31 February into a day in March: such a date is refused. */
        const struct tm given = tm;
        *us = (int64_t)timegm(&tm) * 1000000;
        return *us > 0 && tm.tm_mday == given.tm_mday && tm.tm_hour == given.tm_hour &&
               tm.tm_min == given.tm_min && tm.tm_sec == given.tm_sec;
    }
    return false;
}

/* Looks the value up among the option's words. */
static bool find_word(const cli_word *words, const char *text, int *value)
{
    for (; words->word; words++) {
        if ((words->any_case ? strcasecmp : strcmp)(text, words->word) == 0) {
            *value = words->value;
            return true;
        }
    }
    return false;
}

static bool take_number(const cli_option *option, void *to, const char *value)
{
    uint64_t number;
    if (!cli_number(value, option->least, option->most, &number))
        return !cli_usage("--%s wants a number from %" PRIu64 " to %" PRIu64 ", not '%s'",
                          option->name, option->least, option->most, value);
    if (option->kind == CLI_UNSIGNED)
        *(unsigned *)to = (unsigned)number;
    else
        *(uint64_t *)to = number;
    return true;
}

static bool take_duration(const cli_option *option, int64_t *ms, const char *value)
{
    const char *word = option->word;
    if (word && value && strcmp(value, word) == 0) {
        *ms = -1;
        return true;
    }
    if (!cli_duration(value, ms))
        return !cli_usage("--%s wants a duration such as 30s, 5m, 1h30m, 1d or 250ms%s%s, not '%s'",
                          option->name, word ? ", or " : "", word ? word : "", value);
    if (*ms < (int64_t)option->least || (option->most && *ms > (int64_t)option->most))
        return !cli_usage("--%s %s, not '%s'", option->name, option->wants, value);
    if (*ms == 0 && option->kind == CLI_GIVEN_DURATION)
        *ms = 1;
    return true;
}

static bool take_word(const cli_option *option, int *to, const char *value)
{
    if (!value)
        *to = CLI_ON;
    else if (!find_word(option->words, value, to))
        return !cli_usage("--%s %s, not '%s'", option->name, option->wants, value);
    return true;
}

bool cli_take(const cli_option *option, void *into, const char *value)
{
    void *to = (char *)into + option->at;
    switch (option->kind) {
    case CLI_FLAG:
        *(bool *)to = true;
        break;
    case CLI_TEXT:
        *(const char **)to = value;
        break;
    case CLI_UNSIGNED:
    case CLI_NUMBER:
        return take_number(option, to, value);
    case CLI_DURATION:
    case CLI_GIVEN_DURATION:
        return take_duration(option, to, value);
    case CLI_WORD:
    case CLI_SWITCH:
        return take_word(option, to, value);
    case CLI_UNSWITCH:
        *(cli_switch *)to = CLI_OFF;
        break;
    case CLI_OWN:
    case CLI_OWN_FLAG:
    case CLI_OWN_ATTACHED:
        return option->take(into, value);
    case CLI_HELP:
        break;
    }
    return true;
}

/* ------------------------------------------------------------------- altogether */

bool cli_operands(const cli_context *context, int least, int most, const char *what)
{
    if (context->operand_count < least)
        return !cli_usage("%s is missing", what);
    if (context->operand_count <= most)
        return true;
    if (context->ask_password)
        return !cli_usage("unexpected argument " CLI_MAYBE_PASSWORD);
    if (most == 0)
        return !cli_usage("unexpected argument '%s'", context->operands[0]);
    return !cli_usage("unexpected argument '%s' after %s", context->operands[most], what);
}

bool cli_parse(const cli_command *command, int argc, char **argv, int *exit_status)
{
    cli_context *context = command->into;
    args self = {.command = command, .context = context, .argc = argc, .argv = argv, .i = 1};
    context->operands = argv + 1;
    context->operand_count = 0;
    *exit_status = CLI_EXIT_USAGE;
    while (skip_operands(&self)) {
        if (!next_option(&self))
            return false;
        if (self.option->kind == CLI_HELP) {
            fputs(command->help, stdout);
            *exit_status = 0;
            return false;
        }
        if (!cli_take(self.option, context, self.value))
            return false;
    }
    if (command->first_ends) {
        context->operands = argv + self.i;
        context->operand_count = argc - self.i;
    }
    cli_connection_settle(context);
    return (command->first_ends ||
            cli_operands(context, command->least, command->most, command->operands)) &&
           (!command->check || command->check(context));
}
