#!/usr/bin/env bash
# The cost of super-packets in instructions, counted by callgrind: a packet of 64 bytes on a path without any, with and without
# the segmenter; and a segment of 1514 bytes. Needs valgrind.
set -eu
cd "$(dirname "$0")/.."
CARGO_PROFILE_RELEASE_STRIP=none CARGO_PROFILE_RELEASE_DEBUG=line-tables-only cargo build --release --quiet -p wharf --example gso
gso=${CARGO_TARGET_DIR:-target}/release/examples/gso
counts=$(mktemp) || exit 1
trap 'rm -f "$counts"' EXIT
# instructions WHAT PACKETS BURST: prints those of the whole program.
instructions() {
  valgrind --tool=callgrind --callgrind-out-file="$counts" "$gso" "$@" >/dev/null 2>&1
  awk '/^(summary|totals):/ { print $2; exit }' "$counts"
}
# each WHAT FEW MANY BURST PER: prints instructions per packet or segment; start and end drop out.
each() {
  few=$(instructions "$1" "$2" "$4") many=$(instructions "$1" "$3" "$4")
  awk -v n=$((many - few)) -v c=$((($3 - $2) * $5)) 'BEGIN { printf "%.2f", n / c }'
}
printf '%-22s %10s %10s\n' "a packet, bursts of" "no wrapper" "wrapper"
for burst in 1 8 32 64; do
  printf '%-22s %10s %10s\n' $burst "$(each path 64000 192000 $burst 1)" "$(each beside 64000 192000 $burst 1)"
done
printf '%-22s %10s\n' "a segment, cut" "$(each cut 100 300 1 45)"
