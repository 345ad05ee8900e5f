#!/usr/bin/env bats
# rowlock run when a process dies or stops, or the lock is broken: the command and its descendants are dead before
# another client has the lock. When the server goes away: run_outage.bats.

load helpers
load run_helpers

IGNORE_TERM='trap "" TERM'

# handed_over MILLISECONDS SINCE: the successor got the lock within that time, with a higher token, and found all dead.
handed_over() {
    poll got found
    within "$1" "$2"
    [ "$(cat found)" = dead ]
    [ "$(cat token)" -gt "$TOKEN" ]
}

# all_dead MILLISECONDS: the tree is dead within that time after $since.
all_dead() {
    poll tree_is_dead
    within "$1" "$since"
}

@test "these tests can see who is alive" {
    run_tree
    run rl run "$L other" -- bash -c 'tree_is_dead || echo alive'
    [ "$output" = alive ]
    [ "$(sort tree | cut -d' ' -f1 | tr '\n' ' ')" = "child command daemon session " ]
    kill -KILL "$(pid_of daemon)"
    poll is_dead "$(pid_of daemon)"
    run ! tree_is_dead
    # The daemon's parents are gone, and it is in a session of its own.
    [ "$(ps -o sid= -p "$(pid_of session)")" != "$(ps -o sid= -p "$BACK")" ]
}

rowlock_is_killed() { # HANDED-OVER-WITHIN OPTION...
    TREE_TRAP=$IGNORE_TERM run_tree "${@:2}"
    TOKEN=$(token_of_lock)
    successor "${@:2}"
    touch let_go
    since=$(now_ms)
    kill -KILL "$BACK"
    all_dead 8000
    poll is_dead "$SUPERVISOR"
    said_once "rowlock itself was killed"
    handed_over "$1" "$since"
    ends_with 0 "$NEXT"
}

@test "rowlock killed, pessimistic: the row stays locked as long as the command lives" {
    # A stopped supervisor is woken by its parent's death (its process group becomes an orphaned one), unless it
    # gets a new parent in the same session: here the outer run's supervisor.
    make_tree
    background run "$L outer" -- bash -c '
        rl run --mode=pessimistic --ttl=60s "$L" -- bash "$D/tree.sh" &
        wait
        until [ -e "$D/let_go" ]; do sleep 0.2; done'
    poll got tree 4
    command=$(pid_of command)
    supervisor=$(ps -o ppid= -p "$command" | tr -d ' ')
    kill -STOP "$supervisor"
    kill -KILL "$(ps -o ppid= -p "$supervisor" | tr -d ' ')"
    run -1 rl run --mode=pessimistic -w 2 "$L" -- bash -c 'tree_is_dead || echo alive'
    is_alive "$command"
    kill -CONT "$supervisor"
    poll tree_is_dead
    MODE=pessimistic poll is_free
    touch let_go
    ends_with 0
}

@test "rowlock killed before it has heard of the command's end: all dead" {
    run_tree --mode=pessimistic --leave-children
    kill -STOP "$BACK"
    kill -KILL "$(pid_of command)"
    poll is_dead "$(pid_of command)"
    kill -KILL "$BACK"
    poll tree_is_dead
    MODE=pessimistic poll is_free
}

supervisor_is_killed() { # MODE
    TREE_TRAP=$IGNORE_TERM run_tree --ttl=60s --mode="$1"
    since=$(now_ms)
    kill -KILL "$SUPERVISOR"
    ends_with 137
    within 10000 "$since"
    tree_is_dead
    said_once "supervising process ended (signal 9)"
    MODE=$1 is_free
    rl history --json "$L" | json 'map(select(.event == "released")) | .[0].exit_status == 137'
}

@test "the supervisor killed: all dead, 137, a line, the lock free at once" {
    side_by_side "supervisor_is_killed lease" "supervisor_is_killed pessimistic"
}

