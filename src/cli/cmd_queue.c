/* cli/cmd_queue.c - queue put, take, done, ...: the verbs, and which arguments each takes. See
 * queue.h. */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "queue.h"
#include "table.h"

typedef rowlock_status queue_verb(const queue_job *job, rowlock_client *client, rowlock_error *err);

static const char *operand(const queue_job *job, int i)
{
    return i < job->run.context.operand_count ? job->run.context.operands[i] : NULL;
}

/* ------------------------------------------------------------------------ verbs */

static rowlock_status put(const queue_job *job, rowlock_client *client, rowlock_error *err)
{
    return queue_put(job, client, operand(job, 2), err);
}

/* An ID or TOKEN among the operands, which were checked before. */
static uint64_t number_at(const queue_job *job, int i)
{
    uint64_t number = 0;
    (void)cli_number(operand(job, i), 1, UINT64_MAX, &number);
    return number;
}

/* Makes a handle of an item that another process took: the token proves that it was given to the
 * caller. */
static rowlock_status find_held(const queue_job *job, rowlock_client *client, rowlock_item **item,
                                rowlock_error *err)
{
    return rowlock_queue_held(client, job->run.name, number_at(job, 2), number_at(job, 3), item,
                              err);
}

static rowlock_status done(const queue_job *job, rowlock_client *client, rowlock_error *err)
{
    rowlock_item *item = NULL;
    rowlock_status status = find_held(job, client, &item, err);
    return status == ROWLOCK_OK ? rowlock_item_done(item, err) : status;
}

static rowlock_status retry(const queue_job *job, rowlock_client *client, rowlock_error *err)
{
    const rowlock_retry_options options = {.delay_ms = job->delay_ms, .reason = job->reason};
    rowlock_item *item = NULL;
    rowlock_status status = find_held(job, client, &item, err);
    return status == ROWLOCK_OK ? rowlock_item_retry(item, &options, err) : status;
}

static rowlock_status extend(const queue_job *job, rowlock_client *client, rowlock_error *err)
{
    rowlock_item *item = NULL;
    rowlock_status status = find_held(job, client, &item, err);
    if (status == ROWLOCK_OK)
        status = rowlock_item_extend(item, job->run.acquire.ttl_ms, err);
    rowlock_item_forget(item);
    return status;
}

static rowlock_status ls(const queue_job *job, rowlock_client *client, rowlock_error *err)
{
    const char *name = operand(job, 1);
    return job->items ? queue_list_items(job, client, name, false, err)
                      : queue_list(job, client, name, err);
}

static rowlock_status dead(const queue_job *job, rowlock_client *client, rowlock_error *err)
{
    return queue_list_items(job, client, job->run.name, true, err);
}

/* ------------------------------------------------- requeue, purge: [ID...] */

static void print_count(const queue_job *job, uint64_t count, const char *what)
{
    if (!job->run.context.json) {
        cli_line("%s: %" PRIu64 " item%s %s", job->run.name, count, count == 1 ? "" : "s", what);
        return;
    }
    json_object *object = cli_json_new();
    cli_json_text(object, "name", job->run.name);
    cli_json_count(object, "count", count);
    cli_json_print(object);
}

/*
 * Calls of_one for each ID, or once if none is given. After a failure the earlier changes stay, and
 * their count is printed.
 */
static rowlock_status each(const queue_job *job, rowlock_client *client,
                           rowlock_status (*of_one)(const queue_job *job, rowlock_client *client,
                                                    uint64_t id, uint64_t *count,
                                                    rowlock_error *err),
                           const char *what, rowlock_error *err)
{
    const int last = job->run.context.operand_count;
    uint64_t total = 0;
    rowlock_status status = ROWLOCK_OK;
    int i = 2;
    do {
        uint64_t count = 0;
        status = of_one(job, client, i < last ? number_at(job, i) : 0, &count, err);
        total += status == ROWLOCK_OK ? count : 0;
    } while (status == ROWLOCK_OK && ++i < last);
    if (status == ROWLOCK_OK || total > 0)
        print_count(job, total, what);
    return status;
}

static rowlock_status requeue_one(const queue_job *job, rowlock_client *client, uint64_t id,
                                  uint64_t *count, rowlock_error *err)
{
    return rowlock_queue_requeue(client, job->run.name, id, count, err);
}

static rowlock_status requeue(const queue_job *job, rowlock_client *client, rowlock_error *err)
{
    return each(job, client, requeue_one, "ready again", err);
}

static rowlock_status purge_one(const queue_job *job, rowlock_client *client, uint64_t id,
                                uint64_t *count, rowlock_error *err)
{
    const rowlock_queue_purge_options options = {
        .id = id, .all = job->all, .older_ms = job->older_ms};
    return rowlock_queue_purge(client, job->run.name, &options, count, err);
}

static rowlock_status purge(const queue_job *job, rowlock_client *client, rowlock_error *err)
{
    return each(job, client, purge_one, "deleted", err);
}

/* ---------------------------------------------------------------- which arguments */

