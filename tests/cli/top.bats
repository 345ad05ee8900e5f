# rowlock top: live on a terminal, once elsewhere.

bats_require_minimum_version 1.5.0

load helpers
load run_helpers

# holds NAME: holds the lock until $D/let_go is there.
holds() {
    background run "$1" -- sh -c 'touch held; until [ -e let_go ]; do sleep 0.2; done'
    poll test -e held
}

# on_screen STEP... -- OPTION...: runs top on a terminal with these steps; returns its exit status.
on_screen() {
    local steps=()
    while [ "$1" != -- ]; do
        steps+=("$1")
        shift
    done
    shift
    python3 "$BATS_TEST_DIRNAME/terminal.py" "${steps[@]}" -- \
        "$ROWLOCK" --defaults-file="$TEST_OPTIONS" -D "$TEST_SCHEMA" top "$@" >screen
}

@test "top: under a pipe once, and as JSON" {
    works rl top
    [ -z "$output" ]
    holds "$L"
    rl_exec run "$L" -- true 3>&- &
    waiter=$!
    # It is in the queue, and top sees it.
    waits() { rl top --json | json '.[0].waiting == 1'; }
    poll waits
    rl top | grep -qE "^NAME +STATE +HELD +WAIT +HOLDER$"
    poll eval 'rl top | grep -qE "^$L +held +[0-9.]+m?s +1 +.* sh$"'
    rl top --json | json 'length == 1 and (.[0] | .state == "held" and .held_ms > 0 and (.holder | endswith(" sh")))'
    touch let_go
    ends_with 0
    wait "$waiter"
}

@test "top: on a terminal it shows what changes, takes keys, and leaves the terminal as it was" {
    on_screen 'wait:no lock is held' type:n 'wait:name\*' "until:$ROWLOCK --defaults-file=$TEST_OPTIONS -D $TEST_SCHEMA run --leave-children first -- true" \
        type:q -- --interval=200ms
    grep -q $'\e\\[?1049h' screen
    grep -q $'\e\\[?1049l' screen
    holds "$L"
    on_screen "wait:held 1  waiting 0" "wait:$L +held" type:w 'wait:waiting\*' type:r 'wait:rate\*' type:o 'wait:oldest\*' \
        "until:touch $D/let_go" 'wait:no lock is held' type:q -- --interval=200ms
    ends_with 0
    # CTRL-C ends it as q does.
    on_screen 'wait:no lock' 'type:\x03' --
    grep -q $'\e\\[?25h' screen
    # And CTRL-\.
    run -131 on_screen 'wait:no lock' 'type:\x1c' --
    grep -q $'\e\\[?25h' screen
}

@test "top: a server that goes away is said, and what was seen stays" {
    misused "*--interval*" rl top --interval=10ms
    fails 69 "*" "$ROWLOCK" --no-defaults -S "$TEST_DIR/no.sock" -u root top
}

@test "top: after looks that failed the rate is that of the whole time" {
    rl run counted true
    in_sql() { echo "until:mariadb --defaults-file=$TEST_OPTIONS $TEST_SCHEMA -e '$1'"; }
    # (The rate is 0 until the look that sees the 600, which comes 3 s after the one before.)
    on_screen 'wait:no lock is held' "$(in_sql 'RENAME TABLE lock_total TO away')" 'wait:the schema is missing' until:'sleep 3' \
        "$(in_sql 'UPDATE away SET holds = holds + 600; RENAME TABLE away TO lock_total')" 'wait:counted .* [0-9.]+/s' type:q -- --interval=200ms
    tr '\r' '\n' <screen | grep -aoE '^\S*counted .* [0-9.]+/s' | grep -oE '[0-9.]+/s$' >rates
    awk '$1 + 0 > 200 { print; bad = 1 } END { exit bad || NR == 0 }' rates
}

@test "top: a server that does not answer does not keep it; CTRL-Z gives the terminal back" {
    coproc sqlin { mariadb --defaults-file="$TEST_OPTIONS" -N -B -n "$TEST_SCHEMA" 3>&-; }
    into=${sqlin[1]} pid=$sqlin_PID shell=$BASHPID
    waits() { [ "$(sql "SELECT COUNT(*) FROM information_schema.processlist WHERE db = DATABASE() AND state LIKE '%metadata lock%'")" -gt 0 ]; }
    export -f waits sql
    TERMINAL_LIMIT=40 python3 "$BATS_TEST_DIRNAME/terminal.py" 'wait:no lock is held' 'type:\x1a' 'wait:1049l' \
        "until:grep -q '^State:.T' /proc/\$(cat top.pid)/status && kill -CONT \$(cat top.pid)" 'wait:1049h' 'wait:no lock is held' \
        "until:echo 'LOCK TABLES resource WRITE;' >/proc/$shell/fd/$into" until:waits 'type:\x03' -- \
        bash -c 'echo $$ >top.pid; exec "$@"' - "$ROWLOCK" --defaults-file="$TEST_OPTIONS" -D "$TEST_SCHEMA" top --interval=100ms --connect-timeout=300 >screen
    eval "exec $into>&-"
    wait "$pid"
    tail -c 40 screen | grep -qaF $'\e[?1049l'
}

@test "top: fits 60 columns, or 40, and 6 lines; the holder is there" {
    jobs=()
    for i in 1 2 3; do
        rl_exec run "a lock with a name that is much too long for so narrow a screen, $i" -- \
            sh -c 'until [ -e let_go ]; do sleep 0.2; done' 3>&- &
        jobs+=($!)
    done
    three() { [ "$(rl top --json | jq length)" = 3 ]; }
    poll three
    for columns in 60 40; do
        python3 "$BATS_TEST_DIRNAME/terminal.py" 'wait:oldest' 'wait:held 3 ' type:q -- \
            bash -c "stty cols $columns rows 6; exec \"\$@\"" - "$ROWLOCK" --defaults-file="$TEST_OPTIONS" -D "$TEST_SCHEMA" top --interval=100ms >screen
        # All screens that were drawn.
        tr -d '\r' <screen | sed 's/\x1b\[H/\n/g; s/\x1b\[[0-9;?]*[a-zA-Z]//g' >$columns
        awk "length > $columns - 1 { print; bad = 1 } END { exit bad }" $columns
    done
    touch let_go
    wait "${jobs[@]}"
    cat 40
    grep -qE "^a lock with .* held .* $(id -un)@" 60
    grep -qE "^a lock with .* [0-9.]+m?s +0 $(id -un)@" 40
}
