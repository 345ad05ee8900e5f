/*
 * cli/cmd_complete.c - __complete: prints what a shell may offer for the last word of a line, one
 * candidate a line; ":files" tells the shell to complete file names. The words come on stdin,
 * NUL-terminated, so that no password in them shows in the process list.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "grants.h"

enum { LINE_MOST = 65536, WORDS_MOST = 1000, NAMES_MOST = 500, PATIENCE_MS = 1000 };

/* The operands of a command. */
typedef struct shape {
    const char *command;
    const char *verbs; /* words for the first operand, separated by blanks; NULL: it takes none */
    bool needs_verb;
    bool takes_name; /* the first operand, or the one after a verb, is a lock's name */
    bool starts;     /* the words after the name are another program's */
    bool takes_files;
} shape;

static const shape shapes[] = {
    {"run", .takes_name = true, .starts = true},
    {"ls", .takes_name = true},
    {"show", .takes_name = true},
    {"history", .takes_name = true},
    {"slots", .takes_name = true},
    {"latch", "set down wait show join", .needs_verb = true, .takes_name = true},
    {"barrier", .takes_name = true},
    {"lead", .takes_name = true},
    {"leader", .takes_name = true},
    {"ask", .takes_name = true},
    {"once", "status", .takes_name = true},
    {"queue", "put take done retry extend work ls dead requeue purge", .needs_verb = true,
     .takes_name = true},
    {"check", .takes_name = true},
    {"freeze", .takes_name = true},
    {"thaw", .takes_name = true},
    {"break", .takes_name = true},
    {"fence", "install list remove", .needs_verb = true},
    {"migrate", "status repair", .takes_files = true},
    {"quorum", "init status rejoin replace", .needs_verb = true},
    {0},
};

/* Options whose value is a lock's name, or a file. */
static const char named[] = " also also-shared lock name after ";
static const char filed[] =
    " defaults-file defaults-extra-file socket tls-ca tls-cert tls-key tls-crl "
    "ssl-ca ssl-cert ssl-key ssl-crl out ";

typedef struct completing {
    cli_context context; /* of the connection options among the words */
    char *words[WORDS_MOST];
    size_t count;     /* the last one is to be completed */
    const char *name; /* the command's; NULL: no command was typed yet */
    const cli_command *command;
    unsigned operands;        /* number of operands before the last word */
    const char *first;        /* the first operand */
    const cli_option *option; /* whose value the last word is; NULL: of no option */
    bool ended;               /* a "--" stood before the last word */
} completing;

static bool has_word(const char *words, const char *word)
{
    char padded[64];
    snprintf(padded, sizeof padded, " %s ", word);
    return strstr(words, padded) != NULL;
}

/* ---------------------------------------------------------------------- the words */

static bool read_words(completing *c)
{
    static char line[LINE_MOST + 1];
    const size_t size = fread(line, 1, LINE_MOST, stdin);
    for (size_t at = 0; at < size && c->count < WORDS_MOST; at += strlen(line + at) + 1)
        c->words[c->count++] = line + at;
    return c->count > 0;
}

static const shape *find_shape(const char *command)
{
    const shape *at = shapes;
    while (at->command && strcmp(at->command, command) != 0)
        at++;
    return at;
}

/* Reads an option before the last word. A connection option takes effect. If the next word is its
 * value, c->option is set. */
static void read_option(completing *c, const char *word)
{
    const char *name = word[1] == '-' ? word + 2 : NULL;
    const size_t length = name ? strcspn(name, "=") : 0;
    const cli_option *option = cli_find_option(c->command, word[1], name, length);
    const char *value = name && name[length] ? name + length + 1 : NULL;
    if (!name && word[1] && word[2])
        value = word + 2;
    c->option = NULL;
    if (option && !value && cli_wants_value(option))
        c->option = option;
    else if (option && cli_is_connection(option))
        (void)cli_take(option, &c->context, value);
}

static void read_operand(completing *c, const char *word)
{
    if (!c->name) {
        c->command = cli_command_of(word);
        c->name = word;
        c->ended = !c->command;
        return;
    }
    if (c->operands++ == 0)
        c->first = word;
    c->ended = find_shape(c->name)->starts;
}

static void read_line(completing *c)
{
    for (size_t i = 0; i + 1 < c->count && !c->ended; i++) {
        const char *word = c->words[i];
        if (c->option) {
            if (cli_is_connection(c->option))
                (void)cli_take(c->option, &c->context, word);
            c->option = NULL;
        } else if (strcmp(word, "--") == 0) {
            c->ended = true;
        } else if (word[0] == '-' && word[1]) {
            read_option(c, word);
        } else {
            read_operand(c, word);
        }
    }
}

/* ------------------------------------------------------------------------ candidates */

/* `before`: the beginning of the word that stays as it is. */
static void offer(const char *before, const char *text, const char *typed)
{
    if (strncmp(text, typed, strlen(typed)) == 0)
        cli_line("%s%s", before, text);
}

