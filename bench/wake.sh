#!/usr/bin/env bash
# The cost of waiting: a wake-up beside a bare futex's, and one active sender beside thousands of idle ones (timed, and counted
# in instructions if valgrind is there). Needs an idle machine.
set -eu
cd "$(dirname "$0")/.."
CARGO_PROFILE_RELEASE_STRIP=none CARGO_PROFILE_RELEASE_DEBUG=line-tables-only cargo build --release --quiet -p wharf --example wakes
wakes=${CARGO_TARGET_DIR:-target}/release/examples/wakes
"$wakes"
command -v valgrind >/dev/null || exit 0
counts=$(mktemp) || exit 1
trap 'rm -f "$counts"' EXIT
# instructions IDLE PACKETS BURST: prints those of the whole program.
instructions() {
  valgrind --tool=callgrind --callgrind-out-file="$counts" "$wakes" idle "$1" "$2" "$3" 2>/dev/null
  awk '/^(summary|totals):/ { print $2; exit }' "$counts"
}
printf '\none active sender, instructions a packet\n'
for burst in 1 32; do
  for idle in 0 4000; do
    # Start and end drop out.
    few=$(instructions $idle 64000 $burst) many=$(instructions $idle 192000 $burst)
    awk -v n=$((many - few)) -v i=$idle -v b=$burst 'BEGIN { printf "burst %-2d beside %4d idle %8.1f\n", b, i, n / 128000 }'
  done
done
