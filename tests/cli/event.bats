#!/usr/bin/env bats
# `rowlock init --event`: the server sweeps by itself; the doctor's findings on it.

load helpers

# The scheduler, read_only and autocommit are settings of the whole server.
setup_file() {
    setup_on_own_server
}

setup() {
    sql_any "SET GLOBAL event_scheduler = ON"
}

teardown() {
    touch "$BATS_TEST_TMPDIR/end"
    sql_any "SET GLOBAL read_only = OFF, GLOBAL autocommit = ON, GLOBAL sql_safe_updates = OFF"
    rl init -q --remove-event
}

# finding FILTER: is true of the doctor's finding on the event.
finding() {
    rl doctor --json | json "[.[] | select(.check == \"event\")] | length == 1 and (.[0] | $1)"
}

runs() {
    sql "SELECT runs FROM sweep_event"
}

# ran_again: waits until the event has run once more, from beginning to end.
ran_again() {
    local before
    before=$(runs)
    poll more_than_one_since "$before"
}

has_run() {
    (($(runs) > 0))
}

more_than_one_since() {
    (($(runs) >= $1 + 2))
}

is_free() {
    [ "$(sql "SELECT status FROM resource WHERE resource_name = '$1'")" = free ]
}

expired_once() {
    [ "$(rl history "$1" --json | jq '[.[] | select(.event == "expired")] | length')" -eq 1 ]
}

# killed_holder NAME [OPTION...]: a holder that is killed with all its processes. No other client looks at the lock.
killed_holder() {
    rl_exec run "${@:2}" "$1" -- sh -c 'touch "$0"; sleep 600' "$BATS_TEST_TMPDIR/$1" 3>&- &
    holder=$!
    poll test -e "$BATS_TEST_TMPDIR/$1"
    kill -9 "$holder"
    wait "$holder" || true
}

@test "the event alone frees what killed holders had, and nobody else's" {
    rl init --event --every=1s | grep -q 'event installed: it sweeps every 1 s'
    run -64 rl fence install --table=sweep_event --lock=any
    [[ $output == *"is one of rowlock's own tables"* ]]
    rl_exec run --mode=pessimistic alive -- sh -c 'touch "$0"; while [ ! -e "$1" ]; do sleep 0.1; done' \
        "$BATS_TEST_TMPDIR/alive" "$BATS_TEST_TMPDIR/end" 3>&- &
    alive=$!
    rl_exec run --ttl=60s alive-lease -- sh -c 'while [ ! -e "$0" ]; do sleep 0.1; done' "$BATS_TEST_TMPDIR/end" 3>&- &
    lease=$!
    poll test -e "$BATS_TEST_TMPDIR/alive"
    killed_holder dead-lease --ttl=12s
    killed_holder dead-row --mode=pessimistic --ttl=12s
    poll is_free dead-lease
    poll is_free dead-row
    expired_once dead-lease
    expired_once dead-row
    [ "$(sql "SELECT GROUP_CONCAT(resource_name ORDER BY 1) FROM resource WHERE status = 'held'")" = alive,alive-lease ]
    touch "$BATS_TEST_TMPDIR/end"
    wait "$alive" "$lease"
    # The next token is above the dead one's.
    [ "$(rl run dead-lease -- sh -c 'echo "$ROWLOCK_TOKEN"')" -gt 2 ]
    # (Polled: during a run, the finding says that one has begun.)
    poll finding '.level == "fine" and (.found | startswith("the server sweeps every 1 s; last "))'
    poll eval "rl doctor | grep -q '^fine *event *the server sweeps every 1 s; last '"
}

@test "the event forgets old history, and purges names that were unused, above whose tokens new ones begin" {
    for i in 1 2 3 4 5; do rl run "unused-$i" true; done
    sql "UPDATE resource SET version = 41 WHERE resource_name = 'unused-3'"
    rl init -q --event --every=1s --history=1s --history-rows=1 --unused=1s
    poll all_gone
    [ "$(rl run unused-3 -- sh -c 'echo "$ROWLOCK_TOKEN"')" -gt 41 ]
    # With other limits the event is changed. Recent rows stay then.
    rl init -q --event --every=1s --history=forever --unused=never
    ran_again # and none is at work that began with the old ones
    rl run recent true
    ran_again
    [ "$(rl history recent --json | jq length)" -eq 2 ]
    [ "$(sql "SELECT COUNT(*) FROM resource WHERE resource_name = 'recent'")" -eq 1 ]
}

all_gone() {
    [ "$(sql "SELECT COUNT(*) FROM resource WHERE resource_name LIKE 'unused-%'") $(sql "SELECT COUNT(*) <= 1 FROM lock_event")" = "0 1" ]
}