@test "the supervisor killed while rowlock waits: not started without one" {
    hold
    background run "$L" -- touch will-not-run
    poll sh -c "[ -n \"\$(cat /proc/$BACK/task/$BACK/children)\" ]"
    kill -KILL "$(supervisor_of "$BACK")"
    ends_with 71
    grep -q "supervising process ended" err
    touch let_go
    ends_with 8 "$HOLDER"
    [ ! -e will-not-run ]
    is_free
}

rowlock_is_stopped() { # OPTION...
    run_tree --ttl=12s "$@"
    TOKEN=$(token_of_lock)
    successor --ttl=60s "$@"
    since=$(now_ms)
    kill -STOP "$BACK"
    handed_over 17000 "$since"
    kill -CONT "$BACK"
    ends_with 75
    said_once "bash was ended"
    # The late release has changed nothing for the next holder.
    is_alive "$NEXT"
    run ! is_free
    state_is "$L" held
    [ "$(token_of_lock)" = "$(cat token)" ]
    touch let_go
    ends_with 0 "$NEXT"
}

term_then_kill() {
    TREE_TRAP='trap "date +%s%3N >>\"$D/termed\"" TERM' run_tree --ttl=20s
    TOKEN=$(token_of_lock)
    successor
    since=$(now_ms)
    kill -STOP "$BACK"
    poll got termed 4
    first=$(sort -n termed | head -n 1)
    poll tree_is_dead
    # A quarter of the TTL lies between the two.
    [ $(($(now_ms) - first + $(stood_since "$since"))) -ge 500 ]
    handed_over 25000 "$since"
    touch let_go
    kill -CONT "$BACK"
    ends_with 75
}

ends_early_on_term() {
    background run --ttl=20s "$L" -- bash -c 'exec 2>/dev/null; trap "touch \"$D/cleaned\"; exit 0" TERM; touch "$D/ready"; while :; do sleep 0.1; done'
    poll test -e ready
    kill -STOP "$BACK"
    poll test -e cleaned
    kill -CONT "$BACK"
    ends_with 75
    said_once "bash was ended"
}

# renewed_until: the end of the lease as of its last renewal; nothing if there was none.
renewed_until() {
    sql "SELECT l.expires_at FROM lease_renewal l JOIN resource r ON r.id = l.id AND r.version = l.version
          WHERE r.resource_name = '$L' AND l.expires_at IS NOT NULL"
}

was_renewed() { # SINCE
    local until
    until=$(renewed_until) # once: the lock may be freed meanwhile
    [ -n "$until" ] && [ "$until" != "$1" ]
}

next_is_due() { # UNTIL, the end of the lease: a third of the TTL has passed since that renewal
    [ "$(sql "SELECT UTC_TIMESTAMP(6) > '$1' - INTERVAL 39 SECOND")" = 1 ]
}

# Its supervisor would end the command 48 s after the last renewal that it has heard of. (A busy machine takes 5 s to see
# a renewal and to stop rowlock.)
continued_in_time() {
    local until
    background run --ttl=60s "$L" -- sleep 600
    poll was_renewed ''
    until=$(renewed_until)
    sleep 1 # its supervisor hears of it within a quarter of a second
    kill -STOP "$BACK"
    poll next_is_due "$until"
    kill -CONT "$BACK"
    since=$(now_ms)
    poll was_renewed "$until"
    within 4000 "$since"
    is_alive "$BACK"
    kill -TERM "$BACK"
    ends_with 143
}

@test "rowlock killed, or stopped beyond the TTL: all dead before the lock moves; stopped and continued in time: it renews at once" {
    side_by_side "rowlock_is_killed 17000 --ttl=12s" "rowlock_is_killed 10000 --mode=pessimistic --ttl=60s" \
        rowlock_is_stopped 'TREE_TRAP=$IGNORE_TERM rowlock_is_stopped' \
        'TREE_TRAP=$IGNORE_TERM MODE=pessimistic rowlock_is_stopped --mode=pessimistic' \
        term_then_kill ends_early_on_term continued_in_time
}

