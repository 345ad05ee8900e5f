/* cli/args.c - see args.h */
#include "args.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const cli_option help_options[] = {
    {CLI_ID_HELP, "help", CLI_NOTHING},
    {'?', NULL, CLI_NOTHING},
    {0},
};

cli_args cli_args_start(const char *help, const cli_option *options, cli_context *context, int argc,
                        char **argv)
{
    return (cli_args){
        .context = context,
        .options = options,
        .help = help,
        .argc = argc,
        .argv = argv,
        .i = 1,
        .operands = argv + 1,
    };
}

/* "-x" or "--xx"; "-" is an operand. */
static bool is_option(const char *argument)
{
    return argument[0] == '-' && argument[1] != '\0';
}

/* Is it this option? By its letter, or by `length` bytes of its name. Names in full only:
 * an abbreviation that is clear today means something else when an option is added. */
static bool is_called(const cli_option *option, char letter, const char *name, size_t length)
{
    if (!name)
        return option->id == (unsigned char)letter;
    return option->name && strlen(option->name) == length &&
           strncmp(option->name, name, length) == 0;
}

static const cli_option *find(const cli_option *table, char letter, const char *name, size_t length)
{
    for (; table->id; table++) {
        if (is_called(table, letter, name, length))
            return table;
    }
    return NULL;
}

/* The command's own options come first. */
static const cli_option *find_any(cli_args *args, char letter, const char *name, size_t length)
{
    const cli_option *const tables[] = {args->options, cli_connection_options, help_options};
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
        const cli_option *option = find(tables[i], letter, name, length);
        args->of_connection = option && tables[i] == cli_connection_options;
        if (option)
            return option;
    }
    return NULL;
}

static int stop(cli_args *args, int exit_status)
{
    args->exit_status = exit_status;
    return CLI_ARGS_STOP;
}

/* The next argument as the option's value. */
static bool take_next(cli_args *args)
{
    if (args->i >= args->argc)
        return false;
    args->value = args->argv[args->i++];
    return true;
}

static int next_letter(cli_args *args)
{
    const char letter = *args->cluster++;
    const cli_option *option = find_any(args, letter, NULL, 0);
    /* The rest of the argument may be a mistyped password: it is not shown. */
    if (!option)
        return stop(args, cli_usage("unknown option -%c", letter));
    const char *rest = *args->cluster ? args->cluster : NULL;
    args->value = NULL;
    if (option->takes == CLI_NOTHING) {
        args->cluster = rest;
        return option->id;
    }
    args->cluster = NULL;
    args->value = rest;
    if (!rest && option->takes == CLI_VALUE && !take_next(args))
        return stop(args, cli_usage("option -%c wants a value", letter));
    return option->id;
}

/* What stands behind a "=" may be a secret: it is not shown. */
static int unknown_name(cli_args *args, const char *name, size_t length)
{
    const char *instead = cli_connection_instead(name, length);
    if (instead)
        return stop(args, cli_usage("--%.*s is not supported: %s", (int)length, name, instead));
    return stop(args, cli_usage("unknown option --%.*s", (int)length, name));
}

static int next_name(cli_args *args, const char *name)
{
    size_t length = strcspn(name, "=");
    const cli_option *option = find_any(args, 0, name, length);
    if (!option)
        return unknown_name(args, name, length);
    args->value = name[length] ? name + length + 1 : NULL;
    if (args->value && option->takes == CLI_NOTHING)
        return stop(args, cli_usage("option --%s takes no value", option->name));
    if (!args->value && option->takes == CLI_VALUE && !take_next(args))
        return stop(args, cli_usage("option --%s wants a value", option->name));
    return option->id;
}

/* The option at argv[i], or the next letter of a cluster. */
static int next_option(cli_args *args)
{
    if (args->cluster)
        return next_letter(args);
    const char *argument = args->argv[args->i++];
    if (argument[1] == '-')
        return next_name(args, argument + 2);
    args->cluster = argument + 1;
    return next_letter(args);
}

/* The operand at argv[i] changes places with an option that has been read. */
static void put_aside(cli_args *args)
{
    char **place = &args->operands[args->operand_count++];
    char *read = *place;
    *place = args->argv[args->i];
    args->argv[args->i++] = read;
}

