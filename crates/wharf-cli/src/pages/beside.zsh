
# The words behind lab, plan and bench are completed by the programs that these run.
(( $+functions[_wharf_program] )) ||
_wharf_program() { # PROGRAM WORD...: the words of the line stand behind these
    (( $+commands[$1] )) || return
    local run=_${1//-/_}
    (( $+functions[$run] )) || eval "$($1 completions zsh)"
    words=($@ "${words[@]:1}")
    (( CURRENT += $# - 1 ))
    $run
}
