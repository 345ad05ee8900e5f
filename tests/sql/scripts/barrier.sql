# Barriers are the library's and the command's. In SQL nobody enters them, and they are broken by their name.
c!& barrier_enter x 2 wait=60000
until a> SELECT COUNT(*) = 1 FROM lock_grant;
a> CALL rowlock_break('x');
= ERROR RLBSY: nobody is in 'x'; there is nothing to break
d! barrier_enter x 2 wait=60000
= OK, generation 1, place 1
c<
= OK, generation 1, place 0

# Those who are in are lost; who waits for others stays.
e!& barrier_enter x 2 wait=60000
until a> SELECT COUNT(*) = 3 FROM lock_grant;
a> START TRANSACTION;
a> CALL rowlock_break('x');
= ERROR RLTXN: breaking 'x' is a transaction of its own; COMMIT or ROLLBACK yours first
a> ROLLBACK;
a> CALL rowlock_break('x');
c! barrier_leave x wait=0
= LOST
d! barrier_leave x wait=0
= LOST
d! release x
= LOST
c! release x
= LOST
c! barrier_enter x 2 wait=60000
= OK, generation 2, place 1
e<
= OK, generation 2, place 0
a> SELECT event, kind, version, owner, held_ms FROM lock_event WHERE resource_name = 'x' AND event = 'broken';
= broken | barrier | 1 |  | NULL

# Its name is no other lock's.
a> CALL rowlock_acquire('x', 10, 0, @token);
= ERROR RLMOD: 'x' is a barrier; it cannot be a lease (optimistic) too; use another name
a> CALL rowlock_latch_set('x', 1, @g);
= ERROR RLMOD: 'x' is a barrier; it cannot be a latch too; use another name
a> CALL rowlock_latch_down('x', NULL, NULL);
= ERROR RLMOD: 'x' is a barrier; it cannot be a latch too; use another name

# Where nobody is in, and nobody gathers, the next one to enter says of how many it is.
e!& barrier_leave x wait=60000
c! barrier_leave x wait=60000
= OK
e<
= OK
c! release x
= OK
e! release x
= OK
a> CALL rowlock_break_now('x');
a> SELECT slots, version FROM resource WHERE resource_name = 'x';
= 0 | 3
a> CALL rowlock_break('x');
= ERROR RLBSY: nobody is in 'x'; there is nothing to break
c! barrier_enter x 1 wait=0
= OK, generation 3, place 0
a> SELECT event, version FROM lock_event WHERE resource_name = 'x' AND event = 'broken' ORDER BY id;
= broken | 1
= broken | 3
