# sql/grants.sql: each user of it can do what it is for and no more; with one right less, the answer
# names the GRANT that is missing. On a server of the flavour ROWLOCK_FLAVOUR.

load ../cli/helpers

setup_file() {
    local status=0
    OWN=$(mktemp -d "${TMPDIR:-/tmp}/rowlock-grants.XXXXXX")
    ROWLOCK_TEST_SOCKET=$("$ROWLOCK_TOOLS/server" start "$OWN/server") || status=$?
    export OWN ROWLOCK_TEST_SOCKET NO_SERVER=
    if [ "$status" -eq 77 ]; then
        rm -rf "$OWN"
        NO_SERVER=yes # and setup() skips each
        return 0
    fi
    [ "$status" -eq 0 ]
    export TEST_SCHEMA=locks TEST_OPTIONS="$BATS_FILE_TMPDIR/options.cnf" HOME="$BATS_FILE_TMPDIR" LC_ALL=C.UTF-8
    unset ROWLOCK_URL MYSQL_PWD
    printf '[client]\nsocket=%s\nuser=root\n' "$ROWLOCK_TEST_SOCKET" >"$TEST_OPTIONS"
    for user in rowlock_admin batch sweeper looker; do
        sql_any "CREATE USER '$user'@'localhost'"
    done
    grants rowlock_admin | sql_file
    as rowlock_admin init -q
    for user in batch sweeper looker; do
        grants "$user" | sql_file
    done
}

setup() {
    [ -z "$NO_SERVER" ] || skip "no such server here"
}

teardown_file() {
    [ -z "${TEST_SCHEMA:-}" ] || "$ROWLOCK_TOOLS/server" remove "$OWN/server"
    rm -rf "$OWN"
}

# grants USER: the statements of sql/grants.sql for it, one a line.
grants() {
    sed 's/--.*//' "$ROWLOCK_TOOLS/../sql/grants.sql" | tr '\n' ' ' | tr -s ' ' | tr ';' '\n' |
        sed -n "s/\`rowlock\`/\`$TEST_SCHEMA\`/; s/^ *\(GRANT .* TO '$1'@'localhost'\) *$/\1;/p"
}

sql_file() {
    mariadb --defaults-file="$TEST_OPTIONS" --no-auto-rehash
}

# as USER COMMAND...
as() {
    local user=$1
    shift
    "$ROWLOCK" --defaults-file="$TEST_OPTIONS" -u "$user" -D "$TEST_SCHEMA" "$@"
}

@test "the script has something for each of them" {
    for user in rowlock_admin batch sweeper looker; do
        [ -n "$(grants "$user")" ]
    done
    ! grep -v '^ *--' "$ROWLOCK_TOOLS/../sql/grants.sql" | grep -i 'ALL\|\*\.\*'
}

@test "the administrator: init again; with one right less it says which" {
    as rowlock_admin init
    for right in CREATE ALTER INSERT SELECT UPDATE; do
        sql_any "DROP DATABASE IF EXISTS spare; CREATE USER IF NOT EXISTS spare@localhost; GRANT CREATE, ALTER, SELECT, INSERT, UPDATE ON spare.* TO spare@localhost; REVOKE $right ON spare.* FROM spare@localhost"
        run "$ROWLOCK" --defaults-file="$TEST_OPTIONS" -u spare -D spare init
        echo "without $right: $output"
        [ "$status" -eq 77 ]
        [[ ${lines[0]} == *'`rowlock init` needs CREATE, ALTER, SELECT, INSERT, UPDATE on spare'* || ${lines[0]} == *'may not create the schema'* ]]
    done
    sql_any "DROP DATABASE IF EXISTS spare; GRANT CREATE, ALTER, SELECT, INSERT, UPDATE ON spare.* TO spare@localhost"
    "$ROWLOCK" --defaults-file="$TEST_OPTIONS" -u spare -D spare init
}

