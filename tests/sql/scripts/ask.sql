# Holders are asked to stop, in SQL, in the library and in the shell.
user app
a> GRANT EXECUTE ON {schema}.* TO {app};
a> CREATE VIEW asks AS SELECT r.resource_name AS name, a.number, a.version = r.version AS counts, a.owner_label, a.reason,
       TIMESTAMPDIFF(SECOND, a.asked_at, a.stop_by) AS grace FROM resource r JOIN lock_ask a ON a.resource_id = r.id;

# A job in SQL hears of it when it looks.
a> CALL rowlock_acquire('x', 30, 0, @t);
a> CALL rowlock_asked('x', @t, @left, @why);
a> SELECT @left, @why;
= NULL | NULL
b> CALL rowlock_ask('x', 90, 'a deploy');
a> CALL rowlock_asked('x', @t, @left, @why);
a> SELECT @left BETWEEN 30 AND 90, @why;
= 1 | a deploy
b> CALL rowlock_ask('x', NULL, NULL);
a> CALL rowlock_asked('x', @t, @left, @why);
a> SELECT @left BETWEEN 1 AND 60, @why, number, counts, grace, owner_label FROM asks WHERE name = 'x';
= 1 |  | 2 | 1 | 60 | root@localhost N sql
$ rowlock ask --reason="by the shell" --grace=1ms x >/dev/null
a> CALL rowlock_asked('x', @t, @left, @why);
a> SELECT @left < 0.001, @why;
= 1 | by the shell
a> SELECT event, version, owner_label, waited_ms, held_ms >= 0, REGEXP_REPLACE(detail, '[0-9]+ sql', 'N sql') FROM lock_event
    WHERE event = 'asked' AND detail LIKE '%sql%' ORDER BY id;
= asked | 1 | root@localhost N sql | NULL | 1 | by root@localhost N sql, within 90s: a deploy
= asked | 1 | root@localhost N sql | NULL | 1 | by root@localhost N sql, within 60s

# Who has it next was not asked.
a> CALL rowlock_release('x', @t);
b> CALL rowlock_ask('x', NULL, NULL);
= ERROR RLNOF: nobody holds 'x' (as far as is published)
a> CALL rowlock_acquire('x', 30, 0, @t2);
a> CALL rowlock_asked('x', @t2, @left, @why);
a> SELECT @left, @why, counts FROM asks WHERE name = 'x';
= NULL | NULL | 0
a> CALL rowlock_asked('x', @t, @left, @why);
= ERROR RLLST: 'x' is not held with token 1 any more; stop this work
a> CALL rowlock_release('x', @t2);

# Who holds it by the library is told, a row lock's holder, too; and each slot that is held.
s$& rowlock run --ttl=12s y -- sh -c 'trap "echo stopped; exit 3" TERM; while :; do sleep 0.1; done' 2>/dev/null
until a> SELECT COUNT(*) FROM resource WHERE resource_name = 'y' AND status = 'held';
b> CALL rowlock_ask('y', 5, NULL);
s<
= stopped
= exit status 3
s$& rowlock run --mode=pessimistic --ttl=12s r -- sh -c 'trap "echo stopped; exit 3" TERM; while :; do sleep 0.1; done' 2>/dev/null
until a> SELECT COUNT(*) FROM resource WHERE resource_name = 'r' AND status = 'held';
b> CALL rowlock_ask('r', 5, NULL);
s<
= stopped
= exit status 3
a> CALL rowlock_acquire_slot('pool', 2, 30, 0, @slot, @t);
b> CALL rowlock_acquire_slot('pool', 2, 30, 0, @slot, @t);
a> CALL rowlock_ask('pool', NULL, 'all');
a> SELECT name, reason FROM asks WHERE name LIKE 'pool%' ORDER BY name;
= pool#0 | all
= pool#1 | all
b> CALL rowlock_asked(CONCAT('pool#', @slot), @t, @left, @why);
b> SELECT @why;
= all
$ rowlock slots pool 1
a> CALL rowlock_ask('pool', NULL, 'also above the number');
a> SELECT name, reason FROM asks WHERE name LIKE 'pool%' ORDER BY name;
= pool#0 | also above the number
= pool#1 | also above the number
a> CALL rowlock_release(CONCAT('pool#', @slot), @t);
b> CALL rowlock_release(CONCAT('pool#', @slot), @t);
b> CALL rowlock_ask('pool', NULL, NULL);
= ERROR RLNOF: nobody holds 'pool' (as far as is published)

# A lock that changes hands while it is asked for is held by somebody all the time.
a> CALL rowlock_acquire('hot', 300, 0, @t);
a> CREATE PROCEDURE change_hands(times INT)
   WHILE times > 0 DO
       UPDATE resource SET version = version + 1 WHERE resource_name = 'hot';
       SET times = times - 1;
   END WHILE;
