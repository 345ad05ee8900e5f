# Functions for the other scripts of this folder. Give it first, by an -f of its own.

function fail(message) {
    printf "%s:%d: %s\n", FILENAME, FNR, message > "/dev/stderr"
    failed = 1
    exit 1
}

function trim(s) {
    sub(/^[ \t\n]+/, "", s)
    sub(/[ \t\n]+$/, "", s)
    return s
}
