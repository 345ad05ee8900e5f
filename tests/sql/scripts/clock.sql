# The clock trap. A routine's UTC_TIMESTAMP() may stand still, and a session may set its own clock:
# neither may end another's lease, or make one that lasts.
a> CREATE TABLE fires (id INT PRIMARY KEY, n BIGINT NOT NULL) ENGINE = InnoDB;
a> INSERT INTO fires VALUES (1, 0);
a> CALL rowlock_acquire('x', 30, 0, @t);

# From the future: nothing of others' has run out.
b> SET timestamp = UNIX_TIMESTAMP() + 100000;
b> CALL rowlock_try('x', 30, @u);
b> SELECT @u;
= NULL
b> CALL rowlock_acquire('x', 30, 0, @u);
= ERROR RLBSY: 'x' is held (token 1, lease ends in N s) by root@localhost N sql
b> CALL rowlock_check('x', 1);
b> CALL rowlock_renew('x', 1, 30);
a> CALL rowlock_check('x', @t);
a> CALL rowlock_release('x', @t);

# What is taken with a false clock, backwards and forwards, lasts as long as it says.
b> CALL rowlock_acquire('x', 30, 0, @t);
a> SELECT TIMESTAMPDIFF(SECOND, UTC_TIMESTAMP(6), lease_expires_at) BETWEEN 20 AND 30,
          ABS(TIMESTAMPDIFF(SECOND, UTC_TIMESTAMP(6), update_time)) < 60 FROM resource WHERE resource_name = 'x';
= 1 | 1
b> CALL rowlock_renew('x', @t, 60);
a> SELECT TIMESTAMPDIFF(SECOND, UTC_TIMESTAMP(6), expires_at) BETWEEN 40 AND 60 FROM lease_renewal;
= 1
b> CALL rowlock_release('x', @t);
a> CALL rowlock_try('x', 30, @t);
a> CALL rowlock_release('x', @t);
b> SET timestamp = 1000;
b> CALL rowlock_acquire('x', 30, 0, @t);
a> CALL rowlock_try('x', 30, @u);
a> SELECT @u, TIMESTAMPDIFF(SECOND, UTC_TIMESTAMP(6), lease_expires_at) BETWEEN 20 AND 30
     FROM resource WHERE resource_name = 'x';
= NULL | 1
b> CALL rowlock_break('x');
b> CALL rowlock_version('v', @v);
b> CALL rowlock_bump('v', @v);
a> SELECT COUNT(*), MIN(ABS(TIMESTAMPDIFF(SECOND, UTC_TIMESTAMP(6), happened_at)) < 60) FROM lock_event;
= 8 | 1
a> SELECT MIN(ABS(TIMESTAMPDIFF(SECOND, UTC_TIMESTAMP(6), update_time)) < 60) FROM resource;
= 1
b> SELECT @@timestamp;
= 1000.000000

# A lease that ends while the routine runs that took it: known in the next statement.
a> CREATE PROCEDURE late()
   BEGIN
       DECLARE token BIGINT UNSIGNED;
       CALL rowlock_acquire('late', 0.5, 0, token);
       DO SLEEP(1);
       CALL rowlock_check('late', token);
   END;
a> CALL late();
= ERROR RLLST: the lease on 'late' with token 1 has run out; stop this work

# ... while a trigger's statement runs, in which UTC_TIMESTAMP() stands still: a session that wants the lease waits
# until the statement has ended.
a> CREATE TRIGGER slow BEFORE UPDATE ON fires FOR EACH ROW
   BEGIN
       CALL rowlock_check('slow', NEW.n);
       SET @got = GET_LOCK('{schema}.go', 60);
       CALL rowlock_check('slow', NEW.n);
   END;
c> SELECT GET_LOCK('{schema}.go', 0);
= 1
a> CALL rowlock_acquire('slow', 6, 0, @t);
a& UPDATE fires SET n = @t;
until a waits
until a> SELECT lease_expires_at <= UTC_TIMESTAMP(6) FROM resource WHERE resource_name = 'slow';
b& CALL rowlock_acquire('slow', 30, 60, @t);
until b waits
c> SELECT RELEASE_LOCK('{schema}.go');
= 1
a<
b<
a> SELECT RELEASE_LOCK('{schema}.go');
= 1
b> SELECT @t, n FROM fires;
= 2 | 1
a> UPDATE fires SET n = @t;
= ERROR RLLST: 'slow' is not held with token 1 any more; stop this work
b> UPDATE fires SET n = @t;
a> DROP TRIGGER slow;

# A UUID's time is not asked for where the server has a clock that nobody can set: MariaDB's does not follow the server's
# clock when that is put right. (With --sysdate-is-now it must be: tests/conformance/procedures.c.)
a> DROP PROCEDURE rl_uuid_time;
a> CREATE PROCEDURE rl_uuid_time(IN p_uuid CHAR(36), OUT p_time DATETIME(6)) SET p_time = '2001-01-01';
a> CREATE PROCEDURE looks(IN times INT)
   BEGIN
       DECLARE wrong INT DEFAULT 0;
       DECLARE seen DATETIME(6);
       WHILE times > 0 DO
           CALL rl_now(seen);
           SET wrong = wrong + (YEAR(seen) = 2001), times = times - 1;
       END WHILE;
       SELECT wrong;
   END;
a> CALL looks(50000);
= 0
