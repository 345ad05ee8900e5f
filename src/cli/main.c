/* cli/main.c - rowlock [connection options] COMMAND [options] */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

typedef struct subcommand {
    const char *name;
    const cli_command *command;
    const char *summary;
    const char *roles[3]; /* of sql/grants.sql, whose rights it takes, and a NULL */
} subcommand;

static cli_command cli_help, whole;

static void (*inherited_sigpipe)(int);

static const subcommand commands[] = {
    {"init", &cli_init, "make the schema, or bring it up to date", {"admin"}},
    {"run", &cli_run, "run a command while holding a lock", {"batch"}},
    {"ls", &cli_ls, "list who holds what", {"looker"}},
    {"show", &cli_show, "show one lock", {"looker"}},
    {"history", &cli_history, "list who held what, and how it ended", {"looker"}},
    {"sweep", &cli_sweep, "tidy up: free dead holders' locks, bound the history", {"sweeper"}},
    {"break", &cli_break, "take a lock from its holder by force", {"batch"}},
    {"fence", &cli_fence, "let tables be written with the token of a lock alone", {"fencer"}},
    {"doctor", &cli_doctor, "check the server, the schema and the user", {0}},
    {"grants", &cli_grants, "print the GRANT statements that an account needs", {0}},
    {"migrate", &cli_migrate, "apply numbered .sql files to a schema, under a lock", {"migrator"}},
    {"bench", &cli_bench, "measure what locks cost on this server", {"batch", "sweeper"}},
    {"help", &cli_help, "help with a command", {0}},
};

enum { COMMANDS = sizeof commands / sizeof commands[0] };

static const char help_head[] =
    "Usage: rowlock [connection options] COMMAND [options]\n"
    "Distributed locks on the MariaDB or MySQL server you already run.\n"
    "\n"
    "Commands (rowlock help COMMAND tells more):\n";

static const char help_tail[] =
    "\n"
    "Connection options, before or after COMMAND:\n"
    "  -h, --host=HOST           the server; none or localhost: the unix socket\n"
    "  -P, --port=PORT           3306 where not given\n"
    "  -u, --user=USER           the login name where not given\n"
    "  -p, --password[=PASSWORD] bare: asks for it. Better kept in an option file\n"
    "  -S, --socket=PATH         the server's unix socket\n"
    "  -D, --database=SCHEMA     where the locks live; rowlock where not given\n"
    "      --url=URL             mysql://[user[:password]@][host][:port][/schema][?socket=PATH]\n"
    "      --defaults-file=FILE  read this option file alone\n"
    "      --defaults-extra-file=FILE  read this one after the others: what it says wins\n"
    "      --no-defaults         read no option file\n"
    "      --protocol=tcp|socket how to get to localhost; socket where not given\n"
    "      --connect-timeout=D   how long one attempt to connect may take; 10s where not given\n"
    "      --retry=D             how long to try again to connect while the server restarts or\n"
    "                            cannot be reached, all attempts together; where not given: not\n"
    "                            at all\n"
    "      --waiting=auto|poll   a waiter of a lease is woken (where the server can), or polls\n"
    "      --via=tables|procedures  procedures: for a user with EXECUTE alone\n"
    "      --single-writer       of a cluster that writes everywhere, this node alone is used\n"
    "      --tls=MODE            off, preferred (the default over TCP), required, verify-ca, or\n"
    "                            verify-identity (the default with --tls-ca)\n"
    "      --tls-ca=FILE         the CAs that may have signed the server's certificate\n"
    "      --tls-cert=FILE, --tls-key=FILE  a certificate of one's own, and its key\n"
    "      --tls-fingerprint=HEX the SHA-1 of the server's very certificate\n"
    "      --tls-crl=FILE        the CA's revoked certificates\n"
    "These names of the mysql client are understood as well: --ssl-mode, --ssl, --skip-ssl,\n"
    "--ssl-verify-server-cert, --ssl-ca, --ssl-cert, --ssl-key, --ssl-crl, --ssl-fp. Refused by\n"
    "name, with what to use instead: --login-path, --defaults-group-suffix, --ssl-cipher,\n"
    "--ssl-capath, ... (all are in rowlock(1)).\n"
    "\n"
    "Other options:\n"
    "  -v, --verbose             say more on stderr; -vv: still more\n"
    "      --json                for programs: ls, show, history, sweep, fence, doctor, bench,\n"
    "                            migrate\n"
    "  -?, --help                this text, or after COMMAND its help\n"
    "  -V, --version\n"
    "\n"
    "The usual option files (/etc/my.cnf, ~/.my.cnf, ...) are read, groups [client] and\n"
    "[rowlock]. Options win over the URL, the URL over option files. Durations are\n"
    "written 250ms, 30s, 5m, 2h, 1d; a bare number is seconds.\n"
    "\n"
    "Environment: ROWLOCK_URL (as --url), MYSQL_PWD (the password), NO_COLOR.\n"
    "\n"
    "Exit status: 0 done, 1 not got or not so, 64 wrong usage, 65 another kind of lock,\n"
    "66 no such lock, 68 migrations need a decision, 69 server not reached, 73 server\n"
    "read-only, 74 output or reply lost, 75 lock lost, 77 not allowed, 78 schema missing or\n"
    "not fitting. See rowlock(1).\n";

