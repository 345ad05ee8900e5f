# rowlock(1) completion for fish: see rowlock.bash.

function __rowlock_complete
    set -l words (commandline -opc) (commandline -ct)
    for line in (printf '%s\0' $words[2..-1] | command $words[1] __complete 2>/dev/null)
        if test "$line" = :files
            # Of --option=FILE what stands behind the =.
            set -l before (string match -r '^--[^=]*=' -- $words[-1])
            printf "$before%s\n" (__fish_complete_path (string replace -r '^--[^=]*=' '' -- $words[-1]))
        else
            echo $line
        end
    end
end

complete -c rowlock -f -a '(__rowlock_complete)'
