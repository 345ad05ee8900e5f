#!/usr/bin/env bats
# rowlock bench: what it prints, and that it leaves nothing behind. What it measures is
# tests/unit/measure.c's.

bats_require_minimum_version 1.5.0
load helpers

setup_file() {
    rowlock_setup_file
    # Somebody's own lock that nobody uses now: not bench's to touch.
    rl run mine true
    export EVENTS=$(sql "SELECT COUNT(*) FROM lock_event")
}

teardown_file() {
    rowlock_teardown_file
}

left_behind() {
    sql "SELECT COUNT(*) FROM resource WHERE resource_name <> 'mine'"
    sql "SELECT COUNT(*) FROM resource_lock WHERE resource_name <> 'mine'"
    sql "SELECT COUNT(*) FROM lease_renewal l LEFT JOIN resource r ON r.id = l.id WHERE r.id IS NULL"
}

nothing_is_left() {
    left_behind
    [ "$(left_behind)" = $'0\n0\n0' ]
    [ "$(rl ls -a --json | jq -r '.[].name')" = mine ]
    [ "$(sql "SELECT COUNT(*) FROM lock_event")" = "$EVENTS" ]
}

# A bench is measuring when one of its names is there.
is_measuring() {
    [ "$(sql "SELECT COUNT(*) FROM resource WHERE resource_name LIKE 'rowlock-bench/%'")" -gt 0 ]
}

# wrong ARGUMENTS...: is wrong usage, and says what about.
wrong() {
    run --separate-stderr rl bench "$@"
    echo "$* -> $status $stderr"
    [ "$status" -eq 64 ] && [ -z "$output" ] && [[ $stderr == "rowlock: ${1%%=*} wants "* ]]
}

@test "--json: every mode, both kinds of names, each number of clients" {
    # A window in which the machine stood still has no turns: all is measured anew, some times.
    for _ in 1 2 3 4 5; do
        run --separate-stderr rl bench --seconds 0.2 --clients 1,2 --json
        echo "$output" "$stderr"
        [ "$status" -eq 0 ]
        ! jq -e 'all(.[]; .cycles > 0)' <<<"$output" || break
    done
    [ -z "$stderr" ]
    [ "$(jq length <<<"$output")" -eq 16 ]
    jq -r '.[] | "\(.lock) \(.mode) \(.names) \(.clients)"' <<<"$output" | sort -u >"$BATS_TEST_TMPDIR/rows"
    [ "$(wc -l <"$BATS_TEST_TMPDIR/rows")" -eq 16 ]
    [ "$(cut -d ' ' -f 1,2 <"$BATS_TEST_TMPDIR/rows" | sort -u | tr '\n' ,)" = \
        "rowlock-fenced pessimistic,rowlock-lease lease,rowlock-lease-poll lease,rowlock-unfenced pessimistic," ]
    # Turns were taken, and the figures agree with each other.
    jq -e 'all(.[]; .cycles > 0 and .window_ms == 200 and
                    (.cycles_per_second - .cycles * 5 | fabs) < 1 and
                    .acquire_p50_us > 0 and .acquire_p50_us <= .acquire_p99_us and
                    .acquire_p99_us <= .acquire_p999_us)' <<<"$output"
    # Only where several want one name it changes hands.
    jq -e 'all(.[]; (.names == "hot" and .clients > 1) or .hand_over_p50_us == null)' <<<"$output"
    jq -e 'all(.[] | select(.names == "hot" and .clients == 2 and .mode == "pessimistic");
               .hand_over_p50_us > 0 and .fairness >= 1)' <<<"$output"
    nothing_is_left
}

@test "a table for people; only what was asked for" {
    run --separate-stderr rl bench --seconds 50ms --clients 2 --mode pessimistic --names hot
    echo "$output" "$stderr"
    [ "$status" -eq 0 ]
    [ -z "$stderr" ]
    [ "${#lines[@]}" -eq 3 ]
    [[ ${lines[0]} == LOCK*NAMES*CLIENTS*CYCLES/S*ACQUIRE*HAND-OVER*FAIRNESS ]]
    [[ ${lines[1]} =~ ^"rowlock pessimistic, no fencing"\ +hot\ +2\ +[0-9]+\  ]]
    [[ ${lines[2]} =~ ^"rowlock pessimistic, fencing"\ +hot\ +2\ +[0-9]+\  ]]
    run --separate-stderr rl bench --seconds 50ms --clients 1 --mode lease --names distinct --waiting=poll --json
    [ "$(jq -r '.[].lock' <<<"$output")" = rowlock-lease-poll ]
    nothing_is_left
}

@test "on a terminal: a line of progress that goes away" {
    on_terminal 150 "$ROWLOCK" --defaults-file="$TEST_OPTIONS" -D "$TEST_SCHEMA" bench --seconds 50ms \
        --clients 1 --mode lease --names distinct >"$BATS_TEST_TMPDIR/terminal"
    cat -v "$BATS_TEST_TMPDIR/terminal"
    grep -q '1 of 2: rowlock lease' "$BATS_TEST_TMPDIR/terminal"
    grep -q '2 of 2: rowlock lease' "$BATS_TEST_TMPDIR/terminal"
    # Each is erased: what stands in its line is what was written last.
    ! sed 's/.*\x1b\[K//' "$BATS_TEST_TMPDIR/terminal" | grep ' of 2: '
}

