#!/usr/bin/env bats
# Who waits, as `ls` and `show` tell it.

bats_require_minimum_version 1.5.0
load helpers

setup_file() {
    rowlock_setup_file
    export TEST_USER="${TEST_SCHEMA: -20}_plain"
    find_bells
}

# How the names of this schema's bells begin, as a real waiter has it.
find_bells() {
    local text
    pids=()
    holds lease probe
    waits lease probe probe
    poll_slowly waiting_are probe 1
    text=$(sql_any "SELECT info FROM information_schema.processlist
                    WHERE db = '$TEST_SCHEMA' AND info LIKE 'SELECT GET\_LOCK(%'")
    text=${text#*\'}
    text=${text%%\'*}
    export BELLS=${text%"$(id_of probe)"}
    end_all
}

teardown_file() {
    rowlock_teardown_file
    sql_any "DROP USER IF EXISTS '$TEST_USER'@'localhost'"
}

setup() {
    pids=()
}

end_all() {
    local pid
    for pid in "${pids[@]}"; do
        kill "$pid" 2>/dev/null || true
        wait "$pid" || true
    done
}

teardown() {
    end_all
    # What a killed client left waiting in the server.
    sql_any "$(sql_any "SELECT CONCAT('KILL CONNECTION ', id, ';') FROM information_schema.processlist
                        WHERE (info LIKE '%$TEST_SCHEMA%' OR info LIKE '%$BELLS%') AND id <> CONNECTION_ID()")"
    sql "DELETE FROM resource; DELETE FROM resource_lock; DELETE FROM lease_renewal"
}

# holds MODE NAME: a process that has it until the test ends.
holds() {
    rl_exec run --mode="$1" --label="the holder" "$2" -- sleep 300 &
    pids+=($!)
    poll 20 state_is "$2" held
}

# waits MODE NAME LABEL: a process that waits for it.
waits() {
    rl_exec run --mode="$1" --label="$3" "$2" -- true &
    pids+=($!)
}

# The same as sql_any, in a process of its own.
sql_exec() {
    exec mariadb --defaults-file="$TEST_OPTIONS" --default-character-set=utf8mb4 -N -B -e "$*"
}

# at_bell ID WAITED_MS LABEL: a statement as a waiter of the lease runs it.
at_bell() {
    local hex
    hex=$(printf %s "$3" | od -An -v -tx1 | tr -d ' \n')
    sql_exec "SELECT GET_LOCK('$BELLS$1', 300), 'rowlock-waiter', $1, $2, 'uuid.1', '$hex'" >/dev/null &
    pids+=($!)
}

# hold_bell ID: that somebody has the bell, whether the lease's holder took it or not.
hold_bell() {
    sql_exec "DO GET_LOCK('$BELLS$1', 300); DO SLEEP(300), '$TEST_SCHEMA'" &
    pids+=($!)
    poll 20 bell_is_held "$1"
}

bell_is_held() {
    [ "$(sql_any "SELECT IS_USED_LOCK('$BELLS$1') IS NOT NULL")" = 1 ]
}

id_of() {
    sql "SELECT id FROM resource WHERE resource_name = '$1'"
}

# waiting_are NAME COUNT: for poll_slowly.
waiting_are() {
    [ "$(rl show --json "$1" | jq '.waiters | length')" -eq "$2" ]
}

# MariaDB renews what it shows of InnoDB's locks only when nobody looked for 0.1 s.
poll_slowly() {
    local end=$((SECONDS + 20))
    until "$@"; do
        ((SECONDS < end)) || return 1
        sleep 0.15
    done
}

# is_harmless FILE: no byte in it steers a terminal.
is_harmless() {
    ! LC_ALL=C grep -qP '[\x00-\x09\x0b-\x1f\x7f]|\xc2[\x80-\x9f]|\xe2\x80[\xaa-\xae]' "$1"
}

@test "show: nobody waits" {
    holds lease alone
    run --separate-stderr rl show alone
    [ "$status" -eq 0 ]
    [ -z "$stderr" ]
    [[ "$output" != *waiting* ]]
    [[ "$output" != *"not shown"* ]]
    [ "$(rl show --json alone | jq -c .waiters)" = "[]" ]
    run rl ls
    [[ "${lines[0]}" != *WAITING* ]]
}

@test "a lease: who waits, and for how long" {
    holds lease nightly
    waits lease nightly "first in line"
    poll_slowly waiting_are nightly 1
    waits lease nightly "second in line"
    poll_slowly waiting_are nightly 2
    run --separate-stderr rl show nightly
    [ "$status" -eq 0 ]
    [ -z "$stderr" ]
    [[ "${lines[-2]}" =~ ^waiting\ {6}"first in line, for "[0-9.]+m?s$ ]]
    [[ "${lines[-1]}" =~ ^\ {13}"second in line, for "[0-9.]+m?s$ ]]
    run rl show --json nightly
    jq -e '.waiters | map(.who) == ["first in line", "second in line"]' <<<"$output"
    jq -e '.waiters[0] | .waited_ms >= 0 and .connection_id > 0 and (.owner | test("^[0-9a-f-]{36}\\.[0-9]+$"))' <<<"$output"
}

@test "a row lock: who waits, and for how long" {
    holds pessimistic rows
    waits pessimistic rows "has no label in the server"
    poll_slowly waiting_are rows 1
    run --separate-stderr rl show rows
    [ "$status" -eq 0 ]
    [ -z "$stderr" ]
    [[ "${lines[-1]}" =~ ^waiting\ {6}"root@localhost, connection "[0-9]+", for "[0-9.]+m?s$ ]]
    run rl show --json rows
    jq -e '.waiters[0] | .who == "root@localhost" and .owner == "" and .waited_ms >= 0' <<<"$output"
}

@test "ls: how many wait, where anybody does" {
    holds lease a-lease
    holds pessimistic b-rows
    holds lease c-alone
    bell=$(id_of a-lease)
    hold_bell "$bell"
    at_bell "$bell" 0 one
    at_bell "$bell" 0 two
    at_bell "$bell" 0 three
    waits pessimistic b-rows x
    poll_slowly waiting_are b-rows 1
    poll_slowly waiting_are a-lease 3
    run --separate-stderr rl ls
    [ "$status" -eq 0 ]
    [ -z "$stderr" ]
    [[ "${lines[0]}" =~ ^NAME\ .*\ TOKEN\ +WAITING$ ]]
    [[ "${lines[1]}" =~ ^a-lease\ .*\ 1\ +3$ ]]
    [[ "${lines[2]}" =~ ^b-rows\ .*\ 1\ +1$ ]]
    [[ "${lines[3]}" =~ ^c-alone\ .*\ 1\ +-$ ]]
    run rl ls --json
    [ "$(jq -c 'map(.waiters | length)' <<<"$output")" = "[3,1,0]" ]
}

@test "the longest wait comes first, with what it had waited before" {
    holds lease turns
    bell=$(id_of turns)
    hold_bell "$bell"
    at_bell "$bell" 5000 short
    at_bell "$bell" 7500000 long
    poll_slowly waiting_are turns 2
    run rl show turns
    [[ "${lines[-2]}" =~ ^waiting\ {6}"long, for 2h05m"$ ]]
    [[ "${lines[-1]}" =~ ^\ {13}"short, for "[0-9.]+s$ ]]
}

@test "a user without PROCESS: the waiters it may see, and what the others take" {
    sql_any "CREATE OR REPLACE USER '$TEST_USER'@'localhost';
             GRANT SELECT, INSERT, UPDATE, DELETE ON \`$TEST_SCHEMA\`.* TO '$TEST_USER'@'localhost'"
    holds lease partly
    bell=$(id_of partly)
    hold_bell "$bell"
    at_bell "$bell" 0 "somebody else"
    poll_slowly waiting_are partly 1
    plain=("$ROWLOCK" --no-defaults -S "$ROWLOCK_TEST_SOCKET" -u "$TEST_USER" -D "$TEST_SCHEMA")
    run --separate-stderr "${plain[@]}" show partly
    [ "$status" -eq 0 ]
    [ -z "$stderr" ]
    [[ "$output" != *"somebody else"* ]]
    [[ "${lines[-1]}" =~ ^"not shown    waiters of other users and of row locks; ".*PROCESS ]]
    run --separate-stderr "${plain[@]}" ls
    [ "$status" -eq 0 ]
    [ -z "$stderr" ]
    [ "${#lines[@]}" -eq 2 ]
    [[ "$("${plain[@]}" show --json partly | jq -c .waiters)" == "[]" ]]
    [[ "$("${plain[@]}" ls --json | jq -r '.[0].waiters_not_shown')" == "waiters of other users and of row locks; "*PROCESS* ]]
    [ "$(rl show --json partly | jq -r .waiters_not_shown)" = "" ]
}

@test "labels of waiters steer no terminal" {
    evil=$'esc\033[31m nl\nret\r tab\t del\x7f c1\xc2\x9b31m rlo\xe2\x80\xae \'q\' "d" \\ 夜 end'
    holds lease evil
    bell=$(id_of evil)
    hold_bell "$bell"
    at_bell "$bell" 0 "$evil"
    poll_slowly waiting_are evil 1
    for arguments in "show evil" "show evil --json" "ls --json" "ls"; do
        rl $arguments >"$TEST_DIR/evil" 2>&1
        is_harmless "$TEST_DIR/evil"
        NO_COLOR=1 on_terminal 300 "$ROWLOCK" --defaults-file="$TEST_OPTIONS" -D "$TEST_SCHEMA" $arguments >"$TEST_DIR/evil"
        is_harmless "$TEST_DIR/evil"
    done
    run rl show evil
    [[ "${lines[-1]}" == "waiting      esc?[31m nl?ret? tab? del? c1?31m rlo\\u202e 'q' \"d\" \\ 夜 end, for "* ]]
}
