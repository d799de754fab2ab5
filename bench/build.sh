#!/usr/bin/env bash
# The first build of the `wharf` command from an empty target folder: seconds, processor seconds, crates, and the size of the
# binary, stripped. The profiles are `quick` (the README's first command), `tested` and `release`, unless others are named.
# A busy machine makes the seconds longer, and the processor seconds less so: the load is shown.  Usage: bench/build.sh [PROFILE...]
set -eu
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- quick tested release
out=$(mktemp -d) || exit 1
trap 'rm -rf "$out"' EXIT
export CARGO_TARGET_DIR=$out/target
cargo fetch --quiet --locked
crates=$(cargo tree --offline --locked -p wharf-cli --edges normal,build --prefix none | sed 's/ (\*)$//' | sort -u | wc -l)
echo "$crates crates, $(nproc) processors, $(rustc --version)"
printf '%-8s %8s %10s %10s %14s\n' profile seconds processor 'load' 'bytes stripped'
for profile in "$@"; do
  rm -rf "$CARGO_TARGET_DIR"
  TIMEFORMAT="%R %U"
  read -r seconds processor < <({ time cargo build --quiet --offline --locked --profile "$profile" -p wharf-cli >&2; } 2>&1 | tail -1)
  strip -o "$out/wharf" "$CARGO_TARGET_DIR/$profile/wharf"
  printf '%-8s %8s %10s %10s %14s\n' "$profile" "$seconds" "$processor" "$(cut -d' ' -f1 /proc/loadavg)" "$(stat -c %s "$out/wharf")"
done
