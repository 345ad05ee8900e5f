# EXECUTE is all that is needed, and all that it gives. Each procedure, by a login that may call it
# alone; the same without the right.
user app
user other
user nobody
a> CALL rowlock_row_make('row');
a> CALL rowlock_acquire('held', 600, 0, @t);
a> CALL rowlock_version('v', @v);
login nobody as nobody
login app as app

# Nobody may do anything.
nobody> CALL {schema}.rowlock_acquire('x', 30, 0, @t);
nobody> CALL {schema}.rowlock_try('x', 30, @t);
nobody> CALL {schema}.rowlock_renew('x', 1, 30);
nobody> CALL {schema}.rowlock_release('x', 1);
nobody> CALL {schema}.rowlock_check('x', 1);
nobody> CALL {schema}.rowlock_break('x');
nobody> CALL {schema}.rowlock_row_make('x');
nobody> CALL {schema}.rowlock_row_lock('x', 0);
nobody> CALL {schema}.rowlock_version('x', @v);
nobody> CALL {schema}.rowlock_bump('x', 0);
nobody> CALL {schema}.rowlock_fence('x', 1);
nobody> CALL {schema}.rowlock_present('x', 1);
nobody> SELECT * FROM {schema}.resource;

# Each one with the right to it alone: it works, the next one is refused.
a> GRANT EXECUTE ON PROCEDURE {schema}.rowlock_acquire TO {app};
app> CALL {schema}.rowlock_acquire('mine', 600, 0, @t);
app> CALL {schema}.rowlock_release('mine', @t);
a> REVOKE EXECUTE ON PROCEDURE {schema}.rowlock_acquire FROM {app};
a> GRANT EXECUTE ON PROCEDURE {schema}.rowlock_renew TO {app};
app> CALL {schema}.rowlock_acquire('mine', 600, 0, @u);
app> CALL {schema}.rowlock_renew('mine', @t, 700);
app> CALL {schema}.rowlock_check('mine', @t);
a> REVOKE EXECUTE ON PROCEDURE {schema}.rowlock_renew FROM {app};
a> GRANT EXECUTE ON PROCEDURE {schema}.rowlock_check TO {app};
app> CALL {schema}.rowlock_renew('mine', @t, 700);
app> CALL {schema}.rowlock_check('mine', @t);
app> CALL {schema}.rowlock_fence('mine', @t);
a> REVOKE EXECUTE ON PROCEDURE {schema}.rowlock_check FROM {app};
a> GRANT EXECUTE ON PROCEDURE {schema}.rowlock_fence TO {app};
app> START TRANSACTION;
app> CALL {schema}.rowlock_fence('mine', @t);
app> COMMIT;
app> CALL {schema}.rowlock_present('mine', @t);
a> REVOKE EXECUTE ON PROCEDURE {schema}.rowlock_fence FROM {app};
a> GRANT EXECUTE ON PROCEDURE {schema}.rowlock_present TO {app};
app> CALL {schema}.rowlock_present('mine', @t);
app> CALL {schema}.rowlock_release('mine', @t);
a> REVOKE EXECUTE ON PROCEDURE {schema}.rowlock_present FROM {app};
a> GRANT EXECUTE ON PROCEDURE {schema}.rowlock_release TO {app};
app> CALL {schema}.rowlock_release('mine', @t);
app> CALL {schema}.rowlock_try('mine', 30, @t);
a> REVOKE EXECUTE ON PROCEDURE {schema}.rowlock_release FROM {app};
a> GRANT EXECUTE ON PROCEDURE {schema}.rowlock_try TO {app};
app> CALL {schema}.rowlock_try('mine', 30, @t);
app> SELECT @t;
app> CALL {schema}.rowlock_break('mine');
a> REVOKE EXECUTE ON PROCEDURE {schema}.rowlock_try FROM {app};
a> GRANT EXECUTE ON PROCEDURE {schema}.rowlock_break TO {app};
app> CALL {schema}.rowlock_break('mine');
app> CALL {schema}.rowlock_version('w', @v);
a> REVOKE EXECUTE ON PROCEDURE {schema}.rowlock_break FROM {app};
a> GRANT EXECUTE ON PROCEDURE {schema}.rowlock_version TO {app};
app> CALL {schema}.rowlock_version('w', @v);
app> CALL {schema}.rowlock_bump('w', @v);
a> REVOKE EXECUTE ON PROCEDURE {schema}.rowlock_version FROM {app};
a> GRANT EXECUTE ON PROCEDURE {schema}.rowlock_bump TO {app};
app> CALL {schema}.rowlock_bump('w', @v);
app> CALL {schema}.rowlock_row_lock('row', 0);
a> REVOKE EXECUTE ON PROCEDURE {schema}.rowlock_bump FROM {app};
a> GRANT EXECUTE ON PROCEDURE {schema}.rowlock_row_lock TO {app};
app> START TRANSACTION;
app> CALL {schema}.rowlock_row_lock('row', 0);
app> COMMIT;
app> CALL {schema}.rowlock_row_make('row2');
a> REVOKE EXECUTE ON PROCEDURE {schema}.rowlock_row_lock FROM {app};
a> GRANT EXECUTE ON PROCEDURE {schema}.rowlock_row_make TO {app};
app> CALL {schema}.rowlock_row_make('row2');
a> REVOKE EXECUTE ON PROCEDURE {schema}.rowlock_row_make FROM {app};

