# C, shells and SQL lead one after the other, by one name; and others of each kind look on. Never do two lead, and the value
# that is seen is that of the token that is seen.
user app
a> GRANT EXECUTE ON {schema}.* TO {app};
a> CREATE TABLE inside (id BIGINT UNSIGNED PRIMARY KEY) ENGINE = InnoDB;
# Who has led, and what those that look on have seen.
a> CREATE TABLE terms (token BIGINT UNSIGNED PRIMARY KEY, kind VARCHAR(10) NOT NULL, beside INT NOT NULL,
       sees_itself BOOLEAN NOT NULL) ENGINE = InnoDB;
a> CREATE TABLE seen (id INT PRIMARY KEY AUTO_INCREMENT, who VARCHAR(10) NOT NULL, token BIGINT UNSIGNED NOT NULL,
       value VARCHAR(40) NOT NULL) ENGINE = InnoDB;
# All go on until each kind has led so often, and has seen so much, of all kinds; or far too often, where one of them has failed.
a> CREATE VIEW led AS SELECT SUM(kind = 'c') AS c, SUM(kind = 'shell') AS shell, SUM(kind = 'sql') AS in_sql FROM terms;
a> CREATE VIEW looked AS SELECT COUNT(DISTINCT IF(who = 'c', token, NULL)) AS c, COUNT(DISTINCT IF(who = 'shell', token, NULL)) AS shell,
       COUNT(DISTINCT IF(who = 'sql', token, NULL)) AS in_sql FROM seen;
a> CREATE VIEW goal AS SELECT (SELECT COALESCE(LEAST(d.c, d.shell, d.in_sql), 0) < 12 OR LEAST(k.c, k.shell, k.in_sql) < 12
       OR (SELECT COUNT(DISTINCT s.who, t.kind) FROM seen s JOIN terms t ON t.token = s.token) < 9
       FROM led d, looked k) AND (SELECT COUNT(*) FROM terms) < 5000 AS more;
# A leader says of what kind it is, and then its token, too.
a> CREATE PROCEDURE lead_it(its_kind VARCHAR(10), its_token BIGINT UNSIGNED)
   BEGIN
       DECLARE value_seen LONGTEXT;
       DECLARE token_seen BIGINT UNSIGNED;
       DECLARE beside INT;
       INSERT INTO inside VALUES (CONNECTION_ID());
       DO SLEEP(0.02);
       CALL rowlock_leader('chief', value_seen, token_seen);
       SELECT COUNT(*) - 1 INTO beside FROM inside;
       INSERT INTO terms VALUES (its_token, its_kind, beside,
           COALESCE(value_seen IN (its_kind, CONCAT(its_kind, ' ', its_token)) AND token_seen = its_token, FALSE));
       DELETE FROM inside WHERE id = CONNECTION_ID();
   END;

# Those in SQL
a> CREATE PROCEDURE lead_turns()
   BEGIN
       DECLARE token BIGINT UNSIGNED;
       REPEAT
           CALL rowlock_acquire('chief', 60, 60, token);
           CALL rowlock_set_value('chief', token, 'sql');
           CALL rowlock_set_value('chief', token, CONCAT('sql ', token));
           CALL lead_it('sql', token);
           CALL rowlock_release('chief', token);
       UNTIL NOT (SELECT more FROM goal) END REPEAT;
   END;
a> CREATE PROCEDURE look_on()
   BEGIN
       DECLARE value_now LONGTEXT;
       DECLARE token_now BIGINT UNSIGNED;
       REPEAT
           CALL rowlock_leader('chief', value_now, token_now);
           IF token_now IS NOT NULL THEN
               INSERT INTO seen (who, token, value) VALUES ('sql', token_now, value_now);
           END IF;
           DO SLEEP(0.002);
       UNTIL NOT (SELECT more FROM goal) END REPEAT;
   END;

# The name is there when they begin to look.
a> CALL rowlock_acquire('chief', 60, 0, @t);
a> CALL rowlock_release('chief', @t);
login b as app
login e as app
b& CALL lead_turns();
e& CALL look_on();
c$& contend chief lead "CALL lead_it('c', @token)"
co$& contend chief observe "INSERT INTO seen (who, token, value) VALUES ('c', @token, @value)"
# A term of the command's ends by SIGTERM: it hands over.
s$& while [ "$(mariadb --no-defaults -uroot -S "$ROWLOCK_TEST_SOCKET" {schema} -BNe "SELECT more FROM goal")" = 1 ]; do
        sh -c 'LEAD=$$; export LEAD; exec rowlock lead --value=shell chief -- sh -c "
            mariadb --no-defaults -uroot -S \"\$ROWLOCK_TEST_SOCKET\" {schema} -BNe \"
                CALL lead_it(\\\"shell\\\", \$ROWLOCK_TOKEN)\" &&
            kill -TERM \$LEAD; exec sleep 60"' || exit
    done
so$& while more=$(rowlock leader --json chief 2>/dev/null | jq -r 'select(.leads)
             | "INSERT INTO seen (who, token, value) VALUES (\"shell\", \(.token), \"\(.value)\");"'
         echo "SELECT more FROM goal") && [ "$(echo "$more" | mariadb --no-defaults -uroot -S "$ROWLOCK_TEST_SOCKET" {schema} -BN)" = 1 ]; do :; done
b<
e<
c<
co<
s<
so<
a> SELECT kind, COUNT(*) >= 12, SUM(beside), MIN(sees_itself) FROM terms GROUP BY kind ORDER BY kind;
= c | 1 | 0 | 1
= shell | 1 | 0 | 1
= sql | 1 | 0 | 1
# Each value is that of the leader with this token.
a> SELECT who, COUNT(DISTINCT s.token) >= 12, SUM(t.kind IS NULL), COUNT(DISTINCT t.kind),
          SUM(s.value NOT IN (t.kind, CONCAT(t.kind, ' ', s.token)))
     FROM seen s LEFT JOIN terms t USING (token) GROUP BY who ORDER BY who;
= c | 1 | 0 | 3 | 0
= shell | 1 | 0 | 3 | 0
= sql | 1 | 0 | 3 | 0
# Nobody sees one of before again.
a> SELECT COUNT(*) FROM (SELECT token < LAG(token) OVER (PARTITION BY who ORDER BY id) AS back FROM seen) s WHERE back;
= 0
a> CALL rowlock_leader('chief', @v, @t);
a> SELECT @v, @t;
= NULL | NULL
until 0 wait
