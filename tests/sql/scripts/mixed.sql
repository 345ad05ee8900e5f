# SQL and shell on one name: sessions that call the procedures (of a user who may do nothing else) and loops of
# `rowlock run` add to one unprotected number. No addition is lost, and the tokens have their
# order. Without the lock some are lost: else the test would prove nothing.
user app
a> CREATE TABLE counter (n INT NOT NULL) ENGINE = InnoDB;
a> INSERT INTO counter VALUES (0);
a> CREATE TABLE section (token BIGINT UNSIGNED PRIMARY KEY, place INT NOT NULL, kind VARCHAR(10) NOT NULL) ENGINE = InnoDB;
a> CREATE PROCEDURE one_more(token BIGINT UNSIGNED, kind VARCHAR(10))
   BEGIN
       DECLARE place INT DEFAULT (SELECT n FROM counter);
       DO SLEEP(0.002);
       UPDATE counter SET n = place + 1;
       IF token > 0 THEN
           INSERT INTO section VALUES (token, place, kind);
       END IF;
   END;
a> CREATE PROCEDURE sections(locked BOOLEAN, shells INT)
   BEGIN
       DECLARE token BIGINT UNSIGNED DEFAULT 0;
       DECLARE i INT DEFAULT 0;
       WHILE i < 100 OR (i < 100000 AND (SELECT COUNT(*) FROM section WHERE kind = 'shell') < shells) DO
           IF locked THEN
               CALL rowlock_acquire('mixed', 30, NULL, token);
           END IF;
           CALL one_more(token, 'sql');
           IF locked THEN
               CALL rowlock_release('mixed', token);
           END IF;
           SET i = i + 1;
       END WHILE;
   END;
a> GRANT EXECUTE ON {schema}.* TO {app};
login b as app
login c as app
# (Connected before: they are to work at the same time.)
b> DO 1;
c> DO 1;
b& CALL sections(FALSE, 0);
c& CALL sections(FALSE, 0);
b<
c<
a> SELECT n < 200 FROM counter;
= 1

a> UPDATE counter SET n = 0;
b& CALL sections(TRUE, 20);
c& CALL sections(TRUE, 20);
s$& for i in $(seq 20); do rowlock run mixed -- sh -c 'mariadb --no-defaults -uroot -S "$ROWLOCK_TEST_SOCKET" {schema} -e "CALL one_more($ROWLOCK_TOKEN, \"shell\")"'; done
b<
c<
s<
a> SELECT n = (SELECT COUNT(*) FROM section), (SELECT COUNT(*) FROM section WHERE kind = 'shell') FROM counter;
= 1 | 20
a> SELECT COUNT(*) FROM (SELECT place, ROW_NUMBER() OVER (ORDER BY token) - 1 AS nth FROM section) s WHERE place <> nth;
= 0
# Each kind has its turns among the other's, which goes on as long as there are shells.
a> SELECT COUNT(*) >= 10 FROM (SELECT kind, LAG(kind) OVER (ORDER BY token) AS before_it FROM section) s WHERE kind <> before_it;
= 1
