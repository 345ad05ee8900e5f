# A read-only server: what would write says RLRDO, also where the procedures' owner has the rights of
# an administrator, whom the server lets write.
# own server
user app
a> GRANT EXECUTE ON {schema}.* TO {app};
login app as app
app> CALL rowlock_acquire('x', 60, 0, @t);
app> CALL rowlock_version('v', @v);
app> CALL rowlock_row_make('row');
a> SET GLOBAL read_only = ON;
app> CALL rowlock_acquire('y', 60, 0, @u);
= ERROR RLRDO: 'y': this server is read-only; CALL it on the primary
app> CALL rowlock_try('y', 60, @u);
= ERROR RLRDO: 'y': this server is read-only; CALL it on the primary
app> CALL rowlock_renew('x', @t, 60);
= ERROR RLRDO: 'x': this server is read-only; CALL it on the primary
app> CALL rowlock_release('x', @t);
= ERROR RLRDO: 'x': this server is read-only; CALL it on the primary
app> CALL rowlock_break('x');
= ERROR RLRDO: 'x': this server is read-only; CALL it on the primary
app> CALL rowlock_row_make('new');
= ERROR RLRDO: 'new': this server is read-only; CALL it on the primary
app> CALL rowlock_bump('v', @v);
= ERROR RLRDO: 'v': this server is read-only; CALL it on the primary
app> START TRANSACTION;
app> CALL rowlock_row_lock('row', 0);
= ERROR RLRDO: 'row': this server is read-only; CALL it on the primary
app> CALL rowlock_fence('x', @t);
= ERROR RLRDO: 'x': this server is read-only; CALL it on the primary
app> ROLLBACK;
app> CALL rowlock_check('x', @t);
app> CALL rowlock_present('x', @t);
app> CALL rowlock_version('v', @v);
a> SET GLOBAL read_only = OFF;
app> CALL rowlock_check('x', @t);
app> CALL rowlock_release('x', @t);
a> SELECT COUNT(*) FROM resource;
= 3
