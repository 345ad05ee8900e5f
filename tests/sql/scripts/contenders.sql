# C, shells and SQL on one name at the same time: as readers and writers of one, as writers alone of another, and as holders of
# the slots of a third. A writer, and a slot's holder, changes two columns of a board, one after the other; no holder of a lock
# sees them differ. Without the locks some do: else the test would prove nothing.
user app
a> GRANT EXECUTE ON {schema}.* TO {app};
# The boards 0 and 1 are those of two slots, -1 is that of the readers and writers, and then of the writers alone.
a> CREATE TABLE boards (place INT PRIMARY KEY, x INT NOT NULL, y INT NOT NULL, token BIGINT UNSIGNED NOT NULL,
       kind VARCHAR(10) NOT NULL) ENGINE = InnoDB;
a> INSERT INTO boards VALUES (-1, 0, 0, 0, ''), (0, 0, 0, 0, ''), (1, 0, 0, 0, '');
# Who is at which board now
a> CREATE TABLE inside (id BIGINT UNSIGNED PRIMARY KEY, kind VARCHAR(10) NOT NULL, place INT NOT NULL) ENGINE = InnoDB;
# Sections of each kind of contender: in how many another one was inside that may not be (torn), or a token was not
# in order (out_of_order); how many came after one of another kind (mixed); how many kinds were inside at once.
a> CREATE TABLE done (kind VARCHAR(10), what VARCHAR(10), sections INT NOT NULL DEFAULT 0, torn INT NOT NULL DEFAULT 0,
       out_of_order INT NOT NULL DEFAULT 0, mixed INT NOT NULL DEFAULT 0, kinds INT NOT NULL DEFAULT 0,
       wanted INT NOT NULL DEFAULT 0, PRIMARY KEY (kind, what)) ENGINE = InnoDB;
# All go on until each kind has done enough, as many after another kind as are wanted, and where readers and writers are wanted,
# readers of several kinds were in together; or far too many, where one of them has failed.
a> CREATE VIEW goal AS
       SELECT (MIN(sections) < 30 OR MIN(mixed - wanted) < 0
               OR COALESCE(MAX(IF(what = 'reads' AND wanted > 0, kinds, NULL)) < 2, FALSE))
              AND MAX(sections) < 20000 AS more
         FROM done;
a> CREATE PROCEDURE count_it(its_kind VARCHAR(10), its_what VARCHAR(10), is_torn BOOLEAN, is_late BOOLEAN,
                             is_after_another BOOLEAN, kinds_now INT)
       UPDATE done SET sections = sections + 1, torn = torn + is_torn, out_of_order = out_of_order + is_late,
              mixed = mixed + is_after_another, kinds = GREATEST(kinds, kinds_now)
        WHERE kind = its_kind AND what = its_what;

# It reads them in the other order: else it would see both changed by a writer that is as slow as itself. A reader's
# token is that of the last writer; one that comes before all writers has a first one all the same.
a> CREATE PROCEDURE read_section(its_kind VARCHAR(10), its_token BIGINT UNSIGNED)
   BEGIN
       DECLARE x_seen, y_seen, kinds_now INT;
       DECLARE last_token BIGINT UNSIGNED;
       DECLARE last_kind VARCHAR(10);
       INSERT INTO inside VALUES (CONNECTION_ID(), its_kind, -1);
       SELECT y INTO y_seen FROM boards WHERE place = -1;
       DO SLEEP(0.002);
       SELECT x, token, kind INTO x_seen, last_token, last_kind FROM boards WHERE place = -1;
       SELECT COUNT(DISTINCT kind) INTO kinds_now FROM inside;
       DELETE FROM inside WHERE id = CONNECTION_ID();
       CALL count_it(its_kind, 'reads', x_seen <> y_seen, last_token NOT IN (0, its_token), last_kind <> its_kind, kinds_now);
   END;
