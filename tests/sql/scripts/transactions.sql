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
= held
a> ROLLBACK;
b> SELECT status FROM resource WHERE resource_name = 'x';
= held
a> CALL rowlock_check('x', @t);
a> START TRANSACTION;
a> UPDATE work SET n = n + 1 WHERE id = 1;
a> CALL rowlock_release('x', @t);
a> COMMIT;
b> SELECT status, (SELECT n FROM work WHERE id = 1) FROM resource WHERE resource_name = 'x';
= free | 1
b> CALL rowlock_try('x', 30, @t);
b> CALL rowlock_release('x', @t);
a> SELECT event, version FROM lock_event WHERE resource_name = 'x' ORDER BY id;
= acquired | 1
= released | 1
= acquired | 2
= released | 2

# A row lock ends with it, and only with it.
a> START TRANSACTION;
a> CALL rowlock_row_lock('row', 0);
a> UPDATE work SET n = n + 1 WHERE id = 2;
b> START TRANSACTION;
b> CALL rowlock_row_lock('row', 0);
= ERROR RLBSY: 'row' is held by another transaction; yours is still open
b> CALL rowlock_row_lock('row', 1);
= ERROR RLTMO: the wait for 'row' ended; the transaction is still open
b& CALL rowlock_row_lock('row', 60);
until b waits
a> COMMIT;
b<
# (Only now: b waits for the row by its name, the library by its id, and these two have no order.)
c!& acquire row pessimistic wait=60000
until 1 wait
b> SELECT n FROM work WHERE id = 2;
= 1
b> ROLLBACK;
c<
= OK, token 1
b> START TRANSACTION;
b> CALL rowlock_row_lock('row', 0);
= ERROR RLBSY: 'row' is held by another transaction; yours is still open
# (Who it is, is told if that can be read within some milliseconds.)
mask /held by (c \(token 1\)|somebody else)/held by WHO/
$ rowlock run --mode=pessimistic -n row -- echo not reached
= rowlock: 'row' is held by WHO
= exit status 1
c! release row
= OK
b> CALL rowlock_row_lock('row', NULL);
b> CALL rowlock_row_lock('row', 0);
$ rowlock run --mode=pessimistic -n row -- echo not reached
= rowlock: 'row' is held by WHO
= exit status 1
b> ROLLBACK;
$ rowlock run --mode=pessimistic -n row -- echo reached
= reached

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
= ERROR RLCNF: 'v' has version 1, not 0; read again
a> SELECT n FROM work WHERE id = 1;
= 2
c! version_read v
= version 1
a> SET autocommit = 0;
a> CALL rowlock_bump('v', 1);
a> ROLLBACK;
a> SET autocommit = 1;
c! version_read v
= version 1

# autocommit = 0: a new transaction of the caller's, not one of rowlock's, is left behind.
a> SET autocommit = 0;
a> CALL rowlock_acquire('x', 30, 0, @t);
b> SELECT status FROM resource WHERE resource_name = 'x';
= held
a> UPDATE work SET n = 7 WHERE id = 1;
a> CALL rowlock_check('x', @t);
a> ROLLBACK;
a> SELECT n FROM work WHERE id = 1;
= 2
a> ROLLBACK;
a> CALL rowlock_renew('x', @t, 30);
a> CALL rowlock_release('x', @t);
b> SELECT status FROM resource WHERE resource_name = 'x';
= free
a> COMMIT;
b> SELECT status FROM resource WHERE resource_name = 'x';
= free
a> SELECT @@autocommit;
= 0

# Nor by what fails: the servers refuse this in a transaction.
a> CALL rowlock_check('x', @t);
= ERROR RLLST: 'x' is not held with token 3 any more; stop this work
a> SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
a> CALL rowlock_renew('x', @t, 30);
= ERROR RLLST: 'x' is not held with token 3 any more; stop this work
a> CALL rowlock_release('x', @t);
= ERROR RLLST: 'x' is not held with token 3 any more; stop this work
a> CALL rowlock_present('x', @t);
= ERROR RLLST: 'x' is not held with token 3 any more; stop this work
a> SET TRANSACTION ISOLATION LEVEL READ COMMITTED;

# A transaction would end LOCK TABLES, so there is none: what was locked stays so.
a> COMMIT;
a> SET autocommit = 1;
a> CREATE TABLE locked (id INT PRIMARY KEY) ENGINE = InnoDB;
a> LOCK TABLES locked WRITE;
a> CALL rowlock_try('x', 30, @t);
= ERROR RLTXN: 'x': this session has LOCK TABLES, which a transaction would end; UNLOCK TABLES first
a> CALL rowlock_check('x', 1);
= ERROR RLTXN: 'x': this session has LOCK TABLES, which a transaction would end; UNLOCK TABLES first
a> CALL rowlock_present('x', 1);
= ERROR RLTXN: 'x': this session has LOCK TABLES, which a transaction would end; UNLOCK TABLES first
a> CALL rowlock_row_make('row');
= ERROR RLTXN: 'row': this session has LOCK TABLES, which a transaction would end; UNLOCK TABLES first
a> CALL rowlock_version('x', @v);
= ERROR RLTXN: 'x': this session has LOCK TABLES, which a transaction would end; UNLOCK TABLES first
b& INSERT INTO locked VALUES (2);
until b waits
a> INSERT INTO locked VALUES (1);
a> UNLOCK TABLES;
b<

