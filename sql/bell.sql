-- The bell: how waiters of a lease are woken. It is a named lock of the server (GET_LOCK), which keeps its waiters in the order
-- in which they came. The connection that has the bell is that of the lease's holder, or of the first waiter. It proves nothing:
-- a waiter that has the bell still has to swap the row.
-- A name is `rowlock.<schema>.<id>`; the server's limit is 64 characters. (Names with a '=' are waivers: see lease_waive in
-- sql/lease.sql.)

-- A waiter stands in this statement. It is sent as text, so that the process list shows its values (only MySQL shows those of a
-- prepared statement): `rowlock ls` reads there who waits, and since when. `label` is in hexadecimal.
-- name: bell_wait
-- kind: text
-- params: bell text, seconds u64, resource_id u64, waited_ms u64, owner text, label text
SELECT GET_LOCK(:bell, :seconds), 'rowlock-waiter', :resource_id, :waited_ms, :owner, :label;

-- Takes the bell for a lease that was taken without it. A waiter may have it by then.
-- name: bell_take
-- params: bell text, id u64
-- columns: got u64
SELECT COALESCE(GET_LOCK(CONCAT(:bell, :id), 0), 0);

-- Rings: the first waiter gets the bell.
-- name: bell_ring
-- params: bell text, id u64
DO RELEASE_LOCK(CONCAT(:bell, :id));

-- The connection that has the bell; 0: none.
-- name: bell_holder
-- params: bell text, id u64
-- columns: connection_id u64
SELECT COALESCE(IS_USED_LOCK(CONCAT(:bell, :id)), 0);

-- The same, if that connection has run no statement for so long: one that does is alive. 0 also if it is another user's, whose
-- connections this user may not see.
-- name: bell_sleeper
-- params: bell text, id u64, asleep_s u64
-- columns: connection_id u64
SELECT COALESCE(MAX(p.id), 0) FROM /*M! information_schema.processlist p */ /*!80000 performance_schema.processlist p */
 WHERE p.id = IS_USED_LOCK(CONCAT(:bell, :id)) AND p.command = 'Sleep' AND p.time >= :asleep_s;
