# rowlock barrier: commands that begin together, and end together.

bats_require_minimum_version 1.5.0

load helpers
load run_helpers

# member WHO COMMAND [OPTION...]: starts a member of a barrier of N; its pid is in PIDS[WHO], its output in $D/WHO.said.
member() {
    (rl_exec barrier "${@:3}" "$L" "$N" -- sh -c "$2") </dev/null >"$D/$1.said" 2>&1 3>&- &
    declare -gA PIDS
    PIDS[$1]=$!
}

# gathered N: for poll: so many have entered, and wait for the others.
gathered() {
    [ "$(sql "SELECT COUNT(*) FROM lock_grant g JOIN resource r ON r.id = g.resource_id AND r.version = g.version
              WHERE r.resource_name = '$L' AND g.expires_at > UTC_TIMESTAMP(6)")" = "$1" ]
}

@test "three begin together, each is another one of a generation" {
    N=3
    # shellcheck disable=SC2016
    work='echo "$ROWLOCK_SLOT $ROWLOCK_TOKEN" >>"$D/log"'
    member one "$work"
    member two "$work"
    poll gathered 2
    [ ! -e "$D/log" ]
    member three "$work"
    for who in one two three; do
        ends_with 0 "${PIDS[$who]}"
        [ ! -s "$D/$who.said" ]
    done
    [ "$(cut -d' ' -f1 "$D/log" | sort | xargs)" = "0 1 2" ]
    [ "$(cut -d' ' -f2 "$D/log" | sort -u | wc -l)" = 1 ]
}

@test "who is done first waits for the others, and exits as its command did" {
    N=2
    # shellcheck disable=SC2016
    member one 'touch "$D/one"; exit 3'
    # shellcheck disable=SC2016
    member two 'until [ -e "$D/go" ]; do sleep 0.2; done'
    poll test -e "$D/one"
    poll is_marked 1
    is_alive "${PIDS[one]}"
    touch "$D/go"
    ends_with 3 "${PIDS[one]}"
    ends_with 0 "${PIDS[two]}"
}

# is_marked N: for poll: so many are ready to leave.
is_marked() {
    [ "$(sql "SELECT COUNT(*) FROM lock_grant g JOIN resource r ON r.id = g.resource_id
              WHERE r.resource_name = '$L' AND g.left_at IS NOT NULL")" = "$1" ]
}

@test "a member that is killed is missed by the others" {
    N=2
    # shellcheck disable=SC2016
    member one 'touch "$D/one"; until [ -e "$D/go" ]; do sleep 0.2; done'
    # shellcheck disable=SC2016
    member two 'touch "$D/two"; exec sleep 1000' -t 12s --label='the second one'
    poll test -e "$D/one"
    poll test -e "$D/two"
    kill -KILL "${PIDS[two]}"
    touch "$D/go"
    ends_with 75 "${PIDS[one]}"
    [ "$(cat "$D/one.said")" = "rowlock: '$L': the second one was lost before it left" ]
}

@test "one that is killed while they gather is forgotten" {
    N=2
    member one 'exit 0' -t 1s
    poll gathered 1
    kill -KILL "${PIDS[one]}"
    poll gathered 0
    member two 'exit 0'
    poll gathered 1
    is_alive "${PIDS[two]}"
    member three 'exit 0'
    ends_with 0 "${PIDS[two]}"
    ends_with 0 "${PIDS[three]}"
}

@test "ls and show" {
    N=3
    # shellcheck disable=SC2016
    work='touch "$D/in"; until [ -e "$D/go" ]; do sleep 0.2; done'
    member one "$work"
    member two "$work"
    poll gathered 2
    # All members that have come are shown, the first in line, too.
    rl show --json "$L" | json '.kind == "barrier" and .state == "held" and .readers == 2 and .count == 3 and .down == 2
        and ([.waiters[].who | endswith(" sh")] == [true, true]) and all(.waiters[]; .waited_ms >= 0 and .owner != "")'
    run rl show "$L"
    [[ $output == *"generation   1"$'\n'"gathered     2 of 3"$'\n'"members      0"$'\n'"waiting "*" sh, for "* ]]
    run rl ls "lock*"
    [[ $output == *" WAITING"* && $output == *"2 of 3"* ]]
    member three "$work"
    poll test -e "$D/in"
    rl show --json "$L" | json '.readers == 3 and .down == 0 and .waiters == []'
    run rl show "$L"
    [[ $output == *"generation   2"$'\n'"gathered     0 of 3"$'\n'"members      3" ]]
    run rl ls "lock*"
    [[ $output == *"3 together"* ]]
    touch "$D/go"
    for who in one two three; do
        ends_with 0 "${PIDS[$who]}"
    done
    rl show --json "$L" | json '.state == "free" and .readers == 0'
}

