#!/usr/bin/env bats
# rowlock fence install, list, remove: arguments, names, exit statuses, output. What the triggers
# refuse is in tests/conformance/fences.c.

load helpers

setup_file() { rowlock_setup_file; }
teardown_file() { rowlock_teardown_file; }

# refused TABLE: who has presented nothing cannot write it.
refused() {
    run sql "INSERT INTO $1 VALUES (1)"
    [ "$status" -ne 0 ]
    [[ $output == *"(RLLST)"* ]]
}

@test "wrong usage: one clear line, 64" {
    while IFS= read -r line; do
        # shellcheck disable=SC2086 # words
        run rl fence $line
        echo "fence $line: $output"
        [ "$status" -eq 64 ]
        [[ ${lines[0]} == "rowlock: "* ]]
    done <<'LINES'

install
install --table t
install --lock x
list --table t
remove
remove --table t --lock x
remove --table t more
uninstall --table t
install --table a.b.c --lock x
install --table .t --lock x
install --table t. --lock x
install --table `t --lock x
install --table `` --lock x
install --table `t`x --lock x
install --table= --lock x
install --table t --lock=
LINES
}

@test "installed, listed, removed; what is not there is 66" {
    sql "CREATE TABLE plain (id INT PRIMARY KEY)"
    run rl fence list
    [ "$status" -eq 0 ] && [ -z "$output" ]
    run on_terminal 100 "$ROWLOCK" --defaults-file="$TEST_OPTIONS" -D "$TEST_SCHEMA" fence list
    [ "$status" -eq 0 ]
    [ "$output" = "rowlock: no table is fenced, of those on which this user has TRIGGER" ]
    run rl fence list --json
    [ "$(jq length <<<"$output")" = 0 ]
    run rl fence install --table plain --lock "the lock"
    [ "$status" -eq 0 ]
    [ "$output" = "plain is fenced: writing it takes the token of 'the lock'" ]
    refused plain
    run rl fence list
    echo "$output"
    [[ ${lines[0]} == TABLE*LOCK*UNGUARDED*DEFINER ]]
    [[ ${lines[1]} == "$TEST_SCHEMA.plain "*"the lock "*" - "*"root@localhost" ]]
    run rl fence install --table "$TEST_SCHEMA.plain" --lock other
    [ "$status" -eq 64 ]
    [[ $output == *"fenced by the lock 'the lock' already"* ]]
    run rl fence remove --table plain
    [ "$output" = "plain is not fenced any more" ]
    sql "INSERT INTO plain VALUES (1)"
    for table in plain no_such "no_such.plain"; do
        run rl fence remove --table "$table"
        [ "$status" -eq 66 ]
    done
    run rl fence install --table no_such --lock x
    [ "$status" -eq 66 ]
}

@test "names with dots, backquotes and blanks; none steers a terminal" {
    sql 'CREATE TABLE `a.b` (id INT PRIMARY KEY); CREATE TABLE `c``d` (id INT PRIMARY KEY)'
    # shellcheck disable=SC2016 # backquotes
    sql "CREATE TABLE \`e$(printf '\e')[31m f\` (id INT PRIMARY KEY)"
    rl fence install --table '`a.b`' --lock one
    rl fence install --table "\`$TEST_SCHEMA\`.\`c\`\`d\`" --lock "two 'quoted'"
    rl fence install --table "\`e$(printf '\e')[31m f\`" --lock three
    refused '`a.b`'
    refused '`c``d`'
    run rl fence list
    echo "$output"
    [[ $output != *$'\e'* ]]
    [[ $output == *'.e\x1b[31m f'* ]]
    # As --table takes them.
    [[ $output == *"$TEST_SCHEMA.\`a.b\` "* ]]
    [[ $output == *"$TEST_SCHEMA.\`c\`\`d\` "* ]]
    run rl fence list --json
    [ "$(jq -r '[.[].table] | sort | join("|")' <<<"$output")" = "a.b|c\`d|e$(printf '\e')[31m f" ]
    [ "$(jq -r '.[] | select(.table == "c`d") | [.schema, .lock, .whole, .unguarded] | join("|")' <<<"$output")" = "$TEST_SCHEMA|two 'quoted'|true|" ]
    rl fence remove --table '`a.b`'
    rl fence remove --table '`c``d`'
    rl fence remove --table "\`e$(printf '\e')[31m f\`"
}

@test "a trigger that somebody has dropped: shown, and made anew" {
    sql "CREATE TABLE holed (id INT PRIMARY KEY)"
    rl fence install --table holed --lock x
    trigger=$(sql "SELECT trigger_name FROM information_schema.triggers WHERE event_object_schema = '$TEST_SCHEMA' AND event_object_table = 'holed' AND event_manipulation = 'DELETE'")
    sql "DROP TRIGGER $trigger"
    run rl fence list --json
    [ "$(jq -r '.[0] | [.whole, .unguarded] | join("|")' <<<"$output")" = "false|delete" ]
    rl fence install --table holed --lock x
    run rl fence list --json
    [ "$(jq -r '.[0] | [.whole, .unguarded] | join("|")' <<<"$output")" = "true|" ]
    rl fence remove --table holed
}

@test "without the right to: 77, and the GRANT" {
    sql "CREATE TABLE theirs (id INT PRIMARY KEY)"
    sql_any "CREATE USER IF NOT EXISTS 'rl_fence_$$'@'localhost' IDENTIFIED BY 'a-pass'; GRANT SELECT ON $TEST_SCHEMA.* TO 'rl_fence_$$'@'localhost'"
    run env MYSQL_PWD=a-pass "$ROWLOCK" --no-defaults -S "$ROWLOCK_TEST_SOCKET" -u "rl_fence_$$" -D "$TEST_SCHEMA" fence install --table theirs --lock x
    sql_any "DROP USER 'rl_fence_$$'@'localhost'"
    echo "$output"
    [ "$status" -eq 77 ]
    [[ $output == *"GRANT TRIGGER ON \`$TEST_SCHEMA\`.\`theirs\`"* ]]
    sql "INSERT INTO theirs VALUES (1)"
}