/* Puts operands aside until an option comes. False: there is none. */
static bool skip_operands(cli_args *args)
{
    while (!args->cluster && args->i < args->argc) {
        char *argument = args->argv[args->i];
        bool only_operands = strcmp(argument, "--") == 0;
        if (is_option(argument) && !only_operands)
            return true;
        if (args->stop_at_operand)
            return false;
        if (!only_operands) {
            put_aside(args);
            continue;
        }
        args->i++;
        while (args->i < args->argc)
            put_aside(args);
    }
    return args->cluster != NULL;
}

static int answer_help(cli_args *args)
{
    fputs(args->help, stdout);
    return stop(args, 0);
}

int cli_args_next(cli_args *args)
{
    while (skip_operands(args)) {
        int id = next_option(args);
        if (id < 0)
            return id;
        if (id == CLI_ID_HELP || id == '?')
            return answer_help(args);
        if (!args->of_connection)
            return id;
        if (!cli_connection_take(args->context, id, args->value))
            return stop(args, CLI_EXIT_USAGE);
    }
    return CLI_ARGS_END;
}

bool cli_args_operands(const cli_args *args, int least, int most, const char *what)
{
    if (args->operand_count < least)
        cli_usage("%s is missing", what);
    else if (args->operand_count > most && most == 0)
        cli_usage("unexpected argument '%s'", args->operands[0]);
    else if (args->operand_count > most)
        cli_usage("unexpected argument '%s' after %s", args->operands[most], what);
    else
        return true;
    return false;
}

bool cli_number(const char *text, uint64_t least, uint64_t most, uint64_t *number)
{
    uint64_t value = 0;
    const char *p = text;
    for (; *p >= '0' && *p <= '9'; p++) {
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (unsigned)(*p - '0'), &value))
            return false;
    }
    if (p == text || *p || value < least || value > most)
        return false;
    *number = value;
    return true;
}

bool cli_args_number(const cli_args *args, const char *name, uint64_t least, uint64_t most,
                     uint64_t *number)
{
    if (cli_number(args->value, least, most, number))
        return true;
    cli_usage("%s wants a number from %" PRIu64 " to %" PRIu64 ", not '%s'", name, least, most,
              args->value);
    return false;
}

bool cli_args_duration(const cli_args *args, const char *name, const char *word, int64_t *ms)
{
    if (word && strcmp(args->value, word) == 0) {
        *ms = -1;
        return true;
    }
    if (cli_duration(args->value, ms))
        return true;
    cli_usage("%s wants a duration such as 30s, 5m, 2h, 1d or 250ms%s%s, not '%s'", name,
              word ? ", or " : "", word ? word : "", args->value);
    return false;
}

bool cli_args_given_duration(const cli_args *args, const char *name, const char *word, int64_t *ms)
{
    if (!cli_args_duration(args, name, word, ms))
        return false;
    if (*ms == 0)
        *ms = 1;
    return true;
}

/* Are all letters of "-vv" connection options, as far as the first that takes a value? */
static bool is_connection_cluster(const char *letters)
{
    for (; *letters; letters++) {
        const cli_option *option = find(cli_connection_options, *letters, NULL, 0);
        if (!option)
            return false;
        if (option->takes != CLI_NOTHING)
            return true;
    }
    return true;
}

static bool is_connection_option(const char *argument)
{
    if (!is_option(argument))
        return false;
    if (argument[1] != '-')
        return is_connection_cluster(argument + 1);
    const char *name = argument + 2;
    return find(cli_connection_options, 0, name, strcspn(name, "=")) != NULL;
}

bool cli_connection_option(cli_context *context, int argc, char **argv, int *i, bool *bad)
{
    static const cli_option none[] = {{0}};
    if (!is_connection_option(argv[*i]))
        return false;
    cli_args args = cli_args_start("", none, context, argc, argv);
    args.i = *i;
    do {
        int id = next_option(&args);
        *bad = id < 0 || !cli_connection_take(context, id, args.value);
    } while (!*bad && args.cluster);
    *i = args.i - 1;
    return true;
}