static const subcommand *find_command(const char *name)
{
    for (int i = 0; i < COMMANDS; i++) {
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    }
    return NULL;
}

/* The program's help, made from the table above. Static: it is asked for before parsing. */
static const char *help_text(void)
{
    static char text[8192];
    size_t used = (size_t)snprintf(text, sizeof text, "%s", help_head);
    for (int i = 0; i < COMMANDS; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "  %-9s %s\n", commands[i].name,
                                 commands[i].summary);
    snprintf(text + used, sizeof text - used, "%s", help_tail);
    return text;
}

/* What the command does, with a client where it wants one. */
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

static int run_command(const subcommand *sub, const cli_context *context, int argc, char **argv)
{
    int exit_status;
    cli_context *into = sub->command->into;
    cli_set_command(sub->name);
    /* What `run` starts is to find the signal as we found it. */
    if (sub->command == &cli_run)
        signal(SIGPIPE, inherited_sigpipe);
    *into = *context;
    if (!cli_parse(sub->command, argc, argv, &exit_status))
        return exit_status;
    exit_status = perform(sub->command);
    cli_refused_explain(&into->client, sub->name, sub->roles);
    return exit_status;
}

/* `help`, `help COMMAND`: what --help says there. */
static int help(void *into)
{
    const cli_context *context = into;
    const char *name = context->operand_count > 0 ? context->operands[0] : "help";
    const subcommand *sub = find_command(name);
    if (!sub)
        return cli_usage("there is no command '%s'", name);
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

static cli_context whole_context = {.client = {.read_defaults = true}};

static const cli_option options[] = {
    {0, "json", CLI_FLAG, CLI_AT(cli_context, json)},
    {'V', "version", CLI_OWN_FLAG, .take = take_version},
    {0},
};

/* What stands before the command; the rest is its own to read. */
static cli_command whole = {.options = options, .into = &whole_context, .first_ends = true};

static cli_command cli_help = {
    .options = (const cli_option[]){{0}},
    .into = &(cli_context){.json = false},
    .most = 1,
    .operands = "the command",
    .asks_no_server = true,
    .run = help,
};

static int no_such_command(const cli_context *context, const char *name)
{
    /* It may be the password, put after -p and a blank as no client takes it. */
    if (context->ask_password)
        return cli_usage(
            "no such command (a password is given as --password=..., without a blank)");
    return cli_usage("there is no command '%s'", name);
}

static int dispatch(int argc, char **argv)
{
    const char *url = getenv("ROWLOCK_URL");
    int exit_status;
    whole_context.client.url = url && *url ? url : NULL;
    whole_context.program = argv[0];
    whole.help = cli_help.help = help_text();
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

int main(int argc, char **argv)
{
    static char **arguments; /* reachable to the end */
    arguments = cli_secret_arguments(argc, argv);
    cli_text_start();
    /* A closed pipe is an error of write() like a full disk. */
    inherited_sigpipe = signal(SIGPIPE, SIG_IGN);
    return cli_flush(dispatch(argc, arguments));
}
