#!/usr/bin/env bash
# Sending on emulated adapters (tests/nics.sh): frames of 60 bytes per second of processor time, by xdp without copying, by xdp with copies, and
# by AF_PACKET, alternating; and the byte limit beside the ring. All processor time of the guest counts, interrupts too. The adapters are
# emulated: they send as fast as they are told to, whatever their name says, so ratios of one run mean something, and rates nothing.
# Usage: bench/nics.sh [ADAPTER]...; ROUNDS=5
set -u -o pipefail
cd "$(dirname "$0")/.." || exit 1

# busy: prints the hundredths of seconds that the guest's processors have worked.
busy() { guest "awk '/^cpu /{print \$2 + \$3 + \$4 + \$7 + \$8}' /proc/stat" && echo "${reply%%[[:space:]]*}"; }

processor_time() {
  local spec before
  # What nothing receives costs nothing behind the wire.
  guest "ip -n l link set eth2 down"
  for _ in $(seq "${ROUNDS:-5}"); do
    for spec in xdp:eth0 xdp:eth0,mode=copy packet:eth0 packet:eth0,bypass=on; do
      before=$(busy)
      guest "run sent - wharf -q send --to $spec --size 60 --seconds 2 $memory $(macs 0 2) --json" || die "$spec: $reply"
      before="$before $(busy)"
      report sent
      guest "carrier eth0; sleep 0.5"
      python3 -c 'import json, sys
sent, spec, before, after = json.load(open(sys.argv[1])), *sys.argv[2:]
print(spec, sent["mode"] or "-", sent["sent"] / (int(after) - int(before)) * 100, sep=";")' "$out/sent.json" "$spec" $before
    done
  done | tee /dev/stderr | python3 -c '
import statistics, sys
rates, modes = {}, {}
for line in sys.stdin:
    spec, modes[spec], rate = line.strip().split(";")
    rates.setdefault(spec, []).append(float(rate))
base = rates["packet:eth0"]
print(f"\n{sys.argv[1]}: frames of 60 bytes per second of processor time, beside packet:eth0\n\n| device | mode | ratio |\n|---|---|---|")
for spec in rates:
    print(f"| {spec} | {modes[spec]} | {statistics.median(one / other for one, other in zip(rates[spec], base)):.2f} |")' "$adapter"
  guest "ip -n l link set eth2 up; carrier eth0"
}

byte_limit() {
  guest "run sent - wharf -q send --to xdp:eth0 --size 1514 --seconds 3 $memory $(macs 0 2) --json" || die "no sender: $reply"
  report sent
  python3 -c 'import json, sys
sent = json.load(open(sys.argv[1]))
print("\n%s (%s): the byte limit settles at %d bytes; the ring of 2048 frames has %d" % (sys.argv[2], sent["mode"], sent["bql"]["limit_bytes"], 2048 * 1514))' "$out/sent.json" "$adapter"
}

export -f busy processor_time byte_limit
[ $# -gt 0 ] || set -- igb virtio_net
PARTS="processor_time byte_limit" tests/nics.sh "$@"
