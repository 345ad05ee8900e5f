# tests/cli/run_helpers.bash - functions for the tests of `run`, beside helpers.bash.

setup() {
    run_setup
}

teardown() {
    run_teardown
}

# A folder and a lock's name for each test.
run_setup() {
    export TEST_FOLDER="$BATS_TEST_TMPDIR"
    D="$TEST_FOLDER"
    L="lock $BATS_TEST_NUMBER"
    export D L
    cd "$D"
    witness 3>&- &
}

# side_by_side CASE...: runs all cases at once, since they mostly wait, each in a process with a folder and a lock of
# its own. A case is a function with its arguments, and variables before it.
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
        cat "$D/$n/err" 2>/dev/null || : # what rowlock has said
    done
    return $failed
}

# Records how late this machine is, as tests/support/witness.c does: one line for each time that this otherwise idle
# process was woken late, or a small write to the disk was late.
witness() {
    exec perl -MTime::HiRes=time,sleep -MIO::Handle -e '
        open my $notes, ">>", "$ENV{TEST_FOLDER}/stood" or die;
        open my $disk, ">", "$ENV{TEST_FOLDER}/disk" or die;
        $notes->autoflush(1);
        for (my $n = 0; ; $n++) {
            my $start = time;
            sleep 0.02;
            if ($n % 10 == 0) { syswrite $disk, "x"; $disk->sync }
            my $late = (time - $start - 0.025) * 1000;
            printf $notes "%d %d\n", time * 1000, $late if $late > 5;
        }' >/dev/null 2>&1
}

# stood_since MILLISECONDS: how long the machine has stood still since then.
stood_since() {
    awk -v since="$1" '$1 >= since { sum += $2 } END { print int(sum) }' "$TEST_FOLDER/stood" 2>/dev/null || echo 0
}

# Ends all processes of the test that are still there: those with the test's folder in their environment. (A pid that
# was written down may be another process's by now.)
run_teardown() {
    local pids
    disown -a # a job that is killed now is no news
    for _ in 1 2 3; do
        pids=$(grep -lzxF "TEST_FOLDER=$TEST_FOLDER" /proc/[0-9]*/environ 2>/dev/null | cut -d/ -f3)
        # shellcheck disable=SC2086
        kill -KILL $pids 2>/dev/null || true # the grep itself is gone
    done
}

# background COMMAND...: its pid is in $BACK, its output in $D/out and $D/err. SIGINT and SIGQUIT (which a shell ignores
# in background processes) and SIGHUP (which nohup ignores) have their defaults.
# WRAP=setsid gives it a process group of its own.
background() {
    (exec ${WRAP:-} env --default-signal=INT,QUIT,HUP "$ROWLOCK" --defaults-file="$TEST_OPTIONS" -D "$TEST_SCHEMA" "$@") \
        >"$D/out" 2>"$D/err" </dev/null 3>&- &
    BACK=$!
}

# hold [OPTION...]: HOLDER, a process, holds the lock until $D/let_go is there; then it ends with 8.
hold() {
    background run "$@" "$L" -- sh -c 'touch "$D/held"; until [ -e "$D/let_go" ]; do sleep 0.2; done; exit 8'
    HOLDER=$BACK
    poll test -e "$D/held"
}

# ends_with STATUS [PID]: waits for the end of the background process, which has that status.
ends_with() {
    local status=0 pid=${2:-$BACK}
    poll is_dead "$pid" || return 1
    wait "$pid" || status=$?
    if [ "$status" -ne "$1" ]; then
        echo "exit $status instead of $1; stderr: $(cat "$D/err")" >&2
        return 1
    fi
}

# True if it is dead, even if its parent has not waited for it yet. (Its name may hold anything: it is cut off.)
is_dead() {
    local stat=''
    # Without a process of its own, which would take most of the time.
    { IFS= read -r -d '' stat <"/proc/$1/stat" || [ -n "$stat" ]; } 2>/dev/null || return 0
    [[ "${stat##*) }" == [ZX]* ]]
}

is_alive() {
    ! is_dead "$1"
}

# The only child of `rowlock run`.
supervisor_of() {
    tr -d ' ' <"/proc/$1/task/$1/children"
}

# got FILE [LINES]: for poll: the file is there, and has so many lines.
got() {
    [ -e "$1" ] && [ "$(wc -l <"$1")" -ge "${2:-1}" ]
}

# Writes a command that becomes a tree: itself, a child, one in a session of its own, and a daemon whose parents have
# ended. Their pids are in $D/tree; each is written when its process waits for a sleep, since a child of bash loses a
# SIGTERM that comes before its exec(). All run $TREE_TRAP first.
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

# run_tree OPTION...: starts it in the background, and waits until the tree is there.
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

# True if no process of the tree is alive; for poll, and for the next holder.
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
        until [ -e "$D/let_go" ]; do sleep 0.2; done') </dev/null >"$D/next.out" 2>"$D/next.err" 3>&- &
    NEXT=$!
}

# within MILLISECONDS SINCE: true if no more time has passed than that, plus the time that the machine stood still.
within() {
    local took=$(($(now_ms) - $2)) stood
    stood=$(stood_since "$2")
    echo "took $took of $1 ms; the machine stood still for $stood ms" >&2
    [ "$took" -le $(($1 + stood)) ]
}

token_of_lock() {
    rl show --json "$L" | jq .token
}

# The number of the connection on which the row lock is held.
connection_of_lock() {
    rl show --json "$L" | jq -e .connection_id
}

pid_of() { # WHO: of the tree
    sed -n "s/^$1 //p" tree
}

# said_once TEXT: rowlock wrote one line, with that text.
said_once() {
    cat err
    [ "$(wc -l <err)" -eq 1 ] && [[ "$(cat err)" == "rowlock: $L: "*"$1"* ]]
}

# True if the lock can be taken at once, in the test's mode.
is_free() {
    rl run -n ${MODE:+--mode="$MODE"} "$L" -- true
}

now_ms() {
    date +%s%3N
}

# on_terminal_steps STEP... -- COMMAND...: runs terminal.py with these steps; the screen is in $D/screen, and printed.
on_terminal_steps() {
    local status=0
    TERM=dumb HISTFILE='' python3 "$BATS_TEST_DIRNAME/terminal.py" "$@" >"$D/screen" 2>&1 3>&- || status=$?
    cat -v "$D/screen"
    return $status
}

# somebody_waits [COUNT]: for poll: so many wait for the lock, as the server shows it.
somebody_waits() {
    # The server's list of row locks is a copy, made anew only when no session has read it for 0.1 s.
    sleep 0.15
    [ "$(rl show --json "$L" | jq '.waiters | length')" -ge "${1:-1}" ]
}

export -f is_dead is_alive tree_is_dead now_ms
