# rowlock(1) completion for fish: see rowlock.bash.

function __rowlock_complete
    set -l words (commandline -opc) (commandline -ct)
    for line in (printf '%s\0' $words[2..-1] | command $words[1] __complete 2>/dev/null)
        if test "$line" = :files
            __fish_complete_path (commandline -ct)
        else
            echo $line
        end
    end
end

complete -c rowlock -f -a '(__rowlock_complete)'
