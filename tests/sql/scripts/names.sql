# Names: each through every procedure. What is no name is RLINV everywhere, and nothing is made of it;
# what is one, however it looks, is one lock, and the same one as in C and in the shell.
a> CREATE PROCEDURE every(name LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin)
   BEGIN
       DECLARE step INT DEFAULT 0;
       DECLARE token, slot BIGINT UNSIGNED;
       DECLARE reader VARCHAR(63);
       DECLARE value LONGTEXT;
       DECLARE state CHAR(5);
       DECLARE said_of VARCHAR(8);
       DECLARE said TEXT DEFAULT '';
       DECLARE CONTINUE HANDLER FOR SQLEXCEPTION GET DIAGNOSTICS CONDITION 1 state = RETURNED_SQLSTATE;
       WHILE step < 26 DO
           SET state = '00000';
           CASE step
               WHEN 0 THEN CALL rowlock_acquire(name, 30, 0, token);
               WHEN 1 THEN CALL rowlock_check(name, token);
               WHEN 2 THEN CALL rowlock_renew(name, token, 30);
               WHEN 3 THEN CALL rowlock_release(name, token);
               WHEN 4 THEN CALL rowlock_try(name, 30, token);
               WHEN 5 THEN CALL rowlock_break_now(name);
               WHEN 6 THEN CALL rowlock_version(name, token);
               WHEN 7 THEN CALL rowlock_bump(name, token);
               WHEN 8 THEN START TRANSACTION; CALL rowlock_row_lock(name, 0); COMMIT;
               WHEN 9 THEN CALL rowlock_row_make(name);
               WHEN 10 THEN START TRANSACTION; CALL rowlock_fence(name, 1); COMMIT;
               WHEN 11 THEN CALL rowlock_present(name, 1);
               WHEN 12 THEN CALL rowlock_acquire_shared(name, 30, 0, token, reader);
               WHEN 13 THEN CALL rowlock_renew_shared(name, reader, 30);
               WHEN 14 THEN CALL rowlock_release_shared(name, reader);
               WHEN 15 THEN CALL rowlock_acquire_slot(name, 1, 30, 0, slot, token);
               WHEN 16 THEN CALL rowlock_latch_set(name, 1, token);
               WHEN 17 THEN CALL rowlock_latch_down(name, NULL, NULL);
               WHEN 18 THEN CALL rowlock_latch_wait(name, 0, NULL, token);
               WHEN 19 THEN CALL rowlock_set_value(name, 1, 'v');
               WHEN 20 THEN CALL rowlock_leader(name, value, token);
               WHEN 21 THEN CALL rowlock_ask(name, NULL, NULL);
               WHEN 22 THEN CALL rowlock_asked(name, 1, token, reader);
               WHEN 23 THEN CALL rowlock_once_begin(name, 1, '2026-11-23', '2026-11-24', 3, FALSE, said_of, token);
               WHEN 24 THEN CALL rowlock_once_done(name, 1);
               WHEN 25 THEN CALL rowlock_once_failed(name, 1, 1);
           END CASE;
           SET said = CONCAT(said, ' ', state);
           SET step = step + 1;
       END WHILE;
       INSERT INTO said_of SELECT name, REPLACE(said, '00000', 'ok'), COUNT(*),
              COALESCE(MAX(CAST(resource_name AS BINARY) = CAST(name AS BINARY)), '-')
         FROM resource WHERE resource_name = name;
   END;
a> CREATE TABLE said_of (name LONGTEXT, each_of_them VARCHAR(200), rows_of_it INT, as_it_is VARCHAR(1))
   DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;
a> CREATE PROCEDURE all_of_them()
   BEGIN
       SELECT IF(COUNT(*) < 4, GROUP_CONCAT(CHAR_LENGTH(name), ' ', LEFT(name, 1) ORDER BY name SEPARATOR ', '), COUNT(*)) AS which, each_of_them, rows_of_it, as_it_is
         FROM said_of GROUP BY 2, 3, 4;
       DELETE FROM said_of;
   END;

