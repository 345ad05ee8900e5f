# A fenced table beside what else writes it and what else is on it: other triggers, partitions,
# other names, and whatever may stand in the session's variable.
a> CREATE TABLE side (id INT PRIMARY KEY, n INT NOT NULL) ENGINE = InnoDB;
a> CREATE TABLE work (id INT PRIMARY KEY, n INT NOT NULL) ENGINE = InnoDB
   PARTITION BY RANGE (id) (PARTITION low VALUES LESS THAN (100), PARTITION high VALUES LESS THAN (1000));
a> CREATE TABLE audit (what VARCHAR(40)) ENGINE = InnoDB;
a> CREATE TRIGGER audited BEFORE INSERT ON work FOR EACH ROW INSERT INTO audit VALUES (CONCAT('insert ', NEW.id));
a> INSERT INTO work VALUES (1, 1), (150, 1);
a> INSERT INTO side VALUES (5, 5);
a> DELETE FROM audit;
$ rowlock fence install --table {schema}.work --lock books
= {schema}.work is fenced: writing it takes the token of 'books'

# Without the token nothing writes a row, and the table's other triggers are not reached. (Every kind of statement:
# conformance_fences.)
a> INSERT INTO work VALUES (2, 2);
= ERROR RLLST: 'work' is fenced by lock 'books': CALL {schema}.rowlock_present(name, token)
a> UPDATE work, side SET work.n = 7, side.n = 7 WHERE work.id = 1 AND side.id = 5;
= ERROR RLLST: 'work' is fenced by lock 'books': CALL {schema}.rowlock_present(name, token)
a> DELETE work, side FROM work JOIN side;
= ERROR RLLST: 'work' is fenced by lock 'books': CALL {schema}.rowlock_present(name, token)
a> SELECT id, n FROM work ORDER BY id;
= 1 | 1
= 150 | 1
a> SELECT COUNT(*), (SELECT n FROM side) FROM audit;
= 0 | 5

# With the token all go.
a> CALL rowlock_acquire('books', 600, 0, @t);
a> CALL rowlock_present('books', @t);
a> REPLACE INTO work VALUES (1, 2);
a> INSERT INTO work VALUES (1, 2) ON DUPLICATE KEY UPDATE n = 9;
a> SELECT id, n FROM work ORDER BY id;
= 1 | 9
= 150 | 1

# The fence goes with the table when it gets another name (its words keep the old one).
a> CALL rowlock_present('books', NULL);
a> RENAME TABLE work TO renamed;
a> INSERT INTO renamed VALUES (2, 2);
= ERROR RLLST: 'work' is fenced by lock 'books': CALL {schema}.rowlock_present(name, token)
$ rowlock fence list | grep -c '[.]renamed  *books  *-  '
= 1

# Whatever else stands in the variable is no token: refused, by the server itself where it is not even text. The
# next rowlock_present puts it right.
mask /ERROR (22032 [(]3157[)]|HY000 [(]1300[)]|RLLST: .*rowlock_present.*)/ERROR refused/
a> SET @rowlock_presented = CONCAT(REPEAT('[', 500), REPEAT(']', 500));
a> INSERT INTO renamed VALUES (2, 2);
= ERROR refused
a> SET @rowlock_presented = X'FF';
a> INSERT INTO renamed VALUES (2, 2);
= ERROR refused
a> SET @rowlock_presented = 5;
a> INSERT INTO renamed VALUES (2, 2);
= ERROR refused
a> SET @rowlock_presented = '["books"]';
a> INSERT INTO renamed VALUES (2, 2);
= ERROR refused
a> CALL rowlock_present('books', @t);
a> INSERT INTO renamed VALUES (2, 2);
a> SELECT id FROM renamed ORDER BY id;
= 1
= 2
= 150
a> CALL rowlock_release('books', @t);
