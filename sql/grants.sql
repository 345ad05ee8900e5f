-- The least that works, for people to edit and run as an administrator: put your schema's name
-- for `rowlock`, and your users for these. MariaDB and MySQL take the same statements, but where
-- it says so. The tests run as these users, and with the rights of who takes locks taken away one by one.
--
-- In this order: the users and what is for 'rowlock_admin', then `rowlock init` (and `rowlock init
-- --procedures`) as that user, or as an administrator, who needs none of it; then the rest, since rights
-- on tables need the tables. A later version's tables may need more; `rowlock doctor` says what is missing.

-- CREATE USER 'rowlock_admin'@'localhost' IDENTIFIED BY '…';
-- CREATE USER 'app'@'localhost' IDENTIFIED BY '…';
-- CREATE USER 'batch'@'localhost' IDENTIFIED BY '…';
-- CREATE USER 'sweeper'@'localhost' IDENTIFIED BY '…';
-- CREATE USER 'looker'@'localhost' IDENTIFIED BY '…';

-- Whoever runs `rowlock init`: makes the schema, the tables, and what later versions change.
GRANT CREATE, ALTER, SELECT, INSERT, UPDATE ON `rowlock`.* TO 'rowlock_admin'@'localhost';

-- Whoever runs `rowlock init --procedures`: they run with this user's rights, those above among them.
-- DELETE is for the sweep in an EVENT.
GRANT CREATE ROUTINE, ALTER ROUTINE, EXECUTE, DELETE ON `rowlock`.* TO 'rowlock_admin'@'localhost';

-- Here `rowlock init` is run, and `rowlock init --procedures`.

-- Whoever takes locks and is not to touch a table: EXECUTE alone (`rowlock init --procedures` first). In
-- SQL by CALL, in the library and the command with via=procedures. (What begins with rl_ runs with the
-- caller's own rights, or is the library's for such a user.) Who calls the procedures by hand can
-- take locks, and with rowlock_break take them away from others; see docs/security.md.
GRANT EXECUTE ON `rowlock`.* TO 'app'@'localhost';
-- Or on each procedure that it may call; without rowlock_break it takes no lock away from others:
-- GRANT EXECUTE ON PROCEDURE `rowlock`.`rowlock_acquire` TO 'app'@'localhost';
-- GRANT EXECUTE ON PROCEDURE `rowlock`.`rowlock_release` TO 'app'@'localhost';
-- and so on: _try, _renew, _check, _row_make, _row_lock, _version, _bump, _fence, _present.

-- Whoever takes locks (`rowlock run`, the library), in every mode; and sees who holds what.
-- Who may take a lease may also `rowlock break` one: both write the same row.
GRANT SELECT,
      INSERT (resource_name, kind, version, update_time),
      UPDATE (version, status, owner, owner_label, connection_id, acquired_at, lease_expires_at,
              not_before, fence_count, update_time)
   ON `rowlock`.`resource` TO 'batch'@'localhost';
GRANT SELECT, INSERT (id, resource_name, fenced, update_time), UPDATE (fenced)
   ON `rowlock`.`resource_lock` TO 'batch'@'localhost';
GRANT SELECT, INSERT (id), UPDATE (version, expires_at)
   ON `rowlock`.`lease_renewal` TO 'batch'@'localhost';
GRANT SELECT ON `rowlock`.`version_floor` TO 'batch'@'localhost';
GRANT SELECT ON `rowlock`.`rowlock_schema_version` TO 'batch'@'localhost';
GRANT INSERT ON `rowlock`.`lock_event` TO 'batch'@'localhost';

-- Whoever runs `rowlock sweep`: ends what the dead hold, forgets old history, purges old names.
GRANT SELECT, UPDATE, DELETE ON `rowlock`.`resource` TO 'sweeper'@'localhost';
GRANT SELECT, UPDATE, DELETE ON `rowlock`.`resource_lock` TO 'sweeper'@'localhost';
GRANT SELECT, UPDATE, DELETE ON `rowlock`.`lease_renewal` TO 'sweeper'@'localhost';
GRANT SELECT, UPDATE ON `rowlock`.`version_floor` TO 'sweeper'@'localhost';
GRANT SELECT ON `rowlock`.`rowlock_schema_version` TO 'sweeper'@'localhost';
GRANT SELECT, INSERT, DELETE ON `rowlock`.`lock_event` TO 'sweeper'@'localhost';

-- Whoever only looks: `rowlock ls`, `show` and `history`.
GRANT SELECT ON `rowlock`.`resource` TO 'looker'@'localhost';
GRANT SELECT ON `rowlock`.`resource_lock` TO 'looker'@'localhost';
GRANT SELECT ON `rowlock`.`lease_renewal` TO 'looker'@'localhost';
GRANT SELECT ON `rowlock`.`version_floor` TO 'looker'@'localhost';
GRANT SELECT ON `rowlock`.`rowlock_schema_version` TO 'looker'@'localhost';
GRANT SELECT ON `rowlock`.`lock_event` TO 'looker'@'localhost';

-- Whoever runs `rowlock fence install`, and stays: the triggers run with its rights (in a cluster they
-- also take UPDATE (fence_count) on `resource`). For each table that is to be fenced:
-- GRANT SELECT ON `rowlock`.* TO 'fencer'@'localhost';
-- GRANT SELECT, TRIGGER ON `shop`.`invoice` TO 'fencer'@'localhost';

-- Whoever runs `rowlock migrate`: what takes locks (above), and in the schema that is migrated what
-- its files need, and for the history:
-- GRANT SELECT, INSERT, UPDATE, DELETE, CREATE ON `shop`.* TO 'migrator'@'localhost';
-- All migrators should be one user: another one may not end their connections.

-- Not needed for locks, and not given here:
-- Whoever installs the event that sweeps (`rowlock init --event`), with whose rights it runs; and who may
-- see of its last run what `rowlock doctor` tells (the table is there once the event was installed).
-- GRANT EVENT, CREATE ROUTINE, ALTER ROUTINE, EXECUTE, DELETE, DROP ON `rowlock`.* TO 'rowlock_admin'@'localhost';
-- GRANT SELECT ON `rowlock`.sweep_event TO 'looker'@'localhost';
-- Whoever is to `rowlock break` row locks that another user holds (on MySQL: CONNECTION_ADMIN). PROCESS
-- shows it that the connection is the holder's, where that works through procedures.
-- GRANT CONNECTION ADMIN, PROCESS ON *.* TO 'rowlock_admin'@'localhost';
-- Whoever is to see the waiters of other users (`rowlock ls`, `rowlock show`), and who waits for
-- row locks. On MySQL also: GRANT SELECT ON performance_schema.data_locks TO ...
-- GRANT PROCESS ON *.* TO 'looker'@'localhost';

-- In a MySQL replication group, for whoever takes leases: so that a lease outlives a failover within
-- the group. Without it each member is a server of its own.
-- GRANT SELECT ON performance_schema.replication_group_members TO 'batch'@'localhost';
