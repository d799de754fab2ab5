# The host's end of a guest's serial console, on descriptors 3 (to the guest) and 4 (from it); sourced behind tests/rig.sh.
# shellcheck shell=bash
# Time limit of a command in the guest, in seconds. The guest is emulated, and the machine may be busy: then PATIENCE helps.
patience=${PATIENCE:-120}

# answer WORD: reads the guest's output into $reply up to a line that begins with WORD; the rest of that line is $rest.
answer() {
  local line
  reply=""
  while IFS= read -t $patience -r line <&4; do
    line=${line%$'\r'}
    case $line in "$1"*) rest=${line#"$1"} && return ;; esac
    reply+=$line$'\n'
  done
  die "the guest does not answer: $reply"
}

# guest COMMAND: runs it in the guest, with its output in $reply.
guest() {
  # An emulated port now and then loses the first bytes behind an answer: those are blanks.
  printf '%32s%s\n' "" "$1" >&3
  answer "=ended "
  return "$rest"
}
