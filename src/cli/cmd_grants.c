/* cli/cmd_grants.c - grants: prints the statements that an administrator runs for an account. It
 * asks no server. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "grants.h"

enum {
    USER_MOST = 128, /* characters; MySQL: 32 */
    HOST_MOST = 255,
    SCHEMA_MOST = 64
};

typedef struct request {
    cli_context context;
    const cli_role *role; /* NULL: not given */
    const char *into;     /* the schema to migrate; NULL: not given */
    const char *schema;   /* of the locks */
    char *user, *host;
} request;

/* ---------------------------------------------------------------------------- quoting */

/* Prints the text between two `quote`s, and doubles each `quote` in it; in a string literal also
 * each backslash. */
static void print_quoted(const char *text, char quote)
{
    putchar(quote);
    for (; *text; text++) {
        if (*text == quote || (quote == '\'' && *text == '\\'))
            putchar(*text);
        putchar(*text);
    }
    putchar(quote);
}

/* Removes SQL quotes in place: 'o''brien' becomes o'brien. */
static void unquote(char *text)
{
    const size_t length = strlen(text);
    const char quote = *text;
    if (length < 2 || !strchr("'`\"", quote) || text[length - 1] != quote)
        return;
    char *to = text;
    text[length - 1] = '\0';
    for (const char *from = text + 1; *from; from++) {
        if (from[0] == quote && from[1] == quote)
            from++;
        *to++ = *from;
    }
    *to = '\0';
}

/* 1 to `most` characters, none of them invisible or a control character. */
static bool is_between(const char *text, size_t most)
{
    size_t count = 0;
    for (size_t bytes; *text; text += bytes, count++) {
        uint32_t character;
        bytes = cli_utf8(text, &character);
        if (bytes == 0 || cli_is_risky(character))
            return false;
    }
    return count > 0 && count <= most;
}

/* ---------------------------------------------------------------------------- arguments */

static const cli_role *find_role(const char *name)
{
    for (unsigned i = 0; i < cli_role_count; i++)
        if (strcmp(cli_roles[i].name, name) == 0)
            return &cli_roles[i];
    return NULL;
}

/* Splits USER@HOST at the last @: a user may contain one, a host cannot. */
static bool take_account(request *wanted)
{
    static const char of_hosts[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                   "0123456789._%:/-";
    const char *text = wanted->context.operands[0];
    wanted->user = cli_need(strdup(text));
    wanted->host = strrchr(wanted->user, '@');
    if (!wanted->host)
        return !cli_usage("'grants' needs the account as USER@HOST, such as 'batch@%%', not '%s'",
                          text);
    *wanted->host++ = '\0';
    unquote(wanted->user);
    unquote(wanted->host);
    if (!is_between(wanted->user, USER_MOST))
        return !cli_usage("'%s' has no user name before the @ (1 to %d characters)", text,
                          USER_MOST);
    if (!is_between(wanted->host, HOST_MOST) || wanted->host[strspn(wanted->host, of_hosts)])
        return !cli_usage("'%s' has no host after the @: a name, an address, or %% for any", text);
    return true;
}

static int hex(char digit)
{
    static const char digits[] = "0123456789abcdef";
    const char *at = digit ? strchr(digits, digit | 0x20) : NULL;
    return at ? (int)(at - digits) : -1;
}

/* Decodes %XX in place. */
static void decode(char *text)
{
    char *to = text;
    for (const char *next = text; *next; next++) {
        const bool coded = *next == '%' && hex(next[1]) >= 0 && hex(next[2]) >= 0;
        *to++ = coded ? (char)(hex(next[1]) * 16 + hex(next[2])) : *next;
        next += coded ? 2 : 0;
    }
    *to = '\0';
}

/* The schema at the end of a URL. NULL: it has reported an error, since an @ follows the /, so that
 * the text after the / may be part of a password, which must not be printed. */
static const char *schema_of_url(const char *url)
{
    const char *at = url ? strstr(url, "://") : NULL;
    const char *from = at ? strchr(at + 3, '/') : NULL;
    const size_t length = from ? strcspn(from + 1, "?") : 0;
    if (length == 0 || strcspn(at + 3, "?") < (size_t)(from - at - 3))
        return "rowlock";
    if (strchr(from, '@')) {
        cli_usage("the URL has an @ after its /; in the user and the password, write %%2F for / "
                  "and %%40 for @");
        return NULL;
    }
    char *schema = cli_need(strndup(from + 1, length));
    decode(schema);
    return schema;
}

static bool take_schema(request *wanted)
{
    const rowlock_client_options *client = &wanted->context.client;
    const char *url = client->member_count > 0 ? client->members[0] : client->url;
    wanted->schema = client->schema ? client->schema : schema_of_url(url);
    if (!wanted->schema)
        return false;
    return is_between(wanted->schema, SCHEMA_MOST) ||
           !cli_usage("'%s' is not a schema's name (1 to %d characters)", wanted->schema,
                      SCHEMA_MOST);
}

static bool take_into(void *into, const char *value)
{
    ((request *)into)->into = value;
    return is_between(value, SCHEMA_MOST) ||
           !cli_usage("--into needs the schema that is migrated, not '%s'", value);
}

static bool take_role(void *into, const char *value)
{
    const cli_role *role = find_role(value);
    char all[200] = "";
    ((request *)into)->role = role;
    if (role)
        return true;
    for (unsigned i = 0; i < cli_role_count; i++)
        snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", i ? ", " : "",
                 cli_roles[i].name);
    return !cli_usage("there is no role '%s'; there are %s", value, all);
}

/* ---------------------------------------------------------------------------- printing */

static void print_role(const request *wanted)
{
    for (const char *at = wanted->role->text; *at; at++) {
        if (*at == '#') {
            print_quoted(wanted->schema, '`');
        } else if (*at == '$') {
            print_quoted(wanted->user, '\'');
            putchar('@');
            print_quoted(wanted->host, '\'');
        } else if (*at == '%') {
            print_quoted(wanted->into ? wanted->into : "shop", '`');
            fputs(".*", stdout);
        } else if (*at == '!') {
            fputs(wanted->into ? "" : "-- ", stdout);
        } else {
            putchar(*at);
        }
    }
}

static int grant(void *into)
{
    request *wanted = into;
    if (!wanted->role)
        wanted->role = find_role("batch");
    if (wanted->into && strcmp(wanted->role->name, "migrator") != 0)
        return cli_usage("--into is an option of --role=migrator");
    if (!take_account(wanted) || !take_schema(wanted))
        return CLI_EXIT_USAGE;
    print_role(wanted);
    return 0;
}

static const cli_option options[] = {
    {0, "role", CLI_OWN, .take = take_role},
    {0, "into", CLI_OWN, .take = take_into},
    {0},
};

const cli_command cli_grants = {
    .help = cli_help_grants,
    .options = options,
    .into = CLI_INTO(request),
    .least = 1,
    .most = 1,
    .operands = "the account, USER@HOST",
    .asks_no_server = true,
    .of_quorums = true, /* the same for each member */
    .run = grant,
};
