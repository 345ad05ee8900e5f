#!/usr/bin/env bats
# `rowlock init --event`: the server sweeps by itself. What the doctor says of it.

bats_require_minimum_version 1.5.0
load helpers

setup_file() {
    rowlock_setup_file
    SCHEDULER=$(sql_any "SELECT @@global.event_scheduler")
    export SCHEDULER
}

teardown_file() {
    sql_any "SET GLOBAL event_scheduler = $SCHEDULER"
    rowlock_teardown_file
}

setup() {
    sql_any "SET GLOBAL event_scheduler = ON"
}

teardown() {
    touch "$BATS_TEST_TMPDIR/end"
    sql_any "SET GLOBAL read_only = OFF; SET GLOBAL autocommit = ON"
    rl init -q --remove-event
    sql_any "DROP USER IF EXISTS '$(user_of a)'@'localhost'"
}

user_of() {
    echo "${TEST_SCHEMA: -20}_$1"
}

as_user() {
    "$ROWLOCK" --no-defaults -S "$ROWLOCK_TEST_SOCKET" -u "$(user_of a)" -D "$TEST_SCHEMA" "$@"
}

# finding FILTER: what the doctor says of the event.
finding() {
    rl doctor --json | jq -e "[.[] | select(.check == \"event\")] | length == 1 and (.[0] | $1)"
}

runs() {
    sql "SELECT runs FROM sweep_event"
}

