/*
 * db/login.h - with which login a connection is made, and where to: what option files say of it,
 * and the words for it.
 */
#ifndef RL_DB_LOGIN_H
#define RL_DB_LOGIN_H

#include "db/conn.h"

/* "as 'batch' to db1, port 3306" */
#define RL_PLACE_SIZE 600

/* `mysql` has the settings of the option files; NULL: they were not read. */
void rl_place_say(const MYSQL *mysql, const rl_params *params, char text[RL_PLACE_SIZE]);

/* "; the option file /root/.my.cnf cannot be read (Permission denied)", or "". Connector/C passes
 * over such a file without a word. */
#define RL_UNREAD_SIZE 700
void rl_unread_say(const rl_params *params, char text[RL_UNREAD_SIZE]);

/*
 * The user and the password of a group that is called as the host, [db1], in the option files that
 * `params` name (not in what these include), into `params` where it has none yet. False: no memory.
 */
bool rl_login_of_group(rl_params *params, const char *host) RL_MUST_USE;

#endif
