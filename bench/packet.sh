#!/usr/bin/env bash
# 64-byte frames (60 and the check sequence) over a veth pair by AF_PACKET: the ceiling of each way that the kernel offers
# (bench/peers/packet_probe.c), wharf, and trafgen, alternating in one run, each pinned to one processor.
# Needs root, gcc, ip, trafgen (netsniff-ng), python3.  Usage: bench/packet.sh [ROUNDS] [SECONDS] [CPU]
set -eu
cd "$(dirname "$0")/.."
. tests/rig.sh
rounds=${1:-5} seconds=${2:-2} cpu=${3:-0}
gcc -O2 -Wall -o "$out/probe" bench/peers/packet_probe.c
space $a && space $b
pair $a va $b vb
ip netns exec $a python3 bench/packet.py "$wharf" "$out/probe" "$out" "$rounds" "$seconds" "$cpu"
