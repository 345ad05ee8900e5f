#!/usr/bin/env bats
# rowlock init --restored: after a restore from a backup, old tokens are refused, and new ones are higher.

load helpers
load run_helpers

RAISED=4294967296

backup() {
    mariadb-dump --defaults-file="$TEST_OPTIONS" --single-transaction "$TEST_SCHEMA" 2>/dev/null >backup.sql
}

restore() {
    sql "source backup.sql"
}

# token_of NAME [OPTION...]: takes the lock, and prints the new token.
token_of() {
    rl run -n "${@:2}" "$1" -- sh -c 'echo "$ROWLOCK_TOKEN"'
}

refuses() {
    run --separate-stderr sql "START TRANSACTION; CALL rowlock_fence('$1', $2)"
    echo "$output $stderr"
    [ "$status" -ne 0 ]
    [[ "$stderr" == *"(RLLST)"* ]]
}

# somebody_is_connected: for poll: a program is connected to this schema.
somebody_is_connected() {
    [ "$(sql_any "SELECT COUNT(*) FROM information_schema.processlist WHERE db = '$TEST_SCHEMA'")" -ge 1 ]
}

is_ready() {
    [ "$(sql "SELECT COUNT(*) FROM queue_item WHERE ready_at <= UTC_TIMESTAMP(6)")" = 1 ]
}

@test "init --restored: tokens that were given after the backup are refused, and later ones are higher" {
    rl init -q --procedures
    for name in lease purged row slots; do
        case $name in row) options=--mode=pessimistic ;; slots) options=--slots=2 ;; *) options= ;; esac
        for _ in 1 2 3; do token_of "$name" $options; done
    done
    rl run --shared readers -- true
    rl run readers -- true
    rl run stays -- true
    # A lease that is marked as held, and whose time is over.
    sql "UPDATE resource SET status = 'held', owner = 'gone', lease_expires_at = UTC_TIMESTAMP(6) - INTERVAL 1 DAY WHERE resource_name = 'stays'"
    backup
    after=$(token_of lease) after_row=$(token_of row --mode=pessimistic)
    token_of slots --slots=2
    after_new=$(token_of new)
    restore
    fails 66 "*" rl show new
    # (Without it the same token would be given again.)
    sql "UPDATE resource SET status = 'free' WHERE resource_name = 'lease'"
    works rl init --restored
    [[ $output == *"restored: all "*" names are free (1 were held), 0 items are in queues; tokens go on 2^32 higher"* ]]
    refuses lease "$after"
    next=$(token_of lease) next_row=$(token_of row --mode=pessimistic) next_new=$(token_of new)
    [ "$next" -gt $((after + RAISED - 2)) ]
    [ "$next_row" -gt $((after_row + RAISED - 2)) ]
    [ "$next_new" -gt $((after_new + RAISED - 2)) ]
    [ "$(token_of slots --slots=2)" -gt $RAISED ]
    [ "$(rl run --shared readers -- sh -c 'echo "$ROWLOCK_TOKEN"')" -gt $RAISED ]
    rl show --json stays | jq -e '.state == "free" and .token == null or .state == "free"'
    refuses lease "$after"
    # A second call raises the tokens once more.
    rl init -q --restored
    [ "$(token_of lease)" -gt $((2 * RAISED)) ]
    rl doctor
}

@test "init --restored: a lease that was lost so is told to its holder, a barrier's and a latch's generation are over" {
    rl latch set gate 2
    rl latch down --key=a gate
    backup
    rl latch down --key=b gate
    rl latch wait gate
    restore
    background latch wait gate
    poll somebody_is_connected
    rl init -q --restored
    ends_with 75
    # The latch is broken until it is set anew.
    run -75 rl latch wait -w 0 gate
    rl latch set gate 1
    rl latch down --key=a gate
    rl latch wait -w 0 gate
    rl barrier door 1 -- true
}

