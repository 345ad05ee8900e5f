# The functions of rowlock_udf.so in a real server.

load helpers

setup_file() {
    : "${ROWLOCK_UDF:?set ROWLOCK_UDF to the path of rowlock_udf.so}"
    udf_setup_file "$ROWLOCK_UDF"
    export ROOT="$BATS_TEST_DIRNAME/../.."
    client <"$ROOT/sql/udf/udf.sql"
    sql 'CREATE TABLE ten (i INT); INSERT INTO ten VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9)'
}

teardown_file() {
    udf_teardown_file
}

# After each test: the same server, and nothing to be seen of it.
setup() {
    PID=$(server_pid)
}
teardown() {
    [ "$(server_pid)" = "$PID" ]
    log_is_clean
}

@test "the file exports what udf.c defines for it, and needs the C library alone" {
    sed -nE 's/^RL_UDF_(INIT|DEINIT)\(([a-z_]+)\)$/\2 \1/p; s/^RL_UDF_(INTEGER|STRING)\(([a-z_]+)\)$/\2/p' \
        "$ROOT/src/udf/udf.c" | sed 's/ INIT/_init/; s/ DEINIT/_deinit/' | sort >"$BATS_TEST_TMPDIR/declared"
    [ "$(wc -l <"$BATS_TEST_TMPDIR/declared")" -gt 10 ]
    nm -D --defined-only "$ROWLOCK_UDF" | awk '{ print $3 }' | sort >"$BATS_TEST_TMPDIR/exported"
    diff "$BATS_TEST_TMPDIR/declared" "$BATS_TEST_TMPDIR/exported"
    [ "$(objdump -p "$ROWLOCK_UDF" | awk '$1 == "NEEDED" { print $2 }')" = libc.so.6 ]
}

@test "udf.sql and udf-remove.sql are about every function; each can be run twice" {
    grep -oE '^RL_UDF_(INTEGER|STRING)\([a-z_]+' "$ROOT/src/udf/udf.c" | sed 's/.*(//' | sort >"$BATS_TEST_TMPDIR/declared"
    for script in udf udf-remove; do
        sed -nE 's/^(CREATE FUNCTION IF NOT|DROP FUNCTION IF) EXISTS ([a-z_]+).*/\2/p' "$ROOT/sql/udf/$script.sql" |
            sort | diff "$BATS_TEST_TMPDIR/declared" -
    done
    client <"$ROOT/sql/udf/udf.sql"
    client <"$ROOT/sql/udf/udf-remove.sql"
    client <"$ROOT/sql/udf/udf-remove.sql"
    fails_with '*does not exist*' 'SELECT rowlock_uuid()'
    not_mapped rowlock_udf.so
    client <"$ROOT/sql/udf/udf.sql"
    mapped rowlock_udf.so
    version=$(sed -n 's/.*VERSION_STRING "\(.*\)"/\1/p' "$ROOT/include/rowlock/version.h")
    yields "$version" 'SELECT rowlock_udf_version()'
}

@test "each function is in rowlock-udf.7 and in udf.md" {
    for function in $(sed -nE 's/^CREATE FUNCTION IF NOT EXISTS ([a-z_]+) .*/\1/p' "$ROOT/sql/udf/udf.sql"); do
        grep -qE "^\.It Fn $function( |\$)" "$ROOT/docs/man/rowlock-udf.7"
        grep -qF "| \`$function(" "$ROOT/docs/udf.md"
    done
    ! command -v mandoc >/dev/null || mandoc -Tlint -W warning "$ROOT/docs/man/rowlock-udf.7"
}

@test "rowlock_token_valid: two tokens, exactly the same" {
    all_yield "SELECT rowlock_token_valid(@)" <<'CASES'
1|5, 5
1|5, '5'
0|5, 6
0|5, NULL
0|0, 0
0|'5 ', 5
0|'05', 5
0|5.0, 5
0|-1, 18446744073709551615
1|18446744073709551615, '18446744073709551615'
0|'18446744073709551616', 18446744073709551616
0|'9007199254740993', 9007199254740992
0|_utf16 x'0035', 5
0|REPEAT('5', 15000000), 5
CASES
    # What SQL itself would say to some of these.
    yields '1	NULL' "SELECT '5x' = 5, NULL = 5"
}

