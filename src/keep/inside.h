/* keep/inside.h - the keeper's parts, for src/keep alone. All but the thread's own with the mutex.
 */
#ifndef RL_KEEP_INSIDE_H
#define RL_KEEP_INSIDE_H

#include "keep/keeper.h"

/* The room that is allocated at the start: the thread must work even when memory has run out. */
#define RL_KEEP_FEW 16

/* ------------------------------------------------------------------------- teller.c */

/* rowlock_hold_check() sees the loss at once; the callback comes later. */
void rl_mark_lost(rl_keeper *keeper, rl_held *held, const char *reason);
/* Its time is over. */
void rl_mark_expired(rl_keeper *keeper, rl_held *held, int64_t now);
/* A good reply to a request sent at `sent_us`, in time or too late. */
void rl_extend_in_time(rl_keeper *keeper, rl_held *held, int64_t sent_us, int64_t ttl_us);

/* True if a hold is to be told and there is no thread for it: the caller then calls
 * rl_teller_send(). */
bool rl_teller_missing(rl_keeper *keeper);
/* Without the mutex, as the next. */
void rl_teller_send(rl_keeper *keeper);
void rl_teller_join(rl_keeper *keeper);

/* pthread_create(); a host's signal handlers are not to run in a thread of ours. */
int rl_thread_make(pthread_t *thread, void *(*function)(void *), void *arg);

/* Around the callback of a hold: see the .c file. */
void rl_teller_begin(rl_keeper *keeper, const rl_held *held);
void rl_teller_end(rl_keeper *keeper);

/* --------------------------------------------------------------------------- asks.c */

/* `number`: the last ask for the name; 0: there is none. A holder that was not told of it will be.
 */
void rl_ask_note(rl_keeper *keeper, rl_askable *name, uint64_t number);
/* The teller's: tells of one that is due, or finds out that there is none: false. */
bool rl_ask_tell(rl_keeper *keeper);
/* Looks at row locks for asks. Without the mutex; the statement waits in `wait`. */
void rl_asks_look(rl_keeper *keeper, const rl_io *how);

/* -------------------------------------------------------------------------- watch.c */

/* Begins its ping if that is due; when it is due next, or to be watched. It may be lost then. */
int64_t rl_watch_due(rl_keeper *keeper, rl_held *held, int64_t now);
/* Fills the watch. */
void rl_watch_fill(rl_keeper *keeper, int64_t now);
/* The thread's own: room for all that it had no room for. False: there was, or there is no memory.
 * Not with realloc(): the child of a fork() at any moment must find pointers that it can free. */
bool rl_watch_grow(rl_watch *watch);
/* After the poll(). */
void rl_watch_serve(rl_keeper *keeper);

/* -------------------------------------------------------------------------- renew.c */

/* When a lease is to be renewed. While a renewal is under way: when one that is not in it cannot
 * do without another one any longer. */
int64_t rl_renew_due(const rl_keeper *keeper, const rl_held *held);
/* Renews what is due. Without the mutex; the statement waits in `wait`. */
void rl_renew_now(rl_keeper *keeper, const rl_io *how);

#endif
