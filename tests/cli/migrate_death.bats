#!/usr/bin/env bats
# rowlock migrate when processes are killed, paused and overtaken.

load helpers
load run_helpers
load migrate_helpers

# with_gate: a schema of its own for each case side by side, with a row for `slow` statements.
with_gate() {
    migrate_setup "${D##*/}"
    sql_any "CREATE TABLE \`$APP\`.gate (id INT PRIMARY KEY); INSERT INTO \`$APP\`.gate VALUES (1)"
}

# Prints a statement that takes long: it waits for the row that `hold_up` has locked.
slow() {
    echo "INSERT INTO seen (what) SELECT '$1' FROM gate FOR UPDATE;"
}

hold_up() {
    rm -f statements
    mkfifo statements
    mariadb --defaults-file="$TEST_OPTIONS" -N -B --unbuffered "$APP" <statements >answers 3>&- &
    exec 7>statements
    echo "START TRANSACTION; SELECT 'locked', id FROM gate FOR UPDATE;" >&7
    poll grep -q locked answers
}

# (Closing the pipe is not enough: other processes of the test have it open, too.)
let_go() {
    echo "ROLLBACK;" >&7
    exec 7>&-
}

# start [OPTION...]: starts a migrator in the background.
start() {
    background migrate --into="$APP" "$@" "$DIR"
}

# start_slow LINE...: starts one on a file with these lines, and waits until it is at the slow one; let_go ends that.
start_slow() {
    hold_up
    file 0001_a.sql "$@"
    start --ttl="${TTL:-9}"
    poll at_work
}

# killed_slow LINE...: the same; it is then killed, and the server has not noticed yet.
killed_slow() {
    start_slow "$@"
    kill -KILL "$BACK"
    ends_with 137
    poll at_work
}

# True if the slow statement runs on the server. (MariaDB may show a connection without its statement while another test
# reads the list, too.)
at_work() {
    [ "$(sql_any "SELECT COUNT(*) FROM information_schema.processlist
                   WHERE db = '$APP' AND info LIKE 'INSERT INTO seen%gate%'")" = 1 ]
}

idle() {
    ! at_work
}

# overtake: another migrator ends the statement of the dead or paused one, and runs it itself.
overtake() {
    start --quiet
    poll eval 'at_work && grep -q "ending its connection" err'
    let_go
    ends_with 0
}

killed() {
    with_gate
    start_slow "$(see one)" "$(slow two)" "$(see three)"
    run -1 migrate status
    [[ $output == *"running: 0001_a.sql, statement 2 of 3: INSERT"* ]]
    kill -KILL "$BACK"
    ends_with 137
    poll at_work
    run -68 --separate-stderr migrate
    [[ ${stderr_lines[0]} == *"ending its connection "* ]]
    [[ ${stderr_lines[1]} == *"0001_a.sql stopped in statement 2 of 3 (line 2): "*"statement 1 took effect; whether 2 did is not known"* ]]
    idle
    run -68 migrate status
    [[ $output == *"repair --done=2"*"or with --done=1 if not"* ]]
    let_go
    [ "$(seen)" = one ]
    migrate repair -q --done=1
    migrate -q
    [ "$(seen)" = "one two three" ]
}

killed_that_goes_on() { # KIND
    with_gate
    killed_slow "-- rowlock: $1" "$(see one)" "$(slow two)"
    overtake
    [ "$(seen)" = "one two" ]
}

# The server has committed what is before the ALTER TABLE that waits.
killed_in_transaction() {
    with_gate
    hold_up
    file 0001_a.sql "START TRANSACTION;" "$(see one)" "ALTER TABLE gate ADD more INT;" "$(see two)" "COMMIT;"
    start --ttl=9
    poll waits_for_gate
    kill -KILL "$BACK"
    ends_with 137
    run -68 --separate-stderr migrate
    [[ $stderr == *"0001_a.sql stopped in statement 3 of 5 (line 3): \`ALTER TABLE gate ADD more INT\`; whether 3 did is not known: look, then run "*" --done=3"*" if it did, or with --done=2 if only those before it did (the server may have committed them), or with --done=0 if they did not either"* ]]
    let_go
    [ "$(seen)" = one ]
    migrate repair -q --done=2
    migrate -q
    [ "$(seen)" = "one two" ]
}

