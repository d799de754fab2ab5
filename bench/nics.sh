#!/usr/bin/env bash
# Sending on emulated adapters (tests/nics.sh): frames of 60 bytes per second of processor time, by xdp without copying, by xdp with copies, and
# by AF_PACKET, alternating; the byte limit beside the ring; and the delay through a forwarder with interrupts and with busy polling. All
# processor time of the guest counts, interrupts too. The adapters are emulated: they send as fast as they are told to, whatever their name
# says, so ratios of one run mean something, and rates nothing.
# Usage: bench/nics.sh [ADAPTER]...; ROUNDS=5; PARTS picks among the parts
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
  done | tee -a /dev/stderr | python3 -c '
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

# Two senders of full frames, which would fill the ring, and a sparse flow of the first band, with the byte limit off and on.
byte_limit() {
  local limit
  for _ in $(seq "${ROUNDS:-5}"); do
    for limit in off on; do
      guest "begin got 'listening on' l wharf receive --from packet:eth2 --json" || die "no receiver: $reply"
      guest "run sent - wharf -q send --to xdp:eth0 --size 1514 --senders 2 --small-queues off --qdisc prio --priority-rate 200pps --bql $limit \
        --seconds 3 $memory $(macs 0 2) --json; sleep 1; finish got TERM; true"
      report sent && report got
      python3 -c 'import json, sys
sent, got = (json.load(open(sys.argv[1] + name)) for name in ("/sent.json", "/got.json"))
first = next(one["latency_ns"] for one in got["latency_by_dscp"] if one["band"] == 0)
print(sys.argv[2], sent["mode"], sent["bql"]["limit_bytes"], first["p50"], first["p99"], sent["sent"], sep=";")' "$out" "$limit"
      # A reset of the adapter, as its queues change hands, finds no frame on its way.
      guest "sleep 1; carrier eth0"
    done
  done | tee -a /dev/stderr | python3 -c '
import statistics, sys
rows = {}
for line in sys.stdin:
    limit, mode, *figures = line.strip().split(";")
    rows.setdefault(limit, []).append([float(one or 0) for one in figures])
middle = lambda at: statistics.median(row[at] for row in rows["on"])
ratio = lambda at: statistics.median(on[at] / off[at] for off, on in zip(rows["off"], rows["on"]))
print("\n%s (%s): the byte limit settles at %d bytes; the ring of 2048 frames has %d. First band with the limit beside without: p50 %.2f, p99 %.2f"
  % (sys.argv[1], mode, middle(0), 2048 * 1514, ratio(1), ratio(2)))' "$adapter"
}

# Frames of namespace l go by eth0 and eth1 to namespace r, by a forwarder of the guest.
busy_polling() {
  local keys
  # Frames are addressed to the adapters at the far ends.
  guest "ip link set eth0 promisc on; ip link set eth1 promisc on; sleep 2; carrier eth0"
  for _ in $(seq "${ROUNDS:-5}"); do
    for keys in "" ,busy-poll=20; do
      guest "begin forward 'wharf: forwarding' - wharf forward xdp:eth0$keys xdp:eth1$keys $memory --poll busy --qdisc fifo --json; carrier eth0; carrier eth1" ||
        die "no forwarder: $reply"
      guest "begin got 'listening on' r wharf receive --from packet:eth3 --json" || die "no receiver: $reply"
      guest "run sent l wharf send --to packet:eth2 --size 100 --rate 500pps --seconds 2 $(macs 2 3) --json; sleep 1; finish got TERM; finish forward TERM; sleep 0.5" ||
        die "no traffic: $reply"
      report got
      python3 -c 'import json, sys
delays = json.load(open(sys.argv[1]))["latency_ns"]
print(sys.argv[2], delays["p50"], delays["p99"], sep=";")' "$out/got.json" "${keys:-interrupts}"
    done
  done | tee -a /dev/stderr | python3 -c '
import statistics, sys
delays = {}
for line in sys.stdin:
    keys, *figures = line.strip().split(";")
    delays.setdefault(keys, []).append([float(one) for one in figures])
plain, busy = delays["interrupts"], delays[",busy-poll=20"]
ratio = lambda at: statistics.median(other[at] / one[at] for one, other in zip(plain, busy))
print(f"\n{sys.argv[1]}: delay through xdp:eth0 and xdp:eth1, busy polling beside interrupts: p50 {ratio(0):.2f}, p99 {ratio(1):.2f}")' "$adapter"
}

export -f busy processor_time byte_limit busy_polling
[ $# -gt 0 ] || set -- igb virtio_net
PARTS="${PARTS:-busy_polling processor_time byte_limit}" tests/nics.sh "$@"
