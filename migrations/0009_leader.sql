-- 0009_leader: what the holder of a lease publishes, for others to read.
-- rowlock: resumable
--
-- It counts only while the lease of that version runs, so nothing has to be taken back at its end.

CREATE TABLE IF NOT EXISTS lock_value (
    resource_id BIGINT UNSIGNED NOT NULL,
    version     BIGINT UNSIGNED NOT NULL,
    -- which one of that holder's: what comes late does not take the place of a later one
    number      BIGINT UNSIGNED NOT NULL,
    -- '': none
    value       VARCHAR(1024) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    set_at      DATETIME(6) NOT NULL,
    PRIMARY KEY (resource_id)
) ENGINE = InnoDB COMMENT = 'rowlock: what the holders of leases publish';