@test "rowlock_token_fresh: not older than the highest seen" {
    all_yield "SELECT rowlock_token_fresh(@)" <<'CASES'
1|5, 5
1|1, 0
0|4, 5
0|0, 0
0|5, NULL
1|18446744073709551615, 9223372036854775808
0|9223372036854775807, 9223372036854775808
0|-1, 5
CASES
}

@test "rowlock_name_valid and rowlock_name_problem: the library's rules" {
    all_yield "SELECT rowlock_name_valid(@), rowlock_name_problem(@)" <<'CASES'
1	NULL|'nightly-close'
1	NULL|7
1	NULL|REPEAT('𝄞', 255)
0	the lock's name '𝄞𝄞𝄞𝄞𝄞𝄞𝄞𝄞𝄞𝄞𝄞𝄞𝄞𝄞𝄞𝄞𝄞𝄞𝄞𝄞𝄞𝄞𝄞𝄞𝄞𝄞𝄞𝄞𝄞𝄞𝄞𝄞𝄞𝄞𝄞𝄞𝄞...' is longer than 255 characters; give a shorter one|REPEAT('𝄞', 256)
0	the lock's name is empty; give one of 1 to 255 characters|NULL
0	the lock's name 'a ' ends with white space|'a '
0	the lock's name has a control character (U+0000, byte 2)|x'610062'
0	the lock's name is not valid UTF-8 (byte 1)|_latin1 x'e9'
1	NULL|CONVERT(_latin1 x'e9' USING utf8mb4)
CASES
    # The longest message is longer than what the server lends for a result.
    yields '549' "SELECT LENGTH(rowlock_name_problem(CONCAT(REPEAT('é', 254), ' ')))"
}

@test "wrong arguments are refused before anything runs" {
    fails_with "*'rowlock_token_valid'; use rowlock_token_valid(presented, current)" 'SELECT rowlock_token_valid()'
    fails_with "*use rowlock_token_fresh(presented, highest_seen)" 'SELECT rowlock_token_fresh(1)'
    fails_with "*use rowlock_name_problem(name)" "SELECT rowlock_name_problem('a', 'b')"
    fails_with "*takes no argument" 'SELECT rowlock_uuid(1)'
    fails_with "*not a floating-point number" 'SELECT rowlock_token_valid(5e0, 5)'
    fails_with "*not a floating-point number" 'SELECT rowlock_token_fresh(5, SQRT(25))'
}

@test "rowlock_uuid: a new one for each row, in order, whatever it is put into" {
    sql "CREATE TABLE runs (id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin PRIMARY KEY, n INT AUTO_INCREMENT UNIQUE)"
    sql 'INSERT INTO runs (id) SELECT rowlock_uuid() FROM ten a, ten b, ten c'
    yields '1000	1000' 'SELECT COUNT(DISTINCT id), MAX(n) - MIN(n) + 1 FROM runs'
    yields 0 "SELECT COUNT(*) FROM runs WHERE id NOT REGEXP '^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}\$'"
    # Its time is now: within an hour of the server's, and rising.
    yields 1 "SELECT MIN(ABS(CONV(CONCAT(LEFT(id, 8), MID(id, 10, 4)), 16, 10) / 1000 - UNIX_TIMESTAMP()) < 3600) FROM runs"
    yields 0 'SELECT COUNT(*) FROM runs a JOIN runs b ON b.n = a.n + 1 WHERE LEFT(b.id, 18) < LEFT(a.id, 18)'
    yields 0 'SELECT rowlock_uuid() = rowlock_uuid()'
    yields 36 "SELECT LENGTH(CONVERT(rowlock_uuid() USING ascii))"
}

