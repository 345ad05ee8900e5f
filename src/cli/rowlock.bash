# rowlock(1) completion for bash. `rowlock __complete` says what there is: commands, options, their words, names of
# locks that the server knows (within a second, or none). Files are completed behind --, and where an option takes one.
# shellcheck shell=bash

# _rowlock_line: into the array `words` what bash has split at = and :, up to the one that is completed.
_rowlock_line() {
    local i part joins=
    words=()
    for ((i = 1; i <= COMP_CWORD; i++)); do
        part=${COMP_WORDS[i]}
        if [[ $part == [=:]* && ${#words[@]} -gt 0 ]]; then
            words[-1]+=$part
            joins=yes
        elif [[ -n $joins ]]; then
            words[-1]+=$part
            joins=
        else
            words+=("$part")
        fi
    done
    ((${#words[@]} > 0)) || words=('')
}

_rowlock() {
    local program=$1 current=$2 words=() line whole cut
    COMPREPLY=()
    _rowlock_line
    whole=${words[-1]}
    [[ $current != [=:] ]] || current=
    # What stands before the part that bash replaces.
    cut=$((${#whole} - ${#current}))
    while IFS= read -r line; do
        if [[ $line == :files ]]; then
            compopt -o default 2>/dev/null
            mapfile -O "${#COMPREPLY[@]}" -t COMPREPLY < <(compgen -f -- "$current")
        else
            line=${line:cut}
            # Not -, _ and the like: what a shell would read otherwise.
            [[ $line != *[!a-zA-Z0-9_.,:/=@%+#-]* ]] || printf -v line %q "$line"
            COMPREPLY+=("$line")
        fi
    done < <(printf '%s\0' "${words[@]}" | "$program" __complete 2>/dev/null)
    # Its value comes without a blank.
    [[ ${#COMPREPLY[@]} -ne 1 || ${COMPREPLY[0]} != *= ]] || compopt -o nospace 2>/dev/null
    return 0
}

complete -F _rowlock rowlock
