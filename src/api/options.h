/* api/options.h - the caller's options, checked and made into what the layers below take. */
#ifndef RL_API_OPTIONS_H
#define RL_API_OPTIONS_H

#include "db/conn.h"
#include "rowlock/rowlock.h"

/* Resolves the URL and the members; *waiting is AUTO or POLL then. INVALID, SYSTEM. Free with
 * rl_params_free(). */
rowlock_status rl_options_params(const rowlock_client_options *options, rl_params *params,
                                 rowlock_waiting *waiting, rowlock_error *err) RL_MUST_USE;

/* The owner label: the given one, or user@host pid command. */
void rl_options_label(const char *given, char *label, size_t size);

/* How long a hold lasts that makes events in the history. */
int64_t rl_options_history_min_us(const rowlock_client_options *options);

/* INVALID where the caller gave no place for what a call makes: "the hold". */
rowlock_status rl_place_check(const void *place, const char *what, rowlock_error *err) RL_MUST_USE;

/* INVALID: "a TTL" of so many ms is not `least` to `most`. */
rowlock_status rl_range_check(const char *what, int64_t ms, int64_t least, int64_t most,
                              rowlock_error *err) RL_MUST_USE;

/* INVALID: "the schema" has not 1 to 64 letters, digits, _ or $. */
rowlock_status rl_plain_check(const char *what, const char *name, rowlock_error *err) RL_MUST_USE;
/* INVALID: the schema is the server's own. */
rowlock_status rl_schema_is_ours(const char *name, rowlock_error *err) RL_MUST_USE;

/* Checks a wait, a TTL, ... and fills defaults in. */
rowlock_status rl_options_acquire(const rowlock_acquire_options *options,
                                  rowlock_acquire_options *checked, rowlock_error *err) RL_MUST_USE;

#endif
