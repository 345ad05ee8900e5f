-- Working through procedures, for a user that has the right EXECUTE alone.
--
-- A statement marked `-- via:` has a procedure rl_via_<name> with its parameters and results; for a change it returns one row:
-- how many rows it changed, and LAST_INSERT_ID(). cmake/via_procedures.awk makes those marked `own` (each is a transaction of its
-- own); those `by hand` are in sql/procedures/via.sql.

-- The number of the statements from which the procedures were made; this program's is RL_VIA_STAMP.
-- name: via_stamp
-- via: by hand
-- columns: stamp u64
SELECT 0;

-- Stops the statement on the connection that has this key (session_key in sql/session.sql).
-- name: via_kill_query
-- kind: text
-- via: by hand
-- params: key text
DO IS_USED_LOCK(:key);

-- Ends that connection. 0: it has ended already, and its statement is done or undone.
-- name: via_kill_connection
-- via: by hand
-- params: key text
-- columns: connection_id u64
SELECT COALESCE(IS_USED_LOCK(:key), 0);

-- Breaks the lock, as `by` ("who: why"), if it has that token (0: any). It needs the right to rowlock_break, or
-- rowlock_break_now.
-- name: via_break
-- via: by hand
-- params: name text, by text, now u64, token u64
DO :name, :by, :now, :token;
