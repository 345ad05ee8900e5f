#!/usr/bin/env bats
# rowlock run as long as no process dies. The rest is in run_death.bats, run_outage.bats, run_children.bats and, for
# a terminal, run_terminal.bats.

load helpers
load run_helpers

# refused STATUS TEXT COMMAND...: the command ends so, with nothing on stdout and one line with TEXT on stderr (two for
# wrong usage), and the marker was not made.
refused() {
    rm -f "$D/marker"
    run "-$1" --separate-stderr "${@:3}"
    echo "${*:3}: $stderr"
    [ -z "$output" ]
    [[ "${stderr_lines[0]}" == "rowlock: "*"$2"* ]]
    [ "${#stderr_lines[@]}" -eq 1 ] || [ "$1" -eq 64 ]
    [ ! -e "$D/marker" ]
}

# died_of COMMAND...: prints the number of the signal that ended it, 0 when it exited; its pid is in $D/died.pid.
died_of() {
    perl -e 'my $pid = fork // die;
        exec { $ARGV[0] } @ARGV or die unless $pid;
        open my $file, ">", "died.pid" or die;
        print $file "$pid\n";
        close $file;
        waitpid $pid, 0;
        print $? & 127' "$@" 2>"$D/died.err"
}

@test "the command's exit status passes through, 128 and its number where a signal ended it; nothing is said" {
    while IFS='|' read -r expected mode script; do
        is_silent "$expected" rl run --mode="$mode" "$L $mode" -- sh -c "$script"
    done <<'CASES'
0|lease|exit 0
1|lease|exit 1
3|lease|exit 3
64|lease|exit 64
75|lease|exit 75
255|lease|exit 255
0|pessimistic|exit 0
1|pessimistic|exit 1
255|pessimistic|exit 255
137|lease|kill -KILL $$
143|lease|kill -TERM $$
134|lease|ulimit -c 0; kill -ABRT $$
CASES
    L="$L lease" is_silent 0 is_free
}

@test "'--' may be left out, and a name may begin with '-'" {
    is_silent 3 rl run "$L" sh -c 'exit 3'
    is_silent 4 rl run -- "-x $L" -- sh -c 'exit 4'
    is_silent 5 rl run -n -w 5 --ttl=20s -E7 -- "$L" sh -c 'exit 5'
    # All arguments after the name are the command's.
    run rl run "$L" -- echo -n --ttl 0 -- x
    [ "$output" = "--ttl 0 -- x" ]
}

@test "wrong usage: 64, nothing run" {
    # The message; the arguments, where @ stands for each of the values and ~ for the lock's name; the values (% is "").
    while IFS='|' read -r text line values; do
        for value in ${values:-none}; do
            read -ra arguments <<<"${line//@/${value#%}}"
            [[ $line != *' @ '* || $value != % ]] || arguments=("${arguments[@]:0:1}" "" "${arguments[@]:1}")
            refused 64 "$text" rl run "${arguments[@]/#\~/$L}"
        done
    done <<'CASES'
missing|
no command|~
no command|~ --
'--'|~ -c touch
--nonsense|--nonsense ~ touch marker
needs a value|-w
--ttl|--ttl=@ ~ touch marker|0 0s 499ms 24.001h 25h 999999999999999999999 -5 five 5x %
--wait|--wait=@ ~ touch marker|-1 soon % 1e3
--timeout|--timeout=-1 ~ touch marker
--conflict-exit-code|-E @ ~ touch marker|-1 256 x % 1.5
--mode|--mode=exclusive ~ touch marker
--max-hold|--max-hold=@ ~ touch marker|0 499ms -1 long
--at-least|--at-least=25h ~ touch marker
--kill-after|--kill-after=@ ~ touch marker|-1 24.001h never %
--leave-children|--wait-children --leave-children ~ touch marker
--leave-children|--leave-children --wait-children ~ touch marker
--kill-after|--leave-children --kill-after=1s ~ touch marker
--unfenced|--unfenced ~ touch marker
--at-least|--mode=pessimistic --at-least=1s ~ touch marker
--at-least|--shared --at-least=1s ~ touch marker
--at-least|--mode=pessimistic --shared --at-least=1s ~ touch marker
--shared|--shared=yes ~ touch marker
--max-hold|--mode=pessimistic --max-hold=1s ~ touch marker
CASES
    refused 64 "empty" rl run "$L" ""
    # The library refuses these with INVALID.
    for name in "" "$(printf 'x%.0s' {1..256})" " x" "x " $'x\ny' $'x\xff'; do
        refused 64 "" rl run "$name" -- touch marker
    done
    [ "$(sql "SELECT COUNT(*) FROM resource WHERE resource_name LIKE '$L%'")" = 0 ]
}

