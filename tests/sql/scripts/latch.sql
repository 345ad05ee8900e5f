# Latches in SQL: waiters go on when the count is down. The same latches in the library and in the shell.
user app
a> GRANT EXECUTE ON {schema}.* TO {app};
a> CREATE TABLE work (id INT PRIMARY KEY, n BIGINT NOT NULL) ENGINE = InnoDB;
a> CREATE VIEW downs AS SELECT r.resource_name AS name, COUNT(d.down_key) AS down FROM resource r
      LEFT JOIN latch_down d ON d.resource_id = r.id AND d.generation = r.version GROUP BY r.resource_name;
a> CREATE VIEW bells AS SELECT resource_name AS name, CONCAT((SELECT REGEXP_SUBSTR(routine_definition, 'rowlock[.][^'']+[.]')
       FROM information_schema.routines WHERE routine_schema = '{schema}' AND routine_name = 'rl_bell_ring'), id) AS bell FROM resource;
a> CREATE VIEW line AS SELECT name, IS_USED_LOCK(bell) AS its_first FROM bells;

# It is set, counted, and open.
a> CALL rowlock_latch_set('x', 2, @g);
a> SELECT @g, kind, status, slots, owner_label FROM resource WHERE resource_name = 'x';
= 1 | latch | held | 2 | root@localhost N sql
a> CALL rowlock_latch_wait('x', 0, NULL, @opened);
= ERROR RLBSY: 'x' is closed: 0 of 2 have counted
a> CALL rowlock_latch_down('x', NULL, NULL);
a> CALL rowlock_latch_wait('x', 0, NULL, @opened);
= ERROR RLBSY: 'x' is closed: 1 of 2 have counted
a> CALL rowlock_latch_wait('x', 0.2, @g, @opened);
= ERROR RLTMO: 'x' is closed: 1 of 2 have counted
a> CALL rowlock_latch_wait('x', 1.2, NULL, @opened);
= ERROR RLTMO: 'x' is closed: 1 of 2 have counted
a> CALL rowlock_latch_set('x', 2, @again);
= ERROR RLBSY: 'x' is closed: 1 of 2 have counted
$ rowlock latch wait -w 0 x 2>/dev/null
= exit status 1
a> CALL rowlock_latch_down('x', NULL, @g);
a> CALL rowlock_latch_wait('x', 0, NULL, @opened);
a> SELECT @opened, @again, status, owner_label FROM resource WHERE resource_name = 'x';
= 1 | NULL | free | root@localhost N sql
$ rowlock latch wait -w 0 x

# Who waits is told of the last count of another session; all of them are, one after the other.
a> CALL rowlock_latch_set('y', 2, @g);
b& CALL rowlock_latch_wait('y', NULL, NULL, @opened);
until a> SELECT its_first = {b.id} FROM line WHERE name = 'y';
d& CALL rowlock_latch_wait('y', 60, @g, @opened);
until d waits
e& CALL rowlock_latch_wait('y', -1, 1, @opened);
until e waits
s$& rowlock latch wait -w 60 y && echo open
until 4 wait
a> CALL rowlock_latch_down('y', 'one', NULL);
$ rowlock latch down --key=two y
b<
d<
e<
s<
= open
b> SELECT @opened;
= 1
d> SELECT @opened;
= 1
e> SELECT @opened;
= 1
a> SELECT its_first FROM line WHERE name = 'y';
= NULL

# The same key counts once, whichever interface uses it; without a key each call counts.
a> CALL rowlock_latch_set('keys', 5, @g);
a> CALL rowlock_latch_down('keys', 'one', NULL);
a> CALL rowlock_latch_down('keys', 'one', @g);
b> CALL rowlock_latch_down('keys', 'one', NULL);
$ rowlock latch down --key=one keys
a> SELECT down FROM downs WHERE name = 'keys';
= 1
a> CALL rowlock_latch_down('keys', 'One', NULL);
a> CALL rowlock_latch_down('keys', '\\''); DROP TABLE latch_down; -- %s', NULL);
a> CALL rowlock_latch_down('keys', REPEAT(_utf8mb4 X'F09F9092', 255), NULL);
a> SELECT down FROM downs WHERE name = 'keys';
= 4
b> CALL rowlock_latch_down('keys', NULL, NULL);
b> CALL rowlock_latch_wait('keys', 0, NULL, @opened);

