/* cli/usual.c - see usual.h */
#include "usual.h"

#include <stdlib.h>

#include "rowlock/rowlock_admin.h"

enum { HOLDS_MOST = 100, HOLDS_LEAST = 3 };

static int by_length(const void *a, const void *b)
{
    const int64_t one = *(const int64_t *)a;
    const int64_t other = *(const int64_t *)b;
    return (one > other) - (one < other);
}

cli_usual cli_usual_of(rowlock_client *client, const char *name)
{
    const rowlock_history_options options = {
        .name = name, .event = "released", .limit = HOLDS_MOST};
    int64_t held_ms[HOLDS_MOST];
    size_t count = 0;
    rowlock_history *history = NULL;
    if (rowlock_history_get(client, &options, &history, NULL) != ROWLOCK_OK)
        return (cli_usual){0};
    for (size_t i = 0; i < rowlock_history_count(history); i++) {
        const rowlock_event *event = rowlock_history_at(history, i);
        if (event->held_ms >= 0 && event->exit_status == 0)
            held_ms[count++] = event->held_ms;
    }
    rowlock_history_free(history);
    if (count < HOLDS_LEAST)
        return (cli_usual){0};
    qsort(held_ms, count, sizeof *held_ms, by_length);
    return (cli_usual){count, held_ms[count / 2], held_ms[(count * 95 - 1) / 100]};
}
