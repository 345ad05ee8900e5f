-- The installer of the stored procedures (sql/procedures/).

-- What is there of rowlock's, and the statement that drops it. The comment has the program's
-- version, and a checksum of the text.
-- name: routine_list
-- columns: name text(256), comment text(256), drop_text text(400)
SELECT routine_name, routine_comment,
       CONCAT('DROP ', routine_type, ' IF EXISTS `', routine_name, '`')
  FROM information_schema.routines
 WHERE routine_schema = DATABASE()
   AND routine_comment LIKE 'rowlock %'
   AND (routine_name LIKE 'rowlock$_%' ESCAPE '$' OR routine_name LIKE 'rl$_%' ESCAPE '$')
 ORDER BY routine_name;
