
# The words behind a command that is a program of its own are completed by that program.
_wharf_or_program() {
    local at=0 help="" call=() run
    while [ ${#call[@]} -eq 0 ] && [ $((at += 1)) -lt "$COMP_CWORD" ]; do
        case ${COMP_WORDS[at]} in
            @OPTIONS@) at=$((at + 1)) ;;
            -*) ;;
            help) help=help ;;
            @COMMAND@) call=(@CALL@) ;;
            *) break ;;
        esac
    done
    if ! type -P "${call[0]}" >/dev/null; then
        _wharf "$@"
        return
    fi
    complete -p "${call[0]}" >/dev/null 2>&1 || source <("${call[0]}" completions bash)
    run=$(complete -p "${call[0]}")
    run=${run#*-F }
    call=("${call[0]}" $help "${call[@]:1}")
    COMP_WORDS=("${call[@]}" "${COMP_WORDS[@]:at + 1}")
    COMP_CWORD=$((COMP_CWORD - at + ${#call[@]} - 1))
    "${run%% *}" "${call[0]}" "$2" "$3"
}
