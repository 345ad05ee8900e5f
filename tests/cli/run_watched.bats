#!/usr/bin/env bats
# rowlock run --alive, rowlock alive: a command that shows no life is ended.

load helpers
load run_helpers

# alive_run OPTION... -- COMMAND...: runs it in the background.
alive_run() {
    local options=()
    while [ "$1" != -- ]; do
        options+=("$1")
        shift
    done
    background run "${options[@]}" "$L" "$@"
}

ended_silent() {
    ends_with 124
    said_once "has shown no life for $1 (--alive), and was ended"
    is_free
    rl history --json "$L" | jq -es '.[0] | map(select(.exit_status == 124))
        | length == 1 and .[0].event == "released" and .[0].detail == "the command was ended: it showed no life (--alive)"'
}

shows_none() {
    alive_run --alive=2s -- sh -c ': >"$D/held"; exec sleep 1000'
    ended_silent 2.0s
    [ -e "$D/held" ]
}

# A command that exits with 0 on that SIGTERM has not succeeded.
ends_well() {
    alive_run --alive=2s -- sh -c 'exec 2>/dev/null; trap "exit 0" TERM; while :; do sleep 0.1; done'
    ended_silent 2.0s
}

# silent_tree OPTION...: a tree that shows life until it is complete, and then none.
silent_tree() {
    TREE_TRAP+='; [ "$1" != command ] || (until [ -e "$D/quiet" ]; do echo >&"$ROWLOCK_ALIVE_FD"; sleep 0.3; done) &'
    run_tree --alive=10s "$@"
    touch "$D/quiet"
}

# All descendants are dead before the next one has the lock, also with --leave-children, and those that outlive the command.
all_are_ended() {
    TREE_TRAP='[ "$1" = command ] || trap "sleep 2; exit" TERM' silent_tree "$@"
    successor
    poll got "$D/found"
    [ "$(cat "$D/found")" = dead ]
    touch "$D/let_go"
    ends_with 124
    ends_with 0 "$NEXT"
}

# SIGKILL comes after --kill-after.
ignores_term() {
    TREE_TRAP='trap "" TERM' silent_tree --kill-after=200ms
    ends_with 124
    tree_is_dead
    grep -q "SIGKILL sent to [0-9]* processes of bash" "$D/err"
}

stopped() {
    alive_run --alive=500ms --kill-after=1h -- sh -c 'kill -STOP $$'
    ended_silent 500ms
}

flood() {
    alive_run --alive=20s -- sh -c 'yes >&"$ROWLOCK_ALIVE_FD" & sleep 1; exit 5'
    ends_with 5
}

@test "--alive: a command that shows no life is ended, all of it, before the next has the lock; 124" {
    side_by_side shows_none ends_well all_are_ended "all_are_ended --leave-children" ignores_term stopped flood
}

# shows_life COMMAND: beats with it for longer than the limit, then exits with 7.
shows_life() {
    alive_run --alive=10s -- bash -c "
        end=\$((SECONDS + 12)); while ((SECONDS < end)); do sleep 0.5; $1 || exit 99; done; exit 7"
    ends_with 7
    [ ! -s "$D/err" ]
}

@test "--alive: rowlock alive, a write from sh, from children and through pipes, many writers: it lives on" {
    export -f shows_life
    side_by_side 'shows_life "\"\$ROWLOCK\" alive"' 'shows_life "echo >&\$ROWLOCK_ALIVE_FD"' \
        'shows_life "sh -c '\''echo >&\$ROWLOCK_ALIVE_FD'\''"' \
        'shows_life "(setsid \"\$ROWLOCK\" alive &)"' \
        'shows_life "{ \"\$ROWLOCK\" alive & \"\$ROWLOCK\" alive & wait; } | cat"'
}

@test "--alive: its descriptor has one digit, and is none that the command inherits" {
    # (Descriptor 3 is bats'.)
    is_inherited() {
        rl run --alive=1h "$L" -- sh -c 'echo $ROWLOCK_ALIVE_FD; readlink /proc/$$/fd/3 /proc/$$/fd/$ROWLOCK_ALIVE_FD' 3<>here 4<>here 5<>here
    }
    works is_inherited
    [ "${lines[0]}" = 6 ]
    [ "${lines[1]}" = "$D/here" ]
    [[ ${lines[2]} == "pipe:"* ]]
    works rl run "$L" -- sh -c 'echo "${ROWLOCK_ALIVE_FD-none}"'
    [ "$output" = none ]
}

children_show_life() {
    background run --alive=8s --wait-children "$L" -- sh -c '
        (for i in 1 2 3 4 5 6 7 8 9 10; do sleep 1; "$ROWLOCK" alive; done; touch "$D/done") & exit 5'
    ends_with 5
    [ -e "$D/done" ]
}

children_show_none() {
    background run --alive=500ms --wait-children "$L" -- sh -c '(sleep 1000) & exit 5'
    ends_with 124
}

closes_it() {
    background run --alive=10s "$L" -- bash -c 'eval "exec $ROWLOCK_ALIVE_FD>&-"; "$ROWLOCK" alive; echo $? >"$D/status"; sleep 1000'
    ends_with 124
    [ "$(cat "$D/status")" = 64 ]
}

@test "--alive: --wait-children: those show life, too; one that closes the descriptor shows none" {
    side_by_side children_show_life children_show_none closes_it
}

@test "alive: without a run, with a descriptor of somebody else, after its run has ended" {
    unset ROWLOCK_ALIVE_FD
    misused "ROWLOCK_ALIVE_FD is not set: *" "$ROWLOCK" alive
    ROWLOCK_ALIVE_FD=x misused "ROWLOCK_ALIVE_FD is not a number: 'x'" "$ROWLOCK" alive
    ROWLOCK_ALIVE_FD=250 misused "descriptor 250 (ROWLOCK_ALIVE_FD) is closed here*" "$ROWLOCK" alive
    echo mine >mine
    ROWLOCK_ALIVE_FD=9 misused "descriptor 9 (ROWLOCK_ALIVE_FD) is closed here*" bash -c '"$ROWLOCK" alive 9>>mine'
    [ "$(cat mine)" = mine ]
    rl run --alive=1h --leave-children "$L" -- bash -c '
        (until [ -e "$D/over" ]; do sleep 0.2; done; "$ROWLOCK" alive 2>"$D/said"; echo $? >"$D/status") >/dev/null 2>&1 3>&- & :'
    touch over
    poll got status
    [ "$(cat status)" = 75 ]
    [[ $(cat said) == "rowlock: the 'rowlock run --alive' that this belongs to has ended"* ]]
    misused "--alive is from 100ms to 24h, not '0'" rl run --alive=0 "$L" -- true
    misused "--alive is from 100ms to 24h, not '2d'" rl run --alive=2d "$L" -- true
}

lead_again() {
    background lead --alive=1s "$L" -- sh -c 'echo x >>"$D/runs"; sleep 1000'
    poll got "$D/runs" 2
    grep -q "shown no life for 1.0s" "$D/err"
    grep -q "sh has ended (exit status 124); in line again" "$D/err"
    kill -TERM "$BACK"
    ends_with 0
}

once_failed() {
    run -124 rl once --per=1d --alive=300ms "$L once" -- sleep 1000
    works rl once status --json "$L once"
    json '.[0].state == "failed" and .[0].exit_status == 124' <<<"$output"
}

@test "lead --alive, once --alive" {
    side_by_side lead_again once_failed
}
