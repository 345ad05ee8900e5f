# Frozen names, in SQL and for the command.
$ rowlock run held true
a> CALL rowlock_acquire('held', 300, 0, @t);
a> CALL rowlock_acquire('fenced', 300, 0, @f);
a> CALL rowlock_freeze('*', 3600, 'by SQL');

# No session gets a frozen lock, held or not; a holder keeps it.
b> CALL rowlock_acquire('held', 60, 0, @t);
= ERROR RLFRZ: 'held' is frozen; nobody gets it before it is thawed
b> CALL rowlock_acquire('held', 60, 0.2, @t);
= ERROR RLFRZ: 'held' is frozen; nobody gets it before it is thawed
b> CALL rowlock_acquire('new', 60, 0.2, @t);
= ERROR RLFRZ: 'new' is frozen; nobody gets it before it is thawed
b> CALL rowlock_acquire_shared('new', 60, 0, @t, @r);
= ERROR RLFRZ: 'new' is frozen; nobody gets it before it is thawed
b> CALL rowlock_acquire_slot('crew', 2, 60, 0, @s, @t);
= ERROR RLFRZ: 'crew' is frozen; nobody gets a slot before it is thawed
b> CALL rowlock_try('held', 60, @t);
b> SELECT @t;
= NULL
$ rowlock run -n held true 2>/dev/null; echo $?; rowlock freeze --json | jq -c 'map([.pattern, .reason, .left_ms > 3500000])'
= 80
= [["*","by SQL",true]]
a> CALL rowlock_renew('held', @t, 300);
a> CALL rowlock_release('held', @t);
b> CALL rowlock_acquire('held', 60, 0, @t);
= ERROR RLFRZ: 'held' is frozen; nobody gets it before it is thawed
b> CALL rowlock_thaw('held');
= ERROR RLNOF: 'held' is not frozen by that pattern; look at its spelling
b> CALL rowlock_thaw('*');
b> CALL rowlock_acquire('held', 60, 0, @t);
b> CALL rowlock_release('held', @t);

# It waits for a second for an open fence, and leaves the session as it was; names are made meanwhile.
a> SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
a> BEGIN;
a> CALL rowlock_fence('fenced', @f);
b& CALL rowlock_freeze('fenced', NULL, NULL);
until b waits
c> CALL rowlock_acquire('made meanwhile', 60, 30, @t);
b<
= ERROR RLBSY: a lock of 'fenced' is in use by a transaction; try again later
b> SELECT @@innodb_lock_wait_timeout > 1, @@sql_safe_updates, @@unique_checks;
= 1 | 0 | 1
a> COMMIT;
b> CALL rowlock_freeze('fenced', NULL, NULL);
b> CALL rowlock_thaw('fenced');
b> CALL rowlock_freeze('fenced', 0, NULL);
= ERROR RLINV: the time for which 'fenced' is to be frozen is 0 s; give more than 0, at most 10 years, or NULL

# An optimistic section does not begin on a frozen name, and the longest pattern works.
b> CALL rowlock_version('read', @v);
b> CALL rowlock_freeze('read', 60, NULL);
b> CALL rowlock_version('read', @v);
= ERROR RLBSY: 'read' is frozen; try again when it is thawed
b> CALL rowlock_freeze(CONCAT(REPEAT('x', 255), '*'), 60, NULL);
b> CALL rowlock_thaw(CONCAT(REPEAT('x', 255), '*'));
