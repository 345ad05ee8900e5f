/*
 * Every exchange with the server fails once, in every conversation: the connection ends before the
 * command is sent, or after it was carried out and before its reply; or the server answers it with
 * an error. And every connect is refused once, or meets a server that has too many already.
 */
#include "inside/talks.h"

static void test_a_command_is_lost(void **state)
{
    (void)state;
    const trial how = {
        .kind = INJECT_CALL_LOST, .side = INJECT_CALLER, .allowed = MAY(UNAVAILABLE)};
    talk_through_all(&how);
}

static void test_a_command_is_lost_behind(void **state)
{
    (void)state;
    const trial how = {
        .kind = INJECT_CALL_LOST, .side = INJECT_BEHIND, .allowed = MAY(UNAVAILABLE)};
    talk_through_all(&how);
}

static void test_a_reply_is_lost(void **state)
{
    (void)state;
    const trial how = {
        .kind = INJECT_REPLY_LOST, .side = INJECT_CALLER, .allowed = MAY(UNAVAILABLE)};
    talk_through_all(&how);
}

static void test_a_reply_is_lost_behind(void **state)
{
    (void)state;
    const trial how = {
        .kind = INJECT_REPLY_LOST, .side = INJECT_BEHIND, .allowed = MAY(UNAVAILABLE)};
    talk_through_all(&how);
}

static void test_a_connect_is_refused(void **state)
{
    (void)state;
    trial how = {.kind = INJECT_NO_CONNECTION, .allowed = MAY(UNAVAILABLE), .brief = true};
    talk_through_all(&how);
    how.side = INJECT_BEHIND;
    how.brief = false;
    talk_through_all(&how);
}

static void test_too_many_connections(void **state)
{
    (void)state;
    trial how = {.kind = INJECT_TOO_MANY, .allowed = MAY(UNAVAILABLE), .brief = true};
    talk_through_all(&how);
    how.side = INJECT_BEHIND;
    how.brief = false;
    talk_through_all(&how);
}

typedef struct answer {
    unsigned number;
    const char *sqlstate;
    unsigned allowed;
} answer;

static answer answers[] = {
    {1205, "HY000", MAY(BUSY)},
    {1213, "40001", MAY(DEADLOCK) | MAY(BUSY)},
    {1020, "HY000", MAY(DEADLOCK) | MAY(BUSY)},
    {1317, "70100", MAY(UNAVAILABLE) | MAY(BUSY)},
    {2013, "HY000", MAY(UNAVAILABLE)},
    /* Somebody else is the primary then: a row lock that is held is lost. */
    {1290, "HY000", MAY(READONLY) | MAY(LOST)},
    {1040, "08004", MAY(UNAVAILABLE)},
};

static void test_the_server_answers_with(void **state)
{
    const answer *a = *state;
    trial how = {.kind = INJECT_SERVER_ERROR,
                 .allowed = a->allowed,
                 .brief = true,
                 .shift = (unsigned)(a - answers)};
    inject_server_error(a->number, a->sqlstate);
    talk_through_all(&how);
    how.side = INJECT_BEHIND;
    how.brief = false;
    talk_through_all(&how);
}

#define ANSWERED(word, i)                                                                          \
    {                                                                                              \
        "test_the_server_answers_with (" word ")", test_the_server_answers_with, NULL, NULL,       \
            &answers[i]                                                                            \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        ONCE(test_a_command_is_lost),
        ONCE(test_a_command_is_lost_behind),
        ONCE(test_a_reply_is_lost),
        ONCE(test_a_reply_is_lost_behind),
        ONCE(test_a_connect_is_refused),
        ONCE(test_too_many_connections),
        ANSWERED("1205, a lock wait timed out", 0),
        ANSWERED("1213, a deadlock", 1),
        ANSWERED("1020, the row has changed", 2),
        ANSWERED("1317, interrupted", 3),
        ANSWERED("2013, lost", 4),
        ANSWERED("1290, read-only", 5),
        ANSWERED("1040, too many connections", 6),
    };
    return cmocka_run_group_tests_name("calls", tests, talks_begin, talks_end);
}
