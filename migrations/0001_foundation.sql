-- 0001_foundation: the tables of both modes.
-- rowlock: breaking
-- rowlock: resumable
--
-- "breaking": a program that does not know this version must not use the schema.
-- "resumable": every statement may be run again after an interruption (DDL commits
-- by itself, so an interrupted migration cannot be rolled back).

-- Every name, in either mode: which kind it is, who holds it, and its version: the
-- fencing token. Renewals do not write this row, so a user's transaction can lock it
-- (rowlock_fence) without stopping them.
CREATE TABLE IF NOT EXISTS resource (
    id               BIGINT UNSIGNED NOT NULL AUTO_INCREMENT,
    resource_name    VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    kind             VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    status           ENUM('free', 'held') CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT 'free',
    version          BIGINT UNSIGNED NOT NULL,
    -- of the present holder, or of the last one to change the version
    owner            VARCHAR(63) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '',
    owner_label      VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT '',
    -- the holder's connection on the server (pessimistic), else 0
    connection_id    BIGINT UNSIGNED NOT NULL DEFAULT 0,
    acquired_at      DATETIME(6) NULL,
    -- as acquired; lease_renewal has the later one once it has been renewed
    lease_expires_at DATETIME(6) NULL,
    -- a released lease stays shut until then (at_least_ms)
    not_before       DATETIME(6) NULL,
    -- how often a transaction has fenced it; written by rowlock_fence alone
    fence_count      BIGINT UNSIGNED NOT NULL DEFAULT 0,
    description      VARCHAR(1024) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT '',
    update_time      DATETIME(6) NOT NULL,
    PRIMARY KEY (id),
    UNIQUE KEY resource_name (resource_name)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC COMMENT = 'rowlock: every lock, its holder and its version';

-- The rows that pessimistic mode locks. Nothing ever writes them while they are in
-- use: the lock on the row is the lock. Same id as in resource.
CREATE TABLE IF NOT EXISTS resource_lock (
    id            BIGINT UNSIGNED NOT NULL,
    resource_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    description   VARCHAR(1024) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT '',
    update_time   DATETIME(6) NOT NULL,
    PRIMARY KEY (id),
    UNIQUE KEY resource_name (resource_name)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC COMMENT = 'rowlock: the rows that pessimistic mode locks';

-- The heartbeat of a lease. It counts only while its version is the resource's.
-- Whoever takes a lease away without its holder's word raises this version first,
-- so that no renewal can succeed afterwards.
CREATE TABLE IF NOT EXISTS lease_renewal (
    id         BIGINT UNSIGNED NOT NULL,
    version    BIGINT UNSIGNED NOT NULL DEFAULT 0,
    expires_at DATETIME(6) NULL,
    PRIMARY KEY (id)
) ENGINE = InnoDB COMMENT = 'rowlock: renewed expiry of leases';

-- The highest version ever purged. New rows start there, so no token comes back.
CREATE TABLE IF NOT EXISTS version_floor (
    id      TINYINT UNSIGNED NOT NULL,
    version BIGINT UNSIGNED NOT NULL,
    PRIMARY KEY (id)
) ENGINE = InnoDB COMMENT = 'rowlock: one row, the highest version ever purged';

INSERT IGNORE INTO version_floor (id, version) VALUES (1, 0);

-- The history. In the order of its ids as far as one server is concerned; bounded
-- by the sweeper, which forgets from the low end.
CREATE TABLE IF NOT EXISTS lock_event (
    id            BIGINT UNSIGNED NOT NULL AUTO_INCREMENT,
    resource_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    kind          VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    event         ENUM('acquired', 'released', 'expired', 'taken_over', 'broken', 'lost')
                      CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    version       BIGINT UNSIGNED NOT NULL,
    owner         VARCHAR(63) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    owner_label   VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    happened_at   DATETIME(6) NOT NULL,
    waited_ms     BIGINT NULL,
    held_ms       BIGINT NULL,
    exit_status   INT NULL,
    detail        VARCHAR(600) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT '',
    PRIMARY KEY (id),
    KEY by_name (resource_name, id)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC COMMENT = 'rowlock: who held what, and how it ended';
