# fish completion for authguard: authguard completion fish | source
function __authguard
    set -l all (authguard complete -- (commandline -opc)[2..] (commandline -ct) 2>/dev/null)
    if test (count $all) -gt 0
        printf '%s\n' $all
    else
        __fish_complete_path (commandline -ct)
    end
end
complete -c authguard -f -a '(__authguard)'
