#include <inttypes.h>

#include "admin/admin.h"
#include "admin/quorum.h"
#include "api/options.h"
#include "base/name.h"
#include "base/text.h"
#include "engine/hold.h"
#include "kind/slots.h"
#include "migrate/migrate.h"
#include "rowlock/rowlock_quorum.h"

#define SWEEP_MOST_MS        (INT64_MAX / 2000)
#define EVERY_DEFAULT_MS     60000
#define GRACE_DEFAULT_MS     60000
#define GRACE_MOST_MS        86400000
#define EVERY_MOST_MS        86400000
#define FREEZE_MOST_MS       INT64_C(315360000000)       /* 10 years */
#define FREEZE_UNTIL_MOST_US INT64_C(253402300799000000) /* the year 9999 */
#define IDENTIFIER_MAX       64                          /* characters; both flavours */

static rowlock_status check_sweep(const rowlock_sweep_options *options, rowlock_error *err)
{
    if (options->history_ms > SWEEP_MOST_MS || options->unused_ms > SWEEP_MOST_MS ||
        options->dead_items_ms > SWEEP_MOST_MS)
        return rl_fail(err, ROWLOCK_INVALID, "the age to sweep at is too large");
    return ROWLOCK_OK;
}

/* No procedure deletes anything: neither the history, nor names that others use. */
static rowlock_status check_rights(const rowlock_client *client, const char *what,
                                   const char *instead, rowlock_error *err)
{
    if (!rl_client_via(client))
        return ROWLOCK_OK;
    return rl_fail(err, ROWLOCK_DENIED,
                   "%s takes rights on rowlock's tables, those of `sweeper` in sql/grants.sql "
                   "(share/rowlock/grants.sql): do it as such a user, without via=procedures%s",
                   what, instead);
}

rowlock_status rowlock_sweep(rowlock_client *client, const rowlock_sweep_options *given,
                             rowlock_sweep_result *result, rowlock_error *err)
{
    const rowlock_sweep_options options = given ? *given : (rowlock_sweep_options){0};
    RL_TRY(rl_client_check(client, err));
    RL_TRY(check_sweep(&options, err));
    RL_TRY(check_rights(client, "sweeping", ", or let `rowlock init --event` do it in the server",
                        err));
    /* Whatever it was doing, the next sweep does it again. */
    return rl_no_effect(rl_sweep(client, &options, result, err), err);
}

rowlock_status rowlock_break_with(rowlock_client *client, const char *name,
                                  const rowlock_break_options *given, rowlock_error *err)
{
    rowlock_break_options options = given ? *given : (rowlock_break_options){0};
    RL_TRY(rl_client_check_any(client, err));
    RL_TRY(rl_name_check(name, err));
    char text[256];
    rl_copy_label(text, sizeof text, options.reason ? options.reason : "");
    options.reason = *text ? text : NULL;
    rowlock_status status = client->quorum ? rl_quorum_break(client, name, &options, err)
                                           : rl_break(client, name, &options, err);
    if (status == ROWLOCK_DENIED)
        rl_error_prefix(err, "breaking '%s': ", name);
    return status;
}

rowlock_status rowlock_break(rowlock_client *client, const char *name, const char *reason,
                             rowlock_error *err)
{
    const rowlock_break_options options = {.reason = reason};
    return rowlock_break_with(client, name, &options, err);
}

rowlock_status rowlock_ask(rowlock_client *client, const char *name,
                           const rowlock_ask_options *given, rowlock_error *err)
{
    rowlock_ask_options options = given ? *given : (rowlock_ask_options){0};
    RL_TRY(rl_client_check(client, err));
    RL_TRY(rl_name_check(name, err));
    if (options.grace_ms == 0)
        options.grace_ms = GRACE_DEFAULT_MS;
    RL_TRY(rl_range_check("a grace", options.grace_ms, 1, GRACE_MOST_MS, err));
    char text[RL_LABEL_IN_DETAIL];
    rl_copy_label(text, sizeof text, options.reason ? options.reason : "");
    options.reason = text;
    rowlock_status status = rl_ask_to_stop(client, name, &options, err);
    if (status == ROWLOCK_DENIED)
        rl_error_prefix(err, "asking for '%s': ", name);
    return status;
}

rowlock_status rowlock_purge(rowlock_client *client, const char *name, rowlock_error *err)
{
    RL_TRY(rl_client_check(client, err));
    RL_TRY(rl_name_check(name, err));
    RL_TRY(check_rights(client, "purging a name", "", err));
    return rl_purge(client, name, err);
}

