# tests/cli/run_helpers.bash - what the tests of `run` share, beside helpers.bash.

setup() {
    run_setup
}

teardown() {
    run_teardown
}

# A test's own folder and its own lock's name.
run_setup() {
    export TEST_FOLDER="$BATS_TEST_TMPDIR"
    D="$TEST_FOLDER"
    L="lock $BATS_TEST_NUMBER"
    export D L
    cd "$D"
    witness 3>&- &
}

# side_by_side CASE...: each is a function with its arguments, and variables before it; all are called at
# once, each in a process that has a folder and a lock of its own. Most of their time they wait.
side_by_side() {
    local n failed=0 pids=()
    for ((n = 1; n <= $#; n++)); do
        mkdir "$D/$n"
        (
            L="$L $n"
            D="$D/$n"
            cd "$D"
            eval "${!n}"
        ) >"$D/$n/said" 2>&1 3>&- &
        pids[n]=$!
    done
    for ((n = 1; n <= $#; n++)); do
        wait "${pids[n]}" && continue
        failed=1
        echo "*** failed: ${!n}"
        cat "$D/$n/said"
    done
    return $failed
}

# How late this machine is, as tests/support/witness.c has it: one line for each time that somebody who
# does nothing else was woken late, or a small write to the disk was done late.
witness() {
    exec perl -MTime::HiRes=time,sleep -MIO::Handle -e '
        open my $notes, ">>", "$ENV{TEST_FOLDER}/stood" or die;
        open my $disk, ">", "$ENV{TEST_FOLDER}/disk" or die;
        $notes->autoflush(1);
        for (my $n = 0; ; $n++) {
            my $start = time;
            sleep 0.01;
            if ($n % 4 == 0) { syswrite $disk, "x"; $disk->sync }
            my $late = (time - $start - 0.015) * 1000;
            printf $notes "%d %d\n", time * 1000, $late if $late > 5;
        }' >/dev/null 2>&1
}

# stood_since MILLISECONDS: how long the machine has stood still since then.
stood_since() {
    awk -v since="$1" '$1 >= since { sum += $2 } END { print int(sum) }' "$TEST_FOLDER/stood" 2>/dev/null || echo 0
}

# Ends all that the test started and that is still there: what has the test's folder in its
# environment. (A pid that was written down may be somebody else's by now.)
run_teardown() {
    local pids
    disown -a # a job that is killed now is no news
    for _ in 1 2 3; do
        pids=$(grep -lzxF "TEST_FOLDER=$TEST_FOLDER" /proc/[0-9]*/environ 2>/dev/null | cut -d/ -f3)
        # shellcheck disable=SC2086
        kill -KILL $pids 2>/dev/null || true # the grep itself is gone
    done
}

# background COMMAND...: its pid is in $BACK, its output in $D/out and $D/err. SIGINT and
# SIGQUIT, which a shell ignores for what it puts into the background, are as usual, and SIGHUP, which
# nohup does.
# WRAP=setsid gives it a process group of its own.
background() {
    (exec ${WRAP:-} env --default-signal=INT,QUIT,HUP "$ROWLOCK" --defaults-file="$TEST_OPTIONS" -D "$TEST_SCHEMA" "$@") \
        >"$D/out" 2>"$D/err" </dev/null 3>&- &
    BACK=$!
}

# hold [OPTION...]: the lock is held by somebody, HOLDER, until $D/let_go is there; then that ends with 8.
hold() {
    background run "$@" "$L" -- sh -c 'touch "$D/held"; until [ -e "$D/let_go" ]; do sleep 0.05; done; exit 8'
    HOLDER=$BACK
    poll test -e "$D/held"
}

# ends_with STATUS [PID]: the background process does, soon.
ends_with() {
    local status=0 pid=${2:-$BACK}
    poll is_dead "$pid" || return 1
    wait "$pid" || status=$?
    if [ "$status" -ne "$1" ]; then
        echo "exit $status instead of $1; stderr: $(cat "$D/err")" >&2
        return 1
    fi
}

# Dead, even if nobody has waited for it yet. (A name may hold anything: cut it off.)
is_dead() {
    local stat=''
    # Without a process of our own: of many it would be those that take the time.
    { IFS= read -r -d '' stat <"/proc/$1/stat" || [ -n "$stat" ]; } 2>/dev/null || return 0
    [[ "${stat##*) }" == [ZX]* ]]
}

is_alive() {
    ! is_dead "$1"
}

# The one child of `rowlock run`.
supervisor_of() {
    tr -d ' ' <"/proc/$1/task/$1/children"
}

# got FILE LINES: for poll.
got() {
    [ -e "$1" ] && [ "$(wc -l <"$1")" -ge "${2:-1}" ]
}

# A command that is a tree: itself, a child, one in a session of its own, and a daemon whose
# parents are gone. Their pids stand in $D/tree; each is written by the sleep that it waits for, since a
# child of bash loses a SIGTERM that comes before its exec(). What is in TREE_TRAP is done first, by all.
make_tree() {
    cat >"$D/tree.sh" <<'END'
exec 2>/dev/null # "Terminated"
be() {
    eval "${TREE_TRAP:-}"
    while :; do
        sh -c 'echo "$1 $PPID" >>"$D/tree"; exec sleep 1000' - "$1" &
        wait $!
    done
}
export -f be
be child &
setsid bash -c 'be session' &
setsid bash -c 'be daemon &' &
be command
END
}

# run_tree OPTION...: in the background, until the tree is there.
run_tree() {
    make_tree
    background run "$@" "$L" -- bash "$D/tree.sh"
    poll got "$D/tree" 4
    SUPERVISOR=$(supervisor_of "$BACK")
    local pid
    while read -r _ pid; do
        is_alive "$pid" || return 1
    done <"$D/tree"
}

# For poll, and for whoever gets the lock next: none of the tree is alive.
tree_is_dead() {
    local pid
    while read -r _ pid; do
        is_dead "$pid" || return 1
    done <"$D/tree"
}

# successor OPTION...: waits for the lock in the background, then writes what it finds of the
# tree into $D/found ("dead" or "alive") and its token into $D/token, and holds the lock until
# $D/let_go is there.
successor() {
    (exec "$ROWLOCK" --defaults-file="$TEST_OPTIONS" -D "$TEST_SCHEMA" run "$@" "$L" -- bash -c '
        tree_is_dead && found=dead || found=alive
        echo "$ROWLOCK_TOKEN" >"$D/token"
        echo "$found" >"$D/found"
        until [ -e "$D/let_go" ]; do sleep 0.05; done') </dev/null >"$D/next.out" 2>"$D/next.err" 3>&- &
    NEXT=$!
}

# within MILLISECONDS SINCE: it is not longer ago than that, and than the machine stood still meanwhile.
within() {
    local took=$(($(now_ms) - $2)) stood
    stood=$(stood_since "$2")
    echo "took $took of $1 ms; the machine stood still for $stood ms" >&2
    [ "$took" -le $(($1 + stood)) ]
}

token_of_lock() {
    rl show --json "$L" | jq .token
}

# The connection that a row lock is held on.
connection_of_lock() {
    rl show --json "$L" | jq -e .connection_id
}

pid_of() { # WHO: of the tree
    sed -n "s/^$1 //p" tree
}

# said_once TEXT: that is all rowlock wrote, on one line.
said_once() {
    cat err
    [ "$(wc -l <err)" -eq 1 ] && [[ "$(cat err)" == "rowlock: $L: "*"$1"* ]]
}

# The lock can be had at once, in the test's mode.
is_free() {
    rl run -n ${MODE:+--mode="$MODE"} "$L" -- true
}

now_ms() {
    date +%s%3N
}

# on_terminal_steps STEP... -- COMMAND...: as terminal.py has it; the screen is in $D/screen, and shown.
on_terminal_steps() {
    local status=0
    TERM=dumb HISTFILE='' python3 "$BATS_TEST_DIRNAME/terminal.py" "$@" >"$D/screen" 2>&1 3>&- || status=$?
    cat -v "$D/screen"
    return $status
}

# somebody_waits [COUNT]: for the lock, as the server shows it; for poll.
somebody_waits() {
    # What a server shows of row locks is a copy, made anew only when nobody has looked for 0.1 s.
    sleep 0.15
    [ "$(rl show --json "$L" | jq '.waiters | length')" -ge "${1:-1}" ]
}

export -f is_dead is_alive tree_is_dead now_ms
