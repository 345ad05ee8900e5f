# tests/udf/helpers.bash - a server of the file's own that loads functions from a folder of the
# file's own. From outside: ROWLOCK_TOOLS; ROWLOCK_FLAVOUR, where set.
#
#     setup_file() { udf_setup_file FILE.so...; }
#     teardown_file() { udf_teardown_file; }

bats_require_minimum_version 1.5.0
export BATS_VERBOSE_RUN=yes

# udf_setup_file FILE...: they are copied to where the server loads from. The server's user must
# be able to read that folder, and nobody else to write to it.
udf_setup_file() {
    : "${ROWLOCK_TOOLS:?set ROWLOCK_TOOLS to the folder tools of the tree}"
    unset ROWLOCK_URL MYSQL_PWD
    export HOME="$BATS_FILE_TMPDIR" LC_ALL=C.UTF-8
    export SERVER_DIR="$BATS_FILE_TMPDIR/server" PLUGINS
    PLUGINS=$(plugin_folder)
    install -m 644 "$@" "$PLUGINS"
    SOCKET=$("$ROWLOCK_TOOLS/server" start "$SERVER_DIR" -- --plugin-dir="$PLUGINS")
    export SOCKET
    sql_any 'CREATE DATABASE udf'
}

udf_teardown_file() {
    "$ROWLOCK_TOOLS/server" remove "$SERVER_DIR"
    [ -z "${PLUGINS:-}" ] || rm -rf "$PLUGINS"
}

plugin_folder() (
    . "$ROWLOCK_TOOLS/lib.sh"
    user=''
    [ "$(id -u)" -ne 0 ] || user=$(unprivileged_user)
    for base in "${TMPDIR:-/tmp}" /tmp /var/tmp; do
        if [ -w "$base" ] && reachable "$user" "$base"; then
            folder=$(mktemp -d "$base/rowlock-plugins.XXXXXX")
            chmod 755 "$folder"
            printf '%s\n' "$folder"
            return 0
        fi
    done
    die "no folder that the server's user can reach"
)

# The client, with whatever options; the result without headers, tabs between columns.
client() {
    mariadb --no-defaults -S "$SOCKET" -u root --default-character-set=utf8mb4 -N -B "$@"
}
sql_any() {
    client -e "$*"
}
sql() {
    client udf -e "$*"
}

# yields EXPECTED STATEMENT
yields() {
    local got
    got=$(sql "$2")
    [ "$got" = "$1" ] || { printf 'not so: %s\n  wanted %s\n  got    %s\n' "$2" "$1" "$got"; false; }
}

# all_yield TEMPLATE: on stdin a case on each line, RESULT|ARGUMENTS. TEMPLATE has @ where the
# arguments go; a statement's columns are separated by tabs in the result. One client for all.
all_yield() {
    cat >"$BATS_TEST_TMPDIR/cases"
    awk -v template="$1" '{
        sub(/^[^|]*\|/, "")
        n = split(template, part, "@")
        line = part[1]
        for (i = 2; i <= n; i++)
            line = line $0 part[i]
        print line ";"
    }' "$BATS_TEST_TMPDIR/cases" >"$BATS_TEST_TMPDIR/statements"
    client udf <"$BATS_TEST_TMPDIR/statements" | paste -d '|' - <(cut -d '|' -f 2- "$BATS_TEST_TMPDIR/cases") |
        diff "$BATS_TEST_TMPDIR/cases" -
}

# fails_with PATTERN STATEMENT: a bash pattern for the message.
fails_with() {
    local got
    if got=$(sql "$2" 2>&1); then
        echo "did not fail: $2"
        return 1
    fi
    # shellcheck disable=SC2053 # a pattern
    [[ $got == $1 ]] || { printf 'not so: %s\n  wanted %s\n  got    %s\n' "$2" "$1" "$got"; false; }
}

server_pid() {
    "$ROWLOCK_TOOLS/server" pid "$SERVER_DIR"
}

# poll COMMAND...: until it succeeds. The limit is for what never comes, not for what comes late.
# shellcheck disable=SC2264 # that of lib.sh, which is read in it
poll() (
    . "$ROWLOCK_TOOLS/lib.sh"
    poll 90 "$@" || {
        echo "never: $*"
        exit 1
    }
)

# running LIKE: a session is at such a statement.
running() {
    [ "$(sql_any "SELECT COUNT(*) FROM information_schema.processlist WHERE info LIKE '$1'")" -gt 0 ]
}

# mariadb or mysql
kind() {
    [[ $(sql_any 'SELECT VERSION()') == *MariaDB* ]] && echo mariadb || echo mysql
}

# A named lock that holds others up from the one to the other.
gate_shut() {
    sql_any "DO GET_LOCK('gate', 0); DO SLEEP(300)" 2>/dev/null &
    poll running 'DO SLEEP%'
}
gate_open() {
    sql_any "KILL CONNECTION $(sql_any "SELECT IS_USED_LOCK('gate')")"
}

# mapped FILE: the server has it loaded.
mapped() {
    grep -qF "/$1" "/proc/$(server_pid)/maps"
}

not_mapped() {
    ! mapped "$1"
}

# The server's memory, in kilobytes.
resident() {
    awk '/^VmRSS:/ { print $2 }' "/proc/$(server_pid)/status"
}

# The second least that one of five runs of a command adds to the server's memory, in kilobytes.
# What is forgotten in each call is added by each run, but for one that fits in a hole of the heap.
# What the server fills once (its pages, its caches, the records of its threads) is not added by
# each: MySQL 9.7 adds some 3 MB in one run and nothing in the next.
keeps() { # COMMAND...
    local before after
    for _ in 1 2 3 4 5; do
        before=$(resident)
        "$@" >/dev/null
        after=$(resident)
        echo "resident: $before kB, then $after kB" >&2
        echo $((after - before))
    done | sort -n | sed -n 2p
}

# What a crash, or a library that prints, leaves behind.
log_is_clean() {
    if grep -iE 'got signal|got exception|\[ERROR\]|assert|corrupt' "$SERVER_DIR/error.log"; then
        return 1
    fi
}
