# tools/server with the servers that are no packages of the distribution.

load server_helpers

# All that server.bats says of the distribution's, in one go.
flavour() { # FLAVOUR VERSION-PATTERN
    run "$SERVER" fetch "$1"
    [ "$status" -ne 77 ] || skip "$output"
    [ "$status" -eq 0 ]
    socket=$("$SERVER" start --flavour "$1" --tcp "$DIR" -- --max-connections=33)
    [[ $(ask "$socket" 'SELECT VERSION()') == $2 ]]
    [ "$("$SERVER" flavour "$DIR")" = "$1" ]
    [ "$(stat -c %u "/proc/$("$SERVER" pid "$DIR")")" -ne 0 ]
    [ "$(stat -c %a "$DIR")" = 700 ]
    [ "$(ask "$socket" 'SELECT @@bind_address')" = 127.0.0.1 ]
    [ -z "$(ask "$socket" "SELECT user FROM mysql.user WHERE user NOT LIKE 'm%' AND user <> 'root' OR host <> 'localhost'")" ]
    ask "$socket" 'CREATE DATABASE kept'
    port=$("$SERVER" port "$DIR")

    "$SERVER" kill "$DIR"
    run -1 "$SERVER" status "$DIR"
    "$SERVER" restart "$DIR"
    "$SERVER" status "$DIR"
    [ "$("$SERVER" port "$DIR")" = "$port" ]
    [ "$(ask "$socket" 'SELECT @@max_connections')" = 33 ]
    [ "$(ask "$socket" "SHOW DATABASES LIKE 'kept'")" = kept ]

    "$SERVER" stop "$DIR"
    socket=$("$SERVER" start "$DIR")
    [[ $(ask "$socket" 'SELECT VERSION()') == $2 ]]
    [ "$(ask "$socket" "SHOW DATABASES LIKE 'kept'")" = kept ]
    run -1 "$SERVER" start --flavour mariadb "$DIR"
    [[ $output == *"has the data of $1"* ]]
}

@test "MariaDB 11.8: all of it" {
    flavour mariadb-11.8 '11.8.*-MariaDB*'
}

@test "MySQL 9.7: all of it, and each server is one of its own" {
    flavour mysql-9.7 '9.*'
    OTHER=$BATS_TEST_TMPDIR/other
    other=$(ROWLOCK_FLAVOUR=mysql-9.7 "$SERVER" start "$OTHER")
    [ "$(ask "$other" 'SELECT @@server_uuid')" != "$(ask "$socket" 'SELECT @@server_uuid')" ]
}
