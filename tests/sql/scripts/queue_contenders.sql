# C, shells and SQL at one queue, putting and taking: each item is done once. One of two of each kind marks it done in the transaction
# that does the work; every seventh item fails at first, and the next worker makes the next attempt.
user app
a> GRANT EXECUTE ON {schema}.* TO {app};
a> CREATE TABLE orders (id INT PRIMARY KEY AUTO_INCREMENT, who VARCHAR(10) NOT NULL) ENGINE = InnoDB;
a> CREATE TABLE work (id INT PRIMARY KEY AUTO_INCREMENT, payload VARCHAR(20) NOT NULL, who VARCHAR(10) NOT NULL) ENGINE = InnoDB;
a> CREATE TABLE failed (payload VARCHAR(20) PRIMARY KEY, who VARCHAR(10) NOT NULL) ENGINE = InnoDB;
a> CREATE TABLE finished (id INT PRIMARY KEY) ENGINE = InnoDB;
a> CALL rowlock_queue_make('jobs');
a> CREATE TRIGGER outbox AFTER INSERT ON orders FOR EACH ROW
       CALL rowlock_queue_put('jobs', CONCAT(NEW.who, ' ', NEW.id), NULL, NULL, NEW.id % 3, IF(NEW.id % 5 = 0, 'five', NULL), NULL, @its_item);
a> CREATE VIEW goal AS SELECT COUNT(*) = 0 AS more FROM finished;
# TRUE: this attempt fails.
a> CREATE PROCEDURE begin_it(its_who VARCHAR(10), its_payload VARCHAR(20), its_attempt INT, OUT fails BOOLEAN)
   BEGIN
       SET fails = its_attempt = 1 AND SUBSTRING_INDEX(its_payload, ' ', -1) % 7 = 0;
       IF fails THEN
           INSERT INTO failed VALUES (its_payload, its_who);
       END IF;
   END;
a> CREATE PROCEDURE do_it(its_who VARCHAR(10), its_payload VARCHAR(20))
   BEGIN
       INSERT INTO work (payload, who) VALUES (its_payload, its_who);
       DO SLEEP(0.002);
   END;

# Who puts goes on until each kind has done some, and then until all is done.
a> CREATE PROCEDURE put_all(its_who VARCHAR(10))
   BEGIN
       DECLARE n INT DEFAULT 0;
       WHILE n < 30 OR (SELECT COUNT(DISTINCT LEFT(who, 1)) FROM work) < 3 DO
           SET n = n + 1;
           INSERT INTO orders (who) VALUES (its_who);
           IF n % 6 = 0 THEN
               START TRANSACTION;
               INSERT INTO orders (who) VALUES ('none');
               ROLLBACK;
           END IF;
           DO SLEEP(0.01);
       END WHILE;
   END;
# Those in SQL
a> CREATE PROCEDURE go_through(its_who VARCHAR(10), in_one BOOLEAN)
   BEGIN
       DECLARE item, token BIGINT UNSIGNED;
       DECLARE attempt INT UNSIGNED;
       DECLARE fails BOOLEAN;
       WHILE (SELECT more FROM goal) DO
           CALL rowlock_queue_take('jobs', 60, 1, item, token, attempt, @key, @payload);
           IF item IS NOT NULL THEN
               CALL begin_it(its_who, @payload, attempt, fails);
               IF fails THEN
                   CALL rowlock_queue_retry('jobs', item, token, 0, 'each seventh');
               ELSE
                   IF in_one THEN
                       START TRANSACTION;
                   END IF;
                   CALL do_it(its_who, @payload);
                   CALL rowlock_queue_done('jobs', item, token);
                   COMMIT;
               END IF;
           END IF;
       END WHILE;
   END;

login b as app
login d as app
b& CALL {schema}.go_through('q0', FALSE);
d& CALL {schema}.go_through('q1', TRUE);
c$& contend jobs queue 0
s1$& trap 'kill $work' TERM; export who=s1; rowlock queue work jobs -- sh -c '
         sql() { mariadb --no-defaults -uroot -S "$ROWLOCK_TEST_SOCKET" {schema} -BNe "$1"; }; payload=$(cat)
         sql "CALL begin_it(\"$who\", \"$payload\", $ROWLOCK_ITEM_ATTEMPT, @fails); SELECT @fails" | grep -qx 0 &&
         sql "CALL do_it(\"$who\", \"$payload\")"' 2>/dev/null & work=$!
     until mariadb --no-defaults -uroot -S "$ROWLOCK_TEST_SOCKET" {schema} -BNe 'SELECT more FROM goal' | grep -qx 0; do sleep 0.1; done
     kill $work; wait $work
s2$& export who=s2; rowlock queue work jobs --batch=2 -- sh -c '
         sql() { mariadb --no-defaults -uroot -S "$ROWLOCK_TEST_SOCKET" {schema} -BNe "$1"; }; payload=$(cat)
         sql "CALL begin_it(\"$who\", \"$payload\", $ROWLOCK_ITEM_ATTEMPT, @fails); SELECT @fails" | grep -qx 0 &&
         sql "START TRANSACTION; CALL do_it(\"$who\", \"$payload\"); CALL rowlock_queue_done(\"jobs\", $ROWLOCK_ITEM_ID, $ROWLOCK_ITEM_TOKEN); COMMIT"' 2>/dev/null & work=$!
     until mariadb --no-defaults -uroot -S "$ROWLOCK_TEST_SOCKET" {schema} -BNe 'SELECT more FROM goal' | grep -qx 0; do sleep 0.1; done
     kill $work; wait $work
p$& for n in $(seq 30); do rowlock queue put jobs "shell $n" >/dev/null || exit; done
a> CALL put_all('sql');
p<
until a> SELECT COUNT(*) = 0 FROM queue_item;
a> INSERT INTO finished VALUES (1);
b<
d<
c<
s1<
s2<
# What was put is done, once; what was rolled back is not.
a> SELECT COUNT(*) = COUNT(DISTINCT payload), SUM(payload LIKE 'none%'), SUM(payload LIKE 'shell%'), SUM(payload LIKE 'c%'),
          SUM(payload LIKE 'sql%') = (SELECT COUNT(*) FROM orders WHERE who = 'sql') FROM work;
= 1 | 0 | 30 | 60 | 1
# Each kind has done some, and each way.
a> SELECT COUNT(DISTINCT LEFT(who, 1)) FROM work;
= 3
a> SELECT COUNT(*) > 0, COUNT(*) = (SELECT COUNT(*) FROM work WHERE SUBSTRING_INDEX(payload, ' ', -1) % 7 = 0) FROM failed;
= 1 | 1
a> SELECT COUNT(*) FROM queue_group;
= 0
until 0 wait
