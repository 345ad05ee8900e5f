# rowlock latch; how ls, show, history and break see a latch.

bats_require_minimum_version 1.5.0

load helpers
load run_helpers

# set_to N: sets the latch; its generation is in G.
set_to() {
    G=$(rl latch set "$L" "$1")
    [[ $G =~ ^[1-9][0-9]*$ ]]
}

# is_open [OPTION...]
is_open() {
    is_silent 0 rl latch wait -w 0 "$@" "$L"
}

# is_closed HAVE COUNT
is_closed() {
    fails 1 "'$L' is closed: $1 of $2 have counted" rl latch wait -w 0 "$L"
}

# is_broken TEXT [OPTION...]
is_broken() {
    fails 75 "*$1*" rl latch wait -w 0 "${@:2}" "$L"
}

# waits WHO [OPTION...]: starts a waiter; its output is in $D/WHO.
waits() {
    (rl_exec latch wait --json "${@:2}" "$L") </dev/null >"$D/$1" 2>&1 3>&- &
    declare -gA WAITERS
    WAITERS[$1]=$!
}

# listed FILTER [OPTION...]: is true of the list's objects with the latch's name.
listed() {
    rl ls --json "${@:2}" | jq -es --arg name "$L" --argjson generation "${G:-0}" \
        ".[0] | map(select(.name == \$name)) | $1"
}

# shown FILTER: is true of the latch's state.
shown() {
    rl latch show --json "$L" | jq -es --arg name "$L" --argjson generation "${G:-0}" \
        "length == 1 and (.[0] | ($1))"
}

# joins COMMAND...: runs it in the background as a member.
joins() {
    background latch join -t 20s "$L" -- "$@"
}

# A command for joins: runs until $D/go is there.
WORKS='touch "$D/in"; until [ -e "$D/go" ]; do sleep 0.2; done'

@test "set, down, wait: closed until so many have counted, then open for all" {
    set_to 2
    is_closed 0 2
    is_silent 0 rl latch down "$L"
    is_closed 1 2
    is_silent 0 rl latch down "$L"
    is_open
    is_open --generation="$G"
    is_silent 0 rl latch wait "$L"
    # A count too many changes nothing.
    is_silent 0 rl latch down "$L"
    is_open
    works rl latch wait --json "$L"
    jq -es --arg name "$L" --argjson generation "$G" '.[0] == {"name": $name, "generation": $generation}' <<<"$output"
}

@test "set again: the next generation; the one before stays open" {
    set_to 1
    first=$G
    fails 1 "'$L' is closed: 0 of 1 have counted" rl latch set "$L" 3
    is_closed 0 1
    rl latch down --generation="$first" "$L"
    set_to 2
    [ "$G" -eq $((first + 1)) ]
    is_closed 0 2
    is_open --generation="$first"
    # A count of the generation before does not count in this one.
    is_silent 0 rl latch down --generation="$first" "$L"
    is_closed 0 2
    fails 66 "*generation $((G + 1)) yet*" rl latch down --generation=$((G + 1)) "$L"
    fails 66 "*generation $((G + 1)) yet*" rl latch join --generation=$((G + 1)) "$L" -- touch marker
    fails 1 "*not set to generation $((G + 1)) yet*" rl latch wait -w 0 --generation=$((G + 1)) "$L"
    is_closed 0 2
    [ ! -e marker ]
}

@test "--key: counts once, however often" {
    set_to 3
    for key in "shard 1" "shard 1" "shard 2" "shard 1"; do
        is_silent 0 rl latch down --key="$key" "$L"
    done
    is_closed 2 3
    is_silent 0 rl latch down --key="Shard 1" "$L"
    is_open
    # In the next generation the same key is another count.
    set_to 2
    rl latch down --key="shard 1" "$L"
    is_closed 1 2
}

@test "wait: for a latch that was not set yet, and for the last count" {
    waits early
    poll rl latch show "$L"
    shown '.state == "unset" and .generation == 0 and .count == 0'
    fails 1 "*not set yet*" rl latch wait -w 0 "$L"
    fails 66 "*not set yet*" rl latch down "$L"
    set_to 2
    waits one
    waits two
    # The first in line looks, the others wait behind it.
    poll somebody_waits 2
    rl latch down "$L"
    is_closed 1 2
    for who in early one two; do
        is_alive "${WAITERS[$who]}"
        [ ! -s "$who" ]
    done
    rl latch down "$L"
    for who in early one two; do
        ends_with 0 "${WAITERS[$who]}"
        json ".generation == $G" "$who"
    done
}

