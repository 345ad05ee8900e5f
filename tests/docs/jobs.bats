#!/usr/bin/env bats
# The jobs of docs/examples whose double run is impossible: fenced.c and nightly.sql, with a holder
# that is killed, and one that is stopped and comes back when another has had the lock.

setup_file() {
    : "${ROWLOCK:?set ROWLOCK to the path of the rowlock command}"
    : "${ROWLOCK_BUILD:?set ROWLOCK_BUILD to the build folder}"
    : "${ROWLOCK_TEST_SOCKET:?set ROWLOCK_TEST_SOCKET to the socket of a private server}"
    unset ROWLOCK_URL MYSQL_PWD
    ROOT=$(cd "$BATS_TEST_DIRNAME/../.." && pwd -P)
    export ROOT
    export SCHEMA="rowlock_jobs_$$_$RANDOM"
    export HOME="$BATS_FILE_TMPDIR" LC_ALL=C.UTF-8
    export OPTIONS="$BATS_FILE_TMPDIR/options.cnf" JOB="$BATS_FILE_TMPDIR/fenced"
    (umask 077 && printf '[client]\nsocket=%s\nuser=root\n' "$ROWLOCK_TEST_SOCKET" >"$OPTIONS")
    "$ROWLOCK" --defaults-file="$OPTIONS" -D "$SCHEMA" init -q --procedures
    local sanitize=()
    [ -z "${ROWLOCK_SANITIZE:-}" ] || sanitize=(-fsanitize="$ROWLOCK_SANITIZE")
    # shellcheck disable=SC2086 # flags are words
    "${CC:-cc}" -std=c17 -D_GNU_SOURCE "${sanitize[@]}" -I"$ROOT/include" \
        ${MARIADB_CFLAGS:-$(pkg-config --cflags libmariadb)} "$ROOT/docs/examples/fenced.c" -o "$JOB" \
        -L"$ROWLOCK_BUILD" -lrowlock -Xlinker -rpath -Xlinker "$ROWLOCK_BUILD" \
        ${MARIADB_LIBS:-$(pkg-config --libs libmariadb)} -pthread
}

teardown_file() {
    sql "DROP DATABASE IF EXISTS \`$SCHEMA\`; DROP DATABASE IF EXISTS rowlock_fenced;
         DROP DATABASE IF EXISTS example_books"
}

setup() {
    exec 8>&-
    pids=()
}

teardown() {
    for pid in "${pids[@]}"; do
        kill -KILL "$pid" 2>/dev/null || true
    done
}

sql() {
    mariadb --defaults-file="$OPTIONS" -N -e "$1"
}

# until_true SECONDS COMMAND...: polls.
until_true() {
    local end=$((SECONDS + $1))
    shift
    until "$@"; do
        ((SECONDS < end)) || { echo "never: $*"; return 1; }
        sleep 0.05
    done
}

# ---------------------------------------------------------------------- the C job

billed() {
    [ "$(sql "SELECT COALESCE(SUM(billed), 0) FROM rowlock_fenced.invoice")" -ge "$1" ]
}

each_billed_once() {
    [ "$(sql "SELECT COUNT(*), SUM(billed = 1) FROM rowlock_fenced.invoice")" = "40	40" ]
}

# start NAME: a job in the background; $! is its process, NAME its output.
start() {
    "$JOB" "$OPTIONS" "$SCHEMA" work >"$BATS_TEST_TMPDIR/$1" 2>&1 3>&- &
    pids+=($!)
}

# The second waits for the first, which is at work.
start_both() {
    "$JOB" "$OPTIONS" "$SCHEMA" prepare
    start one
    one=$!
    until_true 30 billed 3
    start two
    two=$!
}

@test "fenced.c: a job that is killed is gone on with, and nothing is billed twice" {
    start_both
    kill -KILL "$one" 2>/dev/null || true
    wait "$two"
    each_billed_once
    grep -q '^token' "$BATS_TEST_TMPDIR/two"
}

