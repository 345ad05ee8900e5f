#!/usr/bin/env bats
# How the command connects: trying again while there is no server, and the options that users of the mysql client know.

load helpers
load run_helpers

# without_server ARGUMENT...: the command, with a socket that has no server.
without_server() {
    "$ROWLOCK" --no-defaults -S "$D/no.sock" -u root "$@"
}

# refused PATTERN COMMAND...: it is wrong usage, and the first line says what is wrong.
refused() {
    run -64 --separate-stderr "${@:2}"
    [ -z "$output" ]
    # shellcheck disable=SC2053 # a pattern
    [[ "${stderr_lines[0]}" == $1 ]]
}

# in_background NAME COMMAND...: its output is in $D/NAME.out and $D/NAME.err, its pid in ${PIDS[NAME]}.
declare -gA PIDS=()
in_background() {
    local name=$1
    shift
    rm -f "$D/$name.err" # that of the one before is not looked at
    (exec env --default-signal=INT,QUIT,HUP "$@") >"$D/$name.out" 2>"$D/$name.err" </dev/null 3>&- &
    PIDS[$name]=$!
}

tries_again() {
    grep -q "trying again" "$D/$1.err"
}

@test "--retry without a server: 69 when the time is over; the first line says how long it was tried" {
    for command in "run job -- touch ran" ls init doctor sweep history "show job"; do
        before=$(now_ms)
        run --separate-stderr without_server --retry=1200ms $command
        echo "$command: exit $status: $stderr"
        within 15000 "$before"
        [ $(($(now_ms) - before)) -ge 1200 ]
        [ "$status" -eq 69 ]
        [ "${#stderr_lines[@]}" -eq 1 ]
        [[ "$stderr" =~ ^"rowlock: gave up after "[0-9]+\.[0-9]" s (attempts: "([0-9]+)"): cannot connect as 'root' to the socket ".*no\.sock ]]
        # On a machine that stood still there may be no time for a second attempt.
        [ "${BASH_REMATCH[1]}" -ge 2 ] || [ "$(stood_since "$before")" -ge 500 ]
        [ ! -e ran ]
    done
}

@test "without --retry, and with --retry=0, one attempt" {
    for options in "" --retry=0; do
        run -69 --separate-stderr without_server $options ls
        [[ "$stderr" == "rowlock: cannot connect as 'root' to the socket $D/no.sock: "* ]]
    done
    # An option wins over the URL.
    run -69 --separate-stderr without_server --url="mysql://?retry=1h" ls --retry=0
    [[ "$stderr" == "rowlock: cannot connect as 'root' to the socket $D/no.sock: "* ]]
}

@test "--retry: a server that comes up meanwhile gets the job, whatever the command" {
    own=("$ROWLOCK" --no-defaults -S "$(own_server start --fresh)" -u root)
    "${own[@]}" init -q
    own_server stop
    in_background run "${own[@]}" -v --retry=5m run -w 10 job -- touch "$D/ran"
    in_background ls "${own[@]}" -v ls --retry=5m
    in_background sweep env ROWLOCK_URL='mysql://?retry=300s' "${own[@]}" -v sweep
    in_background init "${own[@]}" --retry=5m init
    in_background doctor "${own[@]}" --retry=5m doctor
    for name in run ls sweep; do
        poll tries_again $name
    done
    for name in "${!PIDS[@]}"; do
        is_alive "${PIDS[$name]}"
    done
    own_server restart >/dev/null
    for name in "${!PIDS[@]}"; do
        poll is_dead "${PIDS[$name]}"
        status=0
        wait "${PIDS[$name]}" || status=$?
        echo "$name: exit $status; $(cat "$D/$name.err")"
        [ "$status" -eq 0 ]
    done
    [ -e ran ]
    grep -q "^rowlock: connected after .* s (attempts: " run.err
    own_server remove
}

