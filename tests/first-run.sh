#!/usr/bin/env bash
# Runs the README's first commands as a newcomer does, and checks their figures.
set -eu
cd "$(dirname "$0")/.."
wharf=${CARGO_TARGET_DIR:-target}/quick/wharf
out=$(mktemp -d) || exit 1
trap 'rm -rf "$out"' EXIT
cargo run --quiet --profile quick -- demo
"$wharf" demo --json >"$out/demo.json"
python3 - "$out/demo.json" <<'P'
import json, sys
demo = json.load(open(sys.argv[1]))
delay, batching = demo["priority_delay"], demo["batching"]
assert delay["off"]["p50_ns"] > 3 * delay["on"]["p50_ns"] > 0 and delay["on"]["limit_bytes"] > 0, demo
assert batching["on"]["packets_per_doorbell"] > 8 * batching["off"]["packets_per_doorbell"] > 0, demo
# On an idle machine 97; the senders sleep longer beside other work.
assert min(delay["off"]["mbps"], delay["on"]["mbps"]) > 60, demo
P
cargo run --quiet --profile quick -- send --pcap data/sample.pcap
cargo run --quiet --profile quick -- send --pcap data/sample.pcap --json >"$out/run.json"
python3 - "$out/run.json" <<'P'
import json, sys
run = json.load(open(sys.argv[1]))
keys = "device seconds packets bytes mpps gbps batches doorbells packets_per_doorbell requeues drops bql latency_ns senders pool compare"
missing = [key for key in keys.split() if key not in run]
assert not missing, f"missing in the JSON: {missing}"
assert run["drops"]["total"] == 0 and run["pool"]["out"] == 0, run
assert run["packets"] > 0 and run["bql"]["enabled"] and run["bql"]["limit_bytes"] > 0, run
assert sum(sender["packets"] for sender in run["senders"]) == run["packets"], run
assert {"mpps", "packets_per_doorbell"} <= set(run["compare"]["batching_off"]), run
P
# 4096 frames of 2 KiB: at most 32 MiB resident, packets, capture and the 18 MiB of an unoptimised program included.
"$wharf" send --pcap data/sample.pcap --frames 4096 --frame-bytes 2048 --seconds 1 --json >"$out/rss.json" &
pid=$!
peak=0
while kill -0 $pid 2>/dev/null; do
  kib=$(awk '/^VmHWM/{print $2}' /proc/$pid/status 2>/dev/null || true)
  [ -n "$kib" ] && [ "$kib" -gt "$peak" ] && peak=$kib
  sleep 0.05
done
wait $pid
echo "peak resident: $peak KiB"
[ "$peak" -gt 0 ] && [ "$peak" -le $((32 * 1024)) ]
# The guide's pictures are those that the lab draws. WHARF_BLESS=1 replaces them.
cargo build --quiet --profile quick -p wharf-lab-cli
"$wharf" lab run bql --report "$out/lab" >/dev/null
for pair in 1:delay 2:limit; do
  drawn=$out/lab/bql-model-${pair%:*}.svg kept=docs/guide/lab-bql-${pair#*:}.svg
  [ "${WHARF_BLESS:-}" = 1 ] && cp "$drawn" "$kept"
  cmp "$drawn" "$kept" || { echo "the lab draws $kept otherwise: WHARF_BLESS=1 tests/first-run.sh"; exit 1; }
done