# In a transaction it counts at the COMMIT, with the rows, or not at all.
a> CALL rowlock_latch_set('tx', 2, @g);
b& CALL rowlock_latch_wait('tx', 60, NULL, @opened);
until b waits
a> START TRANSACTION;
a> INSERT INTO work VALUES (1, 1);
a> CALL rowlock_latch_down('tx', 'a', NULL);
a> CALL rowlock_latch_down('tx', 'b', NULL);
d> SELECT down FROM downs WHERE name = 'tx';
= 0
a> ROLLBACK;
d> SELECT down FROM downs WHERE name = 'tx';
= 0
a> START TRANSACTION;
a> INSERT INTO work VALUES (1, 1);
a> CALL rowlock_latch_down('tx', 'a', @g);
a> COMMIT;
d> SELECT down FROM downs WHERE name = 'tx';
= 1
a> START TRANSACTION;
a> INSERT INTO work VALUES (2, 1);
a> CALL rowlock_latch_down('tx', 'b', @g);
d> CALL rowlock_latch_wait('tx', 0, NULL, @opened);
= ERROR RLBSY: 'tx' is closed: 1 of 2 have counted
a> COMMIT;
b<
d> SELECT COUNT(*) FROM work;
= 2

# autocommit = 0: a transaction like another one.
a> CALL rowlock_latch_set('auto', 1, @g);
a> SET autocommit = 0;
a> CALL rowlock_latch_down('auto', NULL, NULL);
d> SELECT down FROM downs WHERE name = 'auto';
= 0
a> ROLLBACK;
d> CALL rowlock_latch_wait('auto', 0, NULL, @opened);
= ERROR RLBSY: 'auto' is closed: 0 of 1 have counted
a> CALL rowlock_latch_down('auto', NULL, NULL);
a> COMMIT;
d> CALL rowlock_latch_wait('auto', 0, NULL, @opened);
a> CALL rowlock_latch_set('auto', 1, @g);
a> CALL rowlock_latch_wait('auto', 0, NULL, @opened);
= ERROR RLBSY: 'auto' is closed: 0 of 1 have counted
a> SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
d> SELECT @opened, (SELECT version FROM resource WHERE resource_name = 'auto');
= 1 | 2
a> COMMIT;
a> SET autocommit = 1;

# While that transaction is open no session can set or break the latch.
d> START TRANSACTION;
d> CALL rowlock_latch_down('auto', NULL, NULL);
b> SET innodb_lock_wait_timeout = 1;
b> CALL rowlock_break('auto');
= ERROR RLBSY: 'auto' is in use by a transaction; try again later
d> ROLLBACK;
b> CALL rowlock_break('auto');
b> SET innodb_lock_wait_timeout = DEFAULT;
# Nor is it kept closed when all have counted without it.
a> CALL rowlock_latch_set('one more', 1, @g);
d> START TRANSACTION;
d> CALL rowlock_latch_down('one more', 'd', NULL);
a> CALL rowlock_latch_down('one more', 'a', NULL);
b> CALL rowlock_latch_wait('one more', 0, NULL, @opened);
b> SELECT @opened;
= 1
d> ROLLBACK;

# By a trigger, and by a function: each row counts.
a> CALL rowlock_latch_set('rows', 3, @g);
a> CREATE TRIGGER counting AFTER INSERT ON work FOR EACH ROW CALL rowlock_latch_down('rows', CONCAT('row ', NEW.id), NULL);
b> INSERT INTO work VALUES (10, 0), (11, 0);
b> START TRANSACTION;
b> INSERT INTO work VALUES (12, 0);
b> ROLLBACK;
a> SELECT down FROM downs WHERE name = 'rows';
= 2
b> CALL rowlock_latch_set('fails', 1, @f);
b> CALL rowlock_break('fails');
a> CREATE TRIGGER failing AFTER UPDATE ON work FOR EACH ROW CALL rowlock_latch_down('fails', NULL, NULL);
b> UPDATE work SET n = 7 WHERE id = 10;
= ERROR RLLST: 'fails' (generation 1) will not open, because of root@localhost N sql
b> SELECT n FROM work WHERE id = 10;
= 0
a> DROP TRIGGER failing;
a> DROP TRIGGER counting;
a> CREATE FUNCTION counted(k TEXT) RETURNS INT NOT DETERMINISTIC MODIFIES SQL DATA
   BEGIN
       CALL rowlock_latch_down('rows', k, NULL);
       RETURN 1;
   END;
