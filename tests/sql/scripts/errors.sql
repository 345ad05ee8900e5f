# Each of the SQLSTATEs, with its words. (RLRDO, the read-only server, is in read_only.sql.)
a> CALL rowlock_acquire('mine', 30, 0, @t);

# RLBSY, RLTMO
b> CALL rowlock_acquire('mine', 30, 0, @x);
b> CALL rowlock_acquire('mine', 30, 0.1, @x);
b> CALL rowlock_bump('mine', 1);
a> START TRANSACTION;

# RLTXN: these are transactions of their own
a> CALL rowlock_row_make('row');
a> CALL rowlock_acquire('other', 30, 0, @x);
a> CALL rowlock_try('other', 30, @x);
a> CALL rowlock_renew('mine', @t, 30);
a> CALL rowlock_break('mine');
a> COMMIT;
a> SELECT COUNT(*) FROM resource WHERE resource_name = 'other';
a> SET autocommit = 0;
a> SELECT COUNT(*) FROM resource WHERE FALSE;
a> CALL rowlock_acquire('other', 30, 0, @x);
a> ROLLBACK;
a> SET autocommit = 1;

# RLTXN: these need yours
a> CALL rowlock_row_lock('row', 0);

# RLLST
a> CALL rowlock_check('mine', @t + 1);
a> CALL rowlock_renew('mine', @t + 1, 30);
a> CALL rowlock_release('mine', @t + 1);

# RLMOD: a name of another kind
a> CALL rowlock_row_make('row');
a> CALL rowlock_acquire('row', 30, 0, @x);
a> CALL rowlock_try('row', 30, @x);
a> CALL rowlock_renew('row', 1, 30);
a> CALL rowlock_version('row', @v);
a> CALL rowlock_bump('row', 0);
a> START TRANSACTION;
a> CALL rowlock_row_lock('mine', 0);
a> ROLLBACK;
$ rowlock run --mode=pessimistic mine -- echo not reached

# RLNOF: no such name
a> CALL rowlock_check('nobody''s', 1);
a> CALL rowlock_renew('nobody''s', 1, 30);
a> CALL rowlock_release('nobody''s', 1);
a> CALL rowlock_break('nobody''s');
a> CALL rowlock_bump('nobody''s', 0);
a> START TRANSACTION;
a> CALL rowlock_row_lock('nobody''s', 0);
a> ROLLBACK;
a> SELECT COUNT(*) FROM resource WHERE resource_name LIKE 'nobody%';

# RLCNF: changed by somebody else
a> CALL rowlock_version('versioned', @v);
a> SELECT @v;
a> CALL rowlock_bump('versioned', @v);
a> CALL rowlock_bump('versioned', @v);

# What was wrong has changed nothing of ours.
a> CALL rowlock_check('mine', @t);
a> CALL rowlock_release('mine', @t);

# A long name is cut, where it shows; the line ends as it is to.
mask /lease until [0-9.]+ s/lease until N s/
mask /another [0-9.]+ s/another N s/
a> SET @long = CONCAT('nightly-close/', REPEAT('region/', 30));
a> SET @last = 18446744073709551615;
a> CALL rowlock_acquire(@long, 600, 0, @t);
b> CALL rowlock_acquire(CONCAT('nightly-close/', REPEAT('region/', 30)), 30, 0, @x);
a> CALL rowlock_acquire(@long, NULL, 0, @x);
a> CALL rowlock_acquire(REPEAT(@long, 2), 30, 0, @x);
a> CALL rowlock_acquire(CONCAT(@long, ' '), 30, 0, @x);
a> CALL rowlock_acquire(CONCAT(' ', @long), 30, 0, @x);
a> CALL rowlock_acquire(CONCAT('two\n', @long), 30, 0, @x);
a> CALL rowlock_check(@long, NULL);
a> CALL rowlock_bump(@long, 1.5);
a> CALL rowlock_check(@long, @last);
a> CALL rowlock_renew(@long, @last, 30);
a> CALL rowlock_bump(@long, @last);
a> CALL rowlock_bump(@long, @t);
a> CALL rowlock_fence(@long, @last);
a> CALL rowlock_row_lock(@long, 0);
a> CALL rowlock_row_make(@long);
a> CALL rowlock_present(CONCAT('a', @long), 1);
a> CALL rowlock_break(CONCAT('a', @long));
a> CALL rowlock_bump(CONCAT('a', @long), 1);
c> SET insert_id = 7;
c> CALL rowlock_release(CONCAT('nightly-close/', REPEAT('region/', 30)), 1);
a> LOCK TABLES resource READ;
a> CALL rowlock_check(@long, 1);
a> UNLOCK TABLES;
a> START TRANSACTION;
a> CALL rowlock_fence(@long, @last);
a> CALL rowlock_acquire(@long, 30, 0, @x);
a> CALL rowlock_renew(@long, @t, 30);
a> CALL rowlock_row_make(@long);
a> CALL rowlock_row_lock(CONCAT('a', @long), 0);
a> CALL rowlock_version(CONCAT('a', @long), @v);
a> CALL rowlock_version(@long, @v);
a> ROLLBACK;
