#include "faults/restart.h"

const ts_fault moments[2] = {TS_DELAY_COMMAND, TS_STALL_REPLY};

rowlock_client *patient;

static rowlock_client_options patiently(void)
{
    rowlock_client_options options = through_options();
    options.connect_timeout_ms = RESTART;
    options.reconnect_ms = RESTART;
    return options;
}

int restart_begin(void **state)
{
    ts_own_start();
    through_begin(state);
    rowlock_client_options options = patiently();
    options.socket = ts_socket();
    patient = ts_open_with(options);
    return 0;
}

int restart_end(void **state)
{
    rowlock_client_close(patient);
    through_end(state);
    ts_own_remove();
    return 0;
}

rowlock_client *open_patiently(void)
{
    ts_proxy_flow(proxy);
    return ts_open_with(patiently());
}

void restart_server(void)
{
    ts_own_kill();
    ts_own_restart();
    ts_reconnect(&mysql);
}

static void *in_thread(void *data)
{
    restart_call *c = data;
    c->status = c->carry_out(c);
    return NULL;
}

void killed_at(restart_call *call, size_t size, const char *statements, ts_fault moment,
               uint64_t (*changed)(const char *name))
{
    static union {
        restart_call call;
        char bytes[sizeof(restart_call) + 4000];
    } running; /* the thread may outlive a failed test */
    const uint64_t before = changed ? changed(call->name) : 0;
    const bool done = moment == TS_STALL_REPLY;
    pthread_t thread;
    assert_true(size <= sizeof running);
    memcpy(&running, call, size);
    print_message("# %s, %s\n", statements, done ? "done" : "under way");
    ts_proxy_arm(proxy, moment, statements, 1, false);
    assert_int_equal(pthread_create(&thread, NULL, in_thread, &running), 0);
    assert_true(POLL_UNTIL(ts_proxy_fired(proxy), 20000));
    if (changed && done)
        assert_true(POLL_UNTIL(changed(call->name) != before, 20000));
    else if (changed)
        assert_true(changed(call->name) == before);
    ts_own_kill();
    ts_own_restart();
    ts_proxy_flow(proxy);
    ts_reconnect(&mysql);
    pthread_join(thread, NULL);
    memcpy(call, &running, size);
    ts_err = call->err;
}
