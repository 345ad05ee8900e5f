# For the tests of tools/server: $SERVER, each test's folder $DIR, another one $OTHER, and ask.

bats_require_minimum_version 1.5.0
export BATS_VERBOSE_RUN=yes

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
