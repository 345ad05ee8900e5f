#include "faults/quorum/faults.h"

enum { RESTART_MS = 120000 };

static member *member_of(const faults *f, const quorum_fault *p)
{
    return &f->world->member[p->member];
}

static void note(const faults *f, const char *what, const quorum_fault *p)
{
    history_log(&f->world->log, "%s kind=%s", what, quorum_word(p->kind));
}

static void arm(ts_proxy *proxy, ts_fault fault, const quorum_fault *p)
{
    ts_proxy_arm(proxy, fault, quorum_text_of(p->text), p->nth, false);
}

static void begin_in_proxy(ts_proxy *proxy, const quorum_fault *p)
{
    if (p->kind == QUORUM_REFUSE)
        ts_proxy_refuse(proxy, true);
    if (p->kind == QUORUM_REFUSE || p->kind == QUORUM_CUT)
        ts_proxy_cut(proxy);
    else if (p->kind == QUORUM_CUT_AFTER)
        ts_proxy_cut_after(proxy, p->up ? TS_UP : TS_DOWN, p->nth, false);
    else if (p->kind == QUORUM_STALL)
        ts_proxy_stall(proxy, true);
    else if (p->kind == QUORUM_DELAY || p->kind == QUORUM_LATENCY)
        ts_proxy_delay(proxy, p->ms, p->ms);
    else if (p->kind == QUORUM_DRIBBLE)
        ts_proxy_dribble(proxy, true);
    else
        arm(proxy,
            p->kind == QUORUM_LOSE_COMMAND  ? TS_LOSE_COMMAND
            : p->kind == QUORUM_LOSE_REPLY  ? TS_LOSE_REPLY
            : p->kind == QUORUM_STALL_REPLY ? TS_STALL_REPLY
                                            : TS_DELAY_COMMAND,
            p);
}

static void end_in_proxy(ts_proxy *proxy, const quorum_fault *p)
{
    if (p->kind == QUORUM_REFUSE)
        ts_proxy_refuse(proxy, false);
    else if (p->kind == QUORUM_STALL)
        ts_proxy_stall(proxy, false);
    else if (p->kind == QUORUM_DELAY || p->kind == QUORUM_LATENCY)
        ts_proxy_delay(proxy, 0, 0);
    else if (p->kind == QUORUM_DRIBBLE)
        ts_proxy_dribble(proxy, false);
    else
        ts_proxy_flow(proxy);
}

static void for_proxies(const faults *f, const quorum_fault *p,
                        void (*change)(ts_proxy *proxy, const quorum_fault *p))
{
    for (unsigned i = 0; i < f->world->members; i++)
        if (p->proxies >> i & 1)
            change(f->world->member[i].server.proxy, p);
}

static bool begin_in_server(member *m, const quorum_fault *p)
{
    if (p->kind == QUORUM_MEMBER_STOP)
        return server_down(&m->server, SIGSTOP);
    if (p->kind == QUORUM_CLOCK)
        return world_step(m, p->ms);
    if (p->kind == QUORUM_READ_ONLY)
        return server_sql(&m->server, "SET GLOBAL read_only = 1");
    if (p->kind == QUORUM_KILL_CONNECTION)
        return server_kill(&m->server, "CONNECTION", p->nth);
    if (p->kind == QUORUM_KILL_QUERY)
        return server_kill(&m->server, "QUERY", p->nth);
    return server_down(&m->server, SIGKILL);
}

/* Those that hit a process write their own lines. */
static bool begin_in_crew(faults *f, const quorum_fault *p)
{
    if (p->kind == QUORUM_STOP)
        return crew_stop(f->crew, p->actor);
    return crew_signal(f->crew, p->actor, p->kind == QUORUM_KILL ? SIGKILL : SIGTERM);
}

/* A clock is off between its two steps, which are moments: times compare again behind each. */
static bool is_moment(quorum_fault_kind kind)
{
    return !quorum_lasts(kind) || kind == QUORUM_CLOCK;
}

