-- A job in SQL alone that cannot run twice: `mysql < nightly.sql` by cron, on any number of hosts.
-- (mysql stops at the first error. The lock's schema is `rowlock`, `rowlock init --procedures`.)
--
-- The table is fenced, once, by an administrator:
--     rowlock fence install --table example_books.account --lock 'example nightly'
--
-- A job that is stopped and started again, hours later, behind the SELECT would book a second time
-- what another host has booked meanwhile. Here its UPDATE is refused (SQLSTATE RLLST).

-- For 5 seconds, long enough for each step; wait for the lock at most a minute.
CALL rowlock.rowlock_acquire('example nightly', 5, 60, @token);
CALL rowlock.rowlock_present('example nightly', @token);

-- Should this client stop inside the transaction, the server ends it after so long.
SET SESSION wait_timeout = 10;

SELECT COALESCE(SUM(amount), 0) INTO @amount FROM example_books.sale WHERE booked = 0;

START TRANSACTION;
UPDATE example_books.account SET balance = balance + @amount;
UPDATE example_books.sale SET booked = 1;
COMMIT;

CALL rowlock.rowlock_release('example nightly', @token);
