# C, shells and SQL at one job once in a period: it is done once. Each round is a name, with the current year; every third one
# fails at first, and the next one to come makes the next attempt. One of two of each kind marks it done in the transaction that does
# the work. (It waits if the year ends soon.)
until a> SELECT UTC_TIMESTAMP() < MAKEDATE(YEAR(UTC_DATE()) + 1, 1) - INTERVAL 85 SECOND;
user app
a> GRANT EXECUTE ON {schema}.* TO {app};
a> CREATE TABLE here (round INT, who VARCHAR(10), PRIMARY KEY (round, who)) ENGINE = InnoDB;
a> CREATE TABLE begun (round INT, token BIGINT UNSIGNED, attempt INT NOT NULL, who VARCHAR(10) NOT NULL,
       PRIMARY KEY (round, token)) ENGINE = InnoDB;
a> CREATE TABLE work (id INT PRIMARY KEY AUTO_INCREMENT, round INT NOT NULL, token BIGINT UNSIGNED NOT NULL,
       who VARCHAR(10) NOT NULL) ENGINE = InnoDB;
# Who found it done, and when that was so.
a> CREATE TABLE found (round INT, who VARCHAR(10), done INT NOT NULL, PRIMARY KEY (round, who)) ENGINE = InnoDB;
a> CREATE VIEW periods AS SELECT MAKEDATE(YEAR(UTC_DATE()), 1) AS start, MAKEDATE(YEAR(UTC_DATE()) + 1, 1) AS end;

# All come to a round together. In three of four one kind goes first, so that each does some; in the others all try at once.
a> CREATE PROCEDURE come(its_kind VARCHAR(10), its_who VARCHAR(10), its_round INT)
   BEGIN
       INSERT INTO here VALUES (its_round, its_who);
       REPEAT
           DO SLEEP(0.01);
       UNTIL (SELECT COUNT(*) FROM here WHERE round = its_round) = 6 END REPEAT;
       WHILE its_round % 4 <> 0 AND its_kind <> ELT(its_round % 4, 'c', 'shell', 'sql')
             AND NOT EXISTS (SELECT 1 FROM begun WHERE round = its_round) DO
           DO SLEEP(0.01);
       END WHILE;
   END;
# TRUE: this attempt fails.
a> CREATE PROCEDURE begin_it(its_who VARCHAR(10), its_round INT, its_token BIGINT UNSIGNED, its_attempt INT, OUT fails BOOLEAN)
   BEGIN
       INSERT INTO begun VALUES (its_round, its_token, its_attempt, its_who);
       SET fails = its_round % 3 = 0 AND its_attempt = 1;
   END;
a> CREATE PROCEDURE do_it(its_who VARCHAR(10), its_round INT, its_token BIGINT UNSIGNED)
   BEGIN
       INSERT INTO work (round, token, who) VALUES (its_round, its_token, its_who);
       DO SLEEP(0.002);
   END;
a> CREATE PROCEDURE find_it(its_who VARCHAR(10), its_round INT)
       INSERT INTO found SELECT its_round, its_who, COUNT(*) FROM work WHERE round = its_round;

# Those in SQL
a> CREATE PROCEDURE attempt(its_who VARCHAR(10), its_round INT, in_one BOOLEAN, OUT state VARCHAR(10))
   BEGIN
       DECLARE its_name VARCHAR(20) DEFAULT CONCAT('job ', its_round);
       DECLARE token, attempt BIGINT UNSIGNED;
       DECLARE fails BOOLEAN;
       CALL rowlock_acquire(its_name, 60, 60, token);
       CALL rowlock_once_begin(its_name, token, (SELECT start FROM periods), (SELECT end FROM periods), NULL, FALSE,
                               state, attempt);
       IF state = 'begun' THEN
           CALL begin_it(its_who, its_round, token, attempt, fails);
           IF fails THEN
               CALL rowlock_once_failed(its_name, token, 1);
           ELSE
               IF in_one THEN
                   START TRANSACTION;
               END IF;
               CALL do_it(its_who, its_round, token);
               CALL rowlock_once_done(its_name, token);
               COMMIT;
           END IF;
       END IF;
       CALL rowlock_release(its_name, token);
   END;