static void offer_all(const char *before, const char *words, const char *typed)
{
    char word[64];
    for (size_t length; *words; words += length + (words[length] == ' ')) {
        length = strcspn(words, " ");
        snprintf(word, sizeof word, "%.*s", (int)length, words);
        offer(before, word, typed);
    }
}

/* Offers the names of locks on the server that the line names; none if it cannot be asked. */
static void offer_names(completing *c, const char *before, const char *typed)
{
    const rowlock_list_options options = {
        .all = true, .limit = NAMES_MOST, .prefix = *typed ? typed : NULL};
    rowlock_client *client = NULL;
    rowlock_list *list = NULL;
    if (c->context.ask_password)
        return;
    c->context.client.connect_timeout_ms = PATIENCE_MS;
    c->context.client.retry_ms = -1;
    cli_connection_settle(&c->context);
    if (cli_connection_servers(&c->context) &&
        rowlock_client_open(&c->context.client, &client, NULL) == ROWLOCK_OK &&
        rowlock_list_get(client, &options, &list, NULL) == ROWLOCK_OK)
        for (size_t i = 0; i < rowlock_list_count(list); i++)
            offer(before, rowlock_list_at(list, i)->name, typed);
    rowlock_list_free(list);
    rowlock_client_close(client);
}

static void offer_values(completing *c, const char *before, const cli_option *option,
                         const char *typed)
{
    const char *name = option->name ? option->name : "";
    /* Words of any case are synonyms, and not offered. */
    for (const cli_word *word = option->words; word && word->word; word++)
        if (!word->any_case || *word->word < 'A' || *word->word > 'Z' ||
            strcmp(name, "on-ask") == 0)
            offer(before, word->word, typed);
    if (option->word)
        offer(before, option->word, typed);
    for (unsigned i = 0; strcmp(name, "role") == 0 && i < cli_role_count; i++)
        offer(before, cli_roles[i].name, typed);
    if (strcmp(name, "event") == 0 && option->kind == CLI_OWN)
        offer_all(before,
                  "acquired released expired taken_over broken lost refused gave_up asked "
                  "frozen thawed ended",
                  typed);
    if (has_word(named, name) && (option->kind == CLI_TEXT || option->kind == CLI_OWN))
        offer_names(c, before, typed);
    if (has_word(filed, name))
        puts(":files");
}

static bool is_of_mysql(const char *name)
{
    return strncmp(name, "ssl", 3) == 0 || strstr(name, "-ssl") != NULL;
}

/* Offers each option once; names that are there only for users of the mysql client are not
 * offered. */
static void offer_options(const completing *c, const char *typed)
{
    char text[64];
    const cli_option *option;
    for (size_t i = 0; (option = cli_option_at(c->command, i)) != NULL; i++) {
        if (option->name && !is_of_mysql(option->name)) {
            snprintf(text, sizeof text, "--%s%s", option->name, cli_wants_value(option) ? "=" : "");
            offer("", text, typed);
        }
        if (option->letter && typed[1] != '-') {
            snprintf(text, sizeof text, "-%c", option->letter);
            offer("", text, typed);
        }
    }
}

static void offer_operands(completing *c, const char *typed)
{
    const shape *of = find_shape(c->name);
    char verbs[64];
    snprintf(verbs, sizeof verbs, " %s ", of->verbs ? of->verbs : "");
    const bool has_verb = c->operands > 0 && has_word(verbs, c->first);
    if (strcmp(c->name, "help") == 0) {
        if (c->operands == 0)
            cli_commands_offer(typed);
        if (c->operands == 0)
            offer_all("", "commands connection", typed);
        return;
    }
    if (of->verbs && c->operands == 0)
        offer_all("", of->verbs, typed);
    if (of->takes_name && c->operands == (has_verb ? 1 : 0) && (has_verb || !of->needs_verb))
        offer_names(c, "", typed);
    if (of->takes_files)
        puts(":files");
}

static void offer_for(completing *c, const char *typed)
{
    const char *value = strchr(typed, '=');
    char before[128];
    if (c->ended) {
        puts(":files");
    } else if (c->option) {
        offer_values(c, "", c->option, typed);
    } else if (typed[0] == '-' && typed[1] == '-' && value) {
        const size_t length = (size_t)(value - typed) - 2;
        const cli_option *option = cli_find_option(c->command, 0, typed + 2, length);
        snprintf(before, sizeof before, "%.*s=", (int)(value - typed), typed);
        if (option)
            offer_values(c, before, option, value + 1);
    } else if (typed[0] == '-') {
        offer_options(c, typed);
    } else if (!c->name) {
        cli_commands_offer(typed);
    } else {
        offer_operands(c, typed);
    }
}

static int complete(void *into)
{
    completing *c = into;
    if (!read_words(c))
        return 0;
    c->command = cli_command_of(NULL);
    c->context.url_count = 0; /* URLs in the words replace those of the environment */
    read_line(c);
    if (c->command)
        offer_for(c, c->words[c->count - 1]);
    return 0;
}

const cli_command cli_complete = {
    .help = "",
    .options = (const cli_option[]){{0}},
    .into = CLI_INTO(completing),
    .asks_no_server = true,
    .of_quorums = true,
    .run = complete,
};