connection_is_cut() { # OPTION...
    TREE_TRAP=$IGNORE_TERM run_tree --mode=pessimistic --ttl=60s
    TOKEN=$(token_of_lock)
    successor --mode=pessimistic
    touch let_go
    since=$(now_ms)
    sql_any "KILL $(connection_of_lock)"
    all_dead 10000
    ends_with 75
    said_once "bash was ended"
    # (The server freed the row when it ended the connection.)
    ends_with 0 "$NEXT"
    [ "$(cat token)" -gt "$TOKEN" ]
}

connection_is_cut_without_supervisor() {
    TREE_TRAP=$IGNORE_TERM run_tree --mode=pessimistic --ttl=60s
    kill -STOP "$SUPERVISOR"
    since=$(now_ms)
    sql_any "KILL $(connection_of_lock)"
    all_dead 10000
    ends_with 75
    is_dead "$SUPERVISOR"
}

broken_row() {
    TREE_TRAP=$IGNORE_TERM run_tree --mode=pessimistic --ttl=60s
    since=$(now_ms)
    rl break "$L"
    all_dead 10000
    ends_with 75
    said_once "bash was ended"
    MODE=pessimistic poll is_free
}

many_processes() {
    background run --mode=pessimistic "$L" -- bash -c '
        for i in $(seq 150); do (echo "n $BASHPID" >>"$D/tree"; exec sleep 1000) & done; wait'
    poll got tree 150
    since=$(now_ms)
    sql_any "KILL $(connection_of_lock)"
    # On an idle machine this takes 0.5 s; beside eight builds on two cores up to 3.9 s.
    all_dead 12000
    ends_with 75
}

@test "pessimistic: the connection is cut, or the lock broken: all dead at once, 75" {
    side_by_side connection_is_cut connection_is_cut_without_supervisor broken_row
    many_processes
}

broken() {
    # The first renewal comes after 10 s, so not between the two breaks: else the second one would end the successor.
    TREE_TRAP=$IGNORE_TERM run_tree --ttl=30s
    successor --ttl=60s
    since=$(now_ms)
    rl break "$L"
    # The holder learns of the break at its next renewal.
    run -1 rl break "$L"
    poll got found
    within 15000 "$since"
    [ "$(cat found)" = dead ]
    touch let_go
    ends_with 75
    said_once "bash was ended"
    ends_with 0 "$NEXT"
    is_free
}

broken_and_waited_for() {
    TREE_TRAP=$IGNORE_TERM run_tree --ttl=12s
    rl break --wait "$L"
    tree_is_dead
    is_free
    ends_with 75
}

broken_while_stopped() {
    run_tree --ttl=12s
    kill -STOP "$BACK"
    rl break --wait "$L"
    tree_is_dead
    is_free
    kill -CONT "$BACK"
    ends_with 75
}

broken_now() {
    run_tree --ttl=60s
    since=$(now_ms)
    rl break --now "$L"
    is_free
    is_alive "$BACK"
    # It learns of it by its next renewal, not at the end of its TTL.
    all_dead 30000
    ends_with 75
}

@test "rowlock break, lease: it opens when the old command is dead; --wait returns then, and when it was stopped; --now is at once" {
    side_by_side broken broken_and_waited_for broken_while_stopped broken_now
}

@test "lost unnoticed while the command ran to its end: a line, 75" {
    background run --ttl=60s "$L" -- bash -c 'rl break "$L" >/dev/null && exit 4'
    ends_with 75
    said_once "was lost while bash still ran"
}

