-- 0015_session: sessions that a lease's holder has registered, for who takes the lease over to end.
-- rowlock: breaking
-- rowlock: resumable

CREATE TABLE IF NOT EXISTS lock_session (
    resource_id   BIGINT UNSIGNED NOT NULL,
    version       BIGINT UNSIGNED NOT NULL,
    connection_id BIGINT UNSIGNED NOT NULL,
    -- the named lock that the session keeps: it is the session's as long as that is there, whoever has its number later
    marker        VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    registered_at DATETIME(6) NOT NULL,
    PRIMARY KEY (resource_id, version, connection_id)
) ENGINE = InnoDB COMMENT = 'rowlock: sessions of holders';

-- The version of the holder whose sessions are to have ended before anybody else gets the lease.
ALTER TABLE resource
    ADD COLUMN guarded BIGINT UNSIGNED NULL;

ALTER TABLE lock_event
    MODIFY event ENUM('acquired', 'released', 'expired', 'taken_over', 'broken', 'lost', 'refused', 'gave_up', 'asked', 'frozen', 'thawed',
                      'ended')
           CHARACTER SET ascii COLLATE ascii_bin NOT NULL;
