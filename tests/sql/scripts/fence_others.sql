# A fenced table beside what else writes it and what else is on it: each kind of statement, other triggers, partitions,
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

# Without the token no kind of statement writes a row, and the table's other triggers are not reached.
a> INSERT INTO work VALUES (2, 2);
a> REPLACE INTO work VALUES (1, 2);
a> INSERT INTO work VALUES (1, 2) ON DUPLICATE KEY UPDATE n = 9;
a> INSERT IGNORE INTO work VALUES (2, 2);
a> INSERT INTO work SELECT id, n FROM side;
a> UPDATE IGNORE work SET n = 3;
a> UPDATE work, side SET work.n = 7, side.n = 7 WHERE work.id = 1 AND side.id = 5;
a> DELETE FROM work;
a> DELETE work, side FROM work JOIN side;
a> SELECT id, n FROM work ORDER BY id;
a> SELECT COUNT(*), (SELECT n FROM side) FROM audit;

# Another trigger may be made to run before ours: what it wrote goes with the statement that is refused.
a> CREATE TRIGGER first BEFORE INSERT ON work FOR EACH ROW PRECEDES audited INSERT INTO audit VALUES ('first');
a> INSERT INTO work VALUES (2, 2);
a> SELECT COUNT(*) FROM audit;

# With the token all go.
a> CALL rowlock_acquire('books', 600, 0, @t);
a> CALL rowlock_present('books', @t);
a> REPLACE INTO work VALUES (1, 2);
a> INSERT INTO work VALUES (1, 2) ON DUPLICATE KEY UPDATE n = 9;
a> SELECT id, n FROM work ORDER BY id;
a> CALL rowlock_present('books', NULL);

# What no trigger sees: a partition that is exchanged or emptied. Who may not DROP and ALTER cannot.
a> ALTER TABLE work EXCHANGE PARTITION low WITH TABLE side;
a> SELECT id, n FROM work ORDER BY id;
a> ALTER TABLE work TRUNCATE PARTITION high;
a> SELECT id, n FROM work ORDER BY id;

# The fence goes with the table when it gets another name (its words keep the old one), and does not let it go to another
# schema.
a> RENAME TABLE work TO renamed;
a> INSERT INTO renamed VALUES (2, 2);
$ rowlock fence list | grep -c '[.]renamed  *books  *-  '
a> CREATE DATABASE {schema}_2;
a> RENAME TABLE renamed TO {schema}_2.renamed;
a> DROP DATABASE {schema}_2;

# Whatever else stands in the variable is no token: refused, by the server itself where it is not even text. The
# next rowlock_present puts it right.
mask /ERROR (22032 [(]3157[)]|HY000 [(]1300[)]|RLLST: .*first)/ERROR refused/
a> SET @rowlock_presented = CONCAT(REPEAT('[', 500), REPEAT(']', 500));
a> INSERT INTO renamed VALUES (2, 2);
a> CALL rowlock_present('books', @t);
a> INSERT INTO renamed VALUES (2, 2);
a> SET @rowlock_presented = X'FF';
a> INSERT INTO renamed VALUES (3, 3);
a> CALL rowlock_present('books', NULL);
a> INSERT INTO renamed VALUES (3, 3);
a> CALL rowlock_present('books', @t);
a> INSERT INTO renamed VALUES (3, 3);
a> SET @rowlock_presented = 5;
a> INSERT INTO renamed VALUES (4, 4);
a> CALL rowlock_present('books', @t);
a> INSERT INTO renamed VALUES (4, 4);
a> SET @rowlock_presented = '["books"]';
a> INSERT INTO renamed VALUES (6, 6);
a> CALL rowlock_present('books', @t);
a> INSERT INTO renamed VALUES (6, 6);
a> SELECT id FROM renamed ORDER BY id;
a> CALL rowlock_release('books', @t);
