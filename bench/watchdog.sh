#!/usr/bin/env bash
# The cost of watching a device: instructions per packet, counted by callgrind, of a queue and of a path, which watches its device and
# keeps events.  The target is 1 % at most.  Needs valgrind.  Usage: bench/watchdog.sh [ROUNDS]: the median of so many.
set -eu
cd "$(dirname "$0")/.."
rounds=${1:-3}
cargo build --quiet --release -p wharf --example watched
program=${CARGO_TARGET_DIR:-target}/release/examples/watched

# Instructions per packet: the difference of two runs, so that start and end do not count.
count() {
  local few many round
  for round in $(seq "$rounds"); do
    few=$(valgrind --tool=callgrind --callgrind-out-file=/dev/null "$program" 640000 "$1" "$2" 2>&1 | awk '/refs/{gsub(",", "", $NF); print $NF}')
    many=$(valgrind --tool=callgrind --callgrind-out-file=/dev/null "$program" 1920000 "$1" "$2" 2>&1 | awk '/refs/{gsub(",", "", $NF); print $NF}')
    awk -v few="$few" -v many="$many" 'BEGIN { printf "%.1f\n", (many - few) / 1280000 }'
  done | sort -n | sed -n "$(((rounds + 1) / 2))p"
}
printf '| burst | queue | path | ratio |\n|---|---|---|---|\n'
for burst in 1 32; do
  queue=$(count $burst queue) path=$(count $burst path)
  printf '| %s | %s | %s | %s |\n' $burst "$queue" "$path" "$(awk -v a="$path" -v b="$queue" 'BEGIN { printf "%.4f", a / b }')"
done
