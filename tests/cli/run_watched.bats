#!/usr/bin/env bats
# rowlock run --alive, rowlock alive: a command that shows no life is ended. run --on-lost, run --log.

load helpers
load run_helpers

# alive_run OPTION... -- COMMAND...: in the background.
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
    alive_run --alive=300ms -- sh -c 'touch "$D/held"; exec sleep 1000'
    ended_silent 300ms
    [ -e "$D/held" ]
}

# It ends with 0 on SIGTERM; that is no success.
ends_well() {
    alive_run --alive=300ms -- sh -c 'exec 2>/dev/null; trap "exit 0" TERM; while :; do sleep 0.05; done'
    ended_silent 300ms
}

# All that descends from it is dead before the next has the lock, also with --leave-children.
all_are_ended() {
    run_tree --alive=5s "$@"
    successor
    poll got "$D/found"
    [ "$(cat "$D/found")" = dead ]
    touch "$D/let_go"
    ends_with 124
    ends_with 0 "$NEXT"
}

# SIGKILL after --kill-after.
ignores_term() {
    TREE_TRAP='trap "" TERM' run_tree --alive=5s --kill-after=200ms
    ends_with 124
    tree_is_dead
    grep -q "SIGKILL for [0-9]* processes of bash" "$D/err"
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

# shows_life COMMAND: beats with it, longer than it might be silent; then it goes on with 7.
shows_life() {
    alive_run --alive=4s -- bash -c "
        for ((i = 0; i < 60; i++)); do sleep 0.1; $1 || exit 99; done; exit 7"
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
    # (3 is the tests' own.)
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

@test "--alive: --wait-children: those show life, too; one that closes the descriptor shows none" {
    background run --alive=4s --wait-children "$L" -- sh -c '
        (for i in 1 2 3 4 5 6 7 8 9 10; do sleep 0.5; "$ROWLOCK" alive; done; touch "$D/done") & exit 5'
    ends_with 5
    [ -e done ]
    background run --alive=500ms --wait-children "$L" -- sh -c '(sleep 1000) & exit 5'
    ends_with 124
    background run --alive=500ms "$L" -- bash -c 'eval "exec $ROWLOCK_ALIVE_FD>&-"; "$ROWLOCK" alive; echo $? >"$D/status"; sleep 1000'
    ends_with 124
    [ "$(cat status)" = 64 ]
}

@test "alive: without a run, with a descriptor of somebody else, after its run has ended" {
    unset ROWLOCK_ALIVE_FD
    misused "ROWLOCK_ALIVE_FD is not set: *" "$ROWLOCK" alive
    ROWLOCK_ALIVE_FD=x misused "ROWLOCK_ALIVE_FD is no number: 'x'" "$ROWLOCK" alive
    ROWLOCK_ALIVE_FD=250 misused "descriptor 250 (ROWLOCK_ALIVE_FD) is closed here*" "$ROWLOCK" alive
    echo mine >mine
    ROWLOCK_ALIVE_FD=9 misused "descriptor 9 (ROWLOCK_ALIVE_FD) is closed here*" bash -c '"$ROWLOCK" alive 9>>mine'
    [ "$(cat mine)" = mine ]
    rl run --alive=1h --leave-children "$L" -- bash -c '
        (until [ -e "$D/over" ]; do sleep 0.05; done; "$ROWLOCK" alive 2>"$D/said"; echo $? >"$D/status") >/dev/null 2>&1 3>&- & :'
    touch over
    poll got status
    [ "$(cat status)" = 75 ]
    [[ $(cat said) == "rowlock: the 'rowlock run --alive' that this belongs to has ended"* ]]
    misused "--alive is from 100ms to 24h, not '0'" rl run --alive=0 "$L" -- true
    misused "--alive is from 100ms to 24h, not '2d'" rl run --alive=2d "$L" -- true
}

@test "lead --alive, once --alive" {
    background lead --alive=300ms "$L" -- sh -c 'echo x >>"$D/runs"; sleep 1000'
    poll got runs 2
    grep -q "shown no life for 300ms" err
    grep -q "sh has ended (exit status 124); in line again" err
    kill -TERM "$BACK"
    ends_with 0
    run -124 rl once --per=1d --alive=300ms "$L once" -- sleep 1000
    works rl once status --json "$L once"
    json '.[0].state == "failed" and .[0].exit_status == 124' <<<"$output"
}

# loses OPTION...: a run whose lock is broken, with a script that notes what it finds.
NOTE='while read -r _ pid; do [ ! -e /proc/$pid ] || echo alive; done <"$D/tree"
echo "$ROWLOCK_NAME|$ROWLOCK_TOKEN|$ROWLOCK_OWNER|${MYSQL_PWD-none}|${ROWLOCK_ALIVE_FD-none}"; echo "$ROWLOCK_LOST"'
loses() {
    run_tree "$@" --alive=1h --on-lost="{ $NOTE; } >\"\$D/lost\""
    token=$(token_of_lock)
    rl break --now "$L" >/dev/null
    ends_with 75
    cat "$D/lost"
    sed -n 1p "$D/lost" | grep -qE "^$L\|$token\|[0-9a-f-]{36}[.0-9]*\|none\|none$"
    sed -n 2p "$D/lost" | grep -q .
    said_once "the lock was lost: $(sed -n 2p "$D/lost"); bash was ended"
}

# It is ended after some seconds, with all it started, also where it ignores SIGTERM.
takes_too_long() {
    TREE_TRAP='trap "" TERM' run_tree --mode=pessimistic --on-lost='rm "$D/tree"; exec bash "$D/tree.sh"'
    since=$(now_ms)
    rl break --now "$L" >/dev/null
    poll got "$D/tree" 4
    ends_with 75
    tree_is_dead
    within 16000 "$since"
    grep -q "^rowlock: $L: --on-lost has taken longer than 10 s, and was ended" "$D/err"
}

ends_at_max_hold() {
    background run --max-hold=1s --on-lost='echo "$ROWLOCK_LOST" >"$D/lost"' "$L" -- sleep 1000
    ends_with 75
    [ "$(cat "$D/lost")" = "it would be held longer than --max-hold allows" ]
}

is_not_run() {
    rl run --on-lost='touch "$D/lost"' "$L" -- true
    rl run --on-lost='touch "$D/lost"' --leave-children "$L" -- sh -c 'sleep 1 >/dev/null 2>&1 3>&- &'
    background run --on-lost='touch "$D/lost"' "$L" -- sh -c 'touch "$D/held"; sleep 1000'
    poll test -e "$D/held"
    kill -TERM "$BACK"
    ends_with 143
    [ ! -e "$D/lost" ]
}

# A signal ends it, and so the run.
hears_signals() {
    hold --ttl=8s --on-lost='touch "$D/begun"; exec sleep 1000'
    rl break --now "$L" >/dev/null
    poll test -e "$D/begun"
    kill -TERM "$BACK"
    ends_with 75
    is_free
}

@test "--on-lost: what it finds, once all has ended; it ends in time; where it is not run" {
    export NOTE
    side_by_side "loses --ttl=8s" "loses --mode=pessimistic" takes_too_long ends_at_max_hold is_not_run hears_signals
}

@test "lead --on-lost, once --on-lost" {
    background lead --ttl=8s --on-lost='echo "$ROWLOCK_LOST|$ROWLOCK_VALUE" >>"$D/lost"' --value=me "$L" -- sh -c 'touch "$D/held"; sleep 1000'
    poll test -e held
    rl break --now "$L"
    poll got lost
    [[ $(cat lost) == *"|me" ]]
    kill -TERM "$BACK"
    poll is_dead "$BACK"
    background once --per=1d --ttl=8s --on-lost='echo "$ROWLOCK_LOST" >"$D/once_lost"' "$L once" -- sh -c 'touch "$D/once_held"; sleep 1000'
    poll test -e once_held
    rl break --now "$L once"
    ends_with 75
    got once_lost
}

# logged FILTER...: each line on stderr is one object with a time, an event and a message; the filters hold of all together.
logged() {
    cat "$D/err"
    while IFS= read -r line; do
        json '(.time | test("^2[0-9]{3}-[0-9-]+T[0-9:.]+Z$")) and (.event | length > 0) and (.message | length > 0)' <<<"$line"
    done <"$D/err"
    for filter in "$@"; do
        jq -es "$filter" <"$D/err" || { echo "not so: $filter"; return 1; }
    done
}

log_of_a_run() {
    background run -v --log=json "$L" -- sh -c 'exit 5'
    ends_with 5
    logged 'map(.event) | map(select(. != "log")) == ["acquired", "released"]' \
        '.[] | select(.event == "acquired") | .token == 1 and .waited_ms >= 0 and .name == env.L' \
        '.[] | select(.event == "released") | .exit_status == 5 and .held_ms >= 0 and (.message | startswith(env.L))'
    background run --log=json "$L" -- true
    ends_with 0
    [ ! -s "$D/err" ]
}

log_of_waiting() {
    hold
    run rl run -v --log=json -w 1 "$L" -- true
    echo "$output" >"$D/err"
    logged 'map(select(.event == "waiting")) | length >= 1 and .[0].name == env.L' \
        'last | .event == "error" and .status == "TIMEOUT" and .exit_status == 1'
    touch "$D/let_go"
    ends_with 8
}

log_of_an_ask() {
    background run --ttl=8s --log=json --on-ask=none "$L" -- sh -c 'touch "$D/held"; until [ -e "$D/let_go" ]; do sleep 0.05; done'
    poll test -e "$D/held"
    rl ask --reason=$'a \e[31mdeploy"' "$L"
    poll got "$D/err"
    touch "$D/let_go"
    ends_with 0
    logged 'length == 1 and .[0].event == "asked" and .[0].reason != "" and .[0].left_ms > 0 and (.[0].by | length > 0)'
    is_harmless "$D/err"
}

log_of_a_loss() {
    background run --mode=pessimistic --log=json "$L" -- sh -c 'touch "$D/held"; sleep 1000'
    poll test -e "$D/held"
    rl break --now "$L"
    ends_with 75
    logged 'length == 1 and .[0].event == "lost" and .[0].name == env.L and (.[0].reason | length > 0)'
    background run --mode=pessimistic --alive=100ms --log=json "$L" -- sleep 1000
    ends_with 124
    logged 'length == 1 and .[0].event == "silent" and .[0].alive_ms == 100'
}

@test "--log=json: what is said is one object a line, and no more is said than otherwise" {
    side_by_side log_of_a_run log_of_waiting log_of_an_ask log_of_a_loss
    misused "--log is text or json, not 'xml'" rl run --log=xml "$L" -- true
    # The supervisor's own line, too; and on a terminal there is no line that goes away.
    background run --log=json "$L" -- sh -c 'touch "$D/held"; sleep 1000'
    poll test -e held
    supervisor=$(supervisor_of "$BACK")
    kill -KILL "$BACK"
    poll is_dead "$supervisor"
    logged 'length == 1 and .[0].event == "message"'
    works rl once --per=1d --log=json "$L once" -- true
    L+=' terminal'
    rm held
    hold
    on_terminal 80 rl run --log=json -w 1 "$L" -- true >err || true
    logged 'length == 1 and .[0].event == "error"'
    touch let_go
    ends_with 8
}
