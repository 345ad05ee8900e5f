# Slots in SQL: so many hold a name at once, each one of its slots, which is a lease of its own.
user app
mask /'x#[0-9]'/'x#N'/
a> GRANT EXECUTE ON {schema}.* TO {app};
a> CREATE VIEW bells AS SELECT resource_name AS name, CONCAT((SELECT REGEXP_SUBSTR(routine_definition, 'rowlock[.][^'']+[.]')
       FROM information_schema.routines WHERE routine_schema = '{schema}' AND routine_name = 'rl_bell_ring'), id) AS bell FROM resource;
a> CREATE VIEW line AS SELECT name, IS_USED_LOCK(bell) AS its_first FROM bells;

# As many as there are, each another one, and no more.
a> CALL rowlock_acquire_slot('x', 3, 300, 0, @s, @t);
b> CALL rowlock_acquire_slot('x', 3, 300, 0, @s, @t);
b> SET @s2 = @s;
b> CALL rowlock_acquire_slot('x', NULL, 300, 0, @s, @t);
a> SELECT @t;
= 1
a> SELECT resource_name, kind, status, slots FROM resource ORDER BY resource_name;
= x | slots | free | 3
= x#0 | optimistic | held | 0
= x#1 | optimistic | held | 0
= x#2 | optimistic | held | 0
d> CALL rowlock_acquire_slot('x', 3, 300, 0, @s, @t);
= ERROR RLBSY: none of the 3 slots of 'x' is free
d> CALL rowlock_acquire_slot('x', NULL, 300, 0.3, @s, @t);
= ERROR RLTMO: none of the 3 slots of 'x' is free
d> CALL rowlock_acquire_slot('x', NULL, 300, 1.2, @s, @t);
= ERROR RLTMO: none of the 3 slots of 'x' is free
d> SELECT @s, @t;
= NULL | NULL
$ rowlock run --slots=3 -n x -- echo not reached 2>/dev/null
= exit status 1
a> SELECT its_first FROM line WHERE name = 'x';
= NULL

# A slot is renewed, checked, fenced and released as the lease of its name.
a> CALL rowlock_renew(CONCAT('x#', @s), @t, 3000);
a> CALL rowlock_check(CONCAT('x#', @s), @t);
a> START TRANSACTION;
a> CALL rowlock_fence(CONCAT('x#', @s), @t);
a> COMMIT;
a> CALL rowlock_renew(CONCAT('x#', @s), @t + 1, 3000);
= ERROR RLLST: 'x#N' is not held with token 2 any more; stop this work
a> CALL rowlock_release(CONCAT('x#', @s), @t);
a> CALL rowlock_check(CONCAT('x#', @s), @t);
= ERROR RLLST: 'x#N' is not held with token 1 any more; stop this work
d> CALL rowlock_acquire_slot('x', NULL, 300, 0, @s, @t);
d> SELECT @t;
= 2
a> SELECT @s = (SELECT SUBSTR(resource_name, 3) FROM resource WHERE version = 2);
= 1
d> CALL rowlock_release(CONCAT('x#', @s), @t);
b> CALL rowlock_release(CONCAT('x#', @s), @t);
b> CALL rowlock_release(CONCAT('x#', @s2), 1);
a> SELECT event, COUNT(*), SUM(kind = 'optimistic'), SUM(resource_name LIKE 'x#%') FROM lock_event GROUP BY event ORDER BY event;
= acquired | 4 | 4 | 4
= released | 4 | 4 | 4

# Who waits gets one when one is free, in the order of one line for all slots; a try is no way past it.
a> CALL rowlock_acquire_slot('y', 2, 300, 0, @s, @t);
b> CALL rowlock_acquire_slot('y', 2, 300, 0, @s, @t);
d& CALL rowlock_acquire_slot('y', 2, 300, 60, @s, @t);
until d waits
until a> SELECT its_first = {d.id} FROM line WHERE name = 'y';
e& CALL rowlock_acquire_slot('y', NULL, 300, NULL, @s, @t);
until 2 wait
s$& rowlock run --slots=2 -w 60 y -- sh -c 'echo "token $ROWLOCK_TOKEN"; rowlock show --json y | jq -c "[.slots, .slots_held]"'
until 3 wait
f> CALL rowlock_acquire_slot('y', 2, 300, 0, @s, @t);
= ERROR RLBSY: others wait for the slots of 'y'
a> CALL rowlock_release(CONCAT('y#', @s), @t);
d<
d> SELECT @t;
= 2
until a> SELECT its_first = {e.id} FROM line WHERE name = 'y';
d> CALL rowlock_release(CONCAT('y#', @s), @t);
e<
e> SELECT @t;
= 3
e> CALL rowlock_release(CONCAT('y#', @s), @t);
s<
= token 4
= [2,2]
b> CALL rowlock_release(CONCAT('y#', @s), @t);
a> SELECT its_first FROM line WHERE name = 'y';
= NULL

