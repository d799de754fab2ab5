#!/usr/bin/env bash
# Latency of `xdp:` on a veth pair with interrupts and with busy polling, alternating in one run: one way, and there and back by
# `wharf forward`. Medians of the rounds' percentiles. Needs root, ip, python3, 2 processors. Usage: bench/busy-poll.sh [ROUNDS] [SECONDS]
set -eu
cd "$(dirname "$0")/.."
. tests/rig.sh
rounds=${1:-7} seconds=${2:-2}
space $a && space $b
pair $a va $b vb && pair $b wb $a wa
for ways in one-way round-trip; do
  for round in $(seq "$rounds"); do
    for keys in "" ,busy-poll=20; do
      if [ $ways = one-way ]; then
        start "$ways$keys-$round" "listening on" "$wharf" receive --from "xdp:vb$keys" --poll busy --json
      else
        start back forwarding "$wharf" forward "xdp:vb$keys" "xdp:wb$keys" --poll busy --qdisc fifo --json
        there=("${here[@]}")
        start "$ways$keys-$round" "listening on" "$wharf" receive --from packet:wa --json
        there=(ip netns exec $b)
      fi
      receiver=$pid
      in_a "$wharf" send --to packet:va,bypass=on --size 100 --rate 5kpps --seconds "$seconds" -q >/dev/null 2>"$out/send.err"
      stop receiver $receiver INT
      [ $ways = one-way ] || stop back "$(pgrep -f "forward xdp:vb" | head -n 1)" INT
    done
  done
done
python3 - "$out" "$rounds" <<'P'
import json, statistics, sys
out, rounds = sys.argv[1], int(sys.argv[2])
print("| | interrupts p50 / p99 (us) | busy polling p50 / p99 (us) | ratio p50 | ratio p99 |\n|---|---|---|---|---|")
for way in ("one-way", "round-trip"):
    read = lambda keys, which: [json.load(open(f"{out}/{way}{keys}-{n}.json"))["latency_ns"][which] / 1000 for n in range(1, rounds + 1)]
    figures = {which: [read(keys, which) for keys in ("", ",busy-poll=20")] for which in ("p50", "p99")}
    median = lambda at: " / ".join(f"{statistics.median(figures[which][at]):.1f}" for which in figures)
    ratio = lambda which: statistics.median(busy / plain for plain, busy in zip(*figures[which]))
    print(f"| {way} | {median(0)} | {median(1)} | {ratio('p50'):.2f} | {ratio('p99'):.2f} |")
P
