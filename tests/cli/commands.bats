#!/usr/bin/env bats
# The command without `run`: exit statuses, output, bad input. Locks are put into the
# tables by hand where only their looks are asked for.

bats_require_minimum_version 1.5.0
load helpers

setup_file() {
    rowlock_setup_file
}

teardown_file() {
    own_server remove
    rowlock_teardown_file
    sql_any "DROP USER IF EXISTS '$(user_of pw)'@'localhost', '$(user_of bare)'@'localhost', '$(user_of one)'@'localhost'"
}

setup() {
    sql "DELETE FROM resource; DELETE FROM resource_lock; DELETE FROM lease_renewal; DELETE FROM lock_event"
}

COMMANDS="init run ls show history sweep break doctor"

# own_server VERB ...: a server that a test may treat badly.
own_server() {
    local verb=$1
    shift
    "${ROWLOCK_TOOLS:-$BATS_TEST_DIRNAME/../../tools}/server" "$verb" "$@" "$TEST_DIR/own"
}

# A user's name that is this file's own.
user_of() {
    echo "${TEST_SCHEMA: -20}_$1"
}

# quoted TEXT: as an SQL string, whatever is in it.
quoted() {
    printf "x'%s'" "$(printf %s "$1" | od -An -v -tx1 | tr -d ' \n')"
}

# a_lock NAME [HELD_S [LEFT_S [LABEL]]]: a held lease.
a_lock() {
    sql "INSERT INTO resource (resource_name, kind, status, version, owner, owner_label,
                               acquired_at, lease_expires_at, update_time)
         VALUES (CONVERT($(quoted "$1") USING utf8mb4), 'optimistic', 'held', 42, 'owner-1',
                 CONVERT($(quoted "${4-batch@db1 4711 close.sh}") USING utf8mb4),
                 UTC_TIMESTAMP(6) - INTERVAL ${2-192} SECOND,
                 UTC_TIMESTAMP(6) + INTERVAL ${3-3600} SECOND, UTC_TIMESTAMP(6));
         INSERT INTO lease_renewal (id) VALUES (LAST_INSERT_ID())"
}

# a_free_lock NAME [UNUSED_S]
a_free_lock() {
    sql "INSERT INTO resource (resource_name, kind, status, version, owner, update_time)
         VALUES ('$1', 'optimistic', 'free', 7, 'owner-0', UTC_TIMESTAMP(6) - INTERVAL ${2-0} SECOND);
         INSERT INTO lease_renewal (id) VALUES (LAST_INSERT_ID())"
}

# an_event NAME EVENT [AGE_S [DETAIL]]
an_event() {
    sql "INSERT INTO lock_event (resource_name, kind, event, version, owner, owner_label, happened_at,
                                 waited_ms, held_ms, exit_status, detail)
         VALUES (CONVERT($(quoted "$1") USING utf8mb4), 'optimistic', '$2', 42, 'owner-1', 'batch@db1 4711 close.sh',
                 UTC_TIMESTAMP(6) - INTERVAL ${3-0} SECOND, 12, NULL, 3,
                 CONVERT($(quoted "${4-}") USING utf8mb4))"
}

# Nothing on stdout, one line and where to find help on stderr, 64.
is_usage_error() {
    run --separate-stderr "$@"
    [ "$status" -eq 64 ]
    [ -z "$output" ]
    [[ "${stderr_lines[0]}" == "rowlock: "* ]]
    [ "${#stderr_lines[@]}" -eq 2 ]
    [[ "${stderr_lines[1]}" == "rowlock: try 'rowlock"*"--help'" ]]
}

# fails_with STATUS COMMAND...: nothing on stdout, exactly one line on stderr.
fails_with() {
    local expected=$1
    shift
    run --separate-stderr "$@"
    echo "exit $status, stderr: $stderr"
    [ "$status" -eq "$expected" ]
    [ -z "$output" ]
    [ "${#stderr_lines[@]}" -eq 1 ]
    [[ "$stderr" == "rowlock: "* ]]
}

# No byte below blank but newline, no DEL, no C1 control, no override of the direction.
is_harmless() {
    ! LC_ALL=C grep -qP '[\x00-\x09\x0b-\x1f\x7f]|\xc2[\x80-\x9f]|\xe2\x80[\xa8-\xae]|\xe2\x81[\xa6-\xa9]' "$1"
}

# ---------------------------------------------------------------- help and usage

@test "help and version go to stdout" {
    run --separate-stderr "$ROWLOCK" --help
    [ "$status" -eq 0 ]
    [ -z "$stderr" ]
    [[ "${lines[0]}" == "Usage: rowlock "* ]]
    whole=$output
    for command in $COMMANDS; do
        [[ "$whole" == *"  $command "* ]]
    done
    for form in "-?" help; do
        run --separate-stderr "$ROWLOCK" $form
        [ "$status" -eq 0 ]
        [ "$output" = "$whole" ]
    done
    run --separate-stderr "$ROWLOCK" --version
    [ "$status" -eq 0 ]
    [[ "$output" =~ ^rowlock\ [0-9]+\.[0-9]+\.[0-9]+$ ]]
    run --separate-stderr "$ROWLOCK" -V
    [ "$status" -eq 0 ]
    [[ "$output" == "rowlock "* ]]
}

@test "each command has its help" {
    for command in $COMMANDS; do
        run --separate-stderr "$ROWLOCK" "$command" --help
        [ "$status" -eq 0 ]
        [ -z "$stderr" ]
        [[ "${lines[0]}" == "Usage: rowlock $command"* ]]
        of_command=$output
        run --separate-stderr "$ROWLOCK" help "$command"
        [ "$status" -eq 0 ]
        [ "$output" = "$of_command" ]
    done
}

@test "help is no wider than 100 columns" {
    for command in "" $COMMANDS; do
        "$ROWLOCK" help $command | awk 'length > 100 { print; bad = 1 } END { exit bad }'
    done
}

