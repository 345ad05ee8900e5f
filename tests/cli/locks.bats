#!/usr/bin/env bats
# Commands that show or change locks: ls, show, history, sweep, break. Where only the output matters, locks are inserted
# into the tables by hand.

load helpers

setup() {
    sql "DELETE FROM resource; DELETE FROM resource_lock; DELETE FROM lease_renewal; DELETE FROM lock_event;
         DELETE FROM lock_grant"
}

# hex TEXT: sets $hex to its bytes, for SQL.
hex() {
    local LC_ALL=C i byte
    hex=''
    for ((i = 0; i < ${#1}; i++)); do
        printf -v byte %02x "'${1:i:1}"
        hex+=${byte: -2}
    done
}

# a_lock NAME [HELD_S [LEFT_S [LABEL]]]: adds a held lease.
a_lock() {
    local hex name
    hex "$1" && name=$hex
    hex "${4-batch@db1 4711 close.sh}"
    sql "INSERT INTO resource (resource_name, kind, status, version, owner, owner_label,
                               acquired_at, lease_expires_at, update_time)
         VALUES (CONVERT(x'$name' USING utf8mb4), 'optimistic', 'held', 42, 'owner-1',
                 CONVERT(x'$hex' USING utf8mb4),
                 UTC_TIMESTAMP(6) - INTERVAL ${2-192} SECOND,
                 UTC_TIMESTAMP(6) + INTERVAL ${3-3600} SECOND, UTC_TIMESTAMP(6));
         INSERT INTO lease_renewal (id) VALUES (LAST_INSERT_ID())"
}

# a_free_lock NAME [UNUSED_S]
a_free_lock() {
    sql "INSERT INTO resource (resource_name, kind, status, version, owner, update_time)
         VALUES ('$1', 'optimistic', 'free', 7, 'owner-0', UTC_TIMESTAMP(6) - INTERVAL ${2-0} SECOND);
         INSERT INTO lease_renewal (id) VALUES (LAST_INSERT_ID())"
}

# a_shared_lock NAME [READER...]: adds a lease that these hold together; the time of `gone` is over.
a_shared_lock() {
    local reader
    sql "INSERT INTO resource (resource_name, kind, status, version, owner, owner_label, update_time)
         VALUES ('$1', 'optimistic', 'shared', 42, 'owner-0', 'the last writer', UTC_TIMESTAMP(6));
         INSERT INTO lease_renewal (id) VALUES (LAST_INSERT_ID())"
    for reader in "${@:2}"; do
        sql "INSERT INTO lock_grant (resource_id, owner, owner_label, version, acquired_at, expires_at)
             SELECT id, '$reader', 'label of $reader', version, UTC_TIMESTAMP(6),
                    UTC_TIMESTAMP(6) + INTERVAL IF('$reader' = 'gone', -10, 3600) SECOND
               FROM resource WHERE resource_name = '$1'"
    done
}

# an_event NAME EVENT [AGE_S [DETAIL]]
an_event() {
    local hex name
    hex "$1" && name=$hex
    hex "${4-}"
    sql "INSERT INTO lock_event (resource_name, kind, event, version, owner, owner_label, happened_at,
                                 waited_ms, held_ms, exit_status, detail)
         VALUES (CONVERT(x'$name' USING utf8mb4), 'optimistic', '$2', 42, 'owner-1', 'batch@db1 4711 close.sh',
                 UTC_TIMESTAMP(6) - INTERVAL ${3-0} SECOND, 12, NULL, 3,
                 CONVERT(x'$hex' USING utf8mb4))"
}

@test "ls: nothing held" {
    a_free_lock idle
    is_silent 0 rl ls
    run --separate-stderr rl ls --json
    [ "$output" = "[]" ]
    run -0 on_terminal 80 rl ls
    [ "$output" = "rowlock: no lock is held" ]
}

@test "ls: a table, without colour and cuts where stdout is no terminal" {
    label="batch@db1 4711 $(printf 'argument %.0s' {1..20})end"
    a_lock nightly-close 192 3600 "$label"
    a_lock 夜間バッチ 5 3600
    a_free_lock idle
    works rl ls
    [ "${#lines[@]}" -eq 3 ]
    [[ "${lines[0]}" =~ ^NAME\ +STATE\ +MODE\ +HOLDER\ +SINCE\ +REMAINING\ +TOKEN$ ]]
    [[ "${lines[1]}" =~ ^nightly-close\ +held\ +lease\ +"$label"\ +3m[1-5][0-9]s\ +59m[0-9]+s\ +42$ ]]
    [[ "$output" != *$'\t'* ]]
    [[ "$output" != *$'\033'* ]]
    # Columns are aligned by display width, also after wide characters.
    head=${lines[0]%%STATE*}
    wide=${lines[2]%%held*}
    [ "${#wide}" -eq $((${#head} - 5)) ]
    run rl ls -a
    [ "${#lines[@]}" -eq 4 ]
    [[ "$output" =~ idle\ +free\ +lease\ +-\ +-\ +-\ +7 ]]
}

@test "ls on a terminal: fits, cuts with …, colours unless NO_COLOR" {
    a_lock nightly-close 192 3600 "batch@db1 4711 $(printf 'argument %.0s' {1..20})"
    for columns in 70 80 120; do
        NO_COLOR=1 run -0 on_terminal $columns rl ls
        [ "${#lines[@]}" -eq 2 ]
        [ "${#lines[1]}" -eq $columns ]
        [[ "${lines[1]}" == "nightly-close"*"batch@db1"*"…"* ]]
        [[ "$output" != *$'\033'* ]]
    done
    for columns in 60 40; do
        NO_COLOR=1 run -0 on_terminal $columns rl ls
        [ "${#lines[@]}" -eq 2 ]
        [ "${#lines[1]}" -le $columns ]
        [[ "${lines[1]}" =~ ^nig.*ose\ +held\ .*batch.*…\ +3m[1-5] ]]
    done
    TERM=xterm run on_terminal 80 rl ls
    [[ "$output" == *$'\033[32mheld\033[0m'* ]]
    # A state is never cut: MODE, REMAINING and TOKEN are left out first.
    works rl freeze --reason=test 'nightly*'
    NO_COLOR=1 run -0 on_terminal 60 rl ls
    row=${lines[1]}
    works rl thaw 'nightly*'
    [[ "$row" =~ ^nightly-close\ +"held, frozen"\ +batch@db1\ 4.*…\ +3m[1-5] ]]
}

@test "ls: more names than a page" {
    sql "INSERT INTO resource (resource_name, kind, status, version, owner, owner_label, acquired_at, lease_expires_at, update_time)
         SELECT CONCAT('many-', LPAD(seq, 5, '0')), 'optimistic', 'held', seq, 'o', 'l', UTC_TIMESTAMP(6),
                UTC_TIMESTAMP(6) + INTERVAL 1 HOUR, UTC_TIMESTAMP(6) FROM seq_1_to_2000"
    rl ls --json >"$TEST_DIR/many.json"
    [ "$(jq 'length' "$TEST_DIR/many.json")" -eq 2000 ]
    [ "$(jq '[.[].name] | unique | length' "$TEST_DIR/many.json")" -eq 2000 ]
    [ "$(jq -r '.[1999].name' "$TEST_DIR/many.json")" = many-02000 ]
    [ "$(rl ls | wc -l)" -eq 2001 ]
    [ "$(rl break 'many-*' 2>/dev/null | wc -l)" -eq 2000 ]
}

@test "a pattern: a last * stands for anything, \\* for itself; nothing else is special" {
    for name in billing/1 billing/2 billing billing_2 'billing/%' 'end*'; do
        a_lock "$name"
    done
    an_event billing/1 acquired
    an_event billing_2 acquired
    an_event 'end*' acquired
    names() { rl "$@" --json |& jq -r '.[].name' | tr '\n' ' '; }
    [ "$(names ls 'billing/*')" = "billing/% billing/1 billing/2 " ]
    [ "$(names ls 'billing/%*')" = "billing/% " ]
    [ "$(names ls 'billing_*')" = "billing_2 " ]
    misused "*show 'b\*'" rl ls 'b\*'
    [ "$(names ls '*')" = "$(names ls)" ]
    [ "$(names ls 'none*')" = "" ]
    misused "*show 'billing'" rl ls billing
    [ "$(names history 'billing/*')" = "billing/1 " ]
    [ "$(names history --name='billing*')" = "billing/1 billing_2 " ]
    [ "$(names history 'end\*')" = "end* " ]
    misused "*twice*" rl history --name=a a
    # A prefix also finds names that sort after most characters; a blank is a character.
    for name in p/z p/😀 'two words' 'dir\1' dir; do
        a_lock "$name"
    done
    an_event p/😀 acquired
    [ "$(names ls 'p/*')" = "p/z p/😀 " ]
    [ "$(names ls 'p/😀*')" = "p/😀 " ]
    [ "$(names history 'p/*')" = "p/😀 " ]
    [ "$(names ls 'two *')" = "two words " ]
    [ "$(names ls 'dir\\*')" = 'dir\1 ' ]
    fails 64 "*the prefix ' ' begins with white space" rl ls ' *'
}

@test "ls --json: types and values" {
    a_lock nightly-close
    a_free_lock idle
    run -0 --separate-stderr rl --json ls -a
    json '.[1] | .name == "nightly-close" and .mode == "lease" and .state == "held" and .token == 42
           and .owner == "owner-1" and .owner_label == "batch@db1 4711 close.sh"
           and (.acquired_at | test("^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}\\.[0-9]{6}Z$"))
           and .held_ms >= 192000 and .remaining_ms > 3500000 and .connection_id == null
           and .description == ""' <<<"$output"
    json '.[0] | .name == "idle" and .state == "free" and .held_ms == null and .remaining_ms == null
           and .expires_at == null' <<<"$output"
}

@test "ls: expired and cooling" {
    a_lock gone 100 -10
    a_free_lock closed
    sql "UPDATE resource SET not_before = UTC_TIMESTAMP(6) + INTERVAL 1 HOUR WHERE resource_name = 'closed'"
    run rl ls --json
    json '.[0].name == "closed" and .[0].state == "cooling" and .[0].remaining_ms > 3500000' <<<"$output"
    json '.[1].name == "gone" and .[1].state == "expired"' <<<"$output"
    run rl ls
    [[ "$output" =~ closed\ +cooling\ +lease\ +-\ +-\ +59m ]]
    [[ "$output" =~ gone\ +expired\ +lease\ +batch ]]
    run rl show closed
    [[ "$output" =~ opens\ +20.*\ UTC\ \(in\ 59m ]]
}

@test "show: one lock" {
    a_lock nightly-close
    works rl show nightly-close
    [[ "$output" =~ name\ +nightly-close ]]
    [[ "$output" =~ state\ +held ]]
    [[ "$output" =~ mode\ +lease ]]
    [[ "$output" =~ holder\ +"batch@db1 4711 close.sh" ]]
    [[ "$output" =~ token\ +42 ]]
    [[ "$output" =~ since\ +20.*\ UTC\ \(3m[1-5][0-9]s\ ago\) ]]
    [[ "$output" =~ until\ +20.*\ UTC\ \(in\ 59m ]]
    rl show --json nightly-close |& json '.name == "nightly-close" and .token == 42'
    # Options may follow the name.
    rl show nightly-close --json |& json '.state == "held"'
    fails 66 "*" rl show none-such
    fails 66 "*" rl show --json none-such
}

@test "ls and show: how many hold it together" {
    a_lock alone
    a_shared_lock menu one two three gone
    a_shared_lock nobody-in gone
    works rl ls
    [ "${#lines[@]}" -eq 3 ]
    [[ "${lines[1]}" =~ ^alone\ +held\ +lease\ +batch@db1 ]]
    [[ "${lines[2]}" =~ ^menu\ +held\ +lease\ +"3 together"\ +-\ +-\ +42$ ]]
    run rl ls -a
    [[ "${lines[3]}" =~ ^nobody-in\ +free\ +lease\ +-\ +-\ +-\ +42$ ]]
    run -0 --separate-stderr rl ls -a --json
    jq -e 'map(.readers) == [0, 3, 0]' <<<"$output"
    jq -e '.[1] | .name == "menu" and .state == "held" and .mode == "lease" and .token == 42 and .owner == ""
           and .owner_label == "" and .expires_at == null and .remaining_ms == null' <<<"$output"
    jq -e '.[2].state == "free"' <<<"$output"
    works rl show menu
    [[ "$output" =~ state\ +held ]]
    [[ "$output" =~ "held together"\ +3 ]]
    [[ "$output" =~ token\ +42 ]]
    [[ "$output" != *until* ]]
    [[ "$output" != *"last writer"* ]]
    rl show --json menu |& jq -e '.readers == 3 and .state == "held"'
    works rl show alone
    [[ "$output" != *together* ]]
}

@test "history: the oldest first, by name, the newest so many" {
    is_silent 0 rl history
    run rl history --json
    [ "$output" = "[]" ]
    an_event nightly acquired 30
    an_event other acquired 20
    an_event nightly released 10 "done well"
    works rl history
    [ "${#lines[@]}" -eq 4 ]
    [[ "${lines[0]}" =~ ^WHEN\ +EVENT\ +TOKEN\ +WAITED\ +HELD\ +EXIT\ +HOLDER\ +DETAIL\ +NAME$ ]]
    [[ "${lines[1]}" =~ ^20[-0-9:]+\ [0-9:]+\ +acquired\ +42\ +12ms\ +-\ +3\ +"batch@db1 4711 close.sh"\ +-\ +nightly$ ]]
    [[ "${lines[3]}" =~ released.*"done well"\ +nightly$ ]]
    run rl history --json nightly
    [ "$(jq -c '[.[].event]' <<<"$output")" = '["acquired","released"]' ]
    json '.[1] | .name == "nightly" and .mode == "lease" and .token == 42 and .waited_ms == 12
           and .held_ms == null and .exit_status == 3 and .detail == "done well"
           and (.happened_at | endswith("Z")) and (.id | type == "number")' <<<"$output"
    # A program's own exit status may be negative.
    sql "UPDATE lock_event SET exit_status = -15 WHERE event = 'released'"
    [ "$(rl history -n 1 --json |& jq -c '[.[] | [.event, .exit_status]]')" = '[["released",-15]]' ]
    works rl history -n 1
    [[ "${lines[1]}" =~ -\ +-15\ +batch.*"done well"\ +nightly$ ]]
    [ "$(rl history -n2 --json |& jq -c '[.[].name]')" = '["other","nightly"]' ]
    # A lock without events; and no such lock.
    a_free_lock idle
    is_silent 0 rl history idle
    [[ "$(on_terminal 80 rl history idle 2>&1)" == "rowlock: nothing happened yet" ]]
    fails 66 "there is no lock 'none-such'*" rl history none-such
    is_silent 0 rl history 'none*'
}

@test "history: what did not end well; several kinds of events; local time, and UTC" {
    an_event job acquired 60
    an_event job released 50
    an_event job lost 40
    an_event job refused 30
    sql "UPDATE lock_event SET exit_status = 0 WHERE event IN ('acquired', 'released', 'refused')"
    an_event other released 20
    events() { rl history --json "$@" |& jq -c '[.[].event]'; }
    [ "$(events --failed)" = '["lost","released"]' ]
    [ "$(events --failed job)" = '["lost"]' ]
    [ "$(events --event=lost --event=refused)" = '["lost","refused"]' ]
    [ "$(events --event=lost,refused)" = '["lost","refused"]' ]
    fails 64 "*no event 'got'; *" rl history --event=lost --event=got
    sql "UPDATE lock_event SET happened_at = '2026-01-02 23:30:00' WHERE event = 'lost'"
    [[ "$(TZ=Asia/Tokyo rl history --event=lost)" =~ WHEN\ .*2026-01-03\ 08:30:00\ +lost ]]
    [[ "$(TZ=Asia/Tokyo rl history --utc --event=lost)" =~ "WHEN (UTC)".*2026-01-02\ 23:30:00\ +lost ]]
    [[ "$(TZ=Asia/Tokyo rl history --event=lost --json)" == *'"2026-01-02T23:30:00.000000Z"'* ]]
}

@test "history: 80 columns and fewer; names are cut in the middle; -o" {
    an_event "billing/customers/in-arrears/northern-region/nightly-close-the-books" released 10 "done"
    for columns in 80 60 40; do
        NO_COLOR=1 run -0 on_terminal $columns rl history
        printf '%s\n' "${lines[@]}" >"$TEST_DIR/shown"
        cat "$TEST_DIR/shown"
        [ "$(wc -L <"$TEST_DIR/shown")" -le $columns ]
        [ "${#lines[@]}" -eq 2 ]
        # WHEN, EVENT and NAME are always shown.
        [[ "${lines[0]}" =~ ^WHEN\ +EVENT.*\ NAME$ ]]
        [[ "${lines[1]}" =~ ^20.*\ released\ .*bil.*….*oks$ ]]
    done
    # The exit status is left out last; the holder with its host stays longer than the duration.
    an_event nightly-close released 10 "a detail of some length"
    for columns in 80 60; do
        NO_COLOR=1 run -0 on_terminal $columns rl history nightly-close
        [[ "${lines[0]}" =~ \ EXIT\ +HOLDER\ .*\ NAME$ ]]
        [[ "${lines[1]}" =~ \ 3\ +batch@.*\ nightl.*close$ ]]
    done
    # Columns without values are left out first.
    NO_COLOR=1 run -0 on_terminal 80 rl history
    [[ "${lines[0]}" != *HELD* && "${lines[0]}" == *EXIT*HOLDER* ]]
    works rl history -o exit,name,EVENT
    [[ "${lines[0]}" =~ ^EXIT\ +NAME\ +EVENT$ ]]
    [[ "${lines[1]}" =~ ^\ +3\ +billing/.*nightly-close-the-books\ +released$ ]]
    misused "-o: there is no column 'size'; there are *exit_status*" rl history -o exit,size
}

@test "a row lock that is held unfenced or shared is shown as held, of its holder nothing; it opens no door" {
    for how in --unfenced --shared; do
        rl run --mode=pessimistic $how "row$how" -- sh -c 'touch "$0"; until [ -e "$1" ]; do sleep 0.2; done' \
            "$TEST_DIR/in$how" "$TEST_DIR/go$how" 3>&- &
        holder=$!
        poll test -e "$TEST_DIR/in$how"
        works rl show "row$how"
        [[ "$output" =~ state\ +held ]]
        [[ "$output" == *"held --unfenced or --shared"* ]]
        [[ "$output" != *token*42* && "$output" != *"last holder"* ]]
        rl show --json "row$how" |& json '.state == "held" and .token == 0 and .owner == "" and .held_ms == null'
        # The holder is not known: it cannot be asked, and nothing is broken.
        fails 66 "*" rl ask "row$how"
        fails 1 "*" rl break "row$how"
        touch "$TEST_DIR/go$how"
        wait $holder
        works rl show "row$how"
        [[ "$output" =~ state\ +free ]]
    done
}

@test "history: --event, --since" {
    an_event nightly acquired 7200
    an_event nightly released 30
    an_event other released 10
    events() { rl history --json "$@" |& jq -c '[.[] | [.name, .event]]'; }
    [ "$(events --event=acquired)" = '[["nightly","acquired"]]' ]
    [ "$(events --since=1h)" = '[["nightly","released"],["other","released"]]' ]
    [ "$(events --since=1h --event=released nightly)" = '[["nightly","released"]]' ]
    [ "$(events --since=3h --event=acquired 'n*')" = '[["nightly","acquired"]]' ]
    fails 64 "*no event 'got'; there are acquired, released*" rl history --event=got
    misused "*--since*" rl history --since=0
}

@test "run --record-refused: a try, and a wait, that did not get it" {
    a_lock busy
    fails 1 "*" rl run -n busy true
    fails 1 "*" rl run -n --record-refused busy true
    fails 1 "*" rl run -w 1 --record-refused busy true
    [ "$(rl history --json busy |& jq -c '[.[] | [.event, .token, .held_ms]]')" = '[["refused",0,null],["gave_up",0,null]]' ]
    rl history --json --event=gave_up |& json '.[0] | .waited_ms >= 100 and (.detail | contains("batch@db1 4711 close.sh"))'
}

@test "sweep: frees the dead, forgets, purges, and says so" {
    a_lock dead 100 -10
    a_lock alive
    a_free_lock old 7200
    a_free_lock young
    an_event x acquired 7200
    an_event x released 10
    works rl sweep --history=1h --unused=1h
    [ "$output" = "expired locks freed: 1, events forgotten: 1, names purged: 1" ]
    state_is dead free
    state_is alive held
    state_is young free
    fails 66 "*" rl show old
    rl history --json dead |& json '.[-1].event == "expired"'
    [ "$(rl sweep --json |& jq -c .)" = '{"expired":0,"events":0,"purged":0,"dead_items":0}' ]
    rl sweep --json --history-rows=1 --unused=never --history=forever |& json '.events >= 1 and .purged == 0'
    [ "$(rl history --json | jq length)" -eq 1 ]
    run rl sweep --history=0
    [ "$(rl history --json | jq length)" -eq 0 ]
}

@test "sweep --every: again and again, until it is told to end" {
    rl_exec sweep --every=100ms --json >"$TEST_DIR/sweeps" 2>"$TEST_DIR/sweeps.err" &
    pid=$!
    poll test -e "$TEST_DIR/sweeps"
    a_lock dead 100 -10
    poll state_is dead free
    a_lock dead-too 100 -10
    poll state_is dead-too free
    kill -TERM $pid
    wait $pid
    [ "$(jq -s 'map(.expired) | add' "$TEST_DIR/sweeps")" -eq 2 ]
    [ ! -s "$TEST_DIR/sweeps.err" ]
}

@test "sweep --every: an outage is told once, and waited out" {
    own=("$ROWLOCK" --no-defaults -S "$(own_server start --fresh)" -u root)
    "${own[@]}" init -q
    own_server kill
    # A sweep may start before the server.
    "${own[@]}" --connect-timeout=10s sweep --every=100ms --json >"$TEST_DIR/outage" 2>"$TEST_DIR/outage.err" &
    pid=$!
    poll grep -q "trying again every 100ms" "$TEST_DIR/outage.err"
    own_server restart >/dev/null
    poll grep -q "sweeping again after" "$TEST_DIR/outage.err"
    poll grep -q expired "$TEST_DIR/outage"
    [ "$(wc -l <"$TEST_DIR/outage.err")" -eq 2 ]
    cat "$TEST_DIR/outage.err"
    kill -INT $pid
    wait $pid
    jq -es 'length > 0' "$TEST_DIR/outage"
    own_server remove
}

@test "sweep --every: what no waiting mends ends it" {
    run -78 timeout 90 "$ROWLOCK" --defaults-file="$TEST_OPTIONS" -D rowlock_none_such sweep --every=100ms
}

@test "break: takes it, says what it broke, and keeps the reason" {
    a_lock stuck
    works rl break --reason="host is gone" stuck
    [[ "${lines[0]}" =~ ^"broke stuck: held by batch@db1 4711 close.sh for 3m"[1-5][0-9]"s (lease, token 42)"$ ]]
    state_is stuck cooling
    rl history --json stuck |& json '.[-1] | .event == "broken" and (.detail | contains("host is gone"))'
    [ "$(rl show --json stuck | jq .token)" -gt 42 ]
}

@test "break: a lease is cooling for as long as its holder may work; --now opens it" {
    a_lock kept
    works rl break kept
    [[ "${lines[0]}" == "broke kept: held by "* ]]
    [[ "${lines[1]}" =~ ^"it opens when its holder has ended, in "(59m|1h).*" at the latest"$ ]]
    state_is kept cooling
    fails 1 "*" rl run -n kept -- true
    fails 1 "'kept' was broken, and its old holder may still work: *--now opens it at once" rl break kept
    state_is kept cooling
    run rl break --now --reason="$(printf 'ü%.0s' {1..200})" kept
    [ "$output" = "opened kept, which was cooling" ]
    state_is kept free
    rl history --json kept |& json '.[-1] | .event == "broken" and .held_ms == null
        and (.detail | startswith("opened by ") and endswith("\("ü" * 125)"))'
    fails 1 "*" rl break --now kept
}

@test "break: what only --at-least keeps closed opens at once; what an earlier break closed does not" {
    rl run --at-least=1h done -- true
    state_is done cooling
    fails 1 "nobody holds 'done', but it is closed for another *" rl run -n done -- true
    works rl break --reason="tests" done
    [ "$output" = "opened done, which was cooling" ]
    is_silent 0 rl run -n done -- true
    rl history --json done |& json 'any(.[]; .event == "broken" and (.detail | startswith("opened by ") and endswith("tests")))'
    # A lease that its holder has renewed, and one that was taken over from a dead holder.
    a_lock renewed
    sql "UPDATE lease_renewal l JOIN resource r ON r.id = l.id SET l.version = r.version,
        l.expires_at = UTC_TIMESTAMP(6) + INTERVAL 50 MINUTE WHERE r.resource_name = 'renewed'"
    a_lock taken 100 -10
    rl run --at-least=1h taken -- true
    works rl break taken
    works rl break renewed
    fails 1 "*was broken*" rl break renewed
    state_is renewed cooling
    works rl break --now renewed
    state_is renewed free
    # A pattern only finds locks that are held.
    rl run --at-least=1h some/one -- true
    fails 1 "*no such lock is held; some are cooling, and --now*" rl break --yes 'some/*'
}

@test "break --token: that holder, or nobody" {
    a_lock stuck
    fails 1 "*has the token 42, not 41; nothing was broken" rl break --token=41 stuck
    state_is stuck held
    works rl break --token=42 stuck
    state_is stuck cooling
    fails 1 "*" rl break --token=42 --now stuck
    state_is stuck cooling
    misused "*" rl break --token=0 stuck
    misused "*goes with one lock*" rl break --token=42 'st*'
}

@test "break: those who hold it together; they keep writers out until they have ended, and --now does not wait" {
    a_shared_lock menu one two
    works rl break --reason="too many" menu
    [[ "${lines[0]}" == "broke menu: held by "*" (lease, token 42)" ]]
    [[ "$output" != *unnamed* ]]
    [[ "$output" != *"last writer"* ]]
    rl history --json menu |& jq -e '.[-1] | .event == "broken" and .token == 42 and (.detail | contains("too many"))'
    [ "$(rl show --json menu | jq .token)" -gt 42 ]
    fails 1 "*menu*" rl run -n menu -- true
    # The readers' tokens are not valid any more; others can share the lock.
    [ "$(sql "SELECT COUNT(*) FROM lock_grant WHERE version <> 0")" = 0 ]
    is_silent 0 rl run -n --shared menu -- true
    works rl break --now menu
    [ "$(sql "SELECT COUNT(*) FROM lock_grant")" = 0 ]
    is_silent 0 rl run -n menu -- true
    fails 1 "*" rl break menu
}

@test "break of those who hold it together: by token, and by pattern" {
    a_shared_lock menu/1 one two
    a_shared_lock menu/2 three
    a_shared_lock menu/3
    fails 1 "*has the token 42, not 41; nothing was broken" rl break --token=41 menu/1
    [ "$(rl show --json menu/1 | jq .readers)" -eq 2 ]
    run -64 --separate-stderr rl break 'menu/*'
    [ "${#lines[@]}" -eq 2 ]
    [ "$stderr" = "rowlock: nothing was broken; --yes breaks all of these" ]
    works rl break --token=42 --now menu/1
    works rl break --yes --now 'menu/*'
    [[ "$output" == "broke menu/2: "* ]]
    [ "${#lines[@]}" -eq 1 ]
    [ "$(sql "SELECT COUNT(*) FROM lock_grant")" = 0 ]
}

@test "sweep: frees what is left of readers that are gone" {
    a_shared_lock menu one gone
    sql "UPDATE lock_grant SET expires_at = UTC_TIMESTAMP(6) - INTERVAL 2 MINUTE WHERE owner = 'gone'"
    works rl sweep
    [[ "$output" == "expired locks freed: 1, "* ]]
    [ "$(sql "SELECT GROUP_CONCAT(owner) FROM lock_grant")" = one ]
    [ "$(rl show --json menu | jq .readers)" -eq 1 ]
}

@test "break of a pattern: --yes, or a list" {
    a_lock jobs/1
    a_lock jobs/2
    a_lock other
    a_free_lock jobs/3
    run -64 --separate-stderr rl break 'jobs/*'
    [ "${lines[*]}" = "jobs/1: held by batch@db1 4711 close.sh (lease, token 42) jobs/2: held by batch@db1 4711 close.sh (lease, token 42)" ]
    [ "$stderr" = "rowlock: nothing was broken; --yes breaks all of these" ]
    state_is jobs/1 held
    works rl break --yes 'jobs/*'
    [[ "$output" == "broke jobs/1: "*"broke jobs/2: "* ]]
    state_is jobs/1 cooling
    state_is jobs/2 cooling
    state_is other held
    fails 1 "*no such lock is held; some are cooling, and --now*" rl break --yes 'jobs/*'
    fails 1 "*no such lock is held" rl break --yes 'none/*'
    run -64 --separate-stderr rl break --now 'jobs/*'
    [ "${lines[*]}" = "jobs/1: cooling (lease, token 43) jobs/2: cooling (lease, token 43)" ]
    works rl break --yes --now 'jobs/*'
    state_is jobs/2 free
    # One lock needs no --yes, and may have it.
    works rl break --yes other
    state_is other cooling
    misused "*--wait goes with one lock*" rl break --yes --wait 'jobs/*'
    a_lock 'star*'
    a_lock star1
    works rl break 'star\*'
    state_is 'star*' cooling
    state_is star1 held
    sql "UPDATE resource SET owner = '', owner_label = '' WHERE resource_name = 'star1'"
    run -64 --separate-stderr rl break 'star1*'
    [ "$output" = "star1: held by an unnamed holder (lease, token 42)" ]
    [ "$stderr" = "rowlock: nothing was broken; --yes breaks it" ]
}

@test "ls: what it says of one name is a pattern that means it" {
    misused "ls takes a pattern such as 'one*'; for one lock: show 'one'" rl ls one
    misused "ls takes a pattern such as 'billing/[*]'; for one lock: show 'a[*]'" rl ls 'a\*'
}

@test "names, labels and details steer no terminal" {
    evil=$'esc\033[31m nl\nret\r tab\t del\x7f c1\xc2\x9b31m rlo\xe2\x80\xae end'
    a_lock "$evil" 10 3600 "$evil"
    a_lock "plain" 10 3600 "$evil"
    an_event "$evil" acquired 5 "$evil"
    all_harmless 0 ls "ls --json" "show plain" "show plain --json" history "history --json"
    all_harmless 1 "run -n plain -- true" "-v run -w 0.2 plain -- true"
    [ "$(rl ls | wc -l)" -eq 3 ]
    [[ "$(rl ls)" == *'esc\x1b[31m nl\nret\r tab\t del\x7f c1\u009b31m rlo\u202e end'* ]]
    # In JSON the name is unchanged.
    [ "$(rl ls --json | jq -r '.[0].name')" = "$evil" ]
    rl break '*' >"$TEST_DIR/evil" 2>&1 || [ $? -eq 64 ]
    [ "$(wc -l <"$TEST_DIR/evil")" -eq 3 ]
    is_harmless "$TEST_DIR/evil"
    rl break plain >"$TEST_DIR/evil" 2>&1
    is_harmless "$TEST_DIR/evil"
    # An error that quotes the argument.
    run "$ROWLOCK" $'no\033[31m\ncommand'
    printf '%s' "$output" >"$TEST_DIR/evil"
    [ "${#lines[@]}" -eq 2 ]
    is_harmless "$TEST_DIR/evil"
}

@test "a full disk is told: 74" {
    a_lock nightly-close
    an_event nightly-close acquired
    for arguments in ls "ls --json" "show nightly-close" history sweep doctor --version --help "ls --help"; do
        run -74 --separate-stderr bash -c "rl $arguments >/dev/full"
        [ "$stderr" = "rowlock: cannot write the output: No space left on device" ]
    done
}

@test "a closed pipe is not complained of" {
    a_lock nightly-close
    for arguments in ls "ls --json" --help; do
        # Descriptor 3 is a pipe whose reader has ended.
        run -74 --separate-stderr bash -c "exec 3> >(exit 0); wait \$!; rl $arguments >&3"
        [ -z "$stderr" ]
    done
}
