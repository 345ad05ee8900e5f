# Queues in SQL: put, also inside a transaction and a trigger, taken, ended. What the library and the shell make of the same ones is in
# queue_contenders.sql.
user app
user stranger
mask /item [0-9]+ of/item N of/
login app as app
login stranger as stranger
a> GRANT EXECUTE ON {schema}.* TO {app};
a> GRANT EXECUTE ON {schema}.* TO {stranger};
a> CREATE VIEW items AS SELECT i.id, r.resource_name AS name, i.state, i.taken, i.token, i.attempts, i.last_error, i.payload, i.group_key
     FROM queue_item i JOIN resource r ON r.id = i.queue_id;

# Put, taken, done.
a> CALL rowlock_queue_put('x', 'one', NULL, NULL, NULL, NULL, NULL, @one);
a> CALL rowlock_queue_put('x', X'00FF0A', NULL, NULL, NULL, NULL, NULL, @two);
b> CALL rowlock_queue_take('x', 30, 0, @id, @t, @n, @k, @p);
a> SELECT MIN(id) = @one, MAX(id) = @two FROM items WHERE name = 'x';
= 1 | 1
b> SELECT @t, @n, @k, @p;
= 1 | 1 |  | one
d> CALL rowlock_queue_take('x', 30, 0, @id, @t, @n, @k, @p);
d> SELECT @t, @n, @k, HEX(@p);
= 1 | 1 |  | 00FF0A
e> CALL rowlock_queue_take('x', 30, 0, @id, @t, @n, @k, @p);
e> SELECT @id, @t, @n, @k, @p;
= NULL | NULL | NULL | NULL | NULL
a> CALL rowlock_queue_status('x');
= 2 | 0 | 2 | 0 | 0 | 0 | NULL
b> CALL rowlock_queue_done('x', @id, @t);
d> CALL rowlock_queue_done('x', @id, @t);
a> SELECT COUNT(*) FROM items;
= 0
b> CALL rowlock_queue_done('x', @id, @t);
= ERROR RLLST: item N of 'x' is not held with token 1 (any more)

# The highest priority first, then the order in which they were put; one that is delayed is not there yet.
a> CALL rowlock_queue_put('order', 'low', NULL, NULL, NULL, NULL, NULL, @id);
a> CALL rowlock_queue_put('order', 'later', 3600, NULL, 9, NULL, NULL, @id);
a> CALL rowlock_queue_put('order', 'high', 0, NULL, 9, NULL, NULL, @id);
a> CALL rowlock_queue_put('order', 'high too', NULL, NULL, 9, NULL, NULL, @id);
a> CREATE PROCEDURE take_all(its_name VARCHAR(20), OUT all_of_it TEXT)
   BEGIN
       DECLARE item, token BIGINT UNSIGNED;
       SET all_of_it = '';
       REPEAT
           CALL rowlock_queue_take(its_name, 60, 0, item, token, @n, @k, @p);
           IF item IS NOT NULL THEN
               SET all_of_it = CONCAT(all_of_it, @p, ' ');
               CALL rowlock_queue_done(its_name, item, token);
           END IF;
       UNTIL item IS NULL END REPEAT;
   END;
a> CALL take_all('order', @all);
a> SELECT @all;
= high high too low 
a> CALL rowlock_queue_status('order');
= 1 | 0 | 0 | 1 | 0 | 0 | NULL
a> UPDATE queue_item SET ready_at = UTC_TIMESTAMP(6) - INTERVAL 90 SECOND;
a> SELECT SUM(ready), SUM(later) FROM (SELECT state = 'alive' AND ready_at <= UTC_TIMESTAMP(6) AS ready, 0 AS later FROM queue_item) x;
= 1 | 0
a> CALL take_all('order', @all);
a> SELECT @all;
= later 