@test "wrong usage: one clear line, 64" {
    is_usage_error "$ROWLOCK"
    [[ "$stderr" == *"no command"* ]]
    is_usage_error "$ROWLOCK" lss
    [[ "$stderr" == *"'lss'"* ]]
    is_usage_error "$ROWLOCK" ""
    is_usage_error "$ROWLOCK" help lss
    is_usage_error "$ROWLOCK" --nonsense ls
    [[ "$stderr" == *"--nonsense"* ]]
    is_usage_error "$ROWLOCK" -Z ls
    is_usage_error "$ROWLOCK" ls --nonsense
    is_usage_error "$ROWLOCK" ls -aZ
    is_usage_error "$ROWLOCK" ls operand
    is_usage_error "$ROWLOCK" ls --all=yes
    is_usage_error "$ROWLOCK" ls --al
    is_usage_error "$ROWLOCK" show
    is_usage_error "$ROWLOCK" show one two
    is_usage_error "$ROWLOCK" break
    is_usage_error "$ROWLOCK" break one two
    is_usage_error "$ROWLOCK" break --reason
    is_usage_error "$ROWLOCK" history one two
    is_usage_error "$ROWLOCK" init operand
    is_usage_error "$ROWLOCK" sweep operand
    is_usage_error "$ROWLOCK" doctor operand
}

@test "wrong values of options: 64" {
    for port in 0 65536 -1 x 3306x ""; do
        is_usage_error "$ROWLOCK" -P "$port" ls
    done
    for limit in 0 100001 -1 x ""; do
        is_usage_error rl history --limit="$limit"
    done
    for duration in "" x -1 +1 1x 1.s .5 1e3 "1 s" 99999999999999999999 1h30m; do
        is_usage_error rl init --wait="$duration"
        is_usage_error rl sweep --history="$duration"
        is_usage_error rl sweep --unused="$duration"
        is_usage_error rl sweep --every="$duration"
        is_usage_error rl doctor --ttl="$duration"
        is_usage_error rl ls --connect-timeout="$duration"
    done
    is_usage_error rl sweep --every=0
    is_usage_error rl sweep --history-rows=0
    for ttl in 0 499ms 25h; do
        is_usage_error rl doctor --ttl=$ttl
    done
    for resume in 1 1: :1 1:x 0:1 1:2:3; do
        is_usage_error rl init --resume=$resume
    done
    is_usage_error "$ROWLOCK" --defaults-file="$TEST_DIR/missing.cnf" ls
    [[ "$stderr" == *"missing.cnf"*"No such file"* ]]
}

# --------------------------------------------------------------------- bad names

@test "bad names: one line, 64, nothing changed" {
    long=$(printf 'x%.0s' {1..256})
    wide=$(printf 'é%.0s' {1..256})
    before=$(sql "SELECT COUNT(*) FROM resource")
    for name in "" "$long" "$wide" $'two\nlines' $'bell\a' $'\xff\xfe' $'\xc0\xaf' $'\xed\xa0\x80' " padded" "padded " $'nbsp\xc2\xa0'; do
        for command in show break history; do
            fails_with 64 rl $command -- "$name"
        done
    done
    [ "$(sql "SELECT COUNT(*) FROM resource")" = "$before" ]
}

@test "good names are not refused: 66, no such lock" {
    wide=$(printf 'é%.0s' {1..255})
    for name in x "two words" "$wide" 夜間 -dash --help=x; do
        fails_with 66 rl show -- "$name"
        fails_with 66 rl break -- "$name"
    done
}

# ---------------------------------------------------------------- the connection

@test "no server: 69" {
    for command in init ls "show x" history sweep "break x" doctor; do
        fails_with 69 "$ROWLOCK" --no-defaults -S "$TEST_DIR/no.sock" -u root $command
    done
    fails_with 69 "$ROWLOCK" --no-defaults -h 127.0.0.1 -P 1 -u root ls
}

@test "the server refuses the password: 77, and the password is not told" {
    for command in init ls "show x" history sweep "break x" doctor; do
        fails_with 77 "$ROWLOCK" --no-defaults -S "$ROWLOCK_TEST_SOCKET" -u root -pGeheim7 -D "$TEST_SCHEMA" $command
        [[ "$stderr" != *Geheim7* ]]
    done
}

@test "no schema: 78, and what to do" {
    for command in ls "show x" history sweep "break x"; do
        fails_with 78 rl -D rowlock_none_such $command
        [[ "$stderr" == *"rowlock -D "*" init"* ]]
    done
    fails_with 64 rl -D 'no;schema' ls
}

@test "a schema of a newer program: 78" {
    sql "INSERT INTO rowlock_schema_version (version, name, checksum, breaking, steps, steps_done, applied_by, started_at, applied_at)
         VALUES (9000, 'later', REPEAT('0', 64), 1, 1, 1, 'test', UTC_TIMESTAMP(6), UTC_TIMESTAMP(6))"
    run rl ls
    sql "DELETE FROM rowlock_schema_version WHERE version = 9000"
    [ "$status" -eq 78 ]
}

@test "a table changed by hand: 76" {
    sql "ALTER TABLE resource DROP KEY resource_name"
    run rl ls
    sql "ALTER TABLE resource ADD UNIQUE KEY resource_name (resource_name)"
    [ "$status" -eq 76 ]
    rl ls
}

@test "a user without rights: 77" {
    user=$(user_of bare)
    sql_any "CREATE OR REPLACE USER '$user'@'localhost'"
    fails_with 77 "$ROWLOCK" --no-defaults -S "$ROWLOCK_TEST_SOCKET" -u "$user" -D "$TEST_SCHEMA" ls
    fails_with 77 "$ROWLOCK" --no-defaults -S "$ROWLOCK_TEST_SOCKET" -u "$user" -D "${TEST_SCHEMA}_x" init
}

