#!/usr/bin/env bats
# rowlock run: what a user sees of it as long as nobody dies. The rest is in run_death.bats.

bats_require_minimum_version 1.5.0
load helpers
load run_helpers

setup_file() {
    rowlock_setup_file
}

teardown_file() {
    rowlock_teardown_file
}

setup() {
    run_setup
}

teardown() {
    run_teardown
}

# fails_with STATUS TEXT COMMAND...: nothing on stdout; one line, which holds TEXT, on stderr
# (a second one where it is about usage), and the marker was not made.
fails_with() {
    local expected=$1 text=$2
    shift 2
    rm -f "$D/marker"
    run "-$expected" --separate-stderr "$@"
    echo "exit $status, stderr: $stderr"
    [ -z "$output" ]
    [[ "${stderr_lines[0]}" == "rowlock: "*"$text"* ]]
    [ "${#stderr_lines[@]}" -eq 1 ] || [ "$expected" -eq 64 ]
    [ ! -e "$D/marker" ]
}

# is_silent STATUS COMMAND...: not a byte.
is_silent() {
    local expected=$1
    shift
    run --separate-stderr "$@"
    echo "exit $status, stdout: $output, stderr: $stderr"
    [ "$status" -eq "$expected" ]
    [ -z "$output" ]
    [ -z "$stderr" ]
}

# hold [OPTION...]: the lock is held by somebody until $D/let_go is there.
hold() {
    background run "$@" "$L" -- sh -c 'touch "$D/held"; until [ -e "$D/let_go" ]; do sleep 0.05; done'
    poll 20 test -e "$D/held"
    HOLDER=$BACK
}

# died_of COMMAND...: the number of the signal that ended it, 0 when it exited.
died_of() {
    perl -e 'system { $ARGV[0] } @ARGV; print $? & 127' "$@" 2>"$D/died.err"
}

# ------------------------------------------------------------- exit statuses

@test "the command's exit status passes through, and nothing is said" {
    for mode in lease pessimistic; do
        for n in 0 1 3 64 75 255; do
            is_silent $n rl run --mode=$mode "$L $mode" -- sh -c "exit $n"
        done
    done
}

@test "a command ended by a signal gives 128 and its number" {
    is_silent 137 rl run "$L" -- sh -c 'kill -KILL $$'
    is_silent 143 rl run "$L" -- sh -c 'kill -TERM $$'
    is_silent 134 rl run "$L" -- sh -c 'ulimit -c 0; kill -ABRT $$'
    is_silent 0 is_free
}

@test "'--' may be left out, and a name may begin with '-'" {
    is_silent 3 rl run "$L" sh -c 'exit 3'
    is_silent 4 rl run -- "-x $L" -- sh -c 'exit 4'
    is_silent 5 rl run -n -w 5 --ttl=20s -E7 -- "$L" sh -c 'exit 5'
    # Behind the name all is the command's.
    run rl run "$L" -- echo -n --ttl 0 -- x
    [ "$output" = "--ttl 0 -- x" ]
}

@test "wrong usage: 64, nothing run" {
    fails_with 64 "missing" rl run
    fails_with 64 "no command" rl run "$L"
    fails_with 64 "no command" rl run "$L" --
    fails_with 64 "empty" rl run "$L" ""
    fails_with 64 "'--'" rl run "$L" -c "touch marker"
    fails_with 64 "--nonsense" rl run --nonsense "$L" touch marker
    fails_with 64 "wants a value" rl run -w
    for ttl in 0 0s 499ms 24.001h 25h 999999999999999999999 -5 five 5x ""; do
        fails_with 64 "--ttl" rl run --ttl="$ttl" "$L" touch marker
    done
    for wait in -1 soon "" 1e3; do
        fails_with 64 "--wait" rl run --wait="$wait" "$L" touch marker
    done
    fails_with 64 "--timeout" rl run --timeout=-1 "$L" touch marker
    for code in -1 256 x "" 1.5; do
        fails_with 64 "--conflict-exit-code" rl run -E "$code" "$L" touch marker
    done
    fails_with 64 "--mode" rl run --mode=exclusive "$L" touch marker
    for limit in 0 499ms -1 long; do
        fails_with 64 "--max-hold" rl run --max-hold="$limit" "$L" touch marker
    done
    fails_with 64 "--at-least" rl run --at-least=25h "$L" touch marker
    fails_with 64 "--unfenced" rl run --unfenced "$L" touch marker
    fails_with 64 "--at-least" rl run --mode=pessimistic --at-least=1s "$L" touch marker
    fails_with 64 "--max-hold" rl run --mode=pessimistic --max-hold=1s "$L" touch marker
    # An INVALID of the library.
    long=$(printf 'x%.0s' {1..256})
    for name in "" "$long" " x" "x " $'x\ny' $'x\xff'; do
        rm -f marker
        run --separate-stderr rl run "$name" -- touch marker
        [ "$status" -eq 64 ]
        [ ! -e marker ]
    done
    [ "$(sql "SELECT COUNT(*) FROM resource WHERE resource_name LIKE '$L%'")" = 0 ]
}

