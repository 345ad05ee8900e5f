#!/usr/bin/env bats
# rowlock run --on-lost, run --log: what the script and the log are told.

load helpers
load run_helpers

# loses OPTION...: a run whose lock is broken, with a script that notes what it sees.
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

# The script is ended after some seconds, with all it started, even if they ignore SIGTERM.
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
    background run --max-hold=5s --on-lost='echo "$ROWLOCK_LOST" >"$D/lost"' "$L" -- sleep 1000
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

# A signal ends the script, and so the run.
hears_signals() {
    hold --ttl=20s --on-lost='touch "$D/begun"; exec sleep 1000'
    rl break --now "$L" >/dev/null
    poll test -e "$D/begun"
    kill -TERM "$BACK"
    ends_with 75
    is_free
}

@test "--on-lost: what it finds, once all has ended; it ends in time; where it is not run" {
    export NOTE
    side_by_side "loses --ttl=20s" "loses --mode=pessimistic" takes_too_long ends_at_max_hold is_not_run hears_signals
}

lead_lost() {
    background lead --ttl=20s --on-lost='echo "$ROWLOCK_LOST|$ROWLOCK_VALUE" >>"$D/lost"' --value=me "$L" -- sh -c 'touch "$D/held"; sleep 1000'
    poll test -e "$D/held"
    rl break --now "$L"
    poll got "$D/lost"
    [[ $(cat "$D/lost") == *"|me" ]]
    kill -TERM "$BACK"
    poll is_dead "$BACK"
}

once_lost() {
    background once --per=1d --ttl=20s --on-lost='echo "$ROWLOCK_LOST" >"$D/once_lost"' "$L once" -- sh -c 'touch "$D/once_held"; sleep 1000'
    poll test -e "$D/once_held"
    rl break --now "$L once"
    ends_with 75
    got "$D/once_lost"
}

@test "lead --on-lost, once --on-lost" {
    side_by_side lead_lost once_lost
}

# logged FILTER...: each line on stderr is one object with a time, an event and a message; each filter is true of all.
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
    logged 'map(.event) | map(select(. | IN("log", "waiting") | not)) == ["acquired", "released"]' \
        '.[] | select(.event == "acquired") | .token == 1 and .waited_ms >= 0 and .name == env.L' \
        '.[] | select(.event == "released") | .exit_status == 5 and .held_ms >= 0 and (.message | startswith(env.L))'
    background run --log=json "$L" -- true
    ends_with 0
    [ ! -s "$D/err" ]
}

log_of_waiting() {
    hold
    run rl run -v --log=json -w 5 "$L" -- true
    echo "$output" >"$D/err"
    logged 'map(select(.event == "waiting")) | length >= 1 and .[0].name == env.L' \
        'last | .event == "error" and .status == "TIMEOUT" and .exit_status == 1'
    touch "$D/let_go"
    ends_with 8
}

log_of_an_ask() {
    background run --ttl=20s --log=json --on-ask=none "$L" -- sh -c 'touch "$D/held"; until [ -e "$D/let_go" ]; do sleep 0.2; done'
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

# The log has no line that is erased.
log_on_a_terminal() {
    hold
    on_terminal 80 rl run --log=json -w 1 "$L" -- true >"$D/err" || true
    logged 'length == 1 and .[0].event == "error"'
    touch "$D/let_go"
    ends_with 8
}

@test "--log=json: what is said is one object a line, and no more is said than otherwise" {
    side_by_side log_of_a_run log_of_waiting log_of_an_ask log_of_a_loss log_on_a_terminal
    misused "--log is text or json, not 'xml'" rl run --log=xml "$L" -- true
    # The supervisor's own line is JSON, too.
    background run --log=json "$L" -- sh -c 'touch "$D/held"; sleep 1000'
    poll test -e held
    supervisor=$(supervisor_of "$BACK")
    kill -KILL "$BACK"
    poll is_dead "$supervisor"
    logged 'length == 1 and .[0].event == "message"'
    works rl once --per=1d --log=json "$L once" -- true
}
