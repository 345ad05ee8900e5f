-- 0003_totals: how often each name was held, and for how long.
-- rowlock: resumable
--
-- Short holds are counted here and make no lines in lock_event: a hot lock has thousands of them in a
-- second. Each client adds up what it did and writes it every ten seconds. The sweeper deletes old events, not these; a
-- row goes when its name is purged. Same id as in resource.
CREATE TABLE IF NOT EXISTS lock_total (
    id             BIGINT UNSIGNED NOT NULL,
    -- holds that have ended: released or lost
    holds          BIGINT UNSIGNED NOT NULL,
    lost           BIGINT UNSIGNED NOT NULL,
    -- of the holds: taken from a holder whose lease had run out
    taken_over     BIGINT UNSIGNED NOT NULL,
    waited_us      BIGINT UNSIGNED NOT NULL,
    waited_most_us BIGINT UNSIGNED NOT NULL,
    held_us        BIGINT UNSIGNED NOT NULL,
    held_most_us   BIGINT UNSIGNED NOT NULL,
    first_at       DATETIME(6) NOT NULL,
    last_at        DATETIME(6) NOT NULL,
    PRIMARY KEY (id)
) ENGINE = InnoDB COMMENT = 'rowlock: how often and for how long each lock was held';
