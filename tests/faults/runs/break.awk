# The statements of sql/ with one guard of the protocol broken: for a library that the checker must
# see through. awk -v guard=NAME -f break.awk FILE...; another number of changes than the guard has
# ends the build. With -v part=source: a file of src/, for a guard that is partly there.
# There is one for each rule of the checker, or more. All other guards are broken by tests/mutations/list, which tests with a fixed
# order of steps see; so are the two that few runs show (the mutation is in brackets).
#
#   for-ever          an expired lease is never taken over
#   version           a new holder gets the last holder's token
#   release           a release frees the lease, whoever holds it by then
#   bell-release      a holder that releases keeps the bell (release-does-not-ring)
#   row               a row lock is read without being locked
#   fence             a fence passes with any token
#
# Of readers. Where a writer both looks for them and takes the lease only if there are none, both are
# broken: one alone is enough.
#
#   reader-look       a writer takes the lease beside readers
#   reader-expiry     every reader counts as expired
#
# Of slots.
#
#   slot-free         a held slot is taken
#
# Of leaders.
#
#   leader-version    a new holder leads with the last leader's value
#   leader-expiry     a holder whose lease was renewed does not lead
#   leader-late       a value that is published late replaces a later one; calls do not wait long for a reply
#
# Of work once in a period.
#
#   once-done         any attempt's done is accepted
#   once-ended        a period that is done may still fail
#   once-attempts     attempts are not counted
#   once-lease        a period is begun without the lease
#
# Of a latch.
#
#   latch-down        a count after the latch was broken is accepted
#   latch-generation  a count for an earlier generation counts in this one
#   latch-expiry      every member counts as expired
#   latch-for-ever    an expired member is waited for
#   latch-forget      a client that has set it deletes the first counts
#   latch-set         it is set though another client has set it meanwhile
#
# Of a barrier.
#
#   barrier-drop      a member that has given up, or expired, is counted
#   barrier-alone     a member that enters removes the others
#   barrier-quit      a member that goes without having been ready is forgotten
#
# Of a queue.
#
#   queue-expiry      an item is taken before its time, or while another worker has it
#   queue-for-ever    an item whose lease has expired is never delivered again
#   queue-token       a taker gets the last taker's token
#   queue-done        done with any token is accepted (queue-done-of-what-was-given-back, queue-done-by-an-earlier-delivery)
#   queue-attempts    attempts are not counted
#   queue-retry       an item is tried again at once
#   queue-grave       the key of a dead item is not free
#   queue-group       all items of a group are ready

function change(pattern, replacement) {
    if (sub(pattern, replacement))
        changes++
}

# Lets others come in between.
function pause_before(pattern) {
    change(pattern, "    nanosleep(\\&(struct timespec){.tv_nsec = rl_random_u32() % 100000000}, NULL);\n&")
}

BEGIN {
    wanted["for-ever"] = 1
    wanted["version"] = 7
    wanted["release"] = 6
    wanted["bell-release"] = 1
    wanted["row"] = 2
    wanted["fence"] = 2
    wanted["reader-look"] = 2
    wanted["reader-expiry"] = 2
    wanted["slot-free"] = 2
    wanted["leader-version"] = 1
    wanted["leader-expiry"] = 2
    wanted["leader-late"] = part == "source" ? 1 : 4
    wanted["once-done"] = 3
    wanted["once-ended"] = 1
    wanted["once-attempts"] = 1
    wanted["once-lease"] = 8
    wanted["latch-down"] = 1
    wanted["latch-generation"] = 1
    wanted["latch-expiry"] = 2
    wanted["latch-for-ever"] = 1
    wanted["latch-forget"] = part == "source" ? 2 : 1
    wanted["latch-set"] = part == "source" ? 2 : 1
    wanted["barrier-drop"] = 2
    wanted["barrier-alone"] = 1
    wanted["barrier-quit"] = 2
    wanted["queue-expiry"] = 4
    wanted["queue-for-ever"] = 2
    wanted["queue-token"] = 2
    wanted["queue-done"] = 2
    wanted["queue-attempts"] = 2
    wanted["queue-retry"] = 1
    wanted["queue-grave"] = 1
    wanted["queue-group"] = 1
}

