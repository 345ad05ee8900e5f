# rowlock queue work: workers that run a command for each item, how they end, and what happens to an item when one dies.

bats_require_minimum_version 1.5.0

load helpers
load run_helpers

# put [OPTION...] PAYLOAD: puts an item into $L.
put() {
    rl queue put "${@:1:$#-1}" "$L" "${@: -1}" >/dev/null
}

# work [OPTION...] -- COMMAND...: starts the workers in the background; POOL is the pid.
work() {
    background queue work "$L" "$@"
    POOL=$BACK
}

# stop: the pool finishes its items, and ends with 0.
stop() {
    kill -TERM "$POOL"
    ends_with 0 "$POOL"
}

# counts FILTER: for poll: is true of the queue's counts.
counts() {
    rl queue ls --json "$L" | json "length == 1 and (.[0] | $1)"
}

# is_empty: for poll: all items are done.
is_empty() {
    counts '.depth == 0 and .dead == 0'
}

# lines_are FILE COUNT: the file has so many lines.
lines_are() {
    [ "$(wc -l <"$1")" -eq "$2" ] || { cat "$1" && false; }
}

# ready_now: makes items ready that are to be tried again later.
ready_now() {
    sql "UPDATE queue_item i JOIN resource r ON r.id = i.queue_id SET ready_at = UTC_TIMESTAMP(6)
        WHERE resource_name = '$L' AND state = 'alive' AND taken = 0"
}

# workers_of PID: the pids of a pool's workers.
workers_of() {
    cat "/proc/$1/task/$1/children"
}

# sql_is RESULT STATEMENT: for poll: the statement has that result.
sql_is() {
    [ "$(sql "$2")" = "$1" ]
}

# column NAME: prints that column of the only item.
column() {
    sql "SELECT $1 FROM queue_item i JOIN resource r ON r.id = i.queue_id WHERE resource_name = '$L'"
}

@test "COMMAND for each item: its stdin and environment; done, and not a word" {
    printf 'one\x00\xff\n' | rl queue put --key=k1 "$L" - >/dev/null
    put ''
    # shellcheck disable=SC2016
    work -- sh -c 'cat >"payload $ROWLOCK_ITEM_ID"
        echo "$ROWLOCK_ITEM_ID $ROWLOCK_ITEM_TOKEN $ROWLOCK_ITEM_ATTEMPT <$ROWLOCK_ITEM_KEY> $ROWLOCK_NAME $ROWLOCK_TOKEN ${ROWLOCK_OWNER-none}" >>seen'
    poll is_empty
    # More items, while it waits for them.
    put three
    poll is_empty
    stop
    lines_are seen 3
    read -r id rest <seen
    [ "$rest" = "1 1 <k1> $L 1 none" ]
    cmp "payload $id" <(printf 'one\x00\xff\n')
    [[ $(sed -n 2p seen) == *" 1 1 <> $L 1 none" ]]
    [ "$(cat "payload $(sed -n '3s/ .*//p' seen)")" = three ]
    [ ! -s out ]
    [ ! -s err ]
}

@test "COMMAND's exit status: 0 done, another one is retried, --dead-on, and at the last attempt dead" {
    put --attempts=2 x
    # The first one ends once there is a file "status 1", with what is in it, and so on.
    # shellcheck disable=SC2016
    work --dead-on=65 -- sh -c 'echo >>seen; status="status $(grep -c "" seen)"
        until [ -s "$status" ]; do sleep 0.2; done; exit "$(cat "$status")"'
    echo 75 >"status 1"
    poll grep -qxE "rowlock: $L: item [0-9]+, attempt 1 of 2: exit status 75; it is retried within 1.0s" err
    [ "$(column last_error)" = "exit status 75" ]
    echo 3 >"status 2"
    poll counts '.dead == 1'
    poll grep -qE "attempt 2 of 2: exit status 3; it is dead now$" err
    rl queue purge "$L"
    echo 65 >"status 3"
    put x
    poll counts '.dead == 1'
    poll grep -qE "attempt 1 of 20: exit status 65; it is dead now$" err
    [ "$(column last_error)" = "exit status 65" ]
    rl queue requeue "$L"
    echo 0 >"status 4"
    poll is_empty
    stop
}

@test "a COMMAND that a signal ends is retried; one that cannot be run ends the workers" {
    put x
    work -v -- sh -c 'kill -SEGV $$'
    poll counts '.delayed == 1'
    poll grep -qE "attempt 1 of 20: signal 11; it is retried within 1.0s$" err
    stop
    ready_now
    before=$(column attempts)
    fails 127 "$L: item *, attempt * of 20: cannot run /no/such: No such file or directory; it is ready again" rl queue work "$L" -- /no/such
    : >"$D/nothing"
    fails 126 "*cannot run *: Permission denied; it is ready again" rl queue work "$L" -- "$D/nothing"
    counts '.ready == 1'
    [ "$(column attempts)" = "$before" ]
}

