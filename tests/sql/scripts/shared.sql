# Shared leases in SQL: readers have one together, or a writer has it alone.
user app
a> GRANT EXECUTE ON {schema}.* TO {app};
a> SET @bell = (SELECT REGEXP_SUBSTR(routine_definition, 'rowlock[.][^'']+[.]') FROM information_schema.routines
    WHERE routine_schema = '{schema}' AND routine_name = 'rl_bell_ring');

# Together, with the token of the last writer; each is a reader of its own.
a> CALL rowlock_acquire('x', 30, 0, @t);
b> CALL rowlock_acquire_shared('x', 30, 0, @t, @r);
= ERROR RLBSY: 'x' is held (token 1, lease ends in N s) by root@localhost N sql
a> CALL rowlock_release('x', @t);
b> CALL rowlock_acquire_shared('x', 30, 0, @t, @r);
d> CALL rowlock_acquire_shared('x', 30, 0, @t, @r);
b> SELECT @t, @r;
= 1 | OWNER
d> SELECT @t, @r;
= 1 | OWNER
a> SELECT status, version, (SELECT COUNT(DISTINCT owner) FROM lock_grant) FROM resource WHERE resource_name = 'x';
= shared | 1 | 2
# In the caller's transaction a refused section locks none of the readers, who have to renew.
a> START TRANSACTION;
a> CALL rowlock_version('x', @v);
= ERROR RLBSY: 'x' is held by readers; try again when they have left
b> SELECT COUNT(*) FROM (SELECT owner FROM lock_grant FOR UPDATE SKIP LOCKED) free;
= 2
a> ROLLBACK;
a> CALL rowlock_acquire('x', 30, 0, @t);
= ERROR RLBSY: 'x' is held by readers, or was
a> CALL rowlock_try('x', 30, @u);
a> SELECT @u;
= NULL
$ rowlock run -n x -- echo not reached 2>/dev/null
= exit status 1
c! acquire x lease wait=0
= BUSY

# By its id one is renewed and released, the other stays. The token is for checks and fences alone.
b> CALL rowlock_renew_shared('x', @r, 600);
a> SELECT COUNT(*) FROM lock_grant WHERE expires_at > UTC_TIMESTAMP(6) + INTERVAL 300 SECOND;
= 1
b> CALL rowlock_check('x', 1);
b> CALL rowlock_renew('x', 1, 30);
= ERROR RLLST: 'x' is not held with token 1 any more; stop this work
b> CALL rowlock_release('x', 1);
= ERROR RLLST: 'x' is not held with token 1 any more; stop this work
b> CALL rowlock_present('x', 1);
= ERROR RLLST: 'x' is not held with token 1 any more; stop this work
b> CALL rowlock_release_shared('x', @r);
b> CALL rowlock_release_shared('x', @r);
= ERROR RLLST: 'x' is not held by that reader, of this login, any more; stop this work
b> CALL rowlock_renew_shared('x', @r, 30);
= ERROR RLLST: 'x' is not held by that reader, of this login, any more; stop this work
a> CALL rowlock_acquire('x', 30, 0, @t);
= ERROR RLBSY: 'x' is held by readers, or was
# (By another session of the same login.)
e> SELECT owner INTO @r FROM lock_grant;
e> CALL rowlock_release_shared('x', @r);
a> CALL rowlock_acquire('x', 30, 0, @t);
a> SELECT @t;
= 2
b> CALL rowlock_check('x', 1);
= ERROR RLLST: 'x' is not held with token 1 any more; stop this work
a> CALL rowlock_release('x', @t);
a> SELECT event, version, held_ms >= 0, waited_ms IS NOT NULL
     FROM lock_event WHERE resource_name = 'x' AND owner_label LIKE 'root@localhost%sql' ORDER BY id;
= acquired | 1 | NULL | 1
= released | 1 | 1 | 0
= acquired | 1 | NULL | 1
= acquired | 1 | NULL | 1
= released | 1 | 1 | 0
= released | 1 | 1 | 0
= acquired | 2 | NULL | 1
= released | 2 | 1 | 0