/^-- name:/ { name = $3 }

guard == "for-ever" && name == "lease_take_over" { change("AND r.version = :seen", "& AND 1 = 0") }
guard == "version" && name ~ /^(lease_acquire|lease_inherit|lease_acquire_quiet|lease_take_over|row_publish|row_publish_over)$/ {
    change("LAST_INSERT_ID\\(version \\+ 1\\)", "LAST_INSERT_ID(version)")
    change("LAST_INSERT_ID\\(:seen \\+ 1\\)", "LAST_INSERT_ID(:seen)")
    change("l.version = :seen \\+ 1", "l.version = :seen")
}
guard == "release" && name ~ /^lease_release/ {
    change("AND version = :version", "AND (version = :version OR 1 = 1)")
    change("AND owner = :owner", "AND (owner = :owner OR 1 = 1)")
}
guard == "bell-release" && name == "lease_release" { change("RELEASE_LOCK\\(CONCAT\\(:bell, id\\)\\)", "LENGTH(CONCAT(:bell, id))") }
guard == "row" && name ~ /^(row_lock|row_try)$/ {
    change(" FOR UPDATE NOWAIT", "")
    change(" FOR UPDATE", "")
}
guard == "fence" && name == "caller_fence" {
    change("AND version = :version", "AND (version = :version OR 1 = 1)")
    change("AND owner = :owner", "AND (owner = :owner OR 1 = 1)")
}
guard == "reader-look" && name == "shared_reader" { change("AND g.owner <> :owner", "& AND 1 = 0") }
guard == "reader-look" && name == "shared_take" { change("AND g.owner IS NULL", "") }
guard == "reader-expiry" && name == "shared_reader" { change("COALESCE\\(TIMESTAMPDIFF.*g.expires_at\\), 0\\)", "0") }
guard == "reader-expiry" && name == "shared_expire" { change("AND expires_at <= UTC_TIMESTAMP\\(6\\)", "") }
guard == "slot-free" && name == "slots_take" { change("AND r.status = 'free'", "") }
guard == "slot-free" && name == "set_take_quiet" { change("AND r.status = 'free'", "") }
guard == "leader-version" && name == "leader_look" { change("AND v.version = r.version", "") }
guard == "leader-expiry" && name == "leader_look" { change("AND l.expires_at IS NOT NULL", "& AND 1 = 0") }
guard == "leader-late" && name == "leader_publish" {
    change("lock_value.version < r.version OR \\(.*number <= :number\\)", "TRUE")
    change("AND kind = 'optimistic'", "& AND SLEEP(GREATEST(RAND() - 0.6, 0)) = 0")
}
guard == "leader-late" && part == "source" {
    change("^    rl_io io = rl_budget_quick_io\\(p->budget\\);", "&\n    io.deadline_us = rl_now_us() + 20000, io.abrupt = true;")
}
guard == "once-done" && name ~ /^(caller_once_done|once_end)$/ {
    change("AND token = :version", "AND (token = :version OR 1 = 1)")
    change("AND owner = :owner", "AND (owner = :owner OR 1 = 1)")
}
guard == "once-ended" && name == "once_end" { change("AND state = 'running'", "") }
guard == "once-attempts" && name == "once_take" { change("o.attempts \\+ 1", "o.attempts") }
guard == "once-lease" && name ~ /^once_(look|insert|take)$/ {
    change("SELECT r.version = :version", "SELECT r.version >= :version OR r.version = :version")
    change("LAST_INSERT_ID\\(r.version\\), r.owner", "LAST_INSERT_ID(:version), :owner")
    change("LAST_INSERT_ID\\(r.version\\)", "LAST_INSERT_ID(:version)")
    change("o.owner = r.owner", "o.owner = :owner")
    change("AND r.version = :version$", "AND r.version >= :version")
    change("AND r.owner = :owner$", "AND (r.owner = :owner OR 1 = 1)")
}
guard == "latch-set" && part == "source" { pause_before("^ .*RL_SQL_LATCH_SET,") }
guard == "latch-forget" && part == "source" { pause_before("^ .*RL_SQL_LATCH_FORGET,") }
guard ~ /^latch-(set|forget)$/ && part == "source" { change("^#include <string.h>", "&\n#include <time.h>") }
guard == "latch-down" && name == "latch_down" { change("AND r.status = 'held'", "") }
guard == "latch-generation" && name == "latch_down" { change(":generation IN \\(0, r.version\\)", ":generation <= r.version") }
guard == "latch-expiry" && name == "latch_members" { change("g.expires_at <= UTC_TIMESTAMP\\(6\\)", "TRUE") }
guard == "latch-expiry" && name == "latch_break_member" { change("OR g.expires_at <= UTC_TIMESTAMP\\(6\\)", "OR 1 = 1") }
guard == "latch-for-ever" && name == "latch_break_member" { change("OR g.expires_at <= UTC_TIMESTAMP\\(6\\)", "") }
guard == "latch-forget" && name == "latch_forget" { change("generation <", "generation <=") }
guard == "latch-set" && name == "latch_set" { change("AND version = :seen", "AND (version = :seen OR 1 = 1)") }
guard == "barrier-drop" && name ~ /^barrier_(drop|gathered)$/ { change("g.expires_at <= UTC_TIMESTAMP\\(6\\) OR ", "") }
guard == "barrier-alone" && name == "barrier_drop" { change("g.expires_at <= UTC_TIMESTAMP\\(6\\) OR ", "1 = 1 OR ") }
guard == "barrier-quit" && name == "barrier_quit" {
    change("UPDATE lock_grant", "DELETE FROM lock_grant")
    change("SET expires_at = UTC_TIMESTAMP\\(6\\)", "")
}
guard == "queue-expiry" && name ~ /^queue_(ready|take)/ {
    change("AND (i\\.)?ready_at <= UTC_TIMESTAMP\\(6\\)", "")
    change("AND UTC_TIMESTAMP\\(6\\)", "AND '9999-12-31'")
}
guard == "queue-for-ever" && name ~ /^queue_ready/ {
    change("AND ready_at <= UTC_TIMESTAMP\\(6\\)", "& AND taken = 0")
    change("AND UTC_TIMESTAMP\\(6\\)", "& AND taken = 0")
}
guard == "queue-token" && name ~ /^queue_take/ {
    change("token = token \\+ 1", "token = token")
    change("i.token = i.token \\+ 1", "i.token = i.token")
}
guard == "queue-done" && name == "caller_queue_done" {
    change("AND token = :token", "AND (token = :token OR 1 = 1)")
    change("AND taken = 1", "AND (taken = 1 OR 1 = 1)")
}
guard == "queue-attempts" && name ~ /^queue_take/ {
    change("attempts = attempts \\+ 1", "attempts = attempts")
    change("i.attempts = i.attempts \\+ 1", "i.attempts = i.attempts")
}
guard == "queue-retry" && name == "queue_retry" { change("INTERVAL :delay_us MICROSECOND", "INTERVAL :delay_us * 0 MICROSECOND") }
guard == "queue-grave" && name == "queue_bury" { change("grave = id", "grave = 0") }
guard == "queue-group" && name == "queue_put_grouped" { change("IF\\(g.head = 0, 'alive', 'behind'\\)", "'alive'") }
{ print }

END {
    if (changes != wanted[guard]) {
        printf "guard '%s': %d changes, not %d: has %s/ changed?\n", guard, changes, wanted[guard],
            (part == "source" ? "src" : "sql") > "/dev/stderr"
        exit 1
    }
}
