#include "faults/runs/faults.h"

enum {
    RESTART_MS = 120000,
    AFTER_MS = 40 /* SERVER_AFTER: for the server to finish a statement whose reply we hold */
};

static void note(faults *f, const char *what, const planned_fault *p)
{
    history_log(&f->world->log, "%s kind=%s", what, fault_word(p->kind));
}

static void arm(faults *f, ts_fault fault, const planned_fault *p)
{
    ts_proxy_arm(f->world->server.proxy, fault, schedule_text_of(p->text), p->nth, false);
}

static bool begin_refuse(ts_proxy *proxy)
{
    ts_proxy_refuse(proxy, true);
    ts_proxy_cut(proxy);
    return true;
}

static bool begin_in_proxy(faults *f, const planned_fault *p)
{
    ts_proxy *proxy = f->world->server.proxy;
    if (p->kind == FAULT_CUT)
        ts_proxy_cut(proxy);
    else if (p->kind == FAULT_CUT_AFTER)
        ts_proxy_cut_after(proxy, p->up ? TS_UP : TS_DOWN, p->nth, false);
    else if (p->kind == FAULT_STALL)
        ts_proxy_stall(proxy, true);
    else if (p->kind == FAULT_DELAY || p->kind == FAULT_LATENCY)
        ts_proxy_delay(proxy, p->ms, p->ms);
    else if (p->kind == FAULT_DRIBBLE)
        ts_proxy_dribble(proxy, true);
    else if (p->kind == FAULT_LOSE_COMMAND)
        arm(f, TS_LOSE_COMMAND, p);
    else if (p->kind == FAULT_LOSE_REPLY)
        arm(f, TS_LOSE_REPLY, p);
    else if (p->kind == FAULT_STALL_REPLY || p->kind == FAULT_SERVER_IN ||
             p->kind == FAULT_SERVER_AFTER)
        arm(f, TS_STALL_REPLY, p);
    else if (p->kind == FAULT_LATE_COMMAND || p->kind == FAULT_SERVER_BEFORE)
        arm(f, TS_DELAY_COMMAND, p);
    else
        return begin_refuse(proxy);
    return true;
}

static bool begin_in_server(faults *f, const planned_fault *p)
{
    world *w = f->world;
    if (p->kind == FAULT_SERVER_KILL || p->kind == FAULT_SERVER_STOP)
        return server_down(&w->server, p->kind == FAULT_SERVER_KILL ? SIGKILL : SIGSTOP);
    if (p->kind == FAULT_KILL_CONNECTION)
        return server_kill(&w->server, "CONNECTION", p->nth);
    if (p->kind == FAULT_KILL_QUERY)
        return server_kill(&w->server, "QUERY", p->nth);
    if (p->kind == FAULT_BREAK)
        return world_break(w, p->lock, p->nth);
    if (p->kind == FAULT_READ_ONLY)
        return server_sql(&w->server, "SET GLOBAL read_only = 1");
    if (p->kind == FAULT_CONNECTIONS)
        return server_sql(&w->server, "SET GLOBAL max_connections = 10");
    return world_lock_row(w, p->lock, p->nth);
}

static bool in_server(fault_kind kind)
{
    return kind == FAULT_SERVER_KILL || kind == FAULT_SERVER_STOP ||
           kind == FAULT_KILL_CONNECTION || kind == FAULT_KILL_QUERY || kind == FAULT_READ_ONLY ||
           kind == FAULT_CONNECTIONS || kind == FAULT_ROW_LOCKED || kind == FAULT_BREAK;
}

static bool waits_for_statement(fault_kind kind)
{
    return kind == FAULT_SERVER_BEFORE || kind == FAULT_SERVER_IN || kind == FAULT_SERVER_AFTER;
}

/* Those that hit a process write their own lines. */
static bool begin_in_crew(faults *f, live_fault *l)
{
    const planned_fault *p = l->plan;
    l->actor = p->holder ? crew_member(f->crew, world_holder(f->world, p->lock)) : PLAN_ACTORS;
    if (l->actor == PLAN_ACTORS)
        l->actor = p->actor;
    if (p->kind == FAULT_KILL)
        return crew_signal(f->crew, l->actor, SIGKILL);
    if (p->kind == FAULT_TERM)
        return crew_signal(f->crew, l->actor, SIGTERM);
    return crew_stop(f->crew, l->actor);
}

