# Each of the SQLSTATEs, with its words. (RLRDO, the read-only server, is in read_only.sql.)
a> CALL rowlock_acquire('mine', 30, 0, @t);

# RLBSY, RLTMO
b> CALL rowlock_acquire('mine', 30, 0, @x);
= ERROR RLBSY: 'mine' is held (token 1, lease ends in N s) by root@localhost N sql
b> CALL rowlock_acquire('mine', 30, 0.1, @x);
= ERROR RLTMO: 'mine' is held (token 1, lease ends in N s) by root@localhost N sql
b> CALL rowlock_bump('mine', 1);
= ERROR RLBSY: a lease on 'mine' is held; try again when it is free
a> START TRANSACTION;

# RLTXN: these are transactions of their own
a> CALL rowlock_row_make('row');
= ERROR RLTXN: making 'row' is a transaction of its own; COMMIT or ROLLBACK yours first
a> CALL rowlock_acquire('other', 30, 0, @x);
= ERROR RLTXN: taking a lease on 'other' is a transaction of its own; COMMIT or ROLLBACK yours first
a> CALL rowlock_renew('mine', @t, 30);
= ERROR RLTXN: renewing 'mine' is a transaction of its own; COMMIT or ROLLBACK yours first
a> CALL rowlock_break('mine');
= ERROR RLTXN: breaking 'mine' is a transaction of its own; COMMIT or ROLLBACK yours first
a> COMMIT;
a> SELECT COUNT(*) FROM resource WHERE resource_name = 'other';
= 0
a> SET autocommit = 0;
a> SELECT COUNT(*) FROM resource WHERE FALSE;
= 0
a> CALL rowlock_acquire('other', 30, 0, @x);
= ERROR RLTXN: taking a lease on 'other' is a transaction of its own; COMMIT or ROLLBACK yours first
a> ROLLBACK;
a> SET autocommit = 1;

# RLTXN: these need yours
a> CALL rowlock_row_lock('row', 0);
= ERROR RLTXN: the row lock 'row' ends with its transaction, and there is none; START TRANSACTION first

# RLLST
a> CALL rowlock_check('mine', @t + 1);
= ERROR RLLST: 'mine' is not held with token 2 any more; stop this work
a> CALL rowlock_renew('mine', @t + 1, 30);
= ERROR RLLST: 'mine' is not held with token 2 any more; stop this work
a> CALL rowlock_release('mine', @t + 1);
= ERROR RLLST: 'mine' is not held with token 2 any more; stop this work

# RLMOD: a name of another kind
a> CALL rowlock_row_make('row');
a> CALL rowlock_acquire('row', 30, 0, @x);
= ERROR RLMOD: 'row' is a row lock (pessimistic); it cannot be a lock (lease) too; use another name
a> CALL rowlock_version('row', @v);
= ERROR RLMOD: 'row' is a row lock (pessimistic); it cannot be a lock (lease) too; use another name
a> CALL rowlock_bump('row', 0);
= ERROR RLMOD: 'row' is a row lock (pessimistic); it cannot be a lock (lease) too; use another name
a> START TRANSACTION;
a> CALL rowlock_row_lock('mine', 0);
= ERROR RLMOD: 'mine' is a lock (lease); it cannot be a row lock (pessimistic) too; use another name
a> ROLLBACK;
$ rowlock run --mode=pessimistic mine -- echo not reached
= rowlock: 'mine' is a lock (lease); it cannot be a row lock (pessimistic) too; use that mode or another name
= exit status 65

# RLNOF: no such name
a> CALL rowlock_check('nobody''s', 1);
= ERROR RLNOF: there is no lock 'nobody's'; look at its spelling
a> CALL rowlock_renew('nobody''s', 1, 30);
= ERROR RLNOF: there is no lock 'nobody's'; look at its spelling
a> CALL rowlock_release('nobody''s', 1);
= ERROR RLNOF: there is no lock 'nobody's'; look at its spelling
a> CALL rowlock_bump('nobody''s', 0);
= ERROR RLNOF: there is no lock 'nobody's'; CALL rowlock_version(name, @v) makes it
a> START TRANSACTION;
a> CALL rowlock_row_lock('nobody''s', 0);
= ERROR RLNOF: 'nobody's' is new: ROLLBACK, and CALL rowlock_row_make(name) once before the transaction
a> ROLLBACK;
a> SELECT COUNT(*) FROM resource WHERE resource_name LIKE 'nobody%';
= 0

# RLCNF: changed by another session
a> CALL rowlock_version('versioned', @v);
a> SELECT @v;
= 0
a> CALL rowlock_bump('versioned', @v);
a> CALL rowlock_bump('versioned', @v);
= ERROR RLCNF: 'versioned' has version 1, not 0; read again

# What was wrong has changed nothing of ours.
a> CALL rowlock_check('mine', @t);
a> CALL rowlock_release('mine', @t);

# A long name is cut, where it shows; the line ends as it is to.
mask /lease ends in [0-9.]+ s/lease ends in N s/
a> SET @long = CONCAT('nightly-close/', REPEAT('region/', 30));
a> SET @last = 18446744073709551615;
a> CALL rowlock_acquire(@long, 600, 0, @t);
b> CALL rowlock_acquire(CONCAT('nightly-close/', REPEAT('region/', 30)), 30, 0, @x);
= ERROR RLBSY: 'nightly-close/region/region/region/re...' is held (token 1, lease ends in N s) by root@localhost N sql
a> CALL rowlock_acquire(REPEAT(@long, 2), 30, 0, @x);
= ERROR RLINV: the lock's name 'nightly-close/region/region/region/re...' is longer than 255 characters; give a shorter one
a> CALL rowlock_acquire(CONCAT(' ', @long), 30, 0, @x);
= ERROR RLINV: the lock's name ' nightly-close/region/region/region/r...' begins with white space; take it away
a> CALL rowlock_acquire(CONCAT('two\n', @long), 30, 0, @x);
= ERROR RLINV: the lock's name 'two?nightly-close/region/region/regio...' has a control character (shown as ?); take it out
a> CALL rowlock_check(@long, @last);
= ERROR RLLST: 'nightly-close/region/region/region/re...' is not held with token 18446744073709551615 any more; stop this work
a> CALL rowlock_bump(@long, @last);
= ERROR RLCNF: 'nightly-close/region/region/region/re...' has version 1, not 18446744073709551615; read again
a> CALL rowlock_row_make(@long);
= ERROR RLMOD: 'nightly-close/region/region/region/re...' is a lock (lease); it cannot be a row lock (pessimistic) too; use another name
