/* keep/workers.h - threads that ask several servers at the same time. They are made when they are
 * wanted, and stay. */
#ifndef RL_KEEP_WORKERS_H
#define RL_KEEP_WORKERS_H

#include <pthread.h>
#include <stdbool.h>

#define RL_WORKERS_MOST 64

typedef struct rl_job rl_job;
struct rl_job {
    void (*run)(rl_job *job); /* which may be gone when it returns */
    rl_job *next;
};

typedef struct rl_workers {
    pthread_mutex_t mutex; /* guards what follows */
    pthread_cond_t wanted;
    rl_job *first;
    rl_job **last;
    unsigned waiting; /* jobs that no thread has taken yet */
    unsigned idle;
    unsigned count;
    bool stop;
    pthread_t threads[RL_WORKERS_MOST];
} rl_workers;

void rl_workers_init(rl_workers *workers);

/* What is queued is run, and the threads end. `forked`: they are not in this process. */
void rl_workers_stop(rl_workers *workers, bool forked);

/* In a thread, soon; in this one where none can be had at all. */
void rl_workers_run(rl_workers *workers, rl_job *job);

#endif