@test "not got: 1, or what -E says; with 0 without a word" {
    hold
    for option in -n --nonblock "-w 0"; do
        refused 1 "$L" rl run $option "$L" touch marker
    done
    refused 9 "$L" rl run -n -E 9 "$L" touch marker
    refused 200 "$L" rl run -w 1 --conflict-exit-code=200 "$L" touch marker
    is_silent 0 rl run -n -E 0 "$L" touch marker
    [ ! -e marker ]
    for wait in 0.5 500ms 0.5s; do
        before=$(now_ms)
        run -1 rl run -w "$wait" "$L" true
        [ $(($(now_ms) - before)) -ge 500 ]
        within 8000 "$before"
    done
    touch let_go
    ends_with 8 "$HOLDER"
    is_silent 0 is_free
}

@test "126 when the command cannot be run, 127 when it is not there; nothing is held then" {
    refused 127 "no-such-program" rl run "$L" -- no-such-program
    is_silent 0 is_free
    refused 127 "/no/such/program" rl run --mode=pessimistic "$L p" -- /no/such/program
    MODE=pessimistic L="$L p" is_silent 0 is_free
    echo 'echo hello' >plain
    refused 126 "Permission denied" rl run "$L" -- ./plain
    refused 126 "denied" rl run "$L" -- "$D"
    is_silent 0 is_free
    chmod +x plain # without #!: as the shell, and every exec*p(), does
    run -0 --separate-stderr rl run "$L" -- ./plain
    [ "$output" = hello ]
    [ "$(rl history --json "$L" | jq 'map(select(.event == "released") | .exit_status) | .[0]')" = 127 ]
}

@test "the server's answers have their own exit statuses, and -E does not hide them" {
    refused 69 "" "$ROWLOCK" --no-defaults -S "$D/no-socket" run -n -E 5 "$L" touch marker
    refused 77 "" rl_as nobody_here --password=x run "$L" touch marker
    refused 78 "" rl -D no_such_schema run "$L" touch marker
    is_silent 0 rl run "$L" true
    refused 65 "" rl run --mode=pessimistic "$L" touch marker
}

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
    # An unfenced lock has no token, not even that of an outer run.
    run -12 rl run "$L" -- bash -c 'rl run --mode=pessimistic --unfenced "$L u" -- \
        sh -c '\''echo "${ROWLOCK_TOKEN-none} $ROWLOCK_NAME"; exit 12'\'
    [ "$output" = "none $L u" ]
}

@test "stdin, stdout and stderr are the command's, byte for byte" {
    head -c 3000000 /dev/urandom >in
    head -c 1000000 /dev/urandom >other
    rl run "$L" -- sh -c 'cat; cat other >&2; exit 7' <in >out 2>err || status=$?
    [ "$status" -eq 7 ]
    cmp in out
    cmp other err
    # Input that the command does not read is left for the next one.
    printf 'one\ntwo\n' | { rl run "$L" -- true; [ "$(cat)" = $'one\ntwo' ]; }
}