# A key is there once, until its item is done or dead.
a> CALL rowlock_queue_put('keys', 'one', NULL, 'k', NULL, NULL, NULL, @one);
a> CALL rowlock_queue_put('keys', 'two', NULL, 'k', NULL, NULL, NULL, @two);
a> CALL rowlock_queue_put('keys', 'other', NULL, 'K', NULL, NULL, NULL, @three);
a> SELECT @one = @two, @one = @three;
= 1 | 0
a> CALL rowlock_queue_take('keys', 60, 0, @id, @t, @n, @k, @p);
a> SELECT @id = @one, @k, @p;
= 1 | k | one
a> CALL rowlock_queue_put('keys', 'while it is in flight', NULL, 'k', NULL, NULL, NULL, @four);
a> SELECT @one = @four;
= 1
a> CALL rowlock_queue_dead('keys', @id, @t, 'no');
a> CALL rowlock_queue_put('keys', 'anew', NULL, 'k', NULL, NULL, NULL, @five);
a> SELECT @one = @five, COUNT(*) FROM items WHERE name = 'keys';
= 0 | 3

# Retried, in its own time; dead when its attempts are used up, or its worker was lost so often.
a> CALL rowlock_queue_put('retry', 'x', NULL, NULL, NULL, NULL, 2, @id);
a> CALL rowlock_queue_take('retry', 60, 0, @id, @t, @n, @k, @p);
a> CALL rowlock_queue_retry('retry', @id, @t, 3600, REPEAT('why', 1000));
a> SELECT state, taken, attempts, LENGTH(last_error) FROM items WHERE name = 'retry';
= alive | 0 | 1 | 1000
a> CALL rowlock_queue_take('retry', 60, 0, @none, @t2, @n, @k, @p);
a> SELECT @none;
= NULL
a> UPDATE queue_item SET ready_at = UTC_TIMESTAMP(6) WHERE id = @id;
a> CALL rowlock_queue_take('retry', 60, 0, @id, @t, @n, @k, @p);
a> SELECT @t, @n;
= 2 | 2
a> CALL rowlock_queue_retry('retry', @id, @t, 0, 'again');
a> SELECT state, attempts, last_error FROM items WHERE name = 'retry';
= dead | 2 | again
a> CALL rowlock_queue_put('crash', 'x', NULL, NULL, NULL, NULL, 1, @id);
a> CALL rowlock_queue_put('crash', 'next', NULL, NULL, NULL, NULL, 1, @next);
a> CALL rowlock_queue_take('crash', 60, 0, @id, @t, @n, @k, @p);
a> UPDATE queue_item SET ready_at = UTC_TIMESTAMP(6) WHERE id = @id;
a> UPDATE queue_item SET ready_at = UTC_TIMESTAMP(6) + INTERVAL 1 HOUR WHERE id = @next;
a> CALL rowlock_queue_status('crash');
= 1 | 0 | 0 | 1 | 0 | 1 | NULL
a> UPDATE queue_item SET ready_at = UTC_TIMESTAMP(6) WHERE id = @next;
b> CALL rowlock_queue_take('crash', 60, 0, @id, @t, @n, @k, @p);
b> SELECT @p;
= next
b> CALL rowlock_queue_take('crash', 60, 0, @id, @t, @n, @k, @p);
b> SELECT @id;
= NULL
a> SELECT state, last_error FROM items WHERE name = 'crash' ORDER BY id LIMIT 1;
= dead | its attempts are used up
# The delay that is not given: a second, doubled, of which at least a half.
a> CALL rowlock_queue_put('backoff', 'x', NULL, NULL, NULL, NULL, 1000, @id);
a> CREATE PROCEDURE backoff(its_attempts INT, OUT left_us BIGINT)
   BEGIN
       UPDATE queue_item SET ready_at = UTC_TIMESTAMP(6), attempts = its_attempts - 1 WHERE id = @id;
       CALL rowlock_queue_take('backoff', 60, 0, @id, @t, @n, @k, @p);
       CALL rowlock_queue_retry('backoff', @id, @t, NULL, NULL);
       SELECT TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), ready_at) INTO left_us FROM queue_item WHERE id = @id;
   END;
a> CALL backoff(1, @first);
a> CALL backoff(10, @tenth);
a> CALL backoff(500, @last);
a> SELECT @first BETWEEN -2000000 AND 1000000, @tenth BETWEEN 200000000 AND 512000000, @last BETWEEN 1700000000 AND 3600000000;
= 1 | 1 | 1

