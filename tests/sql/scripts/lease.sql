# The life of a lease in SQL, as the others see it.
a> CALL rowlock_acquire('nightly', 30, 0, @t);
a> SELECT @t;
= 1
a> CALL rowlock_check('nightly', @t);
$ rowlock show nightly | sed 's/ (.*)//'
= name         nightly
= state        held
= mode         lease
= holder       root@localhost N sql
= owner        OWNER
= token        1
= since        TIME UTC
= until        TIME UTC
a> SELECT status, version, owner <> '', owner_label LIKE 'root@localhost%sql%',
          TIMESTAMPDIFF(SECOND, acquired_at, lease_expires_at) FROM resource;
= held | 1 | 1 | 1 | 30

# Everyone else is told, with SQL, in the shell, and in C.
b> CALL rowlock_acquire('nightly', 30, 0, @t);
= ERROR RLBSY: 'nightly' is held (token 1, lease ends in N s) by root@localhost N sql
b> SELECT @t;
= NULL
b> SET @t = 77;
b> CALL rowlock_try('nightly', 30, @t);
b> SELECT @t;
= NULL
$ rowlock run -n nightly -- echo not reached
= rowlock: 'nightly' is held by root@localhost N sql (token 1, lease ends in N s)
= exit status 1
c! acquire nightly lease wait=0
= BUSY

# Renewed: the end moves.
a> SELECT COALESCE(MAX(expires_at), 'never') FROM lease_renewal;
= never
a> CALL rowlock_renew('nightly', @t, 3000);
a> SELECT TIMESTAMPDIFF(SECOND, acquired_at, lease_expires_at) AS as_acquired,
          TIMESTAMPDIFF(SECOND, acquired_at, expires_at) BETWEEN 3000 AND 3060 AS renewed
     FROM resource JOIN lease_renewal USING (id);
= 30 | 1
$ rowlock show --json nightly | jq -c '.remaining_ms > 2900000'
= true
a> CALL rowlock_check('nightly', @t);

# A lease is released once, by any session of the same login that has the token.
a> CALL rowlock_release('nightly', @t);
a> CALL rowlock_release('nightly', @t);
= ERROR RLLST: 'nightly' is not held with token 1 any more; stop this work
a> CALL rowlock_check('nightly', @t);
= ERROR RLLST: 'nightly' is not held with token 1 any more; stop this work
a> CALL rowlock_renew('nightly', @t, 30);
= ERROR RLLST: 'nightly' is not held with token 1 any more; stop this work
b> CALL rowlock_try('nightly', 30, @t);
b> SELECT @t;
= 2
close b
c> CALL rowlock_check('nightly', 2);
c> CALL rowlock_release('nightly', 2);
$ rowlock run -n nightly -- sh -c 'echo "token $ROWLOCK_TOKEN"'
= token 3
c! acquire nightly lease wait=0
= OK, token 4
c! release nightly
= OK

# What the history says.
a> SELECT event, version, held_ms >= 0, waited_ms IS NOT NULL, owner_label LIKE 'root@localhost%sql%'
     FROM lock_event WHERE resource_name = 'nightly' AND version < 3 ORDER BY id;
= acquired | 1 | NULL | 1 | 1
= released | 1 | 1 | 0 | 1
= acquired | 2 | NULL | 1 | 1
= released | 2 | 1 | 0 | 1

# Broken.
a> CALL rowlock_acquire('nightly', 30, 0, @t);
b> CALL rowlock_break('nightly');
b> CALL rowlock_acquire('nightly', 30, 0, @t);
= ERROR RLBSY: nobody holds 'nightly', but it is closed for another N s (at-least, or it was broken)
b> CALL rowlock_break('nightly');
= ERROR RLBSY: 'nightly' was broken, and its old holder may still work for another N s (rowlock_break_now opens it)
b> CALL rowlock_version('nightly', @v);
= ERROR RLBSY: a lease on 'nightly' is cooling for another N s; try again then
b> CALL rowlock_bump('nightly', 6);
= ERROR RLBSY: a lease on 'nightly' is cooling; try again when it is free
a> CALL rowlock_check('nightly', @t);
= ERROR RLLST: 'nightly' is not held with token 5 any more; stop this work
a> CALL rowlock_renew('nightly', @t, 30);
= ERROR RLLST: 'nightly' is not held with token 5 any more; stop this work
a> CALL rowlock_release('nightly', @t);
= ERROR RLLST: 'nightly' is not held with token 5 any more; stop this work
b> CALL rowlock_break('nightly');
= ERROR RLBSY: 'nightly' is not held (as far as is published); there is nothing to break
b> CALL rowlock_acquire('nightly', 30, 0, @t);
b> SELECT @t > 5;
= 1
b> CALL rowlock_release('nightly', @t);
a> SELECT event, version FROM lock_event WHERE resource_name = 'nightly' AND version > 4 ORDER BY id;
= acquired | 5
= broken | 5
= acquired | 7
= released | 7

# Broken at once, or cooling and then opened.
a> CALL rowlock_acquire('at once', 30, 0, @t);
b> CALL rowlock_break_now('at once');
b> CALL rowlock_acquire('at once', 30, 0, @t);
a> CALL rowlock_break('at once');
a> CALL rowlock_release('at once', @t);
= ERROR RLLST: 'at once' is not held with token 1 any more; stop this work
a> CALL rowlock_break_now('at once');
a> CALL rowlock_acquire('at once', 30, 0, @t);
a> CALL rowlock_release('at once', @t);

# A lease that has run out has no holder, and goes to the next session.
a> CALL rowlock_acquire('short', 0.5, 0, @t);
until a> SELECT lease_expires_at <= UTC_TIMESTAMP(6) FROM resource WHERE resource_name = 'short';
a> CALL rowlock_check('short', @t);
= ERROR RLLST: the lease on 'short' with token 1 has run out; stop this work
a> CALL rowlock_renew('short', @t, 30);
= ERROR RLLST: the lease on 'short' with token 1 has run out; stop this work
b> CALL rowlock_acquire('short', 30, 0, @t);
b> SELECT @t;
= 2
a> CALL rowlock_release('short', @t);
= ERROR RLLST: 'short' is not held with token 1 any more; stop this work
b> CALL rowlock_check('short', @t);
b> CALL rowlock_release('short', @t);
a> SELECT event, version FROM lock_event WHERE resource_name = 'short' ORDER BY id;
= acquired | 1
= taken_over | 2
= released | 2

# Released by another session, while the one that took it is still there: it is free for a try at once.
a> CALL rowlock_acquire('pooled', 30, 0, @t);
b> CALL rowlock_release('pooled', 1);
b> CALL rowlock_try('pooled', 30, @t);
b> SELECT @t;
= 2
b> CALL rowlock_release('pooled', @t);