@test "SIGINT and SIGTERM: it cleans up, says what it has, and ends by the signal" {
    for signal in INT TERM; do
        # In a process group of its own, to which ^C would go; a shell's background job would
        # start with SIGINT ignored.
        setsid env --default-signal=INT "$ROWLOCK" --defaults-file="$TEST_OPTIONS" -D "$TEST_SCHEMA" bench --seconds 60 --clients 3 \
            --mode pessimistic --json >"$BATS_TEST_TMPDIR/output" 2>"$BATS_TEST_TMPDIR/error" &
        pid=$!
        poll 20 is_measuring
        kill "-$signal" -- "-$pid"
        status=0
        wait "$pid" || status=$?
        echo "$signal: $status"
        cat "$BATS_TEST_TMPDIR/error"
        [ "$status" -eq $((128 + $(kill -l "$signal"))) ]
        [ "$(jq length <"$BATS_TEST_TMPDIR/output")" -eq 0 ]
        [ ! -s "$BATS_TEST_TMPDIR/error" ]
        nothing_is_left
    done
}

@test "clients that are killed: it says so, fails, and cleans up" {
    rl_exec bench --seconds 60 --clients 2 --mode lease --names distinct >"$BATS_TEST_TMPDIR/output" \
        2>"$BATS_TEST_TMPDIR/error" &
    pid=$!
    poll 20 is_measuring
    kill -KILL $(ps -o pid= --ppid "$pid")
    status=0
    wait "$pid" || status=$?
    cat "$BATS_TEST_TMPDIR/error"
    [ "$status" -eq 1 ]
    grep -qx 'rowlock: rowlock lease, bell, distinct, 2 clients: 2 of 2 clients failed: ended by signal 9' \
        "$BATS_TEST_TMPDIR/error"
    nothing_is_left
}

@test "its own death ends its clients" {
    rl_exec bench --seconds 60 --clients 2 --names hot --mode pessimistic >/dev/null 2>&1 &
    pid=$!
    poll 20 is_measuring
    children=$(ps -o pid= --ppid "$pid")
    [ -n "$children" ]
    kill -KILL "$pid"
    wait "$pid" || true
    for child in $children; do
        poll 10 is_gone "$child"
    done
    sql "DELETE r, q FROM resource r LEFT JOIN resource_lock q ON q.id = r.id WHERE r.resource_name <> 'mine'"
}

is_gone() {
    ! kill -0 "$1" 2>/dev/null
}

@test "--via=procedures: what is measured goes through them, the names are removed from the tables" {
    user="${TEST_SCHEMA: -20}_via"
    rl init -q --procedures
    sql_any "CREATE USER '$user'@'localhost'; GRANT EXECUTE ON \`$TEST_SCHEMA\`.* TO '$user'@'localhost'"
    run rl -u "$user" --via=procedures bench --seconds 50ms --clients 1
    [ "$status" -eq 77 ]
    [[ "$output" == "rowlock: bench removes its names when it is done, and this user may not: "* ]]
    # Without INSERT it can take no lock but through the procedures.
    sql_any "GRANT SELECT, UPDATE, DELETE ON \`$TEST_SCHEMA\`.* TO '$user'@'localhost'"
    rl -u "$user" --via=procedures bench --seconds 200ms --clients 1 --names distinct --json >"$BATS_TEST_TMPDIR/via"
    run ! rl -u "$user" bench --seconds 50ms --clients 1
    sql_any "DROP USER '$user'@'localhost'"
    rl init -q --remove-procedures
    [ "$(jq length "$BATS_TEST_TMPDIR/via")" -eq 4 ]
    nothing_is_left
}

@test "who may take locks and not remove names: refused before there are any" {
    user="${TEST_SCHEMA: -20}_taker"
    sql_any "CREATE USER '$user'@'localhost'; GRANT SELECT, INSERT, UPDATE ON \`$TEST_SCHEMA\`.* TO '$user'@'localhost'"
    run rl -u "$user" bench --seconds 50ms --clients 1
    sql_any "GRANT DELETE ON \`$TEST_SCHEMA\`.* TO '$user'@'localhost'"
    [ "$status" -eq 77 ]
    [[ "$output" == "rowlock: bench removes its names when it is done, and this user may not: this user lacks a privilege: GRANT DELETE ON "* ]]
    nothing_is_left
    rl -u "$user" bench --seconds 50ms --clients 1 --mode lease --names distinct
    sql_any "DROP USER '$user'@'localhost'"
    nothing_is_left
}

@test "its help" {
    run --separate-stderr rl bench --help
    [ "$status" -eq 0 ]
    [ -z "$stderr" ]
    [[ "${lines[0]}" == "Usage: rowlock bench "* ]]
    run --separate-stderr rl help bench
    [[ "${lines[0]}" == "Usage: rowlock bench "* ]]
}

@test "wrong usage, and servers that are not there" {
    wrong --clients=0
    wrong --clients=257
    wrong --clients=1,
    wrong --clients=
    wrong --clients=1,2,3,4,5,6,7,8,9
    wrong --seconds=0.01
    wrong --seconds=61
    wrong --seconds=x
    wrong --mode=section
    wrong --names=cold
    run --separate-stderr rl bench extra
    [ "$status" -eq 64 ]
    run --separate-stderr rl bench -D no_such_schema_here
    [ "$status" -eq 78 ]
    [ "${#stderr_lines[@]}" -eq 1 ]
    run --separate-stderr rl bench -S /no/such/socket --connect-timeout=200ms
    [ "$status" -eq 69 ]
    [ "${#stderr_lines[@]}" -eq 1 ]
}
