/* keep/held.h - what the keeper knows of one hold, and until when the lock is known to be held. */
#ifndef RL_KEEP_HELD_H
#define RL_KEEP_HELD_H

#include <stdatomic.h>

#include "db/pool.h"

typedef struct rl_held rl_held;

/* By which statement it is renewed. */
typedef enum rl_kept { RL_KEPT_ALONE, RL_KEPT_SHARED, RL_KEPT_ITEM, RL_KEPTS } rl_kept;

/* One of a hold's names, and the last ask for it (sql/ask.sql). */
typedef struct rl_askable {
    uint64_t id;
    uint64_t version;
    uint64_t heard; /* the number of the last ask that was told; 0: none */
    bool due;       /* there is another one, to be read and told */
} rl_askable;

/* An ask. */
typedef struct rl_ask {
    uint64_t number;
    int64_t stop_us; /* until when, by the local clock */
    char by[ROWLOCK_LABEL_MAX + 1];
    char reason[ROWLOCK_LABEL_MAX + 1];
    char asked_at[32]; /* and by the server's, as text */
    char stop_by[32];
} rl_ask;

typedef struct rl_held_list {
    rl_held *first;
    rl_held *last;
} rl_held_list;

struct rl_held {
    rl_held_list *list; /* of the keeper's, the one it is in; NULL: none */
    rl_held *next;
    rl_held *previous;
    uint64_t key; /* unique in this keeper, also after it has left its care; 0: never in it */
    size_t slot;  /* its place in what the keeper looks at, or renews, now; 0 of a watch: none */
    /* lease */
    uint64_t resource_id; /* RL_KEPT_ITEM: the item's id, and its token */
    uint64_t version;
    rl_kept kept;
    const char *owner; /* the hold's */
    int64_t end_us;    /* of max_hold; RL_NEVER */
    uint64_t attempt;  /* the last renewal it was a part of */
    /* row lock: the connection that holds it, else NULL */
    rl_conn *conn;
    int64_t ping_sent_us;
    int64_t watch_from_us; /* before, its socket is not looked at */
    int64_t look_at_us;    /* when it is looked at for asks; RL_NEVER: it is not */
    /* both */
    uint64_t identity; /* of the server that granted it (rl_server) */
    int64_t ttl_us;
    int64_t long_at_us;          /* when on_long() is called, with the keeper's mutex; RL_NEVER */
    int64_t next_beat_us;        /* of the next renewal or ping */
    int64_t renewed_us;          /* when the last one that was good was sent */
    int64_t gap_us;              /* the longest time between two */
    _Atomic int64_t deadline_us; /* no other client can have it before; 0: lost for good */
    atomic_bool lost;
    char reason[200];
    _Atomic int event_fd; /* -1 until the caller asks for it */
    void (*on_long)(rl_held *held);
    void (*on_lost)(rl_held *held, const char *reason);
    rl_askable *asks; /* so many names */
    size_t ask_count;
    /* False: the hold cannot be told yet. It may be released in the meantime. */
    bool (*on_ask)(rl_held *held, size_t i, const rl_ask *ask);
};

/* How far ahead of the server's deadline the holder is told. */
int64_t rl_margin_us(int64_t ttl_us);

/* It is held: a good reply to a request sent at `sent_us`. */
void rl_held_start(rl_held *held, int64_t sent_us, int64_t ttl_us);

/* The same of one that was held already. False: its time is over. */
bool rl_held_prolong(rl_held *held, int64_t sent_us, int64_t ttl_us);

/* Is its deadline past? Then for good: once reported, a loss is never taken back. */
bool rl_held_over(rl_held *held);

/* After a look at `now`, when a row lock is looked at for asks the next time. */
int64_t rl_held_next_look(const rl_held *held, int64_t now);

void rl_held_put_first(rl_held_list *list, rl_held *held);
void rl_held_put_last(rl_held_list *list, rl_held *held);
void rl_held_take_out(rl_held *held);

static inline int64_t rl_earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

#endif
