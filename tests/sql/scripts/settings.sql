# Whatever the session is set to, a procedure does the same, and leaves the settings as they are.

# sql_mode
a> SET sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES,PIPES_AS_CONCAT,IGNORE_SPACE,NO_ZERO_DATE,STRICT_ALL_TABLES';
a> CALL rowlock_acquire('it''s a \ name', 30, 0, @t);
a> CALL rowlock_try('it''s a \ name', 30, @u);
a> CALL rowlock_renew('it''s a \ name', @t, 40);
a> CALL rowlock_release('it''s a \ name', @t);
b> CALL rowlock_check('it''s a \\ name', 1);
= ERROR RLLST: 'it's a \ name' is not held with token 1 any more; stop this work
a> SELECT @t, @u, HEX(resource_name) FROM resource;
= 1 | NULL | 697427732061205C206E616D65
a> SET sql_mode = '';
a> CALL rowlock_acquire('lax', 30, 0, @t);
a> CALL rowlock_release('lax', @t);
a> SET sql_mode = DEFAULT;

# Collations and character sets that call everything equal, or have no letters at all
a> SET NAMES utf8mb4 COLLATE utf8mb4_unicode_ci;
a> CALL rowlock_acquire('Case', 30, 0, @t);
a> CALL rowlock_acquire('case', 30, 0, @u);
a> CALL rowlock_release('case', @u);
a> CALL rowlock_release('Case', @t);
a> SET NAMES utf8mb4, collation_connection = utf16_general_ci;
a> CALL rowlock_acquire('16', 30, 0, @t);
a> CALL rowlock_check('16', @t);
a> CALL rowlock_release('16', @t);
a> CALL rowlock_check('16', @t);
= ERROR RLLST: '16' is not held with token 1 any more; stop this work
a> SET character_set_client = latin1, character_set_results = NULL, collation_connection = ascii_bin;
a> CALL rowlock_acquire('ascii', 30, 0, @t);
a> CALL rowlock_release('ascii', @t);
a> SET NAMES utf8mb4;

# What a client may do to its own statements
a> SET autocommit = 0, completion_type = 'CHAIN';
a> CALL rowlock_acquire('chain', 30, 0, @t);
a> CALL rowlock_try('chain', 30, @u);
a> CALL rowlock_release('chain', @t);
a> COMMIT AND NO CHAIN;
a> SET completion_type = 'RELEASE';
a> CALL rowlock_acquire('chain', 30, 0, @t);
a> CALL rowlock_renew('chain', @t, 30);
a> CALL rowlock_release('chain', @t);
a> COMMIT AND NO CHAIN NO RELEASE;
a> SELECT @t, @u, @@autocommit, @@completion_type;
= 2 | NULL | 0 | RELEASE
a> SET autocommit = 1, completion_type = DEFAULT;
a> SET sql_safe_updates = 1, sql_select_limit = 0, sql_big_selects = 0, max_join_size = 1, unique_checks = 0, foreign_key_checks = 0;
a> CALL rowlock_acquire('safe', 30, 0, @t);
a> CALL rowlock_renew('safe', @t, 30);
a> CALL rowlock_check('safe', @t);
a> CALL rowlock_present('safe', @t);
a> START TRANSACTION;
a> CALL rowlock_fence('safe', @t);
a> COMMIT;
a> CALL rowlock_release('safe', @t);
a> CALL rowlock_version('safe v', @v);
a> CALL rowlock_bump('safe v', @v);
a> CALL rowlock_acquire('safe', 30, 0, @t);
a> CALL rowlock_break('safe');
b> SELECT COUNT(*) FROM lock_event WHERE resource_name = 'safe';
= 4
a> SET sql_select_limit = DEFAULT, sql_big_selects = DEFAULT, max_join_size = DEFAULT, sql_safe_updates = DEFAULT;
a> SELECT @t, @@unique_checks, @@foreign_key_checks;
= 2 | 0 | 0
a> SET unique_checks = 1, foreign_key_checks = 1;
a> SET max_error_count = 0, sql_warnings = 1, sql_notes = 0;
a> CALL rowlock_acquire('count', 30, 0, @t);
b> CALL rowlock_acquire('count', 30, 0, @u);
= ERROR RLBSY: 'count' is held (token 1, lease ends in N s) by root@localhost N sql
a> CALL rowlock_release('count', @t);
a> CALL rowlock_release('count', @t);
= ERROR RLLST: 'count' is not held with token 1 any more; stop this work
a> SET max_error_count = DEFAULT;
a> SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE;
a> CALL rowlock_acquire('serial', 30, 0, @t);
b& CALL rowlock_acquire('serial', 30, 60, @t);
until b waits
a> CALL rowlock_release('serial', @t);
b<
b> CALL rowlock_release('serial', @t);
a> SELECT status, version FROM resource WHERE resource_name = 'serial';
= free | 2
a> SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ;

