#!/usr/bin/env bats
# rowlock run on a terminal: the line while it waits, and the signals of the keyboard. As a job of a shell:
# run_jobs.bats.

load helpers
load run_helpers

# on_tty STEP... -- ARGUMENT...: `rowlock run ARGUMENT...; echo exit=$?` on a terminal of COLS columns.
on_tty() {
    local steps=()
    while [ "$1" != -- ]; do
        steps+=("$1")
        shift
    done
    on_terminal_steps "${steps[@]}" -- bash -c 'stty cols "$1" rows 24 -opost; rl run "${@:2}"; echo "exit=$?"' - \
        "${COLS:-100}" "${@:2}"
}

LET_GO='until:touch "$D/let_go"'

# The first line of the screen that says what it waits for.
waiting_line() {
    tr '\r' '\n' <screen | sed 's/\x1b\[J//' | grep -a -m 1 '^waiting'
}

@test "a wait shows one line, which goes away" {
    hold --label "somebody@here 1 job"
    # The line is shown, refreshed, and erased before anything else is written.
    on_tty 'wait:waiting ' 'wait:waiting ' "$LET_GO" -- "$L" -- echo done
    text=$(<screen)
    [[ "$text" =~ waiting\ [0-9.]+m?s\ for\ $L:\ held\ by\ somebody@here\ 1\ job\ for\ [0-9.]+m?s,\ lease\ ends\ in\ [0-9]+s ]]
    [[ "$text" == *$'\r\033[Jdone\n'* ]]
    [[ "${text##*done}" != *waiting* ]]
    # One line: no newline before the command's own.
    [[ "${text%%done*}" != *$'\n'*$'\n'* ]]
    [[ "$text" == *exit=0* ]]
}

shows_no_line() { # STATUS ARGUMENT...
    on_tty -- "${@:2}"
    run ! grep -qa 'waiting\|\[J' screen
    grep -qa "exit=$1" screen
}

# The line comes after 0.3 s, even if that is only because the machine stood still.
is_free_at_once() {
    before=$(now_ms)
    on_tty -- "$L" -- echo done
    grep -qa "exit=0" screen
    if grep -qa 'waiting\|\[J' screen; then
        [ "$(stood_since "$before")" -ge 200 ]
    fi
}

is_cut() {
    hold --label "$(printf 'w%.0s' {1..120})"
    COLS=12 shows_no_line 1 -w 1.5 "$L" -- true
    shows_no_line 1 -n "$L" -- true
    run rl run -w 1.5 "$L" -- true
    [[ "$output" != *waiting* ]]
    COLS=40 on_tty 'wait:, lock' "$LET_GO" -- "$L" -- true
    line=$(tr '\r' '\n' <screen | sed 's/\x1b\[J//' | grep -a -m 1 ', lock')
    [ "${#line}" -le 39 ]
    [[ "$line" =~ ^[0-9.]+m?s", lock".*": w"w*…$ ]]
}

is_of_a_row() {
    hold --mode=pessimistic --label "$(printf 'a\u202eb\u009bc')"
    on_tty 'wait:waiting ' "$LET_GO" -- --mode=pessimistic "$L" -- true
    [[ "$(waiting_line)" =~ ^"waiting "[0-9.]+m?s" for $L: held by a"[^$'\u202e\u009b']*" for "[0-9.]+m?s$ ]]
}

is_of_one_that_is_frozen() {
    rl freeze --reason "deploy of 4.2" "$L"
    on_tty "wait:waiting [0-9.]+m?s for $L: frozen by .*: deploy of 4.2" "until:rl thaw '$L'" -- "$L" -- true
}

is_of_one_that_is_shut() {
    rl run --at-least=59s "$L" -- true
    on_tty 'wait:waiting ' 'until:rl break --now "$L"' -- "$L" -- true
    grep -qaE "waiting [0-9.]+m?s for $L: cooling for another [1-5][0-9]s" screen
}

@test "the waiting line: as wide as the terminal; a row lock, a holder that means ill, a lock that is cooling; none" {
    side_by_side is_cut is_of_a_row is_of_one_that_is_frozen is_of_one_that_is_shut is_free_at_once
}

