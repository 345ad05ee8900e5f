#!/usr/bin/env bats
# rowlock fence install, list, remove: arguments, names, exit statuses, output. What the triggers
# refuse is in tests/conformance/fences.c.

load helpers

# refused TABLE: a session that has presented no token cannot write it.
refused() {
    run ! sql "INSERT INTO $1 VALUES (1)"
    [[ $output == *"(RLLST)"* ]]
}

@test "wrong usage: one clear line, 64" {
    while IFS= read -r line; do
        # shellcheck disable=SC2086 # words
        run -64 --separate-stderr rl fence $line
        [[ ${stderr_lines[0]} == "rowlock: "* ]]
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
    run -0 rl fence list
    [ -z "$output" ]
    run -0 on_terminal 100 rl fence list
    [ "$output" = "rowlock: no table is fenced, of those on which this user has TRIGGER" ]
    [ "$(rl fence list --json |& jq length)" = 0 ]
    run -0 rl fence install --table plain --lock "the lock"
    [ "$output" = "plain is fenced: writing it takes the token of 'the lock'" ]
    refused plain
    run rl fence list
    [[ ${lines[0]} == TABLE*LOCK*UNGUARDED*DEFINER ]]
    [[ ${lines[1]} == "$TEST_SCHEMA.plain "*"the lock "*" - "*"root@localhost" ]]
    run -64 rl fence install --table "$TEST_SCHEMA.plain" --lock other
    [[ $output == *"fenced by the lock 'the lock' already"* ]]
    run rl fence remove --table plain
    [ "$output" = "plain is not fenced any more" ]
    sql "INSERT INTO plain VALUES (1)"
    for table in plain no_such "no_such.plain"; do
        run -66 rl fence remove --table "$table"
    done
    run -66 rl fence install --table no_such --lock x
}

@test "names with backquotes are shown as --table takes them; none steers a terminal" {
    sql 'CREATE TABLE `c``d` (id INT PRIMARY KEY)'
    # shellcheck disable=SC2016 # backquotes
    sql "CREATE TABLE \`e$(printf '\e')[31m f\` (id INT PRIMARY KEY)"
    rl fence install --table "\`$TEST_SCHEMA\`.\`c\`\`d\`" --lock "two 'quoted'"
    rl fence install --table "\`e$(printf '\e')[31m f\`" --lock three
    run rl fence list
    [[ $output != *$'\e'* ]]
    [[ $output == *'.e\x1b[31m f'* ]]
    [[ $output == *"$TEST_SCHEMA.\`c\`\`d\` "* ]]
    [ "$(rl fence list --json |& jq -r '.[] | select(.table == "c`d") | [.schema, .lock, .whole, .unguarded] | join("|")')" = "$TEST_SCHEMA|two 'quoted'|true|" ]
    rl fence remove --table '`c``d`'
    rl fence remove --table "\`e$(printf '\e')[31m f\`"
}

@test "without the right to: 77, and the GRANT" {
    sql "CREATE TABLE theirs (id INT PRIMARY KEY)"
    new_user looks "SELECT ON $TEST_SCHEMA.*"
    run -77 rl_as looks fence install --table theirs --lock x
    [[ $output == *"GRANT TRIGGER ON \`$TEST_SCHEMA\`.\`theirs\`"* ]]
    sql "INSERT INTO theirs VALUES (1)"
}
