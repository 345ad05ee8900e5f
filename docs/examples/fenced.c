/*
 * A job that cannot run twice, on a table that nobody writes without the job's lock.
 *
 *     fenced [OPTION-FILE [SCHEMA [prepare|work|remove]]]
 *
 * prepare makes a table of invoices and fences it. work, on any number of hosts, bills them one by
 * one: the first does it, the others wait; if it is killed, or stopped and started again, another
 * goes on, and the one that comes back writes nothing (exit status 75). Without a word: all three.
 *
 *     cc fenced.c -o fenced $(pkg-config --cflags --libs rowlock libmariadb)
 *     ROWLOCK_URL='mysql://user@host/rowlock' ./fenced
 */
#include <string.h>
#include <time.h>

#include <rowlock/rowlock_mysql.h>

#include "example_mysql.h"
#include <rowlock/rowlock_admin.h>

#define INVOICES 40

static rowlock_error err;

/* SQLSTATE RLLST: the triggers of the fence. */
static void sql(MYSQL *mysql, const char *text)
{
    if (mysql_query(mysql, text) == 0)
        return;
    fprintf(stderr, "%s\n", mysql_error(mysql));
    exit(strcmp(mysql_sqlstate(mysql), "RLLST") == 0 ? rowlock_status_exit(ROWLOCK_LOST) : 1);
}

/* A number, or -1 when there is no row. */
static long number(MYSQL *mysql, const char *text)
{
    sql(mysql, text);
    MYSQL_RES *rows = mysql_store_result(mysql);
    MYSQL_ROW row = rows ? mysql_fetch_row(rows) : NULL;
    long value = row && row[0] ? atol(row[0]) : -1;
    mysql_free_result(rows);
    return value;
}

/* Once, by an administrator: `rowlock fence install --table rowlock_fenced.invoice --lock ...` */
static void prepare(rowlock_client *client, MYSQL *mysql)
{
    char text[100];
    sql(mysql, "CREATE DATABASE IF NOT EXISTS rowlock_fenced");
    sql(mysql, "DROP TABLE IF EXISTS rowlock_fenced.invoice");
    sql(mysql, "CREATE TABLE rowlock_fenced.invoice (id INT PRIMARY KEY, billed INT NOT NULL)"
               " ENGINE = InnoDB");
    for (int i = 1; i <= INVOICES; i++) {
        snprintf(text, sizeof text, "INSERT INTO rowlock_fenced.invoice VALUES (%d, 0)", i);
        sql(mysql, text);
    }
    must(rowlock_fence_install(client, "rowlock_fenced", "invoice", "example billing", &err), &err);
    rowlock_fences *fences = NULL;
    must(rowlock_fences_get(client, &fences, &err), &err);
    for (size_t i = 0; i < rowlock_fences_count(fences); i++) {
        const rowlock_fenced *fence = rowlock_fences_at(fences, i);
        printf("%s.%s takes the token of '%s'\n", fence->table_schema, fence->table_name,
               fence->name);
    }
    rowlock_fences_free(fences);
}

/* One invoice. What was read may be old by the time it is written: the fence sees to it that
 * nobody else has had the lock since. */
static int bill_one(MYSQL *mysql)
{
    char text[100];
    long id = number(mysql, "SELECT MIN(id) FROM rowlock_fenced.invoice WHERE billed = 0");
    if (id < 0)
        return 0;
    nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL); /* the work */
    snprintf(text, sizeof text,
             "UPDATE rowlock_fenced.invoice SET billed = billed + 1 WHERE id = %ld", id);
    sql(mysql, "START TRANSACTION");
    sql(mysql, text);
    sql(mysql, "COMMIT");
    return 1;
}

static void work(rowlock_client *client, MYSQL *mysql)
{
    rowlock_hold *hold = NULL;
    const rowlock_acquire_options options = {.wait_ms = 60000, .ttl_ms = 12000};
    must(rowlock_acquire(client, "example billing", &options, &hold, &err), &err);
    printf("token %" PRIu64 "\n", rowlock_hold_token(hold));
    fflush(stdout);
    /* Should this process stop inside a transaction, the server ends that after so long. */
    sql(mysql, "SET SESSION wait_timeout = 12");
    must(rowlock_present(hold, mysql, &err), &err);
    while (bill_one(mysql)) {
    }
    must(rowlock_release(hold, &err), &err);
}

/* A program that has never heard of the lock. */
static void old_program(const rowlock_client_options *options)
{
    MYSQL *mysql = example_connect(options);
    expect(mysql_query(mysql, "DELETE FROM rowlock_fenced.invoice") != 0, "it is refused");
    printf("refused: %s\n", mysql_error(mysql));
    mysql_close(mysql);
}

int main(int argc, char **argv)
{
    const rowlock_client_options options = example_options(argc, argv);
    const char *word = argc > 3 ? argv[3] : "";
    rowlock_client *client = NULL;
    must(rowlock_client_open(&options, &client, &err), &err);
    MYSQL *mysql = example_connect(&options);
    if (!*word || strcmp(word, "prepare") == 0)
        prepare(client, mysql);
    if (!*word || strcmp(word, "work") == 0)
        work(client, mysql);
    if (!*word)
        old_program(&options);
    expect(!*word ? number(mysql, "SELECT SUM(billed = 1) FROM rowlock_fenced.invoice") == INVOICES
                  : 1,
           "each invoice is billed once");
    if (!*word || strcmp(word, "remove") == 0) {
        must(rowlock_fence_remove(client, "rowlock_fenced", "invoice", &err), &err);
        sql(mysql, "DROP DATABASE rowlock_fenced");
    }
    mysql_close(mysql);
    rowlock_client_close(client);
    return 0;
}
