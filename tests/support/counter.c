#include "counter.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void ts_counter_make(MYSQL *mysql, const char *name)
{
    ts_sql(mysql, "CREATE TABLE IF NOT EXISTS counter (name VARCHAR(80) PRIMARY KEY, value BIGINT"
                  " UNSIGNED NOT NULL, token BIGINT UNSIGNED NOT NULL) ENGINE = InnoDB");
    ts_sql(mysql, "INSERT INTO counter VALUES ('%s', 0, 0)", name);
}

uint64_t ts_counter_value(MYSQL *mysql, const char *name)
{
    return ts_sql_u64(mysql, "SELECT value FROM counter WHERE name = '%s'", name);
}

/* Not those of support.h: they may run in threads, and in processes that are no tests. */
static bool query(MYSQL *mysql, const char *text)
{
    if (mysql_query(mysql, text) == 0)
        return true;
    fprintf(stderr, "counter: %s\n", mysql_error(mysql));
    return false;
}

static bool read_counter(MYSQL *mysql, const char *name, uint64_t *value, uint64_t *token)
{
    char text[200];
    snprintf(text, sizeof text, "SELECT value, token FROM counter WHERE name = '%s'", name);
    if (!query(mysql, text))
        return false;
    MYSQL_RES *result = mysql_store_result(mysql);
    MYSQL_ROW row = result ? mysql_fetch_row(result) : NULL;
    if (row) {
        *value = strtoull(row[0], NULL, 10);
        *token = strtoull(row[1], NULL, 10);
    }
    mysql_free_result(result);
    return row != NULL;
}

bool ts_counter_add(MYSQL *mysql, const char *name, uint64_t token, unsigned moment_us,
                    uint64_t *before)
{
    char text[200];
    uint64_t last = 0;
    if (!read_counter(mysql, name, before, &last))
        return false;
    if (token > 0 && token <= last) {
        fprintf(stderr, "token %" PRIu64 " in a section after that of %" PRIu64 "\n", token, last);
        return false;
    }
    usleep(moment_us);
    snprintf(text, sizeof text,
             "UPDATE counter SET value = %" PRIu64 ", token = %" PRIu64 " WHERE name = '%s'",
             *before + 1, token, name);
    return query(mysql, text);
}
