#!/usr/bin/env bash
# The cost of the batching switch when it is off: instructions per packet, counted by callgrind, of the path with the
# switch set to `off` and of a path compiled without the switch.  Needs valgrind.
set -eu
cd "$(dirname "$0")/.."
cargo build --quiet --release -p wharf --example one_core --target-dir target/switched
cargo build --quiet --release -p wharf --example one_core --target-dir target/unswitched --features unswitched-off

# Instructions per packet: the difference of two runs, so that start and end do not count.
count() {
  local few many
  few=$(valgrind --tool=callgrind --callgrind-out-file=/dev/null "$1" 320000 "$2" "$3" 2>&1 | awk '/refs/{gsub(",", "", $NF); print $NF}')
  many=$(valgrind --tool=callgrind --callgrind-out-file=/dev/null "$1" 640000 "$2" "$3" 2>&1 | awk '/refs/{gsub(",", "", $NF); print $NF}')
  awk -v few="$few" -v many="$many" 'BEGIN { printf "%.1f", (many - few) / 320000 }'
}
printf '| burst | switch off | no switch | ratio | batching on |\n|---|---|---|---|---|\n'
for burst in 1 8 32 64; do
  with=$(count target/switched/release/examples/one_core $burst off)
  without=$(count target/unswitched/release/examples/one_core $burst off)
  on=$(count target/switched/release/examples/one_core $burst on)
  printf '| %s | %s | %s | %s | %s |\n' $burst "$with" "$without" "$(awk -v a="$with" -v b="$without" 'BEGIN { printf "%.3f", a / b }')" "$on"
done