@test "who takes locks: every mode, new names and old, and what it may not is said" {
    for round in 1 2; do
        as batch run lease -- true
        as batch run --mode=pessimistic row -- true
        as batch run --mode=pessimistic --unfenced plain -- true
    done
    # Long enough to be renewed.
    as batch run --ttl=8s renewed -- sleep 5
    as batch ls
    as batch show lease
    as batch run --ttl=10s held -- sh -c 'sleep 60 & wait' & # until it is broken
    pid=$!
    poll 30 state_is held held
    as batch break held
    wait "$pid" || true
    run as batch doctor
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output == *'may do what locks need'* || $output == *'may take locks, but not'* ]]
    for command in history sweep; do
        run as batch $command
        [ "$status" -eq 77 ]
        [[ ${lines[0]} == *"GRANT SELECT ON \`locks\`.\`lock_event\` TO 'batch'@'localhost'"* ]]
    done
    run as batch init
    [ "$status" -eq 0 ] || [ "$status" -eq 77 ]
}

@test "the sweeper: expired ones, history, unused names; but takes no lock" {
    as batch run swept -- true
    sql "UPDATE resource SET status = 'held', lease_expires_at = '2001-01-01' WHERE resource_name = 'swept'"
    [[ $(as sweeper sweep) == *'freed: 1'* ]]
    sql "UPDATE resource SET update_time = '2001-01-01'"
    as sweeper sweep --unused=1s --history=1h --history-rows=1
    [ "$(sql "SELECT COUNT(*) FROM resource")" -eq 0 ]
    [ "$(sql "SELECT COUNT(*) FROM lock_event")" -le 1 ]
    run as sweeper run new -- true
    [ "$status" -eq 77 ]
    [[ ${lines[0]} == *"GRANT INSERT"* ]]
}

@test "who looks: ls, show, history; and changes nothing" {
    as batch run seen -- true
    as looker ls
    as looker show seen
    as looker history | grep -q seen
    rl_exec run --mode=pessimistic row -- sleep 60 &
    poll 30 state_is row held
    as looker ls | grep -q '^row  *held'
    kill $!
    wait || true
    before=$(sql "SELECT * FROM resource; SELECT * FROM lock_event")
    for command in 'run seen -- true' 'run other -- true' 'run --mode=pessimistic row2 -- true'; do
        # shellcheck disable=SC2086 # words
        run as looker $command
        echo "$command: $output"
        [ "$status" -eq 77 ]
        [[ ${lines[0]} == *"this user lacks a privilege: GRANT "*" TO 'looker'@'localhost'"* ]]
    done
    [ "$before" = "$(sql "SELECT * FROM resource; SELECT * FROM lock_event")" ]
}

# one_less TABLE RIGHT [COLUMN]: without it the doctor or a call names it, with the GRANT; and that
# mends it. (MariaDB looks at the columns of an INSERT when it runs, not before.)
one_less() {
    local right=$2${3:+ ($3)} said mode known status=0
    less=$((${less:-0} + 1))
    sql "REVOKE $right ON $1 FROM 'batch'@'localhost'"
    said=$(as batch doctor 2>&1) || true
    for mode in lease pessimistic; do
        for known in "known $mode" "new $mode $less"; do
            run as batch run --mode=$mode "$known" -- true
            [ "$status" -eq 0 ] || [ "$status" -eq 77 ] || [ "$status" -eq 75 ]
            said+=$'\n'$output
        done
    done
    grep GRANT <<<"without $right on $1: $said" | grep -v "PROCESS\|sweep" || true
    [[ $said == *"GRANT "*"$2"*" ON \`locks\`.\`$1\` TO 'batch'@'localhost'"* ]]
    sql "GRANT $right ON $1 TO 'batch'@'localhost'"
}

@test "each right of who takes locks taken away: the doctor names it" {
    as batch run 'known lease' -- true
    as batch run --mode=pessimistic 'known pessimistic' -- true
    for column in resource_name kind version update_time; do
        one_less resource INSERT $column
    done
    for column in version status owner owner_label connection_id acquired_at lease_expires_at not_before fence_count update_time; do
        one_less resource UPDATE $column
    done
    for column in id resource_name fenced update_time; do
        one_less resource_lock INSERT $column
    done
    one_less resource_lock UPDATE fenced
    one_less lease_renewal INSERT id
    one_less lease_renewal UPDATE version
    one_less lease_renewal UPDATE expires_at
    one_less version_floor SELECT
    one_less lock_event INSERT
    for table in resource resource_lock lease_renewal rowlock_schema_version; do
        one_less $table SELECT
    done
    as batch doctor
    as batch run 'known lease' -- true
}

@test "no right at all: 77, and where to look" {
    sql_any "CREATE USER nobody@localhost"
    run as nobody ls
    [ "$status" -eq 77 ]
    [[ ${lines[0]} == *grants.sql* ]]
}
