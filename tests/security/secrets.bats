# Where a password could leak: arguments, environments of what is started, output and logs of every
# command, error texts, the tables, the server's process list and its log of statements.
load ../cli/helpers

PASSWORD='Geheim-4711'

setup_file() {
    setup_on_own_server --tcp
    PORT=$(own_server port)
    export PORT SEEN="$BATS_FILE_TMPDIR/seen"
    sql_any "CREATE USER secret@'%' IDENTIFIED BY 'Geheim-4711'; GRANT ALL ON \`$TEST_SCHEMA\`.* TO secret@'%'"
    sql_any "SET GLOBAL log_output = 'FILE'; SET GLOBAL general_log = ON"
    mkdir "$SEEN"
}

# Everything goes into files in $SEEN; the last test looks at them all.
keep() { # NAME COMMAND...
    local name=$1
    shift
    "$@" >>"$SEEN/$name" 2>&1 || true
}

over_url() {
    "$ROWLOCK" --no-defaults -vv --url="mysql://secret:$PASSWORD@127.0.0.1:$PORT/$TEST_SCHEMA" "$@"
}

over_environment() {
    MYSQL_PWD=$PASSWORD ROWLOCK_URL="mysql://secret:$PASSWORD@127.0.0.1:$PORT/$TEST_SCHEMA" "$ROWLOCK" --no-defaults -vv "$@"
}

@test "what a command is started with: no password in its environment, unless it is asked for" {
    for mode in lease pessimistic; do
        over_environment run --mode=$mode "environment $mode" -- sh -c 'env; tr "\0" "\n" <"/proc/$$/environ"; sh -c env' \
            >"$SEEN/environment-$mode" 2>&1
        grep -q "^ROWLOCK_URL=mysql://secret@127.0.0.1:$PORT/$TEST_SCHEMA\$" "$SEEN/environment-$mode"
        run ! grep -q '^MYSQL_PWD' "$SEEN/environment-$mode"
    done
    over_environment run --pass-password asked -- env >"$BATS_TEST_TMPDIR/asked"
    grep -q "^MYSQL_PWD=$PASSWORD\$" "$BATS_TEST_TMPDIR/asked"
    grep -q "^ROWLOCK_URL=mysql://secret:$PASSWORD@" "$BATS_TEST_TMPDIR/asked"
    # A user without a password, and one that holds a colon.
    ROWLOCK_URL="mysql://secret:a:b%40c@127.0.0.1:$PORT/$TEST_SCHEMA" keep url "$ROWLOCK" --no-defaults run -n x -- true
    ROWLOCK_URL="mysql://root@localhost/$TEST_SCHEMA?socket=$ROWLOCK_TEST_SOCKET" "$ROWLOCK" --no-defaults run y -- env |
        grep -q "^ROWLOCK_URL=mysql://root@localhost/$TEST_SCHEMA?socket="
}

@test "while it holds and waits: arguments, processes, the server's process list" {
    for mode in lease pessimistic; do
        over_url run --mode=$mode "held $mode" -- sh -c 'while [ ! -e "$1" ]; do sleep 0.2; done' sh "$BATS_TEST_TMPDIR/go" \
            2>>"$SEEN/log" &
        holder=$!
        poll state_is "held $mode" held
        over_url run -w 60s --mode=$mode "held $mode" -- true 2>>"$SEEN/waiting" &
        waiter=$!
        # Past its start, in which it takes the URL out of its arguments. (Of the connections, the holder makes one
        # more, for its history.)
        poll grep -qF "waiting for held $mode" "$SEEN/waiting"
        for look in 1 2 3; do
            ps -eo args >>"$SEEN/ps"
            ps -eo args --ppid "$holder" >>"$SEEN/ps"
            tr '\0' ' ' <"/proc/$holder/cmdline" >>"$SEEN/ps"
            tr '\0' ' ' <"/proc/$waiter/cmdline" >>"$SEEN/ps"
            sql_any 'SHOW FULL PROCESSLIST' >>"$SEEN/processlist"
        done
        touch "$BATS_TEST_TMPDIR/go"
        wait "$holder"
        wait "$waiter"
        rm "$BATS_TEST_TMPDIR/go"
    done
    # What the test itself is started with is no matter here.
    sed -i '/bats/d' "$SEEN/ps"
    grep -q 'rowlock.*run' "$SEEN/ps"
    grep -q secret "$SEEN/processlist"
}

