/* cli/main.c - rowlock [connection options] COMMAND [options] */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

typedef struct subcommand {
    const char *name;
    const cli_command *command;
    const char *roles[3]; /* of sql/grants.sql, whose rights it needs; then a NULL */
} subcommand;

static const cli_command cli_help;

static void (*inherited_sigpipe)(int);

static const subcommand commands[] = {
    {"init", &cli_init, {"admin"}},
    {"run", &cli_run, {"batch"}},
    {"ls", &cli_ls, {"looker"}},
    {"show", &cli_show, {"looker"}},
    {"history", &cli_history, {"looker"}},
    {"sweep", &cli_sweep, {"sweeper"}},
    {"slots", &cli_slots, {"batch"}},
    {"latch", &cli_latch, {"batch"}},
    {"barrier", &cli_barrier, {"batch"}},
    {"lead", &cli_lead, {"batch"}},
    {"leader", &cli_leader, {"looker"}},
    {"ask", &cli_ask, {"batch"}},
    {"once", &cli_once, {"batch"}},
    {"queue", &cli_queue, {"batch"}},
    {"check", &cli_check, {"looker"}},
    {"metrics", &cli_metrics, {"looker"}},
    {"top", &cli_top, {"looker"}},
    {"freeze", &cli_freeze, {"batch"}},
    {"thaw", &cli_thaw, {"batch"}},
    {"alive", &cli_alive, {0}},
    {"break", &cli_break, {"batch"}},
    {"fence", &cli_fence, {"fencer"}},
    {"doctor", &cli_doctor, {0}},
    {"grants", &cli_grants, {0}},
    {"migrate", &cli_migrate, {"migrator"}},
    {"bench", &cli_bench, {"batch", "sweeper"}},
    {"quorum", &cli_quorum, {0}},
    {"help", &cli_help, {0}},
    {"__complete", &cli_complete, {0}}, /* for shells */
};

enum { COMMANDS = sizeof commands / sizeof commands[0] };

static const subcommand *find_command(const char *name)
{
    for (int i = 0; i < COMMANDS; i++) {
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    }
    return NULL;
}

void cli_commands_offer(const char *typed)
{
    for (int i = 0; i < COMMANDS; i++)
        if (commands[i].name[0] != '_' && strncmp(commands[i].name, typed, strlen(typed)) == 0)
            puts(commands[i].name);
}

static int refuse_quorum(const char *name)
{
    rowlock_error err = {.status = ROWLOCK_UNSUPPORTED};
    snprintf(err.message, sizeof err.message,
             "%s is for one server, and several are given (--url, ROWLOCK_URLS); for a quorum of "
             "servers there are run, ls, show, history, break, doctor and quorum",
             name);
    return cli_fail(&err);
}

/* Runs the command, with a client if it has a `work`. */
static int perform(const cli_command *command)
{
    cli_context *context = command->into;
    rowlock_error err;
    int exit_status;
    if (!command->asks_no_server && !cli_password(context))
        return CLI_EXIT_USAGE;
    if (command->run)
        return command->run(context);
    rowlock_client *client = cli_open(context, &exit_status);
    if (!client)
        return exit_status;
    rowlock_status status = command->work(context, client, &err);
    rowlock_client_close(client);
    return status == ROWLOCK_OK ? 0 : cli_fail(&err);
}

static int finish(const cli_command *command, int exit_status)
{
    return command->on_end ? command->on_end(exit_status) : exit_status;
}

/* Looks for --json also behind a wrong option, where the parser has stopped. If the command has no
 * such option, as run, it belongs to the program that is run. */
static bool wants_json(const cli_command *command, int argc, char **argv)
{
    if (!cli_find_option(command, 0, "json", strlen("json")))
        return false;
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--json") == 0)
            return true;
    return false;
}

static int run_command(const subcommand *sub, const cli_context *context, int argc, char **argv)
{
    int exit_status;
    cli_context *into = sub->command->into;
    cli_set_command(sub->name);
    *into = *context;
    if (!cli_parse(sub->command, argc, argv, &exit_status)) {
        into->json = into->json || wants_json(sub->command, argc, argv);
        return finish(sub->command, exit_status);
    }
    if (!cli_connection_servers(into))
        return finish(sub->command, CLI_EXIT_USAGE);
    if (into->client.member_count > 0 && !sub->command->of_quorums)
        return finish(sub->command, refuse_quorum(sub->name));
    if (into->starts_command)
        signal(SIGPIPE, inherited_sigpipe);
    exit_status = perform(sub->command);
    cli_refused_explain(&into->client, sub->name, sub->roles);
    return finish(sub->command, exit_status);
}

