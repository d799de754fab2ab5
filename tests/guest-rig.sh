# Guests of QEMU without hardware acceleration, which the suites and benchmarks with guests share; sourced behind tests/rig.sh. Kernel
# and QEMU are those of tests/nics/fetch.sh. A guest has a name; its serial console is on descriptors 3 (to it) and 4 (from it).
# shellcheck shell=bash
# Time limit of a command in the guest, in seconds. The guest is emulated, and the machine may be busy: then PATIENCE helps.
patience=${PATIENCE:-120}
cache=${WHARF_GUEST_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/wharf-guest}/nics

# guest_image: makes the initial file system $out/initrd.gz, as TOOLS, FILES and FUNCTIONS say. Ends with 77 where kernel and QEMU
# are not to be had.
guest_image() {
  tests/nics/fetch.sh "$cache" || { code=$?; [ $code -eq 77 ] && exit 77; die "no kernel for the guest"; }
  tests/nics/image.sh "$cache" "$wharf" "$out/initrd.gz" || die "no initial file system"
}

# launch_guest NAME 'PARAMETERS OF THE KERNEL' OPTIONS OF QEMU...: starts the guest, process $qemu, by the command $launcher if
# there is one, with the processors that $machine says; in this machine's own QEMU if $emulator names it.
launch_guest() {
  local at=$out/$1 parameters=$2 fetched="$cache/qemu/usr/bin/qemu-system-x86_64 -L $cache/qemu/usr/share/qemu -L /usr/share/seabios"
  shift 2
  rm -f "$at".in "$at".out
  mkfifo "$at.in" "$at.out"
  # shellcheck disable=SC2086
  QEMU_MODULE_DIR=${emulator:-$cache/qemu/usr/lib/x86_64-linux-gnu/qemu} ${launcher:-} ${emulator:-$fetched} -cpu max -m 1024 ${machine:--smp 2 -accel tcg,thread=multi} \
    -nodefaults -display none -vga none -audiodev none,id=a -no-reboot \
    -chardev pipe,id=c,path="$at" -serial chardev:c -serial "file:$out/files" \
    -kernel "$cache/vmlinuz" -initrd "$out/initrd.gz" \
    -append "console=ttyS0 quiet panic=-1 mitigations=off $parameters" "$@" 2>"$at.err" &
  qemu=$!
}

# card SOCKET: prints QEMU's options for a network card, of $pairs, $packed and $vectors, whose back end listens there.
card() {
  echo "-machine q35,memory-backend=m -object memory-backend-memfd,id=m,size=1024M,share=on
    -chardev socket,id=v,path=$out/$1,reconnect=1 -netdev vhost-user,id=n,chardev=v,queues=$pairs
    -device virtio-net-pci,netdev=n,packed=$packed,mq=on,vectors=${vectors:-$((2 * pairs + 2))},romfile=,mac=02:00:00:00:00:02"
}

# attach NAME: has the console of that guest.
attach() { exec 4<>"$out/$1.out" 3<>"$out/$1.in"; }

# start_guest PARAMETERS OPTIONS...: starts a guest, named `qemu`, and waits for its console.
start_guest() {
  launch_guest qemu "$@"
  attach qemu
  answer =ready
}

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

# qmp COMMAND [NAME=VALUE]...: gives the guest's QEMU a command by the monitor $monitor.
qmp() { python3 tests/guest/qmp.py "${monitor:-$out/qmp}" "$@" >"$out/qmp.json" || die "QEMU: $* $(cat "$out/qmp.json")"; }

halt() {
  printf 'poweroff -f\n' >&3
  ended guest "$qemu"
  exec 3>&- 4>&-
}
