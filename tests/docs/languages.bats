#!/usr/bin/env bats
# The examples of docs/languages.md: of each, one is killed at work, two take over, and each invoice is billed once.

load ../cli/helpers

setup_file() {
    rowlock_setup_file
    "$ROWLOCK" --defaults-file="$TEST_OPTIONS" -D rowlock init -q --procedures # as the page has it
    EXAMPLES=$(cd "$BATS_TEST_DIRNAME/../../docs/examples/languages" && pwd -P)
    export EXAMPLES DB_SOCKET=$ROWLOCK_TEST_SOCKET DB_USER=root
}

setup() {
    cd "$BATS_TEST_TMPDIR"
    pids=()
    sql_any 'DROP DATABASE IF EXISTS example_languages'
    sql_any "$(cat "$EXAMPLES/invoices.sql")"
}

teardown() {
    for pid in "${pids[@]}"; do
        kill -KILL "$pid" 2>/dev/null || true
    done
}

needs() { # COMMAND...
    "$@" >/dev/null 2>&1 || skip "no $*"
}

start() { # OUTPUT COMMAND...
    "${@:2}" >"$1" 2>&1 3>&- &
    pids+=($!)
}

# work COMMAND...: runs it; again if a busy machine has stopped it for longer than its lease.
work() {
    local error=error.$BASHPID
    until "$@" 2>"$error"; do
        grep -qE 'with token|was not taken' "$error" || { cat "$error"; return 1; }
    done
}

# Starts a session that keeps the third invoice locked.
hold_third() {
    mkfifo talk
    mariadb --defaults-file="$TEST_OPTIONS" -N --unbuffered <talk >told 2>&1 3>&- &
    pids+=($!)
    exec 8>talk
    echo "BEGIN; SELECT 'locked', id FROM example_languages.invoice WHERE id = 3 FOR UPDATE;" >&8
    poll grep -q locked told
}

let_third_go() {
    exec 8>&-
    wait "${pids[0]}"
}

third_is_wanted() {
    [ "$(sql_any "SELECT COUNT(*) FROM information_schema.processlist WHERE info LIKE 'UPDATE example_languages%'")" != 0 ]
}

# The first one is in its third transaction. (If the machine stood still for longer than its lease it has ended: once more.)
is_at_third() { # COMMAND...
    third_is_wanted && [ "$(sql_any 'SELECT SUM(billed) FROM example_languages.invoice')" = 2 ] && return
    if ! kill -0 "${pids[1]}" 2>/dev/null && grep -qE 'with token|was not taken' one; then
        pids=("${pids[0]}")
        start one "$@"
    fi
    return 1
}

# The first one is killed while it waits for a row that the test has locked: in the middle of its third transaction.
each_is_billed_once() { # COMMAND...
    hold_third
    start one "$@"
    poll is_at_third "$@" || { cat one; false; }
    kill -KILL "${pids[1]}"
    let_third_go
    work "$@" >two 2>&1 3>&- &
    pids+=($!)
    work "$@" >three 2>&1 3>&-
    wait "${pids[-1]}"
    [ "$(sql_any 'SELECT COUNT(*), SUM(billed = 1) FROM example_languages.invoice')" = "10	10" ]
    # The client that took over has a token of its own.
    [ "$(sql_any 'SELECT COUNT(DISTINCT token) FROM example_languages.invoice')" -ge 2 ]
}

@test "Python" {
    needs /usr/bin/python3 -c 'import pymysql'
    each_is_billed_once /usr/bin/python3 "$EXAMPLES/bill.py"
}

@test "PHP" {
    needs php -r 'exit(extension_loaded("pdo_mysql") ? 0 : 1);'
    each_is_billed_once php "$EXAMPLES/bill.php"
}

@test "JavaScript" {
    needs npm install --no-audit --no-fund --ignore-scripts --fetch-retries=1 --fetch-timeout=20000 mysql2@3.24.6
    cp "$EXAMPLES/bill.mjs" .
    each_is_billed_once node bill.mjs
}

@test "Java" {
    export CLASSPATH=/usr/share/java/mariadb-java-client.jar:/usr/share/java/jna.jar:.
    needs test -r /usr/share/java/mariadb-java-client.jar
    needs javac -version
    javac -d . "$EXAMPLES/Bill.java"
    each_is_billed_once java Bill
}

@test "Go" {
    export GO111MODULE=off GOPATH=/usr/share/gocode GOCACHE=$PWD/cache
    needs test -d /usr/share/gocode/src/github.com/go-sql-driver/mysql
    needs go version
    go build -o bill "$EXAMPLES/bill.go"
    each_is_billed_once ./bill
}

@test "the page names each of them" {
    for file in "$EXAMPLES"/*; do
        grep -q "(examples/languages/${file##*/})" "$EXAMPLES/../../languages.md" || { echo "$file"; false; }
    done
}
