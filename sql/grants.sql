-- The least that works for each kind of user. An administrator edits and runs this: put your schema's name
-- for `rowlock`, and your users for these. Or let `rowlock grants --role=ROLE USER@HOST` fill them in: it prints
-- the block of that role below. MariaDB and MySQL take the same statements, except where a comment says so. The
-- tests run as these users, and with the rights of batch and admin taken away one by one.
--
-- In this order: the users and the role admin; then `rowlock init` (and `rowlock init --procedures`) as
-- that user, or as an administrator, who needs none of it; then the rest, since rights on tables need the
-- tables. A later version's tables may need more; `rowlock doctor --role=ROLE` names what is missing.
--
-- How a program reads this: a block begins with `-- role:` and goes on to the next one; `-- with:` names a
-- block that belongs to the role, too. `shop` is the schema that is migrated.

-- CREATE USER 'rowlock_admin'@'localhost' IDENTIFIED BY '…';
-- CREATE USER 'app'@'localhost' IDENTIFIED BY '…';
-- CREATE USER 'batch'@'localhost' IDENTIFIED BY '…';
-- CREATE USER 'sweeper'@'localhost' IDENTIFIED BY '…';
-- CREATE USER 'looker'@'localhost' IDENTIFIED BY '…';
-- CREATE USER 'fencer'@'localhost' IDENTIFIED BY '…';
-- CREATE USER 'migrator'@'localhost' IDENTIFIED BY '…';

-- role: admin
-- Runs `rowlock init`: makes the schema, the tables, and what later versions change.
GRANT CREATE, ALTER, SELECT, INSERT, UPDATE ON `rowlock`.* TO 'rowlock_admin'@'localhost';
-- Runs `rowlock init --procedures`: they run with this user's rights, those above among them. DELETE is for
-- the sweep in an EVENT, and for `rowlock init --restored`.
GRANT CREATE ROUTINE, ALTER ROUTINE, EXECUTE, DELETE ON `rowlock`.* TO 'rowlock_admin'@'localhost';
-- Only for `rowlock init --event`: the event that sweeps runs with the rights of who installs it.
-- GRANT EVENT, CREATE ROUTINE, ALTER ROUTINE, EXECUTE, DELETE ON `rowlock`.* TO 'rowlock_admin'@'localhost';
-- Only to `rowlock break` row locks that another user holds (on MySQL: CONNECTION_ADMIN). PROCESS shows it that
-- the connection is the holder's, where that works through procedures.
-- GRANT CONNECTION ADMIN, PROCESS ON *.* TO 'rowlock_admin'@'localhost';

-- Here `rowlock init` is run, and `rowlock init --procedures`.

