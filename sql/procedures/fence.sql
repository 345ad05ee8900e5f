-- Fences, as src/kind/fence.c makes them, for callers with a token and no hold.

-- From here to the end of the caller's transaction nobody else can acquire the lock (a lease or a row lock); renewals go on. For
-- an exclusive lock it writes the row, since a cluster certifies only writes. An expired lease that nobody has taken over counts
-- as held: a take-over then waits. For a lock that readers have, it keeps the next writer out.
CREATE PROCEDURE rowlock_fence(IN p_name LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                               IN p_token DECIMAL(40, 6))
BEGIN
    DECLARE v_token BIGINT UNSIGNED;
    DECLARE v_inside BOOLEAN;
    CALL rl_name_check(p_name);
    CALL rl_token_check('token', p_name, p_token, v_token);
    CALL rl_joins_for(p_name, v_inside);
    IF NOT v_inside THEN
        CALL rl_signal('RLTXN', p_name, 'a fence on %s lasts as long as your transaction; START TRANSACTION first');
    END IF;
    CALL rl_writable_for(p_name);
    CALL rl_joined('fence', p_name, v_token, NULL);
END;

-- The row is first locked in share mode, so that readers' fences do not wait for each other. For an exclusive lock it is then
-- written, too, unless other sessions of the holder have it locked as well: each would wait for the others. The shared lock is
-- enough then, except in a cluster with several writers.
CREATE PROCEDURE rl_fence(IN p_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                          IN p_token BIGINT UNSIGNED)
BEGIN
    DECLARE v_id, v_alone BIGINT UNSIGNED;
    DECLARE v_status VARCHAR(8) CHARACTER SET ascii COLLATE ascii_bin;
    DECLARE v_many BOOLEAN DEFAULT FALSE;
    DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
    SELECT id, status INTO v_id, v_status
      FROM resource
     WHERE resource_name = p_name
       AND {{known_kind(kind)}}
       AND kind NOT IN ('latch', 'quorum')
       AND version = p_token
       AND status <> 'free'
      LOCK IN SHARE MODE;
    IF v_id IS NULL THEN
        CALL rl_fence_refused(p_name, p_token);
    END IF;
    IF v_status = 'held' THEN
        SELECT id INTO v_alone FROM resource WHERE id = v_id FOR UPDATE SKIP LOCKED;
        IF v_alone IS NULL THEN
            CALL rl_quiet(v_many);
        END IF;
        IF v_alone IS NOT NULL OR v_many THEN
            UPDATE resource SET fence_count = fence_count + 1 WHERE id = v_id;
        END IF;
    END IF;
END;

CREATE PROCEDURE rl_fence_refused(IN p_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                                  IN p_token BIGINT UNSIGNED)
BEGIN
    DECLARE v_kind VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin;
    -- No IF (SELECT ...): in that, MariaDB reads with a lock. MAX, since there may be no row.
    SELECT MAX(kind) INTO v_kind FROM resource WHERE resource_name = p_name;
    IF v_kind IS NULL THEN
        CALL rl_signal('RLNOF', p_name, 'there is no lock %s; look at its spelling');
    ELSEIF v_kind IN ('latch', 'barrier', 'quorum', 'queue') OR NOT ({{known_kind(v_kind)}}) THEN
        CALL rl_wrong_kind(p_name, v_kind, 'optimistic');
    END IF;
    CALL rl_signal('RLLST', p_name, CONCAT('%s is not held with token ', p_token, ' any more; roll back'));
END;

-- Puts the token into the session's variable, for the triggers of sql/fence.sql; NULL removes it. The token is checked now, for
-- an early error, and by the triggers at each write. In a transaction it stays good until the end.
CREATE PROCEDURE rowlock_present(IN p_name LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                                 IN p_token DECIMAL(40, 6))
BEGIN
    DECLARE v_token BIGINT UNSIGNED;
    DECLARE v_inside BOOLEAN;
    DECLARE v_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
    DECLARE v_as TEXT CHARACTER SET ascii;
    CALL rl_name_check(p_name);
    SET v_name = p_name, v_as = CONCAT(HEX(DATABASE()), '.', HEX(v_name));
    CALL rl_present_mend();
    IF p_token IS NULL THEN
        CALL rl_present_forget(v_as);
    ELSE
        CALL rl_token_check('token', p_name, p_token, v_token);
        CALL rl_inside_for(p_name, v_inside);
        IF v_inside THEN
            CALL rl_joined('present', v_name, v_token, NULL);
        ELSE
            CALL rl_present_alone(v_name, v_token);
        END IF;
        {{caller_present(presented_as = v_as, version = v_token)}};
    END IF;
END;

-- Replaces a value of another program that is no text (1300), or on MySQL too deep for its JSON (3157).
CREATE PROCEDURE rl_present_mend()
BEGIN
    DECLARE EXIT HANDLER FOR 1300, 3157 SET @rowlock_presented = NULL;
    DO JSON_VALID(CONVERT(@rowlock_presented USING utf8mb4));
END;

CREATE PROCEDURE rl_present_forget(IN p_as TEXT CHARACTER SET ascii)
BEGIN
    IF JSON_VALID(@rowlock_presented) THEN
        SET @rowlock_presented = JSON_REMOVE(CONVERT(@rowlock_presented USING utf8mb4),
                                             CONCAT('$."', p_as, '"'));
    END IF;
END;

CREATE PROCEDURE rl_present_inside(IN p_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                                   IN p_token BIGINT UNSIGNED)
BEGIN
    IF COALESCE((SELECT status = 'held' AND version = p_token AND kind NOT IN ('latch', 'quorum') AND {{known_kind(kind)}}
                   FROM resource WHERE resource_name = p_name LOCK IN SHARE MODE), 0) = 0 THEN
        CALL rl_fence_refused(p_name, p_token);
    END IF;
END;

-- One statement without a transaction, which a KILL QUERY could leave open. (The COMMIT is for autocommit=0.)
CREATE PROCEDURE rl_present_alone(IN p_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                                  IN p_token BIGINT UNSIGNED)
BEGIN
    DECLARE v_kind VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin;
    DECLARE v_status VARCHAR(8) CHARACTER SET ascii COLLATE ascii_bin;
    DECLARE v_version BIGINT UNSIGNED;
    DECLARE v_found BOOLEAN DEFAULT TRUE;
    DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_found = FALSE;
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    SELECT kind, status, version INTO v_kind, v_status, v_version FROM resource WHERE resource_name = p_name;
    COMMIT AND NO CHAIN NO RELEASE;
    IF NOT v_found THEN
        CALL rl_signal('RLNOF', p_name, 'there is no lock %s; look at its spelling');
    ELSEIF v_kind IN ('latch', 'barrier', 'quorum', 'queue') OR NOT ({{known_kind(v_kind)}}) THEN
        CALL rl_wrong_kind(p_name, v_kind, 'optimistic');
    ELSEIF v_status <> 'held' OR v_version <> p_token THEN
        CALL rl_signal('RLLST', p_name, CONCAT('%s is not held with token ', p_token, ' any more; stop this work'));
    END IF;
END;
