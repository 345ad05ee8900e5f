# Once in a period, in SQL. The same ones in the library and in the shell.
user app
user stranger
login app as app
login stranger as stranger
a> GRANT EXECUTE ON {schema}.* TO {app};
a> GRANT EXECUTE ON {schema}.* TO {stranger};
a> CREATE TABLE work (id INT PRIMARY KEY AUTO_INCREMENT, n BIGINT NOT NULL) ENGINE = InnoDB;
a> CREATE VIEW ledger AS SELECT r.resource_name AS name, o.period_start, o.state, o.attempts, o.exit_status
     FROM once_run o JOIN resource r ON r.id = o.resource_id;

# Begun, done, and found done by the next.
a> CALL rowlock_acquire('x', 30, 0, @t);
a> CALL rowlock_once_begin('x', @t, '2026-11-23', '2026-11-24', NULL, FALSE, @s, @n);
a> SELECT @s, @n;
= begun | 1
a> CALL rowlock_once_begin('x', @t, '2026-11-23', '2026-11-24', NULL, FALSE, @s, @n);
a> SELECT @s, @n;
= begun | 1
a> SELECT period_start, state, attempts, exit_status FROM ledger WHERE name = 'x';
= TIME | running | 1 | NULL
a> CALL rowlock_once_done('x', @t);
a> CALL rowlock_once_done('x', @t);
a> CALL rowlock_once_failed('x', @t, 1);
a> SELECT state, attempts, exit_status FROM ledger WHERE name = 'x';
= done | 1 | 0
a> CALL rowlock_once_begin('x', @t, '2026-11-23', '2026-11-24', NULL, FALSE, @s, @n);
= ERROR RLINV: token 1 of 'x' has ended this attempt; acquire it again
a> CALL rowlock_once_begin('x', @t, '2026-11-24', '2026-11-25', NULL, FALSE, @s, @n);
= ERROR RLINV: token 1 of 'x' has begun another period; acquire it again
a> CALL rowlock_release('x', @t);
b> CALL rowlock_acquire('x', 30, 0, @t);
b> CALL rowlock_once_begin('x', @t, '2026-11-23', '2026-11-24', NULL, NULL, @s, @n);
b> SELECT @s, @n;
= done | 1
b> CALL rowlock_once_begin('x', @t, '2026-11-24 02:00:00.5', '2026-11-25', NULL, NULL, @s, @n);
b> SELECT @s, @n;
= begun | 1
b> CALL rowlock_once_failed('x', @t, 7);
b> CALL rowlock_once_failed('x', @t, 8);
b> CALL rowlock_once_done('x', @t);
= ERROR RLLST: no period of 'x' is running with token 2 (any more)
b> SELECT period_start, state, attempts, exit_status FROM ledger WHERE name = 'x' ORDER BY period_start DESC LIMIT 1;
= TIME | failed | 1 | 7
b> CALL rowlock_release('x', @t);

# What failed is attempted again, as often as there may be attempts; and again all the same, if that is said.
a> CALL rowlock_acquire('x', 30, 0, @t);
a> CALL rowlock_once_begin('x', @t, '2026-11-24 02:00:00.5', '2026-11-25', 2, FALSE, @s, @n);
a> SELECT @s, @n;
= begun | 2
a> CALL rowlock_release('x', @t);
a> CALL rowlock_acquire('x', 30, 0, @t);
a> CALL rowlock_once_begin('x', @t, '2026-11-24 02:00:00.5', '2026-11-25', 2, FALSE, @s, @n);
a> SELECT @s, @n;
= used_up | 2
a> CALL rowlock_once_begin('x', @t, '2026-11-24 02:00:00.5', '2026-11-25', 2, TRUE, @s, @n);
a> SELECT @s, @n;
= begun | 1
a> CALL rowlock_once_failed('x', @t, NULL);
a> CALL rowlock_release('x', @t);