@test "wait -w: no longer than that" {
    set_to 1
    since=$(now_ms)
    fails 1 "*'$L'*" rl latch wait -w 2 "$L"
    [ $(($(now_ms) - since)) -ge 2000 ]
    is_closed 0 1
}

@test "show, ls: how many have counted, and of how many" {
    works rl latch set --json "$L" 5
    G=$(jq .generation <<<"$output")
    jq -es --arg name "$L" '.[0] | keys == ["generation", "name"] and .name == $name and .generation > 0' <<<"$output"
    rl latch down "$L"
    rl latch down "$L"
    shown '. == {"name": $name, "state": "closed", "generation": $generation, "count": 5, "down": 2, "members": 0, "broken_by": ""}'
    listed 'length == 1 and (.[0] | .kind == "latch" and .state == "held" and .count == 5 and .down == 2
        and .token == $generation and .slots == 0 and .slots_held == 0 and .readers == 0
        and .held_ms == null and .remaining_ms == null and .expires_at == null)'
    rl ls | grep -qE "^$L +held +latch +2 of 5 +- +- +$G\$"
    works rl show "$L"
    whole=$(printf '%-12s %s\n' name "$L" state closed mode latch generation "$G" counts "2 of 5 have counted")
    [ "$output" = "$whole" ]
    works rl latch show "$L"
    [ "$output" = "$whole" ]
    for _ in 3 4 5; do
        rl latch down "$L"
    done
    # No client has looked since the last count.
    listed 'length == 0'
    listed 'length == 1 and (.[0] | .kind == "latch" and .state == "free" and .count == 5 and .down == 5)' --all
    shown '.state == "open" and .down == 5'
    rl show "$L" | grep -qx 'state        open'
    is_open
    listed 'length == 1 and (.[0] | .state == "free" and .down == 5)' --all
    # Names of other kinds have no members or counts.
    rl run "$L lease" true
    rl run --mode=pessimistic "$L row" true
    rl run --slots=2 "$L slots" true
    rl ls -a --json | jq -es --arg name "$L" '.[0] | map(select(.name | startswith($name + " ")) | [.kind, .count, .down])
        == [["lease", 0, 0], ["row", 0, 0], ["slots", 0, 0], ["lease", 0, 0], ["lease", 0, 0]]'
}

@test "bad input: one line, and nothing is made" {
    for wrong in 0 -1 10001 x '' 1.5 99999999999999999999; do
        run -64 rl latch set "$L" "$wrong"
    done
    misused "'10001' is not a number of counts, 1 to 10000" rl latch set "$L" 10001
    misused "'latch set' needs NAME and N*" rl latch set "$L"
    misused "'latch set' needs NAME and N*" rl latch set "$L" 1 2
    misused "set, down, wait, show or join is missing" rl latch
    misused "there is no 'latch lift'*" rl latch lift "$L"
    misused "the latch's NAME is missing" rl latch down
    misused "unexpected argument 'two' *" rl latch down "$L" two
    misused "unexpected argument 'two' *" rl latch show "$L" two
    misused "no command to run *" rl latch join "$L"
    misused "no command to run *" rl latch join "$L" --
    misused "'--' is missing before the command 'sleep'" rl latch join "$L" sleep -t 5s
    misused "the command is empty" rl latch join "$L" -- ''
    misused "latch down takes no --json" rl latch down --json "$L"
    misused "latch join takes no --json" rl latch join --json "$L" -- touch marker
    misused "latch set takes no --key" rl latch set --key=x "$L" 1
    misused "latch down takes no --wait" rl latch down -w 1 "$L"
    misused "latch wait takes no --ttl" rl latch wait -t 5s "$L"
    misused "latch show takes no --generation" rl latch show --generation=1 "$L"
    misused "--generation wants *" rl latch down --generation=0 "$L"
    misused "--ttl is from *" rl latch join -t 1ms "$L" -- touch marker
    misused "--wait wants *" rl latch wait -w x "$L"
    fails 66 "there is no latch '$L'; setting it makes it" rl latch down "$L"
    fails 66 "there is no latch '$L'; setting it makes it" rl latch show "$L"
    fails 66 "there is no latch '$L'; setting it makes it" rl latch join "$L" -- touch marker
    for name in '' ' x' $'a\nb' $'a\xff'; do
        run -64 rl latch set "$name" 1
        [ "${#lines[@]}" -eq 1 ]
    done
    run -66 rl show "$L"
    set_to 1
    for key in '' ' x' $'a\nb' $'a\xff' "$(printf 'k%.0s' {1..256})"; do
        fails 64 "the key is not valid*" rl latch down --key="$key" "$L"
        fails 64 "*the key is not valid*" rl latch join --key="$key" "$L" -- touch marker
    done
    [ ! -e marker ]
    is_closed 0 1
    is_silent 0 rl latch down --key="$(printf 'k%.0s' {1..255})" "$L"
    is_open
}