# A lease that ended: delivered again, and the old token ends nothing any more.
a> CALL rowlock_queue_put('lease', 'x', NULL, NULL, NULL, NULL, NULL, @id);
a> CALL rowlock_queue_take('lease', 0.5, 0, @id, @t, @n, @k, @p);
b> CALL rowlock_queue_take('lease', 60, 30, @id, @t, @n, @k, @p);
b> SELECT @t, @n;
= 2 | 2
a> CALL rowlock_queue_done('lease', @id, @t);
= ERROR RLLST: item N of 'lease' is not held with token 1 (any more)
a> CALL rowlock_queue_retry('lease', @id, @t, 1, '');
= ERROR RLLST: item N of 'lease' is not held with token 1 (any more)
a> CALL rowlock_queue_extend('lease', @id, @t, 60);
= ERROR RLLST: item N of 'lease' is not held with token 1 (any more)
a> CALL rowlock_queue_dead('lease', @id, @t, '');
= ERROR RLLST: item N of 'lease' is not held with token 1 (any more)
b> CALL rowlock_queue_extend('lease', @id, @t, 3600);
# Not shorter than it was.
b> CALL rowlock_queue_extend('lease', @id, @t, 60);
a> SELECT ready_at > UTC_TIMESTAMP(6) + INTERVAL 1000 SECOND FROM queue_item WHERE id = @id;
= 1
# Its time is over, but no other worker has taken it.
a> UPDATE queue_item SET ready_at = UTC_TIMESTAMP(6) WHERE id = @id;
b> CALL rowlock_queue_extend('lease', @id, @t, 3600);
= ERROR RLLST: item N of 'lease' is not held with token 2 (any more)
b> CALL rowlock_queue_done('lease', @id, @t);

# A login cannot end another login's item, nor one by another queue's name.
app> CALL {schema}.rowlock_queue_put('mine', 'x', NULL, NULL, NULL, NULL, NULL, @id);
app> CALL {schema}.rowlock_queue_take('mine', 60, 0, @id, @t, @n, @k, @p);
a> CREATE PROCEDURE its_id(OUT id BIGINT UNSIGNED) SELECT i.id INTO id FROM items i WHERE name = 'mine';
stranger> CALL {schema}.its_id(@id);
stranger> CALL {schema}.rowlock_queue_done('mine', @id, 1);
= ERROR RLLST: item N of 'mine' is not held with token 1 (any more)
app> CALL {schema}.rowlock_queue_done('lease', @id, @t);
= ERROR RLLST: item N of 'lease' is not held with token 1 (any more)
app> CALL {schema}.rowlock_queue_done('mine', @id, @t);

