-- Takes away what udf.sql made. Statements that are using a function finish; with the last of
-- them the server lets go of rowlock_udf.so, and only then may the file be replaced.
DROP FUNCTION IF EXISTS rowlock_udf_version;
DROP FUNCTION IF EXISTS rowlock_uuid;
DROP FUNCTION IF EXISTS rowlock_clock_us;
DROP FUNCTION IF EXISTS rowlock_token_valid;
DROP FUNCTION IF EXISTS rowlock_token_fresh;
DROP FUNCTION IF EXISTS rowlock_name_valid;
DROP FUNCTION IF EXISTS rowlock_name_problem;