# A member's command, which runs until $D/go is there. both_work G: the commands of two members of generation G run.
# shellcheck disable=SC2016
WORK='touch "$D/in.$ROWLOCK_TOKEN.$ROWLOCK_SLOT"; until [ -e "$D/go" ]; do sleep 0.2; done'
both_work() {
    [ -e "$D/in.$1.0" ] && [ -e "$D/in.$1.1" ]
}

@test "break: the members of one generation are lost, who waits for others stays; a number that was mistaken" {
    N=2
    fails 66 "there is no lock '$L'*" rl break "$L"
    member one "$WORK" -t 20s
    member two "$WORK" -t 20s
    poll both_work 1
    member three "$WORK" -t 20s
    poll gathered 1
    fails 1 "nobody of generation 2 is in '$L'; nothing was broken" rl break --token=2 "$L"
    rl show --json "$L" | json '.readers == 3 and .down == 1'
    works rl break --token=1 --reason='the feed is late' "$L"
    [ "$output" = "broke $L, a barrier: it had 2 members" ]
    ends_with 75 "${PIDS[one]}"
    ends_with 75 "${PIDS[two]}"
    is_alive "${PIDS[three]}"
    rl history --json "$L" | jq -es '.[0] | map(select(.event == "broken")) | length == 1
        and (.[0] | .token == 1 and .held_ms == null and (.detail | startswith("by ") and endswith(": the feed is late")))'
    fails 1 "nobody is in '$L'; there is nothing to break" rl break "$L"
    fails 1 "no such lock is held" rl break --yes "$L*"
    member four "$WORK" -t 20s
    poll both_work 2
    run -64 rl break "$L*"
    [[ $output == *"$L: a barrier, it has 2 members"* ]]
    works rl break --yes "$L*"
    [ "$output" = "broke $L, a barrier: it had 2 members" ]
    ends_with 75 "${PIDS[three]}"
    ends_with 75 "${PIDS[four]}"
    fails 65 "*a barrier of 2, not of 1*" rl barrier "$L" 1 -- true
    works rl break "$L"
    [ "$output" = "$L, a barrier of 2: the next one to enter says of how many it is" ]
    is_silent 0 rl barrier "$L" 1 -- true
    [ "$(rl history --json "$L" | jq -c '[.[] | select(.event == "broken").token]')" = "[1,2,3]" ]
}

@test "through procedures: 79, and why" {
    rl init -q --procedures
    fails 79 "'$L': a barrier is entered in a transaction, for which there is no procedure (via=procedures)" \
        rl --via=procedures barrier "$L" 1 -- touch "$D/never"
    run -66 rl show "$L"
    # Its break is.
    N=2
    member one "$WORK" -t 20s
    poll gathered 1
    fails 1 "*nobody is in '$L'; there is nothing to break" rl --via=procedures break "$L"
    member two "$WORK" -t 20s
    poll both_work 1
    fails 1 "*nobody of generation 7 is in '$L'; nothing was broken" rl --via=procedures break --token=7 "$L"
    works rl --via=procedures break "$L"
    ends_with 75 "${PIDS[one]}"
    ends_with 75 "${PIDS[two]}"
    rl history --json "$L" | jq -es '.[0] | map(select(.event == "broken")) | length == 1
        and (.[0] | .token == 1 and .held_ms == null and (.detail | startswith("by ")))'
    works rl --via=procedures break "$L"
    rl init -q --remove-procedures
    is_silent 0 rl barrier "$L" 1 -- true
    [ ! -e "$D/never" ]
}

