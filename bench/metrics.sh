#!/usr/bin/env bash
# The cost of `--metrics` while no client asks: instructions per packet of `wharf send`, counted by callgrind, with and without.
# Needs valgrind.  Usage: bench/metrics.sh [ROUNDS]: the median of so many.
set -eu
cd "$(dirname "$0")/.."
rounds=${1:-3}
cargo build --quiet --release -p wharf-cli
program=${CARGO_TARGET_DIR:-target}/release/wharf
out=$(mktemp -d)
trap 'rm -r "$out"' EXIT

# instructions PACKETS OPTIONS...: of a whole run.
instructions() {
  local packets=$1
  shift
  valgrind --tool=callgrind --callgrind-out-file=/dev/null "$program" send --to null --size 60 --count "$packets" --json "$@" \
    2>&1 >"$out/report" | awk '/refs/ { gsub(",", "", $NF); print $NF }'
}

# per_packet OPTIONS...: the difference of two runs, so that start and end do not count.
per_packet() {
  local few many round
  for round in $(seq "$rounds"); do
    few=$(instructions 1000000 "$@") many=$(instructions 3000000 "$@")
    awk -v few="$few" -v many="$many" 'BEGIN { printf "%.2f\n", (many - few) / 2000000 }'
  done | sort -n | sed -n "$(((rounds + 1) / 2))p"
}
printf '| burst | without | with `--metrics` | ratio |\n|---|---|---|---|\n'
for burst in 1 32; do
  without=$(per_packet --burst "$burst") with=$(per_packet --burst "$burst" --metrics "$out/socket")
  printf '| %s | %s | %s | %s |\n' "$burst" "$without" "$with" "$(awk -v a="$with" -v b="$without" 'BEGIN { printf "%.4f", a / b }')"
done
