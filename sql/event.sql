-- The event that sweeps (rowlock init --event); the procedure that it calls is sql/procedures/sweep.sql.

-- Its table has one row, which only the event writes, for `rowlock doctor`. `failures`: since the last successful run.
-- name: migrate_event_table
-- kind: text
CREATE TABLE IF NOT EXISTS sweep_event (
    id           TINYINT UNSIGNED NOT NULL,
    every_s      INT UNSIGNED NOT NULL,
    installed_at DATETIME(6) NOT NULL,
    started_at   DATETIME(6) NULL,
    ended_at     DATETIME(6) NULL,
    runs         BIGINT UNSIGNED NOT NULL DEFAULT 0,
    failures     BIGINT UNSIGNED NOT NULL DEFAULT 0,
    expired      BIGINT UNSIGNED NOT NULL DEFAULT 0,
    events       BIGINT UNSIGNED NOT NULL DEFAULT 0,
    purged       BIGINT UNSIGNED NOT NULL DEFAULT 0,
    error        VARCHAR(400) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT '',
    PRIMARY KEY (id)
) ENGINE = InnoDB COMMENT = 'rowlock: the last run of the event that sweeps';

-- name: migrate_event_drop
-- kind: text
DROP EVENT IF EXISTS rowlock_sweep;

-- Dropped before, since MySQL has no CREATE OR REPLACE EVENT.
-- name: migrate_event_create
-- kind: text
-- params: every_s u64, history_us u64, history_rows u64, unused_us u64
CREATE EVENT rowlock_sweep
    ON SCHEDULE EVERY :every_s SECOND
    ON COMPLETION PRESERVE
    ENABLE
    COMMENT 'rowlock: sweeps, as rowlock sweep does'
    DO CALL rl_sweep(:history_us, :history_rows, :unused_us);

-- name: migrate_event_note
-- params: every_s u64
INSERT INTO sweep_event (id, every_s, installed_at)
VALUES (1, :every_s, UTC_TIMESTAMP(6))
    ON DUPLICATE KEY UPDATE every_s = VALUES(every_s), installed_at = VALUES(installed_at),
                            failures = 0, error = '';

-- name: migrate_event_there
-- columns: count u64
SELECT COUNT(*)
  FROM information_schema.events
 WHERE event_schema = DATABASE()
   AND event_name = 'rowlock_sweep';

-- The table stays: the event's last run may be under way at another node, and a member of a group with several primaries
-- that gets a change of a table that is not there leaves the group (seen on MySQL 9.7).
-- name: migrate_event_forget
DELETE FROM sweep_event
 WHERE id = 1;

-- name: migrate_event_scheduler
-- columns: scheduler text(16)
SELECT @@global.event_scheduler;

-- name: migrate_event_procedure
-- columns: count u64
SELECT COUNT(*)
  FROM information_schema.routines
 WHERE routine_schema = DATABASE()
   AND routine_name = 'rl_sweep';
