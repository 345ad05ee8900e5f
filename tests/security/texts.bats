# Names, labels, reasons and what other programs have put into the tables are data: in SQL, in JSON
# and on terminals.

bats_require_minimum_version 1.5.0
load ../cli/helpers

setup_file() {
    rowlock_setup_file
}

teardown_file() {
    rowlock_teardown_file
}

# Names that mean something to SQL, to LIKE, to a shell, to printf, to JSON.
NAMES=("o'clock" 'say "x"' 'back\slash' 'percent%' 'under_score' "'; DROP TABLE resource; -- " '%s%n%d' '$(id)`id`'
    '{"a":[1]}' '-- not an option' '/* c */' $'caf\xc3\xa9 \xf0\x9f\x94\x92' $'\xd7\xa9\xd7\x9c\xd7\x95\xd7\x9d' '\u001b[31m' '#' '\\' "''")

# What steers terminals, and would not be let in as a name.
EVIL=$'esc\033[31m osc\033]0;title\007 nl\nret\r tab\t del\x7f c1\xc2\x9b31m rlo\xe2\x80\xae iso\xe2\x81\xa6 end'

harmless() { # FILE: nothing in it but printable characters and ends of lines
    run ! env LC_ALL=C grep -qP '[\x00-\x09\x0b-\x1f\x7f]' "$1"
    run ! env LC_ALL=C grep -qP '\xc2[\x80-\x9f]|\xe2\x80[\x8e\x8f\xaa-\xae]|\xe2\x81[\xa6-\xa9]' "$1"
    iconv -f UTF-8 -t UTF-8 "$1" >/dev/null
}

@test "names: taken, shown, found again and broken as they are, in both modes" {
    for mode in lease pessimistic; do
        for name in "${NAMES[@]}"; do
            name="$name $mode"
            run rl run --mode=$mode --label="by $name" -- "$name" printenv ROWLOCK_NAME
            [ "$status" -eq 0 ]
            [ "$output" = "$name" ]
            [ "$(rl show --json -- "$name" | jq -r .name)" = "$name" ]
            [ "$(rl show --json -- "$name" | jq -r .owner_label)" = "by $name" ]
            [ "$(rl history --json -- "$name" | jq -r '.[].name' | sort -u)" = "$name" ]
        done
    done
    [ "$(sql 'SELECT COUNT(*) FROM resource')" -eq $((2 * ${#NAMES[@]})) ]
    [ "$(rl history --json | jq -r '[.[].name] | unique | length')" -eq $((2 * ${#NAMES[@]})) ]
}

@test "% and _ are no patterns" {
    rl run 'pattern%' -- true
    rl run 'patternX' -- true
    rl run 'pattern_' -- true
    [ "$(rl history --json 'pattern%' | jq length)" -eq 2 ]
    [ "$(rl history --json 'pattern_' | jq length)" -eq 2 ]
    run rl show 'pat%'
    [ "$status" -eq 66 ]
    run rl break pattern
    [ "$status" -eq 66 ]
}

@test "a reason and a label are kept as they are, or cleaned, never run" {
    rl run held -- sh -c 'sleep 30 & wait' >/dev/null 2>&1 &
    pid=$!
    poll 20 state_is held held
    rl break --reason="o'clock \"%s\" \\ \$(id) -- $(printf '\360\237\224\222')" held
    wait "$pid" || true
    poll 20 sh -c "rl history --json held | jq -e 'any(.event == \"broken\")'"
    rl history --json held | jq -r '.[] | select(.event == "broken") | .detail' | grep -F "o'clock \"%s\" \\ \$(id) -- $(printf '\360\237\224\222')"
    run rl run --label="$EVIL" labelled -- true
    [ "$status" -eq 0 ] || [ "$status" -eq 64 ]
    rl ls --all >"$BATS_TEST_TMPDIR/out" 2>&1 || true
    harmless "$BATS_TEST_TMPDIR/out"
}

@test "control characters, bad UTF-8 and direction marks in a name: refused in a harmless line, nothing made" {
    before=$(sql 'SELECT COUNT(*) FROM resource')
    for name in $'a\033[31mb' $'a\nb' $'a\x7fb' $'bad\xff\xfe' $'cut\xe2\x80' $'\xc0\xaf' $'c1\xc2\x9bx' ' padded' 'padded '; do
        for command in "run" "show" "history" "break"; do
            if [ $command = run ]; then
                run rl run -- "$name" true
            else
                run rl $command -- "$name"
            fi
            [ "$status" -eq 64 ]
            printf '%s\n' "$output" >"$BATS_TEST_TMPDIR/out"
            harmless "$BATS_TEST_TMPDIR/out"
        done
    done
    [ "$before" = "$(sql 'SELECT COUNT(*) FROM resource')" ]
}

@test "what another program put into the tables steers no terminal, and is the same text in JSON" {
    hex=$(printf '%s' "$EVIL" | od -An -tx1 | tr -d ' \n')
    sql "INSERT INTO resource (resource_name, kind, status, version, owner, owner_label, acquired_at, lease_expires_at, description, update_time)
         VALUES (CONVERT(X'$hex' USING utf8mb4), 'optimistic', 'held', 7, X'1b5b33316d', CONVERT(X'$hex' USING utf8mb4),
                 UTC_TIMESTAMP(6), UTC_TIMESTAMP(6) + INTERVAL 1 HOUR, CONVERT(X'$hex' USING utf8mb4), UTC_TIMESTAMP(6)),
                ('tame', 'optimistic', 'held', 7, X'1b5b33316d', CONVERT(X'$hex' USING utf8mb4),
                 UTC_TIMESTAMP(6), UTC_TIMESTAMP(6) + INTERVAL 1 HOUR, CONVERT(X'$hex' USING utf8mb4), UTC_TIMESTAMP(6));
         INSERT INTO lease_renewal (id) SELECT id FROM resource WHERE version = 7;
         INSERT INTO lock_event (resource_name, kind, event, version, owner, owner_label, happened_at, detail)
         VALUES ('tame', 'optimistic', 'broken', 7, X'1b5b33316d', CONVERT(X'$hex' USING utf8mb4), UTC_TIMESTAMP(6), CONVERT(X'$hex' USING utf8mb4))"
    for arguments in 'ls' 'ls --json' 'show tame' 'show tame --json' 'history' 'history tame' 'history --json' 'run -n tame -- true' \
        'run -w 1s tame -- true' '-vv run -n tame -- true'; do
        # shellcheck disable=SC2086 # words
        rl $arguments >"$BATS_TEST_TMPDIR/out" 2>&1 || true
        [ -s "$BATS_TEST_TMPDIR/out" ]
        harmless "$BATS_TEST_TMPDIR/out"
    done
    for arguments in 'ls' 'show tame' 'history' 'run -n tame -- true'; do
        # shellcheck disable=SC2086
        NO_COLOR=1 on_terminal 200 "$ROWLOCK" --defaults-file="$TEST_OPTIONS" -D "$TEST_SCHEMA" $arguments >"$BATS_TEST_TMPDIR/out" || true
        [ -s "$BATS_TEST_TMPDIR/out" ]
        harmless "$BATS_TEST_TMPDIR/out"
    done
    [ "$(rl show --json tame | jq -r .owner_label)" = "$EVIL" ]
    [ "$(rl show --json tame | jq -r .description)" = "$EVIL" ]
    rl history --json | jq -e . >/dev/null
    rl break tame >"$BATS_TEST_TMPDIR/out" 2>&1
    harmless "$BATS_TEST_TMPDIR/out"
}
