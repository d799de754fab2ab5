#!/usr/bin/env bash
# fq_codel at work on real devices: eight bulk flows and a sparse one over a veth pair whose far end goes through an ifb with
# `tbf rate 100mbit`; `fifo` and `fq_codel` alternating, the byte limit learnt. Prints medians: the sparse flow's delay,
# throughput, Jain's index of the bulk flows. Needs root, ip, tc, ifb, tbf, macvlan, python3.
# Usage: bench/fq-codel.sh [ROUNDS] [SECONDS]
set -eu
cd "$(dirname "$0")/.."
. tests/rig.sh
space $a && space $b
pair $a va $b vb
slow_wire $b vb 100mbit || die "no slow wire: $missing"
for round in $(seq "${1:-3}"); do
  echo "round $round of ${1:-3}" >&2
  for kind in packet xdp; do
    for qdisc in fifo fq_codel; do
      receive got packet:behind
      receiver=$pid
      to=$kind:va
      send sent --size 1514 --senders 8 --qdisc $qdisc --priority-rate 1kpps --seconds "${2:-5}"
      sleep 0.2
      stop receiver $receiver INT || [ $code -eq 1 ] # packets that CoDel dropped are lost on the way
      python3 bench/fq_codel.py $kind $qdisc "$out/sent.json" "$out/got.json" >>"$out/rows"
    done
  done
done
python3 bench/fq_codel.py table <"$out/rows"