# Behind a waiter of the library's, too.
b> CALL rowlock_acquire_slot('z', 1, 300, 0, @s, @t);
s$& rowlock run --slots=1 -w 60 z -- sh -c 'echo "token $ROWLOCK_TOKEN"'
until a> SELECT its_first IS NOT NULL FROM line WHERE name = 'z';
d& CALL rowlock_acquire_slot('z', 1, 300, 60, @s, @t);
until d waits
b> CALL rowlock_release('z#0', @t);
s<
= token 2
d<
d> SELECT @s, @t;
= 0 | 3
d> CALL rowlock_release('z#0', @t);

# A dead holder's slot is had after its time, with the next token.
a> CALL rowlock_acquire_slot('short', 1, 0.5, 0, @s, @t);
b> CALL rowlock_acquire_slot('short', 1, 300, 30, @s, @t);
b> SELECT @s, @t;
= 0 | 2
a> CALL rowlock_check('short#0', @t);
= ERROR RLLST: 'short#0' is not held with token 1 any more; stop this work
a> CALL rowlock_release('short#0', @t);
= ERROR RLLST: 'short#0' is not held with token 1 any more; stop this work
b> CALL rowlock_check('short#0', @t);
a> SELECT event, version FROM lock_event WHERE resource_name = 'short#0' ORDER BY id;
= acquired | 1
= taken_over | 2

# One that was broken can be had when its holder's work is over, or at once.
a> CALL rowlock_break('short#0');
a> CALL rowlock_acquire_slot('short', 1, 300, 0, @s, @t);
= ERROR RLBSY: the only slot of 'short' is in use
b> CALL rowlock_release('short#0', @t);
= ERROR RLLST: 'short#0' is not held with token 2 any more; stop this work
a> CALL rowlock_acquire_slot('short', 1, 300, 0, @s, @t);
a> CALL rowlock_break_now('short#0');
b> CALL rowlock_acquire_slot('short', 1, 300, 0, @s, @t);
b> CALL rowlock_release('short#0', @t);

# All that are held are broken by the name that they have in common, also above a lowered number; no other lock is.
a> CALL rowlock_acquire_slot('all', 2, 300, 0, @s, @t);
b> CALL rowlock_acquire_slot('all', 2, 300, 0, @s, @t);
a> CALL rowlock_acquire('all#x', 300, 0, @x);
a> CALL rowlock_acquire('all#00', 300, 0, @x);
$ rowlock slots all 1
$ rowlock --via=procedures break --yes --token=1 all 2>&1 | grep -o 'each with a token of its own'
= each with a token of its own
a> CALL rowlock_break('all');
a> SELECT resource_name, event FROM lock_event WHERE resource_name LIKE 'all%' AND event <> 'acquired' ORDER BY id;
= all#0 | broken
= all#1 | broken
a> CALL rowlock_break('all');
= ERROR RLBSY: none of the slots of 'all' is held
a> CALL rowlock_break_now('all');
a> CALL rowlock_break_now('all');
= ERROR RLBSY: none of the slots of 'all' is held
a> CALL rowlock_release('all#x', @x);
a> CALL rowlock_release('all#00', @x);

