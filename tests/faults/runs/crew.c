#include "faults/runs/crew.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>

/* A process must end within this after it was told to. */
enum { END_MS = 45000 };

/* Its output goes beside the history. */
static void become(const crew *c, char *const argv[], int in)
{
    char path[500];
    snprintf(path, sizeof path, "%s/output", c->folder);
    int out = open(path, O_WRONLY | O_APPEND | O_CREAT, 0666);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(in, STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    dup2(out, STDERR_FILENO);
    execv(argv[0], argv);
    _exit(127);
}

static void start(crew *c, life *l, bool probes)
{
    const char *words[CREW_WORDS + 1] = {NULL};
    int in[2];
    l->who = ++c->last_who;
    c->put_words(c, l, probes, words);
    assert_int_equal(pipe2(in, O_CLOEXEC), 0);
    fflush(NULL);
    l->pid = fork();
    assert_true(l->pid >= 0);
    if (l->pid == 0)
        become(c, (char *const *)(uintptr_t)words, in[0]);
    close(in[0]);
    l->in = in[1];
    l->stopped = false;
    l->lives++;
}

void crew_add(crew *c, unsigned actor, const void *planned, int64_t respawn_ms)
{
    c->of[actor] = (life){.plan = planned, .respawn_ms = respawn_ms};
    start(c, &c->of[actor], false);
}

static bool bury(crew *c, life *l)
{
    int status = 0;
    if (l->pid == 0 || waitpid(l->pid, &status, WNOHANG) != l->pid)
        return false;
    history_log(c->log, "died target=%u status=%d", l->who,
                WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status));
    if (l->in >= 0)
        close(l->in);
    l->in = -1;
    l->pid = 0;
    l->stopped = false;
    return true;
}

void crew_tend(crew *c)
{
    int64_t now = history_now();
    for (unsigned i = 0; i < PLAN_ACTORS; i++) {
        life *l = &c->of[i];
        if (bury(c, l))
            l->replace_at = now + l->respawn_ms * 1000;
        if (l->plan && l->pid == 0 && now >= l->replace_at)
            start(c, l, false);
    }
}

unsigned crew_member(const crew *c, pid_t pid)
{
    unsigned i = 0;
    while (i < PLAN_ACTORS && (pid == 0 || c->of[i].pid != pid))
        i++;
    return i;
}

bool crew_signal(crew *c, unsigned actor, int signal)
{
    const life *l = &c->of[actor];
    if (l->pid == 0)
        return false;
    history_log(c->log, "kill target=%u signal=%d", l->who, signal);
    kill(l->pid, signal);
    return true;
}

bool crew_stop(crew *c, unsigned actor)
{
    life *l = &c->of[actor];
    if (l->pid == 0 || l->stopped)
        return false;
    history_log(c->log, "stop target=%u", l->who);
    l->stopped = true;
    kill(l->pid, SIGSTOP);
    return true;
}

void crew_continue(crew *c, unsigned actor)
{
    life *l = &c->of[actor];
    if (!l->stopped)
        return;
    kill(l->pid, SIGCONT);
    l->stopped = false;
    history_log(c->log, "continued target=%u", l->who);
}

static bool all_buried(crew *c)
{
    bool all = true;
    for (unsigned i = 0; i < CREW_MAX; i++) {
        (void)bury(c, &c->of[i]);
        all &= c->of[i].pid == 0;
    }
    return all;
}

void crew_end_probes(crew *c)
{
    if (POLL_UNTIL(all_buried(c), END_MS))
        return;
    for (unsigned i = 0; i < CREW_MAX; i++) {
        const life *l = &c->of[i];
        if (l->pid == 0)
            continue;
        history_log(c->log, "hung target=%u", l->who);
        kill(l->pid, SIGKILL);
    }
    assert_true(POLL_UNTIL(all_buried(c), END_MS));
}

void crew_end(crew *c)
{
    for (unsigned i = 0; i < PLAN_ACTORS; i++) {
        life *l = &c->of[i];
        crew_continue(c, i);
        if (l->pid)
            close(l->in);
        l->in = -1;
    }
    crew_end_probes(c);
}

void crew_add_probe(crew *c, const void *planned)
{
    life *l = &c->of[PLAN_ACTORS + c->probes++];
    assert_true(l < c->of + CREW_MAX);
    *l = (life){.plan = planned};
    start(c, l, true);
}
