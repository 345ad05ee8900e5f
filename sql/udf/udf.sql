-- Makes the functions of rowlock_udf.so known to the server, for every schema and user. Run it
-- as somebody with INSERT on the schema mysql, once the file is in the server's @@plugin_dir:
--
--     mysql < udf.sql
--
-- What they do: docs/udf.md. Before the file is replaced or removed: udf-remove.sql.
CREATE FUNCTION IF NOT EXISTS rowlock_udf_version RETURNS STRING SONAME 'rowlock_udf.so';
CREATE FUNCTION IF NOT EXISTS rowlock_uuid RETURNS STRING SONAME 'rowlock_udf.so';
CREATE FUNCTION IF NOT EXISTS rowlock_clock_us RETURNS INTEGER SONAME 'rowlock_udf.so';
CREATE FUNCTION IF NOT EXISTS rowlock_token_valid RETURNS INTEGER SONAME 'rowlock_udf.so';
CREATE FUNCTION IF NOT EXISTS rowlock_token_fresh RETURNS INTEGER SONAME 'rowlock_udf.so';
CREATE FUNCTION IF NOT EXISTS rowlock_name_valid RETURNS INTEGER SONAME 'rowlock_udf.so';
CREATE FUNCTION IF NOT EXISTS rowlock_name_problem RETURNS STRING SONAME 'rowlock_udf.so';
