#include "faults/process.h"

#include <fcntl.h>
#include <sys/prctl.h>

static char holder_path[500];

void process_begin(const char *program)
{
    snprintf(holder_path, sizeof holder_path, "%.*s/faults_holder",
             (int)(strrchr(program, '/') - program), program);
}

process process_start_as(const char *kind, const char *name, int64_t ttl_ms, const char *socket)
{
    process p = {.name = name};
    int in[2];
    int out[2];
    char ttl[24];
    snprintf(ttl, sizeof ttl, "%" PRId64, ttl_ms);
    assert_int_equal(pipe2(in, O_CLOEXEC), 0);
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    fflush(NULL);
    p.pid = fork();
    assert_true(p.pid >= 0);
    if (p.pid == 0) {
        /* The holder ends with the test, however that ends. */
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(in[0], STDIN_FILENO);
        dup2(out[1], STDOUT_FILENO);
        execl(holder_path, "holder", socket, ts_schema(), name, kind, ttl, (char *)NULL);
        _exit(127);
    }
    close(in[0]);
    close(out[1]);
    p.in = in[1];
    p.out = out[0];
    process_expect(&p, "READY", 10000);
    return p;
}

process process_start(const char *name, rowlock_mode mode, int64_t ttl_ms)
{
    return process_start_as(ts_mode_word(mode), name, ttl_ms, ts_socket());
}

void process_tell(const process *p, const char *word)
{
    char line[64];
    int length = snprintf(line, sizeof line, "%s\n", word);
    assert_int_equal(write(p->in, line, (size_t)length), length);
}

static bool take_line(process *p)
{
    char *newline = memchr(p->rest, '\n', p->rest_length);
    if (!newline)
        return false;
    size_t length = (size_t)(newline - p->rest);
    snprintf(p->line, sizeof p->line, "%.*s", (int)length, p->rest);
    p->rest_length -= length + 1;
    memmove(p->rest, newline + 1, p->rest_length);
    return true;
}

bool process_hear(process *p, int64_t within_ms)
{
    int64_t end = ts_now_ms() + within_ms - ts_stood_ms();
    while (!take_line(p)) {
        int64_t left = end + ts_stood_ms() - ts_now_ms();
        struct pollfd fd = {.fd = p->out, .events = POLLIN};
        int ready = poll(&fd, 1, left > 0 ? (int)left : 0);
        if (ready == 0 && left > 0)
            continue; /* the machine may have stood still */
        if (ready != 1)
            return false;
        ssize_t n = read(p->out, p->rest + p->rest_length, sizeof p->rest - p->rest_length);
        if (n <= 0)
            return false;
        p->rest_length += (size_t)n;
    }
    return true;
}

void process_expect(process *p, const char *begins, int64_t within_ms)
{
    bool heard = process_hear(p, within_ms);
    if (heard && strncmp(p->line, begins, strlen(begins)) == 0)
        return;
    fail_msg("%s: wanted '%s' within %" PRId64 " ms, got '%s'", p->name, begins, within_ms,
             heard ? p->line : "nothing");
}

void process_ask(process *p, const char *word, const char *answer)
{
    process_tell(p, word);
    process_expect(p, answer, 10000);
}

/* Stops it between beats: no lock could undo a beat that was sent. */
void process_sleep(process *p)
{
    process_ask(p, "pause", "PAUSED");
    kill(p->pid, SIGSTOP);
}

void process_wake(process *p)
{
    process_tell(p, "resume");
    kill(p->pid, SIGCONT);
}

uint64_t process_expect_token(process *p, int64_t within_ms)
{
    process_expect(p, "TOKEN ", within_ms);
    return strtoull(p->line + 6, NULL, 10);
}

void process_bury(process *p)
{
    kill(p->pid, SIGKILL);
    kill(p->pid, SIGCONT);
    waitpid(p->pid, NULL, 0);
    close(p->in);
    close(p->out);
    p->pid = 0;
}

void process_finish(process *p)
{
    process_tell(p, "quit");
    assert_int_equal(ts_reap(p->pid, 10000), 0);
    close(p->in);
    close(p->out);
}
