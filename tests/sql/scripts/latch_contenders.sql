# C, shells and SQL count one latch down, and wait for it, through many generations. Each writes a row and
# counts; after the wait it counts the rows: fewer than all means that it passed early. Half of them count down in the transaction
# that writes the row.
user app
a> GRANT EXECUTE ON {schema}.* TO {app};
a> CREATE TABLE parts (generation BIGINT UNSIGNED, who VARCHAR(10), PRIMARY KEY (generation, who)) ENGINE = InnoDB;
a> CREATE TABLE passed (generation BIGINT UNSIGNED, who VARCHAR(10), seen INT NOT NULL, PRIMARY KEY (generation, who)) ENGINE = InnoDB;
# Which of them has set each generation: all try to. (A generation that is set twice is a duplicate key here.)
a> CREATE TABLE sets (generation BIGINT UNSIGNED PRIMARY KEY, who VARCHAR(10) NOT NULL) ENGINE = InnoDB;
a> CREATE PROCEDURE pass(its_who VARCHAR(10), g BIGINT UNSIGNED)
       INSERT INTO passed SELECT g, its_who, COUNT(*) FROM parts WHERE generation = g;

# Those in SQL
a> CREATE PROCEDURE set_it(its_who VARCHAR(10))
   BEGIN
       DECLARE g BIGINT UNSIGNED;
       DECLARE EXIT HANDLER FOR SQLSTATE 'RLBSY' BEGIN END;
       CALL rowlock_latch_set('all', 6, g);
       INSERT INTO sets VALUES (g, its_who);
   END;
a> CREATE PROCEDURE count_it(its_who VARCHAR(10), g BIGINT UNSIGNED, in_one BOOLEAN, OUT counted BOOLEAN)
   BEGIN
       DECLARE EXIT HANDLER FOR SQLSTATE 'RLNOF' ROLLBACK;
       SET counted = FALSE;
       IF in_one THEN
           START TRANSACTION;
       END IF;
       REPLACE INTO parts VALUES (g, its_who);
       CALL rowlock_latch_down('all', NULL, g);
       COMMIT;
       SET counted = TRUE;
   END;
a> CREATE PROCEDURE go_through(its_who VARCHAR(10), generations INT, in_one BOOLEAN)
   BEGIN
       DECLARE g, opened BIGINT UNSIGNED DEFAULT 0;
       DECLARE counted BOOLEAN;
       WHILE g < generations DO
           SET g = g + 1;
           -- Another one may be about to set it.
           REPEAT
               CALL set_it(its_who);
               CALL count_it(its_who, g, in_one, counted);
           UNTIL counted END REPEAT;
           CALL rowlock_latch_wait('all', 60, g, opened);
           CALL pass(its_who, opened);
       END WHILE;
   END;

# Who does not wait is early, or it proves nothing.
a> INSERT INTO parts VALUES (1, 'b');
a> CALL pass('b', 1);
a> INSERT INTO parts VALUES (1, 'd');
a> CALL pass('d', 1);
a> SELECT who, seen FROM passed ORDER BY who;
= b | 1
= d | 2
a> DELETE FROM passed;
a> DELETE FROM parts;

login b as app
login d as app
b& CALL go_through('b', 20, FALSE);
d& CALL go_through('d', 20, TRUE);
c$& contend all latch 20
s1$& who=s1; sql() { mariadb --no-defaults -uroot -S "$ROWLOCK_TEST_SOCKET" {schema} -e "$1"; }
     for g in $(seq 20); do
         sql "REPLACE INTO parts VALUES ($g, '$who')"
         until made=$(rowlock latch set all 6 2>/dev/null) && sql "INSERT INTO sets VALUES ($made, '$who')"
               rowlock latch down --generation=$g all 2>/dev/null; do :; done
         rowlock latch wait -w 60 --generation=$g all && sql "CALL pass('$who', $g)" || exit
     done
s2$& who=s2; sql() { mariadb --no-defaults -uroot -S "$ROWLOCK_TEST_SOCKET" {schema} -e "$1"; }
     for g in $(seq 20); do
         sql "REPLACE INTO parts VALUES ($g, '$who')"
         until made=$(rowlock latch set all 6 2>/dev/null) && sql "INSERT INTO sets VALUES ($made, '$who')"
               rowlock latch down --generation=$g all 2>/dev/null; do :; done
         rowlock latch wait -w 60 --generation=$g all && sql "CALL pass('$who', $g)" || exit
     done
b<
d<
c<
s1<
s2<
# Nobody was early, or passed twice, or was left; each generation was set once.
a> SELECT who, COUNT(*), MIN(seen), MAX(seen) FROM passed GROUP BY who ORDER BY who;
= b | 20 | 6 | 6
= c0 | 20 | 6 | 6
= c1 | 20 | 6 | 6
= d | 20 | 6 | 6
= s1 | 20 | 6 | 6
= s2 | 20 | 6 | 6
a> SELECT COUNT(*), MIN(generation), MAX(generation) FROM sets;
= 20 | 1 | 20
a> SELECT version, status, slots, broken & 1 FROM resource WHERE resource_name = 'all';
= 20 | free | 6 | 0
until 0 wait