@test "not got: 1, or what -E says; with 0 without a word" {
    hold
    fails_with 1 "$L" rl run -n "$L" touch marker
    fails_with 1 "$L" rl run --nonblock "$L" touch marker
    fails_with 1 "$L" rl run -w 0 "$L" touch marker
    fails_with 9 "$L" rl run -n -E 9 "$L" touch marker
    fails_with 200 "$L" rl run -w 0.1 --conflict-exit-code=200 "$L" touch marker
    is_silent 0 rl run -n -E 0 "$L" touch marker
    [ ! -e marker ]
    touch let_go
    ends_with 0 "$HOLDER"
    is_silent 0 is_free
}

@test "waits end in time, fractions of a second too" {
    hold
    for wait in 0.5 500ms .5s; do
        [ "$wait" != .5s ] || wait=0.5s
        before=$(now_ms)
        run rl run -w "$wait" "$L" true
        took=$(($(now_ms) - before))
        echo "$wait took $took ms"
        [ "$status" -eq 1 ]
        [ "$took" -ge 500 ]
        within 2000 "$before"
    done
}

@test "a wait ends when the lock is free, in both modes" {
    for mode in lease pessimistic; do
        rm -f held let_go
        L="$L $mode" hold --mode=$mode
        (rl run --mode=$mode "$L $mode" -- touch "$D/next_$mode" 3>&-) &
        next=$!
        (rl run --mode=$mode -w 20 "$L $mode" -- touch "$D/other_$mode" 3>&-) &
        other=$!
        poll 10 waits_for_lock 2
        [ ! -e "next_$mode" ] && [ ! -e "other_$mode" ]
        touch let_go
        wait $next
        wait $other
        [ -e "next_$mode" ] && [ -e "other_$mode" ]
        ends_with 0 "$HOLDER"
    done
}

nobody_waits() {
    ! pgrep -f "^$ROWLOCK .*will-not-run"
}

# So many rowlocks of ours are connected and have not begun: the supervisors without a child.
waits_for_lock() {
    local n=0 pid
    for pid in $(pgrep -f "^$ROWLOCK .* run .*$L"); do
        [ -n "$(cat "/proc/$pid/task/$pid/children" 2>/dev/null)" ] || n=$((n + 1))
    done
    [ "$n" -ge "$1" ]
}

@test "126 when the command cannot be run, 127 when it is not there; nothing is held then" {
    fails_with 127 "no-such-program" rl run "$L" -- no-such-program
    is_silent 0 is_free
    fails_with 127 "/no/such/program" rl run --mode=pessimistic "$L p" -- /no/such/program
    MODE=pessimistic L="$L p" is_silent 0 is_free
    echo 'echo hello' >plain
    fails_with 126 "Permission denied" rl run "$L" -- ./plain
    fails_with 126 "denied" rl run "$L" -- "$D"
    is_silent 0 is_free
    chmod +x plain # without #!: as the shell, and every exec*p(), does
    run --separate-stderr rl run "$L" -- ./plain
    [ "$output" = hello ]
    [ "$status" -eq 0 ]
    [ "$(rl history --json "$L" | jq 'map(select(.event == "released") | .exit_status) | .[0]')" = 127 ]
}

