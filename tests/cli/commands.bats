#!/usr/bin/env bats
# The command without `run`: usage, the connection, init, doctor; exit statuses, output, bad input. Commands that show
# or change locks: locks.bats.

load helpers

@test "help and version go to stdout; each command has its help, no wider than 80 columns" {
    works "$ROWLOCK" --help
    [[ "${lines[0]}" == "Usage: rowlock "* ]]
    whole=$output
    for form in "-?" help; do
        works "$ROWLOCK" $form
        [ "$output" = "$whole" ]
    done
    for command in $("$ROWLOCK" help commands | sed -nE '/^Commands/,/^$/s/^  ([a-z]+) .*/\1/p' | grep -vx help); do
        [[ "$whole" == *"  $command "* ]]
        works "$ROWLOCK" "$command" --help
        [[ "${lines[0]}" == "Usage: rowlock $command"* ]]
        of_command=$output
        works "$ROWLOCK" help "$command"
        [ "$output" = "$of_command" ]
        whole+=$'\n'$output
    done
    for topic in connection commands; do
        works "$ROWLOCK" help $topic
        whole+=$'\n'$output
    done
    awk 'length > 80 { print; bad = 1 } END { exit bad }' <<<"$whole"
    works "$ROWLOCK" --version
    [[ "$output" =~ ^rowlock\ [0-9]+\.[0-9]+\.[0-9]+$ ]]
    works "$ROWLOCK" -V
    [[ "$output" == "rowlock "* ]]
}

@test "wrong usage: one clear line, 64" {
    # The message, and the arguments; % is an empty one.
    while IFS='|' read -r pattern line; do
        words "$line"
        misused "*$pattern*" "$ROWLOCK" "${arguments[@]}"
    done <<'CASES'
no command|
'lss'|lss
'unlock'; a lock is let go when its command ends|unlock x
'status'; 'rowlock ls' lists the locks|status
|%
|help lss
--nonsense|--nonsense ls
|-Z ls
|ls --nonsense
|ls -aZ
|ls operand
|ls --all=yes
|ls --al
|show
|show one two
|break
|break one two
|break --reason
|history one two
|init operand
|sweep operand
|doctor operand
CASES
}

@test "wrong values of options: 64" {
    # The arguments before the value, and the values.
    while IFS='|' read -r line values; do
        for value in $values; do
            misused "*" rl $line"${value#%}"
        done
    done <<'CASES'
ls --port=|0 65536 -1 x 3306x %
history --limit=|0 100001 -1 x %
history --since=|0 3651d % x -1 +1 1x 1.s .5 1e3 99999999999999999999 1h30 30m1h 1h1h
break --token=|0 -1 x 1x % 18446744073709551616
init --wait=|% x -1 +1 1x 1.s .5 1e3 99999999999999999999 1h30 30m1h 1h1h
sweep --history=|% x -1 +1 1x 1.s .5 1e3 99999999999999999999 1h30 30m1h 1h1h
sweep --unused=|% x -1 +1 1x 1.s .5 1e3 99999999999999999999 1h30 30m1h 1h1h
sweep --every=|0 % x -1 +1 1x 1.s .5 1e3 99999999999999999999 1h30 30m1h 1h1h
doctor --ttl=|0 499ms 25h % x -1 +1 1x 1.s .5 1e3 99999999999999999999 1h30 30m1h 1h1h
ls --connect-timeout=|% x -1 +1 1x 1.s .5 1e3 99999999999999999999 1h30 30m1h 1h1h
sweep --history-rows=|0
CASES
    misused "*missing.cnf*No such file*" "$ROWLOCK" --defaults-file="$TEST_DIR/missing.cnf" ls
}

@test "bad names: one line, 64, nothing changed; good ones are not refused: 66, no such lock" {
    wide=$(printf 'é%.0s' {1..255})
    before=$(sql "SELECT COUNT(*) FROM resource")
    for name in "" "$(printf 'x%.0s' {1..256})" "é$wide" $'two\nlines' $'bell\a' $'\xff\xfe' $'\xc0\xaf' $'\xed\xa0\x80' " padded" "padded " $'nbsp\xc2\xa0'; do
        for command in show break history; do
            fails 64 "*" rl $command -- "$name"
        done
    done
    [ "$(sql "SELECT COUNT(*) FROM resource")" = "$before" ]
    for name in x "two words" "$wide" 夜間 -dash --help=x; do
        fails 66 "*" rl show -- "$name"
        fails 66 "*" rl break -- "$name"
    done
}

