# tests/cli/helpers.bash - what the command's tests share. A test file says
#
#     load helpers
#     setup_file() { rowlock_setup_file; }
#     teardown_file() { rowlock_teardown_file; }
#
# and needs from outside: ROWLOCK (the command's path) and ROWLOCK_TEST_SOCKET
# (the socket of a running private server whose root has no password). Each file
# gets a schema of its own, so files can run at the same time.

# The last lines of this file make these usable in `bash -c '...'` too.
rowlock_setup_file() {
    : "${ROWLOCK:?set ROWLOCK to the path of the rowlock command}"
    : "${ROWLOCK_TEST_SOCKET:?set ROWLOCK_TEST_SOCKET to the socket of a private server}"
    export ROWLOCK ROWLOCK_TEST_SOCKET
    export TEST_DIR="$BATS_FILE_TMPDIR"
    export TEST_SCHEMA="rowlock_cli_$$_$RANDOM"
    export TEST_OPTIONS="$TEST_DIR/options.cnf"
    # Nothing of the machine's own settings may reach a test.
    unset ROWLOCK_URL MYSQL_PWD NO_COLOR COLUMNS
    export HOME="$TEST_DIR" LC_ALL=C.UTF-8
    (umask 077 && printf '[client]\nsocket=%s\nuser=root\n' "$ROWLOCK_TEST_SOCKET" >"$TEST_OPTIONS")
    rl init -q
}

rowlock_teardown_file() {
    [ -n "${TEST_SCHEMA:-}" ] || return 0
    sql_any "DROP DATABASE IF EXISTS \`$TEST_SCHEMA\`"
}

# The command, on this file's schema.
rl() {
    "$ROWLOCK" --defaults-file="$TEST_OPTIONS" -D "$TEST_SCHEMA" "$@"
}

# The same as a process of its own, so that `rl_exec ... &` gives the command's pid in $!.
rl_exec() {
    exec "$ROWLOCK" --defaults-file="$TEST_OPTIONS" -D "$TEST_SCHEMA" "$@"
}

# Statements on this file's schema; the result without headers, tabs between columns.
sql() {
    mariadb --defaults-file="$TEST_OPTIONS" --default-character-set=utf8mb4 -N -B "$TEST_SCHEMA" -e "$*"
}

# Statements without a schema.
sql_any() {
    mariadb --defaults-file="$TEST_OPTIONS" --default-character-set=utf8mb4 -N -B -e "$*"
}

# poll SECONDS COMMAND...: until the command succeeds, at most so long.
poll() {
    local seconds=$1 end
    shift
    end=$((SECONDS + seconds))
    until "$@" >/dev/null 2>&1; do
        if ((SECONDS > end)); then
            echo "not within $seconds s: $*" >&2
            return 1
        fi
        sleep 0.05
    done
}

# state_is NAME STATE: for poll.
state_is() {
    [ "$(rl show --json "$1" | jq -r .state)" = "$2" ]
}

# on_terminal COLUMNS COMMAND...: runs it with a terminal so wide as its stdin, stdout and
# stderr; what it wrote is on stdout, carriage returns taken away. Needs `script`.
on_terminal() {
    local columns=$1 line
    shift
    printf -v line '%q ' "$@"
    SHELL=$BASH script -qec "stty cols $columns rows 24 -opost; exec $line" /dev/null </dev/null | tr -d '\r'
    return "${PIPESTATUS[0]}"
}

export -f rl rl_exec sql sql_any poll state_is on_terminal