typedef enum takes {
    TAKES_PUT = 1 << 0, /* --at, --key, ... */
    TAKES_DELAY = 1 << 1,
    TAKES_WAIT = 1 << 2,
    TAKES_TTL = 1 << 3,
    TAKES_WORK = 1 << 4, /* --workers, --batch, ... */
    TAKES_ITEMS = 1 << 5,
    TAKES_PURGE = 1 << 6,
    TAKES_REASON = 1 << 7,
    TAKES_JSON = 1 << 8
} takes;

typedef struct queue_action {
    const char *word;
    queue_verb *work; /* NULL: `work`, which runs workers */
    unsigned takes;
    int least, most; /* number of operands, with the verb */
    int numbers;     /* the operands from this one on are ids and tokens; 0: none is */
    const char *operands;
} queue_action;

static const queue_action actions[] = {
    {"put", put, TAKES_PUT | TAKES_DELAY | TAKES_JSON, 2, 3, 0, "the queue's NAME"},
    {"take", queue_take, TAKES_WAIT | TAKES_TTL | TAKES_JSON, 2, 2, 0, "the queue's NAME"},
    {"done", done, 0, 4, 4, 2, "NAME ID TOKEN"},
    {"retry", retry, TAKES_DELAY | TAKES_REASON, 4, 4, 2, "NAME ID TOKEN"},
    {"extend", extend, TAKES_TTL, 4, 4, 2, "NAME ID TOKEN"},
    {"work", NULL, TAKES_WORK | TAKES_TTL, 2, INT_MAX, 0, "the queue's NAME"},
    {"ls", ls, TAKES_ITEMS | TAKES_JSON, 1, 2, 0, "the queue's NAME"},
    {"dead", dead, TAKES_JSON, 2, 2, 0, "the queue's NAME"},
    {"requeue", requeue, TAKES_JSON, 2, INT_MAX, 2, "the queue's NAME"},
    {"purge", purge, TAKES_PURGE | TAKES_JSON, 2, INT_MAX, 2, "the queue's NAME"},
};

static bool find_action(queue_job *job)
{
    const char *word = operand(job, 0);
    for (size_t i = 0; i < sizeof actions / sizeof actions[0]; i++)
        if (strcmp(actions[i].word, word) == 0)
            job->action = &actions[i];
    return job->action ||
           !cli_usage("there is no 'queue %s'; put, take, done, retry, extend, work, ls, dead, "
                      "requeue or purge",
                      word);
}

static bool check_options(const queue_job *job)
{
    const run_options *how = &job->run;
    const struct {
        const char *name;
        takes takes;
        bool given;
    } given[] = {
        {"at", TAKES_PUT, job->at},
        {"key", TAKES_PUT, job->put.key},
        {"group", TAKES_PUT, job->put.group},
        {"priority", TAKES_PUT, job->put.priority > 0},
        {"attempts", TAKES_PUT, job->put.attempts > 0},
        {"lines", TAKES_PUT, job->lines},
        {"delay", TAKES_DELAY, job->delay_ms > 0},
        {"wait", TAKES_WAIT, job->wait_ms != 0},
        {"ttl", TAKES_TTL, how->acquire.ttl_ms > 0},
        {"workers", TAKES_WORK, job->workers > 0},
        {"batch", TAKES_WORK, job->batch > 0},
        {"dead-on", TAKES_WORK, job->dead_on > 0},
        {"label", TAKES_WORK, how->label},
        {"kill-after", TAKES_WORK, how->kill_after_ms >= 0},
        {"pass-password", TAKES_WORK, how->pass_password},
        {"items", TAKES_ITEMS, job->items},
        {"all", TAKES_PURGE, job->all},
        {"older", TAKES_PURGE, job->older_ms > 0},
        {"reason", TAKES_REASON, job->reason},
        {"json", TAKES_JSON, how->context.json},
    };
    for (size_t i = 0; i < sizeof given / sizeof given[0]; i++)
        if (given[i].given && !(job->action->takes & given[i].takes))
            return !cli_usage("queue %s takes no --%s", job->action->word, given[i].name);
    return true;
}

static bool check_numbers(const queue_job *job)
{
    uint64_t number;
    for (int i = job->action->numbers; i > 0 && i < job->run.context.operand_count; i++)
        if (!cli_number(operand(job, i), 1, UINT64_MAX, &number))
            return !cli_usage("'%s' is not %s of an item", operand(job, i),
                              i == 3 && job->action->most == 4 ? "the token" : "the id");
    return true;
}

static bool check_put(queue_job *job)
{
    const char *payload = operand(job, 2);
    job->put.delay_ms = job->delay_ms;
    if (job->at && job->delay_ms > 0)
        return !cli_usage("--delay and --at exclude each other");
    if (job->at && !cli_moment(job->at, &job->put.at_us))
        return !cli_usage(
            "--at wants a time such as 2026-11-25T02:00:00Z, '2026-11-25 02:00' (UTC) "
            "or @1764036000, not '%s'",
            job->at);
    if (job->lines && job->put.key)
        return !cli_usage("--key is for one item, and does not go with --lines");
    if (!job->lines && !payload)
        return !cli_usage("no PAYLOAD for '%s': '-' reads it from stdin, '' is an empty one",
                          job->run.name);
    return !job->lines || !payload || strcmp(payload, "-") == 0 ||
           !cli_usage("--lines reads stdin, and takes no PAYLOAD");
}

