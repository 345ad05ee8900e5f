/* The migrations of users: the lock, the history and the folder brought together. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/options.h"
#include "base/name.h"
#include "engine/client.h"
#include "migrate/apply.h"
#include "rowlock/rowlock_migrate.h"

#define WAIT_DEFAULT_MS       600000
#define TABLE_WAIT_DEFAULT_MS 30000
#define TABLE_WAIT_MOST_MS    INT64_C(31536000000)

/* One call: what it was asked, and what it has got. */
typedef struct job {
    rowlock_client *client;
    rowlock_migrations_options options; /* with the defaults filled in */
    rl_site site;
    rl_folder folder;
    rl_ledger ledger;
    rl_plan plan;
    rowlock_cancel *cancel; /* the caller's, or our own */
} job;

/* --------------------------------------------------------------------------- options */

static rowlock_status check_options(rowlock_migrations_options *options, rowlock_error *err)
{
    if (!options->folder || !*options->folder)
        return rl_fail(err, ROWLOCK_INVALID, "no folder was given");
    if (!options->schema || !*options->schema)
        return rl_fail(err, ROWLOCK_INVALID, "the schema that is to be migrated was not given");
    if (strlen(options->schema) > 256)
        return rl_fail(err, ROWLOCK_INVALID, "the schema's name is too long");
    RL_TRY(rl_schema_is_ours(options->schema, err));
    if (options->table_wait_ms < 0 || options->table_wait_ms > TABLE_WAIT_MOST_MS)
        return rl_fail(err, ROWLOCK_INVALID, "table_wait of %" PRId64 " ms is not 0 to a year",
                       options->table_wait_ms);
    if (options->wait_ms == 0)
        options->wait_ms = WAIT_DEFAULT_MS;
    if (options->table_wait_ms == 0)
        options->table_wait_ms = TABLE_WAIT_DEFAULT_MS;
    if (!options->table)
        options->table = ROWLOCK_MIGRATIONS_TABLE;
    return rl_plain_check("the history", options->table, err);
}

static rowlock_status name_lock(job *j, rowlock_error *err)
{
    rl_site *site = &j->site;
    const char *name = j->options.lock;
    int length = snprintf(site->lock_name, sizeof site->lock_name, "%s.%s%s", j->client->schema,
                          name ? "" : "migrate:", name ? name : j->options.schema);
    if (length < 0 || (size_t)length >= sizeof site->lock_name)
        return rl_fail(err, ROWLOCK_INVALID, "the lock's name is too long");
    site->lock = site->lock_name + strlen(j->client->schema) + 1;
    return rl_name_check(site->lock, err);
}

/* Reads the folder as the server does. */
static rowlock_status begin(job *j, rowlock_client *client,
                            const rowlock_migrations_options *options, rowlock_error *err)
{
    *j = (job){.client = client, .options = options ? *options : (rowlock_migrations_options){0}};
    RL_TRY(rl_client_check(client, err));
    RL_TRY(check_options(&j->options, err));
    RL_TRY(name_lock(j, err));
    j->site.options = &j->options;
    j->site.schema = j->options.schema;
    j->site.table = j->options.table;
    j->site.who = client->label;
    RL_TRY(rl_folder_read(j->options.folder, j->options.placeholders, &j->folder, err));
    RL_TRY(rl_site_open(&j->site, &client->pool.params, client->single_writer, err));
    return rl_folder_split(&j->folder, j->site.no_backslashes, j->site.ansi_quotes, err);
}

static void end(job *j, rowlock_status status)
{
    /* The outcome of the work stands; a lock that is not given back costs others its TTL. */
    const rowlock_release_options how = {.has_exit_status = status != ROWLOCK_OK,
                                         .exit_status = rowlock_status_exit(status)};
    if (j->site.hold)
        (void)rowlock_release_with(j->site.hold, &how, NULL);
    rl_plan_free(&j->plan);
    rl_ledger_free(&j->ledger);
    rl_folder_free(&j->folder);
    rl_site_close(&j->site);
    if (j->cancel != j->options.cancel)
        rowlock_cancel_free(j->cancel);
}