@test "--retry: what waiting does not mend is answered at once" {
    before=$(now_ms)
    for wrong in "77 -u nobody_here --password=x" "78 -D no_such_schema" "64 -D no;schema" "64 --tls=off --tls-ca=none.pem"; do
        run --separate-stderr "$ROWLOCK" --no-defaults -S "$ROWLOCK_TEST_SOCKET" -u root --retry=5m ${wrong#* } ls
        echo "$wrong: exit $status: $stderr"
        [ "$status" -eq "${wrong%% *}" ]
        [[ "$stderr" != *"gave up"* ]]
    done
    within 60000 "$before"
}

@test "--retry: a signal ends it, promptly" {
    nowhere=("$ROWLOCK" --no-defaults -S "$D/no.sock" -u root)
    for number in 2 15; do
        in_background run "${nowhere[@]}" -v run --retry=5m "$L" -- touch ran
        in_background ls "${nowhere[@]}" -v ls --retry=5m
        in_background migrate "${nowhere[@]}" -v migrate --retry=5m --into=x "$D"
        in_background sweep "${nowhere[@]}" sweep --every=100ms --retry=5m
        for name in "${!PIDS[@]}"; do
            poll tries_again "$name"
        done
        before=$(now_ms)
        for name in "${!PIDS[@]}"; do
            kill -$number "${PIDS[$name]}"
        done
        for name in "${!PIDS[@]}"; do
            poll is_dead "${PIDS[$name]}"
            status=0
            wait "${PIDS[$name]}" || status=$?
            echo "$name: exit $status; $(cat "$D/$name.err")"
            # The signal asks a sweep to end: it ends with 0.
            [ "$name" != sweep ] || { [ "$status" -eq 0 ] && continue; }
            [ "$status" -eq $((128 + number)) ]
        done
        within 8000 "$before"
        [ ! -e ran ]
    done
}

# says PATTERN STATUS COMMAND...: it has that exit status, and that first line on stderr.
says() {
    run "-$2" --separate-stderr "${@:3}"
    # shellcheck disable=SC2053 # a pattern
    [[ "${stderr_lines[0]-}" == $1 ]]
}

# no_socket FILE: the pattern of a message that names it.
no_socket() {
    printf "*to the socket %s: no server listens there (No such file or directory)*" "$1"
}

@test "options of the mysql client that have no equal are refused by name, with what to use instead" {
    man=$BATS_TEST_DIRNAME/../../docs/man/rowlock.1
    for option in login-path no-login-paths defaults-group-suffix ssl-capath ssl-crlpath ssl-cipher ssl-fplist \
        tls-version tls-ciphersuites ssl-fips-mode ssl-session-data get-server-public-key server-public-key-path \
        plugin-dir bind-address default-auth init-command print-defaults compress default-character-set; do
        refused "rowlock: --$option is not supported: *" rl ls --"$option"=SeCret
        [[ "$stderr" != *SeCret* ]]
        refused "rowlock: --$option is not supported: *" "$ROWLOCK" --"$option" SeCret ls
        grep -qx -- ".It Fl -$option" "$man" || { echo "--$option: not in rowlock.1"; false; }
    done
    refused "*.mylogin.cnf*--defaults-extra-file*--url*" rl ls --login-path=client
    refused "*--defaults-extra-file*" rl ls --defaults-group-suffix=_app
    for option in ssl-capath ssl-cipher ssl-crlpath ssl-fplist tls-version; do
        refused "*$option=... into an option file*" rl ls --$option=x
    done
    # The file's settings are used, too.
    printf '[client]\nssl-cipher=ECDHE-RSA-AES256-GCM-SHA384\n' >cipher.cnf
    says "rowlock: the server offers no TLS, and the TLS mode is required*" 69 rl --defaults-extra-file=cipher.cnf ls
    refused "rowlock: unknown option --ssl-nonsense" rl ls --ssl-nonsense
}

# On a server without TLS, and over its unix socket, the answers show which TLS mode was asked for.
@test "--ssl and the like: the TLS mode that each means" {
    has_no_tls=$(sql_any "SELECT @@have_ssl <> 'YES'")
    [ "$has_no_tls" = 1 ] || skip "the server has TLS"
    touch ca.pem
    for off in --ssl-mode=DISABLED --ssl-mode=disabled --skip-ssl --disable-ssl --ssl=0 --ssl=OFF --ssl=false "--ssl --skip-ssl"; do
        rl ls $off
        says "*TLS is off, but a CA*" 64 rl ls --ssl-ca=ca.pem $off
    done
    rl ls --ssl-mode=PREFERRED
    rl ls --ssl-verify-server-cert=0
    rl ls --skip-ssl-verify-server-cert
    rl ls --disable-ssl-verify-server-cert
    for required in --ssl-mode=REQUIRED --ssl --ssl=1 --ssl=on "--skip-ssl --ssl" "--ssl --ssl-verify-server-cert=0" \
        --ssl-fp=0123456789012345678901234567890123456789; do
        says "*offers no TLS, and the TLS mode is required*" 69 rl ls $required
    done
    for ca in --ssl-mode=VERIFY_CA "--ssl-verify-server-cert --skip-ssl-verify-server-cert" --ssl-verify-server-cert=0; do
        says "*offers no TLS, and the TLS mode is verify-ca*" 69 rl ls --ssl-ca=ca.pem $ca
    done
    for identity in --ssl-mode=VERIFY_IDENTITY --ssl-verify-server-cert --ssl-verify-server-cert=1 --ssl-ca=ca.pem \
        "--ssl --ssl-ca=ca.pem" "--ssl-ca=ca.pem --ssl" "--ssl --ssl-verify-server-cert"; do
        says "*the TLS mode verify-identity checks a host's name*" 64 rl ls $identity
    done
    # --tls and --ssl-mode win over the switches.
    rl ls --ssl-mode=DISABLED --ssl
    rl ls --ssl-verify-server-cert --tls=off
    refused "rowlock: --ssl takes no value, or 0 or 1, not 'yes'" rl ls --ssl=yes
    refused "rowlock: --ssl-mode wants DISABLED,*not 'TRUE'" rl ls --ssl-mode=TRUE
}

@test "--protocol: localhost over TCP, or by the unix socket whatever an option file says" {
    socket=$(own_server start --fresh --tcp)
    port=$(own_server port)
    mariadb --no-defaults -S "$socket" -u root -e "CREATE USER app@localhost; CREATE USER app@'127.0.0.1';
        GRANT ALL ON rowlock.* TO app@localhost; GRANT ALL ON rowlock.* TO app@'127.0.0.1'"
    "$ROWLOCK" --no-defaults -S "$socket" -u root init -q
    # Only one of socket and port leads to a server.
    by_tcp=("$ROWLOCK" --no-defaults -S "$D/no.sock" -P "$port" -u app)
    by_socket=("$ROWLOCK" -S "$socket" -P 1 -u app)
    "${by_tcp[@]}" ls --protocol=tcp
    "${by_tcp[@]}" --protocol TCP -h localhost run job -- touch ran
    [ -e ran ]
    "${by_tcp[@]}" --url="mysql://?protocol=tcp" ls
    says "$(no_socket "$D/no.sock")" 69 "${by_tcp[@]}" ls
    says "$(no_socket "$D/no.sock")" 69 "${by_tcp[@]}" ls --protocol=socket
    says "$(no_socket "$D/no.sock")" 69 "${by_tcp[@]}" --url="mysql://?protocol=tcp" ls --protocol=SOCKET
    printf '[client]\nprotocol=1\n' >tcp.cnf # its number: Connector/C takes no word there
    "${by_socket[@]}" --defaults-file=tcp.cnf --protocol=socket ls
    says "*cannot connect*" 69 "${by_socket[@]}" --defaults-file=tcp.cnf ls
    says "*the protocol is socket, but the host is '127.0.0.1'*" 64 "${by_socket[@]}" --no-defaults -h 127.0.0.1 ls --protocol=socket
    for protocol in pipe memory "" tcpip; do
        refused "rowlock: --protocol wants tcp or socket, not '$protocol'" "${by_tcp[@]}" ls --protocol=$protocol
    done
    own_server remove
}

@test "--defaults-extra-file: read after the others, and wins; an option wins over it" {
    printf '[client]\nsocket=%s/no.sock\nuser=nobody_here\n' "$D" >usual.cnf
    printf '[rowlock]\nsocket=%s\n[client]\nuser=root\n[mysql]\nuser=nobody_here\n' "$ROWLOCK_TEST_SOCKET" >extra.cnf
    mkdir home
    cp usual.cnf home/.my.cnf
    HOME=$D/home says "$(no_socket "$D/no.sock")" 69 "$ROWLOCK" -D "$TEST_SCHEMA" ls
    HOME=$D/home "$ROWLOCK" -D "$TEST_SCHEMA" ls --defaults-extra-file=extra.cnf
    HOME=$D/home "$ROWLOCK" -D "$TEST_SCHEMA" --defaults-extra-file extra.cnf run "$L" -- touch ran
    [ -e ran ]
    "$ROWLOCK" -D "$TEST_SCHEMA" --defaults-extra-file=extra.cnf --defaults-file=usual.cnf ls
    says "$(no_socket "$D/no.sock")" 69 "$ROWLOCK" --defaults-extra-file=usual.cnf --defaults-file=extra.cnf ls
    "$ROWLOCK" -D "$TEST_SCHEMA" --no-defaults --defaults-extra-file=extra.cnf ls
    refused "rowlock: cannot read the option file 'missing.cnf': No such file*" rl ls --defaults-extra-file=missing.cnf
}

@test "an option file's password goes to no server that a URL names; a group of the host's name, the URL, -h" {
    new_user far "SELECT ON \`$TEST_SCHEMA\`.*"
    user=$(user_of far)
    sql_any "ALTER USER '$user'@'localhost' IDENTIFIED BY 'Se\"Cr et#1'"
    at="localhost/$TEST_SCHEMA?socket=$ROWLOCK_TEST_SOCKET"
    cnf() { # GROUP PASSWORD: an option file
        printf '[client]\nuser=%s\n%s\n[%s]\n# password=none\npassword = %s\n[other]\npassword=no\n' "$user" "${3:-}" "$1" "$2" >login.cnf
    }
    ls_by() { "$ROWLOCK" --defaults-file=login.cnf "$@" ls -a; }
    cnf client '"Se\"Cr et#1"'
    fails 77 "cannot connect as '$user' to the socket $ROWLOCK_TEST_SOCKET: *using password: NO*a group of the host's name*" \
        ls_by --url="mysql://$user@$at"
    # Without a user in either: the login's own name.
    run --separate-stderr ls_by --url="mysql://$at"
    [ "$status" -eq 0 ] || [[ "$stderr" == *"as '$(id -un)' to "* ]]
    # If the URL names no host, or an option does, the rules are those of the mysql client.
    works ls_by --url="mysql:///$TEST_SCHEMA?socket=$ROWLOCK_TEST_SOCKET"
    works ls_by --url="mysql://elsewhere/$TEST_SCHEMA?socket=$ROWLOCK_TEST_SOCKET" -h localhost
    works ls_by --url="mysql://$at" -u "$user" --password='Se"Cr et#1'
    MYSQL_PWD='Se"Cr et#1' works ls_by --url="mysql://$user@$at"
    works ls_by --url="mysql://$user:Se%22Cr%20et%231@$at"
    # A group with the host's name sets both; the file's other groups do not count.
    cnf localhost "Se\\\"Cr\\set#1" "password=wrong"
    works ls_by --url="mysql://$user@$at"
    printf 'user=%s\n' "$user" >>login.cnf
    sed -i '/^\[other\]/,$d' login.cnf
    printf 'user=%s\n' "$user" >>login.cnf
    works ls_by --url="mysql://$at"
    fails 77 "*" ls_by --url="mysql://127.0.0.2@$at"
    cp login.cnf "$D/.my.cnf"
    HOME="$D" works "$ROWLOCK" --url="mysql://$at" ls -a
}

@test "errors of connecting name user, host and port, or the socket; an option file that cannot be read is said; 1130 is DENIED" {
    fails 69 "cannot connect as 'batch' to 127.0.0.1, port 1: no server answers there; start the server, or say*" \
        "$ROWLOCK" --no-defaults -h 127.0.0.1 -P 1 -u batch ls
    fails 77 "cannot connect as *Access denied*error 1045); the user or the password is wrong, or the account is for other hosts" \
        "$ROWLOCK" --no-defaults -S "$ROWLOCK_TEST_SOCKET" -u nobody_here --password=x ls
    fails 77 "cannot connect as *using password: NO*; -p asks for a password" \
        "$ROWLOCK" --no-defaults -S "$ROWLOCK_TEST_SOCKET" -u nobody_here ls
    new_user locked "SELECT ON \`$TEST_SCHEMA\`.*"
    sql_any "ALTER USER '$(user_of locked)'@'localhost' ACCOUNT LOCK"
    fails 77 "cannot connect as *locked*" rl_as locked ls
    fails 69 "cannot connect as '$(id -un)' to the socket $D/none: no server listens there (No such file or directory); start the server, or say where one is (-S, -h, ROWLOCK_URL: 'rowlock help connection')" \
        "$ROWLOCK" --no-defaults -S "$D/none" ls
    printf '[client]\nhost=127.0.0.1\nport=1\nuser=of_a_file\n' >there.cnf
    fails 69 "cannot connect as 'of_a_file' to 127.0.0.1, port 1: *" "$ROWLOCK" --defaults-file=there.cnf ls
    # (Root can read every file: here it is a link to itself.)
    mkdir home
    ln -s .my.cnf home/.my.cnf
    HOME="$D/home" fails 69 "cannot connect as *; the option file $D/home/.my.cnf cannot be read (*)" "$ROWLOCK" -S "$D/none" ls
    # A client that may not connect from this host is told before it sends a user's name.
    python3 -c '
import socket
s = socket.socket(); s.bind(("127.0.0.1", 0)); s.listen()
print(s.getsockname()[1], flush=True)
text = b"\xff" + (1130).to_bytes(2, "little") + b"Host \x27far\x27 is not allowed to connect to this MariaDB server"
while True:
    c, _ = s.accept()
    c.sendall(len(text).to_bytes(3, "little") + b"\x00" + text); c.close()' >port 3>&- &
    server=$!
    poll test -s port
    run -77 --separate-stderr "$ROWLOCK" --no-defaults -h 127.0.0.1 -P "$(cat port)" -u batch ls
    kill $server
    [[ "$stderr" == "rowlock: cannot connect as 'batch' to 127.0.0.1, port $(cat port): "*"Host 'far' is not allowed"*"(error 1130)" ]]
}
