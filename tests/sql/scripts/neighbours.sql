# A transaction that has locked the gap into which a new name belongs (in REPEATABLE READ, on MariaDB,
# any that has fenced the next name) keeps no call longer than the call would wait.
a> CALL rowlock_acquire('a', 600, 0, @t);
a> CALL rowlock_acquire('y', 600, 0, @t);
a> START TRANSACTION;
a> SELECT resource_name FROM resource WHERE resource_name BETWEEN 'a' AND 'y' FOR UPDATE;
= a
= y
a> SELECT resource_name FROM resource_lock WHERE resource_name BETWEEN 'a' AND 'y' FOR UPDATE;
= no rows
b> SET @from = SYSDATE();
b> CALL rowlock_try('k', 30, @t);
b> CALL rowlock_acquire('k', 30, 0, @t);
= ERROR RLBSY: 'k' is new, and a transaction has locked the place where it belongs; try again later
b> CALL rowlock_acquire('k', 30, 1.5, @t);
= ERROR RLTMO: 'k' is new, and a transaction has locked the place where it belongs; try again later
b> SET innodb_lock_wait_timeout = 2;
b> CALL rowlock_version('k', @v);
= ERROR RLBSY: 'k' is new, and a transaction has locked the place where it belongs; try again later
b> CALL rowlock_row_make('k');
= ERROR RLBSY: 'k' is new, and a transaction has locked the place where it belongs; try again later
b> SET autocommit = 0;
b> CALL rowlock_row_lock('k', 1);
= ERROR RLTMO: 'k' is new, and a transaction has locked the place where it belongs; try again later
b> SET autocommit = 1;
b> SELECT @t, @v, @@innodb_lock_wait_timeout, LAST_INSERT_ID();
= NULL | NULL | 2 | 0
# (Some 10 s in all, where each would have waited for 50.)
b> SELECT TIMESTAMPDIFF(SECOND, @from, SYSDATE()) < 50;
= 1

# Who waits gets it as soon as it ends.
b& CALL rowlock_acquire('k', 30, 60, @t);
until b waits
a> ROLLBACK;
b<
b> CALL rowlock_release('k', @t);
a> SELECT resource_name, status, version FROM resource ORDER BY resource_name;
= a | held | 1
= k | free | 1
= y | held | 1

# A fence is not in the way of names that are there, nor in READ COMMITTED of new ones.
a> SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
a> START TRANSACTION;
a> CALL rowlock_fence('y', 1);
b> CALL rowlock_try('x', 30, @t);
b> SELECT @t;
= 1
b> CALL rowlock_try('k', 30, @t);
b> SELECT @t;
= 2
a> COMMIT;
