#include "rowlock/rowlock_quorum.h"

#include "admin/quorum.h"
#include "api/client.h"
#include "api/options.h"
#include "kind/quorum.h"

static const rowlock_quorum_options defaults = {0};

/* A client that does not mind whether its members are there. */
static rowlock_status begin(const rowlock_client_options *options,
                            const rowlock_quorum_options *quorum, rowlock_client **client,
                            rowlock_error *err)
{
    if (!options)
        return rl_fail(err, ROWLOCK_INVALID, "no options were given (NULL), so no members");
    if (quorum && quorum->cancel && atomic_load(&quorum->cancel->fired))
        return rl_fail(err, ROWLOCK_CANCELLED, "%s", rowlock_status_text(ROWLOCK_CANCELLED));
    return rl_client_of_members(options, client, err);
}

rowlock_status rowlock_quorum_init(const rowlock_client_options *options,
                                   const rowlock_quorum_options *quorum, rowlock_error *err)
{
    rowlock_client *client = NULL;
    const rowlock_quorum_options *given = quorum ? quorum : &defaults;
    const int64_t ms = given->ttl_most_ms ? given->ttl_most_ms : ROWLOCK_QUORUM_TTL_DEFAULT_MS;
    RL_TRY(rl_range_check("a longest TTL", ms, ROWLOCK_TTL_MIN_MS, ROWLOCK_QUORUM_TTL_MAX_MS, err));
    RL_TRY(begin(options, given, &client, err));
    rowlock_status status = rl_quorum_make(client, ms * 1000, err);
    rowlock_client_close(client);
    return status;
}

rowlock_status rowlock_quorum_rejoin(const rowlock_client_options *options, size_t member,
                                     const rowlock_quorum_options *quorum, rowlock_error *err)
{
    rowlock_client *client = NULL;
    RL_TRY(begin(options, quorum, &client, err));
    rowlock_status status = rl_quorum_rejoin(client, member, err);
    rowlock_client_close(client);
    return status;
}

rowlock_status rowlock_quorum_replace(const rowlock_client_options *options,
                                      const rowlock_quorum_options *quorum, rowlock_error *err)
{
    rowlock_client *client = NULL;
    RL_TRY(begin(options, quorum, &client, err));
    rowlock_status status = rl_quorum_replace(client, quorum ? quorum->cancel : NULL, err);
    rowlock_client_close(client);
    return status;
}

rowlock_status rowlock_quorum_get(const rowlock_client_options *options,
                                  const rowlock_quorum_options *quorum, rowlock_quorum **out,
                                  rowlock_error *err)
{
    rowlock_client *client = NULL;
    RL_TRY(rl_place_check(out, "the quorum", err));
    RL_TRY(begin(options, quorum, &client, err));
    rowlock_status status = rl_quorum_read(client, out, err);
    rowlock_client_close(client);
    return status;
}

size_t rowlock_quorum_count(const rowlock_quorum *quorum)
{
    return quorum ? quorum->count : 0;
}

const rowlock_member *rowlock_quorum_at(const rowlock_quorum *quorum, size_t i)
{
    return quorum && i < quorum->count ? &quorum->all[i].shown : NULL;
}

size_t rowlock_quorum_needed(const rowlock_quorum *quorum)
{
    return quorum ? quorum->needed : 0;
}

size_t rowlock_quorum_voting(const rowlock_quorum *quorum)
{
    return quorum ? quorum->voting : 0;
}

void rowlock_quorum_free(rowlock_quorum *quorum)
{
    rl_quorum_free(quorum);
}

size_t rowlock_hold_members(const rowlock_hold *hold)
{
    return rowlock_hold_check(hold) == ROWLOCK_OK ? rl_quorum_votes(hold) : 0;
}
