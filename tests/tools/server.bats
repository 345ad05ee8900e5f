# tools/server, on which the demo and all tests stand.

load server_helpers

@test "start, status, stop; the data stays" {
    run -1 "$SERVER" status "$DIR"
    socket=$("$SERVER" start "$DIR")
    "$SERVER" status "$DIR"
    [ "$("$SERVER" socket "$DIR")" = "$socket" ]
    ask "$socket" 'CREATE DATABASE kept'
    [ "$(ask "$DIR/s" 'SELECT @@skip_networking, @@innodb_flush_log_at_trx_commit')" = "1	1" ]
    pid=$("$SERVER" pid "$DIR")
    "$SERVER" stop "$DIR"
    run -1 "$SERVER" status "$DIR"
    [ ! -d "/proc/$pid" ] || [ -z "$(tr -d '\0' <"/proc/$pid/cmdline")" ]
    socket=$("$SERVER" start "$DIR")
    [ "$(ask "$socket" "SHOW DATABASES LIKE 'kept'")" = kept ]
}

@test "wrong words: 64, what is wrong first; --help: 0" {
    while IFS='|' read -r said line; do
        read -ra words <<<"$line"
        run -64 --separate-stderr "$SERVER" "${words[@]}"
        [ -z "$output" ]
        [ "${stderr_lines[0]}" = "server: $said" ]
        [[ "$stderr" == *"tools/server start "* ]]
    done <<CASES
give a verb: start, stop, ...|
there is no verb 'begin'|begin $DIR
unknown option '--slow'|start --slow $DIR
unexpected argument 'other'|start $DIR other
give a folder (DIR)|stop
CASES
    run -0 --separate-stderr "$SERVER" --help
    [ -z "$stderr" ]
    [[ "$output" == *"tools/server start "* ]]
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
    run ! mariadb --no-defaults -h 127.0.0.1 -P "$port" -u root -e 'SELECT 1'
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
    run -1 "$SERVER" start "$BATS_TEST_TMPDIR/mine"
    run -1 "$SERVER" remove "$BATS_TEST_TMPDIR/mine"
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
    run -1 "$SERVER" start "$DIR" -- --no-such-option
    [[ $output == *no-such-option* ]]
    run -1 "$SERVER" status "$DIR"
}

@test "a flavour that cannot be had: 77, why, and nothing left; one that does not exist: 1" {
    export ROWLOCK_UNPACKED=$BATS_TEST_TMPDIR/unpacked
    mkdir "$BATS_TEST_TMPDIR/bin"
    for broken in mmdebstrap apt-get; do
        printf '#!/bin/sh\necho "E: not today" >&2\nexit 100\n' >"$BATS_TEST_TMPDIR/bin/$broken"
        chmod +x "$BATS_TEST_TMPDIR/bin/$broken"
        PATH=$BATS_TEST_TMPDIR/bin:$PATH run -77 "$SERVER" start --flavour mysql-9.7 "$DIR"
        [[ $output == *'cannot be had here: mysql-9.7'* ]]
        [ ! -e "$DIR" ]
        [ -z "$(find "$ROWLOCK_UNPACKED" -mindepth 1 -type d)" ]
    done
    [[ $output == *'no mirror'* ]]
    run -1 "$SERVER" start --flavour oracle "$DIR"
}
