# shellcheck shell=bash
# tools/lib.sh - functions for the scripts in tools/. Source it; by itself it answers --help, and changes nothing.

# shellcheck disable=SC2034 # used by the scripts that source it
ROWLOCK_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)

# ----------------------------------------------------------------- messages

# say WORDS...: prints a line on stderr, since stdout carries results.
say() {
    printf '%s\n' "$*" >&2
}

# die WORDS...: prints why the script cannot go on, and ends it.
die() {
    say "${0##*/}: $*"
    exit 1
}

# explain: prints the comment at the top of the script.
explain() {
    sed -n '2,/^$/s/^# \{0,1\}//p' "$0"
}

# usage: the same, where it was used in another way; exits with status 64.
usage() {
    explain >&2
    exit 64
}

# misused WORDS...: prints what is wrong before that.
misused() {
    say "${0##*/}: $*"
    usage
}

# The scripts read this file first, with their own arguments.
if [ "${1:-}" = --help ]; then
    explain
    exit 0
fi

# step LOG WHAT COMMAND...: prints WHAT, runs the command with its output in LOG, shows the log's end if it fails, and
# prints how long it took if that was more than a moment.
step() {
    local log=$1 what=$2 start=$SECONDS status=0
    shift 2
    printf '%s ... ' "$what" >&2
    "$@" >"$log" 2>&1 </dev/null || status=$?
    if [ "$status" -ne 0 ]; then
        say "FAILED (exit status $status)"
        tail -n 40 "$log" | sed 's/^/    /' >&2
        say "    (all of it: $log)"
        return "$status"
    fi
    if ((SECONDS - start >= 2)); then
        say "done ($((SECONDS - start)) s)"
    else
        say "done"
    fi
}

# -------------------------------------------------------------------- users

# unprivileged_user: the user of a server that root starts: mysql, else nobody.
unprivileged_user() {
    local user
    for user in mysql nobody; do
        if id -u "$user" >/dev/null 2>&1; then
            printf '%s\n' "$user"
            return 0
        fi
    done
    die "there is no user mysql or nobody to run a server as (and never as root)"
}

# as_user USER COMMAND...: replaces this process by the command, without root's rights. USER "": the present user.
as_user() {
    local user=$1
    shift
    if [ -z "$user" ]; then
        exec "$@"
    fi
    exec setpriv --reuid="$(id -u "$user")" --regid="$(id -g "$user")" --clear-groups \
        --inh-caps=-all --no-new-privs \
        env -u HOME -u XDG_RUNTIME_DIR USER="$user" LOGNAME="$user" "$@"
}

# reachable USER FOLDER
reachable() {
    [ -z "$1" ] || (as_user "$1" test -x "$2") 2>/dev/null
}

# ----------------------------------------------------------------- waiting

# poll SECONDS COMMAND...: repeats the command until it succeeds, at most for so long.
poll() {
    local end=$((SECONDS + $1))
    shift
    until "$@"; do
        if ((SECONDS > end)); then
            return 1
        fi
        nap 0.05
    done
}

# nap SECONDS: a pause without a process: nobody writes into this pipe.
nap_pipe=''
nap() {
    [ -n "$nap_pipe" ] || exec {nap_pipe}<> <(:)
    read -rt "$1" -u "$nap_pipe" || true
}

# free_port: a port that nobody listens on now.
free_port() {
    local port try
    for ((try = 0; try < 50; try++)); do
        port=$((20000 + RANDOM % 12000))
        if ! (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
            printf '%s\n' "$port"
            return 0
        fi
    done
    die "no free port"
}

# program NAME: its path, also in folders that a plain user's PATH lacks.
program() {
    PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin command -v "$1"
}

# ---------------------------------------------------------------- building

# configure BUILD OPTIONS...: runs cmake, with Ninja unless the folder has another generator. If the tree was moved or
# copied, it makes a new cache.
configure() {
    local build=$1 cache=$1/CMakeCache.txt generator=(-G Ninja)
    shift
    if [ -f "$cache" ] && {
        ! grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$ROWLOCK_ROOT" "$cache" ||
            ! grep -qxF "CMAKE_CACHEFILE_DIR:INTERNAL=$(cd "$build" && pwd)" "$cache"
    }; then
        rm -rf "$cache" "$build/CMakeFiles" "$build/.ninja_deps" "$build/.ninja_log"
    fi
    if [ -f "$cache" ]; then
        generator=()
    fi
    cmake -S "$ROWLOCK_ROOT" -B "$build" "${generator[@]}" "$@"
}

# build BUILD TARGETS...: without TARGETS all.
build() {
    local build=$1
    shift
    cmake --build "$build" -j "$(nproc)" ${1:+--target "$@"}
}