# In a transaction: put and done commit with the rows, or not at all.
a> CREATE TABLE paid (id INT PRIMARY KEY) ENGINE = InnoDB;
a> CALL rowlock_queue_make('outbox');
a> CALL rowlock_queue_make('outbox');
a> START TRANSACTION;
a> INSERT INTO paid VALUES (1);
a> CALL rowlock_queue_put('outbox', 'one', NULL, NULL, NULL, NULL, NULL, @id);
b> CALL take_all('outbox', @all);
b> SELECT @all;
= 
a> ROLLBACK;
b> CALL take_all('outbox', @all);
b> SELECT @all, COUNT(*) FROM paid;
=  | 0
a> START TRANSACTION;
a> INSERT INTO paid VALUES (1);
a> CALL rowlock_queue_put('outbox', 'one', NULL, NULL, NULL, NULL, NULL, @id);
a> CALL rowlock_queue_put('outbox', 'two', NULL, NULL, NULL, 'g', NULL, @id);
a> CALL rowlock_queue_put('outbox', 'three', NULL, NULL, NULL, 'g', NULL, @id);
a> COMMIT;
b> CALL rowlock_queue_take('outbox', 60, 0, @id, @t, @n, @k, @p);
b> START TRANSACTION;
b> INSERT INTO paid VALUES (2);
b> CALL rowlock_queue_done('outbox', @id, @t);
b> ROLLBACK;
b> START TRANSACTION;
b> INSERT INTO paid VALUES (3);
b> CALL rowlock_queue_done('outbox', @id, @t);
b> CALL rowlock_queue_done('outbox', @id, @t);
= ERROR RLLST: item N of 'outbox' is not held with token 1 (any more)
b> COMMIT;
b> SELECT GROUP_CONCAT(id ORDER BY id) FROM paid;
= 1,3
a> CALL take_all('outbox', @all);
a> SELECT @all;
= two three 
a> SELECT COUNT(*) FROM queue_group;
= 0
# With autocommit=0 it is the caller's transaction, too; and it begins with it.
a> SET autocommit = 0;
a> CALL rowlock_queue_put('outbox', 'one', NULL, NULL, NULL, NULL, NULL, @id);
a> ROLLBACK;
a> SET autocommit = 1;
a> SELECT COUNT(*) FROM items WHERE name = 'outbox';
= 0
# What commits by itself leaves none open.
a> CALL rowlock_queue_put('outbox', 'long', NULL, NULL, NULL, NULL, NULL, @id);
a> SET autocommit = 0;
a> CALL rowlock_queue_take('outbox', 60, 0, @id, @t, @n, @k, @p);
a> CALL rowlock_queue_extend('outbox', @id, @t, 3000);
a> CALL rowlock_queue_extend('outbox', @id, @t, 3600);
a> ROLLBACK;
a> SELECT ready_at > UTC_TIMESTAMP() + INTERVAL 3500 SECOND FROM queue_item WHERE id = @id;
= 1
a> CALL rowlock_queue_done('outbox', @id, @t);
a> COMMIT;
a> SET autocommit = 1;
# It is refused in one.
a> START TRANSACTION;
a> CALL rowlock_queue_take('outbox', 60, 0, @id, @t, @n, @k, @p);
= ERROR RLTXN: taking an item of 'outbox' is a transaction of its own; COMMIT or ROLLBACK yours first
a> CALL rowlock_queue_extend('outbox', 1, 1, 60);
= ERROR RLTXN: extending an item of 'outbox' is a transaction of its own; COMMIT or ROLLBACK yours first
a> CALL rowlock_queue_make('outbox');
= ERROR RLTXN: making 'outbox' is a transaction of its own; COMMIT or ROLLBACK yours first
a> CALL rowlock_queue_put('new one', 'x', NULL, NULL, NULL, NULL, NULL, @id);
= ERROR RLNOF: there is no queue 'new one'; rowlock_queue_make makes it
a> ROLLBACK;
# An old snapshot does not hide a queue, and nothing is locked by what was refused. (innodb_snapshot_isolation ends such a transaction.)
a> SET @x = 1 /*M! , SESSION innodb_snapshot_isolation = OFF */;
a> SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ;
a> START TRANSACTION WITH CONSISTENT SNAPSHOT;
b> CALL rowlock_queue_make('young');
a> CALL rowlock_queue_put('young', 'x', NULL, NULL, NULL, NULL, NULL, @id);
a> COMMIT;
a> SELECT payload FROM items WHERE name = 'young';
= x
a> SET @x = 1 /*M! , SESSION innodb_snapshot_isolation = ON */;
# With READ COMMITTED, puts and ends work on every server, whatever was renewed, put and made since the transaction began.
a> SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED;
a> CALL rowlock_queue_take('young', 60, 0, @id, @t, @n, @k, @p);
a> START TRANSACTION;
a> SELECT COUNT(*) FROM items WHERE name = 'young';
= 1
b> UPDATE queue_item SET ready_at = ready_at + INTERVAL 1 SECOND WHERE taken = 1;
b> CALL rowlock_queue_make('younger');
b> CALL rowlock_queue_put('young', 'first', NULL, NULL, NULL, 'g', NULL, @id);
b> CALL rowlock_queue_put('young', 'its key', NULL, 'k', NULL, NULL, NULL, @id);
a> CALL rowlock_queue_put('young', 'second', NULL, NULL, NULL, 'g', NULL, @other);
a> CALL rowlock_queue_put('young', 'not put', NULL, 'k', NULL, NULL, NULL, @other);
a> CALL rowlock_queue_put('younger', 'x', NULL, NULL, NULL, NULL, NULL, @other);
a> CALL rowlock_queue_done('young', @id, @t);
a> COMMIT;
a> SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ;
a> CALL take_all('young', @all);
a> SELECT @all;
= first its key second 

# A trigger that puts: no implicit commit, no result set, and the caller's LAST_INSERT_ID() stays.
a> CREATE TABLE orders (id INT PRIMARY KEY AUTO_INCREMENT, what VARCHAR(20) NOT NULL) ENGINE = InnoDB;
a> CREATE TRIGGER orders_out AFTER INSERT ON orders FOR EACH ROW
       CALL rowlock_queue_put('outbox', CONCAT('order ', NEW.id, ': ', NEW.what), NULL, CONCAT('order ', NEW.id), NULL, 'orders', NULL, @its_item);