/* `help`, `help COMMAND`: prints what --help prints there; and the help that belongs to no single
 * command. */
static int help(void *into)
{
    static const struct {
        const char *name;
        const char *text;
    } topics[] = {{"commands", cli_help_commands}, {"connection", cli_help_connection}};
    const cli_context *context = into;
    const char *name = context->operand_count > 0 ? context->operands[0] : "help";
    for (size_t i = 0; i < sizeof topics / sizeof topics[0]; i++)
        if (strcmp(name, topics[i].name) == 0) {
            fputs(topics[i].text, stdout);
            return 0;
        }
    const subcommand *sub = find_command(name);
    if (!sub) {
        cli_set_command("");
        return cli_usage("there is no command '%s'", name);
    }
    cli_set_command(sub->name);
    fputs(sub->command->help, stdout);
    return 0;
}

static bool take_version(void *into, const char *value)
{
    (void)into;
    (void)value;
    printf("rowlock %s\n", rowlock_version());
    exit(cli_flush(0));
}

static cli_context whole_context = {.client = {.read_defaults = true, .history_min_ms = -1}};

static const cli_option options[] = {
    {0, "json", CLI_FLAG, CLI_AT(cli_context, json)},
    {'V', "version", CLI_OWN_FLAG, .take = take_version},
    {0},
};

/* The options before the command, which reads the rest itself. */
static const cli_command whole = {
    .help = cli_help_rowlock,
    .options = options,
    .into = &whole_context,
    .first_ends = true,
};

const cli_command *cli_command_of(const char *name)
{
    const subcommand *sub = name ? find_command(name) : NULL;
    return !name ? &whole : sub ? sub->command : NULL;
}

static const cli_command cli_help = {
    .help = cli_help_rowlock,
    .options = (const cli_option[]){{0}},
    .into = &(cli_context){.json = false},
    .most = 1,
    .operands = "the command",
    .asks_no_server = true,
    .of_quorums = true,
    .run = help,
};

/* What others call it. */
static const char *meant(const char *name)
{
#define HOLDS   "; 'rowlock run NAME -- COMMAND' holds a lock while a command runs"
#define LETS_GO "; a lock is let go when its command ends, and 'rowlock break' takes it away"
    static const struct {
        const char *name;
        const char *hint;
    } words[] = {{"lock", HOLDS},
                 {"acquire", HOLDS},
                 {"unlock", LETS_GO},
                 {"release", LETS_GO},
                 {"status", "; 'rowlock ls' lists the locks, 'rowlock show' shows one"}};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcmp(name, words[i].name) == 0)
            return words[i].hint;
    return "";
}

static int no_such_command(const cli_context *context, const char *name)
{
    if (context->ask_password)
        return cli_usage("no such command " CLI_MAYBE_PASSWORD);
    return cli_usage("there is no command '%s'%s", name, meant(name));
}

static int dispatch(int argc, char **argv)
{
    int exit_status;
    if (!cli_parse(&whole, argc, argv, &exit_status))
        return exit_status;
    if (whole_context.operand_count == 0)
        return cli_usage("no command given");
    char **operands = whole_context.operands;
    const subcommand *sub = find_command(operands[0]);
    if (!sub)
        return no_such_command(&whole_context, operands[0]);
    return run_command(sub, &whole_context, whole_context.operand_count, operands);
}

/* Opens /dev/null for each of stdin, stdout and stderr that is closed, so that no connection gets
 * its number, and with it our output. To read stdin or to write to stdout fails as before. It is
 * closed again for a command. */
static bool guard_standard(void)
{
    static const int how[] = {O_WRONLY, O_RDONLY, O_WRONLY};
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF &&
            open("/dev/null", how[fd] | O_CLOEXEC) != fd)
            return false;
    return true;
}

int main(int argc, char **argv)
{
    static char **arguments; /* static: a leak checker still finds it at the end */
    if (!guard_standard()) {
        cli_say("cannot open /dev/null: %s", strerror(errno));
        return rowlock_status_exit(ROWLOCK_SYSTEM);
    }
    arguments = cli_secret_arguments(argc, argv);
    cli_text_start();
    /* write() to a closed pipe then fails, as to a full disk. */
    inherited_sigpipe = signal(SIGPIPE, SIG_IGN);
    return cli_flush(dispatch(argc, arguments));
}