@test "a COMMAND that cannot be run for the moment, such as one that is being written: it is tried again" {
    cp "$(type -P true)" program
    exec 8>>program
    put x
    work -- "$D/program" 8>&-
    poll grep -qE "cannot run $D/program: Text file busy; it is ready again$" err
    exec 8>&-
    poll is_empty
    stop
}

@test "where waiting would not help it ends at once" {
    rl run "$L lock" -- true
    fails 65 "*'$L lock'*" rl queue work "$L lock" -- true
    fails 64 "*" rl queue work " $L" -- true
    run -78 rl -D rowlock_none_such queue work "$L" -- true
    new_user nobody
    run -77 rl_as nobody queue work "$L" -- true
}

# A command that runs until $D/go is there.
# shellcheck disable=SC2016
UNTIL_GO='echo "$ROWLOCK_ITEM_ID $ROWLOCK_ITEM_ATTEMPT" >>"$D/seen"; until [ -e "$D/go" ]; do sleep 0.2; done'

@test "SIGTERM: what runs ends, nothing new is taken; of a batch the rest is ready again" {
    for i in 1 2 3 4; do put "$i"; done
    work --batch=3 -- sh -c "$UNTIL_GO"
    poll got seen 1
    counts '.in_flight == 3 and .ready == 1'
    kill -TERM "$POOL"
    poll has_taken_sigterm "$POOL"
    sleep 0.3 # and its worker, which it tells; its command runs on
    is_alive "$POOL"
    touch go
    ends_with 0 "$POOL"
    lines_are seen 1
    counts '.ready == 3 and .in_flight == 0'
    [ "$(column 'SUM(attempts)')" = 0 ]
    # Idle workers end at once.
    rl queue purge --all "$L"
    work --workers=3 -- true
    # One of them looks for items, the others wait in line behind it.
    poll sql_is 2 "SELECT COUNT(*) FROM information_schema.processlist WHERE db = DATABASE() AND info LIKE 'SELECT GET_LOCK%'"
    kill -INT "$POOL"
    ends_with 0 "$POOL"
    [ ! -s err ]
}

@test "the second signal ends COMMAND and all that it started; its item is ready again, as if it had not been delivered" {
    put x
    make_tree
    work -- bash "$D/tree.sh"
    poll got tree 4
    kill -INT "$POOL"
    sleep 0.2
    is_alive "$(pid_of command)"
    kill -TERM "$POOL"
    ends_with 143 "$POOL"
    tree_is_dead
    counts '.ready == 1'
    [ "$(column attempts)" = 0 ]
    grep -qE "attempt 1 of 20: signal 15; it is ready again$" err
    # If the command exits with 0 on that SIGTERM, its item is done.
    rm -f seen
    # shellcheck disable=SC2016
    work -- bash -c 'trap "exit 0" TERM; echo >seen; while :; do sleep 0.1; done'
    poll got seen 1
    kill -TERM "$POOL"
    poll has_taken_sigterm "$POOL"
    kill -TERM "$POOL"
    ends_with 143 "$POOL"
    is_empty
}

# successor_starts_late AT: another worker gets the item, after that time on the server, when the whole tree is dead.
successor_starts_late() {
    # shellcheck disable=SC2016
    background queue work "$L" -- bash -c 'tree_is_dead && found=dead || found=alive
        echo "$found $ROWLOCK_ITEM_ATTEMPT $ROWLOCK_ITEM_TOKEN $(sql "SELECT UTC_TIMESTAMP(6) >= \"$1\"")" >"$D/found"' - "$1"
    poll test -s found
    kill -TERM "$BACK"
    ends_with 0
    [ "$(cat found)" = "dead 2 2 1" ]
    is_empty
}

@test "it is killed: COMMAND and all that it started die at once; the item comes again after its TTL, and not before" {
    put x
    make_tree
    work -t 12s -- bash "$D/tree.sh"
    poll got tree 4
    kill -KILL "$POOL"
    poll tree_is_dead
    poll grep -qE "^rowlock: $L: item [0-9]+, attempt 1: rowlock itself was killed; bash was ended; " err
    at=$(column ready_at)
    successor_starts_late "$at"
}

@test "a worker is killed: its command dies, another worker begins, and the item comes again after its TTL" {
    put x
    make_tree
    work -t 12s -- bash "$D/tree.sh"
    poll got tree 4
    kill -KILL "$(workers_of "$POOL" | tr -d ' ')"
    poll tree_is_dead
    at=$(column ready_at)
    poll grep -q "^rowlock: $L: a worker was killed (signal 9); another one begins in 1.0s$" err
    poll got tree 8
    [ "$(sql "SELECT UTC_TIMESTAMP(6) >= '$at'")" = 1 ]
    [ "$(column attempts)" = 2 ]
    stop_hard
}

