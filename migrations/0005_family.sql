-- 0005_family: leases that many hold at once, and names with slots.
-- rowlock: breaking
-- rowlock: resumable
--
-- A name is `shared` as long as readers may enter. Each of them is a row of lock_grant. Its next writer waits for the readers
-- that are in, and none enters meanwhile: it is in `next_owner`, until next_expires_at. Owner and version stay the last
-- writer's until the next one holds the name.
ALTER TABLE resource
    MODIFY status ENUM('free', 'held', 'shared') CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT 'free';

ALTER TABLE resource
    ADD COLUMN next_owner VARCHAR(63) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '',
    ADD COLUMN next_label VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT '',
    ADD COLUMN next_expires_at DATETIME(6) NULL,
    -- of the kind `slots`: how many hold the name at once, each one of the leases NAME#0, NAME#1, ...; 0: nobody has said it yet
    ADD COLUMN slots INT UNSIGNED NOT NULL DEFAULT 0;

CREATE TABLE IF NOT EXISTS lock_grant (
    resource_id BIGINT UNSIGNED NOT NULL,
    owner       VARCHAR(63) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    owner_label VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    -- of the last writer: the reader's token; 0: it was broken
    version     BIGINT UNSIGNED NOT NULL,
    acquired_at DATETIME(6) NOT NULL,
    -- it is the reader's who renews it before that; then it is whoever's who deletes it
    expires_at  DATETIME(6) NOT NULL,
    PRIMARY KEY (resource_id, owner)
) ENGINE = InnoDB COMMENT = 'rowlock: who holds a lease together with others';