static rowlock_status make_plan(job *j, rowlock_error *err)
{
    rl_plan_free(&j->plan);
    rl_ledger_free(&j->ledger);
    RL_TRY(rl_ledger_read(&j->site, &j->ledger, err));
    return rl_plan_make(&j->options, &j->folder, &j->ledger, &j->plan, err);
}

/* ------------------------------------------------------------------------------ lock */

/* On a thread of the client's. What the call does is broken off, its statement killed. */
static void on_lost(void *data, rowlock_hold *hold, const char *reason)
{
    (void)hold;
    (void)reason;
    rowlock_cancel_fire(data);
}

static rowlock_status lock(job *j, rowlock_error *err)
{
    /* Not even the lock is taken there, which an administrator could. */
    RL_TRY(rl_server_write_check(&j->site.server, err));
    j->cancel = j->options.cancel;
    if (!j->cancel)
        RL_TRY(rowlock_cancel_new(&j->cancel, err));
    rl_tell(&j->site, &(rowlock_migrations_progress){.event = ROWLOCK_MIGRATIONS_LOCKING,
                                                     .name = j->site.lock});
    const rowlock_acquire_options acquire = {.wait_ms = j->options.wait_ms,
                                             .ttl_ms = j->options.ttl_ms,
                                             .cancel = j->cancel,
                                             .on_lost = on_lost,
                                             .on_lost_data = j->cancel};
    rowlock_status status = rowlock_acquire(j->client, j->site.lock, &acquire, &j->site.hold, err);
    if (status == ROWLOCK_TIMEOUT || status == ROWLOCK_BUSY)
        rl_error_prefix(err, "another migrator of the schema %s is at work: ", j->options.schema);
    RL_TRY(status);
    j->site.token = rowlock_hold_token(j->site.hold);
    j->site.check = rowlock_hold_check;
    j->site.budget = rl_budget_start(j->options.wait_ms, 0, j->cancel);
    j->site.files = j->plan.wanted;
    return ROWLOCK_OK;
}

/* ----------------------------------------------------------------------------- apply */

static uint64_t newest_applied(const rl_plan *plan)
{
    uint64_t version = 0;
    for (size_t i = 0; i < plan->count; i++)
        if (plan->entries[i].record && plan->entries[i].record->applied &&
            plan->entries[i].version < ROWLOCK_MIGRATIONS_REPEATABLE)
            version = plan->entries[i].version;
    return version;
}

/* The present holder's token; 0: the lock is free. */
static rowlock_status ask_token(job *j, uint64_t *token, rowlock_error *err)
{
    rowlock_list *list = NULL;
    *token = 0;
    rowlock_status status = rowlock_list_one(j->client, j->site.lock, &list, err);
    if (status == ROWLOCK_NOT_FOUND)
        return ROWLOCK_OK;
    RL_TRY(status);
    const rowlock_info *info = rowlock_list_at(list, 0);
    *token = info->state == ROWLOCK_HELD ? info->token : 0;
    rowlock_list_free(list);
    return ROWLOCK_OK;
}

/* The history has a higher token than ours: LOST unless the lock is still ours, since this process
 * may have been paused and not know yet that it has lost it. */
static rowlock_status explain_refusal(job *j, rowlock_status status, rowlock_error *err)
{
    uint64_t token = 0;
    if (status != ROWLOCK_REPAIR || ask_token(j, &token, NULL) != ROWLOCK_OK)
        return status;
    return token == j->site.token ? status : rl_site_lost(&j->site, err);
}

