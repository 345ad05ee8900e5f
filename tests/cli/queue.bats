# rowlock queue: put, take, done, retry, extend, ls, dead, requeue, purge. Its workers: queue_work.bats.

bats_require_minimum_version 1.5.0

load helpers
load run_helpers

# put [OPTION...] QUEUE PAYLOAD: puts an item; its id is in $ID.
put() {
    ID=$(rl queue put "$@")
    [[ $ID =~ ^[0-9]+$ ]]
}

# take [OPTION...]: takes an item of $L; sets ID, TOKEN and ATTEMPT; the payload is in $D/payload.
take() {
    rl queue take "$@" "$L" >"$D/item"
    read -r ID TOKEN ATTEMPT <"$D/item"
    tail -n +2 "$D/item" >"$D/payload"
}

# counts FILTER: is true of the queue's counts.
counts() {
    rl queue ls --json "$L" | json "length == 1 and (.[0] | $1)"
}

# item FILTER ID: is true of that item, which is not dead.
item() {
    rl queue ls --items --json "$L" | json "map(select(.id == $2)) | length == 1 and (.[0] | $1)"
}

# ready_now: makes all items ready that are delayed or in flight.
ready_now() {
    sql "UPDATE queue_item SET ready_at = UTC_TIMESTAMP(6) WHERE state = 'alive'"
}

@test "put, take, done: in the order in which they were put" {
    put "$L" one
    first=$ID
    put "$L" 'two words'
    counts '.depth == 2 and .ready == 2 and .in_flight == 0 and .dead == 0 and .oldest_ms >= 0'
    take
    [ "$ID" = "$first" ]
    [ "$TOKEN $ATTEMPT $(cat "$D/payload")" = "1 1 one" ]
    counts '.depth == 2 and .ready == 1 and .in_flight == 1'
    is_silent 0 rl queue done "$L" "$ID" "$TOKEN"
    fails 75 "'$L' has no item $ID: it is done, was purged, or was never put" rl queue done "$L" "$ID" "$TOKEN"
    take
    [ "$(cat "$D/payload")" = "two words" ]
    is_silent 0 rl queue done "$L" "$ID" "$TOKEN"
    counts '.depth == 0 and .oldest_ms == null and .next_ms == null'
    fails 1 "'$L' has no item that is ready" rl queue take "$L"
}

@test "a payload is bytes, as they are; stdin, an empty one, and the most" {
    printf '\x00\xff\n\n\x80 end' >"$D/bytes"
    put "$L" - <"$D/bytes"
    take
    cmp "$D/bytes" "$D/payload"
    for empty in '' -; do
        put "$L" "$empty" </dev/null
        take
        [ ! -s "$D/payload" ]
    done
    head -c 1048576 /dev/urandom >"$D/most"
    put "$L" - <"$D/most"
    take
    cmp "$D/most" "$D/payload"
    before=$(sql "SELECT COUNT(*) FROM queue_item")
    fails 64 "the payload for '$L' is longer than 1048576 bytes*" bash -c "{ cat '$D/most'; echo; } | rl queue put '$L' -"
    [ "$(sql "SELECT COUNT(*) FROM queue_item")" = "$before" ]
    # A closed stdin is no stdin, and not the connection that would get its number.
    fails 64 "cannot read stdin: Bad file descriptor" bash -c 'rl queue put "$0" - <&-' "$L"
    # In JSON, text is text, and bytes are base64.
    put "$L" $'tab\tquote"\u00e4'
    rl queue take --json "$L" | json ".payload == \"tab\\tquote\\\"ä\" and .payload_base64 == null and .token == 1 and .name == \"$L\""
    for size in 0 1 2 3 4; do
        put "$L" - < <(printf '\xff%*s' "$size" '')
        rl queue take --json "$L" >"$D/json"
        json '.payload == null' "$D/json"
        jq -r .payload_base64 "$D/json" | base64 -d | cmp - <(printf '\xff%*s' "$size" '')
    done
}

