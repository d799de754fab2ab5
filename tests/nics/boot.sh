# Starts and ends the guest with a current kernel, from the packages in $cache (tests/nics/fetch.sh) and $out/initrd.gz
# (tests/nics/image.sh); sourced behind tests/rig.sh and tests/guest/console.sh.
# shellcheck shell=bash

# start_guest 'PARAMETERS OF THE KERNEL' OPTIONS OF QEMU...: starts the guest, process $qemu, by the command $launcher if
# there is one, and waits for its console.
start_guest() {
  local parameters=$1
  shift
  rm -f "$out"/console.* "$out"/wire*
  mkfifo "$out/console.in" "$out/console.out"
  # shellcheck disable=SC2086
  QEMU_MODULE_DIR=$cache/qemu/usr/lib/x86_64-linux-gnu/qemu ${launcher:-} "$cache/qemu/usr/bin/qemu-system-x86_64" \
    -L "$cache/qemu/usr/share/qemu" -L /usr/share/seabios -accel tcg,thread=multi -cpu max -smp 2 -m 1024 \
    -nodefaults -display none -vga none -audiodev none,id=a -no-reboot \
    -chardev pipe,id=c,path="$out/console" -serial chardev:c -serial "file:$out/files" \
    -kernel "$cache/vmlinuz" -initrd "$out/initrd.gz" \
    -append "console=ttyS0 quiet panic=-1 mitigations=off $parameters" "$@" 2>"$out/qemu.err" &
  qemu=$!
  started+=("$qemu")
  exec 4<>"$out/console.out" 3<>"$out/console.in"
  answer =ready
}

halt() {
  printf 'poweroff -f\n' >&3
  ended guest "$qemu"
  exec 3>&- 4>&-
}
