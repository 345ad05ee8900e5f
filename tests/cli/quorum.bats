#!/usr/bin/env bats
# Several servers that vote: rowlock quorum, and other commands with several --url. On three private servers, which are
# killed, frozen, and lose their data.

bats_require_minimum_version 1.5.0

load helpers
load run_helpers

TOOLS=${ROWLOCK_TOOLS:-$BATS_TEST_DIRNAME/../../tools}

socket() { # MEMBER
    local sockets
    mapfile -t sockets <<<"$SOCKETS"
    echo "${sockets[$1 - 1]}"
}

url() { # MEMBER [USER]
    echo "mysql://${2:-root}@localhost/$TEST_SCHEMA?socket=$(socket "$1")"
}

setup_file() {
    export TEST_DIR="$BATS_FILE_TMPDIR" TEST_SCHEMA="rowlock_quorum_$$" HOME="$BATS_FILE_TMPDIR" LC_ALL=C.UTF-8
    unset ROWLOCK_URL MYSQL_PWD NO_COLOR COLUMNS
    # If the tests run on MySQL, this quorum has servers of both kinds.
    SOCKETS=$("$TOOLS/cluster" start quorum "$TEST_DIR/quorum" 3 mariadb "${ROWLOCK_FLAVOUR:-mariadb}" 3>&-)
    export SOCKETS
    ONE=$(url 1) TWO=$(url 2) THREE=$(url 3)
    export ONE TWO THREE ROWLOCK_URLS="$ONE $TWO,$THREE"
    q quorum init --ttl-most=12s
}

# (A server that a test starts again is not one of the processes that its teardown ends.)
cluster() { # VERB [MEMBER]
    env -u TEST_FOLDER "$TOOLS/cluster" "$1" "$TEST_DIR/quorum" "${@:2}" 3>&- >/dev/null
}

teardown_file() {
    cluster remove
}

setup() {
    run_setup
}

teardown() {
    local n pid
    run_teardown
    for n in 1 2 3; do
        { read -r pid <"$TEST_DIR/quorum/$n/pid" && kill -CONT "$pid"; } 2>/dev/null || cluster start-node $n
    done
    ! votes 3 || return 0
    # Repairs what a failed test has left.
    [ "$(q quorum status --json | jq '.members | map(select(.state | IN("away", "none", "strange"))) | length')" -eq 0 ] ||
        q quorum rejoin
    poll votes 3 || why_not
}

# Prints the last lines of the members' error logs.
why_not() {
    for n in 1 2 3; do
        tail -n 20 "$TEST_DIR/quorum/$n/error.log"
    done
    false
}

# q ARGUMENT...: the command, with the members of the environment, or those of its options. (PATIENCE is 2 s where a member does
# not answer.)
q() {
    "$ROWLOCK" --no-defaults --connect-timeout="${PATIENCE:-10}s" "$@"
}

# The command with only one member.
at() { # MEMBER ARGUMENT...
    (unset ROWLOCK_URLS && "$ROWLOCK" --no-defaults --url="$(url "$1")" "${@:2}")
}

sql_at() { # MEMBER STATEMENTS
    mariadb --no-defaults -S "$(socket "$1")" -u root -N -B "$TEST_SCHEMA" -e "$2"
}

# votes N: for poll: so many members vote.
votes() {
    [ "$(q quorum status --json | jq .voting)" -eq "$1" ]
}

member_is() { # MEMBER STATE
    [ "$(q quorum status --json | jq -r ".members[$1 - 1].state")" = "$2" ]
}

slaves_of_one() { # HOW MANY
    [ "$(sql_at 1 "SELECT variable_value FROM information_schema.global_status WHERE variable_name = 'SLAVES_RUNNING'")" -eq "$1" ]
}

# holds [OPTION...]: as `hold`, with all members: HOLDER holds the lock until $D/let_go is there.
holds() {
    (exec env --default-signal=INT,QUIT,HUP "$ROWLOCK" --no-defaults --connect-timeout="${PATIENCE:-10}s" run --ttl=12s "$@" "$L" -- \
        sh -c 'echo "$ROWLOCK_TOKEN" >"$D/held"; until [ -e "$D/let_go" ]; do sleep 0.2; done; exit 8') \
        >"$D/out" 2>"$D/err" </dev/null 3>&- &
    HOLDER=$!
    poll test -s "$D/held"
}

