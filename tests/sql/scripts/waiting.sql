# The bell: waiters are woken in their order, be they SQL, shell or C.
a> CALL rowlock_acquire('x', 300, 0, @t);
b& CALL rowlock_acquire('x', 300, 60, @t);
until b waits
c!& acquire x lease wait=60000
until 2 wait
s$& rowlock run -w 60 x -- sh -c 'echo "token $ROWLOCK_TOKEN"; rowlock ls --json | jq -r ".[] | .name + \" \" + .state"'
until 3 wait
d& CALL rowlock_acquire('x', 300, NULL, @t);
until 4 wait

# Who waits can be seen.
$ until [ "$(rowlock show --json x | jq '.waiters | length')" = 4 ]; do sleep 0.05; done
a> CALL rowlock_release('x', @t);
b<
b> SELECT @t;
= 2
until 3 wait
b> CALL rowlock_release('x', @t);
c<
= OK, token 3
c! release x
= OK
s<
= token 4
= x held
d<
d> SELECT @t;
= 5
d> CALL rowlock_release('x', @t);

# Released by another session: the waiter finds out, and leaves the session alone that took it.
a> CALL rowlock_acquire('pooled', 300, 0, @t);
s$& rowlock run -w 60 pooled -- sh -c 'echo "token $ROWLOCK_TOKEN"'
until 1 wait
b> CALL rowlock_release('pooled', 1);
s<
= token 2
a> SELECT 'here';
= here

# A try does not overtake the waiters.
a> CALL rowlock_acquire('x', 300, 0, @t);
b& CALL rowlock_acquire('x', 300, 60, @t);
until b waits
a> CALL rowlock_release('x', @t);
b<
a> CALL rowlock_try('x', 300, @t);
a> SELECT @t;
= NULL
b> CALL rowlock_release('x', @t);

# A wait that times out says so, and does not hold up those behind it.
a> CALL rowlock_acquire('x', 300, 0, @t);
b> CALL rowlock_acquire('x', 300, 1, @t);
= ERROR RLTMO: 'x' is held (token 8, lease ends in N s) by root@localhost N sql
b> SELECT @t;
= 7
a> CALL rowlock_release('x', @t);
b> CALL rowlock_acquire('x', 300, 0, @t);
b> CALL rowlock_release('x', @t);

# Without a release, the waiter gets it when it has run out.
a> CALL rowlock_acquire('x', 1, 0, @t);
b& CALL rowlock_acquire('x', 300, 60, @t);
b<
a> CALL rowlock_check('x', @t);
= ERROR RLLST: 'x' is not held with token 10 any more; stop this work
b> CALL rowlock_check('x', @t);
b> CALL rowlock_release('x', @t);
a> SELECT event, version FROM lock_event WHERE resource_name = 'x' ORDER BY id DESC LIMIT 3;
= released | 11
= taken_over | 11
= acquired | 10

# Who waits looks again in time: the next holder may take it for a shorter time, and keep its bell.
a> CALL rowlock_acquire('short', 300, 0, @t);
e& CALL rowlock_acquire('short', 1, 60, @t);
until e waits
f> SET @since = UTC_TIMESTAMP();
f& CALL rowlock_acquire('short', 300, 60, @t);
until 2 wait
a> CALL rowlock_release('short', @t);
e<
f<
f> SELECT @t, TIMESTAMPDIFF(SECOND, @since, UTC_TIMESTAMP()) < 40;
= 3 | 1
