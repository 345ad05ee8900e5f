#include "rowlock/rowlock_quorum.h"

#include "api/options.h"

static rowlock_status not_yet(rowlock_error *err)
{
    return rl_fail(err, ROWLOCK_UNSUPPORTED, "quorums are not there yet");
}

rowlock_status rowlock_quorum_init(const rowlock_client_options *options,
                                   const rowlock_quorum_options *quorum, rowlock_error *err)
{
    (void)options;
    (void)quorum;
    return not_yet(err);
}

rowlock_status rowlock_quorum_rejoin(const rowlock_client_options *options, size_t member,
                                     const rowlock_quorum_options *quorum, rowlock_error *err)
{
    (void)options;
    (void)member;
    (void)quorum;
    return not_yet(err);
}

rowlock_status rowlock_quorum_replace(const rowlock_client_options *options,
                                      const rowlock_quorum_options *quorum, rowlock_error *err)
{
    (void)options;
    (void)quorum;
    return not_yet(err);
}

rowlock_status rowlock_quorum_get(const rowlock_client_options *options,
                                  const rowlock_quorum_options *quorum, rowlock_quorum **out,
                                  rowlock_error *err)
{
    (void)options;
    (void)quorum;
    (void)out;
    return not_yet(err);
}

size_t rowlock_quorum_count(const rowlock_quorum *quorum)
{
    (void)quorum;
    return 0;
}

const rowlock_member *rowlock_quorum_at(const rowlock_quorum *quorum, size_t i)
{
    (void)quorum;
    (void)i;
    return NULL;
}

size_t rowlock_quorum_needed(const rowlock_quorum *quorum)
{
    (void)quorum;
    return 0;
}

size_t rowlock_quorum_voting(const rowlock_quorum *quorum)
{
    (void)quorum;
    return 0;
}

void rowlock_quorum_free(rowlock_quorum *quorum)
{
    (void)quorum;
}

size_t rowlock_hold_members(const rowlock_hold *hold)
{
    (void)hold;
    return 0;
}
