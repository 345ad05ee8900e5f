# rowlock check and metrics, for monitoring systems.

bats_require_minimum_version 1.5.0

load helpers
load run_helpers

# aged NAME COLUMN AGE: moves that time of the name into the past ("27 HOUR").
aged() {
    sql "UPDATE lock_total t JOIN resource r ON r.id = t.id SET t.$2 = UTC_TIMESTAMP(6) - INTERVAL $3 WHERE r.resource_name = '$1'"
}

# checks STATUS PATTERN ARGUMENT...: the first line has at most 60 columns, with performance data after it; no stderr.
checks() {
    run --separate-stderr rl check "${@:3}"
    echo "check ${*:3}: exit $status, stdout: $output, stderr: $stderr"
    [ "$status" -eq "$1" ]
    [ -z "$stderr" ]
    # shellcheck disable=SC2053 # a pattern
    [[ ${lines[0]} == $2" | names="*" held="* ]]
    [ "$(head -n 1 <<<"$output" | sed 's/ | .*//' | wc -L)" -le 60 ]
}

@test "check: a success, its age and what it took; another exit status is no success" {
    rl run well true
    checks 0 "OK - well succeeded *s ago, took *s" --max-age=26h --failed well
    [[ ${lines[0]} == *" 'well_age'="*"s;;93600.000;0 'well_took'="*"s;;;0" ]]
    [ "${#lines[@]}" -eq 1 ]
    aged well succeeded_at "26 HOUR"
    checks 2 "CRITICAL - well has not succeeded for 1d02h" --max-age=25h well
    checks 0 "OK - well *" --max-age=27h well
    run -3 rl run well sh -c 'exit 3'
    checks 2 "CRITICAL - well has not succeeded for 1d02h" --max-age=25h --failed well
    [[ ${lines[1]} == "CRITICAL: well has not succeeded for 1d02h, failed "*"s ago (exit 3)" ]]
    checks 0 "OK - well succeeded 1d02h ago*" --max-age=27h well
    rl run well true
    checks 0 "OK - well *" --max-age=25h --failed well
    rl show --json well | json '.holds == 3 and .holds_failed == 1 and .failed_exit_status == 3 and .succeeded_at > .failed_at and .succeeded_held_us > 0'
    rl show well | grep -qE '^succeeded +20.* UTC \(.* ago\)$'
    rl show well | grep -qE '^failed +20.* UTC \(.* ago\)$'
    rl show well | grep -qE '^ +exit status 3$'
}

@test "check: what never ran, and what never succeeded, is critical; a first run is not" {
    checks 2 "CRITICAL - nowhere never ran" nowhere
    checks 2 "CRITICAL - none/\* never ran" 'none/*'
    run -1 rl run bad false
    checks 2 "CRITICAL - bad has never succeeded" --max-age=26h bad
    checks 2 "CRITICAL - bad failed *s ago (exit 1)" --failed bad
    L=killed
    background run "$L" -- sleep 600
    poll state_is "$L" held
    kill -KILL "$BACK"
    ends_with 137
    sql "UPDATE resource r JOIN lease_renewal l ON l.id = r.id
            SET r.lease_expires_at = UTC_TIMESTAMP(6) - INTERVAL 1 SECOND,
                l.expires_at = IF(l.expires_at IS NULL, NULL, UTC_TIMESTAMP(6) - INTERVAL 1 SECOND)
          WHERE r.resource_name = '$L'"
    state_is "$L" expired
    checks 2 "CRITICAL - killed has never succeeded" --max-age=26h killed
    rl run killed true
    L=first
    background run "$L" -- sh -c 'touch held; until [ -e let_go ]; do sleep 0.2; done'
    poll test -e held
    checks 0 "OK - first is held for *s" --max-age=26h --failed first
    poll rl check --max-age=1s first && false || rl check --max-held=1ms first >told || [ $? -eq 1 ]
    grep -q "^WARNING - first is held for .*s | names=1;;;0 held=1;;;0 'first_held'=[0-9.]*s;0.001;;0$" told
    grep -q "^WARNING: first is held for .*s, by .* sh$" told
    touch let_go
    ends_with 0
    checks 0 "OK - first *" --max-age=26h --max-held=2h --failed first
}

