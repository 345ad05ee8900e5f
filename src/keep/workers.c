#include "keep/workers.h"

#include "keep/inside.h"

void rl_workers_init(rl_workers *workers)
{
    *workers = (rl_workers){.last = &workers->first};
    pthread_mutex_init(&workers->mutex, NULL);
    pthread_cond_init(&workers->wanted, NULL);
}

/* With the mutex. NULL: there is nothing to do any more. */
static rl_job *next_job(rl_workers *workers)
{
    workers->idle++;
    while (!workers->first && !workers->stop)
        pthread_cond_wait(&workers->wanted, &workers->mutex);
    workers->idle--;
    rl_job *job = workers->first;
    if (!job)
        return NULL;
    workers->first = job->next;
    if (!workers->first)
        workers->last = &workers->first;
    workers->waiting--;
    return job;
}

static void *work(void *data)
{
    rl_workers *workers = data;
    pthread_setname_np(pthread_self(), "rowlock-worker");
    pthread_mutex_lock(&workers->mutex);
    for (rl_job *job; (job = next_job(workers));) {
        pthread_mutex_unlock(&workers->mutex);
        job->run(job);
        pthread_mutex_lock(&workers->mutex);
    }
    pthread_mutex_unlock(&workers->mutex);
    return NULL;
}

/* With the mutex. An idle thread that was woken is idle until it runs. */
static void have_enough(rl_workers *workers)
{
    if (workers->waiting <= workers->idle || workers->count == RL_WORKERS_MOST)
        return;
    if (rl_thread_make(&workers->threads[workers->count], work, workers) == 0)
        workers->count++;
}

void rl_workers_run(rl_workers *workers, rl_job *job)
{
    pthread_mutex_lock(&workers->mutex);
    workers->waiting++;
    have_enough(workers);
    bool here = workers->count == 0;
    if (here) {
        workers->waiting--;
    } else {
        job->next = NULL;
        *workers->last = job;
        workers->last = &job->next;
        pthread_cond_signal(&workers->wanted);
    }
    pthread_mutex_unlock(&workers->mutex);
    if (here)
        job->run(job);
}

void rl_workers_stop(rl_workers *workers, bool forked)
{
    if (forked)
        return;
    pthread_mutex_lock(&workers->mutex);
    workers->stop = true;
    pthread_cond_broadcast(&workers->wanted);
    pthread_mutex_unlock(&workers->mutex);
    for (unsigned i = 0; i < workers->count; i++)
        pthread_join(workers->threads[i], NULL);
    pthread_cond_destroy(&workers->wanted);
    pthread_mutex_destroy(&workers->mutex);
}