rowlock_status rowlock_slots_get(rowlock_client *client, const char *name, unsigned *slots,
                                 rowlock_error *err)
{
    RL_TRY(rl_client_check(client, err));
    RL_TRY(rl_name_check(name, err));
    RL_TRY(rl_place_check(slots, "the number", err));
    rl_budget budget = rl_budget_start(0, client->limit_ms, NULL);
    uint64_t id = 0;
    unsigned found = 0;
    RL_TRY(rl_slots_count(client, &budget, name, &id, &found, err));
    *slots = found;
    return ROWLOCK_OK;
}

rowlock_status rowlock_slots_set(rowlock_client *client, const char *name, unsigned slots,
                                 rowlock_error *err)
{
    RL_TRY(rl_client_check(client, err));
    RL_TRY(rl_name_check(name, err));
    if (slots < 1 || slots > ROWLOCK_SLOTS_MAX)
        return rl_fail(err, ROWLOCK_INVALID, "%u slots are not 1 to %d", slots, ROWLOCK_SLOTS_MAX);
    RL_TRY(check_rights(client, "changing the number of slots", "", err));
    rl_budget budget = rl_budget_start(0, client->limit_ms, NULL);
    return rl_no_effect(rl_slots_set(client, &budget, name, slots, err), err);
}

/* The server refuses what else may not be in an identifier. */
static rowlock_status check_identifier(const char *what, const char *text, rowlock_error *err)
{
    if (!text || !*text)
        return rl_fail(err, ROWLOCK_INVALID, "no %s was given", what);
    size_t count = 0;
    unsigned c = 0;
    for (size_t length; *text; text += length, count++) {
        length = rl_utf8_decode(text, &c);
        if (length == 0 || length > 3)
            return rl_fail(err, ROWLOCK_INVALID,
                           "the %s's name has what no identifier may have (character %zu)", what,
                           count + 1);
    }
    if (count > IDENTIFIER_MAX)
        return rl_fail(err, ROWLOCK_INVALID, "the %s's name is longer than %d characters", what,
                       IDENTIFIER_MAX);
    return ROWLOCK_OK;
}

static rowlock_status check_table(const rowlock_client *client, const char *table_schema,
                                  const char *table_name, rowlock_error *err)
{
    RL_TRY(rl_client_check(client, err));
    if (table_schema)
        RL_TRY(check_identifier("schema", table_schema, err));
    return check_identifier("table", table_name, err);
}

rowlock_status rowlock_fence_install(rowlock_client *client, const char *table_schema,
                                     const char *table_name, const char *name, rowlock_error *err)
{
    RL_TRY(check_table(client, table_schema, table_name, err));
    RL_TRY(rl_name_check(name, err));
    return rl_fence_install(client, table_schema ? table_schema : client->schema, table_name, name,
                            err);
}

rowlock_status rowlock_fence_remove(rowlock_client *client, const char *table_schema,
                                    const char *table_name, rowlock_error *err)
{
    RL_TRY(check_table(client, table_schema, table_name, err));
    return rl_fence_remove(client, table_schema ? table_schema : client->schema, table_name, err);
}

/* Of a connection that makes rowlock's tables and procedures: not through the procedures, which may
 * not be there yet. */
static rowlock_status maker_params(const rowlock_client_options *options, rl_params *params,
                                   rowlock_error *err)
{
    rowlock_waiting waiting;
    RL_TRY(rl_options_params(options, params, &waiting, err));
    params->via = false;
    return ROWLOCK_OK;
}

rowlock_status rowlock_migrate(const rowlock_client_options *client_options,
                               const rowlock_migrate_options *given, rowlock_migrate_result *result,
                               rowlock_error *err)
{
    const rowlock_migrate_options options = given ? *given : (rowlock_migrate_options){0};
    RL_CLEANUP(rl_params_free) rl_params params = {0};
    char label[ROWLOCK_LABEL_MAX + 1];
    RL_TRY(maker_params(client_options, &params, err));
    rl_options_label(client_options ? client_options->label : NULL, label, sizeof label);
    return rl_migrate(&params, &options, label, result, err);
}

static rowlock_status with_procedures(const rowlock_client_options *client_options,
                                      const rowlock_procedures_options *given, bool install,
                                      rowlock_procedures_result *result, rowlock_error *err)
{
    const rowlock_procedures_options options = given ? *given : (rowlock_procedures_options){0};
    RL_CLEANUP(rl_params_free) rl_params params = {0};
    RL_TRY(maker_params(client_options, &params, err));
    return rl_no_effect(rl_procedures_change(&params, &options, install, result, err), err);
}

