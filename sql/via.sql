-- Working through procedures: a user who may EXECUTE and nothing else.
--
-- A statement marked `-- via:` has a procedure rl_via_<name> with its parameters, which answers as it
-- does; one that changes something answers one row, how many rows it changed and LAST_INSERT_ID().
-- cmake/via_procedures.awk makes those marked `own` (each is a transaction of its own); those
-- `by hand` are in sql/procedures/via.sql.

-- Which statements the procedures were made from: a number that is this program's, too
-- (RL_VIA_STAMP).
-- name: via_stamp
-- via: by hand
-- columns: stamp u64
SELECT 0;

-- Stops what runs on the connection that has this key (session_key in sql/session.sql).
-- name: via_kill_query
-- kind: text
-- via: by hand
-- params: key text
DO IS_USED_LOCK(:key);

-- Ends it. 0: it has gone already, and whatever it was asked for is done or undone.
-- name: via_kill_connection
-- via: by hand
-- params: key text
-- columns: connection_id u64
SELECT COALESCE(IS_USED_LOCK(:key), 0);

-- Takes the lock away from its holder, as `by` ("who: why"), if its token is that one (0: whoever it is). By the same
-- rights as rowlock_break, or rowlock_break_now.
-- name: via_break
-- via: by hand
-- params: name text, by text, now u64, token u64
DO :name, :by, :now, :token;
