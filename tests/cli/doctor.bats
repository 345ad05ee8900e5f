#!/usr/bin/env bats
# What `rowlock doctor` says about present troubles of the server: sessions that wait for a metadata lock, and the one
# that has it; transactions that are open for long; and about a schema that this user cannot use.

load helpers

# These findings are about the whole server.
setup_file() {
    setup_on_own_server
    sql "CREATE TABLE orders (id INT PRIMARY KEY) ENGINE = InnoDB"
}

# Starts a session that reads `orders` in a transaction, which stays open until `holder_ends`.
setup() {
    plugin=
    sql "INSERT IGNORE INTO orders (id) VALUES (1)"
    mkfifo "$BATS_TEST_TMPDIR/in"
    mariadb --defaults-file="$TEST_OPTIONS" -n -N -B "$TEST_SCHEMA" <"$BATS_TEST_TMPDIR/in" \
        >"$BATS_TEST_TMPDIR/out" 2>&1 3>&- &
    holder=$!
    exec 8>"$BATS_TEST_TMPDIR/in"
    echo "BEGIN; SELECT CONNECTION_ID(); SELECT id FROM orders;" >&8
    poll test -s "$BATS_TEST_TMPDIR/out"
    holder_id=$(head -n 1 "$BATS_TEST_TMPDIR/out")
    poll grep -qx 1 "$BATS_TEST_TMPDIR/out"
}

teardown() {
    exec 8>&-
    wait "$holder" ${alter:+"$alter"} || true
    [ -z "$plugin" ] || sql_any "UNINSTALL SONAME 'metadata_lock_info'"
}

# alter_orders N: starts an ALTER TABLE, and waits until it waits for the table.
alter_orders() {
    mariadb --defaults-file="$TEST_OPTIONS" "$TEST_SCHEMA" -e "ALTER TABLE orders ADD COLUMN c$1 INT" 3>&- 8>&- &
    alter=$!
    poll waits "ALTER TABLE orders"
}

# waits TEXT: for poll: a statement that begins so waits for a metadata lock.
waits() {
    [ "$(sql_any "SELECT COUNT(*) FROM information_schema.processlist
                   WHERE state = 'Waiting for table metadata lock' AND info LIKE '$1%'")" -eq 1 ]
}

# blocked FILTER: is true of the findings about blocked sessions on stdin.
blocked() {
    json "[.[] | select(.check == \"blocked\")] | $1"
}

