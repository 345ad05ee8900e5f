#!/usr/bin/env bats
# rowlock migrate: what files may contain, what the history says, what is refused, how it is repaired, and which
# migrator may work when. Killed and paused processes: migrate_death.bats.

load helpers
load migrate_helpers

setup() {
    cd "$BATS_TEST_TMPDIR"
    migrate_setup
}

# The rest of a test is for MariaDB only.
mariadb_only() {
    ! is_mysql || skip "the rest is MariaDB's"
}

# stop_at LINE...: 0001_a.sql has these lines, for `fails`. stops LINE...: it fails in one of them.
# goes_on LINE...: it has these, and succeeds.
stop_at() {
    file 0001_a.sql "$@"
    migrate
}

stops() {
    run -81 stop_at "$@"
}

goes_on() {
    file 0001_a.sql "$@"
    rl migrate -q --into="$APP" "$DIR"
}

state_of() { # NUMBER
    migrate status --json | jq -r ".[] | select(.number == $1).state"
}

# files NUMBER...: for each, writes 000N_x.sql, which notes N.
files() {
    for i in "$@"; do
        file "000${i}_x.sql" "$(see "$i")"
    done
}

@test "files are applied in the order of their numbers, once; what is new later" {
    file 0010_ten.sql "$(see ten)"
    file 0002_two.sql "$(see two)"
    file 1_one.sql "$(see one)" "$(see more)"
    echo "not a migration" >"$DIR/README.md"
    run -0 migrate
    [[ ${lines[0]} =~ ^"1_one.sql: 2 statements in "[0-9.]+m?s$ ]]
    [ "${lines[3]}" = "$APP is at 10 (3 files applied)" ]
    [ "$(seen)" = "one more two ten" ]
    run -0 migrate
    [ "$output" = "$APP is up to date (10)" ]
    file 20260101120000_date.sql "$(see date)"
    run -0 migrate -q
    [ -z "$output" ]
    [ "$(seen)" = "one more two ten date" ]
    migrate status
    [ "$(migrate status --json | jq -r '[.[] | .state] | unique | join(" ")')" = applied ]
}

@test "delimiters, procedures, comments, quotes, results and a file without an end" {
    cat >"$DIR/0001_all.sql" <<'SQL'
# a comment; with a semicolon
/* another; */ INSERT INTO seen (what) VALUES ('a;b'), ("c\";d"), ('e''f;') -- ; no end
;
DELIMITER //
CREATE PROCEDURE p(n INT)
BEGIN
  DECLARE i INT DEFAULT 0;
  WHILE i < n DO
    INSERT INTO seen (what) VALUES (CONCAT('p', i)); -- //
    SET i = i + 1;
  END WHILE;
  SELECT 'a result'; SELECT 'and another' UNION SELECT 2;
END //
CREATE TRIGGER tr BEFORE INSERT ON seen FOR EACH ROW BEGIN SET NEW.what = UPPER(NEW.what); END//
DELIMITER ;
CALL p(2);
SELECT * FROM seen;
/*!50000 INSERT INTO seen (what) VALUES ('run;') */;
/*!99999 INSERT INTO seen (what) VALUES ('never') */;
SQL
    printf "INSERT INTO seen (what) VALUES ('last')" >>"$DIR/0001_all.sql"
    migrate
    [ "$(seen)" = "a;b c\";d e'f; P0 P1 RUN; LAST" ]
}

@test "a byte order mark, CR LF, and the checksum that does not mind" {
    printf '\xef\xbb\xbf%s\r\n%s\r\n' "$(see one)" "$(see two)" >"$DIR/0001_a.sql"
    migrate -q
    [ "$(seen)" = "one two" ]
    goes_on "$(see one)" "$(see two)"
    file 0001_a.sql "$(see one)" "$(see three)"
    fails 68 "0001_a.sql is not what was applied at *" migrate
}

@test "each file has a session of its own, with the server's defaults" {
    sql_any "CREATE DATABASE \`${APP}_other\`"
    file 0001_a.sql "USE \`${APP}_other\`;" "CREATE TABLE here (a INT);" "SET autocommit = 0, @x = 1;" "COMMIT;"
    file 0002_b.sql "INSERT INTO seen (what) SELECT CONCAT(DATABASE() = '$APP', @x IS NULL, @@autocommit = 1, @@sql_mode = @@GLOBAL.sql_mode);"
    run migrate -q
    sql_any "DROP DATABASE \`${APP}_other\`"
    [ "$status" -eq 0 ]
    seen
    [ "$(seen)" = 1111 ]
}

