# The bell of a lease is its session's: kept while it holds, rung when it releases, and when it hears that it
# has lost. One that kept it would be in the way of all that come after.
a> SET @bell = (SELECT REGEXP_SUBSTR(routine_definition, 'rowlock[.][^'']+[.]') FROM information_schema.routines
    WHERE routine_schema = '{schema}' AND routine_name = 'rl_bell_ring');
a> CALL rowlock_acquire('x', 30, 0, @t);
a> SELECT IS_USED_LOCK(CONCAT(@bell, id)) = CONNECTION_ID() AS rings, connection_id = CONNECTION_ID() FROM resource;
= 1 | 1
a> CALL rowlock_release('x', @t);
a> SELECT IS_USED_LOCK(CONCAT(@bell, id)) AS rings FROM resource;
= NULL

# Its time is over and another has it: which that one takes without the bell.
a> CALL rowlock_acquire('x', 0.5, 0, @t);
b> CALL rowlock_acquire('x', 30, 30, @t);
a> SELECT IS_USED_LOCK(CONCAT(@bell, id)) = CONNECTION_ID() AS rings, connection_id FROM resource;
= 1 | 0
a> CALL rowlock_check('x', @t);
= ERROR RLLST: 'x' is not held with token 2 any more; stop this work
a> SELECT IS_USED_LOCK(CONCAT(@bell, id)) AS rings FROM resource;
= NULL
b> CALL rowlock_release('x', @t);

# A wait that ends without the lease leaves no bell behind: the holder's connection is gone, its lease is not.
# It can be given back from another session.
d> CALL rowlock_acquire('x', 300, 0, @t);
close d
a> CALL rowlock_acquire('x', 30, 3, @t);
= ERROR RLTMO: 'x' is held (token 4, lease ends in N s) by root@localhost N sql
a> SELECT COALESCE(IS_USED_LOCK(CONCAT(@bell, id)) = CONNECTION_ID(), 0) AS rings FROM resource;
= 0
b& CALL rowlock_acquire('x', 30, 60, @t);
until b waits
a> CALL rowlock_release('x', 4);
b<
b> CALL rowlock_release('x', @t);

# Nor does one that fails for another reason.
a> SET insert_id = 5;
a> CALL rowlock_acquire('x', 30, 1, @t);
= ERROR RLINV: 'x': insert_id is set in this session; do the INSERT that it is for first
a> SELECT COALESCE(IS_USED_LOCK(CONCAT(@bell, id)) = CONNECTION_ID(), 0) AS rings FROM resource;
= 0

# A name that is purged and made again in a wait has another bell: the old one is given back, the new one is taken.
e> CALL rowlock_acquire('gone', 300, 0, @t);
close e
a> CREATE TABLE old AS SELECT id, CONCAT(@bell, id) AS bell FROM resource WHERE resource_name = 'gone';
f& CALL rowlock_acquire('gone', 30, 60, @t);
until a> SELECT IS_USED_LOCK(bell) = {f.id} FROM old;
a> DELETE r, l FROM resource r JOIN lease_renewal l ON l.id = r.id WHERE r.resource_name = 'gone';
f<
a> SELECT IS_USED_LOCK(old.bell), IS_USED_LOCK(CONCAT(@bell, r.id)) = {f.id}, r.connection_id = {f.id}
     FROM resource r JOIN old WHERE r.resource_name = 'gone';
= NULL | 1 | 1
