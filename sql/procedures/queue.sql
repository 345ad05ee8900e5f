-- Queues: what src/kind/queue_*.c do. A session has no thread that renews: a caller that takes an item has it until its TTL is over,
-- unless it extends it. An item that the library or the command has taken can be ended here by its id and token; one that a session has
-- taken, only by a session of the same login.

-- Makes a queue, which a put in a transaction cannot.
CREATE PROCEDURE rowlock_queue_make(IN p_name LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin)
BEGIN
    DECLARE v_id BIGINT UNSIGNED;
    CALL rl_name_check(p_name);
    CALL rl_alone('making', p_name);
    CALL rl_writable_for(p_name);
    CALL rl_resource_or_busy(p_name, 'queue', NULL, v_id);
END;

-- Puts an item; in a transaction, a function or a trigger it is there when that commits. p_delay: seconds until it is ready;
-- p_key: while an item with this key is there, p_id is that one's; p_priority: 0 to 9, the highest first; p_group: one at a time, in
-- order; p_attempts: how often it may be delivered. All of them may be NULL.
CREATE PROCEDURE rowlock_queue_put(IN p_name LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, IN p_payload LONGBLOB,
                                   IN p_delay DECIMAL(40, 6), IN p_key LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                                   IN p_priority DECIMAL(40, 6), IN p_group LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                                   IN p_attempts DECIMAL(40, 6), OUT p_id BIGINT UNSIGNED)
BEGIN
    DECLARE v_inside BOOLEAN;
    DECLARE v_id, v_delay_us BIGINT UNSIGNED;
    DECLARE v_key VARCHAR(256) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
    CALL rl_name_check(p_name);
    CALL rl_queue_put_check(p_name, p_payload, p_key, p_priority, p_group, p_attempts);
    CALL rl_queue_delay_check(p_name, COALESCE(p_delay, 0), v_delay_us);
    CALL rl_writable_for(p_name);
    CALL rl_joins_for(p_name, v_inside);
    SET v_key = COALESCE(CONCAT('=', p_key), CONCAT('.', LOWER(HEX(RANDOM_BYTES(16)))));
    IF v_inside THEN
        CALL rl_queue_put_inside(p_name, COALESCE(p_payload, ''), v_delay_us, v_key, COALESCE(p_priority, 0), p_group,
                                 COALESCE(p_attempts, 20), v_id);
    ELSE
        CALL rl_resource_or_busy(p_name, 'queue', NULL, v_id);
        CALL rl_queue_put_alone(p_name, COALESCE(p_payload, ''), v_delay_us, v_key, COALESCE(p_priority, 0), p_group,
                                COALESCE(p_attempts, 20), v_id);
    END IF;
    SET p_id = v_id;
END;

-- Takes the item whose turn it is, for so many seconds. p_wait: how long to wait for one; 0 looks once, NULL waits for ever. p_id NULL:
-- none was ready. p_attempt: it is delivered for the first, second, ... time. p_key: '' if it has none.
CREATE PROCEDURE rowlock_queue_take(IN p_name LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, IN p_ttl DECIMAL(40, 6),
                                    IN p_wait DECIMAL(40, 6), OUT p_id BIGINT UNSIGNED, OUT p_token BIGINT UNSIGNED,
                                    OUT p_attempt INT UNSIGNED,
                                    OUT p_key VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, OUT p_payload LONGBLOB)
BEGIN
    DECLARE v_ttl_us, v_id, v_token BIGINT UNSIGNED;
    DECLARE v_attempt INT UNSIGNED;
    DECLARE v_key VARCHAR(256) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
    DECLARE v_payload LONGBLOB;
    CALL rl_name_check(p_name);
    CALL rl_ttl_check(p_name, p_ttl, v_ttl_us);
    CALL rl_alone('taking an item of', p_name);
    CALL rl_writable_for(p_name);
    CALL rl_queue_await(p_name, v_ttl_us, p_wait, v_id, v_token, v_attempt, v_key, v_payload);
    SET p_id = v_id, p_token = v_token, p_attempt = v_attempt, p_key = IF(LEFT(v_key, 1) = '=', SUBSTR(v_key, 2), ''),
        p_payload = v_payload;
    IF v_id IS NULL THEN
        SET p_key = NULL;
    END IF;
END;

-- The item is done, and deleted. In a transaction it is done when that commits.
CREATE PROCEDURE rowlock_queue_done(IN p_name LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                                    IN p_id DECIMAL(40, 6), IN p_token DECIMAL(40, 6))
BEGIN
    CALL rl_queue_end('done', p_name, p_id, p_token, NULL, '');
END;