@test "descriptors: those rowlock was started with, and no other" {
    # Number and target of each descriptor; without the folder that ls itself opens, and with pipes by that word alone.
    descriptors() {
        grep -v /proc/ | sed -n 's/.* \([0-9]* -> .*\)/\1/p' | sed 's/pipe:.*/pipe/'
    }
    exec 8<"$TEST_OPTIONS"
    ls -l /proc/self/fd </dev/null 2>&1 | descriptors >expected
    for mode in lease pessimistic; do
        rl run --mode=$mode "$L $mode" -- ls -l /proc/self/fd </dev/null 2>&1 | descriptors | diff expected -
    done
    exec 8<&-
    grep -q '^8 -> ' expected
    run ! grep -q socket: expected
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
    export SHOW='grep -E "^Sig(Blk|Ign)" /proc/self/status'
    for started in : 'trap "" PIPE HUP' 'trap "" CHLD USR1'; do
        expected=$(bash -c "$started; exec env bash -c '$SHOW'")
        for mode in lease pessimistic; do
            run bash -c "$started; rl_exec run --mode=$mode \"\$L $mode\" -- bash -c \"\$SHOW\""
            echo "$started: $output instead of $expected"
            [ "$output" = "$expected" ]
        done
    done
    expected=$(env --block-signal=USR2,TERM bash -c "$SHOW")
    run env --block-signal=USR2,TERM bash -c 'rl_exec run "$L" -- bash -c "$SHOW"'
    [ "$output" = "$expected" ]
    [[ "$output" == *SigBlk:*0000000000004800* ]] || [[ "$output" == *SigBlk:*4[8-9a-f]00* ]]
}

@test "the command has a process group of its own where there is no terminal" {
    background run "$L" -- sh -c 'ps -o pgid= -p $$ >"$D/group"; echo $$ >"$D/pid"; read x <"$D/fifo"'
    mkfifo fifo
    poll got pid
    [ "$(tr -d ' ' <group)" = "$(cat pid)" ]
    [ "$(cat pid)" != "$BACK" ]
}

@test "signals are passed on; one that was ignored stays ignored" {
    cat >trap.sh <<'END'
exec 2>/dev/null # "Terminated", of its sleep
for s in TERM INT HUP QUIT USR1 USR2 CONT WINCH ALRM; do trap "echo $s >>\"\$D/heard\"" $s; done
touch "$D/ready"
until [ -e "$D/enough" ]; do sleep 0.2; done
exit 6
END
    background run --kill-after=1h "$L" -- bash trap.sh
    poll test -e ready
    # After SIGTERM all get SIGCONT, too: a stopped process could not end otherwise.
    kill -TERM "$BACK"
    poll got heard 2
    [ "$(sort heard | tr '\n' ' ')" = "CONT TERM " ]
    n=2
    for s in INT HUP QUIT USR1 USR2 CONT WINCH ALRM; do
        kill -$s "$BACK"
        n=$((n + 1))
        poll got heard $n
        [ "$(tail -n 1 heard)" = $s ]
    done
    touch enough
    ends_with 6
    [ ! -s err ]
    rm ready enough heard
    (trap '' HUP INT; rl_exec run "$L" -- bash trap.sh 3>&-) &
    BACK=$!
    poll test -e ready
    for s in HUP INT WINCH; do
        kill -$s $BACK
    done
    poll got heard
    [ "$(cat heard)" = WINCH ]
    touch enough
    ends_with 6
}

@test "a signal that ends the command ends rowlock with 128 and its number, and the lock" {
    background run "$L" -- sleep 1000
    poll state_is "$L" held
    poll pgrep -P "$(supervisor_of "$BACK")"
    kill -HUP "$BACK"
    ends_with 129
    is_silent 0 is_free
}

# True if that process has replaced env by rowlock with exec().
is_rowlock() {
    [ "$(cat "/proc/$1/comm")" = rowlock ]
}

