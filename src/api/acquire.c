#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "api/options.h"
#include "base/name.h"
#include "engine/hold.h"
#include "engine/reentrant.h"
#include "kind/fence.h"
#include "kind/lease.h"
#include "kind/row.h"
#include "kind/transaction.h"
#include "rowlock/rowlock_mysql.h"

/* Every message about a lock names it. */
static rowlock_status named(const char *what, const char *name, rowlock_status status,
                            rowlock_error *err)
{
    char quoted[ROWLOCK_NAME_MAX * 4 + 3];
    if (status == ROWLOCK_OK || !err)
        return status;
    snprintf(quoted, sizeof quoted, "'%s'", name);
    if (!strstr(err->message, quoted))
        rl_error_prefix(err, "%s %s: ", what, quoted);
    return status;
}

/* ---------------------------------------------------------------------------- acquire */

static rowlock_status acquire_new(rowlock_client *client, const char *const names[], size_t count,
                                  const rowlock_acquire_options *options, rowlock_hold **out,
                                  rowlock_error *err)
{
    rl_budget budget = rl_budget_start(options->wait_ms, client->limit_ms, options->cancel);
    rowlock_hold *hold = NULL;
    rowlock_error spare;
    if (options->record_refused)
        err = rl_error_or(err, &spare);
    if (rl_budget_cancelled(&budget))
        return rl_fail(err, ROWLOCK_CANCELLED, "%s", rowlock_status_text(ROWLOCK_CANCELLED));
    RL_TRY(rl_hold_new(client, names, count, options, &hold, err));
    rowlock_status status = options->mode == ROWLOCK_PESSIMISTIC
                                ? rl_row_acquire(hold, &budget, err)
                                : rl_acquire(&rl_lease_driver, hold, options, &budget, err);
    bool refused =
        status == ROWLOCK_BUSY || status == ROWLOCK_TIMEOUT || status == ROWLOCK_CANCELLED;
    if (refused && options->record_refused)
        rl_hold_was_refused(hold, &budget, status, err->message);
    if (status == ROWLOCK_OK)
        *out = hold;
    else
        rl_hold_free(hold);
    return status;
}

static rowlock_status reenter(rowlock_hold *hold, rowlock_hold **out, rowlock_error *err)
{
    if (rl_hold_lost(hold)) {
        (void)rl_leave(hold);
        return rl_fail(err, ROWLOCK_LOST, "'%s' is held by this thread, and lost; release it first",
                       hold->locks[0].name);
    }
    *out = hold;
    return ROWLOCK_OK;
}

static rowlock_status check_call(const rowlock_client *client, rowlock_hold *const *hold,
                                 rowlock_error *err)
{
    RL_TRY(rl_client_check(client, err));
    return rl_place_check(hold, "the hold", err);
}

rowlock_status rowlock_acquire(rowlock_client *client, const char *name,
                               const rowlock_acquire_options *given, rowlock_hold **hold,
                               rowlock_error *err)
{
    rowlock_acquire_options options;
    RL_TRY(check_call(client, hold, err));
    RL_TRY(rl_name_check(name, err));
    RL_TRY(rl_options_acquire(given, &options, err));
    rowlock_hold *again = options.reentrant ? rl_reenter(client, name, options.mode) : NULL;
    if (again)
        return reenter(again, hold, err);
    return named("acquiring", name, acquire_new(client, &name, 1, &options, hold, err), err);
}

static rowlock_status check_set(const char *const names[], size_t count,
                                const rowlock_acquire_options *options, rowlock_error *err)
{
    if (!names || count < 1 || count > ROWLOCK_SET_MAX)
        return rl_fail(err, ROWLOCK_INVALID, "a set has 1 to %d names, not %zu", ROWLOCK_SET_MAX,
                       count);
    if (options->mode != ROWLOCK_PESSIMISTIC)
        return rl_fail(err, ROWLOCK_INVALID,
                       "a set is taken in one transaction: use ROWLOCK_PESSIMISTIC");
    if (options->reentrant)
        return rl_fail(err, ROWLOCK_INVALID, "a set cannot be re-entrant");
    for (size_t i = 0; i < count; i++)
        RL_TRY(rl_name_check(names[i], err));
    return ROWLOCK_OK;
}

rowlock_status rowlock_acquire_set(rowlock_client *client, const char *const names[], size_t count,
                                   const rowlock_acquire_options *given, rowlock_hold **hold,
                                   rowlock_error *err)
{
    rowlock_acquire_options options;
    RL_TRY(check_call(client, hold, err));
    RL_TRY(rl_options_acquire(given, &options, err));
    RL_TRY(check_set(names, count, &options, err));
    return named("acquiring the set of", names[0],
                 acquire_new(client, names, count, &options, hold, err), err);
}

/* ---------------------------------------------------------------------------- release */