a> CREATE PROCEDURE write_section(its_kind VARCHAR(10), its_what VARCHAR(10), its_token BIGINT UNSIGNED, its_place INT)
   BEGIN
       DECLARE n, y_seen, at_board, kinds_now INT;
       DECLARE last_token BIGINT UNSIGNED;
       DECLARE last_kind VARCHAR(10);
       INSERT INTO inside VALUES (CONNECTION_ID(), its_kind, its_place);
       SELECT x, token, kind INTO n, last_token, last_kind FROM boards WHERE place = its_place;
       UPDATE boards SET x = n + 1 WHERE place = its_place;
       DO SLEEP(0.002);
       SELECT y INTO y_seen FROM boards WHERE place = its_place;
       SELECT SUM(place = its_place), COUNT(DISTINCT kind) INTO at_board, kinds_now FROM inside;
       UPDATE boards SET y = n + 1, token = its_token, kind = its_kind WHERE place = its_place;
       DELETE FROM inside WHERE id = CONNECTION_ID();
       CALL count_it(its_kind, its_what, y_seen <> n OR at_board > 1, last_token >= its_token, last_kind <> its_kind, kinds_now);
   END;

# Those in SQL
a> CREATE PROCEDURE take(what VARCHAR(10), OUT token BIGINT UNSIGNED, OUT slot BIGINT UNSIGNED, OUT reader VARCHAR(63))
   CASE what
       WHEN 'reads' THEN CALL rowlock_acquire_shared('one', 30, 60, token, reader);
       WHEN 'writes' THEN CALL rowlock_acquire('one', 30, 60, token);
       WHEN 'alone' THEN CALL rowlock_acquire('two', 30, 60, token);
       ELSE CALL rowlock_acquire_slot('some', 2, 30, 60, slot, token);
   END CASE;
a> CREATE PROCEDURE give_back(what VARCHAR(10), token BIGINT UNSIGNED, slot BIGINT UNSIGNED, reader VARCHAR(63))
   CASE what
       WHEN 'reads' THEN CALL rowlock_release_shared('one', reader);
       WHEN 'writes' THEN CALL rowlock_release('one', token);
       WHEN 'alone' THEN CALL rowlock_release('two', token);
       ELSE CALL rowlock_release(CONCAT('some#', slot), token);
   END CASE;
a> CREATE PROCEDURE take_turns(its_kind VARCHAR(10), what VARCHAR(10), locked BOOLEAN)
   BEGIN
       DECLARE token, slot BIGINT UNSIGNED DEFAULT 0;
       DECLARE reader VARCHAR(63);
       REPEAT
           IF locked THEN
               CALL take(what, token, slot, reader);
           END IF;
           IF what = 'reads' THEN
               CALL read_section(its_kind, token);
           ELSE
               CALL write_section(its_kind, what, token, IF(what = 'slots', slot, -1));
           END IF;
           IF locked THEN
               CALL give_back(what, token, slot, reader);
           END IF;
       UNTIL NOT (SELECT more FROM goal) END REPEAT;
   END;

# Without a lock
login b as app
login d as app
a> INSERT INTO done (kind, what) VALUES ('b', 'reads'), ('d', 'writes'), ('e', 'slots'), ('f', 'slots');
b& CALL take_turns('b', 'reads', FALSE);
d& CALL take_turns('d', 'writes', FALSE);
e& CALL take_turns('e', 'slots', FALSE);
f& CALL take_turns('f', 'slots', FALSE);
b<
d<
e<
f<
a> SELECT kind, what, torn > 0 FROM done ORDER BY kind;
= b | reads | 1
= d | writes | 1
= e | slots | 1
= f | slots | 1
a> DELETE FROM done;
a> UPDATE boards SET x = 0, y = 0, token = 0, kind = '';

# Readers and writers
a> INSERT INTO done (kind, what, wanted) VALUES ('c', 'reads', 5), ('c', 'writes', 5), ('shell', 'reads', 5),
       ('shell', 'writes', 5), ('sql', 'reads', 5), ('sql', 'writes', 5);