@test "a wait that ends" {
    fails 1 "*1 of 2 have entered*" rl barrier "$L" 2 -w 3 -- touch "$D/never"
    fails 9 "*1 of 2 have entered*" rl barrier "$L" 2 -w 0 -E 9 -- touch "$D/never"
    [ ! -e "$D/never" ]
    is_silent 0 rl barrier -w 0 "$L 1" 1 -- true
}

@test "what is no barrier" {
    for bad in 0 -1 1001 x ''; do
        misused "*" rl barrier "$L" "$bad" -- touch "$D/never"
    done
    misused "no command to run as a member of '$L'" rl barrier "$L" 2
    misused "no command to run as a member of '$L'" rl barrier "$L" 2 --
    misused "'--' is missing before the command 'sleep'" rl barrier "$L" 2 sleep -t 5s
    misused "the command is empty" rl barrier "$L" 2 -- ''
    misused "'barrier' needs NAME, N and a COMMAND" rl barrier "$L"
    misused "'barrier' needs NAME, N and a COMMAND" rl barrier
    for name in '' ' x' $'a\nb' $'a\xff' "$(printf 'n%.0s' {1..256})"; do
        fails 64 "the lock's name *" rl barrier "$name" 1 -- touch "$D/never"
    done
    misused "--ttl is from *" rl barrier -t 499ms "$L" 1 -- touch "$D/never"
    misused "--wait wants *" rl barrier -w -1 "$L" 1 -- touch "$D/never"
    misused "--conflict-exit-code wants *" rl barrier -E 256 "$L" 1 -- touch "$D/never"
    run -66 rl show "$L"
    is_silent 0 rl barrier "$L" 1 -- true
    fails 65 "*a barrier of 1, not of 2*" rl barrier "$L" 2 -- touch "$D/never"
    fails 65 "'$L' is a barrier; it cannot be a lock (lease) too; use another name" rl run "$L" -- touch "$D/never"
    fails 65 "'$L' is a barrier; it cannot be a row lock (pessimistic) too; *" rl run --mode=pessimistic "$L" -- touch "$D/never"
    fails 65 "'$L' is a barrier; it cannot be a latch too; *" rl latch set "$L" 1
    is_silent 0 rl run "$L lease" -- true
    fails 65 "'$L lease' is a lock (lease); it cannot be a barrier too; *" rl barrier "$L lease" 1 -- touch "$D/never"
    [ ! -e "$D/never" ]
}

@test "what 'run' has, and a barrier has not, is refused" {
    for option in -n --nonblock --timeout=1 --mode=lease --max-hold=5s --at-least=5s --shared --slots=2 --units=1 \
        --also=x --also-shared=x --unfenced --record-refused --pass-password --kill-after=3s --leave-children \
        --wait-children --json --key=x --generation=1; do
        misused "unknown option *" rl barrier "$option" "$L" 1 -- touch "$D/never"
    done
    [ ! -e "$D/never" ]
    run -66 rl show "$L"
}

@test "what its command finds, and says" {
    L="-'; DROP TABLE resource; -- %s"
    # shellcheck disable=SC2016
    run -3 rl barrier -w forever -t 12s --label='who else' -- "$L" 1 -- sh -c 'env | grep ^ROWLOCK_[NOST]; exit 3'
    [[ $output == *"ROWLOCK_NAME=$L"* ]]
    [[ $output == *"ROWLOCK_TOKEN=1"* ]]
    [[ $output == *"ROWLOCK_SLOT=0"* ]]
    [[ $output == *"ROWLOCK_OWNER="* ]]
    rl history --json -- "$L" | json 'all(.[]; .owner_label == "who else") and length == 2'
    run -3 rl barrier "x $L" 1 -w 5 -- sh -c 'exit 3'
    run -127 rl barrier "x $L" 1 -- /nonexistent
    # shellcheck disable=SC2016
    run -137 rl barrier "x $L" 1 -- sh -c 'kill -KILL $$'
    is_silent 0 rl barrier -E 0 -w 0 "y $L" 2 -- touch "$D/never"
    [ ! -e "$D/never" ]
}
