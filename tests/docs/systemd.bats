#!/usr/bin/env bats
# docs/systemd.md: its units, as they stand there (but for the paths, and what a user's manager does not have), under a real
# systemd in namespaces and a control group of its own, where that can be had (root, nsenter); else under a stand-in
# that starts and stops a service as systemd does. ROWLOCK_SYSTEMD=stand-in asks for that one.

load ../cli/helpers

setup_file() {
    rowlock_setup_file
    ROOT=$(cd "$BATS_TEST_DIRNAME/../.." && pwd -P)
    # A short path: sockets are in it.
    SD=$(mktemp -d /tmp/rlsd.XXXXXX)
    export ROOT SD UNITS="$SD/home/.config/systemd/user"
    mkdir -p "$UNITS" "$SD/bin"
    mkdir -m 700 "$SD/run"
    ln -s "$ROWLOCK" "$SD/bin/rowlock"
    export URL="mysql://root@localhost/$TEST_SCHEMA?socket=$ROWLOCK_TEST_SOCKET"
    printf '[Unit]\nDescription=nothing\n' >"$UNITS/default.target"
    export MANAGER=''
    [ "${ROWLOCK_SYSTEMD:-}" = stand-in ] || boot || true
    [ -n "$MANAGER" ] || echo "# no systemd can be had here: a stand-in" >&3
}

teardown_file() {
    if [ -n "$MANAGER" ]; then
        kill -KILL "$MANAGER" 2>/dev/null || true # and with it all in its namespace
        poll gone
    fi
    rm -rf "$SD"
    rowlock_teardown_file
}

# The control group was empty, and is removed.
gone() {
    [ ! -d "$(cat "$SD/group")" ] || { find "$(cat "$SD/group")" -depth -type d -exec rmdir {} + && false; }
}

