#!/usr/bin/env bats
# The waiters that `ls` and `show` list.

load helpers

setup_file() {
    rowlock_setup_file
    find_bells
}

# Sets BELLS: how the names of this schema's bells begin, read from a real waiter.
find_bells() {
    pids=()
    holds lease probe
    waits lease probe probe
    poll bell_is_shown "$(id_of probe)"
    export BELLS
    end_all
}

# MariaDB may show a connection without its statement (as Busy) while another test reads the list, too: so it polls.
bell_is_shown() { # ID
    local text
    text=$(sql_any "SELECT info FROM information_schema.processlist
                    WHERE db = '$TEST_SCHEMA' AND info LIKE 'SELECT GET\_LOCK(%'")
    text=${text#*\'}
    text=${text%%\'*}
    BELLS=${text%"$1"}
    [[ $BELLS == *rowlock*[^0-9] ]]
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
    # Ends statements that killed clients left waiting in the server, unless they have ended. (An empty BELLS
    # would match all.)
    [ -n "$BELLS" ]
    mariadb --defaults-file="$TEST_OPTIONS" --force -e "$(
        sql_any "SELECT CONCAT('KILL CONNECTION ', id, ';') FROM information_schema.processlist
                 WHERE (info LIKE '%$TEST_SCHEMA%' OR info LIKE '%$BELLS%') AND id <> CONNECTION_ID()"
    )" || true
    sql "DELETE FROM resource; DELETE FROM resource_lock; DELETE FROM lease_renewal"
}

# holds MODE NAME: starts a process that holds the lock until the test ends.
holds() {
    rl_exec run --mode="$1" --label="the holder" "$2" -- sleep 300 &
    pids+=($!)
    poll state_is "$2" held
}

# waits MODE NAME LABEL: starts a process that waits for the lock.
waits() {
    rl_exec run --mode="$1" --label="$3" "$2" -- true &
    pids+=($!)
}

# sql_exec STATEMENTS: as sql_any, but replaces this process.
sql_exec() {
    exec mariadb --defaults-file="$TEST_OPTIONS" --default-character-set=utf8mb4 -N -B -e "$*"
}

# at_bell ID WAITED_MS LABEL: runs a statement as a waiter for the lease does.
at_bell() {
    local hex
    hex=$(printf %s "$3" | od -An -v -tx1 | tr -d ' \n')
    sql_exec "SELECT GET_LOCK('$BELLS$1', 300), 'rowlock-waiter', $1, $2, 'uuid.1', '$hex'" >/dev/null &
    pids+=($!)
}

# hold_bell ID: a process holds the bell, in case the lease's holder has not taken it.
hold_bell() {
    sql_exec "DO GET_LOCK('$BELLS$1', 300); DO SLEEP(300), '$TEST_SCHEMA'" &
    pids+=($!)
    poll bell_is_held "$1"
}

bell_is_held() {
    [ "$(sql_any "SELECT IS_USED_LOCK('$BELLS$1') IS NOT NULL")" = 1 ]
}

id_of() {
    sql "SELECT id FROM resource WHERE resource_name = '$1'"
}

# waiting_are NAME COUNT: for poll. MariaDB's list of InnoDB's locks is renewed only when no session has read it for
# 0.1 s.
waiting_are() {
    sleep 0.1
    [ "$(rl show --json "$1" | jq '.waiters | length')" -eq "$2" ]
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
    poll waiting_are b-rows 1
    poll table_counts
    poll json_counts
}

table_counts() {
    run rl ls
    [ "$status" = 0 ] && [[ "${lines[0]}" =~ ^NAME\ .*\ TOKEN\ +WAITING$ ]] &&
        [[ "${lines[1]}" =~ ^a-lease\ .*\ 1\ +3$ ]] && [[ "${lines[2]}" =~ ^b-rows\ .*\ 1\ +1$ ]] &&
        [[ "${lines[3]}" =~ ^c-alone\ .*\ 1\ +-$ ]]
}

json_counts() {
    [ "$(rl ls --json | jq -c 'map(.waiters | length)')" = "[3,1,0]" ]
}

@test "the longest wait comes first, with what it had waited before" {
    holds lease turns
    bell=$(id_of turns)
    hold_bell "$bell"
    at_bell "$bell" 5000 short
    at_bell "$bell" 7500000 long
    poll turns_are_shown
}

turns_are_shown() {
    run rl show turns
    [[ "${lines[-2]}" =~ ^waiting\ {6}"long, for 2h05m"$ ]] && [[ "${lines[-1]}" =~ ^\ {13}"short, for "[0-9.]+s$ ]]
}

@test "a user without PROCESS: the waiters it may see, and what the others take" {
    new_user plain "SELECT, INSERT, UPDATE, DELETE ON \`$TEST_SCHEMA\`.*"
    holds lease partly
    bell=$(id_of partly)
    hold_bell "$bell"
    at_bell "$bell" 0 "somebody else"
    poll waiting_are partly 1
    works rl_as plain show partly
    [[ "$output" != *"somebody else"* ]]
    [[ "${lines[-1]}" =~ ^"not shown    waiters of other users and of row locks; ".*PROCESS ]]
    works rl_as plain ls
    [ "${#lines[@]}" -eq 2 ]
    [[ "$(rl_as plain show --json partly | jq -c .waiters)" == "[]" ]]
    [[ "$(rl_as plain ls --json | jq -r '.[0].waiters_not_shown')" == "waiters of other users and of row locks; "*PROCESS* ]]
    [ "$(rl show --json partly | jq -r .waiters_not_shown)" = "" ]
}

@test "labels of waiters steer no terminal" {
    evil=$'esc\033[31m nl\nret\r tab\t del\x7f c1\xc2\x9b31m rlo\xe2\x80\xae \'q\' "d" \\ 夜 end'
    holds lease evil
    bell=$(id_of evil)
    hold_bell "$bell"
    at_bell "$bell" 0 "$evil"
    poll waiting_are evil 1
    all_harmless 0 "show evil" "show evil --json" "ls --json" ls
    poll evil_is_shown
}

evil_is_shown() {
    run rl show evil
    [[ "${lines[-1]}" == "waiting      esc?[31m nl?ret? tab? del? c1?31m rlo\\u202e 'q' \"d\" \\ 夜 end, for "* ]]
}
