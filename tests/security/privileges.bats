# sql/grants.sql: each user of it can do what it is for and no more; with one right less, the answer
# names the GRANT that is missing. On a server of the flavour ROWLOCK_FLAVOUR.

load ../cli/helpers

setup_file() {
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

teardown_file() {
    : # the server ends with this file
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

# gives STATUS USER COMMAND...
gives() {
    run as "${@:2}"
    echo "${*:2} -> $status: $output"
    [ "$status" -eq "$1" ]
}

# refused USER COMMAND...: what it says, as it must be refused.
refused() {
    gives 77 "$@"
}

# new_user ACCOUNT: without any right.
new_user() {
    sql_any "DROP USER IF EXISTS $1; CREATE USER $1"
}

# run_grants: the statements among $output, one after the other.
run_grants() {
    grep '^GRANT ' <<<"$output" | sql_file
}

# first_grant: of $output, the first statement.
first_grant() {
    grep -o 'GRANT [^;]*;' <<<"$output" | head -n 1
}

# grant_by_grant USER COMMAND...: the first GRANT of each refusal is run as it is, until the command works.
grant_by_grant() {
    local rounds=0 statement
    until run as "$@" && [ "$status" -eq 0 ]; do
        echo "$* -> $status: $output"
        [ "$status" -eq 77 ]
        statement=$(first_grant)
        [ -n "$statement" ]
        sql_any "$statement"
        rounds=$((rounds + 1))
        [ "$rounds" -le 20 ]
    done
}

@test "a GRANT names the account, not the host that was connected from; whatever is in its name" {
    for account in "'wide'@'%'" "'part'@'local%'" "'o''brien'@'%'" "'a\\\\b\`@c'@'%'" "'for table'@'%'"; do
        user=$(sql_any "SELECT LEFT(${account%@*}, 80)" | sed 's/\\\\/\\/')
        sql_any "CREATE USER $account"
        sql_any "GRANT SELECT ON locks.rowlock_schema_version TO $account"
        refused "$user" ls
        [[ ${lines[0]} == *"GRANT SELECT ON \`locks\`.\`resource\` TO $account;"* ]]
        grant_by_grant "$user" ls
        grant_by_grant "$user" run known -- true
        grant_by_grant "$user" run --mode=pessimistic 'known row' -- true
        grant_by_grant "$user" history
        grant_by_grant "$user" sweep
        sql_any "DROP USER $account"
    done
}

@test "a GRANT names the account that has a role, not the role" {
    sql_any "CREATE USER 'member'@'%'; CREATE ROLE readers; GRANT SELECT ON locks.rowlock_schema_version TO readers; GRANT readers TO 'member'@'%'"
    sql_any "SET DEFAULT ROLE readers FOR 'member'@'%'" 2>/dev/null || sql_any "SET DEFAULT ROLE readers TO 'member'@'%'"
    refused member ls
    [[ ${lines[0]} == *"GRANT SELECT ON \`locks\`.\`resource\` TO 'member'@'%';"* ]]
    grant_by_grant member ls
    sql_any "DROP ROLE readers; DROP USER 'member'@'%'"
}

@test "a table that is hidden is not said to be missing: SELECT on it, whichever it is" {
    sql_any "CREATE USER 'hidden'@'%'; GRANT SELECT ON locks.rowlock_schema_version TO 'hidden'@'%'; GRANT INSERT ON locks.lock_event TO 'hidden'@'%'"
    for table in resource resource_lock lease_renewal version_floor lock_total lock_grant latch_down lock_value lock_ask once_run quorum_member queue_item queue_group lock_freeze lock_session; do
        refused hidden ls
        [[ ${lines[0]} == *"GRANT SELECT ON \`locks\`.\`$table\` TO 'hidden'@'%';"* ]]
        sql_any "$(first_grant)"
    done
    as hidden ls
    sql_any "DROP USER 'hidden'@'%'"
}

# doctor_grants USER OPTION...: what the doctor says is missing, as it says it.
doctor_grants() {
    as "$1" doctor "${@:2}" | grep '^GRANT '
}

@test "the doctor: for each role all that is missing and no more, to be run as it is; then it is satisfied" {
    as rowlock_admin init -q --procedures
    for role in batch sweeper looker migrator fencer admin procedures; do
        new_user "'o''doc'@'%'"
        gives 1 "o'doc" doctor --role=$role
        [[ $output == *"BROKEN  privileges    'o''doc'@'%' lacks rights of the role $role: "* ]]
        "$ROWLOCK" -D locks grants --role=$role "o'doc@%" | grep '^GRANT ' >"$BATS_TEST_TMPDIR/all"
        # Those of the administrator are in two statements there.
        [ "$role" = admin ] || diff "$BATS_TEST_TMPDIR/all" <(grep '^GRANT ' <<<"$output")
        run_grants
        gives 0 "o'doc" doctor --role=$role
        [[ $output == *"fine    privileges "* && $output != *$'\nGRANT '* ]]
    done
    sql_any "DROP USER 'o''doc'@'%'"
    as rowlock_admin init -q --remove-procedures
}

@test "the doctor: of a role that is nearly there, the rest; columns are told from tables" {
    sql "REVOKE INSERT (kind), UPDATE (owner, not_before) ON resource FROM 'batch'@'localhost'"
    sql "REVOKE SELECT ON version_floor FROM 'batch'@'localhost'; REVOKE INSERT ON lock_event FROM 'batch'@'localhost';
        REVOKE UPDATE ON lock_total FROM 'batch'@'localhost'"
    doctor_grants batch >"$BATS_TEST_TMPDIR/told"
    doctor_grants batch --role=migrator >"$BATS_TEST_TMPDIR/migrator"
    cat >"$BATS_TEST_TMPDIR/expected" <<'EOF'
GRANT INSERT (kind), UPDATE (owner, not_before) ON `locks`.`resource` TO 'batch'@'localhost';
GRANT SELECT ON `locks`.`version_floor` TO 'batch'@'localhost';
GRANT INSERT ON `locks`.`lock_event` TO 'batch'@'localhost';
GRANT UPDATE ON `locks`.`lock_total` TO 'batch'@'localhost';
EOF
    sql_file <"$BATS_TEST_TMPDIR/told"
    as batch doctor
    diff "$BATS_TEST_TMPDIR/expected" "$BATS_TEST_TMPDIR/told"
    diff "$BATS_TEST_TMPDIR/expected" "$BATS_TEST_TMPDIR/migrator"
    diff - <(doctor_grants batch --role=looker) <<<"GRANT SELECT ON \`locks\`.\`lock_event\` TO 'batch'@'localhost';"
    [ "$(as batch doctor --role=looker --json | jq -r '.[] | select(.check == "privileges") | .remedy')" = "$(doctor_grants batch --role=looker)" ]
}

@test "the doctor: rights by way of a role, of the schema, of all schemas and of a pattern count" {
    new_user "'way'@'%'"
    sql_any "DROP ROLE IF EXISTS sweepers; CREATE ROLE sweepers"
    "$ROWLOCK" -D locks grants --role=sweeper x@y | sed "s/'x'@'y'/sweepers/" | sql_file
    sql_any "GRANT sweepers TO 'way'@'%'"
    gives 1 way doctor --role=sweeper # the role is not active
    sql_any "SET DEFAULT ROLE sweepers FOR 'way'@'%'" 2>/dev/null || sql_any "SET DEFAULT ROLE sweepers TO 'way'@'%'"
    as way doctor --role=sweeper
    sql_any "DROP ROLE sweepers"
    for where in 'locks.*' '*.*' '`lo%`.*' '`l_cks`.*'; do
        new_user "'way'@'%'"
        sql_any "GRANT SELECT, INSERT, UPDATE, DELETE, CREATE, ALTER, CREATE ROUTINE, ALTER ROUTINE, EXECUTE ON $where TO 'way'@'%'"
        for role in batch sweeper looker fencer admin; do
            as way doctor --role=$role
        done
    done
    for where in '`lo`.*' '`locks_`.*' '`lo\_ks`.*'; do
        new_user "'way'@'%'"
        sql_any "GRANT ALL ON $where TO 'way'@'%'"
        gives 1 way doctor --role=fencer
    done
    new_user "'way'@'%'"
    sql_any "GRANT ALL ON locks.* TO 'way'@'%'"
    as way doctor --role=admin
    sql_any "DROP USER 'way'@'%'"
}

@test "a refusal prints all that the command lacks, to be run as it is: then it works" {
    as batch run known -- true
    for command in ls 'show known' 'run new -- true' 'run --mode=pessimistic row -- true' history sweep 'bench --clients=1 --seconds=100ms'; do
        new_user "'none'@'%'"
        sql_any "GRANT SELECT ON locks.rowlock_schema_version TO 'none'@'%'" # else the schema may be missing
        # shellcheck disable=SC2086 # words
        refused none $command
        run_grants
        # shellcheck disable=SC2086
        as none $command
    done
    new_user "'none'@'%'"
    refused none -D other init
    run_grants
    as none -D other init
    as root -D other init --procedures # they have the rights of who makes them
    new_user "'none'@'%'"
    run as none -D other --via=procedures run known -- true
    [ "$(grep '^GRANT ' <<<"$output")" = "GRANT EXECUTE ON \`other\`.* TO 'none'@'%';" ]
    run_grants
    as none -D other --via=procedures run known -- true
    sql_any "DROP DATABASE other; DROP USER 'none'@'%'"
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
    for column in version status owner owner_label connection_id acquired_at lease_expires_at not_before broken fence_count frozen_until guarded update_time; do
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
    one_less lock_total INSERT
    one_less lock_total UPDATE
    for right in INSERT UPDATE DELETE; do
        one_less lock_grant $right
        one_less latch_down $right
        one_less queue_item $right
        one_less queue_group $right
        one_less lock_session $right
    done
    one_less once_run INSERT
    one_less once_run UPDATE
    for right in INSERT UPDATE; do
        one_less lock_ask $right
        one_less lock_freeze $right
    done
    one_less lock_value INSERT
    one_less lock_value UPDATE
    for table in resource resource_lock lease_renewal lock_total lock_grant latch_down lock_value lock_ask once_run queue_item queue_group lock_freeze lock_session rowlock_schema_version; do
        one_less $table SELECT
    done
    as batch doctor
    as batch run 'known lease' -- true
}