-- role: procedures
-- Takes locks and touches no table: EXECUTE alone (`rowlock init --procedures` first). In SQL by CALL, in the
-- library and the command with via=procedures. (What begins with rl_ runs with the caller's own rights, or is
-- the library's for such a user.) Such a user can call the procedures by hand: take locks, and with
-- rowlock_break and rowlock_break_now take them away from others; see docs/security.md.
GRANT EXECUTE ON `rowlock`.* TO 'app'@'localhost';
-- Or on each procedure that it may call; without rowlock_break and _break_now it takes no lock away from others:
-- GRANT EXECUTE ON PROCEDURE `rowlock`.`rowlock_acquire` TO 'app'@'localhost';
-- GRANT EXECUTE ON PROCEDURE `rowlock`.`rowlock_release` TO 'app'@'localhost';
-- and so on: _try, _renew, _acquire_shared, _release_shared, _renew_shared, _acquire_slot, _check, _session, _row_make, _row_lock,
-- _version, _bump, _fence, _present, _latch_set, _latch_down, _latch_wait, _set_value, _leader, _ask, _asked, _once_begin, _once_done,
-- _once_failed, _once_status, _queue_make, _queue_put, _queue_take, _queue_done, _queue_retry, _queue_dead, _queue_extend,
-- _queue_status, _freeze, _thaw.

-- role: batch
-- Takes locks (`rowlock run`, the library), in every mode, and sees who holds what. Who may take a lease may
-- also `rowlock break` one: both write the same row. So it may `rowlock ask` for one, and `rowlock freeze` names.
GRANT SELECT,
      INSERT (resource_name, kind, version, update_time),
      UPDATE (version, status, owner, owner_label, connection_id, acquired_at, lease_expires_at,
              not_before, next_owner, next_label, next_expires_at, slots, broken, fence_count,
              frozen_until, guarded, update_time)
   ON `rowlock`.`resource` TO 'batch'@'localhost';
GRANT SELECT, INSERT (id, resource_name, fenced, update_time), UPDATE (fenced)
   ON `rowlock`.`resource_lock` TO 'batch'@'localhost';
GRANT SELECT, INSERT (id), UPDATE (version, expires_at)
   ON `rowlock`.`lease_renewal` TO 'batch'@'localhost';
GRANT SELECT ON `rowlock`.`version_floor` TO 'batch'@'localhost';
GRANT SELECT ON `rowlock`.`rowlock_schema_version` TO 'batch'@'localhost';
GRANT INSERT ON `rowlock`.`lock_event` TO 'batch'@'localhost';
GRANT SELECT, INSERT, UPDATE ON `rowlock`.`lock_total` TO 'batch'@'localhost';
GRANT SELECT, INSERT, UPDATE, DELETE ON `rowlock`.`lock_grant` TO 'batch'@'localhost';
GRANT SELECT, INSERT, UPDATE, DELETE ON `rowlock`.`latch_down` TO 'batch'@'localhost';
GRANT SELECT, INSERT, UPDATE ON `rowlock`.`lock_value` TO 'batch'@'localhost';
GRANT SELECT, INSERT, UPDATE ON `rowlock`.`lock_ask` TO 'batch'@'localhost';
GRANT SELECT, INSERT, UPDATE, DELETE ON `rowlock`.`lock_session` TO 'batch'@'localhost';
GRANT SELECT, INSERT, UPDATE ON `rowlock`.`once_run` TO 'batch'@'localhost';
GRANT SELECT, INSERT, UPDATE ON `rowlock`.`lock_freeze` TO 'batch'@'localhost';
GRANT SELECT ON `rowlock`.`quorum_member` TO 'batch'@'localhost';
GRANT SELECT, INSERT, UPDATE, DELETE ON `rowlock`.`queue_item` TO 'batch'@'localhost';
GRANT SELECT, INSERT, UPDATE, DELETE ON `rowlock`.`queue_group` TO 'batch'@'localhost';

-- Only in a MySQL replication group, so that a lease outlives a failover within the group. Without it each
-- member is a server of its own.
-- GRANT SELECT ON performance_schema.replication_group_members TO 'batch'@'localhost';

-- role: sweeper
-- Runs `rowlock sweep`: ends the locks of dead holders, deletes old history and unused names.
GRANT SELECT, UPDATE, DELETE ON `rowlock`.`resource` TO 'sweeper'@'localhost';
GRANT SELECT, UPDATE, DELETE ON `rowlock`.`resource_lock` TO 'sweeper'@'localhost';
GRANT SELECT, UPDATE, DELETE ON `rowlock`.`lease_renewal` TO 'sweeper'@'localhost';
GRANT SELECT, UPDATE ON `rowlock`.`version_floor` TO 'sweeper'@'localhost';
GRANT SELECT ON `rowlock`.`rowlock_schema_version` TO 'sweeper'@'localhost';
GRANT SELECT, INSERT, DELETE ON `rowlock`.`lock_event` TO 'sweeper'@'localhost';
GRANT SELECT, DELETE ON `rowlock`.`lock_total` TO 'sweeper'@'localhost';
GRANT SELECT, DELETE ON `rowlock`.`lock_grant` TO 'sweeper'@'localhost';
GRANT SELECT, DELETE ON `rowlock`.`latch_down` TO 'sweeper'@'localhost';
GRANT SELECT, DELETE ON `rowlock`.`lock_value` TO 'sweeper'@'localhost';
GRANT SELECT, DELETE ON `rowlock`.`lock_ask` TO 'sweeper'@'localhost';
GRANT SELECT, DELETE ON `rowlock`.`lock_session` TO 'sweeper'@'localhost';
GRANT SELECT, DELETE ON `rowlock`.`once_run` TO 'sweeper'@'localhost';
GRANT SELECT ON `rowlock`.`lock_freeze` TO 'sweeper'@'localhost';
GRANT SELECT ON `rowlock`.`quorum_member` TO 'sweeper'@'localhost';
GRANT SELECT, DELETE ON `rowlock`.`queue_item` TO 'sweeper'@'localhost';
GRANT SELECT, DELETE ON `rowlock`.`queue_group` TO 'sweeper'@'localhost';

-- role: looker
-- Only looks: `rowlock ls`, `show` and `history`.
GRANT SELECT ON `rowlock`.`resource` TO 'looker'@'localhost';
GRANT SELECT ON `rowlock`.`resource_lock` TO 'looker'@'localhost';
GRANT SELECT ON `rowlock`.`lease_renewal` TO 'looker'@'localhost';
GRANT SELECT ON `rowlock`.`version_floor` TO 'looker'@'localhost';
GRANT SELECT ON `rowlock`.`rowlock_schema_version` TO 'looker'@'localhost';
GRANT SELECT ON `rowlock`.`lock_event` TO 'looker'@'localhost';
GRANT SELECT ON `rowlock`.`lock_total` TO 'looker'@'localhost';
GRANT SELECT ON `rowlock`.`lock_grant` TO 'looker'@'localhost';
GRANT SELECT ON `rowlock`.`latch_down` TO 'looker'@'localhost';
GRANT SELECT ON `rowlock`.`lock_value` TO 'looker'@'localhost';
GRANT SELECT ON `rowlock`.`lock_ask` TO 'looker'@'localhost';
GRANT SELECT ON `rowlock`.`lock_session` TO 'looker'@'localhost';
GRANT SELECT ON `rowlock`.`once_run` TO 'looker'@'localhost';
GRANT SELECT ON `rowlock`.`lock_freeze` TO 'looker'@'localhost';
GRANT SELECT ON `rowlock`.`quorum_member` TO 'looker'@'localhost';
GRANT SELECT ON `rowlock`.`queue_item` TO 'looker'@'localhost';
GRANT SELECT ON `rowlock`.`queue_group` TO 'looker'@'localhost';

-- Only to see the waiters of other users (`rowlock ls`, `rowlock show`), and who waits for row locks.
-- GRANT PROCESS ON *.* TO 'looker'@'localhost';
-- The same on MySQL, also:
-- GRANT SELECT ON performance_schema.data_locks TO 'looker'@'localhost';
-- Only where `rowlock init --event` was run, to see its last run in `rowlock doctor`:
-- GRANT SELECT ON `rowlock`.sweep_event TO 'looker'@'localhost';

-- role: fencer
-- Runs `rowlock fence install`, and stays: the triggers run with its rights (in a cluster they also take
-- UPDATE (fence_count) on `resource`).
GRANT SELECT ON `rowlock`.* TO 'fencer'@'localhost';
-- For each table that is to be fenced, with its name and its schema's:
-- GRANT SELECT, TRIGGER ON `shop`.`invoice` TO 'fencer'@'localhost';

-- role: migrator
-- with: batch
-- Runs `rowlock migrate`: takes a lock, and needs in the schema that is migrated what its files need, and
-- these rights for the history (`rowlock grants --role=migrator --into=SCHEMA` fills that schema in):
-- GRANT SELECT, INSERT, UPDATE, DELETE, CREATE ON `shop`.* TO 'migrator'@'localhost';
-- All migrators should be one user: another one may not end their connections.