/* With the lock: what is to be done may have been done while we waited for it. */
static rowlock_status apply_locked(job *j, rowlock_migrations_result *result, rowlock_error *err)
{
    RL_TRY(rl_ledger_make(&j->site, err));
    RL_TRY(explain_refusal(j, rl_apply_enter(&j->site, false, false, err), err));
    RL_TRY(make_plan(j, err)); /* where it fails, the result says what was read before */
    result->version = newest_applied(&j->plan);
    RL_TRY(rl_plan_check(&j->plan, err));
    RL_TRY(rl_apply_check(&j->site, &j->plan, err));
    j->site.files = j->plan.wanted;
    for (size_t i = 0; i < j->plan.count; i++) {
        const rl_entry *entry = &j->plan.entries[i];
        if (!entry->wanted)
            continue;
        RL_TRY(rl_apply_entry(&j->site, entry, err));
        result->applied++;
        if (entry->version > result->version && entry->version < ROWLOCK_MIGRATIONS_REPEATABLE)
            result->version = entry->version;
    }
    return ROWLOCK_OK;
}

static rowlock_status apply(job *j, rowlock_migrations_result *result, rowlock_error *err)
{
    RL_TRY(make_plan(j, err));
    result->version = newest_applied(&j->plan);
    /* Nothing to do and nothing wrong: no lock, no table. A file at work may look wrong. */
    if (j->plan.wanted == 0 && rl_plan_check(&j->plan, NULL) == ROWLOCK_OK)
        return ROWLOCK_OK;
    RL_TRY(lock(j, err));
    return apply_locked(j, result, err);
}

rowlock_status rowlock_migrations_apply(rowlock_client *client,
                                        const rowlock_migrations_options *options,
                                        rowlock_migrations_result *result, rowlock_error *err)
{
    rowlock_migrations_result none;
    rowlock_error spare;
    job j;
    err = rl_error_or(err, &spare);
    if (!result)
        result = &none;
    *result = (rowlock_migrations_result){0};
    rowlock_status status = begin(&j, client, options, err);
    if (status == ROWLOCK_OK)
        status = apply(&j, result, err);
    end(&j, status);
    return status;
}

/* ------------------------------------------------------------------------------ list */

struct rowlock_migrations_list {
    job job;
    rowlock_migrations_file *files;
};

/* What looks stopped under the token that has the lock now is at work, or died less than its TTL
 * ago. (Read after the history: a migrator that ends in between has noted how.) */
static rowlock_status see_running(job *j, rowlock_error *err)
{
    uint64_t token = 0;
    RL_TRY(ask_token(j, &token, err));
    for (size_t i = 0; token > 0 && i < j->plan.count; i++) {
        rl_entry *entry = &j->plan.entries[i];
        if (!entry->record || entry->record->applied || entry->record->token != token)
            continue;
        entry->state = ROWLOCK_MIGRATIONS_RUNNING;
        entry->problem[0] = '\0';
    }
    return ROWLOCK_OK;
}

static void fill(rowlock_migrations_file *file, const rl_entry *entry)
{
    static const rl_record none = {0};
    const rl_record *record = entry->record ? entry->record : &none;
    const unsigned steps = entry->file ? entry->file->steps : record->steps;
    *file = (rowlock_migrations_file){
        .version = entry->version,
        .name = entry->file ? entry->file->name : record->name,
        .state = entry->state,
        .wanted = entry->wanted,
        .problem = entry->problem,
        .steps = steps,
        /* What was applied may be a file of other statements than the one it was repaired to be. */
        .steps_done = entry->state == ROWLOCK_MIGRATIONS_DONE ? steps : record->done,
        .running = record->running,
        .statement = record->statement,
        .error = record->error,
        .checksum = entry->record ? record->checksum : entry->file->checksum,
        .started_at = record->started_at,
        .applied_at = record->applied_at,
        .applied_by = record->who,
        .token = record->token,
        .duration_ms = record->applied ? (int64_t)record->duration_ms : -1};
}

