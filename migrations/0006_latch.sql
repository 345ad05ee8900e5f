-- 0006_latch: latches, which open when so many have counted.
-- rowlock: breaking
-- rowlock: resumable
--
-- Of the kind `latch`: `version` is the generation, `slots` how many are to count. It is `held` until it has opened or was
-- broken; whoever sees first that all have counted, or that a member was lost, makes it free, and that settles it for all.

ALTER TABLE resource
    -- bit k: its generation `version` - k was broken
    ADD COLUMN broken BIGINT UNSIGNED NOT NULL DEFAULT 0;

ALTER TABLE lock_grant
    -- of a latch's member: what it has promised to count with
    ADD COLUMN down_key VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT '';

CREATE TABLE IF NOT EXISTS latch_down (
    resource_id BIGINT UNSIGNED NOT NULL,
    generation  BIGINT UNSIGNED NOT NULL,
    down_key    VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    -- whose request it was
    owner       VARCHAR(63) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    down_at     DATETIME(6) NOT NULL,
    PRIMARY KEY (resource_id, generation, down_key)
) ENGINE = InnoDB COMMENT = 'rowlock: who has counted a latch down';
