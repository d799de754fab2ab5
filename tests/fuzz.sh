#!/usr/bin/env bash
# Every fuzz target for a while: FUZZ_SECONDS each, 20 by default.
set -eu
cd "$(dirname "$0")/../fuzz"
rustup toolchain list | grep -q '^nightly' || { echo "the fuzz targets want a nightly toolchain"; exit 1; }
mkdir -p corpus/pcap
head -c 20000 ../data/sample.pcap >corpus/pcap/sample
log=$(mktemp)
trap 'rm -f "$log"' EXIT
for target in pcap words headers; do
  if ! cargo +nightly fuzz run --sanitizer none "$target" -- -max_total_time="${FUZZ_SECONDS:-20}" -max_len=20000 \
    -timeout=5 -rss_limit_mb=1024 -print_final_stats=1 >"$log" 2>&1; then
    tail -n 40 "$log"
    echo "fuzz target $target failed"
    exit 1
  fi
  echo "$target: $(grep -o 'executed_units: .*' "$log")"
done
