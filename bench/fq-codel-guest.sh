#!/usr/bin/env bash
# `--qdisc fq_codel` beside the kernel's own, in a guest whose kernel has it (Debian's cloud kernel under QEMU without hardware
# acceleration): eight bulk flows of 1.5 times the rate and a sparse one enter a bottleneck of 4 Mbit/s, which is a bridge with
# tbf and fq_codel, or `wharf forward --rate 4mbit --qdisc fq_codel`, alternating. Prints the sparse flow's delay by round, and
# medians with their ratio. Needs root, qemu-system-x86, busybox-static, cpio, iproute2. Usage: bench/fq-codel-guest.sh [ROUNDS] [SECONDS]
set -eu
cd "$(dirname "$0")/.."
. tests/rig.sh
rounds=${1:-3} seconds=${2:-10}
cache=${WHARF_GUEST_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/wharf-guest}
tests/guest/image.sh "$cache" || die "no kernel for the guest"
root=$out/root
mkdir -p "$root"/{bin,proc,sys,dev,tmp,run,modules,tools}
cp "$(command -v busybox)" "$root/bin/"
for module in llc stp bridge veth tun sch_tbf sch_fq_codel; do
  find "$cache/kernel/lib/modules" -name "$module.ko" -exec cp {} "$root/modules/" \;
done
# The tools with their libraries.
cp "$wharf" "$root/tools/wharf"
cp "$(command -v ip)" "$(command -v tc)" "$root/tools/"
ldd "$root"/tools/* | grep -o '/[^ :]*' | grep '\.so' | sort -u | while read -r library; do
  mkdir -p "$root${library%/*}" && cp -L "$library" "$root$library"
done
cat >"$root/init" <<I
#!/bin/busybox sh
/bin/busybox --install -s /bin
# Busybox's shell prefers its own commands of these names.
ip() { /tools/ip "\$@"; }
tc() { /tools/tc "\$@"; }
mount -t proc proc /proc && mount -t sysfs sysfs /sys && mount -t devtmpfs dev /dev && mount -t tmpfs tmp /tmp
for module in llc stp bridge veth tun sch_tbf sch_fq_codel; do [ ! -e /modules/\$module.ko ] || insmod /modules/\$module.ko; done
for i in /proc/sys/net/ipv6/conf/all /proc/sys/net/ipv6/conf/default; do echo 1 >\$i/disable_ipv6; done
# A TAP takes frames by copying, so that what stands in the bottleneck does not hold up the sender.
mkdir -p /dev/net && [ -e /dev/net/tun ] || mknod /dev/net/tun c 10 200
ip tuntap add t0 mode tap && ip link add vc type veth peer name vd
for i in t0 vc vd; do ip link set \$i arp off promisc on up; done
bottleneck() { # kernel|wharf
  if [ \$1 = kernel ]; then
    ip link add br0 type bridge && ip link set br0 arp off up && ip link set t0 master br0 && ip link set vc master br0
    tc qdisc add dev vc root handle 1: tbf rate 4mbit burst 4k limit 10m && tc qdisc add dev vc parent 1: handle 2: fq_codel
  else
    /tools/wharf forward packet:t0 packet:vc --rate 4mbit --qdisc fq_codel --json >/tmp/forward.json 2>/tmp/forward.err &
    forward=\$!
    while ! grep -q forwarding /tmp/forward.err; do sleep 0.1; done
  fi
}
for round in $(seq -s ' ' "$rounds"); do
  for by in kernel wharf; do
    /tools/wharf receive --from packet:vd --json >/tmp/got.json 2>/tmp/got.err &
    receiver=\$!
    while ! grep -q listening /tmp/got.err; do sleep 0.1; done
    # The TAP has a carrier only while the sender has it open: the bottleneck comes after.
    /tools/wharf send --to tap:t0 --size 1514 --senders 8 --rate 6mbit --priority-rate 50pps --seconds $seconds --json >/tmp/sent.json 2>/tmp/sent.err &
    sender=\$!
    sleep 1
    bottleneck \$by
    wait \$sender
    sleep 1
    kill -INT \$receiver
    wait \$receiver
    echo "=begin \$by"
    cat /tmp/got.json
    echo "=end \$by"
    cat /tmp/sent.err /tmp/got.err | sed 's/^/# /'
    if [ \$by = kernel ]; then
      tc -s qdisc show dev vc | sed 's/^/# /'
      tc qdisc del dev vc root; ip link del br0
    else
      kill -INT \$forward; wait \$forward
      sed 's/^/# /' /tmp/forward.err
    fi
  done
done
echo =over
poweroff -f
I
chmod +x "$root/init"
(cd "$root" && find . | cpio --quiet -o -H newc | gzip -1) >"$out/initrd.gz"
within 900 qemu-system-x86_64 -machine q35,accel=tcg -cpu max -m 768 -smp 2 -nodefaults -display none -no-reboot \
  -serial "file:$out/console" -kernel "$cache/vmlinuz" -initrd "$out/initrd.gz" \
  -append "console=ttyS0 quiet panic=-1 rounds=$rounds seconds=$seconds" 2>"$out/qemu.err" || die "the guest did not end"
grep -q '^=over' "$out/console" || { tail -20 "$out/console" && die "the guest did not get to its end"; }
grep '^#' "$out/console" >&2
python3 bench/fq_codel.py guest < <(tr -d '\r' <"$out/console")
