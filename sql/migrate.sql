-- The migrator's own statements.

-- name: schema_create
-- kind: text
CREATE DATABASE IF NOT EXISTS {schema} CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- name: schema_exists
-- params: schema text
-- columns: found u64
SELECT COUNT(*) FROM information_schema.schemata WHERE schema_name = :schema;

-- A change of a table waits for every transaction that uses the table (a held row lock is one), and later statements wait behind
-- it; so it waits 5 s, not the default of a day or a year. It may then wait for rows of mysql.innodb_table_stats, which other DDL
-- and the server's own statistics write (MariaDB), longer than the second that a session usually waits for a row.
-- name: migration_patience
-- kind: text
SET SESSION lock_wait_timeout = 5, innodb_lock_wait_timeout = 5;

-- One row for each migration. (`steps_done` and `running` are not used any more: each statement may be run again.)
-- name: schema_version_create
-- kind: text
CREATE TABLE IF NOT EXISTS rowlock_schema_version (
    version    INT UNSIGNED NOT NULL,
    name       VARCHAR(128) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    checksum   CHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    breaking   TINYINT UNSIGNED NOT NULL,
    steps      INT UNSIGNED NOT NULL,
    steps_done INT UNSIGNED NOT NULL DEFAULT 0,
    running    INT UNSIGNED NOT NULL DEFAULT 0,
    applied_by VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    started_at DATETIME(6) NOT NULL,
    applied_at DATETIME(6) NULL,
    PRIMARY KEY (version)
) ENGINE = InnoDB COMMENT = 'rowlock: applied migrations';

-- name: migration_list
-- via: own
-- columns: version u64, name text(128), checksum text(64), breaking u64, applied u64
SELECT version, name, checksum, breaking, applied_at IS NOT NULL
  FROM rowlock_schema_version
 ORDER BY version;

-- name: migration_begin
-- params: version u64, name text, checksum text, breaking u64, steps u64, applied_by text
INSERT INTO rowlock_schema_version (version, name, checksum, breaking, steps, applied_by, started_at)
VALUES (:version, :name, :checksum, :breaking, :steps, :applied_by, UTC_TIMESTAMP(6));

-- name: migration_end
-- params: version u64
UPDATE rowlock_schema_version
   SET steps_done = steps, running = 0, applied_at = UTC_TIMESTAMP(6)
 WHERE version = :version;

-- The tables do not exist yet when this lock is needed, so it is a named lock of the server. It waits for whole seconds (MySQL
-- takes no fractions); its name is short (MySQL takes 64 characters). 1: acquired.
-- name: migrate_lock
-- params: name text, wait_s u64
-- columns: got u64
SELECT GET_LOCK(CONCAT('rowlock.init.', LEFT(SHA2(:name, 256), 40)), :wait_s);
