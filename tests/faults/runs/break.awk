# The statements of sql/ with one guard of the protocol broken: for a library that the checker must
# see through. awk -v guard=NAME -f break.awk FILE...; another number of changes than the guard has
# ends the build. With -v part=source: a file of src/, for a guard that is partly there.
# In brackets, for those that run only with --long: the mutation (tests/mutations/list) that breaks the same, which a test with a
# fixed order of steps sees.
#
#   expiry            a lease is taken over while it still runs (take-over-of-what-was-renewed)
#   for-ever          an expired lease is never taken over
#   version           a new holder gets the last holder's token
#   release           a release frees the lease, whoever holds it by then
#   bell-release      a holder that releases keeps the bell (release-does-not-ring)
#   bell-swap         a new caller overtakes the waiter that was woken (swap-past-who-was-woken)
#   row               a row lock is read without being locked
#   fence             a fence passes with any token
#
# Of readers. Where a writer both looks for them and takes the lease only if there are none, both are
# broken: one alone is enough.
#
#   reader-status     a reader enters while a writer has the lease (reader-beside-who-has-it-alone)
#   reader-closed     a reader enters though a writer has closed the name and seen no reader (reader-past-a-writer, writer-beside-readers)
#   reader-look       a writer takes the lease beside readers
#   reader-look-first a writer looks before it has closed the name, not afterwards (look-before-it-is-closed, writer-beside-readers)
#   reader-expiry     every reader counts as expired
#   reader-for-ever   an expired reader is never removed (reader-that-is-never-put-out)
#   reader-version    a writer gets the token of the readers before it (writer-with-the-token-of-readers)
#   reader-leave      a reader that leaves removes the others (reader-that-puts-the-others-out)
#   reader-downgrade  a writer that becomes a reader has expired (downgrade-without-time)
#   reader-row        a row lock that is shared is read without being locked (shared-row-lock-...)
#
# Of slots.
#
#   slot-free         a held slot is taken
#   slot-expiry       every slot counts as expired (end-of-what-was-renewed)
#   slot-for-ever     an expired slot is never free again (slot-of-the-dead)
#   slot-line         a new caller overtakes waiters (slots-out-of-turn)
#   slot-version      a new holder of a slot gets the last holder's token (slot-with-the-token-before)
#
# Of leaders.
#
#   leader-version    a new holder leads with the last leader's value
#   leader-expiry     a holder whose lease was renewed does not lead
#   leader-late       a value that is published late replaces a later one; calls do not wait long for a reply
#
# Of work once in a period.
#
#   once-state        an attempt takes over a period that was done just now (once-that-is-done-twice)
#   once-done         any attempt's done is accepted
#   once-ended        a period that is done may still fail
#   once-attempts     attempts are not counted
#   once-lease        a period is begun without the lease
#
# Of a latch.
#
#   latch-down        a count after the latch was broken is accepted
#   latch-generation  a count for an earlier generation counts in this one
#   latch-key         a key counts as often as it comes (latch-key-that-counts-again)
#   latch-look        counts of earlier generations count (latch-that-shows-earlier-counts)
#   latch-open        a client that has seen that all have counted opens any later generation (latch-that-opens-too-soon)
#   latch-expiry      every member counts as expired
#   latch-for-ever    an expired member is waited for
#   latch-counted     a member breaks it though its key is counted (latch-that-misses-who-has-counted)
#   latch-leave       a member of an earlier generation breaks this one when it leaves (latch-that-the-dead-of-an-earlier-one-break)
#   latch-full        a member breaks it though all have counted (latch-that-is-open-and-broken)
#   latch-forget      a client that has set it deletes the first counts
#   latch-set         it is set though another client has set it meanwhile
#   latch-join        a client becomes a member though the latch is open or broken (latch-that-is-joined-when-it-is-settled)
#
# Of a barrier.
#
#   barrier-lock      two enter at the same time, in no transaction (barrier-that-is-entered-in-no-transaction)
#   barrier-drop      a member that has given up, or expired, is counted
#   barrier-alone     a member that enters removes the others
#   barrier-withdraw  a member that gives up goes, though all have come meanwhile (barrier-withdrawal-of-...)
#   barrier-leaving   a lost member counts as ready to leave (barrier-that-does-not-miss-its-members)
#   barrier-quit      a member that goes without having been ready is forgotten
#   barrier-ready     nobody waits for the others to be ready (barrier-that-nobody-waits-to-leave)
#
# Of a queue.
#
#   queue-expiry      an item is taken before its time, or while another worker has it
#   queue-for-ever    an item whose lease has expired is never delivered again
#   queue-token       a taker gets the last taker's token
#   queue-lock        two that look at the same time take the same item (queue-take-beside-another, queue-take-by-an-old-look)
#   queue-lease       an item that is taken has no lease (queue-take-without-a-lease)
#   queue-renew       a renewal changes nothing (queue-renewal-that-changes-nothing)
#   queue-done        done with any token is accepted (queue-done-of-what-was-given-back, queue-done-by-an-earlier-delivery)
#   queue-attempts    attempts are not counted
#   queue-retry       an item is tried again at once
#   queue-delay       an item that is put for later is ready at once (queue-delay-that-is-none)
#   queue-key         a key is there as often as it is put (queue-key-that-is-there-twice)
#   queue-grave       the key of a dead item is not free
#   queue-group       all items of a group are ready
#   queue-strand      the next one of a group is never ready (queue-group-that-stops)

