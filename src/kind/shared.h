/* kind/shared.h - a lease that is held together with others (readers), and how a writer comes after
 * them. */
#ifndef RL_KIND_SHARED_H
#define RL_KIND_SHARED_H

#include "engine/acquire.h"

/* `take` is UNSUPPORTED where rl_shared_check() is. */
extern const rl_driver rl_shared_driver;
/* Its parts, for other holds that are rows of lock_grant. */
rowlock_status rl_shared_leave(rl_departure *d, rl_conn *conn, bool has_bell, rl_done *done,
                               rowlock_error *err) RL_MUST_USE;
void rl_shared_ended(const rl_departure *d);

/* UNSUPPORTED where other nodes write too. */
rowlock_status rl_shared_check(const rowlock_client *client, rowlock_error *err) RL_MUST_USE;

/*
 * A step of the writer's: closes the name for new readers, unless it has done so, and looks whether
 * one is still in. OK: none is, nor can one come. BUSY: try again, by a->hint_us; or it is
 * another's turn. UNAVAILABLE: nothing is known.
 */
rowlock_status rl_shared_drain(rl_acquisition *a, const rl_seen *seen,
                               rowlock_error *err) RL_MUST_USE;

/* The hold of a reader, to be held alone. DEADLOCK: another one waits to have it so. */
rowlock_status rl_shared_upgrade(rowlock_hold *hold, const rl_budget *budget,
                                 rowlock_error *err) RL_MUST_USE;
/* And back, with the same token. */
rowlock_status rl_shared_downgrade(rowlock_hold *hold, rowlock_error *err) RL_MUST_USE;

/* The writer gives up: readers may enter again. Best effort: else they may once its expiry is over.
 */
void rl_shared_reopen(rl_acquisition *a);

/*
 * Makes a name free that was shared, if no reader is in: a section wants it. OK also if another
 * client has changed it: look again. BUSY: a reader is in.
 */
rowlock_status rl_shared_make_free(rowlock_client *client, const rl_budget *budget,
                                   const char *name, uint64_t id, uint64_t version,
                                   rowlock_error *err) RL_MUST_USE;

#endif
