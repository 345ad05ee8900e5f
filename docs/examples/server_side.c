/*
 * What the server does by itself: the stored procedures, and the event that sweeps, installed,
 * looked at and taken away again. Where others have installed them they are brought up to date, and
 * stay. An administrator's program, as housekeeping.c is.
 *
 *     cc server_side.c -o server_side $(pkg-config --cflags --libs rowlock)
 *     ROWLOCK_URL='mysql://user@host/rowlock' ./server_side
 */
#include <string.h>

#include "example.h"
#include <rowlock/rowlock_admin.h>

static rowlock_error err;

/* What the doctor says of the event. */
static void on_finding(void *data, const rowlock_finding *finding)
{
    if (strcmp(finding->check, "event") != 0)
        return;
    *(bool *)data = true;
    printf("event: %s\n", finding->found);
    if (finding->level != ROWLOCK_FINE)
        printf("to do: %s\n", finding->remedy);
}

static bool there_already(const rowlock_client_options *options)
{
    const rowlock_procedures_options update = {.update_only = true};
    rowlock_procedures_result procedures;
    must(rowlock_procedures_install(options, &update, &procedures, &err), &err);
    return procedures.total > 0;
}

static void install(const rowlock_client_options *options)
{
    rowlock_procedures_result procedures;
    rowlock_sweep_event_result event;
    const rowlock_sweep_event_options every_5m = {
        .every_ms = 300000,
        .sweep = {.history_ms = 7LL * 86400000, .unused_ms = -1 /* names are kept for ever */},
    };
    must(rowlock_procedures_install(options, NULL, &procedures, &err), &err);
    printf("%u procedures\n", procedures.total);
    must(rowlock_sweep_event_install(options, &every_5m, &event, &err), &err);
    if (!event.scheduler_on)
        printf("the server runs no events: its event_scheduler is off\n");
}

int main(int argc, char **argv)
{
    const rowlock_client_options options = example_options(argc, argv);
    rowlock_sweep_event_result event;
    rowlock_procedures_result procedures;
    bool told = false;
    must(rowlock_migrate(&options, NULL, NULL, &err), &err);
    if (there_already(&options)) {
        printf("others have installed them\n");
        return 0;
    }
    install(&options);
    must(rowlock_diagnose(&options, 0, on_finding, &told, &err), &err);
    expect(told, "the doctor tells of it");
    must(rowlock_sweep_event_remove(&options, NULL, &event, &err), &err);
    expect(event.there, "there was one");
    must(rowlock_procedures_remove(&options, NULL, &procedures, &err), &err);
    return 0;
}