# ran_again: the event has run once more, from beginning to end, since this was called.
ran_again() {
    local before
    before=$(runs)
    poll 60 more_than_one_since "$before"
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

# A holder that is killed with all that belongs to it. Nobody else looks at the lock.
killed_holder() {
    rl_exec run "${@:2}" "$1" -- sh -c 'touch "$0"; sleep 600' "$BATS_TEST_TMPDIR/$1" 3>&- &
    holder=$!
    poll 30 test -e "$BATS_TEST_TMPDIR/$1"
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
    poll 30 test -e "$BATS_TEST_TMPDIR/alive"
    killed_holder dead-lease --ttl=4s
    killed_holder dead-row --mode=pessimistic --ttl=4s
    poll 60 is_free dead-lease
    poll 60 is_free dead-row
    expired_once dead-lease
    expired_once dead-row
    [ "$(sql "SELECT GROUP_CONCAT(resource_name ORDER BY 1) FROM resource WHERE status = 'held'")" = alive,alive-lease ]
    touch "$BATS_TEST_TMPDIR/end"
    wait "$alive" "$lease"
    # The next token is above the dead one's.
    [ "$(rl run dead-lease -- sh -c 'echo "$ROWLOCK_TOKEN"')" -gt 2 ]
    # In the midst of a run it says that one began.
    poll 60 finding '.level == "fine" and (.found | startswith("the server sweeps every 1 s; last "))'
    poll 60 eval "rl doctor | grep -q '^fine *event *the server sweeps every 1 s; last '"
}

@test "the event forgets old history, and purges names that were unused, above whose tokens new ones begin" {
    for i in 1 2 3 4 5; do rl run "unused-$i" true; done
    sql "UPDATE resource SET version = 41 WHERE resource_name = 'unused-3'"
    rl init -q --event --every=1s --history=1s --history-rows=1 --unused=1s
    poll 60 all_gone
    [ "$(rl run unused-3 -- sh -c 'echo "$ROWLOCK_TOKEN"')" -gt 41 ]
    # Again, with other limits: a change. What is recent stays then.
    rl init -q --event --every=1s --history=forever --unused=never
    rl run recent true
    ran_again
    [ "$(rl history recent --json | jq length)" -eq 2 ]
    [ "$(sql "SELECT COUNT(*) FROM resource WHERE resource_name = 'recent'")" -eq 1 ]
}

all_gone() {
    [ "$(sql "SELECT COUNT(*) FROM resource WHERE resource_name LIKE 'unused-%'") $(sql "SELECT COUNT(*) <= 1 FROM lock_event")" = "0 1" ]
}

@test "several sweepers at once: each dead lease is freed once" {
    rl init -q --event --every=1s
    sql "INSERT INTO resource (resource_name, kind, status, version, owner, owner_label, acquired_at, lease_expires_at, update_time)
         SELECT CONCAT('many-', a.n * 25 + b.n), 'optimistic', 'held', 7, 'owner', 'dead', UTC_TIMESTAMP(6), '2020-01-01', UTC_TIMESTAMP(6)
           FROM JSON_TABLE('[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15]', '\$[*]' COLUMNS (n INT PATH '\$')) a,
                JSON_TABLE('[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24]', '\$[*]' COLUMNS (n INT PATH '\$')) b;
         INSERT INTO lease_renewal (id) SELECT id FROM resource WHERE resource_name LIKE 'many-%'"
    rl sweep --json >"$BATS_TEST_TMPDIR/one" 3>&- &
    one=$!
    rl sweep --json >"$BATS_TEST_TMPDIR/two" 3>&- &
    two=$!
    # And as the event does, at the same moment.
    sql "CALL rl_sweep(0, 1000000, 0)" 3>&- &
    three=$!
    wait "$one" "$two" "$three"
    poll 60 none_held
    [ "$(sql "SELECT COUNT(*), COUNT(DISTINCT resource_name), MIN(version), MAX(version) FROM lock_event WHERE resource_name LIKE 'many-%'")" = $'400\t400\t7\t7' ]
    [ "$(sql "SELECT MIN(version), MAX(version) FROM resource WHERE resource_name LIKE 'many-%'")" = $'8\t8' ]
}

none_held() {
    [ "$(sql "SELECT COUNT(*) FROM resource WHERE resource_name LIKE 'many-%' AND status = 'held'")" -eq 0 ]
}

@test "a run that is not over is not joined by another" {
    rl init -q --event --every=24h
    poll 60 has_run
    before=$(runs)
    bell=$(sql "SELECT SUBSTRING_INDEX(SUBSTRING_INDEX(routine_definition, 'GET_LOCK(''', -1), '''', 1)
                  FROM information_schema.routines WHERE routine_schema = DATABASE() AND routine_name = 'rl_sweep_alone'")
    [[ "$bell" == *sweep ]]
    mkfifo "$BATS_TEST_TMPDIR/in"
    mariadb --defaults-file="$TEST_OPTIONS" -n -N -B "$TEST_SCHEMA" <"$BATS_TEST_TMPDIR/in" >"$BATS_TEST_TMPDIR/out" 3>&- &
    other=$!
    exec 8>"$BATS_TEST_TMPDIR/in"
    echo "SELECT GET_LOCK('$bell', 20);" >&8
    poll 20 grep -qx 1 "$BATS_TEST_TMPDIR/out"
    sql "CALL rl_sweep(0, 1000000, 0)"
    during=$(runs)
    exec 8>&-
    wait "$other"
    [ "$during" -eq "$before" ]
    poll 20 swept_after "$before"
}

# The server takes a moment to see that the other one has gone.
swept_after() {
    sql "CALL rl_sweep(0, 1000000, 0)"
    (($(runs) > $1))
}

@test "doctor: no event; one that nobody runs, that is disabled, that fails, that does not come" {
    finding '.level == "fine" and (.found | contains("does not sweep by itself"))'
    sql_any "SET GLOBAL event_scheduler = OFF"
    run --separate-stderr rl init --event --every=1s
    [ "$status" -eq 0 ]
    [[ "$stderr" == "rowlock: the server runs no events now"*"SET GLOBAL event_scheduler = ON"* ]]
    # It does not switch it on.
    [ "$(sql_any "SELECT @@global.event_scheduler")" = OFF ]
    finding '.level == "care" and (.found | contains("event_scheduler is off")) and (.remedy | contains("SET GLOBAL event_scheduler = ON;"))'
    rl doctor | grep -q '^care *event *.*event_scheduler is off; it has never run'
    sql_any "SET GLOBAL event_scheduler = ON"
    ran_again
    sql "ALTER EVENT rowlock_sweep DISABLE"
    finding '.level == "care" and (.found | contains("is DISABLED; it ran last ")) and (.remedy | contains("ALTER EVENT rowlock_sweep ENABLE;"))'
    sql "ALTER EVENT rowlock_sweep ENABLE"
    sql "DROP PROCEDURE rl_quiet"
    poll 60 finding '.level == "care" and (.found | contains("has failed ")) and (.found | contains("rl_quiet"))'
    rl init | grep -q '^procedures installed: 1 of '
    poll 60 finding '.level == "fine"'
    anew_and_idle
    finding '.level == "fine" and (.found | contains("; last "))'
    sql "UPDATE sweep_event SET installed_at = installed_at - INTERVAL 1 DAY, started_at = started_at - INTERVAL 1 DAY,
                ended_at = ended_at - INTERVAL 1 DAY"
    finding '.level == "care" and (.found | test("is to run every 3600 s, and it ran last 864[0-9]{2} s ago"))'
}

# An event that has run once, and does not again before an hour is over.
anew_and_idle() {
    rl init -q --remove-event
    rl init -q --event --every=1h
    poll 60 has_run
}

# What ALTER EVENT and DROP EVENT made of it, and what a user is told who cannot see it.
@test "doctor: an event that was altered or dropped by hand; one that is hidden" {
    anew_and_idle
    finding '.level == "fine" and (.found | contains("every 3600 s; last "))'
    sql "ALTER EVENT rowlock_sweep ON SCHEDULE EVERY 30 MINUTE STARTS CURRENT_TIMESTAMP + INTERVAL 1 HOUR"
    finding '.level == "fine" and (.found | contains("every 1800 s; last "))'
    # Late by its own schedule, not by the one that was noted.
    sql "UPDATE sweep_event SET every_s = 86400, installed_at = installed_at - INTERVAL 1 DAY,
                started_at = started_at - INTERVAL 1 DAY, ended_at = ended_at - INTERVAL 1 DAY"
    finding '.level == "care" and (.found | contains("is to run every 1800 s, and it ran last 864"))'
    anew_and_idle
    finding '.level == "fine" and (.found | contains("; last "))'
    sql_any "CREATE USER '$(user_of a)'@'localhost'; GRANT SELECT ON \`$TEST_SCHEMA\`.* TO '$(user_of a)'@'localhost'"
    hidden
    sql "ALTER EVENT rowlock_sweep DISABLE"
    hidden
    sql_any "GRANT EVENT ON \`$TEST_SCHEMA\`.* TO '$(user_of a)'@'localhost'"
    his '.level == "care" and (.found | contains("is DISABLED; it ran last "))'
    sql "ALTER EVENT rowlock_sweep DISABLE ON /*M! SLAVE */ /*!80200 REPLICA */"
    finding '.level == "care" and (.found | contains("SIDE_DISABLED; it ran last ")) and (.follows | contains("at another server"))'
    sql "DROP EVENT rowlock_sweep"
    his '.level == "care" and (.found | contains("is not there any more; it ran last ")) and (.remedy | contains("init --event"))'
    finding '.level == "care" and (.found | contains("is not there any more; it ran last "))'
    rl init -q --remove-event
    finding '.level == "fine" and (.found | contains("does not sweep by itself"))'
}

# his FILTER: what the doctor says of the event to that user.
his() {
    as_user doctor --json >"$BATS_TEST_TMPDIR/his" || [ "$?" -eq 1 ]
    jq -e "[.[] | select(.check == \"event\")] | length == 1 and (.[0] | $1)" "$BATS_TEST_TMPDIR/his"
}

hidden() {
    his '.level == "note" and (.found | contains("hidden from this user")) and (.remedy | contains("EVENT"))'
}

# A replica, say: its rows, and its event, are the primary's. read_only does not stop root, and rowlock does.
@test "a server that takes no writes does not sweep; nothing is installed or removed there" {
    anew_and_idle
    sql_any "SET GLOBAL read_only = ON"
    before=$(runs)
    sql "CALL rl_sweep(0, 1000000, 0)"
    [ "$(runs)" -eq "$before" ]
    finding '.level == "fine" and (.found | startswith("another server sweeps every 3600 s; last "))'
    for wrong in "init --event" "init --remove-event" "init -D ${TEST_SCHEMA}_none"; do
        # shellcheck disable=SC2086
        run rl $wrong
        [ "$status" -eq 73 ]
        [[ "$output" == *"nothing is changed here, by whatever user"* ]]
    done
    finding '.level == "fine"'
    # It shows what the primary noted, and that was long ago.
    sql "UPDATE sweep_event SET installed_at = installed_at - INTERVAL 1 DAY, started_at = started_at - INTERVAL 1 DAY,
                ended_at = ended_at - INTERVAL 1 DAY"
    finding '.level == "care" and (.found | contains("does not: it ran last 864")) and (.remedy | startswith("at the primary: "))'
}

@test "with autocommit off by default, the runs are noted and the dead are freed" {
    sql_any "SET GLOBAL autocommit = OFF"
    rl init -q --event --every=1s
    killed_holder dead-off --ttl=4s
    poll 60 is_free dead-off
    ran_again
}

@test "doctor: an event whose user is gone" {
    sql_any "CREATE USER '$(user_of a)'@'localhost'; GRANT ALL ON \`$TEST_SCHEMA\`.* TO '$(user_of a)'@'localhost'"
    as_user init -q --event --every=1h
    finding '.level == "fine"'
    sql_any "DROP USER '$(user_of a)'@'localhost'"
    finding ".level == \"care\" and (.found | contains(\"$(user_of a)@localhost\")) and (.remedy | contains(\"init --event\"))"
    rl init -q --event --every=1h
    finding '.level == "fine"'
}

@test "the privilege EVENT is named where it is missing; who may not look is told so" {
    sql_any "CREATE USER '$(user_of a)'@'localhost'; GRANT ALL ON \`$TEST_SCHEMA\`.* TO '$(user_of a)'@'localhost';
             REVOKE EVENT ON \`$TEST_SCHEMA\`.* FROM '$(user_of a)'@'localhost'"
    rl init -q --event --every=2s
    run as_user init --event
    [ "$status" -eq 77 ]
    [[ "$output" == *"GRANT EVENT"*"ON $TEST_SCHEMA.*"* ]]
    # It has changed nothing: not what the doctor measures the event by, either.
    [ "$(sql "SELECT every_s FROM sweep_event")" = 2 ]
    sql_any "REVOKE ALL ON \`$TEST_SCHEMA\`.* FROM '$(user_of a)'@'localhost'; GRANT SELECT ON \`$TEST_SCHEMA\`.resource TO '$(user_of a)'@'localhost';
             GRANT SELECT ON \`$TEST_SCHEMA\`.rowlock_schema_version TO '$(user_of a)'@'localhost'"
    run as_user doctor --json
    jq -e "any(.[]; .check == \"event\" and .level == \"note\" and .remedy == \"GRANT SELECT ON \`$TEST_SCHEMA\`.sweep_event TO '$(user_of a)'@'localhost';\")" <<<"$output"
}

@test "the procedures stay as long as the event needs them; wrong usage: 64" {
    rl init -q --event
    run rl init --remove-procedures
    [ "$status" -eq 64 ]
    [[ "$output" == *"init --remove-event"* ]]
    rl init --remove-event --remove-procedures >"$BATS_TEST_TMPDIR/out"
    grep -q '^event removed' "$BATS_TEST_TMPDIR/out"
    grep -q '^procedures removed' "$BATS_TEST_TMPDIR/out"
    finding '.found | contains("does not sweep by itself")'
    rl init --remove-event | grep -q '^there was no event'
    for wrong in "--event --remove-event" "--event --remove-procedures" "--every=1m" "--event --every=1500ms" "--event --every=25h" "--event --every=0"; do
        # shellcheck disable=SC2086
        run rl init $wrong
        [ "$status" -eq 64 ]
    done
}

# As sql/grants.sql has them: what init needs, and what the event takes beside that.
@test "the rights in sql/grants.sql are enough to install the event, for its runs, and to remove it" {
    sql_any "CREATE USER '$(user_of a)'@'localhost'"
    grep -hE "^(-- )?GRANT .*'rowlock_admin'@" "$BATS_TEST_DIRNAME/../../sql/grants.sql" |
        grep -E 'GRANT (CREATE|EVENT),' | sed "s/^-- //; s/\`rowlock\`/\`$TEST_SCHEMA\`/; s/'rowlock_admin'/'$(user_of a)'/" >"$BATS_TEST_TMPDIR/grants"
    [ "$(wc -l <"$BATS_TEST_TMPDIR/grants")" -eq 2 ]
    sql_any "$(cat "$BATS_TEST_TMPDIR/grants")"
    rl init -q --remove-procedures
    as_user init -q --event --every=1s --history=1s --unused=1s
    killed_holder dead-lease-too --ttl=4s
    killed_holder dead-row-too --mode=pessimistic --ttl=4s
    poll 60 purged_too
    finding '.level == "fine"'
    as_user init -q --remove-event --remove-procedures
    finding '.found | contains("does not sweep by itself")'
}

purged_too() {
    [ "$(sql "SELECT COUNT(*) FROM resource WHERE resource_name LIKE 'dead-%-too'")" -eq 0 ]
}