@test "a name that begins with '-'" {
    rl latch set -- "-$L" 1
    is_silent 0 rl latch join -- "-$L" -- true
    is_silent 0 rl latch wait -w 0 -- "-$L"
}

@test "what 'run' has, and a member has not, is refused" {
    set_to 1
    for option in -n --nonblock --timeout=1 -E1 --mode=lease --max-hold=5s --at-least=5s --shared --slots=2 --units=1 \
        --also=x --also-shared=x --unfenced --record-refused --pass-password --kill-after=3s --leave-children \
        --wait-children; do
        misused "unknown option *" rl latch join "$option" "$L" -- touch marker
    done
    misused "latch join takes no --wait" rl latch join -w 1 "$L" -- touch marker
    [ ! -e marker ]
    is_closed 0 1
}

@test "wait: for a generation that there is not yet" {
    fails 1 "'$L' was not set yet (\`rowlock latch set\`)" rl latch wait -w 0 "$L"
    set_to 1
    fails 1 "'$L' was not set to generation $((G + 1)) yet" rl latch wait -w 0 --generation=$((G + 1)) "$L"
}

@test "a name of another kind is left as it is" {
    rl run "$L" true
    before=$(listed 'map([.kind, .state, .token, .count])' --all)
    for verb in "set @ 1" "down @" "wait -w 0 @" "show @" "join @ -- touch marker"; do
        words "$verb"
        run -65 rl latch "${arguments[@]/@/$L}"
        [ "${#lines[@]}" -eq 1 ]
        [ "$output" = "rowlock: '$L' is a lock (lease); it cannot be a latch too; use another name" ]
    done
    [ "$(listed 'map([.kind, .state, .token, .count])' --all)" = "$before" ]
    rl latch set "$L latch" 1
    run -65 rl run -n "$L latch" touch marker
    run -65 rl run -n --shared "$L latch" touch marker
    run -65 rl run -n --mode=pessimistic "$L latch" touch marker
    run -65 rl run -n --slots=1 "$L latch" touch marker
    run -65 rl slots "$L latch"
    run -65 rl slots "$L latch" 2
    rl latch show --json "$L latch" | json '.state == "closed" and .count == 1'
    [ ! -e marker ]
}

@test "hostile text is text" {
    L="x'; DROP TABLE latch_down; -- %s%n \\ \" *"
    set_to 2
    rl latch down --key="$L" "$L"
    rl latch down --key="$L" "$L"
    is_silent 0 rl latch down --key='%' "$L"
    shown '.name == $name and .state == "open"'
    set_to 2
    reason=$'\e[31mred\e]0;title\a \u202e %s'
    rl break --reason="$reason" "${L%\*}\\*"
    all_harmless 0 'latch show "$L"' 'latch show --json "$L"' 'show "$L"' 'ls -a' 'history "$L"'
    all_harmless 75 'latch wait -w 0 "$L"' 'latch down "$L"'
}