-- The work has failed: the item is ready again in p_delay seconds (NULL: 1, doubled with each attempt, an hour at most; a part of that is
-- random), or dead if this was its last attempt. p_reason, for people, may be NULL.
CREATE PROCEDURE rowlock_queue_retry(IN p_name LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                                     IN p_id DECIMAL(40, 6), IN p_token DECIMAL(40, 6), IN p_delay DECIMAL(40, 6),
                                     IN p_reason LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin)
BEGIN
    CALL rl_queue_end('retry', p_name, p_id, p_token, p_delay, COALESCE(p_reason, ''));
END;

-- It will never be done: it is dead from now on.
CREATE PROCEDURE rowlock_queue_dead(IN p_name LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                                    IN p_id DECIMAL(40, 6), IN p_token DECIMAL(40, 6),
                                    IN p_reason LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin)
BEGIN
    CALL rl_queue_end('dead', p_name, p_id, p_token, NULL, COALESCE(p_reason, ''));
END;

-- From now on it is held for so many seconds, or as long as before if that is longer.
CREATE PROCEDURE rowlock_queue_extend(IN p_name LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                                      IN p_id DECIMAL(40, 6), IN p_token DECIMAL(40, 6), IN p_ttl DECIMAL(40, 6))
BEGIN
    DECLARE v_item, v_token, v_ttl_us BIGINT UNSIGNED;
    CALL rl_name_check(p_name);
    CALL rl_token_check('id', p_name, p_id, v_item);
    CALL rl_token_check('token', p_name, p_token, v_token);
    CALL rl_ttl_check(p_name, p_ttl, v_ttl_us);
    CALL rl_alone('extending an item of', p_name);
    CALL rl_writable_for(p_name);
    CALL rl_queue_end_alone('extend', p_name, v_item, v_token, v_ttl_us, '');
END;

-- How many items there are, of each kind; oldest: for how many seconds the first ready one has been ready.
CREATE PROCEDURE rowlock_queue_status(IN p_name LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin)
BEGIN
    DECLARE v_now DATETIME(6);
    DECLARE v_id, v_ready, v_in_flight, v_later, v_behind, v_dead BIGINT UNSIGNED;
    DECLARE v_oldest_us, v_next_us BIGINT;
    DECLARE v_kind VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin;
    DECLARE v_some BOOLEAN;
    DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
    CALL rl_name_check(p_name);
    CALL rl_now(v_now);
    SELECT id, kind INTO v_id, v_kind FROM resource WHERE resource_name = p_name;
    CALL rl_queue_kind_check(p_name, v_kind);
    {{queue_count(id = v_id, name = p_name, now = v_now)}}
      INTO v_kind, v_ready, v_in_flight, v_later, v_behind, v_dead, v_oldest_us, v_some, v_next_us;
    SELECT v_ready + v_in_flight + v_later + v_behind AS depth, v_ready AS ready, v_in_flight AS in_flight, v_later AS later,
           v_behind AS behind, v_dead AS dead, IF(v_oldest_us < 0, NULL, v_oldest_us / 1e6) AS oldest;
END;

-- ------------------------------------------------------------------------------------ checks

CREATE PROCEDURE rl_queue_text_check(IN p_name LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                                     IN p_what VARCHAR(16) CHARACTER SET utf8mb4,
                                     IN p_text LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin)
BEGIN
    -- What makes a name makes a key, and a group.
    DECLARE EXIT HANDLER FOR SQLSTATE 'RLINV'
        CALL rl_signal('RLINV', p_name, CONCAT('the ', p_what, ' for %s is not valid: 1 to 255 characters, no control ones, no white space around'));
    IF p_text IS NOT NULL THEN
        CALL rl_name_check(p_text);
    END IF;
END;

CREATE PROCEDURE rl_queue_put_check(IN p_name LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, IN p_payload LONGBLOB,
                                    IN p_key LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, IN p_priority DECIMAL(40, 6),
                                    IN p_group LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, IN p_attempts DECIMAL(40, 6))
BEGIN
    CALL rl_queue_text_check(p_name, 'key', p_key);
    CALL rl_queue_text_check(p_name, 'group', p_group);
    IF LENGTH(p_payload) > 1048576 THEN
        CALL rl_signal('RLINV', p_name, CONCAT('the payload for %s has ', LENGTH(p_payload), ' bytes; 1048576 at most'));
    ELSEIF p_priority < 0 OR p_priority > 9 OR p_priority <> FLOOR(p_priority) THEN
        CALL rl_signal('RLINV', p_name, CONCAT('the priority for %s is 0 to 9, not ', p_priority + 0e0));
    ELSEIF p_attempts < 1 OR p_attempts > 1000000 OR p_attempts <> FLOOR(p_attempts) THEN
        CALL rl_signal('RLINV', p_name, CONCAT('an item of %s cannot have ', p_attempts + 0e0, ' attempts; give 1 to 1000000'));
    END IF;
