# CALL rowlock_fence: the caller's transaction commits only while the token is the holder's.

user app
a> GRANT EXECUTE ON {schema}.* TO {app};
a> CREATE TABLE work (id INT PRIMARY KEY, who VARCHAR(20)) ENGINE = InnoDB;
a> GRANT SELECT, INSERT ON {schema}.work TO {app};
login job as app

# A fence needs a transaction, and the name and token of a hold.
job> CALL rowlock_acquire('import', 15, 0, @token);
job> CALL rowlock_fence('import', @token);
= ERROR RLTXN: a fence on 'import' lasts as long as your transaction; START TRANSACTION first
job> SET autocommit = 0;
job> CALL rowlock_fence('import', @token);
job> ROLLBACK;
job> SET autocommit = 1;
a> SELECT fence_count FROM resource WHERE resource_name = 'import';
= 0
job> START TRANSACTION;
job> CALL rowlock_fence('import', @token + 1);
= ERROR RLLST: 'import' is not held with token 2 any more; roll back
job> CALL rowlock_fence('no such lock', 1);
= ERROR RLNOF: there is no lock 'no such lock'; look at its spelling
job> ROLLBACK;

# From here to the COMMIT no other session gets it, though its time is over and nothing renews it.
job> START TRANSACTION;
job> INSERT INTO work VALUES (1, 'job');
job> CALL rowlock_fence('import', @token);
job> CALL rowlock_fence('import', @token);
next& CALL rowlock_acquire('import', 30, 60, @token);
until next waits
until a> SELECT lease_expires_at <= UTC_TIMESTAMP(6) FROM resource WHERE resource_name = 'import';
job> SELECT COUNT(*) FROM work;
= 1
a> SELECT version, status, COUNT(*) FROM resource WHERE resource_name = 'import';
= 1 | held | 1
job> COMMIT;
next<
next> SELECT @token, COUNT(*) FROM work;
= 2 | 1

# It comes back: not with the old token, and not with an old snapshot.
job> START TRANSACTION;
job> INSERT INTO work VALUES (2, 'job');
job> CALL rowlock_fence('import', @token);
= ERROR RLLST: 'import' is not held with token 1 any more; roll back
job> ROLLBACK;
next> CALL rowlock_release('import', @token);
job> START TRANSACTION;
job> CALL rowlock_fence('import', @token);
= ERROR RLLST: 'import' is not held with token 1 any more; roll back
job> CALL rowlock_fence('import', 2);
= ERROR RLLST: 'import' is not held with token 2 any more; roll back
job> ROLLBACK;
a> SELECT COUNT(*) FROM work;
= 1

# A lease of the library, whose keeper renews it under the fence, for longer than its TTL.
c! acquire kept lease ttl=7000
= OK, token 1
job> SELECT version INTO @token FROM (SELECT 1 AS version) AS first;
job> START TRANSACTION;
job> CALL rowlock_fence('kept', @token);
job> DO SLEEP(8);
job> INSERT INTO work VALUES (3, 'job');
c! check kept
= OK
job> COMMIT;
c! release kept
= OK

# A row lock's token, and a job of `rowlock run`.
c! acquire rows pessimistic
= OK, token 1
job> START TRANSACTION;
job> CALL rowlock_fence('rows', 1);
job> COMMIT;
c! release rows
= OK
job> START TRANSACTION;
job> CALL rowlock_fence('rows', 1);
= ERROR RLLST: 'rows' is not held with token 1 any more; roll back
job> ROLLBACK;

# Its release waits for the transaction that it has fenced itself.
job> CALL rowlock_acquire('own', 30, 0, @own);
job> START TRANSACTION;
job> CALL rowlock_fence('own', @own);
job> CALL rowlock_release('own', @own);
job> COMMIT;
a> SELECT status FROM resource WHERE resource_name = 'own';
= free

