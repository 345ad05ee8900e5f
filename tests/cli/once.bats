# rowlock once: a command once in a period. (Mostly a year; no test runs across its end.)

bats_require_minimum_version 1.5.0

load helpers
load run_helpers

YEAR=--per=12month
LONGEST=120 # seconds, that a test takes

# A test that might run across the end of the year waits for it.
setup() {
    run_setup
    local left=$(($(next_year) - $(date +%s)))
    [ "$left" -gt "$LONGEST" ] || sleep "$left"
}

teardown() {
    run_teardown
    [ -z "${CLOCK:-}" ] || rm -rf "$CLOCK"
}

# once_in [OPTION...]: notes in $D/runs which period and attempt it is; exits with $D/status, if that is there.
once_in() {
    # shellcheck disable=SC2016
    rl once "$@" "$L" -- sh -c 'echo "$ROWLOCK_PERIOD_START $ROWLOCK_ATTEMPT" >>"$D/runs"; exit $(cat "$D/status" 2>/dev/null || echo 0)'
}

# has_run N: the command has run so many times.
has_run() {
    touch "$D/runs"
    [ "$(wc -l <"$D/runs")" -eq "$1" ] || { cat "$D/runs" && false; }
}

# status FILTER [NAME]: is true of the newest period.
status() {
    rl once status --json "${2:-$L}" | jq -es ".[0][0] | $1"
}

# earlier YEARS: moves all periods of the ledger into the past.
earlier() {
    sql "UPDATE once_run o JOIN resource r ON r.id = o.resource_id SET period_start = period_start - INTERVAL $1 YEAR,
        period_end = period_end - INTERVAL $1 YEAR WHERE resource_name = '$L'"
}

this_year() {
    date -u +%Y
}

# Prints the begin of the next year, in seconds.
next_year() {
    date -u -d "$(($(this_year) + 1))-01-01" +%s
}

@test "once: who comes later finds it done and runs nothing" {
    is_silent 0 once_in $YEAR
    is_silent 0 once_in $YEAR
    has_run 1
    [ "$(cat "$D/runs")" = "$(this_year)-01-01T00:00:00Z 1" ]
    run --separate-stderr rl -v once $YEAR "$L" -- touch "$D/never"
    [ "$status" -eq 0 ]
    [[ $stderr == "rowlock: $L: the period from $(this_year)-01-01T00:00:00Z was done already, by "* ]]
    [ ! -e "$D/never" ]
    # The second call took no lock and used no token.
    rl show --json "$L" | json '.token == 1 and .state == "free"'
    status '.state == "done" and .attempts == 1 and .exit_status == 0 and .token == 1 and .ended_at != null'
}

@test "what fails is attempted again, until its attempts are used up; --again" {
    echo 3 >"$D/status"
    is_silent 3 once_in $YEAR --attempts=2
    status '.state == "failed" and .exit_status == 3'
    is_silent 3 once_in $YEAR --attempts=2
    fails 1 "$L: the period from * was attempted 2 times and is not done; --again makes another attempt" once_in $YEAR --attempts=2
    has_run 2
    is_silent 3 once_in $YEAR
    fails 1 "*was attempted 3 times*" once_in $YEAR
    # -E 0 does not change this: it is for a lock that another one holds.
    fails 1 "*was attempted 3 times*" once_in $YEAR -E 0
    echo 0 >"$D/status"
    is_silent 0 once_in $YEAR --again
    [ "$(tail -n 1 "$D/runs")" = "$(this_year)-01-01T00:00:00Z 1" ]
    is_silent 0 once_in $YEAR --again
    has_run 5
    : >"$D/nothing"
    fails 126 "$L x: cannot run *: Permission denied" rl once $YEAR "$L x" -- "$D/nothing"
    status '.state == "failed" and .exit_status == 126' "$L x"
}

