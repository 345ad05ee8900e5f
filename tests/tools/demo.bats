# The demo, as a user sees it, and whether its own checks notice a missing lock.

bats_require_minimum_version 1.5.0
export BATS_VERBOSE_RUN=yes

setup_file() {
    : "${ROWLOCK:?set ROWLOCK to the path of the rowlock command}"
    export DEMO="$BATS_TEST_DIRNAME/../../tools/demo" DEMO_ROWLOCK="$ROWLOCK"
}

@test "the demo runs and is right" {
    run -0 "$DEMO"
    [[ $output != *WRONG* ]]
    [[ $output == *"rowlock history"* ]]
}

@test "without the lock it notices" {
    DEMO_LINES=400 DEMO_BREAK=1 run -1 "$DEMO"
    [[ $output == *"WRONG: rows in the table"* ]]
    [[ $output == *"WRONG: total in the table"* ]]
    [[ $output == *"WRONG: times that two were inside at once"* ]]
}

@test "interrupted, it leaves nothing behind" {
    "$DEMO" >"$BATS_TEST_TMPDIR/out" 2>&1 3>&- &
    end=$((SECONDS + 120)) # the server may be slow to start
    until grep -q 'all of them start now' "$BATS_TEST_TMPDIR/out" || ((SECONDS > end)); do
        sleep 0.05
    done
    folder=$(sed -n 's,.*MariaDB in \(.*\)/ \.\.\..*,\1,p' "$BATS_TEST_TMPDIR/out")
    [ -n "$folder" ]
    [ -d "$BATS_TEST_DIRNAME/../../$folder" ]
    kill -TERM $!
    ended=0
    wait $! || ended=$?
    [ "$ended" -eq 143 ]
    [ ! -e "$BATS_TEST_DIRNAME/../../$folder" ]
    echo "$folder" >"$BATS_TEST_TMPDIR/folder"
    # What was killed may take a moment to be gone; what was left would stay.
    end=$((SECONDS + 30))
    while grep -lasF -f "$BATS_TEST_TMPDIR/folder" /proc/[0-9]*/cmdline; do
        ((SECONDS < end))
        sleep 0.05
    done
}