@test "every command, with all it has to say" {
    mkdir "$BATS_TEST_TMPDIR/files"
    echo 'CREATE TABLE fenced (id INT PRIMARY KEY);' >"$BATS_TEST_TMPDIR/files/0001_fenced.sql"
    for command in ls 'ls --json' 'show known' history 'history --json' sweep doctor 'doctor --json' init \
        'init --procedures' 'init --event' "migrate --into=$TEST_SCHEMA $BATS_TEST_TMPDIR/files" \
        "migrate status --into=$TEST_SCHEMA $BATS_TEST_TMPDIR/files" \
        "fence install --table=$TEST_SCHEMA.fenced --lock=known" 'fence list' 'fence list --json' \
        '--via=procedures run known -- true' 'init --remove-event' 'init --remove-procedures' \
        'run known -- true' 'break known' 'bench --seconds=50ms --clients=1'; do
        # shellcheck disable=SC2086 # words
        keep output over_url $command
        # shellcheck disable=SC2086
        keep output over_environment $command
    done
    grep -q acquired "$SEEN/output"
    # Not refused before they did anything.
    grep -q '0001_fenced.sql.*applied' "$SEEN/output"
    grep -q "$TEST_SCHEMA.fenced .*known" "$SEEN/output"
}

@test "what goes wrong: a wrong password, a wrong URL, no server, TLS that is not there" {
    for url in "mysql://secret:$PASSWORD-no@127.0.0.1:$PORT/x" "mysql://secret:$PASSWORD@127.0.0.1:1/x" \
        "mysql://secret:$PASSWORD%zz@127.0.0.1/x" "mysql://secret:$PASSWORD@127.0.0.1:99999/x" \
        "mysql://secret:$PASSWORD?x=y" "mysql://secret:$PASSWORD@127.0.0.1:$PORT/x?tls=verify-ca" \
        "mysql://secret:$PASSWORD@127.0.0.1:$PORT/x?tls=required" "mysql://secret:$PASSWORD@no.such.host.invalid/x" \
        "http://secret:$PASSWORD@h/x" "mysql://secret:$PASSWORD@127.0.0.1:$PORT/no_such_schema"; do
        keep errors "$ROWLOCK" --no-defaults -vv --connect-timeout=2s --url="$url" ls
        ROWLOCK_URL=$url keep errors "$ROWLOCK" --no-defaults -vv --connect-timeout=2s run x -- true
    done
    keep errors "$ROWLOCK" --no-defaults -p"$PASSWORD" -h 127.0.0.1 -P "$PORT" -u nobody ls
    keep errors "$ROWLOCK" --no-defaults --password="$PASSWORD" --no-such-option ls
    keep errors "$ROWLOCK" --no-defaults "--pasword=$PASSWORD" ls
    [ "$(grep -c '^rowlock: ' "$SEEN/errors")" -gt 15 ]
}

@test "a migration that sets a password, and fails" {
    # (What a file says, the server writes into its log.)
    sql_any "SET GLOBAL general_log = OFF"
    mkdir "$BATS_TEST_TMPDIR/files"
    echo "CREATE USERS x IDENTIFIED BY '$PASSWORD';" >"$BATS_TEST_TMPDIR/files/0001_user.sql"
    for verb in '' status 'status --json'; do
        # shellcheck disable=SC2086 # words
        keep migrations over_url migrate $verb --history-table=users --into="$TEST_SCHEMA" "$BATS_TEST_TMPDIR/files"
    done
    grep -q '`CREATE USERS x IDENTIFIED BY`.*error 1064' "$SEEN/migrations"
}

# The last one.
@test "the password is in none of them, nor in the tables, nor in the server's logs" {
    sql_any "SET GLOBAL general_log = OFF"
    sql "SELECT * FROM resource; SELECT * FROM lock_event; SELECT * FROM resource_lock; SELECT * FROM rowlock_schema_version; SELECT * FROM users" >"$SEEN/tables"
    real=$(dirname "$(own_server socket)")
    cat "$real"/data/*.log >"$SEEN/general-log"
    cp "$real/error.log" "$SEEN/error-log"
    grep -q 'lock_event' "$SEEN/general-log"
    grep -q 'held lease' "$SEEN/tables"
    for file in environment-lease log ps processlist output errors migrations tables general-log; do
        [ -s "$SEEN/$file" ] || { echo "nothing in $file"; false; }
    done
    run -1 grep -rlF "$PASSWORD" "$SEEN"
    # The search can find it.
    printf '%s\n' "x${PASSWORD}x" >"$SEEN/planted"
    grep -rqF "$PASSWORD" "$SEEN"
}