# The number of slots: another one is refused; an operator changes it, and waiters are woken.
a> CALL rowlock_acquire_slot('many', 2, 300, 0, @s, @t);
b> CALL rowlock_acquire_slot('many', 3, 300, 0, @s, @t);
= ERROR RLMOD: 'many' has 2 slots, not 3 (`rowlock slots` changes it)
b> CALL rowlock_acquire_slot('many', 1, 300, 60, @s, @t);
= ERROR RLMOD: 'many' has 2 slots, not 1 (`rowlock slots` changes it)
$ rowlock slots many
= 2
b> CALL rowlock_acquire_slot('many', 2, 300, 0, @s, @t);
d& CALL rowlock_acquire_slot('many', NULL, 300, 60, @s, @t);
until d waits
e& CALL rowlock_acquire_slot('many', 2, 300, 60, @s, @t);
until e waits
$ rowlock slots many 3
d<
d> SELECT @s, @t;
= 2 | 1
e<
= ERROR RLMOD: 'many' has 3 slots, not 2 (`rowlock slots` changes it)
$ rowlock slots many 1
d> CALL rowlock_check('many#2', @t);
d> CALL rowlock_release('many#2', @t);
e> CALL rowlock_acquire_slot('many', NULL, 300, 0, @s, @t);
= ERROR RLBSY: the only slot of 'many' is in use
a> CALL rowlock_release(CONCAT('many#', @s), @t);
b> CALL rowlock_release(CONCAT('many#', @s), @t);
e> CALL rowlock_acquire_slot('many', NULL, 300, 0, @s, @t);
e> SELECT @s;
= 0
e> CALL rowlock_release('many#0', @t);

# That is looked at again in the transaction that takes one, and stays so until its end.
a> SELECT id INTO @id FROM resource WHERE resource_name = 'many';
a> SELECT id INTO @child FROM resource WHERE resource_name = 'many#2';
a> CALL rl_slot_kept(@id, 0, FALSE, @of_0);
a> CALL rl_slot_kept(@id, 1, FALSE, @of_1);
a> SELECT @of_0, @of_1;
= KEPT | CHANGED
a> CALL rl_attempt('many#2', @child, 'somebody', '', 1000000, UTC_TIMESTAMP(6), TRUE, FALSE, TRUE, @id, 2, FALSE,
       @none, @u, @verdict, @us, @rings, @text);
a> SELECT @verdict, @u;
= CHANGED | NULL
b> SELECT GET_LOCK(bell, 0) FROM bells WHERE name = 'many';
= 1
a> CALL rl_slot_kept(@id, 0, FALSE, @of_0);
a> CALL rl_slot_kept(@id, 0, TRUE, @passing);
b> CALL rl_slot_kept((SELECT id FROM resource WHERE resource_name = 'many'), 0, FALSE, @of_0);
a> SELECT @of_0, @passing;
= LINE | KEPT
b> SELECT @of_0;
= KEPT
b> DO RELEASE_ALL_LOCKS();
a> START TRANSACTION;
a> CALL rl_slot_kept(@id, 0, FALSE, @of_0);
s$& rowlock slots many 2
until 1 wait
a> COMMIT;
s<

