#!/usr/bin/env bash
# 64-byte frames (60 and the check sequence) over a veth pair by AF_PACKET: the ceiling of each way that the kernel has
# (bench/peers/packet_probe.c), wharf, and trafgen, alternating in one run, each pinned to one processor.
# Needs root, gcc, ip, trafgen (netsniff-ng), python3.  Usage: bench/packet.sh [ROUNDS] [SECONDS] [CPU]
set -eu
cd "$(dirname "$0")/.."
rounds=${1:-5} seconds=${2:-2} cpu=${3:-0}
out=$(mktemp -d)
a=wharf-bench-a-$$ b=wharf-bench-b-$$
trap 'ip netns del $a 2>/dev/null; ip netns del $b 2>/dev/null; rm -rf "$out"' EXIT

cargo build --quiet --release -p wharf-cli
wharf=$(cargo metadata --format-version 1 --no-deps | python3 -c 'import json, sys; print(json.load(sys.stdin)["target_directory"])')/release/wharf
gcc -O2 -Wall -o "$out/probe" bench/peers/packet_probe.c
for space in $a $b; do
  ip netns add $space
  ip netns exec $space sh -c 'for at in all default; do echo 1 >/proc/sys/net/ipv6/conf/$at/disable_ipv6; done' || true
done
ip -n $a link add va type veth peer name vb netns $b
ip -n $a link set va up
ip -n $b link set vb up
ip netns exec $a python3 bench/packet.py "$wharf" "$out/probe" "$out" "$rounds" "$seconds" "$cpu"
