#!/usr/bin/env bats
# rowlock run when its server goes away: the command and its descendants are dead before another client can have the
# lock. On a server of this file's own. The time counts from the server's last answer: until then the lease may have
# been renewed.

load helpers
load run_helpers

setup_file() {
    setup_on_own_server
}

teardown() {
    run_teardown
    kill -CONT "$(own_server pid)" 2>/dev/null || true
    own_server status >/dev/null || own_server restart >/dev/null
}

# there WHAT COUNT: for poll: so many of the cases side by side have made that file.
there() {
    [ "$(find "$TEST_FOLDER" -name "$1" | wc -l)" -ge "$2" ]
}

# One of the cases: ends the server when so many others are ready, and starts it again when so many are over.
server_goes() { # HOW OTHERS OVER
    poll there ready "$2"
    "$1"
    now_ms >"$TEST_FOLDER/away"
    poll there over "$3"
    "back_$1"
    touch "$TEST_FOLDER/back"
}

killed() {
    own_server kill
}

back_killed() {
    own_server restart
}

stopped() {
    kill -STOP "$(own_server pid)"
}

back_stopped() {
    kill -CONT "$(own_server pid)"
}

# The other cases: wait until the server is away, since $since.
server_is_away() {
    touch ready
    poll got "$TEST_FOLDER/away"
    since=$(cat "$TEST_FOLDER/away")
}

# all_dead MILLISECONDS: the tree is dead within that time after the server went, and the exit status is 75.
all_dead() {
    poll tree_is_dead
    within "$1" "$since"
    ends_with 75
}

server_is_back() {
    touch over
    poll test -e "$TEST_FOLDER/back"
}

# A run whose lease outlasts the outage.
outlives_it() {
    hold --ttl=90s
    server_is_away
    sleep 31 # its next renewal is due meanwhile
    server_is_back
    before=$(sql "SELECT expires_at FROM lease_renewal JOIN resource USING (id) WHERE resource_name = '$L'")
    renewed() {
        [ "$(sql "SELECT expires_at FROM lease_renewal JOIN resource USING (id) WHERE resource_name = '$L'")" != "$before" ]
    }
    poll renewed
    run ! is_free
    is_alive "$BACK"
    touch let_go
    ends_with 8
    [ ! -s err ]
    is_free
}

lease_runs_out() {
    run_tree --ttl=10s
    server_is_away
    all_dead 10000
    said_once "bash was ended"
    server_is_back
    poll is_free
}

ends_meanwhile() {
    hold --ttl=60s
    server_is_away
    touch let_go
    ends_with 8
    said_once "has ended, but the lock may stay until its TTL is over"
    touch over
}

row_is_lost() {
    TREE_TRAP='trap "" TERM' run_tree --mode=pessimistic --ttl=60s
    server_is_away
    all_dead 10000
    said_once "bash was ended"
    touch over
}

@test "the server is killed: a lease goes on where it is back in time, else 75; a row lock is lost at once; a command that ends warns" {
    side_by_side "server_goes killed 4 4" outlives_it lease_runs_out ends_meanwhile row_is_lost
}

hangs_lease() {
    TREE_TRAP='trap "echo >>\"$D/termed\"" TERM' run_tree --ttl=20s
    server_is_away
    poll got termed 4 # in a quarter of the TTL
    all_dead 20000
    said_once "could not be renewed in time"
    server_is_back
    poll is_free
}

hangs_without_supervisor() {
    TREE_TRAP='trap "" TERM' run_tree --ttl=12s
    kill -STOP "$SUPERVISOR"
    server_is_away
    all_dead 12000
    is_dead "$SUPERVISOR"
    touch over
}

hangs_row() {
    TREE_TRAP='trap "" TERM' run_tree --mode=pessimistic --ttl=12s
    server_is_away
    all_dead 12000
    touch over
}

@test "the server hangs: SIGTERM, then SIGKILL within the TTL, 75; by rowlock itself where its supervisor is stopped; a row lock, too" {
    side_by_side "server_goes stopped 3 3" hangs_lease hangs_without_supervisor hangs_row
}
