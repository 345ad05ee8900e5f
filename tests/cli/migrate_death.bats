#!/usr/bin/env bats
# rowlock migrate when processes are killed, paused and overtaken.

bats_require_minimum_version 1.5.0
load helpers
load run_helpers
load migrate_helpers

setup() {
    run_setup
    migrate_setup files
    sql_any "CREATE TABLE \`$APP\`.gate (id INT PRIMARY KEY); INSERT INTO \`$APP\`.gate VALUES (1)"
}

teardown() {
    run_teardown
}

# A statement that takes long: it waits for the row that `hold_up` has locked.
slow() {
    echo "INSERT INTO seen (what) SELECT '$1' FROM gate FOR UPDATE;"
}

hold_up() {
    rm -f statements
    mkfifo statements
    mariadb --defaults-file="$TEST_OPTIONS" -N -B --unbuffered "$APP" <statements >answers 3>&- &
    exec 7>statements
    echo "START TRANSACTION; SELECT 'locked', id FROM gate FOR UPDATE;" >&7
    poll 30 grep -q locked answers
}

# (Processes of the test have the pipe open, too.)
let_go() {
    echo "ROLLBACK;" >&7
    exec 7>&-
}

# start [OPTION...]: a migrator in the background.
start() {
    background migrate --into="$APP" "$@" "$DIR"
}

# Is that statement at work on the server?
at_work() {
    [ "$(sql_any "SELECT COUNT(*) FROM information_schema.processlist
                   WHERE db = '$APP' AND info LIKE 'INSERT INTO seen%gate%'")" = 1 ]
}

idle() {
    ! at_work
}

@test "killed in a statement: the next one ends it, and refuses with what to look at" {
    hold_up
    file 0001_a.sql "$(see one)" "$(slow two)" "$(see three)"
    start --ttl=6
    poll 30 at_work
    run migrate status
    [ "$status" -eq 0 ]
    [[ $output == *"running: 0001_a.sql, statement 2 of 3: INSERT"* ]]
    kill -KILL "$BACK"
    ends_with 137
    at_work # the server does not know yet
    run --separate-stderr migrate
    [ "$status" -eq 68 ]
    [[ ${stderr_lines[0]} == *"ending its connection "* ]]
    [[ ${stderr_lines[1]} == *"0001_a.sql stopped in statement 2 of 3 (line 2): "*"statement 1 took effect; whether 2 did is not known"* ]]
    idle
    run migrate status
    [ "$status" -eq 68 ]
    [[ $output == *"repair --done=2"*"or with --done=1 if not"* ]]
    let_go
    [ "$(seen)" = one ]
    migrate repair -q --done=1
    migrate -q
    [ "$(seen)" = "one two three" ]
}

@test "killed in a file that is resumable, or one transaction: the next one goes on" {
    hold_up
    file 0001_a.sql "-- rowlock: resumable" "$(see one)" "$(slow two)"
    start --ttl=6
    poll 30 at_work
    kill -KILL "$BACK"
    ends_with 137
    start --quiet
    poll 30 eval 'at_work && grep -q "ending its connection" err'
    let_go
    ends_with 0
    [ "$(seen)" = "one two" ]
    hold_up
    file 0002_b.sql "-- rowlock: transaction" "$(see three)" "$(slow four)"
    start --ttl=6
    poll 30 at_work
    kill -KILL "$BACK"
    ends_with 137
    start --quiet
    poll 30 eval 'at_work && grep -q "ending its connection" err'
    let_go
    ends_with 0
    [ "$(seen)" = "one two three four" ]
}

@test "paused in a statement and overtaken: its statement is ended, and it runs no other" {
    hold_up
    file 0001_a.sql "-- rowlock: resumable" "$(see one)" "$(slow two)" "$(see three)"
    start --ttl=6
    poll 30 at_work
    kill -STOP "$BACK"
    paused=$BACK
    mv err err1
    start --quiet
    poll 30 eval 'grep -q "ending its connection" err && at_work'
    let_go
    ends_with 0
    [ "$(seen)" = "one two three" ]
    kill -CONT "$paused"
    mv err1 err
    ends_with 75 "$paused"
    [ "$(seen)" = "one two three" ]
    migrate status
}

