# Killed in the middle of a wait: nothing is held, no place in the line is kept, the session is as it was.
a> CALL rowlock_acquire('x', 60, 0, @t);
a> CALL rowlock_row_make('row');

# KILL QUERY of a session that waits for a lease
b> SET time_zone = '+03:00', @u = 77;
b& CALL rowlock_acquire('x', 30, 60, @u);
until b waits
c& CALL rowlock_acquire('x', 30, 60, @u);
until c waits
stop b
b<
= ERROR 70100 (1317)
b> SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
b> SELECT @u, @@time_zone, @@autocommit;
= 77 | +03:00 | 1
b> SELECT COUNT(*) FROM lock_event WHERE version > 1;
= 0
b> CALL rowlock_acquire('y', 30, 0, @u);
b> CALL rowlock_release('y', @u);

# KILL CONNECTION of the next waiter; the one after that is the first now
d& CALL rowlock_acquire('x', 30, 60, @u);
until d waits
a> KILL {c.id};
c<
= ERROR the connection has ended
a> CALL rowlock_release('x', @t);
d<
d> SELECT @u;
= 2
d> CALL rowlock_release('x', @u);

# A waiter for a row lock: its transaction stays, for the session to end.
a> START TRANSACTION;
a> CALL rowlock_row_lock('row', 0);
b> SET time_zone = '+03:00';
b> START TRANSACTION;
b& CALL rowlock_row_lock('row', 60);
until b waits
a> KILL QUERY {b.id};
b<
= ERROR 70100 (1317)
b> SELECT @@time_zone;
= +03:00
b> ROLLBACK;
# (What MySQL left of the call is put right by the next one.)
b> SET innodb_lock_wait_timeout = 17;
b> START TRANSACTION;
b& CALL rowlock_row_lock('row', 60);
until b waits
a> KILL QUERY {b.id};
b<
= ERROR 70100 (1317)
b> CALL rowlock_row_lock('row', 0);
= ERROR RLBSY: 'row' is held by another transaction; yours is still open
b> SELECT @@innodb_lock_wait_timeout;
= 17
b> ROLLBACK;
b> START TRANSACTION;
b& CALL rowlock_row_lock('row', 60);
until b waits
a> KILL {b.id};
b<
= ERROR the connection has ended
a> COMMIT;
login c as root
c> START TRANSACTION;
c> CALL rowlock_row_lock('row', 0);
c> COMMIT;

# Killed while it waits for a transaction that has checked the lock: it has none open itself, in which what
# the session does next would not be committed (1568 would say so).
c> CALL rowlock_acquire('x', 60, 10, @t);
a> START TRANSACTION;
a> CALL rowlock_check('x', 3);
c& CALL rowlock_release('x', @t);
until c waits
stop c
c<
= ERROR 70100 (1317)
c> SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
c> CALL rowlock_renew('x', @t, 60);
a> COMMIT;
c> CALL rowlock_release('x', @t);