rowlock_status rowlock_procedures_install(const rowlock_client_options *client_options,
                                          const rowlock_procedures_options *options,
                                          rowlock_procedures_result *result, rowlock_error *err)
{
    return with_procedures(client_options, options, true, result, err);
}

rowlock_status rowlock_procedures_remove(const rowlock_client_options *client_options,
                                         const rowlock_procedures_options *options,
                                         rowlock_procedures_result *result, rowlock_error *err)
{
    return with_procedures(client_options, options, false, result, err);
}

static rowlock_status make_plan(const rowlock_sweep_event_options *options, rl_event_plan *plan,
                                rowlock_error *err)
{
    int64_t every_ms = options->every_ms ? options->every_ms : EVERY_DEFAULT_MS;
    rowlock_sweep_options sweep = options->sweep;
    if (every_ms < 1000 || every_ms > EVERY_MOST_MS || every_ms % 1000 != 0)
        return rl_fail(err, ROWLOCK_INVALID,
                       "an event runs every 1 to 86400 seconds, whole ones; not every %" PRId64
                       " ms",
                       every_ms);
    rl_sweep_fill_in(&sweep);
    *plan = (rl_event_plan){
        .every_s = (uint64_t)every_ms / 1000,
        .history_us = sweep.history_ms > 0 ? (uint64_t)sweep.history_ms * 1000 : 0,
        .history_rows = sweep.history_rows,
        .unused_us = sweep.unused_ms > 0 ? (uint64_t)sweep.unused_ms * 1000 : 0,
    };
    return check_sweep(&sweep, err);
}

static rowlock_status with_event(const rowlock_client_options *client_options,
                                 const rl_event_plan *plan, int64_t wait_ms,
                                 rowlock_sweep_event_result *result, rowlock_error *err)
{
    RL_CLEANUP(rl_params_free) rl_params params = {0};
    RL_TRY(maker_params(client_options, &params, err));
    return rl_no_effect(rl_event_change(&params, plan, wait_ms, result, err), err);
}

rowlock_status rowlock_sweep_event_install(const rowlock_client_options *client_options,
                                           const rowlock_sweep_event_options *given,
                                           rowlock_sweep_event_result *result, rowlock_error *err)
{
    const rowlock_sweep_event_options options = given ? *given : (rowlock_sweep_event_options){0};
    rl_event_plan plan;
    RL_TRY(make_plan(&options, &plan, err));
    return with_event(client_options, &plan, options.wait_ms, result, err);
}

rowlock_status rowlock_sweep_event_remove(const rowlock_client_options *client_options,
                                          const rowlock_sweep_event_options *options,
                                          rowlock_sweep_event_result *result, rowlock_error *err)
{
    return with_event(client_options, NULL, options ? options->wait_ms : 0, result, err);
}

rowlock_status rowlock_diagnose(const rowlock_client_options *options, int64_t ttl_ms,
                                rowlock_finding_fn fn, void *data, rowlock_error *err)
{
    const rowlock_diagnose_options how = {.ttl_ms = ttl_ms};
    return rowlock_diagnose_with(options, &how, fn, data, err);
}

/* Each with the options of all, and its own URL. */
static rowlock_status member_params(const rowlock_client_options *options,
                                    rl_params params[ROWLOCK_MEMBERS_MAX], rl_wants *wants,
                                    rowlock_error *err)
{
    rowlock_waiting waiting = ROWLOCK_WAITING_AUTO;
    rowlock_client_options one = *options;
    if (options->member_count > ROWLOCK_MEMBERS_MAX)
        return rl_fail(err, ROWLOCK_INVALID, "a quorum has at most %d members",
                       ROWLOCK_MEMBERS_MAX);
    one.members = NULL;
    one.member_count = 0;
    one.require_all = false;
    for (size_t i = 0; i < options->member_count; i++) {
        one.url = options->members[i];
        RL_TRY(rl_options_params(&one, &params[i], &waiting, err));
        wants->polls = waiting == ROWLOCK_WAITING_POLL;
    }
    return ROWLOCK_OK;
}