@test "check: several names, patterns and all: the worst first, a line for each, no more than the first line can say" {
    for i in 1 2 3 4 5; do run -1 rl run "many/$i" false; done
    rl run many/6 true
    rl run "many/it's a=b|c" true
    checks 2 "CRITICAL - 5 of 7: many/1 failed *s ago (exit 1)" --failed 'many/*'
    [ "${#lines[@]}" -eq 8 ]
    [[ ${lines[1]} == "CRITICAL: many/1 failed"* && ${lines[6]} == "OK: many/6 succeeded"* && ${lines[7]} == "OK: many/it's a=b/c succeeded"* ]]
    [[ ${lines[0]} == *" 'many/it''s a_b_c_age'="* ]]
    [ "$(tr -dc '|' <<<"$output")" = '|' ]
    run -3 --separate-stderr rl check -- ' a|b'
    [ "$(tr -dc '|' <<<"$output")" = '' ]
    checks 2 "CRITICAL - 2 of 3: many/1 failed *" --failed many/6 many/1 nowhere
    checks 2 "CRITICAL - *" --failed
    checks 0 "OK - *" 
}

@test "check: 60 columns of a terminal say the worst, a line each the rest; --json says it all" {
    long="a name of a job that is a good deal longer than any line: nightly"
    rl run "$long" true
    run -7 rl run "$long" sh -c 'exit 7'
    aged "$long" succeeded_at "2 DAY"
    checks 2 "CRITICAL - a n*tly has not succeeded for 2d00h" --max-age=26h --failed "$long"
    [ "${lines[1]}" = "CRITICAL: $long has not succeeded for 2d00h, ${lines[1]##*, }" ]
    rl run fine true
    run -2 on_terminal 60 rl check --max-age=26h "$long" fine
    [[ ${lines[0]} == "CRITICAL - 1 of 2: a "*"tly has not succeeded for 2d00h" ]]
    [ "$(wc -L <<<"${lines[0]}")" -le 60 ]
    [ "${#lines[@]}" -eq 3 ]
    run -2 rl check --json --max-age=26h --failed "$long" fine
    json '.status == "CRITICAL" and .exit_status == 2 and .held == 0 and (.message | startswith("CRITICAL - 1 of 2: a "))
        and (.names | length == 2 and (.[0] | .status == "CRITICAL" and .failed_exit_status == 7 and .succeeded_ms > 172000000)
            and (.[1] | .name == "fine" and .status == "OK" and .succeeded_held_us > 0 and .failed_ms == null and .held_ms == null))' <<<"$output"
    run -0 rl check --json fine
    json '.status == "OK" and .message == "OK - fine " + .names[0].message[:(.message | length - 10)]' <<<"$output"
}

@test "check: a name with slots is judged by all its slots" {
    rl run --slots=2 crew true
    checks 0 "OK - crew succeeded *" --max-age=26h --failed crew
    for slot in 0 1; do aged "crew#$slot" succeeded_at "2 DAY"; done
    checks 2 "CRITICAL - crew has not succeeded for 2d00h" --max-age=26h crew
    rl run 'crew!x' true
    rl run --slots=2 crew true
    aged "crew!x" succeeded_at "1 HOUR"
    checks 0 "OK - all 2 are well" --max-age=26h 'crew*'
    [ "${#lines[@]}" -eq 3 ]
}

@test "check: readers hold; what nobody holds is not checked; metrics do not count it as held" {
    rl latch set closed 1
    rl queue put items -- payload
    L=read
    background run --shared "$L" -- sh -c 'touch held; until [ -e let_go ]; do sleep 0.2; done'
    poll test -e held
    checks 0 "OK - read is held by 1 reader" read
    [[ ${lines[0]} == *" held=1;;;0" ]]
    rl metrics >metrics
    touch let_go
    ends_with 0
    rl latch down closed
    checks 3 "UNKNOWN - closed is a latch*" closed
    checks 3 "UNKNOWN - 1 of 2: items is a queue: nobody holds it" items read
    checks 2 "CRITICAL - 2 of 3: gone never ran" items gone read
    run -3 rl check --json items
    json '.exit_status == 3 and (.names | length) == 1' <<<"$output"
    [ "$(value 'rowlock_holders{name="read"}')" = 1 ]
    run ! grep -E '^rowlock_holders.name="(closed|items)"' metrics
    [ "$(value 'rowlock_queue_ready{name="items"}')" = 1 ]
    grep -qE '^rowlock_queue_oldest_seconds\{name="items"\} [0-9.]+$' metrics
    [ "$(grep -c '^rowlock_queue_dead{' metrics)" = 1 ]
}