@test "the server's answers have their own exit statuses, and -E does not hide them" {
    fails_with 69 "" "$ROWLOCK" --no-defaults -S "$D/no-socket" run -n -E 5 "$L" touch marker
    fails_with 77 "" "$ROWLOCK" --no-defaults -S "$ROWLOCK_TEST_SOCKET" -u nobody_here --password=x run "$L" touch marker
    fails_with 78 "" "$ROWLOCK" --defaults-file="$TEST_OPTIONS" -D no_such_schema run "$L" touch marker
    is_silent 0 rl run "$L" true
    fails_with 65 "" rl run --mode=pessimistic "$L" touch marker
}

@test "connection options may stand after 'run'" {
    is_silent 3 "$ROWLOCK" --no-defaults run -n -S "$ROWLOCK_TEST_SOCKET" -uroot -D "$TEST_SCHEMA" "$L" sh -c 'exit 3'
    ROWLOCK_URL="mysql://root@localhost/$TEST_SCHEMA?socket=$ROWLOCK_TEST_SOCKET" \
        is_silent 4 "$ROWLOCK" run --no-defaults "$L" sh -c 'exit 4'
}

# --------------------------------------------------- what the command is given

@test "the environment: name, token, owner" {
    run rl run "$L" -- sh -c 'echo "$ROWLOCK_NAME|$ROWLOCK_TOKEN|$ROWLOCK_OWNER"'
    IFS='|' read -r name token owner <<<"$output"
    [ "$name" = "$L" ]
    [ "$token" -ge 1 ]
    [ "$owner" = "$(sql "SELECT owner FROM resource WHERE resource_name = '$L'")" ]
    run rl run "$L" -- printenv ROWLOCK_TOKEN
    [ "$output" -gt "$token" ]
    run rl run --mode=pessimistic "$L p" -- printenv ROWLOCK_TOKEN
    [ "$output" -ge 1 ]
}

@test "an unfenced lock has no token, not even one from around it" {
    run rl run "$L" -- "$ROWLOCK" --defaults-file="$TEST_OPTIONS" -D "$TEST_SCHEMA" \
        run --mode=pessimistic --unfenced "$L p" -- sh -c 'echo "${ROWLOCK_TOKEN-none} $ROWLOCK_NAME"'
    [ "$status" -eq 0 ]
    [ "$output" = "none $L p" ]
}

@test "stdin, stdout and stderr are the command's, byte for byte" {
    head -c 3000000 /dev/urandom >in
    head -c 1000000 /dev/urandom >other
    rl run "$L" -- sh -c 'cat; cat other >&2; exit 7' <in >out 2>err || status=$?
    [ "$status" -eq 7 ]
    cmp in out
    cmp other err
    # What the command does not read is left for the next.
    printf 'one\ntwo\n' | { rl run "$L" -- true; [ "$(cat)" = $'one\ntwo' ]; }
}

@test "descriptors: those rowlock was started with, and no other" {
    # Number and target of each; without the folder that ls itself has open.
    only_those='s/.* \([0-9]* -> .*\)/\1/p'
    exec 8<"$TEST_OPTIONS"
    ls -l /proc/self/fd </dev/null 2>&1 | grep -v '/proc/' | sed -n "$only_those" >expected
    for mode in lease pessimistic; do
        rl run --mode=$mode "$L $mode" -- ls -l /proc/self/fd </dev/null 2>&1 |
            grep -v '/proc/' | sed -n "$only_those" >found
        # The pipe is another one each time.
        diff <(sed 's/pipe:.*/pipe/' expected) <(sed 's/pipe:.*/pipe/' found)
    done
    exec 8<&-
    grep -q '^8 -> ' expected
    run ! grep -q socket: found
}

@test "closed standard descriptors stay closed, and nothing gets their numbers" {
    list='ls /proc/$$/fd >"$D/fds"; true'
    sh -c "$list" <&- >&- 2>&-
    mv fds expected
    [ "$(grep -c '^[012]$' expected)" -lt 3 ]
    for mode in lease pessimistic; do
        rl run -v --mode=$mode "$L $mode" -- sh -c "$list" <&- >&- 2>&-
        diff expected fds
    done
    [ "$(sql "SELECT status FROM resource WHERE resource_name = '$L lease'")" = free ]
}

