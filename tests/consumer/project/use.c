/* use.c SOCKET SCHEMA - one round through the library: both modes, and the caller's own
 * connection. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rowlock/rowlock.h>
#include <rowlock/rowlock_mysql.h>

static rowlock_error err;

static void good(rowlock_status status, const char *what)
{
    if (status != ROWLOCK_OK) {
        printf("%s: %s: %s\n", what, rowlock_status_name(status), err.message);
        exit(1);
    }
}

static void sql(MYSQL *mysql, const char *statement)
{
    if (mysql_query(mysql, statement) != 0) {
        printf("%s: %s\n", statement, mysql_error(mysql));
        exit(1);
    }
}

static rowlock_status insert_one(void *data, const rowlock_section *section, MYSQL *mysql)
{
    *(uint64_t *)data = section->version;
    return mysql_query(mysql, "INSERT INTO consumer_work VALUES (1)") == 0 ? ROWLOCK_OK
                                                                           : ROWLOCK_SERVER;
}

int main(int argc, char **argv)
{
    static const struct {
        rowlock_mode mode;
        const char *name;
    } rounds[] = {{ROWLOCK_OPTIMISTIC, "consumer lease"}, {ROWLOCK_PESSIMISTIC, "consumer row"}};
    rowlock_client *client = NULL;
    rowlock_section_result result;
    uint64_t seen = 0;
    if (argc != 3)
        return 64;
    if (strcmp(rowlock_version(), ROWLOCK_VERSION_STRING) != 0) {
        printf("the library is %s, the header %s\n", rowlock_version(), ROWLOCK_VERSION_STRING);
        return 1;
    }
    good(rowlock_client_open(
             &(rowlock_client_options){.socket = argv[1], .user = "root", .schema = argv[2]},
             &client, &err),
         "open");

    MYSQL *mysql = mysql_init(NULL);
    if (!mysql_real_connect(mysql, NULL, "root", NULL, argv[2], 0, argv[1], 0)) {
        printf("connect: %s\n", mysql_error(mysql));
        return 1;
    }
    sql(mysql, "CREATE TABLE IF NOT EXISTS consumer_work (n INT NOT NULL)");

    for (size_t i = 0; i < sizeof rounds / sizeof *rounds; i++) {
        rowlock_hold *hold = NULL;
        good(rowlock_acquire(client, rounds[i].name,
                             &(rowlock_acquire_options){
                                 .mode = rounds[i].mode, .wait_ms = 5000, .ttl_ms = 10000},
                             &hold, &err),
             rounds[i].name);
        good(rowlock_hold_check(hold), "check");
        printf("%s: token %llu\n", rowlock_hold_name(hold),
               (unsigned long long)rowlock_hold_token(hold));
        sql(mysql, "START TRANSACTION");
        good(rowlock_fence(hold, mysql, &err), "fence");
        sql(mysql, "INSERT INTO consumer_work VALUES (0)");
        sql(mysql, "COMMIT");
        good(rowlock_release(hold, &err), "release");
    }

    sql(mysql, "START TRANSACTION");
    good(rowlock_tx_acquire(client, mysql, "consumer tx", NULL, &err), "tx_acquire");
    sql(mysql, "COMMIT");
    good(rowlock_tx_section_run(client, mysql, "consumer section", NULL, insert_one, &seen, &result,
                                &err),
         "tx_section");
    if (result.version != seen + 1 || result.attempts < 1) {
        printf("the section made version %llu of %llu\n", (unsigned long long)result.version,
               (unsigned long long)seen);
        return 1;
    }
    mysql_close(mysql);
    rowlock_client_close(client);
    puts("all good");
    return 0;
}
