#!/usr/bin/env bash
# 64-byte packets through one virtqueue, driver and device on a core each: Wharf's (`virtio-user:` into `vhost-user:`, by
# `wharf bench device`), DPDK's (testpmd txonly over net_virtio_user into net_vhost rxonly), and both mixed pairs, split and
# packed, alternating in one run. DPDK's driver shares its memory with the device and leaves no offload to it; ours does the same
# (`copy=off`, and `offload=off` over DPDK's), but for rows of their own. Prints packets that arrive, medians, and ratios to DPDK with itself by round.
# Needs dpdk-testpmd, root (huge pages) and 2 idle processors; the last two by default.
# ONLY='packed, wharf, copy=on, to wharf;packed, DPDK to DPDK' runs the rows that have one of these texts.
# Usage: bench/virtio.sh [ROUNDS] [SECONDS] [CPU OF THE DEVICE] [CPU OF THE DRIVER]
set -eu
cd "$(dirname "$0")/.."
mapfile -t cpus < <(python3 -c 'import os; print(*sorted(os.sched_getaffinity(0))[-2:], sep="\n")')
[ ${#cpus[@]} -eq 2 ] || { echo "virtio.sh: driver and device want a processor each: two in all" >&2; exit 1; }
rounds=${1:-5} seconds=${2:-3} device=${3:-${cpus[0]}} driver=${4:-${cpus[1]}}

. bench/huge_pages.sh
if [ -z "${WHARF:-}" ]; then
  # DPDK is built for this very processor, for which it has loops of its own; so is Wharf.
  RUSTFLAGS="-C target-cpu=native" cargo build --quiet --release -p wharf-cli -p wharf-bench --target-dir target/native
fi
python3 bench/virtio.py "${WHARF:-target/native/release/wharf}" "$rounds" "$seconds" "$device" "$driver"
