
# The words behind a command that is a program of its own are completed by that program.
function __wharf_program
    set -l call $argv
    type -q $call[1]; or return
    $call[1] completions fish | source
    set -l words (commandline -opc)
    set -e words[1]
    argparse -s (__fish_wharf_global_optspecs) -- $words 2>/dev/null; or return
    if test "$argv[1]" = help
        set -e argv[1]
        set call $call[1] help $call[2..]
    end
    complete -C "$call $argv[2..] "(commandline -ct)
end
complete -c wharf -n "__fish_wharf_using_subcommand @COMMAND@ help; and __fish_seen_subcommand_from @COMMAND@" -a "(__wharf_program @CALL@)"