static rowlock_status look(rowlock_migrations_list *list, rowlock_client *client,
                           const rowlock_migrations_options *options, rowlock_error *err)
{
    job *j = &list->job;
    RL_TRY(begin(j, client, options, err));
    RL_TRY(make_plan(j, err));
    rl_site_close(&j->site);
    RL_TRY(see_running(j, err));
    list->files = calloc(j->plan.count + 1, sizeof *list->files);
    if (!list->files)
        return rl_fail(err, ROWLOCK_SYSTEM, "out of memory");
    for (size_t i = 0; i < j->plan.count; i++)
        fill(&list->files[i], &j->plan.entries[i]);
    return ROWLOCK_OK;
}

rowlock_status rowlock_migrations_get(rowlock_client *client,
                                      const rowlock_migrations_options *options,
                                      rowlock_migrations_list **out, rowlock_error *err)
{
    rowlock_error spare;
    err = rl_error_or(err, &spare);
    RL_TRY(rl_place_check(out, "the list", err));
    rowlock_migrations_list *list = calloc(1, sizeof *list);
    if (!list)
        return rl_fail(err, ROWLOCK_SYSTEM, "out of memory");
    rowlock_status status = look(list, client, options, err);
    if (status == ROWLOCK_OK)
        *out = list;
    else
        rowlock_migrations_free(list);
    return status;
}

size_t rowlock_migrations_count(const rowlock_migrations_list *list)
{
    return list ? list->job.plan.count : 0;
}

const rowlock_migrations_file *rowlock_migrations_at(const rowlock_migrations_list *list, size_t i)
{
    return i < rowlock_migrations_count(list) ? &list->files[i] : NULL;
}

void rowlock_migrations_statements(const rowlock_migrations_list *list, size_t i,
                                   rowlock_migrations_statement_fn fn, void *data)
{
    const rl_file *file =
        i < rowlock_migrations_count(list) ? list->job.plan.entries[i].file : NULL;
    if (!file || !fn)
        return;
    rl_statement statement;
    rl_script script = rl_file_script(file);
    for (unsigned step = 1; rl_script_next(&script, &statement); step++)
        fn(data, &(rowlock_migrations_statement){.step = step,
                                                 .line = statement.line,
                                                 .text = statement.text,
                                                 .length = statement.length});
}

void rowlock_migrations_free(rowlock_migrations_list *list)
{
    if (!list)
        return;
    end(&list->job, ROWLOCK_OK);
    free(list->files);
    free(list);
}

/* ---------------------------------------------------------------------------- repair */

static void tell_repaired(job *j, uint64_t version, const char *name, const char *what,
                          unsigned *repaired)
{
    ++*repaired;
    rl_tell(&j->site, &(rowlock_migrations_progress){.event = ROWLOCK_MIGRATIONS_REPAIRED,
                                                     .name = name,
                                                     .version = version,
                                                     .statement = what});
}

static rl_record record_for(const rl_file *file, unsigned done)
{
    rl_record record = {.version = file->version,
                        .steps = file->steps,
                        .done = done,
                        .decided = done < file->steps,
                        .applied = done == file->steps};
    rl_done_checksum(file, done, record.done_checksum);
    snprintf(record.checksum, sizeof record.checksum, "%s", file->checksum);
    return record;
}

static bool is_stopped(const rl_entry *entry, uint64_t version)
{
    return entry->file && entry->record && !entry->record->applied &&
           (version == 0 || version == entry->version);
}

