/*
 * What the examples with a connection of their own share: it leads to the server of example_options().
 */
#ifndef EXAMPLE_MYSQL_H
#define EXAMPLE_MYSQL_H

#include <rowlock/rowlock_mysql.h>
#include <string.h>

#include "example.h"

/* Ends the text at the mark; what is behind it, or NULL. */
static inline char *example_cut(char *text, char mark)
{
    char *found = text ? strchr(text, mark) : NULL;
    if (found)
        *found++ = '\0';
    return found;
}

/* mysql://[user[:password]@][host][:port][/...][?socket=PATH&...], as it stands: what is percent-encoded
 * in it is left so. */
static inline MYSQL *example_connect_url(MYSQL *mysql, const char *url)
{
    char text[1024];
    snprintf(text, sizeof text, "%s", strstr(url, "://") ? strstr(url, "://") + 3 : url);
    char *query = example_cut(text, '?');
    char *socket = query ? strstr(query, "socket=") : NULL;
    if (socket)
        example_cut(socket += strlen("socket="), '&');
    example_cut(text, '/');
    char *host = example_cut(text, '@');
    char *user = host ? text : NULL;
    host = host ? host : text;
    char *password = example_cut(user, ':');
    char *port = example_cut(host, ':');
    return mysql_real_connect(mysql, *host ? host : NULL, user, password, NULL,
                              port ? (unsigned)atoi(port) : 0, socket, 0);
}

static inline MYSQL *example_connect(const rowlock_client_options *options)
{
    MYSQL *mysql = mysql_init(NULL);
    if (options->defaults_file)
        mysql_options(mysql, MYSQL_READ_DEFAULT_FILE, options->defaults_file);
    mysql_options(mysql, MYSQL_READ_DEFAULT_GROUP, "client");
    if (options->url ? example_connect_url(mysql, options->url)
                     : mysql_real_connect(mysql, NULL, NULL, NULL, NULL, 0, NULL, 0))
        return mysql;
    fprintf(stderr, "cannot connect: %s\n", mysql_error(mysql));
    exit(69);
}

#endif