@test "sql_mode: a file says its own, and may not change how it is read" {
    goes_on "-- rowlock: sql_mode=ANSI_QUOTES,NO_BACKSLASH_ESCAPES" \
        "INSERT INTO \"seen\" (\"what\") VALUES ('a\\');" "INSERT INTO \"seen\" (\"what\") VALUES ('b');"
    [ "$(seen)" = 'a\ b' ]
    file 0002_b.sql "SET SESSION sql_mode = 'NO_BACKSLASH_ESCAPES';" "$(see not)"
    fails 64 "0002_b.sql, statement 2 of 2 (line 2, *): the file changes its sql_mode *" migrate
    [ "$(seen)" = 'a\ b' ]
    rm "$DIR"/0002_b.sql
    migrate -q repair --forget=2
    # A mode that the server does not have is refused before anything is run or noted in the history.
    file 0002_b.sql "$(see not)"
    file 0003_c.sql "-- rowlock: sql_mode=ANSI_QUOTE" "$(see not)"
    fails 64 "0003_c.sql: this server takes no sql_mode=ANSI_QUOTE" migrate
    [ "$(seen)" = 'a\ b' ]
    rm "$DIR"/0002_b.sql "$DIR"/0003_c.sql
    migrate -q
}

@test "sql_mode: the modes that read quotes in another way, by their short names" {
    local modes=(ANSI) i=0
    is_mysql || modes+=(ORACLE MSSQL POSTGRESQL DB2 MAXDB)
    for mode in "${modes[@]}"; do
        file "$((++i))_x.sql" "-- rowlock: sql_mode=$mode" "INSERT INTO \"seen\" (\"what\") VALUES ('$mode');"
    done
    migrate -q
    [ "$(seen)" = "${modes[*]}" ]
}

