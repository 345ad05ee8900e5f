# Tokens, TTLs, waits and versions at their limits and beyond, through each that takes one; with
# strict mode and without it, where the server cuts what does not fit without a word.
a> CREATE PROCEDURE every_token(token TEXT)
   BEGIN
       DECLARE step INT DEFAULT 0;
       DECLARE state CHAR(5);
       DECLARE said TEXT DEFAULT '';
       DECLARE CONTINUE HANDLER FOR SQLEXCEPTION GET DIAGNOSTICS CONDITION 1 state = RETURNED_SQLSTATE;
       WHILE step < 6 DO
           SET state = '00000';
           CASE step
               WHEN 0 THEN CALL rowlock_check('x', token);
               WHEN 1 THEN CALL rowlock_renew('x', token, 30);
               WHEN 2 THEN CALL rowlock_bump('v', token);
               WHEN 3 THEN START TRANSACTION; CALL rowlock_fence('x', token); COMMIT;
               WHEN 4 THEN CALL rowlock_present('x', token);
               WHEN 5 THEN CALL rowlock_release('x', token);
           END CASE;
           SET said = CONCAT(said, ' ', state);
           SET step = step + 1;
       END WHILE;
       SELECT REPLACE(said, '00000', 'ok') AS each_of_them;
   END;
a> CREATE PROCEDURE every_ttl(ttl TEXT)
   BEGIN
       DECLARE step INT DEFAULT 0;
       DECLARE token BIGINT UNSIGNED;
       DECLARE state CHAR(5);
       DECLARE said TEXT DEFAULT '';
       DECLARE CONTINUE HANDLER FOR SQLEXCEPTION GET DIAGNOSTICS CONDITION 1 state = RETURNED_SQLSTATE;
       WHILE step < 3 DO
           SET state = '00000';
           CASE step
               WHEN 0 THEN CALL rowlock_acquire('ttl', ttl, 0, token);
               WHEN 1 THEN CALL rowlock_try('tried', ttl, token);
               WHEN 2 THEN CALL rowlock_renew('x', 1, ttl);
           END CASE;
           SET said = CONCAT(said, ' ', state);
           SET step = step + 1;
       END WHILE;
       SELECT REPLACE(said, '00000', 'ok') AS each_of_them;
       IF EXISTS (SELECT 1 FROM resource WHERE resource_name = 'ttl' AND status = 'held') THEN
           CALL rowlock_break('ttl');
       END IF;
       IF EXISTS (SELECT 1 FROM resource WHERE resource_name = 'tried' AND status = 'held') THEN
           CALL rowlock_break('tried');
       END IF;
   END;
a> CALL rowlock_acquire('x', 600, 0, @t);
a> CALL rowlock_version('v', @v);
a> SELECT @t, @v;

# No tokens, and tokens that are nobody's: check, renew, bump, fence, present, release
a> CALL every_token(NULL);
a> CALL every_token('0');
a> CALL every_token('-1');
a> CALL every_token('2');
a> CALL every_token('9223372036854775807');
a> CALL every_token('9223372036854775808');
a> CALL every_token('18446744073709551615');
a> CALL every_token('18446744073709551616');
a> CALL every_token('18446744073709551617');
a> CALL every_token('36893488147419103233');
a> CALL every_token('1.5');
a> CALL every_token('0.999999');

# TTLs: acquire, try, renew. 0.5 to 86400 seconds.
a> CALL every_ttl(NULL);
a> CALL every_ttl('0');
a> CALL every_ttl('-1');
a> CALL every_ttl('0.499999');
a> CALL every_ttl('0.5');
a> CALL every_ttl('86400');
a> CALL every_ttl('86400.000001');
a> CALL every_ttl('9223372036854775807');
a> CALL every_ttl('18446744073709551616');

mask /ERROR [0-9A-Z]{5} [(](1366|1265)[)]/ERROR no such value/
# What is no number at all: in strict mode the server's own word.
a> CALL rowlock_release('x', 'x');
a> CALL rowlock_release('x', '');
a> CALL rowlock_release('x', 'NaN');
a> CALL rowlock_release('x', '1 OR 1=1');
a> CALL rowlock_release('x', 1e100);
a> CALL rowlock_renew('x', 1, 'inf');
a> CALL rowlock_renew('x', 1, '30s');
a> CALL rowlock_renew('x', 1, -1e300);
a> CALL rowlock_try('tried', '00:00:30', @u);
a> CALL rowlock_bump('v', '');

