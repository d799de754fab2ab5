#!/usr/bin/env bash
# 64-byte frames (60 and the check sequence) over a veth pair by AF_XDP, copy mode: the least loop that the kernel allows
# (bench/peers/xdp_probe.c), wharf, and DPDK's testpmd over net_af_xdp, alternating in one run, with the sending thread always
# on the same processor. Needs root, gcc, ip, dpdk-testpmd (22.11), python3, 2 processors, 1 GiB of memory.
# Usage: bench/xdp.sh [ROUNDS] [SECONDS] [CPU]
set -eu
cd "$(dirname "$0")/.."
. tests/rig.sh
rounds=${1:-5} seconds=${2:-2} cpu=${3:-1}
gcc -O2 -Wall -o "$out/probe" bench/peers/xdp_probe.c
space $a && space $b
pair $a va $b vb
ip netns exec $a python3 bench/xdp.py "$wharf" "$out/probe" "$rounds" "$seconds" "$cpu"