# The same with autocommit = 0, of what joins the caller's transaction.
a> CALL rowlock_latch_set('gate', 2, @g);
a> CALL rowlock_queue_make('jobs');
a> CALL rowlock_queue_put('jobs', 'first', NULL, NULL, NULL, NULL, NULL, @i);
a> CALL rowlock_queue_take('jobs', 60, 0, @i, @qt, @n, @k, @p);
a> CALL rowlock_acquire('daily', 60, 0, @dt);
a> CALL rowlock_once_begin('daily', @dt, '2026-11-23', '2026-11-24', NULL, FALSE, @s, @n);
a> SET autocommit = 0;
a> LOCK TABLES locked WRITE;
a> CALL rowlock_bump('v', 1);
= ERROR RLTXN: 'v': this session has LOCK TABLES, which a transaction would end; UNLOCK TABLES first
a> CALL rowlock_latch_down('gate', NULL, NULL);
= ERROR RLTXN: 'gate': this session has LOCK TABLES, which a transaction would end; UNLOCK TABLES first
a> CALL rowlock_once_done('daily', @dt);
= ERROR RLTXN: 'daily': this session has LOCK TABLES, which a transaction would end; UNLOCK TABLES first
a> CALL rowlock_queue_put('jobs', 'second', NULL, NULL, NULL, NULL, NULL, @j);
= ERROR RLTXN: 'jobs': this session has LOCK TABLES, which a transaction would end; UNLOCK TABLES first
a> CALL rowlock_queue_done('jobs', @i, @qt);
= ERROR RLTXN: 'jobs': this session has LOCK TABLES, which a transaction would end; UNLOCK TABLES first
a> UNLOCK TABLES;

# It is in the transaction that the caller has SET, which nothing uses up before.
a> SET TRANSACTION READ ONLY;
a> CALL rowlock_bump('v', 1);
= ERROR 25006 (1792)
a> ROLLBACK;
a> SET TRANSACTION READ ONLY;
a> CALL rowlock_latch_down('gate', NULL, NULL);
= ERROR 25006 (1792)
a> ROLLBACK;
a> SET TRANSACTION READ ONLY;
a> CALL rowlock_once_done('daily', @dt);
= ERROR 25006 (1792)
a> ROLLBACK;
a> SET TRANSACTION READ ONLY;
a> CALL rowlock_queue_put('jobs', 'second', NULL, NULL, NULL, NULL, NULL, @j);
= ERROR 25006 (1792)
a> ROLLBACK;
a> SET TRANSACTION READ ONLY;
a> CALL rowlock_queue_done('jobs', @i, @qt);
= ERROR 25006 (1792)
a> ROLLBACK;

# The session is as it was: nothing that a procedure set stays.
a> SET time_zone = '+05:30', innodb_lock_wait_timeout = 17, sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES';
a> COMMIT;
a> CALL rowlock_acquire('x', 30, 0, @t);
a> CALL rowlock_try('x', 30, @u);
a> CALL rowlock_acquire('x', 30, 0, @u);
= ERROR RLBSY: 'x' is held (token 4, lease ends in N s) by root@localhost N sql
a> CALL rowlock_renew('x', @t, 30);
a> CALL rowlock_check('x', @t);
a> CALL rowlock_row_lock('row', 1);
a> CALL rowlock_release('x', @t);
a> COMMIT;
a> SELECT @@time_zone, @@innodb_lock_wait_timeout, @@sql_mode, @@autocommit;
= +05:30 | 17 | ANSI_QUOTES,NO_BACKSLASH_ESCAPES | 0

# A renewal does not wait in its transaction for one that has its row locked.
a> CALL rowlock_acquire('renewed', 0.5, 0, @t);
until a> SELECT lease_expires_at <= UTC_TIMESTAMP(6) FROM resource WHERE resource_name = 'renewed';
b> START TRANSACTION;
b> CALL rowlock_version('renewed', @v);
a> SET SESSION innodb_lock_wait_timeout = 1;
a> CALL rowlock_renew('renewed', @t, 30);
= ERROR RLBSY: 'renewed' is in use by a transaction; try again later
b> ROLLBACK;

# A row lock whose dead holder is still published, and has a fence open: the next caller waits no longer than it would, and keeps
# nothing locked.
$ rowlock run --mode=pessimistic dead -- true
e> UPDATE resource SET status = 'held', version = 7, owner = 'somebody' WHERE resource_name = 'dead';
e> START TRANSACTION;
e> CALL rowlock_fence('dead', 7);
b> SET @from = SYSDATE();
b> START TRANSACTION;
b> CALL rowlock_row_lock('dead', 0);
= ERROR RLBSY: 'dead' is held by another transaction; yours is still open
c> SELECT COUNT(*) FROM (SELECT id FROM resource_lock WHERE resource_name = 'dead' FOR UPDATE NOWAIT) x;
= 1
b> CALL rowlock_row_lock('dead', 2);
= ERROR RLTMO: the wait for 'dead' ended; the transaction is still open
b> SELECT TIMESTAMPDIFF(SECOND, @from, SYSDATE()) < 40, @@innodb_lock_wait_timeout > 40;
= 1 | 1
b& CALL rowlock_row_lock('dead', 60);
until b waits
e> COMMIT;
b<
b> COMMIT;
e> SELECT status, version FROM resource WHERE resource_name = 'dead';
= free | 8
# At READ COMMITTED nothing but the row lock is locked then.
b> SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED;
b> START TRANSACTION;
b> CALL rowlock_row_lock('dead', 0);
c> SELECT COUNT(*) FROM (SELECT id FROM resource WHERE resource_name = 'dead' FOR UPDATE NOWAIT) x;
= 1
b> COMMIT;
