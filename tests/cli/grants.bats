#!/usr/bin/env bats
# `rowlock grants`: its output is that of sql/grants.sql, runs as it is, and is enough for the role.

load helpers

ROLES="admin procedures batch sweeper looker fencer migrator"

setup_file() {
    rowlock_setup_file
    export GRANTS_SQL="$BATS_TEST_DIRNAME/../../sql/grants.sql" ACCOUNT_USER="o'b\\r${TEST_SCHEMA: -14}"
    rl init -q --procedures
}

teardown_file() {
    sql_any "DROP USER IF EXISTS $(account); DROP DATABASE IF EXISTS ${TEST_SCHEMA}_shop; DROP DATABASE IF EXISTS ${TEST_SCHEMA}_2"
    rowlock_teardown_file
}

# Prints the tests' account as SQL; its user's name has a quote and a backslash.
account() {
    printf "'o''b\\\\\\\\r%s'@'%%'" "${TEST_SCHEMA: -14}"
}

# grants_of ARGUMENTS...: prints the grants for the account.
grants_of() {
    rl grants "$@" "$ACCOUNT_USER@%"
}

# granted ARGUMENTS...: makes the account anew, with these grants only.
granted() {
    sql_any "DROP USER IF EXISTS $(account); CREATE USER $(account)"
    grants_of "$@" | mariadb --defaults-file="$TEST_OPTIONS"
}

# as_account ARGUMENTS...: the command, as that account.
as_account() {
    "$ROWLOCK" --no-defaults -S "$ROWLOCK_TEST_SOCKET" -u "$ACCOUNT_USER" -D "$TEST_SCHEMA" "$@"
}

# The statements of sql/grants.sql, one a line.
statements_of_file() {
    sed 's/^ *--.*//' "$GRANTS_SQL" | tr '\n' ' ' | tr -s ' ' | tr ';' '\n' | sed 's/^ //; /^$/d; s/$/;/'
}

@test "grants: the roles of help and man page are those of sql/grants.sql" {
    of_file=$(sed -n 's/^-- role: //p' "$GRANTS_SQL" | sort)
    [ "$of_file" = "$(tr ' ' '\n' <<<"$ROLES" | sort)" ]
    diff - <(rl grants --help | sed -n '/^Roles:/,/^$/s/^  \([a-z]*\) .*/\1/p' | sort) <<<"$of_file"
    awk '/^\.Ss rowlock grants/ { on = 1; next } /^\.Ss/ { on = 0 } on' "$BATS_TEST_DIRNAME/../../docs/man/rowlock.1" >"$BATS_TEST_TMPDIR/page"
    diff - <(sed -n '/-compact/,/^\.El/s/^\.It Cm //p' "$BATS_TEST_TMPDIR/page" | sort) <<<"$of_file"
}

@test "grants: the same statements as in sql/grants.sql, each whole and on a line of its own" {
    statements_of_file >"$BATS_TEST_TMPDIR/file"
    [ "$(wc -l <"$BATS_TEST_TMPDIR/file")" -ge 20 ]
    run -1 grep -vE "^GRANT .* ON \`rowlock\`\..* TO '[a-z_]+'@'localhost';$" "$BATS_TEST_TMPDIR/file"
    for user in rowlock_admin:admin app:procedures batch:batch sweeper:sweeper looker:looker fencer:fencer; do
        "$ROWLOCK" grants --role="${user#*:}" "${user%:*}@localhost" >"$BATS_TEST_TMPDIR/printed"
        run -1 grep -vE '^(GRANT .*;|--.*|)$' "$BATS_TEST_TMPDIR/printed"
        diff <(grep "TO '${user%:*}'@" "$BATS_TEST_TMPDIR/file") <(grep '^GRANT' "$BATS_TEST_TMPDIR/printed")
    done
    # A migrator takes locks, too.
    diff <("$ROWLOCK" grants x@h | grep '^GRANT') <("$ROWLOCK" grants --role=migrator x@h | grep '^GRANT')
}

