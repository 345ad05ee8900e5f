-- 0002_fenced: whether a name was ever locked with fencing.
-- rowlock: breaking
-- rowlock: resumable
--
-- Who takes a row lock without fencing has to end the publication of a dead holder. Of a name
-- that nobody ever published it need not look for one. Set, and committed, before the first
-- publication; never taken back. Rows from before, or made by hand, count as published.
ALTER TABLE resource_lock
    ADD COLUMN fenced BOOLEAN NOT NULL DEFAULT TRUE AFTER resource_name;
