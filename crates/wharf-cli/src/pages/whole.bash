
# Bash splits words at a colon and an equals sign (COMP_WORDBREAKS): they are whole here. Of an answer it wants
# what is behind the last colon.
_@NAME@_whole() {
    local words=() at word is_next=1 behind
    for ((at = 0; at < ${#COMP_WORDS[@]}; at++)); do
        word=${COMP_WORDS[at]}
        [[ $at -ne $COMP_CWORD || ${COMP_LINE:0:COMP_POINT} != *[[:blank:]] ]] || is_next=1
        if [[ $word == = && ${words[-1]} == --* ]]; then
            is_next=1 word=
            [ $at -eq "$COMP_CWORD" ] || continue
        fi
        [[ ! $word =~ ^:+$ ]] || is_next=
        if [ -n "$is_next" ]; then words+=("$word"); else words[-1]+=$word; fi
        [[ $word =~ ^:+$ ]] || is_next=1
        [ $at -ne "$COMP_CWORD" ] || behind=$((${#words[@]} - 1))
    done
    COMP_WORDS=("${words[@]}") COMP_CWORD=$behind
    word=${words[behind]}
    @FUNCTION@ "$1" "$word" "${words[behind - 1]}"
    [[ $COMP_WORDBREAKS != *:* ]] || COMPREPLY=("${COMPREPLY[@]#"${word%"${word##*:}"}"}")
}
complete -F _@NAME@_whole -o nosort -o bashdefault -o default @PROGRAM@ 2>/dev/null ||
    complete -F _@NAME@_whole -o bashdefault -o default @PROGRAM@
