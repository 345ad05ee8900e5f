#!/usr/bin/env bats
# rowlock lead: exactly one instance of a command in a fleet, whichever of them dies; rowlock leader shows the leader.

bats_require_minimum_version 1.5.0

load helpers
load run_helpers

setup_file() {
    setup_on_own_server
}

teardown() {
    run_teardown
    own_server status >/dev/null || own_server restart >/dev/null
}

# Each instance writes its token and its pid; a second one at the same time is noted.
WORK='mkdir "$D/alone" || touch "$D/two at once"; trap "rmdir \"$D/alone\"; exit 0" TERM INT HUP QUIT
    echo "$ROWLOCK_TOKEN $$ $ROWLOCK_VALUE" >>"$D/runs"; while :; do sleep 0.1; done'

# leads VALUE [OPTION...]: starts an instance; its pid is in ${PIDS[VALUE]}.
leads() {
    declare -gA PIDS
    (exec ${WRAP:-} env --default-signal=INT,QUIT,HUP "$ROWLOCK" --defaults-file="$TEST_OPTIONS" -D "$TEST_SCHEMA" \
        lead --value="$1" --ttl=12s "${@:2}" "$L" -- sh -c "$WORK") >"$D/out" 2>"$D/err.$1" </dev/null 3>&- &
    PIDS[$1]=$!
}

leader_is() {
    [ "$(rl leader "$L")" = "$1" ]
}

nobody_leads() {
    fails 1 "nobody leads '$L'" rl leader "$L"
}

# The child of `lead` that has the lock.
run_of() {
    tr -d ' ' <"/proc/${PIDS[$1]}/task/${PIDS[$1]}/children"
}

# stops VALUE [SIGNAL]: ends an instance cleanly.
stops() {
    kill -"${2:-TERM}" "${PIDS[$1]}"
    ends_with 0 "${PIDS[$1]}"
}

# ran COUNT: so many instances have run, one at a time, with rising tokens.
ran() {
    [ ! -e "$D/two at once" ]
    [ "$(wc -l <"$D/runs")" -eq "$1" ]
    sort -n -u -k1,1 "$D/runs" | cmp - "$D/runs"
}

# two_lead [OPTION...]: starts two; FIRST leads, and NEXT is to take its place.
two_lead() {
    leads one "$@"
    poll leader_is one
    poll got runs
    leads two "$@"
    poll somebody_waits
}

@test "the leader's value is for all to read, as long as it leads" {
    fails 66 "there is no lock*" rl leader "$L"
    leads db1:3306 -v
    poll got runs
    works rl leader "$L"
    [ "$output" = db1:3306 ]
    read -r token _ value <runs
    [ "$value" = db1:3306 ]
    rl leader --json "$L" | json ".name == \"$L\" and .leads and .value == \"db1:3306\" and .token == $token
        and .held_ms >= 0 and .remaining_ms > 0 and (.owner_label | length) > 0"
    rl ls --json | json "map(select(.name == \"$L\")) | .[0].value == \"db1:3306\""
    rl show "$L" | grep -qx 'value        db1:3306'
    stops db1:3306
    nobody_leads
    run -1 --separate-stderr rl leader --json "$L"
    json '.leads == false and .value == "" and .token == 0' <<<"$output"
    ran 1
    [ ! -e alone ]
    rl history --json "$L" | json 'map(.event) | index("released") != null'
}

@test "the value: the host's name where none is given, nothing where it is empty" {
    background lead "$L" -- sleep 1000
    poll leader_is "$(hostname)"
    kill -TERM "$BACK"
    ends_with 0
    [ ! -s err ]
    background lead --value= "$L" -- sh -c 'echo "<${ROWLOCK_VALUE-none}>" >seen; exec sleep 1000'
    poll got seen
    [ "$(cat seen)" = "<none>" ]
    nobody_leads
    kill -TERM "$BACK"
    ends_with 0
}

