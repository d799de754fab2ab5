#!/usr/bin/env bash
# A packet alone, in instructions by stage: a lane's burst of one beside DPDK's parts (bench/peers/dpdk_pipe.c), counted by
# callgrind.  Needs valgrind, binutils, dpdk-dev, gcc.
set -eu
cd "$(dirname "$0")/.."
packets=64000
out=$(mktemp -d) || exit 1
trap 'rm -r "$out"' EXIT

# Stages are told by symbols, which a release has not.
CARGO_PROFILE_RELEASE_STRIP=none CARGO_PROFILE_RELEASE_DEBUG=line-tables-only cargo build --quiet --release -p wharf --example one_core
cp "${CARGO_TARGET_DIR:-target}/release/examples/one_core" "$out/wharf"
# The instruction set is one that valgrind knows.
# shellcheck disable=SC2046
gcc -O3 -g $(pkg-config --cflags libdpdk) -march=x86-64-v2 bench/peers/dpdk_pipe.c -o "$out/dpdk" $(pkg-config --libs libdpdk)

# Runs a program under callgrind: count PROFILE PROGRAM ARGUMENTS...
count() {
  local profile=$1
  shift
  valgrind --tool=callgrind --dump-instr=yes --compress-strings=no --compress-pos=no \
    --callgrind-out-file="$profile" "$@" >"$out/log" 2>&1 || { cat "$out/log" >&2; return 1; }
}
for run in "few $packets" "many $((2 * packets))"; do
  read -r name n <<<"$run"
  count "$out/wharf.$name" "$out/wharf" "$n" 1 on
  count "$out/dpdk.$name" "$out/dpdk" -l 0 --no-huge --no-pci --vdev=net_null0,copy=0 -m 512 -- 1 "$n"
done
python3 bench/instructions.py "$out" "$packets"