@test "no server: 69; the password is refused: 77, and not told; no schema: 78, and what to do" {
    for command in init ls "show x" history sweep "break x" doctor; do
        fails 69 "*" "$ROWLOCK" --no-defaults -S "$TEST_DIR/no.sock" -u root $command
        fails 77 "*" rl_as root -pGeheim7 $command
        [[ "$stderr" != *Geheim7* ]]
        [[ $command == init || $command == doctor ]] || fails 78 "*rowlock -D * init*" rl -D rowlock_none_such $command
    done
    fails 69 "*" "$ROWLOCK" --no-defaults -h 127.0.0.1 -P 1 -u root ls
    fails 64 "*" rl -D 'no;schema' ls
    fails 64 "*there is no role 'king'; there are *batch, *migrator*" "$ROWLOCK" --no-defaults doctor --role=king
}

@test "a user without rights: 77" {
    new_user bare
    # It may be a typing error: no list of rights.
    fails 77 "the schema '$TEST_SCHEMA' is missing, or this user has no rights in it: an administrator runs \`rowlock -D $TEST_SCHEMA init\`, then the GRANTs that \`rowlock -D $TEST_SCHEMA grants USER@HOST\` prints" \
        rl_as bare ls
    fails 77 "the schema 'rowlock' is missing, or * runs \`rowlock init\`, then *" rl_as bare -D rowlock ls
    denied_with 1 rl_as bare -D "${TEST_SCHEMA}_x" init
    # What is refused comes last, with the GRANT of all that it takes.
    new_user bare "SELECT ON \`$TEST_SCHEMA\`.*" "CREATE TEMPORARY TABLES ON \`$TEST_SCHEMA\`.*"
    run -77 rl_as bare init --procedures
    [ "${#lines[@]}" -eq 2 ]
    [[ "${lines[0]}" == "schema up to date (version "* ]]
    [ "${lines[1]}" = "rowlock: to install the procedures takes GRANT SELECT, INSERT, UPDATE, DELETE, CREATE ROUTINE, ALTER ROUTINE, EXECUTE ON \`$TEST_SCHEMA\`.* TO '$(user_of bare)'@'localhost';" ]
}

