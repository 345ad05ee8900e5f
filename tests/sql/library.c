/*
 * sql_library - a session of the library, for runner.py: obeys the commands of races/session.c, one
 * on each line of stdin, and says what comes of each. All in a new schema, whose name it says
 * first.
 */
#include "races/session.h"

int main(void)
{
    static session s;
    race_step step = {.session = 0};
    char outcome[OUTCOME_MAX];
    ts_suite_begin(NULL);
    setvbuf(stdout, NULL, _IOLBF, 0);
    puts(ts_schema());
    while (fgets(step.command, sizeof step.command, stdin)) {
        step.command[strcspn(step.command, "\n")] = 0;
        if (!s.client) {
            session_prepare(&s, "c", &s, 1);
            session_start(&s);
        }
        session_begin(&s, &step);
        if (!POLL_UNTIL(session_done(&s, outcome), 90000))
            return 1;
        puts(outcome);
    }
    if (s.client)
        session_end(&s);
    return ts_suite_end(NULL);
}