b> SELECT counted('by a function');
= 1
b> CALL rowlock_latch_wait('rows', 0, NULL, @opened);
a> CREATE TRIGGER waiting AFTER UPDATE ON work FOR EACH ROW CALL rowlock_latch_wait('rows', 0, NULL, @o);
b> UPDATE work SET n = 7 WHERE id = 10;
= ERROR RLTXN: waiting for 'rows' is a transaction of its own; COMMIT or ROLLBACK yours first
a> DROP TRIGGER waiting;

# Generations: a waiter for one is told that it has opened, also when the next one has begun. Each ends once.
a> CALL rowlock_latch_set('gen', 1, @g1);
a> CALL rowlock_latch_wait('gen', 0, 2, @opened);
= ERROR RLBSY: 'gen' was not set to generation 2 yet
a> CALL rowlock_latch_down('gen', NULL, 2);
= ERROR RLNOF: 'gen' was not set to generation 2 yet
b& CALL rowlock_latch_wait('gen', 60, 2, @opened);
until b waits
a> CALL rowlock_latch_down('gen', NULL, NULL);
a> CALL rowlock_latch_set('gen', 1, @g2);
a> SELECT @g1, @g2;
= 1 | 2
a> CALL rowlock_latch_wait('gen', 0, @g1, @opened);
a> SELECT @opened;
= 1
a> CALL rowlock_latch_down('gen', NULL, @g1);
a> SELECT down FROM downs WHERE name = 'gen';
= 0
a> CALL rowlock_break('gen');
b<
= ERROR RLLST: 'gen' (generation 2) will not open, because of root@localhost N sql
a> CALL rowlock_latch_down('gen', NULL, NULL);
= ERROR RLLST: 'gen' (generation 2) will not open, because of root@localhost N sql
a> CALL rowlock_latch_wait('gen', 0, NULL, @opened);
= ERROR RLLST: 'gen' (generation 2) will not open, because of root@localhost N sql
a> CALL rowlock_break('gen');
= ERROR RLBSY: 'gen' is not closed; there is nothing to break
a> CALL rowlock_latch_set('gen', 1, @g3);
a> CALL rowlock_latch_down('gen', NULL, @g2);
= ERROR RLLST: generation 2 of 'gen' was broken, or is too long ago; the present one is 3
a> CALL rowlock_latch_wait('gen', 0, @g2, @opened);
= ERROR RLLST: generation 2 of 'gen' was broken, or is too long ago; the present one is 3
a> CALL rowlock_latch_wait('gen', 0, @g1, @opened);
a> CALL rowlock_latch_down('gen', NULL, @g3);
a> CALL rowlock_break('gen');
= ERROR RLBSY: 'gen' is not closed; there is nothing to break
a> CALL rowlock_latch_wait('gen', 0, @g3, @opened);
a> SELECT event, kind, version, held_ms FROM lock_event WHERE resource_name = 'gen';
= broken | latch | 2 | NULL
a> SELECT COUNT(*) FROM latch_down d JOIN resource r ON r.id = d.resource_id WHERE r.resource_name = 'gen';
= 1

# A wait for a latch that is not set yet waits for that, too.
b& CALL rowlock_latch_wait('later', 60, NULL, @opened);
until b waits
a> CALL rowlock_latch_down('later', NULL, NULL);
= ERROR RLNOF: 'later' was not set yet
a> CALL rowlock_latch_down('never', NULL, NULL);
= ERROR RLNOF: there is no latch 'never'; rowlock_latch_set makes it
a> CALL rowlock_latch_wait('later', 0, NULL, @opened);
= ERROR RLBSY: 'later' was not set yet
a> CALL rowlock_latch_set('later', 1, @g);
a> CALL rowlock_latch_down('later', NULL, NULL);
b<
b> SELECT @opened;
= 1

