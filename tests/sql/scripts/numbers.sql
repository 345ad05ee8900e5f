# Tokens, TTLs, waits, versions and numbers of slots at their limits and beyond, through each that takes one; with
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
       DECLARE token, slot BIGINT UNSIGNED;
       DECLARE reader VARCHAR(63);
       DECLARE state CHAR(5);
       DECLARE said TEXT DEFAULT '';
       DECLARE CONTINUE HANDLER FOR SQLEXCEPTION GET DIAGNOSTICS CONDITION 1 state = RETURNED_SQLSTATE;
       WHILE step < 6 DO
           SET state = '00000';
           CASE step
               WHEN 0 THEN CALL rowlock_acquire('ttl', ttl, 0, token);
               WHEN 1 THEN CALL rowlock_try('tried', ttl, token);
               WHEN 2 THEN CALL rowlock_renew('x', 1, ttl);
               WHEN 3 THEN CALL rowlock_acquire_shared('shared', ttl, 0, token, reader);
               WHEN 4 THEN CALL rowlock_acquire_shared('read', 30, 0, token, reader); CALL rowlock_renew_shared('read', reader, ttl);
               WHEN 5 THEN CALL rowlock_acquire_slot('ttl of a slot', 1, ttl, 0, slot, token);
           END CASE;
           SET said = CONCAT(said, ' ', state);
           SET step = step + 1;
       END WHILE;
       SELECT REPLACE(said, '00000', 'ok') AS each_of_them;
       CALL rowlock_break_now('ttl');
       CALL rowlock_break_now('tried');
       CALL rowlock_break_now('ttl of a slot#0');
   END;
a> CREATE PROCEDURE every_slots(slots TEXT)
   BEGIN
       DECLARE token, slot BIGINT UNSIGNED;
       DECLARE said CHAR(5) DEFAULT 'ok';
       DECLARE CONTINUE HANDLER FOR SQLEXCEPTION GET DIAGNOSTICS CONDITION 1 said = RETURNED_SQLSTATE;
       CALL rowlock_acquire_slot(CONCAT('slots ', slots), slots, 30, 0, slot, token);
       SELECT said, COUNT(*) AS names FROM resource WHERE resource_name LIKE CONCAT('slots ', slots, '%');
   END;
a> CALL rowlock_acquire('x', 600, 0, @t);
a> CALL rowlock_version('v', @v);
a> SELECT @t, @v;
= 1 | 0

# Values that are no tokens, and tokens of no hold: check, renew, bump, fence, present, release
a> CALL every_token(NULL);
=  RLINV RLINV RLINV RLINV ok RLINV
a> CALL every_token('0');
=  RLLST RLLST ok RLLST RLLST RLLST
a> CALL every_token('-1');
=  RLINV RLINV RLINV RLINV RLINV RLINV
a> CALL every_token('9223372036854775808');
=  RLLST RLLST RLCNF RLLST RLLST RLLST
a> CALL every_token('18446744073709551615');
=  RLLST RLLST RLCNF RLLST RLLST RLLST
a> CALL every_token('18446744073709551616');
=  RLINV RLINV RLINV RLINV RLINV RLINV
a> CALL every_token('1.5');
=  RLINV RLINV RLINV RLINV RLINV RLINV
a> CALL every_token('0.999999');
=  RLINV RLINV RLINV RLINV RLINV RLINV

# TTLs: acquire, try, renew, of readers, of a slot. 0.5 to 86400 seconds.
a> CALL every_ttl(NULL);
=  RLINV RLINV RLINV RLINV RLINV RLINV
a> CALL every_ttl('0.499999');
=  RLINV RLINV RLINV RLINV RLINV RLINV
a> CALL every_ttl('0.5');
=  ok ok ok ok ok ok
a> CALL every_ttl('86400');
=  ok ok ok ok ok ok
a> CALL every_ttl('86400.000001');
=  RLINV RLINV RLINV RLINV RLINV RLINV
a> CALL every_ttl('18446744073709551616');
=  RLINV RLINV RLINV RLINV RLINV RLINV

# Numbers of slots: 1 to 1000
a> CALL every_slots('0');
= RLINV | 0
a> CALL every_slots('0.999999');
= RLINV | 0
a> CALL every_slots('1');
= ok | 2
a> CALL every_slots('1000');
= ok | 2
a> CALL every_slots('1000.000001');
= RLINV | 0
a> CALL every_slots('1001');
= RLINV | 0
a> CALL every_slots('-1');
= RLINV | 0
a> CALL every_slots('18446744073709551617');
= RLINV | 0

