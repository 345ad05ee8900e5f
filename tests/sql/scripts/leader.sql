# Leaders in SQL, as the others see them.
$ rowlock leader primary
= rowlock: there is no lock 'primary' (it was never used, or is purged)
= exit status 66
a> CALL rowlock_leader('primary', @value, @token);
= ERROR RLNOF: there is no lock 'primary'; look at its spelling
a> CALL rowlock_acquire('primary', 300, 0, @t);
a> CALL rowlock_leader('primary', @value, @token);
a> SELECT @value, @token;
= NULL | NULL
$ rowlock leader primary
= rowlock: nobody leads 'primary'
= exit status 1
a> CALL rowlock_set_value('primary', @t, 'db1:3306');
b> CALL rowlock_leader('primary', @value, @token);
b> SELECT @value, @token;
= db1:3306 | 1
$ rowlock leader primary
= db1:3306
a> CALL rowlock_set_value('primary', @t, 'it''s "\\ 🔒');
b> CALL rowlock_leader('primary', @value, @token);
b> SELECT @value, @token;
= it's "\ 🔒 | 1
$ rowlock ls --json | jq -r '.[].value'
= it's "\ 🔒

# Taken back, in two ways.
a> CALL rowlock_set_value('primary', @t, NULL);
b> CALL rowlock_leader('primary', @value, @token);
b> SELECT @value, @token;
= NULL | NULL
a> CALL rowlock_set_value('primary', @t, 'again');
a> CALL rowlock_set_value('primary', @t, '');
$ rowlock leader primary
= rowlock: nobody leads 'primary'
= exit status 1

# What cannot be published changes nothing.
a> CALL rowlock_set_value('primary', @t, 'good');
a> CALL rowlock_set_value('primary', @t, CONCAT('a', CHAR(10)));
= ERROR RLINV: the value for 'primary' is not valid: at most 1024 bytes, no control characters, no white space around
a> CALL rowlock_set_value('primary', @t, ' a');
= ERROR RLINV: the value for 'primary' is not valid: at most 1024 bytes, no control characters, no white space around
a> CALL rowlock_set_value('primary', @t, _utf8mb4 X'61C2A0');
= ERROR RLINV: the value for 'primary' is not valid: at most 1024 bytes, no control characters, no white space around
a> CALL rowlock_set_value('primary', @t, REPEAT('a', 1025));
= ERROR RLINV: the value for 'primary' is not valid: at most 1024 bytes, no control characters, no white space around
a> CALL rowlock_set_value('primary', @t, REPEAT('🔒', 257));
= ERROR RLINV: the value for 'primary' is not valid: at most 1024 bytes, no control characters, no white space around
a> CALL rowlock_set_value('primary', @t + 1, 'x');
= ERROR RLLST: 'primary' is not held with token 2 any more; stop this work
a> CALL rowlock_set_value('primary', NULL, 'x');
= ERROR RLINV: the token for 'primary' is not a whole number of 64 bits (NULL); give the one that you got
a> CALL rowlock_set_value('nobody''s', 1, 'x');
= ERROR RLNOF: there is no lock 'nobody's'; look at its spelling
$ rowlock leader primary
= good
a> CALL rowlock_set_value('primary', @t, REPEAT('🔒', 256));
a> CALL rowlock_leader('primary', @value, @token);
a> SELECT CHAR_LENGTH(@value);
= 256

# Its time is over, by the server's clock; renewed, it goes on.
a> CALL rowlock_set_value('primary', @t, 'good');
a> UPDATE resource SET lease_expires_at = UTC_TIMESTAMP(6);
a> CALL rowlock_leader('primary', @value, @token);
a> SELECT @value, @token;
= NULL | NULL
a> CALL rowlock_set_value('primary', @t, 'late');
= ERROR RLLST: the lease on 'primary' with token 1 has run out; stop this work
a> UPDATE lease_renewal SET version = 1, expires_at = UTC_TIMESTAMP(6) + INTERVAL 30 SECOND;
$ rowlock leader primary
= good

# After the release there is no leader; the next one begins without a value.
a> CALL rowlock_release('primary', @t);
$ rowlock leader primary
= rowlock: nobody leads 'primary'
= exit status 1
a> CALL rowlock_set_value('primary', @t, 'x');
= ERROR RLLST: 'primary' is not held with token 1 any more; stop this work
b> CALL rowlock_acquire('primary', 300, 0, @t);
$ rowlock leader primary
= rowlock: nobody leads 'primary'
= exit status 1
b> CALL rowlock_set_value('primary', @t, 'b');

# In a transaction: a value is refused, a leader is as the snapshot has it.
b> START TRANSACTION;
b> CALL rowlock_set_value('primary', @t, 'c');
= ERROR RLTXN: publishing a value for 'primary' is a transaction of its own; COMMIT or ROLLBACK yours first
b> CALL rowlock_leader('primary', @value, @token);
b> SELECT @value, @token;
= b | 2
b> COMMIT;
b> SET autocommit = 0;
b> CALL rowlock_set_value('primary', @t, 'd');
b> CALL rowlock_leader('primary', @value, @token);
b> SELECT @value, @token;
= d | 2
b> SET autocommit = 1;
$ rowlock leader primary
= d

# Without unique_checks, and with it put back.
b> SET unique_checks = 0;
b> CALL rowlock_set_value('primary', @t, 'e');
b> SELECT @@unique_checks;
= 0
b> CALL rowlock_set_value('primary', @t + 1, 'e');
= ERROR RLLST: 'primary' is not held with token 3 any more; stop this work
b> SELECT @@unique_checks;
= 0

# Of other kinds.
a> CALL rowlock_latch_set('latch', 1, @g);
a> CALL rowlock_leader('latch', @value, @token);
= ERROR RLMOD: 'latch' is a latch; it cannot be a lock (lease) too; use another name
a> CALL rowlock_set_value('latch', 1, 'x');
= ERROR RLMOD: 'latch' is a latch; it cannot be a lock (lease) too; use another name
a> CALL rowlock_acquire_shared('read', 30, 0, @t, @reader);
a> CALL rowlock_set_value('read', @t, 'x');
= ERROR RLLST: 'read' is not held with token 1 any more; stop this work

# What the command publishes, SQL reads.
$ rowlock lead --value=shell other -- sleep 60 & rowlock leader -w 60 other; kill $!; wait $!
= shell