@test "COMMAND's environment: the period, the attempt, the token; its zone stays as it is" {
    # shellcheck disable=SC2016
    run -0 env TZ=Asia/Tokyo bash -c 'rl once --per=1d --tz=America/New_York --at=02:00 "$L" -- sh -c '\''
        echo "$TZ $ROWLOCK_TOKEN $ROWLOCK_ATTEMPT"; date -u -d "$ROWLOCK_PERIOD_START" +%s; date -u -d "$ROWLOCK_PERIOD_END" +%s
        TZ=America/New_York date -d "$ROWLOCK_PERIOD_START" +%H:%M'\'
    [ "${lines[0]}" = "Asia/Tokyo 1 1" ]
    [ $((lines[2] - lines[1])) -ge 82800 ]
    [ $((lines[2] - lines[1])) -le 90000 ]
    [ "${lines[3]}" = 02:00 ]
    # Variables of an outer `once` are not passed on.
    # shellcheck disable=SC2016
    run -0 rl once $YEAR "$L y" -- "$ROWLOCK" --defaults-file="$TEST_OPTIONS" -D "$TEST_SCHEMA" run "$L z" -- \
        sh -c 'echo "<$ROWLOCK_PERIOD_START$ROWLOCK_PERIOD_END$ROWLOCK_ATTEMPT>"'
    [ "$output" = "<>" ]
}

# A command that runs until $D/go is there, and exits with the status in that file.
# shellcheck disable=SC2016
WORKS='echo run >>"$D/runs"; until [ -s "$D/go" ]; do sleep 0.2; done; exit $(cat "$D/go")'

# at_work OPTION...: starts a `once` that is at work.
at_work() {
    background once $YEAR "$@" "$L" -- sh -c "$WORKS"
    FIRST=$BACK
    poll has_run 1
}

# waits_for_it OPTION...: starts the next one, which waits; its command notes that it ran.
waits_for_it() {
    # shellcheck disable=SC2016
    background once $YEAR "$@" "$L" -- sh -c 'echo run >>"$D/runs"'
    NEXT=$BACK
    poll waiter_is_there
}

waiter_is_there() {
    [ "$(rl show --json "$L" | jq '.waiters | length')" -eq 1 ]
}

@test "who comes while another one is at it waits, and finds it done" {
    at_work
    waits_for_it
    status '.state == "running" and .attempts == 1 and .ended_at == null and .exit_status == null'
    fails 1 "*held by*" rl once $YEAR -n "$L" -- touch "$D/never"
    is_silent 0 rl once $YEAR -n -E 0 "$L" -- touch "$D/never"
    fails 7 "*held by*" rl once $YEAR -w 0.2 -E 7 "$L" -- touch "$D/never"
    echo 0 >"$D/go"
    ends_with 0 "$FIRST"
    ends_with 0 "$NEXT"
    has_run 1
    [ ! -e "$D/never" ]
    status '.state == "done" and .attempts == 1'
}

@test "who waits makes the next attempt, if the one before fails" {
    at_work
    waits_for_it
    echo 5 >"$D/go"
    ends_with 5 "$FIRST"
    ends_with 0 "$NEXT"
    has_run 2
    status '.state == "done" and .attempts == 2'
}

@test "who is killed has done nothing: the next attempt follows" {
    at_work -t 12s
    kill -KILL "$FIRST"
    poll status '.state == "died"'
    is_silent 0 rl once $YEAR -w 60 "$L" -- sh -c 'echo run >>"$D/runs"'
    has_run 2
    status '.state == "done" and .attempts == 2'
}

@test "whose lock is taken away: its command is ended, and it has said nothing" {
    at_work -t 20s
    rl break "$L"
    ends_with 75 "$FIRST"
    status '.state == "died" and .exit_status == null'
    is_silent 0 rl once $YEAR -w 60 "$L" -- true
    status '.state == "done" and .attempts == 2'
}

@test "a signal ends it: failed, with 128 and its number" {
    at_work
    kill -TERM "$FIRST"
    ends_with 143 "$FIRST"
    status '.state == "failed" and .exit_status == 143'
}