static rowlock_status repair_done(job *j, const rowlock_migrations_repair_options *repair,
                                  unsigned *repaired, rowlock_error *err)
{
    const rl_entry *found = NULL;
    for (size_t i = 0; i < j->plan.count; i++) {
        if (!is_stopped(&j->plan.entries[i], repair->version))
            continue;
        if (found)
            return rl_fail(err, ROWLOCK_INVALID,
                           "%s and %s were stopped both: say which one by its number",
                           found->file->name, j->plan.entries[i].file->name);
        found = &j->plan.entries[i];
    }
    if (!found)
        return rl_fail(err, ROWLOCK_NOT_FOUND,
                       "no file was stopped half-way, so there is nothing to decide");
    if (repair->done > found->file->steps)
        return rl_fail(err, ROWLOCK_INVALID, "%s has %u statements, not %u", found->file->name,
                       found->file->steps, repair->done);
    const rl_record record = record_for(found->file, repair->done);
    char what[80];
    if (record.applied)
        snprintf(what, sizeof what, "counts as applied");
    else
        snprintf(what, sizeof what, "the next run goes on behind statement %u of %u", repair->done,
                 found->file->steps);
    RL_TRY(rl_ledger_note(&j->site, NULL, &record, err));
    tell_repaired(j, found->version, found->file->name, what, repaired);
    return ROWLOCK_OK;
}

/* An applied file that was changed, or one that was applied before rowlock came. */
static rowlock_status repair_file(job *j, const rowlock_migrations_repair_options *repair,
                                  const rl_entry *entry, unsigned *repaired, rowlock_error *err)
{
    const rl_file *file = entry->file;
    const rl_record *was = entry->record;
    bool adopt = repair->checksums && file && !file->repeatable && was && was->applied &&
                 strcmp(file->checksum, was->checksum) != 0;
    bool add = file && !was && entry->version <= repair->baseline;
    if (!adopt && !add)
        return ROWLOCK_OK;
    const rl_record record = record_for(file, file->steps);
    if (adopt) {
        RL_TRY(rl_ledger_adopt(&j->site, file->name, &record, err));
    } else {
        RL_TRY(rl_ledger_begin(&j->site, entry->version, file->name, err));
        RL_TRY(rl_ledger_note(&j->site, NULL, &record, err));
    }
    tell_repaired(j, entry->version, file->name,
                  adopt ? "what the file says now counts as what was applied"
                        : "counts as applied, without having been run",
                  repaired);
    return ROWLOCK_OK;
}

static rowlock_status repair_forget(job *j, uint64_t version, unsigned *repaired,
                                    rowlock_error *err)
{
    for (size_t i = 0; i < j->plan.count; i++)
        if (j->plan.entries[i].version == version && j->plan.entries[i].record) {
            RL_TRY(rl_ledger_forget(&j->site, version, err));
            tell_repaired(j, version, j->plan.entries[i].record->name,
                          "is not in the history any more", repaired);
            return ROWLOCK_OK;
        }
    return rl_fail(err, ROWLOCK_NOT_FOUND, "the history has no number %" PRIu64, version);
}

static rowlock_status repair_all(job *j, const rowlock_migrations_repair_options *repair,
                                 unsigned *repaired, rowlock_error *err)
{
    RL_TRY(lock(j, err));
    RL_TRY(rl_ledger_make(&j->site, err));
    RL_TRY(rl_apply_enter(&j->site, true, repair->gone, err));
    RL_TRY(make_plan(j, err));
    if (repair->has_done)
        RL_TRY(repair_done(j, repair, repaired, err));
    for (size_t i = 0; i < j->plan.count; i++)
        RL_TRY(repair_file(j, repair, &j->plan.entries[i], repaired, err));
    return repair->forget ? repair_forget(j, repair->forget, repaired, err) : ROWLOCK_OK;
}

rowlock_status rowlock_migrations_repair(rowlock_client *client,
                                         const rowlock_migrations_options *options,
                                         const rowlock_migrations_repair_options *given,
                                         unsigned *repaired, rowlock_error *err)
{
    static const rowlock_migrations_repair_options nothing = {0};
    unsigned none = 0;
    rowlock_error spare;
    job j;
    err = rl_error_or(err, &spare);
    if (!repaired)
        repaired = &none;
    *repaired = 0;
    rowlock_status status = begin(&j, client, options, err);
    if (status == ROWLOCK_OK)
        status = repair_all(&j, given ? given : &nothing, repaired, err);
    end(&j, status);
    return status;
}
