/*
 * What an administrator's program does: make the schema, look at the server, list,
 * break, read the history, tidy up.
 *
 *     cc housekeeping.c -o housekeeping $(pkg-config --cflags --libs rowlock)
 *     ROWLOCK_URL='mysql://user@host/rowlock' ./housekeeping
 */
#include <string.h>

#include "example.h"
#include <rowlock/rowlock_admin.h>

static rowlock_error err;

static void on_progress(void *data, const rowlock_migration *migration)
{
    (void)data;
    printf("%s %u/%u %s\n", migration->name, migration->step, migration->steps,
           migration->statement);
}

static void on_finding(void *data, const rowlock_finding *finding)
{
    *(unsigned *)data += finding->level == ROWLOCK_BROKEN;
    printf("%s: %s\n", finding->check, finding->found);
}

static void make_and_check(const rowlock_client_options *options)
{
    rowlock_migrate_result result;
    unsigned broken = 0;
    must(rowlock_migrate(options, &(rowlock_migrate_options){.progress = on_progress}, &result,
                         &err),
         &err);
    printf("schema version %u, was %u\n", result.to, result.from);
    must(rowlock_diagnose(options, 10000, on_finding, &broken, &err), &err);
    expect(broken == 0, "nothing is broken");
    /* What this user would have to be granted to sweep, too. */
    const rowlock_diagnose_options sweeper = {.role = "sweeper", .rights_only = true};
    must(rowlock_diagnose_with(options, &sweeper, on_finding, &broken, &err), &err);
    expect(broken == 0, "no right is missing");
}

/* For those who take locks by CALL (rowlock-sql(7)); here they are taken away again. */
static void procedures(const rowlock_client_options *options)
{
    rowlock_procedures_result result;
    must(rowlock_procedures_install(options, NULL, &result, &err), &err);
    printf("%u procedures, %u of them new\n", result.total, result.changed);
    must(rowlock_procedures_remove(options, NULL, &result, &err), &err);
    expect(result.total == 0, "there are none left");
}

/* Page after page; what an info points to lives as long as its list. */
static void list_held(rowlock_client *client)
{
    char after[ROWLOCK_NAME_MAX * 4 + 1] = "";
    for (size_t count = 2; count == 2;) {
        rowlock_list *list = NULL;
        must(rowlock_list_get(client, &(rowlock_list_options){.after = after, .limit = 2}, &list,
                              &err),
             &err);
        count = rowlock_list_count(list);
        for (size_t i = 0; i < count; i++) {
            const rowlock_info *info = rowlock_list_at(list, i);
            printf("%s: %s, token %" PRIu64 "\n", info->name, info->owner_label, info->token);
            snprintf(after, sizeof after, "%s", info->name);
        }
        rowlock_list_free(list);
    }
}

/* Of a schema that a backup was put into. Refused while anybody holds something. */
static void after_a_restore(rowlock_client *client)
{
    rowlock_restored_result result;
    rowlock_status status = rowlock_restored(client, &result, &err);
    expect(status == ROWLOCK_OK || status == ROWLOCK_BUSY, "nothing was changed, or all");
    if (status == ROWLOCK_OK)
        printf("%" PRIu64 " names are free\n", result.names);
}

/* The longest wait first; not everybody may see everybody. */
static size_t list_waiters(rowlock_client *client, const char *name)
{
    rowlock_waiters *waiters = NULL;
    must(rowlock_waiters_get(client, &(rowlock_waiters_options){.name = name}, &waiters, &err),
         &err);
    size_t count = rowlock_waiters_count(waiters);
    for (size_t i = 0; i < count; i++) {
        const rowlock_waiter *waiter = rowlock_waiters_at(waiters, i);
        printf("%s: %s has waited for %" PRId64 " ms\n", waiter->name, waiter->who,
               waiter->waited_ms);
    }
    if (*rowlock_waiters_hidden(waiters))
        printf("not shown: %s\n", rowlock_waiters_hidden(waiters));
    rowlock_waiters_free(waiters);
    return count;
}

static rowlock_state state_of(rowlock_client *client, const char *name)
{
    rowlock_list *list = NULL;
    must(rowlock_list_one(client, name, &list, &err), &err);
    rowlock_state state = rowlock_list_at(list, 0)->state;
    rowlock_list_free(list);
    return state;
}

static void break_one(rowlock_client *client)
{
    rowlock_hold *hold = NULL;
    must(rowlock_acquire(client, "example stuck", NULL, &hold, &err), &err);
    list_held(client);
    expect(state_of(client, "example stuck") == ROWLOCK_HELD, "it is held");
    expect(list_waiters(client, "example stuck") == 0, "nobody waits for it");
    must(rowlock_break(client, "example stuck", "its host is gone", &err), &err);
    expect(state_of(client, "example stuck") == ROWLOCK_COOLING, "its holder may still be at work");
    expect(rowlock_release(hold, &err) == ROWLOCK_LOST, "its holder has lost it");
    expect(state_of(client, "example stuck") == ROWLOCK_FREE, "and has let go");
    must(rowlock_acquire(client, "example stuck", NULL, &hold, &err), &err);
    const rowlock_break_options now = {.reason = "it is known to be dead", .now = true};
    must(rowlock_break_with(client, "example stuck", &now, &err), &err);
    expect(state_of(client, "example stuck") == ROWLOCK_FREE, "it is free at once");
    expect(rowlock_release(hold, &err) == ROWLOCK_LOST, "its holder has lost it");
    must(rowlock_purge(client, "example stuck", &err), &err);
}

static void last_events(rowlock_client *client)
{
    rowlock_history *history = NULL;
    bool broken = false;
    must(rowlock_client_flush(client, 5000, &err), &err);
    must(rowlock_history_get(client,
                             &(rowlock_history_options){.name = "example stuck", .limit = 10},
                             &history, &err),
         &err);
    for (size_t i = 0; i < rowlock_history_count(history); i++) {
        const rowlock_event *event = rowlock_history_at(history, i);
        printf("%s %s %s %s\n", event->happened_at, event->event, event->name, event->detail);
        broken = broken || strcmp(event->event, "broken") == 0;
    }
    rowlock_history_free(history);
    expect(broken, "the history knows");
}

int main(int argc, char **argv)
{
    const rowlock_client_options options = example_options(argc, argv);
    rowlock_client *client = NULL;
    rowlock_sweep_result swept;
    printf("librowlock %s; LOST: %s\n", rowlock_version(), rowlock_status_text(ROWLOCK_LOST));
    make_and_check(&options);
    procedures(&options);
    must(rowlock_client_open(&options, &client, &err), &err);
    break_one(client);
    last_events(client);
    after_a_restore(client);
    must(rowlock_sweep(client, &(rowlock_sweep_options){.history_rows = 100000}, &swept, &err),
         &err);
    printf("%" PRIu64 " dead holders' locks freed\n", swept.expired);
    rowlock_client_close(client);
    return 0;
}
