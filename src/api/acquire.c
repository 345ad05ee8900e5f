#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "api/options.h"
#include "base/name.h"
#include "engine/hold.h"
#include "engine/reentrant.h"
#include "kind/fence.h"
#include "kind/guard.h"
#include "kind/leader.h"
#include "kind/lease.h"
#include "kind/parts.h"
#include "kind/quorum.h"
#include "kind/row.h"
#include "kind/set.h"
#include "kind/shared.h"
#include "kind/slots.h"
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

static rowlock_status acquire_hold(rowlock_hold *hold, const rowlock_acquire_options *options,
                                   const rl_budget *budget, rowlock_error *err)
{
    if (hold->client->quorum)
        return rl_quorum_acquire(hold, options, budget, err);
    if (options->slots)
        return rl_slots_acquire(hold, options, budget, err);
    if (options->mode == ROWLOCK_PESSIMISTIC)
        return rl_row_acquire(hold, budget, err);
    if (hold->count > 1)
        return rl_set_acquire(hold, options, budget, err);
    return rl_acquire(rl_lease_driver_of(hold), hold, options, budget, err);
}

static rowlock_status release_hold(rowlock_hold *hold, const rowlock_release_options *options,
                                   rowlock_error *err);

/* The acquire returns only once the value is published; where it cannot be, the lease is given
 * back. */
static rowlock_status publish_value(rowlock_hold *hold, const rowlock_acquire_options *options,
                                    rowlock_error *err)
{
    if (!options->value || !*options->value)
        return ROWLOCK_OK;
    rowlock_status status = rl_leader_publish(hold, options->value, options->cancel, err);
    if (status == ROWLOCK_OK)
        return ROWLOCK_OK;
    hold->at_least_us = 0;
    rl_hold_no_work(hold);
    rowlock_status released = release_hold(hold, &(rowlock_release_options){.note = ""}, NULL);
    if (released != ROWLOCK_OK && released != ROWLOCK_LOST)
        return rl_fail(err, ROWLOCK_UNKNOWN,
                       "its value could not be published, nor its lease be released: the name may "
                       "stay taken, though no program holds it, for up to %" PRId64 " ms",
                       hold->held.ttl_us / 1000);
    if (status != ROWLOCK_UNKNOWN)
        return status;
    return rl_fail(err, ROWLOCK_UNAVAILABLE,
                   "'%s' was given back: it is not known whether its value was published",
                   hold->locks[0].name);
}

static rowlock_status is_frozen(const rowlock_hold *hold, rowlock_error *err)
{
    return rl_fail(err, ROWLOCK_FROZEN,
                   "'%s'%s is frozen: nobody gets it before it is thawed (`rowlock freeze` says "
                   "why, and until when)",
                   hold->locks[0].name, hold->count > 1 ? " (or another name of the set)" : "");
}

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
    rowlock_status status = acquire_hold(hold, options, &budget, err);
    if (status == ROWLOCK_OK)
        status = publish_value(hold, options, err);
    if (hold->frozen && (status == ROWLOCK_BUSY || status == ROWLOCK_TIMEOUT))
        status = is_frozen(hold, err);
    bool refused = status == ROWLOCK_BUSY || status == ROWLOCK_TIMEOUT ||
                   status == ROWLOCK_CANCELLED || status == ROWLOCK_FROZEN;
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
    RL_TRY(rl_client_check_any(client, err));
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
    if (client->quorum)
        RL_TRY(rl_quorum_check(client, &options, !given || given->ttl_ms == 0, err));
    rowlock_hold *again =
        options.reentrant ? rl_reenter(client, name, options.mode, options.shared) : NULL;
    if (again)
        return reenter(again, hold, err);
    return named("acquiring", name, acquire_new(client, &name, 1, &options, hold, err), err);
}

rowlock_status rowlock_acquire_shared(rowlock_client *client, const char *name,
                                      const rowlock_acquire_options *given, rowlock_hold **hold,
                                      rowlock_error *err)
{
    rowlock_acquire_options options = given ? *given : (rowlock_acquire_options){0};
    options.shared = true;
    return rowlock_acquire(client, name, &options, hold, err);
}

static rowlock_status check_names(const char *const names[], size_t count, rowlock_error *err)
{
    if (!names || count < 1 || count > ROWLOCK_SET_MAX)
        return rl_fail(err, ROWLOCK_INVALID, "a set has 1 to %d names, not %zu", ROWLOCK_SET_MAX,
                       count);
    for (size_t i = 0; i < count; i++)
        RL_TRY(rl_name_check(names[i], err));
    return ROWLOCK_OK;
}

static bool is_any(const bool flags[], size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (flags[i])
            return true;
    return false;
}

