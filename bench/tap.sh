#!/usr/bin/env bash
# TCP (iperf3) between two network namespaces through two TAPs: the least loop that the kernel allows
# (bench/peers/tap_loop.c), `wharf forward`, DPDK's testpmd over net_tap, and a bridge of the kernel's over veth pairs, alternating
# in one run. A TAP of testpmd cannot be moved to a namespace: a bridge is between it and there. Needs root, gcc, ip, iperf3,
# dpdk-testpmd (22.11), python3, 2 processors.
# Usage: bench/tap.sh [ROUNDS] [SECONDS] [FRAME BYTES OF WHARF'S POOL...]
set -eu
cd "$(dirname "$0")/.."
. tests/rig.sh
rounds=${1:-5} seconds=${2:-3}
shift $(($# < 2 ? $# : 2))
gcc -O2 -Wall -o "$out/loop" bench/peers/tap_loop.c
space $a && space $b && space $c
python3 bench/tap.py "$wharf" "$out/loop" "$rounds" "$seconds" $a $b $c "$@"
