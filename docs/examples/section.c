/*
 * The optimistic section: nothing is held while working; the change is final only if nobody
 * changed the version meanwhile.
 *
 *     cc section.c -o section $(pkg-config --cflags --libs rowlock)
 *     ROWLOCK_URL='mysql://user@host/rowlock' ./section
 */
#include "example.h"

typedef struct work {
    rowlock_client *client;
    bool disturbed;
} work;

/* May run several times, so it only prepares what is final when the section is. */
static rowlock_status prepare(void *data, const rowlock_section *section)
{
    work *self = data;
    printf("%s: attempt %u on version %" PRIu64 "\n", section->name, section->attempt,
           section->version);
    if (self->disturbed)
        return ROWLOCK_OK;
    /* Somebody else is quicker, once. */
    uint64_t version;
    rowlock_error err;
    self->disturbed = true;
    must(rowlock_version_bump(self->client, section->name, section->version, &version, &err), &err);
    return ROWLOCK_OK;
}

int main(int argc, char **argv)
{
    const rowlock_client_options options = example_options(argc, argv);
    const rowlock_section_options section = {.max_attempts = 5, .wait_ms = 10000};
    rowlock_error err;
    rowlock_section_result result;
    work ours = {0};
    uint64_t version;
    must(rowlock_client_open(&options, &ours.client, &err), &err);
    must(rowlock_section_run(ours.client, "example catalogue", &section, prepare, &ours, &result,
                             &err),
         &err);
    expect(result.attempts == 2 && result.conflicts == 1, "it took a second attempt");
    must(rowlock_version_read(ours.client, "example catalogue", &version, &err), &err);
    expect(version == result.version, "the version is the one that the section made");
    rowlock_client_close(ours.client);
    return 0;
}
