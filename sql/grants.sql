-- The least that works, for people to edit and run as an administrator: put your schema's name
-- for `rowlock`, and your users for these.

-- Whoever takes locks, lists them, or sweeps.
GRANT SELECT, INSERT, UPDATE, DELETE ON `rowlock`.* TO 'batch'@'localhost';

-- Whoever runs `rowlock init`, too.
GRANT CREATE, ALTER, DROP, INDEX ON `rowlock`.* TO 'rowlock_admin'@'localhost';
GRANT SELECT, INSERT, UPDATE, DELETE ON `rowlock`.* TO 'rowlock_admin'@'localhost';