static rowlock_status check_hold(const rowlock_hold *hold, rowlock_error *err)
{
    if (!hold)
        return rl_fail(err, ROWLOCK_INVALID, "no hold was given (NULL)");
    return rl_client_check(hold->client, err);
}

rowlock_status rowlock_release_with(rowlock_hold *hold, const rowlock_release_options *given,
                                    rowlock_error *err)
{
    rowlock_release_options options = given ? *given : (rowlock_release_options){0};
    RL_TRY(check_hold(hold, err));
    if (!rl_leave(hold))
        return ROWLOCK_OK;
    char note[256];
    rl_copy_label(note, sizeof note, options.note ? options.note : "");
    options.note = note;
    rl_hold_end(hold);
    rowlock_status status = hold->mode == ROWLOCK_PESSIMISTIC
                                ? rl_row_release(hold, &options, err)
                                : rl_release(&rl_lease_driver, hold, &options, err);
    status = named("releasing", hold->locks[0].name, status, err);
    rl_hold_free(hold);
    return status;
}

rowlock_status rowlock_release(rowlock_hold *hold, rowlock_error *err)
{
    return rowlock_release_with(hold, NULL, err);
}

/* ------------------------------------------------------------------------------- hold */

/* `none`: of no hold (NULL). */
#define RL_OF_HOLD(type, what, none)                                                               \
    type rowlock_hold_##what(const rowlock_hold *hold)                                             \
    {                                                                                              \
        return hold ? hold->what : (none);                                                         \
    }

RL_OF_HOLD(const char *, owner, NULL)
RL_OF_HOLD(rowlock_mode, mode, ROWLOCK_OPTIMISTIC)
RL_OF_HOLD(size_t, count, 0)
RL_OF_HOLD(unsigned, depth, 0)

int64_t rowlock_hold_waited_ms(const rowlock_hold *hold)
{
    return hold ? hold->waited_us / 1000 : 0;
}

uint64_t rowlock_hold_token(const rowlock_hold *hold)
{
    return rowlock_hold_token_at(hold, 0);
}

const char *rowlock_hold_name(const rowlock_hold *hold)
{
    return rowlock_hold_name_at(hold, 0);
}

const char *rowlock_hold_name_at(const rowlock_hold *hold, size_t i)
{
    return hold && i < hold->count ? hold->locks[i].name : NULL;
}

uint64_t rowlock_hold_token_at(const rowlock_hold *hold, size_t i)
{
    return hold && i < hold->count ? hold->locks[i].version : 0;
}

int64_t rowlock_hold_remaining_ms(const rowlock_hold *hold)
{
    if (!hold || rl_hold_lost(hold))
        return 0;
    int64_t left_us = atomic_load(&hold->held.deadline_us) - rl_now_us();
    return left_us > 0 ? left_us / 1000 : 0;
}

rowlock_status rowlock_hold_check(const rowlock_hold *hold)
{
    if (!hold)
        return ROWLOCK_INVALID;
    if (hold->client->pid != getpid())
        return ROWLOCK_FORKED;
    return rl_hold_lost(hold) ? ROWLOCK_LOST : ROWLOCK_OK;
}

/* Made when first asked for: most holds never need one. */
int rowlock_hold_fd(rowlock_hold *hold)
{
    if (!hold)
        return -1;
    int fd = atomic_load(&hold->held.event_fd);
    if (fd >= 0)
        return fd;
    int made = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (made < 0)
        return -1;
    if (!atomic_compare_exchange_strong(&hold->held.event_fd, &fd, made)) {
        close(made);
        return fd;
    }
    /* The keeper may have looked for it just before; or it has not seen yet that the time is over.
     */
    if (rl_hold_lost(hold))
        eventfd_write(made, 1);
    return made;
}

/* ------------------------------------------------------------------- the caller's own */

rowlock_status rowlock_tx_acquire(rowlock_client *client, MYSQL *mysql, const char *name,
                                  const rowlock_tx_options *options, rowlock_error *err)
{
    static const rowlock_tx_options defaults = {0};
    RL_TRY(rl_client_check(client, err));
    RL_TRY(rl_name_check(name, err));
    RL_TRY(rl_tx_check(mysql, true, err));
    return named("acquiring", name,
                 rl_tx_acquire(client, mysql, name, options ? options : &defaults, err), err);
}

rowlock_status rowlock_fence(rowlock_hold *hold, MYSQL *mysql, rowlock_error *err)
{
    RL_TRY(check_hold(hold, err));
    return named("fencing with", hold->locks[0].name, rl_fence(hold, mysql, err), err);
}

rowlock_status rowlock_present(rowlock_hold *hold, MYSQL *mysql, rowlock_error *err)
{
    RL_TRY(check_hold(hold, err));
    return named("presenting", hold->locks[0].name, rl_present(hold, mysql, err), err);
}
