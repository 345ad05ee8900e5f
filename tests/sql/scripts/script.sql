# What a script can say (tests/sql/script.h), and that it comes out.
# no procedures

user app
login poor as app
a> SELECT 1, NULL, 'text with spaces', X'C328', '', '12', DATE'2026-11-21' + INTERVAL 1 SECOND;
a> SELECT DATABASE() = '{schema}', DATABASE(), CONNECTION_ID() = {a.id}, {b.id} > {a.id};
a> SELECT 1 FROM DUAL WHERE FALSE;
poor> SELECT COUNT(*) FROM {schema}.resource;
a> GRANT SELECT ON {schema}.resource TO {app};
poor> SELECT CONCAT('by ', USER()), COUNT(*) FROM {schema}.resource;

# Over several lines; what a procedure says, and what comes out of it.
a> CREATE PROCEDURE twice(n INT)
   BEGIN
       SELECT n;
       SELECT 2 * n;
       IF n > 5 THEN
           SIGNAL SQLSTATE 'RLXXX' SET MESSAGE_TEXT = 'too much';
       END IF;
   END;
a> CALL twice(4);
a> CALL twice(6);
a> SELEC;

# One waits for another: for a named lock, for a row, asleep, for a table.
a> SELECT GET_LOCK('{schema}.1', 0);
b& SELECT GET_LOCK('{schema}.1', 60);
until b waits
c& SELECT GET_LOCK('{schema}.1', 60);
until 2 wait
a> SELECT RELEASE_LOCK('{schema}.1');
b<
a> KILL {c.id};
c<
close b
a> START TRANSACTION;
a> SELECT id FROM version_floor WHERE id = 1 FOR UPDATE;
b& UPDATE version_floor SET version = 1 WHERE id = 1;
until b waits
a> KILL {b.id};
b<
login b as root
b& ALTER TABLE version_floor COMMENT = 'x';
until b waits
a> COMMIT;
b<
b& SELECT SLEEP(60);
until b waits
a> KILL {b.id};
b<

# Other character sets, and bytes that are no text.
login d charset=latin1
d> SELECT HEX('{xFF}é');
login d as app charset=utf8mb4
d> SELECT HEX('é');
mask /[0-9]+ monkeys/N monkeys/
d> SELECT '12 monkeys', '1999-12-31 23:59:59.999999', '0.25 s', 'connection 12';

# The shell and the library, beside one another.
$ rowlock run x -- sh -c 'echo "token $ROWLOCK_TOKEN"; exit 3'
c! acquire x lease
s$& rowlock run -w 60 x -- echo got it
until 1 wait
c! release x
s<
$ rowlock run -n y -- true && echo good
until a> SELECT COUNT(*) >= 4 FROM {schema}.lock_event;
without mysql
