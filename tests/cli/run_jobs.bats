#!/usr/bin/env bats
# rowlock run as a job of a shell: &, fg, bg, ^Z, ^C, ^\, reads and writes from the background, a
# terminal that goes away. Each test has a terminal of its own; terminal.py plays the user.

load helpers
load run_helpers

# ./rw is rowlock itself, not a function: a direct child of the shell, as for a user.
setup() {
    run_setup
    # shellcheck disable=SC2016
    printf '#!/bin/sh\nexec "$ROWLOCK" --defaults-file="$TEST_OPTIONS" -D "$TEST_SCHEMA" "$@"\n' >rw
    cat >reader.sh <<'READER'
echo $$ >"$D/job"
read -r line
echo "read <$line>"
exit 5
READER
    # Not a shell that runs `sleep` in a loop: a ^Z between vfork() and exec() stops the child, and the parent, which
    # waits in the kernel for the exec(), never stops.
    cat >stayer.sh <<'STAYER'
echo $$ >"$D/job"
exec perl -e 'select undef, undef, undef, 0.05 until -e "$ENV{D}/let_go"; print "went on\n"; exit 5'
STAYER
    chmod +x rw
    echo "PS1='ready> '" >outer
    echo "PS1='inside> '" >inner
}

# at_shell STEP...: takes the steps in an interactive bash with job control, then `exit 0`.
at_shell() {
    on_terminal_steps 'wait:ready> ' "$@" 'type:exit 0\n' -- bash --rcfile outer -i
}

# Steps of terminal.py. The job is a child of the supervisor, which is a child of rowlock.
JOB='pid=$(cat "$D/job") && [ -n "$pid" ]'
ROWLOCK_OF_JOB="$JOB && super=\$(ps -o ppid= -p \$pid) && rowlock=\$(ps -o ppid= -p \$super)"
STARTED="until:$JOB"
STOPPED="until:$ROWLOCK_OF_JOB && [[ \$(ps -o stat= -p \$pid) == T* && \$(ps -o stat= -p \$rowlock) == T* ]]"
GOES_ON="until:$ROWLOCK_OF_JOB && [[ \$(ps -o stat= -p \$pid) != T* && \$(ps -o stat= -p \$rowlock) != T* ]]"
# rowlock has seen that its command is over: it does not ignore ^Z any more.
STOPS_ITSELF="until:$ROWLOCK_OF_JOB && ignored=\$(sed -n 's/^SigIgn:\t//p' /proc/\$((rowlock))/status) && (((0x\$ignored & 0x80000) == 0))"
FOREGROUND="until:$JOB && [ \$(ps -o pgid= -p \$pid) = \$(ps -o tpgid= -p \$pid) ]"

# leaves STATUS STEP...: after these steps the shell is ready again and has got that exit status, and the lock is free.
leaves() {
    at_shell "${@:2}" 'wait:ready> ' 'type:echo left=$?\n' "wait:left=$1"
    is_free
}

# Steps for a job that goes on until it is let go.
STAYS='./rw run --ttl=60s "$L" -- sh stayer.sh'
FG=('type:fg\n' "$FOREGROUND")
STAYS_FG=("type:$STAYS &\n" "$STARTED" "${FG[@]}")
STOPS=('type:\x1a' "$STOPPED" 'wait:Stopped' 'wait:ready> ')
READS=('type:hello\n' 'wait:read <hello>')
ENDS=('until:touch "$D/let_go"' 'wait:went on')

@test "&: the command reads from the background and stops; fg, and it reads what is typed" {
    leaves 5 'type:./rw run --ttl=60s "$L" -- sh reader.sh &\n' "$STOPPED" "${FG[@]}" "${READS[@]}"
}

@test "&, fg, ^C, or ^\\: the command hears it, and the lock is free" {
    leaves 130 "${STAYS_FG[@]}" 'type:\x03'
    rm job
    leaves 131 'type:ulimit -c 0\n' "${STAYS_FG[@]}" 'type:\x1c'
}

@test "^Z and fg, again and again; & and fg, then ^Z and bg" {
    leaves 5 "type:$STAYS\n" "$STARTED" "${STOPS[@]}" 'type:fg\n' "$GOES_ON" "$FOREGROUND" "${STOPS[@]}" 'type:fg\n' \
        "$GOES_ON" "$FOREGROUND" "${ENDS[@]}"
    rm job let_go
    leaves 5 "${STAYS_FG[@]}" "${STOPS[@]}" 'type:bg\n' "$GOES_ON" 'wait:ready> ' "${ENDS[@]}" \
        'type:wait %1\n'
}