static bool check_purge(const queue_job *job)
{
    const bool ids = job->run.context.operand_count > 2;
    if (ids && (job->all || job->older_ms > 0))
        return !cli_usage("--all and --older do not go with an ID");
    return !(job->all && job->older_ms > 0) ||
           !cli_usage("--older is for dead items, and does not go with --all");
}

static bool check_work(queue_job *job)
{
    run_options *how = &job->run;
    if (job->workers == 0)
        job->workers = 1;
    if (job->batch == 0)
        job->batch = 1;
    if (how->kill_after_ms < 0)
        how->kill_after_ms = RUN_KILL_AFTER_MS;
    if (how->acquire.ttl_ms == 0)
        how->acquire.ttl_ms = ROWLOCK_TTL_DEFAULT_MS;
    return run_take_command(how, NULL, 2, "for each item of");
}

static bool check(void *into)
{
    queue_job *job = into;
    if (!find_action(job) || !check_options(job) ||
        !cli_operands(&job->run.context, job->action->least, job->action->most,
                      job->action->operands) ||
        !check_numbers(job))
        return false;
    job->run.name = operand(job, 1);
    if (job->items && !job->run.name)
        return !cli_usage("'queue ls --items' needs the queue's NAME");
    if (job->action->work == extend && job->run.acquire.ttl_ms == 0)
        job->run.acquire.ttl_ms = ROWLOCK_TTL_DEFAULT_MS;
    return job->action->work == put     ? check_put(job)
           : job->action->work == purge ? check_purge(job)
           : job->action->work          ? true
                                        : check_work(job);
}

static int run_action(void *into)
{
    queue_job *job = into;
    rowlock_error err;
    int exit_status;
    if (!job->action->work)
        return queue_pool_run(job);
    rowlock_client *client = cli_open(&job->run.context, &exit_status);
    if (!client)
        return exit_status;
    rowlock_status status = job->action->work(job, client, &err);
    rowlock_client_close(client);
    return status == ROWLOCK_OK ? 0 : cli_fail(&err);
}

#define AT(member) CLI_AT(queue_job, member)
static const cli_option options[] = {
    {0, "delay", CLI_GIVEN_DURATION, AT(delay_ms), .most = ROWLOCK_QUEUE_DELAY_MAX_MS,
     .wants = "is at most 3650d"},
    {0, "at", CLI_TEXT, AT(at)},
    {0, "key", CLI_TEXT, AT(put.key)},
    {0, "group", CLI_TEXT, AT(put.group)},
    {0, "priority", CLI_UNSIGNED, AT(put.priority), .most = ROWLOCK_PRIORITY_MAX},
    {0, "attempts", CLI_UNSIGNED, AT(put.attempts), .least = 1, .most = ROWLOCK_QUEUE_ATTEMPTS_MAX},
    {0, "lines", CLI_FLAG, AT(lines)},
    {'w', "wait", CLI_DURATION, AT(wait_ms), .word = "forever"},
    {'t', "ttl", CLI_DURATION, AT(run.acquire.ttl_ms), .least = ROWLOCK_TTL_MIN_MS,
     .most = ROWLOCK_TTL_MAX_MS, .wants = "is from 500ms to 24h"},
    {0, "reason", CLI_TEXT, AT(reason)},
    {0, "workers", CLI_UNSIGNED, AT(workers), .least = 1, .most = QUEUE_WORKERS_MAX},
    {0, "batch", CLI_UNSIGNED, AT(batch), .least = 1, .most = ROWLOCK_QUEUE_BATCH_MAX},
    {0, "dead-on", CLI_UNSIGNED, AT(dead_on), .least = 1, .most = 255},
    {0, "label", CLI_TEXT, AT(run.label)},
    {0, "kill-after", CLI_DURATION, AT(run.kill_after_ms), .most = ROWLOCK_TTL_MAX_MS,
     .wants = "is at most 24h"},
    {0, "pass-password", CLI_FLAG, AT(run.pass_password)},
    {0, "items", CLI_FLAG, AT(items)},
    {0, "all", CLI_FLAG, AT(all)},
    {0, "older", CLI_DURATION, AT(older_ms), .most = ROWLOCK_QUEUE_DELAY_MAX_MS,
     .wants = "is at most 3650d"},
    {0, "json", CLI_FLAG, AT(run.context.json)},
    {0},
};

const cli_command cli_queue = {
    .help = cli_help_queue,
    .options = options,
    .into = &(queue_job){.run = {.kill_after_ms = -1}},
    .least = 1,
    .most = INT_MAX,
    .operands = "put, take, done, retry, extend, work, ls, dead, requeue or purge",
    .check = check,
    .run = run_action,
};