@test "signal mask and dispositions: as rowlock was started" {
    show='grep -E "^Sig(Blk|Ign)" /proc/self/status'
    for trap in : 'trap "" PIPE HUP' 'trap "" CHLD USR1'; do
        expected=$(bash -c "$trap; exec env bash -c '$show'")
        for mode in lease pessimistic; do
            run bash -c "$trap; exec \"\$ROWLOCK\" --defaults-file=\"\$TEST_OPTIONS\" -D \"\$TEST_SCHEMA\" run --mode=$mode \"\$L $mode\" -- bash -c '$show'"
            echo "$trap: $output instead of $expected"
            [ "$output" = "$expected" ]
        done
    done
    expected=$(env --block-signal=USR2,TERM bash -c "$show")
    run env --block-signal=USR2,TERM "$ROWLOCK" --defaults-file="$TEST_OPTIONS" -D "$TEST_SCHEMA" run "$L" -- bash -c "$show"
    [ "$output" = "$expected" ]
    [[ "$output" == *SigBlk:*0000000000004800* ]] || [[ "$output" == *SigBlk:*4[8-9a-f]00* ]]
}

@test "the command has a process group of its own where there is no terminal" {
    background run "$L" -- sh -c 'ps -o pgid= -p $$ >"$D/group"; echo $$ >"$D/pid"; read x <"$D/fifo"'
    mkfifo fifo
    poll 10 got pid
    [ "$(tr -d ' ' <group)" = "$(cat pid)" ]
    [ "$(cat pid)" != "$BACK" ]
}

# -------------------------------------------------------------------- signals

@test "signals are passed on" {
    cat >trap.sh <<'END'
for s in TERM INT HUP QUIT USR1 USR2 CONT WINCH ALRM; do trap "echo $s >>\"\$D/heard\"" $s; done
touch "$D/ready"
until [ -e "$D/enough" ]; do sleep 0.02; done
exit 6
END
    background run "$L" -- bash trap.sh
    poll 10 test -e ready
    n=0
    for s in TERM INT HUP QUIT USR1 USR2 CONT WINCH ALRM; do
        kill -$s "$BACK"
        n=$((n + 1))
        poll 10 got heard $n
        [ "$(tail -n 1 heard)" = $s ]
    done
    touch enough
    ends_with 6
    [ ! -s err ]
}

@test "a signal that ends the command ends rowlock with 128 and its number, and the lock" {
    background run "$L" -- sleep 1000
    poll 10 state_is "$L" held
    poll 10 pgrep -P "$(supervisor_of "$BACK")"
    kill -HUP "$BACK"
    ends_with 129
    is_silent 0 is_free
}

@test "a signal that was ignored stays ignored" {
    (trap '' HUP INT; rl_exec run "$L" -- sh -c 'touch "$D/ready"; until [ -e "$D/enough" ]; do sleep 0.02; done; exit 6' 3>&-) &
    BACK=$!
    poll 10 test -e ready
    kill -HUP $BACK
    kill -INT $BACK
    kill -WINCH $BACK
    is_alive $BACK
    touch enough
    ends_with 6
}

@test "a signal while waiting: dies by it, in both modes, and holds nothing" {
    for mode in lease pessimistic; do
        rm -f held let_go
        L="$L $mode" hold --mode=$mode
        for number in 15 2 1 10; do
            # The supervisor of the one before may still be about to end.
            poll 30 nobody_waits
            (L="$L $mode" poll 60 waits_for_lock 1; sleep 0.3; kill -$number "$(pgrep -o -f "^$ROWLOCK .*will-not-run")") 3>&- &
            before=$(now_ms)
            run died_of env --default-signal "$ROWLOCK" --defaults-file="$TEST_OPTIONS" -D "$TEST_SCHEMA" \
                run --mode=$mode "$L $mode" -- touch will-not-run
            echo "$mode $number: died of $output, $(cat died.err)"
            [ "$output" -eq $number ]
            within 10000 "$before"
            [ ! -s died.err ]
        done
        touch let_go
        ends_with 0 "$HOLDER"
        L="$L $mode" MODE=$mode is_silent 0 is_free
        [ ! -e will-not-run ]
    done
}

