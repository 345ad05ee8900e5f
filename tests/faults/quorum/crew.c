#include "faults/quorum/crew.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>

/* Within which everybody must have ended who is told to. */
enum { END_MS = 45000, ARGUMENTS = 8 };

/* What it says goes beside the history. */
static void become(const crew *c, const char *const argv[], int in)
{
    char path[500];
    snprintf(path, sizeof path, "%s/output", c->world->folder);
    int out = open(path, O_WRONLY | O_APPEND | O_CREAT, 0666);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(in, STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    dup2(out, STDERR_FILENO);
    execv(argv[0], (char *const *)(uintptr_t)argv);
    _exit(127);
}

static void start(crew *c, unsigned i)
{
    static const quorum_actor probe = {.ttl_ms = 1000};
    const bool probes = i == QUORUM_ACTORS;
    const quorum_actor *a = probes ? &probe : &c->plan->actors[i];
    life *p = &c->of[i];
    char urls[2000];
    char who[20];
    char ttl[24];
    char seed[24];
    p->who = ++c->last_who;
    world_urls(c->world, a->proxied, urls, sizeof urls);
    snprintf(who, sizeof who, "%u", p->who);
    snprintf(ttl, sizeof ttl, "%" PRId64, a->ttl_ms);
    snprintf(seed, sizeof seed, "%" PRIu64, a->seed + p->lives);
    const char *const words[ARGUMENTS] = {
        c->world->actor, probes ? "probe" : "work", c->world->folder, who, urls, ttl, seed};
    int in[2];
    assert_int_equal(pipe2(in, O_CLOEXEC), 0);
    fflush(NULL);
    p->pid = fork();
    assert_true(p->pid >= 0);
    if (p->pid == 0)
        become(c, words, in[0]);
    close(in[0]);
    p->in = in[1];
    p->stopped = false;
    p->lives++;
}

void crew_begin(crew *c, world *w, const quorum_plan *p)
{
    *c = (crew){.world = w, .plan = p};
    for (unsigned i = 0; i < p->actor_count; i++)
        start(c, i);
}

static bool bury(crew *c, life *p)
{
    int status = 0;
    if (p->pid == 0 || waitpid(p->pid, &status, WNOHANG) != p->pid)
        return false;
    history_log(&c->world->log, "died target=%u status=%d", p->who,
                WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status));
    if (p->in >= 0)
        close(p->in);
    p->in = -1;
    p->pid = 0;
    p->stopped = false;
    return true;
}

void crew_tend(crew *c)
{
    int64_t now = history_now();
    for (unsigned i = 0; i < c->plan->actor_count; i++) {
        life *p = &c->of[i];
        if (bury(c, p))
            p->replace_at = now + c->plan->actors[i].respawn_ms * 1000;
        if (p->pid == 0 && now >= p->replace_at)
            start(c, i);
    }
}

bool crew_signal(crew *c, unsigned actor, int signal)
{
    const life *p = &c->of[actor];
    if (p->pid == 0)
        return false;
    history_log(&c->world->log, "kill target=%u signal=%d", p->who, signal);
    kill(p->pid, signal);
    return true;
}

bool crew_stop(crew *c, unsigned actor)
{
    life *p = &c->of[actor];
    if (p->pid == 0 || p->stopped)
        return false;
    history_log(&c->world->log, "stop target=%u", p->who);
    p->stopped = true;
    kill(p->pid, SIGSTOP);
    return true;
}

void crew_continue(crew *c, unsigned actor)
{
    life *p = &c->of[actor];
    if (!p->stopped)
        return;
    kill(p->pid, SIGCONT);
    p->stopped = false;
    history_log(&c->world->log, "continued target=%u", p->who);
}

static bool all_buried(crew *c)
{
    bool all = true;
    for (unsigned i = 0; i <= QUORUM_ACTORS; i++) {
        (void)bury(c, &c->of[i]);
        all &= c->of[i].pid == 0;
    }
    return all;
}

static void await_end(crew *c)
{
    if (POLL_UNTIL(all_buried(c), END_MS))
        return;
    for (unsigned i = 0; i <= QUORUM_ACTORS; i++) {
        const life *p = &c->of[i];
        if (p->pid == 0)
            continue;
        history_log(&c->world->log, "hung target=%u", p->who);
        kill(p->pid, SIGKILL);
    }
    assert_true(POLL_UNTIL(all_buried(c), END_MS));
}

void crew_end(crew *c)
{
    for (unsigned i = 0; i < c->plan->actor_count; i++) {
        life *p = &c->of[i];
        crew_continue(c, i);
        if (p->pid == 0)
            continue;
        close(p->in);
        p->in = -1;
    }
    await_end(c);
}

void crew_probe(crew *c)
{
    start(c, QUORUM_ACTORS);
    await_end(c);
}
