# rowlock fence install, CALL rowlock_present: a session without the lock cannot write, not even an old program's.

user app
user old
a> GRANT EXECUTE ON {schema}.* TO {app};
a> CREATE TABLE ledger (id INT PRIMARY KEY, n INT NOT NULL DEFAULT 0) ENGINE = InnoDB;
a> INSERT INTO ledger (id) VALUES (1), (2), (3);
a> GRANT SELECT, INSERT, UPDATE, DELETE ON {schema}.ledger TO {app};
a> GRANT SELECT, INSERT, UPDATE, DELETE ON {schema}.ledger TO {old};
login job as app
login late as app
login program as old
$ rowlock fence install --table ledger --lock close
= ledger is fenced: writing it takes the token of 'close'
$ rowlock fence install --table ledger --lock close
= ledger is fenced: writing it takes the token of 'close'
$ rowlock fence install --table ledger --lock another
= rowlock: '{schema}.ledger' is fenced by the lock 'close' already; remove that fence first
= exit status 64
$ rowlock fence list --json | tr -d '\n' | sed 's/"schema": "[a-z0-9_]*"/"schema": "S"/'
= [{ "schema": "S", "table": "ledger", "lock": "close", "definer": "root@localhost", "whole": true, "unguarded": "" }]

# A program that has never heard of it.
program> INSERT INTO ledger (id) VALUES (4);
= ERROR RLLST: 'ledger' is fenced by lock 'close': CALL {schema}.rowlock_present(name, token)
program> UPDATE ledger SET n = 1;
= ERROR RLLST: 'ledger' is fenced by lock 'close': CALL {schema}.rowlock_present(name, token)
program> SELECT COUNT(*), SUM(n) FROM ledger;
= 3 | 0

# What cannot be presented.
job> CALL rowlock_present('close', 1);
= ERROR RLNOF: there is no lock 'close'; look at its spelling
job> CALL rowlock_acquire('close', 8, 0, @token);
job> CALL rowlock_present('close', @token + 1);
= ERROR RLLST: 'close' is not held with token 2 any more; stop this work
job> UPDATE ledger SET n = n + 1;
= ERROR RLLST: 'ledger' is fenced by lock 'close': CALL {schema}.rowlock_present(name, token)

# The holder writes, in or out of a transaction; presenting began none.
job> CALL rowlock_present('close', @token);
# (The view is a copy: it may be older than the call, and is not renewed until no session has read it for 0.1 s.)
until a> SELECT SLEEP(0.15) + (SELECT COUNT(*) FROM information_schema.innodb_trx WHERE trx_mysql_thread_id = {job.id}) = 0;
job> UPDATE ledger SET n = n + 1;
job> SELECT COUNT(*), SUM(n) FROM ledger;
= 3 | 3
late> UPDATE ledger SET n = n + 1;
= ERROR RLLST: 'ledger' is fenced by lock 'close': CALL {schema}.rowlock_present(name, token)

# It is paused, in a transaction that has only read; its lease runs out, another has the lock.
job> SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
job> START TRANSACTION;
job> SELECT SUM(n) FROM ledger;
= 3
late> CALL rowlock_acquire('close', 30, 60, @token);
late> CALL rowlock_present('close', @token);
late> UPDATE ledger SET n = n + 10 WHERE id = 1;
job> UPDATE ledger SET n = n + 100 WHERE id = 2;
= ERROR RLLST: lock 'close' is not held with token 1: 'ledger' is not written; roll back
job> ROLLBACK;
job> UPDATE ledger SET n = n + 100 WHERE id = 2;
= ERROR RLLST: lock 'close' is not held with token 1: 'ledger' is not written; roll back
job> CALL rowlock_present('close', @token);
= ERROR RLLST: 'close' is not held with token 1 any more; stop this work
late> SELECT COUNT(*), SUM(n) FROM ledger;
= 3 | 13

# A writer that has not committed yet keeps the lock, though its holder breaks it off.
late> START TRANSACTION;
late> UPDATE ledger SET n = n + 10 WHERE id = 3;
b& CALL rowlock_break_now('close');
until b waits
late> UPDATE ledger SET n = n + 10 WHERE id = 1;
late> COMMIT;
b<
late> UPDATE ledger SET n = n + 10 WHERE id = 1;
= ERROR RLLST: lock 'close' is not held with token 2: 'ledger' is not written; roll back
late> SELECT COUNT(*), SUM(n) FROM ledger;
= 3 | 33

# Several locks, taken back one by one; the session's variable may hold anything.
job> CALL rowlock_acquire('close', 30, 0, @token);
job> CALL rowlock_acquire('other', 30, 0, @other);
job> SET @rowlock_presented = 'no json';
job> CALL rowlock_present('close', @token);
job> CALL rowlock_present('other', @other);
job> UPDATE ledger SET n = 0;
job> CALL rowlock_present('other', NULL);
job> UPDATE ledger SET n = 1;
job> CALL rowlock_present('close', NULL);
job> UPDATE ledger SET n = 2;
= ERROR RLLST: 'ledger' is fenced by lock 'close': CALL {schema}.rowlock_present(name, token)
job> SELECT COUNT(*), SUM(n) FROM ledger;
= 3 | 3
job> CALL rowlock_release('close', @token);
job> CALL rowlock_release('other', @other);

# The token of a job of `rowlock run`; of a row lock, too.
$ rowlock run close -- sh -c 'mariadb --no-defaults -uroot -S "$ROWLOCK_TEST_SOCKET" {schema} -e "CALL rowlock_present(\"close\", $ROWLOCK_TOKEN); UPDATE ledger SET n = 7"'
a> SELECT COUNT(*), SUM(n) FROM ledger;
= 3 | 21