@test "check: once: a period that others have done is no success of one's own, one that failed is critical" {
    rl once --per=1d daily -- true
    checks 0 "OK - daily *" --max-age=26h --failed daily
    aged daily succeeded_at "30 HOUR"
    sql "UPDATE once_run o JOIN resource r ON r.id = o.resource_id SET o.ended_at = UTC_TIMESTAMP(6) - INTERVAL 30 HOUR WHERE r.resource_name = 'daily'"
    rl once --per=1d daily -- true
    checks 2 "CRITICAL - daily has not succeeded for 1d06h" --max-age=26h daily
    run -1 rl once --per=1d --attempts=1 other -- false
    run -1 rl once --per=1d --attempts=1 other -- false
    checks 2 "CRITICAL - other failed *" --failed other
}

# period NAME STATE AGO: adds a period to the ledger; no hold is counted.
period() {
    sql "INSERT INTO once_run (resource_id, period_start, period_end, state, token, owner, owner_label, attempts, started_at, ended_at)
        SELECT id, UTC_TIMESTAMP(6) - INTERVAL $3, UTC_TIMESTAMP(6) - INTERVAL $3 + INTERVAL 1 DAY, '$2', $((++periods)), 'x', 'sql', 1,
               UTC_TIMESTAMP(6) - INTERVAL $3, UTC_TIMESTAMP(6) - INTERVAL $3 FROM resource WHERE resource_name = '$1'"
}

@test "check: once in SQL, of which the ledger alone tells: one that never succeeds; one that did, before it failed" {
    for name in never lately; do
        rl run "$name" true
        sql "DELETE t FROM lock_total t JOIN resource r ON r.id = t.id WHERE r.resource_name = '$name'"
    done
    period never failed "2 HOUR"
    checks 2 "CRITICAL - never has never succeeded" --max-age=26h never
    period lately done "30 HOUR"
    period lately failed "2 HOUR"
    checks 2 "CRITICAL - lately has not succeeded for 1d06h" --max-age=26h lately
    checks 0 "OK - lately succeeded 1d06h ago" --max-age=31h lately
    rl metrics | grep -q '^rowlock_last_success_timestamp_seconds{name="lately"}'
    rl run lately true
    sql "UPDATE once_run SET ended_at = UTC_TIMESTAMP(6) + INTERVAL 1 SECOND WHERE state = 'done'"
    rl show --json lately | json '.succeeded_held_us == null'
}

@test "check: its own errors are 3, and said on stdout" {
    run -3 --separate-stderr "$ROWLOCK" --no-defaults -S "$TEST_DIR/no.sock" -u root check well
    [[ ${lines[0]} == "UNKNOWN - cannot connect as 'root' "*…  && ${lines[1]} == "cannot connect as 'root' "*no.sock* ]]
    [ "$(wc -L <<<"${lines[0]}")" -eq 60 ]
    run -3 --separate-stderr "$ROWLOCK" --no-defaults -S "$TEST_DIR/no.sock" -u root check --json well
    json '.status == "UNKNOWN" and .exit_status == 3 and (.message | test("no.sock")) and .names == []' <<<"$output"
    run -3 --separate-stderr rl check --max-age=never well
    [[ $output == "UNKNOWN - "*"--max-age"* ]]
    run -3 --separate-stderr rl check --max-age=never --json well
    json '.status == "UNKNOWN" and (.message | test("--max-age"))' <<<"$output"
    run -3 --separate-stderr rl check --nonsense
    [[ $output == "UNKNOWN - "*"--nonsense"* ]]
    run -3 --separate-stderr rl -D rowlock_none_such check
    [[ $output == "UNKNOWN - "*init* ]]
    run -3 --separate-stderr rl check -- " padded"
    works rl check --help
    new_user looks "SELECT ON \`$TEST_SCHEMA\`.*"
    rl run well true
    run -0 rl_as looks check --max-age=26h well
}

@test "check: a lock that was lost has failed; one whose holder is dead is a warning" {
    L=dies
    background run --ttl=20s "$L" -- sh -c 'touch held; exec sleep 100'
    poll test -e held
    rl break --now "$L"
    ends_with 75
    checks 2 "CRITICAL - dies failed *s ago*" --failed dies
    rl show --json dies | json '.holds_lost == 1 and .holds_failed == 1'
    sql "UPDATE resource r JOIN lease_renewal l ON l.id = r.id SET r.status = 'held', r.owner = 'x', r.acquired_at = UTC_TIMESTAMP(6) - INTERVAL 1 HOUR,
        r.lease_expires_at = UTC_TIMESTAMP(6) - INTERVAL 1 SECOND, l.expires_at = NULL WHERE r.resource_name = 'dies'"
    checks 1 "WARNING - dies has a holder whose time is over" dies
    rl sweep >swept
}

