/* migrate/advice.h - the commands that messages about users' migrations tell people to run. They
 * can be pasted into a shell, and lead to the same server, lock, history and folder. */
#ifndef RL_MIGRATE_ADVICE_H
#define RL_MIGRATE_ADVICE_H

#include <stdbool.h>
#include <stddef.h>

/* In a rowlock_error's message other words need room, too. */
#define RL_ADVICE_SIZE 320

/* Quoted for a shell. */
typedef struct rl_advice {
    char *program; /* "rowlock -h db1" */
    char *lock;    /* "migrate:shop" */
    char *where;   /* "--into=shop db/migrations" */
} rl_advice;

/* The strings as they are; `words` end with a NULL. `into` and what follows go into `where`; NULL
 * where not given. False: out of memory. Free it in both cases. */
bool rl_advice_make(rl_advice *advice, const char *const *words, const char *lock_name,
                    const char *into, const char *lock, const char *table, const char *folder);
void rl_advice_free(rl_advice *advice);

/*
 * "`rowlock -h db1 migrate WHAT --into=shop db/migrations`", where it fits; else, or without an
 * advice, WHAT alone and what belongs to it in words. Returns `to`.
 */
const char *rl_advise(const rl_advice *advice, char *to, size_t size, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* The same as "`rowlock -h db1 VERB`", `of_lock`: as "`rowlock -h db1 VERB migrate:shop`". */
const char *rl_advise_verb(const rl_advice *advice, char *to, size_t size, const char *verb,
                           bool of_lock);

#endif
