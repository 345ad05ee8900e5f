/*
 * cli/once_job.h - what the files of `rowlock once` share: cmd_once.c has its arguments,
 * once_role.c what it does before and after COMMAND, once_choose.c which period is to be done.
 */
#ifndef RL_CLI_ONCE_JOB_H
#define RL_CLI_ONCE_JOB_H

#include "period.h"
#include "run.h"

enum {
    ONCE_USED_UP = 1,         /* exit status: a period was attempted too often */
    ONCE_OTHER_NOT_DONE = 75, /* exit status: of what it comes after */
    ONCE_CATCH_UP_LIMIT = 366 /* of --catch-up-most */
};

typedef enum catch_up { CATCH_UP_SKIP, CATCH_UP_LAST, CATCH_UP_ALL } catch_up;

/* Of a call with --catch-up, whose runs are processes of their own: memory that they share. */
typedef struct once_shared {
    bool used_up; /* a period was passed over whose attempts are used up, and that was said */
    int64_t left_out_us; /* the begin of the last period that was said to be left out */
} once_shared;

typedef struct once_job {
    run_options run;
    const char *per, *at, *tz;
    const char *after; /* a name; NULL: none */
    catch_up catch_up;
    unsigned catch_up_most;
    unsigned attempts;
    bool again;
    bool status; /* `once status` */
    int64_t after_wait_ms;
    period_rule rule;
    once_shared *shared; /* NULL without --catch-up */
} once_job;

static inline const once_job *once_job_of(const run *self)
{
    return self->options.role_data;
}

typedef struct once_chosen {
    period period;
    bool done; /* there is nothing to be done; `by`, by whom it was */
    char by[ROWLOCK_LABEL_MAX + 1];
} once_chosen;

/* Which period is to be done, by the server's time and the ledger. `held`: under the lease, when
 * nobody is at it; what is passed over for good is said then. */
rowlock_status once_choose(run *self, bool held, once_chosen *chosen);

/* *done: what this comes after (--after) was done for that period. */
rowlock_status once_look_at_other(run *self, const period *p, bool *done);

/* once_role.c */
extern const run_role once_role;

#endif
