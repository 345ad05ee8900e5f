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

/* INVALID where the caller gave no place for what a call makes: "the hold". */
rowlock_status rl_place_check(const void *place, const char *what, rowlock_error *err) RL_MUST_USE;

/* Checks a wait, a TTL, ... and fills defaults in. */
rowlock_status rl_options_acquire(const rowlock_acquire_options *options,
                                  rowlock_acquire_options *checked, rowlock_error *err) RL_MUST_USE;

#endif
