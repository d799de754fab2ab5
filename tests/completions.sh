#!/usr/bin/env bash
# What `wharf completions` prints, in the shells that it is for: bash, zsh (at a terminal, since it completes nowhere else) and fish
# complete the same commands, options and values of a line, also behind `wharf lab`, `wharf plan` and `wharf bench`, which are programs of
# their own. Needs no privilege. Leaves nothing behind; every command has a time limit.
set -u -o pipefail
cd "$(dirname "$0")/.." || exit 1
needs=(-p wharf-lab-cli --bin wharf-lab -p wharf-bench --bin wharf-bench)
. tests/rig.sh
# No start file of the user's says anything.
export HOME=$out ZDOTDIR=$out XDG_CONFIG_HOME=$out XDG_DATA_HOME=$out TERM=xterm
mkdir "$out/bin" "$out/zsh" && ln -s "$(realpath "$(dirname "$wharf")")"/wharf{,-lab,-bench} "$out/bin/" || die "no folder for the command"
PATH=$out/bin:$PATH
wharf completions bash >"$out/wharf.bash" && wharf completions zsh >"$out/zsh/_wharf" && wharf completions fish >"$out/wharf.fish" ||
  die "wharf completions"

# Bash splits a word at a colon and an equals sign, and puts an answer behind the last of them.
in_bash() { # LINE: prints the words that it may end with
  within 20 bash --norc -c '. "$0"; line=$1 COMP_LINE=$1 COMP_POINT=${#1}
    [[ $COMP_WORDBREAKS == *:* ]] || { echo "no colon any more" >&2; exit 1; }
    split=${line//:/ : }; split=${split//=/ = }; read -r -a COMP_WORDS <<<"$split"; [[ $split != *" " ]] || COMP_WORDS+=("")
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); complete=$(complete -p wharf | sed "s/.*-F \([^ ]*\).*/\1/")
    "$complete" wharf "${COMP_WORDS[-1]}" "${COMP_WORDS[-2]}"
    last=${line##*[ =]}; printf "%s\n" "${COMPREPLY[@]/#/"${last%"${last##*:}"}"}"' \
    "$out/wharf.bash" "$1"
}

in_fish() { within 20 fish --no-config -c 'source $argv[1]; complete -C $argv[2]' "$out/wharf.fish" "$1" | cut -f 1; }

# A tab at a terminal: zsh completes the line, or lists what it may become. The line is printed, too.
in_zsh() {
  # shellcheck disable=SC2016
  within 30 zsh -f -c '
    zmodload zsh/zpty || exit 1
    until_said() {
      local text part
      for _ in {1..400}; do
        while zpty -rt shell part; do text+=$part; done
        [[ $text == *$1* ]] && { print -r -- $text; return; }
        sleep 0.05
      done
      print -r -- "it does not say $1 but: $text" >&2
      exit 1
    }
    zpty -b shell zsh -f -i
    zpty -w shell "PS1= LISTMAX=0; fpath=($1 \$fpath); autoload -Uz compinit && compinit -u -D
      tell() { print -r -- \" \$BUFFER \"; print ov\"\"er; }; zle -N tell; bindkey ^T tell; stty rows 100 columns 200; print rea\"\"dy"
    until_said ready >/dev/null
    zpty -w -n shell "$2"$'"'\\t\\x14'"'
    until_said over' zsh "$out/zsh" "$1" | sed 's/\x1b\[[0-9;?]*[A-Za-z]//g' | tr -s '\r\n ' '\n'
}

# completes 'LINE' WORD...: each shell's answers include all of them.
completes() {
  local line=$1 shell word
  shift
  for shell in bash zsh fish; do
    "in_$shell" "$line" >"$out/words" 2>"$out/words.err" || die "$shell: $line: $(cat "$out/words.err")"
    for word; do
      # zsh puts the sign behind an option that has a value, and fish the option before its value.
      sed 's/^--[a-z-]*=\(..*\)/\1/' "$out/words" | grep -qxF -e "$word" -e "$word=" || die "$shell: \"$line\" is not completed to $word, but to: $(tr '\n' ' ' <"$out/words")"
    done
  done
  echo "$line: $*"
}

completes "wharf fo" forward
completes "wharf send --when" --when-full
completes "wharf send --when-full " wait drop-tail drop-head
completes "wharf lab run b" bql batching
completes "wharf lab run bql --se" --set --seed --seeds
completes "wharf -q --color never lab run b" bql batching
completes "wharf --log=json -v lab run bql --se" --set --seed --seeds
completes "wharf --log text plan --direction " tx rx both
completes "wharf help lab r" run
completes "wharf -v help lab s" sweep
completes "wharf help pl" plan
completes "wharf plan --direction " tx rx both
completes "wharf bench path --ow" --owner
completes "wharf explain drop-" drop-head drop-tail
completes "wharf completions " bash zsh fish
# What there is on this machine now.
completes "wharf send packet:l" packet:lo
completes "wharf receive --from xdp:l" xdp:lo
completes "wharf doctor packet:l" packet:lo
completes "wharf set ra" rate=
completes "wharf send --qdisc prio packet:l" packet:lo
completes "wharf forward packet:lo xdp:l" xdp:lo
completes "wharf bench device packet:l" packet:lo
completes "wharf bench device --from packet:l" packet:lo
completes "wharf plan --nic c" cx5
completes "wharf plan --nic " ixgbe
completes "wharf send --when-full=drop-t" drop-tail
