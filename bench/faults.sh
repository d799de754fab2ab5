#!/usr/bin/env bash
# The path's rate under injected faults: `wharf send` over null and over a wire, without faults and with each, alternating
# in one run; the median of the rounds, and its ratio to the rate without.  The first row with faults is the cost of the
# wrapper itself, with a fault that hardly ever happens.  Usage: bench/faults.sh [ROUNDS]
set -eu
cd "$(dirname "$0")/.."
rounds=${1:-5}
cargo build --quiet --release -p wharf-cli
faults=("" error=1/1000000000 alloc=1% error=1% short=10% lost=1% late=1% reorder=5% stall=0.1%)

mpps() { # DEVICE FAULTS: prints millions of packets sent a second, by the summary
  target=${CARGO_TARGET_DIR:-target}/release/wharf
  # shellcheck disable=SC2086
  "$target" send --size 60 --seconds 0.5 --batch on --to "$1" ${2:+--fault seed=7,$2} --json | awk -F'[:,]' '/"mpps"/{print $2; exit}'
}
median() { sort -n | awk '{ all[NR] = $1 } END { print all[int((NR + 1) / 2)] }'; }

printf '| device | faults | Mpps | ratio |\n|---|---|---|---|\n'
for device in null wire; do
  out=$(mktemp -d) || exit 1
  for _ in $(seq "$rounds"); do
    for at in "${!faults[@]}"; do mpps "$device" "${faults[$at]}" >>"$out/$at"; done
  done
  for at in "${!faults[@]}"; do
    printf '| %s | %s | %.2f | %.2f |\n' "$device" "${faults[$at]:-none}" "$(median <"$out/$at")" \
      "$(echo "$(median <"$out/$at") $(median <"$out/0")" | awk '{ print $1 / $2 }')"
  done
  rm -r "$out"
done