END;

CREATE PROCEDURE rl_queue_delay_check(IN p_name LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, IN p_delay DECIMAL(40, 6),
                                      OUT p_delay_us BIGINT UNSIGNED)
BEGIN
    IF p_delay < 0 OR p_delay > 315360000 THEN
        CALL rl_signal('RLINV', p_name, CONCAT('the delay for %s is 0 to 315360000 seconds, not ', p_delay + 0e0));
    END IF;
    SET p_delay_us = p_delay * 1000000;
END;

-- The id of a queue that must be there. A locking read: an old snapshot does not show a queue that was made since, and a transaction that
-- has read nothing yet gets its snapshot later.
CREATE PROCEDURE rl_queue_id(IN p_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, OUT p_id BIGINT UNSIGNED)
BEGIN
    DECLARE v_kind VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin;
    DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_kind = NULL;
    SELECT id, kind INTO p_id, v_kind FROM resource WHERE resource_name = p_name LOCK IN SHARE MODE;
    CALL rl_queue_kind_check(p_name, v_kind);
END;

CREATE PROCEDURE rl_queue_kind_check(IN p_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                                     IN p_kind VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin)
BEGIN
    IF p_kind IS NULL THEN
        CALL rl_signal('RLNOF', p_name, 'there is no queue %s; rowlock_queue_make makes it');
    ELSEIF p_kind <> 'queue' THEN
        CALL rl_wrong_kind(p_name, p_kind, 'queue');
    END IF;
END;

-- ------------------------------------------------------------------------------------ put

-- Puts in the caller's transaction. A put that is refused leaves nothing locked: see rl_joined.
CREATE PROCEDURE rl_queue_put_inside(IN p_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, IN p_payload LONGBLOB,
                                     IN p_delay_us BIGINT UNSIGNED, IN p_key VARCHAR(256) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                                     IN p_priority INT UNSIGNED, IN p_group VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                                     IN p_attempts INT UNSIGNED, OUT p_id BIGINT UNSIGNED)
BEGIN
    DECLARE EXIT HANDLER FOR SQLSTATE 'RLNOF', SQLSTATE 'RLMOD', SQLSTATE 'RLBSY'
    BEGIN
        ROLLBACK TO SAVEPOINT rowlock_call;
        RESIGNAL;
    END;
    DECLARE EXIT HANDLER FOR 1205 CALL rl_joined_timeout(p_name, '%s: a transaction has locked the same key or group');
    SAVEPOINT rowlock_call;
    CALL rl_queue_put(p_name, p_payload, p_delay_us, p_key, p_priority, p_group, p_attempts, p_id);
    RELEASE SAVEPOINT rowlock_call;
END;

-- Puts in a transaction of its own, again if that is the victim of a deadlock (20 times at most).
CREATE PROCEDURE rl_queue_put_alone(IN p_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, IN p_payload LONGBLOB,
                                    IN p_delay_us BIGINT UNSIGNED, IN p_key VARCHAR(256) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                                    IN p_priority INT UNSIGNED, IN p_group VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                                    IN p_attempts INT UNSIGNED, OUT p_id BIGINT UNSIGNED)
BEGIN
    DECLARE v_tries INT DEFAULT 0;
    REPEAT
        CALL rl_queue_put_try(p_name, p_payload, p_delay_us, p_key, p_priority, p_group, p_attempts, v_tries, p_id);
    UNTIL p_id IS NOT NULL END REPEAT;
END;

CREATE PROCEDURE rl_queue_put_try(IN p_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, IN p_payload LONGBLOB,
                                  IN p_delay_us BIGINT UNSIGNED, IN p_key VARCHAR(256) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                                  IN p_priority INT UNSIGNED, IN p_group VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                                  IN p_attempts INT UNSIGNED, INOUT p_tries INT, OUT p_id BIGINT UNSIGNED)
BEGIN
    DECLARE EXIT HANDLER FOR SQLEXCEPTION
    BEGIN
        ROLLBACK AND NO CHAIN NO RELEASE;
        RESIGNAL;
    END;
    DECLARE EXIT HANDLER FOR 1205
    BEGIN
        ROLLBACK AND NO CHAIN NO RELEASE;
        CALL rl_signal('RLBSY', p_name, '%s: a transaction has locked the same key or group; try again later');
    END;
    DECLARE EXIT HANDLER FOR 1213, 1020, 1180, 3101
    BEGIN
        ROLLBACK AND NO CHAIN NO RELEASE;
        SET p_tries = p_tries + 1, p_id = NULL;
        IF p_tries = 20 THEN
            RESIGNAL;
        END IF;
    END;
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    START TRANSACTION;
    CALL rl_queue_put(p_name, p_payload, p_delay_us, p_key, p_priority, p_group, p_attempts, p_id);
    COMMIT AND NO CHAIN NO RELEASE;
