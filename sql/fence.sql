-- Fences on tables: triggers that refuse a write by a session that has not presented the token of the lock's present holder. Only
-- the triggers say what is fenced, so no table of ours can disagree with them.

-- The table by its exact name (MariaDB's information_schema takes 'T' for 't').
-- name: fence_table
-- params: table_schema text, table_name text
-- columns: table_schema text(256), table_name text(256), table_type text(64), is_own u64
SELECT t.table_schema, t.table_name, t.table_type,
       t.table_schema = DATABASE()
       AND CAST(t.table_name AS BINARY) IN ({{lock_tables}}, 'rowlock_schema_version', 'sweep_event')
  FROM information_schema.tables t
 WHERE t.table_schema = :table_schema
   AND t.table_name = :table_name
   AND (@@lower_case_table_names <> 0
        OR (CAST(t.table_schema AS BINARY) = CAST(:table_schema AS BINARY) AND CAST(t.table_name AS BINARY) = CAST(:table_name AS BINARY)));

-- Its triggers, rowlock's and others, in the order in which they run.
-- name: fence_triggers
-- params: table_schema text, table_name text
-- columns: trigger_name text(256), event text(8), timing text(8), marker text(4096), of_schema text(256), lock_name text(1020)
SELECT m.trigger_name, m.event, m.timing, m.marker, {{fence_marks}}
  FROM (SELECT t.trigger_name, t.event_manipulation AS event, t.action_timing AS timing, t.action_order,
               IF(LOCATE('DECLARE rowlock_fence VARCHAR(4096) CHARACTER SET ascii DEFAULT ', t.action_statement) > 0,
                  {{fence_marker}}, '') AS marker
          FROM information_schema.triggers t
         WHERE t.event_object_schema = :table_schema
           AND t.event_object_table = :table_name
           AND (@@lower_case_table_names <> 0
                OR (CAST(t.event_object_schema AS BINARY) = CAST(:table_schema AS BINARY)
                    AND CAST(t.event_object_table AS BINARY) = CAST(:table_name AS BINARY)))) AS m
 ORDER BY m.action_order;

-- All fences of this server, also those of another rowlock schema (the marker names it).
-- name: fence_list
-- columns: table_schema text(256), table_name text(256), event text(8), definer text(512), of_schema text(256), lock_name text(1020)
SELECT m.table_schema, m.table_name, m.event, m.definer, {{fence_marks}}
  FROM (SELECT t.event_object_schema AS table_schema, t.event_object_table AS table_name,
               t.event_manipulation AS event, t.definer, {{fence_marker}} AS marker
          FROM information_schema.triggers t
         WHERE LOCATE('DECLARE rowlock_fence VARCHAR(4096) CHARACTER SET ascii DEFAULT ', t.action_statement) > 0) AS m
 ORDER BY CAST(m.table_schema AS BINARY), CAST(m.table_name AS BINARY), m.event;

-- Prepared, but never run, to check that the trigger may read the row and, in a cluster, write it: it runs with the rights of the
-- account that makes it.
-- name: fence_may_read
-- params: name text
-- columns: version u64
SELECT version FROM resource WHERE resource_name = :name;

-- name: fence_may_write
-- params: name text
UPDATE resource SET fence_count = fence_count + 1 WHERE resource_name = :name AND status = 'held';

-- The trigger, in parts: head, one of the two checks, end. The first check reads the lock's row under a shared lock: so it reads
-- what is committed, whatever the transaction's snapshot is, and a take-over waits until this transaction has ended. Several
-- sessions of one holder do not wait for each other. Renewals write another row.
--
-- `marker` names schema and lock; `presented_as` is the place where rowlock_present() has put the token in the session's
-- variable. It is compared as bytes, so that no value there raises another error. A message has at most 128 characters on MySQL.
-- name: fence_guard
-- kind: text
-- params: at name, trigger_name name, event word, of name, order word, other name, marker text, lock_hex text, table_hex text, schema_hex text, presented_as text
-- ends: $$
CREATE TRIGGER :at.:trigger_name BEFORE :event ON :at.:of FOR EACH ROW :order :other
BEGIN
    DECLARE rowlock_fence VARCHAR(4096) CHARACTER SET ascii DEFAULT :marker;
    DECLARE the_lock VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin
        DEFAULT CONVERT(X:lock_hex USING utf8mb4);
    DECLARE the_table VARCHAR(160) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin
        DEFAULT CONVERT(X:table_hex USING utf8mb4);
    DECLARE the_schema VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin
        DEFAULT CONVERT(X:schema_hex USING utf8mb4);
    -- Converted, since MySQL goes by the type that the variable had at the session's first use of
    -- this trigger.
    DECLARE presented LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin
        DEFAULT IF(JSON_VALID(CONVERT(@rowlock_presented USING utf8mb4)),
                   JSON_UNQUOTE(JSON_EXTRACT(CONVERT(@rowlock_presented USING utf8mb4),
                                             CONCAT('$."', :presented_as, '"'))), NULL);
    DECLARE passed INT DEFAULT 0;
    DECLARE problem VARCHAR(512) CHARACTER SET utf8mb4;
    IF presented IS NULL THEN
        SET problem = LEFT(CONCAT('''', LEFT(the_table, 20), ''' is fenced by lock ''', LEFT(the_lock, 26),
                                  ''': CALL ', the_schema, '.rowlock_present(name, token)'), 128);
        SIGNAL SQLSTATE 'RLLST' SET MESSAGE_TEXT = problem;
    END IF;
$$

-- name: fence_guard_reading
-- kind: text
-- ends: $$
    SET passed = COALESCE((SELECT r.status = 'held'
                                  AND CAST(r.version AS BINARY) = CAST(presented AS BINARY)
                             FROM {schema}.resource r
                            WHERE r.resource_name = the_lock
                             LOCK IN SHARE MODE), 0);
$$

-- The check for a cluster with several writers: each node has row locks of its own, and only writes are certified. Sessions of
-- one holder wait for each other.
-- name: fence_guard_writing
-- kind: text
-- ends: $$
    UPDATE {schema}.resource r
       SET r.fence_count = r.fence_count + 1
     WHERE r.resource_name = the_lock
       AND r.status = 'held'
       AND CAST(r.version AS BINARY) = CAST(presented AS BINARY);
    SET passed = ROW_COUNT();
$$

-- name: fence_guard_end
-- kind: text
-- ends: $$
    IF passed < 1 THEN
        SET problem = CONCAT('lock ''', LEFT(the_lock, 26), ''' is not held with token ',
                             LEFT(presented, 20), ': ''', LEFT(the_table, 20),
                             ''' is not written; roll back');
        SIGNAL SQLSTATE 'RLLST' SET MESSAGE_TEXT = problem;
    END IF;
END
$$

-- name: fence_drop
-- kind: text
-- params: at name, trigger_name name
DROP TRIGGER IF EXISTS :at.:trigger_name;
