# The statements of sql/ and files of src/ with one guard of the quorum broken: for a library that the checker must see
# through. awk -v guard=NAME -f break.awk FILE...; where nothing was changed, the build ends. With -v part=source: a file of
# src/, for a guard that is there.
#
#   expiry     a member gives its vote while another one has it
#   release    a release frees whoever has the vote
#   durable    a member whose commits are not durable does not abstain after its start
#   majority   one member is enough
#   validity   a hold runs until the latest deadline of its members
#   confirm    a vote counts whatever version the member has
#   rejoin     a member that has lost its data rejoins, and votes at once

function change(pattern, replacement) {
    changes += sub(pattern, replacement)
}

/^-- name: / { name = $3 }
guard == "expiry" && name == "quorum_take" { change("status = 'free' OR lease_expires_at <= UTC_TIMESTAMP\\(6\\)", "TRUE") }
guard == "release" && name == "quorum_release" { change("owner = :owner", "(owner = :owner OR TRUE)") }
guard == "durable" { changes += gsub(/IF\(\(@@global.innodb_flush_log_at_trx_commit = 1 AND \(@@global.log_bin = 0 OR @@global.sync_binlog = 1\)\), 0,/, "IF(TRUE, 0,") }
guard == "majority" { change("count / 2 \\+ 1", "1") }
guard == "validity" { change("sent\\[members->needed - 1\\]", "sent[0]") }
guard == "confirm" { change("grant->token && s->version >= grant->token", "grant->token") }
guard == "rejoin" { change("l->ttl_most_us, err\\);$", "0, err);") }
{ print }

END {
    if (part == "source" && !changes) {
        print "break.awk: nothing to break for " guard >"/dev/stderr"
        exit 1
    }
}
