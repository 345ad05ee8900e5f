# In the caller's transaction: what is final, and when.
a> CREATE TABLE work (id INT PRIMARY KEY, n BIGINT NOT NULL) ENGINE = InnoDB;
a> INSERT INTO work VALUES (1, 0), (2, 0);
a> CALL rowlock_row_make('row');

# A release is final with the transaction.
a> CALL rowlock_acquire('x', 30, 0, @t);
a> START TRANSACTION;
a> UPDATE work SET n = n + 1 WHERE id = 1;
a> CALL rowlock_release('x', @t);
b> SELECT status FROM resource WHERE resource_name = 'x';
a> ROLLBACK;
b> SELECT status FROM resource WHERE resource_name = 'x';
a> CALL rowlock_check('x', @t);
a> START TRANSACTION;
a> UPDATE work SET n = n + 1 WHERE id = 1;
a> CALL rowlock_release('x', @t);
a> COMMIT;
b> SELECT status, (SELECT n FROM work WHERE id = 1) FROM resource WHERE resource_name = 'x';
b> CALL rowlock_try('x', 30, @t);
b> CALL rowlock_release('x', @t);
a> SELECT event, version FROM lock_event WHERE resource_name = 'x' ORDER BY id;

# A row lock ends with it, and only with it.
a> START TRANSACTION;
a> CALL rowlock_row_lock('row', 0);
a> UPDATE work SET n = n + 1 WHERE id = 2;
b> START TRANSACTION;
b> CALL rowlock_row_lock('row', 0);
b> CALL rowlock_row_lock('row', 1);
b& CALL rowlock_row_lock('row', 60);
until b waits
a> COMMIT;
b<
# (Only now: who waits by the row's name, as b, and who by its number, as the library, are in no order.)
c!& acquire row pessimistic wait=60000
until 1 wait
b> SELECT n FROM work WHERE id = 2;
b> ROLLBACK;
c<
b> START TRANSACTION;
b> CALL rowlock_row_lock('row', 0);
# (Who it is, is told if that can be read within some milliseconds.)
mask /held by (c \(token 1\)|somebody else)/held by WHO/
$ rowlock run --mode=pessimistic -n row -- echo not reached
c! release row
b> CALL rowlock_row_lock('row', NULL);
b> CALL rowlock_row_lock('row', 0);
$ rowlock run --mode=pessimistic -n row -- echo not reached
b> ROLLBACK;
$ rowlock run --mode=pessimistic -n row -- echo reached

# A transaction that waited in vain goes on, with what it had.
a> START TRANSACTION;
a> CALL rowlock_row_lock('row', 0);
b> START TRANSACTION;
b> UPDATE work SET n = 100 WHERE id = 1;
b> CALL rowlock_row_lock('row', 1);
b> SELECT n FROM work WHERE id = 1;
b> COMMIT;
a> COMMIT;
a> SELECT n FROM work WHERE id = 1;

# A version is bumped together with the data, or not at all.
a> CALL rowlock_version('v', @v);
b> CALL rowlock_version('v', @v);
a> START TRANSACTION;
a> UPDATE work SET n = 1 WHERE id = 1;
a> CALL rowlock_bump('v', @v);
a> ROLLBACK;
b> START TRANSACTION;
b> UPDATE work SET n = 2 WHERE id = 1;
b> CALL rowlock_bump('v', @v);
b> COMMIT;
a> CALL rowlock_bump('v', @v);
a> SELECT n FROM work WHERE id = 1;
c! version_read v

# autocommit = 0: a new transaction of the caller's, not one of rowlock's, is left behind.
a> SET autocommit = 0;
a> CALL rowlock_acquire('x', 30, 0, @t);
b> SELECT status FROM resource WHERE resource_name = 'x';
a> UPDATE work SET n = 7 WHERE id = 1;
a> CALL rowlock_check('x', @t);
a> ROLLBACK;
a> SELECT n FROM work WHERE id = 1;
a> ROLLBACK;
a> CALL rowlock_renew('x', @t, 30);
a> CALL rowlock_release('x', @t);
b> SELECT status FROM resource WHERE resource_name = 'x';
a> COMMIT;
b> SELECT status FROM resource WHERE resource_name = 'x';
a> SELECT @@autocommit;

# Nor by what fails: the servers refuse this in a transaction.
a> CALL rowlock_check('x', @t);
a> SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
a> CALL rowlock_renew('x', @t, 30);
a> CALL rowlock_release('x', @t);
a> CALL rowlock_present('x', @t);
a> SET TRANSACTION ISOLATION LEVEL READ COMMITTED;

# A transaction would end LOCK TABLES, so there is none: what was locked stays so.
a> COMMIT;
a> SET autocommit = 1;
a> CREATE TABLE locked (id INT PRIMARY KEY) ENGINE = InnoDB;
a> LOCK TABLES locked WRITE;
a> CALL rowlock_try('x', 30, @t);
a> CALL rowlock_check('x', 1);
a> CALL rowlock_present('x', 1);
a> CALL rowlock_row_make('row');
a> CALL rowlock_version('x', @v);
b& INSERT INTO locked VALUES (2);
until b waits
a> INSERT INTO locked VALUES (1);
a> UNLOCK TABLES;
b<
a> SET autocommit = 0;

# The session is as it was: nothing that a procedure set stays.
a> SET time_zone = '+05:30', innodb_lock_wait_timeout = 17, sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES';
a> COMMIT;
a> CALL rowlock_acquire('x', 30, 0, @t);
a> CALL rowlock_try('x', 30, @u);
a> CALL rowlock_acquire('x', 30, 0, @u);
a> CALL rowlock_renew('x', @t, 30);
a> CALL rowlock_check('x', @t);
a> CALL rowlock_row_lock('row', 1);
a> CALL rowlock_release('x', @t);
a> COMMIT;
a> SELECT @@time_zone, @@innodb_lock_wait_timeout, @@sql_mode, @@autocommit;
