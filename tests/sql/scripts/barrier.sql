# Programs and the command enter a barrier together; SQL cannot enter one, but breaks it by its name.
a> CREATE VIEW gathered AS SELECT r.resource_name AS name, COUNT(*) AS n FROM resource r
      JOIN lock_grant g ON g.resource_id = r.id AND g.version = r.version GROUP BY r.resource_name;
s$& rowlock barrier y 2 -- sh -c 'echo "part $ROWLOCK_SLOT of generation $ROWLOCK_TOKEN"'
until a> SELECT COUNT(*) FROM gathered WHERE name = 'y' AND n = 1;
c! barrier_enter y 2 wait=60000
= OK, generation 1, place 1
c! barrier_leave y wait=60000
= OK
s<
= part 0 of generation 1
c! release y
= OK

# A break ends the members that are in; one that waits for others goes on waiting.
s$& rowlock barrier -t 6s x 2 -- sleep 60 2>/dev/null
until a> SELECT COUNT(*) FROM gathered WHERE name = 'x' AND n = 1;
a> CALL rowlock_break('x');
= ERROR RLBSY: nobody is in 'x'; there is nothing to break
c! barrier_enter x 2 wait=60000
= OK, generation 1, place 1
t$& rowlock barrier -t 6s x 2 -- sleep 60 2>/dev/null
until a> SELECT COUNT(*) FROM gathered WHERE name = 'x' AND n = 1;
a> START TRANSACTION;
a> CALL rowlock_break('x');
= ERROR RLTXN: breaking 'x' is a transaction of its own; COMMIT or ROLLBACK yours first
a> ROLLBACK;
a> CALL rowlock_break('x');
c! barrier_leave x wait=0
= LOST
c! release x
= LOST
s<
= exit status 75
c! barrier_enter x 2 wait=60000
= OK, generation 2, place 1
until a> SELECT COUNT(*) FROM lock_event WHERE event = 'acquired' AND version = 2 AND owner_label LIKE '% sleep';
a> CALL rowlock_break('x');
t<
= exit status 75
c! release x
= LOST

# Its name is no other lock's.
a> CALL rowlock_acquire('x', 10, 0, @token);
= ERROR RLMOD: 'x' is a barrier; it cannot be a lock (lease) too; use another name
a> CALL rowlock_latch_set('x', 1, @g);
= ERROR RLMOD: 'x' is a barrier; it cannot be a latch too; use another name
a> CALL rowlock_latch_down('x', NULL, NULL);
= ERROR RLMOD: 'x' is a barrier; it cannot be a latch too; use another name

# When it is empty, the next one to enter sets the number of parties.
c! barrier_enter x 1 wait=0
= MODE
a> CALL rowlock_break_now('x');
a> CALL rowlock_break('x');
= ERROR RLBSY: nobody is in 'x'; there is nothing to break
c! barrier_enter x 1 wait=0
= OK, generation 3, place 0
a> SELECT event, kind, version, owner, held_ms FROM lock_event WHERE resource_name = 'x' AND event = 'broken' ORDER BY id;
= broken | barrier | 1 |  | NULL
= broken | barrier | 2 |  | NULL
= broken | barrier | 3 |  | NULL
