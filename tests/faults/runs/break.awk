# The statements of sql/ with one guard of the protocol broken: for a library that the checker must
# see through. awk -v guard=NAME -f break.awk FILE...; another number of changes than the guard has
# ends the build.
#
#   expiry    a lease is taken over while it still runs
#   for-ever  a lease whose time is over is never taken over
#   version   whoever takes a lock gets the token of the one before
#   release   a release frees the lease whoever has it by then
#   row       a row lock is read without being locked
#   fence     a fence passes with any token

function change(pattern, replacement) {
    if (sub(pattern, replacement))
        changes++
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
guard == "bell-release" && name == "lease_release" { change("RELEASE_LOCK\\(CONCAT\\(:bell, id\\)\\)", "CONCAT(:bell, id)") }
guard == "bell-swap" && name == "lease_acquire" { change("GET_LOCK\\(CONCAT\\(:bell, id\\), 0\\) = 1", "TRUE") }
guard == "row" && name ~ /^(row_lock|row_try)$/ {
    change(" FOR UPDATE NOWAIT", "")
    change(" FOR UPDATE", "")
}
guard == "fence" && name == "caller_fence" {
    change("AND version = :version", "AND (version = :version OR 1 = 1)")
    change("AND owner = :owner", "AND (owner = :owner OR 1 = 1)")
}
{ print }

END {
    if (changes != wanted[guard]) {
        printf "guard '%s': %d changes, not %d: has sql/ changed?\n", guard, changes, wanted[guard] > "/dev/stderr"
        exit 1
    }
}