@test "what a file may not be is refused before anything is run" {
    file 0001_good.sql "$(see good)"
    refused() { # PATTERN: with the file 0002_bad.sql, or what else the test has made
        fails 64 "$1" migrate
        fails 64 "$1" migrate status
        [ "$(seen)" = - ]
    }
    # The pattern of the message, and the file as a format of printf.
    while IFS='|' read -r pattern text; do
        # shellcheck disable=SC2059
        printf -- "${text//@/$(see x)}\n" >"$DIR/0002_bad.sql"
        refused "0002_bad.sql$pattern"
    done <<'CASES'
, line 2: a quote is not closed|@\nSELECT 'open;
, line 4: a body with BEGIN ... END ends at its first semicolon*DELIMITER*|CREATE PROCEDURE p()\nBEGIN\n  SELECT 1;\nEND;
, line 2: a backslash outside of quotes*|@\nSELECT 1\\G
, line 1: that is a command of the mysql client*|source other.sql
 has no statement; write one, or take the file away|-- nothing
: "-- rowlock: transactoin" is not known*|-- rowlock: transactoin\n@
, line 2: "-- rowlock: transaction" counts at the top of the file alone*|/* licence */\n-- rowlock: transaction\n@
, line 3: `ALTER TABLE*would end the transaction*|-- rowlock: transaction\n@\nALTER TABLE seen ADD x INT;
, line 2: that is not UTF-8|SELECT 1;\nSELECT "\xff";
, line 3: a NUL byte|SELECT 1;\n\nSELECT "\0";
CASES
    rm "$DIR/0002_bad.sql"
    mkdir "$DIR/0002_bad.sql"
    refused "0002_bad.sql is not a file"
    rmdir "$DIR/0002_bad.sql"
    for wrong in "1_same.sql|0001_good.sql and 1_same.sql have the same number*" "seed.sql|seed.sql is not named as a migration*"; do
        file "${wrong%%|*}" "$(see x)"
        refused "${wrong#*|}"
        rm "$DIR/${wrong%%|*}"
    done
}

@test "a statement that is larger than the server takes is told before anything is run" {
    [ "$(sql_any "SELECT @@GLOBAL.max_allowed_packet <= 67108864")" = 1 ] || skip "the server takes a lot"
    file 0001_a.sql "$(see one)"
    { echo; printf "SELECT '"; head -c 67108865 /dev/zero | tr '\0' x; echo "';"; } >"$DIR/0002_b.sql"
    fails 64 "0002_b.sql, line 2: the statement has 6710887? bytes*max_allowed_packet*" migrate
    [ "$(seen)" = - ]
}

@test "an error: what was before it stays, and the next run goes on with the mended statement" {
    file 0001_a.sql "$(see one)" "SET @what = 'two';" "INSERT INTO sene (what) VALUES (@what);" "$(see three)"
    fails 81 "0001_a.sql, statement 3 of 4 (line 3, *): *sene'*[(]error 1146); mend it and run again, which goes on behind statement 2" migrate
    [ "$(state_of 1)" = stopped ]
    run -1 migrate status
    [[ $output == *"stopped, the next run goes on: 0001_a.sql, \`INSERT INTO sene "*"\`: "*"error 1146"* ]]
    run migrate --dry-run
    [ "${lines[0]}" = "0001_a.sql: 2 statements left" ]
    [ "${lines[1]%%:*}" = "  3 (line 3)" ]
    # The statements that were run must not be changed.
    file 0001_a.sql "$(see uno)" "SET @what = 'two';" "INSERT INTO seen (what) VALUES (@what);" "$(see three)"
    fails 68 "0001_a.sql was changed in its first statements (2)*" migrate
    goes_on "$(see one)" "SET @what = 'two';" "INSERT INTO seen (what) VALUES (@what);" "$(see three)"
    [ "$(seen)" = "one two three" ]
}

@test "an error: what the session has lost is not done without" {
    stops "CREATE TEMPORARY TABLE t (a INT);" "INSERT INTO nix VALUES (1);" "$(see end)"
    file 0001_a.sql "CREATE TEMPORARY TABLE t (a INT);" "INSERT INTO t VALUES (1);" "$(see end)"
    fails 68 "0001_a.sql stopped behind statement 1 of 3, and what is left needs*" migrate
    migrate repair -q --done=2
    migrate -q
    [ "$(seen)" = end ]
}

@test "an error: a number that LAST_INSERT_ID() gave is missed, also behind other statements" {
    child="INSERT INTO seen (what) SELECT CONCAT('child of ', LAST_INSERT_ID());"
    stops "$(see parent)" "INSERT INTO nix VALUES (1);" "$child"
    file 0001_a.sql "$(see parent)" "ALTER TABLE seen COMMENT 'x';" "$child"
    fails 68 "0001_a.sql stopped behind statement 1 of 3, and what is left needs*" migrate
    [ "$(seen)" = parent ]
    # Where nothing was inserted before, nothing is missed.
    migrate repair -q --forget=1
    stops "ALTER TABLE seen COMMENT 'y';" "INSERT INTO nix VALUES (1);"
    goes_on "ALTER TABLE seen COMMENT 'y';" "$(see two)" "INSERT INTO seen (what) SELECT CONCAT('child of ', LAST_INSERT_ID());"
    [ "$(seen)" = "parent two child of 2" ]
    migrate repair -q --forget=1
    stops "SET NAMES utf8mb4;" "INSERT INTO nix VALUES (1);"
    goes_on "SET NAMES utf8mb4;" "$(see four)" "$child"
    [[ "$(seen)" = "parent two child of 2 four child of "* ]]
}

@test "an error: who has decided about a session has not decided about what came later" {
    stops "CREATE TEMPORARY TABLE t (a INT);" "INSERT INTO nix VALUES (1);"
    migrate repair -q --done=1
    stops "CREATE TEMPORARY TABLE t (a INT);" "SELECT 'two' INTO @x;" "INSERT INTO nix VALUES (1);"
    file 0001_a.sql "CREATE TEMPORARY TABLE t (a INT);" "SELECT 'two' INTO @x;" "INSERT INTO seen (what) VALUES (@x);"
    fails 68 "0001_a.sql stopped behind statement 2 of 3, and what is left needs*" migrate
    [ "$(seen)" = - ]
}

@test "an error: a named lock is missed" {
    stops "DO GET_LOCK('$APP', 0);" "INSERT INTO nix VALUES (1);"
    file 0001_a.sql "DO GET_LOCK('$APP', 0);" "$(see two)"
    fails 68 "0001_a.sql stopped behind statement 1 of 2, and what is left needs*" migrate
    mariadb_only
    migrate repair -q --forget=1
    stops "BACKUP LOCK seen;" "INSERT INTO nix VALUES (1);"
    file 0001_a.sql "BACKUP LOCK seen;" "$(see two)"
    fails 68 "0001_a.sql stopped behind statement 1 of 2, and what is left needs*" migrate
}

@test "an error: CR LF in what was run does not count as a change" {
    stops $'INSERT INTO seen (what)\nVALUES (1);' "INSERT INTO nix VALUES (1);"
    file 0001_a.sql $'INSERT INTO seen (what)\r\nVALUES (1);\r' "$(see two)"
    migrate -q
    [ "$(seen)" = "1 two" ]
}

@test "an open transaction: nothing of it counts before its COMMIT, and a file may not end in one" {
    stops "$(see one)" "START TRANSACTION;" "$(see two)" "INSERT INTO nix VALUES (1);" "COMMIT;"
    [ "$(seen)" = one ]
    [ "$(migrate status --json | jq '.[0].done')" = 1 ]
    file 0001_a.sql "$(see one)" "START TRANSACTION;" "$(see two)" "$(see three)"
    fails 64 "0001_a.sql ends in a transaction: what is behind its statement 1 was rolled back*" migrate
    [ "$(seen)" = one ]
    goes_on "$(see one)" "START TRANSACTION;" "$(see two)" "$(see three)" "COMMIT;"
    [ "$(seen)" = "one two three" ]
}

@test "an open transaction: what the server committed in it before a statement that it refused counts" {
    # ALTER TABLE, and a second START TRANSACTION, commit first.
    fails 81 "0001_a.sql, statement 3 of 5 *: Duplicate column * (error 1060); mend it and run again, which goes on behind statement 2" \
        stop_at "START TRANSACTION;" "$(see one)" "ALTER TABLE seen ADD what INT;" "$(see two)" "COMMIT;"
    [ "$(seen)" = one ]
    fails 81 "0001_a.sql, statement 5 of 6 *; mend it and run again, which goes on behind statement 3" \
        stop_at "START TRANSACTION;" "$(see one)" "ALTER TABLE seen ADD more INT;" "START TRANSACTION;" "INSERT INTO nix VALUES (1);" "COMMIT;"
    goes_on "START TRANSACTION;" "$(see one)" "ALTER TABLE seen ADD more INT;" "START TRANSACTION;" "$(see two)" "COMMIT;"
    [ "$(seen)" = "one two" ]
    for again in "START TRANSACTION;" "COMMIT AND CHAIN;" "BEGIN;"; do
        migrate repair -q --forget=1
        sql_any "DELETE FROM \`$APP\`.seen"
        fails 81 "0001_a.sql, statement 5 of 6 *; mend it and run again, which goes on behind statement 2" \
            stop_at "START TRANSACTION;" "$(see one)" "$again" "$(see two)" "INSERT INTO nix VALUES (1);" "COMMIT;"
        [ "$(seen)" = one ]
        goes_on "START TRANSACTION;" "$(see one)" "$again" "$(see two)" "$(see three)" "COMMIT;"
        [ "$(seen)" = "one two three" ]
    done
    # LOCK TABLES commits, too; without autocommit the session is in a transaction behind it all the same.
    migrate repair -q --forget=1
    sql_any "DELETE FROM \`$APP\`.seen"
    fails 81 "0001_a.sql, statement 4 of 5 *; mend it and run again, which goes on behind statement 2" \
        stop_at "SET autocommit = 0;" "$(see one)" "LOCK TABLES seen WRITE;" "INSERT INTO seen (nix) VALUES (1);" "COMMIT;"
    [ "$(seen)" = one ]
    goes_on "SET autocommit = 0;" "$(see one)" "LOCK TABLES seen WRITE;" "$(see two)" "COMMIT;"
    [ "$(seen)" = "one two" ]
    # One that the server does not understand commits nothing.
    migrate repair -q --forget=1
    sql_any "DELETE FROM \`$APP\`.seen"
    fails 81 "0001_a.sql, statement 3 of 4 *: * (error 1064); mend it and run again" \
        stop_at "START TRANSACTION;" "$(see one)" "ALTER TABLE seen ADD;" "COMMIT;"
    [ "$(seen)" = - ]
}

@test "ROW_COUNT() and diagnostics are of the file's own statements, and count as for the mysql client" {
    file 0001_a.sql "$(see a)" "$(see b)" "UPDATE seen SET what = 'a';" "INSERT INTO seen (what) VALUES (ROW_COUNT());" \
        "DELETE FROM seen WHERE what = 'a';" "GET DIAGNOSTICS @n = ROW_COUNT;" "INSERT INTO seen (what) VALUES (@n);"
    migrate -q
    [ "$(seen)" = "1 2" ]
}

@test "-- rowlock: transaction: all or nothing, its line in the history with it" {
    stops "-- rowlock: transaction" "$(see one)" "INSERT INTO nix VALUES (1);"
    [ "$(seen)" = - ]
    [ "$(state_of 1)" = stopped ]
    goes_on "-- rowlock: transaction" "$(see one)" "$(see two)"
    [ "$(seen)" = "one two" ]
}

@test "-- rowlock: transaction: a statement that ended it all the same is found out, and what took effect is kept account of" {
    # Statements that commit or not, depending on earlier ones. (Others that commit are refused at once.)
    file 0001_a.sql "-- rowlock: transaction" "$(see one)" "SET autocommit = 0; SET autocommit = 1;" "$(see two)" "$(see three)"
    fails 64 "0001_a.sql, statement * it ended the transaction that the file asks for; what was before it took effect" \
        migrate
    [ "$(seen)" = one ]
    [ "$(state_of 1)" = stopped ]
    # Runs the rest, without the statements that were run.
    migrate -q
    [ "$(seen)" = "one two three" ]
    [ "$(state_of 1)" = applied ]
}

@test "-- rowlock: transaction: its line goes into its own history, also behind USE and a snapshot" {
    # A history table of the same name, with the token of the same lock, in the schema that the file switches to.
    sql_any "DROP DATABASE IF EXISTS \`${APP}_2\`; CREATE DATABASE \`${APP}_2\`"
    file 0001_a.sql "DO 1;"
    rl migrate -q --into="${APP}_2" "$DIR"
    goes_on "-- rowlock: transaction" "SELECT COUNT(*) FROM seen;" "SELECT SLEEP(0.6);" \
        "$(see one)" "DO 1;" "USE \`${APP}_2\`;"
    migrate -q
    [ "$(seen)" = one ]
    [ "$(state_of 1)" = applied ]
    file 0001_a.sql "DO 1;"
    run rl migrate --into="${APP}_2" "$DIR"
    sql_any "DROP DATABASE \`${APP}_2\`"
    [ "$output" = "${APP}_2 is up to date (1)" ]
}

@test "what may commit in its midst is not taken for undone" {
    sql_any "CREATE PROCEDURE \`$APP\`.half() INSERT INTO nix SELECT 1 FROM (SELECT 1) AS one"
    for statement in "CALL half();" "EXECUTE x;"; do
        file 0001_a.sql "-- rowlock: transaction" "$(see one)" "$statement"
        fails 64 "0001_a.sql, line 3: \`${statement%;}\` may end the transaction*" migrate
    done
    stops "PREPARE x FROM 'CALL half()';" "EXECUTE x;"
    fails 68 "0001_a.sql stopped in statement 2 of 2*whether 2 did is not known*" migrate
    mariadb_only
    file 0001_b.sql "DO 1;" && rm "$DIR/0001_a.sql"
    migrate repair -q --forget=1
    file 0001_b.sql "DELIMITER //" "BEGIN NOT ATOMIC" "$(see one)" "INSERT INTO nix VALUES (1);" "END //"
    run -81 migrate
    fails 68 "0001_b.sql stopped in statement 1 of 1*whether 1 did is not known*" migrate
    [ "$(seen)" = one ]
}

@test "a CALL that failed: which, where, what the server said, that it may have done something, and what to do" {
    mariadb --defaults-file="$TEST_OPTIONS" --delimiter=// "$APP" -e "CREATE PROCEDURE fails(x INT) BEGIN
        INSERT INTO seen (what) VALUES ('half'); SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'it went wrong'; END//"
    # A title is more than the first line if that is only a word.
    file 0001_a.sql "$(see one)" "" "CALL" "  fails(" "    3);" "$(see two)"
    fails 81 "0001_a.sql, statement 2 of 3 (line 3, \`CALL fails\`): it went wrong (error 1644); what it did before that may have taken effect; see \`rowlock migrate status\`" \
        migrate
    fails 68 "0001_a.sql stopped in statement 2 of 3 (line 3): \`CALL fails\`: it went wrong (error 1644); statement 1 took effect; whether 2 did is not known: look, then run \`rowlock migrate repair --done=2\` with this run's options and folder if it did, or with --done=1 if not" \
        migrate
    [ "$(seen)" = "one half" ]
    migrate repair -q --done=2
    migrate -q
    [ "$(seen)" = "one half two" ]
    # A file that may be run again needs no decision.
    migrate repair -q --forget=1
    file 0001_a.sql "-- rowlock: resumable" "CALL fails(3);"
    fails 81 "0001_a.sql, statement 1 of 1 (line 2, *): it went wrong (error 1644); mend it and run again" migrate
}

@test "one transaction: what commits is seen behind a comment that is run; temporary tables do not" {
    for statement in "/*!50000 ALTER TABLE seen COMMENT 'x' */" "/*M! COMMIT */" "/*!99999 SELECT */ DROP TABLE seen" \
        "/*!80000 */ /* c */ /*!50000 TRUNCATE */ seen" "CHECK TABLE seen" "SET PASSWORD = 'x'" \
        "SET STATEMENT max_statement_time = 9 FOR ALTER TABLE seen COMMENT 'x'" "LOAD INDEX INTO CACHE seen" \
        "/*!50000 CALL p() */" "ROLLBACK WORK" "CREATE /*!99999 TEMPORARY */ TABLE x (a INT)" "ALTER TABLE x ADD y INT"; do
        file 0001_a.sql "-- rowlock: transaction" "$(see not)" "$statement;"
        fails 64 "0001_a.sql, line 3: *end the transaction that the file asks for*" migrate
    done
    [ "$(seen)" = - ]
    stops "-- rowlock: transaction" "CREATE TEMPORARY TABLE x (what TEXT);" "SAVEPOINT a;" "$(see never)" \
        "ROLLBACK TO SAVEPOINT a;" "ROLLBACK WORK TO a;" "/*!50000 INSERT INTO x VALUES ('one') */;" "INSERT INTO seen (what) SELECT what FROM x;" \
        "DROP TEMPORARY TABLE x;" "INSERT INTO nix VALUES (1);"
    [ "$(seen)" = - ]
    sed -i '$d' files/0001_a.sql
    migrate -q
    [ "$(seen)" = one ]
}

@test "going on: a SET in a comment that is run is said again" {
    stops "/*!40014 SET FOREIGN_KEY_CHECKS = 0 */;" "INSERT INTO nix VALUES (1);"
    goes_on "/*!40014 SET FOREIGN_KEY_CHECKS = 0 */;" "INSERT INTO seen (what) VALUES (@@foreign_key_checks);"
    [ "$(seen)" = 0 ]
}

@test "one that worked on another server and did not end: refused until it is said to be gone" {
    files 1
    migrate -q
    files 2
    sql_any "UPDATE \`$APP\`.rowlock_migration SET connection_id = 4711, server = 4712 WHERE version = 0"
    fails 68 "the last migrator (*) did not end as it should, and worked on another server than this one: when its connection 4711 has ended there, run *repair --gone*" migrate
    fails 68 "*repair --gone*" migrate repair --relock
    [ "$(seen)" = 1 ]
    run -0 migrate repair --gone
    migrate -q
    [ "$(seen)" = "1 2" ]
}

@test "SET STATEMENT is not said again to the next session; a variable that a procedure filled is missed" {
    sql_any "CREATE PROCEDURE \`$APP\`.give(OUT x INT) SET x = 5"
    stops "CALL give(@x);" "INSERT INTO seen (what) SELECT @x FROM nix;"
    fails 68 "0001_a.sql stopped behind statement 1 of 2, and what is left needs*" migrate
    migrate repair -q --forget=1
    mariadb_only
    file 0001_a.sql "SET STATEMENT max_statement_time = 60 FOR INSERT INTO seen SELECT NULL, 'one';" \
        "INSERT INTO nix VALUES (1);"
    for i in 1 2; do
        run -81 migrate
    done
    [ "$(seen)" = one ]
}

@test "--target, --dry-run, --out-of-order, gaps" {
    files 1 2 4
    run -0 migrate --dry-run --target=2
    [ "${lines[0]}" = "0001_x.sql: 1 statement" ]
    [ "${lines[1]}" = "  1 (line 1): $(see 1 | tr -d ';')" ]
    [ "${#lines[@]}" -eq 4 ]
    [ "$(seen)" = - ]
    [ "$(sql_any "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = '$APP'")" = 1 ]
    migrate -q --target=2
    [ "$(seen)" = "1 2" ]
    fails 64 "there is no file with the number 3" migrate --target=3
    migrate -q
    run migrate status
    [[ $output == *"note: there is no number between 2 and 4"* ]]
    files 3
    fails 68 "0003_x.sql is new, and 4 is in the history already*" migrate
    [ "$(state_of 3)" = late ]
    migrate -q --out-of-order
    [ "$(seen)" = "1 2 4 3" ]
    run migrate --dry-run
    [ "$output" = "nothing to do" ]
}

@test "changed and missing files, and a folder that is older than the schema, are refused; repair" {
    files 1 2 3
    migrate -q
    mv "$DIR/0003_x.sql" .
    fails 68 "0003_x.sql is in the history and newer than all files here*" migrate
    mv 0003_x.sql "$DIR"
    file 0001_x.sql "$(see uno)" "$(see due)"
    fails 68 "0001_x.sql is not what was applied at *" migrate
    fails 68 "0001_x.sql is not what was applied at *" migrate --dry-run
    run -68 migrate status
    [[ $output == *"needs a decision: 0001_x.sql is not what was applied"*"repair --checksums"* ]]
    misused "--dry-run goes with neither 'status' nor 'repair'" migrate repair --dry-run --checksums
    misused "--target and --out-of-order do not go with 'migrate repair'" migrate repair --target=1 --checksums
    run -0 migrate repair --checksums
    [ "$output" = "0001_x.sql: what the file says now counts as what was applied
repaired: 1 file" ]
    run -0 migrate repair --checksums
    [ "$output" = "nothing to repair" ]
    migrate status --json | json '.[0] | .state == "applied" and .statements == 2 and .done == 2'
    migrate -q
    rm "$DIR/0002_x.sql"
    fails 68 "0002_x.sql is in the history, and there is no such file*repair --forget=2*" migrate
    migrate repair -q --forget=2
    run -0 migrate status
    fails 66 "the history has no number 2" migrate repair --forget=2
    fails 66 "no file was stopped half-way*" migrate repair --done=1
    [ "$(seen)" = "1 2 3" ]
}

@test "--json: what was applied, also before an error; what would be run; what was repaired" {
    file 0001_a.sql "$(see one)" "$(see two)"
    file 0002_b.sql "INSERT INTO nix" "VALUES (1);"
    migrate --dry-run --json | json '. == [{"number": 1, "name": "0001_a.sql", "statements": [
            {"statement": 1, "line": 1, "text": "INSERT INTO seen (what) VALUES (\u0027one\u0027)"},
            {"statement": 2, "line": 2, "text": "INSERT INTO seen (what) VALUES (\u0027two\u0027)"}]},
        {"number": 2, "name": "0002_b.sql", "statements": [{"statement": 1, "line": 1, "text": "INSERT INTO nix\nVALUES (1)"}]}]'
    run -81 --separate-stderr migrate --json
    json '.version == 1 and .applied[0].number == 1 and .applied[0].name == "0001_a.sql" and
        .applied[0].statements == 2 and .applied[0].duration_ms >= 0 and (.applied | length) == 1' <<<"$output"
    rm files/0002_b.sql
    migrate --json repair --forget=2 |
        json '. == {"repaired": 1, "files": [{"number": 2, "name": "0002_b.sql", "what": "is not in the history any more"}]}'
    migrate --json | json ".applied == [] and .version == 1 and .schema == \"$APP\""
    [ "$(migrate --json --dry-run)" = "[]" ]
}

@test "--baseline: what was there before rowlock came is not run" {
    files 1 2 3
    run migrate repair --baseline=2
    [ "${lines[*]}" = "0001_x.sql: counts as applied, without having been run 0002_x.sql: counts as applied, without having been run repaired: 2 files" ]
    migrate -q
    [ "$(seen)" = 3 ]
}

@test "a history belongs to one lock; repair hands it over" {
    files 1
    migrate -q
    files 2
    other="the history $APP.rowlock_migration is kept under the lock 'migrate:$APP', not 'other'; use that one (--lock), or*"
    fails 68 "$other" migrate status --lock=other
    fails 68 "$other" migrate --dry-run --lock=other
    fails 68 "$other" migrate --lock=other
    [ "$(seen)" = 1 ]
    # shellcheck disable=SC2154
    [[ $stderr == *", run \`rowlock migrate repair --relock\` with this run's options and folder" ]]
    migrate repair -q --relock --lock=other
    migrate -q --lock=other
    [ "$(seen)" = "1 2" ]
    # The same when there is nothing to do.
    fails 68 "*is kept under the lock 'other', not 'migrate:$APP'*" migrate
    # Another history table has a lock of its own, and its own list of applied files.
    migrate -q --history-table=second --target=1
    [ "$(seen)" = "1 2 1" ]
}

@test "a token that began anew is refused, and repair says that it may" {
    files 1
    migrate -q
    sql_any "UPDATE \`$APP\`.rowlock_migration SET token = 1000000 WHERE version = 0"
    files 2
    fails 68 "*was written under the token 1000000*" migrate
    migrate repair -q --relock
    migrate -q
    [ "$(seen)" = "1 2" ]
}

@test "a connection that has the marker and is not the registered one is ended" {
    files 1
    marker="CONCAT('rowlock.migrate.', LEFT(SHA2('$APP.rowlock_migration', 256), 40))"
    mariadb --defaults-file="$TEST_OPTIONS" -e "SELECT GET_LOCK($marker, 0), SLEEP(60)" >/dev/null 2>&1 3>&- &
    stranger=$!
    poll eval "[ \"\$(sql_any \"SELECT IS_USED_LOCK($marker) IS NOT NULL\")\" = 1 ]"
    migrate -q
    [ "$(seen)" = 1 ]
    # (Not with `run`, whose subshell cannot wait for this shell's child.)
    status=0
    wait "$stranger" || status=$?
    [ "$status" -eq 1 ]
}

@test "while another one is at work: wait so long and no longer; status says running" {
    files 1
    rl_exec run "migrate:$APP" -- sleep 60 3>&- &
    holder=$!
    poll state_is "migrate:$APP" held
    fails 1 "another migrator of the schema $APP is at work: *" migrate --wait=200ms
    kill "$holder"
    wait "$holder" || true
    [ "$(seen)" = - ]
    migrate -q
}

@test "the schema must be there, and be named" {
    files 1
    fails 78 "there is no schema 'no_such_schema' to migrate: CREATE DATABASE no_such_schema first" rl migrate --into=no_such_schema "$DIR"
    run -64 rl migrate "$DIR"
    [[ $output == *"--into=SCHEMA is missing"* ]]
    fails 64 "there is no folder '*/nowhere'" rl migrate --into="$APP" "$DIR/nowhere"
    run -64 rl migrate --into="$APP" --done=1 "$DIR"
    run -64 rl migrate repair --into="$APP" "$DIR"
    fails 64 "the history's name 'a b' is not*" migrate --history-table="a b"
}

@test "a table of another program's is no history" {
    files 1
    sql_any "CREATE TABLE \`$APP\`.rowlock_migration (a INT)"
    fails 76 "the table $APP.rowlock_migration is no history of *" migrate
}

@test "a metadata lock in the way ends with the time that was given" {
    file 0001_x.sql "ALTER TABLE seen ADD extra INT;"
    mkfifo statements
    mariadb --defaults-file="$TEST_OPTIONS" -N -B --unbuffered "$APP" <statements >answers 3>&- &
    blocker=$!
    exec 7>statements
    echo "START TRANSACTION; SELECT COUNT(*) FROM seen; SELECT 'begun';" >&7
    poll grep -q begun answers
    fails 81 "0001_x.sql, statement 1 of 1 [(]*): a transaction uses the table or the row*[(]error 1205)" \
        migrate --table-wait=1
    [ "$(state_of 1)" = stopped ]
    exec 7>&-
    wait "$blocker"
    migrate -q
}

@test "progress is for a terminal" {
    command -v script >/dev/null || skip "script is not installed"
    file 0001_x.sql "$(see 1)" "$(see 'a longer one, so that the line must be cut somewhere')"
    on_terminal 60 rl migrate --into="$APP" "$DIR" >shown
    cat -v shown
    grep -q "\[1/1\] 0001_x.sql 1/2: INSERT INTO seen" shown
    grep -q "^.*0001_x.sql: 2 statements in " shown
    [ "$(tail -n 1 shown)" = "$APP is at 1 (1 file applied)" ]
}

@test "ten at once: each file is applied once, and all ten end well" {
    for i in $(seq 9); do file "000${i}_x.sql" "$(see "$i")" "CREATE TABLE t$i (a INT);" "DROP TABLE t$i;"; done
    pids=()
    for i in $(seq 10); do
        migrate >"out$i" 2>&1 3>&- &
        pids+=($!)
    done
    for pid in "${pids[@]}"; do wait "$pid"; done
    [ "$(seen)" = "$(seq -s ' ' 9)" ]
    [ "$(cat out* | grep -c '^000._x.sql: 3 statements in ')" = 9 ]
    [ "$(cat out* | grep -cE "^$APP is (at 9|up to date)")" = 10 ]
}

@test "repeatable files: behind the numbered ones, by name, and again when they were changed" {
    file R__b_view.sql "$(see b1)"
    file R__a_view.sql "$(see a1)"
    files 1
    run -1 migrate status
    run -0 migrate
    [ "$(seen)" = "1 a1 b1" ]
    [[ "${lines[-1]}" == "$APP is at 1 (3 files applied)" ]]
    run -0 migrate
    [ "$output" = "$APP is up to date (1)" ]
    run -0 migrate status
    [[ "$output" =~ -\ +R__a_view.sql\ +applied ]]
    migrate status --json | json 'map(.number) == [1, null, null]'
    # A numbered file may be added later; a changed repeatable one is run again, from its beginning.
    files 2
    file R__a_view.sql "$(see a2)" "$(see a3)"
    run -1 migrate status
    [[ "$output" =~ R__a_view.sql\ +pending ]]
    migrate --dry-run --json | json 'map(.number) == [2, null]'
    run -0 migrate --dry-run
    [ "${lines[0]}" = "0002_x.sql: 1 statement" ]
    [ "${lines[2]}" = "R__a_view.sql: 2 statements" ]
    migrate -q
    [ "$(seen)" = "1 a1 b1 2 a2 a3" ]
    migrate -q
    # A repeatable file that fails half-way and is changed is run again, as a whole.
    file R__a_view.sql "$(see a4)" "INSERT INTO nix VALUES (1);"
    run -81 migrate
    [[ "$output" == *"R__a_view.sql, statement 2 of 2"* ]]
    file R__a_view.sql "$(see a5)"
    migrate -q
    [ "$(seen)" = "1 a1 b1 2 a2 a3 a4 a5" ]
    # With --target no repeatable file is run. One that is gone is skipped.
    file R__b_view.sql "$(see b2)"
    migrate -q --target=2
    rm "$DIR/R__b_view.sql"
    run -0 migrate status
    migrate -q
    [ "$(seen)" = "1 a1 b1 2 a2 a3 a4 a5" ]
    fails 64 "R__.sql is not named as a migration*" bash -c 'echo "DO 1;" >"$1/R__.sql"; rl migrate --into="$0" "$1"' "$APP" "$DIR"
}

@test "placeholders: values in place of names, in numbered files once, in repeatable ones again when they change" {
    file 0001_a.sql "INSERT INTO seen (what) VALUES ('\${what} and \${more}');"
    file R__r.sql "INSERT INTO seen (what) VALUES ('\${what}');"
    fails 64 "0001_a.sql, line 1: there is no placeholder 'more'; *" migrate --placeholder=what=one
    [ "$(seen)" = - ]
    migrate -q --placeholder=what=one --placeholder=more=two
    [ "$(seen)" = "one and two one" ]
    # The numbered file stays applied, whatever the values are now.
    migrate -q --placeholder=what=three --placeholder=more=four
    [ "$(seen)" = "one and two one three" ]
    run -0 migrate status --placeholder=what=three --placeholder=more=four
    misused "--placeholder wants NAME=VALUE, not 'x'" migrate --placeholder=x
    # Without a value for it, a placeholder is plain text.
    file 0002_b.sql "INSERT INTO seen (what) VALUES ('\${what}');"
    rm "$DIR/R__r.sql"
    migrate -q
    [ "$(seen)" = 'one and two one three ${what}' ]
}

@test "on a terminal of 60 columns, and 40: an error stands on a line of its own, and status fits" {
    file 0001_a_name_that_is_rather_long_for_sixty_columns.sql "$(see one)" "INSERT INTO nix VALUES (1);"
    run -81 on_terminal 60 rl migrate --into="$APP" "$DIR"
    [[ "$output" == *$'\e[Krowlock: 0001_a_name'* ]]
    for columns in 60 40; do
        NO_COLOR=1 run -1 on_terminal $columns rl migrate status --into="$APP" "$DIR"
        printf '%s\n' "${lines[@]:0:2}" >shown
        cat shown
        [ "$(wc -L <shown)" -le $columns ]
        [[ "${lines[1]}" =~ 1\ +0001.*….*sql\ +stopped ]]
    done
}
