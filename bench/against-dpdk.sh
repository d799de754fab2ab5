#!/usr/bin/env bash
# Wharf's path beside DPDK joined as a user would join it (bench/peers/dpdk_pipe.c), alternating in one run; medians
# and ratios.  Needs dpdk-dev, gcc, root (huge pages), two idle cores.  Usage: bench/against-dpdk.sh [ROUNDS]
set -eu
cd "$(dirname "$0")/.."
rounds=${1:-5}
out=$(mktemp -d) || exit 1

. bench/huge_pages.sh
for every in 1 256; do
  # shellcheck disable=SC2046
  gcc -O3 -march=native -DCLOCK_EVERY=$every $(pkg-config --cflags libdpdk) bench/peers/dpdk_pipe.c \
    -o "$out/dpdk$every" $(pkg-config --libs libdpdk)
done
# Both DPDK and Wharf are built for this very processor.
RUSTFLAGS="-C target-cpu=native" cargo build --quiet --release -p wharf-bench --target-dir target/native

dpdk() { "$out/dpdk$1" -l 0-1 --no-pci --vdev=net_null0,copy=0 -m 512 --huge-unlink 2>/dev/null | grep Mpps >>"$out/dpdk$1.txt"; }
for round in $(seq "$rounds"); do
  echo "round $round of $rounds" >&2
  dpdk 1
  target/native/release/wharf-bench path --cores 1,2 --bursts 1,8,32,64 --seconds 1 --direct --json >"$out/wharf.$round.json"
  dpdk 256
done
python3 bench/table.py "$out"
