-- 0012_queue: queues of work.
-- rowlock: breaking
-- rowlock: resumable
--
-- An item is to be had when it is `alive` and ready_at is past: a new one, one that is delayed, one that is tried again, and one whose
-- worker was lost are all the same. Whoever takes it sets ready_at to the end of its lease, and raises the token.

CREATE TABLE IF NOT EXISTS queue_item (
    id            BIGINT UNSIGNED NOT NULL AUTO_INCREMENT,
    queue_id      BIGINT UNSIGNED NOT NULL,
    -- behind: an earlier item of its group is there
    state         ENUM('alive', 'behind', 'dead') CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    -- 9 - priority: what comes first is lower
    lane          TINYINT UNSIGNED NOT NULL,
    -- in flight: until when the lease runs; dead: since when
    ready_at      DATETIME(6) NOT NULL,
    -- was taken, and not given back since: it is in flight until ready_at
    taken         TINYINT UNSIGNED NOT NULL DEFAULT 0,
    token         BIGINT UNSIGNED NOT NULL DEFAULT 0,
    attempts      INT UNSIGNED NOT NULL DEFAULT 0,
    attempts_most INT UNSIGNED NOT NULL,
    -- of the last worker
    owner         VARCHAR(63) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '',
    owner_label   VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT '',
    -- '=' and the user's key; else '.' and the id of the call that put it, by which a put whose reply was lost finds it
    item_key      VARCHAR(256) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    -- 0; dead: the id, so that its key is free for another item
    grave         BIGINT UNSIGNED NOT NULL DEFAULT 0,
    group_key     VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
    created_at    DATETIME(6) NOT NULL,
    last_error    VARCHAR(1000) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT '',
    payload       LONGBLOB NOT NULL,
    PRIMARY KEY (id),
    KEY by_ready (queue_id, state, lane, ready_at, id, taken),
    UNIQUE KEY by_key (queue_id, item_key, grave),
    KEY by_group (queue_id, group_key, state, id)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC COMMENT = 'rowlock: items of queues';

-- A group that has items which are not dead. Each put and each end of an item of it writes this row first, so that one comes
-- after the other: a put sees the item before it, and an end the one behind it.
CREATE TABLE IF NOT EXISTS queue_group (
    queue_id  BIGINT UNSIGNED NOT NULL,
    group_key VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    -- the item that is alive; 0: only while the row is being made
    head      BIGINT UNSIGNED NOT NULL DEFAULT 0,
    changes   BIGINT UNSIGNED NOT NULL DEFAULT 0,
    PRIMARY KEY (queue_id, group_key)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC COMMENT = 'rowlock: whose turn it is in a group of a queue';
