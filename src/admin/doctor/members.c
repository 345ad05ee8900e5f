#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "admin/doctor/parts.h"
#include "rowlock/rowlock_quorum.h"

#define APART_US 1000000 /* clocks that are kept do not differ by so much */

typedef struct looking {
    rowlock_finding_fn fn;
    void *data;
    rl_doctor_member members[ROWLOCK_MEMBERS_MAX];
    size_t count;
    const rl_doctor_member *at; /* who is looked at */
    bool broken;                /* something is, between them */
} looking;

static void name_member(const rl_params *params, rl_doctor_member *member)
{
    const char *host = params->host ? params->host : "localhost";
    if (params->socket)
        snprintf(member->where, sizeof member->where, "%s", params->socket);
    else if (params->port)
        snprintf(member->where, sizeof member->where, "%s:%u", host, params->port);
    else
        snprintf(member->where, sizeof member->where, "%s", host);
}

static void tell_of_member(void *data, const rowlock_finding *finding)
{
    const looking *self = data;
    char found[1100];
    rowlock_finding of_member = *finding;
    snprintf(found, sizeof found, "%s: %s", self->at->where, finding->found);
    of_member.found = found;
    self->fn(self->data, &of_member);
}

RL_PRINTF(6, 7)
static void tell(looking *self, const char *check, rowlock_level level, const char *follows,
                 const char *remedy, const char *found, ...)
{
    char text[1100];
    va_list args;
    va_start(args, found);
    vsnprintf(text, sizeof text, found, args);
    va_end(args);
    const rowlock_finding finding = {
        .check = check, .level = level, .found = text, .follows = follows, .remedy = remedy};
    self->broken = self->broken || level == ROWLOCK_BROKEN;
    self->fn(self->data, &finding);
}

static void compare_two(looking *self, const rl_doctor_member *a, const rl_doctor_member *b)
{
    if (strcmp(a->identity, b->identity) == 0)
        tell(self, "members", ROWLOCK_BROKEN, "its one vote would count twice: two holders",
             "name another server; on MariaDB give each a server_id of its own",
             "%s and %s are one server, or cannot be told apart (%s)", a->where, b->where,
             a->identity);
    else if (*a->list && *b->list && strcmp(a->list, b->list) != 0)
        tell(self, "members", ROWLOCK_BROKEN, "they do not vote together",
             "rowlock quorum status; rowlock quorum replace, with the members that are to be",
             "%s and %s have different lists of members", a->where, b->where);
}

static void compare_all(looking *self)
{
    for (size_t i = 0; i < self->count; i++)
        for (size_t j = i + 1; j < self->count; j++)
            if (self->members[i].seen && self->members[j].seen)
                compare_two(self, &self->members[i], &self->members[j]);
}

static void check_lists(looking *self)
{
    size_t seen = 0;
    size_t listed = 0;
    for (size_t i = 0; i < self->count; i++) {
        seen += self->members[i].seen;
        listed += self->members[i].seen && *self->members[i].list;
    }
    if (seen > 0 && listed == 0)
        tell(self, "members", ROWLOCK_BROKEN, "none of them votes", "rowlock quorum init",
             "no member has a list of members");
    for (size_t i = 0; listed > 0 && i < self->count; i++)
        if (self->members[i].seen && !*self->members[i].list)
            tell(self, "members", ROWLOCK_BROKEN, "it does not vote", "rowlock quorum rejoin",
                 "%s has no list of members", self->members[i].where);
    if (!self->broken && seen == self->count)
        tell(self, "members", ROWLOCK_FINE, "", "",
             "%zu servers of different identities, with the same list", seen);
}

static void check_clocks(looking *self)
{
    const rl_doctor_member *ahead = NULL;
    const rl_doctor_member *behind = NULL;
    for (size_t i = 0; i < self->count; i++) {
        const rl_doctor_member *m = &self->members[i];
        if (!m->seen)
            continue;
        ahead = !ahead || m->ahead_us > ahead->ahead_us ? m : ahead;
        behind = !behind || m->ahead_us < behind->ahead_us ? m : behind;
    }
    if (!ahead || ahead->ahead_us - behind->ahead_us <= APART_US)
        return;
    tell(
        self, "clocks", ROWLOCK_CARE,
        "no lock depends on it; but when a clock is put right by a jump ahead, leases end early at "
        "that member",
        "let NTP run on all members", "%s is %.1f s ahead of %s", ahead->where,
        (double)(ahead->ahead_us - behind->ahead_us) / 1e6, behind->where);
}

/* One that cannot be looked at is a finding. */
static rowlock_status look_at(looking *self, size_t i, rl_params *params, const rl_wants *wants,
                              rowlock_error *err)
{
    rowlock_error why = {0};
    self->at = &self->members[i];
    name_member(params, &self->members[i]);
    rowlock_status status =
        rl_doctor_diagnose(params, wants, &self->members[i], tell_of_member, self, &why);
    if (status == ROWLOCK_INVALID) {
        if (err)
            *err = why;
        return status;
    }
    if (status != ROWLOCK_OK)
        tell(self, "members", ROWLOCK_CARE, "one member more that must not be lost",
             "rowlock quorum status", "%s cannot be looked at: %s", self->members[i].where,
             why.message);
    if (status != ROWLOCK_OK && err)
        *err = why;
    return status;
}

rowlock_status rl_diagnose_members(rl_params *params, size_t count, const rl_wants *wants,
                                   rowlock_finding_fn fn, void *data, rowlock_error *err)
{
    looking self = {.fn = fn, .data = data, .count = count};
    rowlock_status last = ROWLOCK_OK;
    size_t looked = 0;
    for (size_t i = 0; i < count; i++) {
        rowlock_status status = look_at(&self, i, &params[i], wants, err);
        if (status == ROWLOCK_INVALID)
            return status;
        looked += status == ROWLOCK_OK;
        last = status != ROWLOCK_OK ? status : last;
    }
    if (looked == 0)
        return last;
    if (wants->rights_only)
        return ROWLOCK_OK;
    compare_all(&self);
    check_lists(&self);
    check_clocks(&self);
    return ROWLOCK_OK;
}
