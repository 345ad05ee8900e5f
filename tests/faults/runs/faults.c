#include "faults/runs/faults.h"

enum {
    RESTART_MS = 120000,
    AFTER_MS = 40 /* SERVER_AFTER: for the server to finish a statement whose reply we hold */
};

static server *server_of(const faults *f, const planned_fault *p)
{
    return f->servers[p->member];
}

static void note(const faults *f, const char *what, const planned_fault *p)
{
    history_log(f->crew->log, "%s kind=%s", what, fault_word(p->kind));
}

/* ---------------------------------------------------------------------------- proxies */

static void arm(ts_proxy *proxy, ts_fault fault, const planned_fault *p)
{
    ts_proxy_arm(proxy, fault, schedule_text_of(p->text), p->nth, false);
}

static void begin_in_proxy(ts_proxy *proxy, const planned_fault *p)
{
    if (p->kind == FAULT_REFUSE)
        ts_proxy_refuse(proxy, true);
    if (p->kind == FAULT_REFUSE || p->kind == FAULT_CUT)
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
        arm(proxy, TS_LOSE_COMMAND, p);
    else if (p->kind == FAULT_LOSE_REPLY)
        arm(proxy, TS_LOSE_REPLY, p);
    else if (p->kind == FAULT_LATE_COMMAND || p->kind == FAULT_SERVER_BEFORE)
        arm(proxy, TS_DELAY_COMMAND, p);
    else
        arm(proxy, TS_STALL_REPLY, p);
}