END;

-- Puts, in a transaction. LAST_INSERT_ID() tells that it did (an id is above 0), not ROW_COUNT(): a key that is there changes no row.
CREATE PROCEDURE rl_queue_put(IN p_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, IN p_payload LONGBLOB,
                              IN p_delay_us BIGINT UNSIGNED, IN p_key VARCHAR(256) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                              IN p_priority INT UNSIGNED, IN p_group VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                              IN p_attempts INT UNSIGNED, OUT p_id BIGINT UNSIGNED)
BEGIN
    DECLARE v_now DATETIME(6);
    DECLARE v_queue, v_item BIGINT UNSIGNED;
    DECLARE v_last BIGINT UNSIGNED DEFAULT LAST_INSERT_ID();
    -- See rl_event.
    DECLARE v_unique BOOLEAN DEFAULT @@session.unique_checks;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION
    BEGIN
        SET unique_checks = v_unique, v_last = LAST_INSERT_ID(v_last);
        RESIGNAL;
    END;
    CALL rl_queue_id(p_name, v_queue);
    SET unique_checks = TRUE;
    CALL rl_now(v_now);
    DO LAST_INSERT_ID(0);
    IF p_group IS NULL THEN
        {{queue_put(lane = 9 - p_priority, at = 0, delay_us = p_delay_us, attempts = p_attempts, item_key = p_key,
                    payload = p_payload, id = v_queue, name = p_name, now = v_now)}};
        SET v_item = LAST_INSERT_ID();
    ELSE
        {{queue_group_enter(group_key = p_group, id = v_queue, name = p_name)}};
        {{queue_put_grouped(lane = 9 - p_priority, at = 0, delay_us = p_delay_us, attempts = p_attempts, item_key = p_key,
                            payload = p_payload, id = v_queue, group_key = p_group, now = v_now)}};
        SET v_item = LAST_INSERT_ID();
        {{queue_group_head(item = v_item, id = v_queue, group_key = p_group)}};
        {{queue_group_leave(id = v_queue, group_key = p_group)}};
    END IF;
    SET unique_checks = v_unique, v_last = LAST_INSERT_ID(v_last);
    -- A statement that was stopped (KILL QUERY) may have done too little, and no error (MariaDB).
    IF v_item = 0 THEN
        CALL rl_stopped();
    END IF;
    SET p_id = v_item;
END;

-- ------------------------------------------------------------------------------------ take

-- As rl_latch_await: the first in the line of the queue's bell looks, at least every 50 ms.
CREATE PROCEDURE rl_queue_await(IN p_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, IN p_ttl_us BIGINT UNSIGNED,
                                IN p_wait DECIMAL(40, 6), OUT p_item BIGINT UNSIGNED, OUT p_token BIGINT UNSIGNED,
                                OUT p_attempt INT UNSIGNED,
                                OUT p_key VARCHAR(256) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, OUT p_payload LONGBLOB)