# EXECUTE on all of them: no table can be touched, neither directly nor by what is inside.
a> GRANT EXECUTE ON {schema}.* TO {app};
a> GRANT EXECUTE ON {schema}.* TO {other};
login app as app
login other as other
app> SELECT COUNT(*) FROM resource;
app> INSERT INTO resource (resource_name, kind, version, update_time) VALUES ('forged', 'optimistic', 1, UTC_TIMESTAMP(6));
app> UPDATE resource SET version = 1;
app> DELETE FROM lock_event;
app> SELECT * FROM lease_renewal;
app> SELECT * FROM resource_lock FOR UPDATE;
app> UPDATE version_floor SET version = 0;
app> CREATE TABLE mine (id INT);
app> DROP PROCEDURE rowlock_acquire;
app> CREATE PROCEDURE evil() SELECT 1;

# What belongs to another login stays his: with his token, with others, from the future, after a wait.
other> CALL rowlock_acquire('his', 600, 0, @t);
other> SELECT @t;
app> CALL rowlock_release('his', 1);
app> CALL rowlock_renew('his', 1, 600);
app> CALL rowlock_release('his', 2);
app> CALL rowlock_release('held', 1);
app> CALL rowlock_renew('held', 1, 600);
app> SET timestamp = UNIX_TIMESTAMP() + 10000000;
app> CALL rowlock_try('his', 30, @x);
app> CALL rowlock_acquire('his', 30, 0, @x);
app> CALL rowlock_release('his', 1);
app> SET timestamp = DEFAULT;
app> SET autocommit = 0;
app> CALL rowlock_release('his', 1);
app> CALL rowlock_try('his', 30, @x);
app> ROLLBACK;
app> SET autocommit = 1;
app> SELECT @x;
other> CALL rowlock_check('his', @t);

# Another connection of the same login may give it back: a job that takes and frees in two sessions.
login again as other
again> CALL rowlock_renew('his', 1, 600);
again> CALL rowlock_release('his', 1);
other> CALL rowlock_check('his', @t);

# A token that is passed on is enough to check, to fence and to present, and for nothing else.
a> CALL rowlock_acquire('passed', 600, 0, @t);
app> CALL rowlock_check('passed', 1);
app> CALL rowlock_present('passed', 1);
app> START TRANSACTION;
app> CALL rowlock_fence('passed', 1);
app> COMMIT;
app> CALL rowlock_release('passed', 1);
a> CALL rowlock_release('passed', @t);
c! acquire in-c lease
app> CALL rowlock_check('in-c', 1);
app> CALL rowlock_release('in-c', 1);
app> CALL rowlock_renew('in-c', 1, 600);
c! release in-c

# No version goes down, and none is skipped to.
app> CALL rowlock_version('w', @v);
app> CALL rowlock_bump('w', @v - 1);
app> CALL rowlock_bump('w', @v + 1);
app> CALL rowlock_bump('w', @v + 18446744073709551615);
app> SET @was = @v;
app> CALL rowlock_version('w', @v);
app> SELECT @v = @was;
app> CALL rowlock_break('his');
app> CALL rowlock_acquire('his', 30, 20, @t2);
app> SELECT @t2 > 1;

# rowlock's own helpers work for who may do without them, and for nobody else.
app> CALL rl_event('forged', 'optimistic', 'released', 1, '', '', UTC_TIMESTAMP(6), 0, 0, '');
app> CALL rl_resource_make('forged', 'optimistic', @x);
app> CALL rl_resource_touch(1);
app> CALL rl_break('held', @x, @y);
app> CALL rl_kill(1);
a> SELECT COUNT(*) FROM resource WHERE resource_name = 'forged';
a> SELECT COUNT(*) FROM lock_event WHERE resource_name = 'forged';
a> CALL rowlock_check('held', @t);

# All of it is of rowlock's making, says so, and only what is public has its installer's rights. (What
# breaks for the library has its caller's.)
a> SELECT routine_name, security_type FROM information_schema.routines
    WHERE routine_schema = '{schema}'
      AND (routine_comment NOT LIKE 'rowlock %' OR security_type <> IF(routine_name = 'rl_via_via_break' OR (routine_name LIKE 'rl$_%' ESCAPE '$'
           AND routine_name NOT LIKE 'rl$_via$_%' ESCAPE '$'), 'INVOKER', 'DEFINER'));