@test "the waiting line: how long of how much, for how long the lock is usually held; a long name; a narrower terminal" {
    L="$L a rather long name that has its sense at its end/nightly"
    rl run "$L" -- sleep 1
    # The forecast is the median: one long hold does not count.
    for minutes in 5 5 600; do
        sql "INSERT INTO lock_event (resource_name, kind, event, version, owner, owner_label, happened_at, waited_ms, held_ms, exit_status)
            VALUES ('$L', 'optimistic', 'released', 1, 'x', 'x', UTC_TIMESTAMP(6), 0, $minutes * 60000, 0)"
    done
    # The history is written some 10 s later, or at the client's end.
    hold --label "host@app1 job"
    COLS=200 on_tty 'wait:waiting [0-9.]+m?s of 10m for ' "$LET_GO" -- -w 10m "$L" -- true
    [[ "$(tr '\r' '\n' <screen)" =~ waiting\ [0-9.]+m?s\ of\ 10m\ for\ lock.*nightly:\ held\ by\ host@app1\ job\ for\ [0-9.]+m?s,\ usually\ 5m00s ]]
    rm let_go held
    hold --label "host@app1 job"
    # 60 columns, then 40 while the line is shown: the holder stays readable.
    COLS=60 on_tty 'wait: of 10m, lock' 'columns:40' 'wait: of 10m, lock ...htly' "$LET_GO" -- -w 10m "$L" -- true
    tr '\r' '\n' <screen | sed 's/\x1b\[J//' | grep -a ' of 10m' >lines
    cat lines
    [ "$(head -n 1 lines | wc -L)" -le 59 ]
    [ "$(tail -n 1 lines | wc -L)" -le 39 ]
    [[ "$(head -n 1 lines)" =~ ^[0-9.]+m?s\ of\ 10m,\ lock.*…nightly:\ host@app1\ job,\ usually\ 5m00s$ ]]
    [[ "$(tail -n 1 lines)" =~ ^[0-9.]+m?s\ of\ 10m,\ lock.*…htly:\ host@app1 ]]
    # The cursor is at the start of the text that is erased, even if the terminal has wrapped the line.
    [[ "$(<screen)" != *waiting*[!$'\r']$'\r\033[J'* ]] || [[ "$(<screen)" == *$'\r\r\033[J'* ]]
    [[ "$(<screen)" == *$'\r\033[Jexit=0'* ]]
}

@test "-v where stderr is no terminal: whom it waits for, once" {
    hold --label "host@app1 job"
    run -1 --separate-stderr rl run -v -w 6s "$L" -- true
    [ "$(grep -c "^rowlock: waiting for $L: held by host@app1 job for [0-9.]*m\?s, " <<<"$stderr")" -eq 1 ]
    run -1 --separate-stderr rl run -w 1s "$L" -- true
    [[ "$stderr" != *waiting* ]]
}

@test "^C while waiting: the line goes, and rowlock with it" {
    hold
    # The outer shell saw a death by SIGINT, and died too.
    run -130 on_tty 'wait:waiting ' 'type:\x03' -- "$L" -- echo no
    run ! grep -qa '^no\|exit=' screen
    text=$(<screen)
    [[ "${text##*waiting}" == *$'\r\033[J'* ]]
    is_alive "$HOLDER"
}

@test "in the foreground the command reads the terminal, and hears ^C once" {
    cat >tty.sh <<'END'
n=0
trap 'n=$((n + 1))' INT
read -r line
echo "read <$line>"
until [ "$n" -gt 0 ]; do sleep 0.05; done
for i in 1 2 3 4 5 6 7 8; do sleep 0.05; done
echo "heard $n"
[ "$(ps -o pgid= -p $$ | tr -d ' ')" = "$(ps -o tpgid= -p $$ | tr -d ' ')" ] && echo "foreground"
exit 5
END
    on_tty 'type:hello\n' 'wait:read <hello>' 'type:\x03' 'wait:heard 1$' 'wait:foreground' 'wait:exit=5' -- "$L" -- bash tty.sh
}
