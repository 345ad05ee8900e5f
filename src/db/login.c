#include "db/login.h"

#include <ctype.h>
#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"

#define FILES_MOST 6
#define PATH_SIZE  512

/* Those that are read, in their order. */
typedef struct files {
    char path[FILES_MOST][PATH_SIZE];
    size_t count;
} files;

static void add_file(files *all, const char *folder, const char *name)
{
    if (folder)
        snprintf(all->path[all->count++], PATH_SIZE, "%s%s%s", folder, *folder ? "/" : "", name);
}

/* As Connector/C (3.3) looks for them. */
static files files_of(const rl_params *params)
{
    files all = {.count = 0};
    if (params->defaults_file) {
        add_file(&all, "", params->defaults_file);
    } else if (params->read_defaults) {
        add_file(&all, "/etc", "my.cnf");
        add_file(&all, "/etc/mysql", "my.cnf");
        add_file(&all, getenv("MARIADB_HOME") ? getenv("MARIADB_HOME") : getenv("MYSQL_HOME"),
                 "my.cnf");
        add_file(&all, getenv("HOME"), ".my.cnf");
    }
    if (params->defaults_extra_file)
        add_file(&all, "", params->defaults_extra_file);
    return all;
}

void rl_unread_say(const rl_params *params, char text[RL_UNREAD_SIZE])
{
    const files all = files_of(params);
    text[0] = '\0';
    for (size_t i = 0; i < all.count; i++)
        if (access(all.path[i], R_OK) != 0 && errno != ENOENT && errno != ENOTDIR)
            snprintf(text, RL_UNREAD_SIZE, "; the option file %s cannot be read (%s)", all.path[i],
                     strerrordesc_np(errno));
}

/* ---------------------------------------------------------------------------- where to */

/* As the client library logs in where it is told no name. */
static void say_login(char *name, size_t size)
{
    struct passwd entry;
    struct passwd *found = NULL;
    char buffer[1024];
    if (getpwuid_r(geteuid(), &entry, buffer, sizeof buffer, &found) == 0 && found)
        snprintf(name, size, "%s", found->pw_name);
    else
        snprintf(name, size, "?");
}

static const char *given(const char *here, const char *in_file)
{
    return here && *here ? here : in_file && *in_file ? in_file : NULL;
}

void rl_place_say(const MYSQL *mysql, const rl_params *params, char text[RL_PLACE_SIZE])
{
    const char *user = given(params->user, mysql ? mysql->options.user : NULL);
    const char *host = given(params->host, mysql ? mysql->options.host : NULL);
    const char *socket = given(params->socket, mysql ? mysql->options.unix_socket : NULL);
    const unsigned in_file = mysql ? mysql->options.port : 0;
    const unsigned port = params->port ? params->port : in_file ? in_file : MYSQL_PORT;
    const bool tcp = params->protocol == ROWLOCK_PROTOCOL_TCP ||
                     (mysql && mysql->options.protocol == MYSQL_PROTOCOL_TCP);
    char login[64];
    if (!user) {
        say_login(login, sizeof login);
        user = login;
    }
    if (tcp || (host && strcmp(host, "localhost") != 0))
        snprintf(text, RL_PLACE_SIZE, "as '%.80s' to %.255s, port %u", user,
                 host ? host : "localhost", port);
    else
        snprintf(text, RL_PLACE_SIZE, "as '%.80s' to %s%.255s", user,
                 socket ? "the socket " : "the server's usual socket", socket ? socket : "");
}

/* -------------------------------------------------------------------- a group of its own */

typedef struct reading {
    const char *group;
    bool inside; /* the group */
    char *user, *password;
    bool failed;
} reading;

static char *trim(char *text)
{
    size_t length = strlen(text);
    while (length > 0 && isspace((unsigned char)text[length - 1]))
        text[--length] = '\0';
    return text + strspn(text, " \t");
}

/* 'pass\tword' as it is meant, in place. */
static char *value_of(char *text)
{
    static const char marks[] = "ntrbs";
    static const char meant[] = "\n\t\r\b ";
    const size_t length = strlen(text);
    if (length > 1 && (*text == '"' || *text == '\'') && text[length - 1] == *text) {
        text[length - 1] = '\0';
        text++;
    }
    char *to = text;
    for (const char *from = text; *from; from++) {
        if (*from != '\\' || !from[1]) {
            *to++ = *from;
            continue;
        }
        const char *mark = strchr(marks, *++from);
        *to++ = mark ? meant[mark - marks] : *from;
    }
    *to = '\0';
    return text;
}

static void keep(reading *r, char **to, const char *value)
{
    if (*to)
        explicit_bzero(*to, strlen(*to));
    free(*to);
    *to = rl_strdup(value);
    r->failed = r->failed || !*to;
}

static void take_line(reading *r, char *line)
{
    char *text = trim(line);
    if (*text == '[') {
        char *end = strchr(text, ']');
        if (end)
            *end = '\0';
        r->inside = end && strcmp(trim(text + 1), r->group) == 0;
        return;
    }
    char *value = strchr(text, '=');
    if (!r->inside || !value || strchr("#;!", *text))
        return;
    *value++ = '\0';
    const char *key = trim(text);
    if (strcmp(key, "user") == 0)
        keep(r, &r->user, value_of(trim(value)));
    else if (strcmp(key, "password") == 0)
        keep(r, &r->password, value_of(trim(value)));
}

/* One that cannot be read has none. */
static void read_file(reading *r, const char *path)
{
    FILE *file = fopen(path, "re");
    char *line = NULL;
    size_t size = 0;
    r->inside = false;
    while (file && getline(&line, &size, file) >= 0)
        take_line(r, line);
    if (line)
        explicit_bzero(line, size);
    free(line);
    if (file)
        fclose(file);
}

/* What there is already stays. */
static void give(char **to, char **found)
{
    if (!*to) {
        *to = *found;
        *found = NULL;
    }
    if (*found)
        explicit_bzero(*found, strlen(*found));
    free(*found);
}

bool rl_login_of_group(rl_params *params, const char *host)
{
    const files all = files_of(params);
    reading r = {.group = host};
    for (size_t i = 0; i < all.count; i++)
        read_file(&r, all.path[i]);
    give(&params->user, &r.user);
    give(&params->password, &r.password);
    return !r.failed;
}