a> CREATE PROCEDURE go_through(its_who VARCHAR(10), rounds INT, in_one BOOLEAN)
   BEGIN
       DECLARE n INT DEFAULT 0;
       DECLARE state VARCHAR(10);
       WHILE n < rounds DO
           SET n = n + 1;
           CALL come('sql', its_who, n);
           REPEAT
               CALL attempt(its_who, n, in_one, state);
           UNTIL state = 'done' END REPEAT;
           CALL find_it(its_who, n);
       END WHILE;
   END;

login b as app
login d as app
b& CALL go_through('b', 16, FALSE);
d& CALL go_through('d', 16, TRUE);
c$& contend all once 16
s1$& export who=s1; sql() { mariadb --no-defaults -uroot -S "$ROWLOCK_TEST_SOCKET" {schema} -BNe "$1"; }
     for n in $(seq 16); do
         export n; sql "CALL come('shell', '$who', $n)"
         until rowlock once --per=12month "job $n" -- sh -c '
             sql() { mariadb --no-defaults -uroot -S "$ROWLOCK_TEST_SOCKET" {schema} -BNe "$1"; }
             sql "CALL begin_it(\"$who\", $n, $ROWLOCK_TOKEN, $ROWLOCK_ATTEMPT, @fails); SELECT @fails" | grep -qx 0 &&
             sql "CALL do_it(\"$who\", $n, $ROWLOCK_TOKEN)"'; do :; done
         sql "CALL find_it('$who', $n)" || exit
     done
s2$& export who=s2; sql() { mariadb --no-defaults -uroot -S "$ROWLOCK_TEST_SOCKET" {schema} -BNe "$1"; }
     for n in $(seq 16); do
         export n; sql "CALL come('shell', '$who', $n)"
         until rowlock once --per=12month "job $n" -- sh -c '
             sql() { mariadb --no-defaults -uroot -S "$ROWLOCK_TEST_SOCKET" {schema} -BNe "$1"; }
             sql "CALL begin_it(\"$who\", $n, $ROWLOCK_TOKEN, $ROWLOCK_ATTEMPT, @fails); SELECT @fails" | grep -qx 0 &&
             sql "START TRANSACTION; CALL do_it(\"$who\", $n, $ROWLOCK_TOKEN); CALL rowlock_once_done(\"job $n\", $ROWLOCK_TOKEN); COMMIT"'; do :; done
         sql "CALL find_it('$who', $n)" || exit
     done
b<
d<
c<
s1<
s2<
# Done once each, by the attempt that the ledger has; and found done by all.
a> SELECT COUNT(*), COUNT(DISTINCT round) FROM work;
= 16 | 16
a> SELECT COUNT(*) FROM once_run o JOIN resource r ON r.id = o.resource_id
     JOIN work w ON r.resource_name = CONCAT('job ', w.round) AND w.token = o.token
    WHERE o.state = 'done' AND o.attempts = IF(w.round % 3 = 0, 2, 1);
= 16
a> SELECT COUNT(*), SUM(attempt = 1), SUM(attempt = 2) FROM begun;
= 21 | 16 | 5
a> SELECT who, COUNT(*), MIN(done), MAX(done) FROM found GROUP BY who ORDER BY who;
= b | 16 | 1 | 1
= c0 | 16 | 1 | 1
= c1 | 16 | 1 | 1
= d | 16 | 1 | 1
= s1 | 16 | 1 | 1
= s2 | 16 | 1 | 1
# Of each kind some were first.
a> SELECT COUNT(DISTINCT IF(who IN ('b', 'd'), 'sql', LEFT(who, 1))) FROM begun WHERE attempt = 1;
= 3
until 0 wait