@test "a command that forks and ends without an end, each time in a new session" {
    cat >chain.sh <<'END'
[ -e "$D/chain.sh" ] || exit
echo >>"$D/beats"
setsid bash "$D/chain.sh" &
END
    # The first process stays: else the command would have ended.
    background run --mode=pessimistic "$L" -- bash -c 'bash "$D/chain.sh" & sleep 1000'
    poll got beats 20
    sql_any "KILL $(connection_of_lock)"
    ends_with 75
    beats=$(wc -l <beats)
    for _ in 1 2 3 4 5 6 7 8 9 10; do
        sleep 0.05
        [ "$(wc -l <beats)" -eq "$beats" ]
    done
    rm chain.sh
}

@test "children from before exec() are not rowlock's business" {
    cat >before.sh <<'END'
sleep 1000 & echo $! >"$D/before"
exec "$ROWLOCK" --defaults-file="$TEST_OPTIONS" -D "$TEST_SCHEMA" run --mode=pessimistic "$L" -- \
    bash -c 'echo "command $$" >"$D/tree"; sleep 1000'
END
    (exec bash before.sh) >out 2>err </dev/null 3>&- &
    BACK=$!
    poll got tree
    kill -KILL "$(ps -o pid= --ppid $BACK | tr -d ' ' | grep -vx "$(cat before)")"
    ends_with 137
    tree_is_dead
    is_alive "$(cat before)"
}

# A session that waits for a row does not notice that its client has gone; the next holder is to end it.
registered_work() {
    # shellcheck disable=SC2016
    background run --ttl=12s "$L" -- sh -c '
        echo $$ >"$D/worker"
        exec mariadb --defaults-file="$TEST_OPTIONS" --init-command="$ROWLOCK_INIT_COMMAND" "$TEST_SCHEMA" \
            -e "SET innodb_lock_wait_timeout = 600; START TRANSACTION; UPDATE work SET n = 1; UPDATE taken SET n = 1"'
    poll is_under_way 'UPDATE taken SET n = 1'
}

is_under_way() { # STATEMENT
    [ "$(sql "SELECT COUNT(*) FROM information_schema.processlist WHERE info = '$1'")" = 1 ]
}

work_is_undone() {
    works rl run -w 60s "$L" -- mariadb --defaults-file="$TEST_OPTIONS" -N "$TEST_SCHEMA" -e 'SELECT n FROM work FOR UPDATE NOWAIT'
    [ "$output" = 0 ]
}

@test "what the command has begun on the server is undone before the next holder begins: rowlock killed, a break, a signal, a loss" {
    rl init --procedures >/dev/null
    sql "CREATE TABLE work (n INT); INSERT INTO work VALUES (0); CREATE TABLE taken AS SELECT * FROM work"
    sql "START TRANSACTION; UPDATE taken SET n = 2; DO SLEEP(600)" 3>&- &
    poll is_under_way 'DO SLEEP(600)'
    # shellcheck disable=SC2016
    L='it'"'"'s a "lock" \ `é`'
    registered_work
    rl show "$L" | grep -qE '^sessions +[0-9]+$'
    kill -KILL "$BACK"
    work_is_undone
    poll eval 'rl history --event=ended "$L" | grep -q "1 of its holder"'
    registered_work
    rl break "$L"
    ends_with 75
    work_is_undone
    registered_work
    kill -TERM "$BACK"
    ends_with 143
    work_is_undone
    registered_work
    kill -STOP "$BACK"
    poll is_dead "$(cat worker)"
    kill -CONT "$BACK"
    ends_with 75
    work_is_undone
    works rl run "$L" -- sh -c 'mariadb --defaults-file="$TEST_OPTIONS" --init-command="$ROWLOCK_INIT_COMMAND" -N "$TEST_SCHEMA" -e "SELECT 17"'
    [ "$output" = 17 ]
    works rl run --mode=pessimistic "$L row" -- sh -c 'echo "${ROWLOCK_INIT_COMMAND-none}"'
    [ "$output" = none ]
    works rl run --also="$L too" "$L" -- sh -c 'echo "${ROWLOCK_INIT_COMMAND-none}"'
    [ "$output" = none ]
}
