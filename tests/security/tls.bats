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

# rl_as USER ARGUMENTS...: the command over TCP.
rl_as() {
    "$ROWLOCK" --defaults-file="$TEST_DIR/password.cnf" -u "$1" -h 127.0.0.1 -P "$PORT" -D "$TEST_SCHEMA" \
        --connect-timeout=20s "${@:2}"
}

# as USER OPTIONS...: `run`s a command.
as() {
    run rl_as "$@" run -n name -- sh -c 'echo in'
}

# gives STATUS PATTERN COMMAND...: the exit status, and what the first line is like.
gives() {
    local wanted=$1 pattern=$2
    run "${@:3}"
    echo "${*:3} -> $status: $output"
    # shellcheck disable=SC2254 # a pattern
    case $status:${lines[0]} in $wanted:$pattern) ;; *) return 1 ;; esac
}

# lets_in USER OPTIONS...
lets_in() {
    as "$@"
    echo "$* -> $status: $output"
    [[ $status -eq 0 && $output == in ]]
}

# keeps_out STATUS PATTERN USER OPTIONS...
keeps_out() {
    gives "$1" "$2" rl_as "${@:3}" run -n name -- sh -c 'echo in'
    [[ ${#lines[@]} -eq 1 && $output != *Geheim* ]]
}

@test "the right certificate: every mode lets in; who requires TLS is let in by all but off" {
    tls_server_shows server
    for options in '' --tls=preferred --tls=required '--tls=verify-ca --tls-ca=right.pem' \
        '--tls=verify-identity --tls-ca=right.pem' --tls-ca=right.pem --ssl '--ssl --ssl-ca=right.pem' \
        '--ssl-mode=VERIFY_IDENTITY --ssl-ca=right.pem' '--ssl-verify-server-cert --ssl-ca=right.pem' \
        '--url=mysql://?tls=verify-identity&tls-ca=right.pem'; do
        # shellcheck disable=SC2086 # several
        lets_in tls $options
    done
    for options in --skip-ssl --tls=off; do
        keeps_out 77 '*Access denied*the account requires TLS*' tls $options
    done
    rl_as tls --tls-ca=right.pem doctor | grep -q "^fine *tls .*TLS.*the server's certificate is verified"
    rl_as tls --tls=required doctor | grep -q "^note *tls .*the server's certificate is not verified"
}

@test "a fingerprint: that very certificate, with and without colons" {
    tls_server_shows server
    right=$(openssl x509 -in server.pem -noout -fingerprint -sha1 | sed 's/.*=//')
    other=$(openssl x509 -in elsewhere.pem -noout -fingerprint -sha1 | sed 's/.*=//')
    lets_in tls --tls-fingerprint="$right"
    lets_in tls --tls-fingerprint="${right//:/}" --tls-ca=right.pem
    keeps_out 69 'rowlock: *another fingerprint*' tls --tls-fingerprint="$other"
    keeps_out 69 'rowlock: *another fingerprint*' tls --tls-fingerprint="$other" --tls-ca=right.pem
}

@test "of another CA: only who does not look is let in" {
    tls_server_shows foreign
    lets_in tls
    lets_in tls --tls=required
    for mode in verify-ca verify-identity; do
        keeps_out 69 "rowlock: no TLS connection to the server could be made: *certificate*(the CA file is 'right.pem')" tls --tls=$mode --tls-ca=right.pem
        lets_in tls --tls=$mode --tls-ca=wrong.pem
    done
    printf 'no certificate\n' >"$BATS_TEST_TMPDIR/none.pem"
    keeps_out 69 "rowlock: no TLS connection *(the CA file is '$BATS_TEST_TMPDIR/none.pem')" tls --tls-ca="$BATS_TEST_TMPDIR/none.pem"
    # Without a CA file: the system's.
    keeps_out 69 'rowlock: no TLS connection to the server could be made: *certificate*no CA file*' tls --tls=verify-identity
}

@test "for another host: verify-ca does not mind, verify-identity does" {
    tls_server_shows elsewhere
    lets_in tls --tls=verify-ca --tls-ca=right.pem
    keeps_out 69 "rowlock: *certificate is not for the host '127.0.0.1'*verify-ca*" tls --tls-ca=right.pem
    keeps_out 69 "rowlock: *certificate is not for the host '127.0.0.1'*verify-ca*" tls --ssl-verify-server-cert --ssl-ca=right.pem
    lets_in tls --skip-ssl-verify-server-cert --ssl-ca=right.pem
}

@test "expired: who looks at it does not go in" {
    tls_server_shows expired
    lets_in tls --tls=required
    keeps_out 69 'rowlock: *expired*' tls --tls=verify-ca --tls-ca=right.pem
    keeps_out 69 'rowlock: *expired*' tls --tls-ca=right.pem
}

@test "revoked: with the CA's list it does not go in" {
    tls_server_shows revoked
    lets_in tls --tls-ca=right.pem
    keeps_out 69 'rowlock: *revoked*' tls --tls-ca=right.pem --tls-crl=crl.pem
    tls_server_shows server
    lets_in tls --tls-ca=right.pem --tls-crl=crl.pem
}

@test "a client's certificate: asked for, and none, one of a stranger, the right one" {
    tls_server_shows server
    keeps_out 77 "*Access denied*requires a client's certificate*" x509 --tls-ca=right.pem
    keeps_out 77 '*Access denied*requires TLS*' x509 --tls=off
    lets_in x509 --tls-ca=right.pem --tls-cert=client.pem --tls-key=client.key
    cat client.pem client.key >both.pem
    lets_in x509 --tls-ca=right.pem --tls-cert=both.pem
    as x509 --tls-ca=right.pem --tls-cert=stranger.pem --tls-key=stranger.key
    [[ ($status -eq 69 || $status -eq 77) && ${#lines[@]} -eq 1 ]]
}

@test "a key that does not fit, or wants a passphrase: a line, and no question on the terminal" {
    tls_server_shows server
    keeps_out 69 'rowlock: no TLS connection *' tls --tls-ca=right.pem --tls-cert=client.pem --tls-key=stranger.key
    openssl ec -aes128 -in client.key -out locked.key -passout pass:secret 2>/dev/null
    keeps_out 69 'rowlock: no TLS connection *' tls --tls-ca=right.pem --tls-cert=client.pem --tls-key=locked.key
    run timeout 20 script -qec "'$ROWLOCK' --no-defaults -u tls -h 127.0.0.1 -P $PORT --tls-ca=right.pem --tls-cert=client.pem --tls-key=locked.key ls" /dev/null </dev/null
    [[ $output == *'no TLS connection'* ]]
    [[ $output != *phrase* ]]
}

@test "an option file: what it says counts, never weakens, and means TLS or nothing" {
    tls_server_shows foreign
    file=$BATS_TEST_TMPDIR/my.cnf
    try() { # STATUS OPTIONS...
        gives "$1" '*' "$ROWLOCK" --defaults-file="$file" -D "$TEST_SCHEMA" "${@:2}" ls
    }
    head="[client]
user=tls
password=Geheim#1
host=127.0.0.1
port=$PORT"
    (umask 077 && printf '%s\nssl-ca=%s\n' "$head" "$CERTIFICATES/wrong.pem" >"$file")
    try 0
    # The options win over the file, either way round.
    try 69 --tls-ca=right.pem
    printf '%s\nssl-ca=%s\n' "$head" "$CERTIFICATES/right.pem" >"$file"
    try 69
    try 0 --tls-ca=wrong.pem
    # A file cannot take back what an option asks for.
    printf '%s\nssl-verify-server-cert=0\nssl-enforce=0\n' "$head" >"$file"
    try 69 --tls-ca=right.pem
    tls_server_shows elsewhere
    try 69 --tls-ca=right.pem
    try 0 --tls=verify-ca --tls-ca=right.pem
    # Off is off, whatever the file says.
    printf '%s\nssl-ca=%s\n' "${head/user=tls/user=plain}" "$CERTIFICATES/wrong.pem" >"$file"
    try 69
    # (MySQL knows the login from before, or it would want TLS.)
    try 0 --tls=off
}

@test "over the unix socket: plain, or TLS where it is asked for; there is no name to verify" {
    tls_server_shows server
    rl ls
    rl --tls=required ls
    rl --tls=verify-ca --tls-ca=right.pem ls
    gives 64 '*unix socket*' rl --tls-ca=right.pem ls
    tls_server_shows foreign
    gives 69 '*' rl --tls=verify-ca --tls-ca=right.pem ls
}

@test "combinations that make no sense: 64, why, and nobody is asked" {
    refused() { # PATTERN OPTIONS...
        gives 64 "$1" "$ROWLOCK" --no-defaults -h 127.0.0.1 -P 1 "${@:2}" ls
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

# The last one: the server has no TLS from here on.
@test "a server without TLS: required and more keep out, and no login is sent" {
    if tls_server_is_mysql; then
        tls_server_options --tls-version=
        # caching_sha2_password by the server's public key: Connector/C 3.3 and MySQL 9.7 do not agree.
        keeps_out 77 '*Access denied*requires TLS*' plain
    else
        tls_server_options --skip-ssl
        lets_in plain
        lets_in plain --tls=preferred
        lets_in plain --tls=off
    fi
    for options in --tls=required --tls=verify-identity --tls-ca=right.pem '--tls=verify-ca --tls-ca=right.pem' \
        --tls-fingerprint=0123456789012345678901234567890123456789; do
        # shellcheck disable=SC2086 # several
        keeps_out 69 'rowlock: the server offers no TLS*no login was sent' plain $options
    done
    keeps_out 77 '*Access denied*requires TLS*' tls
    (umask 077 && printf '[client]\nuser=plain\npassword=Geheim#1\nhost=127.0.0.1\nport=%s\nssl-ca=%s\n' \
        "$PORT" "$CERTIFICATES/right.pem" >"$BATS_TEST_TMPDIR/my.cnf")
    gives 69 '*offers no TLS*' "$ROWLOCK" --defaults-file="$BATS_TEST_TMPDIR/my.cnf" -D "$TEST_SCHEMA" ls
}