@test "a read-only server: looking works, changing is 73" {
    own_server start --fresh >/dev/null
    socket=$(own_server socket)
    "$ROWLOCK" --no-defaults -S "$socket" -u root init -q
    mariadb --no-defaults -S "$socket" -u root rowlock -e "
        CREATE USER plain@localhost; GRANT ALL ON rowlock.* TO plain@localhost; GRANT ALL ON other.* TO plain@localhost;
        INSERT INTO resource (resource_name, kind, status, version, owner, acquired_at, lease_expires_at, update_time)
        VALUES ('x', 'optimistic', 'held', 3, 'o', UTC_TIMESTAMP(6), UTC_TIMESTAMP(6) + INTERVAL 1 HOUR, UTC_TIMESTAMP(6));
        INSERT INTO lease_renewal (id) VALUES (LAST_INSERT_ID());
        SET GLOBAL read_only = 1"
    plain=("$ROWLOCK" --no-defaults -S "$socket" -u plain)
    [ "$("${plain[@]}" ls --json | jq -r '.[0].state')" = held ]
    "${plain[@]}" show x
    "${plain[@]}" history
    fails_with 73 "${plain[@]}" sweep
    fails_with 73 "${plain[@]}" break x
    fails_with 73 "${plain[@]}" run y true
    fails_with 73 "${plain[@]}" -D other init
    run "${plain[@]}" doctor
    [ "$status" -eq 1 ]
    [[ "$output" == *BROKEN*read-only* ]]
    [ "$("${plain[@]}" ls --json | jq -r '.[0].token')" = 3 ]
    own_server remove
}

with_password() {
    user=$(user_of pw)
    sql_any "CREATE OR REPLACE USER '$user'@'localhost' IDENTIFIED BY 'Ge#heim@7/:'; GRANT ALL ON \`$TEST_SCHEMA\`.* TO '$user'@'localhost'"
}

@test "the password: option, URL, environment, option file" {
    with_password
    base=("$ROWLOCK" -S "$ROWLOCK_TEST_SOCKET" -u "$user" -D "$TEST_SCHEMA")
    "${base[@]}" --no-defaults --password='Ge#heim@7/:' ls
    "${base[@]}" --no-defaults '-pGe#heim@7/:' ls
    "${base[@]}" ls '-pGe#heim@7/:' --no-defaults
    MYSQL_PWD='Ge#heim@7/:' "${base[@]}" --no-defaults ls
    fails_with 77 "${base[@]}" --no-defaults ls
    url="mysql://$user:Ge%23heim%407%2F%3A@localhost/$TEST_SCHEMA?socket=$ROWLOCK_TEST_SOCKET"
    "$ROWLOCK" --no-defaults --url="$url" ls
    "$ROWLOCK" --no-defaults ls --url "$url"
    ROWLOCK_URL=$url "$ROWLOCK" --no-defaults ls
    # An option wins over the URL.
    run env ROWLOCK_URL="$url" "$ROWLOCK" --no-defaults -pwrong ls
    [ "$status" -eq 77 ]
    # A wrong URL is told without its password.
    run "$ROWLOCK" --no-defaults --url "mysql://$user:Geheim7@localhost/no/such/path" ls
    [ "$status" -eq 64 ]
    [[ "$output" != *Geheim7* ]]
    run "$ROWLOCK" --no-defaults --url "postgres://$user:Geheim7@localhost/x" ls
    [ "$status" -eq 64 ]
    [[ "$output" != *Geheim7* ]]
    # A mistyped option as well.
    run "$ROWLOCK" --passwd=Geheim7 ls
    [ "$status" -eq 64 ]
    [[ "$output" != *Geheim7* ]]
    run "$ROWLOCK" -p Geheim7 ls
    [ "$status" -eq 64 ]
    [[ "$output" != *Geheim7* ]]
}

@test "option files: groups [client] and [rowlock], the usual ones, one alone, none" {
    with_password
    (
        umask 077
        printf '[client]\nsocket=%s\n[rowlock]\nuser=%s\npassword="Ge#heim@7/:"\n[mysqldump]\nuser=nobody\n' \
            "$ROWLOCK_TEST_SOCKET" "$user" >"$TEST_DIR/both.cnf"
    )
    "$ROWLOCK" --defaults-file="$TEST_DIR/both.cnf" -D "$TEST_SCHEMA" ls
    "$ROWLOCK" ls --defaults-file "$TEST_DIR/both.cnf" -D "$TEST_SCHEMA"
    # ~/.my.cnf is one of the usual ones.
    mkdir -p "$TEST_DIR/home"
    cp "$TEST_DIR/both.cnf" "$TEST_DIR/home/.my.cnf"
    HOME="$TEST_DIR/home" "$ROWLOCK" -D "$TEST_SCHEMA" ls
    HOME="$TEST_DIR/home" run "$ROWLOCK" --no-defaults -S "$TEST_DIR/no.sock" -u root -D "$TEST_SCHEMA" ls
    [ "$status" -eq 69 ]
    HOME="$TEST_DIR/home" run "$ROWLOCK" --defaults-file="$TEST_OPTIONS" -D "$TEST_SCHEMA" -u "$user" ls
    [ "$status" -eq 77 ]
}

@test "an option file's character set, database, reconnect and init-command do no harm" {
    (
        umask 077
        printf '[client]\nsocket=%s\nuser=root\ndefault-character-set=latin1\ndatabase=mysql\nreconnect\ninit-command="SET autocommit=0, time_zone=\x27+05:00\x27"\n' \
            "$ROWLOCK_TEST_SOCKET" >"$TEST_DIR/latin1.cnf"
    )
    a_lock "Nächtlich"
    run "$ROWLOCK" --defaults-file="$TEST_DIR/latin1.cnf" -D "$TEST_SCHEMA" ls --json
    [ "$status" -eq 0 ]
    [ "$(jq -r '.[0].name' <<<"$output")" = "Nächtlich" ]
    "$ROWLOCK" --defaults-file="$TEST_DIR/latin1.cnf" -D "$TEST_SCHEMA" show "Nächtlich"
}

