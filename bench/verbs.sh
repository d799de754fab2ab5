#!/usr/bin/env bash
# `verbs:` with posts of many frames beside posts of one each (`batch=off`), alternating, over soft-RoCE in the guest of tests/verbs.sh: packets
# per processor second of the sending process, and of the whole guest, which also receives. The guest has one processor whose clock counts
# instructions (`-icount`, 2 ns each), so the ratios are those of instructions, however busy this machine is.
# Usage: bench/verbs.sh [ROUNDS] [SECONDS]
set -u -o pipefail
cd "$(dirname "$0")/.." || exit 1
. tests/rig.sh
. tests/guest-rig.sh
. tests/nics/parts.sh
. tests/verbs/boot.sh
rounds=${1:-5} seconds=${2:-4}
machine="-smp 1 -accel tcg -icount shift=1,sleep=off"
patience=600
boot

# one KEYS SIZE LENGTH: one run, as a line: packets, seconds of the process, seconds of the guest, packets a doorbell, packets that arrived.
one() {
  guest "begin got 'listening on' r wharf receive --from verbs:rxe-r --frames 8192 --frame-bytes 4672 --json" || die "no receiver: $reply"
  guest "spent l wharf send --to verbs:rxe-l,peer=10.9.0.2$1 --size $2 $3 --json" || die "no sender: $reply"
  spent=$reply
  guest "sleep 0.3; finish got TERM"
  report sent && report got
  python3 - "$out" $spent <<'P' || die "a run went wrong"
import json, sys
sent, got = (json.load(open(f"{sys.argv[1]}/{name}.json")) for name in ("sent", "got"))
assert sent["drops"]["total"] == 0 and sent["pool"]["out"] == 0 and 0 < got["packets"] <= sent["sent"]
process, guest = (int(ticks) / 100 for ticks in sys.argv[2:4])
print(sent["sent"], process, guest, round(sent["packets_per_doorbell"], 1), got["packets"])
P
}

# measured KEYS SIZE: a run less one that ends at once, for to begin takes an emulated processor a tenth of a second.
measured() {
  local begin run
  begin=$(one "$1" "$2" "--count 16") || { echo "$begin"; return 1; }
  run=$(one "$1" "$2" "--seconds $seconds") || { echo "$run"; return 1; }
  python3 -c '
import sys
begin, run = ([float(one) for one in line.split()] for line in sys.argv[1:])
packets, process, guest = (after - before for before, after in zip(begin[:3], run[:3]))
print(int(packets), round(max(process, 0.01), 2), round(guest, 2), run[3], int(run[4] - begin[4]))' "$begin" "$run"
}

for size in 60 1500; do
  : >"$out/rows"
  for round in $(seq "$rounds"); do
    for keys in "" ",batch=off"; do
      line=$(measured "$keys" $size) || { echo "$line"; exit 1; }
      echo "${keys:-on} $line" >>"$out/rows"
    done
  done
  python3 bench/verbs.py "$size" <"$out/rows"
done
halt
