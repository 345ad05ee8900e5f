# shellcheck shell=bash
# tests/security/tls_server.bash - a server of a test's own with TLS on a port of 127.0.0.1, of the
# flavour ROWLOCK_FLAVOUR. Sets OWN (its folder), CERTIFICATES, PORT and ROWLOCK_TEST_SOCKET.
#
#   tls_server_start          77: such a server cannot be had here
#   tls_server_shows NAME     from now on it has this certificate (see `certificates`)
#   tls_server_options ...    restarts it with these options in place of those about TLS
#   tls_server_remove

tls_server_start() {
    local status=0 real
    export OWN PORT CERTIFICATES ROWLOCK_TEST_SOCKET
    OWN=$(mktemp -d "${TMPDIR:-/tmp}/rowlock-tls.XXXXXX")
    ROWLOCK_TEST_SOCKET=$("$ROWLOCK_TOOLS/server" start --tcp "$OWN/server") || status=$?
    if [ "$status" -ne 0 ]; then
        rm -rf "$OWN"
        return "$status"
    fi
    PORT=$("$ROWLOCK_TOOLS/server" port "$OWN/server")
    # Where the server's user can read it.
    real=$(dirname "$("$ROWLOCK_TOOLS/server" socket "$OWN/server")")
    CERTIFICATES=$real/certificates
    "$(dirname "${BASH_SOURCE[0]}")/certificates" "$CERTIFICATES"
    tls_server_copy server right
    chmod a+r "$CERTIFICATES"/shown*
    tls_server_options --ssl-ca="$CERTIFICATES/shown-ca.pem" --ssl-cert="$CERTIFICATES/shown.pem" \
        --ssl-key="$CERTIFICATES/shown.key"
}

tls_server_options() {
    "$ROWLOCK_TOOLS/server" restart "$OWN/server" -- "$@" >/dev/null
}

# MySQL refuses to reload a certificate that its own CA has not signed, or that is over; it starts
# with one that is over.
tls_server_shows() { # NAME
    local ca=right
    [ "$1" != foreign ] || ca=wrong
    tls_server_copy "$1" "$ca"
    if ! tls_server_is_mysql; then
        tls_sql 'FLUSH SSL'
    elif ! tls_sql 'ALTER INSTANCE RELOAD TLS' 2>/dev/null; then
        "$ROWLOCK_TOOLS/server" restart "$OWN/server" >/dev/null
    fi
}

tls_server_copy() { # NAME CA
    cat "$CERTIFICATES/$1.pem" >"$CERTIFICATES/shown.pem"
    cat "$CERTIFICATES/$1.key" >"$CERTIFICATES/shown.key"
    cat "$CERTIFICATES/$2.pem" >"$CERTIFICATES/shown-ca.pem"
}

tls_server_is_mysql() {
    [[ $("$ROWLOCK_TOOLS/server" flavour "$OWN/server") == mysql-* ]]
}

tls_server_remove() {
    "$ROWLOCK_TOOLS/server" remove "$OWN/server"
    rm -rf "$OWN"
}

tls_sql() {
    mariadb --no-defaults --socket="$ROWLOCK_TEST_SOCKET" -uroot -N -B -e "$*"
}
