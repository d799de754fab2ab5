
# The words behind a command that is a program of its own are completed by that program.
(( $+functions[_wharf_program] )) ||
_wharf_program() { # PROGRAM WORD...: the words of the line stand behind these
    (( $+commands[$1] )) || return
    local run=_${1//-/_} call=($@)
    (( $+functions[$run] )) || eval "$($1 completions zsh)"
    [[ $curcontext != *:wharf-help-command-* ]] || call=($1 help "${@:2}")
    words=($call "${words[@]:1}")
    (( CURRENT += $#call - 1 ))
    $run
}
