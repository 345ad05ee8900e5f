# tools/server, on which the demo and all tests stand.

setup_file() {
    export SERVER="$BATS_TEST_DIRNAME/../../tools/server"
}

setup() {
    DIR=$BATS_TEST_TMPDIR/server
}

teardown() {
    "$SERVER" remove "$DIR"
    if [ -n "${OTHER:-}" ]; then
        "$SERVER" remove "$OTHER"
    fi
}

ask() { # SOCKET STATEMENT
    mariadb --no-defaults -S "$1" -u root -N -B -e "$2"
}

@test "start, status, stop; the data stays" {
    run "$SERVER" status "$DIR"
    [ "$status" -eq 1 ]
    socket=$("$SERVER" start "$DIR")
    "$SERVER" status "$DIR"
    [ "$("$SERVER" socket "$DIR")" = "$socket" ]
    ask "$socket" 'CREATE DATABASE kept'
    [ "$(ask "$DIR/s" 'SELECT @@skip_networking, @@innodb_flush_log_at_trx_commit')" = "1	1" ]
    pid=$("$SERVER" pid "$DIR")
    "$SERVER" stop "$DIR"
    run "$SERVER" status "$DIR"
    [ "$status" -eq 1 ]
    [ ! -d "/proc/$pid" ] || [ -z "$(tr -d '\0' <"/proc/$pid/cmdline")" ]
    socket=$("$SERVER" start "$DIR")
    [ "$(ask "$socket" "SHOW DATABASES LIKE 'kept'")" = kept ]
}

@test "kill is a crash, restart gets it back with its options" {
    socket=$("$SERVER" start "$DIR" -- --max-connections=33)
    ask "$socket" 'CREATE DATABASE kept'
    "$SERVER" kill "$DIR"
    socket=$("$SERVER" restart "$DIR")
    [ "$(ask "$socket" "SELECT @@max_connections")" = 33 ]
    [ "$(ask "$socket" "SHOW DATABASES LIKE 'kept'")" = kept ]
    socket=$("$SERVER" start --fresh "$DIR")
    [ -z "$(ask "$socket" "SHOW DATABASES LIKE 'kept'")" ]
}

@test "over TCP only when asked, only on loopback, and root not at all" {
    socket=$("$SERVER" start --tcp "$DIR")
    port=$("$SERVER" port "$DIR")
    [ "$(ask "$socket" 'SELECT @@bind_address')" = 127.0.0.1 ]
    run mariadb --no-defaults -h 127.0.0.1 -P "$port" -u root -e 'SELECT 1'
    [ "$status" -ne 0 ]
    ask "$socket" "CREATE USER someone@127.0.0.1 IDENTIFIED BY 'secret'"
    mariadb --no-defaults -h 127.0.0.1 -P "$port" -u someone -psecret -e 'SELECT 1'
    "$SERVER" restart "$DIR"
    [ "$("$SERVER" port "$DIR")" = "$port" ]
}

@test "never as root, and closed to others" {
    "$SERVER" start "$DIR"
    [ "$(stat -c %u "/proc/$("$SERVER" pid "$DIR")")" -ne 0 ]
    [ "$(stat -c %a "$DIR")" = 700 ]
    # It holds nothing of ours open.
    run find "/proc/$("$SERVER" pid "$DIR")/fd" -lname "*bats*" -not -lname "$(realpath "$DIR")/*"
    [ -z "$output" ] || [[ $output != *pipe* ]]
}

@test "a path too long for a socket" {
    OTHER=$BATS_TEST_TMPDIR/$(printf 'x%.0s' {1..90})/server
    socket=$("$SERVER" start "$OTHER")
    [ "${#socket}" -le 107 ]
    [ "$(ask "$socket" 'SELECT 1')" = 1 ]
    real=$(dirname "$socket")
    "$SERVER" remove "$OTHER"
    [ ! -e "$real" ]
    [ ! -e "$OTHER" ]
}

@test "it takes no folder that is not its own" {
    mkdir "$BATS_TEST_TMPDIR/mine"
    touch "$BATS_TEST_TMPDIR/mine/file"
    run "$SERVER" start "$BATS_TEST_TMPDIR/mine"
    [ "$status" -eq 1 ]
    run "$SERVER" remove "$BATS_TEST_TMPDIR/mine"
    [ "$status" -eq 1 ]
    [ -f "$BATS_TEST_TMPDIR/mine/file" ]
}

@test "it ends nothing that is not the server, whatever the pid file says" {
    "$SERVER" start "$DIR"
    real=$(dirname "$("$SERVER" socket "$DIR")")
    "$SERVER" stop "$DIR"
    sleep 100 3>&- &
    echo $! >"$real/pid"
    "$SERVER" kill "$DIR"
    "$SERVER" stop "$DIR"
    kill -0 $!
    kill $!
}

@test "an option that it does not know is said, and nothing is left" {
    run "$SERVER" start "$DIR" -- --no-such-option
    [ "$status" -eq 1 ]
    [[ $output == *no-such-option* ]]
    run "$SERVER" status "$DIR"
    [ "$status" -eq 1 ]
}