# The week that begins with a day is another period; the row is taken anew. Each attempt has its own token.
a> CALL rowlock_acquire('week', 30, 0, @t);
a> CALL rowlock_once_begin('week', @t, '2026-11-23', '2026-11-24', 1, FALSE, @s, @n);
a> CALL rowlock_once_done('week', @t);
a> CALL rowlock_once_begin('week', @t, '2026-11-23', '2026-11-30', 1, FALSE, @s, @n);
= ERROR RLINV: token 1 of 'week' has begun another period; acquire it again
a> CALL rowlock_release('week', @t);
a> CALL rowlock_acquire('week', 30, 0, @t);
a> CALL rowlock_once_begin('week', @t, '2026-11-23', '2026-11-30', 1, FALSE, @s, @n);
a> SELECT @s, @n;
= begun | 1
a> SELECT o.period_end, o.state, o.attempts, o.token FROM once_run o JOIN resource r ON r.id = o.resource_id WHERE resource_name = 'week';
= TIME | running | 1 | 2
a> CALL rowlock_release('week', @t);
a> CALL rowlock_acquire('week', 30, 0, @t);
a> UPDATE once_run o JOIN resource r ON r.id = o.resource_id SET o.token = 3 WHERE resource_name = 'week';
a> CALL rowlock_once_begin('week', @t, '2026-11-23', '2026-11-30', 2, FALSE, @s, @n);
= ERROR RLDMG: somebody else has begun the period of 'week' with token 3, though this one (3) should be higher
a> CALL rowlock_release('week', @t);

# In a transaction: done with the rows, or not at all; and once.
a> CALL rowlock_acquire('tx', 30, 0, @t);
a> CALL rowlock_once_begin('tx', @t, '2026-11-23', '2026-11-24', NULL, FALSE, @s, @n);
a> START TRANSACTION;
a> INSERT INTO work (n) VALUES (1);
a> CALL rowlock_once_done('tx', @t);
d> SELECT state FROM ledger WHERE name = 'tx';
= running
a> ROLLBACK;
d> SELECT state FROM ledger WHERE name = 'tx';
= running
a> START TRANSACTION;
a> INSERT INTO work (n) VALUES (1);
a> CALL rowlock_once_done('tx', @t);
a> COMMIT;
d> SELECT state FROM ledger WHERE name = 'tx';
= done
a> START TRANSACTION;
a> INSERT INTO work (n) VALUES (1);
a> CALL rowlock_once_done('tx', @t);
= ERROR RLLST: no period of 'tx' is running with token 1; roll back
a> ROLLBACK;
a> CALL rowlock_once_done('tx', @t);
a> CALL rowlock_release('tx', @t);
d> SELECT COUNT(*) FROM work;
= 1

# A retry waits for the transaction of the attempt before, whose lease was lost.
a> CALL rowlock_acquire('late', 30, 0, @t);
a> CALL rowlock_once_begin('late', @t, '2026-11-23', '2026-11-24', NULL, FALSE, @s, @n);
a> START TRANSACTION;
a> INSERT INTO work (n) VALUES (2);
a> CALL rowlock_once_done('late', @t);
b> CALL rowlock_break_now('late');
b> CALL rowlock_acquire('late', 30, 0, @t);
b> SET innodb_lock_wait_timeout = 1;
b> CALL rowlock_once_begin('late', @t, '2026-11-23', '2026-11-24', NULL, FALSE, @s, @n);
= ERROR RLBSY: 'late' is in use by a transaction; try again later
b> SET innodb_lock_wait_timeout = 60;
b& CALL rowlock_once_begin('late', @t, '2026-11-23', '2026-11-24', NULL, FALSE, @s, @n);
a> COMMIT;
b<
b> SELECT @s, @n;
= done | 1
b> CALL rowlock_release('late', @t);
a> CALL rowlock_acquire('late', 30, 0, @t);
a> CALL rowlock_once_begin('late', @t, '2026-11-24', '2026-11-25', NULL, FALSE, @s, @n);
b> CALL rowlock_break_now('late');
b> CALL rowlock_acquire('late', 30, 0, @u);
b> CALL rowlock_once_begin('late', @u, '2026-11-24', '2026-11-25', NULL, FALSE, @s, @n);
b> SELECT @s, @n;
= begun | 2
a> START TRANSACTION;
a> CALL rowlock_once_done('late', @t);
= ERROR RLLST: no period of 'late' is running with token 4; roll back
a> ROLLBACK;
a> CALL rowlock_once_done('late', @t);
= ERROR RLLST: no period of 'late' is running with token 4 (any more)
a> CALL rowlock_once_begin('late', @t, '2026-11-25', '2026-11-26', NULL, FALSE, @s, @n);
= ERROR RLLST: 'late' is not held with token 4 any more; stop this work
b> CALL rowlock_once_done('late', @u);
b> CALL rowlock_release('late', @u);

