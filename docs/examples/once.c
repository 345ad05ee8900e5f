/*
 * Once in a period: a report for each hour, made by whichever host comes first. Two hosts come;
 * the first one fails, the second one makes the report, in the transaction that says so.
 *
 *     cc once.c -o once $(pkg-config --cflags --libs rowlock libmariadb)
 *     ROWLOCK_URL='mysql://user@host/rowlock' ./once
 */
#include "example_mysql.h"
#include <rowlock/rowlock_mysql.h>
#include <rowlock/rowlock_once.h>

#define HOUR_US INT64_C(3600000000)

static rowlock_error err;

/* The begin of the present hour, by the server's clock, not by the host's. */
static int64_t present_hour(rowlock_client *client)
{
    rowlock_once_runs *runs = NULL;
    must(rowlock_once_get(client, NULL, &runs, &err), &err);
    const int64_t now_us = rowlock_once_now_us(runs);
    rowlock_once_free(runs);
    return now_us - now_us % HOUR_US;
}

static rowlock_hold *acquire(rowlock_client *client)
{
    rowlock_hold *hold = NULL;
    const rowlock_acquire_options options = {.wait_ms = 5000, .ttl_ms = 10000};
    must(rowlock_acquire(client, "example report", &options, &hold, &err), &err);
    return hold;
}

static rowlock_once_begun begin(rowlock_hold *hold, int64_t hour_us)
{
    rowlock_once_result result;
    const rowlock_once_options options = {.attempts = 5};
    must(rowlock_once_begin(hold, hour_us, hour_us + HOUR_US, &options, &result, &err), &err);
    printf("%s, attempt %u\n", result.state == ROWLOCK_ONCE_BEGUN ? "begun" : "nothing to be done",
           result.attempt);
    return result.state;
}

static void sql(MYSQL *mysql, const char *statement)
{
    if (mysql_query(mysql, statement) != 0) {
        fprintf(stderr, "%s: %s\n", statement, mysql_error(mysql));
        exit(1);
    }
}

/* The report and "done" are committed together, or not at all. */
static void make_report(rowlock_client *client, MYSQL *mysql, uint64_t token)
{
    sql(mysql, "START TRANSACTION");
    sql(mysql, "INSERT INTO rowlock_example.report (made_at) VALUES (NOW())");
    must(rowlock_tx_once_done(client, mysql, "example report", token, &err), &err);
    sql(mysql, "COMMIT");
}

static void first_host(rowlock_client *client, int64_t hour_us)
{
    rowlock_hold *hold = acquire(client);
    expect(begin(hold, hour_us) == ROWLOCK_ONCE_BEGUN, "it is the first to come");
    must(rowlock_once_failed(hold, 1, &err), &err);
    must(rowlock_release(hold, &err), &err);
}

static void second_host(rowlock_client *client, MYSQL *mysql, int64_t hour_us)
{
    rowlock_hold *hold = acquire(client);
    expect(begin(hold, hour_us) == ROWLOCK_ONCE_BEGUN, "the first one has failed");
    make_report(client, mysql, rowlock_hold_token(hold));
    must(rowlock_once_done(hold, &err), &err); /* it is done: saying so again does no harm */
    must(rowlock_release(hold, &err), &err);
    hold = acquire(client);
    expect(begin(hold, hour_us) == ROWLOCK_ONCE_DONE, "it is done");
    must(rowlock_release(hold, &err), &err);
}

static void look(rowlock_client *client)
{
    rowlock_once_runs *runs = NULL;
    const rowlock_once_get_options options = {.name = "example report", .limit = 1};
    must(rowlock_once_get(client, &options, &runs, &err), &err);
    expect(rowlock_once_count(runs) == 1, "there is one period");
    const rowlock_once_run *run = rowlock_once_at(runs, 0);
    printf("done by %s after %u attempts\n", run->owner_label, run->attempts);
    expect(run->state == ROWLOCK_ONCE_RUN_DONE && run->attempts == 2, "the second one did it");
    rowlock_once_free(runs);
}

int main(int argc, char **argv)
{
    rowlock_client *client = NULL;
    const rowlock_client_options options = example_options(argc, argv);
    must(rowlock_client_open(&options, &client, &err), &err);
    MYSQL *mysql = example_connect(&options);
    sql(mysql, "CREATE DATABASE IF NOT EXISTS rowlock_example");
    sql(mysql, "CREATE TABLE rowlock_example.report (made_at DATETIME)");

    const int64_t hour_us = present_hour(client);
    first_host(client, hour_us);
    second_host(client, mysql, hour_us);
    look(client);

    sql(mysql, "DROP DATABASE rowlock_example");
    mysql_close(mysql);
    rowlock_client_close(client);
    return 0;
}
