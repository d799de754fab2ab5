
# The words behind lab, plan and bench are completed by the programs that these run.
function __wharf_program
    type -q $argv[1]; or return
    $argv[1] completions fish | source
    set -l words (commandline -opc)
    complete -C "$argv $words[3..] "(commandline -ct)
end
complete -c wharf -n "__fish_wharf_using_subcommand lab" -a "(__wharf_program wharf-lab)"
complete -c wharf -n "__fish_wharf_using_subcommand plan" -a "(__wharf_program wharf-lab plan)"
complete -c wharf -n "__fish_wharf_using_subcommand bench" -a "(__wharf_program wharf-bench)"
