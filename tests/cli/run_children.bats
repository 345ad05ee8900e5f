#!/usr/bin/env bats
# rowlock run and the processes that its command starts: the lock is kept until all of them have ended or were ended,
# daemons too, unless --leave-children is given.

load helpers
load run_helpers

IGNORE_TERM='trap "" TERM'
NOTE_TERM='trap "echo \$BASHPID >>\"\$D/termed\"; exit" TERM'

# leave_tree OPTION...: runs a command that starts the tree and ends with 4, in the background. Its pid is in $D/leaver,
# the time of its end in $D/left_at.
leave_tree() {
    make_tree
    background run "$@" "$L" -- bash -c 'exec 2>/dev/null
        echo $$ >"$D/leaver"
        bash "$D/tree.sh" & until [ "$(wc -l <"$D/tree")" = 4 ]; do sleep 0.02; done; now_ms >"$D/left_at"; exit 4'
    poll got tree 4
}

# next_finds STATE: the waiter got the lock, and found the tree so.
next_finds() {
    touch let_go
    poll got found
    [ "$(cat found)" = "$1" ]
    ends_with 0 "$NEXT"
}

@test "the command ends: a daemon, a session, a child hear SIGTERM, once" {
    TREE_TRAP=$NOTE_TERM leave_tree
    ends_with 4
    tree_is_dead
    [ "$(sort termed)" = "$(cut -d' ' -f2 tree | sort)" ]
    [ ! -s err ]
}

@test "SIGTERM to rowlock goes to all, once; the next comes when all are dead" {
    TREE_TRAP=$NOTE_TERM run_tree
    successor
    kill -TERM "$BACK"
    next_finds dead
    ends_with 0
    [ "$(sort termed)" = "$(cut -d' ' -f2 tree | sort)" ]
}

# killed_after MILLISECONDS KILL-AFTER: after the command's end, the processes that ignore SIGTERM are killed so late,
# and only then the next one gets the lock.
killed_after() {
    TREE_TRAP=$IGNORE_TERM leave_tree --kill-after="$2"
    successor
    poll got left_at
    since=$(cat left_at)
    next_finds dead
    [ $(($(now_ms) - since)) -ge "$1" ]
    within $(($1 + 8000)) "$since"
    ends_with 4
    grep -q "^rowlock: $L: SIGKILL sent to [0-9]* processes of bash that did not end on SIGTERM" err || [ "$1" = 0 ]
    [ "$(wc -l <err)" -le 1 ]
}

daemon_ignores() {
    TREE_TRAP='[ "$1" != daemon ] || trap "" TERM' run_tree
    successor
    since=$(now_ms)
    kill -TERM "$BACK"
    poll is_dead "$(pid_of command)"
    next_finds dead
    [ $(($(now_ms) - since)) -ge 9000 ]
    within 16000 "$since"
    ends_with 143
    grep -q "SIGKILL sent to [12] process.* of bash" err
}

command_ignores() {
    TREE_TRAP=$IGNORE_TERM run_tree --kill-after=1s
    kill -TERM "$BACK"
    ends_with 137
    tree_is_dead
    is_free
}

@test "what ignores SIGTERM is killed after --kill-after, 10 s without, and only then the next comes" {
    side_by_side "killed_after 3000 3s" "killed_after 0 0" daemon_ignores command_ignores
}

@test "SIGTERM to rowlock: what was stopped ends, and what the command starts on SIGTERM" {
    cat >last.sh <<'LAST'
# A child of bash has bash's handlers until its exec(), and loses a SIGTERM that comes before that: each of these
# writes its pid after it, and one that got the signal before it could write is started again.
sleeps() { sh -c 'echo $$ >"$D/'"$1"'"; exec sleep 1000' & }
trap 'trap - TERM; until [ -s "$D/last" ]; do sleeps last; sleep 0.1; done; exit 6' TERM
sleeps stopped
until [ -s "$D/stopped" ]; do sleep 0.2; done
touch "$D/ready"
while :; do sleep 0.1; done
LAST
    background run --kill-after=1h "$L" -- bash last.sh
    poll test -e ready
    kill -STOP "$(cat stopped)"
    kill -TERM "$BACK"
    ends_with 6
    is_dead "$(cat stopped)"
    is_dead "$(cat last)"
}

@test "--leave-children: what the command leaves in the background lives on, and the lock is free" {
    run -3 --separate-stderr rl run -v --leave-children "$L" -- sh -c 'sleep 1000 >/dev/null 2>&1 3>&- & echo $! >"$D/left"; exit 3'
    [[ "$stderr" == *"1 process that sh started lives on"* ]]
    is_free
    is_alive "$(cat left)"
}

@test "--leave-children: SIGTERM is for the command alone, the rest lives on without the lock" {
    run_tree --leave-children
    kill -TERM "$BACK"
    ends_with 143
    is_free
    for who in child session daemon; do
        is_alive "$(pid_of $who)"
    done
}

@test "--wait-children: the lock is kept until the last one has ended by itself" {
    cat >daemon.sh <<'DAEMON'
trap 'touch "$D/termed"' TERM
echo $$ >"$D/left"
until [ -e "$D/end" ]; do sleep 0.2; done
DAEMON
    background run --wait-children -v "$L" -- bash -c '(setsid bash "$D/daemon.sh" &) ; exit 4'
    poll got left
    echo "daemon $(cat left)" >tree
    successor
    run ! rl run -w 1 "$L" -- true
    is_alive "$(cat left)"
    [ ! -e found ]
    touch end
    next_finds dead
    ends_with 4
    [ ! -e termed ]
    # (A `sleep` may be counted, too.)
    grep -Eq "(1 process|2 processes) that bash started outlived it" err
}

@test "--wait-children: SIGTERM, or SIGINT, when the command has ended, ends them" {
    TREE_TRAP=$IGNORE_TERM leave_tree --wait-children --kill-after=1s
    successor
    poll command_is_over
    kill -TERM "$BACK"
    next_finds dead
    ends_with 4
    rm tree leaver
    leave_tree --wait-children
    poll command_is_over
    kill -INT "$BACK"
    ends_with 4
    tree_is_dead
}

@test "the lock is lost while children are waited for: all dead at once, 75" {
    TREE_TRAP=$IGNORE_TERM leave_tree --wait-children --mode=pessimistic --ttl=60s
    poll command_is_over
    sql_any "KILL $(rl show --json "$L" | jq -e .connection_id)"
    ends_with 75
    tree_is_dead
}

@test "rowlock is killed while children are waited for: all dead" {
    TREE_TRAP=$IGNORE_TERM leave_tree --wait-children --mode=pessimistic
    poll command_is_over
    kill -KILL "$BACK"
    poll tree_is_dead
    MODE=pessimistic poll is_free
}

# The command has ended, and the supervisor has become the parent of the tree.
command_is_over() {
    [ ! -e "/proc/$(cat leaver)" ] && [ "$(ps -o ppid= -p "$(pid_of command)" | tr -d ' ')" = "$(supervisor_of "$BACK")" ]
}
