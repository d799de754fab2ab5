#!/usr/bin/env bash
# TCP by eight streams from one namespace to another through `wharf forward` with one queue at each end and with several, alternating:
# TAPs, and packet sockets on veth pairs of as many queues. The ends of the streams run on the same processors. Needs root, ip,
# iperf3, python3 and more processors than one.
# Usage: bench/queues.sh [ROUNDS] [SECONDS] [QUEUES]
set -u -o pipefail
cd "$(dirname "$0")/.." || exit 1
. tests/rig.sh
rounds=${1:-5} seconds=${2:-2} queues=${3:-4}

# host SPACE NAME PEER: makes one end of a pair of several queues whose other end is the forwarder's.
host() {
  ip -n "$1" link add "$2" numtxqueues "$queues" numrxqueues "$queues" type veth \
    peer name "$3" numtxqueues "$queues" numrxqueues "$queues" netns $b || die "no veth pair"
  ip -n "$1" link set "$2" up && ip -n $b link set "$3" up || die "interfaces stay down"
}

tap_host() { # SPACE NAME: moves the forwarder's TAP to its host
  ip -n $b link set "$2" netns "$1" && ip -n "$1" link set "$2" up || die "$2 stays"
}

carried() { # KIND QUEUES: Gbit/s
  [ "$1" = tap ] || { host $a ha fa && host $c hb fb; }
  start forward "forwarding" "$wharf" forward --json "$1:fa" "$1:fb" --queues "$2"
  local forwarder=$pid ends=(ha hb) gbits
  [ "$1" = tap ] && ends=(fa fb) && tap_host $a fa && tap_host $c fb
  ip -n $a addr add 10.9.0.1/24 dev "${ends[0]}"
  ip -n $c addr add 10.9.0.2/24 dev "${ends[1]}"
  ip netns exec $c iperf3 -s -1 >"$out/server.txt" &
  local server=$!
  until ip netns exec $c ss -ltn | grep -q ':5201'; do sleep 0.05; done
  gbits=$(ip netns exec $a timeout 60 iperf3 -c 10.9.0.2 -t "$seconds" -P 8 -J |
    python3 -c 'import json, sys; print(json.load(sys.stdin)["end"]["sum_received"]["bits_per_second"] / 1e9)') || die "$1: iperf3"
  wait $server
  stop forward $forwarder INT
  [ "$1" = tap ] || { ip -n $a link del ha && ip -n $c link del hb; }
  echo "$1 $2 $gbits"
}

space $a && space $b && space $c
for _ in $(seq "$rounds"); do
  for kind in tap packet; do
    carried $kind 1
    carried $kind "$queues"
  done
done | tee /dev/stderr | python3 -c '
import statistics, sys
several, figures = sys.argv[1], {}
for line in sys.stdin:
    kind, queues, gbits = line.split()
    figures.setdefault(kind, {}).setdefault(queues, []).append(float(gbits))
print(f"| | Gbit/s, 1 queue | {several} queues | ratio |\n|---|---|---|---|")
for kind, by in figures.items():
    ratio = statistics.median(many / one for one, many in zip(by["1"], by[several]))
    print(f"| {kind} | {statistics.median(by['"'1'"']):.2f} | {statistics.median(by[several]):.2f} | {ratio:.2f} |")
' "$queues"