@test "a run that is not over is not joined by another" {
    rl init -q --event --every=24h
    poll has_run
    before=$(runs)
    bell=$(sql "SELECT SUBSTRING_INDEX(SUBSTRING_INDEX(routine_definition, 'GET_LOCK(''', -1), '''', 1)
                  FROM information_schema.routines WHERE routine_schema = DATABASE() AND routine_name = 'rl_sweep_alone'")
    [[ "$bell" == *sweep ]]
    mkfifo "$BATS_TEST_TMPDIR/in"
    mariadb --defaults-file="$TEST_OPTIONS" -n -N -B "$TEST_SCHEMA" <"$BATS_TEST_TMPDIR/in" >"$BATS_TEST_TMPDIR/out" 3>&- &
    other=$!
    exec 8>"$BATS_TEST_TMPDIR/in"
    echo "SELECT GET_LOCK('$bell', 20);" >&8
    poll grep -qx 1 "$BATS_TEST_TMPDIR/out"
    sql "CALL rl_sweep(0, 1000000, 0)"
    during=$(runs)
    exec 8>&-
    wait "$other"
    [ "$during" -eq "$before" ]
    poll swept_after "$before"
}

# (The server needs a moment to see that the other connection has ended.)
swept_after() {
    sql "CALL rl_sweep(0, 1000000, 0)"
    (($(runs) > $1))
}

@test "doctor: no event; one that nobody runs, that is disabled, that fails, that does not come" {
    finding '.level == "fine" and (.found | contains("does not sweep by itself"))'
    sql_any "SET GLOBAL event_scheduler = OFF"
    run -0 --separate-stderr rl init --event --every=1s
    [[ "$stderr" == "rowlock: the server runs no events now"*"SET GLOBAL event_scheduler = ON"* ]]
    # The command does not switch the scheduler on.
    [ "$(sql_any "SELECT @@global.event_scheduler")" = OFF ]
    finding '.level == "care" and (.found | contains("event_scheduler is off")) and (.remedy | contains("SET GLOBAL event_scheduler = ON;"))'
    rl doctor | grep -q '^care *event *.*event_scheduler is off; it has never run'
    sql_any "SET GLOBAL event_scheduler = ON"
    ran_again
    sql "ALTER EVENT rowlock_sweep DISABLE"
    finding '.level == "care" and (.found | contains("is DISABLED; it ran last ")) and (.remedy | contains("ALTER EVENT rowlock_sweep ENABLE;"))'
    sql "ALTER EVENT rowlock_sweep ENABLE"
    sql "DROP PROCEDURE rl_quiet"
    poll finding '.level == "care" and (.found | contains("has failed ")) and (.found | contains("rl_quiet"))'
    rl init | grep -q '^procedures installed: 1 of '
    poll finding '.level == "fine"'
    anew_and_idle
    finding '.level == "fine" and (.found | contains("; last "))'
    a_day_ago
    finding '.level == "care" and (.found | test("is to run every 3600 s, and it ran last 864[0-9]{2} s ago"))'
}

# a_day_ago [ASSIGNMENT,]: moves all that the event has noted of itself into the past.
a_day_ago() {
    sql "UPDATE sweep_event SET ${1:-} installed_at = installed_at - INTERVAL 1 DAY, started_at = started_at - INTERVAL 1 DAY,
                ended_at = ended_at - INTERVAL 1 DAY"
}

# Makes the event anew; it has run once, and does not again for an hour.
anew_and_idle() {
    rl init -q --remove-event
    rl init -q --event --every=1h
    poll has_run
}

# After ALTER EVENT and DROP EVENT; and for a user that cannot see the event.
@test "doctor: an event that was altered or dropped by hand; one that is hidden" {
    anew_and_idle
    finding '.level == "fine" and (.found | contains("every 3600 s; last "))'
    sql "ALTER EVENT rowlock_sweep ON SCHEDULE EVERY 30 MINUTE STARTS CURRENT_TIMESTAMP + INTERVAL 1 HOUR"
    finding '.level == "fine" and (.found | contains("every 1800 s; last "))'
    # It is late by its real schedule, not by the one that was noted.
    a_day_ago "every_s = 86400,"
    finding '.level == "care" and (.found | contains("is to run every 1800 s, and it ran last 864"))'
    anew_and_idle
    finding '.level == "fine" and (.found | contains("; last "))'
    new_user a "SELECT ON \`$TEST_SCHEMA\`.*"
    hidden
    sql "ALTER EVENT rowlock_sweep DISABLE"
    hidden
    sql_any "GRANT EVENT ON \`$TEST_SCHEMA\`.* TO '$(user_of a)'@'localhost'"
    doctor_of_user '.level == "care" and (.found | contains("is DISABLED; it ran last "))'
    sql "ALTER EVENT rowlock_sweep DISABLE ON /*M! SLAVE */ /*!80200 REPLICA */"
    finding '.level == "care" and (.found | contains("SIDE_DISABLED; it ran last ")) and (.follows | contains("at another server"))'
    sql "DROP EVENT rowlock_sweep"
    doctor_of_user '.level == "care" and (.found | contains("is not there any more; it ran last ")) and (.remedy | contains("init --event"))'
    finding '.level == "care" and (.found | contains("is not there any more; it ran last "))'
    rl init -q --remove-event
    finding '.level == "fine" and (.found | contains("does not sweep by itself"))'
}

# doctor_of_user FILTER: the doctor's finding on the event, for that user.
doctor_of_user() {
    rl_as a doctor --json >"$BATS_TEST_TMPDIR/findings" || [ "$?" -eq 1 ]
    json "[.[] | select(.check == \"event\")] | length == 1 and (.[0] | $1)" <"$BATS_TEST_TMPDIR/findings"
}

hidden() {
    doctor_of_user '.level == "note" and (.found | contains("hidden from this user")) and (.remedy | contains("EVENT"))'
}

# A replica, say: its rows, and its event, are the primary's. read_only does not stop root, and rowlock does.
@test "a server that takes no writes does not sweep; nothing is installed or removed there" {
    anew_and_idle
    killed_holder kept --ttl=1h
    new_user a "ALL ON \`$TEST_SCHEMA\`.*"
    sql_any "SET GLOBAL read_only = ON"
    before=$(runs)
    sql "CALL rl_sweep(0, 1000000, 0)"
    [ "$(runs)" -eq "$before" ]
    finding '.level == "fine" and (.found | startswith("another server sweeps every 3600 s; last "))'
    for wrong in "init --event" "init --remove-event" "init -D ${TEST_SCHEMA}_none"; do
        # shellcheck disable=SC2086
        run -73 rl $wrong
        [[ "$output" == *"nothing is changed here, by whatever user"* ]]
    done
    mkdir "$BATS_TEST_TMPDIR/files"
    echo "CREATE TABLE no_such (i INT);" >"$BATS_TEST_TMPDIR/files/0001_no.sql"
    run -73 rl migrate --into="$TEST_SCHEMA" "$BATS_TEST_TMPDIR/files"
    [[ "$output" == *"nothing is changed here, by whatever user"* ]]
    [ "$(sql "SELECT COUNT(*) FROM resource WHERE resource_name LIKE 'migrate:%'")" -eq 0 ]
    for wrong in sweep "break kept" "run other true"; do
        # shellcheck disable=SC2086
        fails 73 "*" rl_as a $wrong
    done
    finding '.level == "fine"'
    # It shows the primary's notes, which are old.
    a_day_ago
    finding '.level == "care" and (.found | contains("does not: it ran last 864")) and (.remedy | startswith("at the primary: "))'
}

# The grants of sql/grants.sql: those for init, and those for the event.
@test "harmful defaults, the rights in sql/grants.sql: it is installed, runs and is removed; its user is gone" {
    sql_any "SET GLOBAL autocommit = OFF, GLOBAL sql_safe_updates = ON"
    new_user a
    sql_any "$(sed -nE "/GRANT (CREATE|EVENT),/ { s/^-- //; s/\`rowlock\`/\`$TEST_SCHEMA\`/; s/'rowlock_admin'/'$(user_of a)'/p }" \
        "$BATS_TEST_DIRNAME/../../sql/grants.sql")"
    rl init -q --remove-procedures
    rl_as a init -q --event --every=1s --history=1s --unused=1s
    killed_holder dead-lease-too --ttl=12s
    killed_holder dead-row-too --mode=pessimistic --ttl=12s
    poll purged_too
    ran_again
    finding '.level == "fine"'
    rl_as a init -q --remove-event --remove-procedures
    finding '.found | contains("does not sweep by itself")'
    rl_as a init -q --event --every=1h
    sql_any "DROP USER '$(user_of a)'@'localhost'"
    finding ".level == \"care\" and (.found | contains(\"$(user_of a)@localhost\")) and (.remedy | contains(\"init --event\"))"
    rl init -q --event --every=1h
    finding '.level == "fine"'
}

purged_too() {
    [ "$(sql "SELECT COUNT(*) FROM resource WHERE resource_name LIKE 'dead-%-too'")" -eq 0 ]
}

@test "the privilege EVENT is named where it is missing; who may not look is told so" {
    new_user a "ALL ON \`$TEST_SCHEMA\`.*"
    sql_any "REVOKE EVENT ON \`$TEST_SCHEMA\`.* FROM '$(user_of a)'@'localhost'"
    rl init -q --event --every=2s
    run -77 rl_as a init --event
    [[ "$output" == *"GRANT EVENT"*"ON \`$TEST_SCHEMA\`.*"* ]]
    # Nothing was changed, not even the schedule that the doctor compares with.
    [ "$(sql "SELECT every_s FROM sweep_event")" = 2 ]
    new_user a "SELECT ON \`$TEST_SCHEMA\`.resource" "SELECT ON \`$TEST_SCHEMA\`.rowlock_schema_version"
    run rl_as a doctor --json
    json "any(.[]; .check == \"event\" and .level == \"note\" and .remedy == \"where \`rowlock init --event\` was run, the right SELECT on \`$TEST_SCHEMA\`.sweep_event\")" <<<"$output"
}

@test "the procedures stay as long as the event needs them" {
    rl init -q --event
    run -64 rl init --remove-procedures
    [[ "$output" == *"init --remove-event"* ]]
    rl init --remove-event --remove-procedures >"$BATS_TEST_TMPDIR/out"
    grep -q '^event removed' "$BATS_TEST_TMPDIR/out"
    grep -q '^procedures removed' "$BATS_TEST_TMPDIR/out"
    finding '.found | contains("does not sweep by itself")'
    rl init --remove-event | grep -q '^there was no event'
}
