#!/usr/bin/env bash
# `--qdisc fq_codel` beside the kernel's own, in a guest whose kernel has it (Debian's cloud kernel under QEMU without hardware
# acceleration): eight bulk flows of 1.5 times the rate and a sparse one enter a bottleneck of 4 Mbit/s by a TAP. It is a bridge
# with tbf and fq_codel, or `wharf forward --rate 4mbit --qdisc fq_codel` from `xdp:` or from `packet:` with `tpacket=v2`,
# alternating. Prints medians, and the ratios by round. Needs root, qemu-system-x86, busybox-static, cpio, iproute2.
#
# The guest's clock counts instructions (`-icount`, 2 ns each) and skips idle time, so that delays are those of one processor of
# 500 million instructions a second, however slow the emulator and however busy the host.
# Usage: bench/fq-codel-guest.sh [ROUNDS] [SECONDS]
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
ready() { # FILE TEXT PID: waits until the process has written it
  until grep -q "\$2" \$1; do
    kill -0 \$3 2>/dev/null || { cat \$1; echo "=failed"; poweroff -f; }
    sleep 0.1
  done
}
bottleneck() { # kernel|xdp|packet
  if [ \$1 = kernel ]; then
    ip link add br0 type bridge && ip link set br0 arp off up && ip link set t0 master br0 && ip link set vc master br0
    tc qdisc add dev vc root handle 1: tbf rate 4mbit burst 4k limit 10m && tc qdisc add dev vc parent 1: handle 2: fq_codel
  else
    case \$1 in packet) from=packet:t0,tpacket=v2 ;; *) from=\$1:t0 ;; esac
    /tools/wharf forward \$from packet:vc --rate 4mbit --burst 4k --qdisc fq_codel:limit=10240 >/dev/null 2>/tmp/forward.err &
    forward=\$!
    ready /tmp/forward.err forwarding \$forward
  fi
}
echo "=kernel \$(uname -r) \$(uname -v)"
for round in $(seq -s ' ' "$rounds"); do
  for by in kernel xdp packet; do
    # The TAP has a carrier only while the sender has it open: the bottleneck comes after.
    : >/tmp/sent.err >/tmp/forward.err
    /tools/wharf send --to tap:t0 --size 1514 --senders 8 --rate 6mbit --priority-rate 31pps --seconds $((seconds + 60)) --json >/dev/null 2>/tmp/sent.err &
    sender=\$!
    sleep 1
    bottleneck \$by
    # What has waited for the bottleneck to begin is gone by then.
    sleep 2
    /tools/wharf receive --from packet:vd --seconds $seconds --json >/tmp/got.json 2>/tmp/got.err
    echo "=begin \$by"
    cat /tmp/got.json
    echo "=end \$by"
    kill -INT \$sender
    wait \$sender
    if [ \$by = kernel ]; then
      tc qdisc del dev vc root; ip link del br0
    else
      kill -INT \$forward; wait \$forward
    fi
    cat /tmp/sent.err /tmp/got.err /tmp/forward.err | sed 's/^/# /'
  done
done
echo =over
poweroff -f
I
chmod +x "$root/init"
(cd "$root" && find . | cpio --quiet -o -H newc | gzip -1) >"$out/initrd.gz"
within 900 qemu-system-x86_64 -machine q35,accel=tcg -cpu max -m 768 -smp 1 -icount shift=1,sleep=off -nodefaults -display none -no-reboot \
  -serial "file:$out/console" -kernel "$cache/vmlinuz" -initrd "$out/initrd.gz" \
  -append "console=ttyS0 quiet panic=-1" 2>"$out/qemu.err" || die "the guest did not end"
grep -q '^=over' "$out/console" || { tail -20 "$out/console" && die "the guest did not get to its end"; }
grep '^#' "$out/console" >&2
python3 bench/fq_codel.py guest < <(tr -d '\r' <"$out/console")
