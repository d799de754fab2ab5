#!/usr/bin/env bash
# `e1000:` and `igb:` beside the kernel's driver of the same adapter under AF_PACKET, and under AF_XDP without copying where it has that, and
# batching on beside off, in a guest whose adapters QEMU emulates (tests/drivers.sh), alternating. Prints packets per processor second of
# the guest, in ratios: medians over the rounds, with the least and the most. No figure is one of hardware: a doorbell costs what the
# emulator takes for it. Frames go nowhere.
# Needs root, qemu-system-x86 and what tests/nics/fetch.sh fetches.
# Usage: bench/drivers.sh [ROUNDS] [SECONDS] [KIND...]
set -u -o pipefail
cd "$(dirname "$0")/.." || exit 1
. tests/rig.sh
. tests/guest-rig.sh
rounds=${1:-3} seconds=${2:-2}
shift $(($# < 2 ? $# : 2))
guest_image

# Each adapter on a hub of its own.
adapters() { # KIND
  for at in 0 1; do
    echo "-netdev hubport,id=n$at,hubid=$at -device pcie-root-port,id=p$at,chassis=$at,slot=$at -device $1,bus=p$at,netdev=n$at,romfile="
  done
}

# send SENDERS DEVICE BATCH OPTIONS...: sends in the guest, with its report and its processor time in $reply.
send_in_guest() {
  local senders=$1 device=$2 batch=$3
  shift 3
  # The kernel's driver sets its adapter up anew for AF_XDP, and again when that ends.
  guest "carrier eth1; run sent - time -p wharf send --to $device --size 60 --senders $senders --batch $batch $* --json; cat /tmp/sent.json; echo =time; cat /tmp/sent.err"
}

# figure: prints the packets sent, the processor seconds used, and the packets per doorbell, of $reply.
figure() {
  printf '%s' "$reply" | python3 -c '
import json, sys
text, times = sys.stdin.read().split("=time")
sent = json.loads(text)
used = sum(float(line.split()[1]) for line in times.splitlines() if line.startswith(("user", "sys")))
print(sent["sent"], used, sent["packets_per_doorbell"] or 0)' || die "no figure: ${reply:0:900}"
}

# measure LABEL SENDERS DEVICE BATCHING: adds a line to $out/figures: label, senders, and the figures of a run less those of one that ends at once,
# for to begin takes an emulated processor seconds.
measure() {
  local label=$1 begin run
  shift
  send_in_guest "$@" --count 16
  begin=$(figure) || { echo "$begin"; exit 1; }
  send_in_guest "$@" --seconds "$seconds"
  run=$(figure) || { echo "$run"; exit 1; }
  echo "$label $1 $begin $run" >>"$out/figures"
}

[ $# -gt 0 ] || set -- e1000 igb
for kind; do
  # shellcheck disable=SC2046
  start_guest "hugepages=64 no_timer_check intel_iommu=on vfio=on adapter=$kind" -machine q35,kernel-irqchip=split -device intel-iommu,intremap=on $(adapters "$kind")
  guest "basename \$(readlink -f /sys/class/net/eth0/device)" || die "no eth0"
  pci=${reply%%[[:space:]]*}
  guest "ip link set eth1 up && carrier eth1 && wharf admin bind $pci vfio" || die "$reply"
  for _ in $(seq "$rounds"); do
    for senders in 1 4 16; do
      measure "$kind,on" "$senders" "$kind:$pci" on
      measure "$kind,off" "$senders" "$kind:$pci" off
      measure "$kind,packet" "$senders" packet:eth1 on
      # The kernel's driver of the 82576 has AF_XDP without copying.
      [ "$kind" != igb ] || measure "$kind,xdp" "$senders" xdp:eth1,mode=zerocopy on --frame-bytes 2560
    done
  done
  halt
done
python3 - "$out/figures" <<'P'
import statistics, sys
figures = {}
for line in open(sys.argv[1]):
    label, senders, *numbers = line.split()
    least, begin, _, sent, used, per_doorbell = map(float, numbers)
    rate = (sent - least) / max(used - begin, 0.01)
    figures.setdefault((*label.split(","), int(senders)), []).append((rate, per_doorbell))
print(f"{'adapter':8} {'senders':>7} {'on / off':>20} {'on / AF_PACKET':>20} {'on / AF_XDP':>20} {'packets per doorbell, on and off':>34}")
for kind, senders in sorted({(kind, senders) for kind, _, senders in figures}):
    on, off, packet, xdp = (figures.get((kind, way, senders)) for way in ("on", "off", "packet", "xdp"))
    def ratio(others):
        all = sorted(a[0] / b[0] for a, b in zip(on, others))
        return f"{statistics.median(all):.2f} ({all[0]:.2f}-{all[-1]:.2f})"
    doorbells = [statistics.median(one[1] for one in which) for which in (on, off)]
    print(f"{kind:8} {senders:7} {ratio(off):>20} {ratio(packet):>20} {ratio(xdp) if xdp else '-':>20} {doorbells[0]:22.1f} {doorbells[1]:.1f}")
P