function change(pattern, replacement) {
    if (sub(pattern, replacement))
        changes++
}

# Lets others come in between.
function pause_before(pattern) {
    change(pattern, "    nanosleep(\\&(struct timespec){.tv_nsec = rl_random_u32() % 100000000}, NULL);\n&")
}

BEGIN {
    wanted["expiry"] = 3
    wanted["for-ever"] = 1
    wanted["version"] = 7
    wanted["release"] = 6
    wanted["bell-release"] = 1
    wanted["bell-swap"] = 1
    wanted["row"] = 2
    wanted["fence"] = 2
    wanted["reader-status"] = 1
    wanted["reader-closed"] = 2
    wanted["reader-look"] = 2
    wanted["reader-look-first"] = part == "source" ? 2 : 1
    wanted["reader-expiry"] = 2
    wanted["reader-for-ever"] = 1
    wanted["reader-version"] = 1
    wanted["reader-leave"] = 1
    wanted["reader-downgrade"] = 2
    wanted["reader-row"] = 2
    wanted["slot-free"] = 2
    wanted["slot-expiry"] = 3
    wanted["slot-for-ever"] = part == "source" ? 1 : 0
    wanted["slot-line"] = part == "source" ? 1 : 0
    wanted["slot-version"] = 2
    wanted["leader-version"] = 1
    wanted["leader-expiry"] = 2
    wanted["leader-late"] = part == "source" ? 1 : 4
    wanted["once-state"] = 1
    wanted["once-done"] = 3
    wanted["once-ended"] = 1
    wanted["once-attempts"] = 1
    wanted["once-lease"] = 8
    wanted["latch-down"] = 1
    wanted["latch-generation"] = 1
    wanted["latch-key"] = 1
    wanted["latch-look"] = 2
    wanted["latch-open"] = 2
    wanted["latch-expiry"] = 2
    wanted["latch-for-ever"] = 1
    wanted["latch-counted"] = 2
    wanted["latch-forget"] = part == "source" ? 2 : 1
    wanted["latch-leave"] = 2
    wanted["latch-full"] = part == "source" ? 2 : 1
    wanted["latch-set"] = part == "source" ? 2 : 1
    wanted["latch-join"] = 1
    wanted["barrier-lock"] = part == "source" ? 1 : 0
    wanted["barrier-drop"] = 2
    wanted["barrier-alone"] = 1
    wanted["barrier-withdraw"] = 2
    wanted["barrier-leaving"] = 1
    wanted["barrier-quit"] = 2
    wanted["barrier-ready"] = 1
    wanted["queue-expiry"] = 4
    wanted["queue-for-ever"] = 2
    wanted["queue-token"] = 2
    wanted["queue-lock"] = 6
    wanted["queue-lease"] = 2
    wanted["queue-renew"] = 1
    wanted["queue-done"] = 2
    wanted["queue-attempts"] = 2
    wanted["queue-retry"] = 1
    wanted["queue-delay"] = 2
    wanted["queue-key"] = 2
    wanted["queue-grave"] = 1
    wanted["queue-group"] = 1
    wanted["queue-strand"] = 1
}

/^-- name:/ { name = $3 }