# What is no name, no number, no TTL; what is of another kind: one line each, and nothing is made of it.
a> CALL rowlock_acquire('lease', 300, 0, @l);
a> CALL rowlock_row_make('row');
a> SELECT COUNT(*), COUNT(DISTINCT kind), SUM(version), SUM(slots) INTO @rows, @kinds, @versions, @slots FROM resource;
a> CALL rowlock_acquire_slot(NULL, 2, 30, 0, @s, @t);
= ERROR RLINV: the lock's name is empty or NULL; give one of 1 to 255 characters
a> CALL rowlock_acquire_slot(' n', 2, 30, 0, @s, @t);
= ERROR RLINV: the lock's name ' n' begins with white space; take it away
a> CALL rowlock_acquire_slot(REPEAT('n', 256), 2, 30, 0, @s, @t);
= ERROR RLINV: the lock's name 'nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn...' is longer than 255 characters; give a shorter one
a> CALL rowlock_acquire_slot(REPEAT('n', 251), 2, 30, 0, @s, @t);
= ERROR RLINV: the lock's name 'nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn...' is too long for slots: 250 characters at most; give a shorter one
a> CALL rowlock_acquire_slot('n', 0, 30, 0, @s, @t);
= ERROR RLINV: the number of slots of 'n' is 0; give 1 to 1000, or NULL for as many as it has
a> CALL rowlock_acquire_slot('n', -1, 30, 0, @s, @t);
= ERROR RLINV: the number of slots of 'n' is -1; give 1 to 1000, or NULL for as many as it has
a> CALL rowlock_acquire_slot('n', 1001, 30, 0, @s, @t);
= ERROR RLINV: the number of slots of 'n' is 1001; give 1 to 1000, or NULL for as many as it has
a> CALL rowlock_acquire_slot('n', 1.5, 30, 0, @s, @t);
= ERROR RLINV: the number of slots of 'n' is 1.5; give 1 to 1000, or NULL for as many as it has
a> CALL rowlock_acquire_slot('n', NULL, 30, 0, @s, @t);
= ERROR RLNOF: 'n' has no number of slots yet; say how many
a> CALL rowlock_acquire_slot('n', 2, NULL, 0, @s, @t);
= ERROR RLINV: the TTL for 'n' is NULL; give 0.5 to 86400 seconds
a> CALL rowlock_acquire_slot('lease', 2, 30, 0, @s, @t);
= ERROR RLMOD: 'lease' is a lock (lease); it cannot have slots too; use another name
a> CALL rowlock_acquire_slot('lease', NULL, 30, 0, @s, @t);
= ERROR RLMOD: 'lease' is a lock (lease); it cannot have slots too; use another name
a> CALL rowlock_acquire_slot('row', 2, 30, 0, @s, @t);
= ERROR RLMOD: 'row' is a row lock (pessimistic); it cannot have slots too; use another name
a> CALL rowlock_acquire('x', 30, 0, @t);
= ERROR RLMOD: 'x' is a semaphore (slots); it cannot be a lock (lease) too; use another name
a> CALL rowlock_acquire_shared('x', 30, 0, @t, @r);
= ERROR RLMOD: 'x' is a semaphore (slots); it cannot be a lock (lease) too; use another name
a> CALL rowlock_version('x', @v);
= ERROR RLMOD: 'x' is a semaphore (slots); it cannot be a lock (lease) too; use another name
a> CALL rowlock_release('x', 0);
= ERROR RLMOD: 'x' is a semaphore (slots); it cannot be a lock (lease) too; use another name
a> CALL rowlock_row_make('x');
= ERROR RLMOD: 'x' is a semaphore (slots); it cannot be a row lock (pessimistic) too; use another name
a> START TRANSACTION;
a> CALL rowlock_row_lock('x', 0);
= ERROR RLMOD: 'x' is a semaphore (slots); it cannot be a row lock (pessimistic) too; use another name
a> CALL rowlock_acquire_slot('n', 2, 30, 0, @s, @t);
= ERROR RLTXN: taking a slot of 'n' is a transaction of its own; COMMIT or ROLLBACK yours first
a> ROLLBACK;
a> CALL rowlock_break('x');
= ERROR RLBSY: none of the slots of 'x' is held
a> SELECT COUNT(*) = @rows, COUNT(DISTINCT kind) = @kinds, SUM(version) = @versions, SUM(slots) = @slots FROM resource;
= 1 | 1 | 1 | 1

# One of its slots is of another kind.
a> CALL rowlock_row_make('odd#0');
a> CALL rowlock_acquire_slot('odd', 1, 30, 1, @s, @t);
= ERROR RLMOD: 'odd#0' is a row lock (pessimistic); it cannot be a lock (lease) too; use another name

# A name may look like anything, and have up to 250 characters.
a> CALL rowlock_acquire_slot('\\''); DROP TABLE resource; -- %s#1', 1, 30, 0, @s, @t);
a> CALL rowlock_acquire_slot('\\''); DROP TABLE resource; -- %s#1', 1, 30, 0, @s, @u);
= ERROR RLBSY: the only slot of '\'); DROP TABLE resource; -- %s#1' is in use
a> CALL rowlock_release('\\''); DROP TABLE resource; -- %s#1#0', @t);
a> CALL rowlock_acquire_slot(REPEAT(_utf8mb4 X'F09F9092', 250), 1000, 30, 0, @s, @t);
a> CALL rowlock_release(CONCAT(REPEAT(_utf8mb4 X'F09F9092', 250), '#', @s), @t);