@test "hosts whose clocks are an hour apart mean the same period" {
    local preload
    [ -z "${ROWLOCK_SANITIZE:-}" ] || skip "a sanitizer and libfaketime both want to be the first library"
    preload=$(ls /usr/lib/*/faketime/libfaketimeMT.so.1 2>/dev/null) || skip "no libfaketime here"
    # The period begins half an hour from now, or began so long ago: by their own clocks the two would not agree.
    for minutes in 30 -30; do
        minutes=$((($(date +%s) / 60 + minutes) % 720))
        for offset in +61m -61m +0; do
            # shellcheck disable=SC2016
            run -0 env LD_PRELOAD="$preload" FAKETIME="$offset" FAKETIME_DONT_FAKE_MONOTONIC=1 "$ROWLOCK" --defaults-file="$TEST_OPTIONS" \
                -D "$TEST_SCHEMA" once --per=12h --at="$(printf %02d:%02d $((minutes / 60)) $((minutes % 60)))" "$L $minutes" -- \
                sh -c 'echo run >>"$D/runs"'
        done
    done
    has_run 2
}

@test "--catch-up: what was missed since the last one in the ledger, the oldest first" {
    Y=$(this_year)
    once_in $YEAR --catch-up=all
    has_run 1 # a name that never ran has missed nothing
    earlier 4
    once_in $YEAR
    has_run 2 # skip
    earlier 1
    once_in $YEAR --catch-up=last
    has_run 3 # the last one was there
    earlier 3
    : >"$D/runs"
    once_in $YEAR --catch-up=last
    [ "$(cut -c 1-4 <"$D/runs" | tr '\n' ' ')" = "$((Y - 1)) $Y " ]
    earlier 5
    : >"$D/runs"
    once_in $YEAR --catch-up=all
    [ "$(cut -c 1-4 <"$D/runs" | tr '\n' ' ')" = "$((Y - 4)) $((Y - 3)) $((Y - 2)) $((Y - 1)) $Y " ]
    earlier 10
    : >"$D/runs"
    once_in $YEAR --catch-up=all --catch-up-most=2
    [ "$(cut -c 1-4 <"$D/runs" | tr '\n' ' ')" = "$((Y - 2)) $((Y - 1)) $Y " ]
    is_silent 0 once_in $YEAR --catch-up=all
    has_run 3
}

@test "--catch-up: a signal ends it as it ends a single run" {
    background once $YEAR --catch-up=all "$L" -- sh -c 'touch held; exec sleep 60'
    poll test -e held
    kill -TERM "$BACK"
    ends_with 143
    rm held
    hold
    background once $YEAR --catch-up=all "$L" -- touch held
    poll somebody_waits
    kill -TERM "$BACK"
    ends_with 143
}

@test "--catch-up: one that fails stops the others; the next call tries it again, and goes on when its attempts are used up" {
    Y=$(this_year)
    once_in $YEAR
    earlier 3
    : >"$D/runs"
    echo 4 >"$D/status"
    is_silent 4 once_in $YEAR --catch-up=all --attempts=2
    is_silent 4 once_in $YEAR --catch-up=all --attempts=2
    [ "$(cut -c 1-4,21- <"$D/runs")" = "$((Y - 2)) 1
$((Y - 2)) 2" ]
    echo 0 >"$D/status"
    fails 1 "$L: the period from $((Y - 2))-01-01T00:00:00Z was attempted 2 times and is not done; going on to the next one" \
        once_in $YEAR --catch-up=all --attempts=2
    [ "$(tail -n 2 "$D/runs" | cut -c 1-4 | tr '\n' ' ')" = "$((Y - 1)) $Y " ]
    has_run 4
    # The period that is given up is reported once; a later one may fail, too.
    is_silent 0 once_in $YEAR --catch-up=all --attempts=2
    sql "UPDATE once_run o JOIN resource r ON r.id = o.resource_id SET state = 'failed' WHERE resource_name = '$L' AND YEAR(period_start) = $Y"
    earlier 1
    echo 5 >"$D/status"
    fails 5 "*attempted 1 times*" once_in $YEAR --catch-up=last --attempts=1
}

# moved ASSIGNMENTS [NAME]: changes the name's periods in the ledger.
moved() {
    sql "UPDATE once_run o JOIN resource r ON r.id = o.resource_id SET $1 WHERE resource_name = '${2:-$L}'"
}

@test "--after: the other's period begins in this one, or has the whole of it in itself" {
    is_silent 0 rl once $YEAR "$L other" -- true
    # The other name's period reaches into this one, as yesterday's import does for today's report.
    moved "period_start = period_start - INTERVAL 6 MONTH, period_end = period_end - INTERVAL 6 MONTH" "$L other"
    fails 75 "*was not done yet*" once_in $YEAR --after="$L other"
    moved "period_end = period_end + INTERVAL 6 MONTH" "$L other"
    is_silent 0 once_in $YEAR --after="$L other"
    L="$L next"
    moved "period_start = period_start + INTERVAL 8 MONTH, period_end = period_end + INTERVAL 8 MONTH" "${L% next} other"
    is_silent 0 once_in $YEAR --after="${L% next} other"
    has_run 2
}

@test "--catch-up with --after: a missed period in which the other one was not done is left out" {
    local other="$L other" which Y
    Y=$(this_year)
    once_in $YEAR
    is_silent 0 rl once $YEAR "$other" -- true
    for which in last all; do
        earlier 4
        : >"$D/runs"
        is_silent 0 once_in $YEAR --catch-up=$which --after="$other"
        [ "$(cut -c 1-4 <"$D/runs")" = "$Y" ]
    done
    moved "period_start = period_start - INTERVAL 2 YEAR, period_end = period_end - INTERVAL 2 YEAR" "$other"
    is_silent 0 rl once $YEAR "$other" -- true
    earlier 4
    : >"$D/runs"
    run --separate-stderr rl -v once $YEAR --catch-up=all --after="$other" "$L" -- sh -c 'echo "$ROWLOCK_PERIOD_START" >>"$D/runs"'
    [ "$status" -eq 0 ]
    [ "$(cut -c 1-4 <"$D/runs" | tr '\n' ' ')" = "$((Y - 2)) $Y " ]
    [ "$(grep -c "is left out: $other was not done in it" <<<"$stderr")" -eq 2 ]
    [[ $stderr == *"the period from $((Y - 3))-01-01T00:00:00Z is left out"*"the period from $((Y - 1))-01-01T00:00:00Z is left out"* ]]
    # If the other one is not done in this year, earlier periods are caught up with; this year's waits.
    moved "state = 'failed'" "$other"
    earlier 1
    fails 75 "*was not done yet in the period from $Y-*" once_in $YEAR --catch-up=all --after="$other"
}

@test "a period with another end is another one" {
    once_in $YEAR
    moved "period_end = period_end - INTERVAL 1 MONTH, attempts = 3"
    is_silent 0 once_in $YEAR
    is_silent 0 once_in $YEAR
    has_run 2
    status '.state == "done" and .attempts == 1 and .token == 2 and (.period_end | startswith("'$(($(this_year) + 1))'-01-01"))'
}

@test "done, though its lock was lost; and a failure that the ledger does not know" {
    # shellcheck disable=SC2016
    fails 0 "$L: done; the lock was lost meanwhile" rl once $YEAR "$L" -- \
        sh -c 'exec "$ROWLOCK" --defaults-file="$TEST_OPTIONS" -D "$TEST_SCHEMA" break "$L" >"$D/break" 2>&1'
    status '.state == "done"'
    L="$L next"
    at_work
    moved "state = 'failed', token = 77"
    echo 3 >"$D/go"
    ends_with 3 "$FIRST"
    grep -F "$L: the failure could not be recorded in the ledger: " "$D/err"
}

@test "--after: only when the other one was done" {
    fails 75 "$L: '$L other' (--after) was never run" once_in $YEAR --after="$L other"
    is_silent 9 rl once $YEAR "$L other" -- sh -c 'exit 9'
    fails 75 "$L: '$L other' (--after) was not done yet in the period from $(this_year)-01-01T00:00:00Z" \
        once_in $YEAR --after="$L other"
    # -E is only for a lock that another one holds.
    fails 75 "*was not done yet*" once_in $YEAR -E 0 --after="$L other"
    fails 75 "*was not done yet*" once_in $YEAR -w 1.2 --after="$L other"
    has_run 0
    run rl once status "$L"
    [ "$status" -eq 66 ] # a refusal leaves nothing in the ledger
    background once $YEAR -w 60 --after="$L other" "$L" -- sh -c 'echo run >>"$D/runs"'
    FIRST=$BACK
    is_silent 0 rl once --per=1month "$L other" -- true
    ends_with 0 "$FIRST"
    has_run 1
    # It waits without holding a lock, and a signal ends the wait.
    background -v once --per=1d -w 60 --after="$L none" "$L third" -- true
    FIRST=$BACK
    poll grep -q "waiting for" "$D/err"
    kill -TERM "$FIRST"
    ends_with 143 "$FIRST"
    rl ls --all --json | jq -e --arg name "$L third" 'map(select(.name == $name)) == []'
}

@test "once status, show" {
    is_silent 0 once_in $YEAR
    earlier 1
    echo 6 >"$D/status"
    is_silent 6 once_in $YEAR
    run -0 rl once status "$L"
    echo "$output"
    [[ ${lines[0]} =~ ^NAME\ +PERIOD\ +STATE\ +ATTEMPTS\ +BY\ +STARTED\ +TOOK\ +EXIT$ ]]
    [[ ${lines[1]} == "$L "*" $(this_year)-01-01 00:00 36"[56]"d00h  failed "*" 6" ]]
    [[ ${lines[2]} == "$L "*" $(($(this_year) - 1))-01-01 00:00 "*" done "*" 0" ]]
    [ "${#lines[@]}" -eq 3 ]
    rl once status --json "$L" | json 'length == 2 and .[0].state == "failed" and .[1].state == "done"
        and (.[0] | keys) == (["name","period_start","period_end","state","attempts","token","owner_label","started_at","ended_at","took_ms","exit_status"] | sort)'
    rl once status --json | jq -es --arg name "$L" '.[0] | map(select(.name == $name)) | length == 1 and .[0].state == "failed"'
    run -0 rl show "$L"
    [[ $output == *"last period  $(this_year)-01-01 00:00 36"[56]"d00h, failed, attempt 1"* ]]
    [[ $output == *"next period  from $(($(this_year) + 1))-01-01 00:00:00 UTC"* ]]
    rl show --json "$L" | jq -es --arg year "$(this_year)" '.[0] | .period_state == "failed" and (.period_start | startswith($year))
        and (.period_end | startswith("\(($year | tonumber) + 1)-01-01T00:00:00"))'
    rl ls -a | grep -qE "^$L +free, failed \(until $(($(this_year) + 1))-01-01 00:00\) +lease"
    fails 66 "the ledger has no period of '$L none'" rl once status "$L none"
}

@test "what is none: one line, nothing is run, nothing is changed" {
    misused "once needs --per*" rl once "$L" -- touch "$D/never"
    for per in 0d 7m 5h 1y d '' 5month 1.5d; do
        misused "--per=$per is not a number of m or h that divides the day*" rl once --per="$per" "$L" -- touch "$D/never"
    done
    misused "--at=:05 does not go with*" rl once --per=15m --at=:05 "$L" -- touch "$D/never"
    misused "--at=25:00 is not within the period: *" rl once --per=1h --at=25:00 "$L" -- touch "$D/never"
    misused "--at=25:00 is not a time of the day*" rl once --per=1d --at=25:00 "$L" -- touch "$D/never"
    misused "--at=Mo 02:00 is not a day and a time*" rl once --per=1w --at='Mo 02:00' "$L" -- touch "$D/never"
    for zone in Europe/Atlantis ../zoneinfo/UTC /etc/localtime '' CET-1CEST; do
        misused "--tz=$zone is not a time zone*" rl once --per=1d --tz="$zone" "$L" -- touch "$D/never"
    done
    misused "*" rl once --per=1d --catch-up=some "$L" -- touch "$D/never"
    misused "*" rl once --per=1d --catch-up-most=0 "$L" -- touch "$D/never"
    misused "*" rl once --per=1d --attempts=0 "$L" -- touch "$D/never"
    misused "--again is for the present period*" rl once --per=1d --again --catch-up=all "$L" -- touch "$D/never"
    misused "--leave-children and --wait-children*" rl once --per=1d --leave-children --wait-children "$L" -- touch "$D/never"
    misused "--after=$L is the name itself*" rl once --per=1d --after="$L" "$L" -- touch "$D/never"
    misused "--catch-up-most is an option of --catch-up=all" rl once --per=1d --catch-up-most=3 "$L" -- touch "$D/never"
    misused "--catch-up-most is an option of --catch-up=all" rl once --per=1d --catch-up=last --catch-up-most=3 "$L" -- touch "$D/never"
    misused "*" rl once --per=1d --catch-up-most=367 "$L" -- touch "$D/never"
    for option in --again --attempts=5 --after=x --catch-up=all --at=02:00 --tz=Europe/Berlin -n -w1 -t1s --label=x; do
        misused "'once status' runs nothing*" rl once status $option
    done
    misused "--json is for*" rl once --per=1d --json "$L" -- touch "$D/never"
    misused "no command*" rl once --per=1d "$L"
    misused "the command is empty" rl once --per=1d "$L" -- ''
    misused "*" rl once status a b
    fails 64 "*" rl once --per=1d '' -- touch "$D/never"
    fails 64 "*" rl once --per=1d --after='' "$L" -- touch "$D/never"
    is_silent 0 rl run --mode=pessimistic "$L row" -- true
    fails 65 "*" rl once --per=1d "$L row" -- touch "$D/never"
    [ ! -e "$D/never" ]
    rl ls --all --json | jq -e --arg name "$L" 'map(select(.name == $name)) == []'
}

@test "a name of hostile text" {
    L="x'; DROP TABLE once_run; -- %s%n \\ \" *"
    is_silent 0 once_in $YEAR
    is_silent 0 once_in $YEAR
    has_run 1
    rl once status --json "$L" | jq -es --arg name "$L" '.[0][0].name == $name'
}

@test "the name may be 'status'" {
    is_silent 0 rl once $YEAR status -- touch "$D/ran"
    [ -e "$D/ran" ]
}

# server_clock SECONDS: sets the clock of the test's own server ahead. (By a new file: it is read all the time.)
server_clock() {
    echo "$1" >"$CLOCK/new"
    chmod 644 "$CLOCK/new"
    mv "$CLOCK/new" "$CLOCK/now"
}

# Uses the server whose socket is in the last line of $D/started.
use_own_server() {
    ROWLOCK_TEST_SOCKET=$(tail -n 1 started)
    TEST_OPTIONS=$D/own.cnf
    printf '[client]\nsocket=%s\nuser=root\n' "$ROWLOCK_TEST_SOCKET" >"$TEST_OPTIONS"
    rl init -q
}

@test "the server is killed and comes back: the job goes on, and is done once; or is ended, and begun anew" {
    own_server start >started
    use_own_server
    at_work -t 10m
    own_server kill
    own_server restart
    is_alive "$FIRST"
    status '.state == "running" and .attempts == 1'
    # (It is not shown as a waiter: the holder's bell has ended with the server.)
    background -v once $YEAR "$L" -- sh -c 'echo run >>"$D/runs"'
    NEXT=$BACK
    poll grep -q "waiting for" err
    echo 0 >go
    ends_with 0 "$FIRST"
    ends_with 0 "$NEXT"
    has_run 1
    status '.state == "done" and .attempts == 1'
    # The command ends while there is no server.
    rm go runs
    L+=' late'
    at_work -t 10m
    own_server kill
    echo 0 >go
    sleep 0.5
    is_alive "$FIRST"
    own_server restart
    ends_with 0 "$FIRST"
    is_silent 0 rl once $YEAR "$L" -- sh -c 'echo run >>"$D/runs"'
    has_run 1
    status '.state == "done" and .attempts == 1'
    # The outage is longer than the TTL.
    rm go runs
    L+=' lost'
    at_work -t 8s
    own_server kill
    ends_with 75 "$FIRST"
    own_server restart
    poll status '.state == "died" and .attempts == 1'
    is_silent 0 rl once $YEAR -w 60 "$L" -- sh -c 'echo run >>"$D/runs"'
    has_run 2
    status '.state == "done" and .attempts == 2'
    own_server remove
}

@test "the server's clock is put forward and back: it says which period it is, when the lock is granted" {
    ls /usr/lib/*/faketime/libfaketimeMT.so.1 || skip "no libfaketime here"
    CLOCK=$(mktemp -d /tmp/rowlock-clock.XXXXXX)
    chmod 711 "$CLOCK" # the server's user is another one
    server_clock +0
    ROWLOCK_SERVER_CLOCK=$CLOCK/now own_server start >started
    use_own_server
    is_silent 0 once_in $YEAR
    is_silent 0 once_in $YEAR
    has_run 1
    local far=$(($(next_year) - $(date +%s) + 10000000))
    server_clock +$far
    is_silent 0 once_in $YEAR
    is_silent 0 once_in $YEAR
    has_run 2
    [ "$(tail -n 1 "$D/runs")" = "$(($(this_year) + 1))-01-01T00:00:00Z 1" ]
    server_clock +0
    is_silent 0 once_in $YEAR
    has_run 2
    # A `once` that waits for the lock across the end of a period.
    L="$L late"
    hold
    # shellcheck disable=SC2016
    (rl_exec once $YEAR "$L" -- sh -c 'echo "$ROWLOCK_PERIOD_START" >"$D/late"') </dev/null >"$D/said" 2>&1 3>&- &
    NEXT=$!
    poll waiter_is_there
    server_clock +$far
    touch "$D/let_go"
    poll test -s "$D/late"
    [ "$(cat "$D/late")" = "$(($(this_year) + 1))-01-01T00:00:00Z" ]
    ends_with 0 "$NEXT"
    rl once status --json "$L" | json 'length == 1'
    own_server remove
}
