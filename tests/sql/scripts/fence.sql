# CALL rowlock_fence: the caller's transaction commits only while the token is the holder's.

user app
a> GRANT EXECUTE ON {schema}.* TO {app};
a> CREATE TABLE work (id INT PRIMARY KEY, who VARCHAR(20)) ENGINE = InnoDB;
a> GRANT SELECT, INSERT ON {schema}.work TO {app};
login job as app

# Only in a transaction; the token and the name must be those of somebody who holds.
job> CALL rowlock_acquire('import', 1, 0, @token);
job> CALL rowlock_fence('import', @token);
job> START TRANSACTION;
job> CALL rowlock_fence('import', @token + 1);
job> CALL rowlock_fence('no such lock', 1);
job> CALL rowlock_fence('import ', @token);
job> CALL rowlock_fence(NULL, @token);
job> CALL rowlock_fence('import', NULL);
job> CALL rowlock_fence('import', -1);
job> CALL rowlock_fence('import', 18446744073709551615);
job> CALL rowlock_fence('import', 1.5);
job> ROLLBACK;

# From here to the COMMIT nobody else gets it, though its second is over and nobody renews it.
job> START TRANSACTION;
job> INSERT INTO work VALUES (1, 'job');
job> CALL rowlock_fence('import', @token);
job> CALL rowlock_fence('import', @token);
next& CALL rowlock_acquire('import', 30, 60, @token);
job> DO SLEEP(2);
job> SELECT COUNT(*) FROM work;
a> SELECT version, status, COUNT(*) FROM resource WHERE resource_name = 'import';
job> COMMIT;
next<
next> SELECT @token, COUNT(*) FROM work;

# It comes back: not with the old token, and not with an old snapshot.
job> START TRANSACTION;
job> INSERT INTO work VALUES (2, 'job');
job> CALL rowlock_fence('import', @token);
job> ROLLBACK;
next> CALL rowlock_release('import', @token);
job> START TRANSACTION;
job> CALL rowlock_fence('import', @token);
job> CALL rowlock_fence('import', 2);
job> ROLLBACK;
a> SELECT COUNT(*) FROM work;

# A lease of the library, whose keeper goes on renewing under the fence: for longer than its TTL.
c! acquire kept lease ttl=4000
job> SELECT version INTO @token FROM (SELECT 1 AS version) AS first;
job> START TRANSACTION;
job> CALL rowlock_fence('kept', @token);
job> DO SLEEP(5);
job> INSERT INTO work VALUES (3, 'job');
c! check kept
job> COMMIT;
c! release kept

# A row lock's token, and a job of `rowlock run`.
c! acquire rows pessimistic
job> START TRANSACTION;
job> CALL rowlock_fence('rows', 1);
job> COMMIT;
c! release rows
job> START TRANSACTION;
job> CALL rowlock_fence('rows', 1);
job> ROLLBACK;

# Its release waits for the transaction that it has fenced itself.
job> CALL rowlock_acquire('own', 30, 0, @own);
job> START TRANSACTION;
job> CALL rowlock_fence('own', @own);
job> CALL rowlock_release('own', @own);
job> COMMIT;
a> SELECT status FROM resource WHERE resource_name = 'own';

# In a trigger, which is in a transaction: whatever it was called by.
a> CREATE TRIGGER only BEFORE INSERT ON work FOR EACH ROW CALL rowlock_fence('own', @own);
job> INSERT INTO work VALUES (4, 'job');
job> CALL rowlock_acquire('own', 30, 0, @own);
job> INSERT INTO work VALUES (4, 'job');
job> SET @own = 1;
job> INSERT INTO work VALUES (5, 'job');
a> SELECT id FROM work ORDER BY id;

# What is refused leaves nothing locked, where the transaction has not read or written before.
a> CALL rowlock_acquire('kept free', 600, 0, @t);
b> SET innodb_lock_wait_timeout = 1;
a> SET innodb_lock_wait_timeout = 1;
b> START TRANSACTION;
b> CALL rowlock_fence('kept free', 17);
b> CALL rowlock_check('kept free', 17);
b> CALL rowlock_present('kept free', 17);
b> CALL rowlock_release('kept free', 17);
b> CALL rowlock_bump('kept free', 17);
b> CALL rowlock_row_lock('kept free', 0);
b> CALL rowlock_row_lock('kept free, too', 0);
c> CALL rowlock_row_make('kept free, too');
a> SELECT version FROM resource WHERE resource_name = 'kept free' FOR UPDATE NOWAIT;
b> ROLLBACK;

# ... and what was written before is still there; the right token keeps the lock, as ever.
a> DROP TRIGGER only;
b> START TRANSACTION;
b> INSERT INTO work VALUES (20, 'job');
b> CALL rowlock_fence('kept free', 17);
b> CALL rowlock_fence('kept free', 1);
a> CALL rowlock_release('kept free', @t);
b> COMMIT;
a> CALL rowlock_release('kept free', @t);
a> SELECT id FROM work WHERE id >= 20;

# In a trigger whose handler goes on: the statement's own rows stay.
a> CREATE TRIGGER only BEFORE INSERT ON work FOR EACH ROW
   BEGIN
       DECLARE CONTINUE HANDLER FOR SQLSTATE 'RLLST' SET NEW.who = 'without';
       CALL rowlock_fence('kept free', NEW.id);
   END;
a> CALL rowlock_acquire('kept free', 600, 0, @t);
b> INSERT INTO work VALUES (30, 'first'), (2, 'second'), (31, 'third');
a> CALL rowlock_release('kept free', @t);
a> SELECT id, who FROM work WHERE id IN (2, 30, 31);

# In a transaction of XA, too.
a> CALL rowlock_acquire('kept free', 600, 0, @t);
b> XA START 'x';
b> CALL rowlock_fence('kept free', 17);
b> CALL rowlock_fence('kept free', 3);
b> INSERT INTO work VALUES (32, 'xa');
b> XA END 'x';
b> XA PREPARE 'x';
a> CALL rowlock_release('kept free', @t);
b> XA COMMIT 'x';
a> CALL rowlock_release('kept free', @t);
