
# The words behind lab, plan and bench are completed by the programs that these run.
_wharf_or_program() {
    local program="" first=() run
    case ${COMP_WORDS[1]} in
        lab) program=wharf-lab ;;
        plan) program=wharf-lab first=(plan) ;;
        bench) program=wharf-bench ;;
    esac
    if [ "$COMP_CWORD" -lt 2 ] || ! type -P "$program" >/dev/null; then
        _wharf "$@"
        return
    fi
    complete -p "$program" >/dev/null 2>&1 || source <("$program" completions bash)
    run=$(complete -p "$program")
    run=${run#*-F }
    COMP_WORDS=("$program" "${first[@]}" "${COMP_WORDS[@]:2}")
    COMP_CWORD=$((COMP_CWORD - 1 + ${#first[@]}))
    "${run%% *}" "$program" "$2" "$3"
}
complete -F _wharf_or_program -o nosort -o bashdefault -o default wharf 2>/dev/null ||
    complete -F _wharf_or_program -o bashdefault -o default wharf