# A member (in the library) whose TTL is over breaks the latch; not one that has counted.
a> CALL rowlock_latch_set('team', 2, @g);
b& CALL rowlock_latch_wait('team', 60, NULL, @opened);
until b waits
a> INSERT INTO lock_grant (resource_id, owner, owner_label, version, acquired_at, expires_at)
   SELECT id, 'm', 'a member', version, UTC_TIMESTAMP(6), UTC_TIMESTAMP(6) + INTERVAL 1 SECOND FROM resource WHERE resource_name = 'team';
b<
= ERROR RLLST: 'team' (generation 1) will not open, because of a member
a> CALL rowlock_latch_set('team', 1, @g);
a> INSERT INTO latch_down SELECT id, version, 'k', 'm', UTC_TIMESTAMP(6) FROM resource WHERE resource_name = 'team';
a> UPDATE lock_grant SET version = @g, down_key = 'k', expires_at = UTC_TIMESTAMP(6) - INTERVAL 1 SECOND;
a> CALL rowlock_latch_wait('team', 0, NULL, @opened);
a> CALL rowlock_latch_set('team', 1, @g);
a> UPDATE lock_grant SET version = @g;
a> CALL rowlock_latch_set('team', 1, @g);
a> SELECT @g, broken & 15 FROM resource WHERE resource_name = 'team';
= 4 | 10
a> DELETE FROM lock_grant;

# An old snapshot is not believed. (innodb_snapshot_isolation ends such a transaction: see snapshot.sql.)
b> SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ;
b> SET @x = 1 /*M! , SESSION innodb_snapshot_isolation = OFF */;
b> START TRANSACTION WITH CONSISTENT SNAPSHOT;
a> CALL rowlock_latch_set('new', 1, @g);
b> CALL rowlock_latch_down('new', NULL, 1);
b> COMMIT;
b> START TRANSACTION WITH CONSISTENT SNAPSHOT;
a> CALL rowlock_latch_set('new', 1, @g);
a> CALL rowlock_break('new');
b> CALL rowlock_latch_down('new', NULL, 2);
= ERROR RLLST: 'new' (generation 2) will not open, because of root@localhost N sql
b> ROLLBACK;
close b

# What is refused leaves nothing locked, where it is the first statement of its transaction.
b> START TRANSACTION;
b> CALL rowlock_latch_down('new', NULL, NULL);
= ERROR RLLST: 'new' (generation 2) will not open, because of root@localhost N sql
a> SET innodb_lock_wait_timeout = 1;
a> CALL rowlock_latch_set('new', 1, @g);
a> SET innodb_lock_wait_timeout = DEFAULT;
b> COMMIT;

# Who may only EXECUTE.
login f as app
f> CALL rowlock_latch_set('his', 2, @g);
a> CALL rowlock_latch_down('his', NULL, NULL);
f> START TRANSACTION;
f> CALL rowlock_latch_down('his', 'k', @g);
f> COMMIT;
f> CALL rowlock_latch_wait('his', 0, NULL, @opened);
f> SELECT COUNT(*) FROM latch_down;
= ERROR 42000 (1142)
f> CALL rl_latch_decide(1, 1);
= ERROR 42000 (1142)
a> SELECT owner_label FROM resource WHERE resource_name = 'his';
= app@localhost N sql