dies_waiting() { # MODE
    hold --mode="$1"
    for number in 15 2 1 10; do
        rm -f died.pid
        died_of env --default-signal "$ROWLOCK" --defaults-file="$TEST_OPTIONS" -D "$TEST_SCHEMA" \
            run --mode="$1" "$L" -- touch will-not-run >died &
        poll got died.pid
        poll is_rowlock "$(cat died.pid)" # or who waits might be the one before
        poll somebody_waits
        before=$(now_ms)
        kill -$number "$(cat died.pid)"
        wait $!
        echo "$1 $number: died of $(cat died), $(cat died.err)"
        [ "$(cat died)" -eq $number ]
        within 10000 "$before"
        [ ! -s died.err ]
    done
    touch let_go
    ends_with 8 "$HOLDER"
    MODE=$1 is_silent 0 is_free
    [ ! -e will-not-run ]
}

@test "a signal while waiting: dies by it, in both modes, and holds nothing" {
    side_by_side "dies_waiting lease" "dies_waiting pessimistic"
}

@test "-v tells of the wait, the acquisition and the release" {
    before=$(now_ms)
    run --separate-stderr rl run -v "$L" -- true
    took=$(($(now_ms) - before))
    echo "$stderr"
    [ -z "$output" ]
    [[ "$stderr" =~ "$L: acquired (token "[0-9]+", waited "[0-9.]+m?s")" ]]
    [[ "$stderr" =~ "$L: released (held "[0-9.]+m?s")" ]]
    # The line is written only after 0.3 s.
    [[ "$stderr" != *"waiting for"* ]] || [ "$took" -ge 300 ]
    hold
    run --separate-stderr rl run -v -w 5 "$L" -- true
    [[ "$stderr" == *"rowlock: waiting for $L"* ]]
}

@test "a closed stderr costs nobody the lock" {
    rl run -v "$L" -- sh -c 'sleep 0.2; exit 6' 2> >(true) || status=$?
    [ "$status" -eq 6 ]
}

@test "ls shows the command's name where no label is given" {
    hold
    [[ "$(sql "SELECT owner_label FROM resource WHERE resource_name = '$L'")" == *"@"*" $HOLDER sh" ]]
}

at_least() {
    rl run --max-hold=5m "$L" -- sleep 0.5
    rl run --at-least=5m "$L long" -- true
    state_is "$L long" cooling
    refused 1 "" rl run -n "$L long" touch marker
    before=$(now_ms)
    rl run --at-least=2s "$L" -- true
    rl run -w 1h "$L" -- touch marker
    [ -e marker ]
    [ $(($(now_ms) - before)) -ge 2000 ]
}

# max_hold LEAST MOST OPTION...: the run ends with 75 after so many milliseconds, and one line says why.
max_hold() {
    before=$(now_ms)
    background run "${@:3}" "$L" -- bash -c 'echo ${EPOCHREALTIME/./} >began; exec sleep 1000'
    ends_with 75
    [ $(($(now_ms) - before)) -ge "$1" ]
    within "$2" $(($(cat began) / 1000))
    [ "$(wc -l <err)" -eq 1 ]
    grep -q "^rowlock: $L: .*--max-hold.*bash was ended" err
    poll is_free
}

@test "--at-least keeps the lock cooling; --max-hold ends the command in time, whatever the TTL" {
    side_by_side at_least "max_hold 7000 14500 --ttl=12s --max-hold=14s" "max_hold 3000 6300 --max-hold=6s"
}

# reads WHO [OPTION...]: holds the lock together with others until $D/WHO.go is there; then it ends with 8. Its token
# is in $D/WHO, the pid of its command in $D/WHO.pid, that of rowlock in ${READERS[WHO]}.
reads() {
    declare -gA READERS
    (
        export WHO=$1
        rl_exec run --shared "${@:2}" "$L" -- bash -c 'echo $$ >"$D/$WHO.pid"
            echo "${ROWLOCK_TOKEN-none}" >"$D/$WHO"
            until [ -e "$D/$WHO.go" ]; do sleep 0.2; done
            exit 8'
    ) </dev/null >"$D/$1.out" 2>"$D/$1.err" 3>&- &
    READERS[$1]=$!
    poll got "$D/$1"
}

