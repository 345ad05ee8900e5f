# A session's isolation is its own. Under REPEATABLE READ what is decided is decided by what is so
# now; and no lock is had with older data than its last holder left. (MariaDB 11.8 refuses to lock
# what is newer than the snapshot, error 1020: that is as good, and is switched off here.)
a> SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ;
a> SET @x = 1 /*M! , SESSION innodb_snapshot_isolation = OFF */;
b> SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ;
b> SET @x = 1 /*M! , SESSION innodb_snapshot_isolation = OFF */;
a> CREATE TABLE account (id INT PRIMARY KEY, n BIGINT NOT NULL) ENGINE = InnoDB;
a> INSERT INTO account VALUES (1, 0);
a> CALL rowlock_row_make('row');
a> CALL rowlock_version('v', @v);

# Read, work, write under a row lock: the second sees what the first has written.
a> START TRANSACTION;
a> CALL rowlock_row_lock('row', 0);
a> SELECT n INTO @n FROM account;
b> START TRANSACTION;
b& CALL rowlock_row_lock('row', 60);
until b waits
a> UPDATE account SET n = @n + 1;
a> COMMIT;
b<
b> SELECT n INTO @n FROM account;
b> UPDATE account SET n = @n + 1;
b> COMMIT;
a> SELECT n FROM account;
= 2

# A check and a release do not believe an old snapshot.
a> CALL rowlock_acquire('x', 30, 0, @t);
a> START TRANSACTION WITH CONSISTENT SNAPSHOT;
b> CALL rowlock_break_now('x');
b> CALL rowlock_acquire('x', 30, 0, @t);
a> SELECT version = @t, status FROM resource WHERE resource_name = 'x';
= 1 | held
a> CALL rowlock_check('x', @t);
= ERROR RLLST: 'x' is not held with token 1 any more; stop this work
a> CALL rowlock_release('x', @t);
= ERROR RLLST: 'x' is not held with token 1 any more; stop this work
a> ROLLBACK;
b> CALL rowlock_release('x', @t);
b> CALL rowlock_acquire('x', 30, 10, @t);
a> START TRANSACTION WITH CONSISTENT SNAPSHOT;
b> CALL rowlock_release('x', @t);
a> SELECT status FROM resource WHERE resource_name = 'x';
= held
a> CALL rowlock_check('x', 4);
= ERROR RLLST: 'x' is not held with token 4 any more; stop this work
a> COMMIT;
close a
a> SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ;
a> SET @x = 1 /*M! , SESSION innodb_snapshot_isolation = OFF */;

# A version is as old as the data that the transaction sees: with old data nothing can be bumped.
a> START TRANSACTION WITH CONSISTENT SNAPSHOT;
a> SELECT n FROM account;
= 2
b> START TRANSACTION;
b> CALL rowlock_version('v', @v);
b> UPDATE account SET n = 100;
b> CALL rowlock_bump('v', @v);
b> COMMIT;
a> CALL rowlock_version('v', @v);
a> SELECT @v, n FROM account;
= 0 | 2
a> CALL rowlock_bump('v', @v);
= ERROR RLCNF: 'v' has version 1, not 0; read again
a> ROLLBACK;
a> START TRANSACTION;
a> CALL rowlock_version('v', @v);
a> SELECT @v, n FROM account;
= 1 | 100
a> UPDATE account SET n = n + 1;
a> CALL rowlock_bump('v', @v);
a> COMMIT;

# A check in a transaction keeps the lease until its end: no session can take it over, or break it.
a> CALL rowlock_acquire('x', 6, 0, @t);
a> START TRANSACTION;
a> CALL rowlock_check('x', @t);
b& CALL rowlock_acquire('x', 30, 60, @t);
until b waits
until a> SELECT lease_expires_at <= UTC_TIMESTAMP(6) FROM resource WHERE resource_name = 'x';
a> UPDATE account SET n = n + 1;
a> CALL rowlock_check('x', @t);
a> COMMIT;
b<
a> CALL rowlock_check('x', @t);
= ERROR RLLST: 'x' is not held with token 5 any more; stop this work
b> CALL rowlock_release('x', @t);