# Beside the command: each finds what the other has done. A command's job says so by the token that it finds. (Not across the end of
# the year, which is its period.)
until a> SELECT UTC_TIMESTAMP() < MAKEDATE(YEAR(UTC_DATE()) + 1, 1) - INTERVAL 1 MINUTE;
$ rowlock once --per=12month shell -- sh -c 'mariadb --no-defaults -uroot -S "$ROWLOCK_TEST_SOCKET" {schema} -e "CALL rowlock_once_done(\"shell\", $ROWLOCK_TOKEN)"; exit 3'
= exit status 3
$ rowlock once --per=12month shell -- echo not again
$ rowlock once status --json shell | grep -o '"state": "[a-z]*"'
= "state": "done"
a> CALL rowlock_acquire('shell', 30, 0, @t);
a> CALL rowlock_once_begin('shell', @t, MAKEDATE(YEAR(UTC_DATE()), 1), MAKEDATE(YEAR(UTC_DATE()) + 1, 1), NULL, FALSE, @s, @n);
a> SELECT @s;
= done
a> CALL rowlock_release('shell', @t);
a> CALL rowlock_acquire('sql', 30, 0, @t);
a> CALL rowlock_once_begin('sql', @t, MAKEDATE(YEAR(UTC_DATE()), 1), MAKEDATE(YEAR(UTC_DATE()) + 1, 1), NULL, FALSE, @s, @n);
a> CALL rowlock_once_done('sql', @t);
a> CALL rowlock_release('sql', @t);
$ rowlock once --per=12month sql -- echo not again

# With EXECUTE alone. What a login has begun by SQL no other one ends.
app> CALL rowlock_acquire('app', 30, 0, @t);
app> CALL rowlock_once_begin('app', @t, '2026-11-23', '2026-11-24', NULL, FALSE, @s, @n);
app> SELECT @t, @s, @n;
= 1 | begun | 1
stranger> CALL rowlock_once_begin('app', 1, '2026-11-23', '2026-11-24', NULL, FALSE, @s, @n);
= ERROR RLLST: 'app', token 1, was not taken by SQL by this login; rowlock_break ends it
stranger> CALL rowlock_once_done('app', 1);
= ERROR RLLST: no period of 'app' is running with token 1 (any more)
stranger> CALL rowlock_once_failed('app', 1, 1);
= ERROR RLLST: no period of 'app' is running with token 1 (any more)
stranger> START TRANSACTION;
stranger> CALL rowlock_once_done('app', 1);
= ERROR RLLST: no period of 'app' is running with token 1; roll back
stranger> ROLLBACK;
app> CALL rowlock_once_done('app', @t);
app> CALL rowlock_release('app', @t);

# What it looks like; one that has lost its lease has died.
a> CALL rowlock_acquire('dies', 30, 0, @t);
a> CALL rowlock_once_begin('dies', @t, '2026-11-23', '2026-11-24', NULL, FALSE, @s, @n);
a> CALL rowlock_release('dies', @t);
$ rowlock once status --json dies | grep -o '"state": "[a-z]*"'
= "state": "died"

# A session as it was: its snapshot, autocommit, safe updates, LAST_INSERT_ID().
a> SET SESSION sql_safe_updates = 1, unique_checks = 0;
a> DO LAST_INSERT_ID(77);
a> CALL rowlock_acquire('safe', 30, 0, @t);
a> CALL rowlock_once_begin('safe', @t, '2026-11-23', '2026-11-24', NULL, FALSE, @s, @n);
a> CALL rowlock_once_failed('safe', @t, 1);
a> CALL rowlock_release('safe', @t);
a> CALL rowlock_acquire('safe', 30, 0, @t);
a> CALL rowlock_once_begin('safe', @t, '2026-11-23', '2026-11-24', NULL, FALSE, @s, @n);
a> SET autocommit = 0;
a> CALL rowlock_once_done('safe', @t);
d> SELECT state, attempts FROM ledger WHERE name = 'safe';
= running | 2
a> COMMIT;
d> SELECT state, attempts FROM ledger WHERE name = 'safe';
= done | 2
a> SET autocommit = 1;
a> CALL rowlock_release('safe', @t);
a> SELECT LAST_INSERT_ID(), @@sql_safe_updates, @@unique_checks;
= 77 | 1 | 0
a> SET SESSION sql_safe_updates = 0, unique_checks = 1;