waits_for_gate() {
    [ "$(sql_any "SELECT COUNT(*) FROM information_schema.processlist
                   WHERE db = '$APP' AND info LIKE 'ALTER TABLE gate%'")" = 1 ]
}

paused() {
    with_gate
    start_slow "-- rowlock: resumable" "$(see one)" "$(slow two)" "$(see three)"
    kill -STOP "$BACK"
    paused=$BACK
    mv err err1
    overtake
    [ "$(seen)" = "one two three" ]
    kill -CONT "$paused"
    mv err1 err
    ends_with 75 "$paused"
    [ "$(seen)" = "one two three" ]
    migrate status
}

broken() {
    with_gate
    start_slow "$(see one)" "$(slow two)"
    rl break "migrate:$APP"
    ends_with 75
    [[ $(cat err) == *"0001_a.sql, statement 2 of 2 "*"the lock of the migrations of the schema $APP was lost"* ]]
    [[ $(cat err) == *" show migrate:$APP\` says who has it now"* ]]
    poll idle
    let_go
    [ "$(seen)" = one ]
}

released_all_and_killed() {
    with_gate
    killed_slow "INSERT INTO seen (what) SELECT 'one' FROM (SELECT RELEASE_ALL_LOCKS() AS n) AS r STRAIGHT_JOIN gate FOR UPDATE;"
    run -68 --separate-stderr migrate
    [[ $stderr == *"ending its connection "* ]]
    idle
    let_go
    [ "$(seen)" = - ]
}

# The next migrator's user may not end the dead one's connection.
killed_for_others() {
    with_gate
    TTL=7 killed_slow "-- rowlock: resumable" "$(slow one)"
    new_user u "ALL ON \`$TEST_SCHEMA\`.*" "SELECT, INSERT, UPDATE, CREATE ON \`$APP\`.*"
    run -1 --separate-stderr rl_as u migrate --into="$APP" --wait=15s files
    [[ $stderr == *"of the last migrator ("*") has not ended yet"* ]]
    poll at_work
    let_go
    poll idle
    rl_as u migrate --into="$APP" -q files
    # The dead one's statement was not rolled back. It may be run twice, as the file allows.
    [ "$(seen)" = "one one" ] || [ "$(seen)" = one ]
}

@test "killed: the next one ends its statement, and refuses with what to look at, or goes on where the file says so" {
    side_by_side killed killed_in_transaction "killed_that_goes_on resumable" "killed_that_goes_on transaction" released_all_and_killed killed_for_others
}

@test "paused and overtaken, or its lock broken: its statement is ended, it runs no other, each took effect once" {
    side_by_side paused broken
}

@test "SIGTERM stops the statement; where the server says so, the next run goes on with it" {
    with_gate
    start_slow "$(see one)" "$(slow two)"
    kill -TERM "$BACK"
    ends_with 143
    [[ $(cat err) == *"0001_a.sql, statement 2 of 2 "*"cancelled"* ]]
    poll idle
    let_go
    run migrate -q
    if [ "$status" -eq 68 ]; then # a busy machine: the answer came too late
        migrate repair -q --done=1
        migrate -q
    fi
    [ "$(seen)" = "one two" ]
}

@test "one that released all locks of its connection takes its marker again" {
    with_gate
    file 0001_a.sql "DO RELEASE_ALL_LOCKS();" "$(see one)" "DO SLEEP(0.1);" "$(see two)"
    migrate -q
    [ "$(seen)" = "one two" ]
}