# ------------------------------------------------------------------- terminal

# terminal_with KEYS... : what comes on a terminal where rl run ARGS (in the array) runs and
# each of KEYS is typed after a file that it names has appeared: "file:keys".
type_after() {
    local step
    for step in "$@"; do
        poll 20 test -e "${step%%:*}" || return
        sleep 0.2
        printf '%b' "${step#*:}"
    done
    poll 20 test -e "$D/over" || true
}

# on_tty KEYSTEPS... -- COMMAND...: raw bytes of the terminal in $D/screen.
on_tty() {
    local steps=() line
    rm -f "$D/over"
    while [ "$1" != -- ]; do
        steps+=("$1")
        shift
    done
    shift
    printf -v line '%q ' "$@"
    type_after "${steps[@]}" 3>&- |
        {
            # script(1) runs $SHELL; without one it takes sh, which here would lose the functions
            # that the test exports, and die of the ^C that the command has handled.
            # And ^C is one for them, also where whoever runs the tests has it ignored.
            SHELL=$BASH env --default-signal=INT,QUIT script -qec \
                "stty cols ${COLS:-100} rows 24 -opost; $line; echo \"exit=\$?\"" /dev/null || true
            touch "$D/over"
        } >"$D/screen" 3>&-
}

# The line has been written so often.
shown_times() {
    [ "$(grep -ao 'waiting for' "$D/screen" | wc -l)" -ge "$1" ]
}

@test "on a terminal, a wait shows one line, which goes away" {
    hold --label "somebody@here 1 job"
    (poll 60 shown_times 2; touch let_go) 3>&- &
    on_tty -- "$ROWLOCK" --defaults-file="$TEST_OPTIONS" -D "$TEST_SCHEMA" run "$L" -- echo done
    cat -v screen
    # Shown, refreshed, and erased before anything else is written.
    text=$(<screen)
    [[ "$text" =~ waiting\ for\ $L:\ held\ by\ somebody@here\ 1\ job\ since\ [0-9.]+m?s,\ lease\ until\ [0-9]+s\ from\ now ]]
    [ "$(grep -o 'waiting for' screen | wc -l)" -ge 2 ]
    [[ "$text" == *$'\r\033[Kdone\n'* ]]
    [[ "${text##*done}" != *waiting* ]]
    # One line: no newline before the command's own.
    [[ "${text%%done*}" != *$'\n'*$'\n'* ]]
    [[ "$text" == *exit=0* ]]
}

@test "the waiting line is cut to the terminal's width, and left out where there is none" {
    hold --label "$(printf 'w%.0s' {1..120})"
    COLS=40 on_tty -- "$ROWLOCK" --defaults-file="$TEST_OPTIONS" -D "$TEST_SCHEMA" run -w 5 "$L" -- true
    cat -v screen
    shown=$(tr '\r' '\n' <screen | grep -a '^waiting' | head -n 1 | sed 's/\x1b\[K//')
    [ -n "$shown" ]
    [ "${#shown}" -le 39 ]
    grep -qa exit=1 screen
    COLS=12 on_tty -- "$ROWLOCK" --defaults-file="$TEST_OPTIONS" -D "$TEST_SCHEMA" run -w 1.5 "$L" -- true
    run ! grep -qa waiting screen
    on_tty -- "$ROWLOCK" --defaults-file="$TEST_OPTIONS" -D "$TEST_SCHEMA" run -n "$L" -- true
    run ! grep -qa waiting screen
    run rl run -w 1 "$L" -- true
    [[ "$output" != *waiting* ]]
}

@test "the waiting line: a row lock, a lock that is shut, a holder that means ill" {
    hold --mode=pessimistic --label "$(printf 'a\u202eb\u009bc')"
    on_tty -- "$ROWLOCK" --defaults-file="$TEST_OPTIONS" -D "$TEST_SCHEMA" run --mode=pessimistic -w 5 "$L" -- true
    cat -v screen
    line=$(tr '\r' '\n' <screen | grep -a -m 1 '^waiting')
    [[ "$line" =~ ^"waiting for $L: held by a"[^$'\u202e\u009b']*" since "[0-9.]+m?s$'\033'.K$ ]]
    rl run --at-least=50s "$L shut" -- true
    on_tty -- "$ROWLOCK" --defaults-file="$TEST_OPTIONS" -D "$TEST_SCHEMA" run -w 5 "$L shut" -- true
    cat -v screen
    grep -qaE "waiting for $L shut: shut for another [1-4][0-9]s" screen
}