# A slot belongs to the login that took it.
login f as app
f> CALL rowlock_acquire_slot('mine', 2, 300, 0, @s, @t);
a> SELECT SUBSTR(resource_name, 6) INTO @s FROM resource WHERE resource_name LIKE 'mine#%';
mask /'mine#[0-9]'/'mine#N'/
a> CALL rowlock_release(CONCAT('mine#', @s), 1);
= ERROR RLLST: 'mine#N', token 1, was not taken by SQL by this login; rowlock_break ends it
f> CALL rowlock_release(CONCAT('mine#', @s), @t);

# It is transactions of its own, and leaves none behind; nor settings. What a transaction has locked it does not wait for.
a> SET autocommit = 0, unique_checks = 0, foreign_key_checks = 0, sql_safe_updates = 1, completion_type = 'CHAIN',
       sql_big_selects = 0, max_join_size = 1;
a> COMMIT AND NO CHAIN;
a> CALL rowlock_acquire_slot('auto', 1, 300, 0, @s, @t);
b> SELECT status FROM resource WHERE resource_name = 'auto#0';
= held
a> CALL rowlock_acquire_slot('auto', 1, 300, 0.2, @s, @u);
= ERROR RLTMO: the only slot of 'auto' is in use
a> SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
a> CALL rowlock_acquire_slot('auto', 2, 300, 0, @s, @u);
= ERROR RLMOD: 'auto' has 1 slot, not 2 (`rowlock slots` changes it)
a> SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
a> CALL rowlock_acquire_slot('nothing', NULL, 300, 0, @s, @u);
= ERROR RLNOF: 'nothing' has no number of slots yet; say how many
a> SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
a> CALL rowlock_release('auto#0', @t);
a> SELECT @s, @t, @@autocommit, @@unique_checks, @@completion_type, LAST_INSERT_ID();
= 0 | 1 | 0 | 0 | CHAIN | 0
a> COMMIT AND NO CHAIN;
a> SET autocommit = 1, unique_checks = 1, foreign_key_checks = 1, sql_safe_updates = 0, completion_type = DEFAULT,
       sql_big_selects = DEFAULT, max_join_size = DEFAULT;
a> START TRANSACTION;
a> SELECT slots FROM resource WHERE resource_name = 'auto' FOR UPDATE;
= 1
b> CALL rowlock_acquire_slot('auto', 1, 300, 0, @s, @t);
= ERROR RLBSY: 'auto' or its slots are in use by a transaction; try again later
b& CALL rowlock_acquire_slot('auto', 1, 300, 60, @s, @t);
until b waits
a> COMMIT;
b<
b> CALL rowlock_release('auto#0', @t);

# Killed while it waits in line: nothing is left of it.
a> CALL rowlock_acquire_slot('k', 1, 300, 0, @s, @t);
b& CALL rowlock_acquire_slot('k', 1, 300, 60, @s, @t);
until a> SELECT its_first = {b.id} FROM line WHERE name = 'k';
d& CALL rowlock_acquire_slot('k', 1, 300, 60, @s, @t);
until 2 wait
stop d
d<
= ERROR 70100 (1317)
d> SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
d> SELECT 1;
= 1

# The first in line, killed in its pause: the next one comes first, at once.
d& CALL rowlock_acquire_slot('k', 1, 300, 60, @s, @t);
until 2 wait
stop b
b<
= ERROR 70100 (1317)
b> ROLLBACK;
until a> SELECT its_first = {d.id} FROM line WHERE name = 'k';

# What one leaves that was hit between two statements, where no handler runs: the bell, with a session that does nothing more.
# Those behind it take slots all the same; and the next call of that session is the first in line, and ends as others do.
a> CALL rowlock_release('k#0', @t);
d<
d> SELECT @t;
= 2
b> SELECT GET_LOCK(bell, 10) FROM bells WHERE name = 'k';
= 1
e& CALL rowlock_acquire_slot('k', 1, 300, 60, @s, @t);
until e waits
d> CALL rowlock_release('k#0', @t);
e<
e> CALL rowlock_release('k#0', @t);
f> CALL rowlock_acquire_slot('k', 1, 300, 0, @s, @t);
f> SELECT @s, @t;
= 0 | 4
b> CALL rowlock_acquire_slot('k', 1, 300, 0, @s, @t);
= ERROR RLBSY: the only slot of 'k' is in use
a> SELECT its_first FROM line WHERE name = 'k';
= NULL
f> CALL rowlock_release('k#0', @t);
