# Called by other procedures, by functions and triggers (where the server lets them), by events.
a> CREATE TABLE work (id INT PRIMARY KEY, n BIGINT NOT NULL) ENGINE = InnoDB;
a> INSERT INTO work VALUES (1, 0);

# A job as a procedure: it gives the lock back when it fails, too.
a> CREATE PROCEDURE job(fails BOOLEAN)
   BEGIN
       DECLARE token BIGINT UNSIGNED;
       DECLARE EXIT HANDLER FOR SQLEXCEPTION
       BEGIN
           CALL rowlock_release('job', token);
           RESIGNAL;
       END;
       CALL rowlock_acquire('job', 30, 0, token);
       UPDATE work SET n = token WHERE id = 1;
       IF fails THEN
           SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'the job failed';
       END IF;
       CALL rowlock_release('job', token);
   END;
a> CALL job(FALSE);
a> SELECT n FROM work;
= 1
a> CALL job(TRUE);
= ERROR 45000: the job failed
a> SELECT status, version FROM resource WHERE resource_name = 'job';
= free | 2

# In a trigger and a function: what fits into the caller's transaction.
a> CALL rowlock_acquire('guard', 30, 0, @t);
a> CREATE TRIGGER guarded BEFORE UPDATE ON work FOR EACH ROW CALL rowlock_check('guard', NEW.n);
a> UPDATE work SET n = @t;
b> UPDATE work SET n = 17;
= ERROR RLLST: 'guard' is not held with token 17 any more; stop this work
b> SELECT n FROM work;
= 1
a> DROP TRIGGER guarded;
a> UPDATE work SET n = 0;
a> CREATE TRIGGER bumping AFTER UPDATE ON work FOR EACH ROW CALL rowlock_bump('versioned', OLD.n);
a> CALL rowlock_version('versioned', @v);
a> UPDATE work SET n = 1;
a> UPDATE work SET n = 99;
a> UPDATE work SET n = 100;
= ERROR RLCNF: 'versioned' has version 2, not 99; read again
a> DROP TRIGGER bumping;
a> CREATE TRIGGER taking BEFORE UPDATE ON work FOR EACH ROW CALL rowlock_acquire('guard', 1, 0, @x);
a> UPDATE work SET n = 1;
= ERROR RLTXN: taking a lease on 'guard' is a transaction of its own; COMMIT or ROLLBACK yours first
a> CREATE FUNCTION taken() RETURNS BIGINT NOT DETERMINISTIC MODIFIES SQL DATA
   BEGIN
       CALL rowlock_acquire('guard', 1, 0, @x);
       RETURN @x;
   END;
a> SELECT taken();
= ERROR RLTXN: taking a lease on 'guard' is a transaction of its own; COMMIT or ROLLBACK yours first
a> CREATE FUNCTION held(token BIGINT) RETURNS INT NOT DETERMINISTIC READS SQL DATA
   BEGIN
       DECLARE CONTINUE HANDLER FOR SQLSTATE 'RLLST' RETURN 0;
       CALL rowlock_check('guard', token);
       RETURN 1;
   END;
a> SELECT held(@t), held(@t + 1);
= 1 | 0
a> CALL rowlock_release('guard', @t);
a> SELECT held(@t);
= 0

# As a prepared statement.
a> PREPARE take FROM 'CALL rowlock_acquire(?, ?, ?, ?)';
a> SET @name = 'prepared', @ttl = 30, @wait = 0;
a> EXECUTE take USING @name, @ttl, @wait, @t;
a> CALL rowlock_check('prepared', @t);
a> CALL rowlock_release('prepared', @t);