@test "--lines: each line is an item, all of them or none" {
    run -0 rl queue put --lines --priority=3 "$L" <<<$'one\n\n two \nthree'
    [ "${#lines[@]}" -eq 3 ]
    for payload in one ' two ' three; do
        take
        [ "$(cat "$D/payload")" = "$payload" ]
    done
    item '.priority == 3' "$ID"
    run -0 rl queue put --lines --json "$L" - < <(printf 'without its end')
    json '.ids | length == 1' <<<"$output"
    is_silent 0 rl queue put --lines "$L" </dev/null
    seq 1000 >"$D/lines"
    [ "$(rl queue put --lines "$L" <"$D/lines" | wc -l)" -eq 1000 ]
    counts '.ready == 1001'
    echo 1001 >>"$D/lines"
    fails 64 "stdin has more than 1000 lines, which are put all or none; give fewer" bash -c "rl queue put --lines '$L' <'$D/lines'"
    { echo small && head -c 1048577 /dev/zero; } >"$D/lines"
    fails 64 "*1048577*" bash -c "rl queue put --lines '$L' <'$D/lines'"
    counts '.ready == 1001'
    misused "--key is for one item*" rl queue put --lines --key=x "$L"
    misused "--lines reads stdin, and takes no PAYLOAD" rl queue put --lines "$L" x
}

@test "--delay, --at: ready only then" {
    put --delay=1h "$L" x
    item '.state == "delayed"' "$ID"
    counts '.depth == 1 and .ready == 0 and .delayed == 1 and .next_ms > 3500000 and .next_ms <= 3600000'
    fails 1 "*no item that is ready" rl queue take "$L"
    put --at="$(date -u -d '+2 hours' '+%Y-%m-%d %H:%M')" "$L" x
    for at in "$(date -u -d '+3 hours' +%Y-%m-%dT%H:%M:%SZ)" "@$(date -d '+3 hours' +%s)"; do
        put --at="$at" "$L" x
        item "(.ready_at[0:16] == \"$(date -u -d '+3 hours' +%Y-%m-%dT%H:%M)\" or .ready_at[0:16] == \"$(date -u -d '+3 hours -1 minute' +%Y-%m-%dT%H:%M)\")" "$ID"
    done
    # A time in the past means now.
    put --at=2001-01-01T00:00:00Z "$L" old
    take
    [ "$(cat "$D/payload")" = old ]
    # The wait ends when the item is ready.
    put --delay=1 "$L" soon
    took=$(now_ms)
    take -w 60
    [ "$(cat "$D/payload")" = soon ]
    within 10000 "$took"
    misused "--delay and --at exclude each other" rl queue put --delay=1 --at=@1 "$L" x
    for at in '' tomorrow 2026-13-01T00:00:00Z 02:00 @0 @-1 @x 1764036000 '2026-11-25 02:00 x' 2026-02-30T02:00:00Z @253402300800; do
        misused "--at wants a time such as *, not '$at'" rl queue put --at="$at" "$L" x
    done
}

@test "--priority: the highest first; --group: one at a time, in order; --key: once" {
    put "$L" low
    put --priority=9 "$L" high
    put --priority=5 "$L" middle
    for payload in high middle low; do
        take
        [ "$(cat "$D/payload")" = "$payload" ]
    done
    put --group=g "$L" g1
    put --group=g --priority=9 "$L" g2
    put "$L" other
    take
    [ "$(cat "$D/payload")" = g1 ]
    first="$ID $TOKEN"
    counts '.behind == 1'
    take
    [ "$(cat "$D/payload")" = other ]
    fails 1 "*no item that is ready" rl queue take "$L"
    # shellcheck disable=SC2086
    rl queue done "$L" $first
    take
    [ "$(cat "$D/payload")" = g2 ]
    put --key=k "$L" k1
    first=$ID
    put --key=k --delay=1h "$L" k2
    [ "$ID" = "$first" ]
    take
    [ "$ID $(cat "$D/payload")" = "$first k1" ]
    put --key=k "$L" k3
    [ "$ID" = "$first" ]
    rl queue done "$L" "$ID" "$TOKEN"
    put --key=k "$L" k4
    [ "$ID" != "$first" ]
}

