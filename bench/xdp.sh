#!/usr/bin/env bash
# 64-byte frames (60 and the check sequence) over a veth pair by AF_XDP, copy mode: the least loop that the kernel allows
# (bench/peers/xdp_probe.c), wharf, and DPDK's testpmd over net_af_xdp, alternating in one run, the thread that sends always
# on the same processor. Needs root, gcc, ip, dpdk-testpmd (22.11), python3, 2 processors, 1 GiB of memory.
# Usage: bench/xdp.sh [ROUNDS] [SECONDS] [CPU]
set -eu
cd "$(dirname "$0")/.."
rounds=${1:-5} seconds=${2:-2} cpu=${3:-1}
out=$(mktemp -d)
a=wharf-bench-a-$$ b=wharf-bench-b-$$
trap 'ip netns del $a 2>/dev/null; ip netns del $b 2>/dev/null; rm -rf "$out"' EXIT

cargo build --quiet --release -p wharf-cli
wharf=$(cargo metadata --format-version 1 --no-deps | python3 -c 'import json, sys; print(json.load(sys.stdin)["target_directory"])')/release/wharf
gcc -O2 -Wall -o "$out/probe" bench/peers/xdp_probe.c
for space in $a $b; do
  ip netns add $space
  ip netns exec $space sh -c 'for at in all default; do echo 1 >/proc/sys/net/ipv6/conf/$at/disable_ipv6; done' || true
done
ip -n $a link add va type veth peer name vb netns $b
ip -n $a link set va up
ip -n $b link set vb up
ip netns exec $a python3 bench/xdp.py "$wharf" "$out/probe" "$rounds" "$seconds" "$cpu"
