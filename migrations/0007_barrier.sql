-- 0007_barrier: barriers, which so many enter together, and leave together.
-- rowlock: breaking
-- rowlock: resumable
--
-- Of the kind `barrier`: `version` is the generation that gathers, `slots` how many make one. Who has entered is a row of lock_grant
-- with that version; the last one to enter raises the resource's, and theirs have entered.
ALTER TABLE lock_grant
    -- of a barrier: which one of them it is, 0 ...
    ADD COLUMN place INT UNSIGNED NOT NULL DEFAULT 0,
    -- and when it was ready to leave
    ADD COLUMN left_at DATETIME(6) NULL;