@test "a password in the arguments is not in the process list" {
    with_password
    ln -sf "$TEST_DIR/nothing-here" "$TEST_DIR/hidden.sock"
    "$ROWLOCK" --no-defaults -S "$TEST_DIR/hidden.sock" '-pGeheim7-a' --password='Geheim7-b' \
        --url "mysql://root:Geheim7-c@localhost/x" --url=mysql://root:Geheim7-d@localhost/x \
        -vpGeheim7-e sweep --every=1h --password=Geheim7-f 2>"$TEST_DIR/hidden.err" &
    pid=$!
    poll 20 grep -q "trying again" "$TEST_DIR/hidden.err"
    tr '\0' ' ' <"/proc/$pid/cmdline" >"$TEST_DIR/cmdline"
    ps -o args= -p $pid >>"$TEST_DIR/cmdline"
    kill $pid
    wait $pid
    cat "$TEST_DIR/cmdline"
    grep -q sweep "$TEST_DIR/cmdline"
    run ! grep Geheim "$TEST_DIR/cmdline"
    run ! grep Geheim "$TEST_DIR/hidden.err"
}

@test "a bare -p asks on the terminal, without echo" {
    with_password
    coproc terminal {
        SHELL=$BASH exec script -qefc "'$ROWLOCK' --no-defaults -S '$ROWLOCK_TEST_SOCKET' -u '$user' -D '$TEST_SCHEMA' -p ls --json" /dev/null 2>&1
    }
    pid=$terminal_PID
    seen=""
    until [[ "$seen" == *"password: " ]]; do
        IFS= read -r -t 20 -d '' -N 1 char <&"${terminal[0]}"
        seen+=$char
    done
    printf 'Ge#heim@7/:\r' >&"${terminal[1]}"
    rest=$(cat <&"${terminal[0]}")
    wait "$pid"
    [[ "$rest" == *"[]"* ]]
    [[ "$rest" != *heim* ]]
}

@test "a bare -p without a terminal: 64" {
    run --separate-stderr setsid -w "$ROWLOCK" -p ls </dev/null
    [ "$status" -eq 64 ]
    [[ "$stderr" == *"no terminal"* ]]
}

# -------------------------------------------------------------------------- init

@test "init: made, up to date, quiet" {
    schema=${TEST_SCHEMA}_i
    run --separate-stderr rl -D "$schema" init
    [ "$status" -eq 0 ]
    [ -z "$stderr" ]
    [[ "$output" =~ ^schema\ at\ version\ [0-9]+$ ]]
    run --separate-stderr rl -D "$schema" init
    [ "$status" -eq 0 ]
    [ -z "$stderr" ]
    [[ "$output" =~ ^schema\ up\ to\ date\ \(version\ [0-9]+\)$ ]]
    run rl -D "$schema" init -q
    [ "$status" -eq 0 ]
    [ -z "$output" ]
    sql_any "DROP DATABASE $schema"
    run rl -D "$schema" init --quiet
    [ "$status" -eq 0 ]
    [ -z "$output" ]
    sql_any "DROP DATABASE $schema"
}

