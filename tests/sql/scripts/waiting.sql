# The bell: who waits is woken in the order of coming, whatever he is written in.
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
until 3 wait
b> CALL rowlock_release('x', @t);
c<
c! release x
s<
d<
d> SELECT @t;
d> CALL rowlock_release('x', @t);

# A try is no way past who waits.
a> CALL rowlock_acquire('x', 300, 0, @t);
b& CALL rowlock_acquire('x', 300, 60, @t);
until b waits
a> CALL rowlock_release('x', @t);
b<
a> CALL rowlock_try('x', 300, @t);
a> SELECT @t;
b> CALL rowlock_release('x', @t);

# From C to SQL, from the shell to SQL; a holder that dies with its connection keeps it to the TTL.
c! acquire x lease
b& CALL rowlock_acquire('x', 300, 60, @t);
until b waits
c! release x
b<
b> CALL rowlock_release('x', @t);
s$& rowlock run x -- sh -c 'until [ -e "$TMPDIR/{schema}" ]; do sleep 0.05; done; rm "$TMPDIR/{schema}"'
until a> SELECT COUNT(*) FROM {schema}.resource WHERE status = 'held';
b& CALL rowlock_acquire('x', 300, 60, @t);
until b waits
$ touch "$TMPDIR/{schema}"
s<
b<
b> CALL rowlock_release('x', @t);

# The wait ends: told so, and nobody's queue is held up.
a> CALL rowlock_acquire('x', 300, 0, @t);
b> CALL rowlock_acquire('x', 300, 1, @t);
b> SELECT @t;
a> CALL rowlock_release('x', @t);
b> CALL rowlock_acquire('x', 300, 0, @t);
b> CALL rowlock_release('x', @t);

# Nobody releases: who waits has it when it has run out.
a> CALL rowlock_acquire('x', 1, 0, @t);
b& CALL rowlock_acquire('x', 300, 60, @t);
b<
a> CALL rowlock_check('x', @t);
b> CALL rowlock_check('x', @t);
b> CALL rowlock_release('x', @t);
a> SELECT event, version FROM lock_event WHERE resource_name = 'x' ORDER BY id DESC LIMIT 3;
