# What TLS lets in and keeps out, on a server of the flavour ROWLOCK_FLAVOUR: certificates that are
# right, of another CA, for another host, expired and revoked; a certificate asked of the client;
# no TLS at all. For each: the exit status and the line that says why.

load ../cli/helpers
# shellcheck source=tests/security/tls_server.bash
. "$BATS_TEST_DIRNAME/tls_server.bash"

setup_file() {
    local status=0
    tls_server_start || status=$?
    export NO_SERVER=
    if [ "$status" -eq 77 ]; then
        NO_SERVER=yes # and setup() skips each
        return 0
    fi
    [ "$status" -eq 0 ]
    rowlock_setup_file
    tls_sql "CREATE USER plain@'%' IDENTIFIED BY 'Geheim#1'; CREATE USER tls@'%' IDENTIFIED BY 'Geheim#1' REQUIRE SSL;
        CREATE USER x509@'%' IDENTIFIED BY 'Geheim#1' REQUIRE X509;
        GRANT ALL ON \`$TEST_SCHEMA\`.* TO plain@'%'; GRANT ALL ON \`$TEST_SCHEMA\`.* TO tls@'%';
        GRANT ALL ON \`$TEST_SCHEMA\`.* TO x509@'%'"
    (umask 077 && printf '[client]\npassword=Geheim#1\n' >"$TEST_DIR/password.cnf")
}

teardown_file() {
    [ -z "${TEST_SCHEMA:-}" ] || tls_server_remove
}

setup() {
    [ -z "$NO_SERVER" ] || skip "no such server here"
    cd "$CERTIFICATES"
}

# as USER HOST OPTIONS...: `run`s a command over TCP.
as() {
    local user=$1 host=$2
    shift 2
    run "$ROWLOCK" --defaults-file="$TEST_DIR/password.cnf" -u "$user" -h "$host" -P "$PORT" -D "$TEST_SCHEMA" \
        --connect-timeout=20s "$@" run -n name -- sh -c 'echo in'
}

lets_in() {
    as "$@"
    echo "$status: $output"
    [ "$status" -eq 0 ]
    [ "$output" = in ]
}

# keeps_out STATUS PATTERN USER HOST OPTIONS...
keeps_out() {
    local wanted=$1 pattern=$2
    shift 2
    as "$@"
    echo "$status: $output"
    [ "$status" -eq "$wanted" ]
    [ "${#lines[@]}" -eq 1 ] || [ "$wanted" -eq 64 ]
    # shellcheck disable=SC2254 # a pattern
    case ${lines[0]} in $pattern) ;; *) return 1 ;; esac
    [[ $output != *Geheim* ]]
}

@test "the right certificate: every mode lets in; who requires TLS is let in by all but off" {
    tls_server_shows server
    lets_in tls 127.0.0.1
    lets_in tls 127.0.0.1 --tls=preferred
    lets_in tls 127.0.0.1 --tls=required
    lets_in tls 127.0.0.1 --tls=verify-ca --tls-ca=right.pem
    lets_in tls 127.0.0.1 --tls=verify-identity --tls-ca=right.pem
    lets_in tls 127.0.0.1 --tls-ca=right.pem
    lets_in tls 127.0.0.1 --ssl-mode=VERIFY_IDENTITY --ssl-ca=right.pem
    lets_in tls 127.0.0.1 --url="mysql://?tls=verify-identity&tls-ca=right.pem"
    keeps_out 77 '*Access denied*the account requires TLS*' tls 127.0.0.1 --tls=off
}

@test "a fingerprint: that very certificate, with and without colons" {
    tls_server_shows server
    right=$(openssl x509 -in server.pem -noout -fingerprint -sha1 | sed 's/.*=//')
    other=$(openssl x509 -in elsewhere.pem -noout -fingerprint -sha1 | sed 's/.*=//')
    lets_in tls 127.0.0.1 --tls-fingerprint="$right"
    lets_in tls 127.0.0.1 --tls-fingerprint="${right//:/}" --tls-ca=right.pem
    keeps_out 69 'rowlock: *another fingerprint*' tls 127.0.0.1 --tls-fingerprint="$other"
    keeps_out 69 'rowlock: *another fingerprint*' tls 127.0.0.1 --tls-fingerprint="$other" --tls-ca=right.pem
}

@test "of another CA: only who does not look is let in" {
    tls_server_shows foreign
    lets_in tls 127.0.0.1
    lets_in tls 127.0.0.1 --tls=required
    for mode in verify-ca verify-identity; do
        keeps_out 69 "rowlock: no TLS connection to the server could be made: *certificate*(the CA file is 'right.pem')" tls 127.0.0.1 --tls=$mode --tls-ca=right.pem
        lets_in tls 127.0.0.1 --tls=$mode --tls-ca=wrong.pem
    done
    printf 'no certificate\n' >"$BATS_TEST_TMPDIR/none.pem"
    keeps_out 69 "rowlock: no TLS connection *(the CA file is '$BATS_TEST_TMPDIR/none.pem')" tls 127.0.0.1 --tls-ca="$BATS_TEST_TMPDIR/none.pem"
    # Without a CA file: the system's.
    keeps_out 69 'rowlock: no TLS connection to the server could be made: *certificate*no CA file*' tls 127.0.0.1 --tls=verify-identity
}

@test "for another host: verify-ca does not mind, verify-identity does" {
    tls_server_shows elsewhere
    lets_in tls 127.0.0.1 --tls=verify-ca --tls-ca=right.pem
    keeps_out 69 "rowlock: *certificate is not for the host '127.0.0.1'*verify-ca*" tls 127.0.0.1 --tls-ca=right.pem
}

@test "expired: who looks at it does not go in" {
    tls_server_shows expired
    lets_in tls 127.0.0.1 --tls=required
    keeps_out 69 'rowlock: *expired*' tls 127.0.0.1 --tls=verify-ca --tls-ca=right.pem
    keeps_out 69 'rowlock: *expired*' tls 127.0.0.1 --tls-ca=right.pem
}

@test "revoked: with the CA's list it does not go in" {
    tls_server_shows revoked
    lets_in tls 127.0.0.1 --tls-ca=right.pem
    keeps_out 69 'rowlock: *revoked*' tls 127.0.0.1 --tls-ca=right.pem --tls-crl=crl.pem
    tls_server_shows server
    lets_in tls 127.0.0.1 --tls-ca=right.pem --tls-crl=crl.pem
}

@test "a client's certificate: asked for, and none, one of a stranger, the right one" {
    tls_server_shows server
    keeps_out 77 "*Access denied*requires a client's certificate*" x509 127.0.0.1 --tls-ca=right.pem
    keeps_out 77 '*Access denied*requires TLS*' x509 127.0.0.1 --tls=off
    lets_in x509 127.0.0.1 --tls-ca=right.pem --tls-cert=client.pem --tls-key=client.key
    cat client.pem client.key >both.pem
    lets_in x509 127.0.0.1 --tls-ca=right.pem --tls-cert=both.pem
    as x509 127.0.0.1 --tls-ca=right.pem --tls-cert=stranger.pem --tls-key=stranger.key
    [ "$status" -eq 69 ] || [ "$status" -eq 77 ]
    [ "${#lines[@]}" -eq 1 ]
}

@test "a key that does not fit, or wants a passphrase: a line, and no question on the terminal" {
    tls_server_shows server
    keeps_out 69 'rowlock: no TLS connection *' tls 127.0.0.1 --tls-ca=right.pem --tls-cert=client.pem --tls-key=stranger.key
    openssl ec -aes128 -in client.key -out locked.key -passout pass:secret 2>/dev/null
    keeps_out 69 'rowlock: no TLS connection *' tls 127.0.0.1 --tls-ca=right.pem --tls-cert=client.pem --tls-key=locked.key
    run timeout 20 script -qec "'$ROWLOCK' --no-defaults -u tls -h 127.0.0.1 -P $PORT --tls-ca=right.pem --tls-cert=client.pem --tls-key=locked.key ls" /dev/null </dev/null
    [[ $output == *'no TLS connection'* ]]
    [[ $output != *phrase* ]]
}

@test "an option file: what it says counts, never weakens, and means TLS or nothing" {
    tls_server_shows foreign
    file=$BATS_TEST_TMPDIR/my.cnf
    try() { # OPTIONS...
        run "$ROWLOCK" --defaults-file="$file" -D "$TEST_SCHEMA" "$@" ls
    }
    head="[client]
user=tls
password=Geheim#1
host=127.0.0.1
port=$PORT"
    (umask 077 && printf '%s\nssl-ca=%s\n' "$head" "$CERTIFICATES/wrong.pem" >"$file")
    try
    [ "$status" -eq 0 ]
    # The options win over the file, either way round.
    try --tls-ca=right.pem
    [ "$status" -eq 69 ]
    printf '%s\nssl-ca=%s\n' "$head" "$CERTIFICATES/right.pem" >"$file"
    try
    [ "$status" -eq 69 ]
    try --tls-ca=wrong.pem
    [ "$status" -eq 0 ]
    # A file cannot take back what an option asks for.
    printf '%s\nssl-verify-server-cert=0\nssl-enforce=0\n' "$head" >"$file"
    try --tls-ca=right.pem
    [ "$status" -eq 69 ]
    tls_server_shows elsewhere
    try --tls-ca=right.pem
    [ "$status" -eq 69 ]
    try --tls=verify-ca --tls-ca=right.pem
    [ "$status" -eq 0 ]
    # Off is off, whatever the file says.
    printf '%s\nssl-ca=%s\n' "${head/user=tls/user=plain}" "$CERTIFICATES/wrong.pem" >"$file"
    try
    [ "$status" -eq 69 ]
    run "$ROWLOCK" --defaults-file="$file" -D "$TEST_SCHEMA" --tls=off ls
    # MySQL knows the login from before, or it would want TLS.
    [ "$status" -eq 0 ]
}

@test "over the unix socket: plain, or TLS where it is asked for; there is no name to verify" {
    tls_server_shows server
    rl ls
    rl --tls=required ls
    rl --tls=verify-ca --tls-ca=right.pem ls
    run rl --tls-ca=right.pem ls
    [ "$status" -eq 64 ]
    [[ ${lines[0]} == *'unix socket'* ]]
    tls_server_shows foreign
    run rl --tls=verify-ca --tls-ca=right.pem ls
    [ "$status" -eq 69 ]
}

@test "combinations that make no sense: 64, why, and nobody is asked" {
    refused() { # PATTERN OPTIONS...
        local pattern=$1
        shift
        run "$ROWLOCK" --no-defaults -h 127.0.0.1 -P 1 "$@" ls
        echo "$output"
        [ "$status" -eq 64 ]
        # shellcheck disable=SC2254 # a pattern
        case ${lines[0]} in $pattern) ;; *) return 1 ;; esac
    }
    refused '*TLS is off, but*' --tls=off --tls-ca=right.pem
    refused '*TLS is off, but*' --tls=off --tls-fingerprint=0123456789012345678901234567890123456789
    refused '*only preferred*' --tls=preferred --tls-ca=right.pem
    refused '*looks at no certificate*' --tls=required --tls-ca=right.pem
    refused '*verify-ca needs a CA*' --tls=verify-ca
    refused '*no certificate for it*' --tls-ca=right.pem --tls-key=client.key
    refused '*revoked*not the CA*' --tls-crl=crl.pem --tls=verify-identity
    refused '*fingerprint is not the SHA-1*' --tls-fingerprint=0123
    refused '*fingerprint is not the SHA-1*' --tls-fingerprint=01:23:45:67:89:01:23:45:67:89:01:23:45:67:89:01:23:45:67:8
    refused '*fingerprint is not the SHA-1*' --tls-fingerprint="$(openssl x509 -in server.pem -noout -fingerprint -sha256 | sed 's/.*=//')"
    refused "*CA file 'none.pem' cannot be read*" --tls-ca=none.pem
    refused "*key 'none.key' cannot be read*" --tls-ca=right.pem --tls-cert=client.pem --tls-key=none.key
    refused "*--tls wants off*" --tls=yes
    refused "*the URL's tls is neither off*" --url='mysql://h?tls=yes'
    refused '*unknown option*' --url='mysql://h?ssl-mode=DISABLED'
}

@test "every command works over TLS, and a lock outlives the server's restart" {
    tls_server_shows server
    tls=(--tls-ca="$CERTIFICATES/right.pem")
    cd "$BATS_TEST_TMPDIR"
    rl_tls() {
        "$ROWLOCK" --defaults-file="$TEST_DIR/password.cnf" -u tls -h 127.0.0.1 -P "$PORT" -D "$TEST_SCHEMA" "${tls[@]}" "$@"
    }
    for mode in lease pessimistic; do
        rl_tls run --mode=$mode "over-$mode" -- sh -c "touch began-$mode; while [ ! -e end-$mode ]; do sleep 0.05; done" &
        pid=$!
        poll 20 test -e began-$mode
        rl_tls ls | grep -q "over-$mode"
        run rl_tls run -n --mode=$mode "over-$mode" -- true
        [ "$status" -eq 1 ]
        rl_tls run -w 30s --mode=$mode "over-$mode" -- touch second-$mode &
        second=$!
        touch end-$mode
        wait "$pid"
        wait "$second"
        [ -e second-$mode ]
    done
    rl_tls doctor | grep -q 'fine *server '
    rl_tls doctor | grep -q "fine *tls .*TLS.*the server's certificate is verified"
    tls=(--tls=required)
    rl_tls doctor | grep -q "note *tls .*the server's certificate is not verified"
    tls=(--tls-ca="$CERTIFICATES/right.pem")
    rl_tls sweep
    rl_tls history over-lease | grep -q released
    rl_tls run --ttl=60s over-restart -- sh -c 'touch held; while [ ! -e end ]; do sleep 0.05; done' &
    pid=$!
    poll 20 test -e held
    "$ROWLOCK_TOOLS/server" kill "$OWN/server"
    "$ROWLOCK_TOOLS/server" restart "$OWN/server" >/dev/null
    touch end
    wait "$pid"
    poll 20 state_is over-restart free
}

# The last one: the server has no TLS from here on.
@test "a server without TLS: required and more keep out, and no login is sent" {
    if tls_server_is_mysql; then
        tls_server_options --tls-version=
    else
        tls_server_options --skip-ssl
    fi
    if tls_server_is_mysql; then
        # caching_sha2_password by the server's public key: Connector/C 3.3 and MySQL 9.7 do not agree.
        keeps_out 77 '*Access denied*requires TLS*' plain 127.0.0.1
    else
        lets_in plain 127.0.0.1
        lets_in plain 127.0.0.1 --tls=preferred
        lets_in plain 127.0.0.1 --tls=off
    fi
    for options in --tls=required --tls=verify-identity --tls-ca=right.pem '--tls=verify-ca --tls-ca=right.pem' \
        --tls-fingerprint=0123456789012345678901234567890123456789; do
        # shellcheck disable=SC2086 # several
        keeps_out 69 'rowlock: the server offers no TLS*no login was sent' plain 127.0.0.1 $options
    done
    keeps_out 77 '*Access denied*requires TLS*' tls 127.0.0.1
    (umask 077 && printf '[client]\nuser=plain\npassword=Geheim#1\nhost=127.0.0.1\nport=%s\nssl-ca=%s\n' \
        "$PORT" "$CERTIFICATES/right.pem" >"$BATS_TEST_TMPDIR/my.cnf")
    run "$ROWLOCK" --defaults-file="$BATS_TEST_TMPDIR/my.cnf" -D "$TEST_SCHEMA" ls
    [ "$status" -eq 69 ]
    [[ $output == *'offers no TLS'* ]]
}