# What is no name, no number, no key; what is of another kind: one line each, and nothing is changed.
a> CALL rowlock_acquire('lease', 300, 0, @l);
a> CALL rowlock_row_make('row');
a> CALL rowlock_acquire_slot('slots', 1, 300, 0, @s, @t);
a> SELECT COUNT(*), SUM(version), SUM(slots), (SELECT COUNT(*) FROM latch_down) INTO @rows, @versions, @slots, @downs FROM resource;
a> CALL rowlock_latch_set(NULL, 2, @g);
= ERROR RLINV: the lock's name is empty or NULL; give one of 1 to 255 characters
a> CALL rowlock_latch_set(' n', 2, @g);
= ERROR RLINV: the lock's name ' n' begins with white space; take it away
a> CALL rowlock_latch_set('n', NULL, @g);
= ERROR RLINV: 'n' cannot be set to NULL; give how many are to count, 1 to 10000
a> CALL rowlock_latch_set('n', 0, @g);
= ERROR RLINV: 'n' cannot be set to 0; give how many are to count, 1 to 10000
a> CALL rowlock_latch_set('n', -1, @g);
= ERROR RLINV: 'n' cannot be set to -1; give how many are to count, 1 to 10000
a> CALL rowlock_latch_set('n', 1.5, @g);
= ERROR RLINV: 'n' cannot be set to 1.5; give how many are to count, 1 to 10000
a> CALL rowlock_latch_set('n', 10001, @g);
= ERROR RLINV: 'n' cannot be set to 10001; give how many are to count, 1 to 10000
a> CALL rowlock_latch_down('keys', '', NULL);
= ERROR RLINV: the key for 'keys' is not valid: 1 to 255 characters, no control ones, no white space around
a> CALL rowlock_latch_down('keys', 'k ', NULL);
= ERROR RLINV: the key for 'keys' is not valid: 1 to 255 characters, no control ones, no white space around
a> CALL rowlock_latch_down('keys', 'k\ney', NULL);
= ERROR RLINV: the key for 'keys' is not valid: 1 to 255 characters, no control ones, no white space around
a> CALL rowlock_latch_down('keys', REPEAT('k', 256), NULL);
= ERROR RLINV: the key for 'keys' is not valid: 1 to 255 characters, no control ones, no white space around
a> CALL rowlock_latch_down('keys', 'k', -1);
= ERROR RLINV: the generation for 'keys' is not a whole number of 64 bits; give the one that you got
a> CALL rowlock_latch_wait('keys', 0, 1.5, @opened);
= ERROR RLINV: the generation for 'keys' is not a whole number of 64 bits; give the one that you got
a> CALL rowlock_latch_down('keys', 'k', 18446744073709551615);
= ERROR RLNOF: 'keys' was not set to generation 18446744073709551615 yet
a> CALL rowlock_latch_set('lease', 2, @g);
= ERROR RLMOD: 'lease' is a lock (lease); it cannot be a latch too; use another name
a> CALL rowlock_latch_down('lease', NULL, NULL);
= ERROR RLMOD: 'lease' is a lock (lease); it cannot be a latch too; use another name
a> CALL rowlock_latch_wait('row', 0, NULL, @opened);
= ERROR RLMOD: 'row' is a row lock (pessimistic); it cannot be a latch too; use another name
a> CALL rowlock_latch_down('slots', NULL, NULL);
= ERROR RLMOD: 'slots' is a semaphore (slots); it cannot be a latch too; use another name
a> CALL rowlock_acquire('x', 30, 0, @t);
= ERROR RLMOD: 'x' is a latch; it cannot be a lock (lease) too; use another name
a> CALL rowlock_acquire_slot('x', 2, 30, 0, @s, @t);
= ERROR RLMOD: 'x' is a latch; it cannot have slots too; use another name
a> CALL rowlock_row_make('x');
= ERROR RLMOD: 'x' is a latch; it cannot be a row lock (pessimistic) too; use another name
a> CALL rowlock_bump('x', 1);
= ERROR RLMOD: 'x' is a latch; it cannot be a lock (lease) too; use another name
a> CALL rowlock_check('x', 1);
= ERROR RLMOD: 'x' is a latch; it cannot be a lock (lease) too; use another name
a> CALL rowlock_present('team', 4);
= ERROR RLMOD: 'team' is a latch; it cannot be a lock (lease) too; use another name
a> START TRANSACTION;
a> CALL rowlock_fence('team', 4);
= ERROR RLMOD: 'team' is a latch; it cannot be a lock (lease) too; use another name
a> CALL rowlock_present('team', 4);
= ERROR RLMOD: 'team' is a latch; it cannot be a lock (lease) too; use another name
a> CALL rowlock_latch_set('n', 1, @g);
= ERROR RLTXN: setting 'n' is a transaction of its own; COMMIT or ROLLBACK yours first
a> CALL rowlock_latch_wait('keys', 0, NULL, @opened);
= ERROR RLTXN: waiting for 'keys' is a transaction of its own; COMMIT or ROLLBACK yours first
a> ROLLBACK;
a> SELECT COUNT(*) = @rows, SUM(version) = @versions, SUM(slots) = @slots, (SELECT COUNT(*) FROM latch_down) = @downs FROM resource;
= 1 | 1 | 1 | 1