rowlock_status rowlock_acquire_set(rowlock_client *client, const char *const names[], size_t count,
                                   const rowlock_acquire_options *given, rowlock_hold **hold,
                                   rowlock_error *err)
{
    rowlock_acquire_options asked = given ? *given : (rowlock_acquire_options){0};
    rowlock_acquire_options options;
    RL_TRY(check_call(client, hold, err));
    RL_TRY(rl_client_check(client, err));
    RL_TRY(check_names(names, count, err));
    if (asked.share && !is_any(asked.share, count))
        asked.share = NULL;
    RL_TRY(rl_options_acquire(&asked, &options, err));
    const bool has_value = options.value && *options.value;
    if (options.reentrant || options.slots || has_value)
        return rl_fail(err, ROWLOCK_INVALID, "a set %s",
                       options.slots ? "has no slots"
                       : has_value   ? "has no value"
                                     : "cannot be re-entrant");
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

static rowlock_status release_hold(rowlock_hold *hold, const rowlock_release_options *options,
                                   rowlock_error *err)
{
    if (hold->parts)
        return rl_parts_release(hold, options, err);
    rl_hold_end(hold);
    if (hold->grant)
        return rl_quorum_release(hold, options, err);
    if (hold->mode == ROWLOCK_PESSIMISTIC)
        return rl_row_release(hold, options, err);
    return rl_release(rl_lease_driver_of(hold), hold, RL_NOT_TRIED, options, err);
}

rowlock_status rowlock_release_with(rowlock_hold *hold, const rowlock_release_options *given,
                                    rowlock_error *err)
{
    rowlock_release_options options = given ? *given : (rowlock_release_options){0};
    if (!hold)
        return check_hold(hold, err);
    RL_TRY(rl_client_check_any(hold->client, err));
    if (!rl_leave(hold))
        return ROWLOCK_OK;
    char note[256];
    rl_copy_label(note, sizeof note, options.note ? options.note : "");
    options.note = note;
    hold->keep_sessions = options.keep_sessions;
    rowlock_status status = release_hold(hold, &options, err);
    status = named("releasing", hold->locks[0].name, status, err);
    rl_hold_free(hold);
    return status;
}

rowlock_status rowlock_release(rowlock_hold *hold, rowlock_error *err)
{
    return rowlock_release_with(hold, NULL, err);
}

/* A row lock cannot: two that try it wait for each other in the server. */
static rowlock_status check_change(const rowlock_hold *hold, bool shared, rowlock_error *err)
{
    RL_TRY(check_hold(hold, err));
    const char *name = hold->locks[0].name;
    if (hold->mode != ROWLOCK_OPTIMISTIC)
        return rl_fail(err, ROWLOCK_UNSUPPORTED, "'%s' is a row lock; release it, and take it anew",
                       name);
    if (hold->shared != shared || hold->depth > 1 || hold->parts || hold->member != RL_NO_MEMBER)
        return rl_fail(err, ROWLOCK_INVALID, "'%s' is %s", name,
                       hold->member      ? "a latch or a barrier"
                       : hold->parts     ? "one of a set, or has slots"
                       : hold->depth > 1 ? "held more than once by this thread"
                       : shared          ? "held alone already"
                                         : "shared already");
    if (rl_hold_lost(hold))
        return rl_fail(err, ROWLOCK_LOST, "'%s' is no longer held", name);
    return ROWLOCK_OK;
}

rowlock_status rowlock_hold_upgrade(rowlock_hold *hold, int64_t wait_ms, rowlock_cancel *cancel,
                                    rowlock_error *err)
{
    RL_TRY(check_change(hold, true, err));
    rl_budget budget = rl_budget_start(wait_ms, hold->client->limit_ms, cancel);
    return named("upgrading", hold->locks[0].name, rl_shared_upgrade(hold, &budget, err), err);
}

rowlock_status rowlock_hold_downgrade(rowlock_hold *hold, rowlock_error *err)
{
    RL_TRY(check_change(hold, false, err));
    return named("downgrading", hold->locks[0].name, rl_shared_downgrade(hold, err), err);
}

/* ------------------------------------------------------------------------------- hold */

/* `none`: of no hold (NULL). */
#define RL_OF_HOLD(type, what, none)                                                               \
    type rowlock_hold_##what(const rowlock_hold *hold)                                             \
    {                                                                                              \
        return hold ? hold->what : (none);                                                         \
    }

RL_OF_HOLD(rowlock_mode, mode, ROWLOCK_OPTIMISTIC)
RL_OF_HOLD(unsigned, depth, 0)

int64_t rowlock_hold_waited_ms(const rowlock_hold *hold)
{
    return hold ? hold->waited_us / 1000 : 0;
}

uint64_t rowlock_hold_token(const rowlock_hold *hold)
{
    return rowlock_hold_token_at(hold, 0);
}

const char *rowlock_hold_owner(const rowlock_hold *hold)
{
    if (!hold)
        return NULL;
    return hold->parts ? hold->parts->list[0]->owner : hold->owner;
}

const char *rowlock_hold_name(const rowlock_hold *hold)
{
    return hold ? hold->locks[0].name : NULL;
}

size_t rowlock_hold_count(const rowlock_hold *hold)
{
    if (!hold)
        return 0;
    return hold->parts ? hold->parts->count : hold->count;
}

static const rl_lock *lock_at(const rowlock_hold *hold, size_t i)
{
    if (i >= rowlock_hold_count(hold))
        return NULL;
    return hold->parts ? &hold->parts->list[i]->locks[0] : &hold->locks[i];
}

const char *rowlock_hold_name_at(const rowlock_hold *hold, size_t i)
{
    const rl_lock *lock = lock_at(hold, i);
    return lock ? lock->name : NULL;
}

uint64_t rowlock_hold_token_at(const rowlock_hold *hold, size_t i)
{
    const rl_lock *lock = lock_at(hold, i);
    return lock ? lock->version : 0;
}

unsigned rowlock_hold_slot(const rowlock_hold *hold)
{
    return rowlock_hold_slot_at(hold, 0);
}

unsigned rowlock_hold_slot_at(const rowlock_hold *hold, size_t i)
{
    const bool has_slots = hold && (hold->slots || hold->member == RL_BARRIER_MEMBER);
    if (!has_slots || i >= hold->parts->count)
        return ROWLOCK_NO_SLOT;
    return hold->parts->list[i]->locks[0].slot;
}

/* Of what is held as one, the first deadline counts. */
static int64_t deadline_of(const rowlock_hold *hold)
{
    int64_t first = RL_NEVER;
    if (!hold->parts)
        return atomic_load(&hold->held.deadline_us);
    for (size_t i = 0; i < hold->parts->count; i++)
        first = rl_earlier(first, atomic_load(&hold->parts->list[i]->held.deadline_us));
    return first;
}

int64_t rowlock_hold_remaining_ms(const rowlock_hold *hold)
{
    if (!hold || rl_hold_lost(hold))
        return 0;
    int64_t left_us = deadline_of(hold) - rl_now_us();
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
    /* The keeper writes to it for whichever is lost. */
    for (size_t i = 0; hold->parts && i < hold->parts->count; i++)
        atomic_store(&hold->parts->list[i]->held.event_fd, made);
    /* The keeper may have looked for it just before; or it has not seen yet that the time is over.
     */
    if (rl_hold_lost(hold))
        eventfd_write(made, 1);
    return made;
}

bool rowlock_hold_asked(rowlock_hold *hold, rowlock_asked *asked)
{
    return hold && hold->client->pid == getpid() && rl_hold_asked(hold, asked);
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

typedef rowlock_status (*with_caller)(rowlock_hold *hold, MYSQL *mysql, rowlock_error *err);

/* Of what is held as one, each. */
static rowlock_status each_part(const char *what, with_caller call, rowlock_hold *hold,
                                MYSQL *mysql, rowlock_error *err)
{
    for (size_t i = 0; hold->parts && i < hold->parts->count; i++)
        RL_TRY(each_part(what, call, hold->parts->list[i], mysql, err));
    return hold->parts ? ROWLOCK_OK : named(what, hold->locks[0].name, call(hold, mysql, err), err);
}

rowlock_status rowlock_fence(rowlock_hold *hold, MYSQL *mysql, rowlock_error *err)
{
    RL_TRY(check_hold(hold, err));
    return each_part("fencing with", rl_fence, hold, mysql, err);
}

rowlock_status rowlock_present(rowlock_hold *hold, MYSQL *mysql, rowlock_error *err)
{
    RL_TRY(check_hold(hold, err));
    return each_part("presenting", rl_present, hold, mysql, err);
}

rowlock_status rowlock_hold_init_command(rowlock_hold *hold,
                                         char text[ROWLOCK_INIT_COMMAND_MAX + 1],
                                         rowlock_error *err)
{
    RL_TRY(check_hold(hold, err));
    if (!text)
        return rl_fail(err, ROWLOCK_INVALID, "there is no place for the statement (NULL)");
    return rl_guard_command(hold, text, err);
}

rowlock_status rowlock_hold_guard(rowlock_hold *hold, MYSQL *mysql, rowlock_error *err)
{
    RL_TRY(check_hold(hold, err));
    /* With all of a set, or with none. */
    for (size_t i = 0; hold->parts && i < hold->parts->count; i++)
        RL_TRY(rl_guard_check(hold->parts->list[i], err));
    return each_part("registering a connection with", rl_guard_add, hold, mysql, err);
}