token_of() { # OPTION...
    q run --ttl=12s "$@" "$L" -- printenv ROWLOCK_TOKEN
}

# The history has four holds, one of them broken, each event told by these members.
told_by() { # MEMBERS
    q history --json "$L" | jq -e "all(.members == \"$1\") and (map(select(.event == \"acquired\").owner) | length == 4 and length == (unique | length))
        and any(.event == \"broken\")"
}

rises() { # EARLIER LATER
    echo "token $1, then $2"
    [ "$2" -gt "$1" ]
}

@test "init, status: three members vote, a lock takes two; again changes nothing" {
    works q quorum init --ttl-most=12s
    [ "${lines[-1]}" = "3 of 3 members vote; a lock takes 2" ]
    works q quorum status
    [ "$(grep -c voting <<<"$output")" -eq 3 ]
    works q quorum status --json
    json '.count == 3 and .needed == 2 and .voting == 3 and (.members | length) == 3
        and (.members | map(.list) | unique | length) == 1 and (.members | map(.server) | unique | length) == 3
        and (.members | all(.state == "voting" and .durable and .list_count == 3 and .ttl_most_ms == 12000
            and .status == "OK" and .message == ""))' <<<"$output"
    run -0 q --require=all quorum status --json
    json '.needed == 3' <<<"$output"
    fails 65 '*' q quorum init --ttl-most=13s
}

@test "run, ls, show, history, break: as with one server; the token rises" {
    first=$(token_of)
    second=$(token_of)
    rises "$first" "$second"
    holds --label=somebody
    rises "$second" "$(cat "$D/held")"
    fails 1 '*' q run --ttl=12s -n "$L" -- true
    run -0 q ls --json
    json "map(select(.name == \"$L\")) | length == 1 and .[0].state == \"held\" and .[0].owner_label == \"somebody\"" <<<"$output"
    works q show "$L"
    [[ "$output" == *somebody* ]]
    works q break "$L"
    ends_with 75 "$HOLDER"
    rises "$(cat "$D/held")" "$(token_of -w 30s)"
    # The history has one line for each event, with all members that have it; also for one that the first has not.
    poll told_by "1 2 3"
    sql_at 1 "DELETE FROM lock_event"
    told_by "2 3"
    works q history "$L"
    [[ "$output" == *MEMBERS*broken* ]]
    # The members' clocks differ: the first of two equal events is matched with the first one of another member.
    for n in 2 3; do
        sql_at $n "INSERT INTO lock_event (resource_name, kind, event, version, owner, owner_label, happened_at)
            VALUES ('$L twice', 'quorum', 'asked', 1, 'o', '', '2026-01-01 00:00:0$n'), ('$L twice', 'quorum', 'asked', 1, 'o', '', '2026-01-01 00:00:0$n.5')"
    done
    q history --json "$L twice" | json 'length == 2 and all(.members == "2 3")'
    run -0 at 2 history --json "$L"
    json 'length > 0 and all(has("members") | not)' <<<"$output"
}

@test "what is one server's: in one line, and nothing is changed" {
    for command in init sweep "slots one" "latch set one 2" "barrier one 2 -- true" "lead one -- true" "leader one" "ask one" \
        "once --per=1d one -- true" "fence list" "freeze one" "thaw one" "migrate --into=x ." "bench"; do
        # shellcheck disable=SC2086 # words
        fails 79 "${command%% *} is for one server, and several are given*" q $command
    done
    run -3 --separate-stderr q check
    [[ "$output" == "UNKNOWN - check is for one server, and several are given"* ]]
    for options in --shared --slots=2 --also=other --mode=pessimistic; do
        fails 79 '*' q run --ttl=12s $options "$L" -- touch "$D/ran"
    done
    [ ! -e "$D/ran" ]
    for n in 1 2 3; do
        [ "$(sql_at $n "SELECT COUNT(*) FROM resource WHERE resource_name IN ('one', '$L')")" -eq 0 ]
    done
    # (`grants` asks no server.)
    works q grants 'batch@%'
    # A freeze at one server does not concern the quorum's names.
    at 1 freeze "$L frozen"
    q --require=all run --ttl=12s -n "$L frozen" -- true
    at 1 thaw "$L frozen"
    # A name of the quorum cannot be used at one member alone, and the other way round.
    q run --ttl=12s "$L" -- true
    fails 65 '*' at 1 run -n "$L" -- true
    at 2 run "$L of one" -- true
    fails 65 "*" q --require=all run --ttl=12s -n "$L of one" -- true
}

@test "wrong usage: what does not go together" {
    misused "*--host, --port and --socket do not go with several servers*" q -h db1 ls
    misused "--require wants most or all*" q --require=some ls
    misused "--require is for several servers*" at 1 --require=all ls
    misused "'quorum' needs several servers*" at 1 quorum status
    misused "ROWLOCK_URL and ROWLOCK_URLS are both set*" env ROWLOCK_URL="$ONE" "$ROWLOCK" --no-defaults ls
    misused "there is no 'quorum begin'*" q quorum begin
    misused "unexpected argument '1' after status*" q quorum status 1
    misused "a member is named by its place*" q quorum rejoin first
    misused "--ttl-most is an option of 'quorum init'*" q quorum status --ttl-most=12s
    misused "--ttl-most is from 500ms to 5m*" q quorum init --ttl-most=6m
    fails 64 '*' q --url="$ONE" --url="$TWO" ls
    fails 64 '*' q --url="$ONE" --url="$TWO" --url="$THREE" --url="$ONE" ls
    fails 64 '*' q --url="$ONE" --url="$TWO" --url="$ONE" quorum init
    fails 64 '*' q run --ttl=13s "$L" -- true
    # An option wins over the environment.
    works q --url="$ONE" ls
    works env ROWLOCK_URLS="$ONE" "$ROWLOCK" --no-defaults ls
}

@test "a member is killed: locks are taken and kept; it comes back, and votes" {
    before=$(token_of)
    holds
    cluster kill-node 2
    poll member_is 2 away
    run -1 q quorum status
    [ "${lines[-1]}" = "2 of 3 members vote; a lock takes 2" ]
    works q run --ttl=12s "$L other" -- true
    # For longer than the TTL.
    sleep 13
    is_alive "$HOLDER"
    fails 1 '*' q run --ttl=12s -n "$L" -- true
    touch "$D/let_go"
    ends_with 8 "$HOLDER"
    rises "$(cat "$D/held")" "$(token_of -w 30s)"
    fails 69 '*' q --require=all run --ttl=12s -n "$L" -- true
    cluster start-node 2
    poll votes 3
    works q quorum status
    [ -n "$(q --require=all run --ttl=12s "$L all" -- printenv ROWLOCK_TOKEN)" ]
}

@test "two members are killed: no lock is had, and a holder ends in time" {
    holds
    cluster kill-node 1
    cluster kill-node 3
    ends_with 75 "$HOLDER"
    run -69 q quorum status
    [ "${lines[-1]}" = "1 of 3 members vote; a lock takes 2" ]
    fails 69 '*' q run --ttl=12s -n "$L" -- touch "$D/ran"
    [ ! -e "$D/ran" ]
    cluster start-node 1
    rises "$(cat "$D/held")" "$(token_of -w 30s)"
}

@test "a member is frozen: a lock is still had, and kept, and released" {
    before=$(token_of)
    PATIENCE=2
    holds
    cluster freeze 1
    run -0 timeout 30 "$ROWLOCK" --no-defaults --connect-timeout=60s history "$L"
    [[ "$output" == *"without member 1, "*": "*acquired* ]]
    sleep 13
    is_alive "$HOLDER"
    touch "$D/let_go"
    ends_with 8 "$HOLDER"
    rises "$(cat "$D/held")" "$(token_of -w 30s)"
    cluster thaw 1
    PATIENCE=10
    poll votes 3
    rises "$before" "$(token_of -w 30s)"
}

@test "a member's data are gone: it votes for nobody until it has rejoined, and tokens rise then" {
    for _ in 1 2 3 4 5; do
        before=$(token_of)
    done
    cluster wipe 1
    poll member_is 1 none
    run -1 q quorum status
    [[ "$output" == *"there is no schema "*"; run \`rowlock quorum init\`, or "*"rebuilt \`rowlock quorum rejoin\`"* ]]
    run -1 q quorum status --json
    json '.members[0] | .state == "none" and .status == "SCHEMA" and .durable == null' <<<"$output"
    rises "$before" "$(token_of -w 30s)"
    fails 78 '*' q --require=all run --ttl=12s -n "$L all" -- true
    before=$(token_of)
    works q quorum rejoin
    [[ "$output" == *"schema at version"* ]]
    member_is 1 abstaining
    poll votes 3
    # The member is needed for the majority now, and has the tokens that it had forgotten.
    cluster kill-node 3
    rises "$before" "$(token_of -w 30s)"
}

@test "rejoin, of a member whose data is there: it abstains, and then votes" {
    works q quorum rejoin 3
    member_is 3 abstaining
    run -1 q quorum status
    works q run --ttl=12s -w 30s "$L" -- true
    poll votes 3
    # Too few other members can be asked.
    cluster kill-node 1
    fails 69 '*' q quorum rejoin 2
    fails 64 '*' q quorum rejoin 4
    cluster start-node 1
}

@test "too few members vote: the wait says so, and ends well when they vote again" {
    for n in 2 3; do
        sql_at $n "UPDATE quorum_member SET votes_from = UTC_TIMESTAMP(6) + INTERVAL 1 HOUR"
    done
    q -v run --ttl=12s -w 60s "$L" -- touch "$D/ran" 2>"$D/err" 3>&- &
    HOLDER=$!
    poll grep -q "^rowlock: waiting for $L: only 1 of 3 members vote, and 2 are needed" "$D/err"
    [ ! -e "$D/ran" ]
    for n in 2 3; do
        sql_at $n "UPDATE quorum_member SET votes_from = UTC_TIMESTAMP(6)"
    done
    ends_with 0 "$HOLDER"
    [ -e "$D/ran" ]
}

@test "a member is a copy of another, and is told so; so does the doctor" {
    dump=$(mariadb-dump --no-defaults -S "$(socket 1)" -u root "$TEST_SCHEMA" quorum_member)
    mariadb --no-defaults -S "$(socket 2)" -u root "$TEST_SCHEMA" <<<"$dump"
    poll member_is 2 strange
    run -1 q quorum status
    run -1 q doctor --json
    jq -r '.[] | select(.level == "BROKEN") | .found' <<<"$output" >broken
    grep -q "written on another server" broken
    works q quorum rejoin
    poll votes 3
    run -0 q doctor
}

@test "doctor: each member by itself, and what they are to one another" {
    works q doctor --json
    json 'map(select(.check == "members" and .level == "fine")) | length == 1' <<<"$output"
    json 'map(select(.check == "identity")) | length == 3' <<<"$output"
    json 'map(select(.check == "replica" and .level == "fine")) | length == 3' <<<"$output"
    run -1 q --url="$ONE" --url="$TWO" --url="$ONE" doctor --json
    json 'map(select(.check == "members" and .level == "BROKEN")) | length >= 1' <<<"$output"
    sql_at 3 "SET GLOBAL innodb_flush_log_at_trx_commit = 2"
    run -0 q doctor --json
    sql_at 3 "SET GLOBAL innodb_flush_log_at_trx_commit = 1"
    json 'map(select(.check == "quorum" and .level == "care")) | length == 1' <<<"$output"
    cluster kill-node 2
    run -0 q doctor --json
    json 'map(select(.check == "members" and .level == "care")) | length == 1' <<<"$output"
}

@test "doctor: a member that replicates, members with different lists, a clock that is ahead" {
    local n own
    sql_at 1 "CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = 9, MASTER_USER = 'nobody'; START SLAVE SQL_THREAD"
    poll slaves_of_one 1
    run -1 q doctor --json
    json 'map(select(.check == "replica" and .level == "BROKEN")) | length == 1
        and (.[0].found | test("it replicates another server"))' <<<"$output"
    # A replica may not become a member, nor stay one.
    fails 79 "*replicates another server*" q quorum init --ttl-most=12s
    fails 79 "*replicates another server*" q quorum rejoin 1
    fails 79 "*replicates another server*" q quorum replace
    [ "$(sql_at 1 "SELECT state FROM quorum_member")" = voting ]
    sql_at 1 "STOP SLAVE; RESET SLAVE ALL"
    own=$(sql_at 2 "SELECT list FROM quorum_member")
    sql_at 2 "UPDATE quorum_member SET list = REPEAT('a', 32)"
    run -1 q doctor --json
    sql_at 2 "UPDATE quorum_member SET list = '$own'"
    json 'map(select(.check == "members" and .level == "BROKEN"))
        | length == 2 and all(.found | test("have different lists of members"))' <<<"$output"
    # (A server runs init_connect only for users without all rights.)
    for n in 1 2 3; do
        sql_at $n "CREATE USER IF NOT EXISTS clock@localhost; GRANT ALL ON \`$TEST_SCHEMA\`.* TO clock@localhost"
    done
    sql_at 2 "SET GLOBAL init_connect = 'SET timestamp = UNIX_TIMESTAMP() + 7'"
    run -0 q --url="$(url 1 clock)" --url="$(url 2 clock)" --url="$(url 3 clock)" doctor --json
    sql_at 2 "SET GLOBAL init_connect = ''"
    json 'map(select(.check == "clocks")) | length == 1 and .[0].level == "care"
        and (.[0].found | test(" is [0-9]+[.][0-9] s ahead of "))' <<<"$output"
    run -0 q doctor --json
}

@test "init and rejoin end at a signal, although a member does not answer" {
    cluster freeze 2
    SECONDS=0
    for call in init rejoin; do
        run -124 timeout 1 "$ROWLOCK" --no-defaults --connect-timeout=40s quorum $call
    done
    [ "$SECONDS" -lt 30 ]
}

@test "replace: another server takes a place; until then, and for those with the old list, nobody is at two" {
    before=$(token_of)
    "$TOOLS/server" start --tcp "$TEST_DIR/fourth" -- --server-id=4 3>&- >/dev/null
    four="mysql://root@localhost/$TEST_SCHEMA?socket=$("$TOOLS/server" socket "$TEST_DIR/fourth")"
    works env ROWLOCK_URLS="$ONE $TWO $four" "$ROWLOCK" --no-defaults quorum replace
    [ "${lines[-1]}" = "3 of 3 members vote; a lock takes 2" ]
    member_is 3 other
    cluster kill-node 1
    later=$(ROWLOCK_URLS="$ONE $TWO $four" token_of -w 30s)
    rises "$before" "$later"
    # The old list of members has no majority any more.
    fails 78 '*' q run --ttl=12s -n "$L" -- true
    cluster start-node 1
    poll votes 2
    works q quorum replace
    rises "$later" "$(token_of -w 30s)"
    "$TOOLS/server" remove "$TEST_DIR/fourth" 3>&-
}

@test "passwords: none in the process list, in what a command finds, or in what is said" {
    for n in 1 2 3; do
        sql_at $n "CREATE OR REPLACE USER secret@localhost IDENTIFIED BY 'Geheim-4711'; GRANT ALL ON \`$TEST_SCHEMA\`.* TO secret@localhost" ||
            sql_at $n "CREATE USER IF NOT EXISTS secret@localhost IDENTIFIED BY 'Geheim-4711'; GRANT ALL ON \`$TEST_SCHEMA\`.* TO secret@localhost"
    done
    secret=()
    for n in 1 2 3; do
        secret+=("--url=$(url $n secret:Geheim-4711)")
    done
    (unset ROWLOCK_URLS && exec "$ROWLOCK" --no-defaults -vv "${secret[@]}" run --ttl=12s "$L" -- sh -c \
        'env >"$D/env"; touch "$D/held"; until [ -e "$D/let_go" ]; do sleep 0.2; done') >out 2>err 3>&- &
    poll test -e held
    ps -eo args | grep -v bats >args
    touch let_go
    wait $!
    grep -q 'secret:x@' args
    ROWLOCK_URLS="${secret[0]#--url=} ${secret[1]#--url=},${secret[2]#--url=}" "$ROWLOCK" --no-defaults run --ttl=12s "$L" -- env >env2
    grep -q '^ROWLOCK_URLS=mysql://secret@localhost.* mysql://secret@localhost.*,mysql://secret@localhost' env2
    ROWLOCK_URLS="${secret[*]#--url=}" "$ROWLOCK" --no-defaults quorum status >status
    local wrong=("${secret[@]/4711/4712}")
    ROWLOCK_URLS="${wrong[*]#--url=}" run -77 "$ROWLOCK" --no-defaults ls
    run -1 grep -rlF Geheim-4711 .
}
