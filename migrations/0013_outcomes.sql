-- 0013_outcomes: when the work under a name went well, or badly, for the last time.
-- rowlock: resumable
--
-- Added up and written together with the other totals. A release with an exit status other than 0, and a loss, is a failure.
ALTER TABLE lock_total
    -- of the holds: released with an exit status other than 0, or lost
    ADD COLUMN failed       BIGINT UNSIGNED NOT NULL DEFAULT 0,
    -- tries that did not get the lock, and were to be recorded
    ADD COLUMN refused      BIGINT UNSIGNED NOT NULL DEFAULT 0,
    ADD COLUMN succeeded_at DATETIME(6) NULL,
    -- for how long the lock was held then
    ADD COLUMN succeeded_us BIGINT UNSIGNED NULL,
    ADD COLUMN failed_at    DATETIME(6) NULL,
    ADD COLUMN failed_exit  INT NULL,
    -- the longest time between two renewals of a lease, and that time in thousandths of the TTL
    ADD COLUMN gap_us       BIGINT UNSIGNED NOT NULL DEFAULT 0,
    ADD COLUMN gap_part     INT UNSIGNED NOT NULL DEFAULT 0;