@test "rowlock_clock_us: goes on while the statement's time stands still, never back" {
    client --delimiter=// udf -e "CREATE FUNCTION elapsed() RETURNS BIGINT NO SQL BEGIN
             DECLARE since BIGINT DEFAULT rowlock_clock_us();
             DO SLEEP(0.05);
             RETURN rowlock_clock_us() - since;
         END"
    yields 1 'SELECT elapsed() >= 50000'
    yields 1 'SELECT rowlock_clock_us() <= rowlock_clock_us()'
}

@test "in a trigger, a procedure, a prepared statement, a view, and while the server is read-only" {
    sql "CREATE TABLE guarded (token BIGINT UNSIGNED NOT NULL, seen BIGINT UNSIGNED NOT NULL DEFAULT 0)"
    client --delimiter=// udf -e "
        CREATE TRIGGER guard BEFORE UPDATE ON guarded FOR EACH ROW BEGIN
            IF NOT rowlock_token_fresh(NEW.token, OLD.seen) THEN
                SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'an old token';
            END IF;
            SET NEW.seen = NEW.token;
        END//
        CREATE PROCEDURE check_name(name LONGTEXT CHARACTER SET utf8mb4) BEGIN
            DECLARE problem TEXT DEFAULT rowlock_name_problem(name);
            IF problem IS NOT NULL THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = problem; END IF;
        END//
        CREATE VIEW judged AS SELECT rowlock_token_valid(token, seen) AS good FROM guarded//"
    sql 'INSERT INTO guarded VALUES (1, 1); UPDATE guarded SET token = 9007199254740993'
    fails_with '*an old token' 'UPDATE guarded SET token = 9007199254740992'
    yields '9007199254740993	1' 'SELECT token, good FROM guarded, judged'
    sql "CALL check_name('fine')"
    fails_with "*the lock's name 'no ' ends with white space" "CALL check_name('no ')"
    yields '1
0' "PREPARE s FROM 'SELECT rowlock_token_valid(?, ?)'; SET @a = 7, @b = '7', @c = 8; EXECUTE s USING @a, @b; EXECUTE s USING @a, @c"
    sql_any 'SET GLOBAL read_only = 1'
    run sql "CALL check_name('fine'); SELECT rowlock_token_valid(7, 7), LENGTH(rowlock_uuid())"
    sql_any 'SET GLOBAL read_only = 0'
    [ "$output" = '1	36' ]
}

# What a session does over and over.
calls() { # TIMES
    seq "$1" | sed "s/.*/SELECT rowlock_uuid(), rowlock_name_problem('a '), rowlock_token_valid('&', &), rowlock_name_valid(x'ff');/"
}

@test "15,000 statements keep no memory" {
    more=$(seq 10 | sed 's/.*/rowlock_name_problem(NULL), /' | tr -d '\n')
    calls 3000 | sed "s/SELECT /&$more/" >"$BATS_TEST_TMPDIR/calls"
    statements() { client <"$BATS_TEST_TMPDIR/calls"; }
    statements >/dev/null
    # One forgotten message for each use is 21 MB.
    [ "$(keeps statements)" -lt 7000 ]
}

# MySQL 9.7 keeps a file whose function was dropped in a call until it is restarted.
@test "dropped in the middle of a call: that one ends as it began, then MariaDB lets go of the file" {
    mapped rowlock_udf.so
    gate_shut
    sql "SELECT rowlock_name_valid(CONCAT('a', GET_LOCK('gate', 300)))" >"$BATS_TEST_TMPDIR/answer" &
    caller=$!
    poll running 'SELECT rowlock_name_valid%'
    client <"$ROOT/sql/udf/udf-remove.sql"
    fails_with '*1305*' "SELECT rowlock_name_valid('a')"
    running 'SELECT rowlock_name_valid%'
    mapped rowlock_udf.so
    gate_open
    wait "$caller"
    [ "$(cat "$BATS_TEST_TMPDIR/answer")" = 1 ]
    [ "$(kind)" = mysql ] || poll not_mapped rowlock_udf.so
    client <"$ROOT/sql/udf/udf.sql"
}
