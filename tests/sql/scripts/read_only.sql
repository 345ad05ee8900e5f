# labels: alone
# A read-only server: what would write says RLRDO, also where the procedures' owner has the rights of
# an administrator, whom the server lets write.
user app
a> GRANT EXECUTE ON {schema}.* TO {app};
login app as app
app> CALL rowlock_acquire('x', 60, 0, @t);
app> CALL rowlock_version('v', @v);
app> CALL rowlock_row_make('row');
a> SET GLOBAL read_only = ON;
app> CALL rowlock_acquire('y', 60, 0, @u);
app> CALL rowlock_try('y', 60, @u);
app> CALL rowlock_renew('x', @t, 60);
app> CALL rowlock_release('x', @t);
app> CALL rowlock_break('x');
app> CALL rowlock_row_make('new');
app> CALL rowlock_bump('v', @v);
app> START TRANSACTION;
app> CALL rowlock_row_lock('row', 0);
app> CALL rowlock_fence('x', @t);
app> ROLLBACK;
app> CALL rowlock_check('x', @t);
app> CALL rowlock_present('x', @t);
app> CALL rowlock_version('v', @v);
a> SET GLOBAL read_only = OFF;
app> CALL rowlock_check('x', @t);
app> CALL rowlock_release('x', @t);
a> SELECT COUNT(*) FROM resource;
