# rowlock(1) completion for bash. It asks `rowlock --help` what there is, so that it cannot be older
# than the command; no server is asked, so no names of locks are completed.
# shellcheck shell=bash

# Options, from a help on stdin: those with which a line begins; "=" where a value follows.
_rowlock_options() {
    sed -nE '/^ +-/s/^ +//p' | sed -E 's/  .*//' | grep -oE '(^|[ ,])--?[A-Za-z?][a-z-]*=?' | tr -d ' ,'
}

# _rowlock_words PROGRAM [COMMAND]: what may stand there beside options.
_rowlock_words() {
    case ${2:-} in
    '' | help) "$1" --help | sed -nE '/^Commands/,/^$/s/^  ([a-z]+) .*/\1/p' ;;
    *) "$1" help "$2" | sed -nE "s/^(Usage:| {6}) rowlock $2 ([a-z]+)( .*)?\$/\\2/p" ;;
    esac
}

_rowlock() {
    local program=$1 current=$2 command='' known word i
    COMPREPLY=()
    # A file, as the value of an option; what `run` is to start.
    [[ $current != '=' && ${COMP_WORDS[COMP_CWORD - 1]} != '=' ]] || return 0
    known=$(_rowlock_words "$program" 2>/dev/null) || return 0
    for ((i = 1; i < COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        [[ $word != -- ]] || return 0
        [[ -n $command || $word = -* ]] || ! grep -qxF -e "$word" <<<"$known" || command=$word
    done
    if [[ $current != -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$(_rowlock_words "$program" "$command" 2>/dev/null)" -- "$current")
        return 0
    fi
    mapfile -t COMPREPLY < <(compgen -W "$({
        "$program" --help
        [[ -z $command ]] || "$program" help "$command"
    } 2>/dev/null | _rowlock_options | sort -u)" -- "$current")
    # Its value comes without a blank.
    [[ ${#COMPREPLY[@]} -ne 1 || ${COMPREPLY[0]} != *= ]] || compopt -o nospace 2>/dev/null
    return 0
}

complete -o default -F _rowlock rowlock
