# The statements of sql/ and files of src/ with one guard of the quorum broken: for a library that the checker must see
# through. awk -v guard=NAME -f break.awk FILE...; the build ends if nothing was changed.
#
#   expiry     a member gives its vote while another one has it
#   release    a release frees the vote, whoever has it
#   majority   one member is enough
#   confirm    a vote counts with any version of the member's

function change(pattern, replacement) {
    changes += sub(pattern, replacement)
}

/^-- name: / { name = $3 }
guard == "expiry" && name == "quorum_take" { change("status = 'free' OR ", "TRUE OR ") }
guard == "release" && name == "quorum_release" { change("owner = :owner", "(owner = :owner OR TRUE)") }
guard == "majority" { change("count / 2 \\+ 1", "1") }
guard == "confirm" { change("grant->token && s->version >= grant->token", "grant->token") }
{ print }

END {
    if (!changes) {
        print "break.awk: nothing to break for " guard >"/dev/stderr"
        exit 1
    }
}
