#include "crew.h"

#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    END_MS = 45000, /* within which everybody must have ended who is told to */
    JOB_WAIT_MS = 3000,
    ARGUMENTS = 32
};

/* ------------------------------------------------------------------------------ starting */

typedef struct command_line {
    char words[ARGUMENTS][400];
    char *argv[ARGUMENTS + 1];
    int count;
} command_line;

__attribute__((format(printf, 2, 3))) static void word(command_line *line, const char *format, ...)
{
    va_list args;
    assert_true(line->count < ARGUMENTS);
    va_start(args, format);
    vsnprintf(line->words[line->count], sizeof line->words[0], format, args);
    va_end(args);
    line->argv[line->count] = line->words[line->count];
    line->argv[++line->count] = NULL;
}

static const char *socket_for(const crew *c, const planned_actor *a)
{
    return a->proxied ? ts_proxy_socket(c->world->proxy) : c->world->server;
}

static void words_of_program(const crew *c, const member *m, command_line *line)
{
    const planned_actor *a = m->plan;
    word(line, "%s", c->actor);
    word(line, "work");
    word(line, "%s", c->world->folder);
    word(line, "%u", m->who);
    word(line, "%s", socket_for(c, a));
    word(line, "%s", c->world->schema);
    word(line, "%s", world_lock(a->lock));
    word(line, "%s", c->plan->lease[a->lock] ? "lease" : "row");
    word(line, "%" PRId64, a->ttl_ms);
    word(line, "%" PRIu64, a->seed + m->lives);
    word(line, "%s", a->fenced ? "fenced" : "unfenced");
    word(line, "%s", a->poll ? "poll" : "bell");
}

static void words_of_job(const crew *c, const member *m, command_line *line)
{
    const planned_actor *a = m->plan;
    word(line, "%s", c->rowlock);
    word(line, "run");
    word(line, "--no-defaults");
    word(line, "--user=actor");
    word(line, "--socket=%s", socket_for(c, a));
    word(line, "--database=%s", c->world->schema);
    word(line, "--connect-timeout=2s");
    word(line, "--wait=%dms", JOB_WAIT_MS);
    word(line, "--ttl=%" PRId64 "ms", a->ttl_ms);
    word(line, "--mode=%s", c->plan->lease[a->lock] ? "lease" : "pessimistic");
    word(line, "%s", world_lock(a->lock));
    word(line, "--");
    word(line, "%s", c->actor);
    word(line, "command");
    word(line, "%s", c->world->folder);
    word(line, "%u", m->who);
    word(line, "%s", socket_for(c, a));
    word(line, "%s", c->world->schema);
    word(line, "%" PRIu64, a->seed + m->lives);
}

static void words_of_probe(const crew *c, const member *m, unsigned lock, command_line *line)
{
    word(line, "%s", c->actor);
    word(line, "probe");
    word(line, "%s", c->world->folder);
    word(line, "%u", m->who);
    word(line, "%s", c->world->server);
    word(line, "%s", c->world->schema);
    word(line, "%s", world_lock(lock));
    word(line, "%s", c->plan->lease[lock] ? "lease" : "row");
}

