# The life of a lease in SQL, as the others see it.
a> CALL rowlock_acquire('nightly', 30, 0, @t);
a> SELECT @t;
a> CALL rowlock_check('nightly', @t);
$ rowlock show nightly | sed 's/ (.*)//'
a> SELECT status, version, owner <> '', owner_label LIKE 'root@localhost%sql%',
          TIMESTAMPDIFF(SECOND, acquired_at, lease_expires_at) FROM resource;

# Everyone else is told, with SQL, in the shell, and in C.
b> CALL rowlock_acquire('nightly', 30, 0, @t);
b> SELECT @t;
b> SET @t = 77;
b> CALL rowlock_try('nightly', 30, @t);
b> SELECT @t;
b> CALL rowlock_acquire('nightly', 30, 0.05, @t);
$ rowlock run -n nightly -- echo not reached
c! acquire nightly lease wait=0

# Renewed: the end moves.
a> SELECT COALESCE(MAX(expires_at), 'never') FROM lease_renewal;
a> CALL rowlock_renew('nightly', @t, 3000);
a> SELECT TIMESTAMPDIFF(SECOND, acquired_at, lease_expires_at) AS as_acquired,
          TIMESTAMPDIFF(SECOND, acquired_at, expires_at) BETWEEN 3000 AND 3060 AS renewed
     FROM resource JOIN lease_renewal USING (id);
$ rowlock show --json nightly | jq -c '.remaining_ms > 2900000'
a> CALL rowlock_check('nightly', @t);

# Released: once, and by whoever has the token of its own login.
a> CALL rowlock_release('nightly', @t);
a> CALL rowlock_release('nightly', @t);
a> CALL rowlock_check('nightly', @t);
a> CALL rowlock_renew('nightly', @t, 30);
b> CALL rowlock_try('nightly', 30, @t);
b> SELECT @t;
close b
c> CALL rowlock_check('nightly', 2);
c> CALL rowlock_release('nightly', 2);
$ rowlock run -n nightly -- sh -c 'echo "token $ROWLOCK_TOKEN"'
c! acquire nightly lease wait=0
c! release nightly

# What the history says.
a> SELECT event, version, held_ms >= 0, waited_ms IS NOT NULL, owner_label LIKE 'root@localhost%sql%'
     FROM lock_event WHERE resource_name = 'nightly' AND version < 3 ORDER BY id;

# Broken.
a> CALL rowlock_acquire('nightly', 30, 0, @t);
b> CALL rowlock_break('nightly');
a> CALL rowlock_check('nightly', @t);
a> CALL rowlock_renew('nightly', @t, 30);
a> CALL rowlock_release('nightly', @t);
b> CALL rowlock_break('nightly');
b> CALL rowlock_acquire('nightly', 30, 0, @t);
b> SELECT @t > 5;
b> CALL rowlock_release('nightly', @t);
a> SELECT event, version FROM lock_event WHERE resource_name = 'nightly' AND version > 4 ORDER BY id;

# A lease that has run out belongs to nobody, and then to the next.
a> CALL rowlock_acquire('short', 0.5, 0, @t);
until a> SELECT lease_expires_at <= UTC_TIMESTAMP(6) FROM resource WHERE resource_name = 'short';
a> CALL rowlock_check('short', @t);
a> CALL rowlock_renew('short', @t, 30);
b> CALL rowlock_acquire('short', 30, 0, @t);
b> SELECT @t;
a> CALL rowlock_release('short', @t);
b> CALL rowlock_check('short', @t);
b> CALL rowlock_release('short', @t);
a> SELECT event, version FROM lock_event WHERE resource_name = 'short' ORDER BY id;
