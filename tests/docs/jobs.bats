#!/usr/bin/env bats
# The jobs of docs/examples whose double run is impossible: fenced.c and nightly.sql, with a holder
# that is killed, and one that is stopped and comes back when another has had the lock.

load ../cli/helpers

setup_file() {
    : "${ROWLOCK_BUILD:?set ROWLOCK_BUILD to the build folder}"
    rowlock_setup_file
    rl init -q --procedures
    ROOT=$(cd "$BATS_TEST_DIRNAME/../.." && pwd -P)
    export ROOT JOB="$BATS_FILE_TMPDIR/fenced"
    local sanitize=()
    [ -z "${ROWLOCK_SANITIZE:-}" ] || sanitize=(-fsanitize="$ROWLOCK_SANITIZE")
    # shellcheck disable=SC2086 # flags are words
    "${CC:-cc}" -std=c17 -D_GNU_SOURCE "${sanitize[@]}" -I"$ROOT/include" \
        ${MARIADB_CFLAGS:-$(pkg-config --cflags libmariadb)} "$ROOT/docs/examples/fenced.c" -o "$JOB" \
        -L"$ROWLOCK_BUILD" -lrowlock -Xlinker -rpath -Xlinker "$ROWLOCK_BUILD" \
        ${MARIADB_LIBS:-$(pkg-config --libs libmariadb)} -pthread
}

teardown_file() {
    sql "DROP DATABASE IF EXISTS rowlock_fenced; DROP DATABASE IF EXISTS example_books"
    rowlock_teardown_file
}

setup() {
    cd "$BATS_TEST_TMPDIR"
    exec 8>&-
    pids=()
}

teardown() {
    for pid in "${pids[@]}"; do
        kill -KILL "$pid" 2>/dev/null || true
    done
}

billed() {
    [ "$(sql "SELECT COALESCE(SUM(billed), 0) FROM rowlock_fenced.invoice")" -ge "$1" ]
}

each_billed_once() {
    [ "$(sql "SELECT COUNT(*), SUM(billed = 1) FROM rowlock_fenced.invoice")" = "40	40" ]
}

# start NAME: a job in the background; $! is its process, NAME its output.
start() {
    "$JOB" "$TEST_OPTIONS" "$TEST_SCHEMA" work >"$1" 2>&1 3>&- &
    pids+=($!)
}

# Starts two jobs: the second waits for the first, which is at work.
start_both() {
    "$JOB" "$TEST_OPTIONS" "$TEST_SCHEMA" prepare
    start one
    one=$!
    poll billed 3
    start two
    two=$!
}

@test "fenced.c: a job that is killed is gone on with, and nothing is billed twice" {
    start_both
    kill -KILL "$one" 2>/dev/null || true
    wait "$two" || { cat two && false; }
    each_billed_once
    grep -q '^token' two
}

# Stops the job between two transactions: within one, its fence would keep the next holder waiting.
stopped_between() {
    kill -STOP "$one"
    sql "START TRANSACTION; SELECT * FROM rowlock_fenced.invoice FOR UPDATE NOWAIT; SELECT * FROM resource FOR UPDATE NOWAIT" ||
        { kill -CONT "$one" && false; }
}

@test "fenced.c: a job that was stopped comes back and bills nothing" {
    "$JOB" "$TEST_OPTIONS" "$TEST_SCHEMA" prepare
    start one
    one=$!
    poll billed 3
    # At once: the whole job takes only two seconds.
    poll stopped_between
    start two
    two=$!
    poll grep -q '^token' two
    poll billed 8
    kill -CONT "$one"
    status=0
    wait "$one" || status=$?
    cat one
    [ "$status" -eq 75 ] || [ "$status" -eq 1 ] # 1: the server has ended its session meanwhile
    wait "$two"
    each_billed_once
}

@test "fenced.c: who has not the token writes nothing" {
    "$JOB" "$TEST_OPTIONS" "$TEST_SCHEMA" prepare
    run ! sql "UPDATE rowlock_fenced.invoice SET billed = 1"
    [[ $output == *"(RLLST)"*"'invoice' is fenced by lock 'example billing'"* ]]
    [ "$(sql "SELECT SUM(billed) FROM rowlock_fenced.invoice")" = 0 ]
    "$JOB" "$TEST_OPTIONS" "$TEST_SCHEMA" remove
}

books() {
    sql "CREATE DATABASE IF NOT EXISTS example_books;
         DROP TABLE IF EXISTS example_books.account, example_books.sale;
         CREATE TABLE example_books.account (id INT PRIMARY KEY, balance INT NOT NULL) ENGINE = InnoDB;
         CREATE TABLE example_books.sale (id INT PRIMARY KEY, amount INT NOT NULL, booked INT NOT NULL) ENGINE = InnoDB;
         INSERT INTO example_books.account VALUES (1, 100);
         INSERT INTO example_books.sale VALUES (1, 10, 0), (2, 20, 0)"
    rl fence install --table example_books.account --lock 'example nightly'
}

# The script as it is, but for the schema and the time that the server gives an idle client.
nightly() {
    sed "s/rowlock\.rowlock_/$TEST_SCHEMA.rowlock_/; s/wait_timeout = 10/wait_timeout = 60/" "$ROOT/docs/examples/nightly.sql"
}

balance() {
    sql "SELECT balance FROM example_books.account"
}

@test "nightly.sql: it books once, and again nothing; nor does one that was stopped between reading and writing" {
    books
    mkfifo in
    mariadb --defaults-file="$TEST_OPTIONS" -n -N <in >one 2>&1 3>&- &
    one=$!
    pids+=("$one")
    exec 8>in
    nightly | sed '/^START TRANSACTION/,$d' >&8
    echo "SELECT 'so far';" >&8
    poll grep -q 'so far' one
    kill -STOP "$one"
    for _ in 1 2; do
        nightly | mariadb --defaults-file="$TEST_OPTIONS" 8>&-
        [ "$(balance)" = 130 ]
    done
    kill -CONT "$one"
    nightly | sed -n '/^START TRANSACTION/,$p' >&8
    exec 8>&-
    status=0
    wait "$one" || status=$?
    cat one
    [ "$status" -ne 0 ]
    grep -q "(RLLST).*lock 'example nightly' is not held with token" one
    run ! sql "UPDATE example_books.account SET balance = 0"
    [ "$(balance)" = 130 ]
}
