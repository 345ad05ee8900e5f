# Names: each through every procedure. What is no name is RLINV everywhere, and nothing is made of it;
# what is one, however it looks, is one lock, and the same one as in C and in the shell.
a> CREATE PROCEDURE every(name LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin)
   BEGIN
       DECLARE step INT DEFAULT 0;
       DECLARE token BIGINT UNSIGNED;
       DECLARE state CHAR(5);
       DECLARE said TEXT DEFAULT '';
       DECLARE CONTINUE HANDLER FOR SQLEXCEPTION GET DIAGNOSTICS CONDITION 1 state = RETURNED_SQLSTATE;
       WHILE step < 12 DO
           SET state = '00000';
           CASE step
               WHEN 0 THEN CALL rowlock_acquire(name, 30, 0, token);
               WHEN 1 THEN CALL rowlock_check(name, token);
               WHEN 2 THEN CALL rowlock_renew(name, token, 30);
               WHEN 3 THEN CALL rowlock_release(name, token);
               WHEN 4 THEN CALL rowlock_try(name, 30, token);
               WHEN 5 THEN CALL rowlock_break(name);
               WHEN 6 THEN CALL rowlock_version(name, token);
               WHEN 7 THEN CALL rowlock_bump(name, token);
               WHEN 8 THEN START TRANSACTION; CALL rowlock_row_lock(name, 0); COMMIT;
               WHEN 9 THEN CALL rowlock_row_make(name);
               WHEN 10 THEN START TRANSACTION; CALL rowlock_fence(name, 1); COMMIT;
               WHEN 11 THEN CALL rowlock_present(name, 1);
           END CASE;
           SET said = CONCAT(said, ' ', state);
           SET step = step + 1;
       END WHILE;
       SELECT REPLACE(said, '00000', 'ok') AS each_of_them, COUNT(*) AS rows_of_it,
              COALESCE(MAX(CAST(resource_name AS BINARY) = CAST(name AS BINARY)), '-') AS as_it_is
         FROM resource WHERE resource_name = name;
   END;

# No names
a> CALL every(NULL);
a> CALL every('');
a> CALL every(' ');
a> CALL every(' x');
a> CALL every('x ');
a> CALL every('x\t');
a> CALL every('x\n');
a> CALL every('x\0y');
a> CALL every(CONCAT('x', CHAR(27), '[31m'));
a> CALL every(_utf8mb4 X'C285');
a> CALL every(_utf8mb4 X'78E280A8');
a> CALL every(_utf8mb4 X'C2A078');
a> CALL every(_utf8mb4 X'78E38080');
a> CALL every(_utf8mb4 X'EFBBBF78');
a> CALL every(REPEAT('a', 256));
a> CALL every(REPEAT('a', 100000));
a> CALL every(CONCAT(REPEAT('a', 255), ' '));
a> CALL every(REPEAT(_utf8mb4 X'F09F9092', 256));
a> SELECT COUNT(*) FROM resource;
a> SELECT COUNT(*) FROM lock_event;

# Names: quotes, backslashes, what ends a statement, what begins a comment, what looks like a pattern
a> CALL every('o''clock');
a> CALL every('"quoted"');
a> CALL every('`ticks`');
a> CALL every('back\\slash\\');
a> CALL every('\\''); DROP TABLE resource; --');
a> CALL every('x''; DELETE FROM resource; #');
a> CALL every('/* comment */ -- x');
a> CALL every('/*!50000 x */');
a> CALL every('%s%n%d');
a> CALL every('a%');
a> CALL every('a_');
a> CALL every('{bell}');
a> CALL every('{"a": [1, "b"]}');
a> CALL every('two words');
a> CALL every('NULL');
a> CALL every('0');
a> CALL every('0x41');
a> CALL every('.*(');
a> CALL every(REPEAT('a', 255));
a> CALL every(REPEAT(_utf8mb4 X'F09F9092', 255));
a> CALL every('ключ');
a> CALL every(_utf8mb4 X'F09F9492');

# What is another text is another lock: case, accents, composed or not.
a> CALL every('Nightly');
a> CALL every('nightly');
a> CALL every('nightlý');
a> CALL every(_utf8mb4 X'6E696768746C79CC81');
a> CALL every(_utf8mb4 X'C39F');
a> CALL every('ss');
a> SELECT COUNT(*), COUNT(DISTINCT CAST(resource_name AS BINARY)) FROM resource;

