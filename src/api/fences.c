#include "admin/admin.h"
#include "api/options.h"
#include "base/name.h"

#define IDENTIFIER_MAX 64 /* characters; both flavours */

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

rowlock_status rowlock_fences_get(rowlock_client *client, rowlock_fences **fences,
                                  rowlock_error *err)
{
    RL_TRY(rl_client_check(client, err));
    RL_TRY(rl_place_check(fences, "the fences", err));
    return rl_fences_get(client, fences, err);
}

size_t rowlock_fences_count(const rowlock_fences *fences)
{
    return fences ? fences->all.count : 0;
}

const rowlock_fenced *rowlock_fences_at(const rowlock_fences *fences, size_t i)
{
    return fences ? rl_list_at(&fences->all, i) : NULL;
}

void rowlock_fences_free(rowlock_fences *fences)
{
    rl_list_free(fences);
}