@test "a wait with nobody to wait for shows no line" {
    on_tty -- "$ROWLOCK" --defaults-file="$TEST_OPTIONS" -D "$TEST_SCHEMA" run "$L" -- echo done
    cat -v screen
    run ! grep -qa 'waiting\|\[K' screen
    grep -qa exit=0 screen
}

@test "^C at a terminal while waiting: the line goes, and rowlock with it" {
    hold
    (poll 60 shown_times 1; touch typing) 3>&- &
    on_tty "$D/typing:\003" -- "$ROWLOCK" --defaults-file="$TEST_OPTIONS" -D "$TEST_SCHEMA" run "$L" -- echo no
    cat -v screen
    grep -qa waiting screen
    run ! grep -qa '^no' screen
    # The line was erased; and the shell around saw a death by SIGINT, and died too.
    run ! grep -qa exit= screen
    text=$(<screen)
    [[ "${text##*waiting}" == *$'\r\033[K'* ]]
    is_alive "$HOLDER"
}

@test "in the foreground the command reads the terminal, and hears ^C once" {
    cat >tty.sh <<'END'
n=0
trap 'n=$((n + 1))' INT
touch "$D/reading"
read -r line
echo "read <$line>"
touch "$D/looping"
until [ "$n" -gt 0 ]; do sleep 0.05; done
for i in 1 2 3 4 5 6 7 8; do sleep 0.05; done
echo "heard $n"
[ "$(ps -o pgid= -p $$ | tr -d ' ')" = "$(ps -o tpgid= -p $$ | tr -d ' ')" ] && echo "foreground"
exit 5
END
    on_tty "$D/reading:hello\n" "$D/looping:\003" -- "$ROWLOCK" --defaults-file="$TEST_OPTIONS" -D "$TEST_SCHEMA" run "$L" -- bash tty.sh
    cat -v screen
    grep -qa 'read <hello>' screen
    grep -qa 'heard 1$' screen
    grep -qa foreground screen
    grep -qa exit=5 screen
}

@test "^Z stops the command with rowlock, fg lets both go on" {
    cat >job.sh <<'END'
echo $$ >"$D/job"
until [ -e "$D/let_go" ]; do sleep 0.05; done
exit 5
END
    (
        poll 20 got job
        poll 20 is_stopped "$(cat job)" && touch stopped
        poll 20 test -e typed_fg
        poll 20 is_running "$(cat job)" && touch running
        touch let_go
    ) 3>&- &
    # A shell with job control reads what is typed.
    touch now
    on_tty "$D/now:rl run --ttl=20s \"\$L\" -- bash job.sh\n" "$D/job:\x1a" \
        "$D/stopped:touch typed_fg; fg\n" "$D/running:echo left-with=\$?\n" "$D/running:exit 0\n" -- \
        bash --norc --noprofile -i
    cat -v screen
    [ -e running ]
    grep -qa 'left-with=5' screen
}

is_stopped() {
    [[ "$(ps -o stat= -p "$1")" == T* ]]
}

is_running() {
    [[ "$(ps -o stat= -p "$1")" == [SR]* ]]
}

# ------------------------------------------------------------------- the rest

@test "what the command leaves in the background lives on, and the lock is free" {
    run --separate-stderr rl run -v "$L" -- sh -c 'sleep 1000 >/dev/null 2>&1 3>&- & echo $! >"$D/left"; exit 3'
    echo "$stderr"
    pid=$(cat left)
    [ "$status" -eq 3 ]
    [[ "$stderr" == *"1 process that sh started lives on"* ]]
    is_silent 0 is_free
    is_alive "$pid"
}