# denied_with COUNT COMMAND...: it ends with 77, one line with the reason, and one that announces so many statements.
denied_with() {
    local count=$1 line
    shift
    run --separate-stderr "$@"
    echo "exit $status, stderr: $stderr"
    [ "$status" -eq 77 ]
    [ -z "$output" ]
    [ "${#stderr_lines[@]}" -eq $((2 + count)) ]
    [[ "${stderr_lines[0]}" == "rowlock: "* && "${stderr_lines[0]}" != *GRANT* ]]
    [[ "${stderr_lines[1]}" == "rowlock: all that 'rowlock "*"' lacks, for an administrator to run:" ]]
    for line in "${stderr_lines[@]:2}"; do
        [[ "$line" =~ ^GRANT\ [^\;]*\ ON\ [^\;]*\ TO\ \'$(user_of bare)\'@\'localhost\'\;$ ]]
    done
}

@test "what a user lacks, under --log=json: each line is an object" {
    new_user bare "SELECT ON $TEST_SCHEMA.*"
    run -77 --separate-stderr rl_as bare run --log=json x -- true
    jq -es 'length >= 3 and all(has("message")) and any(.message | startswith("GRANT "))' <<<"$stderr"
}

@test "a password behind -p and a blank is not repeated" {
    misused "unexpected argument (a password is given as --password=..., without a blank)" rl show x -p hunter2
    misused "ls takes a pattern such as 'billing/\*' (a password*" rl ls -p hunter2
}

with_password() {
    new_user pw "ALL ON \`$TEST_SCHEMA\`.*"
    user=$(user_of pw)
    sql_any "ALTER USER '$user'@'localhost' IDENTIFIED BY 'Ge#heim@7/:'"
}

@test "the password: option, URL, environment, option file" {
    with_password
    base=("$ROWLOCK" -S "$ROWLOCK_TEST_SOCKET" -u "$user" -D "$TEST_SCHEMA")
    "${base[@]}" --no-defaults --password='Ge#heim@7/:' ls
    "${base[@]}" --no-defaults '-pGe#heim@7/:' ls
    "${base[@]}" ls '-pGe#heim@7/:' --no-defaults
    MYSQL_PWD='Ge#heim@7/:' "${base[@]}" --no-defaults ls
    fails 77 "*" "${base[@]}" --no-defaults ls
    url="mysql://$user:Ge%23heim%407%2F%3A@localhost/$TEST_SCHEMA?socket=$ROWLOCK_TEST_SOCKET"
    "$ROWLOCK" --no-defaults --url="$url" ls
    "$ROWLOCK" --no-defaults ls --url "$url"
    ROWLOCK_URL=$url "$ROWLOCK" --no-defaults ls
    # An option wins over the URL.
    run -77 env ROWLOCK_URL="$url" "$ROWLOCK" --no-defaults -pwrong ls
    # A message about a wrong URL or option does not show its password.
    for wrong in "--url=mysql://$user:Geheim7@localhost/no/such/path" "--url=postgres://$user:Geheim7@localhost/x" \
        --passwd=Geheim7 "-p Geheim7"; do
        run -64 "$ROWLOCK" --no-defaults $wrong ls
        [[ "$output" != *Geheim7* ]]
    done
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
    # ~/.my.cnf is one of the usual option files.
    mkdir -p "$TEST_DIR/home"
    cp "$TEST_DIR/both.cnf" "$TEST_DIR/home/.my.cnf"
    HOME="$TEST_DIR/home" "$ROWLOCK" -D "$TEST_SCHEMA" ls
    HOME="$TEST_DIR/home" run -69 "$ROWLOCK" --no-defaults -S "$TEST_DIR/no.sock" -u root -D "$TEST_SCHEMA" ls
    HOME="$TEST_DIR/home" run -77 rl -u "$user" ls
}

@test "an option file's character set, database, reconnect and init-command do no harm" {
    (
        umask 077
        printf '[client]\nsocket=%s\nuser=root\ndefault-character-set=latin1\ndatabase=mysql\nreconnect\ninit-command="SET autocommit=0, time_zone=\x27+05:00\x27"\n' \
            "$ROWLOCK_TEST_SOCKET" >"$TEST_DIR/latin1.cnf"
    )
    latin1=("$ROWLOCK" --defaults-file="$TEST_DIR/latin1.cnf" -D "$TEST_SCHEMA")
    "${latin1[@]}" run "Nächtlich" true
    works "${latin1[@]}" ls -a --json
    [ "$(jq -r '.[0].name' <<<"$output")" = "Nächtlich" ]
    "${latin1[@]}" show "Nächtlich"
}

@test "a password in the arguments is not in the process list" {
    with_password
    ln -sf "$TEST_DIR/nothing-here" "$TEST_DIR/hidden.sock"
    for url in "--url mysql://root:Geheim7-c@localhost/x" --url=mysql://root:Geheim7-d@localhost/x; do
        rm -f "$TEST_DIR/hidden.err" # what the one before has said
        # shellcheck disable=SC2086 # words
        "$ROWLOCK" --no-defaults -S "$TEST_DIR/hidden.sock" '-pGeheim7-a' --password='Geheim7-b' $url \
            -vpGeheim7-e sweep --every=1h --password=Geheim7-f 2>"$TEST_DIR/hidden.err" &
        pid=$!
        poll grep -q "trying again" "$TEST_DIR/hidden.err"
        tr '\0' ' ' <"/proc/$pid/cmdline" >>"$TEST_DIR/cmdline"
        ps -o args= -p $pid >>"$TEST_DIR/cmdline"
        kill $pid
        wait $pid
    done
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
    exec {screen}<&"${terminal[0]}" # bash closes its own when the coprocess ends
    seen=""
    until [[ "$seen" == *"password: " ]]; do
        IFS= read -r -t 90 -d '' -N 1 char <&"$screen"
        seen+=$char
    done
    printf 'Ge#heim@7/:\r' >&"${terminal[1]}"
    rest=$(cat <&"$screen")
    wait "$pid"
    [[ "$rest" == *"[]"* ]]
    [[ "$rest" != *heim* ]]
}

@test "a bare -p without a terminal: 64" {
    run -64 --separate-stderr setsid -w "$ROWLOCK" -p ls </dev/null
    [[ "$stderr" == *"no terminal"* ]]
}

@test "init: made, up to date, quiet; on a terminal it shows its steps" {
    schema=${TEST_SCHEMA}_i
    works rl -D "$schema" init
    [[ "$output" =~ ^schema\ at\ version\ [0-9]+$ ]]
    works rl -D "$schema" init
    [[ "$output" =~ ^schema\ up\ to\ date\ \(version\ [0-9]+\)$ ]]
    is_silent 0 rl -D "$schema" init -q
    sql_any "DROP DATABASE $schema"
    is_silent 0 rl -D "$schema" init --quiet
    sql_any "DROP DATABASE $schema"
    run -0 on_terminal 100 rl -D "$schema" init
    sql_any "DROP DATABASE $schema"
    [[ "${lines[0]}" == "0001_foundation 1/"*": CREATE TABLE"* ]]
    [[ "${lines[-1]}" == "schema at version "* ]]
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
    read -r -t 90 line <&"${holder[0]}"
    [ "$line" = x ]
    run -1 --separate-stderr rl -D "$schema" init
    [[ "$stderr" == *"0002_fenced"*"a transaction is using the table"* ]]
    # Waits until the server has seen the end, too.
    echo "ROLLBACK; SELECT 'over';" >&"${holder[1]}"
    read -r -t 90 line <&"${holder[0]}"
    [ "$line" = over ]
    kill "$pid"
    wait "$pid" || true
    rl -D "$schema" init
    sql_any "DROP DATABASE \`$schema\`"
}

@test "doctor: a healthy server" {
    works rl doctor
    [[ "$output" == *fine* ]]
    [[ "$output" != *BROKEN* ]]
    # A missing schema is a finding of the doctor, not an error.
    run -1 rl -D rowlock_none_such doctor
    [[ "$output" == *BROKEN*"rowlock -D "*" init"* ]]
    works rl doctor --json --ttl=10s
    json 'length >= 8 and all(.[]; (.check | length > 0) and (.found | length > 0)
           and (.level | IN("fine", "note", "care"))
           and (if .level == "care" then (.follows != "" and .remedy != "") else true end))' <<<"$output"
}

@test "doctor on a terminal keeps to its width" {
    NO_COLOR=1 run -0 on_terminal 70 rl doctor
    printf '%s\n' "$output" | awk 'length > 70 && NF > 3 { print; bad = 1 } END { exit bad }'
}

# via=procedures is set once for all commands; the other settings stay in the option file.
@test "with EXECUTE alone: without via=procedures 77, and what to use; ROWLOCK_URL says it, an option overrides it" {
    rl init -q --procedures
    new_user bare "EXECUTE ON \`$TEST_SCHEMA\`.*"
    run -77 rl_as bare ls
    [[ "$output" == *"may EXECUTE rowlock's procedures: use via=procedures;"*"GRANT SELECT ON"* ]]
    [[ "$output" != *"all that 'rowlock ls' lacks"* ]]
    user=$(user_of bare)
    printf '[client]\nuser=%s\nsocket=%s\n' "$user" "$ROWLOCK_TEST_SOCKET" >"$TEST_DIR/app.cnf"
    app() { ROWLOCK_URL="mysql:///$TEST_SCHEMA?via=procedures" "$ROWLOCK" --defaults-file="$TEST_DIR/app.cnf" "$@"; }
    app run for-it -- true
    app run --mode=pessimistic for-a-row -- true
    [[ "$(app ls --all)" == *for-a-row*free*for-it*free* ]]
    [[ "$(app show for-it)" == *"["$user"]"* ]]
    app doctor
    app run --ttl=20s for-long -- sleep 600 3>&- &
    poll state_is for-long held
    [[ "$(app break --reason="it hangs" for-long)" == "broke for-long: "* ]]
    [[ "$(rl history for-long)" == *"it hangs [$user]"* ]]
    status=0
    wait $! || status=$?
    [ "$status" -eq 75 ]
    for arguments in history sweep "bench --seconds=100ms" "ls --via=tables"; do
        run -77 app $arguments
    done
    [[ "$output" == *"may EXECUTE rowlock's procedures: use via=procedures;"* ]]
    rl init -q --remove-procedures
}

@test "--waiting: an option overrides what ROWLOCK_URL says, either way" {
    # Prints the level of the doctor's finding: "fine" if waiters are woken, "note" if they poll.
    way() { # URL'S-WAITING ARGUMENTS...
        ROWLOCK_URL="mysql:///?waiting=$1" rl "${@:2}" doctor --json | jq -r '.[] | select(.check == "waiting") | .level'
    }
    [ "$(way poll)" = note ]
    [ "$(way poll --waiting=auto)" = fine ]
    [ "$(way auto)" = fine ]
    [ "$(way auto --waiting=poll)" = note ]
}

@test "a schema of the server's own is refused, for locks and for migrations" {
    mkdir -p "$TEST_DIR/none"
    for schema in mysql information_schema PERFORMANCE_SCHEMA Sys; do
        fails 64 "*the schema '$schema' is the server's own*" rl_as root -D "$schema" init
        fails 64 "*the schema '$schema' is the server's own*" "$ROWLOCK" --no-defaults --url="mysql://root@localhost/$schema?socket=$ROWLOCK_TEST_SOCKET" ls
        fails 64 "*the schema '$schema' is the server's own*" rl migrate --into="$schema" "$TEST_DIR/none"
    done
    [ "$(sql_any "SELECT COUNT(*) FROM information_schema.tables WHERE table_name = 'resource_lock' AND table_schema = 'mysql'")" = 0 ]
}

@test "grants: of a URL whose password was not encoded nothing is printed" {
    for url in 'mysql://u:pa/SeCret@db1/shop' 'mysql://u:p@a/SeCret?x@db1' 'mysql://u:pa/ss%53eCret@db1'; do
        ROWLOCK_URL="$url" misused "the URL has an @ after its /; *" "$ROWLOCK" --no-defaults grants 'batch@%'
        [[ "$stderr" != *eCret* ]]
    done
    ROWLOCK_URL='mysql://u:p%40a%2Fb@db1/shop%5f?tls=required' works "$ROWLOCK" --no-defaults grants 'batch@%'
    [[ "$output" == *'`shop_`'* ]]
}

@test "doctor: what is worst first, and one line that counts all" {
    works rl doctor
    [[ "${lines[-1]}" =~ ^([0-9]+\ care\ [(].*[)],\ )?([0-9]+\ note,\ )?[0-9]+\ fine$ ]]
    new_user poor "SELECT ON \`$TEST_SCHEMA\`.*"
    run -1 rl_as poor doctor
    [[ "${lines[0]}" == "BROKEN  privileges"* ]]
    [[ "${lines[-1]}" =~ ^1\ BROKEN\ [(]privileges[)],\ .*[0-9]+\ fine$ ]]
    # The worst findings come first.
    rank=3
    while IFS= read -r line; do
        case $line in BROKEN\ *) new=3 ;; care\ *) new=2 ;; note\ *) new=1 ;; fine\ *) new=0 ;; *) continue ;; esac
        [ "$new" -le "$rank" ]
        rank=$new
    done < <(printf '%s\n' "${lines[@]}")
    [ "$rank" -eq 0 ]
}