/* What it says goes beside the history. */
static void become(const crew *c, const command_line *line, int in)
{
    char path[500];
    snprintf(path, sizeof path, "%s/output", c->world->folder);
    int out = open(path, O_WRONLY | O_APPEND | O_CREAT, 0666);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(in, STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    dup2(out, STDERR_FILENO);
    execv(line->argv[0], line->argv);
    _exit(127);
}

static void launch(crew *c, member *m, const command_line *line)
{
    int in[2];
    assert_int_equal(pipe2(in, O_CLOEXEC), 0);
    fflush(NULL);
    m->pid = fork();
    assert_true(m->pid >= 0);
    if (m->pid == 0)
        become(c, line, in[0]);
    close(in[0]);
    m->in = in[1];
    m->stopped = 0;
    m->replace_at = 0;
    m->lives++;
}

/* A job asks for its lock when it starts. */
static void note_job(const crew *c, const member *m)
{
    history log;
    assert_true(history_open(&log, c->world->folder, m->who));
    history_log(&log, "begin name=%s mode=%s ttl=%" PRId64 " job=1", world_lock(m->plan->lock),
                c->plan->lease[m->plan->lock] ? "lease" : "row", m->plan->ttl_ms * 1000);
    history_log(&log, "acquire wait=%d", JOB_WAIT_MS * 1000);
    close(log.fd);
}

static void start(crew *c, member *m)
{
    command_line line = {.count = 0};
    m->who = ++c->last_who;
    if (m->plan->job) {
        words_of_job(c, m, &line);
        note_job(c, m);
    } else {
        words_of_program(c, m, &line);
    }
    launch(c, m, &line);
}

void crew_begin(crew *c, world *w, const plan *p, const char *actor, const char *rowlock)
{
    *c = (crew){.world = w, .plan = p, .actor = actor, .rowlock = rowlock};
    for (unsigned i = 0; i < p->actor_count; i++) {
        c->members[i].plan = &p->actors[i];
        start(c, &c->members[i]);
    }
}

/* ------------------------------------------------------------------------------- tending */

static bool bury(crew *c, member *m)
{
    int status = 0;
    if (m->pid == 0 || waitpid(m->pid, &status, WNOHANG) != m->pid)
        return false;
    history_log(&c->world->log, "died target=%u status=%d", m->who,
                WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status));
    close(m->in);
    m->pid = 0;
    m->stopped = 0;
    return true;
}

void crew_tend(crew *c)
{
    int64_t now = history_now();
    for (unsigned i = 0; i < c->plan->actor_count; i++) {
        member *m = &c->members[i];
        if (bury(c, m))
            m->replace_at = now + m->plan->respawn_ms * 1000;
        if (m->pid == 0 && now >= m->replace_at)
            start(c, m);
    }
}

/* The only child of a process; 0: it has none. */
static pid_t child_of(pid_t pid)
{
    char path[80];
    long child = 0;
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)pid, (int)pid);
    FILE *in = fopen(path, "r");
    if (!in)
        return 0;
    if (fscanf(in, "%ld", &child) != 1)
        child = 0;
    fclose(in);
    return (pid_t)child;
}

static pid_t part_of(const member *m, unsigned part)
{
    pid_t pid = m->pid;
    for (unsigned i = 0; m->plan->job && pid > 0 && i < part; i++)
        pid = child_of(pid);
    return pid;
}

/* While a part of a job is stopped the others are left alone: two of its three at once is what its
 * guarantee excludes. */
static pid_t target_of(const crew *c, unsigned actor, unsigned part)
{
    const member *m = &c->members[actor];
    if (m->pid == 0 || (m->plan->job && m->stopped))
        return 0;
    return part_of(m, part);
}

unsigned crew_member(const crew *c, pid_t pid)
{
    unsigned i = 0;
    while (i < PLAN_ACTORS && (pid == 0 || c->members[i].pid != pid))
        i++;
    return i;
}

bool crew_signal(crew *c, unsigned actor, unsigned part, int signal)
{
    pid_t pid = target_of(c, actor, part);
    if (pid <= 0)
        return false;
    history_log(&c->world->log, "kill target=%u part=%u signal=%d", c->members[actor].who, part,
                signal);
    kill(pid, signal);
    return true;
}

bool crew_stop(crew *c, unsigned actor, unsigned part)
{
    member *m = &c->members[actor];
    pid_t pid = m->stopped ? 0 : target_of(c, actor, part);
    if (pid <= 0)
        return false;
    history_log(&c->world->log, "stop target=%u part=%u", m->who, part);
    m->stopped = pid;
    kill(pid, SIGSTOP);
    return true;
}

void crew_continue(crew *c, unsigned actor)
{
    member *m = &c->members[actor];
    if (m->stopped == 0)
        return;
    kill(m->stopped, SIGCONT);
    m->stopped = 0;
    history_log(&c->world->log, "continued target=%u", m->who);
}

/* -------------------------------------------------------------------------------- ending */

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
        if (m->pid && !m->plan->job) {
            close(m->in);
            m->in = -1;
        }
    }
    await_end(c);
}

void crew_probe(crew *c)
{
    static const planned_actor nothing;
    for (unsigned i = 0; i < PLAN_LOCKS; i++) {
        command_line line = {.count = 0};
        member *m = &c->members[PLAN_ACTORS + i];
        *m = (member){.plan = &nothing, .who = ++c->last_who};
        words_of_probe(c, m, i, &line);
        launch(c, m, &line);
    }
    await_end(c);
}