static void begin(faults *f, live_fault *l)
{
    const quorum_fault *p = l->plan;
    l->until = history_now() + p->last_ms * 1000;
    bool begun = true;
    if (quorum_where(p->kind) != AT_ACTOR)
        note(f, "fault", p);
    if (quorum_where(p->kind) == AT_ACTOR)
        begun = begin_in_crew(f, p);
    else if (quorum_where(p->kind) == AT_PROXY)
        for_proxies(f, p, begin_in_proxy);
    else
        begun = begin_in_server(member_of(f, p), p);
    l->stage = begun && quorum_lasts(p->kind) ? STAGE_ON : STAGE_OVER;
    if (quorum_where(p->kind) != AT_ACTOR && (l->stage == STAGE_OVER || is_moment(p->kind)))
        note(f, "healed", p);
}

static void step_back(faults *f, const quorum_fault *p)
{
    note(f, "fault", p);
    (void)world_step(member_of(f, p), 0);
    note(f, "healed", p);
}

static bool is_kill(quorum_fault_kind kind)
{
    return kind == QUORUM_MEMBER_KILL || kind == QUORUM_MEMBER_WIPE || kind == QUORUM_MEMBER_LOSE;
}

static void end(faults *f, live_fault *l)
{
    const quorum_fault *p = l->plan;
    member *m = member_of(f, p);
    /* What a frozen server cannot be told now it is told later. */
    if (p->kind == QUORUM_READ_ONLY && !server_sql(&m->server, "SET GLOBAL read_only = 0"))
        return;
    l->stage = is_kill(p->kind) ? STAGE_RESTARTING : STAGE_OVER;
    if (is_kill(p->kind))
        world_restart(f->world, m, p->kind == QUORUM_MEMBER_WIPE);
    else if (p->kind == QUORUM_STOP)
        crew_continue(f->crew, p->actor);
    else if (p->kind == QUORUM_CLOCK)
        step_back(f, p);
    else if (p->kind == QUORUM_MEMBER_STOP)
        server_continue(&m->server);
    else if (quorum_where(p->kind) == AT_PROXY)
        for_proxies(f, p, end_in_proxy);
    if (l->stage == STAGE_OVER && quorum_where(p->kind) != AT_ACTOR && !is_moment(p->kind))
        note(f, "healed", p);
}

void faults_begin(faults *f, world *w, crew *c, const quorum_plan *p)
{
    *f = (faults){.world = w, .crew = c, .start = history_now(), .count = p->fault_count};
    for (unsigned i = 0; i < p->fault_count; i++)
        f->list[i].plan = &p->faults[i];
}

static void tend(faults *f, live_fault *l)
{
    int64_t now = history_now();
    if (l->stage == STAGE_PLANNED && now >= f->start + l->plan->at_ms * 1000) {
        begin(f, l);
    } else if (l->stage == STAGE_ON && now >= l->until) {
        end(f, l);
    } else if (l->stage == STAGE_RESTARTING && world_restarted(f->world, member_of(f, l->plan))) {
        l->stage = STAGE_OVER;
        note(f, "healed", l->plan);
    }
}

void faults_tend(faults *f)
{
    for (unsigned i = 0; i < f->count; i++)
        tend(f, &f->list[i]);
}

static bool all_over(faults *f)
{
    bool all = true;
    faults_tend(f);
    for (unsigned i = 0; i < f->count; i++)
        all &= f->list[i].stage == STAGE_OVER;
    return all;
}

void faults_end(faults *f)
{
    for (unsigned i = 0; i < f->count; i++) {
        if (f->list[i].stage == STAGE_PLANNED)
            f->list[i].stage = STAGE_OVER;
        f->list[i].until = 0;
    }
    assert_true(POLL_UNTIL(all_over(f), RESTART_MS));
    for (unsigned i = 0; i < f->world->members; i++)
        ts_proxy_flow(f->world->member[i].server.proxy);
}
