# docs/examples/udf: a function inside the server that takes locks with librowlock, on a connection
# of its own. Its threads must be gone whenever no statement is in it.

load helpers

setup_file() {
    : "${ROWLOCK:?set ROWLOCK to the path of the rowlock command}"
    : "${ROWLOCK_BUILD:?set ROWLOCK_BUILD to the build folder}"
    export EXAMPLE="$BATS_TEST_DIRNAME/../../docs/examples/udf" INCLUDE="$BATS_TEST_DIRNAME/../../include"
    export SO="$BATS_FILE_TMPDIR/nightly.so"
    build_status=0
    "$EXAMPLE/build" "$SO" "$EXAMPLE/nightly.c" -- -Wpedantic -Werror -I"$INCLUDE" -L"$ROWLOCK_BUILD" || build_status=$?
    if [ "$build_status" -eq 77 ]; then
        export NO_ARCHIVE=yes
        return 0
    fi
    [ "$build_status" -eq 0 ]
    # The server's working folder is that of its data, and the socket lies beside it.
    export NIGHTLY_URL='mysql://nightly:geheim@localhost/rowlock?socket=../s'
    udf_setup_file "$SO"
    rl init -q
    sql_any "CREATE USER nightly@localhost IDENTIFIED BY 'geheim'"
    grep -v '^--' "$BATS_TEST_DIRNAME/../../sql/grants.sql" | awk 'BEGIN { RS = ORS = ";" } /TO .batch./' |
        sed "s/'batch'@/'nightly'@/" | client
    install_it
}

teardown_file() {
    [ -n "${NO_ARCHIVE:-}" ] || udf_teardown_file
}

setup() {
    [ -z "${NO_ARCHIVE:-}" ] || skip "there is no libmariadb.a"
}
teardown() {
    [ -z "${NO_ARCHIVE:-}" ] || return 0
    log_is_clean
}

install_it() {
    sql_any "CREATE FUNCTION nightly_work RETURNS STRING SONAME 'nightly.so';
             CREATE FUNCTION nightly_count RETURNS INTEGER SONAME 'nightly.so'"
}
remove_it() {
    sql_any 'DROP FUNCTION nightly_work; DROP FUNCTION nightly_count'
}

rl() {
    local verb=$1
    shift
    "$ROWLOCK" "$verb" -S "$SOCKET" -u root "$@"
}

# The library's threads in the server.
threads() {
    cat "/proc/$(server_pid)/task"/*/comm 2>/dev/null | grep -c '^rowlock' || true
}
no_threads() {
    [ "$(threads)" -eq 0 ]
}
# hold NAME: by `rowlock run`, until HOLDER is killed.
hold() {
    "$ROWLOCK" run -S "$SOCKET" -u root "$1" -- sleep 300 &
    HOLDER=$!
    poll held "$1"
}
held() { # NAME
    [ "$(rl show "$1" --json 2>/dev/null | jq -r .state)" = held ]
}
# Somebody waits for the name: in the server's queue.
waiting() {
    [ "$(sql_any "SELECT COUNT(*) FROM information_schema.processlist WHERE info LIKE '%rowlock-waiter%' AND info NOT LIKE '%processlist%'")" -ge "$1" ]
}

@test "it exports its own functions alone, and needs no client library" {
    [ "$(nm -D --defined-only "$SO" | awk '{ print $3 }' | grep -v '^nightly_')" = '' ]
    run bash -c 'nm -D --undefined-only "$1" | grep -E " (mysql|mariadb|ma|rowlock|rl)_"' - "$SO"
    [ -z "$output" ]
    run bash -c 'objdump -p "$1" | grep -E "NEEDED .*(mariadb|mysql|rowlock)"' - "$SO"
    [ -z "$output" ]
}

@test "it works under the lock, and says what went wrong" {
    yields '1
1
2
2
5' "SELECT nightly_work('calls', 30, 5, 1); SELECT nightly_count(); SELECT nightly_work('calls', 30, 5, 1);
        SELECT nightly_count(); SELECT nightly_count() + nightly_work('calls', 30, 5, 0)"
    yields "INVALID: the lock's name 'calls ' ends with white space" "SELECT nightly_work('calls ', 30, 5, 1)"
    for wrong in "NULL, 30, 5, 1" "'a', NULL, 5, 1" "'a', 0, 5, 1" "'a', 30, -1, 1" "'a', 30, 61, 1" "'a', 30, 5, -1" \
        "'a', 30, 5, NULL" "'a', 9223372036854775807, 5, 1" "REPEAT('a', 1000000), 30, 5, 1" "x'610062', 30, 5, 1"; do
        yields 'INVALID: wanted are a name, a TTL of 1 to 86400 s, a wait of 0 to 60 s and 0 to 60000 steps' \
            "SELECT nightly_work($wrong)"
    done
    fails_with '*use nightly_work(name, ttl_seconds, wait_seconds, steps)' "SELECT nightly_work('a')"
    fails_with '*takes no argument' 'SELECT nightly_count(1)'
    yields 2 'SELECT nightly_count()'
    poll no_threads
}

@test "a lock of rowlock run keeps it out, and the other way round" {
    hold mixed
    run sql "SELECT nightly_work('mixed', 30, 0, 1)"
    [[ $output == "BUSY: 'mixed' is held by"* ]]
    run sql "SELECT nightly_work('mixed', 30, 1, 1)"
    [[ $output == "TIMEOUT: "* ]]
    sql "SELECT nightly_work('mixed', 30, 60, 1)" >"$BATS_TEST_TMPDIR/token" &
    waiter=$!
    poll waiting 1
    kill "$HOLDER"
    wait "$waiter"
    [ "$(cat "$BATS_TEST_TMPDIR/token")" = 2 ]
    sql "SELECT nightly_work('mixed', 12, 60, 60000)" >"$BATS_TEST_TMPDIR/token" &
    working=$!
    poll held mixed
    run -1 rl run -n mixed -- true
    # Whoever breaks the lock stops the work: it is seen at the next renewal, TTL/3 later at the most.
    rl break mixed
    wait "$working"
    cat "$BATS_TEST_TMPDIR/token"
    [[ $(cat "$BATS_TEST_TMPDIR/token") == LOST:* ]]
    poll no_threads
}

@test "many sessions and a shell: no step is lost, no token comes twice; then the file is let go" {
    before=$(sql 'SELECT nightly_count()')
    seq 25 | sed "s/.*/SELECT nightly_work('busy', 30, 60, 2);/" >"$BATS_TEST_TMPDIR/calls"
    sessions=()
    for i in 1 2 3 4 5 6 7 8; do
        client <"$BATS_TEST_TMPDIR/calls" >"$BATS_TEST_TMPDIR/tokens.$i" &
        sessions+=($!)
    done
    for i in 1 2 3 4 5; do
        rl run -w 60 busy -- printenv ROWLOCK_TOKEN
    done >"$BATS_TEST_TMPDIR/tokens.shell"
    for session in "${sessions[@]}"; do
        wait "$session"
    done
    yields $((before + 400)) 'SELECT nightly_count()'
    cat "$BATS_TEST_TMPDIR"/tokens.* | sort -n | diff - <(seq 205)
    for i in 1 2 3 4 5 6 7 8 shell; do
        sort -n "$BATS_TEST_TMPDIR/tokens.$i" | diff "$BATS_TEST_TMPDIR/tokens.$i" -
    done
    poll no_threads
    mapped nightly.so
    remove_it
    not_mapped nightly.so
    install_it
    yields 0 'SELECT nightly_count()'
}
