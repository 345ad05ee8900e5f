-- 0014_freeze: names that nobody gets for a while.
-- rowlock: breaking
-- rowlock: resumable
--
-- What is frozen is said twice: here by patterns, which count for names that are made later, and in the name's own row, where whoever
-- takes it looks anyway. A name is made, and patterns are changed, by one who has the first row of this table locked: so no name is
-- made in between.
CREATE TABLE IF NOT EXISTS lock_freeze (
    id          BIGINT UNSIGNED NOT NULL AUTO_INCREMENT,
    -- the name, or what the names begin with and a star; of the first row, which freezes nothing, a text that is no name
    pattern     VARCHAR(256) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    is_prefix   BOOLEAN NOT NULL,
    owner_label VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    reason      VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    frozen_at   DATETIME(6) NOT NULL,
    -- over at that time; the year 9999: not before it is thawed
    until_at    DATETIME(6) NOT NULL,
    PRIMARY KEY (id),
    UNIQUE KEY by_pattern (pattern, is_prefix)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC COMMENT = 'rowlock: which names are frozen';

INSERT IGNORE INTO lock_freeze (id, pattern, is_prefix, owner_label, reason, frozen_at, until_at)
VALUES (1, ' ', FALSE, '', '', '1970-01-01', '1970-01-01');

ALTER TABLE resource
    ADD COLUMN frozen_until DATETIME(6) NULL;

ALTER TABLE lock_event
    MODIFY event ENUM('acquired', 'released', 'expired', 'taken_over', 'broken', 'lost', 'refused', 'gave_up', 'asked', 'frozen', 'thawed')
           CHARACTER SET ascii COLLATE ascii_bin NOT NULL;
