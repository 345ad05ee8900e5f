#!/usr/bin/env bats
# rowlock bench: what it prints, and that it leaves nothing behind. How it measures: tests/unit/measure.c.

load helpers

setup_file() {
    rowlock_setup_file
    # A user's free lock, which bench must not touch.
    rl run mine true
    export EVENTS=$(sql "SELECT COUNT(*) FROM lock_event")
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

# True while a bench measures: one of its names is there.
is_measuring() {
    [ "$(sql "SELECT COUNT(*) FROM resource WHERE resource_name LIKE 'rowlock-bench/%'")" -gt 0 ]
}

@test "--json: every mode, both kinds of names, each number of clients" {
    # If the machine stood still in a window, no client or only one had turns: then all is measured again.
    for _ in 1 2 3 4 5; do
        run -0 --separate-stderr rl bench --seconds 0.2 --clients 1,2 --json
        ! json 'all(.[]; .cycles > 0 and (.names != "hot" or .clients < 2 or .mode != "pessimistic" or .hand_over_p50_us))' \
            <<<"$output" || break
    done
    [ -z "$stderr" ]
    [ "$(jq length <<<"$output")" -eq 16 ]
    jq -r '.[] | "\(.lock) \(.mode) \(.names) \(.clients)"' <<<"$output" | sort -u >"$BATS_TEST_TMPDIR/rows"
    [ "$(wc -l <"$BATS_TEST_TMPDIR/rows")" -eq 16 ]
    [ "$(cut -d ' ' -f 1,2 <"$BATS_TEST_TMPDIR/rows" | sort -u | tr '\n' ,)" = \
        "rowlock-fenced pessimistic,rowlock-lease lease,rowlock-lease-poll lease,rowlock-unfenced pessimistic," ]
    # There were turns, and the figures agree with each other.
    json 'all(.[]; .cycles > 0 and .window_ms == 200 and
                   (.cycles_per_second - .cycles * 5 | fabs) < 1 and
                   .acquire_p50_us > 0 and .acquire_p50_us <= .acquire_p99_us and
                   .acquire_p99_us <= .acquire_p999_us)' <<<"$output"
    # A lock is handed over only if several clients want one name.
    json 'all(.[]; (.names == "hot" and .clients > 1) or .hand_over_p50_us == null)' <<<"$output"
    json 'all(.[] | select(.names == "hot" and .clients == 2 and .mode == "pessimistic");
               .hand_over_p50_us > 0 and .fairness >= 1)' <<<"$output"
    json 'all(.[]; .history == true)' <<<"$output"
    run -0 --separate-stderr rl bench --no-history --mode=lease --names=hot --seconds 0.05 --clients 1 --json
    json 'length == 2 and all(.[]; .history == false)' <<<"$output"
    nothing_is_left
}

@test "it fits 80 columns, and 60: what is measured, how often, how long; -o" {
    for columns in 80 60; do
        NO_COLOR=1 run -0 on_terminal $columns rl bench --seconds 50ms --clients 1,2 --names=hot 2>/dev/null
        # The line of progress does not wrap.
        sed 's/\x1b\[K/\n/g' <<<"$output" | grep ' to go' >"$BATS_TEST_TMPDIR/meanwhile"
        [ "$(wc -L <"$BATS_TEST_TMPDIR/meanwhile")" -lt $columns ]
        # (Here progress and figures are on the same terminal; the line of progress is erased.)
        printf '%s\n' "${lines[@]}" | sed 's/.*\x1b\[K//' | grep . >"$BATS_TEST_TMPDIR/shown"
        cat "$BATS_TEST_TMPDIR/shown"
        [ "$(wc -L <"$BATS_TEST_TMPDIR/shown")" -le $columns ]
        [[ "$(head -n 1 "$BATS_TEST_TMPDIR/shown")" =~ ^NAMES\ .*CYCLES/S\ .*ACQUIRE\ 50%.*\ LOCK$ ]]
        [ "$(awk 'NR > 1 { print $NF }' "$BATS_TEST_TMPDIR/shown" | sort -u | tr '\n' ' ')" = "fenced lease lease-poll unfenced " ]
    done
    run -0 --separate-stderr rl bench --seconds 50ms --clients 1 --names=hot --mode=lease -o lock,Cycles/s
    [[ "${lines[0]}" =~ ^LOCK\ +CYCLES/S$ ]]
    [ "${#lines[@]}" -eq 3 ]
    misused "-o: there is no column 'speed'; there are *cycles_per_second*" rl bench -o speed
    nothing_is_left
}

@test "SIGINT and SIGTERM: it cleans up, says what it has, and ends by the signal" {
    for signal in INT TERM; do
        # In a process group of its own, as for ^C; with the default for SIGINT, which a shell ignores in background
        # jobs.
        setsid env --default-signal=INT "$ROWLOCK" --defaults-file="$TEST_OPTIONS" -D "$TEST_SCHEMA" bench --seconds 60 --clients 3 \
            --mode pessimistic --json >"$BATS_TEST_TMPDIR/output" 2>"$BATS_TEST_TMPDIR/error" &
        pid=$!
        poll is_measuring
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

@test "its own death ends its clients" {
    rl_exec bench --seconds 60 --clients 2 --names hot --mode pessimistic >/dev/null 2>&1 3>&- &
    pid=$!
    poll is_measuring
    poll eval '[ "$(ps -o pid= --ppid "$pid" | wc -l)" -eq 2 ]'
    children=$(ps -o pid= --ppid "$pid")
    kill -KILL "$pid"
    wait "$pid" || true
    killed=$SECONDS
    # shellcheck disable=SC2086 # words
    poll are_gone $children
    ((SECONDS - killed < 40)) # not by the end of their minute
    sql "DELETE r, q FROM resource r LEFT JOIN resource_lock q ON q.id = r.id WHERE r.resource_name <> 'mine'"
}

are_gone() {
    ! kill -0 "$@"
}