a> CREATE FUNCTION put_it(its_payload VARCHAR(20)) RETURNS BIGINT UNSIGNED MODIFIES SQL DATA
   BEGIN
       DECLARE item BIGINT UNSIGNED;
       CALL rowlock_queue_put('outbox', its_payload, NULL, NULL, NULL, NULL, NULL, item);
       RETURN item;
   END;
a> INSERT INTO orders (what) VALUES ('tea'), ('milk');
a> SELECT LAST_INSERT_ID();
= 1
a> START TRANSACTION;
a> INSERT INTO orders (what) VALUES ('sand');
a> ROLLBACK;
a> SELECT put_it('by a function') > 0;
= 1
a> CALL take_all('outbox', @all);
a> SELECT @all;
= order 1: tea order 2: milk by a function 
# A row that cannot be put is not inserted either.
a> CREATE TRIGGER orders_new AFTER UPDATE ON orders FOR EACH ROW
       CALL rowlock_queue_put('not made', NEW.what, NULL, NULL, NULL, NULL, NULL, @its_item);
a> UPDATE orders SET what = 'coffee';
= ERROR RLNOF: there is no queue 'not made'; rowlock_queue_make makes it
a> SELECT GROUP_CONCAT(what ORDER BY id) FROM orders;
= tea,milk

# A group: one at a time, in its order; another group goes on beside it.
a> CALL rowlock_queue_put('groups', 'a1', NULL, NULL, NULL, 'a', NULL, @id);
a> CALL rowlock_queue_put('groups', 'a2', NULL, NULL, 9, 'a', NULL, @id);
a> CALL rowlock_queue_put('groups', 'b1', NULL, NULL, NULL, 'b', NULL, @id);
a> CALL rowlock_queue_take('groups', 60, 0, @a, @ta, @n, @k, @p);
b> CALL rowlock_queue_take('groups', 60, 0, @b, @tb, @n, @k, @q);
d> CALL rowlock_queue_take('groups', 60, 0, @d, @td, @n, @k, @p);
a> SELECT @p;
= a1
b> SELECT @q;
= b1
d> SELECT @d;
= NULL
# It is retried before the next one.
a> CALL rowlock_queue_retry('groups', @a, @ta, 0, '');
a> CALL rowlock_queue_take('groups', 60, 0, @a, @ta, @n, @k, @p);
a> SELECT @p, @n;
= a1 | 2
a> CALL rowlock_queue_dead('groups', @a, @ta, 'no');
a> CALL take_all('groups', @all);
a> SELECT @all;
= a2 

