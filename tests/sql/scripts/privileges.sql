# EXECUTE is all that is needed, and all that it gives.
user app
user other
user nobody
a> CALL rowlock_row_make('row');
a> CALL rowlock_acquire('held', 600, 0, @t);
login nobody as nobody
login app as app

# Nobody may do anything.
nobody> CALL {schema}.rowlock_acquire('x', 30, 0, @t);
= ERROR 42000 (1370)
nobody> CALL {schema}.rowlock_release('x', 1);
= ERROR 42000 (1370)
nobody> SELECT * FROM {schema}.resource;
= ERROR 42000 (1142)

# One with the right to it alone: it works, the next one is refused.
a> GRANT EXECUTE ON PROCEDURE {schema}.rowlock_acquire TO {app};
app> CALL {schema}.rowlock_acquire('mine', 600, 0, @t);
app> CALL {schema}.rowlock_release('mine', @t);
= ERROR 42000 (1370)
a> REVOKE EXECUTE ON PROCEDURE {schema}.rowlock_acquire FROM {app};
a> GRANT EXECUTE ON PROCEDURE {schema}.rowlock_row_lock TO {app};
app> START TRANSACTION;
app> CALL {schema}.rowlock_row_lock('row', 0);
app> COMMIT;
a> REVOKE EXECUTE ON PROCEDURE {schema}.rowlock_row_lock FROM {app};

# EXECUTE on all of them: no table can be touched, neither directly nor by what is inside.
a> GRANT EXECUTE ON {schema}.* TO {app};
a> GRANT EXECUTE ON {schema}.* TO {other};
login app as app
login other as other
app> SELECT COUNT(*) FROM resource;
= ERROR 42000 (1142)
app> UPDATE resource SET version = 1;
= ERROR 42000 (1142)
app> DROP PROCEDURE rowlock_acquire;
= ERROR 42000 (1370)
app> CREATE PROCEDURE evil() SELECT 1;
= ERROR 42000 (1044)

# A lease of another login stays its own: with its token, with others, from the future, after a wait.
other> CALL rowlock_acquire('his', 600, 0, @t);
other> SELECT @t;
= 1
app> CALL rowlock_release('his', 1);
= ERROR RLLST: 'his', token 1, was not taken by SQL by this login; rowlock_break ends it
app> CALL rowlock_renew('his', 1, 600);
= ERROR RLLST: 'his', token 1, was not taken by SQL by this login; rowlock_break ends it
app> CALL rowlock_release('his', 2);
= ERROR RLLST: 'his' is not held with token 2 any more; stop this work
app> CALL rowlock_release('held', 1);
= ERROR RLLST: 'held', token 1, was not taken by SQL by this login; rowlock_break ends it
app> CALL rowlock_renew('held', 1, 600);
= ERROR RLLST: 'held', token 1, was not taken by SQL by this login; rowlock_break ends it
app> SET timestamp = UNIX_TIMESTAMP() + 10000000;
app> CALL rowlock_try('his', 30, @x);
app> CALL rowlock_acquire('his', 30, 0, @x);
= ERROR RLBSY: 'his' is held (token 1, lease ends in N s) by other@localhost N sql
app> CALL rowlock_release('his', 1);
= ERROR RLLST: 'his', token 1, was not taken by SQL by this login; rowlock_break ends it
app> SET timestamp = DEFAULT;
other> CALL rowlock_check('his', @t);

# Another connection of the same login may give it back: a job that takes and frees in two sessions.
login again as other
again> CALL rowlock_renew('his', 1, 600);
again> CALL rowlock_release('his', 1);
other> CALL rowlock_check('his', @t);
= ERROR RLLST: 'his' is not held with token 1 any more; stop this work

# A token that is passed on is enough to check, to fence and to present, and for nothing else.
a> CALL rowlock_acquire('passed', 600, 0, @t);
app> CALL rowlock_check('passed', 1);
app> CALL rowlock_present('passed', 1);
app> START TRANSACTION;
app> CALL rowlock_fence('passed', 1);
app> COMMIT;
app> CALL rowlock_release('passed', 1);
= ERROR RLLST: 'passed', token 1, was not taken by SQL by this login; rowlock_break ends it
a> CALL rowlock_release('passed', @t);
c! acquire in-c lease
= OK, token 1
app> CALL rowlock_check('in-c', 1);
app> CALL rowlock_release('in-c', 1);
= ERROR RLLST: 'in-c', token 1, was not taken by SQL by this login; rowlock_break ends it
app> CALL rowlock_renew('in-c', 1, 600);
= ERROR RLLST: 'in-c', token 1, was not taken by SQL by this login; rowlock_break ends it
c! release in-c
= OK

# Any login can take a lock that is free again.
app> CALL rowlock_break('his');
= ERROR RLBSY: 'his' is not held (as far as is published); there is nothing to break
app> CALL rowlock_acquire('his', 30, 20, @t2);
app> SELECT @t2 > 1;
= 1

# rowlock's own helpers have the caller's rights, and give no more.
app> CALL rl_resource_make('forged', 'optimistic', @x);
= ERROR 42000 (1142)
app> CALL rl_resource_touch(1);
app> CALL rl_break('held', @x, @y);
= ERROR 42000 (1142)
app> CALL rl_kill(1);
a> SELECT COUNT(*) FROM resource WHERE resource_name = 'forged';
= 0
a> CALL rowlock_check('held', @t);

# All of it is of rowlock's making, says so, and only what is public has its installer's rights. (What
# breaks for the library has its caller's.)
a> SELECT routine_name, security_type FROM information_schema.routines
    WHERE routine_schema = '{schema}'
      AND (routine_comment NOT LIKE 'rowlock %' OR security_type <> IF(routine_name = 'rl_via_via_break' OR (routine_name LIKE 'rl$_%' ESCAPE '$'
           AND routine_name NOT LIKE 'rl$_via$_%' ESCAPE '$'), 'INVOKER', 'DEFINER'));
= no rows