@test "init does not stand in everybody's way behind a held lock" {
    local schema="${TEST_SCHEMA}_held"
    rl -D "$schema" init -q
    sql_any "DELETE FROM \`$schema\`.rowlock_schema_version WHERE version = 2;
        ALTER TABLE \`$schema\`.resource_lock DROP COLUMN fenced;
        INSERT INTO \`$schema\`.resource_lock (id, resource_name, update_time) VALUES (1, 'x', NOW(6))"
    coproc holder { mariadb --defaults-file="$TEST_OPTIONS" -N --unbuffered "$schema" 2>&1; }
    pid=$holder_PID
    echo "BEGIN; SELECT resource_name FROM resource_lock WHERE id = 1 FOR UPDATE;" >&"${holder[1]}"
    read -r -t 20 line <&"${holder[0]}"
    [ "$line" = x ]
    run --separate-stderr rl -D "$schema" init
    echo "$stderr"
    [ "$status" -eq 1 ]
    [[ "$stderr" == *"0002_fenced"*"a transaction is using the table"* ]]
    kill "$pid"
    wait "$pid" || true
    rl -D "$schema" init
    sql_any "DROP DATABASE \`$schema\`"
}

@test "init on a terminal shows its steps" {
    schema=${TEST_SCHEMA}_i
    run on_terminal 100 "$ROWLOCK" --defaults-file="$TEST_OPTIONS" -D "$schema" init
    sql_any "DROP DATABASE $schema"
    [ "$status" -eq 0 ]
    [[ "${lines[0]}" == "0001_foundation 1/"*": CREATE TABLE"* ]]
    [[ "${lines[-1]}" == "schema at version "* ]]
}

@test "two at once: one works, the other waits, both end well" {
    schema=${TEST_SCHEMA}_i
    rl -D "$schema" init >"$TEST_DIR/first" &
    one=$!
    rl -D "$schema" init >"$TEST_DIR/second" &
    two=$!
    wait $one
    wait $two
    sql_any "DROP DATABASE $schema"
    cat "$TEST_DIR/first" "$TEST_DIR/second" | sort | tr '\n' ' ' | grep -q "^schema at version .* schema up to date"
}

# -------------------------------------------------------------------- ls and show

@test "ls: nothing held" {
    a_free_lock idle
    run --separate-stderr rl ls
    [ "$status" -eq 0 ]
    [ -z "$output" ]
    [ -z "$stderr" ]
    run --separate-stderr rl ls --json
    [ "$output" = "[]" ]
    run on_terminal 80 "$ROWLOCK" --defaults-file="$TEST_OPTIONS" -D "$TEST_SCHEMA" ls
    [ "$status" -eq 0 ]
    [ "$output" = "rowlock: no lock is held" ]
}

@test "ls: a table, without colour and cuts where stdout is no terminal" {
    label="batch@db1 4711 $(printf 'argument %.0s' {1..20})end"
    a_lock nightly-close 192 3600 "$label"
    a_lock 夜間バッチ 5 3600
    a_free_lock idle
    run --separate-stderr rl ls
    [ "$status" -eq 0 ]
    [ -z "$stderr" ]
    [ "${#lines[@]}" -eq 3 ]
    [[ "${lines[0]}" =~ ^NAME\ +STATE\ +MODE\ +HOLDER\ +SINCE\ +REMAINING\ +TOKEN$ ]]
    [[ "${lines[1]}" =~ ^nightly-close\ +held\ +lease\ +"$label"\ +3m1[2-9]s\ +59m[0-9]+s\ +42$ ]]
    [[ "$output" != *$'\t'* ]]
    [[ "$output" != *$'\033'* ]]
    # By display width: the columns behind the wide characters stand where the title does.
    head=${lines[0]%%STATE*}
    wide=${lines[2]%%held*}
    [ "${#wide}" -eq $((${#head} - 5)) ]
    run rl ls -a
    [ "${#lines[@]}" -eq 4 ]
    [[ "$output" =~ idle\ +free\ +lease\ +-\ +-\ +-\ +7 ]]
}

@test "ls on a terminal: fits, cuts with …, colours unless NO_COLOR" {
    a_lock nightly-close 192 3600 "batch@db1 4711 $(printf 'argument %.0s' {1..20})"
    command=("$ROWLOCK" --defaults-file="$TEST_OPTIONS" -D "$TEST_SCHEMA" ls)
    for columns in 70 80 120; do
        NO_COLOR=1 run on_terminal $columns "${command[@]}"
        [ "$status" -eq 0 ]
        [ "${#lines[@]}" -eq 2 ]
        [ "${#lines[1]}" -eq $columns ]
        [[ "${lines[1]}" == "nightly-close"*"batch@db1"*"…"* ]]
        [[ "$output" != *$'\033'* ]]
    done
    TERM=xterm run on_terminal 80 "${command[@]}"
    [[ "$output" == *$'\033[32mheld\033[0m'* ]]
}

@test "ls: more names than a page" {
    sql "INSERT INTO resource (resource_name, kind, status, version, owner, owner_label, acquired_at, lease_expires_at, update_time)
         SELECT CONCAT('many-', LPAD(seq, 5, '0')), 'optimistic', 'held', seq, 'o', 'l', UTC_TIMESTAMP(6),
                UTC_TIMESTAMP(6) + INTERVAL 1 HOUR, UTC_TIMESTAMP(6) FROM seq_1_to_2000"
    rl ls --json >"$TEST_DIR/many.json"
    [ "$(jq 'length' "$TEST_DIR/many.json")" -eq 2000 ]
    [ "$(jq '[.[].name] | unique | length' "$TEST_DIR/many.json")" -eq 2000 ]
    [ "$(jq -r '.[1999].name' "$TEST_DIR/many.json")" = many-02000 ]
    [ "$(rl ls | wc -l)" -eq 2001 ]
}

@test "ls --json: types and values" {
    a_lock nightly-close
    a_free_lock idle
    run --separate-stderr rl --json ls -a
    [ "$status" -eq 0 ]
    jq -e '.[1] | .name == "nightly-close" and .mode == "lease" and .state == "held" and .token == 42
           and .owner == "owner-1" and .owner_label == "batch@db1 4711 close.sh"
           and (.acquired_at | test("^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}\\.[0-9]{6}Z$"))
           and .held_ms >= 192000 and .remaining_ms > 3500000 and .connection_id == null
           and .description == ""' <<<"$output"
    jq -e '.[0] | .name == "idle" and .state == "free" and .held_ms == null and .remaining_ms == null
           and .expires_at == null' <<<"$output"
}

@test "ls: expired and shut" {
    a_lock gone 100 -10
    a_free_lock closed
    sql "UPDATE resource SET not_before = UTC_TIMESTAMP(6) + INTERVAL 1 HOUR WHERE resource_name = 'closed'"
    run rl ls --json
    jq -e '.[0].name == "closed" and .[0].state == "shut" and .[0].remaining_ms > 3500000' <<<"$output"
    jq -e '.[1].name == "gone" and .[1].state == "expired"' <<<"$output"
    run rl ls
    [[ "$output" =~ closed\ +shut\ +lease\ +-\ +-\ +59m ]]
    [[ "$output" =~ gone\ +expired\ +lease\ +batch ]]
    run rl show closed
    [[ "$output" =~ opens\ +20.*\ UTC\ \(in\ 59m ]]
}

@test "show: one lock" {
    a_lock nightly-close
    run --separate-stderr rl show nightly-close
    [ "$status" -eq 0 ]
    [ -z "$stderr" ]
    [[ "$output" =~ name\ +nightly-close ]]
    [[ "$output" =~ state\ +held ]]
    [[ "$output" =~ mode\ +lease ]]
    [[ "$output" =~ holder\ +"batch@db1 4711 close.sh" ]]
    [[ "$output" =~ token\ +42 ]]
    [[ "$output" =~ since\ +20.*\ UTC\ \(3m1[2-9]s\ ago\) ]]
    [[ "$output" =~ until\ +20.*\ UTC\ \(in\ 59m ]]
    run rl show --json nightly-close
    jq -e '.name == "nightly-close" and .token == 42' <<<"$output"
    # Options may stand behind the name.
    run rl show nightly-close --json
    jq -e '.state == "held"' <<<"$output"
    fails_with 66 rl show none-such
    fails_with 66 rl show --json none-such
}

# ------------------------------------------------------------------------ history

@test "history: the oldest first, by name, the newest so many" {
    run --separate-stderr rl history
    [ "$status" -eq 0 ]
    [ -z "$output" ]
    [ -z "$stderr" ]
    run rl history --json
    [ "$output" = "[]" ]
    an_event nightly acquired 30
    an_event other acquired 20
    an_event nightly released 10 "done well"
    run --separate-stderr rl history
    [ "$status" -eq 0 ]
    [ -z "$stderr" ]
    [ "${#lines[@]}" -eq 4 ]
    [[ "${lines[0]}" =~ ^WHEN.*EVENT\ +NAME\ +TOKEN\ +HOLDER\ +WAITED\ +HELD\ +EXIT\ +DETAIL$ ]]
    [[ "${lines[1]}" =~ ^20[-0-9:]+\ [0-9:]+\ +acquired\ +nightly\ +42\ +"batch@db1 4711 close.sh"\ +12ms\ +-\ +3\ +-$ ]]
    [[ "${lines[3]}" =~ released\ +nightly.*"done well"$ ]]
    run rl history --json nightly
    [ "$(jq -c '[.[].event]' <<<"$output")" = '["acquired","released"]' ]
    jq -e '.[1] | .name == "nightly" and .mode == "lease" and .token == 42 and .waited_ms == 12
           and .held_ms == null and .exit_status == 3 and .detail == "done well"
           and (.happened_at | endswith("Z")) and (.id | type == "number")' <<<"$output"
    run rl history -n 1 --json
    [ "$(jq -c '[.[].event]' <<<"$output")" = '["released"]' ]
    run rl history -n2 --json
    [ "$(jq -c '[.[].name]' <<<"$output")" = '["other","nightly"]' ]
    run rl history none-such
    [ "$status" -eq 0 ]
    [ -z "$output" ]
}

# -------------------------------------------------------------------------- sweep

@test "sweep: frees the dead, forgets, purges, and says so" {
    a_lock dead 100 -10
    a_lock alive
    a_free_lock old 7200
    a_free_lock young
    an_event x acquired 7200
    an_event x released 10
    run --separate-stderr rl sweep --history=1h --unused=1h
    [ "$status" -eq 0 ]
    [ -z "$stderr" ]
    [ "$output" = "expired locks freed: 1, events forgotten: 1, names purged: 1" ]
    state_is dead free
    state_is alive held
    state_is young free
    fails_with 66 rl show old
    run rl history --json dead
    jq -e '.[-1].event == "expired"' <<<"$output"
    run rl sweep --json
    [ "$(jq -c . <<<"$output")" = '{"expired":0,"events":0,"purged":0}' ]
    run rl sweep --json --history-rows=1 --unused=never --history=forever
    jq -e '.events >= 1 and .purged == 0' <<<"$output"
    [ "$(rl history --json | jq length)" -eq 1 ]
    run rl sweep --history=0
    [ "$(rl history --json | jq length)" -eq 0 ]
}

@test "sweep --every: again and again, until it is told to end" {
    rl_exec sweep --every=100ms --json >"$TEST_DIR/sweeps" 2>"$TEST_DIR/sweeps.err" &
    pid=$!
    poll 20 test -e "$TEST_DIR/sweeps"
    a_lock dead 100 -10
    poll 20 state_is dead free
    a_lock dead-too 100 -10
    poll 20 state_is dead-too free
    kill -TERM $pid
    wait $pid
    [ "$(jq -s 'map(.expired) | add' "$TEST_DIR/sweeps")" -eq 2 ]
    [ ! -s "$TEST_DIR/sweeps.err" ]
}

@test "sweep --every: an outage is told once, and waited out" {
    own_server start --fresh >/dev/null
    own=("$ROWLOCK" --no-defaults -S "$(own_server socket)" -u root)
    "${own[@]}" init -q
    own_server kill
    # It may start before the server does.
    "${own[@]}" --connect-timeout=10s sweep --every=100ms --json >"$TEST_DIR/outage" 2>"$TEST_DIR/outage.err" &
    pid=$!
    poll 20 grep -q "trying again every 100ms" "$TEST_DIR/outage.err"
    own_server restart >/dev/null
    poll 30 grep -q "sweeping again after" "$TEST_DIR/outage.err"
    poll 20 grep -q expired "$TEST_DIR/outage"
    [ "$(wc -l <"$TEST_DIR/outage.err")" -eq 2 ]
    # And outlive it.
    own_server kill
    poll 30 lines_are "$TEST_DIR/outage.err" 3
    own_server restart >/dev/null
    poll 30 lines_are "$TEST_DIR/outage.err" 4
    cat "$TEST_DIR/outage.err"
    kill -INT $pid
    wait $pid
    [ "$(grep -c "trying again" "$TEST_DIR/outage.err")" -eq 2 ]
    [ "$(grep -c "sweeping again" "$TEST_DIR/outage.err")" -eq 2 ]
    jq -es 'length > 1' "$TEST_DIR/outage"
    own_server remove
}

lines_are() {
    [ "$(wc -l <"$1")" -eq "$2" ]
}

@test "sweep --every: what no waiting mends ends it" {
    run timeout 20 "$ROWLOCK" --defaults-file="$TEST_OPTIONS" -D rowlock_none_such sweep --every=100ms
    [ "$status" -eq 78 ]
}

# -------------------------------------------------------------------------- break

@test "break: takes it, says what it broke, and keeps the reason" {
    a_lock stuck
    run --separate-stderr rl break --reason="host is gone" stuck
    [ "$status" -eq 0 ]
    [ -z "$stderr" ]
    [[ "$output" =~ ^"broke stuck: held by batch@db1 4711 close.sh for 3m1"[2-9]"s (lease, token 42)"$ ]]
    state_is stuck free
    run rl history --json stuck
    jq -e '.[-1] | .event == "broken" and (.detail | contains("host is gone"))' <<<"$output"
    [ "$(rl show --json stuck | jq .token)" -gt 42 ]
}

@test "break: free already: 1; no such lock: 66" {
    a_free_lock idle
    fails_with 1 rl break idle
    fails_with 66 rl break none-such
}

@test "a lock that run holds: seen, and broken in both modes" {
    for mode in lease pessimistic; do
        rl_exec run --mode=$mode --ttl=10s --label="the $mode holder" guarded-$mode -- sleep 60 2>"$TEST_DIR/run.err" &
        pid=$!
        poll 20 state_is guarded-$mode held
        run rl ls
        [[ "${lines[1]}" =~ ^guarded-$mode\ +held\ +$mode\ +"the $mode holder"\ .*\ [0-9]+$ ]]
        run rl show --json guarded-$mode
        jq -e --arg mode $mode '.mode == $mode and .owner_label == "the \($mode) holder" and .token > 0' <<<"$output"
        jq -e '(.mode == "lease" and .connection_id == null and .remaining_ms <= 10000)
               or (.connection_id > 0 and .remaining_ms == null)' <<<"$output"
        run --separate-stderr rl break guarded-$mode
        [ "$status" -eq 0 ]
        [ -z "$stderr" ]
        [[ "$output" == "broke guarded-$mode: held by the $mode holder for "*" ($mode, token "*")" ]]
        status=0
        wait $pid || status=$?
        [ "$status" -eq 75 ]
        # The server takes a moment to clear up behind a connection that it ended.
        run rl show --json guarded-$mode
        jq -e '.state == "free" or .state == "expired"' <<<"$output"
        run rl history --json guarded-$mode
        jq -e 'any(.event == "acquired") and any(.event == "broken") and any(.event == "lost")' <<<"$output"
    done
}

# ------------------------------------------------------------------------- doctor

@test "doctor: a healthy server" {
    run --separate-stderr rl doctor
    [ "$status" -eq 0 ]
    [ -z "$stderr" ]
    [[ "$output" == *fine* ]]
    [[ "$output" != *BROKEN* ]]
    # A schema that is not there is a finding, not a failure to look.
    run rl -D rowlock_none_such doctor
    [ "$status" -eq 1 ]
    [[ "$output" == *BROKEN*"rowlock -D "*" init"* ]]
    run --separate-stderr rl doctor --json --ttl=10s
    [ "$status" -eq 0 ]
    [ -z "$stderr" ]
    jq -e 'length >= 8 and all(.[]; (.check | length > 0) and (.found | length > 0)
           and (.level | IN("fine", "note", "care"))
           and (if .level == "care" then (.follows != "" and .remedy != "") else true end))' <<<"$output"
}

@test "doctor: says what is broken and what to do: 1" {
    user=$(user_of bare)
    sql_any "DROP USER IF EXISTS '$user'@'localhost'; CREATE USER '$user'@'localhost'; GRANT SELECT ON \`$TEST_SCHEMA\`.* TO '$user'@'localhost'"
    run --separate-stderr "$ROWLOCK" --no-defaults -S "$ROWLOCK_TEST_SOCKET" -u "$user" -D "$TEST_SCHEMA" doctor
    echo "$output"
    [ "$status" -eq 1 ]
    [[ "$output" == *BROKEN*"GRANT"* ]]
}

@test "doctor: procedures of which one is missing" {
    rl init -q --procedures
    rl doctor --json | jq -e '.[] | select(.check == "procedures") | .level == "fine"'
    # Who was granted one sees one: that does not make the others missing.
    sql_any "DROP USER IF EXISTS '$(user_of one)'@'localhost'; CREATE USER '$(user_of one)'@'localhost'; GRANT SELECT ON \`$TEST_SCHEMA\`.* TO '$(user_of one)'@'localhost';
             GRANT EXECUTE ON PROCEDURE \`$TEST_SCHEMA\`.rowlock_check TO '$(user_of one)'@'localhost'"
    "$ROWLOCK" --no-defaults -S "$ROWLOCK_TEST_SOCKET" -u "$(user_of one)" -D "$TEST_SCHEMA" doctor --json >"$BATS_TEST_TMPDIR/one" || true
    sql "DROP PROCEDURE rowlock_try"
    rl doctor --json >"$BATS_TEST_TMPDIR/missing"
    rl init | grep -q '^procedures installed: 1 of '
    rl doctor --json | jq -e '.[] | select(.check == "procedures") | .level == "fine"'
    [[ "$(rl init)" =~ "procedures up to date: all "[0-9]+", the internal ones counted"$ ]]
    [[ "$(rl init --remove-procedures)" =~ "procedures removed: "[0-9]+", the internal ones counted"$ ]]
    [[ "$(rl init --remove-procedures)" == *"there were no procedures" ]]
    jq -e '.[] | select(.check == "procedures") | .level == "note" and (.found | startswith("1 of "))' "$BATS_TEST_TMPDIR/one"
    jq -e '.[] | select(.check == "procedures") | .level == "care" and (.found | test("^1 of [0-9]+ are missing, rowlock_try ")) and (.remedy | contains("rowlock init"))' "$BATS_TEST_TMPDIR/missing"
}

@test "doctor on a terminal keeps to its width" {
    NO_COLOR=1 run on_terminal 70 "$ROWLOCK" --defaults-file="$TEST_OPTIONS" -D "$TEST_SCHEMA" doctor
    [ "$status" -eq 0 ]
    printf '%s\n' "$output" | awk 'length > 70 && NF > 3 { print; bad = 1 } END { exit bad }'
}

# ------------------------------------------------------------- what is in the tables

@test "names, labels and details steer no terminal" {
    evil=$'esc\033[31m nl\nret\r tab\t del\x7f c1\xc2\x9b31m rlo\xe2\x80\xae end'
    a_lock "$evil" 10 3600 "$evil"
    a_lock "plain" 10 3600 "$evil"
    an_event "$evil" acquired 5 "$evil"
    for arguments in "ls" "ls --json" "show plain" "show plain --json" "history" "history --json"; do
        rl $arguments >"$TEST_DIR/evil" 2>&1
        is_harmless "$TEST_DIR/evil"
        NO_COLOR=1 on_terminal 300 "$ROWLOCK" --defaults-file="$TEST_OPTIONS" -D "$TEST_SCHEMA" $arguments >"$TEST_DIR/evil"
        is_harmless "$TEST_DIR/evil"
    done
    [ "$(rl ls | wc -l)" -eq 3 ]
    [[ "$(rl ls)" == *'esc\x1b[31m nl\nret\r tab\t del\x7f c1\u009b31m rlo\u202e end'* ]]
    # For programs it is the very same text.
    [ "$(rl ls --json | jq -r '.[0].name')" = "$evil" ]
    rl break plain >"$TEST_DIR/evil" 2>&1
    is_harmless "$TEST_DIR/evil"
    # An error that quotes the argument.
    run "$ROWLOCK" $'no\033[31m\ncommand'
    printf '%s' "$output" >"$TEST_DIR/evil"
    [ "${#lines[@]}" -eq 2 ]
    is_harmless "$TEST_DIR/evil"
}

# ---------------------------------------------------------------- where stdout ends

@test "--via=procedures holds with option files, too: in a schema without procedures, 78" {
    run rl --via=procedures ls
    [ "$status" -eq 78 ]
    [[ "$output" == *"init --procedures"* ]]
    ROWLOCK_URL="mysql:///$TEST_SCHEMA?via=procedures" run "$ROWLOCK" --defaults-file="$TEST_OPTIONS" ls
    [ "$status" -eq 78 ]
}

@test "with EXECUTE alone and without via=procedures: 77, and what to use" {
    user=$(user_of bare)
    rl init -q --procedures
    sql_any "DROP USER IF EXISTS '$user'@'localhost'; CREATE USER '$user'@'localhost'; GRANT EXECUTE ON \`$TEST_SCHEMA\`.* TO '$user'@'localhost'"
    run "$ROWLOCK" --no-defaults -S "$ROWLOCK_TEST_SOCKET" -u "$user" -D "$TEST_SCHEMA" ls
    rl init -q --remove-procedures
    echo "$output"
    [ "$status" -eq 77 ]
    [[ "$output" == *"may EXECUTE rowlock's procedures: use via=procedures;"*"GRANT SELECT ON"* ]]
}

# Once for all commands; the rest stays in the option file.
@test "with EXECUTE alone: ROWLOCK_URL says via=procedures, an option overrides it" {
    user=$(user_of bare)
    rl init -q --procedures
    sql_any "DROP USER IF EXISTS '$user'@'localhost'; CREATE USER '$user'@'localhost'; GRANT EXECUTE ON \`$TEST_SCHEMA\`.* TO '$user'@'localhost'"
    printf '[client]\nuser=%s\nsocket=%s\n' "$user" "$ROWLOCK_TEST_SOCKET" >"$TEST_DIR/app.cnf"
    app() { ROWLOCK_URL="mysql:///$TEST_SCHEMA?via=procedures" "$ROWLOCK" --defaults-file="$TEST_DIR/app.cnf" "$@"; }
    app run for-it -- true
    app run --mode=pessimistic for-a-row -- true
    [[ "$(app ls --all)" == *for-a-row*free*for-it*free* ]]
    [[ "$(app show for-it)" == *"["$user"]"* ]]
    app doctor
    app run --ttl=10s for-long -- sleep 60 3>&- &
    poll 20 state_is for-long held
    [[ "$(app break --reason="it hangs" for-long)" == "broke for-long: "* ]]
    [[ "$(rl history for-long)" == *"it hangs [$user]"* ]]
    status=0
    wait $! || status=$?
    [ "$status" -eq 75 ]
    for arguments in history sweep "bench --seconds=100ms" "ls --via=tables"; do
        run app $arguments
        [ "$status" -eq 77 ]
    done
    [[ "$output" == *"may EXECUTE rowlock's procedures: use via=procedures;"* ]]
    rl init -q --remove-procedures
}

@test "--waiting: an option overrides what ROWLOCK_URL says, either way" {
    # Level of the doctor's finding: "fine" where waiters are woken, "note" where they poll.
    way() { # URL'S-WAITING ARGUMENTS...
        ROWLOCK_URL="mysql:///?waiting=$1" rl "${@:2}" doctor --json | jq -r '.[] | select(.check == "waiting") | .level'
    }
    [ "$(way poll)" = note ]
    [ "$(way poll --waiting=auto)" = fine ]
    [ "$(way auto)" = fine ]
    [ "$(way auto --waiting=poll)" = note ]
}

@test "a full disk is told: 74" {
    a_lock nightly-close
    an_event nightly-close acquired
    for arguments in ls "ls --json" "show nightly-close" history sweep doctor --version --help "ls --help"; do
        run --separate-stderr bash -c "rl $arguments >/dev/full"
        [ "$status" -eq 74 ]
        [ "$stderr" = "rowlock: cannot write the output: No space left on device" ]
    done
}

@test "a closed pipe is not complained of" {
    a_lock nightly-close
    for arguments in ls "ls --json" --help; do
        # Descriptor 3 is a pipe whose reader has ended.
        run --separate-stderr bash -c "exec 3> >(exit 0); wait \$!; rl $arguments >&3"
        [ "$status" -eq 74 ]
        [ -z "$stderr" ]
    done
}