# A transaction that puts has locked the group: a session that ends an item of it does not wait for ever.
a> CALL rowlock_queue_put('groups', 'b2', NULL, NULL, NULL, 'b', NULL, @id);
a> START TRANSACTION;
a> CALL rowlock_queue_put('groups', 'b3', NULL, NULL, NULL, 'b', NULL, @id);
b> SET SESSION innodb_lock_wait_timeout = 1;
b> CALL rowlock_queue_done('groups', @b, @tb);
= ERROR RLBSY: the group of item N of 'groups' is in use by a transaction; try again later
# In a transaction of its own, too, which has lost nothing; nor when it is killed while it waits.
b> START TRANSACTION;
b> CALL rowlock_queue_done('groups', @b, @tb);
= ERROR RLBSY: item N of 'groups' or its group is in use by a transaction; try again later
b> CALL rowlock_queue_put('groups', 'no', NULL, NULL, NULL, 'b', NULL, @id);
= ERROR RLBSY: 'groups': a transaction has locked the same key or group; try again later
b> SET SESSION innodb_lock_wait_timeout = DEFAULT;
b& CALL rowlock_queue_done('groups', @b, @tb);
until b waits
a> KILL QUERY {b.id};
b<
= ERROR 70100 (1317)
b> COMMIT;
a> COMMIT;
b> CALL rowlock_queue_done('groups', @b, @tb);
a> CALL take_all('groups', @all);
a> SELECT @all;
= b2 b3 
# Nor does one that takes, behind an item of it whose attempts are used up: that is left alone for a TTL.
a> CALL rowlock_queue_put('lost', 'last', NULL, NULL, NULL, 'g', 1, @last);
a> CALL rowlock_queue_put('lost', 'behind', NULL, NULL, NULL, 'g', NULL, @id);
a> CALL rowlock_queue_put('lost', 'other', NULL, NULL, NULL, NULL, NULL, @id);
a> CALL rowlock_queue_take('lost', 60, 0, @id, @t, @n, @k, @p);
a> UPDATE queue_item SET ready_at = UTC_TIMESTAMP(6) - INTERVAL 1 HOUR WHERE id = @last;
a> START TRANSACTION;
a> CALL rowlock_queue_put('lost', 'new', NULL, NULL, NULL, 'g', NULL, @id);
b> SET SESSION innodb_lock_wait_timeout = 1;
b> CALL rowlock_queue_take('lost', 60, 0, @id, @t, @n, @k, @p);
b> SELECT @p;
= other
b> CALL rowlock_queue_take('lost', 60, 0, @id, @t, @n, @k, @p);
b> SELECT @id;
= NULL
b> SET SESSION innodb_lock_wait_timeout = DEFAULT;
a> COMMIT;
a> UPDATE queue_item SET ready_at = UTC_TIMESTAMP(6) WHERE id = @last;
b> CALL rowlock_queue_take('lost', 60, 0, @id, @t, @n, @k, @p);
b> SELECT @p;
= behind
a> SELECT state, attempts, last_error FROM items WHERE name = 'lost' ORDER BY id LIMIT 1;
= dead | 1 | its attempts are used up

# Who waits is there when an item comes, and goes one after the other.
b& CALL rowlock_queue_take('wait', 60, NULL, @id, @t, @n, @k, @p);
d& CALL rowlock_queue_take('wait', 60, 60, @id, @t, @n, @k, @p);
until 2 wait
a> CALL rowlock_queue_put('wait', 'one', NULL, NULL, NULL, NULL, NULL, @id);
a> CALL rowlock_queue_put('wait', 'two', 0.5, NULL, NULL, NULL, NULL, @id);
b<
d<
a> SELECT COUNT(*), SUM(taken), SUM(attempts) FROM items WHERE name = 'wait';
= 2 | 2 | 2
e> CALL rowlock_queue_take('wait', 60, 1.2, @id, @t, @n, @k, @p);
e> SELECT @id;
= NULL
# What is ready, and locked for long, is not looked at all the time.
a> CALL rowlock_queue_put('locked', 'x', NULL, NULL, NULL, NULL, NULL, @id);
a> START TRANSACTION;
a> SELECT state FROM queue_item WHERE id = @id FOR UPDATE;
= alive
f> CALL rowlock_queue_take('locked', 60, 2, @id, @t, @n, @k, @p);
mask /Com_commit \| [0-9]{1,3}$/Com_commit | fewer than 1000/
f> SHOW SESSION STATUS LIKE 'Com_commit';
= Com_commit | fewer than 1000
a> ROLLBACK;

# A waiter that is killed has taken nothing, and lets the next one go on.
b& CALL rowlock_queue_take('wait', 60, NULL, @id, @t, @n, @k, @p);
until b waits
d& CALL rowlock_queue_take('wait', 60, NULL, @id, @t, @n, @k, @p);
until d waits
stop b
b<
= ERROR 70100 (1317)
a> CALL rowlock_queue_put('wait', 'three', NULL, NULL, NULL, NULL, NULL, @id);
d<
d> SELECT @p;
= three
until 0 wait