# A name may look like anything; the session stays as it was.
a> SET time_zone = '+05:30', unique_checks = 0, foreign_key_checks = 0, sql_safe_updates = 1, completion_type = 'CHAIN',
       sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES', timestamp = 17;
a> DO LAST_INSERT_ID(77);
a> CALL rowlock_latch_set('\''); DROP TABLE resource; -- %s', 2, @g);
a> CALL rowlock_latch_down('\''); DROP TABLE resource; -- %s', 'k', NULL);
a> CALL rowlock_latch_down('\''); DROP TABLE resource; -- %s', NULL, NULL);
a> CALL rowlock_latch_wait('\''); DROP TABLE resource; -- %s', 0, NULL, @opened);
a> CALL rowlock_latch_set('\''); DROP TABLE resource; -- %s', 2, @g);
a> SELECT @opened, @g, LAST_INSERT_ID(), @@time_zone, @@unique_checks, @@sql_safe_updates, @@completion_type;
= 1 | 2 | 77 | +05:30 | 0 | 1 | CHAIN
a> SELECT COUNT(*), MAX(acquired_at > '2020-01-01') FROM resource WHERE resource_name LIKE '%DROP TABLE%';
= 1 | 1
close a

# Killed while it waits: the next one comes first. (Hit between two statements, where no handler runs, it leaves the bell to its
# session: the next call of that gives it back.)
a> CALL rowlock_latch_set('k', 1, @g);
b& CALL rowlock_latch_wait('k', 60, NULL, @opened);
until a> SELECT its_first = {b.id} FROM line WHERE name = 'k';
d& CALL rowlock_latch_wait('k', 60, NULL, @opened);
until d waits
e& CALL rowlock_latch_wait('k', 60, NULL, @opened);
until 3 wait
stop e
e<
= ERROR 70100 (1317)
e> SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
e> SELECT 1;
= 1
stop b
b<
= ERROR 70100 (1317)
b> CALL rowlock_latch_wait('k', 0, NULL, @opened);
= ERROR RLBSY: 'k' is closed: 0 of 1 have counted
until a> SELECT its_first = {d.id} FROM line WHERE name = 'k';
a> CALL rowlock_latch_down('k', NULL, NULL);
d<

# What one leaves that was hit between two statements, where no handler runs: the bell, with a session that does nothing more.
a> CALL rowlock_latch_set('k', 1, @g);
b> SELECT GET_LOCK(bell, 10) FROM bells WHERE name = 'k';
= 1
e& CALL rowlock_latch_wait('k', 60, NULL, @opened);
until e waits
a> CALL rowlock_latch_down('k', NULL, NULL);
e<
b> CALL rowlock_latch_wait('k', 0, NULL, @opened);
a> SELECT its_first FROM line WHERE name = 'k';
= NULL

# Killed while it waits for a transaction that has the row: the count, as a statement of its own, leaves none open.
a> CALL rowlock_latch_set('k', 1, @g);
a> START TRANSACTION;
a> SELECT slots FROM resource WHERE resource_name = 'k' FOR UPDATE;
= 1
b& CALL rowlock_latch_down('k', NULL, NULL);
until b waits
a> KILL QUERY {b.id};
b<
= ERROR 70100 (1317)
b> SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
b& CALL rowlock_latch_down('k', NULL, NULL);
until b waits
a> COMMIT;
b<
b> CALL rowlock_latch_wait('k', 0, NULL, @opened);
