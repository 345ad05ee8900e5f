/*
 * One job at a time, on whichever host, as long as two of three servers are there: a lease that a
 * majority of independent servers agrees on.
 *
 *     cc quorum.c -o quorum $(pkg-config --cflags --libs rowlock)
 *     ROWLOCK_URLS='mysql://user@db1 mysql://user@db2 mysql://user@db3' ./quorum
 */
#include <string.h>

#include "example.h"
#include <rowlock/rowlock_quorum.h>

/* The words of ROWLOCK_URLS; room for as many as a quorum may have. */
static size_t members_of(char *text, const char *members[ROWLOCK_MEMBERS_MAX])
{
    size_t count = 0;
    char *rest = NULL;
    for (char *word = strtok_r(text, " ", &rest); word && count < ROWLOCK_MEMBERS_MAX;
         word = strtok_r(NULL, " ", &rest))
        members[count++] = word;
    return count;
}

/* What each member says of itself: for a status page, or an alarm. */
static void show_members(const rowlock_client_options *where)
{
    rowlock_error err;
    rowlock_quorum *quorum = NULL;
    must(rowlock_quorum_get(where, NULL, &quorum, &err), &err);
    printf("%zu of %zu members vote, %zu are needed\n", rowlock_quorum_voting(quorum),
           rowlock_quorum_count(quorum), rowlock_quorum_needed(quorum));
    for (size_t i = 0; i < rowlock_quorum_count(quorum); i++) {
        const rowlock_member *member = rowlock_quorum_at(quorum, i);
        printf("%s: %s\n", member->where,
               member->state == ROWLOCK_MEMBER_VOTING ? "votes" : member->message);
    }
    rowlock_quorum_free(quorum);
}

/* After a member has lost its data, or was restored from a backup. */
static void bring_back(const rowlock_client_options *where)
{
    rowlock_error err;
    rowlock_status status = rowlock_quorum_rejoin(where, ROWLOCK_ALL_MEMBERS, NULL, &err);
    /* It is another server now: the list changes, and nobody has a lock meanwhile. */
    if (status == ROWLOCK_MODE)
        status = rowlock_quorum_replace(where, NULL, &err);
    must(status, &err);
}

int main(void)
{
    rowlock_error err;
    rowlock_client *client = NULL;
    rowlock_hold *hold = NULL;
    const char *members[ROWLOCK_MEMBERS_MAX];
    char urls[4096] = "";
    snprintf(urls, sizeof urls, "%s", getenv("ROWLOCK_URLS") ? getenv("ROWLOCK_URLS") : "");
    const rowlock_client_options options = {.members = members,
                                            .member_count = members_of(urls, members)};
    expect(options.member_count > 0, "ROWLOCK_URLS has the members");
    must(rowlock_quorum_init(&options, NULL, &err), &err); /* once; again it changes nothing */
    bring_back(&options);
    show_members(&options);

    must(rowlock_client_open(&options, &client, &err), &err);
    must(rowlock_acquire(client, "example nightly",
                         &(rowlock_acquire_options){.wait_ms = 30000, .ttl_ms = 10000}, &hold,
                         &err),
         &err);
    /* The store that the job writes to refuses a lower token. */
    printf("token %" PRIu64 ", at %zu members, for another %" PRId64 " ms at least\n",
           rowlock_hold_token(hold), rowlock_hold_members(hold), rowlock_hold_remaining_ms(hold));
    if (rowlock_hold_check(hold) != ROWLOCK_OK)
        printf("too few members were heard of in time: stop the job\n");
    must(rowlock_release(hold, &err), &err);
    rowlock_client_close(client);
    return 0;
}
