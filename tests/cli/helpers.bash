# tests/cli/helpers.bash - functions for the command's tests. A test file says
#
#     load helpers
#
# and needs from outside: ROWLOCK (the command's path) and ROWLOCK_TEST_SOCKET
# (the socket of a running private server whose root has no password). Each file
# gets a schema of its own, so files can run at the same time.

bats_require_minimum_version 1.5.0
export BATS_VERBOSE_RUN=yes # what `run` ran is shown where a test fails

setup_file() {
    rowlock_setup_file
}

teardown_file() {
    rowlock_teardown_file
}

# The last lines of this file make these usable in `bash -c '...'` too.
rowlock_setup_file() {
    : "${ROWLOCK:?set ROWLOCK to the path of the rowlock command}"
    : "${ROWLOCK_TEST_SOCKET:?set ROWLOCK_TEST_SOCKET to the socket of a private server}"
    export ROWLOCK ROWLOCK_TEST_SOCKET
    export TEST_DIR="$BATS_FILE_TMPDIR"
    export TEST_SCHEMA="rowlock_cli_$$_$RANDOM"
    export TEST_OPTIONS="$TEST_DIR/options.cnf"
    # No settings of this machine may reach a test.
    unset ROWLOCK_URL MYSQL_PWD NO_COLOR COLUMNS
    export HOME="$TEST_DIR" LC_ALL=C.UTF-8
    (umask 077 && printf '[client]\nsocket=%s\nuser=root\n' "$ROWLOCK_TEST_SOCKET" >"$TEST_OPTIONS")
    rl init -q
}

rowlock_teardown_file() {
    [ -n "${TEST_SCHEMA:-}" ] || return 0
    own_server remove
    [ -z "${ON_OWN_SERVER:-}" ] || return 0
    sql_any "DROP DATABASE IF EXISTS \`$TEST_SCHEMA\`; $(sql_any "SELECT CONCAT('DROP USER ', QUOTE(user), '@', QUOTE(host), ';')
        FROM mysql.user WHERE user LIKE '${TEST_SCHEMA: -20}\\_%'")"
}

# setup_on_own_server [OPTION...]: setup_file for tests that change or check the state of a whole server.
setup_on_own_server() {
    export TEST_DIR="$BATS_FILE_TMPDIR" ON_OWN_SERVER=yes
    ROWLOCK_TEST_SOCKET=$(own_server start "$@" | tail -n 1)
    rowlock_setup_file
}

# own_server VERB [OPTION...]: a server that a test may treat badly.
own_server() {
    "${ROWLOCK_TOOLS:-$BATS_TEST_DIRNAME/../../tools}/server" "$1" "${@:2}" "$TEST_DIR/own" 3>&-
}

# rl ARGUMENT...: the command, on this file's schema.
rl() {
    "$ROWLOCK" --defaults-file="$TEST_OPTIONS" -D "$TEST_SCHEMA" "$@"
}

# The same as a process of its own, so that `rl_exec ... &` gives the command's pid in $!.
rl_exec() {
    exec "$ROWLOCK" --defaults-file="$TEST_OPTIONS" -D "$TEST_SCHEMA" "$@"
}

# user_of NAME: the full name of this file's own user; the teardown drops them all.
user_of() {
    echo "${TEST_SCHEMA: -20}_$1"
}

# new_user NAME [RIGHTS ON WHAT]...: makes that user anew, with those rights.
new_user() {
    local user right grants=''
    user="'$(user_of "$1")'@'localhost'"
    for right in "${@:2}"; do
        grants+="; GRANT $right TO $user"
    done
    sql_any "DROP USER IF EXISTS $user; CREATE USER $user$grants"
}

# rl_as NAME ARGUMENT...: the command as that user, or as root, without any option file.
rl_as() {
    local user=$1
    [ "$user" = root ] || user=$(user_of "$user")
    "$ROWLOCK" --no-defaults -S "$ROWLOCK_TEST_SOCKET" -u "$user" -D "$TEST_SCHEMA" "${@:2}"
}

# sql STATEMENTS: runs them on this file's schema; prints the result without headers, with tabs between columns.
sql() {
    mariadb --defaults-file="$TEST_OPTIONS" --default-character-set=utf8mb4 -N -B "$TEST_SCHEMA" -e "$*"
}

# sql_any STATEMENTS: the same without a schema.
sql_any() {
    mariadb --defaults-file="$TEST_OPTIONS" --default-character-set=utf8mb4 -N -B -e "$*"
}

is_mysql() {
    [[ "$(sql_any 'SELECT VERSION()')" != *MariaDB* ]]
}

# words LINE: splits it into the array `arguments`; % is an empty one.
words() {
    read -ra arguments <<<"$1"
    for word in "${!arguments[@]}"; do
        [ "${arguments[word]}" != % ] || arguments[word]=''
    done
}

