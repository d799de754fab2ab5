#!/usr/bin/env bash
# A switch between two front ends: `wharf forward --config` with three vhost-user ends, Open vSwitch with DPDK in its place, and a
# bridge of the kernel's over TAPs, alternating in one run. Packets: 64-byte frames by DPDK's virtio-user ports, split and packed
# (bench/peers/dpdk_ends.c; net_tap at the bridge). TCP: iperf3 between two namespaces, each behind `wharf forward virtio-user:... tap:...`
# (`tap:... tap:...` at the bridge). The switch has a processor to itself, and everything else shares the other one.
# Needs root (huge pages), dpdk-dev, openvswitch-switch-dpdk, gcc, ip, iperf3, python3 and 2 idle processors; the last two by default. OVS
# runs with files of its own: a service of it must be stopped.
# Usage: bench/switch.sh [ROUNDS] [SECONDS] [CPU OF THE SWITCH] [CPU OF THE FRONT ENDS]
# ONLY=TEXT of a row, such as "64 bytes" or "packed, Mpps wharf", runs the rows that have it.
set -eu
cd "$(dirname "$0")/.."
mapfile -t cpus < <(python3 -c 'import os; print(*sorted(os.sched_getaffinity(0))[-2:], sep="\n")')
[ ${#cpus[@]} -eq 2 ] || { echo "switch.sh: the switch and its front ends want a processor each: two in all" >&2; exit 1; }
rounds=${1:-5} seconds=${2:-3} switch=${3:-${cpus[0]}} ends=${4:-${cpus[1]}}
! pgrep -f "(^|/)ovs-vswitchd" >/dev/null || { echo "switch.sh: stop the ovs-vswitchd that runs" >&2; exit 1; }

if [ -z "${WHARF:-}" ]; then
  # DPDK has loops for this very processor, and picks them as it starts; Wharf is built for it.
  RUSTFLAGS="-C target-cpu=native" cargo build --quiet --release -p wharf-cli --target-dir target/native
  WHARF=target/native/release/wharf
fi
. bench/huge_pages.sh
out=$(mktemp -d) || exit 1
# shellcheck disable=SC2046
gcc -O3 -march=native $(pkg-config --cflags libdpdk) bench/peers/dpdk_ends.c -o "$out/ends" $(pkg-config --libs libdpdk)
python3 bench/switch.py "$(realpath "$WHARF")" "$out" "$rounds" "$seconds" "$switch" "$ends"