# All that the server can tell: on MariaDB with the plugin, if it is there.
@test "doctor: an ALTER that waits, who holds it up, and who waits behind" {
    if ! is_mysql; then
        sql_any "INSTALL SONAME 'metadata_lock_info'" 2>/dev/null || skip "no plugin metadata_lock_info here"
        plugin=1
    fi
    alter_orders 1
    mariadb --defaults-file="$TEST_OPTIONS" "$TEST_SCHEMA" -e "SELECT 'reader', id FROM orders" >/dev/null 3>&- 8>&- &
    reader=$!
    poll waits "SELECT ''reader''"
    # ALTER has a lock that this statement wants, too; but ALTER itself waits, so it is not the one to end.
    mariadb --defaults-file="$TEST_OPTIONS" "$TEST_SCHEMA" -e "TRUNCATE orders" 3>&- 8>&- &
    truncate=$!
    poll waits "TRUNCATE orders"
    json=$(rl doctor --json)
    echo "$json" | blocked ".[0].level == \"care\"
        and (.[0].sessions[0] | .role == \"waits\" and (.query | startswith(\"ALTER TABLE orders\")) and .user == \"root\")
        and (.[0].sessions[1] | .role == \"holds\" and .connection_id == $holder_id and .user == \"root\"
             and .object == \"$TEST_SCHEMA.orders\" and .lock == \"SHARED_READ\"
             and .age_ms >= 0 and .transaction_ms >= 0 and .command == \"Sleep\")
        and (.[0].remedy | contains(\"KILL $holder_id;\"))"
    echo "$json" | blocked ".[1].sessions | length == 2 and .[1].connection_id == $holder_id"
    echo "$json" | blocked '.[2].sessions | length == 1 and (.[0].query | startswith("SELECT '"'reader'"'"))'
    if is_mysql; then
        echo "$json" | blocked '.[0].sessions[1].query == "SELECT id FROM orders"'
    fi
    text=$(rl doctor)
    [[ "$text" == *"care    blocked       connection "*" waits for a metadata lock, for "*"ALTER TABLE orders"*"$TEST_SCHEMA.orders is held by connection $holder_id (root@localhost, idle for "* ]]
    # The remedy helps.
    sql_any "KILL $holder_id"
    wait "$alter"
    wait "$reader" "$truncate"
    rl doctor --json | blocked '.[0].level == "fine"'
}

@test "doctor: where the holder is not shown, who it may be, and how it would be" {
    alter_orders 2
    if is_mysql; then
        remedy="GRANT SELECT ON performance_schema.* TO '$(user_of see)'@'localhost';"
    else
        remedy="INSTALL SONAME 'metadata_lock_info'"
    fi
    new_user see "PROCESS ON *.*"
    rl_as see doctor --json >"$BATS_TEST_TMPDIR/json" || [ "$?" -eq 1 ]
    blocked ".[0].level == \"care\" and (.[0].remedy | contains(\"$remedy\"))
        and (.[0].sessions | any(.role == \"may hold\" and .connection_id == $holder_id))
        and (.[0].sessions | all(.role != \"may hold\" or (.query | startswith(\"ALTER TABLE\") | not)))" \
        <"$BATS_TEST_TMPDIR/json"
}

@test "doctor: who may not see the others is told which right that takes" {
    alter_orders 3
    new_user blind
    run rl_as blind doctor --json
    json "[.[] | select(.check == \"transactions\")] | length == 1 and .[0].level == \"note\"
           and .[0].remedy == \"GRANT PROCESS ON *.* TO '$(user_of blind)'@'localhost';\"" <<<"$output"
    [[ "$output" != *"ALTER TABLE orders"* ]]
}

# A prepared transaction (XA) has rows locked, and no connection that can be shown or ended.
@test "doctor: a transaction that is open for long, not a row lock of rowlock's; one that was prepared, and forgotten" {
    rl run --mode=pessimistic long-one -- sh -c 'touch "$0"; while [ ! -e "$1" ]; do sleep 0.1; done' \
        "$BATS_TEST_TMPDIR/held" "$BATS_TEST_TMPDIR/end" 3>&- 8>&- &
    run_pid=$!
    poll test -e "$BATS_TEST_TMPDIR/held"
    sql "INSERT INTO resource (resource_name, kind, version, update_time) VALUES ('xa', 'optimistic', 1, NOW());
         XA START 'x'; UPDATE resource SET version = 2 WHERE resource_name = 'xa'; XA END 'x'; XA PREPARE 'x'"
    poll long_since_told
    rl doctor --json >"$BATS_TEST_TMPDIR/long"
    touch "$BATS_TEST_TMPDIR/end"
    wait "$run_pid"
    sql "XA ROLLBACK 'x'"
    cat "$BATS_TEST_TMPDIR/long"
    json '[.[] | select(.check == "prepared")] | length == 1 and .[0].level == "care"
           and (.[0].remedy | contains("XA RECOVER"))' "$BATS_TEST_TMPDIR/long"
    json "[.[] | select(.check == \"transactions\") | .sessions[]] | length == 1 and
           (.[0] | .connection_id == $holder_id and .role == \"open\" and .transaction_ms >= 10000)" "$BATS_TEST_TMPDIR/long"
    poll none_prepared_told
}

# InnoDB's list of transactions is a copy, made anew only when no session has read it for 100 ms: a session that looks
# more often sees the old one for ever.
long_since_told() {
    sleep 0.2
    rl doctor --json >"$BATS_TEST_TMPDIR/told"
    json "any(.[] | select(.check == \"transactions\") | .sessions[]; .connection_id == $holder_id)
           and any(.[]; .check == \"prepared\")" "$BATS_TEST_TMPDIR/told" &&
        [ "$(sql "SELECT COUNT(*) FROM resource WHERE resource_name = 'long-one' AND status = 'held'
                   AND acquired_at < UTC_TIMESTAMP(6) - INTERVAL 11 SECOND")" -eq 1 ]
}

none_prepared_told() {
    sleep 0.2
    # (And Debian's MySQL says "(Debian)".)
    rl doctor --json | json 'length > 0 and all(.[]; .check != "prepared" and (.found | contains("((") | not))'
}
