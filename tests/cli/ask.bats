# rowlock ask, run --on-ask; how ls, show and history tell of it.

bats_require_minimum_version 1.5.0

load helpers
load run_helpers

# works_on [OPTION...]: a command that holds the lock, notes the signals that it gets, and ends when $D/let_go is there.
works_on() {
    cat >worker <<'SH'
for s in TERM USR1 INT HUP; do trap "echo $s >>heard" $s; done
touch held
until [ -e let_go ]; do sleep 0.2; done
exit 8
SH
    rm -f held heard
    background run --ttl=20s "$@" "$L" -- sh worker
    HOLDER=$BACK
    poll test -e held
}

heard() {
    [ "$(cat heard 2>/dev/null | tr '\n' ' ')" = "$1" ]
}

asked_for() {
    works rl ask "$@" "$L"
    [[ $output == "$L: held by "*" sh, asked to stop within "* ]]
}

@test "ask: the command gets SIGTERM, and its end is an ordinary release" {
    background run --ttl=20s "$L" -- sh -c 'trap "echo ending; exit 5" TERM; touch held; while :; do sleep 0.1; done'
    poll test -e held
    asked_for --reason="a deploy" --grace=90s
    [[ $output == *"within 1m30s" ]]
    ends_with 5
    [ "$(cat out)" = ending ]
    [[ $(cat err) == "rowlock: $L: asked to stop by "*", within "*": a deploy" ]]
    is_free
    rl history --json "$L" | jq -es '.[0] | map(.event) | contains(["asked", "released"])'
    rl history --json "$L" | jq -es '.[0] | map(select(.event == "asked")) | length == 1
        and (.[0].detail | test("^by .*, within 90s: a deploy$"))'
    rl history --json --event=asked "$L" | jq -es '.[0] | length == 1'
}

@test "ask: who ignores it keeps the lock; each ask is heard once; ls and show tell" {
    works_on
    rl ls | grep -qE "^$L +held +lease"
    rl ls --json | jq -es --arg name "$L" '.[0][] | select(.name == $name)
        | .asked_at == null and .asked_by == "" and .reason == "" and .stop_by == null'
    asked_for --reason="a deploy"
    poll heard 'TERM '
    rl ls | grep -qE "^$L +held, asked [0-9.]+m?s ago +lease"
    rl show "$L" | grep -qE '^asked +20.* UTC \(.* ago\)$'
    rl show "$L" | grep -qE '^reason +a deploy$'
    rl show "$L" | grep -qE '^to stop by +20.* UTC$'
    rl show --json "$L" | jq -es '.[0] | .reason == "a deploy" and (.asked_by | length > 0) and .asked_at < .stop_by'
    asked_for
    poll heard 'TERM TERM '
    capture rl ask --json -w 2 "$L"
    [ "$status" -eq 1 ]
    [[ "$stderr" == *"still holds '$L'" ]]
    json '.ended == false and .token > 0' <<<"$output"
    poll heard 'TERM TERM TERM '
    is_alive "$HOLDER"
    touch let_go
    ends_with 8
    [ "$(grep -c "asked to stop" err)" -eq 3 ]
    fails 66 "nobody holds '$L'" rl ask "$L"
    rl show --json "$L" | jq -es '.[0].asked_at == null'
}

# hears WHAT OPTION...: what the command gets when it is asked.
hears() {
    works_on "${@:2}"
    asked_for
    poll heard "$1"
    touch let_go
    ends_with 8
}

hears_nothing() {
    works_on --on-ask=none
    asked_for
    poll grep -q "asked to stop" err
    touch let_go
    ends_with 8
    heard ''
}

@test "run --on-ask: another signal, or none" {
    side_by_side "hears 'USR1 ' --on-ask=USR1" "hears 'INT ' --on-ask=sigint" hears_nothing
    for wrong in FOO '' 99 TERMS; do
        misused "--on-ask is none, or a signal*, not '$wrong'" rl run --on-ask="$wrong" "$L" -- true
    done
}

@test "run: what the command started does not get the signal" {
    background run --ttl=20s --wait-children "$L" -- sh -c 'trap "touch got; exit 6" TERM
        sh -c "trap \"touch child\" TERM; touch held; until [ -e let_go ]; do sleep 0.2; done" & wait'
    poll test -e held
    asked_for
    poll test -e got
    touch let_go
    ends_with 6
    [ ! -e child ]
}

@test "ask -w: until it has ended" {
    background run --ttl=20s "$L" -- sh -c 'trap "exit 5" TERM; touch held; while :; do sleep 0.1; done'
    poll test -e held
    works rl ask -w 20 "$L"
    [[ $output == "$L: let go; it was held by "* ]]
    is_free
    ends_with 5
    works_on --on-ask=none
    works rl ask --json --reason=x "$L"
    jq -es --arg name "$L" '.[0] | .name == $name and .ended == false and .token > 0 and .grace_ms == 60000' <<<"$output"
    touch let_go
    ends_with 8
}

readers_hear() {
    works_on --shared
    works rl ask "$L"
    [[ $output == *"held by 1 together"* ]]
    poll heard 'TERM '
    touch let_go
    ends_with 8
}

slots_hear() {
    works_on --slots=2
    works rl ask "$L"
    [[ $output == *"held by 1 of 2 slots"* ]]
    poll heard 'TERM '
    cat err
    [[ $(cat err) == "rowlock: $L#"[01]": asked to stop by "* ]]
    slot=$(cut -d: -f2 err)
    works rl ask "${slot# }"
    poll heard 'TERM TERM '
    touch let_go
    ends_with 8
    fails 66 "nobody holds a slot of '$L'" rl ask "$L"
}

sets_hear() {
    works_on --also="$L other"
    works rl ask "$L other"
    poll heard 'TERM '
    cat err
    [[ $(cat err) == "rowlock: $L other: asked to stop by "* ]]
    touch let_go
    ends_with 8
}

@test "ask: row locks, readers, slots, sets" {
    side_by_side "hears 'TERM ' --mode=pessimistic" readers_hear slots_hear sets_hear
}

@test "ask: what cannot be asked" {
    fails 66 "there is no lock '$L'*" rl ask "$L"
    rl latch set "$L latch" 1
    fails 65 "'$L latch' is a latch, which has no holder to ask*" rl ask "$L latch"
    works_on --mode=pessimistic --unfenced
    fails 66 "nobody holds '$L', as far as is published*" rl ask "$L"
    touch let_go
    ends_with 8
    misused "--grace is from 1ms to 24h, not '0'" rl ask --grace=0 "$L"
    misused "--grace is from 1ms to 24h, not '25h'" rl ask --grace=25h "$L"
    misused "the lock's NAME is missing" rl ask
}

@test "ask: nothing in it steers a terminal" {
    works_on --on-ask=none
    reason=$'\e[31mred\e]0;title\a \u202e %s'
    rl ask --reason="$reason" "$L"
    poll grep -q "asked to stop" err
    run ! grep -q $'\e' err
    all_harmless 0 'show "$L"' 'ls' 'history "$L"' 'ask --reason="$reason" "$L"'
    touch let_go
    ends_with 8
}