# held_for NAME MILLISECONDS: adds a hold of that length to the history, which ended well.
held_for() {
    sql "INSERT INTO lock_event (resource_name, kind, event, version, owner, owner_label, happened_at, waited_ms, held_ms, exit_status)
        VALUES ('$1', 'optimistic', 'released', 1, 'x', 'x', UTC_TIMESTAMP(6), 0, $2, 0)"
}

@test "show: how long holds usually take, and when the present one is due" {
    L=usual
    rl run "$L" true
    held_for "$L" 60000
    rl show "$L" >shown
    [ "$(grep -cE '^(usually|due) ' shown)" = 0 ]
    for minutes in 1 2 3 4 5 6 7 8 30; do held_for "$L" $((minutes * 60000)); done
    rl show "$L" | grep -qx 'usually      4m00s, 95 % within 30m00s (of the last 11)'
    background run "$L" -- sh -c 'touch held; until [ -e let_go ]; do sleep 0.2; done'
    poll test -e held
    rl show "$L" | grep -qE '^due +in 3m[0-9]+s$'
    sql "UPDATE resource SET acquired_at = UTC_TIMESTAMP(6) - INTERVAL 1 HOUR WHERE resource_name = '$L'"
    rl show "$L" | grep -qE '^due +56m[0-9]+s ago$'
    touch let_go
    ends_with 0
}

is_renewed() { # NAME
    [ "$(sql "SELECT COUNT(*) FROM resource r JOIN lease_renewal l ON l.id = r.id AND l.version = r.version
        WHERE resource_name = '$1' AND expires_at > lease_expires_at")" = 1 ]
}
export -f is_renewed

@test "doctor: a lease that was nearly lost between two renewals is told, with a TTL that bears it" {
    rl run gaps true
    [ "$(rl doctor --json | jq '[.[] | select(.check == "renewals")] | length')" = 0 ]
    sql "UPDATE lock_total t JOIN resource r ON r.id = t.id SET t.gap_us = 24000000, t.gap_part = 800 WHERE r.resource_name = 'gaps'"
    rl doctor --json | jq -es '.[0][] | select(.check == "renewals") | .level == "care" and (.found | test("renewals of .gaps., on .*, was 80 % of its TTL .24.0 s")) and (.remedy | test("TTL of 48 s or more"))'
    rl show --json gaps | json '.longest_gap_us == 24000000'
    # The finding is gone a day later, or with the next hold on another day.
    sql "UPDATE lock_total SET last_at = UTC_TIMESTAMP(6) - INTERVAL 25 HOUR"
    [ "$(rl doctor --json | jq '[.[] | select(.check == "renewals")] | length')" = 0 ]
    rl run gaps true
    rl show --json gaps | json '.longest_gap_us < 20000000'
    # The renewal that came nearest to the end is kept, and no other one.
    sql "UPDATE lock_total SET gap_us = 200000000, gap_part = 1"
    rl run --ttl=20s gaps -- bash -c 'poll is_renewed gaps'
    rl show --json gaps | json '.longest_gap_us < 100000000'
    sql "UPDATE lock_total SET gap_us = 0, gap_part = 0"
}

# promtool ARGUMENT...: that of Debian's package prometheus; if it is not installed, unpacked into the tree's .private.
promtool() {
    local root=$BATS_TEST_DIRNAME/../.. program
    program=$(type -P promtool) || program=$root/.private/prometheus/usr/bin/promtool
    if [ ! -x "$program" ]; then
        (mkdir -p "$root/.private/prometheus" && cd "$TEST_DIR" && apt-get download -qq prometheus &&
            dpkg-deb -x prometheus_*.deb "$root/.private/prometheus") >&2 || return 77
    fi
    "$program" "$@"
}

has_promtool() {
    promtool --version >/dev/null 2>&1 || skip "promtool of Debian's package prometheus cannot be had"
}

# value METRIC: prints its one value.
value() {
    grep -vF '# ' metrics | grep -F "$1 " | sed 's/.* //'
}