# capture COMMAND...: sets $status, $output, $lines, $stderr and $stderr_lines, as `run --separate-stderr` does with three
# processes more, which is most of what many tests cost.
capture() {
    local errors=${BATS_TEST_TMPDIR:-$TEST_DIR}/stderr.$BASHPID flags=$-
    set +eET
    output=$("$@" 2>"$errors") && status=0 || status=$?
    stderr=$(<"$errors")
    local IFS=$'\n'
    set -f
    # shellcheck disable=SC2206 # each line is an element
    lines=($output) stderr_lines=($stderr)
    set +f "-$flags"
}

# fails STATUS PATTERN COMMAND...: it ends so, with nothing on stdout and one line on stderr, "rowlock: PATTERN".
fails() {
    capture "${@:3}"
    echo "${*:3}: exit $status, stdout: $output, stderr: $stderr"
    [ "$status" -eq "$1" ]
    [ -z "$output" ]
    [ "${#stderr_lines[@]}" -eq 1 ]
    # shellcheck disable=SC2053 # a pattern
    [[ "$stderr" == "rowlock: "$2 ]]
}

# misused PATTERN COMMAND...: it ends with 64, nothing on stdout, "rowlock: PATTERN" and where to find help on stderr.
misused() {
    capture "${@:2}"
    echo "${*:2}: exit $status, stdout: $output, stderr: $stderr"
    [ "$status" -eq 64 ]
    [ -z "$output" ]
    [ "${#stderr_lines[@]}" -eq 2 ]
    # shellcheck disable=SC2053 # a pattern
    [[ "${stderr_lines[0]}" == "rowlock: "$1 ]]
    [[ "${stderr_lines[1]}" == "rowlock: try 'rowlock"*"--help'" ]]
}

# works COMMAND...: it ends with 0 and nothing on stderr; its output is in $output.
works() {
    capture "$@"
    echo "$*: exit $status, stdout: $output, stderr: $stderr"
    [ "$status" -eq 0 ]
    [ -z "$stderr" ]
}

# is_silent STATUS COMMAND...: it ends so, and writes nothing.
is_silent() {
    capture "${@:2}"
    echo "${*:2}: exit $status, stdout: $output, stderr: $stderr"
    [ "$status" -eq "$1" ]
    [ -z "$output$stderr" ]
}

# poll COMMAND...: repeats it until it succeeds. The limit is for a result that never comes, not for a late one. It looks less
# and less often: what takes long is not to be slowed down by looking for it.
poll() {
    local end=$((SECONDS + 90)) pause=50
    until "$@" >/dev/null 2>&1; do
        if ((SECONDS > end)); then
            echo "never: $*" >&2
            ps -eo pid,ppid,pgid,stat,args | grep -v '\[' >&2
            return 1
        fi
        nap "$pause"
        pause=$((pause < 300 ? pause * 4 / 3 : pause))
    done
}

# nap MS: a pause without a process of its own: nobody writes into this pipe.
nap() {
    local s
    [ -p "$TEST_DIR/never" ] || mkfifo "$TEST_DIR/never" 2>/dev/null || :
    printf -v s '%d.%03d' $(($1 / 1000)) $(($1 % 1000))
    read -rt "$s" <>"$TEST_DIR/never" || :
}

# json FILTER [FILE]: the input is one value, and the filter is true of it. (Without input, jq 1.6 -e succeeds.)
json() {
    jq -es "length == 1 and (.[0] | ($1))" "${@:2}"
}

# state_is NAME STATE: for poll: `show` has that state.
state_is() {
    [ "$(rl show --json "$1" | jq -r .state)" = "$2" ]
}

# on_terminal COLUMNS COMMAND...: runs it on a terminal of that width; prints its output without carriage returns.
# Needs `script`.
on_terminal() {
    local columns=$1 line
    shift
    printf -v line '%q ' "$@"
    SHELL=$BASH script -qec "stty cols $columns rows 24 -opost; $line" /dev/null </dev/null | tr -d '\r'
    return "${PIPESTATUS[0]}"
}

# is_harmless FILE: nothing in it can steer a terminal: no control character (but newline) of C0 or C1, no DEL, no
# change of the writing direction.
is_harmless() {
    ! LC_ALL=C grep -qP '[\x00-\x09\x0b-\x1f\x7f]|\xc2[\x80-\x9f]|\xe2\x80[\xa8-\xae]|\xe2\x81[\xa6-\xa9]' "$1"
}

# all_harmless STATUS ARGUMENTS...: the output of each command, to a file and to a terminal, is_harmless.
all_harmless() {
    for arguments in "${@:2}"; do
        run "-$1" bash -c "rl $arguments >'$TEST_DIR/evil' 2>&1"
        is_harmless "$TEST_DIR/evil"
        run "-$1" bash -c "NO_COLOR=1 on_terminal 300 rl $arguments >'$TEST_DIR/evil'"
        is_harmless "$TEST_DIR/evil"
    done
}

export -f rl rl_exec sql sql_any json poll nap state_is on_terminal