BEGIN
    DECLARE v_started, v_now DATETIME(6);
    DECLARE v_id, v_found BIGINT UNSIGNED;
    DECLARE v_next_us BIGINT;
    DECLARE v_quiet, v_bell, v_pass, v_ready BOOLEAN DEFAULT FALSE;
    DECLARE v_login CHAR(27) CHARACTER SET ascii COLLATE ascii_bin;
    DECLARE v_owner VARCHAR(63) CHARACTER SET ascii COLLATE ascii_bin;
    DECLARE v_label VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin
        DEFAULT CONCAT(LEFT(USER(), 200), ' ', CONNECTION_ID(), ' sql');
    DECLARE v_waited_us BIGINT;
    DECLARE v_wait_us BIGINT DEFAULT IF(p_wait IS NULL OR p_wait < 0, 3e15, LEAST(p_wait, 3e9) * 1000000);
    DECLARE v_budget_us BIGINT DEFAULT v_wait_us;
    DECLARE v_delay_us BIGINT DEFAULT 2000;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION
    BEGIN
        IF v_id IS NOT NULL AND NOT v_quiet THEN
            CALL rl_bell_ring(v_id);
        END IF;
        RESIGNAL;
    END;
    CALL rl_login(v_login);
    SET v_owner = CONCAT(v_login, LOWER(HEX(RANDOM_BYTES(16))));
    CALL rl_quiet(v_quiet);
    CALL rl_now(v_started);
    look: LOOP
        CALL rl_resource(p_name, 'queue', v_budget_us, v_found);
        IF v_id <> COALESCE(v_found, 0) AND NOT v_quiet THEN
            CALL rl_bell_ring(v_id); -- of a row that was purged
        END IF;
        SET v_id = v_found, v_next_us = NULL;
        IF v_id IS NOT NULL THEN
            SET v_bell = NOT v_quiet AND COALESCE(IS_USED_LOCK(CONCAT('{bell}', v_id)) = CONNECTION_ID(), FALSE);
            CALL rl_queue_look(p_name, v_id, v_ready, v_next_us);
        END IF;
        IF v_ready THEN
            CALL rl_queue_take(p_name, v_id, p_ttl_us, v_owner, v_label, p_item, p_token, p_attempt, p_key, p_payload);
        END IF;
        IF p_item IS NOT NULL THEN
            LEAVE look;
        END IF;
        CALL rl_now(v_now);
        SET v_waited_us = GREATEST(TIMESTAMPDIFF(MICROSECOND, v_started, v_now), 0), v_budget_us = v_wait_us - v_waited_us;
        IF v_budget_us <= 0 THEN
            LEAVE look;
        ELSEIF v_id IS NULL OR v_quiet OR v_bell OR v_pass OR v_budget_us < 1000000 THEN
            SET v_delay_us = LEAST(v_delay_us * 2, IF(v_quiet OR v_pass, 250000, 50000));
            -- What is ready may be locked for long.
            CALL rl_sleep(LEAST(v_delay_us * (0.5 + RAND() / 2), v_budget_us, GREATEST(COALESCE(v_next_us, v_delay_us), 6000)));
        ELSE
            -- In line for ten seconds at most: who is in it cannot see whether its first still looks.
            CALL rl_bell_wait(v_id, LEAST(FLOOR(v_budget_us / 1e6), 10), v_waited_us DIV 1000, v_owner, v_label, v_bell);
            IF NOT v_bell THEN
                CALL rl_sleep(RAND() * 50000);
                CALL rl_slots_asleep(v_id, v_pass);
            END IF;
        END IF;
    END LOOP;
    IF v_id IS NOT NULL AND NOT v_quiet THEN
        CALL rl_bell_ring(v_id);
    END IF;
END;

-- Is one ready, and when is the next one? NULL: none will be by itself.
CREATE PROCEDURE rl_queue_look(IN p_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, IN p_id BIGINT UNSIGNED,
                               OUT p_ready BOOLEAN, OUT p_next_us BIGINT)
BEGIN
    DECLARE v_now DATETIME(6);
    DECLARE v_kind VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin;
    DECLARE v_some BOOLEAN DEFAULT FALSE;
    DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
    CALL rl_now(v_now);
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    {{queue_look(id = p_id, name = p_name, now = v_now)}} INTO v_kind, v_some, p_next_us;
    COMMIT AND NO CHAIN NO RELEASE;
    SET p_ready = v_some AND p_next_us <= 0, p_next_us = IF(v_some, p_next_us, NULL);
END;

-- One attempt to take. p_item NULL: others have locked all that are ready. An item that was delivered as often as it may be becomes a dead
-- one, and the next one is tried.
CREATE PROCEDURE rl_queue_take(IN p_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, IN p_id BIGINT UNSIGNED,
                               IN p_ttl_us BIGINT UNSIGNED, IN p_owner VARCHAR(63) CHARACTER SET ascii COLLATE ascii_bin,
                               IN p_label VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                               OUT p_item BIGINT UNSIGNED, OUT p_token BIGINT UNSIGNED, OUT p_attempt INT UNSIGNED,
                               OUT p_key VARCHAR(256) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, OUT p_payload LONGBLOB)
BEGIN
    DECLARE v_used_up BOOLEAN DEFAULT TRUE;
    DECLARE v_tries INT DEFAULT 0;
    WHILE v_used_up DO
        CALL rl_queue_take_try(p_id, p_ttl_us, p_owner, p_label, v_tries, p_item, p_token, p_attempt, p_key, p_payload, v_used_up);
    END WHILE;
END;

CREATE PROCEDURE rl_queue_take_try(IN p_id BIGINT UNSIGNED, IN p_ttl_us BIGINT UNSIGNED,
                                   IN p_owner VARCHAR(63) CHARACTER SET ascii COLLATE ascii_bin,
                                   IN p_label VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, INOUT p_tries INT,
                                   OUT p_item BIGINT UNSIGNED, OUT p_token BIGINT UNSIGNED, OUT p_attempt INT UNSIGNED,
                                   OUT p_key VARCHAR(256) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, OUT p_payload LONGBLOB,
                                   OUT p_used_up BOOLEAN)