b& CALL take_turns('sql', 'reads', TRUE);
d& CALL take_turns('sql', 'writes', TRUE);
cr$& contend one shared "CALL read_section('c', @token)"
cw$& contend one alone "CALL write_section('c', 'writes', @token, -1)"
sr$& while [ "$(rowlock run --shared -w 60 one -- sh -c 'mariadb --no-defaults -uroot -S "$ROWLOCK_TEST_SOCKET" {schema} -BNe "
         CALL read_section(\"shell\", $ROWLOCK_TOKEN); SELECT more FROM goal"')" = 1 ]; do :; done
sw$& while [ "$(rowlock run -w 60 one -- sh -c 'mariadb --no-defaults -uroot -S "$ROWLOCK_TEST_SOCKET" {schema} -BNe "
         CALL write_section(\"shell\", \"writes\", $ROWLOCK_TOKEN, -1); SELECT more FROM goal"')" = 1 ]; do :; done
b<
d<
cr<
cw<
sr<
sw<
a> SELECT kind, what, sections >= 30, torn, out_of_order, mixed >= 5 FROM done ORDER BY kind, what;
= c | reads | 1 | 0 | 0 | 1
= c | writes | 1 | 0 | 0 | 1
= shell | reads | 1 | 0 | 0 | 1
= shell | writes | 1 | 0 | 0 | 1
= sql | reads | 1 | 0 | 0 | 1
= sql | writes | 1 | 0 | 0 | 1
# Not one is lost; and readers of several kinds were in together.
a> SELECT x = y, x = (SELECT SUM(sections) FROM done WHERE what = 'writes') FROM boards WHERE place = -1;
= 1 | 1
a> SELECT MAX(kinds) > 1 FROM done WHERE what = 'reads';
= 1

# Writers alone, of a name that no reader ever has
a> UPDATE boards SET x = 0, y = 0, token = 0, kind = '' WHERE place = -1;
a> INSERT INTO done (kind, what, wanted) VALUES ('c', 'alone', 5), ('shell', 'alone', 5), ('sql', 'alone', 5);
b& CALL take_turns('sql', 'alone', TRUE);
d& CALL take_turns('sql', 'alone', TRUE);
cw$& contend two alone "CALL write_section('c', 'alone', @token, -1)"
sw$& while [ "$(rowlock run -w 60 two -- sh -c 'mariadb --no-defaults -uroot -S "$ROWLOCK_TEST_SOCKET" {schema} -BNe "
         CALL write_section(\"shell\", \"alone\", $ROWLOCK_TOKEN, -1); SELECT more FROM goal"')" = 1 ]; do :; done
b<
d<
cw<
sw<
a> SELECT kind, sections >= 30, torn, out_of_order, mixed >= 5 FROM done WHERE what = 'alone' ORDER BY kind;
= c | 1 | 0 | 0 | 1
= shell | 1 | 0 | 0 | 1
= sql | 1 | 0 | 0 | 1
a> SELECT x = y, x = (SELECT SUM(sections) FROM done WHERE what = 'alone') FROM boards WHERE place = -1;
= 1 | 1

# Slots: never two in one, and never one more in than there are, since the boards are as many.
a> INSERT INTO done (kind, what, wanted) VALUES ('c', 'slots', 5), ('shell', 'slots', 5), ('sql', 'slots', 5);
b& CALL take_turns('sql', 'slots', TRUE);
d& CALL take_turns('sql', 'slots', TRUE);
cr$& contend some 2 "CALL write_section('c', 'slots', @token, @slot)"
sr$& while [ "$(rowlock run --slots=2 -w 60 some -- sh -c 'mariadb --no-defaults -uroot -S "$ROWLOCK_TEST_SOCKET" {schema} -BNe "
         CALL write_section(\"shell\", \"slots\", $ROWLOCK_TOKEN, $ROWLOCK_SLOT); SELECT more FROM goal"')" = 1 ]; do :; done
sw$& while [ "$(rowlock run --slots=2 -w 60 some -- sh -c 'mariadb --no-defaults -uroot -S "$ROWLOCK_TEST_SOCKET" {schema} -BNe "
         CALL write_section(\"shell\", \"slots\", $ROWLOCK_TOKEN, $ROWLOCK_SLOT); SELECT more FROM goal"')" = 1 ]; do :; done
b<
d<
cr<
sr<
sw<
a> SELECT kind, sections >= 30, torn, out_of_order, mixed >= 5 FROM done WHERE what = 'slots' ORDER BY kind;
= c | 1 | 0 | 0 | 1
= shell | 1 | 0 | 0 | 1
= sql | 1 | 0 | 0 | 1
a> SELECT SUM(x) = SUM(y), SUM(x) = (SELECT SUM(sections) FROM done WHERE what = 'slots'), MIN(x) > 0
     FROM boards WHERE place >= 0;
= 1 | 1 | 1
# Both were taken at once, by different kinds.
a> SELECT MAX(kinds) FROM done WHERE what = 'slots';
= 2
