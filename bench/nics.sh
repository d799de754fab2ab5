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

# deaf: what nothing receives costs nothing behind the wire. QEMU's virtio-net ends if it is reset while a frame waits for the wire, so its wire stays.
deaf() { [[ $adapter = virtio* ]] || guest "ip -n l link set eth2 down"; }

processor_time() {
  local spec before
  deaf
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

# A capture of full frames, which fill the ring, and of a sparse flow of the first band, with the byte limit off and on. What waits behind
# the adapter, in QEMU's queues, is no delay of the ring's: the delays are those in the discipline and in the ring.
byte_limit() {
  local limit
  guest "wharf -q send --to pcap:/tmp/in.pcap --size 1514 --senders 2 --qdisc prio --priority-rate 100pps --rate 8kpps --count 20000 $(macs 0 2)" ||
    die "no capture: $reply"
  deaf
  for _ in $(seq "${ROUNDS:-5}"); do
    for limit in off on; do
      guest "run forward - wharf forward pcap:/tmp/in.pcap xdp:eth0 --qdisc prio --bql $limit $memory --json; carrier eth0; sleep 0.5"
      report forward
      python3 -c 'import json, sys
one = json.load(open(sys.argv[1]))["directions"][0]
first = lambda delays: next((band["delay_ns"]["p99"] for band in one[delays] if band["band"] == 0), 0)
assert one["packets"] == one["sent"], one["drops"]
print(sys.argv[2], one["bql"]["limit_bytes"], first("queue_delay_by_band") + first("ring_delay_by_band"), sep=";")' "$out/forward.json" "$limit"
    done
  done | tee -a /dev/stderr | python3 -c '
import statistics, sys
rows = {}
for line in sys.stdin:
    limit, *figures = line.strip().split(";")
    rows.setdefault(limit, []).append([float(one) for one in figures])
settled = statistics.median(row[0] for row in rows["on"])
ratio = statistics.median(on[1] / off[1] for off, on in zip(rows["off"], rows["on"]))
print("\n%s: the byte limit settles at %d bytes; the ring of 2048 frames has %d. First band, p99 in discipline and ring, with the limit beside without: %.2f"
  % (sys.argv[1], settled, 2048 * 1514, ratio))' "$adapter"
  guest "ip -n l link set eth2 up; carrier eth0"
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

export -f busy deaf processor_time byte_limit busy_polling
[ $# -gt 0 ] || set -- igb virtio_net
PARTS="${PARTS:-busy_polling processor_time byte_limit}" tests/nics.sh "$@"