# No names
a> CALL every(NULL);
a> CALL every('');
a> CALL every(' x');
a> CALL every('x ');
a> CALL every('x\n');
a> CALL every('x\0y');
a> CALL every(_utf8mb4 X'C285');
a> CALL every(_utf8mb4 X'78E280A8');
a> CALL every(_utf8mb4 X'C2A078');
a> CALL every(REPEAT('a', 256));
a> CALL every(REPEAT(_utf8mb4 X'F09F9092', 256));
a> CALL all_of_them();
= 11 |  RLINV RLINV RLINV RLINV RLINV RLINV RLINV RLINV RLINV RLINV RLINV RLINV RLINV RLINV RLINV RLINV RLINV RLINV RLINV RLINV RLINV RLINV RLINV RLINV RLINV RLINV | 0 | -
a> SELECT COUNT(*) FROM resource;
= 0
a> SELECT COUNT(*) FROM lock_event;
= 0

# Names: quotes, backslashes, what ends a statement, what begins a comment, what looks like a pattern
a> CALL every('o''clock');
a> CALL every('back\\slash\\');
a> CALL every('\\''); DROP TABLE resource; --');
a> CALL every('/*!50000 x */');
a> CALL every('a_');
a> CALL every('{"a": [1, "b"]}');
a> CALL every('NULL');
a> CALL every('ключ');
a> CALL every(_utf8mb4 X'F09F9492');
a> CALL all_of_them();
= 9 |  ok ok ok ok ok ok ok ok RLMOD RLMOD RLLST RLLST ok ok ok RLMOD RLMOD RLMOD RLMOD RLLST ok RLNOF RLLST RLLST RLLST RLLST | 1 | 1

# The longest ones; a name with slots leaves room for their numbers.
a> CALL every(REPEAT('a', 255));
a> CALL every(REPEAT(_utf8mb4 X'F09F9092', 255));
a> CALL all_of_them();
= 255 a, 255 🐒 |  ok ok ok ok ok ok ok ok RLMOD RLMOD RLLST RLLST ok ok ok RLINV RLMOD RLMOD RLMOD RLLST ok RLNOF RLLST RLLST RLLST RLLST | 1 | 1

# What is another text is another lock: case, accents, composed or not.
a> CALL every('Nightly');
a> CALL every('nightly');
a> CALL every('nightlý');
a> CALL every(_utf8mb4 X'6E696768746C79CC81');
a> CALL all_of_them();
= 4 |  ok ok ok ok ok ok ok ok RLMOD RLMOD RLLST RLLST ok ok ok RLMOD RLMOD RLMOD RLMOD RLLST ok RLNOF RLLST RLLST RLLST RLLST | 1 | 1
a> SELECT COUNT(*), COUNT(DISTINCT CAST(resource_name AS BINARY)) FROM resource;
= 15 | 15

# The same ones in the shell
a> CALL rowlock_acquire('\\''); DROP TABLE resource; --', 30, 0, @t);
$ rowlock show --json "\\'); DROP TABLE resource; --" | jq -c '[.name, .state]'
= ["\\'); DROP TABLE resource; --","held"]
$ rowlock run -n "\\'); DROP TABLE resource; --" -- echo not reached
= rowlock: '\'); DROP TABLE resource; --' is held by root@localhost N sql (token 5, lease ends in N s)
= exit status 1
a> CALL rowlock_release('\\''); DROP TABLE resource; --', @t);
a> CALL rowlock_acquire(REPEAT(_utf8mb4 X'F09F9092', 255), 30, 0, @t);
$ rowlock run -n "$(printf '🐒%.0s' $(seq 255))" -- echo not reached 2>/dev/null
= exit status 1

# rowlock_present() stores a token by its lock's name, whatever the name.
a> CALL rowlock_acquire('{"a": [1, "b"]}', 30, 0, @t);
a> CALL rowlock_present('{"a": [1, "b"]}', @t);
a> CALL rowlock_acquire('"', 30, 0, @t);
a> CALL rowlock_present('"', @t);
a> SELECT JSON_VALID(@rowlock_presented), JSON_LENGTH(@rowlock_presented);
= 1 | 2
a> CALL rowlock_present('"', NULL);
a> SELECT JSON_VALID(@rowlock_presented), JSON_LENGTH(@rowlock_presented);
= 1 | 1

