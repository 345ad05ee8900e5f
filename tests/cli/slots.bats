# rowlock run --slots, --units, --also; rowlock slots; how ls, show and break see them.

bats_require_minimum_version 1.5.0

load helpers
load run_helpers

# refused STATUS TEXT COMMAND...: it ends so, with one line that has TEXT, and the command was not run.
refused() {
    rm -f "$D/marker"
    run "-$1" "${@:3}"
    [ "${#lines[@]}" -eq 1 ]
    [[ $output == "rowlock: "*"$2"* ]]
    [ ! -e "$D/marker" ]
}

# has_slot WHO [OPTION...]: holds slots until $D/WHO.go is there; their numbers are in $D/WHO, the token in $D/WHO.token
has_slot() {
    (
        export WHO=$1
        rl_exec run "${@:2}" "$L" -- bash -c 'echo "$ROWLOCK_TOKEN" >"$D/$WHO.token"
            echo "$ROWLOCK_SLOT" >"$D/$WHO"
            until [ -e "$D/$WHO.go" ]; do sleep 0.2; done'
    ) </dev/null >"$D/$1.out" 2>"$D/$1.err" 3>&- &
    declare -gA HOLDERS
    HOLDERS[$1]=$!
}

leaves() {
    touch "$D/$1.go"
    ends_with 0 "${HOLDERS[$1]}"
}

as_many_as_there_are() {
    local mode=$1
    has_slot one --mode="$mode" --slots=2
    poll got "$D/one"
    has_slot two --mode="$mode" --slots=as-set
    poll got "$D/two"
    [ "$(cat one two | sort | tr '\n' ' ')" = '0 1 ' ]
    [ "$(cat one.token)" -gt 0 ]
    refused 1 "$L" rl run -n --mode="$mode" --slots=2 "$L" touch marker
    has_slot three --mode="$mode" --slots=2
    leaves one
    poll got "$D/three"
    [ "$(cat three)" = "$(cat one)" ]
    refused 65 "2 slots, not 3" rl run -n --mode="$mode" --slots=3 "$L" touch marker
    leaves two
    leaves three
    has_slot both --mode="$mode" --slots=2 --units=2
    poll got "$D/both"
    [ "$(tr ' ' '\n' <both | sort | tr '\n' ' ')" = '0 1 ' ]
    refused 1 "$L" rl run -n --mode="$mode" --slots=2 "$L" touch marker
    leaves both
}

@test "--slots: so many at once, each with its number; --units: so many of them" {
    side_by_side "as_many_as_there_are lease" "as_many_as_there_are pessimistic"
}

@test "without --slots there is no ROWLOCK_SLOT, also inside one that has" {
    run -0 rl run --slots=3 "$L" -- "$ROWLOCK" run -D "$TEST_SCHEMA" --defaults-file="$TEST_OPTIONS" "$L inner" -- \
        sh -c 'echo "${ROWLOCK_SLOT-none}"'
    [ "$output" = none ]
}

@test "slots: how many, and another number" {
    fails 66 "'$L' has no number of slots yet; say how many" rl slots "$L"
    run -66 rl run --slots=as-set "$L" true
    rl slots "$L" 3
    [ "$(rl slots "$L")" = 3 ]
    has_slot one --slots=3
    poll got "$D/one"
    rl slots --json "$L" | jq -es --arg name "$L" '.[0] == {"name": $name, "slots": 3, "slots_held": 1}'
    rl slots "$L" 1
    [ "$(rl slots "$L")" = 1 ]
    leaves one
    is_silent 0 rl run -n --slots=1 "$L" true
    fails 64 "the name has 1 slot, and 2 are asked for" rl run -n --slots=1 --units=2 "$L" true
    fails 64 "'$L' has 1 slot, and 2 are asked for" rl run -n --slots=as-set --units=2 "$L" true
    fails 1 "the only slot of '$L' is in use" rl run --slots=1 "$L" -- "$ROWLOCK" --defaults-file="$TEST_OPTIONS" -D "$TEST_SCHEMA" \
        run -n --slots=1 "$L" true
    rl run "$L-lease" true
    run -65 rl slots "$L-lease"
    run -65 rl run -n "$L" true
    for wrong in 0 1001 -1 x ''; do
        run -64 rl slots "$L" "$wrong"
    done
    [ "$(rl slots "$L")" = 1 ]
    misused '--slots=0 *' rl run --slots=0 "$L" true
    misused '--units needs *' rl run --units=2 "$L" true
    misused '--slots goes *' rl run --slots=2 --shared "$L" true
    misused '--slots goes *' rl run --slots=2 --also=x "$L" true
}

@test "ls, show and break: how many are held; each slot is a lock of its own" {
    has_slot one --slots=4 --ttl=20s
    poll got "$D/one"
    rl ls --json | jq -es --arg name "$L" '.[0] | map(select(.name == $name))
        | length == 1 and (.[0] | .slots == 4 and .slots_held == 1 and .state == "held")'
    rl ls | grep -F "$L" | grep -q '1 of 4'
    rl show "$L" | grep -q '^slots .*1 of 4'
    rl show "$L#$(cat one)" | grep -q '^state .*held'
    rl break --now "$L"
    ends_with 75 "${HOLDERS[one]}"
    run -1 rl break "$L"
    [[ $output == *"none of the slots"* ]]
    rl history --json "$L#$(cat one)" | jq -es '.[0] | map(.event) | index("broken") != null'
}

@test "--also: all of them or none, each with its token; one lost is the end" {
    rl run --also="$L b" --also-shared="$L c" "$L" -- sh -c 'touch in; until [ -e go ]; do sleep 0.2; done' 3>&- &
    set_pid=$!
    poll test -e in
    for name in "$L" "$L b" "$L c"; do
        run -1 rl run -n "$name" true
    done
    is_silent 0 rl run -n --shared "$L c" true
    run -1 rl run -n --shared "$L b" true
    run -1 rl run -n --also="$L b" "$L other" true
    is_silent 0 rl run -n "$L other" true
    touch go
    ends_with 0 "$set_pid"
    for name in "$L" "$L b" "$L c"; do
        is_silent 0 rl run -n "$name" true
    done
    rl run --ttl=20s --also="$L b" "$L" -- sh -c 'touch in2; sleep 60' 3>&- &
    set_pid=$!
    poll test -e in2
    rl break --now "$L b"
    ends_with 75 "$set_pid"
    is_silent 0 rl run -n "$L" true
}