@test "break: who waits hears of it, and why; the next generation is another one" {
    set_to 2
    rl latch down "$L"
    broken=$G
    waits one
    waits two
    poll somebody_waits
    fails 1 "*nothing was broken" rl break --token=$((G + 1)) "$L"
    works rl break --reason="the feed is late" "$L"
    [ "$output" = "broke $L, a latch: 1 of 2 had counted (generation $G)" ]
    for who in one two; do
        ends_with 75 "${WAITERS[$who]}"
        [[ $(cat "$who") == "rowlock: '$L' will not open, because of "*"the feed is late"* ]]
    done
    is_broken "the feed is late"
    fails 75 "*the feed is late*" rl latch down "$L"
    fails 75 "*the feed is late*" rl latch join "$L" -- touch marker
    shown '.state == "broken" and .count == 2 and .down == 0 and (.broken_by | endswith(": the feed is late"))'
    rl show "$L" | grep -qE '^broken by +.*: the feed is late$'
    listed 'length == 0'
    listed 'length == 1 and (.[0] | .state == "free" and .down == 0)' --all
    fails 1 "'$L' is not closed*" rl break "$L"
    rl history --json "$L" | jq -es --argjson generation "$G" '.[0] | map(select(.event == "broken"))
        | length == 1 and (.[0] | .token == $generation and .held_ms == null and (.detail | endswith(": the feed is late")))'
    set_to 1
    [ "$G" -eq $((broken + 1)) ]
    is_closed 0 1
    is_broken "generation $broken of '$L'" --generation="$broken"
    fails 75 "*generation $broken of '$L'*" rl latch down --generation="$broken" "$L"
    rl latch down "$L"
    fails 1 "'$L' is not closed*" rl break "$L"
    is_open
    [ ! -e marker ]
}

@test "break of a pattern: latches that are closed" {
    set_to 1
    rl latch set "$L open" 1
    rl latch down "$L open"
    run -64 rl break "$L*"
    [[ $output == *"$L: a latch, 0 of 1 have counted (generation $G)"* ]]
    [ "${#lines[@]}" -eq 2 ]
    is_closed 0 1
    works rl break --yes "$L*"
    [ "$output" = "broke $L, a latch: 0 of 1 had counted (generation $G)" ]
    is_broken "will not open"
    is_silent 0 rl latch wait -w 0 "$L open"
}

@test "join: a command that ends with 0 is counted" {
    set_to 3
    works rl latch join --key=one "$L" -- sh -c 'echo "$ROWLOCK_NAME, $ROWLOCK_TOKEN, ${ROWLOCK_SLOT-none}"'
    [ "$output" = "$L, $G, none" ]
    is_closed 1 3
    is_silent 0 rl latch join "$L" --key=one -- true
    is_closed 1 3
    joins sh -c "$WORKS"
    poll test -e in
    shown '.members == 1 and .down == 1'
    rl show "$L" | grep -qx 'members      1 still to come'
    is_closed 1 3
    touch go
    ends_with 0
    [ ! -s err ]
    is_closed 2 3
    shown '.members == 0'
    is_silent 0 rl latch join --generation="$G" "$L" -- true
    is_open
    fails 64 "*open already*" rl latch join "$L" -- touch marker
    [ ! -e marker ]
}

# broken_by_member STATUS COMMAND...: a member ends with that status, and breaks the latch.
broken_by_member() {
    set_to 2
    run "-$1" rl latch join "$L" -- "${@:2}"
    is_broken "will not open, because of "
    shown '.state == "broken" and .members == 0'
}

@test "join: a command that ends in any other way breaks the latch" {
    broken_by_member 1 false
    shown '.broken_by | endswith(" false")'
    broken_by_member 7 sh -c 'exit 7'
    broken_by_member 143 sh -c 'kill -TERM $$'
    broken_by_member 127 ./no-such-command
    set_to 2
    joins sh -c "$WORKS"
    poll test -e in
    kill -TERM "$BACK"
    ends_with 143
    is_broken "will not open, because of "
}

@test "join: a member that is killed breaks the latch when its time is over" {
    set_to 2
    background latch join -t 12s "$L" -- sleep 1000
    poll shown '.members == 1'
    waits one
    kill -KILL "$BACK"
    ends_with 75 "${WAITERS[one]}"
    [[ $(cat one) == *"because of "*" sleep "* ]]
    shown '.state == "broken" and (.broken_by | endswith(" sleep"))'
    ends_with 137
    # The next generation has no member.
    set_to 1
    shown '.members == 0'
    rl latch down "$L"
    is_open
}

@test "join: of a latch that is broken meanwhile the command goes on, and is not counted" {
    set_to 1
    joins sh -c "$WORKS; touch \"\$D/done\""
    poll test -e in
    rl break "$L"
    touch go
    ends_with 75
    [ -e done ]
    [ "$(wc -l <err)" -eq 1 ]
    [[ $(cat err) == "rowlock: '$L' will not open, because of "* ]]
    is_broken "will not open"
}
