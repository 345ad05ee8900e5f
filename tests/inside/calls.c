/*
 * Each exchange with the server fails once, in each conversation: the connection ends before the
 * command is sent, or after it was carried out and before its reply; or the server answers with an
 * error. And each connect is refused.
 */
#include "inside/talks.h"

static const way connects[] = {
    {INJECT_NO_CONNECTION, MAY(UNAVAILABLE), 0, NULL},
    {0},
};

static const way commands[] = {
    {INJECT_CALL_LOST, MAY(UNAVAILABLE), 0, NULL},
    {INJECT_REPLY_LOST, MAY(UNAVAILABLE), 0, NULL},
    /* Lock wait timeout, deadlock, row has changed, interrupted, connection lost. */
    {INJECT_SERVER_ERROR, MAY(BUSY), 1205, "HY000"},
    {INJECT_SERVER_ERROR, MAY(DEADLOCK) | MAY(BUSY), 1213, "40001"},
    {INJECT_SERVER_ERROR, MAY(DEADLOCK) | MAY(BUSY), 1020, "HY000"},
    {INJECT_SERVER_ERROR, MAY(UNAVAILABLE) | MAY(BUSY), 1317, "70100"},
    {INJECT_SERVER_ERROR, MAY(UNAVAILABLE), 2013, "HY000"},
    /* Read-only: another server is the primary then, and a row lock that is held is lost. */
    {INJECT_SERVER_ERROR, MAY(READONLY) | MAY(LOST), 1290, "HY000"},
    {INJECT_SERVER_ERROR, MAY(UNAVAILABLE), 1040, "08004"}, /* too many connections */
    {0},
};

int main(void)
{
    const struct CMUnitTest tests[] = {
        FAIL_IN("test_connects", connects),
        FAIL_IN("test_commands", commands),
    };
    return cmocka_run_group_tests_name("calls", tests, talks_begin, talks_end);
}
