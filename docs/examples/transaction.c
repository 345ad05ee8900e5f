/*
 * Locks and rows that commit together, on the program's own connection.
 *
 *     cc transaction.c -o transaction $(pkg-config --cflags --libs rowlock libmariadb)
 *     ROWLOCK_URL='mysql://user@host/rowlock' ./transaction
 */
#include <rowlock/rowlock_latch.h>

#include "example_mysql.h"

static rowlock_error err;

static void sql(MYSQL *mysql, const char *text)
{
    if (mysql_query(mysql, text) == 0)
        return;
    fprintf(stderr, "%s: %s\n", text, mysql_error(mysql));
    exit(1);
}

/* The lock is the transaction's: it ends with COMMIT or ROLLBACK, and needs no release. */
static void lock_in_transaction(rowlock_client *client, MYSQL *mysql)
{
    sql(mysql, "START TRANSACTION");
    must(rowlock_tx_acquire(client, mysql, "example ledger", &(rowlock_tx_options){.wait_ms = 5000},
                            &err),
         &err);
    sql(mysql, "UPDATE example_ledger SET total = total + 1");
    sql(mysql, "COMMIT");
}

/* A lease held for long, and a transaction that commits only while it is still ours. */
static void fence_a_transaction(rowlock_client *client, MYSQL *mysql)
{
    rowlock_hold *hold = NULL;
    must(rowlock_acquire(client, "example import", &(rowlock_acquire_options){.wait_ms = 5000},
                         &hold, &err),
         &err);
    /* Should this process die, and the server still work: ended before another one has the lease. */
    must(rowlock_hold_guard(hold, mysql, &err), &err);
    char init_command[ROWLOCK_INIT_COMMAND_MAX + 1]; /* for clients in other processes */
    must(rowlock_hold_init_command(hold, init_command, &err), &err);
    sql(mysql, "START TRANSACTION");
    sql(mysql, "UPDATE example_ledger SET total = total + 1");
    rowlock_status status = rowlock_fence(hold, mysql, &err);
    sql(mysql, status == ROWLOCK_OK ? "COMMIT" : "ROLLBACK");
    must(status, &err);
    must(rowlock_release(hold, &err), &err);
}

static rowlock_status add_one(void *data, const rowlock_section *section, MYSQL *mysql)
{
    (void)data;
    printf("attempt %u on version %" PRIu64 "\n", section->attempt, section->version);
    return mysql_query(mysql, "UPDATE example_ledger SET total = total + 1") == 0 ? ROWLOCK_OK
                                                                                  : ROWLOCK_SERVER;
}

/* Nothing is locked while `add_one` works; if somebody else was quicker, it works again. */
static void section_in_transaction(rowlock_client *client, MYSQL *mysql)
{
    rowlock_section_result result;
    must(rowlock_tx_section_run(client, mysql, "example balance", NULL, add_one, NULL, &result,
                                &err),
         &err);
    printf("version %" PRIu64 " after %u attempts\n", result.version, result.attempts);
}

/* The same by hand: final with the COMMIT. */
static void bump_in_transaction(rowlock_client *client, MYSQL *mysql)
{
    uint64_t version;
    must(rowlock_version_read(client, "example balance", &version, &err), &err);
    sql(mysql, "START TRANSACTION");
    sql(mysql, "UPDATE example_ledger SET total = total + 1");
    rowlock_status status =
        rowlock_tx_version_bump(client, mysql, "example balance", version, &version, &err);
    sql(mysql, status == ROWLOCK_OK ? "COMMIT" : "ROLLBACK");
    must(status, &err);
}

/* Counted when it commits: who waits for the latch finds the rows. */
static void count_in_transaction(rowlock_client *client, MYSQL *mysql)
{
    uint64_t generation;
    must(rowlock_latch_set(client, "example parts", 1, &generation, &err), &err);
    sql(mysql, "START TRANSACTION");
    sql(mysql, "UPDATE example_ledger SET total = total + 1");
    must(rowlock_tx_latch_down(client, mysql, "example parts", "part 1", generation, &err), &err);
    expect(rowlock_latch_wait(client, "example parts", NULL, NULL, &err) == ROWLOCK_BUSY,
           "it is not committed yet");
    sql(mysql, "COMMIT");
    must(rowlock_latch_wait(client, "example parts", NULL, NULL, &err), &err);
}

int main(int argc, char **argv)
{
    const rowlock_client_options options = example_options(argc, argv);
    rowlock_client *client = NULL;
    must(rowlock_client_open(&options, &client, &err), &err);
    MYSQL *mysql = example_connect(&options);
    sql(mysql, "CREATE DATABASE IF NOT EXISTS rowlock_example");
    sql(mysql, "USE rowlock_example");
    sql(mysql, "CREATE TABLE IF NOT EXISTS example_ledger (total INT NOT NULL)");
    sql(mysql, "DELETE FROM example_ledger");
    sql(mysql, "INSERT INTO example_ledger VALUES (0)");

    lock_in_transaction(client, mysql);
    fence_a_transaction(client, mysql);
    section_in_transaction(client, mysql);
    bump_in_transaction(client, mysql);
    count_in_transaction(client, mysql);

    sql(mysql, "SELECT total FROM example_ledger");
    MYSQL_RES *rows = mysql_store_result(mysql);
    expect(rows && atoi(mysql_fetch_row(rows)[0]) == 5, "each has added one");
    mysql_free_result(rows);
    sql(mysql, "DROP DATABASE rowlock_example");
    mysql_close(mysql);
    rowlock_client_close(client);
    return 0;
}
