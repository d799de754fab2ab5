#!/usr/bin/env bash
# 64-byte frames (60 and the check sequence) between two veth pairs, both ways, by AF_XDP, native hook, copy mode: the least
# loop that the kernel allows (bench/peers/xdp_loop.c), `wharf forward`, and DPDK's testpmd forwarding between two net_af_xdp
# ports, alternating in one run, with the forwarding thread always on the same processor. The load (bench/peers/packet_probe.c)
# comes from the other processors, in turn from each end; packets count when they arrive at the other. Needs root, gcc, ip,
# dpdk-testpmd (22.11), python3, 4 processors, 2 GiB of memory.
# Usage: bench/forward.sh [ROUNDS] [SECONDS] [CPU] [CPU OF A LOAD...]
set -eu
cd "$(dirname "$0")/.."
. tests/rig.sh
rounds=${1:-5} seconds=${2:-2} cpu=${3:-1}
shift $(($# < 3 ? $# : 3))
[ $# -gt 0 ] || set -- 2 3 0
gcc -O2 -Wall -o "$out/loop" bench/peers/xdp_loop.c
gcc -O2 -Wall -o "$out/load" bench/peers/packet_probe.c
space $a && space $b && space $c
pair $a va $c fa
pair $c fb $b vb
python3 bench/forward.py "$wharf" "$out/loop" "$out/load" "$rounds" "$seconds" "$cpu" $a $b $c "$@"
