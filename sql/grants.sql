-- The least that works, for people to edit and run as an administrator: put your schema's name
-- for `rowlock`, and your users for these.

-- CREATE USER 'batch'@'localhost' IDENTIFIED BY '…';
-- CREATE USER 'rowlock_admin'@'localhost' IDENTIFIED BY '…';

-- Whoever takes locks, lists them, or sweeps.
GRANT SELECT, INSERT, UPDATE, DELETE ON `rowlock`.* TO 'batch'@'localhost';

-- Whoever runs `rowlock init`, too.
GRANT CREATE, ALTER, DROP, INDEX ON `rowlock`.* TO 'rowlock_admin'@'localhost';
GRANT SELECT, INSERT, UPDATE, DELETE ON `rowlock`.* TO 'rowlock_admin'@'localhost';

-- Whoever is to `rowlock break` row locks that another user holds (on MySQL: CONNECTION_ADMIN).
-- GRANT CONNECTION ADMIN ON *.* TO 'rowlock_admin'@'localhost';

-- Whoever is to see the waiters of other users (`rowlock ls`, `rowlock show`), and who waits for
-- row locks. On MySQL also: GRANT SELECT ON performance_schema.data_locks TO ...
-- GRANT PROCESS ON *.* TO 'rowlock_admin'@'localhost';

-- In a MySQL replication group, for whoever takes leases: so that a lease outlives a failover within
-- the group. Without it each member is a server of its own.
-- GRANT SELECT ON performance_schema.replication_group_members TO 'batch'@'localhost';