BEGIN
    DECLARE v_now DATETIME(6);
    DECLARE v_group VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
    DECLARE v_before VARCHAR(63) CHARACTER SET ascii COLLATE ascii_bin;
    DECLARE v_item, v_token, v_lane, v_ready_us, v_head BIGINT UNSIGNED;
    DECLARE v_most INT UNSIGNED;
    DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION
    BEGIN
        ROLLBACK AND NO CHAIN NO RELEASE;
        RESIGNAL;
    END;
    DECLARE EXIT HANDLER FOR 1213, 1020, 1180, 3101
    BEGIN
        ROLLBACK AND NO CHAIN NO RELEASE;
        SET p_tries = p_tries + 1, p_item = NULL, p_used_up = TRUE;
        IF p_tries = 20 THEN
            RESIGNAL;
        END IF;
    END;
    SET p_item = NULL, p_used_up = FALSE;
    CALL rl_now(v_now);
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    START TRANSACTION;
    {{queue_ready(id = p_id, limit = 1, now = v_now)}}
      INTO v_item, v_lane, v_token, p_attempt, v_most, p_key, v_group, p_payload, v_ready_us;
    IF v_item IS NOT NULL AND p_attempt >= v_most THEN
        SET p_used_up = TRUE;
        {{queue_group_try(id = p_id, group_key = v_group)}} INTO v_head;
    END IF;
    IF p_used_up AND (v_group = '' OR v_head IS NOT NULL) THEN
        SELECT owner INTO v_before FROM queue_item WHERE id = v_item;
        {{queue_bury(reason = 'its attempts are used up', item = v_item, token = v_token, owner = v_before, now = v_now)}};
        IF ROW_COUNT() = 0 THEN
            CALL rl_stopped();
        END IF;
        CALL rl_queue_successor(p_id, v_group, v_item);
    ELSEIF v_item IS NOT NULL THEN
        -- Also one that is used up, whose group another transaction has: so it is out of the way for a TTL.
        {{queue_take(ttl_us = p_ttl_us, owner = p_owner, label = p_label, item = v_item, token = v_token, now = v_now)}};
        IF ROW_COUNT() = 1 AND NOT p_used_up THEN
            SET p_item = v_item, p_token = v_token + 1, p_attempt = p_attempt + 1;
        END IF;
    END IF;
    COMMIT AND NO CHAIN NO RELEASE;
END;

-- ------------------------------------------------------------------------------------ end

CREATE PROCEDURE rl_queue_end(IN p_what VARCHAR(8) CHARACTER SET ascii COLLATE ascii_bin,
                              IN p_name LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                              IN p_id DECIMAL(40, 6), IN p_token DECIMAL(40, 6), IN p_delay DECIMAL(40, 6),
                              IN p_reason LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin)
BEGIN
    DECLARE v_item, v_token, v_delay_us BIGINT UNSIGNED;
    DECLARE v_inside BOOLEAN;
    CALL rl_name_check(p_name);
    CALL rl_token_check('id', p_name, p_id, v_item);
    CALL rl_token_check('token', p_name, p_token, v_token);
    CALL rl_queue_delay_check(p_name, p_delay, v_delay_us);
    CALL rl_writable_for(p_name);
    CALL rl_joins_for(p_name, v_inside);
    IF v_inside THEN
        CALL rl_queue_end_inside(p_what, p_name, v_item, v_token, v_delay_us, LEFT(p_reason, 1000));
    ELSE
        CALL rl_queue_end_alone(p_what, p_name, v_item, v_token, v_delay_us, LEFT(p_reason, 1000));
    END IF;
END;

-- As rl_joined.
CREATE PROCEDURE rl_queue_end_inside(IN p_what VARCHAR(8) CHARACTER SET ascii COLLATE ascii_bin,
                                     IN p_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                                     IN p_item BIGINT UNSIGNED, IN p_token BIGINT UNSIGNED, IN p_delay_us BIGINT UNSIGNED,
                                     IN p_reason VARCHAR(1000) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin)
BEGIN
    DECLARE v_owner VARCHAR(63) CHARACTER SET ascii COLLATE ascii_bin;
    DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
    DECLARE EXIT HANDLER FOR SQLSTATE 'RLLST'
    BEGIN
        ROLLBACK TO SAVEPOINT rowlock_call;
        RESIGNAL;
    END;
    DECLARE EXIT HANDLER FOR 1205
        CALL rl_joined_timeout(p_name, CONCAT('item ', p_item, ' of %s or its group is in use by a transaction'));
    SAVEPOINT rowlock_call;
    SELECT owner INTO v_owner FROM queue_item WHERE id = p_item AND token = p_token AND taken = 1 AND state = 'alive' FOR UPDATE;
    CALL rl_queue_end_locked(p_what, p_name, p_item, p_token, v_owner, p_delay_us, p_reason);
    RELEASE SAVEPOINT rowlock_call;