# If rowlock stopped twice, by the kernel and then by the supervisor, `fg` would end at the second stop.
@test "rowlock stops when its command does, and only so: a late supervisor, kill -STOP %1, a command that ignores ^Z, what it left" {
    local super="$JOB && super=\$(ps -o ppid= -p \$pid)" job_stopped="[[ \$(ps -o stat= -p \$pid) == T* ]]"
    local not_yet="until:$ROWLOCK_OF_JOB && $job_stopped && [[ \$(ps -o stat= -p \$rowlock) != T* ]]"
    leaves 5 "type:$STAYS\n" "$STARTED" "until:$super && kill -STOP \$super" 'type:\x1a' "$not_yet" \
        "until:$super && kill -CONT \$super" "$STOPPED" 'wait:Stopped' 'wait:ready> ' 'type:fg\n' "$GOES_ON" "${ENDS[@]}"
    rm job let_go
    # All processes are stopped, and go on, together. If only rowlock is continued, it stops again.
    local to_all="until:$JOB && kill -SIG -- -\$(ps -o pgid= -p \$pid | tr -d ' ')"
    leaves 5 "type:$STAYS\n" "$STARTED" "${to_all/SIG/STOP}" "$STOPPED" 'wait:Stopped' 'wait:ready> ' 'type:fg\n' "$GOES_ON" \
        "$FOREGROUND" "${ENDS[@]}"
    rm job let_go
    leaves 5 "type:$STAYS\n" "$STARTED" "${STOPS[@]}" "until:$ROWLOCK_OF_JOB && kill -CONT \$rowlock" "$STOPPED" \
        "${to_all/SIG/CONT}" "$GOES_ON" "${ENDS[@]}" 'type:wait %1\n'
    rm job let_go
    leaves 5 "type:./rw run --ttl=60s \"\$L\" -- sh -c \"trap '' TSTP; . ./stayer.sh\"\\n" "$STARTED" \
        'type:\x1a' 'wait:\^Z' "${ENDS[@]}"
    rm job let_go
    leaves 3 'type:./rw run --ttl=60s --wait-children "$L" -- sh -c "sh stayer.sh & until [ -s job ]; do :; done; exit 3"\n' \
        "$STARTED" "until:$JOB && [[ \$(ps -o comm= -p \$(ps -o ppid= -p \$pid)) == rowlock-super ]]" \
        "$STOPS_ITSELF" "${STOPS[@]}" 'type:fg\n' "$GOES_ON" "${ENDS[@]}"
}

@test "stty tostop: a command that writes from the background stops, and fg shows what it wrote" {
    leaves 5 'type:stty tostop\n' 'wait:ready> ' \
        'type:./rw run --ttl=60s "$L" -- sh -c "echo \\$\\$ >job; echo wr""itten; exit 5" &\n' "$STOPPED" \
        'type:fg\n' 'wait:written'
}

@test "a command that stops itself stops the job, and fg lets it go on; so does one that somebody else stops and continues" {
    leaves 5 'type:./rw run --ttl=60s "$L" -- sh -c "echo \\$\\$ >job; kill -STOP \\$\\$; echo went\\ on; exit 5"\n' \
        "$STOPPED" 'wait:Stopped' 'wait:ready> ' 'type:fg\n' 'wait:went on'
    rm job
    leaves 5 "type:$STAYS &\n" "$STARTED" "until:$JOB && kill -STOP \$pid" "$STOPPED" "until:$JOB && kill -CONT \$pid" \
        "$GOES_ON" "${ENDS[@]}" 'type:wait %1\n'
}

@test "a shell under the lock has job control itself, and suspend gives the terminal back" {
    leaves 7 'type:./rw run --ttl=60s "$L" -- bash --rcfile inner -i\n' 'wait:inside> ' \
        'type:echo $$ >job; sleep 1000\n' "$STARTED" "until:$JOB && [[ \$(ps -o comm= -p \$(ps -o tpgid= -p \$pid)) == sleep ]]" \
        'type:\x1a' 'wait:Stopped' 'wait:inside> ' 'type:kill -9 %1; wait %1\n' \
        'wait:inside> ' 'type:suspend\n' "$STOPPED" 'wait:Stopped' 'wait:ready> ' 'type:fg\n' "$GOES_ON" \
        "$FOREGROUND" 'type:exit 7\n'
}

@test "a job that stays stopped loses its lock in time, and ends" {
    at_shell 'type:./rw run --ttl=12s "$L" -- sh reader.sh &\n' "$STOPPED" 'until:rl run -n "$L" -- true' \
        'wait:sh was ended' 'type:wait %1; echo left=$?\n' 'wait:left=75'
}

@test "waiting for the lock in the background, then fg, ^Z, fg, and the lock" {
    hold
    at_shell 'type:./rw run --ttl=60s "$L" -- sh reader.sh &\n' 'wait:ready> ' 'type:fg\n' 'wait:waiting ' \
        'type:\x1a' 'wait:Stopped' 'wait:ready> ' 'type:fg\n' 'wait:waiting ' 'until:touch "$D/let_go"' \
        "$STARTED" "$FOREGROUND" "${READS[@]}" 'wait:ready> ' 'type:echo left=$?\n' 'wait:left=5'
    is_free
}

@test "the whole job killed by kill -9: all dead" {
    make_tree
    at_shell 'type:./rw run --mode=pessimistic --ttl=60s "$L" -- bash tree.sh &\n' \
        'until:[ "$(wc -l <"$D/tree")" -eq 4 ]' 'type:kill -9 %1\n' 'until:tree_is_dead'
    MODE=pessimistic poll is_free
}

@test "no shell around, as with ssh -t: reads, ^Z stops nothing for good, ^C" {
    run ! on_terminal_steps "$STARTED" 'type:\x1ahello\n' -- ./rw run --ttl=60s "$L" -- sh reader.sh
    [ "$status" -eq 5 ]
    rm job
    run ! on_terminal_steps "$STARTED" 'type:\x03' -- ./rw run --ttl=60s "$L" -- sh stayer.sh
    [ "$status" -eq 130 ]
    is_free
}

@test "no shell around: the terminal goes away, the command hears SIGHUP, and the lock is free" {
    run ! on_terminal_steps "$STARTED" 'hangup:' -- ./rw run --ttl=60s "$L" -- sh stayer.sh
    [ "$status" -eq 129 ]
    is_free
}

@test "a shell around: the terminal goes away, and its job in the background with it" {
    run on_terminal_steps 'wait:ready> ' 'type:./rw run --ttl=60s "$L" -- sh stayer.sh &\n' "$STARTED" 'hangup:' -- \
        bash --rcfile outer -i
    echo "$output"
    [ "$status" -ne 99 ]
    poll is_free
}