# A writer waits for the readers that are in, and is not passed; those next to each other behind it enter together, and
# keep no bell.
a> CALL rowlock_acquire_shared('y', 300, 0, @t, @r);
a> SELECT @t;
= 1
b& CALL rowlock_acquire('y', 300, 60, @t);
until a> SELECT next_owner <> '' FROM resource WHERE resource_name = 'y';
d> CALL rowlock_acquire_shared('y', 300, 0, @t, @r);
= ERROR RLBSY: 'y' is held by readers, and root@localhost N sql is the next
d& CALL rowlock_acquire_shared('y', 300, 60, @t, @r);
e& CALL rowlock_acquire_shared('y', 300, 60, @t, @r);
until 3 wait
a> CALL rowlock_check('y', 1);
a> CALL rowlock_renew_shared('y', @r, 300);
a> CALL rowlock_release_shared('y', @r);
b<
b> SELECT @t;
= 2
until 2 wait
b> CALL rowlock_release('y', @t);
d<
e<
d> SELECT @t;
= 2
e> SELECT @t;
= 2
a> SELECT COUNT(*), IS_USED_LOCK(CONCAT(@bell, MAX(resource_id))) FROM lock_grant;
= 2 | NULL

# A writer of the library's, too.
c!& acquire y lease wait=60000
until a> SELECT next_owner <> '' FROM resource WHERE resource_name = 'y';
a> CALL rowlock_acquire_shared('y', 300, 0, @t, @r);
= ERROR RLBSY: 'y' is held by readers, and c is the next
d> CALL rowlock_release_shared('y', @r);
e> CALL rowlock_release_shared('y', @r);
c<
= OK, token 3
c! release y
= OK

# A writer that gives up lets the readers go on.
a> CALL rowlock_acquire_shared('y', 300, 10, @t, @r);
b> CALL rowlock_acquire('y', 300, 0.3, @t);
= ERROR RLTMO: 'y' is held by readers
a> SELECT status, version, next_owner = '', IS_USED_LOCK(CONCAT(@bell, id)) FROM resource WHERE resource_name = 'y';
= shared | 3 | 1 | NULL
d> CALL rowlock_acquire_shared('y', 300, 0, @t, @r);
d> CALL rowlock_release_shared('y', @r);
a> CALL rowlock_release_shared('y', @r);
b> CALL rowlock_acquire('y', 300, 0, @t);
b> SELECT @t;
= 4
b> CALL rowlock_release('y', @t);

# A reader that does not come back is waited for until its time is over; until then it can be released, not renewed.
a> CALL rowlock_acquire_shared('short', 0.5, 0, @t, @r);
b> CALL rowlock_acquire('short', 30, 30, @t);
b> SELECT @t;
= 2
a> CALL rowlock_renew_shared('short', @r, 30);
= ERROR RLLST: 'short' is not held by that reader, of this login, any more; stop this work
a> CALL rowlock_release_shared('short', @r);
= ERROR RLLST: 'short' is not held by that reader, of this login, any more; stop this work
b> CALL rowlock_release('short', @t);
a> CALL rowlock_acquire_shared('short', 0.5, 10, @t, @r);
until a> SELECT expires_at <= UTC_TIMESTAMP(6) FROM lock_grant;
a> CALL rowlock_renew_shared('short', @r, 30);
= ERROR RLLST: 'short' is not held by that reader, of this login, any more; stop this work
a> CALL rowlock_release_shared('short', @r);
a> SELECT COUNT(*) FROM lock_grant;
= 0

# After a writer's lease has run out, a reader gets a higher token.
a> CALL rowlock_acquire('late', 0.5, 0, @t);
b> CALL rowlock_acquire_shared('late', 300, 30, @t, @r);
b> SELECT @t;
= 2
a> CALL rowlock_check('late', @t);
= ERROR RLLST: 'late' is not held with token 1 any more; stop this work
a> CALL rowlock_renew('late', @t, 30);
= ERROR RLLST: 'late' is not held with token 1 any more; stop this work
b> CALL rowlock_release_shared('late', @r);
a> SELECT event, version FROM lock_event WHERE resource_name = 'late' ORDER BY id;
= acquired | 1
= taken_over | 2
= released | 2