static rowlock_status diagnose_members(const rowlock_client_options *options, rl_wants *wants,
                                       rowlock_finding_fn fn, void *data, rowlock_error *err)
{
    rl_params params[ROWLOCK_MEMBERS_MAX] = {0};
    rowlock_status status = member_params(options, params, wants, err);
    if (status == ROWLOCK_OK)
        status = rl_no_effect(
            rl_diagnose_members(params, options->member_count, wants, fn, data, err), err);
    for (size_t i = 0; i < ROWLOCK_MEMBERS_MAX; i++)
        rl_params_free(&params[i]);
    return status;
}

rowlock_status rowlock_diagnose_with(const rowlock_client_options *options,
                                     const rowlock_diagnose_options *given, rowlock_finding_fn fn,
                                     void *data, rowlock_error *err)
{
    const rowlock_diagnose_options how = given ? *given : (rowlock_diagnose_options){0};
    const int64_t ttl_ms = how.ttl_ms ? how.ttl_ms : ROWLOCK_TTL_DEFAULT_MS;
    rl_wants wants = {.ttl_ms = ttl_ms,
                      .single_writer = options && options->single_writer,
                      .role = how.role,
                      .rights_only = how.rights_only};
    if (!fn)
        return rl_fail(err, ROWLOCK_INVALID, "no function for the findings was given (NULL)");
    RL_TRY(rl_range_check("a TTL", ttl_ms, ROWLOCK_TTL_MIN_MS, ROWLOCK_TTL_MAX_MS, err));
    if (options && options->member_count > 0)
        return diagnose_members(options, &wants, fn, data, err);
    RL_CLEANUP(rl_params_free) rl_params params = {0};
    rowlock_waiting waiting;
    RL_TRY(rl_options_params(options, &params, &waiting, err));
    wants.polls = waiting == ROWLOCK_WAITING_POLL;
    return rl_no_effect(rl_diagnose(&params, &wants, fn, data, err), err);
}

/* ---------------------------------------------------------------------------- restored */

rowlock_status rowlock_restored(rowlock_client *client, rowlock_restored_result *result,
                                rowlock_error *err)
{
    rowlock_restored_result spare;
    RL_TRY(rl_client_check(client, err));
    if (rl_client_via(client))
        return rl_fail(err, ROWLOCK_DENIED,
                       "this takes rights on the tables, as `admin` in sql/grants.sql has them");
    return rl_restored(client, result ? result : &spare, err);
}

/* ----------------------------------------------------------------------------- freezes */

static rowlock_status check_freeze(const rowlock_client *client,
                                   const rowlock_freeze_options *given,
                                   rowlock_freeze_options *options, rowlock_error *err)
{
    RL_TRY(rl_client_check(client, err));
    *options = given ? *given : (rowlock_freeze_options){0};
    if (!options->name == !options->prefix)
        return rl_fail(err, ROWLOCK_INVALID,
                       "a freeze is of a name or of a prefix: one of the two is given");
    if (options->name)
        RL_TRY(rl_name_check(options->name, err));
    else if (*options->prefix)
        RL_TRY(rl_prefix_check(options->prefix, err));
    RL_TRY(rl_range_check("for_ms", options->for_ms, 0, FREEZE_MOST_MS, err));
    RL_TRY(rl_range_check("until_us", options->until_us, 0, FREEZE_UNTIL_MOST_US, err));
    if (options->for_ms && options->until_us)
        return rl_fail(err, ROWLOCK_INVALID, "a freeze has for_ms or until_us, not both");
    if (rl_client_via(client))
        return rl_fail(err, ROWLOCK_DENIED,
                       "freezing takes rights on the tables, as `batch` in sql/grants.sql has "
                       "them; through procedures: CALL rowlock_freeze");
    return ROWLOCK_OK;
}

rowlock_status rowlock_freeze(rowlock_client *client, const rowlock_freeze_options *given,
                              rowlock_freeze_result *result, rowlock_error *err)
{
    rowlock_freeze_options options;
    rowlock_freeze_result spare;
    char text[RL_LABEL_IN_DETAIL];
    RL_TRY(check_freeze(client, given, &options, err));
    rl_copy_label(text, sizeof text, options.reason ? options.reason : "");
    options.reason = text;
    return rl_freeze(client, &options, result ? result : &spare, err);
}

rowlock_status rowlock_thaw(rowlock_client *client, const rowlock_freeze_options *given,
                            rowlock_error *err)
{
    rowlock_freeze_options options;
    RL_TRY(check_freeze(client, given, &options, err));
    options.reason = "";
    return rl_thaw(client, &options, err);
}
