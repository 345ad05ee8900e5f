# Killed in the middle of a wait: nothing is held, nobody's place is kept, the session is as it was.
a> CALL rowlock_acquire('x', 60, 0, @t);
a> CALL rowlock_row_make('row');

# KILL QUERY of who waits for a lease
b> SET time_zone = '+03:00', @u = 77;
b& CALL rowlock_acquire('x', 30, 60, @u);
until b waits
c& CALL rowlock_acquire('x', 30, 60, @u);
until c waits
a> KILL QUERY {b.id};
b<
b> SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
b> SELECT @u, @@time_zone, @@autocommit;
b> SELECT COUNT(*) FROM lock_event WHERE version > 1;
b> CALL rowlock_acquire('y', 30, 0, @u);
b> CALL rowlock_release('y', @u);

# KILL CONNECTION of the next; the one behind him is the first now
d& CALL rowlock_acquire('x', 30, 60, @u);
until d waits
a> KILL {c.id};
c<
a> CALL rowlock_release('x', @t);
d<
d> SELECT @u;
d> CALL rowlock_release('x', @u);

# The holder's connection is killed: the lease stays to its TTL, and can be given back from another.
login c as root
c> CALL rowlock_acquire('x', 60, 0, @t);
c> SELECT @t;
a> KILL {c.id};
until a> SELECT IS_USED_LOCK(CONCAT('rowlock.{schema}.', id)) IS NULL FROM resource WHERE resource_name = 'x';
login c as root
b> CALL rowlock_try('x', 30, @u);
b> SELECT @u;
b& CALL rowlock_acquire('x', 30, 60, @u);
until b waits
c> CALL rowlock_release('x', 3);
b<
b> CALL rowlock_release('x', @u);

# Who waits for a row lock: his transaction is his own to end.
a> START TRANSACTION;
a> CALL rowlock_row_lock('row', 0);
b> SET time_zone = '+03:00';
b> START TRANSACTION;
b& CALL rowlock_row_lock('row', 60);
until b waits
a> KILL QUERY {b.id};
b<
b> SELECT @@time_zone;
b> ROLLBACK;
# (What MySQL left of the call is put right by the next one.)
b> SET innodb_lock_wait_timeout = 17;
b> START TRANSACTION;
b& CALL rowlock_row_lock('row', 60);
until b waits
a> KILL QUERY {b.id};
b<
b> CALL rowlock_row_lock('row', 0);
b> SELECT @@innodb_lock_wait_timeout;
b> ROLLBACK;
b> START TRANSACTION;
b& CALL rowlock_row_lock('row', 60);
until b waits
a> KILL {b.id};
b<
a> COMMIT;
c> START TRANSACTION;
c> CALL rowlock_row_lock('row', 0);
c> COMMIT;

# Killed while it waits for a transaction that has checked the lock: it has none open itself, in which what
# the session does next would not be committed (1568 would say so).
c> CALL rowlock_acquire('x', 60, 10, @t);
a> START TRANSACTION;
a> CALL rowlock_check('x', 5);
c& CALL rowlock_release('x', @t);
until c waits
a> KILL QUERY {c.id};
c<
c> SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
c& CALL rowlock_break('x');
until c waits
a> KILL QUERY {c.id};
c<
c> SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
c& CALL rowlock_bump('x', 5);
until c waits
a> KILL QUERY {c.id};
c<
c> SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
c> CALL rowlock_renew('x', @t, 60);
a> COMMIT;
c> CALL rowlock_release('x', @t);
