-- 0008_once: the ledger of work that is done once in a period.
-- rowlock: breaking
-- rowlock: resumable
--
-- The lease keeps two from working at the same time; whether a period's work was done, its row says alone. Each attempt has a
-- token of its own, so a row changes only for whoever has the token that it carries, or for a later holder of the lease.
CREATE TABLE IF NOT EXISTS once_run (
    resource_id  BIGINT UNSIGNED NOT NULL,
    -- UTC
    period_start DATETIME(6) NOT NULL,
    period_end   DATETIME(6) NOT NULL,
    state        ENUM('running', 'done', 'failed') CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    -- of the last attempt
    token        BIGINT UNSIGNED NOT NULL,
    owner        VARCHAR(63) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    owner_label  VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    attempts     INT UNSIGNED NOT NULL,
    started_at   DATETIME(6) NOT NULL,
    ended_at     DATETIME(6) NULL,
    exit_status  INT NULL,
    PRIMARY KEY (resource_id, period_start),
    UNIQUE KEY by_token (resource_id, token)
) ENGINE = InnoDB COMMENT = 'rowlock: what was done in which period';
