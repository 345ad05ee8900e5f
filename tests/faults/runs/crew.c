#include "crew.h"

#include <fcntl.h>
#include <sys/prctl.h>

/* Within which everybody must have ended who is told to. */
enum { END_MS = 45000, ARGUMENTS = 13 };

/* What it says goes beside the history. */
static void become(const crew *c, char *const argv[], int in)
{
    char path[500];
    snprintf(path, sizeof path, "%s/output", c->world->folder);
    int out = open(path, O_WRONLY | O_APPEND | O_CREAT, 0666);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(in, STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    dup2(out, STDERR_FILENO);
    execv(argv[0], argv);
    _exit(127);
}

static void put_mode(const plan *p, unsigned lock, char to[20])
{
    static const char *const words[PLAN_LOCKS] = {"lease",   "row",  "",     "latch",
                                                  "barrier", "once", "queue"};
    snprintf(to, 20, "%s", words[lock]);
    if (lock == PLAN_SLOTS)
        snprintf(to, 20, "%u", p->slots);
    if (lock == PLAN_BARRIER)
        snprintf(to, 20, "barrier%u", p->members);
}

static void start(crew *c, member *m, bool probes)
{
    const planned_actor *a = m->plan;
    const char *socket = a->proxied ? ts_proxy_socket(c->world->proxy) : c->world->server;
    char who[20];
    char ttl[24];
    char seed[24];
    char readers[20];
    char mode[20];
    m->who = ++c->last_who;
    snprintf(who, sizeof who, "%u", m->who);
    snprintf(ttl, sizeof ttl, "%" PRId64, a->ttl_ms);
    snprintf(seed, sizeof seed, "%" PRIu64, a->seed + m->lives);
    snprintf(readers, sizeof readers, "%u", c->plan->readers);
    put_mode(c->plan, a->lock, mode);
    const char *const words[ARGUMENTS + 1] = {c->actor,
                                              probes ? "probe" : "work",
                                              c->world->folder,
                                              who,
                                              socket,
                                              c->world->schema,
                                              world_lock(a->lock),
                                              mode,
                                              probes ? NULL : ttl,
                                              seed,
                                              a->fenced ? "1" : "0",
                                              a->poll ? "1" : "0",
                                              readers};
    int in[2];
    assert_int_equal(pipe2(in, O_CLOEXEC), 0);
    fflush(NULL);
    m->pid = fork();
    assert_true(m->pid >= 0);
    if (m->pid == 0)
        become(c, (char *const *)(uintptr_t)words, in[0]);
    close(in[0]);
    m->in = in[1];
    m->stopped = false;
    m->replace_at = 0;
    m->lives++;
}

void crew_begin(crew *c, world *w, const plan *p, const char *actor)
{
    *c = (crew){.world = w, .plan = p, .actor = actor};
    for (unsigned i = p->alone ? PLAN_ACTORS_OF_TWO : 0; i < p->actor_count; i++) {
        c->members[i].plan = &p->actors[i];
        start(c, &c->members[i], false);
    }
}

static bool bury(crew *c, member *m)
{
    int status = 0;
    if (m->pid == 0 || waitpid(m->pid, &status, WNOHANG) != m->pid)
        return false;
    history_log(&c->world->log, "died target=%u status=%d", m->who,
                WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status));
    close(m->in);
    m->pid = 0;
    m->stopped = false;
    return true;
}

void crew_tend(crew *c)
{
    int64_t now = history_now();
    for (unsigned i = 0; i < c->plan->actor_count; i++) {
        member *m = &c->members[i];
        if (bury(c, m))
            m->replace_at = now + m->plan->respawn_ms * 1000;
        if (m->plan && m->pid == 0 && now >= m->replace_at)
            start(c, m, false);
    }
}

unsigned crew_member(const crew *c, pid_t pid)
{
    unsigned i = 0;
    while (i < PLAN_ACTORS && (pid == 0 || c->members[i].pid != pid))
        i++;
    return i;
}

bool crew_signal(crew *c, unsigned actor, int signal)
{
    const member *m = &c->members[actor];
    if (m->pid == 0)
        return false;
    history_log(&c->world->log, "kill target=%u signal=%d", m->who, signal);
    kill(m->pid, signal);
    return true;
}

bool crew_stop(crew *c, unsigned actor)
{
    member *m = &c->members[actor];
    if (m->pid == 0 || m->stopped)
        return false;
    history_log(&c->world->log, "stop target=%u", m->who);
    m->stopped = true;
    kill(m->pid, SIGSTOP);
    return true;
}

void crew_continue(crew *c, unsigned actor)
{
    member *m = &c->members[actor];
    if (!m->stopped)
        return;
    kill(m->pid, SIGCONT);
    m->stopped = false;
    history_log(&c->world->log, "continued target=%u", m->who);
}

static bool all_buried(crew *c)
{
    bool all = true;
    for (unsigned i = 0; i < CREW_MAX; i++) {
        (void)bury(c, &c->members[i]);
        all &= c->members[i].pid == 0;
    }
    return all;
}

static void await_end(crew *c)
{
    if (POLL_UNTIL(all_buried(c), END_MS))
        return;
    for (unsigned i = 0; i < CREW_MAX; i++) {
        const member *m = &c->members[i];
        if (m->pid == 0)
            continue;
        history_log(&c->world->log, "hung target=%u", m->who);
        kill(m->pid, SIGKILL);
    }
    assert_true(POLL_UNTIL(all_buried(c), END_MS));
}

void crew_end(crew *c)
{
    for (unsigned i = 0; i < c->plan->actor_count; i++) {
        member *m = &c->members[i];
        crew_continue(c, i);
        if (m->pid)
            close(m->in);
        m->in = -1;
    }
    await_end(c);
}

void crew_probe(crew *c)
{
    static const planned_actor probes[PLAN_LOCKS] = {
        {.lock = PLAN_LEASE},   {.lock = PLAN_ROW},  {.lock = PLAN_SLOTS}, {.lock = PLAN_LATCH},
        {.lock = PLAN_BARRIER}, {.lock = PLAN_ONCE}, {.lock = PLAN_QUEUE}};
    const plan *p = c->plan;
    member *next = &c->members[PLAN_ACTORS];
    for (unsigned lock = 0; lock < PLAN_LOCKS; lock++) {
        const bool is_there = lock < PLAN_SLOTS ? !p->alone : lock == p->third;
        unsigned count = lock == PLAN_BARRIER ? p->members : 1;
        for (; is_there && count > 0; count--) {
            *next = (member){.plan = &probes[lock]};
            start(c, next++, true);
        }
    }
    await_end(c);
}
