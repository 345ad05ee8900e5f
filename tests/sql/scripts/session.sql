# Sessions of a lease's holder: the next holder ends them, and gets the lease when their work is rolled back.
a> CREATE TABLE work (id INT PRIMARY KEY, n INT);
a> INSERT INTO work VALUES (1, 0);
a> CALL rowlock_acquire('x', 30, 0, @t);
z> CALL rowlock_session('x', 1);
z> START TRANSACTION;
z> UPDATE work SET n = n + 1;
z& DO SLEEP(600);
until z waits
a> UPDATE resource SET lease_expires_at = UTC_TIMESTAMP(6);
b> CALL rowlock_acquire('x', 30, 30, @t);
b> SELECT @t, n FROM work FOR UPDATE NOWAIT;
= 2 | 0
z<
= ERROR the connection has ended
a> SELECT event, version, detail FROM lock_event WHERE event = 'ended';
= ended | 1 | 1 of its holder's sessions

# By a reader, after a break; and by the command.
c> CALL rowlock_session('x', 2);
c& DO SLEEP(600);
until c waits
b> CALL rowlock_break_now('x');
b> CALL rowlock_acquire_shared('x', 30, 30, @t, @reader);
c<
= ERROR the connection has ended
b> CALL rowlock_release_shared('x', @reader);
b> CALL rowlock_acquire('x', 30, 30, @t);
d> CALL rowlock_session('x', 4);
d& DO SLEEP(600);
until d waits
a> UPDATE resource SET lease_expires_at = UTC_TIMESTAMP(6);
$ rowlock run --ttl=30s -w 30s x -- echo got it
= got it
d<
= ERROR the connection has ended

# A token that is not held any more, or another's, is refused; a session that asks for the lease anew is not ended by its old entry.
a> CALL rowlock_session('x', 4);
= ERROR RLLST: 'x' is not held with token 4 any more; stop this work
b> CALL rowlock_acquire('x', 30, 0, @t);
a> CALL rowlock_session('x', @t);
= ERROR RLLST: 'x' is not held with token 1 any more; stop this work
a> CALL rowlock_session('x', NULL);
= ERROR RLINV: the token for 'x' is not a whole number of 64 bits (NULL); give the one that you got
b> CALL rowlock_session('x', @t);
b> CALL rowlock_session('x', @t);
a> UPDATE resource SET lease_expires_at = UTC_TIMESTAMP(6);
a> CALL rowlock_session('x', 6);
= ERROR RLLST: the lease on 'x' with token 6 has run out; stop this work
b> CALL rowlock_acquire('x', 30, 30, @t);
b> CALL rowlock_release('x', @t);

# A section ends them, too, but not in a transaction of the caller's.
a> CALL rowlock_acquire('x', 30, 0, @t);
e> CALL rowlock_session('x', 8);
e& DO SLEEP(600);
until e waits
a> UPDATE resource SET lease_expires_at = UTC_TIMESTAMP(6);
a> START TRANSACTION;
a> CALL rowlock_version('x', @v);
a> CALL rowlock_bump('x', @v);
= ERROR RLBSY: sessions of the last holder of 'x' are still there; CALL rowlock_version(name, @v) outside of a transaction ends them
a> ROLLBACK;
a> CALL rowlock_version('x', @v);
e<
= ERROR the connection has ended
a> CALL rowlock_bump('x', @v);

# Released: it goes on, and the next holder's end is not its own.
a> CALL rowlock_acquire('x', 30, 0, @t);
b> CALL rowlock_session('x', 99);
= ERROR RLLST: 'x' is not held with token 99 any more; stop this work
a> CALL rowlock_session('x', @t);
a> CALL rowlock_release('x', @t);
b> CALL rowlock_acquire('x', 30, 0, @t);
a> UPDATE resource SET lease_expires_at = UTC_TIMESTAMP(6);
b> CALL rowlock_acquire('x', 30, 30, @t);
a> SELECT 17;
= 17

# Released after its time: by a holder that did not see that, with a session that works on.
a> UPDATE work SET n = 0;
b> CALL rowlock_break_now('x');
a> CALL rowlock_acquire('late', 30, 0, @t);
f> CALL rowlock_session('late', 1);
f> START TRANSACTION;
f> UPDATE work SET n = 1;
f& DO SLEEP(600);
until f waits
a> UPDATE resource SET lease_expires_at = UTC_TIMESTAMP(6) WHERE resource_name = 'late';
a> CALL rowlock_release('late', @t);
b> CALL rowlock_acquire('late', 30, 30, @t);
b> SELECT @t, n FROM work FOR UPDATE NOWAIT;
= 2 | 0
f<
= ERROR the connection has ended

# Renewed it is in time, also in a transaction.
g> CALL rowlock_session('late', 2);
b> CALL rowlock_renew('late', @t, 60);
a> UPDATE resource SET lease_expires_at = UTC_TIMESTAMP(6) WHERE resource_name = 'late';
b> START TRANSACTION;
b> CALL rowlock_release('late', @t);
b> COMMIT;
b> CALL rowlock_acquire('late', 30, 0, @t);
g> CALL rowlock_session('late', 3);
a> UPDATE resource, lease_renewal SET lease_expires_at = UTC_TIMESTAMP(6), expires_at = UTC_TIMESTAMP(6);
b> START TRANSACTION;
b> CALL rowlock_release('late', @t);
b> COMMIT;
a> CALL rowlock_acquire('late', 30, 30, @t);
g> DO 0;
= ERROR the connection has ended

# Other kinds.
a> CALL rowlock_row_make('row');
a> CALL rowlock_session('row', 1);
= ERROR RLUNS: 'row': sessions are registered with a lease that one holds alone, no row lock, slot or other kind
a> CALL rowlock_acquire_slot('slots', 1, 30, 0, @slot, @t);
a> CALL rowlock_session('slots#0', @t);
= ERROR RLUNS: 'slots#0': sessions are registered with a lease that one holds alone, no row lock, slot or other kind
a> CALL rowlock_acquire_shared('readers', 30, 0, @t, @reader);
a> CALL rowlock_session('readers', @t);
= ERROR RLUNS: 'readers': sessions are registered with a lease that one holds alone, no row lock, slot or other kind
a> CALL rowlock_session('nobody''s', 1);
= ERROR RLNOF: there is no lock 'nobody's'; look at its spelling
a> START TRANSACTION;
a> CALL rowlock_session('x', 1);
= ERROR RLTXN: registering a session for 'x' is a transaction of its own; COMMIT or ROLLBACK yours first
a> ROLLBACK;