@test "paused anywhere, and overtaken, again and again: each statement took effect once" {
    statements=()
    # Each statement says itself whether it may be run again.
    for i in $(seq 200); do
        statements+=("INSERT INTO seen (what) SELECT '$i' FROM DUAL WHERE NOT EXISTS (SELECT 1 FROM seen AS s WHERE what = '$i');")
    done
    file 0001_a.sql "-- rowlock: resumable" "${statements[@]}"
    sql_any "ALTER TABLE \`$APP\`.seen ADD UNIQUE (what(20))"
    paused=()
    for pause in 0.03 0.05 0.06 0.08 0.1 0.12 0.15; do
        start --quiet
        sleep "$pause" # anywhere
        kill -STOP "$BACK" || true # it may have done all
        paused+=("$BACK")
        # It will not know when it wakes up.
        rl break "migrate:$APP" || true
    done
    migrate -q
    for pid in "${paused[@]}"; do
        kill -CONT "$pid" || true
        ends=0
        wait "$pid" || ends=$?
        echo "ended with $ends"
        [[ $ends == 0 || $ends == 75 ]]
    done
    [ "$(seen)" = "$(seq -s ' ' 200)" ]
    migrate status
}

@test "its lock is broken: the statement is ended at once, the exit status is 75" {
    hold_up
    file 0001_a.sql "$(see one)" "$(slow two)"
    start --ttl=6
    poll 30 at_work
    rl break "migrate:$APP"
    ends_with 75
    [[ $(cat err) == *"0001_a.sql, statement 2 of 2 "*"the lock of the migrations of the schema $APP was lost"* ]]
    [[ $(cat err) == *" show migrate:$APP\` says who has it now"* ]]
    poll 30 idle
    let_go
    [ "$(seen)" = one ]
}

@test "SIGTERM stops the statement; where the server says so, the next run goes on with it" {
    hold_up
    file 0001_a.sql "$(see one)" "$(slow two)"
    start
    poll 30 at_work
    kill -TERM "$BACK"
    ends_with 143
    [[ $(cat err) == *"0001_a.sql, statement 2 of 2 "*"cancelled"* ]]
    poll 30 idle
    let_go
    run migrate -q
    if [ "$status" -eq 68 ]; then # a busy machine: the answer came too late
        migrate repair -q --done=1
        migrate -q
    fi
    [ "$(seen)" = "one two" ]
}

@test "somebody ends its connection: it says so, and does not guess" {
    hold_up
    file 0001_a.sql "$(see one)" "$(slow two)"
    start
    poll 30 at_work
    sql_any "KILL CONNECTION $(sql_any "SELECT id FROM information_schema.processlist WHERE db = '$APP' AND info LIKE 'INSERT INTO seen%gate%'")"
    poll 30 is_dead "$BACK"
    ends=0
    wait "$BACK" || ends=$?
    cat err
    [ "$ends" -ne 0 ]
    let_go
    [ "$(seen)" = one ]
    run migrate -q
    [[ $status == 68 || $status == 0 ]] # the server may have answered first
}

@test "one that released all locks of its connection takes its marker again" {
    file 0001_a.sql "DO RELEASE_ALL_LOCKS();" "$(see one)" "DO SLEEP(0.1);" "$(see two)"
    migrate -q
    [ "$(seen)" = "one two" ]
}

@test "one that released all locks of its connection and was killed: its statement is ended all the same" {
    hold_up
    file 0001_a.sql "INSERT INTO seen (what) SELECT 'one' FROM (SELECT RELEASE_ALL_LOCKS() AS n) AS r STRAIGHT_JOIN gate FOR UPDATE;"
    start --ttl=6
    poll 30 at_work
    kill -KILL "$BACK"
    ends_with 137
    run --separate-stderr migrate
    [ "$status" -eq 68 ]
    [[ $stderr == *"ending its connection "* ]]
    idle
    let_go
    [ "$(seen)" = - ]
}

@test "a user who may not end the dead one's connection waits for its end, and says whose it is" {
    hold_up
    file 0001_a.sql "-- rowlock: resumable" "$(slow one)"
    start --ttl=5
    poll 30 at_work
    kill -KILL "$BACK"
    ends_with 137
    user="${APP: -20}_u"
    sql_any "CREATE USER '$user'@'localhost' IDENTIFIED BY 'migrates'; GRANT ALL ON \`$TEST_SCHEMA\`.* TO '$user'@'localhost';
             GRANT SELECT, INSERT, UPDATE, CREATE ON \`$APP\`.* TO '$user'@'localhost'"
    other() {
        (unset MYSQL_PWD && "$ROWLOCK" --no-defaults -S "$ROWLOCK_TEST_SOCKET" -u "$user" --password=migrates -D "$TEST_SCHEMA" \
            migrate --into="$APP" "$@" files)
    }
    run --separate-stderr other --wait=10s
    # shellcheck disable=SC2154
    echo "$stderr"
    [ "$status" -eq 1 ]
    [[ $stderr == *"of the last migrator ("*") has not ended yet"* ]]
    at_work
    let_go
    poll 30 idle
    other -q
    sql_any "DROP USER '$user'@'localhost'"
    # The dead one's statement was not undone: nobody could. It may be run again, it says.
    [ "$(seen)" = "one one" ] || [ "$(seen)" = one ]
}