@test "-v tells of the wait, the acquisition and the release" {
    run --separate-stderr rl run -v "$L" -- true
    echo "$stderr"
    [ -z "$output" ]
    [[ "$stderr" =~ "$L: acquired (token "[0-9]+", waited "[0-9.]+m?s")" ]]
    [[ "$stderr" =~ "$L: released (held "[0-9.]+m?s")" ]]
    [[ "$stderr" != *"waiting for"* ]]
    hold
    run --separate-stderr rl run -v -w 1 "$L" -- true
    [[ "$stderr" == *"rowlock: waiting for $L"* ]]
    run --separate-stderr rl run -vv -n "$L free" -- true
    [ "${#stderr_lines[@]}" -gt 2 ]
    for line in "${stderr_lines[@]}"; do
        [[ "$line" == "rowlock: "* ]]
    done
}

@test "a closed stderr costs nobody the lock" {
    rl run -v "$L" -- sh -c 'sleep 0.2; exit 6' 2> >(true) || status=$?
    [ "$status" -eq 6 ]
}

@test "the history has who, exit status, waited and held" {
    hold --label "somebody else"
    (poll 60 waits_for_lock 1; sleep 0.6; touch let_go) 3>&- &
    run rl run --label "me & mine" "$L" -- sh -c 'sleep 0.3; exit 9'
    [ "$status" -eq 9 ]
    rl history --json "$L" >history
    cat history
    jq -e 'map(select(.event == "released")) | .[-1] |
            .exit_status == 9 and .held_ms >= 300 and .held_ms < 20000' history
    jq -e 'map(select(.event == "acquired")) | .[-1].waited_ms >= 300' history
    grep -q "me & mine" history
    run rl run "$L" -- sh -c 'kill -TERM $$'
    rl history --json "$L" | jq -e 'map(select(.event == "released")) | .[-1].exit_status == 143'
}

@test "ls shows the command's name where no label is given" {
    background run "$L" -- sh -c 'touch "$D/held"; until [ -e "$D/let_go" ]; do sleep 0.05; done'
    poll 20 test -e held
    label=$(sql "SELECT owner_label FROM resource WHERE resource_name = '$L'")
    [[ "$label" == *"@"*" $BACK sh" ]]
    touch let_go
    ends_with 0
}

@test "--at-least keeps the lock shut" {
    rl run --at-least=6s "$L" -- true
    state_is "$L" shut
    before=$(now_ms)
    fails_with 1 "" rl run -n "$L" touch marker
    rl run -w 60 "$L" -- touch marker
    took=$(($(now_ms) - before))
    [ -e marker ]
    [ $took -ge 1000 ]
}

@test "--max-hold ends the command in time: 75, a line, and the lock is free" {
    before=$(now_ms)
    background run --ttl=8s --max-hold=9s "$L" -- sleep 1000
    ends_with 75
    took=$(($(now_ms) - before))
    echo "took $took ms: $(cat err)"
    [ $took -ge 4500 ]
    within 9500 "$before"
    [ "$(wc -l <err)" -eq 1 ]
    grep -q "^rowlock: $L: .*--max-hold.*sleep was ended" err
    poll 20 is_free
}

@test "--max-hold shorter than the TTL" {
    rl run --max-hold=5s "$L" -- sleep 0.5
    before=$(now_ms)
    background run --max-hold=2s "$L" -- sleep 1000
    ends_with 75
    took=$(($(now_ms) - before))
    echo "took $took ms: $(cat err)"
    [ $took -ge 1000 ]
    within 2300 "$before"
    grep -q -e --max-hold err
}

@test "locks within locks" {
    run rl run "$L a" -- "$ROWLOCK" --defaults-file="$TEST_OPTIONS" -D "$TEST_SCHEMA" run "$L b" -- sh -c 'echo "$ROWLOCK_NAME"; exit 12'
    [ "$status" -eq 12 ]
    [ "$output" = "$L b" ]
}

@test "five at once: one after the other, none lost" {
    echo 0 >counter
    for i in 1 2 3 4 5; do
        rl run "$L" -- sh -c 'n=$(cat counter); sleep 0.1; echo $((n + 1)) >counter' 3>&- &
        pids[i]=$!
    done
    for i in 1 2 3 4 5; do
        wait "${pids[i]}"
    done
    [ "$(cat counter)" -eq 5 ]
}