# A session that may only read takes nothing.
a> SET SESSION TRANSACTION READ ONLY;
a> CALL rowlock_acquire('only', 30, 0, @t);
= ERROR 25006 (1792)
a> SET SESSION TRANSACTION READ WRITE;
a> CALL rowlock_try('only', 30, @t);
a> CALL rowlock_release('only', @t);

# What it last inserted is its own.
a> CREATE TABLE mine (id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY) ENGINE = InnoDB;
a> INSERT INTO mine VALUES (), ();
a> CALL rowlock_acquire('wished', 30, 0, @t);
a> SELECT LAST_INSERT_ID();
= 1
a> CALL rowlock_release('wished', @t);
a> SELECT LAST_INSERT_ID(), ROW_COUNT() IS NOT NULL;
= 1 | 1

# An id that it wishes for its next row is for its own: one at the end of the range would be the last.
a> SET insert_id = 18446744073709551614;
a> CALL rowlock_acquire('new', 30, 0, @t);
= ERROR RLINV: 'new': insert_id is set in this session; do the INSERT that it is for first
a> CALL rowlock_try('new', 30, @t);
= ERROR RLINV: 'new': insert_id is set in this session; do the INSERT that it is for first
a> CALL rowlock_version('new', @v);
= ERROR RLINV: 'new': insert_id is set in this session; do the INSERT that it is for first
a> CALL rowlock_row_make('new');
= ERROR RLINV: 'new': insert_id is set in this session; do the INSERT that it is for first
b> CALL rowlock_acquire('wished', 30, 0, @t);
a> CALL rowlock_release('wished', 1);
= ERROR RLINV: 'wished': insert_id is set in this session; do the INSERT that it is for first
a> CALL rowlock_break('wished');
= ERROR RLINV: 'wished': insert_id is set in this session; do the INSERT that it is for first
a> INSERT INTO mine VALUES ();
a> SELECT MAX(id) FROM mine;
= 18446744073709551614
b> CALL rowlock_release('wished', @t);
a> SELECT (SELECT MAX(id) FROM resource) < 1000, (SELECT MAX(id) FROM lock_event) < 1000;
= 1 | 1

# Without checks two may make a name at the same moment: it is one row all the same.
b> SET unique_checks = 0, foreign_key_checks = 0;
c> SET unique_checks = 0, foreign_key_checks = 0;
a> START TRANSACTION;
a> INSERT INTO resource (resource_name, kind, version, update_time) VALUES ('at once', 'optimistic', 0, UTC_TIMESTAMP(6));
b& CALL rowlock_version('at once', @v);
until b waits
c& CALL rowlock_version('at once', @v);
until c waits
a> ROLLBACK;
b<
c<
a> SELECT COUNT(*) FROM resource WHERE resource_name LIKE '%at once';
= 1
b> SELECT @@unique_checks, @@foreign_key_checks;
= 0 | 0