@test "grants: without --role for who takes locks; without -D for the schema rowlock; no server is asked" {
    works env -u ROWLOCK_URL "$ROWLOCK" --no-defaults -S /nonexistent/socket grants 'batch@%'
    [[ $output == *"ON \`rowlock\`.\`resource\` TO 'batch'@'%';"* ]]
    [ "$output" = "$("$ROWLOCK" grants --role=batch 'batch@%')" ]
    [ "$("$ROWLOCK" --url='mysql://u:p@h/other%24one?waiting=poll' grants x@h | grep -c '^GRANT .* ON `other$one`\.')" -ge 6 ]
    [ "$("$ROWLOCK" --url=mysql://u:p@h/other -D mine grants x@h | grep -c '^GRANT .* ON `mine`\.')" -ge 6 ]
    [ "$(ROWLOCK_URL='mysql://h?socket=/a/b' "$ROWLOCK" grants x@h | grep -c '^GRANT .* ON `rowlock`\.')" -ge 6 ]
}

@test "grants: names are quoted; an account may be given as SQL has it" {
    [[ "$("$ROWLOCK" -D 'a`b' grants "o'brien@10.0.0.%" | grep '^GRANT SELECT,')" == *"ON \`a\`\`b\`."*" TO 'o''brien'@'10.0.0.%';"* ]]
    [[ "$("$ROWLOCK" grants 'a\b@%' | grep '^GRANT')" == *"TO 'a\\\\b'@'%';"* ]]
    [[ "$("$ROWLOCK" grants 'me@home@%' | grep '^GRANT')" == *"TO 'me@home'@'%';"* ]]
    for form in "'o''brien'@'%'" '`o'"'"'brien`@`%`' "\"o'brien\"@\"%\""; do
        [ "$("$ROWLOCK" grants "$form")" = "$("$ROWLOCK" grants "o'brien@%")" ]
    done
    [[ "$("$ROWLOCK" grants --role=migrator --into='s`p' m@h)" == *"GRANT SELECT, INSERT, UPDATE, DELETE, CREATE ON \`s\`\`p\`.* TO 'm'@'h';"* ]]
}

@test "grants: what is no account, no schema, no role" {
    for account in x @% x@ '' "$(printf 'a\nb@%%')" "$(printf 'a\xff@%%')" 'x@h;' "x@h'" 'x@two words' "$(printf '%0129d' 0)@%" "''@'%'"; do
        misused "*" "$ROWLOCK" grants "$account"
        [[ ${stderr_lines[0]} == "rowlock: "*"no user name before the @"* || ${stderr_lines[0]} == *"no host after the @"* ||
            ${stderr_lines[0]} == *"the account as USER@HOST, such as 'batch@%', not '$account'" ]]
    done
    while IFS='|' read -r pattern line; do
        words "$line"
        misused "*$pattern*" "$ROWLOCK" grants "${arguments[@]}"
    done <<CASES
USER@HOST|
|a@b c@d
there is no role 'king'; there are admin, procedures, batch, sweeper, looker, fencer, migrator|--role=king x@h
|-D a$(printf '\a')b x@h
|-D $(printf '%065d' 0) x@h
--role=migrator|--into=shop x@h
|--role=migrator --into= x@h
CASES
}

# Each role is tried with an account that has no other.
@test "grants: each role's statements run as they are, and are enough for it" {
    granted --role=fencer
    granted --role=migrator
    granted
    as_account run lease -- true
    as_account run --mode=pessimistic row -- true
    as_account run --mode=pessimistic --unfenced plain -- true
    granted --role=procedures
    as_account --via=procedures run lease -- true
    as_account --via=procedures run --mode=pessimistic row -- true
    as_account --via=procedures ls
    granted --role=looker
    as_account ls
    as_account show lease
    [[ $(as_account history) == *lease* ]]
    granted --role=sweeper
    as_account sweep --history=1s --unused=1s
    sql_any "CREATE DATABASE ${TEST_SCHEMA}_shop"
    mkdir "$BATS_TEST_TMPDIR/files"
    echo 'CREATE TABLE t (id INT PRIMARY KEY);' >"$BATS_TEST_TMPDIR/files/0001_t.sql"
    granted --role=migrator --into="${TEST_SCHEMA}_shop"
    as_account migrate --into="${TEST_SCHEMA}_shop" "$BATS_TEST_TMPDIR/files"
    sql_any "SELECT COUNT(*) FROM ${TEST_SCHEMA}_shop.t"
    granted -D "${TEST_SCHEMA}_2" --role=admin
    as_account -D "${TEST_SCHEMA}_2" init --procedures
}