mask /ERROR [0-9A-Z]{5} [(](1366|1265)[)]/ERROR no such value/
# What is no number at all: in strict mode the server's own word.
a> CALL rowlock_release('x', 'x');
= ERROR no such value
a> CALL rowlock_release('x', 1e100);
= ERROR 22003 (1264)
a> CALL rowlock_renew('x', 1, '30s');
= ERROR no such value

# x is as it was: held with token 1.
a> CALL rowlock_check('x', 1);
a> CALL every_token('1');
=  ok ok ok ok ok ok

# Waits: NULL and less than 0 are for ever; more than for ever is not asked of the server.
a> CALL rowlock_acquire('x', 600, 0, @t);
b> CALL rowlock_acquire('x', 30, 0.000001, @u);
= ERROR RLTMO: 'x' is held (token 2, lease ends in N s) by root@localhost N sql
b& CALL rowlock_acquire('x', 600, -0.5, @u);
until b waits
a> CALL rowlock_release('x', @t);
b<
c& CALL rowlock_acquire('x', 600, 99999999999999999999999, @u);
until c waits
b> CALL rowlock_release('x', @u);
c<
d& CALL rowlock_acquire('x', 30, NULL, @u);
until d waits
c> CALL rowlock_release('x', @u);
d<
d> CALL rowlock_release('x', @u);
a> CALL rowlock_acquire_slot('pool', 1, 600, 0, @s, @t);
b> CALL rowlock_acquire_slot('pool', 1, 30, 0.000001, @s, @u);
= ERROR RLTMO: the only slot of 'pool' is in use
b& CALL rowlock_acquire_slot('pool', 1, 600, -0.5, @s, @u);
until b waits
a> CALL rowlock_release('pool#0', @t);
b<
c& CALL rowlock_acquire_slot('pool', 1, 600, 99999999999999999999999, @s, @u);
until c waits
b> CALL rowlock_release('pool#0', @u);
c<
c> CALL rowlock_release('pool#0', @u);
a> CALL rowlock_row_make('row');
a> START TRANSACTION;
a> CALL rowlock_row_lock('row', 0);
b> START TRANSACTION;
b> CALL rowlock_row_lock('row', 0.2);
= ERROR RLTMO: the wait for 'row' ended; the transaction is still open
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

# Without strict mode the server converts texts to numbers, and cuts numbers: never to a token of
# another hold, nor to a TTL without end.
a> SET sql_mode = '';
a> CALL rowlock_acquire('x', 600, 0, @t);
a> SELECT @t;
= 6
a> CALL rowlock_release('x', 'x');
= ERROR RLLST: 'x' is not held with token 0 any more; stop this work
a> CALL rowlock_release('x', 1e100);
= ERROR RLINV: the token for 'x' is not a whole number of 64 bits; give the one that you got
a> CALL rowlock_release('x', 18446744073709551616 + @t);
= ERROR RLINV: the token for 'x' is not a whole number of 64 bits; give the one that you got
a> CALL rowlock_release('x', @t + 0.4);
= ERROR RLINV: the token for 'x' is not a whole number of 64 bits; give the one that you got
a> CALL rowlock_renew('x', @t, 'x');
= ERROR RLINV: the TTL for 'x' is 0; give 0.5 to 86400 seconds
a> CALL rowlock_renew('x', @t, '86401 seconds');
= ERROR RLINV: the TTL for 'x' is 86401; give 0.5 to 86400 seconds
a> CALL rowlock_bump('v', 1e100);
= ERROR RLINV: the version for 'v' is not a whole number of 64 bits; give the one that you got
a> CALL rowlock_acquire_slot('pool', 'many', 30, 0, @s, @u);
= ERROR RLINV: the number of slots of 'pool' is 0; give 1 to 1000, or NULL for as many as it has
a> CALL rowlock_acquire('x', 30, 'soon', @u);
= ERROR RLBSY: 'x' is held (token 6, lease ends in N s) by root@localhost N sql
a> CALL rowlock_check('x', @t);
a> CALL rowlock_release('x', @t);

# A token at the end of its range: no more can be had of the name, none comes back.
a> UPDATE resource SET version = 18446744073709551614 WHERE resource_name = 'x';
a> CALL rowlock_acquire('x', 30, 0, @t);
a> SELECT @t = 18446744073709551615;
= 1
a> CALL rowlock_check('x', @t);
a> CALL rowlock_renew('x', @t, 30);
a> CALL rowlock_release('x', @t);
a> CALL rowlock_try('x', 30, @u);
= ERROR 22003 (1690)
a> CALL rowlock_check('x', 0);
= ERROR RLLST: 'x' is not held with token 0 any more; stop this work
a> UPDATE resource SET version = 9223372036854775807 WHERE resource_name = 'v';
a> CALL rowlock_version('v', @v);
a> CALL rowlock_bump('v', @v);
a> CALL rowlock_version('v', @v);
a> SELECT @v;
= 9223372036854775808