# Broken: its reader hears of it, and lets writers in when its work has ended; or they are in at once.
a> CALL rowlock_acquire_shared('z', 300, 0, @t, @r);
b> CALL rowlock_break('z');
a> CALL rowlock_check('z', @t);
= ERROR RLLST: 'z' is not held with token 1 any more; stop this work
a> CALL rowlock_renew_shared('z', @r, 300);
= ERROR RLLST: 'z' is not held by that reader, of this login, any more; stop this work
b> CALL rowlock_acquire('z', 30, 0, @t);
= ERROR RLBSY: 'z' is held by readers, or was
a> CALL rowlock_release_shared('z', @r);
= ERROR RLLST: 'z' is not held by that reader, of this login, any more; stop this work
b> CALL rowlock_acquire('z', 30, 0, @t);
b> CALL rowlock_release('z', @t);
a> CALL rowlock_acquire_shared('z', 300, 10, @t, @r);
b> CALL rowlock_break_now('z');
b> CALL rowlock_acquire('z', 30, 0, @t);
b> SELECT @t;
= 5
b> CALL rowlock_release('z', @t);
a> CALL rowlock_release_shared('z', @r);
= ERROR RLLST: 'z' is not held by that reader, of this login, any more; stop this work

# The history of that has nothing of the last writer.
b> CALL rowlock_acquire('after', 30, 0, @t);
b> CALL rowlock_release('after', @t);
a> CALL rowlock_acquire_shared('after', 300, 0, @t, @r);
b> CALL rowlock_break('after');
a> SELECT version, CONCAT('<', owner, owner_label, '>'), held_ms FROM lock_event WHERE resource_name = 'after' AND event = 'broken';
= 1 | <> | NULL
a> CALL rowlock_release_shared('after', @r);
= ERROR RLLST: 'after' is not held by that reader, of this login, any more; stop this work

# A reader's id works for its login, and its name, alone.
a> CREATE TABLE passed (reader VARCHAR(63)) ENGINE = InnoDB;
a> GRANT SELECT ON {schema}.passed TO {app};
a> CALL rowlock_acquire_shared('mine', 300, 0, @t, @r);
a> INSERT INTO passed VALUES (@r);
login f as app
f> SELECT reader INTO @r FROM passed;
f> CALL rowlock_check('mine', 1);
f> CALL rowlock_renew_shared('mine', @r, 30);
= ERROR RLLST: 'mine' is not held by that reader, of this login, any more; stop this work
f> CALL rowlock_release_shared('mine', @r);
= ERROR RLLST: 'mine' is not held by that reader, of this login, any more; stop this work
f> CALL rowlock_acquire_shared('mine', 300, 0, @t, @r);
f> CALL rowlock_release_shared('mine', @r);
a> CALL rowlock_release_shared('x', @r);
= ERROR RLLST: 'x' is not held by that reader, of this login, any more; stop this work