@test "metrics: what promtool finds right, with the counts of the names; and a file that is whole" {
    rl run counted true
    run -7 rl run counted sh -c 'exit 7'
    run -1 rl run 'odd "name"\' false
    rl metrics >metrics
    [ "$(value 'rowlock_acquisitions_total{name="counted"}')" = 2 ]
    [ "$(value 'rowlock_failed_total{name="counted"}')" = 1 ]
    [ "$(value 'rowlock_holders{name="counted"}')" = 0 ]
    [ "$(value 'rowlock_acquisitions_total{name="odd \"name\"\\"}')" = 1 ]
    [ "$(value rowlock_names_left_out)" = 0 ]
    [ "$(value 'rowlock_doctor_level{check="schema"}')" = 0 ]
    grep -q '^rowlock_doctor_level{check="event"} [0-3]$' metrics
    # The time is by the server's clock, in seconds.
    last=$(value 'rowlock_last_success_timestamp_seconds{name="counted"}')
    [ "$(sql "SELECT $last BETWEEN UNIX_TIMESTAMP() - 100 AND UNIX_TIMESTAMP() + 1")" = 1 ]
    [ "$(grep -c '^rowlock_last_success_timestamp_seconds{name="odd' metrics)" = 0 ]
    has_promtool
    promtool check metrics <metrics
}

@test "metrics: who holds and who waits; names are capped, those in use first" {
    L=busy
    background run "$L" -- sh -c 'touch held; until [ -e let_go ]; do sleep 0.2; done'
    poll test -e held
    for i in 1 2 3; do rl run "idle/$i" true; done
    rl freeze busy
    rl metrics --names=2 >metrics
    rl thaw busy
    [ "$(value 'rowlock_frozen{name="busy"}')" = 1 ]
    [ "$(grep -c '^rowlock_frozen{name="idle/.*"} 0$' metrics)" -eq 1 ]
    [ "$(value rowlock_frozen_names)" = 1 ]
    [ "$(value 'rowlock_holders{name="busy"}')" = 1 ]
    [ "$(grep -c '^rowlock_holders{' metrics)" -eq 2 ]
    grep -q '^rowlock_holders{name="idle/' metrics
    [ "$(value rowlock_names_left_out)" = $(($(rl ls -a --json | jq length) - 2)) ]
    [ "$(value 'rowlock_locks{state="held"}')" = 1 ]
    grep -qE '^rowlock_held_seconds\{name="busy"\} [0-9.]+$' metrics
    rl_exec run "$L" -- true &
    waiter=$!
    waits() { rl metrics >metrics && [ "$(value 'rowlock_waiters{name="busy"}')" = 1 ] && [ "$(value rowlock_all_waiters)" = 1 ]; }
    poll waits
    touch let_go
    ends_with 0
    wait "$waiter"
}

@test "metrics --out: the last file stays until the next one is whole, and where it cannot be written" {
    mkdir folder
    is_silent 0 rl metrics --out=folder/rowlock.prom
    rl metrics | grep -c '^# TYPE' >types
    [ "$(grep -c '^# TYPE' folder/rowlock.prom)" = "$(cat types)" ]
    [ "$(stat -c %a folder/rowlock.prom)" = 644 ]
    [ "$(ls -A folder)" = rowlock.prom ]
    cp folder/rowlock.prom before
    run -69 "$ROWLOCK" --no-defaults -S "$TEST_DIR/no.sock" -u root metrics --out=folder/rowlock.prom
    cmp before folder/rowlock.prom
    fails 74 "cannot write nowhere/rowlock.prom: No such file*" rl metrics --out=nowhere/rowlock.prom
    # A full disk.
    if [ -w /dev/full ]; then
        run -74 bash -c 'rl metrics >/dev/full'
    fi
    fails 74 "cannot write *" bash -c 'ulimit -f 1; trap "" XFSZ; rl metrics --out=folder/rowlock.prom'
    cmp before folder/rowlock.prom
    [ "$(ls -A folder)" = rowlock.prom ]
}

@test "metrics: by a user that only looks" {
    new_user looks "SELECT ON \`$TEST_SCHEMA\`.*"
    rl_as looks metrics >metrics
    [ "$(value 'rowlock_doctor_level{check="privileges"}')" -lt 3 ]
    # With EXECUTE alone: the URL has via=procedures.
    rl init -q --procedures
    new_user runs "EXECUTE ON \`$TEST_SCHEMA\`.*"
    "$ROWLOCK" --no-defaults --url="mysql://$(user_of runs)@localhost/$TEST_SCHEMA?socket=$ROWLOCK_TEST_SOCKET&via=procedures" metrics >metrics
    for check in schema privileges; do
        [ "$(value "rowlock_doctor_level{check=\"$check\"}")" -lt 3 ]
    done
}

@test "alert rules: promtool finds them right, and each metric in them is one of ours" {
    rules=$BATS_TEST_DIRNAME/../../docs/examples/rowlock.rules.yml
    rl metrics >metrics
    for metric in $(grep -oE '\browlock_[a-z_]+' "$rules" | sort -u); do
        grep -q "^# TYPE $metric " metrics || { echo "no $metric"; false; }
    done
    has_promtool
    promtool check rules "$rules"
}