guard == "expiry" && name == "resource_look" { change("'HELD', 'EXPIRED'", "'EXPIRED', 'EXPIRED'") }
guard == "expiry" && name == "lease_take_over" {
    change("AND r.lease_expires_at <= UTC_TIMESTAMP\\(6\\)", "")
    change("AND \\(l.version <> r.version .*;", ";")
}
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
guard == "bell-swap" && name == "lease_acquire" { change("GET_LOCK\\(CONCAT\\(:bell, id\\), 0\\) = 1", "TRUE") }
guard == "row" && name ~ /^(row_lock|row_try)$/ {
    change(" FOR UPDATE NOWAIT", "")
    change(" FOR UPDATE", "")
}
guard == "fence" && name == "caller_fence" {
    change("AND version = :version", "AND (version = :version OR 1 = 1)")
    change("AND owner = :owner", "AND (owner = :owner OR 1 = 1)")
}
guard == "reader-status" && name == "shared_enter" { change("AND r.status = 'shared'", "") }
guard == "reader-closed" && name == "shared_enter" { change("AND r.next_owner = ''", "") }
guard == "reader-look" && name == "shared_reader" { change("AND g.owner <> :owner", "& AND 1 = 0") }
guard ~ /^reader-(closed|look|look-first)$/ && name == "shared_take" { change("AND g.owner IS NULL", "") }
guard == "reader-look-first" && part == "source" {
    change("^    if \\(seen->verdict == RL_VERDICT_SHARED", "    RL_TRY(is_worth_it(\\&w, err));\n&")
    change("return none_is_in\\(&w, err\\);", "return ROWLOCK_OK;")
}
guard == "reader-expiry" && name == "shared_reader" { change("COALESCE\\(TIMESTAMPDIFF.*g.expires_at\\), 0\\)", "0") }
guard == "reader-expiry" && name == "shared_expire" { change("AND expires_at <= UTC_TIMESTAMP\\(6\\)", "") }
guard == "reader-for-ever" && name == "shared_expire" { change("AND expires_at <= UTC_TIMESTAMP\\(6\\)", "& AND 1 = 0") }
guard == "reader-version" && name == "shared_take" { change("LAST_INSERT_ID\\(:seen \\+ 1\\)", "LAST_INSERT_ID(:seen)") }
guard == "reader-leave" && name == "shared_leave" { change("AND owner = :owner", "AND (owner = :owner OR 1 = 1)") }
guard == "reader-downgrade" && name == "shared_join" { change("\\+ INTERVAL", "- INTERVAL") }
guard == "reader-row" && name ~ /^(row_share|row_share_try)$/ {
    change("/\\*M! LOCK IN SHARE MODE \\*/ /\\*!80000 FOR SHARE \\*/( NOWAIT)?", "")
}
guard == "slot-free" && name == "slots_take" { change("AND r.status = 'free'", "") }
guard == "slot-free" && name == "set_take_quiet" { change("AND r.status = 'free'", "") }
guard == "slot-expiry" && name == "slots_look" { change("'HELD', 'EXPIRED'", "'EXPIRED', 'EXPIRED'") }
guard == "slot-expiry" && name == "lease_expire" {
    change("AND r.lease_expires_at <= UTC_TIMESTAMP\\(6\\)", "")
    change("AND \\(l.version <> r.version .*;", ";")
}
guard == "slot-for-ever" && part == "source" { change("c->free_count < c->units && seen->expired", "& > c->count") }
guard == "slot-line" && part == "source" { change("return a->turn.conn \\|\\|", "return a->client ||") }
guard == "slot-version" && name == "slots_take" { change("LAST_INSERT_ID\\(r.version \\+ 1\\)", "LAST_INSERT_ID(r.version)") }
guard == "slot-version" && name == "set_take_quiet" { change("r.version = r.version \\+ 1", "r.version = r.version") }
guard == "leader-version" && name == "leader_look" { change("AND v.version = r.version", "") }
guard == "leader-expiry" && name == "leader_look" { change("AND l.expires_at IS NOT NULL", "& AND 1 = 0") }
guard == "leader-late" && name == "leader_publish" {
    change("lock_value.version < r.version OR \\(.*number <= :number\\)", "TRUE")
    change("AND kind = 'optimistic'", "& AND SLEEP(GREATEST(RAND() - 0.6, 0)) = 0")
}
guard == "leader-late" && part == "source" {
    change("^    rl_io io = rl_budget_quick_io\\(p->budget\\);", "&\n    io.deadline_us = rl_now_us() + 20000, io.abrupt = true;")
}
guard == "once-state" && name == "once_take" { change("\\(:again <> 0 OR", "(1 = 1 OR :again <> 0 OR") }
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
guard ~ /^latch-(open|full)$/ && part == "source" { pause_before("^ .*RL_SQL_LATCH_OPEN,") }
guard == "latch-set" && part == "source" { pause_before("^ .*RL_SQL_LATCH_SET,") }
guard == "latch-forget" && part == "source" { pause_before("^ .*RL_SQL_LATCH_FORGET,") }
guard ~ /^latch-(open|full|set|forget)$/ && part == "source" { change("^#include <string.h>", "&\n#include <time.h>") }
guard == "latch-down" && name == "latch_down" { change("AND r.status = 'held'", "") }
guard == "latch-generation" && name == "latch_down" { change(":generation IN \\(0, r.version\\)", ":generation <= r.version") }
guard == "latch-key" && name == "latch_down" { change(":down_key, :owner", "CONCAT(:down_key, :owner), :owner") }
guard == "latch-look" && name == "latch_look" { change("AND d.generation = r.version", "") }
guard == "latch-look" && name == "latch_open" { change("AND d.generation = resource.version", "") }
guard == "latch-open" && name == "latch_open" {
    change("AND slots <= .*;", ";")
    change("AND version = :generation", "AND (version = :generation OR 1 = 1)")
}
guard == "latch-expiry" && name == "latch_members" { change("g.expires_at <= UTC_TIMESTAMP\\(6\\)", "TRUE") }
guard == "latch-expiry" && name == "latch_break_member" { change("OR g.expires_at <= UTC_TIMESTAMP\\(6\\)", "OR 1 = 1") }
guard == "latch-for-ever" && name == "latch_break_member" { change("OR g.expires_at <= UTC_TIMESTAMP\\(6\\)", "") }
guard == "latch-counted" && name ~ /^latch_(members|break_member)$/ { change("AND d.resource_id IS NULL", "") }
guard == "latch-forget" && name == "latch_forget" { change("generation <", "generation <=") }
guard == "latch-leave" && name == "latch_break_member" {
    change(" AND g.version = r.version", "")
    change("AND r.version = :generation", "AND (r.version = :generation OR 1 = 1)")
}
guard == "latch-full" && name == "latch_break_member" { change("AND r.slots > .*;", ";") }
guard == "latch-set" && name == "latch_set" { change("AND version = :seen", "AND (version = :seen OR 1 = 1)") }
guard == "latch-join" && name == "latch_join" { change("AND r.status = 'held'", "") }
guard == "barrier-lock" && part == "source" { change("RL_SQL_BEGIN, NULL", "RL_SQL_ROLLBACK, NULL") }
guard == "barrier-drop" && name ~ /^barrier_(drop|gathered)$/ { change("g.expires_at <= UTC_TIMESTAMP\\(6\\) OR ", "") }
guard == "barrier-alone" && name == "barrier_drop" { change("g.expires_at <= UTC_TIMESTAMP\\(6\\) OR ", "1 = 1 OR ") }
guard == "barrier-withdraw" && name == "barrier_withdraw" {
    change(" AND g.version = r.version", "")
    change("AND r.version = :generation", "AND g.version = :generation")
}
guard == "barrier-leaving" && name == "barrier_leaving" { change("COALESCE\\(MAX.*\\), ''\\)", "''") }
guard == "barrier-quit" && name == "barrier_quit" {
    change("UPDATE lock_grant", "DELETE FROM lock_grant")
    change("SET expires_at = UTC_TIMESTAMP\\(6\\)", "")
}
guard == "barrier-ready" && name == "barrier_leaving" { change("SUM\\(g.expires_at > UTC_TIMESTAMP\\(6\\)\\)", "SUM(0)") }
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
guard == "queue-lock" && name ~ /^queue_ready/ { change("FOR UPDATE SKIP LOCKED", "") }
guard == "queue-lock" && name ~ /^queue_take/ {
    change("AND (i\\.)?ready_at <= UTC_TIMESTAMP\\(6\\)", "")
    change("AND token = :token", "AND (token = :token OR 1 = 1)")
    change("AND i.token = k.token", "")
}
guard == "queue-lease" && name ~ /^queue_take/ { change("INTERVAL :ttl_us MICROSECOND", "INTERVAL :ttl_us * 0 MICROSECOND") }
guard == "queue-renew" && name == "queue_renew" {
    change("GREATEST\\(i.ready_at, UTC_TIMESTAMP\\(6\\) \\+ INTERVAL o.ttl_us MICROSECOND\\)", "UTC_TIMESTAMP(6)")
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
guard == "queue-delay" && name ~ /^queue_put/ { change("INTERVAL :delay_us MICROSECOND", "INTERVAL :delay_us * 0 MICROSECOND") }
guard == "queue-key" && name ~ /^queue_put/ { change(":attempts, :item_key", ":attempts, CONCAT(:item_key, UUID())") }
guard == "queue-grave" && name == "queue_bury" { change("grave = id", "grave = 0") }
guard == "queue-group" && name == "queue_put_grouped" { change("IF\\(g.head = 0, 'alive', 'behind'\\)", "'alive'") }
guard == "queue-strand" && name == "queue_group_promote" { change("i.state = 'alive'", "i.state = 'behind'") }
{ print }

END {
    if (changes != wanted[guard]) {
        printf "guard '%s': %d changes, not %d: has %s/ changed?\n", guard, changes, wanted[guard],
            (part == "source" ? "src" : "sql") > "/dev/stderr"
        exit 1
    }
}