# Starts a manager of a user's units, which the rest of this machine does not see. MANAGER: its pid.
boot() {
    local groups=/sys/fs/cgroup/systemd kind='-t cgroup -o none,name=systemd' init=/lib/systemd/systemd
    [ "$(id -u)" = 0 ] && [ -x $init ] && command -v nsenter unshare systemctl >/dev/null || return 1
    [ -d $groups ] || { groups=/sys/fs/cgroup kind='-t cgroup2'; }
    # shellcheck disable=SC2016 # for the shells within
    setsid sh -ec '
        mkdir "$1/rowlock-$$" && echo "$1/rowlock-$$" >"$SD/group" && echo $$ >"$1/rowlock-$$/cgroup.procs"
        exec unshare -m -C -p -f --kill-child sh -ec "
            mount --make-rprivate /
            mount -t proc proc /proc
            mount -t tmpfs tmpfs /run
            mkdir -p /run/systemd/system
            [ \"$1\" = /sys/fs/cgroup ] || { mount -t tmpfs tmpfs /sys/fs/cgroup; mkdir \"$1\"; }
            mount $2 cgroup \"$1\"
            env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=\"$SD/home\" XDG_RUNTIME_DIR=\"$SD/run\" \
                SYSTEMD_LOG_TARGET=console '$init' --user
            true"' - "$groups" "$kind" >"$SD/log" 2>&1 3>&- </dev/null &
    local shell=$! end=$((SECONDS + 20))
    until MANAGER=$(manager_below "$shell") && sd is-active -q default.target 2>/dev/null; do
        if ((SECONDS > end)); then
            kill -KILL "$shell" 2>/dev/null
            MANAGER=''
            return 1
        fi
        sleep 0.1
    done
}

# Prints the pid of the systemd that this process has started.
manager_below() {
    local pid
    for pid in $(pgrep -P "$1"); do
        if [ "$(cat "/proc/$pid/comm")" = systemd ]; then
            echo "$pid"
            return
        fi
        manager_below "$pid" && return
    done
    return 1
}

# sd VERB ...: systemctl, or its stand-in.
sd() {
    if [ -n "$MANAGER" ]; then
        nsenter -t "$MANAGER" -p -m -C env XDG_RUNTIME_DIR="$SD/run" systemctl --user "$@"
    else
        "stand_in_${1//-/_}" "${@:2}"
    fi
}

stand_in_daemon_reload() { :; }

# Starts a service whose main process leads a session, by which the rest of its processes is found.
stand_in_start() {
    local unit=${*: -1} line
    unit=${unit%.timer}
    line=$(sed -n 's/^ExecStart=//p' "$UNITS/$unit.service")
    (
        while IFS= read -r setting; do
            eval "export ${setting#Environment=}"
        done < <(grep '^Environment=' "$UNITS/$unit.service")
        status=0
        setsid sh -c "echo \$\$ >'$SD/$unit.pid'; exec $line" || status=$?
        echo "$status" >"$SD/$unit.ended"
    ) >"$SD/$unit.log" 2>&1 3>&- </dev/null &
    poll test -s "$SD/$unit.pid"
}

# KillMode=mixed: SIGTERM to the main process alone, then SIGKILL to what is left.
stand_in_stop() {
    local pid
    pid=$(cat "$SD/$1.pid")
    [ "$(sed -n 's/^KillMode=//p' "$UNITS/$1.service")" = mixed ] || pkill -TERM -s "$pid"
    kill -TERM "$pid" 2>/dev/null || true
    poll test -e "$SD/$1.ended"
    pkill -KILL -s "$pid" || true
}

stand_in_is_active() {
    kill -0 "$(cat "$SD/${*: -1}.pid")" 2>/dev/null
}

# block NUMBER: the unit of that number in docs/systemd.md.
block() {
    awk -v wanted="$1" '$0 == "```ini" { n++; on = 1; next } /^```/ { on = 0 } on && n == wanted' "$ROOT/docs/systemd.md"
}

# unit NUMBER FILE: writes that block as a unit for this manager.
unit() {
    block "$1" | sed -E "/^(User|Wants|After|WantedBy)=/d; s@/usr/local/bin@$SD/bin@g; s|^\[Service\]|&\nEnvironment=\"ROWLOCK_URL=$URL\"|" >"$UNITS/$2"
    [ "$(grep -c . "$UNITS/$2")" -ge 3 ]
}

script() { # NAME, lines on stdin
    { echo '#!/bin/bash'; cat; } >"$SD/bin/$1"
    chmod +x "$SD/bin/$1"
}

ended_well() {
    if [ -n "$MANAGER" ]; then
        [ "$(sd show -p ExecMainStatus --value "$1")" = 0 ] &&
            [ -n "$(sd show -p ExecMainExitTimestamp --value "$1")" ] && [ "$(sd show -p Result --value "$1")" = success ]
    else
        [ "$(cat "$SD/$1.ended")" = 0 ]
    fi
}

nothing_of() { # SCRIPT
    [ "$(pgrep -c -f "$SD/bin/$1")" -eq 0 ]
}

@test "systemd.md: the units are what systemd takes them for" {
    command -v systemd-analyze >/dev/null || skip "no systemd-analyze here"
    mkdir "$SD/verify"
    for n in 1 2 3; do
        names=('' nightly-close.service nightly-close.timer scheduler.service)
        block "$n" | sed "s@/usr/local/bin/@$SD/bin/@g; s/^User=batch/User=root/" >"$SD/verify/${names[n]}"
    done
    touch "$SD/bin/close-the-books" "$SD/bin/scheduler"
    chmod +x "$SD/bin/close-the-books" "$SD/bin/scheduler"
    run systemd-analyze verify "$SD"/verify/*
    [[ "$output" != *"$SD/verify"*":"* && "$output" != *"Unknown"* && "$output" != *"Failed to parse"* ]]
    # With Persistent=, a host that boots at nine runs at once what another one ran at two; only `once` prevents that.
    grep -q 'ExecStart=.* once ' "$SD/verify/nightly-close.service" || run ! grep -q '^Persistent=' "$SD/verify/nightly-close.timer"
}

@test "the timer on three hosts: the job runs once, and every service ends well" {
    script close-the-books <<<"sleep 1; echo ran >>'$SD/ran'"
    for host in 1 2 3; do
        unit 1 nightly$host.service
        unit 2 nightly$host.timer
        # Here, "two o'clock" is every three seconds.
        sed -i 's@^OnCalendar=.*@OnCalendar=*-*-* *:*:0/3@; s/^\[Timer\]/&\nAccuracySec=100ms/' "$UNITS/nightly$host.timer"
    done
    sd daemon-reload
    for host in 1 2 3; do
        sd start nightly$host.timer
    done
    for host in 1 2 3; do
        poll ended_well nightly$host
    done
    [ -z "$MANAGER" ] || for host in 1 2 3; do sd stop nightly$host.timer; done
    [ "$(wc -l <"$SD/ran")" -eq 1 ]
}

@test "stop: the command gets one SIGTERM, through rowlock; nothing of it is left, and the lock is let go" {
    script close-the-books <<END
trap 'echo TERM >>"$SD/heard"' TERM
sleep 1000 & echo \$! >"$SD/child"
echo \$\$ >"$SD/command"
until [ -e "$SD/heard" ]; do sleep 0.2; done
for i in 1 2 3 4 5 6 7 8 9 10; do sleep 0.05; done
END
    unit 1 stopped.service
    sed -i 's/nightly-close --/stopped --/' "$UNITS/stopped.service"
    sd daemon-reload
    sd start ${MANAGER:+--no-block} stopped
    poll test -s "$SD/command"
    [ "$(rl show --json stopped | jq -r .state)" = held ]
    sd stop stopped
    [ "$(wc -l <"$SD/heard")" -eq 1 ]
    [ "$(rl show --json stopped | jq -r .state)" = cooling ]
    poll nothing_of close-the-books
}

leads() { # HOST
    if [ -n "$MANAGER" ]; then
        [ "$(sd show -p StatusText --value "scheduler$1")" = leading ]
    else
        [ "$(rl leader scheduler)" = "host$1" ]
    fi
}

@test "the scheduler on two hosts: both have started, one leads and tells systemd so; when it is stopped the other one does" {
    script scheduler <<'END'
[ -z "${NOTIFY_SOCKET:-}" ] || systemd-notify --status=leading
sleep 1000
END
    for host in 1 2; do
        unit 3 scheduler$host.service
        sed -i "s/--value=%H:8080/--value=host$host/" "$UNITS/scheduler$host.service"
    done
    sd daemon-reload
    sd start scheduler1
    poll leads 1
    sd start scheduler2
    sd is-active -q scheduler2
    run ! leads 2
    sd stop scheduler1
    poll leads 2
    sd stop scheduler2
    [ "$(rl show --json scheduler | jq -r .state)" = free ]
    poll nothing_of scheduler
}