# The same ones in the shell
a> CALL rowlock_acquire('\\''); DROP TABLE resource; --', 30, 0, @t);
$ rowlock show --json "\\'); DROP TABLE resource; --" | jq -c '[.name, .state]'
$ rowlock run -n "\\'); DROP TABLE resource; --" -- echo not reached
a> CALL rowlock_release('\\''); DROP TABLE resource; --', @t);
a> CALL rowlock_acquire(REPEAT(_utf8mb4 X'F09F9092', 255), 30, 0, @t);
$ rowlock run -n "$(printf '🐒%.0s' $(seq 255))" -- echo not reached 2>/dev/null

# A token that is presented stands under the name, whatever that is.
a> CALL rowlock_acquire('{"a": [1, "b"]}', 30, 0, @t);
a> CALL rowlock_present('{"a": [1, "b"]}', @t);
a> CALL rowlock_acquire('"', 30, 0, @t);
a> CALL rowlock_present('"', @t);
a> SELECT JSON_VALID(@rowlock_presented), JSON_LENGTH(@rowlock_presented);
a> CALL rowlock_present('"', NULL);
a> SELECT JSON_VALID(@rowlock_presented), JSON_LENGTH(@rowlock_presented);

# In the words of an error, too
a> CALL rowlock_check('x''; DELETE FROM resource; #', 1);
a> CALL rowlock_check('%s%n%d', 1);
a> CALL rowlock_check(REPEAT(_utf8mb4 X'F09F9092', 255), 9);
a> CALL rowlock_check('nobody''s \\ "%s" /* x', 1);

mask /ERROR [0-9A-Z]{5} [(](1366|1265)[)]/ERROR no such value/
# Other character sets of the client: the same text is the same lock, what cannot be text is none.
login l charset=latin1
l> CALL rowlock_acquire('caf{xE9}', 30, 0, @t);
a> CALL rowlock_try('café', 30, @u);
a> SELECT @u;
l> CALL rowlock_release('caf{xE9}', @t);
a> SELECT HEX(resource_name) FROM resource WHERE resource_name LIKE 'caf%';
l> CALL rowlock_acquire(_utf8mb4 X'636166C3A9', 30, 0, @t);
l> CALL rowlock_check('caf{xE9}', @t);
l> CALL rowlock_release(_utf16 X'00630061006600E9', @t);
a> CALL rowlock_acquire(_binary X'636166C3A9', 30, 0, @t);
a> CALL rowlock_release('café', @t);
a> CALL rowlock_acquire(_binary X'636166C3', 30, 0, @t);
a> CALL rowlock_acquire('caf{xC3}', 30, 0, @t);
a> CALL rowlock_acquire('{xF0}{x9F}{x90}', 30, 0, @t);
mask /ERROR RLINV: the lock's name is not UTF-8; give one that is/ERROR no such value/
a> CALL rowlock_acquire('x{xED}{xA0}{x80}', 30, 0, @t);
a> SET NAMES binary;
a> CALL rowlock_acquire('caf{xC3}', 30, 0, @t);
a> CALL rowlock_acquire('bin{xFF}', 30, 0, @t);
a> SET NAMES utf8mb4;
a> SELECT HEX(resource_name) FROM resource WHERE CAST(resource_name AS BINARY) LIKE BINARY 'caf%' OR resource_name LIKE 'bin%';

# Numbers and dates as names are their texts.
a> CALL rowlock_acquire(42, 30, 0, @t);
a> CALL rowlock_release('42', @t);
a> CALL rowlock_acquire(1.50, 30, 0, @t);
a> CALL rowlock_release('1.50', @t);

# Labels are told as they are, too: nothing in them is taken for the name, a quote, an escape.
a> CALL rowlock_acquire('%s in %s', 60, 0, @t);
a> UPDATE resource SET owner_label = '%s%%n \\ ''q'' "d" \\0 %s' WHERE resource_name = '%s in %s';
b> CALL rowlock_acquire('%s in %s', 60, 0, @t);
b> SET sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES';
b> CALL rowlock_acquire('%s in %s', 60, 0, @t);
b> SET sql_mode = DEFAULT;
b> UPDATE resource SET kind = '%s' WHERE resource_name = '%s in %s';
b> CALL rowlock_check('%s in %s', 1);
