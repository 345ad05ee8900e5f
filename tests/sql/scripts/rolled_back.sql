# A server that ends the whole transaction when a wait for a row times out: each refusal says so.
# own server --innodb-rollback-on-timeout=ON
a> CREATE TABLE work (id INT PRIMARY KEY, n INT NOT NULL) ENGINE = InnoDB;
a> INSERT INTO work VALUES (1, 0);
a> CALL rowlock_row_make('row');
a> CALL rowlock_queue_make('jobs');
a> CALL rowlock_queue_put('jobs', 'first', NULL, NULL, NULL, 'g', NULL, @id);
b> CALL rowlock_queue_take('jobs', 60, 0, @item, @t, @n, @k, @p);
b> SET SESSION innodb_lock_wait_timeout = 1;
a> START TRANSACTION;
a> CALL rowlock_row_lock('row', 0);
a> CALL rowlock_queue_put('jobs', 'second', NULL, NULL, NULL, 'g', NULL, @id);

b> START TRANSACTION;
b> UPDATE work SET n = 1 WHERE id = 1;
b> CALL rowlock_queue_put('jobs', 'third', NULL, NULL, NULL, 'g', NULL, @id);
= ERROR RLBSY: 'jobs': a transaction has locked the same key or group; yours has been rolled back
b> SELECT n FROM work;
= 0
b> START TRANSACTION;
b> UPDATE work SET n = 1 WHERE id = 1;
b> CALL rowlock_queue_done('jobs', @item, @t);
= ERROR RLBSY: item 1 of 'jobs' or its group is in use by a transaction; yours has been rolled back
b> SELECT n FROM work;
= 0
b> START TRANSACTION;
b> UPDATE work SET n = 1 WHERE id = 1;
b> CALL rowlock_row_lock('row', 1);
= ERROR RLTMO: the wait for 'row' ended; the transaction has been rolled back
b> SELECT n FROM work;
= 0

# The library's own limit stops the wait before the server's, and rolls nothing back.
c! sql BEGIN
= done
c! sql UPDATE work SET n = 1 WHERE id = 1
= done
c! tx_acquire row wait=3000
= TIMEOUT
c! sql SELECT n FROM work WHERE id = 1
= rows: 1
c! sql SET SESSION innodb_lock_wait_timeout = 1
= done
c! tx_acquire row wait=30000
= DEADLOCK
c! sql SELECT n FROM work WHERE id = 1
= rows: 0

a> COMMIT;
b> CALL rowlock_queue_done('jobs', @item, @t);
b> CALL rowlock_queue_take('jobs', 60, 0, @item, @t, @n, @k, @p);
b> SELECT @p;
= second
