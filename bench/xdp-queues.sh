#!/usr/bin/env bash
# 64-byte frames (60 and the check sequence) of 1000 flows over a veth pair by AF_XDP, copy mode: from as many queues as there are to
# one receiving device, beside one queue each, alternating. What the receiver drops counts as not received. Needs root, ip, python3
# and more processors than one.
# Usage: bench/xdp-queues.sh [ROUNDS] [SECONDS] [QUEUES]
set -u -o pipefail
cd "$(dirname "$0")/.." || exit 1
. tests/rig.sh
rounds=${1:-5} seconds=${2:-2} queues=${3:-4}

received() { # QUEUES: million packets a second, and the part that was dropped
  local several="numtxqueues $1 numrxqueues $1"
  # shellcheck disable=SC2086
  ip -n $a link add va $several type veth peer name vb $several netns $b || die "no veth pair"
  ip -n $a link set va arp off up && ip -n $b link set vb arp off up || die "interfaces stay down"
  to=xdp:va
  receive got xdp:vb --frames 16384
  send sent --flows 1000 --senders 4 --queues "$1" --size 60 --seconds "$seconds"
  [ $code -eq 0 ] || die "$1 queues: exit code $code"
  stop got "$pid" INT
  ip -n $a link del va
  python3 -c '
import json, sys
got, sent = (json.load(open(f"{sys.argv[1]}/{name}.json")) for name in ("got", "sent"))
print(sys.argv[2], got["packets"] / sent["seconds"] / 1e6, 1 - got["packets"] / sent["packets"])' "$out" "$1"
}

space $a && space $b
for _ in $(seq "$rounds"); do
  received 1
  received "$queues"
done | tee /dev/stderr | python3 -c '
import statistics, sys
several, rates, dropped = sys.argv[1], {}, {}
for line in sys.stdin:
    queues, rate, part = line.split()
    rates.setdefault(queues, []).append(float(rate))
    dropped.setdefault(queues, []).append(float(part))
print("| queues | received, Mpps | dropped |\n|---|---|---|")
for queues in rates:
    print(f"| {queues} | {statistics.median(rates[queues]):.3f} | {statistics.median(dropped[queues]):.1%} |")
ratio = statistics.median(many / one for one, many in zip(rates["1"], rates[several]))
print(f"{several} queues beside 1: {ratio:.2f} times")
' "$queues"
