-- The installer of the stored procedures (sql/procedures/).

-- Rowlock's routines that exist, and the statements that drop them. A routine's comment has the program's version and a checksum
-- of the text.
-- name: routine_list
-- columns: name text(256), comment text(256), drop_text text(400)
SELECT routine_name, routine_comment,
       CONCAT('DROP ', routine_type, ' IF EXISTS `', routine_name, '`')
  FROM information_schema.routines
 WHERE routine_schema = DATABASE()
   AND routine_comment LIKE 'rowlock %'
   AND (routine_name LIKE 'rowlock$_%' ESCAPE '$' OR routine_name LIKE 'rl$_%' ESCAPE '$')
 ORDER BY routine_name;

-- The rights on a routine: MySQL deletes them when the routine is dropped. Not every user may read them.
-- name: routine_grants
-- params: name text
-- columns: grant_text text(1000)
SELECT CONCAT('GRANT ', REPLACE(TRIM(BOTH ',' FROM REPLACE(CONCAT(',', proc_priv, ','), ',Grant,', ',')),
                                ',', ', '),
              ' ON PROCEDURE `', db, '`.`', routine_name, '` TO ', QUOTE(user), '@', QUOTE(host),
              IF(FIND_IN_SET('Grant', proc_priv), ' WITH GRANT OPTION', ''))
  FROM mysql.procs_priv
 WHERE db = DATABASE()
   AND routine_name = :name
   AND routine_type = 'PROCEDURE'
   AND proc_priv NOT IN ('', 'Grant');