# x is as it was: held with token 1.
a> CALL rowlock_check('x', 1);
a> CALL every_token('1');

# Waits: NULL and less than 0 are for ever; more than for ever is not asked of the server.
a> CALL rowlock_acquire('x', 600, 0, @t);
b> CALL rowlock_acquire('x', 30, 0.000001, @u);
b& CALL rowlock_acquire('x', 30, -0.5, @u);
until b waits
c& CALL rowlock_acquire('x', 30, 99999999999999999999999, @u);
until c waits
d& CALL rowlock_acquire('x', 30, NULL, @u);
until d waits
a> CALL rowlock_release('x', @t);
b<
b> CALL rowlock_release('x', @u);
c<
c> CALL rowlock_release('x', @u);
d<
d> CALL rowlock_release('x', @u);
a> CALL rowlock_row_make('row');
a> START TRANSACTION;
a> CALL rowlock_row_lock('row', 0);
b> START TRANSACTION;
b> CALL rowlock_row_lock('row', 0.2);
b& CALL rowlock_row_lock('row', 99999999999999999999999);
until b waits
a> COMMIT;
b<
a> START TRANSACTION;
a& CALL rowlock_row_lock('row', -7);
until a waits
b> COMMIT;
a<
a> COMMIT;

# Without strict mode the server makes numbers of texts, and cuts numbers, as it likes: never to a
# token that is somebody's, nor to a TTL without end.
a> SET sql_mode = '';
a> CALL rowlock_acquire('x', 600, 0, @t);
a> SELECT @t;
a> CALL rowlock_release('x', 'x');
a> CALL rowlock_release('x', '');
a> CALL rowlock_release('x', 'NaN');
a> CALL rowlock_release('x', 1e100);
a> CALL rowlock_release('x', -1e100);
a> CALL rowlock_release('x', 18446744073709551616);
a> CALL rowlock_release('x', 18446744073709551616 + @t);
a> CALL rowlock_release('x', @t + 0.4);
a> CALL rowlock_renew('x', @t, 'x');
a> CALL rowlock_renew('x', @t, 1e100);
a> CALL rowlock_renew('x', @t, '86401 seconds');
a> CALL rowlock_try('ttl', 'x', @u);
a> CALL rowlock_try('ttl', 1e300, @u);
a> CALL rowlock_bump('v', 'x');
a> CALL rowlock_bump('v', 1e100);
a> CALL rowlock_acquire('x', 30, 'soon', @u);
a> CALL rowlock_acquire(CONCAT(REPEAT('a', 255), 'b'), 30, 0, @u);
a> SELECT COUNT(*) FROM resource WHERE resource_name LIKE 'aaa%';
a> CALL rowlock_check('x', @t);
a> CALL rowlock_release('x', @t);

# A token at the end of its range: no more can be had of the name, none comes back.
a> UPDATE resource SET version = 18446744073709551614 WHERE resource_name = 'x';
a> CALL rowlock_acquire('x', 30, 0, @t);
a> SELECT @t = 18446744073709551615;
a> CALL rowlock_check('x', @t);
a> CALL rowlock_renew('x', @t, 30);
a> CALL rowlock_release('x', @t);
a> CALL rowlock_try('x', 30, @u);
a> CALL rowlock_check('x', 0);
a> UPDATE resource SET version = 9223372036854775807 WHERE resource_name = 'x';
a> CALL rowlock_acquire('x', 30, 0, @t);
a> SELECT @t;
a> CALL rowlock_check('x', @t);
a> CALL rowlock_release('x', @t);
a> UPDATE resource SET version = 9223372036854775807 WHERE resource_name = 'v';
a> CALL rowlock_version('v', @v);
a> CALL rowlock_bump('v', @v);
a> CALL rowlock_version('v', @v);
a> SELECT @v;