END;

-- As rl_once_begin: it waits for no row in a transaction of its own. p_delay_us: for a retry its delay, for extend the TTL.
CREATE PROCEDURE rl_queue_end_alone(IN p_what VARCHAR(8) CHARACTER SET ascii COLLATE ascii_bin,
                                    IN p_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                                    IN p_item BIGINT UNSIGNED, IN p_token BIGINT UNSIGNED, IN p_delay_us BIGINT UNSIGNED,
                                    IN p_reason VARCHAR(1000) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin)
BEGIN
    DECLARE v_tries INT DEFAULT 0;
    DECLARE v_waited_us BIGINT DEFAULT 0;
    DECLARE v_delay_us BIGINT DEFAULT 1000;
    DECLARE v_done BOOLEAN;
    end_it: LOOP
        CALL rl_queue_end_try(p_what, p_name, p_item, p_token, p_delay_us, p_reason, v_tries, v_done);
        IF v_done THEN
            LEAVE end_it;
        END IF;
        IF v_waited_us > @@session.innodb_lock_wait_timeout * 1000000 THEN
            CALL rl_signal('RLBSY', p_name, CONCAT('item ', p_item, ' of %s is in use by a transaction; try again later'));
        END IF;
        SET v_delay_us = LEAST(v_delay_us * 2, 50000), v_waited_us = v_waited_us + v_delay_us;
        CALL rl_sleep(v_delay_us * (0.5 + RAND() / 2));
    END LOOP;
END;

-- p_done FALSE: somebody else has its row, or the server has rolled this back.
CREATE PROCEDURE rl_queue_end_try(IN p_what VARCHAR(8) CHARACTER SET ascii COLLATE ascii_bin,
                                  IN p_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                                  IN p_item BIGINT UNSIGNED, IN p_token BIGINT UNSIGNED, IN p_delay_us BIGINT UNSIGNED,
                                  IN p_reason VARCHAR(1000) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                                  INOUT p_tries INT, OUT p_done BOOLEAN)
BEGIN
    DECLARE v_owner, v_seen VARCHAR(63) CHARACTER SET ascii COLLATE ascii_bin;
    DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION
    BEGIN
        ROLLBACK AND NO CHAIN NO RELEASE;
        RESIGNAL;
    END;
    DECLARE EXIT HANDLER FOR 1205
    BEGIN
        ROLLBACK AND NO CHAIN NO RELEASE;
        CALL rl_signal('RLBSY', p_name, CONCAT('the group of item ', p_item, ' of %s is in use by a transaction; try again later'));
    END;
    DECLARE EXIT HANDLER FOR 1213, 1020, 1180, 3101
    BEGIN
        ROLLBACK AND NO CHAIN NO RELEASE;
        SET p_tries = p_tries + 1, p_done = FALSE;
        IF p_tries = 20 THEN
            RESIGNAL;
        END IF;
    END;
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    START TRANSACTION;
    SELECT owner INTO v_owner
      FROM queue_item WHERE id = p_item AND token = p_token AND taken = 1 AND state = 'alive' FOR UPDATE SKIP LOCKED;
    SELECT owner INTO v_seen FROM queue_item WHERE id = p_item AND token = p_token AND taken = 1 AND state = 'alive';
    SET p_done = v_seen IS NULL OR v_owner IS NOT NULL;
    IF p_done THEN
        CALL rl_queue_end_locked(p_what, p_name, p_item, p_token, v_owner, p_delay_us, p_reason);
    END IF;
    COMMIT AND NO CHAIN NO RELEASE;
END;

-- In a transaction that has the item's row locked. p_owner NULL: there is no such item. An owner id with a dot at that place is the
-- library's or the command's: a session that knows the token works for them.
CREATE PROCEDURE rl_queue_end_locked(IN p_what VARCHAR(8) CHARACTER SET ascii COLLATE ascii_bin,
                                     IN p_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                                     IN p_item BIGINT UNSIGNED, IN p_token BIGINT UNSIGNED,
                                     IN p_owner VARCHAR(63) CHARACTER SET ascii COLLATE ascii_bin, IN p_delay_us BIGINT UNSIGNED,
                                     IN p_reason VARCHAR(1000) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin)
