# rowlock freeze, thaw; how ls, show and history tell of them.

bats_require_minimum_version 1.5.0

load helpers
load run_helpers

teardown() {
    run_teardown
    for pattern in $(rl freeze --json | jq -r '.[].pattern | @base64'); do
        rl thaw "$(base64 -d <<<"$pattern")" >/dev/null
    done
}

@test "freeze: a holder finishes, nobody else gets the lock: 80; thaw: who waits gets it" {
    background run --ttl=20s "$L" -- sh -c 'touch held; until [ -e let_go ]; do sleep 0.2; done'
    poll test -e held
    works rl freeze --reason='schema change' "$L"
    [ "$output" = "$L: frozen; 1 name matches, 1 of which is held" ]
    rl ls | grep -qE "^$L +held, frozen +lease"
    touch let_go
    ends_with 0
    fails 80 "'$L' is frozen: nobody gets it before it is thawed*" rl run -n "$L" -- true
    fails 80 "'$L' is frozen*" rl run -w 2 "$L" -- true
    fails 80 "'$L' is frozen*" rl run -n -E 0 "$L" -- true
    rl show "$L" | grep -qx 'frozen       until it is thawed'
    rl show "$L" | grep -qE '^frozen by    .*rowlock'
    rl show "$L" | grep -qx 'reason       schema change'
    rl show --json "$L" | json '.frozen_reason == "schema change" and (.frozen_until | startswith("9999")) and .state == "free"'
    # (A single waiter has the bell, and is in no queue of the server.)
    rl_exec -v run "$L" -- touch got 2>said &
    waiter=$!
    poll grep -q '^rowlock: waiting for' said
    [ ! -e got ]
    works rl thaw "$L"
    [ "$output" = "$L: thawed" ]
    wait "$waiter"
    [ -e got ]
    rl show --json "$L" | json '.frozen_until == null and .frozen_reason == ""'
    rl history --json "$L" | jq -es '.[0] | map(select(.event == "frozen" or .event == "thawed") | .event + .detail) == ["frozenschema change", "thawed"]'
}

@test "freeze: a pattern has names that are made later, and their slots; others not; a list of them" {
    rl run 'billing/old' true
    works rl freeze 'billing/*' --until=2h --reason=why
    [ "$output" = "billing/*: frozen; 1 name matches, 0 of which are held" ]
    for name in billing/old billing/new 'billing/*'; do
        fails 80 "*frozen*" rl run -n "$name" -- true
    done
    fails 80 "*frozen*" rl run -n --slots=2 billing/crew -- true
    fails 80 "*frozen*" rl run -n --shared billing/shared -- true
    fails 80 "*frozen*" rl run -n --mode=pessimistic billing/row -- true
    fails 80 "*frozen*" rl run -n --also=billing/old other -- true
    fails 80 "*frozen*" rl once --per=1d -n billing/daily -- true
    rl run -n billing true
    rl run -n billin/x true
    rl freeze | grep -qE '^billing/\* +.*1h59m +.* why$'
    rl freeze --json | json 'length == 1 and (.[0] | .pattern == "billing/*" and .reason == "why" and .left_ms > 7100000 and .until != null)'
    fails 66 "*not frozen by that pattern*" rl thaw billing/old
    rl thaw 'billing/*'
    for name in billing/old billing/new 'billing/crew2' 'billing/*'; do
        rl run -n "$name" true
    done
    rl run -n --slots=2 billing/crew true
    rl run -n --mode=pessimistic billing/row true
    [ "$(rl freeze --json)" = "[]" ]
}

@test "freeze: of several the one that ends last counts; its own time is the new one; it ends by itself" {
    rl run a/b true
    rl freeze 'a/*' --until=1h
    rl freeze a/b --until='2099-01-02 03:04'
    rl show --json a/b | json '.frozen_until | startswith("2099-01-02T03:04:00")'
    rl thaw a/b
    fails 80 "*frozen*" rl run -n a/b -- true
    rl freeze 'a/*' --until=0.4
    poll rl run -n a/b true
    fails 66 "*" rl thaw 'a/*'
}

@test "freeze: what cannot be frozen is as it was; slots of one name; a name that ends with a star" {
    rl freeze '*'
    fails 80 "*frozen*" rl run -n anything -- true
    rl run -n --mode=pessimistic --unfenced raw true
    rl latch set gate 1
    rl latch down gate
    rl latch wait gate
    rl thaw '*'
    rl freeze crew
    fails 80 "*frozen*" rl run -n --slots=3 crew -- true
    fails 80 "*frozen*" rl run -w 2 --slots=3 crew -- true
    rl thaw crew
    rl run -n --slots=3 crew true
    # The same while all slots are held.
    background run --slots=1 alone -- sh -c 'touch held; until [ -e let_go ]; do sleep 0.2; done'
    poll test -e held
    rl freeze alone
    fails 80 "*frozen*" rl run -n --slots=1 alone -- true
    rl thaw alone
    touch let_go
    ends_with 0
    rl freeze 'star\*'
    fails 80 "*frozen*" rl run -n 'star*' -- true
    rl run -n 'star1' true
    rl thaw 'star\*'
}

@test "freeze: usage" {
    misused "*--until*2h*" rl freeze x --until=yesterday
    misused "*--until*" rl freeze x --until=0
    fails 64 "*past by the server's clock*" rl freeze y --until='2001-01-01 06:00'
    rl run -n y true
    misused "*--until*" rl freeze x --until='2099-02-31'
    misused "*--until*" rl freeze x --until='2099'
    misused "*missing*" rl freeze --reason=x
    misused "*missing*" rl thaw
    fails 64 "*" rl freeze -- " padded"
    [ "$(rl freeze --json)" = "[]" ]
    rl freeze --json x | json '.pattern == "x" and .names == 0 and .held == 0'
}

@test "freeze: nothing is changed while a transaction that fenced the lock is open" {
    rl init --procedures -q
    rl run fenced true
    coproc sqlin { mariadb --defaults-file="$TEST_OPTIONS" -N -B -n "$TEST_SCHEMA" 3>&-; }
    echo "BEGIN; UPDATE resource SET fence_count = fence_count + 1 WHERE resource_name = 'fenced'; SELECT 'locked';" >&"${sqlin[1]}"
    read -r line <&"${sqlin[0]}"
    [ "$line" = locked ]
    fails 1 "a transaction that fenced*nothing was changed" rl --connect-timeout=5 freeze fenced
    [ "$(rl freeze --json)" = "[]" ]
    echo "ROLLBACK; SELECT 'over';" >&"${sqlin[1]}"
    read -r line <&"${sqlin[0]}"
    eval "exec ${sqlin[1]}>&-"
    rl run -n fenced true
    rl init -q --remove-procedures
}

@test "freeze: by a user that works through procedures: its waits end with 80" {
    rl init --procedures -q
    new_user app "EXECUTE ON \`$TEST_SCHEMA\`.*"
    rl freeze via
    fails 80 "*frozen*" rl_as app --via=procedures run -n via -- true
    fails 80 "*frozen*" rl_as app --via=procedures run -w 2 via -- true
    fails 77 "*CALL rowlock_freeze*" rl_as app --via=procedures freeze x
    fails 77 "*reading what is frozen*looker*" rl_as app --via=procedures freeze
    rl thaw via
    rl_as app --via=procedures run -n via true
    rl init -q --remove-procedures
}
