/*
 * cli/once_job.h - what the files of `rowlock once` share: cmd_once.c has its arguments,
 * once_role.c runs before and after COMMAND, once_choose.c chooses the period.
 */
#ifndef RL_CLI_ONCE_JOB_H
#define RL_CLI_ONCE_JOB_H

#include "period.h"
#include "run.h"

enum {
    ONCE_USED_UP = 1,         /* exit status: a period was attempted too often */
    ONCE_OTHER_NOT_DONE = 75, /* exit status: OTHER (--after) was not done */
    ONCE_CATCH_UP_LIMIT = 366 /* of --catch-up-most */
};

typedef enum catch_up { CATCH_UP_SKIP, CATCH_UP_LAST, CATCH_UP_ALL } catch_up;

/* Memory that the processes of a call with --catch-up share. */
typedef struct once_shared {
    bool used_up;        /* a period without attempts left was passed over, and reported */
    int64_t left_out_us; /* begin of the last period that was reported as left out */
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
    bool done; /* the period is done already, by `by` */
    char by[ROWLOCK_LABEL_MAX + 1];
} once_chosen;

/* Chooses the period to do, by the server's time and the ledger. `held`: the caller has the lease;
 * then a period that is passed over for good is reported. */
rowlock_status once_choose(run *self, bool held, once_chosen *chosen);

/* *done: OTHER (--after) was done for that period. */
rowlock_status once_look_at_other(run *self, const period *p, bool *done);

/* once_role.c */
extern const run_role once_role;

#endif