BEGIN
    DECLARE v_now DATETIME(6);
    DECLARE v_queue, v_named, v_rows, v_head, v_next BIGINT UNSIGNED DEFAULT 0;
    DECLARE v_attempts, v_most INT UNSIGNED;
    DECLARE v_group VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
    DECLARE v_login CHAR(27) CHARACTER SET ascii COLLATE ascii_bin;
    DECLARE v_what VARCHAR(8) CHARACTER SET ascii COLLATE ascii_bin DEFAULT p_what;
    DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_queue = 0;
    CALL rl_login(v_login);
    CALL rl_now(v_now);
    IF LEFT(p_owner, 27) = v_login OR SUBSTRING(p_owner, 37, 1) = '.' THEN
        SELECT i.queue_id, i.group_key, i.attempts, i.attempts_most INTO v_queue, v_group, v_attempts, v_most
          FROM queue_item i WHERE i.id = p_item LOCK IN SHARE MODE;
        SELECT COUNT(*) INTO v_named FROM resource WHERE id = v_queue AND resource_name = p_name;
    END IF;
    IF v_named = 1 THEN
        IF p_what = 'retry' AND v_attempts >= v_most THEN
            SET v_what = 'dead';
        END IF;
        -- Who is killed in this wait (no handler runs then) has changed nothing.
        IF v_what IN ('done', 'dead') THEN
            CALL rl_queue_group(v_queue, COALESCE(v_group, ''), v_head, v_next);
        END IF;
        CASE v_what
            WHEN 'done' THEN
                {{queue_done(item = p_item, token = p_token, owner = p_owner)}};
            WHEN 'dead' THEN
                {{queue_bury(reason = p_reason, item = p_item, token = p_token, owner = p_owner, now = v_now)}};
            WHEN 'extend' THEN
                {{queue_extend(ttl_us = p_delay_us, item = p_item, token = p_token, owner = p_owner, now = v_now)}};
            ELSE
                {{queue_retry(delay_us = COALESCE(p_delay_us,
                                  FLOOR(LEAST(POW(2, LEAST(v_attempts, 13) - 1), 3600) * (1 - RAND() / 2) * 1e6)),
                              reason = p_reason, item = p_item, token = p_token, owner = p_owner, now = v_now)}};
        END CASE;
        SET v_rows = ROW_COUNT();
        -- What is held for so long already is not changed.
        IF v_rows = 0 AND v_what = 'extend' THEN
            SELECT COUNT(*) INTO v_rows FROM queue_item WHERE id = p_item AND ready_at >= v_now + INTERVAL p_delay_us MICROSECOND;
        END IF;
    END IF;
    IF v_rows = 0 THEN
        CALL rl_signal('RLLST', p_name, CONCAT('item ', p_item, ' of %s is not held with token ', p_token, ' (any more)'));
    ELSEIF v_what IN ('done', 'dead') THEN
        CALL rl_queue_successor(v_queue, COALESCE(v_group, ''), p_item);
    END IF;
END;

-- Locks the row of a group ('': none), and the item that is behind its head. No item behind it comes or goes while the group's row is
-- locked; a locking read, since the caller's snapshot may be older.
CREATE PROCEDURE rl_queue_group(IN p_id BIGINT UNSIGNED, IN p_group VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                                OUT p_head BIGINT UNSIGNED, OUT p_next BIGINT UNSIGNED)
BEGIN
    DECLARE v_changes BIGINT UNSIGNED DEFAULT 0;
    DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
    SET p_head = 0, p_next = 0;
    IF p_group <> '' THEN
        SELECT head, changes INTO p_head, v_changes FROM queue_group WHERE queue_id = p_id AND group_key = p_group FOR UPDATE;
        -- See caller_group_lock.
        IF v_changes > 0 THEN
            SELECT id INTO p_next
              FROM queue_item FORCE INDEX (by_group)
             WHERE queue_id = p_id AND group_key = p_group AND state = 'behind'
             ORDER BY id LIMIT 1
               FOR UPDATE;
        END IF;
    END IF;
END;

-- In the transaction in which an item has ended: makes the next one of its group alive.
CREATE PROCEDURE rl_queue_successor(IN p_id BIGINT UNSIGNED, IN p_group VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                                    IN p_item BIGINT UNSIGNED)
BEGIN
    DECLARE v_head, v_next, v_rows BIGINT UNSIGNED DEFAULT 0;
    IF p_group <> '' THEN
        CALL rl_queue_group(p_id, p_group, v_head, v_next);
        IF v_head <> p_item THEN
            SET v_rows = v_head;
        ELSEIF v_next = 0 THEN
            {{queue_group_end(id = p_id, group_key = p_group, item = p_item)}};
            SET v_rows = ROW_COUNT();
        ELSE
            {{queue_group_promote(next = v_next, id = p_id, group_key = p_group, item = p_item)}};
            SET v_rows = ROW_COUNT();
        END IF;
        IF v_rows = 0 THEN
            CALL rl_stopped();
        END IF;
    END IF;
END;