@test "doctor: right for a user with EXECUTE alone, who names nothing; a table that is gone is no matter of rights" {
    rl init -q --procedures
    new_user only "EXECUTE ON \`$TEST_SCHEMA\`.*"
    works rl_as only doctor
    [[ "$output" == *"note    via "*"EXECUTE alone"*"--via=procedures"* ]]
    [[ "$output" == *"fine    privileges "* ]]
    [[ "$output" != *"GRANT SELECT"* && "$output" != *"GRANT INSERT"* ]]
    # The doctor checks the role that was asked for.
    run -1 rl_as only doctor --role=batch
    [[ "$output" == *"GRANT "*"SELECT"* ]]
    rl init -q --remove-procedures
    schema="${TEST_SCHEMA}_x"
    "$ROWLOCK" --defaults-file="$TEST_OPTIONS" -D "$schema" init -q
    sql_any "DROP TABLE \`$schema\`.lock_ask"
    run -1 "$ROWLOCK" --defaults-file="$TEST_OPTIONS" -D "$schema" doctor
    [[ "$output" != *"GRANT "* ]]
    [[ "$output" == *BROKEN*lock_ask* ]]
    sql_any "DROP DATABASE \`$schema\`"
}

@test "a wait is 'forever', or 1h30m, in every command that has one" {
    mkdir "$TEST_DIR/files"
    while read -r command before after; do
        "$ROWLOCK" help "$command" | grep -qE '^ +-w, --wait'
        for wait in forever 1h30m; do
            # shellcheck disable=SC2086 # words
            fails 69 "cannot connect *" "$ROWLOCK" --no-defaults -S "$TEST_DIR/none" "$command" ${before/#./} --wait=$wait ${after/FILES/$TEST_DIR/files}
        done
    done <<'CASES'
ask . L
barrier . L 1 -- true
init .
latch wait L
leader . L
migrate --into=app FILES
once --per=1d L -- true
queue take L
run . L -- true
CASES
    # No command with --wait is missing above.
    [ "$(grep -lE '^ +-w, --wait' "$BATS_TEST_DIRNAME"/../../docs/help/*.txt | wc -l)" -eq 9 ]
}