# What is no id, no name, no TTL
a> CALL rowlock_release_shared('mine', NULL);
= ERROR RLINV: the reader for 'mine' is not the id of one (NULL); give what rowlock_acquire_shared gave you
a> CALL rowlock_renew_shared('mine', '', 30);
= ERROR RLINV: the reader for 'mine' is not the id of one; give what rowlock_acquire_shared gave you
a> CALL rowlock_release_shared('mine', ''' OR 1=1; -- "');
= ERROR RLINV: the reader for 'mine' is not the id of one; give what rowlock_acquire_shared gave you
a> CALL rowlock_release_shared('mine', REPEAT('a', 300));
= ERROR RLINV: the reader for 'mine' is not the id of one; give what rowlock_acquire_shared gave you
a> CALL rowlock_release_shared('mine', REPEAT('é', 59));
= ERROR RLINV: the reader for 'mine' is not the id of one; give what rowlock_acquire_shared gave you
a> CALL rowlock_release_shared('mine', UPPER(@r));
= ERROR RLINV: the reader for 'mine' is not the id of one; give what rowlock_acquire_shared gave you
a> CALL rowlock_release_shared('mine', CONCAT(@r, '\n'));
= ERROR RLINV: the reader for 'mine' is not the id of one; give what rowlock_acquire_shared gave you
a> CALL rowlock_release_shared('mine', 1);
= ERROR RLINV: the reader for 'mine' is not the id of one; give what rowlock_acquire_shared gave you
a> CALL rowlock_release_shared('mine', CONCAT(LEFT(@r, 27), REPEAT('0', 32)));
= ERROR RLLST: 'mine' is not held by that reader, of this login, any more; stop this work
a> CALL rowlock_release_shared(NULL, @r);
= ERROR RLINV: the lock's name is empty or NULL; give one of 1 to 255 characters
a> CALL rowlock_acquire_shared(' x', 30, 0, @t, @s);
= ERROR RLINV: the lock's name ' x' begins with white space; take it away
a> CALL rowlock_renew_shared(REPEAT('a', 256), @r, 30);
= ERROR RLINV: the lock's name 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa...' is longer than 255 characters; give a shorter one
a> CALL rowlock_acquire_shared('mine', NULL, 0, @t, @s);
= ERROR RLINV: the TTL for 'mine' is NULL; give 0.5 to 86400 seconds
a> CALL rowlock_renew_shared('mine', @r, NULL);
= ERROR RLINV: the TTL for 'mine' is NULL; give 0.5 to 86400 seconds
a> CALL rowlock_release_shared('nobody''s "lock" \\ %s', @r);
= ERROR RLNOF: there is no lock 'nobody's "lock" \ %s'; look at its spelling
a> CALL rowlock_row_make('row');
a> CALL rowlock_acquire_shared('row', 30, 0, @t, @s);
= ERROR RLMOD: 'row' is a row lock (pessimistic); it cannot be a lock (lease) too; use another name
a> CALL rowlock_release_shared('row', @r);
= ERROR RLMOD: 'row' is a row lock (pessimistic); it cannot be a lock (lease) too; use another name
a> SELECT COUNT(*) FROM lock_grant;
= 1
a> CALL rowlock_release_shared('mine', @r);
# A name may look like anything.
a> CALL rowlock_acquire_shared('\\''); DROP TABLE lock_grant; --', 30, 0, @t, @r);
a> CALL rowlock_renew_shared('\\''); DROP TABLE lock_grant; --', @r, 30);
a> CALL rowlock_release_shared('\\''); DROP TABLE lock_grant; --', @r);
a> CALL rowlock_acquire_shared(REPEAT(_utf8mb4 X'F09F9092', 255), 30, 0, @t, @r);
a> CALL rowlock_release_shared(REPEAT(_utf8mb4 X'F09F9092', 255), @r);

# A check and a fence in a reader's transaction keep the next writer out until its end; not the reader beside it, nor
# one that comes. (As if the time of all of them were over.)
a> CALL rowlock_acquire_shared('f', 300, 0, @t, @r);
b> CALL rowlock_acquire_shared('f', 300, 0, @t, @r);
a> START TRANSACTION;
a> CALL rowlock_fence('f', 17);
= ERROR RLLST: 'f' is not held with token 17 any more; roll back
a> CALL rowlock_fence('f', @t);
b> START TRANSACTION;
b> CALL rowlock_fence('f', @t);
b> COMMIT;
b> START TRANSACTION;
b> CALL rowlock_check('f', @t);
d> CALL rowlock_acquire_shared('f', 300, 0, @t, @r);
e> DELETE FROM lock_grant;
e> CALL rowlock_acquire('f', 300, 0, @t);
= ERROR RLBSY: 'f' is in use by a transaction; try again later
a> COMMIT;
e> CALL rowlock_acquire('f', 300, 0, @t);
= ERROR RLBSY: 'f' is in use by a transaction; try again later
b> COMMIT;
e> CALL rowlock_acquire('f', 300, 0, @t);
e> SELECT @t;
= 2
a> START TRANSACTION;
a> CALL rowlock_check('f', 1);
= ERROR RLLST: 'f' is not held with token 1 any more; stop this work
a> CALL rowlock_fence('f', 1);
= ERROR RLLST: 'f' is not held with token 1 any more; roll back
a> ROLLBACK;

# Of a lease that is held alone, a fence beside another session's check does not wait for that, and is good.
e> SET innodb_lock_wait_timeout = 1;
a> START TRANSACTION;
a> CALL rowlock_check('f', 2);
b> SET innodb_lock_wait_timeout = 1;
b> START TRANSACTION;
b> CALL rowlock_fence('f', 2);
a> COMMIT;
e> CALL rowlock_release('f', @t);
= ERROR RLBSY: 'f' is in use by a transaction; try again later
b> COMMIT;
e> CALL rowlock_release('f', @t);

# They are transactions of their own, and leave none behind; nor settings.
a> START TRANSACTION;
a> CALL rowlock_acquire_shared('auto', 30, 0, @t, @r);
= ERROR RLTXN: taking a lease on 'auto' is a transaction of its own; COMMIT or ROLLBACK yours first
a> CALL rowlock_renew_shared('auto', @r, 30);
= ERROR RLTXN: renewing 'auto' is a transaction of its own; COMMIT or ROLLBACK yours first
a> CALL rowlock_release_shared('auto', @r);
= ERROR RLTXN: releasing 'auto' is a transaction of its own; COMMIT or ROLLBACK yours first
a> COMMIT;
a> SET autocommit = 0;
a> CALL rowlock_acquire_shared('auto', 30, 0, @t, @r);
a> CALL rowlock_renew_shared('auto', @r, 60);
a> CALL rowlock_check('auto', @t);
a> CALL rowlock_release_shared('auto', @r);
b> SELECT (SELECT COUNT(*) FROM lock_event WHERE resource_name = 'auto'), (SELECT COUNT(*) FROM lock_grant);
= 2 | 0
a> CALL rowlock_release_shared('auto', @r);
= ERROR RLLST: 'auto' is not held by that reader, of this login, any more; stop this work
a> SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
a> COMMIT;
a> SET autocommit = 1, unique_checks = 0, foreign_key_checks = 0, sql_safe_updates = 1, completion_type = 'CHAIN';
a> CALL rowlock_acquire_shared('auto', 30, 0, @t, @r);
b> CALL rowlock_acquire_shared('auto', 30, 0, @t, @r);
a> CALL rowlock_renew_shared('auto', @r, 60);
a> CALL rowlock_release_shared('auto', @r);
b> CALL rowlock_release_shared('auto', @r);
a> CALL rowlock_acquire('auto', 30, 0, @t);
a> SELECT @t, @@unique_checks, @@completion_type, LAST_INSERT_ID();
= 2 | 0 | CHAIN | 0
a> CALL rowlock_release('auto', @t);
a> SET unique_checks = 1, foreign_key_checks = 1, sql_safe_updates = 0, completion_type = DEFAULT;

# Killed: a reader that waits; and a writer that waits for readers, and keeps others out for ten seconds at most, though its
# session goes on and may still have the bell. (The ROLLBACK: see rowlock-sql(7).)
a> CALL rowlock_acquire('k', 300, 0, @t);
b& CALL rowlock_acquire_shared('k', 300, 60, @t, @r);
until b waits
stop b
b<
= ERROR 70100 (1317)
b> SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
b> SELECT 1;
= 1
a> CALL rowlock_release('k', @t);
a> CALL rowlock_acquire_shared('k', 300, 10, @t, @r);
b& CALL rowlock_acquire('k', 300, 60, @t);
until a> SELECT next_owner <> '' FROM resource WHERE resource_name = 'k';
stop b
b<
= ERROR 70100 (1317)
b> ROLLBACK;
d> CALL rowlock_acquire_shared('k', 300, 60, @t, @r);
e& CALL rowlock_acquire('k', 300, 60, @t);
until a> SELECT next_owner <> '' FROM resource WHERE resource_name = 'k';
a> CALL rowlock_release_shared('k', @r);
d> CALL rowlock_release_shared('k', @r);
e<
e> SELECT @t;
= 2