static void end_in_proxy(ts_proxy *proxy, const planned_fault *p)
{
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

static void for_proxies(const faults *f, const planned_fault *p,
                        void (*change)(ts_proxy *proxy, const planned_fault *p))
{
    for (unsigned i = 0; i < f->server_count; i++)
        if (p->proxies >> i & 1)
            change(f->servers[i]->proxy, p);
}

/* ---------------------------------------------------------------------------- servers */

static bool is_kill(fault_kind kind)
{
    return kind == FAULT_SERVER_KILL || kind == FAULT_MEMBER_KILL || kind == FAULT_MEMBER_WIPE ||
           kind == FAULT_MEMBER_LOSE;
}

static bool is_stop(fault_kind kind)
{
    return kind == FAULT_SERVER_STOP || kind == FAULT_MEMBER_STOP;
}

/* A clock is off between its two steps, and only these count as faults: after each, times can be
 * compared again. */
static bool is_moment(fault_kind kind)
{
    return !fault_lasts(kind) || kind == FAULT_CLOCK;
}

static bool begin_in_server(faults *f, const planned_fault *p)
{
    server *s = server_of(f, p);
    if (is_kill(p->kind) || is_stop(p->kind))
        return server_down(s, is_kill(p->kind) ? SIGKILL : SIGSTOP);
    if (p->kind == FAULT_KILL_CONNECTION)
        return server_kill(s, "CONNECTION", p->nth);
    if (p->kind == FAULT_KILL_QUERY)
        return server_kill(s, "QUERY", p->nth);
    if (p->kind == FAULT_READ_ONLY)
        return server_sql(s, "SET GLOBAL read_only = 1");
    if (p->kind == FAULT_CONNECTIONS)
        return server_sql(s, "SET GLOBAL max_connections = 10");
    return f->ways->begin(f->world, p);
}

/* False: the server cannot be told now (it may be stopped), so this is repeated later. */
static bool end_in_server(faults *f, const planned_fault *p)
{
    server *s = server_of(f, p);
    if (p->kind == FAULT_READ_ONLY)
        return server_sql(s, "SET GLOBAL read_only = 0");
    if (p->kind == FAULT_CONNECTIONS)
        return server_sql(s, "SET GLOBAL max_connections = 500");
    if (is_stop(p->kind))
        server_continue(s);
    else
        f->ways->end(f->world, p);
    return true;
}

/* -------------------------------------------------------------------------- processes */

/* Faults that hit a process write their own lines. */
static bool begin_in_crew(faults *f, live_fault *l)
{
    const planned_fault *p = l->plan;
    l->actor = p->holder ? crew_member(f->crew, f->ways->holder(f->world, p->lock)) : PLAN_ACTORS;
    if (l->actor == PLAN_ACTORS)
        l->actor = p->actor;
    if (p->kind == FAULT_STOP)
        return crew_stop(f->crew, l->actor);
    return crew_signal(f->crew, l->actor, p->kind == FAULT_KILL ? SIGKILL : SIGTERM);
}

/* ------------------------------------------------------------------------- one by one */

static void begin(faults *f, live_fault *l)
{
    const planned_fault *p = l->plan;
    const fault_place where = fault_where(p->kind);
    bool begun = true;
    l->until = history_now() + p->last_ms * 1000;
    if (where != AT_ACTOR)
        note(f, "fault", p);
    if (where == AT_ACTOR)
        begun = begin_in_crew(f, l);
    else if (where == AT_SERVER)
        begun = begin_in_server(f, p);
    else
        for_proxies(f, p, begin_in_proxy);
    l->stage = where == AT_STATEMENT ? STAGE_ARMED : STAGE_ON;
    if (!begun || !fault_lasts(p->kind))
        l->stage = STAGE_OVER;
    if (where != AT_ACTOR && (l->stage == STAGE_OVER || is_moment(p->kind)))
        note(f, "healed", p);
}

static void over(faults *f, live_fault *l)
{
    l->stage = STAGE_OVER;
    note(f, "healed", l->plan);
}

static void end(faults *f, live_fault *l)
{
    const planned_fault *p = l->plan;
    const fault_place where = fault_where(p->kind);
    if (where == AT_ACTOR) {
        crew_continue(f->crew, l->actor);
        l->stage = STAGE_OVER;
        return;
    }
    if (is_kill(p->kind) || (where == AT_STATEMENT && l->stage == STAGE_ON)) {
        f->ways->restart(f->world, p);
        l->stage = STAGE_RESTARTING;
        return;
    }
    if (p->kind == FAULT_CLOCK)
        note(f, "fault", p);
    if (where == AT_SERVER && !end_in_server(f, p))
        return; /* and is called again */
    if (where != AT_SERVER)
        for_proxies(f, p, end_in_proxy);
    over(f, l);
}

/* The statement has come: makes the fault before it, in it, or just after it. */
static void set_off(faults *f, live_fault *l)
{
    server *s = server_of(f, l->plan);
    if (l->plan->kind == FAULT_SERVER_AFTER)
        ts_pass_ms(AFTER_MS);
    if (!server_down(s, SIGKILL))
        return;
    /* Data that the proxy holds back is of no use any more. */
    ts_proxy_cut(s->proxy);
    ts_proxy_flow(s->proxy);
    l->stage = STAGE_ON;
}

static void faults_begin(faults *f, crew *c, const planned_fault *list, unsigned count)
{
    f->crew = c;
    f->start = history_now();
    f->count = count;
    for (unsigned i = 0; i < count; i++)
        f->list[i] = (live_fault){.plan = &list[i]};
}

static void tend(faults *f, live_fault *l)
{
    int64_t now = history_now();
    if (l->stage == STAGE_PLANNED && now >= f->start + l->plan->at_ms * 1000)
        begin(f, l);
    else if (l->stage == STAGE_ARMED && ts_proxy_fired(server_of(f, l->plan)->proxy))
        set_off(f, l);
    else if ((l->stage == STAGE_ON || l->stage == STAGE_ARMED) && now >= l->until)
        end(f, l);
    else if (l->stage == STAGE_RESTARTING && f->ways->restarted(f->world, l->plan))
        over(f, l);
}

static void faults_tend(faults *f)
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

static void faults_end(faults *f)
{
    for (unsigned i = 0; i < f->count; i++) {
        if (f->list[i].stage == STAGE_PLANNED)
            f->list[i].stage = STAGE_OVER;
        f->list[i].until = 0;
    }
    assert_true(POLL_UNTIL(all_over(f), RESTART_MS));
    for (unsigned i = 0; i < f->server_count; i++)
        ts_proxy_flow(f->servers[i]->proxy);
}

void faults_live_through(faults *f, crew *c, const planned_fault *list, unsigned count,
                         int64_t active_ms)
{
    faults_begin(f, c, list, count);
    int64_t until = history_now() + active_ms * 1000;
    while (history_now() < until) {
        faults_tend(f);
        crew_tend(c);
        ts_pass_ms(3);
    }
    faults_end(f);
    crew_end(c);
}