# Bad input changes nothing.
a> SELECT COUNT(*) INTO @before FROM queue_item;
a> CALL rowlock_queue_put('', 'x', NULL, NULL, NULL, NULL, NULL, @id);
= ERROR RLINV: the lock's name is empty or NULL; give one of 1 to 255 characters
a> CALL rowlock_queue_put('x', REPEAT('x', 1048577), NULL, NULL, NULL, NULL, NULL, @id);
= ERROR RLINV: the payload for 'x' has 1048577 bytes; 1048576 at most
a> CALL rowlock_queue_put('x', 'x', -1, NULL, NULL, NULL, NULL, @id);
= ERROR RLINV: the delay for 'x' is 0 to 315360000 seconds, not -1
a> CALL rowlock_queue_put('x', 'x', 315360001, NULL, NULL, NULL, NULL, @id);
= ERROR RLINV: the delay for 'x' is 0 to 315360000 seconds, not 315360001
a> CALL rowlock_queue_put('x', 'x', NULL, '', NULL, NULL, NULL, @id);
= ERROR RLINV: the key for 'x' is not valid: 1 to 255 characters, no control ones, no white space around
a> CALL rowlock_queue_put('x', 'x', NULL, REPEAT('k', 256), NULL, NULL, NULL, @id);
= ERROR RLINV: the key for 'x' is not valid: 1 to 255 characters, no control ones, no white space around
a> CALL rowlock_queue_put('x', 'x', NULL, NULL, NULL, ' g', NULL, @id);
= ERROR RLINV: the group for 'x' is not valid: 1 to 255 characters, no control ones, no white space around
a> CALL rowlock_queue_put('x', 'x', NULL, NULL, 10, NULL, NULL, @id);
= ERROR RLINV: the priority for 'x' is 0 to 9, not 10
a> CALL rowlock_queue_put('x', 'x', NULL, NULL, 0.5, NULL, NULL, @id);
= ERROR RLINV: the priority for 'x' is 0 to 9, not 0.5
a> CALL rowlock_queue_put('x', 'x', NULL, NULL, NULL, NULL, 0, @id);
= ERROR RLINV: an item of 'x' cannot have 0 attempts; give 1 to 1000000
a> CALL rowlock_queue_take('x', 0.4, 0, @id, @t, @n, @k, @p);
= ERROR RLINV: the TTL for 'x' is 0.4; give 0.5 to 86400 seconds
a> CALL rowlock_queue_done('x', NULL, 1);
= ERROR RLINV: the id for 'x' is not a whole number of 64 bits (NULL); give the one that you got
a> CALL rowlock_queue_done('x', 1, 1.5);
= ERROR RLINV: the token for 'x' is not a whole number of 64 bits; give the one that you got
a> CALL rowlock_queue_retry('x', 1, 1, -1, '');
= ERROR RLINV: the delay for 'x' is 0 to 315360000 seconds, not -1
a> CALL rowlock_queue_status('no such');
= ERROR RLNOF: there is no queue 'no such'; rowlock_queue_make makes it
a> CALL rowlock_try('lease lock', 60, @t);
a> CALL rowlock_queue_put('lease lock', 'x', NULL, NULL, NULL, NULL, NULL, @id);
= ERROR RLMOD: 'lease lock' is a lock (lease); it cannot be a queue too; use another name
a> CALL rowlock_queue_take('lease lock', 60, 0, @id, @t, @n, @k, @p);
= ERROR RLMOD: 'lease lock' is a lock (lease); it cannot be a queue too; use another name
a> CALL rowlock_try('x', 60, @t);
= ERROR RLMOD: 'x' is a queue; it cannot be a lock (lease) too; use another name
a> SELECT COUNT(*) = @before FROM queue_item;
= 1

# In a transaction at REPEATABLE READ, the end of the only item of its group keeps only puts into that group waiting.
b> CALL rowlock_queue_put('steps', 'x', NULL, NULL, NULL, 'g', NULL, @id);
b> CALL rowlock_queue_take('steps', 60, 0, @id, @t, @n, @k, @p);
b> START TRANSACTION;
b> CALL rowlock_queue_done('steps', @id, @t);
d> SET SESSION innodb_lock_wait_timeout = 2;
d> CALL rowlock_queue_put('steps', 'y', NULL, NULL, NULL, 'h', NULL, @id);
d> CALL rowlock_queue_put('steps later', 'y', NULL, NULL, NULL, 'a', NULL, @id);
b> COMMIT;
mask /[|] [0-9]+[.][0-9]+$/| N/
d> CALL rowlock_queue_status('steps');
= 1 | 1 | 0 | 0 | 0 | 0 | N

# Who looks at a queue locks nothing.
d> SET autocommit = 0;
d> CALL rowlock_queue_status('steps later');
= 1 | 1 | 0 | 0 | 0 | 0 | N
a> SELECT COUNT(*) FROM (SELECT id FROM resource WHERE resource_name = 'steps later' FOR UPDATE NOWAIT) x;
= 1
d> ROLLBACK;