# has_taken_sigterm PID: a second one would be dropped as long as the first is pending.
has_taken_sigterm() {
    local pending
    pending=$(awk '$1 == "ShdPnd:" { print $2 }' "/proc/$1/status") && (((16#$pending & 1 << 14) == 0))
}

# stop_hard: ends the pool by two signals.
stop_hard() {
    kill -TERM "$POOL"
    poll has_taken_sigterm "$POOL"
    kill -TERM "$POOL"
    ends_with 143 "$POOL"
}

@test "a worker that is stopped: its command is dead before the item is delivered again; then it goes on" {
    put x
    make_tree
    # shellcheck disable=SC2016
    export TREE_TRAP='[ -e "$D/heeds" ] || trap "" TERM'
    work -t 12s -- bash "$D/tree.sh"
    poll got tree 4
    worker=$(workers_of "$POOL" | tr -d ' ')
    kill -STOP "$worker"
    at=$(column ready_at)
    successor_starts_late "$at"
    kill -CONT "$worker"
    poll grep -qE "attempt 1 of 20: .*; bash was ended; it is not this worker's any more$" err
    touch "$D/heeds"
    put next
    poll got tree 8
    stop_hard
}

@test "the supervisor is killed: the command dies, and the item is retried" {
    put x
    make_tree
    work -t 60s -- bash "$D/tree.sh"
    poll got tree 4
    kill -KILL "$(supervisor_of "$(workers_of "$POOL" | tr -d ' ')")"
    poll tree_is_dead
    poll grep -qE "attempt 1 of 20: the supervising process ended, so bash was ended; it is retried within 1.0s$" err
    poll got tree 8
    [ "$(column attempts)" = 2 ]
    stop_hard
}

@test "an item that is taken away: its command is ended, the next one comes" {
    put x
    make_tree
    work -t 20s -- bash "$D/tree.sh"
    poll got tree 4
    rl queue purge --all "$L"
    poll tree_is_dead
    poll grep -qE "attempt 1 of 20: .*; bash was ended; it is not this worker's any more$" err
    put next
    poll got tree 8
    stop_hard
}

@test "a long COMMAND keeps its item" {
    put x
    work -t 20s -- sh -c "$UNTIL_GO"
    poll got seen 1
    at=$(column ready_at)
    poll sql_is 1 "SELECT UTC_TIMESTAMP(6) > '$at' + INTERVAL 2 SECOND"
    fails 1 "*" rl queue take "$L"
    touch go
    poll is_empty
    stop
    lines_are seen 1
}

@test "COMMAND says itself that the item is done, in its own transaction" {
    rl init -q --procedures
    sql "CREATE TABLE sent (id BIGINT PRIMARY KEY)"
    put x
    # shellcheck disable=SC2016
    work -v -- bash -c 'sql "START TRANSACTION; INSERT INTO sent VALUES ($ROWLOCK_ITEM_ID);
        CALL rowlock_queue_done(\"$L\", $ROWLOCK_ITEM_ID, $ROWLOCK_ITEM_TOKEN); COMMIT"'
    poll is_empty
    stop
    [ "$(sql "SELECT COUNT(*) FROM sent")" = 1 ]
    grep -qE "attempt 1 of 20: was ended by somebody else \(took " err
}

@test "many workers: each item once, never more than so many at a time; a group in its order" {
    for n in $(seq 40); do echo "$n"; done | rl queue put --lines "$L" >/dev/null
    for n in $(seq 12); do echo "a$n"; done | rl queue put --lines --group=a "$L" >/dev/null
    for n in $(seq 12); do echo "b$n"; done | rl queue put --lines --group=b "$L" >/dev/null
    # shellcheck disable=SC2016
    work --workers=4 --batch=3 -- bash -c 'read -r line; echo "$line" >>seen
        exec 9<"$D"; mkdir "at $ROWLOCK_ITEM_ID"; ls -d at* | wc -l >>many; sleep 0.02; rmdir "at $ROWLOCK_ITEM_ID"'
    # shellcheck disable=SC2016
    background queue work "$L" --workers=2 -- bash -c 'read -r line; echo "$line" >>seen'
    poll is_empty
    kill -TERM "$BACK" "$POOL"
    ends_with 0 "$BACK"
    ends_with 0 "$POOL"
    lines_are seen 64
    [ "$(sort seen | uniq -d)" = "" ]
    [ "$(sort -n many | tail -n 1)" -le 4 ]
    for group in a b; do
        [ "$(grep "^$group" seen | tr -d '\n')" = "$(for n in $(seq 12); do printf '%s' "$group$n"; done)" ]
    done
}

@test "the server is killed and comes back: the workers wait for it, and go on" {
    own_server start >started
    ROWLOCK_TEST_SOCKET=$(tail -n 1 started)
    TEST_OPTIONS=$D/own.cnf
    printf '[client]\nsocket=%s\nuser=root\n' "$ROWLOCK_TEST_SOCKET" >"$TEST_OPTIONS"
    rl init -q
    put x
    work --workers=2 -t 10m -- sh -c "$UNTIL_GO"
    poll got seen 1
    own_server kill
    own_server restart
    touch go
    poll is_empty
    lines_are seen 1
    put y
    poll is_empty
    stop
    own_server remove
}