# leaves WHO: ends that reader.
leaves() {
    touch "$D/$1.go"
    ends_with 8 "${READERS[$1]}"
}

# writes WHO [OPTION...]: waits to have the lock alone, in the background; then its token is in $D/WHO, and $D/beside is
# there if the command of a reader is still at work.
writes() {
    (
        export WHO=$1
        rl_exec run "${@:2}" "$L" -- bash -c 'for pid in "$D"/*.pid; do
                is_dead "$(cat "$pid")" || touch "$D/beside"
            done
            echo "$ROWLOCK_TOKEN" >"$D/$WHO"'
    ) </dev/null >"$D/$1.out" 2>"$D/$1.err" 3>&- &
    WRITER=$!
}

# For poll: a writer waits. (A waiter for readers of a lease is in no queue of the server.)
is_closed() {
    [ "$(sql "SELECT next_owner <> '' FROM resource WHERE resource_name = '$L'")" = 1 ]
}

readers_are() {
    [ "$(rl show --json "$L" | jq .readers)" -eq "$1" ]
}

shared_lease() {
    is_silent 0 rl run "$L" true
    token=$(token_of_lock)
    reads one
    reads two
    [ "$(cat one)" -eq "$token" ]
    [ "$(cat two)" -eq "$token" ]
    readers_are 2
    refused 1 "$L" rl run -n "$L" touch marker
    writes alone
    poll is_closed
    # A reader does not overtake a writer that waits.
    refused 1 "$L" rl run -n --shared "$L" touch marker
    leaves one
    readers_are 1
    is_alive "$WRITER"
    [ ! -e alone ]
    leaves two
    ends_with 0 "$WRITER"
    [ "$(cat alone)" -eq $((token + 1)) ]
    [ ! -e beside ]
    is_silent 0 rl run -n --shared "$L" true
    is_silent 0 is_free
}

shared_rows() {
    export MODE=pessimistic
    reads one --mode=$MODE
    reads two --mode=$MODE
    [ "$(cat one two)" = $'none\nnone' ]
    refused 1 "$L" rl run -n --mode=$MODE "$L" touch marker
    writes alone --mode=$MODE
    poll somebody_waits
    leaves one
    is_alive "$WRITER"
    [ ! -e alone ]
    leaves two
    ends_with 0 "$WRITER"
    [ -e alone ]
    [ ! -e beside ]
    is_silent 0 is_free
}

@test "--shared: two at the same time, in both modes; who wants it alone waits for both" {
    side_by_side shared_lease shared_rows
}

@test "--shared: exit status, environment and history are as ever" {
    is_silent 0 rl run "$L" true
    token=$(token_of_lock)
    run -7 rl run --shared "$L" -- sh -c 'echo "$ROWLOCK_NAME|$ROWLOCK_TOKEN"; exit 7'
    [ "$output" = "$L|$token" ]
    rl history --json "$L" |& jq -e --argjson token "$token" '.[-2:]
        | (map(.event) == ["acquired", "released"]) and all(.[]; .token == $token and .mode == "lease")
          and .[1].exit_status == 7 and .[0].owner == .[1].owner'
    refused 65 "" rl run --shared --mode=pessimistic "$L" touch marker
    refused 127 "no-such-program" rl run --shared "$L" -- no-such-program
    is_silent 0 is_free
}

@test "--shared: who shares a lock that is broken is ended, each of them, and nobody has it before" {
    reads one --ttl=20s
    reads two --ttl=20s
    rl break --reason="too many" "$L"
    # The readers learn of it at their next renewal; the lock is kept until they have ended.
    writes next
    for who in one two; do
        ends_with 75 "${READERS[$who]}"
        grep -q "^rowlock: $L: " "$who.err"
    done
    ends_with 0 "$WRITER"
    [ "$(cat next)" -gt "$(cat one)" ]
    [ ! -e beside ]
    rl history --json "$L" |& jq -e 'map(.event)
        | (map(select(. == "lost")) | length == 2) and (map(select(. == "broken")) | length == 1)'
}
