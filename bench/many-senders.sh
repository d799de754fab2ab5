#!/usr/bin/env bash
# Many senders into one null device on two cores: Wharf with the senders as owners and with an owner of its own, beside
# DPDK's ring in its three modes (default, RTS, HTS), alternating in one run; medians and ratios to the best of DPDK's.
# DPDK's senders float over both cores, and, in another run, keep to the one that its consumer does not use.
# Needs dpdk-dev, gcc, root (huge pages), two idle cores.  Usage: bench/many-senders.sh [ROUNDS [SENDERS...]]
set -eu
cd "$(dirname "$0")/.."
rounds=${1:-3}
shift || true
counts=${*:-2 4 16 64}
out=$(mktemp -d) || exit 1

. bench/huge_pages.sh
modes="default:0 rts:RING_F_MP_RTS_ENQ hts:RING_F_MP_HTS_ENQ"
for mode in $modes; do
  # shellcheck disable=SC2046
  gcc -O3 -march=native -DRING_MODE=${mode#*:} -DMANY=1 $(pkg-config --cflags libdpdk) bench/peers/dpdk_pipe.c \
    -o "$out/dpdk_${mode%:*}" $(pkg-config --libs libdpdk)
done
RUSTFLAGS="-C target-cpu=native" cargo build --quiet --release -p wharf-bench --target-dir target/native

wharf() { # OWNER SENDERS
  target/native/release/wharf-bench path --cores 2 --owner "$1" --senders "$2" --bursts 1,32 --seconds 1 --json \
    | python3 -c "
import json, sys
for row in json.load(sys.stdin)['rows']:
    print('wharf', '$1', row['senders'], row['burst'], row['mpps'])" >>"$out/rows"
}
dpdk() { # MODE SENDERS CORES
  # A producer that loses its core in the middle can stop the default ring for long. Such a run counts as it is.
  timeout 60 "$out/dpdk_$1" --lcores "0@0,(1-$2)@$3" --no-pci --vdev=net_null0,copy=0 -m 512 --huge-unlink 2>/dev/null \
    | sed -n "s/.*burst=\([0-9]*\) \([0-9.]*\) Mpps/dpdk $1@$3 $2 \1 \2/p" >>"$out/rows" || true
}
for round in $(seq "$rounds"); do
  for count in $counts; do
    echo "round $round of $rounds, $count senders" >&2
    wharf inline "$count"
    for mode in $modes; do dpdk "${mode%:*}" "$count" "(0,1)"; done
    wharf dedicated "$count"
    for mode in $modes; do dpdk "${mode%:*}" "$count" "1"; done
  done
done
python3 bench/many_senders.py <"$out/rows"