a> CREATE PROCEDURE ask_often(times INT)
   BEGIN
       DECLARE nobody INT DEFAULT 0;
       DECLARE CONTINUE HANDLER FOR SQLSTATE 'RLNOF' SET nobody = nobody + 1;
       DECLARE CONTINUE HANDLER FOR SQLSTATE 'RLBSY' BEGIN END;
       WHILE times > 0 DO
           CALL rowlock_ask('hot', NULL, NULL);
           SET times = times - 1;
       END WHILE;
       SELECT nobody;
   END;
a& CALL change_hands(2000);
b> CALL ask_often(200);
= 0
a<

# An ask at a shared lease goes to the readers that hold it.
a> CALL rowlock_acquire_shared('s', 30, 0, @t, @reader);
b> CALL rowlock_ask('s', NULL, 'out');
a> CALL rowlock_asked('s', @t, @left, @why);
a> SELECT @why;
= out
a> CALL rowlock_release_shared('s', @reader);
b> CALL rowlock_ask('s', NULL, NULL);
= ERROR RLNOF: nobody holds 's' (as far as is published)

# An ask waits neither for a fence nor for another ask that is under way.
a> CALL rowlock_acquire('f', 30, 0, @t);
a> START TRANSACTION;
a> CALL rowlock_fence('f', @t);
b> CALL rowlock_ask('f', NULL, 'beside the fence');
b> SELECT reason FROM asks WHERE name = 'f';
= beside the fence
a> CALL rowlock_asked('f', @t, @left, @why);
= ERROR RLTXN: looking whether somebody asks for 'f' is a transaction of its own; COMMIT or ROLLBACK yours first
a> CALL rowlock_ask('f', NULL, NULL);
= ERROR RLTXN: asking for 'f' is a transaction of its own; COMMIT or ROLLBACK yours first
a> COMMIT;

# Without autocommit nothing stays open.
b> SET autocommit = 0;
b> CALL rowlock_ask('f', NULL, 'without autocommit');
b> CALL rowlock_asked('f', 1, @left, @why);
b> SELECT @why;
= without autocommit
# (The view is a copy, as in fence_tables.sql.)
until a> SELECT SLEEP(0.15) + (SELECT COUNT(*) FROM information_schema.innodb_trx WHERE trx_mysql_thread_id = {b.id}) = 0;
b> SET autocommit = 1;

# What may not be.
b> CALL rowlock_ask(NULL, NULL, NULL);
= ERROR RLINV: the lock's name is empty or NULL; give one of 1 to 255 characters
b> CALL rowlock_ask('f', 0, NULL);
= ERROR RLINV: the grace for 'f' is 0; give 0.001 to 86400 seconds
b> CALL rowlock_ask('f', -1, NULL);
= ERROR RLINV: the grace for 'f' is -1; give 0.001 to 86400 seconds
b> CALL rowlock_ask('f', 86401, NULL);
= ERROR RLINV: the grace for 'f' is 86401; give 0.001 to 86400 seconds
b> CALL rowlock_asked('f', NULL, @left, @why);
= ERROR RLINV: the token for 'f' is not a whole number of 64 bits (NULL); give the one that you got
b> CALL rowlock_asked('f', -1, @left, @why);
= ERROR RLINV: the token for 'f' is not a whole number of 64 bits; give the one that you got
b> CALL rowlock_ask('none', NULL, NULL);
= ERROR RLNOF: there is no lock 'none'; look at its spelling
b> CALL rowlock_latch_set('l', 1, @g);
b> CALL rowlock_ask('l', NULL, NULL);
= ERROR RLMOD: 'l' is a latch, which has no holder to ask
b> CALL rowlock_ask('f', NULL, CONCAT('\'; DROP TABLE lock_ask; -- %s ', REPEAT(_utf8mb4 X'F09F9092', 1000)));
b> SELECT LEFT(reason, 28), CHAR_LENGTH(reason) FROM asks WHERE name = 'f';
= '; DROP TABLE lock_ask; -- % | 250
b> CALL rowlock_ask('f', NULL, CONCAT('one', CHAR(27, 10, 0 USING utf8mb4), 'line'));
b> SELECT reason FROM asks WHERE name = 'f';
= one???line

# By a login that may EXECUTE alone; its name stands behind the label.
login e as app
e> CALL rowlock_ask('f', NULL, 'by app');
e> SELECT * FROM lock_ask;
= ERROR 42000 (1142)
a> SELECT reason, owner_label FROM asks WHERE name = 'f';
= by app | app@localhost N sql
