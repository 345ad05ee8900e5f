-- 0011_quorum: this server as a member of a quorum of independent servers.
-- rowlock: breaking
-- rowlock: resumable
--
-- Each statement that gives a lease to a quorum, or renews one, has this row in its WHERE. No row: it votes for nobody.
CREATE TABLE IF NOT EXISTS quorum_member (
    id          TINYINT UNSIGNED NOT NULL PRIMARY KEY,
    -- the hash of number and members
    list        CHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    -- which list it is: one more with each change of it
    number      BIGINT UNSIGNED NOT NULL,
    -- how many members it has, and how each is told from others (as `server`), in byte order, a line each
    count       TINYINT UNSIGNED NOT NULL,
    members     VARCHAR(4000) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    -- on which server this row was written: another one has a copy of it, and votes for nobody
    server      VARCHAR(400) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    state       ENUM('voting', 'closed') CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    -- no lease has a longer TTL
    ttl_most_us BIGINT UNSIGNED NOT NULL,
    -- since it has rejoined: it may have given leases before that it does not know of
    votes_from  DATETIME(6) NOT NULL
) ENGINE = InnoDB COMMENT = 'rowlock: the quorum that this server is a member of';