@test "init --restored: items come again, by tokens and with ids that nobody has had" {
    rl queue put work one
    first=$(rl queue take --json --ttl=500ms work)
    poll is_ready
    backup
    second=$(rl queue take --json --ttl=24h work)
    rl queue put work two
    lost=$(rl queue take --json --ttl=24h work)
    restore
    rl init -q --restored
    id=$(jq -r '.id' <<<"$second") token=$(jq -r '.token' <<<"$second")
    run -75 rl queue done work "$id" "$token"
    again=$(rl queue take --json --ttl=24h work)
    [ "$(jq .id <<<"$again")" = "$id" ]
    [ "$(jq .token <<<"$again")" -gt $((token + RAISED - 2)) ]
    rl queue put work three
    [ "$(rl queue take --json --ttl=24h work | jq .id)" -gt $(($(jq .id <<<"$lost") + RAISED - 2)) ]
    rl queue purge --all work
}

@test "init --restored: a period that was done after the backup is done again" {
    echo one >>x
    rl once --per=1d nightly -- false || true
    backup
    rl once --per=1d nightly -- sh -c 'echo done >>"$D/runs"'
    restore
    rl init -q --restored
    rl once --per=1d nightly -- sh -c 'echo "$ROWLOCK_TOKEN" >>"$D/runs"'
    [ "$(head -1 runs)" = done ]
    [ "$(tail -1 runs)" -gt $RAISED ]
}

before() {
    sql "SELECT SUM(version) FROM resource" "; SELECT version FROM version_floor"
}

# refused TEXT: the restore is refused with that text, and nothing is changed.
refused() {
    local was
    was=$(before)
    fails 1 "$1*nothing was changed" rl init -q --restored
    [ "$(before)" = "$was" ]
}

# refused_while NAME TEXT OPTION...: the same while a `run` with these options holds the lock.
refused_while() {
    L=$1
    hold "${@:3}"
    refused "$2"
    touch let_go
    ends_with 8
    rm let_go held
}

one_has_entered() {
    [ "$(sql "SELECT COUNT(*) FROM lock_grant WHERE expires_at > UTC_TIMESTAMP(6)")" = 1 ]
}

@test "init --restored: refused while somebody is at work, and nothing is changed" {
    rl init -q --procedures
    refused_while lease "somebody may be at work: 'lease' is held, "
    refused_while row "somebody is at work: a session has a row lock, " --mode=pessimistic
    refused_while shared "somebody may be at work: 'shared' is held, " --shared
    background barrier hall 2 -- true
    poll one_has_entered
    refused "somebody may be at work: 'hall' is held, "
    kill "$BACK"
    ends_with 143
    # (A lease of an SQL session is over, but its transaction is still open.)
    coproc sqlin { mariadb --defaults-file="$TEST_OPTIONS" -N -B -n "$TEST_SCHEMA" 3>&-; }
    echo "CALL rowlock_acquire('fenced', 60, 0, @t); BEGIN; CALL rowlock_fence('fenced', @t); SELECT 'open';" >&"${sqlin[1]}"
    read -r -t 60 line <&"${sqlin[0]}"
    [ "$line" = open ]
    refused "somebody is at work: a session has a row lock, or has fenced a lock; "
    echo "COMMIT; CALL rowlock_release('fenced', @t);" >&"${sqlin[1]}"
    poll rl init -q --restored
}

@test "init --restored: who led, or stood at a barrier, at the time of the backup is gone" {
    background lead --ttl=1s --value=old boss -- sleep 60
    poll rl leader boss
    background barrier --ttl=1s hall 2 -- true
    poll one_has_entered
    backup
    run_teardown
    restore
    poll rl init -q --restored
    run -1 rl leader boss
    background barrier hall 2 -- true
    [ "$(rl barrier hall 2 -- sh -c 'echo "$ROWLOCK_TOKEN"')" -gt $RAISED ]
    ends_with 0
}

@test "init --restored: a member of a quorum has no vote any more" {
    sql "INSERT INTO quorum_member (id, list, number, count, members, server, state, ttl_most_us, votes_from)
         VALUES (1, 'a', 1, 3, 'a', 'a', 'voting', 60000000, UTC_TIMESTAMP(6))"
    poll rl init -q --restored
    [ "$(sql "SELECT server FROM quorum_member")" = "" ]
    sql "DELETE FROM quorum_member"
}