@test "fenced.c: a job that was stopped comes back and bills nothing" {
    start_both
    kill -STOP "$one"
    until_true 30 grep -q '^token' "$BATS_TEST_TMPDIR/two"
    until_true 30 billed 8
    kill -CONT "$one"
    status=0
    wait "$one" || status=$?
    cat "$BATS_TEST_TMPDIR/one"
    [ "$status" -eq 75 ] || [ "$status" -eq 1 ] # 1: the server has ended its session meanwhile
    wait "$two"
    each_billed_once
}

@test "fenced.c: who has not the token writes nothing" {
    "$JOB" "$OPTIONS" "$SCHEMA" prepare
    run sql "UPDATE rowlock_fenced.invoice SET billed = 1"
    echo "$output"
    [ "$status" -ne 0 ]
    [[ $output == *"(RLLST)"*"'invoice' is fenced by lock 'example billing'"* ]]
    [ "$(sql "SELECT SUM(billed) FROM rowlock_fenced.invoice")" = 0 ]
    "$JOB" "$OPTIONS" "$SCHEMA" remove
}

# -------------------------------------------------------------------- the SQL job

books() {
    sql "CREATE DATABASE IF NOT EXISTS example_books;
         DROP TABLE IF EXISTS example_books.account, example_books.sale;
         CREATE TABLE example_books.account (id INT PRIMARY KEY, balance INT NOT NULL) ENGINE = InnoDB;
         CREATE TABLE example_books.sale (id INT PRIMARY KEY, amount INT NOT NULL, booked INT NOT NULL) ENGINE = InnoDB;
         INSERT INTO example_books.account VALUES (1, 100);
         INSERT INTO example_books.sale VALUES (1, 10, 0), (2, 20, 0)"
    "$ROWLOCK" --defaults-file="$OPTIONS" -D "$SCHEMA" fence install --table example_books.account --lock 'example nightly'
}

# The script as it is, but for the schema.
nightly() {
    sed "s/rowlock\.rowlock_/$SCHEMA.rowlock_/" "$ROOT/docs/examples/nightly.sql"
}

balance() {
    sql "SELECT balance FROM example_books.account"
}

# One that has done what comes before the pattern, and waits for more on descriptor 8.
begin_nightly() {
    mkfifo "$BATS_TEST_TMPDIR/in"
    mariadb --defaults-file="$OPTIONS" -n -N <"$BATS_TEST_TMPDIR/in" >"$BATS_TEST_TMPDIR/one" 2>&1 3>&- &
    one=$!
    pids+=("$one")
    exec 8>"$BATS_TEST_TMPDIR/in"
    nightly | sed "/$1/,\$d" >&8
    echo "SELECT 'so far';" >&8
    until_true 30 grep -q 'so far' "$BATS_TEST_TMPDIR/one"
}

@test "nightly.sql: it books once, and again nothing" {
    books
    nightly | mariadb --defaults-file="$OPTIONS"
    [ "$(balance)" = 130 ]
    nightly | mariadb --defaults-file="$OPTIONS"
    [ "$(balance)" = 130 ]
    run sql "UPDATE example_books.account SET balance = 0"
    [ "$status" -ne 0 ]
    [ "$(balance)" = 130 ]
}

@test "nightly.sql: a job that was stopped between reading and writing books nothing" {
    books
    begin_nightly '^START TRANSACTION'
    kill -STOP "$one"
    nightly | mariadb --defaults-file="$OPTIONS" 8>&-
    [ "$(balance)" = 130 ]
    kill -CONT "$one"
    nightly | sed -n '/^START TRANSACTION/,$p' >&8
    exec 8>&-
    status=0
    wait "$one" || status=$?
    cat "$BATS_TEST_TMPDIR/one"
    [ "$status" -ne 0 ]
    grep -q "(RLLST).*lock 'example nightly' is not held with token" "$BATS_TEST_TMPDIR/one"
    [ "$(balance)" = 130 ]
}

@test "nightly.sql: a job that is killed in its transaction has done nothing, and the next does all" {
    books
    begin_nightly '^COMMIT'
    kill -KILL "$one" 2>/dev/null || true
    exec 8>&-
    nightly | mariadb --defaults-file="$OPTIONS"
    [ "$(balance)" = 130 ]
    [ "$(sql "SELECT SUM(booked) FROM example_books.sale")" = 2 ]
}
