-- 0004_refused: a try that was refused, and a wait that ended, may be recorded.
-- rowlock: resumable
ALTER TABLE lock_event
    MODIFY event ENUM('acquired', 'released', 'expired', 'taken_over', 'broken', 'lost', 'refused', 'gave_up')
           CHARACTER SET ascii COLLATE ascii_bin NOT NULL;
