#compdef rowlock
# rowlock(1) completion for zsh: see rowlock.bash. In a folder of $fpath it is called _rowlock.

local -a lines
local line
lines=("${(@f)$(printf '%s\0' "${(@Q)words[2,CURRENT]}" | "${(Q)words[1]}" __complete 2>/dev/null)}")
for line in "${lines[@]}"; do
    if [[ $line == :files ]]; then
        [[ $words[CURRENT] != --*=* ]] || compset -P '*='
        _files
    elif [[ $line == *= ]]; then
        compadd -S '' -- "$line"
    elif [[ -n $line ]]; then
        compadd -- "$line"
    fi
done