# What is none.
a> CALL rowlock_acquire('bad', 30, 0, @t);
a> CALL rowlock_once_begin('bad', @t, '2026-11-24', '2026-11-24', NULL, FALSE, @s, @n);
= ERROR RLINV: the period for 'bad' is none: give its begin, 1970 or later, and an end after that
a> CALL rowlock_once_begin('bad', @t, NULL, '2026-11-24', NULL, FALSE, @s, @n);
= ERROR RLINV: the period for 'bad' is none: give its begin, 1970 or later, and an end after that
a> CALL rowlock_once_begin('bad', @t, '1969-12-31', '2026-11-24', NULL, FALSE, @s, @n);
= ERROR RLINV: the period for 'bad' is none: give its begin, 1970 or later, and an end after that
a> CALL rowlock_once_begin('bad', @t, '2026-11-23', '2026-11-24', 0, FALSE, @s, @n);
= ERROR RLINV: 'bad' cannot have 0 attempts in a period; give 1 to 1000000
a> CALL rowlock_once_begin('bad', @t, '2026-11-23', '2026-11-24', 1.5, FALSE, @s, @n);
= ERROR RLINV: 'bad' cannot have 1.5 attempts in a period; give 1 to 1000000
a> CALL rowlock_once_begin('bad', NULL, '2026-11-23', '2026-11-24', 1, FALSE, @s, @n);
= ERROR RLINV: the token for 'bad' is not a whole number of 64 bits (NULL); give the one that you got
a> CALL rowlock_once_begin(NULL, @t, '2026-11-23', '2026-11-24', 1, FALSE, @s, @n);
= ERROR RLINV: the lock's name is empty or NULL; give one of 1 to 255 characters
a> CALL rowlock_once_failed('bad', @t, 256);
= ERROR RLINV: the exit status for 'bad' is 0 to 255, or NULL, not 256
a> CALL rowlock_once_done('bad', @t);
= ERROR RLLST: no period of 'bad' is running with token 1 (any more)
a> CALL rowlock_once_done('nobody', 1);
= ERROR RLNOF: there is no lock 'nobody'; look at its spelling
a> CALL rowlock_latch_set('latch', 1, @g);
a> CALL rowlock_once_done('latch', 1);
= ERROR RLMOD: 'latch' is a latch; it cannot be a lock (lease) too; use another name
a> START TRANSACTION;
a> CALL rowlock_once_begin('bad', @t, '2026-11-23', '2026-11-24', 1, FALSE, @s, @n);
= ERROR RLTXN: beginning a period of 'bad' is a transaction of its own; COMMIT or ROLLBACK yours first
a> CALL rowlock_once_failed('bad', @t, 1);
= ERROR RLTXN: ending a period of 'bad' is a transaction of its own; COMMIT or ROLLBACK yours first
a> ROLLBACK;
a> SELECT COUNT(*) FROM ledger WHERE name = 'bad';
= 0
a> CALL rowlock_release('bad', @t);
a> CALL rowlock_once_status('x');
= TIME | TIME | failed | 1 | 4 | root@localhost N sql | TIME | TIME | NULL
= TIME | TIME | done | 1 | 1 | root@localhost N sql | TIME | TIME | 0

# A transaction has locked the place where a period's row belongs.
a> START TRANSACTION;
a> SELECT COUNT(*) > 0 FROM once_run FOR UPDATE;
= 1
b> CALL rowlock_acquire('kept out', 30, 0, @t);
b> SET SESSION innodb_lock_wait_timeout = 1;
b> CALL rowlock_once_begin('kept out', @t, '2026-11-23', '2026-11-24', NULL, FALSE, @s, @n);
= ERROR RLBSY: 'kept out' is in use by a transaction; try again later
a> ROLLBACK;
b> CALL rowlock_once_begin('kept out', @t, '2026-11-23', '2026-11-24', NULL, FALSE, @s, @n);
b> SELECT @s, @n;
= begun | 1
