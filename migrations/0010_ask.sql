-- 0010_ask: somebody may ask the holder of a lock to stop.
-- rowlock: resumable

ALTER TABLE lock_event
    MODIFY event ENUM('acquired', 'released', 'expired', 'taken_over', 'broken', 'lost', 'refused', 'gave_up', 'asked')
           CHARACTER SET ascii COLLATE ascii_bin NOT NULL;

-- The last ask for a name. It is of the holder with that version; of readers, of those who were in then.
CREATE TABLE IF NOT EXISTS lock_ask (
    resource_id BIGINT UNSIGNED NOT NULL PRIMARY KEY,
    version     BIGINT UNSIGNED NOT NULL,
    -- rises with each ask of this name: a holder hears of each once
    number      BIGINT UNSIGNED NOT NULL,
    -- who asks, and by which call
    owner       VARCHAR(63) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    owner_label VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    reason      VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    asked_at    DATETIME(6) NOT NULL,
    stop_by     DATETIME(6) NOT NULL
) ENGINE = InnoDB COMMENT = 'rowlock: who was asked to stop';
