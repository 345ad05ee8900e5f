#include "engine/look.h"

#include <stdio.h>
#include <string.h>

/* An unknown word counts as GONE. */
static rl_verdict verdict_of(const char *word)
{
    static const char *const words[] = {
        [RL_VERDICT_WRONG_KIND] = "WRONG_KIND", [RL_VERDICT_HELD] = "HELD",
        [RL_VERDICT_EXPIRED] = "EXPIRED",       [RL_VERDICT_SHARED] = "SHARED",
        [RL_VERDICT_DRAINING] = "DRAINING",     [RL_VERDICT_COOLING] = "COOLING",
        [RL_VERDICT_RESERVED] = "RESERVED",     [RL_VERDICT_FREE] = "FREE"};
    for (size_t i = RL_VERDICT_WRONG_KIND; i < sizeof words / sizeof words[0]; i++)
        if (strcmp(word, words[i]) == 0)
            return (rl_verdict)i;
    return RL_VERDICT_GONE;
}

static void keep_seen(void *data, const rl_cell *cells)
{
    rl_seen *seen = data;
    snprintf(seen->kind, sizeof seen->kind, "%s", cells[0].text);
    seen->verdict = verdict_of(cells[1].text);
    seen->left_us = cells[2].i64;
    seen->version = cells[3].u64;
    seen->ours = cells[4].u64 != 0;
    snprintf(seen->label, sizeof seen->label, "%s", cells[5].text);
    seen->held_us = cells[6].i64;
    seen->connection_id = cells[7].u64;
    seen->read_only = cells[8].u64 != 0;
    seen->frozen = cells[9].u64 != 0;
    seen->guarded = cells[10].u64;
    seen->last_ours = cells[11].u64 != 0;
}

rowlock_status rl_look(rowlock_client *client, const rl_budget *budget, uint64_t id,
                       const char *name, const char *kind, const char *owner, rl_seen *seen,
                       rowlock_error *err)
{
    const rl_value values[] = {rl_u64(id), rl_text(name), rl_text(owner), rl_text(kind)};
    bool found = false;
    *seen = (rl_seen){.verdict = RL_VERDICT_GONE};
    return rl_client_read(client, budget, RL_SQL_RESOURCE_LOOK, values, keep_seen, seen, &found,
                          err);
}

bool rl_seen_status_held(const rl_seen *seen)
{
    return seen->verdict == RL_VERDICT_HELD || seen->verdict == RL_VERDICT_EXPIRED;
}