@test "a clean stop hands over: SIGTERM, SIGINT, SIGHUP, SIGQUIT, also for who waits" {
    two_lead --ttl=60s
    leads three --ttl=60s
    poll somebody_waits 2
    stops two INT
    stops one HUP
    poll leader_is three
    poll got runs 2
    leads four --ttl=60s
    poll somebody_waits
    stops four QUIT
    stops three
    nobody_leads
    ran 2

    ! grep -h rowlock: err.one err.two # (a shell may say that its sleep was terminated)
}

@test "SIGHUP ends it, also where COMMAND takes that for something else" {
    (exec env --default-signal=HUP "$ROWLOCK" --defaults-file="$TEST_OPTIONS" -D "$TEST_SCHEMA" lead --value=one "$L" -- sh -c '
        trap "echo again >>reloads" HUP; trap "exit 7" TERM; touch held; while :; do sleep 0.1; done') 2>err </dev/null 3>&- &
    PIDS[one]=$!
    poll test -e held
    stops one HUP
    [ ! -e reloads ]
}

@test "lead is killed: its command is ended, its lease released, another one leads" {
    two_lead --ttl=60s
    kill -KILL "${PIDS[one]}"
    poll leader_is two
    poll got runs 2
    ran 2
    stops two
}

@test "its run is killed: the command is dead before another one leads, and it is in line again" {
    two_lead
    kill -KILL "$(run_of one)"
    poll leader_is two
    poll got runs 2
    is_dead "$(head -n 1 runs | cut -d' ' -f2)"
    poll somebody_waits
    stops two
    poll leader_is one
    stops one
}

@test "the command is killed: a line, and whoever is next leads" {
    two_lead
    rmdir alone # what it cannot do any more; nobody else runs before it is dead
    kill -KILL "$(cut -d' ' -f2 runs)"
    poll leader_is two
    poll got err.one
    grep -qx "rowlock: $L: sh has ended (exit status 137); in line again in 1.0s" err.one
    poll got runs 2
    ran 2
    poll somebody_waits
    stops one
    stops two
}

@test "stopped for longer than its TTL: its command is ended first, and it is in line again" {
    two_lead --ttl=20s
    kill -STOP "$(run_of one)"
    poll leader_is two
    poll got runs 2
    is_dead "$(head -n 1 runs | cut -d' ' -f2)"
    kill -CONT "$(run_of one)"
    poll grep -q ^rowlock: err.one
    grep -q "lock was lost\|could not be renewed" err.one
    [ "$(grep -c ^rowlock: err.one)" -eq 1 ]
    # (It may not be shown as a waiter: the first in line, which has the bell, is not.)
    stops two
    poll leader_is one
    stops one
    [ ! -e "two at once" ]
}

@test "a command that fails at once: again after 1s, 2s, 4s; a signal ends the pause" {
    background lead --ttl=60s "$L" -- sh -c 'date +%s%3N >>runs; exit 3'
    poll got runs 4
    mapfile -t at <runs
    local pause
    for n in 1 2 3; do
        pause=$((at[n] - at[n - 1]))
        echo "pause $n: $pause"
        [ "$pause" -ge $((1000 << (n - 1))) ]
        [ "$pause" -le $(((1000 << (n - 1)) + 4000 + $(stood_since "${at[n - 1]}"))) ]
    done
    poll is_free # its fourth command has just ended; the pause behind it is 8 s
    kill -TERM "$BACK"
    ends_with 0
    [ "$(grep -c '(exit status 3); in line again in' err)" -ge 3 ]
}

@test "what waiting does not mend ends it at once, before it has led and after" {
    fails 127 "*no-such-command*" rl lead "$L" -- no-such-command
    fails 126 "*" rl lead "$L" -- /etc/passwd
    is_free
    rl run --mode=pessimistic "$L row" -- true
    fails 65 "*" rl lead "$L row" -- true
    fails 64 "*control character*" rl lead --value=$'a\nb' "$L" -- true
    fails 64 "*control character*" rl lead $'a\nb' -- true
    new_user bare
    run -77 --separate-stderr rl_as bare lead "$L" -- true
    fails 78 "*" rl -D no_such_schema_here lead "$L" -- true
    # A command that exits with 127 was found: it is started again.
    background lead "$L" -- sh -c 'echo >>runs; exit 127'
    poll got runs 2
    new_user batch "SELECT, INSERT, UPDATE, DELETE ON $TEST_SCHEMA.*"
    kill -TERM "$BACK"
    ends_with 0
    cat >once.sh <<'END'
echo >>runs2
END
    (rl_as batch lead "$L" -- sh once.sh) >out 2>err </dev/null 3>&- &
    BACK=$!
    poll got runs2
    sql_any "DROP USER '$(user_of batch)'@'localhost'"
    ends_with 77
}

@test "a stderr that nobody reads any more does not end it" {
    (rl_exec lead "$L" -- sh -c 'echo >>runs; exit 3' 2> >(true)) >out </dev/null 3>&- &
    BACK=$!
    poll got runs 2
    kill -TERM "$BACK"
    ends_with 0
}

@test "a command that cannot be run for the moment, such as one that is being written: it is in line again" {
    cp "$(type -P sleep)" program
    exec 8>>program
    background -v lead "$L" -- "$D/program" 1000 8>&-
    poll grep -q "Text file busy" err
    exec 8>&-
    poll pgrep -fx "$D/program 1000"
    kill -TERM "$BACK"
    ends_with 0
}

@test "no server: it waits for it, and for its return" {
    own_server kill
    leads one
    leads two
    sleep 1
    is_alive "${PIDS[one]}"
    own_server restart
    poll got runs
    own_server kill
    poll is_dead "$(cut -d' ' -f2 runs)"
    rmdir alone 2>/dev/null || true
    own_server restart
    poll got runs 2
    ran 2
    for value in one two; do
        stops "$value"
    done
    [ ! -e "two at once" ]
}

@test "no server: SIGTERM ends it, waiting and with a command" {
    leads one --ttl=60s
    poll got runs
    own_server kill
    leads two -v
    poll grep -q "trying again" err.two
    stops two
    kill -TERM "${PIDS[one]}"
    ends_with 69 "${PIDS[one]}"
    is_dead "$(cut -d' ' -f2 runs)"
}

# Started as systemd starts a service: a session of its own, no terminal, no stdin; SIGTERM to the main process alone
# (KillMode=mixed), and no process may be left.
@test "as a service: a new session, stdin closed, SIGTERM to the main process, nothing left" {
    (exec setsid env --default-signal=INT,QUIT,HUP "$ROWLOCK" --defaults-file="$TEST_OPTIONS" -D "$TEST_SCHEMA" \
        lead "$L" -- sh -c 'sleep 1000 & echo $$ $! >>pids; wait') >/dev/null 2>err <&- 3>&- &
    BACK=$!
    poll got pids
    poll is_led
    kill -TERM "$BACK"
    ends_with 0
    read -r command child <pids
    is_dead "$command"
    is_dead "$child"
    [ ! -s err ]
    is_free
}

is_led() {
    rl leader "$L"
}

@test "asked to stop: its command ends by SIGTERM, another one leads, and it is in line again" {
    two_lead
    rl ask -w 60 --reason='a deploy' "$L"
    poll leader_is two
    poll got runs 2
    grep -q "asked to stop by .*: a deploy" "$D/err.one"
    stops two
    poll leader_is one
    poll got runs 3
    stops one
    ran 3
}

@test "SIGUSR1 and SIGUSR2 are the command's; without one they are nobody's" {
    hold --ttl=60s
    background lead "$L" -- sh -c 'trap "echo one >>\"$D/heard\"" USR1; trap "echo two >>\"$D/heard\"" USR2
        touch "$D/ready"; while :; do sleep 0.1; done'
    poll somebody_waits
    kill -USR1 "$BACK"
    kill -USR2 "$BACK"
    sleep 0.5
    touch let_go
    poll test -e ready
    kill -USR1 "$BACK"
    poll got heard
    kill -USR2 "$BACK"
    poll got heard 2
    [ "$(tr '\n' ' ' <heard)" = "one two " ]
    kill -TERM "$BACK"
    ends_with 0
}

@test "nohup: SIGHUP ends neither it nor its command" {
    (exec env --default-signal=INT,QUIT nohup "$ROWLOCK" --defaults-file="$TEST_OPTIONS" -D "$TEST_SCHEMA" \
        lead "$L" -- sh -c 'echo $$ >pid; while :; do sleep 0.1; done') >out 2>err </dev/null 3>&- &
    BACK=$!
    poll got pid
    kill -HUP "$BACK"
    kill -HUP "$(cat pid)"
    sleep 0.5
    is_alive "$BACK"
    is_alive "$(cat pid)"
    kill -TERM "$BACK"
    ends_with 0
}

@test "a job of a shell: ^Z and fg, bg, ^C" {
    printf '#!/bin/sh\nexec "$ROWLOCK" --defaults-file="$TEST_OPTIONS" -D "$TEST_SCHEMA" "$@"\n' >rw
    chmod +x rw
    echo "PS1='ready> '" >outer
    cat >stayer.sh <<'STAYER'
echo $$ >"$D/job"
exec perl -e '$| = 1; print "started\n"; select undef, undef, undef, 0.05 while 1'
STAYER
    local job='pid=$(cat "$D/job") && [ -n "$pid" ]'
    local stopped="until:$job && [[ \$(ps -o stat= -p \$pid) == T* ]]"
    local goes_on="until:$job && [[ \$(ps -o stat= -p \$pid) != T* ]]"
    local foreground="until:$job && [ \$(ps -o pgid= -p \$pid) = \$(ps -o tpgid= -p \$pid) ]"
    on_terminal_steps 'wait:ready> ' 'type:./rw lead --ttl=60s "$L" -- sh stayer.sh\n' 'wait:started' 'type:\x1a' \
        "$stopped" 'wait:Stopped' 'wait:ready> ' 'type:fg\n' "$goes_on" 'type:\x1a' "$stopped" 'wait:Stopped' \
        'wait:ready> ' 'type:bg\n' "$goes_on" 'wait:ready> ' 'type:fg\n' "$foreground" 'type:\x03' 'wait:ready> ' \
        'type:echo left=$?\n' 'wait:left=0' 'type:exit 0\n' -- bash --rcfile outer -i
    is_dead "$(cat job)"
    is_free
}

@test "leader --watch: a line at each change; --wait: until somebody leads" {
    (rl_exec leader --watch "$L") >watched 2>&1 </dev/null 3>&- &
    local watcher=$!
    (rl_exec leader -w 60 "$L") >waited 2>&1 </dev/null 3>&- &
    local waiter=$!
    fails 1 "*nobody leads*" rl leader -w 2 "$L"
    poll got watched
    leads one
    poll got watched 2
    ends_with 0 "$waiter"
    [ "$(cat waited)" = one ]
    stops one
    poll got watched 3
    leads two
    poll got watched 4
    [ "$(tr '\n' ' ' <watched)" = " one  two " ]
    stops two
    kill "$watcher"
    poll is_dead "$watcher"
    # The reader has ended: the command ends without another change.
    timeout 30 "$ROWLOCK" --defaults-file="$TEST_OPTIONS" -D "$TEST_SCHEMA" leader --watch "$L" | head -n 1
    [ "${PIPESTATUS[0]}" -eq 0 ]
    (rl_exec leader --watch --json "$L") >json 2>&1 </dev/null 3>&- &
    watcher=$!
    poll test -s json
    kill "$watcher"
    json '.leads == false' json
}

@test "misuse" {
    misused "no command to run while leading '$L'" rl lead "$L"
    misused "no command to run while leading '$L'" rl lead "$L" --
    misused "'--' is missing before the command 'true'" rl lead "$L" true
    misused "*NAME*" rl lead
    misused "the command is empty" rl lead "$L" -- ''
    misused "*" rl lead --ttl=1ms "$L" -- true
    misused "*" rl lead --mode=pessimistic "$L" -- true
    misused "*NAME*" rl leader
    misused "*" rl leader "$L" more
    misused "--wait and --watch exclude each other" rl leader -w 1 --watch "$L"
    rl run --mode=pessimistic "$L" -- true
    fails 65 "*" rl leader "$L"
}