static bool in_crew(fault_kind kind)
{
    return kind == FAULT_KILL || kind == FAULT_TERM || kind == FAULT_STOP;
}

static void begin(faults *f, live_fault *l)
{
    const planned_fault *p = l->plan;
    l->until = history_now() + p->last_ms * 1000;
    if (in_crew(p->kind)) {
        l->stage = begin_in_crew(f, l) && fault_lasts(p->kind) ? STAGE_ON : STAGE_OVER;
        return;
    }
    note(f, "fault", p);
    bool begun = in_server(p->kind) ? begin_in_server(f, p) : begin_in_proxy(f, p);
    l->stage = waits_for_statement(p->kind) ? STAGE_ARMED : STAGE_ON;
    if (begun && fault_lasts(p->kind))
        return;
    l->stage = STAGE_OVER;
    note(f, "healed", p);
}

static void end_in_proxy(faults *f, const planned_fault *p)
{
    ts_proxy *proxy = f->world->server.proxy;
    if (p->kind == FAULT_STALL)
        ts_proxy_stall(proxy, false);
    else if (p->kind == FAULT_DELAY || p->kind == FAULT_LATENCY)
        ts_proxy_delay(proxy, 0, 0);
    else if (p->kind == FAULT_DRIBBLE)
        ts_proxy_dribble(proxy, false);
    else if (p->kind == FAULT_REFUSE)
        ts_proxy_refuse(proxy, false);
    else
        ts_proxy_flow(proxy);
}

/* False: the server cannot be told now (it is stopped, say); it must be, later. */
static bool end_in_server(faults *f, const planned_fault *p)
{
    world *w = f->world;
    if (p->kind == FAULT_READ_ONLY)
        return server_sql(&w->server, "SET GLOBAL read_only = 0");
    if (p->kind == FAULT_CONNECTIONS)
        return server_sql(&w->server, "SET GLOBAL max_connections = 500");
    if (p->kind == FAULT_SERVER_STOP)
        server_continue(&w->server);
    else
        world_unlock_row(w);
    return true;
}

static void over(faults *f, live_fault *l)
{
    l->stage = STAGE_OVER;
    note(f, "healed", l->plan);
}

static void end(faults *f, live_fault *l)
{
    const planned_fault *p = l->plan;
    if (in_crew(p->kind)) {
        crew_continue(f->crew, l->actor);
        l->stage = STAGE_OVER;
        return;
    }
    if (p->kind == FAULT_SERVER_KILL || (waits_for_statement(p->kind) && l->stage == STAGE_ON)) {
        world_server_restart(f->world);
        l->stage = STAGE_RESTARTING;
        return;
    }
    if (in_server(p->kind) && !end_in_server(f, p))
        return; /* and is asked again */
    if (!in_server(p->kind))
        end_in_proxy(f, p);
    over(f, l);
}

/* The statement is there: before it, in it, or just after it. */
static void set_off(faults *f, live_fault *l)
{
    if (l->plan->kind == FAULT_SERVER_AFTER)
        ts_pass_ms(AFTER_MS);
    if (!server_down(&f->world->server, SIGKILL))
        return;
    /* What the proxy holds back belongs to nobody any more. */
    ts_proxy_cut(f->world->server.proxy);
    ts_proxy_flow(f->world->server.proxy);
    l->stage = STAGE_ON;
}

void faults_begin(faults *f, world *w, crew *c, const plan *p)
{
    *f = (faults){.world = w, .crew = c, .start = history_now(), .count = p->fault_count};
    for (unsigned i = 0; i < p->fault_count; i++)
        f->list[i].plan = &p->faults[i];
}

static void tend(faults *f, live_fault *l)
{
    int64_t now = history_now();
    if (l->stage == STAGE_PLANNED && now >= f->start + l->plan->at_ms * 1000)
        begin(f, l);
    else if (l->stage == STAGE_ARMED && ts_proxy_fired(f->world->server.proxy))
        set_off(f, l);
    else if ((l->stage == STAGE_ON || l->stage == STAGE_ARMED) && now >= l->until)
        end(f, l);
    else if (l->stage == STAGE_RESTARTING && world_server_restarted(f->world))
        over(f, l);
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
    ts_proxy_flow(f->world->server.proxy);
}