# In the words of an error, too
a> CALL rowlock_check(REPEAT(_utf8mb4 X'F09F9092', 255), 9);
= ERROR RLLST: '?????????????????????????????????????...' is not held with token 9 any more; stop this work
a> CALL rowlock_check('nobody''s \\ "%s" /* x', 1);
= ERROR RLNOF: there is no lock 'nobody's \ "%s" /* x'; look at its spelling

mask /ERROR [0-9A-Z]{5} [(](1366|1265)[)]/ERROR no such value/
# Other character sets of the client: the same text is the same lock, what cannot be text is none.
login l charset=latin1
l> CALL rowlock_acquire('caf{xE9}', 30, 0, @t);
a> CALL rowlock_try('café', 30, @u);
a> SELECT @u;
= NULL
l> CALL rowlock_release('caf{xE9}', @t);
a> SELECT HEX(resource_name) FROM resource WHERE resource_name LIKE 'caf%';
= 636166C3A9
l> CALL rowlock_acquire(_utf8mb4 X'636166C3A9', 30, 0, @t);
l> CALL rowlock_check('caf{xE9}', @t);
l> CALL rowlock_release(_utf16 X'00630061006600E9', @t);
a> CALL rowlock_acquire(_binary X'636166C3A9', 30, 0, @t);
a> CALL rowlock_release('café', @t);
a> CALL rowlock_acquire(_binary X'636166C3', 30, 0, @t);
= ERROR no such value
a> CALL rowlock_acquire('caf{xC3}', 30, 0, @t);
= ERROR no such value
mask /ERROR RLINV: the lock's name is not UTF-8; give one that is/ERROR no such value/
a> CALL rowlock_acquire('x{xED}{xA0}{x80}', 30, 0, @t);
= ERROR no such value
a> SET NAMES binary;
a> CALL rowlock_acquire('caf{xC3}', 30, 0, @t);
= ERROR no such value
a> SET NAMES utf8mb4;
a> SELECT HEX(resource_name) FROM resource WHERE CAST(resource_name AS BINARY) LIKE BINARY 'caf%';
= 636166C3A9

# Labels are told as they are, too: nothing in them is taken for the name, a quote, an escape.
a> CALL rowlock_acquire('%s in %s', 60, 0, @t);
a> UPDATE resource SET owner_label = '%s%%n \\ ''q'' "d" \\0 %s' WHERE resource_name = '%s in %s';
b> CALL rowlock_acquire('%s in %s', 60, 0, @t);
= ERROR RLBSY: '%s in %s' is held (token 1, lease ends in N s) by %s%%n \ 'q' "d" \0 %s
b> UPDATE resource SET kind = '%s' WHERE resource_name = '%s in %s';
b> CALL rowlock_check('%s in %s', 1);
= ERROR RLDMG: '%s in %s' is of a kind that this program does not know: %s

# A new name is complete at once; a session that asks for it then does not lock it: its holder can release it.
a> CALL rl_via_resource_create('whole', 'pessimistic');
= 1 | 0
a> BEGIN;
a> SELECT resource_name FROM resource_lock WHERE resource_name = 'whole' FOR UPDATE;
= whole
b> CALL rl_resource_make('whole', 'pessimistic', @locked);
b> SELECT @locked;
= 0
a> COMMIT;

# A row whose COMMIT has begun and not ended: an INSERT is refused because of it, and no read sees it. This takes as long as 200 ms here.
a> CREATE TRIGGER committing BEFORE INSERT ON resource FOR EACH ROW
   BEGIN
       SET @first = COALESCE(@first, SYSDATE(6));
       IF SYSDATE(6) < @first + INTERVAL 200000 MICROSECOND THEN
           SIGNAL SQLSTATE '23000' SET MYSQL_ERRNO = 1062, MESSAGE_TEXT = 'Duplicate entry';
       END IF;
   END;
a> CALL rowlock_acquire('committing', 60, 0, @t);
a> SELECT @t;
= 1
a> DROP TRIGGER committing;
