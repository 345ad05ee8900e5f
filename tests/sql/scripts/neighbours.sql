# A transaction that has locked the gap into which a new name belongs (in REPEATABLE READ, on MariaDB,
# each that has fenced the name behind it) keeps nobody longer than he would wait.
a> CALL rowlock_acquire('a', 60, 0, @t);
a> CALL rowlock_acquire('y', 60, 0, @t);
a> START TRANSACTION;
a> SELECT resource_name FROM resource WHERE resource_name BETWEEN 'a' AND 'y' FOR UPDATE;
a> SELECT resource_name FROM resource_lock WHERE resource_name BETWEEN 'a' AND 'y' FOR UPDATE;
b> SET @from = SYSDATE();
b> CALL rowlock_try('k', 30, @t);
b> CALL rowlock_acquire('k', 30, 0, @t);
b> CALL rowlock_acquire('k', 30, 1.5, @t);
b> SET innodb_lock_wait_timeout = 2;
b> CALL rowlock_version('k', @v);
b> CALL rowlock_row_make('k');
b> SET autocommit = 0;
b> CALL rowlock_row_lock('k', 1);
b> SET autocommit = 1;
b> SELECT @t, @v, @@innodb_lock_wait_timeout, LAST_INSERT_ID();
# (Some 10 s in all, where each would have waited for 50.)
b> SELECT TIMESTAMPDIFF(SECOND, @from, SYSDATE()) < 50;

# Who waits gets it as soon as it ends.
b& CALL rowlock_acquire('k', 30, 60, @t);
until b waits
a> ROLLBACK;
b<
b> CALL rowlock_release('k', @t);
a> SELECT resource_name, status, version FROM resource ORDER BY resource_name;

# A fence is not in the way of names that are there, nor in READ COMMITTED of new ones.
a> SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
a> START TRANSACTION;
a> CALL rowlock_fence('y', 1);
b> CALL rowlock_try('x', 30, @t);
b> SELECT @t;
b> CALL rowlock_try('k', 30, @t);
b> SELECT @t;
a> COMMIT;
