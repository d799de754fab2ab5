# The guest of tests/verbs.sh and bench/verbs.sh: sourced behind tests/rig.sh and tests/guest/console.sh.
# shellcheck shell=bash
cache=${WHARF_GUEST_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/wharf-guest}/nics
tests/nics/fetch.sh "$cache" || { code=$?; [ $code -eq 77 ] && exit 77; die "no kernel for the guest"; }
library=$(ldconfig -p | sed -n 's/.*libibverbs\.so\.1 .*=> //p' | head -n 1)
# The library knows its providers by the folder that it was built with, not by a link to that.
provider=$(readlink -f "${library%/*}"/libibverbs/librxe-*.so)
[ -e "$provider" ] || { echo "no libibverbs with soft-RoCE: apt install libibverbs1 ibverbs-providers"; exit 77; }
TOOLS=rdma FILES="$library $provider /etc/libibverbs.d/rxe.driver" FUNCTIONS=tests/verbs/guest.sh \
  tests/nics/image.sh "$cache" "$wharf" "$out/initrd.gz" || die "no initial file system"

# boot: starts the guest, with the processors that $machine says, as process $qemu, and makes the fabric.
boot() {
  mkfifo "$out/console.in" "$out/console.out"
  QEMU_MODULE_DIR=$cache/qemu/usr/lib/x86_64-linux-gnu/qemu "$cache/qemu/usr/bin/qemu-system-x86_64" \
    -L "$cache/qemu/usr/share/qemu" -L /usr/share/seabios -machine q35 -cpu max -m 1024 ${machine:--smp 2 -accel tcg,thread=multi} \
    -nodefaults -display none -vga none -audiodev none,id=a -no-reboot \
    -chardev pipe,id=c,path="$out/console" -serial chardev:c -serial "file:$out/files" \
    -kernel "$cache/vmlinuz" -initrd "$out/initrd.gz" \
    -append "console=ttyS0 quiet panic=-1 mitigations=off no_timer_check adapter=rdma" 2>"$out/qemu.err" &
  qemu=$!
  started+=("$qemu")
  exec 4<>"$out/console.out" 3<>"$out/console.in"
  answer =ready
  guest fabric || die "no RDMA devices: $reply"
}

halt() {
  printf 'poweroff -f\n' >&3
  ended guest "$qemu"
  exec 3>&- 4>&-
}
