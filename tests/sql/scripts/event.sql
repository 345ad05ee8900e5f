# A lock in an EVENT: what it is for, a job of the server's own that is not to run twice.
# own server
a> CREATE TABLE done (id INT AUTO_INCREMENT PRIMARY KEY, token BIGINT UNSIGNED, was VARCHAR(200)) ENGINE = InnoDB;
a> CREATE PROCEDURE job()
   BEGIN
       DECLARE token BIGINT UNSIGNED;
       DECLARE EXIT HANDLER FOR SQLSTATE 'RLBSY' INSERT INTO done (was) VALUES ('skipped');
       CALL rowlock_acquire('event', 30, 0, token);
       INSERT INTO done (token, was) VALUES (token, 'ran');
       CALL rowlock_release('event', token);
   END;
a> SET GLOBAL event_scheduler = ON;
c! acquire event lease
= OK, token 1
a> CREATE EVENT job ON SCHEDULE EVERY 1 SECOND DO CALL job();
until a> SELECT COUNT(*) >= 1 FROM done WHERE was = 'skipped';
c! release event
= OK
until a> SELECT COUNT(*) >= 2 FROM done WHERE was = 'ran';
a> DROP EVENT job;
until a> SELECT COUNT(*) = 0 FROM /*M! information_schema.processlist */ /*!80000 performance_schema.processlist */ WHERE info LIKE '%CALL job()%' AND id <> CONNECTION_ID();
# (The library writes its part of the history a little later.)
until a> SELECT COUNT(*) > 0 FROM lock_event WHERE resource_name = 'event' AND owner_label = 'c';
a> SELECT COUNT(*) > 0, COUNT(*) - COUNT(DISTINCT token) FROM done WHERE token IS NOT NULL;
= 1 | 0
a> SELECT DISTINCT REGEXP_REPLACE(owner_label, '[0-9]+', 'N') FROM lock_event WHERE resource_name = 'event' ORDER BY 1;
= c
= event_scheduler@localhost N sql