@test "retry: later, with its reason; dead when its attempts are used up; requeue and purge" {
    put --attempts=2 "$L" x
    take
    is_silent 0 rl queue retry --delay=1h --reason=$'no\nroute' "$L" "$ID" "$TOKEN"
    item '.state == "delayed" and .attempt == 1 and .attempts == 2 and (.error | startswith("no"))' "$ID"
    fails 75 "*is not held with token 1 (any more)" rl queue retry "$L" "$ID" "$TOKEN"
    ready_now
    take
    [ "$TOKEN $ATTEMPT" = "2 2" ]
    is_silent 0 rl queue retry --reason=again "$L" "$ID" "$TOKEN"
    counts '.depth == 0 and .dead == 1'
    run -0 rl queue dead "$L"
    [[ ${lines[0]} =~ ^\ *ID\ +STATE\ +WHEN\ +ATTEMPT\ +KEY\ +ERROR$ ]]
    [[ ${lines[1]} =~ ^\ *$ID\ +dead\ .*\ ago\ +2\ of\ 2\ +-\ +again$ ]]
    rl queue dead --json "$L" | json "length == 1 and .[0].id == $ID and .[0].state == \"dead\" and .[0].error == \"again\"
        and (.[0] | keys) == ([\"id\",\"state\",\"priority\",\"attempt\",\"attempts\",\"token\",\"size\",\"key\",\"group\",\"owner_label\",\"error\",\"created_at\",\"ready_at\"] | sort)"
    works rl queue requeue "$L"
    [ "$output" = "$L: 1 item ready again" ]
    take
    [ "$ATTEMPT" -eq 1 ]
    [ "$TOKEN" -gt 2 ]
    # An item in flight is taken from its worker.
    rl queue requeue --json "$L" "$ID" | json ".count == 1"
    fails 75 "*is not held with token $TOKEN (any more)" rl queue done "$L" "$ID" "$TOKEN"
    fails 66 "*" rl queue requeue "$L" 999999999
    fails 66 "*" rl queue purge "$L" 999999999
    put "$L" y
    works rl queue purge "$L"
    [ "$output" = "$L: 0 items deleted" ]
    rl queue purge --json "$L" "$ID" | json ".count == 1 and .name == \"$L\""
    rl queue purge --all "$L"
    counts '.depth == 0 and .dead == 0'
    works rl queue ls --items "$L"
    [[ $output =~ ^\ *ID\ +STATE\ +WHEN\ +ATTEMPT\ +KEY\ +ERROR$ ]]
    # An item whose worker was lost at its last attempt counts as dead, although no take has come by since.
    put --attempts=1 "$L" x
    take
    counts '.in_flight == 1 and .dead == 0'
    ready_now
    counts '.depth == 0 and .ready == 0 and .oldest_ms == null and .dead == 1'
    rl show --json "$L" | json '.depth == 0 and .ready == 0 and .oldest_ms == null and .dead == 1'
    rl queue dead --json "$L" | json ".[0].id == $ID and (.[0].error | startswith(\"its worker was lost\"))"
    rl queue ls --items --json "$L" | json 'length == 0'
    works rl queue requeue "$L"
    [ "$output" = "$L: 1 item ready again" ]
    counts '.ready == 1 and .dead == 0'
    take
    ready_now
    works rl queue purge "$L"
    [ "$output" = "$L: 1 item deleted" ]
    put --attempts=2 "$L" x
    take
    ready_now
    counts '.depth == 1 and .ready == 1 and .oldest_ms >= 0 and .dead == 0'
    rl show --json "$L" | json '.depth == 1 and .ready == 1 and .oldest_ms >= 0 and .dead == 0'
    rl queue purge --all "$L"
    # Another item may have got a dead item's key.
    put --attempts=1 --key=k "$L" x
    take
    rl queue retry "$L" "$ID" "$TOKEN"
    dead=$ID
    put --key=k "$L" x
    fails 1 "*" rl queue requeue "$L" "$dead"
    works rl queue purge --older=1h "$L"
    [ "$output" = "$L: 0 items deleted" ]
    works rl queue purge "$L"
    [ "$output" = "$L: 1 item deleted" ]
}

@test "retry --delay=0: ready at once, also where the usual delay is half an hour by now" {
    put "$L" x
    sql "UPDATE queue_item SET attempts = 12 WHERE id = $ID"
    take
    [ "$ATTEMPT" -eq 13 ]
    rl queue retry --delay=0 "$L" "$ID" "$TOKEN"
    take
    [ "$ATTEMPT" -eq 14 ]
}

@test "the lease: over, and it is delivered again with a higher token; extend" {
    put "$L" x
    take -t 500ms
    old="$ID $TOKEN"
    take -w 60 -t 1m
    [ "$ID $TOKEN $ATTEMPT" = "${old% *} 2 2" ]
    for verb in done retry extend; do
        # shellcheck disable=SC2086
        fails 75 "*is not held with token 1 (any more)" rl queue $verb "$L" $old
    done
    is_silent 0 rl queue extend -t 2h "$L" "$ID" "$TOKEN"
    rl queue ls --items --json "$L" | jq -e '.[0].state == "in_flight" or .[0].state == "in flight"'
    [ "$(sql "SELECT ready_at > UTC_TIMESTAMP(6) + INTERVAL 110 MINUTE FROM queue_item WHERE id = $ID")" = 1 ]
    is_silent 0 rl queue done "$L" "$ID" "$TOKEN"
}

@test "take waits for an item, and no longer than it may" {
    fails 1 "*the wait ended before '$L' had an item that was ready*" rl queue take -w 2 "$L"
    (rl_exec queue take -w 60 "$L") >"$D/taken" 2>&1 3>&- &
    BACK=$!
    poll counts '.depth == 0' # it has made the queue, which was not there
    put "$L" hello
    ends_with 0
    [ "$(tail -n +2 "$D/taken")" = hello ]
    rl queue ls --items --json "$L" | json '.[0].owner_label | length > 0'
}

@test "queue ls: all queues; narrow terminals; what is in a name steers none" {
    put "$L" x
    rl run "$L lock" -- true
    rl queue ls --json | json "map(select(.name == \"$L\")) | length == 1"
    rl queue ls --json | json "map(select(.name == \"$L lock\")) | length == 0"
    run -0 rl queue ls "$L"
    [[ ${lines[0]} =~ ^NAME\ +DEPTH\ +READY\ +OLDEST\ +IN\ FLIGHT\ +DELAYED\ +DEAD$ ]]
    [[ ${lines[1]} =~ ^"$L"\ +1\ +1\ +[0-9.]+m?s\ +0\ +0\ +0$ ]]
    rl queue ls --json "$L" | json '.[0] | keys == (["name","depth","ready","in_flight","delayed","behind","dead","oldest_ms","next_ms"] | sort)'
    long=$(printf 'long %.0s' {1..30})end
    put --key="$long" --group="$long" "$long" x
    for arguments in 'queue ls' "queue ls --items '$long'"; do
        NO_COLOR=1 run -0 on_terminal 60 bash -c "rl $arguments"
        for line in "${lines[@]}"; do
            [ "${#line}" -le 60 ]
        done
    done
    evil=$'\u202eevil'
    put --key="$evil" "$evil" x
    rl queue take "$evil" >"$D/item"
    read -r ID TOKEN _ <"$D/item"
    rl queue retry --reason=$'\e[31m\u202e' "$evil" "$ID" "$TOKEN"
    all_harmless 0 "queue ls" "queue ls --items '$evil'" "queue ls --json" "queue ls --items --json '$evil'" "queue purge --all '$evil'"
    all_harmless 1 "queue take '$evil'"
}

@test "take: an item that could not be written is ready again, and the delivery does not count" {
    put "$L" one
    fails 74 "*" bash -c 'rl queue take "$0" >/dev/full' "$L"
    counts '.ready == 1 and .in_flight == 0'
    take
    [ "$ATTEMPT" = 1 ]
}

@test "break of a pattern passes over a queue" {
    put "$L a" x
    rl queue take "$L a"
    rl run --at-least=1h "$L b" -- true
    works rl break --yes --now "$L *"
    state_is "$L b" free
    rl ls --json | json "map(select(.name == \"$L a\" and .state == \"held\")) | length == 1"
}

@test "show and ls know a queue; a lock of that name is refused, and the reverse" {
    put "$L" x
    rl show "$L" | grep -qE '^mode +queue$'
    rl show --json "$L" | json '.kind == "queue"'
    rl ls -a --json | json "map(select(.name == \"$L\")) | length == 1"
    fails 65 "*is a queue*" rl run "$L" -- true
    fails 65 "*is a queue*" rl latch set "$L" 2
    fails 79 "*is a queue*" rl break "$L"
    fails 65 "*is a queue*" rl ask "$L"
    rl run "$L lock" -- true
    for verb in 'put NAME x' 'take NAME' 'ls NAME' 'dead NAME' 'requeue NAME' 'purge NAME' 'done NAME 1 1' 'ls --items NAME'; do
        words "queue $verb"
        fails 65 "*" rl "${arguments[@]/NAME/$L lock}"
    done
    for verb in 'ls NAME' 'dead NAME' 'requeue NAME' 'purge NAME' 'done NAME 1 1' 'retry NAME 1 1' 'extend NAME 1 1' 'ls --items NAME'; do
        words "queue $verb"
        fails 66 "there is no queue '$L none'*" rl "${arguments[@]/NAME/$L none}"
    done
}

@test "wrong usage: one clear line, 64" {
    while IFS='|' read -r pattern line; do
        words "$line"
        misused "*$pattern*" rl queue "${arguments[@]}"
    done <<'CASES'
put, take, done|
there is no 'queue puts'|puts x
NAME is missing|put
no PAYLOAD for 'a': '-' reads it from stdin, '' is an empty one|put a
unexpected argument 'c'|put a b c
NAME ID TOKEN|done a
NAME ID TOKEN|done a 1
'x' is not the id of an item|done a x 1
'0' is not the id|done a 0 1
'-' is not the token|done a 1 -
'x' is not the id|requeue a 1 x
'1.5' is not the id|purge a 1.5
queue take takes no --delay|take --delay=1 x
queue put takes no --wait|put -w 1 x
queue ls takes no --workers|ls --workers=2
queue done takes no --json|done --json a 1 1
queue done takes no --reason|done --reason=x a 1 1
queue work takes no --json|work --json x -- true
from 0 to 9, not '10'|put --priority=10 x
from 0 to 9, not '-1'|put --priority=-1 x
from 1 to 1000000, not '0'|put --attempts=0 x
--delay is at most 3650d|put --delay=3651d x
--ttl is from 500ms to 24h|take --ttl=499ms x
from 1 to 1000, not '0'|work --workers=0 x -- true
from 1 to 1000, not '1001'|work --batch=1001 x -- true
from 1 to 255, not '256'|work --dead-on=256 x -- true
no command to run for each item of 'x'|work x
'--' is missing before the command|work x true
--all and --older do not go with an ID|purge --all x 1
--older is for dead items, and does not go with --all|purge --all --older=1d x
needs the queue's NAME|ls --items
CASES
    for name in "" "$(printf 'x%.0s' {1..256})" $'two\nlines' " padded"; do
        for line in 'put NAME x' 'take NAME' 'ls NAME' 'done NAME 1 1' 'requeue NAME' 'purge NAME'; do
            words "queue $line"
            fails 64 "*" rl "${arguments[@]/NAME/$name}"
        done
        fails 64 "the key is not valid*" rl queue put --key="$name" "$L" x
        fails 64 "the group is not valid*" rl queue put --group="$name" "$L" x
    done
    [ "$(sql "SELECT COUNT(*) FROM resource WHERE resource_name = '$L'")" = 0 ]
}