# A trigger is in a transaction, whatever statement fires it.
a> CREATE TRIGGER only BEFORE INSERT ON work FOR EACH ROW CALL rowlock_fence('own', @own);
job> INSERT INTO work VALUES (4, 'job');
= ERROR RLLST: 'own' is not held with token 1 any more; roll back
job> CALL rowlock_acquire('own', 30, 0, @own);
job> INSERT INTO work VALUES (4, 'job');
job> SET @own = 1;
job> INSERT INTO work VALUES (5, 'job');
= ERROR RLLST: 'own' is not held with token 1 any more; roll back
a> SELECT id FROM work ORDER BY id;
= 1
= 3
= 4

# What is refused leaves nothing locked, where the transaction has not read or written before.
a> CALL rowlock_acquire('kept free', 600, 0, @t);
b> SET innodb_lock_wait_timeout = 1;
a> SET innodb_lock_wait_timeout = 1;
b> START TRANSACTION;
b> CALL rowlock_fence('kept free', 17);
= ERROR RLLST: 'kept free' is not held with token 17 any more; roll back
b> CALL rowlock_check('kept free', 17);
= ERROR RLLST: 'kept free' is not held with token 17 any more; stop this work
b> CALL rowlock_present('kept free', 17);
= ERROR RLLST: 'kept free' is not held with token 17 any more; roll back
b> CALL rowlock_release('kept free', 17);
= ERROR RLLST: 'kept free' is not held with token 17 any more; stop this work
b> CALL rowlock_bump('kept free', 17);
= ERROR RLCNF: 'kept free' has version 1, not 17; read again
b> CALL rowlock_row_lock('kept free', 0);
= ERROR RLMOD: 'kept free' is a lock (lease); it cannot be a row lock (pessimistic) too; use another name
b> CALL rowlock_row_lock('kept free, too', 0);
= ERROR RLNOF: 'kept free, too' is new: ROLLBACK, and CALL rowlock_row_make(name) once before the transaction
c> CALL rowlock_row_make('kept free, too');
a> SELECT version FROM resource WHERE resource_name = 'kept free' FOR UPDATE NOWAIT;
= 1
b> ROLLBACK;

# ... and what was written before is still there; the right token keeps the lock, as ever.
a> DROP TRIGGER only;
b> START TRANSACTION;
b> INSERT INTO work VALUES (20, 'job');
b> CALL rowlock_fence('kept free', 17);
= ERROR RLLST: 'kept free' is not held with token 17 any more; roll back
b> CALL rowlock_fence('kept free', 1);
a> CALL rowlock_release('kept free', @t);
= ERROR RLBSY: 'kept free' is in use by a transaction; try again later
b> COMMIT;
a> CALL rowlock_release('kept free', @t);
a> SELECT id FROM work WHERE id >= 20;
= 20

# In a trigger with a CONTINUE handler, the statement's own rows stay.
a> CREATE TRIGGER only BEFORE INSERT ON work FOR EACH ROW
   BEGIN
       DECLARE CONTINUE HANDLER FOR SQLSTATE 'RLLST' SET NEW.who = 'without';
       CALL rowlock_fence('kept free', NEW.id);
   END;
a> CALL rowlock_acquire('kept free', 600, 0, @t);
b> INSERT INTO work VALUES (30, 'first'), (2, 'second'), (31, 'third');
a> CALL rowlock_release('kept free', @t);
a> SELECT id, who FROM work WHERE id IN (2, 30, 31);
= 2 | second
= 30 | without
= 31 | without

# In a transaction of XA, too.
a> CALL rowlock_acquire('kept free', 600, 0, @t);
b> XA START 'x';
b> CALL rowlock_fence('kept free', 3);
b> XA END 'x';
b> XA PREPARE 'x';
a> CALL rowlock_release('kept free', @t);
= ERROR RLBSY: 'kept free' is in use by a transaction; try again later
b> XA COMMIT 'x';
a> CALL rowlock_release('kept free', @t);
